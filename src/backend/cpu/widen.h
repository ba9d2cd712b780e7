/* widen.h - rows of the KV cache in floats as f32, for the vector instruction sets.
 *
 * Private to the CPU backend; a file includes it after the lanes of its instruction set, which bring
 * lanes_load_f16(p) and lanes_load_bf16(p) of 16 unaligned elements. */
#pragma once
#include <string.h>

#include "backend/cpu/attend.h"
#include "quant/bits.h"
#include "quant/blocks.h"

/* What is wanted next, two stretches of memory, asked for a few lines at a time and in the order in which they
 * lie, all along the work before, so that memory neither rests nor has more to bring than it can. */
typedef struct rf_look {
    const uint8_t *at, *end, *then, *then_end;
} rf_look;

LANES_INLINE void look_ahead(rf_look *l, int lines) {
    if (l->at >= l->end) {
        if (l->then >= l->then_end) return;
        l->at = l->then;
        l->end = l->then = l->then_end; /* behind which nothing comes */
    }
    for (int i = 0; i < lines; i++)
        __builtin_prefetch(l->at + 64 * i, 0, 2);
    l->at += 64 * lines;
}

/* Sixteen values, the first of an aligned half of a panel's row; f16 and bf16 must be there in full. */
LANES_INLINE lanes widened(const uint8_t *src, uint32_t i, rf_dtype type) {
    if (type == RF_DT_F16) return lanes_load_f16(src + 2 * (size_t)i);
    if (type == RF_DT_BF16) return lanes_load_bf16(src + 2 * (size_t)i);
    return lanes_load(src + 4 * (size_t)i);
}

/* A vector of a row of floats from element i on; type is constant. */
LANES_INLINE vec vec_widened(const uint8_t *src, size_t i, rf_dtype type) {
    if (type == RF_DT_F16) return vec_load_f16(src + 2 * i);
    if (type == RF_DT_BF16) return vec_load_bf16(src + 2 * i);
    return vec_load(src + 4 * i);
}

/* One row's n <= 32 columns, the last of them perhaps the cache's last. */
LANES_INLINE void widen_row(float *dst, const uint8_t *src, uint32_t n, rf_dtype type) {
    const size_t size = type == RF_DT_F32 ? 4 : 2;
    uint8_t end[64] = {0};
    for (uint32_t i = 0; i < n; i += 16) {
        bool is_short = n - i < 16;
        if (is_short) memcpy(end, src + i * size, (n - i) * size);
        lanes_store(dst + i, is_short ? widened(end, 0, type) : widened(src, i, type));
    }
}

/* type is constant */
LANES_INLINE void widen_rows(float *panel, const uint8_t *src, rf_look *ahead, size_t row,
                             uint32_t bits, uint32_t n, rf_dtype type) {
    for (uint32_t left = bits; left; left &= left - 1) {
        size_t j = (size_t)__builtin_ctz(left);
        look_ahead(ahead, type == RF_DT_F32 ? 2 : 1);
        if (n == RF_ATTEND_PANEL)
            widen_row(panel + j * RF_ATTEND_PANEL, src + j * row, RF_ATTEND_PANEL, type);
        else
            widen_row(panel + j * RF_ATTEND_PANEL, src + j * row, n, type);
    }
}

/* n columns, from the start of a block, of the keys or values whose bits are set: panel[j]; the rest of
 * its columns holds anything.  src needs no alignment. */
static void widen_panel(float *panel, const uint8_t *src, rf_look *ahead, size_t row, uint32_t bits,
                        uint32_t n, rf_dtype type) {
    if (type == RF_DT_F16)
        widen_rows(panel, src, ahead, row, bits, n, RF_DT_F16);
    else if (type == RF_DT_BF16)
        widen_rows(panel, src, ahead, row, bits, n, RF_DT_BF16);
    else
        widen_rows(panel, src, ahead, row, bits, n, RF_DT_F32);
}
