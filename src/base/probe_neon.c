/* probe_neon.c - the products of probe.h with NEON's dot products. */
#include <arm_neon.h>

#include "base/probe.h"

enum { N = 16 };

uint64_t rf_probe_int8_neon(uint32_t steps) {
    int32x4_t acc[N];
    int8x16_t w = vdupq_n_s8(3), x = vdupq_n_s8(-2);
    for (int i = 0; i < N; i++)
        acc[i] = vdupq_n_s32(0);
    for (uint32_t k = 0; k < steps; k++)
        for (int i = 0; i < N; i++)
            acc[i] = vdotq_s32(acc[i], w, x);
    for (int i = 0; i < N; i++)
        RF_OPAQUE(acc[i]);
    return (uint64_t)steps * N * 16 * 2;
}

uint64_t rf_probe_f32_neon(uint32_t steps) {
    float32x4_t acc[N], w = vdupq_n_f32(0.5f), x = vdupq_n_f32(0);
    for (int i = 0; i < N; i++)
        acc[i] = vdupq_n_f32(0);
    for (uint32_t k = 0; k < steps; k++)
        for (int i = 0; i < N; i++)
            acc[i] = vfmaq_f32(acc[i], w, x);
    for (int i = 0; i < N; i++)
        RF_OPAQUE(acc[i]);
    return (uint64_t)steps * N * 4 * 2;
}
