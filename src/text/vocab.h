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
typedef struct rf_special_set {
    rf_special_node *nodes; /* [n]; node 0 is unused */
    uint32_t n;
    uint32_t root[256]; /* node of a first byte */
} rf_special_set;

struct rf_pipeline;
struct rf_gguf;

struct rf_tokenizer {
    rf_arena *arena;
    rf_gguf *file;            /* owned, where rf_tokenizer_open opened it; else NULL */
    const char *model;        /* "gpt2", "llama", ... as GGUF files call it */
    const char *pre;          /* pre-tokenizer's name, "" where there is none */
    bool is_spm;              /* SentencePiece BPE */
    rf_pretok *pretok;        /* byte-level BPE of GGUF files, else NULL */
    struct rf_pipeline *pipe; /* every other kind, else NULL */
    bool normalize;           /* text is brought to NFC before it is split */
    bool ignore_merges;       /* a piece that is a token as a whole is that token */
    bool writes_spaces;       /* as U+2581 in token texts */
    bool space_prefix;        /* a text starts with a space that is not written */
    bool splits_words;        /* SentencePiece: no token spans the start of a word */
    bool strips_after;        /* special tokens swallow the white space behind them */
    bool add_bos, add_eos, add_sep;
    int32_t bos, eos, sep, unk;

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

    rf_special_set special;
};

/* A token that plain text may become: not a marker, not a byte, not unused. */
static inline bool rf_token_is_textual(const rf_tokenizer *t, uint32_t id) {
    return t->kind[id] == RF_TOKEN_NORMAL || t->kind[id] == RF_TOKEN_USER_DEFINED;
}

/* control.c: markers known by their text, the set of tokens that end a text or a turn.  retype: the
 * file's token types are not to be trusted. */
void rf_control_mark_texts(rf_tokenizer *t, bool retype);
RF_CHECKED rf_status rf_control_mark(rf_tokenizer *t, const rf_gguf *g, rf_error *e);
/* special.c: a set of n tokens, and the first of them at or after from; false when there is none. */
RF_CHECKED rf_status rf_special_build(rf_special_set *set, rf_arena *arena, const rf_str *text,
                                      const uint32_t *ids, uint32_t n, rf_error *e);
typedef bool (*rf_special_filter)(const rf_tokenizer *t, int32_t token, bool parse_special);
bool rf_special_find(const rf_tokenizer *t, const rf_special_set *set, rf_str text, size_t from,
                     rf_special_filter wanted, bool parse_special, size_t *at, int32_t *token);
/* vocab.c: an empty tokenizer with its arena, and room for n_vocab tokens' flags. */
RF_CHECKED rf_status rf_tokenizer_create(rf_tokenizer **out, rf_error *e);
RF_CHECKED rf_status rf_tokenizer_set_texts(rf_tokenizer *t, const rf_str *text, uint32_t n,
                                            rf_error *e);
/* bpe.c, spm.c: what is particular to each model. */
RF_CHECKED rf_status rf_bpe_load(rf_tokenizer *t, const rf_gguf *g, rf_error *e);
/* Room for n merges; then up to RF_INDEX_BATCH / 2 pairs of token texts at a time, ranks ascending. */
typedef struct rf_merge_list {
    uint32_t rank, last;    /* of the next pair; result of the last one */
    uint32_t n_unknown;     /* pairs that name no token */
    uint32_t first_unknown; /* rank of the first of them */
    uint32_t skip;          /* bytes of the right half that the result leaves out ("##") */
    rf_buf room;
} rf_merge_list;
RF_CHECKED rf_status rf_bpe_reserve(rf_tokenizer *t, uint64_t n, rf_error *e);
void rf_bpe_add_pairs(rf_tokenizer *t, rf_merge_list *list, const rf_str *halves, uint32_t n);
RF_CHECKED rf_status rf_spm_load(rf_tokenizer *t, const rf_gguf *g, rf_error *e);
int rf_bpe_byte_char(uint8_t byte, char out[4]);    /* its letter in token texts: 1 or 2 bytes */
bool rf_bpe_decode(rf_str token_text, rf_buf *out); /* false, nothing added: a foreign letter */
int rf_spm_byte_value(rf_str token_text);           /* "<0x1F>" -> 31; -1 otherwise */
