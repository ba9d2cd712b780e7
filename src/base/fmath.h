/* fmath.h - elementary functions with one defined result everywhere.
 *
 * libm's exp, log, sin and pow may differ by machine and by instruction set, and so would logits.
 * These are made of IEEE add, multiply, divide and explicit fma only (the project is compiled with
 * -ffp-contract=off), so scalar and vector code, any compiler and any machine give the same bits. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

double rf_exp(double x); /* < 2 ulp; 0 and inf at the ends; NaN stays NaN */
void rf_exp_n(double *p, const double *x, size_t n);    /* n of them; p may be x */
double rf_log(double x);                                /* < 2 ulp; -inf at 0; NaN below */
double rf_pow(double x, double y);                      /* x > 0; relative error < 1e-14 */
void rf_sincos(double x, double *sin_x, double *cos_x); /* |x| <= 1e9, absolute error < 1e-12 */

double rf_tanh(double x); /* relative error < 1e-13 */
double rf_erf(double x);  /* absolute error < 1e-15, relative < 1e-14 */

/* The f32 exponential of every kernel: a degree-6 minimax polynomial after reduction by ln 2,
 * relative error < 1e-7, written once as this sequence of operations so that each vector version
 * repeats it exactly:
 *   x = x < MIN ? MIN : x; x = x > MAX ? MAX : x; (a NaN passes: max_ps(MIN, x), min_ps(MAX, x));
 *   n = rint(x * LOG2E) (ties to even);
 *   r = fma(n, -LN2_HI, x); r = fma(n, -LN2_LO, r);
 *   p = C6; p = fma(p, r, C5); ... p = fma(p, r, C0) with the constants below; result p * 2^n
 *   (2^n by adding n << 23 to the bits of p; p lies in [0.70, 1.42] and n in [-126, 127]).
 * So -inf gives exp(MIN), about 1.2e-38, and not 0; NaN stays NaN.  RF_EXPF_REST is r and RF_EXPF_POLY p
 * for any type that has fma(a, b, c) = a * b + c and set(constant). */
#define RF_EXPF_MIN                  -87.3f
#define RF_EXPF_MAX                  88.3f
#define RF_EXPF_LOG2E                1.44269504088896341f
#define RF_EXPF_LN2_HI               0.693359375f
#define RF_EXPF_LN2_LO               -2.12194440e-4f
#define RF_EXPF_C0                   1.0f
#define RF_EXPF_C1                   1.0f
#define RF_EXPF_C2                   4.9999993432e-1f
#define RF_EXPF_C3                   1.6666520399e-1f
#define RF_EXPF_C4                   4.1668390766e-2f
#define RF_EXPF_C5                   8.3687450919e-3f
#define RF_EXPF_C6                   1.3814541425e-3f
#define RF_EXPF_REST(set, fma, n, x) fma(n, set(-RF_EXPF_LN2_LO), fma(n, set(-RF_EXPF_LN2_HI), x))
#define RF_EXPF_POLY_3(set, fma, r) \
    fma(fma(fma(set(RF_EXPF_C6), r, set(RF_EXPF_C5)), r, set(RF_EXPF_C4)), r, set(RF_EXPF_C3))
#define RF_EXPF_POLY(set, fma, r)                                                         \
    fma(fma(fma(RF_EXPF_POLY_3(set, fma, r), r, set(RF_EXPF_C2)), r, set(RF_EXPF_C1)), r, \
        set(RF_EXPF_C0))
float rf_expf(float x);
/* The sum of rf_expf(scale * (x[i] - max)), without those that are NaN, in double: element i is added to
 * sum i % 8, in order; then 0 + 4, 1 + 5, ..., 0 + 2, 1 + 3, 0 + 1. */
double rf_expf_sum(const float *x, size_t n, float max, float scale);
/* p[i] = rf_expf(scale * (x[i] - max)); p may be x. */
void rf_expf_n(float *p, const float *x, size_t n, float max, float scale);
/* units[i] = rf_expf(x[i] - max) in units of 2^-30, cut off, 0 for a NaN; their sum, which has no order.  No x is
 * above max. */
#define RF_EXPF_UNITS 1073741824.0f
uint64_t rf_expf_units(uint32_t *units, const float *x, size_t n, float max);
/* Which of x lie in [low, high), in order, into at [n]; returns how many. */
size_t rf_find_between(uint32_t *at, const float *x, size_t n, float low, float high);

float rf_largest(const float *x, size_t n); /* a NaN is below all; -inf: there is nothing else */
/* The largest of each 64 of x, the last of them maybe fewer: [ceil(n / 64)]. */
void rf_largest_of_64(float *most, const float *x, size_t n);

/* The scale of 32 activations in integers of -127 .. 127, from their largest: amax * UNIT, an f32, rounded up to
 * four significant bits by way of its own bits; inf stays inf. */
#define RF_QUANT_UNIT        0x1.020408p-7f /* 1 / 127 */
#define RF_QUANT_SHORT(bits) ((bits) < 0x7f800000u ? ((bits) + 0xfffffu) & 0xfff00000u : (bits))

/* Numbers of f32 are rounded to multiples of a power of two by adding a large number and taking it away again, of which
 * these are the bits, from those of the numbers' largest |x|, below 2^(e+1): 1.5 * 2^23 times a step of 2^(e-10) for
 * minima, which are f16 and so multiples of 2^-24 anyway, and of 2^(e-9) for activations' totals, which are not numbers
 * from 2^90 on.  So many neighbouring groups of 32 share a step. */
enum { RF_SHARE_GROUPS = 8 };
#define RF_MINIMA_LEAST 0x38800000u /* 2^-14 */
#define RF_MINIMA_MOST  0x47800000u /* 2^16: infinities, and what is no number */
#define RF_ROUNDING(bits, least, n) \
    (((((bits) < (least) ? (least) : (bits)) & 0x7f800000u) + ((uint32_t)(n) << 23)) | 0x00400000u)
#define RF_ROUND_MINIMA(bits) \
    RF_ROUNDING((bits) > RF_MINIMA_MOST ? RF_MINIMA_MOST : (bits), RF_MINIMA_LEAST, 13)
#define RF_ROUND_TOTALS(bits) \
    ((bits) < 0x6c800000u ? RF_ROUNDING(bits, 0x12800000u, 14) : 0x7fc00000u)

/* The f32 tanh and erf of every kernel: x P(z) / Q(z) of z = x * x, relative error < 4e-7, again one
 * sequence of operations:
 *   x = x < -MAX ? -MAX : x; x = x > MAX ? MAX : x; (a NaN passes) z = x * x;
 *   p = P[n-1]; p = fma(p, z, P[n-2]); ... fma(p, z, P[0]), q likewise; r = (x * p) / q;
 *   r = r < -1 ? -1 : r; r = r > 1 ? 1 : r. */
#define RF_TANHF_MAX 9.0f
#define RF_TANHF_P \
    { 1.0f, 1.338102072e-1f, 3.495582845e-3f, 2.060899715e-5f, 1.335454591e-8f }
#define RF_TANHF_Q \
    { 1.0f, 4.671433568e-1f, 2.587696165e-2f, 3.285626299e-4f, 7.776509960e-7f }
#define RF_ERFF_MAX 3.92f
#define RF_ERFF_P                                                                         \
    {                                                                                     \
        1.128379107f, 1.904065311e-1f, 5.274872854e-2f, 3.765619127e-3f, 2.848826989e-4f, \
            2.050085641e-6f                                                               \
    }
#define RF_ERFF_Q \
    { 1.0f, 5.020761490e-1f, 1.141091362e-1f, 1.496922038e-2f, 1.162535977e-3f, 3.809169721e-5f }
float rf_tanhf(float x);
float rf_erff(float x);
#define RF_ROOT_HALF    7.07106781e-1f /* sqrt(1 / 2) */
#define RF_GELU_TANH_C0 1.59576912f    /* 2 sqrt(2 / pi) */
#define RF_GELU_TANH_C1 7.13548163e-2f /* 0.044715 times that */

/* IEEE half and bfloat16, exact; round to nearest even the other way. */
float rf_f16_to_f32(uint16_t h);
uint16_t rf_f32_to_f16(float f);
static inline float rf_bf16_to_f32(uint16_t h) {
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)h << 16};
    return v.f;
}
uint16_t rf_f32_to_bf16(float f);

#ifdef __cplusplus
}
#endif
