/* selftest.h - every GPU kernel against the CPU backend on this machine's own GPU: the same bits or not.
 *
 * The verdict is kept in the user's cache folder for this device's architecture, this driver and these
 * kernels; the GPU backend reads it when it opens and leaves out the kernels that failed. */
#pragma once
#include "backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_kernel_verdict {
    const char *name; /* "rf_vec_32_40_1" */
    uint32_t n_cases, n_failed;
    uint64_t formats; /* bit t: was given weights or a KV cache of rf_dtype t */
    char text[200];   /* the first failure */
} rf_kernel_verdict;

typedef struct rf_selftest {
    rf_gpu_found gpu;
    rf_kernel_verdict *kernels;             /* [n_kernels] */
    size_t n_kernels, n_failed, n_untested; /* kernels */
    uint64_t seed;
    double seconds;
    char path[600]; /* where the verdict is kept; empty: nowhere could be */
} rf_selftest;

_Static_assert(RF_DT_COUNT <= 64, "a bit per format");

typedef struct rf_selftest_opts {
    int device;
    uint64_t seed;  /* of the random numbers */
    bool quick;     /* tests: a few formats, small shapes */
    uint32_t kinds; /* tests: bit k: trials of that kind (rf_gpu_trial_kind); 0: all */
} rf_selftest_opts;

/* RF_OK also when kernels failed.  The device must not be in use by another backend of this process:
 * a kernel that faults takes all of them with it. */
RF_CHECKED rf_status rf_selftest_run(rf_selftest **out, const rf_selftest_opts *o, rf_error *e);
void rf_selftest_free(rf_selftest *t); /* NULL is fine */

#ifdef __cplusplus
}
#endif
