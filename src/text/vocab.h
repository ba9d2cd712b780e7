/* vocab.h - the tokenizer as its own files see it: the vocabulary, its flags and its tables.
 *
 * Private to src/text.  Token texts are borrowed from the rf_gguf; every array of this struct lives
 * in its arena; the compiled patterns are freed on their own. */
#pragma once
#include "base/arena.h"
#include "text/index.h"
#include "text/pretok.h"
#include "text/tokenizer.h"

#define RF_SPM_SPACE       "\xE2\x96\x81" /* U+2581, how SentencePiece writes a space */
#define RF_SPM_SPACE_BYTES 3

#define RF_RANK_NONE UINT32_MAX /* no merge */
enum {
    RF_SPECIAL_MAX_BYTES = 512,
    RF_TOKENIZE_MAX_BYTES = 1 << 30,
};

/* One way to join two neighbours: which pair, how early, what it becomes. */
typedef struct rf_merge_slot {
    uint64_t pair;    /* left id << 32 | right id */
    uint32_t rank;    /* lower merges first */
    uint32_t id_plus; /* merged token + 1; 0 = free slot */
} rf_merge_slot;

/* Trie over the texts of tokens that are recognised inside raw text. */
typedef struct rf_special_node {
    uint32_t child, sibling; /* 0 = none */
    int32_t token;           /* or RF_TOKEN_NONE */
    uint8_t byte;
} rf_special_node;

struct rf_tokenizer {
    rf_arena *arena;
    bool is_spm;        /* SentencePiece BPE; else byte-level BPE */
    const char *pre;    /* pre-tokenizer's name, "" for SentencePiece */
    rf_pretok *pretok;  /* NULL for SentencePiece */
    bool normalize;     /* text is brought to NFC before it is split */
    bool ignore_merges; /* a piece that is a token as a whole is that token */
    bool space_prefix;  /* SentencePiece: a text starts with a space that is not written */
    bool splits_words;  /* SentencePiece: no token spans the start of a word */
    bool strips_after;  /* special tokens swallow the white space behind them */
    bool add_bos, add_eos;
    int32_t bos, eos, unk;

    uint32_t n_vocab;
    uint32_t max_token_bytes;
    const rf_str *text;   /* [n_vocab] as in the file */
    uint8_t *kind;        /* [n_vocab] rf_token_kind */
    uint8_t *is_end;      /* [n_vocab] */
    uint8_t *keeps_space; /* [n_vocab] exempt from strips_after */
    uint32_t *rank;       /* [n_vocab] SentencePiece: order of the scores, or RF_RANK_NONE */
    rf_index by_text;
    int32_t byte_token[256];

    rf_merge_slot *merges; /* [merge_mask + 1], linear probing */
    uint64_t merge_mask, merge_seed;

    rf_special_node *special; /* [n_special]; node 0 is unused */
    uint32_t n_special;
    uint32_t special_root[256]; /* node of a first byte */
};

/* A token that plain text may become: not a marker, not a byte, not unused. */
static inline bool rf_token_is_textual(const rf_tokenizer *t, uint32_t id) {
    return t->kind[id] == RF_TOKEN_NORMAL || t->kind[id] == RF_TOKEN_USER_DEFINED;
}

/* control.c: markers known by their text, the set of tokens that end a text or a turn. */
RF_CHECKED rf_status rf_control_mark(rf_tokenizer *t, const rf_gguf *g, rf_error *e);
/* special.c: the trie, and the first token text at or after from.  False when there is none. */
RF_CHECKED rf_status rf_special_build(rf_tokenizer *t, rf_error *e);
bool rf_special_find(const rf_tokenizer *t, rf_str text, size_t from, bool parse_special,
                     size_t *at, int32_t *token);
/* bpe.c, spm.c: what is particular to each model. */
RF_CHECKED rf_status rf_bpe_load(rf_tokenizer *t, const rf_gguf *g, rf_error *e);
RF_CHECKED rf_status rf_spm_load(rf_tokenizer *t, const rf_gguf *g, rf_error *e);
int rf_bpe_byte_char(uint8_t byte, char out[4]);    /* its letter in token texts: 1 or 2 bytes */
bool rf_bpe_decode(rf_str token_text, rf_buf *out); /* false, nothing added: a foreign letter */
int rf_spm_byte_value(rf_str token_text);           /* "<0x1F>" -> 31; -1 otherwise */
