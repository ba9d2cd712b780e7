/* schema_number.c - integers and numbers between bounds, as exact automata over their digits.
 *
 * An integer is written without exponent, point or leading zeros.  A number without bounds may have
 * a fraction and an exponent of up to three digits; one with bounds has no exponent and at most 16
 * digits and point, so that its order as text is its order as a double. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/schema.h"

enum { BOUND_DIGITS = 15, NUMBER_CHARS = 16 };

typedef struct bound {
    const rf_json *value; /* NULL: none */
    const rf_part *part;
    const char *keyword;
    bool strict;
} bound;

typedef struct bounds {
    bound lo, hi;
} bounds;

static bool is_number(const rf_json *v) {
    return rf_json_kind(v) == RF_JSON_INT || rf_json_kind(v) == RF_JSON_REAL;
}

/* Both are doubles, or both integers, when it matters; equal ones go to the strict. */
static int order(const rf_json *a, const rf_json *b) {
    if (rf_json_kind(a) == RF_JSON_INT && rf_json_kind(b) == RF_JSON_INT) {
        int64_t x = rf_json_int(a), y = rf_json_int(b);
        return x < y ? -1 : x > y;
    }
    double x = rf_json_real(a), y = rf_json_real(b);
    return x < y ? -1 : x > y;
}

static bool read_bounds(rf_schema_job *j, const rf_conj *c, bounds *out) {
    static const struct {
        const char *name;
        bool upper, strict;
    } keywords[] = {{"minimum", false, false},
                    {"exclusiveMinimum", false, true},
                    {"maximum", true, false},
                    {"exclusiveMaximum", true, true}};
    *out = (bounds){0};
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < RF_COUNT(keywords); k++) {
            const rf_json *v = rf_json_get(c->part[i].s, keywords[k].name);
            if (!v) continue;
            if (!is_number(v)) {
                rf_schema_fail(j, &c->part[i], keywords[k].name, RF_EFORMAT, "expected a number");
                return false;
            }
            bound *b = keywords[k].upper ? &out->hi : &out->lo;
            int cmp = b->value ? order(v, b->value) * (keywords[k].upper ? -1 : 1) : 1;
            if (cmp > 0 || (cmp == 0 && keywords[k].strict))
                *b = (bound){v, &c->part[i], keywords[k].name, keywords[k].strict};
        }
    return true;
}

/* ---- digits ---- */

static const rf_expr *digit(rf_rules *b, char lo, char hi) {
    const rf_range r = {(uint32_t)lo, (uint32_t)hi};
    return lo > hi ? rf_x_never(b) : rf_x_set(b, &r, 1, false, false);
}

static const rf_expr *digits(rf_rules *b, size_t min, uint32_t max) {
    return rf_x_repeat(b, digit(b, '0', '9'), (uint32_t)min, max);
}

/* As many digits as s has, together at least s. */
static const rf_expr *at_least(rf_rules *b, const char *s) {
    if (!*s) return rf_x_text(b, "");
    size_t rest = strlen(s) - 1;
    return RF_X_ALT(b, RF_X_SEQ(b, digit(b, *s, *s), at_least(b, s + 1)),
                    RF_X_SEQ(b, digit(b, (char)(*s + 1), '9'), digits(b, rest, (uint32_t)rest)));
}

static const rf_expr *at_most(rf_rules *b, const char *s) {
    if (!*s) return rf_x_text(b, "");
    size_t rest = strlen(s) - 1;
    return RF_X_ALT(b, RF_X_SEQ(b, digit(b, *s, *s), at_most(b, s + 1)),
                    RF_X_SEQ(b, digit(b, '0', (char)(*s - 1)), digits(b, rest, (uint32_t)rest)));
}

/* Whole numbers from 0, without leading zeros, of at least s (decimal). */
static const rf_expr *whole_from(rf_rules *b, const char *s) {
    size_t n = strlen(s);
    const rf_expr *longer = RF_X_SEQ(b, digit(b, '1', '9'), digits(b, n, RF_X_MANY));
    return RF_X_ALT(b, at_least(b, s), longer); /* s starts with no zero, or is it */
}

static const rf_expr *whole_up_to(rf_rules *b, const char *s) {
    size_t n = strlen(s);
    if (n == 1) return at_most(b, s);
    const rf_expr *shorter = RF_X_SEQ(b, digit(b, '1', '9'), digits(b, 0, (uint32_t)n - 2));
    const rf_expr *same =
        rf_x_and(b, at_most(b, s), RF_X_SEQ(b, digit(b, '1', '9'), digits(b, 0, RF_X_MANY)));
    return RF_X_ALT(b, rf_x_text(b, "0"), shorter, same);
}

/* ---- integers ---- */

/* The tightest integer that a bound allows; *out saturates far outside of what is asked. */
static bool integer_bound(rf_schema_job *j, const bound *b, bool upper, int64_t *out) {
    if (rf_json_kind(b->value) == RF_JSON_INT) {
        *out = rf_json_int(b->value);
        if (!b->strict) return true;
        if (*out != (upper ? INT64_MIN : INT64_MAX)) {
            *out += upper ? -1 : 1;
            return true;
        }
    } else {
        double d = rf_json_real(b->value), whole = upper ? floor(d) : ceil(d);
        if (fabs(d) < 0x1p53) {
            *out = (int64_t)whole + (b->strict && whole == d ? (upper ? -1 : 1) : 0);
            return true;
        }
    }
    rf_schema_fail(j, b->part, b->keyword, RF_EUNSUPPORTED, "this bound is too large");
    return false;
}

/* lo..hi, both from 0; has_hi false: no upper bound. */
static const rf_expr *magnitudes(rf_rules *b, uint64_t lo, bool has_hi, uint64_t hi) {
    char low[24], high[24];
    snprintf(low, sizeof low, "%llu", (unsigned long long)lo);
    snprintf(high, sizeof high, "%llu", (unsigned long long)hi);
    if (has_hi && hi < lo) return rf_x_never(b);
    if (!has_hi) return whole_from(b, low);
    return lo == 0 ? whole_up_to(b, high) : rf_x_and(b, whole_from(b, low), whole_up_to(b, high));
}

static uint64_t magnitude(int64_t x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }

const rf_expr *rf_schema_integer(rf_schema_job *j, const rf_conj *c) {
    bounds k;
    int64_t lo = 0, hi = 0;
    if (!read_bounds(j, c, &k)) return NULL;
    bool has_lo = k.lo.value != NULL, has_hi = k.hi.value != NULL;
    if (has_lo && !integer_bound(j, &k.lo, false, &lo)) return NULL;
    if (has_hi && !integer_bound(j, &k.hi, true, &hi)) return NULL;
    if (!has_lo && !has_hi) {
        if (j->integer_rule == UINT32_MAX) {
            j->integer_rule = rf_rule_add(j->b, RF_STR("integer"));
            if (j->integer_rule == UINT32_MAX) return NULL;
            j->b->rule[j->integer_rule].x =
                rf_regex_parse(j->b, RF_STR("-?(0|[1-9][0-9]*)"), false, false, "integer");
        }
        return rf_x_call(j->b, j->integer_rule);
    }
    rf_parts parts = {0};
    if (!has_hi || hi >= 0)
        rf_parts_add(&parts,
                     magnitudes(j->b, has_lo && lo > 0 ? (uint64_t)lo : 0, has_hi, magnitude(hi)));
    if (!has_lo || lo < 0)
        rf_parts_add(&parts, RF_X_SEQ(j->b, rf_x_text(j->b, "-"),
                                      magnitudes(j->b, has_hi && hi < 0 ? magnitude(hi) : 1, has_lo,
                                                 magnitude(lo))));
    return rf_parts_alt(j->b, &parts);
}

/* ---- numbers ---- */

typedef struct decimal {
    bool negative, zero;
    char whole[32], fraction[32]; /* digits; no trailing zeros in the fraction */
} decimal;

/* |d| in fixed notation; false when it needs more digits than bounds may have. */
static bool spell(double d, decimal *out) {
    char text[64];
    int precision = 0;
    do
        snprintf(text, sizeof text, "%.*f", precision, fabs(d));
    while (strtod(text, NULL) != fabs(d) && ++precision <= BOUND_DIGITS);
    const char *point = strchr(text, '.');
    size_t n_whole = point ? (size_t)(point - text) : strlen(text);
    if (precision > BOUND_DIGITS || n_whole + (size_t)precision > BOUND_DIGITS + 1u) return false;
    out->negative = d < 0;
    out->zero = d == 0;
    memcpy(out->whole, text, n_whole);
    out->whole[n_whole] = 0;
    strcpy(out->fraction, point ? point + 1 : "");
    for (size_t n = strlen(out->fraction); n && out->fraction[n - 1] == '0'; n--)
        out->fraction[n - 1] = 0;
    return true;
}

static const rf_expr *any_fraction(rf_rules *b) {
    return rf_x_repeat(b, RF_X_SEQ(b, rf_x_text(b, "."), digits(b, 1, RF_X_MANY)), 0, 1);
}

/* Digits with one among them that is not zero. */
static const rf_expr *not_zero(rf_rules *b) {
    return RF_X_SEQ(b, rf_x_repeat(b, digit(b, '0', '0'), 0, RF_X_MANY), digit(b, '1', '9'),
                    digits(b, 0, RF_X_MANY));
}

/* Digits behind the point, of at least (strict: more than) .s */
static const rf_expr *fraction_from(rf_rules *b, const char *s, bool strict) {
    if (!*s) return strict ? not_zero(b) : digits(b, 0, RF_X_MANY);
    return RF_X_ALT(b, RF_X_SEQ(b, digit(b, (char)(*s + 1), '9'), digits(b, 0, RF_X_MANY)),
                    RF_X_SEQ(b, digit(b, *s, *s), fraction_from(b, s + 1, strict)));
}

/* The same of at most (strict: less than) .s; s ends with no zero. */
static const rf_expr *fraction_up_to(rf_rules *b, const char *s, bool strict) {
    if (!*s) return strict ? rf_x_never(b) : rf_x_repeat(b, digit(b, '0', '0'), 0, RF_X_MANY);
    return RF_X_ALT(b, rf_x_text(b, ""),
                    RF_X_SEQ(b, digit(b, '0', (char)(*s - 1)), digits(b, 0, RF_X_MANY)),
                    RF_X_SEQ(b, digit(b, *s, *s), fraction_up_to(b, s + 1, strict)));
}

/* digits + 1, in decimal. */
static void increment(const char *s, char out[40]) {
    size_t n = strlen(s);
    out[0] = '0';
    memcpy(out + 1, s, n + 1);
    size_t i = n;
    while (out[i] == '9')
        out[i--] = '0';
    out[i]++;
    if (out[0] == '0') memmove(out, out + 1, n + 1);
}

/* digits - 1; false for 0. */
static bool decrement(const char *s, char out[40]) {
    size_t n = strlen(s);
    if (strcmp(s, "0") == 0) return false;
    memcpy(out, s, n + 1);
    size_t i = n - 1;
    while (out[i] == '0')
        out[i--] = '9';
    out[i]--;
    if (out[0] == '0' && n > 1) memmove(out, out + 1, n);
    return true;
}

/* What follows a whole part that equals the bound's: nothing is a fraction of zero. */
static const rf_expr *tail(rf_rules *b, bool may_be_none, const rf_expr *fraction) {
    const rf_expr *digits_there = rf_x_and(b, fraction, digits(b, 1, RF_X_MANY));
    const rf_expr *x = RF_X_SEQ(b, rf_x_text(b, "."), digits_there);
    return may_be_none ? rf_x_repeat(b, x, 0, 1) : x;
}

static const rf_expr *size_from(rf_rules *b, const decimal *d, bool strict) {
    char above[40];
    increment(d->whole, above);
    return RF_X_ALT(
        b, RF_X_SEQ(b, whole_from(b, above), any_fraction(b)),
        RF_X_SEQ(b, rf_x_text(b, d->whole),
                 tail(b, !strict && !*d->fraction, fraction_from(b, d->fraction, strict))));
}

static const rf_expr *size_up_to(rf_rules *b, const decimal *d, bool strict) {
    char below[40];
    const rf_expr *equal =
        RF_X_SEQ(b, rf_x_text(b, d->whole),
                 tail(b, !strict || *d->fraction, fraction_up_to(b, d->fraction, strict)));
    if (!decrement(d->whole, below)) return equal;
    return RF_X_ALT(b, RF_X_SEQ(b, whole_up_to(b, below), any_fraction(b)), equal);
}

static bool number_bound(rf_schema_job *j, const bound *b, decimal *out) {
    if (!b->value || spell(rf_json_real(b->value), out)) return true;
    rf_schema_fail(j, b->part, b->keyword, RF_EUNSUPPORTED,
                   "this bound needs more than 15 decimal digits");
    return false;
}

/* Numbers without their sign from a to b, either may be NULL. */
static const rf_expr *sizes(rf_rules *b, const decimal *from, bool strict_from, const decimal *to,
                            bool strict_to) {
    const rf_range chars[] = {{'.', '.'}, {'0', '9'}};
    const rf_expr *x = rf_x_repeat(b, rf_x_set(b, chars, 2, false, false), 1, NUMBER_CHARS);
    const rf_expr *any = RF_X_SEQ(b, whole_from(b, "0"), any_fraction(b));
    x = rf_x_and(b, x, from ? size_from(b, from, strict_from) : any);
    return to ? rf_x_and(b, x, size_up_to(b, to, strict_to)) : x;
}

const rf_expr *rf_schema_number(rf_schema_job *j, const rf_conj *c) {
    static const decimal zero = {.zero = true, .whole = "0"};
    bounds k;
    decimal lo, hi;
    if (!read_bounds(j, c, &k)) return NULL;
    if (!k.lo.value && !k.hi.value) {
        if (j->number_rule == UINT32_MAX) {
            j->number_rule = rf_rule_add(j->b, RF_STR("number"));
            if (j->number_rule == UINT32_MAX) return NULL;
            j->b->rule[j->number_rule].x =
                rf_regex_parse(j->b, RF_STR("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]{1,3})?"),
                               false, false, "number");
        }
        return rf_x_call(j->b, j->number_rule);
    }
    if (!number_bound(j, &k.lo, &lo) || !number_bound(j, &k.hi, &hi)) return NULL;
    bool has_lo = k.lo.value != NULL, has_hi = k.hi.value != NULL;
    rf_parts parts = {0};
    if (!has_hi || !hi.negative)
        rf_parts_add(&parts, sizes(j->b, has_lo && !lo.negative ? &lo : NULL, k.lo.strict,
                                   has_hi ? &hi : NULL, k.hi.strict));
    if (!has_lo || lo.negative)
        rf_parts_add(&parts, RF_X_SEQ(j->b, rf_x_text(j->b, "-"),
                                      sizes(j->b, has_hi && hi.negative ? &hi : &zero,
                                            has_hi && hi.negative ? k.hi.strict : true,
                                            has_lo ? &lo : NULL, k.lo.strict)));
    return rf_parts_alt(j->b, &parts);
}
