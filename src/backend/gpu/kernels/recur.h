/* recur.h - where a thread of delta, scan and their kin works: one column of a head's matrix S, of
 * [head_dim][value_dim], and what it needs of each row. */
#pragma once
#include "backend/gpu/kernels/canon.h"

RF_DEVICE uint64_t rf_ready_cols(const rf_gpu_recur_args *a) {
    return (a->is_delta ? 2 * a->n_kv_heads * a->head_dim : 0) + 2 * a->n_heads;
}

RF_DEVICE uint64_t rf_recur_cols(const rf_gpu_recur_args *a) {
    return 2 * a->n_kv_heads * a->head_dim + a->n_heads * a->value_dim;
}

typedef struct rf_recur_place {
    uint32_t first, end; /* rows */
    int is_new, is_mine; /* S begins with zeros; there is such a column */
    const float *pair;   /* of row 0: queries and keys (or B and C), the second second_at behind */
    uint64_t pair_cols, second_at;
    const float *gates; /* of row 0: decay, and beta or dt n_heads behind */
    const float *x;     /* of row 0: the column of values */
    float *s;           /* the column of S, rows value_dim apart */
    float *dst;         /* of row 0 */
} rf_recur_place;

RF_DEVICE rf_recur_place rf_recur_place_of(const rf_gpu_recur_args *a) {
    const uint32_t seq = rf_bid_x(), h = rf_bid_y(), n_k = a->head_dim, n_v = a->value_dim;
    const uint32_t column = rf_bid_z() * RF_BLOCK_delta + rf_tid(), c = column < n_v ? column : 0;
    const uint32_t kh = a->in_turn ? h % a->n_kv_heads : h / (a->n_heads / a->n_kv_heads);
    rf_recur_place p;
    p.first = a->batch.seq_start[seq];
    p.end = a->batch.seq_start[seq + 1];
    p.is_new = a->batch.pos[p.first] == 0;
    p.is_mine = column < n_v;
    p.second_at = a->n_kv_heads * n_k;
    p.gates = a->ready + (a->is_delta ? 2 * p.second_at : 0) + h;
    p.pair = a->is_delta ? a->ready : a->a + a->n_heads * n_v;
    p.pair += kh * n_k;
    p.pair_cols = a->is_delta ? rf_ready_cols(a) : rf_recur_cols(a);
    p.x = a->a + (a->is_delta ? 2 * p.second_at : 0) + h * n_v + c;
    p.s = a->state + a->batch.state[seq] * a->state_stride + (uint64_t)h * n_k * n_v + c;
    p.dst = a->dst + h * n_v + c;
    return p;
}

RF_DEVICE float rf_decay_at(const rf_gpu_recur_args *a, const rf_recur_place *p, uint64_t row) {
    return p->gates[row * rf_ready_cols(a)];
}
RF_DEVICE float rf_gate_at(const rf_gpu_recur_args *a, const rf_recur_place *p, uint64_t row) {
    return p->gates[row * rf_ready_cols(a) + a->n_heads];
}
RF_DEVICE float rf_value_at(const rf_gpu_recur_args *a, const rf_recur_place *p, uint64_t row) {
    return p->x[row * rf_recur_cols(a)];
}
RF_DEVICE float *rf_recur_dst(const rf_gpu_recur_args *a, const rf_recur_place *p, uint64_t row) {
    return p->dst + row * a->n_heads * a->value_dim;
}
