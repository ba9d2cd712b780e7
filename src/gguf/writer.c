/* writer.c - writes GGUF v3: keys and tensor directory are gathered in memory, data is streamed.
 *
 * With the first data the tensors are dealt out to files, in order: one, or several when limits are
 * set.  All files get their names at the end.  The writer refuses what our reader would refuse (wrong names, dimensions, duplicates), so a file
 * that it finished can be read.  It owns copies of all names; values are encoded at once. */
#include "gguf/writer.h"

#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "gguf/cursor.h"
#include "gguf/internal.h"

typedef struct out_tensor {
    rf_str name;
    uint64_t n_bytes;
    size_t dir_end; /* its entry in dir, which lacks the offset, ends here */
    uint32_t part;
} out_tensor;

struct rf_gguf_writer {
    char *path;
    rf_outfile **files;                   /* [n_files] begun so far, of cap_files */
    uint32_t n_files, cap_files, n_begun; /* n_begun: have their head on disk */
    uint32_t n_parts;                     /* 0: not yet dealt out */
    bool is_split;
    uint64_t max_bytes, max_tensors; /* of a part; 0: no limit */
    rf_arena *names;
    rf_map *keys, *tensor_names;
    uint64_t n_keys;
    rf_buf kv, dir;      /* encoded keys; encoded directory without offsets */
    out_tensor *tensors; /* [n_tensors], of cap_tensors */
    size_t n_tensors, cap_tensors;
    uint64_t data_bytes; /* declared so far, padding included */
    uint32_t alignment;
    size_t current; /* the tensor that the next bytes belong to */
    uint64_t done;  /* its bytes so far */
};

static void writer_free(rf_gguf_writer *w) {
    for (uint32_t i = 0; i < w->n_files; i++)
        rf_outfile_abort(w->files[i]);
    rf_free(w->files);
    rf_free(w->path);
    rf_map_free(w->keys);
    rf_map_free(w->tensor_names);
    rf_arena_free(w->names);
    rf_buf_free(&w->kv);
    rf_buf_free(&w->dir);
    rf_free(w->tensors);
    rf_free(w);
}

void rf_gguf_writer_abort(rf_gguf_writer *w) {
    if (w) writer_free(w);
}

/* Makes room for one more file and opens it there. */
static rf_status add_file(rf_gguf_writer *w, const char *path, rf_error *e) {
    if (w->n_files == w->cap_files) {
        uint32_t cap = w->cap_files ? 2 * w->cap_files : 4;
        void *p = rf_realloc(w->files, w->cap_files, cap, sizeof w->files[0]);
        if (!p) return rf_fail_nomem(e, cap * sizeof w->files[0]);
        w->files = p;
        w->cap_files = cap;
    }
    RF_TRY(rf_outfile_open(&w->files[w->n_files], path, e));
    w->n_files++;
    return RF_OK;
}

static rf_status open_parts(rf_gguf_writer *w, const char *path, rf_error *e) {
    w->path = rf_gguf_strdup(path);
    if (!w->path) return rf_fail_nomem(e, strlen(path) + 1);
    if (rf_arena_create(&w->names) != RF_OK || rf_map_create(&w->keys, 64) != RF_OK ||
        rf_map_create(&w->tensor_names, 64) != RF_OK) {
        return rf_fail(e, RF_ENOMEM, "%s: out of memory for the index of names", path);
    }
    RF_TRY(add_file(w, path, e));
    if (w->alignment == RF_GGUF_DEFAULT_ALIGNMENT) return RF_OK;
    return rf_gguf_put_u32(w, "general.alignment", w->alignment, e);
}

rf_status rf_gguf_writer_open(rf_gguf_writer **out, const char *path, uint32_t alignment,
                              rf_error *e) {
    if (alignment == 0 || (alignment & (alignment - 1)) || alignment > RF_GGUF_MAX_ALIGNMENT) {
        return rf_fail(
            e, RF_EARG,
            "%s: expected an alignment that is a power of two of at most %d, got %" PRIu32, path,
            RF_GGUF_MAX_ALIGNMENT, alignment);
    }
    rf_gguf_writer *w = rf_alloc(1, sizeof *w);
    if (!w) return rf_fail_nomem(e, sizeof *w);
    w->alignment = alignment;
    rf_status s = open_parts(w, path, e);
    if (s != RF_OK) {
        writer_free(w);
        return s;
    }
    *out = w;
    return RF_OK;
}

void rf_gguf_writer_split(rf_gguf_writer *w, uint64_t max_bytes, uint64_t max_tensors) {
    RF_ASSERT(w->n_parts == 0 && w->n_files <= 1);
    for (; w->n_files; w->n_files--) /* the parts have names of their own */
        rf_outfile_abort(w->files[w->n_files - 1]);
    w->is_split = true;
    w->max_bytes = max_bytes;
    w->max_tensors = max_tensors;
}

static void put_le(rf_buf *b, uint64_t v, unsigned n) {
    uint8_t bytes[8];
    rf_store_le(bytes, v, n);
    rf_buf_put(b, bytes, n);
}

static void put_str(rf_buf *b, rf_str s) {
    put_le(b, s.len, 8);
    rf_buf_put(b, s.p, s.len);
}

static rf_status check_buf(const rf_buf *b, rf_error *e) {
    return b->failed ? rf_fail(e, RF_ENOMEM, "out of memory for the metadata of a GGUF file")
                     : RF_OK;
}

/* Takes a new name into an index; a second time is the caller's mistake. */
static rf_status claim(rf_gguf_writer *w, rf_map *map, const char *kind, rf_str name, size_t max,
                       rf_error *e) {
    if (w->n_parts) {
        return rf_fail(e, RF_EARG, "%s '%.*s': data was already written, add it before", kind,
                       RF_STR_ARG(name));
    }
    if (name.len == 0 || name.len > max || memchr(name.p, 0, name.len)) {
        return rf_fail(e, RF_EARG,
                       "%s '%.*s': expected a name of 1 to %zu bytes without NUL, got %zu bytes",
                       kind, name.len > 80 ? 80 : (int)name.len, name.p, max, name.len);
    }
    if (rf_map_get(map, name) != RF_MAP_NONE) {
        return rf_fail(e, RF_EARG, "%s '%.*s': expected every %s once, got it again", kind,
                       name.len > 80 ? 80 : (int)name.len, name.p, kind);
    }
    rf_str copy = rf_arena_str(w->names, name);
    if (!copy.p) return rf_fail_nomem(e, name.len + 1);
    rf_status s = rf_map_put(map, copy, 0, NULL);
    return s == RF_OK ? RF_OK : rf_fail(e, s, "out of memory for the index of names");
}

static rf_status claim_key(rf_gguf_writer *w, rf_str key, rf_error *e) {
    if (w->n_keys >= RF_GGUF_MAX_KEYS) {
        return rf_fail(e, RF_EARG, "expected at most %d keys, got more", RF_GGUF_MAX_KEYS);
    }
    RF_TRY(claim(w, w->keys, "key", key, RF_GGUF_MAX_KEY, e));
    w->n_keys++;
    put_str(&w->kv, key);
    return RF_OK;
}

/* True when the key is the alignment, which the writer itself has settled. */
static bool is_known_alignment(const rf_gguf_writer *w, rf_str key, uint64_t v) {
    return rf_str_is(key, "general.alignment") && v == w->alignment &&
           (w->alignment == RF_GGUF_DEFAULT_ALIGNMENT || rf_map_get(w->keys, key) != RF_MAP_NONE);
}

static rf_status check_alignment(const rf_gguf_writer *w, rf_str key, bool is_u32, uint64_t v,
                                 rf_error *e) {
    if (!rf_str_is(key, "general.alignment") || (is_u32 && v == w->alignment)) return RF_OK;
    return rf_fail(e, RF_EARG,
                   "key 'general.alignment': expected u32 %" PRIu32
                   " as the writer was opened with, got another value",
                   w->alignment);
}

/* A scalar of n bytes (at most 8), given as its bits. */
static rf_status put_scalar(rf_gguf_writer *w, const char *key, rf_gguf_type type, uint64_t bits,
                            rf_error *e) {
    rf_str name = rf_str_of(key);
    RF_TRY(check_alignment(w, name, type == RF_GGUF_U32, bits, e));
    if (is_known_alignment(w, name, bits)) return RF_OK;
    RF_TRY(claim_key(w, name, e));
    put_le(&w->kv, type, 4);
    put_le(&w->kv, bits, rf_gguf_type_bytes(type));
    return check_buf(&w->kv, e);
}

rf_status rf_gguf_put_u32(rf_gguf_writer *w, const char *key, uint32_t v, rf_error *e) {
    return put_scalar(w, key, RF_GGUF_U32, v, e);
}

rf_status rf_gguf_put_f32(rf_gguf_writer *w, const char *key, float v, rf_error *e) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return put_scalar(w, key, RF_GGUF_F32, bits, e);
}

rf_status rf_gguf_put_bool(rf_gguf_writer *w, const char *key, bool v, rf_error *e) {
    return put_scalar(w, key, RF_GGUF_BOOL, v, e);
}

rf_status rf_gguf_put_str(rf_gguf_writer *w, const char *key, rf_str v, rf_error *e) {
    RF_TRY(check_alignment(w, rf_str_of(key), false, 0, e));
    RF_TRY(claim_key(w, rf_str_of(key), e));
    put_le(&w->kv, RF_GGUF_STRING, 4);
    put_str(&w->kv, v);
    return check_buf(&w->kv, e);
}

static rf_status put_array_head(rf_gguf_writer *w, rf_str key, rf_gguf_type elem, uint64_t n,
                                rf_error *e) {
    RF_TRY(check_alignment(w, key, false, 0, e));
    RF_TRY(claim_key(w, key, e));
    put_le(&w->kv, RF_GGUF_ARRAY, 4);
    put_le(&w->kv, elem, 4);
    put_le(&w->kv, n, 8);
    return RF_OK;
}

rf_status rf_gguf_put_str_array(rf_gguf_writer *w, const char *key, const rf_str *v, size_t n,
                                rf_error *e) {
    RF_TRY(put_array_head(w, rf_str_of(key), RF_GGUF_STRING, n, e));
    for (size_t i = 0; i < n; i++)
        put_str(&w->kv, v[i]);
    return check_buf(&w->kv, e);
}

static bool are_bools(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (p[i] > 1) return false;
    }
    return true;
}

rf_status rf_gguf_put_array(rf_gguf_writer *w, const char *key, rf_gguf_type elem, const void *v,
                            size_t n, rf_error *e) {
    size_t size = rf_gguf_type_bytes(elem), bytes;
    if (size == 0 || !rf_mul_ok(n, size, &bytes) ||
        (elem == RF_GGUF_BOOL && !are_bools((const uint8_t *)v, n))) {
        return rf_fail(
            e, RF_EARG,
            "key '%s': expected an array of numbers, or of bools of 0 and 1, got %zu of %s", key, n,
            rf_gguf_type_name(elem));
    }
    RF_TRY(put_array_head(w, rf_str_of(key), elem, n, e));
    if (bytes) rf_buf_put(&w->kv, v, bytes);
    return check_buf(&w->kv, e);
}

rf_status rf_gguf_put_kv(rf_gguf_writer *w, const rf_gguf_kv *kv, rf_error *e) {
    bool is_u32 = kv->type == RF_GGUF_U32;
    uint64_t v = is_u32 ? rf_gguf_elem_u64(kv, 0) : 0;
    RF_TRY(check_alignment(w, kv->key, is_u32, v, e));
    if (is_u32 && is_known_alignment(w, kv->key, v)) return RF_OK;
    if (kv->type == RF_GGUF_ARRAY) {
        RF_TRY(put_array_head(w, kv->key, kv->elem_type, kv->n, e));
    } else {
        RF_TRY(claim_key(w, kv->key, e));
        put_le(&w->kv, kv->type, 4);
    }
    size_t bytes = rf_gguf_value_bytes(kv);
    if (bytes) rf_buf_put(&w->kv, kv->data, bytes);
    return check_buf(&w->kv, e);
}

static uint64_t padded(const rf_gguf_writer *w, uint64_t n) {
    uint64_t mask = w->alignment - 1;
    return n + ((0 - n) & mask);
}

/* Bytes of a tensor, refused where a reader would refuse it. */
static rf_status measure(rf_str name, rf_dtype type, uint32_t n_dims, const uint64_t *ne,
                         uint64_t *out, rf_error *e) {
    uint64_t product = 1, n = 1;
    if (n_dims > RF_GGUF_MAX_DIMS) {
        return rf_fail(e, RF_EARG, "tensor '%.*s': expected at most %d dimensions, got %" PRIu32,
                       RF_STR_ARG(name), RF_GGUF_MAX_DIMS, n_dims);
    }
    for (uint32_t i = 0; i < n_dims; i++) {
        n *= ne[i]; /* right wherever product is */
        if (__builtin_mul_overflow(product, ne[i] ? ne[i] : 1, &product) || product > INT64_MAX) {
            return rf_fail(e, RF_EARG, "tensor '%.*s': expected fewer than 2^63 elements, got more",
                           RF_STR_ARG(name));
        }
    }
    const rf_dtype_info *info = rf_dtype_get(type);
    size_t bytes;
    if ((n_dims ? ne[0] : 1) % info->block_elems != 0 || !rf_dtype_bytes(type, n, &bytes)) {
        return rf_fail(e, RF_EARG,
                       "tensor '%.*s': expected rows of a multiple of %" PRIu32
                       " elements for %s, got %" PRIu64,
                       RF_STR_ARG(name), info->block_elems, info->name, n_dims ? ne[0] : 1);
    }
    *out = bytes;
    return RF_OK;
}

rf_status rf_gguf_declare(rf_gguf_writer *w, rf_str name, rf_dtype type, uint32_t n_dims,
                          const uint64_t *ne, rf_error *e) {
    uint64_t bytes = 0, end;
    RF_TRY(claim(w, w->tensor_names, "tensor", name, RF_GGUF_MAX_NAME, e));
    RF_TRY(measure(name, type, n_dims, ne, &bytes, e));
    if (__builtin_add_overflow(w->data_bytes, bytes, &end) || end > INT64_MAX / 2 ||
        w->n_tensors >= RF_GGUF_MAX_TENSORS) {
        return rf_fail(e, RF_EARG,
                       "tensor '%.*s': expected at most %d tensors and 2^62 bytes in all",
                       RF_STR_ARG(name), RF_GGUF_MAX_TENSORS);
    }
    if (w->n_tensors == w->cap_tensors) {
        size_t cap = w->cap_tensors ? 2 * w->cap_tensors : 64;
        void *p = rf_realloc(w->tensors, w->cap_tensors, cap, sizeof w->tensors[0]);
        if (!p) return rf_fail_nomem(e, cap * sizeof w->tensors[0]);
        w->tensors = p;
        w->cap_tensors = cap;
    }
    rf_str copy = rf_arena_str(w->names, name);
    if (!copy.p) return rf_fail_nomem(e, name.len + 1);
    put_str(&w->dir, name);
    put_le(&w->dir, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++)
        put_le(&w->dir, ne[i], 8);
    put_le(&w->dir, rf_dtype_get(type)->id, 4);
    w->tensors[w->n_tensors++] = (out_tensor){copy, bytes, w->dir.len, 0};
    w->data_bytes = padded(w, end);
    return check_buf(&w->dir, e);
}

/* ---- files ---- */

/* The bytes of a tensor's directory entry, its offset included. */
static size_t entry_bytes(const rf_gguf_writer *w, size_t i) {
    return w->tensors[i].dir_end - (i ? w->tensors[i - 1].dir_end : 0) + 8;
}

/* Deals the tensors out.  Keys but those of the split itself are in the first part only. */
static rf_status deal_out(rf_gguf_writer *w, rf_error *e) {
    enum { HEAD_BYTES = 24, SPLIT_KEY_BYTES = 128 };
    uint64_t bytes = HEAD_BYTES + SPLIT_KEY_BYTES + w->kv.len, n_tensors = 0;
    uint32_t part = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        uint64_t more = entry_bytes(w, i) + padded(w, w->tensors[i].n_bytes);
        bool is_full = w->max_bytes && bytes + more + w->alignment > w->max_bytes;
        if (n_tensors && (is_full || (w->max_tensors && n_tensors == w->max_tensors))) {
            part++;
            bytes = HEAD_BYTES + SPLIT_KEY_BYTES;
            n_tensors = 0;
        }
        w->tensors[i].part = part;
        bytes += more;
        n_tensors++;
    }
    if (part >= RF_GGUF_MAX_SPLITS) {
        return rf_fail(e, RF_EARG,
                       "%s: expected at most %d parts, got %" PRIu32 "; allow larger ones", w->path,
                       RF_GGUF_MAX_SPLITS, part + 1);
    }
    w->n_parts = part + 1;
    return RF_OK;
}

static rf_status open_part(rf_gguf_writer *w, uint32_t no, rf_error *e) {
    static const char suffix[] = ".gguf";
    size_t len = strlen(w->path), n = sizeof suffix - 1;
    if (!w->is_split) return RF_OK; /* opened from the start */
    if (w->n_parts == 1) return add_file(w, w->path, e);
    if (len > n && strcmp(w->path + len - n, suffix) == 0) len -= n;
    char *path = rf_gguf_split_path(w->path, len, no, w->n_parts);
    if (!path) return rf_fail_nomem(e, len + 32);
    rf_status s = add_file(w, path, e);
    rf_free(path);
    return s;
}

static void put_number(rf_buf *b, const char *key, rf_gguf_type type, uint64_t v) {
    put_str(b, rf_str_of(key));
    put_le(b, type, 4);
    put_le(b, v, rf_gguf_type_bytes(type));
}

/* The keys of part no; their number. */
static uint64_t put_keys(const rf_gguf_writer *w, uint32_t no, rf_buf *out) {
    uint64_t n = 0;
    if (no == 0) {
        if (w->kv.len) rf_buf_put(out, w->kv.p, w->kv.len);
        n = w->n_keys;
    } else if (w->alignment != RF_GGUF_DEFAULT_ALIGNMENT) {
        put_number(out, "general.alignment", RF_GGUF_U32, w->alignment);
        n = 1;
    }
    if (w->n_parts == 1) return n;
    put_number(out, "split.no", RF_GGUF_U16, no);
    put_number(out, "split.count", RF_GGUF_U16, w->n_parts);
    put_number(out, "split.tensors.count", RF_GGUF_I32, w->n_tensors);
    return n + 3;
}

/* The directory of part no; the number of its tensors. */
static uint64_t put_directory(const rf_gguf_writer *w, uint32_t no, rf_buf *out) {
    uint64_t n = 0, offset = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        if (w->tensors[i].part != no) continue;
        size_t len = entry_bytes(w, i) - 8;
        rf_buf_put(out, w->dir.p + w->tensors[i].dir_end - len, len);
        put_le(out, offset, 8);
        offset += padded(w, w->tensors[i].n_bytes);
        n++;
    }
    return n;
}

static rf_status write_padding(rf_gguf_writer *w, uint64_t at, rf_error *e) {
    static const uint8_t zeros[4096];
    uint64_t left = padded(w, at) - at;
    while (left) {
        size_t n = left < sizeof zeros ? (size_t)left : sizeof zeros;
        RF_TRY(rf_outfile_write(w->files[w->n_files - 1], zeros, n, e));
        left -= n;
    }
    return RF_OK;
}

static rf_status begin_part(rf_gguf_writer *w, uint32_t no, rf_error *e) {
    uint8_t head[24] = {'G', 'G', 'U', 'F', 3};
    rf_buf keys = {0}, directory = {0};
    rf_store_le(head + 16, put_keys(w, no, &keys), 8);
    rf_store_le(head + 8, put_directory(w, no, &directory), 8);
    rf_status s = check_buf(&keys, e);
    if (s == RF_OK) s = check_buf(&directory, e);
    if (s == RF_OK) s = open_part(w, no, e);
    rf_outfile *file = s == RF_OK ? w->files[no] : NULL;
    if (s == RF_OK) s = rf_outfile_write(file, head, sizeof head, e);
    if (s == RF_OK && keys.len) s = rf_outfile_write(file, keys.p, keys.len, e);
    if (s == RF_OK && directory.len) s = rf_outfile_write(file, directory.p, directory.len, e);
    if (s == RF_OK) s = write_padding(w, sizeof head + keys.len + directory.len, e);
    rf_buf_free(&keys);
    rf_buf_free(&directory);
    return s;
}

/* Begins all parts up to the one that holds tensor i (behind the last one: all). */
static rf_status reach(rf_gguf_writer *w, size_t i, rf_error *e) {
    if (w->n_parts == 0) {
        RF_TRY(check_buf(&w->kv, e));
        RF_TRY(check_buf(&w->dir, e));
        RF_TRY(deal_out(w, e));
    }
    uint32_t last = i < w->n_tensors ? w->tensors[i].part : w->n_parts - 1;
    for (; w->n_begun <= last; w->n_begun++)
        RF_TRY(begin_part(w, w->n_begun, e));
    return RF_OK;
}

static void skip_empty(rf_gguf_writer *w) {
    while (w->current < w->n_tensors && w->tensors[w->current].n_bytes == 0)
        w->current++;
}

rf_status rf_gguf_writer_data(rf_gguf_writer *w, const void *p, size_t n, rf_error *e) {
    RF_TRY(reach(w, 0, e));
    if (n == 0) return RF_OK; /* the whole data of an empty tensor */
    skip_empty(w);
    if (w->current == w->n_tensors) {
        return rf_fail(e, RF_EARG,
                       "expected no data behind the %zu declared tensors, got %zu bytes",
                       w->n_tensors, n);
    }
    const out_tensor *t = &w->tensors[w->current];
    if (n > t->n_bytes - w->done) {
        return rf_fail(e, RF_EARG,
                       "tensor '%.*s': expected at most %" PRIu64 " more bytes, got %zu",
                       RF_STR_ARG(t->name), t->n_bytes - w->done, n);
    }
    RF_TRY(reach(w, w->current, e));
    RF_TRY(rf_outfile_write(w->files[w->n_files - 1], p, n, e));
    w->done += n;
    if (w->done < t->n_bytes) return RF_OK;
    w->current++;
    w->done = 0;
    return write_padding(w, t->n_bytes, e);
}

static rf_status check_complete(rf_gguf_writer *w, rf_error *e) {
    RF_TRY(reach(w, w->n_tensors, e));
    skip_empty(w);
    if (w->current == w->n_tensors) return RF_OK;
    const out_tensor *t = &w->tensors[w->current];
    return rf_fail(e, RF_EARG, "tensor '%.*s': expected %" PRIu64 " bytes of data, got %" PRIu64,
                   RF_STR_ARG(t->name), t->n_bytes, w->done);
}

rf_status rf_gguf_writer_finish(rf_gguf_writer *w, rf_error *e) {
    uint32_t ignored;
    return rf_gguf_writer_finish_parts(w, &ignored, e);
}

rf_status rf_gguf_writer_finish_parts(rf_gguf_writer *w, uint32_t *n_parts, rf_error *e) {
    rf_status s = check_complete(w, e);
    *n_parts = w->n_parts;
    for (uint32_t i = 0; i < w->n_files && s == RF_OK; i++) {
        rf_outfile *file = w->files[i];
        w->files[i] = NULL; /* commit frees it */
        s = rf_outfile_commit(file, e);
    }
    writer_free(w);
    return s;
}
