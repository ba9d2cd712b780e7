/* mm_pack_avx512.c - panels of sixteen rows in lanes; see mm_quads.h. */
#include "backend/cpu/mm_grid_avx512.h"
#include "backend/cpu/mm_vec_avx512.h"

#define pack_code_book rf_store_grid_block
#include "backend/cpu/mm_quads.h"

void rf_mm_pack_avx512(const rf_mm_pack *p) { pack_panel(p); }
