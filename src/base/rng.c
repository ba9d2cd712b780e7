/* rng.c - Philox 4x32 with ten rounds, written from the paper's description. */
#include "base/rng.h"

void rf_philox(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t out[4]) {
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint32_t x0 = (uint32_t)counter, x1 = (uint32_t)(counter >> 32);
    uint32_t x2 = (uint32_t)stream, x3 = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)x0 * 0xD2511F53u;
        uint64_t b = (uint64_t)x2 * 0xCD9E8D57u;
        x0 = (uint32_t)(b >> 32) ^ x1 ^ key0;
        x1 = (uint32_t)b;
        x2 = (uint32_t)(a >> 32) ^ x3 ^ key1;
        x3 = (uint32_t)a;
        key0 += 0x9E3779B9u; /* the golden ratio and sqrt 3 - 1, as binary fractions */
        key1 += 0xBB67AE85u;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

double rf_rng_unit(uint64_t seed, uint64_t stream, uint64_t counter) {
    uint32_t x[4];
    rf_philox(seed, stream, counter, x);
    uint64_t bits = ((uint64_t)x[1] << 32 | x[0]) >> 11;
    return (double)bits * 0x1p-53;
}
