/* gguf.c - an open GGUF file: opening, closing, lookups and typed access to keys.
 *
 * Everything that a caller sees was checked by parse.c, so access needs no further bounds.  The
 * rf_gguf owns its maps, copies of paths, the directory and its indexes; names and values point
 * into the maps. */
#include "gguf/gguf.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gguf/cursor.h"
#include "gguf/internal.h"

static const struct {
    const char *name;
    unsigned bytes; /* of one element; 0: strings and arrays */
} types[] = {
    [RF_GGUF_U8] = {"u8", 1},       [RF_GGUF_I8] = {"i8", 1},     [RF_GGUF_U16] = {"u16", 2},
    [RF_GGUF_I16] = {"i16", 2},     [RF_GGUF_U32] = {"u32", 4},   [RF_GGUF_I32] = {"i32", 4},
    [RF_GGUF_F32] = {"f32", 4},     [RF_GGUF_BOOL] = {"bool", 1}, [RF_GGUF_STRING] = {"string", 0},
    [RF_GGUF_ARRAY] = {"array", 0}, [RF_GGUF_U64] = {"u64", 8},   [RF_GGUF_I64] = {"i64", 8},
    [RF_GGUF_F64] = {"f64", 8},
};

const char *rf_gguf_type_name(rf_gguf_type t) {
    return (size_t)t < RF_COUNT(types) ? types[t].name : "unknown";
}

unsigned rf_gguf_type_bytes(rf_gguf_type t) {
    return (size_t)t < RF_COUNT(types) ? types[t].bytes : 0;
}

char *rf_gguf_strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char *copy = rf_alloc(n, 1);
    if (copy) memcpy(copy, s, n);
    return copy;
}

/* At most `most` bytes of a name, made printable: it comes from a file and goes to a terminal. */
static void quote(rf_str s, size_t most, char *out, size_t cap) {
    size_t at = 0, i = 0;
    for (; i < s.len && i < most && at + 8 < cap; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool is_plain = c >= 0x20 && c < 0x7f;
        int n = snprintf(out + at, cap - at, is_plain ? "%c" : "\\x%02x", c);
        at += n > 0 ? (size_t)n : 0;
    }
    snprintf(out + at, cap - at, "%s", i < s.len ? "..." : "");
}

rf_status rf_gguf_fail(rf_error *e, rf_status s, const char *path, uint64_t offset,
                       rf_gguf_place at, const char *fmt, ...) {
    enum { MAX_PATH = 140, MAX_NAME = 64 };
    char text[260], name[4 * MAX_NAME + 8];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (char *p = text; *p; p++) { /* it may quote a second name */
        if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f) *p = '?';
    }
    size_t len = strlen(path);
    bool is_long = len > MAX_PATH;
    const char *tail = is_long ? path + len - MAX_PATH : path; /* the end tells files apart */
    if (at.name.len) {
        quote(at.name, MAX_NAME, name, sizeof name / 2);
        return rf_fail(e, s, "%s%s: offset %" PRIu64 ": %s '%s': %s", is_long ? "..." : "", tail,
                       offset, at.kind, name, text);
    }
    name[0] = 0;
    if (strcmp(at.kind, "header") != 0) snprintf(name, sizeof name, " number %" PRIu64, at.index);
    return rf_fail(e, s, "%s%s: offset %" PRIu64 ": %s%s: %s", is_long ? "..." : "", tail, offset,
                   at.kind, name, text);
}

void rf_gguf_keys_free(rf_gguf_keys *keys) {
    rf_map_free(keys->index);
    rf_free(keys->p);
    *keys = (rf_gguf_keys){0};
}

rf_status rf_gguf_keys_push(rf_gguf_keys *keys, const rf_gguf_kv *kv, uint32_t *old, rf_error *e) {
    if (!keys->index) {
        rf_status s = rf_map_create(&keys->index, 64);
        if (s != RF_OK) return rf_fail(e, s, "out of memory for the index of keys");
    }
    if (keys->n == keys->cap) {
        size_t cap = keys->cap ? 2 * keys->cap : 32;
        void *p = rf_realloc(keys->p, keys->cap, cap, sizeof keys->p[0]);
        if (!p) return rf_fail_nomem(e, cap * sizeof keys->p[0]);
        keys->p = p;
        keys->cap = cap;
    }
    rf_status s = rf_map_put(keys->index, kv->key, (uint32_t)keys->n, old);
    if (s != RF_OK) return rf_fail(e, s, "out of memory for the index of keys");
    if (*old == RF_MAP_NONE) keys->p[keys->n++] = *kv;
    return RF_OK;
}

const rf_gguf_kv *rf_gguf_keys_find(const rf_gguf_keys *keys, rf_str key) {
    uint32_t i = keys->index ? rf_map_get(keys->index, key) : RF_MAP_NONE;
    return i == RF_MAP_NONE ? NULL : &keys->p[i];
}

void rf_gguf_reset(rf_gguf *g) {
    rf_gguf_keys_free(&g->keys);
    rf_map_free(g->tensor_index);
    rf_free(g->tensors);
    for (uint32_t i = 0; i < g->n_parts; i++) {
        if (g->parts[i].is_mapped) rf_filemap_close(&g->parts[i].map);
        rf_free(g->parts[i].path);
    }
    rf_free(g->parts);
    *g = (rf_gguf){.path = g->path};
}

void rf_gguf_close(rf_gguf *g) {
    if (!g) return;
    rf_gguf_reset(g);
    rf_free(g->path);
    rf_free(g);
}

/* A new part without bytes; *out is good until the next call. */
static rf_status add_part(rf_gguf *g, const char *path, rf_gguf_part **out, rf_error *e) {
    if (g->n_parts == g->cap_parts) {
        uint32_t cap = g->cap_parts ? 2 * g->cap_parts : 1;
        void *p = rf_realloc(g->parts, g->cap_parts, cap, sizeof g->parts[0]);
        if (!p) return rf_fail_nomem(e, cap * sizeof g->parts[0]);
        g->parts = p;
        g->cap_parts = cap;
    }
    if (!g->tensor_index) {
        rf_status s = rf_map_create(&g->tensor_index, 64);
        if (s != RF_OK) return rf_fail(e, s, "out of memory for the index of tensors");
    }
    rf_gguf_part *part = &g->parts[g->n_parts];
    *part = (rf_gguf_part){.path = rf_gguf_strdup(path)};
    if (!part->path) return rf_fail_nomem(e, strlen(path) + 1);
    g->n_parts++;
    *out = part;
    return RF_OK;
}

rf_status rf_gguf_add_file(rf_gguf *g, const char *path, rf_error *e) {
    rf_gguf_part *part = NULL;
    RF_TRY(add_part(g, path, &part, e));
    RF_TRY(rf_filemap_open(&part->map, path, e));
    part->is_mapped = true;
    return RF_OK;
}

static rf_status create(rf_gguf **out, const char *path, rf_error *e) {
    rf_gguf *g = rf_alloc(1, sizeof *g);
    if (!g) return rf_fail_nomem(e, sizeof *g);
    g->path = rf_gguf_strdup(path);
    if (!g->path) {
        rf_free(g);
        return rf_fail_nomem(e, strlen(path) + 1);
    }
    *out = g;
    return RF_OK;
}

static rf_status finish_open(rf_gguf **out, rf_gguf *g, rf_status s) {
    if (s != RF_OK) {
        rf_gguf_close(g);
        return s;
    }
    *out = g;
    return RF_OK;
}

static rf_status read_file(rf_gguf *g, rf_error *e) {
    RF_TRY(rf_gguf_add_file(g, g->path, e));
    RF_TRY(rf_gguf_parse(g, 0, &g->keys, e));
    return rf_gguf_open_splits(g, e);
}

rf_status rf_gguf_open(rf_gguf **out, const char *path, rf_error *e) {
    rf_gguf *g = NULL;
    RF_TRY(create(&g, path, e));
    return finish_open(out, g, read_file(g, e));
}

static rf_status read_memory(rf_gguf *g, const void *p, size_t n, rf_error *e) {
    rf_gguf_part *part = NULL;
    RF_TRY(add_part(g, g->path, &part, e));
    part->map = (rf_filemap){p, n};
    RF_TRY(rf_gguf_parse(g, 0, &g->keys, e));
    return rf_gguf_check_whole(g, e);
}

rf_status rf_gguf_open_memory(rf_gguf **out, const void *p, size_t n, rf_error *e) {
    rf_gguf *g = NULL;
    RF_TRY(create(&g, "(memory)", e));
    return finish_open(out, g, read_memory(g, p, n, e));
}

const char *rf_gguf_path(const rf_gguf *g) { return g->path; }
uint32_t rf_gguf_version(const rf_gguf *g) { return g->parts[0].version; }
uint32_t rf_gguf_n_splits(const rf_gguf *g) { return g->n_parts; }
uint32_t rf_gguf_alignment(const rf_gguf *g) { return g->parts[0].alignment; }

uint64_t rf_gguf_file_bytes(const rf_gguf *g) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < g->n_parts; i++)
        sum += g->parts[i].map.size;
    return sum;
}

size_t rf_gguf_n_kv(const rf_gguf *g) { return g->keys.n; }
size_t rf_gguf_n_tensors(const rf_gguf *g) { return g->n_tensors; }

const rf_gguf_kv *rf_gguf_kv_at(const rf_gguf *g, size_t i) {
    RF_ASSERT(i < g->keys.n);
    return &g->keys.p[i];
}

const rf_gguf_tensor *rf_gguf_tensor_at(const rf_gguf *g, size_t i) {
    RF_ASSERT(i < g->n_tensors);
    return &g->tensors[i];
}

const rf_gguf_kv *rf_gguf_find(const rf_gguf *g, const char *key) {
    return rf_gguf_keys_find(&g->keys, rf_str_of(key));
}

const rf_gguf_tensor *rf_gguf_find_tensor(const rf_gguf *g, const char *name) {
    uint32_t i = rf_map_get(g->tensor_index, rf_str_of(name));
    return i == RF_MAP_NONE ? NULL : &g->tensors[i];
}

static bool is_signed(rf_gguf_type t) {
    return t == RF_GGUF_I8 || t == RF_GGUF_I16 || t == RF_GGUF_I32 || t == RF_GGUF_I64;
}

uint64_t rf_gguf_elem_u64(const rf_gguf_kv *kv, uint64_t i) {
    unsigned size = rf_gguf_type_bytes(kv->elem_type);
    RF_ASSERT(i < kv->n && size > 0);
    RF_ASSERT(kv->elem_type != RF_GGUF_F32 && kv->elem_type != RF_GGUF_F64);
    uint64_t v = rf_load_le(kv->data + i * size, size);
    uint64_t sign = (uint64_t)1 << (8 * size - 1);
    return is_signed(kv->elem_type) ? (v ^ sign) - sign : v; /* extends the sign */
}

double rf_gguf_elem_f64(const rf_gguf_kv *kv, uint64_t i) {
    RF_ASSERT(i < kv->n);
    if (kv->elem_type == RF_GGUF_F32) {
        uint32_t bits = (uint32_t)rf_load_le(kv->data + i * 4, 4);
        float f;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    if (kv->elem_type == RF_GGUF_F64) {
        uint64_t bits = rf_load_le(kv->data + i * 8, 8);
        double d;
        memcpy(&d, &bits, sizeof d);
        return d;
    }
    uint64_t v = rf_gguf_elem_u64(kv, i);
    return is_signed(kv->elem_type) ? (double)(int64_t)v : (double)v;
}

rf_str rf_gguf_next_str(const uint8_t **cursor) {
    uint64_t len = rf_load_le(*cursor, 8);
    rf_str s = {(const char *)*cursor + 8, (size_t)len};
    *cursor += 8 + len;
    return s;
}

size_t rf_gguf_value_bytes(const rf_gguf_kv *kv) {
    const uint8_t *end = kv->data;
    if (kv->elem_type != RF_GGUF_STRING) {
        return (size_t)kv->n * rf_gguf_type_bytes(kv->elem_type);
    }
    for (uint64_t i = 0; i < kv->n; i++)
        rf_gguf_next_str(&end);
    return (size_t)(end - kv->data);
}

/* The part that a key was read from, for messages. */
static const char *path_of(const rf_gguf *g, const rf_gguf_kv *kv) {
    uintptr_t p = (uintptr_t)kv->key.p;
    for (uint32_t i = 0; i < g->n_parts; i++) {
        uintptr_t start = (uintptr_t)g->parts[i].map.data;
        if (p >= start && p - start < g->parts[i].map.size) return g->parts[i].path;
    }
    return g->path;
}

static rf_status wrong_type(const rf_gguf_kv *kv, const char *path, const char *want, rf_error *e) {
    bool is_array = kv->type == RF_GGUF_ARRAY;
    return rf_gguf_fail(e, RF_EFORMAT, path, kv->offset, (rf_gguf_place){"key", kv->key, 0},
                        "expected %s, got %s%s", want, is_array ? "array of " : "",
                        rf_gguf_type_name(kv->elem_type));
}

rf_status rf_gguf_kv_u64(const rf_gguf_kv *kv, const char *path, uint64_t *out, rf_error *e) {
    switch (kv->type) {
    case RF_GGUF_U8:
    case RF_GGUF_U16:
    case RF_GGUF_U32:
    case RF_GGUF_U64:
        *out = rf_gguf_elem_u64(kv, 0);
        return RF_OK;
    case RF_GGUF_I8:
    case RF_GGUF_I16:
    case RF_GGUF_I32:
    case RF_GGUF_I64:
        break;
    case RF_GGUF_F32:
    case RF_GGUF_F64:
    case RF_GGUF_BOOL:
    case RF_GGUF_STRING:
    case RF_GGUF_ARRAY:
        return wrong_type(kv, path, "an integer", e);
    }
    int64_t v = (int64_t)rf_gguf_elem_u64(kv, 0);
    if (v < 0) {
        return rf_gguf_fail(e, RF_EFORMAT, path, kv->offset, (rf_gguf_place){"key", kv->key, 0},
                            "expected an integer of 0 or more, got %" PRId64, v);
    }
    *out = (uint64_t)v;
    return RF_OK;
}

static const rf_gguf_kv *find_optional(const rf_gguf *g, const char *key, bool *found) {
    const rf_gguf_kv *kv = rf_gguf_find(g, key);
    if (found) *found = kv != NULL;
    return kv;
}

rf_status rf_gguf_get_u64(const rf_gguf *g, const char *key, uint64_t *out, bool *found,
                          rf_error *e) {
    const rf_gguf_kv *kv = find_optional(g, key, found);
    return kv ? rf_gguf_kv_u64(kv, path_of(g, kv), out, e) : RF_OK;
}

rf_status rf_gguf_get_u32(const rf_gguf *g, const char *key, uint32_t *out, bool *found,
                          rf_error *e) {
    const rf_gguf_kv *kv = find_optional(g, key, found);
    if (!kv) return RF_OK;
    uint64_t v;
    RF_TRY(rf_gguf_kv_u64(kv, path_of(g, kv), &v, e));
    if (v > UINT32_MAX) {
        return rf_gguf_fail(e, RF_EFORMAT, path_of(g, kv), kv->offset,
                            (rf_gguf_place){"key", kv->key, 0},
                            "expected at most %" PRIu32 ", got %" PRIu64, UINT32_MAX, v);
    }
    *out = (uint32_t)v;
    return RF_OK;
}

rf_status rf_gguf_get_f32(const rf_gguf *g, const char *key, float *out, bool *found, rf_error *e) {
    const rf_gguf_kv *kv = find_optional(g, key, found);
    if (!kv) return RF_OK;
    if (kv->type != RF_GGUF_F32 && kv->type != RF_GGUF_F64) {
        return wrong_type(kv, path_of(g, kv), "f32 or f64", e);
    }
    double v = rf_gguf_elem_f64(kv, 0);
    if (isfinite(v) && fabs(v) > (double)FLT_MAX) {
        return rf_gguf_fail(e, RF_EFORMAT, path_of(g, kv), kv->offset,
                            (rf_gguf_place){"key", kv->key, 0},
                            "expected a number that fits f32, got %g", v);
    }
    *out = (float)v;
    return RF_OK;
}

rf_status rf_gguf_get_bool(const rf_gguf *g, const char *key, bool *out, bool *found, rf_error *e) {
    const rf_gguf_kv *kv = find_optional(g, key, found);
    if (!kv) return RF_OK;
    if (kv->type != RF_GGUF_BOOL) return wrong_type(kv, path_of(g, kv), "bool", e);
    *out = rf_gguf_elem_u64(kv, 0) != 0;
    return RF_OK;
}

rf_status rf_gguf_get_str(const rf_gguf *g, const char *key, rf_str *out, bool *found,
                          rf_error *e) {
    const rf_gguf_kv *kv = find_optional(g, key, found);
    if (!kv) return RF_OK;
    if (kv->type != RF_GGUF_STRING) return wrong_type(kv, path_of(g, kv), "string", e);
    const uint8_t *cursor = kv->data;
    *out = rf_gguf_next_str(&cursor);
    return RF_OK;
}

rf_status rf_gguf_get_array(const rf_gguf *g, const char *key, rf_gguf_type elem_type,
                            const rf_gguf_kv **out, rf_error *e) {
    const rf_gguf_kv *kv = rf_gguf_find(g, key);
    *out = NULL;
    if (!kv) return RF_OK;
    if (kv->type != RF_GGUF_ARRAY || kv->elem_type != elem_type) {
        char want[40];
        snprintf(want, sizeof want, "array of %s", rf_gguf_type_name(elem_type));
        return wrong_type(kv, path_of(g, kv), want, e);
    }
    *out = kv;
    return RF_OK;
}
