/* test_mm.c - matrix products: every format, every level of instructions this CPU has, one result.
 *
 * The expectation is a plain reading of docs/arithmetic.md written here; a second one, in double
 * over the decoded weights, bounds what quantising the activations may cost.  Weights, activations
 * and scratch end at unreadable pages.  RF_TEST_SMALL leaves out some of the lengths, for emulated processors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "base/fmath.h"
#include "lib/testlib.h"
#include "quant/blocks.h"

#define SENTINEL -12345.5f

enum { MAX_T = 51, MAX_ROWS = 67, MAX_COLS = 2304 };

/* ---- inputs ---- */

static bool usable(const rf_dtype_info *info, const uint8_t *block) {
    float w[256];
    info->decode(block, w, info->block_elems);
    for (uint32_t i = 0; i < info->block_elems; i++)
        if (!(fabsf(w[i]) <= 1e9f)) return false;
    return true;
}

/* Any bytes that decode to moderate numbers; the first rows are made of one byte, for extremes
 * (-128, the largest scales). */
static void fill_block(const rf_dtype_info *info, uint8_t *p, size_t row, uint64_t *seed) {
    static const uint8_t patterns[] = {0x80, 0x7b, 0xfb, 0x3f};
    if (row < RF_COUNT(patterns)) {
        memset(p, patterns[row], info->block_bytes);
        if (usable(info, p)) return;
    }
    do {
        for (uint32_t i = 0; i < info->block_bytes; i++)
            p[i] = (uint8_t)(rf_test_rand(seed) >> 40);
    } while (!usable(info, p));
}

static void put_scalar(rf_dtype t, uint8_t *p, float f) {
    uint16_t h = t == RF_DT_BF16 ? rf_f32_to_bf16(f) : rf_f32_to_f16(f);
    double d = (double)f;
    if (t == RF_DT_F32)
        memcpy(p, &f, sizeof f);
    else if (t == RF_DT_F64)
        memcpy(p, &d, sizeof d);
    else
        memcpy(p, &h, sizeof h);
}

/* A weight [rows][cols]; the bytes end at a guard page. */
static rf_tensor make_weight(rf_dtype t, uint32_t rows, uint32_t cols, uint64_t seed,
                             rf_guarded *guard) {
    const rf_dtype_info *info = rf_dtype_get(t);
    size_t row_bytes;
    assert_true(rf_dtype_bytes(t, cols, &row_bytes));
    uint8_t *bytes = rf_alloc(rows, row_bytes);
    assert_non_null(bytes);
    for (size_t r = 0; r < rows; r++)
        for (size_t b = 0; b < cols / info->block_elems; b++) {
            uint8_t *p = bytes + r * row_bytes + b * info->block_bytes;
            if (info->is_block)
                fill_block(info, p, r, &seed);
            else
                put_scalar(t, p, rf_test_randf(&seed));
        }
    *guard = rf_guard(bytes, rows * row_bytes);
    rf_free(bytes);
    return (rf_tensor){.name = RF_STR("w"),
                       .type = t,
                       .cols = cols,
                       .rows = rows,
                       .planes = 1,
                       .row_bytes = row_bytes,
                       .data = guard->p};
}

/* Activations [MAX_T][cols]: full scale, alternating, zero, sparse and random rows. */
static float *make_x(uint32_t cols, uint64_t seed) {
    float *x = rf_alloc((size_t)MAX_T * cols, sizeof *x);
    assert_non_null(x);
    for (size_t t = 0; t < MAX_T; t++)
        for (size_t k = 0; k < cols; k++) {
            float f = rf_test_randf(&seed);
            if (t == 1) f = 3.0f;
            if (t == 2) f = k % 2 ? 0.25f : -0.25f;
            if (t == 3) f = 0;
            if (t == 4 && k % 37) f = 0;
            x[t * cols + k] = f;
        }
    return x;
}

typedef struct act_memory {
    rf_guarded x, q, d, sum, total, blocks;
    rf_mm_input act;
} act_memory;

/* As the engine lays activations out for kernels that want it. */
static void lay_out(act_memory *m, const rf_cpu_kernels *k) {
    uint32_t n_rows = m->act.n_rows;
    if (!rf_act_wants_blocks(k, m->act.view, n_rows)) return;
    size_t bytes = rf_act_n_blocks(m->act.view, n_rows);
    bytes *= rf_act_block_bytes(m->act.view, m->act.n_cols);
    uint8_t *garbage = rf_alloc(bytes, 1);
    assert_non_null(garbage);
    memset(garbage, 0xff, bytes);
    m->blocks = rf_guard(garbage, bytes);
    m->act.blocks = (uint8_t *)m->blocks.p;
    for (uint32_t end = m->act.n_cols, begin; end > 0;
         end = begin) { /* strip by strip, from the last one on */
        begin = (end - 1) / 256 * 256;
        rf_act_lay_out(k, &m->act, 0, n_rows, begin, end);
    }
    rf_free(garbage);
}

/* Quantised by the kernels of k; each array ends at a guard page. */
static void make_act(act_memory *m, const rf_cpu_kernels *k, rf_int_view view, const float *x,
                     uint32_t n_rows, uint32_t cols) {
    memset(m, 0, sizeof *m);
    m->act = (rf_mm_input){.view = view, .n_rows = n_rows, .n_cols = cols};
    size_t n = (size_t)n_rows * cols, group = view == RF_INT_256 ? 256 : 32;
    m->x = rf_guard(x, n * sizeof *x);
    m->act.x = (const float *)(const void *)m->x.p;
    if (view == RF_INT_NONE) {
        lay_out(m, k);
        return;
    }
    float *d = rf_alloc(n / group, sizeof *d);
    int32_t *sum = rf_alloc(n / 16, sizeof *sum);
    assert_true(d && sum);
    m->q = rf_guard(x, n);
    m->d = rf_guard(d, n / group * sizeof *d);
    m->sum = rf_guard(sum, n / (view == RF_INT_256 ? 16 : 32) * sizeof *sum);
    if (view == RF_INT_32) m->total = rf_guard(d, n / 32 * sizeof *d);
    m->act.q = (int8_t *)(void *)m->q.p;
    m->act.d = (float *)(void *)m->d.p;
    m->act.sum = (int32_t *)(void *)m->sum.p;
    m->act.total = (float *)(void *)m->total.p;
    (view == RF_INT_32 ? k->quant_32 : k->quant_256)(m->act.x, n, m->act.q, m->act.d, m->act.sum);
    for (size_t t = 0, of_row = cols / 32; view == RF_INT_32 && t < n_rows; t++)
        rf_mm_totals(m->act.d + t * of_row, m->act.sum + t * of_row, of_row,
                     m->act.total + t * of_row);
    lay_out(m, k);
    rf_free(d);
    rf_free(sum);
}

static void free_act(act_memory *m) {
    rf_guarded *all[] = {&m->x, &m->q, &m->d, &m->sum, &m->total, &m->blocks};
    for (size_t i = 0; i < RF_COUNT(all); i++)
        if (all[i]->p) rf_guard_free(all[i]);
}

/* ---- docs/arithmetic.md, read plainly ---- */

/* The scale of a group whose largest |x| is amax, up to four significant bits for one of 32, and what multiplies x. */
static float model_scale(float *d, float amax, size_t size) {
    int e;
    *d = size == 256 ? amax / 127 : amax * (float)(1.0 / 127);
    if (size == 256) return amax > 0 ? 127 / amax : 0;
    if (isfinite(*d)) {
        (void)frexpf(*d, &e);
        if (e < -125) e = -125; /* subnormal */
        *d = ldexpf(ceilf(ldexpf(*d, 4 - e)), e - 4);
    }
    return *d > 0 ? 1 / *d : 0;
}

/* Up to eight numbers as multiples of 2^(e - less), where 2^e is in the largest; e is `least` at least. */
static void model_steps(double v[8], size_t n, int less, int least) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(v[i]));
    int e;
    (void)frexp(most, &e);
    e = most > 0 && e - 1 > least ? e - 1 : least;
    for (size_t i = 0; i < n; i++)
        v[i] = ldexp(rint(ldexp(v[i], less - e)), e - less);
}

/* What minima m add for the groups that share steps with totals t. */
static double model_minima(double m[8], double t[8], size_t n) {
    model_steps(m, n, 10, -14);
    model_steps(t, n, 9, -90);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += m[i] * t[i];
    return sum;
}

static float model_ints(const rf_dtype_info *info, const uint8_t *row, const float *x, size_t n) {
    size_t size = info->view == RF_INT_256 ? 256 : 32;
    float acc = 0;
    double minima[8], totals[8];
    for (size_t g = 0; g < n / size; g++) {
        rf_int_group w;
        info->unpack(row, g, &w);
        float amax = 0;
        for (size_t k = 0; k < size; k++)
            amax = fmaxf(amax, fabsf(x[g * size + k]));
        float xd, id = model_scale(&xd, amax, size);
        int32_t i = 0, m = 0;
        for (size_t k = 0; k < size; k++) {
            int q = (int)fminf(127, fmaxf(-127, rintf(x[g * size + k] * id)));
            i += w.q[k] * q * (size == 256 ? w.scale[k / 16] : 1);
            m += q * (size == 256 ? w.min[k / 16] : 1);
        }
        acc = fmaf((float)i, w.d * xd, acc);
        if (info->has_min && size == 256) acc = fmaf((float)m, w.m * xd, acc);
        minima[g % 8] = (double)w.m;
        totals[g % 8] = m * (double)xd;
        if (info->has_min && size == 32 && (g % 8 == 7 || g == n / size - 1))
            acc += (float)model_minima(minima, totals, g % 8 + 1);
    }
    return acc;
}

static float model_floats(const rf_dtype_info *info, const uint8_t *row, const float *x, size_t n) {
    float w[MAX_COLS + 16] = {0}, s[16] = {0};
    info->decode(row, w, n);
    for (size_t k = 0; k < (n + 15) / 16 * 16; k++)
        s[k % 16] = fmaf(w[k], k < n ? x[k] : 0, s[k % 16]);
    for (int i = 0; i < 8; i++)
        s[i] += s[i + 8];
    for (int i = 0; i < 4; i++)
        s[i] += s[i + 4];
    for (int i = 0; i < 2; i++)
        s[i] += s[i + 2];
    return s[0] + s[1];
}

typedef struct wanted {
    float v[MAX_T][MAX_ROWS];
} wanted;

static void model(const rf_tensor *w, const float *x, wanted *out) {
    const rf_dtype_info *info = rf_dtype_get(w->type);
    for (size_t t = 0; t < MAX_T; t++)
        for (size_t r = 0; r < w->rows; r++) {
            const uint8_t *row = (const uint8_t *)w->data + r * w->row_bytes;
            const float *xt = x + t * w->cols;
            out->v[t][r] = info->view == RF_INT_NONE ? model_floats(info, row, xt, w->cols)
                                                     : model_ints(info, row, xt, w->cols);
        }
}

/* What rounding minima of groups of 32 and the totals of x, less than 32 steps off each, costs at most. */
static double minima_slack(const rf_dtype_info *info, const uint8_t *row, const float *x,
                           const float *step, size_t n) {
    double slack = 0;
    for (size_t first = 0; first < n / 32; first += 8) {
        double m[8], t[8], most_m = 0, most_t = 0;
        const size_t n_own = n / 32 - first < 8 ? n / 32 - first : 8;
        for (size_t i = 0; i < n_own; i++) {
            rf_int_group w;
            info->unpack(row, first + i, &w);
            m[i] = fabs((double)w.m);
            t[i] = 0;
            for (size_t k = (first + i) * 32; k < (first + i + 1) * 32; k++)
                t[i] += (double)x[k];
            t[i] = fabs(t[i]) + 32 * (double)step[first * 32];
            most_m = fmax(most_m, m[i]);
            most_t = fmax(most_t, t[i]);
        }
        for (size_t i = 0; i < n_own; i++)
            slack += 0x1p-11 * most_m * t[i] + 0x1.01p-10 * most_t * m[i];
    }
    return slack;
}

/* What exact arithmetic gives, against what quantised activations cost at most: half a step of each
 * group's scale times |w|.  Returns false where a result lies outside; adds to error and norm. */
static void check_accuracy(const rf_tensor *w, const float *x, const wanted *got) {
    const rf_dtype_info *info = rf_dtype_get(w->type);
    const size_t n = w->cols, size = info->view == RF_INT_256 ? 256 : 32;
    double error = 0, norm = 0;
    float *dec = rf_alloc(n, sizeof *dec), *step = rf_alloc((size_t)MAX_T * n, sizeof *step);
    assert_true(dec && step);
    if (info->view != RF_INT_NONE) /* the least that integers differ by */
        for (size_t g = 0; g < MAX_T * n / size; g++) {
            float amax = 0;
            for (size_t k = g * size; k < (g + 1) * size; k++)
                amax = fmaxf(amax, fabsf(x[k]));
            float d;
            (void)model_scale(&d, amax, size);
            for (size_t k = g * size; k < (g + 1) * size; k++)
                step[k] = d;
        }
    for (size_t r = 4; r < w->rows; r++) {
        info->decode((const uint8_t *)w->data + r * w->row_bytes, dec, n);
        double row_error = 0, row_norm = 0;
        for (size_t t = 5; t < MAX_T; t++) {
            double exact = 0, slack = 0;
            if (info->has_min && size == 32)
                slack = minima_slack(info, (const uint8_t *)w->data + r * w->row_bytes, x + t * n,
                                     step + t * n, n);
            for (size_t k = 0; k < n; k++) {
                const double xk = (double)x[t * n + k], half = (double)step[t * n + k] * 0.5001;
                exact += (double)dec[k] * xk;
                slack += fabs((double)dec[k]) * (half + 1e-5 * fabs(xk));
                slack += info->has_min ? 1e-5 * fabs((double)dec[k]) + 1e-30 : 1e-30;
            }
            double e = (double)got->v[t][r] - exact;
            if (!(fabs(e) <= slack))
                fail_msg("%s: row %zu x %zu gives %g, not %g +- %g", info->name, r, t,
                         (double)got->v[t][r], exact, slack);
            row_error += e * e;
            row_norm += exact * exact;
        }
        if (row_norm > 0) {
            error += row_error / row_norm;
            norm += 1;
        }
    }
    rf_free(dec);
    rf_free(step);
    double relative = sqrt(error / fmax(norm, 1));
    if (!(relative < (info->view == RF_INT_NONE ? 1e-5 : 0.02)))
        fail_msg("%s: relative error %g", info->name, relative);
}

/* ---- the comparison ---- */

typedef struct setup {
    const rf_cpu_kernels *kernels;
    const rf_tensor *w;
    const rf_mm_input *act;
    const float *bias;
    const wanted *want;
} setup;

/* Rows [begin, end) have the wanted bits and nothing else was written. */
static void check_range(const setup *s, uint32_t begin, uint32_t end) {
    const rf_tensor *w = s->w;
    size_t stride = w->rows + 3, n = s->act->n_rows * stride;
    float *dst = rf_alloc(n, sizeof *dst);
    size_t scratch_bytes = rf_mm_scratch_bytes(s->act->n_rows, w->cols);
    uint8_t *garbage = rf_alloc(scratch_bytes, 1);
    assert_true(dst && garbage);
    memset(garbage, 0xff, scratch_bytes); /* NaNs */
    rf_guarded scratch = rf_guard(garbage, scratch_bytes);
    assert_int_equal((uintptr_t)scratch.p % 64, 0);
    for (size_t i = 0; i < n; i++)
        dst[i] = SENTINEL;
    rf_mm mm = {.w = w,
                .bias = s->bias,
                .act = s->act,
                .dst = dst,
                .dst_stride = stride,
                .next = begin ? w->data : NULL};
    s->kernels->matmul(&mm, begin, end, scratch.p);
    for (size_t t = 0; t < s->act->n_rows; t++)
        for (size_t r = 0; r < stride; r++) {
            float got = dst[t * stride + r], want = SENTINEL;
            if (r >= begin && r < end) want = s->want->v[t][r];
            if (r >= begin && r < end && s->bias) want += s->bias[r];
            if (memcmp(&got, &want, sizeof got) != 0)
                fail_msg("%s %s [%u x %u] T %u, rows %u to %u: dst[%zu][%zu] is %a, not %a",
                         rf_isa_name(s->kernels->isa), rf_dtype_get(w->type)->name, w->rows,
                         w->cols, s->act->n_rows, begin, end, t, r, (double)got, (double)want);
        }
    rf_guard_free(&scratch);
    rf_free(garbage);
    rf_free(dst);
}

/* every: all numbers of activation rows up to a tile's and one more, else some. */
static void check_level(const rf_cpu_kernels *k, const rf_tensor *w, const float *x,
                        const float *bias, const wanted *want, bool every) {
    static const uint32_t some[] = {1, 2, 3, 4, 5, 7, 16, 33, 48, 51};
    uint32_t n = every ? 18 : RF_COUNT(some);
    for (uint32_t i = 0; i < n; i++) {
        if (k->isa == RF_ISA_SCALAR && i % 3) continue; /* slow, and has no cases by T */
        act_memory m;
        uint32_t n_rows = every ? i + 1 : some[i];
        make_act(&m, k, rf_dtype_get(w->type)->view, x, n_rows, w->cols);
        setup s = {k, w, &m.act, n_rows % 2 ? bias : NULL, want};
        check_range(&s, 0, w->rows);
        if (w->rows > 40) {
            check_range(&s, 3, 4);
            check_range(&s, 5, 40);
            check_range(&s, w->rows - 9, w->rows);
        }
        free_act(&m);
    }
}

static void check_shape(rf_dtype t, uint32_t rows, uint32_t cols, bool accuracy) {
    const uint64_t seed = (uint64_t)t * 1000003 + cols;
    rf_guarded guard;
    rf_tensor w = make_weight(t, rows, cols, seed, &guard);
    float *x = make_x(cols, seed + 1), bias[MAX_ROWS];
    uint64_t state = seed + 2;
    for (size_t r = 0; r < MAX_ROWS; r++)
        bias[r] = rf_test_randf(&state);
    wanted *want = rf_alloc(1, sizeof *want);
    assert_non_null(want);
    model(&w, x, want);
    for (int isa = RF_ISA_SCALAR; isa <= (int)rf_isa_best(); isa++)
        check_level(rf_cpu_kernels_get((rf_isa)isa), &w, x, bias, want,
                    rows == MAX_ROWS && cols < 300);
    if (accuracy) check_accuracy(&w, x, want);
    rf_free(want);
    rf_free(x);
    rf_guard_free(&guard);
}

static void print_levels(void) {
    print_message("levels of instructions compared:");
    for (int isa = RF_ISA_SCALAR; isa <= (int)rf_isa_best(); isa++)
        print_message(" %s", rf_isa_name((rf_isa)isa));
    print_message("%s\n", rf_isa_best() + 1 < RF_ISA_COUNT ? " (this CPU has no more)" : "");
}

/* req: C-08, C-14, B-48, B-57 - every format multiplies, by every kernel, to the same bits for any
 * number of activation rows and any range of output rows. */
static void test_formats(void **state) {
    (void)state;
    static const uint32_t few[] = {96, 896, 1120, 32, 64, 128, 1152};
    static const uint32_t whole[] = {256, 512, 1280, 2304};
    enum { SMALL = 3 }; /* lengths, with which each of check_shape's checks is met */
    const bool is_small = getenv("RF_TEST_SMALL") != NULL;
    print_levels();
    for (int t = 0; t < RF_DT_COUNT; t++) {
        const rf_dtype_info *info = rf_dtype_get((rf_dtype)t);
        if (!info->decode || !info->is_block) continue;
        bool by_256 = info->block_elems == 256;
        size_t n = by_256 ? RF_COUNT(whole) : RF_COUNT(few);
        if (is_small) n = SMALL;
        for (size_t i = 0; i < n; i++) {
            uint32_t cols = by_256 ? whole[i] : few[i];
            if (cols % info->block_elems) continue;
            check_shape((rf_dtype)t, cols > 600 ? 41 : MAX_ROWS, cols, cols == 512 || cols == 896);
        }
    }
}

/* req: C-08 - lengths that are no multiple of anything. */
static void test_floats(void **state) {
    (void)state;
    static const uint32_t lengths[] = {1, 7, 16, 33, 100, 512, 1111, 2053};
    static const rf_dtype types[] = {RF_DT_F32, RF_DT_F16, RF_DT_BF16, RF_DT_F64};
    for (size_t t = 0; t < RF_COUNT(types); t++)
        for (size_t i = 0; i < RF_COUNT(lengths); i++)
            check_shape(types[t], i % 2 ? MAX_ROWS : 5, lengths[i], lengths[i] > 100);
}

/* n rows of x times w, in blocks where the kernels want it or as they are. */
static void multiply(const rf_cpu_kernels *k, const rf_tensor *w, const float *x, uint32_t n,
                     bool in_blocks, float *dst) {
    act_memory m = {.act = {.view = RF_INT_NONE, .n_rows = n, .n_cols = w->cols, .x = x}};
    if (in_blocks) lay_out(&m, k);
    void *scratch = rf_alloc(rf_mm_scratch_bytes(n, w->cols), 1);
    assert_non_null(scratch);
    const rf_mm mm = {.w = w, .act = &m.act, .dst = dst, .dst_stride = w->rows};
    k->matmul(&mm, 0, w->rows, scratch);
    rf_free(scratch);
    if (m.act.blocks) rf_guard_free(&m.blocks);
}

/* req: C-08 - so long rows by so many activation rows that neither goes through a panel at once: as
 * each activation row by itself. */
static void test_long_floats(void **state) {
    (void)state;
    enum { T = 300, ROWS = 70, COLS = 4099 };
    static const rf_dtype types[] = {RF_DT_F16, RF_DT_BF16, RF_DT_F32, RF_DT_F64};
    float *x = rf_alloc((size_t)T * COLS, sizeof *x),
          *all = rf_alloc((size_t)T * ROWS, sizeof *all), one[ROWS];
    uint64_t seed = 9;
    assert_true(x && all);
    for (size_t i = 0; i < (size_t)T * COLS; i++)
        x[i] = rf_test_randf(&seed);
    for (size_t i = 0; i < RF_COUNT(types); i++) {
        rf_guarded guard;
        rf_tensor w = make_weight(types[i], ROWS, COLS, i, &guard);
        for (int isa = RF_ISA_SCALAR + 1; isa <= (int)rf_isa_best(); isa++) {
            const rf_cpu_kernels *k = rf_cpu_kernels_get((rf_isa)isa);
            for (int in_blocks = 0; in_blocks < 2; in_blocks++) {
                multiply(k, &w, x, T, in_blocks, all);
                for (size_t t = 0; t < T; t += 7) {
                    multiply(k, &w, x + t * COLS, 1, false, one);
                    assert_memory_equal(one, all + t * ROWS, sizeof one);
                }
            }
        }
        rf_guard_free(&guard);
    }
    rf_free(all);
    rf_free(x);
}

/* A group whose values reach every branch of the rounding. */
static void odd_group(float *x, size_t n, int kind, uint64_t *seed) {
    for (size_t k = 0; k < n; k++) {
        float f = rf_test_randf(seed);
        if (kind == 0) f = 0;
        if (kind == 1) f = k % 2 ? -0.0f : 0;
        if (kind == 2) f = (float)(int)(f * 254) * 0.5f; /* ties: amax is 127 below */
        if (kind == 3) f *= 1e-42f;                      /* subnormal */
        if (kind == 4) f *= 3e38f;
        if (kind == 5) f = k % 5 ? f : -1e-30f * f;
        x[k] = f;
    }
    if (kind == 2) x[3] = 127;
    if (kind == 6) x[n / 2] = INFINITY;
    if (kind == 7) x[n - 1] = NAN;
}

static void check_quant(const rf_cpu_kernels *k, size_t size, const float *x, size_t n) {
    int8_t q[256 * 16];
    float d[256 * 16 / 32];
    int32_t sum[256 * 16 / 16];
    const size_t step = size == 256 ? 16 : 32;
    assert_true(n <= sizeof q && n % size == 0);
    (size == 256 ? k->quant_256 : k->quant_32)(x, n, q, d, sum);
    for (size_t g = 0; g < n / size; g++) {
        float amax = 0;
        for (size_t i = 0; i < size; i++) {
            float a = fabsf(x[g * size + i]);
            amax = isnan(a) || a > amax ? a : amax;
        }
        float xd, id = model_scale(&xd, amax, size);
        assert_true(memcmp(&d[g], &xd, sizeof xd) == 0 || (isnan(xd) && isnan(d[g])));
        for (size_t i = 0; i < size; i++) {
            size_t at = g * size + i;
            float v = x[at] * id;
            if (!isnan(v)) assert_int_equal(q[at], (int)rintf(fminf(127, fmaxf(-127, v))));
            assert_true(q[at] >= -127);
            if (i % step) continue;
            int32_t s = 0;
            for (size_t j = at; j < at + step; j++)
                s += q[j];
            assert_int_equal(sum[at / step], s);
        }
    }
}

/* req: C-08 - quantised activations: nearest, ties to even, and a NaN is not lost. */
static void test_quant(void **state) {
    (void)state;
    uint64_t seed = 77;
    float x[256 * 16];
    for (int isa = RF_ISA_SCALAR; isa <= (int)rf_isa_best(); isa++)
        for (size_t size = 32; size <= 256; size += 224) {
            size_t n = size * 16;
            for (size_t g = 0; g < 16; g++)
                odd_group(x + g * size, size, (int)g, &seed);
            check_quant(rf_cpu_kernels_get((rf_isa)isa), size, x, n);
        }
}

/* A NaN or an infinity among the activations reaches the result, whatever the kernel. */
static void test_nan(void **state) {
    (void)state;
    static const rf_dtype types[] = {RF_DT_Q8_0, RF_DT_Q4_1, RF_DT_Q4_K, RF_DT_F16};
    for (size_t i = 0; i < RF_COUNT(types); i++)
        for (int isa = RF_ISA_SCALAR; isa <= (int)rf_isa_best(); isa++)
            for (uint32_t n_rows = 1; n_rows <= 16; n_rows *= 4) {
                const rf_cpu_kernels *k = rf_cpu_kernels_get((rf_isa)isa);
                rf_guarded guard;
                rf_tensor w = make_weight(types[i], 8, 256, 5, &guard);
                float *x = make_x(256, 6), dst[16 * 8];
                x[100] = NAN;
                act_memory m;
                make_act(&m, k, rf_dtype_get(types[i])->view, x, n_rows, 256);
                size_t bytes = rf_mm_scratch_bytes(n_rows, 256);
                void *scratch = rf_alloc(bytes, 1);
                assert_non_null(scratch);
                rf_mm mm = {.w = &w, .act = &m.act, .dst = dst, .dst_stride = 8};
                k->matmul(&mm, 0, 8, scratch);
                for (size_t r = 4; r < 8; r++)
                    assert_true(isnan(dst[r]));
                for (size_t r = 0; n_rows > 1 && r < 8; r++)
                    assert_true(isfinite(dst[8 + r]));
                rf_free(scratch);
                free_act(&m);
                rf_free(x);
                rf_guard_free(&guard);
            }
}

/* The kernels of k give what the model wants, or a NaN where that is one. */
static void check_numbers(const rf_cpu_kernels *k, const rf_tensor *w, const float *x,
                          uint32_t n_rows, const wanted *want) {
    act_memory m;
    make_act(&m, k, rf_dtype_get(w->type)->view, x, n_rows, w->cols);
    float dst[4 * MAX_ROWS];
    void *scratch = rf_alloc(rf_mm_scratch_bytes(n_rows, w->cols), 1);
    assert_non_null(scratch);
    rf_mm mm = {.w = w, .act = &m.act, .dst = dst, .dst_stride = w->rows};
    k->matmul(&mm, 0, w->rows, scratch);
    for (size_t t = 0; t < n_rows; t++)
        for (size_t r = 0; r < w->rows; r++) {
            float got = dst[t * w->rows + r], wish = want->v[t][r];
            if (memcmp(&got, &wish, sizeof got) != 0 && !(isnan(got) && isnan(wish)))
                fail_msg("%s %s T %u: dst[%zu][%zu] is %a, not %a", rf_isa_name(k->isa),
                         rf_dtype_get(w->type)->name, n_rows, t, r, (double)got, (double)wish);
        }
    rf_free(scratch);
    free_act(&m);
}

/* Every byte that a block of small floats may have for its scale: subnormals, infinities, NaNs. */
static void test_scales(void **state) {
    (void)state;
    enum { ROWS = 64, COLS = 64 };
    static const rf_dtype types[] = {RF_DT_MXFP4, RF_DT_NVFP4, RF_DT_MXFP6_E2M3, RF_DT_MXFP6_E3M2};
    float *x = make_x(COLS, 11);
    wanted *want = rf_alloc(1, sizeof *want);
    assert_non_null(want);
    for (size_t i = 0; i < RF_COUNT(types); i++)
        for (int first = 0; first < 256; first += ROWS) {
            const rf_dtype_info *info = rf_dtype_get(types[i]);
            rf_guarded guard;
            rf_tensor w = make_weight(types[i], ROWS, COLS, 12, &guard);
            for (size_t r = 0; r < ROWS; r++)
                for (size_t b = 0; b < COLS / info->block_elems; b++)
                    memset(guard.p + r * w.row_bytes + b * info->block_bytes, first + (int)r,
                           types[i] == RF_DT_NVFP4 ? 4 : 1);
            model(&w, x, want);
            for (int isa = RF_ISA_SCALAR; isa <= (int)rf_isa_best(); isa++) {
                check_numbers(rf_cpu_kernels_get((rf_isa)isa), &w, x, 1, want);
                check_numbers(rf_cpu_kernels_get((rf_isa)isa), &w, x, 4, want);
            }
            rf_guard_free(&guard);
        }
    rf_free(want);
    rf_free(x);
}

/* So many activation rows that products of scales may come from tables, with scales that these have and with some that
 * they have not: as the scalar kernels have them. */
static void check_many_rows(const rf_tensor *w, const float *x, uint32_t n_rows, float *want,
                            float *got) {
    const size_t n = (size_t)n_rows * w->rows;
    void *scratch = rf_alloc(rf_mm_scratch_bytes(n_rows, w->cols), 1);
    assert_non_null(scratch);
    for (int isa = RF_ISA_SCALAR; isa <= (int)rf_isa_best(); isa++) {
        const rf_cpu_kernels *k = rf_cpu_kernels_get((rf_isa)isa);
        act_memory m;
        make_act(&m, k, rf_dtype_get(w->type)->view, x, n_rows, w->cols);
        const rf_mm mm = {
            .w = w, .act = &m.act, .dst = isa == RF_ISA_SCALAR ? want : got, .dst_stride = w->rows};
        k->matmul(&mm, 0, w->rows, scratch);
        for (size_t i = 0; i < n && isa != RF_ISA_SCALAR; i++)
            if (memcmp(&got[i], &want[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(want[i])))
                fail_msg("%s %s: number %zu is %a, not %a", rf_isa_name(k->isa),
                         rf_dtype_get(w->type)->name, i, (double)got[i], (double)want[i]);
        free_act(&m);
    }
    rf_free(scratch);
}

static void test_many_rows(void **state) {
    (void)state;
    enum { T = 130, ROWS = 40, COLS = 640 };
    static const rf_dtype types[] = {RF_DT_Q4_0, RF_DT_Q4_1,   RF_DT_Q5_0,  RF_DT_Q5_1,
                                     RF_DT_Q8_0, RF_DT_IQ4_NL, RF_DT_MXFP4, RF_DT_Q2_0};
    static const float last[] = {1.0f, 0.0f, 1e25f, 1e-25f, 1e-37f, INFINITY}; /* group's size */
    const size_t n = (size_t)T * COLS;
    float *x = rf_alloc(n, sizeof *x), *want = rf_alloc((size_t)T * ROWS, sizeof *want),
          *got = rf_alloc((size_t)T * ROWS, sizeof *got);
    assert_true(x && want && got);
    uint64_t seed = 77;
    for (size_t i = 0; i < n; i++)
        x[i] = (0.1f + fabsf(rf_test_randf(&seed))) * (i % 3 ? 1 : -1);
    for (size_t i = 0; i < RF_COUNT(types) * RF_COUNT(last); i++) {
        rf_guarded guard;
        rf_tensor w = make_weight(types[i / RF_COUNT(last)], ROWS, COLS, i, &guard);
        for (size_t k = n - 32; k < n; k++)
            x[k] = last[i % RF_COUNT(last)] * (k % 2 ? 1 : -1);
        check_many_rows(&w, x, T, want, got);
        if (i % RF_COUNT(last) == 0) { /* a scale of 0 */
            memset(guard.p + 5 * w.row_bytes, 0, w.row_bytes);
            check_many_rows(&w, x, T, want, got);
        }
        rf_guard_free(&guard);
    }
    rf_free(x);
    rf_free(want);
    rf_free(got);
}

/* Gives a format's blocks minima of any bits, infinities and NaNs among them, or below 2, or subnormal ones. */
static void put_minima(const rf_tensor *w, uint8_t *bytes, uint64_t *seed) {
    static const uint16_t bits[] = {0xffff, 0xbfff, 0x87ff};
    const rf_dtype_info *info = rf_dtype_get(w->type);
    for (size_t r = 0; r < w->rows; r++)
        for (size_t b = 0; b < w->cols / 32; b++) {
            const uint16_t m = (uint16_t)(rf_test_rand(seed) >> 40) & bits[r % RF_COUNT(bits)];
            memcpy(bytes + r * w->row_bytes + b * info->block_bytes + offsetof(rf_block_q4_1, m),
                   &m, sizeof m);
        }
}

/* Those with totals of any size, alike in some groups and not in others, where five to seven groups are left behind those
 * by eights: as the scalar kernels have them. */
static void test_minima(void **state) {
    (void)state;
    enum { T = 130, ROWS = 40, MOST = 39 };
    static const rf_dtype types[] = {RF_DT_Q4_1, RF_DT_Q5_1};
    static const uint32_t n_rows[] = {1, 2, 3, 4, 6, 16, T}, n_groups[] = {5, 22, MOST};
    static const float sizes[] = {1.0f, 0.0f, 1e-3f, 1e3f, 1e-25f, 1e-37f, 1e-42f, 1e27f};
    const size_t n = (size_t)T * MOST * 32;
    float *x = rf_alloc(n, sizeof *x), *want = rf_alloc((size_t)T * ROWS, sizeof *want),
          *got = rf_alloc((size_t)T * ROWS, sizeof *got);
    assert_true(x && want && got);
    uint64_t seed = 79;
    for (size_t i = 0; i < n; i++) {
        const size_t g = i / 32, part = g / MOST;
        x[i] = rf_test_randf(&seed) * sizes[part % 2 ? g % 7 : part / 2 % RF_COUNT(sizes)];
    }
    for (size_t i = 0; i < RF_COUNT(types) * RF_COUNT(n_groups); i++) {
        rf_guarded guard;
        rf_tensor w = make_weight(types[i % RF_COUNT(types)], ROWS,
                                  n_groups[i / RF_COUNT(types)] * 32, i, &guard);
        put_minima(&w, guard.p, &seed);
        for (size_t k = 0; k < RF_COUNT(n_rows); k++)
            check_many_rows(&w, x, n_rows[k], want, got);
        rf_guard_free(&guard);
    }
    rf_free(x);
    rf_free(want);
    rf_free(got);
}

/* Activations that no second-level cache holds: in parts, each with several blocks of weight rows, the last of which is
 * not full. */
static void test_long_rows(void **state) {
    (void)state;
    enum { T = 48, ROWS = 90, COLS = 80 * 256 };
    static const rf_dtype types[] = {RF_DT_Q4_0, RF_DT_Q4_1, RF_DT_Q4_K, RF_DT_Q6_K};
    float *x = rf_alloc((size_t)T * COLS, sizeof *x),
          *want = rf_alloc((size_t)T * ROWS, sizeof *want),
          *got = rf_alloc((size_t)T * ROWS, sizeof *got);
    assert_true(x && want && got);
    uint64_t seed = 78;
    for (size_t i = 0; i < (size_t)T * COLS; i++)
        x[i] = rf_test_randf(&seed);
    for (size_t i = 0; i < RF_COUNT(types); i++) {
        rf_guarded guard;
        rf_tensor w = make_weight(types[i], ROWS, COLS, i, &guard);
        check_many_rows(&w, x, T, want, got);
        rf_guard_free(&guard);
    }
    rf_free(x);
    rf_free(want);
    rf_free(got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_rows),   cmocka_unit_test(test_quant),
        cmocka_unit_test(test_floats),      cmocka_unit_test(test_formats),
        cmocka_unit_test(test_scales),      cmocka_unit_test(test_nan),
        cmocka_unit_test(test_long_floats), cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_minima),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
