/* trace.c - traceparent and X-Request-Id, checked. */
#include "server/trace.h"

#include <stdio.h>
#include <string.h>

/* traceparent: VERSION-TRACE-PARENT-FLAGS, in lower-case hexadecimal digits */
enum {
    TRACE_AT = 3,
    TRACE_DIGITS = 32,
    PARENT_AT = 36,
    PARENT_DIGITS = 16,
    FLAGS_AT = 53,
    TRACEPARENT_CHARS = 55,
};

static bool is_hex(const char *p, size_t n) { return strspn(p, "0123456789abcdef") >= n; }

/* An id of zeros only is no id. */
static bool is_id(const char *p, size_t n) { return is_hex(p, n) && strspn(p, "0") < n; }

/* Later versions may append more fields. */
static bool is_traceparent(const char *p) {
    size_t n = strlen(p);
    if (n < TRACEPARENT_CHARS || strncmp(p, "ff", 2) == 0) return false;
    bool is_first = strncmp(p, "00", 2) == 0;
    if (n > TRACEPARENT_CHARS && (is_first || p[TRACEPARENT_CHARS] != '-')) return false;
    return is_hex(p, 2) && p[TRACE_AT - 1] == '-' && is_id(p + TRACE_AT, TRACE_DIGITS) &&
           p[PARENT_AT - 1] == '-' && is_id(p + PARENT_AT, PARENT_DIGITS) &&
           p[FLAGS_AT - 1] == '-' && is_hex(p + FLAGS_AT, 2);
}

static bool is_request_id(const char *p) {
    size_t n = strspn(p, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-");
    return n > 0 && n <= RF_TRACE_ID_CHARS && !p[n];
}

void rf_trace_describe(const char *traceparent, const char *request_id, char out[RF_TRACE_CHARS]) {
    int n = 0;
    out[0] = 0;
    if (traceparent && is_traceparent(traceparent))
        n = snprintf(out, RF_TRACE_CHARS, " trace=%.*s parent=%.*s", TRACE_DIGITS,
                     traceparent + TRACE_AT, PARENT_DIGITS, traceparent + PARENT_AT);
    if (request_id && is_request_id(request_id))
        snprintf(out + n, RF_TRACE_CHARS - (size_t)n, " client=%s", request_id);
}
