/* encode_lanes.h - four floats at a time, and one pass over a block for a given scale.
 *
 * Private to the searches.  A pass rounds the values to codes, sums the weighted squared error and
 * what least squares needs to find the best scale (and minimum) for these codes. */
#pragma once
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "quant/encode.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef float rf_v4 __attribute__((vector_size(16)));
typedef int32_t rf_i4 __attribute__((vector_size(16)));

RF_INLINE rf_v4 v4_load(const float *p) {
    rf_v4 v;
    memcpy(&v, p, sizeof v);
    return v;
}
RF_INLINE rf_v4 v4_all(float f) { return (rf_v4){f, f, f, f}; }
RF_INLINE rf_v4 v4_where(rf_i4 mask, rf_v4 yes, rf_v4 no) {
    return (rf_v4)((mask & (rf_i4)yes) | (~mask & (rf_i4)no));
}
/* Of numbers, not NaN; compilers do not make these out of the comparison. */
RF_INLINE rf_v4 v4_clamp(rf_v4 v, rf_v4 lo, rf_v4 hi) {
#ifdef __SSE__
    return (rf_v4)_mm_min_ps(_mm_max_ps((__m128)v, (__m128)lo), (__m128)hi);
#else
    v = v4_where(v < lo, lo, v);
    return v4_where(v > hi, hi, v);
#endif
}
RF_INLINE float v4_sum(rf_v4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }

/* To the nearest integer, ties to even, for |v| < 2^22. */
RF_INLINE rf_v4 v4_round(rf_v4 v) {
    rf_v4 magic = v4_all(12582912.0f);
    return (v + magic) - magic;
}

/* The thresholds between the 16 values of IQ4, and the values' distances. */
/* clang-format off */
#define RF_IQ4_STEPS(X)                                                                            \
    X(-115.5f, 23) X(-93.5f, 21) X(-74.0f, 18) X(-57.0f, 16) X(-42.0f, 14) X(-28.5f, 13)           \
    X(-16.0f, 12)  X(-4.5f, 11)  X(7.0f, 12)   X(19.0f, 12)  X(31.5f, 13)  X(45.5f, 15)            \
    X(61.0f, 16)   X(79.0f, 20)  X(101.0f, 24)
/* clang-format on */

RF_INLINE rf_v4 v4_level(rf_v4 v, const rf_levels *lv, bool is_iq4) {
    if (is_iq4) {
        rf_v4 q = v4_all(-127);
#define X(threshold, step) q += (rf_v4)((v > v4_all(threshold)) & (rf_i4)v4_all(step));
        RF_IQ4_STEPS(X)
#undef X
        return q;
    }
    return v4_round(v4_clamp(v, v4_all(lv->lo), v4_all(lv->hi)));
}

/* 1 / d, and 0 for scales that are 0 or whose inverse is not finite. */
RF_INLINE float safe_inverse(float d) {
    float inverse = d != 0 ? 1.0f / d : 0;
    return inverse - inverse == 0 ? inverse : 0;
}

/* Errors this close are equal: the difference is noise of the sums, and which fit wins by noise
 * would differ from sub-block to sub-block, so that no common scale suits them all. */
RF_INLINE float error_noise(const float *x, const float *w, int n) {
    rf_v4 sum = v4_all(0);
    for (int i = 0; i < n; i += 4) {
        rf_v4 xi = v4_load(x + i);
        sum += v4_load(w + i) * xi * xi;
    }
    return 1e-9f * v4_sum(sum);
}

typedef struct scale_sums {
    float err, xq, qq; /* sums of w (x - dq)^2, w x q, w q^2 */
} scale_sums;

RF_INLINE scale_sums scale_pass(const float *x, const float *w, int n, float d, const rf_levels *lv,
                                bool is_iq4) {
    rf_v4 err = v4_all(0), xq = err, qq = err, scale = v4_all(d), inverse = v4_all(safe_inverse(d));
    for (int i = 0; i < n; i += 4) {
        rf_v4 xi = v4_load(x + i), wi = v4_load(w + i);
        rf_v4 q = v4_level(xi * inverse, lv, is_iq4), r = xi - scale * q, wq = wi * q;
        err += wi * r * r;
        xq += wq * xi;
        qq += wq * q;
    }
    return (scale_sums){v4_sum(err), v4_sum(xq), v4_sum(qq)};
}

typedef struct affine_sums {
    float err, q, qq, xq; /* sums of w (x - dq - m)^2, w q, w q^2, w x q */
} affine_sums;

RF_INLINE affine_sums affine_pass(const float *x, const float *w, int n, float d, float m,
                                  float hi) {
    rf_v4 err = v4_all(0), sq = err, qq = err, xq = err;
    rf_v4 scale = v4_all(d), low = v4_all(m), inverse = v4_all(safe_inverse(d));
    rf_levels lv = {0, hi, false};
    for (int i = 0; i < n; i += 4) {
        rf_v4 xi = v4_load(x + i), wi = v4_load(w + i), c = xi - low;
        rf_v4 q = v4_level(c * inverse, &lv, false), r = c - scale * q, wq = wi * q;
        err += wi * r * r;
        sq += wq;
        qq += wq * q;
        xq += wq * xi;
    }
    return (affine_sums){v4_sum(err), v4_sum(sq), v4_sum(qq), v4_sum(xq)};
}

#ifdef __cplusplus
}
#endif
