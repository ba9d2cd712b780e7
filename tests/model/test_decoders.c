/* test_decoders.c - every dense decoder, and those with a state, against logits made by an independent implementation
 * (tools/make_decoder_fixtures.py, make_hybrid_fixtures.py), on the reference and on the CPU backend.
 *
 * Weights are random but large: a wrong norm, activation, factor, window, rotation or row order
 * changes every logit by far more than the tolerance. */
#include <stdio.h>
#include <string.h>

#include "lib/run.h"

enum { N_TOKENS = 40 };

static const struct {
    const char *name, *arch;
} fixtures[] = {
    {"gemma", "gemma"},
    {"gemma2", "gemma2"},
    {"gemma2-27b", "gemma2"},
    {"gemma3", "gemma3"},
    {"phi2", "phi2"},
    {"phi3", "phi3"},
    {"phi3-window", "phi3"},
    {"phi3-longrope", "phi3"},
    {"phi3-shortrope", "phi3"},
    {"chatglm", "chatglm"},
    {"glm4", "glm4"},
    {"gpt2", "gpt2"},
    {"gptneox", "gptneox"},
    {"gptneox-serial", "gptneox"},
    {"starcoder", "starcoder"},
    {"starcoder2", "starcoder2"},
    {"falcon", "falcon"},
    {"falcon-40b", "falcon"},
    {"stablelm", "stablelm"},
    {"stablelm-parallel", "stablelm"},
    {"olmo", "olmo"},
    {"olmo2", "olmo2"},
    {"olmo3", "olmo2"},
    {"command-r", "command-r"},
    {"cohere2", "cohere2"},
    {"granite", "granite"},
    {"minicpm", "minicpm"},
    {"exaone", "exaone"},
    {"exaone4", "exaone4"},
    {"exaone4-full", "exaone4"},
    {"smollm3", "smollm3"},
    {"seed_oss", "seed_oss"},
    {"ernie4_5", "ernie4_5"},
    {"hunyuan-dense", "hunyuan-dense"},
    {"hunyuan-ntk", "hunyuan-dense"},
    {"nemotron", "nemotron"},
    {"arcee", "arcee"},
    {"internlm2", "internlm2"},
    {"xverse", "xverse"},
    {"orion", "orion"},
    {"pangu-embedded", "pangu-embedded"},
    {"lfm2", "lfm2"},
    {"lfm2moe", "lfm2moe"},
    {"qwen3next", "qwen3next"},
    {"qwen3next-joint", "qwen3next"},
    {"qwen35", "qwen35"},
    {"qwen35moe", "qwen35moe"},
    {"granitehybrid", "granitehybrid"},
    {"granitehybrid-moe", "granitehybrid"},
    {"nemotron_h", "nemotron_h"},
};

static const char *file_of(const char *name, const char *suffix) {
    char relative[64];
    snprintf(relative, sizeof relative, "models/%s.%s", name, suffix);
    return rf_test_data(relative);
}

static float *expected_logits(const char *name, size_t n_logits) {
    size_t bytes = 0;
    uint8_t *raw = rf_test_read(file_of(name, "logits.f32"), &bytes);
    assert_int_equal(bytes, n_logits * sizeof(float));
    return (float *)(void *)raw; /* rf_test_read gives 64-byte aligned memory */
}

/* At once and in chunks of 7, which must give the same bits.  req: B-34 */
static double difference(const rf_backend_ops *ops, const char *name, const char *arch) {
    rf_test_run r;
    rf_test_run_open(&r, ops, file_of(name, "gguf"), (rf_test_run_opts){.n_ctx = 64});
    assert_string_equal(r.model->arch->name, arch);
    int32_t tokens[N_TOKENS];
    assert_int_equal(rf_test_read_tokens(file_of(name, "tokens.txt"), tokens, N_TOKENS), N_TOKENS);
    size_t n_logits = (size_t)N_TOKENS * r.model->n_vocab;
    float *want = expected_logits(name, n_logits);
    float *got = rf_alloc(n_logits, sizeof *got), *cut = rf_alloc(n_logits, sizeof *cut);
    assert_true(got && cut);
    rf_test_run_text(&r, tokens, N_TOKENS, N_TOKENS, got);
    rf_test_run_text(&r, tokens, N_TOKENS, 7, cut);
    assert_memory_equal(cut, got, n_logits * sizeof *got);
    double diff = rf_test_max_diff(got, want, n_logits);
    rf_test_run_close(&r);
    rf_free(want);
    rf_free(got);
    rf_free(cut);
    return diff;
}

static void check_all(const rf_backend_ops *ops) {
    for (size_t i = 0; i < RF_COUNT(fixtures); i++) {
        double diff = difference(ops, fixtures[i].name, fixtures[i].arch);
        print_message("%-18s max difference / max logit: %.2e\n", fixtures[i].name, diff);
        if (!(diff < 1e-4)) fail_msg("%s: logits differ by %g", fixtures[i].name, diff);
    }
}

/* req: C-05, C-06, C-08, C-13, B-35 */
static void test_reference_backend(void **state) {
    (void)state;
    check_all(&rf_ref_ops);
}

/* req: C-08, C-13 */
static void test_cpu_backend(void **state) {
    (void)state;
    check_all(&rf_cpu_ops);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_backend),
        cmocka_unit_test(test_cpu_backend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
