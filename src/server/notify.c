/* notify.c - tells the service manager how the server is doing, in systemd's protocol: a datagram
 * to the socket that NOTIFY_SOCKET names.  Without that variable there is nobody to tell. */
#include "server/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

void rf_notify(const char *state) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t n = path ? strlen(path) : 0;
    if (n == 0) return;
    if ((*path != '/' && *path != '@') || n >= sizeof a.sun_path) {
        rf_log_write(RF_LOG_WARN, "NOTIFY_SOCKET is '%.120s', neither a path nor @NAME", path);
        return;
    }
    memcpy(a.sun_path, path, n);
    if (*path == '@') a.sun_path[0] = 0; /* a name without a file */
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ssize_t sent = -1;
    if (fd >= 0) sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&a, size);
    if (sent < 0)
        rf_log_write(RF_LOG_WARN, "the service manager is not told %s: %s", state, strerror(errno));
    if (fd >= 0) close(fd);
}
