/* json_added.c - added tokens of a tokenizer.json and what its post-processors put around a text. */
#include <string.h>

#include "text/tokenizer_json.h"

/* --- added tokens ---------------------------------------------------------------------------- */

static rf_status load_flags(rf_tokenizer *t, const rf_node *item, uint32_t *id, rf_error *e) {
    rf_node at = rf_node_key(item, "id");
    RF_TRY(rf_node_id(&at, t->n_vocab, id, e));
    bool special = false, single = false, left = false, right = false;
    RF_TRY(rf_node_get_bool(item, "special", &special, e));
    bool normalized = !special;
    RF_TRY(rf_node_get_bool(item, "normalized", &normalized, e));
    RF_TRY(rf_node_get_bool(item, "single_word", &single, e));
    RF_TRY(rf_node_get_bool(item, "lstrip", &left, e));
    RF_TRY(rf_node_get_bool(item, "rstrip", &right, e));
    t->kind[*id] = special ? RF_TOKEN_CONTROL : RF_TOKEN_USER_DEFINED;
    t->pipe->added_flags[*id] =
        (uint8_t)((single ? RF_ADDED_SINGLE_WORD : 0u) | (left ? RF_ADDED_LSTRIP : 0u) |
                  (right ? RF_ADDED_RSTRIP : 0u) | (normalized ? RF_ADDED_NORMALIZED : 0u));
    return RF_OK;
}

/* The texts as they look after normalising. */
static rf_status normalize_texts(rf_tokenizer *t, rf_str *texts, const uint32_t *ids, uint32_t n,
                                 rf_error *e) {
    rf_run run = {.t = t, .e = e};
    if (rf_searcher_create(&run.searcher) != RF_OK) return rf_fail_nomem(e, sizeof run);
    rf_status s = RF_OK;
    for (uint32_t i = 0; s == RF_OK && i < n; i++) {
        rf_str text;
        s = rf_run_normal(&run, texts[ids[i]], &text);
        if (s == RF_OK) s = rf_json_keep(t, text, &texts[ids[i]], e);
    }
    rf_run_free(&run);
    return s;
}

rf_status rf_json_load_added(rf_tokenizer *t, const rf_node *root, rf_error *e) {
    rf_pipeline *p = t->pipe;
    rf_node added = rf_node_key(root, "added_tokens");
    size_t n = rf_json_len(added.json);
    rf_str *texts = rf_arena_alloc(t->arena, t->n_vocab, sizeof *texts);
    uint32_t *ids = rf_arena_alloc(t->arena, n, sizeof *ids);
    uint32_t *normal = rf_arena_alloc(t->arena, n, sizeof *normal), n_normal = 0;
    p->added_flags = rf_arena_alloc(t->arena, t->n_vocab, 1);
    if (!texts || !ids || !normal || !p->added_flags) {
        return rf_fail_nomem(e, t->n_vocab * sizeof *texts);
    }
    for (size_t i = 0; i < n; i++) {
        rf_node item = rf_node_at(&added, i);
        RF_TRY(load_flags(t, &item, &ids[i], e));
        texts[ids[i]] = t->text[ids[i]];
        if (p->added_flags[ids[i]] & RF_ADDED_NORMALIZED) normal[n_normal++] = ids[i];
    }
    RF_TRY(normalize_texts(t, texts, normal, n_normal, e));
    p->added_text = texts;
    RF_TRY(rf_special_build(&p->added, t->arena, texts, normal, n_normal, e));
    return rf_special_build(&t->special, t->arena, t->text, ids, (uint32_t)n, e);
}

/* --- post-processors ------------------------------------------------------------------------- */

/* What an outer processor adds goes around what the inner ones did. */
static rf_status frame(rf_tokenizer *t, const rf_node *n, const rf_ids *before, const rf_ids *after,
                       rf_error *e) {
    rf_pipeline *p = t->pipe;
    if (before->failed || after->failed) return rf_fail_nomem(e, before->len + after->len);
    if (before->len > RF_FRAME_MAX - p->n_before || after->len > RF_FRAME_MAX - p->n_after) {
        return rf_node_fail(n, RF_EUNSUPPORTED, e, "more than %d tokens around a text",
                            RF_FRAME_MAX);
    }
    memmove(p->before + before->len, p->before, p->n_before * sizeof *p->before);
    for (size_t i = 0; i < before->len; i++) {
        p->before[i] = before->p[i];
    }
    for (size_t i = 0; i < after->len; i++) {
        p->after[p->n_after + i] = after->p[i];
    }
    p->n_before += (uint32_t)before->len;
    p->n_after += (uint32_t)after->len;
    return RF_OK;
}

static rf_status post_sequence(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    return rf_json_load_list(t, n, "processors", RF_JSON_POST_PROCESSORS, e);
}

static rf_status no_frame(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    (void)t;
    (void)n;
    (void)e;
    return RF_OK;
}

/* ["[SEP]", 102] */
static rf_status pair_id(rf_tokenizer *t, const rf_node *n, const char *key, rf_ids *ids,
                         rf_error *e) {
    rf_node pair = rf_node_key(n, key), id = rf_node_at(&pair, 1);
    uint32_t token;
    RF_TRY(rf_node_need(&pair, RF_JSON_ARRAY, e));
    RF_TRY(rf_node_id(&id, t->n_vocab, &token, e));
    rf_ids_push(ids, (int32_t)token);
    return RF_OK;
}

static rf_status bert_frame(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_ids before = {0}, after = {0};
    rf_status s = pair_id(t, n, "cls", &before, e);
    if (s == RF_OK) s = pair_id(t, n, "sep", &after, e);
    if (s == RF_OK) s = frame(t, n, &before, &after, e);
    rf_ids_free(&before);
    rf_ids_free(&after);
    return s;
}

/* The ids that a template's special token stands for. */
static rf_status template_token(rf_tokenizer *t, const rf_node *n, const rf_node *use, rf_ids *ids,
                                rf_error *e) {
    rf_node at = rf_node_key(use, "id"), all = rf_node_key(n, "special_tokens");
    rf_str name;
    RF_TRY(rf_node_str(&at, &name, e));
    rf_node token = rf_node_key(&all, name.p), list = rf_node_key(&token, "ids");
    RF_TRY(rf_node_need(&list, RF_JSON_ARRAY, e));
    for (size_t i = 0; i < rf_json_len(list.json); i++) {
        rf_node item = rf_node_at(&list, i);
        uint32_t id;
        RF_TRY(rf_node_id(&item, t->n_vocab, &id, e));
        rf_ids_push(ids, (int32_t)id);
    }
    return RF_OK;
}

static rf_status walk_template(rf_tokenizer *t, const rf_node *n, rf_ids *before, rf_ids *after,
                               rf_error *e) {
    rf_node single = rf_node_key(n, "single");
    RF_TRY(rf_node_need(&single, RF_JSON_ARRAY, e));
    bool seen = false;
    for (size_t i = 0; i < rf_json_len(single.json); i++) {
        rf_node item = rf_node_at(&single, i);
        rf_node token = rf_node_key(&item, "SpecialToken"), text = rf_node_key(&item, "Sequence");
        if (token.json) {
            RF_TRY(template_token(t, n, &token, seen ? after : before, e));
        } else {
            RF_TRY(rf_node_need(&text, RF_JSON_OBJECT, e));
            if (seen) return rf_node_fail(&item, RF_EUNSUPPORTED, e, "the text a second time");
            seen = true;
        }
    }
    if (seen) return RF_OK;
    return rf_node_fail(&single, RF_EFORMAT, e, "no Sequence: the text itself is left out");
}

static rf_status template(rf_tokenizer *t, const rf_node *n, rf_error *e) {
    rf_ids before = {0}, after = {0};
    rf_status s = walk_template(t, n, &before, &after, e);
    if (s == RF_OK) s = frame(t, n, &before, &after, e);
    rf_ids_free(&before);
    rf_ids_free(&after);
    return s;
}

const rf_json_type_row rf_json_post_processors[] = {
    {"TemplateProcessing", template},  {"BertProcessing", bert_frame},
    {"RobertaProcessing", bert_frame}, {"ByteLevel", no_frame},
    {"Sequence", post_sequence},       {NULL, NULL}};
