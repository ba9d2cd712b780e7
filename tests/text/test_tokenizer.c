/* test_tokenizer.c - the fixtures' ids, and what holds for any text: round trips, no control tokens
 * out of plain text, long runs, broken UTF-8, failing allocations. */
#include <pthread.h>
#include <stdio.h>

#include "base/utf8.h"
#include "text/golden.h"

static const char *const fixtures[] = {"bpe-gpt-2", "bpe-qwen2", "bpe-llama-bpe", "spm"};
enum { N_FIXTURES = 4, QWEN2 = 1, LLAMA3 = 2, SPM = 3 };

static vocabulary open_fixture(size_t k) {
    char relative[100];
    snprintf(relative, sizeof relative, "text/%s.gguf", fixtures[k]);
    return open_vocabulary(rf_test_data(relative));
}

static rf_json *open_expected(size_t k) {
    char relative[100];
    snprintf(relative, sizeof relative, "text/%s.json", fixtures[k]);
    return read_json(rf_test_data(relative));
}

static void detokenize(const rf_tokenizer *t, const rf_ids *ids, rf_buf *out) {
    rf_error e = {0};
    rf_buf_clear(out);
    if (rf_detokenize(t, ids->p, ids->len, false, out, &e) != RF_OK) fail_msg("%s", e.text);
}

/* Ids and text as the libraries that trained the fixtures have them. */
static void test_ids(void **state) {
    (void)state;
    rf_ids ids = {0};
    rf_buf text = {0};
    for (size_t k = 0; k < N_FIXTURES; k++) {
        vocabulary v = open_fixture(k);
        rf_json *j = open_expected(k);
        assert_true(rf_json_len(j) > 120);
        for (size_t i = 0; i < rf_json_len(j); i++) {
            const rf_json *test = rf_json_at(j, i), *parsed = rf_json_get(test, "parsed");
            rf_str s = rf_json_str(rf_json_get(test, "text"));
            rf_str decoded = rf_json_str(rf_json_get(test, "decoded"));
            if (parsed) {
                tokenize(v.t, s, false, true, &ids);
                if (!same_ids(&ids, parsed)) fail_msg("%s: \"%.*s\"", fixtures[k], RF_STR_ARG(s));
            }
            tokenize(v.t, s, false, false, &ids);
            if (!same_ids(&ids, rf_json_get(test, "plain"))) {
                print_ids("got", &ids);
                fail_msg("%s: \"%.*s\"", fixtures[k], RF_STR_ARG(s));
            }
            if (parsed && ids.len != rf_json_len(parsed)) continue; /* markers are hidden */
            detokenize(v.t, &ids, &text);
            assert_true(rf_str_eq(rf_buf_str(&text), decoded));
        }
        rf_json_free(j);
        close_vocabulary(&v);
    }
    rf_ids_free(&ids);
    rf_buf_free(&text);
}

static void test_head(void **state) {
    (void)state;
    vocabulary v = open_fixture(LLAMA3);
    assert_string_equal(rf_tokenizer_model(v.t), "gpt2");
    assert_string_equal(rf_tokenizer_pre(v.t), "llama-bpe");
    assert_true(rf_tokenizer_adds_bos(v.t));
    assert_false(rf_tokenizer_adds_eos(v.t));
    int32_t end = rf_token_find(v.t, RF_STR("<|im_end|>"));
    assert_int_equal(rf_tokenizer_eos(v.t), end);
    assert_true(rf_token_is_end(v.t, end));
    assert_true(rf_token_is_end(v.t, rf_token_find(v.t, RF_STR("<|endoftext|>"))));
    assert_false(rf_token_is_end(v.t, rf_token_find(v.t, RF_STR("<|im_start|>"))));
    assert_int_equal(rf_token_kind_of(v.t, end), RF_TOKEN_CONTROL);
    assert_int_equal(rf_token_kind_of(v.t, rf_token_find(v.t, RF_STR("<tool>"))),
                     RF_TOKEN_USER_DEFINED);
    assert_int_equal(rf_token_find(v.t, RF_STR("no such token")), RF_TOKEN_NONE);
    assert_int_equal(rf_token_find(v.t, RF_STR("")), RF_TOKEN_NONE);
    assert_int_equal(rf_token_kind_of(v.t, -1), RF_TOKEN_UNKNOWN);
    assert_false(rf_token_is_end(v.t, 1 << 30));
    rf_ids ids = {0};
    tokenize(v.t, RF_STR(""), true, true, &ids);
    assert_int_equal(ids.len, 1);
    assert_int_equal(ids.p[0], rf_tokenizer_bos(v.t));
    close_vocabulary(&v);

    v = open_fixture(SPM);
    assert_string_equal(rf_tokenizer_model(v.t), "llama");
    assert_string_equal(rf_tokenizer_pre(v.t), "");
    assert_int_equal(rf_tokenizer_bos(v.t), 1);
    assert_int_equal(rf_tokenizer_eos(v.t), 2);
    tokenize(v.t, RF_STR(""), false, false, &ids);
    assert_int_equal(ids.len, 0);
    rf_ids_free(&ids);
    close_vocabulary(&v);
}

/* Ids are appended, whatever is there already. */
static void test_appends(void **state) {
    (void)state;
    vocabulary v = open_fixture(0);
    rf_ids ids = {0};
    rf_error e = {0};
    rf_tokenize_opts o = {0};
    rf_ids_push(&ids, 7);
    assert_int_equal(rf_tokenize(v.t, RF_STR("the the the the"), o, &ids, &e), RF_OK);
    size_t n = ids.len;
    assert_int_equal(rf_tokenize(v.t, RF_STR("the the the the"), o, &ids, &e), RF_OK);
    assert_int_equal(ids.len - n, n - 1);
    assert_int_equal(ids.p[0], 7);
    assert_memory_equal(ids.p + 1, ids.p + n, (n - 1) * sizeof *ids.p);
    rf_ids_free(&ids);
    close_vocabulary(&v);
}

/* Random text of every kind: words, marks, spaces, scripts, special-token texts. */
static void random_text(uint64_t *seed, rf_buf *out) {
    static const char *const bits[] = {
        "the",
        " ",
        "  ",
        "\n",
        "\t",
        "'s",
        "'LL",
        "don't",
        "0",
        "1234",
        "\xC3\xA9",
        "e\xCC\x81",
        "\xE4\xBD\xA0",
        "\xF0\x9F\x99\x82",
        "<|im_end|>",
        "<tool>",
        "</s>",
        "\xC2\xA0",
        "\xE3\x80\x80",
        "!?",
        "_",
        "\r\n",
        "A",
        "Zebra",
        "\xD0\x9F\xD1\x80",
        "\xE1\x84\x92",
        "\xE1\x85\xA1",
        "\xE2\x80\x8D",
        "$",
        "0x1F",
        "<0x0A>",
        "<unk>",
        "   \n",
    };
    rf_buf_clear(out);
    size_t n = rf_test_rand(seed) % 40;
    for (size_t i = 0; i < n; i++) {
        if (rf_test_rand(seed) % 4) {
            rf_buf_puts(out, bits[rf_test_rand(seed) % RF_COUNT(bits)]);
        } else {
            char c[4];
            uint32_t cp = (uint32_t)(rf_test_rand(seed) % 0x11000);
            rf_buf_put(out, c, (size_t)rf_utf8_encode(cp, c));
        }
    }
}

/* Byte-level BPE gives any valid UTF-8 back; SentencePiece too, but for U+2581, which is a space
 * there.  (Qwen's is checked through the fixtures: it composes characters.) */
static void test_round_trip(void **state) {
    (void)state;
    rf_ids ids = {0};
    rf_buf text = {0}, back = {0};
    uint64_t seed = 1;
    for (size_t k = 0; k < N_FIXTURES; k++) {
        if (k == QWEN2) continue;
        vocabulary v = open_fixture(k);
        for (int round = 0; round < 3000; round++) {
            random_text(&seed, &text);
            rf_str s = rf_buf_str(&text);
            if (k == SPM && memmem(s.p, s.len, "\xE2\x96\x81", 3)) continue;
            tokenize(v.t, s, false, false, &ids);
            detokenize(v.t, &ids, &back);
            if (!rf_str_eq(rf_buf_str(&back), s)) {
                fail_msg("%s: \"%.*s\" came back as \"%.*s\"", fixtures[k], RF_STR_ARG(s),
                         RF_STR_ARG(rf_buf_str(&back)));
            }
        }
        close_vocabulary(&v);
    }
    rf_ids_free(&ids);
    rf_buf_free(&text);
    rf_buf_free(&back);
}

/* Nothing that a user writes becomes a control token unless the caller asks for it. */
static void test_no_control_from_text(void **state) {
    (void)state;
    rf_ids ids = {0};
    rf_buf text = {0};
    uint64_t seed = 2;
    for (size_t k = 0; k < N_FIXTURES; k++) {
        vocabulary v = open_fixture(k);
        for (int round = 0; round < 2000; round++) {
            random_text(&seed, &text);
            tokenize(v.t, rf_buf_str(&text), false, false, &ids);
            for (size_t i = 0; i < ids.len; i++) {
                rf_token_kind kind = rf_token_kind_of(v.t, ids.p[i]);
                assert_true(kind != RF_TOKEN_CONTROL && kind != RF_TOKEN_UNKNOWN);
            }
        }
        close_vocabulary(&v);
    }
    rf_ids_free(&ids);
    rf_buf_free(&text);
}

/* Long runs take the heap instead of the scan, and big texts many pieces: their ids must still be
 * those of the parts wherever parts are separate pieces, and the text must come back. */
static void test_long_runs(void **state) {
    (void)state;
    static const char *const units[] = {"a", "A", " ", "7", "\n", "\xE4\xB8\xAD", "=", "ab", " a"};
    rf_ids ids = {0};
    rf_buf text = {0}, back = {0};
    for (size_t k = 0; k < N_FIXTURES; k++) {
        vocabulary v = open_fixture(k);
        for (size_t u = 0; u < RF_COUNT(units); u++) {
            rf_buf_clear(&text);
            while (text.len < 200000) {
                rf_buf_puts(&text, units[u]);
            }
            tokenize(v.t, rf_buf_str(&text), false, false, &ids);
            assert_true(ids.len > 0 && ids.len <= text.len + 1);
            detokenize(v.t, &ids, &back);
            assert_true(rf_str_eq(rf_buf_str(&back), rf_buf_str(&text)));
        }
        close_vocabulary(&v);
    }
    rf_ids_free(&ids);
    rf_buf_free(&text);
    rf_buf_free(&back);
}

/* Byte-level BPE reads each broken byte as U+FFFD; SentencePiece keeps bytes as byte tokens. */
static void test_broken_utf8(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *repaired;
    } tests[] = {
        {"\xFF", "\xEF\xBF\xBD"},
        {"abc\x80 d", "abc\xEF\xBF\xBD d"},
        {"\xC3(", "\xEF\xBF\xBD("},
        {"\xE2\x82", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                                 /* overlong */
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* surrogate */
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* too high */
        {"\xC3\xA9\xF0\x9F", "\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    rf_ids ids = {0};
    rf_buf back = {0};
    for (size_t k = 0; k < N_FIXTURES; k++) {
        vocabulary v = open_fixture(k);
        for (size_t i = 0; i < RF_COUNT(tests); i++) {
            tokenize(v.t, rf_str_of(tests[i].bytes), false, false, &ids);
            detokenize(v.t, &ids, &back);
            const char *want = k == SPM ? tests[i].bytes : tests[i].repaired;
            assert_true(rf_str_is(rf_buf_str(&back), want));
        }
        close_vocabulary(&v);
    }
    rf_ids_free(&ids);
    rf_buf_free(&back);
}

/* A broken character must not swallow the space behind it. */
static void test_broken_before_space(void **state) {
    (void)state;
    vocabulary v = open_fixture(SPM);
    rf_ids ids = {0};
    rf_buf back = {0};
    tokenize(v.t, RF_STR("hello \xE4\xBD world"), false, false, &ids);
    detokenize(v.t, &ids, &back);
    assert_true(rf_str_is(rf_buf_str(&back), "hello \xE4\xBD world"));
    rf_ids_free(&ids);
    rf_buf_free(&back);
    close_vocabulary(&v);
}

/* Bytes far behind the end of the text are never looked at. */
static void test_reads_no_further(void **state) {
    (void)state;
    static const char *const texts[] = {"<|im_sta", "a'l", "\xE2\x96", "x  ", "\xF0\x9F\x99", "<"};
    rf_ids ids = {0};
    for (size_t k = 0; k < N_FIXTURES; k++) {
        vocabulary v = open_fixture(k);
        for (size_t i = 0; i < RF_COUNT(texts); i++) {
            rf_guarded g = rf_guard(texts[i], strlen(texts[i]));
            tokenize(v.t, (rf_str){(const char *)g.p, g.n}, false, true, &ids);
            assert_true(ids.len > 0);
            rf_guard_free(&g);
        }
        close_vocabulary(&v);
    }
    rf_ids_free(&ids);
}

typedef struct worker {
    const rf_tokenizer *t;
    const rf_ids *want;
    rf_str text;
    int n_wrong;
} worker;

static void *work(void *ctx) {
    worker *w = ctx;
    for (int round = 0; round < 20; round++) {
        rf_ids ids = {0};
        rf_error e = {0};
        rf_status s =
            rf_tokenize(w->t, w->text, (rf_tokenize_opts){.parse_special = true}, &ids, &e);
        w->n_wrong += s != RF_OK || ids.len != w->want->len ||
                      memcmp(ids.p, w->want->p, ids.len * sizeof *ids.p) != 0;
        rf_ids_free(&ids);
    }
    return NULL;
}

/* One tokenizer, four threads, the same ids. */
static void test_threads(void **state) {
    (void)state;
    uint64_t seed = 4;
    rf_buf text = {0}, all = {0};
    for (int i = 0; i < 100; i++) {
        random_text(&seed, &text);
        rf_buf_put(&all, text.p, text.len);
    }
    for (size_t k = 0; k < N_FIXTURES; k++) {
        vocabulary v = open_fixture(k);
        rf_ids ids = {0};
        tokenize(v.t, rf_buf_str(&all), false, true, &ids);
        pthread_t threads[4];
        worker workers[4];
        for (size_t i = 0; i < RF_COUNT(threads); i++) {
            workers[i] = (worker){.t = v.t, .want = &ids, .text = rf_buf_str(&all)};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        }
        for (size_t i = 0; i < RF_COUNT(threads); i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_int_equal(workers[i].n_wrong, 0);
        }
        rf_ids_free(&ids);
        close_vocabulary(&v);
    }
    rf_buf_free(&text);
    rf_buf_free(&all);
}

/* Loads the tokenizer and takes one text apart that needs every table. */
static rf_status load_and_run(const rf_gguf *g, rf_ids *ids, rf_error *e) {
    static const char text[] =
        "e\xCC\x81 don't\xFF <|im_end|> 12345 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaa \xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB \xCC\x81\xCC\xA3";
    rf_tokenizer *t = NULL;
    rf_status s = rf_tokenizer_from_gguf(&t, g, e);
    if (s == RF_OK) {
        s = rf_tokenize(t, rf_str_of(text), (rf_tokenize_opts){.parse_special = true}, ids, e);
    }
    rf_tokenizer_free(t);
    return s;
}

/* Every allocation of loading and tokenizing fails, one after the other: a clean error and no leak,
 * or, where it is done without (the JIT compiler's), the same ids. */
static void test_failing_allocations(void **state) {
    (void)state;
    for (size_t k = 0; k < N_FIXTURES; k++) {
        char relative[100];
        snprintf(relative, sizeof relative, "text/%s.gguf", fixtures[k]);
        rf_gguf *g = NULL;
        rf_error e = {0};
        assert_int_equal(rf_gguf_open(&g, rf_test_data(relative), &e), RF_OK);
        rf_ids whole = {0};
        (void)rf_alloc_count();
        assert_int_equal(load_and_run(g, &whole, &e), RF_OK);
        long n_allocations = rf_alloc_count(), n_failed = 0;
        assert_true(n_allocations > 10);
        for (long n = 1; n <= n_allocations; n++) {
            rf_ids ids = {0};
            e = (rf_error){0};
            rf_alloc_fail_nth(n);
            rf_status s = load_and_run(g, &ids, &e);
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
        assert_true(n_failed > n_allocations / 2);
        rf_ids_free(&whole);
        rf_gguf_close(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_appends),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_no_control_from_text),
        cmocka_unit_test(test_long_runs),
        cmocka_unit_test(test_broken_utf8),
        cmocka_unit_test(test_broken_before_space),
        cmocka_unit_test(test_reads_no_further),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
