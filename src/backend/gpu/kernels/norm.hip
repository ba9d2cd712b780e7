/* norm.hip - RMS and layer norm of rows, by one block each or one for each part; rows into integers, by blocks
 * of a whole piece or likewise of a part. */
#include "backend/gpu/kernels/norm.h"
#include "backend/gpu/tile.h"

#if !defined(RF_NVIDIA)
_Static_assert(sizeof(norm_shared) <= RF_NORM_SHARED, "as the grid has it");
_Static_assert((int)RF_GPU_NORM_PART == (int)NORM_PART && (int)RF_GPU_NORM_PARTS == (int)NORM_FOURS,
               "as the grids have them");
#endif

RF_KERNEL_EARLY(norm_rows, rf_gpu_norm_args, 4) {
    RF_SHARED norm_shared s;
    norm_write(&s, &a, rf_bid_x(), 0, NORM_FOURS);
}

RF_KERNEL_EARLY(norm_parts, rf_gpu_norm_args, 2) {
    RF_SHARED norm_shared s;
    norm_write(&s, &a, rf_bid_x(), rf_bid_y() * NORM_PART, 1);
}

RF_DEVICE void quant_run(norm_shared *s, const rf_gpu_quant_args *a, uint32_t n_fours) {
    const uint32_t row = rf_bid_x(), first = rf_bid_y() * n_fours * NORM_PART;
    float v[NORM_OWN];
    norm_load_fours(v, a->x + (uint64_t)row * a->cols, first, a->cols, n_fours);
    quant_own(s, v, &a->q32, &a->q256, row, first, a->cols, n_fours, 0);
}

RF_KERNEL(quant_rows, rf_gpu_quant_args) {
    RF_SHARED norm_shared s; /* of which it needs nothing */
    quant_run(&s, &a, NORM_FOURS);
}

RF_KERNEL(quant_parts, rf_gpu_quant_args) {
    RF_SHARED norm_shared s;
    quant_run(&s, &a, 1);
}
