/* expr.c - constructors of expressions: limits, sorted character sets, nothing clever. */
#include "grammar/expr.h"

#include <stdlib.h>
#include <string.h>

rf_status rf_rules_open(rf_rules *b, rf_error *e) {
    *b = (rf_rules){.e = e};
    if (rf_arena_create(&b->arena) != RF_OK) return rf_fail_nomem(e, sizeof *b);
    return RF_OK;
}

void rf_rules_close(rf_rules *b) {
    rf_arena_free(b->arena);
    rf_free(b->rule);
    *b = (rf_rules){0};
}

uint32_t rf_rule_add(rf_rules *b, rf_str name) {
    if (b->n >= RF_GRAMMAR_MAX_RULES) {
        rf_fail(b->e, RF_EUNSUPPORTED, "grammar: more than %d rules are needed",
                RF_GRAMMAR_MAX_RULES);
        return UINT32_MAX;
    }
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 16;
        rf_rule *grown = rf_realloc(b->rule, b->cap, cap, sizeof *grown);
        if (!grown) {
            rf_fail_nomem(b->e, cap * sizeof *grown);
            return UINT32_MAX;
        }
        b->rule = grown;
        b->cap = cap;
    }
    rf_str copy = rf_arena_str(b->arena, name);
    if (!copy.p) {
        rf_fail_nomem(b->e, name.len);
        return UINT32_MAX;
    }
    b->rule[b->n] = (rf_rule){.name = copy};
    return (uint32_t)b->n++;
}

static void *take(rf_rules *b, size_t n, size_t size) {
    void *p = rf_arena_alloc(b->arena, n, size);
    if (!p) rf_fail_nomem(b->e, n * size);
    return p;
}

static rf_expr *node(rf_rules *b, rf_expr_kind kind) {
    if (++b->n_nodes > RF_GRAMMAR_MAX_NODES) {
        rf_fail(b->e, RF_EUNSUPPORTED, "grammar: it needs more than %d parts",
                RF_GRAMMAR_MAX_NODES);
        return NULL;
    }
    rf_expr *x = take(b, 1, sizeof *x);
    if (!x) return NULL;
    x->kind = kind;
    x->size = 1;
    return x;
}

static uint32_t saturated(uint64_t size) { return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX; }

const rf_expr *rf_x_never(rf_rules *b) { return node(b, RF_X_NEVER); }

const rf_expr *rf_x_bytes(rf_rules *b, rf_str bytes) {
    rf_expr *x = node(b, RF_X_BYTES);
    if (!x) return NULL;
    x->bytes = rf_arena_str(b->arena, bytes);
    if (!x->bytes.p) {
        rf_fail_nomem(b->e, bytes.len);
        return NULL;
    }
    x->size = saturated(bytes.len + 1);
    x->empty = bytes.len == 0;
    return x;
}

const rf_expr *rf_x_text(rf_rules *b, const char *c_string) {
    return rf_x_bytes(b, rf_str_of(c_string));
}

static int by_lo(const void *a, const void *b) {
    const rf_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Sorts r[0..n) and joins what touches; the number left. */
static size_t join(rf_range *r, size_t n) {
    size_t kept = 0;
    if (n) qsort(r, n, sizeof *r, by_lo);
    for (size_t i = 0; i < n; i++) {
        if (kept && r[i].lo <= r[kept - 1].hi + 1) {
            if (r[i].hi > r[kept - 1].hi) r[kept - 1].hi = r[i].hi;
        } else {
            r[kept++] = r[i];
        }
    }
    return kept;
}

/* The gaps of r[0..n) up to U+10FFFF; out has room for n + 1. */
static size_t gaps(const rf_range *r, size_t n, rf_range *out) {
    size_t kept = 0;
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (r[i].lo > next) out[kept++] = (rf_range){next, r[i].lo - 1};
        next = r[i].hi + 1;
    }
    if (next <= 0x10FFFF) out[kept++] = (rf_range){next, 0x10FFFF};
    return kept;
}

const rf_expr *rf_x_set(rf_rules *b, const rf_range *r, size_t n, bool negated, bool in_json) {
    rf_expr *x = node(b, RF_X_SET);
    rf_range *sorted = take(b, n + 1, sizeof *sorted);
    rf_range *others = negated ? take(b, n + 1, sizeof *others) : sorted;
    if (!x || !sorted || !others) return NULL;
    if (n) memcpy(sorted, r, n * sizeof *r);
    x->in_json = in_json;
    x->n = join(sorted, n);
    if (negated) x->n = gaps(sorted, x->n, others);
    x->ranges = others;
    x->size = saturated(x->n + 1);
    return x;
}

static rf_expr *with_kids(rf_rules *b, rf_expr_kind kind, const rf_expr *const *kids, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!kids[i]) return NULL;
    rf_expr *x = node(b, kind);
    if (!x) return NULL;
    x->n = n;
    x->kids = take(b, n, sizeof *x->kids);
    if (!x->kids) return NULL;
    uint64_t size = 1;
    for (size_t i = 0; i < n; i++) {
        x->kids[i] = kids[i];
        size += kids[i]->size;
        x->calls = x->calls || kids[i]->calls;
    }
    x->size = saturated(size);
    return x;
}

const rf_expr *rf_x_seq(rf_rules *b, const rf_expr *const *kids, size_t n) {
    if (n == 1) return kids[0];
    rf_expr *x = with_kids(b, RF_X_SEQ, kids, n);
    if (!x) return NULL;
    x->empty = !x->calls;
    for (size_t i = 0; i < n; i++)
        x->empty = x->empty && kids[i]->empty;
    return x;
}

const rf_expr *rf_x_alt(rf_rules *b, const rf_expr *const *kids, size_t n) {
    if (n == 1) return kids[0];
    rf_expr *x = with_kids(b, RF_X_ALT, kids, n);
    if (!x) return NULL;
    for (size_t i = 0; i < n; i++)
        x->empty = !x->calls && (x->empty || kids[i]->empty);
    return x;
}

const rf_expr *rf_x_repeat(rf_rules *b, const rf_expr *kid, uint32_t min, uint32_t max) {
    rf_expr *x = with_kids(b, RF_X_REPEAT, &kid, 1);
    if (!x) return NULL;
    x->min = min;
    x->max = max;
    x->empty = !x->calls && (min == 0 || kid->empty);
    uint64_t times = max != RF_X_MANY ? max : (uint64_t)min + 1;
    x->size = saturated(times * kid->size + 1);
    return x;
}

const rf_expr *rf_x_list(rf_rules *b, const rf_expr *const *kids, const bool *can_skip, size_t n,
                         const char *between) {
    rf_expr *x = with_kids(b, RF_X_LIST, kids, n);
    bool *copy = take(b, n, sizeof *copy);
    if (!x || !copy) return NULL;
    if (n) memcpy(copy, can_skip, n * sizeof *copy);
    x->can_skip = copy;
    x->bytes = rf_str_of(between);
    return x;
}

const rf_expr *rf_x_and(rf_rules *b, const rf_expr *x, const rf_expr *y) {
    const rf_expr *const kids[] = {x, y};
    rf_expr *both = with_kids(b, RF_X_AND, kids, 2);
    if (both) both->empty = x->empty && y->empty;
    return both;
}

const rf_expr *rf_x_diff(rf_rules *b, const rf_expr *x, const rf_expr *y) {
    const rf_expr *const kids[] = {x, y};
    rf_expr *rest = with_kids(b, RF_X_DIFF, kids, 2);
    if (rest) rest->empty = x->empty && !y->empty;
    return rest;
}

const rf_expr *rf_x_call(rf_rules *b, uint32_t rule) {
    if (rule == UINT32_MAX) return NULL;
    rf_expr *x = node(b, RF_X_CALL);
    if (!x) return NULL;
    x->rule = rule;
    x->calls = true;
    return x;
}

void rf_parts_add(rf_parts *l, const rf_expr *x) {
    if (l->n == l->cap && !l->failed) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        const rf_expr **grown = rf_realloc(l->p, l->cap, cap, sizeof *grown);
        if (grown) {
            l->p = grown;
            l->cap = cap;
        }
        l->failed = !grown;
    }
    l->failed = l->failed || !x;
    if (!l->failed) l->p[l->n++] = x;
}

static const rf_expr *together(rf_rules *b, rf_parts *l, bool one_of) {
    const rf_expr *x = NULL;
    if (l->failed)
        rf_fail_nomem(b->e, l->cap * sizeof *l->p); /* stays unsaid where a part failed before */
    else
        x = one_of ? rf_x_alt(b, l->p, l->n) : rf_x_seq(b, l->p, l->n);
    rf_free(l->p);
    *l = (rf_parts){0};
    return x;
}

const rf_expr *rf_parts_seq(rf_rules *b, rf_parts *l) { return together(b, l, false); }
const rf_expr *rf_parts_alt(rf_rules *b, rf_parts *l) { return together(b, l, true); }
