/* What a request says about where it comes from: what is kept of it, and that nothing else gets into
 * the log. */
#include <stdio.h>
#include <string.h>

#include "lib/testlib.h"
#include "server/trace.h"

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static void expect(const char *traceparent, const char *request_id, const char *want) {
    char got[RF_TRACE_CHARS];
    memset(got, 'x', sizeof got);
    rf_trace_describe(traceparent, request_id, got);
    assert_string_equal(got, want);
}

static void test_traceparent(void **state) {
    (void)state;
    static const char known[] = " trace=" TRACE " parent=" PARENT;
    expect("00-" TRACE "-" PARENT "-01", NULL, known);
    expect("00-" TRACE "-" PARENT "-00", NULL, known);
    expect("cc-" TRACE "-" PARENT "-01", NULL, known); /* a version to come */
    expect("cc-" TRACE "-" PARENT "-01-what-it-adds", NULL, known);
    static const char *const wrong[] = {
        "",
        "00",
        "00-" TRACE "-" PARENT "-0",
        "00-" TRACE "-" PARENT "-01-more",
        "cc-" TRACE "-" PARENT "-01.more",
        "ff-" TRACE "-" PARENT "-01",
        "0x-" TRACE "-" PARENT "-01",
        "00_" TRACE "-" PARENT "-01",
        "00-" TRACE "_" PARENT "-01",
        "00-" TRACE "-" PARENT "_01",
        "00-" TRACE "-" PARENT "-0g",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473\n-" PARENT "-01",
    };
    for (size_t i = 0; i < RF_COUNT(wrong); i++)
        expect(wrong[i], NULL, "");
}

/* Every prefix of a header, at the end of the memory that may be read. */
static void test_cut(void **state) {
    (void)state;
    static const char whole[] = "cc-" TRACE "-" PARENT "-01-";
    for (size_t n = 0; n < sizeof whole; n++) {
        char cut[sizeof whole] = {0};
        memcpy(cut, whole, n);
        rf_guarded g = rf_guard(cut, n + 1);
        expect((const char *)g.p, NULL, n >= 55 ? " trace=" TRACE " parent=" PARENT : "");
        rf_guard_free(&g);
    }
}

static void test_request_id(void **state) {
    (void)state;
    char longest[RF_TRACE_ID_CHARS + 2], want[RF_TRACE_CHARS];
    expect(NULL, NULL, "");
    expect(NULL, "", "");
    expect(NULL, "a.B-3_", " client=a.B-3_");
    expect(NULL, "two words", "");
    expect(NULL, "x status=200", "");
    expect(NULL, "line\nanother", "");
    expect(NULL, "\xc3\xa9", "");
    memset(longest, 'a', sizeof longest);
    longest[RF_TRACE_ID_CHARS + 1] = 0;
    expect(NULL, longest, "");
    longest[RF_TRACE_ID_CHARS] = 0;
    snprintf(want, sizeof want, " trace=" TRACE " parent=" PARENT " client=%s", longest);
    expect("00-" TRACE "-" PARENT "-01", longest, want);
    expect("nonsense", "id", " client=id");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traceparent),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_request_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
