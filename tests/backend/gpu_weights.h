/* gpu_weights.h - random weights of any format for tests of the GPU's kernels. */
#pragma once
#include <math.h>
#include <string.h>

#include "backend/gpu/pack.h"
#include "base/fmath.h"
#include "lib/testlib.h"

/* Bytes that decode to moderate numbers. */
static inline void random_block(const rf_dtype_info *info, uint8_t *p, uint64_t *rng) {
    float w[256];
    bool usable;
    do {
        for (uint32_t i = 0; i < info->block_bytes; i++)
            p[i] = (uint8_t)(rf_test_rand(rng) >> 40);
        info->decode(p, w, info->block_elems);
        usable = true;
        for (uint32_t i = 0; i < info->block_elems; i++)
            usable = usable && fabsf(w[i]) <= 1e9f;
    } while (!usable);
}

static inline void random_scalar(rf_dtype t, uint8_t *p, uint64_t *rng) {
    float f = rf_test_randf(rng);
    double d = (double)f;
    uint16_t h = t == RF_DT_BF16 ? rf_f32_to_bf16(f) : rf_f32_to_f16(f);
    if (t == RF_DT_F32)
        memcpy(p, &f, sizeof f);
    else if (t == RF_DT_F64)
        memcpy(p, &d, sizeof d);
    else
        memcpy(p, &h, sizeof h);
}

/* [planes][rows][cols]; free data with rf_free. */
static inline rf_tensor random_weight(rf_dtype t, uint32_t planes, uint32_t rows, uint32_t cols,
                                      uint64_t *rng) {
    const rf_dtype_info *info = rf_dtype_get(t);
    size_t row_bytes;
    assert_true(rf_dtype_bytes(t, cols, &row_bytes));
    uint8_t *data = rf_alloc((size_t)planes * rows, row_bytes);
    assert_non_null(data);
    for (size_t b = 0; b < (size_t)planes * rows * (cols / info->block_elems); b++) {
        if (info->is_block)
            random_block(info, data + b * info->block_bytes, rng);
        else
            random_scalar(t, data + b * info->block_bytes, rng);
    }
    return (rf_tensor){.name = RF_STR("w"),
                       .type = t,
                       .cols = cols,
                       .rows = rows,
                       .planes = planes,
                       .row_bytes = row_bytes,
                       .data = data};
}

/* Blocks of Q8_0 with -127 where they have -128, which quantising does not make and which keep.c has no room for. */
static inline void without_128(uint8_t *blocks, size_t n) {
    const size_t size = rf_dtype_get(RF_DT_Q8_0)->block_bytes, scale = 2;
    for (size_t at = 0; at < n; at++)
        if (at % size >= scale && blocks[at] == 128) blocks[at]++;
}

/* The tensor as the device has it for products or as a table, in a block of host memory; free with rf_free. */
static inline uint8_t *packed_weight(const rf_tensor *w, rf_gpu_layout *l, bool is_table) {
    rf_error e = {RF_OK, ""};
    if (rf_gpu_layout_of(l, w, &e) != RF_OK) fail_msg("%s", e.text);
    if (is_table) l->rounds = false;
    uint8_t *block = rf_alloc(l->bytes, 1);
    float *scratch = rf_alloc(w->cols, sizeof *scratch);
    assert_true(block && scratch);
    rf_gpu_pack(l, w, 0, rf_gpu_layout_tiles(l), block, scratch);
    rf_free(scratch);
    return block;
}

/* Formats that a product takes: all that decode. */
static inline bool is_weight_type(rf_dtype t) { return rf_dtype_get(t)->decode != NULL; }
