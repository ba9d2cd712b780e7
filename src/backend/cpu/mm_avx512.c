/* mm_avx512.c - AVX-512 with VNNI: tiles of sixteen weight rows (mm_vnni.h). */
#include "backend/cpu/mm_vec_avx512.h"

#define VNNI_VECS   2
#define VNNI_PACK   rf_mm_pack_avx512
#define VNNI_FLOATS rf_mm_float_avx512
#define VNNI_ROWS   rf_mm_rows_avx512
#define VNNI_FEW    rf_mm_few_avx512
#include "backend/cpu/mm_vnni.h"

void rf_mm_avx512(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul(mm, begin, end, scratch);
}

void rf_cpu_mm_avx512(rf_cpu_kernels *k) {
    k->matmul = matmul;
    k->lay_out = rf_mm_lay_out_avx512;
}
