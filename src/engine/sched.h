/* sched.h - how many tokens of each running sequence go into the next batch.
 *
 * Pure: sizes in, sizes out; no clock, no memory, no I/O.  Decoding sequences come first so that no
 * prompt delays them; what is left of the budget goes to prompts, oldest first. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_sched_seq {
    uint32_t n_tokens; /* known so far: prompt and answer */
    uint32_t n_done;   /* of these, computed and in the KV cache; less than n_tokens */
    uint32_t chunk;    /* out: tokens to compute in this step, may be 0 */
} rf_sched_seq;

/* seqs: [n] in order of age.  Returns the rows of the batch: at most budget, at least 1 if n and
 * budget are. */
uint32_t rf_sched_chunks(rf_sched_seq *seqs, size_t n, uint32_t budget);

#ifdef __cplusplus
}
#endif
