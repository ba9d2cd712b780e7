/* mm_vec_avx512.h - a dword of each of sixteen weight rows as one vector; see mm_vec_avx2.h and
 * mm_vec_avxvnni.h. */
#pragma once
#include "backend/cpu/mm_avx2.h"

enum { VEC_ROWS = 16 };
typedef __m512i vec;
typedef __m512 vec_floats;
typedef uint32_t vec_u32 __attribute__((vector_size(64)));
typedef int32_t vec_i32 __attribute__((vector_size(64)));

RF_INLINE vec vec_set(uint32_t v) { return _mm512_set1_epi32((int)v); }
RF_INLINE vec vec_bytes(uint8_t v) { return _mm512_set1_epi8((char)v); }
RF_INLINE vec vec_and(vec a, vec b) { return _mm512_and_si512(a, b); }
RF_INLINE vec vec_or(vec a, vec b) { return _mm512_or_si512(a, b); }
RF_INLINE vec vec_andnot(vec not_a, vec b) { return _mm512_andnot_si512(not_a, b); }
RF_INLINE vec vec_xor(vec a, vec b) { return _mm512_xor_si512(a, b); }
RF_INLINE vec vec_add_bytes(vec a, vec b) { return _mm512_add_epi8(a, b); }
RF_INLINE vec vec_sub_bytes(vec a, vec b) { return _mm512_sub_epi8(a, b); }
RF_INLINE vec vec_sub_words(vec a, vec b) { return _mm512_sub_epi16(a, b); }
RF_INLINE vec vec_mul_words(vec a, vec b) { return _mm512_mullo_epi16(a, b); }
RF_INLINE vec vec_add(vec a, vec b) { return _mm512_add_epi32(a, b); }
RF_INLINE vec vec_mul(vec a, vec b) { return _mm512_mullo_epi32(a, b); }
RF_INLINE vec vec_min(vec a, vec b) { return _mm512_min_epi32(a, b); }
RF_INLINE vec vec_max(vec a, vec b) { return _mm512_max_epi32(a, b); }
RF_INLINE vec vec_negative_ints(vec v) { return _mm512_sub_epi32(_mm512_setzero_si512(), v); }
RF_INLINE vec vec_sum_bytes(vec v) {
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), vec_bytes(1), v);
}
RF_INLINE vec vec_bytes_above(vec v, uint8_t n) { return _mm512_subs_epu8(v, vec_bytes(n)); }
RF_INLINE vec vec_mul_pairs(vec v, int by) {
    return _mm512_mullo_epi16(v, _mm512_set1_epi16((short)by));
}
/* Not by name: the intrinsics want literal counts, which unrolled loops only have when optimised. */
RF_INLINE vec vec_shl(vec v, int n) { return (vec)((vec_u32)v << n); }
RF_INLINE vec vec_shr(vec v, int n) { return (vec)((vec_u32)v >> n); }
RF_INLINE vec vec_sar(vec v, int n) { return (vec)((vec_i32)v >> n); }
RF_INLINE vec vec_load(const uint8_t *p) { return _mm512_load_si512((const void *)p); }
RF_INLINE void vec_store(uint8_t *p, vec v) { _mm512_store_si512((void *)p, v); }
RF_INLINE void vec_store_floats(uint8_t *p, vec_floats v) { _mm512_store_ps((void *)p, v); }
RF_INLINE vec_floats vec_floats_zero(void) { return _mm512_setzero_ps(); }
RF_INLINE vec_floats vec_negative(vec_floats v) { return _mm512_xor_ps(v, _mm512_set1_ps(-0.0f)); }

RF_INLINE vec vec_look_up(__m128i table, vec v) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), v);
}

RF_INLINE vec vec_four_bits(vec v, int i) {
    const __m512i first =
        _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
    const __m512i bits = _mm512_set1_epi32(i % 2 ? (int)0x80402010u : 0x08040201);
    v = _mm512_shuffle_epi8(v, _mm512_add_epi8(first, _mm512_set1_epi8((char)(i / 2))));
    return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(v, bits), _mm512_set1_epi8(16));
}

RF_INLINE __m128i two_u64(uint64_t low, uint64_t high) {
    return _mm_unpacklo_epi64(_mm_cvtsi64_si128((long long)low),
                              _mm_cvtsi64_si128((long long)high));
}

RF_INLINE vec_floats vec_halves(const rf_mm_lanes *r, size_t at) {
    __m128i low = two_u64(rf_mm_four_halves(r, 0, at), rf_mm_four_halves(r, 1, at));
    __m128i high = two_u64(rf_mm_four_halves(r, 2, at), rf_mm_four_halves(r, 3, at));
    return _mm512_cvtph_ps(_mm256_setr_m128i(low, high));
}

RF_INLINE vec vec_dwords(const rf_mm_lanes *r, size_t at) {
    __m128i v[4];
    RF_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = two_u64(rf_mm_two_dwords(r, 2 * i, at), rf_mm_two_dwords(r, 2 * i + 1, at));
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_setr_m128i(v[0], v[1])),
                              _mm256_setr_m128i(v[2], v[3]), 1);
}

RF_INLINE vec vec_pair(vec v, unsigned a, unsigned b, bool is_signed) {
    const __m128i order = rf_pair_order(a, b, is_signed);
    v = _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(order));
    return is_signed ? _mm512_srai_epi16(v, 8) : v;
}

/* 16 bytes of each. */
RF_INLINE vec vec_of_four(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d) {
    vec v = _mm512_castsi128_si512(rf_load_128(a));
    v = _mm512_inserti32x4(v, rf_load_128(b), 1);
    v = _mm512_inserti32x4(v, rf_load_128(c), 2);
    return _mm512_inserti32x4(v, rf_load_128(d), 3);
}

/* Inside each 128 bits: out[i] gets dword i of r[0], r[1], r[2] and r[3]. */
RF_INLINE void transpose_dwords(const vec r[4], vec out[4]) {
    vec low[2], high[2];
    RF_UNROLL
    for (int i = 0; i < 2; i++) {
        low[i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        high[i] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    out[0] = _mm512_unpacklo_epi64(low[0], low[1]);
    out[1] = _mm512_unpackhi_epi64(low[0], low[1]);
    out[2] = _mm512_unpacklo_epi64(high[0], high[1]);
    out[3] = _mm512_unpackhi_epi64(high[0], high[1]);
}

RF_INLINE void vec_gather_4(const rf_mm_lanes *p, size_t at, vec out[4]) {
    vec r[4];
    RF_UNROLL
    for (int i = 0; i < 4; i++)
        r[i] = vec_of_four(rf_mm_lane(p, i) + at, rf_mm_lane(p, i + 4) + at,
                           rf_mm_lane(p, i + 8) + at, rf_mm_lane(p, i + 12) + at);
    transpose_dwords(r, out);
}

RF_INLINE vec_floats vec_low_halves(vec v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }

RF_INLINE vec_floats vec_e8m0(const rf_mm_lanes *r, size_t at, int shift, bool has_nan) {
    __m128i bytes = two_u64(rf_mm_eight_bytes(r, 0, at), rf_mm_eight_bytes(r, 1, at));
    __m512i e = _mm512_cvtepu8_epi32(bytes), s = _mm512_set1_epi32(shift);
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, s), 23);
    __m512i v = _mm512_sllv_epi32(_mm512_set1_epi32(1 << (22 - shift)), e);
    v = _mm512_mask_mov_epi32(v, _mm512_cmpgt_epi32_mask(e, s), normal);
    if (has_nan)
        v = _mm512_mask_mov_epi32(v, _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(255)),
                                  _mm512_set1_epi32(0x7fc00000));
    return _mm512_castsi512_ps(v);
}

RF_INLINE vec vec_dot_bytes(vec sum, vec u, vec s) { return _mm512_dpbusd_epi32(sum, u, s); }
RF_INLINE vec vec_dot_pairs(vec sum, vec a, vec b) { return _mm512_dpwssd_epi32(sum, a, b); }

RF_INLINE vec_floats vec_floats_set(float f) { return _mm512_set1_ps(f); }
RF_INLINE vec_floats vec_load_floats(const uint8_t *p) { return _mm512_load_ps((const void *)p); }
RF_INLINE vec_floats vec_to_floats(vec v) { return _mm512_cvtepi32_ps(v); }
RF_INLINE vec_floats vec_floats_add(vec_floats a, vec_floats b) { return _mm512_add_ps(a, b); }
RF_INLINE vec_floats vec_floats_sub(vec_floats a, vec_floats b) { return _mm512_sub_ps(a, b); }
RF_INLINE vec_floats vec_floats_mul(vec_floats a, vec_floats b) { return _mm512_mul_ps(a, b); }
RF_INLINE vec_floats vec_as_floats(vec v) { return _mm512_castsi512_ps(v); }
RF_INLINE vec vec_of_floats(vec_floats v) { return _mm512_castps_si512(v); }
/* Are the sizes of all normal numbers in 2^(least - 127) .. 2^(least + n - 127)? */
RF_INLINE bool vec_are_between(vec_floats v, uint32_t least, uint32_t n) {
    const vec exponent = _mm512_srli_epi32(_mm512_slli_epi32(_mm512_castps_si512(v), 1), 24);
    const vec above = _mm512_sub_epi32(exponent, _mm512_set1_epi32((int)least));
    return _mm512_cmplt_epu32_mask(above, _mm512_set1_epi32((int)n)) == 0xffff;
}
RF_INLINE vec_floats vec_fma(vec_floats a, vec_floats b, vec_floats c) {
    return _mm512_fmadd_ps(a, b, c);
}
RF_INLINE __mmask16 lanes_below(uint32_t n) {
    const uint32_t bits = n >= VEC_ROWS ? 0xffff : (1u << n) - 1;
    return (__mmask16)bits;
}
RF_INLINE vec_floats vec_load_floats_n(const float *p, uint32_t n) {
    return _mm512_maskz_loadu_ps(lanes_below(n), p);
}
RF_INLINE void vec_store_floats_n(float *p, uint32_t n, vec_floats v) {
    _mm512_mask_storeu_ps(p, lanes_below(n), v);
}
