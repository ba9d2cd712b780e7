/* probe_avx512.c - the products of probe.h with AVX-512 and VNNI. */
#include <immintrin.h>

#include "base/probe.h"

enum { N = 16 };

uint64_t rf_probe_int8_avx512(uint32_t steps) {
    __m512i acc[N], w = _mm512_set1_epi8(3), x = _mm512_set1_epi8(-2);
    for (int i = 0; i < N; i++)
        acc[i] = _mm512_setzero_si512();
    for (uint32_t k = 0; k < steps; k++)
        for (int i = 0; i < N; i++)
            acc[i] = _mm512_dpbusd_epi32(acc[i], w, x);
    for (int i = 0; i < N; i++)
        RF_OPAQUE_512(acc[i]);
    return (uint64_t)steps * N * 64 * 2;
}

uint64_t rf_probe_f32_avx512(uint32_t steps) {
    __m512 acc[N], w = _mm512_set1_ps(0.5f), x = _mm512_setzero_ps();
    for (int i = 0; i < N; i++)
        acc[i] = _mm512_setzero_ps();
    for (uint32_t k = 0; k < steps; k++)
        for (int i = 0; i < N; i++)
            acc[i] = _mm512_fmadd_ps(w, x, acc[i]);
    for (int i = 0; i < N; i++)
        RF_OPAQUE_512(acc[i]);
    return (uint64_t)steps * N * 16 * 2;
}
