/* mm_grid_avx512.h - AVX-512: loading a block of the code-book formats (IQ1, IQ2, IQ3) and
 * multiplying it with a few activation rows; private to mm_*avx512.c and mm_amx.c.
 *
 * Grid points are gathered eight or sixteen at a time and stay unsigned: signs are masks that turn the
 * activations round.  Four products fit 16 bits, so a product of pairs multiplies them by their scale. */
#pragma once
#include "backend/cpu/mm_avx2.h"

/* A block's integers, 64 to a vector, and the scale of each four of them; what is taken off per sum of 16
 * activations in IQ1. */
typedef struct rf_grid_block {
    __m512i u[4], scale[4];
    __mmask64 minus[4];
    __m256i off;
} rf_grid_block;

RF_INLINE bool rf_is_code_book(rf_mm_format f) { return f >= RF_MM_IQ2_XXS && f <= RF_MM_IQ1_M; }
RF_INLINE bool rf_grid_is_iq1(rf_mm_format f) { return f == RF_MM_IQ1_S || f == RF_MM_IQ1_M; }

/* Without optimisation these are macros that convert their masks. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
RF_INLINE __m512i rf_gather_8(const uint64_t *grid, __m256i i) {
    return _mm512_i32gather_epi64(i, (const void *)grid, 8);
}
RF_INLINE __m512i rf_gather_4(const uint32_t *grid, __m512i i) {
    return _mm512_i32gather_epi32(i, (const void *)grid, 4);
}
#pragma GCC diagnostic pop

/* n dwords (8 or 16) of scales spread over the block, as i16 beside a 0. */
RF_INLINE void rf_spread_scales(__m512i scales, int n, __m512i out[4]) {
    const __m512i quarter = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512i half = _mm512_srli_epi32(quarter, 1);
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        __m512i at = _mm512_add_epi32(n == 16 ? quarter : half, _mm512_set1_epi32(n / 4 * k));
        out[k] = _mm512_permutexvar_epi32(at, scales);
    }
}
RF_INLINE void rf_spread_8(__m128i scale8, __m512i out[4]) {
    rf_spread_scales(_mm512_castsi256_si512(_mm256_cvtepu16_epi32(scale8)), 8, out);
}
RF_INLINE void rf_spread_16(__m256i scale16, __m512i out[4]) {
    rf_spread_scales(_mm512_cvtepu16_epi32(scale16), 16, out);
}

RF_INLINE void rf_grid_iq2_xxs(const rf_block_iq2_xxs *b, rf_grid_block *out) {
    const __m256i first =
        _mm256_setr_epi32((int)0x80808000u, (int)0x80808001u, (int)0x80808002u, (int)0x80808003u,
                          (int)0x80808008u, (int)0x80808009u, (int)0x8080800au, (int)0x8080800bu);
    alignas(32) uint32_t signs[8];
    __m256i words = rf_words_iq2_xxs(b);
    rf_signs_of_words(words, signs);
    memcpy(out->minus, signs, sizeof out->minus);
    rf_spread_8(rf_scales_of_words(words), out->scale);
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        __m256i i = _mm256_broadcastsi128_si256(rf_load_128(b->qs + 16 * k));
        out->u[k] = rf_gather_8(rf_iq2xxs_grid, _mm256_shuffle_epi8(i, first));
    }
}

RF_INLINE void rf_grid_iq2_xs(const rf_block_iq2_xs *b, rf_grid_block *out) {
    alignas(32) uint32_t signs[8];
    rf_signs_iq2_xs(b, signs);
    memcpy(out->minus, signs, sizeof out->minus);
    rf_spread_16(rf_nibble_scales(b->scales), out->scale);
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        __m256i i = _mm256_cvtepu16_epi32(rf_load_128(b->qs + 16 * k));
        out->u[k] = rf_gather_8(rf_iq2xs_grid, _mm256_and_si256(i, _mm256_set1_epi32(511)));
    }
}

/* Bytes as words, with `bits` bits at `high` on top. */
RF_INLINE void rf_gather_words(const uint64_t *grid, const uint8_t *low, __m512i high, int bits,
                               __m512i u[4]) {
    alignas(64) uint16_t i[32];
    __m512i mask = _mm512_set1_epi16((short)(((1 << bits) - 1) << 8));
    high = _mm512_and_si512(high, mask);
    _mm512_store_si512((void *)i, _mm512_or_si512(_mm512_cvtepu8_epi16(rf_load_256(low)), high));
    RF_UNROLL
    for (int k = 0; k < 4; k++)
        u[k] = rf_gather_8(grid, _mm256_cvtepu16_epi32(rf_load_128(i + 8 * k)));
}

RF_INLINE void rf_grid_iq2_s(const rf_block_iq2_s *b, rf_grid_block *out) {
    /* byte j / 4 as word j's upper one */
    const __m512i upper = _mm512_setr_epi64(
        0x0080008000800080, 0x0180018001800180, 0x0280028002800280, 0x0380038003800380,
        0x0480048004800480, 0x0580058005800580, 0x0680068006800680, 0x0780078007800780);
    const __m512i down = _mm512_set1_epi64(0x0006000400020000);
    __m512i high = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(rf_at_64(b->qh)), upper);
    rf_gather_words(rf_iq2s_grid, b->qs, _mm512_srlv_epi16(high, down), 2, out->u);
    memcpy(out->minus, b->signs, sizeof out->minus);
    rf_spread_16(rf_nibble_scales(b->scales), out->scale);
}

RF_INLINE void rf_grid_iq3_xxs(const rf_block_iq3_xxs *b, rf_grid_block *out) {
    alignas(32) uint32_t signs[8];
    __m256i words = rf_load_256(b->signs);
    rf_signs_of_words(words, signs);
    memcpy(out->minus, signs, sizeof out->minus);
    rf_spread_8(rf_scales_of_words(words), out->scale);
    RF_UNROLL
    for (int k = 0; k < 4; k++)
        out->u[k] = rf_gather_4(rf_iq3xxs_grid, _mm512_cvtepu8_epi32(rf_load_128(b->qs + 16 * k)));
}

RF_INLINE void rf_grid_iq3_s(const rf_block_iq3_s *b, rf_grid_block *out) {
    memcpy(out->minus, b->signs, sizeof out->minus);
    rf_spread_8(rf_scales_iq3_s(b), out->scale);
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        __m512i i = _mm512_cvtepu8_epi32(rf_load_128(b->qs + 16 * k));
        i = _mm512_mask_add_epi32(i, rf_get_u16(b->qh + 2 * k), i, _mm512_set1_epi32(256));
        out->u[k] = rf_gather_4(rf_iq3s_grid, i);
    }
}

/* q = 8c - 7, or 8c - 9 where minus, for 32 alike: u = c, whose scale is 8 times q's. */
RF_INLINE void rf_grid_iq1_s(const rf_block_iq1_s *b, rf_grid_block *out) {
    __m128i words = rf_load_128(b->qh), scale = rf_scales_iq1_s(b), off;
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        const __m256i upper =
            _mm256_setr_m128i(_mm_set1_epi32(0x01008080), _mm_set1_epi32(0x03028080));
        const __m256i down = _mm256_setr_epi32(8, 11, 14, 17, 8, 11, 14, 17);
        __m256i h = _mm256_set1_epi32((int)rf_get_u32(b->qh + 4 * k));
        h = _mm256_srlv_epi32(_mm256_shuffle_epi8(h, upper), down);
        h = _mm256_and_si256(h, _mm256_set1_epi32(0x700));
        __m256i i = _mm256_cvtepu8_epi32(rf_at_64(b->qs + 8 * k));
        out->u[k] = rf_gather_8(rf_iq1s_grid, _mm256_or_si256(i, h));
    }
    const unsigned minus = _mm_movepi16_mask(words);
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        uint64_t low = minus >> 2 * k & 1, high = minus >> (2 * k + 1) & 1;
        out->minus[k] = low * 0xffffffffu | high * 0xffffffff00000000u;
    }
    off = _mm_add_epi16(_mm_set1_epi16(7), _mm_slli_epi16(_mm_srli_epi16(words, 15), 1));
    off = _mm_mullo_epi16(off, scale);
    out->off = _mm256_setr_m128i(_mm_unpacklo_epi16(off, off), _mm_unpackhi_epi16(off, off));
    rf_spread_8(_mm_slli_epi16(scale, 3), out->scale);
}

/* q = 8c - 7 or 8c - 9, the same for 8: u = q + 9. */
RF_INLINE void rf_grid_iq1_m(const rf_block_iq1_m *b, rf_grid_block *out) {
    /* byte j / 2 as word j's upper one */
    const __m512i upper = _mm512_setr_epi64(
        0x0180018000800080, 0x0380038002800280, 0x0580058004800480, 0x0780078006800680,
        0x0980098008800880, 0x0b800b800a800a80, 0x0d800d800c800c80, 0x0f800f800e800e80);
    const __m512i down = _mm512_set1_epi64(0x0004000000040000);
    __m512i high = _mm512_broadcast_i32x4(rf_load_128(b->qh));
    high = _mm512_srlv_epi16(_mm512_shuffle_epi8(high, upper), down);
    uint32_t plus = _mm512_testn_epi16_mask(high, _mm512_set1_epi16(0x800));
    __m256i scale = rf_scales_iq1_m(b);
    rf_gather_words(rf_iq1s_grid, b->qs, high, 3, out->u);
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        __m512i c = _mm512_slli_epi16(out->u[k], 3);
        out->u[k] = _mm512_mask_add_epi64(c, (__mmask8)(plus >> 8 * k), c, _mm512_set1_epi8(2));
    }
    out->off = _mm256_mullo_epi16(scale, _mm256_set1_epi16(9));
    rf_spread_16(scale, out->scale);
}

RF_INLINE void rf_load_grid_block(rf_mm_format f, const void *p, rf_grid_block *out) {
    if (f == RF_MM_IQ2_XXS)
        rf_grid_iq2_xxs((const rf_block_iq2_xxs *)p, out);
    else if (f == RF_MM_IQ2_XS)
        rf_grid_iq2_xs((const rf_block_iq2_xs *)p, out);
    else if (f == RF_MM_IQ2_S)
        rf_grid_iq2_s((const rf_block_iq2_s *)p, out);
    else if (f == RF_MM_IQ3_XXS)
        rf_grid_iq3_xxs((const rf_block_iq3_xxs *)p, out);
    else if (f == RF_MM_IQ3_S)
        rf_grid_iq3_s((const rf_block_iq3_s *)p, out);
    else if (f == RF_MM_IQ1_S)
        rf_grid_iq1_s((const rf_block_iq1_s *)p, out);
    else
        rf_grid_iq1_m((const rf_block_iq1_m *)p, out);
}

/* The integer sums (8 partial ones) of the block with 256 activations; sums: theirs of 16. */
RF_INLINE __m256i rf_dot_grid(rf_mm_format f, const rf_grid_block *b, const int8_t *x,
                              const int16_t *sums) {
    __m512i i = _mm512_setzero_si512();
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        __m512i v = _mm512_loadu_si512((const void *)(x + 64 * k));
        if (!rf_grid_is_iq1(f)) v = _mm512_mask_sub_epi8(v, b->minus[k], _mm512_setzero_si512(), v);
        i = _mm512_dpwssd_epi32(i, _mm512_dpbusd_epi32(_mm512_setzero_si512(), b->u[k], v),
                                b->scale[k]);
    }
    __m256i sum = _mm256_add_epi32(_mm512_castsi512_si256(i), _mm512_extracti64x4_epi64(i, 1));
    if (!rf_grid_is_iq1(f)) return sum;
    return _mm256_sub_epi32(sum, _mm256_madd_epi16(b->off, rf_load_256(sums)));
}

/* A block's integers as rf_load_group gives them, in order. */
RF_INLINE void rf_load_quarters(rf_mm_format f, const void *p, __m512i w[4]) {
    const __m512i two = _mm512_set1_epi8(2);
    rf_grid_block b;
    rf_load_grid_block(f, p, &b);
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        w[k] = b.u[k];
        if (f == RF_MM_IQ1_S) {
            w[k] = _mm512_add_epi8(_mm512_slli_epi16(w[k], 3), two);
            w[k] = _mm512_mask_sub_epi8(w[k], b.minus[k], w[k], two);
        } else if (f != RF_MM_IQ1_M) {
            w[k] = _mm512_mask_sub_epi8(w[k], b.minus[k], _mm512_setzero_si512(), w[k]);
        }
    }
}

/* group_256 of mm_rows.h. */
RF_INLINE void rf_rows_grid(rf_mm_format f, int nt, const rf_mm_input *a, const int16_t *sums,
                            size_t g, const void *p, __m256i ints[]) {
    rf_grid_block b;
    rf_load_grid_block(f, p, &b);
    RF_UNROLL
    for (int t = 0; t < nt; t++)
        ints[t] = rf_dot_grid(f, &b, a->q + (size_t)t * a->n_cols + 256 * g,
                              sums + (size_t)t * (a->n_cols / 16) + 16 * g);
}
