/* half_rule.h - what the rule of 16-bit floats on matrix units (kernels/half.h) multiplies, for tests, and the device
 * that they run on with it. */
#pragma once
#include <math.h>
#include <stdint.h>

#include "backend/on_gpu.h"
#include "base/fmath.h"
#include "quant/dtype.h"

/* A row as it is multiplied: rounded to F16 or BF16, of F16 times a power of two that is taken back. */
static inline void round_row(double *to, const float *x, uint32_t n, rf_dtype type) {
    float most = 0;
    int e = 0;
    for (uint32_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    if (type == RF_DT_F16 && most > 0) {
        (void)frexpf(most, &e);
        e -= 15;
    }
    for (uint32_t i = 0; i < n; i++)
        to[i] = type == RF_DT_F16 ? ldexp((double)rf_f16_to_f32(rf_f32_to_f16(ldexpf(x[i], -e))), e)
                                  : (double)rf_bf16_to_f32(rf_f32_to_bf16(x[i]));
}

static inline int open_fast(void **state) {
    int failed = open_device(state);
    queue.fast_floats = true;
    return failed;
}
