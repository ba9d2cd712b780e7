/* hip_module.c - the stand-in library's modules and kernel launches.
 *
 * A decoded module is kept for the life of the library, as tests load the same code again and again;
 * its image is read-only, so one copy serves all. */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "gpuemu/hip.h"

typedef struct loaded {
    uint8_t *bytes;
    size_t n;
    rf_emu_module *module;
    struct loaded *next;
} loaded;
static loaded *all;

/* Bytes of an ELF file whose section headers stand at its end, as the linker writes it. */
static size_t elf_bytes(const void *image) {
    Elf64_Ehdr h;
    memcpy(&h, image, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64) return 0;
    return (size_t)h.e_shoff + (size_t)h.e_shnum * h.e_shentsize;
}

/* Code object v5 came with ROCm 5.7's library at the latest, v6 with 6.3's. */
static bool version_reads(const uint8_t *elf) {
    uint64_t version = hip_setting("RF_EMU_VERSION", 60342131);
    uint8_t abi = elf[EI_ABIVERSION]; /* 2: v4, 3: v5, 4: v6 */
    return abi <= 2 || version >= (abi == 3 ? 50700000u : 60300000u);
}

/* The generic target that an arch belongs to. */
static const char *family(const char *arch) {
    static const struct {
        const char *prefix, *generic;
    } of[] = {{"gfx906", "gfx9-generic"},    {"gfx942", "gfx9-4-generic"},
              {"gfx950", "gfx9-4-generic"},  {"gfx101", "gfx10-1-generic"},
              {"gfx103", "gfx10-3-generic"}, {"gfx110", "gfx11-generic"},
              {"gfx115", "gfx11-generic"},   {"gfx120", "gfx12-generic"}};
    for (size_t k = 0; k < RF_COUNT(of); k++)
        if (!strncmp(arch, of[k].prefix, strlen(of[k].prefix))) return of[k].generic;
    return "";
}

static int load(rf_emu_module **out, const void *image) {
    size_t n = elf_bytes(image);
    if (!n) return HIP_INVALID_IMAGE;
    if (!version_reads(image)) return HIP_NO_BINARY;
    loaded *l = all;
    while (l && (l->n != n || memcmp(l->bytes, image, n)))
        l = l->next;
    if (!l) {
        rf_error e = {0};
        l = rf_alloc(1, sizeof *l);
        if (!l || !(l->bytes = rf_alloc(n, 1))) {
            rf_free(l);
            return HIP_OUT_OF_MEMORY;
        }
        memcpy(l->bytes, image, n);
        l->n = n;
        if (rf_emu_module_open(image, n, &l->module, &e) != RF_OK) {
            fprintf(stderr, "stand-in HIP: %s\n", e.text);
            rf_free(l->bytes);
            rf_free(l);
            return HIP_INVALID_IMAGE;
        }
        l->next = all;
        all = l;
    }
    const char *arch = rf_emu_module_arch(l->module);
    if (strcmp(arch, hip_arch()) && strcmp(arch, family(hip_arch()))) return HIP_NO_BINARY;
    *out = l->module;
    return HIP_OK;
}

__attribute__((destructor)) static void forget_modules(void) {
    while (all) {
        loaded *l = all;
        all = l->next;
        rf_emu_module_close(l->module);
        rf_free(l->bytes);
        rf_free(l);
    }
}

HIP_API int hipModuleLoadData(rf_emu_module **out, const void *image);
HIP_API int hipModuleLoadData(rf_emu_module **out, const void *image) {
    int code = hip_enter();
    *out = NULL;
    return hip_leave(code ? code : load(out, image));
}

HIP_API int hipModuleUnload(rf_emu_module *m);
HIP_API int hipModuleUnload(rf_emu_module *m) {
    int code = hip_enter();
    (void)hip_drain_all();
    return hip_leave(code ? code : m ? HIP_OK : HIP_INVALID_HANDLE);
}

HIP_API int hipModuleGetFunction(rf_emu_kernel **out, rf_emu_module *m, const char *name);
HIP_API int hipModuleGetFunction(rf_emu_kernel **out, rf_emu_module *m, const char *name) {
    int code = hip_enter();
    *out = code || !m ? NULL : rf_emu_kernel_find(m, name);
    return hip_leave(code ? code : *out ? HIP_OK : HIP_NOT_FOUND);
}

HIP_API int hipModuleGetGlobal(void **p, size_t *bytes, rf_emu_module *m, const char *name);
HIP_API int hipModuleGetGlobal(void **p, size_t *bytes, rf_emu_module *m, const char *name) {
    int code = hip_enter();
    bool found = !code && m && rf_emu_module_symbol(m, name, p, bytes);
    return hip_leave(code ? code : found ? HIP_OK : HIP_NOT_FOUND);
}

/* ---- launches ---- */

/* What the runtime itself tells a kernel beside its own arguments. */
static uint32_t hidden_value(const char *kind, const hip_work *w) {
    static const char *const counts = "hidden_block_count_", *const sizes = "hidden_group_size_";
    if (!strncmp(kind, counts, strlen(counts))) return w->grid[(kind[strlen(counts)] - 'x') % 3];
    if (!strncmp(kind, sizes, strlen(sizes))) return w->block[(kind[strlen(sizes)] - 'x') % 3];
    if (!strcmp(kind, "hidden_grid_dims")) return 1u + (w->grid[1] > 1) + (w->grid[2] > 1);
    return 0;
}

static int fill_arguments(const hip_work *w, void **params) {
    const rf_emu_kernel *k = w->kernel;
    uint8_t *to = w->kernarg;
    for (uint32_t n = 0, own = 0; n < k->n_args; n++) {
        const rf_emu_arg *a = &k->args[n];
        if (a->offset > k->kernarg_bytes || a->bytes > k->kernarg_bytes - a->offset)
            return HIP_INVALID_IMAGE;
        uint32_t value = hidden_value(a->kind, w);
        if (strncmp(a->kind, "hidden", 6)) {
            if (!params) return HIP_INVALID_VALUE;
            memcpy(to + a->offset, params[own++], a->bytes);
        } else {
            memcpy(to + a->offset, &value, a->bytes < 4 ? a->bytes : 4);
        }
    }
    return HIP_OK;
}

static int launch(hip_work *w, hip_stream *s, void **params) {
    const rf_emu_kernel *k = w->kernel;
    uint64_t threads = (uint64_t)w->block[0] * w->block[1] * w->block[2];
    bool empty = !w->grid[0] || !w->grid[1] || !w->grid[2] || !threads;
    for (int d = 0; d < 3; d++) /* the queue's packets count threads in 32 bits */
        if ((uint64_t)w->grid[d] * w->block[d] > UINT32_MAX) return HIP_INVALID_VALUE;
    if (empty || threads > 1024 || (k->max_threads && threads > k->max_threads))
        return HIP_INVALID_VALUE;
    if (hip_fails_now("RF_EMU_FAIL_LAUNCH")) return hip.sticky = HIP_LAUNCH_FAILURE;
    w->kernarg = rf_alloc((k->kernarg_bytes + 63u) & ~63u, 1);
    if (!w->kernarg) return HIP_OUT_OF_MEMORY;
    int code = fill_arguments(w, params);
    if (!code) return hip_push(s, w);
    rf_free(w->kernarg);
    return code;
}

HIP_API int hipModuleLaunchKernel(rf_emu_kernel *f, unsigned gx, unsigned gy, unsigned gz,
                                  unsigned bx, unsigned by, unsigned bz, unsigned lds_bytes,
                                  hip_stream *s, void **params, void **extra);
HIP_API int hipModuleLaunchKernel(rf_emu_kernel *f, unsigned gx, unsigned gy, unsigned gz,
                                  unsigned bx, unsigned by, unsigned bz, unsigned lds_bytes,
                                  hip_stream *s, void **params, void **extra) {
    int code = hip_enter();
    hip_work w = {.kind = HIP_LAUNCH,
                  .kernel = f,
                  .grid = {gx, gy, gz},
                  .block = {bx, by, bz},
                  .lds_bytes = lds_bytes};
    if (!code && (!f || extra)) code = HIP_INVALID_VALUE;
    return hip_leave(code ? code : launch(&w, s ? s : &hip.null_stream, params));
}
