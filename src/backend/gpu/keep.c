/* keep.c - what is made of weights for products of many rows (mm_ahead.hip's digits, mm_kept_32.hip's pieces) and stays on the
 * device, in memory that is free when everything else is there, so that these need not make it in each step.  One or two
 * bytes a weight; of the tasks in their order as many as there is room for.  In front lies a word of each task, not 0 where
 * its weights turn out not to fit. */
#include "backend/gpu/exec.h"
#include "backend/gpu/launch.h"
#include "base/log.h"

static size_t unfit_bytes(const rf_exec *x) {
    return rf_gpu_align((size_t)x->n_tasks * sizeof(uint32_t));
}

static rf_gpu_matmul_args product_of(const rf_exec *x, const rf_gpu_task *t) {
    rf_gpu_args a = t->args;
    rf_gpu_fill_slots(x, t, &a);
    return a.matmul;
}

static void choose(rf_exec *x, size_t most) {
    size_t first = unfit_bytes(x), at = first;
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        rf_gpu_task *t = &x->tasks[i];
        t->keeps = false;
        if (t->kind != RF_GPU_TASK_MATMUL) continue;
        const rf_gpu_matmul_args a = product_of(x, t);
        size_t bytes = rf_gpu_align(rf_gpu_kept_bytes(&x->backend->queue, &a));
        if (bytes == 0 || at > most || bytes > most - at) continue;
        t->keeps = true;
        t->kept_at = at;
        at += bytes;
    }
    x->kept_bytes = at > first ? at : 0;
}

/* Nothing is lost without them. */
static void go_without(rf_exec *x) {
    rf_gpu_queue *q = &x->backend->queue;
    rf_log_write(RF_LOG_INFO, "%s; going on without what would stay of weights", q->error.text);
    if (q->error.status == RF_ENOMEM) q->error = (rf_error){.status = RF_OK};
    choose(x, 0);
}

/* unfit: zeros; which tasks' weights do not fit. */
static rf_status make(rf_exec *x, uint32_t *unfit, rf_error *e) {
    rf_gpu_queue *q = &x->backend->queue;
    rf_gpu_upload(q, x->kept, unfit, unfit_bytes(x));
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        if (!x->tasks[i].keeps) continue;
        rf_gpu_matmul_args a = product_of(x, &x->tasks[i]);
        a.kept = x->kept + x->tasks[i].kept_at;
        a.unfit = (uint32_t *)(void *)x->kept + i;
        rf_gpu_op_keep(q, &a);
    }
    rf_gpu_download(q, unfit, x->kept, unfit_bytes(x));
    rf_gpu_wait(q);
    return rf_gpu_status(q, e);
}

rf_status rf_gpu_keep(rf_exec *x, rf_error *e) {
    rf_gpu_queue *q = &x->backend->queue;
    size_t n_free, n_total;
    RF_TRY(rf_gpu_memory(q, &n_free, &n_total, e));
    choose(x, n_free / 100 * x->backend->spare_percent);
    if (x->kept_bytes == 0) return RF_OK;
    x->kept = rf_gpu_alloc(q, x->kept_bytes, "what is kept of weights");
    if (!x->kept) {
        go_without(x);
        return rf_gpu_status(q, e);
    }
    uint32_t *unfit = rf_alloc(1, unfit_bytes(x));
    if (!unfit) return rf_fail_nomem(e, unfit_bytes(x));
    rf_status s = make(x, unfit, e);
    for (uint32_t i = 0; i < x->n_tasks; i++)
        x->tasks[i].keeps = x->tasks[i].keeps && !unfit[i];
    rf_free(unfit);
    return s;
}
