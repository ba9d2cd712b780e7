/* chunks.h - a text cut into chunks of tokens, as the commands that measure a model read it.
 *
 * A chunk is n_ctx tokens; where the model begins texts with a token (BOS), that takes the place of
 * each chunk's first.  What is left of the text after the last whole chunk is not used. */
#pragma once
#include "cli/session.h"

typedef struct rf_chunks {
    rf_ids ids;     /* [>= n * n_ctx] */
    uint32_t n_ctx; /* tokens of a chunk */
    size_t n;
} rf_chunks;

/* Tokens of a chunk: --ctx, or 512. */
uint32_t rf_chunks_ctx(const rf_cli *c);
/* The text of --file, at most --chunks of it, with the chunks' first tokens set. */
RF_CHECKED rf_status rf_chunks_read(rf_chunks *out, const rf_cli *c, const rf_engine *en,
                                    rf_error *e);
/* The same for ids that are there already; n_ctx is set. */
RF_CHECKED rf_status rf_chunks_cut(rf_chunks *chunks, const rf_cli *c, const rf_engine *en,
                                   rf_error *e);
void rf_chunks_free(rf_chunks *chunks);
static inline int32_t *rf_chunks_at(const rf_chunks *chunks, size_t i) { /* [n_ctx] */
    return chunks->ids.p + i * chunks->n_ctx;
}
