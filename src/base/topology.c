/* topology.c - cores and their hardware threads as Linux lists them: cpuN/topology/core_cpus_list,
 * thread_siblings_list in kernels before 5.0. */
#include "base/topology.h"

#include <stdio.h>
#include <stdlib.h>

/* The first processor of a list such as "0-3,8,10-11" that is allowed; `cpu` when there is none. */
static unsigned first_allowed(const char *list, const rf_cpu_mask *allowed, unsigned cpu) {
    for (const char *p = list; *p >= '0' && *p <= '9';) {
        char *end;
        unsigned long first = strtoul(p, &end, 10), last = first;
        if (*end == '-') last = strtoul(end + 1, &end, 10);
        for (; first <= last && first < RF_MAX_CPUS; first++)
            if (rf_cpu_mask_has(allowed, (unsigned)first)) return (unsigned)first;
        p = *end == ',' ? end + 1 : end;
    }
    return cpu;
}

static bool read_siblings(const char *root, unsigned cpu, char *out, size_t cap) {
    static const char *const names[] = {"core_cpus_list", "thread_siblings_list"};
    for (size_t i = 0; i < RF_COUNT(names); i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/cpu%u/topology/%s", root, cpu, names[i]);
        FILE *f = fopen(path, "re");
        if (!f) continue;
        size_t n = fread(out, 1, cap - 1, f);
        out[n] = '\0';
        fclose(f);
        return true;
    }
    return false;
}

int rf_topology_cores(const rf_cpu_mask *allowed, const char *root) {
    int n = 0;
    for (unsigned cpu = 0; cpu < RF_MAX_CPUS; cpu++) {
        char list[256];
        if (!rf_cpu_mask_has(allowed, cpu)) continue;
        if (!read_siblings(root, cpu, list, sizeof list)) list[0] = '\0';
        n += first_allowed(list, allowed, cpu) == cpu; /* each core is counted by one of its own */
    }
    return n;
}
