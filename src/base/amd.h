/* amd.h - what Linux tells about AMD GPUs and who may use them, without opening any.
 *
 * Facts only: doctor judges them.  They come from sysfs (PCI devices, the amdgpu and kfd drivers) and from
 * the device files below a root folder, which tests fill with trees of their own. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_AMD_MAX_CARDS = 16 };

/* A file under /dev that a GPU program opens for reading and writing. */
typedef struct rf_amd_node {
    char path[64]; /* without the root; empty: there is none */
    bool exists, opens;
    int error;      /* errno, where it does not open */
    char group[33]; /* that it belongs to, by name or number */
} rf_amd_node;

typedef struct rf_amd_card {
    char pci[24];       /* "0000:03:00.0" */
    char driver[32];    /* the kernel's for it: "amdgpu"; empty: none */
    char arch[16];      /* "gfx1100", as the kfd driver counts; empty: it does not know the card */
    rf_amd_node render; /* /dev/dri/renderD128 */
    uint64_t vram, vram_used, vram_visible, gtt; /* bytes; 0: not told.  gtt: of the CPU's memory */
    char iommu[24]; /* how its accesses are translated: "identity", "DMA-FQ"; empty: no IOMMU */
} rf_amd_card;

typedef struct rf_amd {
    bool has_module;    /* the amdgpu driver is loaded */
    char version[32];   /* of it, where it does not come with the kernel */
    rf_amd_node kfd;    /* /dev/kfd */
    char hip[128];      /* a libamdhip64 below /opt, which the linker need not know; empty: none */
    uint64_t gtt_limit; /* bytes of the CPU's memory that all GPUs may take (ttm); 0: not told */
    rf_amd_card card[RF_AMD_MAX_CARDS]; /* [n_cards] in order of their address */
    size_t n_cards;
} rf_amd;

/* root: "" for this machine. */
void rf_amd_read(rf_amd *out, const char *root);

#ifdef __cplusplus
}
#endif
