/* attend_fold.hip - segments of attention that were made side by side, folded in order; one block
 * per row, head and stretch of columns.
 *
 * Up to FOLD_MANY segments at once are on their way to shared memory while each thread makes the factors
 * of one.  Then each of the first threads has a column, and the one behind them the sum. */
#include "backend/gpu/kernels/span.h"
#include "backend/gpu/tile.h"

enum {
    FOLD_THREADS = RF_BLOCK_attend_fold,
    FOLD_MANY = FOLD_THREADS,
    FOLD_COLUMNS = RF_FOLD_COLUMNS,
    FOLD_GROUP = 16, /* segments read at once */
};

typedef struct fold_shared {
    rf_f4 part[FOLD_MANY + FOLD_GROUP][RF_FOLD_COLUMNS / 4];
    float m[FOLD_MANY]; /* -inf of segments without visible keys */
    float most[FOLD_MANY / FOLD_GROUP];
    float l[FOLD_MANY + FOLD_GROUP];      /* behind the last 0, */
    rf_f2 factor[FOLD_MANY + FOLD_GROUP]; /* of total and part: which then change nothing */
    float total_m, total_l;
} fold_shared;

/* The columns from first on of n segments on their way, dim floats apart. */
RF_DEVICE void fold_fetch(fold_shared *sh, const float *part, uint32_t dim, uint32_t first,
                          uint32_t n) {
    const uint32_t size = dim % 4 ? 1 : 4, per_row = RF_FOLD_COLUMNS / size;
    const uint32_t col = rf_tid() % per_row * size, step = FOLD_THREADS / per_row;
    if (first + col >= dim) return;
    for (uint32_t s = rf_tid() / per_row; s < n; s += step) {
        float *to = (float *)sh->part[s] + col;
        const float *from = part + (uint64_t)s * dim + first + col;
        if (size == 4)
            rf_copy_16(to, from);
        else
            rf_copy_4(to, from);
    }
}

/* The most of the segments before this thread's, and of the total in front of them. */
RF_DEVICE float fold_most(fold_shared *sh, float total_m) {
    const uint32_t group = rf_tid() / FOLD_GROUP, in_group = rf_tid() % FOLD_GROUP;
    float before = -__builtin_inff(), most = total_m;
    RF_UNROLL
    for (uint32_t k = 0; k < FOLD_GROUP; k++) {
        const float m = sh->m[group * FOLD_GROUP + k];
        before = k < in_group && m > before ? m : before;
    }
    const float mine = sh->m[rf_tid()];
    if (in_group == FOLD_GROUP - 1) sh->most[group] = mine > before ? mine : before;
    rf_sync();
    RF_UNROLL
    for (uint32_t k = 0; k < FOLD_MANY / FOLD_GROUP; k++)
        most = k < group && sh->most[k] > most ? sh->most[k] : most;
    return before > most ? before : most;
}

/* The factors of this thread's segment, of maximum m and sum l; gives the maximum behind it. */
RF_DEVICE float fold_factors(fold_shared *sh, float m, float l, float total_m) {
    const uint32_t tid = rf_tid();
    sh->l[tid] = l;
    sh->m[tid] = l != 0.0f ? m : -__builtin_inff();
    rf_sync();
    const float before = fold_most(sh, total_m);
    const rf_fold f = l != 0.0f ? rf_fold_of(before, m) : rf_no_fold(before);
    const rf_f2 factor = {{f.c_total, f.c_part}};
    sh->factor[tid] = factor;
    return f.m;
}

/* n segments onto a thread's total: numbers from x, stride apart. */
RF_DEVICE float fold_add(const fold_shared *sh, const float *x, uint32_t stride, uint32_t n,
                         float total_m, float total) {
    uint32_t s = 0;
    for (; s < n && total_m == -__builtin_inff(); s++) { /* an empty total becomes the part */
        total = sh->l[s] != 0.0f ? x[s * stride] : total;
        total_m = sh->m[s];
    }
    for (; s < n; s += FOLD_GROUP) {
        float part[FOLD_GROUP];
        rf_f2 factor[FOLD_GROUP];
        RF_UNROLL
        for (uint32_t k = 0; k < FOLD_GROUP; k++) {
            part[k] = s + k < n ? x[(s + k) * stride] : 0.0f;
            factor[k] = sh->factor[s + k];
        }
        RF_UNROLL
        for (uint32_t k = 0; k < FOLD_GROUP; k++)
            total = rf_fma(part[k], factor[k].v[1], total * factor[k].v[0]);
    }
    return total;
}

RF_KERNEL_EARLY(attend_fold, rf_gpu_attend_args, 1) {
    RF_SHARED fold_shared sh;
    const uint32_t row = rf_bid_x(), head = rf_bid_y(), dim = a.value_dim, tid = rf_tid();
    const uint32_t col = rf_bid_z() * FOLD_COLUMNS + tid;
    const uint64_t item = (uint64_t)row * a.n_heads + head;
    const rf_span span = rf_span_of(&a, row);
    const uint32_t begin = rf_span_first(&span) / RF_GPU_SEGMENT_BLOCKS;
    const uint32_t end = rf_div_up(span.end, 32 * RF_GPU_SEGMENT_BLOCKS);
    const float *part = a.parts + item * a.n_splits * dim;
    const float *ml =
        a.parts + (uint64_t)a.n_rows * a.n_heads * a.n_splits * dim + 2 * item * a.n_splits;
    const int is_sum = tid >= FOLD_COLUMNS;
    const float *x = is_sum ? sh.l : (const float *)sh.part + tid;
    float m = a.sinks ? a.sinks[head] : -__builtin_inff();
    float total = is_sum && m != -__builtin_inff() ? 1.0f : 0.0f;
    if (tid < FOLD_GROUP) {
        const rf_f2 none = {{1.0f, -0.0f}};
        sh.factor[FOLD_MANY + tid] = none;
        sh.l[FOLD_MANY + tid] = 0.0f;
    }
    rf_await_before();
    for (uint32_t first = begin; first < end; first += FOLD_MANY) {
        const uint32_t n = rf_min_u32(end - first, FOLD_MANY);
        const uint64_t at = 2 * (uint64_t)(first + rf_min_u32(tid, n - 1));
        const float part_m = ml[at], part_l = tid < n ? ml[at + 1] : 0.0f;
        fold_fetch(&sh, part + (uint64_t)first * dim, dim, rf_bid_z() * FOLD_COLUMNS, n);
        const float behind = fold_factors(&sh, part_m, part_l, m);
        if (tid == FOLD_MANY - 1) sh.total_m = behind;
        rf_copy_wait();
        rf_sync();
        if (tid <= FOLD_COLUMNS)
            total = fold_add(&sh, x, is_sum ? 1 : FOLD_COLUMNS, n, m, total);
        m = sh.total_m;
        rf_sync();
    }
    if (tid == FOLD_COLUMNS) sh.total_l = total;
    rf_sync();
    const float l = sh.total_l;
    if (tid < FOLD_COLUMNS && col < dim) a.dst[item * dim + col] = l == 0.0f ? total : total / l;
}
