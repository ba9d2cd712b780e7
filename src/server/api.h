/* api.h - how the HTTP interface says no: one error for every route, in the shape of its API. */
#pragma once
#include "base/buf.h"
#include "server/outbox.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rf_api_style { /* whose clients read the error */
                            RF_API_OPENAI,
                            RF_API_ANTHROPIC,
} rf_api_style;
rf_api_style rf_api_style_of(rf_str path); /* of the route */
typedef struct rf_api_error {              /* start from {0}, or from {.style} */
    int status;                            /* HTTP's; 0: no error */
    const char *type;                      /* "invalid_request_error", ... static text */
    const char *code;                      /* "context_length_exceeded", ... static text, or NULL */
    char param[80];                        /* the field, "messages[2].content"; empty: none */
    char message[500];
    int retry_after; /* seconds; 0: not said */
    rf_api_style style;
} rf_api_error;

/* Fills the error and returns false, so that it can stand in a return statement.  The first one
 * wins. */
bool rf_api_fail(rf_api_error *e, int status, const char *code, const char *param, const char *fmt,
                 ...) RF_PRINTF(5, 6);
/* A failure below the interface: whose fault it was decides the status. */
bool rf_api_fail_status(rf_api_error *e, rf_status s, const char *text);
void rf_api_put_error(rf_buf *out, const rf_api_error *e); /* {"error":{...}}, in its style */
/* The whole answer. */
void rf_api_answer_error(rf_outbox *o, const rf_api_error *e);
void rf_api_answer(rf_outbox *o, int status, const char *content_type, rf_buf *body); /* freed */

#ifdef __cplusplus
}
#endif
