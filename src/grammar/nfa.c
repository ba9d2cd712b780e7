/* nfa.c - an expression becomes edges between two states, a character becomes UTF-8. */
#include "grammar/nfa_internal.h"

#include <string.h>

#include "base/utf8.h"

enum { UNROLLED_MAX = 64 }; /* states of a repetition that is written out; larger ones count */

/* ---- states and edges ---- */

static rf_status full(rf_nfa *n, size_t limit, const char *what) {
    return rf_fail(n->job->rules->e, RF_EUNSUPPORTED,
                   "grammar: '%.*s' needs more than %zu %s; make its repetitions shorter or its "
                   "choices fewer",
                   RF_STR_ARG(n->name), limit, what);
}

uint32_t rf_nfa_state(rf_nfa *n) {
    if (n->status != RF_OK) return 0;
    if (n->n_states >= RF_NFA_MAX_STATES) {
        n->status = full(n, RF_NFA_MAX_STATES, "states");
        return 0;
    }
    if (n->n_states == n->cap_states) {
        size_t cap = n->cap_states ? n->cap_states * 2 : 256;
        uint32_t *grown = rf_realloc(n->first, n->cap_states, cap, sizeof *grown);
        if (!grown) {
            n->status = rf_fail_nomem(n->job->rules->e, cap * sizeof *grown);
            return 0;
        }
        n->first = grown;
        n->cap_states = cap;
    }
    n->first[n->n_states] = 0;
    return (uint32_t)n->n_states++;
}

static void add_edge(rf_nfa *n, uint32_t from, rf_nfa_edge edge) {
    if (n->status != RF_OK) return;
    if (n->n_edges >= 4 * (size_t)RF_NFA_MAX_STATES) {
        n->status = full(n, 4 * (size_t)RF_NFA_MAX_STATES, "edges");
        return;
    }
    if (n->n_edges == n->cap_edges) {
        size_t cap = n->cap_edges ? n->cap_edges * 2 : 256;
        rf_nfa_edge *grown = rf_realloc(n->edge, n->cap_edges, cap, sizeof *grown);
        if (!grown) {
            n->status = rf_fail_nomem(n->job->rules->e, cap * sizeof *grown);
            return;
        }
        n->edge = grown;
        n->cap_edges = cap;
    }
    edge.next = n->first[from];
    n->edge[n->n_edges] = edge;
    n->first[from] = (uint32_t)++n->n_edges;
}

void rf_nfa_empty(rf_nfa *n, uint32_t from, uint32_t to) {
    add_edge(n, from, (rf_nfa_edge){.kind = RF_NFA_EMPTY, .to = to});
}

void rf_nfa_byte(rf_nfa *n, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to) {
    add_edge(n, from, (rf_nfa_edge){.kind = RF_NFA_BYTE, .lo = lo, .hi = hi, .to = to});
}

static void add_call(rf_nfa *n, uint32_t from, rf_call call, uint32_t to) {
    uint32_t i = 0;
    while (i < n->n_calls && (n->call[i].rule != call.rule || n->call[i].min != call.min ||
                              n->call[i].max != call.max))
        i++;
    if (i == n->n_calls) {
        if (n->n_calls == n->cap_calls) {
            size_t cap = n->cap_calls ? n->cap_calls * 2 : 16;
            rf_call *grown = rf_realloc(n->call, n->cap_calls, cap, sizeof *grown);
            if (!grown) {
                n->status = rf_fail_nomem(n->job->rules->e, cap * sizeof *grown);
                return;
            }
            n->call = grown;
            n->cap_calls = cap;
        }
        n->call[n->n_calls++] = call;
    }
    add_edge(n, from, (rf_nfa_edge){.kind = RF_NFA_CALL, .call = i, .to = to});
}

static void add_literal(rf_nfa *n, uint32_t from, rf_str bytes, uint32_t to) {
    for (size_t i = 0; i < bytes.len; i++) {
        uint32_t next = rf_nfa_state(n);
        rf_nfa_byte(n, from, (uint8_t)bytes.p[i], (uint8_t)bytes.p[i], next);
        from = next;
    }
    rf_nfa_empty(n, from, to);
}

/* ---- characters ---- */

static bool all_are(const uint8_t *p, int len, uint8_t value) {
    for (int i = 0; i < len; i++)
        if (p[i] != value) return false;
    return true;
}

/* Byte strings of len bytes from lo to hi in order, whose bytes behind the first are continuation
 * bytes. */
static void add_span(rf_nfa *n, uint32_t from, const uint8_t *lo, const uint8_t *hi, int len,
                     uint32_t to) {
    static const uint8_t lowest[] = {0x80, 0x80, 0x80}, highest[] = {0xBF, 0xBF, 0xBF};
    if (len == 1) {
        rf_nfa_byte(n, from, *lo, *hi, to);
        return;
    }
    int first = *lo, last = *hi;
    if (first == last || !all_are(lo + 1, len - 1, 0x80)) {
        uint32_t s = rf_nfa_state(n);
        rf_nfa_byte(n, from, *lo, *lo, s);
        add_span(n, s, lo + 1, first == last ? hi + 1 : highest, len - 1, to);
        if (first++ == last) return;
    }
    if (!all_are(hi + 1, len - 1, 0xBF)) {
        uint32_t s = rf_nfa_state(n);
        rf_nfa_byte(n, from, *hi, *hi, s);
        add_span(n, s, lowest, hi + 1, len - 1, to);
        last--;
    }
    if (first > last) return;
    uint32_t s = rf_nfa_state(n);
    rf_nfa_byte(n, from, (uint8_t)first, (uint8_t)last, s);
    add_span(n, s, lowest, highest, len - 1, to);
}

/* Characters lo..hi as UTF-8; surrogates have none. */
static void add_chars(rf_nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to) {
    static const rf_range parts[] = {
        {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
    for (size_t i = 0; i < RF_COUNT(parts); i++) {
        uint32_t first = lo > parts[i].lo ? lo : parts[i].lo;
        uint32_t last = hi < parts[i].hi ? hi : parts[i].hi;
        if (first > last) continue;
        char a[4], b[4];
        int len = rf_utf8_encode(first, a);
        rf_utf8_encode(last, b);
        add_span(n, from, (const uint8_t *)a, (const uint8_t *)b, len, to);
    }
}

/* Adds what of lo..hi lies in the part from..to of all characters. */
static void add_part(rf_nfa *n, uint32_t from, rf_range r, uint32_t first, uint32_t last,
                     uint32_t to) {
    uint32_t lo = r.lo > first ? r.lo : first, hi = r.hi < last ? r.hi : last;
    if (lo <= hi) add_chars(n, from, lo, hi, to);
}

size_t rf_json_escape(uint32_t c, char out[8]) {
    static const char short_names[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const char *at = c && c < 0x80 ? strchr(short_names, (int)c) : NULL;
    if (at) {
        out[0] = '\\';
        out[1] = letters[at - short_names];
        return 2;
    }
    if (c >= 0x20) return (size_t)rf_utf8_encode(c, out);
    static const char hex[] = "0123456789abcdef";
    memcpy(out, "\\u00", 4);
    out[4] = hex[c >> 4];
    out[5] = hex[c & 15];
    return 6;
}

static void add_set(rf_nfa *n, const rf_expr *x, uint32_t from, uint32_t to) {
    for (size_t i = 0; i < x->n && n->status == RF_OK; i++) {
        rf_range r = x->ranges[i];
        if (!x->in_json) {
            add_chars(n, from, r.lo, r.hi, to);
            continue;
        }
        add_part(n, from, r, 0x20, '"' - 1, to);
        add_part(n, from, r, '"' + 1, '\\' - 1, to);
        add_part(n, from, r, '\\' + 1, 0x10FFFF, to);
        for (uint32_t c = r.lo; c <= r.hi && c <= '\\'; c++) {
            char text[8];
            if (c < 0x20 || c == '"' || c == '\\')
                add_literal(n, from, (rf_str){text, rf_json_escape(c, text)}, to);
        }
    }
}

/* ---- expressions ---- */

static void add_expr(rf_nfa *n, const rf_expr *x, uint32_t from, uint32_t to);

/* The rule that holds the body of a counted repetition; UINT32_MAX on failure. */
static uint32_t loop_rule(rf_nfa *n, const rf_expr *body) {
    rf_nfa_job *job = n->job;
    if (body->kind == RF_X_CALL) return body->rule;
    for (size_t i = 0; i < job->n_loops; i++)
        if (job->loops[i].body == body) return job->loops[i].rule;
    if (job->n_loops == job->cap_loops) {
        size_t cap = job->cap_loops ? job->cap_loops * 2 : 16;
        struct rf_loop *grown = rf_realloc(job->loops, job->cap_loops, cap, sizeof *grown);
        if (!grown) {
            n->status = rf_fail_nomem(job->rules->e, cap * sizeof *grown);
            return UINT32_MAX;
        }
        job->loops = grown;
        job->cap_loops = cap;
    }
    uint32_t rule = rf_rule_add(job->rules, n->name);
    if (rule == UINT32_MAX) {
        n->status = job->rules->e ? job->rules->e->status : RF_ENOMEM;
        return rule;
    }
    job->rules->rule[rule].x = body;
    job->loops[job->n_loops++] = (struct rf_loop){body, rule};
    return rule;
}

/* A repetition that is counted while matching, not written out. */
static void add_counted(rf_nfa *n, const rf_expr *x, uint32_t from, uint32_t to) {
    const rf_expr *body = x->kids[0];
    uint32_t min = x->min;
    if (body->empty) { /* rounds without a byte do not count: any number of them is none */
        body = rf_x_diff(n->job->rules, body, rf_x_text(n->job->rules, ""));
        if (!body) n->status = n->job->rules->e->status;
        if (!body) return;
        rf_nfa_empty(n, from, to);
        min = 0;
    }
    uint32_t rule = loop_rule(n, body);
    if (rule == UINT32_MAX) return;
    add_call(n, from, (rf_call){.rule = rule, .min = min ? min : 1, .max = x->max}, to);
}

static void add_repeat(rf_nfa *n, const rf_expr *x, uint32_t from, uint32_t to) {
    const rf_expr *kid = x->kids[0];
    bool bounded = x->max != RF_X_MANY;
    if (x->min == 0) rf_nfa_empty(n, from, to);
    if (x->max == 0) return;
    uint64_t copies = bounded ? x->max : x->min;
    if (!n->lexical && copies > 1 && copies * kid->size > UNROLLED_MAX) {
        add_counted(n, x, from, to);
        return;
    }
    uint32_t at = from;
    for (uint64_t i = 0; i < copies && n->status == RF_OK; i++) {
        uint32_t next = rf_nfa_state(n);
        add_expr(n, kid, at, next);
        if (i + 1 >= x->min) rf_nfa_empty(n, next, to);
        at = next;
    }
    if (bounded) return;
    uint32_t again = rf_nfa_state(n);
    rf_nfa_empty(n, at, again);
    add_expr(n, kid, again, again);
    rf_nfa_empty(n, again, to);
}

/* before: nothing was written yet; after: something was.  A kid is reached from both. */
static void add_list(rf_nfa *n, const rf_expr *x, uint32_t from, uint32_t to) {
    uint32_t before = from, after = rf_nfa_state(n);
    for (size_t i = 0; i < x->n && n->status == RF_OK; i++) {
        uint32_t kid = rf_nfa_state(n), done = rf_nfa_state(n);
        rf_nfa_empty(n, before, kid);
        add_literal(n, after, x->bytes, kid);
        add_expr(n, x->kids[i], kid, done);
        if (x->can_skip[i])
            rf_nfa_empty(n, after, done);
        else
            before = rf_nfa_state(n);
        after = done;
    }
    rf_nfa_empty(n, before, to);
    rf_nfa_empty(n, after, to);
}

static void add_expr(rf_nfa *n, const rf_expr *x, uint32_t from, uint32_t to) {
    if (n->status != RF_OK) return;
    switch (x->kind) {
    case RF_X_NEVER:
        return;
    case RF_X_BYTES:
        add_literal(n, from, x->bytes, to);
        return;
    case RF_X_SET:
        add_set(n, x, from, to);
        return;
    case RF_X_SEQ:
        for (size_t i = 0; i < x->n; i++) {
            uint32_t next = rf_nfa_state(n);
            add_expr(n, x->kids[i], from, next);
            from = next;
        }
        rf_nfa_empty(n, from, to);
        return;
    case RF_X_ALT:
        for (size_t i = 0; i < x->n; i++)
            add_expr(n, x->kids[i], from, to);
        return;
    case RF_X_REPEAT:
        add_repeat(n, x, from, to);
        return;
    case RF_X_LIST:
        add_list(n, x, from, to);
        return;
    case RF_X_AND:
    case RF_X_DIFF:
        rf_nfa_product(n, x, from, to);
        return;
    case RF_X_CALL:
        RF_ASSERT(!n->lexical); /* the front ends keep calls out of AND and DIFF */
        add_call(n, from, (rf_call){.rule = x->rule, .min = 1, .max = 1}, to);
        return;
    }
}

void rf_nfa_build(rf_nfa *n, const rf_expr *x) {
    n->start = rf_nfa_state(n);
    n->end = rf_nfa_state(n);
    add_expr(n, x, n->start, n->end);
}

void rf_nfa_free(rf_nfa *n) {
    rf_free(n->first);
    rf_free(n->edge);
    rf_free(n->call);
    *n = (rf_nfa){0};
}
