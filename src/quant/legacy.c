/* legacy.c - the formats with one scale (and minimum) per block: Q4_0 ... Q8_1, Q1_0, Q2_0.
 *
 * In the blocks of 32, byte j holds element j (low nibble) and element j + 16 (high nibble). */
#include "quant/codec.h"

/* Eight elements 8k .. 8k+7 of a 5-bit block, one per byte: nibbles and the spread fifth bits. */
RF_INLINE uint64_t five_bits(const uint8_t qs[16], const uint8_t qh[4], int k) {
    uint64_t nibbles;
    memcpy(&nibbles, qs + k % 2 * 8, sizeof nibbles);
    return (nibbles >> k / 2 * 4 & RF_BYTES(15)) | rf_spread_1(qh[k]) << 4;
}

RF_INLINE void unpack_q4_0(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q4_0 *restrict b = (const rf_block_q4_0 *)row + g;
    out->d = rf_load_half(b->d);
    out->m = 0;
    for (int j = 0; j < 16; j++) {
        out->q[j] = (int8_t)((b->qs[j] & 15) - 8);
        out->q[j + 16] = (int8_t)((b->qs[j] >> 4) - 8);
    }
}
RF_CODEC(q4_0, 32, false)

RF_INLINE void unpack_q4_1(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q4_1 *restrict b = (const rf_block_q4_1 *)row + g;
    out->d = rf_load_half(b->d);
    out->m = rf_load_half(b->m);
    for (int j = 0; j < 16; j++) {
        out->q[j] = (int8_t)(b->qs[j] & 15);
        out->q[j + 16] = (int8_t)(b->qs[j] >> 4);
    }
}
RF_CODEC(q4_1, 32, true)

RF_INLINE void unpack_q5_0(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q5_0 *restrict b = (const rf_block_q5_0 *)row + g;
    out->d = rf_load_half(b->d);
    out->m = 0;
    for (int k = 0; k < 4; k++) {
        uint64_t q = rf_bytes_minus(five_bits(b->qs, b->qh, k), 16);
        memcpy(out->q + 8 * k, &q, sizeof q);
    }
}
RF_CODEC(q5_0, 32, false)

RF_INLINE void unpack_q5_1(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q5_1 *restrict b = (const rf_block_q5_1 *)row + g;
    out->d = rf_load_half(b->d);
    out->m = rf_load_half(b->m);
    for (int k = 0; k < 4; k++) {
        uint64_t q = five_bits(b->qs, b->qh, k);
        memcpy(out->q + 8 * k, &q, sizeof q);
    }
}
RF_CODEC(q5_1, 32, true)

RF_INLINE void unpack_q8_0(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q8_0 *restrict b = (const rf_block_q8_0 *)row + g;
    out->d = rf_load_half(b->d);
    out->m = 0;
    memcpy(out->q, b->qs, sizeof b->qs);
}
RF_CODEC(q8_0, 32, false)

/* An activation format: files do not hold it, and its sum s is not part of the values. */
void rf_decode_q8_1(const void *src, float *dst, size_t n) {
    const rf_block_q8_1 *b = (const rf_block_q8_1 *)src;
    for (size_t g = 0; g < n / 32; g++) {
        float w[32], d = rf_load_half(b[g].d);
        for (int i = 0; i < 32; i++)
            w[i] = d * (float)b[g].qs[i];
        memcpy((uint8_t *)(void *)dst + g * sizeof w, w, sizeof w);
    }
}

/* Four groups of 32 share the block's scale; the bit chooses +d or -d. */
RF_INLINE void unpack_q1_0(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q1_0 *restrict b = (const rf_block_q1_0 *)row + g / 4;
    const uint8_t *qs = b->qs + g % 4 * 4;
    out->d = rf_load_half(b->d);
    out->m = 0;
    for (int k = 0; k < 4; k++) {
        uint64_t q = ~(rf_spread_1(qs[k]) * 0xfe); /* 0 -> 0xff = -1, 1 -> 1 */
        memcpy(out->q + 8 * k, &q, sizeof q);
    }
}
RF_CODEC(q1_0, 32, false)

/* Two groups of 32 share the block's scale; codes 0..3 mean -1..2. */
RF_INLINE void unpack_q2_0(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q2_0 *restrict b = (const rf_block_q2_0 *)row + g / 2;
    const uint8_t *qs = b->qs + g % 2 * 8;
    out->d = rf_load_half(b->d);
    out->m = 0;
    for (int k = 0; k < 4; k++) {
        uint64_t q = rf_bytes_minus(rf_spread_2(rf_load_u16(qs + 2 * k)), 1);
        memcpy(out->q + 8 * k, &q, sizeof q);
    }
}
RF_CODEC(q2_0, 32, false)
