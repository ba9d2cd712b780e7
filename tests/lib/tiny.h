/* tiny.h - a decoder of random F32 weights made in memory, with any heads and attention patterns.
 *
 * For tests of single ops: the model's fields may be changed until a plan is built over it. */
#pragma once
#include "lib/testlib.h"
#include "model/model.h"

typedef struct rf_test_tiny {
    rf_model m;       /* 32 tokens, FFN of 24, rope over whole heads, causal */
    rf_tensor *table; /* every weight, and their values, in one piece each */
    float *values;
    size_t n_tensors, n_values;
    uint64_t seed;
} rf_test_tiny;

/* The width is n_heads * head_dim. */
void rf_test_tiny_make(rf_test_tiny *t, uint32_t n_layers, uint32_t n_heads, uint32_t n_kv_heads,
                       uint32_t head_dim);
void rf_test_tiny_free(rf_test_tiny *t);
