/* request.h - one request's life: its tokens, its sampler, its text on the way out.
 *
 * Knows nothing of batches or devices.  The engine owns requests; all functions are called by the
 * stepping thread, except rf_request_create and rf_request_choose. */
#pragma once
#include <stdatomic.h>

#include "base/buf.h"
#include "engine/events.h"
#include "engine/fair.h"
#include "engine/kv.h"
#include "engine/ngram.h"
#include "engine/sampler.h"
#include "engine/states.h"
#include "engine/swap.h"
#include "grammar/grammar.h"
#include "text/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_DRAFT_MAX = 64, RF_DRAFT_MODEL = 4, RF_DRAFT_SOURCES };
/* Guesses of its next tokens, which spec.h and drafter.h keep.  Sources are the lengths of runs of
 * ngram.h, then the draft model. */
typedef struct rf_draft {
    int32_t tokens[RF_DRAFT_MAX + 1]; /* [n] */
    uint32_t n, n_rows;               /* n_rows: of them, those in the batch */
    uint32_t from;                    /* tokens that the request had before them */
    uint32_t source, rival_source;
    int32_t rival;                  /* first guess of the source that was not taken */
    bool has_rival, started;        /* started: chance is set */
    float chance[RF_DRAFT_SOURCES]; /* that a guess is right if those before it are */
    uint32_t n_drafted, n_accepted; /* rows, in all */
    rf_ngram ngram;
    rf_kv_seq kv; /* the draft model's, whose first n_fed tokens are computed */
    uint32_t n_fed;
} rf_draft;

/* A row of logits as it comes from the device: whole, or what is best in it alone. */
typedef struct rf_logits {
    const float *row;    /* [n_vocab], or NULL */
    const rf_best *best; /* or NULL */
} rf_logits;

/* The next token, and where its event has log-probabilities those. */
typedef struct rf_choice {
    rf_status status;
    int32_t token;
    size_t n_top;
    rf_token_prob chosen, top[RF_EVENT_TOP]; /* [n_top] */
} rf_choice;

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
    rf_events *events;   /* where its events wait; NULL: they are told at once */
    rf_matcher *matcher; /* NULL: no grammar */
    uint32_t *mask;      /* [(n_vocab + 31) / 32] with a grammar */
    rf_buf fed;          /* the bytes of the latest token, for the matcher */
    rf_ids tokens;       /* prompt, then answer */
    uint32_t n_prompt, n_cached; /* n_cached: of the prompt, found in the cache at first */
    uint32_t n_prefix;           /* of the prompt, attended both ways and so computed in one step */
    uint32_t n_done, max_total;  /* computed and in the KV cache; tokens that it may ever have */
    rf_kv_seq kv;
    rf_stateful st;
    rf_swapped swapped; /* of a preempted request */
    rf_draft draft;
    struct { /* looking ahead, see below */
        bool is_on;
        uint32_t n; /* tokens taken */
        rf_sampler_mark mark;
        rf_matcher *matcher;
    } ahead;
    rf_buf *stops; /* [n_stops] */
    size_t n_stops;
    rf_detok detok;
    rf_buf held;                          /* text that could still turn into a stop string */
    uint64_t start_us, first_us, last_us; /* began, at first; first token; latest token */
} rf_request;

/* Checks and copies the options.  n_ctx: tokens it may hold. */
RF_CHECKED rf_status rf_request_create(rf_request **out, const rf_request_opts *o,
                                       const rf_tokenizer *t, uint32_t n_ctx, rf_error *e);
void rf_request_free(
    rf_request *r); /* KV blocks and copies must be given back before; NULL is fine */

/* What of a row it usually does with, for the token behind its next n_ahead ones; and that row's noise. */
rf_by_best rf_request_by_best(const rf_request *r, uint32_t n_ahead);
rf_noise rf_request_noise(const rf_request *r, uint32_t n_ahead);
/* Chooses the next token from a row of logits [n_vocab]; on any thread, other requests beside it.
 * out->status: RF_EARG: no token can be chosen; RF_EFULL: the grammar's matcher met a limit;
 * RF_EUNSUPPORTED: only the whole row can tell, nothing has changed.  end_tokens: [n_end]. */
void rf_request_choose(rf_request *r, rf_logits logits, uint32_t n_vocab, const int32_t *end_tokens,
                       size_t n_end, rf_choice *out);
/* Appends what was chosen and tells of it; else its status.  *finish says whether and why the request is
 * over. */
RF_CHECKED rf_status rf_request_advance(rf_request *r, const rf_choice *c,
                                        const int32_t *end_tokens, size_t n_end, rf_finish *finish);
/* Looking ahead: choosing and taking tokens that nobody hears of, until looking back undoes it.  take
 * says RF_EARG where the grammar forbids the token or it would end the text. */
RF_CHECKED rf_status rf_request_look_ahead(rf_request *r);
RF_CHECKED rf_status rf_request_ahead_pick(rf_request *r, const float *logits,
                                           const int32_t *end_tokens, size_t n_end, int32_t *token);
RF_CHECKED rf_status rf_request_ahead_take(rf_request *r, int32_t token, const int32_t *end_tokens,
                                           size_t n_end);
void rf_request_look_back(rf_request *r); /* also one that did not look ahead */
/* Ends the request: the last event, with whatever text was held back (and error, may be NULL). */
void rf_request_end(rf_request *r, rf_finish finish, const char *error);

#ifdef __cplusplus
}
#endif
