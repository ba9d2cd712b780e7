/* pretok.h - pre-tokenizers: how text is cut into pieces before byte-level BPE merges inside them.
 *
 * Each is a list of patterns; every pattern cuts the pieces of the one before it into its matches
 * and what lies between.  Known ones only, by the name a GGUF file gives; none is guessed. */
#pragma once
#include "base/base.h"
#include "base/buf.h"

enum { RF_PRETOK_MAX_STEPS = 6 };

typedef struct rf_pretok_spec {
    const char *names[16];                      /* NULL-terminated */
    bool normalize;                             /* to NFC first */
    bool ignore_merges;                         /* a piece that is a token as a whole stays whole */
    bool add_bos;                               /* where the file does not say */
    bool no_bos;                                /* no default BOS */
    bool characters;                            /* merges join characters, not bytes */
    bool writes_spaces;                         /* as U+2581 */
    bool drops_white;                           /* what lies between the matches is left out */
    const char *steps[RF_PRETOK_MAX_STEPS + 1]; /* PCRE2 patterns, NULL-terminated */
} rf_pretok_spec;
/* *name (may be NULL) becomes the table's spelling of it, static text.  NULL when unknown. */
const rf_pretok_spec *rf_pretok_find(rf_str wanted, const char **name);
void rf_pretok_list(rf_buf *out);             /* all known names, for messages */
const rf_pretok_spec *rf_pretok_at(size_t i); /* rows of the table; NULL at its end */

typedef struct rf_pretok rf_pretok; /* compiled; read-only, shared by threads */
RF_CHECKED rf_status rf_pretok_create(rf_pretok **out, const rf_pretok_spec *spec, rf_error *e);
void rf_pretok_free(rf_pretok *p); /* NULL is fine */

typedef struct rf_splitter rf_splitter; /* what one call needs: not shared */
RF_CHECKED rf_status rf_splitter_create(rf_splitter **out, const rf_pretok *p);
void rf_splitter_free(rf_splitter *s);
/* Calls fn for each piece of text (valid UTF-8) in order; stops at the first failure. */
typedef rf_status (*rf_piece_fn)(void *ctx, rf_str piece);
RF_CHECKED rf_status rf_splitter_run(rf_splitter *s, rf_str text, rf_piece_fn fn, void *ctx,
                                     rf_error *e);
