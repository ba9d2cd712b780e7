/* fair.h - whose request starts next: shares between flows (API keys), priorities within one.
 *
 * Each flow has a count of the tokens computed for it, divided by its weight; the flow with the least
 * starts next.  Pure bookkeeping: no clock, no requests, no I/O; the caller reports what happens.
 * The floor is the count of the flow that started last, and never falls.  A flow that comes back is
 * lifted to it, so nobody saves up; flows that wait are never below it, and above by no more than
 * their running requests have been charged. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RF_FAIR_MAX_WEIGHT = 1000,
    RF_FAIR_MAX_PRIORITY = 100,
    RF_FAIR_HEAD_START = 64,   /* requests of its flow that one level of priority overtakes */
    RF_FAIR_REMEMBERED = 1024, /* flows without requests that are, with the others, so many */
};
#define RF_FAIR_TOKEN (UINT64_C(1) << 20) /* what a token counts at weight 1 */

typedef struct rf_fair_flow {
    uint64_t id, count;
    uint64_t n_joined; /* requests, ever */
    uint32_t weight, n_live;
} rf_fair_flow;
typedef struct rf_fair { /* start from {0} */
    rf_fair_flow *flows; /* [n_flows] */
    uint32_t n_flows, cap;
    uint64_t floor;
} rf_fair;
typedef struct rf_fair_ticket {
    uint32_t flow; /* index, valid until rf_fair_leave */
    int64_t place; /* within its flow, lower ones first; the same: the one that came first */
    uint64_t number;
} rf_fair_ticket;

void rf_fair_free(rf_fair *f);
/* A request comes.  weight (1 to RF_FAIR_MAX_WEIGHT) is the flow's from now on; priority: lower ones
 * go first.  A request is overtaken by at most RF_FAIR_HEAD_START later ones of its flow per level
 * that lies between theirs. */
RF_CHECKED rf_status rf_fair_join(rf_fair *f, uint64_t id, uint32_t weight, int priority,
                                  rf_fair_ticket *out);
/* Does a go before b?  A strict order of the tickets of all requests that have not started. */
bool rf_fair_before(const rf_fair *f, rf_fair_ticket a, rf_fair_ticket b);
/* The first of them by that order starts, with so many tokens to compute at once. */
void rf_fair_start(rf_fair *f, rf_fair_ticket t, uint32_t n_tokens);
void rf_fair_charge(rf_fair *f, rf_fair_ticket t, uint32_t n_tokens); /* computed since */
void rf_fair_leave(rf_fair *f, rf_fair_ticket t);                     /* ended, started or not */

#ifdef __cplusplus
}
#endif
