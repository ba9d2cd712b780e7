/* eval.c - expressions: names, operators, attributes, items and slices. */
#include <math.h>
#include <string.h>

#include "text/jinja/internal.h"

rf_jv rf_jx_lookup(rf_jx *c, rf_str name) {
    for (const rf_jscope *s = c->scope; s; s = s->up) {
        for (const rf_jvar *v = s->vars; v; v = v->next) {
            if (rf_str_eq(v->name, name)) return v->value;
        }
    }
    rf_jv v;
    if (rf_jx_function(name, &v)) return v;
    if (rf_str_is(name, "self")) return rf_jv_dict(c, JV_NS, 0);
    return rf_jv_undef(c, "'%.*s' is undefined", RF_STR_ARG(name));
}

void rf_jx_set(rf_jx *c, rf_str name, rf_jv value) {
    for (rf_jvar *v = c->scope->vars; v; v = v->next) {
        if (rf_str_eq(v->name, name)) {
            v->value = value;
            return;
        }
    }
    rf_jvar *v = rf_jx_alloc(c, 1, sizeof *v);
    *v = (rf_jvar){c->scope->vars, name, value};
    c->scope->vars = v;
}

rf_jscope *rf_jx_push(rf_jx *c, rf_jscope *up) {
    rf_jscope *s = rf_jx_alloc(c, 1, sizeof *s);
    s->up = up;
    return s;
}

static rf_jv loop_attr(rf_jx *c, const rf_jloop *l, rf_str name) {
    if (rf_str_is(name, "index")) return rf_jv_int((rf_i128)l->i + 1);
    if (rf_str_is(name, "index0")) return rf_jv_int((rf_i128)l->i);
    if (rf_str_is(name, "revindex")) return rf_jv_int((rf_i128)(l->n - l->i));
    if (rf_str_is(name, "revindex0")) return rf_jv_int((rf_i128)(l->n - l->i - 1));
    if (rf_str_is(name, "first")) return rf_jv_bool(l->i == 0);
    if (rf_str_is(name, "last")) return rf_jv_bool(l->i + 1 == l->n);
    if (rf_str_is(name, "length")) return rf_jv_int((rf_i128)l->n);
    if (rf_str_is(name, "depth")) return rf_jv_int(1);
    if (rf_str_is(name, "depth0")) return rf_jv_int(0);
    if (rf_str_is(name, "previtem")) {
        return l->i ? l->items[l->i - 1] : rf_jv_undef(c, "there is no previous item");
    }
    if (rf_str_is(name, "nextitem")) {
        return l->i + 1 < l->n ? l->items[l->i + 1] : rf_jv_undef(c, "there is no next item");
    }
    return rf_jv_undef(c, "'loop' has no attribute '%.*s'", RF_STR_ARG(name));
}

static rf_jv no_attr(rf_jx *c, const rf_jv *v, rf_str name) {
    return rf_jv_undef(c, "'%s' object has no attribute '%.*s'", rf_jv_type(v), RF_STR_ARG(name));
}

rf_jv rf_jx_attr(rf_jx *c, const rf_jv *v, rf_str name) {
    rf_jv out;
    if (v->kind == JV_UNDEF) rf_jx_fail(c, "%s", v->s.p);
    if (rf_str_starts(name, "__")) {
        return rf_jv_undef(c, "attribute '%.*s' of a %s is out of bounds", RF_STR_ARG(name),
                           rf_jv_type(v));
    }
    if (rf_jx_method(c, v, name, &out)) return out;
    if (v->kind == JV_LOOP) return loop_attr(c, v->loop, name);
    if (v->kind == JV_MACRO && rf_str_is(name, "name")) {
        return rf_jv_str((rf_jstr){v->macro->node->name.p, NULL, v->macro->node->name.len});
    }
    if (v->kind == JV_DICT || v->kind == JV_NS) {
        rf_jv key = rf_jv_str((rf_jstr){name.p, NULL, name.len});
        const rf_jv *found = rf_jdict_find(c, v->dict, &key);
        if (found) return *found;
    }
    return no_attr(c, v, name);
}

/* Where item i of n is, counted from the end when negative; n when there is none. */
static size_t place(rf_i128 i, size_t n) {
    if (i < 0) i += (rf_i128)n;
    return i < 0 || i >= (rf_i128)n ? n : (size_t)i;
}

static rf_jv char_at(rf_jx *c, rf_jstr s, rf_i128 i) {
    size_t n = rf_jstr_chars(s), want = place(i, n), at = 0;
    uint32_t cp;
    rf_jx_step(c, s.len / 16);
    if (want == n) return rf_jv_undef(c, "str object has no such element");
    for (size_t k = 0; k < want; k++) {
        at += (size_t)rf_jstr_next(s, at, &cp);
    }
    return rf_jv_str(rf_jstr_cut(s, at, at + (size_t)rf_jstr_next(s, at, &cp)));
}

rf_jv rf_jx_item(rf_jx *c, const rf_jv *v, const rf_jv *key) {
    if (v->kind == JV_UNDEF) rf_jx_fail(c, "%s", v->s.p);
    if (v->kind == JV_DICT) {
        const rf_jv *found = rf_jdict_find(c, v->dict, key);
        if (found) return *found;
    }
    if (key->kind == JV_INT || key->kind == JV_BOOL) {
        rf_i128 i = key->kind == JV_INT ? key->i : (rf_i128)key->b;
        if (v->kind == JV_STR) return char_at(c, v->s, i);
        bool has_order =
            v->kind == JV_SEQ && (v->seq->flavor <= JF_TUPLE || v->seq->flavor == JF_RANGE);
        if (has_order) {
            size_t at = place(i, v->seq->n);
            if (at < v->seq->n) return v->seq->items[at];
        }
        return rf_jv_undef(c, "%s object has no element %lld", rf_jv_type(v), (long long)i);
    }
    if (key->kind == JV_STR) return rf_jx_attr(c, v, rf_jstr_raw(key->s));
    return rf_jv_undef(c, "%s object has no such element", rf_jv_type(v));
}

/* One end of a slice: a bound, counted from the end when negative, held within [low, high]. */
static rf_i128 slice_end(rf_jx *c, const rf_jv *v, size_t n, rf_i128 low, rf_i128 high,
                         rf_i128 otherwise) {
    if (v->kind == JV_NONE) return otherwise;
    rf_i128 i = rf_jv_integer(c, v, "slice");
    if (i < 0) i = i < -(rf_i128)n ? -1 : i + (rf_i128)n;
    return i < low ? low : i > high ? high : i;
}

rf_jv rf_jx_slice(rf_jx *c, const rf_jv *v, const rf_jv bound[3]) {
    if (v->kind == JV_UNDEF) rf_jx_fail(c, "%s", v->s.p);
    bool is_str = v->kind == JV_STR;
    if (!is_str &&
        !(v->kind == JV_SEQ && (v->seq->flavor <= JF_TUPLE || v->seq->flavor == JF_RANGE))) {
        return rf_jv_undef(c, "%s object has no slices", rf_jv_type(v));
    }
    rf_i128 step = bound[2].kind == JV_NONE ? 1 : rf_jv_integer(c, &bound[2], "slice");
    if (step == 0) rf_jx_fail(c, "slice: expected a step other than 0");
    rf_jseq items = rf_jv_iter(c, v);
    rf_i128 n = (rf_i128)items.n, low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    rf_i128 from = slice_end(c, &bound[0], items.n, low, high, step < 0 ? high : low);
    rf_i128 to = slice_end(c, &bound[1], items.n, low, high, step < 0 ? low : high);
    if (step > n) step = n + 1;
    if (step < -n) step = -n - 1;
    size_t count = 0;
    for (rf_i128 i = from; step > 0 ? i < to : i > to; i += step) {
        count++;
    }
    rf_jv out = rf_jv_seq(c,
                          is_str                       ? JF_LIST
                          : v->seq->flavor == JF_TUPLE ? JF_TUPLE
                                                       : JF_LIST,
                          count);
    for (size_t k = 0; k < count; k++) {
        out.seq->items[k] = items.items[(size_t)(from + step * (rf_i128)k)];
    }
    if (is_str) return rf_jv_str(rf_jstr_join(c, (rf_jstr){"", NULL, 0}, out.seq));
    return out;
}

_Noreturn static void fail_binary(rf_jx *c, rf_str op, const rf_jv *a, const rf_jv *b) {
    const rf_jv *undef = a->kind == JV_UNDEF ? a : b;
    if (undef->kind == JV_UNDEF) rf_jx_fail(c, "%s", undef->s.p);
    rf_jx_fail(c, "operator %.*s: expected operands that go together, got %s and %s",
               RF_STR_ARG(op), rf_jv_type(a), rf_jv_type(b));
}

static rf_i128 power(rf_jx *c, rf_i128 base, rf_i128 exp) {
    rf_i128 v = 1;
    if (exp > 1000) exp = base == 0 || base == 1 || base == -1 ? 2 + (exp & 1) : 1000;
    for (; exp > 0; exp--) {
        if (__builtin_mul_overflow(v, base, &v))
            rf_jx_fail(c, "operator **: an integer beyond 127 bits");
    }
    return v;
}

/* Division and remainder as Python rounds them: down. */
static rf_i128 divide(rf_i128 a, rf_i128 b, bool remainder) {
    rf_i128 q = a / b, r = a % b;
    if (r != 0 && (r < 0) != (b < 0)) {
        q--;
        r += b;
    }
    return remainder ? r : q;
}

static rf_jv integer_op(rf_jx *c, rf_str op, rf_i128 a, rf_i128 b) {
    rf_i128 v = 0;
    bool over = false;
    if (rf_str_is(op, "+")) {
        over = __builtin_add_overflow(a, b, &v);
    } else if (rf_str_is(op, "-")) {
        over = __builtin_sub_overflow(a, b, &v);
    } else if (rf_str_is(op, "*")) {
        over = __builtin_mul_overflow(a, b, &v);
    } else if (rf_str_is(op, "**")) {
        if (b < 0) return rf_jv_float(pow((double)a, (double)b));
        v = power(c, a, b);
    } else {
        if (b == 0) rf_jx_fail(c, "operator %.*s: division by zero", RF_STR_ARG(op));
        if (rf_str_is(op, "/")) return rf_jv_float((double)a / (double)b);
        over = b == -1 && __builtin_sub_overflow((rf_i128)0, a, &v);
        if (b != -1) v = divide(a, b, rf_str_is(op, "%"));
        if (b == -1 && rf_str_is(op, "%")) v = 0;
    }
    if (over) rf_jx_fail(c, "operator %.*s: an integer beyond 127 bits", RF_STR_ARG(op));
    return rf_jv_int(v);
}

static rf_jv float_op(rf_jx *c, rf_str op, double a, double b) {
    if (rf_str_is(op, "+")) return rf_jv_float(a + b);
    if (rf_str_is(op, "-")) return rf_jv_float(a - b);
    if (rf_str_is(op, "*")) return rf_jv_float(a * b);
    if (rf_str_is(op, "**")) return rf_jv_float(pow(a, b));
    if (!(b < 0) && !(b > 0)) rf_jx_fail(c, "operator %.*s: division by zero", RF_STR_ARG(op));
    if (rf_str_is(op, "/")) return rf_jv_float(a / b);
    if (rf_str_is(op, "//")) return rf_jv_float(floor(a / b));
    double r = fmod(a, b);
    if ((r < 0 && b > 0) || (r > 0 && b < 0)) r += b;
    return rf_jv_float(r);
}

static rf_jv repeat(rf_jx *c, const rf_jv *v, const rf_jv *times) {
    size_t n = rf_jv_count(c, times, "operator *", RF_JINJA_MAX_OUTPUT);
    if (v->kind == JV_STR) {
        rf_jbuf b = {0};
        for (size_t i = 0; v->s.len && i < n; i++) {
            rf_jx_step(c, 1);
            rf_jbuf_put(c, &b, v->s);
        }
        return rf_jbuf_value(&b);
    }
    size_t total;
    if (!rf_mul_ok(n, v->seq->n, &total)) rf_jx_fail(c, "operator *: a list too long");
    rf_jv out = rf_jv_seq(c, v->seq->flavor, total);
    for (size_t i = 0; i < total; i++) {
        out.seq->items[i] = v->seq->items[i % v->seq->n];
    }
    return out;
}

static bool is_list(const rf_jv *v) { return v->kind == JV_SEQ && v->seq->flavor <= JF_TUPLE; }
static bool is_whole(const rf_jv *v) { return v->kind == JV_INT || v->kind == JV_BOOL; }

static rf_jv add_lists(rf_jx *c, const rf_jseq *a, const rf_jseq *b) {
    rf_jv out = rf_jv_seq(c, a->flavor, a->n + b->n);
    if (a->n) memcpy(out.seq->items, a->items, a->n * sizeof(rf_jv));
    if (b->n) memcpy(out.seq->items + a->n, b->items, b->n * sizeof(rf_jv));
    return out;
}

static rf_jv concat(rf_jx *c, rf_jstr a, rf_jstr b) {
    rf_jbuf out = {0};
    rf_jbuf_put(c, &out, a);
    rf_jbuf_put(c, &out, b);
    return rf_jbuf_value(&out);
}

/* What is safe stays so: a plain operand is escaped when it meets one, as Python's Markup does. */
static rf_jv add_strings(rf_jx *c, const rf_jv *a, const rf_jv *b) {
    if (!a->is_safe && !b->is_safe) return concat(c, a->s, b->s);
    rf_jv left = rf_jx_escape(c, a), right = rf_jx_escape(c, b);
    rf_jv out = concat(c, left.s, right.s);
    out.is_safe = true;
    return out;
}

rf_jv rf_jx_binary(rf_jx *c, rf_str op, const rf_jv *a, const rf_jv *b) {
    if (rf_jv_is_number(a) && rf_jv_is_number(b)) {
        if (a->kind == JV_FLOAT || b->kind == JV_FLOAT) {
            return float_op(c, op, rf_jv_double(c, a), rf_jv_double(c, b));
        }
        return integer_op(c, op, rf_jv_integer(c, a, "operator"), rf_jv_integer(c, b, "operator"));
    }
    if (rf_str_is(op, "+")) {
        if (a->kind == JV_STR && b->kind == JV_STR) return add_strings(c, a, b);
        if (is_list(a) && is_list(b) && a->seq->flavor == b->seq->flavor) {
            return add_lists(c, a->seq, b->seq);
        }
    }
    if (rf_str_is(op, "*")) {
        if ((a->kind == JV_STR || is_list(a)) && is_whole(b)) return repeat(c, a, b);
        if ((b->kind == JV_STR || is_list(b)) && is_whole(a)) return repeat(c, b, a);
    }
    if (rf_str_is(op, "%") && a->kind == JV_STR) return rf_jx_percent(c, a->s, b);
    fail_binary(c, op, a, b);
}

static bool compare(rf_jx *c, rf_str op, const rf_jv *a, const rf_jv *b) {
    if (rf_str_is(op, "==")) return rf_jv_eq(c, a, b);
    if (rf_str_is(op, "!=")) return !rf_jv_eq(c, a, b);
    if (rf_str_is(op, "in")) return rf_jv_contains(c, b, a);
    if (rf_str_is(op, "not in")) return !rf_jv_contains(c, b, a);
    char name[3] = {op.p[0], op.len > 1 ? op.p[1] : '\0', '\0'};
    int d = rf_jv_cmp(c, a, b, name);
    if (d == 2) return false; /* not a number */
    if (name[0] == '<') return name[1] ? d <= 0 : d < 0;
    return name[1] ? d >= 0 : d > 0;
}

static rf_jv eval_compare(rf_jx *c, const rf_jnode *n) {
    rf_jv left = rf_jx_eval(c, n->a);
    for (const rf_jnode *o = n->list; o; o = o->next) {
        rf_jv right = rf_jx_eval(c, o->a);
        c->at = o->at;
        if (!compare(c, o->name, &left, &right)) return rf_jv_bool(false);
        left = right;
    }
    return rf_jv_bool(true);
}

static rf_jv eval_list(rf_jx *c, const rf_jnode *n, rf_jflavor flavor) {
    size_t count = 0, i = 0;
    for (const rf_jnode *k = n->list; k; k = k->next) {
        count++;
    }
    rf_jv v = rf_jv_seq(c, flavor, count);
    for (const rf_jnode *k = n->list; k; k = k->next) {
        v.seq->items[i++] = rf_jx_eval(c, k);
    }
    return v;
}

static rf_jv eval_dict(rf_jx *c, const rf_jnode *n) {
    rf_jv v = rf_jv_dict(c, JV_DICT, 4);
    for (const rf_jnode *k = n->list; k; k = k->next) {
        rf_jv key = rf_jx_eval(c, k->a);
        rf_jdict_put(c, v.dict, key, rf_jx_eval(c, k->b));
    }
    return v;
}

static rf_jv eval_concat(rf_jx *c, const rf_jnode *n) {
    rf_jbuf b = {0};
    for (const rf_jnode *k = n->list; k; k = k->next) {
        rf_jv v = rf_jx_eval(c, k);
        rf_jv_print(c, &b, &v);
    }
    return rf_jbuf_value(&b);
}

static rf_jv eval_item(rf_jx *c, const rf_jnode *n) {
    rf_jv v = rf_jx_eval(c, n->a);
    if (n->b->kind != JN_SLICE) {
        rf_jv key = rf_jx_eval(c, n->b);
        c->at = n->at;
        return rf_jx_item(c, &v, &key);
    }
    const rf_jnode *ends[3] = {n->b->a, n->b->b, n->b->c};
    rf_jv bound[3];
    for (size_t i = 0; i < 3; i++) {
        bound[i] = ends[i] ? rf_jx_eval(c, ends[i]) : rf_jv_none();
    }
    c->at = n->at;
    return rf_jx_slice(c, &v, bound);
}

static rf_jv eval_sign(rf_jx *c, const rf_jnode *n) {
    rf_jv v = rf_jx_eval(c, n->a), zero = rf_jv_int(0);
    c->at = n->at;
    if (v.kind == JV_FLOAT) return rf_jv_float(n->kind == JN_NEG ? -v.f : v.f);
    return rf_jx_binary(c, n->kind == JN_NEG ? RF_STR("-") : RF_STR("+"), &zero, &v);
}

static rf_jv eval_filter(rf_jx *c, const rf_jnode *n) {
    rf_jv v = rf_jx_eval(c, n->a);
    rf_jargs args = rf_jx_args(c, n->list);
    c->at = n->at;
    if (n->kind == JN_TEST) return rf_jv_bool(rf_jx_test(c, n->name, &v, &args));
    return rf_jx_filter(c, n->name, &v, &args);
}

static rf_jv eval_binary(rf_jx *c, const rf_jnode *n) {
    rf_jv a = rf_jx_eval(c, n->a), b = rf_jx_eval(c, n->b);
    c->at = n->at;
    return rf_jx_binary(c, n->name, &a, &b);
}

static rf_jv eval_call(rf_jx *c, const rf_jnode *n) {
    rf_jv f = rf_jx_eval(c, n->a);
    rf_jargs args = rf_jx_args(c, n->list);
    c->at = n->at;
    return rf_jx_call(c, &f, &args);
}

static rf_jv eval_attr(rf_jx *c, const rf_jnode *n) {
    rf_jv v = rf_jx_eval(c, n->a);
    c->at = n->at;
    return rf_jx_attr(c, &v, n->name);
}

static rf_jv eval_choice(rf_jx *c, const rf_jnode *n) {
    rf_jv v = rf_jx_eval(c, n->a);
    if (n->kind == JN_NOT) return rf_jv_bool(!rf_jv_true(&v));
    if (n->kind == JN_AND) return rf_jv_true(&v) ? rf_jx_eval(c, n->b) : v;
    if (n->kind == JN_OR) return rf_jv_true(&v) ? v : rf_jx_eval(c, n->b);
    if (rf_jv_true(&v)) return rf_jx_eval(c, n->b);
    return n->c ? rf_jx_eval(c, n->c) : rf_jv_undef(c, "the inline if has no else");
}

static rf_jv eval(rf_jx *c, const rf_jnode *n) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum" /* the statements are run elsewhere */
    switch (n->kind) {
    case JN_CONST:
    case JN_TEXT:
        return n->value;
    case JN_NAME:
        return rf_jx_lookup(c, n->name);
    case JN_TUPLE:
        return eval_list(c, n, JF_TUPLE);
    case JN_LIST:
        return eval_list(c, n, JF_LIST);
    case JN_DICT:
        return eval_dict(c, n);
    case JN_ATTR:
        return eval_attr(c, n);
    case JN_ITEM:
        return eval_item(c, n);
    case JN_CALL:
        return eval_call(c, n);
    case JN_FILTER:
    case JN_TEST:
        return eval_filter(c, n);
    case JN_NOT:
    case JN_AND:
    case JN_OR:
    case JN_COND:
        return eval_choice(c, n);
    case JN_NEG:
    case JN_POS:
        return eval_sign(c, n);
    case JN_BINARY:
        return eval_binary(c, n);
    case JN_COMPARE:
        return eval_compare(c, n);
    case JN_CONCAT:
        return eval_concat(c, n);
    default:
        rf_jx_fail(c, "expected an expression here");
    }
#pragma GCC diagnostic pop
}

rf_jv rf_jx_eval(rf_jx *c, const rf_jnode *n) {
    c->at = n->at;
    rf_jx_step(c, 1);
    rf_jx_enter(c);
    rf_jv v = eval(c, n);
    rf_jx_leave(c);
    return v;
}
