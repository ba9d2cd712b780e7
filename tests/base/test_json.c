/* test_json.c - reading JSON: values, order, strictness, error places, depth, failure. */
#include "lib/testlib.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"

static rf_json *parse(const char *text) {
    rf_guarded g = rf_guard(text, strlen(text));
    rf_json *j;
    rf_error e = {0};
    if (rf_json_parse(&j, (rf_str){(const char *)g.p, g.n}, &e) != RF_OK) fail_msg("%s", e.text);
    rf_guard_free(&g); /* the tree borrows nothing from the text */
    return j;
}

static void values_of_every_kind(void **state) {
    (void)state;
    rf_json *j = parse("{\"n\":null,\"t\":true,\"f\":false,\"i\":-42,\"big\":9223372036854775807,"
                       "\"r\":2.5e-3,\"s\":\"a\\u0000\\u20ac\\ud83d\\ude00\",\"a\":[1,\"x\",[]],"
                       "\"o\":{\"k\":1}}");
    assert_int_equal(rf_json_kind(j), RF_JSON_OBJECT);
    assert_int_equal(rf_json_len(j), 9);
    assert_int_equal(rf_json_kind(rf_json_get(j, "n")), RF_JSON_NULL);
    assert_int_equal(rf_json_kind(rf_json_get(j, "t")), RF_JSON_BOOL);
    assert_true(rf_json_bool(rf_json_get(j, "t")));
    assert_int_equal(rf_json_kind(rf_json_get(j, "f")), RF_JSON_BOOL);
    assert_false(rf_json_bool(rf_json_get(j, "f")));
    assert_int_equal(rf_json_kind(rf_json_get(j, "i")), RF_JSON_INT);
    assert_true(rf_json_int(rf_json_get(j, "i")) == -42);
    assert_true(rf_json_real(rf_json_get(j, "i")) == -42.0);
    assert_true(rf_json_int(rf_json_get(j, "big")) == INT64_MAX);
    assert_int_equal(rf_json_kind(rf_json_get(j, "r")), RF_JSON_REAL);
    assert_true(rf_json_real(rf_json_get(j, "r")) == 2.5e-3);
    assert_true(rf_json_int(rf_json_get(j, "r")) == 0);
    rf_str s = rf_json_str(rf_json_get(j, "s"));
    assert_true(rf_str_eq(s, RF_STR("a\0\xE2\x82\xAC\xF0\x9F\x98\x80")));
    const rf_json *a = rf_json_get(j, "a");
    assert_int_equal(rf_json_kind(a), RF_JSON_ARRAY);
    assert_int_equal(rf_json_len(a), 3);
    assert_true(rf_str_is(rf_json_str(rf_json_at(a, 1)), "x"));
    assert_int_equal(rf_json_len(rf_json_at(a, 2)), 0);
    assert_true(rf_json_int(rf_json_get(rf_json_get(j, "o"), "k")) == 1);
    rf_json_free(j);
}

static void absent_and_wrong_kinds_are_harmless(void **state) {
    (void)state;
    rf_json *j = parse("[\"text\", 1e300, -1e300]");
    assert_null(rf_json_at(j, 3));
    assert_null(rf_json_get(j, "key"));
    assert_null(rf_json_at(NULL, 0));
    assert_null(rf_json_get(NULL, "key"));
    assert_int_equal(rf_json_kind(NULL), RF_JSON_NULL);
    assert_int_equal(rf_json_len(NULL), 0);
    assert_int_equal(rf_json_len(rf_json_at(j, 0)), 0);
    assert_int_equal(rf_json_str(j).len, 0);
    assert_int_equal(rf_json_str(NULL).len, 0);
    assert_true(rf_json_int(rf_json_at(j, 0)) == 0);
    assert_true(rf_json_real(rf_json_at(j, 0)) == 0.0);
    assert_true(rf_json_int(rf_json_at(j, 1)) == INT64_MAX);
    assert_true(rf_json_int(rf_json_at(j, 2)) == INT64_MIN);
    assert_false(rf_json_bool(rf_json_at(j, 0)));
    assert_null(rf_json_iter(j));
    rf_json_free(j);
    rf_json_free(NULL);
}

static void members_come_in_file_order(void **state) {
    (void)state;
    rf_json *j = parse("{\"zeta\":0,\"alpha\":1,\"m\":2,\"\":3,\"beta\":4}");
    static const char *const keys[] = {"zeta", "alpha", "m", "", "beta"};
    int64_t i = 0;
    for (void *it = rf_json_iter(j); it; it = rf_json_iter_next(j, it)) {
        assert_true(i < 5);
        assert_string_equal(rf_json_iter_key(it), keys[i]);
        assert_true(rf_json_int(rf_json_iter_value(it)) == i);
        i++;
    }
    assert_true(i == 5);
    rf_json_free(j);
}

static void scalars_stand_alone(void **state) {
    (void)state;
    static const struct {
        const char *text;
        rf_json_type kind;
    } cases[] = {
        {"1", RF_JSON_INT},           {" \"s\" ", RF_JSON_STRING}, {"null", RF_JSON_NULL},
        {"\ttrue\r\n", RF_JSON_BOOL}, {"-0.5", RF_JSON_REAL},      {"[]", RF_JSON_ARRAY},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_json *j = parse(cases[i].text);
        assert_int_equal(rf_json_kind(j), cases[i].kind);
        rf_json_free(j);
    }
}

static void malformed_text_is_refused_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        const char *where;
    } cases[] = {
        {"", 0, "line 1"},
        {"   ", 3, "line 1"},
        {"{\"a\":1,\n \"a\":2}", 15, "line 2 column 4: duplicate object key"},
        {"[1,]", 4, "line 1 column 4"},
        {"{\"a\":1,}", 8, "line 1 column 8"},
        {"[1 2]", 5, "line 1 column 4"},
        {"1 2", 3, "line 1 column 3: end of file expected"},
        {"{'a':1}", 7, "line 1 column 2"},
        {"[01]", 4, "line 1"},
        {"[NaN]", 5, "line 1"},
        {"[+1]", 4, "line 1"},
        {"[.5]", 4, "line 1"},
        {"[99999999999999999999]", 22, "too big integer"},
        {"[1e999]", 7, "real number overflow"},
        {"[\"\\x\"]", 6, "invalid escape"},
        {"[\"\\ud800\"]", 10, "line 1"},
        {"[\"\n\"]", 5, "line 1"},
        {"[\"abc", 5, "line 1"},
        {"[\"abc\\", 6, "line 1"},
        {"[\"\xFF\"]", 5, "unable to decode byte 0xff"},
        {"[\"\xC0\x80\"]", 6, "unable to decode"},
        {"[\"\xED\xA0\x80\"]", 7, "unable to decode"},
        {"\xEF\xBB\xBF{}", 5, "line 1"},
        {"[1,\n\0 2]", 8, "line 2 column 1: a zero byte"},
        {"\"a\0b\"", 5, "line 1 column 3: a zero byte"},
        {"\"a\\\0\"", 5, "line 1 column 4: a zero byte"},
        {"]", 1, "line 1"},
        {"[[1}", 4, "line 1"},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_guarded g = rf_guard(cases[i].text, cases[i].n);
        rf_json *j;
        rf_error e = {0};
        rf_status s = rf_json_parse(&j, (rf_str){(const char *)g.p, g.n}, &e);
        rf_guard_free(&g);
        if (s != RF_EFORMAT || !strstr(e.text, cases[i].where)) {
            fail_msg("case %zu: status %d, \"%s\" says not \"%s\"", i, (int)s, e.text,
                     cases[i].where);
        }
        assert_null(j);
    }
}

static void depth_is_bounded(void **state) {
    (void)state;
    static const struct { const char *open, *close; } forms[] = {{"[", "]"}, {"{\"k\":", "}"}};
    for (size_t f = 0; f < RF_COUNT(forms); f++) {
        for (int depth = 511; depth <= 514; depth++) {
            rf_buf b = {0};
            for (int i = 0; i < depth; i++) {
                rf_buf_puts(&b, forms[f].open);
            }
            rf_buf_puts(&b, "\"[[[{{{\"");
            for (int i = 0; i < depth; i++) {
                rf_buf_puts(&b, forms[f].close);
            }
            rf_json *j;
            rf_error e = {0};
            rf_status s = rf_json_parse(&j, rf_buf_str(&b), &e);
            assert_int_equal(s, depth <= 512 ? RF_OK : RF_EFORMAT);
            if (s != RF_OK) assert_non_null(strstr(e.text, "512 levels"));
            rf_json_free(j);
            rf_buf_free(&b);
        }
    }
    static char hostile[1000000]; /* would overflow the stack of a parser that recurses */
    memset(hostile, '[', sizeof hostile);
    rf_json *j;
    rf_error e = {0};
    assert_int_equal(rf_json_parse(&j, (rf_str){hostile, sizeof hostile}, &e), RF_EFORMAT);
    assert_non_null(strstr(e.text, "line 1 column 513"));
}

/* Any bytes written by rf_buf_json_str come back as the same text. */
static void written_strings_read_back(void **state) {
    (void)state;
    uint64_t seed = 9;
    for (int k = 0; k < 2000; k++) {
        char raw[24];
        size_t n = rf_test_rand(&seed) % sizeof raw;
        for (size_t i = 0; i < n; i++) {
            raw[i] = (char)(rf_test_rand(&seed) % 128);
        }
        rf_buf b = {0};
        rf_buf_json_str(&b, (rf_str){raw, n});
        rf_json *j;
        rf_error e = {0};
        if (rf_json_parse(&j, rf_buf_str(&b), &e) != RF_OK) fail_msg("%s: %s", b.p, e.text);
        assert_true(rf_str_eq(rf_json_str(j), (rf_str){raw, n}));
        rf_json_free(j);
        rf_buf_free(&b);
    }
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    static const char text[] =
        "{\"model\":\"demo\",\"messages\":[{\"role\":\"user\","
        "\"content\":\"hi \\u00e9\"},{}],\"n\":1,\"t\":0.5,\"s\":[true,null]}";
    long nth = 1;
    for (;; nth++) {
        rf_json *j;
        rf_error e = {0};
        rf_alloc_fail_nth(nth);
        rf_status s = rf_json_parse(&j, RF_STR(text), &e);
        rf_alloc_fail_nth(0);
        if (s == RF_OK) {
            assert_int_equal(rf_json_len(rf_json_get(j, "messages")), 2);
            rf_json_free(j);
            break;
        }
        if (s != RF_ENOMEM) fail_msg("allocation %ld: status %d, \"%s\"", nth, (int)s, e.text);
        assert_null(j);
    }
    print_message("%ld allocations failed one after the other\n", nth - 1);
    assert_true(nth > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_every_kind),
        cmocka_unit_test(absent_and_wrong_kinds_are_harmless),
        cmocka_unit_test(members_come_in_file_order),
        cmocka_unit_test(scalars_stand_alone),
        cmocka_unit_test(malformed_text_is_refused_with_its_place),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(written_strings_read_back),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
