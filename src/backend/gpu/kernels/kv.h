/* kv.h - a head's row in the KV pool: its bytes in each format, elements of floats in and out; the same
 * bytes as the CPU backend's.  ints.h reads the other formats.
 *
 * F32, F16, BF16: the elements.  Q8_0, Q4_0: blocks of 32, a scale in f16 and 32 signed bytes, or 16
 * bytes of an element and the 16th behind it, each 8 more than it is; the last block is filled up with
 * zeros, and rows are aligned to 2 bytes only. */
#pragma once
#include "backend/gpu/kernels/canon.h"

enum { RF_KV_Q8_BYTES = 34, RF_KV_Q4_BYTES = 18 };

RF_DEVICE uint32_t rf_kv_row_bytes(uint32_t type, uint32_t n) {
    if (type == RF_DT_Q8_0) return rf_div_up(n, 32) * RF_KV_Q8_BYTES;
    if (type == RF_DT_Q4_0) return rf_div_up(n, 32) * RF_KV_Q4_BYTES;
    return n * (type == RF_DT_F32 ? 4 : 2);
}

/* Element i of a row of floats. */
RF_DEVICE float rf_kv_at(const void *row, uint32_t type, uint32_t i) {
    if (type == RF_DT_F16) return rf_f16_at(((const uint16_t *)row)[i]);
    if (type == RF_DT_F32) return ((const float *)row)[i];
    return rf_float_of((uint32_t)((const uint16_t *)row)[i] << 16);
}

/* Elements [k, k + 16) of a row of n floats, k a multiple of 16; those beyond n are zeros.  One format after
 * the other, so that few registers are taken. */
RF_DEVICE void rf_kv_sixteen(float out[16], const void *row, uint32_t type, uint32_t k,
                             uint32_t n) {
#define RF_KV_EACH(kind)              \
    RF_UNROLL                         \
    for (uint32_t i = 0; i < 16; i++) \
        out[i] = k + i < n ? rf_kv_at(row, kind, k + i) : 0.0f;
    if (type == RF_DT_F16) {
        RF_KV_EACH(RF_DT_F16)
    } else if (type == RF_DT_F32) {
        RF_KV_EACH(RF_DT_F32)
    } else {
        RF_KV_EACH(RF_DT_BF16)
    }
#undef RF_KV_EACH
}

RF_DEVICE void rf_kv_put(void *row, uint32_t type, uint32_t i, float x) {
    if (type == RF_DT_F16)
        ((uint16_t *)row)[i] = rf_f16_of(x);
    else if (type == RF_DT_BF16)
        ((uint16_t *)row)[i] = rf_bf16_of(x);
    else
        ((float *)row)[i] = x;
}

/* Four from number i on, a multiple of four, in one store. */
RF_DEVICE void rf_kv_put_four(void *row, uint32_t type, uint32_t i, const float x[4]) {
    if (type == RF_DT_F32) {
        const rf_f4 four = {{x[0], x[1], x[2], x[3]}};
        *(rf_f4 *)(void *)((float *)row + i) = four;
        return;
    }
    rf_u2 four = {{0, 0}};
    RF_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t half = type == RF_DT_F16 ? rf_f16_of(x[j]) : rf_bf16_of(x[j]);
        four.v[j / 2] |= half << j % 2 * 16;
    }
    *(rf_u2 *)(void *)((uint16_t *)row + i) = four;
}
