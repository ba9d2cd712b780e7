/* tests.c - what may stand behind "is". */
#include "text/jinja/internal.h"

typedef bool test_fn(rf_jx *c, const rf_jv *v, const rf_jargs *a);

static bool is_defined(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    return v->kind != JV_UNDEF;
}
static bool is_undefined(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    return !is_defined(c, v, a);
}
static bool is_none(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    return v->kind == JV_NONE;
}
static bool is_string(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    return v->kind == JV_STR;
}
static bool is_number(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    return rf_jv_is_number(v);
}
static bool is_integer(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    return v->kind == JV_INT;
}
static bool is_float(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    return v->kind == JV_FLOAT;
}
static bool is_boolean(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    return v->kind == JV_BOOL;
}
static bool is_true(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    return v->kind == JV_BOOL && v->b;
}
static bool is_false(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    return v->kind == JV_BOOL && !v->b;
}
static bool is_mapping(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    return v->kind == JV_DICT;
}
static bool is_iterable(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    return v->kind == JV_STR || v->kind == JV_BYTES || v->kind == JV_SEQ || v->kind == JV_DICT ||
           v->kind == JV_UNDEF || v->kind == JV_LOOP;
}
static bool is_sequence(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    if (v->kind == JV_SEQ) return v->seq->flavor <= JF_TUPLE || v->seq->flavor == JF_RANGE;
    return v->kind == JV_STR || v->kind == JV_BYTES || v->kind == JV_DICT || v->kind == JV_UNDEF;
}
static bool is_callable(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)c, (void)a;
    return v->kind == JV_FUNC || v->kind == JV_METHOD || v->kind == JV_MACRO ||
           v->kind == JV_UNDEF || v->kind == JV_LOOP ||
           (v->kind == JV_OBJECT && v->object->is_joiner);
}
static bool is_odd(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    return rf_jv_integer(c, v, "odd") % 2 != 0;
}
static bool is_even(rf_jx *c, const rf_jv *v, const rf_jargs *a) { return !is_odd(c, v, a); }
static bool is_divisible(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    rf_i128 by = rf_jv_integer(c, rf_jarg_need(c, a, 0, "num"), "divisibleby");
    if (by == 0) rf_jx_fail(c, "divisibleby: expected a number other than 0");
    return by == -1 || rf_jv_integer(c, v, "divisibleby") % by == 0;
}
static bool is_upper(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    rf_jstr s = rf_jv_string(c, v);
    rf_str up = rf_jstr_raw(rf_jstr_upper(c, s));
    return rf_str_eq(rf_jstr_raw(s), up) && !rf_str_eq(rf_jstr_raw(rf_jstr_lower(c, s)), up);
}
static bool is_lower(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    rf_jstr s = rf_jv_string(c, v);
    rf_str low = rf_jstr_raw(rf_jstr_lower(c, s));
    return rf_str_eq(rf_jstr_raw(s), low) && !rf_str_eq(rf_jstr_raw(rf_jstr_upper(c, s)), low);
}
static bool is_eq(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    return rf_jv_eq(c, v, rf_jarg_need(c, a, 0, "other"));
}
static bool is_ne(rf_jx *c, const rf_jv *v, const rf_jargs *a) { return !is_eq(c, v, a); }
static bool is_lt(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    return rf_jv_cmp(c, v, rf_jarg_need(c, a, 0, "other"), "lt") < 0;
}
static bool is_gt(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    return rf_jv_cmp(c, v, rf_jarg_need(c, a, 0, "other"), "gt") == 1;
}
static bool is_le(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    return rf_jv_cmp(c, v, rf_jarg_need(c, a, 0, "other"), "le") <= 0;
}
static bool is_ge(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    int d = rf_jv_cmp(c, v, rf_jarg_need(c, a, 0, "other"), "ge");
    return d == 0 || d == 1;
}
static bool is_in(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    return rf_jv_contains(c, rf_jarg_need(c, a, 0, "seq"), v);
}
static bool is_same(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *other = rf_jarg_need(c, a, 0, "other");
    if (v->kind == JV_SEQ && other->kind == JV_SEQ) return v->seq == other->seq;
    if (v->kind == JV_DICT && other->kind == JV_DICT) return v->dict == other->dict;
    return v->kind == other->kind && rf_jv_eq(c, v, other);
}

static const struct {
    const char *name;
    test_fn *run;
} tests[] = {
    {"defined", is_defined},
    {"undefined", is_undefined},
    {"none", is_none},
    {"string", is_string},
    {"number", is_number},
    {"integer", is_integer},
    {"float", is_float},
    {"boolean", is_boolean},
    {"true", is_true},
    {"false", is_false},
    {"mapping", is_mapping},
    {"iterable", is_iterable},
    {"sequence", is_sequence},
    {"callable", is_callable},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible},
    {"upper", is_upper},
    {"lower", is_lower},
    {"eq", is_eq},
    {"equalto", is_eq},
    {"==", is_eq},
    {"ne", is_ne},
    {"!=", is_ne},
    {"lt", is_lt},
    {"lessthan", is_lt},
    {"<", is_lt},
    {"gt", is_gt},
    {"greaterthan", is_gt},
    {">", is_gt},
    {"le", is_le},
    {"<=", is_le},
    {"ge", is_ge},
    {">=", is_ge},
    {"in", is_in},
    {"sameas", is_same},
};

bool rf_jx_test(rf_jx *c, rf_str name, const rf_jv *v, const rf_jargs *args) {
    for (size_t i = 0; i < RF_COUNT(tests); i++) {
        if (rf_str_is(name, tests[i].name)) return tests[i].run(c, v, args);
    }
    rf_jx_fail(c, "there is no test \"%.*s\"", RF_STR_ARG(name));
}
