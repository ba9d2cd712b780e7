/* route.hip - the experts of a row, and the rows of each expert.  Sums run in order of expert, those
 * over the picked ones in order of rank, in every thread alike. */
#include "backend/gpu/kernels/canon.h"
#include "backend/gpu/lists.h"

/* Arrays of floats, which are read four at a time. */
typedef struct route_shared {
    rf_f4 p[RF_MAX_EXPERTS / 4], choice[RF_MAX_EXPERTS / 4], claim[RF_MAX_EXPERTS / 4];
    uint32_t is_open[RF_MAX_EXPERTS];      /* groups */
    rf_f4 weight[RF_MAX_EXPERTS_USED / 4]; /* by rank */
    uint32_t expert[RF_MAX_EXPERTS_USED];
} route_shared;

/* In place: exp(x[i] - most) / sum of them. */
RF_DEVICE void softmax(rf_f4 *fours, uint32_t n) {
    float *x = (float *)fours;
    float most = x[0], sum = 0.0f;
    for (uint32_t i = rf_tid() % 32; i < n; i += 32) /* all of them in every 32 threads */
        most = x[i] > most ? x[i] : most;
    RF_UNROLL
    for (uint32_t mask = 1; mask < 32; mask *= 2) {
        const float other = rf_float_of(rf_lane_xor(rf_bits_of(most), mask));
        most = other > most ? other : most;
    }
    rf_sync();
    for (uint32_t i = rf_tid(); i < n; i += RF_BLOCK_route)
        x[i] = rf_exp32(x[i] - most);
    rf_sync();
    RF_UNROLL_4
    for (uint32_t i = 0; i < n / 4; i++)
        sum = sum + fours[i].v[0] + fours[i].v[1] + fours[i].v[2] + fours[i].v[3];
    for (uint32_t i = n / 4 * 4; i < n; i++)
        sum += x[i];
    rf_sync();
    for (uint32_t i = rf_tid(); i < n; i += RF_BLOCK_route)
        x[i] /= sum;
    rf_sync();
}

/* How many of x come before x[i]: the higher ones, and equal ones of lower index.  A NaN comes before
 * none.  Two neighbouring threads count for one i. */
RF_DEVICE uint32_t rank_of(const rf_f4 *fours, uint32_t n, uint32_t i) {
    const float *x = (const float *)fours;
    const float own = x[i];
    const uint32_t half = rf_tid() % 2;
    uint32_t rank = 0;
    RF_UNROLL_4
    for (uint32_t f = half; f < n / 4; f += 2) {
        const rf_f4 four = fours[f];
        RF_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            rank += 4 * f + k < i ? four.v[k] >= own : four.v[k] > own;
    }
    for (uint32_t k = n / 4 * 4 + half; k < n; k += 2)
        rank += k < i ? x[k] >= own : x[k] > own;
    return rank + rf_lane_xor(rank, 1);
}

/* A group's claim: its best choice, or the sum of its two best. */
RF_DEVICE float claim_of(const float *choice, uint32_t n, int two) {
    uint32_t first = 0, second = n;
    for (uint32_t i = 1; i < n; i++)
        if (choice[i] > choice[first]) first = i;
    for (uint32_t i = 0; i < n; i++)
        if (i != first && (second == n || choice[i] > choice[second])) second = i;
    return two && second < n ? choice[first] + choice[second] : choice[first];
}

/* Takes the experts of all but the strongest groups out of the contest. */
RF_DEVICE void close_groups(route_shared *s, const rf_gpu_route_args *a) {
    const uint32_t tid = rf_tid(), n = a->n_experts / a->n_groups, last = a->n_groups - 1;
    float *choice = (float *)s->choice, *claim = (float *)s->claim;
    for (uint32_t g = tid; g < a->n_groups; g += RF_BLOCK_route)
        claim[g] = claim_of(choice + g * n, n, a->select_bias != 0);
    rf_sync();
    for (uint32_t first = 0; first <= last; first += RF_BLOCK_route / 2) { /* in step */
        const uint32_t g = first + tid / 2, rank = rank_of(s->claim, last + 1, rf_min_u32(g, last));
        if (g <= last && tid % 2 == 0) s->is_open[g] = rank < a->n_groups_used;
    }
    rf_sync();
    for (uint32_t i = tid; i < a->n_experts; i += RF_BLOCK_route)
        if (!s->is_open[i / n]) choice[i] = rf_float_of(0x7fc00000);
    rf_sync();
}

/* The experts of the first ranks, and their values; where NaNs leave ranks open, those of such numbers. */
RF_DEVICE void choose(route_shared *s, const rf_gpu_route_args *a) {
    const uint32_t tid = rf_tid(), last = a->n_experts - 1;
    const float *p = (const float *)s->p, *choice = (const float *)s->choice;
    float *weight = (float *)s->weight;
    for (uint32_t i = tid; i < a->n_used; i += RF_BLOCK_route) {
        weight[i] = p[i];
        s->expert[i] = i;
    }
    rf_sync();
    for (uint32_t first = 0; first <= last; first += RF_BLOCK_route / 2) { /* in step */
        const uint32_t i = first + tid / 2, rank = rank_of(s->choice, last + 1, rf_min_u32(i, last));
        if (i > last || tid % 2 || rank >= a->n_used || choice[i] != choice[i]) continue;
        weight[rank] = p[i];
        s->expert[rank] = i;
    }
    rf_sync();
}

RF_KERNEL(route, rf_gpu_route_args) {
    RF_SHARED route_shared s;
    const uint32_t tid = rf_tid(), row = rf_bid_x(), n = a.n_experts;
    const float *scores = a.scores + (uint64_t)row * n;
    float *dst = a.dst + (uint64_t)row * 2 * a.n_used;
    float *p = (float *)s.p, *choice = (float *)s.choice, *weight = (float *)s.weight;
    for (uint32_t i = tid; i < n; i += RF_BLOCK_route)
        p[i] = a.kind == RF_ROUTER_SIGMOID ? rf_gated(1.0f, scores[i]) : scores[i];
    rf_sync();
    if (a.kind == RF_ROUTER_SOFTMAX) softmax(s.p, n);
    for (uint32_t i = tid; i < n; i += RF_BLOCK_route)
        choice[i] = a.select_bias ? p[i] + a.select_bias[i] : p[i];
    rf_sync();
    if (a.n_groups > 1) close_groups(&s, &a);
    choose(&s, &a);
    if (a.kind == RF_ROUTER_SOFTMAX_TOPK) softmax(s.weight, a.n_used);
    float sum = 0.0f;
    for (uint32_t i = 0; i < a.n_used; i++)
        sum += weight[i];
    sum = sum < 0x1p-14f ? 0x1p-14f : sum;
    for (uint32_t i = tid; i < a.n_used; i += RF_BLOCK_route) {
        float w = weight[i];
        if (a.normalise) w /= sum;
        dst[i] = w * a.scale;
        dst[a.n_used + i] = (float)s.expert[i];
    }
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
