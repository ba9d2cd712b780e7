/* cmd_perplexity.c - `perplexity`: how well a model predicts a text, and what a quantisation cost.
 *
 * The text is cut into chunks; of each, the tokens of the second half are scored, so that every one
 * of them has at least half a chunk before it.  The reference's probabilities come from a file, or
 * from a second model that evaluates each chunk first: memory is bounded by one chunk of them. */
#include <math.h>
#include <string.h>

#include "base/os.h"
#include "cli/chunks.h"
#include "cli/logprobs.h"
#include "cli/score.h"

typedef struct job {
    rf_cli *c;
    rf_engine *en, *reference; /* reference may be NULL */
    rf_logprobs *base;         /* may be NULL */
    rf_outfile *file;          /* --save-logits, or NULL */
    rf_chunks chunks;
    const int32_t *tokens; /* of the current chunk */
    size_t chunk, n_vocab;
    float *base_rows;  /* reference: logits [rf_scored][n_vocab]; base: [n_vocab] */
    double *base_sums; /* reference: [rf_scored] their rf_log_sum_exp */
    uint16_t *codes;   /* one row of --save-logits */
    rf_score score;
    rf_progress progress;
    rf_error error;
} job;

/* ---- one position ---- */

static rf_status check_finite(const job *j, double log_sum, size_t pos, rf_error *e) {
    if (log_sum - log_sum == 0) return RF_OK;
    return rf_fail(e, RF_EFORMAT,
                   "chunk %zu, token %zu: the logits are no numbers; 'rocmforge gguf verify' finds "
                   "bad weights",
                   j->chunk, pos);
}

static rf_status score_row(job *j, size_t pos, const float *logits, rf_error *e) {
    uint32_t i = (uint32_t)pos - rf_scored_first(j->chunks.n_ctx);
    double log_sum = rf_log_sum_exp(logits, j->n_vocab);
    rf_score_row base = {0};
    RF_TRY(check_finite(j, log_sum, pos, e));
    if (j->reference) {
        base = (rf_score_row){j->base_rows + i * j->n_vocab, j->base_sums[i]};
    }
    if (j->base) {
        rf_logprobs_row(j->base, (uint32_t)j->chunk, i, j->base_rows);
        base.x = j->base_rows;
    }
    if (j->file) {
        RF_TRY(rf_logprobs_put_row(j->file, logits, (uint32_t)j->n_vocab, log_sum, j->codes, e));
    }
    return rf_score_add(&j->score, j->n_vocab, (rf_score_row){logits, log_sum}, base,
                        j->tokens[pos + 1], e);
}

static rf_status keep_row(job *j, size_t pos, const float *logits, rf_error *e) {
    size_t i = pos - rf_scored_first(j->chunks.n_ctx);
    memcpy(j->base_rows + i * j->n_vocab, logits, j->n_vocab * sizeof *logits);
    j->base_sums[i] = rf_log_sum_exp(logits, j->n_vocab);
    return check_finite(j, j->base_sums[i], pos, e);
}

typedef rf_status (*row_fn)(job *j, size_t pos, const float *logits, rf_error *e);

static bool each_scored(job *j, size_t first, size_t n, const float *logits, row_fn fn) {
    uint32_t begin = rf_scored_first(j->chunks.n_ctx), end = begin + rf_scored(j->chunks.n_ctx);
    for (size_t pos = first; pos < first + n && j->error.status == RF_OK; pos++)
        if (pos >= begin && pos < end)
            (void)fn(j, pos, logits + (pos - first) * j->n_vocab, &j->error);
    return j->error.status == RF_OK && !rf_cli_interrupted();
}

static bool score_rows(void *user, size_t first, size_t n, const float *logits) {
    return each_scored(user, first, n, logits, score_row);
}

static bool keep_rows(void *user, size_t first, size_t n, const float *logits) {
    return each_scored(user, first, n, logits, keep_row);
}

/* ---- the text ---- */

static rf_status evaluate(job *j, rf_engine *en, rf_logits_fn sink, rf_error *e) {
    rf_text why;
    int status = rf_engine_logits(en, j->tokens, j->chunks.n_ctx, sink, j, &why);
    if (j->error.status != RF_OK) *e = j->error;
    return j->error.status != RF_OK ? j->error.status : rf_session_error(status, &why, e);
}

static rf_status score_all(job *j, rf_error *e) {
    rf_status s = RF_OK;
    rf_progress_start(&j->progress, j->c, "scoring", j->chunks.n);
    for (j->chunk = 0; j->chunk < j->chunks.n && s == RF_OK; j->chunk++) {
        j->tokens = rf_chunks_at(&j->chunks, j->chunk);
        if (j->reference) s = evaluate(j, j->reference, keep_rows, e);
        if (s == RF_OK) s = evaluate(j, j->en, score_rows, e);
        rf_progress_step(&j->progress, j->chunk + 1);
    }
    rf_progress_end(&j->progress);
    return s;
}

/* ---- setting up ---- */

static rf_status different_vocab(const char *path, uint32_t got, uint32_t expected, rf_error *e) {
    return rf_fail(e, RF_EFORMAT,
                   "%s: expected a vocabulary of %u tokens as the model has, got %u; only models "
                   "with the same vocabulary can be compared",
                   path, expected, got);
}

static rf_status alloc_rows(job *j, rf_error *e) {
    size_t rows = j->reference ? rf_scored(j->chunks.n_ctx) : j->base ? 1 : 0, n;
    if (!rf_mul_ok(rows, j->n_vocab, &n)) return rf_fail_nomem(e, SIZE_MAX);
    j->base_rows = rf_alloc(n, sizeof *j->base_rows);
    j->base_sums = rf_alloc(rows, sizeof *j->base_sums);
    j->codes = rf_alloc(j->n_vocab + 5, sizeof *j->codes);
    return j->base_rows && j->base_sums && j->codes ? RF_OK
                                                    : rf_fail_nomem(e, n * sizeof *j->base_rows);
}

static rf_status open_reference(job *j, uint32_t n_ctx, rf_error *e) {
    const char *path = rf_cli_str(j->c, RF_F_REFERENCE);
    rf_engine_info info;
    if (!path) return RF_OK;
    RF_TRY(rf_session_open_path(j->c, path, n_ctx, 0, &j->reference, e));
    rf_engine_get_info(j->reference, &info);
    if (info.n_vocab != j->n_vocab)
        return different_vocab(path, info.n_vocab, (uint32_t)j->n_vocab, e);
    j->score.floor = -HUGE_VALF;
    return RF_OK;
}

/* The chunks of --kl-base are the file's own; else those of --file. */
static rf_status read_chunks(job *j, rf_error *e) {
    const char *path = rf_cli_str(j->c, RF_F_KL_BASE);
    if (!path) return rf_chunks_read(&j->chunks, j->c, j->en, e);
    if (rf_logprobs_n_vocab(j->base) != j->n_vocab)
        return different_vocab(path, rf_logprobs_n_vocab(j->base), (uint32_t)j->n_vocab, e);
    rf_logprobs_tokens(j->base, &j->chunks.ids);
    if (j->chunks.ids.failed) return rf_fail_nomem(e, j->chunks.ids.len);
    j->score.floor = RF_LOGPROBS_FLOOR;
    return rf_chunks_cut(&j->chunks, j->c, j->en, e);
}

static rf_status start_saving(job *j, rf_error *e) {
    const char *path = rf_cli_str(j->c, RF_F_SAVE_LOGITS);
    if (!path) return RF_OK;
    RF_TRY(rf_outfile_open(&j->file, path, e));
    return rf_logprobs_put_head(j->file, j->chunks.n_ctx, (uint32_t)j->n_vocab,
                                (uint32_t)j->chunks.n, j->chunks.ids.p, e);
}

static rf_status set_up(job *j, rf_error *e) {
    const char *path, *base = rf_cli_str(j->c, RF_F_KL_BASE);
    rf_engine_info info;
    RF_TRY(rf_cli_model_path(j->c, &path, e));
    if (base) RF_TRY(rf_logprobs_open(&j->base, base, e));
    j->chunks.n_ctx = base ? rf_logprobs_n_ctx(j->base) : rf_chunks_ctx(j->c);
    RF_TRY(rf_session_open_path(j->c, path, j->chunks.n_ctx, 0, &j->en, e));
    rf_engine_get_info(j->en, &info);
    j->n_vocab = info.n_vocab;
    RF_TRY(open_reference(j, j->chunks.n_ctx, e));
    RF_TRY(read_chunks(j, e));
    RF_TRY(alloc_rows(j, e));
    return start_saving(j, e);
}

/* ---- what it says ---- */

static const double quantiles[] = {1, 0.999, 0.99, 0.95, 0.9, 0.5, 0.1, 0.05, 0.01, 0.001, 0};
static const char *const quantile_names[] = {"max", "p99.9", "p99", "p95",  "p90", "median",
                                             "p10", "p5",    "p1",  "p0.1", "min"};

static void put_estimate(rf_buf *out, const char *name, rf_estimate v) {
    rf_buf_printf(out, ",\"%s\":%.9g,\"%s_error\":%.6g", name, v.value, name, v.error);
}

static void put_quantiles(rf_buf *out, const char *name, const float *sorted, size_t n) {
    rf_buf_printf(out, ",\"%s_quantiles\":{", name);
    for (size_t i = 0; i < RF_COUNT(quantiles); i++)
        rf_buf_printf(out, "%s\"%s\":%.6g", i ? "," : "", quantile_names[i],
                      rf_quantile(sorted, n, quantiles[i]));
    rf_buf_putc(out, '}');
}

static void put_json(const job *j, rf_buf *out) {
    const rf_score *s = &j->score;
    rf_buf_printf(out, "{\"chunks\":%zu,\"n_ctx\":%u,\"tokens\":%zu", j->chunks.n, j->chunks.n_ctx,
                  s->n);
    put_estimate(out, "perplexity", rf_score_perplexity(s));
    if (j->reference || j->base) {
        put_estimate(out, "reference_perplexity", rf_score_base_perplexity(s));
        put_estimate(out, "log_ratio", rf_score_log_ratio(s));
        put_estimate(out, "kl", rf_score_kl(s));
        put_quantiles(out, "kl", s->kl, s->n);
        put_estimate(out, "delta_p", rf_score_delta(s));
        rf_buf_printf(out, ",\"delta_p_rms\":%.6g", rf_score_delta_rms(s));
        put_quantiles(out, "delta_p", s->delta, s->n);
        put_estimate(out, "same_top", rf_score_same_top(s));
    }
    rf_buf_puts(out, "}\n");
}

static void put_line(rf_buf *out, const char *name, rf_estimate v, double unit, const char *sign) {
    rf_buf_printf(out, "%-26s %12.6f +- %.6f%s\n", name, unit * v.value, unit * v.error, sign);
}

static void put_text(const job *j, rf_buf *out) {
    const rf_score *s = &j->score;
    rf_buf_printf(out, "%zu tokens of %zu chunks of %u\n", s->n, j->chunks.n, j->chunks.n_ctx);
    put_line(out, "perplexity", rf_score_perplexity(s), 1, "");
    if (!j->reference && !j->base) return;
    put_line(out, "reference's perplexity", rf_score_base_perplexity(s), 1, "");
    put_line(out, "ln of their ratio", rf_score_log_ratio(s), 1, "");
    put_line(out, "KL divergence", rf_score_kl(s), 1, "");
    put_line(out, "change of p", rf_score_delta(s), 100, " %");
    rf_buf_printf(out, "%-26s %12.6f %%\n", "change of p, RMS", 100 * rf_score_delta_rms(s));
    put_line(out, "same likeliest token", rf_score_same_top(s), 100, " %");
    rf_buf_puts(out, "                           KL divergence   change of p\n");
    for (size_t i = 0; i < RF_COUNT(quantiles); i++)
        rf_buf_printf(out, "%-26s %12.6f %12.4f %%\n", quantile_names[i],
                      rf_quantile(s->kl, s->n, quantiles[i]),
                      100 * rf_quantile(s->delta, s->n, quantiles[i]));
}

static void report(job *j) {
    rf_buf out = {0};
    rf_score_sort(&j->score);
    if (rf_cli_bool(j->c, RF_F_JSON))
        put_json(j, &out);
    else
        put_text(j, &out);
    rf_cli_write(j->c, &out);
    rf_buf_free(&out);
}

/* ---- the command ---- */

static int check_flags(rf_cli *c) {
    bool has_base = rf_cli_given(c, RF_F_KL_BASE), has_text = rf_cli_given(c, RF_F_FILE);
    if (has_base && rf_cli_given(c, RF_F_REFERENCE))
        return rf_cli_usage(c, "--kl-base and --reference exclude each other");
    if (has_base && (has_text || rf_cli_given(c, RF_F_CTX)))
        return rf_cli_usage(c, "--kl-base brings its text and chunks: leave --file and --ctx out");
    if (!has_base && !has_text) return rf_cli_usage(c, "--file is missing: the text to predict");
    return RF_EXIT_OK;
}

int rf_cmd_perplexity(rf_cli *c) {
    rf_error e = {0};
    job j = {.c = c};
    int code = check_flags(c);
    if (code != RF_EXIT_OK) return code;
    rf_cli_catch_interrupts();
    rf_status s = set_up(&j, &e);
    if (s == RF_OK) s = score_all(&j, &e);
    if (s == RF_OK && j.file) {
        s = rf_outfile_commit(j.file, &e);
        j.file = NULL;
    }
    if (s == RF_OK) report(&j);
    rf_outfile_abort(j.file);
    rf_engine_close(j.en);
    rf_engine_close(j.reference);
    rf_logprobs_close(j.base);
    rf_chunks_free(&j.chunks);
    rf_score_free(&j.score);
    rf_free(j.base_rows);
    rf_free(j.base_sums);
    rf_free(j.codes);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}
