/* filters.c - the filters on one value; those that walk a list are in listfilters.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/internal.h"

typedef rf_jv filter_fn(rf_jx *c, const rf_jv *v, const rf_jargs *a);

static rf_jv f_trim(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *chars = rf_jarg(a, 0, "chars");
    rf_jstr s = rf_jv_string(c, v);
    if (!chars || chars->kind == JV_NONE) return rf_jv_str(rf_jstr_strip(c, s, NULL, true, true));
    rf_jstr set = rf_jarg_str(c, a, 0, "chars");
    return rf_jv_str(rf_jstr_strip(c, s, &set, true, true));
}
#define CASE_FILTER(name, call)                                      \
    static rf_jv name(rf_jx *c, const rf_jv *v, const rf_jargs *a) { \
        (void)a;                                                     \
        rf_jstr s = rf_jv_string(c, v);                              \
        return rf_jv_str(call);                                      \
    }
CASE_FILTER(f_upper, rf_jstr_upper(c, s))
CASE_FILTER(f_lower, rf_jstr_lower(c, s))
CASE_FILTER(f_capitalize, rf_jstr_capitalize(c, s))
CASE_FILTER(f_title, rf_jstr_title(c, s, true))

static rf_jv f_string(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    return v->kind == JV_STR ? *v : rf_jv_str(rf_jv_string(c, v));
}
static rf_jv f_safe(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    rf_jv out = f_string(c, v, a);
    out.is_safe = true;
    return out;
}
static rf_jv f_escape(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    return rf_jx_escape(c, v);
}
static rf_jv f_length(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    return rf_jv_int((rf_i128)rf_jv_len(c, v));
}
static rf_jv f_default(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c;
    bool is_missing =
        v->kind == JV_UNDEF || (rf_jarg_bool(a, 1, "boolean", false) && !rf_jv_true(v));
    const rf_jv *by = rf_jarg(a, 0, "default_value");
    return !is_missing ? *v : by ? *by : rf_jv_text("");
}
static rf_jv f_replace(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *count = rf_jarg(a, 2, "count");
    size_t max = SIZE_MAX;
    if (count && count->kind != JV_NONE && rf_jv_integer(c, count, "replace") >= 0) {
        max = rf_jv_count(c, count, "replace", SIZE_MAX);
    }
    rf_jstr old = rf_jv_string(c, rf_jarg_need(c, a, 0, "old"));
    rf_jstr by = rf_jv_string(c, rf_jarg_need(c, a, 1, "new"));
    return rf_jv_str(rf_jstr_replace(c, rf_jv_string(c, v), old, by, max));
}

static rf_jv f_int(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *otherwise = rf_jarg(a, 0, "default"), *base = rf_jarg(a, 1, "base");
    rf_jv fallback = otherwise ? *otherwise : rf_jv_int(0);
    rf_i128 b = base ? rf_jv_integer(c, base, "int") : 10, i;
    if (b < 2 || b > 36) rf_jx_fail(c, "int: expected a base from 2 to 36");
    double f = v->kind == JV_FLOAT ? v->f : 0;
    if (v->kind == JV_INT || v->kind == JV_BOOL) return rf_jv_int(rf_jv_integer(c, v, "int"));
    if (v->kind == JV_STR) {
        if (rf_jstr_to_int(v->s, (int)b, &i)) return rf_jv_int(i);
        if (!rf_jstr_to_float(v->s, &f)) return fallback;
    } else if (v->kind != JV_FLOAT) {
        return fallback;
    }
    return f > -1e38 && f < 1e38 ? rf_jv_int((rf_i128)f) : fallback;
}
static rf_jv f_float(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *otherwise = rf_jarg(a, 0, "default");
    double f;
    if (rf_jv_is_number(v)) return rf_jv_float(rf_jv_double(c, v));
    if (v->kind == JV_STR && rf_jstr_to_float(v->s, &f)) return rf_jv_float(f);
    return otherwise ? *otherwise : rf_jv_float(0);
}
static rf_jv f_abs(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    if (v->kind == JV_FLOAT) return rf_jv_float(fabs(v->f));
    rf_jv zero = rf_jv_int(0);
    rf_i128 i = rf_jv_integer(c, v, "abs");
    return i < 0 ? rf_jx_binary(c, RF_STR("-"), &zero, v) : rf_jv_int(i);
}
static rf_jv f_round(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *digits = rf_jarg(a, 0, "precision"), *method = rf_jarg(a, 1, "method");
    rf_i128 n = digits ? rf_jv_integer(c, digits, "round") : 0;
    rf_str how = method && method->kind == JV_STR ? rf_jstr_raw(method->s) : RF_STR("common");
    double f = rf_jv_double(c, v);
    if (n < 0 || n > 20) rf_jx_fail(c, "round: expected a precision from 0 to 20");
    if (rf_str_is(how, "common")) {
        if (v->kind != JV_FLOAT) return *v;
        char text[400];
        snprintf(text, sizeof text, "%.*f", (int)n, f);
        return rf_jv_float(strtod(text, NULL));
    }
    double scale = 1;
    for (rf_i128 i = 0; i < n; i++) {
        scale *= 10;
    }
    if (rf_str_is(how, "ceil")) return rf_jv_float(ceil(f * scale) / scale);
    if (rf_str_is(how, "floor")) return rf_jv_float(floor(f * scale) / scale);
    rf_jx_fail(c, "round: expected common, ceil or floor, got \"%.*s\"", RF_STR_ARG(how));
}

static rf_jstr spaces(rf_jx *c, size_t n) {
    rf_jbuf b = {0};
    for (size_t i = 0; i < n; i++) {
        rf_jbuf_puts(c, &b, " ");
    }
    return rf_jbuf_value(&b).s;
}
static rf_jv f_tojson(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *ascii = rf_jarg(a, SIZE_MAX, "ensure_ascii"), *indent = rf_jarg(a, 0, "indent");
    const rf_jv *separators = rf_jarg(a, SIZE_MAX, "separators");
    rf_jjson how = {.ascii = ascii && rf_jv_true(ascii),
                    .item_sep = {", ", NULL, 2},
                    .key_sep = {": ", NULL, 2}};
    how.sort = rf_jarg_bool(a, SIZE_MAX, "sort_keys", false);
    if (indent && indent->kind != JV_NONE) {
        how.is_pretty = true;
        how.item_sep.len = 1;
        how.indent =
            indent->kind == JV_STR ? indent->s : spaces(c, rf_jv_count(c, indent, "indent", 1000));
    }
    if (separators && separators->kind != JV_NONE) {
        rf_jseq two = rf_jv_iter(c, separators);
        if (two.n != 2 || two.items[0].kind != JV_STR || two.items[1].kind != JV_STR) {
            rf_jx_fail(c, "tojson: expected two strings as separators");
        }
        how.item_sep = two.items[0].s;
        how.key_sep = two.items[1].s;
    }
    rf_jbuf b = {0};
    rf_jv_json(c, &b, v, &how);
    return rf_jbuf_value(&b);
}

static rf_jv f_indent(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *width = rf_jarg(a, 0, "width");
    bool first = rf_jarg_bool(a, 1, "first", false), blank = rf_jarg_bool(a, 2, "blank", false);
    rf_jstr pad = width && width->kind == JV_STR
                      ? width->s
                      : spaces(c, width ? rf_jv_count(c, width, "indent", 1000) : 4);
    rf_jstr s = rf_jv_string(c, v);
    rf_jbuf b = {0};
    size_t from = 0;
    for (size_t line = 0; from <= s.len; line++) {
        const char *end = s.len > from ? memchr(s.p + from, '\n', s.len - from) : NULL;
        size_t to = end ? (size_t)(end - s.p) : s.len;
        if (line ? to > from || blank : first) rf_jbuf_put(c, &b, pad);
        rf_jbuf_put(c, &b, rf_jstr_cut(s, from, end ? to + 1 : to));
        from = to + 1;
    }
    return rf_jbuf_value(&b);
}
static rf_jv f_wordcount(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    size_t n = 0;
    bool in_word = false;
    uint32_t cp;
    rf_jstr s = rf_jv_string(c, v);
    for (size_t at = 0; at < s.len;) {
        at += (size_t)rf_jstr_next(s, at, &cp);
        bool is_word = rf_cp_is_alpha(cp) || rf_cp_is_digit(cp) || cp == '_';
        n += is_word && !in_word;
        in_word = is_word;
    }
    return rf_jv_int((rf_i128)n);
}
static rf_jv f_format(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    rf_jv args = rf_jv_seq(c, JF_TUPLE, a->n);
    if (a->n) memcpy(args.seq->items, a->pos, a->n * sizeof(rf_jv));
    if (a->n == 0 && a->n_kw) {
        args = rf_jv_dict(c, JV_DICT, a->n_kw);
        for (size_t i = 0; i < a->n_kw; i++) {
            rf_jv key = rf_jv_str((rf_jstr){a->kw[i].name.p, NULL, a->kw[i].name.len});
            rf_jdict_put(c, args.dict, key, a->kw[i].value);
        }
    }
    return rf_jx_percent(c, rf_jv_string(c, v), &args);
}
static rf_jv f_truncate(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *length = rf_jarg(a, 0, "length"), *end = rf_jarg(a, 2, "end"),
                *leeway = rf_jarg(a, 3, "leeway");
    size_t n = length ? rf_jv_count(c, length, "truncate", RF_JINJA_MAX_OUTPUT) : 255;
    size_t slack = leeway ? rf_jv_count(c, leeway, "truncate", RF_JINJA_MAX_OUTPUT) : 5;
    rf_jstr s = rf_jv_string(c, v), tail = end ? rf_jv_string(c, end) : (rf_jstr){"...", NULL, 3};
    size_t n_tail = rf_jstr_chars(tail), at = 0;
    uint32_t cp;
    if (rf_jstr_chars(s) <= n + slack) return rf_jv_str(s);
    if (n < n_tail) rf_jx_fail(c, "truncate: expected a length of at least %zu", n_tail);
    for (size_t i = 0; i < n - n_tail; i++) {
        at += (size_t)rf_jstr_next(s, at, &cp);
    }
    rf_jstr head = rf_jstr_cut(s, 0, at);
    if (!rf_jarg_bool(a, 1, "killwords", false)) {
        size_t space = at;
        while (space && head.p[space - 1] != ' ') {
            space--;
        }
        if (space) head.len = space - 1;
    }
    rf_jbuf b = {0};
    rf_jbuf_put(c, &b, head);
    rf_jbuf_put(c, &b, tail);
    return rf_jbuf_value(&b);
}
static rf_jv f_center(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *width = rf_jarg(a, 0, "width");
    size_t n = width ? rf_jv_count(c, width, "center", RF_JINJA_MAX_OUTPUT) : 80;
    return rf_jv_str(rf_jstr_center(c, rf_jv_string(c, v), n, 0));
}
static rf_jv f_urlencode(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~/";
    (void)a;
    rf_jstr s = rf_jv_string(c, v);
    rf_jbuf b = {0};
    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] && strchr(plain, s.p[i])) {
            rf_jbuf_put(c, &b, rf_jstr_cut(s, i, i + 1));
        } else {
            char hex[4];
            snprintf(hex, sizeof hex, "%%%02X", (unsigned)(unsigned char)s.p[i]);
            rf_jbuf_text(c, &b, hex, 3, s.input && s.input[i]);
        }
    }
    return rf_jbuf_value(&b);
}
static rf_jv f_attr(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    return rf_jx_attr(c, v, rf_jstr_raw(rf_jarg_str(c, a, 0, "name")));
}

static const struct {
    const char *name;
    filter_fn *run;
    size_t max; /* arguments by position */
} filters[] = {
    {"trim", f_trim, 1},
    {"upper", f_upper, 0},
    {"lower", f_lower, 0},
    {"capitalize", f_capitalize, 0},
    {"title", f_title, 0},
    {"string", f_string, 0},
    {"safe", f_safe, 0},
    {"escape", f_escape, 0},
    {"e", f_escape, 0},
    {"length", f_length, 0},
    {"count", f_length, 0},
    {"default", f_default, 2},
    {"d", f_default, 2},
    {"replace", f_replace, 3},
    {"int", f_int, 2},
    {"float", f_float, 1},
    {"abs", f_abs, 0},
    {"round", f_round, 2},
    {"tojson", f_tojson, 1},
    {"indent", f_indent, 3},
    {"wordcount", f_wordcount, 0},
    {"format", f_format, SIZE_MAX},
    {"truncate", f_truncate, 4},
    {"center", f_center, 1},
    {"urlencode", f_urlencode, 0},
    {"attr", f_attr, 1},
};

rf_jv rf_jx_filter(rf_jx *c, rf_str name, const rf_jv *v, const rf_jargs *args) {
    rf_jx_step(c, 1);
    for (size_t i = 0; i < RF_COUNT(filters); i++) {
        if (!rf_str_is(name, filters[i].name)) continue;
        if (args->n > filters[i].max) {
            rf_jx_fail(c, "%s: expected at most %zu arguments, got %zu", filters[i].name,
                       filters[i].max, args->n);
        }
        return filters[i].run(c, v, args);
    }
    bool found;
    rf_jv out = rf_jx_filter_list(c, name, v, args, &found);
    if (!found) rf_jx_fail(c, "there is no filter \"%.*s\"", RF_STR_ARG(name));
    return out;
}
