/* plan.c - creating a plan and emitting its steps, each operand's shape checked on the spot.
 *
 * The first failure sticks: later emitters return 0 and do nothing, so a builder needs no error
 * handling of its own.  Everything a plan owns lies in its arena. */
#include "plan/plan.h"

#include <math.h>
#include <string.h>

#include "plan/internal.h"

static const struct {
    const char *name, *meaning;
} ops[RF_OP_COUNT] = {
#define X(name, meaning) [RF_OP_##name] = {#name, meaning},
#include "plan/op.def"
#undef X
};

const char *rf_op_name(rf_op op) {
    RF_ASSERT((unsigned)op < RF_OP_COUNT);
    return ops[op].name;
}

const char *rf_op_meaning(rf_op op) {
    RF_ASSERT((unsigned)op < RF_OP_COUNT);
    return ops[op].meaning;
}

rf_status rf_plan_create(rf_plan **out, const rf_model *m, bool keep_values, rf_error *e) {
    *out = NULL;
    rf_arena *arena = NULL;
    if (rf_arena_create(&arena) != RF_OK) return rf_fail_nomem(e, sizeof(rf_plan));
    rf_plan *p = rf_arena_alloc(arena, 1, sizeof *p);
    if (!p) {
        rf_arena_free(arena);
        return rf_fail_nomem(e, sizeof *p);
    }
    *p = (rf_plan){.model = m, .arena = arena, .keep_values = keep_values};
    p->cap_vals = 64;
    p->vals = rf_arena_alloc(arena, p->cap_vals, sizeof *p->vals);
    if (!p->vals) {
        rf_arena_free(arena);
        return rf_fail_nomem(e, p->cap_vals * sizeof *p->vals);
    }
    p->n_vals = 1; /* vals[0] stands for none */
    *out = p;
    return RF_OK;
}

void rf_plan_free(rf_plan *p) {
    if (p) rf_arena_free(p->arena);
}

rf_status rf_plan_build(rf_plan **out, const rf_model *m, bool keep_values, rf_error *e) {
    *out = NULL;
    rf_plan *p = NULL;
    RF_TRY(rf_plan_create(&p, m, keep_values, e));
    rf_status s = m->arch->build(m, p);
    if (s != RF_OK) (void)rf_fail(e, s, "%s", p->err.text);
    if (s == RF_OK) s = rf_plan_seal(p, e);
    if (s == RF_OK) s = rf_plan_check(p, e);
    if (s != RF_OK) {
        rf_plan_free(p);
        return s;
    }
    *out = p;
    return RF_OK;
}

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

/* The activation v, or NULL with the plan failed. */
static const rf_value *operand(rf_plan *p, rf_op op, rf_val v) {
    if (failed(p)) return NULL;
    if (v == 0 || v >= p->n_vals || p->vals[v].weight) {
        (void)fail(p, op, "operand is no activation made before, number below", p->n_vals, v);
        return NULL;
    }
    return &p->vals[v];
}

static bool is_vector(rf_plan *p, rf_op op, const rf_tensor *w, uint32_t cols) {
    if (w->rows != 1 || w->planes != 1) return fail(p, op, "rows of a vector", 1, w->rows) != 0;
    if (w->cols != cols) return fail(p, op, "length of a vector", cols, w->cols) != 0;
    return true;
}

rf_val rf_emit_embed(rf_plan *p, const rf_tensor *table) {
    if (failed(p)) return 0;
    if (table->rows != p->model->n_vocab || table->planes != 1)
        return fail(p, RF_OP_EMBED, "rows of the table", p->model->n_vocab, table->rows);
    return add_result(p, (rf_step){.op = RF_OP_EMBED, .w = add_weight(p, table)}, table->cols,
                      false);
}

rf_val rf_emit_rms_norm(rf_plan *p, rf_val a, const rf_tensor *w, uint32_t head_dim) {
    const rf_value *va = operand(p, RF_OP_RMS_NORM, a);
    if (!va) return 0;
    uint32_t cols = va->cols, n = head_dim ? head_dim : cols;
    bool per_output = va->per_output;
    if (cols % n != 0) return fail(p, RF_OP_RMS_NORM, "columns beyond whole heads", 0, cols % n);
    if (!is_vector(p, RF_OP_RMS_NORM, w, n)) return 0;
    rf_step s = {.op = RF_OP_RMS_NORM, .a = a, .n_heads = cols / n, .head_dim = n};
    s.w = add_weight(p, w);
    s.eps = p->model->norm_eps;
    return add_result(p, s, cols, per_output);
}

rf_val rf_emit_matmul(rf_plan *p, rf_val a, const rf_tensor *w, const rf_tensor *bias) {
    const rf_value *va = operand(p, RF_OP_MATMUL, a);
    if (!va) return 0;
    bool per_output = va->per_output;
    if (w->planes != 1) return fail(p, RF_OP_MATMUL, "planes of the weight", 1, w->planes);
    if (w->cols != va->cols) return fail(p, RF_OP_MATMUL, "columns of w", va->cols, w->cols);
    if (bias && !is_vector(p, RF_OP_MATMUL, bias, w->rows)) return 0;
    rf_step s = {.op = RF_OP_MATMUL, .a = a};
    s.w = add_weight(p, w);
    s.bias = add_weight(p, bias);
    return add_result(p, s, w->rows, per_output);
}

rf_val rf_emit_rope(rf_plan *p, rf_val a, uint32_t n_heads, const rf_rope *rope) {
    const rf_value *va = operand(p, RF_OP_ROPE, a);
    if (!va) return 0;
    uint32_t cols = va->cols, head_dim = n_heads ? cols / n_heads : 0;
    if (va->per_output) return fail(p, RF_OP_ROPE, "picked rows have no position, picked", 0, 1);
    if (n_heads == 0 || cols % n_heads != 0)
        return fail(p, RF_OP_ROPE, "columns of whole heads", (uint64_t)head_dim * n_heads, cols);
    if (rope->n_dims > head_dim || rope->n_dims % 2 != 0)
        return fail(p, RF_OP_ROPE, "rotated dimensions even and up to", head_dim, rope->n_dims);
    return add_result(
        p,
        (rf_step){.op = RF_OP_ROPE, .a = a, .n_heads = n_heads, .head_dim = head_dim, .rope = rope},
        cols, false);
}

rf_val rf_emit_attend(rf_plan *p, uint32_t layer, rf_val q, rf_val k, rf_val v) {
    const rf_value *vq = operand(p, RF_OP_ATTEND, q);
    const rf_value *vk = operand(p, RF_OP_KV_PUT, k), *vv = operand(p, RF_OP_KV_PUT, v);
    if (!vq || !vk || !vv) return 0;
    const rf_model *m = p->model;
    uint32_t n_q = m->n_heads * m->head_dim, n_kv = m->n_kv_heads * m->head_dim;
    if (layer >= m->n_layers) return fail(p, RF_OP_ATTEND, "layer below", m->n_layers, layer);
    if (vq->per_output || vk->per_output || vv->per_output)
        return fail(p, RF_OP_ATTEND, "picked rows have no position, picked", 0, 1);
    if (m->n_kv_heads == 0 || m->n_heads % m->n_kv_heads != 0)
        return fail(p, RF_OP_ATTEND, "query heads a multiple of KV heads", m->n_kv_heads,
                    m->n_heads);
    if (vq->cols != n_q) return fail(p, RF_OP_ATTEND, "columns of q", n_q, vq->cols);
    if (vk->cols != n_kv) return fail(p, RF_OP_KV_PUT, "columns of k", n_kv, vk->cols);
    if (vv->cols != n_kv) return fail(p, RF_OP_KV_PUT, "columns of v", n_kv, vv->cols);
    rf_step put = {.op = RF_OP_KV_PUT,
                   .layer = layer,
                   .a = k,
                   .b = v,
                   .n_heads = m->n_kv_heads,
                   .n_kv_heads = m->n_kv_heads,
                   .head_dim = m->head_dim};
    rf_step attend = {.op = RF_OP_ATTEND,
                      .layer = layer,
                      .a = q,
                      .n_heads = m->n_heads,
                      .n_kv_heads = m->n_kv_heads,
                      .head_dim = m->head_dim,
                      .scale = (float)(1 / sqrt((double)m->head_dim)),
                      .pattern = m->layers[layer].pattern};
    add_step(p, put);
    return add_result(p, attend, n_q, false);
}

/* Two activations of one shape into a third of it. */
static rf_val emit_binary(rf_plan *p, rf_op op, rf_val a, rf_val b) {
    const rf_value *va = operand(p, op, a), *vb = operand(p, op, b);
    if (!va || !vb) return 0;
    uint32_t cols = va->cols;
    bool per_output = va->per_output;
    if (cols != vb->cols) return fail(p, op, "columns of b", cols, vb->cols);
    if (per_output != vb->per_output)
        return fail(p, op, "b picked like a", per_output, vb->per_output);
    return add_result(p, (rf_step){.op = op, .a = a, .b = b}, cols, per_output);
}

rf_val rf_emit_silu_mul(rf_plan *p, rf_val gate, rf_val up) {
    return emit_binary(p, RF_OP_SILU_MUL, gate, up);
}

rf_val rf_emit_add(rf_plan *p, rf_val a, rf_val b) { return emit_binary(p, RF_OP_ADD, a, b); }

rf_val rf_emit_pick(rf_plan *p, rf_val a) {
    const rf_value *va = operand(p, RF_OP_PICK, a);
    if (!va) return 0;
    if (va->per_output) return fail(p, RF_OP_PICK, "rows not picked before, picked", 0, 1);
    return add_result(p, (rf_step){.op = RF_OP_PICK, .a = a}, va->cols, true);
}
