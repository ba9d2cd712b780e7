/* mm_one.hip - products of integer weights with one activation row, bound by reading the weights.
 *
 * A block has one tile of 32 weight rows, or with a GLU half a tile of either matrix, and 8 or 16 parts
 * of 32 threads, one per row; a part takes a stretch of the columns in each round.  Where there are too
 * few rows for all of the device, a block has 8 or 16 of them and as many more parts.  All loads of a
 * round are on their way before the first is used, those of the first round before the kernel in front
 * has ended.  Activations come in integers, or in floats that each warp makes integers of for its parts.
 * A part leaves the exact integers of its groups and their scales in shared memory, where one thread per
 * row adds them in order while the next round's loads are on their way and its terms are made. */
#include "backend/gpu/kernels/choose.h"
#include "backend/gpu/kernels/one.h"
#include "backend/gpu/kernels/route.h"

/* A round's pieces of 16 columns, sums and factors in integers, of each of which a thread has one. */
typedef struct one_stretch {
    uint32_t n_q, n_sum, n_d;
} one_stretch;
RF_DEVICE one_stretch one_stretch_of(uint32_t n_groups, int view, uint32_t n_round,
                                     uint32_t first) {
    const uint32_t n = rf_min_u32(n_groups - first, n_round);
    const one_stretch s = {n * (uint32_t)view / 16, n * (view == 256 ? 16 : 1), n};
    return s;
}

/* Activations of the round that starts with group first, on their way, which leads on AMD through
 * registers: there all threads load, so that no branch waits for it. */
RF_DEVICE void one_stage(one_x to, one_floats *carry, const rf_gpu_quant *x, uint64_t row,
                         uint32_t n_groups, int view, uint32_t n_round, uint32_t first) {
    const one_stretch s = one_stretch_of(n_groups, view, n_round, first);
    const uint32_t sums = view == 256 ? 16 : 1, tid = rf_tid();
    const uint64_t at = row * n_groups + first;
#if defined(RF_AMD)
    const rf_f4 *q = (const rf_f4 *)(const void *)(x->q + at * (uint32_t)view);
    const rf_f4 own = q[rf_min_u32(tid, s.n_q - 1)];
    RF_UNROLL
    for (int i = 0; i < 4; i++)
        carry->v[0].v[i] = own.v[i];
    carry->v[1].v[0] = rf_float_of((uint32_t)x->sum[at * sums + rf_min_u32(tid, s.n_sum - 1)]);
    carry->v[1].v[1] = x->d[at + rf_min_u32(tid, s.n_d - 1)];
    carry->v[1].v[2] = carry->v[1].v[3] = 0.0f;
    rf_in_turn(); /* else made one with the loads of floats, and waited for */
    (void)to;
#else
    if (tid < s.n_q) rf_copy_16(to.q + tid, x->q + at * (uint32_t)view + 16 * tid);
    if (tid < s.n_sum) rf_copy_4(to.sum + tid, x->sum + at * sums + tid);
    if (tid < s.n_d) rf_copy_4(to.d + tid, x->d + at + tid);
    (void)carry;
#endif
}

/* The way's end. */
RF_DEVICE void one_land(one_x to, const one_floats *carry, one_stretch s) {
#if defined(RF_AMD)
    const uint32_t tid = rf_tid();
    if (tid < s.n_q) {
        RF_UNROLL
        for (int i = 0; i < 4; i++)
            to.q[tid].v[i] = rf_bits_of(carry->v[0].v[i]);
    }
    if (tid < s.n_sum) to.sum[tid] = (int32_t)rf_bits_of(carry->v[1].v[0]);
    if (tid < s.n_d) to.d[tid] = carry->v[1].v[1];
#else
    (void)to, (void)carry, (void)s;
#endif
}

typedef struct one_shared {
    one_rows x[2];
    one_extra extra;
} one_shared;

/* A warp's floats of a round, for each of its parts; of each so many of the block's the first one's group
 * tells whether there are any. */
RF_DEVICE void one_read_all(one_floats *f, const one_place *at, const float *row, int view,
                            uint32_t n_warps, uint32_t split, uint32_t first) {
    const uint32_t n = n_warps * ONE_GROUPS(view), own = rf_tid() / 32 * ONE_GROUPS(view);
    RF_UNROLL
    for (uint32_t i = 0; i < split; i++)
        if (i == 0 || first + i * n < at->n_groups)
            one_read(&f[i], row, at->w.cols, view, first + i * n + own);
}
RF_DEVICE void one_quantise_all(one_x to, const one_floats *f, const one_place *at, int view,
                                uint32_t n_warps, uint32_t split, uint32_t first) {
    const uint32_t n = n_warps * ONE_GROUPS(view), own = rf_tid() / 32 * ONE_GROUPS(view);
    RF_UNROLL
    for (uint32_t i = 0; i < split; i++)
        if (i == 0 || first + i * n < at->n_groups) one_quantise(to, &f[i], view, i * n + own);
}

/* Weight rows of a block's tile. */
RF_DEVICE uint32_t one_tile_rows(const rf_gpu_matmul_args *a, uint32_t split) {
    return RF_GPU_TILE_ROWS / (split == 1 && a->is_glu ? 2 : split);
}

/* takes_floats: the activations may come in floats.  split: parts that a warp is, each with so many fewer
 * weight rows; where there are more than one, activations do come in floats. */
RF_DEVICE void one_share(const rf_gpu_matmul_args *a, const mm_share s, int view, int lo_bits,
                         int hi_bits, uint32_t with_m, uint32_t n_warps, uint32_t split,
                         int takes_floats, one_shared *shared, mm_term *terms) {
    const uint32_t n_own = ONE_GROUPS(view), n_round = n_warps * split * n_own;
    const uint32_t n_rows = one_tile_rows(a, split);
    one_rows *const x = shared->x;
    one_place at = one_place_of(a, &s, view, n_rows, n_warps, split);
    const int skips = ONE_SKIPS && split > 1; /* fewer parts only lose by the branch */
    one_loads loads;
    one_know(&at, view, lo_bits, hi_bits, with_m);
    if (!ONE_X_FIRST) one_load(&loads, &at, view, lo_bits, hi_bits, at.part * n_own, skips);
    const uint32_t dst_row = dst_row_of(a, &s, 0), x_row = x_row_of(a, dst_row);
    const int in_floats = split > 1 || (takes_floats && a->x);
    const float *row = rf_place_now(a->x + (uint64_t)x_row * s.p.w.cols);
    one_floats floats[4] = {{{{{0}}}}};
    rf_await_before();
    if (in_floats)
        one_read_all(floats, &at, row, view, n_warps, split, 0);
    else
        one_stage(one_x_of(x), floats, &a->xq, x_row, at.n_groups, view, n_round, 0);
    if (takes_floats) one_fetch_extra(&shared->extra, a, &s, &at, n_rows, dst_row);
    if (ONE_X_FIRST) one_load(&loads, &at, view, lo_bits, hi_bits, at.part * n_own, skips);
    uint32_t buffer = 0;
    float acc = 0.0f;
    for (uint32_t first = 0; first < at.n_groups; first += n_round) {
        mm_term *const turn = one_turn_terms(terms, view, with_m, n_warps, buffer);
        mm_term *mine = turn + (at.part * one_slots(&at, view) * at.stride + rf_tid() % at.stride);
        const one_x now = split == 1 ? one_x_of(x + buffer) : one_x_of_both(x, view);
        if (in_floats)
            one_quantise_all(now, floats, &at, view, n_warps, split, first);
        else
            one_land(now, floats, one_stretch_of(at.n_groups, view, n_round, first));
        rf_copy_wait();
        const uint32_t n = rf_min_u32(at.n_groups - first, n_round), next = first + n_round;
        buffer ^= 1;
        if (next < at.n_groups) { /* not behind the weights on their way */
            if (in_floats)
                one_read_all(floats, &at, row, view, n_warps, split, next);
            else
                one_stage(one_x_of(x + buffer), floats, &a->xq, x_row, at.n_groups, view, n_round,
                          next);
        }
        if (in_floats && ONE_TURNS(view, with_m) > 1)
            rf_warp_sync(); /* which made its own */
        else
            rf_sync();
        one_terms(mine, &at, &loads, one_x_at(now, view, at.part * n_own), view, lo_bits, hi_bits,
                  first + at.part * n_own);
        if (next < at.n_groups)
            one_load(&loads, &at, view, lo_bits, hi_bits, next + at.part * n_own, skips);
        rf_sync();
        if (at.part == 0) acc = one_fold(&at, turn + rf_tid(), view, lo_bits, n, acc);
    }
    one_end(a, &s, &at, takes_floats ? &shared->extra : 0, n_rows, dst_row, acc);
}

RF_DEVICE void one_run(const rf_gpu_matmul_args *a, int view, int lo_bits, int hi_bits,
                       uint32_t with_m, uint32_t n_warps, uint32_t split, int takes_floats,
                       one_shared *shared, mm_term *terms) {
    if (a->mode == RF_GPU_MM_EXPERTS) rf_await_before(); /* the route */
    const mm_share s = share_of(a, one_tile_rows(a, split), 1);
    if (s.n == 0) return;
    one_share(a, s, view, lo_bits, hi_bits, with_m, n_warps, split, takes_floats, shared, terms);
}

/* n_blocks: as many as have registers for all loads. */
#define ONE_BODY(name, view, lo_bits, hi_bits, with_m, split, takes_floats)                      \
    {                                                                                            \
        enum { WARPS = RF_BLOCK_##name / 32 };                                                   \
        RF_SHARED one_shared shared;                                                             \
        RF_SHARED mm_term terms[ONE_TURNS(view, with_m) * ONE_TERMS(view, with_m, WARPS)];       \
        one_run(&a, view, lo_bits, hi_bits, with_m, WARPS, split, takes_floats, &shared, terms); \
    }
#define ONE_KERNEL(name, view, lo_bits, hi_bits, with_m, n_blocks, split, takes_floats) \
    RF_KERNEL_EARLY(name, rf_gpu_matmul_args, n_blocks)                                 \
    ONE_BODY(name, view, lo_bits, hi_bits, with_m, split, takes_floats)
#define ONE_KIND(name, lo_bits, hi_bits, n_blocks, split, takes_floats) \
    RF_KERNEL_KIND_EARLY(name, 1, rf_gpu_matmul_args, n_blocks)         \
    ONE_BODY(name, 32, lo_bits, hi_bits, 1, split, takes_floats)
#define ONE_KERNELS(view, lo_bits, hi_bits, with_m, n_small, n_large)                              \
    ONE_KERNEL(vec_##view##_##lo_bits##hi_bits##_1, view, lo_bits, hi_bits, with_m, n_small, 1, 0) \
    ONE_KERNEL(one_##view##_##lo_bits##hi_bits, view, lo_bits, hi_bits, with_m, n_large, 1, 1)
#define FEW_KERNEL(view, lo_bits, hi_bits, with_m)                                 \
    ONE_KERNEL(few_##view##_##lo_bits##hi_bits, view, lo_bits, hi_bits, with_m, 1, \
               RF_GPU_FEW_SPLIT_##view, 1)
/* With minima of groups of 32. */
#define ONE_KINDS(lo_bits, hi_bits)                                    \
    ONE_KIND(vec_32_##lo_bits##hi_bits##_1, lo_bits, hi_bits, 4, 1, 0) \
    ONE_KIND(one_32_##lo_bits##hi_bits, lo_bits, hi_bits, 2, 1, 1)     \
    ONE_KIND(few_32_##lo_bits##hi_bits, lo_bits, hi_bits, 1, RF_GPU_FEW_SPLIT_32, 1)
ONE_KERNELS(32, 4, 0, 0, 4, 2)
ONE_KERNELS(32, 4, 1, 0, 4, 2)
ONE_KERNELS(32, 8, 0, 0, 4, 1)
ONE_KERNELS(256, 2, 0, MM_ANY, 3, 1)
ONE_KERNELS(256, 2, 1, MM_ANY, 3, 1)
ONE_KERNELS(256, 4, 0, MM_ANY, 3, 1)
ONE_KERNELS(256, 4, 1, MM_ANY, 2, 1)
ONE_KERNELS(256, 4, 2, MM_ANY, 2, 1)
ONE_KERNELS(256, 8, 0, MM_ANY, 2, 1)
FEW_KERNEL(32, 4, 0, 0)
FEW_KERNEL(32, 4, 1, 0)
FEW_KERNEL(256, 2, 0, MM_ANY)
FEW_KERNEL(256, 2, 1, MM_ANY)
FEW_KERNEL(256, 4, 0, MM_ANY)
FEW_KERNEL(256, 4, 1, MM_ANY)
FEW_KERNEL(256, 4, 2, MM_ANY)
ONE_KINDS(4, 0)
ONE_KINDS(4, 1)

/* Experts that blocks choose ---------------------------------------------------------------------*/

/* One row's products with experts that each block chooses for itself, as the route has them, of
 * which it has the rank that grid y is; blocks whose grid x is 0 have no tile, and one of them makes
 * the route. */
typedef union choose_room {
    one_shared one;
    route_shared route;
} choose_room;

RF_DEVICE void choose_run(const rf_gpu_choose_args *a, int view, int lo_bits, int hi_bits,
                          uint32_t with_m, choose_room *room, choose_shared *choice,
                          mm_term *terms) {
    const uint32_t rank = rf_bid_y();
    rf_await_before(); /* the scores */
    if (rf_bid_x() == 0) {
        if (rank == 0) route_run(&room->route, &a->route, 0);
        return;
    }
    mm_share s;
    s.p = a->matmul.part[0];
    s.tile = rf_bid_x() - 1;
    s.plane = rf_alike(choose_expert(choice, &a->route, rank));
    s.first = 0;
    s.n = 1;
    s.items = 0;
    one_share(&a->matmul, s, view, lo_bits, hi_bits, with_m, RF_BLOCK_route / 32, 1, 0, &room->one,
              terms);
}

/* As many threads as the kernel route has. */
#define CHOOSE_BODY(view, lo_bits, hi_bits, with_m)                                        \
    {                                                                                      \
        RF_SHARED choose_room room;                                                        \
        RF_SHARED choose_shared choice;                                                    \
        RF_SHARED mm_term                                                                  \
            terms[ONE_TURNS(view, with_m) * ONE_TERMS(view, with_m, RF_BLOCK_route / 32)]; \
        choose_run(&a, view, lo_bits, hi_bits, with_m, &room, &choice, terms);             \
    }
#define CHOOSE_KERNEL(view, lo_bits, hi_bits, with_m, n_blocks)                       \
    RF_KERNEL_EARLY(choose_##view##_##lo_bits##hi_bits, rf_gpu_choose_args, n_blocks) \
    CHOOSE_BODY(view, lo_bits, hi_bits, with_m)
#define CHOOSE_KIND(lo_bits, hi_bits)                                            \
    RF_KERNEL_KIND_EARLY(choose_32_##lo_bits##hi_bits, 1, rf_gpu_choose_args, 4) \
    CHOOSE_BODY(32, lo_bits, hi_bits, 1)
CHOOSE_KERNEL(32, 4, 0, 0, 4)
CHOOSE_KERNEL(32, 4, 1, 0, 4)
CHOOSE_KERNEL(32, 8, 0, 0, 4)
CHOOSE_KERNEL(256, 2, 0, MM_ANY, 3)
CHOOSE_KERNEL(256, 2, 1, MM_ANY, 3)
CHOOSE_KERNEL(256, 4, 0, MM_ANY, 3)
CHOOSE_KERNEL(256, 4, 1, MM_ANY, 2)
CHOOSE_KERNEL(256, 4, 2, MM_ANY, 2)
CHOOSE_KERNEL(256, 8, 0, MM_ANY, 2)
CHOOSE_KIND(4, 0)
CHOOSE_KIND(4, 1)
