/* seal.c - when each value lives and where in the one activation buffer it lies.
 *
 * A value lives from the step that makes it to the last one that reads it; two values share
 * memory only when those stretches do not touch, so no step ever reads what it writes.  Places
 * are found first-fit in order of birth.  The result lies alone at the end of the buffer, so that
 * a backend may give them rows for outputs only. */
#include "plan/internal.h"

enum { ALIGN_FLOATS = 16 }; /* places are whole cache lines: n * 64 bytes per row of the buffer */

static void touch(rf_plan *p, rf_val v, uint32_t step) {
    if (v != 0) p->vals[v].last_step = step;
}

static void find_lifetimes(rf_plan *p) {
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const rf_step *s = &p->steps[i];
        if (s->dst) p->vals[s->dst].first_step = i;
        touch(p, s->dst, i);
        touch(p, s->a, i);
        touch(p, s->b, i);
        touch(p, s->w, i);
        touch(p, s->bias, i);
    }
    for (rf_val v = 1; v < p->n_vals;
         v++) /* constants, and the result, are there for the whole run */
        if (p->vals[v].weight || v == p->result) p->vals[v].last_step = p->n_steps - 1;
}

static size_t floats_of(const rf_value *v) {
    return ((size_t)v->cols + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
}

/* The activations alive at one step, by offset.  At most a dozen in any decoder. */
typedef struct live_set {
    rf_val *v; /* [n], room for n_vals */
    uint32_t n;
} live_set;

static void drop_dead(const rf_plan *p, live_set *live, uint32_t step) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < live->n; i++)
        if (p->vals[live->v[i]].last_step >= step) live->v[n++] = live->v[i];
    live->n = n;
}

/* Puts v into the lowest gap that holds it. */
static void place(rf_plan *p, live_set *live, rf_val v) {
    size_t offset = 0;
    uint32_t at = 0;
    for (; at < live->n; at++) {
        const rf_value *other = &p->vals[live->v[at]];
        if (offset + floats_of(&p->vals[v]) <= other->offset) break;
        offset = other->offset + floats_of(other);
    }
    for (uint32_t i = live->n; i > at; i--)
        live->v[i] = live->v[i - 1];
    live->v[at] = v;
    live->n++;
    p->vals[v].offset = offset;
    size_t end = offset + floats_of(&p->vals[v]);
    if (end > p->floats_per_token) p->floats_per_token = end;
}

rf_status rf_plan_seal(rf_plan *p, rf_error *e) {
    if (p->n_steps == 0)
        return rf_fail(e, RF_EARG, "the plan has no steps, expected a forward pass");
    find_lifetimes(p);
    live_set live = {.v = rf_alloc(p->n_vals, sizeof(rf_val))};
    if (!live.v) return rf_fail_nomem(e, p->n_vals * sizeof(rf_val));
    p->floats_per_token = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        rf_val v = p->steps[i].dst;
        if (!p->opts.keep_values) drop_dead(p, &live, i);
        if (v != 0 && v != p->result) place(p, &live, v);
    }
    if (p->result) {
        p->vals[p->result].offset = p->floats_per_token;
        p->floats_per_token += floats_of(&p->vals[p->result]);
    }
    rf_free(live.v);
    return RF_OK;
}
