/* split.h - a model's layers on several devices, for models that no single one has room for.
 *
 * A split is a list of stages: consecutive layers, each on a GPU or on the CPU.  The CPU's stage is the
 * first, where there is one; the last stage has the output matrix as well.  Rows of hidden states go
 * from stage to stage through the host's memory.  As all devices compute the same bits, so does a
 * split. */
#pragma once
#include "backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_CPU_STAGE = -1, RF_MAX_STAGES = RF_MAX_DEVICES + 1 };

typedef struct rf_split_stage {
    int device; /* number of the GPU, or RF_CPU_STAGE */
    uint32_t first_layer, n_layers;
    rf_need need;
    uint64_t spare; /* bytes taken of memory to spare, beside these */
} rf_split_stage;

typedef struct rf_split {
    rf_split_stage stage[RF_MAX_STAGES]; /* [n] */
    uint32_t n;
} rf_split;

/* Chooses the stages for plan p, of all layers; room: bytes free on each of the options' devices, of which
 * a little is left to the driver.  Needs no device.  Layers go to GPUs in proportion to their room, and
 * where that does not fit, as many as fit from the last layer backwards; what is left is the CPU's.
 * RF_ENOMEM: no layer fits, fewer than o->gpu_layers do, or not all where o->gpu_only. */
RF_CHECKED rf_status rf_split_place(rf_split *out, const rf_plan *p, const rf_limits *l,
                                    const rf_backend_opts *o, const uint64_t *room, rf_error *e);

/* The backend.  compile chooses the stages by the memory that is free; a model that is compiled again (for
 * embeddings) keeps its stages.  Plans that keep their values, and encoders, are not split. */
extern const rf_backend_ops rf_split_ops;
const rf_split *rf_split_of(const rf_exec *x); /* of an exec of rf_split_ops */

#ifdef __cplusplus
}
#endif
