/* Clients that misbehave: they leave, stall, send garbage, come in crowds; and the server's end while
 * they are at it. */
#include <sys/resource.h>
#include <sys/socket.h>

#include "server/harness.h"

static const char endless[] =
    "{\"prompt\":\"Once upon\",\"max_tokens\":900,\"ignore_eos\":true,\"stream\":true}";
static const char endless_whole[] =
    "{\"prompt\":\"Once upon\",\"max_tokens\":900,\"ignore_eos\":true}";

typedef enum leaving { FIN, RST, HALF_CLOSE } leaving;

static void leave(int fd, leaving how) {
    if (how == RST) {
        rf_test_reset(fd);
    } else {
        if (how == HALF_CLOSE) shutdown(fd, SHUT_WR);
        if (how == FIN) close(fd);
    }
}

static uint64_t cancelled(const under_test *t) {
    return rf_metrics_get(&t->server->metrics, RF_M_CANCELLED);
}

/* A disconnect that never cancels was a defect of old: whichever way the client leaves, streamed or
 * not, the work ends long before its 900 tokens, and all blocks are free. */
static void test_leaving_while_decoding(void **state) {
    (void)state;
    under_test t = open_usual(2);
    uint64_t n = 0;
    for (int stream = 0; stream < 2; stream++)
        for (leaving how = FIN; how <= HALF_CLOSE; how++) {
            int fd = rf_test_connect(t.url);
            uint64_t before = rf_metrics_get(&t.server->metrics, RF_M_TOKENS);
            rf_test_request(fd, "POST", "/generate", "", stream ? endless : endless_whole);
            while (rf_metrics_get(&t.server->metrics, RF_M_TOKENS) == before)
                usleep(1000);
            leave(fd, how);
            wait_until_idle(&t);
            assert_int_equal(cancelled(&t), ++n);
            assert_true(rf_metrics_get(&t.server->metrics, RF_M_TOKENS) - before < 800);
            if (how == HALF_CLOSE) close(fd);
        }
    close_server(&t);
}

/* The same while the request waits for its turn, and while its prompt is processed. */
static void test_leaving_early(void **state) {
    (void)state;
    under_test t = open_usual(1);
    for (leaving how = FIN; how <= HALF_CLOSE; how++) {
        int first = rf_test_connect(t.url), fd = rf_test_connect(t.url);
        rf_test_request(first, "POST", "/generate", "", endless);
        wait_for_running(&t, 1, 0);
        rf_test_request(fd, "POST", "/generate", "", how == FIN ? endless : endless_whole);
        wait_for_running(&t, 1, 1);
        leave(fd, how);
        rf_engine_stats s;
        do {
            usleep(1000);
            rf_engine_get_stats(t.engine, &s);
        } while (s.n_waiting);
        if (how == HALF_CLOSE) close(fd);
        close(first);
        wait_until_idle(&t);
    }
    rf_buf body = {0};
    rf_buf_puts(&body, "{\"max_tokens\":50,\"ignore_eos\":true,\"prompt\":\"");
    for (int i = 0; i < 150; i++)
        rf_buf_puts(&body, "The fox went out. ");
    rf_buf_puts(&body, "\"}");
    uint64_t tokens = rf_metrics_get(&t.server->metrics, RF_M_TOKENS), n = cancelled(&t);
    int fd = rf_test_connect(t.url);
    rf_test_request(fd, "POST", "/generate", "", body.p);
    wait_for_running(&t, 1, 0);
    rf_test_reset(fd);
    wait_until_idle(&t);
    assert_int_equal(cancelled(&t), n + 1);
    assert_true(rf_metrics_get(&t.server->metrics, RF_M_TOKENS) - tokens < 50);
    rf_buf_free(&body);
    close_server(&t);
}

/* Sends bytes and reads all that comes until the server hangs up or the answers end. */
static int first_status(const under_test *t, const char *bytes, size_t n) {
    int fd = rf_test_connect(t->url), status = 0;
    rf_buf seen = {0};
    rf_test_send(fd, bytes, n);
    if (rf_test_read_until(fd, &seen, "\r\n\r\n")) sscanf(seen.p, "HTTP/1.1 %d", &status);
    rf_buf_free(&seen);
    close(fd);
    return status;
}

/* What proxies and servers understand differently is refused, and nothing behind it is executed. */
static void test_smuggling(void **state) {
    (void)state;
    under_test t = open_usual(1);
#define GET  "GET /health HTTP/1.1\r\n"
#define POST "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
#define RAW(s, want) \
    { s, sizeof(s) - 1, want }
    static const struct {
        const char *bytes;
        size_t n;
        int status;
    } cases[] = {
        RAW(GET "Host: localhost\r\n\r\n", 200),
        RAW(GET "Host:  localhost \t\r\nA:\r\nB:c\r\n\r\n", 200),
        RAW(GET "\r\n", 400),
        RAW(GET "Host: localhost\r\nHost: y\r\n\r\n", 400),
        RAW(GET "Host: localhost\r\nA: a\0b\r\n\r\n", 400),
        RAW(GET "Host: x\0y\r\nA: b\r\n\r\n", 400),
        RAW(GET "Host: localhost\r\nA\0b: c\r\n\r\n", 400),
        RAW("GET /health\0/x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        RAW(GET "Host: localhost\r\nA: a\rb: c\r\n\r\n", 400),
        RAW(GET "Host: localhost\r\nA: b\r\n c\r\n\r\n", 400),
        RAW(GET "Host : x\r\n\r\n", 400),
        RAW(POST "Content-Length: 15\r\nContent-Length: 15\r\n\r\n{\"content\":\"a\"}", 400),
        RAW(POST "Content-Length: 15\r\nContent-Length: 3\r\n\r\n{\"content\":\"a\"}", 400),
        RAW(POST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET "\r\n",
            400),
        RAW(POST "Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
        RAW(POST "Transfer-Encoding: chunked, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
        RAW(POST "Content-Length: +2\r\n\r\n{}", 400),
        RAW(POST "Content-Length: -1\r\n\r\n{}", 400),
        RAW(POST "Content-Length: 18446744073709551618\r\n\r\n{}", 413),
        RAW(POST "Content-Length: 2000000\r\n\r\n{}", 413),
        RAW(POST "Expect: 100-continue\r\nContent-Length: 2000000\r\n\r\n", 413),
        RAW(POST "Transfer-Encoding: chunked\r\n\r\nf\r\n{\"content\":\"a\"}\r\n0\r\n\r\n", 200),
        RAW(POST "Origin: http://elsewhere\r\nContent-Length: 15\r\n\r\n{\"content\":\"a\"}", 403),
        RAW("GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", 505),
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        int status = first_status(&t, cases[i].bytes, cases[i].n);
        if (status != cases[i].status) fail_msg("case %zu: %d, not %d", i, status, cases[i].status);
    }
    rf_buf long_one = {0};
    rf_buf_puts(&long_one, GET "Host: localhost\r\nA: ");
    for (int i = 0; i < 40000; i++)
        rf_buf_putc(&long_one, 'a');
    rf_buf_puts(&long_one, "\r\n\r\n");
    assert_int_equal(first_status(&t, long_one.p, long_one.len), 431);
    rf_buf_free(&long_one);
    close_server(&t);
}

static void test_garbage(void **state) {
    (void)state;
    under_test t = open_usual(1);
    uint64_t noise = 7;
    for (int i = 0; i < 200; i++) {
        char bytes[600];
        size_t n = rf_test_rand(&noise) % sizeof bytes;
        for (size_t k = 0; k < n; k++)
            bytes[k] = (char)rf_test_rand(&noise);
        int fd = rf_test_connect(t.url);
        if (i % 2) rf_test_send(fd, "POST /generate HTTP/1.1\r\n", 25);
        rf_test_send(fd, bytes, n);
        if (i % 3)
            rf_test_reset(fd);
        else
            close(fd);
    }
    rf_json_free(post(&t, "/generate", "{\"prompt\":\"a\",\"max_tokens\":1}", 200));
    close_server(&t);
}

/* A body that is too long is read to a bound and refused, also in pieces. */
static void test_long_chunked_body(void **state) {
    (void)state;
    under_test t = open_usual(1);
    int fd = rf_test_connect(t.url);
    static const char head[] = POST "Transfer-Encoding: chunked\r\n\r\n";
    static char piece[65536 + 9];
    memset(piece, ' ', sizeof piece);
    memcpy(piece, "10000\r\n", 7);
    memcpy(piece + 7 + 65536, "\r\n", 2);
    rf_test_send(fd, head, sizeof head - 1);
    for (int i = 0; i < 32; i++)
        rf_test_send(fd, piece, sizeof piece);
    rf_test_send(fd, "0\r\n\r\n", 5);
    rf_test_reply r;
    assert_true(rf_test_read_reply(fd, &r));
    assert_int_equal(r.status, 413);
    rf_test_reply_free(&r);
    close(fd);
    close_server(&t);
}

/* Slow clients: half a request is not waited for longer than the limit, however it drips. */
static void test_slow_request(void **state) {
    (void)state;
    rf_server_opts o = usual_opts();
    o.request_seconds = 1;
    under_test t = open_server(1, &o);
    int fd = rf_test_connect(t.url);
    rf_buf seen = {0};
    static const char head[] = POST "Content-Length: 1000\r\n\r\n";
    rf_test_send(fd, head, sizeof head - 1);
    uint64_t start = rf_time_us();
    while (rf_http_n_connections(t.server->http) > 0 || rf_time_us() - start < 100000) {
        rf_test_send(fd, "a", 1);
        usleep(50000);
        assert_true(rf_time_us() - start < 30000000);
    }
    assert_false(rf_test_read_until(fd, &seen, "200 OK"));
    rf_buf_free(&seen);
    close(fd);
    close_server(&t);
}

/* A client that ends its side along with the first bytes is not kept until idle connections are. */
static void test_half_line(void **state) {
    (void)state;
    rf_server_opts o = usual_opts();
    o.idle_seconds = o.request_seconds = 3600;
    under_test t = open_server(1, &o);
    int fds[50];
    for (int i = 0; i < 50; i++) {
        fds[i] = rf_test_connect(t.url);
        rf_test_send(fds[i], "\r\n\r\nGET", 7);
        shutdown(fds[i], SHUT_WR);
    }
    uint64_t start = rf_time_us();
    while (rf_http_n_connections(t.server->http) > 0 || rf_time_us() - start < 100000) {
        usleep(20000);
        assert_true(rf_time_us() - start < 60000000);
    }
    for (int i = 0; i < 50; i++)
        close(fds[i]);
    close_server(&t);
}

/* ---- crowds ---- */

static void allow_files(rlim_t n) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur >= n) return;
    limit.rlim_cur = limit.rlim_max < n ? limit.rlim_max : n;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

enum { CROWD = 200, IDLE = 2000, CROWD_TOKENS = 4 };

/* 2,000 connections that do nothing, then 200 streams beside them: each gets exactly the answer of a
 * request alone, and the idle ones still work. */
static void test_crowd(void **state) {
    (void)state;
    allow_files(2 * (IDLE + CROWD) + 100);
    under_test t = open_usual(16);
    static int idle[IDLE], busy[CROWD];
    rf_test_reply r;
    for (int i = 0; i < IDLE; i++) {
        idle[i] = rf_test_connect(t.url);
        rf_test_request(idle[i], "GET", "/health", "", NULL);
        assert_true(rf_test_read_reply(idle[i], &r));
        assert_int_equal(r.status, 200);
        rf_test_reply_free(&r);
    }
    assert_true(rf_http_n_connections(t.server->http) >= IDLE);
    char body[200];
    static char *alone[8];
    for (int i = 0; i < 8; i++) {
        snprintf(body, sizeof body, "{\"prompt\":\"Once upon\",\"max_tokens\":%d,\"seed\":%d}",
                 CROWD_TOKENS, i);
        rf_json *j = post(&t, "/generate", body, 200);
        alone[i] = strdup(rf_json_str(at(j, "text")).p);
        rf_json_free(j);
    }
    for (int i = 0; i < CROWD; i++) {
        busy[i] = rf_test_connect(t.url);
        snprintf(body, sizeof body,
                 "{\"prompt\":\"Once upon\",\"max_tokens\":%d,\"stream\":true,\"seed\":%d}",
                 CROWD_TOKENS, i % 8);
        rf_test_request(busy[i], "GET", "/v1/models", "", NULL); /* two on one connection */
        rf_test_request(busy[i], "POST", "/generate", "", body);
    }
    for (int i = 0; i < CROWD; i++) {
        assert_true(rf_test_read_reply(busy[i], &r));
        rf_test_reply_free(&r);
        assert_true(rf_test_read_reply(busy[i], &r));
        assert_int_equal(r.status, 200);
        rf_buf text = {0};
        size_t from = 0;
        rf_str event;
        while (next_event(rf_buf_str(&r.body), &from, &event)) {
            rf_json *j = parse(event);
            rf_str piece = rf_json_str(at(j, "text"));
            rf_buf_put(&text, piece.p, piece.len);
            rf_json_free(j);
        }
        assert_string_equal(text.p, alone[i % 8]);
        rf_buf_free(&text);
        rf_test_reply_free(&r);
        close(busy[i]);
    }
    for (int i = 0; i < IDLE; i += 100) {
        rf_test_request(idle[i], "GET", "/health", "", NULL);
        assert_true(rf_test_read_reply(idle[i], &r));
        rf_test_reply_free(&r);
    }
    for (int i = 0; i < IDLE; i++)
        close(idle[i]);
    for (int i = 0; i < 8; i++)
        free(alone[i]);
    wait_until_idle(&t);
    close_server(&t);
}

/* A crowd that leaves, stalls and sends garbage while others are served: nothing leaks. */
static void test_churn(void **state) {
    (void)state;
    rf_server_opts o = usual_opts();
    o.max_waiting = 20;
    o.idle_seconds = 1; /* the library may miss a reset */
    under_test t = open_server(4, &o);
    uint64_t noise = 3;
    int open_ones[40];
    size_t n_open = 0, n_asked = 0;
    for (int i = 0; i < 400; i++) {
        int fd = rf_test_connect(t.url);
        char body[200];
        uint64_t dice = rf_test_rand(&noise) % 6;
        snprintf(body, sizeof body,
                 "{\"prompt\":\"The %d\",\"max_tokens\":%d,\"stream\":%s,\"n\":%d}", i % 10,
                 (int)(1 + rf_test_rand(&noise) % 30), dice % 2 ? "true" : "false",
                 (int)(1 + rf_test_rand(&noise) % 3));
        if (dice == 5)
            rf_test_send(fd, body, 20);
        else
            rf_test_request(fd, "POST", "/v1/completions", "", body);
        n_asked += dice != 5;
        if (dice < 2) {
            leave(fd, (leaving)dice);
        } else if (n_open < RF_COUNT(open_ones)) {
            open_ones[n_open++] = fd;
        } else {
            size_t k = rf_test_rand(&noise) % n_open;
            close(open_ones[k]);
            open_ones[k] = fd;
        }
    }
    const rf_metrics *m = &t.server->metrics;
    while (rf_metrics_get(m, RF_M_STARTED) == 0) /* the crowd can be faster than the server */
        usleep(1000);
    for (size_t i = 0; i < n_open; i++)
        close(open_ones[i]);
    /* Connections are accepted in their order: after this one all of the crowd's were. */
    rf_test_reply r = rf_test_ask(t.url, "GET", "/health", "", NULL);
    assert_int_equal(r.status, 200);
    rf_test_reply_free(&r);
    while (rf_http_n_connections(t.server->http) > 0)
        usleep(1000);
    wait_until_idle(&t);
    assert_int_equal(rf_metrics_get(m, RF_M_STARTED),
                     rf_metrics_get(m, RF_M_COMPLETED) + rf_metrics_get(m, RF_M_CANCELLED));
    assert_true(rf_metrics_get(m, RF_M_STARTED) <= n_asked);
    close_server(&t);
}

/* ---- the end ---- */

/* Stopping: not ready, nothing new is taken, what was accepted is finished. */
static void test_drain(void **state) {
    (void)state;
    under_test t = open_usual(2);
    int fd = rf_test_connect(t.url);
    rf_test_request(fd, "POST", "/generate", "",
                    "{\"prompt\":\"Once\",\"max_tokens\":200,\"ignore_eos\":true,\"stream\":true}");
    wait_for_running(&t, 1, 0);
    rf_server_drain(t.server);
    rf_test_reply r = rf_test_ask(t.url, "GET", "/ready", "", NULL);
    assert_int_equal(r.status, 503);
    rf_test_reply_free(&r);
    r = rf_test_ask(t.url, "GET", "/live", "", NULL);
    assert_int_equal(r.status, 200);
    rf_test_reply_free(&r);
    rf_json *j = post(&t, "/generate", "{\"prompt\":\"a\"}", 503);
    assert_text(j, "error.code", "shutting_down");
    rf_json_free(j);
    rf_buf seen = {0};
    assert_true(rf_test_read_until(fd, &seen, "\"generated_tokens\":200"));
    rf_buf_free(&seen);
    close(fd);
    close_server(&t);
}

/* req: B-51: closing with work running, waiting and half sent comes to an end. */
static void test_close_while_busy(void **state) {
    (void)state;
    under_test t = open_usual(2);
    int fds[8];
    for (int i = 0; i < 8; i++) {
        fds[i] = rf_test_connect(t.url);
        if (i < 6)
            rf_test_request(fds[i], "POST", "/generate", "", i % 2 ? endless : endless_whole);
        else
            rf_test_send(fds[i], POST, sizeof POST - 1);
    }
    wait_for_running(&t, 2, 2);
    close_server(&t);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
}

/* req: B-49: an address that cannot be had is an error with a reason, not a server that is deaf. */
static void test_address(void **state) {
    (void)state;
    under_test t = open_usual(1);
    rf_server_opts o = usual_opts();
    rf_server *second;
    rf_error e = {0};
    o.address = strstr(t.url, "127");
    assert_int_equal(rf_server_open(&second, &o, &e), RF_EIO);
    assert_non_null(strstr(e.text, "Address already in use"));
    static const char *const wrong[] = {"8080",  "127.0.0.1:", ":80",
                                        "a:b:1", "unix:",      "127.0.0.1:99999"};
    for (size_t i = 0; i < RF_COUNT(wrong); i++) {
        e = (rf_error){0};
        o.address = wrong[i];
        assert_int_not_equal(rf_server_open(&second, &o, &e), RF_OK);
        assert_null(second);
        assert_true(e.text[0]);
    }
    close_server(&t);
}

static void test_unix_socket(void **state) {
    (void)state;
    rf_server_opts o = usual_opts();
    char address[200];
    snprintf(address, sizeof address, "unix:%s", rf_test_tmp("s"));
    o.address = address;
    for (int i = 0; i < 2; i++) { /* twice: the file goes at the end */
        under_test t = open_server(1, &o);
        assert_string_equal(t.url, address);
        rf_json_free(post(&t, "/generate", "{\"prompt\":\"a\",\"max_tokens\":1}", 200));
        close_server(&t);
        assert_int_not_equal(access(address + 5, F_OK), 0);
    }
}

static void test_cors(void **state) {
    (void)state;
    rf_server_opts o = usual_opts();
    static const char *const origins[] = {"https://app.example"};
    o.cors = origins;
    o.n_cors = 1;
    under_test t = open_server(1, &o);
    char value[100];
    rf_test_reply r =
        rf_test_ask(t.url, "OPTIONS", "/generate", "Origin: https://app.example\r\n", NULL);
    assert_int_equal(r.status, 204);
    assert_string_equal(rf_test_header(&r, "Access-Control-Allow-Origin", value, sizeof value),
                        origins[0]);
    rf_test_reply_free(&r);
    r = rf_test_ask(t.url, "POST", "/generate", "Origin: https://app.example\r\n",
                    "{\"prompt\":\"a\",\"max_tokens\":1}");
    assert_int_equal(r.status, 200);
    rf_test_reply_free(&r);
    r = rf_test_ask(t.url, "OPTIONS", "/generate", "Origin: https://other.example\r\n", NULL);
    assert_int_equal(r.status, 403);
    assert_null(rf_test_header(&r, "Access-Control-Allow-Origin", value, sizeof value));
    rf_test_reply_free(&r);
    close_server(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaving_while_decoding),
        cmocka_unit_test(test_leaving_early),
        cmocka_unit_test(test_smuggling),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_long_chunked_body),
        cmocka_unit_test(test_slow_request),
        cmocka_unit_test(test_half_line),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_churn),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_close_while_busy),
        cmocka_unit_test(test_address),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_cors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
