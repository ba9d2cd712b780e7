/* quarantine.h - what the self-test found, kept between programs: the kernels that a queue must not
 * launch.
 *
 * A verdict is a small text in the cache folder, named by what it is about: architecture, driver and
 * the digest of the kernels' code.  Another driver or another build starts without one. */
#pragma once
#include "backend/gpu/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The file of the queue's device; false: there is no cache folder, or no code was loaded. */
bool rf_gpu_verdict_path(const rf_gpu_queue *q, char *out, size_t cap);
/* Keeps a verdict: the names of the kernels that failed.  Makes the folder. */
RF_CHECKED rf_status rf_gpu_verdict_write(const rf_gpu_queue *q, const bool *failed, rf_error *e);
/* Marks the kernels that an earlier verdict names.  No verdict, or an unreadable one: none. */
void rf_gpu_verdict_read(rf_gpu_queue *q);
/* RF_EUNSUPPORTED, with the kernel's name, when one is left out that no other can stand in for. */
RF_CHECKED rf_status rf_gpu_quarantine_check(const rf_gpu_queue *q, rf_error *e);

#ifdef __cplusplus
}
#endif
