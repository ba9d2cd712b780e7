/* vec_neon.c - every kernel but the matrix product, for 64-bit ARM.
 *
 * Sixteen canonical lanes are four vectors of four. */
#include <math.h>

#include "backend/cpu/lanes_neon.h"
#include "backend/cpu/vec_rows.h"

enum { ATTEND_VECS = 4 }; /* times six queries: 24 of 32 registers */
enum { ATTEND_INT_VECS = 2 };
#define ATTEND_TILE 6
#define INTS_UNROLL
#define ATTEND_WORD 4
#include "backend/cpu/attend_lanes.h"

/* (x0, x1) turned by angles with cosines c and sines s. */
static inline void rotate4(f32x4 *x0, f32x4 *x1, f32x4 c, f32x4 s) {
    f32x4 a = *x0, b = *x1;
    *x0 = vfmaq_f32(vnegq_f32(vmulq_f32(b, s)), a, c);
    *x1 = vfmaq_f32(vmulq_f32(b, c), a, s);
}

static void rotate(float *p0, float *p1, float c, float s) {
    float x0 = *p0, x1 = *p1;
    *p0 = fmaf(x0, c, -(x1 * s));
    *p1 = fmaf(x0, s, x1 * c);
}

static void rope_neon(float *x, uint32_t n_heads, uint32_t head_dim, const rf_rope *rope,
                      const float *cos_sin) {
    if (rope->kind == RF_ROPE_NONE) return;
    const uint32_t half = rope->n_dims / 2;
    const bool neox = rope->kind == RF_ROPE_NEOX;
    for (uint32_t h = 0; h < n_heads; h++, x += head_dim) {
        uint32_t i = 0;
        for (; i + 4 <= half; i += 4) {
            float32x4x2_t cs = vld2q_f32(cos_sin + 2 * i);
            float32x4x2_t v;
            if (neox) {
                v.val[0] = vld1q_f32(x + i);
                v.val[1] = vld1q_f32(x + half + i);
            } else {
                v = vld2q_f32(x + 2 * i);
            }
            rotate4(&v.val[0], &v.val[1], cs.val[0], cs.val[1]);
            if (neox) {
                vst1q_f32(x + i, v.val[0]);
                vst1q_f32(x + half + i, v.val[1]);
            } else {
                vst2q_f32(x + 2 * i, v);
            }
        }
        for (; i < half; i++)
            rotate(x + (neox ? i : 2 * i), x + (neox ? half + i : 2 * i + 1), cos_sin[2 * i],
                   cos_sin[2 * i + 1]);
    }
}

static void f32_to_f16_neon(uint16_t *dst, const float *x, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1_u16(dst + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
    for (; i < n; i++)
        dst[i] = rf_f32_to_f16(x[i]);
}

/* ---- attention ---- */

static inline uint32x4_t lanes_of(uint32_t bits4) {
    static const uint32_t bit[4] = {1, 2, 4, 8};
    return vtstq_u32(vdupq_n_u32(bits4), vld1q_u32(bit));
}

/* softcap * tanh(s / softcap) of 32 scores; out of line, for few models have it. */
static __attribute__((noinline)) void cap_scores(f32x4 s[8], float softcap) {
    for (int i = 0; i < 8; i += 4) {
        lanes x = soft_capped((lanes){{s[i], s[i + 1], s[i + 2], s[i + 3]}}, softcap);
        for (int j = 0; j < 4; j++)
            s[i + j] = x.val[j];
    }
}

static void finish_scores(float *p, uint32_t bits, float scale, float softcap, const float *mask,
                          attend_part maxima) {
    const f32x4 none = vdupq_n_f32(-INFINITY);
    f32x4 s[8], best[2] = {none, none};
    for (uint32_t i = 0; i < 8; i++)
        s[i] = vmulq_n_f32(vld1q_f32(p + 4 * i), scale);
    if (softcap > 0) cap_scores(s, softcap);
    for (uint32_t i = 0; i < 8; i++) {
        if (mask) s[i] = vaddq_f32(s[i], vld1q_f32(mask + 4 * i));
        best[i % 2] = larger(vbslq_f32(lanes_of(bits >> (4 * i) & 15), s[i], none), best[i % 2]);
        vst1q_f32(p + 4 * i, s[i]);
    }
    vst1q_f32(maxima, best[0]); /* which are never NaNs */
    vst1q_f32(maxima + 4, best[1]);
}

static void exponentials(float *p, uint32_t bits, float max, attend_part sums) {
    const f32x4 m = vdupq_n_f32(max);
    f32x4 s[8];
    for (uint32_t i = 0; i < 8; i++) {
        uint32x4_t e = vreinterpretq_u32_f32(expf4(vsubq_f32(vld1q_f32(p + 4 * i), m)));
        s[i] = vreinterpretq_f32_u32(vandq_u32(e, lanes_of(bits >> (4 * i) & 15)));
        vst1q_f32(p + 4 * i, s[i]);
    }
    for (int i = 0; i < 4; i++)
        s[i] = vaddq_f32(s[i], s[i + 4]);
    vst1q_f32(sums, vaddq_f32(s[0], s[2]));
    vst1q_f32(sums + 4, vaddq_f32(s[1], s[3]));
}

static void join_maxima(float *out, attend_part *part, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        out[i] = vmaxvq_f32(larger(vld1q_f32(part[i]), vld1q_f32(part[i] + 4)));
}

static void join_sums(float *out, attend_part *part, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        out[i] = tree4(vaddq_f32(vld1q_f32(part[i]), vld1q_f32(part[i] + 4)));
}

/* Eight rows of eight words become columns. */
static inline void transpose_words(uint16x8_t r[8]) {
    uint32x4_t a[8];
    uint64x2_t b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = vreinterpretq_u32_u16(vzip1q_u16(r[i], r[i + 1])); /* columns 0 to 3 of two rows */
        a[i + 1] = vreinterpretq_u32_u16(vzip2q_u16(r[i], r[i + 1]));
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = vreinterpretq_u64_u32(vzip1q_u32(a[i], a[i + 2])); /* 0 and 1 of four */
        b[i + 1] = vreinterpretq_u64_u32(vzip2q_u32(a[i], a[i + 2]));
        b[i + 2] = vreinterpretq_u64_u32(vzip1q_u32(a[i + 1], a[i + 3]));
        b[i + 3] = vreinterpretq_u64_u32(vzip2q_u32(a[i + 1], a[i + 3]));
    }
    for (int i = 0; i < 4; i++) {
        r[2 * i] = vreinterpretq_u16_u64(vzip1q_u64(b[i], b[i + 4]));
        r[2 * i + 1] = vreinterpretq_u16_u64(vzip2q_u64(b[i], b[i + 4]));
    }
}

static void transpose_16(void *keys, bool to_f32, const uint8_t *k, rf_look *ahead, size_t row,
                         uint32_t n, rf_dtype type) {
    for (uint32_t d = 0; d < n; d += 8) {
        for (uint32_t j = 0; j < RF_KV_BLOCK; j += 8) {
            look_ahead(ahead, 1);
            uint16x8_t r[8];
            for (uint32_t i = 0; i < 8; i++)
                r[i] = vreinterpretq_u16_u8(vld1q_u8(k + (j + i) * row + 2 * (size_t)d));
            transpose_words(r);
            for (uint32_t i = 0; i < 8; i++) {
                size_t at = (size_t)(d + i) * RF_KV_BLOCK + j;
                uint16x4_t half[2] = {vget_low_u16(r[i]), vget_high_u16(r[i])};
                if (!to_f32) vst1q_u16((uint16_t *)keys + at, r[i]);
                for (int h = 0; to_f32 && h < 2; h++)
                    vst1q_f32((float *)keys + at + 4 * h,
                              type == RF_DT_BF16 ? vreinterpretq_f32_u32(vshll_n_u16(half[h], 16))
                                                 : vcvt_f32_f16(vreinterpret_f16_u16(half[h])));
            }
        }
    }
}

/* Four keys by four columns at a time. */
static void transpose_panel(float *keys, const float *panel) {
    for (uint32_t d = 0; d < RF_ATTEND_PANEL; d += 4) {
        for (uint32_t j = 0; j < RF_KV_BLOCK; j += 4) {
            f32x4 r[4];
            for (uint32_t i = 0; i < 4; i++)
                r[i] = vld1q_f32(panel + (j + i) * RF_ATTEND_PANEL + d);
            f32x4 a = vzip1q_f32(r[0], r[2]), b = vzip1q_f32(r[1], r[3]);
            f32x4 e = vzip2q_f32(r[0], r[2]), f = vzip2q_f32(r[1], r[3]);
            float *to = keys + d * RF_KV_BLOCK + j;
            vst1q_f32(to, vzip1q_f32(a, b));
            vst1q_f32(to + RF_KV_BLOCK, vzip2q_f32(a, b));
            vst1q_f32(to + 2 * RF_KV_BLOCK, vzip1q_f32(e, f));
            vst1q_f32(to + 3 * RF_KV_BLOCK, vzip2q_f32(e, f));
        }
    }
}

static void lanes_store_i16(int16_t *p, lanes x) {
    for (int i = 0; i < 4; i++)
        vst1_s16(p + 4 * i, vmovn_s32(vcvtnq_s32_f32(x.val[i])));
}

/* Low halves of p * t + MAGIC of eight keys. */
static inline int16x8_t weights_8(const float *p, const float *t) {
    int16x4_t n[2];
    for (int i = 0; i < 2; i++) {
        f32x4 s =
            vfmaq_f32(vdupq_n_f32(RF_ATTEND_MAGIC), vld1q_f32(p + 4 * i), vld1q_f32(t + 4 * i));
        n[i] = vmovn_s32(vreinterpretq_s32_f32(s));
    }
    return vcombine_s16(n[0], n[1]);
}

static void weigh_keys(int32_t *words, const float *p, const float *t) {
    for (uint32_t j = 0; j < RF_KV_BLOCK; j += 8) {
        int16x8_t n = weights_8(p + j, t + j);
        int32x2_t high = vreinterpret_s32_s8(vshrn_n_s16(n, 7));
        int32x2_t low = vreinterpret_s32_s8(vmovn_s16(vandq_s16(n, vdupq_n_s16(127))));
        vst1_s32(words + j / 2, vzip1_s32(high, low)); /* a word's digits side by side */
        vst1_s32(words + j / 2 + 2, vzip2_s32(high, low));
    }
}

/* Thirty-two integers of a group, as words of four. */
static inline void group_quads(uint32x4_t out[2], const uint8_t *group, rf_dtype type) {
    uint8x16_t x = vld1q_u8(group + 2);
    int8x16_t n[2] = {vreinterpretq_s8_u8(x)};
    if (type == RF_DT_Q8_0) {
        n[1] = vreinterpretq_s8_u8(vld1q_u8(group + 18));
    } else {
        n[0] = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(x, vdupq_n_u8(15))), vdupq_n_s8(8));
        n[1] = vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(x, 4)), vdupq_n_s8(8));
    }
    for (int i = 0; i < 2; i++)
        out[i] = vreinterpretq_u32_s8(n[i]);
}

/* Four rows of four words become columns. */
static inline void transpose_quads(uint32x4_t r[4]) {
    uint32x4_t a = vzip1q_u32(r[0], r[2]), b = vzip1q_u32(r[1], r[3]);
    uint32x4_t e = vzip2q_u32(r[0], r[2]), f = vzip2q_u32(r[1], r[3]);
    r[0] = vzip1q_u32(a, b);
    r[1] = vzip2q_u32(a, b);
    r[2] = vzip1q_u32(e, f);
    r[3] = vzip2q_u32(e, f);
}

static void key_words(int32_t *words, const uint8_t *k, rf_look *ahead, size_t row, rf_dtype type) {
    for (uint32_t j = 0; j < RF_KV_BLOCK; j += 4) {
        look_ahead(ahead, 1);
        uint32x4_t half[2][4], both[2];
        for (uint32_t i = 0; i < 4; i++) {
            group_quads(both, k + (j + i) * row, type);
            half[0][i] = both[0];
            half[1][i] = both[1];
        }
        for (uint32_t h = 0; h < 2; h++) {
            transpose_quads(half[h]);
            for (uint32_t i = 0; i < 4; i++)
                vst1q_s32(words + (size_t)(4 * h + i) * RF_KV_BLOCK + j,
                          vreinterpretq_s32_u32(half[h][i]));
        }
    }
}

static void value_words(int32_t *words, const uint8_t *v, rf_look *ahead, size_t row,
                        rf_dtype type) {
    for (uint32_t w = 0; w < ATTEND_WORDS; w++, v += 4 * row, words += RF_KV_BLOCK) {
        look_ahead(ahead, 1);
        uint32x4_t r[4][2];
        for (uint32_t i = 0; i < 4; i++)
            group_quads(r[i], v + i * row, type);
        for (uint32_t h = 0; h < 2; h++) {
            uint8x16_t x[4];
            for (uint32_t i = 0; i < 4; i++)
                x[i] = vreinterpretq_u8_u32(r[i][h]);
            uint8x16x4_t all = {{x[0], x[1], x[2], x[3]}};
            vst4q_u8((uint8_t *)(words + 16 * h), all); /* a byte of each in turn */
        }
    }
}

void rf_cpu_vec_neon(rf_cpu_kernels *k) {
    set_row_kernels(k);
    k->rope = rope_neon;
    k->f32_to_f16 = f32_to_f16_neon;
    k->attend = attend_lanes;
    k->attend_fold = attend_fold_lanes;
}
