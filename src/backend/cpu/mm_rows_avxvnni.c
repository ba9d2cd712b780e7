/* mm_rows_avxvnni.c - integer products of few activation rows with AVX-VNNI. */
#define rows_dot_bytes _mm256_dpbusd_avx_epi32
#define rows_dot_pairs _mm256_dpwssd_avx_epi32
#include "backend/cpu/mm_rows.h"

void rf_mm_rows_avxvnni(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_rows(mm, begin, end, scratch);
}
