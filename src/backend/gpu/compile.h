/* compile.h - kernels made at run time, for devices that no code of this build fits: by the compiler
 * that comes with a GPU's own software, hiprtc or nvrtc, opened with dlopen.
 *
 * The kernels' source is part of every build.  What was compiled is kept in the user's cache folder, by
 * the digest of source, architecture, options and compiler, with a digest of its own. */
#pragma once
#include "backend/gpu/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_gpu_source { /* as the build made it; the first is the one to compile */
    const char *name, *text;   /* "backend/gpu/args.h", as #include has it; NUL-terminated */
} rf_gpu_source;

typedef struct rf_gpu_compiled {
    char target[32]; /* "gfx1013", "sm_90a" */
    void *image;     /* from rf_alloc */
    size_t n;
} rf_gpu_compiled;

/* Is there a compiler for devices of this driver?  RF_EUNSUPPORTED, with the libraries tried: no. */
RF_CHECKED rf_status rf_gpu_compiler_find(const rf_gpu_driver *d, rf_error *e);
/* From the cache, else compiled, which takes a minute or several.  The error has what the compiler said
 * first; all of it goes to the log. */
RF_CHECKED rf_status rf_gpu_compile(const rf_gpu_driver *d, const char *arch, rf_gpu_compiled *out,
                                    rf_error *e);

#ifdef __cplusplus
}
#endif
