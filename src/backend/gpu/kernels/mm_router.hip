/* mm_router.hip - products of float weights of few rows with few activation rows, such as the scores of
 * a router: a block has one output, so that many of them read at once.
 *
 * Both rows pass through shared memory in stretches of columns, the first weights before the kernel in
 * front has ended; sixteen threads add up the canonical lanes. */
#include "backend/gpu/kernels/mm.h"

enum { ROUTER_STEP = 2048, ROUTER_LANES = 16 };

typedef struct router_shared {
    rf_u4 w[ROUTER_STEP / 4], x[ROUTER_STEP / 4];
    float lanes[ROUTER_LANES];
} router_shared;

/* 16 * n bytes on their way. */
RF_DEVICE void router_fetch(rf_u4 *to, const void *from, uint32_t n) {
    RF_UNROLL
    for (uint32_t i = 0; i < ROUTER_STEP / 4 / RF_BLOCK_mm_router; i++) {
        const uint32_t k = i * RF_BLOCK_mm_router + rf_tid();
        if (k < n) rf_copy_16(to + k, (const rf_u4 *)from + k);
    }
}

RF_DEVICE float router_weight(const rf_u4 *w, uint32_t k, uint32_t form) {
    if (form == RF_GPU_F32) return ((const float *)(const void *)w)[k];
    const uint16_t h = ((const uint16_t *)(const void *)w)[k];
    return form == RF_GPU_F16 ? rf_f16_at(h) : rf_float_of((uint32_t)h << 16);
}

/* This thread's lane with n columns more. */
RF_DEVICE float router_add(const router_shared *sh, uint32_t form, uint32_t n, float s) {
    const float *x = (const float *)(const void *)sh->x + rf_tid();
    if (n == ROUTER_STEP) {
        RF_UNROLL_16
        for (uint32_t k = 0; k < ROUTER_STEP; k += ROUTER_LANES)
            s = rf_fma(router_weight(sh->w, k + rf_tid(), form), x[k], s);
        return s;
    }
    for (uint32_t k = 0; k + rf_tid() < n; k += ROUTER_LANES)
        s = rf_fma(router_weight(sh->w, k + rf_tid(), form), x[k], s);
    return s;
}

RF_DEVICE void router_run(router_shared *sh, const rf_gpu_matmul_args *a, uint32_t form) {
    const mm_share share = share_of(a, 1, 1);
    const uint32_t cols = share.p.w.cols, bytes = form == RF_GPU_F32 ? 4 : 2;
    const uint8_t *w = (const uint8_t *)share.p.w.lo + (uint64_t)share.tile * cols * bytes;
    const float *x = a->x + (uint64_t)share.first * cols;
    float s = 0.0f;
    for (uint32_t first = 0; first < cols; first += ROUTER_STEP) {
        const uint32_t n = rf_min_u32(cols - first, ROUTER_STEP);
        router_fetch(sh->w, w + (uint64_t)first * bytes, n * bytes / 16);
        if (first == 0) rf_await_before();
        router_fetch(sh->x, x + first, n / 4);
        rf_copy_wait();
        rf_sync();
        if (rf_tid() < ROUTER_LANES) s = router_add(sh, form, n, s);
        rf_sync();
    }
    if (rf_tid() < ROUTER_LANES) sh->lanes[rf_tid()] = s;
    rf_sync();
    if (rf_tid() == 0) put_output(a, &share, share.first, share.tile, 0.0f, rf_tree16(sh->lanes));
}

RF_KERNEL_EARLY(mm_router, rf_gpu_matmul_args, 4) {
    RF_SHARED router_shared sh;
    if (a.part[0].w.form == RF_GPU_F32)
        router_run(&sh, &a, RF_GPU_F32);
    else if (a.part[0].w.form == RF_GPU_F16)
        router_run(&sh, &a, RF_GPU_F16);
    else
        router_run(&sh, &a, RF_GPU_BF16);
}
