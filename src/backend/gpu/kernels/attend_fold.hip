/* attend_fold.hip - segments of attention that were made side by side, folded in order; one block
 * per row and head, one thread per column.
 *
 * The factors of up to FOLD_MANY segments are made at once: each thread finds the maximum before
 * its segment by itself. */
#include "backend/gpu/kernels/span.h"

enum {
    FOLD_MANY = RF_BLOCK_attend_fold,
    FOLD_COLUMNS = (int)RF_MAX_HEAD_DIM / (int)FOLD_MANY,
    FOLD_AHEAD = 32, /* values of a thread on their way together */
};

typedef struct fold_shared {
    float m[FOLD_MANY], l[FOLD_MANY];
    rf_fold fold[FOLD_MANY];
} fold_shared;

/* The factors of segments first .. first + n - 1; gives the maximum behind them. */
RF_DEVICE float fold_factors(fold_shared *sh, const float *ml, uint32_t first, uint32_t n,
                             float total_m) {
    const uint32_t tid = rf_tid();
    rf_sync();
    if (tid < n) {
        sh->m[tid] = ml[2 * (first + tid)];
        sh->l[tid] = ml[2 * (first + tid) + 1];
    }
    rf_sync();
    float before = total_m;
    for (uint32_t i = 0; i < n; i++) {
        const float m = sh->m[i];
        const int is_raised = sh->l[i] != 0.0f && m > total_m;
        if (i == tid) before = total_m;
        total_m = is_raised ? m : total_m;
    }
    if (tid < n) sh->fold[tid] = rf_fold_of(before, sh->m[tid]);
    rf_sync();
    return total_m;
}

/* n_acc: columns of a thread. */
RF_DEVICE void fold_columns(fold_shared *sh, const rf_gpu_attend_args *a, uint32_t n_acc) {
    const uint32_t n_ahead = FOLD_AHEAD / n_acc;
    const uint32_t row = rf_bid_x(), head = rf_bid_y(), dim = a->value_dim, tid = rf_tid();
    const uint64_t item = (uint64_t)row * a->n_heads + head;
    const rf_span span = rf_span_of(a, row);
    const uint32_t begin = rf_span_first(&span) / RF_GPU_SEGMENT_BLOCKS;
    const uint32_t end = rf_div_up(span.end, 32 * RF_GPU_SEGMENT_BLOCKS);
    const float *part = a->parts + item * a->n_splits * dim;
    const float *ml =
        a->parts + (uint64_t)a->n_rows * a->n_heads * a->n_splits * dim + 2 * item * a->n_splits;
    float m = a->sinks ? a->sinks[head] : -__builtin_inff(), acc[FOLD_COLUMNS];
    float l = m == -__builtin_inff() ? 0.0f : 1.0f;
    RF_UNROLL
    for (uint32_t i = 0; i < n_acc; i++)
        acc[i] = 0.0f;
    rf_await_before();
    for (uint32_t first = begin; first < end; first += FOLD_MANY) {
        const uint32_t n = rf_min_u32(end - first, FOLD_MANY);
        m = fold_factors(sh, ml, first, n, m);
        for (uint32_t s0 = 0; s0 < n; s0 += n_ahead) {
            float v[FOLD_AHEAD];
            RF_UNROLL
            for (uint32_t k = 0; k < n_ahead * n_acc; k++) {
                const uint32_t s = rf_min_u32(s0 + k / n_acc, n - 1);
                const uint32_t d = rf_min_u32(tid + FOLD_MANY * (k % n_acc), dim - 1);
                v[k] = part[(uint64_t)(first + s) * dim + d];
            }
            RF_UNROLL
            for (uint32_t k = 0; k < n_ahead; k++) {
                const uint32_t s = rf_min_u32(s0 + k, n - 1);
                const rf_fold f = sh->fold[s];
                const int is_seen = s0 + k < n && sh->l[s] != 0.0f;
                l = is_seen ? rf_folded(&f, l, sh->l[s]) : l;
                RF_UNROLL
                for (uint32_t i = 0; i < n_acc; i++)
                    acc[i] = is_seen ? rf_folded(&f, acc[i], v[k * n_acc + i]) : acc[i];
            }
        }
    }
    RF_UNROLL
    for (uint32_t i = 0; i < n_acc; i++) {
        const uint32_t d = tid + FOLD_MANY * i;
        if (d < dim) a->dst[item * dim + d] = l == 0.0f ? acc[i] : acc[i] / l;
    }
}

RF_KERNEL_EARLY(attend_fold, rf_gpu_attend_args, 1) {
    RF_SHARED fold_shared sh;
    if (a.value_dim <= FOLD_MANY)
        fold_columns(&sh, &a, 1);
    else
        fold_columns(&sh, &a, FOLD_COLUMNS);
}
