/* mix.h - which number format each tensor of a model gets when the model is quantised.
 *
 * A mix is a name such as Q4_K_M: a base format, and better ones for the tensors that suffer most.
 * Names and rules are those that GGUF files are commonly made with, so that a name means the same
 * here and elsewhere.  Only names and shapes are looked at, never values. */
#pragma once
#include "quant/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_MIX_NO_FILE_TYPE = -1 };

typedef struct rf_mix {
    const char *name;
    rf_dtype base;
    int file_type; /* general.file_type, or RF_MIX_NO_FILE_TYPE */
} rf_mix;
size_t rf_mix_count(void);
const rf_mix *rf_mix_at(size_t i);
const rf_mix *rf_mix_find(rf_str name); /* case-insensitive; NULL: none.  Q4_K means Q4_K_M */

/* What the rules ask about a model. */
typedef struct rf_mix_model {
    uint32_t n_layers, n_experts;
    uint32_t n_gqa;   /* query heads per key-value head */
    bool is_tied;     /* no output.weight: token_embd.weight serves as one */
    bool has_imatrix; /* importances are at hand */
} rf_mix_model;

/* The layer of "blk.N.", or -1. */
int64_t rf_mix_layer(rf_str name);
/* True for the tensors that are quantised at all: matrices named .weight, but no norms, routers,
 * positions or convolutions.  ne[4]: fastest dimension first, unused ones 1. */
bool rf_mix_is_weight(rf_str name, const uint64_t ne[4]);
/* The format of such a tensor; one whose block divides the row. */
rf_dtype rf_mix_type(const rf_mix *mix, const rf_mix_model *model, rf_str name, uint64_t row);

#ifdef __cplusplus
}
#endif
