/* mm_float_avx2.c - products of float weights with AVX2: sixteen lanes are two vectors. */
#include "backend/cpu/lanes_avx2.h"

#include "backend/cpu/mm_decode_avx.h"

#define TILE_NT        3
#define STRETCH        1024
#define PANEL_BYTES    (288 << 10)
#define vec_zero()     _mm256_setzero_ps()
#define trees_of_8     rf_trees_of_8
#define IN_REGISTER(v) __asm__("" : "+x"(v))
#include "backend/cpu/mm_float.h"

void rf_mm_float_avx2(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_float(mm, begin, end, scratch);
}

void rf_mm_lay_out_avx2(const rf_mm_input *a, uint32_t first, uint32_t begin, uint32_t end) {
    lay_out_floats(a, first, begin, end);
}
