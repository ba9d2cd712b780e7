/* chat.c - messages as OpenAI's clients write them, as messages that chat templates read.
 *
 * Text parts are joined, "developer" becomes "system", the arguments of tool calls become objects;
 * everything else passes as it is. */
#include <stdio.h>
#include <string.h>

#include "server/params.h"

static void put_number(rf_buf *out, const rf_json *v) {
    if (rf_json_kind(v) == RF_JSON_INT) {
        rf_buf_printf(out, "%lld", (long long)rf_json_int(v));
        return;
    }
    char text[40];
    snprintf(text, sizeof text, "%.17g", rf_json_real(v));
    rf_buf_puts(out, text);
    if (!strpbrk(text, ".e")) rf_buf_puts(out, ".0"); /* stays a real number */
}

static void put_object(rf_buf *out, const rf_json *v) {
    rf_buf_putc(out, '{');
    bool first = true;
    for (void *it = rf_json_iter(v); it; it = rf_json_iter_next(v, it)) {
        if (!first) rf_buf_putc(out, ',');
        first = false;
        rf_buf_json_str(out, rf_str_of(rf_json_iter_key(it)));
        rf_buf_putc(out, ':');
        rf_put_json(out, rf_json_iter_value(it));
    }
    rf_buf_putc(out, '}');
}

void rf_put_json(rf_buf *out, const rf_json *v) {
    switch (rf_json_kind(v)) {
    case RF_JSON_NULL:
        rf_buf_puts(out, "null");
        break;
    case RF_JSON_BOOL:
        rf_buf_puts(out, rf_json_bool(v) ? "true" : "false");
        break;
    case RF_JSON_INT:
    case RF_JSON_REAL:
        put_number(out, v);
        break;
    case RF_JSON_STRING:
        rf_buf_json_str(out, rf_json_str(v));
        break;
    case RF_JSON_ARRAY:
        rf_buf_putc(out, '[');
        for (size_t i = 0; i < rf_json_len(v); i++) {
            if (i) rf_buf_putc(out, ',');
            rf_put_json(out, rf_json_at(v, i));
        }
        rf_buf_putc(out, ']');
        break;
    case RF_JSON_OBJECT:
        put_object(out, v);
        break;
    }
}

static bool fail(rf_api_error *e, size_t i, const char *field, const char *expected) {
    char param[64];
    snprintf(param, sizeof param, "messages[%zu]%s%s", i, field[0] ? "." : "", field);
    return rf_api_fail(e, 400, "invalid_type", param, "%s must be %s", param, expected);
}

/* A string, null, or an array of parts, of which only text can be read by a language model. */
static bool put_content(rf_buf *out, const rf_json *v, const char *no_content, size_t i,
                        rf_api_error *e) {
    rf_json_type t = rf_json_kind(v);
    if (t == RF_JSON_STRING || t == RF_JSON_NULL) {
        if (t == RF_JSON_NULL)
            rf_buf_puts(out, no_content);
        else
            rf_put_json(out, v);
        return true;
    }
    if (t != RF_JSON_ARRAY) return fail(e, i, "content", "a string or an array of parts");
    rf_buf text = {0};
    bool ok = true;
    for (size_t k = 0; ok && k < rf_json_len(v); k++) {
        const rf_json *part = rf_json_at(v, k);
        const rf_json *words = rf_json_get(part, "text");
        rf_str type = rf_json_str(rf_json_get(part, "type"));
        if (!rf_str_is(type, "text") || rf_json_kind(words) != RF_JSON_STRING)
            ok = fail(e, i, "content", "text: parts of other types are not supported");
        else
            rf_buf_put(&text, rf_json_str(words).p, rf_json_str(words).len);
    }
    if (ok) rf_buf_json_str(out, rf_buf_str(&text));
    if (text.failed) out->failed = true;
    rf_buf_free(&text);
    return ok;
}

/* OpenAI carries arguments as a string of JSON, templates want the object. */
static void put_arguments(rf_buf *out, const rf_json *v) {
    rf_json *parsed = NULL;
    if (rf_json_kind(v) == RF_JSON_STRING &&
        rf_json_parse(&parsed, rf_json_str(v), NULL) == RF_OK &&
        rf_json_kind(parsed) == RF_JSON_OBJECT)
        rf_put_json(out, parsed);
    else
        rf_put_json(out, v);
    rf_json_free(parsed);
}

static void put_function(rf_buf *out, const rf_json *v) {
    rf_buf_putc(out, '{');
    bool first = true;
    for (void *it = rf_json_iter(v); it; it = rf_json_iter_next(v, it)) {
        if (!first) rf_buf_putc(out, ',');
        first = false;
        const char *key = rf_json_iter_key(it);
        rf_buf_json_str(out, rf_str_of(key));
        rf_buf_putc(out, ':');
        if (strcmp(key, "arguments") == 0)
            put_arguments(out, rf_json_iter_value(it));
        else
            rf_put_json(out, rf_json_iter_value(it));
    }
    rf_buf_putc(out, '}');
}

static bool put_tool_calls(rf_buf *out, const rf_json *calls, size_t i, rf_api_error *e) {
    if (rf_json_kind(calls) == RF_JSON_NULL) {
        rf_buf_puts(out, "null");
        return true;
    }
    if (rf_json_kind(calls) != RF_JSON_ARRAY) return fail(e, i, "tool_calls", "an array");
    rf_buf_putc(out, '[');
    for (size_t k = 0; k < rf_json_len(calls); k++) {
        const rf_json *call = rf_json_at(calls, k);
        const rf_json *function = rf_json_get(call, "function");
        if (rf_json_kind(function) != RF_JSON_OBJECT)
            return fail(e, i, "tool_calls", "an array of objects with a function");
        rf_buf_puts(out, k ? ",{\"type\":\"function\",\"id\":" : "{\"type\":\"function\",\"id\":");
        rf_put_json(out, rf_json_get(call, "id"));
        rf_buf_puts(out, ",\"function\":");
        put_function(out, function);
        rf_buf_putc(out, '}');
    }
    rf_buf_putc(out, ']');
    return true;
}

static bool put_message(rf_buf *out, const rf_json *m, const char *no_content, size_t i,
                        rf_api_error *e) {
    if (rf_json_kind(m) != RF_JSON_OBJECT) return fail(e, i, "", "an object");
    rf_str role = rf_json_str(rf_json_get(m, "role"));
    if (role.len == 0) return fail(e, i, "role", "a string such as user");
    rf_buf_puts(out, "{\"role\":");
    rf_buf_json_str(out, rf_str_is(role, "developer") ? RF_STR("system") : role);
    rf_buf_puts(out, ",\"content\":");
    if (!put_content(out, rf_json_get(m, "content"), no_content, i, e)) return false;
    for (void *it = rf_json_iter(m); it; it = rf_json_iter_next(m, it)) {
        const char *key = rf_json_iter_key(it);
        if (strcmp(key, "role") == 0 || strcmp(key, "content") == 0) continue;
        rf_buf_putc(out, ',');
        rf_buf_json_str(out, rf_str_of(key));
        rf_buf_putc(out, ':');
        if (strcmp(key, "tool_calls") != 0)
            rf_put_json(out, rf_json_iter_value(it));
        else if (!put_tool_calls(out, rf_json_iter_value(it), i, e))
            return false;
    }
    rf_buf_putc(out, '}');
    return true;
}

bool rf_params_put_messages(rf_buf *out, const rf_json *messages, const char *no_content,
                            rf_api_error *e) {
    rf_buf_putc(out, '[');
    for (size_t i = 0; i < rf_json_len(messages); i++) {
        if (i) rf_buf_putc(out, ',');
        if (!put_message(out, rf_json_at(messages, i), no_content, i, e)) return false;
    }
    rf_buf_putc(out, ']');
    return true;
}
