/* cursor.h - a bounds-checked walk over borrowed little-endian bytes.
 *
 * Internal to the room gguf.  A read that would leave the bytes returns false and moves nothing;
 * at <= size always holds, so the bytes left are size - at without overflow. */
#pragma once
#include "base/base.h"

typedef struct rf_cursor {
    const uint8_t *p; /* [size] */
    uint64_t size, at;
} rf_cursor;

static inline uint64_t rf_cursor_left(const rf_cursor *c) { return c->size - c->at; }
bool rf_cursor_u32(rf_cursor *c, uint32_t *out);
bool rf_cursor_u64(rf_cursor *c, uint64_t *out);
bool rf_cursor_bytes(rf_cursor *c, uint64_t n, const uint8_t **out);

/* n <= 8 little-endian bytes at any alignment, zero-extended. */
uint64_t rf_load_le(const uint8_t *p, unsigned n);
void rf_store_le(uint8_t *p, uint64_t v, unsigned n);
