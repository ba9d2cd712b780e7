/* float.c - the plain floating-point formats: F32, F16, BF16, F64.
 *
 * No blocks and no integer view.  NaNs stay NaNs: those of F16 become quiet ones, F32 and BF16 keep
 * every bit; F64 is rounded to nearest even. */
#include "quant/codec.h"

void rf_decode_f32(const void *src, float *dst, size_t n) {
    if (n > 0) memcpy((void *)dst, src, n * sizeof *dst); /* an empty tensor may have no address */
}

/* Through local arrays, which cannot overlap each other: that lets the loop become vector code. */
RF_INLINE void f16_run(const uint8_t *src, uint8_t *dst, size_t n) {
    uint16_t h[16];
    float w[16];
    memcpy(h, src, n * sizeof *h);
    for (size_t i = 0; i < n; i++)
        w[i] = rf_half(h[i]);
    memcpy(dst, w, n * sizeof *w);
}

void rf_decode_f16(const void *src, float *dst, size_t n) {
    const uint8_t *s = (const uint8_t *)src;
    uint8_t *d = (uint8_t *)(void *)dst;
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        f16_run(s + 2 * i, d + 4 * i, 16);
    if (i < n) f16_run(s + 2 * i, d + 4 * i, n - i);
}

void rf_decode_bf16(const void *src, float *dst, size_t n) {
    const uint8_t *s = (const uint8_t *)src;
    uint8_t *d = (uint8_t *)(void *)dst;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)rf_load_u16(s + 2 * i) << 16;
        memcpy(d + 4 * i, &bits, sizeof bits); /* never as a float: that could touch a NaN */
    }
}

void rf_decode_f64(const void *src, float *dst, size_t n) {
    const uint8_t *s = (const uint8_t *)src;
    for (size_t i = 0; i < n; i++) {
        double v;
        memcpy(&v, s + 8 * i, sizeof v);
        rf_store_f32(dst, i, (float)v);
    }
}
