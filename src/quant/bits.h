/* bits.h - bytes to numbers: unaligned loads, f16, powers of two, eight bytes in one word.
 *
 * Private to src/quant; everything is inline and pure, and free of branches where
 * loops use it. */
#pragma once
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RF_INLINE static inline __attribute__((always_inline))

RF_INLINE uint16_t rf_load_u16(const void *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
RF_INLINE uint32_t rf_load_u32(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
RF_INLINE float rf_f32_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
/* dst may be unaligned, so floats leave through here. */
RF_INLINE void rf_store_f32(void *dst, size_t i, float f) {
    memcpy((uint8_t *)dst + i * sizeof f, &f, sizeof f);
}

/* The same bits as rf_f16_to_f32, inlined and free of branches so that loops over it become vector
 * code.  Subnormals are converted as integers, not through f32 subnormals: a processor that flushes
 * those would lose them. */
RF_INLINE float rf_half(uint16_t h) {
    uint32_t mag = h & 0x7fffu;
    uint32_t is_sub = 0u - (mag < 0x400u), is_special = 0u - (mag >= 0x7c00u);
    uint32_t is_nan = 0u - (mag > 0x7c00u);
    uint32_t normal =
        (mag << 13) + (112u << 23) + (is_special & 112u << 23); /* exponent 31 -> 255 */
    float sub = (float)(int32_t)mag * 0x1p-24f;
    uint32_t sub_bits;
    memcpy(&sub_bits, &sub, sizeof sub_bits);
    uint32_t bits = (sub_bits & is_sub) | (normal & ~is_sub);
    bits |= is_nan & 1u << 22; /* NaNs become quiet ones, as in hardware */
    return rf_f32_of_bits(bits | (uint32_t)(h & 0x8000u) << 16);
}
RF_INLINE float rf_load_half(const uint8_t *p) { return rf_half(rf_load_u16(p)); }

/* 2^e for -149 <= e <= 127, subnormals included. */
RF_INLINE float rf_pow2(int e) {
    return rf_f32_of_bits(e >= -126 ? (uint32_t)(e + 127) << 23 : 1u << (e + 149));
}

/* Eight bytes in one word; byte i is element i. */
#define RF_BYTES(b) (UINT64_C(0x0101010101010101) * (b))

/* Byte i = bit i of b. */
RF_INLINE uint64_t rf_spread_1(uint8_t b) {
    uint64_t picked = RF_BYTES(b) & UINT64_C(0x8040201008040201);
    return ((picked + RF_BYTES(0x7f)) >> 7) & RF_BYTES(1); /* any bit but 7 carries into bit 7 */
}
/* Byte i = bits 2i and 2i+1 of v. */
RF_INLINE uint64_t rf_spread_2(uint16_t v) {
    uint64_t x = v;
    x = (x | x << 24) & UINT64_C(0x000000ff000000ff);
    x = (x | x << 12) & UINT64_C(0x000f000f000f000f);
    return (x | x << 6) & RF_BYTES(3);
}
/* k subtracted from every byte (0..127); the offset of 128 keeps bytes from borrowing. */
RF_INLINE uint64_t rf_bytes_minus(uint64_t v, uint8_t k) {
    return (v + RF_BYTES(128u - k)) ^ RF_BYTES(0x80);
}
/* Negates byte i of v where bit i of signs is set.  Bytes are 1..127: none may be 0. */
RF_INLINE uint64_t rf_negate_bytes(uint64_t v, uint8_t signs) {
    uint64_t one = rf_spread_1(signs);
    return (v ^ one * 255) + one;
}
/* The 8 signs of a code book entry of which only 7 are stored: their number is even. */
RF_INLINE uint8_t rf_even_signs(uint32_t s7) {
    return (uint8_t)(s7 | (uint32_t)__builtin_parity(s7) << 7);
}

#ifdef __cplusplus
}
#endif
