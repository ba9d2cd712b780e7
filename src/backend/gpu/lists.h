/* lists.h - where the lists of a route lie: the rows of each expert, cut into units that one block
 * multiplies with a tile of the expert's weights.
 *
 * There is a table of units for every width of 1 to 128 activation rows.  Unit number
 * first / width + used is the first one of an expert whose rows begin at number first of the items, behind
 * those of so many experts that have any.  Experts that have none have a unit without rows each at the
 * end, where its blocks find the others at work. */
#pragma once
#include "backend/gpu/tile.h"

enum { RF_LISTS_WIDTHS = 8 };

/* One expert's rows: items first .. first + n - 1. */
typedef struct rf_gpu_unit {
    uint32_t expert, first, n, unused;
} __attribute__((aligned(16))) rf_gpu_unit;

/* Units of so many items. */
RF_TILE_FN uint32_t rf_lists_units(uint32_t n_items, uint32_t n_experts, uint32_t width) {
    return n_items / width + n_experts;
}
/* Units before those of that width; of width 256: all of them, behind which the items are. */
RF_TILE_FN uint32_t rf_lists_at(uint32_t n_items, uint32_t n_experts, uint32_t width) {
    uint32_t n = 0;
    for (uint32_t w = 1; w < width; w *= 2)
        n += rf_lists_units(n_items, n_experts, w);
    return n;
}
