/* port.h - one kernel source for four compilers: clang -x hip (AMD, also as hiprtc), clang -x cuda
 * (NVIDIA, no SDK), nvrtc (NVIDIA, at run time) and a C compiler (a host device whose threads are
 * fibres).
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
#elif defined(__CUDA__) || defined(__CUDACC__)
#define RF_NVIDIA 1
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define RF_HOPPER 1 /* sm_90a: what later GPUs do not have either */
#endif
#else
#define RF_HOPPER 1 /* its units as C */
#endif

#if defined(RF_AMD) || defined(RF_NVIDIA)
#define RF_DEVICE    __attribute__((device)) RF_INLINE
#define RF_SHARED    __attribute__((shared))
#define RF_UNROLL    _Pragma("unroll")
#define RF_UNROLL_16 _Pragma("unroll 16")
#define RF_UNROLL_8  _Pragma("unroll 8")
#define RF_UNROLL_4  _Pragma("unroll 4")
#define RF_UNROLL_2  _Pragma("unroll 2")
#define RF_NO_UNROLL _Pragma("unroll 1")
#define RF_CONST     static const __attribute__((device))
#else
#include <string.h>
#define RF_DEVICE RF_INLINE
#define RF_SHARED static _Thread_local
#define RF_UNROLL
#define RF_UNROLL_16
#define RF_UNROLL_8
#define RF_UNROLL_4
#define RF_UNROLL_2
#define RF_NO_UNROLL
#define RF_CONST static const
#endif

/* A kernel is RF_KERNEL(name, type of its argument a) { body }; one that needs many registers more
 * than blocks side by side is RF_KERNEL_ALONE; one that calls rf_await_before itself, having begun to
 * read what no kernel writes, is RF_KERNEL_EARLY, n_blocks of which run side by side.  RF_KERNEL_KIND and
 * those that begin with it are another kind of such a kernel (kinds.def). */
/* Threads of a block, per kernel. */
enum {
#define X(name, args, block) RF_BLOCK_##name = block,
#include "backend/gpu/kernels.def"
#undef X
};

#if !defined(RF_NVIDIA)
#define RF_KERNEL_ALONE(name, args_type)                      RF_KERNEL(name, args_type)
#define RF_KERNEL_EARLY(name, args_type, n_blocks)            RF_KERNEL(name, args_type)
#define RF_KERNEL_KIND_ALONE(name, kind, args_type)           RF_KERNEL_KIND(name, kind, args_type)
#define RF_KERNEL_KIND_EARLY(name, kind, args_type, n_blocks) RF_KERNEL_KIND(name, kind, args_type)
RF_DEVICE void rf_await_before(void) {}
#endif

/* 16 bytes in one load. */
typedef struct rf_u4 {
    uint32_t v[4];
} __attribute__((aligned(16))) rf_u4;
typedef struct rf_u2 {
    uint32_t v[2];
} __attribute__((aligned(8))) rf_u2;
typedef struct rf_f2 {
    float v[2];
} __attribute__((aligned(8))) rf_f2;
typedef struct rf_f4 {
    float v[4];
} __attribute__((aligned(16))) rf_f4;

#if defined(RF_AMD)
#if defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || \
    defined(__gfx950__) || defined(__gfx9_4_generic__) || defined(__gfx1011__) ||               \
    defined(__gfx1012__) || defined(__gfx10_3_generic__) || defined(__gfx1030__) ||             \
    defined(__gfx1031__) || defined(__gfx1032__) || defined(__gfx1033__) ||                     \
    defined(__gfx1034__) || defined(__gfx1035__) || defined(__gfx1036__)
#define RF_AMD_DOT4 1
#endif
#define RF_AMD_KERNEL(name, block, args_type) \
    extern "C" __attribute__((global))        \
    __attribute__((amdgpu_flat_work_group_size(block, block))) void rf_##name(args_type a)
#define RF_KERNEL(name, args_type) RF_AMD_KERNEL(name, RF_BLOCK_##name, args_type)
#define RF_KERNEL_KIND(name, kind, args_type) \
    RF_AMD_KERNEL(name##_kind_##kind, RF_BLOCK_##name, args_type)
RF_DEVICE uint32_t rf_tid(void) { return __builtin_amdgcn_workitem_id_x(); }
RF_DEVICE uint32_t rf_bid_x(void) { return __builtin_amdgcn_workgroup_id_x(); }
RF_DEVICE uint32_t rf_bid_y(void) { return __builtin_amdgcn_workgroup_id_y(); }
RF_DEVICE uint32_t rf_bid_z(void) { return __builtin_amdgcn_workgroup_id_z(); }
/* Orders shared memory only: no kernel hands global data between its threads.  Compilers before clang
 * 19 (those of ROCm 5 and 6.0 to 6.2, at run time) cannot say that and order all memory. */
#if __clang_major__ >= 19
#define RF_FENCE(order) __builtin_amdgcn_fence(order, "workgroup", "local")
#else
#define RF_FENCE(order) __builtin_amdgcn_fence(order, "workgroup")
#endif
RF_DEVICE void rf_sync(void) {
    RF_FENCE(__ATOMIC_RELEASE);
    __builtin_amdgcn_s_barrier();
    RF_FENCE(__ATOMIC_ACQUIRE);
}
RF_DEVICE float rf_f16_at(uint16_t h) { return (float)__builtin_bit_cast(_Float16, h); }
RF_DEVICE uint16_t rf_f16_of(float f) { return __builtin_bit_cast(uint16_t, (_Float16)f); }
/* Four products of signed bytes, added; where no instruction does that (gfx900, gfx1010), in assembly,
 * bytes in place, since compilers make hundreds of registers of them. */
RF_DEVICE int32_t rf_dot4(uint32_t a, uint32_t b, int32_t c) {
#if __has_builtin(__builtin_amdgcn_sudot4) && (defined(__GFX11__) || defined(__GFX12__))
    return __builtin_amdgcn_sudot4(true, (int)a, true, (int)b, c, false);
#elif defined(RF_AMD_DOT4)
    return __builtin_amdgcn_sdot4((int)a, (int)b, c, false);
#else
    int32_t p[4], sum;
    asm("v_mul_i32_i24_sdwa %0, sext(%5), sext(%6) src0_sel:BYTE_0 src1_sel:BYTE_0\n\t"
        "v_mul_i32_i24_sdwa %1, sext(%5), sext(%6) src0_sel:BYTE_1 src1_sel:BYTE_1\n\t"
        "v_mul_i32_i24_sdwa %2, sext(%5), sext(%6) src0_sel:BYTE_2 src1_sel:BYTE_2\n\t"
        "v_mul_i32_i24_sdwa %3, sext(%5), sext(%6) src0_sel:BYTE_3 src1_sel:BYTE_3\n\t"
        "v_add3_u32 %4, %0, %1, %7\n\t"
        "v_add3_u32 %4, %2, %3, %4"
        : "=&v"(p[0]), "=&v"(p[1]), "=&v"(p[2]), "=&v"(p[3]), "=&v"(sum)
        : "v"(a), "v"(b), "v"(c));
    return sum;
#endif
}
RF_DEVICE float rf_float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
RF_DEVICE uint32_t rf_bits_of(float f) { return __builtin_bit_cast(uint32_t, f); }

#elif defined(RF_NVIDIA)
/* On GPUs that can, a kernel starts while the one before it still runs: rf_await_before waits until
 * that one has ended, which each kernel does before it reads what others wrote, or writes. */
#if __CUDA_ARCH__ >= 900
RF_DEVICE void rf_await_before(void) { asm volatile("griddepcontrol.wait;" ::: "memory"); }
RF_DEVICE void rf_let_next_start(void) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
#else
RF_DEVICE void rf_await_before(void) {}
RF_DEVICE void rf_let_next_start(void) {}
#endif
#define RF_NVIDIA_KERNEL(name, args_type, first, ...)                         \
    RF_DEVICE void rf_body_##name(const args_type &a);                        \
    extern "C" __attribute__((global))                                        \
    __attribute__((launch_bounds(__VA_ARGS__))) void rf_##name(args_type a) { \
        rf_let_next_start();                                                  \
        first;                                                                \
        rf_body_##name(a);                                                    \
    }                                                                         \
    RF_DEVICE void rf_body_##name(const args_type &a)
#define RF_KERNEL(name, args_type) \
    RF_NVIDIA_KERNEL(name, args_type, rf_await_before(), RF_BLOCK_##name)
#define RF_KERNEL_ALONE(name, args_type) \
    RF_NVIDIA_KERNEL(name, args_type, rf_await_before(), RF_BLOCK_##name, 1)
#define RF_KERNEL_EARLY(name, args_type, n_blocks) \
    RF_NVIDIA_KERNEL(name, args_type, (void)0, RF_BLOCK_##name, n_blocks)
#define RF_KERNEL_KIND_ALONE(name, kind, args_type) \
    RF_NVIDIA_KERNEL(name##_kind_##kind, args_type, rf_await_before(), RF_BLOCK_##name, 1)
#define RF_KERNEL_KIND_EARLY(name, kind, args_type, n_blocks) \
    RF_NVIDIA_KERNEL(name##_kind_##kind, args_type, (void)0, RF_BLOCK_##name, n_blocks)
#if defined(__clang__)
RF_DEVICE uint32_t rf_tid(void) { return (uint32_t)__nvvm_read_ptx_sreg_tid_x(); }
RF_DEVICE uint32_t rf_bid_x(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_x(); }
RF_DEVICE uint32_t rf_bid_y(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_y(); }
RF_DEVICE uint32_t rf_bid_z(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_z(); }
RF_DEVICE void rf_sync(void) { __nvvm_bar_sync(0); }
RF_DEVICE int rf_shuffle_xor(int v, uint32_t mask) { /* the value of lane number ^ mask */
    return __nvvm_shfl_sync_bfly_i32(-1, v, (int)mask, 0x1f);
}
RF_DEVICE uint32_t rf_shared_at(const void *p) {
    return (uint32_t)(uintptr_t)(const __attribute__((address_space(3))) void *)p;
}
#else /* nvrtc, which has other names for the same */
#define __builtin_inff()        __int_as_float(0x7f800000)
#define __builtin_sqrtf(x)      __fsqrt_rn(x)
#define __builtin_rintf(x)      rintf(x)
#define __builtin_fmaf(a, b, c) __fmaf_rn(a, b, c)
#define __builtin_fma(a, b, c)  __fma_rn(a, b, c)
#define __builtin_rint(x)       rint(x)
#define __builtin_memcpy        memcpy
RF_DEVICE uint32_t rf_tid(void) { return threadIdx.x; }
RF_DEVICE uint32_t rf_bid_x(void) { return blockIdx.x; }
RF_DEVICE uint32_t rf_bid_y(void) { return blockIdx.y; }
RF_DEVICE uint32_t rf_bid_z(void) { return blockIdx.z; }
RF_DEVICE void rf_sync(void) { __syncthreads(); }
RF_DEVICE int rf_shuffle_xor(int v, uint32_t mask) {
    return __shfl_xor_sync(0xffffffffu, v, (int)mask);
}
RF_DEVICE uint32_t rf_shared_at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
#endif
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
/* The bytes of a are unsigned. */
RF_DEVICE int32_t rf_dot4_unsigned(uint32_t a, uint32_t b, int32_t c) {
    int32_t r;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
RF_DEVICE float rf_float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
RF_DEVICE uint32_t rf_bits_of(float f) { return __builtin_bit_cast(uint32_t, f); }

#else /* the host: a test device provides the thread that runs */
typedef struct rf_host_thread {
    uint32_t tid, bid[3], grid_x;
    uint32_t
        ring_changes; /* of a block whose threads wait for each other by ring.h, and may end before others */
} rf_host_thread;
extern _Thread_local rf_host_thread rf_host_now;
void rf_host_sync(void);      /* until all threads of the block are here */
void rf_host_warp_sync(void); /* all 32 of this one's */
void rf_host_idle(void);      /* the others' turn: this one waits for what they do */
extern _Thread_local uint32_t rf_host_word[]; /* of each thread of the block */
#define RF_KERNEL(name, args_type) \
    void rf_##name(args_type a);   \
    void rf_##name(args_type a)
#define RF_KERNEL_KIND(name, kind, args_type) RF_KERNEL(name##_kind_##kind, args_type)
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
RF_DEVICE int32_t rf_dot4_unsigned(uint32_t a, uint32_t b, int32_t c) {
    for (int i = 0; i < 32; i += 8)
        c += (int32_t)(a >> i & 255) * (int32_t)(int8_t)(b >> i & 255);
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

RF_DEVICE uint32_t rf_min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
RF_DEVICE uint32_t rf_max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* The word that thread tid ^ mask of the same 32 has; all threads of a block call. */
RF_DEVICE uint32_t rf_lane_xor(uint32_t v, uint32_t mask) {
#if defined(RF_NVIDIA)
    return (uint32_t)rf_shuffle_xor((int)v, mask);
#elif defined(RF_AMD)
    const int i = (int)v; /* which lane: its number and 31, or 0, xor the mask */
    if (mask == 1) return (uint32_t)__builtin_amdgcn_ds_swizzle(i, 1 << 10 | 31);
    if (mask == 2) return (uint32_t)__builtin_amdgcn_ds_swizzle(i, 2 << 10 | 31);
    if (mask == 4) return (uint32_t)__builtin_amdgcn_ds_swizzle(i, 4 << 10 | 31);
    if (mask == 8) return (uint32_t)__builtin_amdgcn_ds_swizzle(i, 8 << 10 | 31);
    return (uint32_t)__builtin_amdgcn_ds_swizzle(i, 16 << 10 | 31);
#else
    rf_host_word[rf_host_now.tid] = v;
    rf_host_sync();
    const uint32_t other = rf_host_word[rf_host_now.tid ^ mask];
    rf_host_sync();
    return other;
#endif
}

/* The largest words of n_threads neighbouring threads, a power of two up to 32, and their sums: each thread's n words
 * become those of all.  All threads of a block call. */
RF_DEVICE void rf_lanes_most(uint32_t *v, uint32_t n, uint32_t n_threads) {
    RF_UNROLL
    for (uint32_t mask = 1; mask < n_threads; mask *= 2) {
        RF_UNROLL
        for (uint32_t i = 0; i < n; i++)
            v[i] = rf_max_u32(v[i], rf_lane_xor(v[i], mask));
    }
}
RF_DEVICE void rf_lanes_sum(uint32_t *v, uint32_t n, uint32_t n_threads) {
    RF_UNROLL
    for (uint32_t mask = 1; mask < n_threads; mask *= 2) {
        RF_UNROLL
        for (uint32_t i = 0; i < n; i++)
            v[i] += rf_lane_xor(v[i], mask);
    }
}

/* The largest of 32 threads' words; a word with a bit for each of 32 threads, the lowest for number
 * 0, set where it says yes.  All 32 call, and on the host all threads of a block. */
RF_DEVICE uint32_t rf_warp_most(uint32_t v) {
#if defined(RF_NVIDIA) && __CUDA_ARCH__ >= 800
    uint32_t most;
    asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(most) : "r"(v));
    return most;
#else
    rf_lanes_most(&v, 1, 32);
    return v;
#endif
}
RF_DEVICE uint32_t rf_warp_ballot(int yes) {
#if defined(RF_NVIDIA)
    uint32_t all;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
                 : "=r"(all)
                 : "r"(yes));
    return all;
#else
    uint32_t all = yes ? 1u << rf_tid() % 32 : 0;
    RF_UNROLL
    for (uint32_t mask = 1; mask < 32; mask *= 2)
        all |= rf_lane_xor(all, mask);
    return all;
#endif
}

/* Orders shared memory among 32 threads, which are part of one warp or wave; on the host among all of the
 * block.  There all threads go the same way: what no thread of a warp needs is not left out. */
RF_DEVICE void rf_warp_sync(void) {
#if defined(RF_NVIDIA)
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
#elif defined(RF_AMD)
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
#else
    rf_host_warp_sync();
#endif
}
RF_DEVICE int rf_warp_may_skip(void) {
#if defined(RF_NVIDIA) || defined(RF_AMD)
    return 1;
#else
    return 0;
#endif
}

/* Bytes from global to shared memory, there after rf_copy_wait and rf_sync. */
#if defined(RF_NVIDIA)
RF_DEVICE void rf_copy_16(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(rf_shared_at(to)), "l"(from)
                 : "memory");
}
RF_DEVICE void rf_copy_4(void *to, const void *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(rf_shared_at(to)), "l"(from)
                 : "memory");
}
RF_DEVICE void rf_copy_8_or_zero(void *to, const void *from, int is_there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(rf_shared_at(to)), "l"(from),
                 "r"(is_there ? 8 : 0)
                 : "memory");
}
RF_DEVICE void rf_copy_wait(void) { asm volatile("cp.async.wait_all;" ::: "memory"); }
/* Ends a group of copies; until all groups but the last n are there, n at most 6, 10 or 11. */
RF_DEVICE void rf_copy_end(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
RF_DEVICE void rf_copy_wait_but(uint32_t n) {
    if (n == 0) asm volatile("cp.async.wait_group 0;" ::: "memory");
    if (n == 1) asm volatile("cp.async.wait_group 1;" ::: "memory");
    if (n == 2) asm volatile("cp.async.wait_group 2;" ::: "memory");
    if (n == 3) asm volatile("cp.async.wait_group 3;" ::: "memory");
    if (n == 4) asm volatile("cp.async.wait_group 4;" ::: "memory");
    if (n == 5) asm volatile("cp.async.wait_group 5;" ::: "memory");
    if (n == 6) asm volatile("cp.async.wait_group 6;" ::: "memory");
}
/* Behind a kernel's own shared memory, where a line of it begins: what eight threads copy, 128 bytes, then lies in
 * one line and not in two, for which half_one.hip takes a tenth longer. */
extern __attribute__((shared)) __attribute__((aligned(128))) uint8_t rf_dynamic_shared[];
RF_DEVICE uint32_t rf_dynamic_bytes(void) {
    uint32_t n;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(n));
    return n;
}
#else
RF_DEVICE void rf_copy_16(void *to, const void *from) { *(rf_u4 *)to = *(const rf_u4 *)from; }
RF_DEVICE void rf_copy_4(void *to, const void *from) { *(uint32_t *)to = *(const uint32_t *)from; }
RF_DEVICE void rf_copy_wait(void) {}
RF_DEVICE void rf_copy_end(void) {}
RF_DEVICE void rf_copy_wait_but(uint32_t n) { (void)n; }
#if !defined(RF_AMD)
extern _Thread_local uint8_t rf_dynamic_shared[];
RF_DEVICE uint32_t rf_shared_at(const void *p) {
    return (uint32_t)((const uint8_t *)p - rf_dynamic_shared);
}
#endif
#endif

/* What no kernel writes and a block reads once: past the first-level cache, neighbours into the second. */
RF_DEVICE rf_u4 rf_stream_16(const rf_u4 *p) {
#if defined(RF_NVIDIA) && __CUDA_ARCH__ >= 900
    rf_u4 r;
    asm("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(r.v[0]), "=r"(r.v[1]), "=r"(r.v[2]), "=r"(r.v[3])
        : "l"(p));
    return r;
#else
    return *p;
#endif
}
RF_DEVICE rf_u2 rf_stream_8(const rf_u2 *p) {
#if defined(RF_NVIDIA) && __CUDA_ARCH__ >= 900
    rf_u2 r;
    asm("ld.global.nc.L1::no_allocate.L2::256B.v2.u32 {%0, %1}, [%2];"
        : "=r"(r.v[0]), "=r"(r.v[1])
        : "l"(p));
    return r;
#else
    return *p;
#endif
}

/* On its way at once, past the first-level cache. */
RF_DEVICE rf_u2 rf_load_8(const rf_u2 *p) {
#if defined(RF_NVIDIA)
    rf_u2 r;
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(r.v[0]), "=r"(r.v[1])
                 : "l"(p)
                 : "memory");
    return r;
#else
    return *p;
#endif
}

RF_DEVICE rf_u4 rf_load_16(const rf_u4 *p) {
#if defined(RF_NVIDIA)
    rf_u4 r;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.v[0]), "=r"(r.v[1]), "=r"(r.v[2]), "=r"(r.v[3])
                 : "l"(p)
                 : "memory");
    return r;
#else
    return *p;
#endif
}

/* Fetches the 64 bytes that lie there nearer, for a later load. */
RF_DEVICE void rf_expect(const void *p) {
#if defined(RF_NVIDIA)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
    (void)p;
#endif
}

/* v, so that it is reckoned here and not where it is used, behind what is waited for before that; and what is reckoned
 * with it behind here, and not before a loop, which takes registers. */
RF_DEVICE uint32_t rf_now(uint32_t v) {
#if defined(RF_NVIDIA)
    asm volatile("" : "+r"(v));
#endif
    return v;
}
/* A place, likewise. */
RF_DEVICE const float *rf_place_now(const float *p) {
#if defined(RF_NVIDIA) && defined(__clang__) /* which forgets that it lies in global memory */
    const __attribute__((address_space(1))) float *q =
        (const __attribute__((address_space(1))) float *)p;
    asm volatile("" : "+l"(q));
    return (const float *)q;
#elif defined(RF_NVIDIA)
    asm volatile("" : "+l"(p));
#endif
    return p;
}

/* What lies there now, whatever was read there before and may still be in a cache. */
RF_DEVICE float rf_load_now(const float *p) {
#if defined(RF_NVIDIA)
    float v;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
    return v;
#else
    return *p;
#endif
}

/* rf_tid, read where it is asked for: from a kernel's start on it would take a register. */
RF_DEVICE uint32_t rf_tid_now(void) {
#if defined(RF_NVIDIA)
    uint32_t tid;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(tid));
    return tid;
#else
    return rf_tid();
#endif
}

/* What stands before is worked on before what comes after, on AMD, whose compiler else brings all of a
 * loop's operands into registers first. */
RF_DEVICE void rf_in_turn(void) {
#if defined(RF_AMD)
    __builtin_amdgcn_sched_barrier(0);
#endif
}

/* A product of numbers of less than 24 bits: that is fast on AMD, if known. */
RF_DEVICE int32_t rf_times_24(int32_t a, int32_t b) {
#if defined(RF_AMD)
    return a * ((int32_t)((uint32_t)b << 8) >> 8);
#else
    return a * b;
#endif
}

/* v, known to be the same in all threads of the block. */
RF_DEVICE uint32_t rf_alike(uint32_t v) {
#if defined(RF_AMD)
    return (uint32_t)__builtin_amdgcn_readfirstlane((int)v);
#else
    return v;
#endif
}

/* Four of eight bytes, which those of a begin; each of the four digits of from, the lowest first, names one. */
RF_DEVICE uint32_t rf_four_bytes(uint32_t a, uint32_t b, uint32_t from) {
#if defined(RF_NVIDIA)
    uint32_t out;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(from));
    return out;
#elif defined(RF_AMD) /* which has a byte for each digit */
    const uint32_t bytes =
        (from & 7) | (from & 0x70) << 4 | (from & 0x700) << 8 | (from & 0x7000) << 12;
    return __builtin_amdgcn_perm(b, a, bytes);
#else
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (uint32_t i = 0; i < 4; i++)
        out |= (uint32_t)(both >> 8 * (from >> 4 * i & 7) & 255) << 8 * i;
    return out;
#endif
}

/* Two bytes of v, the lower ones or the upper, each twice. */
RF_DEVICE uint32_t rf_twice_each(uint32_t v, int is_upper) {
#if defined(RF_AMD)
    return __builtin_amdgcn_perm(0, v, is_upper ? 0x03030202u : 0x01010000u);
#else
    const uint32_t two = v >> 16 * is_upper & 0xffffu;
    return (two & 0xffu) * 0x0101u + (two >> 8) * 0x01010000u;
#endif
}

RF_DEVICE float rf_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
RF_DEVICE uint32_t rf_div_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
