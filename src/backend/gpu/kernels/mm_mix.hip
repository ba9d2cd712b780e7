/* mm_mix.hip - the last products of the experts that an activation row uses, and their mix.
 *
 * A block has half a tile of weight rows of each of these experts.  A part of 32 threads takes groups of
 * two experts, half of its threads those of an even rank, the others those of the next; all its loads
 * are on their way before the first is used, and it makes integers of its activations itself.  Then
 * one thread for each row and expert adds the groups in order, and one for each row the experts. */
#include "backend/gpu/kernels/one.h"

enum { MIX_PARTS = RF_GPU_MIX_MOST / 2, MIX_ROWS = RF_GPU_TILE_ROWS / 2 };

/* Units of work: n_own groups of two experts. */
typedef struct mix_plan {
    uint32_t per_pair, n_pairs, n_units, n_own;
} mix_plan;

/* The sums of the pair that this part adds, with what a round's units left in terms. */
RF_DEVICE float mix_fold(const mix_plan *m, const one_place *at, const one_term *terms,
                         uint32_t round, float acc) {
    const uint32_t start = at->part * m->per_pair, end = start + m->per_pair;
    const uint32_t first = start > round ? start : round;
    for (uint32_t u = first; u < rf_min_u32(end, round + MIX_PARTS); u++) {
        const uint32_t n = rf_min_u32(at->n_groups - (u - start) * m->n_own, m->n_own);
        acc = one_fold(terms + (u - round) * m->n_own * at->n_terms * 32 + rf_tid() % 32, 32,
                       n * at->n_terms, acc);
    }
    return acc;
}

/* sums: [MIX_PARTS][32] */
RF_DEVICE void mix_put(const rf_gpu_matmul_args *a, const float *route, const float *sums,
                       uint32_t r, uint32_t row) {
    const uint32_t rows = a->part[0].w.rows;
    const uint64_t at = (uint64_t)row * rows + r;
    float acc = 0.0f;
    if (rf_tid() >= MIX_ROWS || r >= rows) return;
    for (uint32_t i = 0; i < a->n_used; i++) {
        const float v = sums[i * MIX_ROWS + rf_tid()];
        acc = rf_fma(with_bias(&a->part[0], (uint32_t)route[a->n_used + i], r, v), route[i], acc);
    }
    a->mixed[at] = a->mixed_add ? a->mixed_add[at] + acc : acc;
}

RF_DEVICE void mix_run(const rf_gpu_matmul_args *a, int view, int lo_bits, int hi_bits, one_rows *x,
                       one_term *terms, float *sums) {
    const uint32_t lane = rf_tid() % 32, odd = lane / MIX_ROWS, row = rf_bid_y();
    const uint32_t last = a->n_used - 1, cols = a->part[0].w.cols;
    one_place at;
    at.w = a->part[0].w;
    at.n_groups = cols / (uint32_t)view;
    at.row = rf_bid_x() % 2 * MIX_ROWS + lane % MIX_ROWS;
    at.part = rf_tid() / 32;
    at.stride = 32;
    one_know(&at, view, lo_bits, hi_bits);
    mix_plan m;
    m.n_own = ONE_GROUPS(view);
    m.per_pair = rf_div_up(at.n_groups, m.n_own);
    m.n_pairs = rf_div_up(a->n_used, 2);
    m.n_units = m.n_pairs * m.per_pair;
    rf_await_before();
    const float *route = a->route + (uint64_t)row * 2 * a->n_used;
    const float *rows = a->x + (uint64_t)row * a->n_used * cols;
    float acc = 0.0f;
    for (uint32_t round = 0; round < m.n_units; round += MIX_PARTS) {
        const uint32_t u = rf_min_u32(round + at.part, m.n_units - 1), pair = u / m.per_pair;
        const uint32_t first = u % m.per_pair * m.n_own;
        const uint32_t expert = (uint32_t)route[a->n_used + rf_min_u32(2 * pair + odd, last)];
        one_loads loads;
        one_floats floats[2];
        at.tile = (uint64_t)expert * rf_div_up(at.w.rows, RF_GPU_TILE_ROWS) + rf_bid_x() / 2;
        one_load(&loads, &at, view, lo_bits, hi_bits, first, 0);
        RF_UNROLL
        for (uint32_t k = 0; k < 2; k++)
            one_read(&floats[k], rows + (uint64_t)rf_min_u32(2 * pair + k, last) * cols, cols, view,
                     first);
        RF_UNROLL
        for (uint32_t k = 0; k < 2; k++)
            one_quantise(one_x_of(x + k), &floats[k], view, at.part * m.n_own);
        rf_sync();
        one_term *mine = terms + (at.part * m.n_own * at.n_terms * 32 + lane);
        one_terms(mine, &at, &loads, one_x_at(one_x_of(x + odd), view, at.part * m.n_own), view,
                  lo_bits, hi_bits, first);
        rf_sync();
        if (at.part < m.n_pairs) acc = mix_fold(&m, &at, terms, round, acc);
    }
    sums[rf_tid()] = acc;
    rf_sync();
    mix_put(a, route, sums, rf_bid_x() * MIX_ROWS + lane, row);
}

#define MIX_KERNEL(view, lo_bits, hi_bits)                                    \
    RF_KERNEL_EARLY(mix_##view##_##lo_bits##hi_bits, rf_gpu_matmul_args, 1) { \
        RF_SHARED one_rows x[2];                                              \
        RF_SHARED one_term terms[2 * MIX_PARTS * ONE_GROUPS(view) * 32];      \
        RF_SHARED float sums[MIX_PARTS * 32];                                 \
        mix_run(&a, view, lo_bits, hi_bits, x, terms, sums);                  \
    }
MIX_KERNEL(32, 4, 0)
MIX_KERNEL(32, 4, 1)
MIX_KERNEL(32, 8, 0)
MIX_KERNEL(256, 2, 0)
MIX_KERNEL(256, 2, 1)
MIX_KERNEL(256, 4, 0)
MIX_KERNEL(256, 4, 1)
MIX_KERNEL(256, 4, 2)
MIX_KERNEL(256, 8, 0)
