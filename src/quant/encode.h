/* encode.h - what the encoders share: a scaled copy of a block, and the searches for its scales.
 *
 * Private to src/quant.  An encoder minimises the sum of importance times squared error over the
 * values that decode() will give, f16 rounding of the scales included.  All sums run over eight
 * lanes in one fixed order and nothing but IEEE arithmetic is used, so the bytes are the same on
 * every machine.  Input that is not finite is defined: NaN counts as 0, infinities as the largest
 * finite number.  An importance that is negative or not finite counts as 0. */
#pragma once
#include "quant/bits.h"
#include "quant/blocks.h"
#include "quant/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_ENC_MAX = 256, RF_ENC_MAX_SUBS = 16 };

/* Up to 256 values times 2^-exp, so that the largest lies in [1, 2); weights are at most 1. */
typedef struct rf_enc_block {
    _Alignas(16) float x[RF_ENC_MAX]; /* [n] */
    _Alignas(16) float w[RF_ENC_MAX]; /* [n], > 0 */
    int n, exp;
    bool is_weighted; /* the weights differ */
} rf_enc_block;

/* The scales that searches start from: the largest value as this many times the lowest level.
 * With weights the largest value may not matter, so smaller spans are tried too. */
enum { RF_ENC_SPANS = 14, RF_ENC_SPANS_BELOW = 9, RF_ENC_SPANS_ABOVE = 4 };
RF_INLINE float rf_enc_span(int k) { return 0.66f + 0.035f * (float)k; }

/* False when the values are so small that every format with an f16 scale rounds them to zero. */
bool rf_enc_load(rf_enc_block *b, const float *src, const float *importance, int n);
/* The f16 code nearest to a scale of the block (saturating), and back. */
uint16_t rf_enc_half(const rf_enc_block *b, float d);
float rf_enc_of_half(const rf_enc_block *b, uint16_t h);

/* Codes that are integers lo..hi, or the 16 values of IQ4 (lo -127, hi 113). */
typedef struct rf_levels {
    float lo, hi;
    bool is_iq4;
} rf_levels;
int rf_enc_code(float v, const rf_levels *lv); /* nearest level; IQ4: index of the value */

/* One scale for the whole block: returns it as f16 code. */
uint16_t rf_enc_scale(const rf_enc_block *b, const rf_levels *lv);
/* Scale and minimum of the whole block, codes 0..hi. */
void rf_enc_affine(const rf_enc_block *b, float hi, uint16_t *d, uint16_t *m);

/* The two-level formats: sub-blocks with integer scales (and minimums) under f16 ones. */
typedef struct rf_enc_super {
    uint16_t d, dmin;
    int16_t scale[RF_ENC_MAX_SUBS], min[RF_ENC_MAX_SUBS];
    int16_t code[RF_ENC_MAX]; /* level or, for IQ4, its index */
} rf_enc_super;
/* Value = d * scale * level; scales smallest..largest. */
void rf_enc_super_scale(const rf_enc_block *b, int n_subs, int smallest, int largest,
                        const rf_levels *lv, rf_enc_super *out);
/* Value = d * scale * code - dmin * min; codes 0..hi, scales and minimums 0..largest. */
void rf_enc_super_affine(const rf_enc_block *b, int n_subs, int largest, float hi,
                         rf_enc_super *out);

/* The formats of code books: vectors of 4 or 8 values become points, signs apart.
 * Value = d * unit * (2 step + 1) * coordinate. */
typedef struct rf_enc_grid_format {
    const uint64_t *eight; /* [n_points] as iq_tables.h, ascending; or four */
    const uint32_t *four;
    int n_points, n_subs; /* sub-blocks with a step each */
    bool is_eight, has_even_signs;
    float unit;
    uint8_t level[8]; /* what coordinates may be, ascending: 8 of them in four, 3 in eight */
} rf_enc_grid_format;
typedef struct rf_enc_grid_fit {
    uint16_t d;
    uint8_t step[RF_ENC_MAX_SUBS];  /* [n_subs] 0..15 */
    uint8_t signs[RF_ENC_MAX / 8];  /* bit i: element 8j + i is negative */
    uint16_t index[RF_ENC_MAX / 4]; /* [256 / 4 or 8] */
} rf_enc_grid_fit;
/* Called for block g of dst with what was found. */
typedef void (*rf_enc_grid_sink)(const rf_enc_grid_fit *fit, void *dst, size_t g);
void rf_enc_grid(const rf_enc_grid_format *f, const float *src, size_t n, const float *importance,
                 rf_enc_grid_sink sink, void *dst);

/* The three searches above for one instruction set: the same bytes from each. */
typedef struct rf_enc_searches {
    void (*super_scale)(const rf_enc_block *b, int n_subs, int smallest, int largest,
                        const rf_levels *lv, rf_enc_super *out);
    void (*super_affine)(const rf_enc_block *b, int n_subs, int largest, float hi,
                         rf_enc_super *out);
    void (*grid)(const rf_enc_grid_format *f, const float *src, size_t n, const float *importance,
                 rf_enc_grid_sink sink, void *dst);
} rf_enc_searches;
extern const rf_enc_searches rf_enc_searches_base, rf_enc_searches_avx2;

RF_INLINE void rf_store_u16(uint8_t *p, uint16_t v) { memcpy(p, &v, sizeof v); }

#define RF_ENCODER(name) \
    void rf_encode_##name(const float *src, void *dst, size_t n, const float *importance);
/* encode_float.c */
RF_ENCODER(f32)
RF_ENCODER(f16)
RF_ENCODER(bf16)
/* encode_legacy.c */
RF_ENCODER(q4_0)
RF_ENCODER(q4_1)
RF_ENCODER(q5_0)
RF_ENCODER(q5_1)
RF_ENCODER(q8_0)
/* encode_kquant.c */
RF_ENCODER(q2_k)
RF_ENCODER(q3_k)
RF_ENCODER(q4_k)
RF_ENCODER(q5_k)
RF_ENCODER(q6_k)
/* encode_iq.c */
RF_ENCODER(iq2_xxs)
RF_ENCODER(iq2_xs)
RF_ENCODER(iq2_s)
RF_ENCODER(iq3_xxs)
RF_ENCODER(iq3_s)
RF_ENCODER(iq4_nl)
RF_ENCODER(iq4_xs)
/* encode_ternary.c */
RF_ENCODER(tq1_0)
RF_ENCODER(tq2_0)
/* encode_mx.c */
RF_ENCODER(mxfp4)
RF_ENCODER(mxfp6_e2m3)
RF_ENCODER(mxfp6_e3m2)
#undef RF_ENCODER

#ifdef __cplusplus
}
#endif
