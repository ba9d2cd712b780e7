/* sampler.h - one request's choice of the next token from a row of logits.
 *
 * Pure but for its own history: the result depends on the options, the tokens seen and the logits
 * alone.  The nth draw is made of the noise that (seed, n) gives each token (backend/noise.h), so neither
 * batch nor thread nor device can change it.  What comes before the draw is computed in double with
 * base/fmath.h; ties go to the lowest id. */
#pragma once
#include "backend/best.h"
#include "base/base.h"
#include "rocmforge.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_sampler rf_sampler;
/* Checks the options: RF_EARG names the field, its range and what was given.  Copies logit_bias. */
RF_CHECKED rf_status rf_sampler_create(rf_sampler **out, const rf_sampling *o, uint32_t n_vocab,
                                       rf_error *e);
void rf_sampler_free(rf_sampler *s);
/* Tells the sampler of a token of the prompt or of the answer, in order.  For penalties and DRY. */
RF_CHECKED rf_status rf_sampler_accept(rf_sampler *s, int32_t token);
/* Tokens that end a DRY match (newlines, quotes, ...); ids are copied. */
RF_CHECKED rf_status rf_sampler_set_breakers(rf_sampler *s, const int32_t *ids, size_t n);
/* From now on only tokens whose bit is set can be chosen (token i: bit i % 32 of word i / 32);
 * borrowed; NULL: all. */
void rf_sampler_set_mask(rf_sampler *s, const uint32_t *mask);
/* Going back: undoes every rf_sampler_accept and rf_sampler_pick since the mark was taken. */
typedef struct rf_sampler_mark {
    size_t n_history;
    double mu;
} rf_sampler_mark;
rf_sampler_mark rf_sampler_get_mark(const rf_sampler *s);
void rf_sampler_go_back(rf_sampler *s, rf_sampler_mark mark);
/* The next token.  logits: [n_vocab], left unchanged.  Banned tokens (n_banned ids, e.g. end tokens
 * before min_tokens) cannot be chosen.  RF_EARG when nothing can be chosen (all -inf or NaN).
 * counter: the index of this draw. */
RF_CHECKED rf_status rf_sampler_pick(rf_sampler *s, const float *logits, const int32_t *banned,
                                     size_t n_banned, uint64_t counter, int32_t *token);
/* Does the largest logit decide, of those that may be chosen? */
bool rf_sampler_is_greedy(const rf_sampler *s);
/* What of a row does, with these options, where tokens may be banned or masked or are not; and the same
 * choice from that; false: only the whole row can tell, nothing has changed. */
rf_by_best rf_sampler_by_best(const rf_sampler *s, bool may_forbid);
/* Of draw number `counter`, for devices that tell the first of a row; none where that is not enough. */
rf_noise rf_sampler_noise(const rf_sampler *s, uint64_t counter);
bool rf_sampler_pick_best(rf_sampler *s, const rf_best *best, const int32_t *banned,
                          size_t n_banned, uint64_t counter, int32_t *token);
/* ln softmax(logits)[token], and the n likeliest tokens (ties: lowest id first). */
float rf_logprob(const float *logits, uint32_t n_vocab, int32_t token);
RF_CHECKED rf_status rf_top_logprobs(const float *logits, uint32_t n_vocab, size_t n,
                                     rf_token_prob *out);

#ifdef __cplusplus
}
#endif
