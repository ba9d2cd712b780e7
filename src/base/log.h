/* log.h - leveled log lines on stderr, as text or as JSON lines.  Thread-safe; one line, one write.
 *
 * ROCMFORGE_LOG=error|warn|info|debug[,json] sets level and form.  No prompt text is ever logged.
 * (rf_log is the logarithm, in fmath.h.) */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rf_log_level { RF_LOG_ERROR, RF_LOG_WARN, RF_LOG_INFO, RF_LOG_DEBUG } rf_log_level;
RF_CHECKED rf_status rf_log_configure(const char *spec, rf_error *e); /* NULL: the default, warn */
void rf_log_write(rf_log_level level, const char *fmt, ...) RF_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
