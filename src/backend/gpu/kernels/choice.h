/* choice.h - the choice of a row's experts by 32 threads, each with its share of them in registers: for
 * routers of few experts without groups, of which several blocks can make the same choice sooner than
 * one launch waits for another.  route.hip has it for all. */
#pragma once
#include "backend/gpu/kernels/canon.h"

enum {
    CHOICE_OWN = RF_GPU_CHOICE_MOST / 32
}; /* experts of a thread: its number and every 32nd behind */

typedef struct choice_shared {
    rf_f4 p[RF_GPU_CHOICE_MOST / 4];
    float weight[RF_MAX_EXPERTS_USED]; /* by rank */
    uint32_t expert[RF_MAX_EXPERTS_USED];
} choice_shared;

/* In the order of values, equal ones alike; 0: a NaN. */
RF_DEVICE uint32_t choice_key(float v) {
    const uint32_t bits = rf_bits_of(v + 0.0f);
    if (v != v) return 0;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
RF_DEVICE float choice_value(uint32_t key) {
    return rf_float_of(key >> 31 ? key & 0x7fffffffu : ~key);
}

/* exp(v - most) / sum of them, of n numbers; leaves them in p. */
RF_DEVICE void choice_softmax(choice_shared *c, float v[CHOICE_OWN], uint32_t n) {
    const uint32_t lane = rf_tid() % 32;
    float *p = (float *)(void *)c->p, sum = 0.0f;
    uint32_t key = 0;
    RF_UNROLL
    for (uint32_t j = 0; j < CHOICE_OWN; j++) {
        const uint32_t own = 32 * j + lane < n ? choice_key(v[j]) : 0;
        key = own > key ? own : key;
    }
    if (lane == 0) p[0] = v[0];
    key = rf_warp_most(key);
    rf_warp_sync();
    const float most =
        p[0] != p[0] ? p[0] : choice_value(key); /* the search begins with the first */
    rf_warp_sync();
    RF_UNROLL
    for (uint32_t j = 0; j < CHOICE_OWN; j++) {
        v[j] = 32 * j + lane < n ? rf_exp32(v[j] - most) : 0.0f;
        p[32 * j + lane] = v[j];
    }
    rf_warp_sync();
    RF_UNROLL_4
    for (uint32_t i = 0; i < rf_div_up(n, 4); i++) { /* a zero more changes no sum */
        const rf_f4 four = c->p[i];
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            sum += four.v[j];
    }
    RF_UNROLL
    for (uint32_t j = 0; j < CHOICE_OWN; j++)
        v[j] /= sum;
    rf_warp_sync();
}

/* The experts of the first n_ranks ranks, and their values; where NaNs leave ranks open, those of such
 * numbers. */
RF_DEVICE void choice_make(choice_shared *c, const rf_gpu_route_args *a, uint32_t row,
                           uint32_t n_ranks) {
    const uint32_t lane = rf_tid() % 32, n = a->n_experts;
    const float *scores = a->scores + (uint64_t)row * n;
    float *p = (float *)(void *)c->p, v[CHOICE_OWN];
    uint32_t key[CHOICE_OWN];
    RF_UNROLL
    for (uint32_t j = 0; j < CHOICE_OWN; j++)
        v[j] = 32 * j + lane < n ? scores[32 * j + lane] : 0.0f;
    if (a->kind == RF_ROUTER_SOFTMAX) choice_softmax(c, v, n);
    RF_UNROLL
    for (uint32_t j = 0; j < CHOICE_OWN; j++) {
        const uint32_t i = 32 * j + lane;
        if (a->kind == RF_ROUTER_SIGMOID) v[j] = rf_gated(1.0f, v[j]);
        p[i] = v[j];
        const float bias = a->select_bias && i < n ? a->select_bias[i] : 0.0f;
        key[j] = i < n ? choice_key(a->select_bias ? v[j] + bias : v[j]) : 0;
    }
    RF_NO_UNROLL
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        uint32_t most = 0, first = 0; /* first: RF_GPU_CHOICE_MOST less the expert */
        RF_UNROLL
        for (uint32_t j = 0; j < CHOICE_OWN; j++)
            most = key[j] > most ? key[j] : most;
        most = rf_warp_most(most);
        RF_UNROLL
        for (uint32_t j = CHOICE_OWN; j-- > 0;)
            if (key[j] == most) first = RF_GPU_CHOICE_MOST - (32 * j + lane);
        first = rf_warp_most(first);
        const uint32_t expert = most ? RF_GPU_CHOICE_MOST - first : rank;
        RF_UNROLL
        for (uint32_t j = 0; j < CHOICE_OWN; j++)
            if (32 * j + lane == expert) key[j] = 0;
        if (lane == 0) c->expert[rank] = expert;
    }
    rf_warp_sync();
    for (uint32_t i = lane; i < n_ranks; i += 32)
        c->weight[i] = p[c->expert[i]];
    rf_warp_sync();
}

/* The route of the row, when all ranks are there. */
RF_DEVICE void choice_put(choice_shared *c, const rf_gpu_route_args *a, uint32_t row) {
    const uint32_t lane = rf_tid() % 32;
    float *dst = a->dst + (uint64_t)row * 2 * a->n_used, sum = 0.0f;
    if (a->kind == RF_ROUTER_SOFTMAX_TOPK) {
        float v[CHOICE_OWN];
        RF_UNROLL
        for (uint32_t j = 0; j < CHOICE_OWN; j++)
            v[j] = 32 * j + lane < a->n_used ? c->weight[32 * j + lane] : 0.0f;
        choice_softmax(c, v, a->n_used);
        RF_UNROLL
        for (uint32_t j = 0; j < CHOICE_OWN; j++)
            if (32 * j + lane < a->n_used) c->weight[32 * j + lane] = v[j];
        rf_warp_sync();
    }
    for (uint32_t i = 0; i < a->n_used; i++)
        sum += c->weight[i];
    sum = sum < 0x1p-14f ? 0x1p-14f : sum;
    for (uint32_t i = lane; i < a->n_used; i += 32) {
        float w = c->weight[i];
        if (a->normalise) w /= sum;
        dst[i] = w * a->scale;
        dst[a->n_used + i] = (float)c->expert[i];
    }
}
