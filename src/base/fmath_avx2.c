/* fmath_avx2.c - rf_exp_n for four doubles, and what goes through rows of floats for eight at a time: the
 * operations of rf_exp and rf_expf, in their order. */
#include "base/fmath_avx2.h"

#include <string.h>

#include "base/fmath_exp.h"

/* 2^k of four int32 k in [-1022, 1023] */
static inline __m256d pow2(__m128i k) {
    __m256i exponent = _mm256_add_epi64(_mm256_cvtepi32_epi64(k), _mm256_set1_epi64x(1023));
    return _mm256_castsi256_pd(_mm256_slli_epi64(exponent, 52));
}

static inline __m256d exp_of_four(__m256d x) {
    const __m256d most = _mm256_set1_pd(RF_EXP_MAX), least = _mm256_set1_pd(RF_EXP_MIN);
    const __m256d in = _mm256_min_pd(most, _mm256_max_pd(least, x)); /* a NaN passes both */
    __m256d n = _mm256_round_pd(_mm256_mul_pd(in, _mm256_set1_pd(RF_LOG2E)),
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256d r_hi = _mm256_fmadd_pd(n, _mm256_set1_pd(-RF_LN2_HI), in);
    __m256d r_lo = _mm256_fmadd_pd(n, _mm256_set1_pd(-RF_LN2_LO), _mm256_setzero_pd());
    __m256d r = _mm256_add_pd(r_hi, r_lo);
    __m256d r_err = _mm256_add_pd(_mm256_sub_pd(r_hi, r), r_lo);
    __m256d p = _mm256_set1_pd(rf_exp_terms[RF_EXP_TERMS - 1]);
    for (int i = RF_EXP_TERMS - 2; i >= 0; i--)
        p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(rf_exp_terms[i]));
    p = _mm256_fmadd_pd(_mm256_mul_pd(r, r), p, r_err);
    p = _mm256_add_pd(_mm256_set1_pd(1), _mm256_add_pd(r, p));
    __m128i k = _mm256_cvtpd_epi32(n),
            half = _mm_srai_epi32(_mm_add_epi32(k, _mm_srli_epi32(k, 31)), 1);
    p = _mm256_mul_pd(_mm256_mul_pd(p, pow2(half)), pow2(_mm_sub_epi32(k, half)));
    p = _mm256_blendv_pd(p, _mm256_set1_pd((double)INFINITY), _mm256_cmp_pd(x, most, _CMP_GT_OQ));
    p = _mm256_andnot_pd(_mm256_cmp_pd(x, least, _CMP_LT_OQ), p);
    return _mm256_blendv_pd(p, x, _mm256_cmp_pd(x, x, _CMP_UNORD_Q));
}

size_t rf_exp_n_avx2(double *p, const double *x, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        _mm256_storeu_pd(p + i, exp_of_four(_mm256_loadu_pd(x + i)));
    return i;
}

size_t rf_expf_sum_avx2(double sum[8], const float *x, size_t n, float max, float scale) {
    const __m256 most = _mm256_set1_ps(max), by = _mm256_set1_ps(scale);
    __m256d low = _mm256_loadu_pd(sum), high = _mm256_loadu_pd(sum + 4);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 p = rf_expf8(_mm256_mul_ps(by, _mm256_sub_ps(_mm256_loadu_ps(x + i), most)));
        p = _mm256_and_ps(p, _mm256_cmp_ps(p, p, _CMP_ORD_Q));
        low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(p)));
        high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(p, 1)));
    }
    _mm256_storeu_pd(sum, low);
    _mm256_storeu_pd(sum + 4, high);
    return i;
}

/* The rest goes by a vector, too: callers have a few numbers at a time. */
void rf_expf_n_avx2(float *p, const float *x, size_t n, float max, float scale) {
    const __m256 most = _mm256_set1_ps(max), by = _mm256_set1_ps(scale);
    for (size_t i = 0; i < n; i += 8) {
        float rest[8] = {0};
        const bool is_whole = n - i >= 8;
        if (!is_whole) memcpy(rest, x + i, (n - i) * sizeof *x);
        const __m256 v = _mm256_loadu_ps(is_whole ? x + i : rest);
        const __m256 e = rf_expf8(_mm256_mul_ps(by, _mm256_sub_ps(v, most)));
        _mm256_storeu_ps(is_whole ? p + i : rest, e);
        if (!is_whole) memcpy(p + i, rest, (n - i) * sizeof *p);
    }
}

size_t rf_expf_units_avx2(uint64_t *sum, uint32_t *units, const float *x, size_t n, float max) {
    const __m256 most = _mm256_set1_ps(max), by = _mm256_set1_ps(RF_EXPF_UNITS);
    __m256i all = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 p = rf_expf8(_mm256_sub_ps(_mm256_loadu_ps(x + i), most));
        p = _mm256_and_ps(p, _mm256_cmp_ps(p, p, _CMP_ORD_Q));
        __m256i u = _mm256_cvttps_epi32(_mm256_mul_ps(p, by));
        _mm256_storeu_si256((void *)(units + i), u);
        all = _mm256_add_epi64(all, _mm256_blend_epi32(u, _mm256_setzero_si256(), 0xaa));
        all = _mm256_add_epi64(all, _mm256_srli_epi64(u, 32));
    }
    uint64_t part[4];
    _mm256_storeu_si256((void *)part, all);
    *sum = part[0] + part[1] + part[2] + part[3];
    return i;
}

size_t rf_find_between_avx2(uint32_t *at, size_t *n_found, const float *x, size_t n, float low,
                            float high) {
    const __m256 from = _mm256_set1_ps(low), to = _mm256_set1_ps(high);
    size_t i = 0, found = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + i);
        const __m256 is_in =
            _mm256_and_ps(_mm256_cmp_ps(v, from, _CMP_GE_OQ), _mm256_cmp_ps(v, to, _CMP_LT_OQ));
        for (unsigned m = (unsigned)_mm256_movemask_ps(is_in); m; m &= m - 1)
            at[found++] = (uint32_t)i + (uint32_t)__builtin_ctz(m);
    }
    *n_found = found;
    return i;
}

/* The largest of a whole number of sixteens and of `most`. */
static inline float largest(float most, const float *x, size_t n) {
    __m256 a = _mm256_set1_ps(most), b = a;
    for (size_t i = 0; i < n; i += 16) { /* a NaN in the first place gives the second */
        a = _mm256_max_ps(_mm256_loadu_ps(x + i), a);
        b = _mm256_max_ps(_mm256_loadu_ps(x + i + 8), b);
    }
    a = _mm256_max_ps(a, b);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

size_t rf_largest_avx2(float *most, const float *x, size_t n) {
    *most = largest(*most, x, n & ~(size_t)15);
    return n & ~(size_t)15;
}

size_t rf_largest_of_64_avx2(float *most, const float *x, size_t n) {
    for (size_t i = 0; i + 64 <= n; i += 64)
        most[i / 64] = largest(-INFINITY, x + i, 64);
    return n & ~(size_t)63;
}
