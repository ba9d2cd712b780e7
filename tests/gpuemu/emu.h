/* emu.h - an emulator of AMD code objects: the ELF files that clang writes for gfx9, gfx10, gfx11 and
 * gfx12 run on the CPU, instruction by instruction, with checks that no card makes.
 *
 * Used by the tests only.  llvm-objdump turns the code into text once, when a module is opened; a
 * table of opcodes turns the text into compact instructions; execution never looks at text again.
 * It is no model of time: waits, caches and hazards are the compiler's business and count as done.
 * A kernel that leaves its memory, races in LDS, reads LDS that nobody wrote, or uses scratch is
 * stopped, and the error names the instruction. */
#pragma once
#include "base/base.h"

typedef struct rf_emu_module rf_emu_module;

/* One explicit or hidden argument, as the code object's note describes it. */
typedef struct rf_emu_arg {
    uint32_t offset, bytes;
    char kind[32]; /* "by_value", "global_buffer", "hidden_block_count_x", ... */
} rf_emu_arg;

enum { RF_EMU_MAX_ARGS = 64 };

typedef struct rf_emu_kernel {
    char name[128];
    rf_emu_module *module;
    uint64_t entry;         /* address in the image */
    uint32_t lds_bytes;     /* static part */
    uint32_t scratch_bytes; /* must be 0 to run */
    uint32_t kernarg_bytes;
    uint32_t max_threads;                                /* of a block */
    uint32_t n_vgpr, n_sgpr, n_vgpr_spill, n_sgpr_spill; /* from the note; n_vgpr includes AGPRs */
    uint32_t rsrc1, rsrc2, rsrc3, properties, preload;   /* words of the kernel descriptor */
    uint32_t n_args;
    rf_emu_arg args[RF_EMU_MAX_ARGS];
} rf_emu_kernel;

/* Opens a bare code object (ELF, e_machine 224); elf need not outlive the call. */
rf_status rf_emu_module_open(const void *elf, size_t n, rf_emu_module **out,
                             rf_error *e) RF_CHECKED;
void rf_emu_module_close(rf_emu_module *m);
const char *rf_emu_module_arch(const rf_emu_module *m); /* "gfx1100", "gfx11-generic", ... */
size_t rf_emu_module_kernels(const rf_emu_module *m);
rf_emu_kernel *rf_emu_module_kernel(rf_emu_module *m, size_t at);
rf_emu_kernel *rf_emu_kernel_find(rf_emu_module *m, const char *name); /* NULL: no such kernel */
/* The address and size of a global variable of the module, false where there is none. */
bool rf_emu_module_symbol(const rf_emu_module *m, const char *name, void **p, size_t *bytes);

/* Instructions that have no meaning here: running one is an error.  text(at) is NULL past the end. */
const char *rf_emu_module_unknown(const rf_emu_module *m, size_t at);
/* Counts every mnemonic of the module (without its encoding suffix) through f. */
void rf_emu_module_mnemonics(const rf_emu_module *m, void (*f)(void *arg, const char *name),
                             void *arg);

/* Instructions of that loop of a kernel which has most wide loads, inner loops and all branches with it:
 * vector ones (two at once are one), among them those of dot products and matrices, and accesses to shared
 * memory; loads from global memory of at least 8 bytes a lane and narrower ones, and their bytes. */
typedef struct rf_emu_loop {
    uint32_t vector, products, shared, wide, narrow, bytes;
} rf_emu_loop;
rf_status rf_emu_widest_loop(const rf_emu_kernel *k, rf_emu_loop *out, rf_error *e) RF_CHECKED;

/* Memory that a kernel may touch: sorted by lo, disjoint.  The module's own image and the kernel's
 * arguments need not be listed (both are read-only). */
typedef struct rf_emu_range {
    uint64_t lo, hi; /* [lo, hi) */
} rf_emu_range;

typedef struct rf_emu_launch {
    uint32_t grid[3], block[3]; /* blocks, threads of a block */
    uint32_t lds_bytes;         /* dynamic part */
    const void *kernarg;        /* kernel->kernarg_bytes, in multiples of 64 */
    const rf_emu_range *ranges;
    size_t n_ranges;
    /* Reading LDS that nobody wrote is a fault, unless this is set: then it gives rubbish (0xee).  A
     * compiler may load ahead of a condition and drop the value. */
    bool rubbish_lds;
    uint32_t n_threads; /* host threads that share the blocks, 0 = 1 */
} rf_emu_launch;

/* What occupies a card: a vector instruction (two at once are one), one of these that makes dot products of four bytes,
 * a product of matrices, an access to shared memory, a load from global memory by lanes; else anything. */
typedef enum rf_emu_class {
    RF_EMU_OTHER,
    RF_EMU_VECTOR,
    RF_EMU_DOT,
    RF_EMU_MATRIX,
    RF_EMU_SHARED,
    RF_EMU_LOAD,
    RF_EMU_CLASSES
} rf_emu_class;

typedef struct rf_emu_stats {
    uint64_t instructions;       /* wave instructions, waits not counted */
    uint64_t lane_ops;           /* active lanes of vector instructions */
    uint64_t of[RF_EMU_CLASSES]; /* the wave instructions of each class */
    uint64_t bytes_loaded;       /* by active lanes, from global memory */
} rf_emu_stats;

/* Runs every block to its end.  RF_EDEVICE: the kernel did what it may not do. */
rf_status rf_emu_run(const rf_emu_kernel *k, const rf_emu_launch *l, rf_emu_stats *stats,
                     rf_error *e) RF_CHECKED;

/* v_rcp, v_rsq and v_sqrt of a card are not exact.  This many ulps (-1, 0, 1) are added to each such
 * result, so that a test can show that code does not depend on them.  Process-wide, default 0. */
void rf_emu_set_approximation(int ulps);
