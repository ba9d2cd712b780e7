/* mm_router.hip - products of float weights of few rows with few activation rows, such as the scores of
 * a router: a block has one output, so that many of them read at once.
 *
 * Both rows pass through shared memory in stretches of columns, weights first; sixteen threads add up the
 * canonical lanes.  One row that is yet to be RMS-normed each block norms for itself, all of it at a time; the
 * last block writes it for those who read it later. */
#include "backend/gpu/kernels/mm.h"
#include "backend/gpu/kernels/norm.h"

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

/* One row, yet to be normed ----------------------------------------------------------------------*/

/* The row is a piece of norm.h's at most.  Its lanes lie one after the other, so that a thread reads
 * four elements of one at once.  The room for a lane is an odd number of fours: neighbouring lanes
 * meet no bank twice. */
enum {
    ROUTER_LANE = (int)RF_GPU_ROUTER_COLS / 64 + 1,
    ROUTER_ROOM = 16 * ((int)RF_GPU_ROUTER_COLS / 64 + 1),
};

typedef struct router_lanes {
    rf_f4 w[ROUTER_ROOM], x[ROUTER_ROOM];
    norm_shared norm;
} router_lanes;

/* The thread's elements of its lane in its stretch of a weight's row, as norm_load_lane has it. */
RF_DEVICE void router_load_lane(float v[NORM_OWN], const void *w, uint32_t form, uint32_t n) {
    const uint32_t k = rf_tid() / 16 * RF_NORM_STRETCH + rf_tid() % 16;
    if (form == RF_GPU_F32) {
        norm_load_lane(v, (const float *)w, 0, n);
        return;
    }
    RF_UNROLL
    for (uint32_t i = 0; i < NORM_OWN; i++)
        v[i] = k + 16 * i < n ? router_weight((const rf_u4 *)w, k + 16 * i, form) : 0.0f;
}

RF_DEVICE void router_put_lane(rf_f4 *lanes, const float v[NORM_OWN]) {
    rf_f4 *to = lanes + (rf_tid() % 16 * ROUTER_LANE + rf_tid() / 16 * (NORM_OWN / 4));
    RF_UNROLL
    for (uint32_t i = 0; i < NORM_OWN / 4; i++) {
        const rf_f4 four = {{v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]}};
        to[i] = four;
    }
}

/* The lane of the first sixteen threads. */
RF_DEVICE float router_lane(const router_lanes *sh, uint32_t n) {
    const rf_f4 *w = sh->w + rf_tid() * ROUTER_LANE, *x = sh->x + rf_tid() * ROUTER_LANE;
    const uint32_t count = (n + ROUTER_LANES - 1 - rf_tid()) / ROUTER_LANES;
    float s = 0.0f;
    RF_UNROLL_8
    for (uint32_t i = 0; i < count / 4; i++) {
        const rf_f4 a = w[i], b = x[i];
        RF_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            s = rf_fma(a.v[j], b.v[j], s);
    }
    for (uint32_t i = count / 4 * 4; i < count; i++)
        s = rf_fma(w[i / 4].v[i % 4], x[i / 4].v[i % 4], s);
    return s;
}

/* The normed row, in floats and in integers, as far as somebody asks for it. */
RF_DEVICE void router_write_row(router_lanes *sh, const rf_gpu_norm_args *a) {
    float w[NORM_OWN], lane[NORM_OWN], v[NORM_OWN];
    norm_weights(w, a->w, 0, a->n, NORM_FOURS);
    rf_await_before();
    norm_load_lane(lane, a->x, 0, a->n);
    norm_load_fours(v, a->x, 0, a->n, NORM_FOURS);
    const float factor = norm_factor(&sh->norm, lane, a, a->x);
    RF_UNROLL
    for (uint32_t i = 0; i < NORM_OWN; i++) {
        v[i] = v[i] * factor;
        if (a->w) v[i] = v[i] * w[i];
    }
    if (a->dst) norm_store_fours(a->dst, v, 0, a->n, NORM_FOURS);
    quant_own(&sh->norm, v, &a->q32, &a->q256, 0, 0, a->n, NORM_FOURS, 0);
}

RF_DEVICE void router_score(router_lanes *sh, const rf_gpu_matmul_args *a, uint32_t form) {
    const mm_share share = share_of(a, 1, 1);
    const uint32_t n = share.p.w.cols, bytes = form == RF_GPU_F32 ? 4 : 2;
    float v[NORM_OWN], w[NORM_OWN], own[NORM_OWN];
    router_load_lane(own, (const uint8_t *)share.p.w.lo + (uint64_t)share.tile * n * bytes, form,
                     n);
    if (a->norm.w) norm_load_lane(w, a->norm.w, 0, n);
    rf_await_before();
    norm_load_lane(v, a->norm.x, 0, n);
    router_put_lane(sh->w, own); /* not before: the row would be asked for when these are there */
    const float factor =
        norm_factor(&sh->norm, v, &a->norm, a->norm.x); /* v stays: there is one piece */
    RF_UNROLL
    for (uint32_t i = 0; i < NORM_OWN; i++) {
        v[i] = v[i] * factor;
        if (a->norm.w) v[i] = v[i] * w[i];
    }
    router_put_lane(sh->x, v);
    rf_sync();
    float s = rf_tid() < ROUTER_LANES ? router_lane(sh, n) : 0.0f;
    RF_UNROLL
    for (uint32_t half = ROUTER_LANES / 2; half > 0; half /= 2) /* tree16 */
        s += rf_float_of(rf_lane_xor(rf_bits_of(s), half));
    if (rf_tid() == 0) put_output(a, &share, 0, share.tile, 0.0f, s);
}

RF_KERNEL_EARLY(router_normed, rf_gpu_matmul_args, 2) {
    RF_SHARED router_lanes sh;
    if (rf_bid_x() == a.part[0].w.rows)
        router_write_row(&sh, &a.norm);
    else
        router_score(&sh, &a, RF_GPU_F32);
}
RF_KERNEL_KIND_EARLY(router_normed, 1, rf_gpu_matmul_args, 2) {
    RF_SHARED router_lanes sh;
    if (rf_bid_x() == a.part[0].w.rows)
        router_write_row(&sh, &a.norm);
    else if (a.part[0].w.form == RF_GPU_F16)
        router_score(&sh, &a, RF_GPU_F16);
    else
        router_score(&sh, &a, RF_GPU_BF16);
}
