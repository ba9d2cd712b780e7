/* arena.h - memory of one long-lived object, freed once and as a whole.
 *
 * Not thread-safe.  Pointers stay valid until rf_arena_free; nothing moves. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_arena rf_arena;
RF_CHECKED rf_status rf_arena_create(rf_arena **out);
void rf_arena_free(rf_arena *a); /* NULL is fine */
/* n * size zeroed bytes, 64-byte aligned; NULL on overflow or lack of memory. */
void *rf_arena_alloc(rf_arena *a, size_t n, size_t size);
/* A copy with a NUL behind it; .p is NULL on lack of memory. */
rf_str rf_arena_str(rf_arena *a, rf_str s);
size_t rf_arena_bytes(const rf_arena *a); /* taken from the system so far */

#ifdef __cplusplus
}
#endif
