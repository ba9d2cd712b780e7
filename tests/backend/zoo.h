/* zoo.h - a small model in which every number format is some matrix's, written by the test itself.
 *
 * The matrices are made of the golden blocks of tests/data/quant; only blocks of moderate size are
 * taken, and small norm weights keep the activations tame. */
#pragma once
#include <stdio.h>

#include "backend/session.h"
#include "gguf/writer.h"
#include "quant/dtype.h"

enum { ZOO_EMBD = 256, ZOO_FF = 256, ZOO_KV = 128, ZOO_LAYERS = 5, ZOO_VOCAB = 96 };

typedef struct zoo_tensor {
    char name[40];
    rf_dtype type;
    uint32_t cols, rows; /* rows 0: a vector */
} zoo_tensor;

/* Up to cap blocks of the format whose values are finite and of moderate size; the number kept. */
static inline size_t zoo_blocks(rf_dtype type, uint8_t *out, size_t cap) {
    const rf_dtype_info *info = rf_dtype_get(type);
    char relative[60];
    snprintf(relative, sizeof relative, "quant/%s.blk", info->name);
    size_t n_bytes, n = 0;
    uint8_t *all = rf_test_read(rf_test_data(relative), &n_bytes);
    for (size_t at = 0; at < n_bytes && n < cap; at += info->block_bytes) {
        float w[256], top = 0;
        info->decode(all + at, w, info->block_elems);
        for (size_t i = 0; i < info->block_elems; i++) {
            if (!(fabsf(w[i]) <= top)) top = fabsf(w[i]);
        }
        if (!(top > 1e-3f && top < 4.0f)) continue;
        memcpy(out + n++ * info->block_bytes, all + at, info->block_bytes);
    }
    rf_free(all);
    assert_true(n >= 3);
    return n;
}

static inline void zoo_write_data(rf_gguf_writer *w, const zoo_tensor *t, uint64_t *seed) {
    rf_error e = {0};
    const rf_dtype_info *info = rf_dtype_get(t->type);
    if (t->rows == 0) {
        float v[ZOO_EMBD];
        for (uint32_t i = 0; i < t->cols; i++)
            v[i] = 0.05f + 0.02f * rf_test_randf(seed);
        must(rf_gguf_writer_data(w, v, t->cols * sizeof *v, &e), &e);
        return;
    }
    size_t n = (size_t)t->rows * t->cols / info->block_elems, cap = 600, size = info->block_bytes;
    uint8_t *blocks = (uint8_t *)rf_alloc(cap, size), *data = (uint8_t *)rf_alloc(n, size);
    assert_non_null(blocks);
    assert_non_null(data);
    if (info->is_block) {
        size_t n_blocks = zoo_blocks(t->type, blocks, cap);
        for (size_t i = 0; i < n; i++) {
            memcpy(data + i * size, blocks + rf_test_rand(seed) % n_blocks * size, size);
        }
    } else {
        assert_int_equal(size, 2); /* F16 or BF16 near 1 and -1 */
        for (size_t i = 0; i < n; i++) {
            uint64_t r = rf_test_rand(seed);
            uint16_t one = t->type == RF_DT_F16 ? 0x3800 : 0x3F00;
            uint16_t h = (uint16_t)(one | (r & 0x80FF));
            memcpy(data + i * size, &h, size);
        }
    }
    must(rf_gguf_writer_data(w, data, n * size, &e), &e);
    rf_free(blocks);
    rf_free(data);
}

static inline void zoo_add(zoo_tensor *t, size_t *n, rf_dtype type, uint32_t rows, uint32_t cols,
                           const char *name, int layer) {
    zoo_tensor *to = &t[(*n)++];
    *to = (zoo_tensor){.type = type, .cols = cols, .rows = rows};
    if (layer < 0) {
        snprintf(to->name, sizeof to->name, "%s.weight", name);
    } else {
        snprintf(to->name, sizeof to->name, "blk.%d.%s.weight", layer, name);
    }
}

/* Formats with decode() and blocks among the fixtures, in turn. */
static inline rf_dtype zoo_next_type(unsigned *at) {
    for (;;) {
        rf_dtype t = (rf_dtype)((*at)++ % RF_DT_COUNT);
        const rf_dtype_info *info = rf_dtype_get(t);
        if (info->decode && (info->is_block || t == RF_DT_F16 || t == RF_DT_BF16)) return t;
    }
}

static inline size_t zoo_tensors(zoo_tensor *t) {
    size_t n = 0;
    unsigned type = 0;
    zoo_add(t, &n, RF_DT_Q5_1, ZOO_VOCAB, ZOO_EMBD, "token_embd", -1);
    zoo_add(t, &n, RF_DT_F32, 0, ZOO_EMBD, "output_norm", -1);
    zoo_add(t, &n, RF_DT_Q6_K, ZOO_VOCAB, ZOO_EMBD, "output", -1);
    for (int il = 0; il < ZOO_LAYERS; il++) {
        zoo_add(t, &n, RF_DT_F32, 0, ZOO_EMBD, "attn_norm", il);
        zoo_add(t, &n, zoo_next_type(&type), ZOO_EMBD, ZOO_EMBD, "attn_q", il);
        zoo_add(t, &n, zoo_next_type(&type), ZOO_KV, ZOO_EMBD, "attn_k", il);
        zoo_add(t, &n, zoo_next_type(&type), ZOO_KV, ZOO_EMBD, "attn_v", il);
        zoo_add(t, &n, zoo_next_type(&type), ZOO_EMBD, ZOO_EMBD, "attn_output", il);
        zoo_add(t, &n, RF_DT_F32, 0, ZOO_EMBD, "ffn_norm", il);
        zoo_add(t, &n, zoo_next_type(&type), ZOO_FF, ZOO_EMBD, "ffn_gate", il);
        zoo_add(t, &n, zoo_next_type(&type), ZOO_FF, ZOO_EMBD, "ffn_up", il);
        zoo_add(t, &n, zoo_next_type(&type), ZOO_EMBD, ZOO_FF, "ffn_down", il);
    }
    assert_true(type >= RF_DT_COUNT); /* every format had its turn */
    return n;
}

/* Writes the model into the test's temporary directory and returns its path. */
static inline const char *zoo_write(void) {
    static char path[500];
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {{"llama.block_count", ZOO_LAYERS},    {"llama.context_length", 512},
                   {"llama.embedding_length", ZOO_EMBD}, {"llama.feed_forward_length", ZOO_FF},
                   {"llama.attention.head_count", 8},    {"llama.attention.head_count_kv", 4},
                   {"llama.rope.dimension_count", 32}};
    zoo_tensor t[3 + 9 * ZOO_LAYERS];
    size_t n = zoo_tensors(t);
    uint64_t seed = 11;
    rf_error e = {0};
    rf_gguf_writer *w = NULL;
    snprintf(path, sizeof path, "%s", rf_test_tmp("zoo.gguf"));
    must(rf_gguf_writer_open(&w, path, 32, &e), &e);
    must(rf_gguf_put_str(w, "general.architecture", RF_STR("llama"), &e), &e);
    for (size_t i = 0; i < RF_COUNT(numbers); i++) {
        must(rf_gguf_put_u32(w, numbers[i].key, numbers[i].value, &e), &e);
    }
    must(rf_gguf_put_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f, &e), &e);
    for (size_t i = 0; i < n; i++) {
        uint64_t ne[2] = {t[i].cols, t[i].rows};
        must(rf_gguf_declare(w, rf_str_of(t[i].name), t[i].type, t[i].rows ? 2 : 1, ne, &e), &e);
    }
    for (size_t i = 0; i < n; i++)
        zoo_write_data(w, &t[i], &seed);
    must(rf_gguf_writer_finish(w, &e), &e);
    return path;
}
