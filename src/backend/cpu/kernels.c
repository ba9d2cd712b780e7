/* kernels.c - builds the tables of CPU kernels, once per process.
 *
 * A level starts from the level below it, so that a kernel exists in the best form written so far;
 * all of them give the same bits.  Processors other than x86-64 and 64-bit ARM have the scalar
 * table only. */
#include "backend/cpu/kernels.h"

#include <pthread.h>

static rf_cpu_kernels tables[RF_ISA_COUNT];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fill_tables(void) {
    rf_cpu_kernels k = {.isa = RF_ISA_SCALAR};
    rf_cpu_mm_scalar(&k);
    rf_cpu_vec_scalar(&k);
    tables[RF_ISA_SCALAR] = k;
#if defined(__x86_64__)
    if (rf_isa_best() < RF_ISA_AVX2) return; /* filling a table already takes its instructions */
    k.isa = RF_ISA_AVX2;
    rf_cpu_mm_avx2(&k);
    rf_cpu_vec_avx2(&k);
    tables[RF_ISA_AVX2] = k;
    if (rf_isa_best() < RF_ISA_AVXVNNI) return;
    k.isa = RF_ISA_AVXVNNI;
    if (rf_cpu_has_avxvnni()) rf_cpu_mm_avxvnni(&k); /* some with AVX-512 lack it */
    tables[RF_ISA_AVXVNNI] = k;
    if (rf_isa_best() < RF_ISA_AVX512) return;
    k.isa = RF_ISA_AVX512;
    rf_cpu_mm_avx512(&k);
    rf_cpu_vec_avx512(&k);
    tables[RF_ISA_AVX512] = k;
    if (rf_isa_best() < RF_ISA_AMX) return;
    k.isa = RF_ISA_AMX;
    rf_cpu_mm_amx(&k);
    tables[RF_ISA_AMX] = k;
#elif defined(__aarch64__)
    if (rf_isa_best() < RF_ISA_NEON) return;
    k.isa = RF_ISA_NEON;
    rf_cpu_mm_neon(&k);
    rf_cpu_vec_neon(&k);
    tables[RF_ISA_NEON] = k;
    if (rf_isa_best() < RF_ISA_I8MM) return;
    k.isa = RF_ISA_I8MM;
    rf_cpu_mm_i8mm(&k);
    tables[RF_ISA_I8MM] = k;
#endif
}

const rf_cpu_kernels *rf_cpu_kernels_get(rf_isa isa) {
    pthread_once(&tables_once, fill_tables);
    RF_ASSERT((unsigned)isa < RF_ISA_COUNT && tables[isa].matmul);
    return &tables[isa];
}
