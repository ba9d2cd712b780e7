/* cgroup.h - what the control groups of this process allow it: part of os.h's answers, apart from
 * them so that a test can show it a tree of its own. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_cgroup_limits {
    long cpus;              /* processors' worth of time, rounded up; LONG_MAX = no limit */
    uint64_t mem_total;     /* bytes; UINT64_MAX = no limit */
    uint64_t mem_available; /* bytes not yet used below the limit; UINT64_MAX = no limit */
} rf_cgroup_limits;

/* self: the file that names this process's groups (/proc/self/cgroup); root: where their files are
 * mounted (/sys/fs/cgroup).  The strictest group from the own one up to the root counts.  Files that
 * are absent or unreadable limit nothing. */
rf_cgroup_limits rf_cgroup_read(const char *self, const char *root);

#ifdef __cplusplus
}
#endif
