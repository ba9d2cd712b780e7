/* stdint.h - for compilers at run time, which bring no headers: what the kernels need of it, on the
 * 64-bit systems that GPUs run on.  Macros, since some versions of hiprtc have types of these names that
 * are not quite the same. */
#pragma once
typedef signed char rf_int8;
typedef short rf_int16;
typedef int rf_int32;
typedef long rf_int64;
typedef unsigned char rf_uint8;
typedef unsigned short rf_uint16;
typedef unsigned int rf_uint32;
typedef unsigned long rf_uint64;
#define int8_t    rf_int8
#define int16_t   rf_int16
#define int32_t   rf_int32
#define int64_t   rf_int64
#define uint8_t   rf_uint8
#define uint16_t  rf_uint16
#define uint32_t  rf_uint32
#define uint64_t  rf_uint64
#define intptr_t  rf_int64
#define uintptr_t rf_uint64
