/* states.h - who holds which slot of recurrent state: sequences that run, and snapshots to go on from.
 *
 * A state is that of its sequence's last token alone and cannot be taken back, so a prefix of KV blocks
 * is worth only as much as there is a snapshot behind it.  Snapshots are taken at the ends of full
 * blocks, kept under the block's name (rf_kv_name), and go when their slots are needed, least recently
 * used first.  Host-only bookkeeping: whoever calls copies the slots.  One thread at a time. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RF_NO_STATE UINT32_MAX

typedef struct rf_states rf_states;
typedef struct rf_stateful { /* what a sequence has to do with them */
    uint32_t slot;           /* RF_NO_STATE: it does not run */
    uint32_t from;           /* the slot to copy before it goes on; RF_NO_STATE: none */
    uint32_t mark[2];        /* tokens behind which it leaves a snapshot that stays; 0: none */
    uint64_t moving; /* name of its latest other snapshot, which the next one replaces; 0: none */
} rf_stateful;

/* Slots 0 .. n_running - 1 for sequences, n_snapshots more behind them. */
RF_CHECKED rf_status rf_states_create(rf_states **out, uint32_t n_running, uint32_t n_snapshots);
void rf_states_free(rf_states *st);
/* A sequence starts: a slot, whatever is in it, and no marks.  At most n_running at a time. */
void rf_states_take(rf_states *st, rf_stateful *s);
void rf_states_give(rf_states *st, rf_stateful *s); /* also one that has no slot */
/* The slot of the snapshot of that name; RF_NO_STATE: there is none. */
uint32_t rf_states_find(rf_states *st, uint64_t name);
/* A slot for a snapshot of that name of s, n_done tokens long: that of the one it replaces, a blank one,
 * or the least recently used.  RF_NO_STATE: there is such a snapshot already. */
uint32_t rf_states_keep(rf_states *st, rf_stateful *s, uint64_t name, uint32_t n_done);
void rf_states_forget(rf_states *st, uint64_t name); /* also one that is not there */
void rf_states_forget_all(rf_states *st);
/* The next of a sequence's marks behind n_done tokens, as so many more; 0: none. */
uint32_t rf_states_to_mark(const rf_stateful *s, uint32_t n_done);
/* Tests: every slot of n_running is free or one of seqs', no name is there twice. */
bool rf_states_consistent(const rf_states *st, const rf_stateful *const *seqs, size_t n_seqs);

#ifdef __cplusplus
}
#endif
