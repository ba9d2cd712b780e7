/* fuzz_sse.c - any bytes as a stream of server-sent events: the events are the same whether the bytes
 * come at once, one by one, or in pieces of a length that the first byte says; nothing but an event
 * that is too long, or the listener, stops the reader.
 *
 * The reader belongs to the program, not to the library: its source is compiled in. */
#include <string.h>

#include "base/base.h"
#include "cli/load_sse.c" /* NOLINT */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct events {
    rf_buf text; /* of all, each after its length */
    size_t n, stop_at;
} events;

static bool on_event(void *user, rf_str data) {
    events *ev = user;
    rf_buf_printf(&ev->text, "%zu:", data.len);
    rf_buf_put(&ev->text, data.p, data.len);
    return ++ev->n != ev->stop_at;
}

static rf_status read_all(const char *bytes, size_t n, size_t piece, size_t stop_at, events *ev,
                          bool *at_rest) {
    *ev = (events){.stop_at = stop_at};
    rf_sse s = {.on_event = on_event, .user = ev};
    rf_error e = {0};
    rf_status status = RF_OK;
    for (size_t at = 0; status == RF_OK && at < n; at += piece)
        status = rf_sse_feed(&s, bytes + at, n - at < piece ? n - at : piece, &e);
    RF_ASSERT((status == RF_OK) == (e.text[0] == '\0'));
    *at_rest = rf_sse_at_rest(&s);
    rf_sse_reset(&s);
    RF_ASSERT(rf_sse_at_rest(&s));
    rf_sse_free(&s);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *bytes = (const char *)data;
    size_t pieces[] = {1, size ? (size_t)data[0] % 61 + 2 : 2};
    for (size_t stop_at = 0; stop_at < 3; stop_at += 2) { /* 0: never */
        events whole, parts;
        bool rest_whole, rest_parts;
        rf_status s = read_all(bytes, size, size ? size : 1, stop_at, &whole, &rest_whole);
        RF_ASSERT(s == RF_OK || s == RF_EFORMAT || (s == RF_ECANCELLED && whole.n == stop_at));
        RF_ASSERT(s != RF_EFORMAT || size > RF_SSE_MAX_EVENT);
        for (size_t k = 0; k < RF_COUNT(pieces); k++) {
            rf_status t = read_all(bytes, size, pieces[k], stop_at, &parts, &rest_parts);
            RF_ASSERT(s == t && whole.n == parts.n && rest_whole == rest_parts);
            RF_ASSERT(rf_str_eq(rf_buf_str(&whole.text), rf_buf_str(&parts.text)));
            rf_buf_free(&parts.text);
        }
        rf_buf_free(&whole.text);
    }
    return 0;
}
