/* ngram.c - one table for runs of every length; the latest place wins. */
#include "engine/ngram.h"

#include <string.h>

#include "base/map.h"

enum { N_LENGTHS = RF_NGRAM_MAX - RF_NGRAM_MIN + 1, MAX_SLOTS = 1 << 18 };

rf_status rf_ngram_open(rf_ngram *g, uint32_t max_tokens) {
    uint64_t wanted = (uint64_t)max_tokens * N_LENGTHS;
    *g = (rf_ngram){.n_slots = 1};
    while (g->n_slots < wanted && g->n_slots < MAX_SLOTS)
        g->n_slots *= 2;
    g->slots = rf_alloc(g->n_slots, sizeof *g->slots);
    if (g->slots) return RF_OK;
    g->n_slots = 0;
    return RF_ENOMEM;
}

void rf_ngram_close(rf_ngram *g) {
    rf_free(g->slots);
    *g = (rf_ngram){0};
}

/* Of the run of length tokens that ends before end. */
static uint32_t *slot_of(const rf_ngram *g, const int32_t *end, uint32_t length) {
    uint64_t h = rf_hash(end - length, length * sizeof *end, length);
    return &g->slots[h & (g->n_slots - 1)];
}

/* Only runs that something follows: the end of the text does not find itself. */
static void remember(rf_ngram *g, const int32_t *tokens, uint32_t n) {
    for (uint32_t end = g->n_seen + 1; end < n; end++) {
        for (uint32_t length = RF_NGRAM_MIN; length <= RF_NGRAM_MAX && length <= end; length++)
            *slot_of(g, tokens + end, length) = end;
        g->n_seen = end;
    }
}

/* How many tokens stand before the guess; 0: nothing is known. */
static uint32_t look_up(const rf_ngram *g, const int32_t *tokens, uint32_t n, uint32_t *length) {
    for (uint32_t l = RF_NGRAM_MAX; l >= RF_NGRAM_MIN; l--) {
        uint32_t at = l < n ? *slot_of(g, tokens + n, l) : 0;
        *length = l;
        if (at >= l && at < n && memcmp(tokens + at - l, tokens + n - l, l * sizeof *tokens) == 0)
            return at;
    }
    return 0;
}

uint32_t rf_ngram_guess(rf_ngram *g, const int32_t *tokens, uint32_t n, int32_t *out, uint32_t cap,
                        uint32_t *length) {
    remember(g, tokens, n);
    uint32_t at = look_up(g, tokens, n, length);
    if (at == 0) return 0;
    for (uint32_t i = 0; i < cap; i++) /* beyond the end of the text its guess goes on */
        out[i] = at + i < n ? tokens[at + i] : out[at + i - n];
    return cap;
}
