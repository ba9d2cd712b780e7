/* bytes.h - puts GGUF files together byte by byte, right or deliberately wrong, for the tests here.
 *
 * It shares no code with the writer, so that reader and writer are each proven against it. */
#pragma once
#include <string.h>

#include "base/buf.h"
#include "gguf/gguf.h"
#include "lib/testlib.h"

static inline void put_le(rf_buf *b, uint64_t v, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        rf_buf_putc(b, (char)(v >> (8 * i)));
}

static inline void put_str(rf_buf *b, const char *s) {
    put_le(b, strlen(s), 8);
    rf_buf_puts(b, s);
}

static inline void put_header(rf_buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv) {
    rf_buf_puts(b, "GGUF");
    put_le(b, version, 4);
    put_le(b, n_tensors, 8);
    put_le(b, n_kv, 8);
}

/* A key with a scalar of `bytes` bytes. */
static inline void put_key(rf_buf *b, const char *key, rf_gguf_type type, uint64_t v,
                           unsigned bytes) {
    put_str(b, key);
    put_le(b, type, 4);
    put_le(b, v, bytes);
}

static inline void put_key_str(rf_buf *b, const char *key, const char *v) {
    put_str(b, key);
    put_le(b, RF_GGUF_STRING, 4);
    put_str(b, v);
}

static inline void put_key_array(rf_buf *b, const char *key, uint32_t elem, uint64_t n) {
    put_str(b, key);
    put_le(b, RF_GGUF_ARRAY, 4);
    put_le(b, elem, 4);
    put_le(b, n, 8);
}

/* A one-dimensional tensor of n elements. */
static inline void put_tensor(rf_buf *b, const char *name, uint64_t n, uint32_t type,
                              uint64_t offset) {
    put_str(b, name);
    put_le(b, 1, 4);
    put_le(b, n, 8);
    put_le(b, type, 4);
    put_le(b, offset, 8);
}

static inline void pad_to(rf_buf *b, size_t alignment) {
    while (b->len % alignment)
        rf_buf_putc(b, 0);
}

/* n bytes of data that tell their position. */
static inline void put_data(rf_buf *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        rf_buf_putc(b, (char)(i * 7));
}

/* Opens bytes that end at an unreadable page. */
static inline rf_status open_bytes(rf_gguf **out, const rf_buf *b, rf_guarded *guard, rf_error *e) {
    assert_false(b->failed);
    *guard = rf_guard(b->p, b->len);
    return rf_gguf_open_memory(out, guard->p, guard->n, e);
}

static inline void write_bytes(const char *path, const rf_buf *b) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->p, 1, b->len, f), b->len);
    assert_int_equal(fclose(f), 0);
}

#define assert_contains(text, part)                                                  \
    do {                                                                             \
        if (!strstr((text), (part))) fail_msg("'%s' is not in: %s", (part), (text)); \
    } while (0)
