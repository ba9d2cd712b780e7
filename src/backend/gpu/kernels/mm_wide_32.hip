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
 * A turn is four stages; of its groups two are on their way while another is added.
 *
 * Minima of eight groups are a product of their own behind these, of their eleven bits and ten of the totals, whose sums
 * are exact; totals are brought in a ring of their own, and minima in it where they are not kept. */

#include "backend/gpu/kernels/norm.h"

#if defined(RF_HOPPER)
enum {
    GROUPS_TILES = (int)RF_WIDE_ROWS / (int)RF_GPU_TILE_ROWS, /* of weights, in a block's tile */
    GROUPS_STAGES = RF_GROUPS_STAGES,
    GROUPS_OF_TURN = GROUPS_STAGES * (int)RF_GROUPS_MANY,
    GROUPS_OF_SHARE = RF_MINIMA_STAGES * (int)RF_GROUPS_MANY,
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
    uint64_t minima_full[RF_MINIMA_SLOTS], minima_empty[RF_MINIMA_SLOTS];
} groups_shared;

/* What is constant in a kernel; is_kept: weights are as mm_kept_32.hip makes them, whatever they were.  Of a tile with fewer
 * weight rows than whole ones, which only these have, teams share the activation rows, as in mm_wide.hip: n each. */
typedef struct groups_kind {
    uint32_t lo_bits, hi_bits, with_m, d_f32, is_kept;
    rf_groups_parts at;
    uint32_t rows, n;
    uint32_t is_apart; /* stages may be plain */
} groups_kind;

RF_DEVICE uint32_t groups_stages(const rf_gpu_matmul_args *a) {
    return rf_div_up(a->part[0].w.cols, RF_GROUPS_COLS);
}
/* Shares of minima of a row; 0: there are none. */
RF_DEVICE uint32_t groups_shares(const rf_gpu_matmul_args *a, const groups_kind *k) {
    return k->with_m ? rf_div_up(groups_stages(a), RF_MINIMA_STAGES) : 0;
}

/* Where activations lie, [stretches][stages], behind them what multiplies minima, [stretches][shares], and
 * whether each stage is plain, a byte, of a turn one word. */
RF_DEVICE uint8_t *groups_x_at(const rf_gpu_matmul_args *a, uint32_t stretch, uint32_t stage) {
    return a->ahead + ((uint64_t)stretch * groups_stages(a) + stage) * RF_GROUPS_X_BYTES;
}
RF_DEVICE uint8_t *groups_totals_at(const rf_gpu_matmul_args *a, const groups_kind *k,
                                    uint32_t stretch, uint32_t share) {
    return groups_x_at(a, ahead_stretches(a), 0) +
           ((uint64_t)stretch * groups_shares(a, k) + share) * RF_MINIMA_X_BYTES;
}
RF_DEVICE uint8_t *groups_plain_at(const rf_gpu_matmul_args *a, const groups_kind *k,
                                   uint32_t stretch) {
    return groups_totals_at(a, k, ahead_stretches(a), 0) +
           (uint64_t)stretch * rf_div_up(groups_stages(a), GROUPS_STAGES) * 4;
}

/* Activation rows -------------------------------------------------------------------------------*/

/* Whether f16 has all of -127 .. 127 times a scale of four significant bits. */
RF_DEVICE int groups_has(float d) { return d <= 512.0f && rf_f16_at(rf_f16_of(d)) == d; }

/* Half of a row of a stage, two groups; rows beyond the last are the last, groups beyond the last are zeros. */
typedef struct groups_row {
    uint32_t words[2][8];
    float d[2], total[2];
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
        const float d = is_there ? a->xq.d[group] : 0.0f;
        r->d[c] = d * GROUPS_UP;
        r->total[c] = is_there && a->part[0].w.m ? (float)a->xq.sum[group] * d : 0.0f;
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

/* Where the total of activation row own and group c of a share's stage lies, behind both stages. */
RF_DEVICE float *groups_total_of(uint8_t *made, uint32_t own, uint32_t stage, uint32_t c) {
    return (float *)(void *)(made + RF_MINIMA_X_AT) +
           ((own / 8 * RF_MINIMA_STAGES + stage) * 8 + own % 8) * RF_GROUPS_MANY + c;
}

/* A share's totals of activation row own, rounded. */
RF_DEVICE void groups_round_totals(uint8_t *made, uint32_t own) {
    rf_f4 *fours[RF_MINIMA_STAGES], totals[RF_MINIMA_STAGES];
    uint32_t most = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < RF_MINIMA_STAGES; i++) {
        fours[i] = (rf_f4 *)(void *)groups_total_of(made, own, i, 0);
        totals[i] = *fours[i];
        RF_UNROLL
        for (uint32_t c = 0; c < RF_GROUPS_MANY; c++)
            most = rf_max_u32(most, rf_size_of(totals[i].v[c]));
    }
    RF_UNROLL
    for (uint32_t i = 0; i < RF_MINIMA_STAGES; i++) {
        RF_UNROLL
        for (uint32_t c = 0; c < RF_GROUPS_MANY; c++)
            totals[i].v[c] = rf_rounded(totals[i].v[c], RF_ROUND_TOTALS(most));
        *fours[i] = totals[i];
    }
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

/* A stage that a block makes: its number, that in the block, and whether it is plain. */
typedef struct groups_making {
    uint32_t stage, own, is_plain;
} groups_making;

/* Half of a row that is in integers; returns whether f16 has its scales, which are left out where that is known of the stage
 * not to be so. */
RF_DEVICE int groups_take_row(uint8_t *made, const groups_row *r, const groups_kind *k,
                              groups_making m, uint32_t own, uint32_t half) {
    RF_UNROLL
    for (uint32_t c = 0; c < 2; c++) {
        groups_put(made + m.own * RF_GROUPS_X_BYTES + half * RF_GROUPS_PANEL, own, c, r->words[c],
                   m.is_plain ? GROUPS_ONE : rf_f16_of(r->d[c]));
        if (k->with_m) *groups_total_of(made, own, m.own, 2 * half + c) = r->total[c];
    }
    return groups_has(r->d[0]) && groups_has(r->d[1]);
}

/* Rows of n stages from number m.stage on that are in integers, two threads a row; a bit for each stage says whether f16
 * has the scales of this thread's. */
RF_DEVICE uint32_t groups_take(uint8_t *made, const rf_gpu_matmul_args *a, const groups_kind *k,
                               groups_making m, uint32_t n) {
    const uint32_t half = rf_tid() / RF_WIDE_COLS, own = rf_tid() % RF_WIDE_COLS,
                   row = rf_min_u32(rf_bid_y() * RF_WIDE_COLS + own, a->n_rows - 1);
    groups_row r[RF_MINIMA_STAGES];
    uint32_t has = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++)
        groups_read_row(&r[i], a, row, 4 * (m.stage + i) + 2 * half);
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        const groups_making one = {m.stage + i, m.own + i, m.is_plain};
        has |= (uint32_t)groups_take_row(made, &r[i], k, one, own, half) << i;
    }
    return has;
}

/* Four floats of row own of a stage, of whose four groups eight neighbouring threads have one each: quantised as norm.h
 * does, and put as groups_put does. */
RF_DEVICE int groups_make_four(uint8_t *made, const rf_gpu_matmul_args *a, const groups_kind *k,
                               const float v[4], uint32_t own, groups_making m) {
    const uint32_t c = rf_tid() % 32 / 8, word = rf_tid() % 8, n_groups = a->part[0].w.cols / 32;
    const uint32_t row = rf_bid_y() * RF_WIDE_COLS + own, group = 4 * m.stage + c;
    uint32_t most = quant_size(v);
    rf_lanes_most(&most, 1, 8);
    const rf_quant_scale s = rf_quant_scale_of(rf_float_of(most), 32);
    const uint32_t q = quant_four(v, s.id);
    const uint16_t one = m.is_plain ? GROUPS_ONE : rf_f16_of(s.d * GROUPS_UP);
    const rf_u2 four = groups_signed(q);
    uint8_t *panel =
        made + m.own * RF_GROUPS_X_BYTES + c / 2 * RF_GROUPS_PANEL + own * 128 + word % 4 * 4;
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        *(uint32_t *)(void *)(panel + ((c % 2 * 4 + word / 4 * 2 + i) ^ own % 8) * 16) =
            digit_times(four.v[i], one);
    if (k->with_m) {
        uint32_t sum = (uint32_t)rf_dot4(q, 0x01010101u, 0);
        rf_lanes_sum(&sum, 1, 8);
        if (word == 0) *groups_total_of(made, own, m.own, c) = (float)(int32_t)sum * s.d;
    }
    if (word == 0 && row < a->n_rows && group < n_groups)
        a->xq.d[(uint64_t)row * n_groups + group] = s.d; /* for plain stages */
    return groups_has(s.d * GROUPS_UP);
}

/* The same of rows in floats, a warp a row. */
RF_DEVICE uint32_t groups_make(uint8_t *made, const rf_gpu_matmul_args *a, const groups_kind *k,
                               groups_making m, uint32_t n) {
    const uint32_t cols = a->part[0].w.cols, col = m.stage * RF_GROUPS_COLS + rf_tid() % 32 * 4;
    uint32_t lacks = 0;
    RF_NO_UNROLL
    for (uint32_t own = rf_tid() / 32; own < RF_WIDE_COLS; own += GROUPS_MAKERS * GROUPS_AT_ONCE) {
        float v[GROUPS_AT_ONCE][RF_MINIMA_STAGES][4];
        RF_UNROLL
        for (uint32_t i = 0; i < GROUPS_AT_ONCE * n; i++) {
            const uint32_t row = rf_bid_y() * RF_WIDE_COLS + own + GROUPS_MAKERS * (i / n);
            norm_load(v[i / n][i % n], a->x + (uint64_t)rf_min_u32(row, a->n_rows - 1) * cols,
                      col + i % n * RF_GROUPS_COLS, cols);
        }
        RF_UNROLL
        for (uint32_t i = 0; i < GROUPS_AT_ONCE * n; i++) {
            const groups_making one = {m.stage + i % n, m.own + i % n, m.is_plain};
            const int has =
                groups_make_four(made, a, k, v[i / n][i % n], own + GROUPS_MAKERS * (i / n), one);
            lacks |= (uint32_t)!has << i % n;
        }
    }
    return ~lacks;
}

RF_DEVICE uint32_t groups_make_or_take(uint8_t *made, const rf_gpu_matmul_args *a,
                                       const groups_kind *k, groups_making m, uint32_t n) {
    return a->x ? groups_make(made, a, k, m, n) : groups_take(made, a, k, m, n);
}

/* A stage, once more if it is plain: of one code, since kernels as short as this one wait for it. */
RF_DEVICE void groups_make_one(uint8_t *made, uint32_t *plain, const rf_gpu_matmul_args *a,
                               const groups_kind *k, uint32_t stage) {
    if (rf_tid() == 0) *plain = 0;
    rf_sync();
    RF_NO_UNROLL
    for (uint32_t is_plain = 0; is_plain < 2; is_plain++) {
        const groups_making m = {stage, 0, is_plain};
        const uint32_t has = groups_make_or_take(made, a, k, m, 1);
        if (!is_plain && !(has & 1)) *plain = 1;
        rf_sync();
        if (!*plain) break;
    }
}

/* A share's two stages, once more those that are plain, and totals; beyond the last they are zeros. */
RF_DEVICE void groups_make_share(uint8_t *made, uint32_t plain[RF_MINIMA_STAGES],
                                 const rf_gpu_matmul_args *a, const groups_kind *k,
                                 uint32_t stage) {
    const groups_making both = {stage, 0, 0};
    if (rf_tid() < RF_MINIMA_STAGES) plain[rf_tid()] = 0;
    rf_sync();
    const uint32_t has = groups_make_or_take(made, a, k, both, RF_MINIMA_STAGES);
    RF_UNROLL
    for (uint32_t i = 0; i < RF_MINIMA_STAGES; i++)
        if (!(has >> i & 1)) plain[i] = 1;
    rf_sync();
    RF_NO_UNROLL
    for (uint32_t i = 0; i < RF_MINIMA_STAGES; i++) {
        const groups_making one = {stage + i, i, 1};
        if (plain[i]) (void)groups_make_or_take(made, a, k, one, 1);
    }
    rf_sync();
    if (rf_tid() < RF_WIDE_COLS) groups_round_totals(made, rf_tid());
}

/* Grid x: stages, or with minima shares of these; y: stretches of activation rows, in integers or, with x, in floats. */
RF_DEVICE void groups_make_rows(const rf_gpu_matmul_args *a, uint32_t with_m, uint32_t *plain) {
    const groups_kind k = {0, 0, with_m, 0, 0, rf_groups_parts_of(0, 0), 0, 0, 0};
    const uint32_t n = with_m ? RF_MINIMA_STAGES : 1, first = n * rf_bid_x();
    uint8_t *made = hopper_shared;
    rf_await_before();
    if (with_m)
        groups_make_share(made, plain, a, &k, first);
    else
        groups_make_one(made, plain, a, &k, first);
    hopper_publish();
    rf_sync();
    if (rf_tid() != 0) return;
    RF_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        if (first + i >= groups_stages(a)) break;
        groups_plain_at(a, &k, rf_bid_y())[first + i] = (uint8_t)plain[i];
        hopper_take_away(groups_x_at(a, rf_bid_y(), first + i), made + i * RF_GROUPS_X_BYTES,
                         RF_GROUPS_X_BYTES);
    }
    if (with_m)
        hopper_take_away(groups_totals_at(a, &k, rf_bid_y(), rf_bid_x()), made + RF_MINIMA_X_AT,
                         RF_MINIMA_X_BYTES);
}

/* kinds.def has their order. */
RF_KERNEL_EARLY(wide_rows_32, rf_gpu_matmul_args, 3) {
    RF_SHARED uint32_t plain;
    groups_make_rows(&a, 0, &plain);
}
RF_KERNEL_KIND_EARLY(wide_rows_32, 1, rf_gpu_matmul_args, 3) {
    RF_SHARED uint32_t plain[RF_MINIMA_STAGES];
    groups_make_rows(&a, 1, plain);
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

/* Where share number i of all that a block multiplies lies in its ring, as the threads that multiply wait for it. */
RF_DEVICE groups_place groups_minima_place(uint32_t i) {
    const groups_place p = {i % RF_MINIMA_SLOTS, i / RF_MINIMA_SLOTS % 2};
    return p;
}
/* In a ring behind the stages and the warps' rooms for outputs. */
RF_DEVICE uint8_t *groups_slot(uint8_t *stages, const groups_kind *k, uint32_t i) {
    return stages + GROUPS_STAGES * k->at.bytes + RF_WIDE_WARPS * RF_WIDE_OUT_BYTES +
           i % RF_MINIMA_SLOTS * rf_minima_slot_bytes(k->is_kept);
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
 * 32 weight rows, low bits, d, high bits and m, which lies in a ring of its own. */
typedef struct groups_copy {
    const uint8_t *from;
    uint32_t to, of_group; /* no bytes: nothing */
} groups_copy;
enum { GROUPS_FIRST_M = 1 + 3 * GROUPS_TILES };

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
                      ms = {(const uint8_t *)w->m, RF_MINIMA_X_BYTES + i * GROUPS_OF_SHARE * 64,
                            64};
    groups_copy c = what == 0 ? lo : what == 1 ? ds : what == 2 ? hi : ms;
    if (what > 3 || (what == 3 && !k->with_m)) c = none;
    if (c.of_group) c.from += at * c.of_group;
    return c;
}

/* A lane's part of what share number i in its ring is multiplied with: totals, and minima of n groups where these are not kept.
 * Each of the warps that bring looks for the end of the use before this one, of which it tells only whether it is odd: it is never
 * two behind, as the stage that this share begins with was free, whose last user, four stages before, had done with the share
 * of the use before that.  So rows have two stages at least. */
RF_DEVICE void groups_bring_minima(uint8_t *slot, groups_shared *sh, const groups_kind *k,
                                   const uint8_t *totals, const groups_copy *c, uint32_t first,
                                   uint32_t n, uint32_t i) {
    const uint32_t lane = rf_tid() % 32, now = i % RF_MINIMA_SLOTS;
    uint64_t *full = &sh->minima_full[now];
    ring_await(&sh->minima_empty[now], !groups_minima_place(i).parity);
    if (lane == 0) {
        hopper_arrive_with(full, RF_MINIMA_X_BYTES + (k->is_kept ? 0 : GROUPS_TILES * n * 64));
        hopper_bring(slot, totals, RF_MINIMA_X_BYTES, full);
    }
    if (k->is_kept) return;
    rf_warp_sync();
    if (lane >= GROUPS_FIRST_M && c->of_group)
        hopper_bring(slot + c->to, c->from + first * 64, n * 64, full);
}

/* Each of four warps brings what lies in one place of the ring, so that no scheduler, whose warps that multiply the
 * others wait for, has all of it to do: what a warp issues here is time that its units do not multiply in. */
RF_DEVICE void groups_bring(uint8_t *stages, groups_shared *sh, const rf_gpu_matmul_args *a,
                            const groups_kind *k) {
    const uint32_t lane = rf_tid() % 32, now = rf_tid() / 32 % GROUPS_STAGES,
                   n_groups = a->part[0].w.cols / 32, n_stages = groups_stages(a),
                   of_group = (k->lo_bits + k->hi_bits) * 128 + (k->d_f32 ? 128 : 64);
    uint8_t *stage = stages + now * k->at.bytes;
    uint64_t *full = &sh->full[now];
    uint32_t at = now, parity = 1, before = 0; /* shares of the places before */
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
                hopper_arrive_with(full, RF_GROUPS_X_BYTES + GROUPS_TILES * n * of_group);
                hopper_bring(stage, groups_x_at(a, p.stretch, at), RF_GROUPS_X_BYTES, full);
            }
            rf_warp_sync();
            if (lane && lane < GROUPS_FIRST_M && c.of_group)
                hopper_bring(stage + c.to, c.from + first * c.of_group, n * c.of_group, full);
            if (k->with_m && at % RF_MINIMA_STAGES == 0)
                groups_bring_minima(groups_slot(stages, k, before + at / RF_MINIMA_STAGES), sh, k,
                                    groups_totals_at(a, k, p.stretch, at / RF_MINIMA_STAGES), &c,
                                    first, rf_min_u32(n_groups - first, GROUPS_OF_SHARE),
                                    before + at / RF_MINIMA_STAGES);
        }
        at -= n_stages;
        before += groups_shares(a, k);
    }
}

/* The same of weights that are kept, one piece of whole tiles a stage. */
RF_DEVICE void groups_bring_kept(uint8_t *stages, groups_shared *sh, const rf_gpu_matmul_args *a,
                                 const groups_kind *k) {
    const uint32_t now = rf_tid() / 32 % GROUPS_STAGES, n_stages = groups_stages(a),
                   ints = k->rows * RF_GROUPS_COLS, factors = k->rows * RF_GROUPS_MANY * 4,
                   of_kind = factors / (1 + k->with_m), of_row = of_kind / k->rows;
    uint8_t *stage = stages + now * k->at.bytes;
    uint64_t *full = &sh->full[now];
    uint32_t at = now, parity = 1, before = 0;
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
            hopper_arrive_with(full, RF_GROUPS_X_BYTES + ints + factors);
            hopper_bring(stage, groups_x_at(a, p.stretch, at), RF_GROUPS_X_BYTES, full);
            if (k->rows == RF_WIDE_ROWS) {
                hopper_bring(stage + k->at.lo, piece, ints + factors, full);
            } else {
                hopper_bring(stage + k->at.lo, piece + p.first * RF_GROUPS_COLS, ints, full);
                RF_UNROLL
                for (uint32_t j = 0; j <= k->with_m; j++)
                    hopper_bring(stage + k->at.d + j * of_kind,
                                 piece + RF_KEPT_D + j * RF_KEPT_HALVES + p.first * of_row, of_kind,
                                 full);
            }
            if (k->with_m && at % RF_MINIMA_STAGES == 0)
                groups_bring_minima(groups_slot(stages, k, before + at / RF_MINIMA_STAGES), sh, k,
                                    groups_totals_at(a, k, p.stretch, at / RF_MINIMA_STAGES), 0, 0,
                                    0, before + at / RF_MINIMA_STAGES);
        }
        at -= n_stages;
        before += groups_shares(a, k);
    }
}

/* Multiplying -----------------------------------------------------------------------------------*/

/* Where a thread's integers and factors lie in a stage, those of rows g and g + 8 of its warp's sixteen; of low bits, and
 * of factors in f16, which the threads load together, where what it names lies.  first_x: the team's activation rows. */
typedef struct groups_rows {
    uint32_t lo, hi[2], d[2], m[2], halves, minima, t, off, first_x;
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
        const uint32_t of_two = k->with_m ? 4 : 8; /* bytes of two rows' factors */
        r.lo = k->at.lo + at->row / 16 * RF_GROUPS_MANY * 512 + lane * 16;
        r.d[0] = k->at.d + (at->row / 16 * RF_GROUPS_MANY * 8 + lane / 4) * of_two;
        r.minima = k->at.d + k->rows * RF_GROUPS_MANY * 2 + (at->row / 16 * 32 + lane) * 4;
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
        r.m[j] = RF_MINIMA_X_BYTES + tile * GROUPS_OF_SHARE * 64 + row * 2 + at->t * 64;
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

/* d of the thread's rows, of one group and of a stage's four: in f16 of rows g of the first two, of
 * rows g + 8, and so on; of what is kept they are loaded group by group. */
typedef struct groups_factors {
    float d[2];
} groups_factors;
typedef struct groups_halves_of {
    uint32_t d[4];
} groups_halves_of;

RF_DEVICE void groups_load_factors(groups_halves_of *h, const uint8_t *stage, const groups_rows *r,
                                   const groups_kind *k) {
    if (!k->is_kept && !k->d_f32) half_load_turned(h->d, half_at_of(stage + r->halves));
}

RF_DEVICE groups_factors groups_factors_of(const groups_halves_of *h, const uint8_t *stage,
                                           const groups_rows *r, const groups_kind *k, uint32_t c) {
    groups_factors f = {{0.0f, 0.0f}};
    if (k->is_kept && k->with_m) {
        const uint32_t both = groups_word(stage + r->d[0] + c * 32);
        RF_UNROLL
        for (uint32_t j = 0; j < 2; j++)
            f.d[j] = rf_f16_at((uint16_t)(both >> 16 * j)) * (k->is_apart ? KEPT_UP : 1.0f);
        return f;
    }
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

/* A group onto the outputs. */
RF_DEVICE void groups_add(float v[64], const float sums[64], const groups_factors *f,
                          const groups_kind *k) {
    RF_UNROLL
    for (uint32_t i = 0; i < k->n / 2; i++)
        v[i] = rf_fma(sums[i], f->d[i % 4 / 2], v[i]);
}

/* What outputs are multiplied with while they are sums. */
RF_DEVICE float groups_up(const groups_kind *k) {
    return k->is_kept && k->with_m && !k->is_apart ? GROUPS_UP / KEPT_UP : GROUPS_UP;
}

/* Minima of rows g and g + 8 and of groups t and t + 4 of a share, of each four groups in a word, as they are kept; of others only
 * n groups are there. */
typedef struct groups_minima {
    uint32_t of_four[RF_MINIMA_STAGES];
} groups_minima;

RF_DEVICE void groups_load_kept_minima(groups_minima *m, const uint8_t *stage, const groups_rows *r,
                                       const groups_kind *k, uint32_t four) {
    if (!k->is_kept || !k->with_m) return;
    const uint32_t word = groups_word(stage + r->minima);
    m->of_four[0] = four ? m->of_four[0] : word;
    m->of_four[1] = four ? word : 0;
}
RF_DEVICE void groups_load_minima(groups_minima *m, const uint8_t *slot, const groups_rows *r,
                                  uint32_t n) {
    RF_UNROLL
    for (uint32_t i = 0; i < RF_MINIMA_STAGES; i++) {
        const uint32_t is_there = i * RF_GROUPS_MANY + r->t < n, at = i * RF_GROUPS_MANY * 64;
        const uint16_t one = *(const uint16_t *)(const void *)(slot + r->m[0] + at),
                       other = *(const uint16_t *)(const void *)(slot + r->m[1] + at);
        m->of_four[i] = is_there ? one | (uint32_t)other << 16 : 0;
    }
}

/* Begins the minima of a share of n groups. */
RF_DEVICE void groups_begin_minima(float sums[64], uint32_t w[2][4], groups_minima *m,
                                   const uint8_t *slot, const groups_rows *r, const groups_kind *k,
                                   uint32_t n) {
    if (!k->is_kept) groups_load_minima(m, slot, r, n);
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        w[0][i] = rf_bits_of(rf_f16_at((uint16_t)(m->of_four[i / 2] >> 16 * (i % 2))));
    hopper_hold_halves(sums, k->n);
    hopper_begin();
    hopper_multiply_own_f32(sums, k->n, w[0],
                            hopper_rows(rf_shared_at(slot) + r->first_x * 32, 128, 256));
    hopper_end();
}

/* And onto the outputs. */
RF_DEVICE void groups_add_minima(float v[64], const float sums[64], const groups_kind *k) {
    RF_UNROLL
    for (uint32_t i = 0; i < k->n / 2; i++)
        v[i] = rf_fma(sums[i], groups_up(k), v[i]);
}

/* This warp is done with a stage. */
RF_DEVICE void groups_give_back(uint64_t *empty) {
    rf_warp_sync();
    if (ring_speaks()) ring_arrive(empty);
}

/* Where a thread is: its place in the ring, the number of the next share in its own, and the place in the columns. */
typedef struct groups_walk {
    groups_place p;
    uint32_t share;
    groups_minima m;
    uint8_t *stages;
    groups_shared *sh;
    uint32_t group, n_groups, stretch;
} groups_walk;

/* Waits for the next stage. */
RF_DEVICE const uint8_t *groups_await(const groups_walk *t, const groups_kind *k) {
    ring_await(&t->sh->full[t->p.now], t->p.parity);
    return t->stages + t->p.now * k->at.bytes;
}

/* Waits for the next share of minima; this warp is done with it. */
RF_DEVICE const uint8_t *groups_await_minima(const groups_walk *t, const groups_kind *k) {
    const groups_place p = groups_minima_place(t->share);
    ring_await(&t->sh->minima_full[p.now], p.parity);
    return groups_slot(t->stages, k, t->share);
}
RF_DEVICE void groups_end_minima(groups_walk *t) {
    groups_give_back(&t->sh->minima_empty[t->share % RF_MINIMA_SLOTS]);
    t->share++;
}

/* A share's minima by themselves, where its groups were. */
RF_DEVICE void groups_minima_alone(float v[64], float sums[64], groups_walk *t,
                                   const groups_rows *r, const groups_kind *k) {
    uint32_t w[2][4];
    const uint32_t n = t->n_groups % GROUPS_OF_SHARE;
    if (!k->with_m || (t->group % GROUPS_OF_SHARE != 0 && t->group < t->n_groups)) return;
    const uint8_t *slot = groups_await_minima(t, k);
    groups_begin_minima(sums, w, &t->m, slot, r, k,
                        t->group > t->n_groups - n ? n : GROUPS_OF_SHARE);
    hopper_wait_but(0);
    hopper_hold_halves(sums, k->n);
    groups_add_minima(v, sums, k);
    groups_end_minima(t);
}

/* All groups of n stages, which is a constant: of many, so that the units seldom run dry.  What is loaded is
 * loaded before a wait. */
RF_DEVICE void groups_multiply_stages(float v[64], float even[64], float odd[64], groups_walk *t,
                                      const groups_rows *r, const groups_kind *k, uint32_t n) {
    const uint32_t with_m = k->with_m && n % RF_MINIMA_STAGES == 0, all = n * RF_GROUPS_MANY,
                   n_shares = with_m ? n / RF_MINIMA_STAGES : 1, each = all / n_shares + with_m;
    const uint8_t *stage = groups_await(t, k), *ahead = stage, *minima = stage;
    uint32_t w[2][2][4];
    uint64_t *empty = &t->sh->empty[t->p.now], *empty_ahead = empty;
    groups_halves_of halves;
    groups_raw raw;
    groups_load(&raw, stage, r, k, 0);
    groups_begin(even, w[0], &raw, stage, r, k, 0);
    groups_load(&raw, stage, r, k, 1);
    groups_begin(odd, w[1], &raw, stage, r, k, 1);
    RF_UNROLL
    for (uint32_t share = 0; share < n_shares; share++) {
        RF_UNROLL
        for (uint32_t i = 0; i < each; i++) { /* groups, then minima */
            const uint32_t c = i % RF_GROUPS_MANY, after = i + 2 < each ? i + 2 : i + 2 - each,
                           then = after % RF_GROUPS_MANY,
                           goes_on = i + 2 < each || share + 1 < n_shares;
            const uint32_t are_minima = with_m && i == each - 1,
                           are_next_minima = with_m && after == each - 1;
            const uint32_t which = (share * each + i) % 2;
            float *own = which ? odd : even;
            groups_factors f = {{0.0f, 0.0f}};
            if (!are_minima && c == 0) groups_load_factors(&halves, stage, r, k);
            if (!are_minima) f = groups_factors_of(&halves, stage, r, k, c);
            if (!are_minima && c == 0)
                groups_load_kept_minima(&t->m, stage, r, k,
                                        with_m ? i / RF_GROUPS_MANY
                                               : t->group / RF_GROUPS_MANY % RF_MINIMA_STAGES);
            if (!are_next_minima && then == 0) groups_next(&t->p);
            if (!are_next_minima && then == 0 && goes_on) {
                ahead = groups_await(t, k);
                empty_ahead = &t->sh->empty[t->p.now];
            }
            if (are_next_minima) minima = groups_await_minima(t, k);
            if (!are_next_minima && goes_on) groups_load(&raw, ahead, r, k, then);
            if (share * each + i + 1 < n_shares * each)
                hopper_wait_but(1);
            else
                hopper_wait_but(0);
            hopper_hold_halves(own, k->n);
            if (are_minima)
                groups_add_minima(v, own, k);
            else
                groups_add(v, own, &f, k);
            if (are_next_minima)
                groups_begin_minima(own, w[which], &t->m, minima, r, k, GROUPS_OF_SHARE);
            else if (goes_on)
                groups_begin(own, w[which], &raw, ahead, r, k, then);
            if (are_minima) groups_end_minima(t);
            if (are_minima || c != RF_GROUPS_MANY - 1) continue;
            groups_give_back(empty);
            stage = ahead;
            empty = empty_ahead;
        }
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
    groups_load_kept_minima(&t->m, stage, r, k, t->group / RF_GROUPS_MANY % RF_MINIMA_STAGES);
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
        groups_add(v, sums, &f, k);
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

/* One tile's sums where some stage is plain: stage by stage.  A function apart, as what is plain takes
 * registers that the other one has no room for. */
RF_DEVICE void groups_work_apart(float v[64], groups_walk *t, const rf_gpu_matmul_args *a,
                                 const groups_rows *r, const groups_kind *kind,
                                 const uint8_t *plain) {
    groups_kind apart = *kind;
    const groups_kind *k = &apart;
    float even[64], odd[64];
    apart.is_apart = 1;
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
        groups_minima_alone(v, even, t, r, k);
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
    while (t->group + (k->is_kept ? 1 : RF_GROUPS_MANY) <= t->n_groups) {
        groups_multiply_stages(v, even, odd, t, r, k, 1);
        groups_minima_alone(v, even, t, r, k);
    }
    if (!k->is_kept && t->group < t->n_groups) {
        groups_multiply_few(v, even, t, a, r, k, 0);
        groups_minima_alone(v, even, t, r, k);
    }
}

RF_DEVICE void groups_multiply(uint8_t *stages, groups_shared *sh, const rf_gpu_matmul_args *a,
                               const groups_kind *k) {
    const wide_place at = wide_place_of(k->rows);
    const groups_rows r = groups_rows_of(a, k, &at);
    groups_walk t = {{0, 0}, 0, {{0, 0}}, stages, sh, 0, a->part[0].w.cols / 32, 0};
    float *out =
        (float *)(void *)(stages + GROUPS_STAGES * k->at.bytes + rf_tid() / 32 * RF_WIDE_OUT_BYTES);
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < groups_n_places(a, k); i += hopper_grid_x()) {
        float v[64];
        const wide_part p = groups_part(a, k, i);
        t.group = 0;
        t.stretch = p.stretch;
        const uint8_t *plain = groups_plain_at(a, k, t.stretch);
        float up = groups_up(k);
        if (groups_any_plain(plain, groups_stages(a))) {
            groups_work_apart(v, &t, a, &r, k, plain);
            up = GROUPS_UP;
        } else {
            groups_work(v, &t, a, &r, k);
        }
        RF_UNROLL
        for (uint32_t j = 0; j < k->n / 2; j++)
            v[j] *= 1.0f / up;
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
        ring_init_warps(&sh->empty[tid], 2 * WIDE_TEAM / 32);
    }
    if (tid < RF_MINIMA_SLOTS) {
        ring_init(&sh->minima_full[tid], 1);
        ring_init_warps(&sh->minima_empty[tid], 2 * WIDE_TEAM / 32);
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
        lo_bits,      hi_bits,      with_m, d_f32, 0, rf_groups_parts_of(lo_bits, hi_bits),
        RF_WIDE_ROWS, RF_WIDE_COLS, 0};
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
