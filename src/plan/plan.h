/* plan.h - the forward pass written out once, as a straight line of steps.
 *
 * The number of token rows T is the only thing that changes between runs, so prefill, decode and
 * any mix of both are the same plan.  Backends may fuse steps; the plan itself is never fused,
 * so any two backends can be run in lockstep and compared value by value.  Read-only once
 * sealed. */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rf_op {
#define X(name, meaning) RF_OP_##name,
#include "plan/op.def"
#undef X
    RF_OP_COUNT
} rf_op;
const char *rf_op_name(rf_op op);
const char *rf_op_meaning(rf_op op);

typedef uint32_t rf_val; /* index into plan->vals; 0 means none */
typedef struct rf_value {
    const rf_tensor *weight; /* a constant in the file, or NULL for an activation: */
    uint32_t cols;           /*   f32 [T][cols], or [n_outputs][cols] where per_output */
    bool per_output;
    uint32_t first_step, last_step; /* its lifetime, from rf_plan_seal */
    size_t offset; /* in floats per row, into the one activation buffer: value v of row t lies
                                at buffer + offset * T_max + t * cols */
} rf_value;

typedef enum rf_embed_source {
    RF_EMBED_TOKEN,    /* table [n_vocab][n_embd] */
    RF_EMBED_POSITION, /* learned positions; a batch with a position beyond the table is refused */
    RF_EMBED_FIRST,    /* the same row for every token: segment 0 of an encoder */
    RF_EMBED_ROWS, /* no table: the batch brings the rows, which a plan for the layers before made */
} rf_embed_source;

typedef struct rf_step {
    rf_op op;
    uint32_t layer;
    rf_val dst, a, b, w, bias; /* ATTEND: w holds the sinks [n_heads], or 0 */
    /* How a row splits into heads: norms, HEAD_MATMUL, ROPE, KV_PUT, ATTEND, DELTA, SCAN, SLICE and
     * CONCAT (of a).  b of a CONCAT has n_kv_heads heads: n_heads or 1. */
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t value_dim;      /* KV_PUT, ATTEND, DELTA, SCAN: a head of v (x) and of dst */
    uint32_t first;          /* SLICE */
    float eps;               /* norms, DELTA */
    float scale;             /* ATTEND, SCALE */
    float softcap;           /* ATTEND (0: none), SOFTCAP */
    rf_act act;              /* ACT, GLU */
    rf_embed_source source;  /* EMBED */
    const rf_rope *rope;     /* ROPE */
    const rf_router *router; /* ROUTE, EXPERTS, MIX */
    rf_attn_pattern pattern; /* ATTEND */
    bool heads_in_turn;      /* DELTA: value head h is of key head h % n_kv_heads */
    size_t state_at;         /* CONV, DELTA, SCAN: first float of its part of a slot of state */
} rf_step;

typedef struct rf_plan_opts {
    bool keep_values; /* no activation shares memory with another and backends fuse nothing, so that
                         a test can peek at every value */
    bool embeddings;  /* ends with the hidden states after the last norm, not with logits */
    uint32_t n_ctx;   /* the longest sequence it will run, for frequencies that depend on it; 0: the
                         model's training context */
    /* Layers [first_layer, first_layer + n_layers) only; n_layers 0: all from first_layer on.  Where
     * layers come before, the plan starts with the rows that they made; where layers follow, its result
     * is those rows, of outputs: [n_outputs][n_embd]. */
    uint32_t first_layer, n_layers;
} rf_plan_opts;

typedef struct rf_plan {
    const rf_model *model;
    rf_arena *arena;
    rf_value *vals; /* [n_vals]; vals[0] is unused */
    uint32_t n_vals, cap_vals;
    rf_step *steps; /* [n_steps] */
    uint32_t n_steps, cap_steps;
    rf_val result;     /* the last value, [n_outputs][n_result]: logits, or hidden states */
    uint32_t n_result; /* n_vocab, or n_embd in a plan for embeddings or for the first layers */
    uint32_t first_layer, end_layer; /* see rf_plan_opts; all layers: 0, model->n_layers */
    size_t floats_per_token; /* activation buffer size / T_max, set by rf_plan_seal; the result
                                lies alone at its end, so a backend may cut that part to the rows
                                of n_outputs */
    size_t state_floats;     /* of a slot of state, what a sequence keeps beside its keys and values
                                however long it is; 0: nothing */
    rf_plan_opts opts;
    rf_error err; /* sticky: emitters do nothing after the first failure */
} rf_plan;

/* Builds, seals and checks the plan of a model.  opts NULL: all defaults. */
RF_CHECKED rf_status rf_plan_build(rf_plan **out, const rf_model *m, const rf_plan_opts *opts,
                                   rf_error *e);
void rf_plan_free(rf_plan *p);
/* Bytes of the file that the plan's weights take. */
uint64_t rf_plan_weight_bytes(const rf_plan *p);
/* The plan as text, one step a line. */
void rf_plan_print(const rf_plan *p, rf_buf *out);

/* Who reads and makes each value, for backends that fuse; all arrays [n_vals], n_uses zeros before.
 * producer, consumer: the step that makes it and the last that reads it; UINT32_MAX: none. */
void rf_plan_count_uses(const rf_plan *p, uint32_t *n_uses, uint32_t *producer, uint32_t *consumer);

/* Floats of state that a step reads and renews; 0: it has none. */
size_t rf_plan_state_of(const rf_plan *p, const rf_step *s);

/* How a layer attends.  Keys have n_kv_heads * head_dim columns, values n_kv_heads * value_dim. */
typedef struct rf_attn {
    uint32_t n_heads, n_kv_heads, head_dim, value_dim;
    float scale, softcap; /* softcap 0: none */
    rf_attn_pattern pattern;
    const rf_tensor *sinks; /* [n_heads] or NULL: scores of a key that adds nothing but weight */
} rf_attn;

/* Emitters, for builders: each appends one step (attend: two) and returns the value it makes.
 * bias may be NULL everywhere, and so may w of a norm (ones); head_dim 0 means the whole row. */
rf_val rf_emit_embed(rf_plan *p, const rf_tensor *table, rf_embed_source source);
rf_val rf_emit_rows(rf_plan *p); /* RF_EMBED_ROWS: [T][n_embd] */
rf_val rf_emit_rms_norm(rf_plan *p, rf_val a, const rf_tensor *w, uint32_t head_dim);
rf_val rf_emit_layer_norm(rf_plan *p, rf_val a, const rf_tensor *w, const rf_tensor *bias,
                          uint32_t head_dim);
rf_val rf_emit_matmul(rf_plan *p, rf_val a, const rf_tensor *w, const rf_tensor *bias);
rf_val rf_emit_head_matmul(rf_plan *p, rf_val a, const rf_tensor *w); /* [n_heads][rows][cols] */
rf_val rf_emit_rope(rf_plan *p, rf_val a, uint32_t n_heads, const rf_rope *rope);
/* KV_PUT, ATTEND.  v 0: values are the first value_dim columns of each key (MLA). */
rf_val rf_emit_attend(rf_plan *p, uint32_t layer, rf_val q, rf_val k, rf_val v, const rf_attn *at);
/* Causal, each column for itself: a [T][cols], w [cols][taps], bias [cols] -> [T][cols]. */
rf_val rf_emit_conv(rf_plan *p, rf_val a, const rf_tensor *w, const rf_tensor *bias);
/* The gated delta rule (arXiv 2412.06464).  qkv [T][2 * n_kv_heads * head_dim + n_heads * value_dim],
 * gates [T][2 * n_heads], decay and bias [n_heads] -> [T][n_heads * value_dim]. */
typedef struct rf_delta {
    uint32_t n_heads, n_kv_heads, head_dim, value_dim; /* kv: of queries and keys */
    bool heads_in_turn;
    const rf_tensor *decay, *bias;
} rf_delta;
rf_val rf_emit_delta(rf_plan *p, rf_val qkv, rf_val gates, const rf_delta *d);
/* Mamba-2's scan (arXiv 2405.21060).  xbc [T][n_heads * value_dim + 2 * n_kv_heads * head_dim]: x of each
 * head, then B and C of each group; dt [T][n_heads], decay and bias [n_heads] -> [T][n_heads * value_dim]. */
rf_val rf_emit_scan(rf_plan *p, rf_val xbc, rf_val dt, const rf_delta *d);
rf_val rf_emit_act(rf_plan *p, rf_act act, rf_val a);
rf_val rf_emit_glu(rf_plan *p, rf_act act, rf_val gate, rf_val up);
rf_val rf_emit_scale(rf_plan *p, rf_val a, float scale); /* scale 1: a itself, no step */
rf_val rf_emit_softcap(rf_plan *p, rf_val a, float cap); /* cap 0: a itself, no step */
rf_val rf_emit_add(rf_plan *p, rf_val a, rf_val b);
rf_val rf_emit_mul(rf_plan *p, rf_val a, rf_val b);
rf_val rf_emit_slice(rf_plan *p, rf_val a, uint32_t n_heads, uint32_t first, uint32_t n);
rf_val rf_emit_concat(rf_plan *p, rf_val a, rf_val b, uint32_t n_heads, uint32_t n_b_heads);
/* scores [T][n_experts] -> route [T][2 * n_used] */
rf_val rf_emit_route(rf_plan *p, rf_val scores, const rf_router *router);
/* a [T][cols] or [T][n_used * cols], w [n_experts][rows][cols], bias [n_experts][rows] ->
 * [T][n_used * rows] */
rf_val rf_emit_experts(rf_plan *p, rf_val a, rf_val route, const rf_tensor *w,
                       const rf_tensor *bias, const rf_router *router);
rf_val rf_emit_mix(rf_plan *p, rf_val a, rf_val route, const rf_router *router); /* [T][cols] */
rf_val rf_emit_pick(rf_plan *p, rf_val a); /* keep only the rows whose result is wanted */

#ifdef __cplusplus
}
#endif
