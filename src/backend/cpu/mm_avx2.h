/* mm_avx2.h - AVX2 pieces of the matrix product: loading packed weights as bytes; private to
 * mm_*.c.
 *
 * Each integer format has a loader that turns blocks into vectors of u8 (q + off) or, for formats
 * whose integers need all eight bits, of signed q.  Everything here is inlined with a constant
 * format. */
#pragma once
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/mm.h"
#include "backend/cpu/mm_grid_avx2.h"
#include "quant/blocks.h"

/* The integer formats: groups of 32, then groups of 256. */
typedef enum rf_mm_format {
    RF_MM_Q4_0 = 1,
    RF_MM_Q4_1,
    RF_MM_Q5_0,
    RF_MM_Q5_1,
    RF_MM_Q8_0,
    RF_MM_IQ4_NL,
    RF_MM_MXFP4,
    RF_MM_MXFP6_E2M3,
    RF_MM_Q1_0,
    RF_MM_Q2_0,
    RF_MM_Q4_K,
    RF_MM_Q5_K,
    RF_MM_Q6_K,
    RF_MM_IQ4_XS,
    RF_MM_Q2_K,
    RF_MM_Q3_K,
    RF_MM_IQ2_XXS,
    RF_MM_IQ2_XS,
    RF_MM_IQ2_S,
    RF_MM_IQ3_XXS,
    RF_MM_IQ3_S,
    RF_MM_IQ1_S,
    RF_MM_IQ1_M,
    RF_MM_TQ1_0,
    RF_MM_TQ2_0,
    RF_MM_Q8_K,
} rf_mm_format;

static inline rf_mm_format rf_mm_format_of(rf_dtype t) {
    static const uint8_t formats[RF_DT_COUNT] = {
        [RF_DT_Q4_0] = RF_MM_Q4_0,       [RF_DT_Q4_1] = RF_MM_Q4_1,
        [RF_DT_Q5_0] = RF_MM_Q5_0,       [RF_DT_Q5_1] = RF_MM_Q5_1,
        [RF_DT_Q8_0] = RF_MM_Q8_0,       [RF_DT_IQ4_NL] = RF_MM_IQ4_NL,
        [RF_DT_MXFP4] = RF_MM_MXFP4,     [RF_DT_MXFP6_E2M3] = RF_MM_MXFP6_E2M3,
        [RF_DT_Q1_0] = RF_MM_Q1_0,       [RF_DT_Q2_0] = RF_MM_Q2_0,
        [RF_DT_Q4_K] = RF_MM_Q4_K,       [RF_DT_Q5_K] = RF_MM_Q5_K,
        [RF_DT_Q6_K] = RF_MM_Q6_K,       [RF_DT_IQ4_XS] = RF_MM_IQ4_XS,
        [RF_DT_Q2_K] = RF_MM_Q2_K,       [RF_DT_Q3_K] = RF_MM_Q3_K,
        [RF_DT_IQ2_XXS] = RF_MM_IQ2_XXS, [RF_DT_IQ2_XS] = RF_MM_IQ2_XS,
        [RF_DT_IQ2_S] = RF_MM_IQ2_S,     [RF_DT_IQ3_XXS] = RF_MM_IQ3_XXS,
        [RF_DT_IQ3_S] = RF_MM_IQ3_S,     [RF_DT_IQ1_S] = RF_MM_IQ1_S,
        [RF_DT_IQ1_M] = RF_MM_IQ1_M,     [RF_DT_TQ1_0] = RF_MM_TQ1_0,
        [RF_DT_TQ2_0] = RF_MM_TQ2_0,     [RF_DT_Q8_K] = RF_MM_Q8_K,
    };
    RF_ASSERT(formats[t] > 0);
    return (rf_mm_format)formats[t];
}

/* Weight rows `stride` bytes apart: row l begins at p[l / 4] + l % 4 * stride. */
typedef struct rf_mm_lanes {
    const uint8_t *p[4];
    size_t stride, stride3;
} rf_mm_lanes;

RF_INLINE const uint8_t *rf_mm_lane(const rf_mm_lanes *r, int l) {
    const uint8_t *p = r->p[l / 4];
    return l % 4 == 0   ? p
           : l % 4 == 1 ? p + r->stride
           : l % 4 == 2 ? p + 2 * r->stride
                        : p + r->stride3;
}

/* Bytes `at` of rows 4i .. 4i + 3, two of each; scalar, since vectors have better things to do. */
RF_INLINE uint64_t rf_mm_four_halves(const rf_mm_lanes *r, int i, size_t at) {
    uint64_t all = 0;
    RF_UNROLL
    for (int l = 0; l < 4; l++) {
        uint16_t half;
        memcpy(&half, rf_mm_lane(r, 4 * i + l) + at, sizeof half);
        all |= (uint64_t)half << 16 * l;
    }
    return all;
}

/* Dwords `at` of rows 2i and 2i + 1. */
RF_INLINE uint64_t rf_mm_two_dwords(const rf_mm_lanes *r, int i, size_t at) {
    uint32_t v[2];
    RF_UNROLL
    for (int l = 0; l < 2; l++)
        memcpy(&v[l], rf_mm_lane(r, 2 * i + l) + at, sizeof v[l]);
    return v[0] | (uint64_t)v[1] << 32;
}

/* Byte `at` of rows 8i .. 8i + 7. */
RF_INLINE uint64_t rf_mm_eight_bytes(const rf_mm_lanes *r, int i, size_t at) {
    uint64_t all = 0;
    RF_UNROLL
    for (int l = 0; l < 8; l++)
        all |= (uint64_t)rf_mm_lane(r, 8 * i + l)[at] << 8 * l;
    return all;
}

enum { RF_MM_NO_BYTE = 4 };

/* Byte indices that move bytes a and b of each dword into the low halves of its i16, or into their
 * high ones, from where a shift extends the sign. */
RF_INLINE __m128i rf_pair_order(unsigned a, unsigned b, bool is_signed) {
    const unsigned at[2] = {a, b}, shift = is_signed ? 8 : 0, none = 0x80;
    unsigned order = none << (8 - shift) | none << (24 - shift), next = 0;
    for (unsigned i = 0; i < 2; i++) {
        order |= (at[i] == RF_MM_NO_BYTE ? none : at[i]) << (16 * i + shift);
        next |= (at[i] == RF_MM_NO_BYTE ? 0 : 4u) << (16 * i + shift);
    }
    return _mm_setr_epi32((int)order, (int)(order + next), (int)(order + 2 * next),
                          (int)(order + 3 * next));
}

RF_INLINE size_t rf_mm_block_bytes(rf_mm_format f) {
    switch (f) {
    case RF_MM_Q4_0:
        return sizeof(rf_block_q4_0);
    case RF_MM_Q4_1:
        return sizeof(rf_block_q4_1);
    case RF_MM_Q5_0:
        return sizeof(rf_block_q5_0);
    case RF_MM_Q5_1:
        return sizeof(rf_block_q5_1);
    case RF_MM_Q8_0:
        return sizeof(rf_block_q8_0);
    case RF_MM_IQ4_NL:
        return sizeof(rf_block_iq4_nl);
    case RF_MM_MXFP4:
        return sizeof(rf_block_mxfp4);
    case RF_MM_MXFP6_E2M3:
        return sizeof(rf_block_mxfp6);
    case RF_MM_Q1_0:
        return sizeof(rf_block_q1_0);
    case RF_MM_Q2_0:
        return sizeof(rf_block_q2_0);
    case RF_MM_Q4_K:
        return sizeof(rf_block_q4_k);
    case RF_MM_Q5_K:
        return sizeof(rf_block_q5_k);
    case RF_MM_Q6_K:
        return sizeof(rf_block_q6_k);
    case RF_MM_IQ4_XS:
        return sizeof(rf_block_iq4_xs);
    case RF_MM_Q2_K:
        return sizeof(rf_block_q2_k);
    case RF_MM_Q3_K:
        return sizeof(rf_block_q3_k);
    case RF_MM_IQ2_XXS:
        return sizeof(rf_block_iq2_xxs);
    case RF_MM_IQ2_XS:
        return sizeof(rf_block_iq2_xs);
    case RF_MM_IQ2_S:
        return sizeof(rf_block_iq2_s);
    case RF_MM_IQ3_XXS:
        return sizeof(rf_block_iq3_xxs);
    case RF_MM_IQ3_S:
        return sizeof(rf_block_iq3_s);
    case RF_MM_IQ1_S:
        return sizeof(rf_block_iq1_s);
    case RF_MM_IQ1_M:
        return sizeof(rf_block_iq1_m);
    case RF_MM_TQ1_0:
        return sizeof(rf_block_tq1_0);
    case RF_MM_TQ2_0:
        return sizeof(rf_block_tq2_0);
    case RF_MM_Q8_K:
        return sizeof(rf_block_q8_k);
    }
    return 0;
}

/* Groups that lie in one block. */
RF_INLINE size_t rf_mm_groups(rf_mm_format f) {
    return f == RF_MM_Q1_0 ? 4 : f == RF_MM_Q2_0 ? 2 : 1;
}

/* Elements of a group of 256 that share a scale. */
RF_INLINE int rf_mm_scale_elems(rf_mm_format f) {
    return f == RF_MM_Q6_K || f == RF_MM_Q2_K || f == RF_MM_Q3_K || f == RF_MM_IQ2_XS ||
                   f == RF_MM_IQ2_S || f == RF_MM_IQ1_M
               ? 16
               : 32;
}

/* Code books, ternary formats and Q8_K. */
RF_INLINE bool rf_is_grid(rf_mm_format f) { return f >= RF_MM_IQ2_XXS; }

/* Signed loaders need the abs/sign form of the product; the others give u8 = q + off. */
RF_INLINE bool rf_mm_is_signed(rf_mm_format f) {
    return f == RF_MM_Q8_0 || f == RF_MM_IQ4_NL || f == RF_MM_MXFP6_E2M3 || f == RF_MM_IQ4_XS ||
           (f >= RF_MM_IQ2_XXS && f <= RF_MM_IQ3_S) || f == RF_MM_Q8_K;
}

/* Of the formats with groups of 32: a minimum beside the scale. */
RF_INLINE bool rf_mm_has_m(rf_mm_format f) { return f == RF_MM_Q4_1 || f == RF_MM_Q5_1; }

/* Of formats of groups of 256, what their loaders add. */
RF_INLINE int rf_mm_off(rf_mm_format f) {
    return f == RF_MM_Q3_K                        ? 4
           : f == RF_MM_Q6_K                      ? 32
           : f == RF_MM_IQ1_S || f == RF_MM_IQ1_M ? 9
           : f == RF_MM_TQ1_0 || f == RF_MM_TQ2_0 ? 1
                                                  : 0;
}

RF_INLINE __m256i rf_load_256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
RF_INLINE __m128i rf_load_128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
RF_INLINE uint32_t rf_get_u32(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
RF_INLINE uint16_t rf_get_u16(const void *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
RF_INLINE float rf_get_f16(const void *p) { return _cvtsh_ss(rf_get_u16(p)); }

/* Two unaligned 16-byte loads side by side. */
RF_INLINE __m256i rf_two_128(const void *low, const void *high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(rf_load_128(low)), rf_load_128(high), 1);
}

/* 2^(e - 127 - shift), e a byte in each lane: subnormal for e <= shift.  has_nan: for e = 255. */
RF_INLINE __m256 rf_e8m0(__m256i e, int shift, bool has_nan) {
    __m256i s = _mm256_set1_epi32(shift), is_normal = _mm256_cmpgt_epi32(e, s);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, s), 23);
    __m256i v = _mm256_sllv_epi32(_mm256_set1_epi32(1 << (22 - shift)), e);
    v = _mm256_blendv_epi8(v, normal, is_normal);
    if (has_nan)
        v = _mm256_blendv_epi8(v, _mm256_set1_epi32(0x7fc00000),
                               _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255)));
    return _mm256_castsi256_ps(v);
}

/* D(value, s) of IQ4's sixteen values. */
#define RF_OF_IQ4(D, s)                                                                       \
    D(-127, s), D(-104, s), D(-83, s), D(-65, s), D(-49, s), D(-35, s), D(-22, s), D(-10, s), \
        D(1, s), D(13, s), D(25, s), D(38, s), D(53, s), D(69, s), D(89, s), D(113, s)
#define RF_IQ4_VALUE(v, s) (v)

/* What a nibble stands for: twice E2M1 plus 12, or the table of the IQ4 formats. */
RF_INLINE __m256i rf_code_book(rf_mm_format f) {
    if (f == RF_MM_MXFP4)
        return _mm256_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0, 12, 13,
                                14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm256_broadcastsi128_si256(_mm_setr_epi8(RF_OF_IQ4(RF_IQ4_VALUE, 0)));
}

/* What nibbles stand for, with `add` added. */
RF_INLINE __m128i rf_book_of(rf_mm_format f, uint8_t add) {
    __m128i book = _mm256_castsi256_si128(rf_code_book(f));
    if (f == RF_MM_MXFP4) add = (uint8_t)(add - 12); /* it has 12 added */
    return _mm_add_epi8(book, _mm_set1_epi8((char)add));
}

/* 32 bits of each of two rows: of elements 0..15 as bytes of 0 or `one` in *low, of elements 16..31
 * in *high. */
RF_INLINE void rf_bits_as_bytes(const uint8_t *a, const uint8_t *b, uint8_t one, __m256i *low,
                                __m256i *high) {
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0,
                                            0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const __m256i value = _mm256_set1_epi8((char)one), two = _mm256_set1_epi8(2);
    __m256i v = _mm256_setr_m128i(_mm_cvtsi32_si128((int)rf_get_u32(a)),
                                  _mm_cvtsi32_si128((int)rf_get_u32(b)));
    *low = _mm256_and_si256(_mm256_shuffle_epi8(v, spread), bit);
    *high = _mm256_and_si256(_mm256_shuffle_epi8(v, _mm256_or_si256(spread, two)), bit);
    *low = _mm256_and_si256(_mm256_cmpeq_epi8(*low, bit), value);
    *high = _mm256_and_si256(_mm256_cmpeq_epi8(*high, bit), value);
}

/* The same of two bits each, as bytes of 0 to 3. */
RF_INLINE void rf_two_bits_as_bytes(const uint8_t *a, const uint8_t *b, __m256i *low,
                                    __m256i *high) {
    const __m256i low4 = _mm256_set1_epi8(15), low2 = _mm256_set1_epi8(3);
    __m256i v = _mm256_setr_m128i(rf_at_64(a), rf_at_64(b));
    v = _mm256_unpacklo_epi8(_mm256_and_si256(v, low4),
                             _mm256_and_si256(_mm256_srli_epi16(v, 4), low4));
    __m256i even = _mm256_and_si256(v, low2),
            odd = _mm256_srli_epi16(_mm256_andnot_si256(low2, v), 2);
    *low = _mm256_unpacklo_epi8(even, odd);
    *high = _mm256_unpackhi_epi8(even, odd);
}

/* Sixteen codes of six bits in each half of v, one to a byte: they begin at byte `at` of the half. */
RF_INLINE __m256i rf_six_bits_as_bytes(__m256i v, __m256i at) {
    const __m128i threes =
        _mm_setr_epi8(0, 1, 2, -128, 3, 4, 5, -128, 6, 7, 8, -128, 9, 10, 11, -128);
    v = _mm256_shuffle_epi8(v, _mm256_add_epi8(_mm256_broadcastsi128_si256(threes), at));
    return rf_four_fields(v, 6);
}

/* E2M3 codes as eighths: the slope doubles from 16 and from 24 on. */
RF_INLINE __m256i rf_e2m3_eighths(__m256i code) {
    __m256i v = _mm256_and_si256(code, _mm256_set1_epi8(31));
    __m256i ramp = _mm256_subs_epu8(v, _mm256_set1_epi8(24));
    ramp = _mm256_add_epi8(_mm256_add_epi8(ramp, ramp), _mm256_subs_epu8(v, _mm256_set1_epi8(16)));
    __m256i minus = _mm256_cmpgt_epi8(code, _mm256_set1_epi8(31));
    return _mm256_sub_epi8(_mm256_xor_si256(_mm256_add_epi8(v, ramp), minus), minus);
}

/* A group of 32 of two rows, number `part` of its block: *low = elements 0..15 of a and of b, *high =
 * elements 16..31. */
RF_INLINE void rf_load_pair(rf_mm_format f, size_t part, const uint8_t *a, const uint8_t *b,
                            __m256i *low, __m256i *high) {
    if (f == RF_MM_Q8_0) {
        size_t at = offsetof(rf_block_q8_0, qs);
        *low = rf_two_128(a + at, b + at);
        *high = rf_two_128(a + at + 16, b + at + 16);
        return;
    }
    if (f == RF_MM_Q1_0) {
        size_t at = offsetof(rf_block_q1_0, qs) + 4 * part;
        rf_bits_as_bytes(a + at, b + at, 2, low, high);
        return;
    }
    if (f == RF_MM_Q2_0) {
        size_t at = offsetof(rf_block_q2_0, qs) + 8 * part;
        rf_two_bits_as_bytes(a + at, b + at, low, high);
        return;
    }
    if (f == RF_MM_MXFP6_E2M3) {
        /* The second half is read from 8 bytes on: 12 bytes on, it would end behind the block. */
        size_t at = offsetof(rf_block_mxfp6, qs);
        *low = rf_six_bits_as_bytes(rf_two_128(a + at, b + at), _mm256_setzero_si256());
        *high = rf_six_bits_as_bytes(rf_two_128(a + at + 8, b + at + 8), _mm256_set1_epi8(4));
        *low = rf_e2m3_eighths(*low);
        *high = rf_e2m3_eighths(*high);
        return;
    }
    size_t at = f == RF_MM_Q4_0 || f == RF_MM_IQ4_NL ? offsetof(rf_block_q4_0, qs)
                : f == RF_MM_Q4_1                    ? offsetof(rf_block_q4_1, qs)
                : f == RF_MM_Q5_0                    ? offsetof(rf_block_q5_0, qs)
                : f == RF_MM_Q5_1                    ? offsetof(rf_block_q5_1, qs)
                                                     : offsetof(rf_block_mxfp4, qs);
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i v = rf_two_128(a + at, b + at);
    *low = _mm256_and_si256(v, mask);
    *high = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
    if (f == RF_MM_Q5_0 || f == RF_MM_Q5_1) {
        __m256i fifth_low, fifth_high;
        rf_bits_as_bytes(a + at - 4, b + at - 4, 16, &fifth_low, &fifth_high);
        *low = _mm256_or_si256(*low, fifth_low);
        *high = _mm256_or_si256(*high, fifth_high);
    }
    if (f == RF_MM_IQ4_NL || f == RF_MM_MXFP4) {
        *low = _mm256_shuffle_epi8(rf_code_book(f), *low);
        *high = _mm256_shuffle_epi8(rf_code_book(f), *high);
    }
}

/* The scales inside a block of 256, i16.  scale and min in order 0..15; spread: 0, 2, .. 14 in the
 * low half and 1, 3, .. 15 in the high half. */
typedef struct rf_scales_256 {
    __m256i scale, min, spread;
} rf_scales_256;

RF_INLINE void rf_scales_of_8(rf_scales_256 *s, __m128i scale8) {
    s->spread = _mm256_broadcastsi128_si256(scale8);
    s->scale =
        _mm256_setr_m128i(_mm_unpacklo_epi16(scale8, scale8), _mm_unpackhi_epi16(scale8, scale8));
}

/* Q4_K and Q5_K: eight 6-bit scales and minimums in 12 bytes. */
RF_INLINE void rf_scales_q4_k(rf_scales_256 *s, const uint8_t *p) {
    uint32_t a = rf_get_u32(p), b = rf_get_u32(p + 4), c = rf_get_u32(p + 8);
    uint32_t scale_hi = (c & 0x0f0f0f0fu) | (a >> 6 & 0x03030303u) << 4;
    uint32_t min_hi = (c >> 4 & 0x0f0f0f0fu) | (b >> 6 & 0x03030303u) << 4;
    uint64_t scale = (a & 0x3f3f3f3fu) | (uint64_t)scale_hi << 32;
    uint64_t min = (b & 0x3f3f3f3fu) | (uint64_t)min_hi << 32;
    rf_scales_of_8(s, _mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)scale)));
    __m128i m = _mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)min));
    s->min = _mm256_setr_m128i(_mm_unpacklo_epi16(m, m), _mm_unpackhi_epi16(m, m));
}

RF_INLINE void rf_scales_of_16(rf_scales_256 *s, __m256i scale) {
    const __m256i even_odd = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
                                              0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    s->scale = scale;
    s->spread = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(scale, even_odd), 0xd8);
}

/* Q3_K: sixteen 6-bit scales, less 32, in 12 bytes. */
RF_INLINE void rf_scales_q3_k(rf_scales_256 *s, const uint8_t *p) {
    uint32_t a = rf_get_u32(p), b = rf_get_u32(p + 4), c = rf_get_u32(p + 8);
    const uint32_t low4 = 0x0f0f0f0fu, low2 = 0x03030303u;
    uint32_t v0 = (a & low4) | (c & low2) << 4, v1 = (b & low4) | (c >> 2 & low2) << 4;
    uint32_t v2 = (a >> 4 & low4) | (c >> 4 & low2) << 4;
    uint32_t v3 = (b >> 4 & low4) | (c >> 6 & low2) << 4;
    __m128i v = _mm_setr_epi32((int)v0, (int)v1, (int)v2, (int)v3);
    rf_scales_of_16(s, _mm256_cvtepi8_epi16(_mm_sub_epi8(v, _mm_set1_epi8(32))));
}

/* Q2_K: scale and minimum in the nibbles of a byte. */
RF_INLINE void rf_scales_q2_k(rf_scales_256 *s, const uint8_t *p) {
    __m256i v = _mm256_cvtepu8_epi16(rf_load_128(p));
    rf_scales_of_16(s, _mm256_and_si256(v, _mm256_set1_epi16(15)));
    s->min = _mm256_srli_epi16(v, 4);
}

RF_INLINE void rf_scales_iq4_xs(rf_scales_256 *s, const rf_block_iq4_xs *b) {
    __m256i low = _mm256_set1_epi32((int)rf_get_u32(b->scales_l));
    __m256i high = _mm256_set1_epi32((int)rf_get_u16(b->scales_h));
    low = _mm256_srlv_epi32(low, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    high = _mm256_srlv_epi32(high, _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    low = _mm256_and_si256(low, _mm256_set1_epi32(15));
    high = _mm256_slli_epi32(_mm256_and_si256(high, _mm256_set1_epi32(3)), 4);
    __m256i v = _mm256_sub_epi32(_mm256_or_si256(low, high), _mm256_set1_epi32(32));
    rf_scales_of_8(s, _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}

RF_INLINE void rf_scales_grid(rf_mm_format f, const void *p, rf_scales_256 *s) {
    if (f == RF_MM_IQ2_XXS)
        rf_scales_of_8(s, rf_scales_of_words(rf_words_iq2_xxs((const rf_block_iq2_xxs *)p)));
    else if (f == RF_MM_IQ2_XS)
        rf_scales_of_16(s, rf_nibble_scales(((const rf_block_iq2_xs *)p)->scales));
    else if (f == RF_MM_IQ2_S)
        rf_scales_of_16(s, rf_nibble_scales(((const rf_block_iq2_s *)p)->scales));
    else if (f == RF_MM_IQ3_XXS)
        rf_scales_of_8(s, rf_scales_of_words(rf_load_256(((const rf_block_iq3_xxs *)p)->signs)));
    else if (f == RF_MM_IQ3_S)
        rf_scales_of_8(s, rf_scales_iq3_s((const rf_block_iq3_s *)p));
    else if (f == RF_MM_IQ1_S)
        rf_scales_of_8(s, rf_scales_iq1_s((const rf_block_iq1_s *)p));
    else if (f == RF_MM_IQ1_M)
        rf_scales_of_16(s, rf_scales_iq1_m((const rf_block_iq1_m *)p));
    else
        rf_scales_of_8(s, _mm_set1_epi16(1));
}

/* Of a block of 256. */
RF_INLINE rf_scales_256 rf_load_scales(rf_mm_format f, const void *p) {
    rf_scales_256 s = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    if (f == RF_MM_Q4_K) {
        rf_scales_q4_k(&s, ((const rf_block_q4_k *)p)->scales);
    } else if (f == RF_MM_Q5_K) {
        rf_scales_q4_k(&s, ((const rf_block_q5_k *)p)->scales);
    } else if (f == RF_MM_Q6_K) {
        rf_scales_of_16(&s, _mm256_cvtepi8_epi16(rf_load_128(((const rf_block_q6_k *)p)->scales)));
    } else if (f == RF_MM_IQ4_XS) {
        rf_scales_iq4_xs(&s, (const rf_block_iq4_xs *)p);
    } else if (f == RF_MM_Q2_K) {
        rf_scales_q2_k(&s, ((const rf_block_q2_k *)p)->scales);
    } else if (f == RF_MM_Q3_K) {
        rf_scales_q3_k(&s, ((const rf_block_q3_k *)p)->scales);
    } else {
        rf_scales_grid(f, p, &s);
    }
    return s;
}

RF_INLINE void rf_load_q6_k(const rf_block_q6_k *b, __m256i w[8]) {
    const __m256i low4 = _mm256_set1_epi8(15), high2 = _mm256_set1_epi8(0x30);
    RF_UNROLL
    for (int h = 0; h < 2; h++) {
        __m256i l0 = rf_load_256(b->ql + 64 * h), l1 = rf_load_256(b->ql + 64 * h + 32);
        __m256i qh = rf_load_256(b->qh + 32 * h);
        __m256i h0 = _mm256_and_si256(_mm256_slli_epi16(qh, 4), high2);
        __m256i h1 = _mm256_and_si256(_mm256_slli_epi16(qh, 2), high2);
        __m256i h2 = _mm256_and_si256(qh, high2);
        __m256i h3 = _mm256_and_si256(_mm256_srli_epi16(qh, 2), high2);
        w[4 * h] = _mm256_or_si256(_mm256_and_si256(l0, low4), h0);
        w[4 * h + 1] = _mm256_or_si256(_mm256_and_si256(l1, low4), h1);
        w[4 * h + 2] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(l0, 4), low4), h2);
        w[4 * h + 3] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(l1, 4), low4), h3);
    }
}

/* A byte has elements 16 apart: vectors 2k and 2k + 1 hold the first and second sixteen of stretches
 * 2k (low half) and 2k + 1, so that both have the same scales. */
RF_INLINE void rf_load_iq4_xs(const rf_block_iq4_xs *b, __m256i w[8]) {
    const __m256i low4 = _mm256_set1_epi8(15);
    RF_UNROLL
    for (int k = 0; k < 4; k++) {
        __m256i v = rf_load_256(b->qs + 32 * k);
        __m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 4), low4);
        w[2 * k] = _mm256_shuffle_epi8(rf_code_book(RF_MM_IQ4_XS), _mm256_and_si256(v, low4));
        w[2 * k + 1] = _mm256_shuffle_epi8(rf_code_book(RF_MM_IQ4_XS), high);
    }
}

/* Q2_K and Q3_K: two-bit fields; the third bit of Q3_K is bit j of hmask. */
RF_INLINE void rf_load_two_bits(const uint8_t *qs, const uint8_t *hmask, __m256i w[8]) {
    const __m256i low2 = _mm256_set1_epi8(3), bit2 = _mm256_set1_epi8(4);
    __m256i h = hmask ? rf_load_256(hmask) : _mm256_setzero_si256();
    RF_UNROLL
    for (int j = 0; j < 8; j++) {
        __m256i v = _mm256_srli_epi16(rf_load_256(qs + j / 4 * 32), j % 4 * 2);
        w[j] = _mm256_and_si256(v, low2);
        if (!hmask) continue;
        v = j < 2 ? _mm256_slli_epi16(h, 2 - j) : _mm256_srli_epi16(h, j - 2);
        w[j] = _mm256_or_si256(w[j], _mm256_and_si256(v, bit2));
    }
}

/* Q4_K, and Q5_K with its fifth bits: bit j of qh. */
RF_INLINE void rf_load_nibbles(const uint8_t *qs, const uint8_t *qh, __m256i w[8]) {
    const __m256i low4 = _mm256_set1_epi8(15), bit4 = _mm256_set1_epi8(16);
    __m256i h = qh ? rf_load_256(qh) : _mm256_setzero_si256();
    RF_UNROLL
    for (int j = 0; j < 8; j++) {
        __m256i v = rf_load_256(qs + j / 2 * 32);
        w[j] = _mm256_and_si256(j % 2 ? _mm256_srli_epi16(v, 4) : v, low4);
        if (!qh) continue;
        v = j < 4 ? _mm256_slli_epi16(h, 4 - j) : _mm256_srli_epi16(h, j - 4);
        w[j] = _mm256_or_si256(w[j], _mm256_and_si256(v, bit4));
    }
}

RF_INLINE void rf_load_group(rf_mm_format f, const void *p, __m256i w[8]) {
    if (f == RF_MM_Q6_K) {
        rf_load_q6_k((const rf_block_q6_k *)p, w);
    } else if (f == RF_MM_IQ4_XS) {
        rf_load_iq4_xs((const rf_block_iq4_xs *)p, w);
    } else if (f == RF_MM_Q2_K) {
        rf_load_two_bits(((const rf_block_q2_k *)p)->qs, NULL, w);
    } else if (f == RF_MM_Q3_K) {
        rf_load_two_bits(((const rf_block_q3_k *)p)->qs, ((const rf_block_q3_k *)p)->hmask, w);
    } else if (f == RF_MM_IQ2_XXS) {
        rf_load_iq2_xxs((const rf_block_iq2_xxs *)p, w);
    } else if (f == RF_MM_IQ2_XS) {
        rf_load_iq2_xs((const rf_block_iq2_xs *)p, w);
    } else if (f == RF_MM_IQ2_S) {
        rf_load_iq2_s((const rf_block_iq2_s *)p, w);
    } else if (f == RF_MM_IQ3_XXS) {
        rf_load_iq3_xxs((const rf_block_iq3_xxs *)p, w);
    } else if (f == RF_MM_IQ3_S) {
        rf_load_iq3_s((const rf_block_iq3_s *)p, w);
    } else if (f == RF_MM_IQ1_S) {
        rf_load_iq1_s((const rf_block_iq1_s *)p, w);
    } else if (f == RF_MM_IQ1_M) {
        rf_load_iq1_m((const rf_block_iq1_m *)p, w);
    } else if (f == RF_MM_TQ1_0) {
        rf_load_tq1_0((const rf_block_tq1_0 *)p, w);
    } else if (f == RF_MM_TQ2_0) {
        rf_load_two_bits(((const rf_block_tq2_0 *)p)->qs, NULL, w);
    } else if (f == RF_MM_Q4_K) {
        rf_load_nibbles(((const rf_block_q4_k *)p)->qs, NULL, w);
    } else if (f == RF_MM_Q5_K) {
        rf_load_nibbles(((const rf_block_q5_k *)p)->qs, ((const rf_block_q5_k *)p)->qh, w);
    } else {
        for (int j = 0; j < 8; j++)
            w[j] = rf_load_256(((const rf_block_q8_k *)p)->qs + 32 * j);
    }
}

/* d of a block of the code-book and ternary formats and Q8_K, as their unpack() gives it. */
RF_INLINE float rf_grid_d(rf_mm_format f, const void *p) {
    if (f == RF_MM_IQ1_M) return _cvtsh_ss(rf_half_iq1_m((const rf_block_iq1_m *)p)) * 0.125f;
    if (f == RF_MM_TQ1_0) return rf_get_f16(((const rf_block_tq1_0 *)p)->d);
    if (f == RF_MM_TQ2_0) return rf_get_f16(((const rf_block_tq2_0 *)p)->d);
    if (f == RF_MM_Q8_K) {
        float d;
        memcpy(&d, p, sizeof d);
        return d;
    }
    float d = rf_get_f16(p); /* the others begin with it */
    return f == RF_MM_IQ3_S ? d : f == RF_MM_IQ3_XXS ? d * 0.25f : d * 0.125f;
}

/* Where a block of 256 of the other formats keeps d, an f16; formats with minimums keep dmin, which is -m, behind it. */
RF_INLINE size_t rf_d_offset(rf_mm_format f) {
    return f == RF_MM_Q6_K   ? offsetof(rf_block_q6_k, d)
           : f == RF_MM_Q3_K ? offsetof(rf_block_q3_k, d)
           : f == RF_MM_Q2_K ? offsetof(rf_block_q2_k, d)
                             : 0;
}
RF_INLINE bool rf_mm_has_dmin(rf_mm_format f) {
    return f == RF_MM_Q2_K || f == RF_MM_Q4_K || f == RF_MM_Q5_K;
}
