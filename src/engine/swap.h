/* swap.h - host memory for the KV blocks and the states of preempted sequences, within a budget of bytes.
 *
 * A sequence that gives its blocks back may leave copies of the leading ones here, as many as fit, and
 * goes on from them instead of computing its tokens again.  Where it has a state, that of its last
 * token, only all of it together is of use.  Nothing depends on it: whatever is not here, or can no longer
 * be brought back, is recomputed.  One thread at a time. */
#pragma once
#include "backend/backend.h"
#include "engine/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_swap {
    const rf_backend_ops *ops;
    rf_exec *exec;
    uint32_t block_tokens;
    size_t block_bytes;
    size_t state_floats;   /* 0: sequences have no state */
    uint64_t budget, used; /* bytes */
    uint64_t n_out, n_in;  /* blocks copied, ever */
} rf_swap;
typedef struct rf_swapped { /* what one sequence left; start from {0} */
    uint8_t *blocks;        /* [n_blocks][block_bytes] */
    float *state;           /* [state_floats], or NULL */
    uint32_t n_blocks;
    uint32_t n_tokens; /* computed ones in them */
} rf_swapped;

/* budget 0: nothing is ever kept. */
void rf_swap_open(rf_swap *w, const rf_backend_ops *ops, rf_exec *exec, uint32_t block_tokens,
                  size_t state_floats, uint64_t budget);
/* Copies the blocks of seq's first n_done tokens, and the slot of its state behind these where it has
 * one, before they are released. */
void rf_swap_out(rf_swap *w, rf_swapped *s, const rf_kv_seq *seq, uint32_t slot, uint32_t n_done);
/* Behind the *n_done tokens that rf_kv_match found for seq: takes blocks from the pool for what lies
 * here beyond them, fills them, and raises *n_done; with a state, only if all is brought back, the state
 * to the slot, and true is returned then.  The copies are dropped. */
bool rf_swap_in(rf_swap *w, rf_swapped *s, rf_kv *kv, rf_kv_seq *seq, uint32_t slot,
                uint32_t *n_done);
void rf_swap_drop(rf_swap *w, rf_swapped *s); /* s is {0} again */

#ifdef __cplusplus
}
#endif
