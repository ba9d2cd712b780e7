/* norm.hip - RMS and layer norm of rows, and rows into integers; one block per row, or per piece of it. */
#include "backend/gpu/kernels/norm.h"

RF_KERNEL_EARLY(norm_rows, rf_gpu_norm_args, 1) {
    RF_SHARED norm_shared s;
    const uint32_t row = rf_bid_x(), n = a.n;
    const float *x = a.x + (uint64_t)row * n;
    float w[NORM_OWN], lane[NORM_OWN], v[NORM_OWN], mean = 0.0f;
    norm_weights(w, a.w, 0, n);
    rf_await_before();
    norm_load_lane(lane, x, 0, n);
    norm_load(v, x, 0, n);
    if (a.kind == RF_GPU_LAYER_NORM) {
        mean = norm_sum(&s, lane, x, n, SUM_OF_VALUES, 0.0f, 1) / (float)n;
        if (n > NORM_PIECE) norm_load_lane(lane, x, 0, n);
    }
    const int what = a.kind == RF_GPU_LAYER_NORM ? SUM_OF_DISTANCES : SUM_OF_SQUARES;
    const float ss = norm_sum(&s, lane, x, n, what, mean, 0);
    const float r = 1.0f / __builtin_sqrtf(ss / (float)n + a.eps);
    for (uint32_t first = 0;;) {
        float b[NORM_OWN];
        norm_weights(b, a.b, first, n);
        RF_UNROLL
        for (uint32_t i = 0; i < NORM_OWN; i++) {
            v[i] = (v[i] - mean) * r;
            if (a.w) v[i] = v[i] * w[i];
            if (a.b) v[i] = v[i] + b[i];
        }
        if (a.dst) norm_store(a.dst + (uint64_t)row * n, v, first, n);
        quant_piece(v, &a.q32, &a.q256, row, first, n);
        first += NORM_PIECE;
        if (first >= n) break;
        norm_weights(w, a.w, first, n);
        norm_load(v, x, first, n);
    }
}

RF_KERNEL(quant_rows, rf_gpu_quant_args) {
    const uint32_t row = rf_bid_x(), first = rf_bid_y() * NORM_PIECE;
    float v[NORM_OWN];
    norm_load(v, a.x + (uint64_t)row * a.cols, first, a.cols);
    quant_piece(v, &a.q32, &a.q256, row, first, a.cols);
}
