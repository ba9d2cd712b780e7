/* one.h - what the products of integer weights with one activation row share: a part's loads of a round,
 * its activations, as integers or floats that it makes integers of, and the terms that it leaves in
 * shared memory, one for each group and row, with minima of groups of 256 two, of groups of 32 one more a part. */
#pragma once
#include "backend/gpu/kernels/mm.h"

enum { ONE_MOST_WARPS = 16 }; /* of 32 threads each, which are a part, or some */

/* Chunks of 32 columns of a part in a round, groups of a part. */
#define ONE_CHUNKS(view) ((view) == 256 ? 8u : 4u)
#define ONE_GROUPS(view) ((view) == 256 ? 1u : 4u)

/* Loads arrive on AMD in the order in which they began, and activations are wanted first. */
#if defined(RF_AMD)
#define ONE_X_FIRST 1
#else
#define ONE_X_FIRST 0
#endif

/* Do parts without groups of their own read nothing, where parts are many?  On AMD all that was loaded would
 * be waited for behind the branch. */
#if defined(RF_NVIDIA)
#define ONE_SKIPS 1
#else
#define ONE_SKIPS 0
#endif

/* Terms of a round of so many parts of 32 threads at most; with_m: as in one_know. */
#define ONE_TERMS(view, with_m, n_parts) \
    (((view) == 256 ? 2u : (with_m) == 0 ? 4u : 5u) * 32 * (n_parts))

/* Rounds' terms that there is room for: with two, one round's are added up while the next one's are made, and the threads
 * meet once in a round.  Activations in integers, which threads bring for each other, would do with one, but blocks of less
 * shared memory are slower on NVIDIA: more of them lie beside each other.  Minima of groups of 32 need the activations of
 * two warps, which have to meet for them.  A block of AMD's keeps to half of a compute unit's shared memory, so that
 * another hides what this one waits for. */
#if defined(RF_AMD)
#define ONE_TURNS(view, with_m) 1u
#else
#define ONE_TURNS(view, with_m) ((view) == 32 && (with_m) != 0 ? 1u : 2u)
#endif

/* Are products of unsigned with signed bytes as fast as others? */
#if defined(RF_AMD)
#define ONE_UPPER 0
#else
#define ONE_UPPER 1
#endif

/* Activations in integers, from a group on. */
typedef struct one_x {
    rf_u4 *q;
    int32_t *sum;
    float *d;
} one_x;
RF_DEVICE one_x one_x_at(one_x x, int view, uint32_t group) {
    const one_x at = {x.q + (uint32_t)view / 16 * group, x.sum + (view == 256 ? 16 : 1) * group,
                      x.d + group};
    return at;
}

/* The activations of a round. */
typedef struct one_rows {
    rf_u4 q[ONE_MOST_WARPS * 16];
    int32_t sum[ONE_MOST_WARPS * 16] __attribute__((aligned(16)));
    float d[ONE_MOST_WARPS * 4] __attribute__((aligned(16)));
} one_rows;
RF_DEVICE one_x one_x_of(one_rows *r) {
    const one_x x = {r->q, r->sum, r->d};
    return x;
}
/* A round of up to 8192 columns in the place of two: 10368 bytes at most of 10752. */
RF_DEVICE one_x one_x_of_both(one_rows r[2], int view) {
    uint8_t *const behind = (uint8_t *)r + 8192;
    const one_x x = {(rf_u4 *)r, (int32_t *)(void *)behind,
                     (float *)(void *)(behind + (view == 256 ? 2048 : 1024))};
    return x;
}

/* Where a thread's tile and activations are. */
typedef struct one_place {
    rf_gpu_weight w;
    uint64_t tile;                /* over planes and tiles */
    uint32_t n_groups, row, part; /* row: of the tile */
    uint32_t n_terms; /* 2 with minima: of a group of 256, of groups of 32 one more of the part */
    uint32_t stride;  /* from a term to the next: threads of a part */
} one_place;

/* What a part reads of the weights in one round, as it lies in memory. */
typedef struct one_loads {
    mm_raw raw[8];
    rf_u4 scale, min; /* the first half where 8 bytes hold them */
    uint32_t d[4], m[4];
} one_loads;

/* What is known of the layout, as constants, or at least to be alike in all threads.  with_m: whether there are minima of groups
 * of 32, which have functions of their own (kinds.def); else MM_ANY. */
RF_DEVICE void one_know(one_place *at, int view, int lo_bits, int hi_bits, uint32_t with_m) {
    const mm_facts f = facts_of(view, lo_bits, hi_bits);
    const uint32_t have_m = with_m == MM_ANY ? f.with_m : with_m;
    at->w.n_scales = f.n_scales == MM_ANY ? rf_alike(at->w.n_scales) : f.n_scales;
    at->n_terms = have_m == MM_ANY ? rf_alike(at->w.m ? 2 : 1) : 1 + have_m;
    at->w.d_f32 = f.d_f32 == MM_ANY ? rf_alike(at->w.d_f32) : f.d_f32;
    at->w.off = (int32_t)rf_alike((uint32_t)at->w.off);
}

/* Bits of d or m number i. */
RF_DEVICE uint32_t load_scale(const void *p, uint64_t i, uint32_t is_f32) {
    return is_f32 ? ((const uint32_t *)p)[i] : ((const uint16_t *)p)[i];
}
RF_DEVICE float scale_of(uint32_t bits, uint32_t is_f32) {
    return is_f32 ? rf_float_of(bits) : rf_f16_at((uint16_t)bits);
}

/* Groups from number first on; those behind the last are the last.  skips: a part that has no others does
 * without, where what it reads would be in the way of what others read. */
RF_DEVICE void one_load(one_loads *r, const one_place *at, int view, int lo_bits, int hi_bits,
                        uint32_t first, int skips) {
    const uint32_t last = at->n_groups - 1;
    if (skips && first > last) return;
    RF_UNROLL
    for (uint32_t i = 0; i < ONE_GROUPS(view); i++) {
        const uint64_t group = at->tile * at->n_groups + rf_min_u32(first + i, last);
        const uint64_t own = group * 32 + at->row;
        const uint32_t per = ONE_CHUNKS(view) / ONE_GROUPS(view);
        if (view == 256) {
            r->scale = load_scale_bytes(at->w.scale, at->w.n_scales, own);
            if (at->n_terms == 2) r->min = load_scale_bytes(at->w.min, at->w.n_scales, own);
        }
        r->d[i] = load_scale(at->w.d, own, at->w.d_f32);
        r->m[i] = at->n_terms == 2 ? load_scale(at->w.m, own, at->w.d_f32) : 0;
        RF_UNROLL
        for (uint32_t c = 0; c < per; c++) {
            rf_in_turn();
            r->raw[i * per + c] = load_chunk(&at->w, lo_bits, hi_bits, group * per + c, at->row);
        }
    }
}

/* Activations that are not in integers yet: a thread's columns of its part's groups. */
typedef struct one_floats {
    rf_f4 v[2]; /* the second only of groups of 256 */
} one_floats;

RF_DEVICE void one_read(one_floats *f, const float *row, uint32_t cols, int view, uint32_t first) {
    const uint32_t n = view == 256 ? 8 : 4, k = first * (uint32_t)view + rf_tid() % 32 * n;
    const rf_f4 *from = (const rf_f4 *)(const void *)(row + rf_min_u32(k, cols - n));
    f->v[0] = from[0];
    if (view == 256) f->v[1] = from[1];
}

/* A part's groups, which become those from number first on, into integers, as canon.h does it. */
RF_DEVICE void one_quantise(one_x to, const one_floats *f, int view, uint32_t first) {
    const uint32_t lane = rf_tid() % 32, n = view == 256 ? 8 : 4, n_lanes = (uint32_t)view / n;
    const uint32_t k = first * (uint32_t)view + lane * n; /* the thread's first column */
    uint32_t most = 0, words[2] = {0, 0};
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        most = rf_max_u32(most, rf_size_of(f->v[i / 4].v[i % 4]));
    }
    if (n_lanes == 32)
        most = rf_warp_most(most);
    else
        rf_lanes_most(&most, 1, n_lanes);
    const rf_quant_scale scale = rf_quant_scale_of(rf_float_of(most), (uint32_t)view);
    uint32_t sum = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t v = (uint32_t)rf_quantised(f->v[i / 4].v[i % 4], scale.id);
        sum += v;
        words[i / 4] |= (v & 255u) << 8 * (i % 4);
    }
    const uint32_t n_sum = view == 256 ? 2 : 8;
    rf_lanes_sum(&sum, 1, n_sum);
    uint32_t *q = (uint32_t *)to.q + k / 4;
    q[0] = words[0];
    if (view == 256) q[1] = words[1];
    if (lane % n_sum == 0) to.sum[k / (n * n_sum)] = (int32_t)sum;
    if (lane % n_lanes == 0) to.d[k / (uint32_t)view] = scale.d;
}

RF_DEVICE void one_dot(const mm_raw *raw, int lo_bits, int hi_bits, const rf_u4 *q, int32_t *first,
                       int32_t *second) {
    const rf_u4 x0 = q[0], x1 = q[1];
    *first = *second = 0;
#if ONE_UPPER
    if (lo_bits == 4 && hi_bits == 0) {
        /* upper four bits as sixteen times as much, which spares shifts */
        RF_UNROLL
        for (int j = 0; j < 4; j++) {
            *first = rf_dot4(raw->lo[j] & 0x0f0f0f0fu, x0.v[j], *first);
            *second = rf_dot4_unsigned(raw->lo[j] & 0xf0f0f0f0u, x1.v[j], *second);
        }
        *second >>= 4;
        return;
    }
#endif
    RF_UNROLL
    for (int j = 0; j < 4; j++) {
        *first = rf_dot4(word_of(raw, lo_bits, hi_bits, j), x0.v[j], *first);
        *second = rf_dot4(word_of(raw, lo_bits, hi_bits, 4 + j), x1.v[j], *second);
    }
}

RF_DEVICE void one_put(mm_term *out, const one_place *at, uint32_t d, int32_t i, float xd) {
    out->i = (float)i;
    out->d = scale_of(d, at->w.d_f32) * xd;
}

/* Totals of four groups of 32. */
RF_DEVICE rf_f4 one_totals(const int32_t *sum, const float *d) {
    const rf_u4 sums = *(const rf_u4 *)(const void *)sum;
    const rf_f4 ds = *(const rf_f4 *)(const void *)d;
    rf_f4 t;
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        t.v[i] = rf_small_float((int32_t)sums.v[i]) * ds.v[i];
    return t;
}

/* What the minima of a part's groups of 32 come to: the first or second half of those that share steps, x being the
 * activations from the part's first group on. */
RF_DEVICE float one_minima_32(const one_place *at, const one_loads *r, one_x x, uint32_t first) {
    const uint32_t is_half = first % RF_SHARE_GROUPS / ONE_GROUPS(32);
    const int32_t *sum = x.sum - is_half * ONE_GROUPS(32);
    const float *d = x.d - is_half * ONE_GROUPS(32);
    uint32_t most = 0, g = first - is_half * ONE_GROUPS(32);
    float minima = 0.0f;
    RF_UNROLL
    for (uint32_t j = 0; j < RF_SHARE_GROUPS / ONE_GROUPS(32); j++) {
        const rf_f4 t = one_totals(sum + j * ONE_GROUPS(32), d + j * ONE_GROUPS(32));
        RF_UNROLL
        for (uint32_t i = 0; i < ONE_GROUPS(32); i++, g++)
            if (g < at->n_groups) most = rf_max_u32(most, rf_size_of(t.v[i]));
    }
    const rf_f4 own = one_totals(x.sum, x.d);
    RF_UNROLL
    for (uint32_t i = 0; i < ONE_GROUPS(32); i++) {
        const float total = rf_rounded(own.v[i], RF_ROUND_TOTALS(most));
        if (first + i < at->n_groups)
            minima = rf_fma(total, scale_of(r->m[i], at->w.d_f32), minima);
    }
    return minima;
}

/* Terms of a part. */
RF_DEVICE uint32_t one_slots(const one_place *at, int view) {
    return view == 256 ? at->n_terms : ONE_GROUPS(32) - 1 + at->n_terms;
}

RF_DEVICE void one_groups_32(mm_term *out, const one_place *at, const one_loads *r, one_x x,
                             int lo_bits, int hi_bits, uint32_t first) {
    if (first >= at->n_groups) return;
    RF_UNROLL
    for (uint32_t i = 0; i < ONE_GROUPS(32); i++) {
        if (first + i >= at->n_groups) break;
        const int32_t sum = lo_bits == 8 ? 0 : x.sum[i];
        int32_t p0, p1;
        one_dot(&r->raw[i], lo_bits, hi_bits, x.q + 2 * i, &p0, &p1);
        one_put(out + i * at->stride, at, r->d[i], p0 + p1 - at->w.off * sum, x.d[i]);
    }
    if (lo_bits != 8 && at->n_terms == 2)
        out[ONE_GROUPS(32) * at->stride].i = one_minima_32(at, r, x, first);
}

RF_DEVICE void one_group_256(mm_term *out, const one_place *at, const one_loads *r, one_x x,
                             int lo_bits, int hi_bits) {
    const rf_u4 scale = all_scales(r->scale, at->w.n_scales);
    const rf_u4 other = at->n_terms == 2 ? all_scales(r->min, at->w.n_scales) : scale;
    int32_t i = 0, sum = 0;
    RF_UNROLL
    for (uint32_t c = 0; c < 8; c++) {
        int32_t p0, p1;
        one_dot(&r->raw[c], lo_bits, hi_bits, x.q + 2 * c, &p0, &p1);
        i += rf_times_24(byte_of(&scale, 2 * (int)c), p0) +
             rf_times_24(byte_of(&scale, 2 * (int)c + 1), p1);
        rf_in_turn();
    }
    if (lo_bits != 8) { /* either minima or an offset of the integers need the activations' sums */
        RF_UNROLL
        for (int j = 0; j < 4; j++) {
            const rf_u4 four = ((const rf_u4 *)(const void *)x.sum)[j];
            RF_UNROLL
            for (int k = 0; k < 4; k++)
                sum += rf_times_24(byte_of(&other, 4 * j + k), (int32_t)four.v[k]);
        }
    }
    one_put(out, at, r->d[0], i - at->w.off * sum, x.d[0]);
    if (at->n_terms == 2) one_put(out + at->stride, at, r->m[0], sum, x.d[0]);
}

/* The terms of a part's groups from number first on, behind each other; x: theirs. */
RF_DEVICE void one_terms(mm_term *out, const one_place *at, const one_loads *r, one_x x, int view,
                         int lo_bits, int hi_bits, uint32_t first) {
    if (view == 32)
        one_groups_32(out, at, r, x, lo_bits, hi_bits, first);
    else if (first < at->n_groups)
        one_group_256(out, at, r, x, lo_bits, hi_bits);
}

/* Eight terms of a row, of groups of 32 that share steps with what two parts' minima come to, behind each part's. */
enum { ONE_BATCH = RF_SHARE_GROUPS };
typedef struct one_batch {
    mm_term term[ONE_BATCH];
    float minima[2];
} one_batch;

/* From one batch's terms to the next one's. */
RF_DEVICE uint32_t one_batch_step(uint32_t stride, int has_m) {
    return (ONE_BATCH + (has_m ? 2u : 0u)) * stride;
}

/* The first n of a batch; the others, whose places may be nobody's, change no sum. */
RF_DEVICE void one_fetch(one_batch *b, const mm_term *terms, uint32_t stride, uint32_t n,
                         int has_m) {
    const uint32_t half = ONE_GROUPS(32), in_part = half + (has_m ? 1 : 0);
    RF_UNROLL
    for (uint32_t i = 0; i < ONE_BATCH; i++) {
        b->term[i].i = 0.0f;
        b->term[i].d = -0.0f;
        if (i < n) b->term[i] = terms[(i / half * in_part + i % half) * stride];
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 2 && has_m; i++) {
        b->minima[i] = -0.0f;
        if (i * half < n) b->minima[i] = terms[(i * in_part + half) * stride].i;
    }
}

RF_DEVICE float one_add(const one_batch *b, float acc, int has_m) {
    RF_UNROLL
    for (uint32_t i = 0; i < ONE_BATCH; i++)
        acc = rf_fma(b->term[i].i, b->term[i].d, acc);
    return has_m ? acc + (b->minima[0] + b->minima[1]) : acc;
}

/* The row's sum so far with the terms of n groups, of 32 from one on that begins a share. */
RF_DEVICE float one_fold(const one_place *at, const mm_term *terms, int view, int lo_bits,
                         uint32_t n, float acc) {
    const int has_m = view == 32 && lo_bits != 8 && at->n_terms == 2; /* eight bits have none */
    uint32_t left = view == 256 ? n * at->n_terms : n;
    one_batch batch;
    RF_NO_UNROLL
    for (; left >= ONE_BATCH; left -= ONE_BATCH) {
        one_fetch(&batch, terms, at->stride, ONE_BATCH, has_m);
        acc = one_add(&batch, acc, has_m);
        terms += one_batch_step(at->stride, has_m);
    }
    if (left == 0) return acc;
    one_fetch(&batch, terms, at->stride, left, has_m);
    return one_add(&batch, acc, has_m);
}

/* Where a round's terms are, of n_parts parts; turn: 0 and 1 by turns, which have places of their own if there is room. */
RF_DEVICE mm_term *one_turn_terms(mm_term *terms, int view, uint32_t with_m, uint32_t n_parts,
                                  uint32_t turn) {
    return terms + (ONE_TURNS(view, with_m) > 1 ? turn * ONE_TERMS(view, with_m, n_parts) : 0);
}

/* Turns to the tile of the share. */
RF_DEVICE void one_turn(one_place *at, const mm_share *s, uint32_t n_rows) {
    const uint32_t per_tile = RF_GPU_TILE_ROWS / n_rows;
    at->tile = (uint64_t)s->plane * rf_div_up(s->p.w.rows, RF_GPU_TILE_ROWS) + s->tile / per_tile;
    at->row = s->tile % per_tile * n_rows + rf_tid() % n_rows;
}

/* Where a thread of a block is whose tile has n_rows weight rows of its product, or with a GLU of each.  A
 * warp is split parts, one from each so many of the block's. */
RF_DEVICE one_place one_place_of(const rf_gpu_matmul_args *a, const mm_share *s, int view,
                                 uint32_t n_rows, uint32_t n_warps, uint32_t split) {
    const uint32_t lane = rf_tid() % 32;
    one_place at;
    at.w = split > 1 || lane < n_rows ? s->p.w : a->part[1].w;
    at.n_groups = s->p.w.cols / (uint32_t)view;
    at.stride = 32 / split;
    at.part = rf_tid() / 32 + lane / at.stride * n_warps;
    one_turn(&at, s, n_rows);
    return at;
}

/* What is added to the outputs of a tile, fetched long before: nothing would hide that wait at the end. */
typedef struct one_extra {
    float bias[32], add[32];
} one_extra;

/* The thread's output, where it has one: its row; else -1. */
RF_DEVICE int32_t one_output(const mm_share *s, const one_place *at, uint32_t n_rows) {
    const uint32_t lane = rf_tid() % 32, r = s->tile * n_rows + lane;
    return at->part == 0 && lane < n_rows && r < s->p.w.rows ? (int32_t)r : -1;
}

/* There after rf_copy_wait and rf_sync.  The bias does not depend on the kernel in front. */
RF_DEVICE void one_fetch_bias(one_extra *to, const rf_gpu_matmul_args *a, const mm_share *s,
                              const one_place *at, uint32_t n_rows) {
    const int32_t r = one_output(s, at, n_rows);
    if (r >= 0 && !a->is_glu && s->p.bias)
        rf_copy_4(to->bias + rf_tid() % 32,
                  s->p.bias + (uint64_t)s->plane * s->p.w.rows + (uint32_t)r);
}
RF_DEVICE void one_fetch_add(one_extra *to, const rf_gpu_matmul_args *a, const mm_share *s,
                             const one_place *at, uint32_t n_rows, uint32_t dst_row) {
    const int32_t r = one_output(s, at, n_rows);
    if (r >= 0 && !a->is_glu && s->p.add)
        rf_copy_4(to->add + rf_tid() % 32,
                  s->p.add + (uint64_t)dst_row * s->p.dst_stride + (uint32_t)r);
}
RF_DEVICE void one_fetch_extra(one_extra *to, const rf_gpu_matmul_args *a, const mm_share *s,
                               const one_place *at, uint32_t n_rows, uint32_t dst_row) {
    one_fetch_bias(to, a, s, at, n_rows);
    one_fetch_add(to, a, s, at, n_rows, dst_row);
}

/* The tile's outputs, whose sums the threads of part 0 have.  extra: fetched, or NULL. */
RF_DEVICE void one_end(const rf_gpu_matmul_args *a, const mm_share *s, const one_place *at,
                       const one_extra *extra, uint32_t n_rows, uint32_t dst_row, float acc) {
    const uint32_t lane = rf_tid() % 32;
    const int32_t r = one_output(s, at, n_rows);
    float up = acc;
    if (a->is_glu) up = rf_float_of(rf_lane_xor(rf_bits_of(acc), 16)); /* the upper half has it */
    if (r < 0) return;
    if (a->is_glu || !extra) {
        put_output(a, s, dst_row, (uint32_t)r, acc, up);
        return;
    }
    if (s->p.bias) acc = acc + extra->bias[lane];
    s->p.dst[(uint64_t)dst_row * s->p.dst_stride + (uint32_t)r] =
        s->p.add ? extra->add[lane] + acc : acc;
}
