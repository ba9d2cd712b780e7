/* half_tile.hip - products of 16-bit floats with many activation rows on AMD's matrix units, by half.h's rule.
 *
 * A block has 128 weight rows by 128 activation rows and passes over the columns in stages of 32.  One is
 * multiplied from shared memory while the next two come into registers; then the first of these takes the
 * place of the stage before.  A wave has 64 weight rows by 64 activation rows, or 32 where a block has eight
 * waves. */
#include "backend/gpu/kernels/half_square.h"

#if defined(RF_MATRIX)
enum {
    HT_THREADS = RF_BLOCK_half_tile,
    HT_SIDE = RF_HALF_TILE_SIDE,
    HT_COLUMNS = 32, /* of a stage: four pieces of a row */
    HT_PIECES = HT_COLUMNS / 8,
    HT_SLOTS = HT_PIECES / (int)SQUARE_PIECES,
    HT_APART = HT_THREADS / HT_PIECES, /* rows of a thread's pieces */
    HT_OWN = HT_SIDE / HT_APART,       /* of either operand */
    HT_WAVES = HT_THREADS / (int)MATRIX_LANES,
    HT_ACROSS = HT_WAVES / 2, /* waves of the same weight rows */
    HT_M = HT_SIDE / 2 / 16,  /* squares of a wave */
    HT_N = HT_SIDE / HT_ACROSS / 16,
};

typedef struct ht_stage {
    rf_u4 w[HT_SIDE * HT_PIECES], x[HT_SIDE * HT_PIECES];
} ht_stage;
typedef union ht_shared {
    ht_stage stage[2];
    float out[HT_WAVES][256 * HT_M];
} ht_shared;

/* Pieces of eight neighbouring rows lie in all banks. */
RF_DEVICE uint32_t ht_place(uint32_t row, uint32_t piece) {
    return row * HT_PIECES + (piece ^ (row / 2 % HT_PIECES));
}

/* A thread's pieces of each stage. */
typedef struct ht_source {
    const uint8_t *w[HT_OWN], *x[HT_OWN];
    uint32_t column, cols;
} ht_source;
typedef struct ht_pieces {
    rf_u4 w[HT_OWN], x[HT_OWN];
} ht_pieces;

RF_DEVICE ht_source ht_source_of(const rf_gpu_matmul_args *a, const mm_share *s) {
    const uint32_t row = rf_tid() / HT_PIECES;
    ht_source f;
    RF_UNROLL
    for (uint32_t i = 0; i < HT_OWN; i++) {
        f.w[i] = square_weights(a, s, square_outputs(a, HT_SIDE / 16), row + i * HT_APART);
        f.x[i] = square_activations(a, s, row + i * HT_APART);
    }
    f.column = rf_tid() % HT_PIECES * 8;
    f.cols = s->p.w.cols;
    return f;
}

/* Of the stage from a column on; activations go on with zeros to its end, and so do weights. */
RF_DEVICE ht_pieces ht_fetch(const ht_source *f, uint32_t column) {
    const uint32_t at = f->column + column;
    ht_pieces p;
    RF_UNROLL
    for (uint32_t i = 0; i < HT_OWN; i++) {
        p.w[i] = square_read(at < f->cols ? f->w[i] : f->x[0], at);
        p.x[i] = square_read(f->x[i], at);
    }
    return p;
}

RF_DEVICE void ht_store(ht_stage *to, const ht_pieces *p) {
    const uint32_t row = rf_tid() / HT_PIECES, piece = rf_tid() % HT_PIECES;
    RF_UNROLL
    for (uint32_t i = 0; i < HT_OWN; i++) {
        to->w[ht_place(row + i * HT_APART, piece)] = p->w[i];
        to->x[ht_place(row + i * HT_APART, piece)] = p->x[i];
    }
}

/* A lane's words of slot number i of a row. */
RF_DEVICE square_words ht_words(const rf_u4 *of, uint32_t row, uint32_t i) {
    const uint32_t first = i * SQUARE_PIECES + square_lane() / 16 % MATRIX_PARTS;
    square_words w;
    RF_UNROLL
    for (uint32_t j = 0; j < SQUARE_WORDS; j += 4) {
        const rf_u4 piece = of[ht_place(row, first + j / 4)];
        RF_UNROLL
        for (uint32_t b = 0; b < 4; b++)
            w.v[j + b] = piece.v[b];
    }
    return w;
}

/* A stage onto the wave's squares; m, n: its first rows. */
RF_DEVICE void ht_multiply(matrix_floats c[HT_N][HT_M], const ht_stage *s, uint32_t m, uint32_t n,
                           uint32_t form) {
    const uint32_t w_row = m + square_lane() % 16, x_row = n + matrix_x_row(square_lane());
    RF_UNROLL
    for (uint32_t i = 0; i < HT_SLOTS; i++) {
        square_words w[HT_M];
        RF_UNROLL
        for (uint32_t j = 0; j < HT_M; j++)
            w[j] = ht_words(s->w, w_row + 16 * j, i);
        RF_UNROLL
        for (uint32_t t = 0; t < HT_N; t++) {
            const square_words x = ht_words(s->x, x_row + 16 * t, i);
            RF_UNROLL
            for (uint32_t j = 0; j < HT_M; j++)
                square_add(&c[t][j], &w[j], &x, form);
        }
    }
}

/* All stages, of which there are whole pairs; the last ones are fetched again where no more are there. */
RF_DEVICE void ht_pass(matrix_floats c[HT_N][HT_M], ht_stage stage[2], const ht_source *f,
                       uint32_t m, uint32_t n, uint32_t form) {
    const uint32_t last = (f->cols - 1) / (2 * HT_COLUMNS) * (2 * HT_COLUMNS) + HT_COLUMNS;
    ht_pieces next[2] = {ht_fetch(f, 0), ht_fetch(f, HT_COLUMNS)};
    ht_store(&stage[0], &next[0]);
    next[0] = ht_fetch(f, rf_min_u32(2 * HT_COLUMNS, last));
    rf_sync();
    RF_NO_UNROLL
    for (uint32_t column = 0; column < f->cols; column += 2 * HT_COLUMNS) {
        RF_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            ht_multiply(c, &stage[i], m, n, form);
            rf_in_turn();
            ht_store(&stage[i ^ 1], &next[i ^ 1]);
            rf_in_turn(); /* into the same registers */
            next[i ^ 1] = ht_fetch(f, rf_min_u32(column + (i + 3) * HT_COLUMNS, last));
            rf_sync();
        }
    }
}

RF_DEVICE void ht_run(ht_shared *sh, const rf_gpu_matmul_args *a, uint32_t form) {
    const uint32_t n_outputs = square_outputs(a, HT_SIDE / 16), wave = matrix_wave();
    const uint32_t m = wave / HT_ACROSS * (16 * HT_M), n = wave % HT_ACROSS * (16 * HT_N);
    const mm_share s = share_of(a, n_outputs, HT_SIDE);
    matrix_floats c[HT_N][HT_M];
    if (s.n == 0) return;
    RF_UNROLL
    for (uint32_t i = 0; i < HT_N * HT_M; i++)
        c[i / HT_M][i % HT_M] = 0.0f;
    const ht_source f = ht_source_of(a, &s);
    ht_pass(c, sh->stage, &f, m, n, form);
    RF_UNROLL
    for (uint32_t t = 0; t < HT_N; t++)
        square_put(sh->out[wave], a, &s, s.tile * n_outputs + square_outputs(a, m / 16), n + 16 * t,
                   c[t], HT_M, form);
}

RF_KERNEL(half_tile, rf_gpu_matmul_args) {
    RF_SHARED ht_shared shared;
    if (a.part[0].w.form == RF_GPU_F16)
        ht_run(&shared, &a, RF_GPU_F16);
    else
        ht_run(&shared, &a, RF_GPU_BF16);
}
#endif
