/* encode_mx.c - MXFP4, MXFP6 E2M3 and E3M2 by the rules of the OCP Microscaling specification, 6.3.
 *
 * The shared exponent is that of the largest magnitude less the largest exponent of the element
 * format; elements are rounded to nearest even and saturate.  There is nothing to search for, so
 * importance has no say.  A block without any nonzero finite value has scale byte 0. */
#include "quant/encode.h"

typedef struct small_float {
    int man_bits, min_exp, max_exp; /* exponents of the smallest and the largest normal numbers */
    int max_code;                   /* without sign */
    int sign;                       /* the bit of the sign */
} small_float;

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* floor(log2 |f|) for finite f != 0 */
static int exponent_of(float f) {
    uint32_t magnitude = bits_of(f) & 0x7fffffffu;
    if (magnitude >= 0x800000u) return (int)(magnitude >> 23) - 127;
    return 31 - __builtin_clz(magnitude) - 149;
}

static float finite(float f) {
    if (f != f) return 0;
    return f > 0x1.fffffep127f ? 0x1.fffffep127f : f < -0x1.fffffep127f ? -0x1.fffffep127f : f;
}

/* v / 2^by, rounded to nearest even; by may be any size. */
static uint32_t shift_rne(uint32_t v, int by) {
    if (by <= 0) return v << -by;
    if (by > 25) return 0;
    uint32_t half = 1u << (by - 1), rest = v & ((1u << by) - 1), q = v >> by;
    return q + (rest > half || (rest == half && (q & 1)));
}

/* The code of f / 2^scale.  A code counts in steps of its exponent's last bit, so rounding up from
 * one exponent into the next needs no care. */
static unsigned code_of(float f, int scale, const small_float *t) {
    uint32_t bits = bits_of(f), magnitude = bits & 0x7fffffffu;
    unsigned sign = bits >> 31 ? (unsigned)t->sign : 0;
    if (magnitude == 0) return sign;
    uint32_t man = magnitude & 0x7fffffu;
    if (magnitude >= 0x800000u) {
        man |= 0x800000u;
    } else {
        man <<= __builtin_clz(man) - 8;
    }
    int exp = exponent_of(f) - scale; /* |f / 2^scale| = man * 2^(exp - 23) */
    int at = exp < t->min_exp ? t->min_exp : exp;
    uint32_t steps = shift_rne(man, 23 - t->man_bits + (at - exp));
    int code = (int)steps + (at - t->min_exp) * (1 << t->man_bits);
    return sign | (unsigned)(code > t->max_code ? t->max_code : code);
}

/* Codes of 32 elements; returns the scale byte. */
static uint8_t encode_block(const float *src, const small_float *t, unsigned *code) {
    float x[32], top = 0;
    for (int i = 0; i < 32; i++) {
        x[i] = finite(src[i]);
        float magnitude = x[i] < 0 ? -x[i] : x[i];
        if (magnitude > top) top = magnitude;
    }
    int scale = top > 0 ? exponent_of(top) - t->max_exp : -127;
    scale = scale < -127 ? -127 : scale;
    for (int i = 0; i < 32; i++)
        code[i] = code_of(x[i], scale, t);
    return (uint8_t)(scale + 127);
}

void rf_encode_mxfp4(const float *src, void *dst, size_t n, const float *importance) {
    static const small_float e2m1 = {1, 0, 2, 7, 8};
    rf_block_mxfp4 *b = (rf_block_mxfp4 *)dst;
    (void)importance;
    for (size_t g = 0; g < n / 32; g++) {
        unsigned code[32];
        b[g].e = encode_block(src + 32 * g, &e2m1, code);
        for (int j = 0; j < 16; j++)
            b[g].qs[j] = (uint8_t)(code[j] | code[j + 16] << 4);
    }
}

static void encode_mxfp6(const float *src, void *dst, size_t n, const small_float *t) {
    rf_block_mxfp6 *b = (rf_block_mxfp6 *)dst;
    for (size_t g = 0; g < n / 32; g++) {
        unsigned code[32];
        b[g].e = encode_block(src + 32 * g, t, code);
        for (int k = 0; k < 8; k++) { /* four codes fill three bytes, lowest bit first */
            const unsigned *c = code + 4 * k;
            unsigned v = c[0] | c[1] << 6 | c[2] << 12 | c[3] << 18;
            for (int j = 0; j < 3; j++)
                b[g].qs[3 * k + j] = (uint8_t)(v >> 8 * j);
        }
    }
}

void rf_encode_mxfp6_e2m3(const float *src, void *dst, size_t n, const float *importance) {
    static const small_float e2m3 = {3, 0, 2, 31, 32};
    (void)importance;
    encode_mxfp6(src, dst, n, &e2m3);
}

void rf_encode_mxfp6_e3m2(const float *src, void *dst, size_t n, const float *importance) {
    static const small_float e3m2 = {2, -2, 4, 31, 32};
    (void)importance;
    encode_mxfp6(src, dst, n, &e3m2);
}
