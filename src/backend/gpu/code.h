/* code.h - the kernels' machine code: what this build brought, and which of it a device runs.
 *
 * The build embeds one code object per target: an ELF for each AMD architecture or family, PTX for NVIDIA and, where
 * ptxas was there, machine code before it (cmake/kernels.cmake), compressed or not (unpack.h).  A build without the
 * compiler brings none.
 * For devices that none fits, the kernels are compiled at run time where that can be done (compile.h). */
#pragma once
#include "backend/gpu/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_gpu_code {
    const char *target; /* "gfx1100", "gfx11-generic", "sm_80" */
    const void *image, *end;
    bool is_binary; /* NVIDIA: machine code, not PTX */
} rf_gpu_code;

/* The ith target of this build, each once, NULL past the last. */
const char *rf_gpu_code_target(size_t i);
/* The code for an architecture: its own (sm_90: sm_90a first), else its family's, else (NVIDIA) that of the newest
 * older one, but none with an "a", and machine code only of the same generation; NULL: none.  targets: ends with a
 * row of NULL; NULL: those of this build. */
const rf_gpu_code *rf_gpu_code_for(const char *arch, const rf_gpu_code *targets);
/* Is a target one of AMD's with matrix units? */
bool rf_gpu_code_has_matrix(const char *target);
/* Tests: the codes of this build from now on; NULL: those it has. */
void rf_gpu_codes_set(const rf_gpu_code *all);
/* Loads the kernels of the queue's device: the best code that the driver takes, else, or with
 * RF_GPU_COMPILE=1 in the environment, compiled ones. */
RF_CHECKED rf_status rf_gpu_code_load(rf_gpu_queue *q, rf_error *e);

#ifdef __cplusplus
}
#endif
