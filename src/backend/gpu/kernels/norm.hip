/* norm.hip - RMS and layer norm of rows, and rows into integers; one block per row. */
#include "backend/gpu/kernels/canon.h"

/* What the sixteen lanes add up. */
enum { SUM_OF_SQUARES, SUM_OF_VALUES, SUM_OF_DISTANCES };

typedef struct norm_shared {
    float piece[RF_PIECE_PADDED];
    float lanes[16];
    rf_quant_scratch quant;
} norm_shared;

/* tree16 over the sixteen lanes of a row; every thread gets it.  The row passes through shared
 * memory in pieces; each lane adds its own elements in order. */
RF_DEVICE float lanes_sum(norm_shared *s, const float *x, uint32_t n, int what, float mean) {
    const uint32_t tid = rf_tid();
    float acc = 0.0f;
    for (uint32_t first = 0; first < n; first += RF_PIECE) {
        const uint32_t len = rf_min_u32(n - first, RF_PIECE);
        rf_sync();
        for (uint32_t k = tid; k < len; k += RF_BLOCK_norm_rows)
            s->piece[rf_padded(k)] = x[first + k];
        rf_sync();
        if (tid >= 16) continue;
        RF_UNROLL_8
        for (uint32_t k = tid; k < len; k += 16) {
            float v = s->piece[rf_padded(k)];
            if (what == SUM_OF_VALUES) {
                acc = acc + v;
            } else {
                if (what == SUM_OF_DISTANCES) v = v - mean;
                acc = rf_fma(v, v, acc);
            }
        }
    }
    if (tid < 16) s->lanes[tid] = acc;
    rf_sync();
    return rf_tree16(s->lanes);
}

RF_KERNEL(norm_rows, rf_gpu_norm_args) {
    RF_SHARED norm_shared s;
    const uint32_t tid = rf_tid(), row = rf_bid_x(), n = a.n;
    const float *x = a.x + (uint64_t)row * n;
    const int is_layer = a.kind == RF_GPU_LAYER_NORM;
    float mean = 0.0f;
    if (is_layer) mean = lanes_sum(&s, x, n, SUM_OF_VALUES, 0.0f) / (float)n;
    float ss = is_layer ? lanes_sum(&s, x, n, SUM_OF_DISTANCES, mean)
                        : lanes_sum(&s, x, n, SUM_OF_SQUARES, 0.0f);
    const float r = 1.0f / __builtin_sqrtf(ss / (float)n + a.eps);
    const int to_ints = a.q32.q || a.q256.q;
    for (uint32_t first = 0; first < n; first += RF_PIECE) {
        const uint32_t len = rf_min_u32(n - first, RF_PIECE);
        rf_sync();
        for (uint32_t k = tid; k < len; k += RF_BLOCK_norm_rows) {
            float y = (x[first + k] - mean) * r;
            if (a.w) y = y * a.w[first + k];
            if (a.b) y = y + a.b[first + k];
            if (a.dst) a.dst[(uint64_t)row * n + first + k] = y;
            s.piece[rf_padded(k)] = y;
        }
        if (!to_ints) continue;
        rf_sync();
        rf_quant_piece(s.piece, &s.quant, row, n, first, len, &a.q32, &a.q256);
    }
}

RF_KERNEL(quant_rows, rf_gpu_quant_args) {
    RF_SHARED norm_shared s;
    const uint32_t row = rf_bid_x(), first = rf_bid_y() * RF_PIECE;
    const uint32_t len = rf_min_u32(a.cols - first, RF_PIECE);
    const float *x = a.x + (uint64_t)row * a.cols + first;
    for (uint32_t k = rf_tid(); k < len; k += RF_BLOCK_quant_rows)
        s.piece[rf_padded(k)] = x[k];
    rf_sync();
    rf_quant_piece(s.piece, &s.quant, row, a.cols, first, len, &a.q32, &a.q256);
}
