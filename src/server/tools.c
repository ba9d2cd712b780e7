/* tools.c - the schema has a definition for each function, so that messages about it name the
 * function, and a choice of calls that refer to them. */
#include "server/tools.h"

#include <stdio.h>
#include <string.h>

#include "server/params.h"
#include "text/tool_parser.h"

static const rf_json *function_at(const rf_json *tools, size_t i) {
    return rf_json_get(rf_json_at(tools, i), "function");
}

static rf_str name_at(const rf_json *tools, size_t i) {
    return rf_json_str(rf_json_get(function_at(tools, i), "name"));
}

/* ---- checking ---- */

static bool fail(rf_api_error *e, size_t i, const char *field, const char *expected) {
    char param[64];
    snprintf(param, sizeof param, "tools[%zu]%s", i, field);
    return rf_api_fail(e, 400, "invalid_value", param, "%s must be %s", param, expected);
}

static bool check_one(const rf_json *tools, size_t i, rf_api_error *e) {
    rf_json_type parameters = rf_json_kind(rf_json_get(function_at(tools, i), "parameters"));
    if (!rf_str_is(rf_json_str(rf_json_get(rf_json_at(tools, i), "type")), "function"))
        return fail(e, i, ".type", "function; this server has no tools of its own");
    if (rf_json_kind(function_at(tools, i)) != RF_JSON_OBJECT)
        return fail(e, i, ".function", "an object with a name");
    if (!rf_tool_is_name(name_at(tools, i)))
        return fail(e, i, ".function.name",
                    "1 to 256 bytes without white space, quotes, brackets, < or >");
    if (parameters != RF_JSON_OBJECT && parameters != RF_JSON_NULL)
        return fail(e, i, ".function.parameters", "a JSON schema, as an object");
    for (size_t k = 0; k < i; k++)
        if (rf_str_eq(name_at(tools, k), name_at(tools, i)))
            return fail(e, i, ".function.name", "another one than those before it");
    return true;
}

bool rf_tools_check(const rf_json *tools, rf_api_error *e) {
    size_t n = rf_json_len(tools);
    if (n > RF_TOOLS_MAX)
        return rf_api_fail(e, 400, "invalid_value", "tools", "tools has %zu entries; at most %d", n,
                           RF_TOOLS_MAX);
    for (size_t i = 0; i < n; i++)
        if (!check_one(tools, i, e)) return false;
    return true;
}

/* ---- the schema ---- */

/* "#/$defs/NAME", as JSON pointers in URLs are written. */
static void put_pointer(rf_buf *out, rf_str name) {
    rf_buf_puts(out, "#/$defs/");
    for (size_t i = 0; i < name.len; i++) {
        char c = name.p[i];
        if (c == '~' || c == '/')
            rf_buf_puts(out, c == '~' ? "~0" : "~1");
        else if (c == '%')
            rf_buf_puts(out, "%25");
        else
            rf_buf_putc(out, c);
    }
}

/* rest: behind the function's own root. */
static void put_reference(rf_buf *out, rf_str name, rf_str rest) {
    rf_buf pointer = {0};
    put_pointer(&pointer, name);
    rf_buf_put(&pointer, rest.p, rest.len);
    rf_buf_json_str(out, rf_buf_str(&pointer));
    if (pointer.failed) out->failed = true;
    rf_buf_free(&pointer);
}

static bool is_among(const char *key, const char *const *list) {
    while (*list && strcmp(key, *list) != 0)
        list++;
    return *list != NULL;
}

static void put_moved(rf_buf *out, const rf_json *v, rf_str name, bool is_map);

static void put_keyword(rf_buf *out, const char *key, const rf_json *v, rf_str name) {
    static const char *const maps[] = {"properties",  "patternProperties", "$defs",
                                       "definitions", "dependentSchemas",  NULL};
    static const char *const values[] = {"enum", "const", "default", "examples", NULL};
    rf_str text = rf_json_str(v);
    if (strcmp(key, "$ref") == 0 && rf_str_starts(text, "#"))
        put_reference(out, name, (rf_str){text.p + 1, text.len - 1});
    else if (is_among(key, values))
        rf_put_json(out, v);
    else
        put_moved(out, v, name, is_among(key, maps));
}

/* The schema of a function's parameters at its new place: references into itself follow it there.
 * is_map: the keys are names of schemas, not keywords. */
static void put_moved(rf_buf *out, const rf_json *v, rf_str name, bool is_map) {
    rf_json_type type = rf_json_kind(v);
    if (type != RF_JSON_OBJECT && type != RF_JSON_ARRAY) {
        rf_put_json(out, v);
        return;
    }
    rf_buf_putc(out, type == RF_JSON_ARRAY ? '[' : '{');
    for (size_t i = 0; type == RF_JSON_ARRAY && i < rf_json_len(v); i++) {
        if (i) rf_buf_putc(out, ',');
        put_moved(out, rf_json_at(v, i), name, false);
    }
    void *first = type == RF_JSON_OBJECT ? rf_json_iter(v) : NULL;
    for (void *it = first; it; it = rf_json_iter_next(v, it)) {
        const char *key = rf_json_iter_key(it);
        if (it != first) rf_buf_putc(out, ',');
        rf_buf_json_str(out, rf_str_of(key));
        rf_buf_putc(out, ':');
        if (is_map)
            put_moved(out, rf_json_iter_value(it), name, false);
        else
            put_keyword(out, key, rf_json_iter_value(it), name);
    }
    rf_buf_putc(out, type == RF_JSON_ARRAY ? ']' : '}');
}

static void put_definition(rf_buf *out, const rf_json *function) {
    const rf_json *parameters = rf_json_get(function, "parameters");
    rf_str name = rf_json_str(rf_json_get(function, "name"));
    rf_buf_json_str(out, name);
    rf_buf_putc(out, ':');
    if (rf_json_kind(parameters) == RF_JSON_OBJECT)
        put_moved(out, parameters, name, false);
    else /* a function without any */
        rf_buf_puts(out, "{\"type\":\"object\",\"additionalProperties\":false}");
}

static void put_call(rf_buf *out, rf_str name) {
    rf_buf_puts(out, "{\"type\":\"object\",\"properties\":{\"name\":{\"const\":");
    rf_buf_json_str(out, name);
    rf_buf_puts(out, "},\"arguments\":{\"type\":\"object\",\"$ref\":");
    put_reference(out, name, RF_STR(""));
    rf_buf_puts(out, "}},\"required\":[\"name\",\"arguments\"],\"additionalProperties\":false}");
}

/* name: of the only function to call; empty: any of them. */
static void put_schema(rf_buf *out, const rf_json *tools, rf_str name, bool many) {
    size_t n = 0;
    rf_buf_puts(out, "{\"$defs\":{");
    for (size_t i = 0; i < rf_json_len(tools); i++) {
        if (name.len && !rf_str_eq(name, name_at(tools, i))) continue;
        if (n++) rf_buf_putc(out, ',');
        put_definition(out, function_at(tools, i));
    }
    rf_buf_puts(out, "},");
    if (many)
        rf_buf_printf(out, "\"type\":\"array\",\"minItems\":1,\"maxItems\":%d,\"items\":{",
                      RF_TOOL_MAX_CALLS);
    rf_buf_puts(out, "\"anyOf\":[");
    n = 0;
    for (size_t i = 0; i < rf_json_len(tools); i++) {
        if (name.len && !rf_str_eq(name, name_at(tools, i))) continue;
        if (n++) rf_buf_putc(out, ',');
        put_call(out, name_at(tools, i));
    }
    rf_buf_puts(out, many ? "]}}" : "]}");
}

/* ---- the choice ---- */

static bool has_function(const rf_json *tools, rf_str name) {
    for (size_t i = 0; i < rf_json_len(tools); i++)
        if (rf_str_eq(name, name_at(tools, i))) return true;
    return false;
}

bool rf_tools_put_choice(rf_buf *out, const rf_json *choice, const rf_json *tools, bool parallel,
                         rf_api_error *e) {
    rf_str word = rf_json_str(choice);
    rf_str name = rf_json_str(rf_json_get(rf_json_get(choice, "function"), "name"));
    bool named = name.len && rf_str_is(rf_json_str(rf_json_get(choice, "type")), "function");
    if (rf_str_is(word, "auto") || rf_str_is(word, "none")) return true;
    if (!named && !rf_str_is(word, "required"))
        return rf_api_fail(e, 400, "unsupported_value", "tool_choice",
                           "tool_choice must be \"auto\", \"none\", \"required\", or "
                           "{\"type\":\"function\",\"function\":{\"name\":...}}");
    if (rf_json_len(tools) == 0)
        return rf_api_fail(e, 400, "invalid_value", "tool_choice",
                           "tool_choice asks for a call, but there are no tools");
    if (named && !has_function(tools, name))
        return rf_api_fail(e, 400, "invalid_value", "tool_choice",
                           "tool_choice names '%.*s', which is not among the tools",
                           (int)(name.len > 80 ? 80 : name.len), name.p);
    put_schema(out, tools, name, parallel && !named);
    return true;
}
