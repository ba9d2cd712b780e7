/* node.c - see node.h. */
#include "text/node.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/buf.h"

static const char *const type_names[] = {"null",     "true or false", "an integer", "a number",
                                         "a string", "an array",      "an object"};

rf_node rf_node_key(const rf_node *object, const char *key) {
    bool is_object = rf_json_kind(object->json) == RF_JSON_OBJECT;
    return (rf_node){is_object ? rf_json_get(object->json, key) : NULL, object, key, 0};
}

rf_node rf_node_at(const rf_node *array, size_t i) {
    return (rf_node){rf_json_at(array->json, i), array, NULL, i};
}

static void put_pointer(const rf_node *n, rf_buf *out) {
    if (!n->parent) return;
    put_pointer(n->parent, out);
    rf_buf_putc(out, '/');
    if (!n->key) rf_buf_printf(out, "%zu", n->at);
    for (const char *c = n->key; c && *c && out->len < 200; c++) {
        if (*c == '~' || *c == '/') {
            rf_buf_puts(out, *c == '~' ? "~0" : "~1");
        } else {
            rf_buf_putc(out, *c);
        }
    }
}

rf_status rf_node_fail(const rf_node *n, rf_status s, rf_error *e, const char *fmt, ...) {
    char text[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    rf_buf pointer = {0};
    put_pointer(n, &pointer);
    if (pointer.failed) return rf_fail_nomem(e, pointer.len);
    rf_fail(e, s, "tokenizer.json %s: %s", pointer.len ? pointer.p : "/", text);
    rf_buf_free(&pointer);
    return s;
}

rf_status rf_node_pass(const rf_node *n, const rf_error *why, rf_error *e) {
    if (why->status == RF_ENOMEM) return rf_fail(e, RF_ENOMEM, "%s", why->text);
    return rf_node_fail(n, why->status, e, "%s", why->text);
}

rf_status rf_node_need(const rf_node *n, rf_json_type type, rf_error *e) {
    if (!n->json) return rf_node_fail(n, RF_EFORMAT, e, "missing, expected %s", type_names[type]);
    rf_json_type got = rf_json_kind(n->json);
    if (got == type || (type == RF_JSON_REAL && got == RF_JSON_INT)) return RF_OK;
    return rf_node_fail(n, RF_EFORMAT, e, "expected %s, got %s", type_names[type], type_names[got]);
}

rf_status rf_node_str(const rf_node *n, rf_str *out, rf_error *e) {
    RF_TRY(rf_node_need(n, RF_JSON_STRING, e));
    *out = rf_json_str(n->json);
    return RF_OK;
}

rf_status rf_node_id(const rf_node *n, uint32_t limit, uint32_t *out, rf_error *e) {
    RF_TRY(rf_node_need(n, RF_JSON_INT, e));
    int64_t v = rf_json_int(n->json);
    if (v < 0 || v >= (int64_t)limit) {
        return rf_node_fail(n, RF_EFORMAT, e, "%lld, expected 0 to %lld", (long long)v,
                            (long long)limit - 1);
    }
    *out = (uint32_t)v;
    return RF_OK;
}

rf_status rf_node_get_str(const rf_node *object, const char *key, rf_str *out, rf_error *e) {
    rf_node n = rf_node_key(object, key);
    return rf_node_absent(&n) ? RF_OK : rf_node_str(&n, out, e);
}

rf_status rf_node_get_bool(const rf_node *object, const char *key, bool *out, rf_error *e) {
    rf_node n = rf_node_key(object, key);
    if (rf_node_absent(&n)) return RF_OK;
    RF_TRY(rf_node_need(&n, RF_JSON_BOOL, e));
    *out = rf_json_bool(n.json);
    return RF_OK;
}

rf_status rf_node_get_u32(const rf_node *object, const char *key, uint32_t *out, rf_error *e) {
    rf_node n = rf_node_key(object, key);
    return rf_node_absent(&n) ? RF_OK : rf_node_id(&n, INT32_MAX, out, e);
}
