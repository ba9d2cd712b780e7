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

/* Layers with a window (all but the sixth) rotate by base 10000 unscaled, the others by base 1e6,
 * eight times slower. */
static void test_two_bases(void **state) {
    (void)state;
    rf_model *m = open_model("models/gemma3.gguf");
    assert_int_equal(m->n_layers, 7);
    for (uint32_t i = 0; i < 8; i++) {
        expect_close(m->rope.inv_freq[i], pow(1e6, -(double)i / 8) / 8, i);
        expect_close(m->rope_local.inv_freq[i], pow(1e4, -(double)i / 8), i);
    }
    for (uint32_t il = 0; il < 7; il++) {
        assert_ptr_equal(m->layers[il].rope, il == 5 ? &m->rope : &m->rope_local);
        assert_int_equal(m->layers[il].pattern.kind, il == 5 ? RF_ATTN_CAUSAL : RF_ATTN_LOCAL);
    }
    rf_model_close(m);
}

/* The factors of the file divide; one magnitude for both, sqrt(1 + ln 8 / ln 32). */
static void test_longrope(void **state) {
    (void)state;
    static const double shorter[] = {1.0, 1.1, 1.3, 1.6, 1.9, 2.3};
    static const double longer[] = {1.0, 1.5, 2.2, 3.1, 5.0, 7.5};
    rf_model *m = open_model("models/phi3-longrope.gguf");
    assert_int_equal(m->n_ctx_short, 32);
    assert_int_equal(m->rope.n_dims, 12);
    for (uint32_t i = 0; i < 6; i++) {
        double f = pow(10000, -(double)i / 6);
        assert_true(fabs(m->rope.inv_freq[i] * shorter[i] / f - 1) < 1e-6);
        assert_true(fabs(m->rope_long.inv_freq[i] * longer[i] / f - 1) < 1e-6);
    }
    double magnitude = sqrt(1 + log(8) / log(32));
    assert_true(fabs((double)m->rope.magnitude - magnitude) < 1e-6);
    assert_true(m->rope_long.magnitude == m->rope.magnitude);
    rf_model_close(m);
}

/* alpha 50 raises base 10000 of heads of 12. */
static void test_ntk(void **state) {
    (void)state;
    rf_model *m = open_model("models/hunyuan-ntk.gguf");
    double base = 10000 * pow(50, 12.0 / 10);
    for (uint32_t i = 0; i < 6; i++)
        expect_close(m->rope.inv_freq[i], pow(base, -(double)i / 6), i);
    rf_model_close(m);
}

/* Layers that rotate nothing: each fourth, or where a model has windows those without. */
static void test_no_rope(void **state) {
    (void)state;
    static const char *const names[] = {"models/smollm3.gguf", "models/cohere2.gguf",
                                        "models/exaone4.gguf"};
    for (size_t i = 0; i < RF_COUNT(names); i++) {
        rf_model *m = open_model(names[i]);
        assert_int_equal(m->n_layers, 5);
        for (uint32_t il = 0; il < 5; il++)
            assert_ptr_equal(m->layers[il].rope, il == 3 ? NULL : &m->rope);
        rf_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),     cmocka_unit_test(test_linear),
        cmocka_unit_test(test_llama3),    cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_two_bases), cmocka_unit_test(test_longrope),
        cmocka_unit_test(test_ntk),       cmocka_unit_test(test_no_rope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
