/* wordpiece.c - WordPiece: the longest token that a word begins with, then the longest that its rest
 * begins with, and so on; a word with a part that no token spells is one unknown token.
 *
 * Hugging Face marks tokens inside words ("##ing"), GGUF files those at their start (U+2581). */
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline.h"

/* The longest token that spells prefix and then a beginning of text; *len is what it takes of text. */
static int32_t longest(const rf_trie *trie, rf_str prefix, rf_str text, size_t *len) {
    rf_trie_walk w = rf_trie_start(trie);
    int32_t found = RF_TOKEN_NONE;
    for (size_t i = 0; i < prefix.len; i++) {
        if (!rf_trie_step(trie, &w, (uint8_t)prefix.p[i])) return RF_TOKEN_NONE;
    }
    for (size_t i = 0; i < text.len && rf_trie_step(trie, &w, (uint8_t)text.p[i]); i++) {
        int32_t id = rf_trie_token(trie, &w);
        bool whole = i + 1 == text.len || ((uint8_t)text.p[i + 1] & 0xC0) != 0x80;
        if (id == RF_TOKEN_NONE || !whole) continue;
        found = id;
        *len = i + 1;
    }
    return found;
}

static size_t count_chars(rf_str s) {
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        n += ((uint8_t)s.p[i] & 0xC0) != 0x80;
    }
    return n;
}

static rf_status unknown(const rf_tokenizer *t, rf_str piece, rf_ids *ids, rf_error *e) {
    if (t->unk == RF_TOKEN_NONE) {
        return rf_fail(e, RF_EFORMAT, "no token spells \"%.*s\" and there is no unknown token",
                       RF_STR_ARG(piece));
    }
    rf_ids_push(ids, t->unk);
    return RF_OK;
}

rf_status rf_wordpiece_encode(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                              rf_error *e) {
    (void)m;
    const rf_pipeline *p = t->pipe;
    if (p->max_chars && piece.len > p->max_chars && count_chars(piece) > p->max_chars) {
        return unknown(t, piece, ids, e);
    }
    size_t before = ids->len;
    for (size_t at = 0, len = 0; at < piece.len; at += len) {
        rf_str rest = {piece.p + at, piece.len - at};
        /* A mark of words inside a word is a character of the text, which no token there spells. */
        bool fake = at && p->word_prefix.len && rest.len >= p->word_prefix.len &&
                    memcmp(rest.p, p->word_prefix.p, p->word_prefix.len) == 0;
        int32_t id = RF_TOKEN_NONE;
        if (!fake) id = longest(&p->trie, at ? p->part_prefix : p->word_prefix, rest, &len);
        if (id == RF_TOKEN_NONE) {
            ids->len = before;
            return unknown(t, piece, ids, e);
        }
        rf_ids_push(ids, id);
    }
    return RF_OK;
}

rf_status rf_wordlevel_encode(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                              rf_error *e) {
    (void)m;
    int32_t id = rf_token_find(t, piece);
    if (id == RF_TOKEN_NONE) return unknown(t, piece, ids, e);
    rf_ids_push(ids, id);
    return RF_OK;
}
