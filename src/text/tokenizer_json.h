/* tokenizer_json.h - the parts that a tokenizer.json is read in; private to src/text.
 *
 * Strings that outlive the document are copied into the tokenizer's arena. */
#pragma once
#include "text/node.h"
#include "text/pipeline.h"

enum { RF_JSON_MAX_STEP_DEPTH = 8 };

typedef enum rf_json_section {
    RF_JSON_MODELS,
    RF_JSON_NORMALIZERS,
    RF_JSON_PRE_TOKENIZERS,
    RF_JSON_POST_PROCESSORS,
    RF_JSON_DECODERS,
    RF_JSON_SECTIONS
} rf_json_section;

/* One type of a section: its name and what reads it. */
typedef struct rf_json_type_row {
    const char *name;
    rf_status (*load)(rf_tokenizer *t, const rf_node *n, rf_error *e);
} rf_json_type_row;
/* The table of a section, its end marked by a row without a name. */
const rf_json_type_row *rf_json_types(rf_json_section section);
extern const rf_json_type_row rf_json_models[], rf_json_normalizers[], rf_json_pre_tokenizers[],
    rf_json_post_processors[], rf_json_decoders[];
/* Reads n by its "type"; absent or null nodes are RF_OK.  Unknown types are refused with the list. */
RF_CHECKED rf_status rf_json_load_typed(rf_tokenizer *t, const rf_node *n, rf_json_section section,
                                        rf_error *e);
/* The same for each item of the array at key. */
RF_CHECKED rf_status rf_json_load_list(rf_tokenizer *t, const rf_node *n, const char *key,
                                       rf_json_section section, rf_error *e);

/* json_model.c: texts and ids of the vocabulary and of the added tokens, then the model. */
RF_CHECKED rf_status rf_json_load_vocab(rf_tokenizer *t, const rf_node *root, rf_error *e);
RF_CHECKED rf_status rf_json_load_model(rf_tokenizer *t, const rf_node *root, rf_error *e);
/* json_added.c: flags and sets of the added tokens; the normaliser is there. */
RF_CHECKED rf_status rf_json_load_added(rf_tokenizer *t, const rf_node *root, rf_error *e);

/* A copy that lives as long as the tokenizer. */
RF_CHECKED rf_status rf_json_keep(rf_tokenizer *t, rf_str s, rf_str *out, rf_error *e);
