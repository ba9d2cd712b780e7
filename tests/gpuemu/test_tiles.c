/* test_tiles.c - the products with many activation rows (mm_tile.hip) of the build's code objects, by
 * themselves: every layout of integers and every size of block, over odd shapes and several stages,
 * plain and as a GLU, against plain loops that read the packed bytes as pack.h describes them.
 *
 * Which targets there are is the build's choice; those that the emulator does not know are left to
 * the others of their family. */
#include <math.h>

#include "backend/gpu/pack.h"
#include "base/fmath.h"
#include "gpuemu/fixture.h"

static const char *const targets[] = {RF_EMU_TARGETS};

typedef struct layout {
    uint32_t view, lo_bits, hi_bits, n_scales; /* n_scales 0: groups of 32 */
    bool with_m, d_f32;
    int32_t off;
} layout;

static const layout layouts[] = {
    {32, 4, 0, 0, false, false, 8},  {32, 4, 0, 0, true, false, 0},
    {32, 4, 1, 0, false, false, 16}, {32, 4, 1, 0, true, false, 0},
    {32, 4, 1, 0, false, true, 12},  {32, 8, 0, 0, false, false, 0},
    {32, 8, 0, 0, false, true, 0},   {256, 2, 0, 16, true, false, 0},
    {256, 2, 0, 8, false, false, 1}, {256, 2, 1, 16, false, false, 4},
    {256, 4, 0, 8, true, false, 0},  {256, 4, 1, 8, true, false, 0},
    {256, 4, 1, 16, false, true, 9}, {256, 4, 2, 16, false, false, 32},
    {256, 8, 0, 8, false, false, 0}, {256, 8, 0, 16, false, true, 0},
};

/* Weight rows and activation rows of a kernel's block, and of a case: more of either than a block has,
 * or less. */
typedef struct size {
    const char *name;
    uint32_t block_rows, block_cols, rows, n;
} size;
static const size sizes[] = {
    {"large", 128, 64, 150, 70}, {"middle", 32, 64, 45, 50}, {"small", 64, 32, 70, 20}};

/* One matrix as it lies on the device. */
typedef struct matrix {
    uint8_t *lo, *hi;
    void *d, *m;
    int8_t *scale, *min;
} matrix;

typedef struct problem {
    const layout *l;
    uint32_t rows, cols, n, n_tiles, n_groups;
    matrix w[2]; /* the second one is the up matrix of a GLU */
    int8_t *q;   /* [n][cols] */
    float *xd;   /* [n][n_groups] */
    int32_t *sum;
    float *bias, *add, *dst; /* [rows], [n][rows] */
    rf_emu_range range[20];
    size_t n_ranges;
    uint64_t seed;
} problem;

static void *room(problem *p, size_t bytes) {
    uint8_t *at = rf_alloc(bytes, 1);
    assert_non_null(at);
    uint64_t lo = (uint64_t)(uintptr_t)at;
    size_t i = p->n_ranges++;
    assert_true(i < RF_COUNT(p->range));
    for (; i && p->range[i - 1].lo > lo; i--)
        p->range[i] = p->range[i - 1];
    p->range[i] = (rf_emu_range){lo, lo + bytes};
    return at;
}

static uint8_t *random_bytes(problem *p, size_t n) {
    uint8_t *at = room(p, n);
    for (size_t i = 0; i < n; i++)
        at[i] = (uint8_t)(rf_test_rand(&p->seed) >> 40);
    return at;
}

static float *random_floats(problem *p, size_t n) {
    float *at = room(p, n * sizeof *at);
    for (size_t i = 0; i < n; i++)
        at[i] = rf_test_randf(&p->seed);
    return at;
}

static void *random_scales(problem *p, size_t n, bool is_f32) {
    if (is_f32) return random_floats(p, n);
    uint16_t *at = room(p, n * sizeof *at);
    for (size_t i = 0; i < n; i++)
        at[i] = rf_f32_to_f16(rf_test_randf(&p->seed));
    return at;
}

/* Minima of groups of 32 as weights are packed: with a common step. */
static void *random_minima(problem *p, size_t n) {
    uint16_t *at = room(p, n * sizeof *at);
    for (size_t i = 0; i < n; i++)
        at[i] = rf_f32_to_f16((float)(int)(rf_test_randf(&p->seed) * 1024) * 0x1p-10f);
    return at;
}

static matrix random_matrix(problem *p) {
    const layout *l = p->l;
    size_t chunk_rows = (size_t)p->n_tiles * (p->cols / 32) * 32;
    size_t group_rows = (size_t)p->n_tiles * p->n_groups * 32;
    matrix w = {.lo = random_bytes(p, chunk_rows * 4 * l->lo_bits),
                .d = random_scales(p, group_rows, l->d_f32)};
    if (l->hi_bits) w.hi = random_bytes(p, chunk_rows * 4 * l->hi_bits);
    if (l->with_m)
        w.m = l->view == 32 ? random_minima(p, group_rows) : random_scales(p, group_rows, l->d_f32);
    if (l->n_scales) w.scale = (int8_t *)random_bytes(p, group_rows * l->n_scales);
    if (l->n_scales && l->with_m) {
        w.min = (int8_t *)random_bytes(p, group_rows * l->n_scales);
        for (size_t i = 0; i < group_rows * l->n_scales; i++)
            w.min[i] = (int8_t)(w.min[i] & 63);
    }
    return w;
}

static void open_problem(problem *p, const layout *l, const size *s) {
    *p = (problem){.l = l, .rows = s->rows, .n = s->n, .seed = 11};
    uint32_t part = l->view == 256 ? 16 : 32;
    p->cols = l->view == 256 ? 512 : 256 + 96;
    p->n_tiles = (p->rows + 31) / 32;
    p->n_groups = p->cols / l->view;
    for (int i = 0; i < 2; i++)
        p->w[i] = random_matrix(p);
    p->q = (int8_t *)random_bytes(p, (size_t)p->n * p->cols);
    p->xd = random_floats(p, (size_t)p->n * p->n_groups);
    p->sum = room(p, (size_t)p->n * (p->cols / part) * sizeof *p->sum);
    for (size_t i = 0; i < (size_t)p->n * p->cols; i++) {
        if (p->q[i] == -128) p->q[i] = 127;
        p->sum[i / part] = (i % part ? p->sum[i / part] : 0) + p->q[i];
    }
    p->bias = random_floats(p, p->rows);
    p->add = random_floats(p, (size_t)p->n * p->rows);
    p->dst = room(p, (size_t)p->n * p->rows * sizeof *p->dst);
}

static void close_problem(problem *p) {
    for (size_t i = 0; i < p->n_ranges; i++)
        rf_free((void *)(uintptr_t)p->range[i].lo); /* NOLINT: every range is one allocation */
}

/* The expected results ---------------------------------------------------------------------------*/

static float scale_at(const void *p, size_t i, bool is_f32) {
    return is_f32 ? ((const float *)p)[i] : rf_f16_to_f32(((const uint16_t *)p)[i]);
}

static int32_t weight_at(const problem *p, const matrix *w, uint32_t row, uint32_t col) {
    const layout *l = p->l;
    uint32_t e = col % 32, half = e / 16, b = e % 4, i = e % 16 / 4;
    size_t chunk = (size_t)(row / 32) * (p->cols / 32) + col / 32, at = chunk * 32 + row % 32;
    uint32_t u = 0;
    if (l->lo_bits == 8) return (int8_t)w->lo[((chunk * 2 + half) * 32 + row % 32) * 16 + e % 16];
    if (l->lo_bits == 4) u = w->lo[at * 16 + e % 16] >> 4 * half & 15;
    if (l->lo_bits == 2) u = w->lo[at * 8 + 4 * half + b] >> 2 * i & 3;
    if (l->hi_bits == 2) u |= (w->hi[at * 8 + 4 * half + b] >> 2 * i & 3u) << l->lo_bits;
    if (l->hi_bits == 1) u |= (w->hi[at * 4 + b] >> e / 4 & 1u) << l->lo_bits;
    return (int32_t)u - l->off;
}

static float rounded(float v, uint32_t bits) {
    float c;
    memcpy(&c, &bits, sizeof c);
    return (v + c) - c;
}

/* What minima of up to eight groups of 32 add, the first of which is number g. */
static float expected_minima(const problem *p, const matrix *w, uint32_t row, uint32_t t,
                             uint32_t g) {
    uint32_t n = p->n_groups - g < 8 ? p->n_groups - g : 8, most = 0;
    float total[8], sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t at = (size_t)t * p->n_groups + g + i;
        total[i] = (float)p->sum[at] * p->xd[at];
        float positive = fabsf(total[i]);
        uint32_t bits;
        memcpy(&bits, &positive, sizeof bits);
        most = bits > most ? bits : most;
    }
    for (uint32_t i = 0; i < n; i++) {
        size_t at = ((size_t)(row / 32) * p->n_groups + g + i) * 32 + row % 32;
        sum = fmaf(scale_at(w->m, at, false), rounded(total[i], RF_ROUND_TOTALS(most)), sum);
    }
    return sum;
}

/* Groups of 32 have one scale, of one. */
static float expected_sum(const problem *p, const matrix *w, uint32_t row, uint32_t t) {
    const layout *l = p->l;
    uint32_t part = l->view == 256 ? 16 : 32, n_parts = l->view / part;
    float acc = 0;
    for (uint32_t g = 0; g < p->n_groups; g++) {
        size_t at = ((size_t)(row / 32) * p->n_groups + g) * 32 + row % 32;
        float xd = p->xd[(size_t)t * p->n_groups + g];
        int32_t all = 0, mins = 0;
        for (uint32_t j = 0; j < n_parts; j++) {
            uint32_t first = g * l->view + j * part;
            size_t s = at * l->n_scales + j * l->n_scales / 16;
            int32_t i = 0, sum = p->sum[((size_t)t * p->cols + first) / part];
            for (uint32_t k = first; k < first + part; k++)
                i += weight_at(p, w, row, k) * p->q[(size_t)t * p->cols + k];
            all += l->n_scales ? w->scale[s] * i : i;
            if (l->with_m) mins += l->n_scales ? w->min[s] * sum : sum;
        }
        acc = fmaf((float)all, scale_at(w->d, at, l->d_f32) * xd, acc);
        if (l->with_m && l->view == 256)
            acc = fmaf((float)mins, scale_at(w->m, at, l->d_f32) * xd, acc);
        if (l->with_m && l->view == 32 && (g % 8 == 7 || g == p->n_groups - 1))
            acc += expected_minima(p, w, row, t, g / 8 * 8);
    }
    return acc;
}

static float expected(const problem *p, bool is_glu, uint32_t row, uint32_t t) {
    float v = expected_sum(p, &p->w[0], row, t) + p->bias[row];
    if (!is_glu) return p->add[(size_t)t * p->rows + row] + v;
    return (0.0f > v ? 0.0f : v) * expected_sum(p, &p->w[1], row, t);
}

/* Running ----------------------------------------------------------------------------------------*/

static rf_gpu_product product_of(const problem *p, const matrix *w) {
    const layout *l = p->l;
    return (rf_gpu_product){.w = {.lo = w->lo,
                                  .hi = w->hi,
                                  .d = w->d,
                                  .m = w->m,
                                  .scale = w->scale,
                                  .min = w->min,
                                  .rows = p->rows,
                                  .cols = p->cols,
                                  .planes = 1,
                                  .form = l->view == 256 ? RF_GPU_INT_256 : RF_GPU_INT_32,
                                  .lo_bits = l->lo_bits,
                                  .hi_bits = l->hi_bits,
                                  .n_scales = l->n_scales,
                                  .d_f32 = l->d_f32,
                                  .off = l->off},
                            .dst = p->dst,
                            .dst_stride = p->rows};
}

static void run_problem(rf_emu_module *m, const problem *p, const size *s, bool is_glu) {
    union {
        rf_gpu_matmul_args a;
        uint8_t bytes[(sizeof(rf_gpu_matmul_args) + 63) / 64 * 64];
    } k = {.a = {.part = {product_of(p, &p->w[0]), product_of(p, &p->w[1])},
                 .n_parts = is_glu ? 2 : 1,
                 .n_rows = p->n,
                 .xq = {p->q, p->xd, p->sum},
                 .mode = RF_GPU_MM_PLAIN,
                 .is_glu = is_glu,
                 .act = RF_ACT_RELU}};
    char name[60];
    rf_error e = {0};
    k.a.part[0].bias = p->bias;
    if (!is_glu) k.a.part[0].add = p->add;
    snprintf(name, sizeof name, "rf_tile_%u_%u%u_%s", p->l->view, p->l->lo_bits, p->l->hi_bits,
             s->name);
    const rf_emu_kernel *kernel = rf_emu_kernel_find(m, name);
    if (!kernel) fail_msg("%s: no kernel %s", rf_emu_module_arch(m), name);
    bool both = is_glu && s == &sizes[0]; /* the block's halves are rows of either matrix */
    uint32_t rows = both ? s->block_rows / 2 : s->block_rows;
    const rf_emu_launch launch = {
        .grid = {(p->rows + rows - 1) / rows, 1, (p->n + s->block_cols - 1) / s->block_cols},
        .block = {256, 1, 1},
        .kernarg = k.bytes,
        .ranges = p->range,
        .n_ranges = p->n_ranges,
        .rubbish_lds = true,
        .n_threads = 2};
    memset(p->dst, 0xff, (size_t)p->n * p->rows * sizeof *p->dst); /* NaNs */
    if (rf_emu_run(kernel, &launch, NULL, &e) != RF_OK)
        fail_msg("%s on %s: %s", name, rf_emu_module_arch(m), e.text);
    for (uint32_t t = 0; t < p->n; t++)
        for (uint32_t r = 0; r < p->rows; r += 1 + t % 7) {
            float got = p->dst[(size_t)t * p->rows + r], want = expected(p, is_glu, r, t);
            if (memcmp(&got, &want, sizeof got) != 0)
                fail_msg("%s on %s, row %u of %u, activation row %u of %u%s: %.9g, expected %.9g",
                         name, rf_emu_module_arch(m), r, p->rows, t, p->n, is_glu ? ", GLU" : "",
                         (double)got, (double)want);
        }
}

static bool is_known(const char *target) {
    for (size_t i = 0; i < RF_COUNT(archs); i++)
        if (!strcmp(archs[i], target)) return true;
    return false;
}

/* req: C-04: GLUs with one layout of each view, else plain */
static void test_tiles(void **state) {
    (void)state;
    uint32_t n = 0;
    for (size_t t = 0; t < RF_COUNT(targets) - 1; t++) {
        char path[500];
        if (!is_known(targets[t])) continue;
        snprintf(path, sizeof path, "%s/%s.hsaco", RF_EMU_CODE, targets[t]);
        rf_emu_module *m = open_module(path);
        for (size_t l = 0; l < RF_COUNT(layouts); l++)
            for (size_t s = 0; s < RF_COUNT(sizes); s++, n++) {
                problem p;
                open_problem(&p, &layouts[l], &sizes[s]);
                run_problem(m, &p, &sizes[s], false);
                if (l % 7 == 3) run_problem(m, &p, &sizes[s], true);
                close_problem(&p);
            }
        rf_emu_module_close(m);
    }
    print_message("%u products\n", n);
    assert_true(n > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
