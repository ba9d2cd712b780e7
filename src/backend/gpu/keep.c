/* keep.c - digits of weights (mm_ahead.hip) that stay on the device, in memory that is free when everything else is
 * there: products of many rows need not make them in each step then.  Two bytes a weight; of the tasks in their
 * order as many as there is room for. */
#include "backend/gpu/exec.h"
#include "backend/gpu/launch.h"
#include "base/log.h"

static rf_gpu_matmul_args product_of(const rf_exec *x, const rf_gpu_task *t) {
    rf_gpu_args a = t->args;
    rf_gpu_fill_slots(x, t, &a);
    return a.matmul;
}

static void choose(rf_exec *x, size_t most) {
    x->kept_bytes = 0;
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        rf_gpu_task *t = &x->tasks[i];
        t->keeps = false;
        if (t->kind != RF_GPU_TASK_MATMUL) continue;
        const rf_gpu_matmul_args a = product_of(x, t);
        size_t bytes = rf_gpu_align(rf_gpu_kept_bytes(&x->backend->queue, &a));
        if (bytes == 0 || bytes > most - x->kept_bytes) continue;
        t->keeps = true;
        t->kept_at = x->kept_bytes;
        x->kept_bytes += bytes;
    }
}

/* Nothing is lost without them. */
static void go_without(rf_exec *x) {
    rf_gpu_queue *q = &x->backend->queue;
    rf_log_write(RF_LOG_INFO, "%s; going on without digits that stay", q->error.text);
    if (q->error.status == RF_ENOMEM) q->error = (rf_error){.status = RF_OK};
    choose(x, 0);
}

rf_status rf_gpu_keep(rf_exec *x, rf_error *e) {
    rf_gpu_queue *q = &x->backend->queue;
    size_t n_free, n_total;
    RF_TRY(rf_gpu_memory(q, &n_free, &n_total, e));
    choose(x, n_free / 100 * x->backend->spare_percent);
    if (x->kept_bytes == 0) return RF_OK;
    x->kept = rf_gpu_alloc(q, x->kept_bytes, "digits of weights");
    if (!x->kept) go_without(x);
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        if (!x->tasks[i].keeps) continue;
        rf_gpu_matmul_args a = product_of(x, &x->tasks[i]);
        a.kept = x->kept + x->tasks[i].kept_at;
        rf_gpu_op_keep(q, &a);
    }
    return rf_gpu_status(q, e);
}
