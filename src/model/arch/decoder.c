/* decoder.c - the one builder of llama, qwen2 and qwen3: pre-norm decoders with RMS norm, rotary
 * positions, grouped-query attention and a gated FFN.
 *
 * What differs (rope kind, biases, QK-norm) are traits of the row in arch.def; optional weights are
 * used where the file has them and never made up.  Weights are borrowed from the file. */
#include "model/arch/arch.h"
#include "model/bind.h"
#include "plan/plan.h"

/* The embedding's rows say how large the vocabulary is; the tokenizer must agree. */
static void bind_vocab(rf_binder *b) {
    rf_model *m = b->m;
    const rf_gguf_tensor *t = rf_gguf_find_tensor(m->file, "token_embd.weight");
    if (!t) {
        rf_bind_fail(b, RF_EFORMAT,
                     "tensor token_embd.weight is missing; a file of a vocabulary alone cannot be "
                     "run as a model");
        return;
    }
    if (t->ne[1] == 0 || t->ne[1] > RF_MAX_VOCAB) {
        rf_bind_fail(b, RF_EFORMAT, "tensor token_embd.weight has %llu rows, expected 1 to %d",
                     (unsigned long long)t->ne[1], RF_MAX_VOCAB);
        return;
    }
    m->n_vocab = (uint32_t)t->ne[1];
    const rf_gguf_kv *tokens = NULL;
    rf_status s =
        rf_gguf_get_array(m->file, "tokenizer.ggml.tokens", RF_GGUF_STRING, &tokens, b->e);
    if (s != RF_OK)
        b->status = s;
    else if (tokens && tokens->n != m->n_vocab)
        rf_bind_fail(b, RF_EFORMAT,
                     "tensor token_embd.weight has %u rows, but tokenizer.ggml.tokens has %llu "
                     "tokens; expected the same number",
                     m->n_vocab, (unsigned long long)tokens->n);
}

static void bind_heads(rf_binder *b) {
    rf_model *m = b->m;
    const char *arch = m->arch->name;
    m->n_heads = rf_bind_u32(b, "attention.head_count", 0, RF_MAX_HEADS);
    m->n_kv_heads = rf_bind_u32(b, "attention.head_count_kv", m->n_heads, RF_MAX_HEADS);
    if (b->status != RF_OK) return;
    if (m->n_heads % m->n_kv_heads != 0) {
        rf_bind_fail(b, RF_EFORMAT,
                     "%s.attention.head_count is %u and %s.attention.head_count_kv is %u; expected "
                     "a multiple of it",
                     arch, m->n_heads, arch, m->n_kv_heads);
        return;
    }
    m->head_dim = rf_bind_optional_u32(b, "attention.key_length", RF_MAX_HEAD_DIM);
    if (b->status == RF_OK && m->head_dim == 0) { /* the heads share the width evenly */
        m->head_dim = m->n_embd / m->n_heads;
        if (m->n_embd % m->n_heads != 0 || m->head_dim > RF_MAX_HEAD_DIM)
            rf_bind_fail(b, RF_EFORMAT,
                         "%s.embedding_length is %u and %s.attention.head_count is %u; without "
                         "attention.key_length expected a multiple, heads of at most %d",
                         arch, m->n_embd, arch, m->n_heads, RF_MAX_HEAD_DIM);
    }
    uint32_t value_dim = rf_bind_u32(b, "attention.value_length", m->head_dim, RF_MAX_HEAD_DIM);
    if (b->status == RF_OK && value_dim != m->head_dim)
        rf_bind_fail(
            b, RF_EUNSUPPORTED,
            "%s.attention.value_length is %u and key_length is %u; different sizes are not "
            "supported",
            arch, value_dim, m->head_dim);
}

static void bind_hyperparameters(rf_binder *b) {
    rf_model *m = b->m;
    m->n_layers = rf_bind_u32(b, "block_count", 0, RF_MAX_LAYERS);
    m->n_ctx_train = rf_bind_u32(b, "context_length", 0, RF_MAX_CONTEXT);
    m->n_embd = rf_bind_u32(b, "embedding_length", 0, RF_MAX_EMBD);
    m->n_ff = rf_bind_u32(b, "feed_forward_length", 0, RF_MAX_FF);
    m->norm_eps = rf_bind_f32(b, "attention.layer_norm_rms_epsilon", 0);
    bind_heads(b);
    uint32_t n_experts = rf_bind_optional_u32(b, "expert_count", UINT32_MAX);
    if (b->status == RF_OK && n_experts > 0)
        rf_bind_fail(b, RF_EUNSUPPORTED,
                     "%s.expert_count is %u; mixtures of experts are not supported", m->arch->name,
                     n_experts);
}

static void bind_pattern(rf_binder *b, rf_attn_pattern *out) {
    uint32_t window = rf_bind_optional_u32(b, "attention.sliding_window", RF_MAX_CONTEXT);
    bool causal = rf_bind_bool(b, "attention.causal", true);
    *out = (rf_attn_pattern){.kind = RF_ATTN_CAUSAL};
    if (window > 0) *out = (rf_attn_pattern){.kind = RF_ATTN_LOCAL, .window = window};
    if (!causal) out->kind = RF_ATTN_BIDIRECTIONAL;
    if (!causal && window > 0)
        rf_bind_fail(b, RF_EUNSUPPORTED,
                     "%s.attention.sliding_window is %u in a model that is not causal; this "
                     "combination is not supported",
                     b->m->arch->name, window);
}

static void bind_layer(rf_binder *b, uint32_t il, rf_layer *l) {
    const rf_model *m = b->m;
    uint32_t n_q = m->n_heads * m->head_dim, n_kv = m->n_kv_heads * m->head_dim;
    rf_need qkv_bias = m->arch->qkv_bias ? RF_NEED : RF_MAY;
    l->attn_norm = rf_bind_tensor(b, RF_NEED, 1, m->n_embd, "blk.%u.attn_norm.weight", il);
    l->wq = rf_bind_tensor(b, RF_NEED, n_q, m->n_embd, "blk.%u.attn_q.weight", il);
    l->wk = rf_bind_tensor(b, RF_NEED, n_kv, m->n_embd, "blk.%u.attn_k.weight", il);
    l->wv = rf_bind_tensor(b, RF_NEED, n_kv, m->n_embd, "blk.%u.attn_v.weight", il);
    l->wo = rf_bind_tensor(b, RF_NEED, m->n_embd, n_q, "blk.%u.attn_output.weight", il);
    l->bq = rf_bind_tensor(b, qkv_bias, 1, n_q, "blk.%u.attn_q.bias", il);
    l->bk = rf_bind_tensor(b, qkv_bias, 1, n_kv, "blk.%u.attn_k.bias", il);
    l->bv = rf_bind_tensor(b, qkv_bias, 1, n_kv, "blk.%u.attn_v.bias", il);
    l->bo = rf_bind_tensor(b, RF_MAY, 1, m->n_embd, "blk.%u.attn_output.bias", il);
    if (m->arch->qk_norm) {
        l->q_norm = rf_bind_tensor(b, RF_NEED, 1, m->head_dim, "blk.%u.attn_q_norm.weight", il);
        l->k_norm = rf_bind_tensor(b, RF_NEED, 1, m->head_dim, "blk.%u.attn_k_norm.weight", il);
    }
    l->ffn_norm = rf_bind_tensor(b, RF_NEED, 1, m->n_embd, "blk.%u.ffn_norm.weight", il);
    l->gate = rf_bind_tensor(b, RF_NEED, m->n_ff, m->n_embd, "blk.%u.ffn_gate.weight", il);
    l->up = rf_bind_tensor(b, RF_NEED, m->n_ff, m->n_embd, "blk.%u.ffn_up.weight", il);
    l->down = rf_bind_tensor(b, RF_NEED, m->n_embd, m->n_ff, "blk.%u.ffn_down.weight", il);
}

static void bind_weights(rf_binder *b) {
    rf_model *m = b->m;
    m->tok_embd = rf_bind_tensor(b, RF_NEED, m->n_vocab, m->n_embd, "token_embd.weight");
    m->out_norm = rf_bind_tensor(b, RF_NEED, 1, m->n_embd, "output_norm.weight");
    m->out = rf_bind_tensor(b, RF_MAY, m->n_vocab, m->n_embd, "output.weight");
    if (!m->out) m->out = m->tok_embd; /* tied */
    rf_attn_pattern pattern;
    bind_pattern(b, &pattern);
    if (b->status != RF_OK) return;
    m->layers = rf_arena_alloc(m->arena, m->n_layers, sizeof *m->layers);
    if (!m->layers) {
        b->status = rf_fail_nomem(b->e, m->n_layers * sizeof *m->layers);
        return;
    }
    for (uint32_t il = 0; il < m->n_layers && b->status == RF_OK; il++) {
        m->layers[il].pattern = pattern;
        bind_layer(b, il, &m->layers[il]);
    }
}

rf_status rf_decoder_bind(rf_model *m, rf_error *e) {
    rf_binder b;
    RF_TRY(rf_binder_open(&b, m, e));
    bind_hyperparameters(&b);
    if (b.status == RF_OK) bind_vocab(&b);
    if (b.status == RF_OK) rf_bind_rope(&b);
    if (b.status == RF_OK) bind_weights(&b);
    return rf_binder_close(&b);
}

rf_status rf_decoder_build(const rf_model *m, rf_plan *p) {
    rf_val x = rf_emit_embed(p, m->tok_embd);
    for (uint32_t il = 0; il < m->n_layers; il++) {
        const rf_layer *l = &m->layers[il];
        rf_val h = rf_emit_rms_norm(p, x, l->attn_norm, 0);
        rf_val q = rf_emit_matmul(p, h, l->wq, l->bq);
        rf_val k = rf_emit_matmul(p, h, l->wk, l->bk);
        rf_val v = rf_emit_matmul(p, h, l->wv, l->bv);
        if (l->q_norm) q = rf_emit_rms_norm(p, q, l->q_norm, m->head_dim);
        if (l->k_norm) k = rf_emit_rms_norm(p, k, l->k_norm, m->head_dim);
        q = rf_emit_rope(p, q, m->n_heads, &m->rope);
        k = rf_emit_rope(p, k, m->n_kv_heads, &m->rope);
        h = rf_emit_attend(p, il, q, k, v);
        if (il + 1 == m->n_layers) { /* from here on only rows whose logits are wanted */
            h = rf_emit_pick(p, h);
            x = rf_emit_pick(p, x);
        }
        x = rf_emit_add(p, x, rf_emit_matmul(p, h, l->wo, l->bo));
        h = rf_emit_rms_norm(p, x, l->ffn_norm, 0);
        rf_val gate = rf_emit_matmul(p, h, l->gate, NULL);
        rf_val up = rf_emit_matmul(p, h, l->up, NULL);
        h = rf_emit_silu_mul(p, gate, up);
        x = rf_emit_add(p, x, rf_emit_matmul(p, h, l->down, NULL));
    }
    x = rf_emit_rms_norm(p, x, m->out_norm, 0);
    p->logits = rf_emit_matmul(p, x, m->out, NULL);
    return p->err.status;
}
