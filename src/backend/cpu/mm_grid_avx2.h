/* mm_grid_avx2.h - AVX2: loading the code-book formats (IQ1, IQ2, IQ3) and the ternary ones as
 * bytes; private to mm_*.c.
 *
 * Indices, signs and scales of a whole block are taken apart in vectors; then the grid points are
 * looked up one by one.  Loaders of IQ2 and IQ3 give signed q, those of IQ1 and TQ give q + off. */
#pragma once
#include <immintrin.h>
#include <stdalign.h>
#include <string.h>

#include "backend/cpu/mm.h"
#include "quant/blocks.h"
#include "quant/iq_tables.h"

RF_INLINE __m256i rf_at_256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
RF_INLINE __m128i rf_at_128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
RF_INLINE __m128i rf_at_64(const void *p) { return _mm_loadl_epi64((const __m128i *)p); }
RF_INLINE uint32_t rf_at_32(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Eight bytes of each of four grid points. */
RF_INLINE __m256i rf_points_of_8(const uint64_t *grid, uint32_t a, uint32_t b, uint32_t c,
                                 uint32_t d) {
    return _mm256_setr_epi64x((long long)grid[a], (long long)grid[b], (long long)grid[c],
                              (long long)grid[d]);
}

/* Byte k of each dword: field k of `bits` bits of that dword of v. */
RF_INLINE __m256i rf_four_fields(__m256i v, int bits) {
    const int ones = (1 << bits) - 1;
    __m256i out = _mm256_and_si256(v, _mm256_set1_epi32(ones));
    RF_UNROLL
    for (int k = 1; k < 4; k++) {
        __m256i field = _mm256_slli_epi32(v, k * (8 - bits));
        out = _mm256_or_si256(out, _mm256_and_si256(field, _mm256_set1_epi32(ones << 8 * k)));
    }
    return out;
}

/* low + 256 * high of 32 bytes. */
RF_INLINE void rf_store_indices(__m256i low, __m256i high, uint16_t *dst) {
    __m256i a = _mm256_unpacklo_epi8(low, high), b = _mm256_unpackhi_epi8(low, high);
    _mm256_store_si256((__m256i *)dst, _mm256_permute2x128_si256(a, b, 0x20));
    _mm256_store_si256((__m256i *)(dst + 16), _mm256_permute2x128_si256(a, b, 0x31));
}

/* Byte j of v eight times each, v a dword. */
RF_INLINE __m256i rf_spread_4(uint32_t v) {
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                            2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    return _mm256_shuffle_epi8(_mm256_set1_epi32((int)v), spread);
}

/* All ones in the bytes whose bit in v is set. */
RF_INLINE __m256i rf_mask_of_32(uint32_t v) {
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    return _mm256_cmpeq_epi8(_mm256_and_si256(rf_spread_4(v), bit), bit);
}

RF_INLINE __m256i rf_negate(__m256i v, uint32_t signs) {
    __m256i mask = rf_mask_of_32(signs);
    return _mm256_sub_epi8(_mm256_xor_si256(v, mask), mask);
}

/* Bytes of seven sign bits, with an eighth that makes the number of ones even. */
RF_INLINE __m256i rf_even_bytes(__m256i v) {
    const __m256i low4 = _mm256_set1_epi8(15);
    const __m256i odd = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    __m256i a = _mm256_shuffle_epi8(odd, _mm256_and_si256(v, low4));
    __m256i b = _mm256_shuffle_epi8(odd, _mm256_and_si256(_mm256_srli_epi16(v, 4), low4));
    return _mm256_or_si256(v, _mm256_xor_si256(a, b));
}

RF_INLINE __m256i rf_twice_plus_one(__m256i v) {
    return _mm256_add_epi16(_mm256_add_epi16(v, v), _mm256_set1_epi16(1));
}

/* The low halves of eight dwords. */
RF_INLINE __m128i rf_low_halves(__m256i v) {
    return _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

/* 2s + 1 of the sixteen nibbles s of eight bytes. */
RF_INLINE __m256i rf_nibble_scales(const uint8_t *p) {
    __m128i v = _mm_cvtepu8_epi16(rf_at_64(p));
    __m128i low = _mm_and_si128(v, _mm_set1_epi16(15)), high = _mm_srli_epi16(v, 4);
    return rf_twice_plus_one(
        _mm256_setr_m128i(_mm_unpacklo_epi16(low, high), _mm_unpackhi_epi16(low, high)));
}

/* ---- IQ2_XXS, IQ3_XXS: eight dwords of four times seven sign bits and a scale ---- */

RF_INLINE __m256i rf_words_iq2_xxs(const rf_block_iq2_xxs *b) {
    __m256 first = _mm256_castsi256_ps(rf_at_256(b->qs));
    __m256 second = _mm256_castsi256_ps(rf_at_256(b->qs + 32));
    return _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(first, second, 0xdd)),
                                    0xd8);
}

RF_INLINE void rf_signs_of_words(__m256i words, uint32_t signs[8]) {
    _mm256_store_si256((__m256i *)signs, rf_even_bytes(rf_four_fields(words, 7)));
}

RF_INLINE __m128i rf_scales_of_words(__m256i words) {
    return _mm256_castsi256_si128(
        rf_twice_plus_one(_mm256_castsi128_si256(rf_low_halves(_mm256_srli_epi32(words, 28)))));
}

RF_INLINE void rf_load_iq2_xxs(const rf_block_iq2_xxs *b, __m256i w[8]) {
    alignas(32) uint32_t signs[8];
    rf_signs_of_words(rf_words_iq2_xxs(b), signs);
    RF_UNROLL
    for (int j = 0; j < 8; j++) {
        const uint8_t *i = b->qs + 8 * j;
        w[j] = rf_negate(rf_points_of_8(rf_iq2xxs_grid, i[0], i[1], i[2], i[3]), signs[j]);
    }
}

/* Eight grid points of four bytes. */
RF_INLINE __m256i rf_points_of_4(const uint32_t *grid, const uint32_t i[8]) {
    __m256i v;
    uint32_t point[8];
    RF_UNROLL
    for (int k = 0; k < 8; k++)
        point[k] = grid[i[k]];
    v = _mm256_setr_epi32((int)point[0], (int)point[1], (int)point[2], (int)point[3], (int)point[4],
                          (int)point[5], (int)point[6], (int)point[7]);
    return v;
}

RF_INLINE void rf_load_iq3_xxs(const rf_block_iq3_xxs *b, __m256i w[8]) {
    alignas(32) uint32_t signs[8];
    rf_signs_of_words(rf_at_256(b->signs), signs);
    RF_UNROLL
    for (int j = 0; j < 8; j++) {
        uint32_t i[8];
        RF_UNROLL
        for (int k = 0; k < 8; k++)
            i[k] = b->qs[8 * j + k];
        w[j] = rf_negate(rf_points_of_4(rf_iq3xxs_grid, i), signs[j]);
    }
}

/* ---- IQ2_XS, IQ2_S, IQ3_S: indices of nine and ten bits ---- */

RF_INLINE void rf_signs_iq2_xs(const rf_block_iq2_xs *b, uint32_t signs[8]) {
    __m256i first = _mm256_srli_epi16(rf_at_256(b->qs), 9);
    __m256i second = _mm256_srli_epi16(rf_at_256(b->qs + 32), 9);
    __m256i seven = _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0xd8);
    _mm256_store_si256((__m256i *)signs, rf_even_bytes(seven));
}

RF_INLINE void rf_load_iq2_xs(const rf_block_iq2_xs *b, __m256i w[8]) {
    alignas(32) uint16_t i[32];
    alignas(32) uint32_t signs[8];
    const __m256i low9 = _mm256_set1_epi16(511);
    rf_signs_iq2_xs(b, signs);
    _mm256_store_si256((__m256i *)i, _mm256_and_si256(rf_at_256(b->qs), low9));
    _mm256_store_si256((__m256i *)(i + 16), _mm256_and_si256(rf_at_256(b->qs + 32), low9));
    RF_UNROLL
    for (int j = 0; j < 8; j++)
        w[j] = rf_negate(
            rf_points_of_8(rf_iq2xs_grid, i[4 * j], i[4 * j + 1], i[4 * j + 2], i[4 * j + 3]),
            signs[j]);
}

RF_INLINE void rf_load_iq2_s(const rf_block_iq2_s *b, __m256i w[8]) {
    alignas(32) uint16_t i[32];
    __m256i high = rf_four_fields(_mm256_cvtepu8_epi32(rf_at_64(b->qh)), 2);
    rf_store_indices(rf_at_256(b->qs), high, i);
    RF_UNROLL
    for (int j = 0; j < 8; j++)
        w[j] = rf_negate(
            rf_points_of_8(rf_iq2s_grid, i[4 * j], i[4 * j + 1], i[4 * j + 2], i[4 * j + 3]),
            rf_at_32(b->signs + 4 * j));
}

RF_INLINE void rf_load_iq3_s(const rf_block_iq3_s *b, __m256i w[8]) {
    alignas(32) uint16_t index[64];
    const __m256i one = _mm256_set1_epi8(1);
    RF_UNROLL
    for (int h = 0; h < 2; h++) {
        __m256i high = _mm256_and_si256(rf_mask_of_32(rf_at_32(b->qh + 4 * h)), one);
        rf_store_indices(rf_at_256(b->qs + 32 * h), high, index + 32 * h);
    }
    RF_UNROLL
    for (int j = 0; j < 8; j++) {
        uint32_t i[8];
        RF_UNROLL
        for (int k = 0; k < 8; k++)
            i[k] = index[8 * j + k];
        w[j] = rf_negate(rf_points_of_4(rf_iq3s_grid, i), rf_at_32(b->signs + 4 * j));
    }
}

RF_INLINE __m128i rf_scales_iq3_s(const rf_block_iq3_s *b) {
    __m128i v = _mm_cvtepu8_epi16(_mm_cvtsi32_si128((int)rf_at_32(b->scales)));
    __m128i low = _mm_and_si128(v, _mm_set1_epi16(15)), high = _mm_srli_epi16(v, 4);
    return _mm256_castsi256_si128(
        rf_twice_plus_one(_mm256_castsi128_si256(_mm_unpacklo_epi16(low, high))));
}

/* ---- IQ1: q + 9 is 8c for c - 1 - 1/8 in eighths and 8c + 2 for c - 1 + 1/8 ---- */

RF_INLINE __m256i rf_points_iq1(const uint16_t *i, __m256i add) {
    __m256i c = rf_points_of_8(rf_iq1s_grid, i[0], i[1], i[2], i[3]);
    return _mm256_add_epi8(_mm256_slli_epi16(c, 3), add);
}

RF_INLINE __m256i rf_words_iq1_s(const rf_block_iq1_s *b) {
    return _mm256_cvtepu16_epi32(rf_at_128(b->qh));
}

RF_INLINE void rf_load_iq1_s(const rf_block_iq1_s *b, __m256i w[8]) {
    alignas(32) uint16_t i[32];
    rf_store_indices(rf_at_256(b->qs), rf_four_fields(rf_words_iq1_s(b), 3), i);
    RF_UNROLL
    for (int j = 0; j < 8; j++) {
        int minus = b->qh[2 * j + 1] >> 7;
        w[j] = rf_points_iq1(i + 4 * j, _mm256_set1_epi8((char)(2 - 2 * minus)));
    }
}

RF_INLINE __m128i rf_scales_iq1_s(const rf_block_iq1_s *b) {
    __m256i s = _mm256_and_si256(_mm256_srli_epi32(rf_words_iq1_s(b), 12), _mm256_set1_epi32(7));
    return _mm256_castsi256_si128(rf_twice_plus_one(_mm256_castsi128_si256(rf_low_halves(s))));
}

RF_INLINE void rf_load_iq1_m(const rf_block_iq1_m *b, __m256i w[8]) {
    alignas(32) uint16_t i[32];
    alignas(32) uint32_t add[8];
    __m128i v = rf_at_128(b->qh), low4 = _mm_set1_epi8(15);
    __m128i even = _mm_and_si128(v, low4), odd = _mm_and_si128(_mm_srli_epi16(v, 4), low4);
    __m256i nibbles = _mm256_setr_m128i(_mm_unpacklo_epi8(even, odd), _mm_unpackhi_epi8(even, odd));
    rf_store_indices(rf_at_256(b->qs), _mm256_and_si256(nibbles, _mm256_set1_epi8(7)), i);
    __m256i minus = _mm256_and_si256(nibbles, _mm256_set1_epi8(8));
    _mm256_store_si256((__m256i *)add,
                       _mm256_sub_epi8(_mm256_set1_epi8(2), _mm256_srli_epi16(minus, 2)));
    RF_UNROLL
    for (int j = 0; j < 8; j++)
        w[j] = rf_points_iq1(i + 4 * j, rf_spread_4(add[j]));
}

/* Four words of four scales of three bits; the top nibbles are not theirs. */
RF_INLINE __m256i rf_scales_iq1_m(const rf_block_iq1_m *b) {
    const __m256i four_times = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4,
                                                5, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7);
    const __m256i to_top =
        _mm256_set1_epi64x(1ll << 13 | 1ll << (16 + 10) | 1ll << (32 + 7) | 1ll << (48 + 4));
    __m256i v = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(rf_at_64(b->scales)), four_times);
    return rf_twice_plus_one(_mm256_srli_epi16(_mm256_mullo_epi16(v, to_top), 13));
}

/* The bits of d. */
RF_INLINE uint16_t rf_half_iq1_m(const rf_block_iq1_m *b) {
    unsigned d = 0;
    for (int k = 0; k < 4; k++)
        d |= (unsigned)(b->scales[2 * k + 1] >> 4) << 4 * k;
    return (uint16_t)d;
}

/* ---- ternary: q + 1 ---- */

/* A byte is a fraction of 256 in base 3: its first digit is 0 below 256 / 3, 1 below 512 / 3. */
RF_INLINE __m256i rf_first_trits(__m256i v) {
    const __m256i third = _mm256_set1_epi8(86), two_thirds = _mm256_set1_epi8((char)171);
    __m256i a = _mm256_cmpeq_epi8(_mm256_max_epu8(v, third), v);
    __m256i b = _mm256_cmpeq_epi8(_mm256_max_epu8(v, two_thirds), v);
    return _mm256_sub_epi8(_mm256_setzero_si256(), _mm256_add_epi8(a, b));
}

RF_INLINE __m256i rf_next_trits(__m256i v) { return _mm256_add_epi8(_mm256_add_epi8(v, v), v); }

RF_INLINE void rf_load_tq1_0(const rf_block_tq1_0 *b, __m256i w[8]) {
    __m256i v = rf_at_256(b->qs);
    RF_UNROLL
    for (int j = 0; j < 5; j++, v = rf_next_trits(v))
        w[j] = rf_first_trits(v);
    /* sixteen bytes of five digits, then four of four: digits 0 and 1 side by side */
    __m128i first = rf_at_128(b->qs + 32);
    __m128i second = _mm_add_epi8(_mm_add_epi8(first, first), first);
    v = _mm256_setr_m128i(first, second);
    w[5] = rf_first_trits(v);
    v = rf_next_trits(rf_next_trits(v));
    w[6] = rf_first_trits(v);
    v = rf_next_trits(rf_next_trits(v));
    __m128i last = _mm_set1_epi32((int)rf_at_32(b->qh));
    const __m128i pow3 = _mm_setr_epi16(1, 1, 3, 3, 9, 9, 27, 27), byte = _mm_set1_epi16(255);
    __m128i even = _mm_mullo_epi16(_mm_and_si128(last, byte), pow3);
    __m128i odd = _mm_mullo_epi16(_mm_srli_epi16(last, 8), pow3);
    last = _mm_or_si128(_mm_and_si128(even, byte), _mm_slli_epi16(odd, 8));
    w[7] = rf_first_trits(_mm256_setr_m128i(_mm256_castsi256_si128(v), last));
}
