/* methods.c - methods of strings, lists, dicts and the engine's own objects.
 *
 * Those that would change a list or dict exist only to say that they are refused. */
#include <string.h>

#include "text/jinja/internal.h"

typedef rf_jv method_fn(rf_jx *c, const rf_jv *self, const rf_jargs *a);

static rf_jv str_strip(rf_jx *c, const rf_jv *self, const rf_jargs *a, bool left, bool right) {
    const rf_jv *chars = rf_jarg(a, 0, "chars");
    if (!chars || chars->kind == JV_NONE)
        return rf_jv_str(rf_jstr_strip(c, self->s, NULL, left, right));
    rf_jstr set = rf_jarg_str(c, a, 0, "chars");
    return rf_jv_str(rf_jstr_strip(c, self->s, &set, left, right));
}
static rf_jv m_strip(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return str_strip(c, s, a, true, true);
}
static rf_jv m_lstrip(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return str_strip(c, s, a, true, false);
}
static rf_jv m_rstrip(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return str_strip(c, s, a, false, true);
}

static rf_jv str_split(rf_jx *c, const rf_jv *self, const rf_jargs *a, bool from_right) {
    const rf_jv *sep = rf_jarg(a, 0, "sep"), *max = rf_jarg(a, 1, "maxsplit");
    size_t n = SIZE_MAX;
    if (max && rf_jv_integer(c, max, "maxsplit") >= 0)
        n = rf_jv_count(c, max, "maxsplit", SIZE_MAX);
    if (!sep || sep->kind == JV_NONE) return rf_jstr_split(c, self->s, NULL, n, from_right);
    rf_jstr by = rf_jarg_str(c, a, 0, "sep");
    return rf_jstr_split(c, self->s, &by, n, from_right);
}
static rf_jv m_split(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return str_split(c, s, a, false);
}
static rf_jv m_rsplit(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return str_split(c, s, a, true);
}
static rf_jv m_splitlines(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return rf_jstr_splitlines(c, s->s, rf_jarg_bool(a, 0, "keepends", false));
}

static bool has_affix(rf_jx *c, rf_jstr s, const rf_jv *affix, bool at_end) {
    if (affix->kind == JV_SEQ && affix->seq->flavor == JF_TUPLE) {
        for (size_t i = 0; i < affix->seq->n; i++) {
            const rf_jv *one = &affix->seq->items[i];
            if (one->kind == JV_STR && has_affix(c, s, one, at_end)) return true;
        }
        return false;
    }
    if (affix->kind != JV_STR) {
        rf_jx_fail(c, "%s: expected a string or a tuple of strings, got %s",
                   at_end ? "endswith" : "startswith", rf_jv_type(affix));
    }
    size_t n = affix->s.len;
    rf_jx_step(c, n / 64);
    return n == 0 || (n <= s.len && memcmp(s.p + (at_end ? s.len - n : 0), affix->s.p, n) == 0);
}
static rf_jv m_startswith(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return rf_jv_bool(has_affix(c, s->s, rf_jarg_need(c, a, 0, "prefix"), false));
}
static rf_jv m_endswith(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return rf_jv_bool(has_affix(c, s->s, rf_jarg_need(c, a, 0, "suffix"), true));
}

static rf_jv without(rf_jx *c, const rf_jv *s, const rf_jargs *a, bool at_end) {
    rf_jstr affix = rf_jarg_str(c, a, 0, "affix");
    rf_jv v = rf_jv_str(affix);
    if (!has_affix(c, s->s, &v, at_end)) return *s;
    return rf_jv_str(
        rf_jstr_cut(s->s, at_end ? 0 : affix.len, s->s.len - (at_end ? affix.len : 0)));
}
static rf_jv m_removeprefix(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return without(c, s, a, false);
}
static rf_jv m_removesuffix(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return without(c, s, a, true);
}

static rf_jv chars_before(rf_jstr s, size_t at) {
    return rf_jv_int((rf_i128)rf_jstr_chars(rf_jstr_cut(s, 0, at)));
}
static size_t find_last(rf_jx *c, rf_jstr s, rf_jstr what) {
    size_t last = RF_JSTR_NONE;
    for (size_t at = 0; (at = rf_jstr_find(c, s, what, at)) != RF_JSTR_NONE; at++) {
        last = at;
    }
    return last;
}
static rf_jv find_in(rf_jx *c, const rf_jv *s, const rf_jargs *a, bool from_right, bool must) {
    rf_jstr what = rf_jarg_str(c, a, 0, "sub");
    size_t at = from_right ? find_last(c, s->s, what) : rf_jstr_find(c, s->s, what, 0);
    if (at != RF_JSTR_NONE) return chars_before(s->s, at);
    if (must) rf_jx_fail(c, "index: the string is not there");
    return rf_jv_int(-1);
}
static rf_jv m_find(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return find_in(c, s, a, false, false);
}
static rf_jv m_rfind(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return find_in(c, s, a, true, false);
}
static rf_jv m_index(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return find_in(c, s, a, false, true);
}

static rf_jv m_count(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    rf_jstr what = rf_jarg_str(c, a, 0, "sub");
    if (what.len == 0) return rf_jv_int((rf_i128)rf_jstr_chars(s->s) + 1);
    rf_i128 n = 0;
    for (size_t at = 0; (at = rf_jstr_find(c, s->s, what, at)) != RF_JSTR_NONE; at += what.len) {
        n++;
    }
    return rf_jv_int(n);
}

static rf_jv m_replace(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    const rf_jv *count = rf_jarg(a, 2, "count");
    size_t max = SIZE_MAX;
    if (count && rf_jv_integer(c, count, "replace") >= 0)
        max = rf_jv_count(c, count, "replace", SIZE_MAX);
    return rf_jv_str(
        rf_jstr_replace(c, s->s, rf_jarg_str(c, a, 0, "old"), rf_jarg_str(c, a, 1, "new"), max));
}

static rf_jv partition(rf_jx *c, const rf_jv *s, const rf_jargs *a, bool from_right) {
    rf_jstr sep = rf_jarg_str(c, a, 0, "sep"), empty = {"", NULL, 0};
    if (sep.len == 0) rf_jx_fail(c, "partition: expected a separator, got an empty string");
    size_t at = from_right ? find_last(c, s->s, sep) : rf_jstr_find(c, s->s, sep, 0);
    bool found = at != RF_JSTR_NONE;
    rf_jv out = rf_jv_seq(c, JF_TUPLE, 3);
    rf_jstr head = found ? rf_jstr_cut(s->s, 0, at) : from_right ? empty : s->s;
    rf_jstr tail = found ? rf_jstr_cut(s->s, at + sep.len, s->s.len) : from_right ? s->s : empty;
    out.seq->items[0] = rf_jv_str(head);
    out.seq->items[1] = rf_jv_str(found ? sep : empty);
    out.seq->items[2] = rf_jv_str(tail);
    return out;
}
static rf_jv m_partition(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return partition(c, s, a, false);
}
static rf_jv m_rpartition(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return partition(c, s, a, true);
}

#define CASE_METHOD(name, call)                                      \
    static rf_jv name(rf_jx *c, const rf_jv *s, const rf_jargs *a) { \
        (void)a;                                                     \
        return rf_jv_str(call);                                      \
    }
CASE_METHOD(m_upper, rf_jstr_upper(c, s->s))
CASE_METHOD(m_lower, rf_jstr_lower(c, s->s))
CASE_METHOD(m_swapcase, rf_jstr_swapcase(c, s->s))
CASE_METHOD(m_capitalize, rf_jstr_capitalize(c, s->s))
CASE_METHOD(m_title, rf_jstr_title(c, s->s, false))

static rf_jv m_zfill(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    size_t width = rf_jv_count(c, rf_jarg_need(c, a, 0, "width"), "zfill", RF_JINJA_MAX_OUTPUT);
    size_t n = rf_jstr_chars(s->s), sign = s->s.len && (s->s.p[0] == '-' || s->s.p[0] == '+');
    rf_jbuf b = {0};
    rf_jbuf_put(c, &b, rf_jstr_cut(s->s, 0, sign));
    for (size_t i = n; i < width; i++) {
        rf_jbuf_puts(c, &b, "0");
    }
    rf_jbuf_put(c, &b, rf_jstr_cut(s->s, sign, s->s.len));
    return rf_jbuf_value(&b);
}

static rf_jv justify(rf_jx *c, const rf_jv *s, const rf_jargs *a, int side) {
    size_t width = rf_jv_count(c, rf_jarg_need(c, a, 0, "width"), "width", RF_JINJA_MAX_OUTPUT);
    return rf_jv_str(rf_jstr_center(c, s->s, width, side));
}
static rf_jv m_center(rf_jx *c, const rf_jv *s, const rf_jargs *a) { return justify(c, s, a, 0); }
static rf_jv m_ljust(rf_jx *c, const rf_jv *s, const rf_jargs *a) { return justify(c, s, a, -1); }
static rf_jv m_rjust(rf_jx *c, const rf_jv *s, const rf_jargs *a) { return justify(c, s, a, 1); }

static rf_jv m_join(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    rf_jseq items = rf_jv_iter(c, rf_jarg_need(c, a, 0, "iterable"));
    for (size_t i = 0; i < items.n; i++) {
        if (items.items[i].kind != JV_STR) {
            rf_jx_fail(c, "join: expected strings, got %s at %zu", rf_jv_type(&items.items[i]), i);
        }
    }
    return rf_jv_str(rf_jstr_join(c, s->s, &items));
}

static rf_jv all_chars(rf_jx *c, rf_jstr s, bool (*is)(uint32_t)) {
    uint32_t cp;
    rf_jx_step(c, s.len / 8);
    for (size_t at = 0; at < s.len; at += (size_t)rf_jstr_next(s, at, &cp)) {
        rf_jstr_next(s, at, &cp);
        if (!is(cp)) return rf_jv_bool(false);
    }
    return rf_jv_bool(s.len > 0);
}
static bool is_alnum(uint32_t cp) { return rf_cp_is_alpha(cp) || rf_cp_is_digit(cp); }
#define CHARS_METHOD(name, is)                                       \
    static rf_jv name(rf_jx *c, const rf_jv *s, const rf_jargs *a) { \
        (void)a;                                                     \
        return all_chars(c, s->s, is);                               \
    }
CHARS_METHOD(m_isdigit, rf_cp_is_digit)
CHARS_METHOD(m_isalpha, rf_cp_is_alpha)
CHARS_METHOD(m_isalnum, is_alnum)
CHARS_METHOD(m_isspace, rf_cp_is_space)

static rf_jv m_isupper(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return rf_jv_bool(rf_jx_test(c, RF_STR("upper"), s, a));
}
static rf_jv m_islower(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return rf_jv_bool(rf_jx_test(c, RF_STR("lower"), s, a));
}
static rf_jv m_format(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    return rf_jx_format(c, s->s, a);
}
static rf_jv m_encode(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    (void)c, (void)a;
    return (rf_jv){.kind = JV_BYTES, .s = s->s};
}

static rf_jv view(rf_jx *c, const rf_jv *self, rf_jflavor flavor) {
    const rf_jdict *d = self->dict;
    rf_jv out = rf_jv_seq(c, flavor, d->n);
    for (size_t i = 0; i < d->n; i++) {
        if (flavor != JF_ITEMS) {
            out.seq->items[i] = flavor == JF_KEYS ? d->pairs[i].key : d->pairs[i].value;
            continue;
        }
        out.seq->items[i] = rf_jv_seq(c, JF_TUPLE, 2);
        out.seq->items[i].seq->items[0] = d->pairs[i].key;
        out.seq->items[i].seq->items[1] = d->pairs[i].value;
    }
    return out;
}
static rf_jv m_keys(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    (void)a;
    return view(c, s, JF_KEYS);
}
static rf_jv m_values(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    (void)a;
    return view(c, s, JF_VALUES);
}
static rf_jv m_items(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    (void)a;
    return view(c, s, JF_ITEMS);
}
static rf_jv m_get(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    const rf_jv *found = rf_jdict_find(c, s->dict, rf_jarg_need(c, a, 0, "key"));
    const rf_jv *otherwise = rf_jarg(a, 1, "default");
    return found ? *found : otherwise ? *otherwise : rf_jv_none();
}
static rf_jv m_copy(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    (void)c, (void)a;
    return *s; /* nothing changes either of them */
}

static rf_jv m_list_index(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    const rf_jv *what = rf_jarg_need(c, a, 0, "value");
    for (size_t i = 0; i < s->seq->n; i++) {
        if (rf_jv_eq(c, &s->seq->items[i], what)) return rf_jv_int((rf_i128)i);
    }
    rf_jx_fail(c, "index: the value is not in the list");
}
static rf_jv m_list_count(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    const rf_jv *what = rf_jarg_need(c, a, 0, "value");
    rf_i128 n = 0;
    for (size_t i = 0; i < s->seq->n; i++) {
        n += rf_jv_eq(c, &s->seq->items[i], what);
    }
    return rf_jv_int(n);
}

static rf_jv m_bit_length(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    (void)c, (void)a;
    rf_i128 n = 0;
    for (rf_i128 i = s->i; i != 0; i /= 2) {
        n++;
    }
    return rf_jv_int(n);
}

static rf_jv m_cycle(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    if (a->n == 0) rf_jx_fail(c, "cycle: expected at least one item");
    return a->pos[s->loop->i % a->n];
}
static rf_jv m_changed(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    rf_jv now = rf_jv_seq(c, JF_TUPLE, a->n);
    if (a->n) memcpy(now.seq->items, a->pos, a->n * sizeof(rf_jv));
    bool changed = !s->loop->has_seen || !rf_jv_eq(c, &s->loop->seen, &now);
    s->loop->seen = now;
    s->loop->has_seen = true;
    return rf_jv_bool(changed);
}
static rf_jv m_next(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    (void)c, (void)a;
    return s->object->items[s->object->pos++ % s->object->n];
}
static rf_jv m_reset(rf_jx *c, const rf_jv *s, const rf_jargs *a) {
    (void)c, (void)a;
    s->object->pos = 0;
    return rf_jv_none();
}

static const struct {
    rf_jkind kind;
    const char *name;
    method_fn *run; /* NULL: it would change its object, and is refused */
    size_t max;     /* arguments by position */
} methods[] = {
    {JV_STR, "strip", m_strip, 1},
    {JV_STR, "lstrip", m_lstrip, 1},
    {JV_STR, "rstrip", m_rstrip, 1},
    {JV_STR, "split", m_split, 2},
    {JV_STR, "rsplit", m_rsplit, 2},
    {JV_STR, "splitlines", m_splitlines, 1},
    {JV_STR, "startswith", m_startswith, 1},
    {JV_STR, "endswith", m_endswith, 1},
    {JV_STR, "removeprefix", m_removeprefix, 1},
    {JV_STR, "removesuffix", m_removesuffix, 1},
    {JV_STR, "find", m_find, 1},
    {JV_STR, "rfind", m_rfind, 1},
    {JV_STR, "index", m_index, 1},
    {JV_STR, "count", m_count, 1},
    {JV_STR, "replace", m_replace, 3},
    {JV_STR, "partition", m_partition, 1},
    {JV_STR, "rpartition", m_rpartition, 1},
    {JV_STR, "upper", m_upper, 0},
    {JV_STR, "lower", m_lower, 0},
    {JV_STR, "swapcase", m_swapcase, 0},
    {JV_STR, "capitalize", m_capitalize, 0},
    {JV_STR, "title", m_title, 0},
    {JV_STR, "zfill", m_zfill, 1},
    {JV_STR, "center", m_center, 1},
    {JV_STR, "ljust", m_ljust, 1},
    {JV_STR, "rjust", m_rjust, 1},
    {JV_STR, "join", m_join, 1},
    {JV_STR, "isdigit", m_isdigit, 0},
    {JV_STR, "isdecimal", m_isdigit, 0},
    {JV_STR, "isnumeric", m_isdigit, 0},
    {JV_STR, "isalpha", m_isalpha, 0},
    {JV_STR, "isalnum", m_isalnum, 0},
    {JV_STR, "isspace", m_isspace, 0},
    {JV_STR, "isupper", m_isupper, 0},
    {JV_STR, "islower", m_islower, 0},
    {JV_STR, "format", m_format, SIZE_MAX},
    {JV_STR, "encode", m_encode, 2},
    {JV_DICT, "keys", m_keys, 0},
    {JV_DICT, "values", m_values, 0},
    {JV_DICT, "items", m_items, 0},
    {JV_DICT, "get", m_get, 2},
    {JV_DICT, "copy", m_copy, 0},
    {JV_DICT, "clear", NULL, 0},
    {JV_DICT, "pop", NULL, 0},
    {JV_DICT, "popitem", NULL, 0},
    {JV_DICT, "setdefault", NULL, 0},
    {JV_DICT, "update", NULL, 0},
    {JV_SEQ, "index", m_list_index, 1},
    {JV_SEQ, "count", m_list_count, 1},
    {JV_SEQ, "copy", m_copy, 0},
    {JV_SEQ, "append", NULL, 0},
    {JV_SEQ, "clear", NULL, 0},
    {JV_SEQ, "extend", NULL, 0},
    {JV_SEQ, "insert", NULL, 0},
    {JV_SEQ, "pop", NULL, 0},
    {JV_SEQ, "remove", NULL, 0},
    {JV_SEQ, "reverse", NULL, 0},
    {JV_SEQ, "sort", NULL, 0},
    {JV_INT, "bit_length", m_bit_length, 0},
    {JV_LOOP, "cycle", m_cycle, SIZE_MAX},
    {JV_LOOP, "changed", m_changed, SIZE_MAX},
    {JV_OBJECT, "next", m_next, 0},
    {JV_OBJECT, "reset", m_reset, 0},
};

bool rf_jx_method(rf_jx *c, const rf_jv *self, rf_str name, rf_jv *out) {
    if (self->kind == JV_SEQ && self->seq->flavor > JF_TUPLE) return false;
    if (self->kind == JV_OBJECT && self->object->is_joiner) return false;
    for (size_t i = 0; i < RF_COUNT(methods); i++) {
        if (methods[i].kind != self->kind || !rf_str_is(name, methods[i].name)) continue;
        if (!methods[i].run) {
            *out = rf_jv_undef(c, "%s.%s is refused: templates change no %s", rf_jv_type(self),
                               methods[i].name, rf_jv_type(self));
            return true;
        }
        rf_jmethod *m = rf_jx_alloc(c, 1, sizeof *m);
        *m = (rf_jmethod){*self, rf_str_of(methods[i].name), i};
        *out = (rf_jv){.kind = JV_METHOD, .method = m};
        return true;
    }
    return false;
}

rf_jv rf_jx_call_method(rf_jx *c, const rf_jmethod *m, const rf_jargs *args) {
    if (args->n > methods[m->row].max) {
        rf_jx_fail(c, "%s: expected at most %zu arguments, got %zu", methods[m->row].name,
                   methods[m->row].max, args->n);
    }
    return methods[m->row].run(c, &m->self, args);
}
