/* route.hip - the experts of each row, and the rows of each expert. */
#include "backend/gpu/kernels/route.h"
#include "backend/gpu/lists.h"

RF_KERNEL(route, rf_gpu_route_args) {
    RF_SHARED route_shared s;
    route_run(&s, &a, rf_bid_x());
}

/* The experts of the items first .. end - 1, one after the other. */
typedef struct lists_walk {
    const float *at;          /* the next item's */
    uint32_t i, left, n_used; /* left: of its row */
} lists_walk;

RF_DEVICE lists_walk lists_begin(const rf_gpu_lists_args *a, uint32_t first) {
    const uint32_t t = first / a->n_used, i = first % a->n_used;
    lists_walk w = {a->route + (2 * (uint64_t)t + 1) * a->n_used + i, first, a->n_used - i,
                    a->n_used};
    return w;
}

RF_DEVICE uint32_t lists_next(lists_walk *w) {
    const uint32_t expert = (uint32_t)*w->at++;
    w->i++;
    if (--w->left == 0) {
        w->at += w->n_used;
        w->left = w->n_used;
    }
    return expert;
}

/* Threads' counts of items of the block's expert and of experts before it, and of such experts that have
 * any. */
typedef struct lists_counts {
    uint32_t same[RF_BLOCK_lists], less[RF_BLOCK_lists], used[RF_BLOCK_lists];
    uint8_t is_used[RF_BLOCK_lists / 32][RF_MAX_EXPERTS]; /* of the items of 32 threads */
} lists_counts;

/* Sums up to each thread's. */
RF_DEVICE void lists_sum(lists_counts *c) {
    const uint32_t tid = rf_tid();
    rf_sync();
    for (uint32_t d = 1; d < RF_BLOCK_lists; d *= 2) {
        const uint32_t same = tid >= d ? c->same[tid - d] : 0,
                       less = tid >= d ? c->less[tid - d] : 0,
                       used = tid >= d ? c->used[tid - d] : 0;
        rf_sync();
        c->same[tid] += same;
        c->less[tid] += less;
        c->used[tid] += used;
        rf_sync();
    }
}

/* The units of an expert whose n items begin at number first, of every width, behind those of n_used
 * experts. */
RF_DEVICE void lists_put_units(const rf_gpu_lists_args *a, uint32_t expert, uint32_t n_used,
                               uint32_t first, uint32_t n) {
    const uint32_t n_items = a->n_rows * a->n_used;
    rf_gpu_unit *units = (rf_gpu_unit *)(void *)a->lists;
    for (uint32_t width = 1; width < 1 << RF_LISTS_WIDTHS; width *= 2) {
        const uint32_t from = first / width, end = (first + n) / width + 1;
        const uint32_t n_units = rf_lists_units(n_items, a->n_experts, width);
        const uint32_t at = n ? from + n_used : n_units - 1 - (expert - n_used);
        for (uint32_t i = rf_tid(); i < end - from; i += RF_BLOCK_lists) {
            const uint32_t past = i * width;
            const rf_gpu_unit u = {expert, first + past, past < n ? rf_min_u32(width, n - past) : 0,
                                   0};
            units[at + i] = u;
        }
        units += n_units;
    }
}

/* A block has one expert, a thread a stretch of all items. */
RF_KERNEL(lists, rf_gpu_lists_args) {
    RF_SHARED lists_counts c;
    const uint32_t tid = rf_tid(), expert = rf_bid_x(), n_items = a.n_rows * a.n_used;
    uint8_t *is_used = c.is_used[tid / 32];
    const uint32_t n_mine = rf_div_up(n_items, RF_BLOCK_lists);
    const uint32_t first = rf_min_u32(tid * n_mine, n_items);
    const uint32_t end = rf_min_u32(first + n_mine, n_items);
    uint32_t same = 0, less = 0, used = 0;
    lists_walk walk = lists_begin(&a, first);
    for (uint32_t e = tid % 32; e < expert; e += 32)
        is_used[e] = 0;
    rf_sync();
    while (walk.i < end) {
        const uint32_t e = lists_next(&walk);
        same += e == expert;
        less += e < expert;
        if (e < expert) is_used[e] = 1;
    }
    rf_sync();
    for (uint32_t e = tid; e < expert; e += RF_BLOCK_lists) {
        uint32_t any = 0;
        for (uint32_t i = 0; i < RF_BLOCK_lists / 32; i++)
            any |= c.is_used[i][e];
        used += any;
    }
    c.same[tid] = same;
    c.less[tid] = less;
    c.used[tid] = used;
    lists_sum(&c);
    const uint32_t before = c.less[RF_BLOCK_lists - 1];
    uint32_t *to = a.lists + 4 * rf_lists_at(n_items, a.n_experts, 1 << RF_LISTS_WIDTHS) + before +
                   c.same[tid] - same;
    walk = lists_begin(&a, first);
    while (same && walk.i < end) {
        const uint32_t i = walk.i;
        if (lists_next(&walk) == expert) *to++ = i;
    }
    lists_put_units(&a, expert, c.used[RF_BLOCK_lists - 1], before, c.same[RF_BLOCK_lists - 1]);
}
