/* bench_attend.c - speed of attention on one core, per shape, format of the KV cache and instruction
 * set.
 *
 * Usage: bench_attend [keys [format [isa]]].  A group of 32 rows (a prompt) reads keys and values that
 * the caches hold and prints GFLOPS (2 * keys * (key + value columns) per query) and the share of the
 * peak; one row (generation) reads a pool larger than the caches and prints GB/s as well.  The best of
 * many windows counts: other work on the machine only ever slows one down. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/attend.h"
#include "base/fmath.h"
#include "base/os.h"
#include "base/probe.h"

enum { MIN_WINDOWS = 12, MIN_US = 60000, POOL_BYTES = 96 << 20, MAX_KEYS = 1 << 16, MAX_ROWS = 32 };

/* Query heads that share a KV head, columns of keys and values; latent: values lie in the keys. */
typedef struct shape {
    uint32_t n_q, head_dim, value_dim;
    bool latent;
} shape;

typedef struct bench {
    rf_attend a;
    uint32_t n_blocks; /* of the pool */
    uint32_t *table;   /* [n_blocks] */
    uint8_t *pool;
    float *q, *dst;
    uint32_t pos[MAX_ROWS];
} bench;

static void *need(size_t n, size_t size) {
    void *p = rf_alloc(n, size);
    if (p) return p;
    fprintf(stderr, "bench_attend: no memory for %zu x %zu bytes\n", n, size);
    exit(1);
}

/* Of this thread's own time: a call may take longer than the system lets it run at a stretch. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t next(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* Numbers of every format that are neither Inf nor NaN nor so small that processors slow down. */
static void fill_pool(uint8_t *pool, rf_dtype type, uint32_t *seed) {
    for (size_t i = 0; i < POOL_BYTES; i += 4) {
        float f = (float)(int32_t)next(seed) * 0x1p-31f;
        uint16_t half[2] = {rf_f32_to_bf16(f), rf_f32_to_bf16(-f)};
        uint32_t bits = next(seed) >> 2 & 0xbbbbbbbb;
        if (type == RF_DT_F32)
            memcpy(pool + i, &f, sizeof f);
        else if (type == RF_DT_BF16)
            memcpy(pool + i, half, sizeof half);
        else
            memcpy(pool + i, &bits, sizeof bits);
    }
}

/* A pool of blocks of keys and then values, in any order, and queries. */
static void make(bench *b, const shape *s, rf_dtype type, uint32_t keys) {
    rf_attend *a = &b->a;
    uint32_t seed = 1;
    size_t k_bytes = rf_kv_head_bytes(type, s->head_dim) * RF_KV_BLOCK;
    size_t v_bytes = s->latent ? 0 : rf_kv_head_bytes(type, s->value_dim) * RF_KV_BLOCK;
    b->n_blocks = (uint32_t)(POOL_BYTES / (k_bytes + v_bytes));
    fill_pool(b->pool, type, &seed);
    b->table = need(b->n_blocks, sizeof *b->table);
    for (uint32_t i = 0; i < b->n_blocks; i++)
        b->table[i] = i;
    for (uint32_t i = b->n_blocks; i > 1; i--) {
        uint32_t j = (next(&seed) >> 8) % i, t = b->table[i - 1];
        b->table[i - 1] = b->table[j];
        b->table[j] = t;
    }
    size_t n_q = (size_t)MAX_ROWS * s->n_q * s->head_dim;
    b->q = need(n_q, sizeof *b->q);
    for (size_t i = 0; i < n_q; i++)
        b->q[i] = (float)(int32_t)next(&seed) * 0x1p-34f;
    b->dst = need((size_t)MAX_ROWS * s->n_q * s->value_dim, sizeof *b->dst);
    *a = (rf_attend){.q = b->q,
                     .dst = b->dst,
                     .q_stride = (size_t)s->n_q * s->head_dim,
                     .dst_stride = (size_t)s->n_q * s->value_dim,
                     .n_q = s->n_q,
                     .head_dim = s->head_dim,
                     .value_dim = s->value_dim,
                     .k_type = type,
                     .v_type = type,
                     .k = b->pool,
                     .v = s->latent ? b->pool : b->pool + k_bytes,
                     .k_block = k_bytes + v_bytes,
                     .k_row = k_bytes / RF_KV_BLOCK,
                     .v_block = k_bytes + v_bytes,
                     .v_row = (s->latent ? k_bytes : v_bytes) / RF_KV_BLOCK,
                     .pattern = {RF_ATTN_CAUSAL, 0, 0},
                     .pos = b->pos,
                     .kv_len = keys,
                     .scale = 0.125f};
    a->scratch = need(rf_attend_scratch_bytes(s->head_dim, s->value_dim), 1);
}

static void release(bench *b) {
    rf_free(b->table);
    rf_free(b->q);
    rf_free(b->dst);
    rf_free(b->a.scratch);
}

/* Seconds of a call, the best of many; through: each call goes on in the pool behind the last one. */
static double seconds(bench *b, const rf_cpu_kernels *k, bool through) {
    uint32_t at = 0, n = b->a.kv_len / RF_KV_BLOCK;
    double best = 1e9;
    uint64_t first = rf_time_us();
    for (int i = 0; i < MIN_WINDOWS || rf_time_us() - first < MIN_US; i++) {
        b->a.table = b->table + at;
        double start = now();
        k->attend(&b->a);
        double s = now() - start;
        best = s < best ? s : best;
        if (through) at = at + 2 * n > b->n_blocks ? 0 : at + n;
    }
    return best;
}

static void bench_shape(const shape *s, rf_dtype type, rf_isa isa, uint32_t keys,
                        const rf_probe *peak, uint8_t *pool) {
    const rf_cpu_kernels *k = rf_cpu_kernels_get(isa);
    bench b = {.pool = pool};
    make(&b, s, type, keys);
    double ops = 2.0 * keys * (s->head_dim + s->value_dim) * s->n_q;
    printf("%-8s %-7s %2u x %3u/%-3u", rf_dtype_get(type)->name, rf_isa_name(isa), s->n_q,
           s->head_dim, s->value_dim);
    for (uint32_t rows = MAX_ROWS; rows; rows = rows == 1 ? 0 : 1) {
        for (uint32_t r = 0; r < rows; r++)
            b.pos[r] = keys - rows + r;
        b.a.n_rows = rows;
        double t = seconds(&b, k, rows == 1);
        printf("  %u: %6.1f (%2.0f %%)", rows, ops * rows / t * 1e-9,
               100 * ops * rows / t / peak->f32_ops);
        if (rows > 1) continue;
        double bytes = (double)b.a.k_block * keys / RF_KV_BLOCK;
        printf(" %6.2f GB/s (%2.0f %%)\n", bytes / t * 1e-9, 100 * bytes / t / peak->read_bytes);
    }
    fflush(stdout);
    release(&b);
}

int main(int argc, char **argv) {
    static const shape shapes[] = {
        {7, 64, 64, false}, {4, 128, 128, false}, {1, 128, 128, false}, {16, 576, 512, true}};
    static const rf_dtype types[] = {RF_DT_F16, RF_DT_BF16, RF_DT_Q8_0, RF_DT_Q4_0, RF_DT_F32};
    uint32_t keys =
        argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) / RF_KV_BLOCK * RF_KV_BLOCK : 1024;
    if (keys < MAX_ROWS || keys > MAX_KEYS) {
        fprintf(stderr, "bench_attend: from %d to %d keys\n", MAX_ROWS, MAX_KEYS);
        return 2;
    }
    uint8_t *pool = need(POOL_BYTES, 1);
    rf_want_huge_pages(pool, POOL_BYTES); /* as the engine does for its cache */
    for (int isa = RF_ISA_SCALAR + 1; isa <= (int)rf_isa_best(); isa++) {
        rf_probe peak;
        rf_error e = {0};
        if (argc > 3 && strcmp(rf_isa_name((rf_isa)isa), argv[3]) != 0) continue;
        if (rf_probe_machine((rf_isa)isa, 1, &peak, &e) != RF_OK) {
            fprintf(stderr, "bench_attend: %s\n", e.text);
            return 1;
        }
        printf("%s: %u keys; peaks: read %.2f GB/s, f32 %.0f GFLOPS\n", rf_isa_name((rf_isa)isa),
               keys, peak.read_bytes * 1e-9, peak.f32_ops * 1e-9);
        for (size_t t = 0; t < RF_COUNT(types); t++)
            for (size_t s = 0; s < RF_COUNT(shapes); s++)
                if (argc <= 2 || strcmp(argv[2], "all") == 0 ||
                    strcmp(rf_dtype_get(types[t])->name, argv[2]) == 0)
                    bench_shape(&shapes[s], types[t], (rf_isa)isa, keys, &peak, pool);
    }
    rf_free(pool);
    return 0;
}
