/* split.c - models in several files: NAME-00001-of-00003.gguf and its brothers.
 *
 * The keys split.no (from 0), split.count and split.tensors.count decide; the name says where the
 * brothers lie.  Metadata is that of the first part; what a later part repeats must be the same.
 * Every part is a whole GGUF file with an alignment of its own. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gguf/internal.h"

enum { DIGITS = 5 };

static bool read_digits(const char *p, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < DIGITS; i++) {
        if (p[i] < '0' || p[i] > '9') return false;
        *out = *out * 10 + (uint32_t)(p[i] - '0');
    }
    return true;
}

bool rf_gguf_split_name(const char *path, size_t *prefix_len, uint32_t *no, uint32_t *count) {
    static const char shape[] = "-00001-of-00003.gguf";
    size_t len = strlen(path), tail = sizeof shape - 1;
    if (len <= tail) return false;
    const char *p = path + len - tail;
    uint32_t first, n;
    if (p[0] != '-' || !read_digits(p + 1, &first) || memcmp(p + 1 + DIGITS, "-of-", 4) != 0 ||
        !read_digits(p + DIGITS + 5, &n) || strcmp(p + 2 * DIGITS + 5, ".gguf") != 0) {
        return false;
    }
    if (first == 0 || first > n) return false;
    *prefix_len = len - tail;
    *no = first - 1;
    *count = n;
    return true;
}

char *rf_gguf_split_path(const char *path, size_t prefix_len, uint32_t no, uint32_t count) {
    size_t cap = prefix_len + 32;
    char *out = rf_alloc(cap, 1);
    if (!out) return NULL;
    memcpy(out, path, prefix_len);
    snprintf(out + prefix_len, cap - prefix_len, "-%05" PRIu32 "-of-%05" PRIu32 ".gguf", no + 1,
             count);
    return out;
}

typedef struct split_info {
    uint64_t no, count, n_tensors;
    bool has_n_tensors;
} split_info;

static rf_status read_info(const rf_gguf_keys *keys, const char *path, split_info *out,
                           rf_error *e) {
    *out = (split_info){.no = 0, .count = 1};
    const rf_gguf_kv *kv = rf_gguf_keys_find(keys, RF_STR("split.count"));
    if (kv) RF_TRY(rf_gguf_kv_u64(kv, path, &out->count, e));
    if (out->count <= 1) return RF_OK;
    if (out->count > RF_GGUF_MAX_SPLITS) {
        return rf_gguf_fail(e, RF_EFORMAT, path, kv->offset, (rf_gguf_place){"key", kv->key, 0},
                            "expected at most %d parts, got %" PRIu64, RF_GGUF_MAX_SPLITS,
                            out->count);
    }
    kv = rf_gguf_keys_find(keys, RF_STR("split.no"));
    if (!kv) {
        return rf_fail(e, RF_EFORMAT,
                       "%s: key 'split.no': expected it in a file of %" PRIu64 " parts, got none",
                       path, out->count);
    }
    RF_TRY(rf_gguf_kv_u64(kv, path, &out->no, e));
    if (out->no >= out->count) {
        return rf_gguf_fail(e, RF_EFORMAT, path, kv->offset, (rf_gguf_place){"key", kv->key, 0},
                            "expected less than split.count = %" PRIu64 ", got %" PRIu64,
                            out->count, out->no);
    }
    kv = rf_gguf_keys_find(keys, RF_STR("split.tensors.count"));
    out->has_n_tensors = kv != NULL;
    return kv ? rf_gguf_kv_u64(kv, path, &out->n_tensors, e) : RF_OK;
}

/* Keys that each part has for itself. */
static bool is_per_part(rf_str key) {
    return rf_str_starts(key, "split.") || rf_str_is(key, "general.alignment");
}

bool rf_gguf_kv_equal(const rf_gguf_kv *a, const rf_gguf_kv *b) {
    if (a->type != b->type || a->elem_type != b->elem_type || a->n != b->n) return false;
    size_t bytes = rf_gguf_value_bytes(a);
    return bytes == rf_gguf_value_bytes(b) && (!bytes || memcmp(a->data, b->data, bytes) == 0);
}

static rf_status merge_keys(rf_gguf *g, const rf_gguf_keys *keys, const char *path, rf_error *e) {
    for (size_t i = 0; i < keys->n; i++) {
        const rf_gguf_kv *kv = &keys->p[i], *known;
        uint32_t old;
        if (is_per_part(kv->key)) continue;
        known = rf_gguf_keys_find(&g->keys, kv->key);
        if (known && !rf_gguf_kv_equal(kv, known)) {
            return rf_gguf_fail(e, RF_EFORMAT, path, kv->offset, (rf_gguf_place){"key", kv->key, 0},
                                "expected the same value in every part, got another one than in an "
                                "earlier part; the files are of different models");
        }
        if (!known) RF_TRY(rf_gguf_keys_push(&g->keys, kv, &old, e));
    }
    return RF_OK;
}

static rf_status check_part(const split_info *got, const split_info *first, uint32_t no,
                            const char *path, rf_error *e) {
    if (got->count != first->count || got->no != no) {
        return rf_fail(e, RF_EFORMAT,
                       "%s: expected part %" PRIu32 " of %" PRIu64 ", got part %" PRIu64
                       " of %" PRIu64 " (split.no from 0, split.count); the file has a wrong name",
                       path, no + 1, first->count, got->no + 1, got->count);
    }
    if (got->has_n_tensors != first->has_n_tensors || got->n_tensors != first->n_tensors) {
        return rf_fail(e, RF_EFORMAT,
                       "%s: key 'split.tensors.count': expected %" PRIu64
                       " as in the first part, got %" PRIu64,
                       path, first->n_tensors, got->n_tensors);
    }
    return RF_OK;
}

static rf_status add_part(rf_gguf *g, const char *path, uint32_t no, const split_info *first,
                          rf_error *e) {
    rf_error why = {0};
    rf_status s = rf_gguf_add_file(g, path, &why);
    if (s != RF_OK) {
        return rf_fail(e, s, "part %" PRIu32 " of %" PRIu64 " cannot be opened: %s", no + 1,
                       first->count, why.text);
    }
    rf_gguf_keys later = {0}, *keys = no == 0 ? &g->keys : &later;
    split_info info;
    s = rf_gguf_parse(g, no, keys, e);
    if (s == RF_OK) s = read_info(keys, path, &info, e);
    if (s == RF_OK) s = check_part(&info, first, no, path, e);
    if (s == RF_OK && no > 0) s = merge_keys(g, keys, path, e);
    rf_gguf_keys_free(&later);
    return s;
}

/* Reads the parts from `no` on. */
static rf_status read_parts(rf_gguf *g, size_t prefix_len, uint32_t no, const split_info *first,
                            rf_error *e) {
    uint32_t count = (uint32_t)first->count;
    for (; no < count; no++) {
        char *path = rf_gguf_split_path(g->path, prefix_len, no, count);
        if (!path) return rf_fail_nomem(e, prefix_len + 32);
        rf_status s = add_part(g, path, no, first, e);
        rf_free(path);
        if (s != RF_OK) return s;
    }
    if (first->has_n_tensors && first->n_tensors != g->n_tensors) {
        return rf_fail(e, RF_EFORMAT,
                       "%s: key 'split.tensors.count': expected %" PRIu64
                       " tensors in all parts, got %zu",
                       g->path, first->n_tensors, g->n_tensors);
    }
    return RF_OK;
}

rf_status rf_gguf_open_splits(rf_gguf *g, rf_error *e) {
    split_info info;
    size_t prefix_len;
    uint32_t no, count;
    RF_TRY(read_info(&g->keys, g->path, &info, e));
    if (info.count <= 1) return RF_OK;
    if (!rf_gguf_split_name(g->path, &prefix_len, &no, &count) || no != info.no ||
        count != info.count) {
        return rf_fail(e, RF_EFORMAT,
                       "%s: part %" PRIu64 " of %" PRIu64
                       ": expected a name that ends in -%05" PRIu64 "-of-%05" PRIu64
                       ".gguf; give all parts their names back",
                       g->path, info.no + 1, info.count, info.no + 1, info.count);
    }
    if (no == 0) return read_parts(g, prefix_len, 1, &info, e);
    rf_gguf_reset(g); /* metadata begins with the first part, so read that first */
    return read_parts(g, prefix_len, 0, &info, e);
}

rf_status rf_gguf_check_whole(const rf_gguf *g, rf_error *e) {
    split_info info;
    RF_TRY(read_info(&g->keys, g->path, &info, e));
    if (info.count <= 1) return RF_OK;
    return rf_fail(e, RF_EUNSUPPORTED,
                   "%s: expected a whole model, got part %" PRIu64 " of %" PRIu64
                   "; open it by its path",
                   g->path, info.no + 1, info.count);
}
