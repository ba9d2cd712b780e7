/* listen.h - an address as people write it, as a listening socket. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_listener {
    int fd;           /* -1: none */
    char text[160];   /* "127.0.0.1:8080" with the real port, or "unix:/run/rocmforge.sock" */
    char path[108];   /* of a unix socket, else empty */
    bool is_loopback; /* only this machine reaches it */
} rf_listener;
/* address: "HOST:PORT", "[IPV6]:PORT" (port 0: any free one) or "unix:PATH". */
RF_CHECKED rf_status rf_listen(rf_listener *out, const char *address, rf_error *e);
void rf_listener_close(rf_listener *l); /* removes a unix socket's file; not the socket */

#ifdef __cplusplus
}
#endif
