/* sched.h - who may start, who must give way, and how many tokens each running sequence computes next.
 *
 * Pure: sizes in, decisions out; no clock, no memory, no I/O.  Sequences are listed oldest first and
 * all rules go by age: waiting ones start strictly in order, and when the pool of KV blocks runs dry
 * it is the youngest running one that gives its blocks back.  So the oldest always computes at least
 * one token per step, ends after finitely many, and makes the next one the oldest: all finish. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_sched_seq {
    uint32_t n_tokens; /* known so far: prompt and answer */
    uint32_t n_done;   /* of these, computed and in the KV cache; less than n_tokens */
    uint32_t n_most;   /* tokens it may ever have; at least n_tokens */
    uint32_t n_blocks; /* KV blocks held */
    uint32_t n_whole;  /* so many of the next tokens must come in one step: all or none */
    uint32_t n_stop;   /* behind so many of the next tokens a step must end; 0: anywhere */
    uint32_t chunk;    /* out: tokens to compute in this step, may be 0 */
} rf_sched_seq;
typedef struct rf_sched_pool {
    uint32_t block_tokens; /* per KV block */
    uint32_t n_free;       /* blocks that nobody holds */
} rf_sched_pool;

/* May the first waiting sequence start beside seqs [n], all running?  Yes when blocks are free for
 * its tokens and one more, besides what the running ones still need for theirs and one more each;
 * always when none runs.  next->n_blocks: those that it would share with running ones. */
bool rf_sched_may_start(const rf_sched_seq *seqs, size_t n, const rf_sched_seq *next,
                        rf_sched_pool pool);
/* seqs: [n] in order of age.  Decoding sequences come first so that no prompt delays them; what is
 * left of the budget goes to prompts, oldest first; one whose n_whole it cannot hold keeps the rest from
 * younger ones, until enough is left.  Returns the rows of the batch: at most budget, at least 1 if n and
 * budget are and no n_whole is above the budget. */
uint32_t rf_sched_chunks(rf_sched_seq *seqs, size_t n, uint32_t budget);
/* What steps cost, as measured; target_us: how long one that decodes should last, 0: no wish. */
typedef struct rf_sched_pace {
    uint32_t target_us;
    double decode_us; /* a step that only decodes; 0: not measured yet */
    double row_us;    /* each token of a prompt beside that; 0: not measured yet */
} rf_sched_pace;
/* The budget of a step by its pace: all of it where nobody decodes, else rows for those who do and, of
 * prompts, as many as the rest of the target has time for, but never none. */
uint32_t rf_sched_rows(const rf_sched_pace *p, const rf_sched_seq *seqs, size_t n, uint32_t budget);
/* A step of these chunks took so long. */
void rf_sched_measure(rf_sched_pace *p, const rf_sched_seq *seqs, size_t n, uint64_t us);
/* Do the chunks fit the pool?  The last sequence's is cut to what the others leave.  False: they do
 * not, and the last sequence must give its blocks back (then ask again without it).  Never false
 * for one sequence alone. */
bool rf_sched_fit(rf_sched_seq *seqs, size_t n, rf_sched_pool pool);

#ifdef __cplusplus
}
#endif
