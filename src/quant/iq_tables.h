/* iq_tables.h - the code books of the IQ formats: which vectors the stored indices stand for.
 *
 * An entry holds one byte per element, element 0 in the lowest byte.  Private to src/quant and src/backend/cpu. */
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const uint64_t rf_iq2xxs_grid[256]; /* 8 values of {8, 25, 43} */
extern const uint64_t rf_iq2xs_grid[512];
extern const uint64_t rf_iq2s_grid[1024];
extern const uint64_t rf_iq1s_grid[2048];  /* 8 values of {0, 1, 2}, which mean -1, 0, 1 */
extern const uint32_t rf_iq3xxs_grid[256]; /* 4 values of {4, 12, 20, 28, 36, 44, 52, 62} */
extern const uint32_t rf_iq3s_grid[512];   /* 4 values of {1, 3, 5, 7, 9, 11, 13, 15} */

#ifdef __cplusplus
}
#endif
