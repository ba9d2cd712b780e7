/* fuse.c - turns the plan's straight line of steps into tasks.
 *
 * Fused are: a pick and a norm into the products that read them, products of one input with each
 * other, element-wise steps into the product before them, a route into the experts it chooses, head
 * norms, ropes and the KV put into attention, and neighbouring steps that work row by row into one
 * task.  A step is fused only when nothing else reads what then no longer exists, so any plan is
 * right, if not fast.  With keep_values every step is a task of its own. */
#include <string.h>

#include "backend/cpu/attend.h"
#include "backend/cpu/exec.h"

#define NO_STEP UINT32_MAX

typedef struct fuser {
    rf_exec *x;
    const rf_plan *p;
    rf_error *e;
    bool fuse;
    uint32_t *n_uses;   /* [n_vals] */
    uint32_t *producer; /* [n_vals] step that makes a value, or NO_STEP */
    uint32_t *consumer; /* [n_vals] last step that reads it, or NO_STEP */
    uint32_t *made_by;  /* [n_vals] one more than the task that makes it, 0: none yet */
    bool *done;         /* [n_steps] */
    rf_val *pick_of;    /* [n_vals] the picked value, where a PICK was absorbed */
    rf_val *scores_of;  /* [n_vals] the scores, where a ROUTE was absorbed */
} fuser;

static const rf_step *step_of(const fuser *f, uint32_t i) {
    return i == NO_STEP ? NULL : &f->p->steps[i];
}

static bool used_once(const fuser *f, rf_val v) { return f->n_uses[v] == 1 && v != f->p->result; }

static const rf_tensor *weight_of(const fuser *f, rf_val v) {
    return v ? f->p->vals[v].weight : NULL;
}

static rf_status must_decode(fuser *f, const rf_tensor *w, const char *what) {
    const rf_dtype_info *info = rf_dtype_get(w->type);
    if (info->decode) return RF_OK;
    return rf_fail(f->e, RF_EUNSUPPORTED,
                   "tensor \"%.*s\": %s of type %s cannot be decoded, expected a float or "
                   "quantised type",
                   RF_STR_ARG(w->name), what, info->name);
}

/* All rows of a small weight of any format as f32, or NULL for none. */
static rf_status decoded(fuser *f, const rf_tensor *w, const float **out) {
    *out = NULL;
    if (!w) return RF_OK;
    RF_TRY(must_decode(f, w, "a vector"));
    size_t n;
    float *dst =
        rf_mul_ok(w->rows, w->cols, &n) ? rf_arena_alloc(f->x->arena, n, sizeof *dst) : NULL;
    if (!dst) return rf_fail_nomem(f->e, (size_t)w->cols * sizeof *dst);
    for (uint32_t r = 0; r < w->rows; r++)
        rf_dtype_get(w->type)->decode((const uint8_t *)w->data + r * w->row_bytes,
                                      dst + (size_t)r * w->cols, w->cols);
    *out = dst;
    return RF_OK;
}

static bool is_norm(const rf_step *s) {
    return s->op == RF_OP_RMS_NORM || s->op == RF_OP_LAYER_NORM;
}

static rf_status norm_of(fuser *f, const rf_step *s, rf_cpu_norm *out) {
    out->op = s->op;
    out->head_dim = s->head_dim;
    out->eps = s->eps;
    if (out->head_dim > f->x->max_cols) f->x->max_cols = out->head_dim;
    RF_TRY(decoded(f, weight_of(f, s->bias), &out->b));
    return decoded(f, weight_of(f, s->w), &out->w);
}

static uint32_t rope_index(rf_exec *x, const rf_rope *rope) {
    uint32_t i = 0;
    while (i < x->n_ropes && x->ropes[i] != rope)
        i++;
    if (i == x->n_ropes) x->ropes[x->n_ropes++] = rope;
    if (rope->n_dims > x->angle_cols) x->angle_cols = rope->n_dims;
    return i;
}

static rf_cpu_task *new_task(fuser *f, rf_cpu_task_kind kind, bool per_output) {
    rf_cpu_task *t = &f->x->tasks[f->x->n_tasks++];
    t->kind = kind;
    t->per_output = per_output;
    return t;
}

/* v is made by the newest task. */
static void make(fuser *f, rf_val v) { f->made_by[v] = f->x->n_tasks; }

static bool is_made_before(const fuser *f, rf_val v) {
    return f->made_by[v] != 0 && f->made_by[v] < f->x->n_tasks;
}

/* Attention ------------------------------------------------------------------------------------*/

/* Walks back from v over a rope and a norm of the same heads that only this chain reads.  They then
 * happen in place, in the memory of the value before them. */
static rf_status absorb_heads(fuser *f, rf_val v, uint32_t head_dim, rf_cpu_heads *out) {
    uint32_t at = f->producer[v];
    const rf_step *s = step_of(f, at);
    rf_val base = v;
    if (s && s->op == RF_OP_ROPE && s->head_dim == head_dim && used_once(f, base) &&
        used_once(f, s->a)) {
        out->rope = s->rope;
        out->rope_index = rope_index(f->x, s->rope);
        f->done[at] = true;
        base = s->a;
        at = f->producer[base];
        s = step_of(f, at);
    }
    if (s && is_norm(s) && s->head_dim == head_dim && used_once(f, base) && used_once(f, s->a)) {
        RF_TRY(norm_of(f, s, &out->norm));
        f->done[at] = true;
        base = s->a;
    }
    out->val = base;
    return RF_OK;
}

static void widen(uint32_t *have, uint32_t n) { *have = n > *have ? n : *have; }

/* Before any task is emitted: finds each KV_PUT with its ATTEND right behind it and takes what leads
 * to them.  The task itself is kept in fused[i] of the ATTEND step. */
static rf_status absorb_attention(fuser *f, rf_cpu_attend *fused) {
    for (uint32_t i = 0; i + 1 < f->p->n_steps; i++) {
        const rf_step *put = &f->p->steps[i], *at = put + 1;
        if (put->op != RF_OP_KV_PUT || at->op != RF_OP_ATTEND || put->layer != at->layer) continue;
        rf_cpu_attend *a = &fused[i + 1];
        a->put = a->attend = true;
        a->v = put->b;
        RF_TRY(absorb_heads(f, at->a, at->head_dim, &a->q));
        RF_TRY(absorb_heads(f, put->a, put->head_dim, &a->k));
        f->done[i] = true;
    }
    return RF_OK;
}

static rf_status emit_attention(fuser *f, const rf_step *s, const rf_cpu_attend *fused) {
    rf_cpu_task *t = new_task(f, RF_CPU_ATTEND, false);
    rf_cpu_attend *a = &t->at;
    *a = *fused;
    a->step = s;
    if (!a->attend) { /* nothing was absorbed: half of the work, as the step says */
        a->put = s->op == RF_OP_KV_PUT;
        a->attend = !a->put;
        a->q.val = a->put ? 0 : s->a;
        a->k.val = a->put ? s->a : 0;
        a->v = a->put ? s->b : 0;
    }
    if (s->dst) make(f, s->dst);
    size_t bytes = a->attend ? rf_attend_scratch_bytes(s->head_dim, s->value_dim) : 0;
    f->x->attend_bytes = bytes > f->x->attend_bytes ? bytes : f->x->attend_bytes;
    if (a->attend) {
        widen(&f->x->query_cols, s->n_heads / s->n_kv_heads * s->head_dim);
        widen(&f->x->sums_cols, s->n_heads * (RF_ATTEND_SUMS + s->value_dim));
    }
    return a->attend ? decoded(f, weight_of(f, s->w), &a->sinks) : RF_OK;
}

/* Products -------------------------------------------------------------------------------------*/

static rf_status add_product(fuser *f, rf_cpu_task *t, uint32_t i) {
    rf_exec *x = f->x;
    const rf_step *s = &f->p->steps[i];
    rf_cpu_product *m = &t->product[t->n_products++];
    m->w = weight_of(f, s->w);
    m->dst = s->dst;
    RF_TRY(must_decode(f, m->w, "a matrix"));
    const rf_dtype_info *info = rf_dtype_get(m->w->type);
    const rf_int_view view = info->view;
    t->views |= 1u << view;
    t->with_totals |= view == RF_INT_32 && info->has_min;
    t->cols = m->w->cols;
    t->n_inputs = f->p->vals[s->a].cols / t->cols;
    widen(&x->view_cols[view], t->n_inputs * t->cols);
    widen(&x->max_cols, t->cols);
    if (s->op == RF_OP_EXPERTS) {
        widen(&x->gather_cols[view], t->cols);
        widen(&x->max_experts, s->router->n_experts);
        widen(&x->max_used, s->router->n_used);
    }
    f->done[i] = true;
    make(f, s->dst);
    return decoded(f, weight_of(f, s->bias), &m->bias);
}

/* The product of t that makes v and is free to be computed alongside another, or NULL. */
static rf_cpu_product *free_product(const fuser *f, rf_cpu_task *t, rf_val v) {
    for (uint32_t i = 0; i < t->n_products; i++) {
        rf_cpu_product *m = &t->product[i];
        if (m->dst == v && used_once(f, v) && m->n_chain == 0 && !m->is_up) return m;
    }
    return NULL;
}

/* Can s, which reads v, be done in place behind the product that makes v? */
static bool is_chained(fuser *f, rf_cpu_task *t, rf_cpu_product *m, const rf_step *s, rf_val v) {
    rf_val other = s->a == v ? s->b : s->a;
    if (s->op == RF_OP_ACT || s->op == RF_OP_SCALE || s->op == RF_OP_SOFTCAP) return true;
    if (s->op != RF_OP_ADD && s->op != RF_OP_MUL && s->op != RF_OP_GLU) return false;
    if (f->p->vals[s->a].cols != f->p->vals[v].cols) return false; /* v is a MUL's narrow b */
    if (is_made_before(f, other)) return true;
    if (s->op != RF_OP_GLU || s->a != v || v != m->dst) return false;
    m->up = free_product(f, t, other); /* the gate's product takes up along */
    return m->up != NULL;
}

static void share(fuser *f, rf_val v, rf_val owner) { f->x->root[v] = f->x->root[owner]; }

/* Takes the element-wise steps that follow product m as far as nothing else reads their input. */
static void chain(fuser *f, rf_cpu_task *t, rf_cpu_product *m) {
    rf_val v = m->dst;
    while (!m->is_up && m->n_chain < RF_CPU_MAX_CHAIN && used_once(f, v)) {
        uint32_t i = f->consumer[v];
        const rf_step *s = &f->p->steps[i];
        if (f->done[i] || !is_chained(f, t, m, s, v)) return;
        rf_cpu_element *el = &m->chain[m->n_chain++];
        el->step = s;
        el->other = s->a == v ? s->b : s->a;
        el->other_first = s->a != v;
        if (m->up && m->n_chain == 1) {
            for (uint32_t k = 0; k < t->n_products; k++)
                if (&t->product[k] == m->up) t->product[k].is_up = true;
        }
        f->done[i] = true;
        share(f, s->dst, m->dst);
        make(f, s->dst);
        v = s->dst;
    }
}

/* The products of step number first and, when fusing, of later steps that read the same. */
static rf_status emit_products(fuser *f, rf_cpu_task *t, uint32_t first) {
    const rf_step *lead = &f->p->steps[first];
    t->a = lead->a;
    t->per_output = f->p->vals[lead->dst].per_output;
    if (f->pick_of[t->a]) {
        t->a = f->pick_of[t->a];
        t->picked = true;
    }
    for (uint32_t i = first; i < f->p->n_steps; i++) {
        const rf_step *s = &f->p->steps[i];
        if (s->op != lead->op || s->a != lead->a || s->b != lead->b || f->done[i]) continue;
        if (weight_of(f, s->w)->cols != weight_of(f, lead->w)->cols) continue;
        if (t->n_products == RF_CPU_MAX_PRODUCTS) break;
        RF_TRY(add_product(f, t, i));
        if (!f->fuse || s->op == RF_OP_HEAD_MATMUL) break;
    }
    bool moved = rf_cpu_is_normed(&t->norm) || t->picked || t->kind == RF_CPU_HEADS;
    if (moved && t->views & 1u << RF_INT_NONE) f->x->stored_input = true;
    for (uint32_t i = 0; i < t->n_products && f->fuse; i++)
        chain(f, t, &t->product[i]);
    return RF_OK;
}

static rf_status emit_product(fuser *f, uint32_t i) {
    const rf_step *s = &f->p->steps[i];
    rf_cpu_task_kind kind = s->op == RF_OP_MATMUL    ? RF_CPU_PRODUCTS
                            : s->op == RF_OP_EXPERTS ? RF_CPU_EXPERTS
                                                     : RF_CPU_HEADS;
    rf_cpu_task *t = new_task(f, kind, false);
    if (s->op == RF_OP_EXPERTS) {
        t->router = s->router;
        t->route = s->b;
        t->scores = f->scores_of[s->b];
        f->scores_of[s->b] = 0;
        if (t->scores) make(f, s->b);
    }
    return emit_products(f, t, i);
}

/* Row by row -----------------------------------------------------------------------------------*/

/* Adds step s to the newest task, when that is of the same rows, or to a new one. */
static rf_status emit_row_step(fuser *f, const rf_step *s) {
    rf_exec *x = f->x;
    bool per_output = f->p->vals[s->dst].per_output;
    rf_cpu_task *t = x->n_tasks ? &x->tasks[x->n_tasks - 1] : NULL;
    bool joins = f->fuse && t && t->kind == RF_CPU_ROWS && t->per_output == per_output;
    /* angles are made beside the first task */
    if (s->op == RF_OP_ROPE && x->n_tasks == 1) joins = false;
    if (!joins) {
        t = new_task(f, RF_CPU_ROWS, per_output);
        t->first_part = x->n_parts;
    }
    t->n_parts++;
    rf_cpu_part *part = &x->parts[x->n_parts++];
    part->step = s;
    if (s->op == RF_OP_ROPE) part->rope_index = rope_index(x, s->rope);
    if (is_norm(s)) RF_TRY(norm_of(f, s, &part->norm));
    if (s->op == RF_OP_EMBED && s->w) RF_TRY(must_decode(f, weight_of(f, s->w), "embeddings"));
    make(f, s->dst);
    return RF_OK;
}

/* The first product behind step i that reads the norm it makes; NO_STEP where there is none. */
static uint32_t first_product(const fuser *f, uint32_t i) {
    const rf_step *s = &f->p->steps[i];
    if (!is_norm(s) || f->p->vals[s->a].cols != s->head_dim) return NO_STEP;
    for (uint32_t k = i + 1; k < f->p->n_steps; k++)
        if (f->p->steps[k].op == RF_OP_MATMUL && f->p->steps[k].a == s->dst) return k;
    return NO_STEP;
}

/* A norm goes into the products that read it, and is kept only for others that do. */
static rf_status emit_norm(fuser *f, uint32_t i) {
    const rf_step *s = &f->p->steps[i];
    uint32_t first = f->fuse ? first_product(f, i) : NO_STEP;
    if (first == NO_STEP) return emit_row_step(f, s);
    rf_cpu_task *t = new_task(f, RF_CPU_PRODUCTS, false);
    RF_TRY(norm_of(f, s, &t->norm));
    make(f, s->dst);
    RF_TRY(emit_products(f, t, first));
    t->a = s->a;
    if (f->pick_of[s->a]) {
        t->a = f->pick_of[s->a];
        t->picked = true;
    }
    bool all = t->n_products == f->n_uses[s->dst] && s->dst != f->p->result;
    t->norm_dst = all ? 0 : s->dst;
    return RF_OK;
}

static rf_status emit_pick(fuser *f, const rf_step *s) {
    uint32_t next = f->fuse && used_once(f, s->dst) ? f->consumer[s->dst] : NO_STEP;
    if (next == NO_STEP ||
        (f->p->steps[next].op != RF_OP_MATMUL && first_product(f, next) == NO_STEP))
        return emit_row_step(f, s);
    f->pick_of[s->dst] = s->a;
    return RF_OK;
}

/* A route goes into the experts that are the first to read it. */
static rf_status emit_route(fuser *f, uint32_t i) {
    const rf_step *s = &f->p->steps[i];
    for (uint32_t k = i + 1; k < f->p->n_steps && f->fuse; k++) {
        const rf_step *reader = &f->p->steps[k];
        if (reader->a != s->dst && reader->b != s->dst) continue;
        if (reader->op != RF_OP_EXPERTS || reader->a == s->dst) break;
        f->scores_of[s->dst] = s->a;
        return RF_OK;
    }
    return emit_row_step(f, s);
}

/* States ---------------------------------------------------------------------------------------*/

/* [taps][columns] of [columns][taps], so that neighbouring columns lie in neighbouring lanes. */
static rf_status transposed(fuser *f, const rf_tensor *w, const float **out) {
    const float *rows;
    RF_TRY(decoded(f, w, &rows));
    float *dst = rf_arena_alloc(f->x->arena, (size_t)w->rows * w->cols, sizeof *dst);
    if (!dst) return rf_fail_nomem(f->e, (size_t)w->rows * w->cols * sizeof *dst);
    for (size_t r = 0; r < w->rows; r++)
        for (size_t c = 0; c < w->cols; c++)
            dst[c * w->rows + r] = rows[r * w->cols + c];
    *out = dst;
    return RF_OK;
}

static rf_status emit_state(fuser *f, const rf_step *s) {
    rf_cpu_state *state = &new_task(f, RF_CPU_STATE, false)->state;
    state->step = s;
    make(f, s->dst);
    RF_TRY(decoded(f, weight_of(f, s->bias), &state->bias));
    if (s->op == RF_OP_CONV) return transposed(f, weight_of(f, s->w), &state->w);
    return decoded(f, weight_of(f, s->w), &state->w);
}

/* All of it ------------------------------------------------------------------------------------*/

static rf_status emit_step(fuser *f, uint32_t i, const rf_cpu_attend *fused) {
    const rf_step *s = &f->p->steps[i];
    if (s->op == RF_OP_KV_PUT || s->op == RF_OP_ATTEND) return emit_attention(f, s, fused);
    if (s->op == RF_OP_CONV || s->op == RF_OP_DELTA || s->op == RF_OP_SCAN) return emit_state(f, s);
    if (rf_cpu_multiplies(s)) return emit_product(f, i);
    if (is_norm(s)) return emit_norm(f, i);
    if (s->op == RF_OP_PICK) return emit_pick(f, s);
    if (s->op == RF_OP_ROUTE) return emit_route(f, i);
    return emit_row_step(f, s);
}

static rf_status fuse_all(fuser *f, rf_cpu_attend *fused) {
    rf_plan_count_uses(f->p, f->n_uses, f->producer, f->consumer);
    for (rf_val v = 0; v < f->p->n_vals; v++)
        f->x->root[v] = v;
    if (f->fuse) RF_TRY(absorb_attention(f, fused));
    for (uint32_t i = 0; i < f->p->n_steps; i++) {
        if (f->done[i]) continue;
        f->done[i] = !rf_cpu_multiplies(&f->p->steps[i]); /* products mark themselves */
        RF_TRY(emit_step(f, i, &fused[i]));
    }
    return RF_OK;
}

rf_status rf_cpu_fuse(rf_exec *x, rf_error *e) {
    const rf_plan *p = x->plan;
    rf_arena *scratch = NULL;
    if (rf_arena_create(&scratch) != RF_OK) return rf_fail_nomem(e, sizeof(fuser));
    fuser f = {.x = x, .p = p, .e = e, .fuse = !p->opts.keep_values};
    f.n_uses = rf_arena_alloc(scratch, p->n_vals, sizeof *f.n_uses);
    f.producer = rf_arena_alloc(scratch, p->n_vals, sizeof *f.producer);
    f.consumer = rf_arena_alloc(scratch, p->n_vals, sizeof *f.consumer);
    f.made_by = rf_arena_alloc(scratch, p->n_vals, sizeof *f.made_by);
    f.pick_of = rf_arena_alloc(scratch, p->n_vals, sizeof *f.pick_of);
    f.scores_of = rf_arena_alloc(scratch, p->n_vals, sizeof *f.scores_of);
    f.done = rf_arena_alloc(scratch, p->n_steps, sizeof *f.done);
    rf_cpu_attend *fused = rf_arena_alloc(scratch, p->n_steps, sizeof *fused);
    x->tasks = rf_arena_alloc(x->arena, p->n_steps, sizeof *x->tasks);
    x->parts = rf_arena_alloc(x->arena, p->n_steps, sizeof *x->parts);
    x->ropes = rf_arena_alloc(x->arena, p->n_steps, sizeof *x->ropes);
    x->root = rf_arena_alloc(x->arena, p->n_vals, sizeof *x->root);
    rf_status s = RF_OK;
    if (!f.n_uses || !f.producer || !f.consumer || !f.made_by || !f.pick_of || !f.scores_of ||
        !f.done || !fused || !x->tasks || !x->parts || !x->ropes || !x->root) {
        s = rf_fail_nomem(e, p->n_steps * sizeof *x->tasks);
    }
    if (s == RF_OK) s = fuse_all(&f, fused);
    rf_arena_free(scratch);
    return s;
}
