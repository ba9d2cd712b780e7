/* vec_avx512.c - every kernel but the matrix product, for AVX-512 (F, BW, VL, DQ).
 *
 * Sixteen canonical lanes are one vector; ends of rows are masked, which continues them with zeros. */
#include <math.h>

#include "backend/cpu/lanes_avx512.h"
#include "backend/cpu/vec_rows.h"

enum { ATTEND_VECS = 2 }; /* times eight queries: sixteen sums */
enum { ATTEND_INT_VECS = 2 };
#define ATTEND_TILE 8
#define INTS_UNROLL RF_UNROLL /* else accumulators are copied from round to round */
#define HALVES(op)  _mm512_##op
typedef __m512i halves; /* four parts of eight of 16 bits */
enum { HALVES_KEYS = 32 };
LANES_INLINE halves halves_of(const __m128i part[4]) {
    halves v = _mm512_inserti32x4(_mm512_castsi128_si512(part[0]), part[1], 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(v, part[2], 2), part[3], 3);
}
LANES_INLINE void halves_store(void *p, halves v) { _mm512_storeu_si512(p, v); }
LANES_INLINE void halves_store_f32(float *p, halves v, rf_dtype type) {
    __m256i low = _mm512_castsi512_si256(v), high = _mm512_extracti64x4_epi64(v, 1);
    lanes_store(p, type == RF_DT_F16 ? lanes_of_f16(low) : lanes_of_bf16(low));
    lanes_store(p + 16, type == RF_DT_F16 ? lanes_of_f16(high) : lanes_of_bf16(high));
}
/* Sixteen pairs of bytes as pairs of 16 bits. */
LANES_INLINE void store_pairs(int32_t *to, __m128i x, __m128i y) {
    __m512i low = _mm512_cvtepi8_epi32(x), high = _mm512_slli_epi32(_mm512_cvtepi8_epi32(y), 16);
    halves_store(to, _mm512_mask_blend_epi16(0xAAAAAAAA, low, high));
}
#include "backend/cpu/attend_avx.h"

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

static void f32_to_f16_avx512(uint16_t *dst, const float *x, size_t n) {
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = lanes_below(n - i);
        __m512 v = _mm512_maskz_loadu_ps(m, x + i);
        _mm256_mask_storeu_epi16(dst + i, m, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    }
}

static void finish_scores(float *p, uint32_t bits, float scale, float softcap, const float *mask,
                          attend_part maxima) {
    const __m512 none = _mm512_set1_ps(-INFINITY), factor = _mm512_set1_ps(scale);
    __m512 best = none;
    for (uint32_t i = 0; i < 2; i++) {
        __m512 s = _mm512_mul_ps(_mm512_loadu_ps(p + 16 * i), factor);
        if (softcap > 0) s = soft_capped(s, softcap);
        if (mask) s = _mm512_add_ps(s, _mm512_loadu_ps(mask + 16 * i));
        /* best is never a NaN */
        best = _mm512_mask_max_ps(best, (__mmask16)(bits >> (16 * i) & 0xFFFF), s, best);
        _mm512_storeu_ps(p + 16 * i, s);
    }
    _mm256_storeu_ps(maxima,
                     _mm256_max_ps(_mm512_castps512_ps256(best), _mm512_extractf32x8_ps(best, 1)));
}

static void exponentials(float *p, uint32_t bits, float max, attend_part sums) {
    const __m512 m = _mm512_set1_ps(max);
    __m512 s[2];
    for (uint32_t i = 0; i < 2; i++) {
        s[i] = lanes_exp(_mm512_sub_ps(_mm512_loadu_ps(p + 16 * i), m));
        s[i] = _mm512_maskz_mov_ps((__mmask16)(bits >> (16 * i) & 0xFFFF), s[i]);
        _mm512_storeu_ps(p + 16 * i, s[i]);
    }
    _mm256_storeu_ps(sums, fold16(_mm512_add_ps(s[0], s[1])));
}

static void lanes_store_i16(int16_t *p, lanes x) {
    __m256i n = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x));
    _mm256_storeu_si256((__m256i *)(void *)p, n);
}

static void weigh_keys(int32_t *words, const float *p, const float *t) {
    const __m512 magic = _mm512_set1_ps(RF_ATTEND_MAGIC);
    for (uint32_t j = 0; j < RF_KV_BLOCK; j += 16) {
        __m512 s = _mm512_fmadd_ps(_mm512_loadu_ps(p + j), _mm512_loadu_ps(t + j), magic);
        __m256i low = _mm512_cvtepi32_epi16(_mm512_castps_si512(s));
        _mm256_storeu_si256((__m256i *)(void *)(words + j / 2), low);
    }
}

void rf_cpu_vec_avx512(rf_cpu_kernels *k) {
    set_row_kernels(k);
    k->rope = rope_avx512;
    k->f32_to_f16 = f32_to_f16_avx512;
    k->attend = attend_lanes;
    k->attend_fold = attend_fold_lanes;
}
