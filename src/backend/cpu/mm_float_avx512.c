/* mm_float_avx512.c - products of float weights with AVX-512: sixteen lanes are one vector. */
#include "backend/cpu/lanes_avx512.h"

#define TILE_NR 4
#define TILE_NT 4
#include "backend/cpu/mm_float.h"

void rf_mm_float_avx512(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_float(mm, begin, end, scratch);
}
