/* chat_template.h - a conversation through the model's own template (tokenizer.chat_template).
 *
 * The built-in formats of chat.h serve where there is none or it cannot be parsed.  Unlike theirs,
 * the text holds whatever the template writes, a first BOS included. */
#pragma once
#include "text/chat.h"
#include "text/jinja/jinja.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_chat_request { /* start from {0} */
    const rf_json *messages;     /* array of objects */
    const rf_json *tools;        /* array, or NULL: none */
    const rf_json *documents;    /* array, or NULL: none */
    const rf_json *kwargs;       /* object of further variables (enable_thinking, ...), or NULL */
    bool add_generation_prompt;
    rf_str bos_token, eos_token;
    const struct tm *now; /* NULL: the local time */
} rf_chat_request;

/* *out is NULL where the file has no template.  One that cannot be parsed fails with its place. */
RF_CHECKED rf_status rf_chat_template_open(rf_jinja **out, const rf_gguf *g, rf_error *e);
/* Appends the conversation.  The template's own text, the names of the usual roles and the tokens
 * of the model are markup; every other string of the request is not, wherever the template puts it.
 * kwargs cannot replace the request's own variables. */
RF_CHECKED rf_status rf_chat_render_template(const rf_jinja *t, const rf_chat_request *r,
                                             rf_chat_text *out, rf_error *e);
/* The same for plain messages; r->messages is not read. */
RF_CHECKED rf_status rf_chat_render_messages(const rf_jinja *t, const rf_chat_message *m, size_t n,
                                             const rf_chat_request *r, rf_chat_text *out,
                                             rf_error *e);

#ifdef __cplusplus
}
#endif
