/* shortconv.c - gated short convolutions, the layers of LFM2 that keep a few rows instead of all keys.
 *
 * Three projections of the input in one matrix: a gate for what goes into the convolution, one for what
 * comes out, and what is convolved.  The way out (wo) is the decoder's. */
#include "model/arch/arch.h"

void rf_bind_short_conv(rf_binder *b, uint32_t il, rf_layer *l) {
    rf_model *m = b->m;
    uint32_t n = m->n_embd, taps = rf_bind_u32(b, "shortconv.l_cache", 0, RF_MAX_TAPS);
    rf_short_conv *c = rf_arena_alloc(m->arena, 1, sizeof *c);
    if (!c) {
        b->status = rf_fail_nomem(b->e, sizeof *c);
        return;
    }
    const rf_tensor *in =
        rf_bind_tensor(b, RF_NEED, 3 * n, n, "blk.%u.shortconv.in_proj.weight", il);
    c->in_gate = rf_bind_part(b, in, 0, n);
    c->out_gate = rf_bind_part(b, in, n, n);
    c->x = rf_bind_part(b, in, 2 * n, n);
    c->taps = rf_bind_tensor(b, RF_NEED, n, taps, "blk.%u.shortconv.conv.weight", il);
    l->wo = rf_bind_tensor(b, RF_NEED, n, n, "blk.%u.shortconv.out_proj.weight", il);
    l->conv = c;
}

rf_val rf_emit_short_conv(rf_plan *p, const rf_layer *l, rf_val h) {
    const rf_short_conv *c = l->conv;
    rf_val in_gate = rf_emit_matmul(p, h, c->in_gate, NULL);
    rf_val out_gate = rf_emit_matmul(p, h, c->out_gate, NULL);
    rf_val x = rf_emit_matmul(p, h, c->x, NULL);
    x = rf_emit_conv(p, rf_emit_mul(p, in_gate, x), c->taps, NULL);
    return rf_emit_mul(p, out_gate, x);
}
