/* norm.h - rows normed and made integers of by blocks of 256 threads, one a row or several.
 *
 * Each of a row's blocks adds up all of it: sixteen threads have a stretch of 256 elements, a lane of it
 * each, straight from memory; only the lanes of the stretches pass through shared memory.  Then a block
 * normalises and quantises the row, or its part of it: of a stretch sixteen threads have four times four
 * neighbouring elements, or 64 have them once. */
#pragma once
#include "backend/gpu/kernels/canon.h"

/* What the sixteen lanes add up. */
enum { SUM_OF_SQUARES, SUM_OF_VALUES, SUM_OF_DISTANCES };

enum {
    NORM_OWN = 16,       /* elements of a thread's lane in a piece of the row */
    NORM_STRETCHES = 16, /* of a piece */
    NORM_PIECE = NORM_STRETCHES * RF_NORM_STRETCH,
    NORM_PADDED = NORM_STRETCHES + 4, /* so that no bank is met twice */
    NORM_WARPS = NORM_PIECE / NORM_OWN / 32,
    NORM_FOURS = NORM_OWN / 4, /* of a thread that has sixteen elements */
    NORM_PART = NORM_PIECE / NORM_FOURS,
};

typedef struct norm_shared {
    /* [lane][stretch] of a piece; two, taken in turns; read by fours */
    __attribute__((aligned(16))) float lanes[2][16 * NORM_PADDED];
    uint32_t most[2][NORM_WARPS]; /* the largest |x| of each 128 elements of a part; likewise */
} norm_shared;

/* Elements of the thread's lane in its stretch of the piece at first, the first of which is k. */
RF_DEVICE uint32_t norm_count(uint32_t k, uint32_t n) {
    return k < n ? rf_min_u32((n - k + 15) / 16, NORM_OWN) : 0;
}

/* The thread's elements of its lane in its stretch of the piece at first; zeros behind the row. */
RF_DEVICE void norm_load_lane(float v[NORM_OWN], const float *x, uint32_t first, uint32_t n) {
    const uint32_t k = first + rf_tid() / 16 * RF_NORM_STRETCH + rf_tid() % 16;
    const uint32_t count = norm_count(k, n);
    if (count == NORM_OWN) {
        RF_UNROLL
        for (uint32_t i = 0; i < NORM_OWN; i++)
            v[i] = x[k + 16 * i];
        return;
    }
    RF_UNROLL
    for (uint32_t i = 0; i < NORM_OWN; i++)
        v[i] = i < count ? x[k + 16 * i] : 0.0f;
}

/* Four elements from number k on, zeros behind the row. */
RF_DEVICE void norm_load(float v[4], const float *x, uint32_t k, uint32_t n) {
    rf_f4 four = {{0.0f, 0.0f, 0.0f, 0.0f}};
    if (n % 4 == 0) { /* so that rows, and what has a row's length, start at 16 bytes */
        if (k < n) four = *(const rf_f4 *)(const void *)(x + k);
    } else {
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            if (k + j < n) four.v[j] = x[k + j];
    }
    RF_UNROLL
    for (uint32_t j = 0; j < 4; j++)
        v[j] = four.v[j];
}

RF_DEVICE void norm_store(float *dst, const float v[4], uint32_t k, uint32_t n) {
    if (n % 4 == 0) {
        const rf_f4 four = {{v[0], v[1], v[2], v[3]}};
        if (k < n) *(rf_f4 *)(void *)(dst + k) = four;
    } else {
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            if (k + j < n) dst[k + j] = v[j];
    }
}

/* Where the thread's own four number i of n_fours starts, in the stretches from element first on: its threads'
 * fours lie side by side. */
RF_DEVICE uint32_t norm_four(uint32_t first, uint32_t i, uint32_t n_fours) {
    const uint32_t n_threads = RF_NORM_STRETCH / 4 / n_fours;
    return first + rf_tid() / n_threads * RF_NORM_STRETCH + 4 * n_threads * i +
           rf_tid() % n_threads * 4;
}

/* n: a multiple of four. */
RF_DEVICE void norm_load_whole_fours(float v[NORM_OWN], const float *x, uint32_t first, uint32_t n,
                                     uint32_t n_fours) {
    RF_UNROLL
    for (uint32_t i = 0; i < n_fours; i++) { /* without a branch each */
        const uint32_t k = norm_four(first, i, n_fours);
        rf_f4 four = {{0.0f, 0.0f, 0.0f, 0.0f}};
        if (k < n) four = *(const rf_f4 *)(const void *)(x + k);
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            v[4 * i + j] = four.v[j];
    }
}

RF_DEVICE void norm_load_fours(float v[NORM_OWN], const float *x, uint32_t first, uint32_t n,
                               uint32_t n_fours) {
    if (n % 4 == 0) {
        norm_load_whole_fours(v, x, first, n, n_fours);
        return;
    }
    RF_UNROLL
    for (uint32_t i = 0; i < n_fours; i++)
        norm_load(v + 4 * i, x, norm_four(first, i, n_fours), n);
}

RF_DEVICE void norm_store_fours(float *dst, const float v[NORM_OWN], uint32_t first, uint32_t n,
                                uint32_t n_fours) {
    RF_UNROLL
    for (uint32_t i = 0; i < n_fours; i++)
        norm_store(dst, v + 4 * i, norm_four(first, i, n_fours), n);
}

/* What elements are multiplied with or what is added to them, of which w NULL has nothing. */
RF_DEVICE void norm_weights(float v[NORM_OWN], const float *w, uint32_t first, uint32_t n,
                            uint32_t n_fours) {
    if (w) {
        norm_load_fours(v, w, first, n, n_fours);
        return;
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 4 * n_fours; i++)
        v[i] = 0.0f;
}

/* The thread's lane of its stretch. */
RF_DEVICE float norm_lane(const float v[NORM_OWN], uint32_t first, uint32_t n, int what,
                          float mean) {
    const uint32_t k = first + rf_tid() / 16 * RF_NORM_STRETCH + rf_tid() % 16;
    const uint32_t count = norm_count(k, n);
    float sum = 0.0f;
    RF_UNROLL
    for (uint32_t i = 0; i < NORM_OWN; i++) {
        float d = v[i] - mean;
        if (what == SUM_OF_DISTANCES && i >= count) d = 0.0f;
        sum = what == SUM_OF_VALUES ? sum + v[i] : rf_fma(d, d, sum);
    }
    return sum;
}

/* A piece's stretches of the thread's lane onto what is before them. */
RF_DEVICE float norm_add_stretches(float total, const float *lanes) {
    const float *own = lanes + rf_tid() % 16 * NORM_PADDED;
    RF_UNROLL
    for (uint32_t i = 0; i < NORM_STRETCHES / 4; i++) {
        const rf_f4 four = ((const rf_f4 *)(const void *)own)[i];
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            total += four.v[j];
    }
    return total;
}

/* The sum of sixteen neighbours' lanes, by tree16. */
RF_DEVICE float norm_add_lanes(float total) {
    RF_UNROLL
    for (uint32_t half = 8; half > 0; half /= 2)
        total += rf_float_of(rf_lane_xor(rf_bits_of(total), half));
    return total;
}

/* The canonical sum of a row, which every thread gets.  v: the thread's elements of its lane in the
 * first piece; turn: number of the sum in this kernel. */
RF_DEVICE float norm_sum(norm_shared *s, float v[NORM_OWN], const float *x, uint32_t n, int what,
                         float mean, uint32_t turn) {
    const uint32_t stretch = rf_tid() / 16, lane = rf_tid() % 16;
    float *lanes = s->lanes[turn];
    float total = 0.0f;
    for (uint32_t first = 0;;) {
        lanes[lane * NORM_PADDED + stretch] = norm_lane(v, first, n, what, mean);
        rf_sync();
        total = norm_add_stretches(total, lanes);
        first += NORM_PIECE;
        if (first >= n) break;
        norm_load_lane(v, x, first, n);
        rf_sync();
    }
    return norm_add_lanes(total);
}

/* Four elements into bytes. */
RF_DEVICE uint32_t quant_four(const float v[4], float id) {
    uint32_t q = 0;
    RF_UNROLL
    for (uint32_t b = 0; b < 4; b++)
        q |= ((uint32_t)rf_quantised(v[b], id) & 255u) << 8 * b;
    return q;
}

/* The largest |x| of four, as bits. */
RF_DEVICE uint32_t quant_size(const float v[4]) {
    uint32_t most = 0;
    RF_UNROLL
    for (uint32_t j = 0; j < 4; j++)
        most = rf_max_u32(most, rf_size_of(v[j]));
    return most;
}

/* The thread's own elements in groups of 32, of eight threads' fours each.  All fours side by side, so that one
 * hides what another waits for. */
RF_DEVICE void quant_32(const float v[NORM_OWN], const rf_gpu_quant *to, uint64_t row,
                        uint32_t first, uint32_t n, uint32_t n_fours) {
    uint32_t most[NORM_FOURS], q[NORM_FOURS], sum[NORM_FOURS];
    float d[NORM_FOURS];
    RF_UNROLL
    for (uint32_t i = 0; i < n_fours; i++)
        most[i] = quant_size(v + 4 * i);
    rf_lanes_most(most, n_fours, 8);
    RF_UNROLL
    for (uint32_t i = 0; i < n_fours; i++) {
        const rf_quant_scale s = rf_quant_scale_of(rf_float_of(most[i]), 32);
        d[i] = s.d;
        q[i] = quant_four(v + 4 * i, s.id);
        sum[i] = (uint32_t)rf_dot4(q[i], 0x01010101u, 0);
    }
    rf_lanes_sum(sum, n_fours, 8);
    RF_UNROLL
    for (uint32_t i = 0; i < n_fours; i++) {
        const uint64_t at = row * n + norm_four(first, i, n_fours);
        if (norm_four(first, i, n_fours) >= n) break;
        *(uint32_t *)(void *)(to->q + at) = q[i];
        if (rf_tid() % 8 != 0) continue;
        to->d[at / 32] = d[i];
        to->sum[at / 32] = (int32_t)sum[i];
    }
}

/* The largest |x| of the thread's stretch. */
RF_DEVICE uint32_t quant_stretch(uint32_t most_of[NORM_WARPS], const float v[NORM_OWN],
                                 uint32_t n_fours) {
    const uint32_t warp = rf_tid() / 32;
    uint32_t most = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < n_fours; i++)
        most = rf_max_u32(most, quant_size(v + 4 * i));
    if (n_fours > 1) { /* no more threads than a warp has */
        rf_lanes_most(&most, 1, RF_NORM_STRETCH / 4 / n_fours);
        return most;
    }
    most = rf_warp_most(most);
    if (rf_tid() % 32 == 0) most_of[warp] = most;
    rf_sync();
    return rf_max_u32(most, most_of[warp ^ 1]);
}

/* In groups of 256: the stretch. */
RF_DEVICE void quant_256(uint32_t most_of[NORM_WARPS], const float v[NORM_OWN],
                         const rf_gpu_quant *to, uint64_t row, uint32_t first, uint32_t n,
                         uint32_t n_fours) {
    const uint32_t n_threads = RF_NORM_STRETCH / 4 / n_fours;
    const float amax = rf_float_of(quant_stretch(most_of, v, n_fours));
    const rf_quant_scale s = rf_quant_scale_of(amax, 256);
    uint32_t q[NORM_FOURS], sum[NORM_FOURS];
    RF_UNROLL
    for (uint32_t i = 0; i < n_fours; i++) {
        q[i] = quant_four(v + 4 * i, s.id);
        sum[i] = (uint32_t)rf_dot4(q[i], 0x01010101u, 0);
    }
    rf_lanes_sum(sum, n_fours, 4);
    if (norm_four(first, 0, n_fours) >= n) return;
    const uint64_t at = row * n + norm_four(first, 0, n_fours);
    RF_UNROLL
    for (uint32_t i = 0; i < n_fours; i++) {
        *(uint32_t *)(void *)(to->q + at + n_threads * 4 * i) = q[i];
        if (rf_tid() % 4 == 0) to->sum[at / 16 + n_threads / 4 * i] = (int32_t)sum[i];
    }
    if (rf_tid() % n_threads == 0) to->d[at / 256] = s.d;
}

/* The thread's own elements in both views, where they are asked for; turn: how often this kernel has been
 * here. */
RF_DEVICE void quant_own(norm_shared *s, const float v[NORM_OWN], const rf_gpu_quant *q32,
                         const rf_gpu_quant *q256, uint32_t row, uint32_t first, uint32_t n,
                         uint32_t n_fours, uint32_t turn) {
    if (q32->q) quant_32(v, q32, row, first, n, n_fours);
    if (q256->q) quant_256(s->most[turn % 2], v, q256, row, first, n, n_fours);
}

/* What an RMS norm multiplies a row with whose squares' sum is this. */
RF_DEVICE float norm_factor_of(float sum, const rf_gpu_norm_args *a) {
    return 1.0f / __builtin_sqrtf(sum / (float)a->n + a->eps);
}

/* Of row x; lane: the thread's elements of its lane in the first piece. */
RF_DEVICE float norm_factor(norm_shared *s, float lane[NORM_OWN], const rf_gpu_norm_args *a,
                            const float *x) {
    return norm_factor_of(norm_sum(s, lane, x, a->n, SUM_OF_SQUARES, 0.0f, 0), a);
}

/* By blocks of 128 threads, which have two stretches of a piece each; lanes: as in norm_shared, free when it returns. */
RF_DEVICE float norm_factor_by_128(float *lanes, const rf_gpu_norm_args *a, const float *x) {
    float total = 0.0f;
    for (uint32_t first = 0; first < a->n; first += NORM_PIECE) {
        float v[2][NORM_OWN];
        RF_UNROLL
        for (uint32_t i = 0; i < 2; i++)
            norm_load_lane(v[i], x, first + i * (NORM_PIECE / 2), a->n);
        RF_UNROLL
        for (uint32_t i = 0; i < 2; i++)
            lanes[rf_tid() % 16 * NORM_PADDED + rf_tid() / 16 + i * (NORM_STRETCHES / 2)] =
                norm_lane(v[i], first + i * (NORM_PIECE / 2), a->n, SUM_OF_SQUARES, 0.0f);
        rf_sync();
        total = norm_add_stretches(total, lanes);
        rf_sync();
    }
    return norm_factor_of(norm_add_lanes(total), a);
}

/* A row in floats and in integers, as far as somebody asks for them: of each piece all, or with n_fours 1 the
 * part from element first on. */
RF_DEVICE void norm_write(norm_shared *s, const rf_gpu_norm_args *a, uint32_t row, uint32_t first,
                          uint32_t n_fours) {
    const uint32_t n = a->n;
    const float *x = a->x + (uint64_t)row * n;
    float w[NORM_OWN], lane[NORM_OWN], v[NORM_OWN], mean = 0.0f;
    norm_weights(w, a->w, first, n, n_fours);
    rf_await_before();
    norm_load_lane(lane, x, 0, n);
    norm_load_fours(v, x, first, n, n_fours);
    if (a->kind == RF_GPU_LAYER_NORM) {
        mean = norm_sum(s, lane, x, n, SUM_OF_VALUES, 0.0f, 1) / (float)n;
        if (n > NORM_PIECE) norm_load_lane(lane, x, 0, n);
    }
    const int what = a->kind == RF_GPU_LAYER_NORM ? SUM_OF_DISTANCES : SUM_OF_SQUARES;
    const float ss = norm_sum(s, lane, x, n, what, mean, 0);
    const float r = 1.0f / __builtin_sqrtf(ss / (float)n + a->eps);
    for (uint32_t turn = 0;; turn++) {
        float b[NORM_OWN];
        norm_weights(b, a->b, first, n, n_fours);
        RF_UNROLL
        for (uint32_t i = 0; i < 4 * n_fours; i++) {
            v[i] = (v[i] - mean) * r;
            if (a->w) v[i] = v[i] * w[i];
            if (a->b) v[i] = v[i] + b[i];
        }
        if (a->dst) norm_store_fours(a->dst + (uint64_t)row * n, v, first, n, n_fours);
        quant_own(s, v, &a->q32, &a->q256, row, first, n, n_fours, turn);
        first += NORM_PIECE;
        if (first >= n) break;
        norm_weights(w, a->w, first, n, n_fours);
        norm_load_fours(v, x, first, n, n_fours);
    }
}
