/* sse.h - server-sent events: "data: TEXT", an empty line.  TEXT is JSON and has no line breaks.  Some
 * APIs name their events in a line before it. */
#pragma once
#include "base/buf.h"

#define RF_SSE_PING RF_STR(": ping\n\n") /* a comment, which clients skip */

static inline void rf_sse_open(rf_buf *out) { rf_buf_puts(out, "data: "); }
static inline void rf_sse_open_event(rf_buf *out, const char *name) {
    rf_buf_printf(out, "event: %s\ndata: ", name);
}
static inline void rf_sse_close(rf_buf *out) { rf_buf_puts(out, "\n\n"); }
