/* json.h - reading JSON, behind one header (today over jansson) so that the library can change.
 *
 * Strict: one value, valid UTF-8, no byte 0, no duplicate keys, bounded depth.  Writing JSON needs no
 * tree: rf_buf_printf and rf_buf_json_str do it. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_json rf_json; /* a node; the root owns the tree */
typedef enum rf_json_type {
    RF_JSON_NULL,
    RF_JSON_BOOL,
    RF_JSON_INT,
    RF_JSON_REAL,
    RF_JSON_STRING,
    RF_JSON_ARRAY,
    RF_JSON_OBJECT,
} rf_json_type;
RF_CHECKED rf_status rf_json_parse(rf_json **out, rf_str text, rf_error *e);
void rf_json_free(rf_json *root);
rf_json_type rf_json_kind(const rf_json *j);
size_t rf_json_len(const rf_json *j);                               /* array or object, else 0 */
const rf_json *rf_json_at(const rf_json *array, size_t i);          /* NULL when absent */
const rf_json *rf_json_get(const rf_json *object, const char *key); /* NULL when absent */
rf_str rf_json_str(const rf_json *j);  /* borrowed; empty unless a string */
int64_t rf_json_int(const rf_json *j); /* 0 unless a number */
double rf_json_real(const rf_json *j);
bool rf_json_bool(const rf_json *j);
/* Object members in file order. */
void *rf_json_iter(const rf_json *object);
void *rf_json_iter_next(const rf_json *object, void *iter);
const char *rf_json_iter_key(void *iter);
const rf_json *rf_json_iter_value(void *iter);

#ifdef __cplusplus
}
#endif
