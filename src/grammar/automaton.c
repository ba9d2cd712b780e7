/* automaton.c - the rules' automata put together: dead ends removed, left recursion found, bytes
 * that no state tells apart made one class. */
#include "grammar/automaton.h"

#include <string.h>

enum { MAX_CELLS = 1 << 23 }; /* of the table of successors */

typedef struct builder {
    rf_rules *rules;
    rf_dfa dfa;      /* state 0: dead */
    uint32_t *start; /* [n_rules] */
    uint32_t *owner; /* [n_states] rule of a state */
    bool *lives;     /* [n_states] the end of its rule can be reached */
    bool *empty;     /* [n_rules] may match no byte */
    rf_automaton *a;
} builder;

static rf_status fail_nomem(const builder *b, size_t bytes) {
    return rf_fail_nomem(b->rules->e, bytes);
}

/* ---- the automata of all rules ---- */

static rf_status add_dead_state(builder *b) {
    b->dfa.state = rf_alloc(64, sizeof *b->dfa.state);
    if (!b->dfa.state) return fail_nomem(b, sizeof *b->dfa.state);
    b->dfa.cap_states = 64;
    b->dfa.n_states = 1;
    return RF_OK;
}

static rf_status set_owner(builder *b, uint32_t rule, size_t from, size_t *cap) {
    while (*cap < b->dfa.n_states) {
        size_t wanted = *cap ? *cap * 2 : 256;
        uint32_t *grown = rf_realloc(b->owner, *cap, wanted, sizeof *grown);
        if (!grown) return fail_nomem(b, wanted * sizeof *grown);
        b->owner = grown;
        *cap = wanted;
    }
    for (size_t i = from; i < b->dfa.n_states; i++)
        b->owner[i] = rule;
    return RF_OK;
}

static rf_status compile_rules(builder *b) {
    rf_nfa_job job = {.rules = b->rules};
    rf_status s = add_dead_state(b);
    size_t cap_start = 0, cap_owner = 0;
    for (size_t i = 0; s == RF_OK && i < b->rules->n; i++) { /* more may come while it goes */
        if (i == cap_start) {
            size_t cap = cap_start ? cap_start * 2 : 64;
            uint32_t *grown = rf_realloc(b->start, cap_start, cap, sizeof *grown);
            if (!grown) s = fail_nomem(b, cap * sizeof *grown);
            if (grown) b->start = grown;
            if (grown) cap_start = cap;
        }
        if (s != RF_OK) break;
        size_t before = b->dfa.n_states;
        const rf_rule rule = b->rules->rule[i];
        s = rf_dfa_of_expr(&job, rule.x, false, rule.name, &b->dfa, &b->start[i]);
        if (s == RF_OK) s = set_owner(b, (uint32_t)i, before, &cap_owner);
    }
    rf_free(job.loops);
    return s;
}

/* ---- dead ends ---- */

static bool lives_now(const builder *b, const rf_dfa_state *s) {
    if (s->accepts) return true;
    for (uint32_t i = 0; i < s->n_edges; i++)
        if (b->lives[b->dfa.edge[s->first_edge + i].to]) return true;
    for (uint32_t i = 0; i < s->n_calls; i++) {
        const rf_call *call = &b->dfa.call[s->first_call + i];
        if (b->lives[call->to] && b->lives[b->start[call->rule]]) return true;
    }
    return false;
}

/* From the back, where ends are near: few rounds.  Each round but the last finds a state. */
static rf_status find_living(builder *b) {
    uint64_t work = 0;
    b->lives = rf_alloc(b->dfa.n_states, sizeof *b->lives);
    if (!b->lives) return fail_nomem(b, b->dfa.n_states);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = b->dfa.n_states; i-- > 1;) {
            const rf_dfa_state *s = &b->dfa.state[i];
            if (b->lives[i]) continue;
            if ((work += 1 + s->n_edges + s->n_calls) > RF_DFA_MAX_WORK)
                return rf_fail(b->rules->e, RF_EUNSUPPORTED,
                               "grammar: its rules depend on each other in too many steps");
            if (lives_now(b, s)) b->lives[i] = changed = true;
        }
    }
    return RF_OK;
}

static bool call_lives(const builder *b, const rf_call *call) {
    return b->lives[call->to] && b->lives[b->start[call->rule]];
}

/* ---- rules that may be empty, and rules that call themselves at once ---- */

typedef struct walk { /* states reached from a rule's start without a byte */
    uint32_t *state;  /* [n_states] */
    size_t n;
    uint32_t *seen; /* [n_states] stamp */
    uint32_t stamp;
} walk;

static void visit(walk *w, uint32_t state) {
    if (w->seen[state] == w->stamp) return;
    w->seen[state] = w->stamp;
    w->state[w->n++] = state;
}

/* Collects them; true when the rule may end among them. */
static bool walk_rule(const builder *b, walk *w, uint32_t rule) {
    bool accepts = false;
    w->stamp++;
    w->n = 0;
    visit(w, b->start[rule]);
    for (size_t i = 0; i < w->n; i++) {
        const rf_dfa_state *s = &b->dfa.state[w->state[i]];
        accepts = accepts || s->accepts;
        for (uint32_t c = 0; c < s->n_calls; c++) {
            const rf_call *call = &b->dfa.call[s->first_call + c];
            if (call_lives(b, call) && b->empty[call->rule]) visit(w, call->to);
        }
    }
    return accepts;
}

static rf_status find_empty(builder *b, walk *w) {
    size_t n = b->rules->n;
    uint64_t work = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = n; i-- > 0;) {
            if (b->empty[i]) continue;
            if (walk_rule(b, w, (uint32_t)i)) b->empty[i] = changed = true;
            if ((work += w->n) > RF_DFA_MAX_WORK)
                return rf_fail(b->rules->e, RF_EUNSUPPORTED,
                               "grammar: its rules depend on each other in too many steps");
        }
    }
    return RF_OK;
}

typedef struct order { /* depth-first over "calls before reading" */
    uint8_t *color;    /* [n_rules] 0 new, 1 under way, 2 done */
    uint32_t *path;    /* [n_rules] */
    size_t n;
} order;

/* The next new or open rule that the last of the path calls at once; UINT32_MAX when none is left.
 */
static uint32_t next_called(const builder *b, walk *w, const order *o, uint32_t rule) {
    walk_rule(b, w, rule);
    for (size_t i = 0; i < w->n; i++) {
        const rf_dfa_state *s = &b->dfa.state[w->state[i]];
        for (uint32_t c = 0; c < s->n_calls; c++) {
            const rf_call *call = &b->dfa.call[s->first_call + c];
            if (call_lives(b, call) && o->color[call->rule] != 2) return call->rule;
        }
    }
    return UINT32_MAX;
}

static rf_status refuse_left_recursion(builder *b, walk *w, order *o, uint32_t root) {
    uint64_t work = 0;
    o->path[o->n++] = root;
    o->color[root] = 1;
    while (o->n) {
        uint32_t rule = o->path[o->n - 1], called = next_called(b, w, o, rule);
        if ((work += w->n) > RF_DFA_MAX_WORK)
            return rf_fail(b->rules->e, RF_EUNSUPPORTED,
                           "grammar: its rules call each other in too many ways");
        if (called == UINT32_MAX) {
            o->color[rule] = 2;
            o->n--;
        } else if (o->color[called] == 1) {
            return rf_fail(b->rules->e, RF_EUNSUPPORTED,
                           "grammar: rule '%.*s' calls itself before it reads anything (left "
                           "recursion); write it as a repetition",
                           RF_STR_ARG(b->rules->rule[called].name));
        } else {
            o->color[called] = 1;
            o->path[o->n++] = called;
        }
    }
    return RF_OK;
}

/* Also: what may be empty cannot be counted. */
static rf_status check_counted(const builder *b) {
    for (size_t i = 1; i < b->dfa.n_states; i++) {
        const rf_dfa_state *s = &b->dfa.state[i];
        for (uint32_t c = 0; c < s->n_calls; c++) {
            const rf_call *call = &b->dfa.call[s->first_call + c];
            if (call->max != 1 && call_lives(b, call) && b->empty[call->rule])
                return rf_fail(b->rules->e, RF_EUNSUPPORTED,
                               "grammar: in rule '%.*s' something that may be empty is repeated a "
                               "counted number of times; make it non-empty, or use '*'",
                               RF_STR_ARG(b->rules->rule[b->owner[i]].name));
        }
    }
    return RF_OK;
}

static rf_status check_calls(builder *b, uint32_t root) {
    walk w = {.state = rf_alloc(b->dfa.n_states, sizeof *w.state),
              .seen = rf_alloc(b->dfa.n_states, sizeof *w.seen)};
    order o = {.color = rf_alloc(b->rules->n, 1), .path = rf_alloc(b->rules->n, sizeof *o.path)};
    b->empty = rf_alloc(b->rules->n, sizeof *b->empty);
    rf_status s = RF_OK;
    if (!w.state || !w.seen || !o.color || !o.path || !b->empty)
        s = fail_nomem(b, b->dfa.n_states * sizeof *w.state);
    if (s == RF_OK) s = find_empty(b, &w);
    for (uint32_t i = 0; s == RF_OK && i < b->rules->n; i++) {
        uint32_t rule = (root + i) % (uint32_t)b->rules->n; /* the root first */
        if (o.color[rule] == 0) s = refuse_left_recursion(b, &w, &o, rule);
    }
    if (s == RF_OK) s = check_counted(b);
    rf_free(w.state);
    rf_free(w.seen);
    rf_free(o.color);
    rf_free(o.path);
    return s;
}

/* ---- the table ---- */

static void find_classes(builder *b) {
    bool cut[257] = {false};
    for (size_t i = 0; i < b->dfa.n_edges; i++)
        cut[b->dfa.edge[i].lo] = cut[b->dfa.edge[i].hi + 1] = true;
    uint8_t class = 0;
    for (int byte = 0; byte < 256; byte++) {
        if (byte && cut[byte]) class ++;
        b->a->class_of[byte] = class;
    }
    b->a->n_classes = (uint32_t) class + 1;
}

static void fill_state(builder *b, uint32_t i) {
    rf_automaton *a = b->a;
    const rf_dfa_state *s = &b->dfa.state[i];
    rf_state *out = &a->state[i];
    uint32_t *row = a->next + (size_t)i * a->n_classes;
    out->first_call = a->n_calls;
    if (s->accepts) out->flags |= RF_STATE_ACCEPTS;
    for (uint32_t k = 0; k < s->n_edges; k++) {
        const rf_dfa_edge *edge = &b->dfa.edge[s->first_edge + k];
        if (!b->lives[edge->to]) continue;
        out->flags |= RF_STATE_READS;
        for (uint32_t c = a->class_of[edge->lo]; c <= a->class_of[edge->hi]; c++)
            row[c] = edge->to;
    }
    for (uint32_t k = 0; k < s->n_calls; k++) {
        const rf_call *call = &b->dfa.call[s->first_call + k];
        if (!call_lives(b, call)) continue;
        out->flags |= RF_STATE_CALLS;
        a->call[a->n_calls++] = (rf_call_site){
            .start = b->start[call->rule], .to = call->to, .min = call->min, .max = call->max};
    }
    out->n_calls = a->n_calls - out->first_call;
}

static rf_status fill(builder *b, uint32_t root) {
    rf_automaton *a = b->a;
    find_classes(b);
    a->n_states = (uint32_t)b->dfa.n_states;
    a->start = b->start[root];
    size_t cells = (size_t)a->n_states * a->n_classes;
    if (cells > MAX_CELLS)
        return rf_fail(b->rules->e, RF_EUNSUPPORTED,
                       "grammar: its table of %u states by %u classes of bytes is over the limit "
                       "of %d; make its repetitions shorter or its choices fewer",
                       a->n_states, a->n_classes, MAX_CELLS);
    a->next = rf_alloc(cells, sizeof *a->next);
    a->state = rf_alloc(a->n_states, sizeof *a->state);
    a->call = rf_alloc(b->dfa.n_calls, sizeof *a->call);
    if (!a->next || !a->state || !a->call) return fail_nomem(b, cells * sizeof *a->next);
    for (uint32_t i = 1; i < a->n_states; i++)
        if (b->lives[i]) fill_state(b, i);
    return RF_OK;
}

/* ---- plain characters ---- */

/* Well-formed UTF-8 beyond ASCII (Unicode 15, table 3-7). */
static const struct utf8_row {
    uint8_t n, lo[4], hi[4];
} utf8_rows[] = {
    {2, {0xC2, 0x80}, {0xDF, 0xBF}},
    {3, {0xE0, 0xA0, 0x80}, {0xE0, 0xBF, 0xBF}},
    {3, {0xE1, 0x80, 0x80}, {0xEC, 0xBF, 0xBF}},
    {3, {0xED, 0x80, 0x80}, {0xED, 0x9F, 0xBF}},
    {3, {0xEE, 0x80, 0x80}, {0xEF, 0xBF, 0xBF}},
    {4, {0xF0, 0x90, 0x80, 0x80}, {0xF0, 0xBF, 0xBF, 0xBF}},
    {4, {0xF1, 0x80, 0x80, 0x80}, {0xF3, 0xBF, 0xBF, 0xBF}},
    {4, {0xF4, 0x80, 0x80, 0x80}, {0xF4, 0x8F, 0xBF, 0xBF}},
};

/* The one successor of state for all bytes lo..hi; 0 when there are several or none. */
static uint32_t common_next(const rf_automaton *a, uint32_t state, uint8_t lo, uint8_t hi) {
    uint32_t to = rf_automaton_next(a, state, lo);
    for (int byte = lo + 1; byte <= hi; byte++)
        if (rf_automaton_next(a, state, (uint8_t)byte) != to) return 0;
    return to;
}

/* The one state where every plain character leads from state; 0 when there is none. */
static uint32_t after_plain(const rf_automaton *a, uint32_t state) {
    uint32_t to = rf_automaton_next(a, state, ' ');
    for (uint8_t byte = 0x20; to && byte < 0x7F; byte++)
        if (rf_is_plain(byte) && rf_automaton_next(a, state, byte) != to) return 0;
    for (size_t i = 0; to && i < RF_COUNT(utf8_rows); i++) {
        uint32_t at = state;
        for (uint8_t k = 0; at && k < utf8_rows[i].n; k++)
            at = common_next(a, at, utf8_rows[i].lo[k], utf8_rows[i].hi[k]);
        if (at != to) return 0;
    }
    return to;
}

static bool reads_plain(const rf_automaton *a, uint32_t state) {
    for (int byte = 0x20; byte < 256; byte++)
        if (rf_is_plain((uint32_t)byte) && rf_automaton_next(a, state, (uint8_t)byte)) return true;
    return false;
}

static void mark_plain(rf_automaton *a) {
    for (uint32_t i = 1; i < a->n_states; i++) {
        uint32_t to = after_plain(a, i);
        if (to && after_plain(a, to) == to) a->state[i].flags |= RF_STATE_PLAIN;
    }
    for (uint32_t i = 0; i < a->n_calls; i++) {
        rf_call_site *call = &a->call[i];
        uint32_t to = after_plain(a, call->start);
        call->plain = to && call->max > 1 && a->state[to].flags == RF_STATE_ACCEPTS &&
                      a->state[call->to].flags == RF_STATE_READS && !reads_plain(a, call->to);
    }
}

rf_status rf_automaton_build(rf_automaton **out, rf_rules *rules, uint32_t root) {
    builder b = {.rules = rules};
    *out = NULL;
    b.a = rf_alloc(1, sizeof *b.a);
    rf_status s = b.a ? compile_rules(&b) : fail_nomem(&b, sizeof *b.a);
    if (s == RF_OK) s = find_living(&b);
    if (s == RF_OK && !b.lives[b.start[root]])
        s = rf_fail(rules->e, RF_EUNSUPPORTED,
                    "grammar: rule '%.*s' matches no text that ever ends",
                    RF_STR_ARG(rules->rule[root].name));
    if (s == RF_OK) s = check_calls(&b, root);
    if (s == RF_OK) s = fill(&b, root);
    if (s == RF_OK) mark_plain(b.a);
    rf_dfa_free(&b.dfa);
    rf_free(b.start);
    rf_free(b.owner);
    rf_free(b.lives);
    rf_free(b.empty);
    if (s == RF_OK)
        *out = b.a;
    else
        rf_automaton_free(b.a);
    return s;
}

void rf_automaton_free(rf_automaton *a) {
    if (!a) return;
    rf_free(a->next);
    rf_free(a->state);
    rf_free(a->call);
    rf_free(a);
}

size_t rf_automaton_bytes(const rf_automaton *a) {
    return sizeof *a + (size_t)a->n_states * (a->n_classes * sizeof *a->next + sizeof *a->state) +
           a->n_calls * sizeof *a->call;
}
