/* mm_vec_avxvnni.h - what tiles need beside mm_vec_avx2.h: the arithmetic of eight lanes, with
 * AVX-VNNI. */
#pragma once
#include "backend/cpu/mm_vec_avx2.h"

RF_INLINE vec vec_dot_bytes(vec sum, vec u, vec s) { return _mm256_dpbusd_avx_epi32(sum, u, s); }
RF_INLINE vec vec_dot_pairs(vec sum, vec a, vec b) { return _mm256_dpwssd_avx_epi32(sum, a, b); }

RF_INLINE vec_floats vec_floats_set(float f) { return _mm256_set1_ps(f); }
RF_INLINE vec_floats vec_to_floats(vec v) { return _mm256_cvtepi32_ps(v); }
RF_INLINE vec_floats vec_floats_mul(vec_floats a, vec_floats b) { return _mm256_mul_ps(a, b); }
RF_INLINE vec_floats vec_fma(vec_floats a, vec_floats b, vec_floats c) {
    return _mm256_fmadd_ps(a, b, c);
}
/* The first n lanes, n >= 1. */
RF_INLINE __m256i lanes_below(uint32_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < VEC_ROWS ? (int)n : VEC_ROWS),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
RF_INLINE vec_floats vec_load_floats_n(const float *p, uint32_t n) {
    return _mm256_maskload_ps(p, lanes_below(n));
}
RF_INLINE void vec_store_floats_n(float *p, uint32_t n, vec_floats v) {
    _mm256_maskstore_ps(p, lanes_below(n), v);
}
