/* code.c - choosing and loading a code object. */
#include "backend/gpu/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"

extern const rf_gpu_code rf_gpu_codes[]; /* made by the build; ends with a row of NULL */

const char *rf_gpu_code_target(size_t i) {
    for (size_t k = 0; rf_gpu_codes[k].target; k++)
        if (k == i) return rf_gpu_codes[k].target;
    return NULL;
}

static const rf_gpu_code *find(const rf_gpu_code *all, const char *target) {
    for (; target && all->target; all++)
        if (strcmp(all->target, target) == 0) return all;
    return NULL;
}

/* The family whose generic code runs on an AMD architecture, or NULL. */
static const char *family_of(const char *arch) {
    static const char *const families[][2] = {
        {"gfx942", "gfx9-4-generic"},  {"gfx950", "gfx9-4-generic"},  {"gfx90", "gfx9-generic"},
        {"gfx101", "gfx10-1-generic"}, {"gfx103", "gfx10-3-generic"}, {"gfx11", "gfx11-generic"},
        {"gfx120", "gfx12-generic"},
    };
    for (size_t i = 0; i < RF_COUNT(families); i++)
        if (strncmp(arch, families[i][0], strlen(families[i][0])) == 0) return families[i][1];
    return NULL;
}

enum { FIRST_TO_OVERLAP = 90 }; /* of NVIDIA's targets: as port.h has it */
static const char HOPPER[] = "sm_90a";

static long version_of(const char *target) {
    return strncmp(target, "sm_", 3) == 0 ? strtol(target + 3, NULL, 10) : 0;
}

/* Code that uses what no other architecture has. */
static bool is_special(const char *target) { return target[strlen(target) - 1] == 'a'; }

const rf_gpu_code *rf_gpu_code_for(const char *arch, const rf_gpu_code *targets) {
    const rf_gpu_code *all = targets ? targets : rf_gpu_codes, *best = NULL;
    if (strcmp(arch, "sm_90") == 0) best = find(all, HOPPER);
    if (!best) best = find(all, arch);
    if (!best) best = find(all, family_of(arch));
    if (best || version_of(arch) == 0) return best;
    for (; all->target; all++) {
        long v = version_of(all->target);
        if (!v || v > version_of(arch) || is_special(all->target)) continue;
        if (!best || v > version_of(best->target)) best = all;
    }
    return best;
}

/* Whose code has a kernel. */
typedef enum owner { ANYONE, NVIDIA, ONLY_HOPPER } owner;
static const owner owners[RF_GPU_KERNEL_COUNT] = {
#define X(name, args, block)        [RF_GPU_##name] = ANYONE,
#define X_NVIDIA(name, args, block) [RF_GPU_##name] = NVIDIA,
#define X_HOPPER(name, args, block) [RF_GPU_##name] = ONLY_HOPPER,
#include "backend/gpu/kernels.def"
#undef X
};

static rf_status no_code(const rf_gpu_queue *q, rf_error *e) {
    char have[300] = "";
    for (size_t i = 0, at = 0; rf_gpu_codes[i].target && at < sizeof have; i++)
        at += (size_t)snprintf(have + at, sizeof have - at, "%s%s", i ? ", " : "",
                               rf_gpu_codes[i].target);
    if (!have[0])
        return rf_fail(e, RF_EUNSUPPORTED,
                       "%s (%s): this build brings no GPU kernels: build where clang-22 is "
                       "installed",
                       q->info.name, q->info.arch);
    return rf_fail(e, RF_EUNSUPPORTED,
                   "%s: this build has no kernels for %s, only for %s: build with "
                   "-DRF_GPU_TARGETS=%s",
                   q->info.name, q->info.arch, have, q->info.arch);
}

/* What a verdict about these kernels and the code that launches them is kept under. */
static rf_status digest(rf_gpu_queue *q, const rf_gpu_code *code, rf_error *e) {
    rf_sha256 *h;
    char hex[RF_SHA256_HEX];
    if (rf_sha256_create(&h) != RF_OK) return rf_fail_nomem(e, sizeof hex);
    rf_sha256_add(h, RF_VERSION, sizeof RF_VERSION);
    if (code->image)
        rf_sha256_add(h, code->image,
                      (size_t)((const uint8_t *)code->end - (const uint8_t *)code->image));
    rf_sha256_hex(h, hex);
    memcpy(q->code_digest, hex, sizeof q->code_digest);
    rf_sha256_free(h);
    return RF_OK;
}

/* A driver may be too old for special code, but not for the plain one of the same architecture. */
static int load_module(rf_gpu_queue *q, const rf_gpu_code **code) {
    const rf_gpu_code *plain = find(rf_gpu_codes, q->info.arch);
    int failed = q->driver->module_load(&q->module, (*code)->image);
    if (!failed || !plain || plain == *code) return failed;
    *code = plain;
    return q->driver->module_load(&q->module, plain->image);
}

rf_status rf_gpu_code_load(rf_gpu_queue *q, const char **target, rf_error *e) {
    static const rf_gpu_code host = {"host", NULL, NULL}; /* a driver that brings its own kernels */
    const rf_gpu_code *code =
        strcmp(q->info.arch, host.target) == 0 ? &host : rf_gpu_code_for(q->info.arch, NULL);
    if (!code) return no_code(q, e);
    int failed = load_module(q, &code);
    *target = code->target;
    q->overlaps = q->driver->launch_early && version_of(code->target) >= FIRST_TO_OVERLAP;
    RF_TRY(digest(q, code, e));
    if (failed) {
        q->module = NULL;
        return rf_fail(e, RF_EDEVICE, "%s: the driver refuses the kernels for %s: %s (%s error %d)",
                       q->info.name, code->target, q->driver->error_text(failed), q->driver->name,
                       failed);
    }
    owner who = strcmp(code->target, HOPPER) == 0 ? ONLY_HOPPER
                : version_of(code->target)        ? NVIDIA
                                                  : ANYONE;
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++) {
        const char *name = rf_gpu_kernel_name((rf_gpu_kernel)k);
        if (owners[k] > who) continue;
        failed = q->driver->module_function(&q->function[k], q->module, name);
        if (failed)
            return rf_fail(e, RF_EDEVICE, "%s: the kernels for %s lack %s: %s (%s error %d)",
                           q->info.name, code->target, name, q->driver->error_text(failed),
                           q->driver->name, failed);
    }
    return RF_OK;
}
