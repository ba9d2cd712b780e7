/* mm_float.h - products of float weights, written over a vector of sixteen lanes; private to
 * mm_*.c.
 *
 * The including file defines before it: lanes (sixteen f32), lanes_zero(), lanes_load(p) and
 * lanes_store(p, s), lanes_load_f16(p) and lanes_load_bf16(p) from 16 unaligned elements,
 * lanes_fma(a, b, c), lanes_tree16(s), and the register tile TILE_NR x TILE_NT (weight rows by
 * activation rows, for T >= RF_MM_TILE_MIN).  Fewer activation rows read F32, F16 and BF16 weights
 * in place; otherwise rows are decoded to f32 first. */
#include <string.h>

#include "backend/cpu/mm.h"

typedef enum float_kind { KIND_F32, KIND_F16, KIND_BF16 } float_kind;

enum { MAX_NR = 4, MAX_NT = 4 };

RF_INLINE size_t kind_bytes(float_kind kind) { return kind == KIND_F32 ? 4 : 2; }

RF_INLINE lanes load_w(float_kind kind, const uint8_t *p) {
    if (kind == KIND_F32) return lanes_load(p);
    return kind == KIND_F16 ? lanes_load_f16(p) : lanes_load_bf16(p);
}

/* The lanes of nr x nt outputs. */
typedef struct float_tile {
    lanes s[MAX_NR][MAX_NT];
} float_tile;

/* Elements k .. k + 15. */
RF_INLINE void float_step(float_kind kind, int nr, int nt, const uint8_t *const w[],
                          const float *const x[], size_t k, float_tile *tile) {
    lanes wk[MAX_NR];
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
RF_INLINE void float_end(float_kind kind, int nr, int nt, const uint8_t *const w[],
                         const float *const x[], size_t k, size_t n, float_tile *tile) {
    uint8_t w_end[MAX_NR][64] = {{0}};
    float x_end[MAX_NT][16] = {{0}};
    const uint8_t *wp[MAX_NR];
    const float *xp[MAX_NT];
    for (int r = 0; r < nr; r++) {
        memcpy(w_end[r], w[r] + k * kind_bytes(kind), (n - k) * kind_bytes(kind));
        wp[r] = w_end[r];
    }
    for (int t = 0; t < nt; t++) {
        memcpy(x_end[t], x[t] + k, (n - k) * sizeof(float));
        xp[t] = x_end[t];
    }
    float_step(kind, nr, nt, wp, xp, 0, tile);
}

/* nr x nt outputs of rows w[r] and x[t] of n elements, into out[t * MAX_NR + r]. */
RF_INLINE void float_outputs(float_kind kind, int nr, int nt, const uint8_t *const w[],
                             const float *const x[], size_t n, float *out) {
    float_tile tile;
    RF_UNROLL
    for (int r = 0; r < nr; r++) {
        RF_UNROLL
        for (int t = 0; t < nt; t++)
            tile.s[r][t] = lanes_zero();
    }
    size_t whole = n & ~(size_t)15;
    for (size_t k = 0; k < whole; k += 16)
        float_step(kind, nr, nt, w, x, k, &tile);
    if (whole < n) float_end(kind, nr, nt, w, x, whole, n, &tile);
    RF_UNROLL
    for (int r = 0; r < nr; r++) {
        RF_UNROLL
        for (int t = 0; t < nt; t++)
            out[t * MAX_NR + r] = lanes_tree16(tile.s[r][t]);
    }
}

/* Output rows [row, row + n_rows) from weights at w (rows stride bytes apart) for activation rows
 * [t0, t0 + nt), nr output rows at a time; rows beyond the range repeat the last. */
RF_INLINE void float_rows(float_kind kind, int nr, int nt, const rf_mm *mm, const uint8_t *w,
                          size_t stride, uint32_t row, uint32_t n_rows, uint32_t t0) {
    const rf_mm_input *a = mm->act;
    const float *x[MAX_NT];
    for (int t = 0; t < nt; t++)
        x[t] = a->x + (size_t)(t0 + (uint32_t)t) * a->n_cols;
    for (uint32_t r0 = 0; r0 < n_rows; r0 += (uint32_t)nr) {
        const uint8_t *wr[MAX_NR];
        float out[MAX_NT * MAX_NR];
        for (uint32_t r = 0; r < (uint32_t)nr; r++)
            wr[r] = w + (r0 + r < n_rows ? r0 + r : n_rows - 1) * stride;
        float_outputs(kind, nr, nt, wr, x, a->n_cols, out);
        for (uint32_t r = 0; r < (uint32_t)nr && r0 + r < n_rows; r++)
            for (int t = 0; t < nt; t++) {
                float v = out[t * MAX_NR + (int)r];
                if (mm->bias) v += mm->bias[row + r0 + r];
                mm->dst[(size_t)(t0 + (uint32_t)t) * mm->dst_stride + row + r0 + r] = v;
            }
    }
}

/* 1 to 3 activation rows. */
RF_INLINE void float_few(float_kind kind, const rf_mm *mm, const uint8_t *w, size_t stride,
                         uint32_t row, uint32_t n_rows) {
    switch (mm->act->n_rows) {
    case 1:
        float_rows(kind, 4, 1, mm, w, stride, row, n_rows, 0);
        break;
    case 2:
        float_rows(kind, 3, 2, mm, w, stride, row, n_rows, 0);
        break;
    default:
        float_rows(kind, 2, 3, mm, w, stride, row, n_rows, 0);
        break;
    }
}

static void few_in_place(const rf_mm *mm, uint32_t begin, uint32_t end) {
    const uint8_t *w = rf_mm_row(mm->w, begin);
    size_t stride = mm->w->row_bytes;
    if (mm->w->type == RF_DT_F32)
        float_few(KIND_F32, mm, w, stride, begin, end - begin);
    else if (mm->w->type == RF_DT_F16)
        float_few(KIND_F16, mm, w, stride, begin, end - begin);
    else
        float_few(KIND_BF16, mm, w, stride, begin, end - begin);
}

/* Rows of f32 at p, stride bytes apart. */
static void decoded_rows(const rf_mm *mm, const uint8_t *p, size_t stride, uint32_t row,
                         uint32_t n) {
    uint32_t t = 0, n_act = mm->act->n_rows;
    if (n_act < RF_MM_TILE_MIN) {
        float_few(KIND_F32, mm, p, stride, row, n);
        return;
    }
    for (; t + TILE_NT <= n_act; t += TILE_NT)
        float_rows(KIND_F32, TILE_NR, TILE_NT, mm, p, stride, row, n, t);
    for (; t < n_act; t++)
        float_rows(KIND_F32, 4, 1, mm, p, stride, row, n, t);
}

/* A row as f32. */
static void decode_row(const rf_tensor *w, uint32_t row, float *dst) {
    const uint8_t *src = rf_mm_row(w, row);
    size_t whole = 0; /* elements converted here */
    if (w->type == RF_DT_F16)
        for (; whole + 16 <= w->cols; whole += 16)
            lanes_store(dst + whole, lanes_load_f16(src + 2 * whole));
    if (w->type == RF_DT_BF16)
        for (; whole + 16 <= w->cols; whole += 16)
            lanes_store(dst + whole, lanes_load_bf16(src + 2 * whole));
    const rf_dtype_info *info = rf_dtype_get(w->type);
    info->decode(src + whole / info->block_elems * info->block_bytes, dst + whole, w->cols - whole);
}

static void matmul_float(const rf_mm *mm, uint32_t begin, uint32_t end, float *scratch) {
    const rf_tensor *w = mm->w;
    const bool in_place = w->type == RF_DT_F32 || w->type == RF_DT_F16 || w->type == RF_DT_BF16;
    if (in_place && mm->act->n_rows < RF_MM_TILE_MIN) {
        few_in_place(mm, begin, end);
        return;
    }
    const uint32_t step = RF_MM_FLOAT_ROWS / TILE_NR * TILE_NR; /* whole tiles */
    const size_t stride = rf_mm_round16(w->cols);
    for (uint32_t row = begin; row < end; row += step) {
        uint32_t n = end - row < step ? end - row : step;
        if (w->type == RF_DT_F32) {
            decoded_rows(mm, rf_mm_row(w, row), w->row_bytes, row, n);
            continue;
        }
        for (uint32_t r = 0; r < n; r++)
            decode_row(w, row + r, scratch + r * stride);
        decoded_rows(mm, (const uint8_t *)scratch, stride * sizeof(float), row, n);
    }
}
