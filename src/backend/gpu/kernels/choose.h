/* choose.h - the expert of one rank of a row's route, which 32 threads of a block find for all of
 * it: the one that route.h has at that rank, but no weight.  (On the host all threads do, which
 * lanes that exchange words ask for.)
 *
 * A thread has four neighbouring experts, best first.  In each turn the best of all threads goes,
 * in the thread of the lowest number that has it.  After a softmax the order is that of
 * exponentials, as long as these are so far apart that their quotients with the sum differ, too, and
 * that an expert's number may stand in place of their last bits, which makes turns short;
 * only else the sum is made, which is long, since its order is that of the experts. */
#pragma once
#include "backend/gpu/kernels/canon.h"

enum { CHOOSE_OWN = 4 }; /* 32 threads have RF_GPU_CHOOSE_MOST */

typedef struct choose_shared {
    rf_f4 e[RF_GPU_CHOOSE_MOST / 4];
    uint32_t expert;
} choose_shared;

/* Of a thread's experts what is compared, 0 for none, and their numbers. */
typedef struct choose_own {
    uint32_t key[CHOOSE_OWN], id[CHOOSE_OWN];
} choose_own;

/* Numbers in the order of floats, all of them above 0; 0 for a NaN, which is never chosen. */
RF_DEVICE uint32_t choose_key(float v) {
    const uint32_t bits = rf_bits_of(v + 0.0f); /* both zeros are one */
    if (v != v) return 0;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
RF_DEVICE float choose_value(uint32_t key) {
    return rf_float_of(key >> 31 ? key & 0x7fffffffu : ~key);
}

/* Best first, of equal ones the lowest number. */
RF_DEVICE choose_own choose_sorted(const float v[CHOOSE_OWN], uint32_t n) {
    choose_own own;
    RF_UNROLL
    for (uint32_t i = 0; i < CHOOSE_OWN; i++) {
        own.id[i] = CHOOSE_OWN * (rf_tid() % 32) + i;
        own.key[i] = own.id[i] < n ? choose_key(v[i]) : 0;
    }
    RF_UNROLL
    for (uint32_t i = 1; i < CHOOSE_OWN; i++) {
        RF_UNROLL
        for (uint32_t k = CHOOSE_OWN - 1; k >= i; k--) {
            const uint32_t key = own.key[k], id = own.id[k];
            const int is_better = key > own.key[k - 1];
            own.key[k] = is_better ? own.key[k - 1] : key;
            own.id[k] = is_better ? own.id[k - 1] : id;
            own.key[k - 1] = is_better ? key : own.key[k - 1];
            own.id[k - 1] = is_better ? id : own.id[k - 1];
        }
    }
    return own;
}

/* The best of all that are left goes.  0, or in the thread that had it one more than its number. */
RF_DEVICE uint32_t choose_turn(choose_own *own, uint32_t most) {
    const uint32_t before = (1u << rf_tid() % 32) - 1;
    const int has_most = own->key[0] == most;
    if ((rf_warp_ballot(has_most) & before) != 0 || !has_most || most == 0) return 0;
    const uint32_t id = own->id[0];
    RF_UNROLL
    for (uint32_t i = 1; i < CHOOSE_OWN; i++) {
        own->key[i - 1] = own->key[i];
        own->id[i - 1] = own->id[i];
    }
    own->key[CHOOSE_OWN - 1] = 0;
    return id + 1;
}

/* The expert of that rank; where NaNs leave it open, that of such a number. */
RF_DEVICE uint32_t choose_rank(choose_own own, uint32_t rank) {
    uint32_t found = 0;
    RF_NO_UNROLL
    for (uint32_t r = 0; r <= rank; r++) {
        const uint32_t here = choose_turn(&own, rf_warp_most(own.key[0]));
        if (r == rank) found = here;
    }
    found = rf_warp_most(found);
    return found ? found - 1 : rank;
}

/* The greater first. */
RF_DEVICE void choose_order(uint32_t *a, uint32_t *b) {
    const uint32_t greater = *a > *b ? *a : *b;
    *b = *a > *b ? *b : *a;
    *a = greater;
}

/* The expert of that rank by exponentials, of which there are no two alike in their upper bits; the lower ones
 * are the expert's number, turned over.  *are_apart: the values of all ranks up to the next one are, by more than
 * such bits are, and normal numbers after a division by a sum of so many. */
RF_DEVICE uint32_t choose_apart(const float e[CHOOSE_OWN], uint32_t n, uint32_t rank,
                                int *are_apart) {
    const uint32_t low = RF_GPU_CHOOSE_MOST - 1, first = CHOOSE_OWN * (rf_tid() % 32);
    uint32_t key[CHOOSE_OWN + 1], found = 0;
    float above = 4.0f;
    RF_UNROLL
    for (uint32_t i = 0; i < CHOOSE_OWN; i++)
        key[i] = first + i < n ? (rf_bits_of(e[i]) & ~low) | (low - first - i) : 0;
    key[CHOOSE_OWN] = 0;
    choose_order(&key[0], &key[1]);
    choose_order(&key[2], &key[3]);
    choose_order(&key[0], &key[2]);
    choose_order(&key[1], &key[3]);
    choose_order(&key[1], &key[2]);
    *are_apart = 1;
    RF_NO_UNROLL
    for (uint32_t r = 0; r <= rank + 1; r++) {
        const uint32_t most = rf_warp_most(key[0]);
        const float v = rf_float_of(most & ~low);
        const int is_here = key[0] == most;
        RF_UNROLL
        for (uint32_t i = 0; i < CHOOSE_OWN; i++)
            key[i] = is_here ? key[i + 1] : key[i];
        if (r == rank) found = most;
        if (!(v < above * 0.99998f) || above < 0x1p-100f) *are_apart = 0;
        above = v;
    }
    return low - (found & low);
}

/* The thread's scores. */
RF_DEVICE void choose_load(float v[CHOOSE_OWN], const float *scores, uint32_t n) {
    const uint32_t first = CHOOSE_OWN * (rf_tid() % 32);
    RF_UNROLL
    for (uint32_t i = 0; i < CHOOSE_OWN; i++)
        v[i] = first + i < n ? scores[first + i] : 0.0f;
}

/* Exponentials of scores, which become parts of their sum. */
RF_DEVICE void choose_parts(choose_shared *s, float v[CHOOSE_OWN], uint32_t n) {
    const float *e = (const float *)s->e;
    float sum = 0.0f;
    if (rf_tid() < 32) {
        const rf_f4 four = {{v[0], v[1], v[2], v[3]}};
        s->e[rf_tid()] = four;
    }
    rf_warp_sync();
    RF_UNROLL_4
    for (uint32_t i = 0; i < n / 4; i++)
        sum = sum + s->e[i].v[0] + s->e[i].v[1] + s->e[i].v[2] + s->e[i].v[3];
    for (uint32_t i = n / 4 * 4; i < n; i++)
        sum += e[i];
    RF_UNROLL
    for (uint32_t i = 0; i < CHOOSE_OWN; i++)
        v[i] /= sum;
}

/* Scores become exponentials; are all of them numbers? */
RF_DEVICE int choose_powers(float v[CHOOSE_OWN], uint32_t n) {
    const uint32_t first = CHOOSE_OWN * (rf_tid() % 32);
    uint32_t most = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < CHOOSE_OWN; i++) {
        const uint32_t key = first + i < n ? choose_key(v[i]) : 0;
        most = key > most ? key : most;
    }
    const float top = choose_value(rf_warp_most(most));
    int are_numbers = 1;
    RF_UNROLL
    for (uint32_t i = 0; i < CHOOSE_OWN; i++) {
        const float e = rf_exp32_down(v[i] - top);
        v[i] = first + i < n ? e : 0.0f;
        are_numbers = are_numbers && v[i] == v[i];
    }
    return rf_warp_ballot(!are_numbers) == 0;
}

RF_DEVICE uint32_t choose_by_warp(choose_shared *s, const rf_gpu_route_args *a, uint32_t rank) {
    const uint32_t n = a->n_experts, first = CHOOSE_OWN * (rf_tid() % 32);
    float v[CHOOSE_OWN];
    choose_load(v, a->scores, n);
    if (a->kind == RF_ROUTER_SOFTMAX) {
        int are_apart = 0;
        uint32_t expert = 0;
        if (!choose_powers(v, n)) return rank; /* all parts of the sum are NaNs */
        if (!a->select_bias) expert = choose_apart(v, n, rank, &are_apart);
        if (are_apart) return expert;
        choose_parts(s, v, n);
    }
    RF_UNROLL
    for (uint32_t i = 0; i < CHOOSE_OWN; i++) {
        if (a->kind == RF_ROUTER_SIGMOID) v[i] = rf_gated(1.0f, v[i]);
        if (a->select_bias && first + i < n) v[i] = v[i] + a->select_bias[first + i];
    }
    return choose_rank(choose_sorted(v, n), rank);
}

/* All threads of the block call, and get the same. */
RF_DEVICE uint32_t choose_expert(choose_shared *s, const rf_gpu_route_args *a, uint32_t rank) {
    if (rf_tid() < 32 || !rf_warp_may_skip()) {
        const uint32_t expert = choose_by_warp(s, a, rank);
        if (rf_tid() == 0) s->expert = expert;
    }
    rf_sync();
    return s->expert;
}
