/* mm_vec.hip - products of integer weights with two to eight activation rows, bound by reading the
 * weights.
 *
 * A block has one tile of 32 weight rows; 32 threads, one per row, make a part, and the parts share
 * the columns.  For each of its groups a part leaves the exact integer and its scale in shared
 * memory; then one thread per output adds the groups in order. */
#include "backend/gpu/kernels/mm.h"

/* Parts of a block. */
#define VEC_PARTS(nt) ((nt) == 2 ? 16u : 8u)

/* Groups of a part in one round; rounds that are in shared memory at a time. */
#define VEC_GROUPS(view, nt) ((view) == 256 || (nt) >= 2 ? 1u : 4u)
#define VEC_ROUNDS(nt)       ((nt) <= 4 ? 2 : 1)

/* Most activation rows with which all loads of a group fit the registers: 512 threads have 128 each
 * everywhere, but elsewhere than on NVIDIA the compiler spends more of them on addresses. */
#if defined(RF_NVIDIA)
#define VEC_AT_ONCE 2
#else
#define VEC_AT_ONCE 1
#endif

/* Where a thread's tile and activations are. */
typedef struct vec_place {
    rf_gpu_weight w;
    rf_gpu_quant x;
    uint64_t tile; /* over planes and tiles */
    uint32_t n_groups, row;
    uint32_t n_terms; /* per group: 2 with minima */
    uint32_t x_row[8];
} vec_place;

/* The terms of a group of one activation row: i with d, and with minima sum with m, or of groups of 32 the total, which is
 * yet to be rounded, with m. */
RF_DEVICE void put_terms(const vec_place *at, int view, uint64_t group, uint64_t x_group, int32_t i,
                         int32_t sum, uint32_t stride, mm_term *out) {
    const float xd = at->x.d[x_group];
    out->i = (float)i;
    out->d = scale_at(at->w.d, group * 32 + at->row, at->w.d_f32) * xd;
    if (at->n_terms == 1) return;
    const float m = scale_at(at->w.m, group * 32 + at->row, at->w.d_f32);
    out[stride].i = view == 32 ? (float)sum * xd : (float)sum;
    out[stride].d = view == 32 ? m : m * xd;
}

/* The sum so far with the terms of up to eight groups of 32 that share steps, each before that of its minimum. */
RF_DEVICE float vec_fold_share(const mm_term *terms, uint32_t stride, uint32_t n, float acc) {
    const mm_term *minima = terms + stride;
    uint32_t most = 0;
    float sum = 0.0f;
    RF_UNROLL_4
    for (uint32_t i = 0; i < n; i++) {
        acc = rf_fma(terms[2 * stride * i].i, terms[2 * stride * i].d, acc);
        most = rf_max_u32(most, rf_size_of(minima[2 * stride * i].i));
    }
    RF_UNROLL_2
    for (uint32_t i = 0; i < n; i++) {
        const mm_term own = minima[2 * stride * i];
        sum = rf_fma(rf_rounded(own.i, RF_ROUND_TOTALS(most)), own.d, sum);
    }
    return acc + sum;
}
/* And with those of n groups, of 32 from one on that begins a share. */
RF_DEVICE float vec_fold(const mm_term *terms, int view, uint32_t n_terms, uint32_t stride,
                         uint32_t n, float acc) {
    if (view == 256 || n_terms == 1) return mm_fold_terms(terms, stride, n_terms * n, acc);
    RF_NO_UNROLL
    for (uint32_t g = 0; g < n; g += RF_SHARE_GROUPS)
        acc =
            vec_fold_share(terms + 2 * stride * g, stride, rf_min_u32(n - g, RF_SHARE_GROUPS), acc);
    return acc;
}

/* Products of sixteen columns with each half of a chunk of activations. */
RF_DEVICE void dot_chunk(const uint32_t w[8], const int8_t *x, uint64_t chunk, int32_t *first,
                         int32_t *second) {
    const rf_u4 *q = (const rf_u4 *)(const void *)x + 2 * chunk;
    const rf_u4 x0 = q[0], x1 = q[1];
    RF_UNROLL
    for (int j = 0; j < 4; j++) {
        *first = rf_dot4(w[j], x0.v[j], *first);
        *second = rf_dot4(w[4 + j], x1.v[j], *second);
    }
}

/* Groups of 32 from number first on, as many as a part has in a round. */
RF_DEVICE void vec_groups_32(const vec_place *at, int lo_bits, int hi_bits, int nt, uint32_t first,
                             mm_term *out) {
    const uint32_t n = VEC_GROUPS(32, (uint32_t)nt), last = at->n_groups - 1;
    const uint32_t stride = 32 * (uint32_t)nt;
    mm_raw raw[4];
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++)
        raw[i] = load_chunk(&at->w, lo_bits, hi_bits,
                            at->tile * at->n_groups + rf_min_u32(first + i, last), at->row);
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t g = rf_min_u32(first + i, last);
        uint32_t words[8];
        RF_UNROLL
        for (int j = 0; j < 8; j++)
            words[j] = word_of(&raw[i], lo_bits, hi_bits, j);
        RF_UNROLL
        for (uint32_t t = 0; t < (uint32_t)nt; t++) {
            const uint64_t x_group = (uint64_t)at->x_row[t] * at->n_groups + g;
            const int32_t sum = lo_bits == 8 ? 0 : at->x.sum[x_group];
            int32_t p0 = 0, p1 = 0;
            dot_chunk(words, at->x.q, x_group, &p0, &p1);
            put_terms(at, 32, at->tile * at->n_groups + g, x_group, p0 + p1 - at->w.off * sum, sum,
                      stride, out + (i * at->n_terms * stride + 32 * t));
        }
    }
}

/* sum over j of b[j] * the activations' sum of sixteen number j */
RF_DEVICE int32_t sum_scaled(const rf_u4 *b, const rf_gpu_quant *x, uint64_t x_group) {
    const rf_u4 *sums = (const rf_u4 *)(const void *)x->sum + 4 * x_group;
    int32_t m = 0;
    RF_UNROLL
    for (int j = 0; j < 4; j++) {
        const rf_u4 s = sums[j];
        RF_UNROLL
        for (int k = 0; k < 4; k++)
            m += rf_times_24(byte_of(b, 4 * j + k), (int32_t)s.v[k]);
    }
    return m;
}

/* Chunk number c of a group of 256 onto the sums i. */
RF_DEVICE void vec_chunk_256(const vec_place *at, int lo_bits, int hi_bits, int nt, uint32_t g,
                             uint32_t c, const mm_raw *raw, int32_t scale0, int32_t scale1,
                             int32_t i[8]) {
    uint32_t words[8];
    RF_UNROLL
    for (int j = 0; j < 8; j++)
        words[j] = word_of(raw, lo_bits, hi_bits, j);
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        int32_t p0 = 0, p1 = 0;
        dot_chunk(words, at->x.q, ((uint64_t)at->x_row[t] * at->n_groups + g) * 8 + c, &p0, &p1);
        i[t] += rf_times_24(scale0, p0) + rf_times_24(scale1, p1);
    }
}

/* Group number first.  Either minima or an offset of the stored integers need the activations' sums. */
RF_DEVICE void vec_group_256(const vec_place *at, int lo_bits, int hi_bits, int nt, uint32_t first,
                             mm_term *out) {
    const uint32_t g = rf_min_u32(first, at->n_groups - 1);
    const uint64_t group = at->tile * at->n_groups + g;
    const rf_u4 scale = load_scales(at->w.scale, at->w.n_scales, group * 32 + at->row);
    int32_t i[8];
    RF_UNROLL
    for (int t = 0; t < nt; t++)
        i[t] = 0;
    if (nt <= VEC_AT_ONCE) { /* all loads at once */
        mm_raw raw[8];
        RF_UNROLL
        for (uint32_t c = 0; c < 8; c++)
            raw[c] = load_chunk(&at->w, lo_bits, hi_bits, group * 8 + c, at->row);
        RF_UNROLL
        for (uint32_t c = 0; c < 8; c++)
            vec_chunk_256(at, lo_bits, hi_bits, nt, g, c, &raw[c], byte_of(&scale, 2 * (int)c),
                          byte_of(&scale, 2 * (int)c + 1), i);
    } else { /* the activations fill the registers */
        rf_u4 left = scale;
        mm_raw raw = load_chunk(&at->w, lo_bits, hi_bits, group * 8, at->row);
        RF_NO_UNROLL
        for (uint32_t c = 0; c < 8; c++) {
            const mm_raw next =
                load_chunk(&at->w, lo_bits, hi_bits, group * 8 + rf_min_u32(c + 1, 7), at->row);
            vec_chunk_256(at, lo_bits, hi_bits, nt, g, c, &raw, byte_of(&left, 0),
                          byte_of(&left, 1), i);
            raw = next;
            left = next_scales(left);
        }
    }
    rf_u4 other = scale;
    if (at->w.min) other = load_scales(at->w.min, at->w.n_scales, group * 32 + at->row);
    RF_UNROLL
    for (uint32_t t = 0; t < (uint32_t)nt; t++) {
        const uint64_t x_group = (uint64_t)at->x_row[t] * at->n_groups + g;
        const int32_t sum = lo_bits == 8 ? 0 : sum_scaled(&other, &at->x, x_group);
        put_terms(at, 256, group, x_group, i[t] - at->w.off * sum, sum, 32 * (uint32_t)nt,
                  out + 32 * t);
    }
}

/* The sum of output (row tid % 32, activation row tid / 32) in the threads that have one. */
RF_DEVICE float vec_product(const vec_place *at, int view, int lo_bits, int hi_bits, int nt,
                            mm_term *terms) {
    const uint32_t part = rf_tid() / 32, n_part = VEC_GROUPS(view, (uint32_t)nt);
    const uint32_t n_round = VEC_PARTS(nt) * n_part, stride = 32 * (uint32_t)nt;
    const uint32_t per_round = 2 * n_round * stride;
    uint32_t buffer = 0;
    float acc = 0.0f;
    for (uint32_t first = 0; first < at->n_groups; first += n_round) {
        mm_term *round = terms + buffer * per_round;
        mm_term *mine = round + (part * n_part * at->n_terms * stride + at->row);
        if (view == 32)
            vec_groups_32(at, lo_bits, hi_bits, nt, first + part * n_part, mine);
        else
            vec_group_256(at, lo_bits, hi_bits, nt, first + part, mine);
        rf_sync();
        if (part < (uint32_t)nt) {
            const uint32_t n = rf_min_u32(at->n_groups - first, n_round);
            const uint32_t n_terms = view == 32 && lo_bits == 8 ? 1 : at->n_terms;
            acc = vec_fold(round + rf_tid(), view, n_terms, stride, n, acc);
        }
        if (VEC_ROUNDS(nt) == 1) rf_sync();
        buffer ^= VEC_ROUNDS(nt) == 2;
    }
    rf_sync();
    return acc;
}

/* terms: VEC_ROUNDS(nt) rounds of them. */
RF_DEVICE void vec_run(const rf_gpu_matmul_args *a, int view, int lo_bits, int hi_bits, int nt,
                       mm_term *terms) {
    const mm_share s = share_of(a, RF_GPU_TILE_ROWS, (uint32_t)nt);
    if (s.n == 0) return;
    const uint32_t part = rf_tid() / 32, n_tiles = rf_div_up(s.p.w.rows, RF_GPU_TILE_ROWS);
    vec_place at;
    at.w = s.p.w;
    at.x = a->xq;
    at.tile = (uint64_t)s.plane * n_tiles + s.tile;
    at.n_groups = s.p.w.cols / (uint32_t)view;
    at.row = rf_tid() % 32;
    at.n_terms = s.p.w.m ? 2 : 1;
    RF_UNROLL
    for (uint32_t t = 0; t < (uint32_t)nt; t++)
        at.x_row[t] = x_row_of(a, dst_row_of(a, &s, t));
    const uint32_t r = s.tile * RF_GPU_TILE_ROWS + at.row;
    const int here = part < s.n && r < s.p.w.rows;
    float gate = 0.0f, v = 0.0f;
    for (uint32_t pass = 0; pass <= a->is_glu; pass++) {
        if (pass) {
            gate = v;
            at.w = a->part[1].w;
        }
        v = vec_product(&at, view, lo_bits, hi_bits, nt, terms);
    }
    if (here) put_output(a, &s, dst_row_of(a, &s, part), r, gate, v);
}

#define VEC_KERNEL(kind, view, lo_bits, hi_bits, nt)                                    \
    kind(vec_##view##_##lo_bits##hi_bits##_##nt, rf_gpu_matmul_args) {                  \
        RF_SHARED mm_term                                                               \
            terms[VEC_ROUNDS(nt) * 2 * VEC_PARTS(nt) * VEC_GROUPS(view, nt) * 32 * nt]; \
        vec_run(&a, view, lo_bits, hi_bits, nt, terms);                                 \
    }
#define VEC_KERNELS(view, lo_bits, hi_bits)                \
    VEC_KERNEL(RF_KERNEL_ALONE, view, lo_bits, hi_bits, 2) \
    VEC_KERNEL(RF_KERNEL, view, lo_bits, hi_bits, 4)       \
    VEC_KERNEL(RF_KERNEL, view, lo_bits, hi_bits, 8)
VEC_KERNELS(32, 4, 0)
VEC_KERNELS(32, 4, 1)
VEC_KERNELS(32, 8, 0)
VEC_KERNELS(256, 2, 0)
VEC_KERNELS(256, 2, 1)
VEC_KERNELS(256, 4, 0)
VEC_KERNELS(256, 4, 1)
VEC_KERNELS(256, 4, 2)
VEC_KERNELS(256, 8, 0)
