/* encode_lanes.h - floats by the handful, and one pass over a block for a given scale.
 *
 * Private to the searches.  A pass rounds the values to codes, sums the weighted squared error and
 * what least squares needs to find the best scale (and minimum) for these codes.  A sum has eight
 * lanes: one vector with AVX, two without, added up in the same order. */
#pragma once
#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "quant/encode.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __AVX__
enum { RF_LANES = 8, RF_PARTS = 1 };
#else
enum { RF_LANES = 4, RF_PARTS = 2 };
#endif
typedef float rf_vec __attribute__((vector_size(4 * RF_LANES)));
typedef int32_t rf_mask __attribute__((vector_size(4 * RF_LANES)));
typedef struct rf_sum {
    rf_vec part[RF_PARTS];
} rf_sum; /* start from {0} */

#define RF_ENC_HUGE 0x1.fffffep127f

RF_INLINE rf_vec vec_load(const float *p) {
    rf_vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
RF_INLINE rf_vec vec_all(float f) { return f - (rf_vec){0}; }
RF_INLINE rf_vec vec_where(rf_mask mask, rf_vec yes, rf_vec no) {
    return (rf_vec)((mask & (rf_mask)yes) | (~mask & (rf_mask)no));
}
/* Of numbers, not NaN; compilers do not make these out of the comparison. */
RF_INLINE rf_vec vec_clamp(rf_vec v, rf_vec lo, rf_vec hi) {
#if defined(__AVX__)
    return (rf_vec)_mm256_min_ps(_mm256_max_ps((__m256)v, (__m256)lo), (__m256)hi);
#elif defined(__SSE__)
    return (rf_vec)_mm_min_ps(_mm_max_ps((__m128)v, (__m128)lo), (__m128)hi);
#else
    v = vec_where(v < lo, lo, v);
    return vec_where(v > hi, hi, v);
#endif
}
RF_INLINE float sum_of(const rf_sum *s) {
#ifdef __AVX__
    rf_vec v = s->part[0];
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
#else
    rf_vec v = s->part[0] + s->part[1];
    return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

/* To the nearest integer, ties to even, for |v| < 2^22. */
RF_INLINE rf_vec vec_round(rf_vec v) {
    rf_vec magic = vec_all(12582912.0f);
    return (v + magic) - magic;
}

/* The thresholds between the 16 values of IQ4, and the values' distances. */
/* clang-format off */
#define RF_IQ4_STEPS(X)                                                                            \
    X(-115.5f, 23) X(-93.5f, 21) X(-74.0f, 18) X(-57.0f, 16) X(-42.0f, 14) X(-28.5f, 13)           \
    X(-16.0f, 12)  X(-4.5f, 11)  X(7.0f, 12)   X(19.0f, 12)  X(31.5f, 13)  X(45.5f, 15)            \
    X(61.0f, 16)   X(79.0f, 20)  X(101.0f, 24)
/* clang-format on */

RF_INLINE rf_vec vec_level(rf_vec v, const rf_levels *lv, bool is_iq4) {
    if (is_iq4) {
        rf_vec q = vec_all(-127);
#define X(threshold, step) q += (rf_vec)((v > vec_all(threshold)) & (rf_mask)vec_all(step));
        RF_IQ4_STEPS(X)
#undef X
        return q;
    }
    return vec_round(vec_clamp(v, vec_all(lv->lo), vec_all(lv->hi)));
}

/* 1 / d, and 0 for scales that are 0 or whose inverse is not finite. */
RF_INLINE float safe_inverse(float d) {
    float inverse = d != 0 ? 1.0f / d : 0;
    return inverse - inverse == 0 ? inverse : 0;
}

/* For every part of eight values: at is its index, p its number. */
#define RF_EACH_PART(n, at, p)                   \
    for (int at##8 = 0; at##8 < (n); at##8 += 8) \
        for (int p = 0, at = at##8; p < RF_PARTS; p++, at += RF_LANES)

/* Errors this close are equal: the difference is noise of the sums, and which fit wins by noise
 * would differ from sub-block to sub-block, so that no common scale suits them all. */
RF_INLINE float error_noise(const float *x, const float *w, int n) {
    rf_sum sum = {0};
    RF_EACH_PART(n, i, p) {
        rf_vec xi = vec_load(x + i);
        sum.part[p] += vec_load(w + i) * xi * xi;
    }
    return 1e-9f * sum_of(&sum);
}

/* Sums of w and w x. */
RF_INLINE void weigh(const float *x, const float *w, int n, float *sw, float *sx) {
    rf_sum weight = {0}, value = {0};
    RF_EACH_PART(n, i, p) {
        weight.part[p] += vec_load(w + i);
        value.part[p] += vec_load(w + i) * vec_load(x + i);
    }
    *sw = sum_of(&weight);
    *sx = sum_of(&value);
}

typedef struct scale_sums {
    float err, xq, qq; /* sums of w (x - dq)^2, w x q, w q^2 */
} scale_sums;

RF_INLINE scale_sums scale_pass(const float *x, const float *w, int n, float d, const rf_levels *lv,
                                bool is_iq4) {
    rf_sum err = {0}, xq = {0}, qq = {0};
    rf_vec scale = vec_all(d), inverse = vec_all(safe_inverse(d));
    RF_EACH_PART(n, i, p) {
        rf_vec xi = vec_load(x + i), wi = vec_load(w + i);
        rf_vec q = vec_level(xi * inverse, lv, is_iq4), r = xi - scale * q, wq = wi * q;
        err.part[p] += wi * r * r;
        xq.part[p] += wq * xi;
        qq.part[p] += wq * q;
    }
    return (scale_sums){sum_of(&err), sum_of(&xq), sum_of(&qq)};
}

typedef struct affine_sums {
    float err, q, qq, xq; /* sums of w (x - dq - m)^2, w q, w q^2, w x q */
} affine_sums;

RF_INLINE affine_sums affine_pass(const float *x, const float *w, int n, float d, float m,
                                  float hi) {
    rf_sum err = {0}, sq = {0}, qq = {0}, xq = {0};
    rf_vec scale = vec_all(d), low = vec_all(m), inverse = vec_all(safe_inverse(d));
    rf_levels lv = {0, hi, false};
    RF_EACH_PART(n, i, p) {
        rf_vec xi = vec_load(x + i), wi = vec_load(w + i), c = xi - low;
        rf_vec q = vec_level(c * inverse, &lv, false), r = c - scale * q, wq = wi * q;
        err.part[p] += wi * r * r;
        sq.part[p] += wq;
        qq.part[p] += wq * q;
        xq.part[p] += wq * xi;
    }
    return (affine_sums){sum_of(&err), sum_of(&sq), sum_of(&qq), sum_of(&xq)};
}

#ifdef __cplusplus
}
#endif
