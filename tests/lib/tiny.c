/* tiny.c - see tiny.h. */
#include "lib/tiny.h"

#include <math.h>

enum { N_VOCAB = 32, N_FF = 24, MAX_LAYERS = 8, TENSORS_PER_LAYER = 9 };

/* A tensor of noise around mean, scaled so that activations keep their size. */
static const rf_tensor *noise(rf_test_tiny *t, const char *name, uint32_t rows, uint32_t cols,
                              float mean) {
    float *v = t->values + t->n_values;
    float width = rows == 1 ? 0.3F : 1.7F / sqrtf((float)cols);
    for (size_t i = 0; i < (size_t)rows * cols; i++)
        v[i] = mean + width * rf_test_randf(&t->seed);
    t->n_values += (size_t)rows * cols;
    rf_tensor *w = &t->table[t->n_tensors++];
    *w = (rf_tensor){.name = rf_str_of(name),
                     .type = RF_DT_F32,
                     .cols = cols,
                     .rows = rows,
                     .planes = 1,
                     .row_bytes = cols * sizeof(float),
                     .data = v};
    return w;
}

static void make_layer(rf_test_tiny *t, rf_layer *l) {
    uint32_t n = t->m.n_embd, n_kv = t->m.n_kv_heads * t->m.head_dim;
    l->attn_norm.w = noise(t, "attn_norm", 1, n, 1);
    l->wq = noise(t, "attn_q", n, n, 0);
    l->wk = noise(t, "attn_k", n_kv, n, 0);
    l->wv = noise(t, "attn_v", n_kv, n, 0);
    l->wo = noise(t, "attn_output", n, n, 0);
    l->ffn_norm.w = noise(t, "ffn_norm", 1, n, 1);
    l->gate = noise(t, "ffn_gate", N_FF, n, 0);
    l->up = noise(t, "ffn_up", N_FF, n, 0);
    l->down = noise(t, "ffn_down", n, N_FF, 0);
}

void rf_test_tiny_make(rf_test_tiny *t, uint32_t n_layers, uint32_t n_heads, uint32_t n_kv_heads,
                       uint32_t head_dim) {
    assert_true(n_layers <= MAX_LAYERS);
    *t = (rf_test_tiny){.seed = 7};
    uint32_t n = n_heads * head_dim;
    size_t per_layer = 2 * n + 4 * (size_t)n * n + 3 * (size_t)n * N_FF;
    t->values = rf_alloc(n_layers * per_layer + 2 * (size_t)n * N_VOCAB + n, sizeof(float));
    t->table = rf_alloc((size_t)n_layers * TENSORS_PER_LAYER + 3, sizeof *t->table);
    rf_layer *layers = rf_alloc(n_layers, sizeof *layers);
    double *inv_freq = rf_alloc(head_dim / 2, sizeof *inv_freq);
    assert_true(t->values && t->table && layers && inv_freq);
    for (uint32_t i = 0; i < head_dim / 2; i++)
        inv_freq[i] = pow(10000, -2.0 * i / head_dim);
    t->m = (rf_model){.arch = rf_arch_at(0),
                      .n_layers = n_layers,
                      .n_embd = n,
                      .n_heads = n_heads,
                      .n_kv_heads = n_kv_heads,
                      .head_dim = head_dim,
                      .n_ff = N_FF,
                      .n_vocab = N_VOCAB,
                      .n_ctx_train = 512,
                      .norm_eps = 1e-5F,
                      .embd_scale = 1,
                      .residual_scale = 1,
                      .logit_scale = 1,
                      .attn_scale = (float)(1 / sqrt((double)head_dim)),
                      .rope = {RF_ROPE_NORM, head_dim, inv_freq, 1},
                      .layers = layers};
    t->m.tok_embd = noise(t, "token_embd", N_VOCAB, n, 0);
    t->m.out_norm.w = noise(t, "output_norm", 1, n, 1);
    t->m.out = noise(t, "output", N_VOCAB, n, 0);
    for (uint32_t il = 0; il < n_layers; il++) {
        layers[il].rope = &t->m.rope;
        make_layer(t, &layers[il]);
    }
}

void rf_test_tiny_free(rf_test_tiny *t) {
    rf_free(t->values);
    rf_free(t->table);
    rf_free(t->m.layers);
    rf_free((void *)(uintptr_t)t->m.rope.inv_freq);
    *t = (rf_test_tiny){0};
}
