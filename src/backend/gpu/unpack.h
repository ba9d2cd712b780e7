/* unpack.h - machine code as a driver takes it.
 *
 * A build with libzstd keeps its code objects compressed, each a frame that tells the size of what is
 * in it and a checksum; one without has them as they are.  Both come through here. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* image up to end, of a target; *out: image itself, or in *owned, from rf_alloc, what is compressed
 * there (else *owned is NULL), with a NUL behind it. */
RF_CHECKED rf_status rf_gpu_code_unpack(const char *target, const void *image, const void *end,
                                        const void **out, void **owned, rf_error *e);

#ifdef __cplusplus
}
#endif
