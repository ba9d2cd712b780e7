/* token_index.c - tokens sorted by their bytes become the nodes of a tree in one pass. */
#include "grammar/token_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/automaton.h"

typedef struct word {
    const uint8_t *p;
    uint32_t len;
    int32_t token;
    uint32_t n_chars; /* when plain, else 0 */
} word;

typedef struct words {
    word *w; /* [n] */
    size_t n;
    rf_buf bytes;
} words;

/* The number of characters, all of them plain; 0 when any is not. */
static uint32_t plain_chars(const uint8_t *p, size_t n) {
    uint32_t chars = 0;
    for (size_t i = 0; i < n; chars++) {
        uint32_t c;
        int len = rf_utf8_decode((const char *)p + i, n - i, &c);
        if (len == 0 || !rf_is_plain(c) || chars == RF_TOKEN_MAX_PLAIN) return 0;
        i += (size_t)len;
    }
    return chars;
}

static int by_bytes(const void *a, const void *b) {
    const word *x = a, *y = b;
    int cmp = memcmp(x->p, y->p, x->len < y->len ? x->len : y->len);
    if (cmp == 0) cmp = x->len < y->len ? -1 : x->len > y->len;
    return cmp ? cmp : x->token < y->token ? -1 : x->token > y->token;
}

static rf_status read_words(words *w, const rf_tokenizer *t, rf_error *e) {
    uint32_t n_vocab = rf_tokenizer_n_vocab(t);
    w->w = rf_alloc(n_vocab, sizeof *w->w);
    if (!w->w) return rf_fail_nomem(e, n_vocab * sizeof *w->w);
    for (uint32_t id = 0; id < n_vocab; id++) {
        size_t before = w->bytes.len;
        if (rf_token_bytes(t, (int32_t)id, false, &w->bytes) != RF_OK || w->bytes.failed)
            return rf_fail_nomem(e, w->bytes.len);
        size_t len = w->bytes.len - before;
        if (len > RF_TOKEN_MAX_BYTES) w->bytes.len = before;
        if (len > 0 && len <= RF_TOKEN_MAX_BYTES && !rf_token_is_end(t, (int32_t)id))
            w->w[w->n++] = (word){.len = (uint32_t)len, .token = (int32_t)id};
        else
            w->bytes.len = before;
    }
    const uint8_t *at = (const uint8_t *)w->bytes.p;
    for (size_t i = 0; i < w->n; at += w->w[i++].len) {
        w->w[i].p = at;
        w->w[i].n_chars = plain_chars(at, w->w[i].len);
    }
    qsort(w->w, w->n, sizeof *w->w, by_bytes);
    return RF_OK;
}

static uint32_t common_prefix(const word *a, const word *b) {
    uint32_t n = 0;
    while (n < a->len && n < b->len && a->p[n] == b->p[n])
        n++;
    return n;
}

/* Nodes that a new word adds behind the one before it. */
static size_t count_nodes(const words *w, bool with_plain) {
    size_t n = 1;
    const word *last = NULL;
    for (size_t i = 0; i < w->n; i++) {
        if (!with_plain && w->w[i].n_chars) continue;
        n += w->w[i].len - (last ? common_prefix(last, &w->w[i]) : 0);
        last = &w->w[i];
    }
    return n;
}

static rf_status build(rf_trie *t, const words *w, bool with_plain, rf_error *e) {
    size_t n = count_nodes(w, with_plain);
    t->node = rf_alloc(n + 1, sizeof *t->node);
    t->token = rf_alloc(w->n, sizeof *t->token);
    if (!t->node || !t->token) return rf_fail_nomem(e, n * sizeof *t->node);
    uint32_t path[RF_TOKEN_MAX_BYTES + 1] = {0}, depth = 0; /* open nodes, by depth */
    t->n_nodes = 1;
    const word *last = NULL;
    for (size_t i = 0; i < w->n; i++) {
        const word *x = &w->w[i];
        if (!with_plain && x->n_chars) continue;
        uint32_t shared = last ? common_prefix(last, x) : 0;
        while (depth > shared)
            t->node[path[depth--]].end = t->n_nodes;
        while (depth < x->len) {
            path[depth + 1] = t->n_nodes;
            t->node[t->n_nodes++] = (rf_trie_node){
                .first_token = t->n_tokens, .depth = (uint16_t)(depth + 1), .byte = x->p[depth]};
            depth++;
        }
        t->token[t->n_tokens++] = x->token;
        last = x;
    }
    while (depth > 0)
        t->node[path[depth--]].end = t->n_nodes;
    t->node[0].end = t->n_nodes;
    t->node[t->n_nodes].first_token = t->n_tokens;
    return RF_OK;
}

static rf_status count_plain(rf_token_index *x, const words *w, rf_error *e) {
    for (size_t i = 0; i < w->n; i++)
        if (w->w[i].n_chars > x->max_plain) x->max_plain = w->w[i].n_chars;
    x->plain = rf_alloc((size_t)x->max_plain + 1, x->n_words * sizeof *x->plain);
    if (!x->plain) return rf_fail_nomem(e, x->max_plain * x->n_words * sizeof *x->plain);
    for (size_t i = 0; i < w->n; i++) {
        uint32_t token = (uint32_t)w->w[i].token;
        uint32_t *row = x->plain + (size_t)w->w[i].n_chars * x->n_words;
        if (w->w[i].n_chars) row[token / 32] |= 1u << token % 32;
    }
    for (size_t i = x->n_words; i < ((size_t)x->max_plain + 1) * x->n_words; i++)
        x->plain[i] |= x->plain[i - x->n_words];
    return RF_OK;
}

rf_status rf_token_index_create(rf_token_index **out, const rf_tokenizer *t, rf_error *e) {
    *out = NULL;
    rf_token_index *x = rf_alloc(1, sizeof *x);
    if (!x) return rf_fail_nomem(e, sizeof *x);
    x->n_vocab = rf_tokenizer_n_vocab(t);
    x->n_words = (x->n_vocab + 31) / 32;
    words w = {0};
    rf_status s = read_words(&w, t, e);
    for (size_t i = 0; i < w.n; i++)
        if (w.w[i].len > x->max_bytes) x->max_bytes = w.w[i].len;
    if (s == RF_OK) s = build(&x->all, &w, true, e);
    if (s == RF_OK) s = build(&x->uneven, &w, false, e);
    if (s == RF_OK) s = count_plain(x, &w, e);
    rf_free(w.w);
    rf_buf_free(&w.bytes);
    if (s == RF_OK)
        *out = x;
    else
        rf_token_index_free(x);
    return s;
}

void rf_token_index_free(rf_token_index *x) {
    if (!x) return;
    rf_free(x->all.node);
    rf_free(x->all.token);
    rf_free(x->uneven.node);
    rf_free(x->uneven.token);
    rf_free(x->plain);
    rf_free(x);
}
