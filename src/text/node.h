/* node.h - a place in a JSON document, so that an error can name it by its JSON pointer.
 *
 * Nodes live on the stack and point to the one they are inside of. */
#pragma once
#include "base/json.h"

typedef struct rf_node {
    const rf_json *json; /* NULL: absent */
    const struct rf_node *parent;
    const char *key; /* NULL: item at of an array */
    size_t at;
} rf_node;
rf_node rf_node_key(const rf_node *object, const char *key);
rf_node rf_node_at(const rf_node *array, size_t i);
static inline bool rf_node_absent(const rf_node *n) {
    return rf_json_kind(n->json) == RF_JSON_NULL;
}

/* "tokenizer.json /model/vocab: " and the text. */
rf_status rf_node_fail(const rf_node *n, rf_status s, rf_error *e, const char *fmt, ...)
    RF_PRINTF(4, 5);
/* Failures of *why get the place before their text. */
rf_status rf_node_pass(const rf_node *n, const rf_error *why, rf_error *e);
RF_CHECKED rf_status rf_node_need(const rf_node *n, rf_json_type type, rf_error *e);
/* Required. */
RF_CHECKED rf_status rf_node_str(const rf_node *n, rf_str *out, rf_error *e);
RF_CHECKED rf_status rf_node_id(const rf_node *n, uint32_t limit, uint32_t *out, rf_error *e);
/* *out keeps its value when the node is absent or null. */
RF_CHECKED rf_status rf_node_get_str(const rf_node *object, const char *key, rf_str *out,
                                     rf_error *e);
RF_CHECKED rf_status rf_node_get_bool(const rf_node *object, const char *key, bool *out,
                                      rf_error *e);
RF_CHECKED rf_status rf_node_get_u32(const rf_node *object, const char *key, uint32_t *out,
                                     rf_error *e);
