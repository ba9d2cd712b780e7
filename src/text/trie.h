/* trie.h - all token texts that a piece of text begins with, one byte at a time.
 *
 * A sorted list of texts; walking narrows the range of those that share what was read so far. */
#pragma once
#include "base/arena.h"

typedef struct rf_trie_entry {
    rf_str text;
    uint32_t id;
} rf_trie_entry;

typedef struct rf_trie {
    rf_trie_entry *sorted; /* [n] by bytes, shorter first; of equal texts the lowest id counts */
    uint32_t n;
    uint32_t first[257]; /* where texts with each first byte begin */
} rf_trie;

/* The entries are the caller's, in the arena; texts are borrowed and not empty. */
void rf_trie_build(rf_trie *t, rf_trie_entry *entries, uint32_t n);

typedef struct rf_trie_walk {
    uint32_t from, to; /* texts that begin with what was read */
    uint32_t depth;
} rf_trie_walk;
static inline rf_trie_walk rf_trie_start(const rf_trie *t) { return (rf_trie_walk){0, t->n, 0}; }
/* Reads one byte.  False: no text goes on like this. */
bool rf_trie_step(const rf_trie *t, rf_trie_walk *w, uint8_t byte);
/* The token whose text is exactly what was read, or -1. */
int32_t rf_trie_token(const rf_trie *t, const rf_trie_walk *w);
