/* reply.h - the text of a chat answer in OpenAI's words: content, reasoning_content, tool_calls.
 *
 * How the model writes calls and reasoning is found once, from its template; each answer has a
 * parser of its own, fed by the engine's thread. */
#pragma once
#include "rocmforge.h"
#include "text/tool_parser.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_reply_format { /* start from {0} */
    const rf_tool_format *calls; /* NULL: the template knows no tools */
    const rf_reasoning_format *reasoning;
    bool calls_are_special, reasoning_is_special; /* their marks are control tokens */
    rf_buf texts;                                 /* of end tokens, one behind the other */
    rf_str *hidden;                               /* [n_hidden] in texts */
    size_t n_hidden;
} rf_reply_format;
/* name: of the format of calls; NULL: the one of the model's template. */
RF_CHECKED rf_status rf_reply_format_open(rf_reply_format *f, const rf_engine *engine,
                                          const char *name, rf_error *e);
void rf_reply_format_close(rf_reply_format *f);
/* Control tokens must be in the text of an answer. */
bool rf_reply_needs_special(const rf_reply_format *f, bool has_tools);

typedef struct rf_reply rf_reply;
/* What a stream sends: {"content":"..."}, one after the other. */
typedef void (*rf_reply_delta)(void *user, rf_str delta);
typedef struct rf_reply_opts { /* borrowed */
    const rf_json *tools;      /* the request's, or NULL */
    rf_str prompt_end;
    const char *id;   /* for the log */
    bool must_call;   /* the answer is JSON, see tools.h */
    bool single_call; /* calls after the first are left out */
} rf_reply_opts;
/* The same for a parser whose events go to sink. */
rf_tool_parser_opts rf_reply_parser_opts(const rf_reply_format *f, const rf_reply_opts *o,
                                         rf_tool_sink sink, void *user);
RF_CHECKED rf_status rf_reply_create(rf_reply **out, const rf_reply_format *f,
                                     const rf_reply_opts *o);
/* is_last: there will be no more text.  delta NULL: the answer is kept for rf_reply_put. */
RF_CHECKED rf_status rf_reply_feed(rf_reply *r, rf_str text, bool is_last, rf_reply_delta delta,
                                   void *user);
bool rf_reply_has_calls(const rf_reply *r);
/* The members of a whole message: "content":...,"tool_calls":[...] */
void rf_reply_put(const rf_reply *r, rf_buf *out);
void rf_reply_free(rf_reply *r);

#ifdef __cplusplus
}
#endif
