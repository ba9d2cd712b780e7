/* topology.c - cores, their hardware threads and nodes as Linux lists them: cpu/cpuN/topology/core_cpus_list,
 * thread_siblings_list in kernels before 5.0; node/online and node/nodeN/cpulist. */
#include "base/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_BYTES = 4096 }; /* what the kernel writes at most */

/* The next range of a list such as "0-3,8,10-11"; false behind the last, or where it is no list. */
static bool next_range(const char **list, unsigned long *first, unsigned long *last) {
    const char *p = *list;
    char *end;
    if (*p < '0' || *p > '9') return false;
    *first = *last = strtoul(p, &end, 10);
    if (*end == '-') *last = strtoul(end + 1, &end, 10);
    *list = *end == ',' ? end + 1 : end;
    return true;
}

/* The first processor of a list that is allowed; `cpu` when there is none. */
static unsigned first_allowed(const char *list, const rf_cpu_mask *allowed, unsigned cpu) {
    for (unsigned long first, last; next_range(&list, &first, &last);)
        for (; first <= last && first < RF_MAX_CPUS; first++)
            if (rf_cpu_mask_has(allowed, (unsigned)first)) return (unsigned)first;
    return cpu;
}

static bool read_list(const char *path, char out[LIST_BYTES]) {
    FILE *f = fopen(path, "re");
    out[0] = '\0';
    if (!f) return false;
    out[fread(out, 1, LIST_BYTES - 1, f)] = '\0';
    fclose(f);
    return true;
}

static void read_siblings(const char *root, unsigned cpu, char out[LIST_BYTES]) {
    static const char *const names[] = {"core_cpus_list", "thread_siblings_list"};
    bool found = false;
    for (size_t i = 0; i < RF_COUNT(names) && !found; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/cpu%u/topology/%s", root, cpu, names[i]);
        found = read_list(path, out);
    }
}

int rf_topology_cores(const rf_cpu_mask *allowed, const char *root) {
    int n = 0;
    for (unsigned cpu = 0; cpu < RF_MAX_CPUS; cpu++) {
        char list[LIST_BYTES];
        if (!rf_cpu_mask_has(allowed, cpu)) continue;
        read_siblings(root, cpu, list);
        n += first_allowed(list, allowed, cpu) == cpu; /* each core is counted by one of its own */
    }
    return n;
}

/* Adds node number `number` if it has processors that are allowed; false where the description is wrong. */
static bool add_node(rf_nodes *nodes, unsigned long number, const rf_cpu_mask *allowed,
                     const char *root) {
    char path[4096], list[LIST_BYTES];
    const char *at = list;
    rf_cpu_mask own = {{0}};
    bool is_empty = true;
    snprintf(path, sizeof path, "%s/node/node%lu/cpulist", root, number);
    if (!read_list(path, list)) return false;
    for (unsigned long cpu, last; next_range(&at, &cpu, &last);)
        for (; cpu <= last && cpu < RF_MAX_CPUS; cpu++) {
            if (!rf_cpu_mask_has(allowed, (unsigned)cpu)) continue;
            if (nodes->n == RF_MAX_NODES || nodes->of[cpu] != UINT8_MAX) return false;
            nodes->of[cpu] = (uint8_t)nodes->n;
            rf_cpu_mask_add(&own, (unsigned)cpu);
            is_empty = false;
        }
    if (is_empty) return true; /* memory alone, or others' processors */
    snprintf(path, sizeof path, "%s/cpu", root);
    nodes->cores[nodes->n++] = rf_topology_cores(&own, path);
    return true;
}

void rf_topology_nodes(rf_nodes *out, const rf_cpu_mask *allowed, const char *root) {
    char path[4096], list[LIST_BYTES];
    const char *at = list;
    bool ok;
    out->n = 0;
    memset(out->of, UINT8_MAX, sizeof out->of);
    snprintf(path, sizeof path, "%s/node/online", root);
    ok = read_list(path, list);
    for (unsigned long number, last; ok && next_range(&at, &number, &last);)
        for (; ok && number <= last; number++)
            ok = add_node(out, number, allowed, root);
    for (unsigned cpu = 0; cpu < RF_MAX_CPUS; cpu++) {
        bool is_ours = rf_cpu_mask_has(allowed, cpu), has_node = out->of[cpu] != UINT8_MAX;
        if (is_ours != has_node) ok = false;
        if (!has_node) out->of[cpu] = (uint8_t)out->n;
    }
    if (ok && out->n > 1) return;
    *out = (rf_nodes){.n = 1, .cores = {1}};
}

void rf_topology_spread(rf_spread *out, const rf_nodes *nodes, int n_threads) {
    int64_t n_cores = 0, before = 0;
    out->n = 0;
    out->first[0] = 0;
    for (int i = 0; i < nodes->n; i++)
        n_cores += nodes->cores[i];
    for (int i = 0; i < nodes->n; i++) {
        before += nodes->cores[i];
        int end = (int)((n_threads * before + n_cores / 2) / n_cores);
        if (end == out->first[out->n]) continue;
        out->node[out->n] = i;
        out->first[++out->n] = end;
    }
}
