/* test_gpu.c - requests on the GPU backend: each gets what it gets alone on the CPU, and the choice of
 * the backend is never silent.  The device is this processor, with the GPU's kernels on it. */
#include "base/log.h"
#include "engine/harness.h"
#include "gpuemu/host/host.h"

enum { N_REQUESTS = 6, N_VOCAB = 128 };

typedef struct job {
    int32_t prompt[MAX_PROMPT];
    size_t n_prompt;
    record alone, crowd;
} job;

static job jobs[N_REQUESTS];
static char model_path[4096];

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
    check_model("models/qwen3.gguf");
    check_model("models/qwen3moe-quant.gguf");
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

/* A launch that fails ends the requests it hit with the driver's words; the process goes on. */
static void test_fault(void **state) {
    (void)state;
    rf_gpu_driver_set(rf_host_gpu());
    snprintf(model_path, sizeof model_path, "%s", rf_test_data("models/llama-gqa.gguf"));
    rf_engine *en = open_engine((rf_engine_opts){.model_path = model_path, .backend = "gpu"});
    record r = {0};
    int32_t prompt[3] = {1, 2, 3};
    rf_request_opts o = request_of(prompt, 3, 3, &r);
    submit(en, &o);
    rf_host_gpu_fail_launch(20);
    while (rf_engine_step(en) > 0) {
    }
    rf_host_gpu_fail_launch(0);
    assert_int_equal(r.n_ends, 1);
    assert_int_equal(r.finish, RF_FINISH_ERROR);
    assert_non_null(strstr(r.error, "failed"));
    rf_engine_close(en);
}

int main(void) {
    rf_error e = {0};
    assert_int_equal(rf_log_configure("error", &e), RF_OK); /* the fall-backs warn */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
