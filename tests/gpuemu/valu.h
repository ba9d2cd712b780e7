/* valu.h - how the tables of vector functions are written: an expression over A, B, C (the words of
 * one lane), FA.. (as f32), LA.. (64 bits), HA.. (the low half), evaluated for every lane. */
#pragma once
#include <math.h>

#include "base/fmath.h"
#include "gpuemu/inst.h"

#define EACH for (uint32_t l = 0; l < x->n; l++)
#define A    (s0[l])
#define B    (s1[l])
#define C    (s2[l])
#define FA   rf_emu_f32(A)
#define FB   rf_emu_f32(B)
#define FC   rf_emu_f32(C)
#define IA   ((int32_t)A)
#define IB   ((int32_t)B)
#define IC   ((int32_t)C)
#define LA   (s0[l] | (uint64_t)s0[RF_EMU_ROW + l] << 32)
#define LB   (s1[l] | (uint64_t)s1[RF_EMU_ROW + l] << 32)
#define LC   (s2[l] | (uint64_t)s2[RF_EMU_ROW + l] << 32)
#define DA   rf_emu_f64(LA)
#define DB   rf_emu_f64(LB)
#define DC   rf_emu_f64(LC)

/* Functions of one, two and three sources with a 32-bit result; W: with a 64-bit one. */
#define F1(name, e)                     \
    static void name(rf_emu_lanes *x) { \
        const uint32_t *s0 = x->s[0];   \
        uint32_t *restrict d = x->d;    \
        EACH d[l] = (uint32_t)(e);      \
    }
#define F2(name, e)                                  \
    static void name(rf_emu_lanes *x) {              \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1]; \
        uint32_t *restrict d = x->d;                 \
        EACH d[l] = (uint32_t)(e);                   \
    }
#define F3(name, e)                                  \
    static void name(rf_emu_lanes *x) {              \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1]; \
        const uint32_t *s2 = x->s[2];                \
        uint32_t *restrict d = x->d;                 \
        EACH d[l] = (uint32_t)(e);                   \
    }
#define W_STORE(e)               \
    uint64_t r_ = (uint64_t)(e); \
    d[l] = (uint32_t)r_;         \
    d[RF_EMU_ROW + l] = (uint32_t)(r_ >> 32);
#define W1(name, e)                     \
    static void name(rf_emu_lanes *x) { \
        const uint32_t *s0 = x->s[0];   \
        uint32_t *restrict d = x->d;    \
        EACH { W_STORE(e) }             \
    }
#define W2(name, e)                                  \
    static void name(rf_emu_lanes *x) {              \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1]; \
        uint32_t *restrict d = x->d;                 \
        EACH { W_STORE(e) }                          \
    }
#define W3(name, e)                                  \
    static void name(rf_emu_lanes *x) {              \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1]; \
        const uint32_t *s2 = x->s[2];                \
        uint32_t *restrict d = x->d;                 \
        EACH { W_STORE(e) }                          \
    }
/* A result of f32. */
#define FF1(name, e) F1(name, rf_emu_u32(e))
#define FF2(name, e) F2(name, rf_emu_u32(e))
#define FF3(name, e) F3(name, rf_emu_u32(e))
/* A bit per lane. */
#define M2(name, e)                                  \
    static void name(rf_emu_lanes *x) {              \
        const uint32_t *s0 = x->s[0], *s1 = x->s[1]; \
        uint64_t m = 0;                              \
        EACH m |= (uint64_t)((e) ? 1 : 0) << l;      \
        x->mask_out = m;                             \
    }

#define V(name_, sig_, fn_) \
    { .name = name_, .sig = sig_, .lanes = fn_ }

static inline double rf_emu_f64(uint64_t u) {
    double d;
    __builtin_memcpy(&d, &u, sizeof d);
    return d;
}
static inline uint64_t rf_emu_u64(double d) {
    uint64_t u;
    __builtin_memcpy(&u, &d, sizeof u);
    return u;
}
/* minimum and maximum as the hardware orders them: a number before a NaN, -0 below +0 */
static inline float rf_emu_min(float a, float b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return rf_emu_u32(a) >> 31 ? a : b;
    return a < b ? a : b;
}
static inline float rf_emu_max(float a, float b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return rf_emu_u32(a) >> 31 ? b : a;
    return a > b ? a : b;
}
/* a * b + c rounded to odd: a second rounding to fewer bits then gives the correctly rounded result.
 * a, b and c are f32 or f16 values, so the product is exact. */
static inline double rf_emu_fma_odd(double a, double b, double c) {
    double p = a * b, s = p + c;
    double t = s - p, lost = (p - (s - t)) + (c - t);
    uint64_t u = rf_emu_u64(s);
    if (lost == 0 || s != s || lost != lost || isinf(s) || (u & 1)) return s;
    bool up = (lost > 0) == (s > 0); /* away from zero: the odd neighbour lies there */
    return rf_emu_f64(up ? u + 1 : u - 1);
}
/* f64 (rounded to odd) to f16 bits with one rounding: f32 keeps an odd last bit as a sticky bit. */
static inline uint32_t rf_emu_f16_of_odd(double d) {
    float f = (float)d;
    if ((double)f != d && f == f && !isinf(f)) {
        uint32_t u = rf_emu_u32(f);
        bool above = (double)fabsf(f) > fabs(d);
        if (above) u--;
        f = rf_emu_f32(u | 1);
    }
    return rf_f32_to_f16(f);
}
