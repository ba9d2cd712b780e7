/* host.h - a GPU that is this processor: the kernels compiled as C behind the driver's table, so that
 * the whole GPU backend runs in tests on any machine.
 *
 * The threads of a block are fibres that take turns at barriers; blocks run one after another.
 * Memory is the heap's, filled with noise, so that sanitizers see what kernels touch.  A call of the
 * queue has run when it returns, unless it is recorded for a graph. */
#pragma once
#include "backend/gpu/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The table; rf_gpu_driver_set(rf_host_gpu()) makes it the process's GPU. */
const rf_gpu_driver *rf_host_gpu(void);
enum { RF_HOST_SHARED = 227 << 10 }; /* bytes of shared memory that a block may take */

/* Runs the n threads (at most RF_FIBRE_MAX) of block bid of a grid, each f(arg) with its own number in
 * rf_host_now.  False when some threads ended while others waited at a barrier, or all wait for each other. */
enum { RF_FIBRE_MAX = 512 };
bool rf_fibres_run(uint32_t n, uint32_t grid_x, const uint32_t bid[3], void (*f)(const void *arg),
                   const void *arg);

/* A kernel under its symbol in a code object; NULL when there is none. */
typedef struct rf_host_kernel {
    const char *symbol;
    void (*run)(const void *args);
    size_t args_bytes;
} rf_host_kernel;
const rf_host_kernel *rf_host_kernel_get(const char *symbol);

#ifdef __cplusplus
}
#endif
