/* mm.h - what the matrix products share: which matrix a block multiplies with which rows, and the
 * integers of a tile of weights (pack.h). */
#pragma once
#include "backend/gpu/kernels/canon.h"
#include "backend/gpu/lists.h"

/* A block's share: one tile of one product's plane, and n activation rows. */
typedef struct mm_share {
    rf_gpu_product p;
    uint32_t tile, plane;
    uint32_t first, n;     /* rows first .. first + n - 1 of the plane's own; n 0: nothing to do */
    const uint32_t *items; /* EXPERTS with lists: all items */
} mm_share;

enum { MM_GRID_Y = 65535 };

/* The unit of lists that a block has, of nt rows. */
RF_DEVICE void take_unit(mm_share *s, const rf_gpu_matmul_args *a, uint32_t nt, uint32_t number) {
    const uint32_t n_items = a->n_rows * a->n_used, n_experts = s->p.w.planes;
    const rf_gpu_unit *units = (const rf_gpu_unit *)(const void *)a->lists;
    s->n = 0;
    if (number >= rf_lists_units(n_items, n_experts, nt)) return;
    const rf_gpu_unit u = units[rf_lists_at(n_items, n_experts, nt) + number];
    if (u.expert >= n_experts) return; /* nobody made it: a driver's fault, or a test's */
    s->items = (const uint32_t *)(units + rf_lists_at(n_items, n_experts, 1 << RF_LISTS_WIDTHS));
    s->plane = u.expert;
    s->first = u.first;
    s->n = u.n;
}

/* tile: of tile_rows weight rows, counted over all parts; stretch: of nt activation rows; grid y:
 * planes, or items of a route without lists; with lists y and stretch count units. */
RF_DEVICE mm_share share_at(const rf_gpu_matmul_args *a, uint32_t tile_rows, uint32_t nt,
                            uint32_t tile, uint32_t stretch) {
    mm_share s;
    const uint32_t y = rf_bid_y();
    uint32_t n_rows = a->n_rows;
    s.p = a->part[0];
    s.tile = tile;
    if (!a->is_glu && a->n_parts > 1) {
        const uint32_t n0 = rf_div_up(a->part[0].w.rows, tile_rows);
        const uint32_t n1 = n0 + rf_div_up(a->part[1].w.rows, tile_rows);
        if (s.tile >= n1) {
            s.p = a->part[2];
            s.tile -= n1;
        } else if (s.tile >= n0) {
            s.p = a->part[1];
            s.tile -= n0;
        }
    }
    s.plane = a->mode == RF_GPU_MM_PLAIN ? 0 : y;
    s.first = stretch * nt;
    s.items = 0;
    if (a->mode == RF_GPU_MM_EXPERTS) {
        if (a->lists) {
            take_unit(&s, a, nt, stretch * MM_GRID_Y + y);
            return s;
        }
        const uint32_t t = y / a->n_used;
        s.plane = (uint32_t)a->route[(uint64_t)(t + 1) * a->n_used + y];
        n_rows = 1;
    }
    s.n = s.first < n_rows ? rf_min_u32(n_rows - s.first, nt) : 0;
    return s;
}

/* Tiles of all parts. */
RF_DEVICE uint32_t tiles_in(const rf_gpu_matmul_args *a, uint32_t tile_rows) {
    uint32_t n = rf_div_up(a->part[0].w.rows, tile_rows);
    if (!a->is_glu && a->n_parts > 1) n += rf_div_up(a->part[1].w.rows, tile_rows);
    if (!a->is_glu && a->n_parts > 2) n += rf_div_up(a->part[2].w.rows, tile_rows);
    return n;
}

/* Grid x: tiles; z: stretches. */
RF_DEVICE mm_share share_of(const rf_gpu_matmul_args *a, uint32_t tile_rows, uint32_t nt) {
    return share_at(a, tile_rows, nt, rf_bid_x(), rf_bid_z());
}

/* The row of dst of number i of the share; beyond the last it is the last. */
RF_DEVICE uint32_t dst_row_of(const rf_gpu_matmul_args *a, const mm_share *s, uint32_t i) {
    const uint32_t t = s->first + rf_min_u32(i, s->n - 1);
    if (a->mode == RF_GPU_MM_PLAIN) return t;
    if (a->mode == RF_GPU_MM_HEADS) return t * s->p.w.planes + s->plane;
    return s->items ? s->items[t] : rf_bid_y();
}

/* The row of x that it is made of. */
RF_DEVICE uint32_t x_row_of(const rf_gpu_matmul_args *a, uint32_t dst_row) {
    return a->mode == RF_GPU_MM_EXPERTS && !a->x_per_used ? dst_row / a->n_used : dst_row;
}

RF_DEVICE float with_bias(const rf_gpu_product *p, uint32_t plane, uint32_t r, float v) {
    return p->bias ? v + p->bias[(uint64_t)plane * p->w.rows + r] : v;
}

/* One output: the product itself, or with is_glu the up product after the gate's. */
RF_DEVICE void put_output(const rf_gpu_matmul_args *a, const mm_share *s, uint32_t dst_row,
                          uint32_t r, float gate, float v) {
    const uint64_t at = (uint64_t)dst_row * s->p.dst_stride + r;
    if (a->is_glu) {
        gate = with_bias(&s->p, s->plane, r, gate);
        s->p.dst[at] = rf_glu(a->act, gate, with_bias(&a->part[1], s->plane, r, v));
        return;
    }
    v = with_bias(&s->p, s->plane, r, v);
    s->p.dst[at] = s->p.add ? s->p.add[at] + v : v;
}

/* A term of a sum, i * d. */
typedef struct mm_term {
    float i, d;
} mm_term;

/* The sum so far with n terms. */
RF_DEVICE float mm_fold_terms(const mm_term *terms, uint32_t stride, uint32_t n, float acc) {
    RF_UNROLL_8
    for (uint32_t i = 0; i < n; i++)
        acc = rf_fma(terms[stride * i].i, terms[stride * i].d, acc);
    return acc;
}

/* Every byte less off, no borrow between bytes: u + 128 - off never carries. */
RF_DEVICE uint32_t less_off(uint32_t u, int32_t off) {
    return (u + (uint32_t)(128 - off) * 0x01010101u) ^ 0x80808080u;
}

/* 32 neighbouring integers of a row, as they lie in memory. */
typedef struct mm_raw {
    uint32_t lo[8], hi[2];
} mm_raw;

/* lo_bits and hi_bits are constants everywhere, so that only what is needed is read.  chunk counts
 * over planes, tiles and chunks. */
RF_DEVICE mm_raw load_chunk(const rf_gpu_weight *w, int lo_bits, int hi_bits, uint64_t chunk,
                            uint32_t row) {
    mm_raw r = {{0}, {0}};
    if (lo_bits == 8) {
        const rf_u4 *p = (const rf_u4 *)w->lo + chunk * 64 + row;
        const rf_u4 first = rf_stream_16(p), second = rf_stream_16(p + 32);
        RF_UNROLL
        for (int i = 0; i < 4; i++) {
            r.lo[i] = first.v[i];
            r.lo[4 + i] = second.v[i];
        }
    } else if (lo_bits == 4) {
        const rf_u4 v = rf_stream_16((const rf_u4 *)w->lo + chunk * 32 + row);
        RF_UNROLL
        for (int i = 0; i < 4; i++)
            r.lo[i] = v.v[i];
    } else {
        const rf_u2 v = ((const rf_u2 *)w->lo)[chunk * 32 + row];
        r.lo[0] = v.v[0];
        r.lo[1] = v.v[1];
    }
    if (hi_bits == 2) {
        const rf_u2 v = rf_stream_8((const rf_u2 *)w->hi + chunk * 32 + row);
        r.hi[0] = v.v[0];
        r.hi[1] = v.v[1];
    } else if (hi_bits == 1) {
        r.hi[0] = ((const uint32_t *)w->hi)[chunk * 32 + row];
    }
    return r;
}

/* Word j: elements 4j .. 4j + 3, one per byte. */
RF_DEVICE uint32_t word_of(const mm_raw *r, int lo_bits, int hi_bits, int j) {
    uint32_t u = 0;
    if (lo_bits == 8) return r->lo[j];
    if (lo_bits == 4) u = r->lo[j % 4] >> (j < 4 ? 0 : 4) & 0x0f0f0f0fu;
    if (lo_bits == 2) u = r->lo[j / 4] >> 2 * (j % 4) & 0x03030303u;
    if (hi_bits == 2) u |= (r->hi[j / 4] >> 2 * (j % 4) & 0x03030303u) << lo_bits;
    if (hi_bits == 1) u |= (r->hi[0] >> j & 0x01010101u) << lo_bits;
    return u;
}

/* What all formats of a layout of integers agree on (pack.c); MM_ANY: they do not. */
#define MM_ANY 99u
typedef struct mm_facts {
    uint32_t n_scales, with_m, d_f32;
} mm_facts;
RF_DEVICE mm_facts facts_of(int view, int lo_bits, int hi_bits) {
    mm_facts f = {view == 32 ? 0 : MM_ANY, lo_bits == 8 ? 0 : MM_ANY, MM_ANY};
    if (lo_bits != 8 && hi_bits != 1) f.d_f32 = 0;
    if (view == 32 || lo_bits == 8) return f;
    if (lo_bits == 4 && hi_bits == 0) { /* Q4_K */
        f.n_scales = 8;
        f.with_m = 1;
    } else if (lo_bits + hi_bits == 3 || hi_bits == 2) { /* Q3_K, Q6_K */
        f.n_scales = 16;
        f.with_m = f.d_f32 = 0;
    }
    return f;
}

/* d or m number i. */
RF_DEVICE float scale_at(const void *p, uint64_t i, uint32_t is_f32) {
    return is_f32 ? ((const float *)p)[i] : rf_f16_at(((const uint16_t *)p)[i]);
}

/* The n_scales bytes of a row's group; 8 of them are the first half. */
RF_DEVICE rf_u4 load_scale_bytes(const int8_t *p, uint32_t n_scales, uint64_t at) {
    if (n_scales == 16) return ((const rf_u4 *)(const void *)p)[at];
    const rf_u2 v = ((const rf_u2 *)(const void *)p)[at];
    const rf_u4 out = {{v.v[0], v.v[1], 0, 0}};
    return out;
}

/* The sixteen scales in order; where neighbours share one, it is there twice. */
RF_DEVICE rf_u4 all_scales(rf_u4 s, uint32_t n_scales) {
    if (n_scales == 16) return s;
    rf_u4 out;
    RF_UNROLL
    for (int i = 0; i < 4; i++)
        out.v[i] = rf_twice_each(s.v[i / 2], i % 2);
    return out;
}

RF_DEVICE rf_u4 load_scales(const int8_t *p, uint32_t n_scales, uint64_t at) {
    return all_scales(load_scale_bytes(p, n_scales, at), n_scales);
}

/* Signed byte number i. */
RF_DEVICE int32_t byte_of(const rf_u4 *w, int i) { return (int8_t)(w->v[i / 4] >> 8 * (i % 4)); }

/* The bytes in order, moved down by two: the scales of the next chunk come first. */
RF_DEVICE rf_u4 next_scales(rf_u4 s) {
    s.v[0] = s.v[0] >> 16 | s.v[1] << 16;
    s.v[1] = s.v[1] >> 16 | s.v[2] << 16;
    s.v[2] = s.v[2] >> 16 | s.v[3] << 16;
    s.v[3] = s.v[3] >> 16;
    return s;
}
