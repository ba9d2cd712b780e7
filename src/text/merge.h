/* merge.h - the merging of neighbours that both kinds of BPE share: lowest rank first, leftmost
 * among equals, until no pair of neighbours has a rank.
 *
 * A short text is scanned anew for each merge; a long one uses a heap, so that any text costs
 * O(n log n).  Memory is kept between calls. */
#pragma once
#include "text/vocab.h"

typedef struct rf_symbol {
    uint32_t prev, next; /* RF_SYMBOL_END at the ends */
    uint32_t at, len;    /* bytes of the text; len 0: merged into the left neighbour */
    int32_t id;          /* token, or RF_TOKEN_NONE */
    uint32_t rank;       /* of the pair with next, or RF_RANK_NONE */
    int32_t merged;      /* what that pair becomes */
} rf_symbol;
#define RF_SYMBOL_END UINT32_MAX

typedef struct rf_merger { /* start from {0} */
    rf_symbol *symbols;
    size_t n, cap;
    uint64_t *heap; /* rank << 32 | index of the left symbol */
    size_t n_heap, cap_heap;
} rf_merger;

RF_CHECKED rf_status rf_merger_push(rf_merger *m, uint32_t at, uint32_t len, int32_t id);
/* Fills left->rank and left->merged. */
typedef void (*rf_pair_fn)(const rf_tokenizer *t, const char *text, rf_symbol *left,
                           const rf_symbol *right);
/* Merges what was pushed; symbol 0 then starts the chain of what is left. */
RF_CHECKED rf_status rf_merger_run(rf_merger *m, const rf_tokenizer *t, const char *text,
                                   rf_pair_fn pair);
void rf_merger_free(rf_merger *m);

/* bpe.c, spm.c: one piece of text to ids. */
RF_CHECKED rf_status rf_bpe_encode(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                                   rf_error *e);
RF_CHECKED rf_status rf_spm_encode(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                                   rf_error *e);
