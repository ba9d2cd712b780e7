/* fetch.h - downloading one file so that nothing is lost and nothing half-done is taken for whole.
 *
 * Bytes go to PATH.part; what an interrupted call left there is continued by the next one (RFC 9110
 * range requests, tied by If-Range to the very version that was begun, which PATH.part.tag holds).
 * Only a complete file with the right digest gets its name. */
#pragma once
#include "cli/cli.h"

typedef struct rf_fetch_opts {
    const char *url;    /* http or https */
    const char *path;   /* where the file goes */
    const char *sha256; /* 64 hex digits the file must have, or NULL: those of the header
                           X-Linked-ETag where a server sends one, else none are checked */
    const char *what;   /* for the progress bar */
} rf_fetch_opts;

/* *n_bytes: size of the file; sha256: its digest.  Retries what may pass (cuts, timeouts, 5xx) while
 * there is progress.  On failure the part is kept for the next call, except when the finished file
 * has the wrong digest. */
RF_CHECKED rf_status rf_fetch(const rf_cli *c, const rf_fetch_opts *o, uint64_t *n_bytes,
                              char sha256[65], rf_error *e);
