/* traces.c - a ring under a lock. */
#include "server/traces.h"

#include <pthread.h>

#include "server/otlp.h"

struct rf_traces {
    rf_otlp *collector;   /* NULL: none */
    pthread_mutex_t lock; /* guards what follows */
    rf_trace kept[RF_TRACES_KEPT];
    size_t n; /* ever added */
};

rf_status rf_traces_create(rf_traces **out, const rf_traces_opts *opts, rf_error *e) {
    rf_traces *all = *out = rf_alloc(1, sizeof *all);
    if (!all) return rf_fail_nomem(e, sizeof *all);
    pthread_mutex_init(&all->lock, NULL);
    rf_status s = RF_OK;
    if (opts->endpoint)
        s = rf_otlp_create(&all->collector, opts->endpoint, opts->headers, opts->metrics, e);
    if (s == RF_OK) return RF_OK;
    rf_traces_free(all);
    *out = NULL;
    return s;
}

void rf_traces_add(rf_traces *all, rf_trace *t) {
    rf_trace_identify(t);
    pthread_mutex_lock(&all->lock);
    all->kept[all->n++ % RF_TRACES_KEPT] = *t;
    pthread_mutex_unlock(&all->lock);
    bool wanted = !t->from.trace[0] || t->from.is_sampled; /* its caller records it too */
    if (all->collector && wanted) rf_otlp_add(all->collector, t);
}

void rf_traces_print(rf_traces *all, rf_buf *out) {
    rf_buf_putc(out, '[');
    pthread_mutex_lock(&all->lock);
    size_t n = all->n < RF_TRACES_KEPT ? all->n : RF_TRACES_KEPT;
    for (size_t i = 0; i < n; i++) {
        if (i) rf_buf_putc(out, ',');
        rf_trace_print(&all->kept[(all->n - 1 - i) % RF_TRACES_KEPT], out);
    }
    pthread_mutex_unlock(&all->lock);
    rf_buf_putc(out, ']');
}

void rf_traces_free(rf_traces *all) {
    if (!all) return;
    rf_otlp_free(all->collector);
    pthread_mutex_destroy(&all->lock);
    rf_free(all);
}
