/* listfilters.c - the filters that walk a list or a dict: map, select, sort, join, items, ... */
#include <string.h>

#include "text/jinja/internal.h"

typedef rf_jv filter_fn(rf_jx *c, const rf_jv *v, const rf_jargs *a);

rf_jv rf_jx_path(rf_jx *c, const rf_jv *v, const rf_jv *path) {
    if (path->kind != JV_STR) return rf_jx_item(c, v, path);
    rf_jv at = *v;
    rf_jstr rest = path->s, dot = {".", NULL, 1};
    for (bool is_last = false; !is_last;) {
        size_t end = rf_jstr_find(c, rest, dot, 0);
        is_last = end == RF_JSTR_NONE;
        rf_jstr name = is_last ? rest : rf_jstr_cut(rest, 0, end);
        rf_i128 i = 0;
        bool is_position =
            name.len && name.p[0] >= '0' && name.p[0] <= '9' && rf_jstr_to_int(name, 10, &i);
        rf_jv key = is_position ? rf_jv_int(i) : rf_jv_str(name);
        at = rf_jx_item(c, &at, &key);
        if (!is_last) rest = rf_jstr_cut(rest, end + 1, rest.len);
    }
    return at;
}

static rf_jargs behind(const rf_jargs *a, size_t n) {
    rf_jargs rest = *a;
    rest.pos = a->n > n ? a->pos + n : NULL;
    rest.n = a->n > n ? a->n - n : 0;
    return rest;
}

static rf_jv f_map(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *attribute = rf_jarg(a, SIZE_MAX, "attribute"),
                *otherwise = rf_jarg(a, SIZE_MAX, "default");
    rf_jseq items = rf_jv_true(v) ? rf_jv_iter(c, v) : (rf_jseq){0}; /* as jinja2: none is empty */
    rf_jv out = rf_jv_seq(c, JF_GEN, items.n);
    rf_jargs rest = behind(a, 1);
    for (size_t i = 0; i < items.n; i++) {
        rf_jv one;
        if (a->n) {
            one = rf_jx_filter(c, rf_jstr_raw(rf_jarg_str(c, a, 0, "filter")), &items.items[i],
                               &rest);
        } else {
            if (!attribute) rf_jx_fail(c, "map: expected a filter's name or attribute=");
            one = rf_jx_path(c, &items.items[i], attribute);
            if (one.kind == JV_UNDEF && otherwise) one = *otherwise;
        }
        out.seq->items[i] = one;
    }
    return out;
}

/* Keeps the items for which a test (or their truth) is as wanted; by_attr: of one attribute. */
static rf_jv pick(rf_jx *c, const rf_jv *v, const rf_jargs *a, bool want, bool by_attr) {
    rf_jseq items = rf_jv_true(v) ? rf_jv_iter(c, v) : (rf_jseq){0}; /* as jinja2: none is empty */
    rf_jv out = rf_jv_seq(c, JF_GEN, items.n);
    rf_jargs rest = behind(a, by_attr ? 2 : 1);
    size_t test = by_attr ? 1 : 0;
    out.seq->n = 0;
    for (size_t i = 0; i < items.n; i++) {
        rf_jv one = items.items[i];
        if (by_attr) one = rf_jx_path(c, &one, rf_jarg_need(c, a, 0, "attribute"));
        bool yes = rf_jv_true(&one);
        if (a->n > test)
            yes = rf_jx_test(c, rf_jstr_raw(rf_jarg_str(c, a, test, "test")), &one, &rest);
        if (yes == want) out.seq->items[out.seq->n++] = items.items[i];
    }
    return out;
}
static rf_jv f_select(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    return pick(c, v, a, true, false);
}
static rf_jv f_reject(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    return pick(c, v, a, false, false);
}
static rf_jv f_selectattr(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    return pick(c, v, a, true, true);
}
static rf_jv f_rejectattr(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    return pick(c, v, a, false, true);
}

static rf_jv copy_items(rf_jx *c, const rf_jv *v, rf_jflavor flavor) {
    rf_jseq items = rf_jv_iter(c, v);
    rf_jv out = rf_jv_seq(c, flavor, items.n);
    if (items.n) memcpy(out.seq->items, items.items, items.n * sizeof(rf_jv));
    return out;
}
static rf_jv f_list(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    return copy_items(c, v, JF_LIST);
}

/* What an item is sorted or compared by: itself or an attribute, without case unless asked. */
static rf_jv sort_key(rf_jx *c, const rf_jv *v, const rf_jv *attribute, bool with_case) {
    rf_jv key = attribute && attribute->kind != JV_NONE ? rf_jx_path(c, v, attribute) : *v;
    return key.kind == JV_STR && !with_case ? rf_jv_str(rf_jstr_lower(c, key.s)) : key;
}

typedef struct keyed {
    rf_jv key, value;
} keyed;

static void merge_sort(rf_jx *c, keyed *p, keyed *room, size_t n, bool reverse) {
    if (n < 2) return;
    size_t half = n / 2, i = 0, k = half, to = 0;
    merge_sort(c, p, room, half, reverse);
    merge_sort(c, p + half, room, n - half, reverse);
    while (i < half && k < n) {
        int d = rf_jv_cmp(c, &p[k].key, &p[i].key, "sort");
        bool take_right = reverse ? d == 1 : d < 0;
        room[to++] = take_right ? p[k++] : p[i++];
    }
    while (i < half) {
        room[to++] = p[i++];
    }
    memcpy(p, room, to * sizeof *p);
}

static void sort_items(rf_jx *c, rf_jseq *s, const rf_jv *attribute, bool with_case, bool reverse) {
    keyed *all = rf_jx_alloc(c, s->n, sizeof *all), *room = rf_jx_alloc(c, s->n, sizeof *room);
    for (size_t i = 0; i < s->n; i++) {
        all[i] = (keyed){sort_key(c, &s->items[i], attribute, with_case), s->items[i]};
    }
    merge_sort(c, all, room, s->n, reverse);
    for (size_t i = 0; i < s->n; i++) {
        s->items[i] = all[i].value;
    }
}

static rf_jv f_sort(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    rf_jv out = copy_items(c, v, JF_LIST);
    sort_items(c, out.seq, rf_jarg(a, 2, "attribute"), rf_jarg_bool(a, 1, "case_sensitive", false),
               rf_jarg_bool(a, 0, "reverse", false));
    return out;
}

static rf_jv pairs_of(rf_jx *c, const rf_jdict *d, rf_jflavor flavor) {
    rf_jv out = rf_jv_seq(c, flavor, d->n);
    for (size_t i = 0; i < d->n; i++) {
        out.seq->items[i] = rf_jv_seq(c, JF_TUPLE, 2);
        out.seq->items[i].seq->items[0] = d->pairs[i].key;
        out.seq->items[i].seq->items[1] = d->pairs[i].value;
    }
    return out;
}
static rf_jv f_items(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    if (v->kind == JV_UNDEF) return rf_jv_seq(c, JF_GEN, 0);
    if (v->kind != JV_DICT) rf_jx_fail(c, "items: expected a dict, got %s", rf_jv_type(v));
    return pairs_of(c, v->dict, JF_GEN);
}
static rf_jv f_dictsort(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *by = rf_jarg(a, 1, "by");
    if (v->kind == JV_UNDEF) rf_jx_fail(c, "%s", v->s.p);
    if (v->kind != JV_DICT) rf_jx_fail(c, "dictsort: expected a dict, got %s", rf_jv_type(v));
    bool by_value = by && by->kind == JV_STR && rf_str_is(rf_jstr_raw(by->s), "value");
    rf_jv out = pairs_of(c, v->dict, JF_LIST), place = rf_jv_int(by_value);
    sort_items(c, out.seq, &place, rf_jarg_bool(a, 0, "case_sensitive", false),
               rf_jarg_bool(a, 2, "reverse", false));
    return out;
}

static rf_jv f_join(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *sep = rf_jarg(a, 0, "d"), *attribute = rf_jarg(a, 1, "attribute");
    rf_jv items = copy_items(c, v, JF_LIST);
    for (size_t i = 0; attribute && i < items.seq->n; i++) {
        items.seq->items[i] = rf_jx_path(c, &items.seq->items[i], attribute);
    }
    return rf_jv_str(
        rf_jstr_join(c, sep ? rf_jv_string(c, sep) : (rf_jstr){"", NULL, 0}, items.seq));
}
static rf_jv one_of(rf_jx *c, const rf_jv *v, size_t place, const char *what) {
    rf_jseq items = rf_jv_iter(c, v);
    if (items.n == 0) return rf_jv_undef(c, "%s: the list is empty", what);
    return items.items[place < items.n ? place : items.n - 1];
}
static rf_jv f_first(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    return one_of(c, v, 0, "first");
}
static rf_jv f_last(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    return one_of(c, v, SIZE_MAX, "last");
}
/* Reproducible: the same template and context give the same text. */
static rf_jv f_random(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    size_t n = v->kind == JV_SEQ ? v->seq->n : 0;
    return one_of(c, v, n ? c->steps % n : 0, "random");
}

static rf_jv f_sum(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *attribute = rf_jarg(a, 0, "attribute"), *start = rf_jarg(a, 1, "start");
    rf_jseq items = rf_jv_iter(c, v);
    rf_jv sum = start ? *start : rf_jv_int(0);
    for (size_t i = 0; i < items.n; i++) {
        rf_jv one = attribute && attribute->kind != JV_NONE
                        ? rf_jx_path(c, &items.items[i], attribute)
                        : items.items[i];
        sum = rf_jx_binary(c, RF_STR("+"), &sum, &one);
    }
    return sum;
}
static rf_jv extreme(rf_jx *c, const rf_jv *v, const rf_jargs *a, bool want_max) {
    const rf_jv *attribute = rf_jarg(a, 1, "attribute");
    bool with_case = rf_jarg_bool(a, 0, "case_sensitive", false);
    rf_jseq items = rf_jv_iter(c, v);
    if (items.n == 0) return rf_jv_undef(c, "no item in an empty list");
    size_t best = 0;
    rf_jv best_key = sort_key(c, &items.items[0], attribute, with_case);
    for (size_t i = 1; i < items.n; i++) {
        rf_jv key = sort_key(c, &items.items[i], attribute, with_case);
        int d = rf_jv_cmp(c, &key, &best_key, want_max ? "max" : "min");
        if (want_max ? d > 0 : d < 0) {
            best = i;
            best_key = key;
        }
    }
    return items.items[best];
}
static rf_jv f_min(rf_jx *c, const rf_jv *v, const rf_jargs *a) { return extreme(c, v, a, false); }
static rf_jv f_max(rf_jx *c, const rf_jv *v, const rf_jargs *a) { return extreme(c, v, a, true); }

static rf_jv f_unique(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *attribute = rf_jarg(a, 1, "attribute");
    bool with_case = rf_jarg_bool(a, 0, "case_sensitive", false);
    rf_jseq items = rf_jv_iter(c, v);
    rf_jv out = rf_jv_seq(c, JF_GEN, items.n), seen = rf_jv_dict(c, JV_DICT, 4);
    out.seq->n = 0;
    for (size_t i = 0; i < items.n; i++) {
        rf_jv key = sort_key(c, &items.items[i], attribute, with_case);
        if (rf_jdict_find(c, seen.dict, &key)) continue;
        rf_jdict_put(c, seen.dict, key, rf_jv_none());
        out.seq->items[out.seq->n++] = items.items[i];
    }
    return out;
}
static rf_jv f_reverse(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    (void)a;
    rf_jseq items = rf_jv_iter(c, v);
    rf_jv out = rf_jv_seq(c, JF_GEN, items.n);
    for (size_t i = 0; i < items.n; i++) {
        out.seq->items[i] = items.items[items.n - 1 - i];
    }
    return v->kind == JV_STR ? rf_jv_str(rf_jstr_join(c, (rf_jstr){"", NULL, 0}, out.seq)) : out;
}

static rf_jv part(rf_jx *c, const rf_jseq *items, size_t from, size_t n, size_t width,
                  const rf_jv *fill) {
    rf_jv out = rf_jv_seq(c, JF_LIST, fill && width > n ? width : n);
    for (size_t i = 0; i < out.seq->n; i++) {
        out.seq->items[i] = i < n ? items->items[from + i] : *fill;
    }
    return out;
}
static rf_jv f_batch(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    size_t width = rf_jv_count(c, rf_jarg_need(c, a, 0, "linecount"), "batch", RF_JINJA_MAX_RANGE);
    if (width == 0) rf_jx_fail(c, "batch: expected at least 1");
    rf_jseq items = rf_jv_iter(c, v);
    rf_jv out = rf_jv_seq(c, JF_GEN, (items.n + width - 1) / width);
    for (size_t i = 0; i < out.seq->n; i++) {
        size_t left = items.n - i * width;
        out.seq->items[i] = part(c, &items, i * width, left < width ? left : width, width,
                                 rf_jarg(a, 1, "fill_with"));
    }
    return out;
}
static rf_jv f_slice(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    size_t n = rf_jv_count(c, rf_jarg_need(c, a, 0, "slices"), "slice", RF_JINJA_MAX_RANGE),
           from = 0;
    if (n == 0) rf_jx_fail(c, "slice: expected at least 1");
    rf_jseq items = rf_jv_iter(c, v);
    rf_jv out = rf_jv_seq(c, JF_GEN, n);
    size_t each = items.n / n, longer = items.n % n;
    for (size_t i = 0; i < n; i++) {
        size_t len = each + (i < longer);
        out.seq->items[i] =
            part(c, &items, from, len, longer ? each + 1 : each, rf_jarg(a, 1, "fill_with"));
        from += len;
    }
    return out;
}
static rf_jv f_groupby(rf_jx *c, const rf_jv *v, const rf_jargs *a) {
    const rf_jv *attribute = rf_jarg_need(c, a, 0, "attribute");
    rf_jv all = copy_items(c, v, JF_LIST);
    sort_items(c, all.seq, attribute, false, false);
    rf_jv out = rf_jv_seq(c, JF_LIST, all.seq->n);
    out.seq->n = 0;
    for (size_t from = 0, to; from < all.seq->n; from = to) {
        rf_jv key = sort_key(c, &all.seq->items[from], attribute, false);
        for (to = from + 1; to < all.seq->n; to++) {
            rf_jv other = sort_key(c, &all.seq->items[to], attribute, false);
            if (!rf_jv_eq(c, &key, &other)) break;
        }
        rf_jv group = rf_jv_seq(c, JF_TUPLE, 2);
        group.seq->items[0] = rf_jx_path(c, &all.seq->items[from], attribute);
        group.seq->items[1] = part(c, all.seq, from, to - from, 0, NULL);
        out.seq->items[out.seq->n++] = group;
    }
    return out;
}

static const struct {
    const char *name;
    filter_fn *run;
    size_t max; /* arguments by position */
} filters[] = {
    {"map", f_map, SIZE_MAX},
    {"select", f_select, SIZE_MAX},
    {"reject", f_reject, SIZE_MAX},
    {"selectattr", f_selectattr, SIZE_MAX},
    {"rejectattr", f_rejectattr, SIZE_MAX},
    {"list", f_list, 0},
    {"sort", f_sort, 3},
    {"items", f_items, 0},
    {"dictsort", f_dictsort, 3},
    {"join", f_join, 2},
    {"first", f_first, 0},
    {"last", f_last, 0},
    {"random", f_random, 0},
    {"sum", f_sum, 2},
    {"min", f_min, 2},
    {"max", f_max, 2},
    {"unique", f_unique, 2},
    {"reverse", f_reverse, 0},
    {"batch", f_batch, 2},
    {"slice", f_slice, 2},
    {"groupby", f_groupby, 2},
};

rf_jv rf_jx_filter_list(rf_jx *c, rf_str name, const rf_jv *v, const rf_jargs *args, bool *found) {
    *found = false;
    for (size_t i = 0; i < RF_COUNT(filters); i++) {
        if (!rf_str_is(name, filters[i].name)) continue;
        if (args->n > filters[i].max) {
            rf_jx_fail(c, "%s: expected at most %zu arguments, got %zu", filters[i].name,
                       filters[i].max, args->n);
        }
        *found = true;
        return filters[i].run(c, v, args);
    }
    return rf_jv_none();
}
