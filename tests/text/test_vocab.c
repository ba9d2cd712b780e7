/* test_vocab.c - malformed and odd vocabularies: each refused with the key and the reason, or
 * loaded with the meaning that the test names; and the shared collection of bad files.
 *
 * req: B-45 (sizes come from the file), C-15 (everything validated). */
#include <math.h>
#include <stdio.h>

#include "gguf/writer.h"
#include "text/golden.h"

#define SPACE "\xE2\x96\x81" /* how SentencePiece writes one */

/* A vocabulary to be written; fields left out are not written. */
typedef struct draft {
    const char *model, *pre, *arch, *name;
    const char *tokens[24];
    size_t n_tokens;
    int32_t kinds[24];
    size_t n_kinds;
    float scores[24];
    size_t n_scores;
    const char *merges[8];
    size_t n_merges;
    const char *id_keys[4]; /* with ids[] */
    uint32_t ids[4];
    const char *true_key; /* a boolean key set to true */
} draft;

static const draft spm = {
    .model = "llama",
    .tokens = {"<unk>", "<s>", "</s>", "a", "b", "ab", "<0x0A>"},
    .n_tokens = 7,
    .kinds = {2, 3, 3, 1, 1, 1, 6},
    .n_kinds = 7,
    .scores = {0, 0, 0, -1, -2, -3, 0},
    .n_scores = 7,
};

static const draft bpe = {
    .model = "gpt2",
    .pre = "gpt-2",
    .tokens = {"a", "b", "c", "ab", "abc", "<|endoftext|>", "d", "e", "f", "g", "h", "i"},
    .n_tokens = 12,
    .merges = {"a b", "ab c"},
    .n_merges = 2,
};

static void put_text(rf_gguf_writer *w, const char *key, const char *value) {
    rf_error e = {0};
    if (value) assert_int_equal(rf_gguf_put_str(w, key, rf_str_of(value), &e), RF_OK);
}

static void put_texts(rf_gguf_writer *w, const char *key, const char *const *values, size_t n) {
    rf_str all[24];
    rf_error e = {0};
    if (n == 0) return;
    for (size_t i = 0; i < n; i++) {
        all[i] = rf_str_of(values[i]);
    }
    assert_int_equal(rf_gguf_put_str_array(w, key, all, n, &e), RF_OK);
}

static rf_gguf *write_draft(const draft *d) {
    rf_gguf_writer *w = NULL;
    rf_gguf *g = NULL;
    rf_error e = {0};
    const char *path = rf_test_tmp("vocab.gguf");
    assert_int_equal(rf_gguf_writer_open(&w, path, 32, &e), RF_OK);
    put_text(w, "general.architecture", d->arch);
    put_text(w, "general.name", d->name);
    put_text(w, "tokenizer.ggml.model", d->model);
    put_text(w, "tokenizer.ggml.pre", d->pre);
    put_texts(w, "tokenizer.ggml.tokens", d->tokens, d->n_tokens);
    put_texts(w, "tokenizer.ggml.merges", d->merges, d->n_merges);
    if (d->n_kinds) {
        assert_int_equal(rf_gguf_put_array(w, "tokenizer.ggml.token_type", RF_GGUF_I32, d->kinds,
                                           d->n_kinds, &e),
                         RF_OK);
    }
    if (d->n_scores) {
        assert_int_equal(
            rf_gguf_put_array(w, "tokenizer.ggml.scores", RF_GGUF_F32, d->scores, d->n_scores, &e),
            RF_OK);
    }
    for (size_t i = 0; i < RF_COUNT(d->id_keys) && d->id_keys[i]; i++) {
        assert_int_equal(rf_gguf_put_u32(w, d->id_keys[i], d->ids[i], &e), RF_OK);
    }
    if (d->true_key) assert_int_equal(rf_gguf_put_bool(w, d->true_key, true, &e), RF_OK);
    assert_int_equal(rf_gguf_writer_finish(w, &e), RF_OK);
    assert_int_equal(rf_gguf_open(&g, path, &e), RF_OK);
    return g;
}

static void refuse(const draft *d, rf_status status, const char *words) {
    rf_gguf *g = write_draft(d);
    rf_tokenizer *t = NULL;
    rf_error e = {0};
    assert_int_equal(rf_tokenizer_from_gguf(&t, g, &e), status);
    assert_null(t);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not say \"%s\"", e.text, words);
    rf_gguf_close(g);
}

static vocabulary accept(const draft *d) {
    vocabulary v = {.file = write_draft(d)};
    rf_error e = {0};
    if (rf_tokenizer_from_gguf(&v.t, v.file, &e) != RF_OK) fail_msg("%s", e.text);
    return v;
}

static void test_refused(void **state) {
    (void)state;
    draft d = bpe;
    d.model = NULL;
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.model: missing");
    static const char *const models[] = {"rwkv", "plamo2", "hybriddna", "no_vocab"};
    for (size_t i = 0; i < RF_COUNT(models); i++) {
        char words[100];
        snprintf(words, sizeof words, "unsupported tokenizer model \"%s\"; supported are \"gpt2\"",
                 models[i]);
        d.model = models[i];
        refuse(&d, RF_EUNSUPPORTED, words);
    }
    d = bpe;
    d.pre = "gpt-3";
    refuse(&d, RF_EUNSUPPORTED, "unknown pre-tokenizer \"gpt-3\"; the log and docs/");
    d = bpe;
    d.n_tokens = 0;
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.tokens: missing");
    d = bpe;
    d.n_merges = 0;
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.merges: missing");
    d = bpe;
    d.merges[1] = "abc";
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.merges[1]: \"abc\"");
    d.merges[1] = "ab ";
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.merges[1]: \"ab \"");
    d = spm;
    d.n_scores = 6;
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.scores: expected 7, one a token, got 6");
    d.n_scores = 0;
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.scores: expected 7");
    d = spm;
    d.scores[3] = NAN;
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.scores[3]: not a number");
    d = spm;
    d.n_kinds = 5;
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.token_type: expected 7, one a token, got 5");
    d = spm;
    d.kinds[4] = 7;
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.token_type[4]: 7");
    d.kinds[4] = -1;
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.token_type[4]: -1");
    d.kinds[4] = 6;
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.tokens[4]: \"b\" is of type byte");
}

static void test_refused_ids(void **state) {
    (void)state;
    static const char *const keys[] = {
        "tokenizer.ggml.bos_token_id",     "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id",
    };
    for (size_t i = 0; i < RF_COUNT(keys); i++) {
        draft d = spm;
        char words[120];
        d.id_keys[0] = keys[i];
        d.ids[0] = 7;
        snprintf(words, sizeof words, "%s: 7 is not a token of the vocabulary of 7", keys[i]);
        refuse(&d, RF_EFORMAT, words);
        d.ids[0] = 0x80000000u;
        snprintf(words, sizeof words, "%s: 2147483648 is not a token", keys[i]);
        refuse(&d, RF_EFORMAT, words);
    }
    draft d = spm; /* defaults that the vocabulary is too small for */
    d.n_tokens = d.n_kinds = d.n_scores = 1;
    refuse(&d, RF_EFORMAT, "bos_token_id: missing, and the default 1 is not a token");
    d = bpe;
    d.n_tokens = 11;
    refuse(&d, RF_EFORMAT, "bos_token_id: missing, and the default 11");
    d = bpe;
    d.pre = "glm4";
    d.true_key = "tokenizer.ggml.add_bos_token";
    refuse(&d, RF_EFORMAT, "add_bos_token: true, but there is no bos_token_id");
}

static void expect_ids(const rf_tokenizer *t, const char *text, const int32_t *want, size_t n) {
    rf_ids ids = {0};
    tokenize(t, rf_str_of(text), false, true, &ids);
    if (ids.len != n || memcmp(ids.p, want, n * sizeof *want) != 0) {
        print_ids("got", &ids);
        fail_msg("wrong ids of \"%s\"", text);
    }
    rf_ids_free(&ids);
}
#define EXPECT_IDS(t, text, ...)                     \
    do {                                             \
        const int32_t want_[] = {__VA_ARGS__};       \
        expect_ids(t, text, want_, RF_COUNT(want_)); \
    } while (0)

static void test_defaults(void **state) {
    (void)state;
    vocabulary v = accept(&bpe);
    assert_int_equal(rf_tokenizer_bos(v.t), 11);
    assert_int_equal(rf_tokenizer_eos(v.t), 11);
    assert_false(rf_tokenizer_adds_bos(v.t));
    assert_true(rf_token_is_end(v.t, 11));
    assert_true(rf_token_is_end(v.t, 5)); /* by its text, though the file types nothing */
    assert_int_equal(rf_token_kind_of(v.t, 5), RF_TOKEN_CONTROL);
    EXPECT_IDS(v.t, "abcab", 4, 3);
    EXPECT_IDS(v.t, "cab<|endoftext|>zd", 2, 3, 5, 6); /* no token for z: left out */
    close_vocabulary(&v);

    v = accept(&spm);
    assert_int_equal(rf_tokenizer_bos(v.t), 1);
    assert_int_equal(rf_tokenizer_eos(v.t), 2);
    assert_true(rf_tokenizer_adds_bos(v.t));
    close_vocabulary(&v);

    draft d = bpe;
    d.pre = "glm4";
    v = accept(&d);
    assert_int_equal(rf_tokenizer_bos(v.t), RF_TOKEN_NONE);
    close_vocabulary(&v);
    d.pre = "llama3";
    v = accept(&d);
    assert_true(rf_tokenizer_adds_bos(v.t));
    close_vocabulary(&v);
    d.pre = NULL;
    v = accept(&d);
    assert_string_equal(rf_tokenizer_pre(v.t), "default");
    close_vocabulary(&v);
    d.arch = "gptneox";
    v = accept(&d);
    assert_string_equal(rf_tokenizer_pre(v.t), "gpt-neox");
    close_vocabulary(&v);
}

/* The lowest rank first, the leftmost among equals; unknown merges and later doubles are passed. */
static void test_merges(void **state) {
    (void)state;
    draft d = bpe;
    static const char *const tokens[] = {"a", "b", "ab", "ba", "aba", "bab", "aa", "c"};
    static const char *const merges[] = {"x y", "b a", "a b", "a ba", "b a", "ab a"};
    for (size_t i = 0; i < RF_COUNT(tokens); i++) {
        d.tokens[i] = tokens[i];
    }
    for (size_t i = 0; i < RF_COUNT(merges); i++) {
        d.merges[i] = merges[i];
    }
    d.n_merges = RF_COUNT(merges);
    vocabulary v = accept(&d);
    EXPECT_IDS(v.t, "ab", 2);
    EXPECT_IDS(v.t, "aba", 4);     /* a ba, since "b a" is earlier than "a b" */
    EXPECT_IDS(v.t, "baba", 3, 3); /* and "ba ba" has no merge */
    EXPECT_IDS(v.t, "abab", 4, 1);
    EXPECT_IDS(v.t, "aabc", 0, 2, 7);
    close_vocabulary(&v);
}

/* Scores choose, not ids; equal scores go left to right; unknown characters become bytes or one
 * unknown token for each run. */
static void test_scores(void **state) {
    (void)state;
    draft d = spm;
    static const char *const tokens[] = {
        "<unk>", "<s>", "</s>", "a", "b", "ab", "ba", SPACE, "aa", "c", "<0x0A>", (SPACE "a"),
    };
    static const int32_t kinds[] = {2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 6, 1};
    static const float scores[] = {0, 0, 0, -9, -9, -2, -1, -9, -2, -9, 0, -3};
    memcpy(d.tokens, tokens, sizeof tokens);
    memcpy(d.kinds, kinds, sizeof kinds);
    memcpy(d.scores, scores, sizeof scores);
    d.n_tokens = d.n_kinds = d.n_scores = RF_COUNT(tokens);
    vocabulary v = accept(&d);
    EXPECT_IDS(v.t, "caba", 7, 9, 3, 6); /* ba before ab */
    EXPECT_IDS(v.t, "caaa", 7, 9, 8, 3); /* the left aa first */
    EXPECT_IDS(v.t, "ab", 7, 5);         /* ab (-2) before the space and a (-3) */
    EXPECT_IDS(v.t, "a\nb", 11, 10, 4);
    EXPECT_IDS(v.t, "axyb", 11, 0, 4);
    EXPECT_IDS(v.t, "a</s>a", 11, 2, 11); /* the space again behind a marker */
    close_vocabulary(&v);
    d.id_keys[0] = "tokenizer.ggml.eos_token_id";
    d.ids[0] = 9;
    v = accept(&d);
    assert_int_equal(rf_tokenizer_eos(v.t), 9);
    close_vocabulary(&v);
}

/* A token that spans two words: words can then not be taken alone, and it must be found. */
static void test_token_over_words(void **state) {
    (void)state;
    draft d = spm;
    static const char *const tokens[] = {
        "<unk>", "<s>", "</s>", "a", SPACE, ("a" SPACE), ("a" SPACE "a"),
    };
    static const int32_t kinds[] = {2, 3, 3, 1, 1, 1, 1};
    static const float scores[] = {0, 0, 0, -9, -9, -1, -2};
    memcpy(d.tokens, tokens, sizeof tokens);
    memcpy(d.kinds, kinds, sizeof kinds);
    memcpy(d.scores, scores, sizeof scores);
    vocabulary v = accept(&d);
    EXPECT_IDS(v.t, "a a", 4, 6);
    EXPECT_IDS(v.t, "a a a", 4, 5, 6);
    close_vocabulary(&v);
}

static void test_flags(void **state) {
    (void)state;
    draft d = spm;
    d.true_key = "tokenizer.ggml.add_eos_token";
    vocabulary v = accept(&d);
    rf_ids ids = {0};
    tokenize(v.t, RF_STR("ab"), true, false, &ids);
    assert_int_equal(ids.p[0], 1);
    assert_int_equal(ids.p[ids.len - 1], 2);
    rf_ids_free(&ids);
    close_vocabulary(&v);
}

/* Duplicate texts: the lower id counts.  Empty ones are never found.  Unused ones are silent. */
static void test_odd_tokens(void **state) {
    (void)state;
    draft d = bpe;
    static const int32_t kinds[] = {1, 1, 1, 1, 1, 3, 5, 0, 4, 1, 1, 1};
    d.tokens[9] = "a";
    d.tokens[10] = d.tokens[11] = "";
    memcpy(d.kinds, kinds, sizeof kinds);
    d.n_kinds = 12;
    vocabulary v = accept(&d);
    assert_int_equal(rf_token_find(v.t, RF_STR("a")), 0);
    assert_int_equal(rf_token_find(v.t, RF_STR("")), RF_TOKEN_NONE);
    assert_int_equal(rf_token_kind_of(v.t, 7), RF_TOKEN_UNUSED);
    rf_buf out = {0};
    assert_int_equal(rf_token_bytes(v.t, 6, true, &out), RF_OK);
    assert_int_equal(rf_token_bytes(v.t, 7, true, &out), RF_OK);
    assert_int_equal(rf_token_bytes(v.t, 10, true, &out), RF_OK);
    assert_int_equal(out.len, 0);
    assert_int_equal(rf_token_bytes(v.t, 9, true, &out), RF_OK);
    assert_true(rf_str_is(rf_buf_str(&out), "a"));
    EXPECT_IDS(v.t, "bf", 1, 8);
    rf_buf_free(&out);
    close_vocabulary(&v);
}

/* Where a turn ends with <|return|> or <|call|>, <|end|> does not end it. */
static void test_end_inside_a_turn(void **state) {
    (void)state;
    draft d = bpe;
    d.tokens[6] = "<|end|>";
    vocabulary v = accept(&d);
    assert_true(rf_token_is_end(v.t, 6));
    close_vocabulary(&v);
    d.tokens[7] = "<|return|>";
    d.tokens[8] = "<|call|>";
    v = accept(&d);
    assert_false(rf_token_is_end(v.t, 6));
    assert_true(rf_token_is_end(v.t, 7));
    assert_true(rf_token_is_end(v.t, 8));
    close_vocabulary(&v);
}

/* Phi-3's markers swallow the white space behind them, three of them excepted. */
static void test_strips_after(void **state) {
    (void)state;
    draft d = spm;
    d.tokens[4] = "<|end|>";
    d.kinds[4] = 3;
    vocabulary v = accept(&d);
    EXPECT_IDS(v.t, "<|end|>\n", 4, 0, 6); /* the space before a text has no token here */
    close_vocabulary(&v);
    d.name = "My Phi-3 tune";
    v = accept(&d);
    EXPECT_IDS(v.t, "<|end|> \n ", 4);
    EXPECT_IDS(v.t, "<s>\n", 1, 0, 6);
    close_vocabulary(&v);
}

/* Spaces as U+2581, merges over characters, bytes for what no token spells, line ends as one. */
static void test_characters(void **state) {
    (void)state;
    draft d = {
        .model = "gemma4",
        .tokens = {"<bos>", "a", "b", "ab", SPACE, SPACE "a", "\n", "\n\n", "<0xC3>", "<0xA9>",
                   SPACE "ab"},
        .n_tokens = 11,
        .merges = {SPACE " a", "a b", SPACE " ab"},
        .n_merges = 3,
        .id_keys = {"tokenizer.ggml.bos_token_id"},
        .ids = {0},
    };
    vocabulary v = accept(&d);
    assert_string_equal(rf_tokenizer_pre(v.t), "gemma4");
    assert_true(rf_tokenizer_adds_bos(v.t));
    EXPECT_IDS(v.t, "ab ab", 3, 5, 2);
    EXPECT_IDS(v.t, "b\n\na", 2, 7, 1);
    EXPECT_IDS(v.t, "a\xC3\xA9?", 1, 8, 9);
    close_vocabulary(&v);
    d.id_keys[0] = NULL;
    refuse(&d, RF_EFORMAT, "add_bos_token: true, but there is no bos_token_id");
    d.model = "whitespace";
    d.tokens[4] = "c";
    d.merges[0] = "b a";
    d.n_merges = 1;
    d.tokens[5] = "ba";
    v = accept(&d);
    EXPECT_IDS(v.t, " ba  \tb ", 5, 2);
    close_vocabulary(&v);
}

static void test_refused_pipelines(void **state) {
    (void)state;
    draft d = spm;
    d.model = "bert";
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.bos_token_id: missing, and the default 101");
    d.model = "t5";
    d.n_scores = 0;
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.scores: expected 7, one a token, got 0");
    d.n_scores = 7;
    d.scores[3] = INFINITY;
    refuse(&d, RF_EFORMAT, "tokenizer.ggml.scores[3]: not a finite number");
}

/* The shared collection: each file has the outcome that its manifest names. */
static void test_bad_files(void **state) {
    (void)state;
    const char *path = rf_test_shared("gguf-bad/manifest.json");
    RF_SKIP_WITHOUT(path, "the collection of bad vocabularies");
    rf_json *j = read_json(path);
    const rf_json *all = rf_json_get(j, "cases");
    unsigned n = 0;
    for (size_t i = 0; i < rf_json_len(all); i++) {
        const rf_json *c = rf_json_at(all, i);
        rf_str file = rf_json_str(rf_json_get(c, "file")),
               want = rf_json_str(rf_json_get(c, "expect"));
        if (!rf_str_starts(file, "vocab-")) continue;
        char relative[200];
        snprintf(relative, sizeof relative, "gguf-bad/files/%.*s", RF_STR_ARG(file));
        rf_gguf *g = NULL;
        rf_tokenizer *t = NULL;
        rf_error e = {0};
        rf_status s = rf_gguf_open(&g, rf_test_shared(relative), &e);
        if (s == RF_OK) s = rf_tokenizer_from_gguf(&t, g, &e);
        if ((rf_str_is(want, "reject") && s == RF_OK) ||
            (rf_str_is(want, "accept") && s != RF_OK)) {
            fail_msg("%.*s: expected %.*s: %s", RF_STR_ARG(file), RF_STR_ARG(want), e.text);
        }
        if (s == RF_OK) {
            rf_ids ids = {0};
            tokenize(t, RF_STR("Hello <s> \xFF world"), true, true, &ids);
            assert_true(ids.len > 0);
            rf_ids_free(&ids);
        } else {
            assert_true(s == RF_EFORMAT || s == RF_EUNSUPPORTED);
            assert_true(strlen(e.text) > 20);
        }
        rf_tokenizer_free(t);
        rf_gguf_close(g);
        n++;
    }
    assert_int_equal(n, 18);
    rf_json_free(j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_ids),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_merges),
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_token_over_words),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_odd_tokens),
        cmocka_unit_test(test_end_inside_a_turn),
        cmocka_unit_test(test_strips_after),
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_refused_pipelines),
        cmocka_unit_test(test_bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
