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

double rf_exp(double x);           /* < 2 ulp; 0 and inf at the ends; NaN stays NaN */
double rf_log(double x);           /* < 2 ulp; -inf at 0; NaN below */
double rf_pow(double x, double y); /* x > 0; relative error < 1e-14 */
void rf_sincos(double x, double *sin_x, double *cos_x); /* |x| <= 1e9, absolute error < 1e-12 */

/* The f32 exponential of every kernel: a degree-6 minimax polynomial after reduction by ln 2,
 * relative error < 1e-7, written once as this sequence of operations so that each vector version
 * repeats it exactly:
 *   x = x < MIN ? MIN : x; x = x > MAX ? MAX : x; (a NaN passes: max_ps(MIN, x), min_ps(MAX, x));
 *   n = rint(x * LOG2E) (ties to even);
 *   r = fma(n, -LN2_HI, x); r = fma(n, -LN2_LO, r);
 *   p = C6; p = fma(p, r, C5); ... p = fma(p, r, C0) with the constants below; result p * 2^n
 *   (2^n by adding n << 23 to the bits of p; p lies in [0.70, 1.42] and n in [-126, 127]).
 * So -inf gives exp(MIN), about 1.2e-38, and not 0; NaN stays NaN. */
#define RF_EXPF_MIN    -87.3f
#define RF_EXPF_MAX    88.3f
#define RF_EXPF_LOG2E  1.44269504088896341f
#define RF_EXPF_LN2_HI 0.693359375f
#define RF_EXPF_LN2_LO -2.12194440e-4f
#define RF_EXPF_C0     1.0f
#define RF_EXPF_C1     1.0f
#define RF_EXPF_C2     4.9999993432e-1f
#define RF_EXPF_C3     1.6666520399e-1f
#define RF_EXPF_C4     4.1668390766e-2f
#define RF_EXPF_C5     8.3687450919e-3f
#define RF_EXPF_C6     1.3814541425e-3f
float rf_expf(float x);

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
