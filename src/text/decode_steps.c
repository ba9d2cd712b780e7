/* decode_steps.c - the steps from tokens to text.
 *
 * All act on one token at a time, so that a stream can be decoded as it comes; what a step does at
 * the start of a text it does to the first token. */
#include <string.h>

#include "text/pipeline.h"

/* Replaces every what in b from at on. */
static void swap_all(rf_buf *b, size_t at, const char *what, const char *with) {
    size_t n = strlen(what), m = strlen(with);
    RF_ASSERT(m <= n);
    size_t to = at;
    for (size_t i = at; i < b->len;) {
        bool here = b->len - i >= n && memcmp(b->p + i, what, n) == 0;
        if (here) {
            memcpy(b->p + to, with, m);
            to += m;
            i += n;
        } else {
            b->p[to++] = b->p[i++];
        }
    }
    b->len = to;
}

/* English without the spaces that cutting at punctuation left. */
static void cleanup(rf_buf *b) {
    static const char *const rules[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; b->len && i < RF_COUNT(rules); i++) {
        swap_all(b, 0, rules[i][0], rules[i][1]);
    }
}

static bool starts(rf_str s, rf_str with) {
    return with.len && s.len >= with.len && memcmp(s.p, with.p, with.len) == 0;
}

static void wordpiece(const rf_step *step, rf_str token, bool first, rf_buf *out) {
    if (!first && starts(token, step->with)) {
        token.p += step->with.len;
        token.len -= step->with.len;
    } else if (!first) {
        rf_buf_putc(out, ' ');
    }
    rf_buf_put(out, token.p, token.len);
    if (step->flag) cleanup(out);
}

static void respace(const rf_step *step, rf_str token, bool first, rf_buf *out) {
    while (token.len) {
        if (starts(token, step->with)) {
            if (!first || !step->flag) rf_buf_putc(out, ' ');
            token.p += step->with.len;
            token.len -= step->with.len;
        } else {
            rf_buf_putc(out, *token.p++);
            token.len--;
        }
    }
}

static void trim(const rf_step *step, rf_str token, rf_buf *out) {
    for (uint32_t i = 0; i < step->n_start && starts(token, step->with); i++) {
        token.p += step->with.len;
        token.len -= step->with.len;
    }
    for (uint32_t i = 0; i < step->n_end && token.len >= step->with.len; i++) {
        rf_str end = {token.p + token.len - step->with.len, step->with.len};
        if (!starts(end, step->with)) break;
        token.len -= step->with.len;
    }
    rf_buf_put(out, token.p, token.len);
}

static void replace(const rf_step *step, rf_str what, rf_str token, rf_buf *out) {
    while (token.len) {
        if (starts(token, what)) {
            rf_buf_put(out, step->with.p, step->with.len);
            token.p += what.len;
            token.len -= what.len;
        } else {
            rf_buf_putc(out, *token.p++);
            token.len--;
        }
    }
}

static void apply(const rf_step *step, rf_str token, bool first, bool fused, rf_buf *out) {
    int byte = step->kind == RF_STEP_BYTES ? rf_spm_byte_value(token) : -1;
    if (step->kind == RF_STEP_UNLETTERS) {
        if (!rf_bpe_decode(token, out)) rf_buf_put(out, token.p, token.len);
    } else if (byte >= 0) {
        rf_buf_putc(out, (char)byte);
    } else if (step->kind == RF_STEP_REPLACE) {
        replace(step, step->what, token, out);
    } else if (step->kind == RF_STEP_WORDPIECE) {
        wordpiece(step, token, first, out);
    } else if (step->kind == RF_STEP_METASPACE) {
        respace(step, token, first, out);
    } else if (step->kind == RF_STEP_CUT && (first || !fused)) {
        trim(step, token, out);
    } else {
        rf_buf_put(out, token.p, token.len);
    }
}

void rf_pipeline_decode(const rf_pipeline *p, rf_str token, bool first, rf_buf *out) {
    rf_buf now = {0}, next = {0};
    bool fused = false;
    if (p->joins_decoded && !first) rf_buf_putc(&now, ' ');
    rf_buf_put(&now, token.p, token.len);
    for (uint32_t i = 0; i < p->decode.n; i++) {
        rf_buf_clear(&next);
        apply(&p->decode.p[i], rf_buf_str(&now), first, fused, &next);
        fused = fused || p->decode.p[i].kind == RF_STEP_FUSE;
        rf_buf swap = now;
        now = next;
        next = swap;
    }
    rf_buf_put(out, rf_buf_str(&now).p, now.len);
    if (now.failed || next.failed) out->failed = true;
    rf_buf_free(&now);
    rf_buf_free(&next);
}
