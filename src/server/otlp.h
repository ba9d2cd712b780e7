/* otlp.h - traces as spans to a collector: OpenTelemetry's protocol over HTTP, in JSON.
 *
 * A thread of its own sends them in batches; nobody waits for it.  A trace is four spans at most: request,
 * and in it queue, prefill and decode.  What cannot be sent within a few tries is dropped and counted. */
#pragma once
#include "server/metrics.h"
#include "server/trace.h"

typedef struct rf_otlp rf_otlp;
/* endpoint: "http://127.0.0.1:4318", copied; /v1/traces is appended.  headers: "name=value,name=value",
 * copied, or NULL; values are percent-encoded, as in the variable OTEL_EXPORTER_OTLP_HEADERS.  Not while
 * other threads start: it initializes libcurl. */
RF_CHECKED rf_status rf_otlp_create(rf_otlp **out, const char *endpoint, const char *headers,
                                    rf_metrics *metrics, rf_error *e);
void rf_otlp_add(rf_otlp *x, const rf_trace *t);
void rf_otlp_free(rf_otlp *x); /* sends what waits, for two seconds at most; NULL is fine */

/* The body of one request to the collector; returns the number of spans in it. */
size_t rf_otlp_print(const rf_trace *traces, size_t n, rf_buf *out);
