/* mm_half.hip - products of 16-bit floats with any number of activation rows on NVIDIA's matrix units,
 * by half.h's rule, and the rounding of activation rows for them.
 *
 * A block has 16 to 128 weight rows by 8, 16, 32 or 64 activation rows, a warp sixteen of the weight
 * rows.  Weights and activations pass through a ring of stages in shared memory, all but one of which are
 * on their way, the first weights before the kernel in front has ended.  Blocks may stay and take tiles
 * of weight rows in turns, without a pause between them.  (One row: half_one.hip.) */
#include "backend/gpu/kernels/half_row.h"

#if !defined(RF_AMD) || defined(RF_MATRIX)
/* One row per block. */
RF_KERNEL_EARLY(half_rows, rf_gpu_halves_args, 4) {
    RF_SHARED half_shared made;
    const uint32_t row = rf_bid_x();
    const float *x = (a.norm.n ? a.norm.x : a.x) + (uint64_t)row * a.cols;
    const half_weights w = half_expect(&a.norm, a.cols);
    rf_await_before();
    const float up = half_make(&a.to, row, &made, HALF_PIECES, &a.norm, &w, x, a.cols, a.form);
    if (a.form == RF_GPU_F16 && rf_tid() == 0) a.to.scale[row] = up;
}
#endif

#if !defined(RF_AMD)
enum {
    HALF_THREADS = 256,
    HALF_COPIES = 4, /* of a thread, one behind the other without a question, */
    HALF_BATCH = 2,  /* steps whose operands are read together */
};
#if !defined(RF_NVIDIA)
_Static_assert((int)RF_BLOCK_half_8 == (int)HALF_THREADS, "as half.h has it");
_Static_assert((int)RF_BLOCK_half_rows == 256, "as half_row.h has it");
#endif

/* Stages -----------------------------------------------------------------------------------------*/

/* What a block multiplies; form and n_x are constants. */
typedef struct half_work {
    const rf_gpu_matmul_args *a;
    uint32_t form, n_x;  /* n_x: activation rows in a stage */
    uint32_t rows, step; /* of a stage: weight rows, columns */
    uint32_t bytes, n_tiles, cols, n_stages;
    const uint32_t *x_row; /* the number of each activation row */
} half_work;

/* A stage: of which tile, from which column on. */
typedef struct half_stage {
    uint32_t tile, column;
} half_stage;

RF_DEVICE uint32_t half_per_tile(const half_work *k) {
    return k->a->is_glu ? k->rows / 2 : k->rows;
}

RF_DEVICE mm_share half_share(const half_work *k, uint32_t tile) {
    return share_at(k->a, half_per_tile(k), k->n_x, tile, rf_bid_z());
}

/* What a thread that brings has of each stage: a piece of sixteen bytes of every so many rows; where the tile
 * at hand lies. */
typedef struct half_copies {
    uint32_t first, apart, piece;
    const uint8_t *w[2]; /* its first row, with is_glu of the gate and of the up matrix */
    uint32_t last;       /* the last row that there is */
} half_copies;

/* Thread number tid of n, which is a multiple of 32. */
RF_DEVICE half_copies half_copies_of(const half_work *k, uint32_t tid, uint32_t n) {
    half_copies c;
    const uint32_t pieces = k->step / 8;
    c.piece = tid % pieces;
    c.first = tid / pieces;
    c.apart = n / pieces;
    c.w[0] = c.w[1] = 0;
    c.last = 0;
    return c;
}

RF_DEVICE void half_find(half_copies *c, const half_work *k, uint32_t tile) {
    const mm_share s = half_share(k, tile);
    const uint32_t row = s.tile * half_per_tile(k);
    const uint64_t at = ((uint64_t)s.plane * s.p.w.rows + row) * k->cols * 2 + 16 * c->piece;
    c->w[0] = (const uint8_t *)s.p.w.lo + at;
    c->w[1] = (const uint8_t *)k->a->part[1].w.lo + at;
    c->last = s.p.w.rows - 1 - row;
}

/* A stage's weights on their way, those behind the last row the last row's; behind the last column zeros. */
RF_DEVICE void half_fetch_w(uint8_t *stage, half_copies *c, const half_work *k, half_stage s) {
    const rf_u4 zeros = {{0, 0, 0, 0}};
    const uint32_t is_glu = k->a->is_glu, row_bytes = 2 * k->cols;
    if (s.column == 0) half_find(c, k, s.tile);
    const int is_inside = s.column + 8 * c->piece < k->cols;
    RF_NO_UNROLL
    for (uint32_t first = c->first; first < k->rows; first += HALF_COPIES * c->apart) {
        RF_UNROLL
        for (uint32_t j = 0; j < HALF_COPIES; j++) {
            const uint32_t r = first + j * c->apart, own = is_glu ? r / 16 * 8 + r % 8 : r;
            const uint8_t *from = is_glu && r % 16 >= 8 ? c->w[1] : c->w[0];
            uint8_t *at = stage + half_piece(r, c->piece, k->step);
            if (r >= k->rows) continue;
            if (is_inside)
                rf_copy_16(at,
                           from + (uint64_t)rf_min_u32(own, c->last) * row_bytes + 2 * s.column);
            else
                *(rf_u4 *)(void *)at = zeros;
        }
    }
}

/* Its activations, where each row begins in x_row. */
RF_DEVICE void half_fetch_x(uint8_t *stage, const half_copies *c, const half_work *k,
                            half_stage s) {
    const rf_gpu_halves *x = &k->a->halves;
    const uint32_t column = s.column + 8 * c->piece, stride = x->stride;
    if (column >= stride) return; /* a stage's columns from there on are not multiplied */
    RF_NO_UNROLL
    for (uint32_t first = c->first; first < k->n_x; first += HALF_COPIES * c->apart) {
        RF_UNROLL
        for (uint32_t j = 0; j < HALF_COPIES; j++) {
            const uint32_t r = first + j * c->apart;
            if (r >= k->n_x) continue;
            rf_copy_16(stage + half_piece(k->rows + r, c->piece, k->step),
                       x->x + ((uint64_t)k->x_row[r] * stride + column));
        }
    }
}

RF_DEVICE void half_advance(half_stage *s, const half_work *k) {
    s->column += k->step;
    if (s->column < k->cols) return;
    s->column = 0;
    s->tile += k->a->n_blocks ? k->a->n_blocks : k->n_tiles;
}

/* Multiplying ------------------------------------------------------------------------------------*/

/* A warp's part of a stage: sixteen weight rows from m on, n_x (a constant) activation rows from n on. */
typedef struct half_part {
    const uint8_t *stage;
    uint32_t m, n, n_x;
} half_part;

/* Where a thread's rows lie in 64 columns of a stage, and which of eight pieces its first one is there; the
 * next step's is that number xor 2. */
typedef struct half_lane {
    half_at w, x;
    uint32_t w_piece, x_piece, x_apart;
} half_lane;

RF_DEVICE half_lane half_lane_of(const half_part *p, const half_work *k) {
    const uint32_t lane = rf_tid() % 32, w_row = p->m + lane % 16;
    const uint32_t x_row = k->rows + p->n + lane % 8 + (p->n_x > 8 ? lane / 16 * 8 : 0);
    half_lane l;
    l.w = half_at_of(p->stage + w_row * (2 * k->step));
    l.w_piece = (lane / 16) ^ (w_row & 7);
    l.x = half_at_of(p->stage + x_row * (2 * k->step));
    l.x_piece = (lane / 8 % 2) ^ (x_row & 7);
    l.x_apart = 16 * 2 * k->step;
    return l;
}

/* Operands of some steps, which are read before the first is used. */
typedef struct half_operands {
    uint32_t w[HALF_BATCH][4], x[HALF_BATCH][2][4];
} half_operands;

/* Steps first .. first + n - 1 of the four in 64 columns. */
RF_DEVICE void half_read_batch(half_operands *o, const half_lane *l, uint32_t n_x, uint32_t first,
                               uint32_t n) {
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        half_load(o->w[i], l->w + 16 * (l->w_piece ^ 2 * (first + i)));
        RF_UNROLL
        for (uint32_t j = 0; j < n_x; j += 16)
            half_load(o->x[i][j / 16],
                      l->x + (16 * (l->x_piece ^ 2 * (first + i)) + j / 16 * l->x_apart));
    }
}

RF_DEVICE void half_add_batch(float *c, const half_operands *o, const half_work *k, uint32_t n_x,
                              uint32_t n) {
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        RF_UNROLL
        for (uint32_t j = 0; j < n_x / 8; j++)
            half_multiply(c + 4 * j, o->w[i], o->x[i][j / 2] + j % 2 * 2, k->form);
    }
}

/* The stage's products onto c [n_x / 8][4], so many columns, a multiple of 64. */
RF_DEVICE void half_add(float *c, const half_part *p, const half_work *k, uint32_t columns) {
    const uint32_t n = p->n_x > 16 ? HALF_BATCH / 2 : HALF_BATCH;
    half_lane l = half_lane_of(p, k);
    half_operands o[2];
    half_read_batch(&o[0], &l, p->n_x, 0, n);
    RF_NO_UNROLL
    for (uint32_t left = columns / 64; left > 0; left--) {
        RF_UNROLL
        for (uint32_t i = 0; i < 4 / n; i++) {
            if (i + 1 < 4 / n) {
                half_read_batch(&o[(i + 1) % 2], &l, p->n_x, (i + 1) * n, n);
            } else if (left > 1) {
                l.w += 128;
                l.x += 128;
                half_read_batch(&o[(i + 1) % 2], &l, p->n_x, 0, n);
            }
            half_add_batch(c, &o[i % 2], k, p->n_x, n);
        }
    }
}

/* The outputs of a warp's part. */
RF_DEVICE void half_put(const half_part *p, const half_work *k, uint32_t tile, const float *c) {
    const rf_gpu_matmul_args *a = k->a;
    const mm_share s = half_share(k, tile);
    const uint32_t g = rf_tid() % 32 / 4, t = rf_tid() % 4;
    const uint32_t r = s.tile * half_per_tile(k) + (a->is_glu ? p->m / 2 : p->m) + g;
    RF_UNROLL
    for (uint32_t j = 0; j < p->n_x / 8; j++) {
        RF_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t col = p->n + 8 * j + 2 * t + i;
            if (col >= s.n) continue;
            const uint32_t dst_row = dst_row_of(a, &s, col);
            float low = c[4 * j + i], high = c[4 * j + 2 + i];
            if (k->form == RF_GPU_F16) {
                const float up = a->halves.scale[x_row_of(a, dst_row)];
                low *= up;
                high *= up;
            }
            if (a->is_glu) {
                if (r < s.p.w.rows) put_output(a, &s, dst_row, r, low, high);
                continue;
            }
            if (r < s.p.w.rows) put_output(a, &s, dst_row, r, 0.0f, low);
            if (r + 8 < s.p.w.rows) put_output(a, &s, dst_row, r + 8, 0.0f, high);
        }
    }
}

/* All stages of a block, the first of which are on their way: next is the stage behind them.  A warp has
 * n_x activation rows, across of them side by side.  Where half of the warps or fewer multiply, the others bring
 * the stages, else all of them, once they have multiplied. */
RF_DEVICE void half_multiply_all(const half_work *k, uint8_t *ring, half_stage next, uint32_t n_x,
                                 uint32_t across) {
    const uint32_t warp = rf_tid() / 32, m = warp / across * 16, n_multiply = k->rows / 16 * across;
    const uint32_t first = 2 * n_multiply > RF_HALF_WARPS ? 0 : 32 * n_multiply;
    const int multiplies = warp < n_multiply, brings = rf_tid() >= first;
    half_copies c = half_copies_of(k, rf_tid() - first, HALF_THREADS - first);
    half_part p = {0, rf_min_u32(m, k->rows - 16), warp % across * n_x, n_x};
    half_stage at = {rf_bid_x(), 0};
    float sum[RF_HALF_MOST_X / 2] = {0};
    if (brings && next.column > 0 && next.tile < k->n_tiles) half_find(&c, k, next.tile);
    for (uint32_t now = 0; at.tile < k->n_tiles; now = now + 1 == k->n_stages ? 0 : now + 1) {
        uint8_t *done = ring + (now ? now - 1 : k->n_stages - 1) * k->bytes;
        rf_copy_wait_but(k->n_stages - 2);
        rf_sync();
        p.stage = ring + now * k->bytes;
        if (multiplies || !rf_warp_may_skip())
            half_add(sum, &p, k, rf_min_u32(rf_half_stride(k->cols - at.column), k->step));
        if (brings && next.tile < k->n_tiles) {
            half_fetch_w(done, &c, k, next);
            half_fetch_x(done, &c, k, next);
        }
        if (next.tile < k->n_tiles) half_advance(&next, k);
        rf_copy_end();
        if (at.column + k->step >= k->cols) {
            if (multiplies) half_put(&p, k, at.tile, sum);
            RF_UNROLL
            for (uint32_t i = 0; i < n_x / 2; i++)
                sum[i] = 0.0f;
        }
        half_advance(&at, k);
    }
}

RF_DEVICE half_work half_work_of(const rf_gpu_matmul_args *a, uint32_t form, uint32_t n_x) {
    half_work k;
    k.a = a;
    k.form = form;
    k.n_x = n_x;
    k.rows = a->tile_rows;
    k.step = rf_half_step(k.rows, n_x);
    k.bytes = rf_half_stage_bytes(k.rows, n_x);
    k.n_tiles = tiles_in(a, half_per_tile(&k));
    k.cols = a->part[0].w.cols;
    k.n_stages = a->n_stages;
    k.x_row = 0;
    return k;
}

/* The first weights on their way; returns the stage behind them. */
RF_DEVICE half_stage half_begin(uint8_t *ring, const half_work *k) {
    half_copies c = half_copies_of(k, rf_tid(), HALF_THREADS);
    half_stage next = {rf_bid_x(), 0};
    for (uint32_t i = 0; i + 1 < k->n_stages; i++, half_advance(&next, k))
        if (next.tile < k->n_tiles) half_fetch_w(ring + i * k->bytes, &c, k, next);
    return next;
}

/* Several rows. */
RF_DEVICE void half_run(uint8_t *shared, const rf_gpu_matmul_args *a, uint32_t form, uint32_t n_x,
                        uint32_t across) {
    half_work k = half_work_of(a, form, n_x);
    uint32_t *x_row = (uint32_t *)(void *)shared;
    uint8_t *ring = shared + RF_HALF_HEAD;
    const half_copies c = half_copies_of(&k, rf_tid(), HALF_THREADS);
    if (a->mode == RF_GPU_MM_EXPERTS) rf_await_before(); /* the route */
    const mm_share share = half_share(&k, rf_bid_x());
    if (share.n == 0) return;
    const half_stage next = half_begin(ring, &k);
    half_stage next_x = {rf_bid_x(), 0};
    if (rf_tid() < n_x) x_row[rf_tid()] = x_row_of(a, dst_row_of(a, &share, rf_tid()));
    k.x_row = x_row;
    rf_await_before();
    rf_sync();
    for (uint32_t i = 0; i + 1 < k.n_stages; i++, half_advance(&next_x, &k)) {
        if (next_x.tile < k.n_tiles) half_fetch_x(ring + i * k.bytes, &c, &k, next_x);
        rf_copy_end(); /* with all weights so far, the first time */
    }
    half_multiply_all(&k, ring, next, n_x / across, across);
}

#define HALF_KERNEL(n, n_x, across)                                \
    RF_KERNEL_EARLY(half_##n, rf_gpu_matmul_args, 2) {             \
        half_run(rf_dynamic_shared, &a, RF_GPU_F16, n_x, across);  \
    }                                                              \
    RF_KERNEL_KIND_EARLY(half_##n, 1, rf_gpu_matmul_args, 2) {     \
        half_run(rf_dynamic_shared, &a, RF_GPU_BF16, n_x, across); \
    }
HALF_KERNEL(8, 8, 1)
HALF_KERNEL(16, 16, 1)
HALF_KERNEL(32, 32, 1)
HALF_KERNEL(64, 64, 2)

#endif
