/* serve.c - the parts put together, and the end in good order. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"
#include "server/notify.h"
#include "server/server.h"
#include "server/trace.h"

enum {
    MAX_PEM_BYTES = 1 << 20,
    SPARE_FILES = 64,
    KILLED_BY = 128,
    LAST_WORDS_US = 1000000,
    WAITING_BODIES = 64
};

typedef struct rf_server_private {
    rf_listener listener;
    char *tls_cert, *tls_key;
    int wake; /* eventfd: an answer went out while draining */
} own;

/* ---- what the transport asks ---- */

static bool admit(void *user, rf_http_request *r, rf_outbox *o) {
    return rf_routes_admit(user, r, o);
}

static void serve(void *user, rf_http_request *r, rf_outbox *o) { rf_routes_serve(user, r, o); }

static void refuse(void *user, int status, const char *message, rf_outbox *o) {
    (void)user;
    rf_api_error e = {0};
    rf_api_fail(&e, status, NULL, NULL, "%s", message);
    if (status == 503) e.retry_after = 1;
    rf_api_answer_error(o, &e);
}

static void done(void *user, const rf_http_request *r, int status, bool complete) {
    rf_server *s = user;
    const rf_key *key = r->caller;
    char origin[RF_TRACE_CHARS];
    rf_trace_describe(rf_http_header(r, "traceparent"), rf_http_header(r, "X-Request-Id"), origin);
    rf_metrics_add(&s->metrics, RF_M_HTTP_REQUESTS, 1);
    if (status >= 500)
        rf_metrics_add(&s->metrics, RF_M_HTTP_ERRORS, 1);
    else if (status >= 400)
        rf_metrics_add(&s->metrics, RF_M_HTTP_REFUSED, 1);
    rf_log_write(RF_LOG_INFO, "request=%s %.10s %.*s status=%d%s ms=%.1f key=%s%s", r->id,
                 r->method, (int)(r->path.len > 200 ? 200 : r->path.len), r->path.p, status,
                 complete ? "" : " incomplete", (double)(rf_time_us() - r->start_us) / 1e3,
                 key ? key->name : "-", origin);
    if (!atomic_load(&s->draining)) return;
    ssize_t n = write(s->own->wake, &(uint64_t){1}, sizeof(uint64_t));
    if (n < 0) rf_log_write(RF_LOG_DEBUG, "the drain is not told: %s", strerror(errno));
}

static void tick(void *user) {
    rf_server *s = user;
    rf_models_tick(s->models);
}

/* ---- opening ---- */

static rf_status read_pem(const char *path, char **out, rf_error *e) {
    uint8_t *bytes;
    size_t n;
    RF_TRY(rf_file_read(path, MAX_PEM_BYTES, &bytes, &n, e));
    *out = rf_alloc(n + 1, 1);
    if (*out && n) memcpy(*out, bytes, n);
    rf_free(bytes);
    return *out ? RF_OK : rf_fail_nomem(e, n);
}

static rf_status read_tls(rf_server *s, rf_error *e) {
    if (!s->o.tls_cert_file != !s->o.tls_key_file)
        return rf_fail(e, RF_EARG, "TLS needs a certificate and its key; one of them is missing");
    if (!s->o.tls_cert_file) return RF_OK;
    RF_TRY(read_pem(s->o.tls_cert_file, &s->own->tls_cert, e));
    return read_pem(s->o.tls_key_file, &s->own->tls_key, e);
}

/* Every connection is a file; systems allow 1,024 unless asked. */
static void allow_files(uint32_t n_connections) {
    struct rlimit limit;
    rlim_t want = (rlim_t)n_connections + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= want) return;
    limit.rlim_cur = limit.rlim_max < want ? limit.rlim_max : want;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < want)
        rf_log_write(RF_LOG_WARN, "the system allows %llu open files, too few for %u connections",
                     (unsigned long long)limit.rlim_cur, n_connections);
}

static rf_status listen_for(rf_server *s, rf_error *e) {
    own *w = s->own;
    RF_TRY(rf_listen(&w->listener, s->o.address, e));
    if (!w->listener.is_loopback && !s->keys)
        rf_log_write(RF_LOG_WARN, "%s can be reached from other machines and no API key is needed",
                     w->listener.text);
    bool is_unix = w->listener.path[0] != 0;
    snprintf(s->url, sizeof s->url, "%s%s",
             is_unix       ? ""
             : w->tls_cert ? "https://"
                           : "http://",
             w->listener.text);
    return RF_OK;
}

static rf_status start_http(rf_server *s, rf_error *e) {
    own *w = s->own;
    bool is_unix = w->listener.path[0] != 0;
    const rf_http_opts o = {.listener = w->listener,
                            .tls_cert = w->tls_cert,
                            .tls_key = w->tls_key,
                            .cors = s->o.cors,
                            .n_cors = s->o.n_cors,
                            .check_host = w->listener.is_loopback && !is_unix && !s->keys,
                            .hosts = s->o.hosts,
                            .n_hosts = s->o.n_hosts,
                            .n_threads = s->o.http_threads,
                            .max_connections = s->o.max_connections,
                            .max_body = s->o.max_body,
                            .idle_seconds = s->o.idle_seconds,
                            .request_seconds = s->o.request_seconds,
                            .handler = {admit, serve, refuse, done, tick, s}};
    return rf_http_start(&s->http, &o, e);
}

static rf_status open_models(rf_server *s, rf_error *e) {
    const rf_models_opts o = {.names = s->o.models,
                              .n_names = s->o.n_models,
                              .slot = {.engine = s->o.engine,
                                       .chat_format = s->o.chat_format,
                                       .tool_format = s->o.tool_format,
                                       .traces = s->traces,
                                       .max_waiting = s->o.max_waiting,
                                       .ping_seconds = s->o.ping_seconds},
                              .metrics = &s->metrics,
                              .budget = s->o.models_budget,
                              .ttl_us = s->o.model_ttl_seconds * UINT64_C(1000000),
                              .max_waiting = s->o.max_waiting,
                              .max_waiting_bytes = s->o.max_body * WAITING_BODIES,
                              .resume = serve,
                              .user = s};
    return rf_models_create(&s->models, &o, e);
}

rf_status rf_server_open(rf_server **out, const rf_server_opts *opts, rf_error *e) {
    rf_server *s = *out = rf_alloc(1, sizeof *s);
    if (s) s->own = rf_alloc(1, sizeof *s->own);
    if (!s || !s->own) {
        rf_free(s);
        *out = NULL;
        return rf_fail_nomem(e, sizeof *s);
    }
    s->o = *opts;
    s->created = (int64_t)time(NULL);
    s->start_us = rf_time_us();
    s->own->listener.fd = -1;
    s->own->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    signal(SIGPIPE, SIG_IGN);
    allow_files(opts->max_connections);
    rf_status status = s->own->wake >= 0 ? RF_OK : rf_fail(e, RF_ENOMEM, "cannot make an eventfd");
    if (status == RF_OK && opts->keys_file) status = rf_keys_load(&s->keys, opts->keys_file, e);
    if (status == RF_OK && s->keys && opts->prefix_per_key) rf_keys_part_prefixes(s->keys);
    if (status == RF_OK) status = read_tls(s, e);
    const rf_traces_opts traces = {
        .endpoint = opts->otlp_endpoint, .headers = opts->otlp_headers, .metrics = &s->metrics};
    if (status == RF_OK) status = rf_traces_create(&s->traces, &traces, e);
    if (status == RF_OK) status = open_models(s, e);
    if (status == RF_OK) status = listen_for(s, e);
    if (status == RF_OK) status = start_http(s, e);
    if (status == RF_OK) return RF_OK;
    rf_server_close(s);
    *out = NULL;
    return status;
}

const char *rf_server_url(const rf_server *s) { return s->url; }

/* ---- the end ---- */

void rf_server_block_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void rf_server_drain(rf_server *s) {
    atomic_store(&s->draining, true);
    rf_models_refuse_new(s->models);
}

/* Waits for a signal (true; signals -1: for none) or, when there is a time limit, for all answers to
 * be out (false). */
static bool wait_for_signal(rf_server *s, int signals, uint64_t until_us) {
    for (;;) {
        struct pollfd p[2] = {{.fd = signals, .events = POLLIN},
                              {.fd = s->own->wake, .events = POLLIN}};
        uint64_t now = rf_time_us();
        if (until_us && (now >= until_us || rf_http_n_busy(s->http) == 0)) return false;
        int ms = until_us ? (int)((until_us - now) / 1000 + 1) : -1;
        if (poll(p, 2, ms) < 0 && errno != EINTR) return false;
        if (p[0].revents & POLLIN) {
            struct signalfd_siginfo info;
            if (read(signals, &info, sizeof info) == sizeof info) return true;
        }
        uint64_t ignored;
        if ((p[1].revents & POLLIN) && read(s->own->wake, &ignored, sizeof ignored) < 0) continue;
    }
}

void rf_server_run(rf_server *s) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (signals < 0) {
        rf_log_write(RF_LOG_ERROR, "cannot wait for signals: %s", strerror(errno));
        return;
    }
    rf_notify("READY=1");
    wait_for_signal(s, signals, 0);
    rf_notify("STOPPING=1");
    rf_log_write(RF_LOG_INFO, "stopping: %u answers are still open", rf_models_n_open(s->models));
    rf_server_drain(s);
    uint64_t until = rf_time_us() + s->o.drain_seconds * (uint64_t)1000000;
    if (wait_for_signal(s, signals, until)) {
        rf_listener_close(&s->own->listener);
        _exit(KILLED_BY + SIGTERM);
    }
    if (rf_http_n_busy(s->http))
        rf_log_write(RF_LOG_WARN, "%u answers were not finished in time",
                     rf_models_n_open(s->models));
    close(signals);
}

void rf_server_close(rf_server *s) {
    if (!s) return;
    own *w = s->own;
    if (s->models) {
        rf_server_drain(s);
        rf_models_stop(s->models);
    }
    if (s->http) wait_for_signal(s, -1, rf_time_us() + LAST_WORDS_US);
    rf_http_stop(s->http);
    rf_models_free(s->models);
    rf_traces_free(s->traces);
    rf_keys_free(s->keys);
    if (!s->http && w->listener.fd >= 0) close(w->listener.fd);
    rf_listener_close(&w->listener);
    if (w->wake >= 0) close(w->wake);
    rf_free(w->tls_cert);
    rf_free(w->tls_key);
    rf_free(w);
    rf_free(s);
}
