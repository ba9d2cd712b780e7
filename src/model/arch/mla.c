/* mla.c - latent attention: keys and values of all heads come from one short vector per token.
 *
 * Absorbed (k_b, v_b): the cache holds that vector and the rotated part of the key, every head
 * reads it, and the matrices that would expand it are applied to the query and to the result
 * instead.  Expanded (kv_b, older files): the cache holds ordinary keys and values.  Both compute
 * the same attention; the first needs a fraction of the memory. */
#include <math.h>

#include "base/fmath.h"
#include "model/arch/arch.h"
#include "model/bind.h"
#include "plan/plan.h"

/* YaRN of these models leaves the rotated part as it is and scales all scores instead. */
static double yarn_factor(rf_binder *b) {
    double log_mul = (double)rf_bind_any_f32(b, "rope.scaling.yarn_log_multiplier", 0);
    double factor = (double)rf_bind_f32(b, "rope.scaling.factor", 1);
    rf_str type = rf_bind_str(b, "rope.scaling.type", "none");
    if (b->status != RF_OK || !rf_str_is(type, "yarn") || factor <= 1) return 1;
    if (!(log_mul >= 0) || !isfinite(log_mul)) {
        rf_bind_fail(b, RF_EFORMAT,
                     "key %s.rope.scaling.yarn_log_multiplier is %g, expected a number >= 0",
                     b->m->arch->name, log_mul);
        return 1;
    }
    double mscale = 1 + log_mul * rf_log(factor);
    return mscale * mscale;
}

void rf_bind_latent(rf_binder *b) {
    rf_model *m = b->m;
    rf_mla *x = &b->latent;
    m->n_heads = rf_bind_u32(b, "attention.head_count", 0, RF_MAX_HEADS);
    x->kv_rank = rf_bind_u32(b, "attention.kv_lora_rank", 0, RF_MAX_HEAD_DIM);
    x->rope_dim = rf_bind_u32(b, "rope.dimension_count", 0, RF_MAX_HEAD_DIM);
    uint32_t key_dim = rf_bind_optional_u32(b, "attention.key_length_mla", RF_MAX_HEAD_DIM);
    x->absorbed = key_dim != 0;
    const char *key_name = x->absorbed ? "attention.key_length_mla" : "attention.key_length";
    const char *value_name = x->absorbed ? "attention.value_length_mla" : "attention.value_length";
    if (!x->absorbed) key_dim = rf_bind_u32(b, key_name, 0, RF_MAX_HEAD_DIM);
    x->value_dim = rf_bind_u32(b, value_name, 0, RF_MAX_HEAD_DIM);
    if (b->status != RF_OK) return;
    if (key_dim <= x->rope_dim) {
        rf_bind_fail(b, RF_EFORMAT,
                     "key %s.%s is %u and rope.dimension_count %u; expected a smaller one",
                     m->arch->name, key_name, key_dim, x->rope_dim);
        return;
    }
    x->nope_dim = key_dim - x->rope_dim;
    if (x->absorbed && x->kv_rank + x->rope_dim > RF_MAX_HEAD_DIM) {
        rf_bind_fail(b, RF_EFORMAT,
                     "key %s.attention.kv_lora_rank is %u and rope.dimension_count %u, expected "
                     "together at most %d",
                     m->arch->name, x->kv_rank, x->rope_dim, RF_MAX_HEAD_DIM);
        return;
    }
    m->n_kv_heads = x->absorbed ? 1 : m->n_heads;
    m->head_dim = x->absorbed ? x->kv_rank + x->rope_dim : key_dim;
    m->attn_scale = (float)(yarn_factor(b) / sqrt(key_dim));
}

/* Query weights: through a short vector, or straight from the input. */
static void bind_query(rf_binder *b, uint32_t il, rf_layer *l, rf_mla *x) {
    const rf_model *m = b->m;
    uint32_t q_rank = rf_bind_optional_u32(b, "attention.q_lora_rank", RF_MAX_EMBD);
    uint32_t n_q = m->n_heads * (x->nope_dim + x->rope_dim);
    if (q_rank == 0) {
        l->wq = rf_bind_tensor(b, RF_NEED, n_q, m->n_embd, "blk.%u.attn_q.weight", il);
        return;
    }
    x->q_a = rf_bind_tensor(b, RF_NEED, q_rank, m->n_embd, "blk.%u.attn_q_a.weight", il);
    x->q_a_norm = rf_bind_tensor(b, RF_NEED, 1, q_rank, "blk.%u.attn_q_a_norm.weight", il);
    l->wq = rf_bind_tensor(b, RF_NEED, n_q, q_rank, "blk.%u.attn_q_b.weight", il);
}

void rf_bind_mla(rf_binder *b, uint32_t il, rf_layer *l) {
    if (b->status != RF_OK) return;
    const rf_model *m = b->m;
    rf_mla *x = rf_arena_alloc(m->arena, 1, sizeof *x);
    if (!x) {
        b->status = rf_fail_nomem(b->e, sizeof *x);
        return;
    }
    *x = b->latent;
    uint32_t n_latent = x->kv_rank + x->rope_dim, n_value = m->n_heads * x->value_dim;
    bind_query(b, il, l, x);
    x->kv_a = rf_bind_tensor(b, RF_NEED, n_latent, m->n_embd, "blk.%u.attn_kv_a_mqa.weight", il);
    x->kv_a_norm = rf_bind_tensor(b, RF_NEED, 1, x->kv_rank, "blk.%u.attn_kv_a_norm.weight", il);
    if (x->absorbed) {
        x->k_b = rf_bind_planes(b, RF_NEED, m->n_heads, x->kv_rank, x->nope_dim,
                                "blk.%u.attn_k_b.weight", il);
        x->v_b = rf_bind_planes(b, RF_NEED, m->n_heads, x->value_dim, x->kv_rank,
                                "blk.%u.attn_v_b.weight", il);
    } else {
        x->kv_b = rf_bind_tensor(b, RF_NEED, m->n_heads * x->nope_dim + n_value, x->kv_rank,
                                 "blk.%u.attn_kv_b.weight", il);
    }
    l->wo = rf_bind_tensor(b, RF_NEED, m->n_embd, n_value, "blk.%u.attn_output.weight", il);
    l->mla = x;
}

static rf_val emit_query(rf_plan *p, const rf_layer *l, rf_val h) {
    const rf_mla *x = l->mla;
    if (x->q_a) h = rf_emit_rms_norm(p, rf_emit_matmul(p, h, x->q_a, NULL), x->q_a_norm, 0);
    return rf_emit_matmul(p, h, l->wq, NULL);
}

/* Keys are (latent, rotated) for all heads, values their latent part. */
static rf_val emit_absorbed(rf_plan *p, uint32_t il, const rf_layer *l, rf_val q_nope,
                            rf_val q_rope, rf_val latent, rf_val k_rope) {
    const rf_model *m = p->model;
    const rf_mla *x = l->mla;
    rf_val q = rf_emit_head_matmul(p, q_nope, x->k_b);
    q = rf_emit_concat(p, q, q_rope, m->n_heads, m->n_heads);
    rf_val k = rf_emit_concat(p, latent, k_rope, 1, 1);
    rf_attn at = {.n_heads = m->n_heads,
                  .n_kv_heads = 1,
                  .head_dim = x->kv_rank + x->rope_dim,
                  .value_dim = x->kv_rank,
                  .scale = m->attn_scale,
                  .pattern = l->pattern};
    return rf_emit_head_matmul(p, rf_emit_attend(p, il, q, k, 0, &at), x->v_b);
}

static rf_val emit_expanded(rf_plan *p, uint32_t il, const rf_layer *l, rf_val q_nope,
                            rf_val q_rope, rf_val latent, rf_val k_rope) {
    const rf_model *m = p->model;
    const rf_mla *x = l->mla;
    rf_val q = rf_emit_concat(p, q_nope, q_rope, m->n_heads, m->n_heads);
    rf_val kv = rf_emit_matmul(p, latent, x->kv_b, NULL);
    rf_val k = rf_emit_slice(p, kv, m->n_heads, 0, x->nope_dim);
    k = rf_emit_concat(p, k, k_rope, m->n_heads, 1);
    rf_val v = rf_emit_slice(p, kv, m->n_heads, x->nope_dim, x->value_dim);
    rf_attn at = {.n_heads = m->n_heads,
                  .n_kv_heads = m->n_heads,
                  .head_dim = x->nope_dim + x->rope_dim,
                  .value_dim = x->value_dim,
                  .scale = m->attn_scale,
                  .pattern = l->pattern};
    return rf_emit_attend(p, il, q, k, v, &at);
}

rf_val rf_emit_mla(rf_plan *p, uint32_t il, const rf_layer *l, rf_val h) {
    const rf_model *m = p->model;
    const rf_mla *x = l->mla;
    rf_val q = emit_query(p, l, h);
    rf_val q_nope = rf_emit_slice(p, q, m->n_heads, 0, x->nope_dim);
    rf_val q_rope = rf_emit_slice(p, q, m->n_heads, x->nope_dim, x->rope_dim);
    q_rope = rf_emit_rope(p, q_rope, m->n_heads, l->rope);
    rf_val kv = rf_emit_matmul(p, h, x->kv_a, NULL);
    rf_val latent = rf_emit_slice(p, kv, 1, 0, x->kv_rank);
    latent = rf_emit_rms_norm(p, latent, x->kv_a_norm, 0);
    rf_val k_rope = rf_emit_slice(p, kv, 1, x->kv_rank, x->rope_dim);
    k_rope = rf_emit_rope(p, k_rope, 1, l->rope);
    return x->absorbed ? emit_absorbed(p, il, l, q_nope, q_rope, latent, k_rope)
                       : emit_expanded(p, il, l, q_nope, q_rope, latent, k_rope);
}
