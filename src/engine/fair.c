/* fair.c - counts per flow. */
#include "engine/fair.h"

void rf_fair_free(rf_fair *f) {
    rf_free(f->flows);
    *f = (rf_fair){0};
}

/* A flow without requests whose place another may take: nothing is lost where its count is not above
 * the floor, to which it would be lifted; else, of many, the one that used least is forgotten. */
static uint32_t find_unused(const rf_fair *f) {
    uint32_t best = f->n_flows;
    for (uint32_t i = 0; i < f->n_flows; i++)
        if (f->flows[i].n_live == 0 &&
            (best == f->n_flows || f->flows[i].count < f->flows[best].count))
            best = i;
    if (best < f->n_flows && f->flows[best].count > f->floor && f->n_flows < RF_FAIR_REMEMBERED)
        best = f->n_flows;
    return best;
}

static rf_status find(rf_fair *f, uint64_t id, uint32_t *out) {
    for (*out = 0; *out < f->n_flows; (*out)++)
        if (f->flows[*out].id == id) return RF_OK;
    *out = find_unused(f);
    if (*out == f->cap) {
        uint32_t cap = f->cap ? f->cap * 2 : 8;
        rf_fair_flow *flows =
            cap > f->cap ? rf_realloc(f->flows, f->cap, cap, sizeof *flows) : NULL;
        if (!flows) return RF_ENOMEM;
        f->flows = flows;
        f->cap = cap;
    }
    if (*out == f->n_flows) f->n_flows++;
    f->flows[*out] = (rf_fair_flow){.id = id};
    return RF_OK;
}

rf_status rf_fair_join(rf_fair *f, uint64_t id, uint32_t weight, int priority,
                       rf_fair_ticket *out) {
    RF_ASSERT(weight >= 1 && weight <= RF_FAIR_MAX_WEIGHT);
    RF_ASSERT(priority >= -RF_FAIR_MAX_PRIORITY && priority <= RF_FAIR_MAX_PRIORITY);
    RF_TRY(find(f, id, &out->flow));
    rf_fair_flow *w = &f->flows[out->flow];
    w->weight = weight;
    w->n_live++;
    if (w->count < f->floor) w->count = f->floor;
    out->number = w->n_joined++;
    out->place = (int64_t)out->number + (int64_t)priority * RF_FAIR_HEAD_START;
    return RF_OK;
}

bool rf_fair_before(const rf_fair *f, rf_fair_ticket a, rf_fair_ticket b) {
    uint64_t count_a = f->flows[a.flow].count, count_b = f->flows[b.flow].count;
    if (count_a != count_b) return count_a < count_b;
    if (a.flow != b.flow) return a.flow < b.flow;
    return a.place != b.place ? a.place < b.place : a.number < b.number;
}

void rf_fair_start(rf_fair *f, rf_fair_ticket t, uint32_t n_tokens) {
    if (f->flows[t.flow].count > f->floor) f->floor = f->flows[t.flow].count;
    rf_fair_charge(f, t, n_tokens);
}

void rf_fair_charge(rf_fair *f, rf_fair_ticket t, uint32_t n_tokens) {
    rf_fair_flow *w = &f->flows[t.flow];
    w->count += n_tokens * RF_FAIR_TOKEN / w->weight;
}

void rf_fair_leave(rf_fair *f, rf_fair_ticket t) {
    RF_ASSERT(f->flows[t.flow].n_live > 0);
    f->flows[t.flow].n_live--;
}
