/* codec.h - what the families of formats in this room share; private to src/quant.
 *
 * The two decoders that go through the integer view, and the names of all codecs.  A format's bytes
 * are taken apart in exactly one place, its unpack(); decode() is built on it wherever the format
 * has an integer view, so the two cannot disagree.  Only MXFP6_E2M3 has a decode() of its own
 * beside its view: integers have no negative zero. */
#pragma once
#include "quant/bits.h"
#include "quant/blocks.h"
#include "quant/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*rf_unpack_fn)(const void *row, size_t g, rf_int_group *out);

/* decode() by way of the integer view.  Both are inlined with a constant unpack. */
RF_INLINE void rf_decode_32(rf_unpack_fn unpack, bool has_min, const void *src, float *dst,
                            size_t n) {
    rf_int_group grp;
    for (size_t g = 0; g < n / 32; g++) {
        unpack(src, g, &grp);
        float w[32];
        if (has_min) {
            for (int i = 0; i < 32; i++)
                w[i] = grp.d * (float)grp.q[i] + grp.m;
        } else {
            for (int i = 0; i < 32; i++)
                w[i] = grp.d * (float)grp.q[i];
        }
        memcpy((uint8_t *)(void *)dst + g * sizeof w, w, sizeof w);
    }
}
RF_INLINE void rf_decode_256(rf_unpack_fn unpack, bool has_min, const void *src, float *dst,
                             size_t n) {
    rf_int_group grp;
    for (size_t g = 0; g < n / 256; g++) {
        unpack(src, g, &grp);
        for (size_t k = 0; k < 16; k++) {
            float w[16], d = grp.d * (float)grp.scale[k], m = grp.m * (float)grp.min[k];
            const int8_t *q = grp.q + 16 * k;
            if (has_min) {
                for (int i = 0; i < 16; i++)
                    w[i] = d * (float)q[i] + m;
            } else {
                for (int i = 0; i < 16; i++)
                    w[i] = d * (float)q[i];
            }
            memcpy((uint8_t *)(void *)dst + (g * 16 + k) * sizeof w, w, sizeof w);
        }
    }
}

/* Defines rf_decode_NAME over the static unpack of the same file and exports both. */
#define RF_CODEC(name, size, has_min)                                     \
    void rf_decode_##name(const void *src, float *dst, size_t n) {        \
        rf_decode_##size(unpack_##name, has_min, src, dst, n);            \
    }                                                                     \
    void rf_unpack_##name(const void *row, size_t g, rf_int_group *out) { \
        unpack_##name(row, g, out);                                       \
    }

#define RF_DECODER(name) void rf_decode_##name(const void *src, float *dst, size_t n);
#define RF_DECLARE(name) \
    RF_DECODER(name)     \
    void rf_unpack_##name(const void *row, size_t g, rf_int_group *out);

/* float.c */
RF_DECODER(f32)
RF_DECODER(f16)
RF_DECODER(bf16)
RF_DECODER(f64)
/* legacy.c */
RF_DECLARE(q4_0)
RF_DECLARE(q4_1)
RF_DECLARE(q5_0)
RF_DECLARE(q5_1)
RF_DECLARE(q8_0)
RF_DECODER(q8_1)
RF_DECLARE(q1_0)
RF_DECLARE(q2_0)
/* kquant.c */
RF_DECLARE(q2_k)
RF_DECLARE(q3_k)
RF_DECLARE(q4_k)
RF_DECLARE(q5_k)
RF_DECLARE(q6_k)
RF_DECLARE(q8_k)
/* iq.c */
RF_DECLARE(iq2_xxs)
RF_DECLARE(iq2_xs)
RF_DECLARE(iq2_s)
RF_DECLARE(iq3_xxs)
RF_DECLARE(iq3_s)
RF_DECLARE(iq1_s)
RF_DECLARE(iq1_m)
RF_DECLARE(iq4_nl)
RF_DECLARE(iq4_xs)
/* ternary.c */
RF_DECLARE(tq1_0)
RF_DECLARE(tq2_0)
/* mx.c */
RF_DECLARE(mxfp4)
RF_DECODER(nvfp4)
RF_DECLARE(mxfp6_e2m3)
RF_DECODER(mxfp6_e3m2)
#undef RF_DECLARE
#undef RF_DECODER

#ifdef __cplusplus
}
#endif
