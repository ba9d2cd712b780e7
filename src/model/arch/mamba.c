/* mamba.c - Mamba-2 mixers, the layers of Granite 4.0-H and Nemotron-H that keep a matrix per head.
 *
 * One matrix gives a gate z, what goes through a short convolution and SiLU (x of each head, B and C of
 * each group of heads), and a time step per head.  The scan's heads, with a share of x added, are gated
 * and normed.  The way out (wo) is the decoder's. */
#include "model/arch/arch.h"

static void bind_sizes(rf_binder *b, rf_mamba *m) {
    const char *arch = b->m->arch->name;
    m->n_groups = rf_bind_u32(b, "ssm.group_count", 0, RF_MAX_HEADS);
    m->n_heads = rf_bind_u32(b, "ssm.time_step_rank", 0, RF_MAX_HEADS);
    m->state = rf_bind_u32(b, "ssm.state_size", 0, RF_MAX_HEAD_DIM);
    uint32_t inner = rf_bind_u32(b, "ssm.inner_size", 0, RF_MAX_HEADS * RF_MAX_HEAD_DIM);
    if (b->status != RF_OK) return;
    m->value_dim = inner / m->n_heads;
    if (m->n_heads % m->n_groups != 0)
        rf_bind_fail(
            b, RF_EFORMAT,
            "%s.ssm.time_step_rank is %u and %s.ssm.group_count is %u; expected a multiple "
            "of it",
            arch, m->n_heads, arch, m->n_groups);
    else if (inner % m->n_heads != 0 || m->value_dim > RF_MAX_HEAD_DIM)
        rf_bind_fail(
            b, RF_EFORMAT,
            "%s.ssm.inner_size is %u and %s.ssm.time_step_rank is %u; expected a multiple, "
            "heads of at most %d",
            arch, inner, arch, m->n_heads, RF_MAX_HEAD_DIM);
}

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
    bind_sizes(b, m);
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
