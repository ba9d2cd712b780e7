/* fuse.c - turns the plan's straight line of steps into tasks.
 *
 * Fused are: a pick and a norm into the products that read them, products of one input with each
 * other, silu-mul and residual add into the products before them, and head norms, ropes and the KV
 * put into attention.  A step is fused only when nothing else reads what then no longer exists, so
 * any plan is right, if not fast.  With keep_values every step is a task of its own. */
#include <string.h>

#include "backend/cpu/exec.h"

#define NO_STEP UINT32_MAX

typedef struct fuser {
    rf_exec *x;
    const rf_plan *p;
    rf_error *e;
    uint32_t *n_uses;   /* [n_vals] */
    uint32_t *producer; /* [n_vals] step that makes a value, or NO_STEP */
    uint32_t *consumer; /* [n_vals] last step that reads it, or NO_STEP */
    bool *done;         /* [n_steps] */
    bool *ready;        /* [n_vals] made by a task already emitted */
    rf_val *pick_of;    /* [n_vals] the picked value, where a PICK was absorbed */
} fuser;

static const rf_step *step_of(const fuser *f, uint32_t i) {
    return i == NO_STEP ? NULL : &f->p->steps[i];
}

static bool used_once(const fuser *f, rf_val v) { return f->n_uses[v] == 1 && v != f->p->logits; }

static const rf_tensor *weight_of(const fuser *f, rf_val v) {
    return v ? f->p->vals[v].weight : NULL;
}

/* A weight vector of any format as f32; NULL with the error filled on lack of memory. */
static rf_status vector(fuser *f, const rf_tensor *w, const float **out) {
    *out = NULL;
    if (!w) return RF_OK;
    const rf_dtype_info *info = rf_dtype_get(w->type);
    if (!info->decode) {
        return rf_fail(
            f->e, RF_EUNSUPPORTED,
            "tensor \"%.*s\": a vector of type %s cannot be decoded, expected a float or "
            "quantised type",
            RF_STR_ARG(w->name), info->name);
    }
    float *dst = rf_arena_alloc(f->x->arena, w->cols, sizeof *dst);
    if (!dst) return rf_fail_nomem(f->e, w->cols * sizeof *dst);
    info->decode(w->data, dst, w->cols);
    *out = dst;
    return RF_OK;
}

static rf_status norm_of(fuser *f, const rf_step *s, rf_cpu_norm *out) {
    out->head_dim = s->head_dim ? s->head_dim : f->p->vals[s->a].cols;
    out->eps = s->eps;
    if (out->head_dim > f->x->max_cols) f->x->max_cols = out->head_dim;
    return vector(f, weight_of(f, s->w), &out->w);
}

static uint32_t rope_index(rf_exec *x, const rf_rope *rope) {
    uint32_t i = 0;
    while (i < x->n_ropes && x->ropes[i] != rope)
        i++;
    if (i == x->n_ropes) x->ropes[x->n_ropes++] = rope;
    if (rope->n_dims > x->angle_cols) x->angle_cols = rope->n_dims;
    return i;
}

static rf_cpu_task *new_task(fuser *f, rf_cpu_task_kind kind, const rf_step *s) {
    rf_cpu_task *t = &f->x->tasks[f->x->n_tasks++];
    t->kind = kind;
    t->dst = s->dst;
    t->a = s->a;
    t->b = s->b;
    t->per_output = s->dst && f->p->vals[s->dst].per_output;
    return t;
}

/* v lies in the memory of owner from now on. */
static void share(fuser *f, rf_val v, rf_val owner) { f->x->root[v] = f->x->root[owner]; }

static void make(fuser *f, rf_val v) { f->ready[v] = true; }

/* Attention ------------------------------------------------------------------------------------*/

/* Walks back from v over a rope and a head norm that only this chain reads.  They then happen in
 * place, in the memory of the value before them. */
static rf_status absorb_heads(fuser *f, rf_val v, rf_cpu_heads *out) {
    uint32_t at = f->producer[v];
    const rf_step *s = step_of(f, at);
    rf_val base = v;
    if (s && s->op == RF_OP_ROPE && used_once(f, base) && used_once(f, s->a)) {
        out->rope = s->rope;
        out->rope_index = rope_index(f->x, s->rope);
        f->done[at] = true;
        base = s->a;
        at = f->producer[base];
        s = step_of(f, at);
    }
    if (s && s->op == RF_OP_RMS_NORM && used_once(f, base) && used_once(f, s->a)) {
        RF_TRY(norm_of(f, s, &out->norm));
        f->done[at] = true;
        base = s->a;
    }
    out->val = base;
    return RF_OK;
}

/* Before any task is emitted: finds each KV_PUT with its ATTEND right behind it and takes what leads
 * to them.  The task itself is kept in fused[i] of the ATTEND step. */
static rf_status absorb_attention(fuser *f, rf_cpu_attend *fused) {
    for (uint32_t i = 0; i + 1 < f->p->n_steps; i++) {
        const rf_step *put = &f->p->steps[i], *at = put + 1;
        if (put->op != RF_OP_KV_PUT || at->op != RF_OP_ATTEND || put->layer != at->layer) continue;
        rf_cpu_attend *a = &fused[i + 1];
        a->put = a->attend = true;
        a->v = put->b;
        RF_TRY(absorb_heads(f, at->a, &a->q));
        RF_TRY(absorb_heads(f, put->a, &a->k));
        f->done[i] = true;
    }
    return RF_OK;
}

static rf_status emit_attention(fuser *f, const rf_step *s, const rf_cpu_attend *fused) {
    if (s->head_dim > RF_MAX_HEAD_DIM) {
        return rf_fail(f->e, RF_EUNSUPPORTED, "layer %u: head dimension %u, expected at most %d",
                       s->layer, s->head_dim, (int)RF_MAX_HEAD_DIM);
    }
    rf_cpu_task *t = new_task(f, RF_CPU_ATTEND, s);
    rf_cpu_attend *a = &t->at;
    *a = *fused;
    if (!a->attend) { /* nothing was absorbed: half of the work, as the step says */
        a->put = s->op == RF_OP_KV_PUT;
        a->attend = !a->put;
        a->q.val = a->put ? 0 : s->a;
        a->k.val = a->put ? s->a : 0;
        a->v = a->put ? s->b : 0;
    }
    t->a = t->b = 0;
    a->layer = s->layer;
    a->n_heads = s->n_heads;
    a->n_kv_heads = s->n_kv_heads;
    a->head_dim = s->head_dim;
    a->scale = s->scale;
    a->pattern = s->pattern;
    if (s->dst) make(f, s->dst);
    return RF_OK;
}

/* Products -------------------------------------------------------------------------------------*/

static rf_status add_product(fuser *f, rf_cpu_task *t, uint32_t i) {
    rf_exec *x = f->x;
    const rf_step *s = &f->p->steps[i];
    rf_cpu_product *m = &t->product[t->n_products++];
    m->w = weight_of(f, s->w);
    m->dst = s->dst;
    const rf_dtype_info *info = rf_dtype_get(m->w->type);
    if (!info->decode) {
        return rf_fail(
            f->e, RF_EUNSUPPORTED,
            "tensor \"%.*s\": no matrix product with weights of type %s, expected a float "
            "or quantised type",
            RF_STR_ARG(m->w->name), info->name);
    }
    t->views |= 1u << info->view;
    t->cols = m->w->cols;
    if (t->cols > x->view_cols[info->view]) x->view_cols[info->view] = t->cols;
    if (t->cols > x->max_cols) x->max_cols = t->cols;
    f->done[i] = true;
    make(f, s->dst);
    return vector(f, weight_of(f, s->bias), &m->bias);
}

/* The only step that reads product number n of t, when it is an op of this kind. */
static const rf_step *reader(const fuser *f, const rf_cpu_task *t, uint32_t n, rf_op op) {
    rf_val v = t->product[n].dst;
    if (!used_once(f, v)) return NULL;
    const rf_step *s = step_of(f, f->consumer[v]);
    return s && s->op == op && !f->done[f->consumer[v]] ? s : NULL;
}

static void fuse_silu(fuser *f, rf_cpu_task *t) {
    if (t->n_products != 2) return;
    const rf_step *s = reader(f, t, 0, RF_OP_SILU_MUL);
    if (!s || s != reader(f, t, 1, RF_OP_SILU_MUL)) return;
    if (s->a == t->product[1].dst) { /* gate goes first */
        rf_cpu_product up = t->product[0];
        t->product[0] = t->product[1];
        t->product[1] = up;
    }
    t->silu = true;
    f->done[f->consumer[s->a]] = true;
    share(f, s->dst, t->product[0].dst);
    make(f, s->dst);
}

static void fuse_add(fuser *f, rf_cpu_task *t) {
    if (t->n_products != 1) return;
    const rf_step *s = reader(f, t, 0, RF_OP_ADD);
    if (!s) return;
    rf_val product = t->product[0].dst, other = s->a == product ? s->b : s->a;
    if (!f->ready[other]) return;
    t->add = other;
    f->done[f->consumer[product]] = true;
    share(f, s->dst, product);
    make(f, s->dst);
}

/* Products number first, first + 1, ... of value a, as many as there are. */
static rf_status emit_products(fuser *f, rf_cpu_task *t, rf_val a, uint32_t first, bool fuse) {
    t->kind = RF_CPU_PRODUCTS;
    t->per_output = f->p->vals[a].per_output;
    if (f->pick_of[t->a]) {
        t->a = f->pick_of[t->a];
        t->picked = true;
    }
    for (uint32_t i = first; i < f->p->n_steps; i++) {
        const rf_step *s = &f->p->steps[i];
        if (s->op != RF_OP_MATMUL || s->a != a || f->done[i]) continue;
        if (t->n_products == RF_CPU_MAX_PRODUCTS) break;
        RF_TRY(add_product(f, t, i));
        if (!fuse) break;
    }
    if ((t->norm.w || t->picked) && t->views & 1u << RF_INT_NONE) f->x->stored_norm = true;
    if (!fuse) return RF_OK;
    fuse_silu(f, t);
    fuse_add(f, t);
    return RF_OK;
}

/* True when all that reads v are products, few enough for one task. */
static bool only_products(const fuser *f, rf_val v) {
    uint32_t n = 0;
    for (uint32_t i = f->producer[v] + 1; i < f->p->n_steps; i++) {
        const rf_step *s = &f->p->steps[i];
        n += s->op == RF_OP_MATMUL && s->a == v;
    }
    return n > 0 && n == f->n_uses[v] && n <= RF_CPU_MAX_PRODUCTS && v != f->p->logits;
}

static bool is_fusable_norm(const fuser *f, const rf_step *s) {
    return s->op == RF_OP_RMS_NORM && f->p->vals[s->a].cols == s->head_dim &&
           only_products(f, s->dst);
}

/* The rest -------------------------------------------------------------------------------------*/

static rf_status emit_norm(fuser *f, uint32_t i, bool fuse) {
    const rf_step *s = &f->p->steps[i];
    rf_cpu_task *t = new_task(f, RF_CPU_NORM, s);
    RF_TRY(norm_of(f, s, &t->norm));
    make(f, s->dst);
    if (!fuse || !is_fusable_norm(f, s)) return RF_OK;
    t->dst = 0;
    return emit_products(f, t, s->dst, i + 1, true);
}

static rf_status emit_pick(fuser *f, uint32_t i, bool fuse) {
    const rf_step *s = &f->p->steps[i];
    const rf_step *next = used_once(f, s->dst) ? step_of(f, f->consumer[s->dst]) : NULL;
    make(f, s->dst);
    if (fuse && next && (next->op == RF_OP_MATMUL || is_fusable_norm(f, next))) {
        f->pick_of[s->dst] = s->a;
    } else {
        (void)new_task(f, RF_CPU_PICK, s);
    }
    return RF_OK;
}

static rf_status emit_matmul(fuser *f, uint32_t i, bool fuse) {
    const rf_step *s = &f->p->steps[i];
    rf_cpu_task *t = new_task(f, RF_CPU_PRODUCTS, s);
    t->dst = 0;
    return emit_products(f, t, s->a, i, fuse);
}

static rf_status emit_embed(fuser *f, const rf_step *s) {
    rf_cpu_task *t = new_task(f, RF_CPU_EMBED, s);
    t->table = weight_of(f, s->w);
    make(f, s->dst);
    const rf_dtype_info *info = rf_dtype_get(t->table->type);
    if (info->decode) return RF_OK;
    return rf_fail(f->e, RF_EUNSUPPORTED,
                   "tensor \"%.*s\": embeddings of type %s cannot be decoded, expected a float or "
                   "quantised type",
                   RF_STR_ARG(t->table->name), info->name);
}

static rf_status emit_rope(fuser *f, const rf_step *s) {
    rf_cpu_task *t = new_task(f, RF_CPU_ROPE, s);
    t->rope.rope = s->rope;
    t->rope.rope_index = rope_index(f->x, s->rope);
    t->head_dim = s->head_dim;
    make(f, s->dst);
    return RF_OK;
}

static rf_status emit_step(fuser *f, uint32_t i, const rf_cpu_attend *fused) {
    const rf_step *s = &f->p->steps[i];
    bool fuse = !f->p->keep_values;
    switch (s->op) {
    case RF_OP_EMBED:
        return emit_embed(f, s);
    case RF_OP_RMS_NORM:
        return emit_norm(f, i, fuse);
    case RF_OP_MATMUL:
        return emit_matmul(f, i, fuse);
    case RF_OP_ROPE:
        return emit_rope(f, s);
    case RF_OP_KV_PUT:
    case RF_OP_ATTEND:
        return emit_attention(f, s, fused);
    case RF_OP_SILU_MUL:
    case RF_OP_ADD:
        (void)new_task(f, s->op == RF_OP_ADD ? RF_CPU_ADD : RF_CPU_SILU_MUL, s);
        make(f, s->dst);
        return RF_OK;
    case RF_OP_PICK:
        return emit_pick(f, i, fuse);
    case RF_OP_COUNT:
        break;
    }
    return rf_fail(f->e, RF_EUNSUPPORTED, "plan step %u: the CPU backend has no op number %d", i,
                   (int)s->op);
}

static void count_uses(fuser *f) {
    memset(f->producer, 0xFF, f->p->n_vals * sizeof *f->producer);
    memset(f->consumer, 0xFF, f->p->n_vals * sizeof *f->consumer);
    for (uint32_t i = 0; i < f->p->n_steps; i++) {
        const rf_step *s = &f->p->steps[i];
        if (s->dst) f->producer[s->dst] = i;
        rf_val in[2] = {s->a, s->b};
        for (int k = 0; k < 2; k++) {
            if (!in[k]) continue;
            f->n_uses[in[k]]++;
            f->consumer[in[k]] = i;
        }
    }
}

static rf_status fuse_all(fuser *f, rf_cpu_attend *fused) {
    count_uses(f);
    for (rf_val v = 0; v < f->p->n_vals; v++)
        f->x->root[v] = v;
    if (!f->p->keep_values) RF_TRY(absorb_attention(f, fused));
    for (uint32_t i = 0; i < f->p->n_steps; i++) {
        if (f->done[i]) continue;
        f->done[i] = f->p->steps[i].op != RF_OP_MATMUL; /* products mark themselves */
        RF_TRY(emit_step(f, i, &fused[i]));
    }
    return RF_OK;
}

rf_status rf_cpu_fuse(rf_exec *x, rf_error *e) {
    const rf_plan *p = x->plan;
    rf_arena *scratch = NULL;
    if (rf_arena_create(&scratch) != RF_OK) return rf_fail_nomem(e, sizeof(fuser));
    fuser f = {.x = x, .p = p, .e = e};
    f.n_uses = rf_arena_alloc(scratch, p->n_vals, sizeof *f.n_uses);
    f.producer = rf_arena_alloc(scratch, p->n_vals, sizeof *f.producer);
    f.consumer = rf_arena_alloc(scratch, p->n_vals, sizeof *f.consumer);
    f.ready = rf_arena_alloc(scratch, p->n_vals, sizeof *f.ready);
    f.pick_of = rf_arena_alloc(scratch, p->n_vals, sizeof *f.pick_of);
    f.done = rf_arena_alloc(scratch, p->n_steps, sizeof *f.done);
    rf_cpu_attend *fused = rf_arena_alloc(scratch, p->n_steps, sizeof *fused);
    x->tasks = rf_arena_alloc(x->arena, p->n_steps, sizeof *x->tasks);
    x->ropes = rf_arena_alloc(x->arena, p->n_steps, sizeof *x->ropes);
    x->root = rf_arena_alloc(x->arena, p->n_vals, sizeof *x->root);
    rf_status s = RF_OK;
    if (!f.n_uses || !f.producer || !f.consumer || !f.ready || !f.pick_of || !f.done || !fused ||
        !x->tasks || !x->ropes || !x->root) {
        s = rf_fail_nomem(e, p->n_steps * sizeof *x->tasks);
    }
    if (s == RF_OK) s = fuse_all(&f, fused);
    rf_arena_free(scratch);
    return s;
}
