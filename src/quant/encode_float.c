/* encode_float.c - F32, F16 and BF16: rounding to nearest even, element by element.
 *
 * Finite values beyond the range of F16 become its largest value and not infinity, which would
 * poison every product; infinities and NaN stay what they are.  Importance has no say here. */
#include "base/fmath.h"
#include "quant/encode.h"

void rf_encode_f32(const float *src, void *dst, size_t n, const float *importance) {
    (void)importance;
    memcpy(dst, src, n * sizeof *src);
}

void rf_encode_f16(const float *src, void *dst, size_t n, const float *importance) {
    (void)importance;
    for (size_t i = 0; i < n; i++) {
        uint16_t h = rf_f32_to_f16(src[i]);
        bool is_finite = src[i] - src[i] == 0;
        if (is_finite && (h & 0x7fff) == 0x7c00) h--;
        rf_store_u16((uint8_t *)dst + 2 * i, h);
    }
}

void rf_encode_bf16(const float *src, void *dst, size_t n, const float *importance) {
    (void)importance;
    for (size_t i = 0; i < n; i++) {
        uint16_t h = rf_f32_to_bf16(src[i]);
        bool is_finite = src[i] - src[i] == 0;
        if (is_finite && (h & 0x7fff) == 0x7f80) h--;
        rf_store_u16((uint8_t *)dst + 2 * i, h);
    }
}
