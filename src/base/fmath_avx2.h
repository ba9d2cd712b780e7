/* fmath_avx2.h - the f32 exponential on eight lanes; only for files compiled with AVX2 and FMA. */
#pragma once
#include <immintrin.h>

#include "base/fmath.h"

/* rf_expf on eight lanes, the same operations in the same order. */
static inline __m256 rf_expf8(__m256 x) {
    x = _mm256_max_ps(_mm256_set1_ps(RF_EXPF_MIN), x);
    x = _mm256_min_ps(_mm256_set1_ps(RF_EXPF_MAX), x);
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(RF_EXPF_LOG2E)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = RF_EXPF_REST(_mm256_set1_ps, _mm256_fmadd_ps, n, x);
    __m256 p = RF_EXPF_POLY(_mm256_set1_ps, _mm256_fmadd_ps, r);
    __m256i e = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), e));
}
