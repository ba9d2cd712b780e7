/* outbox.h - one answer on its way from whoever makes it to the connection that waits for it.
 *
 * The maker sets status and headers, puts bytes and ends it, from any thread; the transport takes
 * bytes, and leaves when its client is gone, which the maker is told of.  Knows nothing of HTTP's
 * syntax, of sockets or of models.  Reference-counted; every function is thread-safe. */
#pragma once
#include "base/buf.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_OUTBOX_HEADERS = 4 };
typedef struct rf_outbox rf_outbox;
typedef struct rf_outbox_header {
    const char *name; /* static text */
    char value[400];
} rf_outbox_header;

/* The transport's side of the hand-over, both called with the outbox locked: sleep when there is
 * nothing to take, wake when that changed.  Each sleep is followed by one wake. */
typedef void (*rf_outbox_fn)(void *user);

RF_CHECKED rf_status rf_outbox_create(rf_outbox **out, rf_outbox_fn sleep, rf_outbox_fn wake,
                                      void *user);
rf_outbox *rf_outbox_keep(rf_outbox *o); /* one more reference; returns o */
void rf_outbox_drop(rf_outbox *o);       /* NULL is fine */

/* ---- the maker ---- */

void rf_outbox_start(rf_outbox *o, int status, const char *content_type); /* static text */
void rf_outbox_add_header(rf_outbox *o, const char *name, const char *fmt, ...) RF_PRINTF(3, 4);
/* From here on bytes go out as they come; without it they go out when all are there. */
void rf_outbox_stream(rf_outbox *o);
/* False when nobody will read them: the client is gone or memory ran out. */
bool rf_outbox_put(rf_outbox *o, const void *bytes, size_t n);
void rf_outbox_end(rf_outbox *o);
/* left(user) is called once, with nothing locked, if the client leaves before the end; release(user)
 * once, when the outbox needs user no more.  A client that is already gone is told at once. */
void rf_outbox_watch(rf_outbox *o, rf_outbox_fn left, rf_outbox_fn release, void *user);
/* Puts bytes if the stream has been silent for that long: keeps proxies from hanging up. */
void rf_outbox_ping(rf_outbox *o, uint64_t silent_us, rf_str bytes);

/* ---- the transport ---- */

/* True when the answer can be sent: it is complete or a stream.  Otherwise sleeps. */
bool rf_outbox_ready(rf_outbox *o);
/* Bytes taken; 0: none yet, sleeping; -1: the end; -2: broken off. */
long rf_outbox_take(rf_outbox *o, char *out, size_t cap);
void rf_outbox_leave(rf_outbox *o); /* the client is gone */
typedef struct rf_outbox_head {
    int status;
    const char *content_type;
    bool is_stream;
    size_t n_bytes; /* there by now */
    rf_outbox_header headers[RF_OUTBOX_HEADERS];
    size_t n_headers;
} rf_outbox_head;
void rf_outbox_get_head(rf_outbox *o, rf_outbox_head *out);

#ifdef __cplusplus
}
#endif
