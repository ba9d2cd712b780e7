/* trace.h - what a request says about where it comes from, as text for the log.
 *
 * Two headers: traceparent (W3C Trace Context, level 1) and X-Request-Id, which proxies make.  Both are
 * a stranger's text: what is not well-formed is left out. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_TRACE_ID_CHARS = 64, RF_TRACE_CHARS = 160 };

/* " trace=TRACE-ID parent=SPAN-ID client=ID", or the parts of it that are given and well-formed.  The
 * headers may be NULL. */
void rf_trace_describe(const char *traceparent, const char *request_id, char out[RF_TRACE_CHARS]);

#ifdef __cplusplus
}
#endif
