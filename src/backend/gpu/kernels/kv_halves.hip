/* kv_halves.hip - keys and values of Q8_0 as a pool of F16, for attention of many rows, which reads each of them many
 * times (attend_halves_tile.hip, attend_halves_group.hip); a block of threads per KV block, KV head and sequence.
 *
 * The pool has the numbers of the cache's blocks, so that the sequences' tables are good for it: in a->parts all keys,
 * then all values, those of blocks that no row sees as they were. */
#include "backend/gpu/kernels/ints.h"
#include "backend/gpu/kernels/q8.h"
#include "backend/gpu/kernels/span.h"
#include "backend/gpu/tile.h"

#if !defined(RF_AMD)
enum {
    KV_HALVES_THREADS = RF_BLOCK_kv_halves,
    KV_HALVES_PIECES =
        (int)RF_ATTEND_HALVES_DIM * (int)RF_KV_Q8_BYTES / 16, /* of keys or values, at most */
};

typedef struct kv_halves_shared {
    rf_u4 raw[2][KV_HALVES_PIECES]; /* keys, values */
    uint32_t is_seen;
} kv_halves_shared;

/* Does a row of the sequence see something of KV block b?  All threads call. */
RF_DEVICE uint32_t kv_halves_is_seen(kv_halves_shared *sh, const rf_gpu_attend_args *a,
                                     uint32_t seq, uint32_t b) {
    if (32 * b >= a->batch.kv_len[seq]) return 0;
    if (a->pattern == RF_ATTN_CAUSAL || a->pattern == RF_ATTN_BIDIRECTIONAL) return 1;
    if (rf_tid() == 0) sh->is_seen = 0;
    rf_sync();
    RF_NO_UNROLL
    for (uint32_t row = rf_tid(); row < a->n_rows; row += KV_HALVES_THREADS) {
        if (a->batch.row_seq[row] != seq) continue;
        const rf_span span = rf_span_of(a, row);
        if (rf_span_bits(&span, b)) sh->is_seen = 1;
    }
    rf_sync();
    return sh->is_seen;
}

RF_KERNEL_EARLY(kv_halves, rf_gpu_attend_args, 4) {
    RF_SHARED kv_halves_shared sh;
    const uint32_t tid = rf_tid(), seq = a.first_seq + rf_bid_z(), b = rf_bid_x(), dim = a.head_dim;
    const uint32_t pieces = dim * RF_KV_Q8_BYTES / 16,
                   n = 4 * dim; /* of the block in Q8_0, in F16 */
    rf_await_before();
    if (!kv_halves_is_seen(&sh, &a, seq, b)) return;
    const uint64_t block =
        (uint64_t)a.batch.table[(uint64_t)seq * a.batch.table_stride + b] * a.n_kv_heads +
        rf_bid_y();
    RF_UNROLL
    for (uint32_t which = 0; which < 2; which++) {
        const rf_u4 *from = (const rf_u4 *)(which ? a.v : a.k) + block * pieces;
        RF_NO_UNROLL
        for (uint32_t i = tid; i < pieces; i += KV_HALVES_THREADS)
            sh.raw[which][i] = from[i];
    }
    rf_sync();
    rf_u4 *to = (rf_u4 *)(void *)a.parts + block * n;
    RF_NO_UNROLL
    for (uint32_t i = tid; i < 2 * n; i += KV_HALVES_THREADS) {
        const uint32_t which = i / n, row = i % n / (dim / 8), piece = i % (dim / 8);
        const uint8_t *group =
            (const uint8_t *)sh.raw[which] + (row * (dim / 32) + piece / 4) * RF_KV_Q8_BYTES;
        const uint32_t words[2] = {rf_two_halves(group + 2 + piece % 4 * 8),
                                   rf_two_halves(group + 2 + piece % 4 * 8 + 4)};
        to[which * (uint64_t)a.n_kv_blocks * a.n_kv_heads * n + i % n] =
            q8_eight(words, *(const uint16_t *)(const void *)group);
    }
}
#endif
