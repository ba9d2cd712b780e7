/* trial.c - the self-test's models: random tensors, and one builder of plans per family of kernels. */
#include "backend/gpu/trial.h"

#include <math.h>
#include <string.h>

#include "base/fmath.h"

enum { N_EXPERTS = 16, N_USED = 4, N_ROWS = 40, N_FEW_ROWS = 7, N_WIDE = 512, MIN_WIDE = 4096 };

uint64_t rf_gpu_trial_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

bool rf_gpu_trial_has(rf_dtype type) { return rf_dtype_get(type)->decode != NULL; }

/* Tensors ----------------------------------------------------------------------------------------*/

static float random_float(rf_gpu_trial *t) { /* within -1 and 1 */
    return (float)(int32_t)(rf_gpu_trial_random(&t->state) >> 40) * 0x1p-23f - 1.0f;
}

static void random_scalar(rf_gpu_trial *t, rf_dtype type, uint8_t *p) {
    float f = random_float(t);
    double d = (double)f;
    uint16_t h = type == RF_DT_BF16 ? rf_f32_to_bf16(f) : rf_f32_to_f16(f);
    if (type == RF_DT_F32)
        memcpy(p, &f, sizeof f);
    else if (type == RF_DT_F64)
        memcpy(p, &d, sizeof d);
    else
        memcpy(p, &h, sizeof h);
}

static void random_bytes(rf_gpu_trial *t, uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        const uint64_t r = rf_gpu_trial_random(&t->state);
        memcpy(p + i, &r, n - i < sizeof r ? n - i : sizeof r);
    }
}

/* Bytes of a block that decode to moderate numbers, without the -128 that quantising does not make either and that keep.c
 * has no room for. */
static void random_block(rf_gpu_trial *t, const rf_dtype_info *info, uint8_t *p) {
    float w[256];
    bool usable;
    do {
        random_bytes(t, p, info->block_bytes);
        for (uint32_t i = 0; i < info->block_bytes; i++)
            if (info->view == RF_INT_32 && p[i] == 128) p[i]--;
        info->decode(p, w, info->block_elems);
        usable = true;
        for (uint32_t i = 0; i < info->block_elems; i++)
            usable = usable && fabsf(w[i]) <= 1e9f;
    } while (!usable);
}

/* [planes][rows][cols] of random numbers; NULL and a failed trial on lack of memory. */
static rf_gpu_trial_tensor *make_tensor(rf_gpu_trial *t, rf_dtype type, uint32_t planes,
                                        uint32_t rows, uint32_t cols) {
    const rf_dtype_info *info = rf_dtype_get(type);
    size_t row_bytes = (size_t)cols / info->block_elems * info->block_bytes;
    size_t n_blocks = (size_t)planes * rows * (cols / info->block_elems);
    rf_gpu_trial_tensor *made = rf_arena_alloc(t->arena, 1, sizeof *made);
    uint8_t *data = rf_arena_alloc(t->arena, (size_t)planes * rows, row_bytes);
    t->failed = t->failed || !made || !data;
    if (t->failed) return NULL;
    for (size_t b = 0; b < n_blocks; b++) {
        if (info->is_block)
            random_block(t, info, data + b * info->block_bytes);
        else
            random_scalar(t, type, data + b * info->block_bytes);
    }
    made->w = (rf_tensor){.name = RF_STR("selftest"),
                          .type = type,
                          .cols = cols,
                          .rows = rows,
                          .planes = planes,
                          .row_bytes = row_bytes,
                          .data = data};
    return made;
}

/* The plan's next tensor: that of the plans before it, or a new one. */
static const rf_tensor *tensor(rf_gpu_trial *t, rf_dtype type, uint32_t planes, uint32_t rows,
                               uint32_t cols) {
    if (!*t->now) *t->now = make_tensor(t, type, planes, rows, cols);
    if (t->failed) return NULL;
    const rf_tensor *w = &(*t->now)->w;
    t->now = &(*t->now)->next;
    return w;
}

static const rf_tensor *vector(rf_gpu_trial *t, uint32_t n) {
    return tensor(t, RF_DT_F32, 1, 1, n);
}

/* Columns of a format: some groups, or an odd number. */
static uint32_t cols_of(const rf_gpu_trial_case *c) {
    const rf_dtype_info *info = rf_dtype_get(c->type);
    uint32_t least = c->is_small ? 70 : 600;
    if (!info->is_block) return c->is_near ? (least + 7) / 8 * 8 : least + 5;
    uint32_t size = info->block_elems > 32 ? info->block_elems : 32;
    return (least + size - 1) / size * size;
}

/* Plans ------------------------------------------------------------------------------------------*/

static rf_val product(rf_gpu_trial *t, rf_plan *p, rf_val a, uint32_t rows, bool with_bias) {
    const rf_tensor *w = tensor(t, t->c.type, 1, rows, p->vals[a].cols);
    return rf_emit_matmul(p, a, w, with_bias ? vector(t, rows) : NULL);
}

static rf_val build_rows(rf_gpu_trial *t, rf_plan *p, rf_val x) {
    uint32_t n = p->vals[x].cols;
    rf_val y = rf_emit_layer_norm(p, x, vector(t, n), vector(t, n), 0);
    y = rf_emit_rms_norm(p, y, vector(t, n / 8), n / 8);
    for (int act = RF_ACT_SILU; act < RF_ACT_SWIGLU_OAI; act++)
        y = rf_emit_add(p, y, rf_emit_act(p, (rf_act)act, x));
    for (int act = RF_ACT_SILU; act <= RF_ACT_SWIGLU_OAI; act++)
        y = rf_emit_add(p, y, rf_emit_glu(p, (rf_act)act, x, y));
    y = rf_emit_softcap(p, rf_emit_scale(p, y, 0.37f), 30.0f);
    y = rf_emit_mul(p, y, rf_emit_slice(p, x, 8, 5, n / 16));
    y = rf_emit_concat(p, rf_emit_slice(p, y, 4, 1, 9), rf_emit_slice(p, x, 1, 3, 7), 4, 1);
    /* A norm that makes rows in integers of both kinds, which are also made alone. */
    rf_val h = rf_emit_rms_norm(p, x, vector(t, n), 0);
    for (int i = 0; i < 4; i++) {
        const rf_tensor *w = tensor(t, i % 2 ? RF_DT_Q6_K : RF_DT_Q8_0, 1, N_ROWS, n);
        y = rf_emit_concat(p, y, rf_emit_matmul(p, i < 2 ? h : x, w, NULL), 1, 1);
    }
    for (int i = 0; i < 2; i++) { /* embeddings from integers of both kinds */
        const rf_tensor *table =
            tensor(t, i ? RF_DT_Q4_K : RF_DT_Q4_1, 1, RF_GPU_TRIAL_POSITIONS, n);
        y = rf_emit_concat(p, y, rf_emit_embed(p, table, RF_EMBED_POSITION), 1, 1);
    }
    return rf_emit_pick(p, y);
}

/* Some kernels want columns in groups of 256 or 64: x, or as many of its columns as there are of these. */
static rf_val in_groups(rf_plan *p, rf_val x, uint32_t size) {
    uint32_t n = p->vals[x].cols, whole = n / size * size;
    return whole == 0 || whole == n ? x : rf_emit_slice(p, x, 1, 0, whole);
}

static rf_val build_products(rf_gpu_trial *t, rf_plan *p, rf_val x) {
    uint32_t n = p->vals[x].cols, tall = t->c.is_tall ? RF_GPU_TRIAL_TALL : 70;
    rf_val y = product(t, p, rf_emit_rms_norm(p, x, vector(t, n), 0), N_ROWS, true);
    rf_val in = in_groups(p, x, 256), mixed = 0;
    if (t->c.type == RF_DT_Q4_K || t->c.type == RF_DT_Q5_K) { /* as mixes of formats have them */
        rf_val h = rf_emit_rms_norm(p, x, vector(t, n), 0);
        mixed =
            rf_emit_concat(p, product(t, p, h, N_ROWS, false),
                           rf_emit_matmul(p, h, tensor(t, RF_DT_Q6_K, 1, N_ROWS, n), NULL), 1, 1);
    }
    rf_val gate = product(t, p, in, N_ROWS, false), up = product(t, p, in, N_ROWS, false);
    y = rf_emit_add(p, y, rf_emit_glu(p, RF_ACT_SILU, gate, up));
    rf_val heads = rf_emit_concat(p, x, x, 1, 1);
    heads = rf_emit_head_matmul(p, heads, tensor(t, t->c.type, 2, 24, n));
    y = rf_emit_concat(p, y, heads, 1, 1);
    if (mixed) y = rf_emit_concat(p, y, mixed, 1, 1);
    y = rf_emit_pick(p, y);
    rf_val picked = rf_emit_pick(p, in), wide = rf_emit_scale(p, picked, 0.5f);
    for (int i = 0; i < 7 && p->vals[wide].cols <= MIN_WIDE; i++) /* more than a block's round */
        wide = rf_emit_concat(p, wide, wide, 1, 1);
    y = rf_emit_concat(p, y, product(t, p, wide, N_FEW_ROWS, true), 1, 1);
    return rf_emit_concat(p, product(t, p, picked, tall, false), y, 1, 1);
}

static rf_val build_experts(rf_gpu_trial *t, rf_plan *p, rf_val x) {
    const rf_dtype_info *info = rf_dtype_get(t->c.type);
    uint32_t n_ff = N_ROWS;
    if (info->is_block) {
        x = in_groups(p, x, 64);
        n_ff = info->block_elems > 32 ? info->block_elems : 64;
    }
    const uint32_t n = p->vals[x].cols;
    const rf_router *r = &t->router;
    x = rf_emit_rms_norm(p, x, vector(t, n), 0); /* which the router's scores may be made with */
    rf_val scores = rf_emit_matmul(p, x, tensor(t, RF_DT_F32, 1, N_EXPERTS, n), NULL);
    rf_val route = rf_emit_route(p, scores, r);
    rf_val up = rf_emit_experts(p, x, route, tensor(t, t->c.type, N_EXPERTS, n_ff, n),
                                tensor(t, RF_DT_F32, 1, N_EXPERTS, n_ff), r);
    rf_val gate = rf_emit_experts(p, x, route, tensor(t, t->c.type, N_EXPERTS, n_ff, n), NULL, r);
    rf_val y = rf_emit_glu(p, RF_ACT_GELU, gate, up);
    y = rf_emit_experts(p, y, route, tensor(t, t->c.type, N_EXPERTS, 24, n_ff), NULL, r);
    y = rf_emit_mix(p, y, route, r);
    rf_val z = rf_emit_experts(p, x, route, tensor(t, RF_DT_F16, N_EXPERTS, 24, n), NULL, r);
    return rf_emit_pick(p, rf_emit_add(p, rf_emit_mix(p, z, route, r), y));
}

static rf_val build_heads(rf_gpu_trial *t, rf_plan *p, rf_val x) {
    const rf_gpu_trial_case *c = &t->c;
    uint32_t dim = c->head_dim, value_dim = c->value_dim ? c->value_dim : dim / 2;
    rf_val q = rf_emit_slice(p, x, 1, 0, c->n_heads * dim);
    rf_val k = rf_emit_slice(p, x, 1, 11, c->n_kv_heads * dim), v = 0;
    q = rf_emit_rope(p, rf_emit_rms_norm(p, q, vector(t, dim), dim), c->n_heads, &t->rope);
    k = rf_emit_rope(p, rf_emit_layer_norm(p, k, vector(t, dim), vector(t, dim), dim),
                     c->n_kv_heads, &t->rope);
    if (c->value_dim) v = rf_emit_slice(p, x, 1, 23, c->n_kv_heads * value_dim);
    rf_attn at = {.n_heads = c->n_heads,
                  .n_kv_heads = c->n_kv_heads,
                  .head_dim = dim,
                  .value_dim = value_dim,
                  .scale = 0.2f,
                  .softcap = dim % 64 ? 5.0f : 0,
                  .pattern = c->pattern,
                  .sinks = c->n_heads % 2 ? vector(t, c->n_heads) : NULL};
    rf_val y = rf_emit_attend(p, 0, q, k, v, &at);
    uint32_t cols = p->vals[y].cols;
    if (cols % 32 == 0) { /* for which attention may make integers */
        rf_dtype type = cols % 256 == 0 ? RF_DT_Q6_K : RF_DT_Q8_0;
        y = rf_emit_matmul(p, y, tensor(t, type, 1, N_ROWS, cols), NULL);
    }
    return rf_emit_pick(p, y);
}

/* A convolution, whose columns are then the delta rule's and the scan's heads. */
static rf_val build_states(rf_gpu_trial *t, rf_plan *p, rf_val x) {
    const rf_gpu_trial_case *c = &t->c;
    uint32_t n = c->n_heads, cols = 2 * c->n_kv_heads * c->head_dim + n * c->value_dim;
    rf_val y = rf_emit_conv(p, x, tensor(t, RF_DT_F32, 1, p->vals[x].cols, 4), NULL);
    y = rf_emit_conv(p, y, tensor(t, RF_DT_F32, 1, p->vals[x].cols, 2), vector(t, p->vals[x].cols));
    rf_val gates = rf_emit_slice(p, x, 1, 3, 2 * n);
    rf_delta d = {.n_heads = n,
                  .n_kv_heads = c->n_kv_heads,
                  .head_dim = c->head_dim,
                  .value_dim = c->value_dim,
                  .heads_in_turn = n % 2,
                  .decay = vector(t, n),
                  .bias = vector(t, n)};
    rf_val delta = rf_emit_delta(p, rf_emit_slice(p, y, 1, 1, cols), gates, &d);
    rf_val scan =
        rf_emit_scan(p, rf_emit_slice(p, y, 1, 5, cols), rf_emit_slice(p, gates, 1, 0, n), &d);
    return rf_emit_pick(p, rf_emit_concat(p, delta, scan, 1, 1));
}

static uint32_t width_of(const rf_gpu_trial_case *c) {
    if (c->kind == RF_GPU_TRIAL_STATES)
        return 2 * c->n_kv_heads * c->head_dim + c->n_heads * c->value_dim + 2 * c->n_heads + 5;
    if (c->kind == RF_GPU_TRIAL_ROWS) return N_WIDE;
    if (c->kind != RF_GPU_TRIAL_HEADS) return cols_of(c);
    return c->n_heads * (c->head_dim > c->value_dim ? c->head_dim : c->value_dim) + 23;
}

static rf_status build(const rf_model *m, rf_plan *p) {
    rf_gpu_trial *t = (rf_gpu_trial *)(uintptr_t)m; /* the model is the trial's first member */
    t->now = &t->made;
    const rf_tensor *table = tensor(t, RF_DT_F32, 1, RF_GPU_TRIAL_POSITIONS, width_of(&t->c));
    if (!table) return rf_fail(&p->err, RF_ENOMEM, "self-test: no memory for its tensors");
    rf_val x = rf_emit_embed(p, table, RF_EMBED_POSITION);
    rf_val (*const builders[])(rf_gpu_trial *, rf_plan *, rf_val) = {
        build_rows, build_products, build_experts, build_heads, build_states};
    p->result = builders[t->c.kind](t, p, x);
    if (t->failed) return rf_fail(&p->err, RF_ENOMEM, "self-test: no memory for its tensors");
    t->m.n_vocab = p->n_result = p->vals[p->result].cols;
    return p->err.status;
}

rf_status rf_gpu_trial_open(rf_gpu_trial **out, const rf_gpu_trial_case *c, uint64_t seed,
                            rf_error *e) {
    static const double inv_freq[] = {1, 0.7, 0.3, 0.01};
    *out = NULL;
    rf_gpu_trial *t = rf_alloc(1, sizeof *t);
    if (!t) return rf_fail_nomem(e, sizeof *t);
    if (rf_arena_create(&t->arena) != RF_OK) {
        rf_free(t);
        return rf_fail_nomem(e, sizeof *t);
    }
    t->c = *c;
    t->state = seed;
    t->arch = (rf_arch){.name = "selftest", .families = "none", .build = build};
    t->rope = (rf_rope){c->head_dim % 64 ? RF_ROPE_NORM : RF_ROPE_NEOX, 8, inv_freq, 1};
    t->router = (rf_router){.kind = RF_ROUTER_SOFTMAX,
                            .n_experts = N_EXPERTS,
                            .n_used = N_USED,
                            .normalise = true,
                            .scale = 1.5f};
    t->m = (rf_model){.arch = &t->arch,
                      .n_layers = 1,
                      .layers = &t->layer,
                      .n_embd = width_of(c),
                      .n_heads = 1,
                      .n_kv_heads = 1,
                      .head_dim = 8,
                      .n_vocab = 1,
                      .n_ctx_train = RF_GPU_TRIAL_POSITIONS,
                      .norm_eps = 1e-5f};
    *out = t;
    return RF_OK;
}

void rf_gpu_trial_close(rf_gpu_trial *t) {
    if (!t) return;
    rf_arena_free(t->arena);
    rf_free(t);
}
