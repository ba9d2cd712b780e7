/* kv.h - who holds which KV block: a pool, reference counts, block tables, and reuse of prefixes.
 *
 * Host-only bookkeeping, deterministic, no device memory.  Full blocks of finished sequences stay
 * findable by their tokens until the pool needs them (least recently used goes first); a match
 * compares tokens and never trusts a hash.  Sequences of different salts never share a block.  One
 * thread at a time. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_kv rf_kv;
typedef struct rf_kv_seq { /* start from {0}; one reference per block is held */
    uint32_t *blocks;      /* [n_blocks], in order of position */
    uint32_t n_blocks, cap;
    uint32_t n_committed; /* leading blocks registered for reuse */
    uint64_t salt;        /* whose blocks these are; set while the sequence is empty */
} rf_kv_seq;
typedef struct rf_kv_stats {
    uint32_t n_blocks, n_free, n_cached; /* cached: no reference, but findable; counted in n_free */
    uint64_t hits, misses, evictions;    /* blocks */
} rf_kv_stats;

RF_CHECKED rf_status rf_kv_create(rf_kv **out, uint32_t n_blocks, uint32_t block_tokens);
void rf_kv_free(rf_kv *kv);
/* Takes references on the longest chain of cached full blocks of seq's salt that spells tokens[0..n),
 * never all n (at least one token is left to compute; the last one is not looked at).  Returns the
 * number of tokens found.  seq must be empty. */
RF_CHECKED rf_status rf_kv_match(rf_kv *kv, rf_kv_seq *seq, const int32_t *tokens, uint32_t n,
                                 uint32_t *found);
/* Of the blocks that a match just took, gives back those behind the first n tokens: they were found, but
 * cannot be gone on from. */
void rf_kv_unmatch(rf_kv *kv, rf_kv_seq *seq, uint32_t n);
/* The name of block i of seq, a committed one, and of all that comes before it: the same for no other
 * content, never again once the pool has lost it, and never 0. */
uint64_t rf_kv_name(const rf_kv *kv, const rf_kv_seq *seq, uint32_t i);
/* Of the blocks that rf_kv_match would take now, those that other sequences hold: they cost the pool
 * nothing.  Changes nothing and counts as no lookup. */
uint32_t rf_kv_shared(const rf_kv *kv, uint64_t salt, const int32_t *tokens, uint32_t n);
/* Takes references on the longest chain of cached full blocks of tokens[0..n), maybe all of them, for
 * their content and not to go on from; counts as no lookup.  seq must be empty. */
RF_CHECKED rf_status rf_kv_hold(rf_kv *kv, rf_kv_seq *seq, const int32_t *tokens, uint32_t n);
/* Makes room for n_tokens in all: all or nothing, RF_EFULL when the pool cannot. */
RF_CHECKED rf_status rf_kv_reserve(rf_kv *kv, rf_kv_seq *seq, uint32_t n_tokens);
/* The first n tokens are now computed: full blocks among them become findable. */
RF_CHECKED rf_status rf_kv_commit(rf_kv *kv, rf_kv_seq *seq, const int32_t *tokens, uint32_t n);
/* Gives back the blocks behind those that the first n tokens take. */
void rf_kv_trim(rf_kv *kv, rf_kv_seq *seq, uint32_t n);
void rf_kv_release(rf_kv *kv, rf_kv_seq *seq); /* drops the references; seq keeps only its salt */
void rf_kv_get_stats(const rf_kv *kv, rf_kv_stats *out);
/* Tests: every block is free, cached or referenced exactly as often as seqs say. */
bool rf_kv_consistent(const rf_kv *kv, const rf_kv_seq *const *seqs, size_t n_seqs);

#ifdef __cplusplus
}
#endif
