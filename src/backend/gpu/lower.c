/* lower.c - turns the plan's straight line of steps into tasks, each one call of launch.h.
 *
 * Fused are: products of one input with each other, a gate with its up product and the GLU behind
 * them, a residual sum into the product or mix before it, head norms, ropes and the KV put into the
 * attention behind them, and quantising into the norm before it or its only reader; rows in integers
 * are made once for all their readers.  A step is fused only when nothing else reads what then no longer exists, so
 * any plan is right.  With keep_values every value of the plan is made.  A norm before a router and the route stay
 * tasks: products behind them may do their work, too, which launch_products.c decides for each batch. */
#include <string.h>

#include "backend/gpu/exec.h"
#include "backend/gpu/launch.h"

_Static_assert((int)RF_GPU_SEGMENT_BLOCKS == (int)RF_KV_SEGMENT, "one order of attention");

#define NO_STEP UINT32_MAX
/* The place of a field of a task's arguments. */
#define FIELD(t, pointer) ((uint32_t)((const char *)(pointer) - (const char *)&(t)->args))

/* What happens to the heads of a query or key before attention. */
typedef struct head_chain {
    rf_val from, to;
    const rf_step *norm, *rope; /* or NULL */
} head_chain;

typedef struct attention {
    head_chain q, k;
    const rf_step *put; /* absorbed, or NULL */
} attention;

typedef struct lowering {
    rf_exec *x;
    const rf_plan *p;
    rf_error *e;
    bool fuse;
    uint32_t *n_uses;     /* [n_vals] */
    uint32_t *producer;   /* [n_vals] step that makes a value, or NO_STEP */
    uint32_t *consumer;   /* [n_vals] last step that reads it, or NO_STEP */
    bool *made;           /* [n_vals] by a task so far, or with the batch */
    uint32_t *made_by;    /* [n_vals] the task that makes it, where a norm does: one more than it */
    uint32_t *quant_by;   /* [3 * n_vals] one more than the task that makes rows in integers */
    rf_val lists_of;      /* the route whose lists are there, or 0 */
    bool *done;           /* [n_steps] */
    attention *attention; /* [n_steps] of ATTEND steps */
} lowering;

/* Small helpers ----------------------------------------------------------------------------------*/

static const rf_step *step_of(const lowering *l, uint32_t i) {
    return i == NO_STEP ? NULL : &l->p->steps[i];
}

static bool used_once(const lowering *l, rf_val v) {
    return l->fuse && l->n_uses[v] == 1 && v != l->p->result;
}

static uint32_t cols_of(const lowering *l, rf_val v) { return l->p->vals[v].cols; }

static const rf_tensor *weight_of(const lowering *l, rf_val v) {
    return v ? l->p->vals[v].weight : NULL;
}

static rf_gpu_task *new_task(lowering *l, rf_gpu_task_kind kind, rf_val row_of) {
    rf_gpu_task *t = &l->x->tasks[l->x->n_tasks++];
    t->kind = kind;
    t->per_output = l->p->vals[row_of].per_output;
    return t;
}

static void bind_at(rf_gpu_task *t, const void *field, rf_gpu_item item, size_t column) {
    RF_ASSERT(t->n_slots < RF_GPU_MAX_SLOTS);
    t->slot[t->n_slots++] = (rf_gpu_slot){.item = item, .at = FIELD(t, field), .column = column};
}

static void bind(rf_gpu_task *t, const void *field, rf_gpu_item item) {
    if (item) bind_at(t, field, item, 0);
}

static void use(rf_gpu_task *t, const void *field, uint32_t number) {
    RF_ASSERT(t->n_uses < RF_GPU_MAX_USES);
    t->use[t->n_uses++] = (rf_gpu_use){number, FIELD(t, field)};
}

static rf_status use_vector(lowering *l, rf_gpu_task *t, const void *field, rf_val v) {
    uint32_t number;
    if (!v) return RF_OK;
    RF_TRY(rf_gpu_weights_vector(&l->x->weights, weight_of(l, v), &number, l->e));
    use(t, field, number);
    return RF_OK;
}

static uint32_t rope_index(rf_exec *x, const rf_rope *rope) {
    uint32_t i = 0;
    while (i < x->n_ropes && x->ropes[i].rope != rope)
        i++;
    if (i == x->n_ropes) x->ropes[x->n_ropes++].rope = rope;
    return i;
}

static bool is_norm(const rf_step *s) {
    return s->op == RF_OP_RMS_NORM || s->op == RF_OP_LAYER_NORM;
}

static uint32_t norm_kind(const rf_step *s) {
    return s->op == RF_OP_LAYER_NORM ? RF_GPU_LAYER_NORM : RF_GPU_RMS_NORM;
}

/* Rows in integers -------------------------------------------------------------------------------*/

static const rf_gpu_quant *quant_field(const rf_gpu_task *t, rf_int_view view) {
    if (t->kind == RF_GPU_TASK_NORM)
        return view == RF_INT_32 ? &t->args.norm.q32 : &t->args.norm.q256;
    return view == RF_INT_32 ? &t->args.quant.q32 : &t->args.quant.q256;
}

/* The task that can make rows of a in integers: the norm that makes a, or one that quantises it. */
static rf_gpu_task *quantiser(lowering *l, rf_val a, rf_int_view view) {
    rf_int_view other = view == RF_INT_32 ? RF_INT_256 : RF_INT_32;
    uint32_t by = l->quant_by[rf_gpu_quant_item(l->p, a, other)];
    if (!by) by = l->made_by[a];
    if (by) return &l->x->tasks[by - 1];
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_QUANT, a);
    t->args.quant.cols = cols_of(l, a);
    bind(t, &t->args.quant.x, a);
    return t;
}

/* Item a as the rows that weights of this view are multiplied with. */
static rf_gpu_item rows_in(lowering *l, rf_val a, rf_int_view view) {
    if (view == RF_INT_NONE) return a;
    rf_gpu_item item = rf_gpu_quant_item(l->p, a, view);
    if (!l->quant_by[item]) {
        rf_gpu_task *t = quantiser(l, a, view);
        bind(t, quant_field(t, view), item);
        l->quant_by[item] = (uint32_t)(t - l->x->tasks) + 1;
    }
    return item;
}

/* Products ---------------------------------------------------------------------------------------*/

static bool is_product(const rf_step *s) {
    return s->op == RF_OP_MATMUL || s->op == RF_OP_HEAD_MATMUL || s->op == RF_OP_EXPERTS;
}

static rf_int_view view_of(const lowering *l, const rf_step *s) {
    return rf_dtype_get(weight_of(l, s->w)->type)->view;
}

static rf_status layout_of(lowering *l, const rf_step *s, rf_gpu_weight *out) {
    rf_gpu_layout layout;
    RF_TRY(rf_gpu_layout_of(&layout, weight_of(l, s->w), l->e));
    *out = rf_gpu_weight_at(&layout, NULL);
    return RF_OK;
}

/* The sum behind v, when only it reads v and its other operand is there; *other is that. */
static const rf_step *sum_behind(const lowering *l, rf_val v, rf_val *other) {
    if (!used_once(l, v)) return NULL;
    const rf_step *s = step_of(l, l->consumer[v]);
    if (s->op != RF_OP_ADD || s->a == s->b) return NULL;
    *other = s->a == v ? s->b : s->a;
    bool same = cols_of(l, *other) == cols_of(l, v);
    return same && l->made[*other] && !l->done[l->consumer[v]] ? s : NULL;
}

/* v, or the sum behind it, whose other operand then goes to the field. */
static rf_val with_sum(lowering *l, rf_gpu_task *t, const void *field, rf_val v) {
    rf_val other = 0;
    const rf_step *sum = sum_behind(l, v, &other);
    if (!sum) return v;
    bind(t, field, other);
    l->done[l->consumer[v]] = true;
    l->made[sum->dst] = true;
    return sum->dst;
}

/* Adds step i as the next product of task t, whose result goes to dst. */
static rf_status add_part(lowering *l, rf_gpu_task *t, uint32_t i, rf_val dst) {
    const rf_step *s = &l->p->steps[i];
    rf_gpu_product *part = &t->args.matmul.part[t->args.matmul.n_parts++];
    uint32_t number;
    RF_TRY(rf_gpu_weights_matrix(&l->x->weights, weight_of(l, s->w), &number, l->e));
    use(t, &part->w, number);
    RF_TRY(use_vector(l, t, &part->bias, s->bias));
    l->done[i] = true;
    if (!dst) return RF_OK;
    if (s->op == RF_OP_MATMUL && dst == s->dst) dst = with_sum(l, t, &part->add, dst);
    bind(t, &part->dst, dst);
    part->dst_stride = s->op == RF_OP_MATMUL ? cols_of(l, dst) : weight_of(l, s->w)->rows;
    l->made[dst] = true;
    return RF_OK;
}

/* The GLU that reads what step i makes, when gate and up can be made by one task; its number, and
 * the products' in pair, or NO_STEP. */
static rf_status glu_of(lowering *l, uint32_t i, uint32_t pair[2], uint32_t *glu) {
    const rf_step *s = &l->p->steps[i];
    *glu = NO_STEP;
    if (!used_once(l, s->dst) || s->op == RF_OP_HEAD_MATMUL) return RF_OK;
    uint32_t at = l->consumer[s->dst];
    const rf_step *g = &l->p->steps[at];
    if (g->op != RF_OP_GLU || g->a == g->b || l->done[at]) return RF_OK;
    rf_gpu_weight w[2];
    for (int k = 0; k < 2; k++) {
        pair[k] = l->producer[k ? g->b : g->a];
        const rf_step *m = step_of(l, pair[k]);
        if (!m || m->op != s->op || m->a != s->a || m->b != s->b || l->done[pair[k]] ||
            !used_once(l, m->dst))
            return RF_OK;
        RF_TRY(layout_of(l, m, &w[k]));
    }
    if (rf_gpu_same_layout(&w[0], &w[1])) *glu = at;
    return RF_OK;
}

static rf_status add_glu(lowering *l, rf_gpu_task *t, const uint32_t pair[2], uint32_t glu) {
    const rf_step *g = &l->p->steps[glu];
    t->args.matmul.is_glu = 1;
    t->args.matmul.act = (uint32_t)g->act;
    RF_TRY(add_part(l, t, pair[0], g->dst));
    l->done[glu] = true;
    return add_part(l, t, pair[1], 0);
}

/* More products of the same input, as many as one task takes. */
static rf_status add_neighbours(lowering *l, rf_gpu_task *t, uint32_t first) {
    const rf_step *lead = &l->p->steps[first];
    rf_gpu_weight lead_w, w;
    RF_TRY(layout_of(l, lead, &lead_w));
    for (uint32_t i = first + 1; i < l->p->n_steps && l->fuse; i++) {
        const rf_step *s = &l->p->steps[i];
        uint32_t pair[2], glu;
        if (t->args.matmul.n_parts == RF_GPU_MAX_PRODUCTS) break;
        if (s->op != lead->op || s->a != lead->a || s->b != lead->b || l->done[i]) continue;
        RF_TRY(layout_of(l, s, &w));
        RF_TRY(glu_of(l, i, pair, &glu));
        if (w.form != lead_w.form || w.cols != lead_w.cols || glu != NO_STEP) continue;
        RF_TRY(add_part(l, t, i, s->dst));
    }
    return RF_OK;
}

static void set_mode(lowering *l, rf_gpu_task *t, const rf_step *s) {
    rf_gpu_matmul_args *a = &t->args.matmul;
    a->mode = RF_GPU_MM_PLAIN;
    if (s->op == RF_OP_HEAD_MATMUL) a->mode = RF_GPU_MM_HEADS;
    if (s->op != RF_OP_EXPERTS) return;
    a->mode = RF_GPU_MM_EXPERTS;
    a->n_used = s->router->n_used;
    a->x_per_used = cols_of(l, s->a) != weight_of(l, s->w)->cols;
    bind(t, &a->route, s->b);
    bind(t, &a->lists, rf_gpu_lists_item(l->p));
}

/* The lists of the route that step s reads, unless they are there. */
static void make_lists(lowering *l, const rf_step *s) {
    if (l->lists_of == s->b) return;
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_LISTS, s->b);
    rf_gpu_lists_args *a = &t->args.lists;
    a->n_used = s->router->n_used;
    a->n_experts = s->router->n_experts;
    bind(t, &a->route, s->b);
    bind(t, &a->lists, rf_gpu_lists_item(l->p));
    size_t bytes = rf_gpu_lists_bytes(l->x->limits.max_tokens, a->n_used, a->n_experts);
    if (bytes > l->x->lists_bytes) l->x->lists_bytes = bytes;
    l->lists_of = s->b;
}

/* The mix that alone reads what step s makes. */
static bool add_mix(lowering *l, rf_gpu_task *t, const rf_step *s) {
    if (s->op != RF_OP_EXPERTS || !used_once(l, s->dst)) return false;
    uint32_t at = l->consumer[s->dst];
    const rf_step *m = &l->p->steps[at];
    if (m->op != RF_OP_MIX || m->b != s->b || l->done[at]) return false;
    l->done[at] = true;
    l->made[m->dst] = true;
    bind(t, &t->args.matmul.mixed, with_sum(l, t, &t->args.matmul.mixed_add, m->dst));
    return true;
}

/* Room for what is made ahead of a task's products. */
static void need_ahead(lowering *l, rf_gpu_task *t) {
    rf_gpu_matmul_args a = t->args.matmul;
    for (uint32_t i = 0; i < a.n_parts; i++)
        for (uint32_t k = 0; k < t->n_uses; k++)
            if (t->use[k].at == FIELD(t, &t->args.matmul.part[i].w))
                a.part[i].w = rf_gpu_weight_at(&l->x->weights.entry[t->use[k].number].layout, NULL);
    const rf_limits *most = &l->x->limits;
    size_t bytes = rf_gpu_ahead_bytes(&a, t->per_output ? 0 : most->max_tokens);
    size_t halves = rf_gpu_halves_bytes(&a, t->per_output ? most->max_outputs : most->max_tokens);
    if (halves > bytes) bytes = halves;
    if (bytes == 0) return;
    bind(t, &t->args.matmul.ahead, rf_gpu_room_item(l->p));
    if (bytes > l->x->room_bytes) l->x->room_bytes = bytes;
}

static rf_status lower_product(lowering *l, uint32_t i) {
    const rf_step *s = &l->p->steps[i];
    rf_int_view view = view_of(l, s);
    if (s->op == RF_OP_EXPERTS) make_lists(l, s);
    bool alone = view != RF_INT_NONE && used_once(l, s->a) && !l->made_by[s->a];
    rf_gpu_item rows = alone ? rf_gpu_quant_item(l->p, s->a, view) : rows_in(l, s->a, view);
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_MATMUL, s->dst);
    set_mode(l, t, s);
    if (alone) bind(t, &t->args.matmul.x, s->a);
    bind(t, view == RF_INT_NONE ? (const void *)&t->args.matmul.x : &t->args.matmul.xq, rows);
    uint32_t pair[2], glu;
    RF_TRY(glu_of(l, i, pair, &glu));
    if (glu != NO_STEP) {
        RF_TRY(add_glu(l, t, pair, glu));
    } else {
        RF_TRY(add_part(l, t, i, s->dst));
        if (!add_mix(l, t, s) && s->op != RF_OP_HEAD_MATMUL) RF_TRY(add_neighbours(l, t, i));
    }
    need_ahead(l, t);
    return RF_OK;
}

/* Attention --------------------------------------------------------------------------------------*/

/* Walks back from v over a rope and a norm of the same heads that only this chain reads. */
static head_chain absorb_heads(lowering *l, rf_val v, uint32_t head_dim) {
    head_chain c = {.from = v, .to = v};
    uint32_t at = l->producer[v];
    const rf_step *s = step_of(l, at);
    if (s && s->op == RF_OP_ROPE && s->head_dim == head_dim && used_once(l, c.from)) {
        c.rope = s;
        l->done[at] = true;
        c.from = s->a;
        at = l->producer[c.from];
        s = step_of(l, at);
    }
    if (s && is_norm(s) && s->head_dim == head_dim && used_once(l, c.from)) {
        c.norm = s;
        l->done[at] = true;
        c.from = s->a;
    }
    return c;
}

/* Before any task is made: each KV_PUT with its ATTEND right behind it takes what leads to them. */
static void absorb_attention(lowering *l) {
    for (uint32_t i = 0; i < l->p->n_steps; i++) {
        const rf_step *at = &l->p->steps[i], *put = i ? at - 1 : NULL;
        if (at->op != RF_OP_ATTEND) continue;
        attention *a = &l->attention[i];
        a->q = (head_chain){.from = at->a, .to = at->a};
        if (!l->fuse || !put || put->op != RF_OP_KV_PUT || put->layer != at->layer) continue;
        a->put = put;
        a->q = absorb_heads(l, at->a, at->head_dim);
        a->k = absorb_heads(l, put->a, put->head_dim);
        l->done[i - 1] = true;
    }
}

static rf_gpu_heads *add_heads(rf_gpu_task *t, rf_val from, uint32_t n_heads, uint32_t dim) {
    bool attends = t->kind == RF_GPU_TASK_ATTEND;
    rf_gpu_heads_args *a = attends ? &t->args.attend.heads : &t->args.heads;
    rf_gpu_heads *h = &a->part[a->n_parts++];
    h->n_heads = n_heads;
    h->head_dim = dim;
    bind(t, &h->x, from);
    return h;
}

static void set_rope(lowering *l, rf_gpu_task *t, rf_gpu_heads *h, const rf_rope *rope) {
    if (rope->kind == RF_ROPE_NONE) return;
    h->n_dims = rope->n_dims;
    h->neox = rope->kind == RF_ROPE_NEOX;
    bind(t, &h->cos_sin, rf_gpu_rope_item(l->p, rope_index(l->x, rope)));
}

static rf_status add_chain(lowering *l, rf_gpu_task *t, const head_chain *c, uint32_t n_heads,
                           uint32_t dim, rf_gpu_heads **out) {
    rf_gpu_heads *h = *out = add_heads(t, c->from, n_heads, dim);
    if (c->rope) set_rope(l, t, h, c->rope->rope);
    if (!c->norm) return RF_OK;
    h->norm = norm_kind(c->norm);
    h->eps = c->norm->eps;
    RF_TRY(use_vector(l, t, &h->w, c->norm->w));
    return use_vector(l, t, &h->b, c->norm->bias);
}

/* The keys and values of a put, with what happens to the keys before. */
static rf_status add_put(lowering *l, rf_gpu_task *t, const rf_step *s, const head_chain *k) {
    rf_gpu_heads *h;
    RF_TRY(add_chain(l, t, k, s->n_kv_heads, s->head_dim, &h));
    h->pool_type = l->x->limits.k_type;
    bind(t, &h->pool, rf_gpu_kv_item(l->p, s->layer, false));
    if (!s->b) return RF_OK;
    h = add_heads(t, s->b, s->n_kv_heads, s->value_dim);
    h->pool_type = l->x->limits.v_type;
    bind(t, &h->pool, rf_gpu_kv_item(l->p, s->layer, true));
    return RF_OK;
}

static rf_status lower_put(lowering *l, const rf_step *s) {
    const head_chain k = {.from = s->a, .to = s->a};
    return add_put(l, new_task(l, RF_GPU_TASK_HEADS, s->a), s, &k);
}

static bool layer_has_values(const lowering *l, uint32_t layer) {
    return l->x->kv[layer].v_block != 0;
}

/* Room for all segments of as many rows as fit, at least for one row. */
static void need_parts(rf_exec *x, const rf_step *s) {
    enum { PARTS_BYTES = 64 << 20 };
    uint32_t n = (x->n_positions - 1) / (RF_KV_SEGMENT * RF_KV_BLOCK) + 1;
    uint64_t row = rf_gpu_parts_bytes(1, s->n_heads, n, s->value_dim);
    uint64_t rows = PARTS_BYTES / row ? PARTS_BYTES / row : 1;
    if (rows > x->limits.max_tokens) rows = x->limits.max_tokens;
    if (n > 1 && rows * row > x->room_bytes) x->room_bytes = (size_t)(rows * row);
}

/* Room for a layer's keys and values as F16, where attention takes them so; without a device, as much as any takes. */
static void need_halves(rf_exec *x, const rf_gpu_attend_args *a) {
    rf_gpu_attend_args both = *a;
    both.v = x; /* there will be some */
    if (!x->backend && !x->fast_floats) return;
    uint64_t bytes = rf_gpu_kv_halves_bytes(x->backend ? &x->backend->queue : NULL, &both);
    if (bytes > x->room_bytes) x->room_bytes = (size_t)bytes;
}

static rf_status lower_attend(lowering *l, uint32_t i) {
    const rf_step *s = &l->p->steps[i];
    const attention *a = &l->attention[i];
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_ATTEND, s->dst);
    rf_gpu_attend_args *out = &t->args.attend;
    *out = (rf_gpu_attend_args){
        .n_heads = s->n_heads,
        .n_kv_heads = s->n_kv_heads,
        .head_dim = s->head_dim,
        .value_dim = s->value_dim,
        .k_type = l->x->limits.k_type,
        .v_type = l->x->limits.v_type,
        .pattern = (uint32_t)s->pattern.kind,
        .window = s->pattern.window,
        .n_global = s->pattern.n_global,
        .scale = s->scale,
        .softcap = s->softcap,
        .n_kv_blocks = l->x->limits.n_kv_blocks,
    };
    l->x->has_mask = l->x->has_mask || s->pattern.kind == RF_ATTN_CUSTOM;
    need_parts(l->x, s);
    if (a->q.norm || a->q.rope) {
        rf_gpu_heads *h;
        RF_TRY(add_chain(l, t, &a->q, s->n_heads, s->head_dim, &h));
        bind(t, &h->dst, a->q.to);
        l->made[a->q.to] = true;
    }
    if (a->put) RF_TRY(add_put(l, t, a->put, &a->k));
    bind(t, &out->q, s->a);
    bind(t, &out->dst, s->dst);
    bind(t, &out->k, rf_gpu_kv_item(l->p, s->layer, false));
    bind(t, &out->parts, rf_gpu_room_item(l->p));
    if (layer_has_values(l, s->layer)) {
        bind(t, &out->v, rf_gpu_kv_item(l->p, s->layer, true));
        need_halves(l->x, out);
    }
    l->made[s->dst] = true;
    return use_vector(l, t, &out->sinks, s->w);
}

/* Steps that keep a state ------------------------------------------------------------------------*/

static rf_status lower_conv(lowering *l, const rf_step *s) {
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_CONV, s->dst);
    rf_gpu_conv_args *a = &t->args.conv;
    a->cols = cols_of(l, s->dst);
    a->n_taps = weight_of(l, s->w)->cols;
    a->state_stride = l->p->state_floats;
    bind(t, &a->dst, s->dst);
    bind(t, &a->x, s->a);
    bind_at(t, &a->state, rf_gpu_state_item(l->p), s->state_at);
    RF_TRY(use_vector(l, t, &a->w, s->w));
    return use_vector(l, t, &a->bias, s->bias);
}

static rf_status lower_recur(lowering *l, const rf_step *s) {
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_RECUR, s->dst);
    rf_gpu_recur_args *a = &t->args.recur;
    *a = (rf_gpu_recur_args){.state_stride = l->p->state_floats,
                             .n_heads = s->n_heads,
                             .n_kv_heads = s->n_kv_heads,
                             .head_dim = s->head_dim,
                             .value_dim = s->value_dim,
                             .is_delta = s->op == RF_OP_DELTA,
                             .in_turn = s->op == RF_OP_DELTA && s->heads_in_turn,
                             .eps = s->eps / (float)s->head_dim};
    size_t bytes = rf_gpu_ready_bytes(a, l->x->limits.max_tokens);
    if (bytes > l->x->ready_bytes) l->x->ready_bytes = bytes;
    bind(t, &a->dst, s->dst);
    bind(t, &a->a, s->a);
    bind(t, &a->b, s->b);
    bind(t, &a->ready, rf_gpu_ready_item(l->p));
    bind_at(t, &a->state, rf_gpu_state_item(l->p), s->state_at);
    RF_TRY(use_vector(l, t, &a->w, s->w));
    return use_vector(l, t, &a->bias, s->bias);
}

/* Row by row -------------------------------------------------------------------------------------*/

static rf_status lower_norm(lowering *l, const rf_step *s) {
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_NORM, s->dst);
    rf_gpu_norm_args *a = &t->args.norm;
    t->items_per_row = cols_of(l, s->dst) / s->head_dim;
    a->n = s->head_dim;
    a->kind = norm_kind(s);
    a->eps = s->eps;
    bind(t, &a->dst, s->dst);
    bind(t, &a->x, s->a);
    if (t->items_per_row == 1) l->made_by[s->dst] = l->x->n_tasks;
    RF_TRY(use_vector(l, t, &a->w, s->w));
    return use_vector(l, t, &a->b, s->bias);
}

static rf_status lower_rope(lowering *l, const rf_step *s) {
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_HEADS, s->dst);
    rf_gpu_heads *h = add_heads(t, s->a, s->n_heads, s->head_dim);
    bind(t, &h->dst, s->dst);
    set_rope(l, t, h, s->rope);
    return RF_OK;
}

static rf_gpu_task *new_copy(lowering *l, const rf_step *s, uint32_t n_heads, uint32_t n) {
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_COPY, s->dst);
    uint32_t cols = cols_of(l, s->dst);
    t->args.copy =
        (rf_gpu_copy_args){.n_heads = n_heads, .n = n, .dst_row = cols, .dst_head = cols / n_heads};
    return t;
}

static void lower_slice(lowering *l, const rf_step *s) {
    rf_gpu_task *t = new_copy(l, s, s->n_heads, cols_of(l, s->dst) / s->n_heads);
    t->args.copy.src_row = cols_of(l, s->a);
    t->args.copy.src_head = s->head_dim;
    bind(t, &t->args.copy.dst, s->dst);
    bind_at(t, &t->args.copy.src, s->a, s->first);
}

static void lower_concat(lowering *l, const rf_step *s) {
    uint32_t n = cols_of(l, s->dst) / s->n_heads, n_a = s->head_dim;
    rf_gpu_task *t = new_copy(l, s, s->n_heads, n_a);
    t->args.copy.src_row = cols_of(l, s->a);
    t->args.copy.src_head = n_a;
    bind(t, &t->args.copy.dst, s->dst);
    bind(t, &t->args.copy.src, s->a);
    t = new_copy(l, s, s->n_heads, n - n_a);
    t->args.copy.src_row = cols_of(l, s->b);
    t->args.copy.src_head = s->n_kv_heads == 1 ? 0 : n - n_a;
    bind_at(t, &t->args.copy.dst, s->dst, n_a);
    bind(t, &t->args.copy.src, s->b);
}

static void lower_pick(lowering *l, const rf_step *s) {
    rf_gpu_task *t = new_copy(l, s, 1, cols_of(l, s->dst));
    t->picks = true;
    l->x->places[s->dst].picked_of = s->a;
    t->args.copy.src_row = cols_of(l, s->a);
    bind(t, &t->args.copy.dst, s->dst);
    bind(t, &t->args.copy.src, s->a);
}

static rf_status lower_route(lowering *l, const rf_step *s) {
    const rf_router *r = s->router;
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_ROUTE, s->dst);
    rf_gpu_route_args *a = &t->args.route;
    *a = (rf_gpu_route_args){.n_experts = r->n_experts,
                             .n_used = r->n_used,
                             .n_groups = r->n_groups,
                             .n_groups_used = r->n_groups_used,
                             .kind = (uint32_t)r->kind,
                             .normalise = r->normalise,
                             .scale = r->scale};
    bind(t, &a->dst, s->dst);
    bind(t, &a->scores, s->a);
    if (!r->select_bias) return RF_OK;
    uint32_t number;
    RF_TRY(rf_gpu_weights_floats(&l->x->weights, r->select_bias, r->n_experts, &number, l->e));
    use(t, &a->select_bias, number);
    return RF_OK;
}

static void lower_mix(lowering *l, const rf_step *s) {
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_MIX, s->dst);
    rf_gpu_mix_args *a = &t->args.mix;
    rf_val dst = with_sum(l, t, &a->add, s->dst);
    a->n_used = s->router->n_used;
    a->cols = cols_of(l, dst);
    bind(t, &a->dst, dst);
    bind(t, &a->a, s->a);
    bind(t, &a->route, s->b);
}

static void lower_each(lowering *l, const rf_step *s, rf_gpu_each_op op) {
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_EACH, s->dst);
    rf_gpu_each_args *a = &t->args.each;
    a->cols = cols_of(l, s->dst);
    a->repeat = s->b ? a->cols / cols_of(l, s->b) : 1;
    a->op = op;
    a->act = (uint32_t)s->act;
    a->scale = s->op == RF_OP_SOFTCAP ? s->softcap : s->scale;
    bind(t, &a->dst, s->dst);
    bind(t, &a->a, s->a);
    bind(t, &a->b, s->b);
}

/* Does the device read tables of embeddings?  Where its kernel for that is wrong, the host does. */
static bool reads_tables(const rf_exec *x) {
    return !x->backend || !x->backend->queue.left_out[RF_GPU_embed];
}

static rf_status embed_on_device(lowering *l, const rf_step *s, const rf_tensor *table) {
    rf_gpu_task *t = new_task(l, RF_GPU_TASK_EMBED, s->dst);
    rf_gpu_embed_args *a = &t->args.embed;
    uint32_t number;
    RF_TRY(rf_gpu_weights_table(&l->x->weights, table, &number, l->e));
    use(t, &a->table, number);
    a->cols = cols_of(l, s->dst);
    a->source = (uint32_t)s->source;
    bind(t, &a->dst, s->dst);
    return RF_OK;
}

static rf_status lower_embed(lowering *l, const rf_step *s) {
    rf_exec *x = l->x;
    const rf_tensor *w = weight_of(l, s->w);
    if (w && !rf_dtype_get(w->type)->decode)
        return rf_fail(l->e, RF_EUNSUPPORTED,
                       "tensor \"%.*s\": embeddings of type %s cannot be decoded, expected a float "
                       "or quantised type",
                       RF_STR_ARG(w->name), rf_dtype_get(w->type)->name);
    if (w && reads_tables(x)) return embed_on_device(l, s, w);
    x->embeds[x->n_embeds++] = (rf_gpu_embed){.step = s, .table = w, .at = x->embed_bytes};
    x->places[s->dst] = (rf_gpu_place){.used = true, .is_input = true, .at = x->embed_bytes};
    x->embed_bytes += (cols_of(l, s->dst) * sizeof(float) + 63) / 64 * 64;
    return RF_OK;
}

/* All of it --------------------------------------------------------------------------------------*/

static rf_status lower_step(lowering *l, uint32_t i) {
    const rf_step *s = &l->p->steps[i];
    switch (s->op) {
    case RF_OP_EMBED:
        return lower_embed(l, s);
    case RF_OP_RMS_NORM:
    case RF_OP_LAYER_NORM:
        return lower_norm(l, s);
    case RF_OP_MATMUL:
    case RF_OP_HEAD_MATMUL:
    case RF_OP_EXPERTS:
        return lower_product(l, i);
    case RF_OP_ROPE:
        return lower_rope(l, s);
    case RF_OP_KV_PUT:
        return lower_put(l, s);
    case RF_OP_ATTEND:
        return lower_attend(l, i);
    case RF_OP_ACT:
        return lower_each(l, s, RF_GPU_ACT), RF_OK;
    case RF_OP_GLU:
        return lower_each(l, s, RF_GPU_GLU), RF_OK;
    case RF_OP_SCALE:
        return lower_each(l, s, RF_GPU_SCALE), RF_OK;
    case RF_OP_SOFTCAP:
        return lower_each(l, s, RF_GPU_SOFTCAP), RF_OK;
    case RF_OP_ADD:
        return lower_each(l, s, RF_GPU_ADD), RF_OK;
    case RF_OP_MUL:
        return lower_each(l, s, RF_GPU_MUL), RF_OK;
    case RF_OP_SLICE:
        return lower_slice(l, s), RF_OK;
    case RF_OP_CONCAT:
        return lower_concat(l, s), RF_OK;
    case RF_OP_ROUTE:
        return lower_route(l, s);
    case RF_OP_MIX:
        return lower_mix(l, s), RF_OK;
    case RF_OP_PICK:
        return lower_pick(l, s), RF_OK;
    case RF_OP_CONV:
        return lower_conv(l, s);
    case RF_OP_DELTA:
    case RF_OP_SCAN:
        return lower_recur(l, s);
    case RF_OP_COUNT:
        break;
    }
    return rf_fail(l->e, RF_EUNSUPPORTED, "gpu backend: an op number %d that it does not know",
                   (int)s->op);
}

/* A norm whose readers all take its rows in integers writes nothing else. */
static void drop_unread_norms(lowering *l) {
    rf_exec *x = l->x;
    bool *read = l->made; /* not needed any more */
    memset(read, 0, l->p->n_vals * sizeof *read);
    read[l->p->result] = true;
    for (uint32_t i = 0; i < x->n_tasks; i++)
        for (uint32_t k = 0; k < x->tasks[i].n_slots; k++) {
            const rf_gpu_slot *s = &x->tasks[i].slot[k];
            bool is_own = x->tasks[i].kind == RF_GPU_TASK_NORM && k == 0;
            if (s->item < l->p->n_vals && !is_own) read[s->item] = true;
        }
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        rf_gpu_task *t = &x->tasks[i];
        if (t->kind != RF_GPU_TASK_NORM || read[t->slot[0].item]) continue;
        t->n_slots--;
        memmove(t->slot, t->slot + 1, t->n_slots * sizeof *t->slot);
    }
}

/* The one task that reads what norm task t writes, when it is a product's; or NULL. */
static rf_gpu_task *product_behind(const lowering *l, const rf_gpu_task *t) {
    const rf_exec *x = l->x;
    rf_gpu_task *reader = NULL;
    for (rf_gpu_task *r = x->tasks; r < x->tasks + x->n_tasks; r++)
        for (uint32_t k = 0; k < r->n_slots && r != t; k++)
            for (uint32_t i = 0; i < t->n_slots; i++) {
                bool is_input = t->slot[i].at == FIELD(t, &t->args.norm.x);
                if (is_input || r->slot[k].item != t->slot[i].item) continue;
                if (reader && reader != r) return NULL;
                reader = r;
            }
    bool is_plain = reader && reader->kind == RF_GPU_TASK_MATMUL && !reader->args.matmul.norm.n &&
                    reader->args.matmul.mode == RF_GPU_MM_PLAIN;
    return is_plain && reader->per_output == t->per_output ? reader : NULL;
}

/* Adds what task t names, whose arguments are the part of those of `to` that starts at byte `at`.  False:
 * no room. */
static bool add_names(rf_gpu_task *to, const rf_gpu_task *t, uint32_t at) {
    if (to->n_slots + t->n_slots > RF_GPU_MAX_SLOTS || to->n_uses + t->n_uses > RF_GPU_MAX_USES)
        return false;
    for (uint32_t k = 0; k < t->n_slots; k++) {
        to->slot[to->n_slots] = t->slot[k];
        to->slot[to->n_slots++].at += at;
    }
    for (uint32_t k = 0; k < t->n_uses; k++)
        to->use[to->n_uses++] = (rf_gpu_use){t->use[k].number, t->use[k].at + at};
    return true;
}

/* A norm that a product alone reads goes with it: kernels of one row norm it themselves. */
static void absorb_norms(lowering *l) {
    rf_exec *x = l->x;
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        rf_gpu_task *t = &x->tasks[i], *to = NULL;
        if (t->kind == RF_GPU_TASK_NORM && t->items_per_row == 1) to = product_behind(l, t);
        if (to && add_names(to, t, FIELD(to, &to->args.matmul.norm)))
            to->args.matmul.norm = t->args.norm;
        else
            x->tasks[n++] = *t;
    }
    x->n_tasks = n;
}

static const rf_gpu_slot *slot_at(const rf_gpu_task *t, const void *field) {
    for (uint32_t k = 0; k < t->n_slots; k++)
        if (t->slot[k].at == FIELD(t, field)) return &t->slot[k];
    return NULL;
}

/* The first task behind t that names anything that t does, but for the field's; lists of a route are none:
 * where products choose, nothing is made of them. */
static rf_gpu_task *first_reader(const rf_exec *x, const rf_gpu_task *t, const void *but) {
    for (rf_gpu_task *r = x->tasks + (t - x->tasks) + 1; r < x->tasks + x->n_tasks; r++)
        for (uint32_t k = 0; k < r->n_slots && r->kind != RF_GPU_TASK_LISTS; k++)
            for (uint32_t i = 0; i < t->n_slots; i++)
                if (t->slot[i].at != FIELD(t, but) && r->slot[k].item == t->slot[i].item) return r;
    return NULL;
}

/* The product of floats that reads a norm's row first, as a router's: its kernel may norm it, too. */
static void pair_norm(rf_exec *x, rf_gpu_task *t) {
    rf_gpu_task *to = first_reader(x, t, &t->args.norm.x);
    const rf_gpu_slot *dst = slot_at(t, &t->args.norm.dst);
    if (!to || to->kind != RF_GPU_TASK_MATMUL || to->per_output != t->per_output || !dst) return;
    rf_gpu_matmul_args *a = &to->args.matmul;
    const rf_gpu_slot *in = slot_at(to, &a->x);
    if (a->mode != RF_GPU_MM_PLAIN || a->norm.n || slot_at(to, &a->xq) || !in ||
        in->item != dst->item || !add_names(to, t, FIELD(to, &a->norm)))
        return;
    a->norm = t->args.norm;
    to->takes_along = true;
    t->behind = (uint32_t)(to - x->tasks) + 1;
}

/* The product of experts that reads a route first: its blocks may choose themselves. */
static void pair_route(rf_exec *x, rf_gpu_task *t) {
    rf_gpu_task *to = first_reader(x, t, &t->args.route.scores);
    if (!to || to->kind != RF_GPU_TASK_MATMUL || to->args.matmul.mode != RF_GPU_MM_EXPERTS ||
        to->takes_along || !add_names(to, t, FIELD(to, &to->args.choose.route)))
        return;
    to->args.choose.route = t->args.route;
    to->takes_along = true;
    t->behind = (uint32_t)(to - x->tasks) + 1;
}

/* The first task behind t that names the item. */
static rf_gpu_task *reader_of(const rf_exec *x, const rf_gpu_task *t, rf_gpu_item item) {
    for (rf_gpu_task *r = x->tasks + (t - x->tasks) + 1; r < x->tasks + x->n_tasks; r++)
        for (uint32_t k = 0; k < r->n_slots; k++)
            if (r->slot[k].item == item) return r;
    return NULL;
}

/* The product of integers that alone reads what attention makes: attention may leave it in these, too. */
static void pair_attention(rf_exec *x, rf_gpu_task *t) {
    rf_gpu_attend_args *a = &t->args.attend;
    const rf_gpu_slot *dst = slot_at(t, &a->dst);
    rf_gpu_task *to = reader_of(x, t, dst->item);
    if (!to || to->kind != RF_GPU_TASK_MATMUL || to->args.matmul.mode != RF_GPU_MM_PLAIN ||
        to->per_output != t->per_output)
        return;
    const rf_gpu_slot *in = slot_at(to, &to->args.matmul.x), *q = slot_at(to, &to->args.matmul.xq);
    if (!in || in->item != dst->item || !q || t->n_slots == RF_GPU_MAX_SLOTS) return;
    bool is_256 = q->item == rf_gpu_quant_item(x->plan, dst->item, RF_INT_256);
    a->ints_view = is_256 ? 256 : 32;
    t->slot[t->n_slots++] = (rf_gpu_slot){.item = q->item, .at = FIELD(t, &a->ints)};
    to->attention = (uint32_t)(t - x->tasks) + 1;
}

/* Tasks whose work a product behind them may do, too; whether it does is told at each launch. */
static void pair_tasks(rf_exec *x) {
    for (rf_gpu_task *t = x->tasks; t < x->tasks + x->n_tasks; t++) {
        if (t->kind == RF_GPU_TASK_NORM && t->items_per_row == 1) pair_norm(x, t);
        if (t->kind == RF_GPU_TASK_ROUTE) pair_route(x, t);
        if (t->kind == RF_GPU_TASK_ATTEND) pair_attention(x, t);
    }
}

/* The layers' keys and values, in bytes of one block each. */
static rf_status size_kv(rf_exec *x, rf_error *e) {
    const rf_plan *p = x->plan;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const rf_step *s = &p->steps[i];
        if (s->op != RF_OP_KV_PUT) continue;
        rf_gpu_kv *kv = &x->kv[s->layer];
        size_t rows = (size_t)s->n_kv_heads * RF_KV_BLOCK; /* 1024 heads of 640: no overflow */
        kv->k_block = rows * rf_kv_head_bytes(x->limits.k_type, s->head_dim);
        kv->v_block = s->b ? rows * rf_kv_head_bytes(x->limits.v_type, s->value_dim) : 0;
        size_t k, v;
        kv->k_at = x->kv_bytes;
        if (!rf_mul_ok(kv->k_block, x->limits.n_kv_blocks, &k) ||
            !rf_mul_ok(kv->v_block, x->limits.n_kv_blocks, &v) || k > SIZE_MAX / 8 ||
            v > SIZE_MAX / 8 || !rf_add_ok(rf_gpu_align(k), x->kv_bytes, &kv->v_at) ||
            !rf_add_ok(rf_gpu_align(v), kv->v_at, &x->kv_bytes))
            return rf_fail(e, RF_ENOMEM,
                           "the KV cache of the GPU backend: %u blocks of %zu bytes are more than "
                           "can be addressed: ask for a shorter context",
                           x->limits.n_kv_blocks, kv->k_block + kv->v_block);
    }
    return RF_OK;
}

static rf_status size_states(rf_exec *x, rf_error *e) {
    const rf_limits *l = &x->limits;
    RF_TRY(rf_states_check("gpu", x->plan, l, e));
    if (rf_mul_ok(x->plan->state_floats, l->n_states * sizeof(float), &x->state_bytes) &&
        x->state_bytes <= SIZE_MAX / 8)
        return RF_OK;
    return rf_fail(e, RF_ENOMEM,
                   "%u slots of state of %zu numbers are more than can be addressed: ask for fewer "
                   "requests at once",
                   l->n_states, x->plan->state_floats);
}

static rf_status lower_all(lowering *l) {
    rf_plan_count_uses(l->p, l->n_uses, l->producer, l->consumer);
    absorb_attention(l);
    for (uint32_t i = 0; i < l->p->n_steps; i++) {
        if (l->done[i]) continue;
        RF_TRY(lower_step(l, i));
        l->done[i] = true;
        rf_val dst = l->p->steps[i].dst;
        if (dst && !is_product(&l->p->steps[i])) l->made[dst] = true;
    }
    if (l->fuse) {
        drop_unread_norms(l);
        absorb_norms(l);
    }
    pair_tasks(l->x);
    return RF_OK;
}

rf_status rf_gpu_lower(rf_exec *x, rf_error *e) {
    const rf_plan *p = x->plan;
    rf_arena *scratch = NULL;
    if (rf_arena_create(&scratch) != RF_OK) return rf_fail_nomem(e, sizeof(lowering));
    lowering l = {.x = x, .p = p, .e = e, .fuse = !p->opts.keep_values};
    l.n_uses = rf_arena_alloc(scratch, p->n_vals, sizeof *l.n_uses);
    l.producer = rf_arena_alloc(scratch, p->n_vals, sizeof *l.producer);
    l.consumer = rf_arena_alloc(scratch, p->n_vals, sizeof *l.consumer);
    l.made = rf_arena_alloc(scratch, p->n_vals, sizeof *l.made);
    l.made_by = rf_arena_alloc(scratch, p->n_vals, sizeof *l.made_by);
    l.quant_by = rf_arena_alloc(scratch, 3 * (size_t)p->n_vals, sizeof *l.quant_by);
    l.done = rf_arena_alloc(scratch, p->n_steps, sizeof *l.done);
    l.attention = rf_arena_alloc(scratch, p->n_steps, sizeof *l.attention);
    x->tasks = rf_arena_alloc(x->arena, 3 * (size_t)p->n_steps, sizeof *x->tasks);
    x->embeds = rf_arena_alloc(x->arena, p->n_steps, sizeof *x->embeds);
    x->ropes = rf_arena_alloc(x->arena, p->n_steps, sizeof *x->ropes);
    x->kv = rf_arena_alloc(x->arena, p->model->n_layers, sizeof *x->kv);
    x->places = rf_arena_alloc(x->arena, 3 * (size_t)p->n_vals, sizeof *x->places);
    rf_status s = RF_OK;
    if (!l.n_uses || !l.producer || !l.consumer || !l.made || !l.made_by || !l.quant_by ||
        !l.done || !l.attention || !x->tasks || !x->embeds || !x->ropes || !x->kv || !x->places)
        s = rf_fail_nomem(e, 3 * (size_t)p->n_steps * sizeof *x->tasks);
    if (s == RF_OK) s = size_kv(x, e);
    if (s == RF_OK) s = size_states(x, e);
    if (s == RF_OK) s = lower_all(&l);
    rf_arena_free(scratch);
    return s;
}
