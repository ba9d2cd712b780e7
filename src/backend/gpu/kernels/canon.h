/* canon.h - what several kernels share of docs/arithmetic.md: exponentials, activations, the sum of
 * sixteen lanes, one row quantised; operation by operation those of base/fmath.h and the CPU. */
#pragma once
#include "backend/gpu/kernels/port.h"

/* e^x / 2^n, where n is x log2 e rounded. */
RF_DEVICE float rf_exp_rest(float x, float n) {
    float r = RF_EXPF_REST(, rf_fma, n, x);
    return RF_EXPF_POLY(, rf_fma, r);
}

RF_DEVICE float rf_exp32(float x) {
    x = x < RF_EXPF_MIN ? RF_EXPF_MIN : x;
    x = x > RF_EXPF_MAX ? RF_EXPF_MAX : x;
    if (x != x) return x;
    float n = __builtin_rintf(x * RF_EXPF_LOG2E);
    return rf_float_of(rf_bits_of(rf_exp_rest(x, n)) + ((uint32_t)(int32_t)n << 23));
}

/* rf_exp32 of what is 0 or less, or not a number: rounded to an integer by an addition, whose low bits
 * that integer is; two to the power of it, at least 2^-126, times what is more than 1 there. */
RF_DEVICE float rf_exp32_down(float x) {
    const float magic = 12582912.0f, y = x < RF_EXPF_MIN ? RF_EXPF_MIN : x;
    const float shifted = y * RF_EXPF_LOG2E + magic, n = shifted - magic;
    return rf_exp_rest(y, n) * rf_float_of((rf_bits_of(shifted) << 23) + 0x3f800000u);
}

#if !defined(RF_AMD)
/* Two to the power of x as NVIDIA's unit for it has it: for what is a device's own anyway. */
RF_DEVICE float rf_exp2_by_unit(float x) {
#if defined(RF_NVIDIA)
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#else
    return x < -126.0f ? 0.0f : rf_exp32_down(x * (1.0f / RF_EXPF_LOG2E));
#endif
}
#endif

/* x P(x^2) / Q(x^2), kept within -1 and 1. */
#define RF_RATIONAL(name, P, Q, most)                    \
    RF_DEVICE float name(float x) {                      \
        const float p[] = P, q[] = Q;                    \
        const int n = (int)RF_COUNT(p);                  \
        x = x < -most ? -most : x;                       \
        x = x > most ? most : x;                         \
        float z = x * x, num = p[n - 1], den = q[n - 1]; \
        RF_UNROLL                                        \
        for (int i = n - 2; i >= 0; i--) {               \
            num = rf_fma(num, z, p[i]);                  \
            den = rf_fma(den, z, q[i]);                  \
        }                                                \
        float r = (x * num) / den;                       \
        r = r < -1.0f ? -1.0f : r;                       \
        return r > 1.0f ? 1.0f : r;                      \
    }
RF_RATIONAL(rf_tanh32, RF_TANHF_P, RF_TANHF_Q, RF_TANHF_MAX)
RF_RATIONAL(rf_erf32, RF_ERFF_P, RF_ERFF_Q, RF_ERFF_MAX)

RF_DEVICE float rf_gated(float x, float y) { return x / (1.0f + rf_exp32(-y)); }

RF_DEVICE float rf_activate(uint32_t act, float x) {
    if (act == RF_ACT_SILU) return rf_gated(x, x);
    if (act == RF_ACT_GELU) return (0.5f * x) * (1.0f + rf_erf32(x * RF_ROOT_HALF));
    if (act == RF_ACT_GELU_TANH)
        return rf_gated(x, x * rf_fma(x * x, RF_GELU_TANH_C1, RF_GELU_TANH_C0));
    if (act == RF_ACT_SIGMOID) return rf_gated(1.0f, x);
    float y = 0.0f > x ? 0.0f : x;
    if (act == RF_ACT_RELU) return y;
    return act == RF_ACT_RELU2 ? y * y : x;
}

RF_DEVICE float rf_glu(uint32_t act, float gate, float up) {
    if (act != RF_ACT_SWIGLU_OAI) return rf_activate(act, gate) * up;
    float g = 7.0f < gate ? 7.0f : gate, u = 7.0f < up ? 7.0f : up;
    u = -7.0f > u ? -7.0f : u;
    return rf_gated(g, 1.702f * g) * (u + 1.0f);
}

/* Sixteen values in shared memory, added as tree16. */
RF_DEVICE float rf_tree16(const float *s) {
    float v[16];
    RF_UNROLL
    for (int i = 0; i < 16; i++)
        v[i] = s[i];
    RF_UNROLL
    for (int half = 8; half > 0; half /= 2) {
        RF_UNROLL
        for (int i = 0; i < half; i++)
            v[i] += v[i + half];
    }
    return v[0];
}

/* Sizes, |x|, are compared as bits: so a NaN is above all others. */
RF_DEVICE uint32_t rf_size_of(float x) { return rf_bits_of(x) & 0x7fffffffu; }

/* Nearest, ties to even; a NaN stays one. */
RF_DEVICE uint16_t rf_bf16_of(float f) {
    const uint32_t bits = rf_bits_of(f);
    if (rf_size_of(f) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

enum { RF_NORM_STRETCH = 256 }; /* elements of a norm whose lanes are added up by themselves */

/* The scale of a group of n activations, 32 or 256, whose largest |x| is amax, and what multiplies them.  Of 32 it is
 * rounded up to four significant bits, so that a product, which is sooner there, does for the division. */
typedef struct rf_quant_scale {
    float d, id;
} rf_quant_scale;

RF_DEVICE rf_quant_scale rf_quant_scale_of(float amax, uint32_t n) {
    if (n == 256) {
        const rf_quant_scale s = {amax / 127.0f, amax > 0 ? 127.0f / amax : 0};
        return s;
    }
    const uint32_t bits = rf_bits_of(amax * RF_QUANT_UNIT);
    const float d = rf_float_of(RF_QUANT_SHORT(bits));
    const rf_quant_scale s = {d, d > 0 ? 1.0f / d : 0};
    return s;
}

/* A number rounded by such bits as RF_ROUND_MINIMA and RF_ROUND_TOTALS make. */
RF_DEVICE float rf_rounded(float v, uint32_t by) {
    const float c = rf_float_of(by);
    return (v + c) - c;
}
/* A whole number of less than 2^22, without a slow conversion. */
RF_DEVICE float rf_small_float(int32_t i) {
    return rf_float_of((uint32_t)i + 0x4b400000u) - 12582912.0f;
}

RF_DEVICE int32_t rf_quantised(float x, float id) {
    float v = x * id;
    v = v > -127.0f ? v : -127.0f; /* also catches a NaN */
    v = v < 127.0f ? v : 127.0f;
    return (int32_t)__builtin_rintf(v);
}
