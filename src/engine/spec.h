/* spec.h - speculation: guesses of a request's next tokens, which the model then checks in one batch.
 *
 * Guesses come from the request's own text (ngram.h) or from a small model (drafter.h).  The engine puts
 * them into the batch behind the request's last token, lets the request choose from the logits of each
 * row as ever, and goes on only as long as it chooses what was guessed.  So guesses decide how many
 * tokens a step gives, never which.  How many are made follows from how often they were right, and from
 * what else is in the batch: counts alone, no clock.  The stepping thread's. */
#pragma once
#include "engine/drafter.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_spec rf_spec;
typedef struct rf_spec_opts {
    const char *kind;       /* "ngram", "off" (also NULL) */
    const char *draft_path; /* of a draft model; NULL: none */
    uint32_t draft_max;     /* guesses per request and step; 0: 16 */
    uint32_t draft_min;     /* made even where they do not seem to pay */
} rf_spec_opts;

/* The options, checked and completed.  Returns the rows of logits per step that guesses may take beside
 * those of max_seqs requests; 0: there will be no guesses. */
RF_CHECKED rf_status rf_spec_check_opts(rf_spec_opts *o, uint32_t max_seqs, uint32_t *n_rows,
                                        rf_error *e);
/* *out is NULL where o asks for nothing.  target is borrowed. */
RF_CHECKED rf_status rf_spec_open(rf_spec **out, const rf_spec_opts *o,
                                  const rf_drafter_target *target, rf_error *e);
void rf_spec_free(rf_spec *s);
size_t rf_spec_bytes(const rf_spec *s); /* of the draft model's exec */

/* Sets draft.n_rows of each request [n]: guesses for the batch that is being made, in which each of them
 * computes its last token.  n_rows: rows of it so far; max_rows, max_outputs: its limits. */
void rf_spec_guess(rf_spec *s, rf_request *const *r, uint32_t n, uint32_t n_rows, uint32_t max_rows,
                   uint32_t max_outputs);
/* The request just chose its (j + 1)th token of this step.  True: it is guess j and row j + 1 of its
 * logits tells what follows. */
bool rf_spec_was_right(rf_request *r, uint32_t j);
/* The request gives its KV blocks back, or ends. */
void rf_spec_forget(rf_spec *s, rf_request *r);
/* The device lost all that it held; no request holds KV blocks of the draft model any more. */
void rf_spec_reset(rf_spec *s);

#ifdef __cplusplus
}
#endif
