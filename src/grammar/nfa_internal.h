/* nfa_internal.h - the automaton under construction, between nfa.c (fragments) and dfa.c (subsets
 * and products).  Failure is sticky in status; what is added after it is lost. */
#pragma once
#include "grammar/nfa.h"

typedef struct rf_nfa {
    rf_nfa_job *job;
    rf_str name;
    bool lexical; /* no calls may come up */
    rf_status status;
    uint32_t *first; /* [n_states] edge + 1 */
    size_t n_states, cap_states;
    rf_nfa_edge *edge;
    size_t n_edges, cap_edges;
    rf_call *call; /* the different ones */
    size_t n_calls, cap_calls;
    uint32_t start, end;
} rf_nfa;

uint32_t rf_nfa_state(rf_nfa *n);
void rf_nfa_empty(rf_nfa *n, uint32_t from, uint32_t to);
void rf_nfa_byte(rf_nfa *n, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
void rf_nfa_build(rf_nfa *n, const rf_expr *x);
void rf_nfa_free(rf_nfa *n);
/* The fragment of an RF_X_AND or RF_X_DIFF. */
void rf_nfa_product(rf_nfa *n, const rf_expr *x, uint32_t from, uint32_t to);
/* A character as it stands inside a JSON string; its length. */
size_t rf_json_escape(uint32_t c, char out[8]);
