/* attend_halves_tile.hip - attention of many rows of a sequence over keys and values in sixteen bits on
 * NVIDIA's matrix units (segment.h), by half.h's rule: the same bits as attend_halves.hip.
 *
 * An instruction multiplies sixteen items with eight keys or columns, sixteen columns or keys at a time;
 * queries stay in registers, and so do a segment's scores, then exponentials and weighted values.  Of a segment
 * first the keys of its KV blocks and then the values pass through a ring of slots, all but one of which
 * are on their way; the total lies in shared memory. */
#include "backend/gpu/kernels/segment.h"

#if !defined(RF_AMD)
enum {
    BULK_DIM = RF_ATTEND_HALVES_DIM,
    BULK_SLOTS = RF_HALVES_TILE_SLOTS,
    BULK_THREADS = RF_BLOCK_attend_halves_tile,
    BULK_WARPS = BULK_THREADS / 32,
    BULK_ITEMS = 16 * BULK_WARPS,
};

typedef struct bulk_shared {
    /* rows of keys or of values, as half_piece has them */
    uint8_t slot[BULK_SLOTS][32 * 2 * BULK_DIM];
    rf_u4 total[BULK_WARPS][BULK_DIM / 16][2]
               [32]; /* of each thread four columns of both its items */
    prompt_item item[BULK_WARPS][16];
} bulk_shared;
#if !defined(RF_NVIDIA)
_Static_assert(sizeof(bulk_shared) == RF_HALVES_TILE_SHARED, "as much as the host asks for");
_Static_assert((int)BULK_ITEMS == (int)RF_HALVES_TILE_ITEMS, "sixteen items of a warp");
#endif

/* Columns of a head, their format, and where rows lie in panels of 64 columns (attend_halves_group.hip) a panel's bytes,
 * else 0, which are constants. */
typedef struct bulk_kind {
    uint32_t dim, form, panel;
} bulk_kind;

/* What of its items a thread brings for each sixteen columns, and their totals. */
typedef struct bulk_work {
    uint32_t q[BULK_DIM / 16][4];
    prompt_ml total[2];
} bulk_work;

/* Bytes from row to row of a slot, and from a row's first piece to number 2i, or by swap the one after it: as half_piece
 * has them, or panel behind panel. */
RF_DEVICE uint32_t bulk_pitch(bulk_kind kind) { return kind.panel ? 128 : 2 * kind.dim; }
RF_DEVICE uint32_t bulk_piece(uint32_t i, uint32_t swap, bulk_kind kind) {
    return i / 4 * (kind.panel ? kind.panel : 128) + 16 * (2 * (i % 4) ^ swap);
}

/* The ring ---------------------------------------------------------------------------------------*/

/* What comes next: keys or values of block number b, of a segment's that begin with first and end before end, as the
 * ring's number n. */
typedef struct bulk_next {
    uint32_t b, first, end, are_values, n;
} bulk_next;

RF_DEVICE void bulk_enter(bulk_next *next, const rf_rows_walk *w, uint32_t b) {
    next->b = next->first = b;
    next->end = rf_min_u32(b - b % RF_GPU_SEGMENT_BLOCKS + RF_GPU_SEGMENT_BLOCKS, w->end);
    next->are_values = 0;
}

/* On its way into its slot, if it is of the walk. */
RF_DEVICE void bulk_fetch(bulk_shared *sh, const rf_gpu_attend_args *a, const rf_rows_walk *w,
                          bulk_next *next, bulk_kind kind) {
    const uint32_t per_row = kind.dim / 8, n = 32 * per_row, tid = prompt_anew(rf_tid());
    if (next->b < w->end) {
        const uint64_t first = ((uint64_t)w->table[next->b] * a->n_kv_heads + rf_bid_x()) * n + tid;
        const rf_u4 *from = (const rf_u4 *)(next->are_values ? a->v : a->k) + first;
        uint8_t *to = sh->slot[next->n % BULK_SLOTS];
        RF_UNROLL
        for (uint32_t i = 0; i < n; i += BULK_THREADS) {
            const uint32_t row = i / per_row + tid / per_row;
            if (i + BULK_THREADS > n && i + tid >= n) break;
            rf_copy_16(to + half_piece(row, tid % per_row, kind.dim), from + i);
        }
    }
    rf_copy_end();
    next->n++;
    if (++next->b < next->end) return;
    if (next->are_values) {
        bulk_enter(next, w, next->end);
    } else {
        next->b = next->first;
        next->are_values = 1;
    }
}

/* The first of those on their way is there, and another one on its way where the one before it was: as many as there are
 * slots in front of what comes next. */
RF_DEVICE const uint8_t *bulk_await(bulk_shared *sh, const rf_gpu_attend_args *a,
                                    const rf_rows_walk *w, bulk_next *next, bulk_kind kind) {
    rf_copy_wait_but(BULK_SLOTS - 2);
    rf_sync();
    bulk_fetch(sh, a, w, next, kind);
    return sh->slot[next->n % BULK_SLOTS];
}

/* Scores -----------------------------------------------------------------------------------------*/

/* A KV block's: of each eight keys a square. */
RF_DEVICE void bulk_multiply(float c[SEGMENT_OF_BLOCK], const uint8_t *keys, const bulk_work *work,
                             bulk_kind kind) {
    const uint32_t lane = prompt_anew(rf_tid() % 32), row = lane % 8, swap = row ^ lane / 8 % 2;
    const half_at k = half_at_of(keys + (row + lane / 16 * 8) * 2 * kind.dim);
    RF_UNROLL
    for (uint32_t i = 0; i < SEGMENT_OF_BLOCK; i++)
        c[i] = 0.0f;
    RF_UNROLL
    for (uint32_t step = 0; step < kind.dim / 16; step++) {
        RF_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            uint32_t four[4];
            half_load(four, k + (half * 16 * 2 * kind.dim + bulk_piece(step, swap, kind)));
            half_multiply(c + 8 * half, work->q[step], four, kind.form);
            half_multiply(c + 8 * half + 4, work->q[step], four + 2, kind.form);
        }
    }
}

/* Weighted values --------------------------------------------------------------------------------*/

/* Whose weighted values are made, of the thread's items, and the keys that count. */
typedef struct bulk_takes {
    int item[2], is_masked;
    uint32_t bits;
} bulk_takes;

/* Of the keys 16 * step + 8 * half .. those that the thread brings in a word. */
RF_DEVICE uint32_t bulk_mask(uint32_t bits, uint32_t t, uint32_t step, uint32_t half) {
    const uint32_t two = bits >> (16 * step + 8 * half + 2 * t);
    return (0u - (two & 1)) >> 16 | (0u - (two >> 1 & 1)) << 16;
}

/* A KV block's onto the segment's, by p; values: where the block's lie. */
RF_DEVICE void bulk_weigh(prompt_sum *sum, const uint8_t *values, uint32_t p[2][4],
                          const bulk_takes *takes, bulk_kind kind) {
    const uint32_t lane = prompt_anew(rf_tid() % 32), row = lane % 8, swap = row ^ lane / 16,
                   pitch = bulk_pitch(kind);
    const half_at v = half_at_of(values + (row + lane / 8 % 2 * 8) * pitch);
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 16; i++) {
        float c[2][4];
        if (i == BULK_DIM / 32) rf_warp_sync(); /* loads do not pass it: fewer registers */
        RF_UNROLL
        for (uint32_t k = 0; k < 8; k++)
            c[k / 4][k % 4] = sum->acc[i][k / 4][k % 4];
        RF_UNROLL
        for (uint32_t step = 0; step < 2; step++) {
            uint32_t four[4];
            half_load_turned(four, v + (step * 16 * pitch + bulk_piece(i, swap, kind)));
            RF_UNROLL
            for (uint32_t k = 0; k < 4 && takes->is_masked; k++)
                four[k] &= bulk_mask(takes->bits, lane % 4, step, k % 2);
            half_multiply(c[0], p[step], four, kind.form);
            half_multiply(c[1], p[step], four + 2, kind.form);
        }
        RF_UNROLL
        for (uint32_t k = 0; k < 8; k++)
            if (takes->item[k % 4 / 2]) sum->acc[i][k / 4][k % 4] = c[k / 4][k % 4];
    }
}

/* Are all of the values of so many rows numbers?  Of the thread's share of them. */
RF_DEVICE int bulk_are_finite(const uint8_t *values, uint32_t n_rows, bulk_kind kind) {
    const rf_u4 *v = (const rf_u4 *)(const void *)values;
    const uint32_t next = kind.form == RF_GPU_F16 ? 0x04000400u : 0x00800080u;
    uint32_t odd = 0;
    RF_NO_UNROLL
    for (uint32_t i = rf_tid() % 32; i < n_rows * kind.dim / 8; i += 4 * 32) {
        RF_UNROLL
        for (uint32_t k = 0; k < 16; k++) /* the uppermost exponent gets to the sign */
            odd |= (v[i + k / 4 * 32].v[k % 4] & 0x7fff7fffu) + next;
    }
    return !(odd & 0x80008000u);
}

/* Item after item, each with zeros for what it does not see, which is nothing where no score of the segment is a number:
 * what is no number there must not meet the weight 0. */
RF_DEVICE void bulk_apart(prompt_sum *sum, const uint8_t *values, uint32_t p[2][4],
                          const prompt_item *items, const prompt_ml ml[2],
                          const rf_gpu_attend_args *a, const rf_rows_walk *w, uint32_t block,
                          bulk_kind kind) {
    const uint32_t own = rf_tid() % 32 / 4, first = rf_tid() / 32 * 16;
    const uint32_t none[2] = {rf_warp_ballot(ml[0].m == -__builtin_inff()),
                              rf_warp_ballot(ml[1].m == -__builtin_inff())};
    RF_NO_UNROLL
    for (uint32_t i = 0; i < 16; i++) {
        const prompt_item *item = items + first + i;
        const rf_span span = segment_span(a, w, item->row);
        const uint32_t seen = none[i / 8] >> 4 * (i % 8) & 1 ? 0 : ~0u;
        const bulk_takes takes = {{i == own, i == own + 8}, 1, seen & rf_span_bits(&span, block)};
        bulk_weigh(sum, values, p, &takes, kind);
    }
}

/* The walk ---------------------------------------------------------------------------------------*/

/* A segment of the walk. */
RF_DEVICE void bulk_take(bulk_shared *sh, const rf_gpu_attend_args *a, const rf_rows_walk *w,
                         bulk_work *work, bulk_next *next, uint32_t segment, bulk_kind kind) {
    const bulk_takes both = {{1, 1}, 0, ~0u};
    const uint32_t begin = segment * RF_GPU_SEGMENT_BLOCKS;
    uint32_t p[SEGMENT_STEPS][4];
    float s[SEGMENT_SCORES];
    prompt_ml ml[2];
    prompt_sum sum;
    RF_UNROLL
    for (uint32_t b = 0; b < RF_GPU_SEGMENT_BLOCKS; b++) {
        if (begin + b >= w->first && begin + b < w->end) {
            const uint8_t *keys = bulk_await(sh, a, w, next, kind);
            bulk_multiply(s + SEGMENT_OF_BLOCK * b, keys, work, kind);
            continue;
        }
        RF_UNROLL
        for (uint32_t i = 0; i < SEGMENT_OF_BLOCK; i++)
            s[SEGMENT_OF_BLOCK * b + i] = -__builtin_inff();
    }
    const uint32_t partial = segment_soften(p, ml, s, sh->item[0], a, w, segment, kind.form);
    segment_clear(&sum);
    RF_UNROLL
    for (uint32_t b = 0; b < RF_GPU_SEGMENT_BLOCKS; b++) {
        if (begin + b < w->first || begin + b >= w->end) continue;
        const uint8_t *values = bulk_await(sh, a, w, next, kind);
        if (prompt_all(!(partial >> b & 1)) || prompt_all(bulk_are_finite(values, 32, kind)))
            bulk_weigh(&sum, values, p + 2 * b, &both, kind);
        else
            bulk_apart(&sum, values, p + 2 * b, sh->item[0], ml, a, w, begin + b, kind);
    }
    segment_fold(sh->total[rf_tid() / 32][0][0], work->total, ml, &sum, kind.dim / 16);
}

/* The sequence's segments, for the items that are its. */
RF_DEVICE void bulk_all_of(bulk_shared *sh, const rf_gpu_attend_args *a, const rf_rows_walk *w,
                           bulk_work *work, bulk_kind kind) {
    bulk_next next;
    rf_sync(); /* the slots have been read */
    next.n = 0;
    bulk_enter(&next, w, w->first);
    RF_UNROLL
    for (uint32_t i = 0; i + 1 < BULK_SLOTS; i++)
        bulk_fetch(sh, a, w, &next, kind);
    RF_NO_UNROLL
    for (uint32_t segment = w->first / RF_GPU_SEGMENT_BLOCKS;
         segment * RF_GPU_SEGMENT_BLOCKS < w->end; segment++)
        bulk_take(sh, a, w, work, &next, segment, kind);
}

/* The thread's two items with their queries. */
RF_DEVICE void bulk_begin(prompt_item *items, const rf_gpu_attend_args *a, const prompt_items *of,
                          uint32_t queries[BULK_DIM / 16][4], bulk_kind kind) {
    const prompt_place at = prompt_place_now();
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        const uint32_t query = prompt_take(items, a, of, &at, r);
        const rf_f2 *q =
            (const rf_f2 *)(const void *)a->q + query * (uint64_t)(kind.dim / 2) + at.t;
        rf_f2 x[BULK_DIM / 8];
        float down = 1.0f;
        uint32_t most = 0;
        RF_UNROLL
        for (uint32_t i = 0; i < kind.dim / 8; i++) {
            x[i] = q[4 * i];
            RF_UNROLL
            for (uint32_t d = 0; d < 2; d++) {
                x[i].v[d] *= half_query_scale(a);
                most = rf_max_u32(most, rf_size_of(x[i].v[d]));
            }
        }
        rf_lanes_most(&most, 1, 4);
        if (kind.form == RF_GPU_F16) down = half_down(most);
        RF_UNROLL
        for (uint32_t i = 0; i < kind.dim / 8; i++)
            queries[i / 2][i % 2 * 2 + r] = half_two(x[i].v[0] * down, x[i].v[1] * down, kind.form);
        items[16 * at.warp + at.lane / 4 + 8 * r].unit = half_up(down);
    }
}

/* The warp's totals divided by their sums: the thread's two columns of each half of sixteen. */
RF_DEVICE void bulk_end(const prompt_item *items, const rf_u4 *values, const prompt_ml total[2],
                        const rf_gpu_attend_args *a, bulk_kind kind) {
    const prompt_place at = prompt_place_now();
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        const prompt_item item = items[16 * at.warp + at.lane / 4 + 8 * r];
        rf_f2 *to = (rf_f2 *)(void *)a->dst + 2 * (uint64_t)item.to + at.t;
        if (item.to == ~0u) continue;
        RF_NO_UNROLL
        for (uint32_t i = 0; i < kind.dim / 16; i++) {
            const rf_u4 x = values[64 * i + 32 * r + at.lane];
            RF_UNROLL
            for (uint32_t half = 0; half < 2; half++) {
                rf_f2 two = {{0.0f, 0.0f}};
                RF_UNROLL
                for (uint32_t d = 0; d < 2; d++)
                    if (total[r].l != 0.0f) two.v[d] = rf_float_of(x.v[2 * half + d]) / total[r].l;
                to[8 * i + 4 * half] = two;
            }
        }
    }
}

RF_DEVICE void bulk_run_as(bulk_shared *sh, const rf_gpu_attend_args *a, uint32_t dim,
                           uint32_t form) {
    const bulk_kind kind = {dim, form, 0};
    const prompt_items of = prompt_items_of(a, BULK_ITEMS);
    const uint32_t first = of.first / of.per_kv;
    const uint32_t last = (rf_min_u32(of.first + BULK_ITEMS, of.n) - 1) / of.per_kv;
    bulk_work work;
    bulk_begin(sh->item[0], a, &of, work.q, kind);
    segment_begin_total(sh->total[rf_tid() / 32][0][0], work.total, sh->item[0], kind.dim / 16);
    for (uint32_t r = first; r <= last;) { /* a sequence's rows at a time */
        const rf_rows_walk w = prompt_walk_of(a, first, last, &r);
        if (w.first < w.end) bulk_all_of(sh, a, &w, &work, kind);
    }
    bulk_end(sh->item[0], sh->total[rf_tid() / 32][0][0], work.total, a, kind);
}

enum { BULK_AT_ONCE = 2 }; /* blocks side by side: all of a thread's registers */
#define BULK_BODY(dim, form)                                                              \
    {                                                                                     \
        rf_await_before();                                                                \
        bulk_run_as((bulk_shared *)(void *)rf_dynamic_shared, &a, (uint32_t)(dim), form); \
    }
/* kinds.def has their order. */
RF_KERNEL_EARLY(attend_halves_tile, rf_gpu_attend_args, BULK_AT_ONCE)
BULK_BODY(BULK_DIM, RF_GPU_F16)
RF_KERNEL_KIND_EARLY(attend_halves_tile, 1, rf_gpu_attend_args, BULK_AT_ONCE)
BULK_BODY(BULK_DIM, RF_GPU_BF16)
RF_KERNEL_KIND_EARLY(attend_halves_tile, 2, rf_gpu_attend_args, BULK_AT_ONCE)
BULK_BODY(BULK_DIM / 2, RF_GPU_F16)
RF_KERNEL_KIND_EARLY(attend_halves_tile, 3, rf_gpu_attend_args, BULK_AT_ONCE)
BULK_BODY(BULK_DIM / 2, RF_GPU_BF16)
#endif
