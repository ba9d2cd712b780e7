/* mm_wide.hip - products of K formats' weights with very many activation rows, on Hopper's matrix
 * units; elsewhere mm_tile.hip has the work.
 *
 * A block has 128 weight rows by 128 activation rows.  Each four warps have 64 of the weight
 * rows; four more warps bring weights and activations into a ring of stages of 256 columns.  The
 * products of all columns of a stage with the upper digits of the weights (digits.h), moved up, then
 * those with the lower digits onto them, are the group's exact integer. */
#include "backend/gpu/kernels/digits.h"
#include "backend/gpu/kernels/hopper.h"
#include "backend/gpu/tile.h"

#if defined(RF_HOPPER)
enum {
    WIDE_FETCHERS = 128, /* threads, behind those that multiply */
    WIDE_CHUNKS = 8,
};

/* What is constant in a kernel. */
typedef struct wide_kind {
    int hi_bits;
    uint32_t n_scales, with_m;
    uint32_t rows, cols; /* of a block: weight rows, activation rows */
    rf_wide_parts at;
} wide_kind;

/* Threads that multiply. */
RF_DEVICE uint32_t wide_workers(wide_kind k) { return 2 * k.rows; }

typedef struct wide_shared {
    uint64_t full[RF_WIDE_STAGES], empty[RF_WIDE_STAGES];
    uint32_t row[RF_WIDE_COLS]; /* where each activation row starts, in 16 columns */
} wide_shared;

/* Fetching --------------------------------------------------------------------------------------*/

/* A tile of 32 weight rows: the part of a stage that a warp fetches besides activation rows. */
typedef struct wide_source {
    const uint8_t *lo, *hi, *d, *m, *scale, *min;
} wide_source;

/* Tile number i of the block; with is_glu the second half of them is of the second matrix. */
RF_DEVICE wide_source wide_source_of(const rf_gpu_matmul_args *a, const mm_share *share,
                                     wide_kind k, uint32_t i) {
    const rf_gpu_weight *w = a->is_glu && 2 * i >= k.rows / 32 ? &a->part[1].w : &share->p.w;
    const uint32_t n_tiles = rf_div_up(w->rows, RF_GPU_TILE_ROWS),
                   per_block = k.rows / (a->is_glu ? 64 : 32);
    const uint32_t tile = rf_min_u32(share->tile * per_block + i % per_block, n_tiles - 1);
    const uint64_t n_groups = w->cols / 256;
    const uint64_t first = ((uint64_t)share->plane * n_tiles + tile) * n_groups;
    wide_source s;
    s.lo = (const uint8_t *)w->lo + first * 4096;
    s.hi = (const uint8_t *)w->hi + first * 1024 * (uint32_t)k.hi_bits;
    s.d = (const uint8_t *)w->d + first * 64;
    s.m = (const uint8_t *)w->m + first * 64;
    s.scale = (const uint8_t *)w->scale + first * 32 * k.n_scales;
    s.min = (const uint8_t *)w->min + first * 32 * k.n_scales;
    return s;
}

/* n pieces of 16 bytes by one warp. */
RF_DEVICE void wide_copy(uint8_t *to, const uint8_t *from, uint32_t lane, uint32_t n) {
    RF_UNROLL
    for (uint32_t i = 0; i < n; i += 32)
        if (n - i >= 32 || lane < n - i) rf_copy_16(to + (i + lane) * 16, from + (i + lane) * 16);
}

/* The warp's tile of group g. */
RF_DEVICE void wide_fetch_weights(uint8_t *stage, const wide_source *s, wide_kind k, uint32_t i,
                                  uint32_t lane, uint64_t g) {
    const uint32_t lo = 4096, hi = 1024 * (uint32_t)k.hi_bits, scales = 32 * k.n_scales;
    wide_copy(stage + k.at.lo + i * lo, s->lo + g * lo, lane, lo / 16);
    if (k.hi_bits) wide_copy(stage + k.at.hi + i * hi, s->hi + g * hi, lane, hi / 16);
    wide_copy(stage + k.at.scale + i * scales, s->scale + g * scales, lane, scales / 16);
    wide_copy(stage + k.at.d + i * 64, s->d + g * 64, lane, 4);
    if (!k.with_m) return;
    wide_copy(stage + k.at.min + i * scales, s->min + g * scales, lane, scales / 16);
    wide_copy(stage + k.at.m + i * 64, s->m + g * 64, lane, 4);
}

/* A quarter of the activation rows of group g. */
RF_DEVICE void wide_fetch_rows(uint8_t *stage, const wide_shared *sh, const rf_gpu_quant *x,
                               wide_kind k, uint32_t i, uint32_t lane, uint32_t g) {
    const uint32_t piece = lane % 16, panel = piece / 8 * 128 * k.cols;
    const uint8_t *q = (const uint8_t *)x->q + g * 256 + piece * 16;
    RF_UNROLL
    for (uint32_t j = 0; j < k.cols / 4; j += 2) {
        const uint32_t col = k.cols / 4 * i + j + lane / 16;
        rf_copy_16(stage + k.at.q + panel + col * 128 + ((piece ^ col) & 7) * 16,
                   q + sh->row[col] * 16ull);
    }
    const uint32_t col = k.cols / 4 * i + lane;
    if (lane < k.cols / 4) rf_copy_4(stage + k.at.xd + col * 4, x->d + (sh->row[col] / 16 + g));
}

/* The sums of 32 of an activation row: four times two of them (digits.h). */
RF_DEVICE void wide_put_sums(uint8_t *to, const rf_u4 sum[4]) {
    RF_UNROLL
    for (int i = 0; i < 4; i += 2) {
        const rf_u2 first = digit_two_sums(sum[i]), second = digit_two_sums(sum[i + 1]);
        const rf_u4 both = {{first.v[0], first.v[1], second.v[0], second.v[1]}};
        ((rf_u4 *)(void *)to)[i / 2] = both;
    }
}

/* All groups, by the fetching threads. */
RF_DEVICE void wide_fetch(uint8_t *stages, wide_shared *sh, const rf_gpu_matmul_args *a,
                          const mm_share *share, wide_kind k) {
    const uint32_t tid = rf_tid() - wide_workers(k), warp = tid / 32, lane = tid % 32;
    const uint32_t n_groups = share->p.w.cols / 256;
    const int has_tile = warp < k.rows / 32, has_sums = k.with_m && tid < k.cols;
    const wide_source from = wide_source_of(a, share, k, has_tile ? warp : 0);
    const rf_u4 *sums = (const rf_u4 *)(const void *)(a->xq.sum + sh->row[has_sums ? tid : 0]);
    uint32_t now = 0, parity = 1;
    RF_NO_UNROLL
    for (uint32_t g = 0; g < n_groups; g++) {
        rf_u4 sum[4];
        uint8_t *stage = stages + now * k.at.bytes;
        if (has_sums) {
            RF_UNROLL
            for (int i = 0; i < 4; i++)
                sum[i] = sums[4 * g + (uint32_t)i];
        }
        hopper_await(&sh->empty[now], parity);
        if (has_tile) wide_fetch_weights(stage, &from, k, warp, lane, g);
        wide_fetch_rows(stage, sh, &a->xq, k, warp, lane, g);
        hopper_arrive_copied(&sh->full[now]);
        if (has_sums) wide_put_sums(stage + k.at.sum + tid * 32, sum);
        hopper_arrive(&sh->full[now]);
        if (++now == RF_WIDE_STAGES) {
            now = 0;
            parity ^= 1;
        }
    }
    rf_copy_wait();
}

/* Multiplying -----------------------------------------------------------------------------------*/

/* A thread's place: rows g and g + 8 of sixteen of a tile, word t of four. */
typedef struct wide_place {
    uint32_t tile, row; /* of four; of 32, its first */
    uint32_t g, t;
} wide_place;

/* The scales of a thread's two rows. */
typedef struct wide_scales {
    rf_u4 v[2];
} wide_scales;

RF_DEVICE rf_u4 wide_bytes(const uint8_t *part, const wide_place *at, wide_kind k, uint32_t i) {
    const uint8_t *p = part + (at->tile * 32 + at->row + 8 * i) * k.n_scales;
    if (k.n_scales == 16) return *(const rf_u4 *)(const void *)p;
    const rf_u2 v = *(const rf_u2 *)(const void *)p;
    const rf_u4 out = {{v.v[0], v.v[1], 0, 0}};
    return out;
}

/* The left sides of four products: one digit of half of a stage's columns. */
typedef struct wide_left {
    uint32_t v[WIDE_CHUNKS / 2][4];
} wide_left;

RF_DEVICE void wide_unpack(wide_left *out, const uint8_t *stage, const wide_place *at, wide_kind k,
                           const wide_scales *s, uint32_t half, int is_upper) {
    RF_UNROLL
    for (uint32_t c = 0; c < WIDE_CHUNKS / 2; c++) {
        const uint32_t chunk = WIDE_CHUNKS / 2 * half + c;
        RF_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t n = (at->tile * WIDE_CHUNKS + chunk) * 32 + at->row + 8 * i;
            const uint32_t lo = ((const uint32_t *)(const void *)(stage + k.at.lo))[n * 4 + at->t];
            const rf_u2 hi = digit_high_bits(stage + k.at.hi, k.hi_bits, n);
            uint32_t first, second, number = k.n_scales == 16 ? 2 * chunk : chunk;
            digit_words(lo, hi, k.hi_bits, at->t, &first, &second);
            out->v[c][i] = digit_of(first, digit_byte(&s->v[i], number), k.hi_bits, is_upper);
            number += k.n_scales == 16;
            out->v[c][2 + i] = digit_of(second, digit_byte(&s->v[i], number), k.hi_bits, is_upper);
        }
    }
}

/* Begins their products, onto p or, the first ones of a stage, as p. */
RF_DEVICE void wide_begin(int32_t p[64], const wide_left *w, const uint8_t *stage, wide_kind k,
                          uint32_t half, int is_upper) {
    const uint32_t x = rf_shared_at(stage + k.at.q);
    hopper_hold(p);
    hopper_begin();
    RF_UNROLL
    for (uint32_t c = 0; c < WIDE_CHUNKS / 2; c++)
        hopper_multiply(p, w->v[c], hopper_chunk(x, WIDE_CHUNKS / 2 * half + c),
                        !DIGIT_OF_PRODUCT(k.hi_bits) || !is_upper, !is_upper || half || c);
    hopper_end();
}

RF_DEVICE void wide_end(int32_t p[64]) {
    hopper_wait_but(0);
    hopper_hold(p);
}

/* A group's integers onto the sums. */
RF_DEVICE void wide_add(float v[64], const int32_t p[64], const uint8_t *stage,
                        const wide_place *at, wide_kind k) {
    float d[2], m[2] = {0.0f, 0.0f};
    uint32_t mins[2] = {0, 0};
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t n = at->tile * 32 + at->row + 8 * i;
        d[i] = rf_f16_at(((const uint16_t *)(const void *)(stage + k.at.d))[n]);
        if (!k.with_m) continue;
        m[i] = rf_f16_at(((const uint16_t *)(const void *)(stage + k.at.m))[n]);
        mins[i] = digit_two_mins((const int8_t *)stage + k.at.min + n * 8 + 2 * at->t);
    }
    RF_UNROLL
    for (uint32_t n = 0; n < k.cols / 8; n++) {
        const rf_f2 xd = ((const rf_f2 *)(const void *)(stage + k.at.xd))[4 * n + at->t];
        float of_mins[4];
        if (k.with_m)
            digit_multiply_mins(
                of_mins, mins,
                ((const rf_u2 *)(const void *)(stage + k.at.sum))[(8 * n + at->g) * 4 + at->t]);
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            float *sum = &v[4 * n + i];
            const int32_t exact = digit_total(p[4 * n + i], k.hi_bits);
            *sum = rf_fma((float)exact, d[i / 2] * xd.v[i % 2], *sum);
            if (k.with_m) *sum = rf_fma(of_mins[i], m[i / 2] * xd.v[i % 2], *sum);
        }
    }
}

/* Waits for a stage and makes its first left sides. */
RF_DEVICE void wide_enter(wide_left *w, wide_scales *scales, const uint8_t *stage, uint64_t *full,
                          uint32_t parity, const wide_place *at, wide_kind k) {
    hopper_await(full, parity);
    hopper_publish();
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        scales->v[i] = wide_bytes(stage + k.at.scale, at, k, i);
    wide_unpack(w, stage, at, k, scales, 0, 1);
}

/* All groups, by the multiplying threads: left sides are made while the products before them run. */
RF_DEVICE void wide_work(float v[64], const uint8_t *stages, wide_shared *sh, wide_kind k,
                         const wide_place *at, uint32_t n_groups) {
    uint32_t now = 0, parity = 0;
    int32_t p[64];
    wide_left w;
    wide_scales scales;
    RF_UNROLL
    for (uint32_t i = 0; i < 64; i++) {
        v[i] = 0.0f;
        p[i] = 0;
    }
    wide_enter(&w, &scales, stages, &sh->full[0], 0, at, k);
    RF_NO_UNROLL
    for (uint32_t g = 0; g < n_groups; g++) {
        const uint8_t *stage = stages + now * k.at.bytes;
        const uint32_t next = now + 1 == RF_WIDE_STAGES ? 0 : now + 1;
        wide_left other;
        wide_begin(p, &w, stage, k, 0, 1);
        wide_unpack(&other, stage, at, k, &scales, 1, 1);
        wide_begin(p, &other, stage, k, 1, 1);
        hopper_wait_but(1);
        wide_unpack(&w, stage, at, k, &scales, 0, 0);
        wide_end(p);
        RF_UNROLL
        for (uint32_t i = 0; i < k.cols / 2; i++)
            p[i] = (int32_t)((uint32_t)p[i] << DIGIT_SHIFT(k.hi_bits));
        wide_begin(p, &w, stage, k, 0, 0);
        wide_unpack(&other, stage, at, k, &scales, 1, 0);
        wide_begin(p, &other, stage, k, 1, 0);
        hopper_wait_but(1);
        parity ^= next == 0;
        if (g + 1 < n_groups)
            wide_enter(&w, &scales, stages + next * k.at.bytes, &sh->full[next], parity, at, k);
        wide_end(p);
        wide_add(v, p, stage, at, k);
        hopper_arrive(&sh->empty[now]);
        now = next;
    }
}

/* The block's outputs, through shared memory so that neighbouring threads write neighbours. */
RF_DEVICE void wide_put(float *out, const float v[64], const wide_place *at,
                        const rf_gpu_matmul_args *a, const mm_share *share, wide_kind k,
                        uint32_t rows) {
    const uint32_t stride = k.rows + 4;
    hopper_sync_some(wide_workers(k));
    RF_UNROLL
    for (uint32_t i = 0; i < k.cols / 2; i++) {
        const uint32_t col = i / 4 * 8 + at->t * 2 + i % 2;
        out[col * stride + at->tile * 32 + at->row + i % 4 / 2 * 8] = v[i];
    }
    hopper_sync_some(wide_workers(k));
    const uint32_t first = share->tile * rows, lane = rf_tid() % 32;
    RF_NO_UNROLL
    for (uint32_t t = rf_tid() / 32; t < share->n; t += wide_workers(k) / 32) {
        const uint32_t dst_row = dst_row_of(a, share, t);
        const float *of_row = out + t * stride;
        RF_UNROLL_4
        for (uint32_t i = lane; i < rows; i += 32) {
            if (first + i >= share->p.w.rows) break;
            if (a->is_glu)
                put_output(a, share, dst_row, first + i, of_row[i], of_row[rows + i]);
            else
                put_output(a, share, dst_row, first + i, 0.0f, of_row[i]);
        }
    }
}

RF_DEVICE void wide_run(const rf_gpu_matmul_args *a, wide_kind k) {
    wide_shared *sh = (wide_shared *)(void *)rf_dynamic_shared;
    uint8_t *stages =
        rf_dynamic_shared + RF_WIDE_HEAD - (rf_shared_at(rf_dynamic_shared) & (RF_WIDE_ALIGN - 1));
    const uint32_t rows = a->is_glu ? k.rows / 2 : k.rows, tid = rf_tid();
    const mm_share share = share_at(a, rows, k.cols, rf_bid_z(), rf_bid_x());
    if (share.n == 0) return;
    if (tid < k.cols)
        sh->row[tid] =
            (uint32_t)((uint64_t)x_row_of(a, dst_row_of(a, &share, tid)) * share.p.w.cols / 16);
    if (tid < RF_WIDE_STAGES) {
        hopper_barrier_init(&sh->full[tid], 2 * WIDE_FETCHERS); /* copies and sums */
        hopper_barrier_init(&sh->empty[tid], wide_workers(k));
    }
    rf_sync();
    if (tid >= wide_workers(k)) {
        hopper_40_registers();
        wide_fetch(stages, sh, a, &share, k);
        return;
    }
    hopper_232_registers(); /* of 168 that all threads had */
    wide_place at;
    at.tile = tid / 64;
    at.g = tid % 32 / 4;
    at.row = tid / 32 % 2 * 16 + at.g;
    at.t = tid % 4;
    float v[64];
    wide_work(v, stages, sh, k, &at, share.p.w.cols / 256);
    wide_put((float *)(void *)stages, v, &at, a, &share, k, rows);
}

#define WIDE_KERNEL(hi_bits, n_scales, with_m)                                              \
    RF_KERNEL_ALONE(wide_256_4##hi_bits, rf_gpu_matmul_args) {                              \
        const wide_kind kind = {hi_bits,      n_scales,                                     \
                                with_m,       RF_WIDE_ROWS,                                 \
                                RF_WIDE_COLS, rf_wide_parts_of(hi_bits, n_scales, with_m)}; \
        wide_run(&a, kind);                                                                 \
    }
WIDE_KERNEL(0, 8, 1)
WIDE_KERNEL(1, 8, 1)
WIDE_KERNEL(2, 16, 0)
#endif
