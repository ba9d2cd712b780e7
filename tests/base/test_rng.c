/* test_rng.c - Philox against its published vectors, and the uniform numbers made of it. */
#include "lib/testlib.h"

#include "base/rng.h"

/* Known answers of the generator's authors: counter, key -> output. */
static void published_vectors(void **state) {
    (void)state;
    static const struct {
        uint64_t seed, stream, counter;
        uint32_t out[4];
    } cases[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822u,
         0x0370734413198a2eu,
         0x85a308d3243f6a88u,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        uint32_t out[4];
        rf_philox(cases[i].seed, cases[i].stream, cases[i].counter, out);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(out[k], cases[i].out[k]);
        }
    }
}

static void unit_numbers_are_uniform(void **state) {
    (void)state;
    enum { N = 1 << 16, BINS = 64 };
    int bins[BINS] = {0};
    double sum = 0;
    for (uint64_t i = 0; i < N; i++) {
        double u = rf_rng_unit(42, 7, i);
        assert_true(u >= 0 && u < 1);
        assert_true(u == rf_rng_unit(42, 7, i)); /* depends on nothing else */
        sum += u;
        bins[(int)(u * BINS)]++;
    }
    double chi2 = 0; /* 63 degrees of freedom: 99.9 % lie below 104 */
    for (int b = 0; b < BINS; b++) {
        double d = bins[b] - (double)N / BINS;
        chi2 += d * d / ((double)N / BINS);
    }
    assert_true(chi2 < 104);
    assert_true(sum / N > 0.497 && sum / N < 0.503);
}

static void seeds_streams_and_counters_differ(void **state) {
    (void)state;
    double base = rf_rng_unit(1, 1, 1);
    for (int bit = 0; bit < 64; bit++) {
        uint64_t flip = (uint64_t)1 << bit;
        assert_true(rf_rng_unit(1 ^ flip, 1, 1) != base);
        assert_true(rf_rng_unit(1, 1 ^ flip, 1) != base);
        assert_true(rf_rng_unit(1, 1, 1 ^ flip) != base);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),
        cmocka_unit_test(unit_numbers_are_uniform),
        cmocka_unit_test(seeds_streams_and_counters_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
