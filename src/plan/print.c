/* print.c - a plan as text, one step a line, for people and for tests that compare shapes. */
#include "plan/internal.h"

static void print_weight(rf_buf *out, const rf_tensor *w) {
    rf_buf_printf(out, " %.*s:%s", RF_STR_ARG(w->name), rf_dtype_get(w->type)->name);
    if (w->planes != 1) rf_buf_printf(out, "[%u]", w->planes);
    rf_buf_printf(out, "[%u][%u]", w->rows, w->cols);
}

static void print_value(const rf_plan *p, rf_buf *out, rf_val v) {
    const rf_value *val = &p->vals[v];
    if (val->weight)
        print_weight(out, val->weight);
    else
        rf_buf_printf(out, " %%%u", v);
}

static void print_pattern(rf_buf *out, const rf_attn_pattern *a) {
    switch (a->kind) {
    case RF_ATTN_CAUSAL:
        rf_buf_puts(out, " causal");
        break;
    case RF_ATTN_BIDIRECTIONAL:
        rf_buf_puts(out, " bidirectional");
        break;
    case RF_ATTN_LOCAL:
        rf_buf_printf(out, " local(%u)", a->window);
        break;
    case RF_ATTN_LOCAL_BOTH:
        rf_buf_printf(out, " local_both(%u)", a->window);
        break;
    case RF_ATTN_GLOBAL_LOCAL:
        rf_buf_printf(out, " global_local(%u, %u)", a->n_global, a->window);
        break;
    case RF_ATTN_PREFIX:
        rf_buf_puts(out, " prefix");
        break;
    case RF_ATTN_CUSTOM:
        rf_buf_puts(out, " custom");
        break;
    }
}

static void print_attend(rf_buf *out, const rf_step *s) {
    rf_buf_printf(out, " %u/%u heads of %u", s->n_heads, s->n_kv_heads, s->head_dim);
    if (s->value_dim != s->head_dim) rf_buf_printf(out, " with values of %u", s->value_dim);
    print_pattern(out, &s->pattern);
    rf_buf_printf(out, " scale %g", (double)s->scale);
    if (s->softcap > 0) rf_buf_printf(out, " softcap %g", (double)s->softcap);
}

static void print_delta(rf_buf *out, const rf_step *s) {
    rf_buf_printf(out, " %u/%u heads of %u with values of %u%s", s->n_heads, s->n_kv_heads,
                  s->head_dim, s->value_dim, s->heads_in_turn ? " in turn" : "");
}

static void print_router(rf_buf *out, const rf_router *r) {
    static const char *const kinds[] = {"softmax", "softmax_topk", "sigmoid"};
    rf_buf_printf(out, " %s %u of %u", kinds[r->kind], r->n_used, r->n_experts);
    if (r->n_groups > 1) rf_buf_printf(out, " in %u of %u groups", r->n_groups_used, r->n_groups);
    if (r->select_bias) rf_buf_puts(out, " biased");
    if (r->normalise) rf_buf_puts(out, " normalised");
    if (r->scale != 1) rf_buf_printf(out, " scale %g", (double)r->scale);
}

/* What only some ops have. */
static void print_details(rf_buf *out, const rf_step *s) {
    static const char *const sources[] = {"token", "position", "first", "batch"};
    static const char *const acts[] = {"silu",  "gelu",    "gelu_tanh", "relu",
                                       "relu2", "sigmoid", "swiglu_oai"};
    if (s->op == RF_OP_EMBED && s->source != RF_EMBED_TOKEN)
        rf_buf_printf(out, " by %s", sources[s->source]);
    if (s->op == RF_OP_KV_PUT || s->op == RF_OP_ATTEND) rf_buf_printf(out, " layer %u", s->layer);
    if (s->op == RF_OP_ATTEND)
        print_attend(out, s);
    else if (s->op == RF_OP_DELTA || s->op == RF_OP_SCAN)
        print_delta(out, s);
    else if (s->n_heads > 1)
        rf_buf_printf(out, " %u heads of %u", s->n_heads, s->head_dim);
    if (s->op == RF_OP_ACT || s->op == RF_OP_GLU) rf_buf_printf(out, " %s", acts[s->act]);
    if (s->op == RF_OP_SCALE) rf_buf_printf(out, " by %g", (double)s->scale);
    if (s->op == RF_OP_SOFTCAP) rf_buf_printf(out, " at %g", (double)s->softcap);
    if (s->op == RF_OP_SLICE) rf_buf_printf(out, " from %u", s->first);
    if (s->op == RF_OP_ROUTE) print_router(out, s->router);
}

static void print_step(const rf_plan *p, rf_buf *out, const rf_step *s) {
    if (s->dst) {
        const rf_value *d = &p->vals[s->dst];
        rf_buf_printf(out, "%%%u[%s][%u] = ", s->dst, d->per_output ? "O" : "T", d->cols);
    }
    rf_buf_puts(out, rf_op_name(s->op));
    const rf_val read[] = {s->a, s->b, s->w, s->bias};
    for (size_t i = 0; i < RF_COUNT(read); i++)
        if (read[i]) print_value(p, out, read[i]);
    print_details(out, s);
    rf_buf_putc(out, '\n');
}

void rf_plan_print(const rf_plan *p, rf_buf *out) {
    for (uint32_t i = 0; i < p->n_steps; i++) {
        rf_buf_printf(out, "%4u  ", i);
        print_step(p, out, &p->steps[i]);
    }
    rf_buf_printf(out, "%u steps, %zu floats of activations per row", p->n_steps,
                  p->floats_per_token);
    if (p->state_floats) rf_buf_printf(out, ", %zu of state per sequence", p->state_floats);
    rf_buf_putc(out, '\n');
}
