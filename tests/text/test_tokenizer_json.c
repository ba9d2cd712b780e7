/* test_tokenizer_json.c - Hugging Face's tokenizer.json: ids and texts of small tokenizers of every
 * kind against the library that made them, real ones where the shared data are there, and what a
 * broken file is told.
 *
 * req: B-45 (vocabulary size comes from the file). */
#include <stdio.h>

#include "text/golden.h"
#include "text/pretok.h"
#include "text/tokenizer_json.h"

static rf_tokenizer *open_json(const char *path) {
    rf_tokenizer *t = NULL;
    rf_error e = {0};
    if (rf_tokenizer_open(&t, path, &e) != RF_OK) fail_msg("%s", e.text);
    return t;
}

static void expect_ids(const rf_tokenizer *t, const char *name, rf_str text, bool add,
                       const rf_json *want) {
    rf_ids ids = {0}, wanted = {0};
    tokenize(t, text, add, true, &ids);
    if (!same_ids(&ids, want)) {
        copy_ids(want, &wanted);
        print_ids("got ", &ids);
        print_ids("want", &wanted);
        fail_msg("%s: \"%.*s\"", name, RF_STR_ARG(text));
    }
    rf_ids_free(&ids);
    rf_ids_free(&wanted);
}

/* Both at once and as a stream; bytes that are not UTF-8 are a matter of the stream. */
static void expect_text(const rf_tokenizer *t, const char *name, const rf_json *ids_json,
                        bool with_special, rf_str want) {
    rf_ids ids = {0};
    rf_buf whole = {0}, stream = {0};
    rf_error e = {0};
    rf_detok d = {0};
    copy_ids(ids_json, &ids);
    assert_int_equal(rf_detokenize(t, ids.p, ids.len, with_special, &whole, &e), RF_OK);
    for (size_t i = 0; i < ids.len; i++) {
        assert_int_equal(rf_detok_push(&d, t, ids.p[i], &stream), RF_OK);
    }
    rf_detok_finish(&d, &stream);
    bool broken = memmem(want.p, want.len, "\xEF\xBF\xBD", 3) != NULL;
    rf_str got = with_special ? rf_buf_str(&whole) : rf_buf_str(&stream);
    if (!broken && !rf_str_eq(got, want)) {
        fail_msg("%s: got \"%.*s\", want \"%.*s\"", name, RF_STR_ARG(got), RF_STR_ARG(want));
    }
    rf_ids_free(&ids);
    rf_buf_free(&whole);
    rf_buf_free(&stream);
    rf_buf_free(&d.pending);
}

static void test_fixtures(void **state) {
    (void)state;
    rf_json *j = read_json(rf_test_data("text/hf_cases.json"));
    unsigned n = 0;
    for (void *it = rf_json_iter(j); it; it = rf_json_iter_next(j, it)) {
        const char *name = rf_json_iter_key(it);
        const rf_json *cases = rf_json_iter_value(it);
        char relative[100];
        snprintf(relative, sizeof relative, "text/hf/%s.json", name);
        rf_tokenizer *t = open_json(rf_test_data(relative));
        for (size_t i = 0; i < rf_json_len(cases); i++, n++) {
            const rf_json *c = rf_json_at(cases, i);
            rf_str text = rf_json_str(rf_json_get(c, "text"));
            const rf_json *ids = rf_json_get(c, "ids"), *special = rf_json_get(c, "special");
            const rf_json *decoded = rf_json_get(c, "decoded"), *hidden = rf_json_get(c, "hidden");
            expect_ids(t, name, text, false, ids);
            expect_ids(t, name, text, true, special ? special : ids);
            expect_text(t, name, ids, true, rf_json_str(decoded));
            expect_text(t, name, ids, false, rf_json_str(hidden ? hidden : decoded));
        }
        rf_tokenizer_free(t);
    }
    assert_true(n > 1500);
    rf_json_free(j);
}

/* Real files: every id list and every text that Hugging Face's library gave. */
static void test_real_files(void **state) {
    (void)state;
    static const char *const names[] = {"gptneox20b", "llama2", "qwen2.5", "glm4"};
    RF_SKIP_WITHOUT(rf_test_shared("tokenizers"), "ids of real tokenizer.json files");
    rf_json *corpus = read_json(rf_test_shared("tokenizers/corpus.json"));
    const rf_json *strings = rf_json_get(corpus, "strings");
    rf_buf room = {0};
    for (size_t k = 0; k < RF_COUNT(names); k++) {
        char relative[100];
        snprintf(relative, sizeof relative, "tokenizers/hf/%s.tokenizer.json", names[k]);
        rf_tokenizer *t = open_json(rf_test_shared(relative));
        snprintf(relative, sizeof relative, "tokenizers/vectors_hf/%s.json", names[k]);
        rf_json *j = read_json(rf_test_shared(relative));
        const rf_json *tests = rf_json_get(j, "tests");
        assert_int_equal(rf_json_len(tests), 275);
        for (size_t i = 0; i < rf_json_len(tests); i++) {
            const rf_json *c = rf_json_at(tests, i), *ids = rf_json_get(c, "ids");
            const rf_json *special = rf_json_get(c, "ids_special"),
                          *text = rf_json_get(c, "decode");
            const rf_json *skip = rf_json_get(c, "decode_skip_special");
            size_t at = (size_t)rf_json_int(rf_json_get(c, "i"));
            rf_str s = from_hex(rf_json_str(rf_json_get(rf_json_at(strings, at), "hex")), &room);
            expect_ids(t, names[k], s, false, ids);
            expect_ids(t, names[k], s, true, special ? special : ids);
            rf_str want = text ? rf_json_str(text) : s;
            expect_text(t, names[k], ids, true, want);
            expect_text(t, names[k], ids, false, skip ? rf_json_str(skip) : want);
        }
        rf_json_free(j);
        rf_tokenizer_free(t);
    }
    rf_buf_free(&room);
    rf_json_free(corpus);
}

#define WORDS \
    "\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"[UNK]\":1},\"unk_token\":\"[UNK]\"}"
#define BPE "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":"

/* What is wrong, and the place and the words that the error must have. */
static const struct {
    const char *json;
    rf_status status;
    const char *words;
} broken[] = {
    {"{", RF_EFORMAT, "JSON line"},
    {"[]", RF_EFORMAT, "tokenizer.json /: expected an object, got an array"},
    {"{}", RF_EFORMAT, "tokenizer.json /model: missing"},
    {"{\"model\":{\"type\":\"Magic\",\"vocab\":{\"a\":0}}}", RF_EUNSUPPORTED,
     "/model/type: unsupported model \"Magic\"; supported: BPE, WordPiece"},
    {"{\"model\":{\"type\":\"BPE\"}}", RF_EFORMAT, "/model/vocab: missing"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", RF_EFORMAT, "/model/vocab: no tokens"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a/b~\":-1}}}", RF_EFORMAT,
     "/model/vocab/a~1b~0: -1, expected 0 to"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0}}}", RF_EFORMAT,
     "/model/vocab/b: id 0 is already that of \"a\""},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2000000000}}}", RF_EFORMAT,
     "the highest id is 2000000000, but there are 1 tokens"},
    {"{" BPE "[\"ab\"]}}", RF_EFORMAT, "/model/merges/0: expected two tokens"},
    {"{" BPE "[[\"a\",\"b\"],[\"b\",\"a\"]]}}", RF_EFORMAT, "/model/merges/1: its parts"},
    {"{" BPE "[],\"dropout\":0.1}}", RF_EUNSUPPORTED, "/model/dropout: 0.1"},
    {"{" BPE "[],\"unk_token\":\"x\"}}", RF_EFORMAT, "/model/unk_token: \"x\" is not a token"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",\"b\"]]}}", RF_EFORMAT,
     "/model/vocab/0/1: expected a number, got a string"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1]],\"unk_id\":1}}", RF_EFORMAT,
     "/model/unk_id: 1, expected 0 to 0"},
    {"{" WORDS ",\"added_tokens\":[{\"id\":0,\"content\":\"b\"}]}", RF_EFORMAT,
     "/added_tokens/0/id: id 0 is already that of \"a\""},
    {"{" WORDS ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFX\"}]}}",
     RF_EUNSUPPORTED, "/normalizer/normalizers/0/type: unsupported normalizer \"NFX\""},
    {"{" WORDS ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"!\"}}",
     RF_EFORMAT, "/normalizer/precompiled_charsmap: not base64"},
    {"{" WORDS ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAAAAAA\"}}",
     RF_EFORMAT, "/normalizer/precompiled_charsmap: map of characters: 0 bytes of nodes"},
    {"{" WORDS ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", RF_EUNSUPPORTED,
     "/pre_tokenizer/type: unsupported pre-tokenizer \"UnicodeScripts\""},
    {"{" WORDS ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},"
     "\"behavior\":\"Isolated\"}}",
     RF_EFORMAT, "/pre_tokenizer/pattern/Regex: pattern \"(\", offset 1"},
    {"{" WORDS ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a[b]]\"},"
     "\"behavior\":\"Isolated\"}}",
     RF_EUNSUPPORTED, "/pre_tokenizer/pattern/Regex: pattern \"[a[b]]\", offset 2: a class inside"},
    {"{" WORDS ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"},"
     "\"behavior\":\"Maybe\"}}",
     RF_EFORMAT, "/pre_tokenizer/behavior: \"Maybe\""},
    {"{" WORDS ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}}", RF_EFORMAT,
     "/post_processor/single: no Sequence"},
    {"{" WORDS ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
     "{\"id\":\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[7]}}}}",
     RF_EFORMAT, "/post_processor/special_tokens/x/ids/0: 7, expected 0 to 1"},
    {"{" WORDS ",\"decoder\":{\"type\":\"CTC\"}}", RF_EUNSUPPORTED,
     "/decoder/type: unsupported decoder \"CTC\""},
    {"{" WORDS ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
     "\"Strip\",\"content\":\" \",\"start\":0,\"stop\":1}]}}",
     RF_EUNSUPPORTED, "/decoder/decoders/1/stop: 1"},
};

static void test_broken(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(broken); i++) {
        rf_tokenizer *t = NULL;
        rf_error e = {0};
        rf_status s = rf_tokenizer_from_json(&t, rf_str_of(broken[i].json), &e);
        if (s != broken[i].status) fail_msg("%s: status %d: %s", broken[i].json, s, e.text);
        assert_int_equal(e.status, s);
        assert_null(t);
        if (!strstr(e.text, broken[i].words)) {
            fail_msg("\"%s\" does not say \"%s\"", e.text, broken[i].words);
        }
    }
}

/* Plain text never becomes a marker unless it is asked to. */
static void test_parse_special(void **state) {
    (void)state;
    rf_tokenizer *t = open_json(rf_test_data("text/hf/byte-level.json"));
    int32_t tok = rf_token_find(t, RF_STR("<tok>")), n = rf_token_find(t, RF_STR("<n>"));
    assert_int_equal(rf_token_kind_of(t, tok), RF_TOKEN_CONTROL);
    assert_int_equal(rf_token_kind_of(t, n), RF_TOKEN_USER_DEFINED);
    rf_ids ids = {0};
    tokenize(t, RF_STR("<tok><n>"), false, true, &ids);
    assert_int_equal(ids.len, 2);
    tokenize(t, RF_STR("<tok><n>"), false, false, &ids);
    assert_true(ids.len > 2);
    assert_int_not_equal(ids.p[0], tok);
    assert_int_equal(ids.p[ids.len - 1], n);
    assert_true(rf_tokenizer_adds_bos(t));
    assert_int_equal(rf_tokenizer_bos(t), rf_token_find(t, RF_STR("b")));
    assert_int_equal(rf_tokenizer_eos(t), rf_token_find(t, RF_STR("a")));
    rf_ids_free(&ids);
    rf_tokenizer_free(t);
}

static rf_status load_and_run(rf_str json, rf_ids *ids, rf_error *e) {
    rf_tokenizer *t = NULL;
    rf_status s = rf_tokenizer_from_json(&t, json, e);
    rf_tokenize_opts o = {.add_special = true, .parse_special = true};
    if (s == RF_OK) s = rf_tokenize(t, RF_STR("a \xC3\x89 <n>x[w] 12<r>  don't"), o, ids, e);
    rf_tokenizer_free(t);
    return s;
}

/* Every allocation fails once: a clean error and no leak, or the same ids. */
static void test_failing_allocations(void **state) {
    (void)state;
    static const char *const names[] = {"byte-level", "bert", "unigram"};
    for (size_t k = 0; k < RF_COUNT(names); k++) {
        char relative[100];
        snprintf(relative, sizeof relative, "text/hf/%s.json", names[k]);
        size_t len;
        uint8_t *p = rf_test_read(rf_test_data(relative), &len);
        rf_str json = {(const char *)p, len};
        rf_ids whole = {0};
        rf_error e = {0};
        rf_json *tree = NULL;
        (void)rf_alloc_count();
        assert_int_equal(rf_json_parse(&tree, json, &e), RF_OK);
        long n_parse = rf_alloc_count(); /* the reader has a test of its own */
        rf_json_free(tree);
        (void)rf_alloc_count();
        assert_int_equal(load_and_run(json, &whole, &e), RF_OK);
        long n_allocations = rf_alloc_count(), n_failed = 0;
        for (long n = n_parse + 1; n <= n_allocations; n++) {
            rf_ids ids = {0};
            e = (rf_error){0};
            rf_alloc_fail_nth(n);
            rf_status s = load_and_run(json, &ids, &e);
            rf_alloc_fail_nth(0);
            assert_int_equal(e.status, s);
            if (s == RF_OK) {
                assert_int_equal(ids.len, whole.len);
                assert_memory_equal(ids.p, whole.p, ids.len * sizeof *ids.p);
            } else {
                assert_int_equal(s, RF_ENOMEM);
                n_failed++;
            }
            rf_ids_free(&ids);
        }
        assert_true(n_failed > 20);
        rf_ids_free(&whole);
        rf_free(p);
    }
}

/* The document names every pre-tokenizer and every type that the program knows. */
static void test_document(void **state) {
    (void)state;
    size_t len;
    uint8_t *p = rf_test_read(RF_TEST_DATA_DIR "/../../docs/tokenizers.md", &len);
    unsigned n = 0;
    for (size_t i = 0; rf_pretok_at(i); i++) {
        for (const char *const *name = rf_pretok_at(i)->names; *name; name++, n++) {
            char quoted[80];
            snprintf(quoted, sizeof quoted, "`%s`", *name);
            if (!memmem(p, len, quoted, strlen(quoted))) fail_msg("%s is not there", quoted);
        }
    }
    assert_true(n > 80);
    for (int section = 0; section < RF_JSON_SECTIONS; section++) {
        for (const rf_json_type_row *r = rf_json_types((rf_json_section)section); r->name; r++) {
            char quoted[80];
            snprintf(quoted, sizeof quoted, "`%s`", r->name);
            if (!memmem(p, len, quoted, strlen(quoted))) fail_msg("%s is not there", quoted);
        }
    }
    rf_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_real_files),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_parse_special),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
