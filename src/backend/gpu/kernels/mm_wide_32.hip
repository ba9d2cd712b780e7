/* mm_wide_32.hip - products of weights in groups of 32 with very many activation rows on Hopper's matrix units.
 *
 * A group is a product of f16, added up in f32: of the weights' integers, and of those of the activations times their
 * scale, which has four significant bits (docs/arithmetic.md), so that f16 has all of these as they are.  A group's
 * sum is less than 2^24 times its least bit and therefore exact, and the weights' scale is all that is left
 * to multiply it with: the bits of integers times both scales, by one operation instead of three.
 *
 * First `wide_rows_32` lays the activations out, which it quantises if they are floats, once for all weights, in stages
 * as they will lie in shared memory: 128 rows by four groups.  Where f16 does not have a scale's multiples a stage has integers alone: it is plain, and its
 * sums are multiplied with the scales.  Then a block goes through tiles of 128 weight rows by 128 activation rows
 * as that of mm_wide.hip does, behind which this file and mm_ahead.hip are included.  Four warps bring stages, weights
 * as they lie in memory, or as mm_kept_32.hip made them once.  Two teams of four warps make f16 of 64 weight rows each in
 * registers, which the units read.
 * A turn is four stages; of its groups two are on their way while another is added. */

#include "backend/gpu/kernels/norm.h"

#if defined(RF_HOPPER)
enum {
    GROUPS_TILES = (int)RF_WIDE_ROWS / (int)RF_GPU_TILE_ROWS, /* of weights, in a block's tile */
    GROUPS_STAGES = RF_GROUPS_STAGES,
    GROUPS_OF_TURN = GROUPS_STAGES * (int)RF_GROUPS_MANY,
    GROUPS_PIECE = 512, /* bytes of four columns in eight, or eight in four bits, of 32 rows' 128 */
    GROUPS_ONE = 0x3c00, /* as f16 */
    GROUPS_SIXTEENTH = 0x2c00,
    GROUPS_MAKERS = RF_BLOCK_wide_rows_32 / 32, /* warps, each of which makes integers of a row */
    GROUPS_AT_ONCE = 4,                         /* rows of it whose floats are on their way */
};
#define GROUPS_UP \
    64.0f /* what scales of activations are multiplied with, so that f16 has more of them */
#define KEPT_UP \
    0x1p24f /* what factors are multiplied with that are kept: integers are as much less */

typedef struct groups_shared {
    uint64_t full[GROUPS_STAGES], empty[GROUPS_STAGES];
} groups_shared;

/* What is constant in a kernel; is_kept: weights are as mm_kept_32.hip makes them, whatever they were.  Of a tile with fewer
 * weight rows than whole ones, which only these have, teams share the activation rows, as in mm_wide.hip: n each. */
typedef struct groups_kind {
    uint32_t lo_bits, hi_bits, with_m, d_f32, is_kept;
    rf_groups_parts at;
    uint32_t rows, n;
} groups_kind;

RF_DEVICE uint32_t groups_stages(const rf_gpu_matmul_args *a) {
    return rf_div_up(a->part[0].w.cols, RF_GROUPS_COLS);
}

/* Where activations lie, [stretches][stages], and behind them whether each stage is plain, a byte, of a turn
 * one word. */
RF_DEVICE uint8_t *groups_x_at(const rf_gpu_matmul_args *a, const groups_kind *k, uint32_t stretch,
                               uint32_t stage) {
    return a->ahead + ((uint64_t)stretch * groups_stages(a) + stage) * k->at.x_bytes;
}
RF_DEVICE uint8_t *groups_plain_at(const rf_gpu_matmul_args *a, const groups_kind *k,
                                   uint32_t stretch) {
    return groups_x_at(a, k, ahead_stretches(a), 0) +
           (uint64_t)stretch * rf_div_up(groups_stages(a), GROUPS_STAGES) * 4;
}

/* Activation rows -------------------------------------------------------------------------------*/

/* Whether f16 has all of -127 .. 127 times a scale of four significant bits. */
RF_DEVICE int groups_has(float d) { return d <= 512.0f && rf_f16_at(rf_f16_of(d)) == d; }

/* Half of a row of a stage, two groups; rows beyond the last are the last, groups beyond the last are zeros. */
typedef struct groups_row {
    uint32_t words[2][8];
    float d[2], sum[2];
} groups_row;

RF_DEVICE void groups_read_row(groups_row *r, const rf_gpu_matmul_args *a, uint32_t row,
                               uint32_t first) {
    const uint32_t n_groups = a->part[0].w.cols / 32;
    const rf_u4 *q = (const rf_u4 *)(const void *)a->xq.q;
    RF_UNROLL
    for (uint32_t c = 0; c < 2; c++) {
        const uint32_t is_there = first + c < n_groups;
        const uint64_t group = (uint64_t)row * n_groups + rf_min_u32(first + c, n_groups - 1);
        const rf_u4 one = q[2 * group], other = q[2 * group + 1];
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            r->words[c][i] = is_there ? one.v[i] : 0;
            r->words[c][4 + i] = is_there ? other.v[i] : 0;
        }
        r->d[c] = is_there ? a->xq.d[group] * GROUPS_UP : 0.0f;
        r->sum[c] = is_there && a->part[0].w.m ? (float)a->xq.sum[group] : 0.0f;
    }
}

/* Some bits of a word, others turned over: one instruction, of which compilers make two. */
RF_DEVICE uint32_t groups_bits(uint32_t word, uint32_t some, uint32_t flip) {
#if defined(RF_NVIDIA)
    uint32_t out;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(out) : "r"(word), "r"(some), "r"(flip));
    return out;
#else
    return (word & some) ^ flip;
#endif
}

/* Bytes 0 and 2 of four, and 1 and 3, as f16: from 1024 on these have integers as their last bits.  They become
 * unsigned by flip, which has 1024 in it, and are less by less than 1024. */
RF_DEVICE rf_u2 groups_halves(uint32_t bytes, uint32_t flip, uint16_t less) {
    const rf_u2 out = {{digit_less(groups_bits(bytes, 0x00ff00ffu, flip), less),
                        digit_less(groups_bits(bytes >> 8, 0x00ff00ffu, flip), less)}};
    return out;
}
/* Of signed bytes. */
RF_DEVICE rf_u2 groups_signed(uint32_t bytes) { return groups_halves(bytes, 0x64806480u, 0x6480); }

/* Where a stage has the sum of group c of activation row own: those that a thread wants lie in a row. */
RF_DEVICE uint32_t groups_sum_at(uint32_t c, uint32_t own) {
    return (c * 4 + own % 8 / 2) * RF_GROUPS_SUMS + own / 8 * 2 + own % 2;
}

/* A group as f16 times one: of each half sixteen columns, the first and third of every four and then the others, as
 * the threads that multiply have the weights. */
RF_DEVICE void groups_put(uint8_t *panel, uint32_t row, uint32_t c, const uint32_t words[8],
                          uint16_t one) {
    RF_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        rf_u4 piece[2];
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const rf_u2 four = groups_signed(words[4 * half + i]);
            piece[0].v[i] = digit_times(four.v[0], one);
            piece[1].v[i] = digit_times(four.v[1], one);
        }
        RF_UNROLL
        for (uint32_t i = 0; i < 2; i++)
            *(rf_u4 *)(void *)(panel + row * 128 + ((4 * c + 2 * half + i) ^ row % 8) * 16) =
                piece[i];
    }
}

/* A stage's rows that are in integers, two threads a row; returns whether f16 has the scales of this thread's, which
 * are left out where that is known of the stage not to be so. */
RF_DEVICE int groups_take(uint8_t *made, const rf_gpu_matmul_args *a, const groups_kind *k,
                          int is_plain) {
    const uint32_t half = rf_tid() / RF_WIDE_COLS, own = rf_tid() % RF_WIDE_COLS;
    groups_row r;
    groups_read_row(&r, a, rf_min_u32(rf_bid_y() * RF_WIDE_COLS + own, a->n_rows - 1),
                    4 * rf_bid_x() + 2 * half);
    RF_UNROLL
    for (uint32_t c = 0; c < 2; c++) {
        groups_put(made + half * RF_GROUPS_PANEL, own, c, r.words[c],
                   is_plain ? GROUPS_ONE : rf_f16_of(r.d[c]));
        if (k->with_m)
            ((float *)(void *)(made + k->at.sum))[groups_sum_at(2 * half + c, own)] =
                r.sum[c] * r.d[c];
    }
    return groups_has(r.d[0]) && groups_has(r.d[1]);
}

/* Four floats of row own of the stage, of whose four groups eight neighbouring threads have one each: quantised as norm.h
 * does, and put as groups_put does. */
RF_DEVICE int groups_make_four(uint8_t *made, const rf_gpu_matmul_args *a, const groups_kind *k,
                               const float v[4], uint32_t own, int is_plain) {
    const uint32_t c = rf_tid() % 32 / 8, word = rf_tid() % 8, n_groups = a->part[0].w.cols / 32;
    const uint32_t row = rf_bid_y() * RF_WIDE_COLS + own, group = 4 * rf_bid_x() + c;
    uint32_t most = quant_size(v);
    quant_most(&most, 1, 8);
    const rf_quant_scale s = rf_quant_scale_of(rf_float_of(most), 32);
    const uint32_t q = quant_four(v, s.id);
    const uint16_t one = is_plain ? GROUPS_ONE : rf_f16_of(s.d * GROUPS_UP);
    const rf_u2 four = groups_signed(q);
    uint8_t *panel = made + c / 2 * RF_GROUPS_PANEL + own * 128 + word % 4 * 4;
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        *(uint32_t *)(void *)(panel + ((c % 2 * 4 + word / 4 * 2 + i) ^ own % 8) * 16) =
            digit_times(four.v[i], one);
    if (k->with_m) {
        uint32_t sum = (uint32_t)rf_dot4(q, 0x01010101u, 0);
        quant_sum(&sum, 1, 8);
        if (word == 0)
            ((float *)(void *)(made + k->at.sum))[groups_sum_at(c, own)] =
                (float)(int32_t)sum * (s.d * GROUPS_UP);
    }
    if (word == 0 && row < a->n_rows && group < n_groups)
        a->xq.d[(uint64_t)row * n_groups + group] = s.d; /* for plain stages */
    return groups_has(s.d * GROUPS_UP);
}

/* The same of rows in floats, a warp a row. */
RF_DEVICE int groups_make(uint8_t *made, const rf_gpu_matmul_args *a, const groups_kind *k,
                          int is_plain) {
    const uint32_t cols = a->part[0].w.cols, col = rf_bid_x() * RF_GROUPS_COLS + rf_tid() % 32 * 4;
    int has = 1;
    RF_NO_UNROLL
    for (uint32_t own = rf_tid() / 32; own < RF_WIDE_COLS; own += GROUPS_MAKERS * GROUPS_AT_ONCE) {
        float v[GROUPS_AT_ONCE][4];
        RF_UNROLL
        for (uint32_t i = 0; i < GROUPS_AT_ONCE; i++) {
            const uint32_t row = rf_bid_y() * RF_WIDE_COLS + own + GROUPS_MAKERS * i;
            norm_load(v[i], a->x + (uint64_t)rf_min_u32(row, a->n_rows - 1) * cols, col, cols);
        }
        RF_UNROLL
        for (uint32_t i = 0; i < GROUPS_AT_ONCE; i++)
            has &= groups_make_four(made, a, k, v[i], own + GROUPS_MAKERS * i, is_plain);
    }
    return has;
}

/* Grid x: stages; y: stretches of activation rows, in integers or, with x, in floats. */
RF_KERNEL_EARLY(wide_rows_32, rf_gpu_matmul_args, 3) {
    RF_SHARED uint32_t plain;
    const uint32_t with_m = a.part[0].w.m != NULL;
    const groups_kind k = {0, 0, with_m, 0, 0, rf_groups_parts_of(0, 0, with_m), 0, 0};
    uint8_t *made = hopper_shared;
    uint32_t is_plain = 0;
    if (rf_tid() == 0) plain = 0;
    rf_sync();
    rf_await_before();
    RF_NO_UNROLL
    for (int turn = 0; turn < 2; turn++) {
        const int has = a.x ? groups_make(made, &a, &k, turn) : groups_take(made, &a, &k, turn);
        if (turn == 0 && !has) plain = 1;
        rf_sync();
        is_plain = plain;
        if (!is_plain) break;
    }
    if (rf_tid() == 0) groups_plain_at(&a, &k, rf_bid_y())[rf_bid_x()] = (uint8_t)is_plain;
    hopper_publish();
    rf_sync();
    if (rf_tid() == 0)
        hopper_take_away(groups_x_at(&a, &k, rf_bid_y(), rf_bid_x()), made, k.at.x_bytes);
}

/* Bringing --------------------------------------------------------------------------------------*/

/* Where one is in the ring. */
typedef struct groups_place {
    uint32_t now, parity;
} groups_place;

RF_DEVICE void groups_next(groups_place *p) {
    if (++p->now < GROUPS_STAGES) return;
    p->now = 0;
    p->parity ^= 1;
}

/* Tiles by stretches of activation rows: a block takes every so many. */
RF_DEVICE uint32_t groups_n_places(const rf_gpu_matmul_args *a, const groups_kind *k) {
    return wide_n_places(a->ahead_tiles, ahead_stretches(a), k->rows);
}
RF_DEVICE wide_part groups_part(const rf_gpu_matmul_args *a, const groups_kind *k, uint32_t i) {
    return wide_part_of(i, ahead_stretches(a), k->rows);
}
RF_DEVICE mm_share groups_share(const rf_gpu_matmul_args *a, const wide_part *p) {
    return share_at(a, ahead_tile_rows(a), RF_WIDE_COLS, a->ahead_first + p->tile, p->stretch);
}

/* What a lane of the warp that brings copies: the first the activations, and of the next sixteen each four, one for each
 * 32 weight rows, low bits, d, high bits and m. */
typedef struct groups_copy {
    const uint8_t *from;
    uint32_t to, of_group; /* no bytes: nothing */
} groups_copy;

RF_DEVICE groups_copy groups_copy_of(const rf_gpu_matmul_args *a, const mm_share *s,
                                     const groups_kind *k, uint32_t lane) {
    const uint32_t i = (lane - 1) % GROUPS_TILES, what = (lane - 1) / GROUPS_TILES,
                   per_part = a->is_glu ? GROUPS_TILES / 2 : GROUPS_TILES;
    const rf_gpu_weight *w = i < per_part ? &s->p.w : &a->part[1].w;
    const uint32_t n_tiles = rf_div_up(w->rows, RF_GPU_TILE_ROWS), d = k->d_f32 ? 128 : 64,
                   own = rf_min_u32(s->tile * per_part + i % per_part, n_tiles - 1);
    const uint64_t at = ((uint64_t)s->plane * n_tiles + own) * (w->cols / 32);
    const groups_copy none = {a->ahead, 0, 0},
                      lo = {(const uint8_t *)w->lo, k->at.lo + i * k->at.lo_tile, k->lo_bits * 128},
                      hi = {(const uint8_t *)w->hi, k->at.hi + i * k->at.hi_tile, k->hi_bits * 128},
                      ds = {(const uint8_t *)w->d, k->at.d + i * RF_GROUPS_D_TILE, d},
                      ms = {(const uint8_t *)w->m, k->at.m + i * RF_GROUPS_D_TILE, d};
    groups_copy c = what == 0 ? lo : what == 1 ? ds : what == 2 ? hi : ms;
    if (what > 3 || (what == 3 && !k->with_m)) c = none;
    if (c.of_group) c.from += at * c.of_group;
    return c;
}

/* Each of four warps brings what lies in one place of the ring, so that no scheduler, whose warps that multiply the
 * others wait for, has all of it to do: what a warp issues here is time that its units do not multiply in. */
RF_DEVICE void groups_bring(uint8_t *stages, groups_shared *sh, const rf_gpu_matmul_args *a,
                            const groups_kind *k) {
    const uint32_t lane = rf_tid() % 32, now = rf_tid() / 32 % GROUPS_STAGES,
                   n_groups = a->part[0].w.cols / 32, n_stages = groups_stages(a),
                   of_group =
                       (k->lo_bits + k->hi_bits) * 128 + (k->d_f32 ? 128 : 64) * (1 + k->with_m);
    uint8_t *stage = stages + now * k->at.bytes;
    uint64_t *full = &sh->full[now];
    uint32_t at = now, parity = 1;
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < groups_n_places(a, k); i += hopper_grid_x()) {
        const wide_part p = groups_part(a, k, i);
        const mm_share share = groups_share(a, &p);
        const groups_copy c = groups_copy_of(a, &share, k, lane);
        RF_NO_UNROLL
        for (; at < n_stages; at += GROUPS_STAGES) {
            const uint32_t first = at * RF_GROUPS_MANY,
                           n = rf_min_u32(n_groups - first, RF_GROUPS_MANY);
            ring_await(&sh->empty[now], parity);
            parity ^= 1;
            if (lane == 0) {
                hopper_arrive_with(full, k->at.x_bytes + GROUPS_TILES * n * of_group);
                hopper_bring(stage, groups_x_at(a, k, p.stretch, at), k->at.x_bytes, full);
            }
            rf_warp_sync();
            if (lane && c.of_group)
                hopper_bring(stage + c.to, c.from + first * c.of_group, n * c.of_group, full);
        }
        at -= n_stages;
    }
}

/* The same of weights that are kept, one piece of whole tiles a stage. */
RF_DEVICE void groups_bring_kept(uint8_t *stages, groups_shared *sh, const rf_gpu_matmul_args *a,
                                 const groups_kind *k) {
    const uint32_t now = rf_tid() / 32 % GROUPS_STAGES, n_stages = groups_stages(a),
                   ints = k->rows * RF_GROUPS_COLS, factors = k->rows * RF_GROUPS_MANY * 4;
    uint8_t *stage = stages + now * k->at.bytes;
    uint64_t *full = &sh->full[now];
    uint32_t at = now, parity = 1;
    if (rf_tid() % 32) return;
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < groups_n_places(a, k); i += hopper_grid_x()) {
        const wide_part p = groups_part(a, k, i);
        const uint8_t *w = a->digits + (uint64_t)p.tile * n_stages * RF_KEPT_BYTES;
        RF_NO_UNROLL
        for (; at < n_stages; at += GROUPS_STAGES) {
            const uint8_t *piece = w + (uint64_t)at * RF_KEPT_BYTES;
            ring_await(&sh->empty[now], parity);
            parity ^= 1;
            hopper_arrive_with(full, k->at.x_bytes + ints + factors);
            hopper_bring(stage, groups_x_at(a, k, p.stretch, at), k->at.x_bytes, full);
            if (k->rows == RF_WIDE_ROWS) {
                hopper_bring(stage + k->at.lo, piece, ints + factors, full);
                continue;
            }
            hopper_bring(stage + k->at.lo, piece + p.first * RF_GROUPS_COLS, ints, full);
            hopper_bring(stage + k->at.d, piece + RF_KEPT_D + p.first * RF_GROUPS_MANY * 4, factors,
                         full);
        }
        at -= n_stages;
    }
}

/* Multiplying -----------------------------------------------------------------------------------*/

/* Where a thread's integers and factors lie in a stage, those of rows g and g + 8 of its warp's sixteen; of low bits, and
 * of factors in f16, which the threads load together, where what it names lies.  first_x: the team's activation rows. */
typedef struct groups_rows {
    uint32_t lo, hi[2], d[2], halves, t, off, first_x;
} groups_rows;

/* Row g or g + 8 of the warp's sixteen, in the tile. */
RF_DEVICE uint32_t groups_own(const rf_gpu_matmul_args *a, const wide_place *at, uint32_t g,
                              uint32_t j) {
    return a->is_glu ? 64 * j + at->row / 16 * 8 + g : at->row / 16 * 16 + 8 * j + g;
}

RF_DEVICE groups_rows groups_rows_of(const rf_gpu_matmul_args *a, const groups_kind *k,
                                     const wide_place *at) {
    const uint32_t lane = rf_tid() % 32, named = groups_own(a, at, lane % 8, lane / 16),
                   eight = groups_own(a, at, 0, lane / 8 % 2);
    groups_rows r;
    r.t = at->t;
    r.first_x = at->first_x;
    if (k->is_kept) {
        r.lo = k->at.lo + at->row / 16 * RF_GROUPS_MANY * 512 + lane * 16;
        r.d[0] = k->at.d + at->row / 16 * RF_GROUPS_MANY * 64 + lane / 4 * 8;
        return r;
    }
    r.off = (uint32_t)a->part[0].w.off;
    r.lo = k->at.lo + named / RF_GPU_TILE_ROWS * k->at.lo_tile + named % RF_GPU_TILE_ROWS * 16 +
           lane / 8 % 2 * GROUPS_PIECE;
    r.halves = k->at.d + eight / RF_GPU_TILE_ROWS * RF_GROUPS_D_TILE +
               eight % RF_GPU_TILE_ROWS * 2 + (lane / 16 * 2 + lane % 2) * 64;
    RF_UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        const uint32_t own = groups_own(a, at, at->row % 8, j), tile = own / RF_GPU_TILE_ROWS,
                       row = own % RF_GPU_TILE_ROWS;
        r.hi[j] = k->at.hi + tile * k->at.hi_tile + row * 4;
        r.d[j] = k->at.d + tile * RF_GROUPS_D_TILE + row * 4;
    }
    return r;
}

RF_DEVICE uint32_t groups_word(const uint8_t *p) { return *(const uint32_t *)(const void *)p; }

/* What a thread has of its rows before it is worked on, as it lies in memory: for either row two pieces of low bits, a
 * group's of eight or two groups' of four, and a group's high bits. */
typedef struct groups_raw {
    uint32_t lo[4], hi[2];
} groups_raw;

/* Group c of a stage, or what of it did not come with the one before. */
RF_DEVICE void groups_load(groups_raw *raw, const uint8_t *stage, const groups_rows *r,
                           const groups_kind *k, uint32_t c) {
    if (k->lo_bits == 8 || c % 2 == 0)
        half_load(raw->lo, half_at_of(stage + r->lo + c * (k->is_kept ? 512 : k->lo_bits * 128)));
    RF_UNROLL
    for (uint32_t j = 0; j < 2; j++)
        if (k->hi_bits) raw->hi[j] = groups_word(stage + r->hi[j] + c * 128);
}

/* Eight integers of four bits less off as groups_halves, upper ones as sixteen times as much, too.  fifth: of integers of
 * five bits what is above these, at bits 4 and 20 and at 8 and 24 where the first and third of four are taken, and the others. */
RF_DEVICE void groups_nibbles(rf_u2 four[2], uint32_t word, const uint32_t fifth[2], uint32_t off) {
    const uint16_t up = rf_f16_of(-64.0f - (float)off);
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t w = word >> 8 * i,
                       lower = groups_bits(w, 0x000f000fu, 0x64006400u) | (fifth[i] & 0x00100010u),
                       upper = groups_bits(w, 0x00f000f0u, 0x64006400u) | (fifth[i] & 0x01000100u);
        four[0].v[i] = digit_less(lower, (uint16_t)(0x6400 + off));
        four[1].v[i] = digit_times_and(upper, GROUPS_SIXTEENTH, up);
    }
}

/* Columns 4t .. 4t + 3 of either half of group c, as the left side of two products. */
RF_DEVICE void groups_convert(uint32_t w[2][4], const groups_raw *raw, const groups_rows *r,
                              const groups_kind *k, uint32_t c) {
    RF_UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        const uint32_t *lo = raw->lo + 2 * j;
        rf_u2 four[2];
        if (k->is_kept) {
            RF_UNROLL
            for (uint32_t half = 0; half < 2; half++) {
                four[half].v[0] = lo[half] & 0x807f807fu;
                four[half].v[1] = rf_four_bytes(lo[half], 0, 0x2301) & 0x807f807fu;
            }
        } else if (k->lo_bits == 8) {
            four[0] = groups_signed(lo[0]);
            four[1] = groups_signed(lo[1]);
        } else {
            uint32_t fifth[2] = {0, 0};
            if (k->hi_bits) {
                fifth[0] = raw->hi[j] << (4 - r->t);
                fifth[1] = raw->hi[j] >> (4 + r->t);
            }
            groups_nibbles(four, lo[c % 2], fifth, r->off);
        }
        RF_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            w[half][j] = four[half].v[0];
            w[half][2 + j] = four[half].v[1];
        }
    }
}

/* d, and with minima m, of the thread's rows, of one group and of a stage's four: in f16 of rows g of the first two, of
 * rows g + 8, and so on; of what is kept they are loaded group by group. */
typedef struct groups_factors {
    float d[2], m[2];
} groups_factors;
typedef struct groups_halves_of {
    uint32_t d[4], m[4];
} groups_halves_of;

RF_DEVICE void groups_load_factors(groups_halves_of *h, const uint8_t *stage, const groups_rows *r,
                                   const groups_kind *k) {
    if (k->is_kept) return;
    const half_at at = half_at_of(stage + r->halves);
    if (!k->d_f32) half_load_turned(h->d, at);
    if (k->with_m) half_load_turned(h->m, at + (k->at.m - k->at.d));
}

RF_DEVICE groups_factors groups_factors_of(const groups_halves_of *h, const uint8_t *stage,
                                           const groups_rows *r, const groups_kind *k, uint32_t c) {
    groups_factors f = {{0.0f, 0.0f}, {0.0f, 0.0f}};
    if (k->is_kept) {
        const rf_f2 both = *(const rf_f2 *)(const void *)(stage + r->d[0] + c * 64);
        f.d[0] = both.v[0];
        f.d[1] = both.v[1];
        return f;
    }
    RF_UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        const uint32_t i = c / 2 * 2 + j, bit = c % 2 * 16;
        f.d[j] = k->d_f32 ? *(const float *)(const void *)(stage + r->d[j] + c * 128)
                          : rf_f16_at((uint16_t)(h->d[i] >> bit));
        if (k->with_m) f.m[j] = rf_f16_at((uint16_t)(h->m[i] >> bit));
    }
    return f;
}

/* Begins group c of a stage.  w: the weights, which the product reads while it is on its way. */
RF_DEVICE void groups_begin(float sums[64], uint32_t w[2][4], const groups_raw *raw,
                            const uint8_t *stage, const groups_rows *r, const groups_kind *k,
                            uint32_t c) {
    const uint32_t x = rf_shared_at(stage) + r->first_x * 128,
                   chunk = c / 2 * (RF_GROUPS_PANEL / 32) + 2 * (c % 2);
    groups_convert(w, raw, r, k, c);
    hopper_hold_halves(sums, k->n);
    hopper_begin();
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        hopper_multiply_own(sums, k->n, w[i], hopper_chunk(x, chunk + i), i > 0);
    hopper_end();
}

/* Group c of a stage onto the outputs. */
RF_DEVICE void groups_add(float v[64], const float sums[64], const groups_factors *f,
                          const uint8_t *stage, const groups_rows *r, const groups_kind *k,
                          uint32_t c) {
    const float *x_sums =
        (const float *)(const void *)(stage + k->at.sum) + groups_sum_at(c, 2 * r->t);
    rf_f4 sum = {{0.0f, 0.0f, 0.0f, 0.0f}};
    RF_UNROLL
    for (uint32_t n = 0; n < k->n / 8; n++) {
        if (k->with_m && n % 2 == 0) sum = *(const rf_f4 *)(const void *)(x_sums + 2 * n);
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            float *to = &v[4 * n + j];
            *to = rf_fma(sums[4 * n + j], f->d[j / 2], *to);
            if (k->with_m) *to = rf_fma(sum.v[n % 2 * 2 + j % 2], f->m[j / 2], *to);
        }
    }
}

/* This warp is done with a stage. */
RF_DEVICE void groups_give_back(uint64_t *empty) {
    rf_warp_sync();
    if (rf_tid() % 32 == 0) ring_arrive(empty);
}

/* Where a thread is: its place in the ring, and in the columns. */
typedef struct groups_walk {
    groups_place p;
    const uint8_t *stages;
    groups_shared *sh;
    uint32_t group, n_groups, stretch;
} groups_walk;

/* Waits for the next stage. */
RF_DEVICE const uint8_t *groups_await(const groups_walk *t, const groups_kind *k) {
    ring_await(&t->sh->full[t->p.now], t->p.parity);
    return t->stages + t->p.now * k->at.bytes;
}

/* All groups of n stages, which is a constant: of many, so that the units seldom run dry.  What is loaded is
 * loaded before a wait. */
RF_DEVICE void groups_multiply_stages(float v[64], float even[64], float odd[64], groups_walk *t,
                                      const groups_rows *r, const groups_kind *k, uint32_t n) {
    const uint32_t all = n * RF_GROUPS_MANY;
    const uint8_t *stage = groups_await(t, k), *ahead = stage;
    uint32_t w[2][2][4];
    uint64_t *empty = &t->sh->empty[t->p.now], *empty_ahead = empty;
    groups_halves_of halves;
    groups_raw raw;
    groups_load(&raw, stage, r, k, 0);
    groups_begin(even, w[0], &raw, stage, r, k, 0);
    groups_load(&raw, stage, r, k, 1);
    groups_begin(odd, w[1], &raw, stage, r, k, 1);
    RF_UNROLL
    for (uint32_t c = 0; c < all; c++) {
        if (c % RF_GROUPS_MANY == 0) groups_load_factors(&halves, stage, r, k);
        const groups_factors f = groups_factors_of(&halves, stage, r, k, c % RF_GROUPS_MANY);
        const uint32_t then = (c + 2) % RF_GROUPS_MANY;
        float *own = c % 2 ? odd : even;
        if (then == 0) groups_next(&t->p);
        if (then == 0 && c + 2 < all) {
            ahead = groups_await(t, k);
            empty_ahead = &t->sh->empty[t->p.now];
        }
        if (c + 2 < all) groups_load(&raw, ahead, r, k, then);
        if (c + 1 < all)
            hopper_wait_but(1);
        else
            hopper_wait_but(0);
        hopper_hold_halves(own, k->n);
        groups_add(v, own, &f, stage, r, k, c % RF_GROUPS_MANY);
        if (c + 2 < all) groups_begin(own, w[c % 2], &raw, ahead, r, k, then);
        if (then != 1) continue;
        groups_give_back(empty);
        stage = ahead;
        empty = empty_ahead;
    }
    t->group += all;
}

/* Sums of a plain stage's group times the scales of its activations: exact, since these have four bits and those 19 (and
 * scales are between 2^-120 and 2^100). */
RF_DEVICE void groups_scale(float sums[64], groups_factors *f, const rf_gpu_matmul_args *a,
                            uint32_t group, uint32_t first_x, const groups_kind *k) {
    const uint32_t n_groups = rf_now(a->part[0].w.cols / 32), t = rf_now(rf_tid() % 4);
    const float up = k->is_kept ? GROUPS_UP * KEPT_UP : GROUPS_UP;
    RF_UNROLL
    for (uint32_t j = 0; k->is_kept && j < 2; j++)
        f->d[j] *= 1.0f / KEPT_UP;
    RF_UNROLL
    for (uint32_t n = 0; n < k->n / 4; n++) {
        const uint32_t row = rf_min_u32(first_x + n / 2 * 8 + 2 * t + n % 2, a->n_rows - 1);
        const float d = a->xq.d[(uint64_t)row * n_groups + group] * up;
        sums[n / 2 * 4 + n % 2] *= d;
        sums[n / 2 * 4 + n % 2 + 2] *= d;
        if (n % 4 == 3) hopper_hold_halves(sums, k->n); /* few loads at a time: registers */
    }
}

/* A stage that has fewer groups than others, or is plain: one by one. */
RF_DEVICE void groups_multiply_few(float v[64], float sums[64], groups_walk *t,
                                   const rf_gpu_matmul_args *a, const groups_rows *r,
                                   const groups_kind *k, uint32_t is_plain) {
    const uint8_t *stage = groups_await(t, k);
    const uint32_t n =
        k->is_kept ? RF_GROUPS_MANY : rf_min_u32(t->n_groups - t->group, RF_GROUPS_MANY);
    groups_halves_of halves;
    groups_raw raw;
    groups_load_factors(&halves, stage, r, k);
    RF_NO_UNROLL
    for (uint32_t c = 0; c < RF_GROUPS_MANY; c++) {
        uint32_t w[2][4];
        if (c >= n) break;
        groups_load(&raw, stage, r, k, c);
        groups_factors f = groups_factors_of(&halves, stage, r, k, c);
        groups_begin(sums, w, &raw, stage, r, k, c);
        hopper_wait_but(0);
        hopper_hold_halves(sums, k->n);
        if (is_plain)
            groups_scale(sums, &f, a, t->group + c, t->stretch * RF_WIDE_COLS + r->first_x, k);
        groups_add(v, sums, &f, stage, r, k, c);
    }
    groups_give_back(&t->sh->empty[t->p.now]);
    groups_next(&t->p);
    t->group += RF_GROUPS_MANY;
}

/* Is any stage of the stretch plain? */
RF_DEVICE int groups_any_plain(const uint8_t *plain, uint32_t n_stages) {
    uint32_t any = 0;
    for (uint32_t i = rf_tid() % 32; i < n_stages; i += 32)
        any |= plain[i];
    return rf_warp_ballot(any != 0) != 0;
}

/* One tile's sums, times GROUPS_UP, where some stage is plain: stage by stage.  A function apart, as what is plain takes
 * registers that the other one has no room for. */
RF_DEVICE void groups_work_apart(float v[64], groups_walk *t, const rf_gpu_matmul_args *a,
                                 const groups_rows *r, const groups_kind *k, const uint8_t *plain) {
    float even[64], odd[64];
    RF_UNROLL
    for (uint32_t i = 0; i < k->n / 2; i++)
        v[i] = even[i] = odd[i] = 0.0f;
    RF_NO_UNROLL
    for (; t->group < t->n_groups; plain++) {
        const uint32_t is_plain = *plain;
        if (t->group + RF_GROUPS_MANY <= t->n_groups && !is_plain)
            groups_multiply_stages(v, even, odd, t, r, k, 1);
        else
            groups_multiply_few(v, even, t, a, r, k, is_plain);
        RF_UNROLL
        for (uint32_t i = 0; i < k->n / 2; i++)
            odd[i] = 0.0f; /* the scales were in its registers */
    }
}

/* And where none is. */
RF_DEVICE void groups_work(float v[64], groups_walk *t, const rf_gpu_matmul_args *a,
                           const groups_rows *r, const groups_kind *k) {
    float even[64], odd[64];
    RF_UNROLL
    for (uint32_t i = 0; i < k->n / 2; i++)
        v[i] = even[i] = odd[i] = 0.0f;
    RF_NO_UNROLL
    while (t->group + GROUPS_OF_TURN <= t->n_groups)
        groups_multiply_stages(v, even, odd, t, r, k, GROUPS_STAGES);
    RF_NO_UNROLL
    while (t->group + (k->is_kept ? 1 : RF_GROUPS_MANY) <= t->n_groups)
        groups_multiply_stages(v, even, odd, t, r, k, 1);
    if (!k->is_kept && t->group < t->n_groups) groups_multiply_few(v, even, t, a, r, k, 0);
}

RF_DEVICE void groups_multiply(uint8_t *stages, groups_shared *sh, const rf_gpu_matmul_args *a,
                               const groups_kind *k) {
    const wide_place at = wide_place_of(k->rows);
    const groups_rows r = groups_rows_of(a, k, &at);
    groups_walk t = {{0, 0}, stages, sh, 0, a->part[0].w.cols / 32, 0};
    float *out =
        (float *)(void *)(stages + GROUPS_STAGES * k->at.bytes + rf_tid() / 32 * RF_WIDE_OUT_BYTES);
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < groups_n_places(a, k); i += hopper_grid_x()) {
        float v[64];
        const wide_part p = groups_part(a, k, i);
        t.group = 0;
        t.stretch = p.stretch;
        const uint8_t *plain = groups_plain_at(a, k, t.stretch);
        if (groups_any_plain(plain, groups_stages(a)))
            groups_work_apart(v, &t, a, &r, k, plain);
        else
            groups_work(v, &t, a, &r, k);
        RF_UNROLL
        for (uint32_t j = 0; j < k->n / 2; j++)
            v[j] *= 1.0f / GROUPS_UP;
        const mm_share share = groups_share(a, &p);
        wide_put_part(out, v, a, &share, ahead_tile_rows(a), &p, &at, k->n);
    }
}

HOPPER_REGISTERS(128, 24, 2 * WIDE_TEAM, 240)
RF_DEVICE void groups_run(const rf_gpu_matmul_args *a, groups_kind kind) {
    groups_shared *sh = (groups_shared *)(void *)hopper_shared;
    uint8_t *stages = hopper_shared + RF_WIDE_HEAD;
    const uint32_t tid = rf_tid();
    if (tid < GROUPS_STAGES) {
        ring_init(&sh->full[tid], 1);
        ring_init(&sh->empty[tid], 2 * WIDE_TEAM / 32);
    }
    hopper_publish(); /* to copies that run by themselves */
    rf_sync();
    if (tid >= 2 * WIDE_TEAM) {
        hopper_24_registers();
        if (kind.is_kept)
            groups_bring_kept(stages, sh, a, &kind);
        else
            groups_bring(stages, sh, a, &kind);
        return;
    }
    hopper_240_registers();
    groups_multiply(stages, sh, a, &kind);
}

RF_DEVICE void groups_run_as(const rf_gpu_matmul_args *a, uint32_t lo_bits, uint32_t hi_bits,
                             uint32_t with_m, uint32_t d_f32) {
    const groups_kind kind = {
        lo_bits,      hi_bits,     with_m, d_f32, 0, rf_groups_parts_of(lo_bits, hi_bits, with_m),
        RF_WIDE_ROWS, RF_WIDE_COLS};
    groups_run(a, kind);
}

/* kinds.def has their order. */
RF_KERNEL_ALONE(wide_32_40, rf_gpu_matmul_args) { groups_run_as(&a, 4, 0, 0, 0); }
RF_KERNEL_KIND_ALONE(wide_32_40, 1, rf_gpu_matmul_args) { groups_run_as(&a, 4, 0, 1, 0); }
RF_KERNEL_ALONE(wide_32_41, rf_gpu_matmul_args) { groups_run_as(&a, 4, 1, 0, 0); }
RF_KERNEL_KIND_ALONE(wide_32_41, 1, rf_gpu_matmul_args) { groups_run_as(&a, 4, 1, 1, 0); }
RF_KERNEL_KIND_ALONE(wide_32_41, 2, rf_gpu_matmul_args) { groups_run_as(&a, 4, 1, 0, 1); }
RF_KERNEL_ALONE(wide_32_80, rf_gpu_matmul_args) { groups_run_as(&a, 8, 0, 0, 0); }
RF_KERNEL_KIND_ALONE(wide_32_80, 2, rf_gpu_matmul_args) { groups_run_as(&a, 8, 0, 0, 1); }
#endif
