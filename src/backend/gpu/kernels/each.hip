/* each.hip - element-wise ops, copies, embeddings and the mix of experts: one element per thread and
 * step. */
#include "backend/gpu/kernels/canon.h"
#include "backend/gpu/kernels/element.h"

RF_DEVICE float each_of(const rf_gpu_each_args *a, float x, float y) {
    if (a->op == RF_GPU_ACT) return rf_activate(a->act, x);
    if (a->op == RF_GPU_GLU) return rf_glu(a->act, x, y);
    if (a->op == RF_GPU_SCALE) return x * a->scale;
    if (a->op == RF_GPU_SOFTCAP) return a->scale * rf_tanh32(x / a->scale);
    if (a->op == RF_GPU_ADD) return x + y;
    return x * y;
}

RF_KERNEL(each, rf_gpu_each_args) {
    const uint32_t k = rf_bid_x() * RF_BLOCK_each + rf_tid();
    if (k >= a.cols) return;
    for (uint32_t row = rf_bid_y(); row < a.n_rows; row += 65535) {
        const uint64_t at = (uint64_t)row * a.cols + k;
        float y = 0.0f;
        if (a.b && a.op == RF_GPU_MUL)
            y = a.b[(uint64_t)row * (a.cols / a.repeat) + k / a.repeat];
        else if (a.b)
            y = a.b[at];
        a.dst[at] = each_of(&a, a.a[at], y);
    }
}

/* Nothing may have been chosen: the host then makes no use of the row. */
RF_DEVICE uint32_t embedded_row(const rf_gpu_embed_args *a, uint32_t t) {
    const int32_t at = a->at ? a->at[t] : 0;
    const uint32_t row = at >= 0 ? (uint32_t)at : a->chosen[~at];
    return row < a->table.rows ? row : 0;
}

RF_KERNEL(embed, rf_gpu_embed_args) {
    const uint32_t k = rf_bid_x() * RF_BLOCK_embed + rf_tid();
    if (k >= a.cols) return;
    for (uint32_t t = rf_bid_y(); t < a.n_rows; t += 65535)
        a.dst[(uint64_t)t * a.cols + k] = rf_element_of(&a.table, embedded_row(&a, t), k);
}

RF_KERNEL(copy, rf_gpu_copy_args) {
    const uint32_t i = rf_bid_x() * RF_BLOCK_copy + rf_tid();
    if (i >= a.n_heads * a.n) return;
    const uint32_t head = i / a.n, k = i % a.n;
    for (uint32_t row = rf_bid_y(); row < a.n_rows; row += 65535) {
        const uint32_t from = a.rows ? a.rows[row] : row;
        a.dst[(uint64_t)row * a.dst_row + (uint64_t)head * a.dst_head + k] =
            a.src[(uint64_t)from * a.src_row + (uint64_t)head * a.src_head + k];
    }
}

RF_KERNEL(mix, rf_gpu_mix_args) {
    const uint32_t k = rf_bid_x() * RF_BLOCK_mix + rf_tid();
    if (k >= a.cols) return;
    for (uint32_t row = rf_bid_y(); row < a.n_rows; row += 65535) {
        const float *route = a.route + (uint64_t)row * 2 * a.n_used;
        float acc = 0.0f;
        RF_UNROLL_8
        for (uint32_t i = 0; i < a.n_used; i++)
            acc = rf_fma(a.a[((uint64_t)row * a.n_used + i) * a.cols + k], route[i], acc);
        if (a.add) acc = a.add[(uint64_t)row * a.cols + k] + acc;
        a.dst[(uint64_t)row * a.cols + k] = acc;
    }
}
