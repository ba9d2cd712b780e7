/* tokenizer_json.c - Hugging Face's tokenizer.json as a pipeline: the order in which its sections are
 * read, and the tables of the types that each may hold.
 *
 * Everything not understood is refused with its JSON pointer: a tokenizer that is nearly right is
 * worse than none. */
#include "text/tokenizer_json.h"

#include <string.h>

static const struct {
    const char *what;
    const rf_json_type_row *rows;
} sections[RF_JSON_SECTIONS] = {
    [RF_JSON_MODELS] = {"model", rf_json_models},
    [RF_JSON_NORMALIZERS] = {"normalizer", rf_json_normalizers},
    [RF_JSON_PRE_TOKENIZERS] = {"pre-tokenizer", rf_json_pre_tokenizers},
    [RF_JSON_POST_PROCESSORS] = {"post-processor", rf_json_post_processors},
    [RF_JSON_DECODERS] = {"decoder", rf_json_decoders},
};

const rf_json_type_row *rf_json_types(rf_json_section section) { return sections[section].rows; }

static rf_status unknown_type(const rf_node *n, rf_str type, rf_json_section section, rf_error *e) {
    rf_buf known = {0};
    for (const rf_json_type_row *row = sections[section].rows; row->name; row++) {
        rf_buf_printf(&known, "%s%s", known.len ? ", " : "", row->name);
    }
    rf_node at = rf_node_key(n, "type");
    rf_status s = rf_node_fail(&at, RF_EUNSUPPORTED, e, "unsupported %s \"%.*s\"; supported: %s",
                               sections[section].what, (int)(type.len > 60 ? 60 : type.len), type.p,
                               known.failed ? "?" : known.p);
    rf_buf_free(&known);
    return s;
}

static int depth_of(const rf_node *n) {
    int depth = 0;
    for (; n->parent; n = n->parent) {
        depth++;
    }
    return depth;
}

rf_status rf_json_load_typed(rf_tokenizer *t, const rf_node *n, rf_json_section section,
                             rf_error *e) {
    if (rf_node_absent(n)) return RF_OK;
    RF_TRY(rf_node_need(n, RF_JSON_OBJECT, e));
    if (depth_of(n) > 2 * RF_JSON_MAX_STEP_DEPTH) {
        return rf_node_fail(n, RF_EUNSUPPORTED, e, "more than %d levels of sequences",
                            RF_JSON_MAX_STEP_DEPTH);
    }
    rf_node at = rf_node_key(n, "type");
    rf_str type;
    RF_TRY(rf_node_str(&at, &type, e));
    for (const rf_json_type_row *row = sections[section].rows; row->name; row++) {
        if (rf_str_is(type, row->name)) return row->load(t, n, e);
    }
    return unknown_type(n, type, section, e);
}

rf_status rf_json_load_list(rf_tokenizer *t, const rf_node *n, const char *key,
                            rf_json_section section, rf_error *e) {
    rf_node list = rf_node_key(n, key);
    RF_TRY(rf_node_need(&list, RF_JSON_ARRAY, e));
    for (size_t i = 0; i < rf_json_len(list.json); i++) {
        rf_node item = rf_node_at(&list, i);
        RF_TRY(rf_node_need(&item, RF_JSON_OBJECT, e));
        RF_TRY(rf_json_load_typed(t, &item, section, e));
    }
    return RF_OK;
}

rf_status rf_json_keep(rf_tokenizer *t, rf_str s, rf_str *out, rf_error *e) {
    *out = rf_arena_str(t->arena, s);
    return out->p ? RF_OK : rf_fail_nomem(e, s.len);
}

static rf_status load(rf_tokenizer *t, const rf_node *root, rf_error *e) {
    RF_TRY(rf_node_need(root, RF_JSON_OBJECT, e));
    t->pipe = rf_pipeline_create(t->arena);
    if (!t->pipe) return rf_fail_nomem(e, sizeof *t->pipe);
    t->pipe->decodes = true;
    RF_TRY(rf_json_load_vocab(t, root, e));
    RF_TRY(rf_json_load_model(t, root, e));
    static const struct {
        const char *key;
        rf_json_section section;
    } parts[] = {
        {"normalizer", RF_JSON_NORMALIZERS},
        {"pre_tokenizer", RF_JSON_PRE_TOKENIZERS},
        {"post_processor", RF_JSON_POST_PROCESSORS},
        {"decoder", RF_JSON_DECODERS},
    };
    for (size_t i = 0; i < RF_COUNT(parts); i++) {
        rf_node part = rf_node_key(root, parts[i].key);
        RF_TRY(rf_json_load_typed(t, &part, parts[i].section, e));
        if (parts[i].section == RF_JSON_DECODERS) t->pipe->joins_decoded = rf_node_absent(&part);
    }
    RF_TRY(rf_json_load_added(t, root, e));
    const rf_pipeline *p = t->pipe;
    if (p->n_before) t->bos = p->before[0];
    if (p->n_after) t->eos = p->after[p->n_after - 1];
    rf_control_mark_texts(t, false);
    if (t->eos != RF_TOKEN_NONE) t->is_end[t->eos] = 1;
    return RF_OK;
}

rf_status rf_tokenizer_from_json(rf_tokenizer **out, rf_str json, rf_error *e) {
    *out = NULL;
    rf_json *tree = NULL;
    RF_TRY(rf_json_parse(&tree, json, e));
    rf_tokenizer *t = NULL;
    rf_node root = {.json = tree};
    rf_status s = rf_tokenizer_create(&t, e);
    if (s == RF_OK) s = load(t, &root, e);
    rf_json_free(tree);
    if (s != RF_OK) {
        rf_tokenizer_free(t);
        return s;
    }
    *out = t;
    return RF_OK;
}
