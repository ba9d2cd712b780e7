/* os.h - the operating system: files, memory maps, clock, terminal, CPU features.
 *
 * POSIX (Linux first).  Every failure names the path and the system's own words. */
#pragma once
#include "base/base.h"
#include "base/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A whole file mapped read-only.  Empty files map to {NULL, 0}. */
typedef struct rf_filemap {
    const uint8_t *data;
    size_t size;
} rf_filemap;
RF_CHECKED rf_status rf_filemap_open(rf_filemap *out, const char *path, rf_error *e);
void rf_filemap_close(rf_filemap *m);
/* Asks that memory which is read from end to end again and again lie in huge pages, where the system has
 * them: a page's address is looked up for each page, and what a processor fetches ahead ends with it. */
void rf_want_huge_pages(const void *p, size_t size);
/* Has a part of a map read that is not in memory yet, into the memory near to the calling thread, and nothing
 * beside it; in huge pages where the system has them. */
void rf_want_near(const void *p, size_t size);
/* Whether the system gives huge pages to those who ask. */
bool rf_has_huge_pages(void);
/* Copies what of [p, p + size) is mapped read-only from a file and lies in small pages into memory of the program's
 * own, in huge pages, where it lies: other threads may read there meanwhile.  Gives the bytes moved; ends early where
 * the system has no more memory or maps, or when stop(user), asked every 16 MiB, says so.  What was moved no
 * longer changes with the file. */
typedef bool (*rf_stop_fn)(const void *user);
size_t rf_into_huge_pages(const void *p, size_t size, rf_stop_fn stop, const void *user);

/* A whole small file (or "-": stdin) read into memory, at most max_bytes; free with rf_free. */
RF_CHECKED rf_status rf_file_read(const char *path, size_t max_bytes, uint8_t **out,
                                  size_t *out_len, rf_error *e);

/* A file written beside its final name and renamed on commit, so that a failure leaves no half. */
typedef struct rf_outfile rf_outfile;
RF_CHECKED rf_status rf_outfile_open(rf_outfile **out, const char *path, rf_error *e);
RF_CHECKED rf_status rf_outfile_write(rf_outfile *f, const void *p, size_t n, rf_error *e);
RF_CHECKED rf_status rf_outfile_commit(rf_outfile *f, rf_error *e); /* frees f, also on failure */
void rf_outfile_abort(rf_outfile *f); /* removes the temporary file; NULL is fine */
/* A whole file in this way at once. */
RF_CHECKED rf_status rf_file_write(const char *path, const void *p, size_t n, rf_error *e);

uint64_t rf_time_us(void);         /* monotonic */
uint64_t rf_random_u64(void);      /* from the system, for seeds */
int rf_cpu_count(void);            /* CPUs this process may run on, at least 1 */
int rf_core_count(void);           /* the same, but hardware threads of one core count once */
void rf_find_nodes(rf_nodes *out); /* of the processors this process may run on */
/* The processors that the calling thread may run on; false where the system does not say, or refuses. */
bool rf_thread_cpus(rf_cpu_mask *out);
bool rf_thread_bind(const rf_cpu_mask *cpus);
uint64_t rf_mem_total(void), rf_mem_available(void), rf_mem_peak_rss(void); /* bytes; 0 = unknown */
/* Directory of the running executable, without trailing slash; empty when unknown. */
void rf_exe_dir(char *out, size_t cap);

/* Levels of instruction set that the CPU backend has kernels for on this kind of processor, lowest
 * first.  AVX2 means avx2+fma+f16c, AVXVNNI adds avxvnni (some processors
 * with AVX512 lack it: there the level is AVX2's), AVX512 means avx512f+bw+vl+dq+vnni, AMX adds
 * gfni, amx_tile and amx_int8, which the system must also let the process use; NEON means asimd+dotprod,
 * I8MM adds the matrix products of 8-bit integers. */
typedef enum rf_isa {
    RF_ISA_SCALAR,
#if defined(__aarch64__)
    RF_ISA_NEON,
    RF_ISA_I8MM,
#else
    RF_ISA_AVX2,
    RF_ISA_AVXVNNI,
    RF_ISA_AVX512,
    RF_ISA_AMX,
#endif
    RF_ISA_COUNT
} rf_isa;
const char *rf_isa_name(rf_isa isa); /* "scalar", "avx2", "avxvnni", ... */
rf_isa rf_isa_best(void);            /* the best level that this CPU (and its OS) runs */
bool rf_cpu_has_avxvnni(void);
/* rf_isa_best, lowered by the environment variable RF_CPU=scalar|avx2|avxvnni|avx512|amx|neon|i8mm.  Unknown names and levels
 * that this CPU lacks are errors. */
RF_CHECKED rf_status rf_isa_choose(rf_isa *out, rf_error *e);

#ifdef __cplusplus
}
#endif
