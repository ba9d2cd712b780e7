/* topology.h - how processors lie in the machine: part of os.h's answers, apart from them so that a
 * test can show it a tree of its own. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_MAX_CPUS = 16384 };

/* A set of processors by number. */
typedef struct rf_cpu_mask {
    uint8_t bits[RF_MAX_CPUS / 8];
} rf_cpu_mask;

static inline bool rf_cpu_mask_has(const rf_cpu_mask *m, unsigned cpu) {
    return cpu < RF_MAX_CPUS && (m->bits[cpu / 8] >> cpu % 8 & 1) != 0;
}
static inline void rf_cpu_mask_add(rf_cpu_mask *m, unsigned cpu) {
    if (cpu < RF_MAX_CPUS) m->bits[cpu / 8] = (uint8_t)(m->bits[cpu / 8] | 1u << cpu % 8);
}

/* Cores among the processors of `allowed`: hardware threads of one core count once.  root: where the
 * kernel describes processors (/sys/devices/system/cpu).  A processor that is not described there is
 * a core of its own. */
int rf_topology_cores(const rf_cpu_mask *allowed, const char *root);

#ifdef __cplusplus
}
#endif
