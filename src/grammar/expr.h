/* expr.h - what a grammar says, whatever language it was written in: rules made of expressions.
 *
 * A DAG of immutable nodes in one arena.  Constructors take NULL for a part that failed and then
 * return NULL, so that parsers check once at the end; the first failure is kept in the error.
 * Nothing here knows of bytes' order in time: automaton.c gives the meaning. */
#pragma once
#include "base/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RF_X_MANY UINT32_MAX /* no upper bound of a repetition */

enum { /* limits on what one grammar may ask for */
       RF_GRAMMAR_MAX_BYTES = 256 << 10,
       RF_GRAMMAR_MAX_RULES = 16384,
       RF_GRAMMAR_MAX_NODES = 1 << 18,
       RF_GRAMMAR_MAX_DEPTH = 200, /* nesting of groups and of schemas */
       RF_GRAMMAR_MAX_REPEAT = 1000000,
};

typedef struct rf_range {
    uint32_t lo, hi; /* code points, both included */
} rf_range;

typedef enum rf_expr_kind {
    RF_X_NEVER,  /* no text at all */
    RF_X_BYTES,  /* exactly these bytes, may be none */
    RF_X_SET,    /* one character of ranges[n]: sorted, apart */
    RF_X_SEQ,    /* kids one after the other */
    RF_X_ALT,    /* one of kids */
    RF_X_REPEAT, /* kids[0], min to max times */
    RF_X_LIST,   /* kids in order, those with can_skip may be left out, bytes between any two */
    RF_X_AND,    /* what both kids match; neither may call rules */
    RF_X_DIFF,   /* what kids[0] matches and kids[1] does not; neither may call rules */
    RF_X_CALL,   /* the rule */
} rf_expr_kind;

typedef struct rf_expr rf_expr;
struct rf_expr {
    rf_expr_kind kind;
    bool calls;   /* a call is in it */
    bool empty;   /* it matches the empty text; not known, and false, where it calls */
    bool in_json; /* of a set: spelt as inside a JSON string, escaped where that must be */
    const rf_range *ranges;
    const rf_expr **kids;
    const bool *can_skip; /* [n] of a list */
    size_t n;             /* ranges or kids */
    rf_str bytes;
    uint32_t min, max;
    uint32_t rule;
    uint32_t size; /* about as many states as it takes when repetitions are written out */
};

typedef struct rf_rule {
    rf_str name;      /* for messages */
    const rf_expr *x; /* NULL until defined */
} rf_rule;

typedef struct rf_rules {
    rf_arena *arena;
    rf_rule *rule; /* [n] */
    size_t n, cap;
    size_t n_nodes;
    rf_error *e;
} rf_rules;

RF_CHECKED rf_status rf_rules_open(rf_rules *b, rf_error *e);
void rf_rules_close(rf_rules *b);
/* A new rule without a body; UINT32_MAX when there are too many.  The name is copied. */
uint32_t rf_rule_add(rf_rules *b, rf_str name);

const rf_expr *rf_x_never(rf_rules *b);
const rf_expr *rf_x_bytes(rf_rules *b, rf_str bytes); /* copied */
const rf_expr *rf_x_text(rf_rules *b, const char *c_string);
/* Ranges in any order, overlapping or not; negated: every other character. */
const rf_expr *rf_x_set(rf_rules *b, const rf_range *r, size_t n, bool negated, bool in_json);
const rf_expr *rf_x_seq(rf_rules *b, const rf_expr *const *kids, size_t n);
const rf_expr *rf_x_alt(rf_rules *b, const rf_expr *const *kids, size_t n);
const rf_expr *rf_x_repeat(rf_rules *b, const rf_expr *kid, uint32_t min, uint32_t max);
const rf_expr *rf_x_list(rf_rules *b, const rf_expr *const *kids, const bool *can_skip, size_t n,
                         const char *between);
const rf_expr *rf_x_and(rf_rules *b, const rf_expr *x, const rf_expr *y);
const rf_expr *rf_x_diff(rf_rules *b, const rf_expr *x, const rf_expr *y);
const rf_expr *rf_x_call(rf_rules *b, uint32_t rule);
/* A sequence and a choice of the arguments. */
#define RF_X_SEQ(b, ...)                                 \
    rf_x_seq((b), (const rf_expr *const[]){__VA_ARGS__}, \
             sizeof((const rf_expr *const[]){__VA_ARGS__}) / sizeof(const rf_expr *))
#define RF_X_ALT(b, ...)                                 \
    rf_x_alt((b), (const rf_expr *const[]){__VA_ARGS__}, \
             sizeof((const rf_expr *const[]){__VA_ARGS__}) / sizeof(const rf_expr *))

/* A growing list of parts of one expression, used by the parsers.  Start from {0}. */
typedef struct rf_parts {
    const rf_expr **p;
    size_t n, cap;
    bool failed;
} rf_parts;
void rf_parts_add(rf_parts *l, const rf_expr *x);
/* Empties and frees the list, giving what it was together; NULL when a part or memory failed. */
const rf_expr *rf_parts_seq(rf_rules *b, rf_parts *l);
const rf_expr *rf_parts_alt(rf_rules *b, rf_parts *l);

#ifdef __cplusplus
}
#endif
