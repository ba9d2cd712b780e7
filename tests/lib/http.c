/* http.c - sockets and just enough of HTTP/1.1 to read our own server's answers. */
#include "lib/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/testlib.h"

int rf_test_connect(const char *url) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool is_unix = strncmp(url, "unix:", 5) == 0;
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    struct timeval limit = {.tv_sec = 300};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    int status;
    if (is_unix) {
        snprintf(un.sun_path, sizeof un.sun_path, "%s", url + 5);
        status = connect(fd, (struct sockaddr *)&un, sizeof un);
    } else {
        in.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
        status = connect(fd, (struct sockaddr *)&in, sizeof in);
    }
    if (status != 0) fail_msg("cannot connect to %s", url);
    return fd;
}

void rf_test_send(int fd, const char *bytes, size_t n) {
    while (n) {
        ssize_t done = send(fd, bytes, n, MSG_NOSIGNAL);
        if (done <= 0) return;
        bytes += done;
        n -= (size_t)done;
    }
}

void rf_test_request(int fd, const char *method, const char *path, const char *headers,
                     const char *body) {
    rf_buf text = {0};
    rf_buf_printf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s", method, path, headers);
    if (body)
        rf_buf_printf(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                      strlen(body));
    rf_buf_puts(&text, "\r\n");
    if (body) rf_buf_puts(&text, body);
    assert_false(text.failed);
    rf_test_send(fd, text.p, text.len);
    rf_buf_free(&text);
}

/* n more bytes into b (n 0: as many as there are).  False: the connection ended. */
static bool read_more(int fd, rf_buf *b, size_t n) {
    char bytes[16384];
    size_t want = n && n < sizeof bytes ? n : sizeof bytes;
    ssize_t got = recv(fd, bytes, want, 0);
    if (got < 0 && errno == EAGAIN) fail_msg("nothing came for 300 s; so far: %.300s", b->p);
    if (got <= 0) return false;
    rf_buf_put(b, bytes, (size_t)got);
    return true;
}

bool rf_test_read_until(int fd, rf_buf *seen, const char *text) {
    while (!seen->len || !strstr(seen->p, text))
        if (!read_more(fd, seen, 0)) return false;
    return true;
}

static bool read_line(int fd, rf_buf *line) {
    rf_buf_clear(line);
    while (line->len < 2 || memcmp(line->p + line->len - 2, "\r\n", 2) != 0)
        if (!read_more(fd, line, 1)) return false;
    return true;
}

static bool read_exactly(int fd, rf_buf *out, size_t n) {
    for (size_t end = out->len + n; out->len < end;)
        if (!read_more(fd, out, end - out->len)) return false;
    return true;
}

static bool read_chunks(int fd, rf_buf *out) {
    rf_buf line = {0};
    bool ok = true;
    for (size_t n = 1; ok && n;) {
        ok = read_line(fd, &line);
        n = ok ? strtoul(line.p, NULL, 16) : 0;
        ok = ok && read_exactly(fd, out, n) && read_line(fd, &line);
    }
    rf_buf_free(&line);
    return ok;
}

const char *rf_test_header(const rf_test_reply *r, const char *name, char *out, size_t cap) {
    size_t n = strlen(name);
    for (const char *p = r->head.p; p && *p; p = strstr(p, "\r\n") + 2) {
        if (strncasecmp(p, name, n) != 0 || p[n] != ':') continue;
        p += n + 1 + strspn(p + n + 1, " ");
        snprintf(out, cap, "%.*s", (int)strcspn(p, "\r"), p);
        return out;
    }
    return NULL;
}

bool rf_test_read_reply(int fd, rf_test_reply *out) {
    rf_buf line = {0};
    char value[100];
    *out = (rf_test_reply){0};
    bool ok;
    do {
        ok = read_line(fd, &line);
        rf_buf_put(&out->head, line.p ? line.p : "", line.len);
    } while (ok && line.len > 2);
    rf_buf_free(&line);
    if (!ok || sscanf(out->head.p, "HTTP/1.1 %d", &out->status) != 1) return false;
    if (rf_test_header(out, "Transfer-Encoding", value, sizeof value))
        return read_chunks(fd, &out->body);
    if (!rf_test_header(out, "Content-Length", value, sizeof value)) return true;
    return read_exactly(fd, &out->body, strtoul(value, NULL, 10));
}

rf_test_reply rf_test_ask(const char *url, const char *method, const char *path,
                          const char *headers, const char *body) {
    rf_test_reply r;
    int fd = rf_test_connect(url);
    rf_test_request(fd, method, path, headers, body);
    if (!rf_test_read_reply(fd, &r)) fail_msg("%s %s: no answer", method, path);
    close(fd);
    if (!r.body.p) rf_buf_put(&r.body, "", 0);
    return r;
}

void rf_test_reply_free(rf_test_reply *r) {
    rf_buf_free(&r->head);
    rf_buf_free(&r->body);
}

void rf_test_reset(int fd) {
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}
