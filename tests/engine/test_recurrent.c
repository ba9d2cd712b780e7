/* test_recurrent.c - the engine over models whose layers keep a state: reuse of prefixes by snapshots, giving
 * way and going on, saved states, and what such models refuse.
 *
 * However the engine is loaded, an answer is the one of the same request alone.
 *
 * req: C-10, C-13, B-24 */
#include "engine/harness.h"
#include "gpuemu/host/host.h"
#include "lib/run.h"

/* The host device runs kernels as fibres, which ThreadSanitizer does not know. */
#if defined(__SANITIZE_THREAD__)
#define NO_FIBRES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NO_FIBRES 1
#endif
#endif
#if !defined(NO_FIBRES)
#define NO_FIBRES 0
#endif

enum { N_VOCAB = 128, N_REQUESTS = 8 };

static const char *const models[] = {"qwen3next", "nemotron_h"};

static const char *path_of(const char *name) {
    char relative[64];
    snprintf(relative, sizeof relative, "models/%s.gguf", name);
    return rf_test_data(relative);
}

static rf_engine *open_model(const char *name, rf_engine_opts o) {
    o.model_path = path_of(name);
    return open_engine(o);
}

/* Answers from one request at a time, each in an engine of its own. */
static void answer_alone(const char *name, const int32_t *prompt, size_t n, int32_t max_tokens,
                         record *r) {
    rf_engine *en = open_model(name, (rf_engine_opts){.max_seqs = 1});
    rf_request_opts o = request_of(prompt, n, max_tokens, r);
    o.ignore_eos = true;
    run_request(en, &o);
    rf_engine_close(en);
}

/* The likeliest tokens by logits of the whole text at once spell the answer. */
static void answers_are_spelled_by_the_logits(void **state) {
    (void)state;
    for (size_t m = 0; m < RF_COUNT(models); m++) {
        enum { N_PROMPT = 45, N_ANSWER = 40 };
        int32_t text[N_PROMPT + N_ANSWER];
        uint64_t noise = 3;
        record r = {0};
        random_tokens(&noise, text, N_PROMPT, N_VOCAB);
        answer_alone(models[m], text, N_PROMPT, N_ANSWER, &r);
        assert_int_equal(r.n_tokens, N_ANSWER);
        memcpy(text + N_PROMPT, r.tokens, sizeof(int32_t) * N_ANSWER);
        rf_test_run run;
        static float logits[(N_PROMPT + N_ANSWER) * N_VOCAB];
        rf_test_run_open(&run, &rf_cpu_ops, path_of(models[m]),
                         (rf_test_run_opts){.kv_type = RF_DT_F16, .n_threads = 1});
        rf_test_run_text(&run, text, N_PROMPT + N_ANSWER, N_PROMPT + N_ANSWER, logits);
        for (uint32_t i = 0; i < N_ANSWER; i++) {
            const float *row = logits + (N_PROMPT - 1 + i) * N_VOCAB;
            for (uint32_t v = 0; v < N_VOCAB; v++)
                assert_true(row[v] <= row[r.tokens[i]]);
        }
        rf_test_run_close(&run);
    }
}

/* Runs a prompt and says how many of its tokens were reused; the answer is the one alone. */
static uint32_t n_reused(rf_engine *en, const char *name, const int32_t *prompt, size_t n) {
    static record alone, r;
    memset(&alone, 0, sizeof alone);
    memset(&r, 0, sizeof r);
    answer_alone(name, prompt, n, 40, &alone);
    rf_request_opts o = request_of(prompt, n, 40, &r);
    o.ignore_eos = true;
    run_request(en, &o);
    assert_same_answer(&r, &alone);
    return r.n_cached;
}

/* A prompt again, its continuation after the answer, and others that part from it. */
static void prefixes_go_on_from_snapshots(void **state) {
    (void)state;
    for (size_t m = 0; m < RF_COUNT(models); m++) {
        int32_t prompt[200], other[200];
        uint64_t noise = 5;
        record r = {0};
        rf_engine *en = open_model(models[m], (rf_engine_opts){.max_seqs = 2});
        random_tokens(&noise, prompt, 200, N_VOCAB);
        random_tokens(&noise, other, 200, N_VOCAB);
        memcpy(other, prompt, 70 * sizeof *other);
        assert_int_equal(n_reused(en, models[m], prompt, 100), 0);
        assert_int_equal(n_reused(en, models[m], prompt, 100), 96); /* its last full block */
        assert_int_equal(n_reused(en, models[m], prompt, 97), 96);
        assert_int_equal(n_reused(en, models[m], other, 90), 0); /* parts within a block */
        other[80]++, other[80] %= N_VOCAB;
        assert_int_equal(n_reused(en, models[m], other, 90), 64); /* where the last one parted */
        answer_alone(models[m], prompt, 100, 40, &r);
        memcpy(prompt + 100, r.tokens, 40 * sizeof *prompt);
        assert_int_equal(n_reused(en, models[m], prompt, 145), 128); /* into the answer */
        assert_all_blocks_free(en);
        rf_engine_close(en);
    }
}

static void make_prompts(int32_t prompts[N_REQUESTS][120], size_t n[N_REQUESTS]) {
    uint64_t noise = 11;
    for (int i = 0; i < N_REQUESTS; i++) {
        n[i] = 1 + rf_test_rand(&noise) % 110;
        random_tokens(&noise, prompts[i], 120, N_VOCAB);
        if (i % 2) memcpy(prompts[i], prompts[i - 1], 40 * sizeof **prompts);
    }
}

/* Little memory, little room in a batch, prompts that come again: the same answers, whether those that
 * give way leave their states and blocks in host memory, as far as there is room, or not. */
static void load_changes_nothing(void **state) {
    (void)state;
    static const uint64_t room[] = {0, 60000};
    static record alone[N_REQUESTS], crowd[N_REQUESTS];
    static int32_t prompts[N_REQUESTS][120];
    size_t n[N_REQUESTS];
    make_prompts(prompts, n);
    for (size_t k = 0; k < RF_COUNT(models) * RF_COUNT(room); k++) {
        size_t m = k / RF_COUNT(room);
        uint64_t swap_bytes = room[k % RF_COUNT(room)];
        if (swap_bytes == 0) memset(alone, 0, sizeof alone);
        for (int i = 0; i < N_REQUESTS && swap_bytes == 0; i++)
            answer_alone(models[m], prompts[i], n[i], 60, &alone[i]);
        rf_engine *en = open_model(models[m], (rf_engine_opts){.batch_tokens = 23,
                                                               .max_seqs = 4,
                                                               .n_ctx = 192,
                                                               .n_kv_blocks = 9,
                                                               .n_threads = 2,
                                                               .swap_bytes = swap_bytes});
        for (int round = 0; round < 2; round++) {
            memset(crowd, 0, sizeof crowd);
            for (int i = 0; i < N_REQUESTS; i++) {
                rf_request_opts o = request_of(prompts[i], n[i], 60, &crowd[i]);
                o.ignore_eos = true;
                submit(en, &o);
                if (i % 3 == round) rf_engine_step(en);
                if (i % 4 == 3) rf_engine_cancel(en, crowd[i].id);
            }
            run_all(en);
            for (int i = 0; i < N_REQUESTS; i++)
                if (i % 4 != 3) assert_same_answer(&crowd[i], &alone[i]);
        }
        rf_engine_stats stats;
        rf_engine_get_stats(en, &stats);
        assert_true(stats.n_preemptions > 0 && stats.kv_hits > 0);
        assert_int_equal(stats.n_swapped_in > 0, swap_bytes > 0);
        assert_true(stats.swap_used == 0);
        assert_all_blocks_free(en);
        rf_engine_close(en);
    }
}

typedef struct seen {
    float *logits; /* [n][N_VOCAB] */
} seen;

static bool see(void *user, size_t first, size_t n, const float *logits) {
    memcpy(((seen *)user)->logits + first * N_VOCAB, logits, n * N_VOCAB * sizeof *logits);
    return true;
}

/* Texts that are scored, before and after requests, and vectors of texts. */
static void texts_are_viewed_and_embedded(void **state) {
    (void)state;
    for (size_t m = 0; m < RF_COUNT(models); m++) {
        static float first[70 * N_VOCAB], again[70 * N_VOCAB], vectors[2][3][256];
        int32_t text[70];
        uint64_t noise = 8;
        rf_text why;
        record r = {0};
        rf_engine_info info;
        random_tokens(&noise, text, 70, N_VOCAB);
        rf_engine *en = open_model(models[m], (rf_engine_opts){.max_seqs = 2, .batch_tokens = 48});
        seen s = {first};
        assert_int_equal(rf_engine_logits(en, text, 70, see, &s, &why), ROCMFORGE_OK);
        rf_request_opts o = request_of(text, 50, 8, &r);
        run_request(en, &o);
        s.logits = again;
        assert_int_equal(rf_engine_logits(en, text, 70, see, &s, &why), ROCMFORGE_OK);
        assert_memory_equal(again, first, sizeof first);
        rf_engine_get_info(en, &info);
        assert_true(info.n_embd <= 256);
        const rf_embed_input in[3] = {{text, 70}, {text + 9, 1}, {text + 3, 60}};
        float all[3 * 256];
        assert_int_equal(rf_engine_embed_batch(en, in, 3, NULL, all, 3 * 256, &why), ROCMFORGE_OK);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(
                rf_engine_embed(en, in[i].tokens, in[i].n_tokens, NULL, vectors[1][i], 256, &why),
                ROCMFORGE_OK);
            assert_memory_equal(all + i * info.n_embd, vectors[1][i], info.n_embd * sizeof *all);
        }
        rf_engine_close(en);
    }
}

/* The same engines on all backends; "split": half of the layers on the CPU. */
static rf_engine *open_on(const char *backend, const char *name) {
    rf_engine_opts o = {.backend = backend, .max_seqs = 2, .n_ctx = 192};
    if (strcmp(backend, "split") == 0) o = (rf_engine_opts){.backend = "gpu", .gpu_layers = 1};
    return open_model(name, o);
}

/* What one engine saved another goes on from, within the answer and where its prompt ends; the CPU, GPUs
 * and both together read each other's. */
static void saved_states_go_on(void **state) {
    (void)state;
    static const char *const ways[][2] = {
        {"cpu", "gpu"}, {"gpu", "split"}, {"split", "cpu"}, {"ref", "ref"}};
    char path[4096];
    snprintf(path, sizeof path, "%s", rf_test_tmp("recurrent.state"));
    for (size_t k = 0; k < RF_COUNT(models) * RF_COUNT(ways); k++) {
        const char *name = models[k / RF_COUNT(ways)], *const *way = ways[k % RF_COUNT(ways)];
        if (NO_FIBRES && strcmp(way[0], "ref") != 0) continue;
        int32_t text[74], restored[74];
        uint64_t noise = 21;
        size_t n, n_saved, n_tokens;
        rf_text why;
        record first = {0}, again = {0}, more = {0}, want = {0};
        rf_engine *en = open_on(way[0], name);
        random_tokens(&noise, text, 44, N_VOCAB);
        rf_request_opts o = request_of(text, 44, 30, &first);
        o.ignore_eos = true;
        assert_int_equal(rf_engine_state_save(en, path, text, 44, 0, &n, &why), ROCMFORGE_EARG);
        assert_non_null(strstr(why.text, "none of the 44 tokens"));
        run_request(en, &o);
        memcpy(text + 44, first.tokens, 30 * sizeof *text);
        assert_int_equal(rf_engine_state_save(en, path, text, 74, 0, &n_saved, &why), ROCMFORGE_OK);
        assert_int_equal(n_saved, 64); /* the answer's last full block */
        o = request_of(text, 74, 5, &want);
        run_request(en, &o);
        rf_engine_close(en);
        en = open_on(way[1], name);
        if (rf_engine_state_restore(en, path, 0, restored, 74, &n_tokens, &n, &why) != 0)
            fail_msg("%s, from %s to %s: %s", name, way[0], way[1], why.text);
        assert_int_equal(n, 64);
        assert_int_equal(n_tokens, 74);
        assert_memory_equal(restored, text, sizeof text);
        o = request_of(text, 74, 5, &more);
        run_request(en, &o);
        assert_int_equal(more.n_cached, 64);
        assert_same_answer(&more, &want);
        o = request_of(text, 44, 30, &again);
        o.ignore_eos = true;
        run_request(en, &o);
        assert_int_equal(again.n_cached, 32); /* the prompt's last full block */
        assert_same_answer(&again, &first);
        assert_all_blocks_free(en);
        rf_engine_close(en);
    }
}

/* Blocks without a snapshot behind any of them are of no use. */
static void states_without_snapshots_are_not_saved(void **state) {
    (void)state;
    int32_t text[100];
    uint64_t noise = 22;
    rf_text why;
    size_t n;
    record r = {0};
    rf_engine *en = open_model("lfm2", (rf_engine_opts){.max_seqs = 1});
    random_tokens(&noise, text, 100, N_VOCAB);
    rf_request_opts o = request_of(text, 100, 2, &r);
    run_request(en, &o);
    char path[4096];
    snprintf(path, sizeof path, "%s", rf_test_tmp("no.state"));
    assert_int_equal(rf_engine_state_save(en, path, text, 70, 0, &n, &why), ROCMFORGE_EARG);
    assert_non_null(strstr(why.text, "no snapshot of the state behind any block"));
    assert_int_equal(rf_engine_state_save(en, path, text, 100, 0, &n, &why), ROCMFORGE_OK);
    assert_int_equal(n, 96);
    rf_engine_close(en);
}

/* Requests of a crowd on a GPU with little memory, and on a GPU and the CPU: the answers of the CPU. */
static void gpus_answer_alike(void **state) {
    (void)state;
    static record alone[4], crowd[4];
    int32_t prompt[4][40];
    if (NO_FIBRES) skip();
    for (size_t k = 0; k < 2 * RF_COUNT(models); k++) {
        uint64_t noise = 31;
        rf_engine_opts o = {.backend = "gpu",
                            .gpu_layers = k % 2,
                            .max_seqs = 3,
                            .n_ctx = 96,
                            .n_kv_blocks = 4,
                            .swap_bytes = 1 << 20};
        memset(alone, 0, sizeof alone);
        memset(crowd, 0, sizeof crowd);
        rf_engine *en = open_model(models[k / 2], o);
        for (int i = 0; i < 4; i++) {
            random_tokens(&noise, prompt[i], 40, N_VOCAB);
            if (i == 3) memcpy(prompt[3], prompt[0], 35 * sizeof **prompt);
            answer_alone(models[k / 2], prompt[i], 20 + 5 * (size_t)i, 50, &alone[i]);
            rf_request_opts r = request_of(prompt[i], 20 + 5 * (size_t)i, 50, &crowd[i]);
            r.ignore_eos = true;
            submit(en, &r);
        }
        run_all(en);
        for (int i = 0; i < 4; i++)
            assert_same_answer(&crowd[i], &alone[i]);
        rf_engine_stats stats;
        rf_engine_get_stats(en, &stats);
        assert_true(stats.n_preemptions > 0 && stats.n_swapped_in > 0);
        assert_all_blocks_free(en);
        rf_engine_close(en);
    }
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    rf_engine *en;
    rf_text why;
    rf_engine_opts o = {.model_path = path_of("lfm2"), .n_threads = 1, .speculate = "ngram"};
    assert_int_equal(rf_engine_open(&en, &o, &why), ROCMFORGE_EUNSUPPORTED);
    assert_non_null(strstr(why.text, "cannot take a wrong guess back"));
    o.speculate = NULL;
    o.draft_model_path = path_of("llama-gqa");
    assert_int_equal(rf_engine_open(&en, &o, &why), ROCMFORGE_EUNSUPPORTED);
    o.model_path = path_of("qwen2");
    o.draft_model_path = path_of("lfm2");
    assert_int_equal(rf_engine_open(&en, &o, &why), ROCMFORGE_EUNSUPPORTED);
    assert_non_null(strstr(why.text, "draft model: layers of a lfm2 model keep a state"));
    en = open_model("lfm2", (rf_engine_opts){.max_seqs = 1});
    rf_engine_close(en);
}

/* Slots of state are counted: two more for each request at once. */
static void states_are_counted(void **state) {
    (void)state;
    static const char *const backends[] = {"cpu", "gpu"};
    rf_engine *en = open_model("nemotron_h", (rf_engine_opts){.max_seqs = 1});
    for (size_t i = 0; i < RF_COUNT(backends); i++) {
        rf_memory_need few, many;
        rf_text why;
        rf_engine_opts o = {.backend = backends[i], .max_seqs = 2, .n_ctx = 64, .n_kv_blocks = 64};
        assert_int_equal(rf_engine_measure(en, &o, &few, &why), ROCMFORGE_OK);
        o.max_seqs = 102;
        assert_int_equal(rf_engine_measure(en, &o, &many, &why), ROCMFORGE_OK);
        /* two mixers of 4 heads of [8][8] and 3 rows of 64 columns in a convolution */
        uint64_t slot = 2 * (4 * 8 * 8 + 3 * 64) * sizeof(float);
        assert_true(many.other - few.other >= 200 * slot);
        assert_true(many.other - few.other < 300 * slot);
    }
    rf_engine_close(en);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_spelled_by_the_logits),
        cmocka_unit_test(prefixes_go_on_from_snapshots),
        cmocka_unit_test(load_changes_nothing),
        cmocka_unit_test(texts_are_viewed_and_embedded),
        cmocka_unit_test(saved_states_go_on),
        cmocka_unit_test(states_without_snapshots_are_not_saved),
        cmocka_unit_test(gpus_answer_alike),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(states_are_counted),
    };
    rf_gpu_driver_set(rf_host_gpu());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
