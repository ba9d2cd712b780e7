/* grammar.h - a compiled grammar, and the matchers that follow answers through it.
 *
 * A grammar is made once and then shared: it counts its references and guards its caches, so that any
 * thread may use it.  A matcher belongs to one answer and to one thread; it is a small value that can
 * be copied (to go back to, or to go two ways).  What a matcher says depends on the grammar and the
 * text alone, never on what the caches hold.
 *
 * Languages and limits: docs/structured-output.md. */
#pragma once
#include "grammar/token_index.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rf_language {
    RF_LANGUAGE_GBNF,
    RF_LANGUAGE_SCHEMA,
    RF_LANGUAGE_REGEX,
    RF_LANGUAGE_CHOICE
} rf_language;

typedef struct rf_grammar rf_grammar;
/* index is borrowed and must outlive the grammar; NULL for matching text only (no masks). */
RF_CHECKED rf_status rf_grammar_compile(rf_grammar **out, rf_language language, rf_str text,
                                        const rf_token_index *index, rf_error *e);
rf_grammar *rf_grammar_ref(rf_grammar *g);
void rf_grammar_unref(rf_grammar *g); /* NULL is fine */
const rf_token_index *rf_grammar_index(const rf_grammar *g);
typedef struct rf_grammar_stats {
    uint32_t n_states, n_classes;
    size_t automaton_bytes, cache_bytes;
    uint32_t n_cached; /* masks of single states */
} rf_grammar_stats;
void rf_grammar_get_stats(rf_grammar *g, rf_grammar_stats *out);
void rf_grammar_drop_cache(rf_grammar *g); /* frees memory; results stay the same */

typedef struct rf_matcher rf_matcher;
RF_CHECKED rf_status rf_matcher_create(rf_matcher **out, rf_grammar *g, rf_error *e);
RF_CHECKED rf_status rf_matcher_copy(rf_matcher **out, const rf_matcher *m);
void rf_matcher_free(rf_matcher *m); /* NULL is fine */
/* Follows bytes.  RF_EARG, and nothing changes, when no text of the grammar goes on so; RF_EFULL when
 * the grammar is too ambiguous or nested too deeply for the limits. */
RF_CHECKED rf_status rf_matcher_feed(rf_matcher *m, rf_str bytes);
bool rf_matcher_can_end(const rf_matcher *m); /* what was fed is a whole text of the grammar */
bool rf_matcher_is_over(const rf_matcher *m); /* and nothing can follow it */
/* A bit for every token that may come next, token i in bit i % 32 of word i / 32 of [n_words].  Tokens
 * that end a text are not among them.  RF_EFULL as above. */
RF_CHECKED rf_status rf_matcher_mask(rf_matcher *m, uint32_t *mask);

#ifdef __cplusplus
}
#endif
