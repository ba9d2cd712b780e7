/* huge.c - the plan's matrices and the KV cache into huge pages, by a thread of its own while the first requests run.
 *
 * Matrices move where it pays and harms nobody: the file is not in huge pages, memory holds the weights twice (the
 * file's pages stay until others want the room), and there is one node of memory (place.c sees to several).  Of the KV
 * cache what is used from then on lies in huge pages: not from the start, as the first token would wait until a huge page of
 * every layer's is cleared. */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "backend/cpu/exec.h"
#include "base/log.h"

enum {
    GAP = 1 << 20, /* between two matrices, at most, for one span of them */
    NICE = 10,     /* the model's own threads go first */
    WAIT_MS = 200, /* a short prompt is read, and its first token there, before */
    NAP_MS = 5,
};

typedef struct span {
    const uint8_t *begin, *end;
} span;

static size_t span_bytes(span s) { return (size_t)(s.end - s.begin); }

struct rf_cpu_mover {
    pthread_t thread;
    atomic_bool stop;
    span *spans; /* [n] of matrices */
    size_t n;
    span kv[2];
};

static int by_begin(const void *a, const void *b) {
    const span *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Where the plan's matrices lie, in order, neighbours together. */
static bool find_spans(rf_cpu_mover *m, const rf_plan *p) {
    size_t n = 0;
    m->spans = rf_alloc(p->n_steps, sizeof *m->spans);
    if (!m->spans) return false;
    for (uint32_t k = 0; k < p->n_steps; k++) {
        if (!rf_cpu_multiplies(&p->steps[k])) continue;
        const rf_tensor *w = p->vals[p->steps[k].w].weight;
        const uint8_t *begin = w->data;
        m->spans[n++] = (span){begin, begin + (size_t)w->planes * w->rows * w->row_bytes};
    }
    qsort(m->spans, n, sizeof *m->spans, by_begin);
    for (size_t i = 0; i < n; i++) {
        span *last = m->n ? &m->spans[m->n - 1] : NULL;
        if (!last || (uintptr_t)m->spans[i].begin > (uintptr_t)last->end + GAP)
            m->spans[m->n++] = m->spans[i];
        else if (m->spans[i].end > last->end)
            last->end = m->spans[i].end;
    }
    return true;
}

static bool stopped(const void *user) { return atomic_load((const atomic_bool *)user); }

static void *move(void *user) {
    rf_cpu_mover *m = user;
    size_t n = 0;
    (void)setpriority(PRIO_PROCESS, 0, NICE); /* of this thread, on Linux */
    for (int ms = 0; ms < WAIT_MS && !stopped(&m->stop); ms += NAP_MS)
        nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000}, NULL);
    for (size_t i = 0; i < m->n && !stopped(&m->stop); i++)
        n += rf_into_huge_pages(m->spans[i].begin, span_bytes(m->spans[i]), stopped, &m->stop);
    for (size_t i = 0; i < RF_COUNT(m->kv); i++)
        rf_want_huge_pages(m->kv[i].begin, span_bytes(m->kv[i]));
    if (n) rf_log_write(RF_LOG_DEBUG, "cpu: %zu MiB of weights moved into huge pages", n >> 20);
    return NULL;
}

static void mover_free(rf_cpu_mover *m) {
    if (m) rf_free(m->spans);
    rf_free(m);
}

/* What shall move.  More than half of the memory that is free is taken by nothing. */
static bool fill(rf_cpu_mover *m, const rf_exec *x) {
    const uint64_t weights = rf_plan_weight_bytes(x->plan), kv = x->k_bytes + x->v_bytes;
    uint64_t room = rf_mem_available() / 2;
    if (rf_pool_spread(x->backend->pool)->n == 1 && weights <= room) {
        if (!find_spans(m, x->plan)) return false;
        room -= weights;
    }
    if (kv <= room) {
        m->kv[0] = (span){x->k, x->k + x->k_bytes};
        m->kv[1] = (span){x->v, x->v + x->v_bytes};
    }
    return true;
}

void rf_cpu_start_moving(rf_exec *x) {
    if (!x->backend->huge_pages || !rf_has_huge_pages()) return;
    rf_cpu_mover *m = rf_alloc(1, sizeof *m);
    if (m && fill(m, x) && !rf_alloc_should_fail() &&
        pthread_create(&m->thread, NULL, move, m) == 0)
        x->mover = m;
    else
        mover_free(m); /* all stays where it is */
}

void rf_cpu_end_moving(rf_exec *x, bool at_once) {
    rf_cpu_mover *m = x->mover;
    if (!m) return;
    if (at_once) atomic_store(&m->stop, true);
    pthread_join(m->thread, NULL);
    mover_free(m);
    x->mover = NULL;
}
