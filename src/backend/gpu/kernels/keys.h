/* keys.h - keys in sixteen bits that a warp of the attention kernels of few rows (attend_vec.hip,
 * attend_halves.hip) brings to shared memory: a KV block's in slots of 64 columns each. */
#pragma once
#include "backend/gpu/kernels/walk.h"

enum {
    RF_KEYS_STRETCH = 64, /* columns of keys in a slot */
    RF_KEYS_PITCH = 9, /* 16-byte pieces of a key there, odd, so that eight keys meet all banks */
    RF_KEYS_SLOT = 32 * RF_KEYS_PITCH /* pieces of a slot */
};

/* Pieces of a key of dim columns in its slot number stretch. */
RF_DEVICE uint32_t rf_keys_pieces(uint32_t dim, uint32_t stretch) {
    return rf_min_u32(dim - stretch * RF_KEYS_STRETCH, RF_KEYS_STRETCH) / 8;
}

/* A stretch of columns of the block's keys on its way. */
RF_DEVICE void rf_keys_fetch(rf_u4 *slot, const rf_gpu_attend_args *a, const rf_walk *w,
                             const rf_walk_block *p, uint32_t stretch, uint32_t dim) {
    const uint32_t col = w->lane % 8, per_row = dim / 8;
    const rf_u4 *from =
        (const rf_u4 *)a->k + rf_walk_row(w, a, p) * per_row + stretch * RF_KEYS_STRETCH / 8 + col;
    rf_u4 *to = slot + col;
    if (!p->bits || col >= rf_keys_pieces(dim, stretch)) return;
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t row = w->lane / 8 + 4 * i;
        rf_copy_16(to + row * RF_KEYS_PITCH, from + row * per_row);
    }
}

/* The row's own key, fresh, in its place, key number own of the block. */
RF_DEVICE void rf_keys_renew(rf_u4 *slot, const rf_u4 *fresh, const rf_walk *w, uint32_t own,
                             uint32_t stretch, uint32_t dim) {
    if (w->lane < rf_keys_pieces(dim, stretch))
        slot[own * RF_KEYS_PITCH + w->lane] = fresh[stretch * RF_KEYS_STRETCH / 8 + w->lane];
}
