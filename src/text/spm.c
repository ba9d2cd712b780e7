/* spm.c - SentencePiece BPE: neighbours that are a token together are merged, best score first;
 * what no token spells becomes bytes.
 *
 * The text comes with its spaces already written as U+2581. */
#include <math.h>
#include <string.h>

#include "text/merge.h"

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

int rf_spm_byte_value(rf_str s) {
    if (s.len != 6 || memcmp(s.p, "<0x", 3) != 0 || s.p[5] != '>') return -1;
    int high = hex_digit(s.p[3]), low = hex_digit(s.p[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Ascending order of ranks is descending order of scores. */
static uint32_t rank_of(float score) {
    score += 0.0f; /* -0 and 0 are one score */
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
    return ~ascending;
}

/* Does a token hold the start of a word anywhere but among its first letters? */
static bool spans_words(rf_str text) {
    bool in_word = false;
    for (size_t i = 0; i < text.len;) {
        bool space = text.len - i >= RF_SPM_SPACE_BYTES &&
                     memcmp(text.p + i, RF_SPM_SPACE, RF_SPM_SPACE_BYTES) == 0;
        if (space && in_word) return true;
        in_word = in_word || !space;
        i += space ? RF_SPM_SPACE_BYTES : 1;
    }
    return false;
}

rf_status rf_spm_load(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
    const rf_gguf_kv *kv;
    RF_TRY(rf_gguf_get_array(g, "tokenizer.ggml.scores", RF_GGUF_F32, &kv, e));
    if (!kv || kv->n != t->n_vocab) {
        return rf_fail(e, RF_EFORMAT, "tokenizer.ggml.scores: expected %u, one a token, got %llu",
                       t->n_vocab, kv ? (unsigned long long)kv->n : 0);
    }
    t->rank = rf_arena_alloc(t->arena, t->n_vocab, sizeof *t->rank);
    if (!t->rank) return rf_fail_nomem(e, t->n_vocab * sizeof *t->rank);
    t->splits_words = true;
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        float score = (float)rf_gguf_elem_f64(kv, id);
        if (isnan(score)) {
            return rf_fail(e, RF_EFORMAT, "tokenizer.ggml.scores[%u]: not a number", id);
        }
        bool textual = rf_token_is_textual(t, id);
        t->rank[id] = textual ? rank_of(score) : RF_RANK_NONE;
        if (textual && spans_words(t->text[id])) t->splits_words = false;
        if (t->kind[id] == RF_TOKEN_BYTE) {
            t->byte_token[rf_spm_byte_value(t->text[id])] = (int32_t)id;
        }
    }
    return RF_OK;
}

static void pair(const rf_tokenizer *t, const char *text, rf_symbol *left, const rf_symbol *right) {
    size_t len = (size_t)left->len + right->len;
    left->rank = RF_RANK_NONE;
    if (len > t->max_token_bytes) return;
    uint32_t id = rf_index_get(&t->by_text, (rf_str){text + left->at, len});
    if (id == RF_INDEX_NONE) return;
    left->rank = t->rank[id];
    left->merged = (int32_t)id;
}

/* Bytes of the character at p by its lead byte, cut short before a space or the end. */
static uint32_t symbol_length(const char *p, size_t n) {
    static const uint8_t by_lead[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    size_t len = by_lead[(uint8_t)p[0] >> 4];
    if (len > n) len = n;
    for (size_t i = 1; i < len; i++) {
        if (n - i >= RF_SPM_SPACE_BYTES && memcmp(p + i, RF_SPM_SPACE, RF_SPM_SPACE_BYTES) == 0) {
            return (uint32_t)i;
        }
    }
    return (uint32_t)len;
}

static rf_status put_bytes(const rf_tokenizer *t, rf_str bytes, bool *was_unknown, rf_ids *ids,
                           rf_error *e) {
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned byte = (uint8_t)bytes.p[i];
        if (t->byte_token[byte] != RF_TOKEN_NONE) {
            rf_ids_push(ids, t->byte_token[byte]);
            *was_unknown = false;
        } else if (t->unk == RF_TOKEN_NONE) {
            return rf_fail(e, RF_EFORMAT, "the vocabulary has no token for byte 0x%02X", byte);
        } else if (!*was_unknown) { /* one for each run */
            rf_ids_push(ids, t->unk);
            *was_unknown = true;
        }
    }
    return RF_OK;
}

rf_status rf_spm_encode(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                        rf_error *e) {
    m->n = 0;
    for (size_t i = 0; i < piece.len;) {
        uint32_t len = symbol_length(piece.p + i, piece.len - i);
        uint32_t id = rf_index_get(&t->by_text, (rf_str){piece.p + i, len});
        bool known = id != RF_INDEX_NONE && rf_token_is_textual(t, id);
        if (rf_merger_push(m, (uint32_t)i, len, known ? (int32_t)id : RF_TOKEN_NONE) != RF_OK) {
            return rf_fail_nomem(e, piece.len);
        }
        i += len;
    }
    if (rf_merger_run(m, t, piece.p, pair) != RF_OK) return rf_fail_nomem(e, piece.len);
    bool was_unknown = false;
    for (uint32_t i = 0; i != RF_SYMBOL_END; i = m->symbols[i].next) {
        const rf_symbol *s = &m->symbols[i];
        if (s->id != RF_TOKEN_NONE) {
            rf_ids_push(ids, s->id);
            was_unknown = false;
        } else {
            RF_TRY(put_bytes(t, (rf_str){piece.p + s->at, s->len}, &was_unknown, ids, e));
        }
    }
    return RF_OK;
}
