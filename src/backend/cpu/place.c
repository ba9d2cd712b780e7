/* place.c - on a machine of several nodes, the rows of every matrix into the memory of the node whose threads
 * multiply them first.
 *
 * The system puts a page of a file near to whoever asks for it first, and leaves it there.  So each thread
 * asks for a part of its node's rows, before decoding norms and reading ahead scatter them.  What
 * is in memory already stays where it is. */
#include "backend/cpu/exec.h"

typedef struct placing {
    rf_pool *pool;
    const rf_plan *plan;
} placing;

/* The node's rows of each n-th matrix, from the i-th on. */
static void want_rows(const placing *l, int node, uint32_t i, uint32_t n, rf_part part) {
    const rf_spread *spread = rf_pool_spread(l->pool);
    uint64_t matrix = 0;
    for (uint32_t k = 0; k < l->plan->n_steps; k++) {
        const rf_step *s = &l->plan->steps[k];
        if (!rf_cpu_multiplies(s)) continue;
        const rf_tensor *w = l->plan->vals[s->w].weight;
        size_t begin = rf_cpu_node_row(spread, node, w->rows);
        size_t rows = rf_cpu_node_row(spread, node + 1, w->rows) - begin;
        for (size_t plane = 0; plane < w->planes; plane++)
            if (matrix++ % n == i)
                rf_want_near((const uint8_t *)w->data + (plane * w->rows + begin) * w->row_bytes,
                             rows * w->row_bytes, part);
    }
}

static void place(void *ctx, int ith, int n_threads) {
    const placing *l = ctx;
    const rf_spread *s = rf_pool_spread(l->pool);
    int node = 0;
    (void)n_threads;
    while (ith >= s->first[node + 1])
        node++;
    uint32_t i = (uint32_t)(ith - s->first[node]),
             n = (uint32_t)(s->first[node + 1] - s->first[node]);
    want_rows(l, node, i, n, RF_PART_EDGES);
    rf_pool_barrier(l->pool);
    want_rows(l, node, i, n, RF_PART_MIDDLE);
}

void rf_cpu_place(rf_backend *b, const rf_plan *p) {
    placing l = {b->pool, p};
    if (rf_pool_spread(b->pool)->n == 1) return;
    if (rf_plan_weight_bytes(p) > rf_mem_available()) return; /* they will come and go */
    pthread_mutex_lock(&b->lock);
    rf_pool_run(b->pool, place, &l);
    pthread_mutex_unlock(&b->lock);
}
