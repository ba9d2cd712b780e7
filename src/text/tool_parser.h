/* tool_parser.h - the text of a model's answer as events: content, reasoning, tool calls.
 *
 * Incremental: bytes go in as they are generated, events come out as soon as they are certain, and
 * joined together they are the same however the bytes were cut.  A call is told when it is whole and
 * its arguments are a valid JSON object; whatever looks like a call but cannot be read comes back as
 * content with a warning, so no byte of an answer is lost.  Knows nothing of tokens: control tokens
 * must be in the text.  One thread at a time. */
#pragma once
#include "base/buf.h"
#include "base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RF_TOOL_MAX_HELD = 1 << 20, /* bytes between the marks of a section */
    RF_TOOL_MAX_CALLS = 128,    /* in one answer */
    RF_TOOL_MAX_NAME = 256,     /* bytes */
};

/* How a family of models writes calls, and how it writes reasoning: static rows of two tables. */
typedef struct rf_tool_format rf_tool_format;
typedef struct rf_reasoning_format rf_reasoning_format;
/* From the text of a chat template; NULL where it has no marks that are known. */
const rf_tool_format *rf_tool_format_detect(rf_str chat_template);
const rf_reasoning_format *rf_reasoning_format_detect(rf_str chat_template);
const rf_tool_format *rf_tool_format_by_name(rf_str name); /* NULL when unknown */
const rf_reasoning_format *rf_reasoning_format_by_name(rf_str name);
const char *rf_tool_format_name(const rf_tool_format *f); /* "none" for NULL */
const char *rf_reasoning_format_name(const rf_reasoning_format *f);
/* Appends the marks that open calls, and those of reasoning: control tokens among them must be in the
 * text.  Both may be NULL. */
void rf_tool_put_marks(const rf_tool_format *f, const rf_reasoning_format *r, rf_buf *out);
/* Content and reasoning too are told apart by the format's marks (gpt-oss). */
bool rf_tool_format_has_headings(const rf_tool_format *f);
bool rf_tool_is_name(rf_str s); /* can be the name of a function in a call */
size_t rf_tool_format_count(void);
const rf_tool_format *rf_tool_format_at(size_t i);

typedef enum rf_tool_event_kind {
    RF_TOOL_CONTENT,   /* text: more of the answer */
    RF_TOOL_REASONING, /* text: more of the reasoning */
    RF_TOOL_BEGIN,     /* text: the function's name; id: the model's own name of the call */
    RF_TOOL_ARGUMENTS, /* text: the arguments, a JSON object */
    RF_TOOL_END,
    RF_TOOL_WARNING, /* text: why the content before it was not taken for a call */
} rf_tool_event_kind;
typedef struct rf_tool_event { /* valid during the call that tells it */
    rf_tool_event_kind kind;
    uint32_t index; /* of the call, from 0 */
    rf_str text, id;
} rf_tool_event;
typedef void (*rf_tool_sink)(void *user, const rf_tool_event *event);

typedef struct rf_tool_parser rf_tool_parser;
typedef struct rf_tool_parser_opts { /* start from {0}; all is borrowed until free */
    const rf_tool_format *format;    /* NULL: calls are not looked for */
    bool
        no_calls; /* of the format only what tells content from reasoning: the request has no tools */
    const rf_reasoning_format *reasoning; /* NULL: reasoning is not looked for */
    const rf_json *tools;                 /* as the request has them: types of arguments; or NULL */
    rf_str prompt_end;                    /* the prompt or its end: has it opened the reasoning? */
    const rf_str *hidden;                 /* [n_hidden] texts to leave out: end tokens */
    size_t n_hidden;
    rf_tool_sink sink;
    void *user;
} rf_tool_parser_opts;
RF_CHECKED rf_status rf_tool_parser_create(rf_tool_parser **out, const rf_tool_parser_opts *o,
                                           rf_error *e);
/* Fails only with RF_ENOMEM, and then for good. */
RF_CHECKED rf_status rf_tool_parser_feed(rf_tool_parser *p, rf_str text);
/* The answer is over: whatever was held back is told. */
RF_CHECKED rf_status rf_tool_parser_finish(rf_tool_parser *p);
uint32_t rf_tool_parser_n_calls(const rf_tool_parser *p); /* told so far */
void rf_tool_parser_free(rf_tool_parser *p);

#ifdef __cplusplus
}
#endif
