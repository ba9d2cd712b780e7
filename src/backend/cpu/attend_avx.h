/* attend_avx.h - keys into vector lanes, for AVX2 and AVX-512.
 *
 * Private to the CPU backend; a file includes it after the lanes of its instruction set.  Two groups of
 * keys lie in the two halves of a 256-bit vector, so that shuffles within halves are enough. */
#pragma once
#define ATTEND_WORD 2
#include "backend/cpu/attend_lanes.h"

LANES_INLINE __m256i load_2x128(const void *low, const void *high) {
    __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low));
    return _mm256_inserti128_si256(v, _mm_loadu_si128((const __m128i *)high), 1);
}

/* In each half r[i] holds eight words of row i; then those of column i. */
LANES_INLINE void transpose_words(__m256i r[8]) {
    __m256i a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi16(r[i], r[i + 1]);     /* columns 0 to 3 of two rows */
        a[i + 1] = _mm256_unpackhi_epi16(r[i], r[i + 1]); /* 4 to 7 */
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi32(a[i], a[i + 2]); /* columns 0 and 1 of four rows */
        b[i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi32(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi32(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        r[2 * i] = _mm256_unpacklo_epi64(b[i], b[i + 4]);
        r[2 * i + 1] = _mm256_unpackhi_epi64(b[i], b[i + 4]);
    }
}

/* Four lines of the keys at ahead are fetched in each round: all, in the end. */
LANES_INLINE void transpose_halves(float *keys, const uint8_t *k, const uint8_t *ahead, size_t row,
                                   uint32_t n, bool is_bf16) {
    for (uint32_t d = 0; d < n; d += 8) {
        for (uint32_t j = 0; j < RF_KV_BLOCK; j += 16) {
            const uint8_t *src = k + j * row + 2 * (size_t)d;
            const uint8_t *line = ahead + (j + d % 32 / 2) * row + d / 32 * 64;
            __m256i r[8];
            for (uint32_t i = 0; i < 4; i++)
                __builtin_prefetch(line + i * row, 0, 2);
            for (uint32_t i = 0; i < 8; i++)
                r[i] = load_2x128(src + i * row, src + (i + 8) * row);
            transpose_words(r);
            for (uint32_t i = 0; i < 8; i++) {
                lanes x = is_bf16 ? lanes_of_bf16(r[i]) : lanes_of_f16(r[i]);
                lanes_store(keys + (size_t)(d + i) * RF_KV_BLOCK + j, x);
            }
        }
    }
}

static void transpose_16(float *keys, const uint8_t *k, const uint8_t *ahead, size_t row,
                         uint32_t n, rf_dtype type) {
    if (type == RF_DT_BF16)
        transpose_halves(keys, k, ahead, row, n, true);
    else
        transpose_halves(keys, k, ahead, row, n, false);
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

/* Eight rows of eight words of 32 bits become columns. */
LANES_INLINE void transpose_8(__m256i r[8]) {
    __m256i a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]); /* columns 0, 1, 4 and 5 of two rows */
        a[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]); /* 0 and 4 of four */
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        r[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

/* Sixteen integers of a group: its first or second half. */
LANES_INLINE __m128i group_half(const uint8_t *group, int half, rf_dtype type) {
    if (type == RF_DT_Q4_0) return load_nibbles(group + 2, half);
    return _mm_loadu_si128((const __m128i *)(const void *)(group + 2 + 16 * half));
}

LANES_INLINE void key_words_of(int32_t *words, const uint8_t *k, size_t row, rf_dtype type) {
    const __m256i low = _mm256_set1_epi32((int)0x01800080),
                  high = _mm256_set1_epi32((int)0x03800280);
    const __m256i quad = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C, 0, 0x04040404,
                                           0x08080808, 0x0C0C0C0C);
    const __m256i first = _mm256_or_si256(low, quad), second = _mm256_or_si256(high, quad);
    for (uint32_t j = 0; j < RF_KV_BLOCK; j += 8) {
        __m256i r[8];
        for (uint32_t i = 0; i < 8; i++) {
            const uint8_t *group = k + (j + i) * row;
            r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(group_half(group, 0, type)),
                                           group_half(group, 1, type), 1);
        }
        transpose_8(r);
        for (uint32_t i = 0; i < 8;
             i++) { /* each byte to the top of sixteen bits, and down again */
            __m256i x = _mm256_srai_epi16(_mm256_shuffle_epi8(r[i], first), 8);
            __m256i y = _mm256_srai_epi16(_mm256_shuffle_epi8(r[i], second), 8);
            int32_t *to = words + (size_t)2 * i * RF_KV_BLOCK + j;
            _mm256_storeu_si256((__m256i *)(void *)to, x);
            _mm256_storeu_si256((__m256i *)(void *)(to + RF_KV_BLOCK), y);
        }
    }
}

static void key_words(int32_t *words, const uint8_t *k, size_t row, rf_dtype type) {
    if (type == RF_DT_Q8_0)
        key_words_of(words, k, row, RF_DT_Q8_0);
    else
        key_words_of(words, k, row, RF_DT_Q4_0);
}

LANES_INLINE void value_words_of(int32_t *words, const uint8_t *v, size_t row, rf_dtype type) {
    for (uint32_t w = 0; w < ATTEND_WORDS; w++, v += 2 * row, words += RF_KV_BLOCK) {
        for (int half = 0; half < 2; half++) {
            __m128i x = group_half(v, half, type), y = group_half(v + row, half, type);
            __m256i *to = (__m256i *)(void *)(words + 16 * half);
            _mm256_storeu_si256(to, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(x, y)));
            _mm256_storeu_si256(to + 1, _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(x, y)));
        }
    }
}

static void value_words(int32_t *words, const uint8_t *v, size_t row, rf_dtype type) {
    if (type == RF_DT_Q8_0)
        value_words_of(words, v, row, RF_DT_Q8_0);
    else
        value_words_of(words, v, row, RF_DT_Q4_0);
}
