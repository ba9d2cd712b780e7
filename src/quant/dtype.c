/* dtype.c - the table of number formats, filled from dtype.def, and its look-ups.
 *
 * A row of dtype.def without a CODEC_ line below does not compile. */
#include "quant/dtype.h"

#include "quant/codec.h"
#include "quant/encode.h"

/* decode, encode, view, has_min, is_nonneg, is_block, unpack; _ONLY: no encoder */
#define SCALAR(name)      rf_decode_##name, rf_encode_##name, RF_INT_NONE, false, false, false, NULL
#define SCALAR_ONLY(name) rf_decode_##name, NULL, RF_INT_NONE, false, false, false, NULL
#define INTEGER           NULL, NULL, RF_INT_NONE, false, false, false, NULL
#define BLOCK(name)       rf_decode_##name, rf_encode_##name, RF_INT_NONE, false, false, true, NULL
#define BLOCK_ONLY(name)  rf_decode_##name, NULL, RF_INT_NONE, false, false, true, NULL
#define SIGNED(name, size) \
    rf_decode_##name, rf_encode_##name, RF_INT_##size, false, false, true, rf_unpack_##name
#define SIGNED_ONLY(name, size) \
    rf_decode_##name, NULL, RF_INT_##size, false, false, true, rf_unpack_##name
#define SHIFTED(name, size) \
    rf_decode_##name, rf_encode_##name, RF_INT_##size, true, true, true, rf_unpack_##name

#define CODEC_F32        SCALAR(f32)
#define CODEC_F16        SCALAR(f16)
#define CODEC_BF16       SCALAR(bf16)
#define CODEC_F64        SCALAR_ONLY(f64)
#define CODEC_I8         INTEGER
#define CODEC_I16        INTEGER
#define CODEC_I32        INTEGER
#define CODEC_I64        INTEGER
#define CODEC_Q4_0       SIGNED(q4_0, 32)
#define CODEC_Q4_1       SHIFTED(q4_1, 32)
#define CODEC_Q5_0       SIGNED(q5_0, 32)
#define CODEC_Q5_1       SHIFTED(q5_1, 32)
#define CODEC_Q8_0       SIGNED(q8_0, 32)
#define CODEC_Q8_1       BLOCK_ONLY(q8_1)
#define CODEC_Q1_0       SIGNED_ONLY(q1_0, 32)
#define CODEC_Q2_0       SIGNED_ONLY(q2_0, 32)
#define CODEC_Q2_K       SHIFTED(q2_k, 256)
#define CODEC_Q3_K       SIGNED(q3_k, 256)
#define CODEC_Q4_K       SHIFTED(q4_k, 256)
#define CODEC_Q5_K       SHIFTED(q5_k, 256)
#define CODEC_Q6_K       SIGNED(q6_k, 256)
#define CODEC_Q8_K       SIGNED_ONLY(q8_k, 256)
#define CODEC_IQ2_XXS    SIGNED(iq2_xxs, 256)
#define CODEC_IQ2_XS     SIGNED(iq2_xs, 256)
#define CODEC_IQ2_S      SIGNED(iq2_s, 256)
#define CODEC_IQ3_XXS    SIGNED(iq3_xxs, 256)
#define CODEC_IQ3_S      SIGNED(iq3_s, 256)
#define CODEC_IQ1_S      SIGNED_ONLY(iq1_s, 256)
#define CODEC_IQ1_M      SIGNED_ONLY(iq1_m, 256)
#define CODEC_IQ4_NL     SIGNED(iq4_nl, 32)
#define CODEC_IQ4_XS     SIGNED(iq4_xs, 256)
#define CODEC_TQ1_0      SIGNED(tq1_0, 256)
#define CODEC_TQ2_0      SIGNED(tq2_0, 256)
#define CODEC_MXFP4      SIGNED(mxfp4, 32)
#define CODEC_NVFP4      BLOCK_ONLY(nvfp4)
#define CODEC_MXFP6_E2M3 SIGNED(mxfp6_e2m3, 32)
#define CODEC_MXFP6_E3M2 BLOCK(mxfp6_e3m2)

static const rf_dtype_info table[RF_DT_COUNT] = {
#define X(name, id, elems, bytes) [RF_DT_##name] = {#name, id, elems, bytes, CODEC_##name},
#include "quant/dtype.def"
#undef X
};

const rf_dtype_info *rf_dtype_get(rf_dtype t) {
    RF_ASSERT((unsigned)t < RF_DT_COUNT);
    return &table[t];
}

bool rf_dtype_from_id(uint32_t id, rf_dtype *out) {
    for (unsigned t = 0; t < RF_DT_COUNT; t++) {
        if (table[t].id != id) continue;
        *out = (rf_dtype)t;
        return true;
    }
    return false;
}

static char ascii_upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }

static bool name_is(rf_str s, const char *name) {
    if (s.len != strlen(name)) return false;
    for (size_t i = 0; i < s.len; i++)
        if (ascii_upper(s.p[i]) != name[i]) return false;
    return true;
}

bool rf_dtype_from_name(rf_str name, rf_dtype *out) {
    for (unsigned t = 0; t < RF_DT_COUNT; t++) {
        if (!name_is(name, table[t].name)) continue;
        *out = (rf_dtype)t;
        return true;
    }
    return false;
}

bool rf_dtype_bytes(rf_dtype t, uint64_t n, size_t *out) {
    const rf_dtype_info *info = rf_dtype_get(t);
    if (n % info->block_elems != 0) return false;
    return !__builtin_mul_overflow(n / info->block_elems, (uint64_t)info->block_bytes, out);
}
