/* tool_python.c - calls as Python writes them: [f(a='x', b=1), g()] (LFM2, Llama 4, Gemma 3), and
 * call:f{a:...} (Gemma 4): literals become JSON, nothing is ever run. */
#include <string.h>

#include "base/utf8.h"
#include "text/tool_format.h"

enum { MAX_DEPTH = 64 };

typedef struct reader {
    rf_str s;
    const char *quote; /* a further mark around strings, or NULL */
    rf_buf *out;
} reader;

static bool put_value(reader *r, int depth);

static bool is_word(char c) {
    return c == '_' || c == '.' || c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

static rf_str take_word(rf_str *s) {
    size_t n = 0;
    while (n < s->len && is_word(s->p[n]))
        n++;
    rf_str word = {s->p, n};
    *s = rf_cut(*s, n);
    return word;
}

/* ---- strings ---- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool take_hex(rf_str *s, size_t n, uint32_t *code) {
    if (s->len < n) return false;
    *code = 0;
    for (size_t i = 0; i < n; i++) {
        int d = hex_digit(s->p[i]);
        if (d < 0) return false;
        *code = *code << 4 | (uint32_t)d;
    }
    *s = rf_cut(*s, n);
    return true;
}

/* Behind a backslash.  JSON writes characters beyond 16 bits as a pair. */
static bool put_escape(rf_str *s, rf_buf *text) {
    static const char from[] = "nrtbf'\"\\/", to[] = "\n\r\t\b\f'\"\\/";
    if (s->len == 0) return false;
    char c = s->p[0];
    const char *at = strchr(from, c);
    *s = rf_cut(*s, 1);
    uint32_t code = 0, low = 0;
    char utf8[4];
    if (c && at) {
        rf_buf_putc(text, to[at - from]);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        if (!take_hex(s, c == 'x' ? 2 : c == 'u' ? 4 : 8, &code)) return false;
        rf_str rest = *s;
        if (code >= 0xD800 && code < 0xDC00 && rf_take(&rest, "\\u") && take_hex(&rest, 4, &low) &&
            low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            *s = rest;
        }
        rf_buf_put(text, utf8, (size_t)rf_utf8_encode(code, utf8));
    } else { /* as Python does: not an escape */
        rf_buf_putc(text, '\\');
        rf_buf_putc(text, c);
    }
    return true;
}

/* Up to the closing quote; raw: a backslash is itself. */
static bool put_string(reader *r, const char *quote, bool raw) {
    rf_buf text = {0};
    bool ok = true, closed = false;
    while (ok && r->s.len && !(closed = rf_take(&r->s, quote))) {
        char c = r->s.p[0];
        r->s = rf_cut(r->s, 1);
        if (c == '\\' && !raw)
            ok = put_escape(&r->s, &text);
        else
            rf_buf_putc(&text, c);
    }
    if (closed) rf_buf_json_str(r->out, rf_buf_str(&text));
    if (text.failed) r->out->failed = true;
    rf_buf_free(&text);
    return ok && closed;
}

static bool take_string(reader *r, bool *is_string) {
    static const char *const quotes[] = {"\"\"\"", "'''", "\"", "'"};
    *is_string = true;
    if (r->quote && rf_take(&r->s, r->quote)) return put_string(r, r->quote, true);
    for (size_t i = 0; i < RF_COUNT(quotes); i++)
        if (rf_take(&r->s, quotes[i])) return put_string(r, quotes[i], false);
    *is_string = false;
    return true;
}

/* ---- lists and dictionaries ---- */

static bool put_list(reader *r, const char *close, int depth) {
    rf_buf_putc(r->out, '[');
    for (size_t n = 0;; n++) {
        r->s = rf_cut_space(r->s);
        if (rf_take(&r->s, close)) break;
        if (n) rf_buf_puts(r->out, ", ");
        if (!put_value(r, depth)) return false;
        r->s = rf_cut_space(r->s);
        if (!rf_take(&r->s, ",") && !rf_str_starts(r->s, close)) return false;
    }
    rf_buf_putc(r->out, ']');
    return true;
}

/* A key with quotes, or a word where these are not needed. */
static bool put_key(reader *r, bool words) {
    bool is_string;
    if (!take_string(r, &is_string)) return false;
    if (is_string) return true;
    rf_str word = take_word(&r->s);
    if (!words || word.len == 0) return false;
    rf_buf_json_str(r->out, word);
    return true;
}

/* {k: v, ...} or (k=v, ...), behind the opening bracket. */
static bool put_pairs(reader *r, const char *equals, const char *close, bool words, int depth) {
    rf_buf_putc(r->out, '{');
    for (size_t n = 0;; n++) {
        r->s = rf_cut_space(r->s);
        if (rf_take(&r->s, close)) break;
        if (n) rf_buf_puts(r->out, ", ");
        if (!put_key(r, words)) return false;
        r->s = rf_cut_space(r->s);
        if (!rf_take(&r->s, equals)) return false;
        rf_buf_puts(r->out, ": ");
        if (!put_value(r, depth)) return false;
        r->s = rf_cut_space(r->s);
        if (!rf_take(&r->s, ",") && !rf_str_starts(r->s, close)) return false;
    }
    rf_buf_putc(r->out, '}');
    return true;
}

static bool put_word(reader *r) {
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    rf_str word = {r->s.p, 0};
    while (word.len < r->s.len && (is_word(word.p[word.len]) || word.p[word.len] == '+'))
        word.len++;
    if (word.len == 0) return false;
    r->s = rf_cut(r->s, word.len);
    for (size_t i = 0; i < RF_COUNT(words); i++) {
        if (!rf_str_is(word, words[i][0])) continue;
        rf_buf_puts(r->out, words[i][1]);
        return true;
    }
    rf_json_type type; /* what is left can only be a number */
    if (!rf_is_json(word, &type, &r->out->failed)) return false;
    rf_buf_put(r->out, word.p, word.len);
    return true;
}

static bool put_value(reader *r, int depth) {
    if (depth == MAX_DEPTH) return false;
    r->s = rf_cut_space(r->s);
    bool is_string;
    if (!take_string(r, &is_string)) return false;
    if (is_string) return true;
    if (rf_take(&r->s, "[")) return put_list(r, "]", depth + 1);
    if (rf_take(&r->s, "(")) return put_list(r, ")", depth + 1);
    if (rf_take(&r->s, "{")) return put_pairs(r, ":", "}", r->quote != NULL, depth + 1);
    return put_word(r);
}

bool rf_put_literal(rf_str *s, const char *quote, rf_buf *out) {
    reader r = {*s, quote, out};
    if (!put_value(&r, 0)) return false;
    *s = rf_cut_space(r.s);
    return true;
}

/* ---- calls ---- */

static rf_verdict finish_call(reader *r, bool ok, rf_str name, rf_calls *out) {
    rf_verdict v = RF_BODY_BAD;
    if (ok && !r->out->failed) v = rf_calls_add(out, name, RF_STR(""), rf_buf_str(r->out));
    if (r->out->failed) out->failed = true;
    rf_buf_free(r->out);
    return v;
}

/* name(k=v, ...); name.call(...) is how Llama 3 writes its built-in tools. */
static rf_verdict take_call(rf_str *s, rf_calls *out) {
    rf_buf args = {0};
    rf_str name = take_word(s);
    reader r = {*s, NULL, &args};
    bool ok = rf_take(&r.s, "(") && put_pairs(&r, "=", ")", true, 0);
    if (name.len > 5 && memcmp(name.p + name.len - 5, ".call", 5) == 0) name.len -= 5;
    *s = rf_cut_space(r.s);
    return finish_call(&r, ok, name, out);
}

rf_verdict rf_parse_python(const rf_body *b, rf_calls *out) {
    rf_str s = rf_trim(b->text);
    if (s.len && s.p[0] == '{') return rf_parse_json(b, out);
    if (rf_take(&s, "print(") && s.len) s.len--; /* its closing bracket */
    s = rf_cut_space(s);
    bool list = rf_take(&s, "[");
    for (;;) {
        s = rf_cut_space(s);
        if (list && rf_take(&s, "]")) break;
        if (!list && s.len == 0) break;
        rf_verdict v = take_call(&s, out);
        if (v != RF_BODY_CALLS) return v;
        if (list && !rf_take(&s, ",") && !rf_str_starts(s, "]")) return RF_BODY_BAD;
    }
    return out->n && rf_trim(s).len == 0 ? RF_BODY_CALLS : RF_BODY_BAD;
}

bool rf_plausible_python(rf_str body) {
    rf_str s = rf_cut_space(body);
    if (!rf_take(&s, "[")) return s.len == 0;
    s = rf_cut_space(s);
    rf_str name = take_word(&s);
    if (name.len == 0) return s.len == 0;
    return s.len == 0 || s.p[0] == '(';
}

rf_verdict rf_parse_braces(const rf_body *b, rf_calls *out) {
    rf_str s = rf_trim(b->text);
    rf_buf args = {0};
    if (!rf_take(&s, "call:")) return RF_BODY_BAD;
    rf_str name = take_word(&s);
    reader r = {s, b->dialect, &args};
    bool ok = rf_take(&r.s, "{") && put_pairs(&r, ":", "}", true, 0);
    return finish_call(&r, ok && rf_cut_space(r.s).len == 0, name, out);
}
