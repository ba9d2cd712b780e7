/* mm.h - what the matrix-product kernels share; private to src/backend/cpu/mm_*.c.
 *
 * One to three activation rows stream the weights once, straight from the packed blocks
 * (mm_rows.h).  More rows go through a panel: a stretch of some output rows is unpacked once
 * with output rows in vector lanes (mm_quads.h, mm_panels.h) and multiplied with
 * all activation rows in register tiles (mm_avx2.c, mm_vnni.h).  AVX-512 does without a panel for a few rows
 * of groups of 32 (mm_few_avx512.c).  NEON has panels of its own (mm_neon.c), AMX blocks (mm_amx.c).
 * All give the bits of mm_scalar.c. */
#pragma once
#include "backend/cpu/kernels.h"
#include "base/fmath.h"

#include <string.h>

#define RF_INLINE static inline __attribute__((always_inline))

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RF_MM_TILE_MIN = 4,             /* activation rows from which unpacking a panel pays */
    RF_MM_FEW_MAX = 16,             /* most activation rows that do without a panel */
    RF_MM_TILE_WIDTH = 6,           /* most activation rows of a register tile of integers */
    RF_MM_FLOAT_ROWS = 64,          /* most weight rows in a panel of floats */
    RF_MM_FLOAT_NR = 4,             /* weight rows of a register tile of floats */
    RF_MM_FLOAT_NT = RF_ACT_FLOATS, /* activation rows that go through a panel at a time, */
    RF_MM_FLOAT_BLOCK = 288,        /* and whose sums wait in memory where it has a part of k */
    RF_MM_FLOAT_BYTES = 640 << 10,  /* most bytes of a panel of floats */
    RF_MM_LAY_OUT_FROM = 33,        /* activation rows whose panels are always decoded */
    RF_MM_BLOCKS = 4,               /* of weight rows whose results AMX may keep */
    RF_MM_PANEL_BYTES = 64 << 10,   /* most bytes of an integer panel, with its table, */
    RF_MM_TIMES_AT = 32 << 10,      /* which begins there */
    RF_MM_STRETCH = 1024,           /* most columns in one */
    RF_MM_BEFORE = 2048,            /* bytes of weights that are asked for before they are due */
    RF_MM_LOOKS_256 = 8,            /* ahead (rf_mm_ahead) while a group of 256 is packed */
};

/* The scale of a group of integers whose largest |x| is amax, and what x is multiplied with. */
typedef struct rf_mm_scale {
    float d, id;
} rf_mm_scale;
RF_INLINE rf_mm_scale rf_mm_scale_of(float amax) {
    return (rf_mm_scale){amax / 127.0f, amax > 0 ? 127.0f / amax : 0};
}
/* d rounded up to four significant bits: activations in groups of 32. */
RF_INLINE rf_mm_scale rf_mm_short_scale_of(float amax) {
    float d = amax * RF_QUANT_UNIT;
    uint32_t bits;
    memcpy(&bits, &d, sizeof bits);
    bits = RF_QUANT_SHORT(bits);
    memcpy(&d, &bits, sizeof d);
    return (rf_mm_scale){d, d > 0 ? 1.0f / d : 0};
}
typedef rf_mm_scale rf_mm_scale_fn(float amax);

/* How many groups of 32 that share steps end with group g of n, or 0 where none do; and a number rounded by such bits
 * as RF_ROUND_MINIMA and RF_ROUND_TOTALS make. */
RF_INLINE size_t rf_mm_shares_ended(size_t g, size_t n) {
    return g % RF_SHARE_GROUPS == RF_SHARE_GROUPS - 1 || g + 1 == n ? g % RF_SHARE_GROUPS + 1 : 0;
}
RF_INLINE float rf_mm_rounded(float v, uint32_t by) {
    float c;
    memcpy(&c, &by, sizeof c);
    return (v + c) - c;
}

static inline size_t rf_mm_round16(size_t n) { return (n + 15) & ~(size_t)15; }
static inline const uint8_t *rf_mm_row(const rf_tensor *w, uint32_t r) {
    return (const uint8_t *)w->data + (size_t)r * w->row_bytes;
}

/* What to fetch while the rows before `row` are multiplied: that row, or what comes behind `end`. */
static inline const uint8_t *rf_mm_next_row(const rf_mm *mm, uint32_t row, uint32_t end) {
    if (row < end) return rf_mm_row(mm->w, row);
    return mm->next ? (const uint8_t *)mm->next : rf_mm_row(mm->w, end - 1);
}

/* 64 bytes of weights that are wanted soon, and in the order in which they lie: what fetches ahead in the
 * processor follows.  The first-level cache can wait for a few lines only, too few to make up for how
 * far memory is, so the second level is told of them before. */
static inline void rf_mm_ask_for(const uint8_t *p) {
    __builtin_prefetch(p, 0, 3);
    __builtin_prefetch(p + RF_MM_BEFORE, 0, 2);
}

/* How a format's integers become unsigned bytes: u = q + off lies in [0, u_max]. */
typedef struct rf_mm_range {
    uint8_t off, u_max;
} rf_mm_range;
static inline rf_mm_range rf_mm_range_of(rf_dtype t) {
    static const rf_mm_range ranges[RF_DT_COUNT] = {
        [RF_DT_Q1_0] = {1, 2},          [RF_DT_Q2_0] = {1, 3},     [RF_DT_Q4_0] = {8, 15},
        [RF_DT_Q4_1] = {0, 15},         [RF_DT_Q5_0] = {16, 31},   [RF_DT_Q5_1] = {0, 31},
        [RF_DT_MXFP4] = {12, 24},       [RF_DT_Q2_K] = {0, 3},     [RF_DT_Q3_K] = {4, 7},
        [RF_DT_Q4_K] = {0, 15},         [RF_DT_Q5_K] = {0, 31},    [RF_DT_Q6_K] = {32, 63},
        [RF_DT_IQ1_S] = {9, 18},        [RF_DT_IQ1_M] = {9, 18},   [RF_DT_IQ3_S] = {15, 30},
        [RF_DT_IQ2_XXS] = {43, 86},     [RF_DT_IQ2_XS] = {43, 86}, [RF_DT_IQ2_S] = {43, 86},
        [RF_DT_IQ3_XXS] = {62, 124},    [RF_DT_TQ1_0] = {1, 2},    [RF_DT_TQ2_0] = {1, 3},
        [RF_DT_MXFP6_E2M3] = {60, 120},
    };
    rf_mm_range r = ranges[t];
    return r.u_max > 0 ? r : (rf_mm_range){128, 255};
}

/* What a panel of RF_INT_256 does with the scales inside a group. */
typedef enum rf_mm_scales {
    RF_MM_SCALES_ONCE,    /* kept: an i16 beside a 0 */
    RF_MM_SCALES_TWICE,   /* kept: twice the same i16, for sums of pairs of them */
    RF_MM_SCALES_IN,      /* multiplied into the weights where rf_mm_scaled_of says so */
    RF_MM_SCALES_FLIPPED, /* kept once; weights keep their signs, for activations with 128 added */
} rf_mm_scales;

/* Formats of groups of 256 whose weights times scales are bytes: those are times * u - off, so that a
 * group's integer is times * sum(u * x) - off * sum(x). */
typedef struct rf_mm_scaled {
    uint8_t times, off;
    uint8_t from; /* activation rows from which that pays; 0: no such format */
} rf_mm_scaled;
rf_mm_scaled rf_mm_scaled_of(rf_dtype t);

/* The matmul of the scalar table. */
void rf_mm_scalar(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch);

/* A panel holds n_vecs vectors of `lanes` weight rows (8 or 16) over a stretch of n_groups groups:
 * [n_vecs][n_groups] records.  A record of RF_INT_32 is
 *   f32 d[lanes], m[lanes] (rounded); u8 q[8][lanes][4]              (k in fours)
 * and one of RF_INT_256 is
 *   f32 d[lanes], m[lanes]; i16 scale[16][lanes][2] (twice the same, or one and a 0),
 *   scales[8][lanes][2], mins[8][lanes][2] (two neighbours; four such pairs where 32 elements share a
 *   scale); u8 q[64][lanes][4]; scales are -off times the scales, or, for flipped activations, begin
 *   with i32 start[lanes], what the 128 has added.
 * Rows beyond the range repeat the last. */
#define RF_MM_RECORD_32(lanes)  ((size_t)(lanes) * (8 + 32))
#define RF_MM_RECORD_256(lanes) ((size_t)(lanes) * (8 + 64 + 32 + 32 + 256))
#define RF_MM_AT_M(lanes)       ((size_t)(lanes)*4)
#define RF_MM_AT_Q_32(lanes)    ((size_t)(lanes)*8)
#define RF_MM_AT_SCALE(lanes)   ((size_t)(lanes)*8)
#define RF_MM_AT_SCALES(lanes)  ((size_t)(lanes) * (8 + 64))
#define RF_MM_AT_MINS(lanes)    ((size_t)(lanes) * (8 + 64 + 32))
#define RF_MM_AT_Q_256(lanes)   ((size_t)(lanes) * (8 + 64 + 32 + 32))

/* Packed weights that are wanted soon are fetched little by little, so that memory never rests, and of a burst too many
 * would wait and some be lost: [next, due) lies before us.  The next address is asked for well before, and once more when it is
 * due, for the same reason. */
typedef struct rf_mm_ahead {
    const uint8_t *next, *due;
    size_t step; /* by how many bytes each look moves due */
} rf_mm_ahead;
static inline void rf_mm_look_ahead(rf_mm_ahead *a) {
    a->due += a->step;
    for (; a->next < a->due; a->next += 64) {
        __builtin_prefetch(a->next, 0, 2);
        __builtin_prefetch(a->next + RF_MM_BEFORE, 0, 2);
    }
}

/* Turns to the memory of the up to `most` rows from `row` on, or of what comes behind them; returns
 * its bytes. */
static inline size_t rf_mm_look_at_rows(const rf_mm *mm, uint32_t row, uint32_t end, uint32_t most,
                                        rf_mm_ahead *ahead) {
    uint32_t n = row == end && mm->next ? most : end - row < most ? end - row : most;
    ahead->next = ahead->due = rf_mm_next_row(mm, row, end);
    return n * mm->w->row_bytes;
}

typedef struct rf_mm_pack {
    const rf_tensor *w;
    uint32_t row, n_rows; /* 1 to n_vecs * lanes rows */
    size_t group, n_groups;
    uint32_t lanes, n_vecs;
    uint8_t add; /* added to every q: the format's off, or 0 to keep the signs */
    rf_mm_scales scales;
    uint8_t *panel; /* 64-byte aligned */
    rf_mm_ahead *ahead;
} rf_mm_pack;
void rf_mm_pack_avx2(const rf_mm_pack *p);   /* 8 lanes */
void rf_mm_pack_avx512(const rf_mm_pack *p); /* 16 */

/* One register tile: n_vecs vectors of weight rows times a few activation rows over the panel's
 * stretch.  Pointers are at the tile's first row and group. */
typedef struct rf_mm_tile {
    const uint8_t *panel;
    size_t vec_bytes, n_groups;
    const int8_t *q;      /* [T][q_stride] */
    const float *d;       /* [T][group_stride] */
    const float *total;   /* RF_INT_32 with minima: [T][group_stride]; else NULL */
    const int32_t *start; /* [T][group_stride], -off * sum; RF_INT_256: of scaled weights */
    const int16_t *sums;  /* RF_INT_256: [T][group_stride][n_pairs][2] */
    size_t q_stride, group_stride;
    size_t n_pairs; /* of sums in a group: 4 or 8 */
    bool has_off, has_min;
    bool doubled; /* scaled weights: times is 2 */
    bool first;   /* the sums start at 0 and not at dst */
    float *dst;   /* [T][dst_stride] */
    size_t dst_stride;
    uint32_t n_rows;      /* of dst: 1 to n_vecs * lanes */
    const uint8_t *times; /* rf_mm_tiles.make_times's table, of the first group, or NULL */
    const float *bias;    /* [n_rows], on the last stretch; or NULL */
    rf_mm_ahead *ahead;
    size_t n_looks; /* ahead, in a group: 1 or RF_MM_LOOKS_256 */
} rf_mm_tile;
typedef void (*rf_mm_tile_fn)(const rf_mm_tile *t);

/* Asks for what the tile of the next nt activation rows begins and ends with; nv vectors of n weight
 * rows.  Activation rows lie far apart, so that nothing in the processor foresees them. */
RF_INLINE void rf_mm_ask_for_next(const rf_mm_tile *a, int nv, int nt, int n) {
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        const size_t row = (size_t)(nt + t);
        RF_UNROLL
        for (int v = 0; v < nv; v++)
            __builtin_prefetch(a->dst + row * a->dst_stride + v * n, 1, 3);
        __builtin_prefetch(a->d + row * a->group_stride, 0, 3);
        __builtin_prefetch(a->start + row * a->group_stride, 0, 3);
    }
}

/* The register tiles of an instruction set for one kind of integers. */
typedef struct rf_mm_tiles {
    uint32_t lanes, vecs, width; /* at most 2 vectors; most activation rows of a tile */
    uint32_t tall_from; /* activation rows from which panels are vecs vectors high, not one */
    uint32_t often_to;  /* and to which tiles of groups of 256 look ahead often, not once a group */
    void (*pack)(const rf_mm_pack *p);
    bool keep_sign; /* how to pack */
    rf_mm_scales scales;
    /* [activation rows - 1]: one vector of weight rows, two */
    rf_mm_tile_fn one[RF_MM_TILE_WIDTH], two[RF_MM_TILE_WIDTH];
    /* Of a panel of `vecs` vectors in groups of 32 the table, behind it, of the weights' scales times what those of
     * activations are but for a power of two, for `times`, tiles like `two` that multiply them by that alone; it gives
     * NULL where not all of these scales can be so.  NULL: no such tiles. */
    const uint8_t *(*make_times)(const rf_mm_pack *p);
    rf_mm_tile_fn times[RF_MM_TILE_WIDTH];
} rf_mm_tiles;
/* May all of n activations' scales be multiplied so?  They may not where one is 0, far from 1 or no number. */
bool rf_mm_are_short(const float *d, size_t n);
/* Integer formats over panels; scratch as for matmul. */
void rf_mm_panels_avx2(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch,
                       const rf_mm_tiles *tiles);

/* The matmul of AVX-512's table. */
void rf_mm_avx512(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch);

/* Integer formats with few activation rows; scratch as for matmul. */
void rf_mm_rows_avx2(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch);
void rf_mm_rows_avxvnni(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch);
void rf_mm_rows_avx512(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch);

/* Float formats, and those decoded to floats; scratch as for matmul. */
void rf_mm_float_avx2(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch);
void rf_mm_float_avx512(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch);
void rf_mm_float_neon(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch);

/* Their rf_cpu_kernels.lay_out of floats, for RF_MM_LAY_OUT_FROM activation rows and more. */
void rf_mm_lay_out_avx2(const rf_mm_input *a, uint32_t first, uint32_t begin, uint32_t end);
void rf_mm_lay_out_avx512(const rf_mm_input *a, uint32_t first, uint32_t begin, uint32_t end);
void rf_mm_lay_out_neon(const rf_mm_input *a, uint32_t first, uint32_t begin, uint32_t end);

/* Groups of 32 with up to RF_MM_FEW_MAX activation rows, end - begin >= 16; scratch as for matmul. */
void rf_mm_few_avx512(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch);

/* Where the integer sums of n groups start: at -off times the sum of their activations, which lies in
 * `each` parts, 1 or 16. */
void rf_mm_starts_avx2(const int32_t *sum, size_t n, size_t each, uint8_t off, int32_t *dst);
/* The activations' sums of 16 as i16 (|sum| <= 2032), [n_rows][n_cols / 16], for RF_INT_256. */
void rf_mm_sums16_avx2(const rf_mm_input *a, int16_t *dst);

#ifdef __cplusplus
}
#endif
