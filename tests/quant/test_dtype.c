/* test_dtype.c - the table of formats: sizes, ids, names, byte counts, and its page in docs/. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/testlib.h"
#include "quant/dtype.h"

static rf_dtype by_name(const char *name) {
    rf_dtype t;
    if (!rf_dtype_from_name(rf_str_of(name), &t)) fail_msg("no format called %s", name);
    return t;
}

static void expect_block(const char *name, uint32_t id, uint32_t elems, uint32_t bytes) {
    const rf_dtype_info *info = rf_dtype_get(by_name(name));
    if (info->id != id || info->block_elems != elems || info->block_bytes != bytes)
        fail_msg("%s is id %u, %u elements, %u bytes; expected %u, %u, %u", name, info->id,
                 info->block_elems, info->block_bytes, id, elems, bytes);
}

/* req: B-61, B-62, and section 3 of the requirements: the true sizes, where reviews had others. */
static void block_sizes_are_the_true_ones(void **state) {
    (void)state;
    expect_block("Q4_0", 2, 32, 18);
    expect_block("Q4_1", 3, 32, 20);
    expect_block("Q5_0", 6, 32, 22);
    expect_block("Q5_1", 7, 32, 24);
    expect_block("Q8_0", 8, 32, 34);
    expect_block("Q2_K", 10, 256, 84);
    expect_block("Q3_K", 11, 256, 110);
    expect_block("Q4_K", 12, 256, 144);
    expect_block("Q5_K", 13, 256, 176);
    expect_block("Q6_K", 14, 256, 210);
    expect_block("MXFP4", 39, 32, 17);
    /* 20, 21 and 22 are IQ types and nothing else; MXFP6 has private ids. */
    expect_block("IQ4_NL", 20, 32, 18);
    expect_block("IQ3_S", 21, 256, 110);
    expect_block("IQ2_S", 22, 256, 82);
    expect_block("MXFP6_E2M3", 0x52460001, 32, 25);
    expect_block("MXFP6_E3M2", 0x52460002, 32, 25);
}

/* req: C-14, B-48, B-57: no format of the list is refused, and all that hold weights decode. */
static void every_required_format_is_there(void **state) {
    (void)state;
    static const char *const names[] = {
        "F32",     "F16",    "BF16",  "F64",        "Q4_0",  "Q4_1",  "Q5_0",  "Q5_1",
        "Q8_0",    "Q8_1",   "Q2_K",  "Q3_K",       "Q4_K",  "Q5_K",  "Q6_K",  "Q8_K",
        "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS",    "IQ3_S", "IQ1_S", "IQ1_M", "IQ4_NL",
        "IQ4_XS",  "TQ1_0",  "TQ2_0", "MXFP4",      "NVFP4", "Q1_0",  "Q2_0",  "MXFP6_E2M3",
        "I8",      "I16",    "I32",   "MXFP6_E3M2", "I64",
    };
    assert_int_equal(RF_COUNT(names), RF_DT_COUNT);
    for (size_t i = 0; i < RF_COUNT(names); i++) {
        const rf_dtype_info *info = rf_dtype_get(by_name(names[i]));
        bool integer = names[i][0] == 'I' && isdigit((unsigned char)names[i][1]);
        assert_int_equal(info->decode == NULL, integer);
        assert_int_equal(info->unpack == NULL, info->view == RF_INT_NONE);
        assert_int_equal(info->is_block, info->block_elems > 1);
        assert_true(!info->is_nonneg || info->view != RF_INT_NONE);
    }
}

static void ids_and_names_lead_back(void **state) {
    (void)state;
    for (unsigned t = 0; t < RF_DT_COUNT; t++) {
        const rf_dtype_info *info = rf_dtype_get((rf_dtype)t);
        rf_dtype back = RF_DT_COUNT;
        assert_true(rf_dtype_from_id(info->id, &back));
        assert_int_equal(back, t); /* so no id occurs twice */
        back = RF_DT_COUNT;
        char lower[32];
        size_t n = strlen(info->name);
        for (size_t i = 0; i <= n; i++)
            lower[i] = (char)tolower((unsigned char)info->name[i]);
        assert_true(rf_dtype_from_name((rf_str){lower, n}, &back));
        assert_int_equal(back, t);
    }
}

/* req: C-15: an id from a file that means nothing is refused, also those that ggml removed. */
static void unknown_ids_and_names_are_refused(void **state) {
    (void)state;
    static const uint32_t ids[] = {4,  5,  31,  32,  33,         36,         37,        38,
                                   43, 44, 255, 256, 0x52460000, 0x52460003, UINT32_MAX};
    rf_dtype t;
    for (size_t i = 0; i < RF_COUNT(ids); i++)
        if (rf_dtype_from_id(ids[i], &t)) fail_msg("id %u was accepted", ids[i]);
    static const char *const names[] = {"", "Q", "Q4", "Q4_", "Q4_K ", " Q4_K", "Q4_KM", "MXFP6"};
    for (size_t i = 0; i < RF_COUNT(names); i++)
        if (rf_dtype_from_name(rf_str_of(names[i]), &t)) fail_msg("'%s' was accepted", names[i]);
    assert_false(rf_dtype_from_name((rf_str){"Q4_K\0", 5}, &t));
    assert_false(rf_dtype_from_name((rf_str){"f3\x12", 3}, &t)); /* '2' with bit 5 cleared */
}

static void expect_bytes(rf_dtype t, uint64_t n, size_t expected) {
    size_t bytes = 1;
    assert_true(rf_dtype_bytes(t, n, &bytes));
    assert_int_equal(bytes, expected);
}

/* req: B-44: sizes come from elements and bytes of a block, never one taken for the other. */
static void bytes_follow_from_blocks(void **state) {
    (void)state;
    expect_bytes(RF_DT_F32, 7, 28);
    expect_bytes(RF_DT_I8, 7, 7);
    expect_bytes(RF_DT_Q4_0, 0, 0);
    expect_bytes(RF_DT_Q4_0, 32, 18);
    expect_bytes(RF_DT_Q4_0, 4096 * 32, 4096 * 18);
    expect_bytes(RF_DT_Q4_K, 1024, 576);
    expect_bytes(RF_DT_Q1_0, 256, 36);
    for (unsigned t = 0; t < RF_DT_COUNT; t++) {
        const rf_dtype_info *info = rf_dtype_get((rf_dtype)t);
        expect_bytes((rf_dtype)t, UINT64_C(3) * info->block_elems, (size_t)3 * info->block_bytes);
    }
}

/* req: B-46: a part of a block is refused. */
static void parts_of_blocks_are_refused(void **state) {
    (void)state;
    size_t bytes;
    for (unsigned t = 0; t < RF_DT_COUNT; t++) {
        uint32_t elems = rf_dtype_get((rf_dtype)t)->block_elems;
        for (uint32_t n = 1; n < elems; n++)
            assert_false(rf_dtype_bytes((rf_dtype)t, 5 * (uint64_t)elems + n, &bytes));
    }
}

/* req: B-41: a size that does not fit is an error and never wraps. */
static void overflow_is_refused(void **state) {
    (void)state;
    size_t bytes;
    assert_false(rf_dtype_bytes(RF_DT_F32, UINT64_MAX, &bytes));
    assert_false(rf_dtype_bytes(RF_DT_F32, UINT64_C(1) << 62, &bytes));
    expect_bytes(RF_DT_F32, (UINT64_C(1) << 62) - 1, SIZE_MAX - 3);
    assert_false(rf_dtype_bytes(RF_DT_F64, UINT64_C(1) << 61, &bytes));
    assert_false(rf_dtype_bytes(RF_DT_Q8_0, UINT64_MAX - 31, &bytes));
    assert_false(rf_dtype_bytes(RF_DT_Q8_K, UINT64_MAX - 255, &bytes));
    expect_bytes(RF_DT_I8, UINT64_MAX, SIZE_MAX);
    expect_bytes(RF_DT_Q4_0, UINT64_MAX - 31, ((UINT64_C(1) << 59) - 1) * 18);
}

/* One row of the page: "| NAME | id | elements | bytes | bits per weight | ..." */
static bool parse_row(const char *line, char name[32], uint32_t v[3], double *bits) {
    unsigned id, elems, bytes;
    if (sscanf(line, "| %31[A-Z0-9_] | %u | %u | %u | %lf |", name, &id, &elems, &bytes, bits) != 5)
        return false;
    v[0] = id;
    v[1] = elems;
    v[2] = bytes;
    return true;
}

static void documentation_agrees_with_the_table(void **state) {
    (void)state;
    FILE *f = fopen(RF_SOURCE_DIR "/docs/formats.md", "r");
    if (!f) fail_msg("cannot open docs/formats.md");
    int seen[RF_DT_COUNT] = {0};
    char line[400], name[32];
    uint32_t v[3];
    double bits;
    while (fgets(line, sizeof line, f)) {
        if (!parse_row(line, name, v, &bits)) continue;
        expect_block(name, v[0], v[1], v[2]);
        double expected = 8.0 * v[2] / v[1];
        if (bits < expected - 0.0005 || bits > expected + 0.0005)
            fail_msg("docs/formats.md: %s has %g bits per weight, not %g", name, expected, bits);
        seen[by_name(name)]++;
    }
    fclose(f);
    for (unsigned t = 0; t < RF_DT_COUNT; t++)
        if (seen[t] != 1)
            fail_msg("docs/formats.md has %d rows of %s", seen[t], rf_dtype_get((rf_dtype)t)->name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_sizes_are_the_true_ones),
        cmocka_unit_test(every_required_format_is_there),
        cmocka_unit_test(ids_and_names_lead_back),
        cmocka_unit_test(unknown_ids_and_names_are_refused),
        cmocka_unit_test(bytes_follow_from_blocks),
        cmocka_unit_test(parts_of_blocks_are_refused),
        cmocka_unit_test(overflow_is_refused),
        cmocka_unit_test(documentation_agrees_with_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
