/* index.h - from token text to token id, built once and looked up millions of times.
 *
 * What base/map.h does, made for one job: loading a vocabulary looks up hundreds of thousands of
 * texts, and doing so in batches hides the memory's latency, which is nearly all the time it takes.
 * Seeded hash, so hostile texts cost what ordinary ones do.  Texts are borrowed. */
#pragma once
#include "base/arena.h"

#define RF_INDEX_NONE  UINT32_MAX
#define RF_INDEX_BATCH 32

typedef struct rf_index {
    const rf_str *text; /* [n] */
    uint64_t *slots;    /* [mask + 1]: upper half of the hash, then id + 1; 0 = free */
    uint64_t mask, seed;
} rf_index;

/* Indexes text[0..n), n < 2^31; of equal texts the lowest id counts, empty ones are left out. */
RF_CHECKED rf_status rf_index_build(rf_index *x, rf_arena *arena, const rf_str *text, uint32_t n);
uint32_t rf_index_get(const rf_index *x, rf_str key); /* RF_INDEX_NONE when absent */
/* The same for n <= RF_INDEX_BATCH keys at once. */
void rf_index_get_many(const rf_index *x, const rf_str *keys, size_t n, uint32_t *ids);
