/* pool.h - the thread pool: one job at a time, run by every thread, with a barrier inside the job.
 *
 * The caller of rf_pool_run is thread 0; n_threads - 1 workers spin briefly, then sleep on a futex
 * (condition variable elsewhere).  Work is never queued: a job is a function that all threads enter. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_pool rf_pool;
typedef void (*rf_pool_fn)(void *ctx, int ith, int n_threads);
RF_CHECKED rf_status rf_pool_create(rf_pool **out, int n_threads, rf_error *e);
void rf_pool_free(rf_pool *p);
int rf_pool_size(const rf_pool *p);
void rf_pool_run(rf_pool *p, rf_pool_fn fn, void *ctx); /* returns when all threads left fn */
void rf_pool_barrier(rf_pool *p);                       /* only inside fn, by all threads */
/* Between two looks at what another thread or a device writes: some tens of cycles. */
void rf_cpu_pause(void);

#ifdef __cplusplus
}
#endif
