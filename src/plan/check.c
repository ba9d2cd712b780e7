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

static bool is_planes(checker *c, rf_val v, uint32_t planes, uint32_t rows, uint32_t cols,
                      const char *what) {
    if (!expect(c, v > 0 && v < c->p->n_vals && value_of(c, v)->weight, what)) return false;
    const rf_tensor *w = value_of(c, v)->weight;
    return expect(c, w->planes == planes && w->rows == rows && w->cols == cols, what);
}

static bool is_weight(checker *c, rf_val v, uint32_t rows, uint32_t cols, const char *what) {
    return is_planes(c, v, 1, rows, cols, what);
}

static bool is_like(checker *c, rf_val v, uint32_t cols, bool per_output, const char *what) {
    const rf_value *val = value_of(c, v);
    return expect(c, val->cols == cols && val->per_output == per_output, what);
}

static void check_embed(checker *c) {
    const rf_step *s = c->s;
    const rf_value *d = value_of(c, s->dst);
    expect(c, !d->per_output, "dst for every row");
    if (s->source == RF_EMBED_ROWS) {
        expect(c, s->w == 0 && d->cols == c->p->model->n_embd, "rows of n_embd, and no table");
        return;
    }
    if (!expect(c, s->w > 0 && s->w < c->p->n_vals && value_of(c, s->w)->weight, "w a table"))
        return;
    uint32_t rows = value_of(c, s->w)->weight->rows;
    if (s->source == RF_EMBED_TOKEN) rows = c->p->model->n_vocab;
    is_weight(c, s->w, rows, d->cols, "w of shape [n_vocab][columns of dst]");
    expect(c, rows > 0 && s->source <= RF_EMBED_FIRST, "a source, and a row of the table");
}

static void check_norm(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before")) return;
    const rf_value *a = value_of(c, s->a);
    is_like(c, s->dst, a->cols, a->per_output, "dst shaped like a");
    expect(c, s->head_dim > 0 && (uint64_t)s->n_heads * s->head_dim == a->cols, "whole heads");
    if (s->w) is_weight(c, s->w, 1, s->head_dim, "w of shape [head_dim]");
    if (s->bias) is_weight(c, s->bias, 1, s->head_dim, "bias of shape [head_dim]");
    expect(c, s->op == RF_OP_LAYER_NORM || !s->bias, "no bias");
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

static void check_head_matmul(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before")) return;
    const rf_value *a = value_of(c, s->a), *d = value_of(c, s->dst);
    if (!expect(c,
                s->n_heads > 0 && (uint64_t)s->n_heads * s->head_dim == a->cols &&
                    d->cols % s->n_heads == 0,
                "whole heads"))
        return;
    is_planes(c, s->w, s->n_heads, d->cols / s->n_heads, s->head_dim,
              "w of shape [n_heads][columns of a head of dst][head_dim]");
    expect(c, d->per_output == a->per_output, "dst with the rows of a");
}

static void check_rope(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before")) return;
    const rf_value *a = value_of(c, s->a);
    is_like(c, s->dst, a->cols, false, "dst shaped like a");
    expect(c, !a->per_output, "a with every row");
    expect(c, s->head_dim > 0 && (uint64_t)s->n_heads * s->head_dim == a->cols, "whole heads");
    if (!expect(c, s->rope != NULL, "a rope")) return;
    expect(c, s->rope->n_dims <= s->head_dim && s->rope->n_dims % 2 == 0 && s->rope->inv_freq,
           "an even number of rotated dimensions within a head");
    expect(c, s->rope->kind == RF_ROPE_NORM || s->rope->kind == RF_ROPE_NEOX, "a kind of rope");
}

static bool has_heads(checker *c) {
    const rf_step *s = c->s;
    return expect(c, s->layer < c->p->model->n_layers, "a layer of the model") &&
           expect(c,
                  s->n_kv_heads > 0 && s->n_heads > 0 && s->n_heads <= RF_MAX_HEADS &&
                      s->n_heads % s->n_kv_heads == 0,
                  "query heads a multiple of KV heads") &&
           expect(c,
                  s->head_dim > 0 && s->head_dim <= RF_MAX_HEAD_DIM && s->value_dim > 0 &&
                      s->value_dim <= RF_MAX_HEAD_DIM,
                  "heads of 1 to 640 columns");
}

static void check_kv_put(checker *c) {
    const rf_step *s = c->s;
    if (!has_heads(c) || !is_act(c, s->a, "a made before")) return;
    is_like(c, s->a, s->n_kv_heads * s->head_dim, false, "a of [T][n_kv_heads * head_dim]");
    if (!s->b)
        expect(c, s->value_dim <= s->head_dim, "values within the keys where there is no b");
    else if (is_act(c, s->b, "b made before"))
        is_like(c, s->b, s->n_kv_heads * s->value_dim, false, "b of [T][n_kv_heads * value_dim]");
    for (uint32_t i = 0; i < c->i; i++)
        expect(c, c->p->steps[i].op != RF_OP_KV_PUT || c->p->steps[i].layer != s->layer,
               "one KV_PUT per layer");
}

static void check_attend(checker *c) {
    const rf_step *s = c->s;
    if (!has_heads(c) || !is_act(c, s->a, "a made before")) return;
    is_like(c, s->a, s->n_heads * s->head_dim, false, "a of [T][n_heads * head_dim]");
    is_like(c, s->dst, s->n_heads * s->value_dim, false, "dst of [T][n_heads * value_dim]");
    if (s->w) is_weight(c, s->w, 1, s->n_heads, "sinks of shape [n_heads]");
    expect(c, s->scale > 0, "scale > 0");
    expect(c, s->softcap >= 0, "softcap >= 0");
    bool put = false;
    for (uint32_t i = 0; i < c->i; i++) {
        const rf_step *o = &c->p->steps[i];
        put = put ||
              (o->op == RF_OP_KV_PUT && o->layer == s->layer && o->n_kv_heads == s->n_kv_heads &&
               o->head_dim == s->head_dim && o->value_dim == s->value_dim);
    }
    expect(c, put, "this layer's KV_PUT before, with the same heads");
}

/* Parts of a slot of state follow each other in the order of their steps. */
static void check_state(checker *c) {
    size_t at = 0;
    for (uint32_t i = 0; i < c->i; i++)
        at += rf_plan_state_of(c->p, &c->p->steps[i]);
    expect(c, c->s->state_at == at, "its state behind that of the steps before");
    at += rf_plan_state_of(c->p, c->s);
    expect(c, at <= c->p->state_floats, "its state within a slot");
}

static void check_conv(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before")) return;
    const rf_value *a = value_of(c, s->a);
    is_like(c, s->a, a->cols, false, "a with every row");
    is_like(c, s->dst, a->cols, false, "dst shaped like a");
    if (s->bias) is_weight(c, s->bias, 1, a->cols, "bias of shape [columns of a]");
    if (!expect(c, s->w > 0 && s->w < c->p->n_vals && value_of(c, s->w)->weight, "w of taps"))
        return;
    uint32_t taps = value_of(c, s->w)->weight->cols;
    is_weight(c, s->w, a->cols, taps, "w of shape [columns of a][taps]");
    if (expect(c, taps >= 1 && taps <= RF_MAX_TAPS, "1 to 16 taps")) check_state(c);
}

/* DELTA and SCAN. */
static void check_delta(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before") || !is_act(c, s->b, "b made before")) return;
    if (!expect(c,
                s->n_kv_heads > 0 && s->n_heads > 0 && s->n_heads <= RF_MAX_HEADS &&
                    s->n_heads % s->n_kv_heads == 0,
                "value heads a multiple of key heads") ||
        !expect(c,
                s->head_dim > 0 && s->head_dim <= RF_MAX_HEAD_DIM && s->value_dim > 0 &&
                    s->value_dim <= RF_MAX_HEAD_DIM,
                "heads of 1 to 640 columns"))
        return;
    uint32_t n_v = s->n_heads * s->value_dim;
    is_like(c, s->a, 2 * s->n_kv_heads * s->head_dim + n_v, false, "a of queries, keys and values");
    uint32_t n_gates = s->op == RF_OP_DELTA ? 2 * s->n_heads : s->n_heads;
    is_like(c, s->b, n_gates, false, "b of one or two gates per head");
    is_like(c, s->dst, n_v, false, "dst of [T][n_heads * value_dim]");
    is_weight(c, s->w, 1, s->n_heads, "w of shape [n_heads]");
    is_weight(c, s->bias, 1, s->n_heads, "bias of shape [n_heads]");
    expect(c, s->op == RF_OP_SCAN || s->eps > 0, "eps > 0");
    check_state(c);
}

static void check_unary(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before")) return;
    const rf_value *a = value_of(c, s->a);
    is_like(c, s->dst, a->cols, a->per_output, "dst shaped like a");
    if (s->op == RF_OP_ACT) expect(c, s->act < RF_ACT_SWIGLU_OAI, "an activation of one operand");
    if (s->op == RF_OP_SOFTCAP) expect(c, s->softcap > 0, "softcap > 0");
}

/* b has a's rows, and columns that divide its own; all of them unless op is MUL. */
static void check_binary(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before") || !is_act(c, s->b, "b made before")) return;
    const rf_value *a = value_of(c, s->a), *b = value_of(c, s->b);
    bool whole = s->op != RF_OP_MUL || (b->cols > 0 && a->cols % b->cols == 0);
    if (expect(c, whole, "columns of b that divide those of a"))
        is_like(c, s->b, s->op == RF_OP_MUL ? b->cols : a->cols, a->per_output, "b shaped like a");
    is_like(c, s->dst, a->cols, a->per_output, "dst shaped like a");
    if (s->op == RF_OP_GLU) expect(c, s->act <= RF_ACT_SWIGLU_OAI, "an activation");
}

static void check_slice(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before")) return;
    const rf_value *a = value_of(c, s->a), *d = value_of(c, s->dst);
    if (!expect(c,
                s->n_heads > 0 && (uint64_t)s->n_heads * s->head_dim == a->cols &&
                    d->cols % s->n_heads == 0,
                "whole heads"))
        return;
    expect(c, (uint64_t)s->first + d->cols / s->n_heads <= s->head_dim, "a slice within a head");
    expect(c, d->per_output == a->per_output, "dst with the rows of a");
}

static void check_concat(checker *c) {
    const rf_step *s = c->s;
    if (!is_act(c, s->a, "a made before") || !is_act(c, s->b, "b made before")) return;
    const rf_value *a = value_of(c, s->a), *b = value_of(c, s->b), *d = value_of(c, s->dst);
    if (!expect(c,
                s->n_heads > 0 && (s->n_kv_heads == 1 || s->n_kv_heads == s->n_heads) &&
                    (uint64_t)s->n_heads * s->head_dim == a->cols && b->cols % s->n_kv_heads == 0,
                "whole heads"))
        return;
    expect(c, d->cols == (uint64_t)s->n_heads * (s->head_dim + b->cols / s->n_kv_heads),
           "dst with the columns of both");
    expect(c, d->per_output == a->per_output && b->per_output == a->per_output,
           "dst and b with the rows of a");
}

static bool has_router(checker *c) {
    const rf_router *r = c->s->router;
    if (!expect(c, r != NULL, "a router")) return false;
    uint32_t n_groups = r->n_groups > 1 ? r->n_groups : 1;
    uint32_t n_open = r->n_groups > 1 ? r->n_groups_used : 1;
    return expect(c,
                  r->n_experts > 0 && r->n_experts <= RF_MAX_EXPERTS && r->n_used > 0 &&
                      r->n_used <= RF_MAX_EXPERTS_USED,
                  "experts within the limits") &&
           expect(c,
                  r->n_experts % n_groups == 0 && n_open > 0 && n_open <= n_groups &&
                      r->n_used <= r->n_experts / n_groups * n_open,
                  "as many experts as are used within the groups used");
}

static void check_route(checker *c) {
    const rf_step *s = c->s;
    if (!has_router(c) || !is_act(c, s->a, "a made before")) return;
    const rf_value *a = value_of(c, s->a);
    expect(c, a->cols == s->router->n_experts, "a score per expert");
    is_like(c, s->dst, 2 * s->router->n_used, a->per_output, "dst of weights and experts");
}

/* b is the dst of a ROUTE by the same router. */
static bool has_route(checker *c) {
    const rf_step *s = c->s;
    if (!has_router(c) || !is_act(c, s->a, "a made before") || !is_act(c, s->b, "b made before"))
        return false;
    const rf_step *maker = &c->p->steps[value_of(c, s->b)->first_step];
    return expect(c, maker->op == RF_OP_ROUTE && maker->router == s->router,
                  "b made by the same router") &&
           expect(c,
                  value_of(c, s->b)->per_output == value_of(c, s->a)->per_output &&
                      value_of(c, s->dst)->per_output == value_of(c, s->a)->per_output,
                  "dst and b with the rows of a");
}

static void check_experts(checker *c) {
    const rf_step *s = c->s;
    if (!has_route(c)) return;
    const rf_router *r = s->router;
    uint32_t n_in = value_of(c, s->a)->cols, n_out = value_of(c, s->dst)->cols / r->n_used;
    if (!expect(c, s->w > 0 && s->w < c->p->n_vals && value_of(c, s->w)->weight, "w of experts"))
        return;
    uint32_t cols = value_of(c, s->w)->weight->cols;
    expect(c, n_in == cols || n_in == (uint64_t)r->n_used * cols, "a of one input or of n_used");
    expect(c, value_of(c, s->dst)->cols == n_out * r->n_used, "an output per expert used");
    is_planes(c, s->w, r->n_experts, n_out, cols, "w of shape [n_experts][outputs][columns]");
    if (s->bias) is_weight(c, s->bias, r->n_experts, n_out, "bias of shape [n_experts][outputs]");
}

static void check_mix(checker *c) {
    const rf_step *s = c->s;
    if (!has_route(c)) return;
    expect(c, value_of(c, s->a)->cols == (uint64_t)s->router->n_used * value_of(c, s->dst)->cols,
           "a of n_used rows of dst");
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
    static void (*const checks[RF_OP_COUNT])(checker *) = {
        [RF_OP_EMBED] = check_embed,
        [RF_OP_RMS_NORM] = check_norm,
        [RF_OP_LAYER_NORM] = check_norm,
        [RF_OP_MATMUL] = check_matmul,
        [RF_OP_HEAD_MATMUL] = check_head_matmul,
        [RF_OP_ROPE] = check_rope,
        [RF_OP_KV_PUT] = check_kv_put,
        [RF_OP_ATTEND] = check_attend,
        [RF_OP_CONV] = check_conv,
        [RF_OP_DELTA] = check_delta,
        [RF_OP_SCAN] = check_delta,
        [RF_OP_ACT] = check_unary,
        [RF_OP_GLU] = check_binary,
        [RF_OP_SCALE] = check_unary,
        [RF_OP_SOFTCAP] = check_unary,
        [RF_OP_ADD] = check_binary,
        [RF_OP_MUL] = check_binary,
        [RF_OP_SLICE] = check_slice,
        [RF_OP_CONCAT] = check_concat,
        [RF_OP_ROUTE] = check_route,
        [RF_OP_EXPERTS] = check_experts,
        [RF_OP_MIX] = check_mix,
        [RF_OP_PICK] = check_pick,
    };
    if (expect(c, checks[c->s->op] != NULL, "an op with a check")) checks[c->s->op](c);
}

/* Do two activations lie on the same floats while both are alive (or kept)? */
static bool collide(const rf_plan *p, const rf_value *a, const rf_value *b) {
    bool together =
        p->opts.keep_values || (a->first_step <= b->last_step && b->first_step <= a->last_step);
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
    const rf_value *result = p->result > 0 && p->result < p->n_vals ? &p->vals[p->result] : NULL;
    if (!result || result->weight || !result->per_output || result->cols != p->n_result)
        return rf_fail(e, RF_EARG, "the plan's result is value %u, expected [n_outputs][%u]",
                       p->result, p->n_result);
    return check_memory(p, e);
}
