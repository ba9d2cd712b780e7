/* mm_avx512.c - AVX-512 with VNNI: register tiles of the integer formats over panels.
 *
 * Sixteen weight rows in the lanes of a vector, two vectors by up to six activation rows.
 * vpdpbusd multiplies u = q + off (off = 128 where q needs all eight bits) with x; off times the
 * sums of x is taken off again, all in exact integers.  Few activation rows, bound by memory, use
 * the AVX2 rows. */
#include "backend/cpu/mm_avx2.h"

enum { LANES = 16, VECS = 2, WIDTH = 6 };

typedef struct lane_floats {
    __m512 v[VECS][WIDTH];
} lane_floats;
typedef struct lane_ints {
    __m512i v[VECS][WIDTH];
} lane_ints;

/* RF_INT_256: after how many k in fours a sum still fits 16 bits, so that vpdpwssd can multiply it
 * by its scale; TILE_WIDE: never, a 32-bit multiplication does. */
typedef enum tile_mode {
    TILE_WIDE = 0,
    TILE_1 = 1, /* u <= 64 */
    TILE_2 = 2, /* u <= 32 */
    TILE_4 = 4, /* u <= 16 */
} tile_mode;

/* The first n lanes. */
RF_INLINE __mmask16 lane_mask(uint32_t n) {
    const uint32_t bits = n >= LANES ? 0xffff : (1u << n) - 1;
    return (__mmask16)bits;
}

RF_INLINE __m512i load_lanes(const uint8_t *p) { return _mm512_load_si512((const void *)p); }

RF_INLINE void load_acc(const rf_mm_tile *a, int nv, int nt, lane_floats *acc) {
    RF_UNROLL
    for (int v = 0; v < nv; v++) {
        __mmask16 mask = lane_mask(a->n_rows - (uint32_t)v * LANES);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            const float *dst = a->dst + (size_t)t * a->dst_stride + v * LANES;
            acc->v[v][t] = a->first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, dst);
        }
    }
}

RF_INLINE void store_acc(const rf_mm_tile *a, int nv, int nt, const lane_floats *acc) {
    RF_UNROLL
    for (int v = 0; v < nv; v++) {
        __mmask16 mask = lane_mask(a->n_rows - (uint32_t)v * LANES);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            __m512 out = acc->v[v][t];
            if (a->bias) out = _mm512_add_ps(out, _mm512_maskz_loadu_ps(mask, a->bias + v * LANES));
            _mm512_mask_storeu_ps(a->dst + (size_t)t * a->dst_stride + v * LANES, mask, out);
        }
    }
}

/* acc[v][t] = fma((float)i[v][t], d[v] * xd[t], acc[v][t]); d: [nv] records apart. */
RF_INLINE void add_scaled(const rf_mm_tile *a, int nv, int nt, const uint8_t *d, size_t g,
                          const lane_ints *i, lane_floats *acc) {
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        __m512 xd = _mm512_set1_ps(a->d[(size_t)t * a->group_stride + g]);
        RF_UNROLL
        for (int v = 0; v < nv; v++) {
            __m512 wd = _mm512_load_ps((const void *)(d + (size_t)v * a->vec_bytes));
            acc->v[v][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i->v[v][t]), _mm512_mul_ps(wd, xd),
                                           acc->v[v][t]);
        }
    }
}

/* Adds the products of n_quads k in fours to i.  q: weights of vector 0, x: of activation row 0. */
RF_INLINE void add_products(int nv, int nt, int n_quads, const rf_mm_tile *a, const uint8_t *q,
                            const int8_t *x, lane_ints *i) {
    RF_UNROLL
    for (int k = 0; k < n_quads; k++) {
        __m512i w[VECS];
        RF_UNROLL
        for (int v = 0; v < nv; v++)
            w[v] = load_lanes(q + (size_t)v * a->vec_bytes + (size_t)k * LANES * 4);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            __m512i b = _mm512_set1_epi32((int)rf_get_u32(x + (size_t)t * a->q_stride + 4 * k));
            RF_UNROLL
            for (int v = 0; v < nv; v++)
                i->v[v][t] = _mm512_dpbusd_epi32(i->v[v][t], w[v], b);
        }
    }
}

RF_INLINE void tile_32(int nv, int nt, const rf_mm_tile *a) {
    lane_floats acc;
    load_acc(a, nv, nt, &acc);
    for (size_t g = 0; g < a->n_groups; g++) {
        const uint8_t *record = a->panel + g * RF_MM_RECORD_32(LANES);
        lane_ints i;
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            int32_t off = a->off * a->sum[(size_t)t * a->group_stride + g];
            RF_UNROLL
            for (int v = 0; v < nv; v++)
                i.v[v][t] = _mm512_set1_epi32(-off);
        }
        add_products(nv, nt, 8, a, record + RF_MM_AT_Q_32(LANES), a->q + 32 * g, &i);
        add_scaled(a, nv, nt, record, g, &i, &acc);
        if (!a->has_min) continue;
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            __m512i sum = _mm512_set1_epi32(a->sum[(size_t)t * a->group_stride + g]);
            RF_UNROLL
            for (int v = 0; v < nv; v++)
                i.v[v][t] = sum;
        }
        add_scaled(a, nv, nt, record + RF_MM_AT_M(LANES), g, &i, &acc);
    }
    store_acc(a, nv, nt, &acc);
}

/* sum_j f[j] * sums[j], where f (scales or mins) lies in pairs in vector 0's record. */
RF_INLINE void dot_sums(int nv, int nt, const rf_mm_tile *a, const uint8_t *f, size_t g,
                        lane_ints *out) {
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        const int16_t *sums = a->sums + ((size_t)t * a->group_stride + g) * 16;
        RF_UNROLL
        for (int v = 0; v < nv; v++) {
            __m512i s = _mm512_setzero_si512();
            RF_UNROLL
            for (size_t j = 0; j < 8; j++) {
                __m512i pair = _mm512_set1_epi32((int)rf_get_u32(sums + 2 * j));
                const uint8_t *at = f + (size_t)v * a->vec_bytes + j * LANES * 4;
                s = _mm512_dpwssd_epi32(s, load_lanes(at), pair);
            }
            out->v[v][t] = s;
        }
    }
}

/* i += scale * products of the 16 elements at q and x. */
RF_INLINE void add_sixteen(tile_mode mode, int nv, int nt, const rf_mm_tile *a, const uint8_t *q,
                           const int8_t *x, const __m512i scale[], lane_ints *i) {
    const int step = mode == TILE_WIDE ? 4 : (int)mode;
    RF_UNROLL
    for (int k = 0; k < 4; k += step) {
        lane_ints s;
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            RF_UNROLL
            for (int v = 0; v < nv; v++)
                s.v[v][t] = _mm512_setzero_si512();
        }
        add_products(nv, nt, step, a, q + k * LANES * 4, x + 4 * k, &s);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            RF_UNROLL
            for (int v = 0; v < nv; v++) {
                if (mode == TILE_WIDE)
                    i->v[v][t] =
                        _mm512_add_epi32(i->v[v][t], _mm512_mullo_epi32(s.v[v][t], scale[v]));
                else
                    i->v[v][t] = _mm512_dpwssd_epi32(i->v[v][t], s.v[v][t], scale[v]);
            }
        }
    }
}

RF_INLINE void tile_256(tile_mode mode, int nv, int nt, const rf_mm_tile *a) {
    const __m512i minus_off = _mm512_set1_epi32(-a->off);
    lane_floats acc;
    load_acc(a, nv, nt, &acc);
    for (size_t g = 0; g < a->n_groups; g++) {
        const uint8_t *record = a->panel + g * RF_MM_RECORD_256(LANES);
        lane_ints i;
        if (a->off) dot_sums(nv, nt, a, record + RF_MM_AT_SCALES(LANES), g, &i);
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            RF_UNROLL
            for (int v = 0; v < nv; v++)
                i.v[v][t] =
                    a->off ? _mm512_mullo_epi32(i.v[v][t], minus_off) : _mm512_setzero_si512();
        }
        for (size_t j = 0; j < 16; j++) {
            __m512i scale[VECS];
            RF_UNROLL
            for (int v = 0; v < nv; v++) {
                scale[v] = load_lanes(record + (size_t)v * a->vec_bytes + RF_MM_AT_SCALE(LANES) +
                                      j * LANES * 4);
                if (mode == TILE_WIDE) /* sign-extended */
                    scale[v] = _mm512_srai_epi32(_mm512_slli_epi32(scale[v], 16), 16);
            }
            add_sixteen(mode, nv, nt, a, record + RF_MM_AT_Q_256(LANES) + j * LANES * 16,
                        a->q + 256 * g + 16 * j, scale, &i);
        }
        add_scaled(a, nv, nt, record, g, &i, &acc);
        if (!a->has_min) continue;
        dot_sums(nv, nt, a, record + RF_MM_AT_MINS(LANES), g, &i);
        add_scaled(a, nv, nt, record + RF_MM_AT_M(LANES), g, &i, &acc);
    }
    store_acc(a, nv, nt, &acc);
}

/* One function per shape, so that mode, nv and nt are constants inside. */
#define TILE_SHAPE(nv, nt)                                                                \
    static void tile_32_##nv##_##nt(const rf_mm_tile *a) { tile_32(nv, nt, a); }          \
    static void wide_##nv##_##nt(const rf_mm_tile *a) { tile_256(TILE_WIDE, nv, nt, a); } \
    static void tile_1_##nv##_##nt(const rf_mm_tile *a) { tile_256(TILE_1, nv, nt, a); }  \
    static void tile_2_##nv##_##nt(const rf_mm_tile *a) { tile_256(TILE_2, nv, nt, a); }  \
    static void tile_4_##nv##_##nt(const rf_mm_tile *a) { tile_256(TILE_4, nv, nt, a); }
TILE_SHAPE(1, 1)
TILE_SHAPE(1, 2)
TILE_SHAPE(1, 4)
TILE_SHAPE(1, 6)
TILE_SHAPE(2, 1)
TILE_SHAPE(2, 2)
TILE_SHAPE(2, 4)
TILE_SHAPE(2, 6)

#define TILES(name)                                               \
    {                                                             \
        .lanes = LANES, .vecs = VECS, .widths = {6, 4, 2, 1},     \
        .one = {name##_1_6, name##_1_4, name##_1_2, name##_1_1},  \
        .full = {name##_2_6, name##_2_4, name##_2_2, name##_2_1}, \
    }
static const rf_mm_tiles tiles_32 = TILES(tile_32);
static const rf_mm_tiles tiles_wide = TILES(wide);
static const rf_mm_tiles tiles_1 = TILES(tile_1);
static const rf_mm_tiles tiles_2 = TILES(tile_2);
static const rf_mm_tiles tiles_4 = TILES(tile_4);

static const rf_mm_tiles *tiles_of(const rf_mm *mm) {
    uint8_t u_max = rf_mm_range_of(mm->w->type).u_max;
    if (mm->act->view == RF_INT_32) return &tiles_32;
    if (u_max <= 16) return &tiles_4;
    if (u_max <= 32) return &tiles_2;
    return u_max <= 64 ? &tiles_1 : &tiles_wide;
}

static void matmul(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    if (begin >= end || mm->act->n_rows == 0) return;
    if (mm->act->view == RF_INT_NONE)
        rf_mm_float_avx512(mm, begin, end, scratch);
    else if (mm->act->n_rows < RF_MM_TILE_MIN)
        rf_mm_rows_avx2(mm, begin, end, scratch);
    else
        rf_mm_panels_avx2(mm, begin, end, scratch, tiles_of(mm));
}

void rf_cpu_mm_avx512(rf_cpu_kernels *k) { k->matmul = matmul; }
