/* json.c - rf_json is jansson's json_t under another name; nobody else includes jansson.
 *
 * Depth and zero bytes are checked before the library sees the text.  Its nodes are many and small,
 * so they come from malloc and not from rf_alloc, but they do fail when a test wants them to. */
#include "base/json.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 512

/* The library calls some failures of memory malformed text; this remembers the truth. */
static _Thread_local bool out_of_memory;

static void *take(size_t n) {
    void *p = rf_alloc_should_fail() ? NULL : malloc(n);
    if (!p) out_of_memory = true;
    return p;
}

static void install_allocator(void) { json_set_alloc_funcs(take, free); }

/* jansson's readers do not change a node, but some of them take it without const. */
static json_t *node(const rf_json *j) { return (json_t *)(uintptr_t)j; }

static rf_json *wrap(json_t *j) { return (rf_json *)(void *)j; }

/* Line and column, both from 1; columns count bytes. */
static rf_status fail_at(rf_error *e, rf_str text, size_t at, const char *what) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = text.p[i] == '\n' ? 1 : column + 1;
        line += text.p[i] == '\n';
    }
    return rf_fail(e, RF_EFORMAT, "JSON line %zu column %zu: %s", line, column, what);
}

static rf_status check_text(rf_str text, rf_error *e) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        if (c == '\0') return fail_at(e, text, i, "a zero byte, which JSON never contains");
        if (in_string) {
            if (c == '"') in_string = false;
            if (c == '\\' && i + 1 < text.len && text.p[i + 1] != '\0') i++;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > MAX_DEPTH) {
                return fail_at(e, text, i, "nested deeper than the 512 levels allowed");
            }
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return RF_OK;
}

rf_status rf_json_parse(rf_json **out, rf_str text, rf_error *e) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_allocator);
    *out = NULL;
    RF_TRY(check_text(text, e));
    out_of_memory = false;
    json_error_t error;
    memset(&error, 0, sizeof error);
    json_t *root = json_loadb(text.len ? text.p : "", text.len,
                              JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (root && !out_of_memory) {
        *out = wrap(root);
        return RF_OK;
    }
    json_decref(root);
    if (out_of_memory) { /* also when the library went on with what it had */
        return rf_fail(e, RF_ENOMEM, "out of memory while reading %zu bytes of JSON", text.len);
    }
    return rf_fail(e, RF_EFORMAT, "JSON line %d column %d: %s", error.line, error.column,
                   error.text);
}

void rf_json_free(rf_json *root) { json_decref(node(root)); }

rf_json_type rf_json_kind(const rf_json *j) {
    if (!j) return RF_JSON_NULL;
    switch (json_typeof(node(j))) {
    case JSON_OBJECT:
        return RF_JSON_OBJECT;
    case JSON_ARRAY:
        return RF_JSON_ARRAY;
    case JSON_STRING:
        return RF_JSON_STRING;
    case JSON_INTEGER:
        return RF_JSON_INT;
    case JSON_REAL:
        return RF_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return RF_JSON_BOOL;
    case JSON_NULL:
        return RF_JSON_NULL;
    }
    return RF_JSON_NULL;
}

size_t rf_json_len(const rf_json *j) {
    return json_is_array(node(j)) ? json_array_size(node(j)) : json_object_size(node(j));
}

const rf_json *rf_json_at(const rf_json *array, size_t i) {
    return wrap(json_array_get(node(array), i));
}

const rf_json *rf_json_get(const rf_json *object, const char *key) {
    return wrap(json_object_get(node(object), key));
}

rf_str rf_json_str(const rf_json *j) {
    if (!json_is_string(node(j))) return (rf_str){"", 0};
    return (rf_str){json_string_value(node(j)), json_string_length(node(j))};
}

int64_t rf_json_int(const rf_json *j) {
    if (json_is_integer(node(j))) return json_integer_value(node(j));
    double d = json_number_value(node(j)); /* 0 unless a number */
    if (d >= 0x1p63) return INT64_MAX;
    return d <= -0x1p63 ? INT64_MIN : (int64_t)d;
}

double rf_json_real(const rf_json *j) { return json_number_value(node(j)); }

bool rf_json_bool(const rf_json *j) { return json_is_true(node(j)); }

void *rf_json_iter(const rf_json *object) { return json_object_iter(node(object)); }

void *rf_json_iter_next(const rf_json *object, void *iter) {
    return json_object_iter_next(node(object), iter);
}

const char *rf_json_iter_key(void *iter) { return json_object_iter_key(iter); }

const rf_json *rf_json_iter_value(void *iter) { return wrap(json_object_iter_value(iter)); }
