/* probe.c - short loops that do one thing as fast as the machine allows; the best run counts, since
 * other work on the machine only ever slows one down. */
#include "base/probe.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/pool.h"

enum {
    READ_BYTES = 256 << 20, /* more than the caches hold */
    READ_PASSES = 2,
    READ_WINDOW = 256 << 10, /* read between two looks at the clock */
    STREAMS = 8,
    MAX_THREADS = 1024,
    WINDOWS = 16,
    WINDOW_US = 2000,
};

typedef struct probe {
    rf_pool *pool;
    uint8_t *memory;
    size_t n_windows; /* of each thread's memory */
    rf_probe_fn work[2];
    double *rate[3]; /* [n_threads] operations per second of work[], bytes per second */
    uint64_t *ns;    /* [n_threads][READ_PASSES * n_windows] */
} probe;

/* Without vector instructions by name, compilers still use those that every such processor has. */
static uint64_t int8_plain(uint32_t steps) {
    enum { N = 1024 };
    int8_t w[N], x[N];
    int32_t sum = 0;
    memset(w, 1, sizeof w);
    memset(x, 2, sizeof x);
    for (uint32_t i = 0; i < steps; i++) {
        __asm__ volatile("" : : "r"(w), "r"(x) : "memory");
        for (int k = 0; k < N; k++)
            sum += w[k] * x[k];
    }
    __asm__ volatile("" : : "r"(sum));
    return (uint64_t)steps * N * 2;
}

static uint64_t f32_plain(uint32_t steps) {
    float s[64] = {0}, w[64] = {0}, x[64] = {0};
    for (uint32_t i = 0; i < steps; i++) {
        __asm__ volatile("" : : "r"(w), "r"(x), "r"(s) : "memory");
        for (int k = 0; k < 64; k++)
            s[k] += w[k] * x[k];
    }
    __asm__ volatile("" : : "r"(s) : "memory");
    return (uint64_t)steps * 64 * 2;
}

static void choose(rf_isa isa, rf_probe_fn work[2]) {
    work[0] = int8_plain;
    work[1] = f32_plain;
#if defined(__x86_64__)
    if (isa == RF_ISA_AVX2) work[0] = rf_probe_int8_avx2, work[1] = rf_probe_f32_avx2;
    if (isa == RF_ISA_AVXVNNI) {
        work[0] = rf_cpu_has_avxvnni() ? rf_probe_int8_avxvnni : rf_probe_int8_avx2;
        work[1] = rf_probe_f32_avx2;
    }
    if (isa >= RF_ISA_AVX512) work[0] = rf_probe_int8_avx512, work[1] = rf_probe_f32_avx512;
    if (isa == RF_ISA_AMX) work[0] = rf_probe_int8_amx;
#elif defined(__aarch64__)
    if (isa != RF_ISA_SCALAR) work[0] = rf_probe_int8_neon, work[1] = rf_probe_f32_neon;
#else
    (void)isa;
#endif
}

static uint64_t time_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Operations per second in the best of some windows of time. */
static double best_rate(rf_probe_fn work) {
    uint32_t steps = 1000;
    double best = 0;
    for (int i = 0; i < WINDOWS;) {
        uint64_t start = rf_time_us(), ops = work(steps), us = rf_time_us() - start;
        if (us < WINDOW_US / 2 && steps < UINT32_MAX / 2) {
            steps *= 2; /* too short to be timed */
            continue;
        }
        double rate = (double)ops / ((double)us * 1e-6);
        best = rate > best ? rate : best;
        i++;
    }
    return best;
}

/* Adds up a window as words, some streams at a time. */
static uint64_t read_window(const uint8_t *p) {
    const size_t stream = READ_WINDOW / STREAMS;
    uint64_t sum[8] = {0};
    for (size_t i = 0; i < stream; i += 64)
        for (size_t j = 0; j < STREAMS; j++) {
            uint64_t v[8];
            memcpy(v, p + j * stream + i, sizeof v);
            for (int k = 0; k < 8; k++)
                sum[k] += v[k];
        }
    for (int k = 1; k < 8; k++)
        sum[0] += sum[k];
    return sum[0];
}

static int by_value(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* All threads read at the same time; a window that was interrupted is none of the fastest fifth. */
static void run(void *ctx, int ith, int n_threads) {
    probe *p = ctx;
    const size_t n = READ_PASSES * p->n_windows;
    uint8_t *own = p->memory + (size_t)ith * p->n_windows * READ_WINDOW;
    uint64_t *ns = p->ns + (size_t)ith * n;
    (void)n_threads;
    for (int i = 0; i < 2; i++)
        p->rate[i][ith] = best_rate(p->work[i]);
    memset(own, ith + 1, p->n_windows * READ_WINDOW);
    rf_pool_barrier(p->pool);
    for (size_t i = 0; i < n; i++) {
        uint64_t start = time_ns(), sum = read_window(own + i % p->n_windows * READ_WINDOW);
        __asm__ volatile("" : : "r"(sum));
        ns[i] = time_ns() - start;
    }
    qsort(ns, n, sizeof *ns, by_value);
    p->rate[2][ith] = READ_WINDOW / ((double)(ns[n / 5] ? ns[n / 5] : 1) * 1e-9);
}

static rf_status measure(probe *p, int n_threads, rf_probe *out, rf_error *e) {
    rf_nodes nodes;
    rf_find_nodes(&nodes);
    RF_TRY(rf_pool_create_on(&p->pool, n_threads, &nodes, e));
    rf_pool_run(p->pool, run, p);
    rf_pool_free(p->pool);
    for (int i = 0; i < n_threads; i++) {
        out->int8_ops += p->rate[0][i];
        out->f32_ops += p->rate[1][i];
        out->read_bytes += p->rate[2][i];
    }
    return RF_OK;
}

rf_status rf_probe_machine(rf_isa isa, int n_threads, rf_probe *out, rf_error *e) {
    *out = (rf_probe){0};
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return rf_fail(e, RF_EARG, "%d threads: expected 1 to %d", n_threads, MAX_THREADS);
    const size_t n = (size_t)n_threads;
    probe p = {.n_windows = READ_BYTES / READ_WINDOW / n + 1};
    choose(isa, p.work);
    p.memory = rf_alloc(n * p.n_windows, READ_WINDOW);
    p.rate[0] = rf_alloc(3 * n, sizeof **p.rate);
    p.ns = rf_alloc(n * READ_PASSES * p.n_windows, sizeof *p.ns);
    rf_status s = RF_OK;
    if (p.memory && p.rate[0] && p.ns) {
        rf_want_huge_pages(p.memory, n * p.n_windows * READ_WINDOW);
        p.rate[1] = p.rate[0] + n;
        p.rate[2] = p.rate[1] + n;
        s = measure(&p, n_threads, out, e);
    } else {
        s = rf_fail_nomem(e, n * p.n_windows * READ_WINDOW);
    }
    rf_free(p.memory);
    rf_free(p.rate[0]);
    rf_free(p.ns);
    return s;
}
