/* imatrix.c - importance matrices, in GGUF or in records of name, calls and values.
 *
 * A record is i32 length, name, i32 calls, i32 n, f32[n]; an i32 with their number comes first and
 * what follows them (the last call, the text's name) does not matter here.  Values were multiplied
 * by the calls, which changes nothing: only proportions within a matrix count. */
#include "gguf/imatrix.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/os.h"
#include "gguf/cursor.h"
#include "gguf/internal.h"

typedef struct record {
    const uint8_t *values; /* f32 [n] */
    uint64_t n;
} record;

struct rf_imatrix {
    char *path;
    rf_gguf *gguf; /* NULL: the older format */
    rf_filemap map;
    bool is_mapped;
    record *records; /* [n_records], of cap_records */
    uint32_t n_records, cap_records;
    rf_map *index; /* weight -> record */
};

void rf_imatrix_close(rf_imatrix *im) {
    if (!im) return;
    rf_gguf_close(im->gguf);
    rf_map_free(im->index);
    rf_free(im->records);
    if (im->is_mapped) rf_filemap_close(&im->map);
    rf_free(im->path);
    rf_free(im);
}

static rf_status check_type(const rf_imatrix *im, rf_error *e) {
    rf_str type = {0};
    bool found;
    RF_TRY(rf_gguf_get_str(im->gguf, "general.type", &type, &found, e));
    if (found && rf_str_is(type, "imatrix")) return RF_OK;
    return rf_fail(
        e, RF_EFORMAT,
        "%s: key 'general.type': expected 'imatrix', got %s%.*s; an importance matrix is "
        "made by 'rocmforge imatrix'",
        im->path, found ? "" : "none", type.len > 40 ? 40 : (int)type.len, type.p ? type.p : "");
}

static rf_status add_record(rf_imatrix *im, rf_str name, const uint8_t *values, uint64_t n,
                            rf_error *e) {
    uint32_t old;
    if (im->n_records == im->cap_records) {
        uint32_t cap = im->cap_records ? 2 * im->cap_records : 64;
        void *p = rf_realloc(im->records, im->cap_records, cap, sizeof im->records[0]);
        if (!p) return rf_fail_nomem(e, cap * sizeof im->records[0]);
        im->records = p;
        im->cap_records = cap;
    }
    rf_status s = rf_map_put(im->index, name, im->n_records, &old);
    if (s != RF_OK) return rf_fail(e, s, "%s: out of memory for the index of names", im->path);
    if (old != RF_MAP_NONE) {
        return rf_fail(e, RF_EFORMAT, "%s: expected every weight once, got '%.*s' again", im->path,
                       RF_STR_ARG(name));
    }
    im->records[im->n_records++] = (record){values, n};
    return RF_OK;
}

static rf_status read_record(rf_imatrix *im, rf_cursor *c, uint32_t i, rf_error *e) {
    uint32_t len = 0, calls = 0, n = 0;
    const uint8_t *name = NULL, *values = NULL;
    uint64_t start = c->at;
    bool is_whole = rf_cursor_u32(c, &len) && len > 0 && len <= RF_GGUF_MAX_NAME &&
                    rf_cursor_bytes(c, len, &name) && rf_cursor_u32(c, &calls) &&
                    rf_cursor_u32(c, &n) && n > 0 && n <= INT32_MAX &&
                    rf_cursor_bytes(c, (uint64_t)n * sizeof(float), &values);
    if (!is_whole || memchr(name, 0, len)) {
        return rf_fail(e, RF_EFORMAT,
                       "%s: offset %" PRIu64 ": record %" PRIu32
                       ": expected a name of 1 to %d bytes and its values, got something else or "
                       "the end of the file; it is no importance matrix, or was cut off",
                       im->path, start, i, RF_GGUF_MAX_NAME);
    }
    return add_record(im, (rf_str){(const char *)name, len}, values, n, e);
}

static rf_status read_records(rf_imatrix *im, const uint8_t *p, size_t size, rf_error *e) {
    rf_cursor c = {p, size, 0};
    uint32_t n = 0;
    if (rf_map_create(&im->index, 64) != RF_OK) return rf_fail_nomem(e, 64);
    if (!rf_cursor_u32(&c, &n) || n == 0 || n > RF_GGUF_MAX_TENSORS) {
        return rf_fail(e, RF_EFORMAT,
                       "%s: expected an importance matrix (GGUF, or 1 to %d records), got %" PRIu32
                       " records",
                       im->path, RF_GGUF_MAX_TENSORS, n);
    }
    for (uint32_t i = 0; i < n; i++)
        RF_TRY(read_record(im, &c, i, e));
    return RF_OK;
}

static bool is_gguf(const uint8_t *p, size_t n) { return n >= 4 && memcmp(p, "GGUF", 4) == 0; }

static rf_status open_path(rf_imatrix *im, rf_error *e) {
    RF_TRY(rf_filemap_open(&im->map, im->path, e));
    im->is_mapped = true;
    if (!is_gguf(im->map.data, im->map.size))
        return read_records(im, im->map.data, im->map.size, e);
    RF_TRY(rf_gguf_open(&im->gguf, im->path, e));
    return check_type(im, e);
}

static rf_status open_memory(rf_imatrix *im, const void *p, size_t n, rf_error *e) {
    if (!is_gguf(p, n)) return read_records(im, p, n, e);
    RF_TRY(rf_gguf_open_memory(&im->gguf, p, n, e));
    return check_type(im, e);
}

static rf_status give(rf_imatrix **out, rf_imatrix *im, rf_status s) {
    *out = s == RF_OK ? im : NULL;
    if (s != RF_OK) rf_imatrix_close(im);
    return s;
}

static rf_imatrix *create(const char *path) {
    rf_imatrix *im = rf_alloc(1, sizeof *im);
    if (im) im->path = rf_gguf_strdup(path);
    if (im && im->path) return im;
    rf_free(im);
    return NULL;
}

rf_status rf_imatrix_open(rf_imatrix **out, const char *path, rf_error *e) {
    rf_imatrix *im = create(path);
    *out = NULL;
    return im ? give(out, im, open_path(im, e)) : rf_fail_nomem(e, sizeof *im);
}

rf_status rf_imatrix_open_memory(rf_imatrix **out, const void *p, size_t n, rf_error *e) {
    rf_imatrix *im = create("(memory)");
    *out = NULL;
    return im ? give(out, im, open_memory(im, p, n, e)) : rf_fail_nomem(e, sizeof *im);
}

/* ---- looking up ---- */

static rf_status wrong_shape(const rf_imatrix *im, rf_str weight, uint64_t n_cols, uint64_t n_mats,
                             rf_error *e) {
    return rf_fail(e, RF_EFORMAT,
                   "%s: weight '%.*s': expected F32 sums of %" PRIu64 " x %" PRIu64
                   " values and as many counts as matrices, got something else; was it made for "
                   "another model?",
                   im->path, RF_STR_ARG(weight), n_mats, n_cols);
}

static const rf_gguf_tensor *part_of(const rf_imatrix *im, rf_str weight, const char *part) {
    char name[RF_GGUF_MAX_NAME + 16];
    if (weight.len > RF_GGUF_MAX_NAME) return NULL;
    snprintf(name, sizeof name, "%.*s%s", RF_STR_ARG(weight), part);
    return rf_gguf_find_tensor(im->gguf, name);
}

static bool is_floats(const rf_gguf_tensor *t, uint64_t n) {
    return t && t->type == RF_DT_F32 && t->n_bytes == n * sizeof(float);
}

rf_status rf_imatrix_find(const rf_imatrix *im, rf_str weight, uint64_t n_cols, uint64_t n_mats,
                          rf_importance *out, rf_error *e) {
    uint64_t n;
    *out = (rf_importance){0};
    if (__builtin_mul_overflow(n_cols, n_mats, &n) || n > UINT64_MAX / sizeof(float))
        return wrong_shape(im, weight, n_cols, n_mats, e);
    if (!im->gguf) {
        uint32_t i = rf_map_get(im->index, weight);
        if (i == RF_MAP_NONE) return RF_OK;
        if (im->records[i].n != n) return wrong_shape(im, weight, n_cols, n_mats, e);
        out->sums = im->records[i].values;
        return RF_OK;
    }
    /* llama.cpp counts once for all matrices of a weight that every row meets, and then writes its sums
     * as one row */
    const rf_gguf_tensor *sums = part_of(im, weight, ".in_sum2");
    const rf_gguf_tensor *counts = part_of(im, weight, ".counts");
    if (!sums && !counts) return RF_OK;
    bool is_one = is_floats(counts, 1);
    if (!is_floats(sums, n) || sums->ne[0] != (is_one ? n : n_cols) ||
        !is_floats(counts, is_one ? 1 : n_mats))
        return wrong_shape(im, weight, n_cols, n_mats, e);
    *out = (rf_importance){sums->data, counts->data, is_one ? 1 : n_mats};
    return RF_OK;
}

float rf_importance_count(const rf_importance *im, uint64_t matrix) {
    float count = 1;
    if (im->counts)
        memcpy(&count, im->counts + (im->n_counts > 1 ? matrix : 0) * sizeof count, sizeof count);
    return count;
}
