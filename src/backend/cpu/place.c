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

/* A node's rows of all matrices are shared out among its threads, matrix by matrix. */
static void place(void *ctx, int ith, int n_threads) {
    const placing *l = ctx;
    const rf_spread *spread = rf_pool_spread(l->pool);
    const int node = rf_spread_find(spread, ith), first = spread->first[node];
    const uint64_t n_own = (uint64_t)(spread->first[node + 1] - first);
    uint64_t matrix = (uint64_t)(ith - first);
    (void)n_threads;
    for (uint32_t k = 0; k < l->plan->n_steps; k++) {
        const rf_step *s = &l->plan->steps[k];
        if (!rf_cpu_multiplies(s)) continue;
        const rf_tensor *w = l->plan->vals[s->w].weight;
        size_t begin = rf_cpu_node_row(spread, node, w->rows);
        size_t rows = rf_cpu_node_row(spread, node + 1, w->rows) - begin;
        for (size_t plane = 0; plane < w->planes; plane++)
            if (matrix++ % n_own == 0)
                rf_want_near((const uint8_t *)w->data + (plane * w->rows + begin) * w->row_bytes,
                             rows * w->row_bytes);
    }
}

void rf_cpu_place(rf_backend *b, const rf_plan *p) {
    placing l = {b->pool, p};
    if (rf_pool_spread(b->pool)->n == 1) return;
    if (rf_plan_weight_bytes(p) > rf_mem_available()) return; /* they will come and go */
    pthread_mutex_lock(&b->lock);
    rf_pool_run(b->pool, place, &l);
    pthread_mutex_unlock(&b->lock);
}
