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

typedef struct rf_step {
    rf_op op;
    uint32_t layer;
    rf_val dst, a, b, w, bias;
    uint32_t n_heads, n_kv_heads,
        head_dim;            /* how a row splits into heads: RMS_NORM, ROPE, KV_PUT, ATTEND */
    float eps;               /* RMS_NORM */
    float scale;             /* ATTEND */
    const rf_rope *rope;     /* ROPE */
    rf_attn_pattern pattern; /* ATTEND */
} rf_step;

typedef struct rf_plan {
    const rf_model *model;
    rf_arena *arena;
    rf_value *vals; /* [n_vals]; vals[0] is unused */
    uint32_t n_vals, cap_vals;
    rf_step *steps; /* [n_steps] */
    uint32_t n_steps, cap_steps;
    rf_val logits;           /* the last value, [n_outputs][n_vocab] */
    size_t floats_per_token; /* activation buffer size / T_max, set by rf_plan_seal; the logits
                                lie alone at its end, so a backend may cut that part to the rows
                                of n_outputs */
    bool keep_values;
    rf_error err; /* sticky: emitters do nothing after the first failure */
} rf_plan;

/* Builds, seals and checks the plan of a model.  keep_values: no activation shares memory with
 * another and backends fuse nothing, so that a test can peek at every value. */
RF_CHECKED rf_status rf_plan_build(rf_plan **out, const rf_model *m, bool keep_values, rf_error *e);
void rf_plan_free(rf_plan *p);
/* The plan as text, one step a line. */
void rf_plan_print(const rf_plan *p, rf_buf *out);

/* Emitters, for builders: each appends one step (attend: two) and returns the value it makes. */
rf_val rf_emit_embed(rf_plan *p, const rf_tensor *table);
rf_val rf_emit_rms_norm(rf_plan *p, rf_val a, const rf_tensor *w,
                        uint32_t head_dim); /* 0: the whole row */
rf_val rf_emit_matmul(rf_plan *p, rf_val a, const rf_tensor *w,
                      const rf_tensor *bias /* or NULL */);
rf_val rf_emit_rope(rf_plan *p, rf_val a, uint32_t n_heads, const rf_rope *rope);
rf_val rf_emit_attend(rf_plan *p, uint32_t layer, rf_val q, rf_val k,
                      rf_val v); /* KV_PUT, ATTEND */
rf_val rf_emit_silu_mul(rf_plan *p, rf_val gate, rf_val up);
rf_val rf_emit_add(rf_plan *p, rf_val a, rf_val b);
rf_val rf_emit_pick(rf_plan *p, rf_val a); /* keep only the rows whose logits are wanted */

#ifdef __cplusplus
}
#endif
