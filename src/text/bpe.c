/* bpe.c - byte-level BPE: the alphabet that spells bytes as letters, the table of merges, and one
 * piece of text to tokens.
 *
 * Merges work on ids, not on strings: a pair of tokens is one 64-bit key. */
#include <string.h>

#include "base/log.h"
#include "base/os.h"
#include "base/utf8.h"
#include "text/merge.h"
#include "text/pipeline.h"

/* Printable bytes stand for themselves; the other 68 follow from U+0100 on, in byte order. */
static bool stands_for_itself(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

static uint32_t letter_of(unsigned byte) {
    if (stands_for_itself(byte)) return byte;
    if (byte <= 0x20) return 0x100 + byte;
    if (byte < 0xA1) return 0x100 + 0x21 + (byte - 0x7F);
    return 0x100 + 0x21 + 0x22; /* 0xAD */
}

int rf_bpe_byte_char(uint8_t byte, char out[4]) { return rf_utf8_encode(letter_of(byte), out); }

static int byte_of(uint32_t letter) {
    if (letter < 0x100) return stands_for_itself(letter) ? (int)letter : -1;
    uint32_t n = letter - 0x100;
    if (n <= 0x20) return (int)n;
    if (n < 0x21 + 0x22) return (int)(n - 0x21 + 0x7F);
    return n == 0x21 + 0x22 ? 0xAD : -1;
}

bool rf_bpe_decode(rf_str text, rf_buf *out) {
    size_t before = out->len;
    while (text.len) {
        uint32_t letter;
        int len = rf_utf8_decode(text.p, text.len, &letter);
        int byte = len ? byte_of(letter) : -1;
        if (byte < 0) {
            out->len = before;
            return false;
        }
        rf_buf_putc(out, (char)byte);
        text.p += len;
        text.len -= (size_t)len;
    }
    return true;
}

static uint64_t slot_of(const rf_tokenizer *t, uint64_t pair) {
    uint64_t h = (pair ^ t->merge_seed) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    return (h ^ h >> 32) & t->merge_mask;
}

static const rf_merge_slot *find_merge(const rf_tokenizer *t, int32_t left, int32_t right) {
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (uint64_t i = slot_of(t, pair);; i = (i + 1) & t->merge_mask) {
        if (t->merges[i].id_plus == 0) return NULL;
        if (t->merges[i].pair == pair) return &t->merges[i];
    }
}

static void put_merge(rf_tokenizer *t, uint64_t pair, uint32_t rank, uint32_t id) {
    uint64_t i = slot_of(t, pair);
    while (t->merges[i].id_plus) {
        if (t->merges[i].pair == pair) return; /* the first of equals counts */
        i = (i + 1) & t->merge_mask;
    }
    t->merges[i] = (rf_merge_slot){.pair = pair, .rank = rank, .id_plus = id + 1};
}

/* Is the token's text a, then b? */
static bool spells(const rf_tokenizer *t, uint32_t id, rf_str a, rf_str b) {
    return id < t->n_vocab && t->text[id].len == a.len + b.len &&
           memcmp(t->text[id].p, a.p, a.len) == 0 && memcmp(t->text[id].p + a.len, b.p, b.len) == 0;
}

/* The id of a and b joined.  Files list merges in the order of their results, so the token after
 * the last result, or that one again, is nearly always right. */
static uint32_t joined(const rf_tokenizer *t, rf_str a, rf_str b, uint32_t last, rf_buf *room) {
    if (spells(t, last + 1, a, b)) return last + 1;
    if (spells(t, last, a, b)) return last;
    if (a.len + b.len > t->max_token_bytes) return RF_INDEX_NONE;
    rf_buf_clear(room);
    rf_buf_put(room, a.p, a.len);
    rf_buf_put(room, b.p, b.len);
    return rf_index_get(&t->by_text, rf_buf_str(room));
}

/* A line of the list: two texts with a space between; the first may begin with one. */
static bool parse_merge(rf_str line, rf_str *a, rf_str *b) {
    const char *space = line.len > 1 ? memchr(line.p + 1, ' ', line.len - 1) : NULL;
    if (!space || space + 1 == line.p + line.len) return false;
    *a = (rf_str){line.p, (size_t)(space - line.p)};
    *b = (rf_str){space + 1, line.len - a->len - 1};
    return true;
}

void rf_bpe_add_pairs(rf_tokenizer *t, rf_merge_list *list, const rf_str *half, uint32_t n) {
    uint32_t id[RF_INDEX_BATCH];
    uint64_t pair[RF_INDEX_BATCH / 2];
    rf_index_get_many(&t->by_text, half, 2 * (size_t)n, id);
    for (uint32_t i = 0; i < n; i++) {
        pair[i] = (uint64_t)id[2 * i] << 32 | id[2 * i + 1];
        __builtin_prefetch(&t->merges[slot_of(t, pair[i])], 1);
    }
    for (uint32_t i = 0; i < n; i++, list->rank++) {
        rf_str right = half[2 * i + 1];
        uint32_t skip = list->skip < right.len ? list->skip : 0;
        right = (rf_str){right.p + skip, right.len - skip};
        uint32_t whole = joined(t, half[2 * i], right, list->last, &list->room);
        if (id[2 * i] == RF_INDEX_NONE || id[2 * i + 1] == RF_INDEX_NONE ||
            whole == RF_INDEX_NONE) {
            if (list->n_unknown++ == 0) list->first_unknown = list->rank;
            continue;
        }
        put_merge(t, pair[i], list->rank, whole);
        list->last = whole;
    }
}

/* Adds n <= RF_INDEX_BATCH / 2 lines. */
static rf_status add_lines(rf_tokenizer *t, rf_merge_list *list, const uint8_t **cursor, uint32_t n,
                           rf_error *e) {
    rf_str half[RF_INDEX_BATCH] = {{0}}; /* left and right by turns */
    for (uint32_t i = 0; i < n; i++) {
        rf_str line = rf_gguf_next_str(cursor);
        if (parse_merge(line, &half[2 * i], &half[2 * i + 1])) continue;
        return rf_fail(e, RF_EFORMAT,
                       "tokenizer.ggml.merges[%u]: \"%.*s\": expected two token texts with a space "
                       "between",
                       list->rank + i, RF_STR_ARG(line));
    }
    rf_bpe_add_pairs(t, list, half, n);
    return RF_OK;
}

static rf_status add_merges(rf_tokenizer *t, const rf_gguf_kv *kv, rf_error *e) {
    rf_merge_list list = {0};
    const uint8_t *cursor = kv->data;
    rf_status s = RF_OK;
    while (s == RF_OK && list.rank < kv->n) {
        uint64_t left = kv->n - list.rank;
        uint32_t n = left < RF_INDEX_BATCH / 2 ? (uint32_t)left : RF_INDEX_BATCH / 2;
        s = add_lines(t, &list, &cursor, n, e);
    }
    if (s == RF_OK && list.room.failed) s = rf_fail_nomem(e, t->max_token_bytes);
    rf_buf_free(&list.room);
    if (s == RF_OK && list.n_unknown) {
        rf_log_write(RF_LOG_WARN, "tokenizer.ggml.merges: %u of %llu name no token and are ignored",
                     list.n_unknown, (unsigned long long)kv->n);
    }
    return s;
}

rf_status rf_bpe_reserve(rf_tokenizer *t, uint64_t n, rf_error *e) {
    if (n >= INT32_MAX) {
        return rf_fail(e, RF_EUNSUPPORTED, "%llu merges: at most %d are allowed",
                       (unsigned long long)n, INT32_MAX - 1);
    }
    uint64_t n_slots = 16;
    while (n_slots < n * 3 / 2) {
        n_slots *= 2;
    }
    t->merges = rf_arena_alloc(t->arena, (size_t)n_slots, sizeof *t->merges);
    if (!t->merges) return rf_fail_nomem(e, (size_t)n_slots * sizeof *t->merges);
    t->merge_mask = n_slots - 1;
    t->merge_seed = rf_random_u64();
    return RF_OK;
}

rf_status rf_bpe_load(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
    const rf_gguf_kv *kv;
    RF_TRY(rf_gguf_get_array(g, "tokenizer.ggml.merges", RF_GGUF_STRING, &kv, e));
    if (!kv) {
        return rf_fail(e, RF_EFORMAT,
                       "tokenizer.ggml.merges: missing; a \"%s\" tokenizer cannot work without",
                       t->model);
    }
    RF_TRY(rf_bpe_reserve(t, kv->n, e));
    RF_TRY(add_merges(t, kv, e));
    for (unsigned byte = 0; byte < 256; byte++) {
        char letter[4];
        int len = rf_bpe_byte_char((uint8_t)byte, letter);
        t->byte_token[byte] = rf_token_find(t, (rf_str){letter, (size_t)len});
    }
    return RF_OK;
}

static void pair(const rf_tokenizer *t, const char *text, rf_symbol *left, const rf_symbol *right) {
    (void)text;
    const rf_merge_slot *found = find_merge(t, left->id, right->id);
    left->rank = found ? found->rank : RF_RANK_NONE;
    left->merged = found ? (int32_t)(found->id_plus - 1) : RF_TOKEN_NONE;
}

/* The token whose text is the whole piece. */
static int32_t whole(const rf_tokenizer *t, rf_str piece) {
    char text[256];
    size_t n = 0;
    if (piece.len > t->max_token_bytes || piece.len > sizeof text / 2) return RF_TOKEN_NONE;
    for (size_t i = 0; i < piece.len; i++) {
        char letter[4];
        int len = rf_bpe_byte_char((uint8_t)piece.p[i], letter);
        memcpy(text + n, letter, (size_t)len);
        n += (size_t)len;
    }
    uint32_t id = rf_index_get(&t->by_text, (rf_str){text, n});
    return id != RF_INDEX_NONE && t->kind[id] == RF_TOKEN_NORMAL ? (int32_t)id : RF_TOKEN_NONE;
}

rf_status rf_bpe_encode(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                        rf_error *e) {
    if (t->ignore_merges) {
        int32_t id = whole(t, piece);
        if (id != RF_TOKEN_NONE) {
            rf_ids_push(ids, id);
            return RF_OK;
        }
    }
    m->n = 0;
    for (size_t i = 0; i < piece.len; i++) {
        int32_t id = t->byte_token[(uint8_t)piece.p[i]];
        if (id == RF_TOKEN_NONE) continue; /* a few vocabularies lack control bytes: left out */
        if (rf_merger_push(m, (uint32_t)i, 1, id) != RF_OK) return rf_fail_nomem(e, piece.len);
    }
    if (m->n == 0) return RF_OK;
    if (rf_merger_run(m, t, piece.p, pair) != RF_OK) return rf_fail_nomem(e, piece.len);
    for (uint32_t i = 0; i != RF_SYMBOL_END; i = m->symbols[i].next) {
        rf_ids_push(ids, m->symbols[i].id);
    }
    return RF_OK;
}

/* --- over characters ------------------------------------------------------------------------- */

static rf_status push(rf_merger *m, size_t at, size_t len, int32_t id, rf_error *e) {
    if (rf_merger_push(m, (uint32_t)at, (uint32_t)len, id) == RF_OK) return RF_OK;
    return rf_fail_nomem(e, len);
}

/* The token of one character, with what the vocabulary writes before it inside a word and behind it
 * at the end of one. */
static int32_t char_token(const rf_tokenizer *t, rf_str c, bool first, bool last) {
    const rf_pipeline *p = t->pipe;
    if ((first || p->part_prefix.len == 0) && (!last || p->end_suffix.len == 0)) {
        return rf_token_find(t, c);
    }
    char text[256];
    size_t n = 0;
    if (p->part_prefix.len + p->end_suffix.len > sizeof text - 4) return RF_TOKEN_NONE;
    if (!first) {
        memcpy(text, p->part_prefix.p, p->part_prefix.len);
        n = p->part_prefix.len;
    }
    memcpy(text + n, c.p, c.len);
    n += c.len;
    if (last) {
        memcpy(text + n, p->end_suffix.p, p->end_suffix.len);
        n += p->end_suffix.len;
    }
    return rf_token_find(t, (rf_str){text, n});
}

static bool has_bytes(const rf_tokenizer *t, rf_str c) {
    for (size_t i = 0; i < c.len; i++) {
        if (t->byte_token[(uint8_t)c.p[i]] == RF_TOKEN_NONE) return false;
    }
    return true;
}

/* Each character as a symbol: its token, its bytes' tokens, the unknown token, or nothing. */
static rf_status push_chars(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_error *e) {
    const rf_pipeline *p = t->pipe;
    bool was_unknown = false;
    for (size_t i = 0, len; i < piece.len; i += len) {
        uint32_t cp;
        int n = rf_utf8_decode(piece.p + i, piece.len - i, &cp);
        len = n > 0 ? (size_t)n : 1;
        rf_str c = {piece.p + i, len};
        int32_t id = char_token(t, c, i == 0, i + len == piece.len);
        bool known = id != RF_TOKEN_NONE;
        if (known) {
            RF_TRY(push(m, i, len, id, e));
        } else if (p->byte_fallback && has_bytes(t, c)) {
            for (size_t k = 0; k < len; k++) {
                RF_TRY(push(m, i + k, 1, t->byte_token[(uint8_t)c.p[k]], e));
            }
        } else if (t->unk != RF_TOKEN_NONE) {
            if (!was_unknown || !p->fuse_unk) RF_TRY(push(m, i, len, t->unk, e));
            was_unknown = true;
        }
        if (known) was_unknown = false;
    }
    return RF_OK;
}

static bool may_be_whole(const rf_tokenizer *t, rf_str piece) {
    return t->ignore_merges || (t->pipe->whole_newlines && piece.len && piece.p[0] == '\n');
}

rf_status rf_charbpe_encode(const rf_tokenizer *t, rf_merger *m, rf_str piece, rf_ids *ids,
                            rf_error *e) {
    if (may_be_whole(t, piece)) {
        int32_t id = rf_token_find(t, piece);
        if (id != RF_TOKEN_NONE) {
            rf_ids_push(ids, id);
            return RF_OK;
        }
    }
    m->n = 0;
    RF_TRY(push_chars(t, m, piece, e));
    if (m->n == 0) return RF_OK;
    if (rf_merger_run(m, t, piece.p, pair) != RF_OK) return rf_fail_nomem(e, piece.len);
    for (uint32_t i = 0; i != RF_SYMBOL_END; i = m->symbols[i].next) {
        rf_ids_push(ids, m->symbols[i].id);
    }
    return RF_OK;
}
