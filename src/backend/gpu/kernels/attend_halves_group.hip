/* attend_halves_group.hip - what attend_halves_tile.hip does, by Hopper's groups of four warps (hopper.h), which multiply
 * together, with keys and values from slots straight away: the same bits.
 *
 * A block has two groups, each with items of its own, of which one multiplies while the other makes exponentials, and
 * four warps that bring keys and values for both: of a segment first the keys, by four KV blocks, then the values by two,
 * each into a slot of its own.  Of these what is outside of the walk has other keys in its place, and is hidden.  A segment's
 * scores, then exponentials and weighted values stay in registers; while these go to the total in shared memory the
 * next segment's scores are on their way.  Parts of attend_halves_tile.hip, behind which this file is included, are
 * its own, too. */
#include "backend/gpu/kernels/hopper.h"

#if defined(RF_HOPPER)
enum {
    GROUP_PANEL = 64 * 128,                /* bytes of 64 columns of 64 rows: queries or values, */
    GROUP_KEYS_PANEL = 2 * GROUP_PANEL,    /* and of twice as many keys */
    GROUP_KEYS = RF_HALVES_GROUP_KEYS,     /* slots for keys, */
    GROUP_VALUES = RF_HALVES_GROUP_VALUES, /* and for values */
    GROUP_WARPS = RF_HALVES_GROUP_ITEMS / 16, /* that multiply; the others bring */
    GROUP_GROUPS = RF_HALVES_GROUP_ITEMS / 64,
    GROUP_BRINGING = RF_BLOCK_attend_halves_group - 32 * GROUP_WARPS, /* threads */
    GROUP_SCORES = (int)SEGMENT_SCORES / 2, /* of the keys of a slot and a thread */
    GROUP_PANEL_SUMS = 32,                  /* weighted values of a panel and a thread */
};

/* Slots that are full, or that may be filled. */
typedef struct group_keys_ring {
    uint64_t full[GROUP_KEYS], empty[GROUP_KEYS];
} group_keys_ring;
typedef struct group_values_ring {
    uint64_t full[GROUP_VALUES], empty[GROUP_VALUES];
} group_values_ring;

typedef struct group_shared {
    /* in panels as hopper.h has them */
    uint8_t q[GROUP_GROUPS][64 * 2 * BULK_DIM], keys[GROUP_KEYS][128 * 2 * BULK_DIM],
        values[GROUP_VALUES][64 * 2 * BULK_DIM];
    rf_u4 total[GROUP_WARPS][BULK_DIM / 16][2][32];
    prompt_item item[GROUP_WARPS][16];
    group_keys_ring of_keys;
    group_values_ring of_values;
} group_shared;
#if !defined(RF_NVIDIA)
_Static_assert(sizeof(group_shared) <= RF_HALVES_GROUP_SHARED, "there is room");
#endif

/* A segment of a walk, the KV blocks that it has up to the walk's end, and its number among all that the block of threads
 * goes through: each fills every slot once. */
typedef struct group_segment {
    uint32_t at, n, number;
} group_segment;

RF_DEVICE group_segment group_segment_of(const rf_rows_walk *w, uint32_t at, uint32_t number) {
    const uint32_t before = at * RF_GPU_SEGMENT_BLOCKS;
    const group_segment g = {
        at, w->end > before ? rf_min_u32(w->end - before, RF_GPU_SEGMENT_BLOCKS) : 0, number};
    return g;
}
RF_DEVICE group_segment group_next(const rf_rows_walk *w, const group_segment *g) {
    return group_segment_of(w, g->at + 1, g->number + 1);
}

/* Bringing ---------------------------------------------------------------------------------------*/

/* What a warp that brings has on its way: where it will say so when that is there, or NULL. */
typedef struct group_coming {
    uint64_t *full;
} group_coming;

/* All but the last n groups of copies are there. */
RF_DEVICE void group_arrive(group_coming *coming, uint32_t n) {
    if (!coming->full) return;
    rf_copy_wait_but(n);
    hopper_publish(); /* copies are seen by what the units read */
    rf_warp_sync();
    if (ring_speaks()) ring_arrive(coming->full);
}

/* A warp's quarter of n_blocks KV blocks of the sequence from number first on, when they may be brought; then what it has
 * brought before is there: rows of a slot whose panels have so many bytes.  In place of a KV block that is outside of the
 * walk comes another. */
RF_DEVICE void group_bring(group_coming *coming, uint8_t *slot, uint32_t n_blocks, uint64_t *full,
                           uint64_t *empty, const void *pool, const rf_gpu_attend_args *a,
                           const rf_rows_walk *w, const group_segment *g, uint32_t first,
                           bulk_kind kind) {
    const uint32_t per_row = kind.dim / 8, n = 32 * per_row, tid = rf_tid() % GROUP_BRINGING;
    const uint32_t row = tid / per_row, piece = tid % per_row;
    slot += piece / 8 * (n_blocks * 32 * 128) + half_piece(row, piece % 8, 64);
    ring_await(empty, g->number % 2 ^ 1);
    RF_NO_UNROLL
    for (uint32_t i = 0; i < n_blocks && first < g->n; i++) {
        const uint32_t b = g->at * RF_GPU_SEGMENT_BLOCKS + first + i;
        const uint32_t block = b < w->first ? w->first : rf_min_u32(b, w->end - 1);
        const uint64_t at = (uint64_t)w->table[block] * a->n_kv_heads + rf_bid_x();
        const uint8_t *from = (const uint8_t *)pool + (at * (16 * n) + 16 * tid);
        RF_UNROLL
        for (uint32_t k = 0; k < n; k += GROUP_BRINGING) /* rows a multiple of eight apart */
            rf_copy_16(slot + (32 * i + k / per_row) * 128, from + 16 * k);
    }
    rf_copy_end();
    group_arrive(coming, 1);
    coming->full = full;
}

/* A segment's slots, as they become empty; those that it has none for are full at once.  What a slot waits for does not
 * wait for the one in front, which is not said to be there before. */
RF_DEVICE void group_bring_segment(group_coming *coming, group_shared *sh,
                                   const rf_gpu_attend_args *a, const rf_rows_walk *w,
                                   const group_segment *g, bulk_kind kind) {
    RF_NO_UNROLL
    for (uint32_t i = 0; i < GROUP_KEYS; i++)
        group_bring(coming, sh->keys[i], 4, &sh->of_keys.full[i], &sh->of_keys.empty[i], a->k, a, w,
                    g, 4 * i, kind);
    RF_NO_UNROLL
    for (uint32_t i = 0; i < GROUP_VALUES; i++)
        group_bring(coming, sh->values[i], 2, &sh->of_values.full[i], &sh->of_values.empty[i], a->v,
                    a, w, g, 2 * i, kind);
}

/* Multiplying ------------------------------------------------------------------------------------*/

/* A slot is full. */
RF_DEVICE void group_await(uint64_t *full, const group_segment *g) {
    ring_await(full, g->number % 2);
}

/* This warp is done with a slot. */
RF_DEVICE void group_give_back(uint64_t *empty) {
    rf_warp_sync();
    if (ring_speaks()) ring_arrive(empty);
}

/* The thread's queries in their places. */
RF_DEVICE void group_put_queries(group_shared *sh, uint32_t q[BULK_DIM / 16][4], bulk_kind kind) {
    const uint32_t lane = rf_tid() % 32, row = rf_tid() % 128 / 32 * 16 + lane / 4;
    uint8_t *to = sh->q[rf_tid() / 128] + 4 * (lane % 4);
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 4; i++) {
        const uint32_t piece = 2 * (i / 4) + i % 4 / 2;
        *(uint32_t *)(void *)(to + piece / 8 * GROUP_PANEL +
                              half_piece(row + 8 * (i % 2), piece % 8, 64)) = q[i / 4][i % 4];
    }
}

/* Begins the scores of a slot's keys. */
RF_DEVICE void group_multiply(float c[GROUP_SCORES], group_shared *sh, uint32_t slot,
                              bulk_kind kind) {
    const uint32_t q = prompt_anew(rf_shared_at(sh->q[rf_tid() / 128])),
                   keys = prompt_anew(rf_shared_at(sh->keys[slot]));
    hopper_forget_64(c);
    hopper_forget_64(c + GROUP_SCORES / 2);
    hopper_begin();
    RF_UNROLL
    for (uint32_t step = 0; step < kind.dim / 16; step++)
        hopper_multiply_halves(c, 128, hopper_chunk(q + step / 4 * GROUP_PANEL, step % 4),
                               hopper_chunk(keys + step / 4 * GROUP_KEYS_PANEL, step % 4),
                               kind.form == RF_GPU_F16, step > 0);
    hopper_end();
}

/* Begins a pair's weighted values, onto those before it if is_more. */
RF_DEVICE void group_weigh(prompt_sum *sum, const uint8_t *slot, uint32_t p[4][4], int is_more,
                           bulk_kind kind) {
    const uint32_t values = prompt_anew(rf_shared_at(slot));
    hopper_begin();
    RF_UNROLL
    for (uint32_t step = 0; step < 4; step++) {
        RF_UNROLL
        for (uint32_t panel = 0; panel < kind.dim / 64; panel++)
            hopper_multiply_turned(&sum->acc[4 * panel][0][0], p[step],
                                   hopper_chunk(values + panel * GROUP_PANEL + step * 16 * 128, 0),
                                   kind.form == RF_GPU_F16, is_more || step > 0);
    }
    hopper_end();
}

RF_DEVICE void group_hold_sums(prompt_sum *sum, bulk_kind kind) {
    RF_UNROLL
    for (uint32_t panel = 0; panel < kind.dim / 64; panel++)
        hopper_hold_halves(&sum->acc[4 * panel][0][0], 2 * GROUP_PANEL_SUMS);
}

/* Begins the scores of a segment's keys in slot number i; behind the walk's end those of whatever lies there, which are
 * hidden. */
RF_DEVICE void group_scores(float s[SEGMENT_SCORES], group_shared *sh, const group_segment *g,
                            uint32_t i, bulk_kind kind) {
    group_await(&sh->of_keys.full[i], g);
    group_multiply(s + GROUP_SCORES * i, sh, i, kind);
}

/* They are there, of both slots. */
RF_DEVICE void group_await_scores(float s[SEGMENT_SCORES], group_shared *sh) {
    hopper_wait_but(1);
    group_give_back(&sh->of_keys.empty[0]);
    hopper_wait_but(0);
    hopper_hold_halves(s, 2 * GROUP_SCORES);
    hopper_hold_halves(s + GROUP_SCORES, 2 * GROUP_SCORES);
    group_give_back(&sh->of_keys.empty[1]);
}

/* A segment's weighted values, of all slots or, if it is the walk's last, of those that are of it; keeps: slots are given back
 * by others. */
RF_DEVICE void group_values(prompt_sum *sum, group_shared *sh, uint32_t p[SEGMENT_STEPS][4],
                            const group_segment *g, int keeps, int is_last, bulk_kind kind) {
    RF_UNROLL
    for (uint32_t panel = 0; panel < kind.dim / 64; panel++)
        hopper_forget_64(&sum->acc[4 * panel][0][0]);
    RF_UNROLL
    for (uint32_t i = 0; i < GROUP_VALUES; i++) {
        if (is_last && 2 * i >= g->n) break;
        group_await(&sh->of_values.full[i], g);
        group_weigh(sum, sh->values[i], p + 4 * i, i > 0, kind);
        if (i == 0) continue;
        hopper_wait_but(1);
        if (!keeps) group_give_back(&sh->of_values.empty[i - 1]);
    }
    hopper_wait_but(0);
    group_hold_sums(sum, kind);
    RF_UNROLL
    for (uint32_t i = 0; i < GROUP_VALUES; i++)
        if (!keeps && (is_last ? 2 * i + 2 >= g->n : i + 1 == GROUP_VALUES))
            group_give_back(&sh->of_values.empty[i]);
}

/* Has the segment values that are no numbers, in KV blocks of which items of the warp do not see everything? */
RF_DEVICE int group_is_odd(group_shared *sh, uint32_t partial, const group_segment *g,
                           bulk_kind kind) {
    int is_odd = 0;
    RF_NO_UNROLL
    for (uint32_t i = 0; 2 * i < g->n; i++) {
        if (rf_warp_ballot(partial >> 2 * i & 3) == 0) continue;
        group_await(&sh->of_values.full[i], g);
        is_odd |= !bulk_are_finite(sh->values[i], 64, kind);
    }
    return rf_warp_ballot(is_odd) != 0;
}

/* The warp's weighted values again, of a segment that is odd. */
RF_DEVICE void group_again(prompt_sum *sum, group_shared *sh, const prompt_ml ml[2],
                           const rf_gpu_attend_args *a, const rf_rows_walk *w,
                           uint32_t p[SEGMENT_STEPS][4], const group_segment *g, bulk_kind kind) {
    segment_clear(sum);
    RF_UNROLL
    for (uint32_t b = 0; b < RF_GPU_SEGMENT_BLOCKS; b++) {
        if (b < g->n)
            bulk_apart(sum, sh->values[b / 2] + b % 2 * 32 * 128, p + 2 * b, sh->item[0], ml, a, w,
                       g->at * RF_GPU_SEGMENT_BLOCKS + b, kind);
        if (b % 2) group_give_back(&sh->of_values.empty[b / 2]);
    }
}

/* A segment of the walk, of which scores are there, and but for the last the scores of the next one. */
RF_DEVICE void group_take(float s[SEGMENT_SCORES], group_shared *sh, const rf_gpu_attend_args *a,
                          const rf_rows_walk *w, prompt_ml total[2], const group_segment *g,
                          int is_last, bulk_kind kind) {
    uint32_t p[SEGMENT_STEPS][4];
    prompt_ml ml[2];
    prompt_sum sum;
    const group_segment next = group_next(w, g);
    const uint32_t partial = segment_soften(p, ml, s, sh->item[0], a, w, g->at, kind.form);
    const int is_odd = rf_warp_ballot(partial != 0) != 0 && group_is_odd(sh, partial, g, kind);
    group_values(&sum, sh, p, g, is_odd, is_last, kind);
    if (is_odd) group_again(&sum, sh, ml, a, w, p, g, kind);
    if (!is_last) group_scores(s, sh, &next, 0, kind);
    segment_fold(sh->total[rf_tid() / 32][0][0], total, ml, &sum, kind.dim / 16);
    if (!is_last) {
        group_scores(s, sh, &next, 1, kind);
        group_await_scores(s, sh);
    }
}

/* A walk's segments from one on; returns which comes behind the last. */
RF_DEVICE group_segment group_multiply_all(group_shared *sh, const rf_gpu_attend_args *a,
                                           const rf_rows_walk *w, prompt_ml total[2],
                                           group_segment g, bulk_kind kind) {
    float s[SEGMENT_SCORES];
    group_scores(s, sh, &g, 0, kind);
    group_scores(s, sh, &g, 1, kind);
    group_await_scores(s, sh);
    RF_NO_UNROLL
    for (group_segment next; next = group_next(w, &g), next.n; g = next)
        group_take(s, sh, a, w, total, &g, 0, kind);
    group_take(s, sh, a, w, total, &g, 1, kind);
    return group_next(w, &g);
}

/* The same, as copies. */
RF_DEVICE group_segment group_bring_all(group_coming *coming, group_shared *sh,
                                        const rf_gpu_attend_args *a, const rf_rows_walk *w,
                                        group_segment g, bulk_kind kind) {
    RF_NO_UNROLL
    for (; g.n; g = group_next(w, &g))
        group_bring_segment(coming, sh, a, w, &g, kind);
    return g;
}

/* The walks of all sequences that the block's rows are of; total: NULL of those who bring. */
RF_DEVICE void group_walk(group_shared *sh, const rf_gpu_attend_args *a, const prompt_items *of,
                          prompt_ml *total, bulk_kind kind) {
    const uint32_t first = of->first / of->per_kv,
                   last = (rf_min_u32(of->first + RF_HALVES_GROUP_ITEMS, of->n) - 1) / of->per_kv;
    group_segment g = {0, 0, 0};
    group_coming coming = {NULL};
    RF_NO_UNROLL
    for (uint32_t r = first; r <= last;) { /* a sequence's rows at a time */
        const rf_rows_walk w = prompt_walk_of(a, first, last, &r);
        g = group_segment_of(&w, w.first / RF_GPU_SEGMENT_BLOCKS, g.number);
        if (w.first >= w.end) continue;
        if (total)
            g = group_multiply_all(sh, a, &w, total, g, kind);
        else
            g = group_bring_all(&coming, sh, a, &w, g, kind);
    }
    group_arrive(&coming, 0);
}

HOPPER_REGISTERS(GROUP_BRINGING, 24, 32 * GROUP_WARPS, 240)
RF_DEVICE void group_run(const rf_gpu_attend_args *a, uint32_t dim, uint32_t form) {
    const bulk_kind kind = {dim, form, GROUP_PANEL};
    const prompt_items of = prompt_items_of(a, RF_HALVES_GROUP_ITEMS);
    group_shared *sh = (group_shared *)(void *)hopper_shared;
    const uint32_t tid = rf_tid();
    rf_u4 *warp_total = sh->total[tid / 32 % GROUP_WARPS][0][0];
    if (tid < GROUP_KEYS) {
        ring_init_warps(&sh->of_keys.full[tid], 4);
        ring_init_warps(&sh->of_keys.empty[tid], GROUP_WARPS);
    }
    if (tid < GROUP_VALUES) {
        ring_init_warps(&sh->of_values.full[tid], 4);
        ring_init_warps(&sh->of_values.empty[tid], GROUP_WARPS);
    }
    ring_apart();
    rf_await_before();
    if (tid < 32 * GROUP_WARPS) {
        uint32_t q[BULK_DIM / 16][4];
        bulk_begin(sh->item[0], a, &of, q, kind);
        group_put_queries(sh, q, kind);
        hopper_publish();
    }
    rf_sync();
    if (tid >= 32 * GROUP_WARPS) {
        hopper_24_registers();
        group_walk(sh, a, &of, NULL, kind);
        return;
    }
    hopper_240_registers();
    prompt_ml total[2];
    segment_begin_total(warp_total, total, sh->item[0], kind.dim / 16);
    group_walk(sh, a, &of, total, kind);
    bulk_end(sh->item[0], warp_total, total, a, kind);
}

/* kinds.def has their order. */
RF_KERNEL_EARLY(attend_halves_group, rf_gpu_attend_args, 1) { group_run(&a, BULK_DIM, RF_GPU_F16); }
RF_KERNEL_KIND_EARLY(attend_halves_group, 1, rf_gpu_attend_args, 1) {
    group_run(&a, BULK_DIM, RF_GPU_BF16);
}
RF_KERNEL_KIND_EARLY(attend_halves_group, 2, rf_gpu_attend_args, 1) {
    group_run(&a, BULK_DIM / 2, RF_GPU_F16);
}
RF_KERNEL_KIND_EARLY(attend_halves_group, 3, rf_gpu_attend_args, 1) {
    group_run(&a, BULK_DIM / 2, RF_GPU_BF16);
}
#endif
