/* huge.c - the plan's matrices into huge pages, by a thread of its own while the first requests run.
 *
 * It is done where it pays and harms nobody: the system has huge pages and the file is not in them, memory holds
 * the weights twice (the file's pages stay until others want the room), and there is one node of memory (place.c
 * sees to several). */
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

struct rf_cpu_mover {
    pthread_t thread;
    atomic_bool stop;
    span *spans; /* [n] */
    size_t n;
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
        n += rf_into_huge_pages(m->spans[i].begin, (size_t)(m->spans[i].end - m->spans[i].begin),
                                stopped, &m->stop);
    if (n) rf_log_write(RF_LOG_DEBUG, "cpu: %zu MiB of weights moved into huge pages", n >> 20);
    return NULL;
}

static void mover_free(rf_cpu_mover *m) {
    if (m) rf_free(m->spans);
    rf_free(m);
}

void rf_cpu_start_moving(rf_exec *x) {
    const rf_backend *b = x->backend;
    if (!b->huge_pages || rf_pool_spread(b->pool)->n > 1 || !rf_has_huge_pages()) return;
    if (rf_plan_weight_bytes(x->plan) > rf_mem_available() / 2) return;
    rf_cpu_mover *m = rf_alloc(1, sizeof *m);
    if (m && find_spans(m, x->plan) && !rf_alloc_should_fail() &&
        pthread_create(&m->thread, NULL, move, m) == 0)
        x->mover = m;
    else
        mover_free(m); /* the weights stay where they are */
}

void rf_cpu_end_moving(rf_exec *x, bool at_once) {
    rf_cpu_mover *m = x->mover;
    if (!m) return;
    if (at_once) atomic_store(&m->stop, true);
    pthread_join(m->thread, NULL);
    mover_free(m);
    x->mover = NULL;
}
