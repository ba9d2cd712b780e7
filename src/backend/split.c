/* split.c - the split backend: execs of other backends, one behind the other.
 *
 * Owns the backends of its devices and, per exec, a plan and an exec for each stage.  All stages have the
 * same KV blocks, each for its own layers, so a block of the split is the stages' blocks in order. */
#include "backend/split.h"

#include <stdio.h>
#include <string.h>

struct rf_backend {
    rf_backend_opts opts;
    rf_backend *gpu[RF_MAX_DEVICES]; /* [opts.n_devices] */
    rf_backend *cpu;                 /* NULL until a stage needs it */
    const rf_model *model;           /* the first one compiled, and its stages */
    rf_split split;
};

typedef struct stage {
    const rf_backend_ops *ops;
    rf_plan *plan;
    rf_exec *exec;
} stage;

struct rf_exec {
    rf_split split;
    stage stage[RF_MAX_STAGES]; /* [split.n] */
    uint32_t *all_rows;         /* [max_tokens] 0, 1, 2 ... */
};

/* Opening ----------------------------------------------------------------------------------------*/

static void split_close(rf_backend *b) {
    if (!b) return;
    for (uint32_t i = 0; i < b->opts.n_devices; i++)
        if (b->gpu[i]) rf_gpu_ops.close(b->gpu[i]);
    if (b->cpu) rf_cpu_ops.close(b->cpu);
    rf_free(b);
}

static rf_status open_gpus(rf_backend *b, rf_error *e) {
    for (uint32_t i = 0; i < b->opts.n_devices; i++) {
        const rf_backend_opts o = {.n_threads = b->opts.n_threads,
                                   .device = b->opts.devices[i],
                                   .fast_floats = b->opts.fast_floats,
                                   .spare_percent = b->opts.spare_percent};
        for (uint32_t k = 0; k < i; k++)
            if (b->opts.devices[k] == o.device)
                return rf_fail(e, RF_EARG, "GPU %d is named twice, expected different ones",
                               o.device);
        RF_TRY(rf_gpu_ops.open(&b->gpu[i], &o, e));
    }
    return RF_OK;
}

static rf_status split_open(rf_backend **out, const rf_backend_opts *o, rf_error *e) {
    *out = NULL;
    RF_ASSERT(o->n_devices <= RF_MAX_DEVICES);
    rf_backend *b = rf_alloc(1, sizeof *b);
    if (!b) return rf_fail_nomem(e, sizeof *b);
    b->opts = *o;
    if (b->opts.n_devices == 0) {
        b->opts.n_devices = 1;
        b->opts.devices[0] = o->device;
    }
    rf_status s = open_gpus(b, e);
    if (s != RF_OK) {
        split_close(b);
        return s;
    }
    *out = b;
    return RF_OK;
}

/* What suits the GPUs, unless the CPU shall have layers, for which there is then more room. */
static uint32_t split_usual_batch(const rf_backend *b) {
    bool is_all = b->opts.n_devices > 1 && b->opts.gpu_layers == 0;
    return is_all ? rf_gpu_ops.usual_batch(b->gpu[0]) : RF_USUAL_BATCH;
}

static rf_pool *split_idle_pool(const rf_backend *b) { return rf_gpu_ops.idle_pool(b->gpu[0]); }

static rf_backend *backend_of(const rf_backend *b, int device) {
    for (uint32_t i = 0; i < b->opts.n_devices; i++)
        if (b->opts.devices[i] == device) return b->gpu[i];
    return b->cpu;
}

static void split_describe(const rf_backend *b, char *out, size_t cap) {
    size_t at = 0;
    snprintf(out, cap, "no layers yet");
    for (uint32_t i = 0; i < b->split.n && at < cap; i++) {
        const rf_split_stage *s = &b->split.stage[i];
        const rf_backend_ops *ops = s->device == RF_CPU_STAGE ? &rf_cpu_ops : &rf_gpu_ops;
        at += (size_t)snprintf(out + at, cap - at, "%slayers %u-%u on ", i ? "; " : "",
                               s->first_layer, s->first_layer + s->n_layers - 1);
        if (at >= cap) return;
        ops->describe(backend_of(b, s->device), out + at, cap - at);
        at += strlen(out + at);
    }
}

/* Compiling --------------------------------------------------------------------------------------*/

static void split_settle(rf_exec *x) {
    for (uint32_t i = 0; i < x->split.n; i++)
        if (x->stage[i].ops->settle) x->stage[i].ops->settle(x->stage[i].exec);
}

static void split_exec_free(rf_exec *x) {
    if (!x) return;
    for (uint32_t i = 0; i < x->split.n; i++) {
        if (x->stage[i].exec) x->stage[i].ops->exec_free(x->stage[i].exec);
        rf_plan_free(x->stage[i].plan);
    }
    rf_free(x->all_rows);
    rf_free(x);
}

/* The stages of a model's layers: those that it has already, or those that fit what is free now. */
static rf_status choose_stages(rf_split *out, const rf_backend *b, const rf_plan *p,
                               const rf_limits *l, rf_error *e) {
    uint64_t room[RF_MAX_DEVICES] = {0};
    if (p->model == b->model && !p->opts.keep_values) {
        *out = b->split;
        return RF_OK;
    }
    for (uint32_t i = 0; i < b->opts.n_devices; i++) {
        rf_gpu_found g;
        RF_TRY(rf_gpu_probe((size_t)b->opts.devices[i], &g, e));
        room[i] = g.mem_free;
    }
    return rf_split_place(out, p, l, &b->opts, room, e);
}

static rf_status make_stage(rf_exec *x, rf_backend *b, uint32_t i, const rf_plan *p, rf_limits l,
                            rf_error *e) {
    rf_split_stage *s = &x->split.stage[i];
    stage *to = &x->stage[i];
    rf_plan_opts po = p->opts;
    po.first_layer = s->first_layer;
    po.n_layers = s->n_layers;
    to->ops = s->device == RF_CPU_STAGE ? &rf_cpu_ops : &rf_gpu_ops;
    if (i + 1 < x->split.n) l.max_outputs = l.max_tokens;
    if (s->device == RF_CPU_STAGE && !b->cpu) RF_TRY(rf_cpu_ops.open(&b->cpu, &b->opts, e));
    RF_TRY(rf_plan_build(&to->plan, p->model, &po, e));
    RF_TRY(to->ops->compile(&to->exec, backend_of(b, s->device), to->plan, &l, e));
    s->spare = to->ops->spare_bytes ? to->ops->spare_bytes(to->exec) : 0;
    return RF_OK;
}

static rf_status make_stages(rf_exec *x, rf_backend *b, const rf_plan *p, const rf_limits *l,
                             rf_error *e) {
    RF_TRY(rf_limits_check("split", l, e));
    RF_TRY(choose_stages(&x->split, b, p, l, e));
    for (uint32_t i = 0; i < x->split.n; i++)
        RF_TRY(make_stage(x, b, i, p, *l, e));
    x->all_rows = rf_alloc(l->max_tokens, sizeof *x->all_rows);
    if (!x->all_rows) return rf_fail_nomem(e, l->max_tokens * sizeof *x->all_rows);
    for (uint32_t t = 0; t < l->max_tokens; t++)
        x->all_rows[t] = t;
    return RF_OK;
}

static rf_status split_compile(rf_exec **out, rf_backend *b, const rf_plan *p, const rf_limits *l,
                               rf_error *e) {
    *out = NULL;
    rf_exec *x = rf_alloc(1, sizeof *x);
    if (!x) return rf_fail_nomem(e, sizeof *x);
    rf_status s = make_stages(x, b, p, l, e);
    if (s != RF_OK) {
        split_exec_free(x);
        return s;
    }
    if (!b->model) {
        b->model = p->model;
        b->split = x->split;
    }
    *out = x;
    return RF_OK;
}

const rf_split *rf_split_of(const rf_exec *x) { return &x->split; }

static size_t split_exec_bytes(const rf_exec *x) {
    size_t n = 0;
    for (uint32_t i = 0; i < x->split.n; i++)
        n += x->stage[i].ops->exec_bytes(x->stage[i].exec);
    return n;
}

/* Running ----------------------------------------------------------------------------------------*/

/* All stages but the last are done when this returns. */
static rf_status split_run(rf_exec *x, const rf_batch *batch, rf_error *e) {
    rf_batch b = *batch;
    b.n_outputs = batch->n_tokens;
    b.out_row = x->all_rows;
    b.by_best = NULL;
    b.noise = NULL;
    for (uint32_t i = 0; i + 1 < x->split.n; i++) {
        const stage *s = &x->stage[i];
        const float *rows;
        RF_TRY(s->ops->run(s->exec, &b, e));
        RF_TRY(s->ops->wait(s->exec, &rows));
        b.rows = rows;
    }
    const stage *last = &x->stage[x->split.n - 1];
    b.n_outputs = batch->n_outputs;
    b.out_row = batch->out_row;
    b.by_best = batch->by_best;
    b.noise = batch->noise;
    return last->ops->run(last->exec, &b, e);
}

static rf_status split_wait(rf_exec *x, const float **result) {
    const stage *last = &x->stage[x->split.n - 1];
    return last->ops->wait(last->exec, result);
}

static const rf_best *split_best(const rf_exec *x, uint32_t output) {
    const stage *last = &x->stage[x->split.n - 1];
    return last->ops->best ? last->ops->best(last->exec, output) : NULL;
}

static rf_status split_row(rf_exec *x, uint32_t output, const float **row) {
    const stage *last = &x->stage[x->split.n - 1];
    if (last->ops->row) return last->ops->row(last->exec, output, row);
    RF_TRY(last->ops->wait(last->exec, row));
    *row += (size_t)output * last->plan->n_result;
    return RF_OK;
}

static rf_status split_revive(rf_backend *b, rf_error *fault) {
    rf_status all = RF_OK;
    for (uint32_t i = 0; i < b->opts.n_devices; i++) {
        rf_status s = rf_gpu_ops.revive(b->gpu[i], fault);
        if (all == RF_OK) all = s;
    }
    return all;
}

/* KV blocks --------------------------------------------------------------------------------------*/

static rf_status split_kv_copy(rf_exec *x, uint32_t from_block, uint32_t to_block) {
    for (uint32_t i = 0; i < x->split.n; i++)
        RF_TRY(x->stage[i].ops->kv_copy(x->stage[i].exec, from_block, to_block));
    return RF_OK;
}

static size_t split_kv_block_bytes(const rf_exec *x) {
    size_t n = 0;
    for (uint32_t i = 0; i < x->split.n; i++)
        n += x->stage[i].ops->kv_block_bytes(x->stage[i].exec);
    return n;
}

static rf_status split_kv_read(rf_exec *x, uint32_t block, void *out) {
    uint8_t *to = out;
    for (uint32_t i = 0; i < x->split.n; i++) {
        const stage *s = &x->stage[i];
        RF_TRY(s->ops->kv_read(s->exec, block, to));
        to += s->ops->kv_block_bytes(s->exec);
    }
    return RF_OK;
}

static rf_status split_kv_write(rf_exec *x, uint32_t block, const void *src) {
    const uint8_t *from = src;
    for (uint32_t i = 0; i < x->split.n; i++) {
        const stage *s = &x->stage[i];
        RF_TRY(s->ops->kv_write(s->exec, block, from));
        from += s->ops->kv_block_bytes(s->exec);
    }
    return RF_OK;
}

/* Slots of state: the stages' parts, one behind the other ----------------------------------------*/

static rf_status split_state_copy(rf_exec *x, uint32_t from_slot, uint32_t to_slot) {
    for (uint32_t i = 0; i < x->split.n; i++)
        RF_TRY(x->stage[i].ops->state_copy(x->stage[i].exec, from_slot, to_slot));
    return RF_OK;
}

static rf_status split_state_read(rf_exec *x, uint32_t slot, float *out) {
    for (uint32_t i = 0; i < x->split.n; i++) {
        const stage *s = &x->stage[i];
        RF_TRY(s->ops->state_read(s->exec, slot, out));
        out += s->plan->state_floats;
    }
    return RF_OK;
}

static rf_status split_state_write(rf_exec *x, uint32_t slot, const float *src) {
    for (uint32_t i = 0; i < x->split.n; i++) {
        const stage *s = &x->stage[i];
        RF_TRY(s->ops->state_write(s->exec, slot, src));
        src += s->plan->state_floats;
    }
    return RF_OK;
}

const rf_backend_ops rf_split_ops = {
    .name = "split",
    .open = split_open,
    .close = split_close,
    .describe = split_describe,
    .idle_pool = split_idle_pool,
    .usual_batch = split_usual_batch,
    .compile = split_compile,
    .settle = split_settle,
    .exec_free = split_exec_free,
    .exec_bytes = split_exec_bytes,
    .run = split_run,
    .wait = split_wait,
    .best = split_best,
    .row = split_row,
    .revive = split_revive,
    .kv_copy = split_kv_copy,
    .kv_layout = "blocks of heads",
    .kv_block_bytes = split_kv_block_bytes,
    .kv_read = split_kv_read,
    .kv_write = split_kv_write,
    .state_copy = split_state_copy,
    .state_read = split_state_read,
    .state_write = split_state_write,
};
