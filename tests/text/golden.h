/* golden.h - what the tests of src/text share: vocabularies, the strings of the corpus, id lists.
 *
 * Only for test programs; every helper fails the running test when it cannot do its work. */
#pragma once
#include <string.h>

#include "base/json.h"
#include "lib/testlib.h"
#include "text/tokenizer.h"

typedef struct vocabulary {
    rf_gguf *file;
    rf_tokenizer *t;
} vocabulary;

static inline vocabulary open_vocabulary(const char *path) {
    vocabulary v = {0};
    rf_error e = {0};
    if (rf_gguf_open(&v.file, path, &e) != RF_OK ||
        rf_tokenizer_from_gguf(&v.t, v.file, &e) != RF_OK) {
        fail_msg("%s: %s", path, e.text);
    }
    return v;
}

static inline void close_vocabulary(vocabulary *v) {
    rf_tokenizer_free(v->t);
    rf_gguf_close(v->file);
}

static inline rf_json *read_json(const char *path) {
    size_t n;
    uint8_t *p = rf_test_read(path, &n);
    rf_json *j = NULL;
    rf_error e = {0};
    if (rf_json_parse(&j, (rf_str){(const char *)p, n}, &e) != RF_OK) {
        fail_msg("%s: %s", path, e.text);
    }
    rf_free(p);
    return j;
}

static inline int hex_nibble(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/* The bytes that lower-case hexadecimal spells; *b is overwritten. */
static inline rf_str from_hex(rf_str hex, rf_buf *b) {
    rf_buf_clear(b);
    for (size_t i = 0; i + 1 < hex.len; i += 2) {
        rf_buf_putc(b, (char)(hex_nibble(hex.p[i]) << 4 | hex_nibble(hex.p[i + 1])));
    }
    assert_false(b->failed);
    return rf_buf_str(b);
}

static inline void tokenize(const rf_tokenizer *t, rf_str text, bool add_special,
                            bool parse_special, rf_ids *ids) {
    rf_error e = {0};
    ids->len = 0;
    rf_tokenize_opts o = {.add_special = add_special, .parse_special = parse_special};
    if (rf_tokenize(t, text, o, ids, &e) != RF_OK) fail_msg("%s", e.text);
}

static inline bool same_ids(const rf_ids *ids, const rf_json *want) {
    if (ids->len != rf_json_len(want)) return false;
    for (size_t i = 0; i < ids->len; i++) {
        if (ids->p[i] != rf_json_int(rf_json_at(want, i))) return false;
    }
    return true;
}

static inline void print_ids(const char *what, const rf_ids *ids) {
    rf_buf b = {0};
    for (size_t i = 0; i < ids->len && i < 40; i++) {
        rf_buf_printf(&b, " %d", ids->p[i]);
    }
    print_message("%s%s\n", what, b.len ? b.p : " none");
    rf_buf_free(&b);
}

static inline void copy_ids(const rf_json *array, rf_ids *ids) {
    ids->len = 0;
    for (size_t i = 0; i < rf_json_len(array); i++) {
        rf_ids_push(ids, (int32_t)rf_json_int(rf_json_at(array, i)));
    }
}
