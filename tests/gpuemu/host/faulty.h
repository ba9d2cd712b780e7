/* faulty.h - any GPU driver made to fail when a test says so: launches and waits that fail, devices that
 * stay lost, kernels that do nothing.
 *
 * After a failure every call but those that free memory fails too, until the device is reset. */
#pragma once
#include "backend/gpu/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A driver over another one; nothing fails yet. */
const rf_gpu_driver *rf_faulty_gpu(const rf_gpu_driver *under);
/* The nth launch from now fails (a graph counts as one), and after a reset the nth again, in all
 * `times` times; 0: none. */
void rf_faulty_launch(uint64_t nth, uint32_t times);
/* The same for waiting: a kernel that never ended. */
void rf_faulty_wait(uint64_t nth, uint32_t times);
void rf_faulty_lose(bool is_lost); /* no reset helps */
/* From now on the kernel of that symbol does nothing; NULL: none. */
void rf_faulty_spoil(const char *symbol);

#ifdef __cplusplus
}
#endif
