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
       RF_MAX_HEAD_DIM = 640, /* MLA's keys have 576 */
       RF_MAX_EXPERTS = 1024,
       RF_MAX_EXPERTS_USED = 64,
       RF_MAX_FF = 1 << 20,
       RF_MAX_VOCAB = 1 << 21,
       RF_MAX_CONTEXT = 1 << 24,
       RF_MAX_TAPS = 16, /* of a convolution along the sequence */
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
    RF_ATTN_LOCAL_BOTH,    /* |p - j| <= window / 2 */
    RF_ATTN_GLOBAL_LOCAL,  /* j < n_global or p - window < j, and j <= p */
    RF_ATTN_PREFIX,        /* j <= p, or j < the sequence's n_prefix, which the batch brings */
    RF_ATTN_CUSTOM, /* the batch brings a mask: 0 = visible, -inf = hidden, added before softmax */
} rf_attn_kind;
typedef struct rf_attn_pattern {
    rf_attn_kind kind;
    uint32_t window, n_global;
} rf_attn_pattern;

typedef enum rf_norm_kind { RF_NORM_RMS, RF_NORM_LAYER } rf_norm_kind;

typedef enum rf_act {
    RF_ACT_SILU,      /* x / (1 + exp(-x)) */
    RF_ACT_GELU,      /* x * (1 + erf(x / sqrt 2)) / 2 */
    RF_ACT_GELU_TANH, /* its approximation by tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) */
    RF_ACT_RELU,
    RF_ACT_RELU2, /* max(x, 0)^2 */
    RF_ACT_SIGMOID,
    RF_ACT_SWIGLU_OAI, /* GLU only: g = min(gate, 7), u = clamp(up, -7, 7);
                          g / (1 + exp(-1.702 g)) * (u + 1) */
} rf_act;

/* How experts are picked from their scores, ties to the lower number, and weighted. */
typedef enum rf_router_kind {
    RF_ROUTER_SOFTMAX,      /* probabilities over all experts, the n_used highest */
    RF_ROUTER_SOFTMAX_TOPK, /* the n_used highest scores, then softmax over these */
    RF_ROUTER_SIGMOID,      /* sigmoid of each score */
} rf_router_kind;
typedef struct rf_router {
    rf_router_kind kind;
    uint32_t n_experts, n_used;
    uint32_t n_groups, n_groups_used; /* 0 or 1 groups: all experts compete; else only those of the
                                         groups with the highest sum of two best (with a select_bias)
                                         or best probability (without one) */
    const float *select_bias;         /* [n_experts] added for picking only, or NULL */
    bool normalise; /* weights divided by their sum (at least 2^-14, as f16 has) */
    float scale;    /* then times this */
} rf_router;

/* A norm and its bias, [n_embd] unless said otherwise; w NULL: none. */
typedef struct rf_norm {
    const rf_tensor *w, *b;
} rf_norm;

/* Experts of one layer, stacked. */
typedef struct rf_moe {
    const rf_tensor *router;                  /* [n_experts][n_embd] */
    const rf_tensor *router_bias;             /* [n_experts], added to the scores */
    const rf_tensor *gate, *up;               /* [n_experts][n_ff_expert][n_embd] */
    const rf_tensor *gate_up;                 /* both in one, instead of them: gate's rows first */
    const rf_tensor *down;                    /* [n_experts][n_embd][n_ff_expert] */
    const rf_tensor *gate_b, *up_b, *down_b;  /* [n_experts][rows of the matrix] */
    const rf_tensor *shared_gate, *shared_up; /* [n_ff_shared][n_embd] */
    const rf_tensor *shared_down;             /* [n_embd][n_ff_shared] */
    const rf_tensor *shared_switch; /* [1][n_embd]: sigmoid of it scales the shared part */
    rf_router choice;
} rf_moe;

/* Latent attention (MLA, arXiv 2405.04434 section 2.1): absorbed with k_b and v_b, or expanded to
 * ordinary keys and values with kv_b, as older files have it. */
typedef struct rf_mla {
    const rf_tensor *q_a, *q_a_norm; /* [q_rank][n_embd], [q_rank]; NULL: wq reads the input */
    const rf_tensor *kv_a;           /* [kv_rank + rope_dim][n_embd] */
    const rf_tensor *kv_a_norm;      /* [kv_rank] */
    const rf_tensor *k_b;            /* [n_heads][kv_rank][nope_dim] */
    const rf_tensor *v_b;            /* [n_heads][value_dim][kv_rank] */
    const rf_tensor *kv_b;           /* [n_heads * (nope_dim + value_dim)][kv_rank] */
    uint32_t kv_rank, rope_dim, nope_dim, value_dim;
    bool absorbed;
} rf_mla;

/* A gated short convolution instead of attention: out_gate * conv(in_gate * x). */
typedef struct rf_short_conv {
    const rf_tensor *in_gate, *out_gate, *x; /* [n_embd][n_embd] each */
    const rf_tensor *taps;                   /* [n_embd][l_cache], the oldest first */
} rf_short_conv;

/* A gated delta net instead of attention; what its fields are for: rf_emit_delta_net. */
typedef struct rf_delta_net {
    const rf_tensor *qkv,
        *z; /* [2 * n_k * head_dim + n_v * value_dim][n_embd], [n_v * value_dim][..] */
    const rf_tensor *qkvz; /* both in one, instead: q, k, v and z of each key head together */
    const rf_tensor *beta, *alpha;          /* [n_v][n_embd] */
    const rf_tensor *ba;                    /* both in one, instead: of each key head together */
    const rf_tensor *taps;                  /* [columns of qkv][conv_kernel] */
    const rf_tensor *decay, *bias;          /* [n_v] */
    const rf_tensor *norm;                  /* [value_dim] */
    uint32_t n_k, n_v, head_dim, value_dim; /* heads of keys and values, and their sizes */
} rf_delta_net;

/* A Mamba-2 mixer instead of attention. */
typedef struct rf_mamba {
    const rf_tensor *z, *xbc,
        *dt; /* [n_heads * value_dim][n_embd], [columns of taps][..], [n_heads][..] */
    const rf_tensor *taps,
        *taps_b; /* [n_heads * value_dim + 2 * n_groups * state][conv_kernel], bias */
    const rf_tensor *decay, *bias, *skip; /* [n_heads] */
    const rf_tensor *norm;                /* [n_heads * value_dim], of each group by itself */
    uint32_t n_heads, n_groups, state, value_dim;
} rf_mamba;

typedef struct rf_layer {                  /* NULL where the architecture or the file has none */
    rf_norm attn_norm, ffn_norm;           /* before attention and FFN */
    rf_norm attn_post_norm, ffn_post_norm; /* of their results, before the residual sum */
    const rf_tensor *wq, *wk,
        *wv;             /* [n_heads * head_dim][n_embd], [n_kv_heads * head_dim][n_embd] */
    const rf_tensor *wo; /* [n_embd][n_heads * value_dim] */
    const rf_tensor *bq, *bk, *bv, *bo; /* biases, [rows of their matrix] */
    rf_norm q_norm, k_norm;             /* QK-norm, [head_dim] or the whole row */
    const rf_tensor *gate, *up;         /* [n_ff][n_embd]; no gate: a plain FFN */
    const rf_tensor *down;              /* [n_embd][n_ff] */
    const rf_tensor *gate_b, *up_b, *down_b;
    const rf_tensor *sinks;    /* [n_heads] */
    const rf_moe *moe;         /* experts instead of gate, up, down */
    const rf_mla *mla;         /* latent attention instead of wk, wv */
    const rf_short_conv *conv; /* instead of attention, all but wo */
    const rf_mamba *mamba;     /* likewise */
    const rf_delta_net *delta; /* likewise */
    const rf_rope *rope;       /* NULL: this layer rotates nothing */
    rf_attn_pattern pattern;
} rf_layer;

typedef enum rf_pooling {               /* how an encoder's hidden states become one vector */
                          RF_POOL_NONE, /* no embedding model: logits are what it makes */
                          RF_POOL_MEAN,
                          RF_POOL_CLS, /* the first token */
                          RF_POOL_LAST,
                          RF_POOL_RANK, /* the classification head's scores */
} rf_pooling;

/* The classification head of a reranker: scores from one pooled hidden state x.  With dense first
 * x = norm(act(dense x + dense_b)); then out x + out_b. */
typedef struct rf_head {
    rf_pooling over;                  /* RF_POOL_CLS, RF_POOL_MEAN or RF_POOL_LAST gives x */
    bool gelu;                        /* act: GELU, else tanh */
    bool softmax;                     /* of the scores */
    const rf_tensor *dense, *dense_b; /* [n_embd][n_embd], [n_embd]; or NULL */
    const rf_tensor *norm;            /* [n_embd] of a layer norm, or NULL: none */
    const rf_tensor *out, *out_b;     /* [n_labels][n_embd], [n_labels] or NULL */
} rf_head;

typedef struct rf_model {
    const struct rf_arch *arch;
    rf_gguf *file; /* owns the map; closed with the model */
    rf_arena *arena;
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, n_ctx_train;
    uint32_t n_experts, n_experts_used, n_ff_expert, n_ff_shared; /* 0: none */
    float norm_eps;
    bool prefix;        /* a prompt is attended both ways: layers of RF_ATTN_PREFIX */
    bool recurrent;     /* some layers keep a state instead of keys and values */
    bool parallel;      /* attention and FFN both read a layer's input */
    rf_rope rope;       /* of most layers */
    rf_rope rope_local; /* of layers with a window, where they differ */
    rf_rope rope_long;  /* instead of rope for contexts beyond n_ctx_short (LongRoPE, NTK) */
    uint32_t n_ctx_short;
    float embd_scale, residual_scale, logit_scale; /* factors, 1: none */
    float attn_scale;                              /* on scores, instead of 1/sqrt(head_dim) */
    float attn_softcap, logit_softcap;             /* 0: none */
    rf_pooling pooling;
    rf_head head;               /* out NULL: none */
    const rf_tensor *tok_embd;  /* [n_vocab][n_embd] */
    const rf_tensor *pos_embd;  /* [n_ctx_train][n_embd], learned positions */
    const rf_tensor *type_embd; /* [n_types][n_embd], segments of an encoder */
    rf_norm embd_norm;          /* right behind the embedding */
    rf_norm out_norm;
    const rf_tensor *out;   /* [n_vocab][n_embd]; tok_embd where tied */
    const rf_tensor *out_b; /* [n_vocab] */
    rf_layer *layers;       /* [n_layers] */
    uint64_t n_params;      /* elements of all bound tensors, tied ones once */
    uint64_t weight_bytes;
} rf_model;

struct rf_plan;
/* Where a layer's norms stand. */
typedef enum rf_norm_place {
    RF_NORM_BEFORE,    /* x + f(norm(x)) */
    RF_NORM_AFTER,     /* x + norm(f(x)) */
    RF_NORM_AROUND,    /* x + norm(f(norm(x))) */
    RF_NORM_AFTER_SUM, /* norm(x + f(x)); encoders only */
} rf_norm_place;

typedef enum rf_qk_norm { /* of queries and keys, with weights that the file must have */
                          RF_QK_NORM_NONE,
                          RF_QK_NORM_HEAD, /* of each head */
                          RF_QK_NORM_ROW,  /* of all heads together */
                          RF_QK_NORM_HEAD_AFTER_ROPE,
} rf_qk_norm;

typedef enum rf_logit_scale { /* what the key logit_scale means */
                              RF_LOGITS_UNSCALED,
                              RF_LOGITS_TIMES,
                              RF_LOGITS_OVER,
} rf_logit_scale;

/* A row of the table of architectures.  What is not named in a row is zero: a pre-norm decoder with
 * RMS norms, learned positions, causal grouped-query attention and a SiLU-gated FFN.  Optional
 * biases are used wherever a file has them. */
typedef struct rf_arch {
    const char *name;     /* general.architecture */
    const char *families; /* for docs and `models`: "Llama 2, 3, 3.x; Mistral; Yi; SmolLM" */
    bool encoder;         /* makes hidden states, no logits */
    rf_rope_kind rope;    /* NONE: positions are learned, [n_ctx_train][n_embd] */
    rf_norm_kind norm;
    rf_norm_place norm_place;
    const char *ffn_norm; /* the tensor of the norm before the FFN, NULL: "ffn_norm" */
    const char *out_norm; /* the tensor of the norm before the output, NULL: "output_norm" */
    bool norm_bare;       /* norms of layers and output have no weights */
    rf_qk_norm qk_norm;
    bool qk_norm_may; /* a file may lack it */
    rf_act act;
    bool ffn_plain;       /* down(act(up)) instead of down(act(gate) * up) */
    bool ffn_fused;       /* ffn_up holds gate and up, [2 * n_ff][n_embd] */
    bool qkv_bias;        /* bq, bk, bv must exist (else they may) */
    bool parallel;        /* the FFN reads the layer's input; use_parallel_residual overrides */
    bool embd_scale_root; /* embeddings times sqrt(n_embd) */
    rf_logit_scale logit_scale;
    bool softcaps_needed;     /* attn_logit_softcapping and final_logit_softcapping must exist */
    bool window_needed;       /* attention.sliding_window must exist */
    uint32_t window_every;    /* of so many layers the last sees everything; 0: none does */
    bool rope_in_window;      /* layers outside the window, where there is one, rotate nothing */
    uint32_t rope_not_every;  /* of so many layers the last rotates nothing; 0: all rotate */
    bool rope_local;          /* layers with a window rotate unscaled, by rope.freq_base_swa, */
    float rope_local_base;    /* else this, else rope.freq_base */
    uint32_t attn_scale_wide; /* models of so many layers scale by 1/sqrt(n_embd / n_heads) */
    bool yarn_exact;          /* the ramp of YaRN ends within dimensions, not at whole ones */
    bool latent;              /* attention is latent (MLA) */
    bool short_conv;          /* layers without KV heads are short convolutions */
    bool delta_net;           /* all but each fourth layer, or as the file says, are delta nets */
    bool heads_in_turn;       /* in these, value head h is of key head h % their number */
    bool mamba;               /* layers without KV heads are Mamba-2 mixers, */
    bool one_part;            /* or, where they have an FFN length, an FFN, and no layer has both */
    bool rope_may;            /* only files with rope.scaling.finetuned rotate */
    bool attn_gate;           /* wq makes a gate beside each query head */
    rf_router_kind router;    /* of experts, where the file does not say */
    bool router_normalise;    /* likewise */
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
