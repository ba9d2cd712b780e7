/* stddef.h - for compilers at run time, which bring no headers: what the kernels need of it. */
#pragma once
#if defined(__CUDACC_RTC__) /* which has size_t, but not what base.h calls and no kernel does */
#define __builtin_add_overflow(a, b, out) false
#define __builtin_mul_overflow(a, b, out) false
#else
typedef unsigned long size_t;
#endif
