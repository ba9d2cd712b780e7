/* test_code.c - the project's own code objects, every target of the build, without running them: each
 * kernel of kernels.def is there, each instruction is one that the emulator knows, and registers,
 * shared memory and spills stay within budget.def; kernels bound by memory load wide (loads.def). */
#include "backend/gpu/code.h"
#include "gpuemu/fixture.h"

static const char *const targets[] = {RF_EMU_TARGETS};

enum { /* is a kernel only where matrix units are? */
#define X(name, args, block)            ON_MATRIX_##name = 0,
#define X_MATRIX(name, args, block)     ON_MATRIX_##name = 1,
#define X_AMD_MATRIX(name, args, block) ON_MATRIX_##name = 1,
#define X_NOT_AMD(name, args, block)
#define X_NVIDIA(name, args, block)
#define X_HOPPER(name, args, block)
#include "backend/gpu/kernels.def"
#undef X
};

static const struct {
    const char *name;
    bool on_matrix;
} kernels[] = {
#define X(name, args, block) {"rf_" #name, ON_MATRIX_##name},
#define X_NOT_AMD(name, args, block)
#define X_NVIDIA(name, args, block)
#define X_HOPPER(name, args, block)
#include "backend/gpu/kernels.def"
#undef X
#define X(name, kind, args) {"rf_" #name "_kind_" #kind, ON_MATRIX_##name},
#define X_NOT_AMD(name, kind, args)
#define X_HOPPER(name, kind, args)
#include "backend/gpu/kinds.def"
#undef X
};

static const struct budget {
    const char *name;
    uint32_t vgpr64, vgpr32, lds, sgpr_spills;
} budgets[] = {
#define X(name, vgpr64, vgpr32, lds, sgpr_spills) {#name, vgpr64, vgpr32, lds, sgpr_spills},
#include "gpuemu/budget.def"
#undef X
};

static const struct budget *budget_of(const char *kernel) {
    const struct budget *best = NULL;
    for (size_t k = 0; k < RF_COUNT(budgets); k++) {
        size_t n = strlen(budgets[k].name);
        if (!strncmp(kernel, budgets[k].name, n) && (!best || n > strlen(best->name)))
            best = &budgets[k];
    }
    if (!best) fail_msg("%s has no row in budget.def", kernel);
    return best;
}

#define N_TARGETS (RF_COUNT(targets) - 1)
static rf_emu_module *module[N_TARGETS]; /* for all tests: disassembling takes most of their time */

static int open_targets(void **state) {
    (void)state;
    for (size_t t = 0; t < N_TARGETS; t++) {
        char path[500];
        snprintf(path, sizeof path, "%s/%s.hsaco", RF_EMU_CODE, targets[t]);
        module[t] = open_module(path);
    }
    return 0;
}

static int close_targets(void **state) {
    (void)state;
    for (size_t t = 0; t < N_TARGETS; t++)
        rf_emu_module_close(module[t]);
    return 0;
}

/* Prints every excess before it fails. */
static void test_budgets(void **state) {
    (void)state;
    uint32_t bad = 0;
    for (size_t t = 0; t < N_TARGETS; t++) {
        rf_emu_module *m = module[t];
        bool has_matrix = rf_gpu_code_has_matrix(targets[t]);
        uint32_t n = 0;
        for (size_t k = 0; k < RF_COUNT(kernels); k++) {
            const char *name = kernels[k].name;
            if (kernels[k].on_matrix && !has_matrix) continue;
            n++;
            const rf_emu_kernel *have = rf_emu_kernel_find(m, name);
            if (!have) fail_msg("%s: no kernel %s", targets[t], name);
            const struct budget *may = budget_of(name);
            uint32_t vgpr = strncmp(targets[t], "gfx9", 4) ? may->vgpr32 : may->vgpr64;
            bool over = have->scratch_bytes || have->n_vgpr_spill || have->n_vgpr > vgpr ||
                        have->lds_bytes > may->lds || have->n_sgpr_spill > may->sgpr_spills;
            if (!over) continue;
            bad++;
            print_message(
                "%s %s: %u bytes of scratch, %u VGPRs spilled, %u VGPRs (may %u), %u bytes "
                "of LDS (%u), %u SGPRs spilled (%u)\n",
                targets[t], name, have->scratch_bytes, have->n_vgpr_spill, have->n_vgpr, vgpr,
                have->lds_bytes, may->lds, have->n_sgpr_spill, may->sgpr_spills);
        }
        assert_int_equal(rf_emu_module_kernels(m), n);
    }
    assert_int_equal(bad, 0);
}

static const struct loads {
    const char *name;
    uint32_t narrow, weights;
} loads[] = {
#define X(name, narrow, weights) {"rf_" #name, narrow, weights},
#include "gpuemu/loads.def"
#undef X
};

static bool is_on_matrix(const char *name) {
    for (size_t k = 0; k < RF_COUNT(kernels); k++)
        if (!strcmp(kernels[k].name, name)) return kernels[k].on_matrix;
    fail_msg("kernels.def has no %s", name);
    return false;
}

/* Prints what the loop costs, too: performance-notes.md has these figures. */
static void test_loads(void **state) {
    (void)state;
    uint32_t bad = 0;
    for (size_t t = 0; t < N_TARGETS; t++) {
        rf_emu_module *m = module[t];
        bool has_matrix = rf_gpu_code_has_matrix(targets[t]);
        for (size_t k = 0; k < RF_COUNT(loads); k++) {
            if (is_on_matrix(loads[k].name) && !has_matrix) continue;
            rf_emu_loop l;
            rf_error e = {0};
            const rf_emu_kernel *kernel = rf_emu_kernel_find(m, loads[k].name);
            if (!kernel) fail_msg("%s: no kernel %s", targets[t], loads[k].name);
            if (rf_emu_widest_loop(kernel, &l, &e) != RF_OK) fail_msg("%s", e.text);
            bool is_bad = l.wide == 0 || l.narrow > loads[k].narrow;
            bad += is_bad;
            print_message("%s %-16s %4u vector instructions (%.2f for each weight), %3u of shared "
                          "memory, %2u wide loads, %2u narrow%s, %3u VGPRs\n",
                          targets[t], loads[k].name, l.vector, l.vector / (double)loads[k].weights,
                          l.shared, l.wide, l.narrow, is_bad ? " (TOO MANY)" : "", kernel->n_vgpr);
        }
    }
    assert_int_equal(bad, 0);
}

static struct {
    const char *name[1000];
    size_t n;
} seen;

static void note_name(void *arg, const char *name) {
    (void)arg;
    for (size_t k = 0; k < seen.n; k++)
        if (!strcmp(seen.name[k], name)) return;
    assert_true(seen.n < RF_COUNT(seen.name));
    seen.name[seen.n++] = name;
}

static void test_instructions(void **state) {
    (void)state;
    uint32_t bad = 0;
    for (size_t t = 0; t < N_TARGETS; t++) {
        const char *unknown;
        for (size_t k = 0; (unknown = rf_emu_module_unknown(module[t], k)); k++, bad++)
            print_message("%s: not known: %s\n", targets[t], unknown);
        rf_emu_module_mnemonics(module[t], note_name, NULL);
    }
    print_message("%zu mnemonics on %zu targets\n", seen.n, N_TARGETS);
    assert_int_equal(bad, 0);
    assert_true(seen.n > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_loads),
        cmocka_unit_test(test_instructions),
    };
    return cmocka_run_group_tests(tests, open_targets, close_targets);
}
