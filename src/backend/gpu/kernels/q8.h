/* q8.h - keys and values in Q8_0 as f16, for attention by half.h's rule on NVIDIA's GPUs: a number is its integer
 * times its group's scale, rounded to f16, as the product of two f16 is. */
#pragma once
#include "backend/gpu/kernels/digits.h"
#include "backend/gpu/kernels/kv.h"

#if !defined(RF_AMD)
enum {
    Q8_SIGN =
        0x6480, /* 1024 + 128 in f16: what integers with 128 more are above themselves in its last bits */
};

/* Four integers times d, in their order. */
RF_DEVICE rf_u2 q8_four(uint32_t bytes, uint16_t d) {
    const rf_u2 four = digit_four_halves(bytes ^ 0x80808080u, Q8_SIGN);
    const rf_u2 out = {{digit_times(four.v[0], d), digit_times(four.v[1], d)}};
    return out;
}

RF_DEVICE rf_u4 q8_eight(const uint32_t words[2], uint16_t d) {
    const rf_u2 first = q8_four(words[0], d), second = q8_four(words[1], d);
    const rf_u4 out = {{first.v[0], first.v[1], second.v[0], second.v[1]}};
    return out;
}
#endif
