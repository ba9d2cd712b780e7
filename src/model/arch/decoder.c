/* decoder.c - the one builder of all decoders: norms, attention, FFN, residual sums.
 *
 * What differs (kinds and places of norms, activation, parallel residual, fused matrices, windows,
 * rope per layer, experts, latent attention) are traits of the row in arch.def or weights that a
 * file has or has not; nothing is made up.  Weights are borrowed from the file. */
#include <stdio.h>

#include "model/arch/arch.h"

/* ---- weights ---- */

/* The norm called prefix.weight, with its bias where the file has one. */
static rf_norm bind_norm(rf_binder *b, uint32_t cols, const char *prefix) {
    if (b->m->arch->norm_bare) return (rf_norm){0};
    return (rf_norm){rf_bind_tensor(b, RF_NEED, 1, cols, "%s.weight", prefix),
                     b->m->arch->norm == RF_NORM_LAYER
                         ? rf_bind_tensor(b, RF_MAY, 1, cols, "%s.bias", prefix)
                         : NULL};
}

static rf_norm bind_layer_norm(rf_binder *b, uint32_t il, uint32_t cols, const char *name) {
    char prefix[64];
    int n = snprintf(prefix, sizeof prefix, "blk.%u.%s", il, name);
    RF_ASSERT(n > 0 && (size_t)n < sizeof prefix);
    return bind_norm(b, cols, prefix);
}

static bool has_layer_tensor(const rf_binder *b, uint32_t il, const char *name) {
    char full[64];
    int n = snprintf(full, sizeof full, "blk.%u.%s.weight", il, name);
    RF_ASSERT(n > 0 && (size_t)n < sizeof full);
    return rf_gguf_find_tensor(b->m->file, full) != NULL;
}

/* Query, key and value as one matrix, or false where the file has three. */
static bool bind_fused_qkv(rf_binder *b, uint32_t il, rf_layer *l, uint32_t n_q, uint32_t n_kv) {
    uint32_t n = n_q + 2 * n_kv;
    const rf_tensor *w = rf_bind_tensor(b, RF_MAY, n, b->m->n_embd, "blk.%u.attn_qkv.weight", il);
    if (!w) return false;
    rf_need need = b->m->arch->qkv_bias ? RF_NEED : RF_MAY;
    const rf_tensor *bias = rf_bind_tensor(b, need, 1, n, "blk.%u.attn_qkv.bias", il);
    l->wq = rf_bind_part(b, w, 0, n_q);
    l->wk = rf_bind_part(b, w, n_q, n_kv);
    l->wv = rf_bind_part(b, w, n_q + n_kv, n_kv);
    l->bq = rf_bind_part(b, bias, 0, n_q);
    l->bk = rf_bind_part(b, bias, n_q, n_kv);
    l->bv = rf_bind_part(b, bias, n_q + n_kv, n_kv);
    return true;
}

static void bind_qkv(rf_binder *b, uint32_t il, rf_layer *l, uint32_t n_q, uint32_t n_kv) {
    uint32_t n_embd = b->m->n_embd;
    rf_need need = b->m->arch->qkv_bias ? RF_NEED : RF_MAY;
    uint32_t n_wq = b->m->arch->attn_gate ? 2 * n_q : n_q;
    l->wq = rf_bind_tensor(b, RF_NEED, n_wq, n_embd, "blk.%u.attn_q.weight", il);
    l->wk = rf_bind_tensor(b, RF_NEED, n_kv, n_embd, "blk.%u.attn_k.weight", il);
    l->wv = rf_bind_tensor(b, RF_NEED, n_kv, n_embd, "blk.%u.attn_v.weight", il);
    l->bq = rf_bind_tensor(b, need, 1, n_q, "blk.%u.attn_q.bias", il);
    l->bk = rf_bind_tensor(b, need, 1, n_kv, "blk.%u.attn_k.bias", il);
    l->bv = rf_bind_tensor(b, need, 1, n_kv, "blk.%u.attn_v.bias", il);
}

static void bind_attention(rf_binder *b, uint32_t il, rf_layer *l) {
    const rf_model *m = b->m;
    uint32_t n_q = m->n_heads * m->head_dim, n_kv = m->n_kv_heads * m->head_dim;
    if (!bind_fused_qkv(b, il, l, n_q, n_kv)) bind_qkv(b, il, l, n_q, n_kv);
    l->wo = rf_bind_tensor(b, RF_NEED, m->n_embd, n_q, "blk.%u.attn_output.weight", il);
    l->bo = rf_bind_tensor(b, RF_MAY, 1, m->n_embd, "blk.%u.attn_output.bias", il);
    l->sinks = rf_bind_tensor(b, RF_MAY, 1, m->n_heads, "blk.%u.attn_sinks.weight", il);
    rf_qk_norm kind = m->arch->qk_norm;
    if (kind == RF_QK_NORM_NONE) return;
    if (m->arch->qk_norm_may && !has_layer_tensor(b, il, "attn_q_norm")) return;
    bool row = kind == RF_QK_NORM_ROW;
    l->q_norm = bind_layer_norm(b, il, row ? n_q : m->head_dim, "attn_q_norm");
    l->k_norm = bind_layer_norm(b, il, row ? n_kv : m->head_dim, "attn_k_norm");
}

static void bind_ffn(rf_binder *b, uint32_t il, rf_layer *l) {
    const rf_model *m = b->m;
    uint32_t n_ff = m->n_ff, n_embd = m->n_embd;
    uint32_t n_up = m->arch->ffn_fused ? 2 * n_ff : n_ff;
    if (!m->arch->ffn_plain && !m->arch->ffn_fused) {
        l->gate = rf_bind_tensor(b, RF_NEED, n_ff, n_embd, "blk.%u.ffn_gate.weight", il);
        l->gate_b = rf_bind_tensor(b, RF_MAY, 1, n_ff, "blk.%u.ffn_gate.bias", il);
    }
    l->up = rf_bind_tensor(b, RF_NEED, n_up, n_embd, "blk.%u.ffn_up.weight", il);
    l->up_b = rf_bind_tensor(b, RF_MAY, 1, n_up, "blk.%u.ffn_up.bias", il);
    if (m->arch->ffn_fused) {
        const rf_tensor *w = l->up, *bias = l->up_b;
        l->gate = rf_bind_part(b, w, 0, n_ff);
        l->gate_b = rf_bind_part(b, bias, 0, n_ff);
        l->up = rf_bind_part(b, w, n_ff, n_ff);
        l->up_b = rf_bind_part(b, bias, n_ff, n_ff);
    }
    l->down = rf_bind_tensor(b, RF_NEED, n_embd, n_ff, "blk.%u.ffn_down.weight", il);
    l->down_b = rf_bind_tensor(b, RF_MAY, 1, n_embd, "blk.%u.ffn_down.bias", il);
}

/* In a parallel layer the FFN reads what attention reads, unless it has a norm of its own.  A second
 * norm of attention (attn_norm_2) leaves the first one to the FFN. */
static void bind_norms(rf_binder *b, uint32_t il, rf_layer *l) {
    const rf_arch *arch = b->m->arch;
    uint32_t n = b->m->n_embd;
    const char *ffn_norm = arch->ffn_norm ? arch->ffn_norm : "ffn_norm";
    if (arch->norm_place != RF_NORM_AFTER) {
        l->attn_norm = bind_layer_norm(b, il, n, "attn_norm");
        if (has_layer_tensor(b, il, "attn_norm_2") && b->m->parallel) {
            l->ffn_norm = l->attn_norm;
            l->attn_norm = bind_layer_norm(b, il, n, "attn_norm_2");
        } else if (!b->m->parallel || has_layer_tensor(b, il, ffn_norm)) {
            l->ffn_norm = bind_layer_norm(b, il, n, ffn_norm);
        }
    }
    if (arch->norm_place != RF_NORM_BEFORE) {
        l->attn_post_norm = bind_layer_norm(b, il, n, "post_attention_norm");
        l->ffn_post_norm = bind_layer_norm(b, il, n, "post_ffw_norm");
    }
}

/* What stands in the place of attention. */
static void bind_recurrent(rf_binder *b, uint32_t il, rf_layer *l) {
    if (b->m->arch->delta_net)
        rf_bind_delta_net(b, il, l);
    else if (b->m->arch->mamba)
        rf_bind_mamba(b, il, l);
    else
        rf_bind_short_conv(b, il, l);
}

static void bind_layer(rf_binder *b, uint32_t il, rf_layer *l) {
    if (b->m->arch->one_part)
        l->attn_norm = bind_layer_norm(b, il, b->m->n_embd, "attn_norm");
    else
        bind_norms(b, il, l);
    if (b->is_ffn[il]) {
        bind_ffn(b, il, l);
        return;
    }
    if (b->keeps_state[il])
        bind_recurrent(b, il, l);
    else if (b->m->arch->latent)
        rf_bind_mla(b, il, l);
    else
        bind_attention(b, il, l);
    if (!b->m->arch->one_part && !rf_bind_moe(b, il, l)) bind_ffn(b, il, l);
}

static void bind_weights(rf_binder *b) {
    rf_model *m = b->m;
    m->tok_embd = rf_bind_tensor(b, RF_NEED, m->n_vocab, m->n_embd, "token_embd.weight");
    if (m->arch->rope == RF_ROPE_NONE)
        m->pos_embd = rf_bind_tensor(b, RF_NEED, m->n_ctx_train, m->n_embd, "position_embd.weight");
    m->out_norm = bind_norm(b, m->n_embd, m->arch->out_norm ? m->arch->out_norm : "output_norm");
    m->out = rf_bind_tensor(b, RF_MAY, m->n_vocab, m->n_embd, "output.weight");
    m->out_b = rf_bind_tensor(b, RF_MAY, 1, m->n_vocab, "output.bias");
    if (!m->out) m->out = m->tok_embd; /* tied */
    if (b->status != RF_OK) return;
    m->layers = rf_arena_alloc(m->arena, m->n_layers, sizeof *m->layers);
    if (!m->layers) {
        b->status = rf_fail_nomem(b->e, m->n_layers * sizeof *m->layers);
        return;
    }
    rf_bind_patterns(b);
    for (uint32_t il = 0; il < m->n_layers && b->status == RF_OK; il++)
        bind_layer(b, il, &m->layers[il]);
}

rf_status rf_decoder_bind(rf_model *m, rf_error *e) {
    rf_binder b;
    RF_TRY(rf_binder_open(&b, m, e));
    rf_bind_hyperparameters(&b);
    if (b.status == RF_OK) rf_bind_vocab(&b);
    if (b.status == RF_OK && m->arch->rope != RF_ROPE_NONE) rf_bind_rope(&b);
    if (b.status == RF_OK) rf_bind_pooling(&b);
    if (b.status == RF_OK) bind_weights(&b);
    return rf_binder_close(&b);
}

/* ---- the forward pass ---- */

/* head_dim 0: the whole row. */
static rf_val emit_norm(rf_plan *p, rf_val x, const rf_norm *n, uint32_t head_dim) {
    return p->model->arch->norm == RF_NORM_RMS ? rf_emit_rms_norm(p, x, n->w, head_dim)
                                               : rf_emit_layer_norm(p, x, n->w, n->b, head_dim);
}

static const rf_rope *rope_of(const rf_plan *p, const rf_layer *l) {
    const rf_model *m = p->model;
    uint32_t n_ctx = p->opts.n_ctx ? p->opts.n_ctx : m->n_ctx_train;
    bool is_long = l->rope == &m->rope && m->n_ctx_short > 0 && n_ctx > m->n_ctx_short;
    return is_long ? &m->rope_long : l->rope;
}

static rf_val emit_qk(rf_plan *p, const rf_layer *l, rf_val x, const rf_norm *norm,
                      uint32_t n_heads) {
    const rf_model *m = p->model;
    rf_qk_norm kind = norm->w ? m->arch->qk_norm : RF_QK_NORM_NONE;
    if (kind == RF_QK_NORM_HEAD) x = emit_norm(p, x, norm, m->head_dim);
    if (kind == RF_QK_NORM_ROW) x = emit_norm(p, x, norm, 0);
    if (l->rope) x = rf_emit_rope(p, x, n_heads, rope_of(p, l));
    if (kind == RF_QK_NORM_HEAD_AFTER_ROPE) x = emit_norm(p, x, norm, m->head_dim);
    return x;
}

/* h [T][n_embd] -> [T][columns of wo], what wo reads. */
static rf_val emit_attention(rf_plan *p, uint32_t il, rf_val h) {
    const rf_model *m = p->model;
    const rf_layer *l = &m->layers[il];
    if (l->mla) return rf_emit_mla(p, il, l, h);
    if (l->conv) return rf_emit_short_conv(p, l, h);
    if (l->delta) return rf_emit_delta_net(p, l, h);
    if (l->mamba) return rf_emit_mamba(p, l, h);
    rf_val q = rf_emit_matmul(p, h, l->wq, l->bq);
    rf_val k = rf_emit_matmul(p, h, l->wk, l->bk);
    rf_val v = rf_emit_matmul(p, h, l->wv, l->bv);
    rf_val gate = 0;
    if (m->arch->attn_gate) {
        gate = rf_emit_slice(p, q, m->n_heads, m->head_dim, m->head_dim);
        q = rf_emit_slice(p, q, m->n_heads, 0, m->head_dim);
    }
    q = emit_qk(p, l, q, &l->q_norm, m->n_heads);
    k = emit_qk(p, l, k, &l->k_norm, m->n_kv_heads);
    rf_attn at = {.n_heads = m->n_heads,
                  .n_kv_heads = m->n_kv_heads,
                  .head_dim = m->head_dim,
                  .value_dim = m->head_dim,
                  .scale = m->attn_scale,
                  .softcap = m->attn_softcap,
                  .pattern = l->pattern,
                  .sinks = l->sinks};
    rf_val y = rf_emit_attend(p, il, q, k, v, &at);
    return gate ? rf_emit_glu(p, RF_ACT_SIGMOID, gate, y) : y;
}

static rf_val emit_ffn(rf_plan *p, const rf_layer *l, rf_val h) {
    if (l->moe) return rf_emit_moe_ffn(p, l, h);
    rf_act act = p->model->arch->act;
    rf_val gate = l->gate ? rf_emit_matmul(p, h, l->gate, l->gate_b) : 0;
    rf_val up = rf_emit_matmul(p, h, l->up, l->up_b);
    h = l->gate ? rf_emit_glu(p, act, gate, up) : rf_emit_act(p, act, up);
    return rf_emit_matmul(p, h, l->down, l->down_b);
}

/* x + what a part of a layer made of it, normed and scaled as the architecture has it. */
static rf_val emit_residual(rf_plan *p, rf_val x, rf_val part, const rf_norm *post) {
    if (p->model->arch->norm_place != RF_NORM_BEFORE) part = emit_norm(p, part, post, 0);
    return rf_emit_add(p, x, rf_emit_scale(p, part, p->model->residual_scale));
}

/* A layer that is an FFN or what stands for attention, and not both. */
static rf_val emit_part(rf_plan *p, uint32_t il, rf_val x) {
    const rf_layer *l = &p->model->layers[il];
    bool is_last = il + 1 == p->model->n_layers;
    if (!l->wo) {
        if (is_last) x = rf_emit_pick(p, x);
        return rf_emit_add(p, x, emit_ffn(p, l, emit_norm(p, x, &l->attn_norm, 0)));
    }
    rf_val a = emit_attention(p, il, emit_norm(p, x, &l->attn_norm, 0));
    if (is_last) {
        a = rf_emit_pick(p, a);
        x = rf_emit_pick(p, x);
    }
    return rf_emit_add(p, x, rf_emit_matmul(p, a, l->wo, l->bo));
}

static rf_val emit_layer(rf_plan *p, uint32_t il, rf_val x) {
    const rf_model *m = p->model;
    const rf_layer *l = &m->layers[il];
    bool before = m->arch->norm_place != RF_NORM_AFTER;
    rf_val in = before ? emit_norm(p, x, &l->attn_norm, 0) : x;
    rf_val a = emit_attention(p, il, in);
    if (il + 1 == m->n_layers) { /* from here on only rows whose logits are wanted */
        a = rf_emit_pick(p, a);
        x = rf_emit_pick(p, x);
        if (m->parallel && !l->ffn_norm.w) in = rf_emit_pick(p, in);
    }
    rf_val y = emit_residual(p, x, rf_emit_matmul(p, a, l->wo, l->bo), &l->attn_post_norm);
    if (!m->parallel)
        in = before ? emit_norm(p, y, &l->ffn_norm, 0) : y;
    else if (l->ffn_norm.w)
        in = emit_norm(p, x, &l->ffn_norm, 0);
    return emit_residual(p, y, emit_ffn(p, l, in), &l->ffn_post_norm);
}

static rf_val emit_embedding(const rf_model *m, rf_plan *p) {
    rf_val x = rf_emit_embed(p, m->tok_embd, RF_EMBED_TOKEN);
    x = rf_emit_scale(p, x, m->embd_scale);
    if (m->pos_embd) x = rf_emit_add(p, x, rf_emit_embed(p, m->pos_embd, RF_EMBED_POSITION));
    return x;
}

rf_status rf_decoder_build(const rf_model *m, rf_plan *p) {
    rf_val x = p->first_layer ? rf_emit_rows(p) : emit_embedding(m, p);
    for (uint32_t il = p->first_layer; il < p->end_layer; il++)
        x = m->arch->one_part ? emit_part(p, il, x) : emit_layer(p, il, x);
    if (p->end_layer < m->n_layers) {
        p->result = rf_emit_pick(p, x);
        return p->err.status;
    }
    x = emit_norm(p, x, &m->out_norm, 0);
    if (!p->opts.embeddings) {
        x = rf_emit_matmul(p, x, m->out, m->out_b);
        x = rf_emit_scale(p, x, m->logit_scale);
        x = rf_emit_softcap(p, x, m->logit_softcap);
    }
    p->result = x;
    return p->err.status;
}
