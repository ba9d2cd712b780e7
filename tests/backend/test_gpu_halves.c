/* test_gpu_halves.c - products of 16-bit floats on matrix units (kernels/half.h): near an independent sum in
 * f64 of what the rule says is multiplied, and the same bits for a row however many others there are.
 *
 * Units of this kind do not add up as the CPU does, and this processor's stand-in for them not as a GPU:
 * nearness is what can be asked, of numbers as close as their chain of additions in f32 allows. */
#include "backend/weights_on_gpu.h"

#include "backend/half_rule.h"

static const rf_dtype types[] = {RF_DT_F16, RF_DT_BF16};

/* Is every output of a row near its sum? */
static void check_near(const rf_tensor *w, uint32_t plane, const float *x, const float *got) {
    const rf_dtype_info *info = rf_dtype_get(w->type);
    double *row = rf_alloc(w->cols, sizeof *row);
    float *of_w = rf_alloc(w->cols, sizeof *of_w);
    assert_true(row && of_w);
    round_row(row, x, w->cols, w->type);
    for (uint32_t r = 0; r < w->rows; r++) {
        double sum = 0, size = 0;
        size_t at = ((size_t)plane * w->rows + r) * w->row_bytes;
        info->decode((const uint8_t *)w->data + at, of_w, w->cols);
        for (uint32_t k = 0; k < w->cols; k++) {
            sum += row[k] * (double)of_w[k];
            size += fabs(row[k] * (double)of_w[k]);
        }
        /* Sixteen products at a time, each sum cut to 24 bits or one less. */
        double allowed = size * (w->cols / 16 + 2) * 0x1p-22;
        if (!(fabs((double)got[r] - sum) <= allowed))
            fail_msg("%s, %u columns, row %u: %.9g, expected %.9g within %g", info->name, w->cols,
                     r, (double)got[r], sum, allowed);
    }
    rf_free(row);
    rf_free(of_w);
}

/* args with room for so many rows of x. */
static void give_room(rf_gpu_matmul_args *args) {
    args->ahead_bytes = rf_gpu_halves_bytes(args, args->n_rows);
    assert_true(args->ahead_bytes > 0);
    args->ahead = take(args->ahead_bytes);
}

/* dst [T][rows] of one matrix; norm: RMS-normed with these weights first, or NULL. */
static float *product(const rf_tensor *w, const float *x, uint32_t T, const float *norm) {
    size_t n = (size_t)T * w->rows, n_x = (size_t)T * w->cols;
    float *got = rf_alloc(n, sizeof *got);
    assert_non_null(got);
    rf_gpu_matmul_args args = {.n_parts = 1, .n_rows = T, .x = up(x, n_x * sizeof *x)};
    args.part[0] = (rf_gpu_product){
        .w = weight_on_gpu(w), .dst = take(n * sizeof *got), .dst_stride = w->rows};
    if (norm) {
        args.norm = (rf_gpu_norm_args){.x = args.x,
                                       .w = up(norm, w->cols * sizeof *norm),
                                       .dst = take(n_x * sizeof *x),
                                       .n_items = T,
                                       .n = w->cols,
                                       .kind = RF_GPU_RMS_NORM,
                                       .eps = 1e-5f};
        args.x = args.norm.dst;
    }
    give_room(&args);
    rf_gpu_op_matmul(&queue, &args);
    down(got, args.part[0].dst, n * sizeof *got);
    give_all();
    return got;
}

static void check_same(const char *what, const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!same(a[i], b[i]))
            fail_msg("%s: number %zu is %a and %a", what, i, (double)a[i], (double)b[i]);
}

/* req: B-12.  Every kernel by its number of rows, on devices of some sizes; odd numbers of everything. */
static void test_any_company(void **state) {
    (void)state;
    static const uint32_t Ts[] = {1, 2, 8, 9, 16, 17, 33, 64, 65, 150, 300};
    static const uint32_t shapes[][2] = {{45, 200}, {16, 8}, {304, 1032}, {130, 64}, {48, 2560}};
    const uint32_t most = Ts[RF_COUNT(Ts) - 1], n_units = queue.info.n_units;
    for (size_t i = 0; i < RF_COUNT(types) * RF_COUNT(shapes); i++) {
        uint32_t rows = shapes[i / 2][0], cols = shapes[i / 2][1];
        rf_tensor w = random_weight(types[i % 2], 1, rows, cols, &seed);
        float *x = random_floats((size_t)most * cols, 3);
        for (uint32_t k = 0; k < cols; k++)
            x[cols + k] *= 1e7f; /* beyond what F16 holds */
        float *all = product(&w, x, most, NULL);
        check_near(&w, 0, x, all);
        check_near(&w, 0, x + cols, all + rows);
        check_near(&w, 0, x + (size_t)(most - 1) * cols, all + (size_t)(most - 1) * rows);
        for (size_t t = 0; t + 1 < RF_COUNT(Ts); t++) {
            queue.info.n_units = t % 2 ? n_units : 1 + (uint32_t)t; /* blocks stay, or do not */
            float *some = product(&w, x, Ts[t], NULL);
            check_same("rows in other company", all, some, (size_t)Ts[t] * rows);
            rf_free(some);
        }
        queue.info.n_units = n_units;
        rf_free(all);
        rf_free(x);
        free_tensor(&w);
    }
}

/* One row on a card with less shared memory, where blocks bring less ahead. */
static void test_little_memory(void **state) {
    (void)state;
    enum { LITTLE = 99 << 10, ROWS = 304, COLS = 1032 };
    const rf_gpu_info info = queue.info;
    for (size_t i = 0; i < RF_COUNT(types); i++) {
        rf_tensor w = random_weight(types[i], 1, ROWS, COLS, &seed);
        float *x = random_floats(COLS, 1);
        queue.info.n_units = 1;
        float *all = product(&w, x, 1, NULL);
        if (info.lds_bytes > LITTLE) queue.info.lds_bytes = LITTLE;
        memset(queue.launched, 0, sizeof queue.launched);
        float *some = product(&w, x, 1, NULL);
        assert_true(queue.launched[RF_GPU_half_one]);
        check_same("with less memory", all, some, ROWS);
        queue.info = info;
        rf_free(all);
        rf_free(some);
        rf_free(x);
        free_tensor(&w);
    }
}

/* One row that its blocks norm, and rows with a norm of their own. */
static void test_normed(void **state) {
    (void)state;
    static const uint32_t all_cols[] = {64, 1032, 4096, 4360};
    for (size_t i = 0; i < RF_COUNT(types) * RF_COUNT(all_cols); i++) {
        uint32_t cols = all_cols[i / 2], rows = 48;
        rf_tensor w = random_weight(types[i % 2], 1, rows, cols, &seed);
        float *x = random_floats((size_t)2 * cols, 2), *norm = random_floats(cols, 2);
        float *two = product(&w, x, 2, norm), *one = product(&w, x, 1, norm);
        check_same("a normed row", two, one, rows);
        norm_on_cpu(RF_GPU_RMS_NORM, x, x, norm, NULL, cols);
        check_near(&w, 0, x, one);
        rf_free(two);
        rf_free(one);
        rf_free(x);
        rf_free(norm);
        free_tensor(&w);
    }
}

/* Matrices of two formats behind one norm: none of them by the other's rule. */
static void test_mixed_formats(void **state) {
    (void)state;
    const uint32_t rows = 32, cols = 328;
    float *x = random_floats((size_t)2 * cols, 2), *norm = random_floats(cols, 2);
    rf_tensor w[2];
    for (uint32_t T = 1; T <= 2; T++) {
        size_t n = (size_t)T * rows, n_x = (size_t)T * cols;
        rf_gpu_matmul_args args = {
            .n_parts = 2,
            .n_rows = T,
        };
        args.norm = (rf_gpu_norm_args){.dst = take(n_x * sizeof *x),
                                       .x = up(x, n_x * sizeof *x),
                                       .w = up(norm, cols * sizeof *norm),
                                       .n_items = T,
                                       .n = cols,
                                       .kind = RF_GPU_RMS_NORM,
                                       .eps = 1e-5f};
        args.x = args.norm.dst;
        float *got[2];
        for (uint32_t p = 0; p < 2; p++) {
            w[p] = random_weight(types[p], 1, rows, cols, &seed);
            got[p] = rf_alloc(n, sizeof *got[p]);
            assert_non_null(got[p]);
            args.part[p] = (rf_gpu_product){
                .w = weight_on_gpu(&w[p]), .dst = take(n * sizeof *got[p]), .dst_stride = rows};
        }
        give_room(&args);
        rf_gpu_op_matmul(&queue, &args);
        for (uint32_t p = 0; p < 2; p++)
            down(got[p], args.part[p].dst, n * sizeof *got[p]);
        give_all();
        for (uint32_t p = 0; p < 2; p++) {
            float *alone = product(&w[p], x, T, norm);
            check_same("one of two formats", alone, got[p], n);
            rf_free(alone);
            rf_free(got[p]);
            free_tensor(&w[p]);
        }
    }
    rf_free(x);
    rf_free(norm);
}

/* Gate and up with what the GLU makes of them, and three matrices with bias and sum: made of the products
 * alone by the CPU's arithmetic. */
static void check_parts(rf_dtype type, uint32_t T, uint32_t rows, uint32_t cols, bool glu) {
    enum { MOST_PARTS = 3 };
    uint32_t n_parts = glu ? 2 : MOST_PARTS;
    float *x = random_floats((size_t)T * cols, 1), *alone[MOST_PARTS], *bias[MOST_PARTS];
    float *add[MOST_PARTS], *got = rf_alloc((size_t)T * (rows + 16 * MOST_PARTS), sizeof *got);
    rf_tensor w[MOST_PARTS];
    assert_non_null(got);
    for (uint32_t p = 0; p < n_parts; p++) {
        uint32_t r = glu ? rows : rows + 16 * p;
        w[p] = random_weight(type, 1, r, cols, &seed);
        bias[p] = random_floats(r, 1);
        add[p] = random_floats((size_t)T * r, 1);
        alone[p] = product(&w[p], x, T, NULL);
        for (size_t i = 0; i < (size_t)T * r; i++)
            alone[p][i] += bias[p][i % r];
        if (!glu) cpu->add(alone[p], add[p], alone[p], (size_t)T * r);
    }
    if (glu) cpu->glu(RF_ACT_SILU, alone[0], alone[0], alone[1], (size_t)T * rows);
    rf_gpu_matmul_args args = {.n_parts = n_parts,
                               .n_rows = T,
                               .is_glu = glu,
                               .act = RF_ACT_SILU,
                               .x = up(x, (size_t)T * cols * sizeof *x)};
    for (uint32_t p = 0; p < n_parts; p++) {
        size_t n = (size_t)T * w[p].rows * sizeof(float);
        args.part[p] = (rf_gpu_product){.w = weight_on_gpu(&w[p]),
                                        .bias = up(bias[p], w[p].rows * sizeof(float)),
                                        .add = glu ? NULL : up(add[p], n),
                                        .dst = take(n),
                                        .dst_stride = w[p].rows};
    }
    give_room(&args);
    rf_gpu_op_matmul(&queue, &args);
    for (uint32_t p = 0; p < (glu ? 1 : n_parts); p++) {
        down(got, args.part[p].dst, (size_t)T * w[p].rows * sizeof *got);
        check_same(glu ? "gate and up" : "matrices side by side", alone[p], got,
                   (size_t)T * w[p].rows);
    }
    for (uint32_t p = 0; p < n_parts; p++) {
        rf_free(alone[p]);
        rf_free(bias[p]);
        rf_free(add[p]);
        free_tensor(&w[p]);
    }
    rf_free(x);
    rf_free(got);
    give_all();
}

static void test_parts(void **state) {
    (void)state;
    static const uint32_t Ts[] = {1, 5, 12, 40, 140};
    for (size_t i = 0; i < RF_COUNT(types) * RF_COUNT(Ts); i++) {
        check_parts(types[i % 2], Ts[i / 2], 72, 328, true);
        check_parts(types[i % 2], Ts[i / 2], 41, 328, false);
        check_parts(types[i % 2], Ts[i / 2], 48, 328, false);
    }
}

/* A matrix per head, and per chosen expert, alone and with its rows together. */
static void check_planes(rf_dtype type, uint32_t mode, uint32_t T, bool per_used) {
    const uint32_t n_planes = 5, n_used = 2, rows = 48, cols = 200;
    bool by_route = mode == RF_GPU_MM_EXPERTS;
    uint32_t each = by_route ? n_used : n_planes, n_x = by_route && !per_used ? T : T * each;
    rf_tensor w = random_weight(type, n_planes, rows, cols, &seed);
    float *x = random_floats((size_t)n_x * cols, 1), *route = random_route(T, n_planes, n_used);
    size_t n = (size_t)T * each * rows;
    float *got = rf_alloc(n, sizeof *got);
    assert_non_null(got);
    rf_gpu_matmul_args args = {.n_parts = 1,
                               .n_rows = T,
                               .mode = mode,
                               .n_used = n_used,
                               .x_per_used = per_used,
                               .route = up(route, (size_t)T * 2 * n_used * sizeof *route),
                               .x = up(x, (size_t)n_x * cols * sizeof *x)};
    args.part[0] =
        (rf_gpu_product){.w = weight_on_gpu(&w), .dst = take(n * sizeof *got), .dst_stride = rows};
    if (by_route) {
        rf_gpu_lists_args lists = {args.route, take(rf_gpu_lists_bytes(T, n_used, n_planes)), T,
                                   n_used, n_planes};
        rf_gpu_op_lists(&queue, &lists);
        args.lists = lists.lists;
    }
    give_room(&args);
    rf_gpu_op_matmul(&queue, &args);
    down(got, args.part[0].dst, n * sizeof *got);
    give_all();
    const uint32_t apart = T > 30 ? 7 : 1; /* of those that are compared */
    for (uint32_t i = 0; i < T * each; i += apart) {
        uint32_t t = i / each, plane = i % each;
        if (by_route) plane = (uint32_t)route[(2 * t + 1) * n_used + i % each];
        const float *row = x + (size_t)(by_route && !per_used ? t : i) * cols;
        rf_tensor alone = w;
        alone.planes = 1;
        alone.data = (const uint8_t *)w.data + (size_t)plane * rows * w.row_bytes;
        float *want = product(&alone, row, 1, NULL);
        check_same("a matrix of several", want, got + (size_t)i * rows, rows);
        rf_free(want);
    }
    rf_free(x);
    rf_free(route);
    rf_free(got);
    free_tensor(&w);
}

static void test_planes(void **state) {
    (void)state;
    static const uint32_t Ts[] = {1, 3, 30, 100, 170};
    const uint32_t n_units = queue.info.n_units;
    for (size_t i = 0; i < RF_COUNT(types) * RF_COUNT(Ts); i++) {
        queue.info.n_units = Ts[i / 2] > 30 ? 1 : n_units; /* large blocks */
        check_planes(types[i % 2], RF_GPU_MM_HEADS, Ts[i / 2], false);
        check_planes(types[i % 2], RF_GPU_MM_EXPERTS, Ts[i / 2], false);
        check_planes(types[i % 2], RF_GPU_MM_EXPERTS, Ts[i / 2], true);
    }
    queue.info.n_units = n_units;
}

/* What is no number reaches the outputs of its row, and no others. */
static void test_specials(void **state) {
    (void)state;
    const uint32_t rows = 20, cols = 72;
    static const float specials[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < RF_COUNT(types) * RF_COUNT(specials); i++) {
        rf_tensor w = random_weight(types[i % 2], 1, rows, cols, &seed);
        float *x = random_floats((size_t)3 * cols, 1);
        x[cols + 7] = specials[i / 2];
        for (uint32_t T = 2; T <= 3; T++) {
            float *got = product(&w, x, T, NULL);
            check_near(&w, 0, x, got);
            for (uint32_t r = 0; r < rows; r++)
                assert_true(!isfinite(got[rows + r]));
            rf_free(got);
        }
        rf_free(x);
        free_tensor(&w);
    }
}

/* The product; false: no kernel of this rule made it. */
static bool product_by(const rf_tensor *w, const float *x, uint32_t T, float **got) {
    bool any = false;
    memset(queue.launched, 0, sizeof queue.launched);
    *got = product(w, x, T, NULL);
    for (int k = RF_GPU_half_rows; k <= RF_GPU_half_wide_256; k++)
        any = any || queue.launched[k];
    return any;
}

/* Whichever kernel is left out, another one makes the same bits, or none of them makes any. */
static void test_left_out(void **state) {
    (void)state;
    static const struct {
        uint32_t T;
        rf_gpu_kernel on_amd;
    } cases[] = {{1, RF_GPU_half_one},
                 {2, RF_GPU_half_wave_16},
                 {20, RF_GPU_half_wave_32},
                 {40, RF_GPU_half_wave_64},
                 {150, RF_GPU_half_tile}};
    const uint32_t rows = 80, cols = 1304, n_units = queue.info.n_units;
    bool is_amd = strncmp(queue.info.arch, "gfx", 3) == 0;
    for (size_t i = 0; i < RF_COUNT(types) * RF_COUNT(cases); i++) {
        uint32_t T = cases[i / 2].T;
        rf_tensor w = random_weight(types[i % 2], 1, rows, cols, &seed);
        float *x = random_floats((size_t)T * cols, 1), *all, *some;
        queue.info.n_units = 1;
        assert_true(product_by(&w, x, T, &all));
        if (is_amd) assert_true(queue.launched[cases[i / 2].on_amd]);
        if (T == 1) assert_false(queue.launched[RF_GPU_half_rows]); /* one launch */
        check_near(&w, 0, x, all);
        for (int k = RF_GPU_half_rows; k <= RF_GPU_half_wide_256; k++) {
            if (!queue.function[k]) continue;
            queue.left_out[k] = true;
            if (product_by(&w, x, T, &some))
                check_same("without a kernel", all, some, (size_t)T * rows);
            assert_false(queue.launched[k]);
            queue.left_out[k] = false;
            rf_free(some);
        }
        queue.info.n_units = n_units;
        rf_free(all);
        rf_free(x);
        free_tensor(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_company), cmocka_unit_test(test_little_memory),
        cmocka_unit_test(test_normed),      cmocka_unit_test(test_mixed_formats),
        cmocka_unit_test(test_parts),       cmocka_unit_test(test_planes),
        cmocka_unit_test(test_specials),    cmocka_unit_test(test_left_out),
    };
    return cmocka_run_group_tests(tests, open_fast, close_device);
}
