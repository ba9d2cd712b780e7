/* grammar_walk.h - what the fuzz targets of the grammar languages do with one input. */
#pragma once
#include <stdint.h>

#include "grammar/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The lowest byte at or after wanted (around the end) that may follow; -1 when none may. */
static inline int next_byte(rf_matcher *m, uint8_t wanted) {
    for (int i = 0; i < 256; i++) {
        char byte = (char)(uint8_t)(wanted + i);
        rf_matcher *copy;
        RF_ASSERT(rf_matcher_copy(&copy, m) == RF_OK);
        rf_status s = rf_matcher_feed(copy, (rf_str){&byte, 1});
        rf_matcher_free(copy);
        if (s == RF_OK) return (uint8_t)byte;
        if (s == RF_EFULL) return -1; /* a limit, said so */
        RF_ASSERT(s == RF_EARG);
    }
    return -1;
}

static inline int walk_grammar(rf_language language, const uint8_t *data, size_t size) {
    rf_grammar *g;
    rf_error e = {0};
    rf_status s = rf_grammar_compile(&g, language, (rf_str){(const char *)data, size}, NULL, &e);
    if (s != RF_OK) {
        RF_ASSERT(!g && e.status == s && e.text[0]);
        return 0;
    }
    rf_matcher *m;
    if (rf_matcher_create(&m, g, &e) == RF_OK) {
        /* from every place something may follow, or the text is whole */
        for (size_t i = 0; i < 24; i++) {
            int byte = next_byte(m, size ? data[i % size] : 0);
            char c = (char)byte;
            if (byte < 0) break;
            RF_ASSERT(rf_matcher_feed(m, (rf_str){&c, 1}) == RF_OK);
            RF_ASSERT(!rf_matcher_is_over(m) || rf_matcher_can_end(m));
        }
        rf_matcher_free(m);
    }
    rf_grammar_unref(g);
    return 0;
}
