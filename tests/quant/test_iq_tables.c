/* test_iq_tables.c - the code books, entry by entry: the golden blocks do not reach every index. */
#include "golden.h"
#include "quant/iq_tables.h"

typedef struct grid {
    const char *name;
    const void *entries;
    size_t n_bytes;
    int8_t offset; /* added to the true values in our table */
} grid;

static const grid grids[] = {
    {"iq1s_grid", rf_iq1s_grid, sizeof rf_iq1s_grid, 1},
    {"iq2s_grid", rf_iq2s_grid, sizeof rf_iq2s_grid, 0},
    {"iq2xs_grid", rf_iq2xs_grid, sizeof rf_iq2xs_grid, 0},
    {"iq2xxs_grid", rf_iq2xxs_grid, sizeof rf_iq2xxs_grid, 0},
    {"iq3s_grid", rf_iq3s_grid, sizeof rf_iq3s_grid, 0},
    {"iq3xxs_grid", rf_iq3xxs_grid, sizeof rf_iq3xxs_grid, 0},
};

static const grid *grid_by_name(const char *name) {
    for (size_t i = 0; i < RF_COUNT(grids); i++)
        if (strcmp(grids[i].name, name) == 0) return &grids[i];
    fail_msg("grids.txt names %s", name);
    return NULL;
}

static uint64_t hash_of(const grid *g) {
    int8_t *values = (int8_t *)rf_alloc(g->n_bytes, 1);
    assert_non_null(values);
    memcpy(values, g->entries, g->n_bytes);
    for (size_t i = 0; i < g->n_bytes; i++)
        values[i] = (int8_t)(values[i] - g->offset);
    uint64_t hash = fnv1a(values, g->n_bytes);
    rf_free(values);
    return hash;
}

/* req: C-14 */
static void grids_are_the_published_ones(void **state) {
    (void)state;
    FILE *f = fopen(rf_test_data("quant/grids.txt"), "r");
    if (!f) fail_msg("cannot open the hashes of the code books");
    char name[32];
    size_t n_bytes, n_seen = 0;
    uint64_t hash;
    while (fscanf(f, "%31s %zu %" SCNx64, name, &n_bytes, &hash) == 3) {
        const grid *g = grid_by_name(name);
        assert_int_equal(g->n_bytes, n_bytes);
        if (hash_of(g) != hash) fail_msg("%s differs from the published code book", name);
        n_seen++;
    }
    fclose(f);
    assert_int_equal(n_seen, RF_COUNT(grids));
}

/* rf_negate_bytes needs values of 1..127, and the IQ1 arithmetic values of 0..2. */
static void values_are_in_the_range_that_the_code_relies_on(void **state) {
    (void)state;
    for (size_t i = 0; i < RF_COUNT(grids); i++) {
        const uint8_t *v = (const uint8_t *)grids[i].entries;
        for (size_t k = 0; k < grids[i].n_bytes; k++)
            assert_true(grids[i].offset == 1 ? v[k] <= 2 : v[k] >= 1 && v[k] <= 127);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids_are_the_published_ones),
        cmocka_unit_test(values_are_in_the_range_that_the_code_relies_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
