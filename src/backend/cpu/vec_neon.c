/* vec_neon.c - every kernel but the matrix product, for 64-bit ARM.
 *
 * Sixteen canonical lanes are four vectors of four. */
#include <math.h>

#include "backend/cpu/attend.h"
#include "backend/cpu/lanes_neon.h"
#include "backend/cpu/vec_rows.h"
#include "backend/cpu/widen.h"

/* The last n < 16 floats at p, continued with zeros. */
static inline void load_end(f32x4 out[4], const float *p, size_t n) {
    float end[16] = {0};
    memcpy(end, p, n * sizeof *p);
    for (int i = 0; i < 4; i++)
        out[i] = vld1q_f32(end + 4 * i);
}

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

static void soften_neon(const rf_attend_head *h, uint32_t bits, float scale, float softcap,
                        const float *mask) {
    const f32x4 none = vdupq_n_f32(-INFINITY);
    f32x4 s[8], best = none;
    uint32x4_t seen[8];
    for (uint32_t i = 0; i < 8; i++)
        s[i] = vmulq_n_f32(vld1q_f32(h->p + 4 * i), scale);
    if (softcap > 0) cap_scores(s, softcap);
    for (uint32_t i = 0; i < 8; i++) {
        if (mask) s[i] = vaddq_f32(s[i], vld1q_f32(mask + 4 * i));
        seen[i] = lanes_of(bits >> (4 * i) & 15);
        best = larger(vbslq_f32(seen[i], s[i], none), best);
    }
    float lane[4], top = -INFINITY;
    vst1q_f32(lane, best);
    for (int i = 0; i < 4; i++)
        top = lane[i] > top ? lane[i] : top;
    *h->m = top;
    f32x4 m = vdupq_n_f32(top);
    for (uint32_t i = 0; i < 8; i++) {
        uint32x4_t p = vreinterpretq_u32_f32(expf4(vsubq_f32(s[i], m)));
        s[i] = vreinterpretq_f32_u32(vandq_u32(p, seen[i]));
        vst1q_f32(h->p + 4 * i, s[i]);
    }
    for (int i = 0; i < 4; i++)
        s[i] = vaddq_f32(s[i], s[i + 4]);
    *h->l = tree16(s);
}

static void accumulate_head(float *acc, const float *p, uint32_t bits, const float *v,
                            size_t stride, uint32_t n) {
    uint32_t d = 0;
    for (; d + 32 <= n; d += 32) {
        f32x4 s[8];
        for (uint32_t i = 0; i < 8; i++)
            s[i] = vld1q_f32(acc + d + 4 * i);
        for (uint32_t left = bits; left; left &= left - 1) {
            uint32_t j = (uint32_t)__builtin_ctz(left);
            const float *row = v + j * stride + d;
            for (uint32_t i = 0; i < 8; i++)
                s[i] = vfmaq_n_f32(s[i], vld1q_f32(row + 4 * i), p[j]);
        }
        for (uint32_t i = 0; i < 8; i++)
            vst1q_f32(acc + d + 4 * i, s[i]);
    }
    for (; d + 4 <= n; d += 4) {
        f32x4 s = vld1q_f32(acc + d);
        for (uint32_t left = bits; left; left &= left - 1) {
            uint32_t j = (uint32_t)__builtin_ctz(left);
            s = vfmaq_n_f32(s, vld1q_f32(v + j * stride + d), p[j]);
        }
        vst1q_f32(acc + d, s);
    }
    for (; d < n; d++)
        for (uint32_t left = bits; left; left &= left - 1) {
            uint32_t j = (uint32_t)__builtin_ctz(left);
            acc[d] = fmaf(p[j], v[j * stride + d], acc[d]);
        }
}

static void accumulate_neon(float *acc, const float *p, uint32_t n_heads, uint32_t bits,
                            const float *v, size_t stride, uint32_t n) {
    for (uint32_t h = 0; h < n_heads; h++)
        accumulate_head(acc + h * RF_MAX_HEAD_DIM, p + h * RF_KV_BLOCK, bits, v, stride, n);
}

static void attend_neon(const rf_attend *a) {
    static const rf_attend_parts parts = {widen, soften_neon, accumulate_neon, fold_lanes};
    rf_attend_walk(a, &parts);
}

void rf_cpu_vec_neon(rf_cpu_kernels *k) {
    set_row_kernels(k);
    k->rope = rope_neon;
    k->f32_to_f16 = f32_to_f16_neon;
    k->attend = attend_neon;
}
