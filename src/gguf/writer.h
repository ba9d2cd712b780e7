/* writer.h - writing GGUF v3 files: metadata first, then tensors, streamed to disk.
 *
 * Add every key and declare every tensor, then rf_gguf_writer_data once per tensor in the declared
 * order (whole, or in pieces), then finish.  The file appears under its name only when finished;
 * so do the several files of a split model, one after the other. */
#pragma once
#include "gguf/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_gguf_writer rf_gguf_writer;
RF_CHECKED rf_status rf_gguf_writer_open(rf_gguf_writer **out, const char *path, uint32_t alignment,
                                         rf_error *e);
/* Before the first data: NAME-00001-of-0000N.gguf instead of NAME.gguf, each with at most so many
 * bytes and tensors (0: no limit; one tensor always fits).  One part alone keeps the plain name. */
void rf_gguf_writer_split(rf_gguf_writer *w, uint64_t max_bytes, uint64_t max_tensors);
void rf_gguf_writer_abort(rf_gguf_writer *w); /* NULL is fine */
RF_CHECKED rf_status rf_gguf_put_u32(rf_gguf_writer *w, const char *key, uint32_t v, rf_error *e);
RF_CHECKED rf_status rf_gguf_put_f32(rf_gguf_writer *w, const char *key, float v, rf_error *e);
RF_CHECKED rf_status rf_gguf_put_bool(rf_gguf_writer *w, const char *key, bool v, rf_error *e);
RF_CHECKED rf_status rf_gguf_put_str(rf_gguf_writer *w, const char *key, rf_str v, rf_error *e);
RF_CHECKED rf_status rf_gguf_put_str_array(rf_gguf_writer *w, const char *key, const rf_str *v,
                                           size_t n, rf_error *e);
/* n elements of a fixed-size type, little-endian, packed. */
RF_CHECKED rf_status rf_gguf_put_array(rf_gguf_writer *w, const char *key, rf_gguf_type elem,
                                       const void *v, size_t n, rf_error *e);
RF_CHECKED rf_status rf_gguf_put_kv(rf_gguf_writer *w, const rf_gguf_kv *kv,
                                    rf_error *e); /* a copy from a reader */
RF_CHECKED rf_status rf_gguf_declare(rf_gguf_writer *w, rf_str name, rf_dtype type, uint32_t n_dims,
                                     const uint64_t *ne, rf_error *e);
RF_CHECKED rf_status rf_gguf_writer_data(rf_gguf_writer *w, const void *p, size_t n, rf_error *e);
RF_CHECKED rf_status rf_gguf_writer_finish(rf_gguf_writer *w,
                                           rf_error *e); /* frees w, also on failure */
/* The same, and in how many files. */
RF_CHECKED rf_status rf_gguf_writer_finish_parts(rf_gguf_writer *w, uint32_t *n_parts, rf_error *e);

#ifdef __cplusplus
}
#endif
