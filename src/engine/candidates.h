/* candidates.h - lists of tokens that may be chosen: their order, their likelihoods, the best of a row.
 *
 * The order is by falling logit, then rising id, so that every result is defined; a long list is put
 * in order only where a sum of likelihoods ends.  Private to the engine; no memory is taken. */
#pragma once
#include "backend/best.h"
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_candidate {
    int32_t id;
    double logit, p;
} rf_candidate;

typedef struct rf_candidates {
    rf_candidate *c;
    size_t n;
    bool sorted;
} rf_candidates;

/* Below 0: x comes first. */
int rf_by_logit(const rf_candidate *x, const rf_candidate *y);
void rf_candidates_sort(rf_candidates *l);
void rf_candidates_keep(rf_candidates *l, size_t n); /* the first n, at least one */
void rf_candidates_keep_best(rf_candidates *l, size_t k);
double rf_candidates_max(const rf_candidates *l);           /* the best logit */
void rf_candidates_softmax(rf_candidates *l, double scale); /* fills p: of scale * logit */
/* Fills p with the candidates' masses below the best one's (backend/noise.h), integers; returns their sum. */
uint64_t rf_candidates_weigh(rf_candidates *l);
/* How many of the likeliest hold this share of all, at least 1, by p; they are moved to the front, the
 * last of them behind the others. */
size_t rf_candidates_head(rf_candidates *l, double share);

/* The k best of those that are offered: a heap whose root is the worst kept, O(log k) for each. */
typedef struct rf_best_heap {
    rf_candidate *c; /* [k] */
    size_t n, k;
} rf_best_heap;

void rf_best_offer(rf_best_heap *h, rf_candidate next);
/* May a logit that is at most this be among them? */
bool rf_best_needs(const rf_best_heap *h, float most);

/* A whole row, and the largest logits of its groups. */
typedef struct rf_row {
    const float *x; /* [n] NaN: impossible */
    size_t n;
    float max;
    float *most; /* [rf_row_groups] */
} rf_row;

size_t rf_row_groups(const rf_row *r);
size_t rf_row_group_size(const rf_row *r, size_t g); /* columns; the last may have fewer */
/* Fills most and max; false: nothing is finite, or something is above all numbers. */
bool rf_row_find_most(rf_row *r);
/* The kth of most, by falling value; -inf if there are fewer.  c: [k] that is overwritten. */
float rf_row_kth_most(const rf_row *r, size_t k, rf_candidate *c);
/* The next three after rf_row_find_most; masses are as backend/noise.h has them.  Of all columns: */
uint64_t rf_row_mass(const rf_row *r);
/* Do those before the column, by falling logit, then rising column, hold less than the share, of 2^32? */
bool rf_row_in_share(const rf_row *r, uint32_t column, uint32_t share);
/* The likeliest whose masses reach `mass`, into c [n]: at least one, as rf_candidates_head orders them; p is
 * their mass. */
rf_candidates rf_row_head(const rf_row *r, uint64_t mass, rf_candidate *c);

#ifdef __cplusplus
}
#endif
