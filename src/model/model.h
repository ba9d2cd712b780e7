/* model.h - a GGUF file seen as hyperparameters and named, shape-checked weights.
 *
 * Weights stay in the file's map and are borrowed from it.  An architecture is a row of traits in
 * arch/arch.def over one builder; a truly different one brings a builder of its own.  A model is
 * read-only once open and may be used by many threads. */
#pragma once
#include "base/arena.h"
#include "base/base.h"
#include "gguf/gguf.h"
#include "quant/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { /* limits on what a file may ask for */
       RF_MAX_LAYERS = 512,
       RF_MAX_EMBD = 1 << 17,
       RF_MAX_HEADS = 1024,
       RF_MAX_HEAD_DIM = 512,
       RF_MAX_FF = 1 << 20,
       RF_MAX_VOCAB = 1 << 21,
       RF_MAX_CONTEXT = 1 << 24,
};

typedef struct rf_tensor { /* [planes][rows][cols], cols contiguous */
    rf_str name;
    rf_dtype type;
    uint32_t cols, rows, planes; /* planes > 1 only for stacked experts */
    size_t row_bytes;
    const void *data; /* in the file's map: not owned, no alignment promised */
} rf_tensor;

typedef enum rf_rope_kind {
    RF_ROPE_NONE,
    RF_ROPE_NORM, /* rotates the pairs (2i, 2i+1) */
    RF_ROPE_NEOX, /* rotates the pairs (i, i + n/2) */
} rf_rope_kind;

typedef struct rf_rope { /* one rotary embedding; angle = pos * inv_freq[i] */
    rf_rope_kind kind;
    uint32_t n_dims;        /* rotated dimensions of a head, even; the rest passes through */
    const double *inv_freq; /* [n_dims / 2], scaling applied */
    float magnitude;        /* factor on cos and sin (YaRN), else 1 */
} rf_rope;

/* Which keys j a query at position p sees (p and j count within the sequence). */
typedef enum rf_attn_kind {
    RF_ATTN_CAUSAL,        /* j <= p */
    RF_ATTN_BIDIRECTIONAL, /* every j of the sequence */
    RF_ATTN_LOCAL,         /* p - window < j <= p */
    RF_ATTN_GLOBAL_LOCAL,  /* j < n_global or p - window < j, and j <= p */
    RF_ATTN_CUSTOM, /* the batch brings a mask: 0 = visible, -inf = hidden, added before softmax */
} rf_attn_kind;
typedef struct rf_attn_pattern {
    rf_attn_kind kind;
    uint32_t window, n_global;
} rf_attn_pattern;

typedef struct rf_layer {                  /* NULL where the architecture or the file has none */
    const rf_tensor *attn_norm, *ffn_norm; /* [n_embd] */
    const rf_tensor *wq, *wk,
        *wv;             /* [n_heads * head_dim][n_embd], [n_kv_heads * head_dim][n_embd] */
    const rf_tensor *wo; /* [n_embd][n_heads * head_dim] */
    const rf_tensor *bq, *bk, *bv, *bo; /* biases, [rows of their matrix] */
    const rf_tensor *q_norm, *k_norm;   /* [head_dim], QK-norm */
    const rf_tensor *gate, *up;         /* [n_ff][n_embd] */
    const rf_tensor *down;              /* [n_embd][n_ff] */
    rf_attn_pattern pattern;
} rf_layer;

typedef struct rf_model {
    const struct rf_arch *arch;
    rf_gguf *file; /* owns the map; closed with the model */
    rf_arena *arena;
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, n_ctx_train;
    float norm_eps;
    rf_rope rope;
    const rf_tensor *tok_embd; /* [n_vocab][n_embd] */
    const rf_tensor *out_norm; /* [n_embd] */
    const rf_tensor *out;      /* [n_vocab][n_embd]; tok_embd where tied */
    rf_layer *layers;          /* [n_layers] */
    uint64_t n_params;         /* elements of all bound tensors, tied ones once */
    uint64_t weight_bytes;
} rf_model;

struct rf_plan;
typedef struct rf_arch {  /* a row of the table of architectures */
    const char *name;     /* general.architecture */
    const char *families; /* for docs and `models`: "Llama 2, 3, 3.x; Mistral; Yi; SmolLM" */
    rf_rope_kind rope;
    bool qkv_bias; /* bq, bk, bv must exist (else they may) */
    bool qk_norm;  /* q_norm, k_norm must exist */
    rf_status (*bind)(rf_model *m,
                      rf_error *e); /* hyperparameters and weights, every shape checked */
    rf_status (*build)(const rf_model *m, struct rf_plan *p); /* the forward pass, once */
} rf_arch;
size_t rf_arch_count(void);
const rf_arch *rf_arch_at(size_t i);

/* Opens and binds.  A missing, surplus or misshapen tensor, an unknown architecture or a wrong
 * hyperparameter is an error that names it.  On failure *out is NULL. */
RF_CHECKED rf_status rf_model_open(rf_model **out, const char *path, rf_error *e);
/* The same over an open file; on success the model owns g, on failure the caller still does. */
RF_CHECKED rf_status rf_model_bind(rf_model **out, rf_gguf *g, rf_error *e);
void rf_model_close(rf_model *m); /* NULL is fine, here and in every close and free */

#ifdef __cplusplus
}
#endif
