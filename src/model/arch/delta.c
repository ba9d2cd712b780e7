/* delta.c - gated delta nets, the layers of Qwen3-Next and Qwen3.5 that keep a matrix per head.
 *
 * Queries, keys and values go through a short convolution and SiLU; the delta rule turns them into heads
 * of values, which are normed and gated.  Files hold the projections in one of two orders.  The way out
 * (wo) is the decoder's. */
#include <stdio.h>

#include "model/arch/arch.h"

void rf_bind_recurrent_layers(rf_binder *b) {
    rf_model *m = b->m;
    uint32_t every = 4, flag[RF_MAX_LAYERS] = {0};
    bool each = rf_bind_layers_u32(b, "attention.recurrent_layers", 1, flag);
    if (!each) every = rf_bind_u32(b, "full_attention_interval", every, RF_MAX_LAYERS);
    for (uint32_t il = 0; il < m->n_layers && b->status == RF_OK; il++) {
        b->keeps_state[il] = each ? flag[il] != 0 : (il + 1) % every != 0;
        m->recurrent = m->recurrent || b->keeps_state[il];
    }
}

void rf_bind_delta_net(rf_binder *b, uint32_t il, rf_layer *l) {
    rf_model *m = b->m;
    rf_delta_net *d = rf_arena_alloc(m->arena, 1, sizeof *d);
    if (!d) {
        b->status = rf_fail_nomem(b->e, sizeof *d);
        return;
    }
    const rf_matrix_heads sizes = rf_bind_matrix_heads(b);
    d->n_k = sizes.n_groups;
    d->n_v = sizes.n_heads;
    d->head_dim = sizes.rows;
    d->value_dim = sizes.columns;
    uint32_t n = m->n_embd, n_values = d->n_v * d->value_dim;
    uint32_t n_qkv = 2 * d->n_k * d->head_dim + n_values;
    uint32_t n_taps = rf_bind_u32(b, "ssm.conv_kernel", 0, RF_MAX_TAPS);
    d->qkvz = rf_bind_tensor(b, RF_MAY, n_qkv + n_values, n, "blk.%u.ssm_in.weight", il);
    if (!d->qkvz) {
        d->qkv = rf_bind_tensor(b, RF_NEED, n_qkv, n, "blk.%u.attn_qkv.weight", il);
        d->z = rf_bind_tensor(b, RF_NEED, n_values, n, "blk.%u.attn_gate.weight", il);
    }
    d->ba = rf_bind_tensor(b, RF_MAY, 2 * d->n_v, n, "blk.%u.ssm_ba.weight", il);
    if (!d->ba) {
        d->beta = rf_bind_tensor(b, RF_NEED, d->n_v, n, "blk.%u.ssm_beta.weight", il);
        d->alpha = rf_bind_tensor(b, RF_NEED, d->n_v, n, "blk.%u.ssm_alpha.weight", il);
    }
    d->taps = rf_bind_tensor(b, RF_NEED, n_qkv, n_taps, "blk.%u.ssm_conv1d.weight", il);
    d->decay = rf_bind_tensor(b, RF_NEED, 1, d->n_v, "blk.%u.ssm_a", il);
    d->bias = rf_bind_tensor(b, RF_NEED, 1, d->n_v, "blk.%u.ssm_dt.bias", il);
    d->norm = rf_bind_tensor(b, RF_NEED, 1, d->value_dim, "blk.%u.ssm_norm.weight", il);
    l->wo = rf_bind_tensor(b, RF_NEED, n, n_values, "blk.%u.ssm_out.weight", il);
    l->delta = d;
}

/* Part number i of each key head in a row that holds them head by head. */
static rf_val part_of(rf_plan *p, const rf_delta_net *d, rf_val x, uint32_t first, uint32_t n) {
    return rf_emit_slice(p, x, d->n_k, first, n);
}

/* [T][columns of qkv] and, in *z, [T][n_v * value_dim]. */
static rf_val emit_qkvz(rf_plan *p, const rf_delta_net *d, rf_val h, rf_val *z) {
    if (!d->qkvz) {
        *z = rf_emit_matmul(p, h, d->z, NULL);
        return rf_emit_matmul(p, h, d->qkv, NULL);
    }
    uint32_t n_k = d->head_dim, n_v = d->n_v / d->n_k * d->value_dim;
    rf_val all = rf_emit_matmul(p, h, d->qkvz, NULL);
    rf_val q = part_of(p, d, all, 0, n_k), k = part_of(p, d, all, n_k, n_k);
    rf_val v = part_of(p, d, all, 2 * n_k, n_v);
    *z = part_of(p, d, all, 2 * n_k + n_v, n_v);
    return rf_emit_concat(p, rf_emit_concat(p, q, k, 1, 1), v, 1, 1);
}

/* [T][2 * n_v]: beta of all heads, then alpha. */
static rf_val emit_gates(rf_plan *p, const rf_delta_net *d, rf_val h) {
    rf_val beta, alpha;
    if (d->ba) {
        uint32_t each = d->n_v / d->n_k;
        rf_val ba = rf_emit_matmul(p, h, d->ba, NULL);
        beta = part_of(p, d, ba, 0, each);
        alpha = part_of(p, d, ba, each, each);
    } else {
        beta = rf_emit_matmul(p, h, d->beta, NULL);
        alpha = rf_emit_matmul(p, h, d->alpha, NULL);
    }
    return rf_emit_concat(p, beta, alpha, 1, 1);
}

rf_val rf_emit_delta_net(rf_plan *p, const rf_layer *l, rf_val h) {
    const rf_delta_net *d = l->delta;
    const rf_delta rule = {.n_heads = d->n_v,
                           .n_kv_heads = d->n_k,
                           .head_dim = d->head_dim,
                           .value_dim = d->value_dim,
                           .heads_in_turn = p->model->arch->heads_in_turn,
                           .decay = d->decay,
                           .bias = d->bias};
    rf_val z, qkv = emit_qkvz(p, d, h, &z), gates = emit_gates(p, d, h);
    qkv = rf_emit_act(p, RF_ACT_SILU, rf_emit_conv(p, qkv, d->taps, NULL));
    rf_val y = rf_emit_rms_norm(p, rf_emit_delta(p, qkv, gates, &rule), d->norm, d->value_dim);
    return rf_emit_glu(p, RF_ACT_SILU, z, y);
}
