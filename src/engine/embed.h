/* embed.h - texts as vectors: hidden states of a plan for embeddings, pooled to one vector per text.
 *
 * Works with encoders and with decoders.  An embedder has its own exec and KV blocks, which hold nothing
 * between calls, so it never meets the requests of an engine; backend and model must outlive it.
 * One thread at a time.  A text's vector does not depend on the texts beside it. */
#pragma once
#include "backend/backend.h"
#include "rocmforge.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_embedder rf_embedder;

/* n_ctx: tokens of the longest text.  limits: rows of a batch (an encoder's batches hold at least n_ctx,
 * because each of its texts must be in one batch) and the type of the KV cache. */
RF_CHECKED rf_status rf_embedder_open(rf_embedder **out, const rf_backend_ops *ops,
                                      rf_backend *backend, const rf_model *m,
                                      const rf_limits *limits, uint32_t n_ctx, rf_error *e);
void rf_embedder_free(rf_embedder *x); /* NULL is fine */
size_t rf_embedder_bytes(const rf_embedder *x);

/* How a model's own embeddings are pooled: what its file says, else the mean for encoders and the last
 * token for decoders. */
rf_pooling rf_embed_default(const rf_model *m);
/* Floats of one vector; 0 for a pooling that the model cannot do. */
uint32_t rf_embed_size(const rf_model *m, rf_pooling pooling);

/* out: [n][rf_embed_size].  normalise: vectors of length 1 (never scores of RF_POOL_RANK).  Every text
 * is checked before any work is done: RF_EARG, or RF_EFULL for one longer than n_ctx. */
RF_CHECKED rf_status rf_embedder_run(rf_embedder *x, const rf_embed_input *texts, size_t n,
                                     rf_pooling pooling, bool normalise, float *out, rf_error *e);

#ifdef __cplusplus
}
#endif
