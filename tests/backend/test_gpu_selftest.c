/* test_gpu_selftest.c - the self-test of the GPU's kernels on the host device: it reaches every kernel,
 * those of AMD's and NVIDIA's GPUs on a device that only seems to be one; it names one that is wrong,
 * and the backend then goes on without it or says that it cannot.  With RF_GPU_LIBRARY set: all kernels
 * of that device are right.  RF_TEST_SMALL leaves out whole self-tests. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/gpu/code.h"
#include "backend/gpu/exec.h"
#include "backend/gpu/quarantine.h"
#include "backend/gpu/trial.h"
#include "backend/selftest.h"
#include "backend/session.h"
#include "gpuemu/host/faulty.h"
#include "gpuemu/host/host.h"
#include "gpuemu/host/idle.h"

enum { ROWS = 1 << RF_GPU_TRIAL_ROWS, STATES = 1 << RF_GPU_TRIAL_STATES };

static char folder[] = "/tmp/rf_selftest_XXXXXX",
            verdicts[600]; /* verdicts: the latest, a file in it */

/* kinds: as in rf_selftest_opts. */
static rf_selftest *run(const char *spoilt, uint32_t kinds) {
    rf_selftest *t = NULL;
    rf_error e = {0};
    const rf_selftest_opts o = {.seed = 7, .quick = true, .kinds = kinds};
    rf_faulty_spoil(spoilt);
    must(rf_selftest_run(&t, &o, &e), &e);
    snprintf(verdicts, sizeof verdicts, "%s", t->path);
    return t;
}

static const rf_kernel_verdict *verdict(const rf_selftest *t, const char *name) {
    for (size_t i = 0; i < t->n_kernels; i++)
        if (strcmp(t->kernels[i].name, name) == 0) return &t->kernels[i];
    fail_msg("no kernel %s", name);
    return NULL;
}

/* Kernels that only tall weights, experts in all formats, or few rows on a large device reach, which a quick test
 * leaves out. */
static bool is_tall(const char *name) {
    if (strncmp(name, "rf_mix_", 7) == 0 || strncmp(name, "rf_choose_", 10) == 0) return true;
    if (strcmp(name, "rf_attend_halves_quant") == 0) return true;
    size_t n = strlen(name);
    bool is_single = strncmp(name, "rf_vec_", 7) == 0 && strcmp(name + n - 2, "_1") == 0;
    bool is_best = strncmp(name, "rf_best_", 8) == 0 || strncmp(name, "rf_drawn_", 9) == 0;
    return is_single || is_best; /* results as long as a vocabulary */
}

/* req: C-08: all kernels are met, and all are right */
static void test_sound(void **state) {
    (void)state;
    rf_selftest *t = run(NULL, 0);
    assert_int_equal(t->n_failed, 0);
    for (size_t i = 0; i < t->n_kernels; i++)
        if (t->kernels[i].n_cases == 0 && !is_tall(t->kernels[i].name))
            fail_msg("%s was not tested", t->kernels[i].name);
    assert_true(verdict(t, "rf_attend_1")->formats >> RF_DT_Q8_0 & 1);
    assert_true(verdict(t, "rf_choose_256_40")->formats >> RF_DT_Q4_K & 1);
    assert_true(verdict(t, "rf_vec_256_42_4")->formats >> RF_DT_Q6_K & 1);
    assert_int_equal(strncmp(t->path, folder, strlen(folder)), 0);
    rf_selftest_free(t);
    rf_backend *b = NULL;
    rf_error e = {0};
    must(rf_gpu_ops.open(&b, NULL, &e), &e);
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++)
        assert_false(b->queue.left_out[k]);
    rf_gpu_ops.close(b);
}

/* A full test meets every kernel that such a device's code has, whatever it computes. */
static void check_all_met(const char *arch, const char *target, uint32_t n_units) {
    static const char code[] = "none";
    const rf_gpu_code codes[] = {{target, code, code + sizeof code, false},
                                 {NULL, NULL, NULL, false}};
    const rf_selftest_opts o = {.seed = 9};
    rf_selftest *t = NULL;
    rf_error e = {0};
    uint32_t n_unmet = 0;
    rf_gpu_codes_set(codes);
    rf_gpu_driver_set(rf_idle_gpu(arch, n_units));
    must(rf_selftest_run(&t, &o, &e), &e);
    for (size_t i = 0; i < t->n_kernels; i++) {
        if (t->kernels[i].n_cases > 0) continue;
        print_message("%s, %u units: %s was not met\n", target, n_units, t->kernels[i].name);
        n_unmet++;
    }
    print_message("%s, %u units: %zu kernels in %.1f s\n", target, n_units, t->n_kernels,
                  t->seconds);
    unlink(t->path);
    rf_selftest_free(t);
    rf_gpu_codes_set(NULL);
    rf_gpu_driver_set(rf_faulty_gpu(rf_host_gpu()));
    assert_int_equal(n_unmet, 0);
}

/* A whole test of the kinds of which it is short, recorded batches with states that go on among them. */
static void test_whole(void **state) {
    (void)state;
    const rf_selftest_opts o = {.seed = 11, .kinds = ROWS | STATES};
    rf_selftest *t = NULL;
    rf_error e = {0};
    must(rf_selftest_run(&t, &o, &e), &e);
    assert_int_equal(t->n_failed, 0);
    assert_true(verdict(t, "rf_delta")->n_cases > 0 && verdict(t, "rf_norm_rows")->n_cases > 0);
    rf_selftest_free(t);
}

/* req: C-08 */
static void test_all_met(void **state) {
    (void)state;
    check_all_met("sm_90", "sm_90a", 132);
    check_all_met("gfx942", "gfx942", 304);
}

/* The device's own code objects.  What a quick test leaves out the host device is tested on, and on large devices its small
 * shapes are for the kernels of few blocks. */
static void test_device(void **state) {
    (void)state;
    enum { SMALL_BATCH = 256 }; /* what devices of up to 32 multiprocessors take at once */
    rf_selftest *t = run(NULL, 0);
    const bool is_large = t->gpu.usual_batch > SMALL_BATCH;
    print_message("%s: %zu kernels in %.1f s\n", t->gpu.arch, t->n_kernels, t->seconds);
    for (size_t i = 0; i < t->n_kernels; i++) {
        const rf_kernel_verdict *v = &t->kernels[i];
        if (v->n_failed) fail_msg("%s: %s", v->name, v->text);
        if (v->n_cases == 0 && !is_large && !is_tall(v->name))
            fail_msg("%s was not tested", v->name);
    }
    unlink(t->path);
    rf_selftest_free(t);
}

/* The model gives the CPU's logits although the kernel is still wrong: it is not used. */
static void check_goes_on(rf_gpu_kernel kernel) {
    rf_error e = {0};
    rf_model *m = open_model(rf_test_data("models/qwen3moe-quant.gguf"));
    session_opts o = session_defaults();
    session gpu = {.ops = &rf_gpu_ops, .limits = o.limits, .n_vocab = m->n_vocab};
    must(rf_plan_build(&gpu.p, m, NULL, &e), &e);
    must(rf_gpu_ops.open(&gpu.b, NULL, &e), &e);
    must(rf_gpu_ops.compile(&gpu.x, gpu.b, gpu.p, &o.limits, &e), &e);
    session cpu = open_session(m, &o);
    assert_true(gpu.b->queue.left_out[kernel]);
    int32_t token[40];
    uint64_t seed = 5;
    random_tokens(token, 40, m->n_vocab, &seed);
    float *want = logits_of(&cpu, token, 40, 40), *got = logits_of(&gpu, token, 40, 40);
    assert_memory_equal(got, want, (size_t)40 * m->n_vocab * sizeof *want);
    assert_false(gpu.b->queue.launched[kernel]);
    rf_free(want);
    rf_free(got);
    close_session(&gpu);
    close_session(&cpu);
    rf_model_close(m);
}

/* A wrong kernel is named, alone, and left out from then on. */
static void test_wrong_kernel(void **state) {
    (void)state;
    static const rf_gpu_kernel wrong[] = {RF_GPU_vec_32_80_4,        RF_GPU_lists,
                                          RF_GPU_attend_fold,        RF_GPU_router_normed,
                                          RF_GPU_choose_32_80,       RF_GPU_attend_halves,
                                          RF_GPU_attend_halves_tile, RF_GPU_attend_ints_tile,
                                          RF_GPU_norm_parts,         RF_GPU_quant_parts,
                                          RF_GPU_kv_halves};
    static const uint32_t kinds[] = {
        1u << RF_GPU_TRIAL_PRODUCTS, 1u << RF_GPU_TRIAL_EXPERTS, 1u << RF_GPU_TRIAL_HEADS,
        1u << RF_GPU_TRIAL_EXPERTS,  1u << RF_GPU_TRIAL_EXPERTS, 1u << RF_GPU_TRIAL_HEADS,
        1u << RF_GPU_TRIAL_HEADS,    1u << RF_GPU_TRIAL_HEADS,   1u << RF_GPU_TRIAL_ROWS,
        1u << RF_GPU_TRIAL_ROWS,     1u << RF_GPU_TRIAL_HEADS};
    for (size_t i = 0; i < RF_COUNT(wrong); i++) {
        const char *name = rf_gpu_kernel_name(wrong[i]);
        rf_selftest *t = run(name, kinds[i]);
        assert_true(verdict(t, name)->n_failed > 0);
        assert_true(verdict(t, name)->text[0] != 0);
        for (size_t k = 0; k < t->n_kernels; k++)
            if (t->kernels[k].n_failed && strcmp(t->kernels[k].name, name) != 0)
                fail_msg("%s is blamed for %s: %s", t->kernels[k].name, name, t->kernels[k].text);
        rf_selftest_free(t);
        check_goes_on(wrong[i]);
    }
    rf_selftest_free(run(NULL, ROWS)); /* sound again: the verdict is lifted */
}

/* req: B-11: one that nothing can stand in for: the backend refuses, and says why */
static void test_no_substitute(void **state) {
    (void)state;
    rf_selftest *t = run("rf_each", ROWS);
    assert_true(verdict(t, "rf_each")->n_failed > 0);
    assert_int_equal(verdict(t, "rf_mix")->n_failed, 0);
    rf_selftest_free(t);
    rf_backend *b = NULL;
    rf_error e = {0};
    assert_int_equal(rf_gpu_ops.open(&b, NULL, &e), RF_EUNSUPPORTED);
    assert_null(b);
    assert_non_null(strstr(e.text, "rf_each"));
    rf_selftest_free(run(NULL, ROWS));
    e = (rf_error){0};
    must(rf_gpu_ops.open(&b, NULL, &e), &e);
    rf_gpu_ops.close(b);
}

/* A kernel whose launch fails is named, and the rest is still tested. */
static void test_fault(void **state) {
    (void)state;
    rf_selftest *t = NULL;
    rf_error e = {0};
    const rf_selftest_opts o = {.seed = 8, .quick = true, .kinds = ROWS | 1u << RF_GPU_TRIAL_HEADS};
    rf_faulty_launch(3, 1);
    must(rf_selftest_run(&t, &o, &e), &e);
    assert_int_equal(t->n_failed, 1);
    assert_true(verdict(t, "rf_attend_1")->n_cases > 0);
    rf_selftest_free(t);
}

/* Verdicts of another kind, torn or of other kernels leave nothing out. */
static void test_strange_verdicts(void **state) {
    (void)state;
    static const char *const texts[] = {"", "rf_mix\n", "rocmforge selftest 1\nrf_mi\n",
                                        "rocmforge selftest 1\nrf_no_such_kernel\n\n\n"};
    rf_selftest *t = run(NULL, ROWS);
    for (size_t i = 0; i < RF_COUNT(texts); i++) {
        FILE *f = fopen(t->path, "w");
        assert_non_null(f);
        fputs(texts[i], f);
        fclose(f);
        rf_backend *b = NULL;
        rf_error e = {0};
        must(rf_gpu_ops.open(&b, NULL, &e), &e);
        for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++)
            assert_false(b->queue.left_out[k]);
        rf_gpu_ops.close(b);
    }
    unlink(t->path);
    rf_selftest_free(t);
}

static int open_all(void **state) {
    (void)state;
    strcpy(strrchr(folder, '_') + 1, "XXXXXX"); /* each group has its own */
    if (!mkdtemp(folder)) return -1;
    if (!getenv("RF_GPU_LIBRARY")) rf_gpu_driver_set(rf_faulty_gpu(rf_host_gpu()));
    return setenv("XDG_CACHE_HOME", folder, 1);
}

static int close_all(void **state) {
    (void)state;
    char path[100];
    unlink(verdicts);
    snprintf(path, sizeof path, "%s/rocmforge", folder);
    rmdir(path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest parts[] = {
        cmocka_unit_test(test_no_substitute),
        cmocka_unit_test(test_fault),
        cmocka_unit_test(test_strange_verdicts),
    };
    const struct CMUnitTest whole[] = {
        cmocka_unit_test(test_sound),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_all_met),
        cmocka_unit_test(test_wrong_kernel),
    };
    const struct CMUnitTest on_device[] = {cmocka_unit_test(test_device)};
    if (getenv("RF_GPU_LIBRARY")) return cmocka_run_group_tests(on_device, open_all, close_all);
    int n_failed = cmocka_run_group_tests(parts, open_all, close_all);
    if (!getenv("RF_TEST_SMALL")) n_failed += cmocka_run_group_tests(whole, open_all, close_all);
    return n_failed;
}
