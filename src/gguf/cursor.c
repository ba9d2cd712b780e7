/* cursor.c - see cursor.h.  Bytes are put together one by one, so neither the host's byte order nor
 * alignment matters; compilers turn the loops into single loads. */
#include "gguf/cursor.h"

uint64_t rf_load_le(const uint8_t *p, unsigned n) {
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

void rf_store_le(uint8_t *p, uint64_t v, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

bool rf_cursor_bytes(rf_cursor *c, uint64_t n, const uint8_t **out) {
    if (n > rf_cursor_left(c)) return false;
    *out = c->size ? c->p + c->at : NULL; /* an empty file has no bytes to point at */
    c->at += n;
    return true;
}

bool rf_cursor_u32(rf_cursor *c, uint32_t *out) {
    const uint8_t *p;
    if (!rf_cursor_bytes(c, 4, &p)) return false;
    *out = (uint32_t)rf_load_le(p, 4);
    return true;
}

bool rf_cursor_u64(rf_cursor *c, uint64_t *out) {
    const uint8_t *p;
    if (!rf_cursor_bytes(c, 8, &p)) return false;
    *out = rf_load_le(p, 8);
    return true;
}
