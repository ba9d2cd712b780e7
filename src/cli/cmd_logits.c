/* cmd_logits.c - the logits of every position of a token sequence, as raw 32-bit floats. */
#include <string.h>

#include "base/os.h"
#include "cli/session.h"

typedef struct sink {
    rf_cli *c;
    rf_outfile *file; /* NULL: standard output */
    rf_progress progress;
    size_t n_vocab;
    bool out_failed; /* standard output takes no more */
    rf_error error;
} sink;

static bool take(void *user, size_t first, size_t n, const float *logits) {
    sink *k = user;
    size_t bytes = n * k->n_vocab * sizeof *logits;
    rf_progress_step(&k->progress, first + n);
    if (rf_cli_interrupted()) return false;
    if (k->file) return rf_outfile_write(k->file, logits, bytes, &k->error) == RF_OK;
    rf_buf out = {0};
    rf_buf_put(&out, logits, bytes);
    k->out_failed = !rf_cli_write(k->c, &out);
    rf_buf_free(&out);
    return !k->out_failed;
}

static void write_json(rf_cli *c, const char *path, size_t n_tokens, size_t n_vocab) {
    rf_buf out = {0};
    rf_buf_puts(&out, "{\"output\":");
    rf_buf_json_str(&out, rf_str_of(path));
    rf_buf_printf(&out, ",\"n_tokens\":%zu,\"n_vocab\":%zu,\"bytes\":%zu}\n", n_tokens, n_vocab,
                  n_tokens * n_vocab * sizeof(float));
    rf_cli_write(c, &out);
    rf_buf_free(&out);
}

static rf_status run(rf_cli *c, sink *k, const rf_ids *ids, rf_error *e) {
    const char *path = rf_cli_str(c, RF_F_OUT);
    rf_engine *en = NULL;
    rf_engine_info info;
    rf_text why;
    rf_status s = RF_OK;
    if (ids->len == 0) s = rf_fail(e, RF_EARG, "--tokens is empty; give at least one id");
    if (s == RF_OK) s = rf_session_open(c, 0, &en, e);
    if (s == RF_OK) {
        rf_engine_get_info(en, &info);
        k->n_vocab = info.n_vocab;
        if (strcmp(path, "-") != 0) s = rf_outfile_open(&k->file, path, e);
    }
    if (s == RF_OK) {
        rf_cli_catch_interrupts();
        rf_progress_start(&k->progress, c, "evaluating", ids->len);
        s = rf_session_error(rf_engine_logits(en, ids->p, ids->len, take, k, &why), &why, e);
        rf_progress_end(&k->progress);
        if (k->error.status != RF_OK) *e = k->error, s = e->status;
    }
    rf_engine_close(en);
    if (s == RF_OK && k->file) {
        s = rf_outfile_commit(k->file, e);
        if (s == RF_OK && rf_cli_bool(c, RF_F_JSON)) write_json(c, path, ids->len, k->n_vocab);
        return s;
    }
    rf_outfile_abort(k->file);
    return s;
}

int rf_cmd_logits(rf_cli *c) {
    rf_ids ids = {0};
    rf_error e = {0};
    sink k = {.c = c};
    if (!rf_cli_given(c, RF_F_TOKENS))
        return rf_cli_usage(c, "--tokens is missing: give ids separated by commas");
    if (!rf_cli_given(c, RF_F_OUT))
        return rf_cli_usage(c, "--output is missing: name a file, or - for standard output");
    rf_status s = rf_session_parse_ids(rf_cli_str(c, RF_F_TOKENS), &ids, &e);
    if (s == RF_OK) s = run(c, &k, &ids, &e);
    rf_ids_free(&ids);
    if (k.out_failed) return RF_EXIT_IO; /* said at the end, with the system's reason */
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}
