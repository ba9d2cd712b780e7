/* ints.h - attention over keys and values that the cache holds as integers with a scale per group of 32
 * columns (Q8_0, Q4_0): what is rounded and how, as docs/arithmetic.md has it, and the digits and words
 * that kernels make of it.  Which thread sums what is each kernel's own.
 *
 * Queries become integers n of up to 127 * 128, weights of values of up to 2^14: two digits of seven bits,
 * n = 128 * upper + lower, signed bytes both, for dot products of bytes. */
#pragma once
#include "backend/gpu/kernels/kv.h"

enum {
    RF_INTS_QUERY = 16256,
    RF_INTS_WEIGHT = 16383,
};
#define RF_INTS_MAGIC 12582912.0f /* 1.5 * 2^23: a sum with it has its integer in the low 16 bits */

RF_DEVICE int rf_is_ints(uint32_t type) { return type == RF_DT_Q8_0 || type == RF_DT_Q4_0; }

/* Queries ---------------------------------------------------------------------------------------*/

/* Of a head whose largest size is most: its scale, and what its elements are multiplied with. */
RF_DEVICE float rf_query_scale(uint32_t most) { return rf_float_of(most) / (float)RF_INTS_QUERY; }
RF_DEVICE float rf_query_inverse(uint32_t most) {
    const float x = rf_float_of(most);
    return x > 0 ? (float)RF_INTS_QUERY / x : 0;
}

RF_DEVICE int32_t rf_query_int(float q, float inverse) {
    const float top = (float)RF_INTS_QUERY;
    float x = q * inverse;
    x = x > -top ? x : -top; /* a NaN too */
    x = x < top ? x : top;
    return (int32_t)__builtin_rintf(x);
}

RF_DEVICE int32_t rf_upper_digit(int32_t n) { return n >> 7; }
RF_DEVICE int32_t rf_lower_digit(int32_t n) { return n & 127; }

/* The sum of n times something from those of its digits. */
RF_DEVICE int32_t rf_digits_sum(int32_t upper, int32_t lower) { return 128 * upper + lower; }

/* Weights of values -----------------------------------------------------------------------------*/

/* Of a group whose largest scale has size most: what scales are multiplied with, before weights are made
 * integers; and what sums of these are multiples of, a NaN where most is not finite. */
RF_DEVICE float rf_weight_inverse(uint32_t most) {
    const float x = rf_float_of(most);
    return x > 0 ? (float)RF_INTS_WEIGHT / x : 0;
}
RF_DEVICE float rf_weight_unit(uint32_t most) {
    const float x = rf_float_of(most);
    return rf_fma(x, 0.0f, x / (float)RF_INTS_WEIGHT);
}

/* A word with the weight's integer in its low 16 bits: of exponential p and scale t = scale * inverse. */
RF_DEVICE uint32_t rf_weight_word(float p, float t) {
    return rf_bits_of(rf_fma(p, t, RF_INTS_MAGIC));
}
RF_DEVICE int32_t rf_weight_int(uint32_t word) { return (int16_t)word; }

/* Rows of the cache ------------------------------------------------------------------------------*/

/* Group g of a row of the cache: its scale, then its integers. */
RF_DEVICE const uint8_t *rf_ints_group(const uint8_t *row, uint32_t type, uint32_t g) {
    return row + g * (type == RF_DT_Q8_0 ? RF_KV_Q8_BYTES : RF_KV_Q4_BYTES);
}
RF_DEVICE float rf_ints_scale(const uint8_t *group) {
    return rf_f16_at(*(const uint16_t *)(const void *)group);
}

/* Four bytes that are aligned to two. */
RF_DEVICE uint32_t rf_two_halves(const uint8_t *p) {
    const uint16_t *h = (const uint16_t *)(const void *)p;
    return h[0] | (uint32_t)h[1] << 16;
}

/* Nibbles less eight, as signed bytes. */
RF_DEVICE uint32_t rf_nibbles_less_8(uint32_t w) {
    return ((w & 0x0f0f0f0fu) + 0x78787878u) ^ 0x80808080u;
}

/* A group's integers in words of four. */
RF_DEVICE void rf_ints_words(uint32_t out[8], const uint8_t *group, uint32_t type) {
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        if (type == RF_DT_Q8_0) {
            out[i] = rf_two_halves(group + 2 + 4 * i);
        } else if (i < 4) {
            const uint32_t w = rf_two_halves(group + 2 + 4 * i);
            out[i] = rf_nibbles_less_8(w);
            out[i + 4] = rf_nibbles_less_8(w >> 4);
        }
    }
}

/* Of a group in Q8_0 that 32 threads have: a thread's integer, and the scale.  All threads of a block call. */
typedef struct rf_q8_own {
    int32_t q;
    uint16_t d;
} rf_q8_own;
RF_DEVICE rf_q8_own rf_q8_own_of(float x) {
    const rf_quant_scale s = rf_quant_scale_of(rf_float_of(rf_warp_most(rf_size_of(x))), 256);
    const rf_q8_own own = {rf_quantised(x, s.id), rf_f16_of(s.d)};
    return own;
}
RF_DEVICE void rf_q8_put_own(uint8_t *group, uint32_t lane, rf_q8_own own) {
    group[2 + lane] = (uint8_t)own.q;
    if (lane == 0) *(uint16_t *)(void *)group = own.d;
}

/* Integer i of a group. */
RF_DEVICE int32_t rf_ints_at(const uint8_t *group, uint32_t type, uint32_t i) {
    if (type == RF_DT_Q8_0) return (int8_t)group[2 + i];
    return (group[2 + i % 16] >> (i < 16 ? 0 : 4) & 15) - 8;
}
