/* tool_json.c - calls as JSON: {"name": ..., "arguments": {...}}, alone, in a list or one after the
 * other; and what all notations share: cutting text, checking a call.
 *
 * Arguments keep the model's own spelling; nothing is parsed and written again. */
#include <string.h>

#include "text/tool_format.h"

/* ---- text ---- */

bool rf_is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

rf_str rf_cut_space(rf_str s) {
    while (s.len && rf_is_space(s.p[0]))
        s = rf_cut(s, 1);
    return s;
}

rf_str rf_trim(rf_str s) {
    s = rf_cut_space(s);
    while (s.len && rf_is_space(s.p[s.len - 1]))
        s.len--;
    return s;
}

bool rf_take(rf_str *s, const char *lit) {
    if (!rf_str_starts(*s, lit)) return false;
    *s = rf_cut(*s, strlen(lit));
    return true;
}

bool rf_take_until(rf_str *s, const char *lit, rf_str *before) {
    size_t n = strlen(lit);
    const char *at = s->len ? memmem(s->p, s->len, lit, n) : NULL;
    if (!at) return false;
    *before = (rf_str){s->p, (size_t)(at - s->p)};
    *s = rf_cut(*s, before->len + n);
    return true;
}

/* ---- values ---- */

/* The place behind the string that begins at s[at]; s.len + 1: it does not end. */
static size_t string_end(rf_str s, size_t at) {
    for (at++; at < s.len; at++) {
        if (s.p[at] == '"') return at + 1;
        if (s.p[at] == '\\') at++;
    }
    return s.len + 1;
}

static bool is_scalar(char c) {
    return c == '-' || c == '+' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

rf_verdict rf_json_extent(rf_str s, size_t *len) {
    size_t at = 0, depth = 0;
    if (s.len && is_scalar(s.p[0])) {
        while (at < s.len && is_scalar(s.p[at]))
            at++;
        *len = at;
        return RF_BODY_CALLS;
    }
    while (at < s.len) {
        char c = s.p[at];
        if (c == '"') {
            at = string_end(s, at);
            if (at > s.len) return RF_BODY_MORE;
        } else {
            depth += c == '{' || c == '[';
            if (depth == 0) return RF_BODY_BAD;
            depth -= c == '}' || c == ']';
            at++;
        }
        if (depth == 0) {
            *len = at;
            return RF_BODY_CALLS;
        }
    }
    return RF_BODY_BAD;
}

bool rf_is_json(rf_str s, rf_json_type *type, bool *failed) {
    rf_json *j;
    rf_status status = rf_json_parse(&j, s, NULL);
    if (status == RF_ENOMEM) *failed = true;
    if (status != RF_OK) return false;
    *type = rf_json_kind(j);
    rf_json_free(j);
    return true;
}

/* ---- calls ---- */

bool rf_tool_is_name(rf_str s) {
    if (s.len == 0 || s.len > RF_TOOL_MAX_NAME) return false;
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.p[i] <= ' ' || strchr("\"'<>{}()[]", s.p[i])) return false;
    return true;
}

static size_t keep(rf_calls *c, rf_str s) {
    size_t at = c->text.len;
    rf_buf_put(&c->text, s.len ? s.p : "", s.len);
    return at;
}

rf_verdict rf_calls_add(rf_calls *c, rf_str name, rf_str id, rf_str args) {
    rf_json_type type;
    name = rf_trim(name);
    args = rf_trim(args);
    id = rf_trim(id);
    if (!rf_tool_is_name(name) || c->n == RF_TOOL_MAX_CALLS) return RF_BODY_BAD;
    if (!rf_is_json(args, &type, &c->failed) || type != RF_JSON_OBJECT) return RF_BODY_BAD;
    c->list[c->n++] =
        (rf_call){keep(c, name), name.len, keep(c, id), id.len, keep(c, args), args.len};
    if (c->text.failed) c->failed = true;
    return RF_BODY_CALLS;
}

const rf_json *rf_tool_find(const rf_json *tools, rf_str name) {
    for (size_t i = 0; i < rf_json_len(tools); i++) {
        const rf_json *tool = rf_json_at(tools, i);
        const rf_json *function = rf_json_get(tool, "function");
        if (function) tool = function;
        if (rf_str_eq(rf_json_str(rf_json_get(tool, "name")), name)) return tool;
    }
    return NULL;
}

const rf_json *rf_tool_parameters(const rf_json *tool) {
    const rf_json *p = rf_json_get(tool, "parameters");
    return p ? p : rf_json_get(tool, "input_schema");
}

/* ---- one object ---- */

/* The text of a member's value in a valid object; .p NULL: absent. */
static rf_str member(rf_str object, const char *key) {
    rf_str s = rf_cut(object, 1), found = {NULL, 0};
    for (s = rf_cut_space(s); s.len && s.p[0] == '"'; s = rf_cut_space(s)) {
        size_t n = string_end(s, 0), len = 0;
        rf_str name = {s.p + 1, n - 2};
        s = rf_cut_space(rf_cut(s, n));
        s = rf_cut_space(rf_cut(s, 1)); /* the colon */
        if (rf_json_extent(s, &len) != RF_BODY_CALLS) return found;
        if (rf_str_is(name, key)) found = (rf_str){s.p, len};
        s = rf_cut_space(rf_cut(s, len));
        rf_take(&s, ",");
    }
    return found;
}

static rf_str first_member(rf_str object, const char *const *keys) {
    rf_str found = {NULL, 0};
    for (; *keys && !found.p; keys++)
        found = member(object, *keys);
    return found;
}

static const rf_json *first_value(const rf_json *object, const char *const *keys) {
    const rf_json *found = NULL;
    for (; *keys && !found; keys++)
        found = rf_json_get(object, *keys);
    return found;
}

static const char *const name_keys[] = {"name", "tool_name", "function", NULL};
static const char *const args_keys[] = {"arguments", "parameters", "args", NULL};
static const char *const id_keys[] = {"id", "tool_call_id", NULL};

/* text: a valid object, j: the same as a tree. */
static rf_verdict add_object(rf_calls *out, rf_str text, const rf_json *j) {
    rf_str id = rf_json_str(first_value(j, id_keys));
    const rf_json *inner = rf_json_get(j, "function");
    if (rf_json_kind(inner) == RF_JSON_OBJECT) {
        text = member(text, "function");
        j = inner;
        if (!text.p) return RF_BODY_BAD;
    }
    const rf_json *args = first_value(j, args_keys);
    rf_str written = first_member(text, args_keys);
    if (args && !written.p) return RF_BODY_BAD; /* a key spelled with escapes */
    if (rf_json_kind(args) == RF_JSON_STRING) written = rf_json_str(args);
    if (rf_json_kind(args) == RF_JSON_NULL) written = RF_STR("{}");
    return rf_calls_add(out, rf_json_str(first_value(j, name_keys)), id, written);
}

/* {"NAME": {arguments}} */
static rf_verdict add_mapped(rf_calls *out, rf_str text, const rf_json *j) {
    if (rf_json_len(j) != 1) return RF_BODY_BAD;
    const char *name = rf_json_iter_key(rf_json_iter(j));
    rf_str args = member(text, name);
    return args.p ? rf_calls_add(out, rf_str_of(name), RF_STR(""), args) : RF_BODY_BAD;
}

/* ---- the body ---- */

static rf_verdict take_object(rf_str *s, bool mapped, rf_calls *out) {
    size_t len = 0;
    rf_verdict v = rf_json_extent(*s, &len);
    if (v != RF_BODY_CALLS) return v;
    rf_str text = {s->p, len};
    rf_json *j;
    rf_status status = rf_json_parse(&j, text, NULL);
    if (status == RF_ENOMEM) out->failed = true;
    if (status != RF_OK) return RF_BODY_BAD;
    v = mapped ? add_mapped(out, text, j) : add_object(out, text, j);
    rf_json_free(j);
    *s = rf_cut(*s, len);
    return v;
}

/* Objects with nothing but commas, semicolons and white space between. */
static rf_verdict take_objects(rf_str s, bool mapped, rf_calls *out) {
    for (;;) {
        s = rf_cut_space(s);
        while (rf_take(&s, ",") || rf_take(&s, ";"))
            s = rf_cut_space(s);
        if (s.len == 0) return out->n ? RF_BODY_CALLS : RF_BODY_BAD;
        if (s.p[0] != '{') return RF_BODY_BAD;
        rf_verdict v = take_object(&s, mapped, out);
        if (v != RF_BODY_CALLS) return v;
    }
}

rf_verdict rf_parse_json(const rf_body *b, rf_calls *out) {
    rf_str s = rf_trim(b->text);
    bool mapped = b->dialect != NULL;
    if (rf_take(&s, "```json") || rf_take(&s, "```")) {
        s = rf_trim(s);
        if (s.len >= 3 && memcmp(s.p + s.len - 3, "```", 3) == 0) s.len -= 3;
        s = rf_trim(s);
    }
    if (s.len == 0 || s.p[0] != '[') return take_objects(s, mapped, out);
    size_t len = 0;
    rf_verdict v = rf_json_extent(s, &len);
    if (v != RF_BODY_CALLS) return v;
    if (len != s.len) return RF_BODY_BAD;
    return take_objects((rf_str){s.p + 1, s.len - 2}, mapped, out);
}

bool rf_plausible_json(rf_str body) {
    static const char *const keys[] = {"name\"", "type\"",      "function\"",
                                       "id\"",   "arguments\"", "parameters\""};
    rf_str s = rf_cut_space(body);
    if (rf_take(&s, "[")) s = rf_cut_space(s);
    if (s.len && !rf_take(&s, "{")) return false;
    s = rf_cut_space(s);
    if (s.len && !rf_take(&s, "\"")) return false;
    for (size_t i = 0; i < RF_COUNT(keys); i++) {
        size_t n = strlen(keys[i]);
        if (memcmp(s.len ? s.p : "", keys[i], s.len < n ? s.len : n) == 0) return true;
    }
    return s.len == 0;
}
