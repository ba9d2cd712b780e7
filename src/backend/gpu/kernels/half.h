/* half.h - products of 16-bit floats on matrix units: what their kernels share, and NVIDIA's units (AMD's:
 * half_square.h); attention (attend_halves.hip, attend_halves_tile.hip) has items' queries or exponentials for
 * activation rows, and keys or values for weights.
 *
 * An activation row is rounded to the weights' format.  An output is one chain over the columns,
 * sixteen at a time: acc = mma(w, x, acc) from 0, as the unit sums products of 16-bit floats in f32,
 * however many rows there are.  So a row's outputs are the same in any company, but they are this
 * device's own (docs/arithmetic.md, the end of the matrix product); a backend opened without fast_floats does
 * not use these kernels.  Columns 16i .. 16i + 15 are one step everywhere (of AMD's gfx9 alone two steps have
 * halves of 32), since the order of steps makes bits and that inside a step does not (where a step is one
 * instruction of the device; where it is two, all kernels here give each the same eight).
 *
 * F16 has no room for all of f32's range: a row in F16 is multiplied by the power of two that brings its
 * largest number to 2^14 .. 2^15, and its outputs are multiplied by that power's inverse. */
#pragma once
#include "backend/gpu/kernels/canon.h"
#include "backend/gpu/kernels/matrix.h"
#include "backend/gpu/tile.h"

#if !defined(RF_AMD) || defined(RF_MATRIX)
RF_DEVICE uint32_t half_bits_of(float f, uint32_t form) {
    return form == RF_GPU_F16 ? rf_f16_of(f) : rf_bf16_of(f);
}
RF_DEVICE uint32_t half_two(float low, float high, uint32_t form) {
#if defined(RF_NVIDIA)
    uint32_t both;
    if (form == RF_GPU_F16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
#else
    return half_bits_of(low, form) | half_bits_of(high, form) << 16;
#endif
}

/* What a row of F16 whose largest |x| has these bits is multiplied with, and its inverse; 1 for what is
 * not finite. */
RF_DEVICE float half_down(uint32_t most) {
    const uint32_t exponent = most >> 23;
    if (exponent == 255) return 1.0f;
    const uint32_t up = 127 + 127 + 14 - exponent;
    return rf_float_of((up < 253 ? up : 253) << 23);
}
RF_DEVICE float half_up(float down) { return rf_float_of((254u << 23) - rf_bits_of(down)); }

#if !defined(RF_AMD)
#define HALF_LN_2 0.693147180559945309f
/* What a query is multiplied with before it is rounded. */
RF_DEVICE float half_query_scale(const rf_gpu_attend_args *a) { return a->scale * RF_EXPF_LOG2E; }
/* A score to base two with a softcap and what a mask adds. */
RF_DEVICE float half_capped(float score, float softcap, float mask) {
    float s = score * HALF_LN_2;
    if (softcap > 0) s = softcap * rf_tanh32(s / softcap);
    return (s + mask) * RF_EXPF_LOG2E;
}
/* The larger one, or what is no number. */
RF_DEVICE float half_larger(float a, float b) {
#if defined(RF_NVIDIA)
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#else
    return a > b || a != a ? a : b;
#endif
}
/* How attention makes exponentials of scores, the largest of which is most, and which times unit are logarithms to base
 * two: two to the power of score * unit + less.  A unit is a power of two, so that the largest one's is 0. */
typedef struct half_soft {
    float unit, less;
} half_soft;
RF_DEVICE half_soft half_soft_of(float most, float unit) {
    const half_soft s = {unit, most == -__builtin_inff() ? 0.0f : -(most * unit)};
    return s;
}
RF_DEVICE float half_exp(half_soft s, float score) {
    return rf_exp2_by_unit(rf_fma(score, s.unit, s.less));
}
#endif

/* Stages in shared memory: rows of `step` columns, a multiple of 64, whose pieces of sixteen bytes lie at
 * their number xor the row's (mod 8), so that eight rows' pieces lie in all banks. */
RF_DEVICE uint32_t half_piece(uint32_t row, uint32_t piece, uint32_t step) {
    return row * (2 * step) + (piece ^ (row & 7)) * 16;
}
#endif

#if !defined(RF_AMD)
/* Four squares of eight rows by eight columns for an instruction, which eight threads each name the rows of:
 * thread 4g + t gets columns 2t and 2t + 1 of row g of each. */
#if defined(RF_NVIDIA)
typedef uint32_t half_at; /* a place in shared memory */
RF_DEVICE half_at half_at_of(const uint8_t *p) { return rf_shared_at(p); }
RF_DEVICE void half_load(uint32_t v[4], half_at at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(at)
                 : "memory");
}
/* The same of squares that lie with rows and columns exchanged: thread 4g + t gets rows 2t and 2t + 1 of
 * column g of each. */
RF_DEVICE void half_load_turned(uint32_t v[4], half_at at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(at)
                 : "memory");
}
/* Sixteen bytes into shared memory, or zeros; there after rf_copy_wait and rf_warp_sync for its warp. */
RF_DEVICE void half_copy(half_at to, const void *from, int is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(is_there ? 16 : 0)
                 : "memory");
}
#define HALF_MULTIPLY(type)                                            \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 " \
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"        \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])               \
        : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x[0]), "r"(x[1]))
/* c += w x of sixteen weight rows by eight activation rows: thread 4g + t has weight rows g (c[0], c[1]) and
 * g + 8 by activation rows 2t and 2t + 1. */
RF_DEVICE void half_multiply(float c[4], const uint32_t w[4], const uint32_t x[2], uint32_t form) {
    if (form == RF_GPU_F16)
        HALF_MULTIPLY("f16");
    else
        HALF_MULTIPLY("bf16");
}
#else
typedef uint8_t *half_at;
RF_DEVICE half_at half_at_of(const uint8_t *p) { return (half_at)(uintptr_t)p; }
RF_DEVICE void half_copy(half_at to, const void *from, int is_there) {
    const rf_u4 zeros = {{0, 0, 0, 0}};
    *(rf_u4 *)(void *)to = is_there ? *(const rf_u4 *)from : zeros;
}
enum { HALF_MOST_THREADS = 512 }; /* of a block */
static _Thread_local const uint8_t *half_named[HALF_MOST_THREADS];
/* A row of square number i. */
RF_DEVICE const uint8_t *half_row(uint32_t i, uint32_t row) {
    return half_named[rf_tid() / 32 * 32 + 8 * i + row];
}
RF_DEVICE void half_load(uint32_t v[4], half_at at) {
    const uint32_t g = rf_tid() % 32 / 4, t = rf_tid() % 4;
    half_named[rf_tid()] = at;
    rf_warp_sync();
    for (uint32_t i = 0; i < 4; i++)
        memcpy(&v[i], half_row(i, g) + 4 * t, 4);
    rf_warp_sync();
}
RF_DEVICE void half_load_turned(uint32_t v[4], half_at at) {
    const uint32_t g = rf_tid() % 32 / 4, t = rf_tid() % 4;
    half_named[rf_tid()] = at;
    rf_warp_sync();
    for (uint32_t i = 0; i < 4; i++) {
        uint16_t two[2];
        memcpy(&two[0], half_row(i, 2 * t) + 2 * g, 2);
        memcpy(&two[1], half_row(i, 2 * t + 1) + 2 * g, 2);
        v[i] = two[0] | (uint32_t)two[1] << 16;
    }
    rf_warp_sync();
}
RF_DEVICE float half_number(uint32_t word, uint32_t i, uint32_t form) {
    const uint16_t h = (uint16_t)(word >> 16 * i);
    return form == RF_GPU_F16 ? rf_f16_at(h) : rf_float_of((uint32_t)h << 16);
}
/* Sixteen products and c in f64, whose sum is rounded once. */
RF_DEVICE void half_multiply(float c[4], const uint32_t w[4], const uint32_t x[2], uint32_t form) {
    static _Thread_local struct { double w[4][2], x[2][2]; } of[HALF_MOST_THREADS];
    const uint32_t tid = rf_tid(), warp = tid / 32 * 32, g = tid % 32 / 4, t = tid % 4;
    for (uint32_t i = 0; i < 8; i++)
        of[tid].w[i / 2][i % 2] = (double)half_number(w[i / 2], i % 2, form);
    for (uint32_t i = 0; i < 4; i++)
        of[tid].x[i / 2][i % 2] = (double)half_number(x[i / 2], i % 2, form);
    rf_sync();
    for (uint32_t i = 0; i < 4; i++) {
        double sum = (double)c[i];
        for (uint32_t k = 0; k < 16; k++) {
            const uint32_t by = k % 8 / 2, high = k / 8;
            sum += of[warp + 4 * g + by].w[i / 2 + 2 * high][k % 2] *
                   of[warp + 4 * (2 * t + i % 2) + by].x[high][k % 2];
        }
        c[i] = (float)sum;
    }
    rf_sync();
}
#endif
#endif
