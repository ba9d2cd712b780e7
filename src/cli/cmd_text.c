/* cmd_text.c - tokenize and detokenize. */
#include <string.h>
#include <unistd.h>

#include "cli/session.h"

static void print_token(const rf_engine *en, int32_t id, rf_buf *out) {
    char text[256];
    size_t len = 0;
    rf_engine_detokenize(en, &id, 1, true, text, sizeof text, &len, NULL);
    rf_buf_printf(out, "%d\t", id);
    rf_buf_json_str(out, (rf_str){text, len < sizeof text ? len : sizeof text});
    rf_buf_putc(out, '\n');
}

static rf_status tokenize(rf_cli *c, const rf_engine *en, rf_buf *out, rf_error *e) {
    rf_buf text = {0};
    rf_ids ids = {0};
    const char *arg = rf_cli_arg(c, 0), *file = rf_cli_str(c, RF_F_FILE);
    rf_status s = RF_OK;
    if (arg && file)
        s = rf_fail(e, RF_EARG, "text is given twice, as argument and with --file; give it once");
    if (!arg && !file && isatty(STDIN_FILENO))
        s = rf_fail(e, RF_EARG, "no text: give it as argument or with --file, or pipe it in");
    if (s == RF_OK) s = rf_session_read(file, arg ? arg : "-", &text, e);
    if (s == RF_OK)
        s = rf_session_tokenize(en, rf_buf_str(&text), rf_cli_bool(c, RF_F_ADD_SPECIAL),
                                rf_cli_bool(c, RF_F_PARSE_SPECIAL), &ids, e);
    bool json = rf_cli_bool(c, RF_F_JSON);
    if (s == RF_OK && json) rf_buf_putc(out, '[');
    for (size_t i = 0; s == RF_OK && i < ids.len; i++) {
        if (json)
            rf_buf_printf(out, "%s%d", i ? "," : "", ids.p[i]);
        else
            print_token(en, ids.p[i], out);
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

static rf_status detokenize(rf_cli *c, const rf_engine *en, rf_buf *out, rf_error *e) {
    rf_ids ids = {0};
    rf_text why;
    size_t len = 0;
    bool with_special = rf_cli_bool(c, RF_F_PARSE_SPECIAL);
    rf_status s = ids_of(c, &ids, e);
    if (s == RF_OK)
        s = rf_session_error(
            rf_engine_detokenize(en, ids.p, ids.len, with_special, NULL, 0, &len, &why), &why, e);
    char *text = rf_alloc(len, 1);
    if (s == RF_OK && !text) s = rf_fail_nomem(e, len);
    if (s == RF_OK)
        s = rf_session_error(
            rf_engine_detokenize(en, ids.p, ids.len, with_special, text, len, &len, &why), &why, e);
    if (s == RF_OK && rf_cli_bool(c, RF_F_JSON)) {
        rf_buf_json_str(out, (rf_str){text, len});
        rf_buf_putc(out, '\n');
    } else if (s == RF_OK) {
        rf_buf_put(out, text, len);
    }
    rf_free(text);
    rf_ids_free(&ids);
    return s;
}

static int with_vocab(rf_cli *c,
                      rf_status (*work)(rf_cli *, const rf_engine *, rf_buf *, rf_error *)) {
    rf_engine *en = NULL;
    rf_buf out = {0};
    rf_error e = {0};
    rf_status s = rf_session_open_vocab(c, &en, &e);
    if (s == RF_OK) s = work(c, en, &out, &e);
    if (s == RF_OK) rf_cli_write(c, &out);
    rf_engine_close(en);
    rf_buf_free(&out);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}

int rf_cmd_tokenize(rf_cli *c) { return with_vocab(c, tokenize); }
int rf_cmd_detokenize(rf_cli *c) { return with_vocab(c, detokenize); }
