/* attend_halves_wave.hip - attention of few rows over keys and values in sixteen bits on AMD's matrix units
 * (attend_wave.h), by half.h's rule: the same bits as attend_halves_wave_tile.hip.  A block of threads per
 * row, KV head, up to four of the query heads that share it, and walk over the segments (walk.h).
 *
 * A wave has one or two KV blocks of each segment, which come to registers as they are multiplied: those of
 * the next segment are on their way while the blocks of this one are folded, and other waves' all the time.
 * Of values a lane brings neighbouring columns of its own keys: which row of an instruction a column is, is
 * free.  The sixteen items of an instruction are four heads, each four times.
 *
 * Heads may be made here, too (own.h). */
#include "backend/gpu/kernels/attend_wave.h"
#include "backend/gpu/kernels/own.h"

#if defined(RF_MATRIX)
enum {
    THIN_DIM = RF_ATTEND_HALVES_DIM,
    THIN_HEADS = RF_WALK_HEADS,
    THIN_BLOCKS = MATRIX_LANES / 32, /* of a wave */
    THIN_SUM_PITCH = THIN_DIM + 8,   /* floats of a head's weighted values */
    THIN_Q_PITCH = THIN_DIM + 8,
};

typedef struct thin_shared {
    rf_f4 sum[RF_GPU_SEGMENT_BLOCKS][THIN_HEADS * THIN_SUM_PITCH / 4]; /* weighted values */
    rf_u4 q[THIN_HEADS][THIN_Q_PITCH / 8];
    rf_u4 fresh[2][THIN_DIM / 8]; /* the row's own key and value */
    float unit[THIN_HEADS];       /* of the scores */
    rf_walk_blocks blocks;
    uint32_t own_pos; /* of the row's own key */
} thin_shared;

/* A KV block: the lane's own of the columns of two keys, and of its own keys neighbouring columns of the
 * values, a sixteenth of all. */
typedef struct thin_block {
    rf_walk_block now;
    uint32_t k[2][WAVE_STEPS][WAVE_OWN];
    uint32_t v[2][MATRIX_OUT][WAVE_STEPS / 2];
} thin_block;

/* What a thread works on: as one of a warp of 32 (walk.h), and as a lane of its wave. */
typedef struct thin_work {
    rf_walk at;
    thin_block block[THIN_BLOCKS];
} thin_work;

/* The walk of KV block number i of the wave, as if its warp were the thread's. */
RF_DEVICE rf_walk thin_walk(const thin_work *w, uint32_t i) {
    rf_walk at = w->at;
    at.warp = THIN_BLOCKS * matrix_wave() + i;
    at.lane = wave_lane();
    return at;
}

/* What of segment it is: known to be the same for all lanes. */
RF_DEVICE rf_walk_block thin_block_of(const rf_walk *at, uint32_t segment) {
    rf_walk_block b = rf_walk_block_of(at, segment);
    b.bits = rf_alike(b.bits);
    b.at = rf_alike(b.at);
    return b;
}

/* Keys and values --------------------------------------------------------------------------------*/

/* The lane's key, of sixteen, that it brings for scores, and the first one of its own. */
RF_DEVICE uint32_t thin_key(void) { return wave_key(matrix_x_row(wave_lane())); }
RF_DEVICE uint32_t thin_own_key(void) { return wave_lane() / 16; }
/* Bytes of a row in front of what the lane brings of it. */
RF_DEVICE uint32_t thin_key_bytes(void) { return 4 * WAVE_OWN * (wave_lane() / 16); }
RF_DEVICE uint32_t thin_value_bytes(wave_kind kind) {
    return kind.dim / 8 * matrix_x_row(wave_lane());
}

RF_DEVICE void thin_load_keys(thin_block *b, const rf_gpu_attend_args *a, const rf_walk *at,
                              const rf_walk_block *of, wave_kind kind) {
    const uint32_t bytes = 2 * kind.dim;
    const uint8_t *k =
        (const uint8_t *)a->k + (rf_walk_row(at, a, of) + thin_key()) * bytes + thin_key_bytes();
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 8 * WAVE_OWN; i++) /* no need to keep what lies there */
        b->k[i % 2][i / 2 % (kind.dim / 16)][i / 2 / (kind.dim / 16)] = 0;
    if (!of->bits) return;
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 8; i++)
        wave_read(b->k[i % 2][i / 2], k + 16 * (i % 2) * bytes + 32 * (i / 2), WAVE_OWN);
}

RF_DEVICE void thin_read_value(uint32_t *to, const uint8_t *from, wave_kind kind) {
    __builtin_memcpy(to, __builtin_assume_aligned(from, 8), kind.dim / 8);
}

RF_DEVICE void thin_load_values(thin_block *b, const rf_gpu_attend_args *a, const rf_walk *at,
                                const rf_walk_block *of, wave_kind kind) {
    const uint32_t bytes = 2 * kind.dim;
    const uint8_t *v = (const uint8_t *)a->v + (rf_walk_row(at, a, of) + thin_own_key()) * bytes +
                       thin_value_bytes(kind);
    RF_UNROLL
    for (uint32_t i = 0; i < MATRIX_OUT * (kind.dim / 16); i++)
        b->v[i % 2][i / 2 % MATRIX_OUT][i / 2 / MATRIX_OUT] = 0;
    if (!of->bits) return;
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * MATRIX_OUT; i++) {
        const uint32_t h = i / MATRIX_OUT, e = i % MATRIX_OUT;
        thin_read_value(b->v[h][e], v + (16 * h + WAVE_APART * e) * bytes, kind);
    }
}

/* The row's own key and value in their places, if the KV block has them. */
RF_DEVICE void thin_renew(thin_block *b, const thin_shared *sh, const rf_walk *at, uint32_t segment,
                          wave_kind kind) {
    const uint32_t pos = rf_alike(sh->own_pos), own = pos % 32;
    if (pos / 32 != segment * RF_GPU_SEGMENT_BLOCKS + at->warp) return;
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 8; i++) {
        uint32_t k[WAVE_OWN];
        wave_read(k, (const uint8_t *)sh->fresh[0] + thin_key_bytes() + 32 * (i / 2), WAVE_OWN);
        RF_UNROLL
        for (uint32_t n = 0; n < WAVE_OWN; n++)
            if (thin_key() + 16 * (i % 2) == own) b->k[i % 2][i / 2][n] = k[n];
    }
    uint32_t v[WAVE_STEPS / 2];
    thin_read_value(v, (const uint8_t *)sh->fresh[1] + thin_value_bytes(kind), kind);
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * MATRIX_OUT; i++) {
        const uint32_t h = i / MATRIX_OUT, e = i % MATRIX_OUT;
        RF_UNROLL
        for (uint32_t n = 0; n < kind.dim / 32; n++)
            if (thin_own_key() + 16 * h + WAVE_APART * e == own) b->v[h][e][n] = v[n];
    }
}

/* Queries ----------------------------------------------------------------------------------------*/

/* A warp's head q in sixteen bits, number h of the block's. */
RF_DEVICE void thin_put_query(thin_shared *sh, const rf_gpu_attend_args *a, const rf_walk *at,
                              const float *q, uint32_t h, wave_kind kind) {
    float x[THIN_DIM / 32], down = 1.0f;
    uint32_t most = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 32; i++) {
        x[i] = q[at->lane + 32 * i];
        most = rf_max_u32(most, rf_size_of(x[i]));
    }
    most = rf_warp_most(most);
    if (kind.form == RF_GPU_F16) down = half_down(most);
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 32; i++)
        ((uint16_t *)sh->q[h])[at->lane + 32 * i] = (uint16_t)half_bits_of(x[i] * down, kind.form);
    sh->unit[h] = half_up(down) * a->scale;
}

/* Those of the block that are there already, a warp each. */
RF_DEVICE void thin_put_queries(thin_shared *sh, const rf_gpu_attend_args *a, const rf_walk *at,
                                wave_kind kind) {
    const uint32_t n_here = a->n_heads / a->n_kv_heads - at->in_group;
    if (at->warp >= THIN_HEADS) return;
    const float *q = a->q + (uint64_t)(at->item + rf_min_u32(at->warp, n_here - 1)) * kind.dim;
    thin_put_query(sh, a, at, q, at->warp, kind);
}

/* Queries, and where the walk comes by them the row's own key and value, as the argument's heads say.  The
 * block of the first query heads puts them into the pools, too. */
RF_DEVICE void thin_make_heads(thin_shared *sh, const rf_gpu_attend_args *a, const rf_walk *at,
                               int has_own, wave_kind kind) {
    rf_own_head t = rf_own_head_of(a, at, THIN_HEADS, has_own, at->warp);
    if (!t.is_here) return;
    float *x = (float *)(void *)sh->sum[at->warp];
    rf_own_make(x, &t);
    if (t.is_query) {
        thin_put_query(sh, a, at, x, at->warp, kind);
        return;
    }
    for (uint32_t k = at->lane; k < kind.dim; k += 32) {
        rf_kv_put(sh->fresh[t.is_value], t.h.pool_type, k, x[k]);
        if (at->in_group == 0) rf_kv_put(t.pool, t.h.pool_type, k, x[k]);
    }
}

/* Scores and weighted values ---------------------------------------------------------------------*/

RF_DEVICE void thin_scores(float s[2][MATRIX_OUT], const thin_shared *sh, const thin_block *b,
                           wave_kind kind) {
    const uint32_t lane = wave_lane();
    const uint8_t *from = (const uint8_t *)sh->q[lane % THIN_HEADS] + 8 * matrix_first_word(lane);
    matrix_floats c[2] = {0.0f, 0.0f};
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 16; i++) {
        uint32_t q[MATRIX_HALF_WORDS];
        wave_read(q, from + 32 * i, MATRIX_HALF_WORDS);
        RF_UNROLL
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t k[MATRIX_HALF_WORDS];
            wave_whole(k, b->k[h][i]);
            c[h] = matrix_multiply_halves(c[h], q, k, kind.form);
        }
        rf_in_turn();
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * MATRIX_OUT; i++)
        s[i / MATRIX_OUT][i % MATRIX_OUT] = c[i / MATRIX_OUT][i % MATRIX_OUT];
}

/* What is not visible becomes zeros, whatever lies there. */
RF_DEVICE void thin_hide(thin_block *b, wave_kind kind) {
    const uint32_t own = b->now.bits >> thin_own_key();
    if (b->now.bits == ~0u) return;
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * MATRIX_OUT; i++) {
        const uint32_t h = i / MATRIX_OUT, e = i % MATRIX_OUT;
        const uint32_t seen = 0u - (own >> (16 * h + WAVE_APART * e) & 1);
        RF_UNROLL
        for (uint32_t n = 0; n < kind.dim / 32; n++)
            b->v[h][e][n] &= seen;
    }
}

/* The sums of column n of those that each lane brings. */
RF_DEVICE matrix_floats thin_column(const thin_block *b, const wave_part *part, uint32_t n,
                                    wave_kind kind) {
    matrix_floats c = 0.0f;
    RF_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t own[WAVE_OWN], v[MATRIX_HALF_WORDS];
        RF_UNROLL
        for (uint32_t i = 0; i < WAVE_OWN; i++)
            own[i] = wave_two_of(b->v[h][2 * i][n / 2], b->v[h][2 * i + 1][n / 2], n % 2);
        wave_whole(v, own);
        c = matrix_multiply_halves(c, part->p[h], v, kind.form);
    }
    return c;
}

/* The weighted values of a block, in its place. */
RF_DEVICE void thin_values(rf_f4 *sum, thin_block *b, const wave_part *part, wave_kind kind) {
    const uint32_t lane = wave_lane(), per_row = kind.dim / 16;
    float *to = (float *)sum + lane % 16 * THIN_SUM_PITCH + per_row * MATRIX_OUT * (lane / 16);
    thin_hide(b, kind);
    RF_UNROLL
    for (uint32_t first = 0; first < per_row; first += 2) {
        matrix_floats c[2];
        RF_UNROLL
        for (uint32_t n = 0; n < 2; n++) {
            c[n] = thin_column(b, part, first + n, kind);
            wave_make(&c[n]);
        }
        RF_UNROLL
        for (uint32_t e = 0; e < MATRIX_OUT; e++) {
            const rf_f2 two = {{c[0][e], c[1][e]}};
            if (lane % 16 < THIN_HEADS) *(rf_f2 *)(void *)(to + per_row * e + first) = two;
        }
        rf_in_turn();
    }
}

/* The whole --------------------------------------------------------------------------------------*/

/* In place of what a KV block without visible keys has not made. */
RF_DEVICE void thin_leave_out(thin_shared *sh, const rf_walk *at) {
    const rf_f4 zero = {{0.0f, 0.0f, 0.0f, 0.0f}};
    for (uint32_t i = at->lane; i < THIN_HEADS * THIN_SUM_PITCH / 4; i += MATRIX_LANES)
        sh->sum[at->warp][i] = zero;
    rf_walk_leave_out(&sh->blocks, at->lane, at->warp);
}

/* A KV block's part of a segment; turns to the next segment. */
RF_DEVICE void thin_add(thin_shared *sh, const rf_gpu_attend_args *a, thin_block *b,
                        const rf_walk *at, uint32_t segment, wave_kind kind) {
    const uint32_t bits = b->now.bits, block = segment * RF_GPU_SEGMENT_BLOCKS + at->warp;
    const rf_walk_block then = thin_block_of(at, segment + a->n_walks);
    float s[2][MATRIX_OUT];
    if (bits) {
        thin_renew(b, sh, at, segment, kind);
        thin_scores(s, sh, b, kind);
        const float *mask = at->span.mask ? at->span.mask + 32 * block : 0;
        const wave_part part =
            wave_soften(s, a, sh->unit[at->lane % THIN_HEADS], bits, bits == ~0u, mask, kind);
        thin_values(sh->sum[at->warp], b, &part, kind);
        if (at->lane < THIN_HEADS) {
            rf_walk_put_block(&sh->blocks, at->warp, at->lane, part.m, part.l);
        }
    } else {
        thin_leave_out(sh, at);
    }
    if (at->lane == 0) sh->blocks.bits[at->warp] = bits;
    b->now = then;
    thin_load_keys(b, a, at, &then, kind);
    thin_load_values(b, a, at, &then, kind);
}

/* The first segment's keys and values on their way, queries in sixteen bits. */
RF_DEVICE void thin_begin(thin_shared *sh, const rf_gpu_attend_args *a, thin_work *w,
                          wave_kind kind) {
    w->at = rf_walk_of(a, THIN_HEADS);
    const uint32_t own_pos = rf_own_pos(a, &w->at);
    if (rf_tid() == 0) sh->own_pos = own_pos;
    RF_UNROLL
    for (uint32_t i = 0; i < THIN_BLOCKS; i++) {
        const rf_walk at = thin_walk(w, i);
        w->block[i].now = thin_block_of(&at, at.segment);
        thin_load_keys(&w->block[i], a, &at, &w->block[i].now, kind);
        thin_load_values(&w->block[i], a, &at, &w->block[i].now, kind);
    }
    if (a->heads.n_parts > 0) thin_make_heads(sh, a, &w->at, own_pos != RF_NO_OWN, kind);
    if (a->heads.n_parts != 3) thin_put_queries(sh, a, &w->at, kind);
    rf_sync();
}

RF_DEVICE void thin_attend(thin_shared *sh, const rf_gpu_attend_args *a, uint32_t dim,
                           uint32_t form) {
    const wave_kind kind = {dim, form};
    thin_work w;
    thin_begin(sh, a, &w, kind);
    const rf_walk *at = &w.at;
    const rf_walk_columns c = rf_walk_columns_of(a, at, THIN_HEADS, dim, RF_WALK_THREADS);
    const float *part = (const float *)sh->sum[0] + c.h * THIN_SUM_PITCH + c.col;
    rf_walk_sum total;
    rf_walk_start(&total, a, at->item % a->n_heads + (c.is_here ? c.h : 0));
    RF_NO_UNROLL
    for (uint32_t segment = at->segment; segment < at->n_segments; segment += a->n_walks) {
        RF_UNROLL
        for (uint32_t i = 0; i < THIN_BLOCKS; i++) {
            const rf_walk of = thin_walk(&w, i);
            thin_add(sh, a, &w.block[i], &of, segment, kind);
        }
        rf_sync();
        rf_walk_end_segment(&total, &sh->blocks, a, at, &c, part, THIN_HEADS * THIN_SUM_PITCH,
                            segment, c.col);
        rf_sync();
    }
    if (a->n_splits == 1 && c.is_here) rf_walk_put(a, &total, at->item + c.h, c.col, c.n);
}

#define THIN_BODY(dim, form)                         \
    {                                                \
        RF_SHARED thin_shared sh;                    \
        thin_attend(&sh, &a, (uint32_t)(dim), form); \
    }
/* kinds.def has their order. */
RF_KERNEL(attend_halves, rf_gpu_attend_args)
THIN_BODY(THIN_DIM, RF_GPU_F16)
RF_KERNEL_KIND(attend_halves, 1, rf_gpu_attend_args)
THIN_BODY(THIN_DIM, RF_GPU_BF16)
RF_KERNEL_KIND(attend_halves, 3, rf_gpu_attend_args)
THIN_BODY(THIN_DIM / 2, RF_GPU_F16)
RF_KERNEL_KIND(attend_halves, 4, rf_gpu_attend_args)
THIN_BODY(THIN_DIM / 2, RF_GPU_BF16)
#endif
