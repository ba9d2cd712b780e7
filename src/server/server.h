/* server.h - the server: an engine behind HTTP, from opening to a clean end.
 *
 * One thread steps the engine and sleeps when there is nothing to do; the HTTP threads parse,
 * tokenize and submit; answers go out as they are made.  The engine is borrowed and must outlive
 * the server. */
#pragma once
#include "rocmforge.h"
#include "server/embed.h"
#include "server/http.h"
#include "server/job.h"

typedef struct rf_server rf_server;
typedef struct rf_server_opts {
    const char *address;                      /* see rf_listen */
    const char *model;                        /* the model's name in answers */
    const char *chat_format;                  /* NULL: the model's own template */
    const char *keys_file;                    /* NULL: everybody may do everything */
    const char *tls_cert_file, *tls_key_file; /* both or none */
    const char *const *cors;
    size_t n_cors;
    const char *tool_format; /* how the model writes tool calls; NULL: as its template says */
    uint32_t max_waiting;    /* answers in the queue */
    uint32_t max_connections, http_threads;
    size_t max_body;
    uint32_t idle_seconds, request_seconds, drain_seconds, ping_seconds;
} rf_server_opts;

/* Signals that end the server must not end the process before it runs: call this before any thread
 * is made, the engine's included. */
void rf_server_block_signals(void);
RF_CHECKED rf_status rf_server_open(rf_server **out, rf_engine *engine, const rf_server_opts *opts,
                                    rf_error *e);
const char *rf_server_url(const rf_server *s); /* "http://127.0.0.1:8080" */
/* Until SIGTERM or SIGINT: then no new work is taken, and what was accepted is finished (at most
 * drain_seconds long).  A second signal ends the process at once. */
void rf_server_run(rf_server *s);
void rf_server_drain(rf_server *s); /* takes no new work from now on */
/* Cancels what is still running.  NULL is fine. */
void rf_server_close(rf_server *s);

/* ---- for routes.c ---- */

struct rf_server {
    rf_server_opts o;
    rf_engine *engine;
    rf_engine_info info;
    rf_keys *keys; /* NULL: none needed */
    rf_metrics metrics;
    rf_reply_format format;
    rf_jobs *jobs;
    rf_embeds *embeds;
    rf_http *http;
    char url[200];
    int64_t created; /* seconds since 1970 */
    uint64_t start_us;
    atomic_bool draining;
    struct rf_server_private *own;
};
bool rf_routes_admit(rf_server *s, rf_http_request *r, rf_outbox *o);
void rf_routes_serve(rf_server *s, rf_http_request *r, rf_outbox *o);

typedef struct rf_route {
    const char *method, *path;
    rf_scope scope;
    void (*handle)(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o);
    const char *body, *answer, *summary;
} rf_route;
extern const rf_route rf_routes[];
extern const size_t rf_route_count;
rf_api_style rf_routes_style(rf_str path);              /* of its errors */
void rf_openapi_print(const rf_server *s, rf_buf *out); /* openapi.c */
/* page.c: GET / */
void rf_page(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o);
