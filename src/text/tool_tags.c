/* tool_tags.c - calls as tags with a key and a value for each argument: Qwen3-Coder, GLM, DeepSeek
 * V3.2, MiniMax M2, Seed, MiniCPM; and MiniMax M3, whose objects and lists are tags inside tags.
 *
 * Values are plain text; the tool's schema says which of them are strings.  Where it does not, a
 * value that reads as JSON (or as a Python literal) is one, and everything else is a string. */
#include <string.h>

#include "text/tool_format.h"

typedef enum guess { STRING, NULL_OR_STRING, LITERAL } guess;

static bool is_string_type(const rf_json *t) { return rf_str_is(rf_json_str(t), "string"); }

/* The schema of a member; NULL when unknown. */
static const rf_json *property(const rf_json *schema, rf_str key) {
    char name[RF_TOOL_MAX_NAME + 1];
    if (key.len >= sizeof name) return NULL;
    memcpy(name, key.p, key.len);
    name[key.len] = 0;
    return rf_json_get(rf_json_get(schema, "properties"), name);
}

static guess guess_of(const rf_json *schema) {
    const rf_json *type = rf_json_get(schema, "type");
    if (is_string_type(type)) return STRING;
    bool has_string = false, has_null = false;
    if (rf_json_kind(type) == RF_JSON_ARRAY) {
        for (size_t i = 0; i < rf_json_len(type); i++) {
            has_string = has_string || is_string_type(rf_json_at(type, i));
            has_null = has_null || rf_str_is(rf_json_str(rf_json_at(type, i)), "null");
        }
    }
    if (has_string) return has_null ? NULL_OR_STRING : STRING;
    return LITERAL;
}

/* One line break on either side belongs to the tags. */
static rf_str unwrap(rf_str v) {
    rf_take(&v, "\n");
    if (v.len && v.p[v.len - 1] == '\n') v.len--;
    return v;
}

/* Appends the value as JSON. */
static void put_value(rf_buf *out, rf_str v, guess g, bool *failed) {
    rf_str t = rf_trim(v);
    rf_json_type type;
    if (g == LITERAL && rf_is_json(t, &type, failed)) {
        rf_buf_put(out, t.p, t.len);
        return;
    }
    bool is_null = rf_str_is(t, "null") || rf_str_is(t, "None");
    if (g == NULL_OR_STRING && is_null) {
        rf_buf_puts(out, "null");
        return;
    }
    size_t before = out->len;
    if (g == LITERAL && rf_put_literal(&t, NULL, out) && t.len == 0) return;
    if (!out->failed) out->len = before;
    rf_buf_json_str(out, v);
}

/* The value ends at its closing tag, which must be followed by another key or the call's end: so a
 * value may hold the text of the tag. */
static rf_verdict take_value(const rf_body *b, rf_str *s, rf_str *value) {
    const rf_tags_dialect *d = b->dialect;
    const char *from = s->p;
    rf_str before;
    while (rf_take_until(s, d->value_end, &before)) {
        rf_str next = rf_cut_space(*s);
        bool ends = rf_str_starts(next, d->key);
        if (d->close) ends = ends || rf_str_starts(next, d->close);
        if (!d->close || !b->close) ends = ends || next.len == 0;
        if (!ends) continue;
        *value = (rf_str){from, (size_t)(before.p + before.len - from)};
        return RF_BODY_CALLS;
    }
    return RF_BODY_MORE;
}

static rf_verdict take_argument(const rf_body *b, rf_str *s, const rf_json *parameters,
                                rf_buf *args, rf_calls *out) {
    const rf_tags_dialect *d = b->dialect;
    rf_str key, attributes = {"", 0}, value = {"", 0};
    if (!rf_take_until(s, d->key_end, &key)) return RF_BODY_BAD;
    if (d->value && !rf_take_until(s, d->value, &attributes)) return RF_BODY_BAD;
    rf_verdict v = take_value(b, s, &value);
    if (v != RF_BODY_CALLS) return v;
    key = rf_trim(key);
    if (key.len == 0 || key.len > RF_TOOL_MAX_NAME) return RF_BODY_BAD;
    guess g = guess_of(property(parameters, key));
    attributes = rf_trim(attributes);
    if (rf_str_is(attributes, "string=\"true\"")) g = STRING;
    if (rf_str_is(attributes, "string=\"false\"")) g = LITERAL;
    rf_buf_puts(args, args->len > 1 ? ", " : "");
    rf_buf_json_str(args, key);
    rf_buf_puts(args, ": ");
    put_value(args, unwrap(value), g, &out->failed);
    return RF_BODY_CALLS;
}

/* GLM writes the name without a tag: it goes to the first key, or to the end. */
static bool take_name(const rf_tags_dialect *d, rf_str *s, rf_str *name) {
    if (d->open[0]) return rf_take(s, d->open) && rf_take_until(s, d->name_end, name);
    rf_str rest = *s;
    if (!rf_take_until(&rest, d->key, name)) *name = *s;
    *s = rf_cut(*s, name->len);
    return true;
}

static rf_verdict take_call(const rf_body *b, rf_str *s, rf_buf *args, rf_calls *out) {
    const rf_tags_dialect *d = b->dialect;
    rf_str name;
    if (!take_name(d, s, &name)) return RF_BODY_BAD;
    const rf_json *parameters = rf_tool_parameters(rf_tool_find(b->tools, rf_trim(name)));
    rf_buf_putc(args, '{');
    *s = rf_cut_space(*s);
    while (rf_take(s, d->key)) {
        rf_verdict v = take_argument(b, s, parameters, args, out);
        if (v != RF_BODY_CALLS) return v;
        *s = rf_cut_space(*s);
    }
    rf_buf_putc(args, '}');
    if (d->close && !rf_take(s, d->close) && (s->len || b->close)) return RF_BODY_BAD;
    if (args->failed) out->failed = true;
    *s = rf_cut_space(*s);
    return rf_calls_add(out, name, RF_STR(""), rf_buf_str(args));
}

rf_verdict rf_parse_tags(const rf_body *b, rf_calls *out) {
    rf_str s = rf_trim(b->text);
    if (s.len && s.p[0] == '{') return rf_parse_json(&(rf_body){.text = s}, out);
    rf_buf args = {0};
    rf_verdict v = s.len ? RF_BODY_CALLS : RF_BODY_BAD;
    while (v == RF_BODY_CALLS && s.len) {
        rf_buf_clear(&args);
        v = take_call(b, &s, &args, out);
    }
    rf_buf_free(&args);
    return v;
}

/* ---- tags inside tags ---- */

#define NESTED "]<]minimax[>[" /* before every tag, so that a value may be any other text */
enum { MAX_NESTED = 64 };

static bool take_open_tag(rf_str *s, rf_str *name) {
    rf_str rest = rf_cut_space(*s);
    if (!rf_take(&rest, NESTED "<") || rf_str_starts(rest, "/")) return false;
    if (!rf_take_until(&rest, ">", name) || name->len == 0) return false;
    *s = rest;
    return true;
}

static bool take_close_tag(rf_str *s, rf_str name) {
    rf_str closed;
    *s = rf_cut_space(*s);
    return rf_take(s, NESTED "</") && rf_take_until(s, ">", &closed) && rf_str_eq(closed, name);
}

static bool put_element(rf_str *s, rf_str name, const rf_json *schema, int depth, rf_buf *args,
                        bool *failed);

/* The elements up to the next closing tag, as an object or a list. */
static bool put_elements(rf_str *s, const rf_json *schema, bool is_list, int depth, rf_buf *args,
                         bool *failed) {
    const rf_json *items = rf_json_get(schema, "items");
    rf_str name;
    rf_buf_putc(args, is_list ? '[' : '{');
    for (size_t n = 0; take_open_tag(s, &name); n++) {
        if (n) rf_buf_puts(args, ", ");
        if (!is_list) {
            rf_buf_json_str(args, name);
            rf_buf_puts(args, ": ");
        }
        const rf_json *inner = is_list ? items : property(schema, name);
        if (!put_element(s, name, inner, depth + 1, args, failed)) return false;
    }
    rf_buf_putc(args, is_list ? ']' : '}');
    return true;
}

/* The value behind an opening tag, with the closing one.  A list's elements are called item. */
static bool put_element(rf_str *s, rf_str name, const rf_json *schema, int depth, rf_buf *args,
                        bool *failed) {
    rf_str type = rf_json_str(rf_json_get(schema, "type")), first = {NULL, 0}, rest = *s, text;
    if (depth == MAX_NESTED) return false;
    bool nested = take_open_tag(&rest, &first), is_list = rf_str_is(type, "array");
    if (!nested && !rf_take_until(&rest, NESTED, &text)) return false;
    bool empty = !nested && text.len == 0 && (is_list || rf_str_is(type, "object"));
    if (nested && !is_list) is_list = !rf_str_is(type, "object") && rf_str_is(first, "item");
    if (nested || empty) {
        if (!put_elements(s, schema, is_list, depth, args, failed)) return false;
    } else {
        put_value(args, text, guess_of(schema), failed);
        *s = rf_cut(*s, text.len);
    }
    return take_close_tag(s, name);
}

rf_verdict rf_parse_nested(const rf_body *b, rf_calls *out) {
    rf_str s = rf_trim(b->text), name;
    rf_buf args = {0};
    rf_verdict v = s.len ? RF_BODY_CALLS : RF_BODY_BAD;
    while (v == RF_BODY_CALLS && s.len) {
        rf_buf_clear(&args);
        v = RF_BODY_BAD;
        if (!rf_take(&s, NESTED "<invoke name=\"") || !rf_take_until(&s, "\">", &name)) break;
        const rf_json *parameters = rf_tool_parameters(rf_tool_find(b->tools, name));
        if (!put_elements(&s, parameters, false, 0, &args, &out->failed)) break;
        if (!take_close_tag(&s, RF_STR("invoke"))) break;
        if (args.failed) out->failed = true;
        v = rf_calls_add(out, name, RF_STR(""), rf_buf_str(&args));
        s = rf_cut_space(s);
    }
    rf_buf_free(&args);
    return v;
}
