/* route.h - the experts of a row, and their weights, by the 256 threads of a block.  Sums run in
 * order of expert, those over the picked ones in order of rank, in every thread alike. */
#pragma once
#include "backend/gpu/kernels/canon.h"

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
        const uint32_t i = first + tid / 2,
                       rank = rank_of(s->choice, last + 1, rf_min_u32(i, last));
        if (i > last || tid % 2 || rank >= a->n_used || choice[i] != choice[i]) continue;
        weight[rank] = p[i];
        s->expert[rank] = i;
    }
    rf_sync();
}

RF_DEVICE void route_run(route_shared *s, const rf_gpu_route_args *a, uint32_t row) {
    const uint32_t tid = rf_tid(), n = a->n_experts;
    const float *scores = a->scores + (uint64_t)row * n;
    float *dst = a->dst + (uint64_t)row * 2 * a->n_used;
    float *p = (float *)s->p, *choice = (float *)s->choice, *weight = (float *)s->weight;
    for (uint32_t i = tid; i < n; i += RF_BLOCK_route)
        p[i] = a->kind == RF_ROUTER_SIGMOID ? rf_gated(1.0f, scores[i]) : scores[i];
    rf_sync();
    if (a->kind == RF_ROUTER_SOFTMAX) softmax(s->p, n);
    for (uint32_t i = tid; i < n; i += RF_BLOCK_route)
        choice[i] = a->select_bias ? p[i] + a->select_bias[i] : p[i];
    rf_sync();
    if (a->n_groups > 1) close_groups(s, a);
    choose(s, a);
    if (a->kind == RF_ROUTER_SOFTMAX_TOPK) softmax(s->weight, a->n_used);
    float sum = 0.0f;
    for (uint32_t i = 0; i < a->n_used; i++)
        sum += weight[i];
    sum = sum < 0x1p-14f ? 0x1p-14f : sum;
    for (uint32_t i = tid; i < a->n_used; i += RF_BLOCK_route) {
        float w = weight[i];
        if (a->normalise) w /= sum;
        dst[i] = w * a->scale;
        dst[a->n_used + i] = (float)s->expert[i];
    }
}
