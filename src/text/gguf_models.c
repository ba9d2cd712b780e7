/* gguf_models.c - pipelines for the models of GGUF files that are not a fast path: WordPiece
 * ("bert"), Unigram ("t5"), BPE over characters ("gemma4" and its kin). */
#include <math.h>
#include <string.h>

#include "text/pipeline.h"

#define KEY "tokenizer.ggml."

static rf_status create(rf_tokenizer *t, rf_encode_fn encode, rf_error *e) {
    t->pipe = rf_pipeline_create(t->arena);
    if (!t->pipe) return rf_fail_nomem(e, sizeof *t->pipe);
    t->pipe->encode = encode;
    return RF_OK;
}

static void add_bytes(rf_tokenizer *t) {
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        int byte = rf_spm_byte_value(t->text[id]);
        if (byte >= 0 && t->byte_token[byte] == RF_TOKEN_NONE) t->byte_token[byte] = (int32_t)id;
    }
}

/* BERT's normaliser and its cuts at white space and punctuation.  GGUF files do not say whether
 * accents are stripped; those that lower case do it, as BERT does. */
rf_status rf_pipeline_from_bert(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
    enum { MAX_CHARS = 100 };
    RF_TRY(create(t, rf_wordpiece_encode, e));
    rf_pipeline *p = t->pipe;
    bool lowercase = true;
    RF_TRY(rf_gguf_get_bool(g, KEY "normalizer.lowercase", &lowercase, NULL, e));
    bool strip = lowercase;
    RF_TRY(rf_gguf_get_bool(g, KEY "normalizer.strip_accents", &strip, NULL, e));
    rf_steps_add(&p->normal, RF_STEP_CLEAN);
    rf_steps_add(&p->normal, RF_STEP_CHINESE);
    if (strip) {
        rf_steps_add(&p->normal, RF_STEP_NFD);
        rf_steps_add(&p->normal, RF_STEP_NONSPACING);
    }
    if (lowercase) rf_steps_add(&p->normal, RF_STEP_LOWERCASE);
    RF_TRY(rf_steps_add_split(&p->split, RF_PATTERN_WHITE, RF_SPLIT_REMOVED, false, e));
    RF_TRY(rf_steps_add_split(&p->split, RF_PATTERN_PUNCTUATION, RF_SPLIT_ISOLATED, false, e));
    p->word_prefix = RF_STR(RF_SPM_SPACE);
    p->max_chars = MAX_CHARS;
    t->writes_spaces = true;
    return rf_pipeline_index(t, e);
}

static rf_status load_scores(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
    rf_pipeline *p = t->pipe;
    const rf_gguf_kv *kv;
    RF_TRY(rf_gguf_get_array(g, KEY "scores", RF_GGUF_F32, &kv, e));
    if (!kv || kv->n != t->n_vocab) {
        return rf_fail(e, RF_EFORMAT, KEY "scores: expected %u, one a token, got %llu", t->n_vocab,
                       kv ? (unsigned long long)kv->n : 0);
    }
    p->score = rf_arena_alloc(t->arena, t->n_vocab, sizeof *p->score);
    if (!p->score) return rf_fail_nomem(e, t->n_vocab * sizeof *p->score);
    double least = HUGE_VAL;
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        p->score[id] = rf_gguf_elem_f64(kv, id);
        if (!isfinite(p->score[id])) {
            return rf_fail(e, RF_EFORMAT, KEY "scores[%u]: not a finite number", id);
        }
        if (t->kind[id] == RF_TOKEN_NORMAL && p->score[id] < least) least = p->score[id];
        if (t->kind[id] == RF_TOKEN_USER_DEFINED) p->score[id] = 0;
    }
    p->unknown_score = (isfinite(least) ? least : 0) - RF_UNKNOWN_PENALTY;
    return RF_OK;
}

rf_status rf_pipeline_from_t5(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
    RF_TRY(create(t, rf_unigram_encode, e));
    rf_pipeline *p = t->pipe;
    RF_TRY(load_scores(t, g, e));
    const rf_gguf_kv *kv = rf_gguf_find(g, KEY "precompiled_charsmap");
    if (kv) {
        bool bytes = kv->type == RF_GGUF_ARRAY &&
                     (kv->elem_type == RF_GGUF_U8 || kv->elem_type == RF_GGUF_I8);
        if (!bytes) {
            return rf_fail(e, RF_EFORMAT, KEY "precompiled_charsmap: expected an array of bytes");
        }
        RF_TRY(rf_charsmap_open(&p->charsmap, (rf_str){(const char *)kv->data, (size_t)kv->n}, e));
    }
    p->merges_spaces = false;
    RF_TRY(rf_gguf_get_bool(g, KEY "remove_extra_whitespaces", &p->merges_spaces, NULL, e));
    rf_steps_add(&p->normal, RF_STEP_SENTENCEPIECE);
    t->writes_spaces = true;
    return rf_pipeline_index(t, e);
}

rf_status rf_pipeline_from_characters(rf_tokenizer *t, const rf_pretok_spec *spec, rf_error *e) {
    RF_TRY(create(t, rf_charbpe_encode, e));
    rf_pipeline *p = t->pipe;
    p->byte_fallback = p->whole_newlines = true;
    t->writes_spaces = spec->writes_spaces;
    memset(t->byte_token, 0xFF, sizeof t->byte_token); /* bytes are spelt "<0x0A>" here */
    add_bytes(t);
    if (spec->normalize) rf_steps_add(&p->normal, RF_STEP_NFC);
    if (spec->writes_spaces) {
        rf_step *step = rf_steps_add(&p->normal, RF_STEP_REPLACE);
        step->with = RF_STR(RF_SPM_SPACE);
        RF_TRY(rf_pattern_literal(&step->pattern, RF_STR(" "), e));
    }
    for (size_t i = 0; spec->steps[i]; i++) {
        rf_behavior how = spec->drops_white ? RF_SPLIT_REMOVED : RF_SPLIT_ISOLATED;
        RF_TRY(rf_steps_add_split(&p->split, spec->steps[i], how, spec->drops_white, e));
    }
    return RF_OK;
}
