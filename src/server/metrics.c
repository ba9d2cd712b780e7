/* metrics.c - counters, histograms over fixed bounds, and a rate over the last seconds. */
#include "server/metrics.h"

#include <string.h>

typedef enum kind { COUNTER, HISTOGRAM, GAUGE, TOTAL } kind;
static const struct row {
    kind kind;
    const char *name, *help;
} rows[] = {
#define X(id, kind, name, help) {kind, name, help},
#include "server/metrics.def"
#undef X
};
_Static_assert(RF_COUNT(rows) == RF_M_COUNT, "one row per metric");

static const uint64_t bounds_us[RF_METRIC_BUCKETS] = {
    500,    1000,    2500,    5000,    10000,    25000,    50000,    100000,    250000,
    500000, 1000000, 2500000, 5000000, 10000000, 30000000, 60000000, 120000000, 300000000};

void rf_metrics_add(rf_metrics *m, rf_metric id, uint64_t n) {
    for (; m; m = m->parent)
        atomic_fetch_add_explicit(&m->values[id].n, n, memory_order_relaxed);
}

void rf_metrics_observe(rf_metrics *m, rf_metric id, uint64_t us) {
    RF_ASSERT(rows[id].kind == HISTOGRAM);
    size_t i = 0;
    while (i < RF_METRIC_BUCKETS && us > bounds_us[i])
        i++;
    for (; m; m = m->parent) {
        rf_metric_value *v = &m->values[id];
        if (i < RF_METRIC_BUCKETS)
            atomic_fetch_add_explicit(&v->buckets[i], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&v->sum_us, us, memory_order_relaxed);
        atomic_fetch_add_explicit(&v->n, 1, memory_order_relaxed);
    }
}

uint64_t rf_metrics_get(const rf_metrics *m, rf_metric id) {
    return atomic_load_explicit(&m->values[id].n, memory_order_relaxed);
}

/* A place belongs to the second that used it last. */
static void count_in_second(rf_metrics *m, uint64_t n, uint64_t second) {
    atomic_uint_fast64_t *place = &m->rate[second % RF_COUNT(m->rate)];
    uint_fast64_t old = atomic_load(place), new;
    do
        new = (old >> 32 == second ? old : second << 32) + n;
    while (!atomic_compare_exchange_weak(place, &old, new));
}

void rf_metrics_tokens(rf_metrics *m, uint64_t n, uint64_t now_us) {
    rf_metrics_add(m, RF_M_TOKENS, n);
    for (; m; m = m->parent)
        count_in_second(m, n, now_us / 1000000);
}

double rf_metrics_tokens_per_second(const rf_metrics *m, uint64_t now_us) {
    uint64_t now = now_us / 1000000, n = 0;
    for (size_t i = 0; i < RF_COUNT(m->rate); i++) {
        uint64_t place = atomic_load(&m->rate[i]), second = place >> 32;
        if (second < now && now - second <= RF_METRIC_RATE_SECONDS) n += (uint32_t)place;
    }
    return (double)n / RF_METRIC_RATE_SECONDS;
}

static void print_histogram(const rf_metric_value *v, const char *name, rf_buf *out) {
    uint64_t n = 0;
    uint64_t all = atomic_load(&v->n);
    for (size_t i = 0; i < RF_METRIC_BUCKETS; i++) {
        n += atomic_load(&v->buckets[i]);
        rf_buf_printf(out, "rocmforge_%s_bucket{le=\"%g\"} %llu\n", name,
                      (double)bounds_us[i] / 1e6, (unsigned long long)n);
    }
    if (all < n) all = n; /* something was observed meanwhile */
    rf_buf_printf(out, "rocmforge_%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)all);
    rf_buf_printf(out, "rocmforge_%s_sum %.6f\n", name, (double)atomic_load(&v->sum_us) / 1e6);
    rf_buf_printf(out, "rocmforge_%s_count %llu\n", name, (unsigned long long)all);
}

void rf_metrics_print(const rf_metrics *m, const double *read, rf_buf *out) {
    static const char *const types[] = {"counter", "histogram", "gauge", "counter"};
    for (size_t i = 0; i < RF_M_COUNT; i++) {
        const struct row *r = &rows[i];
        rf_buf_printf(out, "# HELP rocmforge_%s %s\n# TYPE rocmforge_%s %s\n", r->name, r->help,
                      r->name, types[r->kind]);
        if (r->kind == HISTOGRAM)
            print_histogram(&m->values[i], r->name, out);
        else if (r->kind == COUNTER)
            rf_buf_printf(out, "rocmforge_%s %llu\n", r->name,
                          (unsigned long long)rf_metrics_get(m, (rf_metric)i));
        else
            rf_buf_printf(out, "rocmforge_%s %.15g\n", r->name, read[i]);
    }
}
