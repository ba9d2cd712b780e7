/* matrix.h - the matrix units of AMD GPUs, for products of signed bytes summed in exact integers and for
 * those of 16-bit floats summed in f32: WMMA on gfx11 and gfx12 (waves of 32), MFMA on gfx9 from gfx908 on
 * (waves of 64).  RF_MATRIX is defined where they are.
 *
 * A wave multiplies 16 weight rows with 16 activation rows.  Lane l brings MATRIX_WORDS words, of four
 * columns each, of weight row l % 16 and of activation row matrix_x_row(l); it gets the results of weight
 * row l % 16 with activation rows MATRIX_OUT * (l / 16) .. + MATRIX_OUT - 1.  Lanes 16 apart bring other
 * words of a row, but on gfx11 the same.  Which columns a lane brings is the same for both operands and
 * all are summed, so nothing depends on the order of columns that an instruction has in mind.
 *
 * Of 16-bit floats a lane brings MATRIX_HALF_WORDS words of two columns each, likewise; sixteen columns are
 * one step.  How a card rounds inside a step is its own: kernels that must agree bit for bit give a step the
 * same columns, in the same places of its operands. */
#pragma once
#include "backend/gpu/kernels/port.h"

#if defined(RF_AMD)
#if defined(__GFX11__)
#define RF_MATRIX 1
enum { MATRIX_LANES = 32, MATRIX_OUT = 8, MATRIX_WORDS = 4, MATRIX_PARTS = 1 };
#elif defined(__GFX12__)
#define RF_MATRIX 1
enum { MATRIX_LANES = 32, MATRIX_OUT = 8, MATRIX_WORDS = 2, MATRIX_PARTS = 2 };
#elif defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__) || \
    defined(__gfx9_4_generic__)
#define RF_MATRIX 1
#define RF_MFMA   1
#if !defined(__gfx908__) && !defined(__gfx90a__)
#define RF_MATRIX_32 1 /* one instruction takes 32 columns, and none takes 16 */
#endif
enum { MATRIX_LANES = 64, MATRIX_OUT = 4, MATRIX_WORDS = 1, MATRIX_PARTS = 4 };
#endif
#endif

#if defined(RF_MATRIX)
typedef int32_t matrix_sums __attribute__((ext_vector_type(MATRIX_OUT)));

/* The lane's first word of four in each sixteen columns. */
RF_DEVICE uint32_t matrix_first_word(uint32_t lane) {
    return MATRIX_WORDS * (lane / 16 % MATRIX_PARTS);
}

/* gfx11 gives row 2e + l / 16 of its first operand to result e: the rows are brought in that order. */
RF_DEVICE uint32_t matrix_x_row(uint32_t lane) {
#if defined(__GFX11__)
    return lane % 2 * 8 + lane % 16 / 2;
#else
    return lane % 16;
#endif
}

/* The wave's number in the block, known to be the same for all its lanes. */
RF_DEVICE uint32_t matrix_wave(void) {
    return (uint32_t)__builtin_amdgcn_readfirstlane((int)(rf_tid() / MATRIX_LANES));
}

/* w, x: the lane's words of 32 columns: MATRIX_WORDS of the first sixteen, as many of the others.
 * Sixteen of them, number h, onto c. */
RF_DEVICE matrix_sums matrix_multiply_16(matrix_sums c, const uint32_t *w, const uint32_t *x,
                                         int h) {
#if defined(RF_MATRIX_32) /* the other sixteen weights are zero */
    const uint64_t a = (uint64_t)x[1] << 32 | x[0], b = h ? (uint64_t)w[1] << 32 : w[0];
    return __builtin_amdgcn_mfma_i32_16x16x32_i8((long)a, (long)b, c, 0, 0, 0);
#else
    w += h * MATRIX_WORDS;
    x += h * MATRIX_WORDS;
#if defined(__GFX11__)
    typedef int32_t words __attribute__((ext_vector_type(4)));
    const words a = {(int32_t)x[0], (int32_t)x[1], (int32_t)x[2], (int32_t)x[3]};
    const words b = {(int32_t)w[0], (int32_t)w[1], (int32_t)w[2], (int32_t)w[3]};
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, c, false);
#elif defined(__GFX12__)
    typedef int32_t words __attribute__((ext_vector_type(2)));
    const words a = {(int32_t)x[0], (int32_t)x[1]}, b = {(int32_t)w[0], (int32_t)w[1]};
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, c, false);
#else
    return __builtin_amdgcn_mfma_i32_16x16x16i8((int32_t)x[0], (int32_t)w[0], c, 0, 0, 0);
#endif
#endif
}

/* All 32 columns, onto start. */
RF_DEVICE matrix_sums matrix_multiply_32(const uint32_t *w, const uint32_t *x, int32_t start) {
    const matrix_sums all = start;
#if defined(RF_MATRIX_32)
    const uint64_t a = (uint64_t)x[1] << 32 | x[0], b = (uint64_t)w[1] << 32 | w[0];
    return __builtin_amdgcn_mfma_i32_16x16x32_i8((long)a, (long)b, all, 0, 0, 0);
#else
    return matrix_multiply_16(matrix_multiply_16(all, w, x, 0), w, x, 1);
#endif
}

/* 16-bit floats ----------------------------------------------------------------------------------*/

enum { MATRIX_HALF_WORDS = 2 * MATRIX_WORDS };
typedef float matrix_floats __attribute__((ext_vector_type(MATRIX_OUT)));

/* Sixteen columns onto c; form, a constant: RF_GPU_F16 or RF_GPU_BF16. */
RF_DEVICE matrix_floats matrix_multiply_halves(matrix_floats c, const uint32_t *w,
                                               const uint32_t *x, uint32_t form) {
    typedef short words __attribute__((ext_vector_type(2 * MATRIX_HALF_WORDS)));
    typedef _Float16 halves __attribute__((ext_vector_type(2 * MATRIX_HALF_WORDS)));
    words a, b;
    __builtin_memcpy(&a, x, sizeof a);
    __builtin_memcpy(&b, w, sizeof b);
    const halves fa = __builtin_bit_cast(halves, a), fb = __builtin_bit_cast(halves, b);
#if defined(__GFX11__)
    if (form == RF_GPU_F16) return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(fa, fb, c);
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c);
#elif defined(__GFX12__)
    if (form == RF_GPU_F16) return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(fa, fb, c);
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c);
#elif defined(__gfx908__) /* bf16 of eight columns: a lane's first, then its second */
    if (form == RF_GPU_F16) return __builtin_amdgcn_mfma_f32_16x16x16f16(fa, fb, c, 0, 0, 0);
    c = __builtin_amdgcn_mfma_f32_16x16x8bf16(a.xy, b.xy, c, 0, 0, 0);
    return __builtin_amdgcn_mfma_f32_16x16x8bf16(a.zw, b.zw, c, 0, 0, 0);
#else
    if (form == RF_GPU_F16) return __builtin_amdgcn_mfma_f32_16x16x16f16(fa, fb, c, 0, 0, 0);
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0);
#endif
}
#endif
