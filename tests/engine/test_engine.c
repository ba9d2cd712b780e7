/* test_engine.c - many requests at once give each of them what it gets alone: tokens,
 * log-probabilities and text, to the last bit, whatever the batch, the threads, the order, the
 * memory or the company.
 *
 * req: B-12 (batch > 1), B-34 (prompts in chunks), B-50 (no lost tokens), C-10, C-11, C-12 */
#include <pthread.h>
#include <sched.h>

#include "base/os.h"
#include "engine/harness.h"

enum { N_REQUESTS = 20, N_VOCAB = 128 };

typedef struct job {
    int32_t prompt[MAX_PROMPT];
    size_t n_prompt;
    int32_t max_tokens;
    rf_sampling sampling;
    record alone, crowd;
    bool grows; /* a short prompt, a long answer that nothing ends early */
    bool cancelled;
} job;

static job jobs[N_REQUESTS];
static char model_path[4096];
static const char *kv_type; /* of the KV cache, in every engine of jobs */

static rf_request_opts opts_of(const job *j, record *r) {
    rf_request_opts o = request_of(j->prompt, j->n_prompt, j->max_tokens, r);
    o.sampling = j->sampling;
    o.ignore_eos = j->grows;
    o.flow = j->sampling.seed % 3;
    o.weight = 1 + (uint32_t)j->sampling.seed % 2;
    o.priority = (int32_t)(j->sampling.seed % 5) - 2;
    return o;
}

/* Requests of every length and with every kind of sampling, some of which share a prompt's start;
 * each runs in an engine of its own. */
static void make_jobs(const char *fixture, bool grow) {
    uint64_t noise = 4;
    snprintf(model_path, sizeof model_path, "%s", rf_test_data(fixture));
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < N_REQUESTS; i++) {
        job *j = &jobs[i];
        j->n_prompt = 1 + rf_test_rand(&noise) % (i % 4 ? 40 : 150);
        random_tokens(&noise, j->prompt, j->n_prompt, N_VOCAB);
        if (i % 5 == 4) memcpy(j->prompt, jobs[i - 4].prompt, sizeof j->prompt);
        j->max_tokens = (int32_t)(1 + rf_test_rand(&noise) % 24);
        j->grows = grow;
        if (grow) {
            j->n_prompt = 1 + j->n_prompt % 40;
            j->max_tokens = i % 6 == 5 ? -1 : j->max_tokens * 6; /* -1: to the context's end */
        }
        j->sampling = rf_sampling_default();
        j->sampling.seed = (uint64_t)i;
        if (i % 3 == 0) j->sampling.temperature = 0;
        if (i % 4 == 1) j->sampling.repeat_penalty = 1.2f;
        if (i % 4 == 2) j->sampling.dry_multiplier = 1;
        if (i % 7 == 3) j->sampling.mirostat = true;
        rf_engine *en = open_engine((rf_engine_opts){.model_path = model_path, .kv_type = kv_type});
        rf_request_opts o = opts_of(j, &j->alone);
        run_request(en, &o);
        assert_int_equal(j->alone.n_prompt, j->n_prompt);
        assert_int_equal(j->alone.n_cached, 0);
        assert_true(j->alone.finish == RF_FINISH_LENGTH || j->alone.finish == RF_FINISH_STOP);
        if (j->alone.finish == RF_FINISH_LENGTH)
            assert_int_equal(j->alone.n_tokens,
                             j->max_tokens > 0 ? (uint32_t)j->max_tokens : 256 - j->n_prompt);
        assert_all_blocks_free(en);
        rf_engine_close(en);
    }
}

static void forget_jobs(void) {
    for (int i = 0; i < N_REQUESTS; i++) {
        jobs[i].alone = (record){0};
        jobs[i].crowd = (record){0};
    }
}

static void forget_crowd(void) {
    for (int i = 0; i < N_REQUESTS; i++) {
        jobs[i].crowd = (record){0};
        jobs[i].cancelled = false;
    }
}

static void check_crowd(const rf_engine *en) {
    for (int i = 0; i < N_REQUESTS; i++) {
        const job *j = &jobs[i];
        assert_int_equal(j->crowd.n_ends, 1);
        if (j->crowd.finish == RF_FINISH_CANCELLED) { /* what came before is still right */
            assert_true(j->cancelled && j->crowd.n_tokens <= j->alone.n_tokens);
            assert_memory_equal(j->crowd.tokens, j->alone.tokens,
                                j->crowd.n_tokens * sizeof *j->crowd.tokens);
            continue;
        }
        assert_same_answer(&j->crowd, &j->alone);
    }
    assert_all_blocks_free(en);
}

/* ---- one thread, random arrivals and cancels ---- */

static rf_engine_stats run_crowd(rf_engine_opts o, uint64_t noise) {
    o.model_path = model_path;
    o.kv_type = kv_type;
    rf_engine *en = open_engine(o);
    int order[N_REQUESTS], next = 0;
    for (int i = 0; i < N_REQUESTS; i++) {
        int k = (int)(rf_test_rand(&noise) % (uint64_t)(i + 1));
        order[i] = order[k];
        order[k] = i;
    }
    for (int worked = 1; next < N_REQUESTS || worked;) {
        for (uint64_t n = rf_test_rand(&noise) % 4; n > 0 && next < N_REQUESTS; n--) {
            job *j = &jobs[order[next++]];
            rf_request_opts ro = opts_of(j, &j->crowd);
            submit(en, &ro);
        }
        job *victim = &jobs[rf_test_rand(&noise) % N_REQUESTS];
        if (rf_test_rand(&noise) % 16 == 0 && victim->crowd.id && !victim->crowd.n_ends) {
            rf_engine_cancel(en, victim->crowd.id); /* waiting or running */
            victim->cancelled = true;
        }
        rf_engine_cancel(en, UINT64_MAX);
        worked = rf_engine_step(en);
        assert_true(worked == 0 || worked == 1);
    }
    check_crowd(en);
    rf_engine_stats stats;
    rf_engine_get_stats(en, &stats);
    assert_true(stats.swap_used == 0 && stats.n_swapped_in <= stats.n_swapped_out);
    assert_true(o.swap_bytes > 0 || stats.n_swapped_out == 0);
    rf_engine_close(en);
    forget_crowd();
    return stats;
}

static void crowds_of(const char *fixture) {
    make_jobs(fixture, false);
    for (uint64_t round = 0; round < 4; round++) {
        uint64_t noise = round * 10;
        run_crowd((rf_engine_opts){.batch_tokens = 1, .max_seqs = 1}, noise);
        run_crowd((rf_engine_opts){.batch_tokens = 1, .max_seqs = 4}, noise + 1);
        run_crowd((rf_engine_opts){.batch_tokens = 5, .max_seqs = 3, .n_threads = 2}, noise + 2);
        run_crowd((rf_engine_opts){.batch_tokens = 64, .max_seqs = N_REQUESTS}, noise + 3);
        run_crowd((rf_engine_opts){.batch_tokens = 23, .n_kv_blocks = 8},
                  noise + 4); /* little KV */
        run_crowd((rf_engine_opts){.batch_tokens = 33, .n_threads = 3}, noise + 5);
    }
    forget_jobs();
}

static void crowds_llama(void **state) { (void)state, crowds_of("models/llama-gqa.gguf"); }
static void crowds_qwen3(void **state) { (void)state, crowds_of("models/qwen3.gguf"); }
static void crowds_window(void **state) { (void)state, crowds_of("models/mistral-window.gguf"); }

/* Answers that outgrow the KV cache together: they give way, wait and go on, and nobody can tell; with
 * host memory for all that they had computed, for some of it, for less than a block, and for none. */
static void preemptions_of(const char *fixture, const char *type) {
    uint64_t n_preemptions = 0, n_swapped_in = 0;
    kv_type = type;
    make_jobs(fixture, true);
    for (uint64_t round = 0; round < 4; round++) {
        static const rf_engine_opts tight[] = {
            {.batch_tokens = 6, .max_seqs = 6, .n_kv_blocks = 8, .n_threads = 1},
            {.batch_tokens = 9, .max_seqs = 8, .n_kv_blocks = 9, .n_threads = 2},
            {.batch_tokens = 64, .max_seqs = 5, .n_kv_blocks = 11, .n_threads = 3},
            {.batch_tokens = 256, .max_seqs = N_REQUESTS, .n_kv_blocks = 13, .n_threads = 2},
        };
        static const uint64_t swap_bytes[] = {0, UINT64_MAX, 40000, 1};
        for (size_t i = 0; i < RF_COUNT(tight); i++) {
            rf_engine_opts o = tight[i];
            o.swap_bytes = swap_bytes[(round + i) % RF_COUNT(swap_bytes)];
            rf_engine_stats stats = run_crowd(o, 100 + round * RF_COUNT(tight) + i);
            assert_true(stats.n_preemptions > 0);
            n_preemptions += stats.n_preemptions;
            n_swapped_in += stats.n_swapped_in;
        }
    }
    print_message("%llu preemptions, %llu blocks swapped in\n", (unsigned long long)n_preemptions,
                  (unsigned long long)n_swapped_in);
    assert_true(n_preemptions > 40 && n_swapped_in > 10);
    rf_engine_stats wide = run_crowd((rf_engine_opts){.n_kv_blocks = 8 * N_REQUESTS}, 99);
    assert_int_equal(wide.n_preemptions, 0);
    forget_jobs();
    kv_type = NULL;
}

static void preemptions_llama(void **state) {
    (void)state, preemptions_of("models/llama-gqa.gguf", NULL);
}
static void preemptions_q8_0(void **state) {
    (void)state, preemptions_of("models/qwen3.gguf", "q8_0,bf16");
}
static void preemptions_window(void **state) {
    (void)state, preemptions_of("models/mistral-window.gguf", NULL);
}

/* Three requests without a limit share a cache that holds one of them.  The oldest has a token from
 * every step; the others go on later, and what is told of their prompt is that of their start. */
static void the_oldest_never_waits(void **state) {
    (void)state;
    const char *path = rf_test_data("models/qwen3.gguf");
    int32_t prompt[3][40];
    uint64_t noise = 21;
    record r[3] = {{0}, {0}, {0}};
    rf_engine *en = open_engine((rf_engine_opts){.model_path = path, .n_kv_blocks = 8});
    rf_engine_stats stats;
    for (int i = 0; i < 3; i++) {
        random_tokens(&noise, prompt[i], 40, N_VOCAB);
        rf_request_opts o = request_of(prompt[i], 40, -1, &r[i]);
        o.ignore_eos = true;
        submit(en, &o);
    }
    for (uint32_t step = 1; !r[0].n_ends; step++) {
        assert_int_equal(rf_engine_step(en), 1);
        assert_int_equal(r[0].n_tokens, step);
        rf_engine_get_stats(en, &stats);
        if (stats.n_preemptions == 0) { /* two of 2 blocks and 1 ahead; no room for a third */
            assert_int_equal(stats.n_running, 2);
            assert_int_equal(stats.n_waiting, 1);
            assert_int_equal(stats.kv_hits + stats.kv_misses, 2); /* waiting is no lookup */
        }
    }
    assert_true(stats.n_preemptions > 0);
    assert_true(!r[1].n_ends && !rf_engine_is_running(en, r[1].id));
    run_all(en);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r[i].n_tokens, 256 - 40);
        assert_int_equal(r[i].finish, RF_FINISH_LENGTH);
        assert_int_equal(r[i].n_cached, 0);
    }
    assert_all_blocks_free(en);
    rf_engine_close(en);
}

static size_t n_over;
static void count_over(void *user, const rf_event *event) {
    if (event->finish != RF_FINISH_NONE) *(size_t *)user = ++n_over;
}

/* One at a time: flows take turns, within one the lowest priority number goes first.  req: C-12 */
static void turns(void **state) {
    (void)state;
    const char *path = rf_test_data("models/qwen2.gguf");
    static const struct {
        uint64_t flow;
        int32_t priority;
        size_t turn;
    } jobs_of[] = {{7, 0, 3}, {7, 0, 4}, {7, 1, 5}, {7, -1, 1}, {9, 100, 2}, {9, 100, 6}};
    enum { N = RF_COUNT(jobs_of) };
    int32_t prompt[N][20];
    record r[N] = {0};
    size_t turn[N] = {0};
    uint64_t noise = 31;
    rf_engine *en = open_engine((rf_engine_opts){.model_path = path, .max_seqs = 1});
    for (int i = 0; i < N; i++) {
        random_tokens(&noise, prompt[i], 20, N_VOCAB);
        rf_request_opts o = request_of(prompt[i], 20, 30, &r[i]);
        o.ignore_eos = true;
        o.flow = jobs_of[i].flow;
        o.priority = jobs_of[i].priority;
        o.weight = o.flow == 7 ? 3 : 1;
        r[i].then = count_over;
        r[i].user = &turn[i];
        submit(en, &o);
    }
    n_over = 0;
    run_all(en);
    for (int i = 0; i < N; i++) {
        assert_int_equal(r[i].n_tokens, 30);
        assert_int_equal(turn[i], jobs_of[i].turn);
    }
    rf_engine_close(en);
}

/* Late ones end as they are, waiting or running; those in time do not notice. */
static void timeouts(void **state) {
    (void)state;
    const char *path = rf_test_data("models/qwen2.gguf");
    int32_t prompt[20];
    uint64_t noise = 32;
    random_tokens(&noise, prompt, 20, N_VOCAB);
    record r[3] = {0};
    static const uint32_t limit[] = {0, UINT32_MAX, 1};
    rf_engine *en = open_engine((rf_engine_opts){.model_path = path, .max_seqs = 2});
    for (int i = 0; i < 3; i++) {
        rf_request_opts o = request_of(prompt, 20, 10, &r[i]);
        o.ignore_eos = true;
        o.timeout_ms = limit[i];
        submit(en, &o);
    }
    for (uint64_t start = rf_time_us(); rf_time_us() - start < 1000;) {
    }
    run_all(en);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r[i].finish, RF_FINISH_LENGTH);
        assert_int_equal(r[i].n_tokens, i < 2 ? 10 : 0);
    }
    record late = {0};
    rf_request_opts o = request_of(prompt, 20, -1, &late);
    o.ignore_eos = true;
    o.timeout_ms = 1;
    submit(en, &o);
    assert_true(rf_engine_step(en) >= 0); /* slower machines end it here, without a token */
    for (uint64_t start = rf_time_us(); rf_time_us() - start < 1000;) {
    }
    run_all(en);
    assert_int_equal(late.finish, RF_FINISH_LENGTH);
    assert_true(late.n_tokens <= 1);
    assert_all_blocks_free(en);
    rf_engine_close(en);
}

/* ---- several threads: one steps, others submit, cancel and ask ---- */

typedef struct crew {
    rf_engine *en;
    pthread_mutex_t lock; /* guards next and the ids */
    int next, n_busy;
} crew;

static void *submitter(void *arg) {
    crew *c = arg;
    for (;;) {
        pthread_mutex_lock(&c->lock);
        int i = c->next < N_REQUESTS ? c->next++ : -1;
        if (i < 0) c->n_busy--;
        pthread_mutex_unlock(&c->lock);
        if (i < 0) return NULL;
        job *j = &jobs[i];
        rf_request_opts o = opts_of(j, &j->crowd);
        uint64_t id = 0;
        rf_text why;
        if (rf_engine_submit(c->en, &o, &id, &why) != ROCMFORGE_OK) abort();
        if (i % 4 == 3) { /* at once, or a little later, while it may run or be over */
            j->cancelled = true;
            for (int k = 0; k < i * 20; k++)
                sched_yield();
            rf_engine_cancel(c->en, id);
        }
        rf_engine_info info;
        rf_engine_get_info(c->en, &info);
        int32_t ids[32];
        size_t n;
        if (info.kv_blocks_free > info.kv_blocks ||
            rf_engine_tokenize(c->en, "the thing", 9, true, true, ids, 32, &n, NULL) != 0)
            abort();
    }
}

/* req: B-14 to B-19 (sharing between threads), B-26, C-18 */
static void threads(void **state) {
    (void)state;
    make_jobs("models/qwen2.gguf", false);
    for (int round = 0; round < 3; round++) {
        crew c = {.next = 0, .n_busy = 2};
        c.en = open_engine((rf_engine_opts){
            .model_path = model_path, .batch_tokens = 16, .n_threads = 1 + round % 2});
        assert_int_equal(pthread_mutex_init(&c.lock, NULL), 0);
        pthread_t thread[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, submitter, &c), 0);
        for (bool busy = true; busy;) {
            pthread_mutex_lock(&c.lock);
            busy = c.n_busy > 0;
            pthread_mutex_unlock(&c.lock);
            int worked = rf_engine_step(c.en);
            assert_true(worked == 0 || worked == 1);
            busy = busy || worked;
        }
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_join(thread[i], NULL), 0);
        run_all(c.en);
        check_crowd(c.en);
        rf_engine_close(c.en);
        pthread_mutex_destroy(&c.lock);
        forget_crowd();
    }
    forget_jobs();
}

/* ---- reuse of prefixes ---- */

static void prefix_reuse(void **state) {
    (void)state;
    const char *path = rf_test_data("models/llama-gqa.gguf");
    int32_t prompt[100];
    uint64_t noise = 8;
    random_tokens(&noise, prompt, 100, N_VOCAB);
    rf_engine *en = open_engine((rf_engine_opts){.model_path = path, .batch_tokens = 37});
    record first = {0}, again = {0}, longer = {0}, fork = {0}, fresh = {0};
    rf_request_opts o = request_of(prompt, 100, 30, &first);
    run_request(en, &o);
    assert_int_equal(first.n_cached, 0);
    o.user = &again;
    run_request(en, &o);
    assert_int_equal(again.n_cached, 96); /* three whole blocks of 32 */
    assert_same_answer(&first, &again);
    /* a conversation goes on: the answer is part of the prefix too */
    int32_t both[140];
    memcpy(both, prompt, sizeof prompt);
    memcpy(both + 100, first.tokens, 30 * sizeof *both);
    o = request_of(both, 130, 5, &longer);
    run_request(en, &o);
    assert_int_equal(longer.n_cached, 128);
    /* one token differs in the second block: only the first may be reused */
    prompt[40] = (prompt[40] + 1) % N_VOCAB;
    o = request_of(prompt, 100, 30, &fork);
    run_request(en, &o);
    assert_int_equal(fork.n_cached, 32);
    rf_engine_close(en);
    en = open_engine((rf_engine_opts){.model_path = path});
    o.user = &fresh;
    run_request(en, &o);
    assert_same_answer(&fork, &fresh);
    fresh = (record){0};
    o = request_of(both, 130, 5, &fresh);
    run_request(en, &o);
    assert_same_answer(&longer, &fresh);
    assert_all_blocks_free(en);
    rf_engine_close(en);
}

/* ---- whole-sequence logits ---- */

typedef struct grabbed {
    float logits[64][N_VOCAB];
    size_t n, stop_at;
} grabbed;

static bool grab(void *user, size_t first, size_t n, const float *logits) {
    grabbed *g = user;
    assert_int_equal(first, g->n);
    assert_true(n > 0 && g->n + n <= 64);
    memcpy(g->logits[first], logits, n * sizeof g->logits[0]);
    g->n += n;
    return g->n < g->stop_at;
}

/* rf_engine_logits and the step-by-step way see the same numbers. */
static void logits_of_a_sequence(void **state) {
    (void)state;
    static grabbed all, part;
    const char *path = rf_test_data("models/qwen3.gguf");
    int32_t tokens[64];
    uint64_t noise = 3;
    random_tokens(&noise, tokens, 20, N_VOCAB);
    rf_engine *en = open_engine((rf_engine_opts){.model_path = path, .batch_tokens = 7});
    record r = {0};
    rf_request_opts o = request_of(tokens, 20, 30, &r);
    run_request(en, &o);
    memcpy(tokens + 20, r.tokens, 30 * sizeof *tokens);
    all.stop_at = part.stop_at = 1000;
    rf_text why;
    assert_int_equal(rf_engine_logits(en, tokens, 50, grab, &all, &why), ROCMFORGE_OK);
    assert_int_equal(all.n, 50);
    for (int i = 0; i < 30; i++) {
        const float *row = all.logits[19 + i];
        double sum = 0;
        int best = 0;
        for (int k = 0; k < N_VOCAB; k++) {
            sum += exp((double)row[k]);
            best = row[k] > row[best] ? k : best;
        }
        assert_int_equal(best, r.tokens[i]);
        assert_true(fabs((double)row[best] - log(sum) - (double)r.logprobs[i]) < 1e-5);
    }
    assert_all_blocks_free(en);
    rf_engine_close(en);
    en = open_engine((rf_engine_opts){.model_path = path, .batch_tokens = 300, .n_threads = 2});
    assert_int_equal(rf_engine_logits(en, tokens, 50, grab, &part, &why), ROCMFORGE_OK);
    assert_memory_equal(&all, &part, sizeof all); /* however it is cut into batches */
    part = (grabbed){.stop_at = 1};
    assert_int_equal(rf_engine_logits(en, tokens, 50, grab, &part, &why), ROCMFORGE_ECANCELLED);
    assert_all_blocks_free(en);
    assert_int_equal(rf_engine_logits(en, tokens, 0, grab, &part, &why), ROCMFORGE_EARG);
    assert_int_equal(rf_engine_logits(en, tokens, 257, grab, &part, &why), ROCMFORGE_EFULL);
    tokens[7] = N_VOCAB;
    assert_int_equal(rf_engine_logits(en, tokens, 50, grab, &part, &why), ROCMFORGE_EARG);
    assert_non_null(strstr(why.text, "token 7 is 128"));
    rf_engine_close(en);
}

/* The reference backend tells the same story within rounding, and runs requests just as well. */
static void reference_backend(void **state) {
    (void)state;
    const char *path = rf_test_data("models/llama-mha.gguf");
    int32_t prompt[10];
    uint64_t noise = 12;
    random_tokens(&noise, prompt, 10, N_VOCAB);
    record r[2] = {{0}, {0}};
    static const char *const names[] = {"cpu", "ref"};
    for (int i = 0; i < 2; i++) {
        rf_engine *en = open_engine(
            (rf_engine_opts){.model_path = path, .backend = names[i], .kv_type = "f32"});
        rf_request_opts o = request_of(prompt, 10, 8, &r[i]);
        o.ignore_eos = true;
        run_request(en, &o);
        rf_engine_info info;
        rf_engine_get_info(en, &info);
        assert_non_null(strstr(info.backend, names[i]));
        rf_engine_close(en);
    }
    assert_int_equal(r[0].n_tokens, 8);
    assert_memory_equal(r[0].tokens, r[1].tokens, 8 * sizeof *r[0].tokens);
    for (int i = 0; i < 8; i++)
        assert_true(fabsf(r[0].logprobs[i] - r[1].logprobs[i]) < 1e-3f);
}

/* A prefix is found by requests of its own salt only, and no answer depends on that. */
static void prefix_salts(void **state) {
    (void)state;
    static const uint64_t salt[] = {0, 1, 0, 1, 2, UINT64_MAX, 2, UINT64_MAX};
    static const uint32_t cached[] = {0, 0, 64, 64, 0, 0, 64, 64};
    enum { N = RF_COUNT(salt) };
    record r[N] = {{0}};
    int32_t prompt[70];
    uint64_t noise = 9;
    random_tokens(&noise, prompt, 70, N_VOCAB);
    rf_engine *en = open_engine((rf_engine_opts){.model_path = rf_test_data("models/qwen3.gguf")});
    for (int i = 0; i < N; i++) {
        rf_request_opts o = request_of(prompt, 70, 10, &r[i]);
        o.prefix_salt = salt[i];
        run_request(en, &o);
        assert_int_equal(r[i].n_cached, cached[i]);
        assert_same_answer(&r[i], &r[0]);
    }
    assert_all_blocks_free(en);
    rf_engine_close(en);
}

/* With so many answers over so large a vocabulary all threads choose, each its own request's token. */
static void choosing_together(void **state) {
    (void)state;
    enum { N = 48, N_TOKENS = 5 };
    static record alone[N], crowd[N];
    static const rf_logit_bias bias[] = {{300, -2}, {301, -INFINITY}};
    static const int32_t prompt[] = {1, 400, 30, 700};
    memset(alone, 0, sizeof alone);
    memset(crowd, 0, sizeof crowd);
    for (int is_crowd = 0; is_crowd < 2; is_crowd++) {
        rf_engine *en =
            open_engine((rf_engine_opts){.model_path = rf_test_data("../../models/demo.gguf"),
                                         .n_ctx = 64,
                                         .n_kv_blocks = N * 2,
                                         .max_seqs = N,
                                         .n_threads = is_crowd ? 3 : 1});
        for (uint32_t i = 0; i < N; i++) {
            rf_request_opts o =
                request_of(prompt, RF_COUNT(prompt), N_TOKENS, is_crowd ? &crowd[i] : &alone[i]);
            o.n_logprobs = i % 5 ? -1 : 3;
            o.min_tokens = i % 3 ? 0 : N_TOKENS;
            o.sampling.seed = i;
            o.sampling.temperature = i % 6 ? 1.5f : 0;
            o.sampling.top_k = i % 6 == 1 || i % 6 == 2 ? 0 : 40;
            o.sampling.top_p = i % 6 == 1 ? 1 : 0.9f;
            o.sampling.min_p = i % 6 == 3 ? 0.05f : 0;
            o.sampling.repeat_penalty = i % 6 == 4 ? 1.2f : 1;
            if (i % 6 == 5) o.sampling.logit_bias = bias, o.sampling.n_logit_bias = RF_COUNT(bias);
            submit(en, &o);
            if (!is_crowd) run_all(en);
        }
        run_all(en);
        rf_engine_close(en);
    }
    for (uint32_t i = 0; i < N; i++)
        assert_same_answer(&alone[i], &crowd[i]);
    assert_memory_not_equal(crowd[1].tokens, crowd[7].tokens, sizeof *crowd[1].tokens * N_TOKENS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crowds_llama),
        cmocka_unit_test(crowds_qwen3),
        cmocka_unit_test(crowds_window),
        cmocka_unit_test(preemptions_llama),
        cmocka_unit_test(preemptions_window),
        cmocka_unit_test(preemptions_q8_0),
        cmocka_unit_test(the_oldest_never_waits),
        cmocka_unit_test(turns),
        cmocka_unit_test(timeouts),
        cmocka_unit_test(threads),
        cmocka_unit_test(prefix_reuse),
        cmocka_unit_test(prefix_salts),
        cmocka_unit_test(logits_of_a_sequence),
        cmocka_unit_test(reference_backend),
        cmocka_unit_test(choosing_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
