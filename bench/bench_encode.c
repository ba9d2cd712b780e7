/* bench_encode.c - what every encoder costs and how well it does.
 *
 * bench_encode                   a table: bits, relative error on Gaussian and Laplace weights, speed
 * bench_encode --reference DIR   the errors of the reference quantiser whose blocks lie in DIR, in
 *                                the form of tests/data/quant/reference.txt
 * The weights are made of a fixed random sequence, so the errors are the same everywhere.  The
 * speed is that of one core; the best of five runs counts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fmath.h"
#include "base/os.h"
#include "quant/dtype.h"

enum { N = 1 << 17, RUNS = 5, COLS = 1024, ROWS = 16 };

static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double uniform(uint64_t *state) {
    return ((double)(next_random(state) >> 12) + 0.5) * 0x1p-52;
}

static void fill(float *gauss, float *laplace, float *importance) {
    uint64_t state = 1;
    double sine, cosine;
    for (int i = 0; i < N; i++) {
        double size = -2 * rf_log(uniform(&state));
        rf_sincos(6.283185307179586 * uniform(&state), &sine, &cosine);
        gauss[i] = (float)(0.02 * sqrt(size) * cosine);
        double sign = uniform(&state) < 0.5 ? -0.02 : 0.02;
        laplace[i] = (float)(-sign * rf_log(uniform(&state)));
    }
    for (int i = 0; i < N; i++) { /* squares of activations: most small, a few large */
        double v = rf_log(uniform(&state));
        importance[i] = (float)(v * v);
    }
}

/* Root of the weighted mean square of x - y, over that of x where is_relative. */
static double rmse(const float *x, const float *y, const float *w, int n, bool is_relative) {
    double err = 0, total = 0;
    for (int i = 0; i < n; i++) {
        double weight = w ? (double)w[i] : 1, r = (double)x[i] - (double)y[i];
        err += weight * r * r;
        total += is_relative ? weight * (double)x[i] * (double)x[i] : weight;
    }
    return sqrt(err / total);
}

static double relative_error(const rf_dtype_info *t, const float *x, const float *importance,
                             void *blocks, float *y) {
    t->encode(x, blocks, N, importance);
    t->decode(blocks, y, N);
    return 100 * rmse(x, y, importance, N, true);
}

static double megabytes_per_second(const rf_dtype_info *t, const float *x, const float *importance,
                                   void *blocks) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < RUNS; i++) {
        uint64_t start = rf_time_us();
        t->encode(x, blocks, N, importance);
        uint64_t took = rf_time_us() - start;
        best = took < best ? took : best;
    }
    return (double)N * sizeof *x / (double)(best ? best : 1);
}

static void print_table(float *gauss, float *laplace, float *importance, float *y, void *blocks) {
    puts("| format | bits per weight | error, Gaussian | error, Laplace | importance-weighted "
         "error, "
         "Gaussian: without, with importance | MB/s of F32, one core: without, with |");
    puts("|---|---|---|---|---|---|");
    for (unsigned i = 0; i < RF_DT_COUNT; i++) {
        const rf_dtype_info *t = rf_dtype_get((rf_dtype)i);
        if (!t->encode || i == RF_DT_F32) continue;
        double bits = 8.0 * t->block_bytes / t->block_elems;
        double error = relative_error(t, gauss, NULL, blocks, y);
        double blind = 100 * rmse(gauss, y, importance, N, true);
        printf("| %s | %g | %.3g %% | %.3g %% | %.3g %%, %.3g %% | %.0f, %.0f |\n", t->name, bits,
               error, relative_error(t, laplace, NULL, blocks, y), blind,
               relative_error(t, gauss, importance, blocks, y),
               megabytes_per_second(t, gauss, NULL, blocks),
               megabytes_per_second(t, gauss, importance, blocks));
    }
}

/* ---- the reference ---- */

/* Exactly n bytes of DIR/name, or NULL. */
static void *read_file(const char *dir, const char *name, size_t n) {
    char path[1024];
    rf_error e = {0};
    uint8_t *p;
    size_t len;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (rf_file_read(path, 1 << 20, &p, &len, &e) != RF_OK) return NULL;
    if (len == n) return p;
    fprintf(stderr, "bench_encode: %s: expected %zu bytes, got %zu\n", path, n, len);
    exit(1);
}

static void print_reference(const char *dir, const rf_dtype_info *t, const char *kind,
                            const float *x, const float *w) {
    char name[64];
    float y[COLS];
    size_t row_bytes = COLS / t->block_elems * t->block_bytes;
    snprintf(name, sizeof name, "%s/%s.blk", kind, t->name);
    uint8_t *blocks = read_file(dir, name, ROWS * row_bytes);
    if (!blocks) return;
    printf("%s %s", t->name, kind);
    for (size_t r = 0; r < ROWS; r++) {
        t->decode(blocks + r * row_bytes, y, COLS);
        printf(" %.9g", rmse(x + COLS * r, y, w, COLS, false));
    }
    putchar('\n');
    rf_free(blocks);
}

static int reference(const char *dir) {
    float *x = read_file(dir, "rows_weights.f32", ROWS * COLS * sizeof *x);
    float *w = read_file(dir, "imatrix.f32", COLS * sizeof *w);
    for (unsigned i = 0; x && w && i < RF_DT_COUNT; i++) {
        const rf_dtype_info *t = rf_dtype_get((rf_dtype)i);
        if (!t->encode || !t->is_block) continue;
        print_reference(dir, t, "quant", x, NULL);
        print_reference(dir, t, "quant_imatrix", x, w);
    }
    bool is_complete = x && w;
    if (!is_complete) fprintf(stderr, "bench_encode: %s: no rows_weights.f32, imatrix.f32\n", dir);
    rf_free(x);
    rf_free(w);
    return is_complete ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--reference") == 0) return reference(argv[2]);
    if (argc != 1) {
        fprintf(stderr, "usage: bench_encode [--reference DIR]\n");
        return 2;
    }
    float *all = rf_alloc(4 * (size_t)N, sizeof *all);
    void *blocks = rf_alloc(N, sizeof *all);
    if (!all || !blocks) return 1;
    fill(all, all + N, all + 2 * N);
    print_table(all, all + N, all + 2 * N, all + 3 * N, blocks);
    rf_free(all);
    rf_free(blocks);
    return 0;
}
