/* mm_float_avx512.c - products of float weights with AVX-512: sixteen lanes are one vector. */
#include <immintrin.h>
#include <stdint.h>

typedef __m512 lanes;

#define LANES_INLINE static inline __attribute__((always_inline))

LANES_INLINE lanes lanes_zero(void) { return _mm512_setzero_ps(); }
LANES_INLINE lanes lanes_load(const void *p) { return _mm512_loadu_ps(p); }
LANES_INLINE void lanes_store(float *p, lanes s) { _mm512_storeu_ps(p, s); }
LANES_INLINE lanes lanes_load_f16(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
LANES_INLINE lanes lanes_load_bf16(const uint8_t *p) {
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) { return _mm512_fmadd_ps(a, b, c); }
LANES_INLINE float lanes_tree16(lanes s) {
    __m256 v = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

#define TILE_NR 4
#define TILE_NT 4
#include "backend/cpu/mm_float.h"

void rf_mm_float_avx512(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_float(mm, begin, end, scratch);
}
