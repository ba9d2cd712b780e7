/* special.c - finding the texts of special tokens inside raw text: leftmost, then longest.
 *
 * A trie over token texts.  Texts longer than RF_SPECIAL_MAX_BYTES are left out, which keeps the
 * search linear whatever a file contains. */
#include "text/vocab.h"

static bool fits(rf_str text) { return text.len > 0 && text.len <= RF_SPECIAL_MAX_BYTES; }

static uint32_t new_node(rf_special_set *s, uint8_t byte) {
    s->nodes[s->n] = (rf_special_node){.token = RF_TOKEN_NONE, .byte = byte};
    return s->n++;
}

static uint32_t child_of(const rf_special_set *s, uint32_t node, uint8_t byte) {
    uint32_t child = s->nodes[node].child;
    while (child && s->nodes[child].byte != byte) {
        child = s->nodes[child].sibling;
    }
    return child;
}

static void insert(rf_special_set *s, rf_str text, int32_t token) {
    uint8_t first = (uint8_t)text.p[0];
    if (!s->root[first]) s->root[first] = new_node(s, first);
    uint32_t node = s->root[first];
    for (size_t i = 1; i < text.len; i++) {
        uint8_t byte = (uint8_t)text.p[i];
        uint32_t child = child_of(s, node, byte);
        if (!child) {
            child = new_node(s, byte);
            s->nodes[child].sibling = s->nodes[node].child;
            s->nodes[node].child = child;
        }
        node = child;
    }
    if (s->nodes[node].token == RF_TOKEN_NONE) s->nodes[node].token = token;
}

rf_status rf_special_build(rf_special_set *s, rf_arena *arena, const rf_str *text,
                           const uint32_t *ids, uint32_t n, rf_error *e) {
    size_t bytes = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (fits(text[ids[i]])) bytes += text[ids[i]].len;
    }
    if (bytes > UINT32_MAX) {
        return rf_fail(e, RF_EUNSUPPORTED, "%zu bytes of special tokens: at most %u are allowed",
                       bytes, UINT32_MAX);
    }
    s->nodes = rf_arena_alloc(arena, bytes, sizeof *s->nodes);
    if (!s->nodes) return rf_fail_nomem(e, bytes * sizeof *s->nodes);
    s->n = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (fits(text[ids[i]])) insert(s, text[ids[i]], (int32_t)ids[i]);
    }
    return RF_OK;
}

bool rf_special_find(const rf_tokenizer *t, const rf_special_set *s, rf_str text, size_t from,
                     rf_special_filter wanted, bool parse_special, size_t *at, int32_t *token) {
    if (!s->nodes) return false;
    for (size_t start = from; start < text.len; start++) {
        uint32_t node = s->root[(uint8_t)text.p[start]];
        int32_t longest = RF_TOKEN_NONE;
        for (size_t i = start + 1; node; i++) {
            int32_t here = s->nodes[node].token;
            if (here != RF_TOKEN_NONE && wanted(t, here, parse_special)) longest = here;
            node = i < text.len ? child_of(s, node, (uint8_t)text.p[i]) : 0;
        }
        if (longest != RF_TOKEN_NONE) {
            *at = start;
            *token = longest;
            return true;
        }
    }
    return false;
}
