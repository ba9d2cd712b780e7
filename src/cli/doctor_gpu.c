/* doctor_gpu.c - GPUs: what amd.h tells and what the driver's library says, judged.
 *
 * RF_SYSTEM_ROOT is another root folder than / for what amd.h reads, for tests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amd.h"
#include "base/os.h"
#include "cli/doctor.h"

enum { CURE_BYTES = 400 };

/* Device files -----------------------------------------------------------------------------------*/

static void check_node(rf_doctor *r, const char *what, const rf_amd_node *n) {
    char cure[CURE_BYTES];
    if (!n->exists) {
        rf_doctor_find(r, what, false,
                       "in a container, pass it in (--device /dev/kfd --device /dev/dri); else the "
                       "kernel lacks its side of ROCm (CONFIG_HSA_AMD, or package amdgpu-dkms)",
                       "%s is not there", n->path);
        return;
    }
    if (n->opens) {
        rf_doctor_find(r, what, true, NULL, "%s can be opened", n->path);
        return;
    }
    snprintf(cure, sizeof cure,
             "add this user to the group %.32s (usermod -aG %.32s NAME) and log in again; in a "
             "container: --group-add %.32s",
             n->group, n->group, n->group);
    rf_doctor_find(r, what, false, cure, "%s: %s", n->path, strerror(n->error));
}

/* Cards ------------------------------------------------------------------------------------------*/

static bool is_driven(const rf_amd_card *c) { return strcmp(c->driver, "amdgpu") == 0; }

static void check_driver(rf_doctor *r, const rf_amd *a, const rf_amd_card *c) {
    if (is_driven(c)) {
        rf_doctor_find(r, "kernel driver", true, NULL, "amdgpu%s%s has %s",
                       a->version[0] ? " " : "", a->version, c->pci);
        return;
    }
    if (c->driver[0]) {
        rf_doctor_find(r, "kernel driver", false,
                       "give it back to the kernel's driver amdgpu: remove what binds it elsewhere "
                       "from /etc/modprobe.d and from the kernel's command line",
                       "%s: an AMD GPU that driver %s has, not amdgpu", c->pci, c->driver);
        return;
    }
    rf_doctor_find(r, "kernel driver", false,
                   a->has_module
                       ? "see what `dmesg | grep amdgpu` says: firmware may be missing (package "
                         "firmware-amd-graphics, or linux-firmware), or the kernel be older than "
                         "the card"
                       : "load it with `modprobe amdgpu`; where that does nothing, look for a "
                         "blacklist in /etc/modprobe.d and for nomodeset on the kernel's command "
                         "line",
                   "%s: an AMD GPU that no kernel driver has%s", c->pci,
                   a->has_module ? "" : "; amdgpu is not loaded");
}

/* A card that lives on the CPU's memory, as those inside a processor do. */
static bool is_shared(const rf_amd_card *c) { return c->gtt > c->vram; }

static void check_card_memory(rf_doctor *r, const rf_amd *a, const rf_amd_card *c) {
    char cure[CURE_BYTES];
    uint64_t ram = rf_mem_total();
    if (!c->vram && !c->gtt) return;
    snprintf(
        cure, sizeof cure,
        "it may use more of the CPU's memory with ttm.pages_limit=%llu on the kernel's command "
        "line (pages of 4096 bytes; this is three quarters of the memory)",
        (unsigned long long)ram * 3 / 4 / 4096);
    bool has_limit = is_shared(c) && a->gtt_limit && a->gtt_limit < ram / 4 * 3;
    rf_doctor_find(r, "card memory", true, has_limit ? cure : NULL,
                   "%s%s%s: %.1f GB of its own, %.1f GB of them in use, and %.1f GB of the CPU's",
                   c->pci, c->arch[0] ? ", " : "", c->arch, (double)c->vram / 1e9,
                   (double)c->vram_used / 1e9, (double)c->gtt / 1e9);
}

static void check_card(rf_doctor *r, const rf_amd *a, const rf_amd_card *c) {
    check_driver(r, a, c);
    if (!is_driven(c)) return;
    if (c->render.path[0])
        check_node(r, "render node", &c->render);
    else
        rf_doctor_find(r, "render node", false, "see what `dmesg | grep amdgpu` says",
                       "%s has none: amdgpu did not start it", c->pci);
    if (a->kfd.exists && !c->arch[0])
        rf_doctor_find(r, "kfd card", false,
                       "a newer kernel or amdgpu-dkms may know it; cards before gfx9 it never will",
                       "%s: /dev/kfd does not know this card, so ROCm will not find it", c->pci);
    check_card_memory(r, a, c);
}

/* GPUs reach each other's memory directly only where nothing stands between. */
static void check_peers(rf_doctor *r, const rf_amd *a) {
    size_t n_translated = 0, n_small = 0;
    if (a->n_cards < 2) return;
    for (size_t i = 0; i < a->n_cards; i++) {
        n_translated += strncmp(a->card[i].iommu, "DMA", 3) == 0;
        n_small += a->card[i].vram_visible < a->card[i].vram;
    }
    if (n_translated)
        rf_doctor_find(r, "iommu", true, "boot with iommu=pt on the kernel's command line",
                       "it translates what %zu of %zu AMD GPUs do, which makes programs that copy "
                       "between GPUs slow or hang",
                       n_translated, a->n_cards);
    if (n_small)
        rf_doctor_find(r, "bar", true,
                       "switch on Resizable BAR (Above 4G decoding) in the firmware",
                       "of %zu of %zu AMD GPUs only a part of the memory can be reached over PCIe",
                       n_small, a->n_cards);
}

/* Settings ---------------------------------------------------------------------------------------*/

static void check_environment(rf_doctor *r) {
    static const char *const hiding[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                         "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES"};
    const char *set = getenv("HSA_OVERRIDE_GFX_VERSION");
    if (set)
        rf_doctor_find(r, "override", false, "unset it",
                       "HSA_OVERRIDE_GFX_VERSION is %.40s: the driver then names another "
                       "architecture than the card has, and gets code made for that",
                       set);
    for (size_t i = 0; i < RF_COUNT(hiding); i++)
        if ((set = getenv(hiding[i])))
            rf_doctor_find(r, "visible", true, NULL,
                           "%s is '%.60s': other GPUs are not seen, and numbers count those that "
                           "are",
                           hiding[i], set);
}

/* The library ------------------------------------------------------------------------------------*/

static bool is_near(uint64_t a, uint64_t b) {
    uint64_t most = a > b ? a : b, least = a > b ? b : a;
    return most - least <= most / 10;
}

/* With one card there is no doubt which it is. */
static void check_size(rf_doctor *r, const rf_amd *a, const rf_gpu_device *g) {
    const rf_amd_card *c = &a->card[0];
    if (a->n_cards != 1 || !c->vram || strncmp(g->arch, "gfx", 3) != 0) return;
    if (is_near(g->mem_bytes, c->vram) || is_near(g->mem_bytes, c->gtt) ||
        is_near(g->mem_bytes, c->vram + c->gtt))
        return;
    rf_doctor_find(
        r, "memory size", false, "update the runtime and the kernel's driver to one release",
        "%s has %.1f GB by its library, but %.1f GB (and %.1f GB of the CPU's) by the "
        "kernel",
        g->name, (double)g->mem_bytes / 1e9, (double)c->vram / 1e9, (double)c->gtt / 1e9);
}

static void no_gpu(rf_doctor *r, const rf_amd *a, int status, const char *why) {
    char cure[CURE_BYTES];
    bool missing = status == ROCMFORGE_EUNSUPPORTED;
    if (missing && a->hip[0])
        snprintf(cure, sizeof cure,
                 "%s is there but not where the linker looks: put its folder into "
                 "/etc/ld.so.conf.d and run ldconfig, or set RF_GPU_LIBRARY=%s",
                 a->hip, a->hip);
    else
        snprintf(cure, sizeof cure,
                 "install ROCm's HIP runtime: package libamdhip64 of the distribution, or "
                 "hip-runtime-amd of AMD's");
    rf_doctor_find(r, "gpu", missing && a->n_cards == 0, missing && a->n_cards ? cure : NULL, "%s",
                   why);
}

void rf_doctor_gpus(rf_doctor *r) {
    const char *root = getenv("RF_SYSTEM_ROOT");
    rf_gpu_device g;
    rf_text why;
    rf_amd a;
    size_t i = 0;
    int s;
    rf_amd_read(&a, root ? root : "");
    if (a.n_cards || a.kfd.exists) check_node(r, "kfd", &a.kfd);
    for (size_t k = 0; k < a.n_cards; k++)
        check_card(r, &a, &a.card[k]);
    check_peers(r, &a);
    check_environment(r);
    if (!rf_gpu_target(0))
        rf_doctor_find(r, "gpu kernels", true, NULL, "left out of this build: CPU only");
    for (; (s = rf_gpu_find(i, &g, &why)) == ROCMFORGE_OK; i++) {
        rf_doctor_find(r, "gpu", g.target[0] != 0, NULL,
                       "%zu: %s (%s) through %s, driver %d; %.1f of %.1f GB free%s; %s%s", i,
                       g.name, g.arch, g.library, g.driver_version, (double)g.mem_free / 1e9,
                       (double)g.mem_bytes / 1e9, g.integrated ? ", shared with the CPU" : "",
                       g.target[0] ? "runs kernels for " : "this build has no kernels for it",
                       g.target);
        check_size(r, &a, &g);
    }
    if (i == 0) no_gpu(r, &a, s, why.text);
}
