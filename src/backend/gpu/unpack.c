/* unpack.c - Zstandard frames back into code objects. */
#include "backend/gpu/unpack.h"

#ifdef RF_GPU_ZSTD
#include <string.h>
#include <zstd.h>

enum { MAX_BYTES = 256 << 20 }; /* of a code object, before anything is allocated for it */

static bool is_packed(const void *image, size_t n) {
    static const unsigned char magic[] = {0x28, 0xb5, 0x2f, 0xfd};
    return n >= sizeof magic && memcmp(image, magic, sizeof magic) == 0;
}

static rf_status damaged(const char *target, const char *what, rf_error *e) {
    return rf_fail(e, RF_EFORMAT,
                   "the kernels for %s in this program are damaged (%s): install it again", target,
                   what);
}

static rf_status unpack(const char *target, const void *image, size_t n_packed, void **out,
                        rf_error *e) {
    unsigned long long n = ZSTD_getFrameContentSize(image, n_packed);
    if (n == ZSTD_CONTENTSIZE_ERROR || n == ZSTD_CONTENTSIZE_UNKNOWN || n > MAX_BYTES)
        return damaged(target, "no size that can be", e);
    char *to = rf_alloc((size_t)n + 1, 1);
    if (!to) return rf_fail_nomem(e, (size_t)n + 1);
    size_t got = ZSTD_decompress(to, (size_t)n, image, n_packed);
    if (got == n) {
        *out = to;
        return RF_OK;
    }
    rf_free(to);
    return damaged(target, ZSTD_isError(got) ? ZSTD_getErrorName(got) : "too short", e);
}
#endif

rf_status rf_gpu_code_unpack(const char *target, const void *image, const void *end,
                             const void **out, void **owned, rf_error *e) {
    *owned = NULL;
    *out = image;
#ifdef RF_GPU_ZSTD
    size_t n = (size_t)((const char *)end - (const char *)image);
    if (is_packed(image, n)) RF_TRY(unpack(target, image, n, owned, e));
    if (*owned) *out = *owned;
#else
    (void)target, (void)end, (void)e;
#endif
    return RF_OK;
}
