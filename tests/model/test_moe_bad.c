/* test_moe_bad.c - models with experts or latent attention that must be refused, with the reason
 * named: a fixture is rewritten with one key, one tensor's name or one shape changed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gguf/writer.h"
#include "lib/testlib.h"
#include "model/model.h"

typedef struct edit {
    const char *base; /* the fixture */
    const char *key;  /* given this value, or left out */
    bool drop;
    double value; /* whole: written as u32 unless is_float */
    bool is_float;
    const char *tensor, *name; /* called name instead */
    const char *needle;        /* what the message must name; NULL: opens all the same */
    uint64_t ne[3];            /* and of this shape, with as many elements */
    bool poison;               /* and its first value NaN */
} edit;

static void must(rf_status s, const rf_error *e) {
    if (s != RF_OK) fail_msg("%s", e->text);
}

static bool is_edited(const edit *d, const rf_gguf_tensor *t) {
    return d->tensor && rf_str_is(t->name, d->tensor);
}

static void put_keys(rf_gguf_writer *w, const rf_gguf *g, const edit *d, rf_error *e) {
    for (size_t i = 0; i < rf_gguf_n_kv(g); i++)
        if (!d->key || !rf_str_is(rf_gguf_kv_at(g, i)->key, d->key))
            must(rf_gguf_put_kv(w, rf_gguf_kv_at(g, i), e), e);
    if (!d->key || d->drop) return;
    must(d->is_float ? rf_gguf_put_f32(w, d->key, (float)d->value, e)
                     : rf_gguf_put_u32(w, d->key, (uint32_t)d->value, e),
         e);
}

static void put_tensors(rf_gguf_writer *w, const rf_gguf *g, const edit *d, rf_error *e) {
    for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
        bool edited = is_edited(d, t);
        must(rf_gguf_declare(w, edited && d->name ? rf_str_of(d->name) : t->name, t->type,
                             edited && d->ne[0] ? 3 : t->n_dims, edited && d->ne[0] ? d->ne : t->ne,
                             e),
             e);
    }
    for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
        const rf_gguf_tensor *t = rf_gguf_tensor_at(g, i);
        static const float nan_value = NAN;
        size_t skip = is_edited(d, t) && d->poison ? sizeof nan_value : 0;
        if (skip) must(rf_gguf_writer_data(w, &nan_value, skip, e), e);
        must(rf_gguf_writer_data(w, (const uint8_t *)t->data + skip, t->n_bytes - skip, e), e);
    }
}

static const char *fixture(const char *name) {
    char path[96];
    snprintf(path, sizeof path, "models/%s.gguf", name);
    return rf_test_data(path);
}

static const char *rewrite(const edit *d) {
    const char *path = rf_test_tmp("edited.gguf");
    rf_error e = {0};
    rf_gguf *g = NULL;
    rf_gguf_writer *w = NULL;
    must(rf_gguf_open(&g, fixture(d->base), &e), &e);
    must(rf_gguf_writer_open(&w, path, 32, &e), &e);
    put_keys(w, g, d, &e);
    put_tensors(w, g, d, &e);
    must(rf_gguf_writer_finish(w, &e), &e);
    rf_gguf_close(g);
    return path;
}

static void check(const edit *d) {
    rf_error e = {0};
    rf_model *m = NULL;
    rf_status s = rf_model_open(&m, rewrite(d), &e);
    const char *what = d->key ? d->key : d->tensor;
    if (!d->needle) {
        if (s != RF_OK) fail_msg("%s of %s: %s", what, d->base, e.text);
        rf_model_close(m);
        return;
    }
    if (s != RF_EFORMAT && s != RF_EUNSUPPORTED)
        fail_msg("%s of %s: status %s", what, d->base, rf_status_name(s));
    assert_null(m);
    if (!strstr(e.text, d->needle))
        fail_msg("%s of %s: \"%s\" lacks \"%s\"", what, d->base, e.text, d->needle);
    assert_non_null(strstr(e.text, "edited.gguf"));
}

#define GATE "blk.0.ffn_gate_exps.weight"
/* clang-format off */
static const edit edits[] = {
    {.base = "mixtral", .key = "llama.expert_count", .value = 8},
    {.base = "mixtral", .key = "llama.expert_count", .value = 1025, .needle = "0 to 1024"},
    {.base = "mixtral", .key = "llama.expert_count", .value = 7,
     .needle = "blk.0.ffn_gate_inp.weight at byte"},
    {.base = "mixtral", .key = "llama.expert_count", .value = 0,
     .needle = "blk.0.ffn_gate.weight, shape [16][32], is missing"},
    {.base = "mixtral", .key = "llama.expert_used_count", .value = 9,
     .needle = "is 9, expected at most 8, the expert_count"},
    {.base = "mixtral", .key = "llama.expert_used_count", .value = 65, .needle = "1 to 64"},
    {.base = "mixtral", .key = "llama.expert_used_count", .drop = true, .needle = "is missing"},
    {.base = "mixtral", .key = "llama.expert_gating_func", .value = 4,
     .needle = "3 (softmax over"},
    {.base = "mixtral", .key = "llama.expert_gating_func", .value = 2},
    {.base = "mixtral", .key = "llama.expert_weights_scale", .value = 0, .is_float = true},
    {.base = "mixtral", .key = "llama.expert_weights_scale", .value = -1, .is_float = true,
     .needle = "is -1, expected"},
    {.base = "mixtral", .key = "llama.expert_weights_scale", .value = HUGE_VAL, .is_float = true,
     .needle = "is inf, expected"},
    {.base = "mixtral", .key = "llama.expert_feed_forward_length", .value = 15,
     .needle = "shape [8][16][32], expected [8][15][32]"},
    {.base = "mixtral", .key = "llama.leading_dense_block_count", .value = 1,
     .needle = "blk.0.ffn_gate.weight, shape [16][32], is missing"},
    {.base = "mixtral", .key = "llama.interleave_moe_layer_step", .value = 0, .needle = "is 0"},
    {.base = "mixtral", .tensor = GATE, .ne = {32, 32, 4},
     .needle = "shape [4][32][32], expected [8][16][32]"},
    {.base = "mixtral", .tensor = GATE, .name = "blk.0.ffn_gate.0.weight",
     .needle = "holds a single expert"},
    {.base = "mixtral", .tensor = GATE, .name = "blk.0.ffn_gates.weight",
     .needle = "shape [8][16][32], is missing"},
    {.base = "mixtral", .tensor = "blk.1.ffn_gate_inp.weight", .name = "blk.1.router.weight",
     .needle = "blk.1.ffn_gate_inp.weight, shape [8][32], is missing"},
    {.base = "qwen2moe", .key = "qwen2moe.expert_shared_feed_forward_length", .drop = true,
     .needle = "shexp.weight at byte"},
    {.base = "qwen2moe", .key = "qwen2moe.expert_shared_feed_forward_length", .value = 27,
     .needle = "expected [27][32]"},
    {.base = "glm4moe", .key = "glm4moe.expert_shared_count", .value = 1024,
     .needle = "shape [24][32], expected [12288][32]"},
    {.base = "glm4moe", .key = "glm4moe.nextn_predict_layers", .value = 4,
     .needle = "expected less than 4, the block_count"},
    {.base = "glm4moe", .key = "glm4moe.nextn_predict_layers", .value = 0,
     .needle = "blk.3.nextn."},
    {.base = "glm4moe", .tensor = "blk.1.exp_probs_b.bias", .poison = true,
     .needle = "exp_probs_b.bias: value 0 is nan"},
    {.base = "deepseek2-v3", .key = "deepseek2.expert_group_count", .value = 5,
     .needle = "groups of the same size"},
    {.base = "deepseek2-v3", .key = "deepseek2.expert_group_count", .value = 12,
     .needle = "groups of the same size, at least 2"},
    {.base = "deepseek2-v3", .key = "deepseek2.expert_group_used_count", .value = 5,
     .needle = "is 5, expected 1 to 4"},
    {.base = "deepseek2-v3", .key = "deepseek2.expert_group_used_count", .drop = true,
     .needle = "is 0, expected 1 to 4"},
    {.base = "deepseek2-v3", .key = "deepseek2.expert_used_count", .value = 7,
     .needle = "is 7, expected at most 6: the experts of 2 of 4 groups"},
    {.base = "deepseek2-v3", .key = "deepseek2.expert_group_used_count", .value = 4},
    {.base = "deepseek2-v3", .key = "deepseek2.attention.kv_lora_rank", .drop = true,
     .needle = "kv_lora_rank is missing"},
    {.base = "deepseek2-v3", .key = "deepseek2.attention.kv_lora_rank", .value = 639,
     .needle = "together at most 640"},
    {.base = "deepseek2-v3", .key = "deepseek2.attention.key_length_mla", .value = 8,
     .needle = "rope.dimension_count 8; expected a smaller one"},
    {.base = "deepseek2-v3", .key = "deepseek2.attention.key_length_mla", .drop = true,
     .needle = "attn_q_b.weight at byte"},
    {.base = "deepseek2-v3", .key = "deepseek2.attention.q_lora_rank", .drop = true,
     .needle = "blk.0.attn_q.weight, shape [80][32], is missing"},
    {.base = "deepseek2-v3", .tensor = "blk.0.attn_k_b.weight", .ne = {24, 12, 4},
     .needle = "shape [4][12][24], expected [4][24][12]"},
    {.base = "deepseek2-v3", .tensor = "blk.0.attn_v_b.weight", .name = "blk.0.attn_kv_b.weight",
     .needle = "blk.0.attn_v_b.weight, shape [4][10][24], is missing"},
    {.base = "deepseek2-v3", .key = "deepseek2.rope.scaling.yarn_log_multiplier", .value = -1,
     .is_float = true, .needle = "is -1, expected"},
    {.base = "deepseek2-v3", .key = "deepseek2.attention.temperature_scale", .value = 0.1,
     .is_float = true, .needle = "temperature_scale"},
    {.base = "deepseek2-old", .tensor = "blk.1.attn_kv_b.weight", .name = "blk.1.kv_b.weight",
     .needle = "blk.1.attn_kv_b.weight, shape [88][24], is missing"},
};
/* clang-format on */

/* req: C-13, C-15 */
static void test_edits(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(edits); i++)
        check(&edits[i]);
}

/* Lack of memory at any point is an error, and nothing leaks. */
static void test_allocation_failures(void **state) {
    (void)state;
    static const char *const names[] = {"deepseek2-v3", "glm4moe"};
    for (size_t i = 0; i < RF_COUNT(names); i++) {
        rf_model *m = NULL;
        rf_error e = {0};
        (void)rf_alloc_count();
        must(rf_model_open(&m, fixture(names[i]), &e), &e);
        long n = rf_alloc_count();
        rf_model_close(m);
        assert_true(n >= 4);
        for (long k = 1; k <= n; k++) {
            e = (rf_error){0};
            rf_alloc_fail_nth(k);
            rf_status s = rf_model_open(&m, fixture(names[i]), &e);
            rf_alloc_fail_nth(0);
            assert_int_equal(s, RF_ENOMEM);
            assert_null(m);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edits),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
