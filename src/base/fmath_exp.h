/* fmath_exp.h - what the versions of rf_exp share; private to src/base/fmath*.c. */
#pragma once
#include <math.h>

#include "base/fmath.h"

#define RF_EXP_MAX 709.782712893384
#define RF_EXP_MIN (-745.1332191019412)
#define RF_LOG2E   0x1.71547652b82fep+0
/* ln 2 in two pieces; the first has 42 bits, so its product with any exponent is exact. */
#define RF_LN2_HI 0x1.62e42fefa3800p-1
#define RF_LN2_LO 0x1.ef35793c76730p-45

/* 1/2!, 1/3!, ... 1/13!: the rest is below 2^-57 for |r| <= ln 2 / 2 */
enum { RF_EXP_TERMS = 12 };
static const double rf_exp_terms[RF_EXP_TERMS] = {
    1.0 / 2,     1.0 / 6,      1.0 / 24,      1.0 / 120,      1.0 / 720,       1.0 / 5040,
    1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};

/* As rf_exp_n, for whole vectors from the front; returns how many it did. */
size_t rf_exp_n_avx2(double *p, const double *x, size_t n);
/* As rf_expf_sum, likewise, up to the eight sums. */
size_t rf_expf_sum_avx2(double sum[8], const float *x, size_t n, float max, float scale);
size_t rf_expf_sum_avx512(double sum[8], const float *x, size_t n, float max, float scale);
void rf_expf_n_avx2(float *p, const float *x, size_t n, float max, float scale); /* all of them */
size_t rf_expf_units_avx2(uint64_t *sum, uint32_t *units, const float *x, size_t n, float max);
size_t rf_find_between_avx2(uint32_t *at, size_t *n_found, const float *x, size_t n, float low,
                            float high);
size_t rf_largest_avx2(float *most, const float *x, size_t n);
size_t rf_largest_of_64_avx2(float *most, const float *x, size_t n);
