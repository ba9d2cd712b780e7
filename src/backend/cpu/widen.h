/* widen.h - rows of the KV cache as f32, for the vector instruction sets.
 *
 * Private to the CPU backend; a file includes it after the lanes of its instruction set, which bring
 * lanes_load_f16(p), lanes_load_bf16(p) and lanes_load_i8(p) of 16 unaligned elements.  Every value
 * is exact: an f16 times an eight-bit integer fits an f32. */
#pragma once
#include "backend/cpu/kernels.h"
#include "quant/bits.h"
#include "quant/blocks.h"

static inline void widen_f16(float *dst, const uint8_t *src, uint32_t n) {
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        lanes_store(dst + i, lanes_load_f16(src + 2 * (size_t)i));
    for (; i < n; i++)
        dst[i] = rf_load_half(src + 2 * (size_t)i);
}

static inline void widen_bf16(float *dst, const uint8_t *src, uint32_t n) {
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        lanes_store(dst + i, lanes_load_bf16(src + 2 * (size_t)i));
    for (; i < n; i++)
        dst[i] = rf_bf16_to_f32(rf_load_u16(src + 2 * (size_t)i));
}

static inline void widen_q8_0(float *dst, const uint8_t *src, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 16) {
        const rf_block_q8_0 *b = (const rf_block_q8_0 *)(const void *)src + i / 32;
        lanes x = lanes_mul(lanes_load_i8(b->qs + i % 32), lanes_set(rf_load_half(b->d)));
        lanes_store_n(dst + i, x, n - i);
    }
}

static inline void widen_q4_0(float *dst, const uint8_t *src, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 16) {
        const rf_block_q4_0 *b = (const rf_block_q4_0 *)(const void *)src + i / 32;
        int8_t q[16];
        for (uint32_t j = 0; j < 16; j++)
            q[j] = (int8_t)((b->qs[j] >> (i % 32 / 4) & 15) - 8);
        lanes x = lanes_mul(lanes_load_i8(q), lanes_set(rf_load_half(b->d)));
        lanes_store_n(dst + i, x, n - i);
    }
}

/* n values from the start of a block of a row of any format but F32; src needs no alignment. */
static inline void widen(float *dst, const uint8_t *src, uint32_t n, rf_dtype type) {
    if (type == RF_DT_F16)
        widen_f16(dst, src, n);
    else if (type == RF_DT_BF16)
        widen_bf16(dst, src, n);
    else if (type == RF_DT_Q8_0)
        widen_q8_0(dst, src, n);
    else
        widen_q4_0(dst, src, n);
}
