/* attend_halves_group.hip - what attend_halves_tile.hip does, by Hopper's group of four warps (hopper.h), which multiply
 * together, with keys and values from slots straight away: the same bits.
 *
 * It goes through KV blocks by pairs, of which what is outside of the walk is brought as well, and hidden: their scores
 * are one product, and while one of them waits the other has something to do.  The next pair's scores begin before one's
 * are worked on, and a part of its weighted values is added while another is multiplied.  Queries, exponentials and
 * a segment's values stay in registers.  Keys are brought two pairs ahead, values one.  Parts of attend_halves_tile.hip,
 * behind which this file is included, are its own, too. */
#include "backend/gpu/kernels/hopper.h"

#if defined(RF_HOPPER)
enum {
    GROUP_PANEL = 64 * 128, /* bytes of 64 columns of a pair's keys */
    GROUP_THREADS = RF_BLOCK_attend_halves_group,
    GROUP_WARPS = GROUP_THREADS / 32,
    GROUP_OF_SEGMENT = RF_GPU_SEGMENT_BLOCKS / 2,
};

typedef struct group_shared {
    uint8_t keys[2][64 * 2 * BULK_DIM], values[2][64 * 2 * BULK_DIM]; /* where group_place says */
    rf_u4 total[GROUP_WARPS][BULK_DIM / 16][2][32];
    uint32_t bits[GROUP_WARPS][16];
    prompt_item item[GROUP_WARPS][16];
} group_shared;
#if !defined(RF_NVIDIA)
_Static_assert(sizeof(group_shared) == RF_HALVES_GROUP_SHARED, "as much as the host asks for");
_Static_assert(16 * GROUP_WARPS == (int)RF_HALVES_TILE_ITEMS, "sixteen items of a warp");
#endif

/* Two KV blocks: where they are. */
typedef struct group_pair {
    uint32_t at[2];
} group_pair;

/* What a thread has. */
typedef struct group_work {
    bulk_work own;
    prompt_ml segment;       /* of its own item (prompt_own) */
    float c[32], o[2][32];   /* products on their way: scores, weighted values */
    group_pair keys, values; /* that are brought next */
} group_work;

/* Where a piece of a row is in a slot: in panels of 64 columns as hopper.h has them, rows in the order that bulk_key
 * gives keys. */
RF_DEVICE uint32_t group_place(uint32_t key, uint32_t piece) {
    const uint32_t row = key / 8 * 8 + key % 4 * 2 + key % 8 / 4;
    return piece / 8 * GROUP_PANEL + half_piece(row, piece % 8, 64);
}

/* Where the blocks of pair number pair of the walk are in the pools, in blocks of a head; of a pair behind the last one
 * where something is. */
RF_DEVICE group_pair group_pair_at(const rf_gpu_attend_args *a, const rf_rows_walk *w,
                                   uint32_t pair) {
    group_pair p;
    RF_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t b = 2 * pair + half < w->first ? w->first
                                                      : rf_min_u32(2 * pair + half, w->end - 1);
        p.at[half] = w->table[b] * a->n_kv_heads + rf_bid_x();
    }
    return p;
}

/* A pair's keys or values on their way into a slot. */
RF_DEVICE void group_bring(uint8_t *slot, const void *pool, const group_pair *p, bulk_kind kind) {
    const uint32_t per_row = kind.dim / 8, n = 32 * per_row, tid = prompt_anew(rf_tid());
    slot += group_place(tid / per_row, tid % per_row);
    RF_UNROLL
    for (uint32_t half = 0; half < 2; half++) {
        const uint8_t *from = (const uint8_t *)pool + ((uint64_t)p->at[half] * (16 * n) + 16 * tid);
        RF_UNROLL
        for (uint32_t i = 0; i < n; i += GROUP_THREADS) /* rows a multiple of eight apart */
            rf_copy_16(slot + (32 * half + i / per_row) * 128, from + 16 * i);
    }
}

/* Until what was brought is there, and slots that were read may be filled. */
RF_DEVICE void group_await(void) {
    rf_copy_wait();
    hopper_publish();
    rf_sync();
}

/* Begins the scores of a pair. */
RF_DEVICE void group_multiply(group_work *work, const uint8_t *slot, bulk_kind kind) {
    const uint32_t keys = rf_shared_at(slot);
    hopper_hold_halves(work->c, 64);
    hopper_begin();
    RF_UNROLL
    for (uint32_t step = 0; step < kind.dim / 16; step++)
        hopper_multiply_own_64(work->c, work->own.q[step],
                               hopper_chunk(keys + step / 4 * GROUP_PANEL, step % 4),
                               kind.form == RF_GPU_F16, step > 0);
    hopper_end();
}

/* Keys of pair number pair + 1 and values of pair on their way, if they are of the walk. */
RF_DEVICE void group_bring_next(group_shared *sh, const rf_gpu_attend_args *a,
                                const rf_rows_walk *w, group_work *work, uint32_t pair,
                                bulk_kind kind) {
    if (2 * pair + 2 < w->end) group_bring(sh->keys[(pair + 1) % 2], a->k, &work->keys, kind);
    if (2 * pair < w->end) group_bring(sh->values[pair % 2], a->v, &work->values, kind);
    work->values = work->keys;
    work->keys = group_pair_at(a, w, pair + 2);
}

/* What prompt_soften does, of both blocks. */
RF_DEVICE void group_soften(prompt_part part[2], prompt_ml *segment, const rf_gpu_attend_args *a,
                            const prompt_place *at) {
    const int is_whole = part[0].is_whole;
    float most[2][2];
    int is_odd = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        if (a->softcap > 0) prompt_softcap(part[i].p, a->softcap);
        if (!is_whole) prompt_hide(part[i].p, part[i].bits, at->t, -__builtin_inff());
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        most[i / 2][i % 2] = prompt_most(part[i / 2].p[i % 2]);
    RF_UNROLL
    for (uint32_t i = 0; i < 32; i++) {
        float *p = &part[i / 16].p[i / 8 % 2][i % 8];
        *p = rf_exp_by_unit(*p - most[i / 16][i / 8 % 2]);
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 2 && !is_whole; i++)
        prompt_hide(part[i].p, part[i].bits, at->t, 0.0f);
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const float sum[2] = {prompt_tree(part[i].p[0]), prompt_tree(part[i].p[1])};
        prompt_fold_two(&part[i], segment, most[i], sum, at);
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        if (most[i / 2][i % 2] != -__builtin_inff()) continue;
        is_odd = 1;
        part[i / 2].bits[i % 2] = 0;
    }
    part[0].is_whole = part[1].is_whole = prompt_all(!is_odd) && is_whole;
}

/* The products of a block and a panel onto the segment. */
RF_DEVICE void group_fold(group_work *work, const float o[32], const prompt_part *part,
                          uint32_t panel) {
    RF_UNROLL
    for (uint32_t k = 0; k < 32; k++) {
        float *acc = &work->own.sum.acc[4 * panel + k / 8][k / 4 % 2][k % 4];
        *acc = rf_fma(o[k], part->c_part[k % 4 / 2], *acc * part->c_total[k % 4 / 2]);
    }
}

/* Begins a block's weighted values of a panel. */
RF_DEVICE void group_weigh(float o[32], const uint8_t *values, const bulk_weights *w,
                           uint32_t panel, bulk_kind kind) {
    const uint32_t at = rf_shared_at(values) + panel * GROUP_PANEL;
    hopper_hold_halves(o, 64);
    hopper_begin();
    RF_UNROLL
    for (uint32_t step = 0; step < 2; step++)
        hopper_multiply_turned(o, w->p[step], hopper_chunk(at + step * 16 * 128, 0),
                               kind.form == RF_GPU_F16, step > 0);
    hopper_end();
}

/* Weighted values of a pair, panel by panel of each block, after which the next pair's scores are there, too;
 * is_added: else they are only multiplied, since other warps' are. */
RF_DEVICE void group_add(group_work *work, const uint8_t *values, const bulk_weights w[2],
                         const prompt_part part[2], int is_added, bulk_kind kind) {
    const uint32_t n_panels = kind.dim / 64, n = 2 * n_panels;
    RF_UNROLL
    for (uint32_t i = 0; i < n + 2; i++) {
        const uint32_t j = i - 2; /* what is added, before number i begins in its place */
        if (i >= 2) {
            if (i <= n)
                hopper_wait_but(1);
            else
                hopper_wait_but(0);
            hopper_hold_halves(work->o[j % 2], 64);
            if (i > n) hopper_hold_halves(work->c, 64);
            if (is_added) group_fold(work, work->o[j % 2], &part[j / n_panels], j % n_panels);
        }
        if (i < n)
            group_weigh(work->o[i % 2], values + i / n_panels * 32 * 128, &w[i / n_panels],
                        i % n_panels, kind);
    }
}

/* Pair number pair of the walk onto the segment. */
RF_DEVICE void group_take(group_shared *sh, const rf_gpu_attend_args *a, const rf_rows_walk *walk,
                          group_work *work, uint32_t pair, bulk_kind kind) {
    const prompt_place place = prompt_place_now(), *at = &place;
    const uint8_t *values = sh->values[pair % 2];
    prompt_part part[2];
    part[0].is_whole = part[1].is_whole = 1;
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        part[i / 2].bits[i % 2] = ~0u;
    if (64 * pair < walk->lo || 64 * (pair + 1) > walk->hi) { /* else all items see all of it */
        RF_UNROLL
        for (uint32_t i = 0; i < 2; i++)
            (void)prompt_bits(&part[i], sh->item[0], a, at, walk, 2 * pair + i);
        part[0].is_whole = part[0].is_whole && part[1].is_whole;
    }
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        bulk_units(part[i].p, work->c + 16 * i, sh->item[0], at);
        hopper_hold_halves(part[i].p[0], 32); /* before products take their place */
    }
    group_await();
    group_multiply(work, sh->keys[(pair + 1) % 2], kind); /* behind the last whatever is there */
    group_bring_next(sh, a, walk, work, pair + 1, kind);
    group_soften(part, &work->segment, a, at);
    bulk_weights w[2] = {bulk_weights_of(&part[0], at, kind.form),
                         bulk_weights_of(&part[1], at, kind.form)};
    const int is_apart = !part[0].is_whole && !bulk_are_finite(values, 64, at, kind);
    group_add(work, values, w, part, !is_apart, kind);
    RF_UNROLL
    for (uint32_t i = 0; i < 2 && is_apart; i++)
        bulk_apart(&work->own, values + i * 32 * 128, sh->bits[at->warp], &w[i], &part[i], at,
                   kind);
}

/* The sequence's pairs, for the items that are its; the first one's keys are on their way. */
RF_DEVICE void group_all_of(group_shared *sh, const rf_gpu_attend_args *a, const rf_rows_walk *w,
                            group_work *work, bulk_kind kind) {
    const prompt_ml none = {-__builtin_inff(), 0.0f};
    const prompt_place at = prompt_place_now();
    uint32_t pair = w->first / 2;
    if (w->first >= w->end) return;
    group_await();
    group_multiply(work, sh->keys[pair % 2], kind);
    group_bring_next(sh, a, w, work, pair, kind);
    hopper_wait_but(0);
    hopper_hold_halves(work->c, 64);
    RF_NO_UNROLL
    while (2 * pair < w->end) { /* a segment at a time */
        const uint32_t next = pair - pair % GROUP_OF_SEGMENT + GROUP_OF_SEGMENT;
        prompt_start(sh->item[0], &work->own.sum);
        work->segment = none;
        RF_NO_UNROLL
        for (; pair < next && 2 * pair < w->end; pair++)
            group_take(sh, a, w, work, pair, kind);
        *prompt_own_segment(sh->item[0], &at) = work->segment;
        prompt_total(sh->item[0], sh->total[at.warp][0][0], a, &work->own.sum, kind.dim / 16);
    }
}

/* The next sequence's rows, and its first keys on their way. */
RF_DEVICE rf_rows_walk group_begin(group_shared *sh, const rf_gpu_attend_args *a,
                                   group_work *work, uint32_t first, uint32_t last, uint32_t *r,
                                   bulk_kind kind) {
    const rf_rows_walk w = prompt_walk_of(a, first, last, r);
    const uint32_t pair = w.first / 2;
    rf_sync(); /* the slots have been read */
    if (w.first >= w.end) return w;
    work->values = group_pair_at(a, &w, pair);
    work->keys = group_pair_at(a, &w, pair + 1);
    group_bring(sh->keys[pair % 2], a->k, &work->values, kind);
    return w;
}

RF_DEVICE void group_run(group_shared *sh, const rf_gpu_attend_args *a, uint32_t dim,
                         uint32_t form) {
    const bulk_kind kind = {dim, form, GROUP_PANEL};
    const prompt_items of = prompt_items_of(a, RF_HALVES_TILE_ITEMS);
    const uint32_t first = of.first / of.per_kv;
    const uint32_t last = (rf_min_u32(of.first + RF_HALVES_TILE_ITEMS, of.n) - 1) / of.per_kv;
    uint32_t r = first;
    group_work work;
    rf_rows_walk w = group_begin(sh, a, &work, first, last, &r, kind);
    RF_UNROLL
    for (uint32_t i = 0; i < 32; i++)
        work.c[i] = work.o[0][i] = work.o[1][i] = 0.0f;
    bulk_begin(sh->item[0], a, &of, &work.own, kind);
    work.own.sum.is_begun = 0;
    RF_NO_UNROLL
    for (;;) { /* a sequence's rows at a time */
        group_all_of(sh, a, &w, &work, kind);
        if (r > last) break;
        w = group_begin(sh, a, &work, first, last, &r, kind);
    }
    bulk_end(sh->item[0], sh->total[rf_tid() / 32][0][0], a, &work.own.sum, kind);
}

#define GROUP_BODY(dim, form)                                                        \
    {                                                                                \
        rf_await_before();                                                           \
        group_run((group_shared *)(void *)hopper_shared, &a, (uint32_t)(dim), form); \
    }
/* kinds.def has their order. */
RF_KERNEL_EARLY(attend_halves_group, rf_gpu_attend_args, 2)
GROUP_BODY(BULK_DIM, RF_GPU_F16)
RF_KERNEL_KIND_EARLY(attend_halves_group, 1, rf_gpu_attend_args, 2)
GROUP_BODY(BULK_DIM, RF_GPU_BF16)
RF_KERNEL_KIND_EARLY(attend_halves_group, 2, rf_gpu_attend_args, 2)
GROUP_BODY(BULK_DIM / 2, RF_GPU_F16)
RF_KERNEL_KIND_EARLY(attend_halves_group, 3, rf_gpu_attend_args, 2)
GROUP_BODY(BULK_DIM / 2, RF_GPU_BF16)
#endif
