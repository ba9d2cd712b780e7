/* test_encoder.c - tiny random encoders against hidden states made by an independent implementation
 * (tools/make_encoder_fixtures.py), on the reference and the CPU backend, and what makes an encoder one:
 * every token sees both ways.
 *
 * req: B-38 (no causal mask where there must be none), C-06, C-13 */
#include <stdio.h>
#include <string.h>

#include "gguf/writer.h"
#include "lib/run.h"

enum { N_TOKENS = 66, N_TEXTS = 3, N_EMBD = 32 };

static const uint32_t lengths[N_TEXTS] = {45, 1, 20};

typedef struct fixture {
    const char *name, *arch;
    rf_pooling pooling;
    bool has_head, is_gated, has_bias;
} fixture;

static const fixture fixtures[] = {
    {"bert", "bert", RF_POOL_CLS, false, false, true},
    {"bert-roberta", "bert", RF_POOL_MEAN, false, false, true},
    {"bert-rank", "bert", RF_POOL_RANK, true, false, true},
    {"nomic-bert", "nomic-bert", RF_POOL_MEAN, false, true, false},
    {"modern-bert", "modern-bert", RF_POOL_CLS, false, true, false},
    {"modern-bert-rank", "modern-bert", RF_POOL_RANK, true, true, false},
    {"qwen3-embedding", "qwen3", RF_POOL_LAST, false, true, false},
    {"qwen3-rank", "qwen3", RF_POOL_RANK, true, true, false},
};

static const char *file_of(const char *name, const char *suffix) {
    char path[64];
    snprintf(path, sizeof path, "models/%s.%s", name, suffix);
    return rf_test_data(path);
}

static void read_tokens(const char *name, int32_t *out) {
    assert_int_equal(rf_test_read_tokens(file_of(name, "tokens.txt"), out, N_TOKENS), N_TOKENS);
}

static void open_run(rf_test_run *r, const rf_backend_ops *ops, const char *name) {
    rf_test_run_open(r, ops, file_of(name, "gguf"),
                     (rf_test_run_opts){.embeddings = true, .n_ctx = 64, .n_seqs = N_TEXTS});
}

static void test_binding(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(fixtures); i++) {
        const fixture *f = &fixtures[i];
        rf_error e = {0};
        rf_model *m = NULL;
        if (rf_model_open(&m, file_of(f->name, "gguf"), &e) != RF_OK) fail_msg("%s", e.text);
        assert_string_equal(m->arch->name, f->arch);
        assert_int_equal(m->pooling, f->pooling);
        assert_int_equal(m->head.out != NULL, f->has_head);
        uint64_t bytes = 0;
        for (size_t t = 0; t < rf_gguf_n_tensors(m->file); t++)
            bytes += rf_gguf_tensor_at(m->file, t)->n_bytes;
        assert_int_equal(m->weight_bytes, bytes);
        for (uint32_t il = 0; il < m->n_layers; il++) {
            assert_int_equal(m->layers[il].gate != NULL, f->is_gated);
            assert_int_equal(m->layers[il].bq != NULL, f->has_bias);
        }
        rf_model_close(m);
    }
}

/* Global, local, local, global, local, with a base of their own for the local ones. */
static void test_modern_patterns(void **state) {
    (void)state;
    rf_error e = {0};
    rf_model *m = NULL;
    if (rf_model_open(&m, file_of("modern-bert", "gguf"), &e) != RF_OK) fail_msg("%s", e.text);
    assert_int_equal(m->n_layers, 5);
    for (uint32_t il = 0; il < 5; il++) {
        const rf_layer *l = &m->layers[il];
        bool local = il % 3 != 0;
        assert_int_equal(l->pattern.kind, local ? RF_ATTN_LOCAL_BOTH : RF_ATTN_BIDIRECTIONAL);
        assert_int_equal(l->pattern.window, local ? 16 : 0);
        assert_ptr_equal(l->rope, local ? &m->rope_local : &m->rope);
        assert_int_equal(l->attn_norm.w != NULL, il > 0);
    }
    assert_true(m->rope.inv_freq[1] < m->rope_local.inv_freq[1]);
    rf_model_close(m);
}

static void check_backend(const rf_backend_ops *ops, double limit) {
    for (size_t i = 0; i < RF_COUNT(fixtures); i++) {
        const char *name = fixtures[i].name;
        rf_test_run r;
        open_run(&r, ops, name);
        int32_t tokens[N_TOKENS];
        read_tokens(name, tokens);
        size_t bytes, n = (size_t)N_TOKENS * N_EMBD;
        float *want = (float *)rf_test_read(file_of(name, "hidden.f32"), &bytes);
        assert_int_equal(bytes, n * sizeof *want);
        assert_int_equal(r.plan->n_result, N_EMBD);
        const uint32_t pos[N_TEXTS] = {0};
        const int32_t *const texts[] = {tokens, tokens + 45, tokens + 46};
        float together[N_TOKENS * N_EMBD];
        memcpy(together, rf_test_run_batch(&r, N_TEXTS, lengths, pos, texts), sizeof together);
        double diff = rf_test_max_diff(together, want, n);
        print_message("%-4s %-17s max difference / max: %.2e\n", ops->name, name, diff);
        if (!(diff < limit)) fail_msg("%s: hidden states differ by %g", name, diff);
        for (uint32_t s = 0, row = 0; s < N_TEXTS; row += lengths[s++]) { /* req: B-12 */
            const float *alone = rf_test_run_batch(&r, 1, &lengths[s], pos, &texts[s]);
            assert_memory_equal(alone, together + (size_t)row * N_EMBD,
                                lengths[s] * N_EMBD * sizeof *alone);
        }
        rf_test_run_close(&r);
        rf_free(want);
    }
}

static void test_ref(void **state) { (void)state, check_backend(&rf_ref_ops, 1e-5); }
static void test_cpu(void **state) { (void)state, check_backend(&rf_cpu_ops, 2e-5); }

/* How much row r changes when token t does. */
static double influence(rf_test_run *r, const int32_t *tokens, uint32_t n, uint32_t t,
                        uint32_t row) {
    int32_t other[N_TOKENS];
    float a[N_EMBD], b[N_EMBD];
    const uint32_t pos = 0;
    const int32_t *changed = other;
    memcpy(other, tokens, n * sizeof *other);
    other[t] = tokens[t] == 50 ? 51 : 50;
    memcpy(a, rf_test_run_batch(r, 1, &n, &pos, &tokens) + (size_t)row * N_EMBD, sizeof a);
    memcpy(b, rf_test_run_batch(r, 1, &n, &pos, &changed) + (size_t)row * N_EMBD, sizeof b);
    return rf_test_max_diff(b, a, N_EMBD);
}

/* The first token knows the last one in an encoder, never in a decoder. */
static void test_both_ways(void **state) {
    (void)state;
    const rf_backend_ops *const backends[] = {&rf_ref_ops, &rf_cpu_ops};
    for (size_t i = 0; i < RF_COUNT(fixtures); i++)
        for (size_t k = 0; k < RF_COUNT(backends); k++) {
            rf_test_run r;
            int32_t tokens[N_TOKENS];
            open_run(&r, backends[k], fixtures[i].name);
            read_tokens(fixtures[i].name, tokens);
            double back = influence(&r, tokens, 45, 44, 0);
            if (r.model->arch->encoder)
                assert_true(back > 1e-4);
            else
                assert_true(back == 0);
            assert_true(influence(&r, tokens, 45, 0, 44) > 1e-4);
            rf_test_run_close(&r);
        }
}

/* Without its global layers a token of ModernBERT knows of nothing beyond half a window a layer. */
static void test_window(void **state) {
    (void)state;
    const rf_backend_ops *const backends[] = {&rf_ref_ops, &rf_cpu_ops};
    for (size_t k = 0; k < RF_COUNT(backends); k++) {
        rf_error e = {0};
        rf_model *m = NULL;
        if (rf_model_open(&m, file_of("modern-bert", "gguf"), &e) != RF_OK) fail_msg("%s", e.text);
        m->n_layers = 2;
        for (uint32_t il = 0; il < 2; il++)
            m->layers[il].pattern = (rf_attn_pattern){.kind = RF_ATTN_LOCAL_BOTH, .window = 16};
        rf_test_run r;
        rf_test_run_model(&r, backends[k], m, (rf_test_run_opts){.embeddings = true, .n_ctx = 64});
        int32_t tokens[N_TOKENS];
        read_tokens("modern-bert", tokens);
        assert_true(influence(&r, tokens, 45, 20 + 16, 20) > 1e-6);
        assert_true(influence(&r, tokens, 45, 20 - 16, 20) > 1e-6);
        assert_true(influence(&r, tokens, 45, 20 + 17, 20) == 0);
        assert_true(influence(&r, tokens, 45, 20 - 17, 20) == 0);
        rf_test_run_close(&r);
        rf_model_close(m);
    }
}

static void test_no_logits(void **state) {
    (void)state;
    rf_error e = {0};
    rf_model *m = NULL;
    rf_plan *p = NULL;
    if (rf_model_open(&m, file_of("bert", "gguf"), &e) != RF_OK) fail_msg("%s", e.text);
    assert_int_equal(rf_plan_build(&p, m, NULL, &e), RF_EUNSUPPORTED);
    assert_null(p);
    assert_non_null(strstr(e.text, "bert"));
    assert_non_null(strstr(e.text, "encoder"));
    rf_model_close(m);
}

/* Beyond the table of learned positions there is nothing to read. */
static void test_positions_end(void **state) {
    (void)state;
    const rf_backend_ops *const backends[] = {&rf_ref_ops, &rf_cpu_ops};
    for (size_t k = 0; k < RF_COUNT(backends); k++) {
        rf_test_run r;
        rf_test_run_open(&r, backends[k], file_of("bert", "gguf"),
                         (rf_test_run_opts){.embeddings = true, .n_ctx = 96});
        const int32_t token = 9;
        const uint32_t pos = 80, start[] = {0, 1}, kv_len = 81, out = 0;
        rf_batch b = {.n_tokens = 1,
                      .n_seqs = 1,
                      .n_outputs = 1,
                      .table_stride = r.table_stride,
                      .token = &token,
                      .pos = &pos,
                      .seq_start = start,
                      .kv_len = &kv_len,
                      .table = r.table,
                      .out_row = &out};
        rf_error e = {0};
        assert_int_equal(r.ops->run(r.exec, &b, &e), RF_EARG);
        assert_non_null(strstr(e.text, "80"));
        rf_test_run_close(&r);
    }
}

/* ---- files that are wrong ---- */

static void must(rf_status s, const rf_error *e) {
    if (s != RF_OK) fail_msg("%s", e->text);
}

/* A fixture without a tensor and a key, and with a new key; NULL: as it is. */
static const char *rewrite(const char *name, const char *no_tensor, const char *no_key,
                           const char *new_key, uint32_t value) {
    const char *path = rf_test_tmp("rewritten.gguf");
    rf_gguf *g;
    rf_gguf_writer *w;
    rf_error e = {0};
    must(rf_gguf_open(&g, file_of(name, "gguf"), &e), &e);
    must(rf_gguf_writer_open(&w, path, 32, &e), &e);
    for (size_t i = 0; i < rf_gguf_n_kv(g); i++) {
        const rf_gguf_kv *kv = rf_gguf_kv_at(g, i);
        if (no_key && rf_str_is(kv->key, no_key)) continue;
        must(rf_gguf_put_kv(w, kv, &e), &e);
    }
    if (new_key && strstr(new_key, "causal"))
        must(rf_gguf_put_bool(w, new_key, value != 0, &e), &e);
    else if (new_key)
        must(rf_gguf_put_u32(w, new_key, value, &e), &e);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
            const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
            if (no_tensor && rf_str_is(t->name, no_tensor)) continue;
            must(pass == 0 ? rf_gguf_declare(w, t->name, t->type, t->n_dims, t->ne, &e)
                           : rf_gguf_writer_data(w, t->data, t->n_bytes, &e),
                 &e);
        }
    must(rf_gguf_writer_finish(w, &e), &e);
    rf_gguf_close(g);
    return path;
}

static void expect_refused(const char *path, rf_status status, const char *what) {
    rf_error e = {0};
    rf_model *m = NULL;
    assert_int_equal(rf_model_open(&m, path, &e), status);
    assert_null(m);
    if (!strstr(e.text, what)) fail_msg("'%s' does not say '%s'", e.text, what);
}

static void test_wrong_files(void **state) {
    (void)state;
    static const struct {
        const char *fixture, *tensor;
    } needed[] = {
        {"bert", "position_embd.weight"},         {"bert", "blk.1.attn_output_norm.weight"},
        {"bert", "blk.0.attn_k.weight"},          {"bert", "token_embd_norm.weight"},
        {"nomic-bert", "blk.1.ffn_gate.weight"},  {"nomic-bert", "blk.0.layer_output_norm.weight"},
        {"modern-bert", "output_norm.weight"},    {"modern-bert", "blk.1.attn_norm.weight"},
        {"modern-bert", "blk.4.ffn_norm.weight"}, {"bert-rank", "cls.output.weight"},
    };
    for (size_t i = 0; i < RF_COUNT(needed); i++)
        expect_refused(rewrite(needed[i].fixture, needed[i].tensor, NULL, NULL, 0), RF_EFORMAT,
                       needed[i].tensor);
    expect_refused(rewrite("bert", NULL, "bert.attention.causal", "bert.attention.causal", 1),
                   RF_EUNSUPPORTED, "bert.attention.causal is true");
    expect_refused(rewrite("bert", NULL, "bert.pooling_type", "bert.pooling_type", 5), RF_EFORMAT,
                   "bert.pooling_type is 5, expected 0 to 4");
    expect_refused(rewrite("bert", NULL, "bert.pooling_type", "bert.pooling_type", 4), RF_EFORMAT,
                   "cls.output.weight is missing");
    expect_refused(rewrite("bert", NULL, "bert.context_length", "bert.context_length", 81),
                   RF_EFORMAT, "position_embd.weight");
    expect_refused(rewrite("bert", NULL, "bert.attention.layer_norm_epsilon", NULL, 0), RF_EFORMAT,
                   "bert.attention.layer_norm_epsilon");
}

/* What a file may leave unsaid. */
static void test_defaults(void **state) {
    (void)state;
    static const struct {
        const char *fixture, *no_tensor, *no_key;
        rf_pooling pooling;
    } cases[] = {
        {"bert", NULL, "bert.pooling_type", RF_POOL_MEAN},
        {"bert", "token_types.weight", NULL, RF_POOL_CLS},
        {"bert", NULL, "bert.attention.causal", RF_POOL_CLS},
        {"bert-rank", NULL, "bert.pooling_type", RF_POOL_RANK},
        {"modern-bert", NULL, "modern-bert.attention.sliding_window_pattern", RF_POOL_CLS},
        {"qwen3-embedding", NULL, "qwen3.pooling_type", RF_POOL_NONE},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_error e = {0};
        rf_model *m = NULL;
        must(rf_model_open(
                 &m, rewrite(cases[i].fixture, cases[i].no_tensor, cases[i].no_key, NULL, 0), &e),
             &e);
        assert_int_equal(m->pooling, cases[i].pooling);
        if (m->layers[0].rope == &m->rope && m->n_layers == 5)
            assert_int_equal(m->layers[3].pattern.kind, RF_ATTN_BIDIRECTIONAL);
        rf_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binding),     cmocka_unit_test(test_modern_patterns),
        cmocka_unit_test(test_ref),         cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_both_ways),   cmocka_unit_test(test_window),
        cmocka_unit_test(test_no_logits),   cmocka_unit_test(test_positions_end),
        cmocka_unit_test(test_wrong_files), cmocka_unit_test(test_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
