/* hparams.c - the hyperparameters of decoders: sizes, heads, factors, and what each layer sees and
 * rotates by.
 *
 * Everything comes from the metadata, and where a file does not say, from the traits of the row in
 * arch.def.  Weights are the business of decoder.c. */
#include <math.h>
#include <stdio.h>

#include "model/arch/arch.h"

/* The embedding's rows say how large the vocabulary is; the tokenizer must agree. */
void rf_bind_vocab(rf_binder *b) {
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

/* Columns of the FFN; where layers have one part, a layer with any is one. */
static uint32_t bind_ff(rf_binder *b) {
    rf_model *m = b->m;
    uint32_t n_ff_expert = rf_bind_optional_u32(b, "expert_feed_forward_length", RF_MAX_FF);
    uint32_t n[RF_MAX_LAYERS] = {0}, most = 0;
    if (!m->arch->one_part || !rf_bind_layers_u32(b, "feed_forward_length", RF_MAX_FF, n))
        return rf_bind_u32(b, "feed_forward_length", n_ff_expert, RF_MAX_FF);
    for (uint32_t il = 0; il < m->n_layers && b->status == RF_OK; il++) {
        b->is_ffn[il] = n[il] > 0;
        if (n[il] && most && n[il] != most)
            rf_bind_fail(b, RF_EUNSUPPORTED,
                         "key %s.feed_forward_length is %u in layer %u and %u before; layers of "
                         "different shape are not supported",
                         m->arch->name, n[il], il, most);
        most = n[il] ? n[il] : most;
    }
    return most;
}

/* KV heads of the layers that attend, which are those that have any; the others keep a state. */
static uint32_t bind_kv_heads(rf_binder *b) {
    rf_model *m = b->m;
    uint32_t heads[RF_MAX_LAYERS] = {0}, most = 0;
    if (!m->arch->short_conv && !m->arch->mamba)
        return rf_bind_u32(b, "attention.head_count_kv", m->n_heads, RF_MAX_HEADS);
    if (!rf_bind_layers_u32(b, "attention.head_count_kv", RF_MAX_HEADS, heads))
        rf_bind_fail(b, RF_EFORMAT,
                     "key %s.attention.head_count_kv is missing; expected one value for each of %u "
                     "layers, 0 for those that do not attend",
                     m->arch->name, m->n_layers);
    for (uint32_t il = 0; il < m->n_layers && b->status == RF_OK; il++) {
        b->keeps_state[il] = heads[il] == 0 && !b->is_ffn[il];
        if (heads[il] && b->is_ffn[il])
            rf_bind_fail(b, RF_EUNSUPPORTED,
                         "%s: layer %u has attention.head_count_kv %u and a feed_forward_length; "
                         "layers of both are not supported",
                         m->arch->name, il, heads[il]);
        m->recurrent = m->recurrent || b->keeps_state[il];
        if (heads[il] && most && heads[il] != most)
            rf_bind_fail(
                b, RF_EUNSUPPORTED,
                "key %s.attention.head_count_kv is %u in layer %u and %u before; layers of "
                "different shape are not supported",
                m->arch->name, heads[il], il, most);
        most = heads[il] ? heads[il] : most;
    }
    return most ? most : m->n_heads;
}

static void bind_heads(rf_binder *b) {
    rf_model *m = b->m;
    const char *arch = m->arch->name;
    m->n_heads = rf_bind_u32(b, "attention.head_count", 0, RF_MAX_HEADS);
    m->n_kv_heads = bind_kv_heads(b);
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

/* Factors that a file or the architecture may ask for; 1 is none, for soft-caps 0. */
static void bind_factors(rf_binder *b) {
    rf_model *m = b->m;
    const rf_arch *arch = m->arch;
    m->embd_scale = rf_bind_f32(b, "embedding_scale", 1);
    if (arch->embd_scale_root) m->embd_scale *= sqrtf((float)m->n_embd);
    m->residual_scale = rf_bind_f32(b, "residual_scale", 1);
    m->logit_scale = 1;
    if (arch->logit_scale != RF_LOGITS_UNSCALED) m->logit_scale = rf_bind_f32(b, "logit_scale", 0);
    if (arch->logit_scale == RF_LOGITS_OVER) m->logit_scale = 1 / m->logit_scale;
    if (b->status == RF_OK && !(isfinite(m->embd_scale) && isfinite(m->logit_scale)))
        rf_bind_fail(b, RF_EFORMAT,
                     "embeddings are scaled by %g and logits by %g; expected numbers of a sensible "
                     "size from keys %s.embedding_scale and %s.logit_scale",
                     (double)m->embd_scale, (double)m->logit_scale, arch->name, arch->name);
    const char *attn_softcap = "attn_logit_softcapping", *softcap = "final_logit_softcapping";
    bool needed = arch->softcaps_needed;
    m->attn_softcap =
        needed ? rf_bind_f32(b, attn_softcap, 0) : rf_bind_optional_f32(b, attn_softcap);
    m->logit_softcap = needed ? rf_bind_f32(b, softcap, 0) : rf_bind_optional_f32(b, softcap);
}

static void bind_attn_scale(rf_binder *b) {
    rf_model *m = b->m;
    float scale = rf_bind_optional_f32(b, "attention.scale");
    if (b->status != RF_OK || m->arch->latent) return; /* there it follows from more than a size */
    uint32_t n = m->n_layers == m->arch->attn_scale_wide ? m->n_embd / m->n_heads : m->head_dim;
    m->attn_scale = scale > 0 ? scale : (float)(1 / sqrt((double)n));
}

/* Keys that change what a model computes, in ways that no builder here has. */
static void refuse_unsupported(rf_binder *b) {
    static const struct {
        const char *key, *what;
    } table[] = {
        {"attention.max_alibi_bias", "positions as a bias of scores (ALiBi)"},
        {"attention.clamp_kqv", "clamped queries, keys and values"},
        {"attention.temperature_scale", "scores scaled by position"},
        {"activation_sparsity_scale", "sparse activations"},
        {"router_logit_softcapping", "soft-capped routing"},
    };
    for (size_t i = 0; i < RF_COUNT(table); i++) {
        float v = rf_bind_any_f32(b, table[i].key, 0);
        if (b->status == RF_OK && v != 0)
            rf_bind_fail(b, RF_EUNSUPPORTED, "key %s.%s is %g: %s are not supported",
                         b->m->arch->name, table[i].key, (double)v, table[i].what);
    }
    if (rf_bind_bool(b, "swin_norm", false))
        rf_bind_fail(b, RF_EUNSUPPORTED, "key %s.swin_norm is true; only false is supported",
                     b->m->arch->name);
}

void rf_bind_hyperparameters(rf_binder *b) {
    rf_model *m = b->m;
    refuse_unsupported(b);
    const rf_arch *arch = m->arch;
    m->n_layers = rf_bind_u32(b, "block_count", 0, RF_MAX_LAYERS);
    rf_bind_mtp(b);
    m->n_ctx_train = rf_bind_u32(b, "context_length", 0, RF_MAX_CONTEXT);
    m->n_embd = rf_bind_u32(b, "embedding_length", 0, RF_MAX_EMBD);
    m->n_ff = bind_ff(b);
    const char *eps = "attention.layer_norm_epsilon";
    if (arch->norm == RF_NORM_LAYER)
        m->norm_eps = rf_bind_f32(b, eps, 0);
    else /* files of layers of one part name it like that of layer norms */
        m->norm_eps = rf_bind_f32(b, "attention.layer_norm_rms_epsilon",
                                  arch->one_part ? rf_bind_optional_f32(b, eps) : 0);
    m->parallel = rf_bind_bool(b, "use_parallel_residual", arch->parallel);
    if (arch->latent)
        rf_bind_latent(b);
    else
        bind_heads(b);
    if (arch->delta_net) rf_bind_recurrent_layers(b);
    bind_factors(b);
    bind_attn_scale(b);
    rf_bind_experts(b);
}

/* ---- what each layer sees, and by what it rotates ---- */

/* Which layers have the window: one bool each, or the period of those that have none. */
typedef struct windows {
    uint32_t width; /* 0: none */
    uint32_t every; /* of so many layers the last has none; 0: all have it */
    const rf_gguf_kv *per_layer;
    bool rotates; /* false: no layer does */
} windows;

static windows bind_windows(rf_binder *b) {
    windows w = {.every = b->m->arch->window_every, .rotates = true};
    if (b->m->arch->rope_may) w.rotates = rf_bind_bool(b, "rope.scaling.finetuned", false);
    w.width = b->m->arch->window_needed
                  ? rf_bind_u32(b, "attention.sliding_window", 0, RF_MAX_CONTEXT)
                  : rf_bind_optional_u32(b, "attention.sliding_window", RF_MAX_CONTEXT);
    if (b->status != RF_OK || w.width == 0) return w;
    char key[128];
    int n = snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", b->m->arch->name);
    RF_ASSERT(n > 0 && (size_t)n < sizeof key);
    const rf_gguf_kv *kv = rf_gguf_find(b->m->file, key);
    if (!kv || kv->type != RF_GGUF_ARRAY) {
        w.every = rf_bind_u32(b, "attention.sliding_window_pattern", w.every ? w.every : UINT32_MAX,
                              UINT32_MAX);
        return w;
    }
    if (kv->elem_type != RF_GGUF_BOOL || kv->n < b->m->n_layers)
        rf_bind_fail(b, RF_EFORMAT,
                     "key %s has %llu values, expected a period, or true or false for each of %u "
                     "layers",
                     key, (unsigned long long)kv->n, b->m->n_layers);
    w.per_layer = kv;
    return w;
}

static bool has_window(const windows *w, uint32_t il) {
    if (w->width == 0) return false;
    if (w->per_layer) return rf_gguf_elem_u64(w->per_layer, il) != 0;
    return w->every == 0 || (il + 1) % w->every != 0;
}

static const rf_rope *rope_of_layer(const rf_model *m, const windows *w, uint32_t il) {
    const rf_arch *arch = m->arch;
    if (arch->rope == RF_ROPE_NONE || !w->rotates) return NULL;
    if (arch->rope_not_every && (il + 1) % arch->rope_not_every == 0) return NULL;
    if (arch->rope_in_window && w->width > 0 && !has_window(w, il)) return NULL;
    return arch->rope_local && has_window(w, il) ? &m->rope_local : &m->rope;
}

void rf_bind_patterns(rf_binder *b) {
    rf_model *m = b->m;
    windows w = bind_windows(b);
    bool causal = rf_bind_bool(b, "attention.causal", true);
    m->prefix = rf_bind_bool(b, "attention.prefix", false);
    if (b->status != RF_OK) return;
    if ((!causal || m->prefix) && w.width > 0) {
        rf_bind_fail(b, RF_EUNSUPPORTED,
                     "%s.attention.sliding_window is %u in a model that is not causal; this "
                     "combination is not supported",
                     m->arch->name, w.width);
        return;
    }
    if (!causal && m->prefix) {
        rf_bind_fail(
            b, RF_EFORMAT,
            "key %s.attention.prefix is true, expected false: attention.causal is false, so "
            "everything sees everything",
            m->arch->name);
        return;
    }
    if (m->recurrent && (!causal || m->prefix)) {
        rf_bind_fail(b, RF_EUNSUPPORTED,
                     "%s.attention.causal is %s and %s.attention.prefix %s in a model with layers "
                     "that keep a state; expected true and false: a state sees no later tokens",
                     m->arch->name, causal ? "true" : "false", m->arch->name,
                     m->prefix ? "true" : "false");
        return;
    }
    for (uint32_t il = 0; il < m->n_layers; il++) {
        rf_layer *l = &m->layers[il];
        l->rope = rope_of_layer(m, &w, il);
        l->pattern.kind = m->prefix ? RF_ATTN_PREFIX
                          : causal  ? RF_ATTN_CAUSAL
                                    : RF_ATTN_BIDIRECTIONAL;
        if (has_window(&w, il))
            l->pattern = (rf_attn_pattern){.kind = RF_ATTN_LOCAL, .window = w.width};
    }
}

rf_matrix_heads rf_bind_matrix_heads(rf_binder *b) {
    const char *arch = b->m->arch->name;
    rf_matrix_heads h = {.n_groups = rf_bind_u32(b, "ssm.group_count", 0, RF_MAX_HEADS),
                         .n_heads = rf_bind_u32(b, "ssm.time_step_rank", 0, RF_MAX_HEADS),
                         .rows = rf_bind_u32(b, "ssm.state_size", 0, RF_MAX_HEAD_DIM)};
    uint32_t inner = rf_bind_u32(b, "ssm.inner_size", 0, RF_MAX_HEADS * RF_MAX_HEAD_DIM);
    if (b->status != RF_OK) return h;
    h.columns = inner / h.n_heads;
    if (h.n_heads % h.n_groups != 0)
        rf_bind_fail(
            b, RF_EFORMAT,
            "%s.ssm.time_step_rank is %u and %s.ssm.group_count is %u; expected a multiple "
            "of it",
            arch, h.n_heads, arch, h.n_groups);
    else if (inner % h.n_heads != 0 || h.columns > RF_MAX_HEAD_DIM)
        rf_bind_fail(
            b, RF_EFORMAT,
            "%s.ssm.inner_size is %u and %s.ssm.time_step_rank is %u; expected a multiple, "
            "heads of at most %d",
            arch, inner, arch, h.n_heads, RF_MAX_HEAD_DIM);
    return h;
}
