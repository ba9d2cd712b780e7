/* map.h - a hash map from byte strings to u32, for vocabularies, metadata keys and tensor names.
 *
 * Keys are borrowed: they must outlive the map.  Seeded hash (wyhash-like mixing of our own), open
 * addressing, so hostile keys cost what ordinary ones cost.  Reading is thread-safe, writing is not. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RF_MAP_NONE UINT32_MAX
typedef struct rf_map rf_map;
RF_CHECKED rf_status rf_map_create(rf_map **out, size_t expected);
void rf_map_free(rf_map *m);
/* Sets key to value.  *old (may be NULL) becomes the previous value or RF_MAP_NONE. */
RF_CHECKED rf_status rf_map_put(rf_map *m, rf_str key, uint32_t value, uint32_t *old);
uint32_t rf_map_get(const rf_map *m, rf_str key); /* RF_MAP_NONE when absent */
size_t rf_map_len(const rf_map *m);
uint64_t rf_hash(const void *p, size_t n, uint64_t seed);

#ifdef __cplusplus
}
#endif
