/* moe.c - mixtures of experts: the FFN of which each token row uses a few parts, chosen by a router.
 *
 * One reading of the metadata, one binder and one emitter serve every architecture with experts:
 * score function, normalisation, groups, selection bias, shared experts and dense layers come from
 * the file, and where older files do not say, from the traits of the row in arch.def.  Attention is
 * none of its business. */
#include <math.h>
#include <stdio.h>

#include "model/arch/arch.h"
#include "model/bind.h"
#include "plan/plan.h"

/* expert_gating_func; 0 or absent: what the architecture has always done. */
static void bind_score_function(rf_binder *b, rf_router *r) {
    uint32_t v = rf_bind_optional_u32(b, "expert_gating_func", UINT32_MAX);
    r->kind = b->m->arch->router;
    if (v == 1) r->kind = RF_ROUTER_SOFTMAX;
    if (v == 2) r->kind = RF_ROUTER_SIGMOID;
    if (v == 3) r->kind = RF_ROUTER_SOFTMAX_TOPK;
    if (b->status == RF_OK && v > 3)
        rf_bind_fail(b, RF_EUNSUPPORTED,
                     "key %s.expert_gating_func is %u; this build knows 1 (softmax), 2 (sigmoid) "
                     "and 3 (softmax over the chosen)",
                     b->m->arch->name, v);
}

/* Experts in groups, of which only the best compete. */
static void bind_groups(rf_binder *b, rf_router *r) {
    const char *arch = b->m->arch->name;
    r->n_groups = rf_bind_optional_u32(b, "expert_group_count", RF_MAX_EXPERTS);
    r->n_groups_used = rf_bind_optional_u32(b, "expert_group_used_count", RF_MAX_EXPERTS);
    if (b->status != RF_OK) return;
    if (r->n_groups <= 1 || r->n_groups_used == r->n_groups) {
        r->n_groups = r->n_groups_used = 0;
        return;
    }
    if (r->n_experts % r->n_groups != 0 || r->n_experts == r->n_groups)
        rf_bind_fail(b, RF_EFORMAT,
                     "%s.expert_count is %u and %s.expert_group_count is %u; expected groups of "
                     "the same size, at least 2",
                     arch, r->n_experts, arch, r->n_groups);
    else if (r->n_groups_used == 0 || r->n_groups_used > r->n_groups)
        rf_bind_fail(b, RF_EFORMAT, "key %s.expert_group_used_count is %u, expected 1 to %u", arch,
                     r->n_groups_used, r->n_groups);
    else if (r->n_used > r->n_experts / r->n_groups * r->n_groups_used)
        rf_bind_fail(b, RF_EFORMAT,
                     "key %s.expert_used_count is %u, expected at most %u: the experts of %u of %u "
                     "groups",
                     arch, r->n_used, r->n_experts / r->n_groups * r->n_groups_used,
                     r->n_groups_used, r->n_groups);
}

static void bind_router(rf_binder *b) {
    const rf_model *m = b->m;
    rf_router *r = &b->router;
    r->n_experts = m->n_experts;
    r->n_used = m->n_experts_used;
    bind_score_function(b, r);
    bind_groups(b, r);
    r->normalise = rf_bind_bool(b, "expert_weights_norm", m->arch->router_normalise);
    r->scale = rf_bind_any_f32(b, "expert_weights_scale", 0);
    if (r->scale == 0) r->scale = 1; /* files say 0 for none */
    if (b->status == RF_OK && !(r->scale > 0 && isfinite(r->scale)))
        rf_bind_fail(b, RF_EFORMAT, "key %s.expert_weights_scale is %g, expected a number >= 0",
                     m->arch->name, (double)r->scale);
}

void rf_bind_experts(rf_binder *b) {
    rf_model *m = b->m;
    m->n_experts = rf_bind_optional_u32(b, "expert_count", RF_MAX_EXPERTS);
    if (m->n_experts == 0) return;
    m->n_experts_used = rf_bind_u32(b, "expert_used_count", 0, RF_MAX_EXPERTS_USED);
    if (b->status == RF_OK && m->n_experts_used > m->n_experts)
        rf_bind_fail(b, RF_EFORMAT,
                     "key %s.expert_used_count is %u, expected at most %u, the expert_count",
                     m->arch->name, m->n_experts_used, m->n_experts);
    m->n_ff_expert = rf_bind_u32(b, "expert_feed_forward_length", m->n_ff, RF_MAX_FF);
    m->n_ff_shared = rf_bind_optional_u32(b, "expert_shared_feed_forward_length", RF_MAX_FF);
    uint32_t n_shared = rf_bind_optional_u32(b, "expert_shared_count", RF_MAX_EXPERTS);
    if (m->n_ff_shared == 0) m->n_ff_shared = n_shared * m->n_ff_expert;
    b->n_dense_lead = rf_bind_optional_u32(b, "leading_dense_block_count", RF_MAX_LAYERS);
    b->moe_every = rf_bind_u32(b, "interleave_moe_layer_step", 1, RF_MAX_LAYERS);
    if (b->status == RF_OK && m->n_ff_shared > RF_MAX_FF)
        rf_bind_fail(b, RF_EFORMAT, "key %s.expert_shared_count is %u, expected at most %u of %u",
                     m->arch->name, n_shared, RF_MAX_FF / m->n_ff_expert, m->n_ff_expert);
    if (b->status == RF_OK) bind_router(b);
}

static bool has_experts(const rf_binder *b, uint32_t il) {
    return b->m->n_experts > 0 && il >= b->n_dense_lead && (il + 1) % b->moe_every == 0;
}

/* Files of before 2024-04 hold every expert in a tensor of its own. */
static void refuse_separate_experts(rf_binder *b, uint32_t il) {
    char name[64];
    snprintf(name, sizeof name, "blk.%u.ffn_gate.0.weight", il);
    if (rf_gguf_find_tensor(b->m->file, name))
        rf_bind_fail(b, RF_EUNSUPPORTED,
                     "tensor %s holds a single expert, as files of before 2024-04 do; expected "
                     "blk.%u.ffn_gate_exps.weight, shape [%u][%u][%u]; convert the model again",
                     name, il, b->m->n_experts, b->m->n_ff_expert, b->m->n_embd);
}

/* The selection bias as numbers, [n_experts]; NULL where the file has none. */
static const float *bind_select_bias(rf_binder *b, uint32_t il) {
    uint32_t n = b->m->n_experts;
    const rf_tensor *t = rf_bind_tensor(b, RF_MAY, 1, n, "blk.%u.exp_probs_b.bias", il);
    if (!t) return NULL;
    float *v = rf_arena_alloc(b->m->arena, n, sizeof *v);
    if (!v) {
        b->status = rf_fail_nomem(b->e, n * sizeof *v);
        return NULL;
    }
    rf_dtype_get(t->type)->decode(t->data, v, n);
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(v[i])) {
            rf_bind_fail(b, RF_EFORMAT,
                         "tensor blk.%u.exp_probs_b.bias: value %u is %g, expected a number", il, i,
                         (double)v[i]);
            return NULL;
        }
    return v;
}

static void bind_matrices(rf_binder *b, uint32_t il, rf_moe *x) {
    uint32_t n = b->m->n_experts, n_embd = b->m->n_embd, n_ff = b->m->n_ff_expert;
    x->gate_up =
        rf_bind_planes(b, RF_MAY, n, 2 * n_ff, n_embd, "blk.%u.ffn_gate_up_exps.weight", il);
    if (!x->gate_up) {
        x->gate = rf_bind_planes(b, RF_NEED, n, n_ff, n_embd, "blk.%u.ffn_gate_exps.weight", il);
        x->up = rf_bind_planes(b, RF_NEED, n, n_ff, n_embd, "blk.%u.ffn_up_exps.weight", il);
        x->gate_b = rf_bind_tensor(b, RF_MAY, n, n_ff, "blk.%u.ffn_gate_exps.bias", il);
        x->up_b = rf_bind_tensor(b, RF_MAY, n, n_ff, "blk.%u.ffn_up_exps.bias", il);
    }
    x->down = rf_bind_planes(b, RF_NEED, n, n_embd, n_ff, "blk.%u.ffn_down_exps.weight", il);
    x->down_b = rf_bind_tensor(b, RF_MAY, n, n_embd, "blk.%u.ffn_down_exps.bias", il);
}

/* The expert that every row uses. */
static void bind_shared(rf_binder *b, uint32_t il, rf_moe *x) {
    uint32_t n_embd = b->m->n_embd, n_ff = b->m->n_ff_shared;
    if (n_ff == 0) return;
    x->shared_gate = rf_bind_tensor(b, RF_NEED, n_ff, n_embd, "blk.%u.ffn_gate_shexp.weight", il);
    x->shared_up = rf_bind_tensor(b, RF_NEED, n_ff, n_embd, "blk.%u.ffn_up_shexp.weight", il);
    x->shared_down = rf_bind_tensor(b, RF_NEED, n_embd, n_ff, "blk.%u.ffn_down_shexp.weight", il);
    x->shared_switch = rf_bind_tensor(b, RF_MAY, 1, n_embd, "blk.%u.ffn_gate_inp_shexp.weight", il);
}

bool rf_bind_moe(rf_binder *b, uint32_t il, rf_layer *l) {
    if (b->status != RF_OK || !has_experts(b, il)) return false;
    rf_model *m = b->m;
    rf_moe *x = rf_arena_alloc(m->arena, 1, sizeof *x);
    if (!x) {
        b->status = rf_fail_nomem(b->e, sizeof *x);
        return true;
    }
    refuse_separate_experts(b, il);
    x->choice = b->router;
    x->choice.select_bias = bind_select_bias(b, il);
    x->router =
        rf_bind_tensor(b, RF_NEED, m->n_experts, m->n_embd, "blk.%u.ffn_gate_inp.weight", il);
    x->router_bias = rf_bind_tensor(b, RF_MAY, 1, m->n_experts, "blk.%u.ffn_gate_inp.bias", il);
    bind_matrices(b, il, x);
    bind_shared(b, il, x);
    l->moe = x;
    return true;
}

static rf_val emit_shared(rf_plan *p, const rf_moe *x, rf_val h) {
    rf_val gate = rf_emit_matmul(p, h, x->shared_gate, NULL);
    rf_val up = rf_emit_matmul(p, h, x->shared_up, NULL);
    rf_val y = rf_emit_glu(p, p->model->arch->act, gate, up);
    y = rf_emit_matmul(p, y, x->shared_down, NULL);
    if (!x->shared_switch) return y;
    rf_val on = rf_emit_matmul(p, h, x->shared_switch, NULL);
    return rf_emit_mul(p, y, rf_emit_act(p, RF_ACT_SIGMOID, on));
}

rf_val rf_emit_moe_ffn(rf_plan *p, const rf_layer *l, rf_val h) {
    const rf_moe *x = l->moe;
    const rf_router *r = &x->choice;
    rf_val scores = rf_emit_matmul(p, h, x->router, x->router_bias);
    rf_val route = rf_emit_route(p, scores, r);
    rf_val gate, up;
    if (x->gate_up) {
        rf_val both = rf_emit_experts(p, h, route, x->gate_up, NULL, r);
        uint32_t n_ff = x->gate_up->rows / 2;
        gate = rf_emit_slice(p, both, r->n_used, 0, n_ff);
        up = rf_emit_slice(p, both, r->n_used, n_ff, n_ff);
    } else {
        gate = rf_emit_experts(p, h, route, x->gate, x->gate_b, r);
        up = rf_emit_experts(p, h, route, x->up, x->up_b, r);
    }
    rf_val y = rf_emit_glu(p, p->model->arch->act, gate, up);
    y = rf_emit_experts(p, y, route, x->down, x->down_b, r);
    y = rf_emit_mix(p, y, route, r);
    return x->shared_up ? rf_emit_add(p, y, emit_shared(p, x, h)) : y;
}
