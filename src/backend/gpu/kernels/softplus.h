/* softplus.h - log(1 + exp(x)) in double, rounded to f32: operation by operation rf_exp and rf_log of
 * base/fmath.c, of which only what this sum can reach is here.
 *
 * Nothing else on the GPU is computed in double; it is made once per row and head. */
#pragma once
#include "backend/gpu/kernels/port.h"

/* a / b rounded to nearest, for numbers far from the ends of double's range: an estimate of 1 / b is
 * doubled in digits three times, and the quotient corrected by what it leaves over. */
RF_DEVICE double rf_divide(double a, double b) {
    double r = (double)(1.0f / (float)b);
    RF_UNROLL
    for (int i = 0; i < 3; i++)
        r = __builtin_fma(__builtin_fma(-b, r, 1.0), r, r);
    const double q = a * r;
    return __builtin_fma(__builtin_fma(-b, q, a), r, q);
}

RF_DEVICE double rf_double_of(uint64_t bits) {
    double d;
    __builtin_memcpy(&d, &bits, sizeof d);
    return d;
}

RF_DEVICE double rf_pow2(int k) { return rf_double_of((uint64_t)(1023 + k) << 52); }

#define RF_LN2_HI 0x1.62e42fefa3800p-1
#define RF_LN2_LO 0x1.ef35793c76730p-45

/* x at most 20; below -745.13 it is 0, and a NaN passes. */
RF_DEVICE double rf_exp64(double x) {
    const double c[] = {1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                        1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                        1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    if (x != x) return x;
    if (x < -745.1332191019412) return 0.0;
    const double n = __builtin_rint(x * 0x1.71547652b82fep+0);
    const double hi = __builtin_fma(n, -RF_LN2_HI, x), lo = __builtin_fma(n, -RF_LN2_LO, 0.0);
    const double r = hi + lo, error = (hi - r) + lo;
    double p = c[RF_COUNT(c) - 1];
    RF_UNROLL
    for (int i = (int)RF_COUNT(c) - 2; i >= 0; i--)
        p = __builtin_fma(p, r, c[i]);
    const int k = (int)n, half = k / 2;
    p = 1.0 + (r + __builtin_fma(r * r, p, error));
    return p * rf_pow2(half) * rf_pow2(k - half);
}

/* x from 1 to 2^30; a NaN passes. */
RF_DEVICE double rf_log64(double x) {
    const double c[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                        1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
    uint64_t bits;
    if (x != x) return x;
    __builtin_memcpy(&bits, &x, sizeof bits);
    int k = (int)(bits >> 52) - 1023;
    double m = rf_double_of((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        k++;
    }
    const double num = m - 1.0, den = m + 1.0;
    const double den_lo = m > 1.0 ? 1.0 - (den - m) : m - (den - 1.0);
    const double s = rf_divide(num, den);
    const double s_lo = rf_divide(__builtin_fma(-s, den, num) - s * den_lo, den), z = s * s;
    double p = c[RF_COUNT(c) - 1];
    RF_UNROLL
    for (int i = (int)RF_COUNT(c) - 2; i >= 0; i--)
        p = __builtin_fma(p, z, c[i]);
    const double cubic = s * z * p, a = (double)k * RF_LN2_HI, b = 2.0 * s, sum = a + b;
    const double sum_error = k == 0 ? 0.0 : (a - sum) + b;
    const double rest = sum_error + __builtin_fma((double)k, RF_LN2_LO, 2.0 * (s_lo + cubic));
    return sum + rest;
}

RF_DEVICE float rf_softplus(float x) {
    return x > 20 ? x : (float)rf_log64(1 + rf_exp64((double)x));
}
