/* route.hip - the experts of a row, and the rows of each expert.  Sums run in order of expert, those
 * over the picked ones in order of rank, in every thread alike. */
#include "backend/gpu/kernels/canon.h"

typedef struct route_shared {
    float p[RF_MAX_EXPERTS], choice[RF_MAX_EXPERTS], claim[RF_MAX_EXPERTS];
    uint32_t taken[RF_MAX_EXPERTS], is_open[RF_MAX_EXPERTS];
    float weight[RF_MAX_EXPERTS_USED];
} route_shared;

/* In place: exp(x[i] - most) / sum of them. */
RF_DEVICE void softmax(float *x, uint32_t n) {
    float most = x[0], sum = 0.0f;
    for (uint32_t i = rf_tid(); i < n; i += RF_BLOCK_route)
        most = x[i] > most ? x[i] : most;
    RF_UNROLL
    for (uint32_t mask = 1; mask < RF_BLOCK_route; mask *= 2) {
        const float other = rf_float_of(rf_lane_xor(rf_bits_of(most), mask));
        most = other > most ? other : most;
    }
    rf_sync();
    for (uint32_t i = rf_tid(); i < n; i += RF_BLOCK_route)
        x[i] = rf_exp32(x[i] - most);
    rf_sync();
    RF_UNROLL_8
    for (uint32_t i = 0; i < n; i++)
        sum += x[i];
    rf_sync();
    for (uint32_t i = rf_tid(); i < n; i += RF_BLOCK_route)
        x[i] /= sum;
    rf_sync();
}

/* The index of the highest x[i] not yet taken, the lowest such index. */
RF_DEVICE uint32_t best_of(const float *x, const uint32_t *taken, uint32_t n) {
    uint32_t best = n;
    float value = 0.0f;
    for (uint32_t i = rf_tid(); i < n; i += RF_BLOCK_route) {
        if (taken[i] || (best != n && !(x[i] > value))) continue;
        best = i;
        value = x[i];
    }
    RF_UNROLL
    for (uint32_t mask = 1; mask < RF_BLOCK_route; mask *= 2) {
        const uint32_t at = rf_lane_xor(best, mask);
        const float v = rf_float_of(rf_lane_xor(rf_bits_of(value), mask));
        if (at == n || (best != n && !(v > value || (v == value && at < best)))) continue;
        best = at;
        value = v;
    }
    return best;
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
    const uint32_t tid = rf_tid(), n = a->n_experts / a->n_groups;
    for (uint32_t g = tid; g < a->n_groups; g += RF_BLOCK_route) {
        s->claim[g] = claim_of(s->choice + g * n, n, a->select_bias != 0);
        s->is_open[g] = 0;
    }
    rf_sync();
    for (uint32_t i = 0; i < a->n_groups_used; i++) {
        const uint32_t best = best_of(s->claim, s->is_open, a->n_groups);
        rf_sync();
        if (tid == 0) s->is_open[best] = 1;
        rf_sync();
    }
    for (uint32_t i = tid; i < a->n_experts; i += RF_BLOCK_route)
        s->taken[i] = !s->is_open[i / n];
    rf_sync();
}

RF_KERNEL(route, rf_gpu_route_args) {
    RF_SHARED route_shared s;
    const uint32_t tid = rf_tid(), row = rf_bid_x(), n = a.n_experts;
    const float *scores = a.scores + (uint64_t)row * n;
    float *dst = a.dst + (uint64_t)row * 2 * a.n_used;
    for (uint32_t i = tid; i < n; i += RF_BLOCK_route) {
        s.p[i] = a.kind == RF_ROUTER_SIGMOID ? rf_gated(1.0f, scores[i]) : scores[i];
        s.taken[i] = 0;
    }
    rf_sync();
    if (a.kind == RF_ROUTER_SOFTMAX) softmax(s.p, n);
    for (uint32_t i = tid; i < n; i += RF_BLOCK_route)
        s.choice[i] = a.select_bias ? s.p[i] + a.select_bias[i] : s.p[i];
    rf_sync();
    if (a.n_groups > 1) close_groups(&s, &a);
    for (uint32_t i = 0; i < a.n_used; i++) {
        const uint32_t best = rf_min_u32(best_of(s.choice, s.taken, n), n - 1);
        rf_sync();
        if (tid == 0) {
            s.taken[best] = 1;
            s.weight[i] = s.p[best];
            dst[a.n_used + i] = (float)best;
        }
        rf_sync();
    }
    if (a.kind == RF_ROUTER_SOFTMAX_TOPK) softmax(s.weight, a.n_used);
    float sum = 0.0f;
    for (uint32_t i = 0; i < a.n_used; i++)
        sum += s.weight[i];
    sum = sum < 0x1p-14f ? 0x1p-14f : sum;
    for (uint32_t i = tid; i < a.n_used; i += RF_BLOCK_route) {
        float w = s.weight[i];
        if (a.normalise) w /= sum;
        dst[i] = w * a.scale;
    }
}

/* One block: counts, their prefix, then the items in order.  A thread owns whole experts. */
RF_KERNEL(lists, rf_gpu_lists_args) {
    RF_SHARED uint32_t first[RF_MAX_EXPERTS + 1];
    const uint32_t tid = rf_tid(), n_items = a.n_rows * a.n_used;
    uint32_t *items = a.lists + a.n_experts + 1;
    for (uint32_t e = tid; e < a.n_experts; e += RF_BLOCK_lists) {
        uint32_t count = 0;
        for (uint32_t t = 0; t < a.n_rows; t++)
            for (uint32_t i = 0; i < a.n_used; i++)
                count += (uint32_t)a.route[((uint64_t)2 * t + 1) * a.n_used + i] == e;
        first[e + 1] = count;
    }
    if (tid == 0) first[0] = 0;
    rf_sync();
    if (tid == 0) {
        for (uint32_t e = 0; e < a.n_experts; e++)
            first[e + 1] += first[e];
    }
    rf_sync();
    for (uint32_t e = tid; e < a.n_experts; e += RF_BLOCK_lists) {
        uint32_t at = first[e];
        a.lists[e] = at;
        for (uint32_t i = 0; i < n_items; i++) {
            const uint32_t t = i / a.n_used;
            if ((uint32_t)a.route[((uint64_t)t + 1) * a.n_used + i] == e) items[at++] = i;
        }
    }
    if (tid == 0) a.lists[a.n_experts] = n_items;
}
