/* gpu.c - the GPU backend: rf_backend_ops over lower.c, memory.c, weights.c and run.c.
 *
 * run() uploads the batch and queues the whole forward pass; wait() waits for its result.  Execs of
 * one backend share the device's one queue, so what they do happens in order. */
#include <stdio.h>
#include <string.h>

#include "backend/gpu/code.h"
#include "backend/gpu/compile.h"
#include "backend/gpu/exec.h"
#include "backend/gpu/quarantine.h"

static void gpu_close(rf_backend *b) {
    if (!b) return;
    rf_gpu_close(&b->queue);
    rf_pool_free(b->pool);
    pthread_mutex_destroy(&b->lock);
    rf_free(b);
}

static rf_status open_device(rf_backend *b, const rf_backend_opts *o, rf_error *e) {
    const rf_gpu_driver *driver;
    int n_threads = o && o->n_threads ? o->n_threads : rf_core_count();
    RF_TRY(rf_gpu_driver_get(&driver, e));
    RF_TRY(rf_gpu_open(&b->queue, driver, o ? o->device : 0, e));
    RF_TRY(rf_gpu_code_load(&b->queue, e));
    b->queue.fast_floats = o && o->fast_floats;
    b->spare_percent = o ? o->spare_percent : 0;
    return rf_pool_create(&b->pool, n_threads, e);
}

rf_status rf_gpu_open_unjudged(rf_backend **out, const rf_backend_opts *o, rf_error *e) {
    *out = NULL;
    rf_backend *b = rf_alloc(1, sizeof *b);
    if (!b) return rf_fail_nomem(e, sizeof *b);
    if (pthread_mutex_init(&b->lock, NULL) != 0) {
        rf_free(b);
        return rf_fail(e, RF_ENOMEM, "gpu backend: no mutex to be had from the system");
    }
    rf_status s = open_device(b, o, e);
    if (s == RF_OK)
        *out = b;
    else
        gpu_close(b);
    return s;
}

static rf_status gpu_open(rf_backend **out, const rf_backend_opts *o, rf_error *e) {
    RF_TRY(rf_gpu_open_unjudged(out, o, e));
    rf_gpu_verdict_read(&(*out)->queue);
    rf_status s = rf_gpu_quarantine_check(&(*out)->queue, e);
    if (s != RF_OK) {
        gpu_close(*out);
        *out = NULL;
    }
    return s;
}

static void gpu_describe(const rf_backend *b, char *out, size_t cap) {
    const rf_gpu_info *i = &b->queue.info;
    snprintf(out, cap, "gpu %d: %.60s (%s), %.1f GB", b->queue.device, i->name, i->arch,
             (double)i->mem_bytes / 1e9);
}

/* A power of two: with fewer rows some of a large device is idle, with more a step only takes longer, which answers
 * wait for. */
static uint32_t usual_batch(const rf_gpu_info *i) {
    enum { ROWS_PER_UNIT = 8, MOST = 1024 };
    uint32_t n = RF_USUAL_BATCH;
    while (n < MOST && n < ROWS_PER_UNIT * (uint64_t)i->n_units)
        n *= 2;
    return n;
}

static uint32_t gpu_usual_batch(const rf_backend *b) { return usual_batch(&b->queue.info); }

const char *rf_gpu_built_target(size_t i) { return rf_gpu_code_target(i); }

rf_status rf_gpu_probe(size_t i, rf_gpu_found *out, rf_error *e) {
    const rf_gpu_driver *driver;
    rf_gpu_queue q;
    *out = (rf_gpu_found){.driver_version = 0};
    RF_TRY(rf_gpu_driver_get(&driver, e));
    RF_TRY(rf_gpu_open(&q, driver, i > INT32_MAX ? INT32_MAX : (int)i, e));
    const rf_gpu_code *code = rf_gpu_code_for(q.info.arch, NULL);
    rf_status s = rf_gpu_memory(&q, &out->mem_free, &out->mem_bytes, e);
    snprintf(out->name, sizeof out->name, "%s", q.info.name);
    snprintf(out->arch, sizeof out->arch, "%s", q.info.arch);
    const char *target = code ? code->target : "";
    if (!code && rf_gpu_compiler_find(driver, NULL) == RF_OK) target = q.info.arch;
    snprintf(out->target, sizeof out->target, "%.31s", target);
    snprintf(out->library, sizeof out->library, "%s", driver->library);
    out->driver_version = driver->version;
    out->integrated = q.info.integrated;
    out->usual_batch = usual_batch(&q.info);
    rf_gpu_close(&q);
    return s;
}

static void gpu_exec_free(rf_exec *x) {
    if (!x) return;
    rf_backend *b = x->backend;
    pthread_mutex_lock(&b->lock);
    rf_gpu_enter(&b->queue);
    rf_gpu_release(x);
    rf_gpu_weights_release(&x->weights, &b->weights, &b->queue);
    for (rf_exec **at = &b->execs; *at; at = &(*at)->next)
        if (*at == x) {
            *at = x->next;
            break;
        }
    pthread_mutex_unlock(&b->lock);
    rf_arena_free(x->arena); /* the exec itself lies in it */
}

static rf_status check_limits(const rf_limits *l, rf_error *e) {
    RF_TRY(rf_limits_check("gpu", l, e));
    if (l->n_kv_blocks > UINT32_MAX / RF_KV_BLOCK)
        return rf_fail(e, RF_EARG, "gpu backend: %u KV blocks, expected at most %u", l->n_kv_blocks,
                       UINT32_MAX / RF_KV_BLOCK);
    return RF_OK;
}

/* Positions that a sequence can reach: the pool's, or those of the longest sequence asked for. */
static uint32_t positions_of(const rf_plan *p, const rf_limits *l) {
    uint32_t pool = l->n_kv_blocks * RF_KV_BLOCK, most = p->opts.n_ctx;
    if (most == 0 || most >= pool) return pool;
    return (most + RF_KV_BLOCK - 1) / RF_KV_BLOCK * RF_KV_BLOCK;
}

void rf_gpu_link_weights(rf_exec *x) {
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        rf_gpu_task *t = &x->tasks[i];
        for (uint32_t k = 0; k < t->n_uses; k++) {
            uint8_t *to = (uint8_t *)&t->args + t->use[k].at;
            if (x->weights.entry[t->use[k].number].is_vector) {
                const float *v = rf_gpu_weights_vector_at(&x->weights, t->use[k].number);
                memcpy(to, &v, sizeof v);
            } else {
                rf_gpu_weight w = rf_gpu_weights_at(&x->weights, t->use[k].number);
                memcpy(to, &w, sizeof w);
            }
        }
    }
}

static rf_status make_ready(rf_exec *x, rf_error *e) {
    rf_backend *b = x->backend;
    rf_gpu_enter(&b->queue);
    RF_TRY(rf_gpu_lower(x, e));
    RF_TRY(rf_gpu_place_all(x, e));
    RF_TRY(rf_gpu_check_fits(x, e));
    RF_TRY(rf_gpu_take(x, e));
    RF_TRY(rf_gpu_weights_load(&x->weights, &b->weights, &b->queue, b->pool, e));
    rf_gpu_link_weights(x);
    return rf_gpu_keep(x, e);
}

static rf_status new_exec(rf_exec **out, rf_backend *b, const rf_plan *p, const rf_limits *l,
                          rf_error *e) {
    *out = NULL;
    RF_TRY(check_limits(l, e));
    rf_arena *arena = NULL;
    if (rf_arena_create(&arena) != RF_OK) return rf_fail_nomem(e, sizeof(rf_exec));
    rf_exec *x = rf_arena_alloc(arena, 1, sizeof *x);
    size_t n_told = (size_t)l->max_outputs + 1;
    rf_by_best *told = rf_arena_alloc(arena, RF_GPU_MAX_FLIGHTS * n_told, sizeof *told);
    uint64_t *written = rf_arena_alloc(arena, l->n_kv_blocks, sizeof *written);
    if (!x || !told || !written) {
        rf_arena_free(arena);
        return rf_fail_nomem(e, l->n_kv_blocks * sizeof *written);
    }
    x->backend = b;
    x->plan = p;
    x->limits = *l;
    x->arena = arena;
    x->n_positions = positions_of(p, l);
    for (size_t i = 0; i < RF_GPU_MAX_FLIGHTS; i++)
        x->flight[i].told = told + i * n_told;
    x->written = written;
    x->graphs_off = p->opts.keep_values;
    *out = x;
    return RF_OK;
}

static rf_status gpu_compile(rf_exec **out, rf_backend *b, const rf_plan *p, const rf_limits *l,
                             rf_error *e) {
    rf_exec *x;
    *out = NULL;
    RF_TRY(new_exec(&x, b, p, l, e));
    pthread_mutex_lock(&b->lock);
    rf_status s = make_ready(x, e);
    bool is_lost = b->queue.error.status == RF_EDEVICE;
    if (s != RF_OK && !is_lost) b->queue.error = (rf_error){.status = RF_OK}; /* only memory */
    if (s == RF_OK) {
        x->next = b->execs;
        b->execs = x;
    }
    pthread_mutex_unlock(&b->lock);
    if (s != RF_OK) {
        gpu_exec_free(x);
        return s;
    }
    *out = x;
    return RF_OK;
}

static rf_status gpu_measure(rf_need *out, const rf_plan *p, const rf_limits *l,
                             const rf_backend_opts *o, rf_error *e) {
    static const rf_gpu_store empty = {NULL};
    rf_exec *x;
    *out = (rf_need){0};
    RF_TRY(new_exec(&x, NULL, p, l, e));
    x->fast_floats = o && o->fast_floats;
    rf_status s = rf_gpu_lower(x, e);
    if (s == RF_OK) s = rf_gpu_place_all(x, e);
    if (s == RF_OK)
        *out = (rf_need){.weights = rf_gpu_weights_bytes(&x->weights, &empty),
                         .kv = x->kv_bytes,
                         .values = x->value_bytes,
                         .other = x->device_bytes - x->kv_bytes - x->value_bytes,
                         .host = x->host_bytes + rf_arena_bytes(x->arena)};
    rf_gpu_weights_release(&x->weights, NULL, NULL);
    rf_arena_free(x->arena);
    return s;
}

static size_t gpu_exec_bytes(const rf_exec *x) {
    return x->device_bytes + x->kept_bytes + x->host_bytes + rf_arena_bytes(x->arena);
}

static size_t gpu_spare_bytes(const rf_exec *x) { return x->kept_bytes; }

/* From here to leave this thread alone has the device's queue. */
static rf_gpu_queue *enter(const rf_exec *x) {
    pthread_mutex_lock(&x->backend->lock);
    rf_gpu_enter(&x->backend->queue);
    return &x->backend->queue;
}

static rf_status leave(const rf_exec *x, rf_error *e) {
    rf_status s = rf_gpu_status(&x->backend->queue, e);
    pthread_mutex_unlock(&x->backend->lock);
    return s;
}

static rf_status leave_when_done(const rf_exec *x) {
    rf_gpu_wait(&x->backend->queue);
    return leave(x, NULL);
}

static rf_status check_positions(const rf_exec *x, const rf_batch *b, rf_error *e) {
    for (uint32_t s = 0; s < b->n_seqs; s++)
        if (b->kv_len[s] > x->n_positions)
            return rf_fail(e, RF_EARG,
                           "batch sequence %u: %u tokens, but the plan was made for a context of "
                           "%u",
                           s, b->kv_len[s], x->n_positions);
    return RF_OK;
}

/* Outputs of the one run in flight whose first the device has for a run behind it. */
static uint32_t n_before(const rf_exec *x) {
    const rf_gpu_flight *f = &x->flight[x->latest];
    if (x->n_flying != 1 || !rf_gpu_may_follow(x)) return 0;
    for (uint32_t i = 0; i < f->n_outputs; i++)
        if (f->told[i] != RF_BY_FIRST) return 0;
    return f->n_outputs;
}

static rf_status gpu_run(rf_exec *x, const rf_batch *batch, rf_error *e) {
    RF_TRY(rf_batch_check(batch, x->plan, &x->limits, n_before(x), e));
    RF_TRY(check_positions(x, batch, e));
    rf_gpu_queue *q = enter(x);
    if (x->n_flying && !batch->follows) { /* nobody waited for it */
        rf_gpu_wait(q);
        x->n_flying = 0;
    }
    x->latest = x->n_flying ? !x->latest : 0;
    if (rf_gpu_status(q, NULL) == RF_OK) rf_gpu_forward(x, batch);
    x->ran = rf_gpu_status(q, NULL) == RF_OK;
    x->n_flying = x->ran ? x->n_flying + 1 : 0;
    x->waited = false;
    return leave(x, e);
}

static rf_status gpu_wait(rf_exec *x, const float **result) {
    *result = NULL;
    if (!x->ran) return RF_EARG;
    enter(x);
    if (x->n_flying) {
        x->seen = x->n_flying == 1 ? x->latest : !x->latest;
        rf_gpu_await_result(x, &x->flight[x->seen]);
        x->n_flying--;
    }
    x->waited = true;
    rf_status s = leave(x, NULL);
    if (s == RF_OK) *result = x->result;
    return s;
}

static const rf_best *gpu_best(const rf_exec *x, uint32_t output) {
    const rf_gpu_flight *f = &x->flight[x->seen];
    if (!x->waited || output >= f->n_outputs || f->told[output] == RF_BY_ROW) return NULL;
    rf_best *best = &x->best[output];
    best->first = f->first[output];
    best->by = f->told[output];
    if (best->by == RF_BY_FIRST || best->n_groups > RF_BEST_GROUPS) best->n_groups = 0;
    return best;
}

static rf_status gpu_row(rf_exec *x, uint32_t output, const float **row) {
    rf_gpu_flight *f = &x->flight[x->seen];
    *row = NULL;
    if (!x->ran || !x->waited || x->n_flying || output >= f->n_outputs) return RF_EARG;
    if (f->told[output] != RF_BY_ROW) {
        enter(x);
        rf_gpu_fetch_rows(x, f, output, 1);
        RF_TRY(leave_when_done(x));
    }
    *row = x->result + (size_t)output * x->plan->n_result;
    return RF_OK;
}

/* An address in the device's memory, which is gone once the device is: the queue then touches nothing. */
static uint8_t *memory_at(const rf_exec *x, size_t offset) {
    return x->memory ? x->memory + offset : NULL;
}

static rf_status gpu_kv_copy(rf_exec *x, uint32_t from_block, uint32_t to_block) {
    if (from_block >= x->limits.n_kv_blocks || to_block >= x->limits.n_kv_blocks) return RF_EARG;
    if (from_block == to_block) return RF_OK;
    rf_gpu_queue *q = enter(x);
    for (uint32_t il = 0; il < x->plan->model->n_layers; il++) {
        const rf_gpu_kv *kv = &x->kv[il];
        const size_t k = x->kv_at + kv->k_at, v = x->kv_at + kv->v_at;
        rf_gpu_copy(q, memory_at(x, k + to_block * kv->k_block),
                    memory_at(x, k + from_block * kv->k_block), kv->k_block);
        rf_gpu_copy(q, memory_at(x, v + to_block * kv->v_block),
                    memory_at(x, v + from_block * kv->v_block), kv->v_block);
    }
    return leave(x, NULL);
}

static size_t gpu_kv_block_bytes(const rf_exec *x) {
    size_t bytes = 0;
    for (uint32_t il = 0; il < x->plan->model->n_layers; il++)
        bytes += x->kv[il].k_block + x->kv[il].v_block;
    return bytes;
}

/* One block between the device and out or src, one of which is NULL. */
static rf_status move_block(rf_exec *x, uint32_t block, uint8_t *out, const uint8_t *src) {
    if (block >= x->limits.n_kv_blocks) return RF_EARG;
    rf_gpu_queue *q = enter(x);
    size_t at = 0;
    for (uint32_t il = 0; il < x->plan->model->n_layers; il++) {
        const rf_gpu_kv *kv = &x->kv[il];
        const struct {
            uint8_t *p;
            size_t n;
        } part[] = {{memory_at(x, x->kv_at + kv->k_at + block * kv->k_block), kv->k_block},
                    {memory_at(x, x->kv_at + kv->v_at + block * kv->v_block), kv->v_block}};
        for (size_t i = 0; i < RF_COUNT(part); at += part[i++].n) {
            if (part[i].n == 0) continue;
            if (out)
                rf_gpu_download(q, out + at, part[i].p, part[i].n);
            else
                rf_gpu_upload(q, part[i].p, src + at, part[i].n);
        }
    }
    return leave_when_done(x);
}

static rf_status gpu_kv_read(rf_exec *x, uint32_t block, void *out) {
    return move_block(x, block, out, NULL);
}

static rf_status gpu_kv_write(rf_exec *x, uint32_t block, const void *src) {
    return move_block(x, block, NULL, src);
}

static uint8_t *slot_at(const rf_exec *x, uint32_t slot) {
    return memory_at(x, x->state_at + slot * x->plan->state_floats * sizeof(float));
}

static rf_status gpu_state_copy(rf_exec *x, uint32_t from_slot, uint32_t to_slot) {
    if (from_slot >= x->limits.n_states || to_slot >= x->limits.n_states) return RF_EARG;
    if (from_slot == to_slot) return RF_OK;
    rf_gpu_queue *q = enter(x);
    rf_gpu_copy(q, slot_at(x, to_slot), slot_at(x, from_slot),
                x->plan->state_floats * sizeof(float));
    return leave(x, NULL);
}

/* One slot between the device and out or src, one of which is NULL. */
static rf_status move_slot(rf_exec *x, uint32_t slot, float *out, const float *src) {
    size_t bytes = x->plan->state_floats * sizeof(float);
    if (slot >= x->limits.n_states) return RF_EARG;
    rf_gpu_queue *q = enter(x);
    if (out)
        rf_gpu_download(q, out, slot_at(x, slot), bytes);
    else
        rf_gpu_upload(q, slot_at(x, slot), src, bytes);
    return leave_when_done(x);
}

static rf_status gpu_state_read(rf_exec *x, uint32_t slot, float *out) {
    return move_slot(x, slot, out, NULL);
}

static rf_status gpu_state_write(rf_exec *x, uint32_t slot, const float *src) {
    return move_slot(x, slot, NULL, src);
}

static rf_status gpu_peek(rf_exec *x, rf_val v, float *out, size_t n) {
    if (!x->ran || !x->plan->opts.keep_values || v == 0 || v >= x->plan->n_vals ||
        !x->places[v].used)
        return RF_EARG;
    const rf_value *value = &x->plan->vals[v];
    size_t rows = value->per_output ? x->shape.n_outputs : x->shape.n_tokens;
    if (n != rows * value->cols) return RF_EARG;
    rf_gpu_queue *q = enter(x);
    rf_gpu_download(q, out, rf_gpu_address(x, v), n * sizeof *out);
    return leave_when_done(x);
}

static rf_pool *gpu_idle_pool(const rf_backend *b) { return b->pool; }

const rf_backend_ops rf_gpu_ops = {
    .name = "gpu",
    .spare_bytes = gpu_spare_bytes,
    .runs_ahead = true,
    .open = gpu_open,
    .close = gpu_close,
    .describe = gpu_describe,
    .idle_pool = gpu_idle_pool,
    .usual_batch = gpu_usual_batch,
    .compile = gpu_compile,
    .measure = gpu_measure,
    .exec_free = gpu_exec_free,
    .exec_bytes = gpu_exec_bytes,
    .may_follow = rf_gpu_may_follow,
    .run = gpu_run,
    .wait = gpu_wait,
    .best = gpu_best,
    .row = gpu_row,
    .revive = rf_gpu_revive,
    .kv_copy = gpu_kv_copy,
    .kv_layout = "blocks of heads",
    .kv_block_bytes = gpu_kv_block_bytes,
    .kv_read = gpu_kv_read,
    .kv_write = gpu_kv_write,
    .state_copy = gpu_state_copy,
    .state_read = gpu_state_read,
    .state_write = gpu_state_write,
    .peek = gpu_peek,
};
