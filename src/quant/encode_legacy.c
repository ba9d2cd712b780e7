/* encode_legacy.c - Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0: one f16 scale (and minimum) per 32 values. */
#include "base/fmath.h"
#include "quant/encode.h"

/* Codes 0..31 of 32 elements into nibbles (byte j: j low, j + 16 high) and fifth bits. */
static void pack(const int *code, uint8_t qs[16], uint8_t *qh) {
    uint32_t high = 0;
    for (int j = 0; j < 16; j++)
        qs[j] = (uint8_t)((code[j] & 15) | (code[j + 16] & 15) << 4);
    if (!qh) return;
    for (int i = 0; i < 32; i++)
        high |= (uint32_t)(code[i] >> 4) << i;
    memcpy(qh, &high, sizeof high);
}

/* Codes for a scale and a minimum, as the search saw them. */
static void choose(const rf_enc_block *b, float d, float m, const rf_levels *lv, int *code) {
    float inverse = d != 0 ? 1.0f / d : 0;
    if (inverse - inverse != 0) inverse = 0;
    for (int i = 0; i < 32; i++)
        code[i] = rf_enc_code((b->x[i] - m) * inverse, lv) - (int)lv->lo;
}

/* One block with levels lo..hi around zero; returns the f16 scale. */
static uint16_t encode_signed(const float *src, const float *importance, float lo, float hi,
                              int *code) {
    rf_enc_block b;
    rf_levels lv = {lo, hi, false};
    if (!rf_enc_load(&b, src, importance, 32)) {
        for (int i = 0; i < 32; i++)
            code[i] = -(int)lo;
        return 0;
    }
    uint16_t h = rf_enc_scale(&b, &lv);
    choose(&b, rf_enc_of_half(&b, h), 0, &lv, code);
    return h;
}

static void encode_shifted(const float *src, const float *importance, float hi, uint8_t *d,
                           uint8_t *m, int *code) {
    rf_enc_block b;
    uint16_t hd = 0, hm = 0;
    memset(code, 0, 32 * sizeof *code);
    if (rf_enc_load(&b, src, importance, 32)) {
        rf_enc_affine(&b, hi, &hd, &hm);
        choose(&b, rf_enc_of_half(&b, hd), rf_enc_of_half(&b, hm), &(rf_levels){0, hi, false},
               code);
    }
    rf_store_u16(d, hd);
    rf_store_u16(m, hm);
}

static const float *part(const float *importance, size_t at) {
    return importance ? importance + at : NULL;
}

void rf_encode_q4_0(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_q4_0 *b = (rf_block_q4_0 *)dst;
    for (size_t g = 0; g < n / 32; g++) {
        int code[32];
        rf_store_u16(b[g].d, encode_signed(src + 32 * g, part(importance, 32 * g), -8, 7, code));
        pack(code, b[g].qs, NULL);
    }
}

void rf_encode_q5_0(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_q5_0 *b = (rf_block_q5_0 *)dst;
    for (size_t g = 0; g < n / 32; g++) {
        int code[32];
        rf_store_u16(b[g].d, encode_signed(src + 32 * g, part(importance, 32 * g), -16, 15, code));
        pack(code, b[g].qs, b[g].qh);
    }
}

void rf_encode_q4_1(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_q4_1 *b = (rf_block_q4_1 *)dst;
    for (size_t g = 0; g < n / 32; g++) {
        int code[32];
        encode_shifted(src + 32 * g, part(importance, 32 * g), 15, b[g].d, b[g].m, code);
        pack(code, b[g].qs, NULL);
    }
}

void rf_encode_q5_1(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_q5_1 *b = (rf_block_q5_1 *)dst;
    for (size_t g = 0; g < n / 32; g++) {
        int code[32];
        encode_shifted(src + 32 * g, part(importance, 32 * g), 31, b[g].d, b[g].m, code);
        pack(code, b[g].qs, b[g].qh);
    }
}

/* Eight bits leave little to search for: the largest value takes code 127 of the rounded scale.
 * Where f16 itself is coarse (subnormal scales), the next larger scale is tried as well. */
static float q8_error(const rf_enc_block *b, uint16_t h, int8_t *q) {
    rf_levels lv = {-127, 127, false};
    float d = rf_enc_of_half(b, h), inverse = h & 0x7fff ? 1.0f / d : 0, err = 0;
    for (int i = 0; i < 32; i++) {
        q[i] = (int8_t)rf_enc_code(b->x[i] * inverse, &lv);
        float r = b->x[i] - d * (float)q[i];
        err += b->w[i] * r * r;
    }
    return err;
}

/* The usual block, without the detour by way of rf_enc_block: finite values, a scale that is a normal
 * f16.  The same bytes, because that detour only multiplies by powers of two. */
static bool encode_q8_plain(const float *src, rf_block_q8_0 *out) {
    float x[32], top;
    int32_t bits[32], highest = 0;
    memcpy(x, src, sizeof x);
    memcpy(bits, src, sizeof bits);
    for (int i = 0; i < 32; i++) {
        int32_t magnitude = bits[i] & 0x7fffffff;
        highest = magnitude > highest ? magnitude : highest;
    }
    memcpy(&top, &highest, sizeof top);
    if (highest >= 0x7f800000) return false;
    uint16_t h = rf_f32_to_f16(top / 127);
    if (h < 0x400 || h >= 0x7c00) return false;
    float inverse = 1.0f / rf_half(h);
    int8_t q[32];
    for (int i = 0; i < 32; i++)
        q[i] = (int8_t)(int)((x[i] * inverse + 12582912.0f) - 12582912.0f); /* to nearest even */
    memcpy(out->qs, q, sizeof q);
    rf_store_u16(out->d, h);
    return true;
}

void rf_encode_q8_0(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_q8_0 *out = (rf_block_q8_0 *)dst;
    for (size_t g = 0; g < n / 32; g++) {
        rf_enc_block b;
        if (encode_q8_plain(src + 32 * g, &out[g])) continue;
        uint16_t h = 0;
        memset(out[g].qs, 0, sizeof out[g].qs);
        if (rf_enc_load(&b, src + 32 * g, part(importance, 32 * g), 32)) {
            float top = 0;
            for (int i = 0; i < 32; i++) {
                float v = b.x[i] < 0 ? -b.x[i] : b.x[i];
                top = v > top ? v : top;
            }
            int8_t other[32];
            h = rf_enc_half(&b, top / 127);
            float err = q8_error(&b, h, out[g].qs);
            if (h < 0x400 && q8_error(&b, (uint16_t)(h + 1), other) < err) {
                memcpy(out[g].qs, other, sizeof other);
                h++;
            }
        }
        rf_store_u16(out[g].d, h);
    }
}
