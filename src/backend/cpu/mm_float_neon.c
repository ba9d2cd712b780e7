/* mm_float_neon.c - products of float weights with NEON: sixteen lanes are four vectors. */
#include "backend/cpu/lanes_neon.h"

#define TILE_NT                          6
#define STRETCH                          512
#define PANEL_BYTES                      (192 << 10)
#define vec_zero()                       vdupq_n_f32(0)
#define decode_blocks(type, src, dst, n) ((size_t)0) /* decode() does */

LANES_INLINE void trees_of_8(const float *s, float *out) {
    for (int i = 0; i < 8; i++)
        out[i] = lanes_tree16(lanes_load(s + 16 * i));
}
#define IN_REGISTER(v) __asm__("" : "+w"(v))
#include "backend/cpu/mm_float.h"

void rf_mm_float_neon(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_float(mm, begin, end, scratch);
}

void rf_mm_lay_out_neon(const rf_mm_input *a, uint32_t first, uint32_t begin, uint32_t end) {
    lay_out_floats(a, first, begin, end);
}
