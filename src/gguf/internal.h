/* internal.h - what the files of the room gguf share: the open file, its parts, the message helper.
 *
 * gguf.c owns opening and lookups, parse.c reads one part, split.c names the parts of a split file.
 * Nobody outside the room includes this. */
#pragma once
#include "base/map.h"
#include "base/os.h"
#include "gguf/gguf.h"

/* A key is at least a length, one byte, a type and one byte; a tensor a length, one byte, the
 * number of dimensions, a type and an offset: the bounds of every count. */
enum { RF_GGUF_MIN_KV_BYTES = 14, RF_GGUF_MIN_TENSOR_BYTES = 25, RF_GGUF_DEFAULT_ALIGNMENT = 32 };

typedef struct rf_gguf_part {
    rf_filemap map;
    bool is_mapped; /* ours to unmap */
    char *path;     /* owned */
    uint32_t version, alignment;
} rf_gguf_part;

/* Keys in file order and their index by name. */
typedef struct rf_gguf_keys {
    rf_gguf_kv *p; /* [n] */
    size_t n, cap;
    rf_map *index;
} rf_gguf_keys;

struct rf_gguf {
    char *path;          /* as given to open; owned */
    rf_gguf_part *parts; /* [n_parts], of cap_parts */
    uint32_t n_parts, cap_parts;
    rf_gguf_keys keys;
    rf_gguf_tensor *tensors; /* [n_tensors], of cap_tensors; part after part */
    size_t n_tensors, cap_tensors;
    rf_map *tensor_index;
};

/* Reads part `ip`: its keys into keys (empty before), its tensors behind those of g. */
RF_CHECKED rf_status rf_gguf_parse(rf_gguf *g, uint32_t ip, rf_gguf_keys *keys, rf_error *e);

/* Bytes of one element; 0 for strings and arrays. */
unsigned rf_gguf_type_bytes(rf_gguf_type t);
/* Bytes that the value takes in the file (for a scalar string: length and text). */
size_t rf_gguf_value_bytes(const rf_gguf_kv *kv);
const rf_gguf_kv *rf_gguf_keys_find(const rf_gguf_keys *keys, rf_str key);
/* An integer of any type that fits u64. */
RF_CHECKED rf_status rf_gguf_kv_u64(const rf_gguf_kv *kv, const char *path, uint64_t *out,
                                    rf_error *e);

/* The place of a failure: "key 'general.name'", "tensor 7" while the name is not yet read. */
typedef struct rf_gguf_place {
    const char *kind; /* "header", "key", "tensor" */
    rf_str name;      /* may be empty */
    uint64_t index;
} rf_gguf_place;
/* "PATH: offset N: PLACE: what happened"; names are shortened and made printable. */
rf_status rf_gguf_fail(rf_error *e, rf_status s, const char *path, uint64_t offset,
                       rf_gguf_place at, const char *fmt, ...) RF_PRINTF(6, 7);

/* PREFIX-00003-of-00007.gguf -> prefix length 6, no 2 (from 0), count 7. */
bool rf_gguf_split_name(const char *path, size_t *prefix_len, uint32_t *no, uint32_t *count);
/* The path of part `no` (from 0); NULL on lack of memory; free with rf_free. */
char *rf_gguf_split_path(const char *path, size_t prefix_len, uint32_t no, uint32_t count);
/* The file of g is read into g->keys: reads the other parts, or does nothing for a whole file. */
RF_CHECKED rf_status rf_gguf_open_splits(rf_gguf *g, rf_error *e);
/* Refuses one part of several where there is no folder to look for the others. */
RF_CHECKED rf_status rf_gguf_check_whole(const rf_gguf *g, rf_error *e);
/* Maps path as the next part of g. */
RF_CHECKED rf_status rf_gguf_add_file(rf_gguf *g, const char *path, rf_error *e);
/* Forgets parts, keys and tensors. */
void rf_gguf_reset(rf_gguf *g);
void rf_gguf_keys_free(rf_gguf_keys *keys);
/* Appends; growing by doubling keeps memory in proportion to what was really read. */
RF_CHECKED rf_status rf_gguf_keys_push(rf_gguf_keys *keys, const rf_gguf_kv *kv, uint32_t *old,
                                       rf_error *e);
char *rf_gguf_strdup(const char *s); /* NULL on lack of memory */
