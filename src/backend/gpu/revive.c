/* revive.c - after a fault: the device opened anew, and everything that was on it made again.
 *
 * Tasks and places of an exec do not change, only addresses do.  What was computed is gone: KV caches
 * start empty.  Where the device does not come back, the queue keeps the error, and every later run
 * says it. */
#include <stdio.h>
#include <string.h>

#include "backend/gpu/code.h"
#include "backend/gpu/exec.h"
#include "base/log.h"

/* The queue on the same device with the kernels; what it left out stays out. */
static rf_status reopen(rf_gpu_queue *q, rf_error *e) {
    const rf_gpu_queue old = *q;
    rf_gpu_close(q);
    rf_status s = rf_gpu_open(q, old.driver, old.device, e);
    if (s == RF_OK) s = rf_gpu_code_load(q, e);
    if (s != RF_OK) {
        rf_gpu_close(q);
        *q = (rf_gpu_queue){.driver = old.driver, .device = old.device, .info = old.info};
        memcpy(q->code_digest, old.code_digest, sizeof q->code_digest);
    }
    memcpy(q->left_out, old.left_out, sizeof q->left_out);
    q->fast_floats = old.fast_floats;
    return s;
}

static rf_status rebuild(rf_backend *b, rf_error *e) {
    rf_gpu_queue *q = &b->queue;
    for (rf_exec *x = b->execs; x; x = x->next)
        rf_gpu_release(x);
    rf_gpu_store_lost(&b->weights, q);
    RF_TRY(reopen(q, e));
    RF_TRY(rf_gpu_store_reload(&b->weights, q, b->pool, e));
    for (rf_exec *x = b->execs; x; x = x->next) {
        rf_gpu_weights_relink(&x->weights, &b->weights);
        RF_TRY(rf_gpu_take(x, e));
        rf_gpu_link_weights(x);
    }
    for (rf_exec *x = b->execs; x; x = x->next) /* of what all of them leave */
        RF_TRY(rf_gpu_keep(x, e));
    return RF_OK;
}

rf_status rf_gpu_revive(rf_backend *b, rf_error *fault) {
    rf_error why = {.status = RF_OK};
    pthread_mutex_lock(&b->lock);
    rf_status s = rf_gpu_status(&b->queue, fault);
    if (s != RF_OK) s = rebuild(b, &why);
    if (s != RF_OK) { /* part of its memory is gone: it is of no use until the next attempt */
        rf_log_write(RF_LOG_ERROR, "the device does not come back: %s", why.text);
        b->queue.error = (rf_error){.status = RF_OK};
        s = rf_fail(&b->queue.error, RF_EDEVICE, "%.440s", why.text);
    }
    pthread_mutex_unlock(&b->lock);
    return s;
}
