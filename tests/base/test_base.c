/* test_base.c - status, error text, strings, checked arithmetic, allocation. */
#include "lib/testlib.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* req: C-17 */
static void error_keeps_the_first_failure(void **state) {
    (void)state;
    rf_error e = {0};
    assert_int_equal(rf_fail(&e, RF_EFORMAT, "a.gguf: offset %d: %s", 24, "bad magic"), RF_EFORMAT);
    assert_int_equal(rf_fail(&e, RF_EIO, "later"), RF_EIO);
    assert_int_equal(e.status, RF_EFORMAT);
    assert_string_equal(e.text, "a.gguf: offset 24: bad magic");
    assert_int_equal(rf_fail(NULL, RF_EARG, "nobody listens"), RF_EARG);
    rf_error m = {0};
    assert_int_equal(rf_fail_nomem(&m, 12345), RF_ENOMEM);
    assert_non_null(strstr(m.text, "12345"));
}

static void error_text_is_one_whole_line(void **state) {
    (void)state;
    rf_error e = {0};
    (void)rf_fail(&e, RF_EFORMAT, "key \"%s\"", "a\nb\x1b[2J\x7f");
    assert_string_equal(e.text, "key \"a?b?[2J?\"");
    /* A character of 2, 3 or 4 bytes across the end of the text is dropped as a whole. */
    static const char *const chars[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    for (size_t c = 0; c < RF_COUNT(chars); c++) {
        for (size_t pad = 490; pad < 505; pad++) {
            char long_text[600];
            memset(long_text, 'x', sizeof long_text);
            memcpy(long_text + pad, chars[c], strlen(chars[c]));
            long_text[pad + strlen(chars[c])] = '\0';
            rf_error cut = {0};
            (void)rf_fail(&cut, RF_EIO, "%s", long_text);
            size_t whole = pad + strlen(chars[c]);
            size_t expected = whole < sizeof cut.text ? whole : pad;
            if (expected > sizeof cut.text - 1) expected = sizeof cut.text - 1;
            assert_int_equal(strlen(cut.text), expected);
            assert_memory_equal(cut.text, long_text, expected);
        }
    }
}

static void every_status_has_its_own_name(void **state) {
    (void)state;
    for (int a = RF_OK; a <= RF_ECANCELLED; a++) {
        assert_string_not_equal(rf_status_name((rf_status)a), "unknown status");
        for (int b = RF_OK; b < a; b++) {
            assert_string_not_equal(rf_status_name((rf_status)a), rf_status_name((rf_status)b));
        }
    }
    assert_string_equal(rf_status_name((rf_status)99), "unknown status");
}

static void strings_compare_by_bytes(void **state) {
    (void)state;
    assert_true(rf_str_eq(RF_STR("a\0b"), (rf_str){"a\0b", 3}));
    assert_false(rf_str_eq(RF_STR("a\0b"), RF_STR("a\0c")));
    assert_false(rf_str_eq(RF_STR("ab"), RF_STR("abc")));
    assert_true(rf_str_eq((rf_str){NULL, 0}, RF_STR("")));
    assert_true(rf_str_is(RF_STR("llama"), "llama"));
    assert_false(rf_str_is(RF_STR("llama"), "llam"));
    assert_true(rf_str_starts(RF_STR("llama.block"), "llama."));
    assert_true(rf_str_starts((rf_str){NULL, 0}, ""));
    assert_false(rf_str_starts(RF_STR("ll"), "llama"));
    assert_int_equal(rf_str_of(NULL).len, 0);
    char out[16];
    snprintf(out, sizeof out, "%.*s", RF_STR_ARG(RF_STR("tensor")));
    assert_string_equal(out, "tensor");
}

/* req: B-16 B-41 B-42 B-43 */
static void arithmetic_refuses_to_wrap(void **state) {
    (void)state;
    size_t r;
    assert_true(rf_add_ok(SIZE_MAX - 1, 1, &r));
    assert_true(r == SIZE_MAX);
    assert_false(rf_add_ok(SIZE_MAX, 1, &r));
    assert_true(rf_mul_ok(SIZE_MAX / 2, 2, &r));
    assert_true(r == SIZE_MAX - 1);
    assert_false(rf_mul_ok(SIZE_MAX / 2 + 1, 2, &r));
    assert_true(rf_mul_ok(0, SIZE_MAX, &r));
    assert_true(r == 0);
    assert_false(rf_mul_ok((size_t)1 << 32, (size_t)1 << 32, &r));
}

static bool all_zero(const unsigned char *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (p[i] != 0) return false;
    }
    return true;
}

static void allocation_is_zeroed_and_aligned(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1};
    for (size_t i = 0; i < RF_COUNT(sizes); i++) {
        for (int again = 0; again < 3; again++) { /* the second time the memory was used before */
            unsigned char *p = rf_alloc(sizes[i], 1);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 64, 0);
            assert_true(all_zero(p, sizes[i]));
            memset(p, 0xAB, sizes[i]);
            rf_free(p);
        }
    }
    rf_free(NULL);
}

/* req: B-20 B-41 */
static void allocation_refuses_overflow(void **state) {
    (void)state;
    assert_null(rf_alloc(SIZE_MAX, 2));
    assert_null(rf_alloc((size_t)1 << 33, (size_t)1 << 33));
    assert_null(rf_alloc(SIZE_MAX, 1)); /* the product fits, the head behind it does not */
    assert_null(rf_alloc(SIZE_MAX - 100, 1));
    unsigned char *p = rf_alloc(4, 1);
    assert_non_null(p);
    memcpy(p, "keep", 4);
    void *q = rf_realloc(p, 4, SIZE_MAX / 2, 4);
    assert_null(q);
    assert_memory_equal(p, "keep", 4);
    rf_free(p);
}

static void realloc_keeps_old_and_zeroes_new(void **state) {
    (void)state;
    uint32_t *p = rf_realloc(NULL, 0, 3, sizeof *p);
    assert_non_null(p);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(p[i], 0);
        p[i] = i + 1;
    }
    static const size_t steps[] = {500000, 600000, 2, 40};
    size_t n = 3;
    for (size_t s = 0; s < RF_COUNT(steps); s++) {
        uint32_t *q = rf_realloc(p, n, steps[s], sizeof *p);
        assert_non_null(q);
        p = q;
        size_t known = n < steps[s] ? n : steps[s];
        if (known > 3) known = 3;
        for (uint32_t i = 0; i < known; i++) {
            if (s < 3 || i < 2) assert_int_equal(p[i], i + 1);
        }
        assert_true(all_zero((unsigned char *)(p + known), (steps[s] - known) * sizeof *p));
        n = steps[s];
    }
    rf_free(p);
}

static void nth_allocation_fails_once(void **state) {
    (void)state;
    for (long n = 1; n <= 4; n++) {
        rf_alloc_fail_nth(n);
        for (long i = 1; i <= 6; i++) {
            void *p = rf_alloc(8, 1);
            if (i == n) {
                assert_null(p);
            } else {
                assert_non_null(p);
            }
            rf_free(p);
        }
    }
    void *p = rf_alloc(8, 1);
    rf_alloc_fail_nth(1);
    void *q = rf_realloc(p, 8, 16, 1);
    assert_null(q);
    rf_free(p);
    rf_alloc_fail_nth(5);
    rf_alloc_fail_nth(0);
    rf_alloc_count();
    for (int i = 0; i < 8; i++) {
        p = rf_alloc(8, 1);
        assert_non_null(p);
        rf_free(p);
    }
    assert_int_equal(rf_alloc_count(), 8);
    assert_int_equal(rf_alloc_count(), 0);
}

/* Runs fn in a child whose stderr is silenced; true when it aborted. */
static bool aborts(void (*fn)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        fn();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void fail_an_assertion(void) { RF_ASSERT(1 + 1 == 3); }

static void free_what_was_not_allocated(void) {
    static _Alignas(64) unsigned char bytes[256];
    rf_free(bytes + 128);
}

static void hold_an_assertion(void) { RF_ASSERT(1 + 1 == 2); }

static void our_own_bugs_abort(void **state) {
    (void)state;
    assert_true(aborts(fail_an_assertion));
    assert_true(aborts(free_what_was_not_allocated));
    assert_false(aborts(hold_an_assertion));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_keeps_the_first_failure),
        cmocka_unit_test(error_text_is_one_whole_line),
        cmocka_unit_test(every_status_has_its_own_name),
        cmocka_unit_test(strings_compare_by_bytes),
        cmocka_unit_test(arithmetic_refuses_to_wrap),
        cmocka_unit_test(allocation_is_zeroed_and_aligned),
        cmocka_unit_test(allocation_refuses_overflow),
        cmocka_unit_test(realloc_keeps_old_and_zeroes_new),
        cmocka_unit_test(nth_allocation_fails_once),
        cmocka_unit_test(our_own_bugs_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
