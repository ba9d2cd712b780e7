/* run.c - see run.h.  Every call is checked; nothing here decides what is right. */
#include "lib/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void must(rf_status s, const rf_error *e, const char *what) {
    if (s != RF_OK) fail_msg("%s: %s: %s", what, rf_status_name(s), e->text);
}

static void make_table(rf_test_run *r) {
    uint32_t n_seqs = r->limits.max_seqs;
    r->state = rf_alloc(n_seqs, sizeof *r->state);
    assert_non_null(r->state);
    for (uint32_t s = 0; s < n_seqs; s++)
        r->state[s] = n_seqs - 1 - s;
    r->table = rf_alloc((size_t)n_seqs * r->table_stride, sizeof *r->table);
    assert_non_null(r->table);
    for (uint32_t s = 0; s < n_seqs; s++)
        for (uint32_t i = 0; i < r->table_stride; i++)
            r->table[s * r->table_stride + i] = i * n_seqs + s;
}

static void start(rf_test_run *r, rf_test_run_opts o) {
    rf_error e = {0};
    uint32_t n_ctx = o.n_ctx ? o.n_ctx : 512;
    r->limits = (rf_limits){.max_tokens = o.max_tokens ? o.max_tokens : 512,
                            .max_seqs = o.n_seqs ? o.n_seqs : 1,
                            .k_type = o.kv_type,
                            .v_type = o.kv_type};
    r->limits.max_outputs = r->limits.max_tokens;
    r->limits.n_states = r->limits.max_seqs;
    r->table_stride = (n_ctx + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
    r->limits.n_kv_blocks = r->table_stride * r->limits.max_seqs;
    make_table(r);
    rf_backend_opts bo = {.n_threads = o.n_threads};
    rf_plan_opts po = {.keep_values = o.keep_values, .embeddings = o.embeddings, .n_ctx = o.n_ctx};
    must(rf_plan_build(&r->plan, r->model, &po, &e), &e, "plan");
    must(r->ops->open(&r->backend, &bo, &e), &e, "backend");
    must(r->ops->compile(&r->exec, r->backend, r->plan, &r->limits, &e), &e, "compile");
}

void rf_test_run_open(rf_test_run *r, const rf_backend_ops *ops, const char *path,
                      rf_test_run_opts o) {
    rf_error e = {0};
    *r = (rf_test_run){.ops = ops, .owns_model = true};
    must(rf_model_open(&r->model, path, &e), &e, "model");
    start(r, o);
}

void rf_test_run_model(rf_test_run *r, const rf_backend_ops *ops, rf_model *m, rf_test_run_opts o) {
    *r = (rf_test_run){.ops = ops, .model = m};
    start(r, o);
}

void rf_test_run_close(rf_test_run *r) {
    r->ops->exec_free(r->exec);
    r->ops->close(r->backend);
    rf_plan_free(r->plan);
    if (r->owns_model) rf_model_close(r->model);
    rf_free(r->table);
    rf_free(r->state);
}

const float *rf_test_run_batch(rf_test_run *r, uint32_t n_seqs, const uint32_t *n,
                               const uint32_t *pos, const int32_t *const *tokens) {
    uint32_t cap = r->limits.max_tokens, rows = 0;
    int32_t *token = rf_alloc(cap, sizeof *token);
    uint32_t *position = rf_alloc(cap, sizeof *position), *out_row = rf_alloc(cap, sizeof *out_row);
    uint32_t *seq_start = rf_alloc(n_seqs + 1, sizeof *seq_start);
    uint32_t *kv_len = rf_alloc(n_seqs, sizeof *kv_len);
    assert_true(token && position && out_row && seq_start && kv_len);
    for (uint32_t s = 0; s < n_seqs; s++) {
        for (uint32_t i = 0; i < n[s]; i++, rows++) {
            assert_true(rows < cap);
            token[rows] = tokens[s][i];
            position[rows] = pos[s] + i;
            out_row[rows] = rows;
        }
        seq_start[s + 1] = rows;
        kv_len[s] = pos[s] + n[s];
    }
    rf_batch b = {.n_tokens = rows,
                  .n_seqs = n_seqs,
                  .n_outputs = rows,
                  .table_stride = r->table_stride,
                  .token = token,
                  .pos = position,
                  .seq_start = seq_start,
                  .kv_len = kv_len,
                  .table = r->table,
                  .out_row = out_row,
                  .mask = r->mask,
                  .mask_stride = r->mask_stride,
                  .n_prefix = r->n_prefix,
                  .state = r->state};
    rf_error e = {0};
    const float *logits = NULL;
    must(r->ops->run(r->exec, &b, &e), &e, "run");
    must(r->ops->wait(r->exec, &logits), &e, "wait");
    rf_free(token);
    rf_free(position);
    rf_free(out_row);
    rf_free(seq_start);
    rf_free(kv_len);
    return logits;
}

void rf_test_run_text(rf_test_run *r, const int32_t *tokens, uint32_t n, uint32_t chunk,
                      float *out) {
    size_t n_result = r->plan->n_result;
    for (uint32_t at = 0; at < n;) {
        uint32_t rows = n - at < chunk ? n - at : chunk;
        const int32_t *part = tokens + at;
        const float *logits = rf_test_run_batch(r, 1, &rows, &at, &part);
        memcpy(out + at * n_result, logits, rows * n_result * sizeof *out);
        at += rows;
    }
}

double rf_test_max_diff(const float *got, const float *want, size_t n) {
    double diff = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        if (!(d <= diff)) diff = d; /* a NaN stays */
        if (fabs((double)want[i]) > norm) norm = fabs((double)want[i]);
        if (isnan(diff)) return diff;
    }
    assert_true(norm > 0);
    return diff / norm;
}

uint32_t rf_test_read_tokens(const char *path, int32_t *out, uint32_t cap) {
    size_t bytes = 0;
    uint32_t n = 0;
    uint8_t *text = rf_test_read(path, &bytes);
    char copy[4096];
    assert_true(bytes < sizeof copy);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    rf_free(text);
    for (char *p = copy, *end; n < cap; p = end) {
        long v = strtol(p, &end, 10);
        if (end == p) break;
        out[n++] = (int32_t)v;
    }
    assert_true(n > 0);
    return n;
}
