/* encode_iq.c - IQ4_NL and IQ4_XS: sixteen values, closer together around zero. */
#include "quant/encode.h"

static const rf_levels iq4 = {-127, 113, true};
enum { IQ4_NEAR_ZERO = 8 }; /* the code of value 1 */

void rf_encode_iq4_nl(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_iq4_nl *out = (rf_block_iq4_nl *)dst;
    for (size_t g = 0; g < n / 32; g++) {
        rf_enc_block b;
        uint16_t h = 0;
        memset(out[g].qs, IQ4_NEAR_ZERO * 0x11, sizeof out[g].qs);
        if (rf_enc_load(&b, src + 32 * g, importance ? importance + 32 * g : NULL, 32)) {
            h = rf_enc_scale(&b, &iq4);
            float inverse = h & 0x7fff ? 1.0f / rf_enc_of_half(&b, h) : 0;
            for (int j = 0; j < 16; j++) {
                int low = rf_enc_code(b.x[j] * inverse, &iq4);
                int high = rf_enc_code(b.x[j + 16] * inverse, &iq4);
                out[g].qs[j] = (uint8_t)(low | high << 4);
            }
        }
        rf_store_u16(out[g].d, h);
    }
}

void rf_encode_iq4_xs(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_iq4_xs *out = (rf_block_iq4_xs *)dst;
    for (size_t g = 0; g < n / 256; g++) {
        rf_enc_block b;
        rf_enc_super s = {0};
        if (rf_enc_load(&b, src + 256 * g, importance ? importance + 256 * g : NULL, 256)) {
            rf_enc_super_scale(&b, 8, -32, 31, &iq4, &s);
        }
        uint16_t high = 0;
        memset(out[g].scales_l, 0, sizeof out[g].scales_l);
        for (int k = 0; k < 8; k++) {
            unsigned scale = (unsigned)(s.scale[k] + 32);
            out[g].scales_l[k / 2] |= (uint8_t)((scale & 15) << 4 * (k % 2));
            high |= (uint16_t)(scale >> 4 << 2 * k);
            for (int j = 0; j < 16; j++) {
                const int16_t *code = s.code + 32 * k + j;
                out[g].qs[16 * k + j] = (uint8_t)(code[0] | code[16] << 4);
            }
        }
        rf_store_u16(out[g].scales_h, high);
        rf_store_u16(out[g].d, s.d);
    }
}
