/* test_fusion.c - what the CPU backend fuses and what it must leave alone.
 *
 * A plan that keeps its values is run step by step; the same plan without must give the same bits,
 * for the models there are and for plans that no model has: values read twice, read by other ops than
 * usual, or in another order. */
#include "backend/odd.h"
#include "backend/session.h"
#include "backend/zoo.h"
#include "plan/plan.h"

enum { N_TOKENS = 50 };

static void compare(const rf_model *m) {
    int32_t token[N_TOKENS];
    uint64_t seed = 41;
    random_tokens(token, N_TOKENS, m->n_vocab, &seed);
    session_opts o = session_defaults();
    session fused = open_session(m, &o);
    o.keep_values = true;
    session kept = open_session(m, &o);
    for (uint32_t chunk = 1; chunk <= N_TOKENS; chunk = chunk * 3 + 1) {
        float *a = logits_of(&fused, token, N_TOKENS, chunk);
        float *b = logits_of(&kept, token, N_TOKENS, chunk);
        for (size_t i = 0; i < (size_t)N_TOKENS * m->n_vocab; i++)
            assert_true(isfinite(a[i]));
        assert_memory_equal(a, b, sizeof *a * N_TOKENS * m->n_vocab);
        rf_free(a);
        rf_free(b);
    }
    assert_true(rf_cpu_ops.exec_bytes(fused.x) < rf_cpu_ops.exec_bytes(kept.x));
    close_session(&fused);
    close_session(&kept);
}

static void test_models(void **state) {
    (void)state;
    static const char *const files[] = {"models/llama-gqa.gguf",   "models/llama-f16.gguf",
                                        "models/llama-bias.gguf",  "models/qwen2-yarn.gguf",
                                        "models/qwen3-bf16.gguf",  "models/mistral-window.gguf",
                                        "models/llama-linear.gguf"};
    for (size_t i = 0; i < RF_COUNT(files); i++) {
        rf_model *m = open_model(rf_test_data(files[i]));
        compare(m);
        rf_model_close(m);
    }
    rf_model *m = open_model(zoo_write());
    compare(m);
    rf_model_close(m);
}

/* The norm is read by the residual as well; in layer 0 the query before its rope and in layer 1 the
 * one after it is read by others than attention; keys are rotated twice. */
static rf_status build_shared(const rf_model *m, rf_plan *p) {
    rf_val x = rf_emit_embed(p, m->tok_embd, RF_EMBED_TOKEN);
    const rf_attn attn = {.n_heads = m->n_heads,
                          .n_kv_heads = m->n_kv_heads,
                          .head_dim = m->head_dim,
                          .value_dim = m->head_dim,
                          .scale = (float)(1 / sqrt((double)m->head_dim))};
    for (uint32_t il = 0; il < 2; il++) {
        const rf_layer *l = &m->layers[il];
        rf_val h = rf_emit_rms_norm(p, x, l->attn_norm.w, 0);
        rf_val q = rf_emit_matmul(p, h, l->wq, NULL), k = rf_emit_matmul(p, h, l->wk, NULL);
        rf_val v = rf_emit_matmul(p, h, l->wv, NULL);
        rf_val turned = rf_emit_rope(p, q, m->n_heads, &m->rope);
        k = rf_emit_rope(p, k, m->n_kv_heads, &m->rope);
        k = rf_emit_rope(p, k, m->n_kv_heads, &m->rope);
        rf_val at = rf_emit_attend(p, il, turned, k, v, &attn);
        rf_val o = rf_emit_matmul(p, at, l->wo, NULL);
        rf_val twice = rf_emit_add(p, rf_emit_add(p, o, h), rf_emit_add(p, o, o));
        x = rf_emit_add(p, twice, il == 0 ? q : turned);
    }
    rf_val picked = rf_emit_pick(p, x);
    rf_val norm = rf_emit_rms_norm(p, picked, m->out_norm.w, 0);
    p->result = rf_emit_matmul(p, rf_emit_add(p, norm, picked), m->out, NULL);
    return p->err.status;
}

/* Up before gate, the gate read twice, an add of something made later, a value as both operands. */
static rf_status build_swapped(const rf_model *m, rf_plan *p) {
    const rf_layer *l = &m->layers[1];
    rf_val x = rf_emit_embed(p, m->tok_embd, RF_EMBED_TOKEN);
    rf_val h = rf_emit_rms_norm(p, x, l->ffn_norm.w, 0);
    rf_val up = rf_emit_matmul(p, h, l->up, NULL), gate = rf_emit_matmul(p, h, l->gate, NULL);
    rf_val y = rf_emit_matmul(p, rf_emit_glu(p, RF_ACT_SILU, gate, up), l->down, NULL);
    rf_val later = rf_emit_rms_norm(p, x, l->attn_norm.w, 0);
    x = rf_emit_add(p, y, later);
    h = rf_emit_rms_norm(p, x, l->ffn_norm.w, 0);
    gate = rf_emit_matmul(p, h, l->gate, NULL);
    up = rf_emit_matmul(p, h, l->up, NULL);
    rf_val both = rf_emit_add(p, rf_emit_glu(p, RF_ACT_SILU, gate, up),
                              rf_emit_glu(p, RF_ACT_SILU, gate, gate));
    x = rf_emit_add(p, rf_emit_matmul(p, both, l->down, NULL), x);
    p->result = rf_emit_matmul(p, rf_emit_pick(p, x), m->out, NULL);
    return p->err.status;
}

/* One input for more products than a task holds, and picked rows with a residual of their own. */
static rf_status build_wide(const rf_model *m, rf_plan *p) {
    const rf_layer *l = &m->layers[0], *l2 = &m->layers[1];
    rf_val x = rf_emit_embed(p, m->tok_embd, RF_EMBED_TOKEN);
    rf_val h = rf_emit_rms_norm(p, x, l->attn_norm.w, 0), sum = 0;
    const rf_tensor *w[] = {l->gate, l2->gate, l->up, l2->up, l->gate, l2->up};
    for (size_t i = 0; i < RF_COUNT(w); i++) {
        rf_val y = rf_emit_matmul(p, h, w[i], NULL);
        sum = sum ? rf_emit_add(p, sum, y) : y;
    }
    rf_val picked = rf_emit_pick(p, sum), x_picked = rf_emit_pick(p, x);
    rf_val y = rf_emit_add(p, x_picked, rf_emit_matmul(p, picked, l->down, NULL));
    p->result = rf_emit_matmul(p, rf_emit_rms_norm(p, y, m->out_norm.w, 0), m->out, NULL);
    return p->err.status;
}

static void test_odd_plans(void **state) {
    (void)state;
    rf_status (*const builders[])(const rf_model *, rf_plan *) = {build_shared, build_swapped,
                                                                  build_wide};
    static const char *const files[] = {"models/llama-mha.gguf", "models/llama-f16.gguf", NULL};
    for (size_t f = 0; f < RF_COUNT(files); f++) {
        rf_model *m = open_model(files[f] ? rf_test_data(files[f]) : zoo_write());
        const rf_arch *own = m->arch;
        for (size_t i = 0; i < RF_COUNT(builders); i++) {
            rf_arch other = *own;
            other.build = builders[i];
            m->arch = &other;
            compare(m);
            m->arch = own;
        }
        rf_model_close(m);
    }
}

/* Plans of every op, as random as they come. */
static void test_random_plans(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        odd *o = odd_open(seed, false, false, true);
        compare(&o->m);
        odd_close(o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_odd_plans),
        cmocka_unit_test(test_random_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
