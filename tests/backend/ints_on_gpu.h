/* ints_on_gpu.h - rows of activations in integers, on the host and on the device that tests of the GPU's kernels run on. */
#pragma once
#include "backend/cpu/exec.h"
#include "backend/on_gpu.h"

typedef struct ints { /* on the host, and where a device has them */
    rf_mm_input in;
    rf_gpu_quant gpu;
} ints;

static inline size_t d_count(const rf_mm_input *in) {
    return (size_t)in->n_rows * (in->n_cols / (in->view == RF_INT_256 ? 256 : 32));
}
static inline size_t sum_count(const rf_mm_input *in) {
    return (size_t)in->n_rows * (in->n_cols / (in->view == RF_INT_256 ? 16 : 32));
}

/* Quantised by the CPU, with room for the same on the device. */
static inline ints make_ints(const float *x, uint32_t n_rows, uint32_t cols, rf_int_view view) {
    ints v = {.in = {.view = view, .n_rows = n_rows, .n_cols = cols, .x = x}};
    if (view == RF_INT_NONE) return v;
    size_t n = (size_t)n_rows * cols;
    v.in.q = rf_alloc(n, 1);
    v.in.d = rf_alloc(d_count(&v.in), sizeof *v.in.d);
    v.in.sum = rf_alloc(sum_count(&v.in), sizeof *v.in.sum);
    assert_true(v.in.q && v.in.d && v.in.sum);
    (view == RF_INT_32 ? cpu->quant_32 : cpu->quant_256)(x, n, v.in.q, v.in.d, v.in.sum);
    v.gpu.q = take(n);
    v.gpu.d = take(d_count(&v.in) * sizeof(float));
    v.gpu.sum = take(sum_count(&v.in) * sizeof(int32_t));
    return v;
}

static inline void check_ints(const ints *v) {
    check_bytes("q", v->in.q, v->gpu.q, (size_t)v->in.n_rows * v->in.n_cols);
    check_floats("d", v->in.d, v->gpu.d, d_count(&v->in));
    check_bytes("sum", v->in.sum, v->gpu.sum, sum_count(&v->in) * sizeof(int32_t));
}

static inline void free_ints(ints *v) {
    rf_free(v->in.q);
    rf_free(v->in.d);
    rf_free(v->in.sum);
}
