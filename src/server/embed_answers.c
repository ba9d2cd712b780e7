/* embed_answers.c - answers of /v1/embeddings, as OpenAI's clients read them, and of /v1/rerank. */
#include <stdlib.h>

#include "server/embed.h"

static void put_model(const rf_embed_task *t, rf_buf *out) {
    rf_buf_puts(out, "\"model\":");
    rf_buf_json_str(out, rf_str_of(t->model));
}

static void put_usage(const rf_embed_task *t, rf_buf *out) {
    rf_buf_printf(out, "\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}", t->n_tokens,
                  t->n_tokens);
}

/* ---- vectors ---- */

static void start_vectors(const rf_embed_task *t, rf_buf *out) {
    (void)t;
    rf_buf_puts(out, "{\"object\":\"list\",\"data\":[");
}

static void put_base64(const unsigned char *bytes, size_t n, rf_buf *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t b = (uint32_t)bytes[i] << 16;
        if (left > 1) b |= (uint32_t)bytes[i + 1] << 8;
        if (left > 2) b |= bytes[i + 2];
        const char four[] = {digits[b >> 18], digits[b >> 12 & 63],
                             left > 1 ? digits[b >> 6 & 63] : '=', left > 2 ? digits[b & 63] : '='};
        rf_buf_put(out, four, sizeof four);
    }
}

/* Floats with digits enough to read the same ones back, or their bytes, lowest first. */
static void put_vector(rf_embed_task *t, size_t i, const float *v, rf_buf *out) {
    rf_buf_printf(out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i ? "," : "", i);
    if (t->params.base64) {
        rf_buf_putc(out, '"');
        put_base64((const unsigned char *)v, t->n_floats * sizeof *v, out);
        rf_buf_puts(out, "\"}");
        return;
    }
    for (size_t k = 0; k < t->n_floats; k++)
        rf_buf_printf(out, "%c%.9g", k ? ',' : '[', (double)v[k]);
    rf_buf_puts(out, "]}");
}

static void end_vectors(rf_embed_task *t, rf_buf *out) {
    rf_buf_puts(out, "],");
    put_model(t, out);
    rf_buf_putc(out, ',');
    put_usage(t, out);
}

const rf_embed_writer rf_embed_vectors = {start_vectors, put_vector, end_vectors};

/* ---- scores ---- */

static void start_scores(const rf_embed_task *t, rf_buf *out) {
    rf_buf_puts(out, "{\"id\":\"");
    rf_buf_puts(out, t->id);
    rf_buf_puts(out, "\",");
    put_model(t, out);
    rf_buf_puts(out, ",\"results\":[");
}

/* The head's first score says how well the document answers. */
static void keep_score(rf_embed_task *t, size_t i, const float *v, rf_buf *out) {
    (void)out;
    t->scores[i] = v[0];
}

typedef struct ranked {
    size_t index;
    float score;
} ranked;

static int by_score(const void *a, const void *b) { /* best first; ties in the given order */
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static void put_result(const rf_embed_task *t, const ranked *r, rf_buf *out) {
    rf_buf_printf(out, "{\"index\":%zu,\"relevance_score\":%.9g", r->index, (double)r->score);
    if (t->params.return_documents) {
        rf_buf_puts(out, ",\"document\":{\"text\":");
        rf_buf_json_str(out, t->params.prompts[r->index].text);
        rf_buf_putc(out, '}');
    }
    rf_buf_putc(out, '}');
}

static void end_scores(rf_embed_task *t, rf_buf *out) {
    size_t n = t->params.n_prompts, top = (size_t)t->params.top_n;
    ranked *order = rf_alloc(n, sizeof *order);
    if (!order) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        order[i] = (ranked){i, t->scores[i]};
    qsort(order, n, sizeof *order, by_score);
    for (size_t i = 0; i < n && (top == 0 || i < top); i++) {
        if (i) rf_buf_putc(out, ',');
        put_result(t, &order[i], out);
    }
    rf_free(order);
    rf_buf_puts(out, "],");
    put_usage(t, out);
}

const rf_embed_writer rf_embed_scores = {start_scores, keep_score, end_scores};
