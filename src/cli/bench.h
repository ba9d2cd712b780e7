/* bench.h - what the files of `rocmforge bench` share: tests, their results, and the machine's
 * peaks.  cmd_bench.c measures, bench_peer.c runs another engine's program, bench_report.c and
 * bench_plot.c write. */
#pragma once
#include "base/probe.h"
#include "cli/session.h"

enum { RF_BENCH_MAX_TESTS = 256, RF_BENCH_MAX_LENGTH = 1 << 20 };

typedef struct rf_bench_rates {
    double *each; /* [n_reps] tokens per second */
    double median, min, max;
} rf_bench_rates;

typedef struct rf_bench_test {
    bool is_prompt; /* ppN, else tgN */
    uint32_t n, depth, streams;
    int threads;
    rf_bench_rates ours, peer;      /* peer.each NULL: not compared */
    double ratio;                   /* median of the rounds' ratios to the peer */
    uint32_t n_drafted, n_accepted; /* guesses of a run, and those that were right */
    double bytes, ops; /* read from weights and multiplied, per second, at the median */
    double intensity;  /* operations per byte of weights read */
} rf_bench_test;

/* What a model's matrices cost. */
typedef struct rf_bench_model {
    uint64_t token_bytes;        /* of weights that a step with one token reads */
    uint64_t layer_ops, out_ops; /* of a token: in all layers, and for its logits */
    bool is_float;               /* most weights are multiplied as floats */
} rf_bench_model;
RF_CHECKED rf_status rf_bench_read_model(rf_bench_model *out, const char *path, rf_error *e);

typedef struct rf_bench {
    rf_cli *c;
    const char *path, *peer; /* the model's file; the other program, or NULL */
    rf_engine *en;
    int open_threads; /* of en */
    rf_engine_info info;
    char model_name[256], backend[1024];
    rf_bench_model model;
    rf_bench_test tests[RF_BENCH_MAX_TESTS];
    size_t n_tests, n_reps;
    rf_probe peak[RF_BENCH_MAX_TESTS]; /* per test, for its threads; 0: not known */
    uint32_t round; /* a different prompt each time, so that no prefix is reused by chance */
} rf_bench;

/* "pp512", "tg128 @ d4096, 8 streams, 2 threads" */
void rf_bench_name(const rf_bench *b, const rf_bench_test *t, char *out, size_t cap);
/* The peak of multiplication that counts for the model: int8, or f32. */
double rf_bench_peak_ops(const rf_bench *b, size_t i);

/* One run of a test by a program that takes the arguments of llama-bench and answers its JSON. */
RF_CHECKED rf_status rf_bench_run_peer(const rf_bench *b, const rf_bench_test *t, double *rate,
                                       rf_error *e);

void rf_bench_markdown(const rf_bench *b, rf_buf *out);
void rf_bench_csv(const rf_bench *b, rf_buf *out);
void rf_bench_json(const rf_bench *b, rf_buf *out);
/* The roofline of the last test's threads, with every test on it, as SVG. */
void rf_bench_plot(const rf_bench *b, rf_buf *out);
