/* test_fingerprint.c - the same model gives the same fingerprint, however it lies in files; another one
 * gives another. */
#include <stdio.h>

#include "base/os.h"
#include "bytes.h"
#include "gguf/gguf.h"
#include "lib/testlib.h"

enum { SMALL = 8, LARGE = 20000 }; /* elements of f32 */

/* A model of two tensors; the tests change one thing at a time. */
typedef struct about {
    const char *arch, *key, *tensor;
    uint64_t value;
    rf_gguf_type type;
    uint32_t alignment;
    size_t n_large, flipped; /* flipped: byte of the data that is another; SIZE_MAX: none */
    int n_parts;             /* 0: no split.* keys */
} about;

static const about usual = {"llama", "a.b", "t", 7, RF_GGUF_U32, 32, LARGE, SIZE_MAX, 0};

static void put_keys(rf_buf *b, const about *a, int no) {
    put_key_str(b, "general.architecture", a->arch);
    put_key(b, "general.alignment", RF_GGUF_U32, a->alignment, 4);
    put_key(b, a->key, a->type, a->value, 4);
    if (!a->n_parts) return;
    put_key(b, "split.no", RF_GGUF_U16, (uint64_t)no, 2);
    put_key(b, "split.count", RF_GGUF_U16, (uint64_t)a->n_parts, 2);
    put_key(b, "split.tensors.count", RF_GGUF_I32, 2, 4);
}

static void put_pattern(rf_buf *b, const about *a, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++)
        rf_buf_putc(b, (char)(i * 31 + (i == a->flipped)));
}

static rf_buf whole(const about *a) {
    rf_buf b = {0};
    put_header(&b, 3, 2, a->n_parts ? 6 : 3);
    put_keys(&b, a, 0);
    put_tensor(&b, "small", SMALL, 0, 0);
    put_tensor(&b, a->tensor, a->n_large, 0, a->alignment > SMALL * 4 ? a->alignment : SMALL * 4);
    pad_to(&b, a->alignment);
    put_pattern(&b, a, 0, SMALL * 4);
    pad_to(&b, a->alignment);
    put_pattern(&b, a, SMALL * 4, a->n_large * 4);
    return b;
}

static void fingerprint_of(const about *a, char out[RF_SHA256_HEX]) {
    rf_buf b = whole(a);
    rf_gguf *g;
    rf_error e = {0};
    if (rf_gguf_open_memory(&g, b.p, b.len, &e) != RF_OK) fail_msg("%s", e.text);
    assert_int_equal(rf_gguf_fingerprint(g, out), RF_OK);
    assert_int_equal(strlen(out), RF_SHA256_HEX - 1);
    rf_gguf_close(g);
    rf_buf_free(&b);
}

static void differences(void **state) {
    (void)state;
    about all[] = {usual, usual, usual, usual, usual, usual, usual, usual, usual, usual};
    enum { N = RF_COUNT(all) };
    all[1].arch = "lama";
    all[2].key = "a.c";
    all[3].value = 8;
    all[4].type = RF_GGUF_I32;
    all[5].tensor = "u";
    all[6].n_large--;
    all[7].flipped = SMALL * 4 - 1;
    all[8].flipped = SMALL * 4;
    all[9].flipped = SMALL * 4 + LARGE * 4 - 1;
    char text[N][RF_SHA256_HEX], again[RF_SHA256_HEX];
    for (size_t i = 0; i < N; i++) {
        fingerprint_of(&all[i], text[i]);
        fingerprint_of(&all[i], again);
        assert_string_equal(text[i], again);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(text[i], text[k]);
    }
}

static void write_part(const about *a, int no) {
    char name[64];
    rf_buf b = {0};
    put_header(&b, 3, 1, 6);
    put_keys(&b, a, no);
    put_tensor(&b, no ? a->tensor : "small", no ? a->n_large : SMALL, 0, 0);
    pad_to(&b, a->alignment);
    put_pattern(&b, a, no ? SMALL * 4 : 0, no ? a->n_large * 4 : SMALL * 4);
    snprintf(name, sizeof name, "model-%05d-of-00002.gguf", no + 1);
    write_bytes(rf_test_tmp(name), &b);
    rf_buf_free(&b);
}

/* Another alignment, and two files in place of one. */
static void layouts(void **state) {
    (void)state;
    about a = usual;
    char want[RF_SHA256_HEX], got[RF_SHA256_HEX];
    fingerprint_of(&a, want);
    a.alignment = 64;
    fingerprint_of(&a, got);
    assert_string_equal(got, want);
    a.n_parts = 2;
    write_part(&a, 0);
    write_part(&a, 1);
    rf_gguf *g;
    rf_error e = {0};
    if (rf_gguf_open(&g, rf_test_tmp("model-00001-of-00002.gguf"), &e) != RF_OK)
        fail_msg("%s", e.text);
    assert_int_equal(rf_gguf_n_splits(g), 2);
    assert_int_equal(rf_gguf_fingerprint(g, got), RF_OK);
    assert_string_equal(got, want);
    rf_alloc_fail_nth(1);
    assert_int_equal(rf_gguf_fingerprint(g, got), RF_ENOMEM);
    rf_alloc_fail_nth(0);
    rf_gguf_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(differences), cmocka_unit_test(layouts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
