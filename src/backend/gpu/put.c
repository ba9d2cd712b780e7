/* put.c - how a kernel is queued: which of its functions is for its arguments (kinds.def), and whether it may come
 * early. */
#include "backend/gpu/put.h"

#include "backend/backend.h"
#include "backend/gpu/tile.h"
#include "quant/dtype.h"

const uint32_t rf_gpu_block[RF_GPU_KERNEL_COUNT] = {
#define X(name, args, block) [RF_GPU_##name] = block,
#include "backend/gpu/kernels.def"
#undef X
};

static bool is_few_halves(rf_gpu_kernel k) {
    return k >= RF_GPU_attend_halves && k <= RF_GPU_attend_halves_small_quant;
}

static uint32_t attend_kind(const rf_gpu_queue *q, rf_gpu_kernel k, const rf_gpu_attend_args *a) {
    if (k == RF_GPU_attend_ints) return a->head_dim == RF_GPU_ATTEND_INTS_DIM ? 0 : 1;
    uint32_t form = a->k_type == RF_DT_F16    ? 0
                    : a->k_type == RF_DT_BF16 ? 1
                                              : 2,
             n_forms = is_few_halves(k) ? 3 : 2;
    bool is_one = k == RF_GPU_attend_halves && !is_amd(q) &&
                  div_up(a->max_kv_len, RF_GPU_SEGMENT_BLOCKS * RF_KV_BLOCK) <= a->n_walks;
    return (a->head_dim == RF_ATTEND_HALVES_DIM ? 0 : n_forms) + form + (is_one ? 2 * n_forms : 0);
}

static uint32_t half_kind(const rf_gpu_queue *q, rf_gpu_kernel k, const rf_gpu_matmul_args *a) {
    bool has_short_ring = k == RF_GPU_half_one && !is_amd(q) && a->n_stages != RF_HALF_ONE_SLOTS;
    return (a->part[0].w.form == RF_GPU_F16 ? 0u : 1u) + (has_short_ring ? 2u : 0u);
}

/* Minima only with four bits, factors in 32 bits only with more and without these, as facts_of (kernels/mm.h) has it. */
static uint32_t wide_32_kind(const rf_gpu_weight *w) { return w->m ? 1 : w->d_f32 ? 2 : 0; }

/* Kernels with a function of their own for minima of groups of 32. */
static bool has_minima_apart(rf_gpu_kernel k) {
    static const rf_gpu_kernel all[] = {
        RF_GPU_vec_32_40_1,  RF_GPU_vec_32_41_1,      RF_GPU_one_32_40,    RF_GPU_one_32_41,
        RF_GPU_few_32_40,    RF_GPU_few_32_41,        RF_GPU_normed_32_40, RF_GPU_normed_32_41,
        RF_GPU_mix_32_40,    RF_GPU_mix_32_41,        RF_GPU_choose_32_40, RF_GPU_choose_32_41,
        RF_GPU_wide_32_kept, RF_GPU_wide_32_kept_low, RF_GPU_wide_rows_32};
    for (size_t i = 0; i < RF_COUNT(all); i++)
        if (k == all[i]) return true;
    return false;
}

/* Which of the kernel's functions (kinds.def) such arguments are for. */
static uint32_t kind_of(const rf_gpu_queue *q, rf_gpu_kernel k, const void *args) {
    if (k == RF_GPU_attend_ints || k == RF_GPU_attend_halves_tile ||
        k == RF_GPU_attend_halves_group || is_few_halves(k))
        return attend_kind(q, k, args);
    if (k >= RF_GPU_half_one && k <= RF_GPU_half_wide_256) return half_kind(q, k, args);
    const rf_gpu_matmul_args *a = args;
    if (k == RF_GPU_router_normed) return a->part[0].w.form == RF_GPU_F32 ? 0 : 1;
    if (k >= RF_GPU_wide_32_40 && k <= RF_GPU_wide_32_80) return wide_32_kind(&a->part[0].w);
    if (k == RF_GPU_choose_32_40 || k == RF_GPU_choose_32_41)
        a = &((const rf_gpu_choose_args *)args)->matmul;
    return has_minima_apart(k) && a->part[0].w.m;
}

/* Those that choose a row's experts are small, and what comes behind them large.  Come early their blocks would lie
 * side by side where the kernel in front leaves room first, and be in the way there when the large one's come. */
static bool comes_apart(rf_gpu_kernel k) {
    return k == RF_GPU_router_normed || k == RF_GPU_mm_router || k == RF_GPU_route ||
           k == RF_GPU_lists;
}

void rf_gpu_put_shared(rf_gpu_queue *q, rf_gpu_kernel k, rf_gpu_grid grid, uint32_t shared_bytes,
                       const void *args, size_t bytes) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    if (comes_apart(k)) rf_gpu_part(q);
    rf_gpu_launch(q, k, kind_of(q, k, args), grid, rf_gpu_block[k], shared_bytes, args, bytes);
}

void rf_gpu_put(rf_gpu_queue *q, rf_gpu_kernel k, uint32_t x, uint32_t y, uint32_t z,
                const void *args, size_t bytes) {
    rf_gpu_put_shared(q, k, (rf_gpu_grid){x, y, z}, 0, args, bytes);
}
