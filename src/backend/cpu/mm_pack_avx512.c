/* mm_pack_avx512.c - panels of sixteen rows in lanes; see mm_panels.h. */
#include "backend/cpu/mm_grid_avx512.h"
#include "backend/cpu/mm_vec_avx512.h"

/* In order of k, to memory. */
RF_INLINE void unpack_code_book(rf_mm_format f, const void *src, uint8_t *q) {
    __m512i w[4];
    rf_load_quarters(f, src, w);
    RF_UNROLL
    for (int k = 0; k < 4; k++)
        _mm512_storeu_si512((void *)(q + 64 * k), w[k]);
}

#define pack_code_book unpack_code_book
#include "backend/cpu/mm_panels.h"

void rf_mm_pack_avx512(const rf_mm_pack *p) { pack_panel(p); }
