/* own.h - heads that the attention kernels of few rows (walk.h) norm and rotate themselves,
 * where the rows do not see each other's keys: the queries, and the row's own key and value,
 * which take their places in shared memory. */
#pragma once
#include "backend/gpu/kernels/walk.h"

#define RF_NO_OWN 0xffffffffu

/* The position of the row's own key, where the walk comes by it and it is not in the pool. */
RF_DEVICE uint32_t rf_own_pos(const rf_gpu_attend_args *a, const rf_walk *w) {
    const uint32_t first = rf_span_first(&w->span), end = rf_div_up(w->span.end, 32);
    const uint32_t pos = a->batch.pos[rf_bid_x()], last = pos / 32;
    const uint32_t ahead = last / RF_GPU_SEGMENT_BLOCKS - w->segment; /* wraps where it is behind */
    const int is_met = first <= last && last < end && ahead < w->n_segments;
    return a->heads.n_parts > 0 && is_met && ahead % a->n_walks == 0 ? pos : RF_NO_OWN;
}

/* A head of queries, keys or values that a warp makes itself, four elements a thread. */
typedef struct rf_own_head {
    rf_gpu_heads h;
    int is_here, is_query, is_value; /* else the key */
    uint8_t *pool;                   /* the row for a key or a value */
    const float *x;                  /* the head's first element */
    float w[4], b[4];                /* of the norm */
    rf_f2 cs[2];                     /* of two pairs' rotation */
} rf_own_head;

/* What does not depend on the kernel in front. */
RF_DEVICE void rf_own_expect(rf_own_head *t, uint32_t row, uint32_t pos, uint32_t head) {
    const uint32_t lane = rf_tid() % 32;
    const uint64_t at = ((uint64_t)row * t->h.n_heads + head) * t->h.head_dim;
    t->x = rf_place_now(t->h.x + at);
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t k = lane + 32 * i;
        t->w[i] = t->h.w && k < t->h.head_dim ? t->h.w[k] : 0.0f;
        t->b[i] = t->h.b && k < t->h.head_dim ? t->h.b[k] : 0.0f;
    }
    const rf_f2 *cs = (const rf_f2 *)(const void *)(t->h.cos_sin + (uint64_t)pos * t->h.n_dims);
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        if (t->h.cos_sin && lane + 32 * i < t->h.n_dims / 2) t->cs[i] = cs[lane + 32 * i];
}

/* tree16 of the warp's n elements, or of their squares, which every thread gets; those behind the last are zeros,
 * which change no sum.  Threads sixteen apart have every other element of a lane. */
RF_DEVICE float rf_own_sum(const float v[4], int is_sum) {
    const int is_upper = rf_tid() % 32 / 16;
    float acc = 0.0f;
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const float other = rf_float_of(rf_lane_xor(rf_bits_of(v[i]), 16));
        const float first = is_upper ? other : v[i], second = is_upper ? v[i] : other;
        acc = is_sum ? acc + first : rf_fma(first, first, acc);
        acc = is_sum ? acc + second : rf_fma(second, second, acc);
    }
    RF_UNROLL
    for (uint32_t half = 8; half > 0; half /= 2)
        acc += rf_float_of(rf_lane_xor(rf_bits_of(acc), half));
    return acc;
}

/* The thread's elements normed. */
RF_DEVICE void rf_own_norm(float v[4], const rf_own_head *t) {
    const uint32_t lane = rf_tid() % 32, n = t->h.head_dim;
    if (t->h.norm == RF_GPU_LAYER_NORM || !rf_warp_may_skip()) {
        const float mean = rf_own_sum(v, 1) / (float)n;
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            if (t->h.norm == RF_GPU_LAYER_NORM) v[i] = lane + 32 * i < n ? v[i] - mean : 0.0f;
    }
    const float r = 1.0f / __builtin_sqrtf(rf_own_sum(v, 0) / (float)n + t->h.eps);
    RF_UNROLL
    for (uint32_t i = 0; i < 4 && t->h.norm != RF_GPU_NO_NORM; i++) {
        v[i] = v[i] * r;
        if (t->h.w) v[i] = v[i] * t->w[i];
        if (t->h.b) v[i] = v[i] + t->b[i];
    }
}

/* The head, normed and rotated, in x, which is the warp's own. */
RF_DEVICE void rf_own_make(float *x, const rf_own_head *t) {
    const uint32_t lane = rf_tid() % 32, n = t->h.head_dim, half = t->h.n_dims / 2;
    float v[4];
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) /* all at once: a branch each would wait for each */
        v[i] = t->x[rf_min_u32(lane + 32 * i, n - 1)];
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        v[i] = lane + 32 * i < n ? v[i] : 0.0f;
    if (t->h.norm != RF_GPU_NO_NORM || !rf_warp_may_skip()) rf_own_norm(v, t);
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        x[lane + 32 * i] = v[i];
    rf_warp_sync();
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t pair = lane + 32 * i;
        if (!t->h.cos_sin || pair >= half) continue;
        const uint32_t i0 = t->h.neox ? pair : 2 * pair,
                       i1 = t->h.neox ? pair + half : 2 * pair + 1;
        const float x0 = x[i0], x1 = x[i1], c = t->cs[i].v[0], sn = t->cs[i].v[1];
        x[i0] = rf_fma(x0, c, -(x1 * sn));
        x[i1] = rf_fma(x0, sn, x1 * c);
    }
    rf_warp_sync();
}

/* Of the block's own heads, n_heads of queries, if the arguments say how they are made, and where
 * has_own the row's own key and value, that of a number; with what does not depend on the kernel
 * in front. */
RF_DEVICE rf_own_head rf_own_head_of(const rf_gpu_attend_args *a, const rf_walk *w,
                                     uint32_t n_heads, int has_own, uint32_t number) {
    const uint32_t per_kv = a->n_heads / a->n_kv_heads, n_q = a->heads.n_parts == 3 ? n_heads : 0;
    const uint32_t row = rf_bid_x(), pos = a->batch.pos[row];
    const uint32_t query = w->kv_head * per_kv + rf_min_u32(w->in_group + number, per_kv - 1);
    rf_own_head t;
    t.is_query = number < n_q;
    t.is_value = number > n_q;
    t.is_here = number < n_q + (has_own ? 2 : 0);
    t.h = a->heads.part[0];
    if (a->heads.n_parts == 3 && number >= n_q) t.h = a->heads.part[1];
    if (a->heads.n_parts == 3 && number > n_q) t.h = a->heads.part[2];
    if (a->heads.n_parts == 2 && number > n_q) t.h = a->heads.part[1];
    const rf_walk_block block = {w->table[pos / 32], 0};
    t.pool = (uint8_t *)t.h.pool +
             (rf_walk_row(w, a, &block) + pos % 32) * rf_kv_row_bytes(t.h.pool_type, t.h.head_dim);
    rf_own_expect(&t, row, pos, t.is_query ? query : w->kv_head);
    return t;
}
