/* load_sse.c - the reader of server-sent events: bytes to lines, lines to events. */
#include "cli/load_sse.h"

#include <string.h>

static rf_status append(const rf_sse *s, rf_buf *to, const char *p, size_t n, rf_error *e) {
    if (n > RF_SSE_MAX_EVENT - to->len)
        return rf_fail(e, RF_EFORMAT, "line %zu: an event is longer than %zu bytes", s->n_lines + 1,
                       RF_SSE_MAX_EVENT);
    rf_buf_put(to, p, n);
    return to->failed ? rf_fail_nomem(e, n) : RF_OK;
}

static rf_status end_event(rf_sse *s, rf_error *e) {
    bool go_on = !s->has_data || s->on_event(s->user, rf_buf_str(&s->data));
    s->has_data = false;
    rf_buf_clear(&s->data);
    return go_on ? RF_OK : rf_fail(e, RF_ECANCELLED, "stopped");
}

/* "data: TEXT", ": a comment", "other: ..." or nothing, which ends the event. */
static rf_status take_line(rf_sse *s, rf_error *e) {
    rf_str line = rf_buf_str(&s->line);
    s->n_lines++;
    if (line.len == 0) return end_event(s, e);
    bool is_data = rf_str_starts(line, "data") && (line.len == 4 || line.p[4] == ':');
    rf_status status = RF_OK;
    if (is_data) {
        size_t skip = line.len == 4 ? 4 : 5;
        if (line.len > skip && line.p[skip] == ' ') skip++; /* one blank belongs to the field */
        if (s->has_data) status = append(s, &s->data, "\n", 1, e);
        if (status == RF_OK) status = append(s, &s->data, line.p + skip, line.len - skip, e);
        s->has_data = true;
    }
    rf_buf_clear(&s->line);
    return status;
}

static size_t until_line_end(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i] == '\n' || p[i] == '\r') return i;
    return n;
}

rf_status rf_sse_feed(rf_sse *s, const char *bytes, size_t n, rf_error *e) {
    size_t at = 0;
    while (at < n) {
        bool rest_of_crlf = s->after_cr && bytes[at] == '\n';
        s->after_cr = false;
        if (rest_of_crlf) {
            at++;
            continue;
        }
        size_t len = until_line_end(bytes + at, n - at);
        RF_TRY(append(s, &s->line, bytes + at, len, e));
        at += len;
        if (at == n) break;
        s->after_cr = bytes[at++] == '\r';
        RF_TRY(take_line(s, e));
    }
    return RF_OK;
}

bool rf_sse_at_rest(const rf_sse *s) { return s->line.len == 0 && !s->has_data; }

void rf_sse_reset(rf_sse *s) {
    rf_buf_clear(&s->line);
    rf_buf_clear(&s->data);
    s->has_data = s->after_cr = false;
    s->n_lines = 0;
}

void rf_sse_free(rf_sse *s) {
    rf_buf_free(&s->line);
    rf_buf_free(&s->data);
}
