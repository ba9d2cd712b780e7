/* mm_tile.hip - products of integer weights with many activation rows.
 *
 * A block (tile.h) passes over the columns in stages of 256: weights as they are packed and
 * activations are on their way into shared memory while earlier stages are worked on.  A warp
 * unpacks its weights into the matrix units' registers; each thread adds the groups of its own
 * outputs in order.
 *
 * Of a square of 16 weight rows by 8 activation rows, thread number l of 32 holds rows l / 4 and
 * l / 4 + 8 and columns 2 (l % 4) and the next: the layout of the matrix units' results on NVIDIA;
 * where there are none the same outputs are made of dot products of four.  AMD's matrix units have
 * squares of 16 by 16 and a layout of their own (matrix.h).  With MFMA weights' integers and outputs do
 * without shared memory, so that two blocks have room in a compute unit. */
#include "backend/gpu/kernels/matrix.h"
#include "backend/gpu/kernels/mm.h"
#include "backend/gpu/tile.h"

enum {
#if defined(RF_MATRIX)
    TILE_LANES = MATRIX_LANES, /* threads of a warp */
    TILE_SIDE = 16,            /* activation rows of a square */
    TILE_OUT = MATRIX_OUT,     /* outputs of a thread in it */
    TILE_OUT_ROWS = 1,         /* and their weight rows */
#else
    TILE_LANES = 32,
    TILE_SIDE = 8,
    TILE_OUT = 4,
    TILE_OUT_ROWS = 2,
#endif
    TILE_PER_ROW = TILE_OUT / TILE_OUT_ROWS,
    TILE_M = 2,              /* most squares of a warp: weight rows */
    TILE_N = 64 / TILE_SIDE, /* and activation rows */
    TILE_CHUNKS = RF_TILE_STAGE / 32,
};
#if defined(RF_AMD)
#define TILE_AMD TILE_LANES
#else
#define TILE_AMD 0
#endif
#if defined(RF_AMD) && !defined(RF_MATRIX)
#define TILE_ONE_LOOP 1 /* two, with scales of sixteen columns and of 32, take too many registers */
#else
#define TILE_ONE_LOOP 0
#endif
#if defined(RF_AMD) && !defined(RF_MFMA)
#define RF_TILE_UNROLL RF_NO_UNROLL
#else
#define RF_TILE_UNROLL RF_UNROLL_2
#endif

/* MFMA: integers come straight into the registers of the lanes that multiply them.  No other wave of the block wants them,
 * or one. */
#if defined(RF_MFMA)
#define TILE_OWN 1
#else
#define TILE_OWN 0
#endif

/* What is constant in a kernel. */
typedef struct tile_kind {
    rf_tile_shape shape;
    rf_tile_parts at;
    int view, lo_bits, hi_bits;
    mm_facts facts;
} tile_kind;

/* A lane's words of integers, two of lo and two of hi, those of the next stage in place of what has been used: next is where
 * that begins, of each half of the block's rows, last its last chunk. */
typedef struct tile_own {
    uint32_t w[TILE_M][TILE_CHUNKS][4];
    const uint8_t *next[2], *next_hi[2];
    uint32_t last;
} tile_own;

/* A block's work and a thread's place in it. */
typedef struct tile_place {
    tile_kind k;
    rf_gpu_weight w;
    uint32_t n_groups; /* of a weight row */
    uint32_t n;        /* activation rows that there are */
    uint32_t lane;     /* of TILE_LANES */
    uint32_t row, col; /* the warp's first within the block; its second square of rows is half a
                          block away */
    tile_own *own;     /* NULL: integers are in shared memory */
} tile_place;

/* Squares of activation rows that a warp works on; where kernels run as plain C, no idle ones. */
RF_DEVICE uint32_t squares_of(const tile_place *at) {
#if defined(RF_AMD) || defined(RF_NVIDIA)
    return at->k.shape.n * 8 / TILE_SIDE;
#else
    return rf_min_u32(at->k.shape.n, rf_div_up(at->n - at->col, 8));
#endif
}
RF_DEVICE uint32_t n_scales_of(const tile_place *at) {
    return at->k.facts.n_scales == MM_ANY ? at->w.n_scales : at->k.facts.n_scales;
}
RF_DEVICE uint32_t has_m(const tile_place *at) {
    return at->k.facts.with_m == MM_ANY ? at->w.m != 0 : at->k.facts.with_m;
}
RF_DEVICE uint32_t has_f32(const tile_place *at) {
    return at->k.facts.d_f32 == MM_ANY ? at->w.d_f32 : at->k.facts.d_f32;
}

typedef struct tile_sums {
    float v[TILE_M][TILE_N][TILE_OUT];
} tile_sums;

/* Row, within the block, of output number i of square m; activation row of that of square n. */
#if defined(RF_MATRIX)
RF_DEVICE uint32_t row_of(const tile_place *at, uint32_t m, int i) {
    (void)i;
    return at->row + 16 * at->k.shape.warps_m * m + at->lane % 16;
}
RF_DEVICE uint32_t col_of(const tile_place *at, uint32_t n, int i) {
    return at->col + 16 * n + at->lane / 16 * TILE_OUT + (uint32_t)i;
}
#else
RF_DEVICE uint32_t row_of(const tile_place *at, uint32_t m, int i) {
    return at->row + 16 * at->k.shape.warps_m * m + at->lane / 4 + (i >= 2 ? 8 : 0);
}
RF_DEVICE uint32_t col_of(const tile_place *at, uint32_t n, int i) {
    return at->col + 8 * n + at->lane % 4 * 2 + (uint32_t)(i % 2);
}
#endif

/* Squares ---------------------------------------------------------------------------------------*/

#if defined(RF_NVIDIA)
/* Words of columns 4t .. 4t + 3 of rows g and g + 8, then those of 16 + 4t. */
typedef struct square {
    uint32_t v[4];
} square;

/* Eight activation rows of 32 columns, likewise. */
typedef struct slice {
    uint32_t v[2];
} slice;

RF_DEVICE void load_half_square(const tile_place *at, const uint8_t *stage, uint32_t chunk,
                                uint32_t row, uint32_t *first, uint32_t *second) {
    const uint32_t t = at->lane % 4, i = (row / 32 * TILE_CHUNKS + chunk) * 32 + row % 32;
    const int lo_bits = at->k.lo_bits, hi_bits = at->k.hi_bits;
    const uint8_t *lo = stage + at->k.at.lo, *hi = stage + at->k.at.hi;
    if (lo_bits == 8) {
        const uint32_t *p = (const uint32_t *)lo + (i + i / 32 * 32) * 4 + t;
        *first = p[0];
        *second = p[128];
        return;
    }
    if (lo_bits == 4) {
        const uint32_t v = ((const uint32_t *)lo)[i * 4 + t];
        *first = v & 0x0f0f0f0fu;
        *second = v >> 4 & 0x0f0f0f0fu;
    } else {
        const rf_u2 v = ((const rf_u2 *)lo)[i];
        *first = v.v[0] >> 2 * t & 0x03030303u;
        *second = v.v[1] >> 2 * t & 0x03030303u;
    }
    if (hi_bits == 2) {
        const rf_u2 h = ((const rf_u2 *)hi)[i];
        *first |= (h.v[0] >> 2 * t & 0x03030303u) << lo_bits;
        *second |= (h.v[1] >> 2 * t & 0x03030303u) << lo_bits;
    } else if (hi_bits == 1) {
        const uint32_t h = ((const uint32_t *)hi)[i];
        *first |= (h >> t & 0x01010101u) << lo_bits;
        *second |= (h >> (4 + t) & 0x01010101u) << lo_bits;
    }
    if (at->k.view == 256 && lo_bits == 4 && hi_bits == 0) return; /* Q4_K alone: no offset */
    *first = less_off(*first, at->w.off);
    *second = less_off(*second, at->w.off);
}

RF_DEVICE square load_square(const tile_place *at, const uint8_t *stage, uint32_t chunk,
                             uint32_t m) {
    square s;
    load_half_square(at, stage, chunk, row_of(at, m, 0), &s.v[0], &s.v[2]);
    load_half_square(at, stage, chunk, row_of(at, m, 2), &s.v[1], &s.v[3]);
    return s;
}

/* A chunk of the warp's activation rows. */
RF_DEVICE void load_slices(slice s[TILE_N], const tile_place *at, const uint8_t *stage,
                           uint32_t chunk) {
    const uint32_t l = at->lane;
    const uint8_t *p = stage + at->k.at.q + (at->col + l / 16 * 8 + l % 8) * RF_TILE_STRIDE +
                       32 * chunk + l / 8 % 2 * 16;
    if (at->k.shape.n == 1) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                     : "=r"(s[0].v[0]), "=r"(s[0].v[1])
                     : "r"(rf_shared_at(p - l / 16 * 8 * RF_TILE_STRIDE))
                     : "memory");
        return;
    }
    RF_UNROLL
    for (uint32_t n = 0; n < at->k.shape.n; n += 2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(s[n].v[0]), "=r"(s[n].v[1]), "=r"(s[n + 1].v[0]), "=r"(s[n + 1].v[1])
                     : "r"(rf_shared_at(p + 8 * n * RF_TILE_STRIDE))
                     : "memory");
}

/* Sixteen columns, number h of the two in the square and the slice, onto zero. */
RF_DEVICE void multiply_16(int32_t c[4], const square *w, const slice *x, int h) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%7,%7,%7,%7};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(w->v[2 * h]), "r"(w->v[2 * h + 1]), "r"(x->v[h]), "r"(0));
}

/* A chunk, onto start. */
RF_DEVICE void multiply_32(int32_t c[4], const square *w, const slice *x, int32_t start) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%10,%10,%10};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(w->v[0]), "r"(w->v[1]), "r"(w->v[2]), "r"(w->v[3]), "r"(x->v[0]), "r"(x->v[1]),
          "r"(start));
}

/* The sixteen minima, if any, of rows g and g + 8 as the first half of a square. */
RF_DEVICE square load_mins(const tile_place *at, const uint8_t *stage, uint32_t m) {
    const uint32_t t = at->lane % 4;
    square s;
    s.v[0] = s.v[1] = s.v[2] = s.v[3] = 0;
    RF_UNROLL
    for (int i = 0; i < 2; i++) {
        if (!has_m(at)) break;
        const uint8_t *p = stage + at->k.at.min + row_of(at, m, 2 * i) * n_scales_of(at);
        if (n_scales_of(at) == 16) {
            s.v[i] = ((const uint32_t *)p)[t];
        } else { /* neighbours share one */
            const uint32_t two = ((const uint16_t *)p)[t];
            s.v[i] = (two & 0xffu) * 0x0101u + (two >> 8) * 0x01010000u;
        }
    }
    return s;
}

/* Sum of min * the activations' sum of sixteen, for the outputs of a square. */
RF_DEVICE void multiply_mins(int32_t p[4], const square *mins, const tile_place *at,
                             const uint8_t *stage, uint32_t n) {
    const uint32_t col = at->col + 8 * n + at->lane / 4;
    const rf_u2 v = *(const rf_u2 *)(stage + at->k.at.sum + col * 64 + at->lane % 4 * 16);
    const slice high = {{v.v[0], 0}}, low = {{v.v[1], 0}};
    int32_t h[4];
    multiply_16(h, mins, &high, 0);
    multiply_16(p, mins, &low, 0);
    RF_UNROLL
    for (int i = 0; i < 4; i++)
        p[i] += 64 * h[i];
}

#elif defined(RF_MATRIX)
/* The lane's words of a chunk of a weight row: those of its first sixteen columns, then the others. */
typedef struct square {
    uint32_t v[2 * MATRIX_WORDS];
} square;

/* The same of an activation row. */
typedef struct slice {
    uint32_t v[2 * MATRIX_WORDS];
} slice;

RF_DEVICE void load_words(uint32_t to[MATRIX_WORDS], const uint8_t *from) {
    typedef struct words {
        uint32_t v[MATRIX_WORDS];
    } __attribute__((aligned(4 * MATRIX_WORDS))) words;
    const words w = *(const words *)(const void *)from;
    RF_UNROLL
    for (int i = 0; i < MATRIX_WORDS; i++)
        to[i] = w.v[i];
}

/* The lane's words of a chunk of the next stage on their way; behind the last chunk once more its, so that nothing is asked.
 * Of four bits and of eight a lane has its own columns, of fewer all 32. */
RF_DEVICE void load_own(const tile_place *at, uint32_t chunk, uint32_t m) {
    tile_own *own = at->own;
    const uint32_t lo_bits = (uint32_t)at->k.lo_bits, hi_bits = (uint32_t)at->k.hi_bits;
    const uint32_t c = at->k.view == 256 ? chunk : rf_min_u32(chunk, own->last);
    const uint8_t *lo = own->next[m] + c * 128 * lo_bits, *hi = own->next_hi[m] + c * 128 * hi_bits;
    uint32_t *w = own->w[m][chunk];
    w[0] = *(const uint32_t *)(const void *)lo;
    if (lo_bits == 8) w[1] = *(const uint32_t *)(const void *)(lo + 512);
    if (lo_bits == 2) w[1] = *(const uint32_t *)(const void *)(lo + 4);
    if (hi_bits) w[2] = *(const uint32_t *)(const void *)hi;
    if (hi_bits == 2) w[3] = *(const uint32_t *)(const void *)(hi + 4);
}

RF_DEVICE square load_square(const tile_place *at, const uint8_t *stage, uint32_t chunk,
                             uint32_t m) {
    const uint32_t row = row_of(at, m, 0), i = (row / 32 * TILE_CHUNKS + chunk) * 32 + row % 32;
    const uint32_t t = matrix_first_word(at->lane);
    const int lo_bits = at->k.lo_bits, hi_bits = at->k.hi_bits;
    const uint8_t *lo = stage + at->k.at.lo, *hi = stage + at->k.at.hi;
    square s;
    uint32_t *first = s.v, *second = s.v + MATRIX_WORDS;
    rf_u2 two = {{0, 0}}, h = {{0, 0}};
    if (TILE_OWN) {
        const uint32_t *w = at->own->w[m][chunk];
        if (lo_bits != 2) *first = w[0];
        if (lo_bits == 8) *second = w[1];
        RF_UNROLL
        for (int j = 0; j < 2; j++) {
            if (lo_bits == 2) two.v[j] = w[j];
            if (j < hi_bits) h.v[j] = w[2 + j];
        }
        load_own(at, chunk, m);
    } else {
        if (lo_bits == 8) {
            load_words(first, lo + (i + i / 32 * 32) * 16 + 4 * t);
            load_words(second, lo + (i + i / 32 * 32) * 16 + 512 + 4 * t);
        }
        if (lo_bits == 4) load_words(first, lo + i * 16 + 4 * t);
        if (lo_bits == 2) two = ((const rf_u2 *)(const void *)lo)[i];
        if (hi_bits == 2) h = ((const rf_u2 *)(const void *)hi)[i];
        if (hi_bits == 1) h.v[0] = ((const uint32_t *)(const void *)hi)[i];
    }
    if (lo_bits == 8) return s;
    RF_UNROLL
    for (uint32_t j = 0; j < MATRIX_WORDS; j++) {
        if (lo_bits == 4) {
            second[j] = first[j] >> 4 & 0x0f0f0f0fu;
            first[j] &= 0x0f0f0f0fu;
        } else {
            first[j] = two.v[0] >> 2 * (t + j) & 0x03030303u;
            second[j] = two.v[1] >> 2 * (t + j) & 0x03030303u;
        }
        if (hi_bits == 2) {
            first[j] |= (h.v[0] >> 2 * (t + j) & 0x03030303u) << lo_bits;
            second[j] |= (h.v[1] >> 2 * (t + j) & 0x03030303u) << lo_bits;
        } else if (hi_bits == 1) {
            first[j] |= (h.v[0] >> (t + j) & 0x01010101u) << lo_bits;
            second[j] |= (h.v[0] >> (4 + t + j) & 0x01010101u) << lo_bits;
        }
        if (at->k.view == 256 && lo_bits == 4 && hi_bits == 0) continue; /* Q4_K: no offset */
        first[j] = less_off(first[j], at->w.off);
        second[j] = less_off(second[j], at->w.off);
    }
    return s;
}

/* A chunk of the warp's activation rows. */
RF_DEVICE void load_slices(slice s[TILE_N], const tile_place *at, const uint8_t *stage,
                           uint32_t chunk) {
    const uint8_t *p = stage + at->k.at.q + (at->col + matrix_x_row(at->lane)) * RF_TILE_STRIDE +
                       32 * chunk + 4 * matrix_first_word(at->lane);
    RF_UNROLL
    for (uint32_t n = 0; n < squares_of(at); n++) {
        load_words(s[n].v, p + 16 * n * RF_TILE_STRIDE);
        load_words(s[n].v + MATRIX_WORDS, p + 16 * n * RF_TILE_STRIDE + 16);
    }
}

RF_DEVICE void put_results(int32_t c[TILE_OUT], matrix_sums from) {
    RF_UNROLL
    for (int i = 0; i < TILE_OUT; i++)
        c[i] = from[i];
}
/* Sixteen columns, number h of the two in the square and the slice, onto zero. */
RF_DEVICE void multiply_16(int32_t c[TILE_OUT], const square *w, const slice *x, int h) {
    const matrix_sums zero = {0};
    put_results(c, matrix_multiply_16(zero, w->v, x->v, h));
}
RF_DEVICE void multiply_32(int32_t c[TILE_OUT], const square *w, const slice *x, int32_t start) {
    put_results(c, matrix_multiply_32(w->v, x->v, start));
}

/* The lane's words of the sixteen minima, if any, as the first half of a square and as the second. */
RF_DEVICE square load_mins(const tile_place *at, const uint8_t *stage, uint32_t m) {
    const uint32_t t = matrix_first_word(at->lane);
    square s = {{0}};
    if (!has_m(at)) return s;
    const uint8_t *p = stage + at->k.at.min + row_of(at, m, 0) * n_scales_of(at);
    RF_UNROLL
    for (uint32_t j = 0; j < MATRIX_WORDS; j++) {
        if (n_scales_of(at) == 16) {
            s.v[j] = ((const uint32_t *)(const void *)p)[t + j];
        } else { /* neighbours share one */
            const uint32_t two = ((const uint16_t *)(const void *)p)[t + j];
            s.v[j] = (two & 0xffu) * 0x0101u + (two >> 8) * 0x01010000u;
        }
        s.v[MATRIX_WORDS + j] = s.v[j];
    }
    return s;
}

/* Sum of min * the activations' sum of sixteen, for the outputs of a square. */
RF_DEVICE void multiply_mins(int32_t p[TILE_OUT], const square *mins, const tile_place *at,
                             const uint8_t *stage, uint32_t n) {
    const uint8_t *sums = stage + at->k.at.sum + (at->col + 16 * n + matrix_x_row(at->lane)) * 64 +
                          16 * matrix_first_word(at->lane);
    slice x;
    RF_UNROLL
    for (uint32_t j = 0; j < MATRIX_WORDS; j++) {
        const rf_u2 v = *(const rf_u2 *)(const void *)(sums + 16 * j);
        x.v[j] = v.v[0];
        x.v[MATRIX_WORDS + j] = v.v[1];
    }
    const matrix_sums zero = {0}, high = matrix_multiply_16(zero, mins->v, x.v, 0);
    put_results(p, matrix_multiply_16(64 * high, mins->v, x.v, 1));
}

#else
/* Two whole rows of a chunk. */
typedef struct square {
    uint32_t v[2][8];
} square;

/* Where two activation rows of the thread are. */
typedef struct slice {
    const uint8_t *p[2];
} slice;

RF_DEVICE square load_square(const tile_place *at, const uint8_t *stage, uint32_t chunk,
                             uint32_t m) {
    const int lo_bits = at->k.lo_bits, hi_bits = at->k.hi_bits;
    rf_gpu_weight here = at->w;
    square s;
    here.lo = stage + at->k.at.lo;
    here.hi = stage + at->k.at.hi;
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t row = row_of(at, m, 2 * (int)i);
        const mm_raw raw =
            load_chunk(&here, lo_bits, hi_bits, row / 32 * TILE_CHUNKS + chunk, row % 32);
        RF_UNROLL
        for (int j = 0; j < 8; j++) {
            s.v[i][j] = word_of(&raw, lo_bits, hi_bits, j);
            if (lo_bits != 8) s.v[i][j] = less_off(s.v[i][j], at->w.off);
        }
    }
    return s;
}

RF_DEVICE void load_slices(slice s[TILE_N], const tile_place *at, const uint8_t *stage,
                           uint32_t chunk) {
    RF_UNROLL
    for (uint32_t k = 0; k < 2 * at->k.shape.n; k++)
        s[k / 2].p[k % 2] =
            stage + at->k.at.q + col_of(at, k / 2, (int)(k % 2)) * RF_TILE_STRIDE + chunk * 32;
}

/* Sixteen columns, number h of the two in the square and the slice, onto c. */
RF_DEVICE void add_16(int32_t c[4], const square *w, const slice *x, int h) {
    RF_UNROLL
    for (uint32_t n = 0; n < 2; n++) {
        const rf_u4 b = *(const rf_u4 *)(const void *)(x->p[n] + 16 * h);
        RF_UNROLL
        for (int k = 0; k < 4; k++) {
            c[n] = rf_dot4(w->v[0][4 * h + k], b.v[k], c[n]);
            c[2 + n] = rf_dot4(w->v[1][4 * h + k], b.v[k], c[2 + n]);
        }
    }
}
RF_DEVICE void multiply_16(int32_t c[4], const square *w, const slice *x, int h) {
    c[0] = c[1] = c[2] = c[3] = 0;
    add_16(c, w, x, h);
}
RF_DEVICE void multiply_32(int32_t c[4], const square *w, const slice *x, int32_t start) {
    c[0] = c[1] = c[2] = c[3] = start;
    add_16(c, w, x, 0);
    add_16(c, w, x, 1);
}

/* The sixteen minima, if any, of rows g and g + 8 as the first half of a square. */
RF_DEVICE square load_mins(const tile_place *at, const uint8_t *stage, uint32_t m) {
    square s;
    RF_UNROLL
    for (int i = 0; i < 2; i++) {
        rf_u4 v = {{0, 0, 0, 0}};
        if (has_m(at))
            v = load_scales((const int8_t *)stage + at->k.at.min, n_scales_of(at),
                            row_of(at, m, 2 * i));
        RF_UNROLL
        for (int j = 0; j < 4; j++)
            s.v[i][j] = v.v[j];
    }
    return s;
}

/* Sum of min * the activations' sum of sixteen, for the outputs of a square. */
RF_DEVICE void multiply_mins(int32_t p[4], const square *mins, const tile_place *at,
                             const uint8_t *stage, uint32_t n) {
    RF_UNROLL
    for (int i = 0; i < 4; i++) {
        int32_t high = 0, low = 0;
        RF_UNROLL
        for (int j = 0; j < 4; j++) {
            const rf_u2 v = *(const rf_u2 *)(const void *)(stage + at->k.at.sum +
                                                           col_of(at, n, i) * 64 + 16 * j);
            high = rf_dot4(mins->v[i / 2][j], v.v[0], high);
            low = rf_dot4(mins->v[i / 2][j], v.v[1], low);
        }
        p[i] = 64 * high + low;
    }
}
#endif

/* Stages ----------------------------------------------------------------------------------------*/

/* The weights that a block reads, in halves: the one half of its rows and the other half, which with
 * is_glu is of the second matrix.  Addresses are those of a thread's first piece of 16 bytes in the
 * stage to come, with MFMA of lo and hi those of its lane's first word. */
typedef struct tile_source {
    const uint8_t *lo[2], *hi[2];
    uint64_t lo_tile, hi_tile; /* bytes from tile to tile */
    uint32_t last[2];          /* the last tile that there is of each half */
    uint32_t second;           /* the second half's first tile, after the first half's */
    /* A thread's pieces of d, m, scale and min: NULL: none. */
    const uint8_t *meta[2];
    uint32_t meta_to[2], meta_step[2], meta_group[2]; /* bytes, bytes, number of the group of 32 */
} tile_source;

RF_DEVICE uint32_t threads_of(const tile_place *at) {
    return (uint32_t)TILE_LANES * at->k.shape.warps;
}
RF_DEVICE uint32_t halves_of(const tile_place *at) { return at->k.shape.m; }
RF_DEVICE uint32_t tiles_of_half(const tile_place *at) { return at->k.shape.warps_m / 2; }

/* Where a thread begins in a half of lo or hi: at its first piece, or with MFMA at its lane's first word. */
RF_DEVICE const uint8_t *tile_first(const tile_place *at, const uint8_t *from, uint32_t bits,
                                    uint64_t tile_bytes, uint32_t last) {
#if defined(RF_MFMA)
    const uint32_t row = at->row + at->lane % 16, row_bytes = 4 * (bits < 4 ? bits : 4);
    return from + rf_min_u32(row / 32, last) * tile_bytes + row % 32 * row_bytes +
           (bits < 4 ? 0 : 4 * matrix_first_word(at->lane));
#else
    const uint32_t tid = rf_tid(), room = 64 * bits; /* pieces of a tile in a stage */
    if (room >= threads_of(at)) return from + tid * 16;
    return from + rf_min_u32(tid / room, last) * tile_bytes + tid % room * 16;
#endif
}

/* Thread's piece number i of d, m, scale and min. */
RF_DEVICE void find_meta(tile_source *s, const tile_place *at, const rf_gpu_matmul_args *a,
                         uint64_t tile, uint32_t other, uint32_t i) {
    const uint32_t view = (uint32_t)at->k.view, groups = RF_TILE_STAGE / view;
    const uint32_t row_bytes = has_f32(at) ? 4 : 2, n_d = 2 * groups * row_bytes;
    const uint32_t n_m = has_m(at) ? n_d : 0, n_scale = view == 256 ? 2 * n_scales_of(at) : 0;
    const uint32_t n_min = n_m ? n_scale : 0, n = n_d + n_m + n_scale + n_min;
    const uint32_t u = rf_tid() + threads_of(at) * i, which = u / n,
                   half = which / tiles_of_half(at);
    uint32_t v = u % n, room = n_d, to = at->k.at.d, bytes = row_bytes;
    s->meta[i] = 0;
    if (half >= halves_of(at)) return;
    const int second = half && other;
    const void *from = second ? a->part[1].w.d : at->w.d;
    if (v >= n_d + n_m) {
        room = n_scale;
        bytes = n_scales_of(at);
        const int is_min = v >= n_d + n_m + n_scale;
        v -= n_d + n_m + (is_min ? n_scale : 0);
        to = is_min ? at->k.at.min : at->k.at.scale;
        from = is_min ? (second ? a->part[1].w.min : at->w.min)
                      : (second ? a->part[1].w.scale : at->w.scale);
    } else if (v >= n_d) {
        v -= n_d;
        to = at->k.at.m;
        from = second ? a->part[1].w.m : at->w.m;
    }
    tile += rf_min_u32(which % tiles_of_half(at), half ? s->last[1] : s->last[0]);
    if (half) tile += s->second;
    s->meta[i] = (const uint8_t *)from + tile * at->n_groups * 32 * bytes + v * 16;
    s->meta_to[i] = to + (which * room + v) * 16;
    s->meta_step[i] = room * 16;
    s->meta_group[i] = v / (2 * bytes);
}

/* tile: the block's first over planes and tiles; left: tiles from there on in the plane; other: the
 * second half is of the second matrix. */
RF_DEVICE tile_source find_source(const tile_place *at, const rf_gpu_matmul_args *a, uint64_t tile,
                                  uint32_t left, uint32_t other) {
    const uint32_t tiles = tiles_of_half(at), lo_bits = (uint32_t)at->k.lo_bits,
                   hi_bits = (uint32_t)at->k.hi_bits;
    tile_source s = {{0, 0}, {0, 0}, 0, 0, {0, 0}, 0, {0, 0}, {0, 0}, {0, 0}, {0, 0}};
    s.lo_tile = at->w.cols / RF_GPU_CHUNK * 128ull * lo_bits;
    s.hi_tile = at->w.cols / RF_GPU_CHUNK * 128ull * hi_bits;
    s.last[0] = rf_min_u32(left, tiles) - 1;
    s.last[1] = other ? s.last[0] : left > tiles ? rf_min_u32(left - tiles, tiles) - 1 : 0;
    s.second = other ? 0 : rf_min_u32(tiles, left - 1); /* none: the last tile again */
    RF_UNROLL
    for (uint32_t h = 0; h < halves_of(at); h++) {
        const uint64_t first = tile + (h ? s.second : 0);
        const uint8_t *lo = (const uint8_t *)(h && other ? a->part[1].w.lo : at->w.lo);
        const uint8_t *hi = (const uint8_t *)(h && other ? a->part[1].w.hi : at->w.hi);
        s.lo[h] = tile_first(at, lo + first * s.lo_tile, lo_bits, s.lo_tile, s.last[h]);
        if (hi_bits)
            s.hi[h] = tile_first(at, hi + first * s.hi_tile, hi_bits, s.hi_tile, s.last[h]);
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        find_meta(&s, at, a, tile, other, i);
    return s;
}

/* What a thread has of the next stage while the one before is worked on: pieces of 16 bytes, words. */
typedef struct tile_carry {
    rf_u4 piece[17];
    uint32_t word[4];
} tile_carry;
enum { CARRY_LO = 0, CARRY_HI = 8, CARRY_META = 10, CARRY_Q = 12, CARRY_SUM = 16 };
enum { CARRY_XD = 0, CARRY_SUM_32 = 2 };

/* The way into shared memory: straight, or with a carry, for which AMD's matrix units leave registers,
 * in two steps. */
typedef struct tile_way {
    tile_carry *carry; /* NULL: straight */
    int is_put;        /* from the carry, else into it; a constant */
} tile_way;

/* Word by word, which compilers understand as registers. */
RF_DEVICE void copy_piece(rf_u4 *to, const rf_u4 *from) {
    RF_UNROLL
    for (int i = 0; i < 4; i++)
        to->v[i] = from->v[i];
}

/* Number slot of the thread's pieces or words: constants. */
RF_DEVICE void move_16(tile_way w, uint32_t slot, void *to, const void *from) {
    if (!w.carry)
        rf_copy_16(to, from);
    else if (w.is_put)
        copy_piece((rf_u4 *)to, &w.carry->piece[slot]);
    else
        copy_piece(&w.carry->piece[slot], (const rf_u4 *)from);
}
RF_DEVICE void move_4(tile_way w, uint32_t slot, void *to, const void *from) {
    if (!w.carry)
        rf_copy_4(to, from);
    else if (w.is_put)
        *(uint32_t *)to = w.carry->word[slot];
    else
        w.carry->word[slot] = *(const uint32_t *)from;
}

/* Starts the way of n columns of a half of lo or hi. */
RF_DEVICE void load_bits(tile_way way, uint32_t slot, const tile_place *at, uint8_t *to,
                         const uint8_t *from, uint32_t bits, uint64_t tile_bytes, uint32_t last,
                         uint32_t n) {
    const uint32_t tid = rf_tid(), room = 64 * bits, n_pieces = tiles_of_half(at) * room;
    const uint32_t threads = threads_of(at);
    RF_UNROLL
    for (uint32_t first = 0; first < n_pieces; first += threads) {
        const uint32_t tile = room < threads ? 0 : rf_min_u32(first / room, last);
        const uint32_t within = room < threads ? 0 : first % room;
        const uint32_t piece = room < threads ? tid % room : within + tid;
        if (n_pieces < threads && tid >= n_pieces) break;
        if (at->k.view == 32 && piece / (8 * bits) >= n / RF_GPU_CHUNK) continue;
        move_16(way, slot + first / threads, to + (first + tid) * 16,
                from + tile * tile_bytes + within * 16);
    }
}

/* Starts the way of the weights of n columns, and moves on. */
RF_DEVICE void load_weights(tile_way way, const tile_place *at, uint8_t *to, tile_source *s,
                            uint32_t n) {
    const uint32_t lo_bits = (uint32_t)at->k.lo_bits, hi_bits = (uint32_t)at->k.hi_bits;
    RF_UNROLL
    for (uint32_t h = 0; h < halves_of(at) && !TILE_OWN; h++) {
        const uint32_t pieces = h * tiles_of_half(at) * 64;
        load_bits(way, CARRY_LO + 4 * h, at, to + at->k.at.lo + pieces * lo_bits * 16, s->lo[h],
                  lo_bits, s->lo_tile, s->last[h], n);
        if (!way.is_put) s->lo[h] += 1024 * lo_bits;
        if (!hi_bits) continue;
        load_bits(way, CARRY_HI + h, at, to + at->k.at.hi + pieces * hi_bits * 16, s->hi[h],
                  hi_bits, s->hi_tile, s->last[h], n);
        if (!way.is_put) s->hi[h] += 1024 * hi_bits;
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        if (s->meta[i] && (at->k.view == 256 || s->meta_group[i] < n / 32))
            move_16(way, CARRY_META + i, to + s->meta_to[i], s->meta[i]);
        if (s->meta[i] && !way.is_put) s->meta[i] += s->meta_step[i];
    }
}

/* Four sums of sixteen: sum = 64 high + low, four bytes of high, then four of low. */
RF_DEVICE rf_u2 split_of(rf_u4 sums) {
    rf_u2 split = {{0, 0}};
    RF_UNROLL
    for (int j = 0; j < 4; j++) {
        const int32_t s = (int32_t)sums.v[j], h = (s + 32) >> 6;
        split.v[0] |= ((uint32_t)h & 255u) << 8 * j;
        split.v[1] |= ((uint32_t)(s - 64 * h) & 255u) << 8 * j;
    }
    return split;
}

/* Starts the way of four sums of sixteen; from the carry they come split. */
RF_DEVICE void move_sums(tile_way way, void *to, const void *from) {
    if (way.is_put)
        *(rf_u2 *)to = split_of(way.carry->piece[CARRY_SUM]);
    else
        move_16(way, CARRY_SUM, to, from);
}

/* Of eight neighbouring threads each one group's total, 0 where none is, as they multiply minima. */
RF_DEVICE float total_of(float total) {
    uint32_t most = rf_size_of(total);
    rf_lanes_most(&most, 1, RF_SHARE_GROUPS);
    return rf_rounded(total, RF_ROUND_TOTALS(most));
}

/* Starts the way of a group's scale and, with minima, of its sum, number slot of the thread's; from the carry that comes as a
 * total, which all threads call for. */
RF_DEVICE void move_factors(tile_way way, uint32_t slot, const tile_place *at, uint8_t *to,
                            uint32_t here, const rf_gpu_quant *x, uint64_t group, int is_col,
                            int is_there) {
    if (is_there) move_4(way, CARRY_XD + slot, to + at->k.at.xd + here, x->d + group);
    if (!has_m(at)) return;
    if (!way.is_put) {
        if (is_there) move_4(way, CARRY_SUM_32 + slot, to + at->k.at.sum + here, x->sum + group);
        return;
    }
    const float sum = (float)(int32_t)way.carry->word[CARRY_SUM_32 + slot],
                total =
                    total_of(is_there ? sum * rf_float_of(way.carry->word[CARRY_XD + slot]) : 0.0f);
    if (is_col) *(float *)(void *)(to + at->k.at.sum + here) = total;
}

/* Starts the way of activations, columns first on; row: where each begins, in 16 columns. */
RF_DEVICE void load_rows(tile_way way, const tile_place *at, uint8_t *to, const rf_gpu_quant *x,
                         const uint32_t *row, uint32_t first, uint32_t n) {
    const uint32_t tid = rf_tid(), cols = rf_tile_cols(at->k.shape);
    const uint8_t *q = (const uint8_t *)x->q + first + tid % 16 * 16;
    RF_UNROLL
    for (uint32_t j = 0; j < cols; j += threads_of(at) / 16) {
        const uint32_t col = j + tid / 16;
        if (!TILE_AMD && j >= at->n) break;
        if (at->k.view == 256 || tid % 16 * 16 < n)
            move_16(way, CARRY_Q + j / (threads_of(at) / 16),
                    to + at->k.at.q + col * RF_TILE_STRIDE + tid % 16 * 16, q + row[col] * 16ull);
    }
    const uint8_t *d = (const uint8_t *)x->d, *sum = (const uint8_t *)x->sum;
    if (at->k.view == 32) {
        const uint32_t g = tid % 8;
        RF_UNROLL
        for (uint32_t j = 0; j < cols; j += threads_of(at) / 8) {
            const uint32_t col = j + tid / 8;
            const int is_there = 32 * g < n && col < cols;
            if (!TILE_AMD && j >= at->n) break;
            move_factors(way, j / (threads_of(at) / 8), at, to, (g * cols + col) * 4, x,
                         is_there ? row[col] / 2 + first / 32 + g : 0, col < cols, is_there);
        }
        return;
    }
    if (tid < cols)
        move_4(way, CARRY_XD, to + at->k.at.xd + tid * 4, d + row[tid] / 4 + first / 64);
    if (!has_m(at)) return;
    RF_UNROLL
    for (uint32_t j = 0; j < cols; j += threads_of(at) / 4) {
        const uint32_t col = j + tid / 4, i = tid % 4 * 16;
        if (!TILE_AMD && j >= at->n) break;
        if (col < cols)
            move_sums(way, to + at->k.at.sum + col * 64 + i, sum + row[col] * 4ull + first / 4 + i);
    }
}

/* All of a stage: columns first on, none beyond the last. */
RF_DEVICE void tile_load(tile_way way, const tile_place *at, uint8_t *to, tile_source *s,
                         const rf_gpu_quant *x, const uint32_t *row, uint32_t first) {
    if (first < at->w.cols) {
        const uint32_t n = rf_min_u32(at->w.cols - first, RF_TILE_STAGE);
        load_weights(way, at, to, s, n);
        load_rows(way, at, to, x, row, first, n);
    }
    rf_copy_end();
}

#if !defined(RF_MATRIX)
/* The sums of a stage of n columns become totals. */
RF_DEVICE void make_totals(const tile_place *at, uint8_t *stage, uint32_t n) {
    const uint32_t cols = rf_tile_cols(at->k.shape), g = rf_tid() % 8;
    RF_NO_UNROLL
    for (uint32_t j = 0; j < at->n; j += threads_of(at) / 8) {
        const uint32_t col = j + rf_tid() / 8, here = (g * cols + rf_min_u32(col, cols - 1)) * 4;
        int32_t *sum = (int32_t *)(void *)(stage + at->k.at.sum + here);
        float total = 0.0f;
        if (32 * g < n)
            total = (float)*sum * *(const float *)(const void *)(stage + at->k.at.xd + here);
        total = total_of(total);
        if (col < cols) *(float *)(void *)sum = total;
    }
}

/* The sums of a stage of n columns as they multiply minima, in place, four of sixteen at a time. */
RF_DEVICE void split_sums(const tile_place *at, uint8_t *stage, uint32_t n) {
    if (!has_m(at)) return;
    if (at->k.view == 32) {
        make_totals(at, stage, n);
        return;
    }
    RF_UNROLL
    for (uint32_t first = 0; first < 4 * rf_tile_cols(at->k.shape); first += threads_of(at)) {
        const uint32_t i = first + rf_tid();
        if (i >= 4 * at->n) return;
        rf_u4 *p = (rf_u4 *)(void *)(stage + at->k.at.sum) + i;
        const rf_u2 split = split_of(*p);
        *(rf_u2 *)(void *)p = split;
    }
}
#endif

/* Groups onto sums ------------------------------------------------------------------------------*/

/* d or m of group g of the stage, of the thread's rows of a square. */
RF_DEVICE void load_scales_of(float s[TILE_OUT_ROWS], const tile_place *at, const uint8_t *part,
                              uint32_t m, uint32_t g) {
    const uint32_t n_groups = RF_TILE_STAGE / (uint32_t)at->k.view;
    RF_UNROLL
    for (int i = 0; i < TILE_OUT_ROWS; i++) {
        const uint32_t row = row_of(at, m, TILE_PER_ROW * i);
        s[i] = scale_at(part, (row / 32 * n_groups + g) * 32 + row % 32, has_f32(at));
    }
}

/* What sums of whole numbers of less than 2^22 begin at: zero, or the bits of 1.5 * 2^23, which save
 * a slow conversion. */
#if defined(RF_MATRIX)
#define TILE_ZERO 0
RF_DEVICE float float_of(int32_t i) { return (float)i; }
#else
#define TILE_ZERO 0x4b400000
RF_DEVICE float float_of(int32_t i) { return rf_float_of((uint32_t)i) - 12582912.0f; }
#endif

/* A group of 32: chunk number c of the stage. */
RF_DEVICE void add_group_32(tile_sums *s, const tile_place *at, const uint8_t *stage, uint32_t c) {
    const uint32_t cols = rf_tile_cols(at->k.shape);
    slice x[TILE_N];
    load_slices(x, at, stage, c);
    RF_UNROLL
    for (uint32_t m = 0; m < at->k.shape.m; m++) {
        const square w = load_square(at, stage, c, m);
        float d[TILE_OUT_ROWS];
        load_scales_of(d, at, stage + at->k.at.d, m, c);
        RF_UNROLL
        for (uint32_t n = 0; n < squares_of(at); n++) {
            int32_t p[TILE_OUT];
            multiply_32(p, &w, &x[n], TILE_ZERO);
            RF_UNROLL
            for (int i = 0; i < TILE_OUT; i++) {
                const uint32_t at_col = (c * cols + col_of(at, n, i)) * 4;
                const float xd = *(const float *)(const void *)(stage + at->k.at.xd + at_col);
                float *v = &s->v[m][n][i];
                *v = rf_fma(float_of(p[i]), d[i / TILE_PER_ROW] * xd, *v);
            }
        }
    }
}

/* Minima of the stage's n groups of the thread's rows of a square; 0 behind these. */
RF_DEVICE void load_minima(float min[RF_SHARE_GROUPS][TILE_OUT_ROWS], const tile_place *at,
                           const uint8_t *stage, uint32_t m, uint32_t n) {
    RF_UNROLL
    for (uint32_t g = 0; g < RF_SHARE_GROUPS; g++) {
        load_scales_of(min[g], at, stage + at->k.at.m, m, rf_min_u32(g, n - 1));
        RF_UNROLL
        for (int i = 0; i < TILE_OUT_ROWS; i++)
            if (g >= n) min[g][i] = 0.0f;
    }
}

/* v, of which AMD's compiler knows nothing where there are matrix units: so that it reads again what it has no registers for, and makes no vectors of
 * neighbouring outputs, for which it would read all at once. */
RF_DEVICE uint32_t tile_anew(uint32_t v) {
#if defined(RF_MATRIX)
    asm volatile("" : "+v"(v));
#endif
    return v;
}

/* What the minima of a stage's n groups of 32, which share steps, come to.  Totals behind these are zeros, so that nothing
 * depends on n here: compilers would put together all that is read if there is a group, and have no registers for that. */
RF_DEVICE void add_minima_32(tile_sums *s, const tile_place *at, const uint8_t *stage, uint32_t n) {
    const uint32_t cols = rf_tile_cols(at->k.shape);
    RF_UNROLL
    for (uint32_t m = 0; m < at->k.shape.m; m++) {
        const float *totals =
            (const float *)(const void *)(stage + at->k.at.sum + tile_anew(4 * at->col));
        float min[RF_SHARE_GROUPS][TILE_OUT_ROWS];
        load_minima(min, at, stage, m, n);
        RF_UNROLL
        for (uint32_t k = 0; k < squares_of(at); k++) {
            RF_UNROLL
            for (int j = 0; j < TILE_PER_ROW; j++) {
                float sum[TILE_OUT_ROWS] = {0.0f};
                RF_UNROLL
                for (uint32_t g = 0; g < RF_SHARE_GROUPS; g++) {
                    const float total = totals[g * cols + col_of(at, k, j) - at->col];
                    RF_UNROLL
                    for (int i = 0; i < TILE_OUT_ROWS; i++)
                        sum[i] = rf_fma(min[g][i], total, sum[i]);
                }
                RF_UNROLL
                for (int i = 0; i < TILE_OUT_ROWS; i++)
                    s->v[m][k][i * TILE_PER_ROW + j] += rf_float_of(tile_anew(rf_bits_of(sum[i])));
                rf_in_turn(); /* else all that is read here is in registers at once */
            }
        }
    }
}

/* Chunk number c of a stage onto the integers of its group; twice: each half has its own scale. */
RF_DEVICE void add_chunk_256(int32_t p[TILE_M][TILE_N][TILE_OUT], const tile_place *at,
                             const uint8_t *stage, uint32_t c, int twice) {
    slice x[TILE_N];
    load_slices(x, at, stage, c);
    RF_UNROLL
    for (uint32_t m = 0; m < at->k.shape.m; m++) {
        const square w = load_square(at, stage, c, m);
        int32_t scale[TILE_OUT_ROWS][2];
        RF_UNROLL
        for (int i = 0; i < TILE_OUT_ROWS; i++) {
            const int8_t *of_row = (const int8_t *)stage + at->k.at.scale +
                                   row_of(at, m, TILE_PER_ROW * i) * (twice ? 16 : 8) +
                                   (twice ? 2 * c : c);
            scale[i][0] = of_row[0];
            scale[i][1] = twice ? of_row[1] : 0;
        }
        RF_UNROLL
        for (uint32_t n = 0; n < squares_of(at); n++) {
            int32_t first[TILE_OUT], second[TILE_OUT];
            if (twice) {
                multiply_16(first, &w, &x[n], 0);
                multiply_16(second, &w, &x[n], 1);
            } else {
                multiply_32(first, &w, &x[n], 0);
            }
            RF_UNROLL
            for (int i = 0; i < TILE_OUT; i++) {
                p[m][n][i] += rf_times_24(scale[i / TILE_PER_ROW][0], first[i]);
                if (twice) p[m][n][i] += rf_times_24(scale[i / TILE_PER_ROW][1], second[i]);
            }
        }
    }
}

RF_DEVICE void add_chunks_256(int32_t p[TILE_M][TILE_N][TILE_OUT], const tile_place *at,
                              const uint8_t *stage, int twice) {
    if (at->k.shape.m == 1 && !TILE_AMD) { /* loads of all chunks at once: there is room */
        RF_UNROLL
        for (uint32_t c = 0; c < TILE_CHUNKS; c++)
            add_chunk_256(p, at, stage, c, twice);
        return;
    }
    if (TILE_OWN) { /* words are in registers, which have no numbers at run time */
        RF_UNROLL
        for (uint32_t c = 0; c < TILE_CHUNKS; c++) {
            add_chunk_256(p, at, stage, c, twice);
            RF_UNROLL
            for (uint32_t i = 0; i < at->k.shape.m * TILE_N * TILE_OUT;
                 i++) { /* else all chunks' products, then their sums */
                int32_t *v = &p[i / (TILE_N * TILE_OUT)][i / TILE_OUT % TILE_N][i % TILE_OUT];
                *v = (int32_t)tile_anew((uint32_t)*v);
            }
        }
        return;
    }
    RF_TILE_UNROLL
    for (uint32_t c = 0; c < TILE_CHUNKS; c++)
        add_chunk_256(p, at, stage, c, twice);
}

/* A group of 256, which is the whole stage. */
RF_DEVICE void add_group_256(tile_sums *s, const tile_place *at, const uint8_t *stage) {
    const uint32_t with_m = has_m(at);
    int32_t p[TILE_M][TILE_N][TILE_OUT];
    RF_UNROLL
    for (uint32_t i = 0; i < TILE_M * TILE_N * TILE_OUT; i++)
        p[i / (TILE_N * TILE_OUT)][i / TILE_OUT % TILE_N][i % TILE_OUT] = 0;
    if (TILE_ONE_LOOP)
        add_chunks_256(p, at, stage, n_scales_of(at) == 16);
    else if (n_scales_of(at) == 16)
        add_chunks_256(p, at, stage, 1);
    else
        add_chunks_256(p, at, stage, 0);
    RF_UNROLL
    for (uint32_t m = 0; m < at->k.shape.m; m++) {
        float d[TILE_OUT_ROWS], min[TILE_OUT_ROWS] = {0.0f};
        load_scales_of(d, at, stage + at->k.at.d, m, 0);
        const square mins = load_mins(at, stage, m);
        if (with_m) load_scales_of(min, at, stage + at->k.at.m, m, 0);
        RF_UNROLL
        for (uint32_t n = 0; n < squares_of(at); n++) {
            float xd[TILE_OUT];
            RF_UNROLL
            for (int i = 0; i < TILE_OUT; i++) {
                float *v = &s->v[m][n][i];
                xd[i] = *(const float *)(const void *)(stage + at->k.at.xd + col_of(at, n, i) * 4);
                *v = rf_fma((float)p[m][n][i], d[i / TILE_PER_ROW] * xd[i], *v);
            }
            if (!with_m) continue;
            int32_t of_mins[TILE_OUT];
            multiply_mins(of_mins, &mins, at, stage, n);
            RF_UNROLL
            for (int i = 0; i < TILE_OUT; i++) {
                float *v = &s->v[m][n][i];
                *v = rf_fma((float)of_mins[i], min[i / TILE_PER_ROW] * xd[i], *v);
            }
        }
    }
}

RF_DEVICE void add_groups_32(tile_sums *s, const tile_place *at, const uint8_t *stage, uint32_t n) {
    if (at->k.shape.m == 1 && !TILE_AMD && n == TILE_CHUNKS) {
        RF_UNROLL_4
        for (uint32_t c = 0; c < TILE_CHUNKS; c++)
            add_group_32(s, at, stage, c);
        return;
    }
    if (TILE_OWN) { /* words are in registers, which have no numbers at run time */
        RF_UNROLL
        for (uint32_t c = 0; c < TILE_CHUNKS; c++)
            if (c < n) add_group_32(s, at, stage, c);
        return;
    }
    RF_NO_UNROLL
    for (uint32_t c = 0; c < n; c++)
        add_group_32(s, at, stage, c);
}

/* Adds a stage of n columns. */
RF_DEVICE void add_stage(tile_sums *s, const tile_place *at, const uint8_t *stage, uint32_t n) {
    if (at->col >= at->n) return; /* the warp has no activation rows */
    if (at->k.view == 256)
        add_group_256(s, at, stage);
    else
        add_groups_32(s, at, stage, n / RF_GPU_CHUNK);
    if (at->k.view == 32 && has_m(at)) add_minima_32(s, at, stage, n / RF_GPU_CHUNK);
}

/* Adds all stages, each of which is there when its turn comes. */
#if defined(RF_MATRIX)
/* The chunk that is the last of the stage from column first on. */
RF_DEVICE uint32_t last_chunk(const tile_place *at, uint32_t first) {
    return rf_min_u32(at->w.cols - first, RF_TILE_STAGE) / RF_GPU_CHUNK - 1;
}

/* From now on a lane's words of the stage from column first on are on their way in place of those that it has used; behind
 * the last stage once more its. */
RF_DEVICE void expect_own(const tile_place *at, uint32_t first) {
    if (!TILE_OWN || first >= at->w.cols) return;
    at->own->last = last_chunk(at, first);
    RF_UNROLL
    for (uint32_t h = 0; h < halves_of(at); h++) {
        at->own->next[h] += 1024 * (uint32_t)at->k.lo_bits;
        at->own->next_hi[h] += 1024 * (uint32_t)at->k.hi_bits;
    }
}

/* Those of the first stage on their way. */
RF_DEVICE void begin_own(const tile_place *at, const tile_source *from) {
    if (!TILE_OWN) return;
    at->own->last = last_chunk(at, 0);
    RF_UNROLL
    for (uint32_t h = 0; h < halves_of(at); h++) {
        at->own->next[h] = from->lo[h];
        at->own->next_hi[h] = from->hi[h];
    }
    RF_UNROLL
    for (uint32_t i = 0; i < halves_of(at) * TILE_CHUNKS; i++)
        load_own(at, i % TILE_CHUNKS, i / TILE_CHUNKS);
}

RF_DEVICE void add_stages(tile_sums *s, uint8_t *stages, const tile_place *at, tile_source *from,
                          const rf_gpu_quant *x, const uint32_t *row) {
    const uint32_t cols = at->w.cols;
    tile_carry carry;
    const tile_way fetch = {&carry, 0}, put = {&carry, 1};
    rf_sync(); /* the rows' places are there */
    tile_load(fetch, at, stages, from, x, row, 0);
    begin_own(at, from);
    RF_NO_UNROLL
    for (uint32_t first = 0; first < cols; first += RF_TILE_STAGE) {
        rf_sync(); /* the stage is free */
        tile_load(put, at, stages, from, x, row, first);
        rf_sync();
        tile_load(fetch, at, stages, from, x, row, first + RF_TILE_STAGE);
        expect_own(at, first + RF_TILE_STAGE);
        add_stage(s, at, stages, rf_min_u32(cols - first, RF_TILE_STAGE));
    }
    rf_sync();
}
#else
RF_DEVICE void add_stages(tile_sums *s, uint8_t *stages, const tile_place *at, tile_source *from,
                          const rf_gpu_quant *x, const uint32_t *row) {
    const uint32_t cols = at->w.cols, n_stages = at->k.shape.n_stages, bytes = at->k.at.bytes;
    const tile_way straight = {0, 0};
    rf_sync(); /* the rows' places are there, the stages are free */
    uint32_t to = 0, now = 0, loaded = 0;
    RF_NO_UNROLL
    for (uint32_t i = 0; i + 1 < n_stages; i++) {
        tile_load(straight, at, stages + to, from, x, row, loaded);
        loaded += RF_TILE_STAGE;
        to += bytes;
    }
    if (n_stages > 1) {
        rf_copy_wait_but(n_stages - 2);
        rf_sync();
        split_sums(at, stages, rf_min_u32(cols, RF_TILE_STAGE));
    }
    RF_NO_UNROLL
    for (uint32_t first = 0; first < cols; first += RF_TILE_STAGE) {
        /* The stage after this one is there, and what the last one used is free. */
        if (n_stages > 1) {
            rf_copy_wait_but(n_stages - 3);
            rf_sync();
        }
        tile_load(straight, at, stages + to, from, x, row, loaded);
        loaded += RF_TILE_STAGE;
        to = to + bytes == n_stages * bytes ? 0 : to + bytes;
        const uint32_t after = now + bytes == n_stages * bytes ? 0 : now + bytes;
        if (n_stages == 1) {
            rf_copy_wait();
            rf_sync();
        }
        if (n_stages == 1 || first + RF_TILE_STAGE < cols)
            split_sums(
                at, stages + after,
                rf_min_u32(cols - first - (n_stages == 1 ? 0 : RF_TILE_STAGE), RF_TILE_STAGE));
        if (n_stages == 1) rf_sync();
        add_stage(s, at, stages + now, rf_min_u32(cols - first, RF_TILE_STAGE));
        now = after;
        if (n_stages == 1) rf_sync();
    }
    rf_copy_wait();
    rf_sync();
}
#endif

/* One product of the block, all columns. */
RF_DEVICE void tile_product(tile_sums *s, uint8_t *stages, const tile_place *at, tile_source *from,
                            const rf_gpu_quant *x, const uint32_t *row) {
    RF_UNROLL
    for (uint32_t i = 0; i < TILE_M * TILE_N * TILE_OUT; i++)
        s->v[i / (TILE_N * TILE_OUT)][i / TILE_OUT % TILE_N][i % TILE_OUT] = 0.0f;
    add_stages(s, stages, at, from, x, row);
}

#if defined(RF_MFMA)
/* The lane's outputs, straight from its registers: sixteen lanes have neighbouring weight rows, and all stages of two blocks
 * have room where outputs need none.  gate: of kernels with one square of weight rows. */
RF_DEVICE void put_lane(const tile_place *at, const tile_sums *gate, const tile_sums *s,
                        uint32_t rows, const rf_gpu_matmul_args *a, const mm_share *share) {
    const uint32_t n_squares = at->k.shape.n * 8 / TILE_SIDE,
                   both = a->is_glu && at->k.shape.m == 2;
    RF_UNROLL
    for (uint32_t k = 0; k < n_squares * TILE_OUT; k++) {
        const uint32_t n = k / TILE_OUT, i = k % TILE_OUT, t = col_of(at, n, (int)i);
        if (t >= share->n) continue;
        const uint32_t dst_row = dst_row_of(a, share, t);
        RF_UNROLL
        for (uint32_t m = 0; m < at->k.shape.m; m++) {
            const uint32_t r = share->tile * rows + row_of(at, m, (int)i);
            if ((m == 1 && both) || r >= share->p.w.rows) continue;
            if (both)
                put_output(a, share, dst_row, r, s->v[0][n][i], s->v[1][n][i]);
            else
                put_output(a, share, dst_row, r, gate->v[m][n][i], s->v[m][n][i]);
        }
    }
}
#else
/* Sums into shared memory, [cols][stride], so that neighbouring threads write neighbouring rows of
 * dst. */
RF_DEVICE void put_sums(float *out, uint32_t stride, const tile_place *at, const tile_sums *s) {
    const uint32_t n_squares = at->k.shape.n * 8 / TILE_SIDE;
    RF_UNROLL
    for (uint32_t k = 0; k < at->k.shape.m * n_squares * TILE_OUT; k++) {
        const uint32_t m = k / (n_squares * TILE_OUT), n = k / TILE_OUT % n_squares;
        const int i = (int)(k % TILE_OUT);
        out[col_of(at, n, i) * stride + row_of(at, m, i)] = s->v[m][n][i];
    }
}

/* The block's outputs; with is_glu each gate is followed by its up product rows places on. */
RF_DEVICE void put_tile(const float *out, uint32_t stride, uint32_t rows, uint32_t warps,
                        const rf_gpu_matmul_args *a, const mm_share *share) {
    const uint32_t first = share->tile * rows;
    RF_NO_UNROLL
    for (uint32_t t = rf_tid() / 32; t < share->n; t += warps) {
        const uint32_t dst_row = dst_row_of(a, share, t);
        const float *of_row = out + t * stride;
        RF_UNROLL_4
        for (uint32_t i = rf_tid() % 32; i < rows; i += 32) {
            if (first + i >= share->p.w.rows) break;
            const float v = of_row[i];
            if (a->is_glu)
                put_output(a, share, dst_row, first + i, v, of_row[rows + i]);
            else
                put_output(a, share, dst_row, first + i, 0.0f, v);
        }
    }
}
#endif

RF_DEVICE uint32_t tile_warp(void) {
#if defined(RF_MATRIX)
    return matrix_wave();
#else
    return rf_tid() / TILE_LANES;
#endif
}

RF_DEVICE void tile_run(const rf_gpu_matmul_args *a, tile_kind kind, uint8_t *shared) {
    const uint32_t block_rows = rf_tile_rows(kind.shape), cols = rf_tile_cols(kind.shape);
    const uint32_t both = a->is_glu && kind.shape.m == 2; /* gate and up are halves of the block */
    const uint32_t rows = both ? block_rows / 2 : block_rows;
    const mm_share share = share_of(a, rows, cols);
    if (share.n == 0) return;
    uint32_t *row = (uint32_t *)(void *)shared;
    uint8_t *stages = shared + RF_TILE_MAX_COLS * 4;
    if (rf_tid() < cols)
        row[rf_tid()] = (uint32_t)((uint64_t)x_row_of(a, dst_row_of(a, &share, rf_tid())) *
                                   share.p.w.cols / 16);
    const uint32_t warp = tile_warp(), n_tiles = rf_div_up(share.p.w.rows, RF_GPU_TILE_ROWS);
    const uint32_t tile = share.tile * (rows / RF_GPU_TILE_ROWS);
    tile_own own;
    tile_place at;
    at.own = TILE_OWN ? &own : 0;
    at.k = kind;
    at.w = share.p.w;
    at.n_groups = at.w.cols / (uint32_t)kind.view;
    at.n = share.n;
    at.lane = rf_tid() % TILE_LANES;
    at.row = warp % kind.shape.warps_m * 16;
    at.col = warp / kind.shape.warps_m * 8 * kind.shape.n;
    tile_sums s = {{{{0}}}}, gate = s;
    RF_NO_UNROLL
    for (uint32_t pass = 0; pass <= (kind.shape.m == 1 && a->is_glu); pass++) {
        if (pass) {
            gate = s;
            at.w = a->part[1].w;
        }
        tile_source from =
            find_source(&at, a, (uint64_t)share.plane * n_tiles + tile, n_tiles - tile, both);
        tile_product(&s, stages, &at, &from, &a->xq, row);
    }
#if defined(RF_MFMA)
    put_lane(&at, &gate, &s, rows, a, &share);
#else
    const uint32_t stride = (a->is_glu ? 2 * rows : rows) + 4;
    float *out = (float *)(void *)stages;
    if (kind.shape.m == 1 && a->is_glu) {
        put_sums(out, stride, &at, &gate);
        put_sums(out + rows, stride, &at, &s);
    } else {
        put_sums(out, stride, &at, &s);
    }
    rf_sync();
    put_tile(out, stride, rows, threads_of(&at) / 32, a, &share);
#endif
}

#if defined(RF_AMD)
#define TILE_SHARED(bytes) RF_SHARED __attribute__((aligned(16))) uint8_t shared[bytes]
#else
#define TILE_SHARED(bytes) uint8_t *shared = rf_dynamic_shared
#endif
#define TILE_KERNEL(view, lo_bits, hi_bits, size, name)                                          \
    RF_KERNEL_ALONE(tile_##view##_##lo_bits##hi_bits##_##name, rf_gpu_matmul_args) {             \
        const rf_tile_shape shape = rf_tile_shape_of(size, TILE_AMD);                            \
        const rf_tile_parts parts = rf_tile_parts_of(shape, view, lo_bits, hi_bits, TILE_OWN);   \
        const tile_kind kind = {shape,   parts,   view,                                          \
                                lo_bits, hi_bits, facts_of(view, lo_bits, hi_bits)};             \
        TILE_SHARED(                                                                             \
            rf_tile_shared_bytes(rf_tile_shape_of(size, 32), view, lo_bits, hi_bits, TILE_OWN)); \
        tile_run(&a, kind, shared);                                                              \
    }
#define TILE_KERNELS(view, lo_bits, hi_bits)       \
    TILE_KERNEL(view, lo_bits, hi_bits, 0, large)  \
    TILE_KERNEL(view, lo_bits, hi_bits, 1, middle) \
    TILE_KERNEL(view, lo_bits, hi_bits, 2, small)
TILE_KERNELS(32, 4, 0)
TILE_KERNELS(32, 4, 1)
TILE_KERNELS(32, 8, 0)
TILE_KERNELS(256, 2, 0)
TILE_KERNELS(256, 2, 1)
TILE_KERNELS(256, 4, 0)
TILE_KERNELS(256, 4, 1)
TILE_KERNELS(256, 4, 2)
TILE_KERNELS(256, 8, 0)
