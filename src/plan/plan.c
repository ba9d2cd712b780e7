/* plan.c - the names of ops, and a plan's life: created empty, filled by its architecture's builder
 * (emit.c), sealed and checked.  Everything a plan owns lies in its arena. */
#include "plan/plan.h"

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

rf_status rf_plan_create(rf_plan **out, const rf_model *m, const rf_plan_opts *opts, rf_error *e) {
    *out = NULL;
    rf_arena *arena = NULL;
    if (rf_arena_create(&arena) != RF_OK) return rf_fail_nomem(e, sizeof(rf_plan));
    rf_plan *p = rf_arena_alloc(arena, 1, sizeof *p);
    if (!p) {
        rf_arena_free(arena);
        return rf_fail_nomem(e, sizeof *p);
    }
    *p = (rf_plan){.model = m, .arena = arena};
    if (opts) p->opts = *opts;
    p->first_layer = p->opts.first_layer;
    p->end_layer = p->opts.n_layers ? p->first_layer + p->opts.n_layers : m->n_layers;
    p->n_result = p->opts.embeddings || p->end_layer < m->n_layers ? m->n_embd : m->n_vocab;
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

static rf_status check_layers(const rf_model *m, const rf_plan_opts *o, rf_error *e) {
    if (o->first_layer == 0 && o->n_layers == 0) return RF_OK;
    if (o->first_layer >= m->n_layers || o->n_layers > m->n_layers - o->first_layer)
        return rf_fail(e, RF_EARG, "a plan for %u layers from layer %u on, but the model has %u",
                       o->n_layers, o->first_layer, m->n_layers);
    if (!m->arch->encoder) return RF_OK;
    return rf_fail(e, RF_EUNSUPPORTED, "%s models are encoders, whose layers stay together",
                   m->arch->name);
}

rf_status rf_plan_build(rf_plan **out, const rf_model *m, const rf_plan_opts *opts, rf_error *e) {
    *out = NULL;
    rf_plan *p = NULL;
    if (opts) RF_TRY(check_layers(m, opts, e));
    RF_TRY(rf_plan_create(&p, m, opts, e));
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

size_t rf_plan_state_of(const rf_plan *p, const rf_step *s) {
    if (s->op == RF_OP_DELTA || s->op == RF_OP_SCAN)
        return (size_t)s->n_heads * s->head_dim * s->value_dim;
    if (s->op != RF_OP_CONV) return 0;
    const rf_tensor *w = p->vals[s->w].weight;
    return (size_t)(w->cols - 1) * w->rows;
}

void rf_plan_count_uses(const rf_plan *p, uint32_t *n_uses, uint32_t *producer,
                        uint32_t *consumer) {
    memset(producer, 0xFF, p->n_vals * sizeof *producer);
    memset(consumer, 0xFF, p->n_vals * sizeof *consumer);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const rf_step *s = &p->steps[i];
        if (s->dst) producer[s->dst] = i;
        const rf_val in[2] = {s->a, s->b};
        for (int k = 0; k < 2; k++) {
            if (!in[k]) continue;
            n_uses[in[k]]++;
            consumer[in[k]] = i;
        }
    }
}

uint64_t rf_plan_weight_bytes(const rf_plan *p) {
    uint64_t n = 0;
    for (rf_val v = 1; v < p->n_vals; v++) {
        const rf_tensor *w = p->vals[v].weight;
        if (w) n += (uint64_t)w->row_bytes * w->rows * w->planes;
    }
    return n;
}
