/* attend_fold.hip - segments of attention that were made side by side, folded in order; a warp per row,
 * head and stretch of columns.
 *
 * The weighted values of up to FOLD_MANY segments are on their way to shared memory while each thread makes
 * the factors of four.  Then each has a column, and all of them the sum. */
#include "backend/gpu/kernels/span.h"
#include "backend/gpu/tile.h"

enum {
    FOLD_THREADS = RF_BLOCK_attend_fold,
    FOLD_OWN = 4, /* segments of a thread */
    FOLD_MANY = FOLD_OWN * FOLD_THREADS,
    FOLD_COLUMNS = RF_FOLD_COLUMNS,
    FOLD_GROUP = 16, /* segments read at once */
};

typedef struct fold_shared {
    rf_f4 part[FOLD_MANY][RF_FOLD_COLUMNS / 4];
    rf_f4 how[FOLD_MANY]; /* what a total and the segment are multiplied with, and the segment's sum */
} fold_shared;
#if !defined(RF_NVIDIA)
_Static_assert(sizeof(fold_shared) <= RF_FOLD_SHARED, "as the grid has it");
#endif

typedef struct fold_total {
    float m, l, x;
} fold_total;

/* The columns from first on of n segments on their way, dim floats apart; size, of a copy, is 1 or 4. */
RF_DEVICE void fold_copy(fold_shared *sh, const float *part, uint32_t dim, uint32_t first,
                         uint32_t n, uint32_t size) {
    const uint32_t per_row = FOLD_COLUMNS / size, step = FOLD_THREADS / per_row;
    const uint32_t col = rf_tid() % per_row * size;
    if (first + col >= dim) return;
    for (uint32_t at = rf_tid() / per_row; at < n; at += FOLD_GROUP * step) {
        RF_UNROLL
        for (uint32_t i = 0; i < FOLD_GROUP; i++) {
            const uint32_t s = at + i * step;
            if (s >= n) continue;
            float *to = (float *)sh->part[s] + col;
            const float *from = part + (uint64_t)s * dim + first + col;
            if (size == 4)
                rf_copy_16(to, from);
            else
                rf_copy_4(to, from);
        }
    }
}

RF_DEVICE void fold_fetch(fold_shared *sh, const float *part, uint32_t dim, uint32_t first,
                          uint32_t n) {
    if (dim % 4 == 0)
        fold_copy(sh, part, dim, first, n, 4);
    else
        fold_copy(sh, part, dim, first, n, 1);
}

/* The most of the segments before those of this thread, whose own most is given, and in *all of all. */
RF_DEVICE float fold_most(float own, float *all) {
    float before = -__builtin_inff();
    *all = own;
    RF_UNROLL
    for (uint32_t mask = 1; mask < 32; mask *= 2) {
        const float other = rf_float_of(rf_lane_xor(rf_bits_of(*all), mask));
        before = rf_tid() & mask && other > before ? other : before;
        *all = other > *all ? other : *all;
    }
    return before;
}

/* The factors of this thread's segments, of whose maxima and sums ml are; the total's maximum then. */
RF_DEVICE void fold_factors(fold_shared *sh, fold_total *t, const rf_f2 ml[FOLD_OWN]) {
    float most = -__builtin_inff(), all;
    RF_UNROLL
    for (uint32_t i = 0; i < FOLD_OWN; i++) /* -inf of segments without visible keys */
        most = ml[i].v[1] != 0.0f && ml[i].v[0] > most ? ml[i].v[0] : most;
    float before = fold_most(most, &all);
    before = t->m > before ? t->m : before;
    RF_UNROLL
    for (uint32_t i = 0; i < FOLD_OWN; i++) {
        const float l = ml[i].v[1];
        const rf_fold f = l != 0.0f ? rf_fold_of(before, ml[i].v[0]) : rf_no_fold(before);
        const rf_f4 how = {{f.is_first ? 0.0f : f.c_total, f.is_first ? 1.0f : f.c_part, l, 0.0f}};
        sh->how[FOLD_OWN * rf_tid() + i] = how;
        before = f.m;
    }
    t->m = all > t->m ? all : t->m;
}

/* n segments onto the total. */
RF_DEVICE void fold_add(fold_total *t, const fold_shared *sh, uint32_t n) {
    const float *own = (const float *)sh->part + rf_tid();
    for (uint32_t s = 0; s < n; s += FOLD_GROUP) {
        float part[FOLD_GROUP];
        rf_f4 how[FOLD_GROUP];
        RF_UNROLL
        for (uint32_t k = 0; k < FOLD_GROUP; k++) {
            part[k] = s + k < n ? own[(s + k) * FOLD_COLUMNS] : 0.0f;
            how[k] = sh->how[s + k];
        }
        RF_UNROLL
        for (uint32_t k = 0; k < FOLD_GROUP; k++) {
            t->l = rf_fma(how[k].v[2], how[k].v[1], t->l * how[k].v[0]);
            t->x = rf_fma(part[k], how[k].v[1], t->x * how[k].v[0]);
        }
    }
}

/* A sink counts as a key without a value.  Without one -0 stands for no values yet: the first segment's,
 * which is multiplied with 1, is then what it was, zeros of either sign too. */
RF_DEVICE fold_total fold_start(const rf_gpu_attend_args *a, uint32_t head) {
    fold_total t = {a->sinks ? a->sinks[head] : -__builtin_inff(), 1.0f, 0.0f};
    if (t.m == -__builtin_inff()) {
        t.l = 0.0f;
        t.x = -0.0f;
    }
    return t;
}

RF_KERNEL_EARLY(attend_fold, rf_gpu_attend_args, 1) {
    RF_SHARED fold_shared sh;
    const uint32_t row = rf_bid_x(), head = rf_bid_y(), dim = a.value_dim;
    const uint32_t first_col = rf_bid_z() * FOLD_COLUMNS, col = first_col + rf_tid();
    const uint64_t item = (uint64_t)row * a.n_heads + head;
    const rf_span span = rf_span_of(&a, row);
    const uint32_t begin = rf_span_first(&span) / RF_GPU_SEGMENT_BLOCKS;
    const uint32_t end = rf_div_up(span.end, 32 * RF_GPU_SEGMENT_BLOCKS);
    const float *part = a.parts + item * a.n_splits * dim;
    const float *ml =
        a.parts + (uint64_t)a.n_rows * a.n_heads * a.n_splits * dim + 2 * item * a.n_splits;
    fold_total total = fold_start(&a, head);
    rf_await_before();
    for (uint32_t first = begin; first < end; first += FOLD_MANY) {
        const uint32_t n = rf_min_u32(end - first, FOLD_MANY), own = FOLD_OWN * rf_tid();
        rf_f2 own_ml[FOLD_OWN];
        RF_UNROLL
        for (uint32_t i = 0; i < FOLD_OWN; i++) {
            const uint64_t at = 2 * (uint64_t)(first + rf_min_u32(own + i, n - 1));
            own_ml[i].v[0] = ml[at];
            own_ml[i].v[1] = own + i < n ? ml[at + 1] : 0.0f;
        }
        fold_fetch(&sh, part + (uint64_t)first * dim, dim, first_col, n);
        fold_factors(&sh, &total, own_ml);
        rf_copy_wait();
        rf_warp_sync();
        fold_add(&total, &sh, n);
        rf_warp_sync();
    }
    if (col < dim) a.dst[item * dim + col] = total.l == 0.0f ? 0.0f : total.x / total.l;
}
