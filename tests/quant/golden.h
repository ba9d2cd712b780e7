/* golden.h - the golden blocks of tests/data/quant, read through their index.
 *
 * A golden owns its blocks (rf_free); the index names how many there are and the hash of the exact
 * float32 bytes they decode to.  Written by tools/make_quant_fixtures.py. */
#pragma once
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/testlib.h"
#include "quant/dtype.h"

#define MAX_GOLDEN 64

typedef struct golden {
    rf_dtype type;
    const rf_dtype_info *info;
    uint8_t *blocks; /* [n_blocks][block_bytes] */
    size_t n_blocks, n_bytes, n_elems;
    uint64_t hash;
} golden;

static inline uint64_t fnv1a(const void *p, size_t n) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const uint8_t *)p)[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Formats of 16 bits whose fixture is simply every code in turn. */
static inline uint8_t *every_code(size_t n_codes) {
    uint8_t *p = (uint8_t *)rf_alloc(n_codes, 2);
    assert_non_null(p);
    for (size_t i = 0; i < n_codes; i++) {
        p[2 * i] = (uint8_t)i;
        p[2 * i + 1] = (uint8_t)(i >> 8);
    }
    return p;
}

static inline golden load_golden(const char *name, size_t n_blocks, uint64_t hash,
                                 const char *source) {
    golden g = {.n_blocks = n_blocks, .hash = hash};
    if (!rf_dtype_from_name(rf_str_of(name), &g.type)) fail_msg("index names %s", name);
    g.info = rf_dtype_get(g.type);
    g.n_bytes = n_blocks * g.info->block_bytes;
    g.n_elems = n_blocks * g.info->block_elems;
    if (strcmp(source, "codes") == 0) {
        assert_int_equal(g.info->block_bytes, 2);
        g.blocks = every_code(n_blocks);
    } else {
        char relative[80];
        size_t n = 0;
        snprintf(relative, sizeof relative, "quant/%s.blk", name);
        g.blocks = rf_test_read(rf_test_data(relative), &n);
        assert_int_equal(n, g.n_bytes);
    }
    return g;
}

/* Fills out[MAX_GOLDEN] and returns how many there are. */
static inline size_t load_goldens(golden *out) {
    FILE *f = fopen(rf_test_data("quant/index.txt"), "r");
    if (!f) fail_msg("cannot open the index of golden blocks");
    char name[32], source[8];
    size_t n = 0, n_blocks;
    uint64_t hash;
    while (fscanf(f, "%31s %zu %" SCNx64 " %7s", name, &n_blocks, &hash, source) == 4) {
        assert_true(n < MAX_GOLDEN);
        out[n++] = load_golden(name, n_blocks, hash, source);
    }
    fclose(f);
    return n;
}

static inline void free_goldens(golden *g, size_t n) {
    for (size_t i = 0; i < n; i++)
        rf_free(g[i].blocks);
}

static inline uint32_t float_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
