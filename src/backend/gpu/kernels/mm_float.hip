/* mm_float.hip - products of float weights: sixteen threads, one per canonical lane, for each of
 * sixteen weight rows and up to four activation rows. */
#include "backend/gpu/kernels/mm.h"

enum {
    FLOAT_ROWS = RF_BLOCK_mm_float / 16,
    FLOAT_NT = 4,
    FLOAT_AHEAD = 8, /* elements of a lane that are loaded before the first is used */
};

RF_DEVICE float float_at(const void *p, uint64_t i, uint32_t form) {
    if (form == RF_GPU_F32) return ((const float *)p)[i];
    const uint16_t h = ((const uint16_t *)p)[i];
    return form == RF_GPU_F16 ? rf_f16_at(h) : rf_float_of((uint32_t)h << 16);
}

/* This thread's lane of FLOAT_NT outputs; at: the weight row's first element. */
RF_DEVICE void float_lanes(const rf_gpu_weight *w, uint32_t form, uint64_t at,
                           const float *const x[FLOAT_NT], float s[FLOAT_NT]) {
    uint32_t k = rf_tid() % 16;
    for (; k + 16 * (FLOAT_AHEAD - 1) < w->cols; k += 16 * FLOAT_AHEAD) {
        float wk[FLOAT_AHEAD], xk[FLOAT_AHEAD][FLOAT_NT];
        RF_UNROLL
        for (uint32_t j = 0; j < FLOAT_AHEAD; j++) {
            wk[j] = float_at(w->lo, at + k + 16 * j, form);
            RF_UNROLL
            for (int i = 0; i < FLOAT_NT; i++)
                xk[j][i] = x[i][k + 16 * j];
        }
        RF_UNROLL
        for (int i = 0; i < FLOAT_NT * FLOAT_AHEAD; i++)
            s[i % FLOAT_NT] =
                rf_fma(wk[i / FLOAT_NT], xk[i / FLOAT_NT][i % FLOAT_NT], s[i % FLOAT_NT]);
    }
    for (; k < w->cols; k += 16) {
        const float wk = float_at(w->lo, at + k, form);
        RF_UNROLL
        for (int i = 0; i < FLOAT_NT; i++)
            s[i] = rf_fma(wk, x[i][k], s[i]);
    }
}

/* The product of weight row r with activation row i in thread number i of the row's sixteen. */
RF_DEVICE float float_product(float *lanes, const rf_gpu_weight *w, uint32_t plane, uint32_t r,
                              const float *const x[FLOAT_NT]) {
    const uint32_t tid = rf_tid();
    const uint64_t at = ((uint64_t)plane * w->rows + rf_min_u32(r, w->rows - 1)) * w->cols;
    float s[FLOAT_NT];
    RF_UNROLL
    for (int i = 0; i < FLOAT_NT; i++)
        s[i] = 0.0f;
    if (w->form == RF_GPU_F32)
        float_lanes(w, RF_GPU_F32, at, x, s);
    else if (w->form == RF_GPU_F16)
        float_lanes(w, RF_GPU_F16, at, x, s);
    else
        float_lanes(w, RF_GPU_BF16, at, x, s);
    rf_sync();
    RF_UNROLL
    for (uint32_t i = 0; i < FLOAT_NT; i++)
        lanes[(tid / 16 * FLOAT_NT + i) * 17 + tid % 16] = s[i];
    rf_sync();
    return rf_tree16(lanes + (tid / 16 * FLOAT_NT + tid % FLOAT_NT) * 17);
}

RF_KERNEL(mm_float, rf_gpu_matmul_args) {
    RF_SHARED float lanes[FLOAT_ROWS * FLOAT_NT * 17];
    const mm_share s = share_of(&a, FLOAT_ROWS, FLOAT_NT);
    if (s.n == 0) return;
    const uint32_t r = s.tile * FLOAT_ROWS + rf_tid() / 16, i = rf_tid() % 16;
    const float *x[FLOAT_NT];
    RF_UNROLL
    for (uint32_t t = 0; t < FLOAT_NT; t++)
        x[t] = a.x + (uint64_t)x_row_of(&a, dst_row_of(&a, &s, t)) * s.p.w.cols;
    rf_gpu_weight w = s.p.w;
    float gate = 0.0f, v = 0.0f;
    for (uint32_t pass = 0; pass <= a.is_glu; pass++) {
        if (pass) {
            gate = v;
            w = a.part[1].w;
        }
        v = float_product(lanes, &w, s.plane, r, x);
    }
    if (i < s.n && r < s.p.w.rows) put_output(&a, &s, dst_row_of(&a, &s, i), r, gate, v);
}
