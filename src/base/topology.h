/* topology.h - how processors lie in the machine: part of os.h's answers, apart from them so that a
 * test can show it a tree of its own. */
#pragma once
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RF_MAX_CPUS = 16384, RF_MAX_NODES = 64 };

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

/* Nodes: parts of the machine with memory that is nearer to their processors than the others'. */
typedef struct rf_nodes {
    int n;                   /* with processors that are allowed; 1 where nothing is known */
    int cores[RF_MAX_NODES]; /* of those */
    uint8_t of[RF_MAX_CPUS]; /* the node of each processor, n where it has none */
} rf_nodes;
/* root: where the kernel describes nodes and processors (/sys/devices/system).  A description that leaves
 * out a processor or gives it to two nodes is none. */
void rf_topology_nodes(rf_nodes *out, const rf_cpu_mask *allowed, const char *root);

/* Which threads work on which node: those from first[i] to before first[i + 1] on node[i]. */
typedef struct rf_spread {
    int n, first[RF_MAX_NODES + 1], node[RF_MAX_NODES];
} rf_spread;
/* The part of a spread that a thread is in. */
static inline int rf_spread_find(const rf_spread *s, int ith) {
    int i = 0;
    while (ith >= s->first[i + 1])
        i++;
    return i;
}
/* In proportion to the nodes' cores; a node that gets no thread is left out. */
void rf_topology_spread(rf_spread *out, const rf_nodes *nodes, int n_threads);

#ifdef __cplusplus
}
#endif
