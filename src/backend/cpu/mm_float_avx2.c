/* mm_float_avx2.c - products of float weights with AVX2: sixteen lanes are two vectors. */
#include "backend/cpu/lanes_avx2.h"

#include "backend/cpu/mm_decode_avx.h"

typedef __m256 vec;
#define VEC_LANES        8
#define TILE_NT          3
#define STRETCH          1024
#define PANEL_BYTES      (288 << 10)
#define vec_zero()       _mm256_setzero_ps()
#define vec_load(p)      _mm256_loadu_ps(p)
#define vec_load_f16(p)  _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define vec_load_bf16(p) bf16_to_f32(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define vec_store(p, v)  _mm256_storeu_ps(p, v)
#define vec_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define trees_of_8       rf_trees_of_8
#define IN_REGISTER(v)   __asm__("" : "+x"(v))
#include "backend/cpu/mm_float.h"

void rf_mm_float_avx2(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_float(mm, begin, end, scratch);
}

void rf_mm_lay_out_avx2(const rf_mm_input *a, uint32_t first) { lay_out_floats(a, first); }
