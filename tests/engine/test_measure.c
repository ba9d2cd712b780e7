/* test_measure.c - what rf_engine_measure counts is what opening the model takes, to the byte, on the CPU
 * and on a GPU (this processor, with the GPU's kernels on it). */
#include "engine/harness.h"
#include "gpuemu/host/host.h"

static uint64_t taken; /* bytes of device memory, ever */

static int counted_alloc(void **out, size_t n) {
    taken += n;
    return rf_host_gpu()->alloc(out, n);
}

static const rf_engine_opts cases[] = {
    {.n_ctx = 64},
    {.n_ctx = 1000, .max_seqs = 3, .batch_tokens = 48, .kv_type = "q8_0,bf16"},
    {.n_ctx = 40, .max_seqs = 1, .batch_tokens = 1, .kv_type = "f32", .n_kv_blocks = 77},
};

/* req: C-15: exact, for models of every kind of layer */
static void check_model(const char *fixture) {
    char path[4096];
    rf_text why;
    rf_memory_need need;
    rf_engine_info info;
    snprintf(path, sizeof path, "%s", rf_test_data(fixture));
    rf_engine *meter = open_engine((rf_engine_opts){.model_path = path, .measure_only = true});
    for (size_t i = 0; i < RF_COUNT(cases); i++)
        for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
            rf_engine_opts o = cases[i];
            o.model_path = path;
            o.n_threads = 2;
            o.backend = on_gpu ? "gpu" : "cpu";
            if (rf_engine_measure(meter, &o, &need, &why) != ROCMFORGE_OK) fail_msg("%s", why.text);
            taken = 0;
            rf_engine *en = open_engine(o);
            rf_engine_get_info(en, &info);
            assert_int_equal(info.exec_bytes, need.total - need.weights + need.host);
            assert_int_equal(info.kv_blocks, need.n_kv_blocks);
            assert_int_equal(info.n_ctx, need.n_ctx);
            assert_true(need.kv_block * need.n_kv_blocks <= need.kv);
            if (on_gpu) assert_int_equal(taken, need.total);
            if (!on_gpu) assert_int_equal(need.weights, info.weight_bytes);
            rf_engine_close(en);
        }
    rf_engine_close(meter);
}

static void test_exact(void **state) {
    (void)state;
    rf_gpu_driver own = *rf_host_gpu();
    own.alloc = counted_alloc;
    rf_gpu_driver_set(&own);
    check_model("models/llama-gqa.gguf");
    check_model("models/qwen3moe-quant.gguf");
    check_model("models/deepseek2-lite.gguf");
    rf_gpu_driver_set(rf_host_gpu());
}

/* What only counts runs nothing, and wrong options are refused as opening refuses them. */
static void test_refusals(void **state) {
    (void)state;
    char path[4096];
    rf_text why;
    rf_memory_need need;
    float out[512];
    const int32_t tokens[2] = {1, 2};
    snprintf(path, sizeof path, "%s", rf_test_data("models/llama-gqa.gguf"));
    rf_engine *en = open_engine((rf_engine_opts){.model_path = path, .measure_only = true});
    const rf_request_opts r = {.tokens = tokens, .n_tokens = 2, .max_tokens = 1};
    assert_int_equal(rf_engine_submit(en, &r, NULL, &why), ROCMFORGE_EARG);
    assert_non_null(strstr(why.text, "to measure only"));
    assert_int_equal(rf_engine_embed(en, tokens, 2, NULL, out, 512, &why), ROCMFORGE_EARG);
    assert_int_equal(rf_engine_step(en), 0);
    const rf_engine_opts bad[] = {{.kv_type = "q2_k"},
                                  {.backend = "tpu"},
                                  {.max_seqs = 100000},
                                  {.n_ctx = 64, .n_kv_blocks = 1}};
    for (size_t i = 0; i < RF_COUNT(bad); i++) {
        assert_int_equal(rf_engine_measure(en, &bad[i], &need, &why), ROCMFORGE_EARG);
        assert_true(why.text[0] != 0);
        assert_int_equal(need.total, 0);
    }
    rf_engine_close(en);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
