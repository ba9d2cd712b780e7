/* special.c - finding the texts of special tokens inside raw text: leftmost, then longest.
 *
 * A trie over control, unknown and user-defined tokens.  Texts longer than RF_SPECIAL_MAX_BYTES are
 * left out, which keeps the search linear whatever a file contains. */
#include "text/vocab.h"

static bool is_special(const rf_tokenizer *t, uint32_t id) {
    return t->kind[id] == RF_TOKEN_CONTROL || t->kind[id] == RF_TOKEN_UNKNOWN ||
           t->kind[id] == RF_TOKEN_USER_DEFINED;
}

static bool fits(const rf_tokenizer *t, uint32_t id) {
    return is_special(t, id) && t->text[id].len > 0 && t->text[id].len <= RF_SPECIAL_MAX_BYTES;
}

static uint32_t new_node(rf_tokenizer *t, uint8_t byte) {
    t->special[t->n_special] = (rf_special_node){.token = RF_TOKEN_NONE, .byte = byte};
    return t->n_special++;
}

static void insert(rf_tokenizer *t, rf_str text, int32_t token) {
    uint8_t first = (uint8_t)text.p[0];
    if (!t->special_root[first]) t->special_root[first] = new_node(t, first);
    uint32_t node = t->special_root[first];
    for (size_t i = 1; i < text.len; i++) {
        uint8_t byte = (uint8_t)text.p[i];
        uint32_t child = t->special[node].child;
        while (child && t->special[child].byte != byte) {
            child = t->special[child].sibling;
        }
        if (!child) {
            child = new_node(t, byte);
            t->special[child].sibling = t->special[node].child;
            t->special[node].child = child;
        }
        node = child;
    }
    if (t->special[node].token == RF_TOKEN_NONE) t->special[node].token = token;
}

rf_status rf_special_build(rf_tokenizer *t, rf_error *e) {
    size_t bytes = 1;
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        if (fits(t, id)) bytes += t->text[id].len;
    }
    if (bytes > UINT32_MAX) {
        return rf_fail(e, RF_EUNSUPPORTED, "tokenizer.ggml.tokens: %zu bytes of special tokens",
                       bytes);
    }
    t->special = rf_arena_alloc(t->arena, bytes, sizeof *t->special);
    if (!t->special) return rf_fail_nomem(e, bytes * sizeof *t->special);
    t->n_special = 1;
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        if (fits(t, id)) insert(t, t->text[id], (int32_t)id);
    }
    return RF_OK;
}

bool rf_special_find(const rf_tokenizer *t, rf_str text, size_t from, bool parse_special,
                     size_t *at, int32_t *token) {
    for (size_t start = from; start < text.len; start++) {
        uint32_t node = t->special_root[(uint8_t)text.p[start]];
        int32_t longest = RF_TOKEN_NONE;
        for (size_t i = start + 1; node; i++) {
            int32_t here = t->special[node].token;
            if (here != RF_TOKEN_NONE &&
                (parse_special || t->kind[here] == RF_TOKEN_USER_DEFINED)) {
                longest = here;
            }
            uint32_t child = 0;
            if (i < text.len) {
                child = t->special[node].child;
                while (child && t->special[child].byte != (uint8_t)text.p[i]) {
                    child = t->special[child].sibling;
                }
            }
            node = child;
        }
        if (longest != RF_TOKEN_NONE) {
            *at = start;
            *token = longest;
            return true;
        }
    }
    return false;
}
