/* http.h - a small HTTP client for tests: requests as raw bytes, answers read whole or piece by
 * piece.  Blocking, loopback only; a read that lasts longer than 300 s fails the test. */
#pragma once
#include "base/buf.h"

typedef struct rf_test_reply { /* free with rf_test_reply_free */
    int status;
    rf_buf head; /* status line and headers */
    rf_buf body; /* without chunk sizes */
} rf_test_reply;

int rf_test_connect(const char *url);                   /* "http://127.0.0.1:PORT" or "unix:PATH" */
void rf_test_send(int fd, const char *bytes, size_t n); /* a closed connection is not an error */
/* One whole request with a body (NULL: none) and further header lines ("A: b\r\n", may be ""). */
void rf_test_request(int fd, const char *method, const char *path, const char *headers,
                     const char *body);
/* The next answer of the connection.  False: it was closed before one was complete. */
bool rf_test_read_reply(int fd, rf_test_reply *out);
/* Raw bytes until the text occurs (true) or the connection ends (false). */
bool rf_test_read_until(int fd, rf_buf *seen, const char *text);
/* Connect, ask, read, close. */
rf_test_reply rf_test_ask(const char *url, const char *method, const char *path,
                          const char *headers, const char *body);
void rf_test_reply_free(rf_test_reply *r);
const char *rf_test_header(const rf_test_reply *r, const char *name, char *out, size_t cap);
void rf_test_reset(int fd); /* closes with RST */
