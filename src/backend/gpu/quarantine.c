/* quarantine.c - verdicts of the self-test in the cache folder, and what they forbid. */
#include "backend/gpu/quarantine.h"

#include <stdio.h>
#include <string.h>

#include "backend/gpu/cache.h"
#include "backend/gpu/launch.h"
#include "base/os.h"

static const char first_line[] = "rocmforge selftest 1\n";

bool rf_gpu_verdict_path(const rf_gpu_queue *q, char *out, size_t cap) {
    out[0] = 0;
    if (q->code_digest[0] &&
        rf_gpu_cache_path(out, cap, "selftest-%s-%s-%d-%.16s.txt", q->info.arch, q->driver->name,
                          q->driver->version, q->code_digest))
        return true;
    out[0] = 0;
    return false;
}

rf_status rf_gpu_verdict_write(const rf_gpu_queue *q, const bool *failed, rf_error *e) {
    char path[600];
    rf_outfile *f = NULL;
    if (!rf_gpu_verdict_path(q, path, sizeof path))
        return rf_fail(e, RF_EIO, "there is no cache folder: XDG_CACHE_HOME and HOME are not set");
    RF_TRY(rf_gpu_cache_make(path, e));
    RF_TRY(rf_outfile_open(&f, path, e));
    rf_status s = rf_outfile_write(f, first_line, strlen(first_line), e);
    for (int k = 0; s == RF_OK && k < RF_GPU_KERNEL_COUNT; k++) {
        char line[80];
        if (!failed[k]) continue;
        int n = snprintf(line, sizeof line, "%s\n", rf_gpu_kernel_name((rf_gpu_kernel)k));
        s = rf_outfile_write(f, line, (size_t)n, e);
    }
    if (s == RF_OK) return rf_outfile_commit(f, e);
    rf_outfile_abort(f);
    return s;
}

void rf_gpu_verdict_read(rf_gpu_queue *q) {
    enum { MAX_BYTES = 64 << 10 };
    char path[600];
    uint8_t *text = NULL;
    size_t n, start = strlen(first_line);
    if (!rf_gpu_verdict_path(q, path, sizeof path)) return;
    if (rf_file_read(path, MAX_BYTES, &text, &n, NULL) != RF_OK) return;
    if (n < start || memcmp(text, first_line, start) != 0) n = start = 0;
    for (size_t at = start; at < n;) {
        const uint8_t *end = memchr(text + at, '\n', n - at);
        size_t len = end ? (size_t)(end - (text + at)) : n - at;
        for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++) {
            const char *name = rf_gpu_kernel_name((rf_gpu_kernel)k);
            if (strlen(name) == len && memcmp(text + at, name, len) == 0) q->left_out[k] = true;
        }
        at += len + 1;
    }
    rf_free(text);
}

rf_status rf_gpu_quarantine_check(const rf_gpu_queue *q, rf_error *e) {
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++) {
        if (!q->left_out[k] || rf_gpu_has_substitute(q, (rf_gpu_kernel)k)) continue;
        return rf_fail(e, RF_EUNSUPPORTED,
                       "%s: the kernel %s gave wrong results in the self-test, and no other can "
                       "stand in for it: run 'rocmforge selftest' again, update the driver, or "
                       "use the CPU",
                       q->info.name, rf_gpu_kernel_name((rf_gpu_kernel)k));
    }
    return RF_OK;
}
