/* check.c - does a sealed plan hold together?
 *
 * Reads the plan as a backend would and believes nothing: every operand is defined before its
 * use and has the shape its op needs, every value is made once, and no two values that live at
 * the same time share memory.  A plan that passes can be run without further checks. */
#include "plan/internal.h"

typedef struct checker {
    const rf_plan *p;
    uint32_t i; /* step under check */
    const rf_step *s;
    rf_error *e;
    rf_status status;
} checker;

static bool expect(checker *c, bool ok, const char *what) {
    if (!ok && c->status == RF_OK)
        c->status =
            rf_fail(c->e, RF_EARG, "plan step %u, %s: expected %s", c->i,
                    (unsigned)c->s->op < RF_OP_COUNT ? rf_op_name(c->s->op) : "unknown op", what);
    return ok;
}

static const rf_value *value_of(const checker *c, rf_val v) { return &c->p->vals[v]; }

static bool is_act(checker *c, rf_val v, const char *what) {
    return expect(c,
                  v > 0 && v < c->p->n_vals && !value_of(c, v)->weight &&
                      value_of(c, v)->first_step < c->i && value_of(c, v)->last_step >= c->i,
                  what);
}

static bool is_weight(checker *c, rf_val v, uint32_t rows, uint32_t cols, const char *what) {
    if (!expect(c, v > 0 && v < c->p->n_vals && value_of(c, v)->weight, what)) return false;
    const rf_tensor *w = value_of(c, v)->weight;
    return expect(c, w->planes == 1 && w->rows == rows && w->cols == cols, what);
}

static bool is_like(checker *c, rf_val v, uint32_t cols, bool per_output, const char *what) {
    const rf_value *val = value_of(c, v);
    return expect(c, val->cols == cols && val->per_output == per_output, what);
}

static void check_embed(checker *c) {
    uint32_t cols = value_of(c, c->s->dst)->cols;
    is_weight(c, c->s->w, c->p->model->n_vocab, cols, "w of shape [n_vocab][columns of dst]");
    expect(c, !value_of(c, c->s->dst)->per_output, "dst for every row");
}

static void check_norm(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before")) return;
    const rf_value *a = value_of(c, s->a);
    is_like(c, s->dst, a->cols, a->per_output, "dst shaped like a");
    expect(c, (uint64_t)s->n_heads * s->head_dim == a->cols, "whole heads");
    is_weight(c, s->w, 1, s->head_dim, "w of shape [head_dim]");
    expect(c, s->eps > 0, "eps > 0");
}

static void check_matmul(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before")) return;
    const rf_value *a = value_of(c, s->a), *d = value_of(c, s->dst);
    is_weight(c, s->w, d->cols, a->cols, "w of shape [columns of dst][columns of a]");
    if (s->bias) is_weight(c, s->bias, 1, d->cols, "bias of shape [columns of dst]");
    expect(c, d->per_output == a->per_output, "dst with the rows of a");
}

static void check_rope(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before")) return;
    const rf_value *a = value_of(c, s->a);
    is_like(c, s->dst, a->cols, false, "dst shaped like a");
    expect(c, !a->per_output, "a with every row");
    expect(c, (uint64_t)s->n_heads * s->head_dim == a->cols, "whole heads");
    if (!expect(c, s->rope != NULL, "a rope")) return;
    expect(c, s->rope->n_dims <= s->head_dim && s->rope->n_dims % 2 == 0 && s->rope->inv_freq,
           "an even number of rotated dimensions within a head");
    expect(c, s->rope->kind == RF_ROPE_NORM || s->rope->kind == RF_ROPE_NEOX, "a kind of rope");
}

static bool has_heads(checker *c) {
    const rf_step *s = c->s;
    return expect(c, s->layer < c->p->model->n_layers, "a layer of the model") &&
           expect(c, s->n_kv_heads > 0 && s->n_heads > 0 && s->n_heads % s->n_kv_heads == 0,
                  "query heads a multiple of KV heads") &&
           expect(c,
                  s->head_dim > 0 && s->head_dim <= RF_MAX_HEAD_DIM &&
                      (uint64_t)s->n_kv_heads * s->head_dim ==
                          (uint64_t)c->p->model->n_kv_heads * c->p->model->head_dim,
                  "the model's KV heads, of at most 512 each");
}

static void check_kv_put(checker *c) {
    const rf_step *s = c->s;
    if (!has_heads(c) || !is_act(c, s->a, "a made before") || !is_act(c, s->b, "b made before"))
        return;
    uint32_t cols = s->n_kv_heads * s->head_dim;
    is_like(c, s->a, cols, false, "a of [T][n_kv_heads * head_dim]");
    is_like(c, s->b, cols, false, "b of [T][n_kv_heads * head_dim]");
    for (uint32_t i = 0; i < c->i; i++)
        expect(c, c->p->steps[i].op != RF_OP_KV_PUT || c->p->steps[i].layer != s->layer,
               "one KV_PUT per layer");
}

static void check_attend(checker *c) {
    const rf_step *s = c->s;
    if (!has_heads(c) || !is_act(c, s->a, "a made before")) return;
    is_like(c, s->a, s->n_heads * s->head_dim, false, "a of [T][n_heads * head_dim]");
    is_like(c, s->dst, s->n_heads * s->head_dim, false, "dst shaped like a");
    expect(c, s->scale > 0, "scale > 0");
    bool put = false;
    for (uint32_t i = 0; i < c->i; i++) {
        const rf_step *o = &c->p->steps[i];
        put = put || (o->op == RF_OP_KV_PUT && o->layer == s->layer &&
                      o->n_kv_heads == s->n_kv_heads && o->head_dim == s->head_dim);
    }
    expect(c, put, "this layer's KV_PUT before, with the same heads");
}

static void check_binary(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before") || !is_act(c, s->b, "b made before")) return;
    const rf_value *a = value_of(c, s->a);
    is_like(c, s->b, a->cols, a->per_output, "b shaped like a");
    is_like(c, s->dst, a->cols, a->per_output, "dst shaped like a");
}

static void check_pick(checker *c) {
    if (!is_act(c, c->s->a, "a made before")) return;
    expect(c, !value_of(c, c->s->a)->per_output, "a with every row");
    is_like(c, c->s->dst, value_of(c, c->s->a)->cols, true, "dst with a's columns, for outputs");
}

static void check_dst(checker *c) {
    rf_val v = c->s->dst;
    if (c->s->op == RF_OP_KV_PUT) {
        expect(c, v == 0, "no dst");
        return;
    }
    if (!expect(c, v > 0 && v < c->p->n_vals && !value_of(c, v)->weight, "a dst")) return;
    const rf_value *d = value_of(c, v);
    expect(c, d->first_step == c->i && d->last_step >= c->i, "a dst whose life starts here");
    expect(c, d->cols > 0, "a dst with columns");
}

static void check_step(checker *c) {
    if (!expect(c, (unsigned)c->s->op < RF_OP_COUNT, "an op")) return;
    check_dst(c);
    if (c->status != RF_OK) return;
    switch (c->s->op) {
    case RF_OP_EMBED:
        check_embed(c);
        break;
    case RF_OP_RMS_NORM:
        check_norm(c);
        break;
    case RF_OP_MATMUL:
        check_matmul(c);
        break;
    case RF_OP_ROPE:
        check_rope(c);
        break;
    case RF_OP_KV_PUT:
        check_kv_put(c);
        break;
    case RF_OP_ATTEND:
        check_attend(c);
        break;
    case RF_OP_SILU_MUL:
    case RF_OP_ADD:
        check_binary(c);
        break;
    case RF_OP_PICK:
        check_pick(c);
        break;
    case RF_OP_COUNT:
        break;
    }
}

/* Do two activations lie on the same floats while both are alive (or kept)? */
static bool collide(const rf_plan *p, const rf_value *a, const rf_value *b) {
    bool together =
        p->keep_values || (a->first_step <= b->last_step && b->first_step <= a->last_step);
    return together && a->offset < b->offset + b->cols && b->offset < a->offset + a->cols;
}

static rf_status check_memory(const rf_plan *p, rf_error *e) {
    for (rf_val v = 1; v < p->n_vals; v++) {
        const rf_value *a = &p->vals[v];
        if (a->weight) continue;
        size_t end = 0;
        if (!rf_add_ok(a->offset, a->cols, &end) || end > p->floats_per_token)
            return rf_fail(e, RF_EARG, "plan value %u ends at float %zu, expected within %zu", v,
                           end, p->floats_per_token);
        for (rf_val u = 1; u < v; u++)
            if (!p->vals[u].weight && collide(p, a, &p->vals[u]))
                return rf_fail(e, RF_EARG,
                               "plan values %u (offset %zu) and %u (offset %zu) share memory while "
                               "both are alive",
                               u, p->vals[u].offset, v, a->offset);
    }
    return RF_OK;
}

rf_status rf_plan_check(const rf_plan *p, rf_error *e) {
    checker c = {.p = p, .e = e};
    for (; c.i < p->n_steps && c.status == RF_OK; c.i++) {
        c.s = &p->steps[c.i];
        check_step(&c);
    }
    if (c.status != RF_OK) return c.status;
    for (rf_val v = 1; v < p->n_vals; v++)
        if (!p->vals[v].weight &&
            (p->vals[v].first_step >= p->n_steps || p->steps[p->vals[v].first_step].dst != v))
            return rf_fail(e, RF_EARG, "plan value %u is made by no step", v);
    const rf_value *logits = p->logits > 0 && p->logits < p->n_vals ? &p->vals[p->logits] : NULL;
    if (!logits || logits->weight || !logits->per_output || logits->cols != p->model->n_vocab)
        return rf_fail(e, RF_EARG, "the plan's logits are value %u, expected [n_outputs][%u]",
                       p->logits, p->model->n_vocab);
    return check_memory(p, e);
}
