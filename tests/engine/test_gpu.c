/* test_gpu.c - requests on the GPU backend: each gets what it gets alone on the CPU, and the choice of
 * the backend is never silent.  The device is this processor, with the GPU's kernels on it.  RF_TEST_SMALL leaves out one
 * of two models, and of what is done in several ways some. */
#include "base/log.h"
#include "engine/engine.h"
#include "engine/harness.h"
#include "gpuemu/host/faulty.h"
#include "gpuemu/host/host.h"

enum { N_REQUESTS = 6, N_VOCAB = 128 };

typedef struct job {
    int32_t prompt[MAX_PROMPT];
    size_t n_prompt;
    record alone, crowd;
} job;

static job jobs[N_REQUESTS];
static char model_path[4096];

static bool is_small(void) { return getenv("RF_TEST_SMALL") != NULL; }

static rf_request_opts opts_of(job *j, int i, record *r) {
    rf_request_opts o = request_of(j->prompt, j->n_prompt, 4 + i, r);
    if (i % 2) o.sampling = rf_sampling_default();
    o.sampling.seed = (uint64_t)i;
    return o;
}

/* Prompts of many lengths, two of which share a start of more than a block. */
static void make_jobs(const char *fixture) {
    uint64_t noise = 9;
    snprintf(model_path, sizeof model_path, "%s", rf_test_data(fixture));
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < N_REQUESTS; i++) {
        jobs[i].n_prompt = (size_t)(5 + 13 * i);
        random_tokens(&noise, jobs[i].prompt, jobs[i].n_prompt, N_VOCAB);
        if (i == 5) memcpy(jobs[5].prompt, jobs[4].prompt, 40 * sizeof *jobs[4].prompt);
    }
}

static void check_model(const char *fixture) {
    rf_engine_info info;
    make_jobs(fixture);
    for (int i = 0; i < N_REQUESTS; i++) {
        rf_engine *en = open_engine((rf_engine_opts){.model_path = model_path, .backend = "cpu"});
        rf_request_opts o = opts_of(&jobs[i], i, &jobs[i].alone);
        run_request(en, &o);
        rf_engine_close(en);
    }
    for (uint32_t batch = 8; batch <= 64; batch *= 8) {
        rf_engine *en = open_engine((rf_engine_opts){
            .model_path = model_path, .backend = "auto", .max_seqs = 3, .batch_tokens = batch});
        rf_engine_get_info(en, &info);
        assert_int_equal(strncmp(info.backend, "gpu 0: ", 7), 0);
        for (int round = 0; round < 2; round++) { /* in the second, prompts come from the cache */
            for (int i = 0; i < N_REQUESTS; i++) {
                jobs[i].crowd = (record){0};
                rf_request_opts o = opts_of(&jobs[i], i, &jobs[i].crowd);
                submit(en, &o);
            }
            run_all(en);
            for (int i = 0; i < N_REQUESTS; i++)
                assert_same_answer(&jobs[i].crowd, &jobs[i].alone);
        }
        assert_true(jobs[N_REQUESTS - 1].crowd.n_cached > 0);
        rf_engine_close(en);
    }
}

/* req: C-09, B-12: batch, chunks and prefix change no bit, on the GPU as on the CPU */
static void test_requests(void **state) {
    (void)state;
    rf_gpu_driver_set(rf_host_gpu());
    if (!is_small()) check_model("models/qwen3.gguf");
    check_model("models/qwen3moe-quant.gguf");
}

/* Nothing but a temperature. */
static rf_sampling plain(uint64_t seed) {
    rf_sampling o = rf_sampling_default();
    o.temperature = 1.1f;
    o.top_k = 0;
    o.top_p = 1;
    o.min_p = 0;
    o.seed = seed;
    return o;
}

/* Of a vocabulary like the demo model's the device hands over what is best alone, where that is enough:
 * the same tokens, whatever the options, also where there are enough for all threads to choose, and to
 * fetch rows where the best is not enough. */
static void test_best(void **state) {
    (void)state;
    enum { N_KINDS = 12, N = 5 * N_KINDS };
    const int n = is_small() ? 2 * N_KINDS : N;
    static const char text[] = "root ::= [a-z ]+ | \"(\" root \")\"";
    static const rf_logit_bias bias[] = {{300, -2}, {301, -INFINITY}};
    static record alone[N], crowd[N];
    int32_t prompt[6];
    uint64_t noise = 77;
    rf_gpu_driver_set(rf_host_gpu());
    random_tokens(&noise, prompt, 6, 4000);
    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        rf_engine *en =
            open_engine((rf_engine_opts){.model_path = rf_test_data("../../models/demo.gguf"),
                                         .backend = on_gpu ? "gpu" : "cpu",
                                         .n_threads = 3,
                                         .max_seqs = N});
        rf_grammar *grammar;
        rf_text why;
        assert_int_equal(
            rf_grammar_open(en, RF_GRAMMAR_GBNF, text, sizeof text - 1, &grammar, &why), RF_OK);
        for (int i = 0; i < n; i++) {
            const int kind = i % N_KINDS;
            rf_request_opts o =
                request_of(prompt, 6 - (size_t)i % 5, 3, on_gpu ? &crowd[i] : &alone[i]);
            if (kind) o.n_logprobs = -1;                           /* 0 needs the row */
            if (kind > 1) o.sampling = rf_sampling_default();      /* 1 is greedy */
            if (kind == 3) o.sampling.top_k = 0;                   /* drawn on the device */
            if (kind == 4) o.min_tokens = 3, o.ignore_eos = false; /* some tokens are banned */
            if (kind == 5) o.sampling.repeat_penalty = 1.3f, o.sampling.dry_multiplier = 0.5f;
            if (kind == 6) o.sampling.logit_bias = bias, o.sampling.n_logit_bias = RF_COUNT(bias);
            if (kind == 5 || kind == 6)
                o.sampling.top_k = 47; /* with some changed, more than are surely there */
            if (kind >= 7) o.sampling = plain(0);
            if (kind == 9) o.sampling.typical_p = 0.9f; /* needs the row */
            if (kind == 8) o.min_tokens = 2, o.ignore_eos = false;
            if (kind >= 10)
                o.grammar = grammar; /* 10: the best of what it allows; 11: of the row */
            if (kind == 10) o.sampling.temperature = 0;
            o.sampling.seed = 5 + (uint64_t)i;
            submit(en, &o);
        }
        run_all(en);
        rf_grammar_close(grammar);
        rf_engine_close(en);
    }
    for (int i = 0; i < n; i++)
        assert_same_answer(&crowd[i], &alone[i]);
}

/* Requests that do with the first of a row ---------------------------------------------------------*/

enum { N_FIRST = 5 };

/* Greedy, and drawn.  Prompts of one to three blocks of KV; lengths of answers that part at different steps, one of them at an
 * edge of blocks. */
static rf_request_opts by_first(int i, record *r) {
    static int32_t prompt[N_FIRST][80];
    static const size_t n[N_FIRST] = {30, 3, 65, 33, 12};
    uint64_t noise = 500 + (uint64_t)i;
    random_tokens(&noise, prompt[i], n[i], 4000);
    rf_request_opts o = request_of(prompt[i], n[i], 3 + 2 * i, r);
    o.n_logprobs = -1;
    o.ignore_eos = true;
    if (i % 2) o.sampling = plain((uint64_t)i);
    if (i == 1) o.sampling.top_k = 40, o.sampling.top_p = 0.95f, o.sampling.min_p = 0.01f;
    if (i == 3) o.sampling.top_p = 0.7f, o.sampling.min_p = 0.01f;
    return o;
}

static rf_engine *open_demo(const char *backend, uint32_t max_seqs) {
    return open_engine((rf_engine_opts){.model_path = rf_test_data("../../models/demo.gguf"),
                                        .backend = backend,
                                        .max_seqs = max_seqs,
                                        .batch_tokens = 64});
}

static void answer_alone(record *out) {
    for (int i = 0; i < N_FIRST; i++) {
        rf_engine *en = open_demo("cpu", 1);
        rf_request_opts o = by_first(i, &out[i]);
        run_request(en, &o);
        rf_engine_close(en);
    }
}

/* The next step is queued before the tokens are known, and gives everyone what he gets alone: whoever ends,
 * comes later, is cancelled, or stands beside one whose tokens the host draws. */
static void test_following(void **state) {
    (void)state;
    static record alone[N_FIRST], got[N_FIRST], drawn[2];
    answer_alone(alone);
    rf_gpu_driver_set(rf_host_gpu());
    for (int way = is_small() ? 2 : 0; way < 4; way++) {
        rf_engine *en = open_demo("gpu", way == 1 ? 2 : N_FIRST + 1);
        rf_request_opts o = by_first(1, &drawn[way / 3]);
        uint32_t n_ahead = 0, n_steps = 0;
        memset(got, 0, sizeof got);
        drawn[way / 3] = (record){0};
        o.sampling = rf_sampling_default();
        o.sampling.seed = 3;
        o.sampling.repeat_penalty = 1.1f; /* which the device knows nothing of */
        if (way >= 2) submit(en, &o);
        if (way == 2) run_all(en);
        for (int i = 0; i < N_FIRST; i++) {
            rf_request_opts g = by_first(i, &got[i]);
            submit(en, &g);
            if (way != 1) assert_int_equal(rf_engine_step(en), 1);
        }
        for (; rf_engine_step(en) == 1; n_steps++)
            n_ahead += en->is_begun;
        assert_true(n_steps > 0 && n_ahead > 0);
        for (int i = 0; i < N_FIRST; i++)
            assert_same_answer(&got[i], &alone[i]);
        assert_all_blocks_free(en);
        rf_engine_close(en);
    }
    assert_same_answer(&drawn[0], &drawn[1]);
}

/* A word that ends the text, a cancelled request, a time that is over: the row behind is for nobody. */
static void test_following_ends(void **state) {
    (void)state;
    static record alone[N_FIRST], got[N_FIRST], later;
    answer_alone(alone);
    rf_gpu_driver_set(rf_host_gpu());
    rf_engine *en = open_demo("gpu", N_FIRST);
    memset(got, 0, sizeof got);
    for (int i = 0; i < N_FIRST; i++) {
        rf_request_opts o = by_first(i, &got[i]);
        char word[16] = "";
        const char *stops[] = {word};
        if (i == 4) { /* what the second of its tokens says */
            snprintf(word, sizeof word, "%.15s", alone[4].text.p + alone[4].text.len / 2);
            o.stop = stops;
            o.n_stop = 1;
        }
        submit(en, &o);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(rf_engine_step(en), 1);
    assert_true(en->is_begun);
    rf_engine_cancel(en, got[3].id);
    run_all(en);
    assert_int_equal(got[3].finish, RF_FINISH_CANCELLED);
    assert_int_equal(got[4].finish, RF_FINISH_STOP);
    assert_true(got[4].n_tokens < alone[4].n_tokens);
    for (int i = 0; i < 3; i++)
        assert_same_answer(&got[i], &alone[i]);
    rf_request_opts o = by_first(2, &later); /* among the blocks that were left */
    run_request(en, &o);
    assert_same_answer(&later, &alone[2]);
    assert_all_blocks_free(en);
    rf_engine_close(en);
}

/* A fault with two runs on their way. */
static void test_following_fault(void **state) {
    (void)state;
    static record alone[N_FIRST], got[N_FIRST];
    answer_alone(alone);
    for (int by_waiting = is_small(); by_waiting < 2; by_waiting++) {
        rf_gpu_driver_set(rf_faulty_gpu(rf_host_gpu()));
        rf_engine *en = open_demo("gpu", N_FIRST);
        memset(got, 0, sizeof got);
        for (int i = 0; i < N_FIRST; i++) {
            rf_request_opts o = by_first(i, &got[i]);
            submit(en, &o);
        }
        for (int i = 0; i < 4; i++)
            assert_int_equal(rf_engine_step(en), 1);
        assert_true(en->is_begun);
        if (by_waiting)
            rf_faulty_wait(1, 1);
        else
            rf_faulty_launch(1, 1);
        run_all(en);
        for (int i = 0; i < N_FIRST; i++)
            assert_same_answer(&got[i], &alone[i]);
        assert_all_blocks_free(en);
        rf_engine_close(en);
    }
    rf_gpu_driver_set(rf_host_gpu());
}

/* The events of a step come while the device computes the next one, and all when nothing is left to do. */
static void test_late_events(void **state) {
    (void)state;
    enum { N = 4 };
    int32_t prompt[3] = {1, 2, 3};
    rf_gpu_driver_set(rf_host_gpu());
    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        rf_engine *en = open_engine((rf_engine_opts){
            .model_path = rf_test_data("models/qwen3.gguf"), .backend = on_gpu ? "gpu" : "cpu"});
        record r = {0};
        rf_request_opts o = request_of(prompt, 3, N, &r);
        o.ignore_eos = true;
        submit(en, &o);
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(rf_engine_step(en), 1);
            assert_int_equal(r.n_tokens, on_gpu && i + 1 < N ? i : i + 1);
        }
        assert_int_equal(rf_engine_step(en), 0);
        rf_engine_close(en);
    }
}

/* What one kind of device computed serves the other. */
static void test_states(void **state) {
    (void)state;
    static const char *const from[] = {"cpu", "gpu"}, *const to[] = {"gpu", "cpu"};
    char path[4096];
    int32_t prompt[40];
    uint64_t noise = 23;
    rf_gpu_driver_set(rf_host_gpu());
    snprintf(path, sizeof path, "%s", rf_test_tmp("moved.state"));
    random_tokens(&noise, prompt, 40, N_VOCAB);
    for (size_t i = 0; i < RF_COUNT(from); i++) {
        rf_engine_opts o = {.model_path = rf_test_data("models/qwen3.gguf"), .kv_type = "q8_0,f16"};
        record want = {0}, got = {0};
        rf_request_opts r = request_of(prompt, 40, 3, &want);
        size_t n_saved, n_restored, n;
        o.backend = from[i];
        rf_engine *en = open_engine(o);
        run_request(en, &r);
        assert_int_equal(rf_engine_state_save(en, path, prompt, 40, 0, &n_saved, NULL), 0);
        rf_engine_close(en);
        o.backend = to[i];
        en = open_engine(o);
        assert_int_equal(rf_engine_state_restore(en, path, 0, NULL, 0, &n, &n_restored, NULL), 0);
        assert_true(n == 40 && n_saved == 32 && n_restored == 32);
        r.user = &got;
        run_request(en, &r);
        assert_int_equal(got.n_cached, 32);
        assert_same_answer(&got, &want);
        rf_engine_close(en);
    }
}

/* Two answers that outgrow the KV cache together, with host memory for the one that gives way. */
static void test_swap(void **state) {
    (void)state;
    int32_t prompt[2][30];
    record want[2] = {{0}}, got[2] = {{0}};
    uint64_t noise = 24;
    rf_engine_opts o = {
        .model_path = rf_test_data("models/qwen3.gguf"), .n_ctx = 128, .n_kv_blocks = 4};
    rf_gpu_driver_set(rf_host_gpu());
    for (int k = 0; k < 2; k++) {
        o.backend = k ? "gpu" : "cpu";
        o.swap_bytes = k ? UINT64_MAX : 0;
        rf_engine *en = open_engine(o);
        for (int i = 0; i < 2; i++) {
            if (!k) random_tokens(&noise, prompt[i], 30, N_VOCAB);
            rf_request_opts r = request_of(prompt[i], 30, 45, k ? &got[i] : &want[i]);
            r.ignore_eos = true;
            submit(en, &r);
            if (!k) run_all(en);
        }
        run_all(en);
        rf_engine_stats stats;
        rf_engine_get_stats(en, &stats);
        assert_int_equal(stats.n_swapped_in > 0, k);
        assert_true(stats.n_swapped_out >= stats.n_swapped_in && stats.swap_used == 0);
        rf_engine_close(en);
    }
    for (int i = 0; i < 2; i++)
        assert_same_answer(&got[i], &want[i]);
}

/* Choosing ---------------------------------------------------------------------------------------*/

static int little_memory(size_t *n_free, size_t *n_total) {
    *n_free = 1000;
    *n_total = 2000;
    return 0;
}

static int strange_device(int device, rf_gpu_info *out) {
    int code = rf_host_gpu()->device_info(device, out);
    snprintf(out->arch, sizeof out->arch, "gfx9999");
    return code;
}

static void refuse(const char *text) {
    rf_engine *en;
    rf_text why;
    const rf_engine_opts o = {.model_path = model_path, .backend = "gpu", .n_threads = 1};
    assert_int_not_equal(rf_engine_open(&en, &o, &why), ROCMFORGE_OK);
    assert_null(en);
    if (!strstr(why.text, text)) fail_msg("\"%s\" lacks \"%s\"", why.text, text);
    rf_engine_info info;
    en = open_engine((rf_engine_opts){.model_path = model_path, .backend = "auto"});
    rf_engine_get_info(en, &info);
    assert_int_equal(strncmp(info.backend, "cpu ", 4), 0);
    record r = {0};
    int32_t prompt[3] = {1, 2, 3};
    rf_request_opts request = request_of(prompt, 3, 3, &r);
    run_request(en, &request);
    assert_int_equal(r.n_tokens, 3);
    rf_engine_close(en);
}

/* req: B-11: "gpu" is an error where it cannot be, "auto" goes on on the CPU */
static void test_choice(void **state) {
    (void)state;
    rf_gpu_driver own = *rf_host_gpu();
    rf_gpu_driver_set(&own);
    snprintf(model_path, sizeof model_path, "%s", rf_test_data("models/llama-gqa.gguf"));
    own.mem_info = little_memory;
    refuse("but 1000 of its 2000 bytes are free");
    own = *rf_host_gpu();
    own.device_info = strange_device;
    refuse(rf_gpu_target(0) ? "no kernels for gfx9999" : "brings no GPU kernels");
    rf_gpu_driver_set(rf_host_gpu());
}

static void test_find(void **state) {
    (void)state;
    rf_gpu_device g;
    rf_text why;
    rf_gpu_driver_set(rf_host_gpu());
    assert_int_equal(rf_gpu_find(0, &g, &why), ROCMFORGE_OK);
    assert_string_equal(g.arch, "host");
    assert_true(g.mem_bytes >= g.mem_free && g.mem_free > 0);
    assert_int_equal(rf_gpu_find(1, &g, &why), ROCMFORGE_EARG);
    for (size_t i = 0; rf_gpu_target(i); i++)
        assert_true(strlen(rf_gpu_target(i)) >= 5);
}

/* Faults -----------------------------------------------------------------------------------------*/

static rf_engine *open_faulty(void) {
    rf_gpu_driver_set(rf_faulty_gpu(rf_host_gpu()));
    return open_engine((rf_engine_opts){.model_path = model_path, .backend = "gpu", .max_seqs = 3});
}

/* Submits all jobs, and breaks the device after n_steps. */
static void run_broken(rf_engine *en, int n_steps, bool by_waiting, uint32_t times) {
    for (int i = 0; i < N_REQUESTS; i++) {
        jobs[i].crowd = (record){0};
        rf_request_opts o = opts_of(&jobs[i], i, &jobs[i].crowd);
        submit(en, &o);
    }
    for (int i = 0; i < n_steps; i++)
        assert_int_equal(rf_engine_step(en), 1);
    if (by_waiting)
        rf_faulty_wait(1, times);
    else
        rf_faulty_launch(9, times);
}

/* req: C-12: after a fault the requests go on where they were: each gets all it gets alone, and prompts
 * that the cache held are computed again */
static void test_fault(void **state) {
    (void)state;
    make_jobs("models/qwen3.gguf");
    for (int i = 0; i < N_REQUESTS; i++) {
        rf_engine *en = open_engine((rf_engine_opts){.model_path = model_path, .backend = "cpu"});
        rf_request_opts o = opts_of(&jobs[i], i, &jobs[i].alone);
        run_request(en, &o);
        rf_engine_close(en);
    }
    for (int n_steps = 0; n_steps < 8; n_steps += 2) {
        rf_engine *en = open_faulty();
        for (int round = 0; round < 2; round++) {
            run_broken(en, n_steps, n_steps % 4, 1);
            run_all(en);
            for (int i = 0; i < N_REQUESTS; i++)
                assert_same_answer(&jobs[i].crowd, &jobs[i].alone);
        }
        assert_all_blocks_free(en);
        rf_engine_close(en);
    }
}

/* What happens again at once ends the requests that were running, with the driver's words; those that
 * waited, and later ones, are served. */
static void test_fault_again(void **state) {
    (void)state;
    make_jobs("models/qwen3.gguf");
    rf_engine *en = open_faulty();
    int worked, n_failed = 0;
    run_broken(en, 1, false, 2);
    while ((worked = rf_engine_step(en)) != 0)
        n_failed += worked < 0;
    assert_int_equal(n_failed, 1);
    for (int i = 0; i < N_REQUESTS; i++) {
        const record *r = &jobs[i].crowd;
        assert_int_equal(r->n_ends, 1);
        assert_int_equal(r->finish == RF_FINISH_ERROR, i < 3);
        if (i < 3) assert_non_null(strstr(r->error, "launching rf_"));
    }
    assert_all_blocks_free(en);
    rf_engine_close(en);
}

/* A device that is gone ends every request with words, and the engine lives on until it is back. */
static void test_lost(void **state) {
    (void)state;
    make_jobs("models/qwen3.gguf");
    rf_engine *en = open_faulty();
    rf_faulty_lose(true);
    run_broken(en, 2, true, 1);
    while (rf_engine_step(en) != 0) {
    }
    for (int i = 0; i < N_REQUESTS; i++) {
        assert_int_equal(jobs[i].crowd.finish, RF_FINISH_ERROR);
        assert_true(jobs[i].crowd.error[0] != 0);
    }
    rf_faulty_lose(false);
    record r = {0};
    rf_request_opts o = opts_of(&jobs[0], 0, &r);
    run_request(en, &o); /* the first attempt opens the device */
    assert_int_equal(r.n_tokens, 4);
    rf_engine_close(en);
}

/* Logits and embeddings after a fault: the next call works. */
static bool ignore_logits(void *user, size_t first, size_t n, const float *logits) {
    (void)first;
    (void)n;
    memcpy(user, logits, sizeof(float));
    return true;
}

static void test_fault_elsewhere(void **state) {
    (void)state;
    rf_text why;
    float first, again, vector[2][512];
    const int32_t tokens[3] = {1, 2, 3};
    snprintf(model_path, sizeof model_path, "%s", rf_test_data("models/llama-gqa.gguf"));
    rf_engine *en = open_faulty();
    assert_int_equal(rf_engine_logits(en, tokens, 3, ignore_logits, &first, &why), ROCMFORGE_OK);
    rf_faulty_launch(5, 1);
    assert_int_equal(rf_engine_logits(en, tokens, 3, ignore_logits, &again, &why),
                     ROCMFORGE_EDEVICE);
    assert_true(why.text[0] != 0);
    assert_int_equal(rf_engine_logits(en, tokens, 3, ignore_logits, &again, &why), ROCMFORGE_OK);
    assert_memory_equal(&again, &first, sizeof first);
    assert_int_equal(rf_engine_embed(en, tokens, 3, NULL, vector[0], 512, &why), ROCMFORGE_OK);
    rf_faulty_wait(1, 1);
    assert_int_equal(rf_engine_embed(en, tokens, 3, NULL, vector[1], 512, &why), ROCMFORGE_OK);
    size_t n = rf_engine_embed_size(en, RF_POOLING_DEFAULT);
    assert_memory_equal(vector[1], vector[0], n * sizeof(float));
    rf_engine_close(en);
}

int main(void) {
    rf_error e = {0};
    assert_int_equal(rf_log_configure("error", &e), RF_OK); /* the fall-backs warn */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_following),
        cmocka_unit_test(test_following_ends),
        cmocka_unit_test(test_following_fault),
        cmocka_unit_test(test_late_events),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_swap),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_fault),
        cmocka_unit_test(test_fault_again),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_fault_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
