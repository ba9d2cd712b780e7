/* mm_rows_avx512.c - integer products of few activation rows with AVX-512 VNNI.  Vectors of 256 bits,
 * of which three run at a time, and two of 512; but for code books, whose points 512 gather best. */
#include "backend/cpu/mm_grid_avx512.h"

#define rows_grid      rf_rows_grid
#define rows_dot_bytes _mm256_dpbusd_epi32
#define rows_dot_pairs _mm256_dpwssd_epi32
#include "backend/cpu/mm_rows.h"

void rf_mm_rows_avx512(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_rows(mm, begin, end, scratch);
}
