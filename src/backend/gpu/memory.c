/* memory.c - a place on the device for everything that a run touches, sized exactly before any of it
 * is taken.
 *
 * Values and their rows in integers share memory by lifetime over the tasks (which are fewer than the
 * plan's steps and read some values later than they do, so that the plan's own offsets are not used).
 * Values with a row per token and with a row per output lie in two regions.  Behind them come KV
 * cache, tables of angles, scratch and the block that a batch is uploaded to. */
#include <string.h>

#include "backend/gpu/exec.h"
#include "backend/gpu/launch.h"
#include "base/fmath.h"

enum { ALIGN = 256 };

/* Lifetimes and places ---------------------------------------------------------------------------*/

static bool is_placed(const rf_exec *x, rf_gpu_item item) { return item < 3 * x->plan->n_vals; }

static void find_lifetimes(rf_exec *x) {
    for (uint32_t i = 0; i < x->n_tasks; i++)
        for (uint32_t k = 0; k < x->tasks[i].n_slots; k++) {
            rf_gpu_item item = x->tasks[i].slot[k].item;
            if (!is_placed(x, item)) continue;
            rf_gpu_place *at = &x->places[item];
            if (!at->used) at->first = i;
            at->used = true;
            at->last = x->plan->opts.keep_values ? x->n_tasks : i;
        }
    x->places[x->plan->result].last = x->n_tasks;
    for (rf_gpu_item i = 1; i < x->plan->n_vals; i++) {
        rf_gpu_place *of = &x->places[x->places[i].picked_of];
        if (x->places[i].picked_of && of->last < x->places[i].last) of->last = x->places[i].last;
    }
}

static rf_val value_of(const rf_exec *x, rf_gpu_item item) {
    uint32_t n = x->plan->n_vals;
    return item < n ? item : (item - n) / 2;
}

static bool is_per_output(const rf_exec *x, rf_gpu_item item) {
    return x->plan->vals[value_of(x, item)].per_output;
}

/* Where the parts of max_rows rows in integers of n columns begin. */
typedef struct quant_parts {
    size_t d, sum, bytes;
} quant_parts;

static quant_parts parts_of(size_t rows, size_t n, bool is_256) {
    quant_parts p;
    p.d = rf_gpu_align(rows * n);
    p.sum = p.d + rf_gpu_align(rows * (n / (is_256 ? 256 : 32)) * sizeof(float));
    p.bytes = p.sum + rf_gpu_align(rows * (n / (is_256 ? 16 : 32)) * sizeof(int32_t));
    return p;
}

static size_t rows_of(const rf_exec *x, rf_gpu_item item) {
    return is_per_output(x, item) ? x->limits.max_outputs : x->limits.max_tokens;
}

/* At most 2^16 rows of 2^21 columns of a few bytes: no overflow. */
static size_t bytes_of(const rf_exec *x, rf_gpu_item item) {
    uint32_t n_vals = x->plan->n_vals;
    size_t n = x->plan->vals[value_of(x, item)].cols, rows = rows_of(x, item);
    if (item < n_vals) return rf_gpu_align(rows * n * sizeof(float));
    return parts_of(rows, n, (item - n_vals) % 2).bytes;
}

/* The items of one region alive at one task, by address. */
typedef struct live_set {
    rf_gpu_item *item; /* [n] */
    uint32_t n;
} live_set;

/* Puts an item into the lowest gap that holds it; returns where it ends. */
static size_t put_in_gap(rf_exec *x, live_set *live, rf_gpu_item item) {
    uint32_t kept = 0, at = 0;
    for (uint32_t i = 0; i < live->n; i++)
        if (x->places[live->item[i]].last >= x->places[item].first)
            live->item[kept++] = live->item[i];
    live->n = kept;
    size_t offset = 0, size = bytes_of(x, item);
    for (; at < live->n && offset + size > x->places[live->item[at]].at; at++)
        offset = x->places[live->item[at]].at + bytes_of(x, live->item[at]);
    memmove(live->item + at + 1, live->item + at, (live->n - at) * sizeof *live->item);
    live->item[at] = item;
    live->n++;
    x->places[item].at = offset;
    return offset + size;
}

/* Addresses are within a region here; region[0]: bytes of rows per token, [1]: per output. */
static void place_items(rf_exec *x, live_set live[2], size_t region[2]) {
    for (uint32_t i = 0; i < x->n_tasks; i++)
        for (uint32_t k = 0; k < x->tasks[i].n_slots; k++) {
            rf_gpu_item item = x->tasks[i].slot[k].item;
            if (!is_placed(x, item)) continue;
            const rf_gpu_place *at = &x->places[item];
            bool named_before = false;
            for (uint32_t j = 0; j < k; j++)
                named_before = named_before || x->tasks[i].slot[j].item == item;
            if (at->is_input || at->first != i || named_before) continue;
            int which = is_per_output(x, item);
            size_t end = put_in_gap(x, &live[which], item);
            if (end > region[which]) region[which] = end;
        }
}

static rf_status place_values(rf_exec *x, size_t *total, rf_error *e) {
    size_t n = 3 * (size_t)x->plan->n_vals, region[2] = {0, 0};
    live_set live[2] = {{rf_alloc(n, sizeof(rf_gpu_item)), 0},
                        {rf_alloc(n, sizeof(rf_gpu_item)), 0}};
    bool got = live[0].item && live[1].item;
    if (got) {
        find_lifetimes(x);
        place_items(x, live, region);
    }
    rf_free(live[0].item);
    rf_free(live[1].item);
    if (!got) return rf_fail_nomem(e, n * sizeof(rf_gpu_item));
    for (rf_gpu_item i = 1; i < n; i++)
        if (x->places[i].used && !x->places[i].is_input && is_per_output(x, i))
            x->places[i].at += region[0];
    *total = region[0] + region[1];
    return RF_OK;
}

/* A batch's block --------------------------------------------------------------------------------*/

rf_gpu_input rf_gpu_input_of(const rf_exec *x, const rf_gpu_shape *s) {
    enum { WORD = 4 };
    rf_gpu_input in = {0};
    size_t at = 0;
    in.token_at = at;
    in.pos_at = at += rf_gpu_align((size_t)s->n_tokens * WORD);
    in.row_seq_at = at += rf_gpu_align((size_t)s->n_tokens * WORD);
    in.out_row_at = at += rf_gpu_align((size_t)s->n_tokens * WORD);
    in.noise_at = at += rf_gpu_align((size_t)s->n_outputs * WORD);
    in.kv_len_at = at += x->n_groups ? rf_gpu_align((size_t)s->n_outputs * sizeof(rf_noise)) : 0;
    in.prefix_at = at += rf_gpu_align((size_t)s->n_seqs * WORD);
    in.seq_start_at = at += rf_gpu_align((size_t)s->n_seqs * WORD);
    in.state_at = at += x->state_bytes ? rf_gpu_align(((size_t)s->n_seqs + 1) * WORD) : 0;
    in.table_at = at += x->state_bytes ? rf_gpu_align((size_t)s->n_seqs * WORD) : 0;
    in.mask_at = at += rf_gpu_align((size_t)s->n_seqs * s->table_stride * WORD);
    in.embed_at = at += rf_gpu_align((size_t)s->n_tokens * s->mask_stride * WORD);
    in.bytes = at + rf_gpu_align((size_t)s->n_tokens * x->embed_bytes);
    return in;
}

static size_t largest_input(const rf_exec *x) {
    const rf_limits *l = &x->limits;
    uint32_t keys = x->n_positions;
    rf_gpu_shape s = {.n_tokens = l->max_tokens,
                      .n_seqs = l->max_seqs,
                      .n_outputs = l->max_outputs,
                      .table_stride = keys / RF_KV_BLOCK,
                      .mask_stride = x->has_mask ? keys : 0};
    return rf_gpu_input_of(x, &s).bytes;
}

/* Angles -----------------------------------------------------------------------------------------*/

typedef struct angles {
    const rf_rope *rope;
    float *out; /* [n_positions][n_dims / 2][2] */
    uint32_t n_positions;
} angles;

static void make_angles(void *user, int ith, int n_threads) {
    const angles *a = user;
    uint32_t half = a->rope->n_dims / 2;
    for (uint32_t p = (uint32_t)ith; p < a->n_positions; p += (uint32_t)n_threads) {
        float *out = a->out + (size_t)p * half * 2;
        for (uint32_t d = 0; d < half; d++, out += 2) {
            double s, c;
            rf_sincos(p * a->rope->inv_freq[d], &s, &c);
            out[0] = (float)c;
            out[1] = (float)s;
            if (a->rope->magnitude != 1.0f) {
                out[0] *= a->rope->magnitude;
                out[1] *= a->rope->magnitude;
            }
        }
    }
}

static size_t angle_bytes(const rf_exec *x, const rf_rope *rope) {
    return (size_t)x->n_positions * rope->n_dims * sizeof(float);
}

static rf_status upload_angles(rf_exec *x, rf_error *e) {
    rf_gpu_queue *q = &x->backend->queue;
    for (uint32_t i = 0; i < x->n_ropes; i++) {
        size_t bytes = angle_bytes(x, x->ropes[i].rope);
        angles a = {x->ropes[i].rope, rf_alloc(bytes, 1), x->n_positions};
        if (!a.out) return rf_fail_nomem(e, bytes);
        rf_pool_run(x->backend->pool, make_angles, &a);
        rf_gpu_upload(q, x->memory + x->ropes[i].at, a.out, bytes);
        rf_gpu_wait(q);
        rf_free(a.out);
    }
    return rf_gpu_status(q, e);
}

static size_t result_bytes(const rf_exec *x) {
    return (size_t)x->limits.max_outputs * x->plan->n_result * sizeof(float);
}

static size_t best_bytes(const rf_exec *x) {
    return x->n_groups ? x->limits.max_outputs * sizeof(rf_best) : 0;
}

static size_t first_bytes(const rf_exec *x) {
    return x->n_groups ? x->limits.max_outputs * sizeof *x->flight->first : 0;
}

/* All of it --------------------------------------------------------------------------------------*/

rf_status rf_gpu_check_fits(rf_exec *x, rf_error *e) {
    rf_gpu_queue *q = &x->backend->queue;
    size_t values = x->value_bytes, n_free, n_total,
           weights = rf_gpu_weights_bytes(&x->weights, &x->backend->weights);
    RF_TRY(rf_gpu_memory(q, &n_free, &n_total, e));
    size_t need = weights + x->device_bytes;
    if (need <= n_free) return RF_OK;
    return rf_fail(e, RF_ENOMEM,
                   "%s: needs %zu bytes (weights %zu, KV cache %zu, activations %zu, states %zu, "
                   "other %zu), but %zu of its %zu bytes are free: ask for a shorter context or a "
                   "smaller batch, take a smaller model, or leave layers to the CPU with "
                   "--gpu-layers",
                   q->info.name, need, weights, x->kv_bytes, values, x->state_bytes,
                   x->device_bytes - x->kv_bytes - values - x->state_bytes, n_free, n_total);
}

rf_status rf_gpu_place_all(rf_exec *x, rf_error *e) {
    size_t at;
    RF_TRY(place_values(x, &x->value_bytes, e));
    x->n_groups = rf_gpu_best_groups(x->plan->n_result);
    x->kv_at = at = x->value_bytes;
    x->state_at = at += x->kv_bytes;
    at += rf_gpu_align(x->state_bytes);
    for (uint32_t i = 0; i < x->n_ropes; i++) {
        x->ropes[i].at = at;
        at += rf_gpu_align(angle_bytes(x, x->ropes[i].rope));
    }
    x->lists_at = at;
    x->room_at = at += rf_gpu_align(x->lists_bytes);
    x->ready_at = at += rf_gpu_align(x->room_bytes);
    x->best_at = at += rf_gpu_align(x->ready_bytes);
    x->chosen_at = at += rf_gpu_align(best_bytes(x));
    x->most_at = at += rf_gpu_align(first_bytes(x));
    x->input_at = at +=
        rf_gpu_align((size_t)3 * x->limits.max_outputs * x->n_groups * sizeof(float));
    x->input_cap = largest_input(x);
    x->device_bytes = at + x->input_cap;
    x->host_bytes =
        result_bytes(x) + best_bytes(x) + RF_GPU_MAX_FLIGHTS * (x->input_cap + first_bytes(x));
    return RF_OK;
}

rf_status rf_gpu_take(rf_exec *x, rf_error *e) {
    rf_gpu_queue *q = &x->backend->queue;
    x->memory = rf_gpu_alloc(q, x->device_bytes, "KV cache and activations");
    x->result = rf_gpu_host_alloc(q, result_bytes(x), "the result");
    if (x->n_groups) x->best = rf_gpu_host_alloc(q, best_bytes(x), "the best of the result");
    for (int i = 0; i < RF_GPU_MAX_FLIGHTS; i++) {
        rf_gpu_flight *f = &x->flight[i];
        f->staging = rf_gpu_host_alloc(q, x->input_cap, "the batch");
        if (x->n_groups) f->first = rf_gpu_host_alloc(q, first_bytes(x), "the first of the result");
    }
    RF_TRY(rf_gpu_status(q, e));
    rf_gpu_fill(q, x->memory + x->kv_at, 0, x->kv_bytes);
    return upload_angles(x, e);
}

void rf_gpu_release(rf_exec *x) {
    rf_gpu_queue *q = &x->backend->queue;
    rf_gpu_wait(q);
    for (uint32_t i = 0; i < RF_GPU_MAX_GRAPHS; i++) {
        rf_gpu_graph_free(q, x->recording[i].graph);
        x->recording[i] = (rf_gpu_recording){.graph = NULL};
    }
    rf_gpu_free(q, x->memory);
    rf_gpu_free(q, x->kept);
    x->kept = NULL;
    rf_gpu_host_free(q, x->result);
    rf_gpu_host_free(q, x->best);
    for (int i = 0; i < RF_GPU_MAX_FLIGHTS; i++) {
        rf_gpu_host_free(q, x->flight[i].staging);
        rf_gpu_host_free(q, x->flight[i].first);
        x->flight[i].staging = NULL;
        x->flight[i].first = NULL;
    }
    x->memory = NULL;
    x->result = NULL;
    x->best = NULL;
    x->ran = x->waited = false;
    x->n_flying = 0;
}

uint8_t *rf_gpu_address(const rf_exec *x, rf_gpu_item item) {
    const rf_plan *p = x->plan;
    if (is_placed(x, item)) {
        const rf_gpu_place *at = &x->places[item];
        if (at->picked_of && rf_gpu_picks_all(x)) at = &x->places[at->picked_of];
        if (!at->is_input) return x->memory + at->at;
        return x->memory + x->input_at + x->input.embed_at + at->at * x->shape.n_tokens;
    }
    if (item == rf_gpu_lists_item(p)) return x->memory + x->lists_at;
    if (item == rf_gpu_room_item(p)) return x->memory + x->room_at;
    if (item == rf_gpu_ready_item(p)) return x->memory + x->ready_at;
    if (item == rf_gpu_state_item(p)) return x->memory + x->state_at;
    if (item >= rf_gpu_rope_item(p, 0))
        return x->memory + x->ropes[item - rf_gpu_rope_item(p, 0)].at;
    uint32_t layer = (item - rf_gpu_kv_item(p, 0, false)) / 2;
    bool is_value = (item - rf_gpu_kv_item(p, 0, false)) % 2;
    return x->memory + x->kv_at + (is_value ? x->kv[layer].v_at : x->kv[layer].k_at);
}

rf_gpu_quant rf_gpu_quant_at(const rf_exec *x, rf_gpu_item item) {
    bool is_256 = (item - x->plan->n_vals) % 2;
    quant_parts p = parts_of(rows_of(x, item), x->plan->vals[value_of(x, item)].cols, is_256);
    uint8_t *at = rf_gpu_address(x, item);
    return (rf_gpu_quant){(int8_t *)at, (float *)(void *)(at + p.d),
                          (int32_t *)(void *)(at + p.sum)};
}
