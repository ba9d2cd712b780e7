/* conv.hip - convolutions along the sequence: a thread has a column, a block some columns and, in
 * turn, stretches of a sequence's rows.
 *
 * The block of a sequence's first stretch is the only one that reads the state, and leaves the new one. */
#include "backend/gpu/kernels/canon.h"

/* Row j of what is convolved: state row j for j < n_kept, then rows of the batch. */
RF_DEVICE float conv_at(const float *state, const float *x, uint32_t cols, uint32_t n_kept,
                        uint32_t j) {
    if (j >= n_kept) return x[(uint64_t)(j - n_kept) * cols];
    return state ? state[(uint64_t)j * cols] : 0.0f;
}

RF_KERNEL(conv, rf_gpu_conv_args) {
    RF_SHARED float w[RF_MAX_TAPS][RF_BLOCK_conv]; /* each thread its own */
    const uint32_t tid = rf_tid(), c = rf_bid_y() * RF_BLOCK_conv + tid, seq = rf_bid_x();
    const uint32_t n_kept = a.n_taps - 1, begin = a.batch.seq_start[seq];
    const uint32_t n_rows = a.batch.seq_start[seq + 1] - begin;
    if (c >= a.cols) return;
    const float *x = a.x + (uint64_t)begin * a.cols + c;
    float *dst = a.dst + (uint64_t)begin * a.cols + c;
    float *state = a.state + a.batch.state[seq] * a.state_stride + c;
    const float *before = a.batch.pos[begin] ? state : 0, bias = a.bias ? a.bias[c] : 0.0f;
    for (uint32_t k = 0; k < a.n_taps; k++)
        w[k][tid] = a.w[(uint64_t)c * a.n_taps + k];
    for (uint32_t first = rf_bid_z() * RF_GPU_CONV_ROWS; first < n_rows;
         first += a.n_stretches * RF_GPU_CONV_ROWS) {
        const uint32_t end = rf_min_u32(first + RF_GPU_CONV_ROWS, n_rows);
        for (uint32_t t = first; t < end; t++) {
            float acc = 0.0f;
            for (uint32_t k = 0; k < a.n_taps; k++)
                acc = rf_fma(w[k][tid], conv_at(before, x, a.cols, n_kept, t + k), acc);
            dst[(uint64_t)t * a.cols] = a.bias ? acc + bias : acc;
        }
    }
    if (rf_bid_z() != 0) return;
    for (uint32_t i = 0; i < n_kept; i++)
        state[(uint64_t)i * a.cols] = conv_at(before, x, a.cols, n_kept, n_rows + i);
}
