/* half_wave.hip - products of 16-bit floats with up to 64 activation rows on AMD's matrix units, by half.h's
 * rule: bound by reading the weights.
 *
 * A wave has 16 weight rows and all of the activation rows, 16, 32 or 64, and passes over the columns by
 * itself.  What it multiplies comes straight into registers, a ring of slots: a slot is filled again as soon
 * as it is multiplied, so that all others are on their way meanwhile.  (More rows: half_tile.hip.)
 *
 * One row each block of half_one norms, if it is yet to be normed, and rounds for itself, in shared memory, while the
 * first weights are on their way; there it is all sixteen activation rows of a square. */
#include "backend/gpu/kernels/half_square.h"

#if defined(RF_MATRIX)
enum {
    WAVE_COUNT = (int)RF_BLOCK_half_wave_16 / (int)MATRIX_LANES, /* of a block */
    WAVE_COUNT_ONE = (int)RF_BLOCK_half_one / (int)MATRIX_LANES,
    WAVE_MOST_SQUARES = 4,
    WAVE_SLOTS_16 = 16, /* of the ring, as many as registers are there for */
    WAVE_SLOTS_32 = 8,
    WAVE_SLOTS_64 = (int)MATRIX_LANES == 64 ? 8 : 4,
};

/* form, n and n_slots are constants: n squares of activation rows; 0: of one row, own, in shared memory. */
typedef struct wave_work {
    const uint8_t *w, *x[WAVE_MOST_SQUARES]; /* the lane's rows */
    const rf_u4 *own;
    uint32_t first, cols; /* the first column of the lane's piece */
    uint32_t form, n, n_slots;
} wave_work;

typedef struct wave_ring {
    rf_u4 w[WAVE_SLOTS_16], x[WAVE_MOST_SQUARES][WAVE_SLOTS_16];
} wave_ring;

/* What a turn of the ring brings of the next one: of WAVE_INSIDE, zeros behind the last column of the weights, which
 * activations go on with to the end of a turn. */
enum { WAVE_NOTHING, WAVE_ALL, WAVE_INSIDE };

/* A slot of the turn from a column on; what is a constant. */
RF_DEVICE void wave_fill(wave_ring *r, const wave_work *k, uint32_t slot, uint32_t column,
                         int what) {
    const uint32_t at = k->first + column + slot * SQUARE_COLUMNS;
    const int is_inside = what == WAVE_ALL || at < k->cols;
    if (k->n > 0) {
        r->w[slot] = square_read(is_inside ? k->w : k->x[0], at);
    } else {
        r->w[slot] = square_read(k->w, is_inside ? at : 0);
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            r->w[slot].v[i] = is_inside ? r->w[slot].v[i] : 0;
    }
    RF_UNROLL
    for (uint32_t j = 0; j < k->n; j++)
        r->x[j][slot] = square_read(k->x[j], at);
}

/* A lane's words of the row in shared memory, SQUARE_COLUMNS from a column on. */
RF_DEVICE square_words wave_own(const rf_u4 *own, uint32_t column) {
    const rf_u4 *from = own + column / 8;
    square_words x;
    RF_UNROLL
    for (uint32_t i = 0; i < SQUARE_WORDS; i++)
        x.v[i] = from[square_lane() / 16 % MATRIX_PARTS + i / 4].v[i % 4];
    return x;
}

/* A turn of the ring, from a column on; brings: as above, of the next. */
RF_DEVICE void wave_turn(matrix_floats *c, wave_ring *r, const wave_work *k, uint32_t column,
                         int brings) {
    RF_UNROLL
    for (uint32_t i = 0; i < k->n_slots; i++) {
        const square_words w = square_words_of(r->w[i]);
        if (k->n == 0) {
            const square_words x = wave_own(k->own, column + i * SQUARE_COLUMNS);
            square_add(&c[0], &w, &x, k->form);
        }
        RF_UNROLL
        for (uint32_t j = 0; j < k->n; j++) {
            const square_words x = square_words_of(r->x[j][i]);
            square_add(&c[j], &w, &x, k->form);
        }
        if (brings != WAVE_NOTHING)
            wave_fill(r, k, i, column + k->n_slots * SQUARE_COLUMNS, brings);
        rf_in_turn();
    }
}

RF_DEVICE void wave_begin(wave_ring *r, const wave_work *k) {
    RF_UNROLL
    for (uint32_t i = 0; i < k->n_slots; i++) {
        wave_fill(r, k, i, 0, WAVE_INSIDE);
        rf_in_turn();
    }
}

RF_DEVICE void wave_multiply(matrix_floats *c, wave_ring *r, const wave_work *k) {
    const uint32_t step = k->n_slots * SQUARE_COLUMNS;
    uint32_t column = 0;
    RF_NO_UNROLL
    for (; column + 2 * step <= k->cols; column += step)
        wave_turn(c, r, k, column, WAVE_ALL);
    if (column + step < k->cols) {
        wave_turn(c, r, k, column, WAVE_INSIDE);
        column += step;
    }
    wave_turn(c, r, k, column, WAVE_NOTHING);
}

RF_DEVICE void wave_run(float *shared, const rf_gpu_matmul_args *a, uint32_t form, uint32_t n) {
    const uint32_t n_outputs = square_outputs(a, WAVE_COUNT), lane = square_lane();
    const uint32_t wave = matrix_wave();
    const mm_share s = share_of(a, n_outputs, 16 * n);
    const uint32_t first = s.tile * n_outputs + square_outputs(a, wave);
    matrix_floats c[WAVE_MOST_SQUARES];
    wave_work k;
    wave_ring r;
    if (s.n == 0 || first >= s.p.w.rows) return;
    k.w = square_weights(a, &s, n_outputs, 16 * wave + lane % 16);
    k.first = lane / 16 * 8;
    k.cols = s.p.w.cols;
    k.form = form;
    k.n = n;
    k.n_slots = n == 1 ? WAVE_SLOTS_16 : n == 2 ? WAVE_SLOTS_32 : WAVE_SLOTS_64;
    RF_UNROLL
    for (uint32_t j = 0; j < n; j++) {
        k.x[j] = square_activations(a, &s, 16 * j + matrix_x_row(lane));
        c[j] = 0.0f;
    }
    wave_begin(&r, &k);
    wave_multiply(c, &r, &k);
    RF_UNROLL
    for (uint32_t j = 0; j < n; j++)
        square_put(shared + 256 * wave, a, &s, first, 16 * j, &c[j], 1, form);
}

#define WAVE_KERNEL(rows)                                   \
    RF_KERNEL(half_wave_##rows, rf_gpu_matmul_args) {       \
        RF_SHARED float shared[256 * WAVE_COUNT];           \
        if (a.part[0].w.form == RF_GPU_F16)                 \
            wave_run(shared, &a, RF_GPU_F16, (rows) / 16);  \
        else                                                \
            wave_run(shared, &a, RF_GPU_BF16, (rows) / 16); \
    }
WAVE_KERNEL(16)
WAVE_KERNEL(32)
WAVE_KERNEL(64)

/* One row -----------------------------------------------------------------------------------------*/

typedef struct wave_shared {
    rf_u4 row[RF_HALF_WAVE_COLS / 8];
    half_shared made;
} wave_shared;
_Static_assert(sizeof(wave_shared) <= 32 << 10, "two of a compute unit");

/* Sixteen weight rows' outputs, output row first and those that follow: each lane below sixteen has one of them. */
RF_DEVICE void wave_put(const rf_gpu_matmul_args *a, const mm_share *s, uint32_t first, float v,
                        float scale, uint32_t form) {
    const uint32_t lane = square_lane();
    if (form == RF_GPU_F16) v *= scale;
    const float up = rf_float_of(rf_lane_xor(rf_bits_of(v), 8));
    if (lane >= square_outputs(a, 1) || first + lane >= s->p.w.rows) return;
    put_output(a, s, dst_row_of(a, s, 0), first + lane, v, a->is_glu ? up : v);
}

RF_DEVICE void wave_run_one(wave_shared *sh, const rf_gpu_matmul_args *a, uint32_t form) {
    const uint32_t n_outputs = square_outputs(a, WAVE_COUNT_ONE), lane = square_lane();
    const uint32_t wave = matrix_wave(), cols = a->part[0].w.cols;
    const mm_share s = share_of(a, n_outputs, 1);
    if (s.n == 0) return;
    const uint32_t first = s.tile * n_outputs + square_outputs(a, wave);
    const rf_gpu_halves own = {(uint16_t *)(void *)sh->row, 0, rf_half_wave_stride(cols), 0};
    matrix_floats c = 0.0f;
    wave_work k;
    wave_ring r;
    k.w = square_weights(a, &s, n_outputs, 16 * wave + lane % 16);
    k.own = sh->row;
    k.first = lane / 16 * 8;
    k.cols = cols;
    k.form = form;
    k.n = 0;
    k.n_slots = WAVE_SLOTS_16;
    wave_begin(&r, &k);
    const float *x = a->norm.n ? a->norm.x : a->x;
    x += (uint64_t)x_row_of(a, dst_row_of(a, &s, 0)) * cols;
    const half_weights w = half_expect(&a->norm, cols);
    const float scale =
        half_make(&own, 0, &sh->made, HALF_MOST_PIECES, &a->norm, &w, x, cols, form);
    rf_sync();
    if (first >= s.p.w.rows) return;
    wave_multiply(&c, &r, &k);
    wave_put(a, &s, first, c[0], scale, form);
}

RF_KERNEL(half_one, rf_gpu_matmul_args) {
    RF_SHARED wave_shared shared;
    wave_run_one(&shared, &a, RF_GPU_F16);
}
RF_KERNEL_KIND(half_one, 1, rf_gpu_matmul_args) {
    RF_SHARED wave_shared shared;
    wave_run_one(&shared, &a, RF_GPU_BF16);
}
#endif
