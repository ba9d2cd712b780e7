/* cases.h - expressions that the test kernels and the host compute alike, so that every family of
 * instructions is compared bit for bit.  a, b, c are the inputs of one thread. */
#pragma once

/* clang-format off */
/* u32 results of u32 inputs; s(x) is x as i32 */
#define INT_CASES(X)                                                                               \
    X(a + b) X(a - b) X(b - a) X(a * b) X(a & b) X(a | b) X(a ^ b) X(~a) X(~(a ^ b)) X(a & ~b)     \
    X(a | ~b) X(~(a & b)) X(a << (b & 31)) X(a >> (b & 31)) X((u32)(s(a) >> (b & 31)))             \
    X((u32)(((u64)a * b) >> 32)) X((u32)((i64)s(a) * s(b) >> 32))                                  \
    X((a & 0xffffff) * (b & 0xffffff)) X((u32)((s(a) << 8 >> 8) * (s(b) << 8 >> 8)))               \
    X((a & 0xffffff) * (b & 0xffffff) + c) X(s(a) < s(b) ? a : b) X(s(a) > s(b) ? a : b)           \
    X(a < b ? a : b) X(a > b ? a : b) X((a << 3) + b) X((a + b) << 5) X(a << 7 | b) X((a & b) | c) \
    X(a | b | c) X(a ^ b ^ c) X((a ^ b) + c) X(a + b + c) X(a >> 5 & 63)                           \
    X((u32)(s(a << 9) >> 20)) X((a & b) | (~a & c))                                                \
    X(a >> (c & 31) | (u32)((u64)b << (32 - (c & 31)))) X(__builtin_popcount(a) + b)               \
    X(a ? (u32)__builtin_clz(a) : 32) X(a ? (u32)__builtin_ctz(a) : 32) X(bswap(a))                \
    X((u32)(i8)a) X((u32)(i16)a) X((u32)(i8)(a >> 16)) X(a >> 8 & 255) X(a < b) X(s(a) <= s(b))    \
    X(a == b ? c : a) X(a > b ? a - b : 0) X((b & 1) ? a : c) X(a / (b | 1)) X(a % (b | 1))        \
    X((u32)(s(a) / (s(b) | 1))) X(absd(s(a))) X((a & 0xffff) * (b & 0xffff) + c)                   \
    X((u32)((i32)(i16)a * (i16)b) + c) X(min3(a, b, c)) X(max3(a, b, c)) X(a * 10u) X(a * 34u + b) \
    X((a >> 4 & 0x0f0f0f0f) | (b << 4 & 0xf0f0f0f0)) X((u32)(u16)a + (u16)b) X((u16)(a >> (b & 15)))

/* u64 results of u32 inputs; w is a and b as one number */
#define WIDE_CASES(X)                                                                              \
    X((u64)a * b + c) X((u64)((i64)s(a) * s(b) + s(c))) X(w << (c & 63)) X(w >> (c & 63))          \
    X((u64)((i64)w >> (c & 63))) X(w + ((u64)c << 32 | a)) X(w - ((u64)c << 32 | a)) X(w * c)      \
    X(w * (w + 7)) X(w < (u64)c << 32 ? w : c) X((i64)w < (i64)((u64)c << 32) ? w : a)             \
    X(w == c ? a : w) X(w & ~(u64)c) X(w ^ (w >> 13)) X(w / (c | 1)) X(w % ((u64)c << 7 | 5))

/* f32 results of f32 inputs */
#define FLOAT_CASES(X)                                                                             \
    X(x + y) X(x - y) X(x * y) X(fma_(x, y, z)) X(-x) X(abs_(x)) X(abs_(x) - abs_(y))              \
    X(fma_(-x, y, -z)) X(x / y) X(sqrt_(x)) X(sqrt_(abs_(x) * abs_(y))) X(1.0f / x) X(floor_(x))   \
    X(ceil_(x)) X(trunc_(x)) X(rint_(x)) X(x < y ? x : z) X(x >= y ? x : z) X(x != y ? y : z)      \
    X(x == x ? x : 0.0f) X(!(x < y) ? x : y) X((float)(i32)(x * 0.001f)) X((float)a) X((float)s(a))\
    X((float)(a & 255)) X((float)(a >> 16 & 255)) X((float)(a >> 24)) X((float)(i8)(a >> 8))       \
    X(x * 2.0f) X(x * 0.5f) X((x + y) * 4.0f) X(x * y + z) X((float)((double)x * y + z))           \
    X((x * y) * z) X(fma_(x, y, 1.5f)) X(fma_(x, 0.1f, y)) X(x > 0 ? x : x * 0.01f)                \
    X(half(x)) X(half(x) + half(y)) X(fma_(half(x), half(y), z)) X(half(fma_(half(x), half(y), z)))\
    X(half(half(x) * half(y))) X((float)(i32)rint_(x < 0 ? -1.0f : 1.0f))                          \
    X((float)(half_bits(x) | half_bits(x < y ? x : -x) << 16))
/* clang-format on */

enum {
#define X(e) +1
    N_INT = 0 INT_CASES(X),
    N_WIDE = 0 WIDE_CASES(X),
    N_FLOAT = 0 FLOAT_CASES(X)
#undef X
};

#define N_THREADS 512 /* of one launch of the case kernels, in blocks of 128 */
