/* parse.c - one GGUF file: header, keys, tensor directory, and where each tensor's data lies.
 *
 * Reads untrusted bytes only through the cursor.  Every count is compared with the bytes left
 * before it is used, and memory grows with what was really read: a lying header costs nothing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/cursor.h"
#include "gguf/internal.h"

typedef struct parser {
    rf_cursor c;
    const char *path;
    rf_error *e;
} parser;

static rf_status truncated(const parser *ps, rf_gguf_place at, const char *field) {
    return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, ps->c.at, at,
                        "the file ends inside %s: %" PRIu64
                        " bytes left; it is truncated, fetch it again",
                        field, rf_cursor_left(&ps->c));
}

static rf_status read_u32(parser *ps, rf_gguf_place at, const char *field, uint32_t *out) {
    return rf_cursor_u32(&ps->c, out) ? RF_OK : truncated(ps, at, field);
}

static rf_status read_u64(parser *ps, rf_gguf_place at, const char *field, uint64_t *out) {
    return rf_cursor_u64(&ps->c, out) ? RF_OK : truncated(ps, at, field);
}

static rf_status read_str(parser *ps, rf_gguf_place at, const char *field, rf_str *out) {
    uint64_t offset = ps->c.at, len;
    RF_TRY(read_u64(ps, at, field, &len));
    const uint8_t *p;
    if (!rf_cursor_bytes(&ps->c, len, &p)) {
        return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, at,
                            "%s claims %" PRIu64 " bytes, but only %" PRIu64
                            " are left; the file is truncated or damaged",
                            field, len, rf_cursor_left(&ps->c));
    }
    *out = (rf_str){(const char *)p, (size_t)len};
    return RF_OK;
}

/* A key or a tensor's name: bounded, not empty, and a C string can name it. */
static rf_status read_name(parser *ps, rf_gguf_place at, uint64_t max, rf_str *out) {
    uint64_t offset = ps->c.at;
    RF_TRY(read_str(ps, at, "its name", out));
    if (out->len == 0 || out->len > max) {
        return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, at,
                            "expected a name of 1 to %" PRIu64 " bytes, got %zu", max, out->len);
    }
    if (memchr(out->p, 0, out->len)) {
        at.name = *out;
        return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, at,
                            "expected a name without NUL bytes, got one");
    }
    return RF_OK;
}

static rf_status check_bools(parser *ps, rf_gguf_place at, const uint8_t *p, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        if (p[i] > 1) {
            return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, (uint64_t)(p - ps->c.p) + i, at,
                                "expected 0 or 1 for a bool, got %u", p[i]);
        }
    }
    return RF_OK;
}

/* Steps over n values of a type, checking what can be wrong with them. */
static rf_status read_values(parser *ps, rf_gguf_place at, rf_gguf_type type, uint64_t n) {
    uint64_t offset = ps->c.at;
    unsigned size = rf_gguf_type_bytes(type);
    uint64_t fit =
        rf_cursor_left(&ps->c) / (size ? size : 8); /* a string has its length at least */
    if (n > fit) {
        return rf_gguf_fail(
            ps->e, RF_EFORMAT, ps->path, offset, at,
            "claims %" PRIu64 " value%s of type %s, but the %" PRIu64 " bytes left hold %" PRIu64
            " at most; the file is truncated or damaged",
            n, n == 1 ? "" : "s", rf_gguf_type_name(type), rf_cursor_left(&ps->c), fit);
    }
    if (type == RF_GGUF_STRING) {
        rf_str ignored;
        for (uint64_t i = 0; i < n; i++)
            RF_TRY(read_str(ps, at, "a string", &ignored));
        return RF_OK;
    }
    const uint8_t *p;
    if (!rf_cursor_bytes(&ps->c, n * size, &p)) return truncated(ps, at, "a value");
    return type == RF_GGUF_BOOL ? check_bools(ps, at, p, n) : RF_OK;
}

static rf_status read_type(parser *ps, rf_gguf_place at, const char *field, rf_gguf_type *out) {
    uint64_t offset = ps->c.at;
    uint32_t type;
    RF_TRY(read_u32(ps, at, field, &type));
    if (type > RF_GGUF_F64) {
        return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, at,
                            "expected %s of 0 to %d, got %" PRIu32, field, (int)RF_GGUF_F64, type);
    }
    *out = (rf_gguf_type)type;
    return RF_OK;
}

static rf_status read_kv(parser *ps, uint64_t index, rf_gguf_kv *kv) {
    rf_gguf_place at = {"key", {0}, index};
    kv->offset = ps->c.at;
    RF_TRY(read_name(ps, at, RF_GGUF_MAX_KEY, &kv->key));
    at.name = kv->key;
    RF_TRY(read_type(ps, at, "a value type", &kv->type));
    kv->elem_type = kv->type;
    kv->n = 1;
    if (kv->type == RF_GGUF_ARRAY) {
        uint64_t offset = ps->c.at;
        RF_TRY(read_type(ps, at, "an element type", &kv->elem_type));
        if (kv->elem_type == RF_GGUF_ARRAY) {
            return rf_gguf_fail(ps->e, RF_EUNSUPPORTED, ps->path, offset, at,
                                "arrays of arrays are not supported; expected elements that are "
                                "numbers, bools or strings, got type %d",
                                (int)RF_GGUF_ARRAY);
        }
        RF_TRY(read_u64(ps, at, "the length of the array", &kv->n));
    }
    kv->data = ps->c.p + ps->c.at;
    return read_values(ps, at, kv->elem_type, kv->n);
}

static rf_status read_keys(parser *ps, uint64_t n, rf_gguf_keys *keys) {
    for (uint64_t i = 0; i < n; i++) {
        rf_gguf_kv kv = {0};
        uint32_t old;
        RF_TRY(read_kv(ps, i, &kv));
        RF_TRY(rf_gguf_keys_push(keys, &kv, &old, ps->e));
        if (old != RF_MAP_NONE) {
            return rf_gguf_fail(
                ps->e, RF_EFORMAT, ps->path, kv.offset, (rf_gguf_place){"key", kv.key, i},
                "expected every key once, got it again after offset %" PRIu64, keys->p[old].offset);
        }
    }
    return RF_OK;
}

static rf_status find_alignment(const parser *ps, const rf_gguf_keys *keys, uint32_t *out) {
    const rf_gguf_kv *kv = rf_gguf_keys_find(keys, RF_STR("general.alignment"));
    *out = RF_GGUF_DEFAULT_ALIGNMENT;
    if (!kv) return RF_OK;
    rf_gguf_place at = {"key", kv->key, 0};
    if (kv->type != RF_GGUF_U32) {
        return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, kv->offset, at,
                            "expected type u32, got %s", rf_gguf_type_name(kv->type));
    }
    uint32_t a = (uint32_t)rf_gguf_elem_u64(kv, 0);
    if (a == 0 || (a & (a - 1)) != 0 || a > RF_GGUF_MAX_ALIGNMENT) {
        return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, kv->offset, at,
                            "expected a power of two of at most %d, got %" PRIu32,
                            RF_GGUF_MAX_ALIGNMENT, a);
    }
    *out = a;
    return RF_OK;
}

/* Elements of a tensor.  Empty dimensions are legal; the others must still make a product that
 * fits, so that nobody behind us multiplies them into an overflow. */
static rf_status read_dims(parser *ps, rf_gguf_place at, rf_gguf_tensor *t, uint64_t *n_elems) {
    uint64_t offset = ps->c.at, product = 1;
    bool is_empty = false;
    for (uint32_t i = 0; i < RF_GGUF_MAX_DIMS; i++)
        t->ne[i] = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        RF_TRY(read_u64(ps, at, "its dimensions", &t->ne[i]));
        is_empty = is_empty || t->ne[i] == 0;
        uint64_t factor = t->ne[i] ? t->ne[i] : 1;
        if (__builtin_mul_overflow(product, factor, &product) || product > INT64_MAX) {
            return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, at,
                                "expected fewer than 2^63 elements, got more (dimension %" PRIu32
                                " is %" PRIu64 ")",
                                i, t->ne[i]);
        }
    }
    *n_elems = is_empty ? 0 : product;
    return RF_OK;
}

static rf_status read_format(parser *ps, rf_gguf_place at, rf_gguf_tensor *t, uint64_t n_elems) {
    uint64_t offset = ps->c.at;
    uint32_t id;
    RF_TRY(read_u32(ps, at, "its type", &id));
    if (!rf_dtype_from_id(id, &t->type)) {
        return rf_gguf_fail(ps->e, RF_EUNSUPPORTED, ps->path, offset, at,
                            "expected a number format that this program knows, got type id %" PRIu32
                            ": removed from GGUF or too new; convert the model again",
                            id);
    }
    const rf_dtype_info *info = rf_dtype_get(t->type);
    if (t->ne[0] % info->block_elems != 0) {
        return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, at,
                            "expected rows of a multiple of %" PRIu32
                            " elements for %s, got %" PRIu64,
                            info->block_elems, info->name, t->ne[0]);
    }
    size_t bytes;
    if (!rf_dtype_bytes(t->type, n_elems, &bytes)) {
        return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, at,
                            "expected a size that fits 64 bits, got %" PRIu64 " elements of %s",
                            n_elems, info->name);
    }
    t->n_bytes = bytes;
    return RF_OK;
}

/* One entry of the directory.  t->offset is still relative to the data section, and t->data marks
 * the entry itself, for messages: place_tensors() puts both right. */
static rf_status read_tensor(parser *ps, uint64_t index, rf_gguf_tensor *t) {
    rf_gguf_place at = {"tensor", {0}, index};
    t->data = ps->c.p + ps->c.at;
    RF_TRY(read_name(ps, at, RF_GGUF_MAX_NAME, &t->name));
    at.name = t->name;
    uint64_t offset = ps->c.at, n_elems = 0;
    RF_TRY(read_u32(ps, at, "its number of dimensions", &t->n_dims));
    if (t->n_dims > RF_GGUF_MAX_DIMS) {
        return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, at,
                            "expected at most %d dimensions, got %" PRIu32, RF_GGUF_MAX_DIMS,
                            t->n_dims);
    }
    RF_TRY(read_dims(ps, at, t, &n_elems));
    RF_TRY(read_format(ps, at, t, n_elems));
    return read_u64(ps, at, "its offset", &t->offset);
}

static rf_status push_tensor(rf_gguf *g, const parser *ps, const rf_gguf_tensor *t) {
    uint64_t offset = (uint64_t)(t->data - ps->c.p);
    rf_gguf_place at = {"tensor", t->name, g->n_tensors};
    if (g->n_tensors == g->cap_tensors) {
        size_t cap = g->cap_tensors ? 2 * g->cap_tensors : 64;
        void *p = rf_realloc(g->tensors, g->cap_tensors, cap, sizeof g->tensors[0]);
        if (!p) return rf_fail_nomem(ps->e, cap * sizeof g->tensors[0]);
        g->tensors = p;
        g->cap_tensors = cap;
    }
    if (g->n_tensors >= RF_GGUF_MAX_TENSORS) {
        return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, at,
                            "expected at most %d tensors in all parts, got more",
                            RF_GGUF_MAX_TENSORS);
    }
    uint32_t old;
    rf_status s = rf_map_put(g->tensor_index, t->name, (uint32_t)g->n_tensors, &old);
    if (s != RF_OK) return rf_fail(ps->e, s, "out of memory for the index of tensors");
    if (old != RF_MAP_NONE) {
        return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, at,
                            "expected every tensor once, got it again (first in %s)",
                            g->parts[g->tensors[old].split].path);
    }
    g->tensors[g->n_tensors++] = *t;
    return RF_OK;
}

/* The directory's offsets become places in the file: aligned and inside. */
static rf_status place_tensors(rf_gguf *g, const parser *ps, size_t first, uint32_t alignment) {
    uint64_t mask = alignment - 1, start = ps->c.at, room = 0;
    start += (uint64_t)(-start) & mask; /* at most size + 2^24: cannot overflow */
    if (start < ps->c.size) room = ps->c.size - start;
    for (size_t i = first; i < g->n_tensors; i++) {
        rf_gguf_tensor *t = &g->tensors[i];
        uint64_t offset = (uint64_t)(t->data - ps->c.p);
        rf_gguf_place at = {"tensor", t->name, i - first};
        if ((t->offset & mask) != 0) {
            return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, at,
                                "expected a data offset that is a multiple of %" PRIu32
                                ", got %" PRIu64,
                                alignment, t->offset);
        }
        if (t->n_bytes > room || t->offset > room - t->n_bytes) {
            return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, at,
                                "expected %" PRIu64 " bytes of data at data offset %" PRIu64
                                ", got a data section of %" PRIu64
                                " bytes; the file is truncated or damaged",
                                t->n_bytes, t->offset, room);
        }
        t->data = t->n_bytes ? ps->c.p + start + t->offset : NULL;
        t->offset += start;
    }
    return RF_OK;
}

static int compare_places(const void *a, const void *b) {
    const rf_gguf_tensor *x = *(const rf_gguf_tensor *const *)a;
    const rf_gguf_tensor *y = *(const rf_gguf_tensor *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

/* Gaps and any order are fine; bytes that belong to two tensors are not. */
static rf_status check_overlap(const rf_gguf *g, const parser *ps, size_t first) {
    size_t n = g->n_tensors - first;
    const rf_gguf_tensor **order = rf_alloc(n, sizeof order[0]);
    if (!order) return rf_fail_nomem(ps->e, n * sizeof order[0]);
    for (size_t i = 0; i < n; i++)
        order[i] = &g->tensors[first + i];
    if (n > 1) qsort(order, n, sizeof order[0], compare_places);
    rf_status s = RF_OK;
    const rf_gguf_tensor *last = NULL; /* the one that reaches farthest so far */
    for (size_t i = 0; i < n && s == RF_OK; i++) {
        const rf_gguf_tensor *t = order[i];
        if (t->n_bytes == 0) continue;
        if (last && t->offset < last->offset + last->n_bytes) {
            s = rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, t->offset,
                             (rf_gguf_place){"tensor", t->name, 0},
                             "expected data of its own, got an overlap with tensor '%.*s', which "
                             "ends at offset %" PRIu64,
                             RF_STR_ARG(last->name), last->offset + last->n_bytes);
        }
        last = t;
    }
    rf_free(order);
    return s;
}

static rf_status check_version(const parser *ps, uint32_t v) {
    rf_gguf_place at = {"header", {0}, 0};
    if (v == 2 || v == 3) return RF_OK;
    if (v != 0 && (v & 0xffff) == 0) {
        return rf_gguf_fail(ps->e, RF_EUNSUPPORTED, ps->path, 4, at,
                            "expected version 2 or 3, got 0x%08" PRIx32
                            ": a big-endian file; convert it to little-endian",
                            v);
    }
    return rf_gguf_fail(ps->e, v == 0 ? RF_EFORMAT : RF_EUNSUPPORTED, ps->path, 4, at,
                        "expected GGUF version 2 or 3, got version %" PRIu32 "; %s", v,
                        v == 1  ? "convert the model again, version 1 is obsolete"
                        : v > 3 ? "the file is damaged or newer than this program"
                                : "the file is damaged");
}

static rf_status check_magic(parser *ps) {
    static const char lfs[] = "version https://git-lfs";
    rf_gguf_place at = {"header", {0}, 0};
    const uint8_t *p;
    uint64_t n = ps->c.size;
    if (n >= sizeof lfs - 1 && memcmp(ps->c.p, lfs, sizeof lfs - 1) == 0) {
        return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, 0, at,
                            "expected 'GGUF', got a git-lfs pointer; fetch the model itself with "
                            "'git lfs pull'");
    }
    if (!rf_cursor_bytes(&ps->c, 4, &p)) return truncated(ps, at, "the magic 'GGUF'");
    if (memcmp(p, "GGUF", 4) != 0) {
        return rf_gguf_fail(
            ps->e, RF_EFORMAT, ps->path, 0, at,
            "expected the magic 'GGUF' (47 47 55 46), got %02x %02x %02x %02x; this "
            "is not a GGUF file",
            p[0], p[1], p[2], p[3]);
    }
    return RF_OK;
}

/* A count of entries against the named limit and against the bytes that could hold them. */
static rf_status check_count(const parser *ps, uint64_t offset, const char *what, uint64_t n,
                             uint64_t limit, uint64_t min_bytes) {
    uint64_t fit = rf_cursor_left(&ps->c) / min_bytes;
    if (n <= fit && n <= limit) return RF_OK;
    return rf_gguf_fail(ps->e, RF_EFORMAT, ps->path, offset, (rf_gguf_place){"header", {0}, 0},
                        "expected at most %" PRIu64 " %s (in the %" PRIu64
                        " bytes left), got a count of %" PRIu64,
                        fit < limit ? fit : limit, what, rf_cursor_left(&ps->c), n);
}

rf_status rf_gguf_parse(rf_gguf *g, uint32_t ip, rf_gguf_keys *keys, rf_error *e) {
    rf_gguf_part *part = &g->parts[ip];
    parser ps = {{part->map.data, part->map.size, 0}, part->path, e};
    rf_gguf_place at = {"header", {0}, 0};
    uint64_t n_tensors, n_kv;
    RF_TRY(check_magic(&ps));
    RF_TRY(read_u32(&ps, at, "the version", &part->version));
    RF_TRY(check_version(&ps, part->version));
    RF_TRY(read_u64(&ps, at, "the number of tensors", &n_tensors));
    RF_TRY(read_u64(&ps, at, "the number of keys", &n_kv));
    RF_TRY(
        check_count(&ps, 8, "tensors", n_tensors, RF_GGUF_MAX_TENSORS, RF_GGUF_MIN_TENSOR_BYTES));
    RF_TRY(check_count(&ps, 16, "keys", n_kv, RF_GGUF_MAX_KEYS, RF_GGUF_MIN_KV_BYTES));
    RF_TRY(read_keys(&ps, n_kv, keys));
    RF_TRY(find_alignment(&ps, keys, &part->alignment));
    size_t first = g->n_tensors;
    for (uint64_t i = 0; i < n_tensors; i++) {
        rf_gguf_tensor t = {.split = ip};
        RF_TRY(read_tensor(&ps, i, &t));
        RF_TRY(push_tensor(g, &ps, &t));
    }
    RF_TRY(place_tensors(g, &ps, first, part->alignment));
    return check_overlap(g, &ps, first);
}
