/* load.h - the load generator behind `bench serve`: what is asked, how it is sent, what is counted.
 *
 * One measurement (rf_load_run) sends a workload to one server and fills an rf_load_result.  Times
 * are the client's: from the moment a request is due to the moment its bytes have been read.  Which
 * server, how results are shown: cmd_bench_serve.c, load_report.c, load_plot.c. */
#pragma once
#include "cli/cli.h"

/* ---- the workload: the same for every server, from the seed alone ---- */

typedef struct rf_load_work {
    bool shared_prefix; /* all prompts begin with the same n_prefix tokens */
    uint32_t n_prefix, n_prompt, n_gen;
    double spread; /* lengths are uniform within n * (1 +- spread) */
    double temperature, top_p;
    uint32_t top_k; /* 0: all; with top_p only said where the temperature is above 0 */
    uint64_t seed;
    double cancel;    /* share of the requests whose client leaves before the answer's end */
    bool as_tokens;   /* prompts are token ids, else text made of words */
    uint32_t n_vocab; /* with as_tokens */
} rf_load_work;

/* Body of request i for model, as JSON.  Requests below n are measured ones, later ones warm up. */
void rf_load_body(const rf_load_work *w, const char *model, uint64_t i, rf_buf *out);
uint32_t rf_load_answer_tokens(const rf_load_work *w, uint64_t i); /* asked of request i */
/* Whether the client of request i leaves: before token *after of the answer has come, 0 being the
 * moment at which the server has taken the request, and nothing of the answer is there. */
bool rf_load_leaves(const rf_load_work *w, uint64_t i, uint32_t *after);
/* Seconds from the start to the arrival of each of n requests: Poisson at so many per second. */
void rf_load_arrivals(const rf_load_work *w, double rate, size_t n, double *out);

/* ---- one measurement ---- */

enum { RF_LOAD_MAX_KINDS = 24 };

typedef struct rf_load_samples { /* milliseconds; start from {0} */
    double *p;
    size_t n, cap;
} rf_load_samples;

typedef struct rf_load_result {
    char url[512], model[256];
    bool as_tokens;
    size_t n_asked, n_sent, n_completed, n_failed, n_cancelled;
    size_t n_warmup, n_warmup_failed;
    size_t n_idle, n_idle_opened, n_idle_kept; /* asked for; there at the start; at the end */
    size_t n_short; /* answers with another number of tokens than asked for */
    struct {
        char kind[48], example[200];
        size_t n;
    } errors[RF_LOAD_MAX_KINDS];
    size_t n_kinds;
    uint64_t prompt_tokens, cached_tokens, output_tokens; /* of completed requests */
    double seconds; /* from the first request to the end of the last one that ended */
    rf_load_samples ttft, itl, tpot, e2e; /* of completed requests; sorted when the run is over */
    bool interrupted;
} rf_load_result;

typedef struct rf_load_opts {
    const rf_cli *cli; /* for the progress bar */
    const char *url;   /* http://HOST:PORT, without a slash at its end */
    const char *key;   /* NULL: none */
    const char *model;
    size_t n_requests, n_warmup;
    uint32_t concurrency; /* requests in flight, where rate is 0 */
    double rate;          /* requests per second that arrive, however many are in flight */
    uint32_t n_idle;      /* connections held open beside them */
    uint32_t timeout_s;   /* of one request */
} rf_load_opts;

/* Fails only for lack of memory; what servers do wrong is in the result. */
RF_CHECKED rf_status rf_load_run(const rf_load_opts *o, const rf_load_work *w, rf_load_result *r,
                                 rf_error *e);
void rf_load_result_free(rf_load_result *r);

/* Connections that are open and do nothing.  Open: one request over each of o->n_idle new ones; those
 * answered are counted, *out is to be closed even after a failure.  Try, once: how many of them answer
 * another request. */
typedef struct rf_load_idle rf_load_idle;
RF_CHECKED rf_status rf_load_idle_open(rf_load_idle **out, const rf_load_opts *o, size_t *n_opened,
                                       rf_error *e);
RF_CHECKED rf_status rf_load_idle_try(rf_load_idle *c, size_t *n_kept, rf_error *e);
void rf_load_idle_close(rf_load_idle *c); /* NULL is fine */

typedef struct rf_load_target {
    char model[256];  /* the first that the server lists, unless one was named */
    uint32_t n_vocab; /* 0: the server does not say */
    bool takes_tokens;
} rf_load_target;
/* Asks the server for its model, vocabulary, and whether it takes token ids (by one request for one
 * token).  model NULL: the server's first.  RF_EIO: nobody answers. */
RF_CHECKED rf_status rf_load_probe(const rf_load_opts *o, const char *model, rf_load_target *t,
                                   rf_error *e);

/* ---- figures ---- */

RF_CHECKED bool rf_load_sample(rf_load_samples *s, double ms);
void rf_load_sort(rf_load_samples *s);
double rf_load_mean(const rf_load_samples *s);
double rf_load_percentile(const rf_load_samples *s, double p); /* nearest rank; sorted; 0 if none */

void rf_load_report_text(const rf_load_result *r, size_t n, rf_buf *out);
void rf_load_report_json(const rf_load_opts *o, const rf_load_work *w, const rf_load_result *r,
                         size_t n, rf_buf *out);
/* An SVG image: cumulative distributions of TTFT and inter-token times, a line per server. */
void rf_load_plot(const rf_load_result *r, size_t n, rf_buf *out);
