/* watch.h - looks after connections for what the HTTP library does not see: a client that leaves while
 * its answer is being made, and one that sends its request for ever.
 *
 * One thread over epoll; the library owns the sockets, the watch only looks at them (and shuts one
 * down).  A client that closes its sending side counts as gone: it can ask for nothing more. */
#pragma once
#include "server/outbox.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_watch rf_watch;
typedef enum rf_watch_phase {
    RF_WATCH_IDLE,    /* between requests */
    RF_WATCH_READING, /* a request is coming in */
    RF_WATCH_BUSY,    /* it is being answered */
} rf_watch_phase;
typedef struct rf_watch_opts {
    uint64_t idle_us, reading_us; /* longest stay in these phases */
    void (*tick)(void *user);     /* about once a second, from the watch's thread; may be NULL */
    void *user;
} rf_watch_opts;

RF_CHECKED rf_status rf_watch_create(rf_watch **out, const rf_watch_opts *opts, rf_error *e);
void rf_watch_free(rf_watch *g);           /* ends the thread; NULL is fine */
bool rf_watch_add(rf_watch *g, int fd);    /* false: no memory; shut the connection */
void rf_watch_remove(rf_watch *g, int fd); /* before the socket is closed */
/* READING begins with the first byte of a request, which the watch sees itself, and goes on when it is
 * set again.  o: the answer of phase BUSY, told when the client leaves (at once if it has left); else NULL. */
void rf_watch_set(rf_watch *g, int fd, rf_watch_phase phase, rf_outbox *o);

#ifdef __cplusplus
}
#endif
