/* lanes_neon.h - the sixteen canonical lanes as four vectors of four; see lanes_scalar.h.
 *
 * Where the order of a comparison decides about a NaN it is written as compare and select: the maximum
 * instructions of ARM treat them otherwise than those the lanes are defined by. */
#pragma once
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "base/fmath.h"

#define LANES_INLINE static inline __attribute__((always_inline))

typedef float32x4_t f32x4;
typedef float32x4x4_t lanes;

/* a > b ? a : b and a < b ? a : b, so b where either is a NaN. */
LANES_INLINE f32x4 larger(f32x4 a, f32x4 b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
LANES_INLINE f32x4 smaller(f32x4 a, f32x4 b) { return vbslq_f32(vcltq_f32(a, b), a, b); }

LANES_INLINE f32x4 fma4(f32x4 a, f32x4 b, f32x4 c) { return vfmaq_f32(c, a, b); }

/* rf_expf on four lanes, the same operations in the same order. */
LANES_INLINE f32x4 expf4(f32x4 x) {
    const f32x4 most = vdupq_n_f32(RF_EXPF_MAX);
    x = larger(vdupq_n_f32(RF_EXPF_MIN), x);
    x = vbslq_f32(vcgtq_f32(x, most), most, x);
    f32x4 n = vrndnq_f32(vmulq_n_f32(x, RF_EXPF_LOG2E));
    f32x4 r = RF_EXPF_REST(vdupq_n_f32, fma4, n, x);
    f32x4 p = RF_EXPF_POLY(vdupq_n_f32, fma4, r);
    int32x4_t e = vshlq_n_s32(vcvtq_s32_f32(n), 23); /* 0 of a NaN, which p then is */
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), e));
}

/* The last two steps of tree16 on a vector whose lanes hold the sums of four. */
LANES_INLINE float tree4(f32x4 v) {
    float32x2_t h = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}

LANES_INLINE float tree16(const f32x4 s[4]) {
    return tree4(vaddq_f32(vaddq_f32(s[0], s[2]), vaddq_f32(s[1], s[3])));
}

LANES_INLINE lanes lanes_set(float x) {
    f32x4 v = vdupq_n_f32(x);
    return (lanes){{v, v, v, v}};
}
LANES_INLINE lanes lanes_zero(void) { return lanes_set(0); }
LANES_INLINE lanes lanes_load(const void *p) {
    const uint8_t *b = p; /* no alignment is promised */
    lanes s;
    for (int i = 0; i < 4; i++)
        s.val[i] = vreinterpretq_f32_u8(vld1q_u8(b + 16 * i));
    return s;
}
LANES_INLINE void lanes_store(float *p, lanes s) {
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, s.val[i]);
}
LANES_INLINE lanes lanes_load_n(const float *p, size_t n) {
    if (n >= 16) return lanes_load(p);
    float end[16] = {0};
    memcpy(end, p, n * sizeof *p);
    return lanes_load(end);
}
LANES_INLINE void lanes_store_n(float *p, lanes s, size_t n) {
    if (n >= 16) {
        lanes_store(p, s);
        return;
    }
    float end[16];
    lanes_store(end, s);
    memcpy(p, end, n * sizeof *p);
}
#define LANES_PAIR(name, op)                    \
    LANES_INLINE lanes name(lanes a, lanes b) { \
        for (int i = 0; i < 4; i++)             \
            a.val[i] = op(a.val[i], b.val[i]);  \
        return a;                               \
    }
LANES_PAIR(lanes_add, vaddq_f32)
LANES_PAIR(lanes_sub, vsubq_f32)
LANES_PAIR(lanes_mul, vmulq_f32)
LANES_PAIR(lanes_div, vdivq_f32)
LANES_PAIR(lanes_max, larger)
LANES_PAIR(lanes_min, smaller)
#undef LANES_PAIR
LANES_INLINE lanes lanes_neg(lanes x) {
    for (int i = 0; i < 4; i++)
        x.val[i] = vnegq_f32(x.val[i]);
    return x;
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    for (int i = 0; i < 4; i++)
        c.val[i] = vfmaq_f32(c.val[i], a.val[i], b.val[i]);
    return c;
}
LANES_INLINE lanes lanes_exp(lanes x) {
    for (int i = 0; i < 4; i++)
        x.val[i] = expf4(x.val[i]);
    return x;
}
/* Lanes of a where m is -inf, else of b. */
LANES_INLINE lanes lanes_if_none(lanes m, lanes a, lanes b) {
    for (int i = 0; i < 4; i++)
        b.val[i] = vbslq_f32(vceqq_f32(m.val[i], vdupq_n_f32(-INFINITY)), a.val[i], b.val[i]);
    return b;
}
LANES_INLINE float lanes_tree16(lanes s) { return tree16(s.val); }

LANES_INLINE lanes lanes_load_f16(const uint8_t *p) {
    lanes s;
    for (int i = 0; i < 4; i++)
        s.val[i] = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * i)));
    return s;
}
LANES_INLINE lanes lanes_load_bf16(const uint8_t *p) {
    lanes s;
    for (int i = 0; i < 4; i++)
        s.val[i] = vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p + 8 * i)), 16));
    return s;
}

/* A register of its own, where tiles of them are wanted. */
typedef f32x4 vec;
enum { VEC = 4 };
LANES_INLINE vec vec_set(float x) { return vdupq_n_f32(x); }
LANES_INLINE vec vec_load(const void *p) {
    return vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)p));
}
LANES_INLINE vec vec_load_f16(const uint8_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}
LANES_INLINE vec vec_load_bf16(const uint8_t *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}
LANES_INLINE void vec_store(float *p, vec v) { vst1q_f32(p, v); }
LANES_INLINE vec vec_mul(vec a, vec b) { return vmulq_f32(a, b); }
LANES_INLINE vec vec_fma(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }

/* Integers likewise; a dot product adds that of four bytes in each. */
typedef int32x4_t ints;
LANES_INLINE ints ints_zero(void) { return vdupq_n_s32(0); }
LANES_INLINE ints ints_set(int32_t x) { return vdupq_n_s32(x); }
LANES_INLINE ints ints_load(const int32_t *p) { return vld1q_s32(p); }
LANES_INLINE ints ints_dot(ints sum, ints a, ints b) {
    return vdotq_s32(sum, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
}
/* Of the high and the low digits. */
LANES_INLINE ints ints_joined(ints high, ints low) { return vaddq_s32(vshlq_n_s32(high, 7), low); }
LANES_INLINE vec ints_floats(ints x) { return vcvtq_f32_s32(x); }
