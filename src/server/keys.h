/* keys.h - who may do what: API keys from a file that holds their SHA-256 sums, never the keys.
 *
 * A line is "SUM SCOPES NAME [WEIGHT]": 64 hexadecimal digits, scopes separated by commas, a name
 * for the log, and the share of the machine beside other keys that wait (1 to 1000; else 1).  Empty lines and lines that begin with # are skipped.  Read-only once loaded. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rf_scope {
    RF_SCOPE_NONE = 0, /* open to everybody */
    RF_SCOPE_USER = 1,
    RF_SCOPE_METRICS = 2,
    RF_SCOPE_ADMIN = 4, /* may do everything */
} rf_scope;
typedef struct rf_key {
    uint8_t sum[32];
    unsigned scopes; /* rf_scope bits */
    char name[48];
    uint32_t weight;
    uint64_t prefix_salt; /* keys of different ones do not reuse each other's computed prompts; 0 */
} rf_key;
typedef struct rf_keys rf_keys;

RF_CHECKED rf_status rf_keys_load(rf_keys **out, const char *path, rf_error *e);
RF_CHECKED rf_status rf_keys_parse(rf_keys **out, rf_str text, const char *path, rf_error *e);
void rf_keys_free(rf_keys *k); /* NULL is fine */
/* Gives each key a prefix_salt of its own, that no key of this process had before. */
void rf_keys_part_prefixes(rf_keys *k);
/* The key's entry, or NULL.  Takes the same time whichever matches, or none. */
const rf_key *rf_keys_find(const rf_keys *k, rf_str secret);
bool rf_key_may(const rf_key *key, rf_scope scope);

#ifdef __cplusplus
}
#endif
