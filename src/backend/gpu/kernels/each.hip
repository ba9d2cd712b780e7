/* each.hip - element-wise ops, copies, embeddings from their table's integers and the mix of experts: one
 * element per thread and step. */
#include "backend/gpu/kernels/canon.h"

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

/* As decode() of the table's format. */
RF_DEVICE float embedded(const rf_gpu_embed_args *a, uint64_t i) {
    float d, m;
    int32_t q;
    if (a->view == 256) {
        const rf_gpu_group_256 *g = (const rf_gpu_group_256 *)a->groups + i / 256;
        d = g->d * (float)g->scale[i % 256 / 16];
        m = g->m * (float)g->min[i % 256 / 16];
        q = g->q[i % 256];
    } else {
        const rf_gpu_group_32 *g = (const rf_gpu_group_32 *)a->groups + i / 32;
        d = g->d;
        m = g->m;
        q = g->q[i % 32];
    }
    return a->has_min ? d * (float)q + m : d * (float)q;
}

RF_KERNEL(embed, rf_gpu_embed_args) {
    const uint32_t k = rf_bid_x() * RF_BLOCK_embed + rf_tid();
    if (k >= a.cols) return;
    for (uint32_t row = rf_bid_y(); row < a.n_rows; row += 65535) {
        const uint64_t at = (uint64_t)row * a.cols + k;
        a.dst[at] = embedded(&a, at);
    }
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
