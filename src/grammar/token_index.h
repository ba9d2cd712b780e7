/* token_index.h - a vocabulary as prefix trees over the bytes of its tokens.
 *
 * Made once per tokenizer, read-only, shared by all grammars.  Tokens without text of their own
 * (control, unknown, unused) are in no tree.  Most tokens of most vocabularies are plain: whole
 * characters that JSON strings hold as they are; they are also counted by length, so that a mask
 * inside a string need not visit them. */
#pragma once
#include "text/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_trie_node { /* in depth-first order; node 0 is the root */
    uint32_t end;             /* node behind the subtree */
    uint32_t first_token;     /* into token; the next node's is the end */
    uint16_t depth;
    uint8_t byte;
} rf_trie_node;
typedef struct rf_trie {
    rf_trie_node *node; /* [n_nodes + 1] the last only ends the tokens */
    uint32_t n_nodes;
    int32_t *token; /* [n_tokens] in the order of the nodes */
    uint32_t n_tokens;
} rf_trie;

enum {
    RF_TOKEN_MAX_BYTES = 1024, /* longer tokens are in no tree */
    RF_TOKEN_MAX_PLAIN = 128,  /* longer ones do not count as plain */
};

typedef struct rf_token_index {
    uint32_t n_vocab, n_words; /* words of a mask: a bit per token */
    uint32_t max_bytes;        /* of a token */
    rf_trie all, uneven;       /* uneven: those that are not plain */
    uint32_t max_plain;        /* characters of the longest plain token */
    uint32_t *plain;           /* [max_plain + 1][n_words] plain tokens of at most that many */
} rf_token_index;

RF_CHECKED rf_status rf_token_index_create(rf_token_index **out, const rf_tokenizer *t,
                                           rf_error *e);
void rf_token_index_free(rf_token_index *x);

#ifdef __cplusplus
}
#endif
