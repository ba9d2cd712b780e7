/* print.c - values as text: Python's str() and repr(), and json.dumps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/internal.h"

void rf_jx_print_int(rf_jx *c, rf_jbuf *b, rf_i128 i) {
    char digits[48], *p = digits + sizeof digits;
    bool is_negative = i < 0;
    do { /* digit by digit: the smallest value has no positive twin */
        int d = (int)(i % 10);
        *--p = (char)('0' + (d < 0 ? -d : d));
        i /= 10;
    } while (i);
    if (is_negative) *--p = '-';
    rf_jbuf_text(c, b, p, (size_t)(digits + sizeof digits - p), false);
}

/* The shortest digits that read back as f, in Python's layout. */
void rf_jx_print_float(rf_jx *c, rf_jbuf *b, double f) {
    if (isnan(f) || isinf(f)) {
        rf_jbuf_puts(c, b, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    char text[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, f);
        double back = strtod(text, NULL);
        if (memcmp(&back, &f, sizeof f) == 0) break;
    }
    char digits[24];
    size_t n = 0;
    const char *p = text;
    if (*p == '-') {
        rf_jbuf_puts(c, b, "-");
        p++;
    }
    for (; *p && *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    }
    int exp = atoi(p + 1);
    if (exp < -4 || exp >= 16) {
        char tail[16];
        rf_jbuf_text(c, b, digits, 1, false);
        if (n > 1) rf_jbuf_puts(c, b, ".");
        rf_jbuf_text(c, b, digits + 1, n - 1, false);
        snprintf(tail, sizeof tail, "e%c%02d", exp < 0 ? '-' : '+', abs(exp));
        rf_jbuf_puts(c, b, tail);
        return;
    }
    if (exp < 0) {
        rf_jbuf_puts(c, b, "0.");
        for (int i = -1; i > exp; i--) {
            rf_jbuf_puts(c, b, "0");
        }
        rf_jbuf_text(c, b, digits, n, false);
        return;
    }
    size_t whole = (size_t)exp + 1;
    rf_jbuf_text(c, b, digits, n < whole ? n : whole, false);
    for (size_t i = n; i < whole; i++) {
        rf_jbuf_puts(c, b, "0");
    }
    rf_jbuf_puts(c, b, ".");
    if (n > whole) {
        rf_jbuf_text(c, b, digits + whole, n - whole, false);
    } else {
        rf_jbuf_puts(c, b, "0");
    }
}

static void put_part(rf_jx *c, rf_jbuf *b, rf_jstr s, size_t from, size_t n) {
    rf_jbuf_put(c, b, rf_jstr_cut(s, from, from + n));
}

static void put_escape(rf_jx *c, rf_jbuf *b, bool input, const char *fmt, unsigned v) {
    char text[16];
    int n = strcmp(fmt, "x") == 0   ? snprintf(text, sizeof text, "\\x%02x", v)
            : strcmp(fmt, "u") == 0 ? snprintf(text, sizeof text, "\\u%04x", v)
                                    : snprintf(text, sizeof text, "\\U%08x", v);
    rf_jbuf_text(c, b, text, (size_t)n, input);
}

static void repr_str(rf_jx *c, rf_jbuf *b, rf_jstr s, bool is_bytes) {
    bool single = s.len && memchr(s.p, '\'', s.len), twice = s.len && memchr(s.p, '"', s.len);
    char quote = single && !twice ? '"' : '\'';
    if (is_bytes) rf_jbuf_puts(c, b, "b");
    rf_jbuf_text(c, b, &quote, 1, false);
    for (size_t at = 0; at < s.len;) {
        uint32_t cp = (unsigned char)s.p[at];
        size_t n = is_bytes ? 1 : (size_t)rf_jstr_next(s, at, &cp);
        bool input = s.input && s.input[at];
        const char *known = cp && cp < 0x80 ? strchr("\nn\tt\rr", (int)cp) : NULL;
        if (cp == '\\' || cp == (uint32_t)quote) {
            rf_jbuf_text(c, b, "\\", 1, input);
            put_part(c, b, s, at, n);
        } else if (known && (cp == '\n' || cp == '\t' || cp == '\r')) {
            rf_jbuf_text(c, b, "\\", 1, input);
            rf_jbuf_text(c, b, known + 1, 1, input);
        } else if (is_bytes ? cp < 0x20 || cp > 0x7E : !rf_cp_is_printable(cp)) {
            put_escape(c, b, input, cp < 0x100 ? "x" : cp < 0x10000 ? "u" : "U", cp);
        } else {
            put_part(c, b, s, at, n);
        }
        at += n;
    }
    rf_jbuf_text(c, b, &quote, 1, false);
}

static void repr_seq(rf_jx *c, rf_jbuf *b, const rf_jv *v) {
    static const char *const opens[] = {
        "[", "(", "<generator object>", "dict_keys([", "dict_values([", "dict_items([", "range("};
    static const char *const closes[] = {"]", ")", "", "])", "])", "])", ")"};
    const rf_jseq *seq = v->seq;
    rf_jbuf_puts(c, b, opens[seq->flavor]);
    if (seq->flavor == JF_RANGE) {
        rf_i128 from = seq->n ? seq->items[0].i : 0, step = 1;
        if (seq->n > 1) step = seq->items[1].i - from;
        rf_jx_print_int(c, b, from);
        rf_jbuf_puts(c, b, ", ");
        rf_jx_print_int(c, b, from + step * (rf_i128)seq->n);
        if (step != 1) {
            rf_jbuf_puts(c, b, ", ");
            rf_jx_print_int(c, b, step);
        }
    }
    for (size_t i = 0; seq->flavor != JF_RANGE && seq->flavor != JF_GEN && i < seq->n; i++) {
        if (i) rf_jbuf_puts(c, b, ", ");
        rf_jv_repr(c, b, &seq->items[i]);
    }
    if (seq->flavor == JF_TUPLE && seq->n == 1) rf_jbuf_puts(c, b, ",");
    rf_jbuf_puts(c, b, closes[seq->flavor]);
}

static void repr_dict(rf_jx *c, rf_jbuf *b, const rf_jv *v) {
    rf_jbuf_puts(c, b, v->kind == JV_NS ? "<Namespace {" : "{");
    for (size_t i = 0; i < v->dict->n; i++) {
        if (i) rf_jbuf_puts(c, b, ", ");
        rf_jv_repr(c, b, &v->dict->pairs[i].key);
        rf_jbuf_puts(c, b, ": ");
        rf_jv_repr(c, b, &v->dict->pairs[i].value);
    }
    rf_jbuf_puts(c, b, v->kind == JV_NS ? "}>" : "}");
}

static void print_scalar(rf_jx *c, rf_jbuf *b, const rf_jv *v) {
    if (v->kind == JV_NONE) {
        rf_jbuf_puts(c, b, "None");
    } else if (v->kind == JV_BOOL) {
        rf_jbuf_puts(c, b, v->b ? "True" : "False");
    } else if (v->kind == JV_INT) {
        rf_jx_print_int(c, b, v->i);
    } else if (v->kind == JV_FLOAT) {
        rf_jx_print_float(c, b, v->f);
    } else if (v->kind == JV_UNDEF) {
        rf_jbuf_puts(c, b, "Undefined");
    } else if (v->kind == JV_METHOD) {
        rf_jbuf_puts(c, b, "<built-in method ");
        rf_jbuf_text(c, b, v->method->name.p, v->method->name.len, false);
        rf_jbuf_puts(c, b, " of ");
        rf_jbuf_puts(c, b, rf_jv_type(&v->method->self));
        rf_jbuf_puts(c, b, " object>");
    } else if (v->kind == JV_MACRO) {
        rf_jbuf_puts(c, b, "<Macro '");
        rf_jbuf_text(c, b, v->macro->node->name.p, v->macro->node->name.len, false);
        rf_jbuf_puts(c, b, "'>");
    } else {
        rf_jbuf_puts(c, b, "<");
        rf_jbuf_puts(c, b, rf_jv_type(v));
        rf_jbuf_puts(c, b, " object>");
    }
}

void rf_jv_repr(rf_jx *c, rf_jbuf *b, const rf_jv *v) {
    rf_jx_step(c, 1);
    rf_jx_enter(c);
    if (v->kind == JV_STR || v->kind == JV_BYTES) {
        repr_str(c, b, v->s, v->kind == JV_BYTES);
    } else if (v->kind == JV_SEQ) {
        repr_seq(c, b, v);
    } else if (v->kind == JV_DICT || v->kind == JV_NS) {
        repr_dict(c, b, v);
    } else {
        print_scalar(c, b, v);
    }
    rf_jx_leave(c);
}

void rf_jv_print(rf_jx *c, rf_jbuf *b, const rf_jv *v) {
    if (v->kind == JV_STR) {
        rf_jbuf_put(c, b, v->s);
    } else if (v->kind != JV_UNDEF) {
        rf_jv_repr(c, b, v);
    }
}

rf_jstr rf_jv_string(rf_jx *c, const rf_jv *v) {
    if (v->kind == JV_STR) return v->s;
    rf_jbuf b = {0};
    rf_jv_print(c, &b, v);
    return rf_jbuf_value(&b).s;
}

rf_jv rf_jx_escape(rf_jx *c, const rf_jv *v) {
    if (v->kind == JV_STR && v->is_safe) return *v;
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    rf_jstr s = rf_jv_string(c, v);
    rf_jbuf b = {0};
    for (size_t i = 0; i < s.len; i++) {
        const char *found = s.p[i] ? strchr(from, s.p[i]) : NULL;
        if (found) {
            const char *by = to[found - from];
            rf_jbuf_text(c, &b, by, strlen(by), s.input && s.input[i]);
        } else {
            put_part(c, &b, s, i, 1);
        }
    }
    rf_jv out = rf_jbuf_value(&b);
    out.is_safe = true;
    return out;
}

static void json_str(rf_jx *c, rf_jbuf *b, rf_jstr s, const rf_jjson *how) {
    static const char letters[] = "\"\\nrtbf", bytes[] = "\"\\\n\r\t\b\f";
    rf_jbuf_puts(c, b, "\"");
    for (size_t at = 0; at < s.len;) {
        uint32_t cp;
        size_t n = (size_t)rf_jstr_next(s, at, &cp);
        bool input = s.input && s.input[at];
        const char *known = cp && cp < 0x80 ? strchr(bytes, (int)cp) : NULL;
        if (known) {
            rf_jbuf_text(c, b, "\\", 1, input);
            rf_jbuf_text(c, b, letters + (known - bytes), 1, input);
        } else if (cp >= 0x10000 && how->ascii) {
            put_escape(c, b, input, "u", 0xD800 + ((cp - 0x10000) >> 10));
            put_escape(c, b, input, "u", 0xDC00 + ((cp - 0x10000) & 0x3FF));
        } else if (cp < 0x20 || (cp >= 0x7F && how->ascii)) {
            put_escape(c, b, input, "u", cp);
        } else {
            put_part(c, b, s, at, n);
        }
        at += n;
    }
    rf_jbuf_puts(c, b, "\"");
}

static void json_line(rf_jx *c, rf_jbuf *b, const rf_jjson *how, size_t level) {
    if (!how->is_pretty) return;
    rf_jbuf_puts(c, b, "\n");
    for (size_t i = 0; i < level; i++) {
        rf_jbuf_put(c, b, how->indent);
    }
}

static void json_value(rf_jx *c, rf_jbuf *b, const rf_jv *v, const rf_jjson *how, size_t level);

static void json_key(rf_jx *c, rf_jbuf *b, const rf_jv *key, const rf_jjson *how) {
    if (key->kind == JV_STR) {
        json_str(c, b, key->s, how);
    } else if (key->kind == JV_NONE || rf_jv_is_number(key)) {
        rf_jbuf_puts(c, b, "\"");
        json_value(c, b, key, how, 0);
        rf_jbuf_puts(c, b, "\"");
    } else {
        rf_jx_fail(c, "tojson: a key must be a string, a number or none, got %s", rf_jv_type(key));
    }
}

/* The place of each pair in the order of its key. */
static size_t *key_order(rf_jx *c, const rf_jdict *d, bool sort) {
    size_t *order = rf_jx_alloc(c, d->n, sizeof *order);
    for (size_t i = 0; i < d->n; i++) {
        size_t at = i;
        while (sort && at &&
               rf_jv_cmp(c, &d->pairs[i].key, &d->pairs[order[at - 1]].key, "sort") < 0) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    return order;
}

static void json_dict(rf_jx *c, rf_jbuf *b, const rf_jdict *d, const rf_jjson *how, size_t level) {
    const size_t *order = key_order(c, d, how->sort);
    rf_jbuf_puts(c, b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) rf_jbuf_put(c, b, how->item_sep);
        json_line(c, b, how, level + 1);
        json_key(c, b, &d->pairs[order[i]].key, how);
        rf_jbuf_put(c, b, how->key_sep);
        json_value(c, b, &d->pairs[order[i]].value, how, level + 1);
    }
    if (d->n) json_line(c, b, how, level);
    rf_jbuf_puts(c, b, "}");
}

static void json_seq(rf_jx *c, rf_jbuf *b, const rf_jseq *seq, const rf_jjson *how, size_t level) {
    rf_jbuf_puts(c, b, "[");
    for (size_t i = 0; i < seq->n; i++) {
        if (i) rf_jbuf_put(c, b, how->item_sep);
        json_line(c, b, how, level + 1);
        json_value(c, b, &seq->items[i], how, level + 1);
    }
    if (seq->n) json_line(c, b, how, level);
    rf_jbuf_puts(c, b, "]");
}

static void json_value(rf_jx *c, rf_jbuf *b, const rf_jv *v, const rf_jjson *how, size_t level) {
    rf_jx_step(c, 1);
    rf_jx_enter(c);
    if (v->kind == JV_STR) {
        json_str(c, b, v->s, how);
    } else if (v->kind == JV_NONE) {
        rf_jbuf_puts(c, b, "null");
    } else if (v->kind == JV_BOOL) {
        rf_jbuf_puts(c, b, v->b ? "true" : "false");
    } else if (v->kind == JV_FLOAT && (isnan(v->f) || isinf(v->f))) {
        rf_jbuf_puts(c, b, isnan(v->f) ? "NaN" : v->f < 0 ? "-Infinity" : "Infinity");
    } else if (v->kind == JV_INT || v->kind == JV_FLOAT) {
        rf_jv_repr(c, b, v);
    } else if (v->kind == JV_SEQ && v->seq->flavor <= JF_TUPLE) {
        json_seq(c, b, v->seq, how, level);
    } else if (v->kind == JV_DICT) {
        json_dict(c, b, v->dict, how, level);
    } else {
        rf_jx_fail(c, "tojson: expected none, a boolean, number, string, list or dict, got %s",
                   rf_jv_type(v));
    }
    rf_jx_leave(c);
}

void rf_jv_json(rf_jx *c, rf_jbuf *b, const rf_jv *v, const rf_jjson *how) {
    json_value(c, b, v, how, 0);
}
