/* half_wide.hip - products of 16-bit floats with very many activation rows on Hopper's matrix units, by
 * half.h's rule: a step of wgmma has the same sixteen columns as one of mma.sync, and the same bits.
 *
 * A block goes through tiles of 128 weight rows by 128 or 256 activation rows.  Four warps bring 64 columns
 * of both at a time into a ring of stages in shared memory, activations as half_rows has laid them out; two
 * teams of four warps multiply 64 of the weight rows each. */
#include "backend/gpu/kernels/half.h"
#include "backend/gpu/kernels/hopper.h"
#include "backend/gpu/kernels/ring.h"

#if defined(RF_HOPPER)
enum {
    HW_TEAM = 128,
    HW_BRING = 128, /* threads, behind the teams */
    HW_COPIES = 8,  /* of each of them for a stage */
    HW_STEP = 64,
    HW_ROWS = RF_HALF_WIDE_ROWS,
};

typedef struct hw_shared {
    uint64_t full[RF_HALF_WIDE_MOST], empty[RF_HALF_WIDE_MOST];
} hw_shared;

/* Where a block is in its tiles; n_x, n_stages and form are constants. */
typedef struct hw_work {
    const rf_gpu_matmul_args *a;
    uint32_t n_x, n_stages, form;
    uint32_t n_tiles, n_stretches, n_steps;
} hw_work;

RF_DEVICE hw_work hw_work_of(const rf_gpu_matmul_args *a, uint32_t n_x, uint32_t form) {
    hw_work k = {a, n_x, rf_half_wide_stages(n_x), form, 0, 0, 0};
    k.n_tiles = tiles_in(a, a->is_glu ? HW_ROWS / 2 : HW_ROWS);
    k.n_stretches = rf_div_up(a->n_rows, n_x);
    k.n_steps = rf_div_up(a->part[0].w.cols, HW_STEP);
    return k;
}

RF_DEVICE mm_share hw_share(const hw_work *k, uint32_t i) {
    return share_at(k->a, k->a->is_glu ? HW_ROWS / 2 : HW_ROWS, k->n_x, i / k->n_stretches,
                    i % k->n_stretches);
}

/* Eight threads bring 64 columns of a weight row, zeros behind the last one; where a thread's rows begin, in
 * sixteens of bytes. */
typedef struct hw_rows {
    const uint8_t *lo;
    uint32_t at[HW_COPIES];
} hw_rows;

RF_DEVICE hw_rows hw_rows_of(const hw_work *k, const mm_share *s) {
    const uint32_t own = (rf_tid() - 2 * HW_TEAM) / 8, piece = rf_tid() % 8;
    const rf_gpu_weight *w = k->a->is_glu && own >= 8 ? &k->a->part[1].w : &s->p.w;
    hw_rows r;
    r.lo = (const uint8_t *)w->lo;
    RF_UNROLL
    for (uint32_t j = 0; j < HW_COPIES; j++) {
        const uint32_t row = k->a->is_glu ? s->tile * (HW_ROWS / 2) + 8 * j + own % 8
                                          : s->tile * HW_ROWS + 16 * j + own;
        r.at[j] = (uint32_t)((uint64_t)rf_min_u32(row, w->rows - 1) * (w->cols / 8) + piece);
    }
    return r;
}

/* All stages of a tile; activations lie as they are wanted, so that one copy brings them. */
RF_DEVICE void hw_bring_tile(uint8_t *stages, hw_shared *sh, const hw_work *k, uint32_t i,
                             uint32_t *now, uint32_t *parity) {
    const mm_share s = hw_share(k, i);
    const uint32_t tid = rf_tid() - 2 * HW_TEAM, piece = tid % 8, own = tid / 8,
                   x_bytes = k->n_x * 128, cols = s.p.w.cols;
    const uint8_t *x = (const uint8_t *)k->a->halves.x +
                       (uint64_t)(i % k->n_stretches) * k->n_steps * x_bytes;
    const rf_u4 zeros = {{0, 0, 0, 0}};
    const hw_rows rows = hw_rows_of(k, &s);
    RF_NO_UNROLL
    for (uint32_t g = 0; g < k->n_steps; g++, x += x_bytes) {
        uint8_t *stage = stages + *now * rf_half_wide_stage(k->n_x);
        const int is_inside = g * HW_STEP + 8 * piece < cols;
        ring_await(&sh->empty[*now], *parity);
        if (tid == 0) {
            hopper_arrive_with(&sh->full[*now], x_bytes);
            hopper_bring(stage + HW_ROWS * 128, x, x_bytes, &sh->full[*now]);
        }
        RF_UNROLL
        for (uint32_t j = 0; j < HW_COPIES; j++) {
            uint8_t *to = stage + half_piece(own + 16 * j, piece, HW_STEP);
            if (is_inside)
                rf_copy_16(to, rows.lo + ((uint64_t)rows.at[j] * 16 + g * 128));
            else
                *(rf_u4 *)(void *)to = zeros;
        }
        ring_arrive_after_copies(&sh->full[*now]);
        ring_arrive(&sh->full[*now]); /* what was stored */
        if (++*now == k->n_stages) {
            *now = 0;
            *parity ^= 1;
        }
    }
}

/* Products of a stage's 64 columns onto c. */
RF_DEVICE void hw_begin(float *c, const uint8_t *stage, uint32_t team, const hw_work *k,
                        int is_more) {
    const uint32_t at = rf_shared_at(stage);
    const uint64_t w = hopper_chunk(at + team * 64 * 128), x = hopper_chunk(at + HW_ROWS * 128);
    RF_UNROLL
    for (uint32_t i = 0; i < HW_STEP / 16; i++)
        hopper_multiply_halves(c, k->n_x, w + i * HOPPER_NEXT_CHUNK, x + i * HOPPER_NEXT_CHUNK,
                               k->form == RF_GPU_F16, is_more || i);
    hopper_end();
}

/* The tile's outputs, 32 activation rows at a time through shared memory of the warp, so that one loop
 * writes them: a thread has those of weight rows g and g + 8 of its warp's sixteen, activation rows 2t and
 * 2t + 1 of each eight. */
RF_DEVICE void hw_put(float *out, const float *c, const hw_work *k, const mm_share *s) {
    const rf_gpu_matmul_args *a = k->a;
    const uint32_t lane = rf_tid() % 32, g = lane / 4, t = lane % 4;
    const uint32_t per_warp = a->is_glu ? 8 : 16, r = lane % per_warp;
    const uint32_t row = (s->tile * HW_ROWS + rf_tid() / 32 * 16) / 16 * per_warp + r;
    RF_UNROLL
    for (uint32_t part = 0; part < k->n_x / 32; part++) {
        ring_sync_warp();
        RF_UNROLL
        for (uint32_t i = 0; i < 16; i++)
            out[(i / 4 * 8 + t * 2 + i % 2) * RF_WIDE_OUT_STRIDE + g + i % 4 / 2 * 8] =
                c[16 * part + i];
        ring_sync_warp();
        RF_NO_UNROLL
        for (uint32_t i = lane / per_warp; i < 32; i += 32 / per_warp) {
            const float *of_row = out + i * RF_WIDE_OUT_STRIDE + r;
            if (32 * part + i >= s->n || row >= s->p.w.rows) break;
            const uint32_t dst_row = s->first + 32 * part + i;
            const float up = k->form == RF_GPU_F16 ? a->halves.scale[dst_row] : 1.0f;
            if (a->is_glu)
                put_output(a, s, dst_row, row, of_row[0] * up, of_row[8] * up);
            else
                put_output(a, s, dst_row, row, 0.0f, of_row[0] * up);
        }
    }
}

/* A stage is given back when the products behind it have begun and its own are done. */
RF_DEVICE void hw_multiply(uint8_t *stages, hw_shared *sh, const hw_work *k) {
    const uint32_t team = rf_tid() / HW_TEAM;
    const int is_first_lane = rf_tid() % 32 == 0;
    float *out = (float *)(void *)(stages + k->n_stages * rf_half_wide_stage(k->n_x) +
                                   rf_tid() / 32 * RF_WIDE_OUT_BYTES);
    uint32_t now = 0, parity = 0;
    RF_NO_UNROLL
    for (uint32_t i = rf_bid_x(); i < k->n_tiles * k->n_stretches; i += hopper_grid_x()) {
        const mm_share share = hw_share(k, i);
        float c[RF_HALF_WIDE_X / 2];
        uint32_t before = 0;
        RF_UNROLL
        for (uint32_t j = 0; j < k->n_x / 2; j++)
            c[j] = 0.0f;
        hopper_hold_halves(c, k->n_x);
        RF_NO_UNROLL
        for (uint32_t g = 0; g < k->n_steps; g++) {
            ring_await(&sh->full[now], parity);
            hopper_publish();
            hopper_begin();
            hw_begin(c, stages + now * rf_half_wide_stage(k->n_x), team, k, g > 0);
            hopper_wait_but(1);
            if (is_first_lane && g > 0) ring_arrive(&sh->empty[before]);
            before = now;
            if (++now == k->n_stages) {
                now = 0;
                parity ^= 1;
            }
        }
        hopper_wait_but(0);
        hopper_hold_halves(c, k->n_x);
        if (is_first_lane) ring_arrive(&sh->empty[before]);
        hw_put(out, c, k, &share);
    }
}

RF_DEVICE void hw_run(const rf_gpu_matmul_args *a, uint32_t n_x, uint32_t form) {
    hw_shared *sh = (hw_shared *)(void *)rf_dynamic_shared;
    const hw_work k = hw_work_of(a, n_x, form);
    const uint32_t tid = rf_tid();
    uint8_t *stages =
        rf_dynamic_shared + RF_WIDE_HEAD - (rf_shared_at(rf_dynamic_shared) & (RF_WIDE_ALIGN - 1));
    if (tid < k.n_stages) {
        ring_init(&sh->full[tid], 2 * HW_BRING + 1);
        ring_init(&sh->empty[tid], 2 * HW_TEAM / 32);
    }
    hopper_publish(); /* to copies that run by themselves */
    rf_sync();
    if (tid >= 2 * HW_TEAM) {
        uint32_t now = 0, parity = 1;
        hopper_56_registers();
        RF_NO_UNROLL
        for (uint32_t i = rf_bid_x(); i < k.n_tiles * k.n_stretches; i += hopper_grid_x())
            hw_bring_tile(stages, sh, &k, i, &now, &parity);
        rf_copy_wait();
        return;
    }
    hopper_224_registers();
    hw_multiply(stages, sh, &k);
}

#define HALF_WIDE(n_x)                                  \
    RF_KERNEL_ALONE(half_wide_##n_x, rf_gpu_matmul_args) { \
        if (a.part[0].w.form == RF_GPU_F16)             \
            hw_run(&a, n_x, RF_GPU_F16);                \
        else                                            \
            hw_run(&a, n_x, RF_GPU_BF16);               \
    }
HALF_WIDE(128)
HALF_WIDE(256)
#endif
