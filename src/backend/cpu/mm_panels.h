/* mm_panels.h - writes panels (mm.h) from packed blocks; private to mm_pack_*.c.  Written over `vec` like
 * mm_quads.h. */
#pragma once
#include "backend/cpu/mm_minima.h"
#include "backend/cpu/mm_quads.h"

enum { COPY_BYTES = VEC_ROWS * RF_MM_STRETCH / 256 * sizeof(rf_block_q8_k) }; /* of a stretch */

/* The rows of vector v.  Fewer than a vector has are copied side by side, the last one again and
 * again. */
RF_INLINE rf_mm_lanes lanes_of(const rf_mm_pack *p, uint32_t v, size_t block, size_t n_blocks,
                               size_t bytes, uint8_t *copy) {
    const uint32_t row = v * VEC_ROWS, n = p->n_rows - row;
    const uint8_t *first = rf_mm_row(p->w, p->row + row) + block * bytes;
    if (n >= VEC_ROWS) return lanes_at(first, p->w->row_bytes);
    const size_t size = n_blocks * bytes;
    for (uint32_t l = 0; l < VEC_ROWS; l++)
        memcpy(copy + l * size, first + (l < n ? l : n - 1) * p->w->row_bytes, size);
    return lanes_at(copy, size);
}

/* All groups of a block. */
RF_INLINE void write_records_32(rf_mm_format f, const rf_mm_pack *pack, const rf_mm_lanes *p,
                                uint8_t *record) {
    const uint8_t add = pack->add; /* not read again behind each store */
    block_32 b;
    RF_UNROLL
    for (size_t g = 0; g < rf_mm_groups(f); g++)
        rf_mm_look_ahead(pack->ahead);
    gather_head_32(f, p, &b);
    gather_integers_32(f, p, &b);
    RF_UNROLL
    for (size_t g = 0; g < rf_mm_groups(f); g++, record += RF_MM_RECORD_32(VEC_ROWS)) {
        vec_store_floats(record, b.d);
        if (rf_mm_has_m(f)) vec_store_floats(record + RF_MM_AT_M(VEC_ROWS), b.m);
        RF_UNROLL
        for (int i = 0; i < 8; i++)
            vec_store(record + RF_MM_AT_Q_32(VEC_ROWS) + (size_t)i * VEC_ROWS * 4,
                      quad_32(f, add, &b, g, i));
    }
}

RF_INLINE void pack(rf_mm_format f, rf_mm_scales how, const rf_mm_pack *p) {
    const size_t bytes = rf_mm_block_bytes(f), in_block = rf_mm_groups(f);
    const size_t size = f >= RF_MM_Q4_K ? RF_MM_RECORD_256(VEC_ROWS) : RF_MM_RECORD_32(VEC_ROWS);
    const size_t n_blocks = p->n_groups / in_block; /* a stretch is one of whole blocks */
    uint8_t copy[COPY_BYTES], *record = p->panel;
    for (uint32_t v = 0; v < p->n_vecs; v++) {
        uint8_t *const first = record;
        rf_mm_lanes rows = lanes_of(p, v, p->group / in_block, n_blocks, bytes, copy);
        for (size_t b = 0; b < n_blocks; b++) {
            if (goes_by_rows(f))
                write_record_rows(f, how, p, &rows, record);
            else if (f >= RF_MM_Q4_K)
                write_record_256(f, how, p, &rows, record);
            else
                write_records_32(f, p, &rows, record);
            record += in_block * size;
            RF_UNROLL
            for (int i = 0; i < VEC_ROWS / 4; i++)
                rows.p[i] += bytes;
        }
        if (rf_mm_has_m(f)) round_all_minima(first + RF_MM_AT_M(VEC_ROWS), size, p->n_groups);
    }
}

RF_INLINE void pack_as_asked(rf_mm_format f, const rf_mm_pack *p) {
    const bool can_flip = VEC_ROWS == 16; /* only AVX-512's tiles do */
    if (p->scales == RF_MM_SCALES_IN && can_scale(f))
        pack(f, RF_MM_SCALES_IN, p);
    else if (p->scales == RF_MM_SCALES_FLIPPED && can_flip && f >= RF_MM_Q6_K && !can_scale(f))
        pack(f, RF_MM_SCALES_FLIPPED, p);
    else if (p->scales == RF_MM_SCALES_TWICE && f >= RF_MM_Q4_K)
        pack(f, RF_MM_SCALES_TWICE, p);
    else
        pack(f, RF_MM_SCALES_ONCE, p);
}

#define PACK(f)                      \
    case RF_MM_##f:                  \
        pack_as_asked(RF_MM_##f, p); \
        break;

static void pack_panel(const rf_mm_pack *p) {
    switch (rf_mm_format_of(p->w->type)) {
        PACK(Q4_0)
        PACK(Q4_1)
        PACK(Q5_0)
        PACK(Q5_1)
        PACK(Q8_0)
        PACK(IQ4_NL)
        PACK(MXFP4)
        PACK(MXFP6_E2M3)
        PACK(Q1_0)
        PACK(Q2_0)
        PACK(Q4_K)
        PACK(Q5_K)
        PACK(Q6_K)
        PACK(IQ4_XS)
        PACK(Q2_K)
        PACK(Q3_K)
        PACK(IQ2_XXS)
        PACK(IQ2_XS)
        PACK(IQ2_S)
        PACK(IQ3_XXS)
        PACK(IQ3_S)
        PACK(IQ1_S)
        PACK(IQ1_M)
        PACK(TQ1_0)
        PACK(TQ2_0)
        PACK(Q8_K)
    }
}
#undef PACK
