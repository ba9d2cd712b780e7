/* mm_vec_avx2.h - a dword of each of eight weight rows as one vector; private to mm_*avx*.c.
 *
 * mm_vec_avx512.h says the same of sixteen; a file includes one of them and then mm_quads.h, which
 * is written over `vec`. */
#pragma once
#include "backend/cpu/mm_avx2.h"

enum { VEC_ROWS = 8 };
typedef __m256i vec;
typedef __m256 vec_floats;

RF_INLINE vec vec_set(uint32_t v) { return _mm256_set1_epi32((int)v); }
RF_INLINE vec vec_bytes(uint8_t v) { return _mm256_set1_epi8((char)v); }
RF_INLINE vec vec_and(vec a, vec b) { return _mm256_and_si256(a, b); }
RF_INLINE vec vec_or(vec a, vec b) { return _mm256_or_si256(a, b); }
RF_INLINE vec vec_andnot(vec not_a, vec b) { return _mm256_andnot_si256(not_a, b); }
RF_INLINE vec vec_xor(vec a, vec b) { return _mm256_xor_si256(a, b); }
RF_INLINE vec vec_add_bytes(vec a, vec b) { return _mm256_add_epi8(a, b); }
RF_INLINE vec vec_sub_bytes(vec a, vec b) { return _mm256_sub_epi8(a, b); }
RF_INLINE vec vec_sub_words(vec a, vec b) { return _mm256_sub_epi16(a, b); }
RF_INLINE vec vec_mul_words(vec a, vec b) { return _mm256_mullo_epi16(a, b); }
RF_INLINE vec vec_add(vec a, vec b) { return _mm256_add_epi32(a, b); }
RF_INLINE vec vec_mul(vec a, vec b) { return _mm256_mullo_epi32(a, b); }
RF_INLINE vec vec_min(vec a, vec b) { return _mm256_min_epi32(a, b); }
RF_INLINE vec vec_max(vec a, vec b) { return _mm256_max_epi32(a, b); }
RF_INLINE vec vec_negative_ints(vec v) { return _mm256_sub_epi32(_mm256_setzero_si256(), v); }
/* Of each dword's four signed bytes. */
RF_INLINE vec vec_sum_bytes(vec v) {
    v = _mm256_maddubs_epi16(vec_bytes(1), v);
    return _mm256_madd_epi16(v, _mm256_set1_epi16(1));
}
/* Unsigned bytes by how much they are above n, or 0. */
RF_INLINE vec vec_bytes_above(vec v, uint8_t n) { return _mm256_subs_epu8(v, vec_bytes(n)); }
/* Each i16. */
RF_INLINE vec vec_mul_pairs(vec v, int by) {
    return _mm256_mullo_epi16(v, _mm256_set1_epi16((short)by));
}
RF_INLINE vec vec_shl(vec v, int n) { return _mm256_slli_epi32(v, n); }
RF_INLINE vec vec_shr(vec v, int n) { return _mm256_srli_epi32(v, n); }
RF_INLINE vec vec_sar(vec v, int n) { return _mm256_srai_epi32(v, n); }
RF_INLINE vec vec_load(const uint8_t *p) { return _mm256_load_si256((const __m256i *)p); }
RF_INLINE void vec_store(uint8_t *p, vec v) { _mm256_store_si256((__m256i *)p, v); }
RF_INLINE vec_floats vec_load_floats(const uint8_t *p) {
    return _mm256_load_ps((const float *)(const void *)p);
}
RF_INLINE void vec_store_floats(uint8_t *p, vec_floats v) {
    _mm256_store_ps((float *)(void *)p, v);
}
RF_INLINE vec_floats vec_floats_zero(void) { return _mm256_setzero_ps(); }
RF_INLINE vec_floats vec_negative(vec_floats v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }
RF_INLINE vec_floats vec_floats_add(vec_floats a, vec_floats b) { return _mm256_add_ps(a, b); }
RF_INLINE vec_floats vec_floats_sub(vec_floats a, vec_floats b) { return _mm256_sub_ps(a, b); }
RF_INLINE vec_floats vec_as_floats(vec v) { return _mm256_castsi256_ps(v); }
RF_INLINE vec vec_of_floats(vec_floats v) { return _mm256_castps_si256(v); }

/* Bytes of a table of sixteen. */
RF_INLINE vec vec_look_up(__m128i table, vec v) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), v);
}

/* Bits 4i .. 4i+3 of each dword as bytes of 0 or 16. */
RF_INLINE vec vec_four_bits(vec v, int i) {
    const __m256i first = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404,
                                            0x08080808, 0x0c0c0c0c);
    const __m256i bits = _mm256_set1_epi32(i % 2 ? (int)0x80402010u : 0x08040201);
    v = _mm256_shuffle_epi8(v, _mm256_add_epi8(first, _mm256_set1_epi8((char)(i / 2))));
    v = _mm256_cmpeq_epi8(_mm256_and_si256(v, bits), bits);
    return _mm256_and_si256(v, _mm256_set1_epi8(16));
}

/* Each row's f16 at `at`. */
RF_INLINE vec_floats vec_halves(const rf_mm_lanes *r, size_t at) {
    __m128i low = _mm_cvtsi64_si128((long long)rf_mm_four_halves(r, 0, at));
    __m128i high = _mm_cvtsi64_si128((long long)rf_mm_four_halves(r, 1, at));
    return _mm256_cvtph_ps(_mm_unpacklo_epi64(low, high));
}

/* Each row's dword at `at`. */
RF_INLINE vec vec_dwords(const rf_mm_lanes *r, size_t at) {
    return _mm256_setr_epi64x(
        (long long)rf_mm_two_dwords(r, 0, at), (long long)rf_mm_two_dwords(r, 1, at),
        (long long)rf_mm_two_dwords(r, 2, at), (long long)rf_mm_two_dwords(r, 3, at));
}

/* Bytes a and b of each dword as two i16; byte RF_MM_NO_BYTE is 0. */
RF_INLINE vec vec_pair(vec v, unsigned a, unsigned b, bool is_signed) {
    const __m128i order = rf_pair_order(a, b, is_signed);
    v = _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order));
    return is_signed ? _mm256_srai_epi16(v, 8) : v;
}

/* The four dwords at `at` of each row's block. */
RF_INLINE void vec_gather_4(const rf_mm_lanes *p, size_t at, vec out[4]) {
    vec r[4], low[2], high[2];
    RF_UNROLL
    for (int i = 0; i < 4; i++)
        r[i] = rf_two_128(rf_mm_lane(p, i) + at, rf_mm_lane(p, i + 4) + at);
    RF_UNROLL
    for (int i = 0; i < 2; i++) {
        low[i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        high[i] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    out[0] = _mm256_unpacklo_epi64(low[0], low[1]);
    out[1] = _mm256_unpackhi_epi64(low[0], low[1]);
    out[2] = _mm256_unpacklo_epi64(high[0], high[1]);
    out[3] = _mm256_unpackhi_epi64(high[0], high[1]);
}

/* Each dword's low half is an f16. */
RF_INLINE vec_floats vec_low_halves(vec v) {
    v = _mm256_packus_epi32(_mm256_and_si256(v, _mm256_set1_epi32(0xffff)), v);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(v, 0x08)));
}

/* rf_e8m0 of each row's byte at `at`. */
RF_INLINE vec_floats vec_e8m0(const rf_mm_lanes *r, size_t at, int shift, bool has_nan) {
    __m128i bytes = _mm_cvtsi64_si128((long long)rf_mm_eight_bytes(r, 0, at));
    return rf_e8m0(_mm256_cvtepu8_epi32(bytes), shift, has_nan);
}
