/* one.h - what the products of integer weights with one activation row share: a part's loads of a round,
 * its activations, as integers or floats that it makes integers of, and the terms that it leaves in
 * shared memory, one for each group and row, or with minima two. */
#pragma once
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

/* What is known of the layout, as constants, or at least to be alike in all threads. */
RF_DEVICE void one_know(one_place *at, int view, int lo_bits, int hi_bits) {
    at->n_terms = at->w.m ? 2 : 1;
#if defined(RF_AMD)
    const mm_facts f = facts_of(view, lo_bits, hi_bits);
    at->w.n_scales = f.n_scales == MM_ANY ? rf_alike(at->w.n_scales) : f.n_scales;
    at->n_terms = f.with_m == MM_ANY ? rf_alike(at->n_terms) : 1 + f.with_m;
    at->w.d_f32 = f.d_f32 == MM_ANY ? rf_alike(at->w.d_f32) : f.d_f32;
    at->w.off = (int32_t)rf_alike((uint32_t)at->w.off);
#else
    (void)view, (void)lo_bits, (void)hi_bits;
#endif
}

/* Has the layout what is there for minima alone? */
RF_DEVICE int one_has(const one_place *at, const void *p) {
#if defined(RF_AMD)
    (void)p; /* another one in half of the threads */
    return at->n_terms == 2;
#else
    (void)at;
    return p != 0;
#endif
}

/* Bits of d or m number i. */
RF_DEVICE uint32_t load_scale(const void *p, uint64_t i, uint32_t is_f32) {
    return is_f32 ? ((const uint32_t *)p)[i] : ((const uint16_t *)p)[i];
}
RF_DEVICE float scale_of(uint32_t bits, uint32_t is_f32) {
    return is_f32 ? rf_float_of(bits) : rf_f16_at((uint16_t)bits);
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
            r->scale = load_scale_bytes(at->w.scale, at->w.n_scales, own);
            if (one_has(at, at->w.min)) r->min = load_scale_bytes(at->w.min, at->w.n_scales, own);
        }
        r->d[i] = load_scale(at->w.d, own, at->w.d_f32);
        r->m[i] = one_has(at, at->w.m) ? load_scale(at->w.m, own, at->w.d_f32) : 0;
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

/* A part's own groups into integers, as canon.h does it. */
RF_DEVICE void one_quantise(one_rows *to, const one_floats *f, int view, uint32_t part) {
    const uint32_t lane = rf_tid() % 32, n = view == 256 ? 8 : 4, n_lanes = (uint32_t)view / n;
    uint32_t most = 0, words[2] = {0, 0};
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bits = rf_bits_of(f->v[i / 4].v[i % 4]) & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    RF_UNROLL
    for (uint32_t mask = 1; mask < n_lanes; mask *= 2) {
        const uint32_t other = rf_lane_xor(most, mask);
        most = other > most ? other : most;
    }
    const float amax = rf_float_of(most), id = amax > 0 ? 127.0f / amax : 0;
    uint32_t sum = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t v = (uint32_t)rf_quantised(f->v[i / 4].v[i % 4], id);
        sum += v;
        words[i / 4] |= (v & 255u) << 8 * (i % 4);
    }
    const uint32_t n_sum = view == 256 ? 2 : 8, groups = part * (32 / n_lanes);
    RF_UNROLL
    for (uint32_t mask = 1; mask < n_sum; mask *= 2)
        sum += rf_lane_xor(sum, mask);
    uint32_t *q = (uint32_t *)to->q + (part * 32 + lane) * (n / 4);
    q[0] = words[0];
    if (view == 256) q[1] = words[1];
    if (lane % n_sum == 0) ((uint32_t *)to->sum)[(part * 32 + lane) / n_sum] = sum;
    if (lane % n_lanes == 0) to->d[groups + lane / n_lanes] = amax / 127.0f;
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
    const rf_u4 other = one_has(at, at->w.min) ? all_scales(r->min, at->w.n_scales) : scale;
    int32_t i = 0, sum = 0;
    RF_UNROLL
    for (uint32_t c = 0; c < 8; c++) {
        int32_t p0, p1;
        one_dot(&r->raw[c], lo_bits, hi_bits, x->q + 16 * at->part + 2 * c, &p0, &p1);
        i += rf_times_24(byte_of(&scale, 2 * (int)c), p0) +
             rf_times_24(byte_of(&scale, 2 * (int)c + 1), p1);
        rf_in_turn();
    }
    if (lo_bits != 8) { /* either minima or an offset of the integers need the activations' sums */
        RF_UNROLL
        for (int j = 0; j < 16; j++)
            sum += rf_times_24(byte_of(&other, j),
                               (int32_t)x->sum[4 * at->part + (uint32_t)j / 4].v[j % 4]);
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
