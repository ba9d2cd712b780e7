/* print.c - a plan as text, one step a line, for people and for tests that compare shapes. */
#include "plan/internal.h"

static void print_value(const rf_plan *p, rf_buf *out, rf_val v) {
    const rf_value *val = &p->vals[v];
    if (val->weight)
        rf_buf_printf(out, " %.*s:%s[%u][%u]", RF_STR_ARG(val->weight->name),
                      rf_dtype_get(val->weight->type)->name, val->weight->rows, val->weight->cols);
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
    case RF_ATTN_GLOBAL_LOCAL:
        rf_buf_printf(out, " global_local(%u, %u)", a->n_global, a->window);
        break;
    case RF_ATTN_CUSTOM:
        rf_buf_puts(out, " custom");
        break;
    }
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
    if (s->op == RF_OP_KV_PUT || s->op == RF_OP_ATTEND) rf_buf_printf(out, " layer %u", s->layer);
    if (s->op == RF_OP_ATTEND) {
        rf_buf_printf(out, " %u/%u heads of %u", s->n_heads, s->n_kv_heads, s->head_dim);
        print_pattern(out, &s->pattern);
    } else if (s->n_heads > 1) {
        rf_buf_printf(out, " %u heads of %u", s->n_heads, s->head_dim);
    }
    rf_buf_putc(out, '\n');
}

void rf_plan_print(const rf_plan *p, rf_buf *out) {
    for (uint32_t i = 0; i < p->n_steps; i++) {
        rf_buf_printf(out, "%4u  ", i);
        print_step(p, out, &p->steps[i]);
    }
    rf_buf_printf(out, "%u steps, %zu floats of activations per row\n", p->n_steps,
                  p->floats_per_token);
}
