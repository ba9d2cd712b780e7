/* bind.c - reading and checking single hyperparameters and tensors.
 *
 * Every value is checked before it is believed, against a named limit or an expected shape, and a
 * failure names file, key or tensor, what was expected and what was found. */
#include "model/bind.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

rf_status rf_binder_open(rf_binder *b, rf_model *m, rf_error *e) {
    *b = (rf_binder){.m = m, .e = e};
    if (rf_map_create(&b->bound, rf_gguf_n_tensors(m->file)) != RF_OK)
        return rf_fail_nomem(e, rf_gguf_n_tensors(m->file));
    return RF_OK;
}

static void check_surplus_tensors(rf_binder *b) {
    const rf_gguf *g = b->m->file;
    size_t n = rf_gguf_n_tensors(g), n_surplus = 0;
    const rf_gguf_tensor *first = NULL;
    for (size_t i = 0; i < n; i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
        if (rf_map_get(b->bound, t->name) != RF_MAP_NONE) continue;
        if (!first) first = t;
        n_surplus++;
    }
    if (!first) return;
    rf_bind_fail(b, RF_EUNSUPPORTED,
                 "tensor %.*s at byte %llu is no part of a %s model of %u layers (%zu such "
                 "tensors); ignoring it would give wrong text",
                 RF_STR_ARG(first->name), (unsigned long long)first->offset, b->m->arch->name,
                 b->m->n_layers, n_surplus);
}

rf_status rf_binder_close(rf_binder *b) {
    if (b->status == RF_OK) check_surplus_tensors(b);
    rf_map_free(b->bound);
    b->bound = NULL;
    return b->status;
}

void rf_bind_fail(rf_binder *b, rf_status s, const char *fmt, ...) {
    if (b->status != RF_OK) return;
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    b->status = rf_fail(b->e, s, "%s: %s", rf_gguf_path(b->m->file), text);
}

typedef struct key_name {
    char text[128];
} key_name;

/* Names come from this room's own code and the table of architectures: they always fit. */
static key_name key_of(const rf_binder *b, const char *name) {
    key_name k;
    int n = snprintf(k.text, sizeof k.text, "%s.%s", b->m->arch->name, name);
    RF_ASSERT(n > 0 && (size_t)n < sizeof k.text);
    return k;
}

static bool is_integer(rf_gguf_type t) {
    return t == RF_GGUF_U8 || t == RF_GGUF_I8 || t == RF_GGUF_U16 || t == RF_GGUF_I16 ||
           t == RF_GGUF_U32 || t == RF_GGUF_I32 || t == RF_GGUF_U64 || t == RF_GGUF_I64;
}

/* Some converters write one value per layer.  True when the key is such an array. */
static bool read_per_layer(rf_binder *b, const char *key, uint32_t *out) {
    const rf_gguf_kv *kv = rf_gguf_find(b->m->file, key);
    if (!kv || kv->type != RF_GGUF_ARRAY || !is_integer(kv->elem_type)) return false;
    if (kv->n == 0 || kv->n != b->m->n_layers) {
        rf_bind_fail(b, RF_EFORMAT,
                     "key %s has %llu values, expected one, or one for each of %u layers", key,
                     (unsigned long long)kv->n, b->m->n_layers);
        return true;
    }
    uint64_t first = rf_gguf_elem_u64(kv, 0);
    for (uint64_t i = 1; i < kv->n; i++) {
        uint64_t v = rf_gguf_elem_u64(kv, i);
        if (v == first) continue;
        rf_bind_fail(b, RF_EUNSUPPORTED,
                     "key %s is %llu in layer 0 and %llu in layer %llu; layers of different shape "
                     "are not supported",
                     key, (unsigned long long)first, (unsigned long long)v, (unsigned long long)i);
        return true;
    }
    *out = first > UINT32_MAX ? UINT32_MAX : (uint32_t)first;
    return true;
}

static void read_u32(rf_binder *b, const char *key, uint32_t *out, bool *found) {
    if (read_per_layer(b, key, out)) {
        *found = true;
        return;
    }
    rf_status s = rf_gguf_get_u32(b->m->file, key, out, found, b->e);
    if (s != RF_OK) b->status = s;
}

uint32_t rf_bind_u32(rf_binder *b, const char *name, uint32_t fallback, uint32_t max) {
    if (b->status != RF_OK) return 0;
    key_name k = key_of(b, name);
    uint32_t v = fallback;
    bool found = false;
    read_u32(b, k.text, &v, &found);
    if (b->status != RF_OK) return 0;
    if (!found && fallback == 0)
        rf_bind_fail(b, RF_EFORMAT, "key %s is missing; convert the model again", k.text);
    else if (v == 0 || v > max)
        rf_bind_fail(b, RF_EFORMAT, "key %s is %u, expected 1 to %u", k.text, v, max);
    return b->status == RF_OK ? v : 0;
}

uint32_t rf_bind_optional_u32(rf_binder *b, const char *name, uint32_t max) {
    if (b->status != RF_OK) return 0;
    key_name k = key_of(b, name);
    uint32_t v = 0;
    bool found = false;
    read_u32(b, k.text, &v, &found);
    if (v > max) rf_bind_fail(b, RF_EFORMAT, "key %s is %u, expected 0 to %u", k.text, v, max);
    return b->status == RF_OK ? v : 0;
}

/* Element by element of an array of n_layers. */
static void read_layers(rf_binder *b, const rf_gguf_kv *kv, const char *key, uint32_t max,
                        uint32_t *out) {
    bool whole = is_integer(kv->elem_type) || kv->elem_type == RF_GGUF_BOOL;
    if (!whole || kv->n < b->m->n_layers) {
        rf_bind_fail(
            b, RF_EFORMAT,
            "key %s has %llu values, expected a whole number, or one for each of %u layers", key,
            (unsigned long long)kv->n, b->m->n_layers);
        return;
    }
    for (uint32_t il = 0; il < b->m->n_layers; il++) {
        uint64_t v = rf_gguf_elem_u64(kv, il);
        if (v > max) {
            rf_bind_fail(b, RF_EFORMAT, "key %s is %llu in layer %u, expected 0 to %u", key,
                         (unsigned long long)v, il, max);
            return;
        }
        out[il] = (uint32_t)v;
    }
}

bool rf_bind_layers_u32(rf_binder *b, const char *name, uint32_t max, uint32_t *out) {
    if (b->status != RF_OK) return false;
    key_name k = key_of(b, name);
    const rf_gguf_kv *kv = rf_gguf_find(b->m->file, k.text);
    if (!kv) return false;
    if (kv->type == RF_GGUF_ARRAY) {
        read_layers(b, kv, k.text, max, out);
        return true;
    }
    uint32_t v = rf_bind_optional_u32(b, name, max);
    for (uint32_t il = 0; il < b->m->n_layers; il++)
        out[il] = v;
    return true;
}

static float read_f32(rf_binder *b, const char *key, float fallback, bool *found) {
    float v = fallback;
    rf_status s = rf_gguf_get_f32(b->m->file, key, &v, found, b->e);
    if (s != RF_OK) b->status = s;
    return v;
}

float rf_bind_any_f32(rf_binder *b, const char *name, float fallback) {
    if (b->status != RF_OK) return fallback;
    return read_f32(b, key_of(b, name).text, fallback, NULL);
}

float rf_bind_f32(rf_binder *b, const char *name, float fallback) {
    if (b->status != RF_OK) return 1;
    key_name k = key_of(b, name);
    bool found = false;
    float v = read_f32(b, k.text, fallback, &found);
    if (!found && !(fallback > 0))
        rf_bind_fail(b, RF_EFORMAT, "key %s is missing; convert the model again", k.text);
    else if (!isfinite(v) || !(v > 0))
        rf_bind_fail(b, RF_EFORMAT, "key %s is %g, expected a positive number", k.text, (double)v);
    return b->status == RF_OK ? v : 1;
}

float rf_bind_optional_f32(rf_binder *b, const char *name) {
    if (b->status != RF_OK) return 0;
    key_name k = key_of(b, name);
    float v = read_f32(b, k.text, 0, NULL);
    if (!isfinite(v) || v < 0)
        rf_bind_fail(b, RF_EFORMAT, "key %s is %g, expected 0 or a positive number", k.text,
                     (double)v);
    return b->status == RF_OK ? v : 0;
}

rf_str rf_bind_str(rf_binder *b, const char *name, const char *fallback) {
    rf_str v = rf_str_of(fallback);
    if (b->status != RF_OK) return v;
    key_name k = key_of(b, name);
    rf_status s = rf_gguf_get_str(b->m->file, k.text, &v, NULL, b->e);
    if (s != RF_OK) b->status = s;
    return v;
}

bool rf_bind_bool(rf_binder *b, const char *name, bool fallback) {
    bool v = fallback;
    if (b->status != RF_OK) return v;
    key_name k = key_of(b, name);
    rf_status s = rf_gguf_get_bool(b->m->file, k.text, &v, NULL, b->e);
    if (s != RF_OK) b->status = s;
    return v;
}

typedef struct shape_text {
    char text[96];
} shape_text;

/* A shape as [..][rows][cols], planes only where there are several. */
static shape_text shape_of(const uint64_t ne[RF_GGUF_MAX_DIMS]) {
    shape_text t;
    size_t n = 0;
    int dims = ne[3] != 1 ? 4 : ne[2] != 1 ? 3 : 2;
    for (int i = dims - 1; i >= 0; i--)
        n += (size_t)snprintf(t.text + n, sizeof t.text - n, "[%llu]", (unsigned long long)ne[i]);
    return t;
}

static bool check_tensor(rf_binder *b, const rf_gguf_tensor *t, const rf_tensor *want,
                         size_t *row_bytes) {
    uint32_t cols = want->cols;
    if (t->ne[0] != cols || t->ne[1] != want->rows || t->ne[2] != want->planes || t->ne[3] != 1) {
        rf_bind_fail(b, RF_EFORMAT,
                     "tensor %.*s at byte %llu has shape %s, expected %s by the metadata; the file "
                     "is damaged or was converted wrongly",
                     RF_STR_ARG(t->name), (unsigned long long)t->offset, shape_of(t->ne).text,
                     shape_of((uint64_t[]){cols, want->rows, want->planes, 1}).text);
        return false;
    }
    const rf_dtype_info *info = rf_dtype_get(t->type);
    if (!info->decode) {
        rf_bind_fail(b, RF_EUNSUPPORTED, "tensor %.*s is of type %s, expected a format of weights",
                     RF_STR_ARG(t->name), info->name);
        return false;
    }
    size_t bytes = 0;
    if (!rf_dtype_bytes(t->type, cols, row_bytes) || !rf_mul_ok(*row_bytes, want->rows, &bytes) ||
        !rf_mul_ok(bytes, want->planes, &bytes) || bytes != t->n_bytes || !t->data) {
        rf_bind_fail(b, RF_EFORMAT,
                     "tensor %.*s has rows of %u values, which %s cannot hold (blocks of %u)",
                     RF_STR_ARG(t->name), cols, info->name, info->block_elems);
        return false;
    }
    return true;
}

static const rf_tensor *new_tensor(rf_binder *b, rf_tensor t) {
    rf_tensor *w = rf_arena_alloc(b->m->arena, 1, sizeof *w);
    if (w)
        *w = t;
    else
        b->status = rf_fail_nomem(b->e, sizeof *w);
    return w;
}

/* The tensor called name, which must be shaped like want. */
static const rf_tensor *take(rf_binder *b, rf_need need, rf_tensor want, const char *name) {
    const rf_gguf_tensor *t = rf_gguf_find_tensor(b->m->file, name);
    if (!t) {
        if (need == RF_NEED)
            rf_bind_fail(b, RF_EFORMAT,
                         "tensor %s, shape %s, is missing; a %s model of %u layers needs it", name,
                         shape_of((uint64_t[]){want.cols, want.rows, want.planes, 1}).text,
                         b->m->arch->name, b->m->n_layers);
        return NULL;
    }
    if (!check_tensor(b, t, &want, &want.row_bytes)) return NULL;
    want.name = t->name;
    want.type = t->type;
    want.data = t->data;
    uint32_t old = RF_MAP_NONE;
    if (rf_map_put(b->bound, t->name, 0, &old) != RF_OK) {
        b->status = rf_fail_nomem(b->e, t->name.len);
        return NULL;
    }
    if (old == RF_MAP_NONE) {
        b->m->n_params += (uint64_t)want.planes * want.rows * want.cols;
        b->m->weight_bytes += t->n_bytes;
    }
    return new_tensor(b, want);
}

const rf_tensor *rf_bind_tensor(rf_binder *b, rf_need need, uint32_t rows, uint32_t cols,
                                const char *name_fmt, ...) {
    if (b->status != RF_OK) return NULL;
    char name[RF_GGUF_MAX_NAME + 1];
    va_list args;
    va_start(args, name_fmt);
    int n = vsnprintf(name, sizeof name, name_fmt, args);
    va_end(args);
    RF_ASSERT(n > 0 && (size_t)n < sizeof name);
    return take(b, need, (rf_tensor){.cols = cols, .rows = rows, .planes = 1}, name);
}

const rf_tensor *rf_bind_planes(rf_binder *b, rf_need need, uint32_t planes, uint32_t rows,
                                uint32_t cols, const char *name_fmt, ...) {
    if (b->status != RF_OK) return NULL;
    char name[RF_GGUF_MAX_NAME + 1];
    va_list args;
    va_start(args, name_fmt);
    int n = vsnprintf(name, sizeof name, name_fmt, args);
    va_end(args);
    RF_ASSERT(n > 0 && (size_t)n < sizeof name);
    return take(b, need, (rf_tensor){.cols = cols, .rows = rows, .planes = planes}, name);
}

const rf_tensor *rf_bind_part(rf_binder *b, const rf_tensor *w, uint32_t first, uint32_t n) {
    if (b->status != RF_OK || !w) return NULL;
    RF_ASSERT(w->planes == 1);
    rf_tensor part = *w;
    size_t skip = 0;
    if (w->rows > 1) {
        RF_ASSERT(first <= w->rows && n <= w->rows - first);
        part.rows = n;
        skip = first * w->row_bytes;
    } else {
        RF_ASSERT(first <= w->cols && n <= w->cols - first);
        part.cols = n;
        if (!rf_dtype_bytes(w->type, first, &skip) ||
            !rf_dtype_bytes(w->type, n, &part.row_bytes)) {
            rf_bind_fail(b, RF_EUNSUPPORTED,
                         "tensor %.*s of type %s cannot be divided at %u and %u; expected F32",
                         RF_STR_ARG(w->name), rf_dtype_get(w->type)->name, first, first + n);
            return NULL;
        }
    }
    part.data = (const uint8_t *)w->data + skip;
    return new_tensor(b, part);
}

const rf_tensor *rf_bind_flat(rf_binder *b, const rf_tensor *w) {
    if (b->status != RF_OK || !w) return NULL;
    RF_ASSERT(w->planes == 1);
    rf_tensor flat = *w;
    flat.cols = w->rows * w->cols;
    flat.rows = 1;
    flat.row_bytes = w->rows * w->row_bytes;
    if (!rf_dtype_get(w->type)->is_block) return new_tensor(b, flat);
    rf_bind_fail(b, RF_EUNSUPPORTED, "tensor %.*s is of type %s, expected F32, F16 or BF16",
                 RF_STR_ARG(w->name), rf_dtype_get(w->type)->name);
    return NULL;
}
