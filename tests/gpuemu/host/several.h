/* several.h - several GPUs made of one: each with a memory of its own, whose size a test says and which
 * is counted to the byte; what is more fails. */
#pragma once
#include "backend/gpu/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_SEVERAL_MAX = 4 };

/* A driver of n devices over the first one of another driver, with room[i] bytes each. */
const rf_gpu_driver *rf_several_gpus(const rf_gpu_driver *under, int n, const size_t *room);
size_t rf_several_taken(int device); /* bytes of device memory that are not free now */

#ifdef __cplusplus
}
#endif
