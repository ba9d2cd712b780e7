/* fmath_avx512.c - rf_expf_sum for sixteen floats at a time: the operations of rf_expf, in their order. */
#include <immintrin.h>

#include "base/fmath_exp.h"

static inline __m512 expf_of_sixteen(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(RF_EXPF_MIN), x);
    x = _mm512_min_ps(_mm512_set1_ps(RF_EXPF_MAX), x);
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(RF_EXPF_LOG2E)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = RF_EXPF_REST(_mm512_set1_ps, _mm512_fmadd_ps, n, x);
    __m512 p = RF_EXPF_POLY(_mm512_set1_ps, _mm512_fmadd_ps, r);
    __m512i e = _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), e));
}

size_t rf_expf_sum_avx512(double sum[8], const float *x, size_t n, float max, float scale) {
    const __m512 most = _mm512_set1_ps(max), by = _mm512_set1_ps(scale);
    __m512d all = _mm512_loadu_pd(sum);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 p = expf_of_sixteen(_mm512_mul_ps(by, _mm512_sub_ps(_mm512_loadu_ps(x + i), most)));
        p = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(p, p, _CMP_ORD_Q), p);
        all = _mm512_add_pd(all, _mm512_cvtps_pd(_mm512_castps512_ps256(p)));
        all = _mm512_add_pd(all, _mm512_cvtps_pd(_mm512_extractf32x8_ps(p, 1)));
    }
    _mm512_storeu_pd(sum, all);
    return i;
}
