/* walk.h - what the attention kernels of few rows share (attend_vec.hip, attend_ints.hip, attend_halves.hip,
 * attend_halves_wave.hip): a block of threads walks over segments of the keys, all of them or those that are its turn; a
 * warp (32 threads, whatever the device calls one) has a KV block of each.  Then the blocks of
 * the segment are folded, a thread has one column of a head or two. */
#pragma once
#include "backend/gpu/kernels/span.h"

enum {
    RF_WALK_THREADS = 32 * RF_GPU_SEGMENT_BLOCKS,
    RF_WALK_HEADS = 4,   /* of a block of threads, at most */
    RF_WALK_COLUMNS = 4, /* of a thread, likewise */
};

#define RF_WALK_FIRST (-1.0f) /* in place of a total's factor, where a block is the first */

/* What warps leave of a segment's blocks, beside weighted values. */
typedef struct rf_walk_blocks {
    rf_f4 fold[RF_GPU_SEGMENT_BLOCKS]
              [RF_GPU_SEGMENT_BLOCKS]; /* each warp's own: c_total, c_part, l, m */
    rf_f4 m[RF_WALK_HEADS][RF_GPU_SEGMENT_BLOCKS / 4], l[RF_WALK_HEADS][RF_GPU_SEGMENT_BLOCKS / 4];
    uint32_t bits[RF_GPU_SEGMENT_BLOCKS]; /* visible keys */
} rf_walk_blocks;

/* Where a thread is: its warp's KV blocks, and the query heads of the block of threads. */
typedef struct rf_walk {
    rf_span span;
    const uint32_t *table;
    uint32_t kv_head, warp, lane;
    uint32_t in_group;            /* the first head's number among those that share the KV head, */
    uint32_t item;                /* and among all rows' */
    uint32_t segment, n_segments; /* the first of the walk, and where the row's end */
} rf_walk;

RF_DEVICE rf_walk rf_walk_of(const rf_gpu_attend_args *a, uint32_t n_heads) {
    const uint32_t row = rf_bid_x(), per_kv = a->n_heads / a->n_kv_heads;
    rf_walk w;
    w.span = rf_span_of(a, row);
    w.table = a->batch.table + (uint64_t)a->batch.row_seq[row] * a->batch.table_stride;
    w.kv_head = rf_bid_y();
    w.warp = rf_tid() / 32;
    w.lane = rf_tid() % 32;
    w.in_group = rf_bid_z() / a->n_walks * n_heads;
    w.item = row * a->n_heads + w.kv_head * per_kv + w.in_group;
    w.segment = rf_span_first(&w.span) / RF_GPU_SEGMENT_BLOCKS + rf_bid_z() % a->n_walks;
    w.n_segments = rf_div_up(rf_div_up(w.span.end, 32), RF_GPU_SEGMENT_BLOCKS);
    return w;
}

/* A KV block: its number in the pools and its visible keys. */
typedef struct rf_walk_block {
    uint32_t at, bits;
} rf_walk_block;

/* bits 0: none. */
RF_DEVICE rf_walk_block rf_walk_block_at(const rf_walk *w, uint32_t block) {
    rf_walk_block p = {0, rf_span_bits(&w->span, block)};
    if (p.bits) p.at = w->table[block];
    return p;
}

/* The warp's block of a segment. */
RF_DEVICE rf_walk_block rf_walk_block_of(const rf_walk *w, uint32_t segment) {
    return rf_walk_block_at(w, segment * RF_GPU_SEGMENT_BLOCKS + w->warp);
}

/* The first row of its KV head in the pools. */
RF_DEVICE uint64_t rf_walk_row(const rf_walk *w, const rf_gpu_attend_args *a,
                               const rf_walk_block *p) {
    return (p->at * a->n_kv_heads + w->kv_head) * (uint64_t)32;
}

/* Is KV block number b of the first segment, and what is before it, not written by the kernel in front?  With rows alone
 * that has written the row's last block only, and nothing where attention makes the heads. */
RF_DEVICE int rf_walk_is_old(const rf_gpu_attend_args *a, const rf_walk *w, uint32_t b) {
    const uint32_t n_old = a->rows_alone ? a->batch.pos[rf_bid_x()] / 32 : 0;
    return a->heads.n_parts > 0 || w->segment * RF_GPU_SEGMENT_BLOCKS + b < n_old;
}

/* Maximum and sum of a KV block for head number h; number: of the segment's blocks. */
RF_DEVICE void rf_walk_put_block(rf_walk_blocks *b, uint32_t number, uint32_t h, float m, float l) {
    b->m[h][number / 4].v[number % 4] = m;
    b->l[h][number / 4].v[number % 4] = l;
}

/* In place of what a warp without visible keys has not made. */
RF_DEVICE void rf_walk_leave_out(rf_walk_blocks *b, uint32_t lane, uint32_t number) {
    if (lane < RF_WALK_HEADS) rf_walk_put_block(b, number, lane, -__builtin_inff(), 0.0f);
}

RF_DEVICE float rf_walk_lane_xor(float x, uint32_t mask) {
    return rf_float_of(rf_lane_xor(rf_bits_of(x), mask));
}

/* A thread's scores of one head with four keys of a block, those from first on by which apart says, times
 * unit, become exponentials, 0 of keys that are not among the visible ones of bits; returns the block's
 * maximum.  Threads apart by a multiple of four have the same head. */
RF_DEVICE float rf_walk_soften(float s[4], const rf_gpu_attend_args *a, const rf_walk *w,
                               uint32_t block, uint32_t bits, uint32_t first,
                               const uint32_t apart[4], float unit) {
    int is_seen[4];
    float m = -__builtin_inff();
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        is_seen[i] = (int)(bits >> first >> apart[i] & 1);
        s[i] *= unit;
    }
    if (a->softcap > 0) { /* all that is seldom in one place, which one jump passes */
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            s[i] = a->softcap * rf_tanh32(s[i] / a->softcap);
    }
    if (w->span.mask) {
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            if (is_seen[i]) s[i] += w->span.mask[32 * block + first + apart[i]];
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        m = is_seen[i] && s[i] > m ? s[i] : m;
    RF_UNROLL
    for (uint32_t half = 16; half >= 4; half /= 2) {
        const float other = rf_walk_lane_xor(m, half);
        m = other > m ? other : m;
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const float p = rf_exp32_down(s[i] - m);
        s[i] = rf_float_of(rf_bits_of(p) & (0u - (uint32_t)is_seen[i]));
    }
    return m;
}

/* The columns of a head that a thread folds, n from number col on: 1, 2 or 4. */
typedef struct rf_walk_columns {
    uint32_t h, col, n;
    int is_here; /* else a head is walked that nobody asked for, or the thread has none */
} rf_walk_columns;

/* Of n_heads heads of dim columns each, by all threads of the block, so many. */
RF_DEVICE rf_walk_columns rf_walk_columns_of(const rf_gpu_attend_args *a, const rf_walk *w,
                                             uint32_t n_heads, uint32_t dim, uint32_t n_threads) {
    const uint32_t n = n_heads * dim > n_threads ? n_heads * dim / n_threads : 1,
                   per_head = dim / n;
    rf_walk_columns c = {rf_tid() / per_head % n_heads, n * (rf_tid() % per_head), n, 0};
    c.is_here = w->in_group + c.h < a->n_heads / a->n_kv_heads && rf_tid() < n_heads * per_head;
    return c;
}

/* Maximum, sum and weighted values of a thread's columns. */
typedef struct rf_walk_sum {
    float m, l, acc[RF_WALK_COLUMNS];
} rf_walk_sum;

/* How the lane's block of the segment is folded onto those before it: one of the first lanes of each warp's. */
RF_DEVICE void rf_walk_make_fold(rf_walk_blocks *b, const rf_walk *w, uint32_t h) {
    const float own = ((const float *)b->m[h])[w->lane];
    float before = -__builtin_inff();
    RF_UNROLL
    for (uint32_t i = 0; i < RF_GPU_SEGMENT_BLOCKS / 4; i++) {
        const rf_f4 four = b->m[h][i];
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            const float m = four.v[j];
            before = 4 * i + j < w->lane && m > before ? m : before;
        }
    }
    const rf_fold f = b->bits[w->lane] ? rf_fold_of(before, own) : rf_no_fold(before);
    const rf_f4 entry = {
        {f.is_first ? RF_WALK_FIRST : f.c_total, f.c_part, ((const float *)b->l[h])[w->lane], f.m}};
    b->fold[w->warp][w->lane] = entry;
}

/* The segment's blocks onto one another.  part: the first block's weighted values in the thread's
 * columns, the next block's stride further on. */
RF_DEVICE void rf_walk_fold_blocks(rf_walk_sum *t, rf_walk_blocks *b, const rf_walk *w,
                                   const rf_walk_columns *c, const float *part, uint32_t stride) {
    /* on their way while factors are made; four would take too many registers */
    float own[RF_GPU_SEGMENT_BLOCKS][RF_WALK_COLUMNS];
    const int is_early = c->n <= 2;
    RF_UNROLL
    for (uint32_t i = 0; i < RF_GPU_SEGMENT_BLOCKS && is_early; i++) {
        RF_UNROLL
        for (uint32_t k = 0; k < c->n; k++)
            own[i][k] = part[i * stride + k];
    }
    if (w->lane < RF_GPU_SEGMENT_BLOCKS) rf_walk_make_fold(b, w, c->h);
    rf_warp_sync();
    t->l = 0.0f;
    RF_UNROLL
    for (uint32_t k = 0; k < RF_WALK_COLUMNS; k++)
        t->acc[k] = 0.0f;
    RF_UNROLL
    for (uint32_t i = 0; i < RF_GPU_SEGMENT_BLOCKS; i++) {
        const rf_f4 e = b->fold[w->warp][i];
        const rf_fold f = {e.v[3], e.v[0], e.v[1], e.v[0] == RF_WALK_FIRST};
        t->m = f.m;
        t->l = rf_folded(&f, t->l, e.v[2]);
        RF_UNROLL
        for (uint32_t k = 0; k < c->n; k++)
            t->acc[k] = rf_folded(&f, t->acc[k], is_early ? own[i][k] : part[i * stride + k]);
    }
}

/* A folded segment onto the total, if a key of it is visible. */
RF_DEVICE void rf_walk_fold_segment(rf_walk_sum *total, const rf_walk_sum *t, uint32_t n_cols) {
    if (t->m == -__builtin_inff() && t->l == 0.0f) return;
    if (total->m == -__builtin_inff()) { /* as rf_folded has it, without the exponentials */
        *total = *t;
        return;
    }
    const rf_fold f = rf_fold_of(total->m, t->m);
    total->m = f.m;
    total->l = rf_folded(&f, total->l, t->l);
    RF_UNROLL
    for (uint32_t k = 0; k < n_cols; k++)
        total->acc[k] = rf_folded(&f, total->acc[k], t->acc[k]);
}

/* The sink counts once: where all segments are added up. */
RF_DEVICE void rf_walk_start(rf_walk_sum *total, const rf_gpu_attend_args *a, uint32_t head) {
    total->m = a->sinks && a->n_splits == 1 ? a->sinks[head] : -__builtin_inff();
    total->l = total->m == -__builtin_inff() ? 0.0f : 1.0f;
    RF_UNROLL
    for (uint32_t k = 0; k < RF_WALK_COLUMNS; k++)
        total->acc[k] = 0.0f;
}

RF_DEVICE float rf_walk_result(const rf_walk_sum *total, uint32_t k) {
    return total->l == 0.0f ? total->acc[k] : total->acc[k] / total->l;
}

/* Columns from number to on, of all segments. */
RF_DEVICE void rf_walk_put(const rf_gpu_attend_args *a, const rf_walk_sum *total, uint32_t item,
                           uint32_t to, uint32_t n_cols) {
    float *dst = a->dst + (uint64_t)item * a->value_dim;
    RF_UNROLL
    for (uint32_t k = 0; k < n_cols; k++)
        if (to + k < a->value_dim) dst[to + k] = rf_walk_result(total, k);
}

#if !defined(RF_AMD) /* whose compiler keeps more in lanes for it */
/* The most of n threads, 8, 16 or 32 to 256 side by side; all threads of the block call. */
RF_DEVICE uint32_t rf_walk_most(uint32_t *of_warps, uint32_t tid, uint32_t v, uint32_t n) {
    if (n < 32) {
        rf_lanes_most(&v, 1, n);
        return v;
    }
    v = rf_warp_most(v);
    if (n == 32) return v;
    if (tid % 32 == 0) of_warps[tid / 32] = v;
    rf_sync();
    return rf_warp_most(of_warps[tid / n * (n / 32) + tid % (n / 32)]);
}

/* A thread's n results, which begin with number at of all rows', in integers of groups of view, as canon.h has
 * them; all threads of the block call, which has whole groups.  of_warps: a word of shared memory for each warp. */
RF_DEVICE void rf_walk_put_ints(const rf_gpu_quant *to, uint32_t *of_warps,
                                const float v[RF_WALK_COLUMNS], uint64_t at, int is_here,
                                uint32_t tid, uint32_t n, uint32_t view) {
    const uint32_t part = view == 256 ? 16 : 32;
    uint32_t most = 0, sum = 0, bytes = 0;
    RF_UNROLL
    for (uint32_t k = 0; k < n; k++) {
        most = rf_max_u32(most, rf_size_of(v[k]));
    }
    most = rf_walk_most(of_warps, tid, most, view / n);
    const rf_quant_scale scale = rf_quant_scale_of(rf_float_of(most), view);
    RF_UNROLL
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t q = (uint32_t)rf_quantised(v[k], scale.id);
        sum += q;
        bytes |= (q & 255u) << 8 * k;
    }
    rf_lanes_sum(&sum, 1, part / n);
    if (!is_here) return;
    if (n == 4)
        *(uint32_t *)(void *)(to->q + at) = bytes;
    else if (n == 2)
        *(uint16_t *)(void *)(to->q + at) = (uint16_t)bytes;
    else
        to->q[at] = (int8_t)bytes;
    if (n * tid % part == 0) to->sum[at / part] = (int32_t)sum;
    if (n * tid % view == 0) to->d[at / view] = scale.d;
}

/* The results of a walk over all segments, [heads][dim] in shared memory, and these in integers: n by each thread, which is
 * reckoned again, so that there are registers before. */
RF_DEVICE void rf_walk_put_both(const rf_gpu_attend_args *a, uint32_t *of_warps,
                                const float *results, uint32_t dim, uint32_t n) {
    const uint32_t tid = rf_tid_now(), per_kv = a->n_heads / a->n_kv_heads,
                   in_group = rf_bid_z() / a->n_walks * RF_WALK_HEADS,
                   item = rf_bid_x() * a->n_heads + rf_bid_y() * per_kv + in_group;
    const int is_here = in_group + n * tid / dim < per_kv;
    const uint64_t at = (uint64_t)item * dim + n * tid;
    float v[RF_WALK_COLUMNS] = {0.0f, 0.0f, 0.0f, 0.0f};
    RF_UNROLL
    for (uint32_t k = 0; k < n; k++) {
        v[k] = results[n * tid + k];
        if (is_here) a->dst[at + k] = v[k];
    }
    if (a->ints_view == 256)
        rf_walk_put_ints(&a->ints, of_warps, v, at, is_here, tid, n, 256);
    else
        rf_walk_put_ints(&a->ints, of_warps, v, at, is_here, tid, n, 32);
}
#endif

/* Of one segment. */
RF_DEVICE void rf_walk_put_part(const rf_gpu_attend_args *a, const rf_walk_sum *t, uint32_t item,
                                uint32_t segment, uint32_t to, uint32_t n_cols) {
    const uint64_t part = (uint64_t)item * a->n_splits + segment;
    float *dst = a->parts + part * a->value_dim;
    if (to == 0) rf_put_part(a, part, t->m, t->l);
    if (to >= a->value_dim) return;
    if (n_cols == 1) dst[to] = t->acc[0];
    RF_UNROLL
    for (uint32_t k = 0; k + 1 < n_cols; k += 2) { /* all are there: widths are multiples of 8 */
        const rf_f2 both = {{t->acc[k], t->acc[k + 1]}};
        *(rf_f2 *)(void *)(dst + to + k) = both;
    }
}

/* What the warps made of a segment: into the total, or put as a part. to: the columns' number in
 * the result. */
RF_DEVICE void rf_walk_end_segment(rf_walk_sum *total, rf_walk_blocks *b,
                                   const rf_gpu_attend_args *a, const rf_walk *w,
                                   const rf_walk_columns *c, const float *part, uint32_t stride,
                                   uint32_t segment, uint32_t to) {
    rf_walk_sum t;
    rf_walk_fold_blocks(&t, b, w, c, part, stride);
    if (a->n_splits == 1)
        rf_walk_fold_segment(total, &t, c->n);
    else if (c->is_here)
        rf_walk_put_part(a, &t, w->item + c->h, segment, to, c->n);
}
