/* detok.c - token ids to text: whole sequences as bytes, streams as whole UTF-8 characters.
 *
 * A stream holds back the start of a character until it is whole or can no longer become one; what
 * is not UTF-8 becomes one U+FFFD for each maximal part (Unicode 15, chapter 3.9). */
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline.h"

static void put_spaced(rf_str text, rf_buf *out) {
    while (text.len) {
        const char *space = memmem(text.p, text.len, RF_SPM_SPACE, RF_SPM_SPACE_BYTES);
        size_t n = space ? (size_t)(space - text.p) : text.len;
        rf_buf_put(out, text.p, n);
        if (space) {
            rf_buf_putc(out, ' ');
            n += RF_SPM_SPACE_BYTES;
        }
        text.p += n;
        text.len -= n;
    }
}

/* The text of a token as a tokenizer.json's decoders see it: that of an added token as normalising
 * left it.  Hugging Face no longer takes such a token for a special one, so it is never hidden. */
static rf_str decoded_text(const rf_tokenizer *t, int32_t token, bool *is_hidden) {
    const rf_pipeline *p = t->pipe;
    rf_str text = t->text[token];
    *is_hidden = t->kind[token] == RF_TOKEN_CONTROL;
    if (!(p->added_flags[token] & RF_ADDED_NORMALIZED)) return text;
    if (!rf_str_eq(text, p->added_text[token])) *is_hidden = false;
    return p->added_text[token];
}

/* As a tokenizer.json says: all tokens alike, hidden ones not at all. */
static rf_status put_decoded(const rf_tokenizer *t, int32_t token, bool with_special, bool *started,
                             rf_buf *out) {
    bool is_hidden;
    rf_str text = decoded_text(t, token, &is_hidden);
    if (is_hidden && !with_special) return RF_OK;
    rf_pipeline_decode(t->pipe, text, !*started, out);
    *started = true;
    return out->failed ? RF_ENOMEM : RF_OK;
}

rf_status rf_token_bytes(const rf_tokenizer *t, int32_t token, bool with_special, rf_buf *out) {
    if (token < 0 || (uint32_t)token >= t->n_vocab) return RF_EARG;
    if (t->pipe && t->pipe->decodes) {
        return put_decoded(t, token, with_special, &(bool){true}, out);
    }
    rf_str text = t->text[token];
    switch ((rf_token_kind)t->kind[token]) {
    case RF_TOKEN_CONTROL:
    case RF_TOKEN_UNKNOWN:
        if (with_special) rf_buf_put(out, text.p, text.len);
        break;
    case RF_TOKEN_USER_DEFINED:
        rf_buf_put(out, text.p, text.len);
        break;
    case RF_TOKEN_BYTE:
        rf_buf_putc(out, (char)rf_spm_byte_value(text));
        break;
    case RF_TOKEN_NORMAL:
        if (t->writes_spaces) {
            put_spaced(text, out);
        } else if (!rf_bpe_decode(text, out)) {
            rf_buf_put(out, text.p, text.len); /* not spelt in the byte alphabet: as it is */
        }
        break;
    case RF_TOKEN_UNUSED:
        break;
    }
    return out->failed ? RF_ENOMEM : RF_OK;
}

/* The same inside a sequence: its first text loses the space that tokenizing put before it. */
static rf_status put_token(const rf_tokenizer *t, int32_t token, bool with_special, bool *started,
                           rf_buf *out) {
    size_t before = out->len;
    if (t->pipe && t->pipe->decodes && token >= 0 && (uint32_t)token < t->n_vocab) {
        return put_decoded(t, token, with_special, started, out);
    }
    RF_TRY(rf_token_bytes(t, token, with_special, out));
    if (*started || out->len == before) return RF_OK;
    *started = true;
    if (t->space_prefix && out->p[before] == ' ') {
        out->len--;
        memmove(out->p + before, out->p + before + 1, out->len - before + 1);
    }
    return RF_OK;
}

rf_status rf_detokenize(const rf_tokenizer *t, const int32_t *ids, size_t n, bool with_special,
                        rf_buf *out, rf_error *e) {
    bool started = false;
    for (size_t i = 0; i < n; i++) {
        rf_status s = put_token(t, ids[i], with_special, &started, out);
        if (s == RF_EARG) {
            return rf_fail(e, s, "token %d at %zu: the vocabulary has ids 0 to %u", ids[i], i,
                           t->n_vocab - 1);
        }
        if (s != RF_OK) return rf_fail_nomem(e, out->len);
    }
    return RF_OK;
}

/* Bytes of the longest start of p[0..n) that could have become a character; at least 1. */
static size_t broken_part(const char *p, size_t n) {
    size_t len = n < 3 ? n : 3;
    while (len > 1 && !rf_utf8_is_partial(p, len)) {
        len--;
    }
    return len;
}

static void put_replacement(rf_buf *out) { rf_buf_puts(out, "\xEF\xBF\xBD"); }

rf_status rf_detok_push(rf_detok *d, const rf_tokenizer *t, int32_t token, rf_buf *out) {
    RF_TRY(put_token(t, token, false, &d->started, &d->pending));
    rf_str left = rf_buf_str(&d->pending);
    while (left.len) {
        size_t valid = rf_utf8_valid_prefix(left.p, left.len);
        rf_buf_put(out, left.p, valid);
        left.p += valid;
        left.len -= valid;
        if (left.len == 0 || rf_utf8_is_partial(left.p, left.len)) break;
        size_t broken = broken_part(left.p, left.len);
        put_replacement(out);
        left.p += broken;
        left.len -= broken;
    }
    if (left.len) memmove(d->pending.p, left.p, left.len);
    d->pending.len = left.len;
    return out->failed ? RF_ENOMEM : RF_OK;
}

void rf_detok_finish(rf_detok *d, rf_buf *out) {
    if (d->pending.len) put_replacement(out); /* one character's start, never more */
    rf_buf_clear(&d->pending);
}
