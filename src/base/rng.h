/* rng.h - a counter-based random generator: the value depends only on (seed, stream, counter).
 *
 * Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).  So the
 * nth token of a request draws the same number whatever else runs beside it. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

void rf_philox(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t out[4]);
double rf_rng_unit(uint64_t seed, uint64_t stream,
                   uint64_t counter); /* uniform in [0, 1), 53 bits */

#ifdef __cplusplus
}
#endif
