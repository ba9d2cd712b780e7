/* mx.c - micro-scaling floats: MXFP4, NVFP4, MXFP6 E2M3 and E3M2.
 *
 * A block is a shared scale and small floats.  MXFP4 and NVFP4 follow ggml: no NaN, and no negative
 * zero (code 8 is +0).  MXFP6 has no type id in ggml; it follows the OCP Microscaling specification
 * 1.0: scale 255 is NaN, zeros keep their sign. */
#include "quant/codec.h"

RF_INLINE int above(int v, int limit) { return (v - limit) & -(v > limit); }

/* Twice the value of an E2M1 code: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives.  The slope doubles
 * with each exponent, so a sum of ramps gives it, in vector code, which look-ups are not. */
RF_INLINE int e2m1_twice(uint8_t code) {
    int c = code & 7, v = c + above(c, 4) + 2 * above(c, 6);
    int sign = -(code >> 3 & 1);
    return (v ^ sign) - sign;
}

/* q holds doubled values, hence d = 2^(e - 127) / 2. */
RF_INLINE void unpack_mxfp4(const void *row, size_t g, rf_int_group *restrict out) {
    const rf_block_mxfp4 *restrict b = (const rf_block_mxfp4 *)row + g;
    out->d = rf_pow2(b->e - 128);
    out->m = 0;
    for (int j = 0; j < 16; j++) {
        out->q[j] = (int8_t)e2m1_twice(b->qs[j] & 15);
        out->q[j + 16] = (int8_t)e2m1_twice(b->qs[j] >> 4);
    }
}
RF_CODEC(mxfp4, 32, false)

/* Unsigned E4M3 with bias 7, halved for e2m1_twice().  The code of NaN, 0x7f, means 0.
 * Bit 7 is not part of the number, and 0xff is 480: so it is in ggml. */
static float ue4m3_half(uint8_t code) {
    int exponent = code >> 3 & 15, mantissa = code & 7;
    if (code == 0x7f) return 0;
    return exponent == 0 ? (float)mantissa * rf_pow2(-10)
                         : (float)(8 + mantissa) * rf_pow2(exponent - 11);
}

void rf_decode_nvfp4(const void *src, float *dst, size_t n) {
    const rf_block_nvfp4 *b = (const rf_block_nvfp4 *)src;
    for (size_t g = 0; g < n / 64; g++) {
        float w[64];
        for (int k = 0; k < 4; k++) {
            float d = ue4m3_half(b[g].d[k]);
            int8_t q[16];
            for (int j = 0; j < 8; j++) {
                q[j] = (int8_t)e2m1_twice(b[g].qs[8 * k + j] & 15);
                q[j + 8] = (int8_t)e2m1_twice(b[g].qs[8 * k + j] >> 4);
            }
            for (int j = 0; j < 16; j++)
                w[16 * k + j] = d * (float)q[j];
        }
        memcpy((uint8_t *)(void *)dst + g * sizeof w, w, sizeof w);
    }
}

/* The 6-bit codes of a block, one per byte.  Eight codes fill six bytes and straddle their borders;
 * taken as one number they part in halves of 24, 12 and 6 bits. */
RF_INLINE void six_bit_codes(const uint8_t *restrict p, uint8_t *restrict code) {
    for (int k = 0; k < 4; k++) {
        uint64_t v = rf_load_u32(p + 6 * k) | (uint64_t)rf_load_u16(p + 6 * k + 4) << 32;
        v = (v & 0xffffff) | v >> 24 << 32;
        v = (v & UINT64_C(0x00000fff00000fff)) | (v & UINT64_C(0x00fff00000fff000)) << 4;
        v = (v & UINT64_C(0x003f003f003f003f)) | (v & UINT64_C(0x0fc00fc00fc00fc0)) << 2;
        memcpy(code + 8 * k, &v, sizeof v);
    }
}

/* Magnitudes as integers: E2M3 in eighths (0..60), E3M2 in sixteenths (0..448); ramps as above. */
RF_INLINE int e2m3_eighths(uint8_t code) {
    int c = code & 31;
    return c + above(c, 16) + 2 * above(c, 24);
}
RF_INLINE int e3m2_sixteenths(uint8_t code) {
    int c = code & 31;
    return c + above(c, 8) + 2 * above(c, 12) + 4 * above(c, 16) + 8 * above(c, 20) +
           16 * above(c, 24) + 32 * above(c, 28);
}

/* 2^(e - 127 - shift), or the quiet NaN. */
RF_INLINE float e8m0(uint8_t e, int shift) {
    return e == 255 ? rf_f32_of_bits(0x7fc00000u) : rf_pow2(e - 127 - shift);
}

/* An integer has no -0, so the sign is put on the float; the NaN has none. */
RF_INLINE uint32_t sign_bit(uint8_t code, uint8_t e) {
    return e == 255 ? 0 : (uint32_t)(code & 32) << 26;
}

RF_INLINE void decode_mxfp6(const void *src, float *dst, size_t n, int (*magnitude)(uint8_t),
                            int shift) {
    const rf_block_mxfp6 *b = (const rf_block_mxfp6 *)src;
    for (size_t g = 0; g < n / 32; g++) {
        float w[32], d = e8m0(b[g].e, shift);
        uint8_t code[32];
        six_bit_codes(b[g].qs, code);
        for (int i = 0; i < 32; i++)
            w[i] = d * (float)magnitude(code[i]);
        for (int i = 0; i < 32; i++) {
            uint32_t bits;
            memcpy(&bits, w + i, sizeof bits);
            bits |= sign_bit(code[i], b[g].e);
            memcpy(w + i, &bits, sizeof bits);
        }
        memcpy((uint8_t *)(void *)dst + g * sizeof w, w, sizeof w);
    }
}

void rf_decode_mxfp6_e2m3(const void *src, float *dst, size_t n) {
    decode_mxfp6(src, dst, n, e2m3_eighths, 3);
}

void rf_decode_mxfp6_e3m2(const void *src, float *dst, size_t n) {
    decode_mxfp6(src, dst, n, e3m2_sixteenths, 4);
}

void rf_unpack_mxfp6_e2m3(const void *row, size_t g, rf_int_group *out) {
    const rf_block_mxfp6 *b = (const rf_block_mxfp6 *)row + g;
    uint8_t code[32];
    six_bit_codes(b->qs, code);
    out->d = e8m0(b->e, 3);
    out->m = 0;
    for (int i = 0; i < 32; i++) {
        int sign = -(code[i] >> 5 & 1);
        out->q[i] = (int8_t)((e2m3_eighths(code[i]) ^ sign) - sign);
    }
}
