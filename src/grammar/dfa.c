/* dfa.c - subsets of an rf_nfa's states become the states of an rf_dfa; products of two of them.
 *
 * Every subset element that is looked at counts as work, and work is limited. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "grammar/nfa_internal.h"

void rf_dfa_free(rf_dfa *d) {
    rf_free(d->state);
    rf_free(d->edge);
    rf_free(d->call);
    *d = (rf_dfa){0};
}

typedef struct subset {
    uint32_t *p; /* rising */
    uint32_t n;
} subset;

typedef struct subsets { /* one run of the construction */
    rf_nfa *nfa;
    rf_dfa *d;
    rf_arena *arena; /* the subsets */
    rf_map *map;     /* bytes of a subset -> state - base */
    uint32_t base;   /* first state of this automaton in d */
    subset *of;      /* [cap_of] of state base + i */
    size_t cap_of;
    uint32_t *stack, *seen; /* [n_states]; seen holds the stamp of the closure it was met in */
    uint32_t stamp, n_stack;
    rf_nfa_edge *calls; /* [call edges of nfa] room for those of one subset */
} subsets;

static rf_status fail_nomem(const subsets *b, size_t bytes) {
    return rf_fail_nomem(b->nfa->job->rules->e, bytes);
}

static rf_status too_large(const subsets *b, const char *what) {
    return rf_fail(b->nfa->job->rules->e, RF_EUNSUPPORTED,
                   "grammar: '%.*s' needs too many %s; make its repetitions shorter or its choices "
                   "fewer",
                   RF_STR_ARG(b->nfa->name), what);
}

static rf_status count_work(subsets *b, size_t n) {
    b->nfa->job->work += n;
    if (b->nfa->job->work <= RF_DFA_MAX_WORK) return RF_OK;
    return too_large(b, "steps to compile");
}

/* ---- growing arrays of the result ---- */

static rf_status grow(const subsets *b, void **p, size_t *cap, size_t n, size_t size) {
    if (n < *cap) return RF_OK;
    size_t wanted = *cap ? *cap * 2 : 64;
    void *grown = rf_realloc(*p, *cap, wanted, size);
    if (!grown) return fail_nomem(b, wanted * size);
    *p = grown;
    *cap = wanted;
    return RF_OK;
}

static rf_status put_edge(subsets *b, rf_dfa_state *s, rf_dfa_edge edge) {
    rf_dfa *d = b->d;
    if (s->n_edges) {
        rf_dfa_edge *last = &d->edge[d->n_edges - 1];
        if (last->to == edge.to && last->hi + 1 == edge.lo) {
            last->hi = edge.hi;
            return RF_OK;
        }
    }
    void *p = d->edge;
    RF_TRY(grow(b, &p, &d->cap_edges, d->n_edges, sizeof *d->edge));
    d->edge = p;
    d->edge[d->n_edges++] = edge;
    s->n_edges++;
    return RF_OK;
}

static rf_status put_call(subsets *b, rf_dfa_state *s, rf_call call) {
    rf_dfa *d = b->d;
    void *p = d->call;
    RF_TRY(grow(b, &p, &d->cap_calls, d->n_calls, sizeof *d->call));
    d->call = p;
    d->call[d->n_calls++] = call;
    s->n_calls++;
    return RF_OK;
}

/* ---- subsets ---- */

static void start_closure(subsets *b) {
    b->n_stack = 0;
    b->stamp++;
}

static void add_member(subsets *b, uint32_t state) {
    if (b->seen[state] == b->stamp) return;
    b->seen[state] = b->stamp;
    b->stack[b->n_stack++] = state;
}

static int by_value(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The state of what add_member collected and all that is reached from it without a byte. */
static rf_status close_members(subsets *b, uint32_t *state) {
    const rf_nfa *n = b->nfa;
    for (uint32_t i = 0; i < b->n_stack; i++)
        for (uint32_t at = n->first[b->stack[i]]; at; at = n->edge[at - 1].next)
            if (n->edge[at - 1].kind == RF_NFA_EMPTY) add_member(b, n->edge[at - 1].to);
    RF_TRY(count_work(b, b->n_stack));
    qsort(b->stack, b->n_stack, sizeof *b->stack, by_value);
    const rf_str key = {(const char *)b->stack, b->n_stack * sizeof *b->stack};
    uint32_t known = rf_map_get(b->map, key);
    if (known != RF_MAP_NONE) {
        *state = b->base + known;
        return RF_OK;
    }
    size_t index = b->d->n_states - b->base;
    if (b->d->n_states >= RF_GRAMMAR_MAX_STATES) return too_large(b, "states");
    uint32_t *copy = rf_arena_alloc(b->arena, b->n_stack, sizeof *copy);
    if (!copy) return fail_nomem(b, b->n_stack * sizeof *copy);
    memcpy(copy, b->stack, b->n_stack * sizeof *copy);
    void *of = b->of, *states = b->d->state;
    RF_TRY(grow(b, &of, &b->cap_of, index, sizeof *b->of));
    b->of = of;
    b->of[index] = (subset){copy, b->n_stack};
    RF_TRY(grow(b, &states, &b->d->cap_states, b->d->n_states, sizeof *b->d->state));
    b->d->state = states;
    b->d->state[b->d->n_states++] = (rf_dfa_state){0};
    *state = b->base + (uint32_t)index;
    if (rf_map_put(b->map, (rf_str){(const char *)copy, key.len}, (uint32_t)index, NULL) != RF_OK)
        return fail_nomem(b, key.len);
    return RF_OK;
}

/* ---- successors ---- */

/* Marks where the successors for a byte may change: at cut[b] between b - 1 and b. */
static rf_status find_cuts(subsets *b, subset s, bool cut[257], bool *any) {
    const rf_nfa *n = b->nfa;
    memset(cut, 0, 257 * sizeof *cut);
    size_t n_edges = 0;
    *any = false;
    for (uint32_t i = 0; i < s.n; i++)
        for (uint32_t at = n->first[s.p[i]]; at; at = n->edge[at - 1].next, n_edges++) {
            const rf_nfa_edge *edge = &n->edge[at - 1];
            if (edge->kind != RF_NFA_BYTE) continue;
            cut[edge->lo] = cut[edge->hi + 1] = *any = true;
        }
    return count_work(b, n_edges);
}

static rf_status add_byte_edges(subsets *b, rf_dfa_state *out, subset s) {
    const rf_nfa *n = b->nfa;
    bool cut[257], any;
    RF_TRY(find_cuts(b, s, cut, &any));
    for (int lo = 0, hi; any && lo < 256; lo = hi + 1) {
        hi = lo;
        while (!cut[hi + 1] && hi < 255)
            hi++;
        start_closure(b);
        size_t n_edges = 0;
        for (uint32_t i = 0; i < s.n; i++)
            for (uint32_t at = n->first[s.p[i]]; at; at = n->edge[at - 1].next, n_edges++) {
                const rf_nfa_edge *edge = &n->edge[at - 1];
                if (edge->kind == RF_NFA_BYTE && edge->lo <= lo && edge->hi >= hi)
                    add_member(b, edge->to);
            }
        RF_TRY(count_work(b, n_edges));
        if (b->n_stack == 0) continue;
        uint32_t to;
        RF_TRY(close_members(b, &to));
        RF_TRY(put_edge(b, out, (rf_dfa_edge){(uint8_t)lo, (uint8_t)hi, to}));
    }
    return RF_OK;
}

static int by_call(const void *a, const void *b) {
    const rf_nfa_edge *x = a, *y = b;
    return x->call < y->call ? -1 : x->call > y->call;
}

static rf_status add_calls(subsets *b, rf_dfa_state *out, subset s) {
    const rf_nfa *n = b->nfa;
    size_t n_found = 0;
    for (uint32_t i = 0; i < s.n; i++)
        for (uint32_t at = n->first[s.p[i]]; at; at = n->edge[at - 1].next)
            if (n->edge[at - 1].kind == RF_NFA_CALL) b->calls[n_found++] = n->edge[at - 1];
    qsort(b->calls, n_found, sizeof *b->calls, by_call);
    for (size_t i = 0; i < n_found;) {
        rf_call call = n->call[b->calls[i].call];
        uint32_t same = b->calls[i].call;
        start_closure(b);
        for (; i < n_found && b->calls[i].call == same; i++)
            add_member(b, b->calls[i].to);
        RF_TRY(close_members(b, &call.to));
        RF_TRY(put_call(b, out, call));
    }
    return RF_OK;
}

static rf_status expand(subsets *b, uint32_t index) {
    subset s = b->of[index];
    rf_dfa_state out = {.first_edge = (uint32_t)b->d->n_edges,
                        .first_call = (uint32_t)b->d->n_calls};
    for (uint32_t i = 0; i < s.n; i++)
        out.accepts = out.accepts || s.p[i] == b->nfa->end;
    RF_TRY(add_byte_edges(b, &out, s));
    RF_TRY(add_calls(b, &out, s));
    b->d->state[b->base + index] = out;
    return RF_OK;
}

static rf_status determinize(rf_nfa *n, rf_dfa *d, uint32_t *start) {
    subsets b = {.nfa = n, .d = d, .base = (uint32_t)d->n_states};
    b.stack = rf_alloc(n->n_states, sizeof *b.stack);
    b.seen = rf_alloc(n->n_states, sizeof *b.seen);
    size_t n_calls = 0;
    for (size_t i = 0; i < n->n_edges; i++)
        n_calls += n->edge[i].kind == RF_NFA_CALL;
    b.calls = rf_alloc(n_calls, sizeof *b.calls);
    rf_status s = b.stack && b.seen && b.calls ? RF_OK : fail_nomem(&b, n->n_states);
    if (s == RF_OK && rf_arena_create(&b.arena) != RF_OK) s = fail_nomem(&b, 0);
    if (s == RF_OK && rf_map_create(&b.map, 64) != RF_OK) s = fail_nomem(&b, 64);
    if (s == RF_OK) {
        start_closure(&b);
        add_member(&b, n->start);
        s = close_members(&b, start);
    }
    for (uint32_t i = 0; s == RF_OK && b.base + i < d->n_states; i++)
        s = expand(&b, i);
    rf_free(b.stack);
    rf_free(b.seen);
    rf_free(b.of);
    rf_free(b.calls);
    rf_map_free(b.map);
    rf_arena_free(b.arena);
    return s;
}

rf_status rf_dfa_of_expr(rf_nfa_job *job, const rf_expr *x, bool lexical, rf_str name, rf_dfa *d,
                         uint32_t *start) {
    rf_nfa n = {.job = job, .name = name, .lexical = lexical};
    rf_nfa_build(&n, x);
    rf_status s = n.status;
    if (s == RF_OK) s = determinize(&n, d, start);
    rf_nfa_free(&n);
    return s;
}

/* ---- products ---- */

#define NOWHERE UINT32_MAX /* the second automaton of a difference has no successor left */

typedef struct pair {
    uint32_t a, b, out;
} pair;
typedef struct product {
    rf_nfa *n;
    rf_dfa a, b;
    bool differ;
    rf_map *map;    /* (a, b) -> index of the pair */
    rf_arena *keys; /* what the map borrows */
    pair *pairs;
    size_t n_pairs, cap_pairs;
    uint32_t to;
} product;

static void out_of_memory(product *p) {
    p->n->status = rf_fail_nomem(p->n->job->rules->e, p->cap_pairs * sizeof *p->pairs);
}

/* The state of a pair, listed when it is new. */
static uint32_t state_of(product *p, uint32_t a, uint32_t b) {
    const uint32_t key[2] = {a, b};
    uint32_t known = rf_map_get(p->map, (rf_str){(const char *)key, sizeof key});
    if (known != RF_MAP_NONE) return p->pairs[known].out;
    if (p->n_pairs == p->cap_pairs) {
        size_t cap = p->cap_pairs ? p->cap_pairs * 2 : 64;
        pair *grown = rf_realloc(p->pairs, p->cap_pairs, cap, sizeof *grown);
        if (grown) p->cap_pairs = cap;
        if (grown) p->pairs = grown;
    }
    uint32_t *kept = rf_arena_alloc(p->keys, 2, sizeof *kept);
    if (p->n_pairs == p->cap_pairs || !kept) {
        out_of_memory(p);
        return 0;
    }
    memcpy(kept, key, sizeof key);
    if (rf_map_put(p->map, (rf_str){(const char *)kept, sizeof key}, (uint32_t)p->n_pairs, NULL) !=
        RF_OK)
        out_of_memory(p);
    uint32_t out = rf_nfa_state(p->n);
    p->pairs[p->n_pairs++] = (pair){a, b, out};
    bool b_accepts = b != NOWHERE && p->b.state[b].accepts;
    if (p->a.state[a].accepts && b_accepts != p->differ) rf_nfa_empty(p->n, out, p->to);
    return out;
}

/* The successor of state b for a byte, and up to which byte (at most *hi) that holds. */
static uint32_t next_of(const rf_dfa *d, uint32_t b, int lo, int *hi) {
    for (uint32_t i = 0; b != NOWHERE && i < d->state[b].n_edges; i++) {
        const rf_dfa_edge *edge = &d->edge[d->state[b].first_edge + i];
        if (edge->hi < lo) continue;
        if (edge->lo > lo) {
            if (*hi >= edge->lo) *hi = edge->lo - 1;
            break;
        }
        if (*hi > edge->hi) *hi = edge->hi;
        return edge->to;
    }
    return NOWHERE;
}

static void expand_pair(product *p, pair at) {
    for (uint32_t i = 0; i < p->a.state[at.a].n_edges; i++) {
        const rf_dfa_edge edge = p->a.edge[p->a.state[at.a].first_edge + i];
        for (int lo = edge.lo, hi; lo <= edge.hi; lo = hi + 1) {
            hi = edge.hi;
            uint32_t b = next_of(&p->b, at.b, lo, &hi);
            if (b == NOWHERE && !p->differ) continue;
            uint32_t out = state_of(p, edge.to, b);
            rf_nfa_byte(p->n, at.out, (uint8_t)lo, (uint8_t)hi, out);
        }
    }
}

void rf_nfa_product(rf_nfa *n, const rf_expr *x, uint32_t from, uint32_t to) {
    product p = {.n = n, .differ = x->kind == RF_X_DIFF, .to = to};
    uint32_t a = 0, b = 0;
    rf_status s = rf_dfa_of_expr(n->job, x->kids[0], true, n->name, &p.a, &a);
    if (s == RF_OK) s = rf_dfa_of_expr(n->job, x->kids[1], true, n->name, &p.b, &b);
    if (s == RF_OK && (rf_map_create(&p.map, 64) != RF_OK || rf_arena_create(&p.keys) != RF_OK))
        s = rf_fail_nomem(n->job->rules->e, 64);
    if (s != RF_OK)
        n->status = s;
    else
        rf_nfa_empty(n, from, state_of(&p, a, b));
    for (size_t i = 0; i < p.n_pairs && n->status == RF_OK; i++)
        expand_pair(&p, p.pairs[i]);
    rf_dfa_free(&p.a);
    rf_dfa_free(&p.b);
    rf_map_free(p.map);
    rf_arena_free(p.keys);
    rf_free(p.pairs);
}
