/* ngram.h - guesses by looking up: where the end of a text stood before, and what followed it there.
 *
 * Every run of RF_NGRAM_MIN to RF_NGRAM_MAX tokens is known by a hash that leads to its latest place;
 * a hit compares tokens and never trusts the hash.  The table has a fixed size and forgets a run when
 * another falls on its slot.  Each token costs the same, however long the text is. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_NGRAM_MIN = 2, RF_NGRAM_MAX = 5 };
typedef struct rf_ngram {
    uint32_t *slots;  /* [n_slots] how many tokens stand before what followed a run; 0: none */
    uint32_t n_slots; /* a power of two; 0: not open */
    uint32_t n_seen;  /* runs that end among so many first tokens are in the table */
} rf_ngram;

/* For a text of at most max_tokens. */
RF_CHECKED rf_status rf_ngram_open(rf_ngram *g, uint32_t max_tokens);
void rf_ngram_close(rf_ngram *g); /* also one that is {0} */
/* Writes at most cap tokens that may follow tokens[0..n): what followed the longest run that ends the
 * text and stood in it before.  Returns their number and the run's length.  From call to call the text
 * only grows. */
uint32_t rf_ngram_guess(rf_ngram *g, const int32_t *tokens, uint32_t n, int32_t *out, uint32_t cap,
                        uint32_t *length);

#ifdef __cplusplus
}
#endif
