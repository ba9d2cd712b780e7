/* lanes_avx512.h - the sixteen canonical lanes as one vector; see lanes_scalar.h. */
#pragma once
#include <math.h>

#include "backend/cpu/vec_avx.h"

#define LANES_INLINE static inline __attribute__((always_inline))

typedef __m512 lanes;

/* A mask of the lanes below n. */
LANES_INLINE __mmask16 lanes_below(size_t n) {
    const uint32_t bits = n >= 16 ? 0xFFFF : (1u << n) - 1;
    return (__mmask16)bits;
}
LANES_INLINE lanes lanes_zero(void) { return _mm512_setzero_ps(); }
LANES_INLINE lanes lanes_set(float x) { return _mm512_set1_ps(x); }
LANES_INLINE lanes lanes_load(const void *p) { return _mm512_loadu_ps(p); }
LANES_INLINE void lanes_store(float *p, lanes s) { _mm512_storeu_ps(p, s); }
LANES_INLINE lanes lanes_load_n(const float *p, size_t n) {
    return _mm512_maskz_loadu_ps(lanes_below(n), p);
}
LANES_INLINE void lanes_store_n(float *p, lanes s, size_t n) {
    _mm512_mask_storeu_ps(p, lanes_below(n), s);
}
LANES_INLINE lanes lanes_add(lanes a, lanes b) { return _mm512_add_ps(a, b); }
LANES_INLINE lanes lanes_sub(lanes a, lanes b) { return _mm512_sub_ps(a, b); }
LANES_INLINE lanes lanes_mul(lanes a, lanes b) { return _mm512_mul_ps(a, b); }
LANES_INLINE lanes lanes_div(lanes a, lanes b) { return _mm512_div_ps(a, b); }
LANES_INLINE lanes lanes_max(lanes a, lanes b) { return _mm512_max_ps(a, b); }
LANES_INLINE lanes lanes_min(lanes a, lanes b) { return _mm512_min_ps(a, b); }
LANES_INLINE lanes lanes_neg(lanes x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) { return _mm512_fmadd_ps(a, b, c); }

/* rf_expf on sixteen lanes, the same operations in the same order. */
LANES_INLINE lanes lanes_exp(lanes x) {
    x = _mm512_max_ps(_mm512_set1_ps(RF_EXPF_MIN), x);
    x = _mm512_min_ps(_mm512_set1_ps(RF_EXPF_MAX), x);
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(RF_EXPF_LOG2E)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = RF_EXPF_REST(lanes_set, lanes_fma, n, x);
    return _mm512_scalef_ps(RF_EXPF_POLY(lanes_set, lanes_fma, r), n);
}
/* Lanes of a where m is -inf, else of b. */
LANES_INLINE lanes lanes_if_none(lanes m, lanes a, lanes b) {
    return _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(m, _mm512_set1_ps(-INFINITY), _CMP_EQ_OQ), a);
}
/* The first step of tree16. */
LANES_INLINE __m256 fold16(__m512 s) {
    return _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
}
LANES_INLINE float lanes_tree16(lanes s) { return rf_tree8(fold16(s)); }

/* Of sixteen halves in a vector. */
LANES_INLINE lanes lanes_of_f16(__m256i v) { return _mm512_cvtph_ps(v); }
LANES_INLINE lanes lanes_of_bf16(__m256i v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
LANES_INLINE lanes lanes_load_f16(const uint8_t *p) {
    return lanes_of_f16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
LANES_INLINE lanes lanes_load_bf16(const uint8_t *p) {
    return lanes_of_bf16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
LANES_INLINE lanes lanes_of_i8(__m128i v) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(v)); }

/* A register of its own, where tiles of them are wanted. */
typedef __m512 vec;
enum { VEC = 16 };
LANES_INLINE vec vec_set(float x) { return _mm512_set1_ps(x); }
LANES_INLINE vec vec_load(const void *p) { return _mm512_loadu_ps(p); }
LANES_INLINE vec vec_load_f16(const uint8_t *p) { return lanes_load_f16(p); }
LANES_INLINE vec vec_load_bf16(const uint8_t *p) { return lanes_load_bf16(p); }
LANES_INLINE void vec_store(float *p, vec v) { _mm512_storeu_ps(p, v); }
LANES_INLINE vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
LANES_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }

/* Integers likewise; a dot product adds that of two pairs of 16 bits in each. */
typedef __m512i ints;
LANES_INLINE ints ints_zero(void) { return _mm512_setzero_si512(); }
LANES_INLINE ints ints_set(int32_t x) { return _mm512_set1_epi32(x); }
LANES_INLINE ints ints_load(const int32_t *p) { return _mm512_loadu_si512(p); }
LANES_INLINE ints ints_dot(ints sum, ints a, ints b) { return _mm512_dpwssd_epi32(sum, a, b); }
LANES_INLINE vec ints_floats(ints x) { return _mm512_cvtepi32_ps(x); }
