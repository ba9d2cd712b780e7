/* mm_vnni.h - register tiles of the integer formats over panels, by the products of u8 and s8 that
 * VNNI adds up in fours; private to mm_avx512.c and mm_avxvnni.c.
 *
 * Written over `vec` (mm_vec_avx512.h, mm_vec_avxvnni.h); the includer also defines
 * VNNI_VECS, the vectors of weight rows that a tile's registers have room for (1 or 2), VNNI_PACK
 * and VNNI_FLOATS, which write its panels and multiply floats, and VNNI_ROWS, which multiplies few
 * activation rows.  vec_dot_bytes multiplies u = q + off (off = 128 where q needs all eight bits)
 * with x; off times the sums of x is taken off again, all in exact integers. */
#pragma once
#include "backend/cpu/mm_avx2.h"

enum {
    VECS = VNNI_VECS,
    WIDTH = RF_MM_TILE_WIDTH,
    FLIP_FROM =
        32, /* activation rows from which flipping pays: sums of weights instead of theirs */
};

typedef struct lane_floats {
    vec_floats v[VECS][WIDTH];
} lane_floats;
typedef struct lane_ints {
    vec v[VECS][WIDTH];
} lane_ints;

/* RF_INT_256: how many k in fours are added up before vpdpwssd, as long as sums fit 16 bits, or a
 * multiplication of 32 bits, for as many as share a scale, multiplies them by it. */
typedef enum tile_mode {
    TILE_4_32, /* u <= 16, a scale for 32 */
    TILE_WIDE_4,
    TILE_WIDE_8,
    TILE_FLIP_4, /* signed weights and activations with 128 added, likewise */
    TILE_FLIP_8,
    TILE_SCALED, /* all of a group: the scales are in the weights */
} tile_mode;
RF_INLINE bool is_flipped(tile_mode mode) { return mode == TILE_FLIP_4 || mode == TILE_FLIP_8; }
RF_INLINE bool has_wide_scales(tile_mode mode) {
    return mode == TILE_4_32 || mode == TILE_WIDE_8 || mode == TILE_FLIP_8;
}

RF_INLINE int quads_of_scale(tile_mode mode) {
    return mode == TILE_WIDE_8 || mode == TILE_FLIP_8 ? 8 : 4;
}

RF_INLINE void load_acc(const rf_mm_tile *a, int nv, int nt, lane_floats *acc) {
    RF_UNROLL
    for (int v = 0; v < nv; v++) {
        const uint32_t n = a->n_rows - (uint32_t)v * VEC_ROWS;
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            const float *dst = a->dst + (size_t)t * a->dst_stride + v * VEC_ROWS;
            acc->v[v][t] = a->first ? vec_floats_set(0) : vec_load_floats_n(dst, n);
        }
    }
}

RF_INLINE void store_acc(const rf_mm_tile *a, int nv, int nt, const lane_floats *acc) {
    RF_UNROLL
    for (int v = 0; v < nv; v++) {
        const uint32_t n = a->n_rows - (uint32_t)v * VEC_ROWS;
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            vec_floats out = acc->v[v][t];
            if (a->bias) out = vec_floats_add(out, vec_load_floats_n(a->bias + v * VEC_ROWS, n));
            vec_store_floats_n(a->dst + (size_t)t * a->dst_stride + v * VEC_ROWS, n, out);
        }
    }
}

/* acc[v][t] = fma((float)i[v][t], d[v] * xd[t], acc[v][t]); d: [nv] records apart. */
RF_INLINE void add_scaled(const rf_mm_tile *a, int nv, int nt, const uint8_t *d, size_t g,
                          const lane_ints *i, lane_floats *acc) {
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        vec_floats xd = vec_floats_set(a->d[(size_t)t * a->group_stride + g]);
        RF_UNROLL
        for (int v = 0; v < nv; v++) {
            vec_floats wd = vec_load_floats(d + (size_t)v * a->vec_bytes);
            acc->v[v][t] = vec_fma(vec_to_floats(i->v[v][t]), vec_floats_mul(wd, xd), acc->v[v][t]);
        }
    }
}

/* Adds the products of n_quads k in fours to i.  q: weights of vector 0, x: of activation row 0.
 * flip: weights are signed, and 128 is added to the activations. */
RF_INLINE void add_products(bool flip, int nv, int nt, int n_quads, const rf_mm_tile *a,
                            const uint8_t *q, const int8_t *x, lane_ints *i) {
    RF_UNROLL
    for (int k = 0; k < n_quads; k++) {
        vec w[VECS];
        RF_UNROLL
        for (int v = 0; v < nv; v++)
            w[v] = vec_load(q + (size_t)v * a->vec_bytes + (size_t)k * VEC_ROWS * 4);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            vec b = vec_set(rf_get_u32(x + (size_t)t * a->q_stride + 4 * k));
            if (flip) b = vec_xor(b, vec_bytes(128));
            RF_UNROLL
            for (int v = 0; v < nv; v++)
                i->v[v][t] = vec_dot_bytes(i->v[v][t], flip ? b : w[v], flip ? w[v] : b);
        }
    }
}

/* A scale of activations has four significant bits: it is m / 8, m from 8 on, times a power of two.  A group's table has
 * the weights' scales times each of the eight m / 8, [8][VECS] vectors, less 127 in the exponent: the bits of a power of
 * two are added to those, by units that do not multiply. */
enum {
    TIMES = 8,
    TIMES_OF_ONE = VECS * VEC_ROWS * 4, /* bytes */
    TIMES_BYTES = TIMES * TIMES_OF_ONE,
    TIMES_FROM = 128, /* activation rows from which making tables pays */
};

/* add_scaled by the group's table. */
RF_INLINE void add_times(const rf_mm_tile *a, int nt, size_t g, const lane_ints *i,
                         lane_floats *acc) {
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        const uint32_t xd = rf_get_u32(&a->d[(size_t)t * a->group_stride + g]);
        const uint8_t *times = a->times + g * TIMES_BYTES + (xd >> 20) % TIMES * TIMES_OF_ONE;
        const vec power = vec_set(xd & 0x7f800000);
        RF_UNROLL
        for (int v = 0; v < VECS; v++) {
            const vec d = vec_add(vec_load(times + (size_t)v * VEC_ROWS * 4), power);
            acc->v[v][t] = vec_fma(vec_to_floats(i->v[v][t]), vec_as_floats(d), acc->v[v][t]);
        }
    }
}

/* acc[v][t] += the minima of n groups from `first` on, which share steps, times their totals. */
RF_INLINE void add_minima(const rf_mm_tile *a, int nv, int nt, size_t first, size_t n,
                          lane_floats *acc) {
    lane_floats p;
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        RF_UNROLL
        for (int v = 0; v < nv; v++)
            p.v[v][t] = vec_floats_zero();
    }
    for (size_t g = first; g < first + n; g++) {
        const uint8_t *m = a->panel + g * RF_MM_RECORD_32(VEC_ROWS) + RF_MM_AT_M(VEC_ROWS);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            const vec_floats total = vec_floats_set(a->total[(size_t)t * a->group_stride + g]);
            RF_UNROLL
            for (int v = 0; v < nv; v++)
                p.v[v][t] =
                    vec_fma(vec_load_floats(m + (size_t)v * a->vec_bytes), total, p.v[v][t]);
        }
    }
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        RF_UNROLL
        for (int v = 0; v < nv; v++)
            acc->v[v][t] = vec_floats_add(acc->v[v][t], p.v[v][t]);
    }
}

RF_INLINE void tile_32(bool by_table, int nv, int nt, const rf_mm_tile *a) {
    lane_floats acc;
    rf_mm_ask_for_next(a, nv, nt, VEC_ROWS);
    load_acc(a, nv, nt, &acc);
    for (size_t g = 0; g < a->n_groups; g++) {
        rf_mm_look_ahead(a->ahead);
        const uint8_t *record = a->panel + g * RF_MM_RECORD_32(VEC_ROWS);
        lane_ints i;
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            vec start = vec_set((uint32_t)a->start[(size_t)t * a->group_stride + g]);
            RF_UNROLL
            for (int v = 0; v < nv; v++)
                i.v[v][t] = start;
        }
        add_products(false, nv, nt, 8, a, record + RF_MM_AT_Q_32(VEC_ROWS), a->q + 32 * g, &i);
        if (by_table)
            add_times(a, nt, g, &i, &acc);
        else
            add_scaled(a, nv, nt, record, g, &i, &acc);
        if (!a->has_min) continue;
        const size_t ended = rf_mm_shares_ended(g, a->n_groups);
        if (ended) add_minima(a, nv, nt, g + 1 - ended, ended, &acc);
    }
    store_acc(a, nv, nt, &acc);
}

/* sum_j f[j] * sums[j], where f (scales or mins) lies in n_pairs pairs in vector 0's record. */
RF_INLINE void dot_sums(int nv, int nt, size_t n_pairs, const rf_mm_tile *a, const uint8_t *f,
                        size_t g, lane_ints *out) {
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        const int16_t *sums = a->sums + ((size_t)t * a->group_stride + g) * 2 * n_pairs;
        RF_UNROLL
        for (int v = 0; v < nv; v++) {
            vec s = vec_set(0);
            RF_UNROLL
            for (size_t j = 0; j < n_pairs; j++) {
                vec pair = vec_set(rf_get_u32(sums + 2 * j));
                const uint8_t *at = f + (size_t)v * a->vec_bytes + j * VEC_ROWS * 4;
                s = vec_dot_pairs(s, vec_load(at), pair);
            }
            out->v[v][t] = s;
        }
    }
}

/* Where the integers of group g start. */
RF_INLINE void start_256(tile_mode mode, int nv, int nt, const rf_mm_tile *a, size_t g,
                         lane_ints *i) {
    const uint8_t *scales = a->panel + g * RF_MM_RECORD_256(VEC_ROWS) + RF_MM_AT_SCALES(VEC_ROWS);
    const bool has_sums = a->has_off && !is_flipped(mode) && mode != TILE_SCALED;
    if (has_sums) dot_sums(nv, nt, has_wide_scales(mode) ? 4 : 8, a, scales, g, i);
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        RF_UNROLL
        for (int v = 0; v < nv; v++)
            i->v[v][t] = is_flipped(mode) ? vec_load(scales + (size_t)v * a->vec_bytes)
                         : has_sums       ? i->v[v][t]
                                          : vec_set(0);
    }
}

/* The integers of group g from the sums of scaled weights. */
RF_INLINE void finish_scaled(int nv, int nt, const rf_mm_tile *a, size_t g, lane_ints *i) {
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        vec start = vec_set((uint32_t)a->start[(size_t)t * a->group_stride + g]);
        RF_UNROLL
        for (int v = 0; v < nv; v++) {
            if (a->doubled) i->v[v][t] = vec_add(i->v[v][t], i->v[v][t]);
            i->v[v][t] = vec_add(i->v[v][t], start);
        }
    }
}

/* i += scale * products of the elements at q and x, 32 in TILE_WIDE_8 and TILE_FLIP_8 and else 16. */
RF_INLINE void add_stretch(tile_mode mode, int nv, int nt, const rf_mm_tile *a, const uint8_t *q,
                           const int8_t *x, const vec scale[], lane_ints *i) {
    lane_ints s;
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        RF_UNROLL
        for (int v = 0; v < nv; v++)
            s.v[v][t] = vec_set(0);
    }
    add_products(is_flipped(mode), nv, nt, quads_of_scale(mode), a, q, x, &s);
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        RF_UNROLL
        for (int v = 0; v < nv; v++) {
            if (mode == TILE_SCALED)
                i->v[v][t] = vec_add(i->v[v][t], s.v[v][t]);
            else if (mode == TILE_4_32)
                i->v[v][t] = vec_dot_pairs(i->v[v][t], s.v[v][t], scale[v]);
            else
                i->v[v][t] = vec_add(i->v[v][t], vec_mul(s.v[v][t], scale[v]));
        }
    }
}

/* i += scale * products of group g from its sixteen number j on, as many as share the scale. */
RF_INLINE void add_sixteens(tile_mode mode, int nv, int nt, const rf_mm_tile *a, size_t g, size_t j,
                            lane_ints *i) {
    const uint8_t *record = a->panel + g * RF_MM_RECORD_256(VEC_ROWS);
    const uint8_t *q = record + RF_MM_AT_Q_256(VEC_ROWS) + j * VEC_ROWS * 16;
    const int8_t *x = a->q + 256 * g + 16 * j;
    vec scale[VECS];
    if (mode == TILE_SCALED && nv > 1) { /* enough sums that none waits for itself */
        add_products(false, nv, nt, 4, a, q, x, i);
        return;
    }
    RF_UNROLL
    for (int v = 0; v < nv; v++) {
        scale[v] = vec_load(record + (size_t)v * a->vec_bytes + RF_MM_AT_SCALE(VEC_ROWS) +
                            j * VEC_ROWS * 4);
        if (mode != TILE_4_32) /* sign-extended */
            scale[v] = vec_sar(vec_shl(scale[v], 16), 16);
    }
    add_stretch(mode, nv, nt, a, q, x, scale, i);
}

RF_INLINE void tile_256(tile_mode mode, int nv, int nt, const rf_mm_tile *a) {
    const size_t n_pairs = has_wide_scales(mode) ? 4 : 8;
    const size_t step = (size_t)quads_of_scale(mode) / 4; /* sixteens */
    const size_t look_after = 16 / a->n_looks;
    lane_floats acc;
    rf_mm_ask_for_next(a, nv, nt, VEC_ROWS);
    load_acc(a, nv, nt, &acc);
    for (size_t g = 0; g < a->n_groups; g++) {
        const uint8_t *record = a->panel + g * RF_MM_RECORD_256(VEC_ROWS);
        lane_ints i;
        start_256(mode, nv, nt, a, g, &i);
        for (size_t j = 0; j < 16;) {
            rf_mm_look_ahead(a->ahead);
            for (const size_t end = j + look_after; j < end; j += step)
                add_sixteens(mode, nv, nt, a, g, j, &i);
        }
        if (mode == TILE_SCALED && a->has_off) finish_scaled(nv, nt, a, g, &i);
        add_scaled(a, nv, nt, record, g, &i, &acc);
        if (!a->has_min) continue;
        dot_sums(nv, nt, n_pairs, a, record + RF_MM_AT_MINS(VEC_ROWS), g, &i);
        add_scaled(a, nv, nt, record + RF_MM_AT_M(VEC_ROWS), g, &i, &acc);
    }
    store_acc(a, nv, nt, &acc);
}

/* One function per shape, so that mode, nv and nt are constants inside. */
#define TILE_SHAPE(nv, nt)                                                                     \
    static void tile_32_##nv##_##nt(const rf_mm_tile *a) { tile_32(false, nv, nt, a); }        \
    static void tile_4_32_##nv##_##nt(const rf_mm_tile *a) { tile_256(TILE_4_32, nv, nt, a); } \
    static void wide_4_##nv##_##nt(const rf_mm_tile *a) { tile_256(TILE_WIDE_4, nv, nt, a); }  \
    static void wide_8_##nv##_##nt(const rf_mm_tile *a) { tile_256(TILE_WIDE_8, nv, nt, a); }  \
    static void scaled_##nv##_##nt(const rf_mm_tile *a) { tile_256(TILE_SCALED, nv, nt, a); }
#define FLIP_SHAPE(nv, nt)                                                                    \
    static void flip_4_##nv##_##nt(const rf_mm_tile *a) { tile_256(TILE_FLIP_4, nv, nt, a); } \
    static void flip_8_##nv##_##nt(const rf_mm_tile *a) { tile_256(TILE_FLIP_8, nv, nt, a); }
#define SHAPES(shape, nv) \
    shape(nv, 1) shape(nv, 2) shape(nv, 3) shape(nv, 4) shape(nv, 5) shape(nv, 6)
SHAPES(TILE_SHAPE, 1)
#if VNNI_VECS == 2
SHAPES(TILE_SHAPE, 2)
SHAPES(FLIP_SHAPE, 1)
SHAPES(FLIP_SHAPE, 2)
#define TIMES_SHAPE(nv, nt) \
    static void times_##nv##_##nt(const rf_mm_tile *a) { tile_32(true, nv, nt, a); }
SHAPES(TIMES_SHAPE, 2)
#define SHAPES_OF_TWO(name) \
    { name##_2_1, name##_2_2, name##_2_3, name##_2_4, name##_2_5, name##_2_6 }
#else
#define SHAPES_OF_TWO(name) \
    { NULL }
#endif

#define TILES_OF(name, how)                                                                     \
    .lanes = VEC_ROWS, .vecs = VECS, .width = WIDTH, .tall_from = 1, .often_to = RF_MM_FEW_MAX, \
    .pack = VNNI_PACK, .scales = (how), .keep_sign = (how) == RF_MM_SCALES_FLIPPED,             \
    .one = {name##_1_1, name##_1_2, name##_1_3, name##_1_4, name##_1_5, name##_1_6},            \
    .two = SHAPES_OF_TWO(name)
#define TILES(name, how) \
    { TILES_OF(name, how) }
static const rf_mm_tiles tiles_32 = TILES(tile_32, RF_MM_SCALES_ONCE);
#if VNNI_VECS == 2
/* Weights' scales are f16's, but for 0 and what is no number: so no product leaves the range of normal numbers. */
static const uint8_t *make_times(const rf_mm_pack *p) {
    const size_t record = RF_MM_RECORD_32(VEC_ROWS);
    uint8_t *table = p->panel + RF_MM_TIMES_AT;
    for (size_t g = 0; g < p->n_groups; g++, table += TIMES_BYTES) {
        RF_UNROLL
        for (size_t v = 0; v < VECS; v++) {
            const vec_floats wd = vec_load_floats(p->panel + (v * p->n_groups + g) * record);
            if (!vec_are_between(wd, 127 - 24, 24 + 16)) return NULL;
            RF_UNROLL
            for (size_t m = 0; m < TIMES; m++) {
                const vec_floats d = vec_floats_mul(wd, vec_floats_set(1.0f + (float)m / 8));
                vec_store(table + (m * VECS + v) * VEC_ROWS * 4,
                          vec_add(vec_of_floats(d), vec_set(0u - (127u << 23))));
            }
        }
    }
    return p->panel + RF_MM_TIMES_AT;
}
_Static_assert(VECS *RF_MM_STRETCH / 64 * RF_MM_RECORD_32(VEC_ROWS) <= RF_MM_TIMES_AT, "panel");
_Static_assert(RF_MM_TIMES_AT + RF_MM_STRETCH / 64 * TIMES_BYTES <= RF_MM_PANEL_BYTES, "table");

static const rf_mm_tiles tiles_times = {
    TILES_OF(tile_32, RF_MM_SCALES_ONCE),
    .make_times = make_times,
    .times = SHAPES_OF_TWO(times),
};
#endif
static const rf_mm_tiles tiles_4_32 = TILES(tile_4_32, RF_MM_SCALES_ONCE);
static const rf_mm_tiles tiles_wide_4 = TILES(wide_4, RF_MM_SCALES_ONCE);
static const rf_mm_tiles tiles_wide_8 = TILES(wide_8, RF_MM_SCALES_ONCE);
static const rf_mm_tiles tiles_scaled = TILES(scaled, RF_MM_SCALES_IN);
#if VNNI_VECS == 2
static const rf_mm_tiles tiles_flip_4 = TILES(flip_4, RF_MM_SCALES_FLIPPED);
static const rf_mm_tiles tiles_flip_8 = TILES(flip_8, RF_MM_SCALES_FLIPPED);
#endif

/* AMD's multiply 32 bits in one operation, Intel's in two. */
static bool multiplies_32_bits_at_once(void) { return __builtin_cpu_is("amd"); }

static const rf_mm_tiles *tiles_of(const rf_mm *mm) {
    const rf_mm_range range = rf_mm_range_of(mm->w->type);
#if VNNI_VECS == 2
    if (mm->act->view == RF_INT_32 && mm->act->n_rows >= TIMES_FROM && multiplies_32_bits_at_once())
        return &tiles_times;
#endif
    if (mm->act->view == RF_INT_32) return &tiles_32;
    const rf_mm_scaled scaled = rf_mm_scaled_of(mm->w->type);
    if (scaled.from > 0 && mm->act->n_rows >= scaled.from) return &tiles_scaled;
    const bool is_wide = rf_mm_scale_elems(rf_mm_format_of(mm->w->type)) == 32;
#if VNNI_VECS == 2
    if (range.off > 0 && mm->act->n_rows >= FLIP_FROM && multiplies_32_bits_at_once())
        return is_wide ? &tiles_flip_8 : &tiles_flip_4;
#endif
    if (!is_wide) return &tiles_wide_4;
    return range.u_max <= 16 && !multiplies_32_bits_at_once() ? &tiles_4_32 : &tiles_wide_8;
}

/* Activation rows from which panels pay. */
static uint32_t panels_from(rf_mm_format f) {
    if (VNNI_VECS == 1 || f < RF_MM_Q4_K || (f >= RF_MM_IQ2_XXS && f <= RF_MM_TQ1_0))
        return RF_MM_TILE_MIN;
    return f == RF_MM_Q4_K || f == RF_MM_Q5_K || f == RF_MM_IQ4_XS ? 2 : 3;
}

#ifdef VNNI_FEW
/* Activation rows from which groups of 32 do without a panel.  With fewer a format waits for memory, which
 * answers the other kernels better, the sooner the more bytes it has. */
static uint32_t few_from(rf_mm_format f) {
    if (f == RF_MM_Q8_0) return 4;
    if (f == RF_MM_Q4_0 || f == RF_MM_Q4_1) return 3;
    return f >= RF_MM_MXFP6_E2M3 ? 1 : 2; /* those take most steps to unpack */
}
static bool are_few(rf_mm_format f, uint32_t n_act, uint32_t n_rows) {
    return f < RF_MM_Q4_K && n_act >= few_from(f) && n_act <= RF_MM_FEW_MAX && n_rows >= VEC_ROWS;
}
#endif

static void matmul(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    if (begin >= end || mm->act->n_rows == 0) return;
    if (mm->act->view == RF_INT_NONE) {
        VNNI_FLOATS(mm, begin, end, scratch);
        return;
    }
    const rf_mm_format f = rf_mm_format_of(mm->w->type);
#ifdef VNNI_FEW
    if (are_few(f, mm->act->n_rows, end - begin)) {
        VNNI_FEW(mm, begin, end, scratch);
        return;
    }
#endif
    if (mm->act->n_rows < panels_from(f))
        VNNI_ROWS(mm, begin, end, scratch);
    else
        rf_mm_panels_avx2(mm, begin, end, scratch, tiles_of(mm));
}
