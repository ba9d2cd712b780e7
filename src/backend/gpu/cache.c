/* cache.c - where cached files lie. */
#include "backend/gpu/cache.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool rf_gpu_cache_path(char *out, size_t cap, const char *name_fmt, ...) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1, n_name;
    if (xdg && xdg[0] == '/')
        n = snprintf(out, cap, "%s/rocmforge/", xdg);
    else if (home && home[0] == '/')
        n = snprintf(out, cap, "%s/.cache/rocmforge/", home);
    if (n <= 0 || (size_t)n >= cap) return false;
    va_list args;
    va_start(args, name_fmt);
    n_name = vsnprintf(out + n, cap - (size_t)n, name_fmt, args);
    va_end(args);
    return n_name > 0 && (size_t)n_name < cap - (size_t)n;
}

rf_status rf_gpu_cache_make(const char *path, rf_error *e) {
    char folder[1000];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        int n = snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        if (n < 0 || (size_t)n >= sizeof folder)
            return rf_fail(e, RF_EIO, "%s: the path is too long", path);
        if (mkdir(folder, 0700) != 0 && errno != EEXIST)
            return rf_fail(e, RF_EIO, "%s: %s", folder, strerror(errno));
    }
    return RF_OK;
}
