/* mm_float_avx512.c - products of float weights with AVX-512: sixteen lanes are one vector. */
#include "backend/cpu/lanes_avx512.h"

#include "backend/cpu/mm_decode_avx.h"

#define TILE_NT     6
#define STRETCH     1024
#define PANEL_BYTES RF_MM_FLOAT_BYTES
#define vec_zero()  _mm512_setzero_ps()

/* tree16 of eight times sixteen lanes, each step on two of what the one before it left. */
LANES_INLINE void trees_of_8(const float *s, float *out) {
    __m512 v[8];
    RF_UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = _mm512_loadu_ps(s + 16 * i);
    RF_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x44),
                             _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xEE));
    RF_UNROLL
    for (int i = 0; i < 2; i++)
        v[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x88),
                             _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xDD));
    v[0] = _mm512_add_ps(_mm512_shuffle_ps(v[0], v[1], 0x44), _mm512_shuffle_ps(v[0], v[1], 0xEE));
    v[0] = _mm512_add_ps(v[0], _mm512_permute_ps(v[0], 0xB1));
    /* quarter i of v[0] holds outputs i and, behind it, 4 + i */
    const __m512i at = _mm512_castsi256_si512(_mm256_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14));
    _mm256_storeu_ps(out, _mm512_castps512_ps256(_mm512_permutexvar_ps(at, v[0])));
}
#define IN_REGISTER(v) __asm__("" : "+v"(v))
#include "backend/cpu/mm_float.h"

void rf_mm_float_avx512(const rf_mm *mm, uint32_t begin, uint32_t end, void *scratch) {
    matmul_float(mm, begin, end, scratch);
}

void rf_mm_lay_out_avx512(const rf_mm_input *a, uint32_t first, uint32_t begin, uint32_t end) {
    lay_out_floats(a, first, begin, end);
}
