/* test_detok.c - streaming detokenization: whole characters only, no byte lost, none added.
 *
 * req: B-53 (a token that is not whole UTF-8), B-52 (an extra newline in stream mode). */
#include <stdio.h>

#include "base/utf8.h"
#include "text/golden.h"

static const char *const fixtures[] = {"bpe-gpt-2", "bpe-llama-bpe", "spm"};

static vocabulary open_fixture(size_t k) {
    char relative[100];
    snprintf(relative, sizeof relative, "text/%s.gguf", fixtures[k]);
    return open_vocabulary(rf_test_data(relative));
}

/* Bytes as text, slowly and by the book: each maximal part of a broken character is one U+FFFD. */
static void clean(rf_str s, rf_buf *out) {
    rf_buf_clear(out);
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        int len = rf_utf8_decode(s.p + i, s.len - i, &cp);
        size_t part = 1;
        if (len) {
            rf_buf_put(out, s.p + i, (size_t)len);
            i += (size_t)len;
            continue;
        }
        for (size_t n = 2; n <= 3 && i + n <= s.len; n++) {
            if (rf_utf8_is_partial(s.p + i, n)) part = n;
        }
        rf_buf_puts(out, "\xEF\xBF\xBD");
        i += part;
    }
}

/* Pushes ids one by one; what has come out must be whole UTF-8 after each of them. */
static void stream(const rf_tokenizer *t, const rf_ids *ids, rf_buf *out) {
    rf_detok d = {0};
    rf_buf_clear(out);
    for (size_t i = 0; i < ids->len; i++) {
        assert_int_equal(rf_detok_push(&d, t, ids->p[i], out), RF_OK);
        assert_int_equal(rf_utf8_valid_prefix(out->p, out->len), out->len);
        assert_true(d.pending.len <= 3);
    }
    rf_detok_finish(&d, out);
    assert_int_equal(d.pending.len, 0);
    assert_int_equal(rf_utf8_valid_prefix(out->p, out->len), out->len);
    rf_buf_free(&d.pending);
}

static void test_random_ids(void **state) {
    (void)state;
    uint64_t seed = 3;
    rf_ids ids = {0};
    rf_buf whole = {0}, want = {0}, got = {0};
    rf_error e = {0};
    for (size_t k = 0; k < RF_COUNT(fixtures); k++) {
        vocabulary v = open_fixture(k);
        for (int round = 0; round < 4000; round++) {
            ids.len = 0;
            size_t n = rf_test_rand(&seed) % 30;
            /* Low ids are the single bytes: half of the rounds take only those. */
            uint32_t range = round % 2 ? rf_tokenizer_n_vocab(v.t) : 262;
            while (ids.len < n) {
                rf_ids_push(&ids, (int32_t)(rf_test_rand(&seed) % range));
            }
            rf_buf_clear(&whole);
            assert_int_equal(rf_detokenize(v.t, ids.p, ids.len, false, &whole, &e), RF_OK);
            clean(rf_buf_str(&whole), &want);
            stream(v.t, &ids, &got);
            assert_true(rf_str_eq(rf_buf_str(&got), rf_buf_str(&want)));
        }
        close_vocabulary(&v);
    }
    rf_ids_free(&ids);
    rf_buf_free(&whole);
    rf_buf_free(&want);
    rf_buf_free(&got);
}

/* A character spread over byte tokens appears at once, with its last byte. */
static void test_split_character(void **state) {
    (void)state;
    vocabulary v = open_fixture(2);
    static const char *const bytes[] = {"<0xF0>", "<0x9F>", "<0x99>", "<0x82>"};
    rf_detok d = {0};
    rf_buf out = {0};
    for (size_t i = 0; i < RF_COUNT(bytes); i++) {
        int32_t id = rf_token_find(v.t, rf_str_of(bytes[i]));
        assert_int_equal(rf_token_kind_of(v.t, id), RF_TOKEN_BYTE);
        assert_int_equal(out.len, 0);
        assert_int_equal(rf_detok_push(&d, v.t, id, &out), RF_OK);
    }
    assert_true(rf_str_is(rf_buf_str(&out), "\xF0\x9F\x99\x82"));
    rf_detok_finish(&d, &out);
    assert_int_equal(out.len, 4);

    /* Cut off after two bytes: one U+FFFD, once it is certain. */
    out.len = 0;
    assert_int_equal(rf_detok_push(&d, v.t, rf_token_find(v.t, RF_STR("<0xF0>")), &out), RF_OK);
    assert_int_equal(rf_detok_push(&d, v.t, rf_token_find(v.t, RF_STR("<0x9F>")), &out), RF_OK);
    assert_int_equal(out.len, 0);
    assert_int_equal(rf_detok_push(&d, v.t, rf_token_find(v.t, RF_STR("a")), &out), RF_OK);
    assert_true(rf_str_is(rf_buf_str(&out), "\xEF\xBF\xBD"
                                            "a"));
    rf_buf_free(&d.pending);
    rf_buf_free(&out);
    close_vocabulary(&v);
}

/* Control tokens show only when asked for; SentencePiece's first space goes, later ones stay. */
static void test_special_and_space(void **state) {
    (void)state;
    vocabulary v = open_fixture(2);
    rf_ids ids = {0};
    rf_buf out = {0};
    rf_error e = {0};
    tokenize(v.t, RF_STR("the the"), true, false, &ids);
    assert_int_equal(ids.p[0], rf_tokenizer_bos(v.t));
    assert_int_equal(rf_detokenize(v.t, ids.p, ids.len, false, &out, &e), RF_OK);
    assert_true(rf_str_is(rf_buf_str(&out), "the the"));
    rf_buf_clear(&out);
    assert_int_equal(rf_detokenize(v.t, ids.p, ids.len, true, &out, &e), RF_OK);
    assert_true(rf_str_is(rf_buf_str(&out), "<s> the the"));
    stream(v.t, &ids, &out);
    assert_true(rf_str_is(rf_buf_str(&out), "the the")); /* and no newline after it */
    rf_buf_clear(&out);
    assert_int_equal(rf_token_bytes(v.t, ids.p[1], false, &out), RF_OK);
    assert_int_equal(out.p[0], ' ');
    rf_ids_free(&ids);
    rf_buf_free(&out);
    close_vocabulary(&v);
}

static void test_unknown_ids(void **state) {
    (void)state;
    vocabulary v = open_fixture(0);
    rf_buf out = {0};
    rf_detok d = {0};
    rf_error e = {0};
    int32_t ids[2] = {0, (int32_t)rf_tokenizer_n_vocab(v.t)};
    assert_int_equal(rf_token_bytes(v.t, -1, true, &out), RF_EARG);
    assert_int_equal(rf_token_bytes(v.t, ids[1], true, &out), RF_EARG);
    assert_int_equal(rf_detok_push(&d, v.t, ids[1], &out), RF_EARG);
    assert_int_equal(rf_detokenize(v.t, ids, 2, true, &out, &e), RF_EARG);
    char want[80];
    snprintf(want, sizeof want, "token %d at 1: the vocabulary has ids 0 to %d", ids[1],
             ids[1] - 1);
    assert_string_equal(e.text, want);
    rf_buf_free(&d.pending);
    rf_buf_free(&out);
    close_vocabulary(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_ids),
        cmocka_unit_test(test_split_character),
        cmocka_unit_test(test_special_and_space),
        cmocka_unit_test(test_unknown_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
