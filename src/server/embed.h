/* embed.h - requests for vectors and scores, from their texts through the engine's thread to the outbox.
 *
 * Tasks wait in a queue; the engine's thread works on a few texts of one at a time, between two steps
 * of generation, so that streams go on and a long list does not hold up a short one.  Nobody else calls
 * the engine's functions for embeddings. */
#pragma once
#include "server/metrics.h"
#include "server/params.h"

typedef struct rf_embeds rf_embeds;
typedef struct rf_embed_task rf_embed_task;

/* How one API writes its answer; all are called on the engine's thread, texts in order. */
typedef struct rf_embed_writer {
    void (*start)(const rf_embed_task *t, rf_buf *out);
    void (*vector)(rf_embed_task *t, size_t i, const float *v, rf_buf *out); /* v: [n_floats] */
    void (*end)(rf_embed_task *t, rf_buf *out);
} rf_embed_writer;
extern const rf_embed_writer rf_embed_vectors; /* /v1/embeddings */
extern const rf_embed_writer rf_embed_scores;  /* /v1/rerank */

struct rf_embed_task { /* what writers may read */
    const rf_embed_writer *writer;
    const char *model; /* borrowed */
    char id[48];
    rf_params params;
    rf_ids *texts;                     /* [params.n_prompts] */
    size_t n_done, n_tokens, n_floats; /* texts done; tokens of all; floats of one text */
    float *scores;                     /* [params.n_prompts], kept by rf_embed_scores */
    struct rf_embed_private *own;
};

typedef struct rf_embeds_opts {
    rf_engine *engine;
    rf_metrics *metrics;
    const char *model;
    uint32_t max_waiting; /* tasks in the queue */
} rf_embeds_opts;
RF_CHECKED rf_status rf_embeds_create(rf_embeds **out, const rf_embeds_opts *opts, rf_error *e);
void rf_embeds_free(rf_embeds *all); /* no task may be open; NULL is fine */
/* Queues a task; takes *params and the texts' ids (both are empty afterwards, also on failure).  False:
 * e says why. */
bool rf_embeds_start(rf_embeds *all, const rf_embed_writer *writer, const char *request_id,
                     rf_params *params, rf_ids *texts, rf_outbox *out, rf_api_error *e);
/* The engine's thread, between steps: works on some texts of one task; false: there is none. */
bool rf_embeds_step(rf_embeds *all);
void rf_embeds_refuse_new(rf_embeds *all);
void rf_embeds_cancel_all(rf_embeds *all); /* each ends at its turn */
uint32_t rf_embeds_n_open(rf_embeds *all);
