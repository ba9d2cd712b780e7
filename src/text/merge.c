/* merge.c - see merge.h.  The heap holds stale entries: one is valid while its left symbol lives
 * and still has the rank it was pushed with. */
#include "text/merge.h"

#include <string.h>

enum { SCAN_MAX = 40 }; /* symbols up to which scanning beats the heap (measured) */

rf_status rf_merger_push(rf_merger *m, uint32_t at, uint32_t len, int32_t id) {
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 64;
        rf_symbol *grown = rf_realloc(m->symbols, m->cap, cap, sizeof *grown);
        if (!grown) return RF_ENOMEM;
        m->symbols = grown;
        m->cap = cap;
    }
    uint32_t index = (uint32_t)m->n++;
    m->symbols[index] = (rf_symbol){.prev = index ? index - 1 : RF_SYMBOL_END,
                                    .next = RF_SYMBOL_END,
                                    .at = at,
                                    .len = len,
                                    .id = id,
                                    .rank = RF_RANK_NONE,
                                    .merged = RF_TOKEN_NONE};
    if (index) m->symbols[index - 1].next = index;
    return RF_OK;
}

static rf_status heap_push(rf_merger *m, uint64_t entry) {
    if (m->n_heap == m->cap_heap) {
        size_t cap = m->cap_heap ? m->cap_heap * 2 : 256;
        uint64_t *grown = rf_realloc(m->heap, m->cap_heap, cap, sizeof *grown);
        if (!grown) return RF_ENOMEM;
        m->heap = grown;
        m->cap_heap = cap;
    }
    size_t i = m->n_heap++;
    while (i > 0 && m->heap[(i - 1) / 2] > entry) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap[i] = entry;
    return RF_OK;
}

static void heap_sift(uint64_t *heap, size_t n, size_t i) {
    uint64_t entry = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= entry) break;
        heap[i] = heap[child];
    }
    heap[i] = entry;
}

static uint64_t heap_pop(rf_merger *m) {
    uint64_t top = m->heap[0];
    m->heap[0] = m->heap[--m->n_heap];
    if (m->n_heap) heap_sift(m->heap, m->n_heap, 0);
    return top;
}

/* Joins symbol i with its next one and looks both new pairs up.  The left neighbour's index, or
 * RF_SYMBOL_END, goes to *left. */
static void join(rf_merger *m, const rf_tokenizer *t, const char *text, rf_pair_fn pair, uint32_t i,
                 uint32_t *left) {
    rf_symbol *s = &m->symbols[i], *gone = &m->symbols[s->next];
    s->len += gone->len;
    s->id = s->merged;
    s->next = gone->next;
    s->rank = RF_RANK_NONE;
    gone->len = 0;
    gone->rank = RF_RANK_NONE;
    if (s->next != RF_SYMBOL_END) {
        m->symbols[s->next].prev = i;
        pair(t, text, s, &m->symbols[s->next]);
    }
    *left = s->prev;
    if (s->prev != RF_SYMBOL_END) pair(t, text, &m->symbols[s->prev], s);
}

static void merge_by_scanning(rf_merger *m, const rf_tokenizer *t, const char *text,
                              rf_pair_fn pair) {
    for (;;) {
        uint32_t best = RF_SYMBOL_END, best_rank = RF_RANK_NONE;
        for (uint32_t i = 0; i != RF_SYMBOL_END; i = m->symbols[i].next) {
            if (m->symbols[i].rank < best_rank) {
                best_rank = m->symbols[i].rank;
                best = i;
            }
        }
        if (best == RF_SYMBOL_END) return;
        uint32_t left;
        join(m, t, text, pair, best, &left);
    }
}

static uint64_t entry_of(const rf_merger *m, uint32_t i) {
    return (uint64_t)m->symbols[i].rank << 32 | i;
}

static rf_status merge_by_heap(rf_merger *m, const rf_tokenizer *t, const char *text,
                               rf_pair_fn pair) {
    m->n_heap = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->symbols[i].rank != RF_RANK_NONE) RF_TRY(heap_push(m, entry_of(m, i)));
    }
    while (m->n_heap) {
        uint64_t entry = heap_pop(m);
        uint32_t i = (uint32_t)entry, left;
        if (m->symbols[i].len == 0 || m->symbols[i].rank != (uint32_t)(entry >> 32)) continue;
        join(m, t, text, pair, i, &left);
        if (m->symbols[i].rank != RF_RANK_NONE) RF_TRY(heap_push(m, entry_of(m, i)));
        if (left != RF_SYMBOL_END && m->symbols[left].rank != RF_RANK_NONE) {
            RF_TRY(heap_push(m, entry_of(m, left)));
        }
    }
    return RF_OK;
}

rf_status rf_merger_run(rf_merger *m, const rf_tokenizer *t, const char *text, rf_pair_fn pair) {
    for (size_t i = 0; i + 1 < m->n; i++) {
        pair(t, text, &m->symbols[i], &m->symbols[i + 1]);
    }
    if (m->n <= SCAN_MAX) {
        merge_by_scanning(m, t, text, pair);
        return RF_OK;
    }
    return merge_by_heap(m, t, text, pair);
}

void rf_merger_free(rf_merger *m) {
    rf_free(m->symbols);
    rf_free(m->heap);
    *m = (rf_merger){0};
}
