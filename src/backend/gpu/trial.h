/* trial.h - small models whose plans need one family of kernels each, for the self-test.
 *
 * Everything in them is random, from a seed: weights, activations (a table of embeddings by position)
 * and routes.  All plans of one trial hold the same tensors.  Nothing comes from a file. */
#pragma once
#include "base/arena.h"
#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    RF_GPU_TRIAL_POSITIONS = 512, /* tokens of a sequence: attention in two segments */
    RF_GPU_TRIAL_TALL = 8230,     /* rows of a tall weight: a kernel of its own for one input */
};

typedef enum rf_gpu_trial_kind {
    RF_GPU_TRIAL_ROWS,     /* norms, activations, sums, copies */
    RF_GPU_TRIAL_PRODUCTS, /* one weight format: plain, gated, per head, tall */
    RF_GPU_TRIAL_EXPERTS,  /* one weight format: route, experts, mix */
    RF_GPU_TRIAL_HEADS,    /* one pair of cache formats: norms, rotation, KV put, attention */
    RF_GPU_TRIAL_STATES,   /* heads that keep a matrix of head_dim rows, and a convolution */
} rf_gpu_trial_kind;

typedef struct rf_gpu_trial_case {
    rf_gpu_trial_kind kind;
    rf_dtype type;                                     /* of weights; HEADS: of keys */
    rf_dtype v_type;                                   /* HEADS */
    rf_attn_pattern pattern;                           /* HEADS */
    uint32_t head_dim, value_dim, n_heads, n_kv_heads; /* HEADS, STATES; value_dim 0: latent */
    bool is_tall, is_long;                             /* PRODUCTS: weight rows, activations */
    bool is_small;                                     /* PRODUCTS, EXPERTS: few columns */
    bool is_near;                                      /* and of floats a multiple of 8 */
} rf_gpu_trial_case;

typedef struct rf_gpu_trial_tensor {
    rf_tensor w;
    struct rf_gpu_trial_tensor *next;
} rf_gpu_trial_tensor;

typedef struct rf_gpu_trial {
    rf_model m; /* first: the builder finds the rest behind it */
    rf_arch arch;
    rf_layer layer;
    rf_arena *arena;
    rf_gpu_trial_case c;
    rf_rope rope;
    rf_router router;
    uint64_t state;            /* of the random numbers */
    rf_gpu_trial_tensor *made; /* by the first plan, in order, for all others too */
    rf_gpu_trial_tensor **now; /* the next one that a plan asks for, or where it will be */
    bool failed;               /* no memory for a tensor */
} rf_gpu_trial;

RF_CHECKED rf_status rf_gpu_trial_open(rf_gpu_trial **out, const rf_gpu_trial_case *c,
                                       uint64_t seed, rf_error *e);
void rf_gpu_trial_close(rf_gpu_trial *t); /* NULL is fine; plans of it must be gone */
/* Can a matrix product have that format? */
bool rf_gpu_trial_has(rf_dtype type);
/* 64 random bits; *state moves on. */
uint64_t rf_gpu_trial_random(uint64_t *state);

#ifdef __cplusplus
}
#endif
