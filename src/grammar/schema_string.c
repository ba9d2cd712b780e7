/* schema_string.c - JSON strings: any, of some length, of a pattern, of a format.
 *
 * A string without pattern and format may use every JSON escape.  One with them is spelt in one way
 * only: escapes where JSON needs them, the short ones where there are such. */
#include <string.h>

#include "base/utf8.h"
#include "grammar/nfa_internal.h"
#include "grammar/schema.h"

/* What the format asserts; every one is checked down to the last digit. */
#define YEAR_MONTH_DAY                                                                           \
    "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-" \
    "(0[1-9]|1[0-9]|2[0-8]))|([0-9][0-9](0[48]|[2468][048]|[13579][26])|([02468][048]|[13579]["  \
    "26])00)-02-29)"
#define TIME                                                                                     \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-" \
    "9])"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
static const struct {
    const char *name, *regex;
    bool has_year; /* 0000 is none */
} formats[] = {
    {"date", YEAR_MONTH_DAY, true},
    {"time", TIME, false},
    {"date-time", YEAR_MONTH_DAY "T" TIME, true},
    {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", false},
    {"ipv4", BYTE "(\\." BYTE "){3}", false},
};

static const rf_expr *any_chars(rf_rules *b, uint32_t min, uint32_t max) {
    static const rf_range all = {0, 0x10FFFF};
    return rf_x_repeat(b, rf_x_set(b, &all, 1, false, true), min, max);
}

/* One character in any of its JSON spellings. */
static const rf_expr *char_call(rf_schema_job *j) {
    static const rf_range raw[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}};
    if (j->char_rule == UINT32_MAX) {
        j->char_rule = rf_rule_add(j->b, RF_STR("character"));
        if (j->char_rule == UINT32_MAX) return NULL;
        const rf_expr *escapes = rf_regex_parse(
            j->b,
            RF_STR("\\\\([\"\\\\/bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|"
                   "[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}))"),
            false, false, "character");
        j->b->rule[j->char_rule].x =
            RF_X_ALT(j->b, rf_x_set(j->b, raw, RF_COUNT(raw), false, false), escapes);
    }
    return rf_x_call(j->b, j->char_rule);
}

static const rf_expr *quoted(rf_rules *b, const rf_expr *inner) {
    return RF_X_SEQ(b, rf_x_text(b, "\""), inner, rf_x_text(b, "\""));
}

static const rf_expr *any_string(rf_schema_job *j) {
    if (j->string_rule == UINT32_MAX) {
        const rf_expr *c = char_call(j);
        if (!c) return NULL;
        j->string_rule = rf_rule_add(j->b, RF_STR("string"));
        if (j->string_rule == UINT32_MAX) return NULL;
        /* the character written in place, so that a string's inside is one automaton */
        j->b->rule[j->string_rule].x =
            quoted(j->b, rf_x_repeat(j->b, j->b->rule[j->char_rule].x, 0, RF_X_MANY));
    }
    return rf_x_call(j->b, j->string_rule);
}

static const rf_expr *format_of(rf_schema_job *j, const rf_part *p, rf_str name) {
    for (size_t i = 0; i < RF_COUNT(formats); i++) {
        if (!rf_str_is(name, formats[i].name)) continue;
        const rf_expr *x = rf_regex_parse(j->b, rf_str_of(formats[i].regex), false, true, "format");
        if (!formats[i].has_year) return x;
        return rf_x_diff(j->b, x,
                         RF_X_SEQ(j->b, rf_x_text(j->b, "0000"), any_chars(j->b, 0, RF_X_MANY)));
    }
    return rf_schema_fail(j, p, "format", RF_EUNSUPPORTED,
                          "this format is not supported (known: date, time, date-time, uuid, "
                          "ipv4)");
}

static const rf_expr *pattern_of(rf_schema_job *j, const rf_part *p, rf_str pattern) {
    rf_str path = rf_schema_path(j, p->path, "pattern");
    rf_buf where = {0};
    rf_buf_printf(&where, "JSON Schema: #%.*s", RF_STR_ARG(path));
    const rf_expr *x = NULL;
    if (where.failed)
        rf_fail_nomem(j->e, where.len);
    else
        x = rf_regex_parse(j->b, pattern, true, true, where.p);
    rf_buf_free(&where);
    return x;
}

/* Reads a string keyword of all parts and joins what they ask for; *x stays NULL without any. */
static bool join(rf_schema_job *j, const rf_conj *c, const char *keyword,
                 const rf_expr *(*read)(rf_schema_job *, const rf_part *, rf_str),
                 const rf_expr **x) {
    for (size_t i = 0; i < c->n; i++) {
        const rf_json *v = rf_json_get(c->part[i].s, keyword);
        if (!v) continue;
        if (rf_json_kind(v) != RF_JSON_STRING) {
            rf_schema_fail(j, &c->part[i], keyword, RF_EFORMAT, "expected a string");
            return false;
        }
        const rf_expr *more = read(j, &c->part[i], rf_json_str(v));
        *x = *x && more ? rf_x_and(j->b, *x, more) : more;
        if (!*x) return false;
    }
    return true;
}

const rf_expr *rf_schema_string(rf_schema_job *j, const rf_conj *c) {
    uint32_t min = 0, max = RF_X_MANY;
    const rf_expr *x = NULL;
    if (!rf_schema_count(j, c, "minLength", true, &min) ||
        !rf_schema_count(j, c, "maxLength", false, &max) ||
        !join(j, c, "pattern", pattern_of, &x) || !join(j, c, "format", format_of, &x))
        return NULL;
    if (min > max) return rf_x_never(j->b);
    bool has_length = min > 0 || max != RF_X_MANY;
    if (!x && !has_length) return any_string(j);
    if (!x) return quoted(j->b, rf_x_repeat(j->b, char_call(j), min, max));
    if (has_length) x = rf_x_and(j->b, x, any_chars(j->b, min, max));
    return quoted(j->b, x);
}

/* ---- values written out ---- */

void rf_schema_write_str(rf_buf *out, rf_str s) {
    for (size_t i = 0; i < s.len;) {
        uint32_t c;
        char text[8];
        int n = rf_utf8_decode(s.p + i, s.len - i, &c);
        rf_buf_put(out, text, rf_json_escape(c, text));
        i += n ? (size_t)n : 1;
    }
}
