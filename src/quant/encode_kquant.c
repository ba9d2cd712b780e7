/* encode_kquant.c - Q2_K to Q6_K: the two-level searches and the packing of their results. */
#include "quant/encode.h"

/* Zero for every element, whatever the format's codes mean. */
static void clear_super(rf_enc_super *s) { memset(s, 0, sizeof *s); }

static void search_affine(const float *src, const float *importance, int n_subs, int largest,
                          float hi, rf_enc_super *s) {
    rf_enc_block b;
    if (rf_enc_load(&b, src, importance, 256)) {
        rf_enc_super_affine(&b, n_subs, largest, hi, s);
    } else {
        clear_super(s);
    }
}

static void search_scale(const float *src, const float *importance, int smallest, int largest,
                         float lo, float hi, rf_enc_super *s) {
    rf_enc_block b;
    if (rf_enc_load(&b, src, importance, 256)) {
        rf_enc_super_scale(&b, 16, smallest, largest, &(rf_levels){lo, hi, false}, s);
    } else {
        clear_super(s);
    }
}

static const float *part(const float *importance, size_t at) {
    return importance ? importance + at : NULL;
}

/* Bits 2s, 2s+1 of byte [h][l] are element 128h + 32s + l. */
static void pack_two_bits(const int *q, uint8_t *qs) {
    for (int h = 0; h < 2; h++)
        for (int l = 0; l < 32; l++) {
            const int *p = q + 128 * h + l;
            qs[32 * h + l] = (uint8_t)(p[0] | p[32] << 2 | p[64] << 4 | p[96] << 6);
        }
}

void rf_encode_q2_k(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_q2_k *b = (rf_block_q2_k *)dst;
    for (size_t g = 0; g < n / 256; g++) {
        rf_enc_super s;
        int q[256];
        search_affine(src + 256 * g, part(importance, 256 * g), 16, 15, 3, &s);
        for (int k = 0; k < 16; k++)
            b[g].scales[k] = (uint8_t)(s.scale[k] | s.min[k] << 4);
        for (int i = 0; i < 256; i++)
            q[i] = s.code[i];
        pack_two_bits(q, b[g].qs);
        rf_store_u16(b[g].d, s.d);
        rf_store_u16(b[g].dmin, s.dmin);
    }
}

/* Scale k: low 4 bits in nibble k/8 of byte k%8, high 2 bits in bits 2*(k/4) of byte 8 + k%4. */
void rf_encode_q3_k(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_q3_k *b = (rf_block_q3_k *)dst;
    for (size_t g = 0; g < n / 256; g++) {
        rf_enc_super s;
        int low[256];
        search_scale(src + 256 * g, part(importance, 256 * g), -32, 31, -4, 3, &s);
        memset(b[g].scales, 0, sizeof b[g].scales);
        memset(b[g].hmask, 0, sizeof b[g].hmask);
        for (int k = 0; k < 16; k++) {
            int scale = s.scale[k] + 32;
            b[g].scales[k % 8] |= (uint8_t)((scale & 15) << 4 * (k / 8));
            b[g].scales[8 + k % 4] |= (uint8_t)(scale >> 4 << 2 * (k / 4));
        }
        for (int i = 0; i < 256; i++) {
            low[i] = (s.code[i] + 4) & 3;
            b[g].hmask[i % 32] |= (uint8_t)((s.code[i] + 4) >> 2 << i / 32);
        }
        pack_two_bits(low, b[g].qs);
        rf_store_u16(b[g].d, s.d);
    }
}

/* Eight pairs of 6 bits; the pairs 4..7 are split over nibbles and the spare bits of the first. */
static void pack_pairs(const rf_enc_super *s, uint8_t p[12]) {
    for (int j = 0; j < 4; j++) {
        p[j] = (uint8_t)(s->scale[j] | s->scale[j + 4] >> 4 << 6);
        p[j + 4] = (uint8_t)(s->min[j] | s->min[j + 4] >> 4 << 6);
        p[j + 8] = (uint8_t)((s->scale[j + 4] & 15) | (s->min[j + 4] & 15) << 4);
    }
}

/* Byte [k][l]: element 64k + l low, 64k + 32 + l high. */
static void pack_nibbles(const rf_enc_super *s, uint8_t *qs) {
    for (int k = 0; k < 4; k++)
        for (int l = 0; l < 32; l++) {
            const int16_t *p = s->code + 64 * k + l;
            qs[32 * k + l] = (uint8_t)((p[0] & 15) | (p[32] & 15) << 4);
        }
}

void rf_encode_q4_k(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_q4_k *b = (rf_block_q4_k *)dst;
    for (size_t g = 0; g < n / 256; g++) {
        rf_enc_super s;
        search_affine(src + 256 * g, part(importance, 256 * g), 8, 63, 15, &s);
        pack_pairs(&s, b[g].scales);
        pack_nibbles(&s, b[g].qs);
        rf_store_u16(b[g].d, s.d);
        rf_store_u16(b[g].dmin, s.dmin);
    }
}

void rf_encode_q5_k(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_q5_k *b = (rf_block_q5_k *)dst;
    for (size_t g = 0; g < n / 256; g++) {
        rf_enc_super s;
        search_affine(src + 256 * g, part(importance, 256 * g), 8, 63, 31, &s);
        pack_pairs(&s, b[g].scales);
        pack_nibbles(&s, b[g].qs);
        memset(b[g].qh, 0, sizeof b[g].qh);
        for (int i = 0; i < 256; i++)
            b[g].qh[i % 32] |= (uint8_t)(s.code[i] >> 4 << i / 32);
        rf_store_u16(b[g].d, s.d);
        rf_store_u16(b[g].dmin, s.dmin);
    }
}

void rf_encode_q6_k(const float *src, void *dst, size_t n, const float *importance) {
    rf_block_q6_k *b = (rf_block_q6_k *)dst;
    for (size_t g = 0; g < n / 256; g++) {
        rf_enc_super s;
        search_scale(src + 256 * g, part(importance, 256 * g), -128, 127, -32, 31, &s);
        memset(b[g].ql, 0, sizeof b[g].ql);
        memset(b[g].qh, 0, sizeof b[g].qh);
        for (int i = 0; i < 256; i++) {
            int h = i / 128, field = i / 32 % 4, l = i % 32, code = s.code[i] + 32;
            b[g].ql[64 * h + field % 2 * 32 + l] |= (uint8_t)((code & 15) << field / 2 * 4);
            b[g].qh[32 * h + l] |= (uint8_t)(code >> 4 << 2 * field);
        }
        for (int k = 0; k < 16; k++)
            b[g].scales[k] = (int8_t)s.scale[k];
        rf_store_u16(b[g].d, s.d);
    }
}
