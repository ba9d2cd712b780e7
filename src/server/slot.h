/* slot.h - one loaded model: its engine, the thread that steps it, and the work that it was given.
 *
 * HTTP threads tokenize and submit, the slot's thread steps the engine and sleeps when there is nothing
 * to do.  Nobody but this thread steps, and nobody but the registry (models.h) opens and closes. */
#pragma once
#include "rocmforge.h"
#include "server/embed.h"
#include "server/job.h"

typedef struct rf_slot_opts {
    const char *name;        /* the model's, in answers; outlives the slot, as the texts below do */
    rf_engine_opts engine;   /* model_path: the file */
    const char *chat_format; /* NULL: the model's own template */
    const char *tool_format; /* how the model writes tool calls; NULL: as its template says */
    rf_metrics *metrics;     /* the model's; outlive the slot */
    rf_traces *traces;       /* see rf_jobs_opts */
    uint32_t max_waiting;    /* answers in the queue */
    uint32_t ping_seconds;
} rf_slot_opts;

typedef struct rf_slot {
    rf_slot_opts o;
    rf_engine *engine;
    rf_engine_info info;
    rf_reply_format format;
    rf_jobs *jobs;
    rf_embeds *embeds;
    struct rf_slot_private *own;
} rf_slot;

RF_CHECKED rf_status rf_slot_open(rf_slot **out, const rf_slot_opts *opts, rf_error *e);
uint64_t rf_slot_bytes(const rf_slot *s); /* weights, KV cache and scratch */
uint32_t rf_slot_n_open(rf_slot *s);      /* answers and embeddings not over */
void rf_slot_refuse_new(rf_slot *s);      /* the server is stopping */
/* Cancels what is still running and waits for its end; the engine is not stepped any more. */
void rf_slot_stop(rf_slot *s);
void rf_slot_close(rf_slot *s); /* stops; no answer may be on its way to a client.  NULL is fine */
