/* port.h - one kernel source for three compilers: clang -x hip (AMD), clang -x cuda (NVIDIA, no SDK)
 * and a C compiler (a host device whose threads are fibres).
 *
 * A kernel is written for one thread of a block: rf_tid, rf_bid_*, rf_sync, shared memory.  Threads
 * talk through shared memory only, so nothing depends on how many lanes a warp has.  No header of a
 * vendor, no math library: what IEEE defines is taken from the compiler, the rest is in canon.h. */
#pragma once
#include "backend/gpu/args.h"
#include "base/fmath.h"
#include "model/model.h" /* its enumerations */

#undef RF_INLINE
#define RF_INLINE static inline __attribute__((always_inline))
#if defined(__HIP__)
#define RF_AMD 1
#elif defined(__CUDA__)
#define RF_NVIDIA 1
#endif

#if defined(RF_AMD) || defined(RF_NVIDIA)
#define RF_DEVICE    __attribute__((device)) RF_INLINE
#define RF_SHARED    __attribute__((shared))
#define RF_UNROLL    _Pragma("unroll")
#define RF_UNROLL_8  _Pragma("unroll 8")
#define RF_UNROLL_4  _Pragma("unroll 4")
#define RF_NO_UNROLL _Pragma("unroll 1")
#define RF_CONST     static const __attribute__((device))
#else
#include <string.h>
#define RF_DEVICE RF_INLINE
#define RF_SHARED static _Thread_local
#define RF_UNROLL
#define RF_UNROLL_8
#define RF_UNROLL_4
#define RF_NO_UNROLL
#define RF_CONST static const
#endif

/* A kernel is RF_KERNEL(name, type of its argument a) { body }; one that needs many registers more
 * than blocks side by side is RF_KERNEL_ALONE. */
/* Threads of a block, per kernel. */
enum {
#define X(name, args, block) RF_BLOCK_##name = block,
#include "backend/gpu/kernels.def"
#undef X
};

#if !defined(RF_NVIDIA)
#define RF_KERNEL_ALONE(name, args_type) RF_KERNEL(name, args_type)
#endif

/* 16 bytes in one load. */
typedef struct rf_u4 {
    uint32_t v[4];
} __attribute__((aligned(16))) rf_u4;
typedef struct rf_u2 {
    uint32_t v[2];
} __attribute__((aligned(8))) rf_u2;

#if defined(RF_AMD)
#if defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || \
    defined(__gfx950__) || defined(__gfx9_4_generic__) || defined(__gfx1011__) ||               \
    defined(__gfx1012__) || defined(__gfx10_3_generic__) || defined(__gfx1030__) ||             \
    defined(__gfx1031__) || defined(__gfx1032__) || defined(__gfx1033__) ||                     \
    defined(__gfx1034__) || defined(__gfx1035__) || defined(__gfx1036__)
#define RF_AMD_DOT4 1
#endif
#define RF_KERNEL(name, args_type)                                                                 \
    extern "C" __attribute__((global))                                                             \
    __attribute__((amdgpu_flat_work_group_size(RF_BLOCK_##name, RF_BLOCK_##name))) void rf_##name( \
        args_type a)
RF_DEVICE uint32_t rf_tid(void) { return __builtin_amdgcn_workitem_id_x(); }
RF_DEVICE uint32_t rf_bid_x(void) { return __builtin_amdgcn_workgroup_id_x(); }
RF_DEVICE uint32_t rf_bid_y(void) { return __builtin_amdgcn_workgroup_id_y(); }
RF_DEVICE uint32_t rf_bid_z(void) { return __builtin_amdgcn_workgroup_id_z(); }
/* Orders shared memory only: no kernel hands global data between its threads. */
RF_DEVICE void rf_sync(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}
RF_DEVICE float rf_f16_at(uint16_t h) { return (float)__builtin_bit_cast(_Float16, h); }
RF_DEVICE uint16_t rf_f16_of(float f) { return __builtin_bit_cast(uint16_t, (_Float16)f); }
/* Four products of signed bytes, added. */
RF_DEVICE int32_t rf_dot4(uint32_t a, uint32_t b, int32_t c) {
#if __has_builtin(__builtin_amdgcn_sudot4) && (defined(__GFX11__) || defined(__GFX12__))
    return __builtin_amdgcn_sudot4(true, (int)a, true, (int)b, c, false);
#elif defined(RF_AMD_DOT4)
    return __builtin_amdgcn_sdot4((int)a, (int)b, c, false);
#else
    RF_UNROLL
    for (int i = 0; i < 32; i += 8)
        c += (int32_t)(int8_t)(a >> i) * (int32_t)(int8_t)(b >> i);
    return c;
#endif
}
RF_DEVICE float rf_float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
RF_DEVICE uint32_t rf_bits_of(float f) { return __builtin_bit_cast(uint32_t, f); }

#elif defined(RF_NVIDIA)
#define RF_KERNEL(name, args_type)     \
    extern "C" __attribute__((global)) \
    __attribute__((launch_bounds(RF_BLOCK_##name))) void rf_##name(args_type a)
#define RF_KERNEL_ALONE(name, args_type) \
    extern "C" __attribute__((global))   \
    __attribute__((launch_bounds(RF_BLOCK_##name, 1))) void rf_##name(args_type a)
RF_DEVICE uint32_t rf_tid(void) { return (uint32_t)__nvvm_read_ptx_sreg_tid_x(); }
RF_DEVICE uint32_t rf_bid_x(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_x(); }
RF_DEVICE uint32_t rf_bid_y(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_y(); }
RF_DEVICE uint32_t rf_bid_z(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_z(); }
RF_DEVICE void rf_sync(void) { __nvvm_bar_sync(0); }
RF_DEVICE float rf_f16_at(uint16_t h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
RF_DEVICE uint16_t rf_f16_of(float f) {
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
RF_DEVICE int32_t rf_dot4(uint32_t a, uint32_t b, int32_t c) {
    int32_t r;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
RF_DEVICE float rf_float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
RF_DEVICE uint32_t rf_bits_of(float f) { return __builtin_bit_cast(uint32_t, f); }

#else /* the host: a test device provides the thread that runs */
typedef struct rf_host_thread {
    uint32_t tid, bid[3];
} rf_host_thread;
extern _Thread_local rf_host_thread rf_host_now;
void rf_host_sync(void); /* until all threads of the block are here */
#define RF_KERNEL(name, args_type) \
    void rf_##name(args_type a);   \
    void rf_##name(args_type a)
RF_DEVICE uint32_t rf_tid(void) { return rf_host_now.tid; }
RF_DEVICE uint32_t rf_bid_x(void) { return rf_host_now.bid[0]; }
RF_DEVICE uint32_t rf_bid_y(void) { return rf_host_now.bid[1]; }
RF_DEVICE uint32_t rf_bid_z(void) { return rf_host_now.bid[2]; }
RF_DEVICE void rf_sync(void) { rf_host_sync(); }
RF_DEVICE float rf_f16_at(uint16_t h) { return rf_f16_to_f32(h); }
RF_DEVICE uint16_t rf_f16_of(float f) { return rf_f32_to_f16(f); }
RF_DEVICE int32_t rf_dot4(uint32_t a, uint32_t b, int32_t c) {
    for (int i = 0; i < 32; i += 8)
        c += (int32_t)(int8_t)(a >> i & 255) * (int32_t)(int8_t)(b >> i & 255);
    return c;
}
RF_DEVICE float rf_float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
RF_DEVICE uint32_t rf_bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
#endif

/* Bytes from global to shared memory, there after rf_copy_wait and rf_sync. */
#if defined(RF_NVIDIA)
RF_DEVICE void rf_copy_16(void *to, const void *from) {
    asm volatile("{.reg .u64 s; cvta.to.shared.u64 s, %0; cp.async.cg.shared.global [s], [%1], 16;}"
                 :
                 : "l"(to), "l"(from)
                 : "memory");
}
RF_DEVICE void rf_copy_4(void *to, const void *from) {
    asm volatile("{.reg .u64 s; cvta.to.shared.u64 s, %0; cp.async.ca.shared.global [s], [%1], 4;}"
                 :
                 : "l"(to), "l"(from)
                 : "memory");
}
RF_DEVICE void rf_copy_wait(void) { asm volatile("cp.async.wait_all;" ::: "memory"); }
#else
RF_DEVICE void rf_copy_16(void *to, const void *from) { *(rf_u4 *)to = *(const rf_u4 *)from; }
RF_DEVICE void rf_copy_4(void *to, const void *from) { *(uint32_t *)to = *(const uint32_t *)from; }
RF_DEVICE void rf_copy_wait(void) {}
#endif

RF_DEVICE float rf_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
RF_DEVICE uint32_t rf_min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
RF_DEVICE uint32_t rf_div_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
