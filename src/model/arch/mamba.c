/* mamba.c - Mamba-2 mixers, the layers of Granite 4.0-H and Nemotron-H that keep a matrix per head.
 *
 * One matrix gives a gate z, what goes through a short convolution and SiLU (x of each head, B and C of
 * each group of heads), and a time step per head.  The scan's heads, with a share of x added, are gated
 * and normed.  The way out (wo) is the decoder's. */
#include "model/arch/arch.h"

static void bind_projections(rf_binder *b, uint32_t il, rf_mamba *m, uint32_t inner) {
    uint32_t n_xbc = inner + 2 * m->n_groups * m->state;
    const rf_tensor *in = rf_bind_tensor(b, RF_NEED, inner + n_xbc + m->n_heads, b->m->n_embd,
                                         "blk.%u.ssm_in.weight", il);
    m->z = rf_bind_part(b, in, 0, inner);
    m->xbc = rf_bind_part(b, in, inner, n_xbc);
    m->dt = rf_bind_part(b, in, inner + n_xbc, m->n_heads);
    uint32_t n_taps = rf_bind_u32(b, "ssm.conv_kernel", 0, RF_MAX_TAPS);
    m->taps = rf_bind_tensor(b, RF_NEED, n_xbc, n_taps, "blk.%u.ssm_conv1d.weight", il);
    m->taps_b = rf_bind_tensor(b, RF_MAY, 1, n_xbc, "blk.%u.ssm_conv1d.bias", il);
}

void rf_bind_mamba(rf_binder *b, uint32_t il, rf_layer *l) {
    rf_mamba *m = rf_arena_alloc(b->m->arena, 1, sizeof *m);
    if (!m) {
        b->status = rf_fail_nomem(b->e, sizeof *m);
        return;
    }
    const rf_matrix_heads sizes = rf_bind_matrix_heads(b);
    m->n_groups = sizes.n_groups;
    m->n_heads = sizes.n_heads;
    m->state = sizes.rows;
    m->value_dim = sizes.columns;
    if (b->status != RF_OK) return;
    uint32_t n = m->n_heads, inner = n * m->value_dim;
    bind_projections(b, il, m, inner);
    m->decay = rf_bind_flat(b, rf_bind_tensor(b, RF_NEED, n, 1, "blk.%u.ssm_a", il));
    m->skip = rf_bind_flat(b, rf_bind_tensor(b, RF_NEED, n, 1, "blk.%u.ssm_d", il));
    m->bias = rf_bind_tensor(b, RF_NEED, 1, n, "blk.%u.ssm_dt.bias", il);
    m->norm = rf_bind_flat(b, rf_bind_tensor(b, RF_NEED, m->n_groups, inner / m->n_groups,
                                             "blk.%u.ssm_norm.weight", il));
    l->wo = rf_bind_tensor(b, RF_NEED, b->m->n_embd, inner, "blk.%u.ssm_out.weight", il);
    l->mamba = m;
}

/* a [T][cols] times a vector whose every value is for as many neighbouring columns as needed. */
static rf_val times(rf_plan *p, rf_val a, const rf_tensor *vector) {
    return rf_emit_mul(p, a, rf_emit_embed(p, vector, RF_EMBED_FIRST));
}

rf_val rf_emit_mamba(rf_plan *p, const rf_layer *l, rf_val h) {
    const rf_mamba *m = l->mamba;
    uint32_t inner = m->n_heads * m->value_dim;
    const rf_delta scan = {.n_heads = m->n_heads,
                           .n_kv_heads = m->n_groups,
                           .head_dim = m->state,
                           .value_dim = m->value_dim,
                           .decay = m->decay,
                           .bias = m->bias};
    rf_val z = rf_emit_matmul(p, h, m->z, NULL), dt = rf_emit_matmul(p, h, m->dt, NULL);
    rf_val xbc = rf_emit_conv(p, rf_emit_matmul(p, h, m->xbc, NULL), m->taps, m->taps_b);
    xbc = rf_emit_act(p, RF_ACT_SILU, xbc);
    rf_val x = rf_emit_slice(p, xbc, 1, 0, inner);
    rf_val y = rf_emit_add(p, rf_emit_scan(p, xbc, dt, &scan), times(p, x, m->skip));
    y = rf_emit_glu(p, RF_ACT_SILU, z, y);
    return times(p, rf_emit_rms_norm(p, y, NULL, inner / m->n_groups), m->norm);
}
