/* cpu.c - the CPU backend: rf_backend_ops over fuse.c, memory.c and run.c.
 *
 * run() does the whole forward pass before it returns, so wait() only hands out the result.  Execs of
 * one backend share its threads and take turns. */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/exec.h"

static void cpu_close(rf_backend *b) {
    if (!b) return;
    rf_pool_free(b->pool);
    pthread_mutex_destroy(&b->lock);
    rf_free(b);
}

static rf_status cpu_open(rf_backend **out, const rf_backend_opts *o, rf_error *e) {
    *out = NULL;
    rf_isa isa;
    rf_nodes found;
    int n_threads = o && o->n_threads ? o->n_threads : rf_core_count();
    RF_TRY(rf_isa_choose(&isa, e));
    if (!o || !o->nodes) rf_find_nodes(&found);
    rf_backend *b = rf_alloc(1, sizeof *b);
    if (!b) return rf_fail_nomem(e, sizeof *b);
    if (pthread_mutex_init(&b->lock, NULL) != 0) {
        rf_free(b);
        return rf_fail(e, RF_ENOMEM, "cpu backend: no mutex to be had from the system");
    }
    b->kernels = rf_cpu_kernels_get(isa);
    b->huge_pages = o && o->huge_pages;
    rf_status s = rf_pool_create_on(&b->pool, n_threads, o && o->nodes ? o->nodes : &found, e);
    if (s != RF_OK) {
        cpu_close(b);
        return s;
    }
    *out = b;
    return RF_OK;
}

static void cpu_describe(const rf_backend *b, char *out, size_t cap) {
    int n = rf_pool_size(b->pool), n_nodes = rf_pool_spread(b->pool)->n;
    char where[32] = "";
    if (n_nodes > 1) snprintf(where, sizeof where, " on %d nodes", n_nodes);
    snprintf(out, cap, "cpu %s, %d thread%s%s", rf_isa_name(b->kernels->isa), n, n == 1 ? "" : "s",
             where);
}

static void cpu_exec_free(rf_exec *x) {
    if (!x) return;
    rf_cpu_end_moving(x, true);
    rf_cpu_release(x);
    rf_arena_free(x->arena); /* the exec itself lies in it */
}

/* need: NULL, or filled instead of taking the memory that an exec works in, which needs no b. */
static rf_status make_exec(rf_exec **out, rf_backend *b, const rf_cpu_kernels *k, int n_threads,
                           const rf_plan *p, const rf_limits *l, rf_need *need, rf_error *e) {
    *out = NULL;
    RF_TRY(rf_limits_check("cpu", l, e));
    RF_TRY(rf_states_check("cpu", p, l, e));
    rf_arena *arena = NULL;
    if (rf_arena_create(&arena) != RF_OK) return rf_fail_nomem(e, sizeof(rf_exec));
    rf_exec *x = rf_arena_alloc(arena, 1, sizeof *x);
    if (!x) {
        rf_arena_free(arena);
        return rf_fail_nomem(e, sizeof *x);
    }
    x->backend = b;
    x->kernels = k;
    x->n_threads = n_threads;
    x->need = need;
    x->plan = p;
    x->limits = *l;
    x->arena = arena;
    rf_status s = rf_cpu_fuse(x, e);
    if (s == RF_OK) s = rf_cpu_allocate(x, e);
    if (s != RF_OK) {
        cpu_exec_free(x);
        return s;
    }
    *out = x;
    return RF_OK;
}

static rf_status cpu_compile(rf_exec **out, rf_backend *b, const rf_plan *p, const rf_limits *l,
                             rf_error *e) {
    rf_cpu_place(b, p); /* before anything looks into the file */
    RF_TRY(make_exec(out, b, b->kernels, rf_pool_size(b->pool), p, l, NULL, e));
    rf_cpu_start_moving(*out);
    return RF_OK;
}

static void cpu_settle(rf_exec *x) { rf_cpu_end_moving(x, false); }

static rf_status cpu_measure(rf_need *out, const rf_plan *p, const rf_limits *l,
                             const rf_backend_opts *o, rf_error *e) {
    rf_exec *x;
    rf_isa isa;
    int n_threads = o && o->n_threads ? o->n_threads : rf_core_count();
    *out = (rf_need){0};
    RF_TRY(rf_isa_choose(&isa, e));
    RF_TRY(make_exec(&x, NULL, rf_cpu_kernels_get(isa), n_threads, p, l, out, e));
    out->weights = rf_plan_weight_bytes(p);
    out->other += rf_arena_bytes(x->arena);
    cpu_exec_free(x);
    return RF_OK;
}

static size_t cpu_exec_bytes(const rf_exec *x) { return x->heap_bytes + rf_arena_bytes(x->arena); }

static void group_rows(rf_exec *x, const rf_batch *b) {
    x->n_groups = 0;
    for (uint32_t s = 0; s < b->n_seqs; s++) {
        for (uint32_t row = b->seq_start[s]; row < b->seq_start[s + 1]; row++) {
            bool same =
                row > b->seq_start[s] && b->pos[row] / RF_KV_BLOCK == b->pos[row - 1] / RF_KV_BLOCK;
            if (!same) x->group[x->n_groups++] = row;
            x->row_seq[row] = s;
        }
    }
    x->group[x->n_groups] = b->n_tokens;
}

static rf_status cpu_run(rf_exec *x, const rf_batch *batch, rf_error *e) {
    x->ran = false;
    RF_TRY(rf_batch_check(batch, x->plan, &x->limits, 0, e));
    x->batch = batch;
    x->n_tokens = batch->n_tokens;
    x->n_outputs = batch->n_outputs;
    x->rows_alone = rf_batch_rows_alone(batch, x->written, ++x->n_runs);
    group_rows(x, batch);
    for (size_t i = 0; i < rf_cpu_n_counters(x); i++) {
        __atomic_store_n(&x->counter[i].next, 0, __ATOMIC_RELAXED);
    }
    pthread_mutex_lock(&x->backend->lock);
    rf_pool_run(x->backend->pool, rf_cpu_run_thread, x);
    pthread_mutex_unlock(&x->backend->lock);
    x->batch = NULL;
    x->ran = true;
    return RF_OK;
}

static rf_status cpu_wait(rf_exec *x, const float **result) {
    *result = x->ran ? x->val[x->plan->result] : NULL;
    return x->ran ? RF_OK : RF_EARG;
}

static rf_status cpu_kv_copy(rf_exec *x, uint32_t from_block, uint32_t to_block) {
    if (from_block >= x->limits.n_kv_blocks || to_block >= x->limits.n_kv_blocks) return RF_EARG;
    if (from_block == to_block) return RF_OK;
    for (uint32_t il = 0; il < x->plan->model->n_layers; il++) {
        const rf_cpu_kv *kv = &x->kv[il];
        uint8_t *k = x->k + kv->k_at, *v = x->v + kv->v_at;
        memcpy(k + to_block * kv->k_block, k + from_block * kv->k_block, kv->k_block);
        memcpy(v + to_block * kv->v_block, v + from_block * kv->v_block, kv->v_block);
    }
    return RF_OK;
}

static size_t cpu_kv_block_bytes(const rf_exec *x) {
    size_t bytes = 0;
    for (uint32_t il = 0; il < x->plan->model->n_layers; il++)
        bytes += x->kv[il].k_block + x->kv[il].v_block;
    return bytes;
}

static rf_status cpu_kv_read(rf_exec *x, uint32_t block, void *out) {
    uint8_t *to = out;
    if (block >= x->limits.n_kv_blocks) return RF_EARG;
    for (uint32_t il = 0; il < x->plan->model->n_layers; il++) {
        const rf_cpu_kv *kv = &x->kv[il];
        memcpy(to, x->k + kv->k_at + block * kv->k_block, kv->k_block);
        memcpy(to + kv->k_block, x->v + kv->v_at + block * kv->v_block, kv->v_block);
        to += kv->k_block + kv->v_block;
    }
    return RF_OK;
}

static rf_status cpu_kv_write(rf_exec *x, uint32_t block, const void *src) {
    const uint8_t *from = src;
    if (block >= x->limits.n_kv_blocks) return RF_EARG;
    for (uint32_t il = 0; il < x->plan->model->n_layers; il++) {
        const rf_cpu_kv *kv = &x->kv[il];
        memcpy(x->k + kv->k_at + block * kv->k_block, from, kv->k_block);
        memcpy(x->v + kv->v_at + block * kv->v_block, from + kv->k_block, kv->v_block);
        from += kv->k_block + kv->v_block;
    }
    return RF_OK;
}

static rf_status cpu_state_copy(rf_exec *x, uint32_t from_slot, uint32_t to_slot) {
    return rf_slot_copy(&x->states, from_slot, to_slot);
}

static rf_status cpu_state_read(rf_exec *x, uint32_t slot, float *out) {
    return rf_slot_read(&x->states, slot, out);
}

static rf_status cpu_state_write(rf_exec *x, uint32_t slot, const float *src) {
    return rf_slot_write(&x->states, slot, src);
}

static rf_status cpu_peek(rf_exec *x, rf_val v, float *out, size_t n) {
    if (!x->ran || !x->plan->opts.keep_values || v == 0 || v >= x->plan->n_vals || !x->val[v]) {
        return RF_EARG;
    }
    const rf_value *value = &x->plan->vals[v];
    size_t rows = value->per_output ? x->n_outputs : x->n_tokens;
    if (n != rows * value->cols) return RF_EARG;
    memcpy(out, x->val[v], n * sizeof *out);
    return RF_OK;
}

static rf_pool *cpu_idle_pool(const rf_backend *b) { return b->pool; }

const rf_backend_ops rf_cpu_ops = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .idle_pool = cpu_idle_pool,
    .compile = cpu_compile,
    .measure = cpu_measure,
    .settle = cpu_settle,
    .exec_free = cpu_exec_free,
    .exec_bytes = cpu_exec_bytes,
    .run = cpu_run,
    .wait = cpu_wait,
    .kv_copy = cpu_kv_copy,
    .kv_layout = "blocks of heads",
    .kv_block_bytes = cpu_kv_block_bytes,
    .kv_read = cpu_kv_read,
    .kv_write = cpu_kv_write,
    .state_copy = cpu_state_copy,
    .state_read = cpu_state_read,
    .state_write = cpu_state_write,
    .peek = cpu_peek,
};
