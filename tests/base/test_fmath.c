/* test_fmath.c - accuracy against long double libm, special values, and the half-width formats. */
#include "lib/testlib.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/fmath.h"

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* |got - want| in units of the last place of a double near want. */
static double ulps(double got, long double want) {
    int exponent;
    frexpl(want, &exponent);
    if (exponent < -1021) exponent = -1021;
    return (double)fabsl(((long double)got - want) / ldexpl(1.0L, exponent - 53));
}

static double uniform(uint64_t *seed, double lo, double hi) {
    return lo + (hi - lo) * ((double)(rf_test_rand(seed) >> 11) * 0x1p-53);
}

static void exp_is_within_two_ulp(void **state) {
    (void)state;
    uint64_t seed = 1;
    double worst = 0;
    for (int i = 0; i < 300000; i++) {
        double range = i % 3 == 0 ? 745.0 : i % 3 == 1 ? 20.0 : 1e-3;
        double x = uniform(&seed, -range, range < 700 ? range : 709.7);
        double d = ulps(rf_exp(x), expl((long double)x));
        if (d > worst) worst = d;
    }
    print_message("exp: worst error %.3f ulp\n", worst);
    assert_true(worst < 2.0);
    assert_true(rf_exp(0) == 1.0);
    assert_true(rf_exp(-0.0) == 1.0);
    assert_true(rf_exp((double)INFINITY) == (double)INFINITY);
    assert_true(rf_exp(-(double)INFINITY) == 0.0);
    assert_true(rf_exp(710.0) == (double)INFINITY);
    assert_true(rf_exp(-746.0) == 0.0);
    assert_true(isfinite(rf_exp(709.782712893384)));
    assert_true(rf_exp(-745.1332191019411) == 0x1p-1074);
    assert_true(isnan(rf_exp((double)NAN)));
}

/* Bit for bit what one at a time gives, at every place of a vector. */
static void exp_of_many_is_the_same(void **state) {
    (void)state;
    static const double special[] = {0.0,   -0.0,   (double)INFINITY, -(double)INFINITY,
                                     710.0, -746.0, 709.782712893384, -745.1332191019411,
                                     1e300, -1e300, 0x1p-1074,        (double)NAN};
    enum { N = 1003 };
    double x[N], p[N];
    uint64_t seed = 7;
    for (int round = 0; round < 300; round++) {
        double range = round % 3 == 0 ? 760.0 : round % 3 == 1 ? 20.0 : 1e-3;
        for (size_t i = 0; i < N; i++)
            x[i] = i % 17 == 3 ? special[(i / 17 + (size_t)round) % RF_COUNT(special)]
                               : uniform(&seed, -range, range);
        rf_exp_n(p, x, N);
        for (size_t i = 0; i < N; i++) {
            double want = rf_exp(x[i]);
            assert_memory_equal(&p[i], &want, sizeof want);
        }
    }
    rf_exp_n(x, x, N);
    assert_memory_equal(x, p, sizeof x);
}

/* What fmath.h says, one by one. */
static double sum_of_expf(const float *x, size_t n, float max, float scale) {
    double sum[8] = {0};
    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i])) sum[i % 8] += (double)rf_expf(scale * (x[i] - max));
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

static void rows_of_floats(void **state) {
    (void)state;
    static const float special[] = {0, -0.0f, -INFINITY, NAN, -FLT_MAX, FLT_MAX};
    static float x[300];
    uint64_t seed = 11;
    for (size_t n = 0; n <= RF_COUNT(x); n++) {
        float range = n % 2 ? 100 : 3, scale = n % 3 ? 1 : 0.7f, most = -INFINITY;
        for (size_t i = 0; i < n; i++) {
            x[i] = (float)uniform(&seed, (double)-range, (double)range);
            if (i % 19 == n % 19) x[i] = special[(i + n) % RF_COUNT(special)];
            if (x[i] > most) most = x[i];
        }
        assert_true(rf_largest(x, n) == most);
        float of_64[RF_COUNT(x) / 64 + 1];
        rf_largest_of_64(of_64, x, n);
        for (size_t i = 0; i < n; i += 64)
            assert_true(of_64[i / 64] == rf_largest(x + i, n - i < 64 ? n - i : 64));
        float max = n % 5 && n > 19 ? most : 10; /* above some: rf_expf has an end there too */
        float each[RF_COUNT(x)];
        uint32_t at[RF_COUNT(x)];
        rf_expf_n(each, x, n, max, scale);
        uint32_t units[RF_COUNT(x)];
        uint64_t sum = rf_expf_units(units, x, n, fmaxf(max, most));
        size_t n_found = rf_find_between(at, x, n, -1, max), n_seen = 0;
        for (size_t i = 0; i < n; i++) {
            float one = rf_expf(scale * (x[i] - max));
            assert_true(each[i] == one || (each[i] != each[i] && one != one));
            float mass = isnan(x[i]) ? 0 : 0x1p30f * rf_expf(x[i] - fmaxf(max, most));
            assert_true((float)units[i] == floorf(mass));
            sum -= units[i];
            if (x[i] >= -1 && x[i] < max) assert_int_equal(at[n_seen++], i);
        }
        assert_int_equal(n_found, n_seen);
        assert_int_equal(sum, 0);
        double want = sum_of_expf(x, n, max, scale), got = rf_expf_sum(x, n, max, scale);
        assert_memory_equal(&got, &want, sizeof want);
    }
    for (size_t i = 0; i < RF_COUNT(x); i++)
        x[i] = NAN;
    assert_true(rf_largest(x, RF_COUNT(x)) == -INFINITY && rf_expf_sum(x, RF_COUNT(x), 0, 1) == 0);
}

static void log_is_within_two_ulp(void **state) {
    (void)state;
    uint64_t seed = 2;
    double worst = 0;
    for (int i = 0; i < 300000; i++) {
        double x = i % 2 ? ldexp(uniform(&seed, 0.5, 1), (int)(rf_test_rand(&seed) % 2098) - 1073)
                         : uniform(&seed, 0.9, 1.1); /* where the result goes through 0 */
        double d = ulps(rf_log(x), logl((long double)x));
        if (d > worst) worst = d;
    }
    print_message("log: worst error %.3f ulp\n", worst);
    assert_true(worst < 2.0);
    assert_true(rf_log(1.0) == 0.0);
    assert_true(rf_log((double)INFINITY) == (double)INFINITY);
    assert_true(rf_log(0.0) == -(double)INFINITY);
    assert_true(rf_log(-0.0) == -(double)INFINITY);
    assert_true(isnan(rf_log(-1.0)));
    assert_true(isnan(rf_log((double)NAN)));
    assert_true(ulps(rf_log(0x1p-1074), logl(0x1p-1074L)) < 2.0);
    assert_true(ulps(rf_log(DBL_MAX), logl((long double)DBL_MAX)) < 2.0);
}

static void pow_is_within_1e_14(void **state) {
    (void)state;
    uint64_t seed = 3;
    double worst = 0;
    for (int i = 0; i < 300000; i++) {
        double x = ldexp(uniform(&seed, 0.5, 1), (int)(rf_test_rand(&seed) % 200) - 100);
        double y = uniform(&seed, -12, 12);
        if (i % 3 == 0) { /* the bases and exponents of RoPE */
            x = uniform(&seed, 1e3, 1e7);
            y = -uniform(&seed, 0, 1);
        }
        long double want = powl((long double)x, (long double)y);
        if (want < 1e-300L || want > 1e300L) continue;
        double d = (double)fabsl(((long double)rf_pow(x, y) - want) / want);
        if (d > worst) worst = d;
    }
    print_message("pow: worst relative error %.3g\n", worst);
    assert_true(worst < 1e-14);
}

static void pow_at_the_edges(void **state) {
    (void)state;
    const double inf = (double)INFINITY, nan = (double)NAN;
    static const double xs[] = {0.0, 0x1p-1074, 0.5, 1.0, 2.0, 1e308};
    for (size_t i = 0; i < RF_COUNT(xs); i++) {
        const double ys[] = {0.0, 1.0, -1.0, 1e308, -1e308, inf, -inf, 2000.0, -2000.0};
        for (size_t k = 0; k < RF_COUNT(ys); k++) {
            double got = rf_pow(xs[i], ys[k]), want = pow(xs[i], ys[k]);
            assert_true(got == want || fabs(got - want) <= 1e-14 * want);
        }
    }
    assert_true(rf_pow(inf, 2.0) == inf);
    assert_true(rf_pow(inf, -2.0) == 0.0);
    assert_true(rf_pow(nan, 0.0) == 1.0);
    assert_true(rf_pow(1.0, nan) == 1.0);
    assert_true(isnan(rf_pow(nan, 1.0)));
    assert_true(isnan(rf_pow(2.0, nan)));
    assert_true(isnan(rf_pow(-2.0, 2.0)));
    assert_true(rf_pow(10000.0, 1.0) > 9999.9999999 && rf_pow(10000.0, 1.0) < 10000.0000001);
}

static void sincos_is_within_1e_12(void **state) {
    (void)state;
    uint64_t seed = 4;
    double worst = 0;
    for (int i = 0; i < 300000; i++) {
        static const double ranges[] = {1.0, 100.0, 1e5, 1e9};
        double x = uniform(&seed, -1, 1) * ranges[i % 4];
        if (i % 5 == 0) x = rint(x) * 0x1.921fb54442d18p+0; /* beside a multiple of pi / 2 */
        if (fabs(x) > 1e9) continue;
        double s, c;
        rf_sincos(x, &s, &c);
        double ds = (double)fabsl((long double)s - sinl((long double)x));
        double dc = (double)fabsl((long double)c - cosl((long double)x));
        if (ds > worst) worst = ds;
        if (dc > worst) worst = dc;
    }
    print_message("sincos: worst absolute error %.3g\n", worst);
    assert_true(worst < 1e-12);
    double s, c;
    rf_sincos(0.0, &s, &c);
    assert_true(s == 0.0 && c == 1.0);
    rf_sincos(2e9, &s, &c);
    assert_true(isnan(s) && isnan(c));
    rf_sincos((double)NAN, &s, &c);
    assert_true(isnan(s) && isnan(c));
}

static void expf_keeps_its_promise(void **state) {
    (void)state;
    double worst = 0;
    for (uint32_t bits = 0; bits < 0x42B10000u; bits += 37) { /* 0 to 88.5 */
        for (int negative = 0; negative < 2; negative++) {
            float x = float_of(bits | (uint32_t)negative << 31);
            if (x < RF_EXPF_MIN || x > RF_EXPF_MAX) continue;
            double want = rf_exp((double)x), d = fabs((double)rf_expf(x) - want) / want;
            if (d > worst) worst = d;
        }
    }
    print_message("expf: worst relative error %.3g\n", worst);
    assert_true(worst < 1e-7);
    assert_true(bits_of(rf_expf(0.0f)) == 0x3F800000u);
    assert_true(bits_of(rf_expf(-0.0f)) == 0x3F800000u);
    assert_true(bits_of(rf_expf(-INFINITY)) == bits_of(rf_expf(RF_EXPF_MIN)));
    assert_true(bits_of(rf_expf(INFINITY)) == bits_of(rf_expf(RF_EXPF_MAX)));
    assert_true(isfinite(rf_expf(FLT_MAX)));
    assert_true(rf_expf(-FLT_MAX) > 0 && rf_expf(-FLT_MAX) < 1.3e-38f);
    assert_true(isnan(rf_expf(NAN)));
}

/* The documented sequence, written a second time from the header's comment: no other order of
 * operations may give these bits. */
static void expf_is_the_documented_sequence(void **state) {
    (void)state;
    static const float c[7] = {RF_EXPF_C0, RF_EXPF_C1, RF_EXPF_C2, RF_EXPF_C3,
                               RF_EXPF_C4, RF_EXPF_C5, RF_EXPF_C6};
    uint64_t seed = 5;
    for (int i = 0; i < 200000; i++) {
        float x = rf_test_randf(&seed) * 90.0f;
        float in = fminf(fmaxf(x, -87.3f), 88.3f);
        float n = rintf(in * RF_EXPF_LOG2E);
        float r = fmaf(n, -RF_EXPF_LN2_LO, fmaf(n, -RF_EXPF_LN2_HI, in));
        float p = c[6];
        for (int k = 5; k >= 0; k--) {
            p = fmaf(p, r, c[k]);
        }
        assert_int_equal(bits_of(rf_expf(x)), bits_of(ldexpf(p, (int)n)));
    }
}

/* All 65536 halves: value by definition, and back. */
static void f16_is_exact(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
        float got = rf_f16_to_f32((uint16_t)h);
        assert_int_equal(bits_of(got) >> 31, h >> 15);
        if (exponent == 31 && mantissa) {
            assert_true(isnan(got));
            assert_int_equal(rf_f32_to_f16(got), h | 0x200u); /* quiet, payload kept */
            continue;
        }
        double want = exponent == 31  ? (double)INFINITY
                      : exponent == 0 ? ldexp(mantissa, -24)
                                      : ldexp(1024 + mantissa, (int)exponent - 25);
        assert_true(fabs((double)got) == want);
        assert_int_equal(rf_f32_to_f16(got), h);
    }
}

/* Between each pair of neighbouring halves: below, at and above the middle. */
static void f16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7C00; h++) {
        double lo = (double)rf_f16_to_f32((uint16_t)h);
        double hi = h == 0x7BFF ? 65536.0 : (double)rf_f16_to_f32((uint16_t)(h + 1));
        float middle = (float)((lo + hi) / 2); /* exact: one bit more than a half has */
        uint32_t even = h & 1 ? h + 1 : h;
        assert_int_equal(rf_f32_to_f16(middle), even);
        assert_int_equal(rf_f32_to_f16(nextafterf(middle, 0.0f)), h);
        assert_int_equal(rf_f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(rf_f32_to_f16(-middle), even | 0x8000u);
    }
    assert_int_equal(rf_f32_to_f16(FLT_MAX), 0x7C00);
    assert_int_equal(rf_f32_to_f16(-INFINITY), 0xFC00);
    assert_int_equal(rf_f32_to_f16(0x1p-149f), 0);
    assert_int_equal(rf_f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(rf_f32_to_f16(float_of(0x7F800001u)), 0x7E00);
}

static void bf16_is_exact_and_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = rf_bf16_to_f32((uint16_t)h);
        assert_int_equal(bits_of(f), h << 16);
        bool is_nan = (h & 0x7FFFu) > 0x7F80u;
        assert_int_equal(rf_f32_to_bf16(f), is_nan ? h | 0x40u : h);
        if ((h & 0x7F80u) == 0x7F80u) continue;
        assert_int_equal(rf_f32_to_bf16(float_of(h << 16 | 0x7FFFu)), h);
        assert_int_equal(rf_f32_to_bf16(float_of(h << 16 | 0x8000u)), h + (h & 1));
        assert_int_equal(rf_f32_to_bf16(float_of(h << 16 | 0x8001u)), h + 1);
    }
    assert_int_equal(rf_f32_to_bf16(float_of(0x7F800001u)), 0x7FC0); /* a NaN stays one */
}

static void tanh_and_erf_keep_their_promises(void **state) {
    (void)state;
    uint64_t seed = 77;
    for (int i = 0; i < 200000; i++) {
        double x = uniform(&seed, -1, 1) * pow(10, uniform(&seed, -6, 1.3));
        long double t = tanhl((long double)x), r = erfl((long double)x);
        assert_true(fabsl((long double)rf_tanh(x) - t) <= 1e-13L * fabsl(t));
        assert_true(fabsl((long double)rf_erf(x) - r) <= 1e-14L * fabsl(r));
        float f = (float)x;
        t = tanhl((long double)f), r = erfl((long double)f);
        assert_true(fabsl((long double)rf_tanhf(f) - t) <= 4e-7L * fabsl(t));
        assert_true(fabsl((long double)rf_erff(f) - r) <= 4e-7L * fabsl(r));
        assert_true(fabsf(rf_tanhf(f)) <= 1 && fabsf(rf_erff(f)) <= 1);
        assert_true(rf_tanhf(-f) == -rf_tanhf(f) && rf_erff(-f) == -rf_erff(f));
    }
    assert_true(rf_tanh(400) == 1 && rf_tanh(-HUGE_VAL) == -1 && rf_erf(7) == 1 &&
                rf_erf(-7) == -1);
    assert_true(rf_tanhf(INFINITY) > 0.9999999f && rf_erff(-1e30f) < -0.9999999f);
    assert_true(isnan(rf_tanh((double)NAN)) && isnan(rf_erf((double)NAN)));
    assert_true(isnan(rf_tanhf(NAN)) && isnan(rf_erff(NAN)));
    assert_true(rf_tanhf(0) == 0 && rf_erff(0) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_ulp),
        cmocka_unit_test(exp_of_many_is_the_same),
        cmocka_unit_test(rows_of_floats),
        cmocka_unit_test(log_is_within_two_ulp),
        cmocka_unit_test(pow_is_within_1e_14),
        cmocka_unit_test(pow_at_the_edges),
        cmocka_unit_test(sincos_is_within_1e_12),
        cmocka_unit_test(tanh_and_erf_keep_their_promises),
        cmocka_unit_test(expf_keeps_its_promise),
        cmocka_unit_test(expf_is_the_documented_sequence),
        cmocka_unit_test(f16_is_exact),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_is_exact_and_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
