/* test_divide.c - the division and square root that the compiler builds from v_rcp, v_sqrt and fma are
 * correctly rounded for all kinds of bits, even when those estimates are off by one in either
 * direction, as they are on a card. */
#include <math.h>

#include "gpuemu/fixture.h"

enum { N = 8192 };
static float x[N], y[N], q[N], r[N];

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Random bits; pairs of like size; denormals; numbers next to powers of two; the special ones. */
static void fill(uint64_t *seed) {
    static const uint32_t special[] = {0,          0x80000000, 1,          0x007fffff, 0x00800000,
                                       0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x3f800000};
    for (uint32_t i = 0; i < N; i++) {
        uint64_t a = rf_test_rand(seed);
        uint32_t u = (uint32_t)a, v = (uint32_t)(a >> 32), kind = (uint32_t)rf_test_rand(seed) % 8;
        if (kind == 0) u &= 0x807fffff;
        if (kind == 1) v &= 0x807fffff;
        if (kind == 2) v = (u & 0x7f800000) | (v & 0x807fffff);
        if (kind == 3) u = special[u % RF_COUNT(special)];
        if (kind == 4) v = special[v % RF_COUNT(special)];
        if (kind == 5) v = (v & 0xff800000) + (v & 3);
        if (kind == 6) u = (u & 0x807fffff) | 0x00800000;
        memcpy(&x[i], &u, sizeof u);
        memcpy(&y[i], &v, sizeof v);
    }
}

static void same(float got, float want, const char *arch, const char *what, float a, float b) {
    if (got != got && want != want) return;
    if (bits_of(got) != bits_of(want))
        fail_msg("%s: %s of %a, %a is %a, expected %a", arch, what, (double)a, (double)b,
                 (double)got, (double)want);
}

static void check(const char *arch, int ulps) {
    uint64_t seed = (uint64_t)(ulps + 2);
    rf_emu_module *m = open_arch(arch);
    rf_emu_set_approximation(ulps);
    for (uint32_t round = 0; round < 4; round++) {
        args a = {0};
        fill(&seed);
        add_pointer(&a, q, sizeof q);
        add_pointer(&a, r, sizeof r);
        add_pointer(&a, x, sizeof x);
        add_pointer(&a, y, sizeof y);
        add_number(&a, N);
        run_kernel(m, "t_quotient", N / 256, 256, 0, &a, NULL);
        for (uint32_t i = 0; i < N; i++) {
            same(q[i], x[i] / y[i], arch, "quotient", x[i], y[i]);
            same(r[i], sqrtf(x[i]), arch, "root", x[i], x[i]);
        }
    }
    rf_emu_set_approximation(0);
    rf_emu_module_close(m);
}

static void test_exact(void **state) {
    (void)state;
    for (size_t k = 0; k < RF_COUNT(archs); k++)
        check(archs[k], 0);
}

static void test_with_errors(void **state) {
    (void)state;
    for (size_t k = 0; k < RF_COUNT(archs); k++) {
        check(archs[k], -1);
        check(archs[k], 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_with_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
