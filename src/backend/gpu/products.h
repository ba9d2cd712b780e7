/* products.h - what the files that choose kernels for matrix products share (launch_products.c, launch_ahead.c,
 * launch_halves.c); private to these. */
#pragma once
#include "backend/gpu/lists.h"
#include "backend/gpu/put.h"

/* Tiles of so many weight rows, of all parts; with is_glu those of either matrix lie in one. */
static inline uint32_t tiles_of(const rf_gpu_matmul_args *a, uint32_t rows) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < (a->is_glu ? 1 : a->n_parts); i++)
        n += div_up(a->part[i].w.rows, rows);
    return n;
}

/* A grid over the units of the lists, of so many activation rows each. */
static inline void over_lists(rf_gpu_grid *grid, const rf_gpu_matmul_args *a, uint32_t cols) {
    uint32_t n = rf_lists_units(a->n_rows * a->n_used, a->part[0].w.planes, cols);
    grid->y = min_u32(n, MAX_GRID_Y);
    grid->z = div_up(n, MAX_GRID_Y);
}

/* Has the layout kernels for some activation rows (mm_batch.hip)? */
bool rf_gpu_has_batch(const rf_gpu_weight *w);

/* Rows into integers, for kernels that do not make them themselves. */
void rf_gpu_quantise_rows(rf_gpu_queue *q, rf_gpu_matmul_args *a);

/* Parts from number i on that are launched together: neighbours of one layout, or all where they norm their row. */
void rf_gpu_take_group(rf_gpu_matmul_args *to, const rf_gpu_matmul_args *a, uint32_t i);

/* False: blocks that unpack weights and activations themselves are better. */
bool rf_gpu_launch_ahead(rf_gpu_queue *q, rf_gpu_matmul_args *a);
/* What is kept of a group that is launched together: as many bytes whichever kernel is left out. */
uint64_t rf_gpu_group_kept_bytes(const rf_gpu_queue *q, const rf_gpu_matmul_args *a);

/* By half.h's rule, which holds for a matrix whatever it is multiplied with: a row's outputs are the same in
 * any batch, by whichever of its kernels, of which one does the work of all others. */
bool rf_gpu_takes_halves(const rf_gpu_queue *q, const rf_gpu_weight *w);
/* Do all products take 16-bit floats of one format on matrix units? */
bool rf_gpu_all_take_halves(const rf_gpu_queue *q, const rf_gpu_matmul_args *a);
/* Of products that do; usual: activation rows that a matrix meets as a rule; y: matrices, or items. */
void rf_gpu_launch_halves(rf_gpu_queue *q, rf_gpu_matmul_args *a, uint32_t usual, uint32_t y);
