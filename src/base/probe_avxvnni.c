/* probe_avxvnni.c - the integer products of probe.h with AVX-VNNI. */
#include <immintrin.h>

#include "base/probe.h"

uint64_t rf_probe_int8_avxvnni(uint32_t steps) {
    enum { N = 12 };
    __m256i acc[N], w = _mm256_set1_epi8(3), x = _mm256_set1_epi8(-2);
    for (int i = 0; i < N; i++)
        acc[i] = _mm256_setzero_si256();
    for (uint32_t k = 0; k < steps; k++)
        for (int i = 0; i < N; i++)
            acc[i] = _mm256_dpbusd_avx_epi32(acc[i], w, x);
    for (int i = 0; i < N; i++)
        RF_OPAQUE(acc[i]);
    return (uint64_t)steps * N * 32 * 2;
}
