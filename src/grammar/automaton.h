/* automaton.h - a compiled grammar: one pushdown automaton over bytes, read-only, shared by all.
 *
 * Every rule is an automaton with at most one successor for a byte; a state may also call rules.
 * What cannot lead to a whole text was removed: from every state reached, the end can be reached.
 * State 0 is the dead one.  No rule can call itself before a byte was read. */
#pragma once
#include "grammar/expr.h"
#include "grammar/nfa.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {                       /* what is known of a state */
       RF_STATE_ACCEPTS = 1, /* its rule may end here */
       RF_STATE_CALLS = 2,
       RF_STATE_READS = 4, /* some byte has a successor */
       RF_STATE_PLAIN = 8, /* any number of plain characters may come, and nothing is lost by it */
};

/* Frequent in JSON strings, so that masks treat them as one: every character but control
 * characters, the quotation mark, the backslash and DEL. */
static inline bool rf_is_plain(uint32_t c) {
    return c >= 0x20 && c != '"' && c != '\\' && c != 0x7F;
}

typedef struct rf_call_site {
    uint32_t start, to; /* first state of the rule; state behind the call */
    uint32_t min, max;  /* times it is gone through; max RF_X_MANY: no bound */
    bool plain; /* a counted repetition of characters, any plain one among them, that can go on only
                   with what is not plain */
} rf_call_site;

typedef struct rf_state {
    uint32_t first_call, n_calls;
    uint32_t flags;
} rf_state;

typedef struct rf_automaton {
    uint8_t class_of[256]; /* of a byte */
    uint32_t n_classes, n_states, n_calls;
    uint32_t *next; /* [n_states][n_classes] */
    rf_state *state;
    rf_call_site *call;
    uint32_t start;
} rf_automaton;

static inline uint32_t rf_automaton_next(const rf_automaton *a, uint32_t state, uint8_t byte) {
    return a->next[(size_t)state * a->n_classes + a->class_of[byte]];
}

/* Fails when rule root matches nothing, when a rule calls itself before reading (its name is told),
 * or when a limit is met.  May add rules to b. */
RF_CHECKED rf_status rf_automaton_build(rf_automaton **out, rf_rules *b, uint32_t root);
void rf_automaton_free(rf_automaton *a);
size_t rf_automaton_bytes(const rf_automaton *a);

#ifdef __cplusplus
}
#endif
