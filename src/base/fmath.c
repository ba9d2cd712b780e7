/* fmath.c - elementary functions from +, -, *, /, fma and rint only; see fmath.h for the promises.
 *
 * The double versions reduce the argument, sum a Taylor series in Horner form and put the pieces
 * back; where one double is not enough (log inside pow), the value is carried as hi + lo. */
#include "base/fmath.h"

#include <math.h>
#include <string.h>

#include "base/fmath_exp.h"

static double double_of(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static uint64_t bits_of(double d) {
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* c[0] + c[1] x + ... + c[n-1] x^(n-1) */
static double horner(const double *c, int n, double x) {
    double p = c[n - 1];
    for (int i = n - 2; i >= 0; i--) {
        p = fma(p, x, c[i]);
    }
    return p;
}

/* 2^k for k in [-1022, 1023] */
static double pow2(int k) { return double_of((uint64_t)(1023 + k) << 52); }

/* exp(x + lo) where |lo| is far below one ulp of 1 and x is in (-746, 710). */
static double exp_sum(double x, double lo) {
    double n = rint(x * RF_LOG2E);
    double r_hi = fma(n, -RF_LN2_HI, x); /* exact */
    double r_lo = fma(n, -RF_LN2_LO, lo);
    double r = r_hi + r_lo;
    double r_err = (r_hi - r) + r_lo;
    double tail = fma(r * r, horner(rf_exp_terms, RF_EXP_TERMS, r), r_err);
    double p = 1.0 + (r + tail);
    int k = (int)n, half = k / 2; /* in two steps: 2^k itself may not be a normal number */
    return p * pow2(half) * pow2(k - half);
}

double rf_exp(double x) {
    if (x != x) return x;
    if (x > RF_EXP_MAX) return (double)INFINITY;
    if (x < RF_EXP_MIN) return 0.0;
    return exp_sum(x, 0.0);
}

#if defined(__x86_64__)
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}
#endif

void rf_exp_n(double *p, const double *x, size_t n) {
    size_t i = 0;
#if defined(__x86_64__)
    if (has_avx2()) i = rf_exp_n_avx2(p, x, n);
#endif
    for (; i < n; i++)
        p[i] = rf_exp(x[i]);
}

/* log(x) = hi + lo with about 2^-62 relative error, for finite x > 0. */
static void log_sum(double x, double *hi, double *lo) {
    /* atanh(s) = s + s^3/3 + s^5/5 + ...; |s| <= 0.172, so s^25/25 is below 2^-65 of s */
    static const double inverse_odd[11] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,
                                           1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17,
                                           1.0 / 19, 1.0 / 21, 1.0 / 23};
    int k = 0;
    if (x < 0x1p-1022) { /* subnormal */
        x *= 0x1p54;
        k = -54;
    }
    uint64_t bits = bits_of(x);
    k += (int)(bits >> 52) - 1023;
    double m = double_of((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
    if (m > 0x1.6a09e667f3bcdp+0) { /* sqrt 2 */
        m *= 0.5;
        k++;
    }
    double num = m - 1.0; /* exact */
    double den = m + 1.0;
    double den_lo = m > 1.0 ? 1.0 - (den - m) : m - (den - 1.0); /* what the sum rounded away */
    double s = num / den;
    double s_lo = (fma(-s, den, num) - s * den_lo) / den;
    double z = s * s;
    double cubic = s * z * horner(inverse_odd, 11, z);
    double a = (double)k * RF_LN2_HI, b = 2.0 * s; /* k = 0 or |a| > |b| */
    double sum = a + b;
    double sum_err = k == 0 ? 0.0 : (a - sum) + b;
    double rest = sum_err + fma((double)k, RF_LN2_LO, 2.0 * (s_lo + cubic));
    *hi = sum + rest;
    *lo = (sum - *hi) + rest;
}

double rf_log(double x) {
    if (x != x || x == (double)INFINITY) return x;
    if (x < 0) return (double)NAN;
    if (x == 0) return -(double)INFINITY;
    double hi, lo;
    log_sum(x, &hi, &lo);
    return hi + lo;
}

double rf_pow(double x, double y) {
    if (y == 0 || x == 1) return 1.0;
    if (x != x || y != y || x < 0) return (double)NAN;
    bool falls = (x < 1) != (y < 0); /* towards 0 as |y| grows */
    bool far = x == 0 || x == (double)INFINITY || y - y != 0;
    if (far) return falls ? 0.0 : (double)INFINITY;
    double hi, lo;
    log_sum(x, &hi, &lo);
    double t = y * hi;
    if (t > 709.8) return (double)INFINITY;
    if (t < -745.2) return 0.0;
    return exp_sum(t, fma(y, hi, -t) + y * lo);
}

double rf_tanh(double x) {
    if (x != x) return x;
    double a = fabs(x), z = x * x;
    if (a < 0.01) return x * fma(z, fma(z, fma(z, -17.0 / 315, 2.0 / 15), -1.0 / 3), 1.0);
    double t = a > 20 ? 1.0 : 1.0 - 2.0 / (rf_exp(2.0 * a) + 1.0);
    return x < 0 ? -t : t;
}

double rf_erf(double x) {
    if (x != x) return x;
    double a = fabs(x), z = 2.0 * x * x;
    if (a > 6) return x < 0 ? -1.0 : 1.0; /* 1 - erf(6) is 2e-17 */
    double sum = 1.0, term = 1.0; /* x e^(-x^2) sum (2 x^2)^n / (2n + 1)!!, all of one sign */
    for (int n = 1; term > sum * 0x1p-60; n++) {
        term *= z / (2 * n + 1);
        sum += term;
    }
    return 1.1283791670955126 * x * rf_exp(-x * x) * sum; /* 2 / sqrt(pi) */
}

void rf_sincos(double x, double *sin_x, double *cos_x) {
    static const double s_coef[8] = {-1.0 / 6,
                                     1.0 / 120,
                                     -1.0 / 5040,
                                     1.0 / 362880,
                                     -1.0 / 39916800,
                                     1.0 / 6227020800,
                                     -1.0 / 1307674368000.0,
                                     1.0 / 355687428096000.0};
    static const double c_coef[8] = {
        -1.0 / 2,       1.0 / 24,        -1.0 / 720,           1.0 / 40320,
        -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200.0, 1.0 / 20922789888000.0};
    if (!(x >= -1e9 && x <= 1e9)) { /* beyond the promise, inf and NaN: no digit would be right */
        *sin_x = *cos_x = (double)NAN;
        return;
    }
    double n = rint(x * 0x1.45f306dc9c883p-1);   /* 2 / pi */
    double r = fma(n, -0x1.921fb54442d18p+0, x); /* exact: both are multiples of a small power */
    r = fma(n, -0x1.1a62633145c07p-54, r);
    double z = r * r;
    double s = fma(r * z, horner(s_coef, 8, z), r);
    double c = fma(z, horner(c_coef, 8, z), 1.0);
    unsigned quadrant = (unsigned)(int64_t)n & 3u;
    *sin_x = quadrant == 0 ? s : quadrant == 1 ? c : quadrant == 2 ? -s : -c;
    *cos_x = quadrant == 0 ? c : quadrant == 1 ? -s : quadrant == 2 ? -c : s;
}

float rf_expf(float x) {
    x = x < RF_EXPF_MIN ? RF_EXPF_MIN : x;
    x = x > RF_EXPF_MAX ? RF_EXPF_MAX : x;
    if (x != x) return x; /* the conversion of n below would be undefined */
    float n = rintf(x * RF_EXPF_LOG2E);
    float r = RF_EXPF_REST(, fmaf, n, x);
    float p = RF_EXPF_POLY(, fmaf, r);
    return float_of(bits_of_float(p) + ((uint32_t)(int32_t)n << 23));
}

double rf_expf_sum(const float *x, size_t n, float max, float scale) {
    double sum[8] = {0};
    size_t i = 0;
#if defined(__x86_64__)
    if (has_avx512()) i = rf_expf_sum_avx512(sum, x, n, max, scale);
    if (has_avx2()) i += rf_expf_sum_avx2(sum, x + i, n - i, max, scale);
#endif
    for (; i < n; i++) {
        float p = rf_expf(scale * (x[i] - max));
        sum[i % 8] += p == p ? (double)p : 0;
    }
    for (size_t half = 4; half; half /= 2)
        for (i = 0; i < half; i++)
            sum[i] += sum[i + half];
    return sum[0];
}

void rf_expf_n(float *p, const float *x, size_t n, float max, float scale) {
#if defined(__x86_64__)
    if (has_avx2()) {
        rf_expf_n_avx2(p, x, n, max, scale);
        return;
    }
#endif
    for (size_t i = 0; i < n; i++)
        p[i] = rf_expf(scale * (x[i] - max));
}

uint64_t rf_expf_units(uint32_t *units, const float *x, size_t n, float max) {
    uint64_t sum = 0;
    size_t i = 0;
#if defined(__x86_64__)
    if (has_avx2()) i = rf_expf_units_avx2(&sum, units, x, n, max);
#endif
    for (; i < n; i++) {
        float p = rf_expf(x[i] - max);
        sum += units[i] = p == p ? (uint32_t)(int32_t)(p * RF_EXPF_UNITS) : 0;
    }
    return sum;
}

size_t rf_find_between(uint32_t *at, const float *x, size_t n, float low, float high) {
    size_t i = 0, n_found = 0;
#if defined(__x86_64__)
    if (has_avx2()) i = rf_find_between_avx2(at, &n_found, x, n, low, high);
#endif
    for (; i < n; i++)
        if (x[i] >= low && x[i] < high) at[n_found++] = (uint32_t)i;
    return n_found;
}

float rf_largest(const float *x, size_t n) {
    float most = -INFINITY;
    size_t i = 0;
#if defined(__x86_64__)
    if (has_avx2()) i = rf_largest_avx2(&most, x, n);
#endif
    for (; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

void rf_largest_of_64(float *most, const float *x, size_t n) {
    size_t i = 0;
#if defined(__x86_64__)
    if (has_avx2()) i = rf_largest_of_64_avx2(most, x, n);
#endif
    for (; i < n; i += 64)
        most[i / 64] = rf_largest(x + i, n - i < 64 ? n - i : 64);
}

/* x P(x^2) / Q(x^2), see fmath.h. */
static float rational(float x, const float *p, const float *q, int n, float most) {
    x = x < -most ? -most : x;
    x = x > most ? most : x;
    float z = x * x, num = p[n - 1], den = q[n - 1];
    for (int i = n - 2; i >= 0; i--) {
        num = fmaf(num, z, p[i]);
        den = fmaf(den, z, q[i]);
    }
    float r = (x * num) / den;
    r = r < -1.0f ? -1.0f : r;
    return r > 1.0f ? 1.0f : r;
}

float rf_tanhf(float x) {
    static const float p[] = RF_TANHF_P, q[] = RF_TANHF_Q;
    return rational(x, p, q, (int)RF_COUNT(p), RF_TANHF_MAX);
}

float rf_erff(float x) {
    static const float p[] = RF_ERFF_P, q[] = RF_ERFF_Q;
    return rational(x, p, q, (int)RF_COUNT(p), RF_ERFF_MAX);
}

float rf_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = h >> 10 & 0x1Fu;
    uint32_t mantissa = h & 0x3FFu;
    if (exponent == 31) { /* NaNs become quiet, as the conversion instructions do it */
        return float_of(sign | 0x7F800000u | (mantissa ? 0x00400000u | mantissa << 13 : 0));
    }
    if (exponent == 0) { /* zero and subnormals: an integer count of 2^-24 */
        float f = (float)mantissa * 0x1p-24f;
        return float_of(sign | bits_of_float(f));
    }
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t rf_f32_to_f16(float f) {
    uint32_t bits = bits_of_float(f);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t a = bits & 0x7FFFFFFFu;
    if (a > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (a >> 13 & 0x3FFu));
    if (a >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520 and up round to inf */
    if (a < 0x33000001u) return (uint16_t)sign; /* at most 2^-25: a tie goes to the even 0 */
    uint32_t exponent = a >> 23;
    uint32_t mantissa = (a & 0x007FFFFFu) | 0x00800000u;
    uint32_t drop = 13, base = 0; /* bits of the mantissa that do not fit */
    if (exponent < 113) {
        drop += 113 - exponent; /* subnormal: the leading 1 is not implied */
    } else {
        base = (exponent - 113) << 10; /* the leading 1 adds the last step of the exponent */
    }
    uint32_t kept = mantissa >> drop;
    uint32_t rest = mantissa & ((1u << drop) - 1), half = 1u << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1u)); /* a carry moves into the exponent */
    return (uint16_t)(sign | (base + kept));
}

uint16_t rf_f32_to_bf16(float f) {
    uint32_t bits = bits_of_float(f);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x0040u);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
