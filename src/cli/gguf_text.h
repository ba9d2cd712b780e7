/* gguf_text.h - pieces of GGUF files as text or JSON, shared by inspect and the gguf commands.
 *
 * Everything is appended to an rf_buf; nothing here opens files or fails.  JSON keeps numbers exact
 * (NaN and infinities, which JSON lacks, become null); text is made safe for a terminal. */
#pragma once
#include "base/buf.h"
#include "gguf/gguf.h"

#define RF_GGUF_SHOW_ALL UINT64_MAX

/* A value.  Arrays stop after `most` elements; text also cuts long strings unless `most` is
 * RF_GGUF_SHOW_ALL.  JSON arrays are plain lists of the elements shown. */
void rf_gguf_put_value(rf_buf *out, const rf_gguf_kv *kv, uint64_t most, bool is_json);
void rf_gguf_put_type(rf_buf *out, const rf_gguf_kv *kv); /* "u32", "string[3]" */
/* Slowest dimension first: "[32000, 4096]", as text and as JSON. */
void rf_gguf_put_shape(rf_buf *out, const rf_gguf_tensor *t);
uint64_t rf_gguf_tensor_elems(const rf_gguf_tensor *t);
void rf_put_bytes(rf_buf *out, uint64_t n); /* "1.05 MB" (powers of 1000) */
void rf_put_count(rf_buf *out, uint64_t n); /* "1.24 B", "292.8 K", "512" */
/* A whole string for a terminal: quoted, control characters escaped. */
void rf_put_quoted(rf_buf *out, rf_str s, size_t most);
