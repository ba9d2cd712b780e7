/* norm.hip - RMS and layer norm of rows, and rows into integers; one block per row. */
#include "backend/gpu/kernels/canon.h"

/* What the sixteen lanes add up. */
enum { SUM_OF_SQUARES, SUM_OF_VALUES, SUM_OF_DISTANCES };

typedef struct norm_shared {
    float piece[RF_PIECE_PADDED];
    float lanes[16];
    rf_quant_scratch quant;
} norm_shared;

enum {
    OWN = RF_PIECE / RF_PIECE_THREADS, /* elements of a thread in a piece */
    AHEAD = 16, /* elements of a lane that are loaded before they are added */
};

/* A piece of a row into shared memory: all loads on their way before the first is waited for. */
RF_DEVICE void piece_load(float *piece, const float *x, uint32_t len) {
    const uint32_t tid = rf_tid();
    float v[OWN];
    RF_UNROLL
    for (uint32_t i = 0; i < OWN; i++)
        v[i] = tid + RF_PIECE_THREADS * i < len ? x[tid + RF_PIECE_THREADS * i] : 0.0f;
    RF_UNROLL
    for (uint32_t i = 0; i < OWN; i++)
        piece[rf_padded(tid + RF_PIECE_THREADS * i)] = v[i];
}

RF_DEVICE float lane_sum(float acc, float v, int what, float mean) {
    if (what == SUM_OF_VALUES) return acc + v;
    if (what == SUM_OF_DISTANCES) v = v - mean;
    return rf_fma(v, v, acc);
}

/* tree16 over the sixteen lanes of a row; every thread gets it.  The row passes through shared
 * memory in pieces, the last of which stays there; each lane adds its own elements in order. */
RF_DEVICE float lanes_sum(norm_shared *s, const float *x, uint32_t n, int what, float mean) {
    const uint32_t tid = rf_tid();
    float acc = 0.0f;
    for (uint32_t first = 0; first < n; first += RF_PIECE) {
        const uint32_t len = rf_min_u32(n - first, RF_PIECE);
        rf_sync();
        piece_load(s->piece, x + first, len);
        rf_sync();
        if (tid >= 16) continue;
        uint32_t k = tid;
        for (; k + 16 * AHEAD <= len; k += 16 * AHEAD) {
            float v[AHEAD];
            RF_UNROLL
            for (uint32_t i = 0; i < AHEAD; i++)
                v[i] = s->piece[rf_padded(k + 16 * i)];
            RF_UNROLL
            for (uint32_t i = 0; i < AHEAD; i++)
                acc = lane_sum(acc, v[i], what, mean);
        }
        for (; k < len; k += 16)
            acc = lane_sum(acc, s->piece[rf_padded(k)], what, mean);
    }
    if (tid < 16) s->lanes[tid] = acc;
    rf_sync();
    return rf_tree16(s->lanes);
}

/* This thread's weights of the piece from column first on; w may be NULL. */
RF_DEVICE void norm_weights(float scale[OWN], const float *w, uint32_t first, uint32_t n) {
    RF_UNROLL
    for (uint32_t i = 0; i < OWN; i++) {
        const uint32_t k = first + rf_tid() + RF_PIECE_THREADS * i;
        scale[i] = w && k < n ? w[k] : 1.0f;
    }
}

/* The len elements in shared memory, normalised there; dst and b (each may be NULL): their places. */
RF_DEVICE void piece_norm(float *piece, uint32_t len, float mean, float r, const float *scale,
                          int has_scale, const float *b, float *dst) {
    const uint32_t tid = rf_tid();
    RF_UNROLL
    for (uint32_t i = 0; i < OWN; i++) {
        const uint32_t k = tid + RF_PIECE_THREADS * i;
        if (k >= len) break;
        float y = (piece[rf_padded(k)] - mean) * r;
        if (has_scale) y = y * scale[i];
        if (b) y = y + b[k];
        if (dst) dst[k] = y;
        piece[rf_padded(k)] = y;
    }
}

RF_KERNEL_EARLY(norm_rows, rf_gpu_norm_args, 1) {
    RF_SHARED norm_shared s;
    const uint32_t row = rf_bid_x(), n = a.n;
    const float *x = a.x + (uint64_t)row * n;
    float *dst = a.dst ? a.dst + (uint64_t)row * n : 0;
    const int is_layer = a.kind == RF_GPU_LAYER_NORM;
    float scale[OWN];
    norm_weights(scale, a.w, 0, n);
    rf_await_before();
    float mean = 0.0f;
    if (is_layer) mean = lanes_sum(&s, x, n, SUM_OF_VALUES, 0.0f) / (float)n;
    float ss = is_layer ? lanes_sum(&s, x, n, SUM_OF_DISTANCES, mean)
                        : lanes_sum(&s, x, n, SUM_OF_SQUARES, 0.0f);
    const float r = 1.0f / __builtin_sqrtf(ss / (float)n + a.eps);
    const int to_ints = a.q32.q || a.q256.q;
    for (uint32_t first = 0; first < n; first += RF_PIECE) {
        const uint32_t len = rf_min_u32(n - first, RF_PIECE);
        if (n > RF_PIECE) { /* else it is still there */
            rf_sync();
            piece_load(s.piece, x + first, len);
        }
        piece_norm(s.piece, len, mean, r, scale, a.w != 0, a.b ? a.b + first : 0,
                   dst ? dst + first : 0);
        if (first + len < n) norm_weights(scale, a.w, first + len, n);
        if (!to_ints) continue;
        rf_sync();
        rf_quant_piece(s.piece, &s.quant, row, n, first, len, &a.q32, &a.q256);
    }
}

RF_KERNEL(quant_rows, rf_gpu_quant_args) {
    RF_SHARED norm_shared s;
    const uint32_t row = rf_bid_x(), first = rf_bid_y() * RF_PIECE;
    const uint32_t len = rf_min_u32(a.cols - first, RF_PIECE);
    piece_load(s.piece, a.x + (uint64_t)row * a.cols + first, len);
    rf_sync();
    rf_quant_piece(s.piece, &s.quant, row, a.cols, first, len, &a.q32, &a.q256);
}
