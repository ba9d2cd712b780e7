/* score.h - how well probabilities predict a text, and how far they are from a reference's.
 *
 * One row of logits after the other; sums are in double.  Per scored token 8 bytes are kept when
 * there is a reference, for the percentiles. */
#pragma once
#include "base/buf.h"

typedef struct rf_score { /* start from {0} */
    float floor;          /* log-probabilities of the reference up to here mean impossible */
    size_t n;             /* tokens scored */
    double nll, nll2;     /* sums of -log p and of its square */
    double base_nll, base_nll2, product; /* of the reference; product: of both */
    size_t n_same_top;
    float *kl, *delta; /* [n], of cap: divergence; p - p of the reference */
    size_t cap;
} rf_score;
void rf_score_free(rf_score *s);

/* log of the sum of exp(logits); not finite when there is no distribution. */
double rf_log_sum_exp(const float *logits, size_t n);
/* One position's probabilities: log p[i] = x[i] - log_sum. */
typedef struct rf_score_row {
    const float *x; /* [n]; NULL: none */
    double log_sum;
} rf_score_row;
/* n: the vocabulary; next: the token that the text goes on with; base: the reference's. */
RF_CHECKED rf_status rf_score_add(rf_score *s, size_t n, rf_score_row row, rf_score_row base,
                                  int32_t next, rf_error *e);

/* An estimate and its standard error. */
typedef struct rf_estimate {
    double value, error;
} rf_estimate;
rf_estimate rf_score_perplexity(const rf_score *s);
/* With a reference: */
rf_estimate rf_score_base_perplexity(const rf_score *s);
rf_estimate rf_score_log_ratio(const rf_score *s); /* ln of perplexity over the reference's */
rf_estimate rf_score_kl(const rf_score *s);
rf_estimate rf_score_delta(const rf_score *s);
double rf_score_delta_rms(const rf_score *s);
rf_estimate rf_score_same_top(const rf_score *s);
/* Sorts kl and delta: call once, last.  Then quantiles, 0 <= p <= 1, between neighbours linearly. */
void rf_score_sort(rf_score *s);
double rf_quantile(const float *sorted, size_t n, double p);
