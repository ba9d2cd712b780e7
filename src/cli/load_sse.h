/* load_sse.h - reading server-sent events as they arrive, in pieces of any size.
 *
 * The part of the format that model servers use: lines ended by LF, CR or CR LF, comments, and
 * fields, of which only "data" counts; several data lines of one event are joined by LF; an empty
 * line ends the event.  Bounded: an event longer than RF_SSE_MAX_EVENT is an error, not memory. */
#pragma once
#include "base/buf.h"

#define RF_SSE_MAX_EVENT ((size_t)1 << 20)

/* Called with the data of each event; false stops reading. */
typedef bool (*rf_sse_on_event)(void *user, rf_str data);

typedef struct rf_sse { /* start from {.on_event, .user}; free with rf_sse_free */
    rf_sse_on_event on_event;
    void *user;
    rf_buf line, data; /* what has come of the line and of the event */
    bool has_data;     /* a data line came, if only an empty one */
    bool after_cr;     /* an LF right after a CR ends no further line */
    size_t n_lines;    /* lines read, for messages */
} rf_sse;

/* Reads the next n bytes.  RF_EFORMAT: an event is too long, RF_ECANCELLED: on_event said stop. */
RF_CHECKED rf_status rf_sse_feed(rf_sse *s, const char *bytes, size_t n, rf_error *e);
/* Nothing is left of an event that has not ended. */
bool rf_sse_at_rest(const rf_sse *s);
void rf_sse_reset(rf_sse *s); /* for the next stream; memory is kept */
void rf_sse_free(rf_sse *s);
