/* test_pull.c - fetching models from a server on the loopback interface that cuts connections, ignores
 * ranges, changes its file, sends another one, or refuses: the file is whole or it is not there, and
 * what was fetched is not fetched again.  req: C-16 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/os.h"
#include "lib/testlib.h"

/* How the server misbehaves; set by a test before it runs the program. */
typedef struct server {
    int listener, port;
    pthread_t thread;
    pthread_mutex_t lock; /* over all below */
    const uint8_t *body;
    size_t size;
    size_t cut;         /* bytes of a body sent before the connection is closed; 0: never */
    int n_cuts;         /* so many times; -1: always */
    int n_failures;     /* answers of 503 first */
    bool ignore_ranges; /* always 200 and everything */
    const char *etag, *linked, *redirect;
    int n_requests;
    size_t bytes_sent, last_from;
} server;

static server s;
static char dir[200], program[4200];
static char output[20000];

static void send_all(int fd, const void *p, size_t n) {
    const char *at = p;
    while (n > 0) {
        ssize_t done = send(fd, at, n, MSG_NOSIGNAL);
        if (done <= 0) return; /* the client has left */
        at += done;
        n -= (size_t)done;
    }
}

static void send_body(int fd, size_t from, bool ranged) {
    char head[600];
    int n = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nETag: %s\r\n",
                     ranged ? "206 Partial Content" : "200 OK", s.size - from, s.etag);
    if (ranged)
        n += snprintf(head + n, sizeof head - (size_t)n, "Content-Range: bytes %zu-%zu/%zu\r\n",
                      from, s.size - 1, s.size);
    if (s.linked)
        n += snprintf(head + n, sizeof head - (size_t)n, "X-Linked-Etag: \"%s\"\r\n", s.linked);
    n += snprintf(head + n, sizeof head - (size_t)n, "Connection: close\r\n\r\n");
    send_all(fd, head, (size_t)n);
    size_t len = s.size - from;
    if (s.cut > 0 && s.n_cuts != 0 && s.cut < len) {
        len = s.cut;
        if (s.n_cuts > 0) s.n_cuts--;
    }
    send_all(fd, s.body + from, len);
    s.bytes_sent += len;
    s.last_from = from;
}

static void answer(int fd, const char *request) {
    const char *range = strstr(request, "Range: bytes="), *tag = strstr(request, "If-Range: ");
    size_t from = range ? strtoul(range + 13, NULL, 10) : 0;
    bool same = tag && strncmp(tag + 10, s.etag, strlen(s.etag)) == 0;
    char head[300];
    s.n_requests++;
    if (s.n_failures > 0) {
        s.n_failures--;
        snprintf(head, sizeof head, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
        send_all(fd, head, strlen(head));
    } else if (strstr(request, "GET /missing")) {
        snprintf(head, sizeof head, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        send_all(fd, head, strlen(head));
    } else if (s.redirect && strstr(request, "GET /moved")) {
        snprintf(head, sizeof head,
                 "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", s.redirect);
        send_all(fd, head, strlen(head));
    } else if (range && same && from >= s.size && !s.ignore_ranges) {
        snprintf(head, sizeof head,
                 "HTTP/1.1 416 No\r\nContent-Range: bytes */%zu\r\nContent-Length: 0\r\n\r\n",
                 s.size);
        send_all(fd, head, strlen(head));
    } else {
        bool ranged = range && same && !s.ignore_ranges;
        send_body(fd, ranged ? from : 0, ranged);
    }
}

static void *serve(void *unused) {
    (void)unused;
    for (;;) {
        int fd = accept(s.listener, NULL, NULL);
        if (fd < 0) return NULL;
        char request[4096];
        size_t n = 0;
        ssize_t got;
        while (n < sizeof request - 1 &&
               (got = recv(fd, request + n, sizeof request - 1 - n, 0)) > 0) {
            n += (size_t)got;
            request[n] = '\0';
            if (strstr(request, "\r\n\r\n")) break;
        }
        request[n] = '\0';
        pthread_mutex_lock(&s.lock);
        bool stop = strncmp(request, "STOP", 4) == 0;
        if (!stop) answer(fd, request);
        pthread_mutex_unlock(&s.lock);
        close(fd);
        if (stop) return NULL;
    }
}

static int start_server(void **state) {
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    pthread_mutex_init(&s.lock, NULL);
    s.listener = socket(AF_INET, SOCK_STREAM, 0);
    if (s.listener < 0 || bind(s.listener, (struct sockaddr *)&at, sizeof at) != 0) return -1;
    if (listen(s.listener, 16) != 0) return -1;
    if (getsockname(s.listener, (struct sockaddr *)&at, &len) != 0) return -1;
    s.port = ntohs(at.sin_port);
    return pthread_create(&s.thread, NULL, serve, NULL);
}

static int stop_server(void **state) {
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)s.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) != 0) return -1;
    send_all(fd, "STOP\r\n\r\n", 8);
    pthread_join(s.thread, NULL);
    close(fd);
    close(s.listener);
    return 0;
}

/* A new folder, and a server that behaves, with a real model to give. */
static int fresh(void **state) {
    (void)state;
    static rf_filemap model;
    rf_error e = {0};
    if (!model.data && rf_filemap_open(&model, RF_TEST_DATA_DIR "/models/qwen3.gguf", &e) != RF_OK)
        return -1;
    snprintf(dir, sizeof dir, "/tmp/rocmforge-test-pull-XXXXXX");
    pthread_mutex_lock(&s.lock);
    s.body = model.data;
    s.size = model.size;
    s.cut = s.bytes_sent = s.last_from = 0;
    s.n_cuts = -1;
    s.n_failures = s.n_requests = 0;
    s.ignore_ranges = false;
    s.etag = "\"one\"";
    s.linked = s.redirect = NULL;
    pthread_mutex_unlock(&s.lock);
    return mkdtemp(dir) ? 0 : -1;
}

static int clean(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* Runs `pull PATH MORE` against the server; everything it printed is in output. */
static int pull(const char *path, const char *more) {
    char command[9000];
    snprintf(command, sizeof command,
             "env -u ROCMFORGE_MODELS XDG_CONFIG_HOME=/nonexistent no_proxy='*' '%s' pull "
             "'http://127.0.0.1:%d/%s' --models-dir '%s' %s 2>&1 </dev/null",
             program, s.port, path, dir, more);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(output, 1, sizeof output - 1, f);
    output[n] = '\0';
    int code = pclose(f);
    assert_true(WIFEXITED(code));
    return WEXITSTATUS(code);
}

static void says(const char *text) {
    if (!strstr(output, text)) fail_msg("'%s' is not in: %s", text, output);
}

static bool exists(const char *name) {
    char path[700];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* The file is there, byte for byte, and nothing else is. */
static void is_whole(const char *name) {
    char path[700], part[420];
    rf_filemap m;
    rf_error e = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (rf_filemap_open(&m, path, &e) != RF_OK) fail_msg("%s; %s", e.text, output);
    assert_int_equal(m.size, s.size);
    assert_memory_equal(m.data, s.body, s.size);
    rf_filemap_close(&m);
    snprintf(part, sizeof part, "%s.part", name);
    assert_false(exists(part));
    snprintf(part, sizeof part, "%s.part.tag", name);
    assert_false(exists(part));
}

static void digest(char hex[RF_SHA256_HEX]) {
    rf_sha256 *h;
    assert_int_equal(rf_sha256_create(&h), RF_OK);
    rf_sha256_add(h, s.body, s.size);
    rf_sha256_hex(h, hex);
    rf_sha256_free(h);
}

static void test_whole(void **state) {
    (void)state;
    char more[100] = "--sha256 ";
    digest(more + strlen(more));
    assert_int_equal(pull("some/model.gguf?download=true", more), 0);
    is_whole("model.gguf");
    says(more + strlen("--sha256 "));
    assert_int_equal(s.n_requests, 1);
    assert_int_equal(pull("some/model.gguf", ""), 2); /* never twice */
    says("exists already");
    assert_int_equal(s.n_requests, 1);
}

static void test_cuts_are_continued(void **state) {
    (void)state;
    s.cut = s.size / 7 + 1;
    assert_int_equal(pull("model.gguf", ""), 0);
    is_whole("model.gguf");
    assert_int_equal(s.n_requests, 7);
    assert_int_equal(s.bytes_sent, s.size); /* no byte twice */
}

static void test_the_next_call_continues(void **state) {
    (void)state;
    s.cut = s.size / 2;
    s.n_cuts = 1;
    s.n_failures = 0;
    s.redirect = NULL;
    /* the rest of the first call meets a server that only refuses */
    char path[400];
    snprintf(path, sizeof path, "%s/model.gguf.part", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(s.body, 1, 1000, f), 1000);
    fclose(f);
    snprintf(path, sizeof path, "%s/model.gguf.part.tag", dir);
    f = fopen(path, "wb");
    assert_non_null(f);
    fputs(s.etag, f);
    fclose(f);
    s.n_failures = 100;
    assert_int_equal(pull("model.gguf", ""), 3);
    says("503");
    assert_true(exists("model.gguf.part"));
    s.n_failures = 0;
    s.n_cuts = 0;
    assert_int_equal(pull("model.gguf", ""), 0);
    is_whole("model.gguf");
    assert_int_equal(s.last_from, 1000);
    assert_int_equal(s.bytes_sent, s.size - 1000);
}

static void test_failures_that_pass(void **state) {
    (void)state;
    s.n_failures = 2;
    assert_int_equal(pull("model.gguf", ""), 0);
    is_whole("model.gguf");
}

static void test_server_without_ranges(void **state) {
    (void)state;
    s.cut = s.size - 10;
    s.n_cuts = 2;
    s.ignore_ranges = true;
    assert_int_equal(pull("model.gguf", ""), 0);
    is_whole("model.gguf");
}

/* A part of another version is not continued: the whole file comes anew. */
static void test_changed_file(void **state) {
    (void)state;
    char path[400];
    snprintf(path, sizeof path, "%s/model.gguf.part", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < 5000; i++)
        putc('x', f);
    fclose(f);
    snprintf(path, sizeof path, "%s/model.gguf.part.tag", dir);
    f = fopen(path, "wb");
    assert_non_null(f);
    fputs("\"another\"", f);
    fclose(f);
    assert_int_equal(pull("model.gguf", ""), 0);
    is_whole("model.gguf");
}

static void test_complete_part(void **state) {
    (void)state;
    char path[400];
    snprintf(path, sizeof path, "%s/model.gguf.part", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(s.body, 1, s.size, f), s.size);
    fclose(f);
    snprintf(path, sizeof path, "%s/model.gguf.part.tag", dir);
    f = fopen(path, "wb");
    assert_non_null(f);
    fputs(s.etag, f);
    fclose(f);
    assert_int_equal(pull("model.gguf", ""), 0);
    is_whole("model.gguf");
    assert_int_equal(s.bytes_sent, 0);
}

static void test_wrong_digest(void **state) {
    (void)state;
    static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    char more[100];
    snprintf(more, sizeof more, "--sha256 %s", zeros);
    assert_int_equal(pull("model.gguf", more), 4);
    says("thrown away");
    assert_false(exists("model.gguf"));
    assert_false(exists("model.gguf.part"));
    s.linked = zeros; /* the server itself says what it should have been */
    assert_int_equal(pull("model.gguf", ""), 4);
    assert_false(exists("model.gguf"));
    char right[RF_SHA256_HEX];
    digest(right);
    s.linked = right;
    assert_int_equal(pull("model.gguf", ""), 0);
    is_whole("model.gguf");
}

static void test_no_model(void **state) {
    (void)state;
    s.body = (const uint8_t *)"<html>please log in</html>";
    s.size = strlen((const char *)s.body);
    assert_int_equal(pull("model.gguf", ""), 4);
    says("no GGUF file");
    assert_false(exists("model.gguf"));
}

static void test_refusals(void **state) {
    (void)state;
    assert_int_equal(pull("missing.gguf", ""), 3);
    says("404");
    says("there is no such file");
    assert_false(exists("missing.gguf.part"));
    s.redirect = "file:///etc/passwd";
    assert_int_equal(pull("moved.gguf", ""), 3);
    s.redirect = "/moved.gguf";
    assert_int_equal(pull("moved.gguf", ""), 3);
    s.redirect = "/elsewhere/x.gguf";
    assert_int_equal(pull("moved.gguf", ""), 0);
    is_whole("moved.gguf");
    assert_int_equal(pull("", ""), 2);
    says("--output");
    assert_int_equal(pull("a/..", ""), 2);
    assert_int_equal(pull("model.gguf", "--sha256 12"), 2);
    says("64 hexadecimal digits");
}

/* The first part names how many there are; the others come from beside it. */
static void test_split_model(void **state) {
    (void)state;
    assert_int_equal(pull("m-00001-of-00003.gguf", ""), 0);
    is_whole("m-00001-of-00003.gguf");
    is_whole("m-00002-of-00003.gguf");
    is_whole("m-00003-of-00003.gguf");
    assert_int_equal(s.n_requests, 3);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, clean)

int main(int argc, char **argv) {
    (void)argc;
    snprintf(program, sizeof program, "%s", argv[0]);
    char *slash = strrchr(program, '/');
    snprintf(slash, sizeof program - (size_t)(slash - program), "/../rocmforge");
    const struct CMUnitTest tests[] = {
        TEST(test_whole),
        TEST(test_cuts_are_continued),
        TEST(test_the_next_call_continues),
        TEST(test_failures_that_pass),
        TEST(test_server_without_ranges),
        TEST(test_changed_file),
        TEST(test_complete_part),
        TEST(test_wrong_digest),
        TEST(test_no_model),
        TEST(test_refusals),
        TEST(test_split_model),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
