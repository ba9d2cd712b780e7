/* weights.h - the weights on a device: named first, counted, then loaded once for all execs.
 *
 * An exec names what it needs and gets numbers; rf_gpu_weights_load brings what the device does not
 * have yet, packed by all threads and uploaded through two pinned buffers in turn; after that a
 * number gives the weight's address.  Execs of one backend share weights: a block of the store lives
 * as long as an exec that uses it. */
#pragma once
#include "backend/gpu/driver.h"
#include "backend/gpu/pack.h"
#include "base/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_gpu_block rf_gpu_block; /* what one load brought */

typedef struct rf_gpu_store {
    rf_gpu_block *first; /* list */
} rf_gpu_store;

/* One weight: a matrix as its kernel wants it, or a vector of f32. */
typedef struct rf_gpu_entry {
    const void *key; /* its bytes on the host, in the file or in the model */
    bool is_vector;
    rf_gpu_layout layout; /* matrix */
    rf_tensor tensor;     /* where it is made from; a vector of the model's own: type F32 */
    uint8_t *base;        /* on the device, NULL until loaded */
} rf_gpu_entry;

typedef struct rf_gpu_weights { /* of one exec */
    rf_gpu_entry *entry;        /* [n] */
    uint32_t n, cap;
    rf_gpu_block **blocks; /* [n_blocks] that it keeps alive */
    uint32_t n_blocks;
} rf_gpu_weights;

/* Names a weight; *out is its number. */
RF_CHECKED rf_status rf_gpu_weights_matrix(rf_gpu_weights *w, const rf_tensor *t, uint32_t *out,
                                           rf_error *e);
/* Of whose rows elements are read, as the file has them: products do with rounded minima in groups of 32, so that a
 * matrix of those is in memory twice where it is both. */
RF_CHECKED rf_status rf_gpu_weights_table(rf_gpu_weights *w, const rf_tensor *t, uint32_t *out,
                                          rf_error *e);
RF_CHECKED rf_status rf_gpu_weights_vector(rf_gpu_weights *w, const rf_tensor *t, uint32_t *out,
                                           rf_error *e);
/* n floats of the model's own. */
RF_CHECKED rf_status rf_gpu_weights_floats(rf_gpu_weights *w, const float *v, uint32_t n,
                                           uint32_t *out, rf_error *e);

/* Device bytes that rf_gpu_weights_load will take: those not in the store yet. */
size_t rf_gpu_weights_bytes(const rf_gpu_weights *w, const rf_gpu_store *store);
RF_CHECKED rf_status rf_gpu_weights_load(rf_gpu_weights *w, rf_gpu_store *store, rf_gpu_queue *q,
                                         rf_pool *pool, rf_error *e);
void rf_gpu_weights_release(rf_gpu_weights *w, rf_gpu_store *store, rf_gpu_queue *q);

/* After a fault: the device lost all blocks.  Lost: they are gone; reload: they are there again, and so
 * are the addresses of an exec's weights after relinking. */
void rf_gpu_store_lost(rf_gpu_store *store, rf_gpu_queue *q);
RF_CHECKED rf_status rf_gpu_store_reload(rf_gpu_store *store, rf_gpu_queue *q, rf_pool *pool,
                                         rf_error *e);
void rf_gpu_weights_relink(rf_gpu_weights *w, const rf_gpu_store *store);

/* After loading. */
rf_gpu_weight rf_gpu_weights_at(const rf_gpu_weights *w, uint32_t number);
const float *rf_gpu_weights_vector_at(const rf_gpu_weights *w, uint32_t number);

#ifdef __cplusplus
}
#endif
