/* cache.h - small files that programs of one user keep for each other: $XDG_CACHE_HOME/rocmforge, else
 * ~/.cache/rocmforge. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The path of such a file; false: there is no place for it. */
bool rf_gpu_cache_path(char *out, size_t cap, const char *name_fmt, ...) RF_PRINTF(3, 4);
/* Makes every folder that leads to a file. */
RF_CHECKED rf_status rf_gpu_cache_make(const char *path, rf_error *e);

#ifdef __cplusplus
}
#endif
