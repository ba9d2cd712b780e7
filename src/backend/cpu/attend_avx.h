/* attend_avx.h - keys into vector lanes, for AVX2 and AVX-512.
 *
 * Private to the CPU backend; a file includes it after the lanes of its instruction set.  Groups of eight keys lie
 * in parts of 128 bits of a vector, so that shuffles within these are enough. */
#pragma once
#define ATTEND_WORD 2
#include "backend/cpu/attend_lanes.h"

LANES_INLINE void join_parts(float *out, attend_part *part, uint32_t n, bool larger) {
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v[8];
        for (uint32_t k = 0; k < 8; k++)
            v[k] = _mm256_loadu_ps(part[i + k]);
        _mm256_storeu_ps(out + i, rf_join8x8(v, larger));
    }
    for (; i < n; i++) {
        const __m256 v = _mm256_loadu_ps(part[i]);
        out[i] = larger ? rf_largest8(v) : rf_tree8(v);
    }
}

static void join_maxima(float *out, attend_part *part, uint32_t n) {
    join_parts(out, part, n, true);
}
static void join_sums(float *out, attend_part *part, uint32_t n) {
    join_parts(out, part, n, false);
}

LANES_INLINE __m128i load_16_bytes(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

LANES_INLINE __m256i load_2x128(const void *low, const void *high) {
    __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low));
    return _mm256_inserti128_si256(v, _mm_loadu_si128((const __m128i *)high), 1);
}

/* r[i] holds eight words of row i in each part; then those of column i. */
LANES_INLINE void transpose_halves(halves r[8]) {
    halves a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = HALVES(unpacklo_epi16)(r[i], r[i + 1]);     /* columns 0 to 3 of two rows */
        a[i + 1] = HALVES(unpackhi_epi16)(r[i], r[i + 1]); /* 4 to 7 */
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = HALVES(unpacklo_epi32)(a[i], a[i + 2]); /* columns 0 and 1 of four rows */
        b[i + 1] = HALVES(unpackhi_epi32)(a[i], a[i + 2]);
        b[i + 2] = HALVES(unpacklo_epi32)(a[i + 1], a[i + 3]);
        b[i + 3] = HALVES(unpackhi_epi32)(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        r[2 * i] = HALVES(unpacklo_epi64)(b[i], b[i + 4]);
        r[2 * i + 1] = HALVES(unpackhi_epi64)(b[i], b[i + 4]);
    }
}

/* to_f32 and type are constant */
LANES_INLINE void transpose_keys(uint8_t *keys, bool to_f32, const uint8_t *k, rf_look *ahead,
                                 size_t row, uint32_t n, rf_dtype type) {
    for (uint32_t d = 0; d < n; d += 8) {
        for (uint32_t j = 0; j < RF_KV_BLOCK; j += HALVES_KEYS) {
            halves r[8];
            look_ahead(ahead, HALVES_KEYS / 8);
            for (uint32_t i = 0; i < 8; i++) {
                __m128i part[HALVES_KEYS / 8];
                for (uint32_t q = 0; q < HALVES_KEYS / 8; q++)
                    part[q] = load_16_bytes(k + (j + 8 * q + i) * row + 2 * (size_t)d);
                r[i] = halves_of(part);
            }
            transpose_halves(r);
            for (uint32_t i = 0; i < 8; i++) {
                size_t at = (size_t)(d + i) * RF_KV_BLOCK + j;
                if (to_f32)
                    halves_store_f32((float *)(void *)keys + at, r[i], type);
                else
                    halves_store(keys + 2 * at, r[i]);
            }
        }
    }
}

static void transpose_16(void *keys, bool to_f32, const uint8_t *k, rf_look *ahead, size_t row,
                         uint32_t n, rf_dtype type) {
    if (!to_f32)
        transpose_keys(keys, false, k, ahead, row, n, RF_DT_F16);
    else if (type == RF_DT_F16)
        transpose_keys(keys, true, k, ahead, row, n, RF_DT_F16);
    else
        transpose_keys(keys, true, k, ahead, row, n, RF_DT_BF16);
}

/* Eight keys by four columns at a time. */
static void transpose_panel(float *keys, const float *panel) {
    for (uint32_t d = 0; d < RF_ATTEND_PANEL; d += 4) {
        for (uint32_t j = 0; j < RF_KV_BLOCK; j += 8) {
            const float *src = panel + j * RF_ATTEND_PANEL + d;
            float *to = keys + d * RF_KV_BLOCK + j;
            __m256 r[4], t[4];
            for (uint32_t i = 0; i < 4; i++)
                r[i] = _mm256_castsi256_ps(
                    load_2x128(src + i * RF_ATTEND_PANEL, src + (i + 4) * RF_ATTEND_PANEL));
            for (uint32_t i = 0; i < 2; i++) {
                t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
            }
            for (uint32_t i = 0; i < 2; i++) {
                _mm256_storeu_ps(to + 2 * i * RF_KV_BLOCK, _mm256_shuffle_ps(t[i], t[i + 2], 0x44));
                _mm256_storeu_ps(to + (2 * i + 1) * RF_KV_BLOCK,
                                 _mm256_shuffle_ps(t[i], t[i + 2], 0xEE));
            }
        }
    }
}

/* Sixteen integers of a group: its first or second half. */
LANES_INLINE __m128i group_half(const uint8_t *group, int half, rf_dtype type) {
    if (type == RF_DT_Q4_0) return load_nibbles(group + 2, half);
    return load_16_bytes(group + 2 + 16 * half);
}

LANES_INLINE halves in_each_part(int32_t a, int32_t b, int32_t c, int32_t d) {
    const __m128i v = _mm_setr_epi32(a, b, c, d), parts[4] = {v, v, v, v};
    return halves_of(parts);
}

/* Four rows of four dwords become columns, in each part. */
LANES_INLINE void transpose_quads(halves r[4]) {
    halves a = HALVES(unpacklo_epi32)(r[0], r[1]), b = HALVES(unpacklo_epi32)(r[2], r[3]);
    halves e = HALVES(unpackhi_epi32)(r[0], r[1]), f = HALVES(unpackhi_epi32)(r[2], r[3]);
    r[0] = HALVES(unpacklo_epi64)(a, b);
    r[1] = HALVES(unpackhi_epi64)(a, b);
    r[2] = HALVES(unpacklo_epi64)(e, f);
    r[3] = HALVES(unpackhi_epi64)(e, f);
}

/* Sixteen columns of some keys at a time, four neighbours in each part.  Bytes go to the top of sixteen bits, and down
 * again, which extends their signs. */
LANES_INLINE void key_words_of(int32_t *words, const uint8_t *k, rf_look *ahead, size_t row,
                               rf_dtype type) {
    enum { KEYS = HALVES_KEYS / 2 };
    const halves low = in_each_part(0x01800080, 0x05800480, 0x09800880, 0x0D800C80);
    const halves high = in_each_part(0x03800280, 0x07800680, 0x0B800A80, 0x0F800E80);
    for (uint32_t j = 0; j < RF_KV_BLOCK; j += KEYS) {
        for (int half = 0; half < 2; half++) {
            halves r[4];
            look_ahead(ahead, KEYS / 8);
            for (uint32_t i = 0; i < 4; i++) {
                __m128i part[KEYS / 4];
                for (uint32_t q = 0; q < KEYS / 4; q++)
                    part[q] = group_half(k + (j + 4 * q + i) * row, half, type);
                r[i] = halves_of(part);
            }
            transpose_quads(r);
            int32_t *to = words + (size_t)half * 8 * RF_KV_BLOCK + j;
            for (uint32_t i = 0; i < 4; i++, to += 2 * RF_KV_BLOCK) {
                halves_store(to, HALVES(srai_epi16)(HALVES(shuffle_epi8)(r[i], low), 8));
                halves_store(to + RF_KV_BLOCK,
                             HALVES(srai_epi16)(HALVES(shuffle_epi8)(r[i], high), 8));
            }
        }
    }
}

static void key_words(int32_t *words, const uint8_t *k, rf_look *ahead, size_t row, rf_dtype type) {
    if (type == RF_DT_Q8_0)
        key_words_of(words, k, ahead, row, RF_DT_Q8_0);
    else
        key_words_of(words, k, ahead, row, RF_DT_Q4_0);
}

LANES_INLINE void value_words_of(int32_t *words, const uint8_t *v, rf_look *ahead, size_t row,
                                 rf_dtype type) {
    for (uint32_t w = 0; w < ATTEND_WORDS; w++, v += 2 * row, words += RF_KV_BLOCK) {
        look_ahead(ahead, 1);
        for (int half = 0; half < 2; half++)
            store_pairs(words + 16 * half, group_half(v, half, type),
                        group_half(v + row, half, type));
    }
}

static void value_words(int32_t *words, const uint8_t *v, rf_look *ahead, size_t row,
                        rf_dtype type) {
    if (type == RF_DT_Q8_0)
        value_words_of(words, v, ahead, row, RF_DT_Q8_0);
    else
        value_words_of(words, v, ahead, row, RF_DT_Q4_0);
}
