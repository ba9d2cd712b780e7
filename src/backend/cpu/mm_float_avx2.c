/* mm_float_avx2.c - products of float weights with AVX2: sixteen lanes are two vectors. */
#include "backend/cpu/lanes_avx2.h"

#define TILE_NR 3
#define TILE_NT 2
#include "backend/cpu/mm_float.h"

void rf_mm_float_avx2(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_float(mm, begin, end, scratch);
}
