/* mm_avxvnni.c - AVX-VNNI, which processors without AVX-512 have: tiles of eight weight rows
 * (mm_vnni.h). */
#include "backend/cpu/mm_vec_avxvnni.h"

#define VNNI_VECS   1
#define VNNI_PACK   rf_mm_pack_avx2
#define VNNI_FLOATS rf_mm_float_avx2
#define VNNI_ROWS   rf_mm_rows_avxvnni
#include "backend/cpu/mm_vnni.h"

void rf_cpu_mm_avxvnni(rf_cpu_kernels *k) { k->matmul = matmul; }
