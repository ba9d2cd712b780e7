/* arch.h - the builders behind the table of architectures; private to the model room.
 *
 * bind reads hyperparameters and takes every weight with its shape checked; build writes the
 * forward pass into a plan.  Both ask the row's traits and never the architecture's name. */
#pragma once
#include "model/bind.h"
#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every decoder (decoder.c); the parts of its bind that others use are in hparams.c. */
RF_CHECKED rf_status rf_decoder_bind(rf_model *m, rf_error *e);
RF_CHECKED rf_status rf_decoder_build(const rf_model *m, struct rf_plan *p);
/* Sizes, heads and factors, those of experts and latent attention too. */
void rf_bind_hyperparameters(rf_binder *b);
/* pattern and rope of every layer. */
void rf_bind_patterns(rf_binder *b);
/* m->n_vocab: rows of the token embedding, which the tokenizer must agree with. */
void rf_bind_vocab(rf_binder *b);

/* Encoders (encoder.c): every token sees both ways. */
RF_CHECKED rf_status rf_encoder_bind(rf_model *m, rf_error *e);
RF_CHECKED rf_status rf_encoder_build(const rf_model *m, struct rf_plan *p);
/* m->pooling and m->head of embedding models and rerankers; nothing where a file has none. */
void rf_bind_pooling(rf_binder *b);

/* Mixtures of experts (moe.c).  Hyperparameters: m->n_experts and what belongs to it, nothing where
 * a file has none. */
void rf_bind_experts(rf_binder *b);
/* The experts of layer il as l->moe; false for a layer without. */
bool rf_bind_moe(rf_binder *b, uint32_t il, rf_layer *l);
/* Instead of the dense FFN: h [T][n_embd] after the norm -> [T][n_embd], shared experts added. */
rf_val rf_emit_moe_ffn(rf_plan *p, const rf_layer *l, rf_val h);

/* Latent attention (mla.c).  Sizes of all layers, instead of head counts and dimensions. */
void rf_bind_latent(rf_binder *b);
/* Instead of wq, wk, wv and wo: l->mla, wq and wo. */
void rf_bind_mla(rf_binder *b, uint32_t il, rf_layer *l);
/* h [T][n_embd] after the norm -> [T][n_heads * value_dim], what wo reads. */
rf_val rf_emit_mla(rf_plan *p, uint32_t il, const rf_layer *l, rf_val h);

/* Short convolutions (shortconv.c), in layers of b->keeps_state: l->conv and wo. */
void rf_bind_short_conv(rf_binder *b, uint32_t il, rf_layer *l);
/* h [T][n_embd] after the norm -> [T][n_embd], what wo reads. */
rf_val rf_emit_short_conv(rf_plan *p, const rf_layer *l, rf_val h);

/* Heads that each keep a matrix, several to a group: both kinds below name their sizes alike. */
typedef struct rf_matrix_heads {
    uint32_t n_groups, n_heads, rows, columns;
} rf_matrix_heads;
rf_matrix_heads rf_bind_matrix_heads(rf_binder *b);

/* Mamba-2 mixers (mamba.c), in layers of b->keeps_state: l->mamba and wo. */
void rf_bind_mamba(rf_binder *b, uint32_t il, rf_layer *l);
/* h [T][n_embd] after the norm -> [T][columns of wo]. */
rf_val rf_emit_mamba(rf_plan *p, const rf_layer *l, rf_val h);

/* Gated delta nets (delta.c).  b->keeps_state, from the metadata. */
void rf_bind_recurrent_layers(rf_binder *b);
/* l->delta and wo. */
void rf_bind_delta_net(rf_binder *b, uint32_t il, rf_layer *l);
/* h [T][n_embd] after the norm -> [T][n_v * value_dim], what wo reads. */
rf_val rf_emit_delta_net(rf_plan *p, const rf_layer *l, rf_val h);

#ifdef __cplusplus
}
#endif
