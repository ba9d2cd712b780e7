/* cmd_embed.c - texts as vectors, their similarities, or a reranker's scores. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli/session.h"

typedef struct work {
    rf_cli *c;
    rf_engine *en;
    rf_ids ids;             /* of all texts, back to back */
    rf_ids lengths;         /* of each text */
    rf_embed_input *inputs; /* [n] */
    size_t n, n_floats;     /* texts, floats per vector */
    float *vectors;         /* [n][n_floats] */
    rf_embed_pooling pooling;
} work;

static const char *const pooling_names[] = {"default", "mean", "cls", "last", "rank"};

static rf_status parse_pooling(rf_cli *c, rf_embed_pooling *out, rf_error *e) {
    const char *name = rf_cli_str(c, RF_F_POOLING);
    *out = RF_POOLING_DEFAULT;
    if (!name) return RF_OK;
    for (size_t i = 1; i < RF_COUNT(pooling_names); i++)
        if (strcmp(name, pooling_names[i]) == 0) {
            *out = (rf_embed_pooling)i;
            return RF_OK;
        }
    return rf_fail(e, RF_EARG, "--pooling: '%.40s' is not known; expected mean, cls, last or rank",
                   name);
}

/* ---- which texts ---- */

static rf_status add_text(work *w, rf_str text, rf_error *e) {
    size_t before = w->ids.len;
    RF_TRY(
        rf_session_tokenize(w->en, text, true, rf_cli_bool(w->c, RF_F_PARSE_SPECIAL), &w->ids, e));
    rf_ids_push(&w->lengths, (int32_t)(w->ids.len - before));
    return RF_OK;
}

/* One text a line; a line break at the very end begins no text. */
static rf_status add_lines(work *w, const char *file, rf_error *e) {
    rf_buf all = {0};
    rf_status s = rf_session_read(file, "-", &all, e);
    for (size_t at = 0; s == RF_OK && at < all.len;) {
        const char *end = memchr(all.p + at, '\n', all.len - at);
        size_t next = end ? (size_t)(end - all.p) + 1 : all.len, len = next - at - (end != NULL);
        if (len > 0 && all.p[at + len - 1] == '\r') len--;
        s = add_text(w, (rf_str){all.p + at, len}, e);
        at = next;
    }
    rf_buf_free(&all);
    return s;
}

static rf_status add_tokens(work *w, rf_error *e) {
    RF_TRY(rf_session_parse_ids(rf_cli_str(w->c, RF_F_TOKENS), &w->ids, e));
    rf_ids_push(&w->lengths, (int32_t)w->ids.len);
    return RF_OK;
}

static rf_status read_texts(work *w, rf_error *e) {
    bool none = rf_cli_n_args(w->c) == 0 && !rf_cli_given(w->c, RF_F_TEXTS) &&
                !rf_cli_given(w->c, RF_F_TOKENS);
    if (none && isatty(STDIN_FILENO))
        return rf_fail(e, RF_EARG,
                       "no text: give it as argument or with -f FILE, or pipe it in, one a line");
    if (rf_cli_given(w->c, RF_F_TOKENS)) RF_TRY(add_tokens(w, e));
    for (int i = 0; i < rf_cli_n_args(w->c); i++)
        RF_TRY(add_text(w, rf_str_of(rf_cli_arg(w->c, i)), e));
    if (none || rf_cli_given(w->c, RF_F_TEXTS))
        RF_TRY(add_lines(w, rf_cli_str(w->c, RF_F_TEXTS), e));
    w->n = w->lengths.len;
    if (w->n == 0) return rf_fail(e, RF_EARG, "there is no text; give at least one line");
    w->inputs = rf_alloc(w->n, sizeof *w->inputs);
    if (!w->inputs || w->ids.failed || w->lengths.failed) return rf_fail_nomem(e, w->ids.len);
    const int32_t *next = w->ids.p;
    for (size_t i = 0; i < w->n; i++) {
        w->inputs[i] = (rf_embed_input){next, (size_t)w->lengths.p[i]};
        if (next) next += w->lengths.p[i];
    }
    return RF_OK;
}

static rf_status embed(work *w, rf_error *e) {
    rf_text why;
    const rf_embed_opts o = {.pooling = w->pooling, .raw = !rf_cli_bool(w->c, RF_F_NORMALIZE)};
    size_t n_all = 0;
    w->n_floats = rf_engine_embed_size(w->en, w->pooling);
    if (!rf_mul_ok(w->n, w->n_floats, &n_all)) return rf_fail_nomem(e, SIZE_MAX);
    w->vectors = rf_alloc(n_all, sizeof *w->vectors);
    if (!w->vectors) return rf_fail_nomem(e, n_all * sizeof *w->vectors);
    return rf_session_error(
        rf_engine_embed_batch(w->en, w->inputs, w->n, &o, w->vectors, n_all, &why), &why, e);
}

/* ---- printing ---- */

static double cosine(const float *a, const float *b, size_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

/* [n][n] cosines. */
static rf_status compare(const work *w, float **out, rf_error *e) {
    size_t all = 0;
    *out = rf_mul_ok(w->n, w->n, &all) ? rf_alloc(all, sizeof **out) : NULL;
    if (!*out) return rf_fail_nomem(e, all * sizeof **out);
    for (size_t i = 0; i < w->n; i++)
        for (size_t k = 0; k < w->n; k++)
            (*out)[i * w->n + k] = (float)cosine(w->vectors + i * w->n_floats,
                                                 w->vectors + k * w->n_floats, w->n_floats);
    return RF_OK;
}

/* One row a line, or as a JSON array of arrays; enough digits to read the same floats back. */
static void put_rows(const float *rows, size_t n_rows, size_t n_cols, bool json, rf_buf *out) {
    if (json) rf_buf_putc(out, '[');
    for (size_t i = 0; i < n_rows; i++) {
        if (json) rf_buf_puts(out, i ? ",[" : "[");
        for (size_t k = 0; k < n_cols; k++)
            rf_buf_printf(out, "%s%.9g",
                          k == 0 ? ""
                          : json ? ","
                                 : " ",
                          (double)rows[i * n_cols + k]);
        rf_buf_putc(out, json ? ']' : '\n');
    }
    if (json) rf_buf_putc(out, ']');
}

static void put_json(const work *w, const float *similarity, rf_buf *out) {
    bool scores = w->pooling == RF_POOLING_RANK;
    rf_buf_printf(out, "{\"pooling\":\"%s\",\"normalized\":%s,\"tokens\":[",
                  pooling_names[w->pooling],
                  rf_cli_bool(w->c, RF_F_NORMALIZE) && !scores ? "true" : "false");
    for (size_t i = 0; i < w->n; i++)
        rf_buf_printf(out, "%s%d", i ? "," : "", w->lengths.p[i]);
    rf_buf_puts(out, scores ? "],\"scores\":" : "],\"embeddings\":");
    put_rows(w->vectors, w->n, w->n_floats, true, out);
    if (similarity) {
        rf_buf_puts(out, ",\"similarity\":");
        put_rows(similarity, w->n, w->n, true, out);
    }
    rf_buf_puts(out, "}\n");
}

static rf_status print(const work *w, rf_error *e) {
    rf_buf out = {0};
    float *similarity = NULL;
    if (rf_cli_bool(w->c, RF_F_SIMILARITY)) RF_TRY(compare(w, &similarity, e));
    if (rf_cli_bool(w->c, RF_F_JSON))
        put_json(w, similarity, &out);
    else if (similarity)
        put_rows(similarity, w->n, w->n, false, &out);
    else
        put_rows(w->vectors, w->n, w->n_floats, false, &out);
    rf_cli_write(w->c, &out);
    rf_buf_free(&out);
    rf_free(similarity);
    return RF_OK;
}

static rf_status run(work *w, rf_error *e) {
    rf_engine_info info;
    RF_TRY(parse_pooling(w->c, &w->pooling, e));
    RF_TRY(rf_session_open(w->c, 0, &w->en, e));
    rf_engine_get_info(w->en, &info);
    if (w->pooling == RF_POOLING_DEFAULT) w->pooling = info.pooling;
    if (w->pooling == RF_POOLING_RANK && rf_cli_bool(w->c, RF_F_SIMILARITY))
        return rf_fail(e, RF_EARG,
                       "--similarity compares vectors, but this model gives scores; leave it out, "
                       "or choose another --pooling");
    RF_TRY(read_texts(w, e));
    RF_TRY(embed(w, e));
    return print(w, e);
}

int rf_cmd_embed(rf_cli *c) {
    work w = {.c = c};
    rf_error e = {0};
    rf_status s = run(&w, &e);
    rf_engine_close(w.en);
    rf_ids_free(&w.ids);
    rf_ids_free(&w.lengths);
    rf_free(w.inputs);
    rf_free(w.vectors);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}
