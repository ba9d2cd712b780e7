/* request.h - one request's life: its tokens, its sampler, its text on the way out.
 *
 * Knows nothing of batches or devices.  The engine owns requests; all functions are called by the
 * stepping thread, except rf_request_create. */
#pragma once
#include <stdatomic.h>

#include "base/buf.h"
#include "engine/fair.h"
#include "engine/kv.h"
#include "engine/sampler.h"
#include "grammar/grammar.h"
#include "text/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_request {
    struct rf_request *next; /* in the engine's list */
    uint64_t id;
    rf_fair_ticket ticket; /* the engine's lock guards it */
    uint64_t deadline_us;  /* rf_time_us; UINT64_MAX: none */
    atomic_bool cancelled;
    bool running; /* may hold KV blocks; a waiting request has none */
    const rf_tokenizer *tokenizer;
    rf_sampler *sampler;
    rf_request_opts o;   /* tokens, stop and logit_bias are not valid in here: copied below */
    rf_matcher *matcher; /* NULL: no grammar */
    uint32_t *mask;      /* [(n_vocab + 31) / 32] with a grammar */
    rf_buf fed;          /* the bytes of the latest token, for the matcher */
    rf_ids tokens;       /* prompt, then answer */
    uint32_t n_prompt, n_cached; /* n_cached: of the prompt, found in the cache at first */
    uint32_t n_done, max_total;  /* computed and in the KV cache; tokens that it may ever have */
    rf_kv_seq kv;
    rf_buf *stops; /* [n_stops] */
    size_t n_stops;
    rf_detok detok;
    rf_buf held;                          /* text that could still turn into a stop string */
    uint64_t start_us, first_us, last_us; /* began, at first; first token; latest token */
} rf_request;

/* Checks and copies the options.  n_ctx: tokens it may hold. */
RF_CHECKED rf_status rf_request_create(rf_request **out, const rf_request_opts *o,
                                       const rf_tokenizer *t, uint32_t n_ctx, rf_error *e);
void rf_request_free(rf_request *r); /* the KV blocks must be released before; NULL is fine */

/* Chooses the next token from a row of logits [n_vocab], appends it and tells the callback.  RF_EARG:
 * no token can be chosen; RF_EFULL: the grammar's matcher met a limit.
 * end_tokens: [n_end].  *finish says whether and why the request is over. */
RF_CHECKED rf_status rf_request_advance(rf_request *r, const float *logits, uint32_t n_vocab,
                                        const int32_t *end_tokens, size_t n_end, rf_finish *finish);
/* Ends the request: the last event, with whatever text was held back (and error, may be NULL). */
void rf_request_end(rf_request *r, rf_finish finish, const char *error);

#ifdef __cplusplus
}
#endif
