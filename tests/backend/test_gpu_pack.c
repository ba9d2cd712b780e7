/* test_gpu_pack.c - the layout of weights on a GPU holds exactly what rf_dtype_info.unpack gives. */
#include "backend/gpu_weights.h"

static void check_group(const rf_dtype_info *info, const rf_int_group *a, const rf_int_group *b) {
    uint32_t n = info->view == RF_INT_256 ? 256 : 32;
    assert_memory_equal(a->q, b->q, n);
    assert_memory_equal(&a->d, &b->d, sizeof a->d);
    if (info->has_min) assert_memory_equal(&a->m, &b->m, sizeof a->m);
    if (info->view != RF_INT_256) return;
    for (uint32_t j = 0; j < 16; j++) {
        assert_int_equal(a->scale[j], b->scale[j]);
        if (info->has_min) assert_int_equal(a->min[j], b->min[j]);
    }
}

static void check_integers(const rf_tensor *w, const rf_gpu_layout *l, const uint8_t *block) {
    const rf_dtype_info *info = rf_dtype_get(w->type);
    uint32_t size = info->view == RF_INT_256 ? 256 : 32;
    for (uint32_t p = 0; p < w->planes; p++)
        for (uint32_t r = 0; r < w->rows; r++)
            for (uint32_t g = 0; g < w->cols / size; g++) {
                rf_int_group want, got;
                memset(&want, 0, sizeof want);
                const uint8_t *row = w->data;
                info->unpack(row + ((size_t)p * w->rows + r) * w->row_bytes, g, &want);
                rf_gpu_unpack(l, block, p, r, g, &got);
                check_group(info, &want, &got);
            }
}

static void check_floats(const rf_tensor *w, const rf_gpu_layout *l, const uint8_t *block) {
    const rf_dtype_info *info = rf_dtype_get(w->type);
    size_t n = (size_t)w->planes * w->rows * w->cols;
    if (l->form != RF_GPU_F32) {
        assert_memory_equal(block, w->data, n * 2);
        return;
    }
    float *want = rf_alloc(n, sizeof *want);
    assert_non_null(want);
    info->decode(w->data, want, n);
    assert_memory_equal(block, want, n * sizeof *want);
    rf_free(want);
}

/* req: C-04 */
static void test_every_format(void **state) {
    (void)state;
    uint64_t seed = 11;
    for (rf_dtype t = 0; t < RF_DT_COUNT; t++) {
        if (!is_weight_type(t)) continue;
        const rf_dtype_info *info = rf_dtype_get(t);
        uint32_t cols = info->is_block ? 3 * info->block_elems : 37;
        rf_tensor w = random_weight(t, 2, 35, cols, &seed);
        rf_gpu_layout l;
        uint8_t *block = packed_weight(&w, &l, true);
        if (info->view == RF_INT_NONE)
            check_floats(&w, &l, block);
        else
            check_integers(&w, &l, block);
        rf_gpu_weight at = rf_gpu_weight_at(&l, block);
        assert_true(info->has_min ? !!at.m : !at.m);
        assert_true(!info->has_min || at.off == 0); /* a kernel sums activations for one of both */
        rf_free(block);
        union {
            const void *data;
            void *memory;
        } u = {w.data};
        rf_free(u.memory);
    }
}

/* Extremes: every byte of a block the same, so -128, the largest scales and the highest bits occur. */
static void test_extremes(void **state) {
    (void)state;
    for (rf_dtype t = 0; t < RF_DT_COUNT; t++) {
        const rf_dtype_info *info = rf_dtype_get(t);
        if (!is_weight_type(t) || info->view == RF_INT_NONE) continue;
        uint8_t data[2 * 512];
        for (uint32_t byte = 0; byte < 256; byte++) {
            memset(data, (int)byte, sizeof data);
            rf_int_group g;
            info->unpack(data, 0, &g);
            if (!(fabsf(g.d) <= 1e30f)) continue; /* a NaN keeps no payload on its way */
            rf_tensor w = {.name = RF_STR("w"),
                           .type = t,
                           .cols = info->block_elems,
                           .rows = 1,
                           .planes = 1,
                           .row_bytes = info->block_bytes,
                           .data = data};
            rf_gpu_layout l;
            uint8_t *block = packed_weight(&w, &l, true);
            check_integers(&w, &l, block);
            rf_free(block);
        }
    }
}

static void test_refused(void **state) {
    (void)state;
    rf_gpu_layout l;
    rf_error e = {RF_OK, ""};
    rf_tensor w = {.name = RF_STR("odd"), .type = RF_DT_Q4_K, .cols = 100, .rows = 1, .planes = 1};
    assert_int_equal(rf_gpu_layout_of(&l, &w, &e), RF_EUNSUPPORTED);
    assert_non_null(strstr(e.text, "odd"));
    assert_non_null(strstr(e.text, "256"));
    w.type = RF_DT_I32;
    assert_int_equal(rf_gpu_layout_of(&l, &w, NULL), RF_EUNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_format),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
