/* index.c - see index.h.  Open addressing, linear probing, at most two thirds full. */
#include "text/index.h"

#include <string.h>

#include "base/map.h"
#include "base/os.h"

static uint32_t probe(const rf_index *x, rf_str key, uint64_t hash, uint64_t *at) {
    for (uint64_t i = hash & x->mask;; i = (i + 1) & x->mask) {
        uint64_t slot = x->slots[i];
        *at = i;
        if (slot == 0) return RF_INDEX_NONE;
        if (slot >> 32 != hash >> 32) continue;
        uint32_t id = (uint32_t)slot - 1;
        if (x->text[id].len == key.len && memcmp(x->text[id].p, key.p, key.len) == 0) return id;
    }
}

rf_status rf_index_build(rf_index *x, rf_arena *arena, const rf_str *text, uint32_t n) {
    uint64_t n_slots = 16;
    while (n_slots * 2 < (uint64_t)n * 3) {
        n_slots *= 2;
    }
    x->slots = rf_arena_alloc(arena, (size_t)n_slots, sizeof *x->slots);
    if (!x->slots) return RF_ENOMEM;
    x->mask = n_slots - 1;
    x->seed = rf_random_u64();
    x->text = text;
    for (uint32_t from = 0; from < n; from += RF_INDEX_BATCH) {
        uint32_t to = n - from < RF_INDEX_BATCH ? n : from + RF_INDEX_BATCH;
        uint64_t hash[RF_INDEX_BATCH];
        for (uint32_t id = from; id < to; id++) {
            hash[id - from] = rf_hash(text[id].p, text[id].len, x->seed);
            __builtin_prefetch(&x->slots[hash[id - from] & x->mask], 1);
        }
        for (uint32_t id = from; id < to; id++) {
            uint64_t h = hash[id - from], at;
            if (text[id].len == 0 || probe(x, text[id], h, &at) != RF_INDEX_NONE) continue;
            x->slots[at] = (h >> 32) << 32 | (id + 1);
        }
    }
    return RF_OK;
}

uint32_t rf_index_get(const rf_index *x, rf_str key) {
    uint64_t at;
    return probe(x, key, rf_hash(key.p, key.len, x->seed), &at);
}

void rf_index_get_many(const rf_index *x, const rf_str *keys, size_t n, uint32_t *ids) {
    uint64_t hash[RF_INDEX_BATCH], at;
    RF_ASSERT(n <= RF_INDEX_BATCH);
    for (size_t i = 0; i < n; i++) {
        hash[i] = rf_hash(keys[i].p, keys[i].len, x->seed);
        __builtin_prefetch(&x->slots[hash[i] & x->mask]);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t slot = x->slots[hash[i] & x->mask];
        if (slot) __builtin_prefetch(&x->text[(uint32_t)slot - 1]);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t slot = x->slots[hash[i] & x->mask];
        if (slot) __builtin_prefetch(x->text[(uint32_t)slot - 1].p);
    }
    for (size_t i = 0; i < n; i++) {
        ids[i] = probe(x, keys[i], hash[i], &at);
    }
}
