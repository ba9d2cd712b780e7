/* test_load.c - load on servers that answer garbage, cut streams, stop without saying so, or say
 * nothing: each failure is counted under its kind, nothing failed enters the figures, and the exit
 * code says so.  req: C-16 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/testlib.h"

#define STREAM "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
#define TOKEN  "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}\n\n"
#define END    "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n"
#define USAGE(n) \
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":" #n "}}\n\n"
#define DONE       "data: [DONE]\n\n"
#define NOT_FOUND  "HTTP/1.1 404 No\r\nConnection: close\r\n\r\n"
#define MODELS     "{\"data\":[{\"id\":\"m\"}]}"
#define JSON(text) "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" text

static const char *completion = "", *models = JSON(MODELS); /* set before the program runs */
static bool stalls; /* completions do not end before the client leaves */
static bool pauses; /* PAUSE_MS before each event of a completion */
enum { PAUSE_MS = 40 };
static int listener, port;
static pthread_t thread;
static char program[4200], output[20000];

static void send_all(int fd, const char *p) {
    for (size_t n = strlen(p); n > 0;) {
        ssize_t done = send(fd, p, n, MSG_NOSIGNAL);
        if (done <= 0) return; /* the client has left */
        p += done;
        n -= (size_t)done;
    }
}

static void send_slowly(int fd, const char *p) {
    for (const char *next; (next = strstr(p, "data: ")); p = next + 6) {
        char part[1000];
        snprintf(part, sizeof part, "%s%.*s", p == completion ? "" : "data: ", (int)(next - p), p);
        send_all(fd, part);
        usleep(PAUSE_MS * 1000);
    }
    send_all(fd, "data: ");
    send_all(fd, p);
}

/* Reads a request to its end: a body of the announced length, if any. */
static bool read_request(int fd, char *request, size_t cap) {
    size_t have = 0, want = SIZE_MAX;
    while (have < want && have + 1 < cap) {
        ssize_t n = recv(fd, request + have, cap - 1 - have, 0);
        if (n <= 0) return false;
        have += (size_t)n;
        request[have] = '\0';
        const char *end = strstr(request, "\r\n\r\n"),
                   *length = strstr(request, "Content-Length: ");
        if (end) want = (size_t)(end - request) + 4 + (length ? strtoul(length + 16, NULL, 10) : 0);
    }
    return true;
}

static void *serve(void *unused) {
    (void)unused;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd)) {
        char request[10000];
        if (!read_request(fd, request, sizeof request)) continue;
        bool completes = strncmp(request, "POST ", 5) == 0;
        bool lists = strncmp(request, "GET /v1/models ", 15) == 0;
        if (completes && pauses)
            send_slowly(fd, completion);
        else
            send_all(fd, completes ? completion : lists ? models : NOT_FOUND);
        if (completes && stalls) (void)!recv(fd, request, sizeof request, 0);
        shutdown(fd, SHUT_WR);
    }
    return NULL;
}

static int start_server(void **state) {
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(listen(listener, 16), 0);
    port = ntohs(address.sin_port);
    return pthread_create(&thread, NULL, serve, NULL);
}

static int stop_server(void **state) {
    (void)state;
    shutdown(listener, SHUT_RDWR);
    close(listener);
    return pthread_join(thread, NULL);
}

/* Runs `bench serve` on the server; its output with that of stderr in output, its exit code. */
static int bench(const char *more) {
    char command[5000];
    snprintf(command, sizeof command,
             "'%s' bench serve --url http://127.0.0.1:%d --requests 3 --warmup 0 -p 6 -n 2 "
             "--spread 0 %s 2>&1 </dev/null",
             program, port, more);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    output[fread(output, 1, sizeof output - 1, f)] = '\0';
    int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void says(const char *text) {
    if (!strstr(output, text)) fail_msg("'%s' is not in: %s", text, output);
}

/* All three requests fail, for this reason. */
static void fails(const char *answer, const char *kind, const char *example) {
    char text[100];
    completion = answer;
    assert_int_equal(bench("--json"), 1);
    says("\"completed\":0,\"failed\":3,");
    says("\"output_tokens\":0,");
    says("\"ttft_ms\":{\"n\":0,");
    says("\"itl_ms\":{\"n\":0,");
    snprintf(text, sizeof text, "\"errors\":[{\"kind\":\"%s\",\"count\":3,\"example\":\"", kind);
    says(text);
    says(example);
}

static void test_good(void **state) {
    (void)state;
    completion = STREAM ": ping\n\n" TOKEN TOKEN END USAGE(2) DONE;
    assert_int_equal(bench("--json"), 0);
    says("\"completed\":3,\"failed\":0,\"cancelled\":0,\"other_length\":0,\"prompt_tokens\":15,");
    says("\"output_tokens\":6,");
    says("\"prompts\":\"words\""); /* no vocabulary is known */
    says("\"ttft_ms\":{\"n\":3,");
    says("\"itl_ms\":{\"n\":3,");
    completion = STREAM TOKEN TOKEN TOKEN END DONE; /* no usage: events count */
    assert_int_equal(bench("--json"), 0);
    says("\"other_length\":3,\"prompt_tokens\":0,");
    says("\"output_tokens\":9,");
    says("\"itl_ms\":{\"n\":6,");
}

/* The least of these times in the JSON. */
static double least(const char *times) {
    const char *at = strstr(output, times), *min = at ? strstr(at, "\"min\":") : NULL;
    assert_non_null(min);
    return strtod(min + 6, NULL);
}

/* Times are not shorter than what the server took; how much longer the machine decides. */
static void test_times(void **state) {
    (void)state;
    pauses = true;
    completion = STREAM TOKEN TOKEN END USAGE(2) DONE;
    assert_int_equal(bench("--json"), 0);
    pauses = false;
    assert_true(least("\"ttft_ms\"") >= PAUSE_MS);
    assert_true(least("\"e2e_ms\"") >= 5 * PAUSE_MS);
    assert_true(least("\"ttft_ms\"") < least("\"e2e_ms\""));
    says("\"itl_ms\":{\"n\":3,");
    says("\"tpot_ms\":{\"n\":3,");
}

/* A client that leaves does so when it has read as much as it wants. */
static void test_leaving(void **state) {
    (void)state;
    stalls = true; /* [DONE] never comes, and the client does not wait for it */
    completion = STREAM TOKEN;
    assert_int_equal(bench("--json --cancel 1 --timeout 20"), 0);
    stalls = false;
    says("\"completed\":0,\"failed\":0,\"cancelled\":3,");
    says("\"errors\":[]");
    completion = "HTTP/1.1 503 No\r\nConnection: close\r\n\r\nbusy"; /* a refusal is one */
    assert_int_equal(bench("--json --cancel 1"), 1);
    says("\"completed\":0,\"failed\":3,\"cancelled\":0,");
}

static void test_streams_that_fail(void **state) {
    (void)state;
    fails(STREAM TOKEN TOKEN, "cut off", "the stream ended without [DONE]");
    fails(STREAM TOKEN END USAGE(2), "cut off", "without [DONE]");
    fails(STREAM TOKEN END DONE "data: {", "cut off", "");
    fails(STREAM END DONE, "empty answer", "the stream has no token");
    fails(STREAM DONE, "empty answer", "");
    fails(STREAM "data: {\"choi\n\n", "malformed stream", "JSON line 1");
    fails(STREAM "data: 7\n\n", "malformed stream", "an event without choices");
    fails(STREAM "data: {\"choices\":7}\n\n", "malformed stream", "an event without choices");
    fails(STREAM "data: {}\n\n", "malformed stream", "an event without choices");
    fails(STREAM TOKEN DONE TOKEN, "malformed stream", "an event after [DONE]");
    fails(STREAM TOKEN "data: {\"error\":{\"message\":\"on fire\"}}\n\n", "error event", "on fire");
}

static void test_answers_that_fail(void **state) {
    (void)state;
    fails("HTTP/1.1 503 No\r\nConnection: close\r\n\r\nbusy", "HTTP 503", "busy");
    fails("HTTP/1.1 503 No\r\nConnection: close\r\n\r\n", "HTTP 503", "(no body)");
    fails("HTTP/1.1 302 Go\r\nLocation: /x\r\nConnection: close\r\n\r\n", "HTTP 302", "");
    fails(JSON("<html>hello</html>"), "cut off", "without [DONE]");
    fails("\001\002\003 garbage\r\n\r\n", "no answer", "");
    fails("", "no answer", "");
    fails("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" TOKEN, "cut off", "");
}

static void test_silence(void **state) {
    (void)state;
    stalls = true;
    completion = STREAM TOKEN;
    assert_int_equal(bench("--timeout 1"), 1);
    says("3 failed: timeout (");
    says("| requests completed | 0 |");
    stalls = false;
}

static void test_no_api(void **state) {
    (void)state;
    static const char *const answers[] = {
        JSON("garbage"),
        JSON("[]"),
        JSON("{\"data\":[]}"),
        JSON("{\"data\":[7]}"),
        JSON("{\"data\":[{\"id\":\"\"}]}"),
        "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        models = answers[i];
        assert_int_equal(bench(""), 4);
        says("/v1/models: expected a list of models, got status ");
    }
    models = "\001\002 garbage\r\n\r\n";
    assert_int_equal(bench(""), 3);
    says("/v1/models: ");
    models = JSON("garbage"); /* a name makes the list needless */
    completion = STREAM TOKEN TOKEN END USAGE(2) DONE;
    assert_int_equal(bench("--model named"), 0);
    says("model named, prompts of words, 3 requests after 0 to warm up");
    models = JSON(MODELS);
}

int main(int argc, char **argv) {
    (void)argc;
    snprintf(program, sizeof program, "%s", argv[0]);
    char *slash = strrchr(program, '/');
    snprintf(slash, sizeof program - (size_t)(slash - program), "/../rocmforge");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_streams_that_fail),
        cmocka_unit_test(test_answers_that_fail),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_no_api),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
