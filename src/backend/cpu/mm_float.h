/* mm_float.h - products of float weights, written over a vector of sixteen lanes; private to
 * mm_*.c.
 *
 * The including file defines before it: lanes (sixteen f32) with lanes_zero(), lanes_load(p),
 * lanes_store(p, s), lanes_fma(a, b, c), lanes_tree16(s), lanes_load_f16(p) and lanes_load_bf16(p);
 * vec (VEC_LANES of the sixteen) with vec_zero(), vec_load(p), vec_load_f16(p), vec_load_bf16(p),
 * vec_store(p, v) and vec_fma(a, b, c); trees_of_8(s, out), tree16 of eight times sixteen lanes;
 * float_prefetch(p); decode_blocks(type, src, dst, n), how many of n elements it turned into f32; and
 * TILE_NT.  Loads need no alignment.
 *
 * Few activation rows (T < RF_MM_TILE_MIN) read F32, F16 and BF16 weights in place, a row at a time.
 * So do the register tiles of up to IN_PLACE rows; for more, and for other formats, a panel of weight
 * rows is decoded to f32 and stays in the second-level cache.  The sixteen lanes of an output never
 * meet before the end, so a register tile holds one vector of each, for TILE_NR x TILE_NT outputs,
 * and passes over a stretch of k once for each vector: that leaves registers for more outputs than
 * whole sets of lanes would.  Tiles of F16 and BF16 fetch the weights that come next: those of F32
 * leave memory time to load for itself, being for more rows, and gain from a plain loop. */
#include <string.h>

#include "backend/cpu/mm.h"

typedef enum float_kind { KIND_F32, KIND_F16, KIND_BF16 } float_kind;

RF_INLINE size_t kind_bytes(float_kind kind) { return kind == KIND_F32 ? 4 : 2; }

RF_INLINE lanes load_w(float_kind kind, const uint8_t *p) {
    if (kind == KIND_F32) return lanes_load(p);
    return kind == KIND_F16 ? lanes_load_f16(p) : lanes_load_bf16(p);
}

/* ---- few activation rows ---- */

enum {
    FEW_NR = 4,
    FEW_NT = RF_MM_TILE_MIN - 1,
    FEW_SHORT = 4096, /* bytes: of shorter rows one at a time keeps memory busier than four */
};

/* The lanes of nr x nt outputs. */
typedef struct few_lanes {
    lanes s[FEW_NR][FEW_NT];
} few_lanes;

/* Elements k .. k + 15. */
RF_INLINE void few_step(float_kind kind, int nr, int nt, const uint8_t *const w[],
                        const float *const x[], size_t k, few_lanes *tile) {
    lanes wk[FEW_NR];
    RF_UNROLL
    for (int r = 0; r < nr; r++)
        wk[r] = load_w(kind, w[r] + k * kind_bytes(kind));
    RF_UNROLL
    for (int t = 0; t < nt; t++) {
        lanes xk = lanes_load(x[t] + k);
        RF_UNROLL
        for (int r = 0; r < nr; r++)
            tile->s[r][t] = lanes_fma(wk[r], xk, tile->s[r][t]);
    }
}

/* The last k .. n - 1 elements, continued with zeros. */
RF_INLINE void few_end(float_kind kind, int nr, int nt, const uint8_t *const w[],
                       const float *const x[], size_t k, size_t n, few_lanes *tile) {
    uint8_t w_end[FEW_NR][64] = {{0}};
    float x_end[FEW_NT][16] = {{0}};
    const uint8_t *wp[FEW_NR];
    const float *xp[FEW_NT];
    for (int r = 0; r < nr; r++) {
        memcpy(w_end[r], w[r] + k * kind_bytes(kind), (n - k) * kind_bytes(kind));
        wp[r] = w_end[r];
    }
    for (int t = 0; t < nt; t++) {
        memcpy(x_end[t], x[t] + k, (n - k) * sizeof(float));
        xp[t] = x_end[t];
    }
    few_step(kind, nr, nt, wp, xp, 0, tile);
}

/* nr x nt outputs of rows w[r] and x[t] of n elements, into out[t * FEW_NR + r].  next: the bytes
 * of the next nr rows, which lie back to back. */
RF_INLINE void few_outputs(float_kind kind, int nr, int nt, const uint8_t *const w[],
                           const uint8_t *next, const float *const x[], size_t n, float *out) {
    few_lanes tile;
    RF_UNROLL
    for (int r = 0; r < nr; r++) {
        RF_UNROLL
        for (int t = 0; t < nt; t++)
            tile.s[r][t] = lanes_zero();
    }
    size_t whole = n & ~(size_t)15;
    for (size_t k = 0; k < whole; k += 16) {
        const size_t bytes = 16 * kind_bytes(kind) * (size_t)nr;
        RF_UNROLL
        for (size_t i = 0; i < bytes; i += 64)
            float_prefetch(next + k / 16 * bytes + i);
        few_step(kind, nr, nt, w, x, k, &tile);
    }
    if (whole < n) few_end(kind, nr, nt, w, x, whole, n, &tile);
    RF_UNROLL
    for (int r = 0; r < nr; r++) {
        RF_UNROLL
        for (int t = 0; t < nt; t++)
            out[t * FEW_NR + r] = lanes_tree16(tile.s[r][t]);
    }
}

/* Output rows [row, row + n_rows) from weights at w (rows stride bytes apart) for all nt activation
 * rows, nr output rows at a time; rows beyond the range repeat the last. */
RF_INLINE void few_rows(float_kind kind, int nr, int nt, const rf_mm *mm, const uint8_t *w,
                        size_t stride, uint32_t row, uint32_t n_rows) {
    const rf_mm_input *a = mm->act;
    const float *x[FEW_NT];
    for (int t = 0; t < nt; t++)
        x[t] = a->x + (size_t)t * a->n_cols;
    for (uint32_t r0 = 0; r0 < n_rows; r0 += (uint32_t)nr) {
        const uint8_t *wr[FEW_NR];
        float out[FEW_NT * FEW_NR];
        for (uint32_t r = 0; r < (uint32_t)nr; r++)
            wr[r] = w + (r0 + r < n_rows ? r0 + r : n_rows - 1) * stride;
        const uint8_t *next = wr[0];
        if (n_rows - r0 > (uint32_t)nr)
            next += (size_t)nr * stride;
        else if (mm->next)
            next = mm->next;
        few_outputs(kind, nr, nt, wr, next, x, a->n_cols, out);
        for (uint32_t r = 0; r < (uint32_t)nr && r0 + r < n_rows; r++)
            for (int t = 0; t < nt; t++) {
                float v = out[t * FEW_NR + (int)r];
                if (mm->bias) v += mm->bias[row + r0 + r];
                mm->dst[(size_t)t * mm->dst_stride + row + r0 + r] = v;
            }
    }
}

RF_INLINE void few_of_kind(float_kind kind, const rf_mm *mm, const uint8_t *w, size_t stride,
                           uint32_t row, uint32_t n_rows) {
    switch (mm->act->n_rows) {
    case 1:
        if (stride < FEW_SHORT)
            few_rows(kind, 1, 1, mm, w, stride, row, n_rows);
        else
            few_rows(kind, 4, 1, mm, w, stride, row, n_rows);
        break;
    case 2:
        few_rows(kind, 3, 2, mm, w, stride, row, n_rows);
        break;
    default:
        few_rows(kind, 2, 3, mm, w, stride, row, n_rows);
        break;
    }
}

/* ---- decoding ---- */

/* Elements [k, k + n) of a row as f32; k is a multiple of RF_MM_FLOAT_STRETCH. */
static void decode_stretch(const rf_tensor *w, uint32_t row, size_t k, size_t n, float *dst) {
    const rf_dtype_info *info = rf_dtype_get(w->type);
    const uint8_t *src = rf_mm_row(w, row) + k / info->block_elems * info->block_bytes;
    size_t whole = decode_blocks(w->type, src, dst, n); /* elements converted here */
    if (w->type == RF_DT_F16)
        for (; whole + 16 <= n; whole += 16)
            lanes_store(dst + whole, lanes_load_f16(src + 2 * whole));
    if (w->type == RF_DT_BF16)
        for (; whole + 16 <= n; whole += 16)
            lanes_store(dst + whole, lanes_load_bf16(src + 2 * whole));
    info->decode(src + whole / info->block_elems * info->block_bytes, dst + whole, n - whole);
}

static void few(const rf_mm *mm, uint32_t begin, uint32_t end, float *scratch) {
    const rf_tensor *w = mm->w;
    const uint8_t *at = rf_mm_row(w, begin);
    const size_t cols = rf_mm_round16(w->cols);
    if (w->type == RF_DT_F32) {
        few_of_kind(KIND_F32, mm, at, w->row_bytes, begin, end - begin);
        return;
    }
    if (w->type == RF_DT_F16) {
        few_of_kind(KIND_F16, mm, at, w->row_bytes, begin, end - begin);
        return;
    }
    if (w->type == RF_DT_BF16) {
        few_of_kind(KIND_BF16, mm, at, w->row_bytes, begin, end - begin);
        return;
    }
    for (uint32_t row = begin; row < end; row += FEW_NR) {
        uint32_t n = end - row < FEW_NR ? end - row : FEW_NR;
        for (uint32_t r = 0; r < n; r++)
            decode_stretch(w, row + r, 0, w->cols, scratch + r * cols);
        few_of_kind(KIND_F32, mm, (const uint8_t *)scratch, cols * sizeof(float), row, n);
    }
}

/* ---- tiles ---- */

enum {
    TILE_NR = RF_MM_FLOAT_NR,
    STRETCH = RF_MM_FLOAT_STRETCH,
    GROUP_NT = RF_MM_FLOAT_NT,
    LOOK_EVERY = 64, /* elements of k */
    IN_PLACE = 32,   /* most activation rows whose tiles decode F16 and BF16 each for themselves */
};

/* The numbers that tiles find in a panel. */
RF_INLINE float_kind kind_of(rf_dtype t, uint32_t n_act) {
    if (t == RF_DT_F16 && n_act <= IN_PLACE) return KIND_F16;
    return t == RF_DT_BF16 && n_act <= IN_PLACE ? KIND_BF16 : KIND_F32;
}

RF_INLINE vec load_vec(float_kind kind, const uint8_t *p) {
    if (kind == KIND_F32) return vec_load((const float *)(const void *)p);
    return kind == KIND_F16 ? vec_load_f16(p) : vec_load_bf16(p);
}

/* Elements i .. i + VEC_LANES - 1. */
RF_INLINE void tile_step(float_kind kind, int nt, const uint8_t *const w[], const float *const x[],
                         size_t i, vec s[TILE_NR][TILE_NT]) {
    vec xi[TILE_NT];
    RF_UNROLL
    for (int t = 0; t < nt; t++)
        xi[t] = vec_load(x[t] + i);
    RF_UNROLL
    for (int r = 0; r < TILE_NR; r++) {
        vec wi = load_vec(kind, w[r] + i * kind_bytes(kind));
        RF_UNROLL
        for (int t = 0; t < nt; t++)
            s[r][t] = vec_fma(wi, xi[t], s[r][t]);
    }
}

/* Adds n elements (a multiple of 16) of nt activation rows x[t] to the lanes of TILE_NR x nt
 * outputs at sums [nt][RF_MM_FLOAT_ROWS][16].  first: the lanes start at 0. */
RF_INLINE void add_tile(float_kind kind, int nt, const uint8_t *const w[], const float *const x[],
                        size_t n, bool first, float *sums, rf_mm_ahead *ahead) {
    for (size_t lane = 0; lane < 16; lane += VEC_LANES) {
        vec s[TILE_NR][TILE_NT];
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            RF_UNROLL
            for (int r = 0; r < TILE_NR; r++)
                s[r][t] =
                    first ? vec_zero() : vec_load(sums + (t * RF_MM_FLOAT_ROWS + r) * 16 + lane);
        }
        for (size_t k = lane, end; k < n; k = end) {
            end = kind == KIND_F32 || n - k < LOOK_EVERY ? n : k + LOOK_EVERY;
            if (kind != KIND_F32) rf_mm_look_ahead(ahead);
            for (size_t i = k; i < end; i += 16)
                tile_step(kind, nt, w, x, i, s);
        }
        RF_UNROLL
        for (int t = 0; t < nt; t++) {
            RF_UNROLL
            for (int r = 0; r < TILE_NR; r++)
                vec_store(sums + (t * RF_MM_FLOAT_ROWS + r) * 16 + lane, s[r][t]);
        }
    }
}

/* A stretch of k of n_rows weight rows, stride bytes apart. */
typedef struct float_stretch {
    const uint8_t *w;
    size_t stride, n; /* n elements, a multiple of 16 */
    uint32_t n_rows;
    bool first;
    float *sums; /* [RF_MM_FLOAT_NT][RF_MM_FLOAT_ROWS][16] */
    rf_mm_ahead *ahead;
} float_stretch;

/* All of its weight rows (beyond the last, that one again) times a + b activation rows, in one or
 * two register tiles: the second finds the weights in the first-level cache. */
RF_INLINE void add_rows(float_kind kind, int a, int b, const float_stretch *p,
                        const float *const x[]) {
    for (uint32_t r0 = 0; r0 < p->n_rows; r0 += TILE_NR) {
        const uint8_t *w[TILE_NR];
        float *sums = p->sums + (size_t)r0 * 16;
        for (uint32_t r = 0; r < TILE_NR; r++)
            w[r] = p->w + (r0 + r < p->n_rows ? r0 + r : p->n_rows - 1) * p->stride;
        add_tile(kind, a, w, x, p->n, p->first, sums, p->ahead);
        if (b > 0)
            add_tile(kind, b, w, x + a, p->n, p->first, sums + a * RF_MM_FLOAT_ROWS * 16, p->ahead);
    }
}

/* One function per format and number of activation rows, so that they are constants inside. */
typedef void (*add_rows_fn)(const float_stretch *p, const float *const x[]);
#define ADD_ROWS_OF(kind, a, b)                                                               \
    static void add_rows_##kind##_##a##_##b(const float_stretch *p, const float *const x[]) { \
        add_rows(kind, a, b, p, x);                                                           \
    }
#define ADD_ROWS(a, b)          \
    ADD_ROWS_OF(KIND_F32, a, b) \
    ADD_ROWS_OF(KIND_F16, a, b) \
    ADD_ROWS_OF(KIND_BF16, a, b)
ADD_ROWS(1, 0)
ADD_ROWS(2, 0)
ADD_ROWS(3, 0)
#if TILE_NT == 3
ADD_ROWS(2, 2)
ADD_ROWS(3, 2)
ADD_ROWS(3, 3)
#define ADD_SOME(kind)                                                          \
    {                                                                           \
        add_rows_##kind##_1_0, add_rows_##kind##_2_0, add_rows_##kind##_3_0,    \
            add_rows_##kind##_2_2, add_rows_##kind##_3_2, add_rows_##kind##_3_3 \
    }
#else
ADD_ROWS(4, 0)
ADD_ROWS(5, 0)
ADD_ROWS(6, 0)
#define ADD_SOME(kind)                                                          \
    {                                                                           \
        add_rows_##kind##_1_0, add_rows_##kind##_2_0, add_rows_##kind##_3_0,    \
            add_rows_##kind##_4_0, add_rows_##kind##_5_0, add_rows_##kind##_6_0 \
    }
#endif
static const add_rows_fn add_some[][GROUP_NT] = {[KIND_F32] = ADD_SOME(KIND_F32),
                                                 [KIND_F16] = ADD_SOME(KIND_F16),
                                                 [KIND_BF16] = ADD_SOME(KIND_BF16)};

/* A panel: n_rows weight rows from row `row` on, in place, or decoded to f32 and then
 * [stretches][n_rows][STRETCH]. */
typedef struct float_panel {
    const rf_mm *mm;
    uint32_t row, n_rows;
    float_kind kind;
    const uint8_t *w;
    size_t stride, column; /* bytes between rows of a stretch, and for each column to the next */
    float *sums;
    rf_mm_ahead ahead;
} float_panel;

static void decode_panel(float_panel *p, float *dst) {
    const rf_tensor *w = p->mm->w;
    p->w = (const uint8_t *)dst;
    p->stride = STRETCH * sizeof *dst;
    p->column = p->n_rows * sizeof *dst;
    for (size_t k = 0; k < w->cols; k += STRETCH)
        for (uint32_t r = 0; r < p->n_rows; r++, dst += STRETCH)
            decode_stretch(w, p->row + r, k, w->cols - k < STRETCH ? w->cols - k : STRETCH, dst);
}

/* The last n < 16 elements of k, continued with zeros. */
static void add_end(const float_panel *p, float_stretch s, uint32_t nt, const float *const x[]) {
    uint8_t w_end[RF_MM_FLOAT_ROWS][64] = {{0}};
    float x_end[GROUP_NT][16] = {{0}};
    const float *xp[GROUP_NT];
    for (uint32_t r = 0; r < s.n_rows; r++)
        memcpy(w_end[r], s.w + r * s.stride, s.n * kind_bytes(p->kind));
    for (uint32_t i = 0; i < nt; i++) {
        memcpy(x_end[i], x[i], s.n * sizeof(float));
        xp[i] = x_end[i];
    }
    s.w = w_end[0];
    s.stride = sizeof w_end[0];
    s.n = 16;
    add_some[p->kind][nt - 1](&s, xp);
}

/* Adds bias to n outputs and stores them. */
RF_INLINE void store_outputs(float *dst, const float *out, const float *bias, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        dst[i] = bias ? out[i] + bias[i] : out[i];
}

/* The panel times nt activation rows from row t on. */
static void multiply_panel(float_panel *p, uint32_t t, uint32_t nt) {
    const rf_mm *mm = p->mm;
    const size_t cols = mm->act->n_cols, whole = cols & ~(size_t)15;
    const float *x[GROUP_NT];
    float_stretch s = {
        .stride = p->stride, .n_rows = p->n_rows, .sums = p->sums, .ahead = &p->ahead};
    for (size_t k = 0; k < cols; k += s.n) {
        for (uint32_t i = 0; i < nt; i++)
            x[i] = mm->act->x + (size_t)(t + i) * cols + k;
        s.w = p->w + k / STRETCH * STRETCH * p->column + k % STRETCH * kind_bytes(p->kind);
        s.first = k == 0;
        if (k == whole) {
            s.n = cols - k;
            add_end(p, s, nt, x);
        } else {
            s.n = whole - k < STRETCH ? whole - k : STRETCH;
            add_some[p->kind][nt - 1](&s, x);
        }
    }
    for (uint32_t i = 0; i < nt; i++)
        for (uint32_t r = 0; r < p->n_rows; r += 8) {
            float out[8];
            trees_of_8(p->sums + ((size_t)i * RF_MM_FLOAT_ROWS + r) * 16, out);
            store_outputs(mm->dst + (size_t)(t + i) * mm->dst_stride + p->row + r, out,
                          mm->bias ? mm->bias + p->row + r : NULL,
                          p->n_rows - r < 8 ? p->n_rows - r : 8);
        }
}

/* Turns to the rows behind the panel, a part of which is fetched each LOOK_EVERY columns of a tile. */
static void look_behind(float_panel *p, uint32_t end, uint32_t most) {
    size_t fetch = rf_mm_look_at_rows(p->mm, p->row + p->n_rows, end, most, &p->ahead);
    size_t looks = (p->mm->w->cols + LOOK_EVERY - 1) / LOOK_EVERY * (16 / VEC_LANES);
    looks *= (p->n_rows + TILE_NR - 1) / TILE_NR;
    looks *= (p->mm->act->n_rows + TILE_NT - 1) / TILE_NT;
    p->ahead.step = fetch / looks + 1;
}

static void matmul_float(const rf_mm *mm, uint32_t begin, uint32_t end, float *scratch) {
    const rf_tensor *w = mm->w;
    const uint32_t n_act = mm->act->n_rows;
    if (n_act < RF_MM_TILE_MIN) {
        few(mm, begin, end, scratch);
        return;
    }
    const uint32_t most = rf_mm_float_rows(w->cols);
    float_panel p = {.mm = mm, .kind = kind_of(w->type, n_act), .sums = scratch};
    const bool in_place = p.kind != KIND_F32 || w->type == RF_DT_F32;
    if (p.kind != KIND_F32) {
        p.ahead.step = rf_mm_look_at_rows(mm, begin, end, most, &p.ahead);
        rf_mm_look_ahead(&p.ahead);
    }
    for (p.row = begin; p.row < end; p.row += p.n_rows) {
        p.n_rows = end - p.row < most ? end - p.row : most;
        if (p.kind != KIND_F32) look_behind(&p, end, most);
        if (in_place) {
            p.w = rf_mm_row(w, p.row);
            p.stride = w->row_bytes;
            p.column = kind_bytes(p.kind);
        } else {
            decode_panel(&p, scratch + (size_t)GROUP_NT * RF_MM_FLOAT_ROWS * 16);
        }
        uint32_t tiles = (n_act + TILE_NT - 1) / TILE_NT;
        for (uint32_t t = 0, nt; t < n_act; t += nt) {
            nt = 0;
            for (int i = 0; i < GROUP_NT / TILE_NT && tiles > 0; i++, tiles--)
                nt += (n_act - t - nt + tiles - 1) / tiles; /* tiles of about the same size */
            multiply_panel(&p, t, nt);
        }
    }
}
