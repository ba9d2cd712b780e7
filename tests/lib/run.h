/* run.h - running a model on any backend in a test: open, feed token rows, compare logits.
 *
 * A failure of any call fails the running test.  The KV blocks of sequence s are s, s + n_seqs, ...
 * so that sequences interleave in the pool and a table that is ignored shows. */
#pragma once
#include "backend/backend.h"
#include "lib/testlib.h"

typedef struct rf_test_run {
    const rf_backend_ops *ops;
    rf_model *model; /* owned when opened from a path */
    bool owns_model;
    rf_plan *plan;
    rf_backend *backend;
    rf_exec *exec;
    rf_limits limits;
    uint32_t table_stride;
    uint32_t *table;   /* [max_seqs][table_stride] */
    uint32_t *state;   /* [max_seqs] slots, the last one first */
    const float *mask; /* [rows][mask_stride] of the next batches, for RF_ATTN_CUSTOM */
    uint32_t mask_stride;
    const uint32_t *n_prefix; /* [n_seqs] of the next batches, for RF_ATTN_PREFIX */
} rf_test_run;

typedef struct rf_test_run_opts {
    bool keep_values;
    bool embeddings;  /* hidden states instead of logits: [rows][n_embd] wherever n_vocab stands */
    rf_dtype kv_type; /* 0 is RF_DT_F32 */
    uint32_t n_ctx;   /* tokens per sequence; 0: 512 */
    uint32_t max_tokens; /* rows per batch; 0: 512 */
    uint32_t n_seqs;     /* 0: 1 */
    int n_threads;
} rf_test_run_opts;

void rf_test_run_open(rf_test_run *r, const rf_backend_ops *ops, const char *path,
                      rf_test_run_opts o);
/* The same over a model made by the test, which outlives the run. */
void rf_test_run_model(rf_test_run *r, const rf_backend_ops *ops, rf_model *m, rf_test_run_opts o);
void rf_test_run_close(rf_test_run *r);

/* Rows of several sequences in one batch: n[s] tokens of sequence s from position pos[s] on.
 * Logits of all rows, [sum of n][n_vocab], valid until the next run. */
const float *rf_test_run_batch(rf_test_run *r, uint32_t n_seqs, const uint32_t *n,
                               const uint32_t *pos, const int32_t *const *tokens);
/* A whole text as sequence 0, in chunks of at most chunk rows; out: [n][n_vocab]. */
void rf_test_run_text(rf_test_run *r, const int32_t *tokens, uint32_t n, uint32_t chunk,
                      float *out);

/* max |got - want| / max |want|; NaN when a difference is. */
double rf_test_max_diff(const float *got, const float *want, size_t n);

/* Token ids from a text of numbers; the count is returned. */
uint32_t rf_test_read_tokens(const char *path, int32_t *out, uint32_t cap);
