/* digits.h - weights in groups of 256 times their scales as two digits of eight bits, so that matrix units
 * sum all columns of a group exactly with no scale in between (rf_wide_digits).
 *
 * Unsigned weights of 4 and 5 bits with minima and scales of 6 bits: the digits are those of the scale, three
 * bits each, times the weight; a minimum times a sum is a whole number below 2^24, which f16 products summed in
 * f32 give exactly.  Weights of 2 bits with minima: their product with a scale of 4 bits is one digit, their
 * minimum takes the place of the other, for a sum of its own.  Weights without minima: those of the product with
 * the signed scale, the upper one signed, the lower one of seven bits and twice itself. */
#pragma once
#include "backend/gpu/kernels/mm.h"
#include "backend/gpu/tile.h"

#if !defined(RF_AMD)
/* Four weights of each of a chunk's halves, one per byte; lo, hi: where the row's chunk lies; t: which
 * four. */
RF_DEVICE void digit_words(uint32_t lo, rf_u2 hi, int hi_bits, uint32_t t, uint32_t *first,
                           uint32_t *second) {
    *first = lo & 0x0f0f0f0fu;
    *second = lo >> 4 & 0x0f0f0f0fu;
    if (hi_bits == 2) {
        *first |= (hi.v[0] >> 2 * t & 0x03030303u) << 4;
        *second |= (hi.v[1] >> 2 * t & 0x03030303u) << 4;
    } else if (hi_bits == 1) {
        *first |= (hi.v[0] >> t & 0x01010101u) << 4;
        *second |= (hi.v[0] >> (4 + t) & 0x01010101u) << 4;
    }
}

/* The same of weights whose low bits are two, which a row's chunk has eight bytes of. */
RF_DEVICE void digit_words_of_2(rf_u2 lo, rf_u2 hi, int hi_bits, uint32_t t, uint32_t *first,
                                uint32_t *second) {
    *first = lo.v[0] >> 2 * t & 0x03030303u;
    *second = lo.v[1] >> 2 * t & 0x03030303u;
    if (hi_bits == 1) {
        *first |= (hi.v[0] >> t & 0x01010101u) << 2;
        *second |= (hi.v[0] >> (4 + t) & 0x01010101u) << 2;
    }
}

/* The high bits of a row's chunk, number n of all. */
RF_DEVICE rf_u2 digit_high_bits(const void *hi, int hi_bits, uint64_t n) {
    rf_u2 h = {{0, 0}};
    if (hi_bits == 2) h = ((const rf_u2 *)hi)[n];
    if (hi_bits == 1) h.v[0] = ((const uint32_t *)hi)[n];
    return h;
}

/* Four unsigned weights less off, times two of their scale, in lanes of sixteen bits with 2^15 added, so
 * that none borrows from the next. */
typedef struct digit_lanes {
    uint32_t even, odd;
} digit_lanes;
RF_DEVICE digit_lanes digit_products(uint32_t w, int32_t scale, uint32_t off) {
    const uint32_t twice = 2 * (uint32_t)scale, start = 0x80008000u - off * 0x00010001u * twice;
    const digit_lanes l = {(w & 0x00ff00ffu) * twice + start,
                           (w >> 8 & 0x00ff00ffu) * twice + start};
    return l;
}
RF_DEVICE uint32_t digit_upper(digit_lanes l) {
    return rf_four_bytes(l.even, l.odd, 0x7351) ^ 0x80808080u;
}
RF_DEVICE uint32_t digit_lower(digit_lanes l) { return rf_four_bytes(l.even, l.odd, 0x6240); }

/* Of four unsigned weights, from which off is to be taken, the upper digits and the lower ones; scale, min: bytes. */
RF_DEVICE rf_u2 digits_of(uint32_t w, rf_wide_digits digits, uint32_t off, uint32_t scale,
                          uint32_t min) {
    rf_u2 out;
    if (digits == RF_WIDE_SCALES) {
        out.v[0] = w * (scale >> 3 & 7);
        out.v[1] = w * (scale & 7);
    } else if (digits == RF_WIDE_MINIMA) {
        out.v[0] = min * 0x01010101u;
        out.v[1] = w * scale;
    } else {
        const digit_lanes l = digit_products(w, (int8_t)scale, off);
        out.v[0] = digit_upper(l);
        out.v[1] = digit_lower(l);
    }
    return out;
}

/* The group's integer from the sums of either digit. */
RF_DEVICE int32_t digit_total(int32_t upper, int32_t lower, rf_wide_digits digits) {
    if (digits == RF_WIDE_MINIMA) return lower;
    if (digits == RF_WIDE_SCALES) return (int32_t)(((uint32_t)upper << 3) + (uint32_t)lower);
    return (int32_t)(((uint32_t)upper << 8) + (uint32_t)lower) >> 1;
}

/* Number number of the scales, which are one per 32 columns (8 bytes) or per 16. */
RF_DEVICE uint32_t digit_byte(const rf_u4 *s, uint32_t number) {
    return s->v[number / 4] >> 8 * (number % 4) & 0xffu;
}
/* The scales of the second half of the columns, or the first, in front. */
RF_DEVICE rf_u4 digit_half(rf_u4 s, uint32_t n_scales, uint32_t half) {
    RF_UNROLL
    for (uint32_t i = 0; i < n_scales / 8; i++)
        if (half) s.v[i] = s.v[n_scales / 8 + i];
    return s;
}

/* Minima and sums -------------------------------------------------------------------------------*/

/* Two f16 less one each, or times one each. */
RF_DEVICE uint32_t digit_less(uint32_t two, uint16_t one) {
#if defined(RF_NVIDIA)
    uint32_t out;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(two), "r"(one * 0x00010001u));
    return out;
#else
    return (uint32_t)rf_f16_of(rf_f16_at((uint16_t)two) - rf_f16_at(one)) |
           (uint32_t)rf_f16_of(rf_f16_at((uint16_t)(two >> 16)) - rf_f16_at(one)) << 16;
#endif
}
RF_DEVICE uint32_t digit_times(uint32_t two, uint16_t one) {
#if defined(RF_NVIDIA)
    uint32_t out;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(two), "r"(one * 0x00010001u));
    return out;
#else
    return (uint32_t)rf_f16_of(rf_f16_at((uint16_t)two) * rf_f16_at(one)) |
           (uint32_t)rf_f16_of(rf_f16_at((uint16_t)(two >> 16)) * rf_f16_at(one)) << 16;
#endif
}
/* Two f16 times one each and another one. */
RF_DEVICE uint32_t digit_times_and(uint32_t two, uint16_t one, uint16_t other) {
#if defined(RF_NVIDIA)
    uint32_t out;
    asm("fma.rn.f16x2 %0, %1, %2, %3;"
        : "=r"(out)
        : "r"(two), "r"(one * 0x00010001u), "r"(other * 0x00010001u));
    return out;
#else
    const float times = rf_f16_at(one), more = rf_f16_at(other);
    return (uint32_t)rf_f16_of(rf_f16_at((uint16_t)two) * times + more) |
           (uint32_t)rf_f16_of(rf_f16_at((uint16_t)(two >> 16)) * times + more) << 16;
#endif
}

/* Four unsigned bytes as f16: 1024 and more has them as its last bits, which off is 1024 plus. */
RF_DEVICE rf_u2 digit_four_halves(uint32_t bytes, uint16_t off) {
    rf_u2 out = {{rf_four_bytes(bytes, 0x64, 0x4140), rf_four_bytes(bytes, 0x64, 0x4342)}};
    RF_UNROLL
    for (int i = 0; i < 2; i++)
        out.v[i] = digit_less(out.v[i], off);
    return out;
}

/* Two sums of 32 from four of sixteen, each as a multiple of 64 and the rest: words of either. */
RF_DEVICE rf_u2 digit_two_sums(rf_u4 sum) {
    rf_u2 out = {{0, 0}};
    RF_UNROLL
    for (int j = 0; j < 2; j++) {
        const int32_t s = (int32_t)(sum.v[2 * j] + sum.v[2 * j + 1]);
        out.v[0] |= (uint32_t)rf_f16_of((float)(s & ~63)) << 16 * j;
        out.v[1] |= (uint32_t)rf_f16_of((float)(s & 63)) << 16 * j;
    }
    return out;
}

#if defined(RF_NVIDIA)
RF_DEVICE uint32_t digit_two_f16(float first, float second) {
    uint32_t out;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(second), "f"(first));
    return out;
}

/* Sum of min * sum over sixteen minima and sums of sixteen columns, which f16 holds as they are, for the outputs of
 * a square of 16 rows by 8 activation rows: of rows g and
 * g + 8 a thread has minima 2t and 2t + 1 and eight further on, of activation row g likewise sums. */
RF_DEVICE void digit_multiply_mins_16(float c[4], const uint32_t mins[4], rf_u2 first,
                                      rf_u2 second) {
    const uint32_t x0 = digit_two_f16((float)(int32_t)first.v[0], (float)(int32_t)first.v[1]),
                   x1 = digit_two_f16((float)(int32_t)second.v[0], (float)(int32_t)second.v[1]);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%10,%10,%10};"
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(mins[0]), "r"(mins[1]), "r"(mins[2]), "r"(mins[3]), "r"(x0), "r"(x1), "f"(0.0f));
}

/* c += w x, of 16 rows by 32 columns and 8 activation rows. */
RF_DEVICE void digit_multiply(int32_t c[4], const uint32_t w[4], uint32_t x0, uint32_t x1,
                              int is_unsigned) {
    if (is_unsigned)
        asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x0), "r"(x1));
    else
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x0), "r"(x1));
}
#endif
#endif
