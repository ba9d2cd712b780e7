/* session.h - a model on a backend, and batches made of a few sequences, for the backend tests.
 *
 * A session owns plan, backend and exec; the model is the caller's and may serve several sessions. */
#pragma once
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "lib/testlib.h"
#include "model/model.h"

enum { SESSION_BLOCKS = 16, SESSION_SEQS = 8, SESSION_ROWS = 96 };

typedef struct session_opts { /* start from session_defaults() */
    const rf_backend_ops *ops;
    rf_isa isa; /* of the CPU backend */
    int n_threads;
    const rf_nodes *nodes; /* of the CPU backend; NULL: the machine's */
    bool keep_values;
    uint32_t spare_percent; /* of the GPU backend */
    rf_limits limits;
    const rf_attn_pattern *patterns; /* NULL, or one per layer instead of the model's own */
    uint32_t n_patterns;
} session_opts;

typedef struct session {
    const rf_backend_ops *ops;
    rf_plan *p;
    rf_backend *b;
    rf_exec *x;
    rf_limits limits;
    uint32_t n_vocab;
} session;

static inline session_opts session_defaults(void) {
    return (session_opts){.ops = &rf_cpu_ops,
                          .isa = rf_isa_best(),
                          .n_threads = 2,
                          .limits = {.max_tokens = SESSION_ROWS,
                                     .max_seqs = 8,
                                     .max_outputs = SESSION_ROWS,
                                     .n_kv_blocks = 32,
                                     .n_states = 16,
                                     .k_type = RF_DT_F32,
                                     .v_type = RF_DT_F32}};
}

static inline void must(rf_status s, const rf_error *e) {
    if (s != RF_OK) fail_msg("%s: %s", rf_status_name(s), e->text);
}

static inline rf_model *open_model(const char *path) {
    rf_error e = {0};
    rf_model *m = NULL;
    must(rf_model_open(&m, path, &e), &e);
    return m;
}

/* The CPU backend takes its instruction set from the environment, as a user would set it. */
static inline rf_status open_backend(const session_opts *o, rf_backend **b, rf_error *e) {
    rf_backend_opts opts = {.n_threads = o->n_threads, .nodes = o->nodes};
    assert_int_equal(setenv("RF_CPU", rf_isa_name(o->isa), 1), 0);
    rf_status s = o->ops->open(b, &opts, e);
    assert_int_equal(unsetenv("RF_CPU"), 0);
    return s;
}

/* A machine of n nodes whose processors take turns; it need not have so many. */
static inline rf_nodes nodes_in_turn(int n) {
    rf_nodes nodes = {.n = n};
    for (int i = 0; i < n; i++)
        nodes.cores[i] = 1;
    for (int cpu = 0; cpu < RF_MAX_CPUS; cpu++)
        nodes.of[cpu] = (uint8_t)(cpu % n);
    return nodes;
}

static inline session open_session(const rf_model *m, const session_opts *o) {
    session s = {.ops = o->ops, .limits = o->limits, .n_vocab = m->n_vocab};
    rf_error e = {0};
    rf_plan_opts opts = {.keep_values = o->keep_values};
    must(rf_plan_build(&s.p, m, &opts, &e), &e);
    for (uint32_t i = 0; i < s.p->n_steps && o->patterns; i++) {
        rf_step *step = &s.p->steps[i];
        if (step->op == RF_OP_ATTEND) step->pattern = o->patterns[step->layer % o->n_patterns];
    }
    must(open_backend(o, &s.b, &e), &e);
    must(o->ops->compile(&s.x, s.b, s.p, &o->limits, &e), &e);
    return s;
}

static inline void close_session(session *s) {
    s->ops->exec_free(s->x);
    s->ops->close(s->b);
    rf_plan_free(s->p);
}

/* A sequence of tokens on its way through the model. */
typedef struct sequence {
    const int32_t *token; /* [n] */
    uint32_t n, done;
    uint32_t table[SESSION_BLOCKS];
    uint32_t state; /* its slot, where there are several sequences */
} sequence;

/* A batch with its arrays. */
typedef struct batch {
    rf_batch b;
    int32_t token[SESSION_ROWS];
    uint32_t pos[SESSION_ROWS], start[SESSION_SEQS + 1], kv_len[SESSION_SEQS];
    uint32_t table[SESSION_SEQS][SESSION_BLOCKS], out_row[SESSION_ROWS], state[SESSION_SEQS];
} batch;

static inline void batch_clear(batch *b) {
    memset(b, 0, sizeof *b);
    b->b = (rf_batch){.table_stride = SESSION_BLOCKS,
                      .token = b->token,
                      .pos = b->pos,
                      .seq_start = b->start,
                      .kv_len = b->kv_len,
                      .table = b->table[0],
                      .out_row = b->out_row,
                      .state = b->state};
}

/* The next n tokens of s as one more sequence of the batch; its blocks are in s->table. */
static inline void batch_add(batch *b, const sequence *s, uint32_t n) {
    uint32_t q = b->b.n_seqs++;
    assert_true(q < SESSION_SEQS && b->b.n_tokens + n <= SESSION_ROWS && s->done + n <= s->n);
    for (uint32_t i = 0; i < n; i++) {
        b->token[b->b.n_tokens] = s->token[s->done + i];
        b->pos[b->b.n_tokens++] = s->done + i;
    }
    b->start[q + 1] = b->b.n_tokens;
    b->kv_len[q] = s->done + n;
    b->state[q] = s->state;
    memcpy(b->table[q], s->table, sizeof s->table);
}

static inline void batch_want(batch *b, uint32_t row) { b->out_row[b->b.n_outputs++] = row; }

static inline void batch_want_all(batch *b) {
    for (uint32_t i = 0; i < b->b.n_tokens; i++)
        batch_want(b, i);
}

static inline const float *batch_run(session *s, batch *b) {
    rf_error e = {0};
    const float *logits = NULL;
    must(s->ops->run(s->x, &b->b, &e), &e);
    assert_int_equal(s->ops->wait(s->x, &logits), RF_OK);
    assert_non_null(logits);
    return logits;
}

/* The logits of every row of one sequence, chunk tokens at a time: [n][n_vocab], rf_free it. */
static inline float *logits_of(session *s, const int32_t *token, uint32_t n, uint32_t chunk) {
    float *all = (float *)rf_alloc((size_t)n * s->n_vocab, sizeof *all);
    assert_non_null(all);
    sequence q = {.token = token, .n = n};
    for (uint32_t i = 0; i < SESSION_BLOCKS; i++)
        q.table[i] = i;
    while (q.done < n) {
        uint32_t rows = n - q.done < chunk ? n - q.done : chunk;
        batch b;
        batch_clear(&b);
        batch_add(&b, &q, rows);
        batch_want_all(&b);
        const float *logits = batch_run(s, &b);
        memcpy(all + (size_t)q.done * s->n_vocab, logits, sizeof *all * rows * s->n_vocab);
        q.done += rows;
    }
    return all;
}

/* Largest difference, as a share of the largest magnitude of want. */
static inline double relative_difference(const float *got, const float *want, size_t n) {
    double worst = 0, scale = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        if (!(d <= worst)) worst = d; /* NaN counts as the worst */
        scale = fmax(scale, fabs((double)want[i]));
    }
    return worst == 0 ? 0 : worst / scale;
}

static inline void random_tokens(int32_t *out, uint32_t n, uint32_t n_vocab, uint64_t *seed) {
    for (uint32_t i = 0; i < n; i++)
        out[i] = (int32_t)(rf_test_rand(seed) % n_vocab);
}
