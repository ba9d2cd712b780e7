/* mm_decode_avx.h - blocks of small floats without an integer view (NVFP4, MXFP6_E3M2) as f32; private
 * to mm_float_avx*.c.
 *
 * Written over lanes of sixteen.  Codes become small integers or f16, which holds each of them exactly,
 * and are multiplied by their block's scale as decode() does; what decode() defines is in quant/mx.c. */
#pragma once
#include "backend/cpu/mm_avx2.h"
#include "quant/bits.h"

/* Four scales of E4M3, halved, in f16's place: that keeps them exact, subnormals too.  Their bit 7 is
 * not part of the number, and 0x7f is 0. */
RF_INLINE __m128 four_e4m3_halves(const uint8_t *p) {
    const __m128i nan = _mm_set1_epi16(0x7f);
    __m128i code = _mm_cvtepu8_epi16(_mm_cvtsi32_si128((int)rf_get_u32(p)));
    __m128i half = _mm_slli_epi16(_mm_and_si128(code, nan), 7); /* times 2^-8 */
    half = _mm_andnot_si128(_mm_cmpeq_epi16(code, nan), half);
    return _mm_mul_ps(_mm_cvtph_ps(half), _mm_set1_ps(0x1p7f));
}

RF_INLINE void decode_nvfp4(const rf_block_nvfp4 *b, float *dst) {
    const __m128i low4 = _mm_set1_epi8(15);
    const __m128i twice = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    float d[4];
    _mm_storeu_ps(d, four_e4m3_halves(b->d));
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        __m128i v = rf_at_64(b->qs + 8 * k);
        v = _mm_and_si128(_mm_unpacklo_epi64(v, _mm_srli_epi16(v, 4)), low4);
        lanes q = lanes_of_i8(_mm_shuffle_epi8(twice, v));
        lanes_store(dst + 16 * k, lanes_mul(lanes_set(d[k]), q));
    }
}

/* E3M2 is f16 with fewer bits of either kind, times 2^12. */
RF_INLINE void decode_e3m2(const rf_block_mxfp6 *b, float *dst) {
    const float d = b->e == 255 ? rf_f32_of_bits(0x7fc00000u) : rf_pow2(b->e - 127 - 4);
    const __m256i low5 = _mm256_set1_epi16(31);
    const __m256i at = _mm256_setr_m128i(_mm_setzero_si128(), _mm_set1_epi8(4));
    __m256i codes = rf_six_bits_as_bytes(rf_two_128(b->qs, b->qs + 8), at);
    const __m128i half[2] = {_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1)};
    RF_UNROLL
    for (int k = 0; k < 2; k++) {
        __m256i v = _mm256_cvtepu8_epi16(half[k]), sign = _mm256_andnot_si256(low5, v);
        v = _mm256_or_si256(_mm256_slli_epi16(_mm256_and_si256(v, low5), 8),
                            _mm256_slli_epi16(sign, 10));
        lanes sixteenths = lanes_mul(lanes_of_f16(v), lanes_set(0x1p16f));
        lanes_store(dst + 16 * k, lanes_mul(lanes_set(d), sixteenths));
    }
}

/* Returns how many of n elements, whole blocks, it decoded: all of the formats that it knows. */
RF_INLINE size_t decode_blocks(rf_dtype t, const uint8_t *src, float *dst, size_t n) {
    if (t == RF_DT_NVFP4)
        for (size_t i = 0; i < n; i += 64, src += sizeof(rf_block_nvfp4))
            decode_nvfp4((const rf_block_nvfp4 *)src, dst + i);
    else if (t == RF_DT_MXFP6_E3M2)
        for (size_t i = 0; i < n; i += 32, src += sizeof(rf_block_mxfp6))
            decode_e3m2((const rf_block_mxfp6 *)src, dst + i);
    else
        return 0;
    return n;
}
