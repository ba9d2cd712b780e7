/* test_log.c - levels, both forms, one line per message whatever the message holds. */
#include "lib/testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/os.h"

static int saved_stderr;
static char log_path[4096];

static void capture(void) {
    snprintf(log_path, sizeof log_path, "%s", rf_test_tmp("log"));
    saved_stderr = dup(STDERR_FILENO);
    int fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    assert_true(fd >= 0);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

/* What was logged since capture(), NUL-terminated; free with rf_free. */
static char *captured(void) {
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    size_t n;
    uint8_t *p = rf_test_read(log_path, &n);
    char *text = rf_realloc(p, n, n + 1, 1);
    assert_non_null(text);
    return text;
}

static void set_up(const char *spec) {
    rf_error e = {0};
    if (rf_log_configure(spec, &e) != RF_OK) fail_msg("%s", e.text);
}

static void levels_are_filtered(void **state) {
    (void)state;
    static const struct {
        const char *spec, *expected;
    } cases[] = {
        {NULL, "rocmforge: error: e1\nrocmforge: warn: w2\n"},
        {"", "rocmforge: error: e1\nrocmforge: warn: w2\n"},
        {"error", "rocmforge: error: e1\n"},
        {"info", "rocmforge: error: e1\nrocmforge: warn: w2\nrocmforge: info: i3\n"},
        {"debug", "rocmforge: error: e1\nrocmforge: warn: w2\nrocmforge: info: i3\n"
                  "rocmforge: debug: d4\n"},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        set_up(cases[i].spec);
        capture();
        errno = 77;
        rf_log_write(RF_LOG_ERROR, "e%d", 1);
        rf_log_write(RF_LOG_WARN, "w%d", 2);
        rf_log_write(RF_LOG_INFO, "i%d", 3);
        rf_log_write(RF_LOG_DEBUG, "d%d", 4);
        assert_int_equal(errno, 77); /* logging between a call and its check is harmless */
        char *text = captured();
        assert_string_equal(text, cases[i].expected);
        rf_free(text);
    }
}

/* req: C-17 */
static void json_lines_are_json(void **state) {
    (void)state;
    static const char *const specs[] = {"info,json", "json,info"};
    for (size_t i = 0; i < RF_COUNT(specs); i++) {
        set_up(specs[i]);
        capture();
        rf_log_write(RF_LOG_INFO, "tensor \"%s\" of %d rows", "a\nb\\\x01", 7);
        rf_log_write(RF_LOG_DEBUG, "not shown");
        char *text = captured();
        size_t n = strlen(text);
        assert_true(n > 1 && strchr(text, '\n') == text + n - 1); /* one line */
        rf_json *j;
        rf_error e = {0};
        assert_int_equal(rf_json_parse(&j, (rf_str){text, n}, &e), RF_OK);
        assert_true(rf_str_is(rf_json_str(rf_json_get(j, "level")), "info"));
        assert_true(
            rf_str_is(rf_json_str(rf_json_get(j, "message")), "tensor \"a\nb\\\x01\" of 7 rows"));
        rf_str time = rf_json_str(rf_json_get(j, "time"));
        int year, month, day, hour, minute, second, ms, used = 0;
        char stamp[64];
        snprintf(stamp, sizeof stamp, "%.*s", RF_STR_ARG(time));
        assert_int_equal(sscanf(stamp, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &year, &month, &day, &hour,
                                &minute, &second, &ms, &used),
                         7);
        assert_int_equal(used, time.len);
        rf_json_free(j);
        rf_free(text);
    }
}

static void json_without_memory_still_says_something(void **state) {
    (void)state;
    set_up("warn,json");
    capture();
    rf_alloc_fail_nth(1);
    rf_log_write(RF_LOG_ERROR, "lost");
    rf_alloc_fail_nth(0);
    char *text = captured();
    rf_json *j;
    assert_int_equal(rf_json_parse(&j, rf_str_of(text), NULL), RF_OK);
    assert_true(rf_str_is(rf_json_str(rf_json_get(j, "level")), "error"));
    rf_json_free(j);
    rf_free(text);
}

static void a_message_is_one_line_and_bounded(void **state) {
    (void)state;
    set_up("warn");
    capture();
    rf_log_write(RF_LOG_WARN, "%s", "name\nrocmforge: error: forged\x1b[1m");
    char *text = captured();
    assert_string_equal(text, "rocmforge: warn: name rocmforge: error: forged [1m\n");
    rf_free(text);
    static char big[5000];
    memset(big, 'x', sizeof big - 1);
    capture();
    rf_log_write(RF_LOG_WARN, "%s", big);
    text = captured();
    size_t n = strlen(text);
    assert_in_range(n, 1000, 2048);
    assert_string_equal(text + n - 5, "x...\n");
    rf_free(text);
}

static void wrong_settings_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"loud", "warn,xml", ",", "warn,,json", "WARN"};
    for (size_t i = 0; i < RF_COUNT(wrong); i++) {
        rf_error e = {0};
        assert_int_equal(rf_log_configure(wrong[i], &e), RF_EARG);
        assert_non_null(strstr(e.text, "expected error, warn, info or debug"));
    }
}

static void *talk(void *arg) {
    for (int i = 0; i < 200; i++) {
        rf_log_write(RF_LOG_WARN, "thread %d says a sentence of some length", *(const int *)arg);
    }
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state) {
    (void)state;
    set_up("warn");
    capture();
    pthread_t threads[4];
    int ids[4] = {0, 1, 2, 3}, counts[4] = {0};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, talk, &ids[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    char *text = captured();
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        int id;
        char rest[64];
        assert_int_equal(sscanf(line, "rocmforge: warn: thread %d %63[^\n]", &id, rest), 2);
        assert_string_equal(rest, "says a sentence of some length");
        counts[id]++;
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(counts[i], 200);
    }
    rf_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_filtered),
        cmocka_unit_test(json_lines_are_json),
        cmocka_unit_test(json_without_memory_still_says_something),
        cmocka_unit_test(a_message_is_one_line_and_bounded),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
