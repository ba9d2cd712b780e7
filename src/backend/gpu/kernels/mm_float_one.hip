/* mm_float_one.hip - products of 16-bit float weights with one activation row, bound by reading the
 * weights; eight threads, two canonical lanes each, for each of sixteen weight rows.
 *
 * Weights and activations pass through shared memory in stretches of columns, all but one of them on their
 * way, the first weights before the kernel in front has ended. */
#include "backend/gpu/kernels/mm.h"
#include "backend/gpu/tile.h"

#if defined(RF_NVIDIA)
enum { F1_STEP = RF_F1_NVIDIA_COLUMNS, F1_STAGES = RF_F1_NVIDIA_STAGES };
#else
enum { F1_STEP = 256, F1_STAGES = 4 };
#endif

enum {
    F1_ROWS = RF_F1_ROWS,
    F1_STRIDE = 2 * F1_STEP + RF_F1_PAD,           /* bytes of a row there */
    F1_AT_ONCE = RF_BLOCK_float_one * 8 / F1_STEP, /* rows that all threads copy a piece of */
};

typedef struct f1_shared {
    rf_u4 w[F1_STAGES][F1_ROWS * F1_STRIDE / 16], x[F1_STAGES][F1_STEP / 4];
    float lanes[F1_ROWS * 17];
} f1_shared;

/* A block's rows of one matrix. */
typedef struct f1_rows {
    const uint8_t *w; /* of the plane */
    uint32_t first, rows, cols;
} f1_rows;

/* Columns first .. first + F1_STEP - 1 of the block's rows on their way; rows behind the last are it. */
RF_DEVICE void f1_fetch(rf_u4 *to, const f1_rows *m, uint32_t first) {
    const uint32_t piece = rf_tid() % (F1_STEP / 8), n = rf_min_u32(m->cols - first, F1_STEP) / 8;
    RF_UNROLL
    for (uint32_t i = 0; i < F1_ROWS / F1_AT_ONCE; i++) {
        const uint32_t r = rf_tid() / (F1_STEP / 8) + F1_AT_ONCE * i;
        const uint64_t row = rf_min_u32(m->first + r, m->rows - 1);
        if (piece < n)
            rf_copy_16(to + r * (F1_STRIDE / 16) + piece,
                       m->w + (row * m->cols + first + 8 * piece) * 2);
    }
}

/* The activations of these columns. */
RF_DEVICE void f1_fetch_x(rf_u4 *to, const float *x, uint32_t cols, uint32_t first) {
    if (rf_tid() < rf_min_u32(cols - first, F1_STEP) / 4)
        rf_copy_16(to + rf_tid(), x + first + 4 * rf_tid());
}

RF_DEVICE float f1_half(uint32_t word, int i, uint32_t form) {
    if (form == RF_GPU_F16) return rf_f16_at((uint16_t)(word >> 16 * i));
    return rf_float_of(i ? word & 0xffff0000u : word << 16);
}

RF_DEVICE void f1_pair(float s[2], uint32_t w, rf_f2 x, uint32_t form) {
    s[0] = rf_fma(f1_half(w, 0, form), x.v[0], s[0]);
    s[1] = rf_fma(f1_half(w, 1, form), x.v[1], s[1]);
}

/* This thread's two lanes over n columns. */
RF_DEVICE void f1_add(float s[2], const rf_u4 *stage, const rf_u4 *x, uint32_t n, uint32_t form) {
    const uint32_t row = rf_tid() / 8, pair = rf_tid() % 8;
    const uint32_t *w = (const uint32_t *)(const void *)stage + row * (F1_STRIDE / 4) + pair;
    const rf_f2 *at = (const rf_f2 *)(const void *)x + pair;
    if (n == F1_STEP) { /* all loads ahead */
        RF_UNROLL
        for (uint32_t j = 0; j < F1_STEP / 16; j++)
            f1_pair(s, w[8 * j], at[8 * j], form);
        return;
    }
    for (uint32_t j = 0; j < n / 16; j++)
        f1_pair(s, w[8 * j], at[8 * j], form);
    if (n % 16 == 0) return; /* else eight more, continued with zeros */
    const rf_f2 zero = {{0.0f, 0.0f}};
    f1_pair(s, pair < 4 ? w[n / 16 * 8] : 0, pair < 4 ? at[n / 16 * 8] : zero, form);
}

/* The sum of row number tid in the first threads. */
RF_DEVICE float f1_tree(f1_shared *sh, const float s[2]) {
    float *to = sh->lanes + rf_tid() / 8 * 17 + rf_tid() % 8 * 2;
    rf_sync();
    to[0] = s[0];
    to[1] = s[1];
    rf_sync();
    return rf_tree16(sh->lanes + rf_tid() % F1_ROWS * 17);
}

RF_DEVICE void f1_run(f1_shared *sh, const rf_gpu_matmul_args *a, uint32_t form) {
    if (a->mode == RF_GPU_MM_EXPERTS) rf_await_before(); /* the route */
    const mm_share share = share_of(a, F1_ROWS, 1);
    if (share.n == 0) return;
    const rf_gpu_weight *up = &a->part[1].w;
    const uint64_t plane_bytes = 2 * (uint64_t)share.p.w.rows * share.p.w.cols;
    f1_rows m = {(const uint8_t *)share.p.w.lo + share.plane * plane_bytes, share.tile * F1_ROWS,
                 share.p.w.rows, share.p.w.cols};
    const uint8_t *const first_w = m.w;
    const uint8_t *const up_w = (const uint8_t *)up->lo + share.plane * plane_bytes;
    const uint32_t n_steps = rf_div_up(m.cols, F1_STEP), n_units = n_steps * (1 + a->is_glu);
    for (uint32_t u = 0; u < F1_STAGES - 1; u++) {
        m.w = u < n_steps ? first_w : up_w;
        if (u < n_units) f1_fetch(sh->w[u], &m, u % n_steps * F1_STEP);
        rf_copy_end();
    }
    rf_await_before();
    const uint32_t dst_row = dst_row_of(a, &share, 0), r = m.first + rf_tid();
    const float *x = a->x + (uint64_t)x_row_of(a, dst_row) * m.cols;
    for (uint32_t u = 0; u < F1_STAGES - 1 && u < n_units; u++)
        f1_fetch_x(sh->x[u], x, m.cols, u % n_steps * F1_STEP);
    rf_copy_end();
    rf_copy_wait();
    float s[2] = {0.0f, 0.0f}, gate = 0.0f;
    for (uint32_t u = 0; u < n_units; u++) {
        const uint32_t next = u + F1_STAGES - 1, first = u % n_steps * F1_STEP;
        rf_copy_wait_but(F1_STAGES - 2);
        rf_sync();
        m.w = next < n_steps ? first_w : up_w;
        if (next < n_units) {
            f1_fetch(sh->w[next % F1_STAGES], &m, next % n_steps * F1_STEP);
            f1_fetch_x(sh->x[next % F1_STAGES], x, m.cols, next % n_steps * F1_STEP);
        }
        rf_copy_end();
        f1_add(s, sh->w[u % F1_STAGES], sh->x[u % F1_STAGES], rf_min_u32(m.cols - first, F1_STEP),
               form);
        if (u + 1 != n_steps || !a->is_glu) continue;
        gate = f1_tree(sh, s);
        s[0] = s[1] = 0.0f;
    }
    const float v = f1_tree(sh, s);
    if (rf_tid() < F1_ROWS && r < m.rows) put_output(a, &share, dst_row, r, gate, v);
}

RF_KERNEL_EARLY(float_one, rf_gpu_matmul_args, 2) {
#if defined(RF_NVIDIA)
    f1_shared &sh = *(f1_shared *)(void *)rf_dynamic_shared;
#else
    RF_SHARED f1_shared sh;
#endif
    if (a.part[0].w.form == RF_GPU_F16)
        f1_run(&sh, &a, RF_GPU_F16);
    else
        f1_run(&sh, &a, RF_GPU_BF16);
}
