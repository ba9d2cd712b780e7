/* pipeline.c - making and freeing pipelines, and what one call keeps. */
#include "text/pipeline.h"

rf_pipeline *rf_pipeline_create(rf_arena *arena) {
    rf_pipeline *p = rf_arena_alloc(arena, 1, sizeof *p);
    if (!p) return NULL;
    rf_steps *all[] = {&p->normal, &p->split, &p->decode};
    for (size_t i = 0; i < RF_COUNT(all); i++) {
        all[i]->p = rf_arena_alloc(arena, RF_STEPS_MAX, sizeof *all[i]->p);
        if (!all[i]->p) return NULL;
    }
    p->part_prefix = p->end_suffix = p->word_prefix = (rf_str){"", 0};
    return p;
}

void rf_pipeline_close(rf_pipeline *p) {
    if (!p) return;
    rf_steps *all[] = {&p->normal, &p->split, &p->decode};
    for (size_t i = 0; i < RF_COUNT(all); i++) {
        for (uint32_t k = 0; k < all[i]->n; k++) {
            rf_pattern_free(all[i]->p[k].pattern);
        }
    }
}

rf_step *rf_steps_add(rf_steps *s, rf_step_kind kind) {
    if (s->n == RF_STEPS_MAX) return NULL;
    rf_step *step = &s->p[s->n++];
    step->kind = kind;
    return step;
}

rf_status rf_steps_add_split(rf_steps *s, const char *pattern, rf_behavior behavior, bool invert,
                             rf_error *e) {
    rf_step *step = rf_steps_add(s, RF_STEP_SPLIT);
    if (!step) return rf_fail(e, RF_EUNSUPPORTED, "more than %d steps", RF_STEPS_MAX);
    step->behavior = behavior;
    step->invert = invert;
    return rf_pattern_compile(&step->pattern, rf_str_of(pattern), e);
}

static void free_pieces(rf_pieces *p) {
    rf_buf_free(&p->text);
    rf_free(p->spans);
}

void rf_run_free(rf_run *r) {
    rf_searcher_free(r->searcher);
    rf_buf_free(&r->text);
    rf_buf_free(&r->other);
    free_pieces(&r->pieces);
    free_pieces(&r->spare);
}

static bool is_indexed(const rf_tokenizer *t, uint32_t id) {
    return t->text[id].len && t->kind[id] != RF_TOKEN_CONTROL && t->kind[id] != RF_TOKEN_UNKNOWN &&
           t->kind[id] != RF_TOKEN_BYTE;
}

rf_status rf_pipeline_index(rf_tokenizer *t, rf_error *e) {
    rf_trie_entry *entries = rf_arena_alloc(t->arena, t->n_vocab, sizeof *entries);
    if (!entries) return rf_fail_nomem(e, t->n_vocab * sizeof *entries);
    uint32_t n = 0;
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        if (is_indexed(t, id)) entries[n++] = (rf_trie_entry){t->text[id], id};
    }
    rf_trie_build(&t->pipe->trie, entries, n);
    return RF_OK;
}
