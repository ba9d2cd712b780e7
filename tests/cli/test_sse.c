/* test_sse.c - the reader of server-sent events: which events a stream holds, its limit, and lack of
 * memory.  That any cut of the bytes gives the same: fuzz_sse.c.  req: C-16 */
#include <string.h>

#include "cli/load_sse.c" /* NOLINT: it belongs to the program, not to the library */
#include "lib/testlib.h"

static bool on_event(void *user, rf_str data) {
    rf_buf *all = user;
    rf_buf_putc(all, '<');
    rf_buf_put(all, data.p, data.len);
    rf_buf_putc(all, '>');
    return true;
}

static void check(const char *stream, const char *expected, bool at_rest) {
    rf_buf all = {0};
    rf_error e = {0};
    rf_sse s = {.on_event = on_event, .user = &all};
    assert_int_equal(rf_sse_feed(&s, stream, strlen(stream), &e), RF_OK);
    assert_string_equal(all.len ? all.p : "", expected);
    assert_int_equal(rf_sse_at_rest(&s), at_rest);
    rf_sse_free(&s);
    rf_buf_free(&all);
}

static void test_events(void **state) {
    (void)state;
    check("", "", true);
    check("data: a\n\n", "<a>", true);
    check("data:a\n\ndata:  b\n\n", "<a>< b>", true);
    check("data: a\r\ndata: b\r\n\r\n", "<a\nb>", true);
    check("data: a\r\rdata: b\n\r\n", "<a><b>", true);
    check("data\n\n", "<>", true);
    check("data\ndata\n\n", "<\n>", true);
    check("\n\n\n", "", true);
    check(": ping\n\nevent: x\nid: 1\nretry: 2\n\n", "", true);
    check("datum: a\nData: b\n data: c\n\n", "", true);
    check("event: x\ndata: a\nid: 3\n\n", "<a>", true);
    check("data: a\n", "", false);
    check("data: a\n\ndata: b", "<a>", false);
}

static void test_limit(void **state) {
    (void)state;
    static char block[RF_SSE_MAX_EVENT / 2];
    rf_buf all = {0};
    rf_error e = {0};
    rf_sse s = {.on_event = on_event, .user = &all};
    memset(block, 'x', sizeof block);
    /* one long line */
    assert_int_equal(rf_sse_feed(&s, "data: ", 6, &e), RF_OK);
    assert_int_equal(rf_sse_feed(&s, block, sizeof block, &e), RF_OK);
    assert_int_equal(rf_sse_feed(&s, block, sizeof block, &e), RF_EFORMAT);
    assert_string_equal(e.text, "line 1: an event is longer than 1048576 bytes");
    /* many lines of one event */
    rf_sse_reset(&s);
    e = (rf_error){0};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rf_sse_feed(&s, "data: ", 6, &e), RF_OK);
        assert_int_equal(rf_sse_feed(&s, block, sizeof block, &e), RF_OK);
        assert_int_equal(rf_sse_feed(&s, "\n", 1, &e), i == 0 ? RF_OK : RF_EFORMAT);
    }
    assert_int_equal(all.len, 0);
    rf_sse_free(&s);
}

static void test_no_memory(void **state) {
    (void)state;
    static const char stream[] = "data: a\ndata: b\n\n";
    for (long nth = 1; nth <= 2; nth++) {
        rf_buf all = {0};
        rf_error e = {0};
        rf_sse s = {.on_event = on_event, .user = &all};
        rf_alloc_fail_nth(nth);
        assert_int_equal(rf_sse_feed(&s, stream, sizeof stream - 1, &e), RF_ENOMEM);
        rf_alloc_fail_nth(0);
        rf_sse_free(&s);
        rf_buf_free(&all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
