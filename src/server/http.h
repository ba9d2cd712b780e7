/* http.h - HTTP/1.1 over libmicrohttpd: connections in, requests to a handler, answers out.
 *
 * Owns sockets, limits, deadlines, TLS, CORS and what may not pass in headers; knows no route, no
 * JSON and no model.  Nobody else includes libmicrohttpd.  The handler's functions are called by the
 * HTTP threads. */
#pragma once
#include "server/listen.h"
#include "server/outbox.h"
#include "server/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_http rf_http;
typedef struct rf_http_request {
    char id[25];        /* made here; in the header X-Request-Id and in the log */
    const char *method; /* "GET" */
    rf_str path, query; /* as sent, not decoded; query without '?' */
    rf_str body;        /* valid while serve runs */
    uint64_t start_us;
    const void *route;      /* for the handler, from admit to done */
    const void *caller;     /* the same */
    rf_trace_context trace; /* the same */
    void *connection;       /* for rf_http_header */
} rf_http_request;
/* A header's value, or NULL. */
const char *rf_http_header(const rf_http_request *r, const char *name);

typedef struct rf_http_handler {
    /* The headers are there, the body is not.  False: the refusal was put into o. */
    bool (*admit)(void *user, rf_http_request *r, rf_outbox *o);
    /* The whole request is there: put the answer into o, now or later. */
    void (*serve)(void *user, rf_http_request *r, rf_outbox *o);
    /* A request that the transport itself refuses: put the refusal into o. */
    void (*refuse)(void *user, int status, const char *message, rf_outbox *o);
    /* The answer is out, or its client is gone (complete = false). */
    void (*done)(void *user, const rf_http_request *r, int status, bool complete);
    void (*tick)(void *user); /* about once a second, from a thread of its own */
    void *user;
} rf_http_handler;

typedef struct rf_http_opts {
    rf_listener listener;           /* its socket is owned from a successful start on */
    const char *tls_cert, *tls_key; /* PEM texts, or NULL: no TLS */
    const char *const *cors;        /* [n_cors] origins that browsers may use; "*": any */
    size_t n_cors;
    bool check_host;          /* refuse names that another site's DNS may have led here */
    const char *const *hosts; /* [n_hosts] names besides localhost and the loopback addresses */
    size_t n_hosts;
    uint32_t n_threads, max_connections;
    size_t max_body; /* bytes of one request */
    uint32_t idle_seconds, request_seconds;
    rf_http_handler handler;
} rf_http_opts;

RF_CHECKED rf_status rf_http_start(rf_http **out, const rf_http_opts *opts, rf_error *e);
/* All answers must be complete.  Closes every connection; NULL is fine. */
void rf_http_stop(rf_http *h);
uint32_t rf_http_n_connections(const rf_http *h);
uint32_t rf_http_n_busy(const rf_http *h); /* requests whose answer is not out yet */

#ifdef __cplusplus
}
#endif
