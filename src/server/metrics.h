/* metrics.h - what the server counts, printed in Prometheus' text format.
 *
 * One table (metrics.def).  Recording is lock-free and allowed on any thread. */
#pragma once
#include <stdatomic.h>

#include "base/buf.h"

typedef enum rf_metric {
#define X(id, kind, name, help) RF_M_##id,
#include "server/metrics.def"
#undef X
    RF_M_COUNT
} rf_metric;
enum { RF_METRIC_BUCKETS = 18, RF_METRIC_RATE_SECONDS = 10 };

typedef struct rf_metric_value {
    atomic_uint_fast64_t n;                          /* counter; observations of a histogram */
    atomic_uint_fast64_t sum_us;                     /* of a histogram */
    atomic_uint_fast64_t buckets[RF_METRIC_BUCKETS]; /* not cumulative; larger ones are in n only */
} rf_metric_value;
typedef struct rf_metrics {    /* start from {0} */
    struct rf_metrics *parent; /* counts the same; NULL: none */
    rf_metric_value values[RF_M_COUNT];
    /* Tokens by second of the clock, modulo: the second in the upper half, their count in the lower. */
    atomic_uint_fast64_t rate[RF_METRIC_RATE_SECONDS + 2];
} rf_metrics;

void rf_metrics_add(rf_metrics *m, rf_metric id, uint64_t n);
void rf_metrics_observe(rf_metrics *m, rf_metric id, uint64_t us);
uint64_t rf_metrics_get(const rf_metrics *m, rf_metric id);         /* a counter, or observations */
void rf_metrics_tokens(rf_metrics *m, uint64_t n, uint64_t now_us); /* counts them, and the rate */
double rf_metrics_tokens_per_second(const rf_metrics *m, uint64_t now_us);
/* read: [RF_M_COUNT] values of gauges and totals. */
void rf_metrics_print(const rf_metrics *m, const double *read, rf_buf *out);
