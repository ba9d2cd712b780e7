/* prompt.h - a conversation as tokens, through the model's own template or a built-in format.
 *
 * Read-only once open; may be used by many threads.  Borrows the file and the tokenizer. */
#pragma once
#include "text/chat_template.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_prompter { /* start from {0} */
    const rf_gguf *file;
    const rf_tokenizer *tokenizer;
    rf_jinja *own;   /* the model's template; NULL where it has none or one that does not parse */
    rf_buf bos, eos; /* the texts of these tokens, empty where there are none */
} rf_prompter;

/* A template that does not parse is logged and left out. */
RF_CHECKED rf_status rf_prompter_open(rf_prompter *p, const rf_gguf *file, const rf_tokenizer *t,
                                      rf_error *e);
void rf_prompter_close(rf_prompter *p);
/* Appends the ids of the conversation, ready to be answered.  format: a built-in format's name, or
 * NULL for the model's own. */
RF_CHECKED rf_status rf_prompter_tokens(const rf_prompter *p, const char *format,
                                        const rf_chat_message *m, size_t n, rf_ids *ids,
                                        rf_error *e);
/* The same for messages with more than a role and a text, tools and variables; these need the
 * model's own template.  The request's bos_token and eos_token are not read. */
RF_CHECKED rf_status rf_prompter_request_tokens(const rf_prompter *p, const char *format,
                                                const rf_chat_request *r, rf_ids *ids, rf_error *e);

#ifdef __cplusplus
}
#endif
