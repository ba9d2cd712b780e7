/* odd.h - random models that no file holds: plans of every op in shapes, orders and number formats
 * that architectures do not have, from a seed.
 *
 * The weights are made while the plan is built and come out the same each time it is.  Values are
 * read twice, late, and by ops that usually do not; activations stay tame. */
#pragma once
#include "backend/session.h"
#include "plan/plan.h"

enum { ODD_LAYERS = 2, ODD_POSITIONS = 128 };

typedef struct odd {
    rf_model m; /* first: a builder finds the rest behind it */
    rf_arch arch;
    rf_layer layers[ODD_LAYERS];
    rf_arena *arena;
    rf_rope ropes[2];
    rf_router routers[ODD_LAYERS];
    uint64_t start, seed;
    bool causal_only; /* a row never sees later ones */
    bool float_only;  /* no integer formats */
    bool stateful;    /* some layers keep a state instead of keys and values */
} odd;

static inline uint32_t odd_below(odd *o, uint32_t n) {
    return (uint32_t)(rf_test_rand(&o->seed) % n);
}

static inline rf_dtype odd_type(odd *o, uint32_t cols) {
    static const rf_dtype any[] = {RF_DT_F32,  RF_DT_F16,  RF_DT_BF16, RF_DT_Q8_0, RF_DT_Q4_0,
                                   RF_DT_Q5_1, RF_DT_Q4_1, RF_DT_Q4_K, RF_DT_Q6_K, RF_DT_Q3_K};
    uint32_t n = o->float_only || cols % 32 ? 3 : cols % 256 ? 7 : RF_COUNT(any);
    return any[odd_below(o, n)];
}

/* [planes][rows][cols] of noise around mean. */
static inline const rf_tensor *odd_tensor(odd *o, rf_dtype type, uint32_t planes, uint32_t rows,
                                          uint32_t cols, float mean, float width) {
    const rf_dtype_info *info = rf_dtype_get(type);
    rf_tensor *t = (rf_tensor *)rf_arena_alloc(o->arena, 1, sizeof *t);
    float *row = (float *)rf_alloc(cols, sizeof *row);
    assert_true(t && row && info->encode);
    *t = (rf_tensor){.name = RF_STR("odd"), .type = type, .cols = cols, .rows = rows};
    t->planes = planes;
    t->row_bytes = (size_t)cols / info->block_elems * info->block_bytes;
    uint8_t *data = (uint8_t *)rf_arena_alloc(o->arena, (size_t)planes * rows, t->row_bytes);
    assert_non_null(data);
    for (size_t r = 0; r < (size_t)planes * rows; r++) {
        for (uint32_t i = 0; i < cols; i++)
            row[i] = mean + width * rf_test_randf(&o->seed);
        info->encode(row, data + r * t->row_bytes, cols, NULL);
    }
    t->data = data;
    rf_free(row);
    return t;
}

static inline const rf_tensor *odd_planes(odd *o, uint32_t planes, uint32_t rows, uint32_t cols) {
    return odd_tensor(o, odd_type(o, cols), planes, rows, cols, 0, 1.7f / sqrtf((float)cols));
}

static inline const rf_tensor *odd_matrix(odd *o, uint32_t rows, uint32_t cols) {
    return odd_planes(o, 1, rows, cols);
}

static inline const rf_tensor *odd_vector(odd *o, uint32_t n, float mean) {
    rf_dtype type = odd_below(o, 2) ? RF_DT_F32 : RF_DT_F16;
    return odd_tensor(o, type, 1, 1, n, mean, 0.4f);
}

/* Each half of the time a bias. */
static inline const rf_tensor *odd_bias(odd *o, uint32_t n) {
    return odd_below(o, 2) ? odd_vector(o, n, 0) : NULL;
}

static inline uint32_t odd_cols(const rf_plan *p, rf_val v) { return p->vals[v].cols; }

static inline rf_val odd_norm(odd *o, rf_plan *p, rf_val a, uint32_t head_dim) {
    uint32_t n = head_dim ? head_dim : odd_cols(p, a);
    const rf_tensor *w = odd_below(o, 4) ? odd_vector(o, n, 1) : NULL;
    if (odd_below(o, 2)) return rf_emit_rms_norm(p, a, w, head_dim);
    return rf_emit_layer_norm(p, a, w, odd_bias(o, n), head_dim);
}

static inline rf_val odd_product(odd *o, rf_plan *p, rf_val a, uint32_t rows) {
    const rf_tensor *w = odd_matrix(o, rows, odd_cols(p, a));
    return rf_emit_matmul(p, a, w, odd_bias(o, rows));
}

static inline rf_attn odd_attn(odd *o, uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim,
                               uint32_t value_dim) {
    static const rf_attn_pattern patterns[] = {{RF_ATTN_CAUSAL, 0, 0},
                                               {RF_ATTN_LOCAL, 9, 0},
                                               {RF_ATTN_GLOBAL_LOCAL, 6, 3},
                                               {RF_ATTN_BIDIRECTIONAL, 0, 0},
                                               {RF_ATTN_LOCAL_BOTH, 12, 0}};
    rf_attn at = {.n_heads = n_heads, .n_kv_heads = n_kv_heads, .head_dim = head_dim};
    at.value_dim = value_dim;
    at.scale = 1.0f / sqrtf((float)head_dim);
    at.softcap = odd_below(o, 2) ? 4.0f : 0;
    at.pattern = patterns[odd_below(o, o->causal_only ? 3 : 5)];
    at.sinks = odd_below(o, 2) ? odd_vector(o, n_heads, 0.5f) : NULL;
    return at;
}

/* Grouped-query attention: heads normed singly, together or not, rotated or not. */
static inline rf_val odd_gqa(odd *o, rf_plan *p, rf_val h, uint32_t il) {
    uint32_t n_kv = 1 + odd_below(o, 3), n_heads = n_kv * (1 + odd_below(o, 3));
    uint32_t head_dim = 4 * (1 + odd_below(o, 10)), value_dim = head_dim;
    if (odd_below(o, 2)) value_dim = 1 + odd_below(o, 40);
    rf_val q = odd_product(o, p, h, n_heads * head_dim);
    rf_val k = odd_product(o, p, h, n_kv * head_dim), v = odd_product(o, p, h, n_kv * value_dim);
    if (odd_below(o, 2)) {
        uint32_t of = odd_below(o, 2) ? head_dim : 0;
        q = odd_norm(o, p, q, of);
        k = odd_norm(o, p, k, odd_below(o, 4) ? of : 2);
    }
    const rf_rope *rope = &o->ropes[odd_below(o, 2)];
    if (odd_below(o, 3)) {
        q = rf_emit_rope(p, q, n_heads, rope);
        k = rf_emit_rope(p, k, n_kv, rope);
    }
    if (odd_below(o, 4) == 0) q = rf_emit_scale(p, q, 1.5f);
    rf_attn at = odd_attn(o, n_heads, n_kv, head_dim, value_dim);
    rf_val y = rf_emit_attend(p, il, q, k, v, &at);
    if (odd_below(o, 4) == 0) /* what attention prepares in place is read by others too */
        y = rf_emit_concat(p, y, odd_below(o, 2) ? q : h, 1, 1);
    return y;
}

/* Latent attention: one key for all heads, whose first columns are the value. */
static inline rf_val odd_latent(odd *o, rf_plan *p, rf_val h, uint32_t il) {
    uint32_t n_heads = 1 + odd_below(o, 4), rank = 8 * (1 + odd_below(o, 8));
    uint32_t n_rope = 4 + 2 * odd_below(o, 4), nope = 5 + odd_below(o, 40), v_dim = 3 + il * 29;
    rf_val q = odd_product(o, p, h, n_heads * (nope + n_rope));
    rf_val kv = odd_product(o, p, h, rank + n_rope);
    rf_val c = odd_norm(o, p, rf_emit_slice(p, kv, 1, 0, rank), 0);
    rf_val k_rope = rf_emit_rope(p, rf_emit_slice(p, kv, 1, rank, n_rope), 1, &o->ropes[il]);
    rf_val q_rope = rf_emit_slice(p, q, n_heads, nope, n_rope);
    q_rope = rf_emit_rope(p, q_rope, n_heads, &o->ropes[il]);
    rf_val q_nope = rf_emit_slice(p, q, n_heads, 0, nope);
    q_nope = rf_emit_head_matmul(p, q_nope, odd_planes(o, n_heads, rank, nope));
    q = rf_emit_concat(p, q_nope, q_rope, n_heads, n_heads);
    rf_attn at = odd_attn(o, n_heads, 1, rank + n_rope, rank);
    rf_val y = rf_emit_attend(p, il, q, rf_emit_concat(p, c, k_rope, 1, 1), 0, &at);
    y = rf_emit_head_matmul(p, y, odd_planes(o, n_heads, v_dim, rank));
    return rf_emit_concat(p, y, k_rope, n_heads, 1);
}

/* A convolution along the sequence, of columns that fill no piece, between gates or not. */
static inline rf_val odd_conv(odd *o, rf_plan *p, rf_val h) {
    uint32_t n = odd_below(o, 2) ? 8 * (1 + odd_below(o, 8)) : 250 + odd_below(o, 40);
    uint32_t taps = 1 + odd_below(o, odd_below(o, 4) ? 5 : RF_MAX_TAPS);
    rf_val x = odd_product(o, p, h, n);
    const rf_tensor *w = odd_tensor(o, odd_type(o, 1), 1, n, taps, 0, 0.9f);
    rf_val y = rf_emit_conv(p, x, w, odd_bias(o, n));
    if (odd_below(o, 2)) y = rf_emit_mul(p, odd_product(o, p, h, n), y);
    return odd_below(o, 3) ? y : rf_emit_add(p, y, x);
}

/* The delta rule over heads of any sizes, behind a convolution or not. */
static inline rf_val odd_delta(odd *o, rf_plan *p, rf_val h) {
    rf_delta d = {.n_kv_heads = 1 + odd_below(o, 3), .heads_in_turn = odd_below(o, 2)};
    d.n_heads = d.n_kv_heads * (1 + odd_below(o, 3));
    d.head_dim = 1 + odd_below(o, 24);
    d.value_dim = 1 + odd_below(o, 40);
    uint32_t n = 2 * d.n_kv_heads * d.head_dim + d.n_heads * d.value_dim;
    d.decay = odd_tensor(o, RF_DT_F32, 1, 1, d.n_heads, -1, 0.8f);
    d.bias = odd_vector(o, d.n_heads, 0);
    rf_val qkv = odd_product(o, p, h, n);
    if (odd_below(o, 2)) {
        const rf_tensor *w = odd_tensor(o, RF_DT_F32, 1, n, 4, 0, 0.9f);
        qkv = rf_emit_act(p, RF_ACT_SILU, rf_emit_conv(p, qkv, w, NULL));
    }
    rf_val y = rf_emit_delta(p, qkv, odd_product(o, p, h, 2 * d.n_heads), &d);
    return odd_below(o, 2) ? y : odd_norm(o, p, y, d.value_dim);
}

/* Mamba-2's scan over heads of any sizes. */
static inline rf_val odd_scan(odd *o, rf_plan *p, rf_val h) {
    rf_delta d = {.n_kv_heads = 1 + odd_below(o, 3), .head_dim = 1 + odd_below(o, 24)};
    d.n_heads = d.n_kv_heads * (1 + odd_below(o, 3));
    d.value_dim = 1 + odd_below(o, 40);
    uint32_t n_v = d.n_heads * d.value_dim;
    d.decay = odd_tensor(o, RF_DT_F32, 1, 1, d.n_heads, -1, 0.8f);
    d.bias = odd_vector(o, d.n_heads, 0);
    rf_val x = odd_product(o, p, h, n_v + 2 * d.n_kv_heads * d.head_dim);
    rf_val y = rf_emit_scan(p, x, odd_product(o, p, h, d.n_heads), &d);
    return odd_norm(o, p, rf_emit_add(p, y, rf_emit_slice(p, x, 1, 0, n_v)), d.value_dim);
}

static inline rf_act odd_act(odd *o, bool glu) {
    return (rf_act)odd_below(o, (uint32_t)RF_ACT_SWIGLU_OAI + glu);
}

static inline rf_val odd_ffn(odd *o, rf_plan *p, rf_val h) {
    uint32_t n_ff = odd_below(o, 2) ? 96 : 1 + odd_below(o, 150), n = o->m.n_embd;
    if (odd_below(o, 3) == 0) {
        rf_val up = odd_product(o, p, h, n_ff);
        return odd_product(o, p, rf_emit_act(p, odd_act(o, false), up), n);
    }
    bool swap = odd_below(o, 2);
    rf_val first = odd_product(o, p, h, n_ff), second = odd_product(o, p, h, n_ff);
    rf_val y = rf_emit_glu(p, odd_act(o, true), swap ? second : first, swap ? first : second);
    if (odd_below(o, 4) == 0) y = rf_emit_mul(p, y, first);
    return odd_product(o, p, rf_emit_softcap(p, y, odd_below(o, 3) ? 0 : 5.0f), n);
}

static inline void odd_make_router(odd *o, rf_router *r) {
    *r = (rf_router){.kind = (rf_router_kind)odd_below(o, 3), .scale = 1, .n_groups = 1};
    r->n_experts = 1 + odd_below(o, 13);
    if (odd_below(o, 2)) {
        r->n_groups = 2 + odd_below(o, 3);
        r->n_groups_used = 1 + odd_below(o, r->n_groups);
        r->n_experts = r->n_groups * (1 + odd_below(o, 4));
    }
    uint32_t most = r->n_experts;
    if (r->n_groups > 1) most = most / r->n_groups * r->n_groups_used;
    r->n_used = 1 + odd_below(o, most);
    r->normalise = odd_below(o, 2);
    if (odd_below(o, 2)) r->scale = 2.5f;
    if (odd_below(o, 2))
        r->select_bias = (const float *)odd_tensor(o, RF_DT_F32, 1, 1, r->n_experts, 0, 0.3f)->data;
}

/* Experts with biases or none, gated or not, beside a shared part with a switch. */
static inline rf_val odd_moe(odd *o, rf_plan *p, rf_val h, rf_router *r) {
    odd_make_router(o, r);
    uint32_t n = o->m.n_embd, n_ff = odd_below(o, 2) ? 64 : 1 + odd_below(o, 100);
    uint32_t n_e = r->n_experts;
    rf_val route = rf_emit_route(p, odd_product(o, p, h, n_e), r);
    const rf_tensor *bias[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 3; i++)
        if (odd_below(o, 2)) bias[i] = odd_tensor(o, RF_DT_F32, 1, n_e, i < 2 ? n_ff : n, 0, 0.2f);
    rf_val up = rf_emit_experts(p, h, route, odd_planes(o, n_e, n_ff, n), bias[0], r), y;
    if (odd_below(o, 3)) {
        rf_val gate = rf_emit_experts(p, h, route, odd_planes(o, n_e, n_ff, n), bias[1], r);
        y = rf_emit_glu(p, odd_act(o, true), gate, up);
    } else {
        y = rf_emit_act(p, odd_act(o, false), up);
    }
    y = rf_emit_experts(p, y, route, odd_planes(o, n_e, n, n_ff), bias[2], r);
    if (odd_below(o, 4) == 0) y = rf_emit_mul(p, y, rf_emit_slice(p, route, 1, 0, r->n_used));
    y = rf_emit_mix(p, y, route, r);
    if (odd_below(o, 2)) return y;
    rf_val shared = odd_ffn(o, p, h);
    if (odd_below(o, 2))
        shared = rf_emit_mul(p, shared, rf_emit_act(p, RF_ACT_SIGMOID, odd_product(o, p, h, 1)));
    return rf_emit_add(p, y, shared);
}

static inline rf_val odd_layer(odd *o, rf_plan *p, rf_val x, uint32_t il) {
    bool parallel = odd_below(o, 3) == 0, post = odd_below(o, 3) == 0, moe = odd_below(o, 2);
    rf_val h = odd_below(o, 4) ? odd_norm(o, p, x, 0) : x;
    rf_val y;
    uint32_t kind = o->stateful ? odd_below(o, 6) : 3;
    if (kind < 3)
        y = kind == 0 ? odd_conv(o, p, h) : kind == 1 ? odd_delta(o, p, h) : odd_scan(o, p, h);
    else
        y = odd_below(o, 3) ? odd_gqa(o, p, h, il) : odd_latent(o, p, h, il);
    if (il + 1 == ODD_LAYERS && odd_below(o, 2)) { /* only the rows wanted go on */
        y = rf_emit_pick(p, y);
        h = rf_emit_pick(p, h);
        x = rf_emit_pick(p, x);
    }
    y = odd_product(o, p, y, o->m.n_embd);
    if (post) y = odd_norm(o, p, y, 0);
    y = rf_emit_scale(p, y, odd_below(o, 3) ? 1 : 0.5f);
    if (!parallel) {
        x = odd_below(o, 2) ? rf_emit_add(p, x, y) : rf_emit_add(p, y, x);
        h = odd_norm(o, p, x, 0);
    }
    rf_val z = moe ? odd_moe(o, p, h, &o->routers[il]) : odd_ffn(o, p, h);
    if (post) z = odd_norm(o, p, z, 0);
    if (parallel) z = rf_emit_add(p, z, y);
    x = rf_emit_add(p, z, x);
    return odd_below(o, 3) ? x : rf_emit_add(p, x, h);
}

static inline rf_status odd_build(const rf_model *m, rf_plan *p) {
    odd *o = (odd *)(uintptr_t)m;
    uint32_t n = m->n_embd;
    o->seed = o->start;
    rf_val x = rf_emit_embed(p, odd_matrix(o, m->n_vocab, n), RF_EMBED_TOKEN);
    if (odd_below(o, 2))
        x = rf_emit_add(p, x, rf_emit_embed(p, odd_matrix(o, ODD_POSITIONS, n), RF_EMBED_POSITION));
    if (odd_below(o, 2))
        x = rf_emit_add(p, rf_emit_embed(p, odd_matrix(o, 2, n), RF_EMBED_FIRST), x);
    x = rf_emit_scale(p, x, odd_below(o, 2) ? 1 : 1.7f);
    if (odd_below(o, 2)) x = odd_norm(o, p, x, 0);
    for (uint32_t il = 0; il < ODD_LAYERS; il++)
        x = odd_layer(o, p, x, il);
    if (!p->vals[x].per_output) x = rf_emit_pick(p, x);
    x = odd_product(o, p, odd_norm(o, p, x, 0), m->n_vocab);
    p->result = rf_emit_softcap(p, rf_emit_scale(p, x, 0.8f), odd_below(o, 2) ? 0 : 20.0f);
    return p->err.status;
}

/* Number seed of them. */
static inline odd *odd_open(uint64_t seed, bool causal_only, bool float_only, bool stateful) {
    static const uint32_t widths[] = {32, 48, 64, 96, 256};
    static const double inv_freq[] = {1, 0.3};
    odd *o = (odd *)rf_alloc(1, sizeof *o);
    assert_non_null(o);
    assert_int_equal(rf_arena_create(&o->arena), RF_OK);
    o->start = seed * 7919 + 1;
    o->causal_only = causal_only;
    o->float_only = float_only;
    o->stateful = stateful;
    o->arch = (rf_arch){.name = "odd", .families = "none", .build = odd_build};
    o->ropes[0] = (rf_rope){RF_ROPE_NORM, 4, inv_freq, 1.25f};
    o->ropes[1] = (rf_rope){RF_ROPE_NEOX, 4, inv_freq, 1};
    o->m = (rf_model){.arch = &o->arch, .n_layers = ODD_LAYERS, .layers = o->layers};
    o->m.n_embd = widths[seed % RF_COUNT(widths)];
    o->m.n_vocab = 40;
    o->m.n_heads = o->m.n_kv_heads = 1;
    o->m.head_dim = 8;
    o->m.n_ctx_train = ODD_POSITIONS;
    o->m.norm_eps = 1e-5f;
    return o;
}

static inline void odd_close(odd *o) {
    rf_arena_free(o->arena);
    rf_free(o);
}
