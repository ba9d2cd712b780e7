/* unigram.c - Unigram: of all ways to spell a piece with tokens, the one whose scores add up to most
 * (Viterbi); a character that no token spells is unknown, and so is a run of them. */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline.h"

typedef struct best { /* the best spelling that ends here */
    double score;
    size_t from;   /* where its last token begins */
    int32_t token; /* or RF_TOKEN_NONE: an unknown character */
} best;

static void offer(best *b, double score, size_t from, int32_t token) {
    if (score > b->score || b->from == SIZE_MAX) *b = (best){score, from, token};
}

static void spell(const rf_tokenizer *t, rf_str piece, best *ends /* [piece.len + 1] */) {
    const rf_pipeline *p = t->pipe;
    for (size_t i = 1; i <= piece.len; i++) {
        ends[i] = (best){-HUGE_VAL, SIZE_MAX, RF_TOKEN_NONE};
    }
    for (size_t at = 0, len; at < piece.len; at += len) {
        uint32_t cp;
        int n = rf_utf8_decode(piece.p + at, piece.len - at, &cp);
        len = n > 0 ? (size_t)n : 1;
        bool has_char = false;
        rf_trie_walk w = rf_trie_start(&p->trie);
        for (size_t i = at; i < piece.len; i++) {
            if (!rf_trie_step(&p->trie, &w, (uint8_t)piece.p[i])) break;
            int32_t id = rf_trie_token(&p->trie, &w);
            if (id == RF_TOKEN_NONE) continue;
            offer(&ends[i + 1], ends[at].score + p->score[id], at, id);
            has_char = has_char || i + 1 - at == len;
        }
        if (!has_char) {
            offer(&ends[at + len], ends[at].score + p->unknown_score, at, RF_TOKEN_NONE);
        }
    }
}

static bool has_bytes(const rf_tokenizer *t, rf_str s) {
    for (size_t i = 0; i < s.len; i++) {
        if (t->byte_token[(uint8_t)s.p[i]] == RF_TOKEN_NONE) return false;
    }
    return true;
}

static rf_status put_unknown(const rf_tokenizer *t, rf_str run, rf_ids *ids, rf_error *e) {
    if (t->pipe->byte_fallback && has_bytes(t, run)) {
        for (size_t i = 0; i < run.len; i++) {
            rf_ids_push(ids, t->byte_token[(uint8_t)run.p[i]]);
        }
        return RF_OK;
    }
    if (t->unk == RF_TOKEN_NONE) {
        return rf_fail(e, RF_EFORMAT, "no token spells \"%.*s\" and there is no unknown token",
                       RF_STR_ARG(run));
    }
    rf_ids_push(ids, t->unk);
    return RF_OK;
}

/* Turns the chain of last tokens around: ends[i].from becomes where the token that starts at i ends. */
static void reverse(best *ends, size_t n) {
    size_t to = n, next_from = ends[n].from;
    int32_t token = ends[n].token;
    while (to > 0) {
        size_t from = next_from;
        int32_t this_token = token;
        next_from = ends[from].from;
        token = ends[from].token;
        ends[from].from = to;
        ends[from].token = this_token;
        to = from;
    }
}

rf_status rf_unigram_encode(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                            rf_error *e) {
    (void)m;
    if (piece.len == 0) return RF_OK;
    best *ends = rf_alloc(piece.len + 1, sizeof *ends);
    if (!ends) return rf_fail_nomem(e, (piece.len + 1) * sizeof *ends);
    spell(t, piece, ends);
    reverse(ends, piece.len);
    rf_status s = RF_OK;
    for (size_t at = 0; s == RF_OK && at < piece.len;) {
        size_t to = ends[at].from;
        if (ends[at].token != RF_TOKEN_NONE && ends[at].token != t->unk) {
            rf_ids_push(ids, ends[at].token);
        } else {
            while (to < piece.len &&
                   (ends[to].token == RF_TOKEN_NONE || ends[to].token == t->unk)) {
                to = ends[to].from;
            }
            s = put_unknown(t, (rf_str){piece.p + at, to - at}, ids, e);
        }
        at = to;
    }
    rf_free(ends);
    return s;
}
