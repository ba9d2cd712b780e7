/* mask.h - which tokens may come next: a walk down the tree of tokens, remembered per state.
 *
 * Private to src/grammar.  What a rule says of a token does not depend on who called it, until the
 * token reaches beyond the rule.  So the tokens that stay inside are kept per state, and the places
 * in the tree where the rule can be left; only from those the callers are asked, each time.  Where
 * there are very many of those, the nearest callers become part of what is remembered. */
#pragma once
#include "base/arena.h"
#include "base/map.h"
#include "grammar/machine.h"
#include "grammar/token_index.h"

enum { RF_MASK_CACHE_BYTES = 32 << 20 }; /* of one grammar; it starts anew when full */

typedef struct rf_mask_entry {
    bool look_further; /* too many exits: see the entry with one more caller */
    bool uneven;       /* exits are nodes of the tree of uneven tokens, and plain counts */
    uint32_t plain;    /* plain tokens of at most that many characters are allowed */
    uint32_t n_tokens; /* the others that stay inside the rule */
    uint32_t *bits;    /* [n_words] or NULL where the list is shorter */
    int32_t *tokens;   /* [n_tokens] or NULL */
    uint32_t n_exits;
    uint32_t *exits; /* [n_exits] nodes */
} rf_mask_entry;

typedef struct rf_masker {
    const rf_automaton *a;
    const rf_token_index *x;
    rf_machine live, alone; /* with the matcher's frames; with a state and an unknown caller */
    struct rf_mask_set {
        uint32_t first, end, n_frames;
    } * sets;       /* [RF_TOKEN_MAX_BYTES + 1] on the way down */
    uint32_t *bits; /* [n_words] of the entry being made */
    uint32_t *exits;
    uint32_t n_exits, cap_exits;
    rf_arena *arena; /* the cache */
    rf_map *index;
    rf_mask_entry *entries;
    uint32_t n_entries, cap_entries;
} rf_masker;

RF_CHECKED rf_status rf_masker_open(rf_masker *k, const rf_automaton *a, const rf_token_index *x);
void rf_masker_close(rf_masker *k);
void rf_masker_drop(rf_masker *k); /* empties the cache */
/* Adds to mask what may follow the set items[0..n_items) of k->live. */
RF_CHECKED rf_status rf_masker_add(rf_masker *k, uint32_t *mask);
