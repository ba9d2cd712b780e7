/* mm_rows_avx2.c - integer products of few activation rows with AVX2. */
#include "backend/cpu/mm_rows.h"

void rf_mm_rows_avx2(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_rows(mm, begin, end, scratch);
}
