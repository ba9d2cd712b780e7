/* cmd_text.c - tokenize and detokenize, with the vocabulary of a model or of a tokenizer.json. */
#include <string.h>
#include <unistd.h>

#include "cli/session.h"
#include "text/tokenizer.h"

static void print_token(const rf_tokenizer *t, int32_t id, rf_buf *out) {
    rf_buf text = {0};
    if (rf_token_bytes(t, id, true, &text) != RF_OK) out->failed = true;
    rf_buf_printf(out, "%d\t", id);
    rf_buf_json_str(out, rf_buf_str(&text));
    rf_buf_putc(out, '\n');
    rf_buf_free(&text);
}

static rf_status tokenize(rf_cli *c, const rf_tokenizer *t, rf_buf *out, rf_error *e) {
    rf_buf text = {0};
    rf_ids ids = {0};
    const char *arg = rf_cli_arg(c, 0), *file = rf_cli_str(c, RF_F_FILE);
    rf_status s = RF_OK;
    if (arg && file)
        s = rf_fail(e, RF_EARG, "text is given twice, as argument and with --file; give it once");
    if (!arg && !file && isatty(STDIN_FILENO))
        s = rf_fail(e, RF_EARG, "no text: give it as argument or with --file, or pipe it in");
    if (s == RF_OK) s = rf_session_read(file, arg ? arg : "-", &text, e);
    rf_tokenize_opts o = {.add_special = rf_cli_bool(c, RF_F_ADD_SPECIAL),
                          .parse_special = rf_cli_bool(c, RF_F_PARSE_SPECIAL)};
    if (s == RF_OK) s = rf_tokenize(t, rf_buf_str(&text), o, &ids, e);
    bool json = rf_cli_bool(c, RF_F_JSON);
    if (s == RF_OK && json) rf_buf_putc(out, '[');
    for (size_t i = 0; s == RF_OK && i < ids.len; i++) {
        if (json)
            rf_buf_printf(out, "%s%d", i ? "," : "", ids.p[i]);
        else
            print_token(t, ids.p[i], out);
    }
    if (s == RF_OK && json) rf_buf_puts(out, "]\n");
    rf_buf_free(&text);
    rf_ids_free(&ids);
    return s;
}

static rf_status ids_of(rf_cli *c, rf_ids *ids, rf_error *e) {
    if (!rf_cli_given(c, RF_F_TOKENS) && rf_cli_n_args(c) == 0)
        return rf_fail(e, RF_EARG, "no ids: give them as arguments, with --tokens, or - for stdin");
    if (rf_cli_given(c, RF_F_TOKENS))
        RF_TRY(rf_session_parse_ids(rf_cli_str(c, RF_F_TOKENS), ids, e));
    for (int i = 0; i < rf_cli_n_args(c); i++)
        RF_TRY(rf_session_parse_ids(rf_cli_arg(c, i), ids, e));
    return RF_OK;
}

static rf_status detokenize(rf_cli *c, const rf_tokenizer *t, rf_buf *out, rf_error *e) {
    rf_ids ids = {0};
    rf_buf text = {0};
    rf_status s = ids_of(c, &ids, e);
    if (s == RF_OK)
        s = rf_detokenize(t, ids.p, ids.len, rf_cli_bool(c, RF_F_PARSE_SPECIAL), &text, e);
    if (s == RF_OK && rf_cli_bool(c, RF_F_JSON)) {
        rf_buf_json_str(out, rf_buf_str(&text));
        rf_buf_putc(out, '\n');
    } else if (s == RF_OK) {
        rf_buf_put(out, text.p ? text.p : "", text.len);
    }
    rf_buf_free(&text);
    rf_ids_free(&ids);
    return s;
}

static rf_status open_vocabulary(rf_cli *c, rf_tokenizer **out, rf_error *e) {
    const char *path = rf_cli_str(c, RF_F_TOKENIZER);
    *out = NULL;
    if (!path) RF_TRY(rf_cli_model_path(c, &path, e));
    return rf_tokenizer_open(out, path, e);
}

static int with_vocab(rf_cli *c,
                      rf_status (*work)(rf_cli *, const rf_tokenizer *, rf_buf *, rf_error *)) {
    rf_tokenizer *t = NULL;
    rf_buf out = {0};
    rf_error e = {0};
    rf_status s = open_vocabulary(c, &t, &e);
    if (s == RF_OK) s = work(c, t, &out, &e);
    if (s == RF_OK) rf_cli_write(c, &out);
    rf_tokenizer_free(t);
    rf_buf_free(&out);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}

int rf_cmd_tokenize(rf_cli *c) { return with_vocab(c, tokenize); }
int rf_cmd_detokenize(rf_cli *c) { return with_vocab(c, detokenize); }
