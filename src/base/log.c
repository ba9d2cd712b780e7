/* log.c - one line per message, built on the stack and written in one call.
 *
 * Control characters never reach the output as they are: a name taken from a file or a request can
 * not forge a second line or move a terminal's cursor. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"

#define LINE_BYTES 2048

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static _Atomic int current_level = RF_LOG_WARN;
static _Atomic bool as_json;

rf_status rf_log_configure(const char *spec, rf_error *e) {
    int level = RF_LOG_WARN;
    bool json = false;
    for (const char *word = spec; word && *word;) {
        size_t n = strcspn(word, ",");
        bool known = false;
        for (int i = 0; i < (int)RF_COUNT(level_names); i++) {
            if (!rf_str_is((rf_str){word, n}, level_names[i])) continue;
            level = i;
            known = true;
        }
        if (rf_str_is((rf_str){word, n}, "json")) json = known = true;
        if (!known) {
            return rf_fail(e, RF_EARG,
                           "log setting \"%.*s\": expected error, warn, info or debug, and json "
                           "for JSON lines (ROCMFORGE_LOG=info,json)",
                           n > 40 ? 40 : (int)n, word);
        }
        word += n + (word[n] == ',');
    }
    atomic_store(&current_level, level);
    atomic_store(&as_json, json);
    return RF_OK;
}

/* Nothing can be done about a log that cannot be written; only interruptions are repeated. */
static void write_line(const char *p, size_t n) {
    while (n > 0) {
        ssize_t done = write(STDERR_FILENO, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return;
        p += done;
        n -= (size_t)done;
    }
}

static void write_json(rf_log_level level, rf_str text) {
    struct timespec now;
    struct tm utc;
    char stamp[40];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(stamp + n, sizeof stamp - n, ".%03ldZ", now.tv_nsec / 1000000);
    rf_buf b = {0};
    rf_buf_printf(&b, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", stamp, level_names[level]);
    rf_buf_json_str(&b, text);
    rf_buf_puts(&b, "}\n");
    if (b.failed) {
        static const char lost[] =
            "{\"level\":\"error\",\"message\":\"out of memory in the log\"}\n";
        write_line(lost, sizeof lost - 1);
    } else {
        write_line(b.p, b.len);
    }
    rf_buf_free(&b);
}

void rf_log_write(rf_log_level level, const char *fmt, ...) {
    if ((int)level > atomic_load_explicit(&current_level, memory_order_relaxed)) return;
    int saved_errno = errno;
    char line[LINE_BYTES];
    int head = snprintf(line, sizeof line, "rocmforge: %s: ", level_names[level]);
    size_t from = (size_t)head, room = sizeof line - from - 1; /* one for the newline */
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line + from, room, fmt, args);
    va_end(args);
    size_t len = n < 0 ? 0 : (size_t)n;
    if (len >= room) { /* cut: say so */
        len = room - 1;
        memcpy(line + from + len - 3, "...", 3);
    }
    if (atomic_load_explicit(&as_json, memory_order_relaxed)) {
        write_json(level, (rf_str){line + from, len});
    } else {
        for (size_t i = from; i < from + len; i++) {
            unsigned char c = (unsigned char)line[i];
            if (c < 0x20 || c == 0x7f) line[i] = ' ';
        }
        line[from + len] = '\n';
        write_line(line, from + len + 1);
    }
    errno = saved_errno;
}
