/* server.h - the server: models behind HTTP, from opening to a clean end.
 *
 * The HTTP threads parse, tokenize and submit to a model's slot (slot.h), which the table of models
 * (models.h) holds for them; answers go out as they are made. */
#pragma once
#include "rocmforge.h"
#include "server/http.h"
#include "server/models.h"

typedef struct rf_server rf_server;
typedef struct rf_server_opts {
    const char *address;         /* see rf_listen */
    const rf_model_name *models; /* [n_models] see models.h */
    size_t n_models;
    rf_engine_opts engine;      /* of every model; model_path is not read */
    uint64_t models_budget;     /* bytes of all loaded models together; 0: no limit */
    uint32_t model_ttl_seconds; /* idle models are closed after this; 0: never */
    const char *chat_format;    /* NULL: the models' own templates */
    const char *tool_format;    /* how models write tool calls; NULL: as their templates say */
    const char *otlp_endpoint, *otlp_headers; /* see rf_traces_opts */
    const char *keys_file;                    /* NULL: everybody may do everything */
    bool prefix_per_key;                      /* no key finds prompts computed for another one */
    const char *tls_cert_file, *tls_key_file; /* both or none */
    const char *const *cors;
    size_t n_cors;
    const char *const *hosts; /* [n_hosts] names that may stand for it, see rf_http_opts */
    size_t n_hosts;
    uint32_t max_waiting; /* answers in the queue of a model */
    uint32_t max_connections, http_threads;
    size_t max_body;
    uint32_t idle_seconds, request_seconds, drain_seconds, ping_seconds;
} rf_server_opts;

/* Signals that end the server must not end the process before it runs: call this before any thread
 * is made. */
void rf_server_block_signals(void);
RF_CHECKED rf_status rf_server_open(rf_server **out, const rf_server_opts *opts, rf_error *e);
const char *rf_server_url(const rf_server *s); /* "http://127.0.0.1:8080" */
/* Until SIGTERM or SIGINT: then no new work is taken, and what was accepted is finished (at most
 * drain_seconds long).  A second signal ends the process at once. */
void rf_server_run(rf_server *s);
void rf_server_drain(rf_server *s); /* takes no new work from now on */
/* Cancels what is still running.  NULL is fine. */
void rf_server_close(rf_server *s);

/* ---- for routes ---- */

struct rf_server {
    rf_server_opts o;
    rf_keys *keys; /* NULL: none needed */
    rf_metrics metrics;
    rf_traces *traces;
    rf_models *models;
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
void rf_openapi_print(const rf_server *s, rf_buf *out); /* openapi.c */
