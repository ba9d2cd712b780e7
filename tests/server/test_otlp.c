/* Traces: what is told of a request that is over, to those who ask and to a collector; and that nobody
 * waits for a collector that is slow, refuses or is not there. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "server/harness.h"
#include "server/otlp.h"

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

/* ---- a collector ---- */

typedef struct collector {
    int fd, status; /* its answer; 0: none, ever */
    char endpoint[60];
    pthread_t thread;
    atomic_bool stop;
    atomic_uint n_posts;
    pthread_mutex_t lock;
    rf_buf head, body; /* of the latest request */
} collector;

static void answer(collector *k, int fd) {
    rf_buf seen = {0};
    char out[100];
    while (rf_test_read_until(fd, &seen, "\r\n\r\n")) {
        const char *length = strcasestr(seen.p, "Content-Length:");
        size_t head = (size_t)(strstr(seen.p, "\r\n\r\n") - seen.p) + 4;
        size_t n = length ? strtoul(length + 15, NULL, 10) : 0;
        char more[4096];
        while (seen.len < head + n) {
            ssize_t got = recv(fd, more, sizeof more, 0);
            if (got <= 0) break;
            rf_buf_put(&seen, more, (size_t)got);
        }
        if (seen.len < head + n) break;
        pthread_mutex_lock(&k->lock);
        rf_buf_clear(&k->head);
        rf_buf_put(&k->head, seen.p, head);
        rf_buf_clear(&k->body);
        if (strncmp(seen.p, "POST /v1/traces HTTP/1.1\r\n", 26) == 0 &&
            strstr(seen.p, "Content-Type: application/json\r\n"))
            rf_buf_put(&k->body, seen.p + head, n);
        pthread_mutex_unlock(&k->lock);
        atomic_fetch_add(&k->n_posts, 1);
        rf_buf_clear(&seen);
        while (!k->status && !atomic_load(&k->stop))
            usleep(5000);
        snprintf(out, sizeof out, "HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n{}", k->status);
        rf_test_send(fd, out, strlen(out));
        break; /* one request a connection */
    }
    rf_buf_free(&seen);
    close(fd);
}

static void *collect(void *user) {
    collector *k = user;
    while (!atomic_load(&k->stop)) {
        struct pollfd p = {.fd = k->fd, .events = POLLIN};
        if (poll(&p, 1, 20) > 0) answer(k, accept(k->fd, NULL, NULL));
    }
    return NULL;
}

static void open_collector(collector *k, int status) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    *k = (collector){.status = status, .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_int_equal(bind(k->fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(k->fd, 10), 0);
    assert_int_equal(getsockname(k->fd, (struct sockaddr *)&a, &size), 0);
    snprintf(k->endpoint, sizeof k->endpoint, "http://127.0.0.1:%u/", ntohs(a.sin_port));
    pthread_mutex_init(&k->lock, NULL);
    assert_int_equal(pthread_create(&k->thread, NULL, collect, k), 0);
}

static void close_collector(collector *k) {
    atomic_store(&k->stop, true);
    pthread_join(k->thread, NULL);
    close(k->fd);
    rf_buf_free(&k->head);
    rf_buf_free(&k->body);
    pthread_mutex_destroy(&k->lock);
}

static rf_json *wait_for_spans(collector *k, unsigned n_posts) {
    for (int i = 0; i < 60000 && atomic_load(&k->n_posts) < n_posts; i++)
        usleep(1000);
    pthread_mutex_lock(&k->lock);
    assert_true(k->body.len > 0);
    rf_json *j = parse(rf_buf_str(&k->body));
    pthread_mutex_unlock(&k->lock);
    return j;
}

static void wait_for_metric(const rf_metrics *m, rf_metric id, uint64_t want) {
    for (int i = 0; i < 60000 && rf_metrics_get(m, id) < want; i++)
        usleep(1000);
    assert_int_equal(rf_metrics_get(m, id), want);
}

static under_test open_with(const collector *k) {
    rf_server_opts o = usual_opts();
    o.otlp_endpoint = k->endpoint;
    return open_server(2, &o);
}

#define BODY "{\"prompt\":\"Once upon\",\"max_tokens\":5,\"ignore_eos\":true}"

static void ask(const under_test *t, const char *headers) {
    rf_test_reply r = rf_test_ask(t->url, "POST", "/generate", headers, BODY);
    assert_int_equal(r.status, 200);
    rf_test_reply_free(&r);
}

static int64_t time_of(const rf_json *span, const char *which) {
    rf_str text = rf_json_str(rf_json_get(span, which)); /* 64-bit numbers are texts there */
    assert_true(text.len >= 19);
    return strtoll(text.p, NULL, 10);
}

static const rf_json *attribute(const rf_json *span, const char *key) {
    const rf_json *all = rf_json_get(span, "attributes");
    for (size_t i = 0; i < rf_json_len(all); i++)
        if (rf_str_is(rf_json_str(at(rf_json_at(all, i), "key")), key))
            return rf_json_get(rf_json_at(all, i), "value");
    fail_msg("no attribute %s", key);
    return NULL;
}

/* ---- tests ---- */

/* A request with a traceparent: its spans belong to that trace, lie within each other in time, and say
 * how many tokens there were.  One that its caller does not record is not sent. */
static void test_spans(void **state) {
    (void)state;
    collector k;
    open_collector(&k, 200);
    under_test t = open_with(&k);
    ask(&t, "traceparent: 00-" TRACE "-" PARENT "-00\r\n");
    ask(&t, "traceparent: 00-" TRACE "-" PARENT "-01\r\n");
    rf_json *j = wait_for_spans(&k, 1);
    const rf_json *spans = at(j, "resourceSpans.0.scopeSpans.0.spans");
    assert_text(at(j, "resourceSpans.0.resource.attributes.0.value"), "stringValue", "rocmforge");
    assert_int_equal(rf_json_len(spans), 4);
    const rf_json *request = rf_json_at(spans, 0);
    assert_text(request, "name", "request");
    assert_text(request, "parentSpanId", PARENT);
    assert_int_equal(rf_json_int(at(request, "kind")), 2);
    assert_text(attribute(request, "gen_ai.request.model"), "stringValue", "demo");
    assert_text(attribute(request, "gen_ai.usage.output_tokens"), "intValue", "5");
    assert_text(attribute(request, "rocmforge.state"), "stringValue", "finished");
    static const char *const parts[] = {"queue", "prefill", "decode"};
    int64_t from = time_of(request, "startTimeUnixNano");
    for (size_t i = 0; i < 4; i++) {
        const rf_json *span = rf_json_at(spans, i);
        assert_text(span, "traceId", TRACE);
        assert_int_equal(rf_json_str(at(span, "spanId")).len, 16);
        if (i == 0) continue;
        assert_text(span, "name", parts[i - 1]);
        assert_true(
            rf_str_eq(rf_json_str(at(span, "parentSpanId")), rf_json_str(at(request, "spanId"))));
        assert_int_equal(time_of(span, "startTimeUnixNano"), from); /* one after the other */
        from = time_of(span, "endTimeUnixNano");
    }
    assert_int_equal(from, time_of(request, "endTimeUnixNano"));
    int64_t now = (int64_t)time(NULL);
    assert_true(from / 1000000000 >= now - 100 && from / 1000000000 <= now);
    rf_json_free(j);
    wait_for_metric(&t.server->metrics, RF_M_SPANS_SENT, 4);
    close_server(&t);
    close_collector(&k);
}

/* GET /traces: the latest requests, newest first, whether they are sent or not. */
static void test_ring(void **state) {
    (void)state;
    under_test t = open_usual(2);
    ask(&t, "traceparent: 00-" TRACE "-" PARENT "-00\r\n");
    ask(&t, "");
    rf_test_reply r = rf_test_ask(t.url, "GET", "/traces", "", NULL);
    rf_json *j = parse(rf_buf_str(&r.body));
    const rf_json *traces = rf_json_get(j, "traces");
    assert_int_equal(rf_json_len(traces), 2);
    assert_text(j, "traces.1.trace_id", TRACE);
    assert_text(j, "traces.1.parent_id", PARENT);
    assert_int_equal(rf_json_kind(at(j, "traces.0.parent_id")), RF_JSON_NULL);
    assert_int_equal(rf_json_str(at(j, "traces.0.trace_id")).len, 32);
    assert_text(j, "traces.0.state", "finished");
    assert_text(j, "traces.0.model", "demo");
    assert_int_equal(rf_json_int(at(j, "traces.0.generated_tokens")), 5);
    double sum = rf_json_real(at(j, "traces.0.queue_ms")) +
                 rf_json_real(at(j, "traces.0.prefill_ms")) +
                 rf_json_real(at(j, "traces.0.decode_ms"));
    double total = rf_json_real(at(j, "traces.0.total_ms"));
    assert_true(total > 0 && sum > total - 0.01 && sum < total + 0.01);
    assert_null(strstr(r.body.p, "Once")); /* no text of prompts */
    rf_json_free(j);
    rf_test_reply_free(&r);
    for (int i = 0; i < RF_TRACES_KEPT; i++) { /* it does not grow */
        rf_trace more = {.state = "finished"};
        snprintf(more.id, sizeof more.id, "made-%d", i);
        rf_traces_add(t.server->traces, &more);
    }
    r = rf_test_ask(t.url, "GET", "/traces", "", NULL);
    j = parse(rf_buf_str(&r.body));
    assert_int_equal(rf_json_len(rf_json_get(j, "traces")), RF_TRACES_KEPT);
    assert_text(j, "traces.255.id", "made-0");
    rf_json_free(j);
    rf_test_reply_free(&r);
    close_server(&t);
}

/* A collector that refuses, and one that is not there: answers come all the same, and the loss shows. */
static void test_lost(void **state) {
    (void)state;
    collector k;
    open_collector(&k, 400);
    under_test t = open_with(&k);
    ask(&t, "");
    wait_for_metric(&t.server->metrics, RF_M_SPANS_DROPPED, 4);
    assert_int_equal(atomic_load(&k.n_posts), 1); /* what was refused is not sent again */
    close_collector(&k);
    ask(&t, "");
    close_server(&t); /* with one that waits for a collector that is gone */
}

/* A collector that never answers: adding goes on at once, and so, soon, does the end. */
static void test_stuck(void **state) {
    (void)state;
    collector k;
    static rf_metrics m;
    rf_otlp *x;
    rf_error e = {0};
    open_collector(&k, 0);
    assert_int_equal(rf_otlp_create(&x, k.endpoint, NULL, &m, &e), RF_OK);
    rf_trace t = {.state = "cancelled"}; /* never started: one span */
    rf_trace_identify(&t);
    uint64_t start = rf_time_us();
    for (int i = 0; i < 3000; i++)
        rf_otlp_add(x, &t);
    assert_true(rf_metrics_get(&m, RF_M_SPANS_DROPPED) >= 3000 - 1024 - 128 * 2);
    assert_true(rf_time_us() - start < 2000000);
    rf_otlp_free(x);
    assert_true(rf_time_us() - start < 30000000);
    assert_int_equal(rf_metrics_get(&m, RF_M_SPANS_DROPPED), 3000);
    assert_int_equal(rf_metrics_get(&m, RF_M_SPANS_SENT), 0);
    close_collector(&k);
}

static void test_endpoint(void **state) {
    (void)state;
    static const char *const wrong[] = {"127.0.0.1:4318", "file:///etc/passwd", ""};
    for (size_t i = 0; i < RF_COUNT(wrong); i++) {
        rf_server_opts o = usual_opts();
        rf_server *s;
        rf_error e = {0};
        o.otlp_endpoint = wrong[i];
        assert_int_equal(rf_server_open(&s, &o, &e), RF_EARG);
        assert_non_null(strstr(e.text, "--otlp-endpoint"));
    }
}

/* Headers reach the collector, decoded; what would not be one is refused without telling its value. */
static void test_headers(void **state) {
    (void)state;
    collector k;
    rf_error e = {0};
    open_collector(&k, 200);
    rf_server_opts o = usual_opts();
    o.otlp_endpoint = k.endpoint;
    o.otlp_headers = "api-key=abc%3D1%2C2, x-team = forge ,";
    under_test t = open_server(2, &o);
    ask(&t, "");
    rf_json_free(wait_for_spans(&k, 1));
    close_server(&t);
    pthread_mutex_lock(&k.lock);
    rf_buf_putc(&k.head, 0);
    assert_non_null(strstr(k.head.p, "\r\napi-key: abc=1,2\r\n"));
    assert_non_null(strstr(k.head.p, "\r\nx-team: forge\r\n"));
    pthread_mutex_unlock(&k.lock);
    close_collector(&k);
    static const char *const wrong[] = {
        "secret",       "=secret", "key=", "a b=secret", "k\xc3=secret", "key=secret%0d%0aEvil: 1",
        "key=secret%00"};
    for (size_t i = 0; i < RF_COUNT(wrong); i++) {
        rf_server *s;
        o.otlp_headers = wrong[i];
        assert_int_equal(rf_server_open(&s, &o, &e), RF_EARG);
        assert_non_null(strstr(e.text, "--otlp-headers"));
        assert_null(strstr(e.text, "secret"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans),    cmocka_unit_test(test_ring),
        cmocka_unit_test(test_lost),     cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_endpoint), cmocka_unit_test(test_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
