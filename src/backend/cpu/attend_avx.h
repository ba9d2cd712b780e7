/* attend_avx.h - keys into vector lanes, for AVX2 and AVX-512.
 *
 * Private to the CPU backend; a file includes it after the lanes of its instruction set.  Two groups of
 * keys lie in the two halves of a 256-bit vector, so that shuffles within halves are enough. */
#pragma once
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
