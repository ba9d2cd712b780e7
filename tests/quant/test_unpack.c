/* test_unpack.c - the integer view says the same as decode(), within the rounding of float32. */
#include <float.h>
#include <math.h>
#include <string.h>

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

static size_t group_elems(const rf_dtype_info *info) { return info->view == RF_INT_256 ? 256 : 32; }

/* |q| <= 127; only a byte that no quantiser writes gives -128, in the formats of whole int8. */
static void check_range(rf_dtype t, const rf_int_group *grp, size_t n, bool *negative) {
    const rf_dtype_info *info = rf_dtype_get(t);
    int least = t == RF_DT_Q8_0 || t == RF_DT_Q8_K ? -128 : -127;
    for (size_t i = 0; i < n; i++) {
        if (grp->q[i] < least) fail_msg("%s: q[%zu] is %d", info->name, i, grp->q[i]);
        *negative |= grp->q[i] < 0;
    }
    if (info->has_min) return;
    assert_true((double)grp->m == 0);
    for (int k = 0; info->view == RF_INT_256 && k < 16; k++)
        assert_int_equal(grp->min[k], 0);
}

/* Three roundings at most (scale, product, sum), each half a unit in its last place. */
static bool agree(const rf_int_group *grp, bool by_256, size_t i, float w) {
    double scale = by_256 ? grp->scale[i / 16] : 1, min = by_256 ? grp->min[i / 16] : 1;
    double product = (double)grp->d * scale * grp->q[i], shift = (double)grp->m * min;
    double slack = (fabs(product) + fabs(shift)) * 2 * (double)FLT_EPSILON + 0x1p-149;
    return fabs((double)w - (product + shift)) <= slack;
}

/* Compares the groups of n_blocks blocks; returns how many had finite values only. */
static size_t check_blocks(rf_dtype t, const uint8_t *blocks, size_t n_blocks, bool *negative) {
    const rf_dtype_info *info = rf_dtype_get(t);
    size_t n = n_blocks * info->block_elems, size = group_elems(info), n_finite = 0;
    float *w = (float *)rf_alloc(n, sizeof *w);
    assert_non_null(w);
    info->decode(blocks, w, n);
    for (size_t g = 0; g < n / size; g++) {
        rf_int_group grp;
        memset(&grp, 0x5a, sizeof grp);
        info->unpack(blocks, g, &grp);
        bool finite = isfinite(grp.d) && isfinite(grp.m);
        for (size_t i = 0; i < size; i++)
            finite = finite && isfinite(w[g * size + i]);
        if (!finite) continue;
        check_range(t, &grp, size, negative);
        for (size_t i = 0; i < size; i++)
            if (!agree(&grp, info->view == RF_INT_256, i, w[g * size + i]))
                fail_msg("%s group %zu element %zu: decoded %g, but q %d, d %g, m %g", info->name,
                         g, i, (double)w[g * size + i], grp.q[i], (double)grp.d, (double)grp.m);
        n_finite++;
    }
    rf_free(w);
    return n_finite;
}

static void golden_blocks(void **state) {
    (void)state;
    size_t n_types = 0;
    for (size_t k = 0; k < n_goldens; k++) {
        const golden *g = &goldens[k];
        if (g->info->view == RF_INT_NONE) continue;
        bool negative = false;
        size_t n_groups = g->n_elems / group_elems(g->info);
        size_t n_finite = check_blocks(g->type, g->blocks, g->n_blocks, &negative);
        /* Only huge scales of the MX formats overflow float32; everything else is finite. */
        bool mx = g->type == RF_DT_MXFP4 || g->type == RF_DT_MXFP6_E2M3;
        assert_true(mx ? n_finite * 4 >= n_groups * 3 : n_finite == n_groups);
        assert_int_equal(negative, !g->info->is_nonneg);
        n_types++;
    }
    assert_int_equal(n_types, 26);
}

static void random_blocks(void **state) {
    (void)state;
    enum { N = 400 };
    uint64_t seed = 256;
    for (unsigned t = 0; t < RF_DT_COUNT; t++) {
        const rf_dtype_info *info = rf_dtype_get((rf_dtype)t);
        if (info->view == RF_INT_NONE) continue;
        uint8_t *blocks = (uint8_t *)rf_alloc(N, info->block_bytes);
        assert_non_null(blocks);
        for (size_t i = 0; i < (size_t)N * info->block_bytes; i++)
            blocks[i] = (uint8_t)rf_test_rand(&seed);
        bool negative = false;
        assert_true(check_blocks((rf_dtype)t, blocks, N, &negative) > N / 2);
        assert_int_equal(negative, !info->is_nonneg);
        rf_free(blocks);
    }
}

/* req: C-15: the last group of a row that ends where memory ends, and rows at odd addresses. */
static void any_address_will_do(void **state) {
    (void)state;
    for (size_t k = 0; k < n_goldens; k++) {
        const golden *g = &goldens[k];
        if (g->info->view == RF_INT_NONE) continue;
        size_t bytes = 3 * g->info->block_bytes, elems = group_elems(g->info);
        size_t last = 3 * g->info->block_elems / elems - 1;
        uint8_t *odd = (uint8_t *)rf_alloc(bytes + 1, 1);
        assert_non_null(odd);
        memcpy(odd + 1, g->blocks, bytes);
        rf_guarded src = rf_guard(g->blocks, bytes);
        rf_int_group a, b, c;
        memset(&a, 0, sizeof a);
        b = c = a;
        g->info->unpack(g->blocks, last, &a);
        g->info->unpack(src.p, last, &b);
        g->info->unpack(odd + 1, last, &c);
        assert_memory_equal(&a, &b, sizeof a);
        assert_memory_equal(&a, &c, sizeof a);
        rf_guard_free(&src);
        rf_free(odd);
    }
}

/* The views that the contract of the CPU backend names. */
static void views_are_as_agreed(void **state) {
    (void)state;
    static const rf_dtype by_32[] = {
        RF_DT_Q4_0,   RF_DT_Q4_1,  RF_DT_Q5_0, RF_DT_Q5_1, RF_DT_Q8_0,
        RF_DT_IQ4_NL, RF_DT_MXFP4, RF_DT_Q1_0, RF_DT_Q2_0, RF_DT_MXFP6_E2M3,
    };
    static const rf_dtype shifted[] = {RF_DT_Q4_1, RF_DT_Q5_1, RF_DT_Q2_K, RF_DT_Q4_K, RF_DT_Q5_K};
    static const rf_dtype floats[] = {
        RF_DT_F32,        RF_DT_F16, RF_DT_BF16, RF_DT_F64, RF_DT_Q8_1, RF_DT_NVFP4,
        RF_DT_MXFP6_E3M2, RF_DT_I8,  RF_DT_I16,  RF_DT_I32, RF_DT_I64,
    };
    rf_int_view expected[RF_DT_COUNT];
    bool is_shifted[RF_DT_COUNT] = {false};
    for (unsigned t = 0; t < RF_DT_COUNT; t++)
        expected[t] = RF_INT_256;
    for (size_t i = 0; i < RF_COUNT(by_32); i++)
        expected[by_32[i]] = RF_INT_32;
    for (size_t i = 0; i < RF_COUNT(floats); i++)
        expected[floats[i]] = RF_INT_NONE;
    for (size_t i = 0; i < RF_COUNT(shifted); i++)
        is_shifted[shifted[i]] = true;
    for (unsigned t = 0; t < RF_DT_COUNT; t++) {
        const rf_dtype_info *info = rf_dtype_get((rf_dtype)t);
        assert_int_equal(info->view, expected[t]);
        assert_int_equal(info->has_min, is_shifted[t]);
        assert_int_equal(info->is_nonneg, is_shifted[t]);
        size_t group = group_elems(info); /* a block holds whole groups */
        if (info->view != RF_INT_NONE) assert_int_equal(info->block_elems % group, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_blocks),
        cmocka_unit_test(random_blocks),
        cmocka_unit_test(any_address_will_do),
        cmocka_unit_test(views_are_as_agreed),
    };
    return cmocka_run_group_tests(tests, load_all, free_all);
}
