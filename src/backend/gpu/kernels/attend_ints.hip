/* attend_ints.hip - attention of few rows over keys and values in Q8_0, for NVIDIA's GPUs; a
 * block of threads per row, KV head, up to four of the query heads that share it, and walk over
 * the segments.
 *
 * A warp has a KV block of each segment, whose keys and values come to shared memory as they lie
 * in the pools: the next segment's keys as soon as the scores are made, its values as soon as
 * these are added.  Scores and weighted values are products of tiles by the matrix units:
 * sixteen keys, or sixteen columns of values, with the two digits of four heads' queries or
 * weights.
 *
 * A row's groups begin with two bytes of scale, so that the words of shared memory hold a
 * group's columns from its second or third on, or two of one group and another's scale.  Sums of
 * integers do not depend on their order: words are multiplied as they are, with the columns of
 * the queries in the same order, and only of two words that each hold half of four columns one
 * is made.
 *
 * In a tile thread number lane of a warp brings rows lane / 4 and 8 more of the left side,
 * four columns from 4 * (lane % 4) on and 16 further, on the right side column lane / 4; it gets
 * columns 2 * (lane % 4) and 1 more of its rows: a head's upper digits and its lower ones.  So a
 * thread has scores of one head with four keys.
 *
 * Heads may be made here, too (own.h). */
#include "backend/gpu/kernels/digits.h"
#include "backend/gpu/kernels/ints.h"
#include "backend/gpu/kernels/own.h"
#include "backend/gpu/tile.h"

#if !defined(RF_AMD)
enum {
    INTS_DIM = RF_GPU_ATTEND_INTS_DIM,
    INTS_GROUPS = INTS_DIM / 32,
    INTS_WARPS = RF_BLOCK_attend_ints / 32,
    INTS_HEADS = RF_WALK_HEADS,
    INTS_ROW_WORDS = INTS_GROUPS * RF_KV_Q8_BYTES / 4,
    INTS_KV_BLOCK = 32 * INTS_ROW_WORDS / 4, /* pieces of 16 bytes */
    /* Floats of a head's exponentials and of its weighted values: no bank twice in a store. */
    INTS_P_PITCH = 40,
    INTS_SUM_PITCH = INTS_DIM + 8,
};

typedef struct ints_shared {
    rf_u4 k[INTS_WARPS][INTS_KV_BLOCK], v[INTS_WARPS][INTS_KV_BLOCK]; /* each warp's own */
    rf_f4 sum[INTS_WARPS][INTS_HEADS * INTS_SUM_PITCH / 4];           /* weighted values */
    rf_f4 p[INTS_WARPS][INTS_HEADS * INTS_P_PITCH / 4];               /* exponentials, */
    rf_f4 t[INTS_WARPS][INTS_GROUPS][8];         /* and what makes weights of them */
    rf_f4 inverse[INTS_WARPS], unit[INTS_WARPS]; /* of the weights of each group */
    rf_walk_blocks blocks;
    uint32_t q[INTS_HEADS][2][INTS_DIM / 4]; /* digits of queries, upper and lower */
    float q_unit[INTS_HEADS];                /* of the scores with them */
    uint32_t fresh[2][INTS_ROW_WORDS];       /* the row's own key and value */
} ints_shared;
#if !defined(RF_NVIDIA)
_Static_assert(sizeof(ints_shared) <= RF_ATTEND_INTS_SHARED, "there is room");
#endif

/* What a thread works on. */
typedef struct ints_work {
    rf_walk at;
    rf_walk_block now, then;    /* its KV blocks of this segment and the next */
    uint32_t q[INTS_GROUPS][2]; /* words of a digit of a head's query, for each group's tile */
    float unit;                 /* of the scores with the thread's head, number lane % 4 */
    uint32_t own_pos;           /* of the row's own key */
} ints_work;

enum { INTS_BEHIND = 0x3254 }; /* of rf_four_bytes: b's first two bytes, then a's last two */

/* Four words of four bytes, rows and columns exchanged; of rows' first two bytes those in low. */
RF_DEVICE void ints_turn(uint32_t out[4], const uint32_t low[4], const uint32_t high[4]) {
    const uint32_t a = rf_four_bytes(low[0], low[1], 0x5140), b = rf_four_bytes(low[2], low[3], 0x5140);
    const uint32_t c = rf_four_bytes(high[0], high[1], 0x7362),
                   d = rf_four_bytes(high[2], high[3], 0x7362);
    out[0] = rf_four_bytes(a, b, 0x5410);
    out[1] = rf_four_bytes(a, b, 0x7632);
    out[2] = rf_four_bytes(c, d, 0x5410);
    out[3] = rf_four_bytes(c, d, 0x7632);
}

/* c = a tile of 16 rows by 32 columns times one of 8 columns; all threads of a block call. */
RF_DEVICE void ints_multiply(int32_t c[4], const uint32_t a[4], const uint32_t b[2]) {
    c[0] = c[1] = c[2] = c[3] = 0;
#if defined(RF_NVIDIA)
    digit_multiply(c, a, b[0], b[1], 0);
#else
    RF_SHARED uint32_t words[RF_BLOCK_attend_ints][6];
    const uint32_t tid = rf_tid(), lane = tid % 32, warp = tid - lane;
    for (uint32_t i = 0; i < 6; i++)
        words[tid][i] = i < 4 ? a[i] : b[i - 4];
    rf_sync();
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t row = warp + lane / 4 * 4, col = warp + (2 * (lane % 4) + i % 2) * 4;
        for (uint32_t t = 0; t < 4; t++) {
            c[i] = rf_dot4(words[row + t][i / 2], words[col + t][4], c[i]);
            c[i] = rf_dot4(words[row + t][i / 2 + 2], words[col + t][5], c[i]);
        }
    }
    rf_sync();
#endif
}

/* The key of a KV block that has number number where exponentials and weights lie: thread lane's
 * four keys have the numbers from lane / 4 * 4 on.  The keys of eight neighbouring threads, which
 * read together, and a thread's of values, lie so that they meet all banks. */
RF_DEVICE uint32_t ints_key(uint32_t number) {
    const uint32_t four = number / 4, k = number % 4;
    return 4 * (four % 4) + four / 4 + 2 * (k % 2) + 16 * (k / 2);
}

/* Rows of the warp's KV block. */
RF_DEVICE uint32_t ints_row_words(uint32_t dim) { return dim / 32 * RF_KV_Q8_BYTES / 4; }
RF_DEVICE const uint32_t *ints_row(const rf_u4 *block, uint32_t key, uint32_t dim) {
    return (const uint32_t *)(const void *)block + key * ints_row_words(dim);
}
/* Words word, which is even, and the next. */
RF_DEVICE rf_u2 ints_two_words(const uint32_t *row, uint32_t word, uint32_t dim) {
    uint64_t both; /* one load */
    if (ints_row_words(dim) % 2 == 0)
        both = *(const uint64_t *)(const void *)(row + word);
    else
        both = (uint64_t)row[word + 1] << 32 | row[word];
    const rf_u2 two = {{(uint32_t)both, (uint32_t)(both >> 32)}};
    return two;
}

/* The warp's KV block on its way. */
RF_DEVICE void ints_fetch(rf_u4 *to, const void *pool, const rf_gpu_attend_args *a,
                          const rf_walk *w, const rf_walk_block *p, uint32_t dim) {
    const uint32_t n = 32 * ints_row_words(dim) / 4;
    const rf_u4 *from = (const rf_u4 *)pool + rf_walk_row(w, a, p) / 32 * n;
    if (p->bits) {
        RF_UNROLL
        for (uint32_t i = 0; i < INTS_KV_BLOCK; i += 32)
            if (i + 32 <= n || i + w->lane < n) rf_copy_16(to + i + w->lane, from + i + w->lane);
    }
    rf_copy_end();
}

/* Queries ---------------------------------------------------------------------------------------*/

/* A warp's head q as integers, number h of the block's; all threads of a block call, is_here:
 * its own. */
RF_DEVICE void ints_put_query(ints_shared *sh, const rf_gpu_attend_args *a, const rf_walk *w,
                              const float *q, uint32_t h, int is_here, uint32_t dim) {
    float x[INTS_GROUPS];
    uint32_t most = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < INTS_GROUPS; i++) {
        x[i] = 32 * i < dim ? q[w->lane + 32 * i] : 0.0f;
        most = rf_max_u32(most, rf_size_of(x[i]));
    }
    most = rf_warp_most(most);
    const float inverse = rf_query_inverse(most);
    if (!is_here) return;
    RF_UNROLL
    for (uint32_t i = 0; i < INTS_GROUPS; i++) {
        const int32_t n = rf_query_int(x[i], inverse);
        ((int8_t *)sh->q[h][0])[w->lane + 32 * i] = (int8_t)rf_upper_digit(n);
        ((int8_t *)sh->q[h][1])[w->lane + 32 * i] = (int8_t)rf_lower_digit(n);
    }
    sh->q_unit[h] = rf_query_scale(most) * a->scale;
}

/* Those of the block that the kernel in front has made. */
RF_DEVICE void ints_put_queries(ints_shared *sh, const rf_gpu_attend_args *a, const rf_walk *w,
                                uint32_t dim) {
    const uint32_t h = w->warp % INTS_HEADS, n_here = a->n_heads / a->n_kv_heads - w->in_group;
    const float *q = a->q + (uint64_t)(w->item + rf_min_u32(h, n_here - 1)) * dim;
    ints_put_query(sh, a, w, q, h, 1, dim);
}

/* A warp's head x as a row of the cache. */
RF_DEVICE void ints_put_row(uint8_t *row, const float *x, uint32_t lane, int is_here,
                            uint32_t dim) {
    RF_NO_UNROLL
    for (uint32_t g = 0; g < dim / 32; g++) {
        const rf_q8_own own = rf_q8_own_of(x[lane + 32 * g]);
        if (is_here) rf_q8_put_own(row + g * RF_KV_Q8_BYTES, lane, own);
    }
}

/* Queries, and where the walk comes by them the row's own key and value, as the argument's heads
 * say; waits for the kernel in front.  The block of the first query heads puts them into the
 * pools, too. */
RF_DEVICE void ints_make_heads(ints_shared *sh, const rf_gpu_attend_args *a, const rf_walk *w,
                               int has_own, uint32_t dim) {
    rf_own_head t = rf_own_head_of(a, w, INTS_HEADS, has_own, w->warp);
    const int is_row = t.is_here && !t.is_query, may_skip = rf_warp_may_skip();
    uint32_t *row = sh->fresh[t.is_value];
    rf_await_before();
    if (may_skip && !t.is_here) return;
    float *x = (float *)(void *)sh->p[w->warp];
    rf_own_make(x, &t);
    if (t.is_query || !may_skip)
        ints_put_query(sh, a, w, x, w->warp % INTS_HEADS, t.is_query, dim);
    if (is_row || !may_skip) ints_put_row((uint8_t *)row, x, w->lane, is_row, dim);
    rf_warp_sync();
    if (!is_row || w->in_group > 0) return;
    for (uint32_t i = w->lane; i < ints_row_words(dim); i += 32)
        ((uint32_t *)(void *)t.pool)[i] = row[i];
}

/* The row's own key or value in its place, if the warp's KV block has it. */
RF_DEVICE void ints_renew(rf_u4 *block, const uint32_t *fresh, const ints_work *w, uint32_t number,
                          uint32_t dim) {
    if (w->own_pos / 32 != number) return;
    uint32_t *row = (uint32_t *)(void *)block + w->own_pos % 32 * ints_row_words(dim);
    for (uint32_t i = w->at.lane; i < ints_row_words(dim); i += 32)
        row[i] = fresh[i];
}

/* The thread's words of a digit, in the order of columns in which ints_load_key has those of
 * keys. */
RF_DEVICE void ints_load_query(ints_work *w, const ints_shared *sh, uint32_t dim) {
    const uint32_t t = w->at.lane % 4, n = w->at.lane / 4;
    const uint16_t *from = (const uint16_t *)(const void *)sh->q[n / 2][n % 2];
    RF_UNROLL
    for (uint32_t g = 0; g < dim / 32; g++) {
        const uint32_t first = 8 * t + (g == 0 ? 30 : 6 - 2 * g);
        RF_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t col = first + 4 * i;
            w->q[g][i] = from[16 * g + col % 32 / 2] |
                         (uint32_t)from[16 * g + (col + 2) % 32 / 2] << 16;
        }
    }
    w->unit = sh->q_unit[t];
}

/* Scores ----------------------------------------------------------------------------------------*/

/* A thread's two words of each group of a key, and the key's scales. */
typedef struct ints_words {
    uint32_t v[INTS_GROUPS][2];
    float scale[INTS_GROUPS];
} ints_words;

RF_DEVICE float ints_scale_in(uint32_t word, uint32_t half) {
    return rf_f16_at((uint16_t)(word >> 16 * half));
}

/* Groups begin in words 0, 8, 17 and 25: with two columns behind a scale, or with the scale
 * behind the last two columns of the group in front. */
RF_DEVICE ints_words ints_load_key(const uint32_t *row, uint32_t t, uint32_t dim) {
    ints_words k;
    rf_u2 own = ints_two_words(row, 2 * t, dim);
    const rf_u2 one = ints_two_words(row, 8, dim);
    k.scale[0] = ints_scale_in(row[0], 0);
    k.scale[1] = ints_scale_in(one.v[0], 1);
    k.v[0][0] = rf_four_bytes(own.v[0], one.v[0], t == 0 ? INTS_BEHIND : 0x3210);
    k.v[0][1] = own.v[1];
    own = ints_two_words(row, 10 + 2 * t, dim);
    k.v[1][0] = own.v[0];
    k.v[1][1] = t == 3 ? one.v[1] : own.v[1];
    if (dim <= 64) return k;
    const uint32_t two = row[17], three = row[25];
    k.scale[2] = ints_scale_in(two, 0);
    k.scale[3] = ints_scale_in(three, 1);
    own = ints_two_words(row, 18 + 2 * t, dim);
    k.v[2][0] = own.v[0];
    k.v[2][1] = t == 3 ? rf_four_bytes(two, three, INTS_BEHIND) : own.v[1];
    own = ints_two_words(row, 26 + 2 * t, dim);
    k.v[3][0] = own.v[0];
    k.v[3][1] = own.v[1];
    return k;
}

/* Of the thread's head with its four keys. */
RF_DEVICE void ints_scores(float s[4], const ints_shared *sh, const ints_work *w, uint32_t dim) {
    const uint32_t lane = w->at.lane;
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i += 2) {
        const uint32_t *row = ints_row(sh->k[w->at.warp], ints_key(lane / 4 * 4 + i), dim);
        const ints_words a = ints_load_key(row, lane % 4, dim);
        const ints_words b = ints_load_key(row + 2 * ints_row_words(dim), lane % 4, dim);
        s[i] = s[i + 1] = 0.0f;
        RF_UNROLL
        for (uint32_t g = 0; g < dim / 32; g++) {
            const uint32_t tile[4] = {a.v[g][0], b.v[g][0], a.v[g][1], b.v[g][1]};
            int32_t c[4];
            ints_multiply(c, tile, w->q[g]);
            s[i] = rf_fma((float)rf_digits_sum(c[0], c[1]), a.scale[g], s[i]);
            s[i + 1] = rf_fma((float)rf_digits_sum(c[2], c[3]), b.scale[g], s[i + 1]);
        }
    }
}

/* From scores to the block's exponentials, maximum and sum; the order of keys is that of
 * ints_key. */
RF_DEVICE void ints_soften(float s[4], ints_shared *sh, const rf_gpu_attend_args *a,
                           const ints_work *w, uint32_t block) {
    const uint32_t lane = w->at.lane, first = ints_key(lane / 4 * 4), h = lane % 4;
    const uint32_t apart[4] = {ints_key(0), ints_key(1), ints_key(2), ints_key(3)};
    const float m = rf_walk_soften(s, a, &w->at, block, w->now.bits, first, apart, w->unit);
    const rf_f4 all = {{s[0], s[1], s[2], s[3]}};
    sh->p[w->at.warp][h * INTS_P_PITCH / 4 + lane / 4] = all;
    float l = s[0] + s[2], l_2 = s[1] + s[3]; /* keys 16 apart, */
    l += rf_walk_lane_xor(l, 8);                 /* 8, */
    l_2 += rf_walk_lane_xor(l_2, 8);
    l += rf_walk_lane_xor(l, 4); /* 4, */
    l_2 += rf_walk_lane_xor(l_2, 4);
    l += l_2;                  /* 2 */
    l += rf_walk_lane_xor(l, 16); /* and neighbours */
    if (lane >= INTS_HEADS) return;
    rf_walk_put_block(&sh->blocks, w->at.warp, h, m, l);
}

/* Weighted values -------------------------------------------------------------------------------*/

/* What weights are made with: t of a key in each group, unit and inverse of the group. */
RF_DEVICE void ints_scale_values(ints_shared *sh, const ints_work *w, uint32_t dim) {
    const uint32_t lane = w->at.lane, warp = w->at.warp, key = ints_key(lane);
    const uint8_t *row = (const uint8_t *)ints_row(sh->v[warp], key, dim);
    const int is_seen = (int)(w->now.bits >> key & 1);
    float scale[INTS_GROUPS];
    uint32_t most = 0;
    RF_UNROLL
    for (uint32_t g = 0; g < dim / 32; g++) {
        scale[g] = rf_ints_scale(rf_ints_group(row, RF_DT_Q8_0, g));
        const uint32_t m = rf_warp_most(is_seen ? rf_size_of(scale[g]) : 0);
        most = lane % INTS_GROUPS == g ? m : most;
    }
    if (lane < INTS_GROUPS) {
        sh->inverse[warp].v[lane] = rf_weight_inverse(most);
        sh->unit[warp].v[lane] = rf_weight_unit(most);
    }
    rf_warp_sync();
    const rf_f4 inverse = sh->inverse[warp];
    RF_UNROLL
    for (uint32_t g = 0; g < dim / 32; g++)
        ((float *)sh->t[warp][g])[lane] = is_seen ? scale[g] * inverse.v[g] : 0.0f;
}

/* A digit of four weights, the upper one or the lower.  Here both have a sign: n = 256 * upper +
 * lower, and n + 128 has the upper one and 128 more than the lower in its bytes. */
RF_DEVICE uint32_t ints_digits(rf_f4 p, rf_f4 t, int is_upper) {
    const uint32_t from = is_upper ? 0x51 : 0x40;
    uint32_t n[4];
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        n[i] = rf_bits_of(rf_fma(p.v[i], t.v[i], RF_INTS_MAGIC + 128.0f));
    const uint32_t both =
        rf_four_bytes(rf_four_bytes(n[0], n[1], from), rf_four_bytes(n[2], n[3], from), 0x5410);
    return both ^ (is_upper ? 0 : 0x80808080u);
}
RF_DEVICE int32_t ints_weighted(int32_t upper, int32_t lower) { return 256 * upper + lower; }

/* Four columns of group g of four keys from row on, a word for each column.  Where a group has
 * half a word at either end, the first eighth of the threads have both. */
RF_DEVICE void ints_load_values(uint32_t out[4], const uint32_t *row, uint32_t g, uint32_t eighth,
                                uint32_t dim) {
    const uint32_t first[4] = {0, 9, 17, 26}, at = first[g] + eighth,
                   at_low = g % 2 == 0 && eighth == 0 ? first[g] + 8 : at;
    uint32_t low[4], high[4];
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t *key = row + ints_key(i) * ints_row_words(dim);
        high[i] = key[at];
        low[i] = g % 2 == 0 ? key[at_low] : high[i];
    }
    ints_turn(out, low, high);
}

/* The column of a head's result whose weighted values have number number in shared memory. */
RF_DEVICE uint32_t ints_column(uint32_t number) {
    return number / 32 % 2 == 0 ? number / 32 * 32 + (number + 30) % 32 : number;
}

RF_DEVICE void ints_values(ints_shared *sh, const ints_work *w, uint32_t dim) {
    const uint32_t lane = w->at.lane, warp = w->at.warp, t = lane % 4, eighth = lane / 4;
    const int is_upper = eighth % 2 == 0;
    const rf_f4 *p = sh->p[warp] + eighth / 2 * (INTS_P_PITCH / 4) + t;
    const rf_f4 p_0 = p[0], p_1 = p[4];
    const uint32_t *row = ints_row(sh->v[warp], 4 * t, dim);
    const rf_f4 unit = sh->unit[warp];
    rf_f4 out[INTS_GROUPS];
    RF_UNROLL
    for (uint32_t g = 0; g < dim / 32; g++) {
        const uint32_t digits[2] = {ints_digits(p_0, sh->t[warp][g][t], is_upper),
                                    ints_digits(p_1, sh->t[warp][g][t + 4], is_upper)};
        uint32_t x[4], y[4];
        ints_load_values(x, row, g, eighth, dim);
        ints_load_values(y, row + ints_row_words(dim), g, eighth, dim);
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i += 2) {
            const uint32_t tile[4] = {x[i], x[i + 1], y[i], y[i + 1]};
            int32_t c[4];
            ints_multiply(c, tile, digits);
            out[g].v[i] = (float)ints_weighted(c[0], c[1]) * unit.v[g];
            out[g].v[i + 1] = (float)ints_weighted(c[2], c[3]) * unit.v[g];
        }
    }
    RF_UNROLL
    for (uint32_t g = 0; g < dim / 32; g++)
        sh->sum[warp][(t * INTS_SUM_PITCH + 32 * g + 4 * eighth) / 4] = out[g];
}

/* The whole -------------------------------------------------------------------------------------*/

/* In place of what a warp without visible keys has not made. */
RF_DEVICE void ints_leave_out(ints_shared *sh, const rf_walk *w) {
    const rf_f4 zero = {{0.0f, 0.0f, 0.0f, 0.0f}};
    for (uint32_t i = w->lane; i < INTS_HEADS * INTS_SUM_PITCH / 4; i += 32)
        sh->sum[w->warp][i] = zero;
    rf_walk_leave_out(&sh->blocks, w->lane, w->warp);
}

/* One warp's part of a segment; turns to the next segment. */
RF_DEVICE void ints_block(ints_shared *sh, const rf_gpu_attend_args *a, ints_work *w,
                          uint32_t segment, uint32_t dim) {
    const uint32_t warp = w->at.warp, block = segment * RF_GPU_SEGMENT_BLOCKS + warp;
    const int is_made = !rf_warp_may_skip() || w->now.bits;
    const rf_walk_block after = rf_walk_block_of(&w->at, segment + 2 * a->n_walks);
    float s[4];
    if (w->at.lane == 0) sh->blocks.bits[warp] = w->now.bits;
    rf_copy_wait_but(1); /* the values */
    rf_warp_sync();
    ints_renew(sh->k[warp], sh->fresh[0], w, block, dim);
    rf_warp_sync();
    if (is_made) ints_scores(s, sh, w, dim);
    rf_warp_sync();
    ints_fetch(sh->k[warp], a->k, a, &w->at, &w->then, dim);
    if (is_made) ints_soften(s, sh, a, w, block);
    rf_copy_wait_but(1); /* the next keys */
    rf_warp_sync();
    ints_renew(sh->v[warp], sh->fresh[1], w, block, dim);
    rf_warp_sync();
    if (is_made) {
        ints_scale_values(sh, w, dim);
        rf_warp_sync();
        ints_values(sh, w, dim);
    }
    rf_warp_sync();
    if (!w->now.bits) ints_leave_out(sh, &w->at);
    ints_fetch(sh->v[warp], a->v, a, &w->at, &w->then, dim);
    w->now = w->then;
    w->then = after;
}

/* The first segment's keys and values on their way, queries as integers. */
RF_DEVICE void ints_begin(ints_shared *sh, const rf_gpu_attend_args *a, ints_work *w) {
    const rf_walk *at = &w->at;
    const uint32_t dim = a->head_dim;
    w->at = rf_walk_of(a, INTS_HEADS);
    w->own_pos = rf_own_pos(a, at);
    w->now = rf_walk_block_of(at, at->segment);
    w->then = rf_walk_block_of(at, at->segment + a->n_walks);
    if (!rf_walk_is_old(a, at, at->warp)) rf_await_before();
    ints_fetch(sh->k[at->warp], a->k, a, at, &w->now, dim);
    ints_fetch(sh->v[at->warp], a->v, a, at, &w->now, dim);
    if (a->heads.n_parts > 0) ints_make_heads(sh, a, at, w->own_pos != RF_NO_OWN, dim);
    rf_await_before();
    if (a->heads.n_parts != 3) ints_put_queries(sh, a, at, dim);
    rf_sync();
}

RF_DEVICE void ints_attend(ints_shared *sh, const rf_gpu_attend_args *a, ints_work *w,
                           uint32_t dim) {
    const rf_walk *at = &w->at;
    const rf_walk_columns c = rf_walk_columns_of(a, at, INTS_HEADS, dim, RF_WALK_THREADS);
    const float *part = (const float *)sh->sum[0] + c.h * INTS_SUM_PITCH + c.col;
    const uint32_t to = ints_column(c.col);
    rf_walk_sum total;
    rf_walk_start(&total, a, at->item % a->n_heads + (c.is_here ? c.h : 0));
    ints_load_query(w, sh, dim);
    for (uint32_t segment = at->segment; segment < at->n_segments; segment += a->n_walks) {
        ints_block(sh, a, w, segment, dim);
        rf_sync();
        rf_walk_end_segment(&total, &sh->blocks, a, at, &c, part, INTS_HEADS * INTS_SUM_PITCH,
                            segment, to);
        rf_sync();
    }
    if (a->n_splits == 1 && c.is_here) rf_walk_put(a, &total, at->item + c.h, to, c.n);
}

RF_KERNEL_EARLY(attend_ints, rf_gpu_attend_args, 2) {
    ints_shared *sh = (ints_shared *)(void *)rf_dynamic_shared;
    ints_work w;
    ints_begin(sh, &a, &w);
    ints_attend(sh, &a, &w, INTS_DIM);
}
RF_KERNEL_KIND_EARLY(attend_ints, 1, rf_gpu_attend_args, 2) {
    ints_shared *sh = (ints_shared *)(void *)rf_dynamic_shared;
    ints_work w;
    ints_begin(sh, &a, &w);
    ints_attend(sh, &a, &w, INTS_DIM / 2);
}
#endif
