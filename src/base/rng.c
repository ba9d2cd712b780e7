/* rng.c - numbers of the generator in philox.h. */
#include "base/rng.h"

#include "base/philox.h"

void rf_philox(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t out[4]) {
    out[0] = (uint32_t)counter;
    out[1] = (uint32_t)(counter >> 32);
    out[2] = (uint32_t)stream;
    out[3] = (uint32_t)(stream >> 32);
    rf_philox_words((uint32_t)seed, (uint32_t)(seed >> 32), out);
}

double rf_rng_unit(uint64_t seed, uint64_t stream, uint64_t counter) {
    uint32_t x[4];
    rf_philox(seed, stream, counter, x);
    uint64_t bits = ((uint64_t)x[1] << 32 | x[0]) >> 11;
    return (double)bits * 0x1p-53;
}
