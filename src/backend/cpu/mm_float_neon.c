/* mm_float_neon.c - products of float weights with NEON: sixteen lanes are four vectors. */
#include "backend/cpu/lanes_neon.h"

typedef float32x4_t vec;
#define VEC_LANES                        4
#define TILE_NT                          6
#define STRETCH                          512
#define PANEL_BYTES                      (192 << 10)
#define vec_zero()                       vdupq_n_f32(0)
#define vec_load(p)                      vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)(p)))
#define vec_load_f16(p)                  vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)))
#define vec_load_bf16(p)                 vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16))
#define vec_store(p, v)                  vst1q_f32(p, v)
#define vec_fma(a, b, c)                 vfmaq_f32(c, a, b)
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

void rf_mm_lay_out_neon(const rf_mm_input *a, uint32_t first) { lay_out_floats(a, first); }
