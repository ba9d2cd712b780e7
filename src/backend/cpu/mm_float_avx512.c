/* mm_float_avx512.c - products of float weights with AVX-512: sixteen lanes are one vector. */
#include "backend/cpu/lanes_avx512.h"

#include "backend/cpu/mm_decode_avx.h"

typedef __m512 vec;
#define VEC_LANES        16
#define TILE_NT          6
#define vec_zero()       _mm512_setzero_ps()
#define vec_load(p)      _mm512_loadu_ps(p)
#define vec_load_f16(p)  lanes_load_f16(p)
#define vec_load_bf16(p) lanes_load_bf16(p)
#define vec_store(p, v)  _mm512_storeu_ps(p, v)
#define vec_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define trees_of_8       rf_trees_of_8
#define float_prefetch   rf_prefetch
#include "backend/cpu/mm_float.h"

void rf_mm_float_avx512(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_float(mm, begin, end, scratch);
}
