/* ternary.c - TQ1_0 and TQ2_0: values -d, 0, d (code 3 of TQ2_0 gives 2d), 256 to a block. */
#include "quant/codec.h"

RF_INLINE void unit_scales(rf_int_group *restrict out) {
    for (int k = 0; k < 16; k++) {
        out->scale[k] = 1;
        out->min[k] = 0;
    }
}

/* A byte holds 0.t0t1t2t3t4 in base 3, rounded up, as a fixed-point fraction of 256.  Multiplying
 * by 3^i modulo 256 brings digit i to the front; times 3, the front digit is the integer part. */
RF_INLINE void trits(const uint8_t *restrict bytes, int n_bytes, int n_digits, int8_t *restrict q) {
    static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
    for (int i = 0; i < n_digits; i++)
        for (int l = 0; l < n_bytes; l++) {
            uint8_t front = (uint8_t)(bytes[l] * pow3[i]);
            q[n_bytes * i + l] = (int8_t)((front * 3 >> 8) - 1);
        }
}

RF_INLINE void unpack_tq1_0(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_tq1_0 *restrict b = (const rf_block_tq1_0 *)row + g;
    out->d = rf_load_half(b->d);
    out->m = 0;
    unit_scales(out);
    trits(b->qs, 32, 5, out->q);
    trits(b->qs + 32, 16, 5, out->q + 160);
    trits(b->qh, 4, 4, out->q + 240);
}
RF_CODEC(tq1_0, 256, false)

RF_INLINE void unpack_tq2_0(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_tq2_0 *restrict b = (const rf_block_tq2_0 *)row + g;
    out->d = rf_load_half(b->d);
    out->m = 0;
    unit_scales(out);
    for (int h = 0; h < 2; h++)
        for (int s = 0; s < 4; s++)
            for (int l = 0; l < 32; l++)
                out->q[128 * h + 32 * s + l] = (int8_t)((b->qs[32 * h + l] >> 2 * s & 3) - 1);
}
RF_CODEC(tq2_0, 256, false)
