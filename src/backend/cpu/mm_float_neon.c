/* mm_float_neon.c - products of float weights with NEON: sixteen lanes are four vectors. */
#include "backend/cpu/lanes_neon.h"

#define TILE_NR 2
#define TILE_NT 2
#include "backend/cpu/mm_float.h"

void rf_mm_float_neon(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_float(mm, begin, end, scratch);
}
