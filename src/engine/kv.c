/* kv.c - the block pool and the index of reusable prefixes.
 *
 * A full block's content is named by a serial: one per distinct (salt, serial of the block before it,
 * its tokens).  Serials are never used twice, so a block that was evicted and refilled can never pass
 * for what it held before.  A free block is either blank (a stack) or cached (a list, oldest
 * first). */
#include "engine/kv.h"

#include <string.h>

#include "base/map.h"

#define NONE UINT32_MAX

typedef struct block {
    uint32_t refs;
    uint32_t older, newer; /* neighbours among cached blocks */
    uint32_t next_in_bucket;
    uint64_t serial; /* 0: not full yet */
    uint64_t parent; /* serial of the block before it, 0 at the start */
    uint64_t salt;
    bool indexed; /* findable; false also for the twin of an indexed block */
} block;

struct rf_kv {
    uint32_t n_blocks, block_tokens, n_buckets;
    block *blocks;     /* [n_blocks] */
    int32_t *tokens;   /* [n_blocks][block_tokens], of full blocks */
    uint32_t *buckets; /* [n_buckets] heads of the index's chains */
    uint32_t *blank;   /* [n_blank] stack of free blocks with nothing in them */
    uint32_t n_blank, n_cached, oldest, newest;
    uint64_t next_serial;
    rf_kv_stats stats;
};

rf_status rf_kv_create(rf_kv **out, uint32_t n_blocks, uint32_t block_tokens) {
    *out = NULL;
    if (n_blocks == 0 || n_blocks == NONE || block_tokens == 0) return RF_EARG;
    rf_kv *kv = rf_alloc(1, sizeof *kv);
    if (!kv) return RF_ENOMEM;
    kv->n_blocks = n_blocks;
    kv->block_tokens = block_tokens;
    kv->n_buckets = 1;
    while (kv->n_buckets < n_blocks && kv->n_buckets < (UINT32_C(1) << 31))
        kv->n_buckets *= 2;
    size_t n_tokens;
    kv->blocks = rf_alloc(n_blocks, sizeof *kv->blocks);
    kv->buckets = rf_alloc(kv->n_buckets, sizeof *kv->buckets);
    kv->blank = rf_alloc(n_blocks, sizeof *kv->blank);
    kv->tokens = rf_mul_ok(n_blocks, block_tokens, &n_tokens)
                     ? rf_alloc(n_tokens, sizeof *kv->tokens)
                     : NULL;
    if (!kv->blocks || !kv->buckets || !kv->blank || !kv->tokens) {
        rf_kv_free(kv);
        return RF_ENOMEM;
    }
    memset(kv->buckets, 0xff, kv->n_buckets * sizeof *kv->buckets);
    for (uint32_t i = n_blocks; i-- > 0;)
        kv->blank[kv->n_blank++] = i; /* block 0 goes first */
    kv->oldest = kv->newest = NONE;
    kv->next_serial = 1;
    *out = kv;
    return RF_OK;
}

void rf_kv_free(rf_kv *kv) {
    if (!kv) return;
    rf_free(kv->blocks);
    rf_free(kv->tokens);
    rf_free(kv->buckets);
    rf_free(kv->blank);
    rf_free(kv);
}

/* ---- cached blocks, oldest first ---- */

static void cache_push(rf_kv *kv, uint32_t id) {
    block *b = &kv->blocks[id];
    b->older = kv->newest;
    b->newer = NONE;
    if (kv->newest != NONE)
        kv->blocks[kv->newest].newer = id;
    else
        kv->oldest = id;
    kv->newest = id;
    kv->n_cached++;
}

static void cache_remove(rf_kv *kv, uint32_t id) {
    block *b = &kv->blocks[id];
    if (b->older != NONE)
        kv->blocks[b->older].newer = b->newer;
    else
        kv->oldest = b->newer;
    if (b->newer != NONE)
        kv->blocks[b->newer].older = b->older;
    else
        kv->newest = b->older;
    kv->n_cached--;
}

/* ---- the index ---- */

static int32_t *tokens_of(const rf_kv *kv, uint32_t id) {
    return kv->tokens + (size_t)id * kv->block_tokens;
}

static uint32_t *bucket_of(const rf_kv *kv, uint64_t salt, uint64_t parent, const int32_t *tokens) {
    uint64_t h = rf_hash(tokens, kv->block_tokens * sizeof *tokens, salt ^ parent);
    return &kv->buckets[h & (kv->n_buckets - 1)];
}

static uint32_t index_find(const rf_kv *kv, uint64_t salt, uint64_t parent, const int32_t *tokens) {
    uint32_t id = *bucket_of(kv, salt, parent, tokens);
    while (id != NONE &&
           (kv->blocks[id].parent != parent || kv->blocks[id].salt != salt ||
            memcmp(tokens_of(kv, id), tokens, kv->block_tokens * sizeof *tokens) != 0))
        id = kv->blocks[id].next_in_bucket;
    return id;
}

static void index_remove(rf_kv *kv, uint32_t id) {
    const block *b = &kv->blocks[id];
    uint32_t *at = bucket_of(kv, b->salt, b->parent, tokens_of(kv, id));
    while (*at != id)
        at = &kv->blocks[*at].next_in_bucket;
    *at = kv->blocks[id].next_in_bucket;
    kv->blocks[id].indexed = false;
}

/* ---- sequences ---- */

static uint32_t take_free(rf_kv *kv) {
    uint32_t id;
    if (kv->n_blank) {
        id = kv->blank[--kv->n_blank];
    } else {
        id = kv->oldest;
        RF_ASSERT(id != NONE);
        cache_remove(kv, id);
        index_remove(kv, id);
        kv->stats.evictions++;
    }
    kv->blocks[id] = (block){.refs = 1};
    return id;
}

static rf_status grow_table(rf_kv_seq *seq, uint32_t n_blocks) {
    if (n_blocks <= seq->cap) return RF_OK;
    uint32_t cap = seq->cap ? seq->cap : 8;
    while (cap < n_blocks)
        cap = cap > UINT32_MAX / 2 ? n_blocks : cap * 2;
    uint32_t *blocks = rf_realloc(seq->blocks, seq->cap, cap, sizeof *blocks);
    if (!blocks) return RF_ENOMEM;
    seq->blocks = blocks;
    seq->cap = cap;
    return RF_OK;
}

rf_status rf_kv_hold(rf_kv *kv, rf_kv_seq *seq, const int32_t *tokens, uint32_t n) {
    RF_ASSERT(seq->n_blocks == 0);
    uint32_t most = n / kv->block_tokens;
    RF_TRY(grow_table(seq, most));
    uint64_t parent = 0;
    while (seq->n_blocks < most) {
        uint32_t id =
            index_find(kv, seq->salt, parent, tokens + (size_t)seq->n_blocks * kv->block_tokens);
        if (id == NONE) break;
        block *b = &kv->blocks[id];
        if (b->refs++ == 0) cache_remove(kv, id);
        parent = b->serial;
        seq->blocks[seq->n_blocks++] = id;
    }
    seq->n_committed = seq->n_blocks;
    return RF_OK;
}

rf_status rf_kv_match(rf_kv *kv, rf_kv_seq *seq, const int32_t *tokens, uint32_t n,
                      uint32_t *found) {
    uint32_t most = n ? n - 1 : 0;
    *found = 0;
    RF_TRY(rf_kv_hold(kv, seq, tokens, most));
    kv->stats.hits += seq->n_blocks;
    kv->stats.misses += most / kv->block_tokens - seq->n_blocks;
    *found = seq->n_blocks * kv->block_tokens;
    return RF_OK;
}

void rf_kv_unmatch(rf_kv *kv, rf_kv_seq *seq, uint32_t n) {
    uint32_t n_found = seq->n_blocks;
    rf_kv_trim(kv, seq, n);
    kv->stats.hits -= n_found - seq->n_blocks;
    kv->stats.misses += n_found - seq->n_blocks;
}

uint64_t rf_kv_name(const rf_kv *kv, const rf_kv_seq *seq, uint32_t i) {
    RF_ASSERT(i < seq->n_committed);
    return kv->blocks[seq->blocks[i]].serial;
}

uint32_t rf_kv_shared(const rf_kv *kv, uint64_t salt, const int32_t *tokens, uint32_t n) {
    uint32_t most = n ? (n - 1) / kv->block_tokens : 0, n_shared = 0;
    uint64_t parent = 0;
    for (uint32_t i = 0; i < most; i++) {
        uint32_t id = index_find(kv, salt, parent, tokens + (size_t)i * kv->block_tokens);
        if (id == NONE) break;
        parent = kv->blocks[id].serial;
        n_shared += kv->blocks[id].refs > 0;
    }
    return n_shared;
}

rf_status rf_kv_reserve(rf_kv *kv, rf_kv_seq *seq, uint32_t n_tokens) {
    uint32_t want = n_tokens / kv->block_tokens + (n_tokens % kv->block_tokens != 0);
    if (want <= seq->n_blocks) return RF_OK;
    if (want - seq->n_blocks > kv->n_blank + kv->n_cached) return RF_EFULL;
    RF_TRY(grow_table(seq, want));
    while (seq->n_blocks < want)
        seq->blocks[seq->n_blocks++] = take_free(kv);
    return RF_OK;
}

rf_status rf_kv_commit(rf_kv *kv, rf_kv_seq *seq, const int32_t *tokens, uint32_t n) {
    uint32_t full = n / kv->block_tokens;
    if (full > seq->n_blocks) return RF_EARG;
    for (uint32_t i = seq->n_committed; i < full; i++) {
        uint32_t id = seq->blocks[i];
        block *b = &kv->blocks[id];
        b->parent = i ? kv->blocks[seq->blocks[i - 1]].serial : 0;
        b->salt = seq->salt;
        memcpy(tokens_of(kv, id), tokens + (size_t)i * kv->block_tokens,
               kv->block_tokens * sizeof *tokens);
        uint32_t twin = index_find(kv, b->salt, b->parent, tokens_of(kv, id));
        if (twin != NONE) {
            b->serial = kv->blocks[twin].serial; /* same content: children may chain to either */
            continue;
        }
        uint32_t *bucket = bucket_of(kv, b->salt, b->parent, tokens_of(kv, id));
        b->serial = kv->next_serial++;
        b->next_in_bucket = *bucket;
        b->indexed = true;
        *bucket = id;
    }
    if (full > seq->n_committed) seq->n_committed = full;
    return RF_OK;
}

void rf_kv_trim(rf_kv *kv, rf_kv_seq *seq, uint32_t n) {
    uint32_t kept = n / kv->block_tokens + (n % kv->block_tokens != 0);
    /* Last block first: the tail of a sequence is the least useful prefix, and ages first. */
    for (; seq->n_blocks > kept; seq->n_blocks--) {
        uint32_t id = seq->blocks[seq->n_blocks - 1];
        RF_ASSERT(id < kv->n_blocks && kv->blocks[id].refs > 0);
        if (--kv->blocks[id].refs > 0) continue;
        if (kv->blocks[id].indexed)
            cache_push(kv, id);
        else
            kv->blank[kv->n_blank++] = id;
    }
    if (seq->n_committed > kept) seq->n_committed = kept;
}

void rf_kv_release(rf_kv *kv, rf_kv_seq *seq) {
    rf_kv_trim(kv, seq, 0);
    rf_free(seq->blocks);
    *seq = (rf_kv_seq){.salt = seq->salt};
}

void rf_kv_get_stats(const rf_kv *kv, rf_kv_stats *out) {
    *out = kv->stats;
    out->n_blocks = kv->n_blocks;
    out->n_cached = kv->n_cached;
    out->n_free = kv->n_blank + kv->n_cached;
}

/* How often the sequences refer to each block; false when one names a block that does not exist. */
static bool count_refs(const rf_kv *kv, const rf_kv_seq *const *seqs, size_t n_seqs,
                       uint32_t *refs) {
    for (size_t s = 0; s < n_seqs; s++)
        for (uint32_t i = 0; i < seqs[s]->n_blocks; i++) {
            if (seqs[s]->blocks[i] >= kv->n_blocks) return false;
            refs[seqs[s]->blocks[i]]++;
        }
    return true;
}

/* Every block that calls itself findable is in the index, once, and nothing else is. */
static bool index_consistent(const rf_kv *kv) {
    uint32_t n_indexed = 0, n_chained = 0;
    for (uint32_t id = 0; id < kv->n_blocks; id++) {
        const block *b = &kv->blocks[id];
        if (!b->indexed) continue;
        n_indexed++;
        if (index_find(kv, b->salt, b->parent, tokens_of(kv, id)) != id) return false;
    }
    for (uint32_t i = 0; i < kv->n_buckets; i++)
        for (uint32_t id = kv->buckets[i]; id != NONE; id = kv->blocks[id].next_in_bucket)
            if (++n_chained > kv->n_blocks) return false;
    return n_chained == n_indexed;
}

bool rf_kv_consistent(const rf_kv *kv, const rf_kv_seq *const *seqs, size_t n_seqs) {
    uint32_t *refs = rf_alloc(kv->n_blocks, sizeof *refs);
    if (!refs) return false;
    bool ok = count_refs(kv, seqs, n_seqs, refs) && index_consistent(kv);
    uint32_t n_used = 0, n_cached = 0;
    for (uint32_t id = 0; id < kv->n_blocks; id++) {
        ok = ok && refs[id] == kv->blocks[id].refs;
        n_used += refs[id] > 0;
    }
    for (uint32_t id = kv->oldest; id != NONE && n_cached <= kv->n_blocks;
         id = kv->blocks[id].newer) {
        ok = ok && refs[id] == 0 && kv->blocks[id].indexed;
        n_cached++;
    }
    for (uint32_t i = 0; i < kv->n_blank; i++)
        ok = ok && refs[kv->blank[i]] == 0 && !kv->blocks[kv->blank[i]].indexed;
    rf_free(refs);
    return ok && n_cached == kv->n_cached && n_used + n_cached + kv->n_blank == kv->n_blocks;
}
