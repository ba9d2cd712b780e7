/* half_square.h - products of 16-bit floats on AMD's matrix units, by half.h's rule: where the operands of a
 * wave's squares, 16 weight rows by 16 activation rows, lie in memory, and where their outputs go.
 *
 * Rows are read sixteen bytes at a time: lanes 16 apart have neighbouring pieces of a row, SQUARE_COLUMNS
 * columns together.  On gfx9 these are two steps of the unit, of the first four columns of each piece and of
 * the others; the same in all kernels, since what a step adds up makes bits. */
#pragma once
#include "backend/gpu/kernels/half_row.h"

#if defined(RF_MATRIX)
enum {
    SQUARE_PIECES = MATRIX_LANES / 16, /* of a row, beside each other, */
    SQUARE_COLUMNS = 8 * SQUARE_PIECES,
    SQUARE_WORDS = 4 * SQUARE_PIECES / MATRIX_PARTS, /* that a lane multiplies of them */
    SQUARE_STEPS = SQUARE_WORDS / MATRIX_HALF_WORDS,
};

/* A lane's words of a row. */
typedef struct square_words {
    uint32_t v[SQUARE_WORDS];
} square_words;

RF_DEVICE uint32_t square_lane(void) { return rf_tid() % MATRIX_LANES; }

/* Of each lane's own piece.  gfx11 wants the pieces of both lanes of a row in both of them. */
RF_DEVICE square_words square_words_of(rf_u4 own) {
    square_words w;
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
#if defined(__GFX11__)
        const uint32_t other = (uint32_t)__builtin_amdgcn_permlanex16(
            (int)own.v[i], (int)own.v[i], 0x76543210, (int)0xfedcba98, true, false);
        const int is_second = square_lane() >= 16;
        w.v[i] = is_second ? other : own.v[i];
        w.v[4 + i] = is_second ? own.v[i] : other;
#else
        w.v[i] = own.v[i];
#endif
    }
    return w;
}

/* SQUARE_COLUMNS columns onto c; form is a constant. */
RF_DEVICE void square_add(matrix_floats *c, const square_words *w, const square_words *x,
                          uint32_t form) {
    RF_UNROLL
    for (uint32_t i = 0; i < SQUARE_STEPS; i++)
        *c = matrix_multiply_halves(*c, w->v + i * MATRIX_HALF_WORDS, x->v + i * MATRIX_HALF_WORDS,
                                    form);
}

/* Outputs of 16n weight rows: with is_glu each sixteen are eight of the gate and eight of the up matrix. */
RF_DEVICE uint32_t square_outputs(const rf_gpu_matmul_args *a, uint32_t n) {
    return a->is_glu ? 8 * n : 16 * n;
}

/* Where weight row number r of a tile of so many outputs begins; behind the last one it is the last. */
RF_DEVICE const uint8_t *square_weights(const rf_gpu_matmul_args *a, const mm_share *s,
                                        uint32_t n_outputs, uint32_t r) {
    const rf_gpu_weight *w = &s->p.w;
    const uint32_t own = a->is_glu ? r / 16 * 8 + r % 8 : r;
    const uint32_t row = rf_min_u32(s->tile * n_outputs + own, w->rows - 1);
    const void *lo = a->is_glu && r % 16 >= 8 ? a->part[1].w.lo : w->lo;
    return (const uint8_t *)lo + ((uint64_t)s->plane * w->rows + row) * (2ull * w->cols);
}

/* And activation row number i of the share. */
RF_DEVICE const uint8_t *square_activations(const rf_gpu_matmul_args *a, const mm_share *s,
                                            uint32_t i) {
    const uint64_t row = x_row_of(a, dst_row_of(a, s, i));
    return (const uint8_t *)a->halves.x + row * (2ull * a->halves.stride);
}

/* Sixteen bytes at a column of a row. */
RF_DEVICE rf_u4 square_read(const uint8_t *row, uint32_t column) {
    return *(const rf_u4 *)(const void *)(row + 2 * column);
}

/* A wave's outputs of n (a power of two) squares beside each other: output row first and those that follow by
 * activation rows from i on.  out: 256 n floats of its own, through which they come in order. */
RF_DEVICE void square_put(float *out, const rf_gpu_matmul_args *a, const mm_share *s,
                          uint32_t first, uint32_t i, const matrix_floats *c, uint32_t n,
                          uint32_t form) {
    const uint32_t lane = square_lane(), stride = 16 * n, n_outputs = square_outputs(a, n);
    RF_UNROLL
    for (uint32_t m = 0; m < n; m++) {
        RF_UNROLL
        for (uint32_t e = 0; e < MATRIX_OUT; e++)
            out[(lane / 16 * MATRIX_OUT + e) * stride + 16 * m + lane % 16] = c[m][e];
    }
    rf_warp_sync();
    const uint32_t n_rows = i < s->n ? rf_min_u32(s->n - i, 16) : 0;
    RF_NO_UNROLL
    for (uint32_t k = lane; k < n_rows * stride; k += MATRIX_LANES) {
        const uint32_t t = k / stride, r = k % stride;
        const uint32_t dst_row = dst_row_of(a, s, i + t);
        const uint32_t at = t * stride + (a->is_glu ? r / 8 * 16 + r % 8 : r);
        if (r >= n_outputs || first + r >= s->p.w.rows) continue;
        const float up = form == RF_GPU_F16 ? a->halves.scale[x_row_of(a, dst_row)] : 1.0f;
        float v = out[at], gate = 0.0f;
        if (form == RF_GPU_F16) v *= up;
        if (a->is_glu) {
            gate = v;
            v = form == RF_GPU_F16 ? out[at + 8] * up : out[at + 8];
        }
        put_output(a, s, dst_row, first + r, gate, v);
    }
    rf_warp_sync();
}
#endif
