/* test_encode.c - encoders: accuracy against the reference quantiser, exact MX rules, odd input. */
#include <math.h>
#include <string.h>

#include "base/os.h"
#include "golden.h"
#include "quant/encode.h"
#include "quant/iq_tables.h"

enum { ROWS = 16, COLS = 1024 };

static float *weights;    /* [ROWS][COLS] */
static float *importance; /* [COLS] */

static float *read_floats(const char *path, size_t n) {
    size_t n_bytes = 0;
    uint8_t *p = rf_test_read(path, &n_bytes);
    assert_int_equal(n_bytes, n * sizeof(float));
    return (float *)(void *)p;
}

static int load_rows(void **state) {
    (void)state;
    weights = read_floats(rf_test_data("quant/rows_weights.f32"), ROWS * COLS);
    importance = read_floats(rf_test_data("quant/imatrix.f32"), COLS);
    return 0;
}

static int free_rows(void **state) {
    (void)state;
    rf_free(weights);
    rf_free(importance);
    return 0;
}

static size_t bytes_of(const rf_dtype_info *t, size_t n) {
    return n / t->block_elems * t->block_bytes;
}

static double rmse(const float *x, const float *y, const float *w, size_t n) {
    double err = 0, total = 0;
    for (size_t i = 0; i < n; i++) {
        double weight = w ? (double)w[i] : 1, r = (double)x[i] - (double)y[i];
        err += weight * r * r;
        total += weight;
    }
    return sqrt(err / total);
}

static double encoded_rmse(const rf_dtype_info *t, const float *x, const float *encode_w,
                           const float *measure_w) {
    uint8_t blocks[COLS * 4];
    float y[COLS];
    t->encode(x, blocks, COLS, encode_w);
    t->decode(blocks, y, COLS);
    return rmse(x, y, measure_w, COLS);
}

typedef struct reference {
    const rf_dtype_info *t;
    bool is_weighted;
    double rmse[ROWS];
} reference;

static size_t load_reference(reference *out) {
    char line[512], name[32], kind[32];
    size_t n = 0;
    FILE *f = fopen(rf_test_data("quant/reference.txt"), "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        int at = 0, step;
        rf_dtype type;
        assert_int_equal(sscanf(line, "%31s %31s%n", name, kind, &at), 2);
        assert_true(rf_dtype_from_name(rf_str_of(name), &type));
        assert_true(n < MAX_GOLDEN);
        out[n].t = rf_dtype_get(type);
        out[n].is_weighted = strcmp(kind, "quant_imatrix") == 0;
        for (int r = 0; r < ROWS; r++, at += step)
            assert_int_equal(sscanf(line + at, "%lf%n", &out[n].rmse[r], &step), 1);
        n++;
    }
    fclose(f);
    return n;
}

/* On every row, with and without importance. */
static void at_least_as_accurate_as_the_reference(void **state) {
    (void)state;
    reference list[MAX_GOLDEN];
    size_t n = load_reference(list), n_better = 0;
    assert_int_equal(n, 34);
    for (size_t i = 0; i < n; i++) {
        const float *w = list[i].is_weighted ? importance : NULL;
        for (int r = 0; r < ROWS; r++) {
            double ours = encoded_rmse(list[i].t, weights + COLS * r, w, w);
            if (!(ours <= list[i].rmse[r] * (1 + 1e-7))) {
                fail_msg("%s row %d%s: error %.9g, the reference has %.9g", list[i].t->name, r,
                         w ? " weighted" : "", ours, list[i].rmse[r]);
            }
            n_better += ours < list[i].rmse[r] * 0.999;
        }
    }
    assert_true(n_better > n * ROWS / 2);
}

static void committed_reference_is_that_of_the_blocks(void **state) {
    (void)state;
    RF_SKIP_WITHOUT(rf_test_shared("quants/quant"), "the reference quantiser's blocks");
    reference list[MAX_GOLDEN];
    size_t n = load_reference(list);
    for (size_t i = 0; i < n; i++) {
        char relative[96];
        float y[COLS];
        size_t n_bytes, row_bytes = bytes_of(list[i].t, COLS);
        snprintf(relative, sizeof relative, "quants/%s/%s.blk",
                 list[i].is_weighted ? "quant_imatrix" : "quant", list[i].t->name);
        uint8_t *blocks = rf_test_read(rf_test_shared(relative), &n_bytes);
        assert_int_equal(n_bytes, ROWS * row_bytes);
        for (size_t r = 0; r < ROWS; r++) {
            list[i].t->decode(blocks + r * row_bytes, y, COLS);
            double e = rmse(weights + COLS * r, y, list[i].is_weighted ? importance : NULL, COLS);
            assert_true(fabs(e - list[i].rmse[r]) <= 1e-8 * e);
        }
        rf_free(blocks);
    }
}

/* ---- MX ---- */

static const rf_dtype mx_types[3] = {RF_DT_MXFP4, RF_DT_MXFP6_E2M3, RF_DT_MXFP6_E3M2};

/* The value of a code without sign, by definition of the format. */
static double mx_value(rf_dtype type, unsigned code) {
    int man_bits = type == RF_DT_MXFP4 ? 1 : type == RF_DT_MXFP6_E2M3 ? 3 : 2;
    int bias = type == RF_DT_MXFP6_E3M2 ? 3 : 1;
    unsigned exponent = code >> man_bits, man = code & ((1u << man_bits) - 1);
    return exponent ? ldexp((1u << man_bits) + man, (int)exponent - bias - man_bits)
                    : ldexp(man, 1 - bias - man_bits);
}

/* The nearest code, ties to the even one, by looking at all of them; saturating. */
static double mx_nearest(rf_dtype type, double v) {
    unsigned n = type == RF_DT_MXFP4 ? 8 : 32, best = 0;
    for (unsigned code = 1; code < n; code++) {
        double miss = fabs(mx_value(type, code) - fabs(v));
        double old = fabs(mx_value(type, best) - fabs(v));
        if (miss < old || (miss == old && code % 2 == 0)) best = code;
    }
    return copysign(mx_value(type, best), v);
}

/* OCP Microscaling 6.3: scale floor(log2 max) - emax, nearest even, saturation. */
static void mx_by_definition(void **state) {
    (void)state;
    uint64_t seed = 63;
    for (int round = 0; round < 600; round++) {
        float x[32], y[32];
        double top = 0;
        for (int i = 0; i < 32; i++) {
            float v = rf_test_randf(&seed);
            if (i % 4 == 0) v = rintf(v * 32) / 16; /* where ties are */
            x[i] = ldexpf(v, round % 250 - 140);
            if (fabs((double)x[i]) > top) top = fabs((double)x[i]);
        }
        for (int k = 0; k < 3; k++) {
            uint8_t block[25];
            int emax = mx_types[k] == RF_DT_MXFP6_E3M2 ? 4 : 2;
            int scale = top > 0 ? ilogb(top) - emax : -127;
            if (scale < -127) scale = -127;
            rf_dtype_get(mx_types[k])->encode(x, block, 32, NULL);
            assert_int_equal(block[0], scale + 127);
            rf_dtype_get(mx_types[k])->decode(block, y, 32);
            for (int i = 0; i < 32; i++) {
                double want = ldexp(mx_nearest(mx_types[k], ldexp((double)x[i], -scale)), scale);
                assert_true((double)y[i] == want);
            }
        }
    }
}

static void mx_matches_the_golden_blocks(void **state) {
    (void)state;
    RF_SKIP_WITHOUT(rf_test_shared("mx"), "the MX vectors");
    static const char *const names[3] = {"mxfp4_e2m1_ggml", "mxfp6_e2m3", "mxfp6_e3m2"};
    float *x = read_floats(rf_test_shared("mx/rows.f32"), ROWS * COLS);
    for (int k = 0; k < 3; k++) {
        char relative[64];
        size_t n;
        snprintf(relative, sizeof relative, "mx/%s.quant.blk", names[k]);
        uint8_t *want = rf_test_read(rf_test_shared(relative), &n);
        const rf_dtype_info *t = rf_dtype_get(mx_types[k]);
        assert_int_equal(n, bytes_of(t, ROWS * COLS));
        uint8_t *got = rf_alloc(n, 1);
        assert_non_null(got);
        t->encode(x, got, ROWS * COLS, NULL);
        assert_memory_equal(got, want, n);
        rf_free(got);
        rf_free(want);
    }
    rf_free(x);
}

/* ---- properties of all encoders ---- */

static size_t encoders(const rf_dtype_info **out) {
    size_t n = 0;
    for (unsigned i = 0; i < RF_DT_COUNT; i++)
        if (rf_dtype_get((rf_dtype)i)->encode) out[n++] = rf_dtype_get((rf_dtype)i);
    return n;
}

static void the_table_of_encoders(void **state) {
    (void)state;
    const rf_dtype_info *list[RF_DT_COUNT];
    assert_int_equal(encoders(list), 25);
    assert_null(rf_dtype_get(RF_DT_I8)->encode);
    assert_null(rf_dtype_get(RF_DT_Q8_K)->encode);
}

/* What an encoder has written it writes again: no drift when a file is quantised twice. */
static void encoding_decoded_values_changes_nothing(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_F16,        RF_DT_BF16,  RF_DT_Q8_0,  RF_DT_MXFP4,
                                     RF_DT_MXFP6_E2M3, RF_DT_TQ1_0, RF_DT_TQ2_0, RF_DT_MXFP6_E3M2};
    for (size_t k = 0; k < RF_COUNT(types); k++) {
        const rf_dtype_info *t = rf_dtype_get(types[k]);
        for (int r = 0; r < ROWS; r++) {
            uint8_t first[COLS * 4], second[COLS * 4];
            float y[COLS], z[COLS];
            t->encode(weights + COLS * r, first, COLS, NULL);
            t->decode(first, y, COLS);
            t->encode(y, second, COLS, NULL);
            t->decode(second, z, COLS);
            for (int i = 0; i < COLS; i++)
                if (y[i] != z[i]) fail_msg("%s row %d element %d", t->name, r, i);
        }
    }
}

static void zeros_stay_positive_zeros(void **state) {
    (void)state;
    const rf_dtype_info *list[RF_DT_COUNT];
    size_t n = encoders(list);
    float x[256] = {0}, y[256];
    for (size_t i = 0; i < n; i++) {
        uint8_t blocks[1024];
        memset(blocks, 0xee, sizeof blocks);
        list[i]->encode(x, blocks, 256, NULL);
        list[i]->decode(blocks, y, 256);
        for (int k = 0; k < 256; k++) {
            uint32_t bits;
            memcpy(&bits, &y[k], sizeof bits);
            if (list[i]->view != RF_INT_256) assert_int_equal(bits, 0);
            assert_true(y[k] == 0);
        }
    }
}

/* Values of any size, and values that are none: the result is finite, and the same each time. */
static void any_input_gives_finite_values(void **state) {
    (void)state;
    const rf_dtype_info *list[RF_DT_COUNT];
    size_t n = encoders(list);
    uint64_t seed = 5;
    for (int round = 0; round < 60; round++) {
        float x[256], w[256], y[256];
        for (int i = 0; i < 256; i++) {
            x[i] = ldexpf(rf_test_randf(&seed), round * 5 - 148);
            w[i] = rf_test_randf(&seed); /* negative ones count as 0 */
        }
        if (round % 3 == 1) x[7] = (float)NAN;
        if (round % 3 == 2) x[9] = -(float)INFINITY, w[3] = (float)INFINITY;
        for (size_t i = 0; i < n; i++) {
            uint8_t blocks[1024], again[1024];
            if (!list[i]->is_block) continue;
            list[i]->encode(x, blocks, 256, round % 2 ? w : NULL);
            list[i]->encode(x, again, 256, round % 2 ? w : NULL);
            assert_memory_equal(blocks, again, bytes_of(list[i], 256));
            list[i]->decode(blocks, y, 256);
            for (int k = 0; k < 256; k++)
                if (!isfinite(y[k])) fail_msg("%s round %d element %d", list[i]->name, round, k);
        }
    }
}

static void half_formats_saturate(void **state) {
    (void)state;
    float x[4] = {1e30f, -65520, (float)INFINITY, 3.4028235e38f}, y[4];
    uint8_t halves[8];
    rf_dtype_get(RF_DT_F16)->encode(x, halves, 4, NULL);
    rf_dtype_get(RF_DT_F16)->decode(halves, y, 4);
    assert_true((double)y[0] == 65504 && (double)y[1] == -65504 && isinf(y[2]));
    rf_dtype_get(RF_DT_BF16)->encode(x, halves, 4, NULL);
    rf_dtype_get(RF_DT_BF16)->decode(halves, y, 4);
    assert_true(isfinite(y[3]) && isinf(y[2]));
}

/* A value that the format holds exactly in every block must come back as it is. */
static void constants_are_nearly_exact(void **state) {
    (void)state;
    const rf_dtype_info *list[RF_DT_COUNT];
    size_t n = encoders(list);
    static const float values[4] = {0.5f, -3, 1, -0.0625f};
    for (size_t i = 0; i < n; i++)
        for (int v = 0; v < 4; v++) {
            float x[256], y[256];
            uint8_t blocks[1024];
            for (int k = 0; k < 256; k++)
                x[k] = values[v];
            list[i]->encode(x, blocks, 256, NULL);
            list[i]->decode(blocks, y, 256);
            for (int k = 0; k < 256; k++)
                if (!(fabsf(y[k] - x[k]) <= 3e-4f * fabsf(x[k])))
                    fail_msg("%s: %g became %g", list[i]->name, (double)x[k], (double)y[k]);
        }
}

/* Importance lowers the error it weighs, for every format that has a choice. */
static void importance_lowers_the_weighted_error(void **state) {
    (void)state;
    const rf_dtype_info *list[RF_DT_COUNT];
    size_t n = encoders(list), n_lower = 0;
    for (size_t i = 0; i < n; i++) {
        bool has_choice = list[i]->is_block && strncmp(list[i]->name, "MX", 2) != 0 &&
                          strcmp(list[i]->name, "Q8_0") != 0;
        double blind = encoded_rmse(list[i], weights, NULL, importance);
        double aware = encoded_rmse(list[i], weights, importance, importance);
        if (has_choice ? !(aware < blind) : aware != blind)
            fail_msg("%s: weighted error %g with importance, %g without", list[i]->name, aware,
                     blind);
        n_lower += has_choice;
    }
    assert_int_equal(n_lower, 18);
}

/* Importance that says nothing (all zero, all one) is the same as none. */
static void even_importance_changes_nothing(void **state) {
    (void)state;
    const rf_dtype_info *list[RF_DT_COUNT];
    size_t n = encoders(list);
    float zeros[COLS] = {0};
    for (size_t i = 0; i < n; i++) {
        uint8_t a[COLS * 4], b[COLS * 4];
        list[i]->encode(weights, a, COLS, NULL);
        list[i]->encode(weights, b, COLS, zeros);
        assert_memory_equal(a, b, bytes_of(list[i], COLS));
    }
}

/* Neither reads nor writes a byte too many; the destination needs no alignment. */
static void stays_within_its_blocks(void **state) {
    (void)state;
    const rf_dtype_info *list[RF_DT_COUNT];
    size_t n = encoders(list);
    rf_guarded x = rf_guard(weights, 512 * sizeof *weights);
    rf_guarded w = rf_guard(importance, 512 * sizeof *importance);
    for (size_t i = 0; i < n; i++) {
        uint8_t want[4096], fill[4096];
        size_t bytes = bytes_of(list[i], 512);
        memset(fill, 0x5a, sizeof fill);
        rf_guarded out = rf_guard(fill, bytes);
        list[i]->encode(weights, want, 512, importance);
        list[i]->encode((const float *)(const void *)x.p, out.p, 512,
                        (const float *)(const void *)w.p);
        assert_memory_equal(out.p, want, bytes);
        rf_guard_free(&out);
        memset(fill, 0x5a, sizeof fill);
        list[i]->encode(weights, fill + 1, 512, importance);
        assert_int_equal(fill[0], 0x5a);
        assert_int_equal(fill[bytes + 1], 0x5a);
        assert_memory_equal(fill + 1, want, bytes);
    }
    rf_guard_free(&x);
    rf_guard_free(&w);
}

/* The searches of every instruction set find the same, to the last bit. */
static void vectors_change_nothing(void **state) {
    (void)state;
#if defined(__x86_64__)
    if (rf_isa_best() < RF_ISA_AVX2) {
        print_message("skipped: this CPU has no AVX2\n");
        skip();
    }
    const rf_enc_searches *both[2] = {&rf_enc_searches_base, &rf_enc_searches_avx2};
    static const rf_levels levels[2] = {{-32, 31, false}, {-127, 113, true}};
    for (int r = 0; r < ROWS * COLS / 256; r++) {
        rf_enc_block b;
        const float *w = r % 2 ? importance + 256 * (r / 2 % 4) : NULL;
        if (!rf_enc_load(&b, weights + 256 * r, w, 256)) continue;
        for (int k = 0; k < 2; k++) {
            rf_enc_super s[2] = {0}, a[2] = {0};
            for (int i = 0; i < 2; i++) {
                both[i]->super_scale(&b, k ? 8 : 16, -32, 31, &levels[k], &s[i]);
                both[i]->super_affine(&b, 8, 63, k ? 15 : 31, &a[i]);
            }
            assert_memory_equal(&s[0], &s[1], sizeof s[0]);
            assert_memory_equal(&a[0], &a[1], sizeof a[0]);
        }
    }
#else
    print_message("skipped: one instruction set only\n");
    skip();
#endif
}

static void keep_fit(const rf_enc_grid_fit *fit, void *dst, size_t g) {
    ((rf_enc_grid_fit *)dst)[g] = *fit;
}

/* Every vector's point is the nearest of all for its scale: compared with a plain search. */
static void points_are_the_nearest(void **state) {
    (void)state;
    static const rf_enc_grid_format f = {.four = rf_iq3s_grid,
                                         .n_points = 512,
                                         .n_subs = 8,
                                         .unit = 1,
                                         .level = {1, 3, 5, 7, 9, 11, 13, 15}};
    for (int r = 0; r < ROWS; r++) {
        rf_enc_grid_fit fit[COLS / 256];
        rf_enc_grid(&f, weights + COLS * r, COLS, importance, keep_fit, fit);
        for (int v = 0; v < COLS / 4; v++) {
            const rf_enc_grid_fit *at = &fit[v / 64];
            double d = (double)rf_half(at->d) * (2 * at->step[v % 64 / 8] + 1), best = HUGE_VAL;
            double chosen = HUGE_VAL, size = 0;
            for (int p = 0; p < 512; p++) {
                double err = 0;
                for (int i = 0; i < 4; i++) {
                    double x = fabs((double)weights[COLS * r + 4 * v + i]);
                    double e = x - d * (double)(rf_iq3s_grid[p] >> 8 * i & 255);
                    err += (double)importance[4 * v + i] * e * e;
                    size += p ? 0 : (double)importance[4 * v + i] * x * x;
                }
                if (err < best) best = err;
                if (p == at->index[v % 64]) chosen = err;
            }
            assert_true(chosen <= best * (1 + 1e-3) + 1e-5 * size);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_least_as_accurate_as_the_reference),
        cmocka_unit_test(committed_reference_is_that_of_the_blocks),
        cmocka_unit_test(mx_by_definition),
        cmocka_unit_test(mx_matches_the_golden_blocks),
        cmocka_unit_test(vectors_change_nothing),
        cmocka_unit_test(points_are_the_nearest),
        cmocka_unit_test(the_table_of_encoders),
        cmocka_unit_test(encoding_decoded_values_changes_nothing),
        cmocka_unit_test(zeros_stay_positive_zeros),
        cmocka_unit_test(any_input_gives_finite_values),
        cmocka_unit_test(half_formats_saturate),
        cmocka_unit_test(constants_are_nearly_exact),
        cmocka_unit_test(importance_lowers_the_weighted_error),
        cmocka_unit_test(even_importance_changes_nothing),
        cmocka_unit_test(stays_within_its_blocks),
    };
    return cmocka_run_group_tests(tests, load_rows, free_rows);
}
