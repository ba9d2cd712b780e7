/* emit.c - appending steps to a plan, each operand's shape checked on the spot.
 *
 * The first failure sticks: later emitters return 0 and do nothing, so a builder needs no error
 * handling of its own. */
#include <string.h>

#include "plan/internal.h"

/* An array of the arena grown to at least n + 1 elements; the old one stays in the arena, which
 * doubling keeps below the size of the new one. */
static void *grow(rf_plan *p, void *old, uint32_t n, uint32_t *cap, size_t size) {
    if (n < *cap) return old;
    uint32_t new_cap = *cap ? *cap * 2 : 64;
    void *grown = rf_arena_alloc(p->arena, new_cap, size);
    if (!grown) {
        (void)rf_fail_nomem(&p->err, new_cap * size);
        return NULL;
    }
    if (n > 0) memcpy(grown, old, n * size);
    *cap = new_cap;
    return grown;
}

static bool failed(const rf_plan *p) { return p->err.status != RF_OK; }

static rf_val add_value(rf_plan *p, rf_value value) {
    rf_value *vals = grow(p, p->vals, p->n_vals, &p->cap_vals, sizeof *vals);
    if (!vals) return 0;
    p->vals = vals;
    p->vals[p->n_vals] = value;
    return p->n_vals++;
}

/* A weight is one value however often it is used (tied embeddings). */
static rf_val add_weight(rf_plan *p, const rf_tensor *w) {
    if (!w) return 0;
    for (rf_val v = 1; v < p->n_vals; v++)
        if (p->vals[v].weight == w) return v;
    return add_value(p, (rf_value){.weight = w, .cols = w->cols});
}

static void add_step(rf_plan *p, rf_step step) {
    if (failed(p)) return;
    rf_step *steps = grow(p, p->steps, p->n_steps, &p->cap_steps, sizeof *steps);
    if (!steps) return;
    p->steps = steps;
    p->steps[p->n_steps++] = step;
}

/* Appends step with a new activation as its dst. */
static rf_val add_result(rf_plan *p, rf_step step, uint32_t cols, bool per_output) {
    if (failed(p)) return 0;
    step.dst = add_value(p, (rf_value){.cols = cols, .per_output = per_output});
    add_step(p, step);
    return failed(p) ? 0 : step.dst;
}

static rf_val fail(rf_plan *p, rf_op op, const char *what, uint64_t expected, uint64_t got) {
    (void)rf_fail(&p->err, RF_EARG, "plan step %u, %s: %s, expected %llu, got %llu", p->n_steps,
                  rf_op_name(op), what, (unsigned long long)expected, (unsigned long long)got);
    return 0;
}

/* The activation v; its cols are 0 and the plan has failed where there is none. */
static rf_value operand(rf_plan *p, rf_op op, rf_val v) {
    if (failed(p)) return (rf_value){0};
    if (v == 0 || v >= p->n_vals || p->vals[v].weight) {
        (void)fail(p, op, "operand is no activation made before, number below", p->n_vals, v);
        return (rf_value){0};
    }
    return p->vals[v];
}

static bool is_shaped(rf_plan *p, rf_op op, const rf_tensor *w, uint32_t planes, uint32_t rows,
                      uint32_t cols) {
    if (w->planes != planes) return fail(p, op, "planes of a weight", planes, w->planes) != 0;
    if (w->rows != rows) return fail(p, op, "rows of a weight", rows, w->rows) != 0;
    if (w->cols != cols) return fail(p, op, "columns of a weight", cols, w->cols) != 0;
    return true;
}

static bool are_whole_heads(rf_plan *p, rf_op op, uint32_t cols, uint32_t n_heads) {
    if (n_heads == 0) return fail(p, op, "heads of at least", 1, 0) != 0;
    if (cols % n_heads) return fail(p, op, "columns beyond whole heads", 0, cols % n_heads) != 0;
    return true;
}

rf_val rf_emit_embed(rf_plan *p, const rf_tensor *table, rf_embed_source source) {
    if (failed(p)) return 0;
    uint32_t rows = source == RF_EMBED_TOKEN ? p->model->n_vocab : table->rows;
    if (!is_shaped(p, RF_OP_EMBED, table, 1, rows, table->cols)) return 0;
    rf_step s = {.op = RF_OP_EMBED, .source = source};
    s.w = add_weight(p, table);
    return add_result(p, s, table->cols, false);
}

rf_val rf_emit_rows(rf_plan *p) {
    return add_result(p, (rf_step){.op = RF_OP_EMBED, .source = RF_EMBED_ROWS}, p->model->n_embd,
                      false);
}

static rf_val emit_norm(rf_plan *p, rf_op op, rf_val a, const rf_tensor *w, const rf_tensor *bias,
                        uint32_t head_dim) {
    rf_value va = operand(p, op, a);
    if (failed(p)) return 0;
    uint32_t n = head_dim ? head_dim : va.cols;
    if (va.cols % n) return fail(p, op, "columns beyond whole heads", 0, va.cols % n);
    if (w && !is_shaped(p, op, w, 1, 1, n)) return 0;
    if (bias && !is_shaped(p, op, bias, 1, 1, n)) return 0;
    rf_step s = {.op = op, .a = a, .n_heads = va.cols / n, .head_dim = n};
    s.w = add_weight(p, w);
    s.bias = add_weight(p, bias);
    s.eps = p->model->norm_eps;
    return add_result(p, s, va.cols, va.per_output);
}

rf_val rf_emit_rms_norm(rf_plan *p, rf_val a, const rf_tensor *w, uint32_t head_dim) {
    return emit_norm(p, RF_OP_RMS_NORM, a, w, NULL, head_dim);
}

rf_val rf_emit_layer_norm(rf_plan *p, rf_val a, const rf_tensor *w, const rf_tensor *bias,
                          uint32_t head_dim) {
    return emit_norm(p, RF_OP_LAYER_NORM, a, w, bias, head_dim);
}

rf_val rf_emit_matmul(rf_plan *p, rf_val a, const rf_tensor *w, const rf_tensor *bias) {
    rf_value va = operand(p, RF_OP_MATMUL, a);
    if (failed(p)) return 0;
    if (!is_shaped(p, RF_OP_MATMUL, w, 1, w->rows, va.cols)) return 0;
    if (bias && !is_shaped(p, RF_OP_MATMUL, bias, 1, 1, w->rows)) return 0;
    rf_step s = {.op = RF_OP_MATMUL, .a = a};
    s.w = add_weight(p, w);
    s.bias = add_weight(p, bias);
    return add_result(p, s, w->rows, va.per_output);
}

rf_val rf_emit_head_matmul(rf_plan *p, rf_val a, const rf_tensor *w) {
    rf_value va = operand(p, RF_OP_HEAD_MATMUL, a);
    if (failed(p) || !are_whole_heads(p, RF_OP_HEAD_MATMUL, va.cols, w->planes)) return 0;
    if (!is_shaped(p, RF_OP_HEAD_MATMUL, w, w->planes, w->rows, va.cols / w->planes)) return 0;
    rf_step s = {.op = RF_OP_HEAD_MATMUL, .a = a, .n_heads = w->planes, .head_dim = w->cols};
    s.w = add_weight(p, w);
    return add_result(p, s, w->planes * w->rows, va.per_output);
}

rf_val rf_emit_rope(rf_plan *p, rf_val a, uint32_t n_heads, const rf_rope *rope) {
    rf_value va = operand(p, RF_OP_ROPE, a);
    if (failed(p)) return 0;
    if (va.per_output) return fail(p, RF_OP_ROPE, "picked rows have no position, picked", 0, 1);
    if (!are_whole_heads(p, RF_OP_ROPE, va.cols, n_heads)) return 0;
    uint32_t head_dim = va.cols / n_heads;
    if (rope->n_dims > head_dim || rope->n_dims % 2 != 0)
        return fail(p, RF_OP_ROPE, "rotated dimensions even and up to", head_dim, rope->n_dims);
    return add_result(
        p,
        (rf_step){.op = RF_OP_ROPE, .a = a, .n_heads = n_heads, .head_dim = head_dim, .rope = rope},
        va.cols, false);
}

/* Columns of an operand of attention, which needs a position for every row. */
static bool is_attended(rf_plan *p, rf_op op, rf_val v, const char *what, uint32_t cols) {
    rf_value val = operand(p, op, v);
    if (failed(p)) return false;
    if (val.per_output) return fail(p, op, "picked rows have no position, picked", 0, 1) != 0;
    return val.cols == cols || fail(p, op, what, cols, val.cols) != 0;
}

rf_val rf_emit_attend(rf_plan *p, uint32_t layer, rf_val q, rf_val k, rf_val v, const rf_attn *at) {
    if (failed(p)) return 0;
    if (layer >= p->model->n_layers)
        return fail(p, RF_OP_ATTEND, "layer below", p->model->n_layers, layer);
    if (at->n_kv_heads == 0 || at->n_heads % at->n_kv_heads != 0)
        return fail(p, RF_OP_ATTEND, "query heads a multiple of KV heads", at->n_kv_heads,
                    at->n_heads);
    uint32_t n_k = at->n_kv_heads * at->head_dim, n_v = at->n_kv_heads * at->value_dim;
    if (!is_attended(p, RF_OP_ATTEND, q, "columns of q", at->n_heads * at->head_dim) ||
        !is_attended(p, RF_OP_KV_PUT, k, "columns of k", n_k) ||
        (v && !is_attended(p, RF_OP_KV_PUT, v, "columns of v", n_v)))
        return 0;
    if (!v && at->value_dim > at->head_dim)
        return fail(p, RF_OP_KV_PUT, "columns of a value within a key up to", at->head_dim,
                    at->value_dim);
    if (at->sinks && !is_shaped(p, RF_OP_ATTEND, at->sinks, 1, 1, at->n_heads)) return 0;
    rf_step attend = {.op = RF_OP_ATTEND,
                      .layer = layer,
                      .a = q,
                      .n_heads = at->n_heads,
                      .n_kv_heads = at->n_kv_heads,
                      .head_dim = at->head_dim,
                      .value_dim = at->value_dim,
                      .scale = at->scale,
                      .softcap = at->softcap,
                      .pattern = at->pattern};
    rf_step put = attend;
    put.op = RF_OP_KV_PUT;
    put.a = k;
    put.b = v;
    put.n_heads = at->n_kv_heads;
    put.scale = put.softcap = 0;
    put.pattern = (rf_attn_pattern){0};
    attend.w = add_weight(p, at->sinks);
    add_step(p, put);
    return add_result(p, attend, at->n_heads * at->value_dim, false);
}

/* Appends a step that keeps a state, with a new activation as its dst. */
static rf_val add_stateful(rf_plan *p, rf_step step, uint32_t cols) {
    step.state_at = p->state_floats;
    p->state_floats += rf_plan_state_of(p, &step);
    return add_result(p, step, cols, false);
}

rf_val rf_emit_conv(rf_plan *p, rf_val a, const rf_tensor *w, const rf_tensor *bias) {
    rf_value va = operand(p, RF_OP_CONV, a);
    if (failed(p) || !is_shaped(p, RF_OP_CONV, w, 1, va.cols, w->cols)) return 0;
    if (bias && !is_shaped(p, RF_OP_CONV, bias, 1, 1, va.cols)) return 0;
    if (va.per_output) return fail(p, RF_OP_CONV, "picked rows have no position, picked", 0, 1);
    if (w->cols < 1 || w->cols > RF_MAX_TAPS)
        return fail(p, RF_OP_CONV, "columns of w 1 to", RF_MAX_TAPS, w->cols);
    rf_step s = {.op = RF_OP_CONV, .a = a};
    s.w = add_weight(p, w);
    s.bias = add_weight(p, bias);
    return failed(p) ? 0 : add_stateful(p, s, va.cols);
}

/* DELTA and SCAN; n_gates: columns of b. */
static rf_val emit_heads(rf_plan *p, rf_op op, rf_val a, rf_val b, uint32_t n_gates,
                         const rf_delta *d) {
    rf_value va = operand(p, op, a), vb = operand(p, op, b);
    if (failed(p)) return 0;
    if (d->n_kv_heads == 0 || d->n_heads == 0 || d->n_heads % d->n_kv_heads != 0)
        return fail(p, op, "value heads a multiple of key heads", d->n_kv_heads, d->n_heads);
    uint32_t n_v = d->n_heads * d->value_dim, n = 2 * d->n_kv_heads * d->head_dim + n_v;
    if (va.cols != n) return fail(p, op, "columns of keys and values", n, va.cols);
    if (vb.cols != n_gates) return fail(p, op, "columns of gates", n_gates, vb.cols);
    if (va.per_output || vb.per_output)
        return fail(p, op, "picked rows have no position, picked", 0, 1);
    if (!is_shaped(p, op, d->decay, 1, 1, d->n_heads) ||
        !is_shaped(p, op, d->bias, 1, 1, d->n_heads))
        return 0;
    rf_step s = {.op = op,
                 .a = a,
                 .b = b,
                 .n_heads = d->n_heads,
                 .n_kv_heads = d->n_kv_heads,
                 .head_dim = d->head_dim,
                 .value_dim = d->value_dim,
                 .heads_in_turn = d->heads_in_turn};
    if (op == RF_OP_DELTA) s.eps = 1e-6f;
    s.w = add_weight(p, d->decay);
    s.bias = add_weight(p, d->bias);
    return failed(p) ? 0 : add_stateful(p, s, n_v);
}

rf_val rf_emit_delta(rf_plan *p, rf_val qkv, rf_val gates, const rf_delta *d) {
    return emit_heads(p, RF_OP_DELTA, qkv, gates, 2 * d->n_heads, d);
}

rf_val rf_emit_scan(rf_plan *p, rf_val xbc, rf_val dt, const rf_delta *d) {
    return emit_heads(p, RF_OP_SCAN, xbc, dt, d->n_heads, d);
}

/* One activation into another of its shape. */
static rf_val emit_unary(rf_plan *p, rf_step s) {
    rf_value va = operand(p, s.op, s.a);
    return failed(p) ? 0 : add_result(p, s, va.cols, va.per_output);
}

/* Two activations of one shape into a third of it. */
static rf_val emit_binary(rf_plan *p, rf_step s) {
    rf_value va = operand(p, s.op, s.a), vb = operand(p, s.op, s.b);
    if (failed(p)) return 0;
    if (va.cols != vb.cols) return fail(p, s.op, "columns of b", va.cols, vb.cols);
    if (va.per_output != vb.per_output)
        return fail(p, s.op, "b picked like a", va.per_output, vb.per_output);
    return add_result(p, s, va.cols, va.per_output);
}

rf_val rf_emit_act(rf_plan *p, rf_act act, rf_val a) {
    if (!failed(p) && act >= RF_ACT_SWIGLU_OAI)
        return fail(p, RF_OP_ACT, "an activation of one operand, below", RF_ACT_SWIGLU_OAI, act);
    return emit_unary(p, (rf_step){.op = RF_OP_ACT, .a = a, .act = act});
}

rf_val rf_emit_glu(rf_plan *p, rf_act act, rf_val gate, rf_val up) {
    return emit_binary(p, (rf_step){.op = RF_OP_GLU, .a = gate, .b = up, .act = act});
}

rf_val rf_emit_scale(rf_plan *p, rf_val a, float scale) {
    if (scale == 1) return a;
    return emit_unary(p, (rf_step){.op = RF_OP_SCALE, .a = a, .scale = scale});
}

rf_val rf_emit_softcap(rf_plan *p, rf_val a, float cap) {
    if (cap == 0) return a;
    return emit_unary(p, (rf_step){.op = RF_OP_SOFTCAP, .a = a, .softcap = cap});
}

rf_val rf_emit_add(rf_plan *p, rf_val a, rf_val b) {
    return emit_binary(p, (rf_step){.op = RF_OP_ADD, .a = a, .b = b});
}

rf_val rf_emit_mul(rf_plan *p, rf_val a, rf_val b) {
    rf_value va = operand(p, RF_OP_MUL, a), vb = operand(p, RF_OP_MUL, b);
    if (failed(p)) return 0;
    if (va.cols % vb.cols) return fail(p, RF_OP_MUL, "columns of b a divisor of", va.cols, vb.cols);
    if (va.per_output != vb.per_output)
        return fail(p, RF_OP_MUL, "b picked like a", va.per_output, vb.per_output);
    return add_result(p, (rf_step){.op = RF_OP_MUL, .a = a, .b = b}, va.cols, va.per_output);
}

rf_val rf_emit_slice(rf_plan *p, rf_val a, uint32_t n_heads, uint32_t first, uint32_t n) {
    rf_value va = operand(p, RF_OP_SLICE, a);
    if (failed(p) || !are_whole_heads(p, RF_OP_SLICE, va.cols, n_heads)) return 0;
    uint32_t head_dim = va.cols / n_heads;
    if (n == 0 || first >= head_dim || n > head_dim - first)
        return fail(p, RF_OP_SLICE, "columns of a head that end within", head_dim,
                    (uint64_t)first + n);
    rf_step s = {.op = RF_OP_SLICE, .a = a, .n_heads = n_heads, .head_dim = head_dim};
    s.first = first;
    return add_result(p, s, n_heads * n, va.per_output);
}

rf_val rf_emit_concat(rf_plan *p, rf_val a, rf_val b, uint32_t n_heads, uint32_t n_b_heads) {
    rf_value va = operand(p, RF_OP_CONCAT, a), vb = operand(p, RF_OP_CONCAT, b);
    if (failed(p) || !are_whole_heads(p, RF_OP_CONCAT, va.cols, n_heads) ||
        !are_whole_heads(p, RF_OP_CONCAT, vb.cols, n_b_heads))
        return 0;
    if (n_b_heads != n_heads && n_b_heads != 1)
        return fail(p, RF_OP_CONCAT, "heads of b 1 or", n_heads, n_b_heads);
    if (va.per_output != vb.per_output)
        return fail(p, RF_OP_CONCAT, "b picked like a", va.per_output, vb.per_output);
    rf_step s = {.op = RF_OP_CONCAT, .a = a, .b = b, .n_heads = n_heads, .n_kv_heads = n_b_heads};
    s.head_dim = va.cols / n_heads;
    return add_result(p, s, va.cols + n_heads * (vb.cols / n_b_heads), va.per_output);
}

static bool is_router(rf_plan *p, rf_op op, const rf_router *r) {
    if (r->n_experts == 0 || r->n_experts > RF_MAX_EXPERTS)
        return fail(p, op, "experts 1 to", RF_MAX_EXPERTS, r->n_experts) != 0;
    uint32_t most = r->n_experts < RF_MAX_EXPERTS_USED ? r->n_experts : RF_MAX_EXPERTS_USED;
    if (r->n_used == 0 || r->n_used > most)
        return fail(p, op, "experts used 1 to", most, r->n_used) != 0;
    if (r->n_groups <= 1) return true;
    if (r->n_experts % r->n_groups)
        return fail(p, op, "experts beyond whole groups", 0, r->n_experts % r->n_groups) != 0;
    if (r->n_groups_used == 0 || r->n_groups_used > r->n_groups)
        return fail(p, op, "groups used 1 to", r->n_groups, r->n_groups_used) != 0;
    uint32_t within = r->n_experts / r->n_groups * r->n_groups_used;
    return r->n_used <= within ||
           fail(p, op, "experts used up to those of the groups used,", within, r->n_used) != 0;
}

rf_val rf_emit_route(rf_plan *p, rf_val scores, const rf_router *router) {
    rf_value va = operand(p, RF_OP_ROUTE, scores);
    if (failed(p) || !is_router(p, RF_OP_ROUTE, router)) return 0;
    if (va.cols != router->n_experts)
        return fail(p, RF_OP_ROUTE, "columns of scores", router->n_experts, va.cols);
    return add_result(p, (rf_step){.op = RF_OP_ROUTE, .a = scores, .router = router},
                      2 * router->n_used, va.per_output);
}

/* Is route what this router makes, for the rows of a? */
static bool is_route(rf_plan *p, rf_op op, const rf_value *va, rf_val route,
                     const rf_router *router) {
    rf_value vr = operand(p, op, route);
    if (failed(p) || !is_router(p, op, router)) return false;
    if (vr.cols != 2 * router->n_used)
        return fail(p, op, "columns of the route", 2 * router->n_used, vr.cols) != 0;
    return va->per_output == vr.per_output ||
           fail(p, op, "route picked like a", va->per_output, vr.per_output) != 0;
}

rf_val rf_emit_experts(rf_plan *p, rf_val a, rf_val route, const rf_tensor *w,
                       const rf_tensor *bias, const rf_router *router) {
    rf_value va = operand(p, RF_OP_EXPERTS, a);
    if (failed(p) || !is_route(p, RF_OP_EXPERTS, &va, route, router)) return 0;
    uint64_t each = (uint64_t)router->n_used * w->cols;
    uint32_t cols = va.cols == each ? va.cols / router->n_used : va.cols;
    if (!is_shaped(p, RF_OP_EXPERTS, w, router->n_experts, w->rows, cols)) return 0;
    if (bias && !is_shaped(p, RF_OP_EXPERTS, bias, 1, router->n_experts, w->rows)) return 0;
    rf_step s = {.op = RF_OP_EXPERTS, .a = a, .b = route, .router = router};
    s.w = add_weight(p, w);
    s.bias = add_weight(p, bias);
    return add_result(p, s, router->n_used * w->rows, va.per_output);
}

rf_val rf_emit_mix(rf_plan *p, rf_val a, rf_val route, const rf_router *router) {
    rf_value va = operand(p, RF_OP_MIX, a);
    if (failed(p) || !is_route(p, RF_OP_MIX, &va, route, router)) return 0;
    if (va.cols % router->n_used)
        return fail(p, RF_OP_MIX, "columns beyond whole experts", 0, va.cols % router->n_used);
    return add_result(p, (rf_step){.op = RF_OP_MIX, .a = a, .b = route, .router = router},
                      va.cols / router->n_used, va.per_output);
}

rf_val rf_emit_pick(rf_plan *p, rf_val a) {
    rf_value va = operand(p, RF_OP_PICK, a);
    if (failed(p)) return 0;
    if (va.per_output) return fail(p, RF_OP_PICK, "rows not picked before, picked", 0, 1);
    return add_result(p, (rf_step){.op = RF_OP_PICK, .a = a}, va.cols, true);
}
