/* trie.c - see trie.h. */
#include "text/trie.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b) {
    const rf_trie_entry *x = a, *y = b;
    size_t n = x->text.len < y->text.len ? x->text.len : y->text.len;
    int order = memcmp(x->text.p, y->text.p, n);
    if (order) return order;
    if (x->text.len != y->text.len) return x->text.len < y->text.len ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

void rf_trie_build(rf_trie *t, rf_trie_entry *entries, uint32_t n) {
    qsort(entries, n, sizeof *entries, by_text);
    t->sorted = entries;
    t->n = n;
    uint32_t at = 0;
    for (unsigned byte = 0; byte <= 256; byte++) {
        while (at < n && (uint8_t)entries[at].text.p[0] < byte) {
            at++;
        }
        t->first[byte] = at;
    }
}

/* The first entry of [from, to) whose byte at depth is at least byte. */
static uint32_t lower(const rf_trie *t, uint32_t from, uint32_t to, uint32_t depth, unsigned byte) {
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        rf_str s = t->sorted[middle].text;
        if (s.len <= depth || (uint8_t)s.p[depth] < byte) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

bool rf_trie_step(const rf_trie *t, rf_trie_walk *w, uint8_t byte) {
    if (w->depth == 0) {
        w->from = t->first[byte];
        w->to = t->first[byte + 1u];
    } else {
        uint32_t from = lower(t, w->from, w->to, w->depth, byte);
        w->to = lower(t, from, w->to, w->depth, byte + 1u);
        w->from = from;
    }
    w->depth++;
    return w->from < w->to;
}

int32_t rf_trie_token(const rf_trie *t, const rf_trie_walk *w) {
    const rf_trie_entry *e = &t->sorted[w->from];
    return e->text.len == w->depth ? (int32_t)e->id : -1;
}
