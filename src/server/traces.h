/* traces.h - what became of the latest requests: a ring for those who ask, and the way to a collector.
 *
 * Adding never waits: a full queue to the collector drops what comes, and counts it.  Thread-safe. */
#pragma once
#include "server/metrics.h"
#include "server/trace.h"

enum { RF_TRACES_KEPT = 256 };
typedef struct rf_traces rf_traces;
typedef struct rf_traces_opts {
    const char *endpoint; /* of an OTLP/HTTP collector, without /v1/traces; NULL: none */
    const char *headers;  /* for it, see rf_otlp_create; NULL: none */
    rf_metrics *metrics;
} rf_traces_opts;
RF_CHECKED rf_status rf_traces_create(rf_traces **out, const rf_traces_opts *opts, rf_error *e);
void rf_traces_add(rf_traces *all, rf_trace *t);   /* gives it its identity */
void rf_traces_print(rf_traces *all, rf_buf *out); /* a JSON array, newest first */
void rf_traces_free(rf_traces *all); /* sends what waits, for two seconds at most; NULL is fine */
