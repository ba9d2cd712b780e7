/* test_gpu_products.c - the GPU's products of activations and weights, of every format and number of rows, experts' among
 * them, against the scalar kernels of the CPU backend: equal bits. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/gpu/put.h"
#include "backend/gpu/tile.h"
#include "backend/ints_on_gpu.h"
#include "backend/weights_on_gpu.h"

typedef struct product_case {
    rf_dtype type;
    uint32_t rows, cols, T;
    bool bias, add;
    uint32_t n_parts;
    bool glu;
    size_t ahead;  /* bytes of room for digits made ahead */
    bool kept;     /* those of weights are there, */
    bool unfit;    /* or cannot be */
    bool normed;   /* the rows are yet to be normed */
    bool wild;     /* some stretches of x are very large, or very small */
    bool floats;   /* x is in floats for certain, else now and then */
    rf_dtype last; /* not F32: type of the last part */
} product_case;

/* dst [T][rows] on the CPU for one plane of w, rows of x chosen by the caller. */
static void product_on_cpu(const rf_tensor *w, uint32_t plane, const float *bias, const float *x,
                           uint32_t T, float *dst) {
    rf_tensor one = *w;
    one.planes = 1;
    one.data = (const uint8_t *)w->data + (size_t)plane * w->rows * w->row_bytes;
    rf_int_view view = rf_dtype_get(w->type)->view;
    size_t n = (size_t)T * w->cols;
    int8_t *q = rf_alloc(n, 1);
    float *d = rf_alloc(n / 32 + 1, sizeof *d);
    int32_t *sum = rf_alloc(n / 16 + 1, sizeof *sum);
    float *total = rf_alloc(n / 32 + 1, sizeof *total);
    void *scratch = rf_alloc(rf_mm_scratch_bytes(T, w->cols), 1);
    assert_true(q && d && sum && total && scratch);
    if (view == RF_INT_32) cpu->quant_32(x, n, q, d, sum);
    if (view == RF_INT_256) cpu->quant_256(x, n, q, d, sum);
    for (size_t t = 0, of_row = w->cols / 32; view == RF_INT_32 && t < T; t++)
        rf_mm_totals(d + t * of_row, sum + t * of_row, of_row, total + t * of_row);
    rf_mm_input in = {.view = view,
                      .n_rows = T,
                      .n_cols = w->cols,
                      .x = x,
                      .q = q,
                      .d = d,
                      .sum = sum,
                      .total = total};
    rf_mm mm = {.w = &one,
                .bias = bias ? bias + (size_t)plane * w->rows : NULL,
                .act = &in,
                .dst = dst,
                .dst_stride = w->rows};
    cpu->matmul(&mm, 0, w->rows, scratch);
    rf_free(q);
    rf_free(d);
    rf_free(sum);
    rf_free(total);
    rf_free(scratch);
}

static bool now_and_then(void) { return rf_test_rand(&seed) % 2; }

/* The input of a product on the device, in the view that the type asks for, or in floats with room for that
 * view. */
static void product_input(rf_gpu_matmul_args *args, const float *x, uint32_t n_rows, uint32_t cols,
                          rf_dtype type, bool in_floats) {
    rf_int_view view = rf_dtype_get(type)->view;
    ints v = make_ints(x, n_rows, cols, view);
    if (view == RF_INT_NONE) {
        args->x = up(x, (size_t)n_rows * cols * sizeof *x);
    } else if (in_floats) {
        args->x = up(x, (size_t)n_rows * cols * sizeof *x);
        args->xq = v.gpu;
    } else {
        rf_gpu_upload(&queue, v.gpu.q, v.in.q, (size_t)n_rows * cols);
        rf_gpu_upload(&queue, v.gpu.d, v.in.d, d_count(&v.in) * sizeof(float));
        rf_gpu_upload(&queue, v.gpu.sum, v.in.sum, sum_count(&v.in) * sizeof(int32_t));
        check_queue();
        args->xq = v.gpu;
    }
    free_ints(&v);
}

/* Rows that become the input by a norm, which x is replaced with. */
static void normed_input(rf_gpu_matmul_args *args, float *x, uint32_t n_rows, uint32_t cols,
                         rf_dtype type) {
    rf_int_view view = rf_dtype_get(type)->view;
    float *w = random_floats(cols, 2);
    args->norm = (rf_gpu_norm_args){.x = up(x, (size_t)n_rows * cols * sizeof *x),
                                    .w = rf_test_rand(&seed) % 4 ? up(w, cols * sizeof *w) : NULL,
                                    .n_items = n_rows,
                                    .n = cols,
                                    .kind = RF_GPU_RMS_NORM,
                                    .eps = 1e-5f};
    for (uint32_t r = 0; r < n_rows; r++)
        norm_on_cpu(RF_GPU_RMS_NORM, x + (size_t)r * cols, x + (size_t)r * cols,
                    args->norm.w ? w : NULL, NULL, cols);
    ints v = make_ints(x, n_rows, cols, view);
    if (view == RF_INT_NONE)
        args->x = args->norm.dst = take((size_t)n_rows * cols * sizeof *x);
    else
        args->xq = v.gpu;
    if (view == RF_INT_32) args->norm.q32 = v.gpu;
    if (view == RF_INT_256) args->norm.q256 = v.gpu;
    free_ints(&v);
    rf_free(w);
}

/* Every seventh of the first rows' groups of 32 by 2^20, the next one by 2^-30, of other rows none. */
static void make_wild(float *x, uint32_t n_rows, uint32_t cols) {
    for (uint32_t r = 0; r < (n_rows < 140 ? n_rows : 140); r++)
        for (uint32_t k = 0; k < cols; k++)
            if ((k / 32 + r) % 7 < 2)
                x[(size_t)r * cols + k] *= (k / 32 + r) % 7 ? 0x1p-30f : 0x1p20f;
}

/* What is kept of the weights, unless these do not fit. */
static void keep(rf_gpu_matmul_args *a, bool unfit) {
    const uint32_t fits = 0, fits_not = 1;
    uint64_t n = rf_gpu_kept_bytes(&queue, a);
    if (n == 0) return;
    a->kept = take(n);
    a->unfit = up(&fits, sizeof fits);
    rf_gpu_op_keep(&queue, a);
    check_bytes("unfit", unfit ? &fits_not : &fits, a->unfit, sizeof fits);
    if (unfit) a->kept = NULL;
}

static void check_product(const product_case *c) {
    char what[80];
    rf_tensor w[3];
    float *bias[3], *add[3], *want[3];
    float *x = random_floats((size_t)c->T * c->cols, 2);
    rf_gpu_matmul_args args = {
        .n_parts = c->n_parts, .n_rows = c->T, .is_glu = c->glu, .ahead_bytes = c->ahead};
    if (c->ahead) args.ahead = take(c->ahead);
    if (c->wild) make_wild(x, c->T, c->cols);
    if (c->normed)
        normed_input(&args, x, c->T, c->cols, c->type);
    else
        product_input(&args, x, c->T, c->cols, c->type, c->floats || now_and_then());
    for (uint32_t p = 0; p < c->n_parts; p++) {
        uint32_t rows = c->glu ? c->rows : c->rows + 3 * p;
        size_t n = (size_t)c->T * rows;
        rf_dtype type = p + 1 == c->n_parts && c->last ? c->last : c->type;
        w[p] = random_weight(type, 1, rows, c->cols, &seed);
        if (c->kept && !c->unfit && type == RF_DT_Q8_0)
            without_128((uint8_t *)(uintptr_t)w[p].data, rows * w[p].row_bytes);
        bias[p] = random_floats(rows, 1);
        add[p] = random_floats(n, 1);
        want[p] = random_floats(n, 1);
        product_on_cpu(&w[p], 0, c->bias ? bias[p] : NULL, x, c->T, want[p]);
        if (c->add) cpu->add(want[p], add[p], want[p], n);
        args.part[p] = (rf_gpu_product){.w = weight_on_gpu(&w[p]),
                                        .bias = c->bias ? up(bias[p], rows * sizeof(float)) : NULL,
                                        .add = c->add ? up(add[p], n * sizeof(float)) : NULL,
                                        .dst = take(n * sizeof(float)),
                                        .dst_stride = rows};
    }
    if (c->glu) cpu->glu(RF_ACT_SILU, want[0], want[0], want[1], (size_t)c->T * c->rows);
    if (c->kept) keep(&args, c->unfit);
    rf_gpu_op_matmul(&queue, &args);
    for (uint32_t p = 0; p < c->n_parts; p++) {
        snprintf(what, sizeof what, "%s [%u][%u] x %u, part %u", rf_dtype_get(c->type)->name,
                 w[p].rows, c->cols, c->T, p);
        if (p == 0 || !c->glu)
            check_floats(what, want[p], args.part[p].dst, (size_t)c->T * w[p].rows);
        free_tensor(&w[p]);
        rf_free(bias[p]);
        rf_free(add[p]);
        rf_free(want[p]);
    }
    rf_free(x);
    give_all();
}

/* Columns of n groups, or blocks where those are longer. */
static uint32_t cols_of(rf_dtype t, uint32_t n) {
    const rf_dtype_info *info = rf_dtype_get(t);
    if (!info->is_block) return 16 * n + 5;
    uint32_t size = info->view == RF_INT_256 ? 256 : 32;
    return (n * size + info->block_elems - 1) / info->block_elems * info->block_elems;
}

static void test_products(void **state) {
    (void)state;
    static const uint32_t Ts[] = {1, 2, 3, 4, 5, 8, 9, 16, 33, 40, 70};
    uint32_t k = 0;
    for (rf_dtype t = 0; t < RF_DT_COUNT; t++) {
        if (!is_weight_type(t)) continue;
        for (size_t i = 0; i < RF_COUNT(Ts); i++, k++) {
            product_case c = {.type = t,
                              .rows = k % 3 == 0   ? 70
                                      : k % 3 == 1 ? 32
                                                   : 5,
                              .cols = cols_of(t, k % 4 == 0 ? 19 : 1 + k % 9),
                              .T = Ts[i],
                              .bias = k % 2,
                              .add = k % 5 < 2,
                              .n_parts = 1};
            check_product(&c);
        }
        product_case c = {.type = t, .rows = 40, .cols = cols_of(t, 3), .T = 3, .n_parts = 3};
        check_product(&c);
        c = (product_case){.type = t,
                           .rows = 37,
                           .cols = cols_of(t, 5),
                           .T = 2,
                           .bias = true,
                           .n_parts = 2,
                           .glu = true};
        check_product(&c);
        c.T = 66;
        c.bias = false;
        check_product(&c);
    }
}

/* So few weight rows, and so long, that a block has a part of a tile; in one round or some. */
static void test_few_products(void **state) {
    (void)state;
    uint32_t n_units = queue.info.n_units, k = 0;
    queue.info.n_units = 20;
    for (rf_dtype t = 0; t < RF_DT_COUNT; t++) {
        if (!is_weight_type(t) || rf_dtype_get(t)->view == RF_INT_NONE) continue;
        uint32_t n_round = rf_dtype_get(t)->view == RF_INT_256 ? 16 : 64; /* groups */
        for (uint32_t i = 0; i < 4; i++, k++) {
            product_case c = {.type = t,
                              .rows = 29 + 5 * (k % 7),
                              .cols =
                                  cols_of(t, i == 3 ? 5 * n_round : n_round * i / 2 + 1 + k % 13),
                              .T = 1,
                              .bias = k % 2,
                              .add = k % 3 == 0,
                              .n_parts = 1 + k % 2};
            check_product(&c);
        }
    }
    queue.info.n_units = n_units;
}

/* Do blocks of one row of 16-bit floats in the canonical order norm it?  NVIDIA's have other copies on their way then. */
static bool float_one_norms(void) {
    return !is_nvidia(&queue) && !queue.left_out[RF_GPU_float_one];
}

/* One row is normed by the products' kernel itself, whose blocks take tiles in turns where they are few. */
static void test_normed_products(void **state) {
    (void)state;
    static const uint32_t rows[] = {40, 5, 300, 1000};
    uint32_t n_units = queue.info.n_units, k = 0;
    for (rf_dtype t = 0; t < RF_DT_COUNT; t++) {
        if (!is_weight_type(t)) continue;
        for (uint32_t i = 0; i < 6; i++, k++) {
            product_case c = {.type = t,
                              .rows = rows[k % RF_COUNT(rows)],
                              .cols = cols_of(t, i == 5 ? 40 : 1 + k % 11),
                              .T = i == 4 ? 3 : 1,
                              .bias = k % 2,
                              .add = k % 3 == 0,
                              .n_parts = i % 3 + 1,
                              .glu = i == 1,
                              .normed = true};
            bool is_alone = c.T == 1 && rf_dtype_get(t)->view != RF_INT_NONE &&
                            c.cols <= RF_GPU_NORMED_COLS && !queue.left_out[RF_GPU_normed_32_40];
            queue.info.n_units = 1 + k % 2;
            forget_norms();
            check_product(&c);
            if (is_alone) assert_false(has_normed());
        }
    }
    static const uint32_t cols[] = {8, 40, 264, 896, 4096, 4112, 9000};
    for (uint32_t i = 0; i < 2 * RF_COUNT(cols); i++) { /* 16-bit floats in the canonical order */
        product_case c = {.type = i % 2 ? RF_DT_F16 : RF_DT_BF16,
                          .rows = rows[i % RF_COUNT(rows)],
                          .cols = cols[i / 2],
                          .T = 1,
                          .bias = i % 4 == 1,
                          .add = i % 3 == 0,
                          .n_parts = 1 + i % 3,
                          .glu = i % 3 == 1,
                          .normed = true};
        forget_norms();
        check_product(&c);
        if (float_one_norms() || c.n_parts > 1) /* one matrix of few rows is a router's */
            assert_int_equal(has_normed(), !float_one_norms());
        if (c.n_parts < 3) continue;
        c.last = i % 2 ? RF_DT_BF16 : RF_DT_F16; /* not in one launch */
        check_product(&c);
        assert_true(has_normed());
    }
    for (uint32_t i = 0; i < 8; i++) { /* two layouts in one launch, or in none */
        static const rf_dtype types[][2] = {{RF_DT_Q4_K, RF_DT_Q6_K},
                                            {RF_DT_Q5_K, RF_DT_Q6_K},
                                            {RF_DT_Q6_K, RF_DT_Q4_K},
                                            {RF_DT_Q4_K, RF_DT_Q5_K}};
        product_case c = {.type = types[i % 4][0],
                          .rows = rows[i % 3],
                          .cols = 256 * (1 + 3 * i),
                          .T = 1,
                          .bias = i % 2,
                          .n_parts = 2 + i / 4,
                          .normed = true,
                          .last = types[i % 4][1]};
        forget_norms();
        check_product(&c);
        assert_int_equal(has_normed(), i % 4 == 3);
    }
    queue.info.n_units = n_units;
}

/* Scores of one row that is yet to be normed, by a kernel that also writes the row for others, or of a long row by one that
 * does not. */
static void check_scores(rf_dtype type, uint32_t rows, uint32_t cols, bool special) {
    size_t n = cols * sizeof(float);
    float *x = random_floats(cols, 2), *y = random_floats(cols, 1), *w = random_floats(cols, 2);
    float *bias = random_floats(rows, 1), *want = random_floats(rows, 1);
    if (special) add_specials(x, cols);
    norm_on_cpu(RF_GPU_RMS_NORM, y, x, rows % 3 ? w : NULL, NULL, cols);
    ints a = make_ints(y, 1, cols, cols % 32 ? RF_INT_NONE : RF_INT_32);
    ints b = make_ints(y, 1, cols, cols % 256 ? RF_INT_NONE : RF_INT_256);
    rf_tensor m = random_weight(type, 1, rows, cols, &seed);
    product_on_cpu(&m, 0, rows % 2 ? bias : NULL, y, 1, want);
    rf_gpu_choose_args all = {.matmul = {.n_parts = 1, .n_rows = 1}};
    rf_gpu_matmul_args *args = &all.matmul;
    args->norm = (rf_gpu_norm_args){.dst = take(n),
                                    .x = up(x, n),
                                    .w = rows % 3 ? up(w, n) : NULL,
                                    .q32 = a.gpu,
                                    .q256 = b.gpu,
                                    .n_items = 1,
                                    .n = cols,
                                    .kind = RF_GPU_RMS_NORM,
                                    .eps = 1e-5f};
    args->x = args->norm.dst;
    args->part[0] = (rf_gpu_product){.w = weight_on_gpu(&m),
                                     .bias = rows % 2 ? up(bias, rows * sizeof *bias) : NULL,
                                     .dst = take(rows * sizeof *want),
                                     .dst_stride = rows};
    forget_norms();
    assert_int_equal(rf_gpu_takes_along(&queue, &all), cols <= RF_GPU_ROUTER_COLS);
    rf_gpu_op_matmul(&queue, args);
    check_floats("scores", want, args->part[0].dst, rows);
    bool is_for_itself =
        cols > RF_GPU_ROUTER_COLS && cols % 8 == 0 && type != RF_DT_F32 && float_one_norms();
    if (!is_for_itself) {
        check_floats("the normed row", y, args->norm.dst, cols);
        if (a.in.q) check_ints(&a);
        if (b.in.q) check_ints(&b);
    }
    assert_int_equal(has_normed(), cols > RF_GPU_ROUTER_COLS && !is_for_itself);
    free_ints(&a);
    free_ints(&b);
    free_tensor(&m);
    rf_free(x);
    rf_free(y);
    rf_free(w);
    rf_free(bias);
    rf_free(want);
    give_all();
}

static void test_scores(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_F32, RF_DT_F16, RF_DT_BF16};
    static const uint32_t cols[] = {1, 15, 37, 75, 256, 300, 2048, 2880, 3331, 4096, 4104};
    static const uint32_t rows[] = {128, 7, 1, 30};
    uint32_t n_units = queue.info.n_units;
    queue.info.n_units = 4;
    for (size_t i = 0; i < RF_COUNT(types); i++)
        for (size_t k = 0; k < RF_COUNT(cols); k++)
            check_scores(types[i], rows[(i + k) % RF_COUNT(rows)], cols[k], k == 7);
    queue.info.n_units = n_units;
}

/* So many weight rows that one activation row has a kernel of its own. */
static void test_tall_products(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_Q4_0, RF_DT_Q5_0, RF_DT_Q8_0, RF_DT_Q2_K,  RF_DT_Q3_K,
                                     RF_DT_Q4_K, RF_DT_Q5_K, RF_DT_Q6_K, RF_DT_IQ4_XS};
    for (size_t i = 0; i < RF_COUNT(types); i++) {
        product_case c = {
            .type = types[i], .rows = 8230, .cols = cols_of(types[i], 2), .T = 1, .n_parts = 1};
        check_product(&c);
    }
}

/* Kernels of which the device has all or none are launched where it has them. */
static void assert_launched(const rf_gpu_kernel *kernels, size_t n) {
    for (size_t i = 0; i < n; i++)
        assert_int_equal(queue.launched[kernels[i]], queue.function[kernels[i]] != NULL);
}

/* The kernels for some activation rows, all that are not of experts. */
enum { FIRST_BATCH = RF_GPU_batch_256_40_low_8, LAST_BATCH = RF_GPU_batch_32_41_minima_tall_64 };
static void leave_out_batch(bool is_out) {
    for (uint32_t k = FIRST_BATCH; k <= LAST_BATCH; k++)
        queue.left_out[k] = is_out;
}

/* So many activation rows that whole blocks of them have a kernel of their own. */
static void test_wide_products(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_Q4_K, RF_DT_Q5_K, RF_DT_Q6_K};
    static const rf_gpu_kernel kernels[] = {RF_GPU_wide_256_40, RF_GPU_wide_256_41,
                                            RF_GPU_wide_256_42};
    memset(queue.launched, 0, sizeof queue.launched);
    uint32_t n_units = queue.info.n_units;
    queue.info.n_units = 1; /* few blocks are enough */
    leave_out_batch(true);  /* which would do it, too */
    for (size_t i = 0; i < RF_COUNT(types); i++) {
        product_case c = {.type = types[i], .rows = 150, .cols = 256, .T = 65, .n_parts = 3};
        check_product(&c);
        c = (product_case){.type = types[i], .rows = 130, .cols = 1280, .T = 130, .n_parts = 1};
        c.bias = c.add = true;
        check_product(&c);
        c = (product_case){.type = types[i], .rows = 70, .cols = 1024, .T = 72, .n_parts = 2};
        c.glu = true;
        check_product(&c);
    }
    assert_launched(kernels, RF_COUNT(kernels));
    leave_out_batch(false);
    queue.info.n_units = n_units;
}

/* What is kept of one tile, of which either half is a block's. */
static void check_low(rf_dtype type) {
    bool is_256 = rf_dtype_get(type)->view == RF_INT_256;
    uint32_t n_units = queue.info.n_units;
    product_case c = {.type = type, .rows = 110, .T = 250, .n_parts = 1};
    c.cols = cols_of(type, is_256 ? 5 : 41);
    c.kept = c.bias = c.add = true;
    c.ahead = (size_t)2 << 20;
    queue.info.n_units = 4;
    check_product(&c);
    c.wild = !is_256;
    if (c.wild) check_product(&c);
    c = (product_case){.type = type, .rows = 60, .T = 80, .n_parts = 2, .kept = true, .glu = true};
    c.ahead = (size_t)2 << 20;
    queue.info.n_units = 3;
    c.cols = cols_of(type, is_256 ? 1 : 8);
    check_product(&c);
    c.cols = cols_of(type, is_256 ? 2 : 22);
    check_product(&c);
    queue.info.n_units = n_units;
}

/* What is kept of groups of 32: whole turns of columns and less, rows that are no whole tiles, activations that f16 does not
 * hold, weights that cannot be kept. */
static void check_kept_32(rf_dtype type) {
    product_case c = {.type = type, .rows = 150, .cols = cols_of(type, 41), .T = 257, .n_parts = 3};
    c.kept = true;
    c.ahead = (size_t)8 << 20;
    c.last = RF_DT_Q6_K;
    if (c.cols % 256 != 0) c.last = type == RF_DT_Q8_0 ? RF_DT_Q4_0 : RF_DT_Q8_0;
    check_product(&c);
    c.unfit = type == RF_DT_Q8_0;
    if (c.unfit) check_product(&c);
    c = (product_case){
        .type = type, .rows = 170, .cols = cols_of(type, 32), .T = 256, .n_parts = 2};
    c.kept = c.glu = c.floats = true;
    c.ahead = (size_t)8 << 20;
    check_product(&c);
    c.wild = true;
    check_product(&c);
    check_low(type);
}

/* Digits of weights that are there for some activation rows and for many, of two layouts side by side. */
static void check_kept(rf_dtype type) {
    product_case c = {.type = type, .rows = 150, .cols = 768, .T = 90, .n_parts = 3, .kept = true};
    c.ahead = (size_t)2 << 20;
    c.last = type == RF_DT_Q6_K ? RF_DT_Q4_K : RF_DT_Q6_K;
    check_product(&c);
    c = (product_case){
        .type = type, .rows = 170, .cols = 512, .T = 258, .n_parts = 2, .kept = true};
    c.ahead = (size_t)2 << 20;
    c.glu = c.floats = true;
    check_product(&c);
    check_low(type);
}

/* So many that the digits or integers of weights are made ahead: all at once, and in room for two tiles of them;
 * groups of 32 also in columns that are no whole stages, and with activations that f16 does not hold. */
static void check_ahead(rf_dtype type) {
    bool is_256 = rf_dtype_get(type)->view == RF_INT_256;
    product_case c = {.type = type, .rows = 150, .cols = cols_of(type, 1), .T = 257, .n_parts = 3};
    c.ahead = (size_t)2 << 20;
    check_product(&c);
    size_t of_rows = is_256 ? rf_ahead_x_bytes(RF_WIDE_SCALES) : RF_GROUPS_X_BYTES,
           of_tile = is_256 ? rf_ahead_w_bytes(RF_WIDE_SCALES) : 0;
    uint32_t cols = cols_of(type, is_256 ? 5 : 40),
             n_stages = (cols - 1) / (is_256 ? 256 : RF_GROUPS_COLS) + 1;
    c = (product_case){.type = type, .rows = 300, .cols = cols, .T = 258, .n_parts = 1};
    c.bias = c.add = true;
    c.ahead = n_stages * (3 * of_rows + 2 * of_tile);
    if (!is_256) c.ahead += 3 * ((n_stages + 3) / 4 * 4 + (n_stages + 1) / 2 * RF_MINIMA_X_BYTES);
    check_product(&c);
    c = (product_case){.type = type, .rows = 170, .cols = cols_of(type, 4), .T = 256, .n_parts = 2};
    c.glu = true;
    c.ahead = (size_t)8 << 20;
    check_product(&c);
    if (is_256) {
        check_kept(type);
        return;
    }
    check_kept_32(type);
    c = (product_case){
        .type = type, .rows = 128, .cols = cols_of(type, 29), .T = 256, .n_parts = 1};
    c.ahead = (size_t)8 << 20;
    check_product(&c);
    c.wild = true;
    if (type != RF_DT_Q8_0 && type != RF_DT_Q5_1) return;
    check_product(&c);
    c.floats = true;
    check_product(&c);
}

static void test_ahead_products(void **state) {
    (void)state;
    memset(queue.launched, 0, sizeof queue.launched);
    uint32_t n_units = queue.info.n_units;
    queue.info.n_units = 2; /* blocks go from tile to tile */
    for (rf_dtype t = 0; t < RF_DT_COUNT; t++)
        if (is_weight_type(t) && rf_dtype_get(t)->view != RF_INT_NONE) check_ahead(t);
    queue.info.n_units = n_units;
    for (uint32_t k = RF_GPU_digits_256_20; k <= RF_GPU_wide_32_80; k++)
        assert_int_equal(queue.launched[k], queue.function[k] != NULL);
}

/* Three tiles for two multiprocessors: two in whole, one in halves. */
static void test_ahead_cut(void **state) {
    (void)state;
    static const struct {
        rf_dtype type;
        rf_gpu_kernel whole, low;
    } cases[] = {{RF_DT_Q4_K, RF_GPU_ahead_scales, RF_GPU_ahead_low_scales},
                 {RF_DT_Q8_0, RF_GPU_wide_32_kept, RF_GPU_wide_32_kept_low}};
    uint32_t n_units = queue.info.n_units;
    queue.info.n_units = 2;
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        product_case c = {.type = cases[i].type, .rows = 300, .cols = 4096, .T = 70, .n_parts = 1};
        c.kept = true;
        c.ahead = (size_t)8 << 20;
        memset(queue.launched, 0, sizeof queue.launched);
        check_product(&c);
        assert_int_equal(queue.launched[cases[i].whole], queue.function[cases[i].whole] != NULL);
        assert_int_equal(queue.launched[cases[i].low], queue.function[cases[i].low] != NULL);
    }
    queue.info.n_units = n_units;
}

/* Columns, some fewer of formats in groups of 32, whose last slot is not full then. */
static uint32_t cols_less(rf_dtype t, uint32_t cols, uint32_t fewer) {
    return rf_dtype_get(t)->view == RF_INT_32 ? cols - fewer : cols;
}

/* Some activation rows, over more groups of columns than are on their way together; the last of more than 64 in a
 * launch of their own, where the device is small. */
static void test_batch_products(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_Q4_K,    RF_DT_Q5_K,  RF_DT_Q6_K,  RF_DT_Q2_K,
                                     RF_DT_Q3_K,    RF_DT_IQ3_S, RF_DT_IQ1_S, RF_DT_IQ4_XS,
                                     RF_DT_IQ3_XXS, RF_DT_Q4_0,  RF_DT_Q5_0,  RF_DT_MXFP4,
                                     RF_DT_Q8_0,    RF_DT_Q4_1,  RF_DT_Q5_1};
    static const uint32_t Ts[] = {2, 6, 12, 24, 50, 65, 120, 150, 255};
    uint32_t n_units = queue.info.n_units;
    for (size_t i = 0; i < RF_COUNT(types) * RF_COUNT(Ts); i++) {
        product_case c = {.type = types[i / RF_COUNT(Ts)], .T = Ts[i % RF_COUNT(Ts)], .n_parts = 1};
        if (c.T > 64 && !queue.function[FIRST_BATCH]) continue; /* as tests of tiles */
        c.rows = 37; /* low blocks of few activation rows, and of all; then middle and tall ones */
        c.cols = cols_less(c.type, 4352, 64);
        check_product(&c);
        queue.info.n_units = 2; /* few blocks are enough */
        check_product(&c);
        queue.info.n_units = 1;
        c.bias = c.add = true;
        c.rows = 60;
        c.cols = cols_less(c.type, 2304, 128);
        check_product(&c);
        c.cols = cols_less(c.type, 256, 192);
        check_product(&c);
        c.rows = 210;
        c.cols = 2304;
        check_product(&c);
        c = (product_case){.type = c.type, .rows = 100, .T = c.T, .n_parts = 2, .glu = true};
        c.cols = cols_less(c.type, 1280, 64);
        check_product(&c);
        c.rows = 30;
        check_product(&c);
        queue.info.n_units = n_units;
        c.n_parts = 3;
        c.glu = false;
        check_product(&c);
    }
}

/* Each of those kernels, whatever the device would rather take. */
static void test_each_batch_kernel(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_Q4_K, RF_DT_Q5_K,  RF_DT_Q6_K,   RF_DT_Q2_K,
                                     RF_DT_Q3_K, RF_DT_IQ3_S, RF_DT_IQ4_XS, RF_DT_Q4_0,
                                     RF_DT_Q5_0, RF_DT_Q8_0,  RF_DT_Q4_1,   RF_DT_Q5_1};
    static const uint32_t Ts[RF_BATCH_WIDTHS] = {6, 12, 24, 50};
    enum { EACH = 12 };
    uint32_t n_units = queue.info.n_units;
    queue.info.n_units = 1; /* a larger one leaves out middle blocks that do not fill it */
    assert_int_equal(LAST_BATCH - FIRST_BATCH + 1, EACH * RF_COUNT(types));
    for (uint32_t k = FIRST_BATCH; k <= LAST_BATCH; k++) {
        if (!queue.function[k]) continue;
        leave_out_batch(true);
        queue.left_out[k] = false;
        queue.launched[k] = false;
        const rf_dtype type = types[(k - FIRST_BATCH) / EACH];
        const product_case c = {.type = type,
                                .T = Ts[(k - FIRST_BATCH) % RF_BATCH_WIDTHS],
                                .rows = 250,
                                .cols = cols_less(type, 1280, 192),
                                .n_parts = 1,
                                .bias = true,
                                .add = true};
        check_product(&c);
        assert_true(queue.launched[k]);
    }
    leave_out_batch(false);
    queue.info.n_units = n_units;
}

/* Floats in rows of whole vectors, over more columns than are on their way together. */
static void test_float_products(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_F32, RF_DT_F16, RF_DT_BF16};
    static const uint32_t Ts[] = {1, 2, 4, 7, 12, 27, 40};
    static const uint32_t all_cols[] = {1032, 8, 2560, 200, 64, 888};
    uint32_t n_units = queue.info.n_units, k = 0;
    for (size_t i = 0; i < RF_COUNT(types) * RF_COUNT(Ts); i++) {
        product_case c = {.type = types[i / RF_COUNT(Ts)], .T = Ts[i % RF_COUNT(Ts)], .n_parts = 1};
        c.rows = k % 2 ? 70 : 33;
        c.cols = all_cols[k++ % RF_COUNT(all_cols)];
        check_product(&c);
        queue.info.n_units = k % 3 + 1; /* what blocks have on their way */
        c.bias = c.add = true;
        c.cols = all_cols[k++ % RF_COUNT(all_cols)];
        check_product(&c);
        c = (product_case){.type = c.type, .rows = 40, .T = c.T, .n_parts = 2, .glu = true};
        c.cols = all_cols[k++ % RF_COUNT(all_cols)];
        check_product(&c);
        queue.info.n_units = n_units;
        c.n_parts = 3;
        c.glu = false;
        check_product(&c);
    }
}

/* NaNs and infinities in the activations reach the same outputs. */
static void test_product_specials(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_Q4_K, RF_DT_Q8_0, RF_DT_F16};
    static const uint32_t Ts[] = {1, 1, 2, 67};
    for (size_t i = 0; i < RF_COUNT(types); i++)
        for (size_t t = 0; t < RF_COUNT(Ts); t++) {
            uint32_t T = Ts[t];
            uint32_t cols = cols_of(types[i], 4);
            float *x = random_floats((size_t)T * cols, 2), *want = random_floats((size_t)T * 33, 1);
            add_specials(x, cols);
            rf_tensor w = random_weight(types[i], 1, 33, cols, &seed);
            product_on_cpu(&w, 0, NULL, x, T, want);
            rf_gpu_matmul_args args = {.n_parts = 1, .n_rows = T};
            product_input(&args, x, T, cols, types[i], now_and_then());
            args.part[0] = (rf_gpu_product){.w = weight_on_gpu(&w),
                                            .dst = take((size_t)T * 33 * sizeof(float)),
                                            .dst_stride = 33};
            rf_gpu_op_matmul(&queue, &args);
            check_floats("specials", want, args.part[0].dst, (size_t)T * 33);
            free_tensor(&w);
            rf_free(x);
            rf_free(want);
            give_all();
        }
}

/* A matrix per head. */
static void test_head_products(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_F32, RF_DT_BF16, RF_DT_Q8_0, RF_DT_Q4_K, RF_DT_Q6_K};
    for (size_t i = 0; i < RF_COUNT(types); i++)
        for (uint32_t T = 1; T <= 67; T += 33) {
            uint32_t n_heads = 3, rows = 45, cols = cols_of(types[i], 2);
            size_t n = (size_t)T * n_heads * rows;
            rf_tensor w = random_weight(types[i], n_heads, rows, cols, &seed);
            float *x = random_floats((size_t)T * n_heads * cols, 1), *want = random_floats(n, 1);
            for (size_t r = 0; r < (size_t)T * n_heads; r++)
                product_on_cpu(&w, (uint32_t)(r % n_heads), NULL, x + r * cols, 1, want + r * rows);
            rf_gpu_matmul_args args = {.n_parts = 1, .n_rows = T, .mode = RF_GPU_MM_HEADS};
            product_input(&args, x, T * n_heads, cols, types[i], now_and_then());
            args.part[0] = (rf_gpu_product){
                .w = weight_on_gpu(&w), .dst = take(n * sizeof(float)), .dst_stride = rows};
            rf_gpu_op_matmul(&queue, &args);
            check_floats("matrices of heads", want, args.part[0].dst, n);
            free_tensor(&w);
            rf_free(x);
            rf_free(want);
            give_all();
        }
}

/* The same products with their mix, and something added; of: the products, [T][n_used][rows]. */
static void check_mixed(rf_gpu_matmul_args *args, const float *x, const float *route,
                        const float *of) {
    uint32_t T = args->n_rows, n_used = args->n_used, rows = args->part[0].w.rows;
    size_t n = (size_t)T * rows, n_x = (size_t)T * args->part[0].w.cols;
    float *add = random_floats(n, 1), *want = rf_alloc(n, sizeof *want);
    for (uint32_t i = 0; i < T * n_used; i++)
        cpu->add_scaled(want + (size_t)(i / n_used) * rows, of + (size_t)i * rows,
                        route[(size_t)i / n_used * 2 * n_used + i % n_used], rows);
    cpu->add(want, add, want, n);
    if (args->xq.q) args->x = up(x, n_x * (args->x_per_used ? n_used : 1) * sizeof *x);
    args->mixed = take(n * sizeof *want);
    args->mixed_add = up(add, n * sizeof *add);
    rf_gpu_op_matmul(&queue, args);
    check_floats("mix of experts", want, args->mixed, n);
    rf_free(add);
    rf_free(want);
}

static void check_experts(rf_dtype type, uint32_t cols, uint32_t T, bool per_used, bool with_lists,
                          bool glu) {
    uint32_t n_experts = 7, n_used = T == 3 ? 5 : 2, rows = 41;
    size_t n_items = (size_t)T * n_used, n = n_items * rows;
    float *x = random_floats((per_used ? n_items : T) * cols, 1);
    float *route = random_route(T, n_experts, n_used);
    float *bias = random_floats((size_t)n_experts * rows, 1), *want[2];
    rf_tensor w[2];
    rf_gpu_matmul_args args = {.n_parts = glu ? 2 : 1,
                               .n_rows = T,
                               .mode = RF_GPU_MM_EXPERTS,
                               .is_glu = glu,
                               .act = RF_ACT_SWIGLU_OAI,
                               .route = up(route, n_items * 2 * sizeof *route),
                               .n_used = n_used,
                               .x_per_used = per_used};
    rf_gpu_lists_args lists = {args.route, NULL, T, n_used, n_experts};
    if (with_lists) {
        args.lists = lists.lists = take(rf_gpu_lists_bytes(T, n_used, n_experts));
        rf_gpu_op_lists(&queue, &lists);
    }
    product_input(&args, x, per_used ? T * n_used : T, cols, type, now_and_then());
    float *bias_up = up(bias, (size_t)n_experts * rows * sizeof *bias);
    for (uint32_t p = 0; p < args.n_parts; p++) {
        w[p] = random_weight(type, n_experts, rows, cols, &seed);
        want[p] = random_floats(n, 1);
        for (size_t i = 0; i < n_items; i++) {
            uint32_t expert = (uint32_t)route[(i / n_used * 2 + 1) * n_used + i % n_used];
            product_on_cpu(&w[p], expert, bias, x + (per_used ? i : i / n_used) * cols, 1,
                           want[p] + i * rows);
        }
        args.part[p] = (rf_gpu_product){.w = weight_on_gpu(&w[p]),
                                        .bias = bias_up,
                                        .dst = take(n * sizeof(float)),
                                        .dst_stride = rows};
    }
    if (glu) cpu->glu(RF_ACT_SWIGLU_OAI, want[0], want[0], want[1], n);
    rf_gpu_op_matmul(&queue, &args);
    check_floats("experts", want[0], args.part[0].dst, n);
    if (!glu) check_mixed(&args, x, route, want[0]);
    for (uint32_t p = 0; p < args.n_parts; p++) {
        free_tensor(&w[p]);
        rf_free(want[p]);
    }
    rf_free(x);
    rf_free(route);
    rf_free(bias);
    give_all();
}

/* So many rows of each expert that Hopper's kernel of very many rows has them. */
static void test_wide_experts(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_Q4_K, RF_DT_Q5_K, RF_DT_Q6_K};
    uint32_t n_units = queue.info.n_units;
    queue.info.n_units = 1; /* few blocks are enough */
    for (size_t i = 0; i < RF_COUNT(types); i++)
        for (int k = 0; k < 4; k++)
            check_experts(types[i], 768, 300 + 150 * (uint32_t)i, k & 1, true, k & 2);
    queue.info.n_units = n_units;
}

static void test_experts(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_F16, RF_DT_Q5_1, RF_DT_Q4_K, RF_DT_Q6_K, RF_DT_MXFP4};
    static const uint32_t Ts[] = {1, 3, 30, 70};
    for (size_t i = 0; i < RF_COUNT(types); i++)
        for (size_t t = 0; t < RF_COUNT(Ts); t++)
            for (int k = 0; k < 8; k++)
                check_experts(types[i], cols_of(types[i], 3), Ts[t], k & 1, k & 2, k & 4);
}

/* So few rows of each expert that NVIDIA's small blocks have them. */
static void test_small_experts(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_Q4_K,  RF_DT_Q5_K,    RF_DT_Q6_K, RF_DT_Q2_K, RF_DT_Q3_K,
                                     RF_DT_IQ3_S, RF_DT_IQ4_XS,  RF_DT_Q4_0, RF_DT_Q5_0, RF_DT_Q8_0,
                                     RF_DT_MXFP4, RF_DT_IQ3_XXS, RF_DT_Q4_1, RF_DT_Q5_1};
    for (size_t i = 0; i < RF_COUNT(types); i++)
        for (int k = 0; k < 4; k++)
            check_experts(types[i], cols_less(types[i], 768, 64), 12, k & 1, true, k & 2);
    for (uint32_t k = RF_GPU_batch_256_40_small_8; k <= RF_GPU_batch_32_41_minima_small_8; k++)
        assert_int_equal(queue.launched[k], queue.function[k] != NULL);
}

/* Scores of kinds that are hard to put in order. */
enum { FAR, TIES, NEAR, STEPS, NONE_LEFT, SOME_NANS, ALL_NANS, SCORES };

static void set_scores(float *s, uint32_t n, int kind) {
    for (uint32_t i = 0; i < n; i++) {
        uint64_t r = rf_test_rand(&seed);
        if (kind == TIES) s[i] = (float)(r % 4);
        if (kind == NEAR) s[i] = r % 4 ? (float)(r / 4 % 9) * -0x1p-24f : -1.0f;
        if (kind == STEPS) s[i] = (float)(i * 37 % n) * -0x1p-15f; /* no two alike, 3e-5 apart */
        if (kind == NONE_LEFT && r % 8) s[i] = r % 16 ? -INFINITY : -1e4f;
        if ((kind == SOME_NANS && r % 9 == 0) || kind == ALL_NANS) s[i] = NAN;
    }
}

/* What the route's own kernel makes of the scores; the CPU's order of NaNs is another. */
static void route_of(const rf_gpu_choose_args *a, const rf_router *r, const float *scores,
                     float *out, int kind) {
    rf_gpu_route_args args = a->route;
    args.dst = take(2 * r->n_used * sizeof *out);
    rf_gpu_op_route(&queue, &args);
    check_queue();
    rf_gpu_download(&queue, out, args.dst, 2 * r->n_used * sizeof *out);
    rf_gpu_wait(&queue);
    if (kind == SOME_NANS) return;
    float *want = rf_alloc(2 * r->n_used, sizeof *want);
    rf_cpu_route(r, scores, want);
    check_floats("route", want, args.dst, 2 * r->n_used);
    rf_free(want);
}

/* One row's products with experts that the blocks choose themselves. */
static void check_choice(rf_dtype type, rf_router r, int kind, bool glu) {
    uint32_t n_experts = r.n_experts, n_used = r.n_used, rows = 21 + n_used,
             cols = cols_of(type, 3);
    size_t n = (size_t)n_used * rows, n_bias = (size_t)n_experts * rows;
    float *x = random_floats(cols, 1), *scores = random_floats(n_experts, 6);
    float *bias = random_floats(n_bias, 1), *select = random_floats(n_experts, 1);
    float *route = random_floats(2 * n_used, 1), *want[2];
    rf_tensor w[2];
    set_scores(scores, n_experts, kind);
    rf_gpu_choose_args args = {.matmul = {.n_parts = glu ? 2 : 1,
                                          .n_rows = 1,
                                          .mode = RF_GPU_MM_EXPERTS,
                                          .is_glu = glu,
                                          .act = RF_ACT_SILU,
                                          .n_used = n_used},
                               .route = {.scores = up(scores, n_experts * sizeof *scores),
                                         .n_rows = 1,
                                         .n_experts = n_experts,
                                         .n_used = n_used,
                                         .kind = (uint32_t)r.kind,
                                         .normalise = r.normalise,
                                         .scale = r.scale}};
    if (r.select_bias) {
        r.select_bias = select;
        args.route.select_bias = up(select, n_experts * sizeof *select);
    }
    route_of(&args, &r, scores, route, kind);
    float *made = take(2 * n_used * sizeof *made), *bias_up = up(bias, n_bias * sizeof *bias);
    args.matmul.route = args.route.dst = made;
    product_input(&args.matmul, x, 1, cols, type, now_and_then());
    for (uint32_t p = 0; p < args.matmul.n_parts; p++) {
        w[p] = random_weight(type, n_experts, rows, cols, &seed);
        want[p] = random_floats(n, 1);
        for (uint32_t i = 0; i < n_used; i++)
            product_on_cpu(&w[p], (uint32_t)route[n_used + i], bias, x, 1, want[p] + i * rows);
        args.matmul.part[p] = (rf_gpu_product){.w = weight_on_gpu(&w[p]),
                                               .bias = bias_up,
                                               .dst = take(n * sizeof(float)),
                                               .dst_stride = rows};
    }
    if (glu) cpu->glu(RF_ACT_SILU, want[0], want[0], want[1], n);
    assert_true(rf_gpu_takes_along(&queue, &args));
    rf_gpu_op_choose(&queue, &args);
    check_floats("route of the chosen", route, made, 2 * n_used);
    check_floats("chosen experts", want[0], args.matmul.part[0].dst, n);
    for (uint32_t p = 0; p < args.matmul.n_parts; p++) {
        free_tensor(&w[p]);
        rf_free(want[p]);
    }
    rf_free(x);
    rf_free(scores);
    rf_free(bias);
    rf_free(select);
    rf_free(route);
    give_all();
}

static void test_choice(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_Q4_0, RF_DT_Q5_0, RF_DT_Q8_0, RF_DT_Q2_K,  RF_DT_Q3_K,
                                     RF_DT_Q4_K, RF_DT_Q5_K, RF_DT_Q6_K, RF_DT_IQ4_XS};
    static const uint32_t sizes[][2] = {{128, 8}, {60, 4}, {9, 3}, {127, 13}, {32, 4}, {65, 6}};
    static const float some_bias; /* stands for a bias of the choice */
    uint32_t k = 0;
    for (int router = RF_ROUTER_SOFTMAX; router <= RF_ROUTER_SIGMOID; router++)
        for (int kind = FAR; kind < SCORES; kind++)
            for (int with_bias = 0; with_bias < 2; with_bias++, k++) {
                const rf_router r = {.kind = (rf_router_kind)router,
                                     .n_experts = sizes[k % RF_COUNT(sizes)][0],
                                     .n_used = sizes[k % RF_COUNT(sizes)][1],
                                     .n_groups = 0,
                                     .normalise = k % 3 != 0,
                                     .scale = k % 2 ? 1.0f : 2.5f,
                                     .select_bias = with_bias ? &some_bias : NULL};
                check_choice(types[k % RF_COUNT(types)], r, kind, k % 5 != 0);
            }
    const rf_router qwen3 = {
        .kind = RF_ROUTER_SOFTMAX, .n_experts = 128, .n_used = 8, .normalise = true, .scale = 1.0f};
    for (int kind = FAR; kind <= STEPS; kind++)
        for (int i = 0; i < 3; i++)
            check_choice(RF_DT_Q4_K, qwen3, kind, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),        cmocka_unit_test(test_product_specials),
        cmocka_unit_test(test_normed_products), cmocka_unit_test(test_scores),
        cmocka_unit_test(test_few_products),    cmocka_unit_test(test_tall_products),
        cmocka_unit_test(test_wide_products),   cmocka_unit_test(test_ahead_products),
        cmocka_unit_test(test_ahead_cut),       cmocka_unit_test(test_wide_experts),
        cmocka_unit_test(test_batch_products),  cmocka_unit_test(test_each_batch_kernel),
        cmocka_unit_test(test_float_products),  cmocka_unit_test(test_head_products),
        cmocka_unit_test(test_experts),         cmocka_unit_test(test_small_experts),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
