/* bench_mm.c - speed of the matrix-product kernels on one core, per format and instruction set.
 *
 * Usage: bench_mm [cols [rows [T [format]]]].  T = 1 streams more weights than the caches hold and
 * prints GB/s of weights, beside the speed of merely reading such memory; T activation rows print
 * GOPS (2 * rows * cols * T operations).  Time is taken over short stretches and the best one
 * counts: other work on the machine only ever slows a stretch down. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"

enum { RUNS = 5, STREAM_BYTES = 192 << 20, WINDOW_BYTES = 4 << 20, CHUNK_ROWS = 64 };

typedef struct bench {
    const rf_cpu_kernels *kernels;
    rf_tensor w;
    rf_mm_input act;
    float *dst;
    void *scratch;
} bench;

static void *need(size_t n, size_t size) {
    void *p = rf_alloc(n, size);
    if (p) return p;
    fprintf(stderr, "bench_mm: no memory for %zu x %zu bytes\n", n, size);
    exit(1);
}

static float noise(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)*state * 0x1p-31f;
}

/* Random bytes; halves that would be Inf or NaN become moderate, so that sums stay finite. */
static void fill_weights(uint8_t *p, size_t n) {
    uint32_t s = 1;
    for (size_t i = 0; i < n; i++) {
        noise(&s);
        p[i] = (uint8_t)(s >> 24 & 0xbb);
    }
}

static void make_act(bench *b, uint32_t n_rows) {
    size_t n = (size_t)n_rows * b->w.cols;
    float *x = need(n, sizeof *x);
    uint32_t s = 7;
    for (size_t i = 0; i < n; i++)
        x[i] = noise(&s);
    b->act = (rf_mm_input){.view = rf_dtype_get(b->w.type)->view,
                           .n_rows = n_rows,
                           .n_cols = b->w.cols,
                           .x = x,
                           .q = need(n, 1),
                           .d = need(n / 32 + 1, sizeof(float)),
                           .sum = need(n / 16 + 1, sizeof(int32_t))};
    if (b->act.view == RF_INT_32) b->kernels->quant_32(x, n, b->act.q, b->act.d, b->act.sum);
    if (b->act.view == RF_INT_256) b->kernels->quant_256(x, n, b->act.q, b->act.d, b->act.sum);
    b->dst = need((size_t)n_rows * b->w.rows, sizeof(float));
    b->scratch = need(rf_mm_scratch_bytes(n_rows, b->w.cols), 1);
}

static void free_act(bench *b) {
    float *x;
    memcpy(&x, &b->act.x, sizeof x);
    rf_free(x);
    rf_free(b->act.q);
    rf_free(b->act.d);
    rf_free(b->act.sum);
    rf_free(b->dst);
    rf_free(b->scratch);
}

/* Seconds per output row, the best of RUNS over windows of about `window` rows. */
static double row_seconds(const bench *b, uint32_t window) {
    rf_mm mm = {.w = &b->w, .act = &b->act, .dst = b->dst, .dst_stride = b->w.rows};
    double best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        for (uint32_t begin = 0; begin < b->w.rows; begin += window) {
            uint32_t end = b->w.rows - begin < window ? b->w.rows : begin + window;
            uint64_t start = rf_time_us();
            for (uint32_t r = begin; r < end; r += CHUNK_ROWS)
                b->kernels->matmul(&mm, r, end - r < CHUNK_ROWS ? end : r + CHUNK_ROWS, b->scratch);
            double s = (double)(rf_time_us() - start + 1) * 1e-6 / (end - begin);
            if (end - begin == window) best = s < best ? s : best;
        }
    }
    return best;
}

/* GB/s of adding up memory as words, eight streams at a time. */
static double read_speed(const uint8_t *p) {
    uint64_t best = UINT64_MAX;
    for (size_t at = 0; at + WINDOW_BYTES <= STREAM_BYTES; at += WINDOW_BYTES) {
        const size_t stream = WINDOW_BYTES / 8;
        uint64_t sum[8][8] = {{0}}, start = rf_time_us();
        for (size_t i = 0; i < stream; i += 64)
            for (size_t j = 0; j < 8; j++) {
                uint64_t v[8];
                memcpy(v, p + at + j * stream + i, sizeof v);
                for (int k = 0; k < 8; k++)
                    sum[j][k] += v[k];
            }
        uint64_t us = rf_time_us() - start + 1;
        volatile uint64_t sink = 0;
        for (int j = 0; j < 64; j++)
            sink = sink ^ sum[j / 8][j % 8];
        best = us < best ? us : best;
    }
    return WINDOW_BYTES / (double)best * 1e-3;
}

static void bench_format(rf_dtype t, uint32_t cols, uint32_t rows, uint32_t n_act,
                         const uint8_t *memory) {
    const rf_dtype_info *info = rf_dtype_get(t);
    size_t row_bytes;
    if (!rf_dtype_bytes(t, cols, &row_bytes)) return;
    for (int isa = RF_ISA_SCALAR; isa <= (int)rf_isa_best(); isa++) {
        bench b = {.kernels = rf_cpu_kernels_get((rf_isa)isa)};
        uint32_t stream_rows = (uint32_t)(STREAM_BYTES / row_bytes);
        uint32_t window = (uint32_t)(WINDOW_BYTES / row_bytes) + 1;
        if (isa == RF_ISA_SCALAR) stream_rows = 2 * window;
        b.w = (rf_tensor){.name = RF_STR("w"),
                          .type = t,
                          .cols = cols,
                          .rows = stream_rows,
                          .planes = 1,
                          .row_bytes = row_bytes,
                          .data = memory};
        make_act(&b, 1);
        double gb = (double)row_bytes / row_seconds(&b, window) * 1e-9;
        free_act(&b);
        b.w.rows = isa == RF_ISA_SCALAR ? 16 : rows;
        make_act(&b, n_act);
        double gops = 2.0 * cols * n_act / row_seconds(&b, b.w.rows) * 1e-9;
        free_act(&b);
        printf("%-10s %-7s %8.2f GB/s %9.2f GOPS\n", info->name, rf_isa_name((rf_isa)isa), gb,
               gops);
        fflush(stdout);
    }
}

static uint32_t number(const char *s, uint32_t most) {
    char *end;
    unsigned long v = strtoul(s, &end, 10);
    if (*s && !*end && v > 0 && v <= most) return (uint32_t)v;
    fprintf(stderr, "bench_mm: '%s' is no number from 1 to %u\n", s, most);
    exit(2);
}

int main(int argc, char **argv) {
    uint32_t cols = argc > 1 ? number(argv[1], 1u << 17) : 2048;
    uint32_t rows = argc > 2 ? number(argv[2], 1u << 12) : 256;
    uint32_t n_act = argc > 3 ? number(argv[3], 1u << 12) : 256;
    rf_dtype only = RF_DT_COUNT;
    if (argc > 4 && !rf_dtype_from_name(rf_str_of(argv[4]), &only)) {
        fprintf(stderr, "bench_mm: no number format is called '%s'\n", argv[4]);
        return 2;
    }
    uint8_t *memory = need(STREAM_BYTES, 1);
    fill_weights(memory, STREAM_BYTES);
    printf("cols %u; T = 1 over %d MB; T = %u over %u rows; reading alone %.2f GB/s\n", cols,
           STREAM_BYTES >> 20, n_act, rows, read_speed(memory));
    for (int t = 0; t < RF_DT_COUNT; t++)
        if (rf_dtype_get((rf_dtype)t)->decode && (only == RF_DT_COUNT || t == (int)only))
            bench_format((rf_dtype)t, cols, rows, n_act, memory);
    rf_free(memory);
    return 0;
}
