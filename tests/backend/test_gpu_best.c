/* test_gpu_best.c - the GPU kernels that tell the best of a row of logits, drawn ones too, against their definition: equal
 * bits. */
#include "backend/noise.h"
#include "backend/on_gpu.h"

/* The best of a row, from its definition: the RF_BEST_SURE-th best of the groups' best numbers, and all
 * groups that reach it. */
static void best_on_cpu(const float *x, uint32_t n, const rf_noise *noise, rf_best *out) {
    uint32_t n_groups = (n + RF_BEST_GROUP - 1) / RF_BEST_GROUP;
    float *most = rf_alloc(n_groups, sizeof *most);
    for (uint32_t g = 0; g < n_groups; g++) {
        most[g] = -INFINITY;
        for (uint32_t k = g * RF_BEST_GROUP; k < n && k < (g + 1) * RF_BEST_GROUP; k++)
            if (isfinite(x[k]) && x[k] > most[g]) most[g] = x[k];
    }
    *out = (rf_best){.bound = -INFINITY, .first = RF_BEST_NONE};
    out->first = rf_noise_first(noise, x, n);
    for (uint32_t g = 0; g < n_groups; g++) {
        uint32_t n_reach = 0;
        for (uint32_t other = 0; other < n_groups; other++)
            n_reach += most[other] >= most[g];
        if (n_reach >= RF_BEST_SURE && most[g] > out->bound) out->bound = most[g];
    }
    for (uint32_t g = 0; g < n_groups; g++) {
        if (!(most[g] >= out->bound)) continue;
        uint32_t i = out->n_groups++;
        if (i >= RF_BEST_GROUPS) continue;
        out->group[i] = g;
        for (uint32_t k = 0; k < RF_BEST_GROUP; k++)
            out->x[i][k] = g * RF_BEST_GROUP + k < n ? x[g * RF_BEST_GROUP + k] : -INFINITY;
    }
    rf_free(most);
}

enum { BEST_MANY, BEST_TIES, BEST_ALIKE, BEST_BROKEN, BEST_NONE, BEST_KINDS };

static void fill_best(float *x, uint32_t n, int kind) {
    for (uint32_t i = 0; i < n; i++) {
        if (kind == BEST_TIES) x[i] = floorf(x[i] * 1000) / 1000 - 0.25f;
        if (kind == BEST_ALIKE) x[i] = -0.5f;
        if (kind == BEST_BROKEN && i % 3 == 0) x[i] = i % 2 ? NAN : i % 4 ? INFINITY : -INFINITY;
        if (kind == BEST_BROKEN && i > n / 2) x[i] = -INFINITY;
        if (kind == BEST_NONE) x[i] = i % 2 ? NAN : i % 4 ? INFINITY : -INFINITY;
    }
}

/* draws: some rows have noise, else there are other kernels. */
static void test_best_of(bool draws) {
    static const uint32_t cols[] = {64 * 64, 64 * 64 + 1, 8230, 151936 / 8 + 3};
    enum { ROWS = 9, COUNT = RF_NARROWS_COUNT };
    for (size_t c = 0; c < RF_COUNT(cols); c++)
        for (int kind = 0; kind < BEST_KINDS; kind++) {
            uint32_t n = cols[c], n_groups = rf_gpu_best_groups(n);
            float *x = random_floats((size_t)ROWS * n, 1);
            rf_best *got = rf_alloc(ROWS, sizeof *got), *want = rf_alloc(1, sizeof *want);
            fill_best(x, ROWS * n, kind);
            uint32_t first[ROWS], chosen[ROWS];
            rf_noise noise[ROWS] = {
                {.scale = 0},
                {.scale = 0, .seed = {7, 8}, .narrows = RF_NARROWS_SHARE},
                {.scale = 2, .draw = (uint32_t)kind},
                {.scale = 0.5f, .draw = 1, .narrows = RF_NARROWS_SHARE, .share = 0x50000000u},
                {.scale = 0.25f, .narrows = RF_NARROWS_DEPTH, .depth = -0.125f},
                {.scale = 0.5f, .narrows = 3, .share = 0x20000000u, .depth = -1, .seed = {1}},
                {.scale = 0.5f, .narrows = COUNT, .count = RF_BEST_SURE, .draw = 4},
                {.scale = 1, .narrows = COUNT | 1, .count = 40, .share = 0xf0000000u, .seed = {2}},
                {.scale = 0.1f, .narrows = COUNT | 3, .count = 3, .share = ~0u, .depth = -1e-3f},
            };
            rf_gpu_best_args args = {.dst = take(ROWS * sizeof *got),
                                     .first = take(sizeof first),
                                     .chosen = take(sizeof chosen),
                                     .most = take((size_t)3 * ROWS * n_groups * sizeof(float)),
                                     .x = up(x, (size_t)ROWS * n * sizeof *x),
                                     .noise = draws ? up(noise, sizeof noise) : NULL,
                                     .n_rows = ROWS,
                                     .cols = n,
                                     .n_groups = n_groups};
            rf_gpu_op_best(&queue, &args);
            rf_gpu_download(&queue, got, args.dst, ROWS * sizeof *got);
            rf_gpu_download(&queue, first, args.first, sizeof first);
            rf_gpu_download(&queue, chosen, args.chosen, sizeof chosen);
            rf_gpu_wait(&queue);
            for (uint32_t r = 0; r < ROWS; r++) {
                if (!draws) noise[r].scale = 0;
                best_on_cpu(x + (size_t)r * n, n, &noise[r], want);
                assert_int_equal(got[r].first, want->first);
                assert_int_equal(first[r], want->first);
                assert_int_equal(chosen[r], want->first);
                if (noise[r].scale > 0) continue;
                assert_int_equal(got[r].n_groups, want->n_groups);
                assert_true(got[r].bound == want->bound);
                if (want->n_groups > RF_BEST_GROUPS) continue;
                assert_true(kind != BEST_ALIKE || n_groups == RF_BEST_GROUPS);
                assert_memory_equal(got[r].group, want->group,
                                    want->n_groups * sizeof *want->group);
                assert_memory_equal(got[r].x, want->x, want->n_groups * sizeof *want->x);
            }
            rf_free(x);
            rf_free(got);
            rf_free(want);
            give_all();
        }
}

static void test_best(void **state) {
    (void)state;
    test_best_of(true);
    test_best_of(false);
    assert_int_equal(rf_gpu_best_groups(63 * 64), 0);
    assert_int_equal(rf_gpu_best_groups(4096 * 64 + 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_best)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
