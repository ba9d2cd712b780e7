/* score.c - perplexity, Kullback-Leibler divergence and their errors. */
#include "cli/score.h"

#include <math.h>
#include <stdlib.h>

void rf_score_free(rf_score *s) {
    rf_free(s->kl);
    rf_free(s->delta);
    *s = (rf_score){0};
}

double rf_log_sum_exp(const float *logits, size_t n) {
    double top = -HUGE_VAL, sum = 0;
    for (size_t i = 0; i < n; i++)
        if (!((double)logits[i] <= top)) top = (double)logits[i];
    for (size_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - top);
    return top + log(sum);
}

static rf_status make_room(rf_score *s, rf_error *e) {
    if (s->n < s->cap) return RF_OK;
    size_t cap = s->cap ? 2 * s->cap : 1024;
    void *kl = rf_realloc(s->kl, s->cap, cap, sizeof *s->kl);
    if (kl) s->kl = kl;
    void *delta = kl ? rf_realloc(s->delta, s->cap, cap, sizeof *s->delta) : NULL;
    if (!delta) return rf_fail_nomem(e, cap * sizeof *s->kl);
    s->delta = delta;
    s->cap = cap;
    return RF_OK;
}

/* sum over p_base (log p_base - log p), and whether both have the same likeliest token. */
static double divergence(size_t n, rf_score_row row, rf_score_row base, float floor,
                         bool *same_top) {
    double sum = 0;
    size_t top = 0, base_top = 0;
    for (size_t i = 0; i < n; i++) {
        double log_p = (double)base.x[i] - base.log_sum;
        double p = log_p > (double)floor ? exp(log_p) : 0;
        if (row.x[i] > row.x[top]) top = i;
        if (base.x[i] > base.x[base_top]) base_top = i;
        if (p > 0) sum += p * (log_p - ((double)row.x[i] - row.log_sum));
    }
    *same_top = top == base_top;
    return sum;
}

rf_status rf_score_add(rf_score *s, size_t n, rf_score_row row, rf_score_row base, int32_t next,
                       rf_error *e) {
    double log_p = (double)row.x[next] - row.log_sum;
    if (base.x) {
        bool same_top;
        double base_log_p = (double)base.x[next] - base.log_sum;
        RF_TRY(make_room(s, e));
        s->kl[s->n] = (float)divergence(n, row, base, s->floor, &same_top);
        s->delta[s->n] = (float)(exp(log_p) - exp(base_log_p));
        s->n_same_top += same_top;
        s->base_nll -= base_log_p;
        s->base_nll2 += base_log_p * base_log_p;
        s->product += log_p * base_log_p;
    }
    s->nll -= log_p;
    s->nll2 += log_p * log_p;
    s->n++;
    return RF_OK;
}

/* ---- what comes out ---- */

/* Mean of n values with these sums, and the error of that mean. */
static rf_estimate mean_of(double sum, double squares, size_t n) {
    double mean = sum / (double)n, variance = squares / (double)n - mean * mean;
    bool has_error = n > 1 && variance > 0;
    return (rf_estimate){mean, has_error ? sqrt(variance / (double)(n - 1)) : 0};
}

static rf_estimate exponential(rf_estimate log_value) {
    double value = exp(log_value.value);
    return (rf_estimate){value, value * log_value.error};
}

rf_estimate rf_score_perplexity(const rf_score *s) {
    return exponential(mean_of(s->nll, s->nll2, s->n));
}

rf_estimate rf_score_base_perplexity(const rf_score *s) {
    return exponential(mean_of(s->base_nll, s->base_nll2, s->n));
}

rf_estimate rf_score_log_ratio(const rf_score *s) {
    return mean_of(s->nll - s->base_nll, s->nll2 + s->base_nll2 - 2 * s->product, s->n);
}

static rf_estimate mean_of_array(const float *v, size_t n) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)v[i];
        squares += (double)v[i] * (double)v[i];
    }
    return mean_of(sum, squares, n);
}

rf_estimate rf_score_kl(const rf_score *s) { return mean_of_array(s->kl, s->n); }
rf_estimate rf_score_delta(const rf_score *s) { return mean_of_array(s->delta, s->n); }

double rf_score_delta_rms(const rf_score *s) {
    double squares = 0;
    for (size_t i = 0; i < s->n; i++)
        squares += (double)s->delta[i] * (double)s->delta[i];
    return sqrt(squares / (double)s->n);
}

rf_estimate rf_score_same_top(const rf_score *s) {
    return mean_of((double)s->n_same_top, (double)s->n_same_top, s->n);
}

static int ascending(const void *a, const void *b) {
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void rf_score_sort(rf_score *s) {
    if (!s->kl) return; /* no reference */
    qsort(s->kl, s->n, sizeof *s->kl, ascending);
    qsort(s->delta, s->n, sizeof *s->delta, ascending);
}

double rf_quantile(const float *sorted, size_t n, double p) {
    double at = p * (double)(n - 1);
    size_t i = (size_t)at;
    if (i + 1 >= n) return (double)sorted[n - 1];
    double part = at - (double)i;
    return (double)sorted[i] * (1 - part) + (double)sorted[i + 1] * part;
}
