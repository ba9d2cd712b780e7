/* functions.c - what templates may call by name: namespace, range, raise_exception and their like.
 */
#include <string.h>

#include "text/jinja/internal.h"

typedef rf_jv function_fn(rf_jx *c, const rf_jargs *a);

static void take_keywords(rf_jx *c, rf_jdict *d, const rf_jargs *a) {
    for (size_t i = 0; i < a->n_kw; i++) {
        rf_jv key = rf_jv_str((rf_jstr){a->kw[i].name.p, NULL, a->kw[i].name.len});
        rf_jdict_put(c, d, key, a->kw[i].value);
    }
}

static rf_jv make_dict(rf_jx *c, const rf_jargs *a, rf_jkind kind) {
    rf_jv v = rf_jv_dict(c, kind, a->n_kw);
    if (a->n > 1) rf_jx_fail(c, "expected at most 1 argument by position, got %zu", a->n);
    if (a->n && a->pos[0].kind != JV_DICT) {
        rf_jx_fail(c, "expected a dict, got %s", rf_jv_type(&a->pos[0]));
    }
    for (size_t i = 0; a->n && i < a->pos[0].dict->n; i++) {
        rf_jdict_put(c, v.dict, a->pos[0].dict->pairs[i].key, a->pos[0].dict->pairs[i].value);
    }
    take_keywords(c, v.dict, a);
    return v;
}

static rf_jv call_namespace(rf_jx *c, const rf_jargs *a) { return make_dict(c, a, JV_NS); }
static rf_jv call_dict(rf_jx *c, const rf_jargs *a) { return make_dict(c, a, JV_DICT); }

static rf_jv call_raise(rf_jx *c, const rf_jargs *a) {
    rf_jstr what = rf_jv_string(c, rf_jarg_need(c, a, 0, "message"));
    rf_jx_fail(c, "%.*s", RF_STR_ARG(rf_jstr_raw(what)));
}

static rf_jv call_range(rf_jx *c, const rf_jargs *a) {
    if (a->n == 0 || a->n > 3) rf_jx_fail(c, "range: expected 1 to 3 arguments, got %zu", a->n);
    rf_i128 v[3] = {0, 0, 1};
    for (size_t i = 0; i < a->n; i++) {
        v[a->n == 1 ? 1 : i] = rf_jv_integer(c, &a->pos[i], "range");
        if (a->pos[i].kind == JV_INT && (a->pos[i].i > INT64_MAX || a->pos[i].i < INT64_MIN)) {
            rf_jx_fail(c, "range: expected numbers of 64 bits");
        }
    }
    if (v[2] == 0) rf_jx_fail(c, "range: expected a step other than 0");
    rf_i128 span = v[2] > 0 ? v[1] - v[0] : v[0] - v[1], step = v[2] > 0 ? v[2] : -v[2];
    rf_i128 n = span <= 0 ? 0 : (span + step - 1) / step;
    if (n > RF_JINJA_MAX_RANGE) {
        rf_jx_fail(c, "range: expected at most %d numbers, got more", RF_JINJA_MAX_RANGE);
    }
    rf_jv out = rf_jv_seq(c, JF_RANGE, (size_t)n);
    for (size_t i = 0; i < out.seq->n; i++) {
        out.seq->items[i] = rf_jv_int(v[0] + v[2] * (rf_i128)i);
    }
    return out;
}

static rf_jv call_strftime(rf_jx *c, const rf_jargs *a) {
    rf_jstr fmt = rf_jarg_str(c, a, 0, "format");
    char pattern[257], text[1024];
    if (fmt.len >= sizeof pattern - 1) {
        rf_jx_fail(c, "strftime_now: expected at most %zu bytes of format", sizeof pattern - 2);
    }
    if (fmt.len) memcpy(pattern, fmt.p, fmt.len);
    memcpy(pattern + fmt.len, "|", 2); /* so that an empty result is no failure */
    struct tm now = {0};
    if (c->now) {
        now = *c->now;
    } else {
        time_t seconds = time(NULL);
        localtime_r(&seconds, &now);
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* bounded by text, whatever it says */
    size_t n = strftime(text, sizeof text, pattern, &now);
#pragma GCC diagnostic pop
    if (n == 0) rf_jx_fail(c, "strftime_now: a date of more than %zu bytes", sizeof text);
    rf_jbuf b = {0};
    rf_jbuf_text(c, &b, text, n - 1, false);
    return rf_jbuf_value(&b);
}

static rf_jv make_object(rf_jx *c, bool is_joiner, const rf_jargs *a) {
    rf_jobject *o = rf_jx_alloc(c, 1, sizeof *o);
    *o = (rf_jobject){.is_joiner = is_joiner, .items = a->pos, .n = a->n};
    return (rf_jv){.kind = JV_OBJECT, .object = o};
}

static rf_jv call_cycler(rf_jx *c, const rf_jargs *a) {
    if (a->n == 0) rf_jx_fail(c, "cycler: expected at least one item");
    return make_object(c, false, a);
}

static rf_jv call_joiner(rf_jx *c, const rf_jargs *a) { return make_object(c, true, a); }

static rf_jv call_lipsum(rf_jx *c, const rf_jargs *a) {
    (void)a;
    rf_jx_fail(c, "lipsum: filler text is not made here");
}

static const struct {
    const char *name;
    function_fn *run;
} functions[] = {
    {"namespace", call_namespace}, {"raise_exception", call_raise},
    {"range", call_range},         {"strftime_now", call_strftime},
    {"dict", call_dict},           {"cycler", call_cycler},
    {"joiner", call_joiner},       {"lipsum", call_lipsum},
};

bool rf_jx_function(rf_str name, rf_jv *out) {
    for (size_t i = 0; i < RF_COUNT(functions); i++) {
        if (!rf_str_is(name, functions[i].name)) continue;
        *out = (rf_jv){.kind = JV_FUNC, .func = i};
        return true;
    }
    return false;
}

rf_jv rf_jx_call_function(rf_jx *c, size_t row, const rf_jargs *args) {
    return functions[row].run(c, args);
}

rf_jv rf_jx_call(rf_jx *c, const rf_jv *f, const rf_jargs *args) {
    if (f->kind == JV_FUNC) return rf_jx_call_function(c, f->func, args);
    if (f->kind == JV_METHOD) return rf_jx_call_method(c, f->method, args);
    if (f->kind == JV_MACRO) return rf_jx_call_macro(c, f->macro, args);
    if (f->kind == JV_UNDEF) rf_jx_fail(c, "%s", f->s.p);
    if (f->kind == JV_OBJECT && f->object->is_joiner) {
        if (f->object->pos++ == 0) return rf_jv_text("");
        return f->object->n ? f->object->items[0] : rf_jv_text(", ");
    }
    rf_jx_fail(c, "expected something to call, got %s", rf_jv_type(f));
}
