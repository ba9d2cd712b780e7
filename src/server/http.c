/* http.c - one exchange per request: admit, body, serve, answer.
 *
 * The library calls on_uri, then on_access for the headers, for each piece of the body and at its
 * end, then on_completed.  While an answer is not there the connection is suspended; the outbox's
 * wake resumes it.  The watch sees clients that leave meanwhile. */
#include "server/http.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/os.h"
#include "server/watch.h"

enum {
    CONNECTION_BYTES = 16 << 10, /* request line and headers fit in here */
    BLOCK_BYTES = 16 << 10,      /* of an answer, handed over at once */
    MAX_URI_BYTES = 2048,
    BODIES_AT_ONCE = 64, /* bodies of full size that may be in memory together */
    DISCARD_TIMES = 4,   /* of a body that is too long, read so much before hanging up */
};

struct rf_http {
    rf_http_opts o;
    rf_watch *watch;
    struct MHD_Daemon *daemon;
    atomic_uint n_connections, n_busy;
    atomic_size_t body_bytes; /* of all requests in memory */
};

typedef enum phase { NEW, REFUSED, BODY, SERVED } phase;
typedef struct exchange {
    rf_http *h;
    struct MHD_Connection *c;
    int fd;
    phase phase;
    rf_http_request r;
    const char *raw_uri; /* in the library's buffer, until the headers are read */
    rf_buf uri, body;
    size_t n_body;    /* received, discarded bytes included */
    int body_failure; /* status to refuse with once the body is in; 0: none */
    rf_outbox *outbox;
    int status; /* of the answer, 0: none yet */
    bool busy;  /* counted in n_busy */
} exchange;

static int fd_of(struct MHD_Connection *c) {
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

const char *rf_http_header(const rf_http_request *r, const char *name) {
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

/* ---- answers ---- */

static void sleep_connection(void *user) { MHD_suspend_connection(user); }
static void wake_connection(void *user) { MHD_resume_connection(user); }

static ssize_t take(void *user, uint64_t pos, char *out, size_t cap) {
    (void)pos;
    long n = rf_outbox_take(user, out, cap);
    if (n == -1) return MHD_CONTENT_READER_END_OF_STREAM;
    return n == -2 ? MHD_CONTENT_READER_END_WITH_ERROR : n;
}

static void drop_outbox(void *user) { rf_outbox_drop(user); }

/* The caller's origin, if browsers may use it here; else NULL. */
static const char *allowed_origin(const exchange *x) {
    const char *origin = rf_http_header(&x->r, "Origin");
    for (size_t i = 0; origin && i < x->h->o.n_cors; i++)
        if (strcmp(x->h->o.cors[i], "*") == 0 || strcmp(x->h->o.cors[i], origin) == 0)
            return origin;
    return NULL;
}

static void add_headers(const exchange *x, struct MHD_Response *m, const rf_outbox_head *head) {
    if (head->content_type) MHD_add_response_header(m, "Content-Type", head->content_type);
    MHD_add_response_header(m, "X-Request-Id", x->r.id);
    MHD_add_response_header(m, "Cache-Control", "no-store");
    MHD_add_response_header(m, "X-Content-Type-Options", "nosniff");
    if (head->is_stream) MHD_add_response_header(m, "X-Accel-Buffering", "no");
    for (size_t i = 0; i < head->n_headers; i++)
        MHD_add_response_header(m, head->headers[i].name, head->headers[i].value);
    if (x->phase == REFUSED || x->body_failure) MHD_add_response_header(m, "Connection", "close");
    const char *origin = allowed_origin(x);
    if (!origin) return;
    MHD_add_response_header(m, "Access-Control-Allow-Origin", origin);
    MHD_add_response_header(m, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    MHD_add_response_header(m, "Vary", "Origin");
}

/* Sends what is in the outbox, which is complete or a stream. */
static enum MHD_Result answer(exchange *x) {
    rf_outbox_head head;
    rf_outbox_get_head(x->outbox, &head);
    x->status = head.status;
    struct MHD_Response *m = MHD_create_response_from_callback(
        head.is_stream ? MHD_SIZE_UNKNOWN : head.n_bytes, BLOCK_BYTES, take,
        rf_outbox_keep(x->outbox), drop_outbox);
    if (!m) {
        rf_outbox_drop(x->outbox); /* the reference made for it */
        return MHD_NO;
    }
    add_headers(x, m, &head);
    enum MHD_Result result = MHD_queue_response(x->c, (unsigned)head.status, m);
    MHD_destroy_response(m);
    return result;
}

static enum MHD_Result refuse(exchange *x, int status, const char *message) {
    x->phase = REFUSED;
    x->h->o.handler.refuse(x->h->o.handler.user, status, message, x->outbox);
    rf_outbox_end(x->outbox);
    return answer(x);
}

/* A page of another site makes its visitor's browser send something here.  Browsers say so, and
 * only keep the answer from the page: the request itself must be stopped here. */
static bool is_foreign_page(const exchange *x) {
    const char *origin = rf_http_header(&x->r, "Origin"), *host = rf_http_header(&x->r, "Host");
    if (!origin || allowed_origin(x)) return false;
    const char *named = strstr(origin, "://");
    return !named || !host || strcmp(named + 3, host) != 0;
}

static bool is_name(const char *host, size_t n, const char *name) {
    return strlen(name) == n && strncasecmp(host, name, n) == 0;
}

/* A site can make its name stand for 127.0.0.1 (DNS rebinding): its pages then count as of the
 * server's own origin.  But the Host is the name that the browser was led by. */
static bool is_foreign_name(const exchange *x) {
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *host = rf_http_header(&x->r, "Host"), *listen = x->h->o.listener.text;
    if (!x->h->o.check_host || !host) return false;
    size_t n = strcspn(host, " \t"); /* the library keeps what stands behind the value */
    const char *port = memrchr(host, ':', n);
    if (port && !strchr(port, ']')) n = (size_t)(port - host);
    if (strncasecmp(listen, host, n) == 0 && listen[n] == ':') return false;
    for (size_t i = 0; i < RF_COUNT(own); i++)
        if (is_name(host, n, own[i])) return false;
    for (size_t i = 0; i < x->h->o.n_hosts; i++)
        if (is_name(host, n, x->h->o.hosts[i])) return false;
    return true;
}

/* A browser asks whether it may ask. */
static enum MHD_Result answer_preflight(exchange *x) {
    rf_outbox_start(x->outbox, 204, NULL);
    rf_outbox_add_header(x->outbox, "Access-Control-Allow-Methods", "GET, POST");
    rf_outbox_add_header(x->outbox, "Access-Control-Allow-Headers",
                         "Authorization, Content-Type, X-Api-Key");
    rf_outbox_add_header(x->outbox, "Access-Control-Max-Age", "600");
    rf_outbox_end(x->outbox);
    x->phase = SERVED;
    return answer(x);
}

/* ---- what may come in ---- */

typedef struct framing { /* headers that say where a request ends and whom it is for */
    unsigned n_length, n_host, n_coding;
    bool other_coding, bad_bytes;
    const char *end; /* of what was seen of the head, in the library's buffer */
} framing;

/* libmicrohttpd before 1.0 ends a header at a zero byte and forgets what follows.  Its texts lie in
 * the order and in the place in which they came, so what was forgotten shows: between two of them
 * there is more than white space and what the library replaced. */
static void check_gap(framing *f, const char *next) {
    if (MHD_VERSION >= 0x01000000) return;
    f->bad_bytes |= next < f->end;
    for (const char *p = f->end; p < next; p++)
        f->bad_bytes |= *p && !strchr(" \t\r\n:", *p);
}

static enum MHD_Result count_header(void *user, enum MHD_ValueKind kind, const char *name,
                                    size_t name_len, const char *value, size_t value_len) {
    (void)kind;
    framing *f = user;
    if (!value) value = name + name_len;
    f->n_length += strcasecmp(name, "Content-Length") == 0;
    f->n_host += strcasecmp(name, "Host") == 0;
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        f->n_coding++;
        f->other_coding |= strcasecmp(value, "chunked") != 0;
    }
    f->bad_bytes |= strlen(name) != name_len || memchr(name, '\r', name_len) != NULL;
    f->bad_bytes |= strlen(value) != value_len || memchr(value, '\r', value_len) != NULL;
    check_gap(f, name);
    f->end = name + name_len;
    check_gap(f, value);
    f->end = value + value_len;
    return MHD_YES;
}

/* What makes two programs in a row disagree about where a request ends.  NULL: nothing. */
static const char *framing_fault(exchange *x, const char *method, const char *version) {
    framing f = {.end = x->raw_uri + x->uri.len};
    check_gap(&f, version);
    f.end = version + strlen(version);
    MHD_get_connection_values_n(x->c, MHD_HEADER_KIND, count_header, &f);
    check_gap(
        &f,
        method +
            MHD_get_connection_info(x->c, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size);
    if (f.bad_bytes) return "the head holds a zero byte, a bare carriage return or a folded line";
    if (f.n_length > 1) return "more than one Content-Length";
    if (f.n_host > 1) return "more than one Host";
    if (f.n_coding && f.n_length) return "both Transfer-Encoding and Content-Length";
    if (f.n_coding > 1 || f.other_coding) return "a Transfer-Encoding other than chunked";
    return NULL;
}

static bool body_is_too_long(const exchange *x) {
    const char *length = rf_http_header(&x->r, "Content-Length");
    if (!length) return false;
    size_t n = 0;
    for (; *length >= '0' && *length <= '9'; length++)
        if (!rf_mul_ok(n, 10, &n) || !rf_add_ok(n, (size_t)(*length - '0'), &n)) return true;
    return n > x->h->o.max_body;
}

static enum MHD_Result on_headers(exchange *x, const char *method, const char *version) {
    const rf_http_handler *handler = &x->h->o.handler;
    x->r.method = method;
    x->phase = BODY;
    if (rf_outbox_create(&x->outbox, sleep_connection, wake_connection, x->c) != RF_OK)
        return MHD_NO;
    if (x->uri.failed) return MHD_NO;
    const char *fault = framing_fault(x, method, version);
    if (fault) return refuse(x, 400, fault);
    if (x->uri.len > MAX_URI_BYTES) return refuse(x, 414, "the path is longer than 2048 bytes");
    if (body_is_too_long(x)) return refuse(x, 413, "the request's body is too long");
    if (is_foreign_name(x))
        return refuse(x, 403,
                      "the Host header names neither this machine nor one of --allowed-host; "
                      "without API keys no other name is answered");
    if (strcmp(method, "OPTIONS") == 0 && allowed_origin(x)) return answer_preflight(x);
    if (is_foreign_page(x))
        return refuse(x, 403, "pages of this origin may not use the server (see --cors-origin)");
    if (handler->admit(handler->user, &x->r, x->outbox)) return MHD_YES;
    x->phase = REFUSED;
    rf_outbox_end(x->outbox);
    return answer(x);
}

static void release_body(exchange *x) {
    atomic_fetch_sub(&x->h->body_bytes, x->body.len);
    rf_buf_free(&x->body);
}

static enum MHD_Result on_body(exchange *x, const char *bytes, size_t n) {
    rf_http *h = x->h;
    x->n_body += n;
    if (x->n_body > h->o.max_body)
        x->body_failure = 413;
    else if (!x->body_failure && atomic_load(&h->body_bytes) + n > h->o.max_body * BODIES_AT_ONCE)
        x->body_failure = 503;
    if (x->body_failure) {
        release_body(x);
        return x->n_body > h->o.max_body * DISCARD_TIMES ? MHD_NO : MHD_YES;
    }
    rf_buf_put(&x->body, bytes, n);
    if (x->body.failed)
        x->body_failure = 503;
    else
        atomic_fetch_add(&h->body_bytes, n);
    return MHD_YES;
}

static enum MHD_Result serve(exchange *x) {
    const rf_http_handler *handler = &x->h->o.handler;
    x->phase = SERVED;
    x->busy = true;
    atomic_fetch_add(&x->h->n_busy, 1);
    rf_watch_set(x->h->watch, x->fd, RF_WATCH_BUSY, x->outbox);
    if (x->body_failure == 413)
        handler->refuse(handler->user, 413, "the request's body is too long", x->outbox);
    else if (x->body_failure)
        handler->refuse(handler->user, 503, "too much is being sent at once; try again soon",
                        x->outbox);
    if (x->body_failure) {
        rf_outbox_end(x->outbox);
    } else {
        x->r.body = rf_buf_str(&x->body);
        handler->serve(handler->user, &x->r, x->outbox);
        x->r.body = (rf_str){0};
        release_body(x);
    }
    return rf_outbox_ready(x->outbox) ? answer(x) : MHD_YES;
}

/* ---- the library's callbacks ---- */

static void *on_uri(void *user, const char *uri, struct MHD_Connection *c) {
    rf_http *h = user;
    exchange *x = rf_alloc(1, sizeof *x);
    if (!x) return NULL;
    x->h = h;
    x->c = x->r.connection = c;
    x->fd = fd_of(c);
    x->r.start_us = rf_time_us();
    snprintf(x->r.id, sizeof x->r.id, "%016llx%08llx", (unsigned long long)rf_random_u64(),
             (unsigned long long)rf_random_u64() >> 32);
    x->raw_uri = uri;
    rf_buf_puts(&x->uri, uri);
    if (!x->uri.failed) {
        const char *mark = strchr(x->uri.p, '?');
        size_t n = mark ? (size_t)(mark - x->uri.p) : x->uri.len;
        x->r.path = (rf_str){x->uri.p, n};
        x->r.query = mark ? (rf_str){mark + 1, x->uri.len - n - 1} : (rf_str){"", 0};
    }
    rf_watch_set(h->watch, x->fd, RF_WATCH_READING, NULL);
    return x;
}

static enum MHD_Result on_access(void *user, struct MHD_Connection *c, const char *url,
                                 const char *method, const char *version, const char *upload,
                                 size_t *n_upload, void **context) {
    (void)user, (void)c, (void)url;
    exchange *x = *context;
    if (!x) return MHD_NO;
    switch (x->phase) {
    case NEW:
        return on_headers(x, method, version);
    case BODY:
        if (*n_upload == 0) return serve(x);
        size_t n = *n_upload;
        *n_upload = 0;
        return on_body(x, upload, n);
    case SERVED: /* woken */
        return rf_outbox_ready(x->outbox) ? answer(x) : MHD_YES;
    case REFUSED: /* the rest of a body that nobody wants */
        *n_upload = 0;
        return MHD_YES;
    }
    return MHD_NO;
}

static void on_completed(void *user, struct MHD_Connection *c, void **context,
                         enum MHD_RequestTerminationCode how) {
    (void)c;
    rf_http *h = user;
    exchange *x = *context;
    if (!x) return;
    *context = NULL;
    rf_watch_set(h->watch, x->fd, RF_WATCH_IDLE, NULL);
    if (x->outbox) rf_outbox_leave(x->outbox);
    if (x->busy) atomic_fetch_sub(&h->n_busy, 1);
    if (x->phase != NEW)
        h->o.handler.done(h->o.handler.user, &x->r, x->status,
                          x->status && how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    release_body(x);
    rf_outbox_drop(x->outbox);
    rf_buf_free(&x->uri);
    rf_free(x);
}

static void on_connection(void *user, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode what) {
    (void)context;
    rf_http *h = user;
    int fd = fd_of(c);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        atomic_fetch_add(&h->n_connections, 1);
        if (!rf_watch_add(h->watch, fd))
            rf_log_write(RF_LOG_WARN, "out of memory: a connection is not watched");
    } else {
        rf_watch_remove(h->watch, fd);
        atomic_fetch_sub(&h->n_connections, 1);
    }
}

static void on_library_log(void *user, const char *fmt, va_list args)
    __attribute__((format(printf, 2, 0)));
static void on_library_log(void *user, const char *fmt, va_list args) {
    (void)user;
    char line[400];
    vsnprintf(line, sizeof line, fmt, args);
    rf_log_write(RF_LOG_DEBUG, "http: %s", line);
}

/* ---- start and stop ---- */

static rf_status start_daemon(rf_http *h, rf_error *e) {
    const rf_http_opts *o = &h->o;
    struct MHD_OptionItem more[4];
    size_t n = 0;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    if (o->n_threads > 1)
        more[n++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE, o->n_threads, NULL};
    if (o->tls_cert) {
        if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
            return rf_fail(e, RF_EUNSUPPORTED, "this libmicrohttpd was built without TLS");
        flags |= MHD_USE_TLS;
        more[n++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)o->tls_cert};
        more[n++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)o->tls_key};
    }
    more[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    h->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_access, h, MHD_OPTION_EXTERNAL_LOGGER, on_library_log, h,
        MHD_OPTION_LISTEN_SOCKET, o->listener.fd, MHD_OPTION_URI_LOG_CALLBACK, on_uri, h,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        h, MHD_OPTION_CONNECTION_LIMIT, o->max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        o->idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
    if (h->daemon) return RF_OK;
    return rf_fail(e, o->tls_cert ? RF_EFORMAT : RF_EIO, "%s: the HTTP server does not start%s",
                   o->listener.text,
                   o->tls_cert ? "; are certificate and key PEM files that belong together?" : "");
}

rf_status rf_http_start(rf_http **out, const rf_http_opts *opts, rf_error *e) {
    rf_http *h = *out = rf_alloc(1, sizeof *h);
    if (!h) return rf_fail_nomem(e, sizeof *h);
    h->o = *opts;
    const rf_watch_opts watch = {.idle_us = opts->idle_seconds * (uint64_t)1000000,
                                 .reading_us = opts->request_seconds * (uint64_t)1000000,
                                 .tick = opts->handler.tick,
                                 .user = opts->handler.user};
    rf_status s = rf_watch_create(&h->watch, &watch, e);
    if (s == RF_OK) s = start_daemon(h, e);
    if (s == RF_OK) return RF_OK;
    rf_http_stop(h);
    *out = NULL;
    return s;
}

void rf_http_stop(rf_http *h) {
    if (!h) return;
    if (h->daemon) MHD_stop_daemon(h->daemon);
    rf_watch_free(h->watch);
    rf_free(h);
}

uint32_t rf_http_n_connections(const rf_http *h) { return atomic_load(&h->n_connections); }
uint32_t rf_http_n_busy(const rf_http *h) { return atomic_load(&h->n_busy); }
