/* chunks.c - from --file, --ctx and --chunks to chunks of tokens. */
#include "cli/chunks.h"

uint32_t rf_chunks_ctx(const rf_cli *c) {
    int64_t n = rf_cli_int(c, RF_F_CTX);
    return n ? (uint32_t)n : 512;
}

/* The token that the model begins texts with; -1: none. */
static rf_status find_bos(const rf_engine *en, int32_t *out, rf_error *e) {
    rf_ids with = {0}, without = {0};
    rf_status s = rf_session_tokenize(en, RF_STR("a"), true, false, &with, e);
    if (s == RF_OK) s = rf_session_tokenize(en, RF_STR("a"), false, false, &without, e);
    bool has_bos = with.len && (without.len == 0 || with.p[0] != without.p[0]);
    *out = has_bos ? with.p[0] : -1;
    rf_ids_free(&with);
    rf_ids_free(&without);
    return s;
}

rf_status rf_chunks_cut(rf_chunks *out, const rf_cli *c, const rf_engine *en, rf_error *e) {
    size_t most = (size_t)rf_cli_int(c, RF_F_CHUNKS);
    int32_t bos = -1;
    RF_TRY(find_bos(en, &bos, e));
    out->n = out->ids.len / out->n_ctx;
    if (out->n == 0) {
        return rf_fail(e, RF_EARG,
                       "expected a text of at least one chunk of %u tokens, got %zu tokens; give a "
                       "longer text or a smaller --ctx",
                       out->n_ctx, out->ids.len);
    }
    if (most && most < out->n) out->n = most;
    for (size_t i = 0; bos >= 0 && i < out->n; i++)
        rf_chunks_at(out, i)[0] = bos;
    return RF_OK;
}

rf_status rf_chunks_read(rf_chunks *out, const rf_cli *c, const rf_engine *en, rf_error *e) {
    rf_buf text = {0};
    *out = (rf_chunks){.n_ctx = rf_chunks_ctx(c)};
    if (out->n_ctx < 4)
        return rf_fail(e, RF_EARG, "--ctx: expected at least 4 tokens, got %u", out->n_ctx);
    rf_status s = rf_session_read(rf_cli_str(c, RF_F_FILE), NULL, &text, e);
    bool parse_special = rf_cli_bool(c, RF_F_PARSE_SPECIAL);
    if (s == RF_OK)
        s = rf_session_tokenize(en, rf_buf_str(&text), true, parse_special, &out->ids, e);
    if (s == RF_OK) s = rf_chunks_cut(out, c, en, e);
    rf_buf_free(&text);
    if (s != RF_OK) rf_chunks_free(out);
    return s;
}

void rf_chunks_free(rf_chunks *chunks) {
    rf_ids_free(&chunks->ids);
    chunks->n = 0;
}
