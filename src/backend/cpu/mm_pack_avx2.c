/* mm_pack_avx2.c - panels of eight rows in lanes; see mm_panels.h. */
#include "backend/cpu/mm_vec_avx2.h"

#include "backend/cpu/mm_panels.h"

void rf_mm_sums16_avx2(const rf_mm_input *a, int16_t *dst) {
    size_t n = (size_t)a->n_rows * (a->n_cols / 16);
    for (size_t i = 0; i < n; i += 16) {
        __m256i v = _mm256_packs_epi32(rf_load_256(a->sum + i), rf_load_256(a->sum + i + 8));
        _mm256_storeu_si256((__m256i *)(dst + i), _mm256_permute4x64_epi64(v, 0xd8));
    }
}

void rf_mm_pack_avx2(const rf_mm_pack *p) { pack_panel(p); }
