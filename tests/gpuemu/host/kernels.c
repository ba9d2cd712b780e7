/* kernels.c - the GPU's kernels as C for the host device, and their table. */
#include "backend/gpu/kernels/kernels.hip"

#include "gpuemu/host/host.h"

#define RUN(function, args)                     \
    static void run_##function(const void *p) { \
        args a;                                 \
        memcpy(&a, p, sizeof a);                \
        rf_##function(a);                       \
    }
#define X(name, args, block) RUN(name, args)
#define X_NVIDIA(name, args, block)
#define X_AMD_MATRIX(name, args, block)
#include "backend/gpu/kernels.def"
#undef X
#define X(name, kind, args) RUN(name##_kind_##kind, args)
#include "backend/gpu/kinds.def"
#undef X

static const rf_host_kernel table[] = {
#define X(name, args, block) {"rf_" #name, run_##name, sizeof(args)},
#define X_NVIDIA(name, args, block)
#define X_AMD_MATRIX(name, args, block)
#include "backend/gpu/kernels.def"
#undef X
#define X(name, kind, args) {"rf_" #name "_kind_" #kind, run_##name##_kind_##kind, sizeof(args)},
#include "backend/gpu/kinds.def"
#undef X
};

const rf_host_kernel *rf_host_kernel_get(const char *symbol) {
    for (size_t i = 0; i < RF_COUNT(table); i++)
        if (strcmp(table[i].symbol, symbol) == 0) return &table[i];
    return NULL;
}
