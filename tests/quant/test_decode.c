/* test_decode.c - decode() of every format: golden values bit by bit, and definitions. */
#include <math.h>
#include <string.h>

#include "base/fmath.h"
#include "golden.h"

static golden goldens[MAX_GOLDEN];
static size_t n_goldens;

static int load_all(void **state) {
    (void)state;
    n_goldens = load_goldens(goldens);
    return 0;
}

static int free_all(void **state) {
    (void)state;
    free_goldens(goldens, n_goldens);
    return 0;
}

static float *decode_golden(const golden *g) {
    float *w = (float *)rf_alloc(g->n_elems, sizeof *w);
    assert_non_null(w);
    g->info->decode(g->blocks, w, g->n_elems);
    return w;
}

/* req: C-14, B-48, B-57, B-61, B-62 */
static void golden_blocks_decode_exactly(void **state) {
    (void)state;
    bool seen[RF_DT_COUNT] = {false};
    for (size_t i = 0; i < n_goldens; i++) {
        const golden *g = &goldens[i];
        float *w = decode_golden(g);
        uint64_t hash = fnv1a(w, g->n_elems * sizeof *w);
        if (hash != g->hash)
            fail_msg("%s: values hash to %016" PRIx64 ", expected %016" PRIx64, g->info->name, hash,
                     g->hash);
        rf_free(w);
        seen[g->type] = true;
    }
    for (unsigned t = 0; t < RF_DT_COUNT; t++) { /* none is left out, F32 and F64 apart */
        bool plain = t == RF_DT_F32 || t == RF_DT_F64;
        assert_int_equal(seen[t], rf_dtype_get((rf_dtype)t)->decode && !plain);
    }
}

static void compare_with_file(const golden *g, const char *path) {
    size_t n = 0;
    uint8_t *expected = rf_test_read(path, &n);
    assert_int_equal(n, g->n_elems * sizeof(float));
    float *w = decode_golden(g);
    for (size_t i = 0; i < g->n_elems; i++) {
        uint32_t want;
        memcpy(&want, expected + 4 * i, sizeof want);
        if (float_bits(w[i]) != want)
            fail_msg("%s element %zu: %08x, expected %08x", g->info->name, i, float_bits(w[i]),
                     want);
    }
    rf_free(w);
    rf_free(expected);
}

static void shared_values_decode_exactly(void **state) {
    (void)state;
    RF_SKIP_WITHOUT(rf_test_shared("quants"), "comparison with the full float32 files");
    for (size_t i = 0; i < n_goldens; i++) {
        const golden *g = &goldens[i];
        char relative[80];
        if (g->type == RF_DT_MXFP6_E2M3 || g->type == RF_DT_MXFP6_E3M2)
            snprintf(relative, sizeof relative, "mx/mxfp6_%s.deq.f32",
                     g->type == RF_DT_MXFP6_E2M3 ? "e2m3" : "e3m2");
        else
            snprintf(relative, sizeof relative, "quants/deq/%s.f32", g->info->name);
        compare_with_file(g, rf_test_shared(relative));
    }
}

/* The OCP vectors of MXFP4, with the two places where GGUF's type 39 differs: scale 255 is 2^128
 * and not NaN, and code 8 is +0. */
static void mxfp4_is_ocp_but_for_nan_and_negative_zero(void **state) {
    (void)state;
    const char *blocks_at = rf_test_shared("mx/mxfp4_e2m1_ggml.deq.blk");
    RF_SKIP_WITHOUT(blocks_at, "the OCP vectors of MXFP4");
    size_t n, n_values;
    uint8_t *blocks = rf_test_read(blocks_at, &n);
    uint8_t *values = rf_test_read(rf_test_shared("mx/mxfp4_e2m1_ggml.deq.f32"), &n_values);
    assert_int_equal(n / 17 * 32 * sizeof(float), n_values);
    size_t n_nan = 0;
    for (size_t g = 0; g < n / 17; g++) {
        float w[32];
        rf_dtype_get(RF_DT_MXFP4)->decode(blocks + 17 * g, w, 32);
        for (size_t i = 0; i < 32; i++) {
            float want;
            memcpy(&want, values + (32 * g + i) * 4, sizeof want);
            if (isnan(want)) {
                assert_int_equal(blocks[17 * g], 255);
                assert_true(w[i] == w[i]);
                n_nan++;
            } else {
                uint32_t bits = float_bits(want) == 0x80000000u ? 0 : float_bits(want);
                assert_int_equal(float_bits(w[i]), bits);
            }
        }
    }
    assert_true(n_nan > 0);
    rf_free(blocks);
    rf_free(values);
}

/* Section 3 of the requirements: "MXFP4 ... E8M0 scale 2^(e-127), E2M1 elements". */
static void mxfp4_by_definition(void **state) {
    (void)state;
    static const double e2m1[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};
    for (int e = 0; e < 256; e++) {
        uint8_t block[17] = {(uint8_t)e};
        for (uint8_t j = 0; j < 16; j++)
            block[1 + j] = (uint8_t)(j | (15 - j) << 4);
        float w[32];
        rf_dtype_get(RF_DT_MXFP4)->decode(block, w, 32);
        for (int j = 0; j < 16; j++) {
            assert_int_equal(float_bits(w[j]), float_bits((float)ldexp(e2m1[j], e - 127)));
            assert_int_equal(float_bits(w[j + 16]),
                             float_bits((float)ldexp(e2m1[15 - j], e - 127)));
        }
    }
}

/* Section 3 of the requirements: byte j holds values j and j + 16; Q4_1 is q*d + m and not
 * (q-8)*d + m. */
static void nibbles_and_minimums(void **state) {
    (void)state;
    uint8_t q4_0[18] = {0x00, 0x3c}; /* d = 1 */
    uint8_t q4_1[20] = {0x00, 0x3c, 0x00, 0x40};
    float w[32];
    q4_0[2 + 3] = 0xa1;
    q4_1[4 + 3] = 0xa1;
    rf_dtype_get(RF_DT_Q4_0)->decode(q4_0, w, 32);
    for (int i = 0; i < 32; i++)
        assert_true((double)w[i] == (i == 3 ? 1.0 - 8 : i == 19 ? 10.0 - 8 : -8.0));
    rf_dtype_get(RF_DT_Q4_1)->decode(q4_1, w, 32);
    for (int i = 0; i < 32; i++)
        assert_true((double)w[i] == (i == 3 ? 1.0 + 2 : i == 19 ? 10.0 + 2 : 2.0));
}

/* The value of a small float by its definition: sign, exponent, mantissa; no infinities. */
static double small_float(unsigned code, int exp_bits, int man_bits, int bias) {
    unsigned man = code & ((1u << man_bits) - 1),
             exponent = code >> man_bits & ((1u << exp_bits) - 1);
    double v = exponent == 0 ? ldexp(man, 1 - bias - man_bits)
                             : ldexp(man + (1u << man_bits), (int)exponent - bias - man_bits);
    return code >> (man_bits + exp_bits) ? -v : v;
}

/* req: B-47: element i is bits 6i .. 6i+5, gathered here one bit at a time. */
static void mxfp6_codes_straddle_bytes(void **state) {
    (void)state;
    uint64_t seed = 6;
    for (int round = 0; round < 2000; round++) {
        uint8_t block[25];
        for (int i = 0; i < 25; i++)
            block[i] = (uint8_t)rf_test_rand(&seed);
        float w23[32], w32[32];
        rf_dtype_get(RF_DT_MXFP6_E2M3)->decode(block, w23, 32);
        rf_dtype_get(RF_DT_MXFP6_E3M2)->decode(block, w32, 32);
        for (int i = 0; i < 32; i++) {
            unsigned code = 0;
            for (int bit = 6 * i; bit < 6 * i + 6; bit++)
                code |= ((unsigned)block[1 + bit / 8] >> bit % 8 & 1) << (bit - 6 * i);
            double scale = block[0] == 255 ? (double)NAN : ldexp(1, block[0] - 127);
            float a = (float)(small_float(code, 2, 3, 1) * scale);
            float b = (float)(small_float(code, 3, 2, 3) * scale);
            if (block[0] == 255) {
                assert_true(isnan(w23[i]) && isnan(w32[i]));
            } else {
                assert_int_equal(float_bits(w23[i]), float_bits(a));
                assert_int_equal(float_bits(w32[i]), float_bits(b));
            }
        }
    }
    uint8_t one[25] = {127, 0xc0, 0x0f}; /* element 1 alone: two bits here, four there */
    float w[32];
    rf_dtype_get(RF_DT_MXFP6_E2M3)->decode(one, w, 32);
    for (int i = 0; i < 32; i++)
        assert_true((double)w[i] == (i == 1 ? -7.5 : 0.0));
}

/* Every code of F16 and BF16 from the definition of the format. */
static void half_formats_by_definition(void **state) {
    (void)state;
    uint8_t *codes = every_code(65536);
    float *f16 = (float *)rf_alloc(65536, sizeof *f16),
          *bf16 = (float *)rf_alloc(65536, sizeof *bf16);
    assert_true(f16 && bf16);
    rf_dtype_get(RF_DT_F16)->decode(codes, f16, 65536);
    rf_dtype_get(RF_DT_BF16)->decode(codes, bf16, 65536);
    for (uint32_t h = 0; h < 65536; h++) {
        assert_int_equal(float_bits(bf16[h]), h << 16);
        assert_int_equal(float_bits(f16[h]), float_bits(rf_f16_to_f32((uint16_t)h)));
        unsigned exponent = h >> 10 & 31, man = h & 1023;
        double sign = h & 0x8000 ? -1 : 1, v;
        if (exponent == 31) {
            assert_int_equal(isnan(f16[h]) != 0, man != 0);
            if (man == 0) assert_true((double)f16[h] == sign * HUGE_VAL);
            continue;
        }
        v = exponent == 0 ? ldexp(man, -24) : ldexp(1024 + man, (int)exponent - 25);
        assert_int_equal(float_bits(f16[h]), float_bits((float)(sign * v)));
    }
    rf_free(codes);
    rf_free(f16);
    rf_free(bf16);
}

static void wide_floats(void **state) {
    (void)state;
    static const uint32_t f32[5] = {0x3f800001, 0x80000000, 0x7f800001, 0xffffffff, 1};
    float w[6];
    rf_dtype_get(RF_DT_F32)->decode(f32, w, 5);
    assert_memory_equal(w, f32, sizeof f32); /* every bit, those of NaNs too */
    static const double f64[6] = {0.1, -0.0, 1e300, 0x1.000001p0, 0x1.000003p0, 0x1p-150};
    static const uint32_t rounded[6] = {0x3dcccccd, 0x80000000, 0x7f800000,
                                        0x3f800000, 0x3f800002, 0}; /* ties to even */
    rf_dtype_get(RF_DT_F64)->decode(f64, w, 6);
    assert_memory_equal(w, rounded, sizeof rounded);
}

/* req: C-15: sources at the end of readable memory and at odd addresses, results likewise. */
static void any_address_will_do(void **state) {
    (void)state;
    for (size_t i = 0; i < n_goldens; i++) {
        const golden *g = &goldens[i];
        size_t n = 3 * g->info->block_elems, bytes = 3 * g->info->block_bytes;
        float *expected = (float *)rf_alloc(n, sizeof *expected);
        uint8_t *odd = (uint8_t *)rf_alloc(bytes + 1, 1);
        assert_true(expected && odd);
        g->info->decode(g->blocks, expected, n);
        rf_guarded src = rf_guard(g->blocks, bytes), dst = rf_guard(expected, n * sizeof(float));
        memset(dst.p, 0xee, dst.n);
        g->info->decode(src.p, (float *)(void *)dst.p, n);
        assert_memory_equal(dst.p, expected, dst.n);
        memcpy(odd + 1, g->blocks, bytes);
        memset(dst.p - 1, 0xee, dst.n);
        g->info->decode(odd + 1, (float *)(void *)(dst.p - 1), n); /* one byte off alignment */
        assert_memory_equal(dst.p - 1, expected, dst.n);
        g->info->decode(NULL, NULL, 0);
        rf_guard_free(&src);
        rf_guard_free(&dst);
        rf_free(expected);
        rf_free(odd);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_blocks_decode_exactly),
        cmocka_unit_test(shared_values_decode_exactly),
        cmocka_unit_test(mxfp4_is_ocp_but_for_nan_and_negative_zero),
        cmocka_unit_test(mxfp4_by_definition),
        cmocka_unit_test(nibbles_and_minimums),
        cmocka_unit_test(mxfp6_codes_straddle_bytes),
        cmocka_unit_test(half_formats_by_definition),
        cmocka_unit_test(wide_floats),
        cmocka_unit_test(any_address_will_do),
    };
    return cmocka_run_group_tests(tests, load_all, free_all);
}
