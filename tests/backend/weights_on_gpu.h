/* weights_on_gpu.h - random weights of any format, on the device that tests of the GPU's kernels run on. */
#pragma once
#include "backend/gpu_weights.h"
#include "backend/on_gpu.h"

static inline void free_tensor(rf_tensor *w) {
    union {
        const void *data;
        void *memory;
    } u = {w->data};
    rf_free(u.memory);
}

static inline rf_gpu_weight packed_on_gpu(const rf_tensor *w, bool is_table) {
    rf_gpu_layout l;
    uint8_t *block = packed_weight(w, &l, is_table);
    void *base = up(block, l.bytes);
    rf_free(block);
    return rf_gpu_weight_at(&l, base);
}

static inline rf_gpu_weight weight_on_gpu(const rf_tensor *w) { return packed_on_gpu(w, false); }

/* A route of T rows to n_used different experts each. */
static inline float *random_route(uint32_t T, uint32_t n_experts, uint32_t n_used) {
    float *route = random_floats((size_t)T * 2 * n_used, 1);
    for (uint32_t t = 0; t < T; t++) {
        uint32_t first = (uint32_t)(rf_test_rand(&seed) % n_experts);
        for (uint32_t i = 0; i < n_used; i++)
            route[((size_t)2 * t + 1) * n_used + i] = (float)((first + i * 3) % n_experts);
    }
    return route;
}
