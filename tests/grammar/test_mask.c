/* test_mask.c - token masks against the plain truth: a token is allowed if and only if its bytes can
 * be fed.  On random walks through several grammars, with full, empty and dropped caches. */
#include <stdio.h>
#include <string.h>

#include "grammar/grammar.h"
#include "lib/testlib.h"

static const struct {
    rf_language language;
    const char *text;
} grammars[] = {
    {RF_LANGUAGE_SCHEMA, "{}"},
    {RF_LANGUAGE_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},\"day\":"
     "{"
     "\"type\":\"string\",\"format\":\"date\"},\"n\":{\"type\":\"array\",\"items\":{\"type\":"
     "\"integer\",\"maximum\":300},\"minItems\":2,\"maxItems\":150}},\"required\":[\"name\"]}"},
    {RF_LANGUAGE_SCHEMA, "{\"type\":\"string\",\"minLength\":70,\"maxLength\":90}"},
    {RF_LANGUAGE_REGEX, "[a-z ]+(, [a-z ]+){0,80}\\."},
    {RF_LANGUAGE_GBNF,
     "root ::= s+\ns ::= n \" = \" e \";\\n\"\ne ::= t ([-+] t)*\nt ::= n | [0-9]+ | "
     "\"(\" e \")\"\nn ::= [a-z] [a-z0-9]*\n"},
    {RF_LANGUAGE_GBNF, "root ::= (\"the \" | \"then\" | [^q]){3,200} \"q\""},
};

typedef struct vocabulary {
    rf_gguf *file;
    rf_tokenizer *t;
    rf_token_index *index;
} vocabulary;

static vocabulary open_vocabulary(const char *path) {
    vocabulary v = {0};
    rf_error e = {0};
    if (rf_gguf_open(&v.file, path, &e) != RF_OK ||
        rf_tokenizer_from_gguf(&v.t, v.file, &e) != RF_OK ||
        rf_token_index_create(&v.index, v.t, &e) != RF_OK)
        fail_msg("%s: %s", path, e.text);
    return v;
}

static void close_vocabulary(vocabulary *v) {
    rf_token_index_free(v->index);
    rf_tokenizer_free(v->t);
    rf_gguf_close(v->file);
}

static bool has(const uint32_t *mask, uint32_t token) { return mask[token / 32] >> token % 32 & 1; }

/* Every stride-th token, and every token that the mask allows among the first ones. */
static void compare(const vocabulary *v, const rf_matcher *m, const uint32_t *mask, uint32_t first,
                    uint32_t stride) {
    rf_buf bytes = {0};
    for (uint32_t id = first; id < v->index->n_vocab; id += stride) {
        rf_matcher *copy;
        rf_buf_clear(&bytes);
        assert_int_equal(rf_token_bytes(v->t, (int32_t)id, false, &bytes), RF_OK);
        assert_int_equal(rf_matcher_copy(&copy, m), RF_OK);
        bool fits = bytes.len > 0 && !rf_token_is_end(v->t, (int32_t)id) &&
                    rf_matcher_feed(copy, rf_buf_str(&bytes)) == RF_OK;
        if (fits != has(mask, id))
            fail_msg("token %u '%.*s': mask %d, fed %d", id, RF_STR_ARG(rf_buf_str(&bytes)),
                     has(mask, id), fits);
        rf_matcher_free(copy);
    }
    rf_buf_free(&bytes);
}

static uint32_t pick(const rf_token_index *x, const uint32_t *mask, uint64_t *noise) {
    uint32_t start = (uint32_t)(rf_test_rand(noise) % x->n_vocab);
    for (uint32_t i = 0; i < x->n_vocab; i++)
        if (has(mask, (start + i) % x->n_vocab)) return (start + i) % x->n_vocab;
    return UINT32_MAX;
}

static void walk(const vocabulary *v, size_t which, int steps, uint32_t stride) {
    rf_grammar *g;
    rf_matcher *m;
    rf_error e = {0};
    uint64_t noise = which;
    rf_buf bytes = {0};
    size_t mask_bytes = v->index->n_words * sizeof(uint32_t);
    uint32_t *mask = rf_alloc(2, mask_bytes), *again = mask + v->index->n_words;
    assert_non_null(mask);
    if (rf_grammar_compile(&g, grammars[which].language, rf_str_of(grammars[which].text), v->index,
                           &e) != RF_OK)
        fail_msg("%s", e.text);
    assert_int_equal(rf_matcher_create(&m, g, &e), RF_OK);
    for (int i = 0; i < steps; i++) {
        assert_int_equal(rf_matcher_mask(m, mask), RF_OK);
        assert_int_equal(rf_matcher_mask(m, again), RF_OK); /* from a full cache */
        assert_memory_equal(mask, again, mask_bytes);
        if (i % 7 == 0) {
            rf_grammar_drop_cache(g);
            assert_int_equal(rf_matcher_mask(m, again), RF_OK);
            assert_memory_equal(mask, again, mask_bytes);
        }
        compare(v, m, mask, (uint32_t)i % stride, stride);
        uint32_t token = pick(v->index, mask, &noise);
        if (token == UINT32_MAX) break;
        rf_buf_clear(&bytes);
        assert_int_equal(rf_token_bytes(v->t, (int32_t)token, false, &bytes), RF_OK);
        assert_int_equal(rf_matcher_feed(m, rf_buf_str(&bytes)), RF_OK);
    }
    rf_grammar_stats stats;
    rf_grammar_get_stats(g, &stats);
    assert_true(stats.n_states > 1 && stats.automaton_bytes > 0);
    rf_matcher_free(m);
    rf_grammar_unref(g);
    rf_free(mask);
    rf_buf_free(&bytes);
}

static void test_masks(void **state) {
    (void)state;
    vocabulary v = open_vocabulary(RF_SOURCE_DIR "/models/demo.gguf");
    for (size_t i = 0; i < RF_COUNT(grammars); i++)
        walk(&v, i, 60, 7);
    close_vocabulary(&v);
}

static void test_real_vocabularies(void **state) {
    (void)state;
    static const char *const names[] = {"tokenizers/gguf/vocab-qwen2.5.gguf",
                                        "tokenizers/gguf/ggml-vocab-llama-spm.gguf"};
    for (size_t k = 0; k < RF_COUNT(names); k++) {
        const char *path = rf_test_shared(names[k]);
        RF_SKIP_WITHOUT(path, names[k]);
        vocabulary v = open_vocabulary(path);
        for (size_t i = 0; i < RF_COUNT(grammars); i++)
            walk(&v, i, 12, 211);
        close_vocabulary(&v);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_masks),
                                       cmocka_unit_test(test_real_vocabularies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
