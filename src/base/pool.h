/* pool.h - the thread pool: one job at a time, run by every thread, with a barrier inside the job.
 *
 * The caller of rf_pool_run is thread 0; n_threads - 1 workers spin briefly, then sleep on a futex
 * (condition variable elsewhere).  Work is never queued: a job is a function that all threads enter. */
#pragma once
#include "base/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_pool rf_pool;
typedef void (*rf_pool_fn)(void *ctx, int ith, int n_threads);
RF_CHECKED rf_status rf_pool_create(rf_pool **out, int n_threads, rf_error *e);
/* The same for work on memory that lies near to some processors: threads are spread over the nodes, and where
 * these are several each thread stays on its node's processors; workers always, the caller of rf_pool_run
 * until that returns. */
RF_CHECKED rf_status rf_pool_create_on(rf_pool **out, int n_threads, const rf_nodes *nodes,
                                       rf_error *e);
void rf_pool_free(rf_pool *p);
int rf_pool_size(const rf_pool *p);
const rf_spread *rf_pool_spread(const rf_pool *p);
void rf_pool_run(rf_pool *p, rf_pool_fn fn, void *ctx); /* returns when all threads left fn */
void rf_pool_barrier(rf_pool *p);                       /* only inside fn, by all threads */
/* Between two looks at what another thread or a device writes: some tens of cycles. */
void rf_cpu_pause(void);

#ifdef __cplusplus
}
#endif
