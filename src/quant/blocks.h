/* blocks.h - the bytes of one block of every block format, as GGUF files store them.
 *
 * Only layout: no arithmetic and no functions, so that device code can include it as it is.  Every
 * field is an array of bytes, hence every struct has alignment 1 and no padding and may lie at any
 * address of a mapped file.  Multi-byte fields are little-endian; their type is in the comment
 * and codec.h loads them.  What the fields mean is in docs/formats.md. */
#pragma once
#include <assert.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "GGUF tensors are read in place: this program needs a little-endian machine"
#endif

/* ---- legacy: one scale (and minimum) per 32 values ---- */
typedef struct rf_block_q4_0 {
    uint8_t d[2];   /* f16 */
    uint8_t qs[16]; /* byte j: element j low, j + 16 high */
} rf_block_q4_0;

typedef struct rf_block_q4_1 {
    uint8_t d[2];   /* f16 */
    uint8_t m[2];   /* f16 */
    uint8_t qs[16]; /* as q4_0 */
} rf_block_q4_1;

typedef struct rf_block_q5_0 {
    uint8_t d[2];   /* f16 */
    uint8_t qh[4];  /* bit j: the fifth bit of element j */
    uint8_t qs[16]; /* as q4_0 */
} rf_block_q5_0;

typedef struct rf_block_q5_1 {
    uint8_t d[2];   /* f16 */
    uint8_t m[2];   /* f16 */
    uint8_t qh[4];  /* as q5_0 */
    uint8_t qs[16]; /* as q4_0 */
} rf_block_q5_1;

typedef struct rf_block_q8_0 {
    uint8_t d[2]; /* f16 */
    int8_t qs[32];
} rf_block_q8_0;

typedef struct rf_block_q8_1 {
    uint8_t d[2]; /* f16 */
    uint8_t s[2]; /* f16: d * sum of qs */
    int8_t qs[32];
} rf_block_q8_1;

typedef struct rf_block_q1_0 {
    uint8_t d[2];   /* f16 */
    uint8_t qs[16]; /* element 8j + i: bit i of byte j */
} rf_block_q1_0;

typedef struct rf_block_q2_0 {
    uint8_t d[2];   /* f16 */
    uint8_t qs[16]; /* element 4j + i: bits 2i, 2i+1 of byte j */
} rf_block_q2_0;

/* ---- K-quants: 256 values, integer scales per 16 or 32 ---- */
typedef struct rf_block_q2_k {
    uint8_t scales[16]; /* per 16 elements: scale low, minimum high */
    uint8_t qs[64];     /* [2][32]: bits 2s, 2s+1 of byte [h][l] are element 128h + 32s + l */
    uint8_t d[2];       /* f16 */
    uint8_t dmin[2];    /* f16 */
} rf_block_q2_k;

typedef struct rf_block_q3_k {
    uint8_t hmask[32];  /* bit g of byte l: third bit of element 32g + l */
    uint8_t qs[64];     /* as q2_k */
    uint8_t scales[12]; /* 16 scales of 6 bits */
    uint8_t d[2];       /* f16 */
} rf_block_q3_k;

typedef struct rf_block_q4_k {
    uint8_t d[2];       /* f16 */
    uint8_t dmin[2];    /* f16 */
    uint8_t scales[12]; /* 8 scales and 8 minimums of 6 bits, one per 32 elements */
    uint8_t qs[128];    /* [4][32]: byte [k][l]: element 64k + l low, 64k + 32 + l high */
} rf_block_q4_k;

typedef struct rf_block_q5_k {
    uint8_t d[2];       /* f16 */
    uint8_t dmin[2];    /* f16 */
    uint8_t scales[12]; /* as q4_k */
    uint8_t qh[32];     /* bit g of byte l: fifth bit of element 32g + l */
    uint8_t qs[128];    /* as q4_k */
} rf_block_q5_k;

typedef struct rf_block_q6_k {
    uint8_t ql[128];   /* [2][64]: byte [h][l]: element 128h + l low, 128h + 64 + l high */
    uint8_t qh[64];    /* [2][32]: bits 2s, 2s+1 of byte [h][l]: top bits of element 128h+32s+l */
    int8_t scales[16]; /* per 16 elements */
    uint8_t d[2];      /* f16 */
} rf_block_q6_k;

typedef struct rf_block_q8_k {
    uint8_t d[4]; /* f32 */
    int8_t qs[256];
    uint8_t bsums[32]; /* int16[16]: sums of 16 qs */
} rf_block_q8_k;

/* ---- IQ: 256 values by index into code books; idx and sign fields per 8 or 4 values ---- */
typedef struct rf_block_iq2_xxs {
    uint8_t d[2];   /* f16 */
    uint8_t qs[64]; /* [8][8]: 4 grid indices, then u32: 4 x 7 sign bits, 4 bits of scale */
} rf_block_iq2_xxs;

typedef struct rf_block_iq2_xs {
    uint8_t d[2];      /* f16 */
    uint8_t qs[64];    /* u16[32]: 9 bits of index, 7 sign bits */
    uint8_t scales[8]; /* a nibble per 16 elements */
} rf_block_iq2_xs;

typedef struct rf_block_iq2_s {
    uint8_t d[2];      /* f16 */
    uint8_t qs[32];    /* low 8 bits of the index */
    uint8_t signs[32]; /* bit i: sign of element 8j + i */
    uint8_t qh[8];     /* top 2 bits of four indices */
    uint8_t scales[8]; /* a nibble per 16 elements */
} rf_block_iq2_s;

typedef struct rf_block_iq3_xxs {
    uint8_t d[2];      /* f16 */
    uint8_t qs[64];    /* grid indices, 4 elements each */
    uint8_t signs[32]; /* u32[8]: 4 x 7 sign bits, 4 bits of scale */
} rf_block_iq3_xxs;

typedef struct rf_block_iq3_s {
    uint8_t d[2];      /* f16 */
    uint8_t qs[64];    /* low 8 bits of the index, 4 elements each */
    uint8_t qh[8];     /* ninth bit of eight indices */
    uint8_t signs[32]; /* as iq2_s */
    uint8_t scales[4]; /* a nibble per 32 elements */
} rf_block_iq3_s;

typedef struct rf_block_iq1_s {
    uint8_t d[2];   /* f16 */
    uint8_t qs[32]; /* low 8 bits of the index */
    uint8_t qh[16]; /* u16[8]: 4 x 3 index bits, 3 bits of scale, sign of delta */
} rf_block_iq1_s;

typedef struct rf_block_iq1_m {
    uint8_t qs[32];    /* low 8 bits of the index */
    uint8_t qh[16];    /* a nibble per index: 3 index bits, sign of delta */
    uint8_t scales[8]; /* u16[4]: 4 x 3 bits of scale; the four top nibbles are d as f16 */
} rf_block_iq1_m;

typedef struct rf_block_iq4_nl {
    uint8_t d[2];   /* f16 */
    uint8_t qs[16]; /* as q4_0, index into the value table */
} rf_block_iq4_nl;

typedef struct rf_block_iq4_xs {
    uint8_t d[2];        /* f16 */
    uint8_t scales_h[2]; /* u16: top 2 bits of eight scales */
    uint8_t scales_l[4]; /* low nibbles of eight scales, one per 32 elements */
    uint8_t qs[128];     /* [8][16]: as q4_0 */
} rf_block_iq4_xs;

/* ---- ternary ---- */
typedef struct rf_block_tq1_0 {
    uint8_t qs[48]; /* 5 trits per byte */
    uint8_t qh[4];  /* 4 trits per byte */
    uint8_t d[2];   /* f16 */
} rf_block_tq1_0;

typedef struct rf_block_tq2_0 {
    uint8_t qs[64]; /* as q2_k */
    uint8_t d[2];   /* f16 */
} rf_block_tq2_0;

/* ---- micro-scaling floats ---- */
typedef struct rf_block_mxfp4 {
    uint8_t e;      /* E8M0 */
    uint8_t qs[16]; /* as q4_0, E2M1 codes */
} rf_block_mxfp4;

typedef struct rf_block_nvfp4 {
    uint8_t d[4];   /* UE4M3 per 16 elements */
    uint8_t qs[32]; /* [4][8]: byte [k][l]: element 16k + l low, 16k + 8 + l high; E2M1 codes */
} rf_block_nvfp4;

typedef struct rf_block_mxfp6 {
    uint8_t e;      /* E8M0 */
    uint8_t qs[24]; /* element i: bits 6i .. 6i+5, counted from the lowest of byte 0 */
} rf_block_mxfp6;

static_assert(sizeof(rf_block_q4_0) == 18, "Q4_0");
static_assert(sizeof(rf_block_q4_1) == 20, "Q4_1");
static_assert(sizeof(rf_block_q5_0) == 22, "Q5_0");
static_assert(sizeof(rf_block_q5_1) == 24, "Q5_1");
static_assert(sizeof(rf_block_q8_0) == 34, "Q8_0");
static_assert(sizeof(rf_block_q8_1) == 36, "Q8_1");
static_assert(sizeof(rf_block_q1_0) == 18, "Q1_0");
static_assert(sizeof(rf_block_q2_0) == 18, "Q2_0");
static_assert(sizeof(rf_block_q2_k) == 84, "Q2_K");
static_assert(sizeof(rf_block_q3_k) == 110, "Q3_K");
static_assert(sizeof(rf_block_q4_k) == 144, "Q4_K");
static_assert(sizeof(rf_block_q5_k) == 176, "Q5_K");
static_assert(sizeof(rf_block_q6_k) == 210, "Q6_K");
static_assert(sizeof(rf_block_q8_k) == 292, "Q8_K");
static_assert(sizeof(rf_block_iq2_xxs) == 66, "IQ2_XXS");
static_assert(sizeof(rf_block_iq2_xs) == 74, "IQ2_XS");
static_assert(sizeof(rf_block_iq2_s) == 82, "IQ2_S");
static_assert(sizeof(rf_block_iq3_xxs) == 98, "IQ3_XXS");
static_assert(sizeof(rf_block_iq3_s) == 110, "IQ3_S");
static_assert(sizeof(rf_block_iq1_s) == 50, "IQ1_S");
static_assert(sizeof(rf_block_iq1_m) == 56, "IQ1_M");
static_assert(sizeof(rf_block_iq4_nl) == 18, "IQ4_NL");
static_assert(sizeof(rf_block_iq4_xs) == 136, "IQ4_XS");
static_assert(sizeof(rf_block_tq1_0) == 54, "TQ1_0");
static_assert(sizeof(rf_block_tq2_0) == 66, "TQ2_0");
static_assert(sizeof(rf_block_mxfp4) == 17, "MXFP4");
static_assert(sizeof(rf_block_nvfp4) == 36, "NVFP4");
static_assert(sizeof(rf_block_mxfp6) == 25, "MXFP6");
