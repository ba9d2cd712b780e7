/* chat.h - a handful of built-in chat formats, chosen by marks in a model's own template.
 *
 * Not a template engine: it knows the basic form of a dozen families (chatml, llama2, llama3,
 * llama3.1, mistral, mistral-v7, zephyr, phi3, gemma, deepseek, deepseek-r1) and a plain fallback,
 * and refuses to guess others.  Tools and reasoning settings are beyond it. */
#pragma once
#include "base/buf.h"
#include "gguf/gguf.h"
#include "text/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_chat_message {
    rf_str role, content; /* role: "system", "user" or "assistant" */
} rf_chat_message;
typedef struct rf_chat_format rf_chat_format; /* a static table row */
const char *rf_chat_format_name(const rf_chat_format *f);
const rf_chat_format *rf_chat_format_by_name(rf_str name); /* NULL when unknown */
size_t rf_chat_format_count(void);
const rf_chat_format *rf_chat_format_at(size_t i);
/* From tokenizer.chat_template; *out is NULL when there is none or it is not recognised. */
RF_CHECKED rf_status rf_chat_format_detect(const rf_chat_format **out, const rf_gguf *g,
                                           rf_error *e);
/* Appends the conversation without its first BOS, which the tokenizer adds.  Message contents that
 * spell control tokens stay plain text, so the text comes in pieces. */
typedef struct rf_chat_piece {
    size_t start, len; /* of the rendered text */
    bool is_markup;    /* tokenize with parse_special; contents without */
} rf_chat_piece;
typedef struct rf_chat_text { /* start from {0} */
    rf_buf text;
    rf_chat_piece *pieces;
    size_t n_pieces, cap_pieces;
} rf_chat_text;
RF_CHECKED rf_status rf_chat_render(const rf_chat_format *f, const rf_chat_message *m, size_t n,
                                    bool add_assistant, rf_chat_text *out, rf_error *e);
void rf_chat_text_free(rf_chat_text *t);
/* Appends the ids of the conversation: control tokens come from markup only, and text is tokenized
 * across the borders of pieces, as if it were one. */
RF_CHECKED rf_status rf_chat_tokenize(const rf_tokenizer *t, const rf_chat_text *text,
                                      bool add_special, rf_ids *ids, rf_error *e);

#ifdef __cplusplus
}
#endif
