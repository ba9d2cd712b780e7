/* texts.h - what requests say as token ids, and back, with the tokenizer and template of their model. */
#pragma once
#include "server/slot.h"

bool rf_text_ids(const rf_slot *s, rf_str text, bool add_special, bool parse_special, rf_ids *ids,
                 rf_api_error *e);
/* A prompt's text, with the special tokens that the model expects, or its ids. */
bool rf_prompt_ids(const rf_slot *s, const rf_prompt *p, bool parse_special, rf_ids *ids,
                   rf_api_error *e);
/* A conversation through the model's template. */
bool rf_chat_ids(const rf_slot *s, const rf_params *p, rf_ids *ids, rf_api_error *e);
/* special: control tokens too. */
bool rf_ids_text(const rf_slot *s, const int32_t *ids, size_t n, bool special, rf_buf *out,
                 rf_api_error *e);
