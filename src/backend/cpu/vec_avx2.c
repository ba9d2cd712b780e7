/* vec_avx2.c - every kernel but the matrix product, for AVX2 with FMA and F16C.
 *
 * Sixteen canonical lanes are two vectors of eight. */
#include <math.h>

#include "backend/cpu/lanes_avx2.h"
#include "backend/cpu/vec_rows.h"

enum { ATTEND_VECS = 2 }; /* times six queries are twelve sums, two factors and one to spare */
enum { ATTEND_INT_VECS = 1 };
#define ATTEND_TILE 6
#define INTS_UNROLL
#define HALVES(op) _mm256_##op
typedef __m256i halves; /* two parts of eight of 16 bits */
enum { HALVES_KEYS = 16 };
LANES_INLINE halves halves_of(const __m128i part[2]) { return _mm256_set_m128i(part[1], part[0]); }
LANES_INLINE void halves_store(void *p, halves v) { _mm256_storeu_si256((__m256i *)p, v); }
LANES_INLINE void halves_store_f32(float *p, halves v, rf_dtype type) {
    lanes_store(p, type == RF_DT_F16 ? lanes_of_f16(v) : lanes_of_bf16(v));
}
/* Sixteen pairs of bytes as pairs of 16 bits. */
LANES_INLINE void store_pairs(int32_t *to, __m128i x, __m128i y) {
    halves_store(to, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(x, y)));
    halves_store(to + 8, _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(x, y)));
}
#include "backend/cpu/attend_avx.h"

static void rotate(float *p0, float *p1, float c, float s) {
    float x0 = *p0, x1 = *p1;
    *p0 = fmaf(x0, c, -(x1 * s));
    *p1 = fmaf(x0, s, x1 * c);
}

static void rope_norm(float *x, uint32_t half, const float *cos_sin) {
    uint32_t i = 0;
    for (; i + 4 <= half; i += 4) {
        __m256 v = _mm256_loadu_ps(x + 2 * i), cs = _mm256_loadu_ps(cos_sin + 2 * i);
        __m256 sc = _mm256_permute_ps(cs, 0xB1);
        __m256 t = _mm256_mul_ps(_mm256_movehdup_ps(v), sc);
        _mm256_storeu_ps(x + 2 * i, _mm256_fmaddsub_ps(_mm256_moveldup_ps(v), cs, t));
    }
    for (; i < half; i++)
        rotate(x + 2 * i, x + 2 * i + 1, cos_sin[2 * i], cos_sin[2 * i + 1]);
}

static void rope_neox(float *x, uint32_t half, const float *cos_sin) {
    uint32_t i = 0;
    for (; i + 8 <= half; i += 8) {
        __m256 c, s, x0 = _mm256_loadu_ps(x + i), x1 = _mm256_loadu_ps(x + half + i);
        rf_split_pairs8(cos_sin + 2 * i, &c, &s);
        _mm256_storeu_ps(x + i, _mm256_fmsub_ps(x0, c, _mm256_mul_ps(x1, s)));
        _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(x0, s, _mm256_mul_ps(x1, c)));
    }
    for (; i < half; i++)
        rotate(x + i, x + half + i, cos_sin[2 * i], cos_sin[2 * i + 1]);
}

static void rope_avx2(float *x, uint32_t n_heads, uint32_t head_dim, const rf_rope *rope,
                      const float *cos_sin) {
    if (rope->kind == RF_ROPE_NONE) return;
    for (uint32_t h = 0; h < n_heads; h++, x += head_dim) {
        if (rope->kind == RF_ROPE_NEOX) {
            rope_neox(x, rope->n_dims / 2, cos_sin);
        } else {
            rope_norm(x, rope->n_dims / 2, cos_sin);
        }
    }
}

static void f32_to_f16_avx2(uint16_t *dst, const float *x, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(dst + i), h);
    }
    for (; i < n; i++)
        dst[i] = rf_f32_to_f16(x[i]);
}

static __m256 seen_lanes(uint32_t bits8) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i b = _mm256_and_si256(_mm256_set1_epi32((int)bits8), bit);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(b, bit));
}

/* softcap * tanh(s / softcap) of 32 scores; out of line, for few models have it. */
static __attribute__((noinline)) void cap_scores(__m256 s[4], float softcap) {
    for (uint32_t i = 0; i < 4; i += 2) {
        lanes x = soft_capped((lanes){s[i], s[i + 1]}, softcap);
        s[i] = x.low;
        s[i + 1] = x.high;
    }
}

static void finish_scores(float *p, uint32_t bits, float scale, float softcap, const float *mask,
                          attend_part maxima) {
    const __m256 none = _mm256_set1_ps(-INFINITY), factor = _mm256_set1_ps(scale);
    __m256 s[4], best = none;
    for (uint32_t i = 0; i < 4; i++)
        s[i] = _mm256_mul_ps(_mm256_loadu_ps(p + 8 * i), factor);
    if (softcap > 0) cap_scores(s, softcap);
    for (uint32_t i = 0; i < 4; i++) {
        if (mask) s[i] = _mm256_add_ps(s[i], _mm256_loadu_ps(mask + 8 * i));
        if (bits != UINT32_MAX)
            s[i] = _mm256_blendv_ps(none, s[i], seen_lanes(bits >> (8 * i) & 0xFF));
        best = _mm256_max_ps(s[i], best); /* which is never a NaN */
        _mm256_storeu_ps(p + 8 * i, s[i]);
    }
    _mm256_storeu_ps(maxima, best);
}

static void exponentials(float *p, uint32_t bits, float max, attend_part sums) {
    const __m256 m = _mm256_set1_ps(max);
    __m256 s[4];
    for (uint32_t i = 0; i < 4; i++) {
        s[i] = rf_expf8(_mm256_sub_ps(_mm256_loadu_ps(p + 8 * i), m));
        if (bits != UINT32_MAX) s[i] = _mm256_and_ps(s[i], seen_lanes(bits >> (8 * i) & 0xFF));
        _mm256_storeu_ps(p + 8 * i, s[i]);
    }
    __m256 lo = _mm256_add_ps(s[0], s[2]), hi = _mm256_add_ps(s[1], s[3]);
    _mm256_storeu_ps(sums, _mm256_add_ps(lo, hi));
}

static void lanes_store_i16(int16_t *p, lanes x) {
    __m256i n = _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(n, 0xD8));
}

static void weigh_keys(int32_t *words, const float *p, const float *t) {
    const __m256 magic = _mm256_set1_ps(RF_ATTEND_MAGIC);
    const __m256i low = _mm256_set1_epi32(0xFFFF);
    for (uint32_t j = 0; j < RF_KV_BLOCK; j += 16) {
        __m256i x[2];
        for (uint32_t i = 0; i < 2; i++) {
            __m256 s = _mm256_fmadd_ps(_mm256_loadu_ps(p + j + 8 * i),
                                       _mm256_loadu_ps(t + j + 8 * i), magic);
            x[i] = _mm256_and_si256(_mm256_castps_si256(s), low);
        }
        __m256i all = _mm256_permute4x64_epi64(_mm256_packus_epi32(x[0], x[1]), 0xD8);
        _mm256_storeu_si256((__m256i *)(void *)(words + j / 2), all);
    }
}

void rf_cpu_vec_avx2(rf_cpu_kernels *k) {
    set_row_kernels(k);
    k->rope = rope_avx2;
    k->f32_to_f16 = f32_to_f16_avx2;
    k->attend = attend_lanes;
    k->attend_fold = attend_fold_lanes;
}
