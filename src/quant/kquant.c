/* kquant.c - the K-quants: 256 values with integer scales (and minimums) inside the block.
 *
 * A minimum is subtracted, so the integer view's m is -dmin: d*scale*q - dmin*min. */
#include "quant/codec.h"

/* Two-bit fields of Q2_K and Q3_K: bits 2s, 2s+1 of byte [h][l] are element 128h + 32s + l. */
RF_INLINE void two_bit_fields(const uint8_t *restrict qs, int8_t *restrict q) {
    for (int h = 0; h < 2; h++)
        for (int s = 0; s < 4; s++)
            for (int l = 0; l < 32; l++)
                q[128 * h + 32 * s + l] = (int8_t)(qs[32 * h + l] >> 2 * s & 3);
}

RF_INLINE void unpack_q2_k(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q2_k *restrict b = (const rf_block_q2_k *)row + g;
    out->d = rf_load_half(b->d);
    out->m = -rf_load_half(b->dmin);
    for (int k = 0; k < 16; k++) {
        out->scale[k] = b->scales[k] & 15;
        out->min[k] = b->scales[k] >> 4;
    }
    two_bit_fields(b->qs, out->q);
}
RF_CODEC(q2_k, 256, true)

/* Scale k: low 4 bits in nibble k/8 of byte k%8, high 2 bits in bits 2*(k/4) of byte 8 + k%4. */
RF_INLINE void unpack_q3_k(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q3_k *restrict b = (const rf_block_q3_k *)row + g;
    out->d = rf_load_half(b->d);
    out->m = 0;
    for (int k = 0; k < 16; k++) {
        int low = b->scales[k % 8] >> 4 * (k / 8) & 15;
        int high = b->scales[8 + k % 4] >> 2 * (k / 4) & 3;
        out->scale[k] = (int16_t)((low | high << 4) - 32);
        out->min[k] = 0;
    }
    two_bit_fields(b->qs, out->q);
    for (int s = 0; s < 8; s++)
        for (int l = 0; l < 32; l++)
            out->q[32 * s + l] = (int8_t)((out->q[32 * s + l] | (b->hmask[l] >> s & 1) << 2) - 4);
}
RF_CODEC(q3_k, 256, false)

/* Eight scales and eight minimums of 6 bits in 12 bytes, one pair per 32 elements.  The first four
 * pairs lie in the low 6 bits of bytes 0..7; the others take nibbles of bytes 8..11 and the two
 * spare bits of bytes 0..7. */
RF_INLINE void six_bit_pairs(const uint8_t *restrict p, rf_int_group *restrict out) {
    for (int j = 0; j < 4; j++) {
        int first = p[j] & 63, first_min = p[j + 4] & 63;
        int second = (p[j + 8] & 15) | p[j] >> 6 << 4;
        int second_min = p[j + 8] >> 4 | p[j + 4] >> 6 << 4;
        out->scale[2 * j] = out->scale[2 * j + 1] = (int16_t)first;
        out->min[2 * j] = out->min[2 * j + 1] = (int16_t)first_min;
        out->scale[2 * j + 8] = out->scale[2 * j + 9] = (int16_t)second;
        out->min[2 * j + 8] = out->min[2 * j + 9] = (int16_t)second_min;
    }
}

RF_INLINE void unpack_q4_k(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q4_k *restrict b = (const rf_block_q4_k *)row + g;
    out->d = rf_load_half(b->d);
    out->m = -rf_load_half(b->dmin);
    six_bit_pairs(b->scales, out);
    for (int k = 0; k < 4; k++)
        for (int l = 0; l < 32; l++) {
            out->q[64 * k + l] = (int8_t)(b->qs[32 * k + l] & 15);
            out->q[64 * k + 32 + l] = (int8_t)(b->qs[32 * k + l] >> 4);
        }
}
RF_CODEC(q4_k, 256, true)

RF_INLINE void unpack_q5_k(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q5_k *restrict b = (const rf_block_q5_k *)row + g;
    out->d = rf_load_half(b->d);
    out->m = -rf_load_half(b->dmin);
    six_bit_pairs(b->scales, out);
    for (int k = 0; k < 4; k++)
        for (int l = 0; l < 32; l++) {
            int v = b->qs[32 * k + l], h = b->qh[l] >> 2 * k;
            out->q[64 * k + l] = (int8_t)((v & 15) | (h & 1) << 4);
            out->q[64 * k + 32 + l] = (int8_t)(v >> 4 | (h & 2) << 3);
        }
}
RF_CODEC(q5_k, 256, true)

RF_INLINE void unpack_q6_k(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q6_k *restrict b = (const rf_block_q6_k *)row + g;
    out->d = rf_load_half(b->d);
    out->m = 0;
    for (int k = 0; k < 16; k++) {
        out->scale[k] = b->scales[k];
        out->min[k] = 0;
    }
    for (int h = 0; h < 2; h++)
        for (int s = 0; s < 4; s++)
            for (int l = 0; l < 32; l++) {
                int low = b->ql[64 * h + s % 2 * 32 + l] >> s / 2 * 4 & 15;
                int high = b->qh[32 * h + l] >> 2 * s & 3;
                out->q[128 * h + 32 * s + l] = (int8_t)((low | high << 4) - 32);
            }
}
RF_CODEC(q6_k, 256, false)

/* The activation format of the K-quants: f32 scale, sums of 16 that the values do not need. */
RF_INLINE void unpack_q8_k(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_q8_k *restrict b = (const rf_block_q8_k *)row + g;
    out->d = rf_f32_of_bits(rf_load_u32(b->d));
    out->m = 0;
    for (int k = 0; k < 16; k++) {
        out->scale[k] = 1;
        out->min[k] = 0;
    }
    memcpy(out->q, b->qs, sizeof b->qs);
}
RF_CODEC(q8_k, 256, false)
