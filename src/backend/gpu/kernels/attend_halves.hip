/* attend_halves.hip - attention of few rows over keys and values in sixteen bits on NVIDIA's matrix
 * units, by half.h's rule (docs/arithmetic.md); a block of threads per row, KV head, up to four of the
 * query heads that share it, and walk over the segments.
 *
 * A warp has a KV block of each segment, or of four warps each two, one after the other: its keys come to shared
 * memory, its values to registers, the next one's keys as soon as the scores are made, its values as soon as these
 * are added.  Blocks of four warps are for many rows: a multiprocessor has four of them, and where contexts are short
 * no warps that have nothing to do.
 *
 * Sixteen keys, or sixteen columns of values, are the left side of an instruction; on the right each of
 * four heads has two columns, so that thread 4g + t gets head t, of keys g and g + 8 or of two columns of
 * values.  For values a thread brings four keys and eight neighbouring columns, as it has read them: which
 * row of an instruction a column is, and the order of keys in it, are free.
 *
 * Heads may be made here, too (own.h). */
#include "backend/gpu/kernels/half.h"
#include "backend/gpu/kernels/keys.h"
#include "backend/gpu/kernels/own.h"
#include "backend/gpu/tile.h"

#if !defined(RF_AMD)
enum {
    HALVES_DIM = RF_ATTEND_HALVES_DIM,
    HALVES_WARPS = RF_BLOCK_attend_halves / 32,
    HALVES_HEADS = RF_WALK_HEADS,
    HALVES_SLOTS = HALVES_DIM / (int)RF_KEYS_STRETCH,
    HALVES_VALUES = HALVES_DIM / 8, /* pieces of sixteen bytes of a KV block's values in a thread */
    HALVES_P_PITCH = 36,            /* halves of a head's exponentials */
};

/* A warp's own: keys, and exponentials. */
typedef struct halves_own {
    rf_u4 k[HALVES_SLOTS][RF_KEYS_SLOT];
    uint16_t p[HALVES_HEADS][HALVES_P_PITCH];
} halves_own;

typedef struct halves_shared {
    /* weighted values of the segment's KV blocks, a head's columns where halves_column says */
    rf_f4 sum[RF_GPU_SEGMENT_BLOCKS][HALVES_HEADS * HALVES_DIM / 4];
    rf_u4 q[HALVES_DIM / 32][HALVES_HEADS][4]; /* of each 32 columns what thread t of four brings */
    rf_u4 fresh[2][HALVES_DIM / 8];            /* the row's own key and value */
    float unit[HALVES_HEADS];                  /* of the scores */
    rf_walk_blocks blocks;
    uint32_t own_pos;             /* of the row's own key */
    halves_own own[HALVES_WARPS]; /* as many as there are warps */
} halves_shared;
#if !defined(RF_NVIDIA)
_Static_assert(sizeof(halves_shared) <= RF_ATTEND_HALVES_SHARED, "there is room");
_Static_assert(sizeof(halves_shared) - sizeof(halves_own) * HALVES_WARPS / 2 <=
                   RF_ATTEND_HALVES_SMALL_SHARED,
               "there is room");
#endif

/* Columns of a head, their format and the warps of a block, which are constants. */
typedef struct halves_kind {
    uint32_t dim, form, warps;
} halves_kind;

/* Where a head's column lies among its sums: neighbouring heads' eights meet other banks. */
RF_DEVICE uint32_t halves_column(uint32_t h, uint32_t col) {
    return h * HALVES_DIM + (col ^ h * 8);
}

/* What a thread works on. */
typedef struct halves_work {
    rf_walk at;
    rf_walk_block now, then; /* the warp's KV block, and the one behind it */
    rf_u4 v[HALVES_VALUES]; /* of each 64 columns, of sixteen keys, of the thread's four */
} halves_work;

/* The key of a KV block of which piece number i of values is. */
RF_DEVICE uint32_t halves_key(const halves_work *w, uint32_t i) {
    return i / 4 % 2 * 16 + i / 2 % 2 * 8 + w->at.lane % 4 * 2 + i % 2;
}

/* Keys and values --------------------------------------------------------------------------------*/

RF_DEVICE void halves_fetch_keys(halves_shared *sh, const rf_gpu_attend_args *a,
                                 const halves_work *w, const rf_walk_block *p, halves_kind kind) {
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / RF_KEYS_STRETCH; i++)
        rf_keys_fetch(sh->own[w->at.warp].k[i], a, &w->at, p, i, kind.dim);
}

RF_DEVICE void halves_load_values(const rf_gpu_attend_args *a, halves_work *w, halves_kind kind) {
    const uint32_t per_row = kind.dim / 8;
    const rf_u4 *from = (const rf_u4 *)a->v + rf_walk_row(&w->at, a, &w->now) * per_row +
                        halves_key(w, 0) * per_row + w->at.lane / 4;
    if (!w->now.bits) return;
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 8; i++)
        w->v[i] = rf_load_16(from + (i / 4 % 2 * 16 + i / 2 % 2 * 8 + i % 2) * per_row + i / 8 * 8);
}

/* The values of a segment's KV block of that turn on their way; which one comes behind it. */
RF_DEVICE void halves_expect(const rf_gpu_attend_args *a, halves_work *w, uint32_t segment,
                             uint32_t turn, halves_kind kind) {
    const uint32_t next = (turn + 1) * kind.warps;
    halves_load_values(a, w, kind);
    w->then = next == RF_GPU_SEGMENT_BLOCKS
                  ? rf_walk_block_of(&w->at, segment + a->n_walks)
                  : rf_walk_block_at(&w->at, segment * RF_GPU_SEGMENT_BLOCKS + next + w->at.warp);
}

/* The row's own key and value in their places, if the warp's KV block has them. */
RF_DEVICE void halves_renew(halves_shared *sh, halves_work *w, uint32_t block, halves_kind kind) {
    const uint32_t own = sh->own_pos % 32;
    if (sh->own_pos / 32 != block) return;
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / RF_KEYS_STRETCH; i++)
        rf_keys_renew(sh->own[w->at.warp].k[i], sh->fresh[0], &w->at, own, i, kind.dim);
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 8; i++) {
        const rf_u4 v = sh->fresh[1][i / 8 * 8 + w->at.lane / 4];
        RF_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            w->v[i].v[k] = halves_key(w, i) == own ? v.v[k] : w->v[i].v[k];
    }
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
        x[i] = q[w->at.lane + 32 * i];
        const uint32_t size = rf_bits_of(x[i]) & 0x7fffffffu;
        most = size > most ? size : most;
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
    sh->unit[h] = half_up(down) * a->scale;
}

/* Those of the block that the kernel in front has made. */
RF_DEVICE void halves_put_queries(halves_shared *sh, const rf_gpu_attend_args *a,
                                  const halves_work *w, halves_kind kind) {
    const uint32_t h = w->at.warp % HALVES_HEADS,
                   n_here = a->n_heads / a->n_kv_heads - w->at.in_group;
    const float *q = a->q + (uint64_t)(w->at.item + rf_min_u32(h, n_here - 1)) * kind.dim;
    halves_put_query(sh, a, w, q, h, 1, kind);
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
    float *x = (float *)(void *)sh->sum[w->at.warp];
    rf_own_make(x, &t);
    if (t.is_query || !may_skip)
        halves_put_query(sh, a, w, x, number % HALVES_HEADS, t.is_query, kind);
    if (!t.is_here || t.is_query) return;
    uint16_t *fresh = (uint16_t *)(void *)sh->fresh[t.is_value], *pool = (uint16_t *)(void *)t.pool;
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 32; i++) {
        const uint32_t k = w->at.lane + 32 * i;
        const uint16_t half = (uint16_t)half_bits_of(x[k], kind.form);
        fresh[k] = half;
        if (w->at.in_group == 0) pool[k] = half;
    }
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
        half_at_of((const uint8_t *)sh->own[w->at.warp].k + 16 * (row * RF_KEYS_PITCH + half));
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

/* From scores to the exponentials, maximum and sum of the segment's block of that number. */
RF_DEVICE void halves_soften(float s[4], halves_shared *sh, const rf_gpu_attend_args *a,
                             const halves_work *w, uint32_t segment, uint32_t number,
                             halves_kind kind) {
    const uint32_t block = segment * RF_GPU_SEGMENT_BLOCKS + number;
    const uint32_t apart[4] = {0, 8, 16, 24};
    const uint32_t lane = w->at.lane, g = lane / 4, h = lane % 4;
    const float m = rf_walk_soften(s, a, &w->at, block, w->now.bits, g, apart, sh->unit[h], 1);
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        sh->own[w->at.warp].p[h][g + apart[i]] = (uint16_t)half_bits_of(s[i], kind.form);
    float l = (s[0] + s[2]) + (s[1] + s[3]); /* keys 16 apart, 8 */
    RF_UNROLL
    for (uint32_t other = 16; other >= 4; other /= 2)
        l += rf_walk_lane_xor(l, other); /* 4, 2 and neighbours */
    if (lane >= HALVES_HEADS) return;
    rf_walk_put_block(&sh->blocks, number, h, m, l);
}

/* Weighted values --------------------------------------------------------------------------------*/

/* What is not visible becomes zeros, whatever lies there. */
RF_DEVICE void halves_hide(halves_work *w, halves_kind kind) {
    if (w->now.bits == 0xffffffffu) return;
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 8; i++) {
        const uint32_t seen = 0u - (w->now.bits >> halves_key(w, i) & 1);
        RF_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            w->v[i].v[k] &= seen;
    }
}

/* Columns 2 * pair and 1 more of the thread's eight of four keys, turned: a column of two keys in each
 * word. */
RF_DEVICE void halves_turn(uint32_t out[4], const rf_u4 *v, uint32_t pair) {
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t a = v[i / 2 * 2].v[pair], b = v[i / 2 * 2 + 1].v[pair];
        out[i] = rf_four_bytes(a, b, i % 2 ? 0x7632 : 0x5410);
    }
}

RF_DEVICE void halves_values(halves_shared *sh, halves_work *w, uint32_t number,
                             halves_kind kind) {
    const uint32_t lane = w->at.lane, h = lane % 4;
    uint32_t p[2][2];
    halves_hide(w, kind);
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint16_t *own = &sh->own[w->at.warp].p[lane / 8][16 * i + 2 * h];
        p[i][0] = *(const uint32_t *)(const void *)own;
        p[i][1] = *(const uint32_t *)(const void *)(own + 8);
    }
    RF_UNROLL
    for (uint32_t first = 0; first < kind.dim; first += 64) {
        rf_f4 out[2];
        RF_UNROLL
        for (uint32_t pair = 0; pair < 4; pair++) {
            float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            RF_UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                uint32_t columns[4];
                halves_turn(columns, w->v + first / 8 + 4 * i, pair);
                half_multiply(c, columns, p[i], kind.form);
            }
            out[pair / 2].v[pair % 2 * 2] = c[0];
            out[pair / 2].v[pair % 2 * 2 + 1] = c[2];
        }
        rf_f4 *to = sh->sum[number] + (halves_column(h, lane / 4 * 8) + first) / 4;
        to[0] = out[0];
        to[1] = out[1];
    }
}

/* The whole --------------------------------------------------------------------------------------*/

/* In place of what a warp without visible keys has not made. */
RF_DEVICE void halves_leave_out(halves_shared *sh, uint32_t lane, uint32_t number) {
    const rf_f4 zero = {{0.0f, 0.0f, 0.0f, 0.0f}};
    for (uint32_t i = lane; i < HALVES_HEADS * HALVES_DIM / 4; i += 32)
        sh->sum[number][i] = zero;
    rf_walk_leave_out(&sh->blocks, lane, number);
}

/* One warp's KV block of a segment, the first of its blocks there or a later one. */
RF_DEVICE void halves_block(halves_shared *sh, const rf_gpu_attend_args *a, halves_work *w,
                            uint32_t segment, uint32_t turn, halves_kind kind) {
    const uint32_t number = turn * kind.warps + w->at.warp,
                   block = segment * RF_GPU_SEGMENT_BLOCKS + number;
    const int is_made = !rf_warp_may_skip() || w->now.bits;
    float s[4];
    if (w->at.lane == 0) sh->blocks.bits[number] = w->now.bits;
    if (is_made) {
        rf_copy_wait();
        rf_warp_sync();
        halves_renew(sh, w, block, kind);
        rf_warp_sync();
        halves_scores(s, sh, w, kind);
        rf_warp_sync();
    }
    halves_fetch_keys(sh, a, w, &w->then, kind);
    if (is_made) {
        halves_soften(s, sh, a, w, segment, number, kind);
        rf_warp_sync();
        halves_values(sh, w, number, kind);
    }
    rf_warp_sync();
    if (!w->now.bits) halves_leave_out(sh, w->at.lane, number);
    w->now = w->then;
}

/* What of the walk does not depend on the kernel in front; the first segment's keys and values on their way.
 * Returns the position of the row's own key. */
RF_DEVICE uint32_t halves_begin(halves_shared *sh, const rf_gpu_attend_args *a,
                                halves_work *w, halves_kind kind) {
    w->at = rf_walk_of(a, HALVES_HEADS);
    const uint32_t own_pos = rf_own_pos(a, &w->at);
    if (rf_tid() == 0) sh->own_pos = own_pos;
    w->now = rf_walk_block_of(&w->at, w->at.segment);
    if (!rf_walk_is_old(a, &w->at)) rf_await_before();
    halves_fetch_keys(sh, a, w, &w->now, kind);
    halves_expect(a, w, w->at.segment, 0, kind);
    return own_pos;
}

/* Queries in sixteen bits, and the row's own key and value. */
RF_DEVICE void halves_take_heads(halves_shared *sh, const rf_gpu_attend_args *a,
                                 const halves_work *w, uint32_t own_pos, halves_kind kind) {
    if (a->heads.n_parts > 0) halves_make_heads(sh, a, w, own_pos != RF_NO_OWN, kind);
    rf_await_before();
    if (a->heads.n_parts != 3) halves_put_queries(sh, a, w, kind);
    rf_sync();
}

/* takes_late: the heads are taken in the loop, so that what does not change in it is reckoned before they wait for the
 * kernel in front, and again in each further turn, for want of registers. */
RF_DEVICE void halves_attend(const rf_gpu_attend_args *a, halves_kind kind, int makes_ints,
                             int takes_late) {
    halves_shared *sh = (halves_shared *)(void *)rf_dynamic_shared;
    const uint32_t dim = kind.dim;
    halves_work w;
    const uint32_t own_pos = halves_begin(sh, a, &w, kind);
    const rf_walk *at = &w.at;
    const rf_walk_columns c = rf_walk_columns_of(a, at, HALVES_HEADS, dim, 32 * kind.warps);
    const float *part = (const float *)sh->sum[0] + halves_column(c.h, c.col);
    rf_walk_sum total;
    rf_walk_start(&total, a, at->item % a->n_heads + (c.is_here ? c.h : 0));
    int are_taken = 0;
    if (!takes_late) halves_take_heads(sh, a, &w, own_pos, kind);
    RF_NO_UNROLL
    for (uint32_t segment = at->segment; segment < at->n_segments; segment += a->n_walks) {
        if (takes_late && !are_taken) halves_take_heads(sh, a, &w, own_pos, kind);
        are_taken = 1;
        halves_block(sh, a, &w, segment, 0, kind);
        RF_NO_UNROLL
        for (uint32_t turn = 1; turn < RF_GPU_SEGMENT_BLOCKS / kind.warps; turn++) {
            halves_expect(a, &w, segment, turn, kind);
            halves_block(sh, a, &w, segment, turn, kind);
        }
        rf_sync();
        rf_walk_end_segment(&total, &sh->blocks, a, at, &c, part, HALVES_HEADS * HALVES_DIM,
                            segment, c.col);
        const int goes_on = segment + a->n_walks < at->n_segments;
        /* not before: folding wants registers, and would wait behind them */
        if (goes_on) halves_expect(a, &w, segment + a->n_walks, 0, kind);
        if (goes_on || makes_ints) rf_sync(); /* integers' room is where folding reads */
    }
    if (takes_late && !are_taken) rf_await_before(); /* nothing is visible */
    if (makes_ints)
        rf_walk_put_both(a, &sh->blocks, &total, dim, c.n);
    else if (a->n_splits == 1 && c.is_here)
        rf_walk_put(a, &total, at->item + c.h, c.col, c.n);
}

#define HALVES_BODY(dim, form, warps, makes_ints, takes_late)    \
    {                                                            \
        const halves_kind kind = {(uint32_t)(dim), form, warps}; \
        halves_attend(&a, kind, makes_ints, takes_late);         \
    }
/* kinds.def has their order. */
#define HALVES_KERNEL(name, n_blocks, warps, makes_ints)          \
    RF_KERNEL_EARLY(name, rf_gpu_attend_args, n_blocks)           \
    HALVES_BODY(HALVES_DIM, RF_GPU_F16, warps, makes_ints, 0)     \
    RF_KERNEL_KIND_EARLY(name, 1, rf_gpu_attend_args, n_blocks)   \
    HALVES_BODY(HALVES_DIM, RF_GPU_BF16, warps, makes_ints, 0)    \
    RF_KERNEL_KIND_EARLY(name, 2, rf_gpu_attend_args, n_blocks)   \
    HALVES_BODY(HALVES_DIM / 2, RF_GPU_F16, warps, makes_ints, 0) \
    RF_KERNEL_KIND_EARLY(name, 3, rf_gpu_attend_args, n_blocks)   \
    HALVES_BODY(HALVES_DIM / 2, RF_GPU_BF16, warps, makes_ints, 0)
HALVES_KERNEL(attend_halves, 2, 8, 0)
/* Walks of one segment. */
RF_KERNEL_KIND_EARLY(attend_halves, 4, rf_gpu_attend_args, 2)
HALVES_BODY(HALVES_DIM, RF_GPU_F16, 8, 0, 1)
RF_KERNEL_KIND_EARLY(attend_halves, 5, rf_gpu_attend_args, 2)
HALVES_BODY(HALVES_DIM, RF_GPU_BF16, 8, 0, 1)
RF_KERNEL_KIND_EARLY(attend_halves, 6, rf_gpu_attend_args, 2)
HALVES_BODY(HALVES_DIM / 2, RF_GPU_F16, 8, 0, 1)
RF_KERNEL_KIND_EARLY(attend_halves, 7, rf_gpu_attend_args, 2)
HALVES_BODY(HALVES_DIM / 2, RF_GPU_BF16, 8, 0, 1)
HALVES_KERNEL(attend_halves_small, 4, 4, 0)
/* Where rf_gpu_attend_makes_ints: by itself, since what that takes costs the other registers. */
HALVES_KERNEL(attend_halves_quant, 2, 8, 1)
HALVES_KERNEL(attend_halves_small_quant, 4, 4, 1)
#endif
