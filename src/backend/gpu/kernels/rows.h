/* rows.h - what the attention kernels of many rows share (attend_rows.hip, attend_tile.hip): which rows a
 * block takes and which keys they see, eight columns of sixteen bits as floats. */
#pragma once
#include "backend/gpu/kernels/span.h"

/* Which of n stretches of items: long walks first; where all blocks run at once, the first half of them
 * is followed by the shortest ones, so that a multiprocessor gets as much as another. */
RF_DEVICE uint32_t rf_rows_stretch(const rf_gpu_attend_args *a, uint32_t n) {
    const uint32_t y = rf_bid_y(), half = rf_div_up(n, 2);
    return a->is_paired && y >= half ? y - half : n - 1 - y;
}

/* The blocks of a sequence from first to end, where rows of a block of threads see keys. */
typedef struct rf_rows_walk {
    const uint32_t *table;
    uint32_t seq, first, end;
    uint32_t lo, hi; /* positions that all items see */
} rf_rows_walk;

/* The walk of rows *r .. last that are of one sequence; *r is the next sequence's then.  begin: the
 * first row of the block. */
RF_DEVICE rf_rows_walk rf_rows_walk_of(const rf_gpu_attend_args *a, uint32_t begin, uint32_t last,
                                       uint32_t *r) {
    const uint32_t from = *r;
    rf_rows_walk w = {0, a->batch.row_seq[from], ~0u, 0, 0, ~0u};
    for (; *r <= last && a->batch.row_seq[*r] == w.seq; ++*r) {
        const rf_span span = rf_span_of(a, *r);
        w.first = rf_min_u32(w.first, rf_span_first(&span));
        w.end = rf_div_up(span.end, 32) > w.end ? rf_div_up(span.end, 32) : w.end;
        w.lo = span.begin > w.lo ? span.begin : w.lo;
        w.hi = rf_min_u32(w.hi, span.mask ? 0 : span.end);
    }
    if (from != begin || *r <= last) w.hi = 0; /* items of other sequences */
    w.table = a->batch.table + (uint64_t)w.seq * a->batch.table_stride;
    return w;
}

/* Eight columns of a key or value. */
RF_DEVICE rf_u4 rf_rows_load(const rf_u4 *p) {
#if defined(RF_NVIDIA)
    rf_u4 out;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out.v[0]), "=r"(out.v[1]), "=r"(out.v[2]), "=r"(out.v[3])
                 : "l"(p)
                 : "memory");
#else /* word by word: a copy of the whole would not stay in registers */
    const rf_u4 out = {{p->v[0], p->v[1], p->v[2], p->v[3]}};
#endif
    return out;
}
/* NVIDIA's assembler would put loads off until their values are used; it does not take them past what
 * lets the warp meet. */
RF_DEVICE void rf_rows_loaded(void) {
#if defined(RF_NVIDIA)
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
#endif
}
RF_DEVICE void rf_rows_floats(rf_f4 out[2], const rf_u4 *w, uint32_t type) {
    RF_UNROLL
    for (int i = 0; i < 8; i++)
        out[i / 4].v[i % 4] = rf_f16_at((uint16_t)(w->v[i / 2] >> 16 * (i % 2)));
    if (type == RF_DT_F16) return;
    RF_UNROLL
    for (int i = 0; i < 8; i++)
        out[i / 4].v[i % 4] = rf_float_of(w->v[i / 2] << 16 * (1 - i % 2) & 0xffff0000u);
}
