/* nfa.h - expressions as automata over bytes: Thompson's construction, then subsets.
 *
 * Private to src/grammar.  A fragment of an rf_nfa lies between two of its states; characters become
 * UTF-8 there.  An rf_dfa has at most one successor for a byte, but may still offer calls of rules
 * beside it.  Growth is limited, and every limit that is met is an error of the grammar. */
#pragma once
#include "grammar/expr.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RF_GRAMMAR_MAX_STATES = 1 << 17, /* of all rules' automata together */
    RF_NFA_MAX_STATES = 1 << 18,     /* of one rule */
    RF_DFA_MAX_WORK = 1 << 26,       /* members of subsets looked at, for one grammar */
};

/* A rule entered, and entered again: min to max times, max RF_X_MANY for no bound.  min >= 1. */
typedef struct rf_call {
    uint32_t rule, min, max;
    uint32_t to; /* state behind it; in an rf_nfa unused */
} rf_call;

typedef enum rf_nfa_kind { RF_NFA_EMPTY, RF_NFA_BYTE, RF_NFA_CALL } rf_nfa_kind;
typedef struct rf_nfa_edge {
    uint32_t next, to; /* next: edge of the same state + 1; 0 ends the list */
    uint32_t call;     /* index into calls */
    uint8_t kind, lo, hi;
} rf_nfa_edge;

typedef struct rf_dfa_edge {
    uint8_t lo, hi;
    uint32_t to;
} rf_dfa_edge;
typedef struct rf_dfa_state {
    uint32_t first_edge, n_edges; /* rising, apart */
    uint32_t first_call, n_calls;
    bool accepts;
} rf_dfa_state;
typedef struct rf_dfa { /* start from {0}; successive automata may share one */
    rf_dfa_state *state;
    size_t n_states, cap_states;
    rf_dfa_edge *edge;
    size_t n_edges, cap_edges;
    rf_call *call;
    size_t n_calls, cap_calls;
} rf_dfa;
void rf_dfa_free(rf_dfa *d);

/* What the automata of one grammar are made with. */
typedef struct rf_nfa_job {
    rf_rules *rules;
    struct rf_loop {
        const rf_expr *body;
        uint32_t rule;
    } * loops; /* bodies of counted repetitions, each a rule of its own */
    size_t n_loops, cap_loops;
    uint64_t work;
} rf_nfa_job;

/* Appends the automaton of x to d; *start is its first state.  lexical: calls are refused.  name: of
 * the rule, for messages. */
RF_CHECKED rf_status rf_dfa_of_expr(rf_nfa_job *job, const rf_expr *x, bool lexical, rf_str name,
                                    rf_dfa *d, uint32_t *start);

#ifdef __cplusplus
}
#endif
