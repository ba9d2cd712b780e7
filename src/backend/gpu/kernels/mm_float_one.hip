/* mm_float_one.hip - products of 16-bit float weights with one activation row, bound by reading the
 * weights; eight threads, two canonical lanes each, for each of up to sixteen weight rows.
 *
 * Weights and activations pass through shared memory in stretches of columns, weights all but one of them on their
 * way, the first before the kernel in front has ended.  On AMD a row that is yet to be RMS-normed is so by each block, a
 * stretch at a time.  A block may have several tiles of rows, one behind the other without a pause. */
#include "backend/gpu/kernels/mm.h"
#include "backend/gpu/kernels/norm.h"
#include "backend/gpu/tile.h"

/* Only NVIDIA's copies go on by themselves; elsewhere what is on its way is in registers, and more blocks find room
 * side by side. */
#if defined(RF_NVIDIA)
enum { F1_STEP = RF_F1_NVIDIA_COLUMNS, F1_STAGES = RF_F1_NVIDIA_STAGES, F1_NORMS = 0 };
#else
enum { F1_STEP = 256, F1_STAGES = 2, F1_NORMS = 1 };
#endif

enum {
    F1_ROWS = RF_F1_ROWS,
    F1_STRIDE = 2 * F1_STEP + RF_F1_PAD,           /* bytes of a row there */
    F1_AT_ONCE = RF_BLOCK_float_one * 8 / F1_STEP, /* rows that all threads copy a piece of */
};

typedef struct f1_shared {
    rf_u4 w[F1_STAGES][F1_ROWS * F1_STRIDE / 16], x[F1_STAGES][F1_STEP / 4];
    float lanes[F1_ROWS * 17];
} f1_shared;
#if !defined(RF_NVIDIA) /* whose blocks norm nothing */
_Static_assert(sizeof(((f1_shared *)0)->x) >= 16 * NORM_PADDED * sizeof(float),
               "the norm's lanes, before there are activations");
#endif

/* Weight rows of a tile: a constant where it is never another. */
RF_DEVICE uint32_t f1_rows(const rf_gpu_matmul_args *a) {
#if defined(RF_AMD)
    (void)a;
    return F1_ROWS;
#else
    return a->tile_rows;
#endif
}

/* A stretch of columns: whose rows, with is_glu of the gate or of the up matrix, and the first column. */
typedef struct f1_stretch {
    mm_share share;
    uint32_t tile, pass, column;
} f1_stretch;

/* The one behind it; tile n_tiles or more: none. */
RF_DEVICE void f1_advance(f1_stretch *s, const rf_gpu_matmul_args *a, uint32_t n_tiles) {
    s->column += F1_STEP;
    if (s->column < s->share.p.w.cols) return;
    s->column = 0;
    if (++s->pass <= a->is_glu) return;
    s->pass = 0;
    s->tile += a->n_blocks ? a->n_blocks : n_tiles;
    if (s->tile < n_tiles) s->share = share_at(a, f1_rows(a), 1, s->tile, rf_bid_z());
}

/* Its weights on their way, which are there behind f1_keep, on NVIDIA when the copies are; rows behind the last are it. */
typedef struct f1_pieces {
    rf_u4 v[F1_ROWS / F1_AT_ONCE];
} f1_pieces;

RF_DEVICE void f1_fetch(f1_pieces *p, rf_u4 *to, const rf_gpu_matmul_args *a, const f1_stretch *s) {
    const rf_gpu_weight *m = &s->share.p.w;
    const uint8_t *w = (const uint8_t *)(s->pass ? a->part[1].w.lo : m->lo);
    const uint32_t n = rf_min_u32(m->cols - s->column, F1_STEP) / 8,
                   piece = rf_tid() % (F1_STEP / 8);
    w += ((uint64_t)s->share.plane * m->rows * m->cols + s->column + 8 * rf_min_u32(piece, n - 1)) *
         2;
    RF_UNROLL
    for (uint32_t i = 0; i < F1_ROWS / F1_AT_ONCE; i++) {
        const uint32_t r = rf_tid() / (F1_STEP / 8) + F1_AT_ONCE * i;
        const uint64_t row = rf_min_u32(s->share.tile * f1_rows(a) + r, m->rows - 1);
        const uint8_t *from = w + row * (2 * m->cols);
#if defined(RF_NVIDIA)
        (void)p;
        if (piece >= n || r >= f1_rows(a)) return;
        rf_copy_16(to + r * (F1_STRIDE / 16) + piece, from);
#else
        (void)to;
        RF_UNROLL
        for (uint32_t k = 0; k < 4; k++) /* so that they stay in registers */
            p->v[i].v[k] = ((const rf_u4 *)(const void *)from)->v[k];
#endif
    }
}
RF_DEVICE void f1_keep(rf_u4 *to, const f1_pieces *p) {
#if defined(RF_NVIDIA)
    (void)to, (void)p;
#else
    RF_UNROLL
    for (uint32_t i = 0; i < F1_ROWS / F1_AT_ONCE; i++)
        to[(rf_tid() / (F1_STEP / 8) + F1_AT_ONCE * i) * (F1_STRIDE / 16) +
           rf_tid() % (F1_STEP / 8)] = p->v[i];
#endif
}

/* The activation row, and what makes it of what lies in memory; w: the norm's weights, or NULL. */
typedef struct f1_row {
    const float *x, *w;
    float factor;
    uint32_t cols;
} f1_row;

/* Lanes: room for the norm's. */
RF_DEVICE f1_row f1_row_of(const rf_gpu_matmul_args *a, const mm_share *s, float *lanes) {
    const uint32_t cols = s->p.w.cols, is_normed = F1_NORMS && a->norm.n;
    const float *x = is_normed ? a->norm.x : a->x;
    f1_row r = {x + (uint64_t)x_row_of(a, dst_row_of(a, s, 0)) * cols, is_normed ? a->norm.w : 0,
                1.0f, cols};
    if (is_normed) r.factor = norm_factor_by_128(lanes, &a->norm, r.x);
    return r;
}

/* A thread's four of the activations of a stretch, and the norm's weights for them, on their way; NVIDIA's copies of these go
 * on by themselves, too. */
typedef struct f1_four {
    rf_f4 x, w;
} f1_four;

RF_DEVICE void f1_read_x(f1_four *four, const f1_row *r, uint32_t first) {
    const uint32_t at = first + 4 * rf_tid();
    if (!F1_NORMS || rf_tid() >= rf_min_u32(r->cols - first, F1_STEP) / 4) return;
    four->x = *(const rf_f4 *)(const void *)(r->x + at);
    if (r->w) four->w = *(const rf_f4 *)(const void *)(r->w + at);
}

/* From column first on. */
RF_DEVICE void f1_put_x(rf_u4 *to, const f1_four *four, const f1_row *r, uint32_t first) {
    rf_f4 v;
    if (rf_tid() >= rf_min_u32(r->cols - first, F1_STEP) / 4) return;
    if (!F1_NORMS) {
        rf_copy_16(to + rf_tid(), r->x + first + 4 * rf_tid());
        return;
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        v.v[i] = four->x.v[i] * r->factor;
        if (r->w) v.v[i] = v.v[i] * four->w.v[i];
    }
    *(rf_f4 *)(void *)(to + rf_tid()) = v;
}

RF_DEVICE float f1_half(uint32_t word, int i, uint32_t form) {
    if (form == RF_GPU_F16) return rf_f16_at((uint16_t)(word >> 16 * i));
    return rf_float_of(i ? word & 0xffff0000u : word << 16);
}

RF_DEVICE void f1_pair(float s[2], uint32_t w, rf_f2 x, uint32_t form) {
    s[0] = rf_fma(f1_half(w, 0, form), x.v[0], s[0]);
    s[1] = rf_fma(f1_half(w, 1, form), x.v[1], s[1]);
}

/* This thread's two lanes over n columns. */
RF_DEVICE void f1_add(float s[2], const rf_u4 *stage, const rf_u4 *x, uint32_t n, uint32_t form) {
    const uint32_t row = rf_tid() / 8, pair = rf_tid() % 8;
    const uint32_t *w = (const uint32_t *)(const void *)stage + row * (F1_STRIDE / 4) + pair;
    const rf_f2 *at = (const rf_f2 *)(const void *)x + pair;
    if (n == F1_STEP) { /* all loads ahead */
        RF_UNROLL
        for (uint32_t j = 0; j < F1_STEP / 16; j++)
            f1_pair(s, w[8 * j], at[8 * j], form);
        return;
    }
    for (uint32_t j = 0; j < n / 16; j++)
        f1_pair(s, w[8 * j], at[8 * j], form);
    if (n % 16 == 0) return; /* else eight more, continued with zeros */
    const rf_f2 zero = {{0.0f, 0.0f}};
    f1_pair(s, pair < 4 ? w[n / 16 * 8] : 0, pair < 4 ? at[n / 16 * 8] : zero, form);
}

/* The sum of row number tid in the first threads. */
RF_DEVICE float f1_tree(f1_shared *sh, const float s[2]) {
    float *to = sh->lanes + rf_tid() / 8 * 17 + rf_tid() % 8 * 2;
    rf_sync();
    to[0] = s[0];
    to[1] = s[1];
    rf_sync();
    return rf_tree16(sh->lanes + rf_tid() % F1_ROWS * 17);
}

RF_DEVICE void f1_run(f1_shared *sh, const rf_gpu_matmul_args *a, uint32_t form) {
    if (a->mode == RF_GPU_MM_EXPERTS) rf_await_before(); /* the route */
    const uint32_t n_tiles = tiles_in(a, f1_rows(a));
    f1_stretch at = {share_of(a, f1_rows(a), 1), rf_bid_x(), 0, 0}, next = at;
    f1_pieces pieces[F1_STAGES - 1];
    if (at.share.n == 0) return;
    RF_UNROLL
    for (uint32_t i = 0; i < F1_STAGES - 1; i++) {
        if (next.tile < n_tiles) f1_fetch(&pieces[i], sh->w[i], a, &next);
        rf_copy_end();
        f1_advance(&next, a, n_tiles);
    }
    rf_await_before();
    const uint32_t dst_row = dst_row_of(a, &at.share, 0), cols = at.share.p.w.cols;
    const f1_row row = f1_row_of(a, &at.share, (float *)(void *)sh->x);
    f1_four first[F1_STAGES - 1], ahead;
    uint32_t column = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < F1_STAGES - 1; i++) {
        f1_read_x(&first[i], &row, column);
        column = column + F1_STEP < cols ? column + F1_STEP : 0;
    }
    f1_read_x(&ahead, &row, column);
    column = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < F1_STAGES - 1; i++) {
        f1_keep(sh->w[i], &pieces[i]);
        f1_put_x(sh->x[i], &first[i], &row, column);
        column = column + F1_STEP < cols ? column + F1_STEP : 0;
    }
    rf_copy_end();
    rf_copy_wait();
    float s[2] = {0.0f, 0.0f}, gate = 0.0f;
    for (uint32_t now = 0; at.tile < n_tiles; now = now + 1 == F1_STAGES ? 0 : now + 1) {
        const uint32_t done = now ? now - 1 : F1_STAGES - 1;
        const int goes_on = next.tile < n_tiles;
        rf_copy_wait_but(F1_STAGES - 2);
        rf_sync();
        if (goes_on) {
            f1_fetch(&pieces[0], sh->w[done], a, &next);
            f1_put_x(sh->x[done], &ahead, &row, next.column);
            f1_advance(&next, a, n_tiles);
            f1_read_x(&ahead, &row, next.column);
        }
        rf_copy_end();
        f1_add(s, sh->w[now], sh->x[now], rf_min_u32(cols - at.column, F1_STEP), form);
        if (goes_on) f1_keep(sh->w[done], &pieces[0]);
        if (at.column + F1_STEP >= cols) {
            const uint32_t r = at.share.tile * f1_rows(a) + rf_tid();
            const float v = f1_tree(sh, s);
            if (at.pass == a->is_glu && rf_tid() < f1_rows(a) && r < at.share.p.w.rows)
                put_output(a, &at.share, dst_row, r, gate, v);
            gate = v;
            s[0] = s[1] = 0.0f;
        }
        f1_advance(&at, a, n_tiles);
    }
}

RF_KERNEL_EARLY(float_one, rf_gpu_matmul_args, 2) {
#if defined(RF_NVIDIA)
    f1_shared &sh = *(f1_shared *)(void *)rf_dynamic_shared;
#else
    RF_SHARED f1_shared sh;
#endif
    if (a.part[0].w.form == RF_GPU_F16)
        f1_run(&sh, &a, RF_GPU_F16);
    else
        f1_run(&sh, &a, RF_GPU_BF16);
}
