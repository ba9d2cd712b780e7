/* probe_amx.c - the integer products of probe.h with AMX: tiles of 16 x 16 sums over 64 columns. */
#include <immintrin.h>

#include "base/probe.h"

uint64_t rf_probe_int8_amx(uint32_t steps) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.rows[i] = 16;
        config.row_bytes[i] = 64;
    }
    __asm__ volatile(""
                     :
                     : "r"(&config)
                     : "memory"); /* gcc 12 believes that only 8 bytes are read */
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    for (uint32_t k = 0; k < steps; k++) {
        _tile_dpbssd(0, 4, 5);
        _tile_dpbssd(1, 4, 5);
        _tile_dpbssd(2, 4, 5);
        _tile_dpbssd(3, 4, 5);
    }
    _tile_release();
    return (uint64_t)steps * 4 * 16 * 16 * 64 * 2;
}
