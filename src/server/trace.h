/* trace.h - where a request comes from and what became of it: identities, times and counts, no text.
 *
 * Two headers say where: traceparent (W3C Trace Context, level 1) and X-Request-Id, which proxies make.
 * Both are a stranger's text: what is not well-formed is left out. */
#pragma once
#include "base/buf.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_TRACE_ID_CHARS = 64, RF_TRACE_CHARS = 160 };

typedef struct rf_trace_context {
    char trace[33]; /* of 16 bytes, in hexadecimal digits; empty: the request names none */
    char parent[17];
    bool is_sampled; /* the caller records it */
} rf_trace_context;
/* traceparent may be NULL. */
void rf_trace_read(const char *traceparent, rf_trace_context *out);
/* " trace=TRACE-ID parent=SPAN-ID client=ID", or the parts of it that are given and well-formed, for
 * the log.  The headers may be NULL. */
void rf_trace_describe(const char *traceparent, const char *request_id, char out[RF_TRACE_CHARS]);

/* A request for generation that is over.  queue and prefill are those of its first answer; decode goes
 * on until the end of the last. */
typedef struct rf_trace {
    char id[48], model[80];
    const char *state; /* "finished", "failed", "cancelled": static text */
    rf_trace_context from;
    char trace[33], span[17]; /* its own: the trace of its caller, or a new one */
    uint64_t start_us;        /* since 1970 */
    uint64_t total_us, queue_us, prefill_us, decode_us; /* 0: did not come to that */
    uint32_t n_prompt, n_cached, n_generated, n_answers;
} rf_trace;
/* Sets trace and span. */
void rf_trace_identify(rf_trace *t);
void rf_trace_print(const rf_trace *t, rf_buf *out); /* as a JSON object */

#ifdef __cplusplus
}
#endif
