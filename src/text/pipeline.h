/* pipeline.h - tokenizing as a row of steps: normalise, cut, look pieces up, add what frames a text;
 * and a row of steps back.
 *
 * What a tokenizer.json describes becomes one; so do the GGUF models that are not one of the two
 * fast paths (byte-level BPE, SentencePiece BPE).  Everything lives in the tokenizer's arena but the
 * patterns, which rf_pipeline_close frees. */
#pragma once
#include "text/merge.h"
#include "text/pattern.h"
#include "text/trie.h"

enum {
    RF_STEPS_MAX = 64,      /* of each kind */
    RF_FRAME_MAX = 64,      /* tokens before or after a text */
    RF_UNKNOWN_PENALTY = 10 /* how much worse than the worst token an unknown character is */
};

typedef enum rf_step_kind {
    /* text to text */
    RF_STEP_NFC,
    RF_STEP_NFD,
    RF_STEP_NFKC,
    RF_STEP_NFKD,
    RF_STEP_LOWERCASE,
    RF_STEP_STRIP,         /* white space; n_start: at the left, n_end: at the right */
    RF_STEP_ACCENTS,       /* no marks (general category M) */
    RF_STEP_NONSPACING,    /* no non-spacing marks (Mn) */
    RF_STEP_CLEAN,         /* no control characters, white space as spaces */
    RF_STEP_CHINESE,       /* spaces around each Chinese character */
    RF_STEP_NMT,           /* the controls and odd spaces that SentencePiece's "nmt" maps */
    RF_STEP_REPLACE,       /* matches of pattern by with */
    RF_STEP_PREPEND,       /* with, before a text that is not empty */
    RF_STEP_CHARSMAP,      /* SentencePiece's map of characters: per grapheme */
    RF_STEP_SENTENCEPIECE, /* the same as SentencePiece does it, and its rules for spaces */
    RF_STEP_LETTERS,       /* bytes as letters */
    /* pieces to pieces */
    RF_STEP_SPLIT,       /* by pattern, as behavior and invert say */
    RF_STEP_WORD_PREFIX, /* with, before a piece that does not begin with it, as when says */
    /* tokens to text */
    RF_STEP_UNLETTERS, /* letters as bytes */
    RF_STEP_BYTES,     /* "<0x0A>" as its byte */
    RF_STEP_FUSE,      /* from here on the text is one */
    RF_STEP_CUT,       /* up to n_start and n_end times with, at the ends */
    RF_STEP_WORDPIECE, /* a space before what does not begin with with; flag: cleanup */
    RF_STEP_METASPACE, /* with is a space, nothing in the first token where flag */
} rf_step_kind;

typedef enum rf_behavior {
    RF_SPLIT_REMOVED,
    RF_SPLIT_ISOLATED,
    RF_SPLIT_MERGED_WITH_PREVIOUS,
    RF_SPLIT_MERGED_WITH_NEXT,
    RF_SPLIT_CONTIGUOUS,
} rf_behavior;

typedef enum rf_when { RF_ALWAYS, RF_FIRST, RF_NEVER } rf_when;

typedef struct rf_step {
    rf_step_kind kind;
    rf_behavior behavior;
    rf_when when;
    bool invert, flag;
    uint32_t n_start, n_end;
    rf_pattern *pattern; /* owned */
    rf_str what, with;
} rf_step;

typedef struct rf_steps {
    rf_step *p; /* [RF_STEPS_MAX] */
    uint32_t n;
} rf_steps;

/* SentencePiece's map: a double array of bytes, and the texts it leads to.  Bounds are checked. */
typedef struct rf_charsmap {
    const uint8_t *units; /* [n_units] little-endian u32, unaligned */
    size_t n_units;
    rf_str texts; /* each ends with a zero byte */
} rf_charsmap;
RF_CHECKED rf_status rf_charsmap_open(rf_charsmap *m, rf_str bytes, rf_error *e);
/* What the longest (else the shortest) mapped beginning of text becomes; *len 0: none is mapped. */
rf_str rf_charsmap_find(const rf_charsmap *m, rf_str text, bool longest, size_t *len);

typedef enum rf_added_flag {
    RF_ADDED_SINGLE_WORD = 1,
    RF_ADDED_LSTRIP = 2,
    RF_ADDED_RSTRIP = 4,
    RF_ADDED_NORMALIZED = 8,
} rf_added_flag;

typedef struct rf_pipeline rf_pipeline;
/* One piece to ids. */
typedef rf_status (*rf_encode_fn)(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                                  rf_error *e);

struct rf_pipeline {
    rf_steps normal, split, decode;
    rf_encode_fn encode;
    bool decodes;       /* from a tokenizer.json: decode, not the rules of GGUF files */
    bool joins_decoded; /* no decoder: a space between tokens */
    /* BPE over characters */
    bool whole_newlines; /* a run of line ends that is a token as a whole is that token */
    bool byte_fallback, fuse_unk;
    rf_str part_prefix; /* of a token inside a word: "##" */
    rf_str end_suffix;  /* of a token at the end of a word: "</w>" */
    /* WordPiece */
    rf_str word_prefix; /* of a token at the start of a word: U+2581 in GGUF files */
    uint32_t max_chars; /* of a word that is looked up */
    /* WordPiece, Unigram */
    rf_trie trie;
    double *score; /* [n_vocab] */
    double unknown_score;
    rf_charsmap charsmap;
    bool merges_spaces; /* RF_STEP_SENTENCEPIECE: runs of spaces become one */
    /* Special tokens around a text. */
    int32_t before[RF_FRAME_MAX], after[RF_FRAME_MAX];
    uint32_t n_before, n_after;
    /* Added tokens: sought in the text as it is, or after normalising. */
    rf_special_set added;
    const rf_str *added_text; /* [n_vocab] normalised where so flagged */
    uint8_t *added_flags;     /* [n_vocab] rf_added_flag */
};

/* An empty one in the tokenizer's arena; NULL when memory is out. */
rf_pipeline *rf_pipeline_create(rf_arena *arena);
void rf_pipeline_close(rf_pipeline *p); /* NULL is fine */
/* A fresh step at the end, or NULL when there are RF_STEPS_MAX. */
rf_step *rf_steps_add(rf_steps *s, rf_step_kind kind);
RF_CHECKED rf_status rf_steps_add_split(rf_steps *s, const char *pattern, rf_behavior behavior,
                                        bool invert, rf_error *e);

/* One text at a time through rows of steps; what it needs is kept between calls. */
typedef struct rf_span {
    size_t at, len;
} rf_span;
typedef struct rf_pieces {
    rf_buf text;
    rf_span *spans;
    size_t n, cap;
    bool failed;
} rf_pieces;
typedef struct rf_run { /* start from {.t, .searcher, .e} */
    const rf_tokenizer *t;
    rf_searcher *searcher;
    rf_error *e;
    rf_buf text, other;
    rf_pieces pieces, spare;
} rf_run;
void rf_run_free(rf_run *r);
/* normal_steps.c: *out lives in r until the next call. */
RF_CHECKED rf_status rf_run_normal(rf_run *r, rf_str text, rf_str *out);
/* split_steps.c: into r->pieces.  at_start: the text is the beginning of what the user gave. */
RF_CHECKED rf_status rf_run_split(rf_run *r, rf_str text, bool at_start);
/* decode_steps.c: one token's text, in a sequence that it starts or not. */
void rf_pipeline_decode(const rf_pipeline *p, rf_str token, bool first, rf_buf *out);

/* Models: one piece to ids. */
rf_status rf_charbpe_encode(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                            rf_error *e);
rf_status rf_wordpiece_encode(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                              rf_error *e);
rf_status rf_unigram_encode(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                            rf_error *e);
rf_status rf_wordlevel_encode(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                              rf_error *e);
/* gguf_models.c: pipelines for the models of GGUF files. */
RF_CHECKED rf_status rf_pipeline_from_bert(rf_tokenizer *t, const rf_gguf *g, rf_error *e);
RF_CHECKED rf_status rf_pipeline_from_t5(rf_tokenizer *t, const rf_gguf *g, rf_error *e);
RF_CHECKED rf_status rf_pipeline_from_characters(rf_tokenizer *t, const rf_pretok_spec *spec,
                                                 rf_error *e);
/* Patterns that several kinds of vocabulary share. */
#define RF_PATTERN_WHITE       "[\\t-\\r\\x{85}\\p{Z}]"
#define RF_PATTERN_PUNCTUATION "[\\p{P}!-/:-@\\[-`{-~]"
/* The trie over the tokens that text may become, scores already there. */
RF_CHECKED rf_status rf_pipeline_index(rf_tokenizer *t, rf_error *e);

/* normal_steps.c */
bool rf_is_white(uint32_t cp); /* Unicode's White_Space */
bool rf_is_word(uint32_t cp);  /* letters, marks, decimal digits, connectors */
