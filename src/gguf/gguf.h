/* gguf.h - reading GGUF v2 and v3 files: metadata and a directory of tensors over a memory map.
 *
 * Strict and bounded: everything is checked before it is believed, and no allocation is larger
 * than the file justifies.  Strings, arrays and tensor data are borrowed from the map and live as
 * long as the rf_gguf.  Once open it is read-only and may be used by many threads.
 * Format: github.com/ggml-org/ggml, docs/gguf.md. */
#pragma once
#include "base/base.h"
#include "base/digest.h"
#include "quant/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RF_GGUF_MAX_DIMS = 4,
    RF_GGUF_MAX_NAME = 63,   /* bytes of a tensor name */
    RF_GGUF_MAX_KEY = 65535, /* bytes of a metadata key */
    RF_GGUF_MAX_SPLITS = 1024,
    RF_GGUF_MAX_KEYS = 1 << 20,
    RF_GGUF_MAX_TENSORS = 1 << 20, /* all splits together */
    RF_GGUF_MAX_ALIGNMENT = 1 << 24,
};

typedef enum rf_gguf_type {
    RF_GGUF_U8,
    RF_GGUF_I8,
    RF_GGUF_U16,
    RF_GGUF_I16,
    RF_GGUF_U32,
    RF_GGUF_I32,
    RF_GGUF_F32,
    RF_GGUF_BOOL,
    RF_GGUF_STRING,
    RF_GGUF_ARRAY,
    RF_GGUF_U64,
    RF_GGUF_I64,
    RF_GGUF_F64,
} rf_gguf_type;
const char *rf_gguf_type_name(rf_gguf_type t);

typedef struct rf_gguf_kv {
    rf_str key;
    rf_gguf_type type;
    rf_gguf_type elem_type; /* of an array */
    uint64_t n;             /* elements of an array, else 1 */
    const uint8_t *data;    /* first element in the file, unaligned; strings: u64 length + bytes */
    uint64_t offset;        /* of the key in its file, for messages */
} rf_gguf_kv;

typedef struct rf_gguf_tensor {
    rf_str name;
    rf_dtype type;
    uint32_t n_dims;
    uint64_t ne[RF_GGUF_MAX_DIMS]; /* fastest first, as in the file; unused ones are 1 */
    const uint8_t *data;           /* inside the map; NULL when n_bytes is 0 */
    uint64_t n_bytes;
    uint64_t offset; /* of the data from the start of its file */
    uint32_t split;  /* which file */
} rf_gguf_tensor;

typedef struct rf_gguf rf_gguf;

/* Opens path; where it is one of NAME-00001-of-000NN.gguf, all of them.  Keys and tensors come part
 * after part; a key that several parts have must have one value, except split.* and the alignment,
 * which are those of the first part. */
RF_CHECKED rf_status rf_gguf_open(rf_gguf **out, const char *path, rf_error *e);
/* The same over borrowed bytes (tests, fuzzing); one file only. */
RF_CHECKED rf_status rf_gguf_open_memory(rf_gguf **out, const void *p, size_t n, rf_error *e);
void rf_gguf_close(rf_gguf *g); /* NULL is fine */

const char *rf_gguf_path(const rf_gguf *g);
uint32_t rf_gguf_version(const rf_gguf *g);
uint32_t rf_gguf_n_splits(const rf_gguf *g);
uint64_t rf_gguf_file_bytes(const rf_gguf *g); /* all splits */
uint32_t rf_gguf_alignment(const rf_gguf *g);

size_t rf_gguf_n_kv(const rf_gguf *g);
const rf_gguf_kv *rf_gguf_kv_at(const rf_gguf *g, size_t i);
const rf_gguf_kv *rf_gguf_find(const rf_gguf *g, const char *key); /* NULL when absent */
size_t rf_gguf_n_tensors(const rf_gguf *g);
const rf_gguf_tensor *rf_gguf_tensor_at(const rf_gguf *g, size_t i);
const rf_gguf_tensor *rf_gguf_find_tensor(const rf_gguf *g, const char *name);

/* Typed access.  Absent: *out keeps its value, *found (may be NULL) is false, RF_OK.  Present with
 * a wrong type or out of range: RF_EFORMAT naming the key, both types and the offset.  Integer
 * getters take any integer type whose value fits; get_f32 takes F32 and F64. */
RF_CHECKED rf_status rf_gguf_get_u32(const rf_gguf *g, const char *key, uint32_t *out, bool *found,
                                     rf_error *e);
RF_CHECKED rf_status rf_gguf_get_u64(const rf_gguf *g, const char *key, uint64_t *out, bool *found,
                                     rf_error *e);
RF_CHECKED rf_status rf_gguf_get_f32(const rf_gguf *g, const char *key, float *out, bool *found,
                                     rf_error *e);
RF_CHECKED rf_status rf_gguf_get_bool(const rf_gguf *g, const char *key, bool *out, bool *found,
                                      rf_error *e);
RF_CHECKED rf_status rf_gguf_get_str(const rf_gguf *g, const char *key, rf_str *out, bool *found,
                                     rf_error *e);
/* An array of exactly this element type; NULL in *out when absent. */
RF_CHECKED rf_status rf_gguf_get_array(const rf_gguf *g, const char *key, rf_gguf_type elem_type,
                                       const rf_gguf_kv **out, rf_error *e);

/* Elements of arrays (or the scalar itself, i = 0); i < n.  For strings walk with a cursor: start
 * from kv->data; each call returns one string and moves *cursor on. */
uint64_t rf_gguf_elem_u64(const rf_gguf_kv *kv,
                          uint64_t i); /* integer types and bool; negative values wrap */
double rf_gguf_elem_f64(const rf_gguf_kv *kv, uint64_t i); /* any number */
rf_str rf_gguf_next_str(const uint8_t **cursor);
bool rf_gguf_kv_equal(const rf_gguf_kv *a, const rf_gguf_kv *b); /* type and value */

/* A digest of all metadata, the shapes of all tensors and samples of their data: the same for the same
 * model however it is split, in milliseconds.  Not of all bytes. */
RF_CHECKED rf_status rf_gguf_fingerprint(const rf_gguf *g, char out[RF_SHA256_HEX]);

#ifdef __cplusplus
}
#endif
