/* selftest.c - the public face of the GPU's self-test. */
#include "backend/selftest.h"

#include <stdio.h>
#include <string.h>

#include "rocmforge.h"

static void name_formats(uint64_t formats, char *out, size_t cap) {
    size_t at = 0;
    out[0] = 0;
    for (rf_dtype t = 0; t < RF_DT_COUNT && at < cap; t++)
        if (formats >> t & 1)
            at +=
                (size_t)snprintf(out + at, cap - at, "%s%s", at ? " " : "", rf_dtype_get(t)->name);
}

static rf_status publish(rf_gpu_test **out, const rf_selftest *t, rf_error *e) {
    rf_gpu_test *r = rf_alloc(1, sizeof *r);
    if (!r) return rf_fail_nomem(e, sizeof *r);
    *r = (rf_gpu_test){.kernels = rf_alloc(t->n_kernels, sizeof *r->kernels),
                       .n_kernels = t->n_kernels,
                       .n_failed = t->n_failed,
                       .n_untested = t->n_untested,
                       .seed = t->seed,
                       .seconds = t->seconds};
    if (!r->kernels) {
        rf_free(r);
        return rf_fail_nomem(e, t->n_kernels * sizeof *r->kernels);
    }
    snprintf(r->path, sizeof r->path, "%s", t->path);
    for (size_t i = 0; i < t->n_kernels; i++) {
        const rf_kernel_verdict *v = &t->kernels[i];
        rf_kernel_result *k = &r->kernels[i];
        *k = (rf_kernel_result){.name = v->name, .n_cases = v->n_cases, .n_failed = v->n_failed};
        name_formats(v->formats, k->formats, sizeof k->formats);
        snprintf(k->text, sizeof k->text, "%s", v->text);
    }
    *out = r;
    return RF_OK;
}

int rf_gpu_test_run(size_t device, uint64_t seed, rf_gpu_test **out, rf_text *why) {
    rf_error e = {.status = RF_OK};
    rf_selftest *t = NULL;
    rf_gpu_device gpu;
    *out = NULL;
    int found = rf_gpu_find(device, &gpu, why);
    if (found != ROCMFORGE_OK) return found;
    const rf_selftest_opts o = {.device = (int)device, .seed = seed};
    rf_status s = rf_selftest_run(&t, &o, &e);
    if (s == RF_OK) s = publish(out, t, &e);
    if (s == RF_OK) (*out)->gpu = gpu;
    rf_selftest_free(t);
    if (why) snprintf(why->text, sizeof why->text, "%s", s == RF_OK ? "" : e.text);
    return (int)s;
}

void rf_gpu_test_free(rf_gpu_test *t) {
    if (!t) return;
    rf_free(t->kernels);
    rf_free(t);
}
