/* fixture.h - what the emulator's tests share: the test kernels of one arch, and launches that may
 * touch the named buffers only. */
#pragma once
#include <stdio.h>
#include <string.h>

#include "gpuemu/emu.h"
#include "lib/testlib.h"

static const char *const archs[] = {"gfx906",  "gfx90a",  "gfx942",  "gfx950",
                                    "gfx1030", "gfx1100", "gfx1151", "gfx1201"};

static inline rf_emu_module *open_module(const char *path) {
    size_t n;
    rf_error e = {0};
    rf_emu_module *m = NULL;
    uint8_t *bytes = rf_test_read(path, &n);
    if (rf_emu_module_open(bytes, n, &m, &e) != RF_OK) fail_msg("%s: %s", path, e.text);
    rf_free(bytes);
    return m;
}

static inline rf_emu_module *open_arch(const char *arch) {
    char path[500];
    snprintf(path, sizeof path, "%s/kernels.%s.hsaco", RF_EMU_KERNELS, arch);
    return open_module(path);
}

/* A kernel's arguments: pointers (with the bytes they may be used for) and numbers. */
typedef struct args {
    uint8_t bytes[128];
    size_t n;
    rf_emu_range range[8];
    size_t n_ranges;
} args;

static inline void add_pointer(args *a, const void *p, size_t bytes) {
    uint64_t lo = (uint64_t)(uintptr_t)p;
    a->n = (a->n + 7) & ~(size_t)7;
    memcpy(a->bytes + a->n, &lo, sizeof lo);
    a->n += 8;
    size_t at = a->n_ranges++;
    for (; at && a->range[at - 1].lo > lo; at--)
        a->range[at] = a->range[at - 1];
    a->range[at] = (rf_emu_range){lo, lo + bytes};
}

static inline void add_number(args *a, uint32_t v) {
    memcpy(a->bytes + a->n, &v, sizeof v);
    a->n += 4;
}

/* Runs a kernel on two host threads; e may be NULL when it must not fail. */
static inline rf_status run_kernel(rf_emu_module *m, const char *name, uint32_t blocks,
                                   uint32_t threads, uint32_t lds, const args *a, rf_error *e) {
    rf_error own = {0};
    rf_emu_kernel *k = rf_emu_kernel_find(m, name);
    if (!k) fail_msg("no kernel %s", name);
    rf_emu_launch l = {.grid = {blocks, 1, 1},
                       .block = {threads, 1, 1},
                       .lds_bytes = lds,
                       .kernarg = a->bytes,
                       .ranges = a->range,
                       .n_ranges = a->n_ranges,
                       .n_threads = 2};
    rf_status s = rf_emu_run(k, &l, NULL, e ? e : &own);
    if (!e && s != RF_OK) fail_msg("%s on %s: %s", name, rf_emu_module_arch(m), own.text);
    return s;
}
