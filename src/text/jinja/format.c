/* format.c - the two ways of Python to format: "%s" % x and "{}".format(x).
 *
 * Numbers know the types d, x, o, b, c, e, f, g and %; grouping by commas is all of locales. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/internal.h"

#define MAX_PRECISION 100
#define MAX_WIDTH     10000

typedef struct spec {
    rf_jstr fill; /* one character; empty: a space */
    char align;   /* < > ^ = or 0 */
    char sign;    /* + - space or 0 */
    bool is_alternate, has_precision, has_commas;
    size_t width, precision;
    char type; /* 0: as str() */
} spec;

static size_t read_number(rf_jx *c, rf_jstr s, size_t *at, size_t max) {
    size_t v = 0;
    while (*at < s.len && s.p[*at] >= '0' && s.p[*at] <= '9') {
        v = v * 10 + (size_t)(s.p[(*at)++] - '0');
        if (v > max) rf_jx_fail(c, "format: expected at most %zu, got more", max);
    }
    return v;
}

static void put_times(rf_jx *c, rf_jbuf *b, rf_jstr fill, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (fill.len) {
            rf_jbuf_put(c, b, fill);
        } else {
            rf_jbuf_puts(c, b, " ");
        }
    }
}

/* n_sign leading bytes of s are its sign, which = keeps in front. */
static void put_padded(rf_jx *c, rf_jbuf *b, const spec *f, rf_jstr s, size_t n_sign, char align) {
    size_t n = rf_jstr_chars(s), pad = f->width > n ? f->width - n : 0;
    size_t left = align == '>' || align == '=' ? pad : align == '^' ? pad / 2 : 0;
    if (align == '=') rf_jbuf_put(c, b, rf_jstr_cut(s, 0, n_sign));
    put_times(c, b, f->fill, left);
    rf_jbuf_put(c, b, align == '=' ? rf_jstr_cut(s, n_sign, s.len) : s);
    put_times(c, b, f->fill, pad - left);
}

static void put_digits(rf_jx *c, rf_jbuf *b, rf_i128 i, const spec *f) {
    unsigned base = f->type == 'x' || f->type == 'X' ? 16
                    : f->type == 'o'                 ? 8
                    : f->type == 'b'                 ? 2
                                                     : 10;
    char digits[200], *p = digits + sizeof digits;
    size_t n = 0;
    do {
        int d = (int)(i % (rf_i128)base);
        d = d < 0 ? -d : d;
        if (f->has_commas && n && n % 3 == 0) *--p = ',';
        *--p = (char)(d < 10 ? '0' + d : (f->type == 'X' ? 'A' : 'a') + d - 10);
        n++;
        i /= (rf_i128)base;
    } while (i);
    if (f->is_alternate && base != 10) {
        *--p = f->type;
        *--p = '0';
    }
    rf_jbuf_text(c, b, p, (size_t)(digits + sizeof digits - p), false);
}

static void put_double(rf_jx *c, rf_jbuf *b, double d, const spec *f) {
    int precision = f->has_precision ? (int)f->precision : 6;
    char text[512];
    int n = f->type == 'e'   ? snprintf(text, sizeof text, "%.*e", precision, d)
            : f->type == 'E' ? snprintf(text, sizeof text, "%.*E", precision, d)
            : f->type == 'g' ? snprintf(text, sizeof text, "%.*g", precision, d)
            : f->type == 'G' ? snprintf(text, sizeof text, "%.*G", precision, d)
                             : snprintf(text, sizeof text, "%.*f", precision, d);
    size_t whole = 0;
    while (whole < (size_t)n && text[whole] >= '0' && text[whole] <= '9') {
        whole++;
    }
    for (size_t i = 0; i < (size_t)n; i++) {
        if (f->has_commas && i && i < whole && (whole - i) % 3 == 0) rf_jbuf_puts(c, b, ",");
        rf_jbuf_text(c, b, text + i, 1, false);
    }
}

static void put_number(rf_jx *c, rf_jbuf *b, const rf_jv *v, const spec *f) {
    rf_jbuf text = {0};
    bool is_float = (f->type && strchr("eEfFgG%", f->type)) || (!f->type && v->kind == JV_FLOAT);
    bool is_negative;
    if (is_float) {
        double d = rf_jv_double(c, v) * (f->type == '%' ? 100 : 1);
        is_negative = d < 0;
        d = is_negative ? -d : d;
        if (!f->type && !f->has_precision) {
            rf_jx_print_float(c, &text, d);
        } else {
            spec how = *f;
            if (!f->type) how.type = 'g';
            put_double(c, &text, d, &how);
        }
        if (f->type == '%') rf_jbuf_puts(c, &text, "%");
    } else {
        rf_i128 i = v->kind == JV_FLOAT ? (rf_i128)v->f : rf_jv_integer(c, v, "format");
        is_negative = i < 0;
        put_digits(c, &text, i, f);
    }
    rf_jbuf all = {0};
    char sign = is_negative ? '-' : f->sign == '-' ? '\0' : f->sign;
    if (sign) rf_jbuf_text(c, &all, &sign, 1, false);
    rf_jbuf_put(c, &all, rf_jbuf_value(&text).s);
    put_padded(c, b, f, rf_jbuf_value(&all).s, sign != '\0', f->align ? f->align : '>');
}

static rf_jstr cut_chars(rf_jstr s, size_t n) {
    size_t at = 0;
    uint32_t cp;
    for (; n && at < s.len; n--) {
        at += (size_t)rf_jstr_next(s, at, &cp);
    }
    return rf_jstr_cut(s, 0, at);
}

static rf_jstr repr_of(rf_jx *c, const rf_jv *v) {
    rf_jbuf b = {0};
    rf_jv_repr(c, &b, v);
    return rf_jbuf_value(&b).s;
}

static const rf_jv *percent_arg(rf_jx *c, const rf_jv *args, size_t *next) {
    bool is_tuple = args->kind == JV_SEQ && args->seq->flavor == JF_TUPLE;
    size_t n = is_tuple ? args->seq->n : 1, i = (*next)++;
    if (i >= n) rf_jx_fail(c, "%%: expected more than the %zu values given", n);
    return is_tuple ? &args->seq->items[i] : args;
}

/* %(name)s: the value of the mapping on the right. */
static const rf_jv *percent_name(rf_jx *c, rf_jstr fmt, size_t *at, const rf_jv *args) {
    size_t end = *at;
    while (end < fmt.len && fmt.p[end] != ')') {
        end++;
    }
    if (end == fmt.len || args->kind != JV_DICT) rf_jx_fail(c, "%%(name): expected ) and a dict");
    rf_jv key = rf_jv_str(rf_jstr_cut(fmt, *at, end));
    const rf_jv *v = rf_jdict_find(c, args->dict, &key);
    if (!v) rf_jx_fail(c, "%%(%.*s): no such key", RF_STR_ARG(rf_jstr_raw(key.s)));
    *at = end + 1;
    return v;
}

static void percent_flags(rf_jx *c, rf_jstr fmt, size_t *at, spec *f) {
    bool has_zero = false;
    for (; *at < fmt.len && fmt.p[*at] && strchr("-+ #0", fmt.p[*at]); (*at)++) {
        char flag = fmt.p[*at];
        if (flag == '-') f->align = '<';
        if (flag == '+' || (flag == ' ' && !f->sign)) f->sign = flag;
        if (flag == '#') f->is_alternate = true;
        has_zero |= flag == '0';
    }
    f->width = read_number(c, fmt, at, MAX_WIDTH);
    if (*at < fmt.len && fmt.p[*at] == '.') {
        (*at)++;
        f->has_precision = true;
        f->precision = read_number(c, fmt, at, MAX_PRECISION);
    }
    if (*at == fmt.len) rf_jx_fail(c, "%%: expected a type at the end of the format");
    f->type = fmt.p[(*at)++];
    if (has_zero && !f->align && strchr("srca", f->type) == NULL) {
        f->align = '=';
        f->fill = (rf_jstr){"0", NULL, 1};
    }
}

static void put_percent(rf_jx *c, rf_jbuf *b, const rf_jv *v, spec *f) {
    if (f->type == 's' || f->type == 'r' || f->type == 'a') {
        rf_jstr s = f->type == 's' ? rf_jv_string(c, v) : repr_of(c, v);
        if (f->has_precision) s = cut_chars(s, f->precision);
        put_padded(c, b, f, s, 0, f->align ? f->align : '>');
        return;
    }
    if (f->type == 'c' && v->kind == JV_STR && rf_jstr_chars(v->s) == 1) {
        put_padded(c, b, f, v->s, 0, f->align ? f->align : '>');
        return;
    }
    if (!strchr("diuxXoeEfFgG", f->type)) {
        rf_jx_fail(c, "%%: expected one of s r d i u x X o e f g c, got \"%c\"",
                   f->type < ' ' || f->type > '~' ? '?' : f->type);
    }
    if (!rf_jv_is_number(v))
        rf_jx_fail(c, "%%%c: expected a number, got %s", f->type, rf_jv_type(v));
    if (v->kind == JV_FLOAT && !(v->f > -1e38 && v->f < 1e38) && strchr("diuxXo", f->type)) {
        rf_jx_fail(c, "%%%c: expected a number below 1e38", f->type);
    }
    if (f->type == 'i' || f->type == 'u') f->type = 'd';
    put_number(c, b, v, f);
}

rf_jv rf_jx_percent(rf_jx *c, rf_jstr fmt, const rf_jv *args) {
    rf_jbuf b = {0};
    size_t next = 0;
    bool has_names = false;
    for (size_t at = 0; at < fmt.len;) {
        size_t plain = at;
        while (at < fmt.len && fmt.p[at] != '%') {
            at++;
        }
        rf_jbuf_put(c, &b, rf_jstr_cut(fmt, plain, at));
        if (at++ == fmt.len) break;
        rf_jx_step(c, 1);
        if (at < fmt.len && fmt.p[at] == '%') {
            rf_jbuf_put(c, &b, rf_jstr_cut(fmt, at, at + 1));
            at++;
            continue;
        }
        const rf_jv *v = NULL;
        if (at < fmt.len && fmt.p[at] == '(') {
            at++;
            v = percent_name(c, fmt, &at, args);
            has_names = true;
        }
        spec f = {0};
        percent_flags(c, fmt, &at, &f);
        put_percent(c, &b, v ? v : percent_arg(c, args, &next), &f);
    }
    bool is_tuple = args->kind == JV_SEQ && args->seq->flavor == JF_TUPLE;
    bool is_whole = args->kind == JV_DICT || has_names;
    if (!is_whole && next < (is_tuple ? args->seq->n : 1)) {
        rf_jx_fail(c, "%%: not all values are used by the format");
    }
    return rf_jbuf_value(&b);
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static spec read_spec(rf_jx *c, rf_jstr s) {
    spec f = {0};
    size_t at = 0;
    uint32_t cp;
    size_t first = s.len ? (size_t)rf_jstr_next(s, 0, &cp) : 0;
    if (first && first < s.len && s.p[first] && strchr("<>=^", s.p[first])) {
        f.fill = rf_jstr_cut(s, 0, first);
        f.align = s.p[first];
        at = first + 1;
    } else if (s.len && s.p[0] && strchr("<>=^", s.p[0])) {
        f.align = s.p[at++];
    }
    if (at < s.len && s.p[at] && strchr("+- ", s.p[at])) f.sign = s.p[at++];
    if (at < s.len && s.p[at] == '#') {
        f.is_alternate = true;
        at++;
    }
    if (at < s.len && s.p[at] == '0' && !f.align) {
        f.align = '=';
        f.fill = rf_jstr_cut(s, at, at + 1);
    }
    f.width = read_number(c, s, &at, MAX_WIDTH);
    if (at < s.len && s.p[at] == ',') {
        f.has_commas = true;
        at++;
    }
    if (at < s.len && s.p[at] == '.') {
        at++;
        f.has_precision = true;
        f.precision = read_number(c, s, &at, MAX_PRECISION);
    }
    if (at < s.len) f.type = s.p[at++];
    if (at < s.len || (f.type && !strchr("sdxXobeEfFgG%n", f.type))) {
        rf_jx_fail(c, "format: unexpected specification \"%.*s\"", RF_STR_ARG(rf_jstr_raw(s)));
    }
    return f;
}

static void put_field(rf_jx *c, rf_jbuf *b, const rf_jv *v, rf_jstr how) {
    if (how.len == 0) {
        rf_jv_print(c, b, v);
        return;
    }
    spec f = read_spec(c, how);
    bool as_number = rf_jv_is_number(v) && f.type != 's' && (v->kind != JV_BOOL || f.type);
    if (as_number) {
        bool wants_int = f.type && strchr("dxXobn", f.type);
        if (wants_int && v->kind == JV_FLOAT)
            rf_jx_fail(c, "format: %c wants an integer, got float", f.type);
        put_number(c, b, v, &f);
        return;
    }
    if (f.type && f.type != 's')
        rf_jx_fail(c, "format: %c wants a number, got %s", f.type, rf_jv_type(v));
    rf_jstr s = rf_jv_string(c, v);
    if (f.has_precision) s = cut_chars(s, f.precision);
    put_padded(c, b, &f, s, 0, f.align ? f.align : '<');
}

/* The value that the head of a field names: nothing, a position or a keyword. */
static rf_jv field_base(rf_jx *c, rf_jstr name, const rf_jargs *args, size_t *next) {
    size_t at = 0, i = read_number(c, name, &at, 1000);
    if (name.len == 0) i = (*next)++;
    if (at == name.len) {
        if (i >= args->n) rf_jx_fail(c, "format: no argument %zu", i);
        return args->pos[i];
    }
    for (size_t k = 0; k < args->n_kw; k++) {
        if (rf_str_eq(args->kw[k].name, rf_jstr_raw(name))) return args->kw[k].value;
    }
    rf_jx_fail(c, "format: no argument named \"%.*s\"", RF_STR_ARG(rf_jstr_raw(name)));
}

static rf_jv field_value(rf_jx *c, rf_jstr path, const rf_jargs *args, size_t *next) {
    size_t at = 0;
    while (at < path.len && path.p[at] != '.' && path.p[at] != '[') {
        at++;
    }
    rf_jv v = field_base(c, rf_jstr_cut(path, 0, at), args, next);
    while (at < path.len) {
        bool is_item = path.p[at++] == '[';
        size_t from = at;
        while (at < path.len &&
               (is_item ? path.p[at] != ']' : path.p[at] != '.' && path.p[at] != '[')) {
            at++;
        }
        rf_jstr name = rf_jstr_cut(path, from, at);
        if (is_item) {
            rf_jv key = rf_jv_str(name);
            if (rf_jstr_to_int(name, 10, &(rf_i128){0})) {
                rf_i128 i = 0;
                rf_jstr_to_int(name, 10, &i);
                key = rf_jv_int(i);
            }
            v = rf_jx_item(c, &v, &key);
            at += at < path.len;
        } else {
            v = rf_jx_attr(c, &v, rf_jstr_raw(name));
        }
    }
    return v;
}

rf_jv rf_jx_format(rf_jx *c, rf_jstr fmt, const rf_jargs *args) {
    rf_jbuf b = {0};
    size_t next = 0;
    for (size_t at = 0; at < fmt.len;) {
        size_t plain = at;
        while (at < fmt.len && fmt.p[at] != '{' && fmt.p[at] != '}') {
            at++;
        }
        rf_jbuf_put(c, &b, rf_jstr_cut(fmt, plain, at));
        if (at == fmt.len) break;
        rf_jx_step(c, 1);
        char ch = fmt.p[at++];
        if (at < fmt.len && fmt.p[at] == ch) {
            rf_jbuf_put(c, &b, rf_jstr_cut(fmt, at, at + 1));
            at++;
            continue;
        }
        size_t from = at;
        while (at < fmt.len && fmt.p[at] != '}' && fmt.p[at] != '{') {
            at++;
        }
        if (ch == '}' || at == fmt.len || fmt.p[at] == '{') {
            rf_jx_fail(c, "format: expected {field} or a doubled bracket");
        }
        rf_jstr field = rf_jstr_cut(fmt, from, at++);
        rf_jstr colon = {":", NULL, 1};
        size_t split = rf_jstr_find(c, field, colon, 0);
        rf_jstr how = split == RF_JSTR_NONE ? (rf_jstr){"", NULL, 0}
                                            : rf_jstr_cut(field, split + 1, field.len);
        if (split != RF_JSTR_NONE) field.len = split;
        char conversion = 's';
        if (field.len >= 2 && field.p[field.len - 2] == '!') {
            conversion = field.p[field.len - 1];
            field.len -= 2;
        }
        rf_jv v = field_value(c, field, args, &next);
        if (conversion == 'r') v = rf_jv_str(repr_of(c, &v));
        put_field(c, &b, &v, how);
    }
    return rf_jbuf_value(&b);
}
