/* element.h - one element of a weight in the layout of pack.h as its format decodes it, for kernels that
 * read few of them; products take whole chunks apart. */
#pragma once
#include "backend/gpu/kernels/port.h"

/* Element k of a chunk of 32, in the `bits` (1, 2 or 4) that a part has of it: pack.h says where. */
RF_DEVICE uint32_t rf_element_bits(const uint8_t *part, uint32_t bits, uint32_t k) {
    const uint32_t j = k / 4, b = k % 4;
    if (bits == 4) return part[4 * (j % 4) + b] >> (j < 4 ? 0 : 4) & 15;
    if (bits == 2) return part[4 * (j / 4) + b] >> 2 * (j % 4) & 3;
    return part[b] >> j & 1;
}

RF_DEVICE int32_t rf_element_int(const rf_gpu_weight *w, uint64_t chunk, uint32_t row, uint32_t k) {
    const uint8_t *lo = (const uint8_t *)w->lo + chunk * 32 * 4 * w->lo_bits;
    if (w->lo_bits == 8) return (int8_t)lo[k / 16 * 32 * 16 + row * 16 + k % 16];
    uint32_t u = rf_element_bits(lo + row * 4 * w->lo_bits, w->lo_bits, k);
    if (w->hi_bits) {
        const uint8_t *hi = (const uint8_t *)w->hi + (chunk * 32 + row) * 4 * w->hi_bits;
        u |= rf_element_bits(hi, w->hi_bits, k) << w->lo_bits;
    }
    return (int32_t)u - w->off;
}

RF_DEVICE float rf_element_scale(const rf_gpu_weight *w, const void *part, uint64_t i) {
    return w->d_f32 ? ((const float *)part)[i] : rf_f16_at(((const uint16_t *)part)[i]);
}

/* Column k of a row of the first plane. */
RF_DEVICE float rf_element_of(const rf_gpu_weight *w, uint32_t row, uint32_t k) {
    const uint64_t i = (uint64_t)row * w->cols + k;
    if (w->form == RF_GPU_F32) return ((const float *)w->lo)[i];
    if (w->form == RF_GPU_F16) return rf_f16_at(((const uint16_t *)w->lo)[i]);
    if (w->form == RF_GPU_BF16) return rf_float_of((uint32_t)((const uint16_t *)w->lo)[i] << 16);
    const uint32_t group = w->form == RF_GPU_INT_256 ? 256 : 32, in_tile = row % 32;
    const uint64_t g = (uint64_t)(row / 32) * (w->cols / group) + k / group, at = g * 32 + in_tile;
    const float q = (float)rf_element_int(w, g * (group / 32) + k % group / 32, in_tile, k % 32);
    float d = rf_element_scale(w, w->d, at), m = w->m ? rf_element_scale(w, w->m, at) : 0.0f;
    if (group == 256) {
        const uint64_t s = at * w->n_scales + k % 256 * w->n_scales / 256;
        d = d * (float)w->scale[s];
        if (w->m) m = m * (float)w->min[s];
    }
    return w->m ? d * q + m : d * q;
}
