/* test_normalize.c - repair of broken UTF-8 and canonical composition (NFC).
 *
 * Expected strings are from the Unicode standard's chapter 3 and annex 15. */
#include "lib/testlib.h"
#include "text/normalize.h"

static void check(const char *text, bool nfc, const char *want) {
    rf_buf room = {0};
    rf_str out;
    assert_int_equal(rf_normalize(rf_str_of(text), nfc, &room, &out), RF_OK);
    if (!rf_str_is(out, want)) fail_msg("got \"%.*s\", want \"%s\"", RF_STR_ARG(out), want);
    rf_buf_free(&room);
}

static void test_composition(void **state) {
    (void)state;
    check("e\xCC\x81", true, "\xC3\xA9");
    check("e\xCC\x81", false, "e\xCC\x81");
    check("\xC3\xA9", true, "\xC3\xA9");
    check("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", true, "\xED\x95\x9C"); /* Hangul */
    check("\xE2\x84\xAB", true, "\xC3\x85");                             /* Angstrom sign */
    check("\xE0\xA5\x98", true, "\xE0\xA4\x95\xE0\xA4\xBC");             /* never recomposed */
    check("q\xCC\x87\xCC\xA3", true, "q\xCC\xA3\xCC\x87");               /* order of marks */
    check("d\xCC\x87\xCC\xA3", true, "\xE1\xB8\x8D\xCC\x87");
    check("a\xCC\x80\xCC\x80", true, "\xC3\xA0\xCC\x80");
    check("\xEF\xAC\x81", true, "\xEF\xAC\x81"); /* a ligature is no canonical matter */
    check("\xEA\xB0\x80\xE1\x86\xA8", true, "\xEA\xB0\x81");
    check("plain", true, "plain");
    check("", true, "");
}

/* Unchanged text is not copied. */
static void test_borrows(void **state) {
    (void)state;
    rf_buf room = {0};
    rf_str out, text = RF_STR("caf\xC3\xA9 na\xC3\xAFve");
    assert_int_equal(rf_normalize(text, true, &room, &out), RF_OK);
    assert_ptr_equal(out.p, text.p);
    assert_null(room.p);
}

static void test_repair(void **state) {
    (void)state;
    check("\xFF", false, "\xEF\xBF\xBD");
    check("a\xE2\x82z", false, "a\xEF\xBF\xBD\xEF\xBF\xBDz");
    check("\xC0\x80", false, "\xEF\xBF\xBD\xEF\xBF\xBD");
    check("e\xCC\x81\xFF", true, "\xC3\xA9\xEF\xBF\xBD");
    check("e\xFF\xCC\x81", true, "e\xEF\xBF\xBD\xCC\x81");
}

/* A long run of marks in the wrong order: two classes, each sorted to its place and kept in order.
 * (With an exchange of neighbours this takes hours.) */
static void test_long_run_of_marks(void **state) {
    (void)state;
    enum { N = 100000 };
    rf_buf text = {0}, want = {0}, room = {0};
    rf_str out;
    rf_buf_putc(&text, 'q');
    rf_buf_putc(&want, 'q');
    for (int i = 0; i < N; i++) {
        rf_buf_puts(&text, i % 2 ? "\xCC\x87" : "\xCC\x8A"); /* class 230 */
    }
    for (int i = 0; i < N; i++) {
        rf_buf_puts(&text, i % 2 ? "\xCC\xA3" : "\xCC\xA5"); /* class 220 */
        rf_buf_puts(&want, i % 2 ? "\xCC\xA3" : "\xCC\xA5");
    }
    for (int i = 0; i < N; i++) {
        rf_buf_puts(&want, i % 2 ? "\xCC\x87" : "\xCC\x8A");
    }
    assert_int_equal(rf_normalize(rf_buf_str(&text), true, &room, &out), RF_OK);
    assert_true(rf_str_eq(out, rf_buf_str(&want)));
    rf_buf_free(&text);
    rf_buf_free(&want);
    rf_buf_free(&room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_composition),
        cmocka_unit_test(test_borrows),
        cmocka_unit_test(test_repair),
        cmocka_unit_test(test_long_run_of_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
