/* philox.h - the generator of rng.h in one expression of C that GPU kernels compile as well.
 *
 * Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011), written from
 * the paper's description. */
#pragma once
#include <stdint.h>

/* How a function is declared that host and kernels have in common; kernels say so before. */
#ifndef RF_BOTH
#define RF_BOTH static inline
#endif

RF_BOTH void rf_philox_words(uint32_t key0, uint32_t key1, uint32_t x[4]) {
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)x[0] * 0xD2511F53u;
        const uint64_t b = (uint64_t)x[2] * 0xCD9E8D57u;
        x[0] = (uint32_t)(b >> 32) ^ x[1] ^ key0;
        x[1] = (uint32_t)b;
        x[2] = (uint32_t)(a >> 32) ^ x[3] ^ key1;
        x[3] = (uint32_t)a;
        key0 += 0x9E3779B9u; /* the golden ratio and sqrt 3 - 1, as binary fractions */
        key1 += 0xBB67AE85u;
    }
}
