/* logprobs.h - files of a model's log-probabilities over a text, to compare other models with.
 *
 * The format of llama.cpp's --kl-divergence-base: "_logits_", i32 n_ctx, n_vocab, n_chunks, the
 * tokens i32 [n_chunks][n_ctx], then for every scored position f32 step, f32 lowest and u16
 * [n_vocab] (one more when that is odd): log p = lowest + step * code.  A code of 0 may stand for
 * anything less, so what is not above RF_LOGPROBS_FLOOR counts as impossible. */
#pragma once
#include "base/buf.h"
#include "base/os.h"

#define RF_LOGPROBS_FLOOR (-16.0f)

/* Positions of a chunk that are scored: those of its second half whose next token is known. */
static inline uint32_t rf_scored_first(uint32_t n_ctx) { return n_ctx / 2; }
static inline uint32_t rf_scored(uint32_t n_ctx) { return n_ctx - 1 - n_ctx / 2; }

typedef struct rf_logprobs rf_logprobs;
RF_CHECKED rf_status rf_logprobs_open(rf_logprobs **out, const char *path, rf_error *e);
void rf_logprobs_close(rf_logprobs *f); /* NULL is fine */
uint32_t rf_logprobs_n_ctx(const rf_logprobs *f);
uint32_t rf_logprobs_n_vocab(const rf_logprobs *f);
uint32_t rf_logprobs_n_chunks(const rf_logprobs *f);
void rf_logprobs_tokens(const rf_logprobs *f, rf_ids *out); /* appends all of them */
/* Scored position i of a chunk: out[n_vocab]. */
void rf_logprobs_row(const rf_logprobs *f, uint32_t chunk, uint32_t i, float *out);

/* Writing: the head, then every row in order, through an rf_outfile of the caller's. */
RF_CHECKED rf_status rf_logprobs_put_head(rf_outfile *file, uint32_t n_ctx, uint32_t n_vocab,
                                          uint32_t n_chunks, const int32_t *tokens, rf_error *e);
/* row: n_vocab + 5 codes of scratch. */
RF_CHECKED rf_status rf_logprobs_put_row(rf_outfile *file, const float *logits, uint32_t n_vocab,
                                         double log_sum, uint16_t *row, rf_error *e);
