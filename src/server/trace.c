/* trace.c - traceparent and X-Request-Id, checked; a trace as JSON. */
#include "server/trace.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"

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

void rf_trace_read(const char *traceparent, rf_trace_context *out) {
    *out = (rf_trace_context){0};
    if (!traceparent || !is_traceparent(traceparent)) return;
    memcpy(out->trace, traceparent + TRACE_AT, TRACE_DIGITS);
    memcpy(out->parent, traceparent + PARENT_AT, PARENT_DIGITS);
    char flag = traceparent[FLAGS_AT + 1]; /* the lowest four bits */
    out->is_sampled = ((flag <= '9' ? flag - '0' : flag - 'a' + 10) & 1) != 0;
}

void rf_trace_describe(const char *traceparent, const char *request_id, char out[RF_TRACE_CHARS]) {
    rf_trace_context c;
    int n = 0;
    out[0] = 0;
    rf_trace_read(traceparent, &c);
    if (c.trace[0]) n = snprintf(out, RF_TRACE_CHARS, " trace=%s parent=%s", c.trace, c.parent);
    if (request_id && is_request_id(request_id))
        snprintf(out + n, RF_TRACE_CHARS - (size_t)n, " client=%s", request_id);
}

void rf_trace_identify(rf_trace *t) {
    memcpy(t->trace, t->from.trace, sizeof t->trace);
    if (!t->trace[0]) /* not zero, which is no id */
        snprintf(t->trace, sizeof t->trace, "%016llx%016llx", (unsigned long long)rf_random_u64(),
                 (unsigned long long)rf_random_u64() | 1);
    snprintf(t->span, sizeof t->span, "%016llx", (unsigned long long)rf_random_u64() | 1);
}

static double ms(uint64_t us) { return (double)us / 1e3; }

void rf_trace_print(const rf_trace *t, rf_buf *out) {
    rf_buf_printf(out, "{\"id\":\"%s\",\"model\":", t->id);
    rf_buf_json_str(out, rf_str_of(t->model));
    rf_buf_printf(out, ",\"state\":\"%s\",\"trace_id\":\"%s\",\"span_id\":\"%s\",", t->state,
                  t->trace, t->span);
    if (t->from.parent[0])
        rf_buf_printf(out, "\"parent_id\":\"%s\"", t->from.parent);
    else
        rf_buf_puts(out, "\"parent_id\":null");
    rf_buf_printf(out,
                  ",\"start\":%.6f,\"total_ms\":%.3f,\"queue_ms\":%.3f,\"prefill_ms\":%.3f,"
                  "\"decode_ms\":%.3f,\"answers\":%u,\"prompt_tokens\":%u,\"cached_tokens\":%u,"
                  "\"generated_tokens\":%u}",
                  (double)t->start_us / 1e6, ms(t->total_us), ms(t->queue_us), ms(t->prefill_us),
                  ms(t->decode_us), t->n_answers, t->n_prompt, t->n_cached, t->n_generated);
}
