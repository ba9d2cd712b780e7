/* vec_avx.h - register-level pieces that the AVX2 and AVX-512 kernels share.
 *
 * Private to the CPU backend; to be included only by files compiled with AVX2, FMA and F16C. */
#pragma once
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "base/fmath_avx2.h"

/* The last three steps of tree16 on one vector whose lanes already hold s[i] + s[i + 8]. */
static inline float rf_tree8(__m256 s) {
    __m128 v = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)));
}

/* The largest lane. */
static inline float rf_largest8(__m256 s) {
    __m128 v = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    v = _mm_max_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_max_ss(v, _mm_movehdup_ps(v)));
}

/* Sums, or the larger ones. */
static inline __attribute__((always_inline)) __m256 rf_joined8(__m256 a, __m256 b, bool larger) {
    return larger ? _mm256_max_ps(a, b) : _mm256_add_ps(a, b);
}

/* rf_tree8 of eight vectors at once, or the largest lane of each: lane i of the result belongs to s[i]. */
static inline __attribute__((always_inline)) __m256 rf_join8x8(const __m256 s[8], bool larger) {
    __m256 a[4], b[2];
    for (int i = 0; i < 4; i++) {
        __m256 u = s[2 * i], v = s[2 * i + 1];
        a[i] = rf_joined8(_mm256_permute2f128_ps(u, v, 0x20), _mm256_permute2f128_ps(u, v, 0x31),
                          larger);
    }
    for (int i = 0; i < 2; i++) {
        __m256 u = a[2 * i], v = a[2 * i + 1];
        b[i] = rf_joined8(_mm256_shuffle_ps(u, v, 0x44), _mm256_shuffle_ps(u, v, 0xEE), larger);
    }
    __m256 c = rf_joined8(_mm256_shuffle_ps(b[0], b[1], 0x88), _mm256_shuffle_ps(b[0], b[1], 0xDD),
                          larger);
    /* c holds vectors 0 2 4 6 | 1 3 5 7 */
    return _mm256_permutevar8x32_ps(c, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* tree16 of eight times sixteen lanes. */
static inline void rf_trees_of_8(const float *s, float *out) {
    __m256 v[8];
    for (int i = 0; i < 8; i++)
        v[i] = _mm256_add_ps(_mm256_loadu_ps(s + 16 * i), _mm256_loadu_ps(s + 16 * i + 8));
    _mm256_storeu_ps(out, rf_join8x8(v, false));
}

/* The low or the high halves of sixteen bytes, less 8. */
static inline __m128i load_nibbles(const uint8_t *p, int high) {
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    v = _mm_and_si128(high ? _mm_srli_epi16(v, 4) : v, _mm_set1_epi8(15));
    return _mm_sub_epi8(v, _mm_set1_epi8(8));
}

/* Eight interleaved (cos, sin) pairs into eight cosines and eight sines. */
static inline void rf_split_pairs8(const float *cos_sin, __m256 *c, __m256 *s) {
    __m256 lo = _mm256_loadu_ps(cos_sin), hi = _mm256_loadu_ps(cos_sin + 8);
    __m256d cc = _mm256_castps_pd(_mm256_shuffle_ps(lo, hi, 0x88));
    __m256d ss = _mm256_castps_pd(_mm256_shuffle_ps(lo, hi, 0xDD));
    *c = _mm256_castpd_ps(_mm256_permute4x64_pd(cc, 0xD8));
    *s = _mm256_castpd_ps(_mm256_permute4x64_pd(ss, 0xD8));
}
