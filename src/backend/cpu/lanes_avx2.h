/* lanes_avx2.h - the sixteen canonical lanes as two vectors of eight; see lanes_scalar.h. */
#pragma once
#include <math.h>

#include "backend/cpu/vec_avx.h"

#define LANES_INLINE static inline __attribute__((always_inline))

typedef struct lanes {
    __m256 low, high;
} lanes;

LANES_INLINE lanes lanes_zero(void) { return (lanes){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
LANES_INLINE lanes lanes_set(float x) { return (lanes){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
LANES_INLINE lanes lanes_load(const void *p) {
    const __m256i *v = (const __m256i *)p;
    return (lanes){_mm256_castsi256_ps(_mm256_loadu_si256(v)),
                   _mm256_castsi256_ps(_mm256_loadu_si256(v + 1))};
}
LANES_INLINE void lanes_store(float *p, lanes s) {
    _mm256_storeu_ps(p, s.low);
    _mm256_storeu_ps(p + 8, s.high);
}
/* All ones in the lanes below n. */
LANES_INLINE __m256i lanes_below(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
LANES_INLINE lanes lanes_load_n(const float *p, size_t n) {
    if (n >= 16) return lanes_load(p);
    if (n <= 8) return (lanes){_mm256_maskload_ps(p, lanes_below(n)), _mm256_setzero_ps()};
    return (lanes){_mm256_loadu_ps(p), _mm256_maskload_ps(p + 8, lanes_below(n - 8))};
}
LANES_INLINE void lanes_store_n(float *p, lanes s, size_t n) {
    if (n >= 16) {
        lanes_store(p, s);
    } else if (n <= 8) {
        _mm256_maskstore_ps(p, lanes_below(n), s.low);
    } else {
        _mm256_storeu_ps(p, s.low);
        _mm256_maskstore_ps(p + 8, lanes_below(n - 8), s.high);
    }
}
#define LANES_PAIR(name, op)                                  \
    LANES_INLINE lanes name(lanes a, lanes b) {               \
        return (lanes){op(a.low, b.low), op(a.high, b.high)}; \
    }
LANES_PAIR(lanes_add, _mm256_add_ps)
LANES_PAIR(lanes_sub, _mm256_sub_ps)
LANES_PAIR(lanes_mul, _mm256_mul_ps)
LANES_PAIR(lanes_div, _mm256_div_ps)
LANES_PAIR(lanes_max, _mm256_max_ps)
LANES_PAIR(lanes_min, _mm256_min_ps)
#undef LANES_PAIR
LANES_INLINE lanes lanes_neg(lanes x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (lanes){_mm256_xor_ps(x.low, sign), _mm256_xor_ps(x.high, sign)};
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    return (lanes){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
LANES_INLINE lanes lanes_exp(lanes x) { return (lanes){rf_expf8(x.low), rf_expf8(x.high)}; }
/* Lanes of a where m is -inf, else of b. */
LANES_INLINE lanes lanes_if_none(lanes m, lanes a, lanes b) {
    const __m256 none = _mm256_set1_ps(-INFINITY);
    return (lanes){_mm256_blendv_ps(b.low, a.low, _mm256_cmp_ps(m.low, none, _CMP_EQ_OQ)),
                   _mm256_blendv_ps(b.high, a.high, _mm256_cmp_ps(m.high, none, _CMP_EQ_OQ))};
}
LANES_INLINE float lanes_tree16(lanes s) { return rf_tree8(_mm256_add_ps(s.low, s.high)); }

LANES_INLINE __m256 bf16_to_f32(__m128i v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}
/* Of sixteen halves in a vector. */
LANES_INLINE lanes lanes_of_f16(__m256i v) {
    return (lanes){_mm256_cvtph_ps(_mm256_castsi256_si128(v)),
                   _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1))};
}
LANES_INLINE lanes lanes_of_bf16(__m256i v) {
    return (lanes){bf16_to_f32(_mm256_castsi256_si128(v)),
                   bf16_to_f32(_mm256_extracti128_si256(v, 1))};
}
LANES_INLINE lanes lanes_load_f16(const uint8_t *p) {
    const __m128i *v = (const __m128i *)(const void *)p;
    return (lanes){_mm256_cvtph_ps(_mm_loadu_si128(v)), _mm256_cvtph_ps(_mm_loadu_si128(v + 1))};
}
LANES_INLINE lanes lanes_load_bf16(const uint8_t *p) {
    const __m128i *v = (const __m128i *)(const void *)p;
    return (lanes){bf16_to_f32(_mm_loadu_si128(v)), bf16_to_f32(_mm_loadu_si128(v + 1))};
}
LANES_INLINE lanes lanes_of_i8(__m128i v) {
    return (lanes){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)),
                   _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)))};
}

/* A register of its own, where tiles of them are wanted. */
typedef __m256 vec;
enum { VEC = 8 };
LANES_INLINE vec vec_set(float x) { return _mm256_set1_ps(x); }
LANES_INLINE vec vec_load(const void *p) { return _mm256_loadu_ps((const float *)p); }
LANES_INLINE vec vec_load_f16(const uint8_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
LANES_INLINE vec vec_load_bf16(const uint8_t *p) {
    return bf16_to_f32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
LANES_INLINE void vec_store(float *p, vec v) { _mm256_storeu_ps(p, v); }
LANES_INLINE vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
LANES_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }

/* Integers likewise; a dot product adds that of two pairs of 16 bits in each. */
typedef __m256i ints;
LANES_INLINE ints ints_zero(void) { return _mm256_setzero_si256(); }
LANES_INLINE ints ints_set(int32_t x) { return _mm256_set1_epi32(x); }
LANES_INLINE ints ints_load(const int32_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
LANES_INLINE ints ints_dot(ints sum, ints a, ints b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
LANES_INLINE vec ints_floats(ints x) { return _mm256_cvtepi32_ps(x); }
