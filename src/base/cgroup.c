/* cgroup.c - control groups version 2 (processor quota, memory) and the processor quota of version 1.
 *
 * Threads beyond a processor quota only wait for each other, and memory beyond a limit is not there,
 * whatever the machine has. */
#include "base/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

/* The start of dir/name as text; false when it is not there. */
static bool read_text(const char *dir, const char *name, char *out, size_t cap) {
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s%s", dir, name);
    FILE *f = fopen(path, "re");
    if (!f) return false;
    size_t n = fread(out, 1, cap - 1, f);
    out[n] = '\0';
    fclose(f);
    return true;
}

static void limit_cpus(rf_cgroup_limits *limits, long quota, long period) {
    if (quota <= 0 || period <= 0) return; /* -1 and "max": no limit */
    long cpus = (quota - 1) / period + 1;
    if (cpus < limits->cpus) limits->cpus = cpus;
}

/* The number behind "key" at the start of a line, 0 when absent. */
static uint64_t number_after(const char *text, const char *key) {
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, key, n) == 0) return strtoull(line + n, NULL, 10);
    }
    return 0;
}

static void visit_group(const char *dir, rf_cgroup_limits *limits) {
    char text[8192];
    long quota, period;
    if (read_text(dir, "/cpu.max", text, sizeof text) &&
        sscanf(text, "%ld %ld", &quota, &period) == 2) {
        limit_cpus(limits, quota, period);
    }
    if (!read_text(dir, "/memory.max", text, sizeof text)) return;
    uint64_t max = strtoull(text, NULL, 10);
    if (max == 0) return; /* "max" */
    if (max < limits->mem_total) limits->mem_total = max;
    if (!read_text(dir, "/memory.current", text, sizeof text)) return;
    uint64_t used = strtoull(text, NULL, 10);
    if (read_text(dir, "/memory.stat", text, sizeof text)) {
        uint64_t cached = number_after(text, "file "); /* given up under pressure */
        used = used > cached ? used - cached : 0;
    }
    uint64_t left = max > used ? max - used : 0;
    if (left < limits->mem_available) limits->mem_available = left;
}

static void visit_version_1(const char *root, rf_cgroup_limits *limits) {
    char quota[64], period[64];
    if (!read_text(root, "/cpu/cpu.cfs_quota_us", quota, sizeof quota)) return;
    if (!read_text(root, "/cpu/cpu.cfs_period_us", period, sizeof period)) return;
    limit_cpus(limits, strtol(quota, NULL, 10), strtol(period, NULL, 10));
}

rf_cgroup_limits rf_cgroup_read(const char *self, const char *root) {
    rf_cgroup_limits limits = {LONG_MAX, UINT64_MAX, UINT64_MAX};
    visit_version_1(root, &limits);
    char text[PATH_BYTES], dir[PATH_BYTES];
    if (!read_text(self, "", text, sizeof text)) return limits;
    const char *own = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::"); /* version 2 */
    if (own) own = strchr(own, '/');
    if (!own) return limits;
    int len = snprintf(dir, sizeof dir, "%s%.*s", root, (int)strcspn(own, "\n"), own);
    if (len < 0 || len >= (int)sizeof dir) return limits;
    size_t n_root = strlen(root);
    for (size_t n = (size_t)len;; n--) { /* the own group, its parents, the root */
        bool is_root = n == n_root;
        if (is_root || dir[n] == '\0' || dir[n] == '/') {
            dir[n] = '\0';
            visit_group(dir, &limits);
        }
        if (is_root) return limits;
    }
}
