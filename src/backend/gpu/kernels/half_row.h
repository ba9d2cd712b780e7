/* half_row.h - an activation row rounded to sixteen bits by the 256 threads of a block, and normed before where
 * that is asked for: every product of half.h's rule has its rows from here. */
#pragma once
#include "backend/gpu/kernels/half.h"
#include "backend/gpu/kernels/mm.h"
#include "backend/gpu/kernels/norm.h"

#if !defined(RF_AMD) || defined(RF_MATRIX)
typedef struct half_shared {
    norm_shared norm;
    uint32_t most[8];
} half_shared;

/* Where column i of a row lies, in 16-bit numbers: row after row, or as half_ring.h has its stages. */
RF_DEVICE uint64_t half_place(const rf_gpu_halves *to, uint32_t row, uint32_t i) {
    if (!to->n_x) return (uint64_t)row * to->stride + i;
    const uint32_t own = row % to->n_x, panel = i / RF_HALF_PANEL;
    const uint64_t number = (uint64_t)(row / to->n_x) * (to->stride / RF_HALF_PANEL) + panel;
    return number * to->n_x * RF_HALF_PANEL +
           half_piece(own, i % RF_HALF_PANEL / 8, RF_HALF_PANEL) / 2 + i % 8;
}

/* The largest of the words of all threads, which every thread gets; shared: [8]. */
RF_DEVICE uint32_t half_most(uint32_t *shared, uint32_t v) {
    v = rf_warp_most(v);
    rf_sync();
    if (rf_tid() % 32 == 0) shared[rf_tid() / 32] = v;
    rf_sync();
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        v = rf_max_u32(v, shared[i]);
    return v;
}

/* Is a row's first piece asked for beside its lanes, and the norm's weights before?  On AMD, where nothing starts before
 * the kernel in front has ended, it only takes registers. */
#if defined(RF_AMD)
enum { HALF_ASKS = 0 };
#else
enum { HALF_ASKS = 1 };
#endif
/* So many pieces of a row that is not normed are on their way at once, of one among many and of one that all wait
 * for. */
enum { HALF_PIECES = HALF_ASKS ? 2 : 1, HALF_MOST_PIECES = HALF_ASKS ? 4 : 2 };

/* Rows of these products are whole pieces of sixteen bytes, of eight columns. */
RF_DEVICE void half_load_row(float v[NORM_OWN], const float *x, uint32_t first, uint32_t n) {
    norm_load_whole_fours(v, x, first, n, NORM_FOURS);
}

/* The norm's weights of the thread's own elements of the first piece: what does not depend on the kernel in
 * front. */
typedef struct half_weights {
    float v[NORM_OWN];
} half_weights;
RF_DEVICE half_weights half_expect(const rf_gpu_norm_args *norm, uint32_t n) {
    half_weights w = {{0.0f}};
    if (HALF_ASKS && norm->n && norm->w) half_load_row(w.v, norm->w, 0, n);
    return w;
}

RF_DEVICE void half_scale(float v[NORM_OWN], const rf_gpu_norm_args *norm, const float w[NORM_OWN],
                          float factor) {
    RF_UNROLL
    for (uint32_t i = 0; i < NORM_OWN; i++) {
        v[i] = v[i] * factor;
        if (norm->w) v[i] = v[i] * w[i];
    }
}

/* The thread's own elements of a piece of the row, normed. */
RF_DEVICE void half_read(float v[NORM_OWN], const rf_gpu_norm_args *norm, const float *x,
                         float factor, uint32_t first, uint32_t n) {
    float w[NORM_OWN] = {0.0f};
    half_load_row(v, x, first, n);
    if (norm->w) half_load_row(w, norm->w, first, n);
    half_scale(v, norm, w, factor);
}

/* The largest |x| of a thread's elements, as bits. */
RF_DEVICE uint32_t half_size(const float v[NORM_OWN]) {
    uint32_t size = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < NORM_OWN; i += 4) {
        const uint32_t of_four = quant_size(v + i);
        size = of_four > size ? of_four : size;
    }
    return size;
}

RF_DEVICE void half_write(const rf_gpu_halves *to, uint32_t row, const float v[NORM_OWN],
                          float down, uint32_t first, uint32_t form) {
    RF_UNROLL
    for (uint32_t i = 0; i < NORM_FOURS; i++) {
        const float *f = v + 4 * i;
        const rf_u2 both = {
            {half_two(f[0] * down, f[1] * down, form), half_two(f[2] * down, f[3] * down, form)}};
        const uint32_t at = norm_four(first, i, NORM_FOURS);
        if (at < to->stride) *(rf_u2 *)(void *)(to->x + half_place(to, row, at)) = both;
    }
}

/* half_make of a row that is normed; w: half_expect's. */
RF_DEVICE float half_make_normed(const rf_gpu_halves *to, uint32_t row, half_shared *sh,
                                 const rf_gpu_norm_args *norm, const half_weights *w,
                                 const float *x, uint32_t n, uint32_t form) {
    float v[NORM_OWN], next[NORM_OWN], down = 1.0f;
    float lane[NORM_OWN];
    norm_load_lane(lane, x, 0, n);
    if (HALF_ASKS) half_load_row(v, x, 0, n);
    const float factor = norm_factor(&sh->norm, lane, norm, x);
    if (HALF_ASKS)
        half_scale(v, norm, w->v, factor);
    else
        half_read(v, norm, x, factor, 0, n);
    if (form == RF_GPU_F16) {
        uint32_t size = half_size(v);
        for (uint32_t first = NORM_PIECE; first < n; first += NORM_PIECE) {
            half_read(next, norm, x, factor, first, n);
            const uint32_t of_piece = half_size(next);
            size = of_piece > size ? of_piece : size;
        }
        down = half_down(half_most(sh->most, size));
    }
    RF_NO_UNROLL
    for (uint32_t first = 0; first < n; first += NORM_PIECE) {
        if (first + NORM_PIECE < n) /* on its way meanwhile */
            half_read(next, norm, x, factor, first + NORM_PIECE, n);
        half_write(to, row, v, down, first, form);
        RF_UNROLL
        for (uint32_t i = 0; i < NORM_OWN; i++)
            v[i] = next[i];
    }
    return half_up(down);
}

RF_DEVICE void half_fetch(float v[][NORM_OWN], uint32_t n_pieces, const float *x, uint32_t first,
                          uint32_t n) {
    RF_UNROLL
    for (uint32_t i = 0; i < n_pieces; i++)
        half_load_row(v[i], x, first + i * NORM_PIECE, n);
}
/* half_make of a row that stays as it is. */
RF_DEVICE float half_make_plain(const rf_gpu_halves *to, uint32_t row, half_shared *sh,
                                uint32_t n_pieces, const float *x, uint32_t n, uint32_t form) {
    const uint32_t step = n_pieces * NORM_PIECE;
    float v[HALF_MOST_PIECES][NORM_OWN], down = 1.0f;
    half_fetch(v, n_pieces, x, 0, n);
    if (form == RF_GPU_F16) {
        uint32_t size = 0;
        RF_NO_UNROLL
        for (uint32_t first = 0;;) {
            RF_UNROLL
            for (uint32_t i = 0; i < n_pieces; i++)
                size = rf_max_u32(size, half_size(v[i]));
            first += step;
            if (first >= n) break;
            half_fetch(v, n_pieces, x, first, n);
        }
        down = half_down(half_most(sh->most, size));
        if (n > step) half_fetch(v, n_pieces, x, 0, n);
    }
    RF_NO_UNROLL
    for (uint32_t first = 0;;) {
        RF_UNROLL
        for (uint32_t i = 0; i < n_pieces; i++)
            half_write(to, row, v[i], down, first + i * NORM_PIECE, form);
        first += step;
        if (first >= n) break;
        half_fetch(v, n_pieces, x, first, n);
    }
    return half_up(down);
}

/* A row x of n columns, continued with zeros to the stride; returns what its outputs are multiplied with.
 * norm->n 0: it is not normed.  w: half_expect's.  n_pieces, a constant: so many pieces of a row that is not normed
 * are on their way at once. */
RF_DEVICE float half_make(const rf_gpu_halves *to, uint32_t row, half_shared *sh, uint32_t n_pieces,
                          const rf_gpu_norm_args *norm, const half_weights *w, const float *x,
                          uint32_t n, uint32_t form) {
    return norm->n ? half_make_normed(to, row, sh, norm, w, x, n, form)
                   : half_make_plain(to, row, sh, n_pieces, x, n, form);
}
#endif
