/* translate.c - a regular expression in the words of Oniguruma, rewritten for PCRE2.
 *
 * The same: nearly all.  Different: \s (PCRE2 has U+180E too), \h (a hexadecimal digit), names of
 * scripts (PCRE2 takes \p{Han} for script extensions), class intersections [a&&[b]], and white space
 * and comments have no meaning in either.  Nested classes without && are refused. */
#include <string.h>

#include "text/pattern.h"

#define WHITE "\\t-\\r\\x{85}\\p{Z}" /* inside a class: what \s means */

typedef struct rewriter {
    rf_str in;
    size_t at;
    rf_buf *out;
    rf_error *e;
} rewriter;

static bool looking_at(const rewriter *r, const char *what) {
    size_t n = strlen(what);
    return r->in.len - r->at >= n && memcmp(r->in.p + r->at, what, n) == 0;
}

static rf_status refuse(const rewriter *r, const char *what) {
    return rf_fail(r->e, RF_EUNSUPPORTED, "pattern \"%.*s\", offset %zu: %s", RF_STR_ARG(r->in),
                   r->at, what);
}

/* \p{Name}: long names are scripts, except those of properties. */
static rf_status property(rewriter *r) {
    static const char *const properties[] = {"Any",    "Alphabetic",  "Letter",
                                             "Number", "Punctuation", "Symbol",
                                             "Mark",   "Separator",   "Other"};
    static const char *const letters[] = {NULL, NULL, "L", "N", "P", "S", "M", "Z", "C"};
    const char *name = r->in.p + r->at + 3;
    const char *close = memchr(name, '}', r->in.len - r->at - 3);
    if (!close) return refuse(r, "\\p{ without }");
    bool negated = (r->in.p[r->at + 1] == 'P') != (*name == '^');
    if (*name == '^') name++;
    rf_str n = {name, (size_t)(close - name)};
    const char *prefix = n.len > 2 ? "sc:" : "";
    for (size_t i = 0; i < RF_COUNT(properties); i++) {
        if (!rf_str_is(n, properties[i])) continue;
        prefix = "";
        if (letters[i]) n = rf_str_of(letters[i]);
    }
    rf_buf_printf(r->out, "\\%c{%s%.*s}", negated ? 'P' : 'p', prefix, RF_STR_ARG(n));
    r->at = (size_t)(close - r->in.p) + 1;
    return RF_OK;
}

static rf_status escape(rewriter *r, bool in_class) {
    if (r->at + 1 >= r->in.len) return refuse(r, "a backslash at the end");
    char c = r->in.p[r->at + 1];
    if ((c == 'p' || c == 'P') && r->at + 2 < r->in.len && r->in.p[r->at + 2] == '{') {
        return property(r);
    }
    const char *means = NULL;
    if (c == 's') means = in_class ? WHITE : "[" WHITE "]";
    if (c == 'h') means = in_class ? "0-9a-fA-F" : "[0-9a-fA-F]";
    if (c == 'S' && !in_class) means = "[^" WHITE "]";
    if (c == 'H' && !in_class) means = "[^0-9a-fA-F]";
    if (in_class && c == 'H') return refuse(r, "\\H inside a class is not supported");
    if (means) {
        rf_buf_puts(r->out, means);
    } else {
        rf_buf_put(r->out, r->in.p + r->at, 2);
    }
    r->at += 2;
    return RF_OK;
}

static rf_status class_members(rewriter *r, bool *intersects) {
    bool first = true;
    for (; r->at < r->in.len; first = false) {
        if (r->in.p[r->at] == ']' && !first) return RF_OK;
        if (looking_at(r, "&&")) {
            *intersects = true;
            return RF_OK;
        }
        if (r->in.p[r->at] == '\\') {
            RF_TRY(escape(r, true));
        } else if (looking_at(r, "[:")) {
            const char *close = memmem(r->in.p + r->at, r->in.len - r->at, ":]", 2);
            if (!close) return refuse(r, "[: without :]");
            size_t n = (size_t)(close - r->in.p) + 2 - r->at;
            rf_buf_put(r->out, r->in.p + r->at, n);
            r->at += n;
        } else if (r->in.p[r->at] == '[') {
            return refuse(r, "a class inside a class is not supported (a literal [ needs a \\)");
        } else {
            rf_buf_putc(r->out, r->in.p[r->at++]);
        }
    }
    return refuse(r, "[ without ]");
}

/* [members] or, as a look-ahead before it, [members&&[members]]. */
static rf_status class(rewriter *r) {
    size_t open = r->out->len;
    bool intersects = false;
    rf_buf_putc(r->out, '[');
    r->at++;
    bool negated = looking_at(r, "^");
    if (negated) {
        rf_buf_putc(r->out, '^');
        r->at++;
    }
    RF_TRY(class_members(r, &intersects));
    rf_buf_putc(r->out, ']');
    if (!intersects) {
        r->at++;
        return RF_OK;
    }
    r->at += 2;
    if (negated || !looking_at(r, "[")) return refuse(r, "only [a&&[b]] is supported with &&");
    rf_buf left = {0};
    if (!r->out->failed) rf_buf_put(&left, r->out->p + open, r->out->len - open);
    r->out->len = open;
    rf_buf_puts(r->out, "(?:(?=");
    bool again = false;
    bool not_second = r->at + 1 < r->in.len && r->in.p[r->at + 1] == '^';
    r->at += not_second ? 2 : 1;
    rf_buf_puts(r->out, not_second ? "[^" : "[");
    rf_status s = class_members(r, &again);
    rf_buf_puts(r->out, "])");
    rf_buf_put(r->out, left.p ? left.p : "", left.len);
    rf_buf_putc(r->out, ')');
    if (left.failed) r->out->failed = true;
    rf_buf_free(&left);
    RF_TRY(s);
    r->at++;
    if (again || !looking_at(r, "]")) return refuse(r, "only [a&&[b]] is supported with &&");
    r->at++;
    return RF_OK;
}

rf_status rf_pattern_translate(rf_str pattern, rf_buf *out, rf_error *e) {
    rewriter r = {.in = pattern, .out = out, .e = e};
    while (r.at < pattern.len) {
        char c = pattern.p[r.at];
        if (c == '\\') {
            RF_TRY(escape(&r, false));
        } else if (c == '[') {
            RF_TRY(class(&r));
        } else {
            rf_buf_putc(out, c);
            r.at++;
        }
    }
    return out->failed ? rf_fail_nomem(e, pattern.len) : RF_OK;
}
