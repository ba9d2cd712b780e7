/* otlp.c - a bounded queue, the thread that empties it, and the JSON of the protocol.
 *
 * Batches make few requests of many spans: the thread waits a moment for more before it sends. */
#include "server/otlp.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/os.h"
#include "rocmforge.h"

enum {
    QUEUE = 1024, /* traces */
    BATCH = 128,
    GATHER_MS = 500,
    TRIES = 3,
    RETRY_MS = 250, /* twice as long after each try */
    TIMEOUT_MS = 5000,
    LAST_US = 2000000, /* to send what waits at the end */
    MAX_ENDPOINT = 2000,
    MAX_HEADER = 8192, /* bytes of a name, and of a value */
};

struct rf_otlp {
    rf_metrics *metrics;
    char url[MAX_ENDPOINT + 16];
    CURL *curl; /* the thread's */
    struct curl_slist *headers;
    char why[CURL_ERROR_SIZE];
    bool failing; /* the last batch did not get through, as was logged */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work;
    rf_trace *batch; /* [BATCH], the thread's */
    rf_trace *queue; /* [QUEUE], a ring */
    size_t first, n;
    uint64_t stop_us; /* when the thread must have ended; 0: it goes on */
};

/* ---- the protocol ---- */

typedef struct span_times {
    uint64_t from_us, for_us;
} span_times;

static void put_attribute(rf_buf *out, const char *key, rf_str text) {
    rf_buf_printf(out, "{\"key\":\"%s\",\"value\":{\"stringValue\":", key);
    rf_buf_json_str(out, text);
    rf_buf_puts(out, "}}");
}

static void put_count(rf_buf *out, const char *key, uint32_t n) {
    rf_buf_printf(out, ",{\"key\":\"%s\",\"value\":{\"intValue\":\"%u\"}}", key, n);
}

/* Everything but the end of the object. */
static void put_span(rf_buf *out, const rf_trace *t, const char *name, const char *span,
                     const char *parent, span_times at) {
    bool is_request = span == t->span;
    rf_buf_printf(out, "{\"traceId\":\"%s\",\"spanId\":\"%s\",", t->trace, span);
    if (parent[0]) rf_buf_printf(out, "\"parentSpanId\":\"%s\",", parent);
    rf_buf_printf(out,
                  "\"name\":\"%s\",\"kind\":%d,\"startTimeUnixNano\":\"%llu\","
                  "\"endTimeUnixNano\":\"%llu\"",
                  name, is_request ? 2 : 1, (unsigned long long)at.from_us * 1000,
                  (unsigned long long)(at.from_us + at.for_us) * 1000);
}

static void put_request_span(rf_buf *out, const rf_trace *t) {
    put_span(out, t, "request", t->span, t->from.parent, (span_times){t->start_us, t->total_us});
    rf_buf_puts(out, ",\"attributes\":[");
    put_attribute(out, "gen_ai.request.model", rf_str_of(t->model));
    rf_buf_putc(out, ',');
    put_attribute(out, "rocmforge.request.id", rf_str_of(t->id));
    rf_buf_putc(out, ',');
    put_attribute(out, "rocmforge.state", rf_str_of(t->state));
    put_count(out, "gen_ai.usage.input_tokens", t->n_prompt);
    put_count(out, "gen_ai.usage.output_tokens", t->n_generated);
    put_count(out, "rocmforge.cached_tokens", t->n_cached);
    put_count(out, "rocmforge.answers", t->n_answers);
    rf_buf_puts(out, strcmp(t->state, "failed") == 0 ? "],\"status\":{\"code\":2}}" : "]}");
}

static size_t put_trace(rf_buf *out, const rf_trace *t) {
    const struct {
        const char *name;
        uint64_t us;
    } parts[] = {{"queue", t->queue_us}, {"prefill", t->prefill_us}, {"decode", t->decode_us}};
    size_t n = 1;
    uint64_t at = t->start_us;
    put_request_span(out, t);
    for (size_t i = 0; i < RF_COUNT(parts); i++) {
        char span[17];
        if (!t->prefill_us) break; /* it never started */
        snprintf(span, sizeof span, "%016llx", (unsigned long long)rf_random_u64() | 1);
        rf_buf_putc(out, ',');
        put_span(out, t, parts[i].name, span, t->span, (span_times){at, parts[i].us});
        rf_buf_putc(out, '}');
        at += parts[i].us;
        n++;
    }
    return n;
}

size_t rf_otlp_print(const rf_trace *traces, size_t n, rf_buf *out) {
    size_t n_spans = 0;
    rf_buf_puts(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    put_attribute(out, "service.name", RF_STR("rocmforge"));
    rf_buf_putc(out, ',');
    put_attribute(out, "service.version", rf_str_of(rf_version()));
    rf_buf_puts(out, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"rocmforge\"},\"spans\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) rf_buf_putc(out, ',');
        n_spans += put_trace(out, &traces[i]);
    }
    rf_buf_puts(out, "]}]}]}");
    return n_spans;
}

/* ---- sending, on the thread ---- */

static size_t ignore(char *bytes, size_t size, size_t n, void *user) {
    (void)bytes, (void)user;
    return size * n;
}

/* The end does not wait for a collector that does not answer. */
static int is_over(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    (void)a, (void)b, (void)c, (void)d;
    rf_otlp *x = user;
    pthread_mutex_lock(&x->lock);
    bool over = x->stop_us && rf_time_us() >= x->stop_us;
    pthread_mutex_unlock(&x->lock);
    return over;
}

static void sleep_until(rf_otlp *x, uint32_t ms) { /* or until the end; the lock is held */
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int s = 0;
    while (!x->stop_us && s != ETIMEDOUT)
        s = pthread_cond_timedwait(&x->work, &x->lock, &until);
}

typedef enum sent { SENT, TRY_AGAIN, REFUSED } sent;

static sent post(rf_otlp *x, const rf_buf *body) {
    long status = 0;
    x->why[0] = 0;
    curl_easy_setopt(x->curl, CURLOPT_POSTFIELDS, body->p);
    curl_easy_setopt(x->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
    CURLcode code = curl_easy_perform(x->curl);
    if (code != CURLE_OK) {
        if (!x->why[0]) snprintf(x->why, sizeof x->why, "%s", curl_easy_strerror(code));
        return TRY_AGAIN;
    }
    curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300) return SENT;
    snprintf(x->why, sizeof x->why, "it answers %ld", status);
    return status == 429 || (status >= 502 && status <= 504) ? TRY_AGAIN : REFUSED;
}

static void send_batch(rf_otlp *x, size_t n) {
    rf_buf body = {0};
    size_t n_spans = rf_otlp_print(x->batch, n, &body);
    sent result = body.failed ? REFUSED : TRY_AGAIN;
    uint32_t wait_ms = RETRY_MS;
    if (body.failed) snprintf(x->why, sizeof x->why, "out of memory");
    for (int i = 0; i < TRIES && result == TRY_AGAIN; i++, wait_ms *= 2) {
        pthread_mutex_lock(&x->lock);
        if (i) sleep_until(x, wait_ms);
        bool over = i && x->stop_us;
        pthread_mutex_unlock(&x->lock);
        if (over) break;
        result = post(x, &body);
    }
    rf_buf_free(&body);
    bool ok = result == SENT;
    rf_metrics_add(x->metrics, ok ? RF_M_SPANS_SENT : RF_M_SPANS_DROPPED, n_spans);
    if (!ok && !x->failing) rf_log_write(RF_LOG_WARN, "%s: spans are lost: %s", x->url, x->why);
    if (ok && x->failing) rf_log_write(RF_LOG_INFO, "%s: spans get through again", x->url);
    x->failing = !ok;
}

static void *run(void *user) {
    rf_otlp *x = user;
    pthread_mutex_lock(&x->lock);
    for (;;) {
        while (!x->n && !x->stop_us)
            pthread_cond_wait(&x->work, &x->lock);
        if (!x->n) break;
        if (x->n < BATCH) sleep_until(x, GATHER_MS);
        size_t n = x->n < BATCH ? x->n : BATCH;
        for (size_t i = 0; i < n; i++)
            x->batch[i] = x->queue[(x->first + i) % QUEUE];
        x->first = (x->first + n) % QUEUE;
        x->n -= n;
        pthread_mutex_unlock(&x->lock);
        send_batch(x, n);
        pthread_mutex_lock(&x->lock);
    }
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

/* ---- the others' side ---- */

void rf_otlp_add(rf_otlp *x, const rf_trace *t) {
    pthread_mutex_lock(&x->lock);
    bool full = x->n == QUEUE;
    if (!full) x->queue[(x->first + x->n++) % QUEUE] = *t;
    pthread_cond_signal(&x->work);
    pthread_mutex_unlock(&x->lock);
    if (full) rf_metrics_add(x->metrics, RF_M_SPANS_DROPPED, t->prefill_us ? 4 : 1);
}

static rf_status set_url(rf_otlp *x, const char *endpoint, rf_error *e) {
    size_t n = strlen(endpoint);
    if ((strncmp(endpoint, "http://", 7) != 0 && strncmp(endpoint, "https://", 8) != 0) ||
        n > MAX_ENDPOINT)
        return rf_fail(e, RF_EARG,
                       "--otlp-endpoint '%.80s' is not the http:// or https:// address of a "
                       "collector, such as http://127.0.0.1:4318",
                       endpoint);
    while (n && endpoint[n - 1] == '/')
        n--;
    snprintf(x->url, sizeof x->url, "%.*s/v1/traces", (int)n, endpoint);
    return RF_OK;
}

static rf_str trimmed(rf_str s) {
    while (s.len && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = (rf_str){s.p + 1, s.len - 1};
    while (s.len && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
        s.len--;
    return s;
}

static bool is_header_name(rf_str s) { /* a token of RFC 9110, 5.6.2 */
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = (uint8_t)s.p[i];
        if (c <= ' ' || c >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c)) return false;
    }
    return s.len > 0 && s.len <= MAX_HEADER;
}

static bool is_header_value(const char *p, int n) {
    for (int i = 0; i < n; i++)
        if (((uint8_t)p[i] < ' ' && p[i] != '\t') || p[i] == 0x7f) return false;
    return n > 0;
}

static rf_status add_header(rf_otlp *x, rf_str name, rf_str value) {
    int n = 0;
    if (!is_header_name(name) || !value.len || value.len > MAX_HEADER) return RF_EARG;
    char *plain = curl_easy_unescape(x->curl, value.p, (int)value.len, &n);
    if (!plain) return RF_ENOMEM;
    rf_status s = is_header_value(plain, n) ? RF_OK : RF_EARG;
    if (s == RF_OK) {
        rf_buf line = {0};
        rf_buf_printf(&line, "%.*s: %.*s", (int)name.len, name.p, n, plain);
        struct curl_slist *all = line.failed ? NULL : curl_slist_append(x->headers, line.p);
        if (all)
            x->headers = all;
        else
            s = RF_ENOMEM;
        rf_buf_free(&line);
    }
    curl_free(plain);
    return s;
}

/* Errors tell the place alone: values are secrets. */
static rf_status add_headers(rf_otlp *x, const char *list, rf_error *e) {
    for (const char *p = list, *end; *p; p = *end ? end + 1 : end) {
        end = p + strcspn(p, ",");
        rf_str one = trimmed((rf_str){p, (size_t)(end - p)});
        if (!one.len) continue;
        const char *equals = memchr(one.p, '=', one.len);
        rf_str name = trimmed((rf_str){one.p, equals ? (size_t)(equals - one.p) : 0});
        rf_str value = {one.p + one.len, 0};
        if (equals) value = trimmed((rf_str){equals + 1, (size_t)(one.p + one.len - equals) - 1});
        rf_status s = add_header(x, name, value);
        if (s == RF_ENOMEM) return rf_fail(e, s, "no memory for the headers of --otlp-headers");
        if (s != RF_OK)
            return rf_fail(e, s,
                           "--otlp-headers: what begins at byte %zu is not a header: it takes "
                           "name=value with a percent-encoded value, and commas between several",
                           (size_t)(one.p - list));
    }
    return RF_OK;
}

static rf_status open_curl(rf_otlp *x, const char *headers, rf_error *e) {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) x->curl = curl_easy_init();
    x->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!x->curl || !x->headers) return rf_fail(e, RF_ENOMEM, "cannot start libcurl");
    rf_status s = headers ? add_headers(x, headers, e) : RF_OK;
    if (s != RF_OK) return s;
    curl_easy_setopt(x->curl, CURLOPT_URL, x->url);
    curl_easy_setopt(x->curl, CURLOPT_HTTPHEADER, x->headers);
    curl_easy_setopt(x->curl, CURLOPT_USERAGENT, "rocmforge/" RF_VERSION);
    curl_easy_setopt(x->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(x->curl, CURLOPT_TIMEOUT_MS, (long)TIMEOUT_MS);
    curl_easy_setopt(x->curl, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(x->curl, CURLOPT_ERRORBUFFER, x->why);
    curl_easy_setopt(x->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(x->curl, CURLOPT_XFERINFOFUNCTION, is_over);
    curl_easy_setopt(x->curl, CURLOPT_XFERINFODATA, x);
    return RF_OK;
}

rf_status rf_otlp_create(rf_otlp **out, const char *endpoint, const char *headers,
                         rf_metrics *metrics, rf_error *e) {
    rf_otlp *x = *out = rf_alloc(1, sizeof *x);
    if (!x) return rf_fail_nomem(e, sizeof *x);
    x->metrics = metrics;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->work, NULL);
    rf_status s = set_url(x, endpoint, e);
    if (s == RF_OK) s = open_curl(x, headers, e);
    if (s == RF_OK) x->queue = rf_alloc(QUEUE, sizeof *x->queue);
    if (s == RF_OK) x->batch = rf_alloc(BATCH, sizeof *x->batch);
    if (s == RF_OK && (!x->queue || !x->batch)) s = rf_fail_nomem(e, QUEUE * sizeof *x->queue);
    if (s == RF_OK && (rf_alloc_should_fail() || pthread_create(&x->thread, NULL, run, x) != 0))
        s = rf_fail(e, RF_ENOMEM, "cannot start the thread that sends spans");
    x->started = s == RF_OK;
    if (s == RF_OK) return RF_OK;
    rf_otlp_free(x);
    *out = NULL;
    return s;
}

void rf_otlp_free(rf_otlp *x) {
    if (!x) return;
    if (x->started) {
        pthread_mutex_lock(&x->lock);
        x->stop_us = rf_time_us() + LAST_US;
        pthread_cond_signal(&x->work);
        pthread_mutex_unlock(&x->lock);
        pthread_join(x->thread, NULL);
    }
    curl_easy_cleanup(x->curl);
    curl_slist_free_all(x->headers);
    rf_free(x->queue);
    rf_free(x->batch);
    pthread_cond_destroy(&x->work);
    pthread_mutex_destroy(&x->lock);
    rf_free(x);
}
