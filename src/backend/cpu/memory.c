/* memory.c - every byte a run needs, laid out and allocated when the exec is compiled.
 *
 * Values share memory by lifetime over the fused tasks (which are fewer than the plan's steps and
 * live in another order), so the plan's own offsets are not used.  Values with a row per token and
 * values with a row per output lie in two regions. */
#include <inttypes.h>
#include <string.h>

#include "backend/cpu/exec.h"
#include "base/os.h"

enum {
    ALIGN = 64,
    VALS_PER_PRODUCT = 1 + RF_CPU_MAX_CHAIN,
    VALS_PER_TASK = 11 + RF_CPU_MAX_PRODUCTS * VALS_PER_PRODUCT, /* ROWS: three per part */
};

/* Lifetimes and places ---------------------------------------------------------------------------*/

/* The values that task t touches; 0 stands for none.  out has room for VALS_PER_TASK and three for
 * every part there is. */
static uint32_t values_of(const rf_exec *x, const rf_cpu_task *t, rf_val *out) {
    uint32_t n = 0;
    out[n++] = t->a;
    out[n++] = t->norm_dst;
    out[n++] = t->route;
    out[n++] = t->scores;
    out[n++] = t->at.q.val;
    out[n++] = t->at.k.val;
    out[n++] = t->at.v;
    out[n++] = t->at.attend ? t->at.step->dst : 0;
    if (t->state.step) {
        out[n++] = t->state.step->a;
        out[n++] = t->state.step->b;
        out[n++] = t->state.step->dst;
    }
    for (uint32_t i = 0; i < t->n_products; i++) {
        const rf_cpu_product *m = &t->product[i];
        out[n++] = m->dst;
        for (uint32_t k = 0; k < m->n_chain; k++)
            out[n++] = m->chain[k].other;
    }
    for (uint32_t i = t->first_part; i < t->first_part + t->n_parts; i++) {
        const rf_step *s = x->parts[i].step;
        out[n++] = s->a;
        out[n++] = s->b;
        out[n++] = s->dst;
    }
    return n;
}

typedef struct place {
    uint32_t first, last; /* tasks */
    bool used;
    size_t offset; /* floats per row of its region */
} place;

static void find_lifetimes(const rf_exec *x, place *places, rf_val *v) {
    const rf_plan *p = x->plan;
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        uint32_t n = values_of(x, &x->tasks[i], v);
        for (uint32_t k = 0; k < n; k++) {
            place *at = &places[x->root[v[k]]];
            if (!at->used) at->first = i;
            at->used = true;
            at->last = p->opts.keep_values ? x->n_tasks : i;
        }
    }
    places[0].used = false;
    places[x->root[p->result]].last = x->n_tasks;
}

static size_t floats_of(const rf_exec *x, rf_val v) {
    size_t n = ALIGN / sizeof(float);
    return ((size_t)x->plan->vals[v].cols + n - 1) / n * n;
}

/* The values of one region alive at one task, by offset. */
typedef struct live_set {
    rf_val *v; /* [n], room for n_vals */
    uint32_t n;
} live_set;

/* Puts v into the lowest gap that holds it; returns where it ends. */
static size_t put_in_gap(const rf_exec *x, place *places, live_set *live, rf_val v) {
    uint32_t kept = 0, at = 0;
    for (uint32_t i = 0; i < live->n; i++) {
        if (places[live->v[i]].last >= places[v].first) live->v[kept++] = live->v[i];
    }
    live->n = kept;
    size_t offset = 0, size = floats_of(x, v);
    for (; at < live->n && offset + size > places[live->v[at]].offset; at++) {
        offset = places[live->v[at]].offset + floats_of(x, live->v[at]);
    }
    memmove(live->v + at + 1, live->v + at, (live->n - at) * sizeof *live->v);
    live->v[at] = v;
    live->n++;
    places[v].offset = offset;
    return offset + size;
}

/* region[0]: floats per token row, region[1]: floats per output row */
static void place_values(const rf_exec *x, place *places, rf_val *v, live_set live[2],
                         size_t region[2]) {
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        uint32_t n = values_of(x, &x->tasks[i], v);
        for (uint32_t k = 0; k < n; k++) {
            rf_val r = x->root[v[k]];
            if (!places[r].used || places[r].first != i) continue;
            bool seen = false; /* named twice by its first task */
            for (uint32_t j = 0; j < k; j++)
                seen = seen || x->root[v[j]] == r;
            if (seen) continue;
            int which = x->plan->vals[r].per_output;
            size_t end = put_in_gap(x, places, &live[which], r);
            if (end > region[which]) region[which] = end;
        }
    }
}

/* Allocation -------------------------------------------------------------------------------------*/

typedef struct request {
    void **out;
    size_t n, size;
    const char *what;
} request;

static rf_status too_big(const request *r, rf_error *e) {
    return rf_fail(e, RF_ENOMEM,
                   "%s: %zu times %zu bytes are more than can be addressed: ask for a shorter "
                   "context or a smaller batch",
                   r->what, r->n, r->size);
}

/* All or nothing is left to the caller: what was taken is in *out, the rest stays NULL. */
static rf_status take_all(rf_exec *x, const request *r, size_t n, rf_error *e) {
    size_t total = 0, have = (size_t)rf_mem_total();
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        if (!rf_mul_ok(r[i].n, r[i].size, &bytes) || !rf_add_ok(total, bytes, &total)) {
            return too_big(&r[i], e);
        }
        if (have && total > have) {
            return rf_fail(e, RF_ENOMEM,
                           "%s: needs %zu bytes (%zu with what comes before), but this machine has "
                           "%zu: ask for a shorter context or a smaller batch",
                           r[i].what, bytes, total, have);
        }
    }
    for (size_t i = 0; i < n; i++) {
        *r[i].out = rf_alloc(r[i].n, r[i].size);
        if (!*r[i].out) {
            return rf_fail(
                e, RF_ENOMEM,
                "%s: %zu bytes are not to be had: ask for a shorter context or a smaller "
                "batch",
                r[i].what, r[i].n * r[i].size);
        }
    }
    x->heap_bytes = total;
    return RF_OK;
}

/* Cuts pieces from a block; with base NULL it only counts. */
typedef struct cutter {
    uint8_t *base;
    size_t used;
    bool overflow;
} cutter;

static void *cut(cutter *c, size_t n, size_t size) {
    size_t bytes, end;
    if (!rf_mul_ok(n, size, &bytes) || !rf_add_ok(bytes, ALIGN - 1, &bytes) ||
        !rf_add_ok(c->used, bytes / ALIGN * ALIGN, &end)) {
        c->overflow = true;
        return NULL;
    }
    void *p = c->base ? c->base + c->used : NULL;
    c->used = end;
    return p;
}

/* cols: widest row per view; with_x: floats are kept too; k: whose blocks of rows are, or NULL. */
static rf_cpu_acts cut_acts(cutter *c, const uint32_t cols[3], bool with_x, const rf_cpu_kernels *k,
                            size_t rows) {
    rf_cpu_acts a = {0};
    size_t n32 = cols[RF_INT_32], n256 = cols[RF_INT_256];
    if (with_x) a.x = cut(c, rows * cols[RF_INT_NONE], sizeof *a.x);
    if (n32) {
        a.q[0] = cut(c, rows * n32, sizeof *a.q[0]);
        a.d[0] = cut(c, rows * (n32 / 32), sizeof *a.d[0]);
        a.sum[0] = cut(c, rows * (n32 / 32), sizeof *a.sum[0]);
        a.total = cut(c, rows * (n32 / 32), sizeof *a.total);
    }
    if (n256) {
        a.q[1] = cut(c, rows * n256, sizeof *a.q[1]);
        a.d[1] = cut(c, rows * (n256 / 256), sizeof *a.d[1]);
        a.sum[1] = cut(c, rows * (n256 / 16), sizeof *a.sum[1]);
    }
    for (rf_int_view view = RF_INT_NONE; k && view <= RF_INT_256; view++)
        if (rf_act_wants_blocks(k, view, rows))
            a.blocks[view] =
                cut(c, rf_act_n_blocks(view, rows), rf_act_block_bytes(view, cols[view]));
    return a;
}

static void cut_thread(cutter *c, const rf_exec *x, uint32_t max_rows, rf_cpu_thread *t) {
    size_t rows = max_rows, n_used = x->max_used;
    t->mm = cut(c, rf_mm_scratch_bytes(max_rows, x->max_cols), 1);
    t->attend = cut(c, x->attend_bytes, 1);
    t->query = cut(c, x->query_cols, sizeof *t->query);
    t->row = cut(c, x->max_cols, sizeof *t->row);
    t->acts = cut_acts(c, x->view_cols, x->stored_input, NULL, 1);
    if (!x->max_experts) return;
    t->gather = cut_acts(c, x->gather_cols, true, x->kernels, rows);
    t->out = cut(c, 2 * rows * RF_CPU_EXPERT_PIECE, sizeof *t->out);
    t->route = cut(c, 2 * n_used, sizeof *t->route);
    t->slot = cut(c, rows * n_used, sizeof *t->slot);
    t->first = cut(c, (size_t)x->max_experts + 1, sizeof *t->first);
    t->active = cut(c, x->max_experts, sizeof *t->active);
}

/* Lays out the layers' keys and values; bytes[0] of keys, bytes[1] of values. */
static rf_status size_kv(rf_exec *x, size_t bytes[2], rf_error *e) {
    const rf_plan *p = x->plan;
    x->kv = rf_arena_alloc(x->arena, p->model->n_layers, sizeof *x->kv);
    if (!x->kv) return rf_fail_nomem(e, p->model->n_layers * sizeof *x->kv);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const rf_step *s = &p->steps[i];
        if (s->op != RF_OP_KV_PUT) continue;
        rf_cpu_kv *kv = &x->kv[s->layer];
        size_t rows = (size_t)s->n_kv_heads * RF_KV_BLOCK; /* 1024 heads of 640: no overflow */
        kv->k_block = rows * rf_kv_head_bytes(x->limits.k_type, s->head_dim);
        kv->v_block = s->b ? rows * rf_kv_head_bytes(x->limits.v_type, s->value_dim) : 0;
        kv->k_at = bytes[0];
        kv->v_at = bytes[1];
        size_t k, v;
        if (!rf_mul_ok(kv->k_block, x->limits.n_kv_blocks, &k) ||
            !rf_mul_ok(kv->v_block, x->limits.n_kv_blocks, &v) ||
            !rf_add_ok(bytes[0], k, &bytes[0]) || !rf_add_ok(bytes[1], v, &bytes[1])) {
            request r = {NULL, x->limits.n_kv_blocks, kv->k_block + kv->v_block,
                         "the KV cache of the CPU backend"};
            return too_big(&r, e);
        }
    }
    return RF_OK;
}

static void point_values(rf_exec *x, const place *places, const size_t region[2]) {
    size_t tokens = x->limits.max_tokens, outputs = x->limits.max_outputs;
    for (rf_val v = 1; v < x->plan->n_vals; v++) {
        const place *at = &places[x->root[v]];
        if (!at->used) continue;
        if (x->plan->vals[v].per_output) {
            x->val[v] = x->memory + region[0] * tokens + at->offset * outputs;
        } else {
            x->val[v] = x->memory + at->offset * tokens;
        }
    }
}

/* What place_values found, now with memory under it. */
static rf_status allocate(rf_exec *x, const place *places, const size_t region[2], rf_error *e) {
    size_t tokens = x->limits.max_tokens, outputs = x->limits.max_outputs, n_values, part;
    size_t kv_bytes[2] = {0, 0};
    uint32_t max_rows =
        x->limits.max_tokens > x->limits.max_outputs ? x->limits.max_tokens : x->limits.max_outputs;
    RF_TRY(size_kv(x, kv_bytes, e));
    if (!rf_mul_ok(region[0], tokens, &n_values) || !rf_mul_ok(region[1], outputs, &part) ||
        !rf_add_ok(n_values, part, &n_values)) {
        request r = {NULL, region[0] + region[1], tokens, "the activations of the CPU backend"};
        return too_big(&r, e);
    }
    cutter shared = {0}, own = {0};
    rf_cpu_thread sizes = {0};
    (void)cut_acts(&shared, x->view_cols, x->stored_input, x->kernels, max_rows);
    cut_thread(&own, x, max_rows, &sizes);
    if (shared.overflow || own.overflow) {
        request r = {NULL, max_rows, x->max_cols, "the prepared activations of the CPU backend"};
        return too_big(&r, e);
    }
    void *k, *v, *memory, *angles, *row_seq, *group, *written, *acts, *threads, *counter, *state,
        *sums;
    k = v = memory = angles = row_seq = group = written = acts = threads = counter = state = sums =
        NULL;
    /* Those of one sequence that has the whole cache, or of several whose segments are not full. */
    x->max_segments = x->n_threads == 1 ? 0
                                        : x->limits.n_kv_blocks / RF_KV_SEGMENT +
                                              RF_CPU_CUT * (uint32_t)x->n_threads;
    enum { N_HUGE = 3 }; /* of these the first, of which a step uses all, in huge pages */
    const request all[] = {
        {&memory, n_values, sizeof(float), "the activations of the CPU backend"},
        {&acts, shared.used, 1, "the prepared activations of the CPU backend"},
        {&threads, (size_t)x->n_threads, own.used, "the threads' scratch of the CPU backend"},
        {&angles, tokens * x->n_ropes, x->angle_cols * sizeof(float), "the table of angles"},
        {&row_seq, tokens, sizeof(uint32_t), "the table of rows"},
        {&group, tokens + 1, sizeof(uint32_t), "the table of groups of rows"},
        {&counter, rf_cpu_n_counters(x), sizeof(rf_cpu_counter), "the task counters"},
        {&k, kv_bytes[0], 1, "the KV cache (keys) of the CPU backend"},
        {&v, kv_bytes[1], 1, "the KV cache (values) of the CPU backend"},
        {&written, x->limits.n_kv_blocks, sizeof(uint64_t), "the table of KV blocks"},
        {&sums, x->max_segments, x->sums_cols * sizeof(float), "the sums of attention's segments"},
        {&state, x->limits.n_states, x->plan->state_floats * sizeof(float), "the slots of state"},
    };
    if (x->need) {
        *x->need = (rf_need){.kv = kv_bytes[0] + kv_bytes[1], .values = n_values * sizeof(float)};
        for (size_t i = 0; i < RF_COUNT(all); i++)
            x->need->other += all[i].n * all[i].size;
        x->need->other -= x->need->kv + x->need->values;
        return RF_OK;
    }
    rf_status s = take_all(x, all, RF_COUNT(all), e);
    x->memory = memory;
    x->angles = angles;
    x->row_seq = row_seq;
    x->group = group;
    x->written = written;
    x->states = (rf_slots){state, x->limits.n_states, x->plan->state_floats};
    x->counter = counter;
    x->sums = sums;
    x->k = k;
    x->v = v;
    x->k_bytes = kv_bytes[0];
    x->v_bytes = kv_bytes[1];
    x->act_memory = acts;
    x->thread_memory = threads;
    if (s != RF_OK) return s;
    x->taken = x->counter + 2 * ((size_t)x->n_tasks + 1);
    x->finished = x->taken + 2 * (size_t)x->n_threads;
    for (size_t i = 0; i < N_HUGE; i++)
        rf_want_huge_pages(*all[i].out, all[i].n * all[i].size);
    shared = (cutter){.base = acts};
    x->acts = cut_acts(&shared, x->view_cols, x->stored_input, x->kernels, max_rows);
    for (int i = 0; i < x->n_threads; i++) {
        cutter c = {.base = x->thread_memory + (size_t)i * own.used};
        cut_thread(&c, x, max_rows, &x->thread[i]);
    }
    point_values(x, places, region);
    return RF_OK;
}

rf_status rf_cpu_allocate(rf_exec *x, rf_error *e) {
    uint32_t n_vals = x->plan->n_vals;
    rf_arena *scratch = NULL;
    if (rf_arena_create(&scratch) != RF_OK) return rf_fail_nomem(e, n_vals * sizeof(place));
    place *places = rf_arena_alloc(scratch, n_vals, sizeof *places);
    live_set live[2] = {{rf_arena_alloc(scratch, n_vals, sizeof(rf_val)), 0},
                        {rf_arena_alloc(scratch, n_vals, sizeof(rf_val)), 0}};
    size_t region[2] = {0, 0};
    rf_val *touched =
        rf_arena_alloc(scratch, VALS_PER_TASK + 3 * (size_t)x->n_parts, sizeof *touched);
    x->val = rf_arena_alloc(x->arena, n_vals, sizeof *x->val);
    x->thread = rf_arena_alloc(x->arena, (size_t)x->n_threads, sizeof *x->thread);
    rf_status s = RF_OK;
    if (!places || !live[0].v || !live[1].v || !touched || !x->val || !x->thread) {
        s = rf_fail_nomem(e, n_vals * sizeof *places);
    }
    if (s == RF_OK) {
        find_lifetimes(x, places, touched);
        place_values(x, places, touched, live, region);
        s = allocate(x, places, region, e);
    }
    rf_arena_free(scratch);
    return s;
}

void rf_cpu_release(rf_exec *x) {
    void *all[] = {x->memory,  x->act_memory, x->thread_memory, x->angles,
                   x->row_seq, x->group,      x->written,       x->counter,
                   x->k,       x->v,          x->states.at,     x->sums};
    for (size_t i = 0; i < RF_COUNT(all); i++)
        rf_free(all[i]);
}
