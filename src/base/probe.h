/* probe.h - what this machine can do at most: memory reads and multiply-adds per second, measured
 * now, on so many threads.  What a program reaches is reported as a share of it. */
#pragma once
#include "base/os.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_probe {
    double read_bytes; /* per second, all threads together, from memory that no cache holds */
    double int8_ops; /* per second (2 per product), all threads together, with isa's instructions */
    double f32_ops;
} rf_probe;
/* Takes about a third of a second. */
RF_CHECKED rf_status rf_probe_machine(rf_isa isa, int n_threads, rf_probe *out, rf_error *e);

/* For each instruction set: `steps` times as many independent products as its registers hold; the
 * number of operations done.  Private to probe*.c. */
typedef uint64_t (*rf_probe_fn)(uint32_t steps);
uint64_t rf_probe_int8_avx2(uint32_t steps), rf_probe_f32_avx2(uint32_t steps);
uint64_t rf_probe_int8_avxvnni(uint32_t steps);
uint64_t rf_probe_int8_avx512(uint32_t steps), rf_probe_f32_avx512(uint32_t steps);
uint64_t rf_probe_int8_amx(uint32_t steps);
uint64_t rf_probe_int8_neon(uint32_t steps), rf_probe_f32_neon(uint32_t steps);
/* A use of v that the compiler cannot see through, in a vector register. */
#if defined(__x86_64__)
#define RF_OPAQUE(v)     __asm__ volatile("" : "+x"(v))
#define RF_OPAQUE_512(v) __asm__ volatile("" : "+v"(v))
#else
#define RF_OPAQUE(v) __asm__ volatile("" : "+w"(v))
#endif

#ifdef __cplusplus
}
#endif
