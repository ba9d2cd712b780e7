/* test_models.c - GGUF vocabularies that are pipelines: WordPiece against Hugging Face, Unigram
 * against SentencePiece; and a real BERT vocabulary where it is there. */
#include <stdio.h>

#include "text/golden.h"

static void check_cases(const rf_tokenizer *t, const char *name) {
    char relative[100];
    snprintf(relative, sizeof relative, "text/%s.json", name);
    rf_json *cases = read_json(rf_test_data(relative));
    rf_ids ids = {0};
    assert_true(rf_json_len(cases) > 20);
    for (size_t i = 0; i < rf_json_len(cases); i++) {
        const rf_json *c = rf_json_at(cases, i), *special = rf_json_get(c, "special");
        rf_str text = rf_json_str(rf_json_get(c, "text"));
        tokenize(t, text, false, false, &ids);
        if (!same_ids(&ids, rf_json_get(c, "plain"))) {
            print_ids("got", &ids);
            fail_msg("%s: \"%.*s\"", name, RF_STR_ARG(text));
        }
        if (!special) continue;
        tokenize(t, text, true, false, &ids);
        if (!same_ids(&ids, special)) fail_msg("%s: \"%.*s\", framed", name, RF_STR_ARG(text));
    }
    rf_ids_free(&ids);
    rf_json_free(cases);
}

static void expect_text(const rf_tokenizer *t, rf_str text, const char *want) {
    rf_ids ids = {0};
    rf_buf out = {0};
    rf_error e = {0};
    tokenize(t, text, false, false, &ids);
    assert_int_equal(rf_detokenize(t, ids.p, ids.len, false, &out, &e), RF_OK);
    if (!rf_str_is(rf_buf_str(&out), want)) fail_msg("got \"%.*s\"", (int)out.len, out.p);
    rf_ids_free(&ids);
    rf_buf_free(&out);
}

static void test_wordpiece(void **state) {
    (void)state;
    vocabulary v = open_vocabulary(rf_test_data("text/wordpiece.gguf"));
    assert_string_equal(rf_tokenizer_model(v.t), "bert");
    assert_int_equal(rf_tokenizer_bos(v.t), 1);
    check_cases(v.t, "wordpiece");
    expect_text(v.t, RF_STR("  The   CAT\tcat"), "the cat cat");
    close_vocabulary(&v);
}

static void test_unigram(void **state) {
    (void)state;
    vocabulary v = open_vocabulary(rf_test_data("text/unigram.gguf"));
    assert_string_equal(rf_tokenizer_model(v.t), "t5");
    assert_true(rf_tokenizer_adds_eos(v.t));
    check_cases(v.t, "unigram");
    expect_text(v.t, RF_STR("  the  cat \xEF\xBC\x81"), "the cat !");
    close_vocabulary(&v);
}

/* libllama keeps accents that are letters of their own and does not split Hangul, has no limit on the
 * length of a word, takes overlong forms for characters and a U+2581 in the text for the start of a
 * word: BERT's own tokenizer differs. */
static const size_t not_libllama[] = {56, 57, 74, 92, 238, 255, 265, 266, 288};

static bool differs(size_t i) {
    for (size_t k = 0; k < RF_COUNT(not_libllama); k++) {
        if (not_libllama[k] == i) return true;
    }
    return false;
}

/* A real vocabulary: libllama's ids of all strings, Hugging Face's of its 46. */
static void test_real_bert(void **state) {
    (void)state;
    RF_SKIP_WITHOUT(rf_test_shared("tokenizers"), "a real WordPiece vocabulary");
    vocabulary v = open_vocabulary(rf_test_shared("tokenizers/gguf/ggml-vocab-bert-bge.gguf"));
    rf_json *corpus = read_json(rf_test_shared("tokenizers/corpus.json"));
    rf_json *j = read_json(rf_test_shared("tokenizers/vectors/ggml-vocab-bert-bge.json"));
    rf_json *up = read_json(rf_test_shared("tokenizers/upstream_vectors/bert-bge.json"));
    const rf_json *strings = rf_json_get(corpus, "strings"), *tests = rf_json_get(j, "tests");
    rf_buf room = {0};
    rf_ids ids = {0};
    unsigned n_wrong = 0;
    for (size_t k = 0; k < rf_json_len(tests); k++) {
        const rf_json *c = rf_json_at(tests, k), *plain = rf_json_get(c, "plain");
        size_t i = (size_t)rf_json_int(rf_json_get(c, "i"));
        if (!plain) continue; /* libllama throws */
        rf_str text = from_hex(rf_json_str(rf_json_get(rf_json_at(strings, i), "hex")), &room);
        tokenize(v.t, text, false, false, &ids);
        if (same_ids(&ids, plain) != differs(i)) continue;
        print_message("string %zu\n", i);
        n_wrong++;
    }
    assert_int_equal(n_wrong, 0);
    tests = rf_json_get(up, "tests");
    assert_int_equal(rf_json_len(tests), 46);
    for (size_t i = 0; i < rf_json_len(tests); i++) {
        const rf_json *c = rf_json_at(tests, i);
        tokenize(v.t, from_hex(rf_json_str(rf_json_get(c, "hex")), &room), false, false, &ids);
        if (!same_ids(&ids, rf_json_get(c, "tokens"))) fail_msg("upstream string %zu", i);
    }
    rf_buf_free(&room);
    rf_ids_free(&ids);
    rf_json_free(up);
    rf_json_free(j);
    rf_json_free(corpus);
    close_vocabulary(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wordpiece),
        cmocka_unit_test(test_unigram),
        cmocka_unit_test(test_real_bert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
