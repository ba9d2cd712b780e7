/* mm_float_neon.c - products of float weights with NEON: sixteen lanes are four vectors. */
#include <arm_neon.h>
#include <stdint.h>

typedef float32x4x4_t lanes;

#define LANES_INLINE static inline __attribute__((always_inline))

LANES_INLINE lanes lanes_zero(void) {
    float32x4_t z = vdupq_n_f32(0);
    return (lanes){{z, z, z, z}};
}
LANES_INLINE lanes lanes_load(const void *p) {
    const uint8_t *b = p; /* no alignment is promised */
    lanes s;
    for (int i = 0; i < 4; i++)
        s.val[i] = vreinterpretq_f32_u8(vld1q_u8(b + 16 * i));
    return s;
}
LANES_INLINE void lanes_store(float *p, lanes s) {
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, s.val[i]);
}
LANES_INLINE lanes lanes_load_f16(const uint8_t *p) {
    lanes s;
    for (int i = 0; i < 4; i++)
        s.val[i] = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * i)));
    return s;
}
LANES_INLINE lanes lanes_load_bf16(const uint8_t *p) {
    lanes s;
    for (int i = 0; i < 4; i++)
        s.val[i] = vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p + 8 * i)), 16));
    return s;
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    for (int i = 0; i < 4; i++)
        c.val[i] = vfmaq_f32(c.val[i], a.val[i], b.val[i]);
    return c;
}
LANES_INLINE float lanes_tree16(lanes s) {
    float32x4_t v = vaddq_f32(vaddq_f32(s.val[0], s.val[2]), vaddq_f32(s.val[1], s.val[3]));
    float32x2_t h = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}

#define TILE_NR 2
#define TILE_NT 2
#include "backend/cpu/mm_float.h"

void rf_mm_float_neon(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_float(mm, begin, end, scratch);
}
