/* listen.c - TCP and unix sockets that listen. */
#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static rf_status fail(rf_error *e, const char *what, const char *address) {
    return rf_fail(e, RF_EIO, "%s: cannot %s: %s", address, what, strerror(errno));
}

/* A socket that nobody listens on any more is in the way and goes; any other file stays. */
static rf_status remove_stale(const struct sockaddr_un *a, rf_error *e) {
    struct stat about;
    if (lstat(a->sun_path, &about) != 0)
        return RF_OK; /* nothing there: bind says what else it is */
    if (!S_ISSOCK(about.st_mode))
        return rf_fail(e, RF_EIO, "%s: cannot listen: there is a file that is no socket",
                       a->sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return fail(e, "make a socket", a->sun_path);
    bool alive = connect(fd, (const struct sockaddr *)a, sizeof *a) == 0;
    bool stale = !alive && errno == ECONNREFUSED;
    close(fd);
    if (alive) return rf_fail(e, RF_EIO, "%s: another program listens there", a->sun_path);
    if (stale && unlink(a->sun_path) != 0) return fail(e, "remove the old socket", a->sun_path);
    return RF_OK;
}

static rf_status listen_unix(rf_listener *l, const char *path, rf_error *e) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof a.sun_path)
        return rf_fail(e, RF_EARG, "the path of a unix socket has 1 to %zu bytes, not %zu",
                       sizeof a.sun_path - 1, n);
    memcpy(a.sun_path, path, n + 1);
    RF_TRY(remove_stale(&a, e));
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0 || bind(l->fd, (const struct sockaddr *)&a, sizeof a) != 0)
        return fail(e, "listen", path);
    memcpy(l->path, path, n + 1);
    if (listen(l->fd, BACKLOG) != 0) return fail(e, "listen", path);
    snprintf(l->text, sizeof l->text, "unix:%s", path);
    l->is_loopback = true;
    return RF_OK;
}

static bool is_loopback(const struct sockaddr *a) {
    if (a->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, a, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    struct sockaddr_in6 in6;
    memcpy(&in6, a, sizeof in6);
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

static rf_status bind_to(rf_listener *l, const struct addrinfo *a, const char *address,
                         rf_error *e) {
    l->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0) return fail(e, "make a socket", address);
    const int yes = 1;
    setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(l->fd, a->ai_addr, a->ai_addrlen) != 0 || listen(l->fd, BACKLOG) != 0)
        return fail(e, "listen", address);
    struct sockaddr_storage real = {0};
    socklen_t size = sizeof real;
    char host[INET6_ADDRSTRLEN + 20], port[16];
    if (getsockname(l->fd, (struct sockaddr *)&real, &size) != 0)
        return fail(e, "learn the port", address);
    if (getnameinfo((struct sockaddr *)&real, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return rf_fail(e, RF_EIO, "%s: cannot print the address", address);
    snprintf(l->text, sizeof l->text, a->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    l->is_loopback = is_loopback(a->ai_addr);
    return RF_OK;
}

static rf_status listen_tcp(rf_listener *l, const char *address, rf_error *e) {
    char host[256];
    const char *colon = strrchr(address, ':');
    size_t n = colon ? (size_t)(colon - address) : 0;
    size_t n_port = colon ? strlen(colon + 1) : 0;
    bool port_ok = n_port > 0 && n_port <= 5 && strspn(colon + 1, "0123456789") == n_port &&
                   strtol(colon + 1, NULL, 10) <= 65535;
    bool bracketed = n >= 2 && address[0] == '[' && address[n - 1] == ']';
    if (!port_ok || n >= sizeof host || n == 0 || (!bracketed && memchr(address, ':', n)))
        return rf_fail(e, RF_EARG,
                       "'%.80s' is not an address to listen on; write HOST:PORT, [IPV6]:PORT or "
                       "unix:PATH, such as 127.0.0.1:8080",
                       address);
    memcpy(host, address + bracketed, n - 2 * bracketed);
    host[n - 2 * bracketed] = 0;
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM,
                                  .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(host, colon + 1, &want, &found);
    if (error != 0)
        return rf_fail(e, RF_EIO, "%s: cannot resolve: %s", address, gai_strerror(error));
    rf_status s = bind_to(l, found, address, e);
    freeaddrinfo(found);
    return s;
}

rf_status rf_listen(rf_listener *out, const char *address, rf_error *e) {
    *out = (rf_listener){.fd = -1};
    rf_status s = strncmp(address, "unix:", 5) == 0 ? listen_unix(out, address + 5, e)
                                                    : listen_tcp(out, address, e);
    if (s == RF_OK) return RF_OK;
    if (out->fd >= 0) close(out->fd);
    rf_listener_close(out);
    out->fd = -1;
    return s;
}

void rf_listener_close(rf_listener *l) {
    if (l->path[0]) unlink(l->path);
    l->path[0] = 0;
}
