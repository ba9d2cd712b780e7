/* mm_one.hip - products of integer weights with one activation row, bound by reading the weights.
 *
 * A block has one tile of 32 weight rows, or with a GLU half a tile of either matrix, and 8 or 16 parts
 * of 32 threads, one per row; a part takes a stretch of the columns in each round.  All loads of a round are on their way before the first is
 * used, those of the first round before the kernel in front has ended.  A part leaves the exact
 * integers of its groups and their scales in shared memory, where one thread per row adds them in
 * order while the next round's loads are on their way. */
#include "backend/gpu/kernels/mm.h"

enum { ONE_MOST_PARTS = 16 };

/* Chunks of 32 columns of a part in a round, groups of a part. */
#define ONE_CHUNKS(view) ((view) == 256 ? 8u : 4u)
#define ONE_GROUPS(view) ((view) == 256 ? 1u : 4u)

/* A term of a sum: i * d. */
typedef struct one_term {
    float i, d;
} one_term;

/* The activations of a round. */
typedef struct one_rows {
    rf_u4 q[ONE_MOST_PARTS * 16];
    rf_u4 sum[ONE_MOST_PARTS * 4];
    float d[ONE_MOST_PARTS * 4];
} one_rows;

/* Where a thread's tile and activations are. */
typedef struct one_place {
    rf_gpu_weight w;
    uint64_t tile;                /* over planes and tiles */
    uint32_t n_groups, row, part; /* row: of the tile */
    uint32_t n_terms;             /* per group: 2 with minima */
} one_place;

/* What a part reads of the weights in one round, as it lies in memory. */
typedef struct one_loads {
    mm_raw raw[8];
    rf_u4 scale, min; /* the first half where 8 bytes hold them */
    uint32_t d[4], m[4];
} one_loads;

RF_DEVICE rf_u4 load_bytes(const int8_t *p, uint32_t n, uint64_t at) {
    if (n == 16) return ((const rf_u4 *)(const void *)p)[at];
    const rf_u2 v = ((const rf_u2 *)(const void *)p)[at];
    const rf_u4 out = {{v.v[0], v.v[1], 0, 0}};
    return out;
}

/* Bits of d or m number i. */
RF_DEVICE uint32_t load_scale(const void *p, uint64_t i, uint32_t is_f32) {
    return is_f32 ? ((const uint32_t *)p)[i] : ((const uint16_t *)p)[i];
}
RF_DEVICE float scale_of(uint32_t bits, uint32_t is_f32) {
    return is_f32 ? rf_float_of(bits) : rf_f16_at((uint16_t)bits);
}

/* The sixteen scales in order; where neighbours share one, it is there twice. */
RF_DEVICE rf_u4 all_scales(rf_u4 s, uint32_t n) {
    if (n == 16) return s;
    rf_u4 out;
    RF_UNROLL
    for (int i = 0; i < 4; i++) {
        const uint32_t two = s.v[i / 2] >> 16 * (i % 2) & 0xffffu;
        out.v[i] = (two & 0xffu) * 0x0101u + (two >> 8) * 0x01010000u;
    }
    return out;
}

/* Groups from number first on; those behind the last are the last. */
RF_DEVICE void one_load(one_loads *r, const one_place *at, int view, int lo_bits, int hi_bits,
                        uint32_t first) {
    const uint32_t last = at->n_groups - 1;
    RF_UNROLL
    for (uint32_t i = 0; i < ONE_GROUPS(view); i++) {
        const uint64_t group = at->tile * at->n_groups + rf_min_u32(first + i, last);
        const uint64_t own = group * 32 + at->row;
        const uint32_t per = ONE_CHUNKS(view) / ONE_GROUPS(view);
        if (view == 256) {
            r->scale = load_bytes(at->w.scale, at->w.n_scales, own);
            if (at->w.min) r->min = load_bytes(at->w.min, at->w.n_scales, own);
        }
        r->d[i] = load_scale(at->w.d, own, at->w.d_f32);
        r->m[i] = at->w.m ? load_scale(at->w.m, own, at->w.d_f32) : 0;
        RF_UNROLL
        for (uint32_t c = 0; c < per; c++)
            r->raw[i * per + c] = load_chunk(&at->w, lo_bits, hi_bits, group * per + c, at->row);
    }
}

/* Activations of the round that starts with group first, on their way. */
RF_DEVICE void one_stage(one_rows *to, const rf_gpu_quant *x, uint64_t row, uint32_t n_groups,
                         int view, uint32_t n_round, uint32_t first) {
    const uint32_t n = rf_min_u32(n_groups - first, n_round), tid = rf_tid();
    const uint32_t sums = view == 256 ? 16 : 1;
    const uint64_t at = row * n_groups + first;
    if (tid < n * (uint32_t)view / 16)
        rf_copy_16(to->q + tid, x->q + at * (uint32_t)view + 16 * tid);
    if (tid < n * sums) rf_copy_4((int32_t *)to->sum + tid, x->sum + at * sums + tid);
    if (tid < n) rf_copy_4(to->d + tid, x->d + at + tid);
}

RF_DEVICE void one_dot(const mm_raw *raw, int lo_bits, int hi_bits, const rf_u4 *q, int32_t *first,
                       int32_t *second) {
    const rf_u4 x0 = q[0], x1 = q[1];
    *first = *second = 0;
    RF_UNROLL
    for (int j = 0; j < 4; j++) {
        *first = rf_dot4(word_of(raw, lo_bits, hi_bits, j), x0.v[j], *first);
        *second = rf_dot4(word_of(raw, lo_bits, hi_bits, 4 + j), x1.v[j], *second);
    }
}

RF_DEVICE void one_put(one_term *out, const one_place *at, uint32_t d, uint32_t m, int32_t i,
                       int32_t sum, float xd) {
    out->i = (float)i;
    out->d = scale_of(d, at->w.d_f32) * xd;
    if (at->n_terms == 1) return;
    out[32].i = (float)sum;
    out[32].d = scale_of(m, at->w.d_f32) * xd;
}

RF_DEVICE void one_groups_32(one_term *out, const one_place *at, const one_loads *r,
                             const one_rows *x, int lo_bits, int hi_bits, uint32_t first) {
    RF_UNROLL
    for (uint32_t i = 0; i < ONE_GROUPS(32); i++) {
        const uint32_t own = at->part * ONE_GROUPS(32) + i;
        if (first + i >= at->n_groups) break;
        const int32_t sum = lo_bits == 8 ? 0 : ((const int32_t *)x->sum)[own];
        int32_t p0, p1;
        one_dot(&r->raw[i], lo_bits, hi_bits, x->q + 2 * own, &p0, &p1);
        one_put(out + i * at->n_terms * 32, at, r->d[i], r->m[i], p0 + p1 - at->w.off * sum, sum,
                x->d[own]);
    }
}

RF_DEVICE void one_group_256(one_term *out, const one_place *at, const one_loads *r,
                             const one_rows *x, int lo_bits, int hi_bits) {
    const rf_u4 scale = all_scales(r->scale, at->w.n_scales);
    int32_t i = 0, sum = 0;
    RF_UNROLL
    for (uint32_t c = 0; c < 8; c++) {
        int32_t p0, p1;
        one_dot(&r->raw[c], lo_bits, hi_bits, x->q + 16 * at->part + 2 * c, &p0, &p1);
        i += byte_of(&scale, 2 * (int)c) * p0 + byte_of(&scale, 2 * (int)c + 1) * p1;
    }
    if (lo_bits != 8) { /* either minima or an offset of the integers need the activations' sums */
        const rf_u4 other = at->w.min ? all_scales(r->min, at->w.n_scales) : scale;
        RF_UNROLL
        for (int j = 0; j < 16; j++)
            sum += byte_of(&other, j) * (int32_t)x->sum[4 * at->part + (uint32_t)j / 4].v[j % 4];
    }
    one_put(out, at, r->d[0], r->m[0], i - at->w.off * sum, sum, x->d[at->part]);
}

/* The row's sum so far with the terms of n groups. */
RF_DEVICE float one_fold(const one_term *terms, uint32_t n, float acc) {
    RF_UNROLL_8
    for (uint32_t i = 0; i < n; i++)
        acc = rf_fma(terms[32 * i].i, terms[32 * i].d, acc);
    return acc;
}

RF_DEVICE void one_run(const rf_gpu_matmul_args *a, int view, int lo_bits, int hi_bits,
                       uint32_t n_parts, one_rows *x, one_term *terms) {
    const uint32_t n_own = ONE_GROUPS(view), n_round = n_parts * n_own;
    if (a->mode == RF_GPU_MM_EXPERTS) rf_await_before(); /* the route */
    const uint32_t n_rows = a->is_glu ? RF_GPU_TILE_ROWS / 2 : RF_GPU_TILE_ROWS;
    const uint32_t per_tile = RF_GPU_TILE_ROWS / n_rows, lane = rf_tid() % 32;
    const mm_share s = share_of(a, n_rows, 1);
    if (s.n == 0) return;
    one_place at;
    one_loads loads;
    at.w = lane < n_rows ? s.p.w : a->part[1].w;
    at.tile = (uint64_t)s.plane * rf_div_up(s.p.w.rows, RF_GPU_TILE_ROWS) + s.tile / per_tile;
    at.n_groups = s.p.w.cols / (uint32_t)view;
    at.row = s.tile % per_tile * n_rows + lane % n_rows;
    at.part = rf_tid() / 32;
    at.n_terms = s.p.w.m ? 2 : 1;
    one_load(&loads, &at, view, lo_bits, hi_bits, at.part * n_own);
    rf_await_before();
    const uint32_t dst_row = dst_row_of(a, &s, 0), x_row = x_row_of(a, dst_row);
    one_stage(x, &a->xq, x_row, at.n_groups, view, n_round, 0);
    uint32_t buffer = 0;
    float acc = 0.0f;
    for (uint32_t first = 0; first < at.n_groups; first += n_round) {
        one_term *mine = terms + (at.part * n_own * at.n_terms * 32 + lane);
        rf_copy_wait();
        rf_sync();
        if (view == 32)
            one_groups_32(mine, &at, &loads, x + buffer, lo_bits, hi_bits, first + at.part * n_own);
        else if (first + at.part < at.n_groups)
            one_group_256(mine, &at, &loads, x + buffer, lo_bits, hi_bits);
        const uint32_t n = rf_min_u32(at.n_groups - first, n_round), next = first + n_round;
        if (next < at.n_groups) {
            one_load(&loads, &at, view, lo_bits, hi_bits, next + at.part * n_own);
            buffer ^= 1;
            one_stage(x + buffer, &a->xq, x_row, at.n_groups, view, n_round, next);
        }
        rf_sync();
        if (at.part == 0) acc = one_fold(terms + lane, n * at.n_terms, acc);
    }
    float up = acc;
    if (a->is_glu) { /* which the upper half of the threads has */
        rf_sync();
        if (at.part == 0) terms[lane].i = acc;
        rf_sync();
        up = terms[lane | 16].i;
    }
    const uint32_t r = s.tile * n_rows + lane;
    if (at.part == 0 && lane < n_rows && r < s.p.w.rows) put_output(a, &s, dst_row, r, acc, up);
}

/* n_blocks: as many as have registers for all loads. */
#define ONE_KERNEL(name, view, lo_bits, hi_bits, n_blocks)           \
    RF_KERNEL_EARLY(name, rf_gpu_matmul_args, n_blocks) {            \
        enum { PARTS = RF_BLOCK_##name / 32 };                       \
        RF_SHARED one_rows x[2];                                     \
        RF_SHARED one_term terms[2 * PARTS * ONE_GROUPS(view) * 32]; \
        one_run(&a, view, lo_bits, hi_bits, PARTS, x, terms);        \
    }
#define ONE_KERNELS(view, lo_bits, hi_bits, n_small, n_large)                        \
    ONE_KERNEL(vec_##view##_##lo_bits##hi_bits##_1, view, lo_bits, hi_bits, n_small) \
    ONE_KERNEL(one_##view##_##lo_bits##hi_bits, view, lo_bits, hi_bits, n_large)
ONE_KERNELS(32, 4, 0, 4, 2)
ONE_KERNELS(32, 4, 1, 4, 2)
ONE_KERNELS(32, 8, 0, 4, 1)
ONE_KERNELS(256, 2, 0, 3, 2)
ONE_KERNELS(256, 2, 1, 3, 2)
ONE_KERNELS(256, 4, 0, 3, 1)
ONE_KERNELS(256, 4, 1, 2, 1)
ONE_KERNELS(256, 4, 2, 2, 1)
ONE_KERNELS(256, 8, 0, 2, 1)
