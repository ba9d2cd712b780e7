/* test_fixtures.c - tiny random models of every architecture against logits made by an
 * independent implementation (tools/make_model_fixtures.py), on the reference backend.
 *
 * Weights are random but large: a wrong position, mask, bias, norm or row order changes every
 * logit by far more than the tolerance. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/run.h"

enum { MAX_TOKENS = 64 };

typedef struct fixture {
    const char *name, *arch;
    bool has_qkv_bias, has_o_bias, has_qk_norm, is_tied;
    rf_attn_kind attention;
    uint32_t n_heads, n_kv_heads, head_dim;
} fixture;

static const fixture fixtures[] = {
    {"llama-mha", "llama", 0, 0, 0, 0, RF_ATTN_CAUSAL, 4, 4, 8},
    {"llama-gqa", "llama", 0, 0, 0, 0, RF_ATTN_CAUSAL, 4, 2, 10},
    {"llama-rope3", "llama", 0, 0, 0, 1, RF_ATTN_CAUSAL, 4, 2, 16},
    {"llama-linear", "llama", 0, 0, 0, 0, RF_ATTN_CAUSAL, 4, 2, 8},
    {"llama-bias", "llama", 1, 1, 0, 0, RF_ATTN_CAUSAL, 4, 2, 8},
    {"llama-f16", "llama", 0, 0, 0, 0, RF_ATTN_CAUSAL, 4, 1, 8},
    {"mistral-window", "llama", 0, 0, 0, 0, RF_ATTN_LOCAL, 4, 2, 8},
    {"qwen2", "qwen2", 1, 0, 0, 1, RF_ATTN_CAUSAL, 4, 2, 8},
    {"qwen2-yarn", "qwen2", 1, 0, 0, 0, RF_ATTN_CAUSAL, 4, 2, 16},
    {"qwen3", "qwen3", 0, 0, 1, 1, RF_ATTN_CAUSAL, 4, 2, 16},
    {"qwen3-yarn", "qwen3", 0, 0, 1, 0, RF_ATTN_CAUSAL, 4, 2, 16},
    {"qwen3-bf16", "qwen3", 0, 0, 1, 0, RF_ATTN_CAUSAL, 4, 2, 12},
};

static const char *file_of(const fixture *f, const char *suffix) {
    char name[64];
    snprintf(name, sizeof name, "models/%s.%s", f->name, suffix);
    return rf_test_data(name);
}

static float *expected_logits(const fixture *f, uint32_t n_tokens, uint32_t n_vocab) {
    size_t bytes = 0;
    uint8_t *raw = rf_test_read(file_of(f, "logits.f32"), &bytes);
    assert_int_equal(bytes, (size_t)n_tokens * n_vocab * sizeof(float));
    return (float *)raw; /* rf_test_read gives 64-byte aligned memory */
}

/* req: C-13, B-35 (biases exist only where the file has them) */
static void test_binding(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(fixtures); i++) {
        const fixture *f = &fixtures[i];
        rf_error e = {0};
        rf_model *m = NULL;
        if (rf_model_open(&m, file_of(f, "gguf"), &e) != RF_OK) fail_msg("%s", e.text);
        assert_string_equal(m->arch->name, f->arch);
        assert_int_equal(m->n_vocab, 128);
        assert_int_equal(m->n_heads, f->n_heads);
        assert_int_equal(m->n_kv_heads, f->n_kv_heads);
        assert_int_equal(m->head_dim, f->head_dim);
        assert_int_equal(m->out == m->tok_embd, f->is_tied);
        uint64_t params = 0, bytes = 0;
        for (size_t t = 0; t < rf_gguf_n_tensors(m->file); t++) {
            const rf_gguf_tensor *w = rf_gguf_tensor_at(m->file, t);
            params += w->ne[0] * w->ne[1];
            bytes += w->n_bytes;
        }
        assert_int_equal(m->n_params, params);
        assert_int_equal(m->weight_bytes, bytes);
        for (uint32_t il = 0; il < m->n_layers; il++) {
            const rf_layer *l = &m->layers[il];
            assert_int_equal(l->bq != NULL, f->has_qkv_bias);
            assert_int_equal(l->bk != NULL, f->has_qkv_bias);
            assert_int_equal(l->bv != NULL, f->has_qkv_bias);
            assert_int_equal(l->bo != NULL, f->has_o_bias);
            assert_int_equal(l->q_norm.w != NULL, f->has_qk_norm);
            assert_int_equal(l->k_norm.w != NULL, f->has_qk_norm);
            assert_int_equal(l->pattern.kind, f->attention);
        }
        rf_model_close(m);
    }
}

/* req: C-06, C-08, C-13: logits of every position agree with the independent implementation */
static void test_logits(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(fixtures); i++) {
        const fixture *f = &fixtures[i];
        rf_test_run r;
        rf_test_run_open(&r, &rf_ref_ops, file_of(f, "gguf"), (rf_test_run_opts){.n_ctx = 64});
        int32_t tokens[MAX_TOKENS];
        uint32_t n = rf_test_read_tokens(file_of(f, "tokens.txt"), tokens, MAX_TOKENS);
        assert_int_equal(n, 40);
        size_t n_logits = (size_t)n * r.model->n_vocab;
        float *want = expected_logits(f, n, r.model->n_vocab);
        float *got = rf_alloc(n_logits, sizeof *got), *cut = rf_alloc(n_logits, sizeof *cut);
        assert_true(got && cut);
        rf_test_run_text(&r, tokens, n, n, got);
        double diff = rf_test_max_diff(got, want, n_logits);
        print_message("%-15s max difference / max logit: %.2e\n", f->name, diff);
        if (!(diff < 1e-4)) fail_msg("%s: logits differ by %g", f->name, diff);
        /* A prompt cut into chunks gives the same bits.  req: B-34 */
        for (uint32_t chunk = 1; chunk <= 13; chunk += 6) {
            rf_test_run_text(&r, tokens, n, chunk, cut);
            assert_memory_equal(cut, got, n_logits * sizeof *got);
        }
        rf_test_run_close(&r);
        rf_free(want);
        rf_free(got);
        rf_free(cut);
    }
}

/* Of one layer the last row sees the earlier tokens as a set unless positions are applied, so
 * without them swapping two tokens would change nothing.  req: B-04, B-32, B-36 */
static void test_positions_are_applied(void **state) {
    (void)state;
    rf_test_run r;
    rf_test_run_open(&r, &rf_ref_ops, rf_test_data("models/qwen2-yarn.gguf"),
                     (rf_test_run_opts){.n_ctx = 64});
    assert_int_equal(r.model->n_layers, 1);
    const int32_t a[] = {5, 17, 99, 3}, b[] = {17, 5, 99, 3};
    float la[4 * 128], lb[4 * 128];
    rf_test_run_text(&r, a, 4, 4, la);
    rf_test_run_text(&r, b, 4, 4, lb);
    double diff = rf_test_max_diff(la + 3 * 128, lb + 3 * 128, 128);
    assert_true(diff > 1e-2);
    rf_test_run_close(&r);
}

/* A cache of fewer bits rounds keys and values, so logits change, but little. */
static void test_cache_types(void **state) {
    (void)state;
    static const struct {
        rf_dtype type;
        double least, most;
    } cases[] = {{RF_DT_F16, 1e-6, 5e-3}, {RF_DT_BF16, 1e-5, 4e-2}, {RF_DT_Q8_0, 1e-5, 4e-2}};
    const fixture *f = &fixtures[1];
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_test_run r;
        rf_test_run_open(&r, &rf_ref_ops, file_of(f, "gguf"),
                         (rf_test_run_opts){.n_ctx = 64, .kv_type = cases[i].type});
        int32_t tokens[MAX_TOKENS];
        uint32_t n = rf_test_read_tokens(file_of(f, "tokens.txt"), tokens, MAX_TOKENS);
        size_t n_logits = (size_t)n * r.model->n_vocab;
        float *want = expected_logits(f, n, r.model->n_vocab);
        float *got = rf_alloc(n_logits, sizeof *got);
        assert_non_null(got);
        rf_test_run_text(&r, tokens, n, n, got);
        double diff = rf_test_max_diff(got, want, n_logits);
        if (diff < cases[i].least || diff > cases[i].most)
            fail_msg("%s: logits differ by %g", rf_dtype_get(cases[i].type)->name, diff);
        rf_test_run_close(&r);
        rf_free(want);
        rf_free(got);
    }
}

/* Two texts in one batch, of different length and progress, give what each gives alone.
 * req: B-12 */
static void test_two_sequences(void **state) {
    (void)state;
    const fixture *f = &fixtures[6];
    rf_test_run_opts o = {.n_ctx = 64, .n_seqs = 2};
    rf_test_run r;
    rf_test_run_open(&r, &rf_ref_ops, file_of(f, "gguf"), o);
    int32_t tokens[MAX_TOKENS];
    uint32_t n = rf_test_read_tokens(file_of(f, "tokens.txt"), tokens, MAX_TOKENS);
    uint32_t n_vocab = r.model->n_vocab;
    const int32_t *other = tokens + 7;
    uint32_t n_other = n - 7;
    float *a = rf_alloc((size_t)n * n_vocab, sizeof *a),
          *b = rf_alloc((size_t)n * n_vocab, sizeof *b);
    assert_true(a && b);
    rf_test_run_text(&r, tokens, n, n, a);
    rf_test_run_text(&r, other, n_other, n_other, b);
    const uint32_t cut[] = {0, 11, 12, 33}; /* rows of each step; the other text runs ahead by 5 */
    uint32_t done_b = 0;
    for (size_t step = 0; step + 1 < RF_COUNT(cut); step++) {
        uint32_t begin = cut[step], n_a = cut[step + 1] - begin;
        uint32_t n_b = step == 1 ? 2 : n_a - 1;
        const int32_t *text[] = {tokens + begin, other + done_b};
        const uint32_t rows[] = {n_a, n_b}, pos[] = {begin, done_b};
        const float *got = rf_test_run_batch(&r, 2, rows, pos, text);
        assert_memory_equal(got, a + begin * n_vocab, n_a * n_vocab * sizeof *a);
        assert_memory_equal(got + n_a * n_vocab, b + done_b * n_vocab, n_b * n_vocab * sizeof *a);
        done_b += n_b;
    }
    assert_true(done_b > 30);
    rf_test_run_close(&r);
    rf_free(a);
    rf_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binding),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_positions_are_applied),
        cmocka_unit_test(test_cache_types),
        cmocka_unit_test(test_two_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
