/* json_model.c - the "model" of a tokenizer.json: its vocabulary, and BPE, WordPiece, Unigram or
 * WordLevel over it. */
#include <math.h>
#include <string.h>

#include "text/tokenizer_json.h"

/* --- vocabulary ------------------------------------------------------------------------------ */

/* Ids may have gaps, but a file pays for them: this many a token that is there. */
enum { IDS_PER_TOKEN = 4, FREE_IDS = 4096 };

typedef struct texts {
    rf_str *text;   /* [n] */
    uint32_t n;     /* ids: one more than the highest */
    size_t n_bytes; /* of all texts */
    size_t n_tokens;
    char *room; /* where the next text goes; NULL while counting */
} texts;

/* Counts the token, or keeps its text. */
static rf_status put_token(texts *v, const rf_node *at, rf_str text, uint32_t id, bool may_repeat,
                           rf_error *e) {
    if (!v->room) {
        if (id >= v->n) v->n = id + 1;
        v->n_bytes += text.len;
        v->n_tokens++;
        return RF_OK;
    }
    if (v->text[id].p) {
        if (may_repeat && rf_str_eq(v->text[id], text)) return RF_OK;
        return rf_node_fail(at, RF_EFORMAT, e, "id %u is already that of \"%.*s\"", id,
                            (int)(v->text[id].len > 80 ? 80 : v->text[id].len), v->text[id].p);
    }
    memcpy(v->room, text.p, text.len);
    v->text[id] = (rf_str){v->room, text.len};
    v->room += text.len;
    return RF_OK;
}

/* {"text": id, ...} */
static rf_status walk_object(texts *v, const rf_node *vocab, rf_error *e) {
    for (void *it = rf_json_iter(vocab->json); it; it = rf_json_iter_next(vocab->json, it)) {
        const char *key = rf_json_iter_key(it);
        rf_node item = {rf_json_iter_value(it), vocab, key, 0};
        uint32_t id;
        RF_TRY(rf_node_id(&item, INT32_MAX, &id, e));
        RF_TRY(put_token(v, &item, rf_str_of(key), id, false, e));
    }
    return RF_OK;
}

/* [["text", score], ...] */
static rf_status walk_array(texts *v, const rf_node *vocab, rf_error *e) {
    size_t n = rf_json_len(vocab->json);
    for (size_t i = 0; i < n; i++) {
        rf_node item = rf_node_at(vocab, i), first = rf_node_at(&item, 0);
        rf_str text;
        RF_TRY(rf_node_need(&item, RF_JSON_ARRAY, e));
        RF_TRY(rf_node_str(&first, &text, e));
        RF_TRY(put_token(v, &item, text, (uint32_t)i, false, e));
    }
    return RF_OK;
}

static rf_status walk(texts *v, const rf_node *root, rf_error *e) {
    rf_node model = rf_node_key(root, "model"), vocab = rf_node_key(&model, "vocab");
    RF_TRY(rf_node_need(&model, RF_JSON_OBJECT, e));
    if (rf_json_kind(vocab.json) == RF_JSON_ARRAY) {
        RF_TRY(walk_array(v, &vocab, e));
    } else {
        RF_TRY(rf_node_need(&vocab, RF_JSON_OBJECT, e));
        RF_TRY(walk_object(v, &vocab, e));
    }
    rf_node added = rf_node_key(root, "added_tokens");
    if (rf_node_absent(&added)) return RF_OK;
    RF_TRY(rf_node_need(&added, RF_JSON_ARRAY, e));
    for (size_t i = 0; i < rf_json_len(added.json); i++) {
        rf_node item = rf_node_at(&added, i);
        rf_node at_id = rf_node_key(&item, "id"), at_text = rf_node_key(&item, "content");
        uint32_t id;
        rf_str text;
        RF_TRY(rf_node_need(&item, RF_JSON_OBJECT, e));
        RF_TRY(rf_node_id(&at_id, INT32_MAX, &id, e));
        RF_TRY(rf_node_str(&at_text, &text, e));
        RF_TRY(put_token(v, &at_id, text, id, true, e));
    }
    return RF_OK;
}

rf_status rf_json_load_vocab(rf_tokenizer *t, const rf_node *root, rf_error *e) {
    texts v = {0};
    RF_TRY(walk(&v, root, e));
    rf_node model = rf_node_key(root, "model"), vocab = rf_node_key(&model, "vocab");
    if (v.n == 0) return rf_node_fail(&vocab, RF_EFORMAT, e, "no tokens");
    if (v.n > v.n_tokens * IDS_PER_TOKEN + FREE_IDS) {
        return rf_node_fail(&vocab, RF_EFORMAT, e, "the highest id is %u, but there are %zu tokens",
                            v.n - 1, v.n_tokens);
    }
    v.text = rf_arena_alloc(t->arena, v.n, sizeof *v.text);
    v.room = rf_arena_alloc(t->arena, v.n_bytes + 1, 1);
    if (!v.text || !v.room) return rf_fail_nomem(e, v.n * sizeof *v.text + v.n_bytes);
    RF_TRY(walk(&v, root, e));
    uint8_t *is_gap = rf_arena_alloc(t->arena, v.n, 1);
    if (!is_gap) return rf_fail_nomem(e, v.n);
    for (uint32_t id = 0; id < v.n; id++) {
        is_gap[id] = v.text[id].p == NULL;
        if (is_gap[id]) v.text[id] = (rf_str){"", 0};
    }
    RF_TRY(rf_tokenizer_set_texts(t, v.text, v.n, e));
    for (uint32_t id = 0; id < v.n; id++) {
        if (is_gap[id]) t->kind[id] = RF_TOKEN_UNUSED;
    }
    return RF_OK;
}

/* --- models ---------------------------------------------------------------------------------- */

static rf_status load_unk(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_str text = {0};
    RF_TRY(rf_node_get_str(n, "unk_token", &text, e));
    if (!text.p) return RF_OK;
    t->unk = rf_token_find(t, text);
    if (t->unk != RF_TOKEN_NONE) return RF_OK;
    rf_node at = rf_node_key(n, "unk_token");
    return rf_node_fail(&at, RF_EFORMAT, e, "\"%.*s\" is not a token", RF_STR_ARG(text));
}

static void find_bytes(rf_tokenizer *t) {
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        int byte = rf_spm_byte_value(t->text[id]);
        if (byte >= 0) t->byte_token[byte] = (int32_t)id;
    }
}

/* "a b" or ["a", "b"]. */
static rf_status read_merge(const rf_node *item, rf_str *a, rf_str *b, rf_error *e) {
    if (rf_json_kind(item->json) == RF_JSON_ARRAY && rf_json_len(item->json) == 2) {
        rf_node first = rf_node_at(item, 0), second = rf_node_at(item, 1);
        RF_TRY(rf_node_str(&first, a, e));
        return rf_node_str(&second, b, e);
    }
    rf_str line;
    RF_TRY(rf_node_str(item, &line, e));
    const char *space = memchr(line.p, ' ', line.len);
    if (!space)
        return rf_node_fail(item, RF_EFORMAT, e, "expected two tokens with a space between");
    *a = (rf_str){line.p, (size_t)(space - line.p)};
    *b = (rf_str){space + 1, line.len - a->len - 1};
    return RF_OK;
}

static rf_status load_merges(rf_tokenizer *t, const rf_node *merges, rf_error *e) {
    RF_TRY(rf_node_need(merges, RF_JSON_ARRAY, e));
    size_t n = rf_json_len(merges->json);
    RF_TRY(rf_bpe_reserve(t, n, e));
    rf_merge_list list = {.skip = (uint32_t)t->pipe->part_prefix.len};
    rf_status s = RF_OK;
    for (size_t from = 0; s == RF_OK && from < n; from += RF_INDEX_BATCH / 2) {
        rf_str half[RF_INDEX_BATCH] = {{0}};
        uint32_t count = 0;
        while (s == RF_OK && count < RF_INDEX_BATCH / 2 && from + count < n) {
            rf_node item = rf_node_at(merges, from + count);
            s = read_merge(&item, &half[2 * count], &half[2 * count + 1], e);
            count++;
        }
        if (s == RF_OK) rf_bpe_add_pairs(t, &list, half, count);
    }
    bool failed = list.room.failed;
    rf_buf_free(&list.room);
    RF_TRY(s);
    if (failed) return rf_fail_nomem(e, t->max_token_bytes);
    if (list.n_unknown == 0) return RF_OK;
    rf_node item = rf_node_at(merges, list.first_unknown);
    return rf_node_fail(&item, RF_EFORMAT, e, "its parts or its result are not in the vocabulary");
}

static rf_status load_bpe(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_pipeline *p = t->pipe;
    t->model = "gpt2";
    p->encode = rf_charbpe_encode;
    rf_node dropout = rf_node_key(n, "dropout"), merges = rf_node_key(n, "merges");
    if (!rf_node_absent(&dropout)) {
        RF_TRY(rf_node_need(&dropout, RF_JSON_REAL, e));
        if (rf_json_real(dropout.json) != 0) {
            return rf_node_fail(&dropout, RF_EUNSUPPORTED, e,
                                "%g: dropout is for training; expected 0 or null",
                                rf_json_real(dropout.json));
        }
    }
    RF_TRY(load_unk(t, n, e));
    RF_TRY(rf_node_get_bool(n, "byte_fallback", &p->byte_fallback, e));
    RF_TRY(rf_node_get_bool(n, "fuse_unk", &p->fuse_unk, e));
    RF_TRY(rf_node_get_bool(n, "ignore_merges", &t->ignore_merges, e));
    rf_str prefix = {"", 0}, suffix = {"", 0};
    RF_TRY(rf_node_get_str(n, "continuing_subword_prefix", &prefix, e));
    RF_TRY(rf_node_get_str(n, "end_of_word_suffix", &suffix, e));
    RF_TRY(rf_json_keep(t, prefix, &p->part_prefix, e));
    RF_TRY(rf_json_keep(t, suffix, &p->end_suffix, e));
    find_bytes(t);
    return load_merges(t, &merges, e);
}

static rf_status load_wordpiece(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_pipeline *p = t->pipe;
    t->model = "bert";
    p->encode = rf_wordpiece_encode;
    p->max_chars = 100;
    RF_TRY(load_unk(t, n, e));
    RF_TRY(rf_node_get_u32(n, "max_input_chars_per_word", &p->max_chars, e));
    rf_str prefix = RF_STR("##");
    RF_TRY(rf_node_get_str(n, "continuing_subword_prefix", &prefix, e));
    RF_TRY(rf_json_keep(t, prefix, &p->part_prefix, e));
    return rf_pipeline_index(t, e);
}

static rf_status load_scores(rf_tokenizer *t, const rf_node *vocab, rf_error *e) {
    rf_pipeline *p = t->pipe;
    RF_TRY(rf_node_need(vocab, RF_JSON_ARRAY, e));
    p->score = rf_arena_alloc(t->arena, t->n_vocab, sizeof *p->score);
    if (!p->score) return rf_fail_nomem(e, t->n_vocab * sizeof *p->score);
    double least = HUGE_VAL;
    for (size_t i = 0; i < rf_json_len(vocab->json); i++) {
        rf_node item = rf_node_at(vocab, i), score = rf_node_at(&item, 1);
        RF_TRY(rf_node_need(&score, RF_JSON_REAL, e));
        p->score[i] = rf_json_real(score.json);
        if (p->score[i] < least) least = p->score[i];
    }
    p->unknown_score = (isfinite(least) ? least : 0) - RF_UNKNOWN_PENALTY;
    return RF_OK;
}

static rf_status load_unigram(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_pipeline *p = t->pipe;
    t->model = "t5";
    p->encode = rf_unigram_encode;
    rf_node vocab = rf_node_key(n, "vocab"), unk = rf_node_key(n, "unk_id");
    RF_TRY(load_scores(t, &vocab, e));
    RF_TRY(rf_node_get_bool(n, "byte_fallback", &p->byte_fallback, e));
    if (!rf_node_absent(&unk)) {
        uint32_t id;
        RF_TRY(rf_node_id(&unk, (uint32_t)rf_json_len(vocab.json), &id, e));
        t->unk = (int32_t)id;
    }
    find_bytes(t);
    /* Added tokens beyond the model's own are no part of it. */
    for (uint32_t id = (uint32_t)rf_json_len(vocab.json); id < t->n_vocab; id++) {
        t->kind[id] = RF_TOKEN_CONTROL;
    }
    return rf_pipeline_index(t, e);
}

static rf_status load_wordlevel(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    t->model = "wordlevel";
    t->pipe->encode = rf_wordlevel_encode;
    return load_unk(t, n, e);
}

const rf_json_type_row rf_json_models[] = {{"BPE", load_bpe},
                                           {"WordPiece", load_wordpiece},
                                           {"Unigram", load_unigram},
                                           {"WordLevel", load_wordlevel},
                                           {NULL, NULL}};

/* Old files do not name the type; what else they hold does. */
rf_status rf_json_load_model(rf_tokenizer *t, const rf_node *root, rf_error *e) {
    rf_node model = rf_node_key(root, "model"), type = rf_node_key(&model, "type");
    if (type.json) return rf_json_load_typed(t, &model, RF_JSON_MODELS, e);
    if (rf_json_get(model.json, "merges")) return load_bpe(t, &model, e);
    if (rf_json_get(model.json, "unk_id")) return load_unigram(t, &model, e);
    if (rf_json_get(model.json, "max_input_chars_per_word")) return load_wordpiece(t, &model, e);
    return load_wordlevel(t, &model, e);
}
