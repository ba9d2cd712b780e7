/* attend_halves.hip - attention of few rows over keys and values in sixteen bits on NVIDIA's matrix
 * units, by half.h's rule (docs/arithmetic.md); a block of threads per row, KV head, up to four of the
 * query heads that share it, and walk over the segments.
 *
 * Of each segment a warp has a KV block, or of four warps each two, one after the other.  Its keys and values come by
 * registers to a slot of its own in shared memory: values take the keys' place when the scores are made, while
 * what comes behind them is on its way.  When the warps know the segment's largest scores and have left exponentials and
 * values for each other, each has sixteen columns, or of four warps twice sixteen, of all of the segment's values.  Blocks
 * of four warps are for many rows: a multiprocessor has four of them.
 *
 * Sixteen keys, or sixteen columns of values, are the left side of an instruction; on the right each of
 * four heads has two columns, so that thread 4g + t gets head t, of keys g and g + 8 or of two columns of
 * values, which are turned as they are read.
 *
 * Q8_0 comes to a slot as it lies in the cache, and becomes f16 there (q8.h), a row by each thread.
 *
 * Heads may be made here, too (own.h).
 *
 * On Hopper the blocks of a row's segments may be a cluster: each has one, and folds some columns of all (cluster.h). */
#include "backend/gpu/kernels/cluster.h"
#include "backend/gpu/kernels/half.h"
#include "backend/gpu/kernels/ints.h"
#include "backend/gpu/kernels/keys.h"
#include "backend/gpu/kernels/own.h"
#include "backend/gpu/kernels/q8.h"
#include "backend/gpu/tile.h"

#if !defined(RF_AMD)
enum {
    HALVES_DIM = RF_ATTEND_HALVES_DIM,
    HALVES_WARPS = RF_BLOCK_attend_halves / 32,
    HALVES_HEADS = RF_WALK_HEADS,
    HALVES_SLOTS = HALVES_DIM / (int)RF_KEYS_STRETCH,
    HALVES_KEYS = 32 * RF_GPU_SEGMENT_BLOCKS,
    HALVES_P_PITCH = HALVES_KEYS + 8, /* halves of a head's exponentials */
    HALVES_TURNS = 2,                 /* KV blocks of a segment that a warp has, at most */
    HALVES_Q8_WORDS =
        (int)RF_KEYS_STRETCH / 32 * (int)RF_KV_Q8_BYTES / 4, /* of a stretch of a row in Q8_0 */
};

/* A warp's own. */
typedef struct halves_own {
    rf_u4 slot[HALVES_SLOTS][RF_KEYS_SLOT];         /* of a KV block keys, then values */
    rf_walk_block blocks[2][RF_GPU_SEGMENT_BLOCKS]; /* of a segment, and of the next one */
} halves_own;

typedef struct halves_shared {
    uint16_t p[HALVES_HEADS][HALVES_P_PITCH];        /* a segment's exponentials, */
    float most[HALVES_HEADS][RF_GPU_SEGMENT_BLOCKS]; /* the largest scores of its KV blocks */
    float sum[RF_GPU_SEGMENT_BLOCKS][32];            /* and of each thread there the sum */
    rf_u4 q[HALVES_DIM / 32][HALVES_HEADS][4]; /* of each 32 columns what thread t of four brings */
    rf_u4 fresh[2][HALVES_DIM / 8];            /* the row's own key and value */
    float made[HALVES_WARPS][HALVES_DIM]; /* heads by warps, then results that are made integers */
    float unit[HALVES_HEADS];             /* of the scores */
    uint32_t of_warps[HALVES_WARPS];
    uint32_t own_pos;             /* of the row's own key */
    uint64_t come;                /* of a cluster, when the others' parts have */
    halves_own own[HALVES_WARPS]; /* as many as there are warps */
} halves_shared;
#if !defined(RF_NVIDIA)
_Static_assert(sizeof(halves_shared) <= RF_ATTEND_HALVES_ROOM, "there is room");
_Static_assert(sizeof(halves_shared) - sizeof(halves_own) * HALVES_WARPS / 2 <=
                   RF_ATTEND_HALVES_SMALL_SHARED,
               "there is room");
#endif

/* Columns of a head, their format, F16 also where the cache has Q8_0, and the warps of a block, which are constants. */
typedef struct halves_kind {
    uint32_t dim, form, is_q8, warps;
} halves_kind;

/* Times sixteen columns that a warp has. */
RF_DEVICE uint32_t halves_rounds(halves_kind kind) {
    return kind.dim > 16 * kind.warps ? kind.dim / (16 * kind.warps) : 1;
}

/* KV blocks of a segment that a warp has. */
RF_DEVICE uint32_t halves_turns(halves_kind kind) { return RF_GPU_SEGMENT_BLOCKS / kind.warps; }

/* What a thread works on. */
typedef struct halves_work {
    rf_walk at;
    rf_walk_block then; /* number lane % 8 of the segment's behind the next one */
    uint32_t parity;    /* of segments: where the warp has KV blocks, */
    uint32_t seen[2];   /* and of which KV blocks there something is visible, a bit each */
    rf_u4 coming[HALVES_DIM / 8]; /* of keys or values, which come to the slot next */
} halves_work;

/* KV block number b of the segment, or of the next one. */
RF_DEVICE rf_walk_block halves_at(const halves_shared *sh, const halves_work *w, uint32_t b) {
    return sh->own[w->at.warp].blocks[w->parity][b];
}
RF_DEVICE rf_walk_block halves_next_at(const halves_shared *sh, const halves_work *w, uint32_t b) {
    return sh->own[w->at.warp].blocks[w->parity ^ 1][b];
}

/* The columns that the warp has in a round, sixteens of them; those behind the last are nobody's. */
RF_DEVICE uint32_t halves_columns(const halves_work *w, uint32_t round, halves_kind kind) {
    return w->at.warp * halves_rounds(kind) + round;
}
RF_DEVICE int halves_has_columns(const halves_work *w, halves_kind kind) {
    return halves_columns(w, 0, kind) < kind.dim / 16;
}

/* Keys and values --------------------------------------------------------------------------------*/

/* Pieces of sixteen bytes of a KV block in Q8_0; where they lie in a slot, behind each other. */
RF_DEVICE uint32_t halves_q8_pieces(halves_kind kind) { return kind.dim * RF_KV_Q8_BYTES / 16; }
RF_DEVICE rf_u4 *halves_q8_at(halves_shared *sh, const halves_work *w) {
    return sh->own[w->at.warp].slot[HALVES_SLOTS - 1];
}
RF_DEVICE const rf_u4 *halves_q8_from(const rf_gpu_attend_args *a, const halves_work *w,
                                      const void *pool, rf_walk_block p, halves_kind kind) {
    return (const rf_u4 *)pool + rf_walk_row(&w->at, a, &p) / 32 * halves_q8_pieces(kind) +
           w->at.lane;
}
/* Has the thread number i of them, of 32 threads' each? */
RF_DEVICE int halves_q8_has(const halves_work *w, uint32_t i, halves_kind kind) {
    return 32 * (i + 1) <= halves_q8_pieces(kind) || 32 * i + w->at.lane < halves_q8_pieces(kind);
}

/* A KV block's keys or values on their way to registers. */
RF_DEVICE void halves_load(const rf_gpu_attend_args *a, halves_work *w, const void *pool,
                           rf_walk_block p, halves_kind kind) {
    if (!p.bits) return;
    if (kind.is_q8) {
        const rf_u4 *from = halves_q8_from(a, w, pool, p, kind);
        RF_UNROLL
        for (uint32_t i = 0; i < rf_div_up(halves_q8_pieces(kind), 32); i++)
            if (halves_q8_has(w, i, kind)) w->coming[i] = rf_load_16(from + 32 * i);
        return;
    }
    const rf_u4 *from =
        (const rf_u4 *)pool + rf_walk_row(&w->at, a, &p) * (kind.dim / 8) + w->at.lane;
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 8; i++)
        w->coming[i] = rf_load_16(from + 32 * i);
}

/* A stretch of 64 columns of the thread's row of what has come in Q8_0 to the slot, by loads of two words where
 * rows begin with a whole one. */
RF_DEVICE void halves_q8_row(uint32_t row[HALVES_Q8_WORDS], halves_shared *sh, const halves_work *w,
                             uint32_t stretch, halves_kind kind) {
    const uint32_t n = kind.dim / RF_KEYS_STRETCH, odd = stretch % 2;
    const uint32_t *from = (const uint32_t *)(const void *)halves_q8_at(sh, w) +
                           (w->at.lane * n + stretch) * HALVES_Q8_WORDS;
    RF_UNROLL
    for (uint32_t i = 0; i < HALVES_Q8_WORDS; i++) {
        if (n % 2 || (odd && i == 0) || (!odd && i + 1 == HALVES_Q8_WORDS)) {
            row[i] = from[i];
        } else if (i % 2 == odd) {
            const rf_u2 two = *(const rf_u2 *)(const void *)(from + i);
            row[i] = two.v[0];
            row[i + 1] = two.v[1];
        }
    }
}

/* It as f16 into its place, zeros where is_seen is 0.  The second group begins in the middle of a word. */
RF_DEVICE void halves_q8_put(rf_u4 *to, const uint32_t row[HALVES_Q8_WORDS], int is_seen) {
    RF_UNROLL
    for (uint32_t piece = 0; piece < RF_KEYS_STRETCH / 8; piece++) {
        const uint32_t group = piece / 4, first = group * RF_KV_Q8_BYTES / 4,
                       at = first + piece % 4 * 2,
                       d = group ? row[first] >> 16 : row[first] & 0xffffu;
        uint32_t words[2];
        RF_UNROLL
        for (uint32_t i = 0; i < 2; i++)
            words[i] =
                group ? row[at + i + 1] : rf_four_bytes(row[at + i], row[at + i + 1], 0x5432);
        to[piece] = q8_eight(words, (uint16_t)(is_seen ? d : 0));
    }
}

/* What has come in Q8_0 as f16, as halves_put does; it lies in the place of the last stretch. */
RF_DEVICE void halves_widen(halves_shared *sh, const halves_work *w, uint32_t own, uint32_t bits,
                            uint32_t seen, halves_kind kind) {
    const uint32_t lane = w->at.lane, n = kind.dim / RF_KEYS_STRETCH;
    rf_warp_sync();
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row[HALVES_Q8_WORDS];
        if (bits) halves_q8_row(row, sh, w, i, kind);
        if (i + 1 == HALVES_SLOTS) rf_warp_sync();
        if (bits && lane != own)
            halves_q8_put(sh->own[w->at.warp].slot[i] + lane * RF_KEYS_PITCH, row,
                          seen >> lane & 1);
    }
}

/* What has come of a KV block into the slot, fresh in the place of the row's own, and zeros where keys are not among those
 * of seen, whatever lies there. */
RF_DEVICE void halves_put(halves_shared *sh, const halves_work *w, const rf_u4 *fresh,
                          uint32_t block, uint32_t bits, uint32_t seen, halves_kind kind) {
    const uint32_t per_row = kind.dim / 8, piece = w->at.lane % per_row,
                   own = sh->own_pos / 32 == block ? sh->own_pos % 32 : 32;
    rf_u4 *to = sh->own[w->at.warp].slot[piece / 8] + piece % 8;
    rf_warp_sync(); /* what was there is read */
    if (kind.is_q8) {
        RF_UNROLL
        for (uint32_t i = 0; i < rf_div_up(halves_q8_pieces(kind), 32) && bits; i++)
            if (halves_q8_has(w, i, kind)) halves_q8_at(sh, w)[32 * i + w->at.lane] = w->coming[i];
        halves_widen(sh, w, own, bits, seen, kind);
    }
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 8 && bits && !kind.is_q8; i++) {
        const uint32_t row = (32 * i + w->at.lane) / per_row;
        rf_u4 v = w->coming[i];
        if (seen != ~0u) {
            RF_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                v.v[k] &= 0u - (seen >> row & 1);
        }
        if (row != own) to[row * RF_KEYS_PITCH] = v;
    }
    if (own < 32 && bits && w->at.lane < per_row) to[own * RF_KEYS_PITCH] = fresh[piece];
    rf_warp_sync();
}

/* What comes to the slot behind the segment's first keys. */
RF_DEVICE void halves_load_second(const halves_shared *sh, const rf_gpu_attend_args *a,
                                  halves_work *w, halves_kind kind) {
    const rf_walk_block first = halves_at(sh, w, w->at.warp);
    rf_walk_block other = {0, 0};
    if (halves_turns(kind) > 1) other = halves_at(sh, w, w->at.warp + kind.warps);
    halves_load(a, w, other.bits ? a->k : a->v, other.bits ? other : first, kind);
}

/* The KV blocks of the segment that comes next in their place; which ones come behind it, from KV block number behind on. */
RF_DEVICE void halves_expect(halves_shared *sh, halves_work *w, uint32_t behind) {
    const uint32_t lane = w->at.lane % RF_GPU_SEGMENT_BLOCKS;
    if (w->at.lane < RF_GPU_SEGMENT_BLOCKS)
        sh->own[w->at.warp].blocks[w->parity ^ 1][lane] = w->then;
    w->seen[0] = w->seen[1];
    w->seen[1] = rf_warp_ballot(w->then.bits != 0);
    w->then = rf_walk_block_at(&w->at, behind + lane);
    rf_warp_sync();
}

/* Queries ----------------------------------------------------------------------------------------*/

/* A warp's head q in sixteen bits, number h of the block's; all threads of a block call, is_here: its
 * own. */
RF_DEVICE void halves_put_query(halves_shared *sh, const rf_gpu_attend_args *a,
                                const halves_work *w, const float *q, uint32_t h, int is_here,
                                halves_kind kind) {
    float x[HALVES_DIM / 32], down = 1.0f;
    uint32_t most = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 32; i++) {
        x[i] = q[w->at.lane + 32 * i] * half_query_scale(a);
        most = rf_max_u32(most, rf_size_of(x[i]));
    }
    most = rf_warp_most(most);
    if (kind.form == RF_GPU_F16) down = half_down(most);
    if (!is_here) return;
    const uint32_t col = w->at.lane % 16, step = w->at.lane / 16;
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 32; i++) {
        uint16_t *to = (uint16_t *)(void *)&sh->q[i][h][col % 8 / 2];
        to[4 * step + col / 8 * 2 + col % 2] = (uint16_t)half_bits_of(x[i] * down, kind.form);
    }
    sh->unit[h] = half_up(down);
}

/* Those of the block that the kernel in front has made. */
RF_DEVICE void halves_put_queries(halves_shared *sh, const rf_gpu_attend_args *a,
                                  const halves_work *w, halves_kind kind) {
    const uint32_t h = w->at.warp % HALVES_HEADS,
                   n_here = a->n_heads / a->n_kv_heads - w->at.in_group;
    const float *q = a->q + (uint64_t)(w->at.item + rf_min_u32(h, n_here - 1)) * kind.dim;
    halves_put_query(sh, a, w, q, h, 1, kind);
}

/* The row's own key or value x, as it is multiplied, and puts_it: in the pool.  All threads of a block call. */
RF_DEVICE void halves_put_own(halves_shared *sh, const rf_own_head *t, const float *x,
                              uint32_t lane, int puts_it, halves_kind kind) {
    const int is_row = t->is_here && !t->is_query;
    uint16_t *fresh = (uint16_t *)(void *)sh->fresh[t->is_value];
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 32; i++) {
        const uint32_t k = lane + 32 * i;
        if (kind.is_q8) {
            const rf_q8_own own = rf_q8_own_of(x[k]);
            if (is_row) fresh[k] = rf_f16_of(rf_f16_at(own.d) * (float)own.q);
            if (is_row && puts_it) rf_q8_put_own(t->pool + i * RF_KV_Q8_BYTES, lane, own);
        } else if (is_row) {
            const uint16_t half = (uint16_t)half_bits_of(x[k], kind.form);
            fresh[k] = half;
            if (puts_it) ((uint16_t *)(void *)t->pool)[k] = half;
        }
    }
}

/* Of queries, and where the walk comes by them the row's own key and value, as the argument's heads say,
 * that of a number; waits for the kernel in front.  The block of the first query heads puts key and value into the
 * pools, too. */
RF_DEVICE void halves_make_head(halves_shared *sh, const rf_gpu_attend_args *a,
                                const halves_work *w, int has_own, uint32_t number,
                                halves_kind kind) {
    rf_own_head t = rf_own_head_of(a, &w->at, HALVES_HEADS, has_own, number);
    const int may_skip = rf_warp_may_skip();
    rf_await_before();
    if (may_skip && !t.is_here) return;
    float *x = sh->made[w->at.warp];
    rf_own_make(x, &t);
    if (t.is_query || !may_skip)
        halves_put_query(sh, a, w, x, number % HALVES_HEADS, t.is_query, kind);
    if (may_skip && (!t.is_here || t.is_query)) return;
    halves_put_own(sh, &t, x, w->at.lane, w->at.in_group == 0, kind);
}
RF_DEVICE void halves_make_heads(halves_shared *sh, const rf_gpu_attend_args *a,
                                 const halves_work *w, int has_own, halves_kind kind) {
    RF_NO_UNROLL
    for (uint32_t first = 0; first < (uint32_t)HALVES_WARPS; first += kind.warps) {
        if (first) rf_warp_sync(); /* the one before it is read */
        halves_make_head(sh, a, w, has_own, first + w->at.warp, kind);
    }
}

/* Scores -----------------------------------------------------------------------------------------*/

/* Of the thread's head with keys g, g + 8, g + 16 and g + 24. */
RF_DEVICE void halves_scores(float s[4], const halves_shared *sh, const halves_work *w,
                             halves_kind kind) {
    const uint32_t lane = w->at.lane, row = lane % 16, half = lane / 16;
    const half_at k =
        half_at_of((const uint8_t *)sh->own[w->at.warp].slot + 16 * (row * RF_KEYS_PITCH + half));
    float c[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 32; i++) {
        const rf_u4 q = sh->q[i][lane / 8][lane % 4];
        RF_UNROLL
        for (uint32_t step = 2 * i; step < 2 * i + 2; step++) {
            const uint32_t x[2] = {q.v[step % 2 * 2], q.v[step % 2 * 2 + 1]};
            RF_UNROLL
            for (uint32_t m = 0; m < 2; m++) {
                uint32_t keys[4];
                half_load(keys, k + 16 * (step / 4 * RF_KEYS_SLOT + m * 16 * RF_KEYS_PITCH +
                                          step % 4 * 2));
                half_multiply(c[m], keys, x, kind.form);
            }
        }
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        s[i] = c[i / 2][i % 2 * 2];
}

/* Exponentials -----------------------------------------------------------------------------------*/

/* The scores of KV block number b of a segment, of what is not among the visible keys of bits -inf, and the largest of each
 * head; with a softcap or a mask times their unit. */
RF_DEVICE void halves_hide(float s[4], halves_shared *sh, const rf_gpu_attend_args *a,
                           const halves_work *w, uint32_t segment, uint32_t b, uint32_t bits) {
    const uint32_t lane = w->at.lane, g = lane / 4, h = lane % 4;
    const float *mask = w->at.span.mask;
    float m = -__builtin_inff();
    if (a->softcap > 0 || mask) { /* all that is seldom in one place, which one jump passes */
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t key = g + 8 * i;
            float more = 0.0f;
            if (mask && bits >> key & 1)
                more = mask[32 * (segment * RF_GPU_SEGMENT_BLOCKS + b) + key];
            s[i] = half_capped(s[i] * sh->unit[h], a->softcap, more);
        }
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        s[i] = bits >> (g + 8 * i) & 1 ? s[i] : -__builtin_inff();
        m = half_larger(m, s[i]);
    }
    RF_UNROLL
    for (uint32_t other = 4; other < 32; other *= 2)
        m = half_larger(m, rf_walk_lane_xor(m, other));
    if (lane < HALVES_HEADS) sh->most[h][b] = m;
}

/* The exponentials of what the warp's scores are beside the segment's largest, of which the natural one is returned. */
RF_DEVICE float halves_soften(float s[HALVES_TURNS][4], halves_shared *sh,
                              const rf_gpu_attend_args *a, const halves_work *w, halves_kind kind) {
    const uint32_t g = w->at.lane / 4, h = w->at.lane % 4;
    const float unit = a->softcap > 0 || w->at.span.mask ? 1.0f : sh->unit[h];
    const rf_f4 *of_blocks = (const rf_f4 *)(const void *)sh->most[h];
    float most = -__builtin_inff();
    RF_UNROLL
    for (uint32_t i = 0; i < RF_GPU_SEGMENT_BLOCKS / 4; i++) {
        const rf_f4 four = of_blocks[i];
        most = half_larger(most, half_larger(half_larger(four.v[0], four.v[1]),
                                             half_larger(four.v[2], four.v[3])));
    }
    const half_soft soft = half_soft_of(most, unit);
    RF_UNROLL
    for (uint32_t turn = 0; turn < halves_turns(kind); turn++) {
        const uint32_t b = turn * kind.warps + w->at.warp;
        float p[4];
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            p[i] = half_exp(soft, s[turn][i]);
            sh->p[h][32 * b + g + 8 * i] = (uint16_t)half_bits_of(p[i], kind.form);
        }
        sh->sum[b][w->at.lane] = (p[0] + p[2]) + (p[1] + p[3]);
    }
    return most * unit * HALF_LN_2;
}

/* The sum of a head's exponentials, of which of has a thread's of each KV block. */
RF_DEVICE float halves_sum(const float of[RF_GPU_SEGMENT_BLOCKS]) {
    float l = 0.0f;
    RF_UNROLL
    for (uint32_t b = 0; b < RF_GPU_SEGMENT_BLOCKS; b++)
        l += of[b];
    RF_UNROLL
    for (uint32_t other = 4; other < 32; other *= 2)
        l += rf_walk_lane_xor(l, other);
    return l;
}

/* Weighted values --------------------------------------------------------------------------------*/

/* A round's of one KV block, which is in a slot, onto those before it. */
RF_DEVICE void halves_weigh(float c[4], const halves_shared *sh, const halves_work *w, uint32_t b,
                            uint32_t round, halves_kind kind) {
    const uint32_t lane = w->at.lane,
                   piece = 2 * rf_min_u32(halves_columns(w, round, kind), kind.dim / 16 - 1) +
                           lane / 8 % 2;
    const rf_u4 *slot = sh->own[b % kind.warps].slot[piece / 8];
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint16_t *p = &sh->p[lane / 8][32 * b + 16 * i + 2 * (lane % 4)];
        const uint32_t x[2] = {*(const uint32_t *)(const void *)p,
                               *(const uint32_t *)(const void *)(p + 8)};
        const uint32_t key = 16 * i + lane / 16 * 8 + lane % 8;
        uint32_t columns[4];
        half_load_turned(columns,
                         half_at_of((const uint8_t *)(slot + key * RF_KEYS_PITCH + piece % 8)));
        half_multiply(c, columns, x, kind.form);
    }
}

/* A turn's. */
RF_DEVICE void halves_weigh_turn(float c[2][4], const halves_shared *sh, const halves_work *w,
                                 uint32_t turn, halves_kind kind) {
    if (rf_warp_may_skip() && !halves_has_columns(w, kind)) return;
    RF_UNROLL
    for (uint32_t i = 0; i < kind.warps; i++) {
        const uint32_t b = turn * kind.warps + i;
        if (!(w->seen[0] >> b & 1)) continue;
        RF_UNROLL
        for (uint32_t round = 0; round < halves_rounds(kind); round++)
            halves_weigh(c[round], sh, w, b, round, kind);
    }
}

/* The whole --------------------------------------------------------------------------------------*/

/* The values of a turn into the slot, and what comes there next, of the next segment if it goes on, on its way. */
RF_DEVICE void halves_put_values(halves_shared *sh, const rf_gpu_attend_args *a, halves_work *w,
                                 uint32_t segment, uint32_t turn, int goes_on, halves_kind kind) {
    const uint32_t b = turn * kind.warps + w->at.warp, bits = halves_at(sh, w, b).bits;
    halves_put(sh, w, sh->fresh[1], segment * RF_GPU_SEGMENT_BLOCKS + b, bits, bits, kind);
    if (turn + 1 < halves_turns(kind))
        halves_load(a, w, a->v, halves_at(sh, w, b + kind.warps), kind);
    else if (goes_on)
        halves_load(a, w, a->k, halves_next_at(sh, w, w->at.warp), kind);
}

/* The warp's scores of a segment, the first keys of which are in the slot, and the first values are then. */
RF_DEVICE void halves_score(float s[HALVES_TURNS][4], halves_shared *sh,
                            const rf_gpu_attend_args *a, halves_work *w, uint32_t segment,
                            int goes_on, halves_kind kind) {
    RF_UNROLL
    for (uint32_t turn = 0; turn < halves_turns(kind); turn++) {
        const uint32_t b = turn * kind.warps + w->at.warp, bits = halves_at(sh, w, b).bits;
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            s[turn][i] = 0.0f;
        if (bits || !rf_warp_may_skip()) {
            if (turn > 0) {
                halves_put(sh, w, sh->fresh[0], segment * RF_GPU_SEGMENT_BLOCKS + b, bits, ~0u,
                           kind);
                if (bits) halves_load(a, w, a->v, halves_at(sh, w, w->at.warp), kind);
            }
            halves_scores(s[turn], sh, w, kind);
        }
        halves_hide(s[turn], sh, a, w, segment, b, bits);
    }
    halves_put_values(sh, a, w, segment, 0, goes_on, kind);
}

/* A segment's weighted values, turn by turn; the next segment's keys are on their way then. */
RF_DEVICE void halves_values(rf_walk_sum *t, halves_shared *sh, const rf_gpu_attend_args *a,
                             halves_work *w, uint32_t segment, int goes_on, halves_kind kind) {
    float c[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
    float of[RF_GPU_SEGMENT_BLOCKS]; /* on their way while values are multiplied */
    RF_UNROLL
    for (uint32_t turn = 0; turn < halves_turns(kind); turn++) {
        if (turn > 0) rf_sync(); /* values in the slots are read */
        if (turn > 0) halves_put_values(sh, a, w, segment, turn, goes_on, kind);
        rf_sync();
        RF_UNROLL
        for (uint32_t b = 0; b < RF_GPU_SEGMENT_BLOCKS && turn == 0; b++)
            of[b] = sh->sum[b][w->at.lane];
        halves_weigh_turn(c, sh, w, turn, kind);
    }
    t->l = halves_sum(of);
    RF_UNROLL
    for (uint32_t k = 0; k < RF_WALK_COLUMNS; k++)
        t->acc[k] = c[k / 2][k % 2 * 2];
}

/* The segment that comes next takes the place of this one: its first keys into the slot. */
RF_DEVICE void halves_go_on(halves_shared *sh, const rf_gpu_attend_args *a, halves_work *w,
                            uint32_t next, halves_kind kind) {
    w->parity ^= 1;
    const uint32_t bits = halves_at(sh, w, w->at.warp).bits;
    rf_sync(); /* values in the slots are read */
    halves_put(sh, w, sh->fresh[0], next * RF_GPU_SEGMENT_BLOCKS + w->at.warp, bits, ~0u, kind);
    halves_load_second(sh, a, w, kind);
    halves_expect(sh, w, (next + 2 * a->n_walks) * RF_GPU_SEGMENT_BLOCKS);
}

/* The first segment's first keys, which came to the slot by themselves. */
RF_DEVICE void halves_renew(halves_shared *sh, const halves_work *w, uint32_t segment,
                            halves_kind kind) {
    rf_copy_wait();
    rf_warp_sync();
    if (sh->own_pos / 32 == segment * RF_GPU_SEGMENT_BLOCKS + w->at.warp) {
        RF_UNROLL
        for (uint32_t i = 0; i < kind.dim / RF_KEYS_STRETCH; i++)
            rf_keys_renew(sh->own[w->at.warp].slot[i], sh->fresh[0], &w->at, sh->own_pos % 32, i,
                          kind.dim);
    }
    rf_warp_sync();
}

/* What of the walk does not depend on the kernel in front; the first segment's keys and values on their way.
 * Returns the position of the row's own key. */
RF_DEVICE uint32_t halves_begin(halves_shared *sh, const rf_gpu_attend_args *a, halves_work *w,
                                halves_kind kind) {
    w->at = rf_walk_of(a, HALVES_HEADS);
    const uint32_t own_pos = rf_own_pos(a, &w->at), own = w->at.warp,
                   first = w->at.segment * RF_GPU_SEGMENT_BLOCKS;
    if (rf_tid() == 0) sh->own_pos = own_pos;
    w->parity = 1;
    w->seen[1] = 0;
    w->then = rf_walk_block_at(&w->at, first + w->at.lane % RF_GPU_SEGMENT_BLOCKS);
    halves_expect(sh, w, first + a->n_walks * RF_GPU_SEGMENT_BLOCKS);
    w->parity = 0;
    if (!rf_walk_is_old(a, &w->at, (halves_turns(kind) - 1) * kind.warps + own)) rf_await_before();
    const rf_walk_block p = halves_at(sh, w, own);
    if (kind.is_q8) {
        const rf_u4 *from = halves_q8_from(a, w, a->k, p, kind);
        RF_UNROLL
        for (uint32_t i = 0; i < rf_div_up(halves_q8_pieces(kind), 32) && p.bits; i++)
            if (halves_q8_has(w, i, kind))
                rf_copy_16(halves_q8_at(sh, w) + 32 * i + w->at.lane, from + 32 * i);
    } else {
        RF_UNROLL
        for (uint32_t i = 0; i < kind.dim / RF_KEYS_STRETCH; i++)
            rf_keys_fetch(sh->own[own].slot[i], a, &w->at, &p, i, kind.dim);
    }
    halves_load_second(sh, a, w, kind);
    halves_expect(sh, w, first + 2 * a->n_walks * RF_GPU_SEGMENT_BLOCKS);
    return own_pos;
}

/* Queries in sixteen bits, and the row's own key and value; before these keys that came in Q8_0 are made f16, which does
 * not wait for the kernel in front. */
RF_DEVICE void halves_take_heads(halves_shared *sh, const rf_gpu_attend_args *a,
                                 const halves_work *w, uint32_t own_pos, halves_kind kind) {
    if (kind.is_q8) {
        rf_copy_wait();
        halves_widen(sh, w, 32, halves_at(sh, w, w->at.warp).bits, ~0u, kind);
    }
    if (a->heads.n_parts > 0) halves_make_heads(sh, a, w, own_pos != RF_NO_OWN, kind);
    rf_await_before();
    if (a->heads.n_parts != 3) halves_put_queries(sh, a, w, kind);
    rf_sync();
    halves_renew(sh, w, w->at.segment, kind);
}

/* The column of a head that the thread's number k of them is. */
RF_DEVICE uint32_t halves_column(const halves_work *w, uint32_t k, halves_kind kind) {
    return 16 * halves_columns(w, k / 2, kind) + k % 2 * 8 + w->at.lane / 4;
}

/* The results of a walk over all segments, or with makes_ints for these. */
RF_DEVICE void halves_give(halves_shared *sh, const rf_gpu_attend_args *a, const halves_work *w,
                           const rf_walk_sum *total, int makes_ints, halves_kind kind) {
    const uint32_t h = w->at.lane % 4;
    const int is_here = w->at.in_group + h < a->n_heads / a->n_kv_heads;
    float *dst = a->dst + (uint64_t)(w->at.item + h) * kind.dim;
    if (!halves_has_columns(w, kind) || !(is_here || makes_ints)) return;
    RF_UNROLL
    for (uint32_t k = 0; k < 2 * halves_rounds(kind); k++) {
        float *to = makes_ints ? sh->made[0] + h * kind.dim : dst;
        to[halves_column(w, k, kind)] = rf_walk_result(total, k);
    }
}

/* A segment's as a part. */
RF_DEVICE void halves_put_part(const rf_gpu_attend_args *a, const halves_work *w,
                               const rf_walk_sum *t, uint32_t segment, halves_kind kind) {
    const uint32_t h = w->at.lane % 4;
    const uint64_t part = (uint64_t)(w->at.item + h) * a->n_splits + segment;
    float *dst = a->parts + part * kind.dim;
    if (w->at.in_group + h >= a->n_heads / a->n_kv_heads) return;
    if (rf_tid() < HALVES_HEADS) rf_put_part(a, part, t->m, t->l);
    if (!halves_has_columns(w, kind)) return;
    RF_UNROLL
    for (uint32_t k = 0; k < 2 * halves_rounds(kind); k++)
        dst[halves_column(w, k, kind)] = t->acc[k];
}

#if defined(RF_HOPPER)
/* Of a cluster each block has a segment, and folds some threads' numbers of all of them, in order. */
RF_DEVICE cluster_share halves_share(const rf_gpu_attend_args *a, halves_kind kind) {
    return cluster_share_of(2 * kind.dim, rf_bid_z() % a->n_walks, a->n_walks);
}
RF_DEVICE void halves_begin_cluster(halves_shared *sh, const rf_gpu_attend_args *a,
                                    halves_kind kind) {
    const cluster_share share = halves_share(a, kind);
    cluster_begin(&sh->come, a->n_walks * share.n_own * (uint32_t)sizeof(rf_f4));
}
RF_DEVICE void halves_fold_cluster(halves_shared *sh, const rf_gpu_attend_args *a,
                                   const halves_work *w, const rf_walk_sum *t, halves_kind kind) {
    const uint32_t n = a->n_walks, rank = rf_bid_z() % n, tid = rf_tid(), n_all = 2 * kind.dim;
    const cluster_share share = halves_share(a, kind);
    rf_f4 *room = (rf_f4 *)(void *)(rf_dynamic_shared + RF_ATTEND_HALVES_ROOM);
    const rf_f4 mine = {{t->m, t->l, t->acc[0], t->acc[1]}};
    cluster_await_begun();
    if (tid < n_all)
        cluster_put(room + rank * share.each + tid % share.each, &sh->come,
                    cluster_owner(tid, &share, n), mine);
    cluster_await(&sh->come); /* whoever ends has all that is sent to it */
    if (tid >= share.n_own) return;
    const uint32_t number = share.first + tid, h = number % 4, per_kv = a->n_heads / a->n_kv_heads;
    const int is_here = w->at.in_group + h < per_kv;
    rf_f4 of[RF_CLUSTER_MOST];
    RF_UNROLL
    for (uint32_t i = 0; i < RF_CLUSTER_MOST; i++)
        if (i < n) of[i] = room[i * share.each + tid];
    rf_walk_sum total;
    rf_walk_start(&total, a, (w->at.item + (is_here ? h : 0)) % a->n_heads);
    RF_UNROLL
    for (uint32_t i = 0; i < RF_CLUSTER_MOST; i++) {
        if (i >= n || of[i].v[1] == 0.0f) continue;
        const rf_walk_sum part = {of[i].v[0], of[i].v[1], {of[i].v[2], of[i].v[3], 0.0f, 0.0f}};
        rf_walk_fold_segment(&total, &part, 2);
    }
    float *dst =
        a->dst + (uint64_t)(w->at.item + h) * kind.dim + number / 32 * 16 + number % 32 / 4;
    RF_UNROLL
    for (uint32_t k = 0; k < 2 && is_here; k++)
        dst[8 * k] = rf_walk_result(&total, k);
}
#else
RF_DEVICE void halves_begin_cluster(halves_shared *sh, const rf_gpu_attend_args *a,
                                    halves_kind kind) {
    (void)sh, (void)a, (void)kind;
}
RF_DEVICE void halves_fold_cluster(halves_shared *sh, const rf_gpu_attend_args *a,
                                   const halves_work *w, const rf_walk_sum *t, halves_kind kind) {
    (void)sh, (void)a, (void)w, (void)t, (void)kind;
}
#endif

/* takes_late: the heads are taken in the loop, so that what does not change in it is reckoned before they wait for the
 * kernel in front, and again in each further turn, for want of registers. */
RF_DEVICE void halves_attend(const rf_gpu_attend_args *a, halves_kind kind, int makes_ints,
                             int takes_late, int in_cluster) {
    halves_shared *sh = (halves_shared *)(void *)rf_dynamic_shared;
    halves_work w;
    if (in_cluster) halves_begin_cluster(sh, a, kind);
    const uint32_t own_pos = halves_begin(sh, a, &w, kind);
    const rf_walk *at = &w.at;
    const uint32_t h = rf_min_u32(at->lane % 4, a->n_heads / a->n_kv_heads - at->in_group - 1);
    rf_walk_sum total; /* in a cluster of a segment */
    rf_walk_start(&total, a, at->item % a->n_heads + h);
    if (in_cluster) total.l = 0.0f;
    int are_taken = 0;
    if (!takes_late) halves_take_heads(sh, a, &w, own_pos, kind);
    RF_NO_UNROLL
    for (uint32_t segment = at->segment; segment < at->n_segments; segment += a->n_walks) {
        if (takes_late && !are_taken) halves_take_heads(sh, a, &w, own_pos, kind);
        are_taken = 1;
        const int goes_on = segment + a->n_walks < at->n_segments;
        float s[HALVES_TURNS][4];
        rf_walk_sum t;
        halves_score(s, sh, a, &w, segment, goes_on, kind);
        rf_sync();
        t.m = halves_soften(s, sh, a, &w, kind);
        halves_values(&t, sh, a, &w, segment, goes_on, kind);
        if (goes_on) halves_go_on(sh, a, &w, segment + a->n_walks, kind);
        if (in_cluster)
            total = t;
        else if (a->n_splits > 1)
            halves_put_part(a, &w, &t, segment, kind);
        else if (t.l != 0.0f)
            rf_walk_fold_segment(&total, &t, 2 * halves_rounds(kind));
    }
    if (takes_late && !are_taken) rf_await_before(); /* nothing is visible */
    if (in_cluster) {
        halves_fold_cluster(sh, a, &w, &total, kind);
        return;
    }
    if (a->n_splits == 1) halves_give(sh, a, &w, &total, makes_ints, kind);
    if (!makes_ints) return;
    rf_sync();
    rf_walk_put_both(a, sh->of_warps, sh->made[0], kind.dim,
                     HALVES_HEADS * kind.dim / (32 * kind.warps));
}

#define HALVES_BODY(dim, form, is_q8, warps, makes_ints, takes_late, in_cluster) \
    {                                                                            \
        const halves_kind kind = {(uint32_t)(dim), form, is_q8, warps};          \
        halves_attend(&a, kind, makes_ints, takes_late, in_cluster);             \
    }
/* kinds.def has their order: of either width F16, BF16, Q8_0, from kind number first on; not the first of all. */
#define HALVES_KIND(name, kind, n_blocks, ...)                     \
    RF_KERNEL_KIND_EARLY(name, kind, rf_gpu_attend_args, n_blocks) \
    HALVES_BODY(__VA_ARGS__)
#define HALVES_KERNEL(name, n_blocks, warps, makes_ints)                                    \
    RF_KERNEL_EARLY(name, rf_gpu_attend_args, n_blocks)                                     \
    HALVES_BODY(HALVES_DIM, RF_GPU_F16, 0, warps, makes_ints, 0, 0)                         \
    HALVES_KIND(name, 1, n_blocks, HALVES_DIM, RF_GPU_BF16, 0, warps, makes_ints, 0, 0)     \
    HALVES_KIND(name, 2, n_blocks, HALVES_DIM, RF_GPU_F16, 1, warps, makes_ints, 0, 0)      \
    HALVES_KIND(name, 3, n_blocks, HALVES_DIM / 2, RF_GPU_F16, 0, warps, makes_ints, 0, 0)  \
    HALVES_KIND(name, 4, n_blocks, HALVES_DIM / 2, RF_GPU_BF16, 0, warps, makes_ints, 0, 0) \
    HALVES_KIND(name, 5, n_blocks, HALVES_DIM / 2, RF_GPU_F16, 1, warps, makes_ints, 0, 0)
HALVES_KERNEL(attend_halves, 2, 8, 0)
/* Walks of one segment. */
HALVES_KIND(attend_halves, 6, 2, HALVES_DIM, RF_GPU_F16, 0, 8, 0, 1, 0)
HALVES_KIND(attend_halves, 7, 2, HALVES_DIM, RF_GPU_BF16, 0, 8, 0, 1, 0)
HALVES_KIND(attend_halves, 8, 2, HALVES_DIM, RF_GPU_F16, 1, 8, 0, 1, 0)
HALVES_KIND(attend_halves, 9, 2, HALVES_DIM / 2, RF_GPU_F16, 0, 8, 0, 1, 0)
HALVES_KIND(attend_halves, 10, 2, HALVES_DIM / 2, RF_GPU_BF16, 0, 8, 0, 1, 0)
HALVES_KIND(attend_halves, 11, 2, HALVES_DIM / 2, RF_GPU_F16, 1, 8, 0, 1, 0)
#if defined(RF_HOPPER)
/* The same, whose segments' blocks fold them together. */
RF_KERNEL_EARLY(attend_halves_cluster, rf_gpu_attend_args, 2)
HALVES_BODY(HALVES_DIM, RF_GPU_F16, 0, 8, 0, 1, 1)
HALVES_KIND(attend_halves_cluster, 1, 2, HALVES_DIM, RF_GPU_BF16, 0, 8, 0, 1, 1)
HALVES_KIND(attend_halves_cluster, 2, 2, HALVES_DIM, RF_GPU_F16, 1, 8, 0, 1, 1)
HALVES_KIND(attend_halves_cluster, 3, 2, HALVES_DIM / 2, RF_GPU_F16, 0, 8, 0, 1, 1)
HALVES_KIND(attend_halves_cluster, 4, 2, HALVES_DIM / 2, RF_GPU_BF16, 0, 8, 0, 1, 1)
HALVES_KIND(attend_halves_cluster, 5, 2, HALVES_DIM / 2, RF_GPU_F16, 1, 8, 0, 1, 1)
#endif
HALVES_KERNEL(attend_halves_small, 4, 4, 0)
/* Where rf_gpu_attend_makes_ints: by itself, since what that takes costs the other registers. */
HALVES_KERNEL(attend_halves_quant, 2, 8, 1)
HALVES_KERNEL(attend_halves_small_quant, 4, 4, 1)
#endif
