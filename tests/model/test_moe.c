/* test_moe.c - models with experts or latent attention against logits made by an independent
 * implementation (tools/make_moe_fixtures.py), and what their routers choose.
 *
 * Every expert of every layer is used by the fixtures' tokens, so a wrong plane, weight, group or
 * shared expert shows in the logits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/run.h"

enum { N_TOKENS = 40, N_VOCAB = 128 };

typedef struct fixture {
    const char *name, *arch;
    uint32_t n_layers, n_dense, n_experts, n_used, n_ff, n_ff_shared;
    rf_router_kind kind;
    bool normalise, has_select_bias;
    float scale;
    uint32_t n_groups, n_groups_used;
    double cpu; /* how far the CPU's result may be, which for blocks rounds its input to 8 bits */
} fixture;

#define SOFT RF_ROUTER_SOFTMAX
#define SIGM RF_ROUTER_SIGMOID
static const fixture fixtures[] = {
    {"mixtral", "llama", 2, 0, 8, 2, 16, 0, SOFT, 1, 0, 1, 0, 0, 1e-4},
    {"mixtral-ties", "llama", 1, 0, 6, 3, 16, 0, SOFT, 1, 0, 1, 0, 0, 1e-4},
    {"qwen2moe", "qwen2moe", 2, 0, 6, 3, 12, 28, SOFT, 0, 0, 1, 0, 0, 1e-4},
    {"qwen2moe-top1", "qwen2moe", 2, 0, 4, 1, 12, 20, SOFT, 0, 0, 1, 0, 0, 1e-4},
    {"qwen3moe", "qwen3moe", 2, 0, 16, 8, 8, 0, SOFT, 1, 0, 1, 0, 0, 1e-4},
    {"qwen3moe-quant", "qwen3moe", 1, 0, 4, 2, 32, 0, SOFT, 1, 0, 1, 0, 0, 0.05},
    {"glm4moe", "glm4moe", 3, 1, 8, 3, 12, 24, SIGM, 1, 1, 1.7f, 0, 0, 1e-4},
    {"glm4moe-air", "glm4moe", 3, 1, 8, 3, 12, 12, SIGM, 1, 1, 1.7f, 0, 0, 1e-4},
    {"olmoe", "olmoe", 2, 0, 8, 4, 16, 0, SOFT, 0, 0, 1, 0, 0, 1e-4},
    {"granitemoe", "granitemoe", 2, 0, 8, 3, 16, 0, SOFT, 1, 0, 1, 0, 0, 1e-4},
    {"granitemoe-shared", "granitemoe", 2, 0, 4, 2, 16, 16, SOFT, 1, 0, 1, 0, 0, 1e-4},
    {"gpt-oss", "gpt-oss", 4, 0, 4, 2, 32, 0, RF_ROUTER_SOFTMAX_TOPK, 0, 0, 1, 0, 0, 0.1},
    {"deepseek2-lite", "deepseek2", 2, 1, 8, 3, 12, 24, SOFT, 0, 0, 1, 0, 0, 1e-4},
    {"deepseek2-old", "deepseek2", 2, 1, 8, 3, 12, 24, SOFT, 0, 0, 1, 0, 0, 1e-4},
    {"deepseek2-v2", "deepseek2", 2, 1, 12, 3, 12, 24, SOFT, 0, 0, 4, 4, 2, 1e-4},
    {"deepseek2-v3", "deepseek2", 3, 1, 12, 3, 12, 12, SIGM, 1, 1, 2.5f, 4, 2, 1e-4},
    {"deepseek2-glm", "deepseek2", 2, 1, 8, 3, 12, 24, SIGM, 1, 1, 1.8f, 0, 0, 1e-4},
    {"dots1", "dots1", 3, 1, 8, 3, 12, 24, SIGM, 1, 1, 2.5f, 0, 0, 1e-4},
    {"bailingmoe2", "bailingmoe2", 3, 1, 8, 3, 12, 12, SIGM, 1, 1, 2.5f, 4, 2, 1e-4},
    {"exaone-moe", "exaone-moe", 5, 1, 4, 2, 12, 12, SIGM, 1, 1, 2.5f, 0, 0, 1e-4},
    {"ernie4_5-moe", "ernie4_5-moe", 3, 1, 6, 2, 12, 24, SOFT, 1, 1, 1, 0, 0, 1e-4},
    {"ernie4_5-moe-step", "ernie4_5-moe", 4, 2, 6, 2, 12, 24, SOFT, 1, 1, 1, 0, 0, 1e-4},
    {"minimax-m2", "minimax-m2", 2, 0, 8, 4, 16, 0, SIGM, 1, 1, 1, 0, 0, 1e-4},
    {"hunyuan-moe", "hunyuan-moe", 2, 0, 6, 2, 16, 16, SOFT, 1, 0, 1, 0, 0, 1e-4},
};

static const char *file_of(const char *name, const char *suffix) {
    char path[96];
    snprintf(path, sizeof path, "models/%s.%s", name, suffix);
    return rf_test_data(path);
}

static rf_model *open_model(const char *name) {
    rf_error e = {0};
    rf_model *m = NULL;
    if (rf_model_open(&m, file_of(name, "gguf"), &e) != RF_OK) fail_msg("%s", e.text);
    return m;
}

static void check_router(const fixture *f, const rf_moe *x) {
    const rf_router *r = &x->choice;
    assert_int_equal(r->kind, f->kind);
    assert_int_equal(r->n_experts, f->n_experts);
    assert_int_equal(r->n_used, f->n_used);
    assert_int_equal(r->n_groups, f->n_groups);
    assert_int_equal(r->n_groups_used, f->n_groups_used);
    assert_int_equal(r->normalise, f->normalise);
    assert_int_equal(r->select_bias != NULL, f->has_select_bias);
    assert_true(r->scale == f->scale);
    assert_int_equal(x->down->planes, f->n_experts);
    assert_int_equal(x->down->cols, f->n_ff);
    assert_int_equal(x->shared_up ? x->shared_up->rows : 0, f->n_ff_shared);
}

/* req: C-13 (which layers have experts, and how they are chosen, is what the file says) */
static void test_binding(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(fixtures); i++) {
        const fixture *f = &fixtures[i];
        rf_model *m = open_model(f->name);
        assert_string_equal(m->arch->name, f->arch);
        assert_int_equal(m->n_layers, f->n_layers);
        assert_int_equal(m->n_ff_expert, f->n_ff);
        uint32_t n_dense = 0;
        for (uint32_t il = 0; il < m->n_layers; il++) {
            const rf_layer *l = &m->layers[il];
            n_dense += !l->moe;
            if (l->moe)
                check_router(f, l->moe);
            else
                assert_non_null(l->down);
        }
        assert_int_equal(n_dense, f->n_dense);
        rf_model_close(m);
    }
}

/* Elements and bytes of all tensors but those of a layer for multi-token prediction. */
static void test_sizes(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(fixtures); i++) {
        rf_model *m = open_model(fixtures[i].name);
        char mtp[16];
        snprintf(mtp, sizeof mtp, "blk.%u.", m->n_layers);
        uint64_t params = 0, bytes = 0, left_out = 0;
        for (size_t t = 0; t < rf_gguf_n_tensors(m->file); t++) {
            const rf_gguf_tensor *w = rf_gguf_tensor_at(m->file, t);
            if (rf_str_starts(w->name, mtp)) {
                left_out++;
                continue;
            }
            params += w->ne[0] * w->ne[1] * w->ne[2];
            bytes += w->n_bytes;
        }
        assert_int_equal(m->n_params, params);
        assert_int_equal(m->weight_bytes, bytes);
        bool has_mtp =
            strcmp(fixtures[i].name, "glm4moe") == 0 || strcmp(fixtures[i].name, "exaone-moe") == 0;
        assert_int_equal(left_out > 10, has_mtp);
        rf_model_close(m);
    }
}

/* Stacked planes of every format keep their own bytes: nothing is decoded at open. */
static void test_quantised_planes(void **state) {
    (void)state;
    rf_model *m = open_model("qwen3moe-quant");
    const rf_moe *x = m->layers[0].moe;
    assert_int_equal(x->gate->type, RF_DT_Q4_K);
    assert_int_equal(x->up->type, RF_DT_Q6_K);
    assert_int_equal(x->down->type, RF_DT_Q8_0);
    assert_int_equal(x->gate->row_bytes, 144);
    assert_int_equal(x->down->row_bytes, 34);
    rf_model_close(m);
    m = open_model("gpt-oss");
    x = m->layers[3].moe;
    assert_int_equal(x->gate->type, RF_DT_MXFP4);
    assert_int_equal(x->down->type, RF_DT_MXFP4);
    assert_non_null(x->router_bias);
    assert_non_null(x->down_b);
    assert_non_null(m->layers[3].sinks);
    assert_int_equal(m->layers[2].pattern.kind, RF_ATTN_LOCAL);
    assert_int_equal(m->layers[3].pattern.kind, RF_ATTN_CAUSAL);
    rf_model_close(m);
}

/* Absorbed, the cache of a layer is one short row; expanded, as many as there are heads. */
static void test_latent_sizes(void **state) {
    (void)state;
    rf_model *m = open_model("deepseek2-v3");
    const rf_mla *x = m->layers[2].mla;
    assert_true(x->absorbed && x->q_a && !x->kv_b);
    assert_int_equal(m->n_kv_heads, 1);
    assert_int_equal(m->head_dim, 24 + 8);
    assert_int_equal(x->nope_dim, 12);
    rf_model_close(m);
    m = open_model("deepseek2-old");
    x = m->layers[1].mla;
    assert_true(!x->absorbed && !x->q_a && x->kv_b);
    assert_int_equal(m->n_kv_heads, 4);
    assert_int_equal(m->head_dim, 12 + 8);
    assert_int_equal(x->value_dim, 10);
    rf_model_close(m);
}

static void compare(const fixture *f, const rf_backend_ops *ops, double limit) {
    enum { N = N_TOKENS * N_VOCAB };
    rf_test_run r;
    rf_test_run_open(&r, ops, file_of(f->name, "gguf"), (rf_test_run_opts){.n_ctx = 64});
    int32_t tokens[N_TOKENS + 1];
    uint32_t n = rf_test_read_tokens(file_of(f->name, "tokens.txt"), tokens, N_TOKENS + 1);
    assert_int_equal(n, N_TOKENS);
    size_t bytes = 0;
    uint8_t *raw = rf_test_read(file_of(f->name, "logits.f32"), &bytes);
    assert_int_equal(bytes, N * sizeof(float));
    float *got = rf_alloc(N, sizeof *got), *cut = rf_alloc(N, sizeof *cut);
    assert_true(got && cut);
    rf_test_run_text(&r, tokens, n, n, got);
    double diff = rf_test_max_diff(got, (const float *)(void *)raw, N);
    print_message("%-4s %-18s max difference / max logit: %.2e\n", ops->name, f->name, diff);
    if (!(diff < limit)) fail_msg("%s: logits differ by %g", f->name, diff);
    for (uint32_t chunk = 1; chunk <= 13; chunk += 6) { /* req: B-34 */
        rf_test_run_text(&r, tokens, n, chunk, cut);
        assert_memory_equal(cut, got, N * sizeof *got);
    }
    rf_test_run_close(&r);
    rf_free(raw);
    rf_free(got);
    rf_free(cut);
}

/* req: C-06, C-08, C-13: logits of every position agree with the independent implementation, and a
 * prompt cut into chunks gives the same bits */
static void test_logits(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(fixtures); i++)
        compare(&fixtures[i], &rf_ref_ops, 1e-4);
}

static void test_logits_cpu(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(fixtures); i++)
        compare(&fixtures[i], &rf_cpu_ops, fixtures[i].cpu);
}

/* ---- what the routers choose ---- */

/* Weights and experts of one row of one layer, best first. */
typedef void (*route_check)(const fixture *f, const rf_router *r, const float *scores,
                            const float *route, bool *used);

/* Runs the fixture's tokens and shows every row of every layer's scores and route to check. */
static void each_route(const fixture *f, route_check check) {
    rf_test_run r;
    rf_test_run_open(&r, &rf_ref_ops, file_of(f->name, "gguf"),
                     (rf_test_run_opts){.n_ctx = 64, .keep_values = true});
    int32_t tokens[N_TOKENS];
    uint32_t n = rf_test_read_tokens(file_of(f->name, "tokens.txt"), tokens, N_TOKENS);
    float logits[N_TOKENS * N_VOCAB], scores[N_TOKENS * 16], route[N_TOKENS * 16];
    rf_test_run_text(&r, tokens, n, n, logits);
    uint32_t n_layers = 0;
    for (uint32_t s = 0; s < r.plan->n_steps; s++) {
        const rf_step *step = &r.plan->steps[s];
        if (step->op != RF_OP_ROUTE) continue;
        uint32_t n_scores = r.plan->vals[step->a].cols, n_route = r.plan->vals[step->dst].cols;
        assert_int_equal(r.ops->peek(r.exec, step->a, scores, (size_t)n * n_scores), RF_OK);
        assert_int_equal(r.ops->peek(r.exec, step->dst, route, (size_t)n * n_route), RF_OK);
        bool used[16] = {0};
        for (uint32_t t = 0; t < n; t++)
            check(f, step->router, scores + t * n_scores, route + t * n_route, used);
        for (uint32_t e = 0; e < f->n_experts; e++)
            if (!used[e]) fail_msg("%s: expert %u is never used", f->name, e);
        n_layers++;
    }
    assert_int_equal(n_layers, f->n_layers - f->n_dense);
    rf_test_run_close(&r);
}

/* Every expert occurs, none twice in a row, in no more groups than allowed, and where weights are
 * normalised they add up to the factor. */
static void check_row(const fixture *f, const rf_router *r, const float *scores, const float *route,
                      bool *used) {
    (void)scores;
    const float *weight = route, *expert = route + f->n_used;
    bool in_row[16] = {0}, in_group[16] = {0};
    uint32_t n_groups = 0;
    double sum = 0;
    for (uint32_t i = 0; i < f->n_used; i++) {
        uint32_t e = (uint32_t)expert[i];
        assert_true((float)e == expert[i] && e < f->n_experts && !in_row[e]);
        assert_true(weight[i] > 0);
        in_row[e] = used[e] = true;
        sum += (double)weight[i];
        if (r->n_groups == 0) continue;
        uint32_t g = e / (f->n_experts / r->n_groups);
        n_groups += !in_group[g];
        in_group[g] = true;
    }
    assert_true(n_groups <= r->n_groups_used);
    if (f->normalise || f->kind == RF_ROUTER_SOFTMAX_TOPK)
        assert_true(fabs(sum - (double)f->scale) < 1e-5);
    else
        assert_true(sum < (double)f->scale);
}

static void test_routes(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(fixtures); i++)
        if (strcmp(fixtures[i].name, "mixtral-ties") != 0) each_route(&fixtures[i], check_row);
}

/* Experts 1, 3 and 4 are the same and score the same: of them the lower number comes first. */
static void check_tie(const fixture *f, const rf_router *r, const float *scores, const float *route,
                      bool *used) {
    (void)r;
    assert_true(scores[1] == scores[3] && scores[3] == scores[4]);
    static const uint32_t twins[] = {1, 3, 4};
    uint32_t next = 0;
    for (uint32_t i = 0; i < f->n_used; i++) {
        uint32_t e = (uint32_t)route[f->n_used + i];
        used[e] = true;
        if (e == 1 || e == 3 || e == 4) assert_int_equal(e, twins[next++]);
        if (i > 0) assert_true(scores[(uint32_t)route[f->n_used + i - 1]] >= scores[e]);
    }
}

static void test_ties(void **state) {
    (void)state;
    each_route(&fixtures[1], check_tie);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binding),      cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_latent_sizes), cmocka_unit_test(test_quantised_planes),
        cmocka_unit_test(test_logits),       cmocka_unit_test(test_logits_cpu),
        cmocka_unit_test(test_routes),       cmocka_unit_test(test_ties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
