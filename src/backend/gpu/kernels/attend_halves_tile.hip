/* attend_halves_tile.hip - attention of many rows of a sequence over keys and values in sixteen bits on
 * NVIDIA's matrix units (prompt.h), by half.h's rule: the same bits as attend_halves.hip.
 *
 * An instruction multiplies sixteen items with eight keys or columns, sixteen columns or keys at a time;
 * queries stay in registers.  The scores that a thread gets are, as exponentials, what it brings of items
 * for the weighted values.  KV blocks pass through a ring of slots, all but one of which are on their way;
 * the total lies in shared memory. */
#include "backend/gpu/kernels/half.h"
#include "backend/gpu/kernels/prompt.h"

#if !defined(RF_AMD)
enum {
    BULK_DIM = RF_ATTEND_HALVES_DIM,
    BULK_SLOTS = RF_HALVES_TILE_SLOTS,
    BULK_THREADS = RF_BLOCK_attend_halves_tile,
    BULK_WARPS = BULK_THREADS / 32,
    BULK_ITEMS = 16 * BULK_WARPS,
};

typedef struct bulk_shared {
    uint8_t slot[BULK_SLOTS][2]
                [32 * 2 * BULK_DIM]; /* rows of keys, of values, as half_piece has them */
    rf_u4 total[BULK_WARPS][BULK_DIM / 16][2]
               [32];               /* of each thread four columns of both its items */
    uint32_t bits[BULK_WARPS][16]; /* the keys that each item sees, for bulk_apart */
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

/* What of its items a thread brings for each sixteen columns, and their sums. */
typedef struct bulk_work {
    uint32_t q[BULK_DIM / 16][4];
    prompt_sum sum;
} bulk_work;

/* The key, of eight, that number n is for an instruction: a thread's two are four apart. */
RF_DEVICE uint32_t bulk_key(uint32_t n) { return n % 2 * 4 + n / 2; }

/* Bytes from row to row of a slot, and from a row's first piece to number 2i, or by swap the one after it: as half_piece
 * has them, or panel behind panel. */
RF_DEVICE uint32_t bulk_pitch(bulk_kind kind) { return kind.panel ? 128 : 2 * kind.dim; }
RF_DEVICE uint32_t bulk_piece(uint32_t i, uint32_t swap, bulk_kind kind) {
    return i / 4 * (kind.panel ? kind.panel : 128) + 16 * (2 * (i % 4) ^ swap);
}

/* Block number b on its way into its slot. */
RF_DEVICE void bulk_fetch(bulk_shared *sh, const rf_gpu_attend_args *a, const rf_rows_walk *w,
                          uint32_t b, bulk_kind kind) {
    const uint32_t per_row = kind.dim / 8, n = 32 * per_row, tid = prompt_anew(rf_tid());
    if (b < w->end) {
        const uint64_t first = ((uint64_t)w->table[b] * a->n_kv_heads + rf_bid_x()) * n + tid;
        const rf_u4 *k = (const rf_u4 *)a->k + first, *v = (const rf_u4 *)a->v + first;
        uint8_t *to = sh->slot[b % BULK_SLOTS][0];
        RF_UNROLL
        for (uint32_t i = 0; i < n; i += BULK_THREADS) {
            const uint32_t row = i / per_row + tid / per_row;
            const uint32_t at = half_piece(row, tid % per_row, kind.dim);
            if (i + BULK_THREADS > n && i + tid >= n) break;
            rf_copy_16(to + at, k + i);
            rf_copy_16(to + sizeof sh->slot[0][0] + at, v + i);
        }
    }
    rf_copy_end();
}

/* Scores -----------------------------------------------------------------------------------------*/

/* c: of each eight keys a square. */
RF_DEVICE void bulk_multiply(float c[16], const bulk_shared *sh, const bulk_work *work,
                             const prompt_place *at, uint32_t b, bulk_kind kind) {
    const uint32_t key = bulk_key(at->lane % 8), swap = key ^ (at->lane / 8 % 2);
    const half_at k =
        half_at_of(sh->slot[b % BULK_SLOTS][0] + (key + at->lane / 16 * 8) * 2 * kind.dim);
    RF_UNROLL
    for (uint32_t step = 0; step < kind.dim / 16; step++) {
        RF_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            uint32_t keys[4];
            half_load(keys, k + (half * 16 * 2 * kind.dim + bulk_piece(step, swap, kind)));
            half_multiply(c + 8 * half, work->q[step], keys, kind.form);
            half_multiply(c + 8 * half + 4, work->q[step], keys + 2, kind.form);
        }
    }
}

/* Products times the items' units: each thread's two. */
RF_DEVICE void bulk_units(float s[2][8], const float c[16], const prompt_item *items,
                          const prompt_place *at) {
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        const float unit = items[16 * at->warp + at->lane / 4 + 8 * r].unit;
        RF_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            s[r][i] = c[i / 2 * 4 + 2 * r + i % 2] * unit;
    }
}

RF_DEVICE void bulk_scores(float s[2][8], const bulk_shared *sh, const bulk_work *work,
                           const prompt_place *at, uint32_t b, bulk_kind kind) {
    float c[16];
    RF_UNROLL
    for (uint32_t i = 0; i < 16; i++)
        c[i] = 0.0f;
    bulk_multiply(c, sh, work, at, b, kind);
    bulk_units(s, c, sh->item[0], at);
}

/* Weighted values --------------------------------------------------------------------------------*/

/* What a block's weighted values are made of: exponentials in sixteen bits, sixteen keys each, and of which
 * items of the thread's; is_masked: only the keys of bits count. */
typedef struct bulk_weights {
    uint32_t p[2][4], bits;
    int takes[2], is_masked;
} bulk_weights;

/* Of the keys 16 * step + 8 * half .. those that the thread brings in a word. */
RF_DEVICE uint32_t bulk_mask(uint32_t bits, uint32_t t, uint32_t step, uint32_t half) {
    const uint32_t two = bits >> (16 * step + 8 * half + t);
    return (0u - (two & 1)) >> 16 | (0u - (two >> 4 & 1)) << 16;
}

/* The block's exponentials as they are multiplied. */
RF_DEVICE bulk_weights bulk_weights_of(prompt_part *part, const prompt_place *at, uint32_t form) {
    bulk_weights w = {{{0}}, ~0u, {1, 1}, 0};
    if (!part->is_whole) prompt_hide(part->p, part->bits, at->t, 0.0f);
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        const float *p = &part->p[i % 2][i / 4 * 4 + i / 2 % 2 * 2];
        w.p[i / 4][i % 4] = half_two(p[0], p[1], form);
    }
    return w;
}

/* Onto the segment; values: where the block's lie. */
RF_DEVICE void bulk_weigh(bulk_work *work, const uint8_t *values, const bulk_weights *w,
                          const prompt_part *part, const prompt_place *at, bulk_kind kind) {
    const uint32_t row = kind.panel ? at->lane % 8 : bulk_key(at->lane % 8);
    const uint32_t swap = row ^ at->lane / 16, pitch = bulk_pitch(kind);
    const half_at v = half_at_of(values + (row + at->lane / 8 % 2 * 8) * pitch);
    RF_UNROLL
    for (uint32_t i = 0; i < kind.dim / 16; i++) {
        float c[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
        if (i == BULK_DIM / 32) rf_warp_sync(); /* loads do not pass it: fewer registers */
        RF_UNROLL
        for (uint32_t step = 0; step < 2; step++) {
            uint32_t four[4];
            half_load_turned(four, v + (step * 16 * pitch + bulk_piece(i, swap, kind)));
            RF_UNROLL
            for (uint32_t k = 0; k < 4 && w->is_masked; k++)
                four[k] &= bulk_mask(w->bits, at->t, step, k % 2);
            half_multiply(c[0], w->p[step], four, kind.form);
            half_multiply(c[1], w->p[step], four + 2, kind.form);
        }
        RF_UNROLL
        for (uint32_t k = 0; k < 8; k++) {
            float *acc = &work->sum.acc[i][k / 4][k % 4];
            const uint32_t r = k % 4 / 2;
            if (w->takes[r])
                *acc = rf_fma(c[k / 4][k % 4], part->c_part[r], *acc * part->c_total[r]);
        }
    }
}

/* Are all of the values of so many rows numbers? */
RF_DEVICE int bulk_are_finite(const uint8_t *values, uint32_t n_rows, const prompt_place *at,
                              bulk_kind kind) {
    const rf_u4 *v = (const rf_u4 *)(const void *)values;
    const uint32_t next = kind.form == RF_GPU_F16 ? 0x04000400u : 0x00800080u;
    uint32_t odd = 0;
    RF_NO_UNROLL
    for (uint32_t i = at->lane; i < n_rows * kind.dim / 8; i += 4 * 32) {
        RF_UNROLL
        for (uint32_t k = 0; k < 16; k++) /* the uppermost exponent gets to the sign */
            odd |= (v[i + k / 4 * 32].v[k % 4] & 0x7fff7fffu) + next;
    }
    return prompt_all(!(odd & 0x80008000u));
}

/* Item after item, each with zeros for what it does not see: what is no number there must not meet the
 * weight 0.  bits: room for the warp's items'. */
RF_DEVICE void bulk_apart(bulk_work *work, const uint8_t *values, uint32_t *bits, bulk_weights *w,
                          const prompt_part *part, const prompt_place *at, bulk_kind kind) {
    rf_warp_sync();
    if (at->t == 0) {
        bits[at->lane / 4] = part->bits[0];
        bits[at->lane / 4 + 8] = part->bits[1];
    }
    rf_warp_sync();
    w->is_masked = 1;
    RF_NO_UNROLL
    for (uint32_t item = 0; item < 16; item++) {
        w->bits = bits[item];
        w->takes[0] = item == at->lane / 4;
        w->takes[1] = item == at->lane / 4 + 8;
        bulk_weigh(work, values, w, part, at, kind);
    }
}

/* The walk ---------------------------------------------------------------------------------------*/

/* Block number b onto the segment. */
RF_DEVICE void bulk_add(bulk_shared *sh, const rf_gpu_attend_args *a, const rf_rows_walk *walk,
                        bulk_work *work, uint32_t b, bulk_kind kind) {
    const prompt_place place = prompt_place_now(), *at = &place;
    prompt_part part;
    part.bits[0] = part.bits[1] = ~0u;
    part.is_whole = 1;
    const uint8_t *values = sh->slot[b % BULK_SLOTS][1];
    const int is_inside = 32 * b >= walk->lo && 32 * (b + 1) <= walk->hi;
    if (!is_inside && !prompt_bits(&part, sh->item[0], a, at, walk, b)) return;
    bulk_scores(part.p, sh, work, at, b, kind);
    prompt_soften(&part, sh->item[0], a, at, 1);
    bulk_weights w = bulk_weights_of(&part, at, kind.form);
    if (part.is_whole || bulk_are_finite(values, 32, at, kind))
        bulk_weigh(work, values, &w, &part, at, kind);
    else
        bulk_apart(work, values, sh->bits[at->warp], &w, &part, at, kind);
}

/* The sequence's blocks, for the items that are its. */
RF_DEVICE void bulk_all_of(bulk_shared *sh, const rf_gpu_attend_args *a, const rf_rows_walk *w,
                           bulk_work *work, bulk_kind kind) {
    rf_sync(); /* the slots have been read */
    RF_UNROLL
    for (uint32_t i = 0; i + 1 < BULK_SLOTS; i++)
        bulk_fetch(sh, a, w, w->first + i, kind);
    RF_NO_UNROLL
    for (uint32_t b = w->first; b < w->end;) { /* a segment at a time */
        const uint32_t next = b - b % RF_GPU_SEGMENT_BLOCKS + RF_GPU_SEGMENT_BLOCKS;
        prompt_start(sh->item[0], &work->sum);
        RF_NO_UNROLL
        for (; b < rf_min_u32(next, w->end); b++) {
            rf_copy_wait_but(BULK_SLOTS - 2);
            rf_sync();
            bulk_fetch(sh, a, w, b + BULK_SLOTS - 1, kind);
            bulk_add(sh, a, w, work, b, kind);
        }
        prompt_total(sh->item[0], sh->total[rf_tid() / 32][0][0], a, &work->sum, kind.dim / 16);
    }
}

/* The thread's two items with their queries. */
RF_DEVICE void bulk_begin(prompt_item *items, const rf_gpu_attend_args *a, const prompt_items *of,
                          bulk_work *work, bulk_kind kind) {
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
                const uint32_t size = rf_bits_of(x[i].v[d]) & 0x7fffffffu;
                most = size > most ? size : most;
            }
        }
        RF_UNROLL
        for (uint32_t other = 1; other < 4; other *= 2) {
            const uint32_t size = rf_lane_xor(most, other);
            most = size > most ? size : most;
        }
        if (kind.form == RF_GPU_F16) down = half_down(most);
        RF_UNROLL
        for (uint32_t i = 0; i < kind.dim / 8; i++)
            work->q[i / 2][i % 2 * 2 + r] = half_two(x[i].v[0] * down, x[i].v[1] * down, kind.form);
        items[16 * at.warp + at.lane / 4 + 8 * r].unit = half_up(down) * a->scale;
    }
}

/* The warp's totals divided by their sums: the thread's two columns of each half of sixteen. */
RF_DEVICE void bulk_end(const prompt_item *items, const rf_u4 *total, const rf_gpu_attend_args *a,
                        const prompt_sum *sum, bulk_kind kind) {
    const prompt_place at = prompt_place_now();
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        const prompt_item item = items[16 * at.warp + at.lane / 4 + 8 * r];
        rf_f2 *to = (rf_f2 *)(void *)a->dst + 2 * (uint64_t)item.to + at.t;
        if (item.to == ~0u) continue;
        RF_NO_UNROLL
        for (uint32_t i = 0; i < kind.dim / 16; i++) {
            const rf_u4 x = total[64 * i + 32 * r + at.lane];
            RF_UNROLL
            for (uint32_t half = 0; half < 2; half++) {
                rf_f2 two = {{0.0f, 0.0f}};
                RF_UNROLL
                for (uint32_t d = 0; d < 2; d++)
                    if (sum->is_begun && item.total.l != 0.0f)
                        two.v[d] = rf_float_of(x.v[2 * half + d]) / item.total.l;
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
    bulk_begin(sh->item[0], a, &of, &work, kind);
    work.sum.is_begun = 0;
    for (uint32_t r = first; r <= last;) { /* a sequence's rows at a time */
        const rf_rows_walk w = prompt_walk_of(a, first, last, &r);
        if (w.first < w.end) bulk_all_of(sh, a, &w, &work, kind);
    }
    bulk_end(sh->item[0], sh->total[rf_tid() / 32][0][0], a, &work.sum, kind);
}

/* Blocks side by side, as far as shared memory has room for them. */
#if defined(RF_NVIDIA) && __CUDA_ARCH__ == 900
enum { BULK_AT_ONCE = 12 / BULK_WARPS };
#else
enum { BULK_AT_ONCE = BULK_WARPS > 4 ? 1 : 2 };
#endif
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
