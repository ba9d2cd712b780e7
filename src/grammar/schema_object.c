/* schema_object.c - objects and arrays, and the white space between their parts.
 *
 * Declared properties come in the order they are declared in, then required ones without a
 * declaration, then the others.  Keys are spelt in one way, as constants are. */
#include <stdio.h>
#include <string.h>

#include "grammar/nfa.h"
#include "grammar/schema.h"

enum { MAX_INDENT = 20, MAX_NAMES = 4096 };

const rf_expr *rf_schema_space(rf_schema_job *j) {
    if (j->space_rule == UINT32_MAX) {
        j->space_rule = rf_rule_add(j->b, RF_STR("white space"));
        if (j->space_rule == UINT32_MAX) return NULL;
        const rf_expr *indent = rf_x_repeat(j->b, rf_x_text(j->b, " "), 0, MAX_INDENT);
        const rf_expr *line = RF_X_SEQ(j->b, rf_x_text(j->b, "\n"), indent);
        j->b->rule[j->space_rule].x =
            rf_x_repeat(j->b, RF_X_ALT(j->b, rf_x_text(j->b, " "), line), 0, 1);
    }
    return rf_x_call(j->b, j->space_rule);
}

/* The keyword of a part, which must have the kind; false on failure, *v NULL when absent. */
static bool get(rf_schema_job *j, const rf_part *p, const char *keyword, rf_json_type kind,
                const char *what, const rf_json **v) {
    *v = rf_json_get(p->s, keyword);
    if (!*v || rf_json_kind(*v) == kind) return true;
    rf_schema_fail(j, p, keyword, RF_EFORMAT, what);
    return false;
}

/* ---- arrays ---- */

typedef struct array {
    rf_schema_job *j;
    const rf_expr *prefix[RF_SCHEMA_MAX_PREFIX], *rest;
    size_t n_prefix;
    uint32_t min, max;
} array;

/* What all parts say of element i; i past all prefixes for the rest. */
static const rf_expr *element(rf_schema_job *j, const rf_conj *c, size_t i) {
    rf_conj v = {0};
    for (size_t k = 0; k < c->n; k++) {
        const rf_part *p = &c->part[k];
        const rf_json *prefix = rf_json_get(p->s, "prefixItems"), *s = rf_json_at(prefix, i);
        rf_str path = rf_schema_path(j, p->path, s ? "prefixItems" : "items");
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        if (s) path = rf_schema_path(j, path, index);
        if (!s) s = rf_json_get(p->s, "items");
        if (s && !rf_conj_add(j, &v, s, path)) return NULL;
    }
    return rf_schema_value(j, &v);
}

static const rf_expr *elements_from(array *a, size_t i) {
    rf_rules *b = a->j->b;
    if (i >= a->max) return rf_x_text(b, "");
    const rf_expr *comma = i ? rf_x_text(b, ",") : rf_x_text(b, ""), *x;
    bool is_rest = i >= a->n_prefix;
    x = RF_X_SEQ(b, comma, rf_schema_space(a->j), is_rest ? a->rest : a->prefix[i]);
    if (is_rest && i > 0)
        return rf_x_repeat(b, x, a->min > i ? a->min - (uint32_t)i : 0,
                           a->max == RF_X_MANY ? RF_X_MANY : a->max - (uint32_t)i);
    x = RF_X_SEQ(b, x, elements_from(a, i + 1));
    return i >= a->min ? rf_x_repeat(b, x, 0, 1) : x;
}

const rf_expr *rf_schema_array(rf_schema_job *j, const rf_conj *c) {
    array a = {.j = j, .max = RF_X_MANY};
    if (!rf_schema_count(j, c, "minItems", true, &a.min) ||
        !rf_schema_count(j, c, "maxItems", false, &a.max))
        return NULL;
    for (size_t i = 0; i < c->n; i++) {
        const rf_json *prefix;
        if (!get(j, &c->part[i], "prefixItems", RF_JSON_ARRAY, "expected an array", &prefix))
            return NULL;
        if (rf_json_len(prefix) > RF_SCHEMA_MAX_PREFIX)
            return rf_schema_fail(j, &c->part[i], "prefixItems", RF_EUNSUPPORTED,
                                  "more than 100 schemas");
        if (rf_json_len(prefix) > a.n_prefix) a.n_prefix = rf_json_len(prefix);
    }
    if (a.max < a.min) return rf_x_never(j->b);
    for (size_t i = 0; i < a.n_prefix; i++)
        if (!(a.prefix[i] = element(j, c, i))) return NULL;
    if (!(a.rest = element(j, c, a.n_prefix))) return NULL;
    return RF_X_SEQ(j->b, rf_x_text(j->b, "["), elements_from(&a, 0), rf_schema_space(j),
                    rf_x_text(j->b, "]"));
}

/* ---- objects ---- */

typedef struct name {
    rf_str text;
    bool required;
} name;

typedef struct pattern {
    size_t part;
    const char *regex;
    const rf_json *s;
    rf_str path;
    const rf_expr *key; /* the names that match */
    rf_dfa dfa;         /* the same */
    uint32_t start;
} pattern;

typedef struct object {
    rf_schema_job *j;
    const rf_conj *c;
    name *names;
    size_t n_names;
    rf_map *index; /* name -> its number */
    pattern patterns[RF_SCHEMA_MAX_PATTERNS];
    size_t n_patterns;
} object;

static bool add_name(object *o, rf_str text, bool required) {
    uint32_t known = rf_map_get(o->index, text);
    if (known != RF_MAP_NONE) {
        o->names[known].required = o->names[known].required || required;
        return true;
    }
    if (rf_map_put(o->index, text, (uint32_t)o->n_names, NULL) != RF_OK) {
        rf_fail_nomem(o->j->e, text.len);
        return false;
    }
    o->names[o->n_names++] = (name){text, required};
    return true;
}

static bool read_names(object *o) {
    for (size_t i = 0; i < o->c->n; i++) {
        const rf_json *properties;
        if (!get(o->j, &o->c->part[i], "properties", RF_JSON_OBJECT, "expected an object",
                 &properties))
            return false;
        for (void *it = properties ? rf_json_iter(properties) : NULL; it;
             it = rf_json_iter_next(properties, it))
            if (!add_name(o, rf_str_of(rf_json_iter_key(it)), false)) return false;
    }
    for (size_t i = 0; i < o->c->n; i++) {
        const rf_json *required;
        if (!get(o->j, &o->c->part[i], "required", RF_JSON_ARRAY, "expected an array of strings",
                 &required))
            return false;
        for (size_t k = 0; k < rf_json_len(required); k++) {
            const rf_json *v = rf_json_at(required, k);
            rf_str text = rf_json_str(v);
            if (rf_json_kind(v) != RF_JSON_STRING || strlen(text.p) != text.len) {
                rf_schema_fail(o->j, &o->c->part[i], "required", RF_EFORMAT,
                               "expected an array of strings without U+0000");
                return false;
            }
            if (!add_name(o, text, true)) return false;
        }
    }
    return true;
}

static bool read_patterns(object *o) {
    for (size_t i = 0; i < o->c->n; i++) {
        const rf_part *p = &o->c->part[i];
        const rf_json *all;
        if (!get(o->j, p, "patternProperties", RF_JSON_OBJECT, "expected an object", &all))
            return false;
        for (void *it = all ? rf_json_iter(all) : NULL; it; it = rf_json_iter_next(all, it)) {
            if (o->n_patterns == RF_SCHEMA_MAX_PATTERNS) {
                rf_schema_fail(o->j, p, "patternProperties", RF_EUNSUPPORTED,
                               "more than 3 patterns for one object");
                return false;
            }
            const char *regex = rf_json_iter_key(it);
            rf_str path = rf_schema_path(o->j, p->path, "patternProperties");
            pattern *out = &o->patterns[o->n_patterns++];
            *out = (pattern){.part = i, .regex = regex, .s = rf_json_iter_value(it)};
            out->path = rf_schema_path(o->j, path, regex);
            out->key = rf_regex_parse(o->j->b, rf_str_of(regex), true, true,
                                      "JSON Schema: a name in patternProperties");
            if (!out->key) return false;
            rf_nfa_job job = {.rules = o->j->b};
            if (rf_dfa_of_expr(&job, out->key, true, rf_str_of(regex), &out->dfa, &out->start) !=
                RF_OK)
                return false;
        }
    }
    return true;
}

/* What all parts say of a property: name NULL for one that is not declared; bit k of matched: its
 * name matches pattern k. */
static const rf_expr *property_value(object *o, const char *key, uint32_t matched) {
    rf_conj v = {0};
    for (size_t i = 0; i < o->c->n; i++) {
        const rf_part *p = &o->c->part[i];
        const rf_json *s = key ? rf_json_get(rf_json_get(p->s, "properties"), key) : NULL;
        bool covered = s != NULL;
        if (s &&
            !rf_conj_add(o->j, &v, s,
                         rf_schema_path(o->j, rf_schema_path(o->j, p->path, "properties"), key)))
            return NULL;
        for (size_t k = 0; k < o->n_patterns; k++) {
            if (o->patterns[k].part != i || !(matched >> k & 1)) continue;
            covered = true;
            if (!rf_conj_add(o->j, &v, o->patterns[k].s, o->patterns[k].path)) return NULL;
        }
        s = rf_json_get(p->s, "additionalProperties");
        if (s && !covered &&
            !rf_conj_add(o->j, &v, s, rf_schema_path(o->j, p->path, "additionalProperties")))
            return NULL;
    }
    return rf_schema_value(o->j, &v);
}

/* keys, restricted to those that match exactly the patterns of matched; in quotes. */
static const rf_expr *key_of(object *o, const rf_expr *keys, uint32_t matched) {
    rf_rules *b = o->j->b;
    for (size_t k = 0; k < o->n_patterns; k++)
        keys = matched >> k & 1 ? rf_x_and(b, keys, o->patterns[k].key)
                                : rf_x_diff(b, keys, o->patterns[k].key);
    return RF_X_SEQ(b, rf_x_text(b, "\""), keys, rf_x_text(b, "\":"),
                    rf_x_repeat(b, rf_x_text(b, " "), 0, 1));
}

static bool matches(const pattern *p, rf_str key) {
    uint32_t at = p->start;
    for (size_t i = 0; i < key.len; i++) {
        const rf_dfa_state *s = &p->dfa.state[at];
        const rf_dfa_edge *edge = p->dfa.edge + s->first_edge, *end = edge + s->n_edges;
        while (edge < end && edge->hi < (uint8_t)key.p[i])
            edge++;
        if (edge == end || edge->lo > (uint8_t)key.p[i]) return false;
        at = edge->to;
    }
    return p->dfa.state[at].accepts;
}

/* White space, key and value.  A declared name (keys: its bytes) matches some of the patterns; for
 * other names there is one alternative for each way to match them. */
static const rf_expr *property(object *o, const char *key, const rf_expr *keys) {
    rf_parts parts = {0};
    uint32_t known = 0;
    for (size_t k = 0; key && k < o->n_patterns; k++)
        known |= (uint32_t)matches(&o->patterns[k], keys->bytes) << k;
    for (uint32_t matched = 0; matched < 1u << o->n_patterns; matched++) {
        if (key && matched != known) continue;
        const rf_expr *value = property_value(o, key, matched);
        rf_parts_add(&parts, value ? RF_X_SEQ(o->j->b, key_of(o, keys, matched), value) : NULL);
    }
    return RF_X_SEQ(o->j->b, rf_schema_space(o->j), rf_parts_alt(o->j->b, &parts));
}

static const rf_expr *literal_key(object *o, rf_str text) {
    rf_buf b = {0};
    rf_schema_write_str(&b, text);
    const rf_expr *x = NULL;
    if (b.failed)
        rf_fail_nomem(o->j->e, text.len);
    else
        x = rf_x_bytes(o->j->b, rf_buf_str(&b));
    rf_buf_free(&b);
    return x;
}

/* Any number of properties that are not declared. */
static const rf_expr *others(object *o, rf_parts *literals) {
    static const rf_range all = {0, 0x10FFFF};
    rf_rules *b = o->j->b;
    const rf_expr *keys = rf_x_repeat(b, rf_x_set(b, &all, 1, false, true), 0, RF_X_MANY);
    bool any_key = literals->n == 0;
    const rf_expr *declared = rf_parts_alt(b, literals);
    if (!declared) return NULL;
    if (!any_key) keys = rf_x_diff(b, keys, declared);
    const rf_expr *one = property(o, NULL, keys);
    return RF_X_SEQ(b, one, rf_x_repeat(b, RF_X_SEQ(b, rf_x_text(b, ","), one), 0, RF_X_MANY));
}

static const rf_expr *build(object *o) {
    rf_parts literals = {0}, kids = {0};
    bool *can_skip = rf_alloc(o->n_names + 1, sizeof *can_skip);
    for (size_t i = 0; i < o->n_names; i++) {
        const rf_expr *key = literal_key(o, o->names[i].text);
        if (can_skip) can_skip[i] = !o->names[i].required;
        rf_parts_add(&literals, key);
        rf_parts_add(&kids, key ? property(o, o->names[i].text.p, key) : NULL);
    }
    if (can_skip) can_skip[o->n_names] = true;
    rf_parts_add(&kids, others(o, &literals));
    const rf_expr *x = NULL;
    if (!can_skip || kids.failed)
        rf_fail_nomem(o->j->e, o->n_names);
    else
        x = rf_x_list(o->j->b, kids.p, can_skip, kids.n, ",");
    rf_free(can_skip);
    rf_free(kids.p);
    return RF_X_SEQ(o->j->b, rf_x_text(o->j->b, "{"), x, rf_schema_space(o->j),
                    rf_x_text(o->j->b, "}"));
}

const rf_expr *rf_schema_object(rf_schema_job *j, const rf_conj *c) {
    object o = {.j = j, .c = c};
    const rf_expr *x = NULL;
    size_t most = 0; /* names there may be */
    for (size_t i = 0; i < c->n; i++)
        most += rf_json_len(rf_json_get(c->part[i].s, "properties")) +
                rf_json_len(rf_json_get(c->part[i].s, "required"));
    if (most > MAX_NAMES)
        return rf_schema_fail(j, &c->part[0], NULL, RF_EUNSUPPORTED, "more than 4096 properties");
    o.names = rf_alloc(most, sizeof *o.names);
    if (!o.names || rf_map_create(&o.index, 64) != RF_OK)
        rf_fail_nomem(j->e, most * sizeof *o.names);
    else if (read_names(&o) && read_patterns(&o))
        x = build(&o);
    for (size_t k = 0; k < o.n_patterns; k++)
        rf_dfa_free(&o.patterns[k].dfa);
    rf_map_free(o.index);
    rf_free(o.names);
    return x;
}
