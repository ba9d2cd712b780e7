/* encoder.c - bidirectional encoders: BERT and its kin, which turn a text into vectors, not into text.
 *
 * One builder serves all of them: whatever norm a layer has is applied where it stands, so BERT (a norm
 * behind each residual sum) and ModernBERT (one before each part, windows in most layers) differ
 * in what they bind.  A plan for logits is refused: there is no language model to make them. */
#include "model/arch/arch.h"

/* ---- pooling and the heads of rerankers, for decoders too ---- */

static uint32_t rows_of(const rf_binder *b, const char *name) {
    const rf_gguf_tensor *t = rf_gguf_find_tensor(b->m->file, name);
    return t && t->ne[1] > 0 && t->ne[1] <= RF_MAX_EMBD ? (uint32_t)t->ne[1] : 1;
}

static void bind_head(rf_binder *b) {
    rf_model *m = b->m;
    if (!rf_gguf_find_tensor(m->file, "cls.output.weight") &&
        !rf_gguf_find_tensor(m->file, "cls.weight"))
        return;
    rf_head *h = &m->head;
    uint32_t n = m->n_embd, n_labels = rows_of(b, "cls.output.weight");
    h->dense = rf_bind_tensor(b, RF_MAY, n, n, "cls.weight");
    h->dense_b = rf_bind_tensor(b, RF_MAY, 1, n, "cls.bias");
    h->norm = rf_bind_tensor(b, RF_MAY, 1, n, "cls.norm.weight");
    h->out = rf_bind_tensor(b, RF_NEED, n_labels, n, "cls.output.weight");
    h->out_b = rf_bind_tensor(b, RF_MAY, 1, n_labels, "cls.output.bias");
    h->over = !m->arch->encoder ? RF_POOL_LAST : h->norm ? RF_POOL_MEAN : RF_POOL_CLS;
    h->gelu = h->norm != NULL; /* ModernBERT; BERT's dense layer ends in tanh */
    h->softmax = !m->arch->encoder;
}

void rf_bind_pooling(rf_binder *b) {
    static const rf_pooling kinds[] = {RF_POOL_NONE, RF_POOL_MEAN, RF_POOL_CLS, RF_POOL_LAST,
                                       RF_POOL_RANK};
    uint32_t kind = rf_bind_optional_u32(b, "pooling_type", RF_COUNT(kinds) - 1);
    if (b->status == RF_OK) bind_head(b);
    if (b->status != RF_OK) return;
    rf_model *m = b->m;
    m->pooling = kinds[kind];
    if (m->pooling == RF_POOL_NONE && m->head.out) m->pooling = RF_POOL_RANK;
    if (m->pooling == RF_POOL_RANK && !m->head.out)
        rf_bind_fail(b, RF_EFORMAT,
                     "%s.pooling_type asks for the scores of a classification head, but tensor "
                     "cls.output.weight is missing; convert the model again",
                     m->arch->name);
}

/* ---- what all encoders have ---- */

static rf_norm bind_norm(rf_binder *b, const char *name) {
    return (rf_norm){rf_bind_tensor(b, RF_NEED, 1, b->m->n_embd, "%s.weight", name),
                     rf_bind_tensor(b, RF_MAY, 1, b->m->n_embd, "%s.bias", name)};
}

static rf_norm bind_layer_norm(rf_binder *b, uint32_t il, const char *name) {
    return (rf_norm){rf_bind_tensor(b, RF_NEED, 1, b->m->n_embd, "blk.%u.%s.weight", il, name),
                     rf_bind_tensor(b, RF_MAY, 1, b->m->n_embd, "blk.%u.%s.bias", il, name)};
}

/* Query, key and value: three matrices, or one with the rows of all. */
static void bind_attention(rf_binder *b, uint32_t il, rf_layer *l) {
    uint32_t n = b->m->n_embd, n_q = b->m->n_heads * b->m->head_dim,
             n_kv = b->m->n_kv_heads * b->m->head_dim, n_all = n_q + 2 * n_kv;
    const rf_tensor *w = rf_bind_tensor(b, RF_MAY, n_all, n, "blk.%u.attn_qkv.weight", il);
    if (w) {
        const rf_tensor *bias = rf_bind_tensor(b, RF_MAY, 1, n_all, "blk.%u.attn_qkv.bias", il);
        l->wq = rf_bind_part(b, w, 0, n_q);
        l->wk = rf_bind_part(b, w, n_q, n_kv);
        l->wv = rf_bind_part(b, w, n_q + n_kv, n_kv);
        l->bq = rf_bind_part(b, bias, 0, n_q);
        l->bk = rf_bind_part(b, bias, n_q, n_kv);
        l->bv = rf_bind_part(b, bias, n_q + n_kv, n_kv);
    } else {
        l->wq = rf_bind_tensor(b, RF_NEED, n_q, n, "blk.%u.attn_q.weight", il);
        l->wk = rf_bind_tensor(b, RF_NEED, n_kv, n, "blk.%u.attn_k.weight", il);
        l->wv = rf_bind_tensor(b, RF_NEED, n_kv, n, "blk.%u.attn_v.weight", il);
        l->bq = rf_bind_tensor(b, RF_MAY, 1, n_q, "blk.%u.attn_q.bias", il);
        l->bk = rf_bind_tensor(b, RF_MAY, 1, n_kv, "blk.%u.attn_k.bias", il);
        l->bv = rf_bind_tensor(b, RF_MAY, 1, n_kv, "blk.%u.attn_v.bias", il);
    }
    l->wo = rf_bind_tensor(b, RF_NEED, n, n_q, "blk.%u.attn_output.weight", il);
    l->bo = rf_bind_tensor(b, RF_MAY, 1, n, "blk.%u.attn_output.bias", il);
}

/* Plain, gated, or gated with gate and up in one. */
static void bind_ffn(rf_binder *b, uint32_t il, rf_layer *l) {
    const rf_arch *arch = b->m->arch;
    uint32_t n = b->m->n_embd, n_ff = b->m->n_ff;
    if (arch->ffn_fused) {
        const rf_tensor *w = rf_bind_tensor(b, RF_NEED, 2 * n_ff, n, "blk.%u.ffn_up.weight", il);
        l->gate = rf_bind_part(b, w, 0, n_ff);
        l->up = rf_bind_part(b, w, n_ff, n_ff);
    } else {
        l->up = rf_bind_tensor(b, RF_NEED, n_ff, n, "blk.%u.ffn_up.weight", il);
        l->up_b = rf_bind_tensor(b, RF_MAY, 1, n_ff, "blk.%u.ffn_up.bias", il);
    }
    if (!arch->ffn_fused && !arch->ffn_plain)
        l->gate = rf_bind_tensor(b, RF_NEED, n_ff, n, "blk.%u.ffn_gate.weight", il);
    l->down = rf_bind_tensor(b, RF_NEED, n, n_ff, "blk.%u.ffn_down.weight", il);
    l->down_b = rf_bind_tensor(b, RF_MAY, 1, n, "blk.%u.ffn_down.bias", il);
}

/* Of so many layers the first sees everything, the others a window around each token. */
static void bind_patterns(rf_binder *b) {
    rf_model *m = b->m;
    uint32_t window = rf_bind_optional_u32(b, "attention.sliding_window", RF_MAX_CONTEXT);
    uint32_t every = 1;
    if (window > 0)
        every =
            rf_bind_u32(b, "attention.sliding_window_pattern", m->arch->window_every, UINT32_MAX);
    for (uint32_t il = 0; il < m->n_layers && b->status == RF_OK; il++) {
        rf_layer *l = &m->layers[il];
        bool local = window > 0 && il % every != 0;
        l->pattern = (rf_attn_pattern){.kind = RF_ATTN_BIDIRECTIONAL};
        if (local) l->pattern = (rf_attn_pattern){.kind = RF_ATTN_LOCAL_BOTH, .window = window};
        if (m->arch->rope != RF_ROPE_NONE)
            l->rope = local && m->arch->rope_local ? &m->rope_local : &m->rope;
    }
}

static void alloc_layers(rf_binder *b) {
    rf_model *m = b->m;
    if (b->status != RF_OK) return;
    m->layers = rf_arena_alloc(m->arena, m->n_layers, sizeof *m->layers);
    if (!m->layers) b->status = rf_fail_nomem(b->e, m->n_layers * sizeof *m->layers);
}

/* Everything but the layers' weights. */
static void bind_front(rf_binder *b) {
    rf_model *m = b->m;
    rf_bind_hyperparameters(b);
    if (rf_bind_bool(b, "attention.causal", false))
        rf_bind_fail(b, RF_EUNSUPPORTED,
                     "key %s.attention.causal is true, but this architecture sees both ways",
                     m->arch->name);
    if (b->status == RF_OK) rf_bind_vocab(b);
    if (b->status == RF_OK) rf_bind_pooling(b);
    if (m->pooling == RF_POOL_NONE) m->pooling = RF_POOL_MEAN;
    m->tok_embd = rf_bind_tensor(b, RF_NEED, m->n_vocab, m->n_embd, "token_embd.weight");
    m->embd_norm = bind_norm(b, "token_embd_norm");
    m->type_embd = rf_bind_tensor(b, RF_MAY, rows_of(b, "token_types.weight"), m->n_embd,
                                  "token_types.weight");
    if (m->arch->rope == RF_ROPE_NONE)
        m->pos_embd = rf_bind_tensor(b, RF_NEED, m->n_ctx_train, m->n_embd, "position_embd.weight");
    else if (b->status == RF_OK)
        rf_bind_rope(b);
    alloc_layers(b);
    bind_patterns(b);
}

static void bind_layer(rf_binder *b, uint32_t il, rf_layer *l) {
    bool before = b->m->arch->norm_place == RF_NORM_BEFORE;
    if (before && il > 0) l->attn_norm = bind_layer_norm(b, il, "attn_norm"); /* 0: embd_norm */
    bind_attention(b, il, l);
    if (!before) l->attn_post_norm = bind_layer_norm(b, il, "attn_output_norm");
    if (before) l->ffn_norm = bind_layer_norm(b, il, "ffn_norm");
    bind_ffn(b, il, l);
    if (!before) l->ffn_post_norm = bind_layer_norm(b, il, "layer_output_norm");
}

rf_status rf_encoder_bind(rf_model *m, rf_error *e) {
    rf_binder b;
    RF_TRY(rf_binder_open(&b, m, e));
    bind_front(&b);
    if (m->arch->norm_place == RF_NORM_BEFORE) m->out_norm = bind_norm(&b, "output_norm");
    for (uint32_t il = 0; il < m->n_layers && b.status == RF_OK; il++)
        bind_layer(&b, il, &m->layers[il]);
    return rf_binder_close(&b);
}

/* ---- the forward pass ---- */

static rf_val emit_norm(rf_plan *p, rf_val x, const rf_norm *n) {
    return n->w ? rf_emit_layer_norm(p, x, n->w, n->b, 0) : x;
}

static rf_val emit_embedding(const rf_model *m, rf_plan *p) {
    rf_val x = rf_emit_embed(p, m->tok_embd, RF_EMBED_TOKEN);
    if (m->type_embd) x = rf_emit_add(p, x, rf_emit_embed(p, m->type_embd, RF_EMBED_FIRST));
    if (m->pos_embd) x = rf_emit_add(p, x, rf_emit_embed(p, m->pos_embd, RF_EMBED_POSITION));
    return emit_norm(p, x, &m->embd_norm);
}

static rf_val emit_attention(const rf_model *m, rf_plan *p, uint32_t il, rf_val h) {
    const rf_layer *l = &m->layers[il];
    rf_val q = rf_emit_matmul(p, h, l->wq, l->bq);
    rf_val k = rf_emit_matmul(p, h, l->wk, l->bk);
    rf_val v = rf_emit_matmul(p, h, l->wv, l->bv);
    if (l->rope) {
        q = rf_emit_rope(p, q, m->n_heads, l->rope);
        k = rf_emit_rope(p, k, m->n_kv_heads, l->rope);
    }
    const rf_attn at = {.n_heads = m->n_heads,
                        .n_kv_heads = m->n_kv_heads,
                        .head_dim = m->head_dim,
                        .value_dim = m->head_dim,
                        .scale = m->attn_scale,
                        .pattern = l->pattern};
    return rf_emit_attend(p, il, q, k, v, &at);
}

static rf_val emit_ffn(const rf_model *m, rf_plan *p, const rf_layer *l, rf_val h) {
    rf_val up = rf_emit_matmul(p, h, l->up, l->up_b);
    up = l->gate ? rf_emit_glu(p, m->arch->act, rf_emit_matmul(p, h, l->gate, l->gate_b), up)
                 : rf_emit_act(p, m->arch->act, up);
    return rf_emit_matmul(p, up, l->down, l->down_b);
}

rf_status rf_encoder_build(const rf_model *m, rf_plan *p) {
    if (!p->opts.embeddings)
        return rf_fail(&p->err, RF_EUNSUPPORTED,
                       "a %s model is an encoder: it turns texts into vectors and cannot generate; "
                       "use it for embeddings",
                       m->arch->name);
    rf_val x = emit_embedding(m, p);
    for (uint32_t il = 0; il < m->n_layers; il++) {
        const rf_layer *l = &m->layers[il];
        rf_val h = emit_attention(m, p, il, emit_norm(p, x, &l->attn_norm));
        if (il + 1 == m->n_layers) { /* from here on only rows that are wanted */
            h = rf_emit_pick(p, h);
            x = rf_emit_pick(p, x);
        }
        x = rf_emit_add(p, x, rf_emit_matmul(p, h, l->wo, l->bo));
        x = emit_norm(p, x, &l->attn_post_norm);
        h = emit_ffn(m, p, l, emit_norm(p, x, &l->ffn_norm));
        x = emit_norm(p, rf_emit_add(p, x, h), &l->ffn_post_norm);
    }
    p->result = emit_norm(p, x, &m->out_norm);
    return p->err.status;
}
