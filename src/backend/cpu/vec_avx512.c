/* vec_avx512.c - every kernel but the matrix product, for AVX-512 (F, BW, VL, DQ).
 *
 * Sixteen canonical lanes are one vector; ends of rows are masked, which continues them with zeros. */
#include <math.h>

#include "backend/cpu/attend.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/vec_avx.h"
#include "base/fmath.h"

/* A mask of the lanes below n. */
static __mmask16 lanes_below(size_t n) {
    const uint32_t bits = n >= 16 ? 0xFFFF : (1u << n) - 1;
    return (__mmask16)bits;
}

static __m512 expf16(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(RF_EXPF_MIN), x);
    x = _mm512_min_ps(_mm512_set1_ps(RF_EXPF_MAX), x);
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(RF_EXPF_LOG2E)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-RF_EXPF_LN2_HI), x);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-RF_EXPF_LN2_LO), r);
    __m512 p = _mm512_set1_ps(RF_EXPF_C6);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RF_EXPF_C5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RF_EXPF_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RF_EXPF_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RF_EXPF_C2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RF_EXPF_C1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RF_EXPF_C0));
    __m512i e = _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), e));
}

/* The first step of tree16. */
static __m256 fold16(__m512 s) {
    return _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
}

static void rms_norm_avx512(float *dst, const float *x, const float *w, size_t n, float eps) {
    __m512 s = _mm512_setzero_ps();
    for (size_t k = 0; k < n; k += 16) {
        __m512 v = _mm512_maskz_loadu_ps(lanes_below(n - k), x + k);
        s = _mm512_fmadd_ps(v, v, s);
    }
    __m512 r = _mm512_set1_ps(1.0f / sqrtf(rf_tree8(fold16(s)) / (float)n + eps));
    for (size_t k = 0; k < n; k += 16) {
        __mmask16 m = lanes_below(n - k);
        __m512 y = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + k), r);
        _mm512_mask_storeu_ps(dst + k, m, _mm512_mul_ps(y, _mm512_maskz_loadu_ps(m, w + k)));
    }
}

static void rope_norm(float *x, uint32_t n_dims, const float *cos_sin) {
    for (uint32_t i = 0; i < n_dims; i += 16) {
        __mmask16 m = lanes_below(n_dims - i);
        __m512 v = _mm512_maskz_loadu_ps(m, x + i), cs = _mm512_maskz_loadu_ps(m, cos_sin + i);
        __m512 t = _mm512_mul_ps(_mm512_movehdup_ps(v), _mm512_permute_ps(cs, 0xB1));
        _mm512_mask_storeu_ps(x + i, m, _mm512_fmaddsub_ps(_mm512_moveldup_ps(v), cs, t));
    }
}

static void rope_neox(float *x, uint32_t half, const float *cos_sin) {
    uint32_t i = 0;
    for (; i + 8 <= half; i += 8) {
        __m256 c, s, x0 = _mm256_loadu_ps(x + i), x1 = _mm256_loadu_ps(x + half + i);
        rf_split_pairs8(cos_sin + 2 * i, &c, &s);
        _mm256_storeu_ps(x + i, _mm256_fmsub_ps(x0, c, _mm256_mul_ps(x1, s)));
        _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(x0, s, _mm256_mul_ps(x1, c)));
    }
    for (; i < half; i++) {
        float x0 = x[i], x1 = x[half + i], c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        x[i] = fmaf(x0, c, -(x1 * s));
        x[half + i] = fmaf(x0, s, x1 * c);
    }
}

static void rope_avx512(float *x, uint32_t n_heads, uint32_t head_dim, const rf_rope *rope,
                        const float *cos_sin) {
    if (rope->kind == RF_ROPE_NONE) return;
    for (uint32_t h = 0; h < n_heads; h++, x += head_dim) {
        if (rope->kind == RF_ROPE_NEOX) {
            rope_neox(x, rope->n_dims / 2, cos_sin);
        } else {
            rope_norm(x, rope->n_dims, cos_sin);
        }
    }
}

static void silu_mul_avx512(float *dst, const float *gate, const float *up, size_t n) {
    const __m512 one = _mm512_set1_ps(1.0f), sign = _mm512_set1_ps(-0.0f);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = lanes_below(n - i);
        __m512 g = _mm512_maskz_loadu_ps(m, gate + i);
        __m512 e = _mm512_add_ps(one, expf16(_mm512_xor_ps(g, sign)));
        __m512 y = _mm512_mul_ps(_mm512_div_ps(g, e), _mm512_maskz_loadu_ps(m, up + i));
        _mm512_mask_storeu_ps(dst + i, m, y);
    }
}

static void add_avx512(float *dst, const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = lanes_below(n - i);
        __m512 x = _mm512_maskz_loadu_ps(m, a + i), y = _mm512_maskz_loadu_ps(m, b + i);
        _mm512_mask_storeu_ps(dst + i, m, _mm512_add_ps(x, y));
    }
}

static void f32_to_f16_avx512(uint16_t *dst, const float *x, size_t n) {
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = lanes_below(n - i);
        __m512 v = _mm512_maskz_loadu_ps(m, x + i);
        _mm256_mask_storeu_epi16(dst + i, m, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    }
}

static void widen_avx512(float *dst, const uint8_t *src, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 m = lanes_below(n - i);
        __m256i h = _mm256_maskz_loadu_epi16(m, src + 2 * (size_t)i);
        _mm512_mask_storeu_ps(dst + i, m, _mm512_cvtph_ps(h));
    }
}

static void dot8_avx512(float dst[8], const float *q, const float *k, size_t stride, uint32_t n) {
    __m512 s[8];
    __m256 folded[8];
    for (uint32_t r = 0; r < 8; r++)
        s[r] = _mm512_setzero_ps();
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 x = _mm512_loadu_ps(q + i);
        for (uint32_t r = 0; r < 8; r++) {
            s[r] = _mm512_fmadd_ps(x, _mm512_loadu_ps(k + r * stride + i), s[r]);
        }
    }
    if (i < n) {
        __mmask16 m = lanes_below(n - i);
        __m512 x = _mm512_maskz_loadu_ps(m, q + i);
        for (uint32_t r = 0; r < 8; r++) {
            s[r] = _mm512_fmadd_ps(x, _mm512_maskz_loadu_ps(m, k + r * stride + i), s[r]);
        }
    }
    for (uint32_t r = 0; r < 8; r++)
        folded[r] = fold16(s[r]);
    _mm256_storeu_ps(dst, rf_tree8x8(folded));
}

static void scale_by(float *x, uint32_t n, float c) {
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 m = lanes_below(n - i);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), _mm512_set1_ps(c));
        _mm512_mask_storeu_ps(x + i, m, v);
    }
}

static void soften_avx512(const rf_attend_head *h, uint32_t bits, float scale, const float *mask) {
    const __m512 none = _mm512_set1_ps(-INFINITY), factor = _mm512_set1_ps(scale);
    __m512 s[2], best = none;
    __mmask16 seen[2] = {(__mmask16)(bits & 0xFFFF), (__mmask16)(bits >> 16)};
    for (uint32_t i = 0; i < 2; i++) {
        s[i] = _mm512_mul_ps(_mm512_loadu_ps(h->p + 16 * i), factor);
        if (mask) s[i] = _mm512_add_ps(s[i], _mm512_loadu_ps(mask + 16 * i));
        best = _mm512_max_ps(best, _mm512_mask_blend_ps(seen[i], none, s[i]));
    }
    float top = _mm512_reduce_max_ps(best);
    if (top > *h->m) {
        if (*h->m > -INFINITY) {
            float c = rf_expf(*h->m - top);
            *h->l *= c;
            scale_by(h->acc, h->head_dim, c);
        }
        *h->m = top;
    }
    __m512 m = _mm512_set1_ps(*h->m);
    for (uint32_t i = 0; i < 2; i++) {
        s[i] = _mm512_maskz_mov_ps(seen[i], expf16(_mm512_sub_ps(s[i], m)));
        _mm512_storeu_ps(h->p + 16 * i, s[i]);
    }
    *h->l += rf_tree8(fold16(_mm512_add_ps(s[0], s[1])));
}

static void accumulate_avx512(float *acc, const float *p, uint32_t bits, const float *v,
                              size_t stride, uint32_t n) {
    uint32_t d = 0;
    for (; d + 64 <= n; d += 64) {
        __m512 s[4];
        for (uint32_t i = 0; i < 4; i++)
            s[i] = _mm512_loadu_ps(acc + d + 16 * i);
        for (uint32_t left = bits; left; left &= left - 1) {
            uint32_t j = (uint32_t)__builtin_ctz(left);
            const float *row = v + j * stride + d;
            __m512 pj = _mm512_set1_ps(p[j]);
            for (uint32_t i = 0; i < 4; i++) {
                s[i] = _mm512_fmadd_ps(pj, _mm512_loadu_ps(row + 16 * i), s[i]);
            }
        }
        for (uint32_t i = 0; i < 4; i++)
            _mm512_storeu_ps(acc + d + 16 * i, s[i]);
    }
    for (; d < n; d += 16) {
        __mmask16 m = lanes_below(n - d);
        __m512 s = _mm512_maskz_loadu_ps(m, acc + d);
        for (uint32_t left = bits; left; left &= left - 1) {
            uint32_t j = (uint32_t)__builtin_ctz(left);
            __m512 row = _mm512_maskz_loadu_ps(m, v + j * stride + d);
            s = _mm512_fmadd_ps(_mm512_set1_ps(p[j]), row, s);
        }
        _mm512_mask_storeu_ps(acc + d, m, s);
    }
}

static void attend_avx512(const rf_attend *a) {
    static const rf_attend_parts parts = {widen_avx512, dot8_avx512, soften_avx512,
                                          accumulate_avx512};
    rf_attend_walk(a, &parts);
}

void rf_cpu_vec_avx512(rf_cpu_kernels *k) {
    k->rms_norm = rms_norm_avx512;
    k->rope = rope_avx512;
    k->silu_mul = silu_mul_avx512;
    k->add = add_avx512;
    k->f32_to_f16 = f32_to_f16_avx512;
    k->attend = attend_avx512;
}
