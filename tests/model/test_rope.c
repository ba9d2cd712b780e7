/* test_rope.c - the frequencies of rotary embeddings, each kind of scaling against its published
 * formula, evaluated here in other words with the C library. */
#include <math.h>
#include <string.h>

#include "lib/testlib.h"
#include "model/model.h"

static rf_model *open_model(const char *name) {
    rf_error e = {0};
    rf_model *m = NULL;
    if (rf_model_open(&m, rf_test_data(name), &e) != RF_OK) fail_msg("%s", e.text);
    return m;
}

static void expect_close(double got, double want, uint32_t i) {
    if (!(fabs(got - want) <= 1e-9 * want))
        fail_msg("frequency %u is %.12g, not %.12g", i, got, want);
}

static void test_plain(void **state) {
    (void)state;
    rf_model *m = open_model("models/llama-gqa.gguf");
    assert_int_equal(m->rope.kind, RF_ROPE_NORM);
    assert_int_equal(m->rope.n_dims, 10);
    assert_true(m->rope.magnitude == 1);
    assert_true(m->rope.inv_freq[0] == 1);
    for (uint32_t i = 0; i < 5; i++)
        expect_close(m->rope.inv_freq[i], 1 / pow(500, i / 5.0), i);
    rf_model_close(m);
}

static void test_linear(void **state) {
    (void)state;
    rf_model *m = open_model("models/llama-linear.gguf");
    for (uint32_t i = 0; i < 4; i++)
        expect_close(m->rope.inv_freq[i], 0.25 / pow(10000, i / 4.0), i);
    rf_model_close(m);
}

/* Short waves stay, long ones are divided by 8, those between are blended (original context 64). */
static void test_llama3(void **state) {
    (void)state;
    rf_model *m = open_model("models/llama-rope3.gguf");
    assert_int_equal(m->rope.n_dims, 16);
    uint32_t n_kept = 0, n_divided = 0;
    for (uint32_t i = 0; i < 8; i++) {
        double f = pow(5000, -(double)i / 8), turns = 64 * f / (2 * acos(-1));
        double keep = turns > 4 ? 1 : turns < 1 ? 0 : (turns - 1) / 3;
        double want = keep * f + (1 - keep) * f / 8;
        if (!(fabs(m->rope.inv_freq[i] - want) <= 1e-6 * want)) /* the factors are f32 */
            fail_msg("frequency %u is %.9g, not %.9g", i, m->rope.inv_freq[i], want);
        n_kept += keep == 1;
        n_divided += keep == 0;
    }
    assert_true(n_kept > 0 && n_divided > 0 && n_kept + n_divided < 8);
    rf_model_close(m);
}

/* Head of 16, base 10000, factor 4, original context 64: dimensions below the one that turns 32
 * times keep their frequency, those beyond the one that turns once are interpolated, a ramp
 * between. */
static void test_yarn(void **state) {
    (void)state;
    rf_model *m = open_model("models/qwen2-yarn.gguf");
    assert_int_equal(m->rope.kind, RF_ROPE_NEOX);
    double two_pi = 2 * acos(-1);
    double low = floor(16 * log(64 / (32 * two_pi)) / (2 * log(10000)));
    double high = ceil(16 * log(64 / two_pi) / (2 * log(10000)));
    if (low < 0) low = 0;
    assert_true(high > low + 1 && high < 7);
    for (uint32_t i = 0; i < 8; i++) {
        double f = pow(10000, -(double)i / 8), ramp = (i - low) / (high - low);
        ramp = fmin(1, fmax(0, ramp));
        expect_close(m->rope.inv_freq[i], f * (1 - ramp) + f / 4 * ramp, i);
    }
    assert_true(fabs((double)m->rope.magnitude - (0.1 * log(4) + 1)) < 1e-6);
    rf_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_yarn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
