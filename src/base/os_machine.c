/* os_machine.c - the machine's side of os.h: clock, randomness, processors, memory.
 *
 * A container's limits (cgroup.h) count as the machine's. */
#include "base/os.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/topology.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

uint64_t rf_time_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

uint64_t rf_random_u64(void) {
    uint64_t v = 0;
    ssize_t got;
    do {
        got = getrandom(&v, sizeof v, 0);
    } while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof v) return v;
    /* a kernel without getrandom: seeds only have to differ, they guard no secret */
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return ((uint64_t)t.tv_sec << 30 ^ (uint64_t)t.tv_nsec ^ (uint64_t)getpid() << 48) *
           0x9E3779B97F4A7C15u;
}

static rf_cgroup_limits own_limits(void) {
    return rf_cgroup_read("/proc/self/cgroup", "/sys/fs/cgroup");
}

/* A kernel for more than 1024 processors wants a larger set than cpu_set_t, whose words hold the same bits
 * in the same order where the lowest byte comes first. */
typedef union cpu_room {
    cpu_set_t set;
    rf_cpu_mask mask;
} cpu_room;

bool rf_thread_cpus(rf_cpu_mask *out) {
    cpu_room cpus = {.mask = {{0}}};
    bool ok = sched_getaffinity(0, sizeof cpus, &cpus.set) == 0;
    *out = cpus.mask;
    return ok;
}

bool rf_thread_bind(const rf_cpu_mask *m) {
    cpu_room cpus = {.mask = *m};
    return sched_setaffinity(0, sizeof cpus, &cpus.set) == 0;
}

/* n of them, 0 for unknown, within what the machine and the control groups give. */
static int usable(long n) {
    if (n <= 0) n = sysconf(_SC_NPROCESSORS_ONLN);
    long quota = own_limits().cpus;
    if (quota < n) n = quota;
    return n < 1 ? 1 : (int)n;
}

int rf_cpu_count(void) {
    rf_cpu_mask cpus;
    long n = 0;
    if (!rf_thread_cpus(&cpus)) return usable(0);
    for (unsigned cpu = 0; cpu < RF_MAX_CPUS; cpu++)
        n += rf_cpu_mask_has(&cpus, cpu);
    return usable(n);
}

int rf_core_count(void) {
    rf_cpu_mask cpus;
    return usable(rf_thread_cpus(&cpus) ? rf_topology_cores(&cpus, "/sys/devices/system/cpu") : 0);
}

void rf_find_nodes(rf_nodes *out) {
    rf_cpu_mask cpus = {{0}};
    (void)rf_thread_cpus(&cpus); /* with none there is one node */
    rf_topology_nodes(out, &cpus, "/sys/devices/system");
}

uint64_t rf_mem_total(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0) return 0;
    uint64_t total = (uint64_t)pages * (uint64_t)page, limit = own_limits().mem_total;
    return limit < total ? limit : total;
}

uint64_t rf_mem_available(void) {
    FILE *f = fopen("/proc/meminfo", "re");
    if (!f) return 0;
    unsigned long long kib = 0;
    for (char line[128]; kib == 0 && fgets(line, sizeof line, f);) {
        if (sscanf(line, "MemAvailable: %llu kB", &kib) != 1) kib = 0;
    }
    fclose(f);
    uint64_t bytes = (uint64_t)kib * 1024u, limit = own_limits().mem_available;
    return limit < bytes ? limit : bytes;
}

uint64_t rf_mem_peak_rss(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
    return (uint64_t)usage.ru_maxrss * 1024u;
}

void rf_exe_dir(char *out, size_t cap) {
    if (cap == 0) return;
    out[0] = '\0';
    ssize_t n = readlink("/proc/self/exe", out, cap);
    char *slash = n > 0 && (size_t)n < cap ? memrchr(out, '/', (size_t)n) : NULL;
    if (!slash) {
        out[0] = '\0';
        return;
    }
    slash[slash == out ? 1 : 0] = '\0'; /* the root keeps its slash */
}

#if defined(__aarch64__)
static const char *const isa_names[RF_ISA_COUNT] = {"scalar", "neon", "i8mm"};
#else
static const char *const isa_names[RF_ISA_COUNT] = {"scalar", "avx2", "avxvnni", "avx512", "amx"};
#endif

const char *rf_isa_name(rf_isa isa) {
    return (unsigned)isa < RF_ISA_COUNT ? isa_names[isa] : "unknown";
}

bool rf_cpu_has_avxvnni(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           (a & 1u << 4);
#else
    return false;
#endif
}

#if defined(__x86_64__)
/* The processor has tiles and their products of bytes, and GFNI, the system saves the tiles, and lets this process
 * use them: Linux wants to be asked, since a thread that does so takes 8 KiB more. */
static bool has_amx(void) {
#if defined(__linux__)
    enum { TILE_CONFIG = 17, TILE_DATA = 18, REQUEST_PERMISSION = 0x1023 };
    const unsigned saved = 1u << TILE_CONFIG | 1u << TILE_DATA;
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & 1u << 24) || !(d & 1u << 25) ||
        !(c & bit_GFNI))
        return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & saved) == saved && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}
#endif

rf_isa rf_isa_best(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    __builtin_cpu_init();
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c)) {
        return RF_ISA_SCALAR;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni")) {
        return has_amx() ? RF_ISA_AMX : RF_ISA_AVX512;
    }
    return rf_cpu_has_avxvnni() ? RF_ISA_AVXVNNI : RF_ISA_AVX2;
#elif defined(__aarch64__)
    if (!(getauxval(AT_HWCAP) & HWCAP_ASIMDDP)) return RF_ISA_SCALAR;
    return getauxval(AT_HWCAP2) & HWCAP2_I8MM ? RF_ISA_I8MM : RF_ISA_NEON;
#else
    return RF_ISA_SCALAR;
#endif
}

rf_status rf_isa_choose(rf_isa *out, rf_error *e) {
    rf_isa best = rf_isa_best();
    *out = best;
    const char *name = getenv("RF_CPU");
    if (!name || !*name) return RF_OK;
    for (int i = 0; i < RF_ISA_COUNT; i++) {
        if (strcmp(name, isa_names[i]) != 0) continue;
        if (i > (int)best) {
            return rf_fail(e, RF_EUNSUPPORTED,
                           "RF_CPU=%s: this processor has at most %s; unset RF_CPU or lower it",
                           name, isa_names[best]);
        }
        *out = (rf_isa)i;
        return RF_OK;
    }
    char known[80] = "";
    for (int i = 0; i < RF_ISA_COUNT; i++) {
        size_t n = strlen(known);
        const char *before = i == 0 ? "" : i + 1 < RF_ISA_COUNT ? ", " : " or ";
        snprintf(known + n, sizeof known - n, "%s%s", before, isa_names[i]);
    }
    return rf_fail(e, RF_EARG, "RF_CPU=%.40s: unknown, expected %s", name, known);
}
