/* test_spec.c - speculation changes how many tokens a step gives and nothing else: tokens,
 * log-probabilities and text are those of the request alone without it, to the last bit, whatever the
 * sampling, the grammar, the batch, the memory, the company or the draft model.
 *
 * req: C-10, C-11, C-12, B-50 (no lost tokens) */
#include "engine/harness.h"
#include "engine/ngram.h"
#include "gpuemu/host/faulty.h"
#include "gpuemu/host/host.h"

enum { N_REQUESTS = 12, N_VOCAB = 128, N_CTX = 256 };

static char target_path[4096], other_path[4096];

static void keep_paths(const char *target, const char *other) {
    snprintf(target_path, sizeof target_path, "%s", rf_test_data(target));
    snprintf(other_path, sizeof other_path, "%s", rf_test_data(other));
}

static rf_engine_stats stats_of(rf_engine *en) {
    rf_engine_stats s;
    rf_engine_get_stats(en, &s);
    return s;
}

/* ---- looking up ---- */

/* The longest run that ends the text and was there before, by comparing all. */
static uint32_t longest_run(const int32_t *tokens, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t end = 1; end < n; end++) {
        uint32_t k = 0;
        while (k < RF_NGRAM_MAX && k < end && tokens[end - 1 - k] == tokens[n - 1 - k])
            k++;
        best = k > best ? k : best;
    }
    return best < RF_NGRAM_MIN ? 0 : best;
}

/* A guess follows a run that was there before, as it did at one of its places; the longest run is nearly
 * always found, and never a longer one. */
static void guesses_are_found(void **state) {
    (void)state;
    enum { N = 1500, CAP = 8 };
    static int32_t tokens[N];
    uint32_t n_found = 0, n_there = 0, length;
    for (uint64_t noise = 1; noise < 4; noise++) {
        uint64_t random = noise;
        rf_ngram g;
        assert_int_equal(rf_ngram_open(&g, N), RF_OK);
        for (uint32_t n = 0; n < N; n++) {
            int32_t out[CAP];
            uint32_t got = n ? rf_ngram_guess(&g, tokens, n, out, CAP, &length) : 0;
            uint32_t want = longest_run(tokens, n);
            n_there += want > 0;
            n_found += got > 0 && length == want;
            if (got) {
                bool stands = false;
                assert_true(got == CAP && length <= want && length >= RF_NGRAM_MIN);
                for (uint32_t at = length; at < n && !stands; at++) {
                    stands = memcmp(tokens + at - length, tokens + n - length,
                                    length * sizeof *tokens) == 0;
                    for (uint32_t i = 0; stands && i < CAP; i++)
                        stands = out[i] == (at + i < n ? tokens[at + i] : out[at + i - n]);
                }
                assert_true(stands);
            }
            tokens[n] = (int32_t)(rf_test_rand(&random) % (2 + noise * 4));
            if (n > 100 && rf_test_rand(&random) % 4) tokens[n] = tokens[n - 37];
        }
        rf_ngram_close(&g);
    }
    assert_true(n_there > 2000 && n_found * 100 > n_there * 90);
}

static void guesses_have_bounds(void **state) {
    (void)state;
    rf_ngram g;
    int32_t out[4], loop[] = {7, 7, 7};
    uint32_t length;
    assert_int_equal(rf_ngram_open(&g, UINT32_MAX), RF_OK); /* memory does not grow with the text */
    assert_true(g.n_slots <= 1u << 18);
    assert_int_equal(rf_ngram_guess(&g, loop, 1, out, 4, &length), 0);
    assert_int_equal(rf_ngram_guess(&g, loop, 2, out, 4, &length), 0);
    assert_int_equal(rf_ngram_guess(&g, loop, 3, out, 4, &length), 4); /* goes on beyond the end */
    assert_true(length == 2 && out[0] == 7 && out[3] == 7);
    rf_ngram_close(&g);
    rf_alloc_fail_nth(1);
    assert_int_equal(rf_ngram_open(&g, 10), RF_ENOMEM);
    rf_alloc_fail_nth(0);
    rf_ngram_close(&g);
}

/* ---- crowds ---- */

typedef struct job {
    int32_t prompt[MAX_PROMPT];
    size_t n_prompt;
    int32_t max_tokens, min_tokens;
    rf_sampling sampling;
    bool has_grammar, ignore_eos, is_plain, cancelled;
    const char *stop;
    record alone, crowd;
} job;

static job jobs[N_REQUESTS];
static const char grammar_text[] =
    "root ::= (\"the\" | \" and\" | [a-d]+ \"ing\" | \"(\" root \")\")+";

static rf_grammar *open_grammar(rf_engine *en) {
    rf_grammar *g;
    rf_text why;
    if (rf_grammar_open(en, RF_GRAMMAR_GBNF, grammar_text, sizeof grammar_text - 1, &g, &why))
        fail_msg("%s", why.text);
    return g;
}

static rf_request_opts opts_of(const job *j, rf_grammar *g, record *r) {
    rf_request_opts o = request_of(j->prompt, j->n_prompt, j->max_tokens, r);
    o.sampling = j->sampling;
    o.min_tokens = j->min_tokens;
    o.ignore_eos = j->ignore_eos;
    o.no_speculation = j->is_plain;
    o.grammar = j->has_grammar ? g : NULL;
    o.stop = &j->stop;
    o.n_stop = j->stop != NULL;
    o.flow = j->sampling.seed % 3;
    return o;
}

/* A prompt whose parts come again, as those of documents and conversations do. */
static void make_prompt(job *j, uint64_t *noise) {
    size_t period = 3 + rf_test_rand(noise) % 20;
    j->n_prompt = 1 + rf_test_rand(noise) % 70;
    random_tokens(noise, j->prompt, j->n_prompt, N_VOCAB - 3);
    for (size_t i = period; i < j->n_prompt; i++)
        if (rf_test_rand(noise) % 8) j->prompt[i] = j->prompt[i - period];
}

static void choose_sampling(job *j, int i) {
    rf_sampling *s = &j->sampling;
    *s = rf_sampling_default();
    s->seed = (uint64_t)i;
    s->temperature = i % 3 == 0 ? 0 : i % 3 == 1 ? 0.3f : 1.1f;
    s->repeat_penalty = i % 4 == 1 ? 1.2f : 1;
    s->presence_penalty = i % 4 == 2 ? 0.7f : 0;
    s->frequency_penalty = i % 8 == 3 ? 0.2f : 0;
    s->dry_multiplier = i % 5 == 2 ? 1.0f : 0;
    s->mirostat = i % 6 == 4;
    s->mirostat_tau = 1.5f;
    s->xtc_probability = i % 7 == 5 ? 0.5f : 0;
    s->typical_p = i % 7 == 1 ? 0.7f : 1;
    s->top_n_sigma = i % 7 == 2 ? 1.5f : 0;
}

/* Each alone, without guesses, in an engine that does nothing else. */
static void make_jobs(void) {
    uint64_t noise = 7;
    rf_engine *en = open_engine((rf_engine_opts){.model_path = target_path, .max_seqs = 1});
    rf_grammar *g = open_grammar(en);
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < N_REQUESTS; i++) {
        job *j = &jobs[i];
        make_prompt(j, &noise);
        choose_sampling(j, i);
        j->max_tokens = (int32_t)(1 + rf_test_rand(&noise) % 40);
        j->min_tokens = i % 4 == 0 ? 12 : 0;
        j->has_grammar = i % 3 == 2;
        j->is_plain = i == 10;
        j->stop = i % 4 == 2 ? "the" : NULL;
        if (i % 2) { /* nothing ends it early */
            j->max_tokens = i == 9 ? -1 : 80 + j->max_tokens;
            j->ignore_eos = true;
        }
        rf_request_opts o = opts_of(j, g, &j->alone);
        run_request(en, &o);
        assert_int_not_equal(j->alone.finish, RF_FINISH_ERROR);
    }
    rf_engine_stats s = stats_of(en);
    assert_true(s.n_drafted == 0 && s.n_accepted == 0);
    rf_grammar_close(g);
    rf_engine_close(en);
}

static void check_crowd(const rf_engine *en) {
    for (int i = 0; i < N_REQUESTS; i++) {
        job *j = &jobs[i];
        assert_int_equal(j->crowd.n_ends, 1);
        if (j->crowd.finish == RF_FINISH_CANCELLED) { /* what came before is still right */
            assert_true(j->cancelled && j->crowd.n_tokens <= j->alone.n_tokens);
            assert_memory_equal(j->crowd.tokens, j->alone.tokens,
                                j->crowd.n_tokens * sizeof *j->crowd.tokens);
        } else {
            assert_same_answer(&j->crowd, &j->alone);
        }
        j->crowd = (record){0};
        j->cancelled = false;
    }
    assert_all_blocks_free(en);
}

static void add(rf_engine_stats *sum, rf_engine *en) {
    rf_engine_stats s = stats_of(en);
    assert_true(s.n_accepted <= s.n_drafted);
    sum->n_drafted += s.n_drafted;
    sum->n_accepted += s.n_accepted;
    sum->n_preemptions += s.n_preemptions;
}

/* All of them at once, arriving and cancelled at random times. */
static void run_crowd(rf_engine_opts o, uint64_t noise, rf_engine_stats *sum) {
    o.model_path = target_path;
    rf_engine *en = open_engine(o);
    rf_grammar *g = open_grammar(en);
    size_t next = 0;
    for (int worked = 1; next < N_REQUESTS || worked;) {
        for (uint64_t n = rf_test_rand(&noise) % 4; n > 0 && next < N_REQUESTS; n--) {
            job *j = &jobs[(next++ * 7 + noise % 5) % N_REQUESTS];
            if (j->crowd.id) j = &jobs[0];
            for (size_t i = 0; j->crowd.id; i++)
                j = &jobs[i];
            rf_request_opts ro = opts_of(j, g, &j->crowd);
            submit(en, &ro);
        }
        job *victim = &jobs[rf_test_rand(&noise) % N_REQUESTS];
        if (rf_test_rand(&noise) % 32 == 0 && victim->crowd.id && !victim->crowd.n_ends) {
            rf_engine_cancel(en, victim->crowd.id);
            victim->cancelled = true;
        }
        worked = rf_engine_step(en);
        assert_true(worked == 0 || worked == 1);
    }
    check_crowd(en);
    add(sum, en);
    rf_grammar_close(g);
    rf_engine_close(en);
}

static uint64_t n_preemptions; /* of all crowds */

/* The crowd in engines of the given shapes, guesses of a kind. */
static void crowds_of(const char *kind, const char *draft_path, const rf_engine_opts *shapes,
                      size_t n) {
    rf_engine_stats sum = {0};
    for (size_t i = 0; i < n; i++) {
        rf_engine_opts o = shapes[i];
        o.speculate = kind;
        o.draft_model_path = draft_path;
        run_crowd(o, 40 + i, &sum);
    }
    print_message("%llu of %llu guesses right, %llu preemptions\n",
                  (unsigned long long)sum.n_accepted, (unsigned long long)sum.n_drafted,
                  (unsigned long long)sum.n_preemptions);
    assert_true(sum.n_accepted > 20 && sum.n_drafted >= sum.n_accepted);
    n_preemptions += sum.n_preemptions;
}

static void crowds_look_up(void **state) {
    (void)state;
    static const rf_engine_opts shapes[] = {
        {.max_seqs = 1},
        {.max_seqs = 1, .batch_tokens = 1, .draft_min = 4},
        {.max_seqs = 3, .batch_tokens = 5, .draft_min = 1},
        {.max_seqs = 8, .batch_tokens = 40, .draft_min = 5, .n_kv_blocks = 9, .n_threads = 2},
        {.max_seqs = N_REQUESTS, .draft_max = 64, .draft_min = 7, .n_kv_blocks = 40},
    };
    keep_paths("models/llama-gqa.gguf", "models/qwen3.gguf");
    make_jobs();
    crowds_of("ngram", NULL, shapes, RF_COUNT(shapes));
}

static void crowds_with_another_model(void **state) {
    (void)state;
    static const rf_engine_opts shapes[] = {
        {.max_seqs = 3, .batch_tokens = 5, .draft_min = 1},
        {.max_seqs = 6, .batch_tokens = 50, .draft_max = 3, .draft_min = 3, .n_kv_blocks = 8},
    };
    crowds_of("off", other_path, shapes, RF_COUNT(shapes));
    rf_engine_stats sum = {0}; /* one that has learned 64 positions: the rest goes on without it */
    run_crowd(
        (rf_engine_opts){.draft_model_path = rf_test_data("models/gpt2.gguf"), .draft_min = 2}, 50,
        &sum);
    assert_true(sum.n_drafted > 100);
}

static void crowds_with_both(void **state) {
    (void)state;
    static const rf_engine_opts shapes[] = {
        {.max_seqs = 5, .draft_min = 4, .n_kv_blocks = 8, .swap_bytes = 1 << 20},
    };
    crowds_of("ngram", other_path, shapes, RF_COUNT(shapes));
}

static void crowds_with_themselves(void **state) {
    (void)state;
    static const rf_engine_opts shapes[] = {
        {.max_seqs = 7, .draft_max = 64, .draft_min = 9, .n_kv_blocks = 8},
    };
    crowds_of("ngram", target_path, shapes, RF_COUNT(shapes));
    assert_true(n_preemptions > 4);
}

/* A sliding window, and prompts that are attended both ways. */
static void crowds_of_other_models(void **state) {
    (void)state;
    rf_engine_stats sum = {0};
    keep_paths("models/mistral-window.gguf", "models/qwen3.gguf");
    make_jobs();
    run_crowd((rf_engine_opts){.speculate = "ngram", .draft_min = 6}, 1, &sum);
    run_crowd((rf_engine_opts){.draft_model_path = other_path, .draft_min = 4}, 2, &sum);
    assert_true(sum.n_accepted > 20);
    keep_paths("models/chatglm-prefix.gguf", "models/qwen3.gguf");
    make_jobs();
    run_crowd((rf_engine_opts){.speculate = "ngram", .draft_min = 3}, 3, &sum);
}

/* ---- on a GPU, whose kernels run on this processor ---- */

/* fails: of the launches from now on that one does, in the model or in its draft model; 0: none.  Its own
 * draft model knows all that comes, before the fault and after it. */
static void ask_a_gpu(uint64_t fails) {
    const rf_engine_opts eo = {.model_path = target_path,
                               .backend = "gpu",
                               .draft_model_path = target_path,
                               .draft_min = 3,
                               .max_seqs = 2};
    rf_engine *en = open_engine(eo);
    rf_grammar *g = open_grammar(en);
    rf_faulty_launch(fails, fails ? 1 : 0);
    for (int i = 0; i < 2; i++) {
        jobs[i].crowd = (record){0};
        rf_request_opts o = opts_of(&jobs[i], g, &jobs[i].crowd);
        submit(en, &o);
    }
    run_all(en);
    rf_faulty_launch(0, 0);
    for (int i = 0; i < 2; i++)
        assert_same_answer(&jobs[i].crowd, &jobs[i].alone);
    rf_engine_stats s = stats_of(en);
    assert_true(s.n_drafted > 10 && s.n_accepted == s.n_drafted);
    assert_all_blocks_free(en);
    rf_grammar_close(g);
    rf_engine_close(en);
}

/* req: C-09, C-12: the answers are those of the CPU without guesses, also after a fault */
static void guesses_on_a_gpu(void **state) {
#ifdef __SANITIZE_THREAD__
    print_message("skipped: ThreadSanitizer does not know the kernels' fibres\n");
    skip();
#endif
    (void)state;
    uint64_t noise = 5;
    keep_paths("models/llama-gqa.gguf", "models/qwen3.gguf");
    memset(jobs, 0, sizeof jobs);
    rf_engine *en = open_engine((rf_engine_opts){.model_path = target_path, .max_seqs = 1});
    rf_grammar *g = open_grammar(en);
    for (int i = 0; i < 2; i++) {
        job *j = &jobs[i];
        make_prompt(j, &noise);
        choose_sampling(j, i + 1);
        j->max_tokens = 8;
        j->ignore_eos = true;
        j->has_grammar = i % 2;
        rf_request_opts o = opts_of(j, g, &j->alone);
        run_request(en, &o);
    }
    rf_grammar_close(g);
    rf_engine_close(en);
    rf_gpu_driver_set(rf_faulty_gpu(rf_host_gpu()));
    static const uint64_t fails[] = {0, 70};
    for (size_t i = 0; i < RF_COUNT(fails); i++)
        ask_a_gpu(fails[i]);
    rf_gpu_driver_set(NULL);
}

/* ---- a model that drafts for itself ---- */

/* Guesses are made with the request's own sampler, so they are all right, at any temperature; a step
 * gives draft_min + 1 tokens. */
static void own_guesses_are_right(void **state) {
    (void)state;
    enum { N_TOKENS = 60, N_DRAFT = 5 };
    keep_paths("models/llama-gqa.gguf", "models/qwen3.gguf");
    for (int i = 0; i < 6; i++) {
        const rf_engine_opts eo = {.model_path = target_path,
                                   .draft_model_path = target_path,
                                   .draft_max = N_DRAFT,
                                   .draft_min = N_DRAFT};
        rf_engine *en = open_engine(eo);
        rf_grammar *g = open_grammar(en);
        job *j = &jobs[0];
        record r = {0};
        uint64_t noise = 3;
        make_prompt(j, &noise);
        choose_sampling(j, i);
        rf_request_opts o = opts_of(j, i == 5 ? g : NULL, &r);
        o.max_tokens = N_TOKENS;
        o.ignore_eos = true;
        o.stop = NULL;
        o.n_stop = 0;
        submit(en, &o);
        uint32_t n_steps = 0;
        while (rf_engine_step(en) == 1)
            n_steps++;
        assert_int_equal(r.n_tokens, N_TOKENS);
        rf_engine_stats s = stats_of(en);
        assert_true(s.n_drafted == s.n_accepted);
        assert_int_equal(s.n_accepted, N_TOKENS - N_TOKENS / (N_DRAFT + 1));
        assert_int_equal(n_steps, N_TOKENS / (N_DRAFT + 1));
        rf_grammar_close(g);
        rf_engine_close(en);
    }
}

/* ---- another model's guesses ---- */

enum { FEW = 4 };
static const rf_logit_bias few[FEW] = {{9, 1000}, {11, 1000}, {60, 1000}, {90, 1000}};

typedef struct likeliest {
    int32_t next[N_CTX]; /* of the few, behind position i */
} likeliest;

static bool note_likeliest(void *user, size_t first, size_t n, const float *logits) {
    likeliest *l = user;
    for (size_t i = 0; i < n; i++, logits += N_VOCAB) {
        int32_t best = few[0].token;
        for (int k = 1; k < FEW; k++)
            if (logits[few[k].token] > logits[best]) best = few[k].token;
        l->next[first + i] = best;
    }
    return true;
}

/* The guesses are those that the draft model makes from the tokens of the request, wrong ones left
 * behind: counted here from its logits for the whole answer. */
static void guesses_are_the_draft_models(void **state) {
    (void)state;
    enum { N_PROMPT = 45, N_TOKENS = 100, N_DRAFT = 3 };
    int32_t tokens[N_PROMPT + N_TOKENS];
    uint64_t noise = 12;
    random_tokens(&noise, tokens, N_PROMPT, N_VOCAB - 3);
    record r = {0};
    rf_engine *en = open_engine((rf_engine_opts){.model_path = target_path,
                                                 .draft_model_path = other_path,
                                                 .batch_tokens = 64,
                                                 .draft_max = N_DRAFT,
                                                 .draft_min = N_DRAFT});
    rf_request_opts o = request_of(tokens, N_PROMPT, N_TOKENS, &r);
    o.sampling.logit_bias = few;
    o.sampling.n_logit_bias = FEW;
    run_request(en, &o);
    rf_engine_stats s = stats_of(en);
    rf_engine_close(en);
    assert_int_equal(r.n_tokens, N_TOKENS);
    memcpy(tokens + N_PROMPT, r.tokens, N_TOKENS * sizeof *tokens);
    static likeliest l;
    en = open_engine((rf_engine_opts){.model_path = other_path});
    assert_int_equal(rf_engine_logits(en, tokens, N_PROMPT + N_TOKENS, note_likeliest, &l, NULL),
                     ROCMFORGE_OK);
    rf_engine_close(en);
    uint64_t n_drafted = 0, n_accepted = 0;
    for (uint32_t i = 0; i < N_TOKENS; i++) { /* one step each */
        uint32_t k = N_TOKENS - i - 1 < N_DRAFT ? N_TOKENS - i - 1 : N_DRAFT;
        n_drafted += k;
        for (; k > 0 && l.next[N_PROMPT + i - 1] == tokens[N_PROMPT + i]; k--, i++)
            n_accepted++;
    }
    assert_true(n_accepted > 10 && n_accepted < n_drafted / 2);
    assert_true(s.n_accepted == n_accepted && s.n_drafted == n_drafted);
}

/* ---- when it pays ---- */

/* One answer (or n of them at once), after a prompt and with a bias that makes the model repeat one
 * token, or with none. */
static rf_engine_stats answer(rf_engine_opts eo, uint32_t n, float bias, uint32_t *n_steps) {
    enum { N_TOKENS = 120 };
    static record r[16];
    int32_t prompt[60];
    const rf_logit_bias one = {5, bias};
    eo.model_path = target_path;
    eo.max_seqs = 16;
    eo.n_kv_blocks = 16 * N_CTX / 32;
    rf_engine *en = open_engine(eo);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t noise = i;
        r[i] = (record){0};
        random_tokens(&noise, prompt, 60, N_VOCAB - 3);
        rf_request_opts o = request_of(prompt, 60, N_TOKENS, &r[i]);
        o.sampling.temperature = 2;
        o.sampling.top_k = 0;
        o.sampling.seed = i;
        o.sampling.logit_bias = &one;
        o.sampling.n_logit_bias = 1;
        o.ignore_eos = true;
        submit(en, &o);
    }
    for (*n_steps = 0; rf_engine_step(en) == 1;)
        ++*n_steps;
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(r[i].n_tokens, N_TOKENS);
    rf_engine_stats s = stats_of(en);
    rf_engine_close(en);
    return s;
}

static void guesses_are_made_where_they_pay(void **state) {
    (void)state;
    keep_paths("models/llama-gqa.gguf", "models/qwen3.gguf");
    uint32_t plain, repeating, random, crowded;
    rf_engine_opts o = {.speculate = "off"};
    rf_engine_stats s = answer(o, 1, 1000, &plain);
    assert_true(plain == 120 && s.n_drafted == 0);
    o.speculate = "ngram";
    s = answer(o, 1, 1000, &repeating);
    assert_true(s.n_accepted + repeating == 120); /* each right guess saves a step */
    assert_true(repeating < 30 && s.n_accepted * 10 > s.n_drafted * 9);
    s = answer(o, 1, 0, &random); /* where they are wrong they stop soon */
    assert_true(s.n_drafted < 20);
    s = answer(o, 16, 1000, &crowded); /* beside many others they need to be nearly sure */
    assert_true(s.n_drafted - s.n_accepted < 40);
    o = (rf_engine_opts){.draft_model_path = target_path}; /* as slow as the model: it never pays */
    s = answer(o, 1, 1000, &random);
    assert_true(s.n_drafted == 0 && random == 120);
    o = (rf_engine_opts){.draft_model_path = other_path}; /* wrong, then rarely asked again */
    s = answer(o, 1, 0, &random);
    assert_true(s.n_drafted < 40);
    o = (rf_engine_opts){.speculate = "ngram",
                         .backend = "ref"}; /* each row costs the same there */
    s = answer(o, 1, 1000, &random);
    assert_true(s.n_drafted == 0);
}

/* Nobody gives way for a guess, and blocks that one took are there again in the next step: the older of two
 * requests takes the last of 8 blocks with its 129th token, when the guesses of the younger have been
 * reaching for a fourth block for a while, and ends before that gets there itself. */
static void guesses_take_only_free_blocks(void **state) {
    (void)state;
    static const uint32_t n_prompt[] = {64, 27}, n_tokens[] = {68, 100};
    record r[2] = {{0}, {0}};
    int32_t prompt[2][64];
    uint64_t noise = 4;
    rf_engine *en = open_engine((rf_engine_opts){.model_path = target_path,
                                                 .draft_model_path = other_path,
                                                 .draft_min = 16,
                                                 .n_kv_blocks = N_CTX / 32});
    for (int i = 0; i < 2; i++) {
        random_tokens(&noise, prompt[i], n_prompt[i], N_VOCAB - 3);
        rf_request_opts o = request_of(prompt[i], n_prompt[i], (int32_t)n_tokens[i], &r[i]);
        o.sampling.temperature = 1.5f;
        o.sampling.seed = (uint64_t)i;
        o.ignore_eos = true;
        o.no_speculation = i == 0;
        submit(en, &o);
    }
    run_all(en);
    rf_engine_stats s = stats_of(en);
    assert_true(r[0].n_tokens == n_tokens[0] && r[1].n_tokens == n_tokens[1]);
    assert_true(s.n_preemptions == 0 && s.n_drafted > 500 && s.n_accepted < 10);
    assert_all_blocks_free(en);
    rf_engine_close(en);
}

/* Only what the grammar allows is guessed: what followed the prompt's end before is not. */
static void guesses_obey_the_grammar(void **state) {
    (void)state;
    int32_t prompt[] = {1, 2, 3, 4, 5, 1, 2, 3};
    record r = {0};
    rf_text why;
    rf_grammar *g;
    rf_engine *en = open_engine(
        (rf_engine_opts){.model_path = target_path, .speculate = "ngram", .draft_min = 5});
    assert_int_equal(rf_grammar_open(en, RF_GRAMMAR_GBNF, "root ::= \"x\"+", 13, &g, &why), 0);
    rf_request_opts o = request_of(prompt, RF_COUNT(prompt), 40, &r);
    o.grammar = g;
    o.ignore_eos = true;
    run_request(en, &o);
    assert_int_equal(r.n_tokens, 40);
    rf_engine_stats s = stats_of(en);
    assert_true(s.n_accepted > 20 && s.n_accepted == s.n_drafted);
    rf_grammar_close(g);
    rf_engine_close(en);
}

/* ---- counts that the owner of a request is told ---- */

static uint32_t told_drafted, told_accepted;
static void keep_counts(void *user, const rf_event *event) {
    (void)user;
    assert_true(event->n_drafted >= told_drafted && event->n_accepted >= told_accepted);
    assert_true(event->n_accepted <= event->n_drafted);
    told_drafted = event->n_drafted;
    told_accepted = event->n_accepted;
}

static void counts_are_told(void **state) {
    (void)state;
    int32_t prompt[] = {1, 2, 3, 1, 2, 3, 1, 2};
    const rf_logit_bias one = {5, 1000};
    rf_engine *en = open_engine((rf_engine_opts){.model_path = target_path, .speculate = "ngram"});
    for (int i = 0; i < 2; i++) {
        record r = {.then = keep_counts};
        told_drafted = told_accepted = 0;
        rf_request_opts o = request_of(prompt, RF_COUNT(prompt), 50, &r);
        o.sampling.logit_bias = &one;
        o.sampling.n_logit_bias = 1;
        o.no_speculation = i == 1;
        run_request(en, &o);
        rf_engine_stats s = stats_of(en);
        assert_int_equal(told_drafted, i ? 0 : s.n_drafted);
        assert_int_equal(told_accepted, i ? 0 : s.n_accepted);
        assert_true(s.n_accepted > 30);
    }
    rf_engine_close(en);
}

/* ---- what is refused ---- */

static void refuse(rf_engine_opts o, int status, const char *what) {
    rf_engine *en;
    rf_text why;
    o.model_path = target_path;
    assert_int_equal(rf_engine_open(&en, &o, &why), status);
    assert_null(en);
    if (!strstr(why.text, what)) fail_msg("'%s' does not say '%s'", why.text, what);
}

static void wrong_options(void **state) {
    (void)state;
    refuse((rf_engine_opts){.speculate = "magic"}, ROCMFORGE_EARG,
           "no speculation 'magic'; known are ngram and off");
    refuse((rf_engine_opts){.draft_max = 65}, ROCMFORGE_EARG, "at most 64 are possible");
    refuse((rf_engine_opts){.draft_max = 3, .draft_min = 4}, ROCMFORGE_EARG, "4 to 3 guesses");
    refuse((rf_engine_opts){.draft_model_path = "no/such.gguf"}, ROCMFORGE_EIO, "no/such.gguf");
    vocab v = letters(N_VOCAB);
    const char *path = write_model("models/llama-gqa.gguf", "letters.gguf", &v);
    refuse((rf_engine_opts){.draft_model_path = path}, ROCMFORGE_EARG,
           "draft model: token 0 is 'a'");
    v = letters(N_VOCAB - 1);
    path = write_model("models/llama-gqa.gguf", "fewer.gguf", &v);
    refuse((rf_engine_opts){.draft_model_path = path}, ROCMFORGE_EARG,
           "vocabulary has 127 tokens, the model's 128");
    refuse((rf_engine_opts){.draft_model_path = rf_test_data("models/modern-bert.gguf")},
           ROCMFORGE_EARG, "draft model");
    const char *both_ways = rf_test_data("models/chatglm-prefix.gguf");
    refuse((rf_engine_opts){.draft_model_path = both_ways}, ROCMFORGE_EUNSUPPORTED,
           "attend a prompt both ways");
}

/* ---- every allocation fails once ---- */

/* From opening to closing, with guesses of both kinds and a grammar.  What is answered is right. */
static bool whole_life(const record *want) {
    const rf_engine_opts eo = {.model_path = target_path,
                               .speculate = "ngram",
                               .draft_model_path = other_path,
                               .draft_min = 2,
                               .n_threads = 1};
    int32_t prompt[] = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3};
    rf_engine *en = NULL;
    rf_grammar *g = NULL;
    rf_text why;
    record r = {0};
    bool ok = rf_engine_open(&en, &eo, &why) == ROCMFORGE_OK;
    assert_true(ok == (en != NULL));
    ok = ok && rf_grammar_open(en, RF_GRAMMAR_GBNF, grammar_text, sizeof grammar_text - 1, &g,
                               &why) == ROCMFORGE_OK;
    if (ok) {
        rf_request_opts o = request_of(prompt, RF_COUNT(prompt), 12, &r);
        o.grammar = g;
        ok = rf_engine_submit(en, &o, NULL, &why) == ROCMFORGE_OK;
    }
    for (int worked = ok; worked > 0;)
        worked = rf_engine_step(en);
    rf_alloc_fail_nth(0);
    if (ok) assert_int_equal(r.n_ends, 1);
    ok = ok && r.finish != RF_FINISH_ERROR;
    if (ok && want) assert_same_answer(&r, want);
    if (en) assert_all_blocks_free(en);
    rf_grammar_close(g);
    rf_engine_close(en);
    return ok;
}

static void allocation_failures(void **state) {
    (void)state;
    int32_t prompt[] = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3};
    record want = {0};
    rf_engine *en = open_engine((rf_engine_opts){.model_path = target_path});
    rf_grammar *g = open_grammar(en);
    rf_request_opts o = request_of(prompt, RF_COUNT(prompt), 12, &want);
    o.grammar = g;
    run_request(en, &o);
    rf_grammar_close(g);
    rf_engine_close(en);
    rf_alloc_count();
    assert_true(whole_life(&want));
    long n = rf_alloc_count(), n_failed = 0;
    for (long i = 1; i <= n; i++) {
        rf_alloc_fail_nth(i);
        n_failed += !whole_life(&want);
        rf_alloc_fail_nth(0);
    }
    print_message("%ld allocations, %ld failures told\n", n, n_failed);
    assert_true(n_failed > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guesses_are_found),
        cmocka_unit_test(guesses_have_bounds),
        cmocka_unit_test(crowds_look_up),
        cmocka_unit_test(crowds_with_another_model),
        cmocka_unit_test(crowds_with_both),
        cmocka_unit_test(crowds_with_themselves),
        cmocka_unit_test(crowds_of_other_models),
        cmocka_unit_test(guesses_on_a_gpu),
        cmocka_unit_test(own_guesses_are_right),
        cmocka_unit_test(guesses_are_the_draft_models),
        cmocka_unit_test(guesses_are_made_where_they_pay),
        cmocka_unit_test(guesses_take_only_free_blocks),
        cmocka_unit_test(guesses_obey_the_grammar),
        cmocka_unit_test(counts_are_told),
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
