/* digest.c - SHA-256 by nettle; here so that one file knows which library does it. */
#include "base/digest.h"

#include <nettle/sha2.h>

_Static_assert(RF_SHA256_BYTES == SHA256_DIGEST_SIZE, "the size of a SHA-256 digest");

struct rf_sha256 {
    struct sha256_ctx context;
};

rf_status rf_sha256_create(rf_sha256 **out) {
    *out = rf_alloc(1, sizeof **out);
    if (!*out) return RF_ENOMEM;
    sha256_init(&(*out)->context);
    return RF_OK;
}

void rf_sha256_add(rf_sha256 *h, const void *p, size_t n) { sha256_update(&h->context, n, p); }

void rf_sha256_hex(rf_sha256 *h, char out[RF_SHA256_HEX]) {
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[RF_SHA256_BYTES];
    sha256_digest(&h->context, sizeof digest, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[RF_SHA256_HEX - 1] = '\0';
}

void rf_sha256_free(rf_sha256 *h) { rf_free(h); }
