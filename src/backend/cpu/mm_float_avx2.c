/* mm_float_avx2.c - products of float weights with AVX2: sixteen lanes are two vectors. */
#include <immintrin.h>
#include <stdint.h>

typedef struct lanes {
    __m256 low, high;
} lanes;

#define LANES_INLINE static inline __attribute__((always_inline))

LANES_INLINE lanes lanes_zero(void) { return (lanes){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
LANES_INLINE lanes lanes_load(const void *p) {
    const __m256i *v = (const __m256i *)p;
    return (lanes){_mm256_castsi256_ps(_mm256_loadu_si256(v)),
                   _mm256_castsi256_ps(_mm256_loadu_si256(v + 1))};
}
LANES_INLINE void lanes_store(float *p, lanes s) {
    _mm256_storeu_ps(p, s.low);
    _mm256_storeu_ps(p + 8, s.high);
}
LANES_INLINE lanes lanes_load_f16(const uint8_t *p) {
    const __m128i *v = (const __m128i *)(const void *)p;
    return (lanes){_mm256_cvtph_ps(_mm_loadu_si128(v)), _mm256_cvtph_ps(_mm_loadu_si128(v + 1))};
}
LANES_INLINE __m256 widen_bf16(__m128i v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}
LANES_INLINE lanes lanes_load_bf16(const uint8_t *p) {
    const __m128i *v = (const __m128i *)(const void *)p;
    return (lanes){widen_bf16(_mm_loadu_si128(v)), widen_bf16(_mm_loadu_si128(v + 1))};
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    return (lanes){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
LANES_INLINE float lanes_tree16(lanes s) {
    __m256 v = _mm256_add_ps(s.low, s.high);
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

#define TILE_NR 3
#define TILE_NT 2
#include "backend/cpu/mm_float.h"

void rf_mm_float_avx2(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_float(mm, begin, end, scratch);
}
