/* logprobs.c - reading and writing files of log-probabilities; sizes are checked once, at open. */
#include "cli/logprobs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { HEAD_BYTES = 20, ROW_HEAD = 4 /* u16: two floats */, MAX_CODE = 65535, SPAN = 16 };

struct rf_logprobs {
    rf_filemap map;
    uint32_t n_ctx, n_vocab, n_chunks;
    const uint8_t *tokens, *rows;
};

static size_t row_codes(uint32_t n_vocab) { return ROW_HEAD + 2 * (((size_t)n_vocab + 1) / 2); }

static uint32_t load_u32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The whole size of a file with this head; false on overflow. */
static bool expected_bytes(const rf_logprobs *f, size_t *token_bytes, size_t *out) {
    size_t rows;
    return rf_mul_ok((size_t)f->n_chunks * f->n_ctx, sizeof(int32_t), token_bytes) &&
           rf_mul_ok((size_t)f->n_chunks * rf_scored(f->n_ctx),
                     row_codes(f->n_vocab) * sizeof(uint16_t), &rows) &&
           rf_add_ok(*token_bytes, rows, out) && rf_add_ok(*out, HEAD_BYTES, out);
}

static rf_status check_tokens(const rf_logprobs *f, const char *path, rf_error *e) {
    for (size_t i = 0; i < (size_t)f->n_chunks * f->n_ctx; i++) {
        uint32_t token = load_u32(f->tokens + 4 * i);
        if (token < f->n_vocab) continue;
        return rf_fail(e, RF_EFORMAT, "%s: token %zu: expected less than %" PRIu32 ", got %" PRIu32,
                       path, i, f->n_vocab, token);
    }
    return RF_OK;
}

static rf_status parse(rf_logprobs *f, const char *path, rf_error *e) {
    enum { MAX_CTX = 1 << 24, MAX_VOCAB = 1 << 21 };
    const uint8_t *p = f->map.data;
    size_t token_bytes = 0, bytes = 0;
    if (f->map.size < HEAD_BYTES || memcmp(p, "_logits_", 8) != 0) {
        return rf_fail(e, RF_EFORMAT,
                       "%s: expected a file that 'rocmforge perplexity --save-logits' wrote", path);
    }
    f->n_ctx = load_u32(p + 8);
    f->n_vocab = load_u32(p + 12);
    f->n_chunks = load_u32(p + 16);
    if (f->n_ctx < 4 || f->n_ctx > MAX_CTX || f->n_vocab == 0 || f->n_vocab > MAX_VOCAB ||
        f->n_chunks == 0 || f->n_chunks > INT32_MAX) {
        return rf_fail(e, RF_EFORMAT,
                       "%s: expected chunks of 4 to %d tokens and at most %d tokens of vocabulary, "
                       "got %" PRIu32 " chunks of %" PRIu32 " and %" PRIu32,
                       path, MAX_CTX, MAX_VOCAB, f->n_chunks, f->n_ctx, f->n_vocab);
    }
    if (!expected_bytes(f, &token_bytes, &bytes) || bytes != f->map.size) {
        return rf_fail(e, RF_EFORMAT,
                       "%s: %" PRIu32 " chunks of %" PRIu32 " tokens, vocabulary of %" PRIu32
                       ": expected %zu bytes, got %zu; the file was cut off or belongs to another "
                       "program",
                       path, f->n_chunks, f->n_ctx, f->n_vocab, bytes, f->map.size);
    }
    f->tokens = p + HEAD_BYTES;
    f->rows = f->tokens + token_bytes;
    return check_tokens(f, path, e);
}

rf_status rf_logprobs_open(rf_logprobs **out, const char *path, rf_error *e) {
    rf_logprobs *f = rf_alloc(1, sizeof *f);
    *out = NULL;
    if (!f) return rf_fail_nomem(e, sizeof *f);
    rf_status s = rf_filemap_open(&f->map, path, e);
    if (s == RF_OK) {
        s = parse(f, path, e);
        if (s != RF_OK) rf_filemap_close(&f->map);
    }
    if (s == RF_OK)
        *out = f;
    else
        rf_free(f);
    return s;
}

void rf_logprobs_close(rf_logprobs *f) {
    if (!f) return;
    rf_filemap_close(&f->map);
    rf_free(f);
}

uint32_t rf_logprobs_n_ctx(const rf_logprobs *f) { return f->n_ctx; }
uint32_t rf_logprobs_n_vocab(const rf_logprobs *f) { return f->n_vocab; }
uint32_t rf_logprobs_n_chunks(const rf_logprobs *f) { return f->n_chunks; }

void rf_logprobs_tokens(const rf_logprobs *f, rf_ids *out) {
    for (size_t i = 0; i < (size_t)f->n_chunks * f->n_ctx; i++)
        rf_ids_push(out, (int32_t)load_u32(f->tokens + 4 * i));
}

void rf_logprobs_row(const rf_logprobs *f, uint32_t chunk, uint32_t i, float *out) {
    size_t n = (size_t)chunk * rf_scored(f->n_ctx) + i;
    const uint8_t *p = f->rows + n * row_codes(f->n_vocab) * sizeof(uint16_t);
    float head[2];
    memcpy(head, p, sizeof head);
    p += sizeof head;
    for (uint32_t t = 0; t < f->n_vocab; t++) {
        uint16_t code;
        memcpy(&code, p + 2 * (size_t)t, sizeof code);
        out[t] = head[1] + head[0] * (float)code;
    }
}

/* ---- writing ---- */

rf_status rf_logprobs_put_head(rf_outfile *file, uint32_t n_ctx, uint32_t n_vocab,
                               uint32_t n_chunks, const int32_t *tokens, rf_error *e) {
    const uint32_t numbers[3] = {n_ctx, n_vocab, n_chunks};
    RF_TRY(rf_outfile_write(file, "_logits_", 8, e));
    RF_TRY(rf_outfile_write(file, numbers, sizeof numbers, e));
    return rf_outfile_write(file, tokens, (size_t)n_ctx * n_chunks * sizeof *tokens, e);
}

rf_status rf_logprobs_put_row(rf_outfile *file, const float *logits, uint32_t n_vocab,
                              double log_sum, uint16_t *row, rf_error *e) {
    float top = logits[0], low = logits[0];
    for (uint32_t i = 1; i < n_vocab; i++) {
        if (logits[i] > top) top = logits[i];
        if (logits[i] < low) low = logits[i];
    }
    if (!(low > top - SPAN)) low = top - SPAN;
    float head[2] = {(top - low) / MAX_CODE, (float)((double)low - log_sum)};
    memset(row, 0, row_codes(n_vocab) * sizeof *row);
    memcpy(row, head, sizeof head);
    for (uint32_t i = 0; i < n_vocab && top > low; i++) {
        float v = (logits[i] - low) / (top - low) * MAX_CODE;
        row[ROW_HEAD + i] = v > 0 ? (uint16_t)lrintf(v) : 0;
    }
    return rf_outfile_write(file, row, row_codes(n_vocab) * sizeof *row, e);
}
