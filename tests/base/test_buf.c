/* test_buf.c - growing buffers: content, the closing NUL, JSON strings, failure. */
#include "lib/testlib.h"

#include <string.h>

#include "base/buf.h"

static void appends_in_order_with_a_closing_nul(void **state) {
    (void)state;
    rf_buf b = {0};
    assert_int_equal(rf_buf_str(&b).len, 0);
    assert_string_equal(rf_buf_str(&b).p, "");
    rf_buf_put(&b, NULL, 0);
    assert_string_equal(b.p, "");
    rf_buf_puts(&b, "layers=");
    rf_buf_printf(&b, "%d,%s", 32, "heads");
    rf_buf_putc(&b, '!');
    rf_buf_put(&b, "\0z", 2);
    assert_false(b.failed);
    assert_int_equal(b.len, 18);
    assert_memory_equal(b.p, "layers=32,heads!\0z", 19);
    rf_buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.p, "");
    rf_buf_free(&b);
    assert_null(b.p);
    assert_int_equal(b.cap, 0);
}

static void every_length_around_growth_is_whole(void **state) {
    (void)state;
    char expected[400];
    for (size_t first = 0; first < 130; first++) {
        for (int n = 0; n < 200; n += 7) {
            rf_buf b = {0};
            memset(expected, 'a', first);
            for (size_t i = 0; i < first; i++) {
                rf_buf_putc(&b, 'a');
            }
            rf_buf_printf(&b, "%0*d", n, 7);
            int digits = n == 0 ? 1 : n;
            memset(expected + first, '0', (size_t)digits);
            expected[first + (size_t)digits - 1] = '7';
            assert_int_equal(b.len, first + (size_t)digits);
            assert_memory_equal(b.p, expected, b.len);
            assert_int_equal(b.p[b.len], 0);
            rf_buf_free(&b);
        }
    }
}

static void json_strings_are_escaped(void **state) {
    (void)state;
    static const struct {
        rf_str in;
        const char *out;
    } cases[] = {
        {{"", 0}, "\"\""},
        {{NULL, 0}, "\"\""},
        {{"plain text", 10}, "\"plain text\""},
        {{"a\"b\\c", 5}, "\"a\\\"b\\\\c\""},
        {{"\b\f\n\r\t", 5}, "\"\\b\\f\\n\\r\\t\""},
        {{"\0\x01\x1f\x7f", 4}, "\"\\u0000\\u0001\\u001f\x7f\""},
        {{"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9}, "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\""},
        {{"\x80", 1}, "\"\xEF\xBF\xBD\""},                         /* a lone continuation byte */
        {{"\xE2\x82", 2}, "\"\xEF\xBF\xBD\""},                     /* cut: one replacement */
        {{"\xE2\x82x", 3}, "\"\xEF\xBF\xBDx\""},                   /* broken off by a letter */
        {{"\xC0\xAF", 2}, "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},         /* overlong */
        {{"\xF0\x9F\x98\xFF", 4}, "\"\xEF\xBF\xBD\xEF\xBF\xBD\""}, /* three bytes, then FF */
        {{"\xED\xA0\x80", 3}, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""}, /* a surrogate */
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_buf b = {0};
        rf_buf_json_str(&b, cases[i].in);
        assert_false(b.failed);
        assert_string_equal(b.p, cases[i].out);
        rf_buf_free(&b);
    }
}

static void a_failure_sticks_and_keeps_what_was_there(void **state) {
    (void)state;
    for (long n = 1; n <= 4; n++) { /* room for 64, 128, 256, 512 bytes */
        rf_buf b = {0};
        rf_alloc_fail_nth(n);
        for (int i = 0; i < 400; i++) {
            rf_buf_putc(&b, 'x');
        }
        rf_alloc_fail_nth(0);
        assert_true(b.failed);
        size_t kept = b.len;
        assert_int_equal(kept, n == 1 ? 0 : (32u << (n - 1)) - 1);
        rf_buf_puts(&b, "more");
        rf_buf_printf(&b, "%d", 5);
        rf_buf_json_str(&b, RF_STR("j"));
        assert_int_equal(b.len, kept);
        rf_buf_clear(&b);
        assert_true(b.failed);
        rf_buf_free(&b);
        assert_false(b.failed);
    }
    rf_buf b = {0};
    rf_buf_puts(&b, "head ");
    rf_alloc_fail_nth(1);
    rf_buf_printf(&b, "%0200d", 1); /* the text is known not to fit only after it was begun */
    rf_alloc_fail_nth(0);
    assert_true(b.failed);
    assert_string_equal(b.p, "head ");
    rf_buf_put(&b, "x", SIZE_MAX); /* no effect: failed before */
    rf_buf_free(&b);
    rf_buf_put(&b, "x", SIZE_MAX); /* length overflows */
    assert_true(b.failed);
    rf_buf_free(&b);
}

static void ids_grow_and_fail_alike(void **state) {
    (void)state;
    rf_ids ids = {0};
    for (int32_t i = 0; i < 1000; i++) {
        rf_ids_push(&ids, i * 3 - 7);
    }
    assert_false(ids.failed);
    assert_int_equal(ids.len, 1000);
    for (int32_t i = 0; i < 1000; i++) {
        assert_int_equal(ids.p[i], i * 3 - 7);
    }
    rf_ids_free(&ids);
    assert_null(ids.p);
    rf_alloc_fail_nth(2);
    for (int32_t i = 0; i < 100; i++) {
        rf_ids_push(&ids, i);
    }
    rf_alloc_fail_nth(0);
    assert_true(ids.failed);
    assert_int_equal(ids.len, 16);
    rf_ids_free(&ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_in_order_with_a_closing_nul),
        cmocka_unit_test(every_length_around_growth_is_whole),
        cmocka_unit_test(json_strings_are_escaped),
        cmocka_unit_test(a_failure_sticks_and_keeps_what_was_there),
        cmocka_unit_test(ids_grow_and_fail_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
