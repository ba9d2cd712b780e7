/* schema.c - JSON Schema (2020-12) to rules: references, combinations, constants, types.
 *
 * Exactly the documented subset: every keyword is in the table below or refused, with its pointer,
 * so that an answer that matches is valid.  A value's rule is found again by its list of parts,
 * which is what makes recursive schemas finite. */
#include "grammar/schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static const struct {
    const char *name;
    uint32_t type;
} types[] = {{"null", RF_T_NULL},       {"boolean", RF_T_BOOL},
             {"integer", RF_T_INTEGER}, {"number", RF_T_INTEGER | RF_T_FRACTION},
             {"string", RF_T_STRING},   {"array", RF_T_ARRAY},
             {"object", RF_T_OBJECT}};

/* What may stand in a schema; the second list says nothing of the value. */
static const char *const keywords[] = {
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "enum",
    "const",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "patternProperties",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
};
static const char *const annotations[] = {
    "$schema",     "$id",     "$comment", "$defs",      "definitions", "title",
    "description", "default", "examples", "deprecated", "readOnly",    "writeOnly",
};

const rf_expr *rf_schema_fail(rf_schema_job *j, const rf_part *p, const char *keyword, rf_status s,
                              const char *what) {
    rf_str path = keyword ? rf_schema_path(j, p->path, keyword) : p->path;
    rf_fail(j->e, s, "JSON Schema: #%.*s: %s", RF_STR_ARG(path), what);
    return NULL;
}

rf_str rf_schema_path(rf_schema_job *j, rf_str path, const char *key) {
    rf_buf b = {0};
    rf_buf_put(&b, path.p, path.len);
    rf_buf_putc(&b, '/');
    for (; *key; key++) {
        if (*key == '~' || *key == '/')
            rf_buf_puts(&b, *key == '~' ? "~0" : "~1");
        else
            rf_buf_putc(&b, *key);
    }
    rf_str copy = b.failed ? (rf_str){0} : rf_arena_str(j->b->arena, rf_buf_str(&b));
    rf_buf_free(&b);
    if (!copy.p) {
        rf_fail_nomem(j->e, path.len);
        return RF_STR("");
    }
    return copy;
}

/* ---- the parts of a value ---- */

static bool check_keywords(rf_schema_job *j, const rf_part *p) {
    for (void *it = rf_json_iter(p->s); it; it = rf_json_iter_next(p->s, it)) {
        const char *key = rf_json_iter_key(it);
        bool known = false;
        for (size_t i = 0; i < RF_COUNT(keywords); i++)
            known = known || strcmp(key, keywords[i]) == 0;
        for (size_t i = 0; i < RF_COUNT(annotations); i++)
            known = known || strcmp(key, annotations[i]) == 0;
        const rf_json *v = rf_json_iter_value(it);
        if (strcmp(key, "uniqueItems") == 0 && rf_json_kind(v) == RF_JSON_BOOL && !rf_json_bool(v))
            known = true;
        if (!known) {
            rf_schema_fail(j, p, key, RF_EUNSUPPORTED, "this keyword is not supported");
            return false;
        }
    }
    return true;
}

static bool add_part(rf_schema_job *j, rf_conj *c, const rf_json *s, rf_str path,
                     uint32_t included_by) {
    rf_part p = {.s = s, .path = path, .included_by = included_by};
    if (rf_json_kind(s) == RF_JSON_BOOL) {
        c->never = c->never || !rf_json_bool(s);
        return true;
    }
    if (!s || rf_json_kind(s) != RF_JSON_OBJECT) {
        rf_schema_fail(j, &p, NULL, RF_EFORMAT, "expected a schema: an object, true or false");
        return false;
    }
    for (uint32_t at = included_by; at; at = c->part[at - 1].included_by)
        if (c->part[at - 1].s == s) {
            rf_schema_fail(j, &p, NULL, RF_EFORMAT, "this schema includes itself");
            return false;
        }
    for (size_t i = 0; i < c->n; i++)
        if (c->part[i].s == s) return true;
    if (c->n == RF_SCHEMA_MAX_PARTS) {
        rf_schema_fail(j, &p, NULL, RF_EUNSUPPORTED,
                       "more than 24 schemas apply to this value at once");
        return false;
    }
    c->part[c->n++] = p;
    return check_keywords(j, &p);
}

bool rf_conj_add(rf_schema_job *j, rf_conj *c, const rf_json *s, rf_str path) {
    return add_part(j, c, s, path, 0);
}

/* One step of a JSON pointer, between its slashes, undoing ~0 ~1 and %XX. */
static bool decode_step(const char *p, size_t n, rf_buf *out) {
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        if (c == '%') {
            unsigned value;
            if (i + 2 >= n || sscanf(p + i + 1, "%2x", &value) != 1) return false;
            c = (char)value;
            i += 2;
        } else if (c == '~') {
            if (i + 1 >= n || (p[i + 1] != '0' && p[i + 1] != '1')) return false;
            c = p[++i] == '0' ? '~' : '/';
        }
        rf_buf_putc(out, c);
    }
    rf_buf_putc(out, '\0');
    return true;
}

static const rf_json *step_into(const rf_json *at, const char *key) {
    if (rf_json_kind(at) == RF_JSON_OBJECT) return rf_json_get(at, key);
    char *end;
    unsigned long i = strtoul(key, &end, 10);
    return key[0] >= '0' && key[0] <= '9' && !*end ? rf_json_at(at, i) : NULL;
}

/* The schema that a $ref names; NULL, with the failure told, when there is none. */
static const rf_json *resolve(rf_schema_job *j, const rf_part *p, const rf_json *ref) {
    if (rf_json_kind(ref) != RF_JSON_STRING)
        return rf_schema_fail(j, p, "$ref", RF_EFORMAT, "expected a string"), NULL;
    rf_str text = rf_json_str(ref);
    if (!rf_str_starts(text, "#") || (text.len > 1 && text.p[1] != '/'))
        return rf_schema_fail(j, p, "$ref", RF_EUNSUPPORTED,
                              "only references into this schema are supported: # and #/..."),
               NULL;
    const rf_json *at = j->root;
    rf_buf step = {0};
    for (size_t i = 1; at && i < text.len;) {
        size_t end = ++i;
        while (end < text.len && text.p[end] != '/')
            end++;
        rf_buf_clear(&step);
        at = decode_step(text.p + i, end - i, &step) && !step.failed ? step_into(at, step.p) : NULL;
        i = end;
    }
    bool failed = step.failed;
    rf_buf_free(&step);
    if (failed) return rf_fail_nomem(j->e, text.len), NULL;
    if (!at) return rf_schema_fail(j, p, "$ref", RF_EFORMAT, "this names no schema"), NULL;
    return at;
}

/* Adds what $ref and allOf bring in, until nothing new comes. */
static bool flatten(rf_schema_job *j, rf_conj *c) {
    for (uint32_t i = 0; i < c->n; i++) {
        const rf_part p = c->part[i];
        const rf_json *ref = rf_json_get(p.s, "$ref"), *all = rf_json_get(p.s, "allOf");
        if (ref) {
            const rf_json *target = resolve(j, &p, ref);
            rf_str path = rf_json_str(ref);
            if (!target) return false;
            if (!add_part(j, c, target, (rf_str){path.p + 1, path.len - 1}, i + 1)) return false;
        }
        if (all && (rf_json_kind(all) != RF_JSON_ARRAY || rf_json_len(all) == 0)) {
            rf_schema_fail(j, &p, "allOf", RF_EFORMAT, "expected an array of schemas");
            return false;
        }
        for (size_t k = 0; k < rf_json_len(all); k++) {
            char index[24];
            snprintf(index, sizeof index, "%zu", k);
            rf_str path = rf_schema_path(j, rf_schema_path(j, p.path, "allOf"), index);
            if (!add_part(j, c, rf_json_at(all, k), path, i + 1)) return false;
        }
    }
    return true;
}

/* ---- types ---- */

static uint32_t type_of_name(const rf_json *name) {
    for (size_t i = 0; i < RF_COUNT(types); i++)
        if (rf_json_kind(name) == RF_JSON_STRING && rf_str_is(rf_json_str(name), types[i].name))
            return types[i].type;
    return 0;
}

static uint32_t type_of_value(const rf_json *v) {
    switch (rf_json_kind(v)) {
    case RF_JSON_NULL:
        return RF_T_NULL;
    case RF_JSON_BOOL:
        return RF_T_BOOL;
    case RF_JSON_INT:
        return RF_T_INTEGER;
    case RF_JSON_REAL:
        return rf_json_real(v) == floor(rf_json_real(v)) ? RF_T_INTEGER : RF_T_FRACTION;
    case RF_JSON_STRING:
        return RF_T_STRING;
    case RF_JSON_ARRAY:
        return RF_T_ARRAY;
    case RF_JSON_OBJECT:
        return RF_T_OBJECT;
    }
    return 0;
}

/* The types that all parts allow. */
static bool read_types(rf_schema_job *j, const rf_conj *c, uint32_t *out) {
    *out = RF_T_ALL;
    for (size_t i = 0; i < c->n; i++) {
        const rf_json *v = rf_json_get(c->part[i].s, "type");
        if (!v) continue;
        bool is_list = rf_json_kind(v) == RF_JSON_ARRAY;
        uint32_t here = is_list ? 0 : type_of_name(v), n_bad = !is_list && here == 0;
        for (size_t k = 0; is_list && k < rf_json_len(v); k++) {
            uint32_t type = type_of_name(rf_json_at(v, k));
            n_bad += type == 0;
            here |= type;
        }
        if (n_bad || (is_list && rf_json_len(v) == 0)) {
            rf_schema_fail(j, &c->part[i], "type", RF_EFORMAT,
                           "expected null, boolean, integer, number, string, array, object or an "
                           "array of these");
            return false;
        }
        *out &= here;
    }
    return true;
}

bool rf_schema_count(rf_schema_job *j, const rf_conj *c, const char *keyword, bool largest,
                     uint32_t *value) {
    for (size_t i = 0; i < c->n; i++) {
        const rf_json *v = rf_json_get(c->part[i].s, keyword);
        if (!v) continue;
        double d = rf_json_real(v);
        bool is_number = rf_json_kind(v) == RF_JSON_INT || rf_json_kind(v) == RF_JSON_REAL;
        if (!is_number || d < 0 || d != floor(d)) {
            rf_schema_fail(j, &c->part[i], keyword, RF_EFORMAT, "expected a whole number from 0");
            return false;
        }
        if (d > RF_GRAMMAR_MAX_REPEAT) {
            rf_schema_fail(j, &c->part[i], keyword, RF_EUNSUPPORTED, "more than 1000000");
            return false;
        }
        uint32_t n = (uint32_t)d;
        if (largest ? n > *value : n < *value) *value = n;
    }
    return true;
}

/* ---- constants ---- */

static void write_number(rf_buf *out, double d) {
    char text[40];
    int precision = 15;
    do
        snprintf(text, sizeof text, "%.*g", precision, d);
    while (strtod(text, NULL) != d && ++precision <= 17);
    rf_buf_puts(out, text);
}

static void write_string(rf_buf *out, rf_str s) {
    rf_buf_putc(out, '"');
    rf_schema_write_str(out, s);
    rf_buf_putc(out, '"');
}

void rf_schema_write(rf_buf *out, const rf_json *v) {
    const char *comma = "";
    switch (rf_json_kind(v)) {
    case RF_JSON_NULL:
        rf_buf_puts(out, "null");
        return;
    case RF_JSON_BOOL:
        rf_buf_puts(out, rf_json_bool(v) ? "true" : "false");
        return;
    case RF_JSON_INT:
        rf_buf_printf(out, "%lld", (long long)rf_json_int(v));
        return;
    case RF_JSON_REAL:
        write_number(out, rf_json_real(v));
        return;
    case RF_JSON_STRING:
        write_string(out, rf_json_str(v));
        return;
    case RF_JSON_ARRAY:
        rf_buf_putc(out, '[');
        for (size_t i = 0; i < rf_json_len(v); i++, comma = ",") {
            rf_buf_puts(out, comma);
            rf_schema_write(out, rf_json_at(v, i));
        }
        rf_buf_putc(out, ']');
        return;
    case RF_JSON_OBJECT:
        rf_buf_putc(out, '{');
        for (void *it = rf_json_iter(v); it; it = rf_json_iter_next(v, it), comma = ",") {
            rf_buf_puts(out, comma);
            write_string(out, rf_str_of(rf_json_iter_key(it)));
            rf_buf_putc(out, ':');
            rf_schema_write(out, rf_json_iter_value(it));
        }
        rf_buf_putc(out, '}');
        return;
    }
}

/* The ith of the values that a part allows one by one: its const, or its enum; NULL past the end. */
static const rf_json *value_at(const rf_part *p, size_t i) {
    const rf_json *one = rf_json_get(p->s, "const");
    if (one) return i == 0 ? one : NULL;
    return rf_json_at(rf_json_get(p->s, "enum"), i);
}

static bool lists_values(const rf_part *p) {
    return rf_json_get(p->s, "const") || rf_json_get(p->s, "enum");
}

/* Is v, spelt as text, among the values of the part? */
static bool has_value(const rf_part *p, const rf_buf *text) {
    rf_buf other = {0};
    bool found = false;
    const rf_json *v;
    for (size_t i = 0; !found && (v = value_at(p, i)); i++) {
        rf_buf_clear(&other);
        rf_schema_write(&other, v);
        found = !other.failed && rf_str_eq(rf_buf_str(&other), rf_buf_str(text));
    }
    rf_buf_free(&other);
    return found;
}

/* Constants are not checked against keywords like these: refused beside them. */
static bool check_beside_values(rf_schema_job *j, const rf_conj *c) {
    static const char *const allowed[] = {"enum",  "const", "type", "$ref",
                                          "allOf", "anyOf", "oneOf"};
    for (size_t i = 0; i < c->n; i++)
        for (void *it = rf_json_iter(c->part[i].s); it; it = rf_json_iter_next(c->part[i].s, it)) {
            const char *key = rf_json_iter_key(it);
            bool fine = false, known = false;
            for (size_t k = 0; k < RF_COUNT(allowed); k++)
                fine = fine || strcmp(key, allowed[k]) == 0;
            for (size_t k = 0; k < RF_COUNT(keywords); k++)
                known = known || strcmp(key, keywords[k]) == 0;
            if (fine || !known) continue;
            rf_schema_fail(j, &c->part[i], key, RF_EUNSUPPORTED,
                           "beside enum or const only type is supported");
            return false;
        }
    return true;
}

static bool check_enums(rf_schema_job *j, const rf_conj *c) {
    for (size_t i = 0; i < c->n; i++) {
        const rf_json *list = rf_json_get(c->part[i].s, "enum");
        if (!list) continue;
        if (rf_json_kind(list) != RF_JSON_ARRAY || rf_json_len(list) == 0) {
            rf_schema_fail(j, &c->part[i], "enum", RF_EFORMAT, "expected an array of values");
            return false;
        }
        if (rf_json_get(c->part[i].s, "const") || rf_json_len(list) > RF_SCHEMA_MAX_VALUES) {
            rf_schema_fail(j, &c->part[i], "enum", RF_EUNSUPPORTED,
                           "more than 4096 values, or a const beside it");
            return false;
        }
    }
    return check_beside_values(j, c);
}

/* A value as it may be written: white space may follow commas and colons inside it. */
static const rf_expr *constant(rf_schema_job *j, const rf_json *v) {
    rf_json_type kind = rf_json_kind(v);
    bool is_array = kind == RF_JSON_ARRAY;
    if ((!is_array && kind != RF_JSON_OBJECT) || rf_json_len(v) == 0) {
        rf_buf text = {0};
        rf_schema_write(&text, v);
        if (text.failed) rf_fail_nomem(j->e, text.len);
        const rf_expr *x = text.failed ? NULL : rf_x_bytes(j->b, rf_buf_str(&text));
        rf_buf_free(&text);
        return x;
    }
    rf_parts parts = {0};
    rf_parts_add(&parts, rf_x_text(j->b, is_array ? "[" : "{"));
    void *it = is_array ? NULL : rf_json_iter(v);
    for (size_t i = 0; !parts.failed && i < rf_json_len(v); i++) {
        rf_buf key = {0};
        if (i) rf_parts_add(&parts, rf_x_text(j->b, ","));
        rf_parts_add(&parts, rf_schema_space(j));
        if (it) {
            write_string(&key, rf_str_of(rf_json_iter_key(it)));
            rf_buf_putc(&key, ':');
            rf_parts_add(&parts, rf_x_bytes(j->b, rf_buf_str(&key)));
            rf_parts_add(&parts, rf_x_repeat(j->b, rf_x_text(j->b, " "), 0, 1));
        }
        rf_parts_add(&parts, constant(j, it ? rf_json_iter_value(it) : rf_json_at(v, i)));
        if (it) it = rf_json_iter_next(v, it);
        parts.failed = parts.failed || key.failed;
        rf_buf_free(&key);
    }
    rf_parts_add(&parts, rf_schema_space(j));
    rf_parts_add(&parts, rf_x_text(j->b, is_array ? "]" : "}"));
    return rf_parts_seq(j->b, &parts);
}

/* The values of part `first` that the others allow too. */
static const rf_expr *constants(rf_schema_job *j, const rf_conj *c, size_t first) {
    uint32_t allowed;
    if (!check_enums(j, c) || !read_types(j, c, &allowed)) return NULL;
    rf_parts parts = {0};
    rf_buf text = {0};
    const rf_json *v;
    for (size_t i = 0; !parts.failed && (v = value_at(&c->part[first], i)); i++) {
        rf_buf_clear(&text);
        rf_schema_write(&text, v);
        bool fits = (type_of_value(v) & allowed) != 0;
        for (size_t k = 0; k < c->n; k++)
            if (k != first && lists_values(&c->part[k]))
                fits = fits && has_value(&c->part[k], &text);
        if (text.failed) rf_fail_nomem(j->e, text.len);
        if (fits) rf_parts_add(&parts, text.failed ? NULL : constant(j, v));
    }
    rf_buf_free(&text);
    return rf_parts_alt(j->b, &parts);
}

/* ---- choices ---- */

/* What is known of an alternative of a oneOf, for telling it from another. */
typedef struct traits {
    rf_conj c;
    uint32_t types;
} traits;

static bool read_traits(rf_schema_job *j, const rf_json *s, rf_str path, traits *t) {
    *t = (traits){0};
    if (!rf_conj_add(j, &t->c, s, path) || !flatten(j, &t->c)) return false;
    if (!read_types(j, &t->c, &t->types)) return false;
    for (size_t i = 0; i < t->c.n; i++) {
        if (!lists_values(&t->c.part[i])) continue;
        uint32_t of_values = 0;
        const rf_json *v;
        for (size_t k = 0; (v = value_at(&t->c.part[i], k)); k++)
            of_values |= type_of_value(v);
        t->types &= of_values;
    }
    return true;
}

/* The part that lists the values of the schema, or of its required property key. */
static bool find_values(rf_schema_job *j, const traits *t, const char *key, rf_part *out) {
    for (size_t i = 0; i < t->c.n; i++) {
        rf_part p = t->c.part[i];
        if (key) {
            p.s = rf_json_get(rf_json_get(p.s, "properties"), key);
            const rf_json *ref = rf_json_get(p.s, "$ref");
            if (ref) p.s = resolve(j, &p, ref);
        }
        if (p.s && rf_json_kind(p.s) == RF_JSON_OBJECT && lists_values(&p)) {
            *out = p;
            return true;
        }
    }
    return false;
}

static bool values_apart(rf_schema_job *j, const traits *a, const traits *b, const char *key) {
    rf_part x, y;
    if (!find_values(j, a, key, &x) || !find_values(j, b, key, &y)) return false;
    rf_buf text = {0};
    const rf_json *v;
    bool apart = true;
    for (size_t i = 0; apart && (v = value_at(&x, i)); i++) {
        rf_buf_clear(&text);
        rf_schema_write(&text, v);
        const rf_json *w; /* 1 and 1.0 are spelt apart and yet equal */
        for (size_t k = 0; apart && (w = value_at(&y, k)); k++)
            if ((type_of_value(v) & type_of_value(w) & RF_T_INTEGER) &&
                rf_json_real(v) == rf_json_real(w))
                apart = false;
        apart = apart && !text.failed && !has_value(&y, &text);
        /* inside arrays and objects numbers could hide */
        if (type_of_value(v) & (RF_T_ARRAY | RF_T_OBJECT)) apart = false;
    }
    rf_buf_free(&text);
    return apart;
}

static bool requires(const traits *t, rf_str key) {
    for (size_t i = 0; i < t->c.n; i++) {
        const rf_json *list = rf_json_get(t->c.part[i].s, "required");
        for (size_t k = 0; k < rf_json_len(list); k++)
            if (rf_str_eq(rf_json_str(rf_json_at(list, k)), key)) return true;
    }
    return false;
}

/* No value matches both: other types, other constants, or another constant in a property that both
 * require. */
static bool are_apart(rf_schema_job *j, const traits *a, const traits *b) {
    if ((a->types & b->types) == 0) return true;
    if (values_apart(j, a, b, NULL)) return true;
    if ((a->types & b->types) != RF_T_OBJECT) return false;
    for (size_t i = 0; i < a->c.n; i++) {
        const rf_json *properties = rf_json_get(a->c.part[i].s, "properties");
        if (rf_json_kind(properties) != RF_JSON_OBJECT) continue;
        for (void *it = rf_json_iter(properties); it; it = rf_json_iter_next(properties, it)) {
            const char *key = rf_json_iter_key(it);
            if (requires(a, rf_str_of(key)) && requires(b, rf_str_of(key)) &&
                values_apart(j, a, b, key))
                return true;
        }
    }
    return false;
}

static bool check_one_of(rf_schema_job *j, const rf_part *p, const rf_json *list) {
    traits *t = rf_alloc(2, sizeof *t);
    if (!t) {
        rf_fail_nomem(j->e, 2 * sizeof *t);
        return false;
    }
    bool ok = true;
    rf_str path = rf_schema_path(j, p->path, "oneOf");
    for (size_t a = 0; ok && a < rf_json_len(list); a++) {
        ok = read_traits(j, rf_json_at(list, a), path, &t[0]);
        for (size_t b = a + 1; ok && b < rf_json_len(list); b++) {
            ok = read_traits(j, rf_json_at(list, b), path, &t[1]);
            if (!ok || are_apart(j, &t[0], &t[1])) continue;
            rf_schema_fail(j, p, "oneOf", RF_EUNSUPPORTED,
                           "a value could match two of these; use anyOf, or make them differ in "
                           "type or in a constant of a required property");
            ok = false;
        }
    }
    rf_free(t);
    return ok;
}

/* One of the alternatives in a keyword of part at. */
static const rf_expr *choice(rf_schema_job *j, const rf_conj *c, size_t at, const char *keyword,
                             uint32_t bit) {
    const rf_part *p = &c->part[at];
    const rf_json *list = rf_json_get(p->s, keyword);
    if (rf_json_kind(list) != RF_JSON_ARRAY || rf_json_len(list) == 0)
        return rf_schema_fail(j, p, keyword, RF_EFORMAT, "expected an array of schemas");
    if (rf_json_len(list) > 256)
        return rf_schema_fail(j, p, keyword, RF_EUNSUPPORTED, "more than 256 schemas");
    if (bit == 2 && !check_one_of(j, p, list)) return NULL;
    rf_conj *one = rf_alloc(1, sizeof *one);
    if (!one) rf_fail_nomem(j->e, sizeof *one);
    rf_parts parts = {.failed = !one};
    for (size_t i = 0; !parts.failed && i < rf_json_len(list); i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        *one = *c;
        one->part[at].taken |= bit;
        rf_str path = rf_schema_path(j, rf_schema_path(j, p->path, keyword), index);
        bool ok = add_part(j, one, rf_json_at(list, i), path, (uint32_t)at + 1);
        rf_parts_add(&parts, ok ? rf_schema_value(j, one) : NULL);
    }
    rf_free(one);
    return rf_parts_alt(j->b, &parts);
}

/* ---- a value ---- */

static const rf_expr *of_type(rf_schema_job *j, const rf_conj *c, uint32_t type) {
    switch (type) {
    case RF_T_NULL:
        return rf_x_text(j->b, "null");
    case RF_T_BOOL:
        return RF_X_ALT(j->b, rf_x_text(j->b, "true"), rf_x_text(j->b, "false"));
    case RF_T_INTEGER:
        return rf_schema_integer(j, c);
    case RF_T_STRING:
        return rf_schema_string(j, c);
    case RF_T_ARRAY:
        return rf_schema_array(j, c);
    default:
        return rf_schema_object(j, c);
    }
}

static const rf_expr *build(rf_schema_job *j, const rf_conj *c) {
    for (size_t i = 0; i < c->n; i++) {
        const rf_part *p = &c->part[i];
        if (rf_json_get(p->s, "anyOf") && !(p->taken & 1)) return choice(j, c, i, "anyOf", 1);
        if (rf_json_get(p->s, "oneOf") && !(p->taken & 2)) return choice(j, c, i, "oneOf", 2);
    }
    for (size_t i = 0; i < c->n; i++)
        if (lists_values(&c->part[i])) return constants(j, c, i);
    uint32_t allowed;
    if (!read_types(j, c, &allowed)) return NULL;
    rf_parts parts = {0};
    if (allowed & RF_T_FRACTION) {
        rf_parts_add(&parts, rf_schema_number(j, c));
        allowed &= ~(uint32_t)(RF_T_FRACTION | RF_T_INTEGER);
    }
    for (uint32_t type = 1; type < RF_T_ALL; type <<= 1)
        if (allowed & type) rf_parts_add(&parts, of_type(j, c, type));
    return rf_parts_alt(j->b, &parts);
}

/* The list of parts as a key; its memory belongs to the job. */
static rf_str key_of(rf_schema_job *j, const rf_conj *c) {
    struct entry {
        const rf_json *s;
        uint64_t taken;
    } *key = rf_arena_alloc(j->b->arena, c->n + 1, sizeof *key);
    if (!key) return (rf_str){0};
    for (size_t i = 0; i < c->n; i++)
        key[i] = (struct entry){c->part[i].s, c->part[i].taken};
    return (rf_str){(const char *)key, (c->n + 1) * sizeof *key};
}

const rf_expr *rf_schema_value(rf_schema_job *j, const rf_conj *given) {
    rf_conj c = *given;
    if (!flatten(j, &c)) return NULL;
    if (c.never) return rf_x_never(j->b);
    rf_str key = key_of(j, &c);
    uint32_t rule = key.p ? rf_map_get(j->known, key) : RF_MAP_NONE;
    if (rule != RF_MAP_NONE) return rf_x_call(j->b, rule);
    if (j->depth >= RF_GRAMMAR_MAX_DEPTH)
        return rf_schema_fail(j, &c.part[0], NULL, RF_EUNSUPPORTED,
                              "schemas are nested deeper than 200 levels");
    rf_buf name = {0};
    rf_buf_printf(&name, "value at #%.*s", c.n ? (int)c.part[0].path.len : 0,
                  c.n ? c.part[0].path.p : "");
    rule = name.failed ? UINT32_MAX : rf_rule_add(j->b, rf_buf_str(&name));
    rf_buf_free(&name);
    if (rule == UINT32_MAX || !key.p || rf_map_put(j->known, key, rule, NULL) != RF_OK) {
        rf_fail_nomem(j->e, key.len);
        return NULL;
    }
    j->depth++;
    const rf_expr *x = build(j, &c);
    j->depth--;
    if (!x) return NULL;
    j->b->rule[rule].x = x;
    return rf_x_call(j->b, rule);
}

rf_status rf_schema_parse(rf_rules *b, rf_str text, uint32_t *root) {
    rf_json *json;
    RF_TRY(rf_json_parse(&json, text, b->e));
    rf_schema_job j = {.b = b,
                       .root = json,
                       .e = b->e,
                       .string_rule = UINT32_MAX,
                       .char_rule = UINT32_MAX,
                       .integer_rule = UINT32_MAX,
                       .number_rule = UINT32_MAX,
                       .space_rule = UINT32_MAX};
    const rf_expr *x = NULL;
    rf_conj c = {0};
    if (rf_map_create(&j.known, 64) != RF_OK)
        rf_fail_nomem(j.e, 64);
    else if (rf_conj_add(&j, &c, json, RF_STR("")))
        x = rf_schema_value(&j, &c);
    *root = rf_rule_add(b, RF_STR("value at #"));
    if (x && *root != UINT32_MAX) b->rule[*root].x = x;
    rf_map_free(j.known);
    rf_json_free(json);
    if (x && *root != UINT32_MAX) return RF_OK;
    return b->e->status != RF_OK ? b->e->status : RF_ENOMEM;
}

rf_status rf_choice_parse(rf_rules *b, rf_str text, uint32_t *root) {
    rf_json *json;
    RF_TRY(rf_json_parse(&json, text, b->e));
    rf_parts parts = {0};
    bool fits = rf_json_kind(json) == RF_JSON_ARRAY && rf_json_len(json) > 0;
    for (size_t i = 0; fits && i < rf_json_len(json); i++) {
        fits = rf_json_kind(rf_json_at(json, i)) == RF_JSON_STRING;
        rf_parts_add(&parts, rf_x_bytes(b, rf_json_str(rf_json_at(json, i))));
    }
    const rf_expr *x = rf_parts_alt(b, &parts);
    rf_json_free(json);
    if (!fits) return rf_fail(b->e, RF_EFORMAT, "choice: expected a JSON array of strings");
    *root = rf_rule_add(b, RF_STR("choice"));
    if (!x || *root == UINT32_MAX) return b->e->status != RF_OK ? b->e->status : RF_ENOMEM;
    b->rule[*root].x = x;
    return RF_OK;
}
