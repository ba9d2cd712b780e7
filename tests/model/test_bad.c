/* test_bad.c - models that must be refused, with the reason named, and odd ones that must not.
 *
 * A tiny model is rewritten with one thing changed at a time; the shared collection of malformed
 * files adds its own patches of a trained model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "gguf/writer.h"
#include "lib/run.h"

typedef enum edit_kind { KEEP, DROP, U32, U32_PER_LAYER, F32, STR, BOOL } edit_kind;

/* One change of the file: a key given another value, added or dropped, and one of a tensor. */
typedef struct edit {
    const char *key;
    edit_kind kind;
    double value;
    const char *text;
    rf_status expected;
    const char *needle; /* what the message must name */
} edit;

typedef enum tensor_change {
    NONE,
    LEAVE_OUT,
    ADD,
    SWAP_DIMS,
    FEWER_ROWS,
    AS_I32,
    THREE_DIMS
} tensor_change;
typedef struct tensor_edit {
    const char *name;
    tensor_change change;
    rf_status expected;
    const char *needle;
    uint64_t n;  /* ADD: columns */
    float value; /* ADD: of all elements */
} tensor_edit;

static void must(rf_status s, const rf_error *e) {
    if (s != RF_OK) fail_msg("%s", e->text);
}

static void put_edited(rf_gguf_writer *w, const edit *d, rf_error *e) {
    uint32_t two[2] = {0};
    if (d->kind == U32_PER_LAYER) {
        two[0] = (uint32_t)d->value;
        two[1] = (uint32_t)atoi(d->text ? d->text : "0");
    }
    switch (d->kind) {
    case KEEP:
    case DROP:
        break;
    case U32:
        must(rf_gguf_put_u32(w, d->key, (uint32_t)d->value, e), e);
        break;
    case U32_PER_LAYER:
        must(rf_gguf_put_array(w, d->key, RF_GGUF_U32, two, d->text ? 2 : 1, e), e);
        break;
    case F32:
        must(rf_gguf_put_f32(w, d->key, (float)d->value, e), e);
        break;
    case STR:
        must(rf_gguf_put_str(w, d->key, rf_str_of(d->text), e), e);
        break;
    case BOOL:
        must(rf_gguf_put_bool(w, d->key, d->value != 0, e), e);
        break;
    }
}

static bool applies(const tensor_edit *d, const rf_gguf_tensor *t) {
    return d && d->change != ADD && rf_str_is(t->name, d->name);
}

static void declare(rf_gguf_writer *w, const rf_gguf_tensor *t, const tensor_edit *d, rf_error *e) {
    uint64_t ne[RF_GGUF_MAX_DIMS];
    memcpy(ne, t->ne, sizeof ne);
    rf_dtype type = t->type;
    uint32_t n_dims = t->n_dims;
    if (applies(d, t) && d->change == SWAP_DIMS) ne[0] = t->ne[1], ne[1] = t->ne[0];
    if (applies(d, t) && d->change == FEWER_ROWS) ne[1]--;
    if (applies(d, t) && d->change == AS_I32) type = RF_DT_I32;
    if (applies(d, t) && d->change == THREE_DIMS) {
        n_dims = 3;
        ne[1] = t->ne[1] / 2;
        ne[2] = 2;
    }
    must(rf_gguf_declare(w, t->name, type, n_dims, ne, e), e);
}

/* base.gguf with the change made, as a new file. */
static const char *rewrite(const char *base, const edit *d, const tensor_edit *td) {
    const char *path = rf_test_tmp("edited.gguf");
    rf_error e = {0};
    rf_gguf *g = NULL;
    rf_gguf_writer *w = NULL;
    must(rf_gguf_open(&g, base, &e), &e);
    must(rf_gguf_writer_open(&w, path, 32, &e), &e);
    for (size_t i = 0; i < rf_gguf_n_kv(g); i++)
        if (!d || !rf_str_is(rf_gguf_kv_at(g, i)->key, d->key))
            must(rf_gguf_put_kv(w, rf_gguf_kv_at(g, i), &e), &e);
    if (d) put_edited(w, d, &e);
    bool added = td && td->change == ADD;
    for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
        if (!applies(td, t) || td->change != LEAVE_OUT) declare(w, t, td, &e);
    }
    if (added) must(rf_gguf_declare(w, rf_str_of(td->name), RF_DT_F32, 1, &td->n, &e), &e);
    for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
        uint64_t bytes = t->n_bytes;
        if (applies(td, t) && td->change == LEAVE_OUT) continue;
        if (applies(td, t) && td->change == FEWER_ROWS) bytes -= bytes / t->ne[1];
        must(rf_gguf_writer_data(w, t->data, bytes, &e), &e);
    }
    for (uint64_t i = 0; added && i < td->n; i++)
        must(rf_gguf_writer_data(w, &td->value, sizeof td->value, &e), &e);
    must(rf_gguf_writer_finish(w, &e), &e);
    rf_gguf_close(g);
    return path;
}

static void expect_open(const char *path, const char *what, rf_status expected,
                        const char *needle) {
    rf_error e = {0};
    rf_model *m = NULL;
    rf_status s = rf_model_open(&m, path, &e);
    if (s != expected)
        fail_msg("%s: status %s, expected %s (%s)", what, rf_status_name(s),
                 rf_status_name(expected), e.text);
    if (s == RF_OK) {
        rf_plan *p = NULL;
        must(rf_plan_build(&p, m, NULL, &e), &e);
        rf_plan_free(p);
    } else {
        assert_null(m);
        assert_int_equal(e.status, expected);
        if (!strstr(e.text, needle)) fail_msg("%s: \"%s\" does not name %s", what, e.text, needle);
        if (!strstr(e.text, path)) fail_msg("%s: \"%s\" does not name the file", what, e.text);
    }
    rf_model_close(m);
}

static const char *tiny(const char *name) {
    char path[100];
    snprintf(path, sizeof path, "../fuzz/corpus/model/%s.gguf", name);
    return rf_test_data(path);
}

/* llama: 1 layer, width 8, 2 heads over 1 KV head, FFN 12, 10 tokens, rope of 4.
 * req: B-02, B-45, B-46, C-13, C-15 */
static void test_keys(void **state) {
    (void)state;
    static const edit edits[] = {
        {"llama.rope.freq_base", F32, 5e5, NULL, RF_OK, NULL},
        {"general.architecture", DROP, 0, NULL, RF_EFORMAT, "general.architecture"},
        {"general.architecture", U32, 1, NULL, RF_EFORMAT, "general.architecture"},
        {"general.architecture", STR, 0, "rwkv7", RF_EUNSUPPORTED, "\"rwkv7\""},
        {"general.architecture", STR, 0, "lama", RF_EUNSUPPORTED, "it runs is \"llama\""},
        {"general.architecture", STR, 0, "gemma33", RF_EUNSUPPORTED, "it runs is \"gemma3\""},
        {"general.architecture", STR, 0, "phi-3", RF_EUNSUPPORTED, "it runs is \"phi3\""},
        {"general.architecture", STR, 0, "", RF_EUNSUPPORTED, "docs/models.md"},
        {"general.architecture", STR, 0,
         "a name that is longer than any of the names that this build knows, and then some more",
         RF_EUNSUPPORTED, "`rocmforge models`"},
        {"general.architecture", STR, 0, "qwen2", RF_EFORMAT, "qwen2.block_count"},
        {"llama.block_count", DROP, 0, NULL, RF_EFORMAT, "llama.block_count is missing"},
        {"llama.block_count", STR, 0, "1", RF_EFORMAT, "llama.block_count"},
        {"llama.block_count", U32, 0, NULL, RF_EFORMAT, "llama.block_count is 0"},
        {"llama.block_count", U32, 2, NULL, RF_EFORMAT, "blk.1.attn_norm.weight"},
        {"llama.block_count", U32, 513, NULL, RF_EFORMAT, "1 to 512"},
        {"llama.block_count", U32, 4294967295.0, NULL, RF_EFORMAT, "1 to 512"},
        {"llama.context_length", U32, 4294967295.0, NULL, RF_EFORMAT, "llama.context_length"},
        {"llama.context_length", DROP, 0, NULL, RF_EFORMAT, "llama.context_length"},
        {"llama.embedding_length", U32, 9, NULL, RF_EFORMAT, "llama.embedding_length is 9"},
        {"llama.embedding_length", U32, 16, NULL, RF_EFORMAT, "expected [10][16]"},
        {"llama.embedding_length", U32, 2147483648.0, NULL, RF_EFORMAT, "llama.embedding_length"},
        {"llama.feed_forward_length", U32, 0, NULL, RF_EFORMAT, "llama.feed_forward_length"},
        {"llama.feed_forward_length", U32, 13, NULL, RF_EFORMAT, "[12][8], expected [13][8]"},
        {"llama.feed_forward_length", U32_PER_LAYER, 12, NULL, RF_OK, NULL},
        {"llama.feed_forward_length", U32_PER_LAYER, 12, "12", RF_EFORMAT, "has 2 values"},
        {"llama.attention.head_count", U32, 0, NULL, RF_EFORMAT, "llama.attention.head_count"},
        {"llama.attention.head_count", U32, 3, NULL, RF_EFORMAT, "head_count is 3"},
        {"llama.attention.head_count", U32, 1025, NULL, RF_EFORMAT, "1 to 1024"},
        {"llama.attention.head_count_kv", U32, 0, NULL, RF_EFORMAT, "head_count_kv is 0"},
        {"llama.attention.head_count_kv", U32, 3, NULL, RF_EFORMAT, "head_count_kv is 3"},
        {"llama.attention.head_count_kv", U32, 4, NULL, RF_EFORMAT, "head_count_kv is 4"},
        {"llama.attention.head_count_kv", DROP, 0, NULL, RF_EFORMAT, "blk.0.attn_k.weight"},
        {"llama.attention.key_length", U32, 4, NULL, RF_OK, NULL},
        {"llama.attention.key_length", U32, 8, NULL, RF_EFORMAT, "blk.0.attn_q.weight"},
        {"llama.attention.key_length", U32, 641, NULL, RF_EFORMAT, "key_length is 641"},
        {"llama.attention.value_length", U32, 2, NULL, RF_EUNSUPPORTED, "value_length is 2"},
        {"llama.attention.causal", BOOL, 0, NULL, RF_OK, NULL},
        {"llama.attention.prefix", BOOL, 1, NULL, RF_OK, NULL},
        {"llama.attention.prefix", U32, 1, NULL, RF_EFORMAT, "llama.attention.prefix"},
        {"llama.attention.sliding_window", U32, 0, NULL, RF_OK, NULL},
        {"llama.attention.layer_norm_rms_epsilon", DROP, 0, NULL, RF_EFORMAT, "rms_epsilon"},
        {"llama.attention.layer_norm_rms_epsilon", F32, 0, NULL, RF_EFORMAT, "rms_epsilon is 0"},
        {"llama.attention.layer_norm_rms_epsilon", F32, (double)INFINITY, NULL, RF_EFORMAT,
         "rms_epsilon is inf"},
        {"llama.rope.dimension_count", DROP, 0, NULL, RF_OK, NULL},
        {"llama.rope.dimension_count", U32, 2, NULL, RF_OK, NULL},
        {"llama.rope.dimension_count", U32, 0, NULL, RF_EFORMAT, "dimension_count is 0"},
        {"llama.rope.dimension_count", U32, 3, NULL, RF_EFORMAT, "dimension_count is 3"},
        {"llama.rope.dimension_count", U32, 6, NULL, RF_EFORMAT, "dimension_count is 6"},
        {"llama.rope.freq_base", F32, 0, NULL, RF_EFORMAT, "freq_base is 0"},
        {"llama.rope.freq_base", F32, -1, NULL, RF_EFORMAT, "freq_base is -1"},
        {"llama.rope.freq_base", F32, (double)NAN, NULL, RF_EFORMAT, "freq_base"},
        {"llama.rope.freq_base", F32, (double)INFINITY, NULL, RF_EFORMAT, "freq_base is inf"},
        {"llama.rope.freq_base", F32, 1e-30, NULL, RF_EFORMAT, "rope frequency 1"},
        {"llama.rope.scaling.type", STR, 0, "none", RF_OK, NULL},
        {"llama.rope.scaling.type", STR, 0, "yarn", RF_OK, NULL},
        {"llama.rope.scaling.type", STR, 0, "longrope", RF_OK, NULL},
        {"llama.rope.scaling.type", STR, 0, "su", RF_EUNSUPPORTED, "\"su\""},
        {"llama.rope.scaling.alpha", F32, -1, NULL, RF_EFORMAT, "llama.rope.scaling.alpha is -1"},
        {"llama.attention.max_alibi_bias", F32, 8, NULL, RF_EUNSUPPORTED, "ALiBi"},
        {"llama.attention.max_alibi_bias", F32, 0, NULL, RF_OK, NULL},
        {"llama.attention.clamp_kqv", F32, 8, NULL, RF_EUNSUPPORTED, "clamp_kqv is 8"},
        {"llama.attention.scale", F32, (double)NAN, NULL, RF_EFORMAT, "attention.scale is nan"},
        {"llama.swin_norm", BOOL, 1, NULL, RF_EUNSUPPORTED, "swin_norm"},
        {"llama.embedding_scale", F32, 0, NULL, RF_EFORMAT, "embedding_scale is 0"},
        {"llama.residual_scale", F32, -2, NULL, RF_EFORMAT, "residual_scale is -2"},
        {"llama.rope.scaling.type", U32, 2, NULL, RF_EFORMAT, "llama.rope.scaling.type"},
        {"llama.rope.scaling.factor", F32, 0, NULL, RF_EFORMAT, "llama.rope.scaling.factor is 0"},
        {"llama.expert_count", U32, 8, NULL, RF_EFORMAT, "llama.expert_used_count"},
        {"llama.expert_count", U32, 0, NULL, RF_OK, NULL},
        {"llama.vocab_size", U32, 77, NULL, RF_OK, NULL}, /* the embedding's rows count */
        {"tokenizer.ggml.tokens", U32, 10, NULL, RF_EFORMAT, "tokenizer.ggml.tokens"},
        {"tokenizer.ggml.tokens", DROP, 0, NULL, RF_OK, NULL},
    };
    for (size_t i = 0; i < RF_COUNT(edits); i++) {
        char what[120];
        snprintf(what, sizeof what, "%s (case %zu)", edits[i].key, i);
        expect_open(rewrite(tiny("llama"), &edits[i], NULL), what, edits[i].expected,
                    edits[i].needle);
    }
}

/* What keys give where several must change at once. */
static void test_combinations(void **state) {
    (void)state;
    const edit not_causal = {"llama.attention.causal", BOOL, 0, NULL, RF_OK, NULL};
    expect_open(rewrite(tiny("llama-window"), &not_causal, NULL), "window without causality",
                RF_EUNSUPPORTED, "sliding_window is 8");
    const edit prefix = {"llama.attention.prefix", BOOL, 1, NULL, RF_OK, NULL};
    expect_open(rewrite(tiny("llama-window"), &prefix, NULL), "window with a prefix",
                RF_EUNSUPPORTED, "sliding_window is 8");
    const edit both_ways = {"chatglm.attention.causal", BOOL, 0, NULL, RF_OK, NULL};
    expect_open(rewrite(rf_test_data("models/chatglm-prefix.gguf"), &both_ways, NULL),
                "prefix without causality", RF_EFORMAT, "attention.prefix is true");
    const edit log_mul = {"qwen3.rope.scaling.yarn_log_multiplier", F32, -0.1, NULL, RF_OK, NULL};
    expect_open(rewrite(tiny("qwen3-yarn"), &log_mul, NULL), "yarn multiplier", RF_EFORMAT,
                "yarn_log_multiplier is -0.1");
    const edit attn = {"qwen3.rope.scaling.yarn_attn_factor", F32, 2, NULL, RF_OK, NULL};
    expect_open(rewrite(tiny("qwen3-yarn"), &attn, NULL), "yarn variant", RF_EUNSUPPORTED,
                "yarn_attn_factor is 2");
    const edit far = {"qwen3.rope.scaling.yarn_ext_factor", F32, 2, NULL, RF_OK, NULL};
    expect_open(rewrite(tiny("qwen3-yarn"), &far, NULL), "yarn beyond", RF_EFORMAT,
                "yarn_ext_factor is 2");
    const edit ext = {"qwen3.rope.scaling.yarn_ext_factor", F32, 1, NULL, RF_OK, NULL};
    expect_open(rewrite(tiny("qwen3-yarn"), &ext, NULL), "neutral yarn key", RF_OK, NULL);
    const edit flat = {"qwen3.rope.freq_base", F32, 1, NULL, RF_OK, NULL};
    expect_open(rewrite(tiny("qwen3-yarn"), &flat, NULL), "yarn over base 1", RF_EFORMAT,
                "rope.freq_base");
    const edit layers = {"llama.attention.head_count_kv", U32_PER_LAYER, 2, "1", RF_OK, NULL};
    expect_open(rewrite(rf_test_data("models/llama-f16.gguf"), &layers, NULL), "two kinds of layer",
                RF_EUNSUPPORTED, "head_count_kv is 2 in layer 0 and 1 in layer 1");
    expect_open(tiny("missing-tensor"), "missing", RF_EFORMAT, "blk.0.ffn_up.weight");
    expect_open(tiny("surplus-tensor"), "surplus", RF_EUNSUPPORTED, "blk.0.attn_q_norm.weight");
    expect_open("/nonexistent/model.gguf", "no file", RF_EIO, "/nonexistent/model.gguf");
}

/* req: B-45, B-46 */
static void test_tensors(void **state) {
    (void)state;
    static const tensor_edit edits[] = {
        {"token_embd.weight", LEAVE_OUT, RF_EFORMAT, "token_embd.weight", 0, 0},
        {"token_embd.weight", FEWER_ROWS, RF_EFORMAT, "has 9 rows", 0, 0},
        {"token_embd.weight", SWAP_DIMS, RF_EFORMAT, "has 8 rows", 0, 0},
        {"output_norm.weight", LEAVE_OUT, RF_EFORMAT, "output_norm.weight, shape [1][8]", 0, 0},
        {"output_norm.weight", AS_I32, RF_EUNSUPPORTED, "type I32", 0, 0},
        {"blk.0.ffn_up.weight", SWAP_DIMS, RF_EFORMAT, "[8][12], expected [12][8]", 0, 0},
        {"blk.0.ffn_up.weight", FEWER_ROWS, RF_EFORMAT, "[11][8], expected [12][8]", 0, 0},
        {"blk.0.ffn_up.weight", THREE_DIMS, RF_EFORMAT, "[2][6][8], expected [12][8]", 0, 0},
        {"blk.0.attn_v.weight", LEAVE_OUT, RF_EFORMAT, "blk.0.attn_v.weight", 0, 0},
        {"blk.0.attn_q.bias", ADD, RF_OK, NULL, 8, 1},
        {"blk.0.attn_q.bias", ADD, RF_EFORMAT, "blk.0.attn_q.bias", 4, 1},
        {"blk.0.ffn_up.bias", ADD, RF_OK, NULL, 12, 1},
        {"blk.0.attn_q_scale.weight", ADD, RF_EUNSUPPORTED, "attn_q_scale.weight", 12, 1},
        {"rope_freqs.weight", ADD, RF_OK, NULL, 2, 2},
        {"rope_freqs.weight", ADD, RF_EFORMAT, "rope_freqs.weight", 4, 2},
        {"rope_freqs.weight", ADD, RF_EFORMAT, "factor 0 is 0", 2, 0},
        {"rope_freqs.weight", ADD, RF_EFORMAT, "rope frequency 0", 2, 1e-9F},
    };
    for (size_t i = 0; i < RF_COUNT(edits); i++)
        expect_open(rewrite(tiny("llama"), NULL, &edits[i]), edits[i].name, edits[i].expected,
                    edits[i].needle);
}

/* Biases and QK-norms that an architecture promises must exist. */
static void test_promised_tensors(void **state) {
    (void)state;
    const tensor_edit no_bias = {"blk.0.attn_k.bias", LEAVE_OUT, RF_EFORMAT, "attn_k.bias", 0, 0};
    expect_open(rewrite(tiny("qwen2"), NULL, &no_bias), "qwen2", no_bias.expected, no_bias.needle);
    const tensor_edit no_norm = {
        "blk.0.attn_k_norm.weight", LEAVE_OUT, RF_EFORMAT, "attn_k_norm", 0, 0};
    expect_open(rewrite(tiny("qwen3-yarn"), NULL, &no_norm), "qwen3", no_norm.expected,
                no_norm.needle);
}

/* lfm2: 2 layers, of which the first is a short convolution of 3 taps.  req: B-45, B-46, C-13 */
static void test_layers_with_a_state(void **state) {
    (void)state;
    const char *heads = "lfm2.attention.head_count_kv", *taps = "lfm2.shortconv.l_cache";
    const edit edits[] = {
        {heads, U32_PER_LAYER, 0, "1", RF_OK, NULL},
        {heads, DROP, 0, NULL, RF_EFORMAT, "is missing; expected one value for each of 2 layers"},
        {heads, STR, 0, "1", RF_EFORMAT, "head_count_kv"},
        {heads, U32_PER_LAYER, 0, NULL, RF_EFORMAT, "has 1 values, expected a whole number"},
        {heads, U32_PER_LAYER, 0, "1025", RF_EFORMAT, "is 1025 in layer 1, expected 0 to 1024"},
        {heads, U32_PER_LAYER, 2, "1", RF_EUNSUPPORTED, "is 1 in layer 1 and 2 before"},
        {heads, U32_PER_LAYER, 1, "0", RF_EFORMAT, "tensor blk.0.attn_q.weight"},
        {heads, U32, 1, NULL, RF_EFORMAT, "tensor blk.0.attn_q.weight"},
        {taps, DROP, 0, NULL, RF_EFORMAT, "lfm2.shortconv.l_cache is missing"},
        {taps, U32, 0, NULL, RF_EFORMAT, "l_cache is 0, expected 1 to 16"},
        {taps, U32, 17, NULL, RF_EFORMAT, "l_cache is 17, expected 1 to 16"},
        {taps, U32, 4, NULL, RF_EFORMAT, "conv.weight at byte"},
        {"lfm2.attention.causal", BOOL, 0, NULL, RF_EUNSUPPORTED, "a state sees no later tokens"},
        {"lfm2.attention.prefix", BOOL, 1, NULL, RF_EUNSUPPORTED, "a state sees no later tokens"},
    };
    for (size_t i = 0; i < RF_COUNT(edits); i++) {
        char what[120];
        snprintf(what, sizeof what, "%s (case %zu)", edits[i].key, i);
        expect_open(rewrite(tiny("lfm2"), &edits[i], NULL), what, edits[i].expected,
                    edits[i].needle);
    }
    const tensor_edit gone = {
        "blk.0.shortconv.in_proj.weight", LEAVE_OUT, RF_EFORMAT, "[24][8], is missing", 0, 0};
    expect_open(rewrite(tiny("lfm2"), NULL, &gone), gone.name, gone.expected, gone.needle);
}

/* qwen35: 2 layers, of which the first is a delta net: a key head and 2 value heads of 4, 2 taps. */
static void test_delta_nets(void **state) {
    (void)state;
    static const edit edits[] = {
        {"qwen35.full_attention_interval", U32, 2, NULL, RF_OK, NULL},
        {"qwen35.full_attention_interval", DROP, 0, NULL, RF_EFORMAT, "blk.1.attn_qkv.weight"},
        {"qwen35.full_attention_interval", U32, 1, NULL, RF_EFORMAT,
         "blk.0.attn_qkv.weight at byte"},
        {"qwen35.full_attention_interval", U32, 0, NULL, RF_EFORMAT, "interval is 0"},
        {"qwen35.attention.recurrent_layers", U32_PER_LAYER, 1, "0", RF_OK, NULL},
        {"qwen35.attention.recurrent_layers", U32_PER_LAYER, 0, "1", RF_EFORMAT, "blk.0.attn_q"},
        {"qwen35.attention.recurrent_layers", U32_PER_LAYER, 1, "2", RF_EFORMAT, "is 2 in layer 1"},
        {"qwen35.attention.recurrent_layers", U32_PER_LAYER, 1, NULL, RF_EFORMAT, "has 1 values"},
        {"qwen35.ssm.group_count", DROP, 0, NULL, RF_EFORMAT, "ssm.group_count is missing"},
        {"qwen35.ssm.group_count", U32, 3, NULL, RF_EFORMAT, "ssm.group_count is 3; expected a"},
        {"qwen35.ssm.group_count", U32, 2, NULL, RF_EFORMAT, "blk.0.attn_qkv.weight"},
        {"qwen35.ssm.time_step_rank", DROP, 0, NULL, RF_EFORMAT, "time_step_rank is missing"},
        {"qwen35.ssm.time_step_rank", U32, 1025, NULL, RF_EFORMAT, "1 to 1024"},
        {"qwen35.ssm.time_step_rank", U32, 3, NULL, RF_EFORMAT, "inner_size is 8 and"},
        {"qwen35.ssm.time_step_rank", U32, 4, NULL, RF_EFORMAT, "blk.0.ssm_beta.weight"},
        {"qwen35.ssm.state_size", DROP, 0, NULL, RF_EFORMAT, "state_size is missing"},
        {"qwen35.ssm.state_size", U32, 5, NULL, RF_EFORMAT, "blk.0.attn_qkv.weight"},
        {"qwen35.ssm.state_size", U32, 641, NULL, RF_EFORMAT, "1 to 640"},
        {"qwen35.ssm.inner_size", U32, 2000, NULL, RF_EFORMAT, "heads of at most 640"},
        {"qwen35.ssm.inner_size", DROP, 0, NULL, RF_EFORMAT, "inner_size is missing"},
        {"qwen35.ssm.conv_kernel", DROP, 0, NULL, RF_EFORMAT, "conv_kernel is missing"},
        {"qwen35.ssm.conv_kernel", U32, 4, NULL, RF_EFORMAT, "blk.0.ssm_conv1d.weight"},
        {"qwen35.attention.causal", BOOL, 0, NULL, RF_EUNSUPPORTED, "a state sees no later tokens"},
    };
    for (size_t i = 0; i < RF_COUNT(edits); i++) {
        char what[120];
        snprintf(what, sizeof what, "%s (case %zu)", edits[i].key, i);
        expect_open(rewrite(tiny("qwen35"), &edits[i], NULL), what, edits[i].expected,
                    edits[i].needle);
    }
}

/* nemotron_h: 3 layers, the first a Mamba-2 mixer of 2 heads of 4 in a group with a state of 4, then
 * an FFN, then attention. */
static void test_mamba(void **state) {
    (void)state;
    static const edit edits[] = {
        {"nemotron_h.attention.layer_norm_rms_epsilon", F32, 1e-5, NULL, RF_OK, NULL},
        {"nemotron_h.attention.layer_norm_epsilon", DROP, 0, NULL, RF_EFORMAT, "rms_epsilon"},
        {"nemotron_h.rope.scaling.finetuned", BOOL, 1, NULL, RF_OK, NULL},
        {"nemotron_h.feed_forward_length", U32, 12, NULL, RF_EUNSUPPORTED, "layers of both"},
        {"nemotron_h.feed_forward_length", U32_PER_LAYER, 0, "12", RF_EFORMAT, "has 2 values"},
        {"nemotron_h.feed_forward_length", DROP, 0, NULL, RF_EFORMAT, "feed_forward_length is"},
        {"nemotron_h.attention.head_count_kv", U32, 1, NULL, RF_EUNSUPPORTED, "layers of both"},
        {"nemotron_h.attention.head_count_kv", DROP, 0, NULL, RF_EFORMAT, "for each of 3 layers"},
        {"nemotron_h.ssm.group_count", DROP, 0, NULL, RF_EFORMAT, "ssm.group_count is missing"},
        {"nemotron_h.ssm.group_count", U32, 3, NULL, RF_EFORMAT, "group_count is 3; expected a"},
        {"nemotron_h.ssm.group_count", U32, 2, NULL, RF_EFORMAT, "blk.0.ssm_in.weight"},
        {"nemotron_h.ssm.time_step_rank", U32, 3, NULL, RF_EFORMAT, "inner_size is 8 and"},
        {"nemotron_h.ssm.state_size", U32, 5, NULL, RF_EFORMAT, "blk.0.ssm_in.weight"},
        {"nemotron_h.ssm.inner_size", U32, 2000, NULL, RF_EFORMAT, "heads of at most 640"},
        {"nemotron_h.ssm.conv_kernel", U32, 17, NULL, RF_EFORMAT, "1 to 16"},
    };
    for (size_t i = 0; i < RF_COUNT(edits); i++) {
        char what[120];
        snprintf(what, sizeof what, "%s (case %zu)", edits[i].key, i);
        expect_open(rewrite(tiny("nemotron_h"), &edits[i], NULL), what, edits[i].expected,
                    edits[i].needle);
    }
}

static const char *fixture(const char *name) {
    char path[100];
    snprintf(path, sizeof path, "models/%s.gguf", name);
    return rf_test_data(path);
}

/* What the traits of an architecture ask for.  req: C-13, C-15 */
static void test_traits(void **state) {
    (void)state;
    static const struct {
        const char *base;
        edit e;
    } cases[] = {
        {"gemma2", {"gemma2.attention.sliding_window", DROP, 0, NULL, RF_EFORMAT, "is missing"}},
        {"gemma2", {"gemma2.attn_logit_softcapping", DROP, 0, NULL, RF_EFORMAT, "attn_logit"}},
        {"gemma2", {"gemma2.final_logit_softcapping", F32, -1, NULL, RF_EFORMAT, "is -1"}},
        {"gemma3", {"gemma3.attention.sliding_window", U32, 0, NULL, RF_EFORMAT, "is 0"}},
        {"gemma3", {"gemma3.rope.freq_base_swa", F32, 0, NULL, RF_EFORMAT, "freq_base_swa is 0"}},
        {"gemma3", {"gemma3.rope.freq_base_swa", F32, 1e4, NULL, RF_OK, NULL}},
        {"gemma3", {"gemma3.attention.sliding_window_pattern", U32, 0, NULL, RF_EFORMAT, "is 0"}},
        {"gemma3", {"gemma3.attention.sliding_window_pattern", U32, 2, NULL, RF_OK, NULL}},
        {"gemma3",
         {"gemma3.attention.sliding_window_pattern", U32_PER_LAYER, 1, "1", RF_EFORMAT,
          "true or false for each of 7"}},
        {"cohere2", {"cohere2.logit_scale", DROP, 0, NULL, RF_EFORMAT, "logit_scale is missing"}},
        {"granite", {"granite.logit_scale", F32, 0, NULL, RF_EFORMAT, "logit_scale is 0"}},
        {"granite", {"granite.logit_scale", F32, 1e-40, NULL, RF_EFORMAT, "logits by inf"}},
        {"gpt2", {"gpt2.context_length", U32, 63, NULL, RF_EFORMAT, "position_embd.weight"}},
        {"gpt2", {"gpt2.attention.layer_norm_epsilon", DROP, 0, NULL, RF_EFORMAT, "norm_epsilon"}},
        {"gptneox", {"gptneox.use_parallel_residual", U32, 1, NULL, RF_EFORMAT, "parallel"}},
        {"phi3-longrope",
         {"phi3.rope.scaling.original_context_length", U32, 0, NULL, RF_EFORMAT, "is 0"}},
        {"phi3-longrope", {"phi3.rope.dimension_count", U32, 8, NULL, RF_EFORMAT, "rope_factors"}},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++)
        expect_open(rewrite(fixture(cases[i].base), &cases[i].e, NULL), cases[i].e.key,
                    cases[i].e.expected, cases[i].e.needle);
}

/* May be missing: biases that no row requires, an output that is then tied, a norm that only some
 * parallel layers have, and what another layout of the file replaces. */
static bool is_optional(rf_str name) {
    static const char *const parts[] = {".bias", "output.weight", "ffn_norm", "attn_norm_2",
                                        "rope_factors_long"};
    for (size_t i = 0; i < RF_COUNT(parts); i++)
        for (size_t at = 0; at + strlen(parts[i]) <= name.len; at++)
            if (memcmp(name.p + at, parts[i], strlen(parts[i])) == 0) return true;
    return false;
}

static void mutate_tensor(const char *base, const rf_gguf_tensor *t) {
    char name[RF_GGUF_MAX_NAME + 1];
    snprintf(name, sizeof name, "%.*s", RF_STR_ARG(t->name));
    tensor_edit d = {name, LEAVE_OUT, RF_EFORMAT, name, 0, 0};
    bool fused = strstr(name, "attn_qkv") != NULL;
    if (!is_optional(t->name))
        expect_open(rewrite(base, NULL, &d), name, RF_EFORMAT, fused ? "blk.0.attn_q" : name);
    if (t->ne[1] < 2) return;
    d.change = FEWER_ROWS;
    expect_open(rewrite(base, NULL, &d), name, RF_EFORMAT, name);
    if (t->ne[0] == t->ne[1]) return;
    d.change = SWAP_DIMS;
    expect_open(rewrite(base, NULL, &d), name, RF_EFORMAT, name);
}

/* Every tensor of the first layer and outside the layers: left out, too short, turned round.
 * req: B-46 */
static void test_every_tensor(void **state) {
    (void)state;
    static const char *const names[] = {
        "gemma3",     "phi2",          "phi3-longrope", "glm4",     "chatglm", "gpt2",
        "gptneox",    "falcon-40b",    "olmo2",         "cohere2",  "exaone4", "seed_oss",
        "starcoder2", "hunyuan-dense", "nemotron",      "stablelm", "lfm2",    "qwen35"};
    for (size_t i = 0; i < RF_COUNT(names); i++) {
        char base[1024];
        snprintf(base, sizeof base, "%s", fixture(names[i]));
        rf_gguf *g = NULL;
        rf_error e = {0};
        must(rf_gguf_open(&g, base, &e), &e);
        for (size_t k = 0; k < rf_gguf_n_tensors(g); k++) {
            const rf_gguf_tensor *t = rf_gguf_tensor_at(g, k);
            bool later = rf_str_starts(t->name, "blk.") && !rf_str_starts(t->name, "blk.0.");
            if (!later) mutate_tensor(base, t);
        }
        rf_gguf_close(g);
    }
}

/* Every allocation of open and plan fails once; each failure is reported and nothing leaks. */
static void fail_allocations(const char *path) {
    rf_error e = {0};
    rf_model *m = NULL;
    rf_plan *p = NULL;
    (void)rf_alloc_count();
    must(rf_model_open(&m, path, &e), &e);
    long n_open = rf_alloc_count();
    must(rf_plan_build(&p, m, NULL, &e), &e);
    long n_plan = rf_alloc_count();
    rf_plan_free(p);
    assert_true(n_open >= 4 && n_plan >= 2);
    for (long i = 1; i <= n_plan; i++) {
        e = (rf_error){0};
        rf_alloc_fail_nth(i);
        rf_status s = rf_plan_build(&p, m, NULL, &e);
        rf_alloc_fail_nth(0);
        assert_int_equal(s, RF_ENOMEM);
        assert_int_equal(e.status, RF_ENOMEM);
        assert_null(p);
    }
    rf_model_close(m);
    for (long i = 1; i <= n_open; i++) {
        e = (rf_error){0};
        rf_alloc_fail_nth(i);
        rf_status s = rf_model_open(&m, path, &e);
        rf_alloc_fail_nth(0);
        assert_int_equal(s, RF_ENOMEM);
        assert_null(m);
    }
}

static void test_allocation_failures(void **state) {
    (void)state;
    fail_allocations(tiny("qwen3-yarn"));
    fail_allocations(fixture("gemma3"));
    fail_allocations(fixture("phi3-longrope"));
}

static uint8_t hex_digit(char c) { return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10); }

/* One token through the model, so that an accepted file is also run. */
static void run_one_token(rf_model *m) {
    rf_test_run r;
    rf_test_run_model(&r, &rf_ref_ops, m, (rf_test_run_opts){.n_ctx = 32, .max_tokens = 1});
    const int32_t token = 0;
    float *logits = rf_alloc(m->n_vocab, sizeof *logits);
    assert_non_null(logits);
    rf_test_run_text(&r, &token, 1, 1, logits);
    for (uint32_t i = 0; i < m->n_vocab; i++)
        assert_true(isfinite(logits[i]));
    rf_free(logits);
    rf_test_run_close(&r);
}

static void check_patch(const uint8_t *base, size_t n, const rf_json *c) {
    rf_str hex = rf_json_str(rf_json_get(c, "patch_hex"));
    rf_str expect = rf_json_str(rf_json_get(c, "expect"));
    rf_str file = rf_json_str(rf_json_get(c, "file"));
    size_t at = (size_t)rf_json_int(rf_json_get(c, "patch_offset"));
    uint8_t *bytes = rf_alloc(n, 1);
    assert_non_null(bytes);
    memcpy(bytes, base, n);
    assert_true(hex.len >= 2 && at + hex.len / 2 <= n);
    for (size_t i = 0; i + 1 < hex.len; i += 2)
        bytes[at + i / 2] = (uint8_t)(hex_digit(hex.p[i]) << 4 | hex_digit(hex.p[i + 1]));
    rf_error e = {0};
    rf_gguf *g = NULL;
    rf_model *m = NULL;
    rf_status s = rf_gguf_open_memory(&g, bytes, n, &e);
    if (s == RF_OK && (s = rf_model_bind(&m, g, &e)) != RF_OK) rf_gguf_close(g);
    print_message("%-36.*s %s\n", RF_STR_ARG(file), s == RF_OK ? "accepted" : e.text);
    if (s == RF_OK) {
        if (rf_str_is(expect, "reject")) fail_msg("%.*s was accepted", RF_STR_ARG(file));
        run_one_token(m);
    } else {
        assert_true(s == RF_EFORMAT || s == RF_EUNSUPPORTED);
        if (rf_str_is(expect, "accept")) fail_msg("%.*s was refused", RF_STR_ARG(file));
    }
    rf_model_close(m);
    rf_free(bytes);
}

/* req: B-02, B-45, C-15 */
static void test_shared_patches(void **state) {
    (void)state;
    RF_SKIP_WITHOUT(rf_test_shared("gguf-bad"), "malformed models");
    size_t n = 0, n_base = 0, n_cases = 0;
    uint8_t *text = rf_test_read(rf_test_shared("gguf-bad/manifest.json"), &n);
    uint8_t *base =
        rf_test_read(rf_test_shared("models/stories260K/stories260K-F32.gguf"), &n_base);
    rf_json *manifest = NULL;
    rf_error e = {0};
    must(rf_json_parse(&manifest, (rf_str){(const char *)text, n}, &e), &e);
    const rf_json *cases = rf_json_get(manifest, "cases");
    for (size_t i = 0; i < rf_json_len(cases); i++) {
        const rf_json *c = rf_json_at(cases, i);
        if (!rf_str_starts(rf_json_str(rf_json_get(c, "file")), "model-")) continue;
        check_patch(base, n_base, c);
        n_cases++;
    }
    assert_true(n_cases >= 25);
    rf_json_free(manifest);
    rf_free(text);
    rf_free(base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_promised_tensors),
        cmocka_unit_test(test_layers_with_a_state),
        cmocka_unit_test(test_delta_nets),
        cmocka_unit_test(test_mamba),
        cmocka_unit_test(test_traits),
        cmocka_unit_test(test_every_tensor),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_shared_patches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
