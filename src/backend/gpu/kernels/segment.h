/* segment.h - a segment of keys at once, for many rows over keys and values in sixteen bits on NVIDIA's matrix
 * units: what attend_halves_tile.hip and attend_halves_group.hip share.
 *
 * A warp has sixteen items (prompt.h).  Thread 4g + t of it has scores of items g and g + 8 with keys 2t and 2t + 1
 * of each eight, which are, as exponentials of the largest in the segment, what it brings for weighted values.  So
 * these are one chain over the segment's keys, and nothing is folded but segments. */
#pragma once
#include "backend/gpu/kernels/half.h"
#include "backend/gpu/kernels/prompt.h"

#if !defined(RF_AMD)
enum {
    SEGMENT_STEPS = RF_GPU_SEGMENT_BLOCKS * 2, /* of sixteen keys */
    SEGMENT_SCORES = 8 * SEGMENT_STEPS,        /* of a thread */
    SEGMENT_OF_BLOCK = 16,                     /* of these */
    SEGMENT_CAPPED = 8, /* scores capped at once, so that there is little code */
};

/* Score number i of a thread: of which of its items, and of which key of its KV block. */
RF_DEVICE uint32_t segment_item(uint32_t i) { return i / 2 % 2; }
RF_DEVICE uint32_t segment_key(uint32_t i, uint32_t t) { return i % 16 / 4 * 8 + 2 * t + i % 2; }

/* A thread's items in shared memory. */
RF_DEVICE prompt_item *segment_items(prompt_item *items, const prompt_place *at, uint32_t r) {
    return &items[16 * at->warp + at->lane / 4 + 8 * r];
}

/* The keys that an item sees, of a sequence of which it may not be. */
RF_DEVICE rf_span segment_span(const rf_gpu_attend_args *a, const rf_rows_walk *w, uint32_t row) {
    rf_span span = rf_span_of(a, row);
    span.mask = 0; /* those with masks are for other kernels */
    if (a->batch.row_seq[row] != w->seq) span.begin = span.end = span.n_global = 0;
    return span;
}

/* Scores times unit with a softcap. */
RF_DEVICE void segment_cap(float s[SEGMENT_SCORES], const float unit[2], float softcap) {
    RF_NO_UNROLL
    for (uint32_t n = 0; n < SEGMENT_SCORES; n += SEGMENT_CAPPED) {
        float x[SEGMENT_CAPPED];
        RF_UNROLL
        for (uint32_t i = 0; i < SEGMENT_CAPPED; i++)
            x[i] = half_capped(s[i] * unit[segment_item(i)], softcap, 0.0f);
        RF_UNROLL
        for (uint32_t i = SEGMENT_CAPPED; i < SEGMENT_SCORES; i++)
            s[i - SEGMENT_CAPPED] = s[i];
        RF_UNROLL
        for (uint32_t i = 0; i < SEGMENT_CAPPED; i++)
            s[SEGMENT_SCORES - SEGMENT_CAPPED + i] = x[i];
    }
}

/* Scores of what the thread's items do not see become -inf; returns the KV blocks of which that is something, a bit
 * each. */
RF_DEVICE uint32_t segment_hide(float s[SEGMENT_SCORES], prompt_item *items,
                                const rf_gpu_attend_args *a, const prompt_place *at,
                                const rf_rows_walk *w, uint32_t segment) {
    const uint32_t first = segment * RF_GPU_SEGMENT_BLOCKS;
    rf_span span[2];
    uint32_t partial = 0;
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++)
        span[r] = segment_span(a, w, segment_items(items, at, r)->row);
    RF_UNROLL
    for (uint32_t b = 0; b < RF_GPU_SEGMENT_BLOCKS; b++) {
        if (32 * (first + b) >= w->lo && 32 * (first + b + 1) <= w->hi) continue;
        const uint32_t bits[2] = {rf_span_bits(&span[0], first + b),
                                  rf_span_bits(&span[1], first + b)};
        RF_UNROLL
        for (uint32_t i = 0; i < SEGMENT_OF_BLOCK; i++)
            if (!(bits[segment_item(i)] >> segment_key(i, at->t) & 1))
                s[SEGMENT_OF_BLOCK * b + i] = -__builtin_inff();
        if ((bits[0] & bits[1]) != ~0u) partial |= 1u << b;
    }
    return partial;
}

/* A KV block's exponentials as they are multiplied, and those of both items onto their sums, of even keys and odd ones. */
RF_DEVICE void segment_pack(uint32_t p[2][4], float sum[2][2], float s[SEGMENT_OF_BLOCK],
                            const half_soft soft[2], uint32_t form) {
    RF_UNROLL
    for (uint32_t i = 0; i < SEGMENT_OF_BLOCK; i++)
        s[i] = half_exp(soft[segment_item(i)], s[i]);
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) /* keys 16 apart first */
        sum[i / 2][i % 2] += (s[i] + s[i + 8]) + (s[i + 4] + s[i + 12]);
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        const float *two = s + i / 4 * 8 + i % 4 / 2 * 4 + i % 2 * 2;
        p[i / 4][i % 4] = half_two(two[0], two[1], form);
    }
}

/* The sum of what the threads of an item have. */
RF_DEVICE float segment_sum(const float sum[2]) {
    float all = sum[0] + sum[1];
    RF_UNROLL
    for (uint32_t other = 1; other < 4; other *= 2)
        all += rf_float_of(rf_lane_xor(rf_bits_of(all), other));
    return all;
}

/* The largest of an item's scores. */
RF_DEVICE float segment_most(const float s[SEGMENT_SCORES], uint32_t r) {
    float most[2] = {-__builtin_inff(), -__builtin_inff()};
    RF_UNROLL
    for (uint32_t i = 0; i < SEGMENT_SCORES; i++)
        if (segment_item(i) == r) most[i % 2] = half_larger(most[i % 2], s[i]);
    most[0] = half_larger(most[0], most[1]);
    RF_UNROLL
    for (uint32_t other = 1; other < 4; other *= 2)
        most[0] = half_larger(most[0], rf_float_of(rf_lane_xor(rf_bits_of(most[0]), other)));
    return most[0];
}

/* Products of queries and keys become what multiplies values, sixteen keys a step; ml: of the thread's items.  Returns the
 * KV blocks of which these do not see everything, a bit each. */
RF_DEVICE uint32_t segment_soften(uint32_t p[SEGMENT_STEPS][4], prompt_ml ml[2],
                                  float s[SEGMENT_SCORES], prompt_item *items,
                                  const rf_gpu_attend_args *a, const rf_rows_walk *w,
                                  uint32_t segment, uint32_t form) {
    const prompt_place at = prompt_place_now();
    const uint32_t begin = segment * RF_GPU_SEGMENT_BLOCKS * 32,
                   end = begin + RF_GPU_SEGMENT_BLOCKS * 32;
    const int is_capped = a->softcap > 0;
    float unit[2];
    uint32_t partial = 0;
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++)
        unit[r] = segment_items(items, &at, r)->unit;
    if (is_capped) segment_cap(s, unit, a->softcap);
    if (begin < w->lo || end > w->hi) partial = segment_hide(s, items, a, &at, w, segment);
    half_soft soft[2];
    float sum[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        const float most = segment_most(s, r), of_item = is_capped ? 1.0f : unit[r];
        soft[r] = half_soft_of(most, of_item);
        ml[r].m = most * of_item * HALF_LN_2;
        if (most == -__builtin_inff()) partial = 255;
    }
    RF_UNROLL
    for (uint32_t b = 0; b < RF_GPU_SEGMENT_BLOCKS; b++)
        segment_pack(p + 2 * b, sum, s + SEGMENT_OF_BLOCK * b, soft, form);
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++)
        ml[r].l = segment_sum(sum[r]);
    return partial;
}

/* No weighted values yet. */
RF_DEVICE void segment_clear(prompt_sum *sum) {
    RF_UNROLL
    for (uint32_t i = 0; i < 8 * PROMPT_SIXTEENS; i++)
        sum->acc[i / 8][i / 4 % 2][i % 4] = 0.0f;
}

/* The total -------------------------------------------------------------------------------------*/

/* Of the thread's items: maxima and sums in registers, weighted values in shared memory, of the warp
 * [sixteens][2][32], four columns of a sixteen by each thread.  Without a sink -0 stands for no values yet, which is not
 * seen in a sum. */
RF_DEVICE void segment_begin_total(rf_u4 *values, prompt_ml total[2], prompt_item *items,
                                   uint32_t sixteens) {
    const prompt_place at = prompt_place_now();
    rf_warp_sync(); /* items are there */
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        total[r] = segment_items(items, &at, r)->total;
        const uint32_t nothing = rf_bits_of(total[r].l == 0.0f ? -0.0f : 0.0f);
        const rf_u4 four = {{nothing, nothing, nothing, nothing}};
        RF_UNROLL
        for (uint32_t i = 0; i < sixteens; i++)
            values[64 * i + 32 * r + at.lane] = four;
    }
}

/* A segment of the thread's items onto the total; values of one of which nothing was seen are +0.  All of the total's are
 * on their way at once. */
RF_DEVICE void segment_fold(rf_u4 *values, prompt_ml total[2], const prompt_ml ml[2],
                            const prompt_sum *sum, uint32_t sixteens) {
    rf_f4 *own = (rf_f4 *)(void *)values + prompt_anew(rf_tid() % 32);
    rf_f4 onto[PROMPT_SIXTEENS][2];
    float c_part[2];
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        float c_total;
        prompt_fold(&total[r], ml[r], -0.0f, &c_total, &c_part[r]);
        RF_UNROLL
        for (uint32_t i = 0; i < sixteens; i++) {
            const rf_f4 four = own[64 * i + 32 * r];
            RF_UNROLL
            for (uint32_t d = 0; d < 4; d++)
                onto[i][r].v[d] = four.v[d] * c_total;
        }
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * sixteens; i++) {
        const uint32_t r = i % 2;
        rf_f4 four;
        RF_UNROLL
        for (uint32_t d = 0; d < 4; d++)
            four.v[d] =
                rf_fma(sum->acc[i / 2][d / 2][2 * r + d % 2], c_part[r], onto[i / 2][r].v[d]);
        own[32 * i] = four;
    }
}
#endif
