/* probe_avx2.c - the products of probe.h with AVX2. */
#include <immintrin.h>

#include "base/probe.h"

/* Four products of u8 x s8 added up in 16 bits, then widened: what formats of few bits allow. */
uint64_t rf_probe_int8_avx2(uint32_t steps) {
    enum { W = 4, X = 4 };
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i acc[W], w[W], x[X];
    for (int i = 0; i < 4; i++) {
        acc[i] = _mm256_setzero_si256();
        w[i] = _mm256_set1_epi8((char)(i + 1));
        x[i] = _mm256_set1_epi8((char)(i - 2));
    }
    for (uint32_t k = 0; k < steps; k++) {
        RF_OPAQUE(x[0]);
        RF_OPAQUE(x[1]);
        RF_OPAQUE(x[2]);
        RF_OPAQUE(x[3]);
        for (int i = 0; i < W; i++) {
            __m256i s = _mm256_maddubs_epi16(w[i], x[0]);
            for (int j = 1; j < X; j++)
                s = _mm256_add_epi16(s, _mm256_maddubs_epi16(w[i], x[j]));
            acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(s, ones));
        }
    }
    for (int i = 0; i < W; i++)
        RF_OPAQUE(acc[i]);
    return (uint64_t)steps * W * X * 32 * 2;
}

uint64_t rf_probe_f32_avx2(uint32_t steps) {
    enum { N = 12 };
    __m256 acc[N], w = _mm256_set1_ps(0.5f), x = _mm256_setzero_ps();
    for (int i = 0; i < N; i++)
        acc[i] = _mm256_setzero_ps();
    for (uint32_t k = 0; k < steps; k++)
        for (int i = 0; i < N; i++)
            acc[i] = _mm256_fmadd_ps(w, x, acc[i]);
    for (int i = 0; i < N; i++)
        RF_OPAQUE(acc[i]);
    return (uint64_t)steps * N * 8 * 2;
}
