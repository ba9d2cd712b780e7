/* test_utf8.c - strict UTF-8 against a plain table of the standard's ranges. */
#include "lib/testlib.h"

#include <string.h>

#include "base/utf8.h"

/* Table 3-7 of the Unicode standard, row by row: the ranges of bytes 1 to 4. */
static const struct row {
    int len;
    unsigned char lo[4], hi[4];
} table[] = {
    {1, {0x00}, {0x7F}},
    {2, {0xC2, 0x80}, {0xDF, 0xBF}},
    {3, {0xE0, 0xA0, 0x80}, {0xE0, 0xBF, 0xBF}},
    {3, {0xE1, 0x80, 0x80}, {0xEC, 0xBF, 0xBF}},
    {3, {0xED, 0x80, 0x80}, {0xED, 0x9F, 0xBF}},
    {3, {0xEE, 0x80, 0x80}, {0xEF, 0xBF, 0xBF}},
    {4, {0xF0, 0x90, 0x80, 0x80}, {0xF0, 0xBF, 0xBF, 0xBF}},
    {4, {0xF1, 0x80, 0x80, 0x80}, {0xF3, 0xBF, 0xBF, 0xBF}},
    {4, {0xF4, 0x80, 0x80, 0x80}, {0xF4, 0x8F, 0xBF, 0xBF}},
};

/* What the table says of p[0..n): the length of a whole character at the start, or 0; *partial when
 * all n bytes fit the beginning of a longer one. */
static int by_table(const unsigned char *p, size_t n, bool *partial) {
    *partial = false;
    for (size_t r = 0; r < RF_COUNT(table); r++) {
        size_t fit = 0;
        while (fit < n && fit < (size_t)table[r].len && p[fit] >= table[r].lo[fit] &&
               p[fit] <= table[r].hi[fit]) {
            fit++;
        }
        if (fit == (size_t)table[r].len) return table[r].len;
        if (n > 0 && fit == n) *partial = true;
    }
    return 0;
}

static void check_bytes(const unsigned char *p, size_t n) {
    bool partial;
    uint32_t cp = 0;
    int expected = by_table(p, n, &partial);
    assert_int_equal(rf_utf8_decode((const char *)p, n, &cp), expected);
    if (expected == 0) assert_int_equal(cp, 0xFFFD);
    assert_int_equal(rf_utf8_is_partial((const char *)p, n), partial);
    if (expected == (int)n) {
        assert_int_equal(rf_utf8_valid_prefix((const char *)p, n), n);
    } else if (expected == 0) {
        assert_int_equal(rf_utf8_valid_prefix((const char *)p, n), 0);
    }
}

/* Each byte position takes every value that lies at or beside a boundary of the table. */
static void all_boundary_sequences(void **state) {
    (void)state;
    static const unsigned char edge[] = {0x00, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                         0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                         0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    enum { N = RF_COUNT(edge) };
    for (size_t a = 0; a < 256; a++) {
        for (size_t code = 0; code < N * N * N; code++) {
            unsigned char p[4] = {(unsigned char)a, edge[code % N], edge[code / N % N],
                                  edge[code / N / N]};
            check_bytes(p, 4);
            if (code < N * N) check_bytes(p, 3);
            if (code < N) check_bytes(p, 2);
            if (code == 0) check_bytes(p, 1);
        }
    }
    check_bytes((const unsigned char *)"", 0);
}

static void every_code_point_round_trips(void **state) {
    (void)state;
    for (uint32_t cp = 0; cp <= 0x110010; cp++) {
        char bytes[4];
        int n = rf_utf8_encode(cp, bytes);
        bool valid = cp <= 0x10FFFF && (cp < 0xD800 || cp > 0xDFFF);
        uint32_t back;
        assert_int_equal(rf_utf8_decode(bytes, (size_t)n, &back), n);
        assert_int_equal(back, valid ? cp : 0xFFFD);
        if (valid) assert_int_equal(n, cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4);
        for (int cut = 1; cut < n; cut++) {
            assert_true(rf_utf8_is_partial(bytes, (size_t)cut));
        }
        assert_false(rf_utf8_is_partial(bytes, (size_t)n));
    }
    char last[4];
    assert_int_equal(rf_utf8_encode(UINT32_MAX, last), 3);
}

static void known_encodings(void **state) {
    (void)state;
    static const struct {
        uint32_t cp;
        const char *bytes;
    } cases[] = {
        {0x24, "\x24"},
        {0x7F, "\x7F"},
        {0x80, "\xC2\x80"},
        {0x7FF, "\xDF\xBF"},
        {0x800, "\xE0\xA0\x80"},
        {0x20AC, "\xE2\x82\xAC"},
        {0xD7FF, "\xED\x9F\xBF"},
        {0xE000, "\xEE\x80\x80"},
        {0xFFFF, "\xEF\xBF\xBF"},
        {0x10000, "\xF0\x90\x80\x80"},
        {0x1F600, "\xF0\x9F\x98\x80"},
        {0x10FFFF, "\xF4\x8F\xBF\xBF"},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        uint32_t cp;
        size_t n = strlen(cases[i].bytes);
        assert_int_equal(rf_utf8_decode(cases[i].bytes, n, &cp), n);
        assert_int_equal(cp, cases[i].cp);
        char out[4];
        assert_int_equal(rf_utf8_encode(cp, out), n);
        assert_memory_equal(out, cases[i].bytes, n);
    }
}

/* req: B-53 */
static void the_valid_prefix_stops_at_the_first_fault(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t n, valid;
    } cases[] = {
        {"", 0, 0},
        {"ascii", 5, 5},
        {"a\0b", 3, 3},
        {"h\xC3\xA9llo", 6, 6},
        {"ab\xC3", 3, 2},
        {"ab\xE2\x82", 4, 2},
        {"\xF0\x9F\x98\x80\xF0\x9F\x98", 7, 4},
        {"ok\xFFno", 5, 2},
        {"\xC3\xA9\x80", 3, 2},
        {"\xED\xA0\x80", 3, 0},
        {"x\xF4\x90\x80\x80", 5, 1},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_guarded g = rf_guard(cases[i].text, cases[i].n);
        assert_int_equal(rf_utf8_valid_prefix((const char *)g.p, g.n), cases[i].valid);
        rf_guard_free(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_boundary_sequences),
        cmocka_unit_test(every_code_point_round_trips),
        cmocka_unit_test(known_encodings),
        cmocka_unit_test(the_valid_prefix_stops_at_the_first_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
