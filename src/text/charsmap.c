/* charsmap.c - SentencePiece's precompiled map of characters: a double array, in which each unit is
 * a node, and the zero-terminated texts that its leaves point to.
 *
 * A unit holds: bits 0-7 the byte that leads to it, bit 8 whether it has a leaf, bits 10-30 the
 * offset to its children, shifted by 8 where bit 9 is set; a leaf has bit 31 and a value.  Nothing in
 * it is trusted: each index is checked before it is used. */
#include <string.h>

#include "text/pipeline.h"

static uint32_t unit_at(const rf_charsmap *m, size_t i) {
    const uint8_t *p = m->units + i * 4;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

rf_status rf_charsmap_open(rf_charsmap *m, rf_str bytes, rf_error *e) {
    *m = (rf_charsmap){0};
    if (bytes.len == 0) return RF_OK;
    const uint8_t *p = (const uint8_t *)bytes.p;
    if (bytes.len < 5) {
        return rf_fail(e, RF_EFORMAT, "map of characters: %zu bytes, expected at least 5",
                       bytes.len);
    }
    size_t n = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
    if (n % 4 || n == 0 || n >= bytes.len - 4) {
        return rf_fail(e, RF_EFORMAT,
                       "map of characters: %zu bytes of nodes, expected a multiple of 4 below %zu",
                       n, bytes.len - 4);
    }
    m->units = p + 4;
    m->n_units = n / 4;
    m->texts = (rf_str){bytes.p + 4 + n, bytes.len - 4 - n};
    if (m->texts.p[m->texts.len - 1] != '\0') {
        return rf_fail(e, RF_EFORMAT, "map of characters: its last text has no zero at its end");
    }
    return RF_OK;
}

static size_t children_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit >> 6) & 8u); }

rf_str rf_charsmap_find(const rf_charsmap *m, rf_str text, bool longest, size_t *len) {
    rf_str found = {"", 0};
    *len = 0;
    if (m->n_units == 0) return found;
    size_t node = children_of(unit_at(m, 0));
    for (size_t i = 0; i < text.len && text.p[i]; i++) {
        node ^= (uint8_t)text.p[i];
        if (node >= m->n_units) break;
        uint32_t unit = unit_at(m, node);
        if ((unit & 0x800000FFu) != (uint8_t)text.p[i]) break;
        node ^= children_of(unit);
        if (node >= m->n_units) break;
        if (!(unit >> 8 & 1)) continue;
        size_t value = unit_at(m, node) & 0x7FFFFFFFu;
        if (value >= m->texts.len) break;
        found = rf_str_of(m->texts.p + value);
        *len = i + 1;
        if (!longest) break;
    }
    return found;
}
