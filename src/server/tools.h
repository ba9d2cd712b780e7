/* tools.h - the tools of a chat request: checked, and as a schema for answers that must be calls.
 *
 * Such answers are JSON whatever the model's own notation is, because a grammar forms them: an
 * object with name and arguments, or a list of them; the format "json" reads them. */
#pragma once
#include "base/json.h"
#include "server/api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_TOOLS_MAX = 256 }; /* in a request */

/* Functions with names of their own, and parameters that are objects; false: e says which is not. */
bool rf_tools_check(const rf_json *tools, rf_api_error *e);
/* Appends the JSON Schema of what a tool_choice asks for: nothing where the model may choose.  tools:
 * checked, or NULL; parallel: a list of calls where any function will do.  False: e says why. */
bool rf_tools_put_choice(rf_buf *out, const rf_json *choice, const rf_json *tools, bool parallel,
                         rf_api_error *e);

#ifdef __cplusplus
}
#endif
