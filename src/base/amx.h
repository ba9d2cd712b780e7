/* amx.h - the shape of AMX's tile registers; only for files compiled with -mamx-tile.
 *
 * Spec: Intel 64 and IA-32 Architectures Software Developer's Manual, LDTILECFG, palette 1. */
#pragma once
#include <immintrin.h>

#include "base/base.h"

/* Register i gets rows[i] rows (at most 16) of row_bytes[i] bytes (at most 64). */
static inline void rf_amx_configure(const uint8_t rows[8], const uint8_t row_bytes[8]) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.rows[i] = rows[i];
        config.row_bytes[i] = row_bytes[i];
    }
    __asm__ volatile("" : : "r"(&config) : "memory"); /* gcc 12 believes only 8 bytes are read */
    _tile_loadconfig(&config);
}
