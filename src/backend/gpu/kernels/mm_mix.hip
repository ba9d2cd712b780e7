/* mm_mix.hip - the last products of the experts that an activation row uses, and their mix.
 *
 * A block has half a tile of weight rows of each of these experts.  A part of 32 threads takes groups of
 * two experts, half of its threads those of an even rank, the others those of the next; all its loads
 * are on their way before the first is used, and it makes integers of its activations itself.  Then
 * one thread for each row and expert adds the groups in order, and one for each row the experts.
 *
 * Where kernels start before the one in front has ended, the first weights are asked for before that, by the route as
 * it lies there, which is made long before that end; what was not there yet is asked for again. */
#include "backend/gpu/kernels/one.h"

enum { MIX_PARTS = RF_GPU_MIX_MOST / 2, MIX_ROWS = RF_GPU_TILE_ROWS / 2 };

/* Units of work: n_own groups of two experts. */
typedef struct mix_plan {
    uint32_t per_pair, n_pairs, n_units, n_own;
} mix_plan;

#define MIX_NONE 0xffffffffu /* no expert */
#if defined(RF_NVIDIA)
enum { MIX_GUESSES = 1 };
#else
enum { MIX_GUESSES = 0 };
#endif

/* The expert of a rank, whatever lies there. */
RF_DEVICE uint32_t mix_expert(const rf_gpu_matmul_args *a, const float *route, uint32_t rank) {
    const float number = rf_load_now(route + a->n_used + rank);
    return number >= 0.0f && number < (float)a->part[0].w.planes ? (uint32_t)number : 0;
}

/* The part's unit of work: its first group, and the experts of its threads. */
typedef struct mix_unit {
    uint32_t pair, first, rank;
} mix_unit;
RF_DEVICE mix_unit mix_unit_of(const rf_gpu_matmul_args *a, const mix_plan *m, uint32_t number) {
    const uint32_t u = rf_min_u32(number, m->n_units - 1), pair = u / m->per_pair,
                   odd = rf_tid() % 32 / MIX_ROWS;
    const mix_unit unit = {pair, u % m->per_pair * m->n_own,
                           rf_min_u32(2 * pair + odd, a->n_used - 1)};
    return unit;
}

RF_DEVICE void mix_load(one_loads *loads, one_place *at, uint32_t expert, uint32_t first, int view,
                        int lo_bits, int hi_bits) {
    at->tile = (uint64_t)expert * rf_div_up(at->w.rows, RF_GPU_TILE_ROWS) + rf_bid_x() / 2;
    one_load(loads, at, view, lo_bits, hi_bits, first, 0);
}

/* The sums of the pair that this part adds, with what a round's units left in terms. */
RF_DEVICE float mix_fold(const mix_plan *m, const one_place *at, const mm_term *terms, int view,
                         int lo_bits, uint32_t round, float acc) {
    const uint32_t start = at->part * m->per_pair, first = start > round ? start : round,
                   end = rf_min_u32(start + m->per_pair, round + MIX_PARTS),
                   before = (first - start) * m->n_own;
    if (first >= end || before >= at->n_groups) return acc;
    const uint32_t n = rf_min_u32(at->n_groups - before, (end - first) * m->n_own);
    return one_fold(at, terms + (first - round) * one_slots(at, view) * 32 + rf_tid() % 32, view,
                    lo_bits, n, acc);
}

/* What the end needs beside sums, fetched long before: nothing would hide these waits there. */
typedef struct mix_extra {
    float route[2 * RF_GPU_MIX_MOST], add[MIX_ROWS];
} mix_extra;

/* There after rf_copy_wait and rf_sync. */
RF_DEVICE void mix_fetch_extra(mix_extra *to, const rf_gpu_matmul_args *a, const float *route,
                               uint32_t r, uint32_t row) {
    const uint32_t tid = rf_tid(), rows = a->part[0].w.rows;
    if (tid < 2 * a->n_used) rf_copy_4(to->route + tid, route + tid);
    if (tid < MIX_ROWS && r < rows && a->mixed_add)
        rf_copy_4(to->add + tid, a->mixed_add + (uint64_t)row * rows + r);
}

/* sums: [MIX_PARTS][32] */
RF_DEVICE void mix_put(const rf_gpu_matmul_args *a, const mix_extra *extra, const float *sums,
                       uint32_t r, uint32_t row) {
    const uint32_t rows = a->part[0].w.rows;
    const float *weights = extra->route, *experts = extra->route + a->n_used;
    float acc = 0.0f;
    if (rf_tid() >= MIX_ROWS || r >= rows) return;
    if (a->part[0].bias) { /* by itself: most have none */
        RF_NO_UNROLL
        for (uint32_t i = 0; i < a->n_used; i++) {
            const float v = sums[i * MIX_ROWS + rf_tid()];
            acc = rf_fma(with_bias(&a->part[0], (uint32_t)experts[i], r, v), weights[i], acc);
        }
    } else {
        RF_UNROLL_8
        for (uint32_t i = 0; i < a->n_used; i++)
            acc = rf_fma(sums[i * MIX_ROWS + rf_tid()], weights[i], acc);
    }
    a->mixed[(uint64_t)row * rows + r] = a->mixed_add ? extra->add[rf_tid()] + acc : acc;
}

RF_DEVICE void mix_run(const rf_gpu_matmul_args *a, int view, int lo_bits, int hi_bits,
                       uint32_t with_m, one_rows *x, mm_term *terms, float *sums,
                       mix_extra *extra) {
    const uint32_t lane = rf_tid() % 32, odd = lane / MIX_ROWS, row = rf_bid_y();
    const uint32_t r = rf_bid_x() * MIX_ROWS + lane;
    const uint32_t last = a->n_used - 1, cols = a->part[0].w.cols;
    one_place at;
    at.w = a->part[0].w;
    at.n_groups = cols / (uint32_t)view;
    at.row = rf_bid_x() % 2 * MIX_ROWS + lane % MIX_ROWS;
    at.part = rf_tid() / 32;
    at.stride = 32;
    one_know(&at, view, lo_bits, hi_bits, with_m);
    mix_plan m;
    m.n_own = ONE_GROUPS(view);
    m.per_pair = rf_div_up(at.n_groups, m.n_own);
    if (view == 32 && at.n_terms == 2)
        m.per_pair += m.per_pair % 2; /* shares are in no two rounds */
    m.n_pairs = rf_div_up(a->n_used, 2);
    m.n_units = m.n_pairs * m.per_pair;
    const float *route = a->route + (uint64_t)row * 2 * a->n_used;
    mix_unit unit = mix_unit_of(a, &m, at.part);
    one_loads loads;
    uint32_t guess = MIX_NONE;
    if (MIX_GUESSES) {
        guess = mix_expert(a, route, unit.rank);
        mix_load(&loads, &at, guess, unit.first, view, lo_bits, hi_bits);
    }
    rf_await_before();
    const float *rows = a->x + (uint64_t)row * a->n_used * cols;
    float acc = 0.0f;
    mix_fetch_extra(extra, a, route, r, row);
    for (uint32_t round = 0; round < m.n_units; round += MIX_PARTS) {
        one_floats floats[2];
        if (round > 0) unit = mix_unit_of(a, &m, round + at.part);
        const uint32_t expert = mix_expert(a, route, unit.rank);
        RF_UNROLL
        for (uint32_t k = 0; k < 2; k++)
            one_read(&floats[k], rows + (uint64_t)rf_min_u32(2 * unit.pair + k, last) * cols, cols,
                     view, unit.first);
        if (round > 0 || expert != guess)
            mix_load(&loads, &at, expert, unit.first, view, lo_bits, hi_bits);
        RF_UNROLL
        for (uint32_t k = 0; k < 2; k++)
            one_quantise(one_x_of(x + k), &floats[k], view, at.part * m.n_own);
        rf_copy_wait();
        if (ONE_TURNS(view, with_m) > 1)
            rf_warp_sync(); /* which made its own rows */
        else
            rf_sync();
        mm_term *const turn = one_turn_terms(terms, view, with_m, MIX_PARTS, round / MIX_PARTS % 2);
        one_terms(turn + (at.part * one_slots(&at, view) * 32 + lane), &at, &loads,
                  one_x_at(one_x_of(x + odd), view, at.part * m.n_own), view, lo_bits, hi_bits,
                  unit.first);
        rf_sync();
        if (at.part < m.n_pairs) acc = mix_fold(&m, &at, turn, view, lo_bits, round, acc);
    }
    sums[rf_tid()] = acc;
    rf_sync();
    mix_put(a, extra, sums, r, row);
}

#define MIX_BODY(view, lo_bits, hi_bits, with_m)                                               \
    {                                                                                          \
        RF_SHARED one_rows x[2];                                                               \
        RF_SHARED mm_term terms[ONE_TURNS(view, with_m) * ONE_TERMS(view, with_m, MIX_PARTS)]; \
        RF_SHARED float sums[MIX_PARTS * 32];                                                  \
        RF_SHARED mix_extra extra;                                                             \
        mix_run(&a, view, lo_bits, hi_bits, with_m, x, terms, sums, &extra);                   \
    }
#define MIX_KERNEL(view, lo_bits, hi_bits, with_m)                          \
    RF_KERNEL_EARLY(mix_##view##_##lo_bits##hi_bits, rf_gpu_matmul_args, 1) \
    MIX_BODY(view, lo_bits, hi_bits, with_m)
#define MIX_KIND(lo_bits, hi_bits)                                            \
    RF_KERNEL_KIND_EARLY(mix_32_##lo_bits##hi_bits, 1, rf_gpu_matmul_args, 1) \
    MIX_BODY(32, lo_bits, hi_bits, 1)
MIX_KERNEL(32, 4, 0, 0)
MIX_KERNEL(32, 4, 1, 0)
MIX_KERNEL(32, 8, 0, 0)
MIX_KERNEL(256, 2, 0, MM_ANY)
MIX_KERNEL(256, 2, 1, MM_ANY)
MIX_KERNEL(256, 4, 0, MM_ANY)
MIX_KERNEL(256, 4, 1, MM_ANY)
MIX_KERNEL(256, 4, 2, MM_ANY)
MIX_KERNEL(256, 8, 0, MM_ANY)
MIX_KIND(4, 0)
MIX_KIND(4, 1)
