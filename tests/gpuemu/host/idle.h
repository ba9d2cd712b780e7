/* idle.h - a GPU of any architecture whose kernels do nothing: for tests of what is launched, not of what
 * it computes. */
#pragma once
#include "backend/gpu/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The table; arch: "sm_90", "gfx942", ...  Code for it has to be there (rf_gpu_codes_set), of whatever
 * bytes. */
const rf_gpu_driver *rf_idle_gpu(const char *arch, uint32_t n_units);

#ifdef __cplusplus
}
#endif
