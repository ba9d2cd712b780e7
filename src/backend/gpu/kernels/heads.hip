/* heads.hip - heads of queries, keys and values: norm, rotation and the way into the KV pool; one
 * block per row and head. */
#include "backend/gpu/kernels/canon.h"

typedef struct heads_shared {
    float x[RF_MAX_HEAD_DIM];
    float lanes[16];
} heads_shared;

/* tree16 of one head in shared memory; mean counts only with distances. */
RF_DEVICE float head_sum(heads_shared *s, uint32_t n, int is_sum, float mean) {
    const uint32_t tid = rf_tid();
    if (tid < 16) {
        float acc = 0.0f;
        for (uint32_t k = tid; k < n; k += 16) {
            float v = s->x[k] - mean;
            acc = is_sum ? acc + s->x[k] : rf_fma(v, v, acc);
        }
        s->lanes[tid] = acc;
    }
    rf_sync();
    float sum = rf_tree16(s->lanes);
    rf_sync();
    return sum;
}

RF_DEVICE void norm_head(heads_shared *s, const rf_gpu_heads *h) {
    const uint32_t n = h->head_dim;
    float mean = 0.0f;
    if (h->norm == RF_GPU_LAYER_NORM) mean = head_sum(s, n, 1, 0.0f) / (float)n;
    const float r = 1.0f / __builtin_sqrtf(head_sum(s, n, 0, mean) / (float)n + h->eps);
    for (uint32_t k = rf_tid(); k < n; k += RF_BLOCK_heads) {
        float y = (s->x[k] - mean) * r;
        if (h->w) y = y * h->w[k];
        if (h->b) y = y + h->b[k];
        s->x[k] = y;
    }
    rf_sync();
}

RF_DEVICE void rotate_head(heads_shared *s, const rf_gpu_heads *h, uint32_t pos) {
    const uint32_t half = h->n_dims / 2;
    const float *cos_sin = h->cos_sin + (uint64_t)pos * h->n_dims;
    for (uint32_t i = rf_tid(); i < half; i += RF_BLOCK_heads) {
        const uint32_t i0 = h->neox ? i : 2 * i, i1 = h->neox ? i + half : 2 * i + 1;
        const float x0 = s->x[i0], x1 = s->x[i1], c = cos_sin[2 * i], sn = cos_sin[2 * i + 1];
        s->x[i0] = rf_fma(x0, c, -(x1 * sn));
        s->x[i1] = rf_fma(x0, sn, x1 * c);
    }
    rf_sync();
}

RF_KERNEL(heads, rf_gpu_heads_args) {
    RF_SHARED heads_shared s;
    uint32_t head = rf_bid_y();
    const uint32_t row = rf_bid_x();
    rf_gpu_heads h = a.part[0];
    if (a.n_parts > 1 && head >= h.n_heads) {
        head -= h.n_heads;
        h = a.part[1];
        if (a.n_parts > 2 && head >= h.n_heads) {
            head -= h.n_heads;
            h = a.part[2];
        }
    }
    const uint64_t at = ((uint64_t)row * h.n_heads + head) * h.head_dim;
    for (uint32_t k = rf_tid(); k < h.head_dim; k += RF_BLOCK_heads)
        s.x[k] = h.x[at + k];
    rf_sync();
    const uint32_t pos = h.cos_sin || h.pool ? a.batch.pos[row] : 0;
    if (h.norm != RF_GPU_NO_NORM) norm_head(&s, &h);
    if (h.cos_sin) rotate_head(&s, &h, pos);
    if (h.dst) {
        for (uint32_t k = rf_tid(); k < h.head_dim; k += RF_BLOCK_heads)
            h.dst[at + k] = s.x[k];
    }
    if (!h.pool) return;
    const uint32_t *table = a.batch.table + (uint64_t)a.batch.row_seq[row] * a.batch.table_stride;
    const uint64_t slot = ((uint64_t)table[pos / 32] * h.n_heads + head) * 32 + pos % 32;
    for (uint32_t k = rf_tid(); k < h.head_dim; k += RF_BLOCK_heads) {
        if (a.kv_f16)
            ((uint16_t *)h.pool)[slot * h.head_dim + k] = rf_f16_of(s.x[k]);
        else
            ((float *)h.pool)[slot * h.head_dim + k] = s.x[k];
    }
}
