/* engine.h - the engine's own struct, for the files that make it up: engine.c opens, closes and answers
 * calls, step.c turns requests into batches.
 *
 * The stepping thread owns everything but the list of requests, which a mutex guards: any thread
 * may append to it (submit) or flag an entry (cancel); only the stepping thread removes entries.
 * The list begins with the requests that have started, in the order of their start, of which the
 * first ones run: KV blocks are taken as tokens come, and when they run out the last running request
 * waits again, keeping all but its blocks (of which swap.h may keep copies).  Behind them are those
 * that fair.h chooses from. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "backend/split.h"
#include "engine/embed.h"
#include "engine/kv.h"
#include "engine/prompt.h"
#include "engine/request.h"
#include "engine/sched.h"
#include "engine/spec.h"
#include "engine/states.h"
#include "grammar/grammar.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_engine_arrays { /* what a batch points to, sized once for the limits */
    int32_t *token;
    uint32_t *pos, *seq_start, *kv_len, *n_prefix, *state, *table, *out_row;
    rf_sched_seq *sched;
    /* NULL in the next three: ended since. */
    rf_request **running; /* [max_seqs] in order of their start */
    rf_request **output;  /* [max_outputs] whose logits row i is */
    rf_request **behind;  /* [max_seqs] likewise, of the run that follows */
    rf_by_best *by_best;  /* [max_outputs] what of the row that request does with */
    rf_noise *noise;      /* [max_outputs] of the row */
    rf_choice *choice;    /* [max_outputs] */
} rf_engine_arrays;

struct rf_engine {
    rf_gguf *file; /* owned here when vocab_only, else by the model */
    rf_model *model;
    rf_tokenizer *tokenizer;
    rf_plan *plan;
    const rf_backend_ops *ops;
    rf_backend *backend;
    rf_exec *exec; /* plan, exec and kv serve requests: NULL for an encoder, which takes none */
    rf_kv *kv;
    rf_states *states; /* NULL: no layer keeps a state */
    rf_swap swap;
    char state_model[RF_SHA256_HEX]; /* for saved states; empty until the first one */
    rf_spec_opts spec_opts;
    rf_spec *spec;         /* NULL: no guesses */
    rf_embedder *embedder; /* of an encoder; of a decoder from the first call on */
    rf_limits limits;
    uint32_t n_ctx, table_stride;
    uint32_t most_outputs; /* rows of logits that a step may want, however few its rows are */
    /* Of the step that is being made; of a run that follows it, queued behind; is that one the next step? */
    uint32_t n_running, n_outputs, n_behind;
    bool is_begun;
    uint64_t began_us, ended_us; /* of the latest step */
    rf_sched_pace pace;          /* see itl_target_ms */
    uint32_t n_faults;           /* of the device, since a step last went well */
    atomic_uint kv_free;         /* for rf_engine_get_info on any thread */
    bool stepping;
    rf_engine_arrays a;
    rf_events events; /* of the latest step */
    rf_ids end_tokens;
    rf_prompter prompter;
    rf_buf name, arch, chat_template;
    char backend_text[1024];
    rf_split split;       /* its one stage, or several */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work;  /* a request came, or woken was set */
    rf_request *first;
    rf_fair fair;
    uint64_t next_id;
    bool woken;
    pthread_mutex_t index_lock;  /* guards token_index until it is made */
    rf_token_index *token_index; /* of the grammars; NULL until the first one */
    rf_kv_stats kv_stats;        /* as of the latest step */
    rf_swap swap_seen;           /* likewise */
    uint64_t n_preemptions, n_drafted, n_accepted;
};

/* Tells other threads how many KV blocks are free, and what became of them. */
void rf_engine_note_free(rf_engine *en);
/* Brings a device back after a fault: what it held is gone, running requests wait to compute their
 * tokens again.  *fault gets the words of what had failed. */
bool rf_engine_revive(rf_engine *en, rf_error *fault);
/* A batch of no rows over the engine's arrays. */
rf_batch rf_engine_empty_batch(rf_engine *en);

#ifdef __cplusplus
}
#endif
