/* Whom the server answers and how long it listens: names in the Host header, requests that never end,
 * what is refused before what, priorities and deadlines of requests. */
#include "server/harness.h"

/* ---- the name by which the server was found ---- */

static int status_for(const under_test *t, const char *host, char *code, size_t cap) {
    char head[300];
    int fd = rf_test_connect(t->url);
    rf_test_reply r;
    snprintf(head, sizeof head, "GET /v1/models HTTP/1.1\r\nHost: %s\r\n\r\n", host);
    rf_test_send(fd, head, strlen(head));
    assert_true(rf_test_read_reply(fd, &r));
    rf_json *j = parse(rf_buf_str(&r.body));
    rf_str said = rf_json_str(at(j, "error.message"));
    snprintf(code, cap, "%.*s", (int)said.len, said.p ? said.p : "");
    int status = r.status;
    rf_json_free(j);
    rf_test_reply_free(&r);
    close(fd);
    return status;
}

/* A page whose name was made to stand for this machine (DNS rebinding) gets nothing; names of this
 * machine and those that were allowed do, with any port. */
static void test_host(void **state) {
    (void)state;
    static const char *const allowed[] = {"llm.example.com"};
    static const struct {
        const char *host;
        int status;
    } cases[] = {
        {"localhost", 200},
        {"LOCALHOST:1", 200},
        {"127.0.0.1", 200},
        {"127.0.0.1:8080", 200},
        {"[::1]", 200},
        {"[::1]:8080", 200},
        {"llm.example.com", 200},
        {"LLM.example.com:443", 200},
        {"evil.example", 403},
        {"evil.example:8080", 403},
        {"localhost.evil.example", 403},
        {"xlocalhost", 403},
        {"127.0.0.1.evil.example", 403},
        {"[::1].evil.example", 403},
        {"127.0.0.2", 403},
        {"", 403},
        {":80", 403},
    };
    rf_server_opts o = usual_opts();
    o.hosts = allowed;
    o.n_hosts = 1;
    under_test t = open_server(1, &o);
    char said[600];
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        int status = status_for(&t, cases[i].host, said, sizeof said);
        if (status != cases[i].status) fail_msg("'%s': %d %s", cases[i].host, status, said);
        if (status == 403) assert_non_null(strstr(said, "--allowed-host"));
    }
    close_server(&t);
}

/* Keys protect by themselves: the name does not matter then.  sums: of alice-key. */
static void test_host_with_keys(void **state) {
    (void)state;
    const char *path = rf_test_tmp("keys");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("72ee9d4355ccb9d3a4c9dbf37382e38e75c1b1a225b5bd1f729ee91bbda30c20 user alice\n", f);
    fclose(f);
    rf_server_opts o = usual_opts();
    o.keys_file = path;
    under_test t = open_server(1, &o);
    char said[600];
    assert_int_equal(status_for(&t, "llm.example.com", said, sizeof said), 401);
    close_server(&t);
}

/* ---- requests that never end ---- */

static int ask_health(int fd) {
    rf_test_reply r;
    rf_test_request(fd, "GET", "/health", "", NULL);
    if (!rf_test_read_reply(fd, &r)) return 0;
    int status = r.status;
    rf_test_reply_free(&r);
    return status;
}

/* A byte now and then, for ever, of a first line and of headers, on a fresh connection and on one that
 * was used: the time for a request goes on from its first byte.  A connection that says nothing is
 * not in a hurry. */
static void test_endless_requests(void **state) {
    (void)state;
    rf_server_opts o = usual_opts();
    o.request_seconds = 1;
    under_test t = open_server(1, &o);
    static const struct {
        bool used;
        const char *head, *drip;
    } cases[] = {
        {false, "GET /", "a"},
        {true, "GET /", "a"},
        {false, "GET /health HTTP/1.1\r\nHost: localhost\r\n", "A: b\r\n"},
        {true, "GET /health HTTP/1.1\r\nHost: localhost\r\n", "A: b\r\n"},
    };
    int fds[RF_COUNT(cases)], quiet = rf_test_connect(t.url);
    assert_int_equal(ask_health(quiet), 200);
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        fds[i] = rf_test_connect(t.url);
        if (cases[i].used) assert_int_equal(ask_health(fds[i]), 200);
    }
    usleep(20000); /* the used ones are idle now */
    for (size_t i = 0; i < RF_COUNT(cases); i++)
        rf_test_send(fds[i], cases[i].head, strlen(cases[i].head));
    uint64_t start = rf_time_us();
    for (size_t k = 0; rf_http_n_connections(t.server->http) > 1; k++) {
        for (size_t i = 0; i < RF_COUNT(cases); i++)
            rf_test_send(fds[i], &cases[i].drip[k % strlen(cases[i].drip)], 1);
        usleep(20000);
        assert_true(rf_time_us() - start < 60000000);
    }
    assert_int_equal(ask_health(quiet), 200);
    for (size_t i = 0; i < RF_COUNT(cases); i++)
        close(fds[i]);
    close(quiet);
    close_server(&t);
}

/* ---- what is refused before what ---- */

#define LONG "\"max_tokens\":900,\"ignore_eos\":true"

/* A request that is wrong is told so, also when there is no room for a right one. */
static void test_wrong_beats_full(void **state) {
    (void)state;
    rf_server_opts o = usual_opts();
    o.max_waiting = 0;
    under_test t = open_server(1, &o);
    int fd = rf_test_connect(t.url);
    rf_test_request(fd, "POST", "/generate", "", "{\"prompt\":\"Once\"," LONG "}");
    wait_for_running(&t, 1, 0);
    rf_json *j = post(&t, "/generate", "{\"prompt\":\"a\"}", 429);
    assert_text(j, "error.code", "queue_full");
    rf_json_free(j);
    uint64_t rejected = rf_metrics_get(&t.server->metrics, RF_M_REJECTED);
    rf_json_free(post(&t, "/generate", "{\"prompt\":[99999]}", 400));
    rf_json_free(post(&t, "/generate", "{\"prompt\":5}", 400));
    rf_buf body = {0};
    rf_buf_puts(&body, "{\"prompt\":\"");
    for (int i = 0; i < 3000; i++)
        rf_buf_puts(&body, "fox ");
    rf_buf_puts(&body, "\"}");
    j = post(&t, "/generate", body.p, 400);
    assert_text(j, "error.code", "context_length_exceeded");
    rf_json_free(j);
    rf_buf_free(&body);
    assert_int_equal(rf_metrics_get(&t.server->metrics, RF_M_REJECTED), rejected);
    rf_server_drain(t.server);
    rf_json_free(post(&t, "/generate", "{\"prompt\":[99999]}", 400));
    rf_json_free(post(&t, "/generate", "{\"prompt\":\"a\"}", 503));
    close(fd);
    wait_until_idle(&t);
    close_server(&t);
}

/* ---- order and time ---- */

/* The one that came later, with the lower number, starts first. */
static void test_priority(void **state) {
    (void)state;
    under_test t = open_usual(1);
    int fds[3];
    static const char *const bodies[] = {
        "{\"prompt\":\"Once\"," LONG "}",
        "{\"prompt\":\"Once\",\"priority\":5," LONG ",\"stream\":true}",
        "{\"prompt\":\"Once\",\"priority\":-5," LONG ",\"stream\":true}",
    };
    for (uint32_t i = 0; i < 3; i++) {
        fds[i] = rf_test_connect(t.url);
        rf_test_request(fds[i], "POST", "/generate", "", bodies[i]);
        wait_for_running(&t, 1, i);
    }
    close(fds[0]); /* makes room for one */
    rf_buf seen = {0};
    assert_true(rf_test_read_until(fds[2], &seen, "\"token\""));
    rf_test_reply r = rf_test_ask(t.url, "GET", "/slots", "", NULL);
    rf_json *j = parse(rf_buf_str(&r.body));
    assert_int_equal(rf_json_int(at(j, "running")), 1);
    assert_int_equal(rf_json_int(at(j, "waiting")), 1);
    rf_json_free(j);
    rf_test_reply_free(&r);
    close(fds[2]);
    rf_buf_clear(&seen);
    assert_true(rf_test_read_until(fds[1], &seen, "\"token\""));
    rf_buf_free(&seen);
    close(fds[1]);
    wait_until_idle(&t);
    rf_json_free(post(&t, "/generate", "{\"prompt\":\"a\",\"priority\":101}", 400));
    rf_json_free(post(&t, "/generate", "{\"prompt\":\"a\",\"priority\":\"high\"}", 400));
    close_server(&t);
}

/* An answer whose time is over ends with what there is, also when it never began. */
static void test_timeout(void **state) {
    (void)state;
    under_test t = open_usual(1);
    rf_json *j = post(&t, "/generate", "{\"prompt\":\"Once\",\"timeout_ms\":1," LONG "}", 200);
    assert_text(j, "finish_reason", "length");
    assert_true(rf_json_int(at(j, "generated_tokens")) < 900);
    rf_json_free(j);
    int fd = rf_test_connect(t.url);
    rf_test_request(fd, "POST", "/generate", "", "{\"prompt\":\"Once\"," LONG "}");
    wait_for_running(&t, 1, 0);
    j = post(&t, "/generate", "{\"prompt\":\"Once\",\"timeout_ms\":1," LONG "}", 200);
    assert_text(j, "finish_reason", "length");
    assert_int_equal(rf_json_int(at(j, "generated_tokens")), 0);
    rf_json_free(j);
    close(fd);
    rf_json_free(post(&t, "/generate", "{\"prompt\":\"a\",\"timeout_ms\":-1}", 400));
    wait_until_idle(&t);
    close_server(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_host_with_keys),
        cmocka_unit_test(test_endless_requests),
        cmocka_unit_test(test_wrong_beats_full),
        cmocka_unit_test(test_priority),
        cmocka_unit_test(test_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
