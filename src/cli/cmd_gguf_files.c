/* cmd_gguf_files.c - `gguf split` and `gguf merge`: one model in several files, and back.
 *
 * The tensors' bytes stay as they are.  Files appear under their names only when all of them are
 * complete. */
#include "base/os.h"
#include "cli/gguf_copy.h"
#include "cli/gguf_text.h"

static rf_status write_all(rf_cli *c, const rf_gguf *in, rf_gguf_writer *w, rf_progress *progress,
                           rf_error *e) {
    static const char *const dropped[] = {NULL};
    uint64_t done = 0;
    RF_TRY(rf_gguf_copy_split(c, w, e));
    RF_TRY(rf_gguf_copy_keys(in, w, dropped, e));
    for (size_t i = 0; i < rf_gguf_n_tensors(in); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(in, i);
        RF_TRY(rf_gguf_declare(w, t->name, t->type, t->n_dims, t->ne, e));
    }
    for (size_t i = 0; i < rf_gguf_n_tensors(in); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(in, i);
        RF_TRY(rf_gguf_copy_data(t, w, progress, done, e));
        done += t->n_bytes;
    }
    return RF_OK;
}

static rf_status rewrite(rf_cli *c, const rf_gguf *in, const char *out, uint32_t *n_parts,
                         rf_error *e) {
    rf_gguf_writer *w;
    rf_progress progress;
    RF_TRY(rf_gguf_writer_open(&w, out, rf_gguf_alignment(in), e));
    rf_progress_start(&progress, c, "writing", rf_gguf_file_bytes(in));
    rf_status s = write_all(c, in, w, &progress, e);
    rf_progress_end(&progress);
    if (s != RF_OK) {
        rf_gguf_writer_abort(w);
        return s;
    }
    return rf_gguf_writer_finish_parts(w, n_parts, e);
}

static void report(rf_cli *c, const rf_gguf *in, const char *path, uint32_t n_parts) {
    rf_buf out = {0};
    if (rf_cli_bool(c, RF_F_JSON)) {
        rf_buf_puts(&out, "{\"file\":");
        rf_buf_json_str(&out, rf_str_of(path));
        rf_buf_printf(&out, ",\"parts\":%u,\"tensors\":%zu}\n", n_parts, rf_gguf_n_tensors(in));
    } else {
        rf_buf_printf(&out, "%s: %zu tensors, %u part%s\n", path, rf_gguf_n_tensors(in), n_parts,
                      n_parts == 1 ? "" : "s");
    }
    rf_cli_write(c, &out);
    rf_buf_free(&out);
}

static int run(rf_cli *c) {
    const char *in_path = rf_cli_arg(c, 0), *out = rf_cli_arg(c, 1);
    rf_gguf *in;
    rf_error e = {0};
    uint32_t n_parts = 0;
    if (rf_is_same_file(in_path, out))
        return rf_cli_usage(c, "expected another file to write than the one that is read");
    rf_cli_catch_interrupts();
    rf_status s = rf_gguf_open(&in, in_path, &e);
    if (s != RF_OK) return rf_cli_fail(c, &e);
    s = rewrite(c, in, out, &n_parts, &e);
    if (s == RF_OK) report(c, in, out, n_parts);
    rf_gguf_close(in);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}

int rf_cmd_gguf_split(rf_cli *c) {
    if (!rf_cli_given(c, RF_F_SPLIT_SIZE) && !rf_cli_given(c, RF_F_SPLIT_TENSORS))
        return rf_cli_usage(c, "say how large a part may be: --split-max-size, "
                               "--split-max-tensors, or both");
    return run(c);
}

int rf_cmd_gguf_merge(rf_cli *c) { return run(c); }
