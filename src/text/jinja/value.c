/* value.c - making, comparing, counting and walking values, by Python's rules. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/internal.h"

rf_jv rf_jv_none(void) { return (rf_jv){.kind = JV_NONE}; }
rf_jv rf_jv_bool(bool b) { return (rf_jv){.kind = JV_BOOL, .b = b}; }
rf_jv rf_jv_int(rf_i128 i) { return (rf_jv){.kind = JV_INT, .i = i}; }
rf_jv rf_jv_float(double f) { return (rf_jv){.kind = JV_FLOAT, .f = f}; }
rf_jv rf_jv_str(rf_jstr s) { return (rf_jv){.kind = JV_STR, .s = s}; }
rf_jv rf_jv_text(const char *c_string) {
    return rf_jv_str((rf_jstr){c_string, NULL, strlen(c_string)});
}

rf_jv rf_jv_undef(rf_jx *c, const char *fmt, ...) {
    char what[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    size_t n = strlen(what);
    char *p = rf_jx_alloc(c, n + 1, 1);
    memcpy(p, what, n + 1);
    return (rf_jv){.kind = JV_UNDEF, .s = {p, NULL, n}};
}

rf_jv rf_jv_seq(rf_jx *c, rf_jflavor flavor, size_t n) {
    rf_jseq *seq = rf_jx_alloc(c, 1, sizeof *seq);
    *seq = (rf_jseq){.items = rf_jx_alloc(c, n, sizeof(rf_jv)), .n = n, .flavor = flavor};
    rf_jx_step(c, n);
    return (rf_jv){.kind = JV_SEQ, .seq = seq};
}

rf_jv rf_jv_dict(rf_jx *c, rf_jkind kind, size_t cap) {
    rf_jdict *d = rf_jx_alloc(c, 1, sizeof *d);
    *d = (rf_jdict){.pairs = rf_jx_alloc(c, cap, sizeof(rf_jpair)), .cap = cap};
    return (rf_jv){.kind = kind, .dict = d};
}

rf_jstr rf_jstr_cut(rf_jstr s, size_t from, size_t to) {
    return (rf_jstr){s.p + from, s.input ? s.input + from : NULL, to - from};
}

rf_str rf_jstr_raw(rf_jstr s) { return (rf_str){s.p, s.len}; }

int rf_jstr_next(rf_jstr s, size_t at, uint32_t *cp) {
    int n = rf_utf8_decode(s.p + at, s.len - at, cp);
    return n ? n : 1;
}

size_t rf_jstr_chars(rf_jstr s) {
    size_t n = 0;
    uint32_t cp;
    for (size_t at = 0; at < s.len; n++) {
        at += (size_t)rf_jstr_next(s, at, &cp);
    }
    return n;
}

const char *rf_jv_type(const rf_jv *v) {
    switch (v->kind) {
    case JV_UNDEF:
        return "Undefined";
    case JV_NONE:
        return "NoneType";
    case JV_BOOL:
        return "bool";
    case JV_INT:
        return "int";
    case JV_FLOAT:
        return "float";
    case JV_STR:
        return "str";
    case JV_BYTES:
        return "bytes";
    case JV_SEQ: {
        static const char *const names[] = {"list",        "tuple",      "generator", "dict_keys",
                                            "dict_values", "dict_items", "range"};
        return names[v->seq->flavor];
    }
    case JV_DICT:
        return "dict";
    case JV_NS:
        return "Namespace";
    case JV_LOOP:
        return "LoopContext";
    case JV_FUNC:
        return "function";
    case JV_METHOD:
        return "builtin_function_or_method";
    case JV_MACRO:
        return "Macro";
    case JV_OBJECT:
        break;
    }
    return v->object->is_joiner ? "Joiner" : "Cycler";
}

bool rf_jv_is_number(const rf_jv *v) {
    return v->kind == JV_BOOL || v->kind == JV_INT || v->kind == JV_FLOAT;
}

double rf_jv_double(rf_jx *c, const rf_jv *v) {
    if (v->kind == JV_FLOAT) return v->f;
    return (double)rf_jv_integer(c, v, "a number");
}

rf_i128 rf_jv_integer(rf_jx *c, const rf_jv *v, const char *what) {
    if (v->kind == JV_INT) return v->i;
    if (v->kind == JV_BOOL) return v->b;
    rf_jx_fail(c, "%s: expected an integer, got %s", what, rf_jv_type(v));
}

size_t rf_jv_count(rf_jx *c, const rf_jv *v, const char *what, size_t max) {
    rf_i128 i = rf_jv_integer(c, v, what);
    if (i < 0) return 0;
    return i > (rf_i128)max ? max : (size_t)i;
}

static size_t left(const rf_jseq *s) { return s->n - s->pos; }

bool rf_jv_true(const rf_jv *v) {
    switch (v->kind) {
    case JV_UNDEF:
    case JV_NONE:
        return false;
    case JV_BOOL:
        return v->b;
    case JV_INT:
        return v->i != 0;
    case JV_FLOAT:
        return v->f < 0 || v->f > 0 || isnan(v->f);
    case JV_STR:
    case JV_BYTES:
        return v->s.len > 0;
    case JV_SEQ:
        return v->seq->flavor == JF_GEN || left(v->seq) > 0;
    case JV_DICT:
        return v->dict->n > 0;
    case JV_NS:
    case JV_LOOP:
    case JV_FUNC:
    case JV_METHOD:
    case JV_MACRO:
    case JV_OBJECT:
        break;
    }
    return true;
}

static bool number_eq(const rf_jv *a, const rf_jv *b) {
    if (a->kind == JV_FLOAT || b->kind == JV_FLOAT) {
        double x = a->kind == JV_FLOAT ? a->f : a->kind == JV_INT ? (double)a->i : (double)a->b;
        double y = b->kind == JV_FLOAT ? b->f : b->kind == JV_INT ? (double)b->i : (double)b->b;
        return !(x < y) && !(x > y) && !isnan(x) && !isnan(y);
    }
    rf_i128 x = a->kind == JV_INT ? a->i : (rf_i128)a->b;
    rf_i128 y = b->kind == JV_INT ? b->i : (rf_i128)b->b;
    return x == y;
}

static bool seq_eq(rf_jx *c, const rf_jseq *a, const rf_jseq *b) {
    if (a->flavor != b->flavor || a->n != b->n) return a == b;
    if (a->flavor == JF_GEN || a->flavor == JF_VALUES) return a == b;
    for (size_t i = 0; i < a->n; i++) {
        if (!rf_jv_eq(c, &a->items[i], &b->items[i])) return false;
    }
    return true;
}

static bool dict_eq(rf_jx *c, const rf_jdict *a, const rf_jdict *b) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const rf_jv *other = rf_jdict_find(c, b, &a->pairs[i].key);
        if (!other || !rf_jv_eq(c, &a->pairs[i].value, other)) return false;
    }
    return true;
}

static bool same_kind_eq(rf_jx *c, const rf_jv *a, const rf_jv *b) {
    switch (a->kind) {
    case JV_STR:
    case JV_BYTES:
        rf_jx_step(c, a->s.len / 64);
        return rf_str_eq(rf_jstr_raw(a->s), rf_jstr_raw(b->s));
    case JV_SEQ:
        return seq_eq(c, a->seq, b->seq);
    case JV_DICT:
        return dict_eq(c, a->dict, b->dict);
    case JV_UNDEF:
    case JV_NONE:
        return true;
    case JV_NS:
        return a->dict == b->dict;
    case JV_LOOP:
        return a->loop == b->loop;
    case JV_FUNC:
        return a->func == b->func;
    case JV_METHOD:
        return a->method == b->method;
    case JV_MACRO:
        return a->macro == b->macro;
    case JV_OBJECT:
        return a->object == b->object;
    case JV_BOOL:
    case JV_INT:
    case JV_FLOAT:
        break;
    }
    return number_eq(a, b);
}

bool rf_jv_eq(rf_jx *c, const rf_jv *a, const rf_jv *b) {
    rf_jx_step(c, 1);
    if (rf_jv_is_number(a) && rf_jv_is_number(b)) return number_eq(a, b);
    if (a->kind != b->kind) return false;
    rf_jx_enter(c);
    bool yes = same_kind_eq(c, a, b);
    rf_jx_leave(c);
    return yes;
}

static int str_cmp(rf_jstr a, rf_jstr b) { /* the order of UTF-8 is that of code points */
    size_t n = a.len < b.len ? a.len : b.len;
    int d = n ? memcmp(a.p, b.p, n) : 0;
    if (d) return d < 0 ? -1 : 1;
    return a.len < b.len ? -1 : a.len > b.len;
}

int rf_jv_cmp(rf_jx *c, const rf_jv *a, const rf_jv *b, const char *op) {
    rf_jx_step(c, 1);
    if (rf_jv_is_number(a) && rf_jv_is_number(b)) {
        if (a->kind != JV_FLOAT && b->kind != JV_FLOAT) {
            rf_i128 x = rf_jv_integer(c, a, op), y = rf_jv_integer(c, b, op);
            return x < y ? -1 : x > y;
        }
        double x = rf_jv_double(c, a), y = rf_jv_double(c, b);
        return x < y ? -1 : x > y ? 1 : isnan(x) || isnan(y) ? 2 : 0;
    }
    if (a->kind == JV_STR && b->kind == JV_STR) {
        rf_jx_step(c, a->s.len / 64);
        return str_cmp(a->s, b->s);
    }
    if (a->kind == JV_SEQ && b->kind == JV_SEQ && a->seq->flavor == b->seq->flavor &&
        a->seq->flavor <= JF_TUPLE) {
        rf_jx_enter(c);
        size_t n = a->seq->n < b->seq->n ? a->seq->n : b->seq->n;
        int d = a->seq->n < b->seq->n ? -1 : a->seq->n > b->seq->n;
        for (size_t i = 0; i < n; i++) {
            if (rf_jv_eq(c, &a->seq->items[i], &b->seq->items[i])) continue;
            d = rf_jv_cmp(c, &a->seq->items[i], &b->seq->items[i], op);
            break;
        }
        rf_jx_leave(c);
        return d;
    }
    const rf_jv *undef = a->kind == JV_UNDEF ? a : b;
    if (undef->kind == JV_UNDEF) rf_jx_fail(c, "%s", undef->s.p);
    rf_jx_fail(c, "%s does not compare %s and %s", op, rf_jv_type(a), rf_jv_type(b));
}

rf_jv *rf_jdict_find(rf_jx *c, const rf_jdict *d, const rf_jv *key) {
    rf_jx_step(c, d->n / 8);
    for (size_t i = 0; i < d->n; i++) {
        const rf_jv *k = &d->pairs[i].key;
        if (k->kind == JV_STR && key->kind == JV_STR) {
            if (rf_str_eq(rf_jstr_raw(k->s), rf_jstr_raw(key->s))) return &d->pairs[i].value;
        } else if (rf_jv_eq(c, k, key)) {
            return &d->pairs[i].value;
        }
    }
    return NULL;
}

rf_jv *rf_jdict_get(const rf_jdict *d, const char *key) {
    for (size_t i = 0; i < d->n; i++) {
        if (d->pairs[i].key.kind == JV_STR && rf_str_is(rf_jstr_raw(d->pairs[i].key.s), key)) {
            return &d->pairs[i].value;
        }
    }
    return NULL;
}

void rf_jdict_put(rf_jx *c, rf_jdict *d, rf_jv key, rf_jv value) {
    bool is_mutable = (key.kind == JV_SEQ && key.seq->flavor == JF_LIST) || key.kind == JV_DICT;
    if (is_mutable) rf_jx_fail(c, "a %s cannot be the key of a dict", rf_jv_type(&key));
    rf_jv *old = rf_jdict_find(c, d, &key);
    if (old) {
        *old = value;
        return;
    }
    if (d->n == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 4;
        rf_jpair *grown = rf_jx_alloc(c, cap, sizeof *grown);
        if (d->n) memcpy(grown, d->pairs, d->n * sizeof *grown);
        d->pairs = grown;
        d->cap = cap;
    }
    d->pairs[d->n++] = (rf_jpair){key, value};
}

bool rf_jv_contains(rf_jx *c, const rf_jv *box, const rf_jv *v) {
    if (box->kind == JV_STR) {
        if (v->kind != JV_STR) {
            rf_jx_fail(c, "in <string>: expected a string on the left, got %s", rf_jv_type(v));
        }
        return rf_jstr_find(c, box->s, v->s, 0) != RF_JSTR_NONE;
    }
    if (box->kind == JV_DICT) return rf_jdict_find(c, box->dict, v) != NULL;
    if (box->kind != JV_SEQ && box->kind != JV_UNDEF) {
        rf_jx_fail(c, "in: expected something to look into, got %s", rf_jv_type(box));
    }
    rf_jseq items = rf_jv_iter(c, box);
    for (size_t i = 0; i < items.n; i++) {
        if (rf_jv_eq(c, &items.items[i], v)) return true;
    }
    return false;
}

static rf_jseq characters(rf_jx *c, rf_jstr s) {
    rf_jseq seq = {.n = rf_jstr_chars(s)};
    seq.items = rf_jx_alloc(c, seq.n, sizeof(rf_jv));
    for (size_t i = 0, at = 0; i < seq.n; i++) {
        uint32_t cp;
        size_t n = (size_t)rf_jstr_next(s, at, &cp);
        seq.items[i] = rf_jv_str(rf_jstr_cut(s, at, at + n));
        at += n;
    }
    return seq;
}

rf_jseq rf_jv_iter(rf_jx *c, const rf_jv *v) {
    rf_jseq seq = {0};
    if (v->kind == JV_STR) {
        seq = characters(c, v->s);
    } else if (v->kind == JV_SEQ) {
        seq = *v->seq;
        seq.items += seq.pos;
        seq.n -= seq.pos;
        if (v->seq->flavor == JF_GEN) v->seq->pos = v->seq->n;
    } else if (v->kind == JV_DICT) {
        seq.n = v->dict->n;
        seq.items = rf_jx_alloc(c, seq.n, sizeof(rf_jv));
        for (size_t i = 0; i < seq.n; i++) {
            seq.items[i] = v->dict->pairs[i].key;
        }
    } else if (v->kind != JV_UNDEF) {
        rf_jx_fail(c, "expected something to iterate over, got %s", rf_jv_type(v));
    }
    seq.pos = 0;
    rf_jx_step(c, seq.n);
    return seq;
}

size_t rf_jv_len(rf_jx *c, const rf_jv *v) {
    if (v->kind == JV_UNDEF) return 0;
    if (v->kind == JV_STR) return rf_jstr_chars(v->s);
    if (v->kind == JV_BYTES) return v->s.len;
    if (v->kind == JV_DICT) return v->dict->n;
    if (v->kind == JV_SEQ && v->seq->flavor != JF_GEN) return v->seq->n;
    rf_jx_fail(c, "expected something with a length, got %s", rf_jv_type(v));
}

rf_jv rf_jv_import(rf_jx *c, rf_str s, bool input) {
    char *p = rf_jx_alloc(c, s.len, 1);
    if (s.len) memcpy(p, s.p, s.len);
    uint8_t *marks = NULL;
    if (input && s.len) {
        marks = rf_jx_alloc(c, s.len, 1);
        memset(marks, 1, s.len);
    }
    return rf_jv_str((rf_jstr){p, marks, s.len});
}

/* The names of the usual roles are words that templates build control tokens of. */
static bool is_usual_role(const rf_jv *key, const rf_json *value) {
    static const char *const roles[] = {"system", "user",     "assistant", "tool",
                                        "model",  "function", "developer", "ipython"};
    if (!rf_str_is(rf_jstr_raw(key->s), "role") || rf_json_kind(value) != RF_JSON_STRING)
        return false;
    for (size_t i = 0; i < RF_COUNT(roles); i++) {
        if (rf_str_is(rf_json_str(value), roles[i])) return true;
    }
    return false;
}

static rf_jv import_object(rf_jx *c, const rf_json *j, bool input) {
    rf_jv v = rf_jv_dict(c, JV_DICT, rf_json_len(j));
    for (void *it = rf_json_iter(j); it; it = rf_json_iter_next(j, it)) {
        RF_ASSERT(v.dict->n < v.dict->cap);
        rf_jpair *pair = &v.dict->pairs[v.dict->n++]; /* JSON has no key twice */
        pair->key = rf_jv_import(c, rf_str_of(rf_json_iter_key(it)), input);
        const rf_json *value = rf_json_iter_value(it);
        pair->value = rf_jv_from_json(c, value, input && !is_usual_role(&pair->key, value));
    }
    return v;
}

rf_jv rf_jv_from_json(rf_jx *c, const rf_json *j, bool input) {
    if (!j) return rf_jv_none();
    switch (rf_json_kind(j)) {
    case RF_JSON_NULL:
        break;
    case RF_JSON_BOOL:
        return rf_jv_bool(rf_json_bool(j));
    case RF_JSON_INT:
        return rf_jv_int(rf_json_int(j));
    case RF_JSON_REAL:
        return rf_jv_float(rf_json_real(j));
    case RF_JSON_STRING:
        return rf_jv_import(c, rf_json_str(j), input);
    case RF_JSON_ARRAY: {
        rf_jv v = rf_jv_seq(c, JF_LIST, rf_json_len(j));
        for (size_t i = 0; i < v.seq->n; i++) {
            v.seq->items[i] = rf_jv_from_json(c, rf_json_at(j, i), input);
        }
        return v;
    }
    case RF_JSON_OBJECT:
        return import_object(c, j, input);
    }
    return rf_jv_none();
}
