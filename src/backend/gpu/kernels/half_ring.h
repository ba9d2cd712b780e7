/* half_ring.h - how products of 16-bit floats on Hopper's matrix units come by their operands: 128 threads of
 * a block bring some columns of a tile's weight rows and of its activation rows at a time, a stage, into a ring
 * in shared memory, for the other threads to multiply.
 *
 * A stage is some panels of 64 columns of the weights and then as many of the activations.  A block goes through
 * tiles in turns, a stretch of activation rows behind the other for the same weight rows.  Weights of the first
 * stages are on their way before the kernel in front has ended. */
#pragma once
#include "backend/gpu/kernels/half.h"
#include "backend/gpu/kernels/hopper.h"
#include "backend/gpu/kernels/mm.h"
#include "backend/gpu/kernels/ring.h"

#if defined(RF_HOPPER)
enum {
    HR_BRING = 128, /* threads, the last ones of a block */
    HR_ROW_BYTES = 2 * RF_HALF_PANEL,
    HR_MOST_COPIES = RF_HALF_WIDE_ROWS / 16, /* of each of them for a panel */
};

typedef struct hr_shared {
    uint64_t full[RF_HALF_RING_MOST], empty[RF_HALF_RING_MOST];
} hr_shared;

/* What a block goes through; rows (of weights, of a tile), panels and form are constants. */
typedef struct hr_work {
    const rf_gpu_matmul_args *a;
    uint32_t rows, n_x, panels, n_stages, form;
    uint32_t n_stretches, n_steps, end; /* end: of the numbers of tiles by stretches */
    hr_shared *sh;
    uint8_t *stages;
} hr_work;

/* n_multiply: threads that do. */
RF_DEVICE hr_work hr_work_of(const rf_gpu_matmul_args *a, uint32_t rows, uint32_t n_x,
                             uint32_t panels, uint32_t n_stages, uint32_t form,
                             uint32_t n_multiply) {
    hr_work k = {a, rows, n_x, panels, n_stages, form, rf_div_up(a->n_rows, n_x), 0, 0, 0, 0};
    k.n_steps = rf_div_up(a->part[0].w.cols, panels * RF_HALF_PANEL);
    k.end = tiles_in(a, a->is_glu ? rows / 2 : rows) * k.n_stretches;
    k.sh = (hr_shared *)(void *)hopper_shared;
    k.stages = hopper_shared + RF_WIDE_HEAD;
    if (rf_tid() < n_stages) {
        ring_init(&k.sh->full[rf_tid()], HR_BRING + 1);
        ring_init_warps(&k.sh->empty[rf_tid()], n_multiply / 32);
    }
    hopper_publish(); /* to copies that run by themselves */
    rf_sync();
    return k;
}

RF_DEVICE uint8_t *hr_stage(const hr_work *k, uint32_t number) {
    return k->stages + number * HR_ROW_BYTES * k->panels * (k->rows + k->n_x);
}

RF_DEVICE mm_share hr_share(const hr_work *k, uint32_t i) {
    return share_at(k->a, k->a->is_glu ? k->rows / 2 : k->rows, k->n_x, i / k->n_stretches,
                    i % k->n_stretches);
}

/* Where one is: number i, step g of it; in which stage, for the how manieth time. */
typedef struct hr_place {
    uint32_t i, g, now, parity;
} hr_place;

RF_DEVICE void hr_turn(hr_place *p, const hr_work *k) {
    if (++p->now == k->n_stages) {
        p->now = 0;
        p->parity ^= 1;
    }
    if (++p->g < k->n_steps) return;
    p->g = 0;
    p->i += hopper_grid_x();
}

/* Eight threads bring 64 columns of a weight row, zeros behind the last one; where a thread's rows begin, in
 * sixteens of bytes. */
typedef struct hr_rows {
    const uint8_t *lo;
    uint32_t at[HR_MOST_COPIES];
} hr_rows;

RF_DEVICE uint32_t hr_tid(void) { return rf_tid() % HR_BRING; }

RF_DEVICE hr_rows hr_rows_of(const hr_work *k, uint32_t i) {
    const mm_share s = hr_share(k, i);
    const uint32_t own = hr_tid() / 8, piece = hr_tid() % 8;
    const rf_gpu_weight *w = k->a->is_glu && own >= 8 ? &k->a->part[1].w : &s.p.w;
    hr_rows r = {(const uint8_t *)w->lo, {0}};
    RF_UNROLL
    for (uint32_t j = 0; j < k->rows / 16; j++) {
        const uint32_t row = k->a->is_glu ? s.tile * (k->rows / 2) + 8 * j + own % 8
                                          : s.tile * k->rows + 16 * j + own;
        r.at[j] = (uint32_t)((uint64_t)rf_min_u32(row, w->rows - 1) * (w->cols / 8) + piece);
    }
    return r;
}

RF_DEVICE void hr_bring_w(const hr_work *k, const hr_place *p, const hr_rows *rows) {
    const uint32_t own = hr_tid() / 8, piece = hr_tid() % 8, cols = k->a->part[0].w.cols;
    const half_at to = half_at_of(hr_stage(k, p->now)) + half_piece(own, piece, RF_HALF_PANEL);
    RF_UNROLL
    for (uint32_t i = 0; i < k->panels; i++) {
        const uint32_t panel = p->g * k->panels + i;
        const int is_inside = panel * RF_HALF_PANEL + 8 * piece < cols;
        RF_UNROLL
        for (uint32_t j = 0; j < k->rows / 16; j++)
            half_copy(to + (i * k->rows + 16 * j) * HR_ROW_BYTES,
                      rows->lo + ((uint64_t)rows->at[j] * 16 + panel * HR_ROW_BYTES), is_inside);
    }
    ring_arrive_after_copies(&k->sh->full[p->now]);
}

/* Activations lie as they are wanted (half_rows), so that one copy brings them. */
RF_DEVICE void hr_bring_x(const hr_work *k, const hr_place *p) {
    const uint32_t in_stretch = k->a->halves.stride / RF_HALF_PANEL, panel = k->n_x * HR_ROW_BYTES;
    const uint64_t first = (uint64_t)(p->i % k->n_stretches) * in_stretch + p->g * k->panels;
    uint64_t *full = &k->sh->full[p->now];
    if (hr_tid() != 0) return;
    hopper_arrive_with(full, k->panels * panel);
    hopper_bring(hr_stage(k, p->now) + k->panels * k->rows * HR_ROW_BYTES,
                 (const uint8_t *)k->a->halves.x + first * panel, k->panels * panel, full);
}

/* Everything, by the threads that bring. */
RF_DEVICE void hr_bring(const hr_work *k) {
    hr_place w = {rf_bid_x(), 0, 0, 1}, x = w;
    hr_rows rows = {0, {0}};
    uint32_t n = 0; /* stages without their activations yet */
    RF_NO_UNROLL
    for (; n < k->n_stages && w.i < k->end; n++) {
        if (w.g == 0) rows = hr_rows_of(k, w.i);
        hr_bring_w(k, &w, &rows);
        hr_turn(&w, k);
    }
    rf_await_before();
    RF_NO_UNROLL
    for (; n > 0; n--) {
        hr_bring_x(k, &x);
        hr_turn(&x, k);
    }
    RF_NO_UNROLL
    for (; w.i < k->end; hr_turn(&w, k)) {
        if (w.g == 0) rows = hr_rows_of(k, w.i);
        ring_await(&k->sh->empty[w.now], w.parity);
        hr_bring_x(k, &w);
        hr_bring_w(k, &w, &rows);
    }
    rf_copy_wait();
}
#endif
