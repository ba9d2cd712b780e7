/* code.c - choosing and loading a code object, or having one compiled. */
#include "backend/gpu/code.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/gpu/compile.h"
#include "backend/gpu/unpack.h"
#include "base/digest.h"

extern const rf_gpu_code rf_gpu_codes[]; /* made by the build; ends with a row of NULL */
static const rf_gpu_code *codes = rf_gpu_codes;

void rf_gpu_codes_set(const rf_gpu_code *all) { codes = all ? all : rf_gpu_codes; }

const char *rf_gpu_code_target(size_t i) {
    for (size_t k = 0; codes[k].target; k++) {
        bool is_again = k > 0 && strcmp(codes[k].target, codes[k - 1].target) == 0;
        if (!is_again && i-- == 0) return codes[k].target;
    }
    return NULL;
}

/* The family whose generic code runs on an AMD architecture, or NULL (gfx908 and gfx90a have none). */
static const char *family_of(const char *arch) {
    static const char *const families[][2] = {
        {"gfx900", "gfx9-generic"},    {"gfx902", "gfx9-generic"},   {"gfx904", "gfx9-generic"},
        {"gfx906", "gfx9-generic"},    {"gfx909", "gfx9-generic"},   {"gfx90c", "gfx9-generic"},
        {"gfx942", "gfx9-4-generic"},  {"gfx950", "gfx9-4-generic"}, {"gfx101", "gfx10-1-generic"},
        {"gfx103", "gfx10-3-generic"}, {"gfx110", "gfx11-generic"},  {"gfx115", "gfx11-generic"},
        {"gfx120", "gfx12-generic"},
    };
    for (size_t i = 0; i < RF_COUNT(families); i++)
        if (strncmp(arch, families[i][0], strlen(families[i][0])) == 0) return families[i][1];
    return NULL;
}

enum { FIRST_TO_OVERLAP = 90 }; /* of NVIDIA's targets: as port.h has it */
static const char HOPPER[] = "sm_90a", AS_HOPPER[] = "host-hopper";

static long version_of(const char *target) {
    return strncmp(target, "sm_", 3) == 0 ? strtol(target + 3, NULL, 10) : 0;
}

/* How well a target suits an architecture; 0: its code does not run there. */
static long target_rank(const char *arch, const char *target) {
    enum { FAMILY = 1, OWN = 10000, SPECIAL };
    const char *family = family_of(arch);
    if (strcmp(arch, "sm_90") == 0 && strcmp(target, HOPPER) == 0) return SPECIAL;
    if (strcmp(arch, target) == 0) return OWN;
    if (family && strcmp(family, target) == 0) return FAMILY;
    bool is_special = target[strlen(target) - 1] == 'a'; /* runs on no other architecture */
    return is_special || version_of(target) > version_of(arch) ? 0 : version_of(target);
}

/* Likewise a code: machine code comes before PTX of the same target, which newer generations run, too. */
static long rank_of(const char *arch, const rf_gpu_code *c) {
    if (c->is_binary && version_of(arch) / 10 != version_of(c->target) / 10) return 0;
    return 2 * target_rank(arch, c->target) + c->is_binary;
}

/* The best of those that rank below. */
static const rf_gpu_code *best_below(const rf_gpu_code *all, const char *arch, long below) {
    const rf_gpu_code *best = NULL;
    for (; all->target; all++) {
        long rank = rank_of(arch, all);
        if (rank == 0 || rank >= below) continue;
        if (!best || rank > rank_of(arch, best)) best = all;
    }
    return best;
}

const rf_gpu_code *rf_gpu_code_for(const char *arch, const rf_gpu_code *targets) {
    return best_below(targets ? targets : codes, arch, LONG_MAX);
}

/* Whose code has a kernel: a set. */
enum { HOST = 1, AMD = 2, AMD_MATRIX = 4, NVIDIA = 8, ONLY_HOPPER = 16, HOST_HOPPER = 32 };
static const uint8_t owners[RF_GPU_KERNEL_COUNT] = {
#define X(name, args, block)            [RF_GPU_##name] = HOST | AMD | AMD_MATRIX | NVIDIA | ONLY_HOPPER,
#define X_MATRIX(name, args, block)     [RF_GPU_##name] = HOST | AMD_MATRIX | NVIDIA | ONLY_HOPPER,
#define X_NOT_AMD(name, args, block)    [RF_GPU_##name] = HOST | NVIDIA | ONLY_HOPPER,
#define X_AMD_MATRIX(name, args, block) [RF_GPU_##name] = AMD_MATRIX,
#define X_NVIDIA(name, args, block)     [RF_GPU_##name] = NVIDIA | ONLY_HOPPER,
#define X_HOPPER(name, args, block)     [RF_GPU_##name] = ONLY_HOPPER | HOST_HOPPER,
#include "backend/gpu/kernels.def"
#undef X
};

bool rf_gpu_code_has_matrix(const char *target) {
    static const char *const with[] = {"gfx908", "gfx90a", "gfx94", "gfx95",
                                       "gfx9-4", "gfx11",  "gfx12"};
    for (size_t i = 0; i < RF_COUNT(with); i++)
        if (strncmp(target, with[i], strlen(with[i])) == 0) return true;
    return false;
}

static uint8_t owner_of(const char *target) {
    if (strcmp(target, HOPPER) == 0) return ONLY_HOPPER;
    if (version_of(target)) return NVIDIA;
    if (strcmp(target, AS_HOPPER) == 0) return HOST | HOST_HOPPER;
    if (strncmp(target, "gfx", 3) != 0) return HOST;
    return rf_gpu_code_has_matrix(target) ? AMD_MATRIX : AMD;
}

static rf_status no_code(const rf_gpu_queue *q, const char *why, rf_error *e) {
    char have[300] = "";
    for (size_t i = 0, at = 0; codes[i].target && at < sizeof have; i++)
        at += (size_t)snprintf(have + at, sizeof have - at, "%s%s", i ? ", " : "", codes[i].target);
    if (!have[0])
        return rf_fail(e, RF_EUNSUPPORTED,
                       "%.60s (%s): this build brings no GPU kernels: build where clang-22 is "
                       "installed; %.200s",
                       q->info.name, q->info.arch, why);
    return rf_fail(e, RF_EUNSUPPORTED,
                   "%.60s: this build has no kernels for %s, only for %.120s: build with "
                   "-DRF_GPU_TARGETS=%s; %.200s",
                   q->info.name, q->info.arch, have, q->info.arch, why);
}

/* What a verdict about these kernels and the code that launches them is kept under. */
static rf_status digest(rf_gpu_queue *q, const void *image, size_t n, rf_error *e) {
    rf_sha256 *h;
    char hex[RF_SHA256_HEX];
    if (rf_sha256_create(&h) != RF_OK) return rf_fail_nomem(e, sizeof hex);
    rf_sha256_add(h, RF_VERSION, sizeof RF_VERSION);
    if (image) rf_sha256_add(h, image, n);
    rf_sha256_hex(h, hex);
    memcpy(q->code_digest, hex, sizeof q->code_digest);
    rf_sha256_free(h);
    return RF_OK;
}

static rf_status load_module(rf_gpu_queue *q, const char *target, const void *image, rf_error *e) {
    int failed = q->driver->module_load(&q->module, image);
    if (!failed) return RF_OK;
    q->module = NULL;
    return rf_fail(e, RF_EDEVICE, "%s: the driver refuses the kernels for %s: %s (%s error %d)",
                   q->info.name, target, q->driver->error_text(failed), q->driver->name, failed);
}

static rf_status load_embedded(rf_gpu_queue *q, const rf_gpu_code *code, rf_error *e) {
    const void *image;
    RF_TRY(rf_gpu_code_unpack(code->target, code->image, code->end, &image, &q->image, e));
    size_t n = (size_t)((const uint8_t *)code->end - (const uint8_t *)code->image);
    rf_status s = digest(q, code->image, n, e);
    if (s == RF_OK) s = load_module(q, code->target, image, e);
    if (s == RF_OK) return s;
    rf_free(q->image);
    q->image = NULL;
    return s;
}

/* A driver may be too old for the best code, but not for the next: the error is of the first.  What fails for want of
 * memory would end with slower code. */
static rf_status load_best(rf_gpu_queue *q, const rf_gpu_code *code, rf_error *e) {
    rf_error first = {.status = RF_OK};
    for (; code; code = best_below(codes, q->info.arch, rank_of(q->info.arch, code))) {
        snprintf(q->target, sizeof q->target, "%.31s", code->target);
        rf_status s = load_embedded(q, code, &first);
        if (s == RF_OK) return RF_OK;
        if (s == RF_ENOMEM) break;
    }
    return rf_fail(e, first.status, "%s", first.text);
}

static rf_status load_compiled(rf_gpu_queue *q, rf_error *e) {
    rf_gpu_compiled c;
    rf_error why = {.status = RF_OK};
    rf_status s = rf_gpu_compile(q->driver, q->info.arch, &c, &why);
    if (s != RF_OK) return no_code(q, why.text, e);
    q->image = c.image;
    snprintf(q->target, sizeof q->target, "%s", c.target);
    RF_TRY(digest(q, c.image, c.n, e));
    return load_module(q, c.target, c.image, e);
}

/* Of kernels with several functions those behind the first; not_in: owners of the kernel that lack it. */
static const struct {
    uint32_t kernel, kind;
    uint8_t not_in;
    const char *name;
} more_kinds[] = {
#define X(name, kind, args) {RF_GPU_##name, kind, 0, "rf_" #name "_kind_" #kind},
#define X_NOT_AMD(name, kind, args) \
    {RF_GPU_##name, kind, AMD | AMD_MATRIX, "rf_" #name "_kind_" #kind},
#include "backend/gpu/kinds.def"
#undef X
};

static rf_status find_function(rf_gpu_function *out, const rf_gpu_queue *q, const char *name,
                               rf_error *e) {
    int failed = q->driver->module_function(out, q->module, name);
    if (!failed) return RF_OK;
    return rf_fail(e, RF_EDEVICE, "%s: the kernels for %s lack %s: %s (%s error %d)", q->info.name,
                   q->target, name, q->driver->error_text(failed), q->driver->name, failed);
}

static rf_status find_functions(rf_gpu_queue *q, rf_error *e) {
    const uint8_t who = owner_of(q->target);
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++) {
        const char *name = rf_gpu_kernel_name((rf_gpu_kernel)k);
        if (owners[k] & who) RF_TRY(find_function(&q->function[k], q, name, e));
    }
    for (size_t i = 0; i < RF_COUNT(more_kinds); i++) {
        rf_gpu_function *to = &q->more[more_kinds[i].kernel][more_kinds[i].kind - 1];
        if (owners[more_kinds[i].kernel] & ~more_kinds[i].not_in & who)
            RF_TRY(find_function(to, q, more_kinds[i].name, e));
    }
    return RF_OK;
}

/* RF_GPU_COMPILE=1: although there is code that fits. */
static bool wants_compiling(void) {
    const char *set = getenv("RF_GPU_COMPILE");
    return set && strcmp(set, "1") == 0;
}

rf_status rf_gpu_code_load(rf_gpu_queue *q, rf_error *e) {
    const char *arch = q->info.arch;
    /* A driver brings its own, as C, Hopper's, too. */
    const rf_gpu_code own = {arch, NULL, NULL, false};
    bool is_host = strcmp(arch, "host") == 0 || strcmp(arch, AS_HOPPER) == 0;
    const rf_gpu_code *code = is_host             ? &own
                              : wants_compiling() ? NULL
                                                  : rf_gpu_code_for(q->info.arch, NULL);
    RF_TRY(code ? load_best(q, code, e) : load_compiled(q, e));
    q->overlaps = q->driver->launch_hinted && version_of(q->target) >= FIRST_TO_OVERLAP;
    return find_functions(q, e);
}
