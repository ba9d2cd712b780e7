/* probe_amx.c - the integer products of probe.h with AMX: tiles of 16 x 16 sums over 64 columns. */
#include "base/amx.h"
#include "base/probe.h"

uint64_t rf_probe_int8_amx(uint32_t steps) {
    static const uint8_t rows[8] = {16, 16, 16, 16, 16, 16}, bytes[8] = {64, 64, 64, 64, 64, 64};
    rf_amx_configure(rows, bytes);
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
