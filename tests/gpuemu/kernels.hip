/* kernels.hip - small kernels for the emulator's own tests: families of instructions, lanes, memory,
 * and planted mistakes. */
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
#include "cases.h"

#define DEV    static __attribute__((device)) inline __attribute__((always_inline))
#define SHARED __attribute__((shared))
#define KERNEL(n)                                                                            \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(1, n))) void
#define EXTERN_SHARED extern "C" SHARED

DEV u32 tid(void) { return __builtin_amdgcn_workitem_id_x(); }
DEV u32 bid(void) { return __builtin_amdgcn_workgroup_id_x(); }
DEV void barrier(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}
DEV u32 lane(void) { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
DEV i32 s(u32 v) { return (i32)v; }
DEV u32 absd(i32 v) { return v < 0 ? 0u - (u32)v : (u32)v; }
DEV u32 bswap(u32 v) { return __builtin_bswap32(v); }
DEV u32 min3(u32 a, u32 b, u32 c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); }
DEV u32 max3(u32 a, u32 b, u32 c) { return a > b ? (a > c ? a : c) : (b > c ? b : c); }
DEV float fma_(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
DEV float abs_(float x) { return __builtin_fabsf(x); }
DEV float sqrt_(float x) { return __builtin_sqrtf(x); }
DEV float floor_(float x) { return __builtin_floorf(x); }
DEV float ceil_(float x) { return __builtin_ceilf(x); }
DEV float trunc_(float x) { return __builtin_truncf(x); }
DEV float rint_(float x) { return __builtin_rintf(x); }
DEV float half(float x) { return (float)(_Float16)x; }
DEV u32 half_bits(float x) { return __builtin_bit_cast(u16, (_Float16)x); }

/* ---- families: y[case][thread] ---- */

KERNEL(128) t_int(u32 *y, const u32 *in) {
    u32 i = bid() * 128 + tid(), a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];
    u32 k = 0;
#define X(e) y[N_THREADS * k++ + i] = (u32)(e);
    INT_CASES(X)
#undef X
}

KERNEL(128) t_wide(u64 *y, const u32 *in) {
    u32 i = bid() * 128 + tid(), a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];
    u64 w = (u64)a << 32 | b;
    u32 k = 0;
#define X(e) y[N_THREADS * k++ + i] = (u64)(e);
    WIDE_CASES(X)
#undef X
}

KERNEL(128) t_float(float *out, const u32 *in) {
    u32 i = bid() * 128 + tid(), a = in[3 * i];
    float x = __builtin_bit_cast(float, a), y = __builtin_bit_cast(float, in[3 * i + 1]);
    float z = __builtin_bit_cast(float, in[3 * i + 2]);
    u32 k = 0;
#define X(e) out[N_THREADS * k++ + i] = (e);
    FLOAT_CASES(X)
#undef X
}

/* The scalar unit does the same work where every lane has the same input. */
KERNEL(64) t_scalar(u32 *y, u32 a, u32 b, u32 c) {
    u32 k = 0;
#define X(e) y[k++] = (u32)(e);
    INT_CASES(X)
#undef X
}

KERNEL(256) t_quotient(float *q, float *r, const float *x, const float *y, u32 n) {
    u32 i = bid() * 256 + tid();
    if (i >= n) return;
    q[i] = x[i] / y[i];
    r[i] = __builtin_sqrtf(x[i]);
}

/* ---- memory ---- */

KERNEL(256) t_widths(u8 *y, const u8 *x, u32 n) {
    u32 i = bid() * 256 + tid();
    if (i >= n) return;
    typedef u32 v4 __attribute__((ext_vector_type(4)));
    *(v4 *)(y + 64 * i) = *(const v4 *)(x + 64 * i);
    *(u64 *)(y + 64 * i + 16) = *(const u64 *)(x + 64 * i + 16);
    *(u32 *)(y + 64 * i + 24) = *(const u32 *)(x + 64 * i + 24);
    *(u16 *)(y + 64 * i + 28) = *(const u16 *)(x + 64 * i + 28);
    y[64 * i + 30] = x[64 * i + 30];
    *(i32 *)(y + 64 * i + 32) = *(const i8 *)(x + 64 * i + 32);
    *(i32 *)(y + 64 * i + 36) = *(const i16 *)(x + 64 * i + 36);
    *(u32 *)(y + 64 * i + 40) = (u32) * (const u16 *)(x + 64 * i + 40) << 16 | x[64 * i + 42];
}

KERNEL(256) t_global_atomics(u32 *y, float *f) {
    u32 v = bid() * 256 + tid();
    __hip_atomic_fetch_add(&y[0], 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_max(&y[1], v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_min((i32 *)&y[2], -(i32)v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_or(&y[3], 1u << (v & 31), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_add((u64 *)&y[4], 1ull << 30, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_add(f, 0.25f, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

KERNEL(256) t_lds_atomics(u32 *y) {
    SHARED u32 sum[4];
    u32 t = tid();
    if (t < 4) sum[t] = t == 2 ? 1000 : 0;
    barrier();
    __hip_atomic_fetch_add(&sum[0], t, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __hip_atomic_fetch_max(&sum[1], t * 7, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __hip_atomic_fetch_min(&sum[2], 300 - t, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __hip_atomic_fetch_xor(&sum[3], t * t, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    barrier();
    if (t < 4) y[4 * bid() + t] = sum[t];
}

EXTERN_SHARED u32 dynamic[];

/* Reverses each block through dynamic LDS; the sum of each block through a tree. */
KERNEL(256) t_lds(u32 *y, u32 *total, const u32 *x) {
    SHARED u32 tree[256];
    u32 t = tid(), i = bid() * 256 + t;
    dynamic[t] = x[i];
    tree[t] = x[i];
    barrier();
    y[i] = dynamic[255 - t];
    for (u32 step = 128; step; step >>= 1) {
        if (t < step) tree[t] += tree[t + step];
        barrier();
    }
    if (t == 0) total[bid()] = tree[0];
}

/* ---- lanes: y[case][lane], one wave of n lanes ---- */

KERNEL(64) t_lanes(u32 *y, const u32 *x, u32 n) {
    u32 l = lane(), v = x[tid()], k = 0;
#define PUT(e) y[64 * k++ + l] = (u32)(e);
    PUT(__builtin_amdgcn_ds_bpermute((i32)((l ^ 5) << 2), (i32)v))
    PUT(__builtin_amdgcn_ds_permute((i32)((l ^ 9) << 2), (i32)v))
    PUT(__builtin_amdgcn_ds_swizzle((i32)v, 0x041f))
    PUT(__builtin_amdgcn_ds_swizzle((i32)v, 0x8000 | 0x1b))
    PUT(__builtin_amdgcn_update_dpp(0, (i32)v, 0xb1, 15, 15, false))
    PUT(__builtin_amdgcn_update_dpp(77, (i32)v, 0x111, 15, 15, false))
    PUT(__builtin_amdgcn_update_dpp(77, (i32)v, 0x103, 15, 15, true))
    PUT(__builtin_amdgcn_update_dpp(0, (i32)v, 0x124, 15, 15, false))
    PUT(__builtin_amdgcn_update_dpp(0, (i32)v, 0x140, 15, 15, false))
    PUT(__builtin_amdgcn_update_dpp(0, (i32)v, 0x141, 15, 15, false))
    PUT(__builtin_amdgcn_readlane((i32)v, 3))
    PUT(__builtin_amdgcn_readfirstlane((i32)v))
    u64 odd = n == 64 ? __builtin_amdgcn_ballot_w64(v & 1) : 0;
#if !defined(__gfx906__) && !defined(__gfx90a__) && !defined(__gfx942__) && !defined(__gfx950__)
    odd = __builtin_amdgcn_ballot_w32(v & 1);
    PUT(__builtin_amdgcn_permlanex16(0, v, 0x76543210, 0xfedcba98, false, false))
    PUT(__builtin_amdgcn_permlane16(0, v, 0x01234567, 0x89abcdef, false, false))
#else
    PUT(v)
    PUT(v)
#endif
    PUT(odd)
    PUT(odd >> 32)
    if (v & 1) PUT(__builtin_amdgcn_readfirstlane((i32)v)) /* only odd lanes run */
}

/* ---- products of bytes and matrices: y = a [16][k] * b [16][k] transposed, one wave ---- */

DEV i32 dot4(i32 a, i32 b, i32 c) {
#if defined(__GFX11__) || defined(__GFX12__)
    return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#else
    return __builtin_amdgcn_sdot4(a, b, c, false);
#endif
}
KERNEL(256) t_dot4(i32 *y, const i32 *a, const i32 *b, const i32 *c) {
    y[tid()] = dot4(a[tid()], b[tid()], c[tid()]);
}

typedef int i32x2 __attribute__((ext_vector_type(2)));
typedef int i32x4 __attribute__((ext_vector_type(4)));
typedef int i32x8 __attribute__((ext_vector_type(8)));
typedef int i32x16 __attribute__((ext_vector_type(16)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x8 __attribute__((ext_vector_type(8)));
typedef _Float16 f16x16 __attribute__((ext_vector_type(16)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x8 __attribute__((ext_vector_type(8)));

KERNEL(64) t_matrix_i8(i32 *y, const i8 *a, const i8 *b) { /* k = 32 */
    u32 l = lane();
    [[maybe_unused]] u32 r = l & 15;
#if defined(__GFX11__)
    i32x8 d = {};
    for (u32 k = 0; k < 32; k += 16)
        d = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, *(const i32x4 *)(a + 32 * r + k), true,
                                                       *(const i32x4 *)(b + 32 * r + k), d, false);
    for (u32 e = 0; e < 8; e++) y[16 * (2 * e + (l >> 4)) + r] = d[e];
#elif defined(__GFX12__)
    i32x8 d = {};
    for (u32 k = 0; k < 32; k += 16)
        d = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(
            true, *(const i32x2 *)(a + 32 * r + k + 8 * (l >> 4)), true,
            *(const i32x2 *)(b + 32 * r + k + 8 * (l >> 4)), d, false);
    for (u32 e = 0; e < 8; e++) y[16 * (e + 8 * (l >> 4)) + r] = d[e];
#elif defined(__gfx942__) || defined(__gfx950__)
    i32x4 d = {};
    d = __builtin_amdgcn_mfma_i32_16x16x32_i8(*(const long *)(a + 32 * r + 8 * (l >> 4)),
                                              *(const long *)(b + 32 * r + 8 * (l >> 4)), d, 0, 0, 0);
    for (u32 e = 0; e < 4; e++) y[16 * (4 * (l >> 4) + e) + r] = d[e];
#elif defined(__gfx90a__)
    i32x4 d = {};
    for (u32 k = 0; k < 32; k += 16)
        d = __builtin_amdgcn_mfma_i32_16x16x16i8(*(const i32 *)(a + 32 * r + k + 4 * (l >> 4)),
                                                 *(const i32 *)(b + 32 * r + k + 4 * (l >> 4)), d,
                                                 0, 0, 0);
    for (u32 e = 0; e < 4; e++) y[16 * (4 * (l >> 4) + e) + r] = d[e];
#else
    for (u32 e = l; e < 256; e += 32) {
        i32 d = 0;
        for (u32 k = 0; k < 32; k += 4)
            d = dot4(*(const i32 *)(a + 32 * (e >> 4) + k), *(const i32 *)(b + 32 * (e & 15) + k), d);
        y[e] = d;
    }
#endif
}

KERNEL(64) t_matrix_f16(float *y, const _Float16 *a, const _Float16 *b) { /* k = 16 */
    u32 l = lane();
    [[maybe_unused]] u32 r = l & 15;
#if defined(__GFX11__)
    f32x8 d = {};
    d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(*(const f16x16 *)(a + 16 * r),
                                                   *(const f16x16 *)(b + 16 * r), d);
    for (u32 e = 0; e < 8; e++) y[16 * (2 * e + (l >> 4)) + r] = d[e];
#elif defined(__GFX12__)
    f32x8 d = {};
    d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(
        *(const f16x8 *)(a + 16 * r + 8 * (l >> 4)), *(const f16x8 *)(b + 16 * r + 8 * (l >> 4)), d);
    for (u32 e = 0; e < 8; e++) y[16 * (e + 8 * (l >> 4)) + r] = d[e];
#elif defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
    f32x4 d = {};
    d = __builtin_amdgcn_mfma_f32_16x16x16f16(*(const f16x4 *)(a + 16 * r + 4 * (l >> 4)),
                                              *(const f16x4 *)(b + 16 * r + 4 * (l >> 4)), d, 0, 0, 0);
    for (u32 e = 0; e < 4; e++) y[16 * (4 * (l >> 4) + e) + r] = d[e];
#else
    for (u32 e = l; e < 256; e += 32) {
        float d = 0;
        for (u32 k = 0; k < 16; k++) d += (float)a[16 * (e >> 4) + k] * (float)b[16 * (e & 15) + k];
        y[e] = d;
    }
#endif
}

/* y = c + a * b transposed of 32 rows each, k = 64, by the widest instruction. */
KERNEL(64) t_matrix_wide(i32 *y, const i8 *a, const i8 *b, const i32 *c) {
    u32 l = lane();
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
    [[maybe_unused]] u32 r = 64 * (l & 31), h = l >> 5;
    i32x16 d;
    for (u32 e = 0; e < 16; e++)
        d[e] = c[32 * (8 * (e >> 2) + 4 * h + (e & 3)) + (l & 31)];
#if defined(__gfx950__)
    for (u32 k = 0; k < 64; k += 32)
        d = __builtin_amdgcn_mfma_i32_32x32x32_i8(*(const i32x4 *)(a + r + k + 16 * h),
                                                  *(const i32x4 *)(b + r + k + 16 * h), d, 0, 0, 0);
#elif defined(__gfx942__)
    for (u32 k = 0; k < 64; k += 16)
        d = __builtin_amdgcn_mfma_i32_32x32x16_i8(*(const long *)(a + r + k + 8 * h),
                                                  *(const long *)(b + r + k + 8 * h), d, 0, 0, 0);
#else
    for (u32 k = 0; k < 64; k += 8)
        d = __builtin_amdgcn_mfma_i32_32x32x8i8(*(const i32 *)(a + r + k + 4 * h),
                                                *(const i32 *)(b + r + k + 4 * h), d, 0, 0, 0);
#endif
    for (u32 e = 0; e < 16; e++)
        y[32 * (8 * (e >> 2) + 4 * h + (e & 3)) + (l & 31)] = d[e];
#else
    for (u32 e = l & 31; e < 1024; e += 32) {
        i32 d = c[e];
        for (u32 k = 0; k < 64; k += 4)
            d = dot4(*(const i32 *)(a + 64 * (e >> 5) + k), *(const i32 *)(b + 64 * (e & 31) + k), d);
        y[e] = d;
    }
#endif
}

/* ---- planted mistakes ---- */

/* Matrix instructions with lane n off, and with operands that lanes 16 apart do not share. */
KERNEL(64) t_matrix_lane_off(i32 *y, const i32 *x, u32 n) {
    u32 l = lane();
    [[maybe_unused]] i32x4 a = *(const i32x4 *)(x + 4 * (n < 64 ? l & 15 : l));
    if (l == n) return;
#if defined(__GFX11__)
    i32x8 d = {};
    d = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, a, d, false);
    y[l] = d[0];
#elif defined(__GFX12__)
    i32x8 d = {};
    d = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a.xy, true, a.xy, d, false);
    y[l] = d[0];
#elif defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
    typedef _Float16 v __attribute__((ext_vector_type(4)));
    f32x4 d = {};
    d = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(v, a.xy),
                                              __builtin_bit_cast(v, a.zw), d, 0, 0, 0);
    y[l] = (i32)d[0];
#else
    y[l] = a.x;
#endif
}

DEV void again(void) { __asm__ volatile("" ::: "memory"); } /* memory is read anew */

KERNEL(256) t_race(u32 *y) { /* reads what another wave writes, without a barrier */
    SHARED u32 x[256];
    x[tid()] = tid();
    again();
    y[tid()] = x[255 - tid()];
}

KERNEL(256) t_write_race(u32 *y) { /* overwrites what another wave may still read */
    SHARED u32 x[256];
    x[tid()] = tid();
    barrier();
    u32 got = x[(tid() + 64) & 255];
    x[tid()] = got + 1;
    barrier();
    again();
    y[tid()] = x[tid()];
}

KERNEL(256) t_bytes_shared(u32 *y) { /* waves write neighbouring bytes of one word: allowed */
    SHARED u8 x[4 * 64];
    u32 t = tid();
    x[4 * (t & 63) + (t >> 6)] = (u8)t;
    barrier();
    y[t] = x[t];
}

KERNEL(256) t_beyond(u32 *y, u32 n) { y[tid() + n] = 1; }
KERNEL(256) t_read_beyond(u32 *y, const u32 *x, u32 n) { y[0] = x[tid() + n]; }
KERNEL(256) t_lds_beyond(u32 *y, u32 n) {
    dynamic[tid() + n] = tid();
    y[tid()] = dynamic[tid() + n];
}
KERNEL(256) t_lds_unwritten(u32 *y, u32 n) {
    SHARED u32 x[512];
    x[tid()] = 1;
    barrier();
    y[tid()] = x[tid() + n];
}
KERNEL(256) t_scratch(u32 *y, const u32 *x, u32 n) { /* an array that no register can hold */
    volatile u32 keep[64];
    for (u32 k = 0; k < 64; k++) keep[k] = x[k];
    y[tid()] = keep[(tid() + n) & 63];
}
KERNEL(256) t_endless(u32 *y, u32 n) {
    volatile u32 *v = y;
    while (v[0] != n) {}
}
__attribute__((constant)) const u32 t_table[4] = {1, 20, 300, 4000};
KERNEL(256) t_constant(u32 *y) { y[tid()] = t_table[tid() & 3]; }
