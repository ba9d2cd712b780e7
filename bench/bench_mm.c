/* bench_mm.c - speed of the matrix-product kernels on one core, per format and instruction set.
 *
 * Usage: bench_mm [cols [rows [T,T,... [format [isa]]]]].  One activation row streams more weights
 * than the caches hold: GB/s of weights, and the share of what reading alone reaches.  T rows print
 * GOPS (2 * rows * cols * T operations) and their share of the instruction set's peak (of f32
 * multiply-adds for formats without integers).  All peaks are measured in the same run.  Time is
 * taken over short windows and the best one counts: other work on the machine only ever slows one
 * down. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/kernels.h"
#include "base/probe.h"

enum {
    MIN_WINDOWS = 20,
    MIN_US = 60000,
    STREAM_BYTES = 96 << 20,
    WINDOW_BYTES = 512 << 10,
    CHUNK_ROWS = 64
};

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

/* A few rows of moderate numbers, again and again.  Formats without an encoder get random bytes, whose
 * halves are no Inf or NaN. */
static void fill_weights(uint8_t *p, const rf_dtype_info *info, uint32_t cols, size_t row_bytes) {
    enum { ROWS = 8 };
    const size_t n = (size_t)ROWS * cols, bytes = ROWS * row_bytes;
    float *w = need(n, sizeof *w);
    uint32_t s = 1;
    for (size_t i = 0; i < n; i++)
        w[i] = noise(&s);
    for (size_t i = 0; i < bytes; i++) {
        noise(&s);
        p[i] = (uint8_t)(s >> 24 & 0xbb);
    }
    if (info->encode) info->encode(w, p, n, NULL);
    for (size_t at = bytes; at < STREAM_BYTES; at += bytes)
        memcpy(p + at, p, STREAM_BYTES - at < bytes ? STREAM_BYTES - at : bytes);
    rf_free(w);
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
                           .sum = need(n / 16 + 1, sizeof(int32_t)),
                           .total = need(n / 32 + 1, sizeof(float))};
    if (b->act.view == RF_INT_32) b->kernels->quant_32(x, n, b->act.q, b->act.d, b->act.sum);
    if (b->act.view == RF_INT_256) b->kernels->quant_256(x, n, b->act.q, b->act.d, b->act.sum);
    for (size_t t = 0, of_row = b->w.cols / 32; b->act.view == RF_INT_32 && t < n_rows; t++)
        rf_mm_totals(b->act.d + t * of_row, b->act.sum + t * of_row, of_row,
                     b->act.total + t * of_row);
    if (rf_act_wants_blocks(b->kernels, b->act.view, n_rows)) {
        b->act.blocks =
            need(rf_act_n_blocks(b->act.view, n_rows), rf_act_block_bytes(b->act.view, b->w.cols));
        rf_act_lay_out(b->kernels, &b->act, 0, n_rows, 0, b->act.n_cols);
    }
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
    rf_free(b->act.total);
    rf_free(b->act.blocks);
    rf_free(b->dst);
    rf_free(b->scratch);
}

/* Windows may take only a few microseconds. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds per output row: the best of windows of `window` rows, for MIN_WINDOWS of them and MIN_US. */
static double row_seconds(const bench *b, uint32_t window) {
    rf_mm mm = {.w = &b->w, .act = &b->act, .dst = b->dst, .dst_stride = b->w.rows};
    double best = 1e9;
    uint64_t first = rf_time_us();
    uint32_t begin = 0;
    for (int i = 0; i < MIN_WINDOWS || rf_time_us() - first < MIN_US; i++) {
        if (b->w.rows - begin < window) begin = 0;
        uint32_t end = begin + window;
        double start = now();
        for (uint32_t r = begin; r < end; r += CHUNK_ROWS)
            b->kernels->matmul(&mm, r, end - r < CHUNK_ROWS ? end : r + CHUNK_ROWS, b->scratch);
        double s = (now() - start) / window;
        best = s < best ? s : best;
        begin = end;
    }
    return best;
}

enum { MAX_COUNTS = 32 };

typedef struct options {
    uint32_t cols, rows, counts[MAX_COUNTS], n_counts;
    rf_dtype format; /* RF_DT_COUNT: all */
    rf_isa isa;      /* RF_ISA_COUNT: all */
    uint8_t *memory;
} options;

static void bench_format(rf_dtype t, rf_isa isa, const options *o, const rf_probe *peak) {
    const rf_dtype_info *info = rf_dtype_get(t);
    bench b = {.kernels = rf_cpu_kernels_get(isa)};
    size_t row_bytes;
    if (!rf_dtype_bytes(t, o->cols, &row_bytes)) return;
    uint32_t window = (uint32_t)(WINDOW_BYTES / row_bytes) + 1;
    fill_weights(o->memory, info, o->cols, row_bytes);
    b.w = (rf_tensor){.name = RF_STR("w"),
                      .type = t,
                      .cols = o->cols,
                      .rows =
                          isa == RF_ISA_SCALAR ? 2 * window : (uint32_t)(STREAM_BYTES / row_bytes),
                      .planes = 1,
                      .row_bytes = row_bytes,
                      .data = o->memory};
    make_act(&b, 1);
    double speed = (double)row_bytes / row_seconds(&b, window);
    free_act(&b);
    printf("%-10s %-7s %7.2f GB/s (%3.0f %%)", info->name, rf_isa_name(isa), speed * 1e-9,
           100 * speed / peak->read_bytes);
    b.w.rows = isa == RF_ISA_SCALAR ? 16 : o->rows;
    for (uint32_t i = 0; i < o->n_counts; i++) {
        make_act(&b, o->counts[i]);
        double ops = 2.0 * o->cols * o->counts[i] / row_seconds(&b, b.w.rows);
        double most = info->view == RF_INT_NONE ? peak->f32_ops : peak->int8_ops;
        free_act(&b);
        printf("  %u: %.1f (%.0f %%)", o->counts[i], ops * 1e-9, 100 * ops / most);
    }
    printf("\n");
    fflush(stdout);
}

static uint32_t number(const char *s, uint32_t most) {
    char *end;
    unsigned long v = strtoul(s, &end, 10);
    if (*s && !*end && v > 0 && v <= most) return (uint32_t)v;
    fprintf(stderr, "bench_mm: '%s' is no number from 1 to %u\n", s, most);
    exit(2);
}

static void read_counts(options *o, char *list) {
    for (char *s = strtok(list, ","); s && o->n_counts < MAX_COUNTS; s = strtok(NULL, ","))
        o->counts[o->n_counts++] = number(s, 1u << 12);
}

static void read_names(options *o, int argc, char **argv) {
    if (argc > 4 && strcmp(argv[4], "all") != 0 &&
        !rf_dtype_from_name(rf_str_of(argv[4]), &o->format)) {
        fprintf(stderr, "bench_mm: no number format is called '%s'\n", argv[4]);
        exit(2);
    }
    if (argc <= 5) return;
    o->isa = RF_ISA_SCALAR;
    while (o->isa <= rf_isa_best() && strcmp(rf_isa_name(o->isa), argv[5]) != 0)
        o->isa++;
    if (o->isa <= rf_isa_best()) return;
    fprintf(stderr, "bench_mm: this CPU has no '%s'\n", argv[5]);
    exit(2);
}

int main(int argc, char **argv) {
    char usual[] = "4,8,64";
    options o = {.cols = 2048, .rows = 64, .format = RF_DT_COUNT, .isa = RF_ISA_COUNT};
    if (argc > 1) o.cols = number(argv[1], 1u << 17);
    if (argc > 2) o.rows = number(argv[2], 1u << 12);
    read_counts(&o, argc > 3 ? argv[3] : usual);
    read_names(&o, argc, argv);
    uint8_t *memory = need(STREAM_BYTES, 1);
    o.memory = memory;
    for (int isa = RF_ISA_SCALAR; isa <= (int)rf_isa_best(); isa++) {
        rf_probe peak;
        rf_error e = {0};
        if (o.isa != RF_ISA_COUNT && isa != (int)o.isa) continue;
        if (rf_probe_machine((rf_isa)isa, 1, &peak, &e) != RF_OK) {
            fprintf(stderr, "bench_mm: %s\n", e.text);
            return 1;
        }
        printf("%s: cols %u, rows %u; peaks: read %.2f GB/s, int8 %.0f GOPS, f32 %.0f GFLOPS\n",
               rf_isa_name((rf_isa)isa), o.cols, o.rows, peak.read_bytes * 1e-9,
               peak.int8_ops * 1e-9, peak.f32_ops * 1e-9);
        for (int t = 0; t < RF_DT_COUNT; t++)
            if (rf_dtype_get((rf_dtype)t)->decode &&
                (o.format == RF_DT_COUNT || t == (int)o.format))
                bench_format((rf_dtype)t, (rf_isa)isa, &o, &peak);
    }
    rf_free(memory);
    return 0;
}
