/* control.c - tokens that steer: the markers that files often mistype, known by their text, and the
 * set of tokens that end a text or a turn.
 *
 * Metadata names some of them (eos, eot, eom, fim_*); the rest is known by name only. */
#include "text/vocab.h"

enum {
    ENDS = 1,     /* generation stops here */
    AS_TYPED = 2, /* may be plain text in some vocabularies: keep the file's type */
};

static const struct {
    const char *text;
    unsigned flags;
} markers[] = {
    {"<|eot_id|>", ENDS},
    {"<|eom_id|>", ENDS},
    {"<|im_end|>", ENDS},
    {"<|end|>", ENDS},
    {"<|return|>", ENDS},
    {"<|call|>", ENDS},
    {"<end_of_turn>", ENDS},
    {"<|endoftext|>", ENDS},
    {"<|end_of_text|>", ENDS},
    {"</s>", ENDS | AS_TYPED},
    {"<eos>", ENDS | AS_TYPED},
    {"<EOT>", ENDS},
    {"_<EOT>", ENDS},
    {"[EOT]", ENDS},
    {"[EOS]", ENDS},
    {"<end_of_utterance>", ENDS},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     ENDS},
    /* Filling in the middle: padding and file borders end what is filled in. */
    {"<|fim_pad|>", ENDS},
    {"<fim-pad>", ENDS},
    {"<fim_pad>", ENDS},
    {"<PAD>", ENDS},
    {"[PAD]", ENDS},
    {"<|fim_repo|>", ENDS},
    {"<|repo_name|>", ENDS},
    {"<fim-repo>", ENDS},
    {"<REPO>", ENDS},
    {"<reponame>", ENDS},
    {"<|file_sep|>", ENDS},
    {"<|fim_prefix|>", 0},
    {"<fim-prefix>", 0},
    {"<fim_prefix>", 0},
    {"<PRE>", 0},
    {RF_SPM_SPACE "<PRE>", 0},
    {"<|fim_suffix|>", 0},
    {"<fim-suffix>", 0},
    {"<fim_suffix>", 0},
    {"<SUF>", 0},
    {RF_SPM_SPACE "<SUF>", 0},
    {"<|fim_middle|>", 0},
    {"<fim-middle>", 0},
    {"<fim_middle>", 0},
    {"<MID>", 0},
    {RF_SPM_SPACE "<MID>", 0},
};

/* Metadata keys of further tokens that end a text. */
static const char *const end_keys[] = {
    "tokenizer.ggml.eot_token_id",     "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
};

void rf_control_mark_texts(rf_tokenizer *t, bool retype) {
    for (size_t i = 0; i < RF_COUNT(markers); i++) {
        int32_t id = rf_token_find(t, rf_str_of(markers[i].text));
        if (id == RF_TOKEN_NONE) continue;
        bool typed = t->kind[id] != RF_TOKEN_NORMAL;
        if (retype && (typed || !(markers[i].flags & AS_TYPED))) t->kind[id] = RF_TOKEN_CONTROL;
        if (markers[i].flags & ENDS) t->is_end[id] = 1;
    }
    /* Where a turn ends with <|return|> or <|call|>, <|end|> only ends a message inside it. */
    int32_t end = rf_token_find(t, RF_STR("<|end|>"));
    if (end != RF_TOKEN_NONE && rf_token_find(t, RF_STR("<|return|>")) != RF_TOKEN_NONE &&
        rf_token_find(t, RF_STR("<|call|>")) != RF_TOKEN_NONE) {
        t->is_end[end] = 0;
    }
}

rf_status rf_control_mark(rf_tokenizer *t, const rf_gguf *g, rf_error *e) {
    rf_control_mark_texts(t, true);
    for (size_t i = 0; i < RF_COUNT(end_keys); i++) {
        uint32_t id;
        bool found;
        RF_TRY(rf_gguf_get_u32(g, end_keys[i], &id, &found, e));
        if (!found) continue;
        if (id >= t->n_vocab) {
            return rf_fail(e, RF_EFORMAT, "%s: %u is not a token of the vocabulary of %u",
                           end_keys[i], id, t->n_vocab);
        }
        t->is_end[id] = 1;
    }
    if (t->eos != RF_TOKEN_NONE) t->is_end[t->eos] = 1;
    return RF_OK;
}
