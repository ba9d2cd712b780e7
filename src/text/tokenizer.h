/* tokenizer.h - text to token ids and back, from the metadata of a GGUF file or from Hugging Face's
 * tokenizer.json; once made nobody can tell which.
 *
 * Byte-level BPE, BPE over characters, SentencePiece BPE, WordPiece, Unigram, whole words.  A
 * tokenizer is read-only once made and may be used by many threads. */
#pragma once
#include "base/base.h"
#include "base/buf.h"
#include "gguf/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_TOKEN_NONE = -1 };

typedef enum rf_token_kind { /* tokenizer.ggml.token_type */
                             RF_TOKEN_NORMAL = 1,
                             RF_TOKEN_UNKNOWN,
                             RF_TOKEN_CONTROL,
                             RF_TOKEN_USER_DEFINED,
                             RF_TOKEN_UNUSED,
                             RF_TOKEN_BYTE,
} rf_token_kind;

typedef struct rf_tokenizer rf_tokenizer;
/* Borrows g, which must outlive it. */
RF_CHECKED rf_status rf_tokenizer_from_gguf(rf_tokenizer **out, const rf_gguf *g, rf_error *e);
/* From the text of a tokenizer.json; errors name the place by its JSON pointer. */
RF_CHECKED rf_status rf_tokenizer_from_json(rf_tokenizer **out, rf_str json, rf_error *e);
/* From a file of either kind; it needs nothing else. */
RF_CHECKED rf_status rf_tokenizer_open(rf_tokenizer **out, const char *path, rf_error *e);
void rf_tokenizer_free(rf_tokenizer *t); /* NULL is fine */

const char *rf_tokenizer_model(const rf_tokenizer *t); /* "gpt2", "llama", "bert", ... */
const char *rf_tokenizer_pre(const rf_tokenizer *t);   /* pre-tokenizer's name, "" where none */
uint32_t rf_tokenizer_n_vocab(const rf_tokenizer *t);
int32_t rf_tokenizer_bos(const rf_tokenizer *t),
    rf_tokenizer_eos(const rf_tokenizer *t); /* or RF_TOKEN_NONE */
bool rf_tokenizer_adds_bos(const rf_tokenizer *t), rf_tokenizer_adds_eos(const rf_tokenizer *t);
rf_token_kind rf_token_kind_of(const rf_tokenizer *t, int32_t token);
bool rf_token_is_end(const rf_tokenizer *t,
                     int32_t token); /* ends a text or a turn: EOS, EOT, <|im_end|>, ... */
int32_t rf_token_find(const rf_tokenizer *t,
                      rf_str text); /* exact vocabulary text, or RF_TOKEN_NONE */

typedef struct rf_tokenize_opts {
    bool add_special; /* BOS / EOS as the model asks for */
    bool
        parse_special; /* the text of a control token becomes that token; user-defined ones always do */
} rf_tokenize_opts;
/* Appends the ids of text (any bytes) to ids. */
RF_CHECKED rf_status rf_tokenize(const rf_tokenizer *t, rf_str text, rf_tokenize_opts o,
                                 rf_ids *ids, rf_error *e);

/* The bytes a token stands for, which may end inside a UTF-8 character; appended to out.  Control
 * tokens give nothing unless with_special.  Unknown ids are RF_EARG. */
RF_CHECKED rf_status rf_token_bytes(const rf_tokenizer *t, int32_t token, bool with_special,
                                    rf_buf *out);
/* A whole sequence, with the rules that hold at its start (SentencePiece drops one leading space). */
RF_CHECKED rf_status rf_detokenize(const rf_tokenizer *t, const int32_t *ids, size_t n,
                                   bool with_special, rf_buf *out, rf_error *e);

/* Streaming: bytes in token by token, whole UTF-8 characters out.  Start from {0}, free pending. */
typedef struct rf_detok {
    rf_buf pending; /* bytes held back: the start of a character */
    bool started;
} rf_detok;
/* Appends what has become certain to out.  Invalid bytes become U+FFFD. */
RF_CHECKED rf_status rf_detok_push(rf_detok *d, const rf_tokenizer *t, int32_t token, rf_buf *out);
void rf_detok_finish(rf_detok *d, rf_buf *out); /* what is still held back, as U+FFFD */

#ifdef __cplusplus
}
#endif
