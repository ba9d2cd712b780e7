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

static bool check_tensor(rf_binder *b, const rf_gguf_tensor *t, uint32_t rows, uint32_t cols,
                         size_t *row_bytes) {
    if (t->ne[0] != cols || t->ne[1] != rows || t->ne[2] != 1 || t->ne[3] != 1) {
        char planes[64] = "";
        if (t->ne[2] != 1 || t->ne[3] != 1)
            snprintf(planes, sizeof planes, "[%llu][%llu]", (unsigned long long)t->ne[3],
                     (unsigned long long)t->ne[2]);
        rf_bind_fail(b, RF_EFORMAT,
                     "tensor %.*s at byte %llu has shape %s[%llu][%llu], expected [%u][%u] by the "
                     "metadata; the file is damaged or was converted wrongly",
                     RF_STR_ARG(t->name), (unsigned long long)t->offset, planes,
                     (unsigned long long)t->ne[1], (unsigned long long)t->ne[0], rows, cols);
        return false;
    }
    const rf_dtype_info *info = rf_dtype_get(t->type);
    if (!info->decode) {
        rf_bind_fail(b, RF_EUNSUPPORTED, "tensor %.*s is of type %s, expected a format of weights",
                     RF_STR_ARG(t->name), info->name);
        return false;
    }
    size_t bytes = 0;
    if (!rf_dtype_bytes(t->type, cols, row_bytes) || !rf_mul_ok(*row_bytes, rows, &bytes) ||
        bytes != t->n_bytes || !t->data) {
        rf_bind_fail(b, RF_EFORMAT,
                     "tensor %.*s has rows of %u values, which %s cannot hold (blocks of %u)",
                     RF_STR_ARG(t->name), cols, info->name, info->block_elems);
        return false;
    }
    return true;
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

    const rf_gguf_tensor *t = rf_gguf_find_tensor(b->m->file, name);
    if (!t) {
        if (need == RF_NEED)
            rf_bind_fail(b, RF_EFORMAT,
                         "tensor %s, shape [%u][%u], is missing; a %s model of %u layers needs it",
                         name, rows, cols, b->m->arch->name, b->m->n_layers);
        return NULL;
    }
    size_t row_bytes = 0;
    if (!check_tensor(b, t, rows, cols, &row_bytes)) return NULL;
    rf_tensor *w = rf_arena_alloc(b->m->arena, 1, sizeof *w);
    if (!w || rf_map_put(b->bound, t->name, 0, NULL) != RF_OK) {
        b->status = rf_fail_nomem(b->e, sizeof *w);
        return NULL;
    }
    *w = (rf_tensor){.name = t->name,
                     .type = t->type,
                     .cols = cols,
                     .rows = rows,
                     .planes = 1,
                     .row_bytes = row_bytes,
                     .data = t->data};
    b->m->n_params += (uint64_t)rows * cols;
    b->m->weight_bytes += t->n_bytes;
    return w;
}
