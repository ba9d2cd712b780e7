/* test_pretok.c - every pattern against Hugging Face's own splits of one mixed text, the table of
 * names, and patterns on long runs. */
#include "text/golden.h"
#include "text/pretok.h"

typedef struct pieces {
    size_t n, bytes;
    const rf_json *want; /* lengths */
    size_t first_wrong;
} pieces;

static rf_status count(void *ctx, rf_str piece) {
    pieces *p = ctx;
    if (p->want && (size_t)rf_json_int(rf_json_at(p->want, p->n)) != piece.len &&
        p->first_wrong == SIZE_MAX) {
        p->first_wrong = p->n;
    }
    p->n++;
    p->bytes += piece.len;
    return RF_OK;
}

static pieces split(const char *name, rf_str text, const rf_json *want) {
    rf_pretok *pretok = NULL;
    rf_splitter *splitter = NULL;
    rf_error e = {0};
    pieces p = {.want = want, .first_wrong = SIZE_MAX};
    const rf_pretok_spec *spec = rf_pretok_find(rf_str_of(name), NULL);
    if (!spec) fail_msg("%s is not known", name);
    assert_int_equal(rf_pretok_create(&pretok, spec, &e), RF_OK);
    assert_int_equal(rf_splitter_create(&splitter, pretok), RF_OK);
    if (rf_splitter_run(splitter, text, count, &p, &e) != RF_OK) fail_msg("%s: %s", name, e.text);
    rf_splitter_free(splitter);
    rf_pretok_free(pretok);
    return p;
}

static void test_splits(void **state) {
    (void)state;
    rf_json *j = read_json(rf_test_data("text/pretok.json"));
    rf_str text = rf_json_str(rf_json_get(j, "text"));
    const rf_json *all = rf_json_get(j, "pieces");
    unsigned n_patterns = 0;
    for (void *it = rf_json_iter(all); it; it = rf_json_iter_next(all, it)) {
        const rf_json *want = rf_json_iter_value(it);
        pieces p = split(rf_json_iter_key(it), text, want);
        if (p.first_wrong != SIZE_MAX) {
            fail_msg("%s: piece %zu is different", rf_json_iter_key(it), p.first_wrong);
        }
        assert_int_equal(p.n, rf_json_len(want));
        assert_int_equal(p.bytes, text.len);
        n_patterns++;
    }
    assert_int_equal(n_patterns, 13);
    rf_json_free(j);
}

static void test_names(void **state) {
    (void)state;
    const char *name = NULL;
    assert_non_null(rf_pretok_find(RF_STR("llama3"), &name));
    assert_string_equal(name, "llama3");
    assert_ptr_equal(rf_pretok_find(RF_STR("llama3"), NULL),
                     rf_pretok_find(RF_STR("llama-bpe"), NULL));
    assert_null(rf_pretok_find(RF_STR("llama"), NULL));
    assert_null(rf_pretok_find(RF_STR(""), NULL));
    rf_buf list = {0};
    rf_pretok_list(&list);
    assert_non_null(strstr(list.p, "default, "));
    assert_non_null(strstr(list.p, "qwen2"));
    rf_buf_free(&list);
}

/* Runs that make patterns backtrack: all within PCRE2's limits, every byte in a piece. */
static void test_runs(void **state) {
    (void)state;
    static const char *const units[] = {
        "a",        "A", " ",   "\t",  "7",        "\n", "\xE4\xB8\xAD",
        "\xCC\x81", "!", "a a", " \n", "\xD7\x90", "'s", "  x"};
    rf_json *j = read_json(rf_test_data("text/pretok.json"));
    const rf_json *all = rf_json_get(j, "pieces");
    rf_buf text = {0};
    for (size_t u = 0; u < RF_COUNT(units); u++) {
        rf_buf_clear(&text);
        while (text.len < 100000) {
            rf_buf_puts(&text, units[u]);
        }
        for (void *it = rf_json_iter(all); it; it = rf_json_iter_next(all, it)) {
            pieces p = split(rf_json_iter_key(it), rf_buf_str(&text), NULL);
            assert_int_equal(p.bytes, text.len);
        }
        assert_int_equal(split("deepseek-llm", rf_buf_str(&text), NULL).bytes, text.len);
    }
    rf_buf_free(&text);
    rf_json_free(j);
}

static rf_status stop_at_third(void *ctx, rf_str piece) {
    (void)piece;
    unsigned *n = ctx;
    return ++*n == 3 ? RF_ECANCELLED : RF_OK;
}

static void test_stops(void **state) {
    (void)state;
    rf_pretok *pretok = NULL;
    rf_splitter *splitter = NULL;
    rf_error e = {0};
    unsigned n = 0;
    assert_int_equal(rf_pretok_create(&pretok, rf_pretok_find(RF_STR("gpt-2"), NULL), &e), RF_OK);
    assert_int_equal(rf_splitter_create(&splitter, pretok), RF_OK);
    assert_int_equal(rf_splitter_run(splitter, RF_STR("a b c d"), stop_at_third, &n, &e),
                     RF_ECANCELLED);
    assert_int_equal(n, 3);
    rf_splitter_free(splitter);
    rf_pretok_free(pretok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
