/* half_wave.hip - products of 16-bit floats with up to 64 activation rows on AMD's matrix units, by half.h's
 * rule: bound by reading the weights.
 *
 * A wave has 16 weight rows and all of the activation rows, 16, 32 or 64, and passes over the columns by
 * itself.  What it multiplies comes straight into registers, a ring of slots: a slot is filled again as soon
 * as it is multiplied, so that all others are on their way meanwhile.  (More rows: half_tile.hip.) */
#include "backend/gpu/kernels/half_square.h"

#if defined(RF_MATRIX)
enum {
    WAVE_COUNT = (int)RF_BLOCK_half_wave_16 / (int)MATRIX_LANES, /* of a block */
    WAVE_MOST_SQUARES = 4,
    WAVE_SLOTS_16 = 16, /* of the ring, as many as registers are there for */
    WAVE_SLOTS_32 = 8,
    WAVE_SLOTS_64 = (int)MATRIX_LANES == 64 ? 8 : 4,
};

/* form, n and n_slots are constants: n squares of activation rows. */
typedef struct wave_work {
    const uint8_t *w, *x[WAVE_MOST_SQUARES]; /* the lane's rows */
    uint32_t first, cols;                    /* the first column of the lane's piece */
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
    r->w[slot] = square_read(is_inside ? k->w : k->x[0], at);
    RF_UNROLL
    for (uint32_t j = 0; j < k->n; j++)
        r->x[j][slot] = square_read(k->x[j], at);
}

/* A turn of the ring, from a column on; brings: as above, of the next. */
RF_DEVICE void wave_turn(matrix_floats *c, wave_ring *r, const wave_work *k, uint32_t column,
                         int brings) {
    RF_UNROLL
    for (uint32_t i = 0; i < k->n_slots; i++) {
        const square_words w = square_words_of(r->w[i]);
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

RF_DEVICE void wave_multiply(matrix_floats *c, const wave_work *k) {
    const uint32_t step = k->n_slots * SQUARE_COLUMNS;
    uint32_t column = 0;
    wave_ring r;
    RF_UNROLL
    for (uint32_t i = 0; i < k->n_slots; i++) {
        wave_fill(&r, k, i, 0, WAVE_INSIDE);
        rf_in_turn();
    }
    RF_NO_UNROLL
    for (; column + 2 * step <= k->cols; column += step)
        wave_turn(c, &r, k, column, WAVE_ALL);
    if (column + step < k->cols) {
        wave_turn(c, &r, k, column, WAVE_INSIDE);
        column += step;
    }
    wave_turn(c, &r, k, column, WAVE_NOTHING);
}

RF_DEVICE void wave_run(float *shared, const rf_gpu_matmul_args *a, uint32_t form, uint32_t n) {
    const uint32_t n_outputs = square_outputs(a, WAVE_COUNT), lane = square_lane();
    const uint32_t wave = matrix_wave();
    const mm_share s = share_of(a, n_outputs, 16 * n);
    const uint32_t first = s.tile * n_outputs + square_outputs(a, wave);
    matrix_floats c[WAVE_MOST_SQUARES];
    wave_work k;
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
    wave_multiply(c, &k);
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
#endif
