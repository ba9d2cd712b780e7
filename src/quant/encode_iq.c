/* encode_iq.c - the IQ formats: what the searches found, packed into blocks.
 *
 * IQ4_NL and IQ4_XS have sixteen values, closer together around zero; IQ2 and IQ3 have code books.
 * IQ1 is read only. */
#include "quant/encode.h"
#include "quant/iq_tables.h"

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

/* ---- code books ---- */

#define LEVELS_2 \
    { 8, 25, 43 }
#define LEVELS_3_XXS \
    { 4, 12, 20, 28, 36, 44, 52, 62 }
#define LEVELS_3_S \
    { 1, 3, 5, 7, 9, 11, 13, 15 }

/* Four vectors of 8: 7 of their sign bits each, the eighth makes their number even; the scale. */
static void store_signs_and_step(uint8_t *p, const uint8_t signs[4], uint8_t step) {
    uint32_t v = (uint32_t)step << 28;
    for (int k = 0; k < 4; k++)
        v |= (uint32_t)(signs[k] & 127) << 7 * k;
    memcpy(p, &v, sizeof v);
}

static void pack_iq2_xxs(const rf_enc_grid_fit *fit, void *dst, size_t g) {
    rf_block_iq2_xxs *out = (rf_block_iq2_xxs *)dst + g;
    rf_store_u16(out->d, fit->d);
    for (int ib = 0; ib < 8; ib++) {
        for (int k = 0; k < 4; k++)
            out->qs[8 * ib + k] = (uint8_t)fit->index[4 * ib + k];
        store_signs_and_step(out->qs + 8 * ib + 4, fit->signs + 4 * ib, fit->step[ib]);
    }
}

static void pack_iq2_xs(const rf_enc_grid_fit *fit, void *dst, size_t g) {
    rf_block_iq2_xs *out = (rf_block_iq2_xs *)dst + g;
    rf_store_u16(out->d, fit->d);
    for (int k = 0; k < 32; k++) {
        uint16_t v = (uint16_t)(fit->index[k] | (fit->signs[k] & 127) << 9);
        rf_store_u16(out->qs + 2 * k, v);
    }
    for (int ib = 0; ib < 8; ib++)
        out->scales[ib] = (uint8_t)(fit->step[2 * ib] | fit->step[2 * ib + 1] << 4);
}

static void pack_iq2_s(const rf_enc_grid_fit *fit, void *dst, size_t g) {
    rf_block_iq2_s *out = (rf_block_iq2_s *)dst + g;
    rf_store_u16(out->d, fit->d);
    memcpy(out->signs, fit->signs, sizeof out->signs);
    for (int ib = 0; ib < 8; ib++) {
        out->scales[ib] = (uint8_t)(fit->step[2 * ib] | fit->step[2 * ib + 1] << 4);
        out->qh[ib] = 0;
        for (int k = 0; k < 4; k++) {
            int index = fit->index[4 * ib + k];
            out->qs[4 * ib + k] = (uint8_t)index;
            out->qh[ib] |= (uint8_t)(index >> 8 << 2 * k);
        }
    }
}

static void pack_iq3_xxs(const rf_enc_grid_fit *fit, void *dst, size_t g) {
    rf_block_iq3_xxs *out = (rf_block_iq3_xxs *)dst + g;
    rf_store_u16(out->d, fit->d);
    for (int k = 0; k < 64; k++)
        out->qs[k] = (uint8_t)fit->index[k];
    for (int ib = 0; ib < 8; ib++)
        store_signs_and_step(out->signs + 4 * ib, fit->signs + 4 * ib, fit->step[ib]);
}

static void pack_iq3_s(const rf_enc_grid_fit *fit, void *dst, size_t g) {
    rf_block_iq3_s *out = (rf_block_iq3_s *)dst + g;
    rf_store_u16(out->d, fit->d);
    memcpy(out->signs, fit->signs, sizeof out->signs);
    memset(out->qh, 0, sizeof out->qh);
    for (int k = 0; k < 64; k++) {
        out->qs[k] = (uint8_t)fit->index[k];
        out->qh[k / 8] |= (uint8_t)(fit->index[k] >> 8 << k % 8);
    }
    for (int k = 0; k < 4; k++)
        out->scales[k] = (uint8_t)(fit->step[2 * k] | fit->step[2 * k + 1] << 4);
}

#define GRID_ENCODER(name, ...)                                                             \
    void rf_encode_##name(const float *src, void *dst, size_t n, const float *importance) { \
        static const rf_enc_grid_format format = {__VA_ARGS__};                             \
        rf_enc_grid(&format, src, n, importance, pack_##name, dst);                         \
    }
GRID_ENCODER(iq2_xxs, .eight = rf_iq2xxs_grid, .n_points = 256, .n_subs = 8, .is_eight = true,
             .has_even_signs = true, .unit = 0.125f, .level = LEVELS_2)
GRID_ENCODER(iq2_xs, .eight = rf_iq2xs_grid, .n_points = 512, .n_subs = 16, .is_eight = true,
             .has_even_signs = true, .unit = 0.125f, .level = LEVELS_2)
GRID_ENCODER(iq2_s, .eight = rf_iq2s_grid, .n_points = 1024, .n_subs = 16, .is_eight = true,
             .unit = 0.125f, .level = LEVELS_2)
GRID_ENCODER(iq3_xxs, .four = rf_iq3xxs_grid, .n_points = 256, .n_subs = 8, .has_even_signs = true,
             .unit = 0.25f, .level = LEVELS_3_XXS)
GRID_ENCODER(iq3_s, .four = rf_iq3s_grid, .n_points = 512, .n_subs = 8, .unit = 1,
             .level = LEVELS_3_S)
