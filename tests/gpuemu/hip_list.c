/* hip_list.c - what was launched, a line of CSV for each launch, where RF_EMU_LAUNCHES names a file: which kernel on how
 * much, what it takes of a card, and how many instructions its waves executed.  bench/amd_estimates.py reads it. */
#include <stdio.h>
#include <stdlib.h>

#include "gpuemu/hip.h"

void hip_list_launch(const hip_work *w, const rf_emu_stats *s) {
    const char *path = getenv("RF_EMU_LAUNCHES");
    if (!path || !*path) return;
    FILE *to = hip.launches;
    if (!to) {
        to = hip.launches = fopen(path, "w");
        if (!to) {
            fprintf(stderr, "stand-in HIP: cannot write RF_EMU_LAUNCHES=%s\n", path);
            abort();
        }
        setvbuf(to, NULL, _IOLBF, 0); /* whatever becomes of the process */
        fprintf(to, "kernel,blocks,threads,vgpr,lds,instructions,vector,matrix,shared,loads,"
                    "bytes_loaded\n");
    }
    const rf_emu_kernel *k = w->kernel;
    unsigned long long n[] = {s->instructions,      s->of[RF_EMU_VECTOR] + s->of[RF_EMU_DOT],
                              s->of[RF_EMU_MATRIX], s->of[RF_EMU_SHARED],
                              s->of[RF_EMU_LOAD],   s->bytes_loaded};
    fprintf(to, "%s,%u,%u,%u,%u", k->name, w->grid[0] * w->grid[1] * w->grid[2],
            w->block[0] * w->block[1] * w->block[2], k->n_vgpr, k->lds_bytes + w->lds_bytes);
    for (size_t i = 0; i < RF_COUNT(n); i++)
        fprintf(to, ",%llu", n[i]);
    fprintf(to, "\n");
}
