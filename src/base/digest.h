/* digest.h - SHA-256 (FIPS 180-4) of data that arrives in pieces, by the nettle library. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_SHA256_BYTES = 32, RF_SHA256_HEX = 65 /* with its NUL */ };

typedef struct rf_sha256 rf_sha256;
RF_CHECKED rf_status rf_sha256_create(rf_sha256 **out);
void rf_sha256_add(rf_sha256 *h, const void *p, size_t n);
/* The digest in lower-case hex; h starts anew. */
void rf_sha256_hex(rf_sha256 *h, char out[RF_SHA256_HEX]);
void rf_sha256_free(rf_sha256 *h); /* NULL is fine */

#ifdef __cplusplus
}
#endif
