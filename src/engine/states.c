/* states.c - a stack of free slots, and a list of snapshots that is searched from end to end: there are
 * only a few for each sequence that runs. */
#include "engine/states.h"

typedef struct snapshot {
    uint64_t name; /* 0: blank */
    uint64_t used; /* when, counted in uses */
} snapshot;

struct rf_states {
    uint32_t n_running, n_snapshots, n_free;
    uint32_t *free;      /* [n_free] of n_running */
    snapshot *snapshots; /* [n_snapshots] in slots n_running + i */
    uint64_t n_uses;
};

rf_status rf_states_create(rf_states **out, uint32_t n_running, uint32_t n_snapshots) {
    *out = NULL;
    if (n_running == 0 || n_snapshots == 0 || n_snapshots >= RF_NO_STATE - n_running)
        return RF_EARG;
    rf_states *st = rf_alloc(1, sizeof *st);
    if (!st) return RF_ENOMEM;
    st->n_running = n_running;
    st->n_snapshots = n_snapshots;
    st->free = rf_alloc(n_running, sizeof *st->free);
    st->snapshots = rf_alloc(n_snapshots, sizeof *st->snapshots);
    if (!st->free || !st->snapshots) {
        rf_states_free(st);
        return RF_ENOMEM;
    }
    while (st->n_free < n_running) {
        st->free[st->n_free] = n_running - 1 - st->n_free; /* slot 0 goes first */
        st->n_free++;
    }
    *out = st;
    return RF_OK;
}

void rf_states_free(rf_states *st) {
    if (!st) return;
    rf_free(st->free);
    rf_free(st->snapshots);
    rf_free(st);
}

void rf_states_take(rf_states *st, rf_stateful *s) {
    RF_ASSERT(st->n_free > 0);
    *s = (rf_stateful){.slot = st->free[--st->n_free], .from = RF_NO_STATE};
}

void rf_states_give(rf_states *st, rf_stateful *s) {
    if (s->slot == RF_NO_STATE) return;
    RF_ASSERT(s->slot < st->n_running && st->n_free < st->n_running);
    st->free[st->n_free++] = s->slot;
    s->slot = RF_NO_STATE;
}

/* NULL: none. */
static snapshot *by_name(const rf_states *st, uint64_t name) {
    for (uint32_t i = 0; name && i < st->n_snapshots; i++)
        if (st->snapshots[i].name == name) return &st->snapshots[i];
    return NULL;
}

static uint32_t use(rf_states *st, snapshot *s) {
    s->used = ++st->n_uses;
    return st->n_running + (uint32_t)(s - st->snapshots);
}

uint32_t rf_states_find(rf_states *st, uint64_t name) {
    snapshot *s = by_name(st, name);
    return s ? use(st, s) : RF_NO_STATE;
}

/* A blank one, else the least recently used. */
static snapshot *oldest(rf_states *st) {
    snapshot *least = st->snapshots;
    for (uint32_t i = 1; i < st->n_snapshots; i++)
        if (st->snapshots[i].used < least->used) least = &st->snapshots[i];
    return least;
}

static bool is_mark(const rf_stateful *s, uint32_t n_done) {
    return s->mark[0] == n_done || s->mark[1] == n_done;
}

uint32_t rf_states_keep(rf_states *st, rf_stateful *s, uint64_t name, uint32_t n_done) {
    RF_ASSERT(name != 0);
    snapshot *into = by_name(st, s->moving);
    if (rf_states_find(st, name) != RF_NO_STATE) {
        if (into && into->name != name) *into = (snapshot){0};
        if (s->moving != name) s->moving = 0; /* it is another sequence's */
        return RF_NO_STATE;
    }
    s->moving = is_mark(s, n_done) ? 0 : name;
    if (!into) into = oldest(st);
    into->name = name;
    return use(st, into);
}

void rf_states_forget(rf_states *st, uint64_t name) {
    snapshot *s = by_name(st, name);
    if (s) *s = (snapshot){0};
}

void rf_states_forget_all(rf_states *st) {
    for (uint32_t i = 0; i < st->n_snapshots; i++)
        st->snapshots[i] = (snapshot){0};
}

uint32_t rf_states_to_mark(const rf_stateful *s, uint32_t n_done) {
    uint32_t next = 0;
    for (size_t i = 0; i < RF_COUNT(s->mark); i++)
        if (s->mark[i] > n_done && (next == 0 || s->mark[i] < next)) next = s->mark[i];
    return next ? next - n_done : 0;
}

bool rf_states_consistent(const rf_states *st, const rf_stateful *const *seqs, size_t n_seqs) {
    uint32_t *seen = rf_alloc(st->n_running, sizeof *seen), n = st->n_free;
    bool ok = seen != NULL;
    for (uint32_t i = 0; ok && i < st->n_free; i++)
        ok = st->free[i] < st->n_running && seen[st->free[i]]++ == 0;
    for (size_t i = 0; ok && i < n_seqs; i++) {
        if (seqs[i]->slot == RF_NO_STATE) continue;
        ok = seqs[i]->slot < st->n_running && seen[seqs[i]->slot]++ == 0;
        n++;
    }
    for (uint32_t i = 0; ok && i < st->n_snapshots; i++)
        ok = !st->snapshots[i].name || by_name(st, st->snapshots[i].name) == &st->snapshots[i];
    rf_free(seen);
    return ok && n == st->n_running;
}
