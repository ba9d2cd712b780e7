/* selftest.c - runs trials on the GPU and on the CPU backend and compares every value, bit by bit.
 *
 * A trial runs twice on the GPU: with all values kept, which shows the step that went wrong, and fused as
 * users run it, small batches also as a recorded graph.  The CPU runs it once, beside the first.  Blamed are the kernels
 * that were launched for that kind of step.  Memory is filled with noise before each run, so that what a
 * kernel forgets to write shows.
 *
 * Kernels that this device would take for larger shapes only, or in the place of others, are met in a
 * second round: trials again on a device that seems to be small, without the kernels that were met.
 *
 * Products of 16-bit floats on matrix units, attention's too, have rounds of their own, since their numbers are
 * not the CPU's to the bit: they have to be near. */
#include "backend/selftest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/gpu/code.h"
#include "backend/gpu/exec.h"
#include "backend/gpu/quarantine.h"
#include "backend/gpu/trial.h"
#include "backend/noise.h"

enum {
    MAX_BATCHES = 9,
    N_SEQS = 2,
    SEQ_BLOCKS = RF_GPU_TRIAL_POSITIONS / RF_KV_BLOCK,
    MAX_ROWS = N_SEQS * RF_GPU_TRIAL_POSITIONS,
    NOISE = 0xA5,
    SPARE_PERCENT = 10, /* of free memory, plenty for what is kept of a trial's weights */
};

typedef struct tester {
    rf_selftest *out;
    const rf_selftest_opts *o;
    rf_backend *gpu, *cpu;
    const rf_gpu_trial_case *c;         /* now running */
    bool launched[RF_GPU_KERNEL_COUNT]; /* by the batch, and for what is kept that it took */
    bool keeping[RF_GPU_KERNEL_COUNT];  /* by the pair, before it */
    uint32_t n_blamed;                  /* values of the case that were wrong */
    bool is_again;                      /* the second round */
    bool is_near;                       /* of 16-bit floats on matrix units */
    float *values;                      /* [n_values] of both backends, for compare_value */
    size_t n_values;
    float
        *want[2 * MAX_BATCHES]; /* the CPU's results of the case's batches, of states each twice */
} tester;

/* How many tokens each batch adds to the sequences; ends with a row of zeros.  Few and many rows have
 * kernels of their own, and so has a long context. */
static const uint32_t (*batches_of(const tester *t))[N_SEQS] {
    static const uint32_t prompts[MAX_BATCHES][N_SEQS] = {{270, 33}, {1, 0}, {1, 1}, {4, 1}};
    static const uint32_t short_prompts[MAX_BATCHES][N_SEQS] = {{40, 33}, {1, 1}};
    static const uint32_t rows[MAX_BATCHES][N_SEQS] = {{1, 0},  {1, 1},  {4, 0},   {7, 0},
                                                       {13, 0}, {20, 0}, {30, 10}, {66, 0}};
    static const uint32_t tall[MAX_BATCHES][N_SEQS] = {{1, 0},  {1, 1},  {4, 0},   {7, 0},
                                                       {13, 0}, {20, 0}, {30, 10}, {290, 0}};
    static const uint32_t most[MAX_BATCHES][N_SEQS] = {
        {RF_GPU_TRIAL_POSITIONS, RF_GPU_TRIAL_POSITIONS}};
    bool is_short = t->o->quick && t->c->type != RF_DT_F16;
    if (t->c->kind == RF_GPU_TRIAL_HEADS) return is_short ? short_prompts : prompts;
    if (t->c->is_long) return most;
    return t->c->is_tall ? tall : rows;
}

static rf_limits limits_of(const tester *t) {
    rf_limits l = {.max_seqs = N_SEQS,
                   .n_kv_blocks = N_SEQS * SEQ_BLOCKS,
                   .n_states = N_SEQS,
                   .k_type = RF_DT_F16,
                   .v_type = RF_DT_F16};
    for (const uint32_t(*n)[N_SEQS] = batches_of(t); (*n)[0]; n++)
        if ((*n)[0] + (*n)[1] > l.max_tokens) l.max_tokens = (*n)[0] + (*n)[1];
    l.max_outputs = l.max_tokens;
    if (t->c->kind == RF_GPU_TRIAL_HEADS) {
        l.k_type = t->c->type;
        l.v_type = t->c->v_type;
    }
    return l;
}

/* Blame ------------------------------------------------------------------------------------------*/

/* The kinds of trials that a kernel is tested by, told by its arguments. */
enum {
    BY_rf_gpu_norm_args = 1 << RF_GPU_TRIAL_ROWS,
    BY_rf_gpu_quant_args = 1 << RF_GPU_TRIAL_ROWS,
    BY_rf_gpu_each_args = 1 << RF_GPU_TRIAL_ROWS,
    BY_rf_gpu_embed_args = 1 << RF_GPU_TRIAL_ROWS,
    BY_rf_gpu_copy_args = 1 << RF_GPU_TRIAL_ROWS,
    BY_rf_gpu_halves_args = 1 << RF_GPU_TRIAL_PRODUCTS | 1 << RF_GPU_TRIAL_EXPERTS,
    BY_rf_gpu_matmul_args = 1 << RF_GPU_TRIAL_PRODUCTS | 1 << RF_GPU_TRIAL_EXPERTS,
    BY_rf_gpu_choose_args = 1 << RF_GPU_TRIAL_EXPERTS,
    BY_rf_gpu_route_args = 1 << RF_GPU_TRIAL_EXPERTS,
    BY_rf_gpu_lists_args = 1 << RF_GPU_TRIAL_EXPERTS,
    BY_rf_gpu_mix_args = 1 << RF_GPU_TRIAL_EXPERTS,
    BY_rf_gpu_heads_args = 1 << RF_GPU_TRIAL_HEADS,
    BY_rf_gpu_attend_args = 1 << RF_GPU_TRIAL_HEADS,
    BY_rf_gpu_conv_args = 1 << RF_GPU_TRIAL_STATES,
    BY_rf_gpu_recur_args = 1 << RF_GPU_TRIAL_STATES,
    BY_rf_gpu_best_args = 0, /* none: compare_best looks at what they make */
};
static const uint8_t tested_by[RF_GPU_KERNEL_COUNT] = {
#define X(name, args, block) [RF_GPU_##name] = BY_##args,
#include "backend/gpu/kernels.def"
#undef X
};

/* Works for other kernels only, with their lists, parts or keys and values. */
static bool is_helper(int k) {
    return k == RF_GPU_lists || k == RF_GPU_attend_fold || k == RF_GPU_kv_halves;
}
static bool is_half(int k) {
    return (k >= RF_GPU_half_rows && k <= RF_GPU_half_wide_256) ||
           (k >= RF_GPU_attend_halves && k <= RF_GPU_attend_halves_small_quant) ||
           k == RF_GPU_attend_halves_tile || k == RF_GPU_attend_halves_group;
}

static bool has_launched(const rf_gpu_kernels *by) {
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++)
        if (by->launched[k]) return true;
    return false;
}

/* The kernels that made an item in the latest run: the first that were launched for a task that names it,
 * as the work of one may be done with that of the next. */
static const rf_gpu_kernels *makers_of(const rf_exec *x, rf_gpu_item item) {
    for (uint32_t i = 0; i < x->n_tasks; i++)
        for (uint32_t k = 0; k < x->tasks[i].n_slots; k++)
            if (x->tasks[i].slot[k].item == item && has_launched(&x->by_task[i]))
                return &x->by_task[i];
    return NULL;
}

static const char *case_text(const rf_gpu_trial_case *c, char *out, size_t cap) {
    static const char *const kinds[] = {"rows", "products", "experts", "attention", "states"};
    snprintf(out, cap, "%s of %s%s%s", kinds[c->kind], rf_dtype_get(c->type)->name,
             c->kind == RF_GPU_TRIAL_HEADS ? " and " : "",
             c->kind == RF_GPU_TRIAL_HEADS ? rf_dtype_get(c->v_type)->name : "");
    return out;
}

/* Every kernel of the batch met one more case. */
static void count_case(tester *t) {
    uint64_t formats = UINT64_C(1) << t->c->type;
    if (t->c->kind == RF_GPU_TRIAL_HEADS) formats |= UINT64_C(1) << t->c->v_type;
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++) {
        rf_kernel_verdict *v = &t->out->kernels[k];
        if (!t->launched[k]) continue;
        v->n_cases++;
        if (t->c->kind != RF_GPU_TRIAL_ROWS && t->c->kind != RF_GPU_TRIAL_STATES)
            v->formats |= formats;
    }
}

/* Blames some kernels of the batch.  Where makers worked with what a helper made it is that one if they have done well
 * so far, and else they. */
static void blame(tester *t, const rf_gpu_kernels *makers, const char *what) {
    char text[100];
    bool is_helped = false, have_failed = false;
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++) {
        if (!makers->launched[k]) continue;
        is_helped = is_helped || is_helper(k);
        have_failed = have_failed || (!is_helper(k) && t->out->kernels[k].n_failed);
    }
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++) {
        rf_kernel_verdict *v = &t->out->kernels[k];
        if (!makers->launched[k] || (is_helped && is_helper(k) == have_failed)) continue;
        if (v->n_failed++ == 0)
            snprintf(v->text, sizeof v->text, "%s: %.90s", case_text(t->c, text, sizeof text),
                     what);
    }
    t->n_blamed++;
}

/* What was launched for the trial's own sake, or all of it. */
static rf_gpu_kernels suspects(const tester *t) {
    rf_gpu_kernels all, some;
    bool any = false;
    memcpy(all.launched, t->launched, sizeof all.launched);
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++) {
        some.launched[k] = t->launched[k] && tested_by[k] >> t->c->kind & 1;
        any = any || some.launched[k];
    }
    return any ? some : all;
}

/* Comparing --------------------------------------------------------------------------------------*/

typedef struct pair { /* one plan on both backends, or on the GPU alone */
    rf_plan *plan;
    rf_exec *gpu, *cpu;
} pair;

static void pair_close(pair *p) {
    rf_gpu_ops.exec_free(p->gpu);
    if (p->cpu) rf_cpu_ops.exec_free(p->cpu);
    rf_plan_free(p->plan);
    *p = (pair){.plan = NULL};
}

static rf_status pair_open(pair *p, tester *t, rf_gpu_trial *trial, bool keep_values, rf_error *e) {
    const rf_plan_opts opts = {.keep_values = keep_values, .n_ctx = RF_GPU_TRIAL_POSITIONS};
    const rf_limits limits = limits_of(t);
    *p = (pair){.plan = NULL};
    rf_status s = rf_plan_build(&p->plan, &trial->m, &opts, e);
    if (s == RF_OK && keep_values) s = rf_cpu_ops.compile(&p->cpu, t->cpu, p->plan, &limits, e);
    memset(t->gpu->queue.launched, 0, sizeof t->gpu->queue.launched);
    if (s == RF_OK) s = rf_gpu_ops.compile(&p->gpu, t->gpu, p->plan, &limits, e);
    memcpy(t->keeping, t->gpu->queue.launched, sizeof t->keeping);
    if (s == RF_OK && keep_values) {
        p->gpu->by_task = rf_arena_alloc(p->gpu->arena, p->gpu->n_tasks, sizeof *p->gpu->by_task);
        if (!p->gpu->by_task) s = rf_fail_nomem(e, p->gpu->n_tasks * sizeof *p->gpu->by_task);
    }
    if (s != RF_OK) pair_close(p);
    return s;
}

/* The first number that is not the same; n: all are.  A NaN is a NaN. */
static size_t first_difference(const float *a, const float *b, size_t n) {
    size_t i = memcmp(a, b, n * sizeof *a) == 0 ? n : 0;
    while (i < n && (memcmp(a + i, b + i, sizeof *a) == 0 || (isnan(a[i]) && isnan(b[i]))))
        i++;
    return i;
}

/* How near values have to be, as a part of the largest.  Rows rounded to 8 bits put the sums of some products in a
 * row about a 500th away; products of what attention made, which is but near itself, are more than a 64th away once in
 * some 36 self-tests. */
static float near_enough(bool is_behind_attention) {
    return is_behind_attention ? 1.0f / 16.0f : 1.0f / 64.0f;
}

/* The first number that is not near the one wanted or no number; n: all are. */
static size_t first_far(const float *a, const float *b, size_t n, float part) {
    float most = 0.0f;
    for (size_t i = 0; i < n; i++)
        most = fabsf(b[i]) > most ? fabsf(b[i]) : most;
    size_t i = 0;
    while (i < n && (a[i] == b[i] || fabsf(a[i] - b[i]) <= most * part))
        i++;
    return i;
}

/* False, with the blame laid, when they differ, or where near is enough are not that near. */
static bool compare(tester *t, const rf_gpu_kernels *makers, const char *name, const float *got,
                    const float *want, size_t n, uint32_t n_rows, float near) {
    char what[140];
    size_t i = t->is_near ? first_far(got, want, n, near) : first_difference(got, want, n);
    if (i == n) return true;
    snprintf(what, sizeof what, "%s over %u rows: number %zu of %zu is %.9g, expected %.9g", name,
             n_rows, i, n, (double)got[i], (double)want[i]);
    blame(t, makers, what);
    return false;
}

/* The scale of a group of n, and what its values are multiplied with: docs/arithmetic.md. */
static float scale_of(float *d, float amax, size_t n) {
    uint32_t bits;
    *d = n == 256 ? amax / 127.0f : amax * 0x1.020408p-7f;
    if (n == 256) return amax > 0 ? 127.0f / amax : 0;
    memcpy(&bits, d, sizeof bits);
    if (bits < 0x7f800000) bits = (bits + 0xfffff) & 0xfff00000;
    memcpy(d, &bits, sizeof *d);
    return *d > 0 ? 1.0f / *d : 0;
}

/* To the nearest integer, ties to even, of |x| below 2^22; unlike rintf not a function of the library everywhere. */
static float nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

/* Groups of n values in integers; sums per `part`. */
static void quantise(const float *x, size_t count, size_t n, size_t part, int8_t *q, float *d,
                     int32_t *sum) {
    for (size_t g = 0; g < count / n; g++, x += n, q += n) {
        uint32_t most = 0;
        float amax;
        for (size_t i = 0; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, &x[i], sizeof bits);
            bits &= 0x7fffffffu;
            most = bits > most ? bits : most;
        }
        memcpy(&amax, &most, sizeof amax);
        const float id = scale_of(&d[g], amax, n);
        for (size_t i = 0; i < n; i++) {
            float v = x[i] * id;
            v = v > -127.0f ? v : -127.0f;
            v = v < 127.0f ? v : 127.0f;
            q[i] = (int8_t)nearest(v);
        }
        for (size_t i = 0; i < n; i += part, sum++) {
            *sum = 0;
            for (size_t k = 0; k < part; k++)
                *sum += q[i + k];
        }
    }
}

/* The rows in integers that the device made of value v, whose floats x [count] are right. */
static rf_status compare_ints(tester *t, const pair *p, rf_val v, rf_int_view view, const float *x,
                              size_t count, rf_error *e) {
    rf_gpu_item item = rf_gpu_quant_item(p->plan, v, view);
    size_t n = view == RF_INT_256 ? 256 : 32, part = view == RF_INT_256 ? 16 : 32;
    size_t n_d = count / n, n_sum = count / part, bytes = count + 4 * (n_d + n_sum);
    if (!p->gpu->places[item].used) return RF_OK;
    uint8_t *want = rf_alloc(2, bytes), *got = want + bytes;
    if (!want) return rf_fail_nomem(e, 2 * bytes);
    float *d = rf_alloc(n_d, sizeof *d);
    int32_t *sum = rf_alloc(n_sum, sizeof *sum);
    rf_status s = d && sum ? RF_OK : rf_fail_nomem(e, bytes);
    if (s == RF_OK) {
        rf_gpu_queue *q = &p->gpu->backend->queue;
        rf_gpu_quant at = rf_gpu_quant_at(p->gpu, item);
        quantise(x, count, n, part, (int8_t *)want, d, sum);
        memcpy(want + count, d, n_d * sizeof *d);
        memcpy(want + count + 4 * n_d, sum, n_sum * sizeof *sum);
        rf_gpu_enter(q);
        rf_gpu_download(q, got, at.q, count);
        rf_gpu_download(q, got + count, at.d, 4 * n_d);
        rf_gpu_download(q, got + count + 4 * n_d, at.sum, 4 * n_sum);
        rf_gpu_wait(q);
        s = rf_gpu_status(q, e);
        if (s == RF_OK && memcmp(got, want, bytes) != 0)
            blame(t, makers_of(p->gpu, item), "rows in integers are wrong");
    }
    rf_free(d);
    rf_free(sum);
    rf_free(want);
    return s;
}

/* Room for so many floats, what was in it before is gone; NULL on lack of memory. */
static float *values_of(tester *t, size_t n) {
    if (n <= t->n_values) return t->values;
    rf_free(t->values);
    t->values = rf_alloc(n, sizeof *t->values);
    t->n_values = t->values ? n : 0;
    return t->values;
}

/* One value and its rows in integers; n floats. */
static rf_status compare_value(tester *t, const pair *p, const rf_step *s, size_t n,
                               uint32_t n_rows, float near, rf_error *e) {
    const rf_gpu_kernels *makers = makers_of(p->gpu, s->dst);
    float *got = values_of(t, 2 * n);
    if (!got) return rf_fail_nomem(e, 2 * n * sizeof *got);
    rf_status status = rf_gpu_ops.peek(p->gpu, s->dst, got, n);
    if (status == RF_OK) status = rf_cpu_ops.peek(p->cpu, s->dst, got + n, n);
    if (status != RF_OK) (void)rf_fail(e, status, "self-test: %s", rf_status_name(status));
    bool same = status == RF_OK &&
                (!makers || compare(t, makers, rf_op_name(s->op), got, got + n, n, n_rows, near));
    if (same) status = compare_ints(t, p, s->dst, RF_INT_32, got, n, e);
    if (same && status == RF_OK) status = compare_ints(t, p, s->dst, RF_INT_256, got, n, e);
    return status;
}

/* Every value that was kept, in order of the steps: the first that differs names the culprit. */
static rf_status compare_values(tester *t, const pair *p, const rf_batch *b, rf_error *e) {
    uint32_t before = t->n_blamed;
    bool has_attended = false;
    for (uint32_t i = 0; i < p->plan->n_steps && t->n_blamed == before; i++) {
        const rf_step *s = &p->plan->steps[i];
        const rf_value *v = &p->plan->vals[s->dst];
        size_t n = (size_t)(v->per_output ? b->n_outputs : b->n_tokens) * v->cols;
        float near = near_enough(has_attended);
        if (s->dst) RF_TRY(compare_value(t, p, s, n, b->n_tokens, near, e));
        has_attended = has_attended || s->op == RF_OP_ATTEND;
    }
    return RF_OK;
}

static void poison(rf_exec *x) {
    rf_backend *b = x->backend;
    pthread_mutex_lock(&b->lock);
    rf_gpu_enter(&b->queue);
    rf_gpu_fill(&b->queue, x->memory, NOISE, x->kv_at);
    memset(b->queue.launched, 0, sizeof b->queue.launched);
    pthread_mutex_unlock(&b->lock);
}

static void note_launched(tester *t, const rf_exec *x) {
    memcpy(t->launched, t->gpu->queue.launched, sizeof t->launched);
    for (uint32_t i = 0; i < x->n_tasks && x->by_task; i++)
        for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++)
            t->launched[k] = t->launched[k] || x->by_task[i].launched[k];
    if (!t->launched[RF_GPU_wide_32_kept] && !t->launched[RF_GPU_wide_32_kept_low]) return;
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++)
        t->launched[k] = t->launched[k] || t->keeping[k];
}

/* Is what the device calls the best of a row right?  want: the row. */
static bool is_best(const rf_best *b, const float *want, uint32_t n, const rf_noise *noise) {
    uint32_t next = 0 /* of the groups */, first = rf_noise_first(noise, want, n);
    bool right = b->n_groups >= RF_BEST_SURE;
    if (b->n_groups == 0) return b->first == first;
    for (uint32_t k = 0; k < n && right; k++) {
        if (next < b->n_groups && b->group[next] < k / RF_BEST_GROUP) next++;
        bool is_here = next < b->n_groups && b->group[next] == k / RF_BEST_GROUP;
        right = is_here ? first_difference(&b->x[next][k % RF_BEST_GROUP], &want[k], 1) == 1
                        : !(want[k] >= b->bound) || isinf(want[k]);
    }
    return right && b->first == first;
}

/* The batch again for the best of its rows, where the device tells it.  noise: of the first. */
static rf_status compare_best(tester *t, const pair *p, const rf_batch *b, const float *want,
                              const rf_noise *noise, rf_error *e) {
    const bool draws = noise->scale > 0;
    const rf_by_best by_best[RF_GPU_TRIAL_POSITIONS] = {draws ? RF_BY_FIRST : RF_BY_BEST,
                                                        draws ? RF_BY_BEST : RF_BY_FIRST};
    static const rf_gpu_kernels makers = {.launched = {[RF_GPU_best_groups] = true,
                                                       [RF_GPU_best_rows] = true,
                                                       [RF_GPU_drawn_groups] = true,
                                                       [RF_GPU_drawn_rows] = true}};
    const rf_noise of_row[RF_GPU_TRIAL_POSITIONS] = {*noise};
    uint32_t n = p->plan->n_result;
    rf_batch best = *b;
    const float *rows;
    best.by_best = by_best;
    best.noise = of_row;
    poison(p->gpu);
    rf_status s = rf_gpu_ops.run(p->gpu, &best, e);
    if (s == RF_OK) s = rf_gpu_ops.wait(p->gpu, &rows);
    note_launched(t, p->gpu);
    count_case(t);
    if (s != RF_OK) return rf_gpu_status(&t->gpu->queue, e);
    for (uint32_t i = 0; i < b->n_outputs && i < 2 && t->n_blamed == 0; i++) { /* rows are right */
        const rf_best *got = rf_gpu_ops.best(p->gpu, i);
        if (got && !is_best(got, want + (size_t)i * n, n, &of_row[i]))
            blame(t, &makers, "the best of a row is not");
    }
    return RF_OK;
}

/* Without noise, and with: there are kernels for either. */
static rf_status compare_bests(tester *t, const pair *p, const rf_batch *b, const float *want,
                               rf_error *e) {
    const rf_noise none = {.scale = 0},
                   noise = {.draw = 3,
                            .scale = 0.5f,
                            .narrows = RF_NARROWS_SHARE | RF_NARROWS_DEPTH |
                                       (b->n_tokens % 2 ? RF_NARROWS_COUNT : 0),
                            .count = 40,
                            .share = 0x60000000u,
                            .depth = -3};
    if (!p->gpu->n_groups || b->n_outputs == 0 || t->is_near) return RF_OK;
    RF_TRY(compare_best(t, p, b, want, &none, e));
    return compare_best(t, p, b, want, &noise, e);
}

/* A batch on the CPU, whose results stay as number i of the case's for what the GPU makes of it later. */
static rf_status run_on_cpu(tester *t, const pair *p, const rf_batch *b, uint32_t i, rf_error *e) {
    const size_t n = (size_t)b->n_outputs * p->plan->n_result;
    const float *want = NULL;
    RF_TRY(rf_cpu_ops.run(p->cpu, b, e));
    RF_TRY(rf_cpu_ops.wait(p->cpu, &want));
    t->want[i] = rf_alloc(n, sizeof *want);
    if (!t->want[i]) return rf_fail_nomem(e, n * sizeof *want);
    memcpy(t->want[i], want, n * sizeof *want);
    return RF_OK;
}

/* A batch, with results number i.  RF_OK also when they differ; a failure is one of the device, or of memory. */
static rf_status run_batch(tester *t, const pair *p, const rf_batch *b, uint32_t i, rf_error *e) {
    const float *got = NULL;
    poison(p->gpu);
    rf_status s = rf_gpu_ops.run(p->gpu, b, e), on_cpu = RF_OK;
    if (p->cpu) on_cpu = run_on_cpu(t, p, b, i, e);
    if (s == RF_OK) s = rf_gpu_ops.wait(p->gpu, &got);
    note_launched(t, p->gpu);
    count_case(t);
    if (s != RF_OK) return rf_gpu_status(&t->gpu->queue, e);
    if (on_cpu != RF_OK) return on_cpu;
    if (p->plan->opts.keep_values) return compare_values(t, p, b, e);
    const rf_gpu_kernels makers = suspects(t);
    float near = near_enough(t->c->kind == RF_GPU_TRIAL_HEADS);
    if (t->n_blamed == 0) /* else the single steps said more */
        (void)compare(t, &makers, "the fused plan", got, t->want[i],
                      (size_t)b->n_outputs * p->plan->n_result, b->n_tokens, near);
    return compare_bests(t, p, b, t->want[i], e);
}

/* Batches ----------------------------------------------------------------------------------------*/

typedef struct trial_batch {
    rf_batch b;
    int32_t token[MAX_ROWS];
    uint32_t pos[MAX_ROWS], out_row[MAX_ROWS];
    uint32_t start[N_SEQS + 1], kv_len[N_SEQS], state[N_SEQS], table[N_SEQS][SEQ_BLOCKS];
    float mask[RF_GPU_TRIAL_POSITIONS][RF_GPU_TRIAL_POSITIONS];
} trial_batch;

/* n[i] more tokens of sequence i, of which done[i] are computed. */
static void fill_batch(trial_batch *f, const uint32_t *n, const uint32_t *done) {
    enum { ALL_FROM = 200 };
    f->b = (rf_batch){.token = f->token,
                      .pos = f->pos,
                      .seq_start = f->start,
                      .kv_len = f->kv_len,
                      .table = f->table[0],
                      .table_stride = SEQ_BLOCKS,
                      .out_row = f->out_row,
                      .state = f->state,
                      .mask = f->mask[0],
                      .mask_stride = RF_GPU_TRIAL_POSITIONS};
    for (uint32_t i = 0; i < N_SEQS; i++) {
        if (n[i] == 0) continue;
        uint32_t q = f->b.n_seqs++;
        for (uint32_t k = 0; k < n[i]; k++)
            f->pos[f->b.n_tokens++] = done[i] + k;
        f->start[q + 1] = f->b.n_tokens;
        f->kv_len[q] = done[i] + n[i];
        f->state[q] = i;
        for (uint32_t k = 0; k < SEQ_BLOCKS; k++)
            f->table[q][k] = N_SEQS * (SEQ_BLOCKS - 1 - k) + i;
    }
    /* The first and the last row, or all of many. */
    f->b.n_outputs = f->b.n_tokens > ALL_FROM ? f->b.n_tokens : f->b.n_tokens > 1 ? 2 : 1;
    for (uint32_t o = 0; o < f->b.n_outputs; o++)
        f->out_row[o] = o;
    f->out_row[f->b.n_outputs - 1] = f->b.n_tokens - 1;
}

static void fill_mask(trial_batch *f, uint64_t *state) {
    for (uint32_t t = 0; t < RF_GPU_TRIAL_POSITIONS; t++)
        for (uint32_t j = 0; j < RF_GPU_TRIAL_POSITIONS; j++) {
            uint64_t r = rf_gpu_trial_random(state);
            f->mask[t][j] = r % 3 ? (float)(r % 100) / 50.0f : -INFINITY;
        }
}

/* How often a batch runs: fused, a small one twice, the second time recorded as a graph.  States go on with each run, so
 * that the CPU, and what it is compared with, have to keep up. */
static uint32_t times_of(const tester *t, const pair *p, const rf_batch *b) {
    const bool may_repeat = !p->plan->opts.keep_values || t->c->kind == RF_GPU_TRIAL_STATES;
    return may_repeat && !t->o->quick && b->n_tokens <= RF_GPU_GRAPH_ROWS ? 2 : 1;
}

static rf_status run_batches(tester *t, const pair *p, rf_error *e) {
    trial_batch *f = rf_alloc(1, sizeof *f);
    if (!f) return rf_fail_nomem(e, sizeof *f);
    uint32_t done[N_SEQS] = {0};
    uint64_t state = t->o->seed;
    rf_status s = RF_OK;
    if (t->c->kind == RF_GPU_TRIAL_HEADS) fill_mask(f, &state);
    const uint32_t(*n)[N_SEQS] = batches_of(t);
    for (uint32_t at = 0; s == RF_OK && n[at][0]; at++) {
        fill_batch(f, n[at], done);
        for (uint32_t i = 0; s == RF_OK && i < times_of(t, p, &f->b); i++)
            s = run_batch(t, p, &f->b, 2 * at + (t->c->kind == RF_GPU_TRIAL_STATES ? i : 0), e);
        for (uint32_t i = 0; i < N_SEQS; i++)
            done[i] += n[at][i];
    }
    rf_free(f);
    return s;
}

/* Trials -----------------------------------------------------------------------------------------*/

static rf_status open_gpu(tester *t, rf_error *e) {
    const rf_backend_opts bo = {.device = t->o->device, .fast_floats = t->is_near};
    return rf_gpu_open_unjudged(&t->gpu, &bo, e);
}

/* A fault is the fault of the kernel that its text names, else of what was launched; the device is
 * opened anew for the other trials. */
static rf_status after_fault(tester *t, const rf_error *fault, rf_error *e) {
    rf_gpu_kernels makers = suspects(t), named = makers;
    bool any = false;
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++) {
        named.launched[k] = strstr(fault->text, t->out->kernels[k].name) != NULL;
        any = any || named.launched[k];
    }
    blame(t, any ? &named : &makers, fault->text);
    rf_gpu_ops.close(t->gpu);
    t->gpu = NULL;
    return open_gpu(t, e);
}

static void forget_results(tester *t) {
    for (uint32_t i = 0; i < RF_COUNT(t->want); i++) {
        rf_free(t->want[i]);
        t->want[i] = NULL;
    }
}

/* One round of a case: with all values kept, and fused. */
static rf_status run_round(tester *t, rf_gpu_trial *trial, rf_error *e) {
    rf_error why = {.status = RF_OK};
    rf_status s = RF_OK;
    t->n_blamed = 0;
    for (int kept = 1; s == RF_OK && kept >= 0; kept--) {
        pair p;
        s = pair_open(&p, t, trial, kept, &why);
        if (s == RF_OK) s = run_batches(t, &p, &why);
        pair_close(&p);
    }
    forget_results(t);
    if (s == RF_EDEVICE) return after_fault(t, &why, e);
    return s == RF_OK ? s : rf_fail(e, s, "%s", why.text);
}

/* The device's kernels that trials of that kind could still meet. */
static uint32_t n_unmet(const tester *t, rf_gpu_trial_kind kind) {
    uint32_t n = 0;
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++)
        n += t->gpu->queue.function[k] && !t->out->kernels[k].n_cases && tested_by[k] >> kind & 1 &&
             is_half(k) == t->is_near;
    return n;
}

/* Whole tiles give way to halves of them that were not met: one multiprocessor has no use for these.  What either multiplies is
 * still made. */
static void leave_whole_out(tester *t) {
    static const rf_gpu_kernel pairs[][2] = {{RF_GPU_ahead_products, RF_GPU_ahead_low_products},
                                             {RF_GPU_ahead_scales, RF_GPU_ahead_low_scales},
                                             {RF_GPU_ahead_minima, RF_GPU_ahead_low_minima},
                                             {RF_GPU_wide_32_kept, RF_GPU_wide_32_kept_low}};
    bool *left_out = t->gpu->queue.left_out, any = false;
    for (size_t i = 0; i < RF_COUNT(pairs); i++) {
        bool is_unmet = t->out->kernels[pairs[i][1]].n_cases == 0;
        left_out[pairs[i][0]] = is_unmet && t->out->kernels[pairs[i][0]].n_cases > 0;
        any = any || is_unmet;
    }
    for (int k = RF_GPU_digits_256_20; any && k <= RF_GPU_digits_256_80; k++)
        left_out[k] = false;
    for (int k = RF_GPU_keep_32_40; any && k <= RF_GPU_keep_32_80; k++)
        left_out[k] = false;
}

/* Nothing but what was not met does its work from now on, as far as that can be. */
static void leave_met_out(tester *t) {
    rf_gpu_queue *q = &t->gpu->queue;
    memset(q->left_out, 0, sizeof q->left_out);
    for (int k = 0; k < RF_GPU_KERNEL_COUNT; k++) {
        q->left_out[k] = t->out->kernels[k].n_cases > 0 && !is_helper(k);
        if (q->left_out[k] && rf_gpu_quarantine_check(q, NULL) != RF_OK) q->left_out[k] = false;
    }
    if (t->is_near) /* without these none of them runs */
        q->left_out[RF_GPU_half_rows] = q->left_out[RF_GPU_half_8] =
            q->left_out[RF_GPU_half_wave_16] = q->left_out[RF_GPU_attend_halves] = false;
    for (int k = RF_GPU_ahead_products; k <= RF_GPU_wide_rows_32; k++)
        q->left_out[k] = false; /* nor without these what makes digits for them */
    leave_whole_out(t);
}

/* In the second round as often as that brings kernels that were not met. */
static rf_status run_case(tester *t, const rf_gpu_trial_case *c, uint64_t seed, rf_error *e) {
    rf_gpu_trial *trial = NULL;
    uint32_t before = UINT32_MAX, n;
    RF_TRY(rf_gpu_trial_open(&trial, c, seed, e));
    t->c = c;
    rf_status s = t->is_again ? RF_OK : run_round(t, trial, e);
    for (; t->is_again && s == RF_OK && (n = n_unmet(t, c->kind)) && n < before; before = n) {
        leave_met_out(t);
        t->gpu->queue.info.n_units = 1;
        s = run_round(t, trial, e);
    }
    rf_gpu_trial_close(trial);
    return s;
}

/* The formats of a quick test: one of each layout, with minima and without, and floats; of experts fewer. */
static bool is_quick(rf_dtype type, rf_gpu_trial_kind kind) {
    static const rf_dtype few[] = {RF_DT_F32,  RF_DT_Q8_0, RF_DT_Q4_K,  RF_DT_F16,  RF_DT_Q4_0,
                                   RF_DT_Q5_0, RF_DT_Q5_1, RF_DT_Q2_K,  RF_DT_Q3_K, RF_DT_IQ3_S,
                                   RF_DT_Q5_K, RF_DT_Q6_K, RF_DT_IQ4_XS};
    size_t n = kind == RF_GPU_TRIAL_EXPERTS ? 3 : RF_COUNT(few); /* those of experts first */
    for (size_t i = 0; i < n; i++)
        if (few[i] == type) return true;
    return false;
}

static rf_status run_formats(tester *t, rf_gpu_trial_kind kind, rf_error *e) {
    bool has_few = t->o->quick || t->is_again;
    for (rf_dtype type = 0; type < RF_DT_COUNT; type++) {
        bool is_one_of_few = is_quick(type, kind);
        bool is_wanted =
            is_one_of_few || (t->is_again && type == RF_DT_Q4_1); /* has some kernels alone */
        if (!rf_gpu_trial_has(type) || (has_few && !is_wanted)) continue;
        rf_gpu_trial_case c = {.kind = kind,
                               .type = type,
                               .is_tall = !has_few && is_one_of_few,
                               .is_small = t->o->quick};
        uint64_t seed = t->o->seed + 100 * (uint64_t)kind + type;
        RF_TRY(run_case(t, &c, seed, e));
        if (t->o->quick || !is_one_of_few || kind != RF_GPU_TRIAL_PRODUCTS) continue;
        uint32_t *n_units = &t->gpu->queue.info.n_units, n = *n_units;
        c.is_tall = false;
        c.is_long = true;
        *n_units = 1; /* few blocks are enough for kernels of very many rows */
        RF_TRY(run_case(t, &c, seed, e));
        /* That was as weights lie in memory; what is kept of them: */
        const rf_dtype_info *info = rf_dtype_get(type);
        if (info->view == RF_INT_32) {
            t->gpu->spare_percent = SPARE_PERCENT;
            RF_TRY(run_case(t, &c, seed, e));
            t->gpu->spare_percent = 0;
        }
        *n_units = n;
    }
    return RF_OK;
}

/* Every pair of cache formats; patterns and shapes in turn. */
static rf_status run_attention(tester *t, rf_error *e) {
    static const rf_dtype types[] = {RF_DT_F16, RF_DT_F32, RF_DT_BF16, RF_DT_Q8_0, RF_DT_Q4_0};
    static const rf_attn_pattern patterns[] = {
        {RF_ATTN_CAUSAL, 0, 0},      {RF_ATTN_LOCAL, 40, 0},        {RF_ATTN_BIDIRECTIONAL, 0, 0},
        {RF_ATTN_LOCAL_BOTH, 20, 0}, {RF_ATTN_GLOBAL_LOCAL, 33, 5}, {RF_ATTN_CUSTOM, 0, 0}};
    static const uint32_t shapes[][4] = {/* head_dim, value_dim, n_heads, n_kv_heads */
                                         {128, 128, 6, 2},
                                         {64, 64, 8, 1},
                                         {80, 21, 3, 3},
                                         {96, 0, 12, 1},
                                         {256, 96, 5, 1}};
    static const uint32_t small[2][4] = {{32, 16, 2, 1}, {32, 16, 8, 1}};
    size_t n = RF_COUNT(types) * RF_COUNT(types), step = t->o->quick ? RF_COUNT(types) + 1 : 1;
    for (size_t i = 0; i < n; i += step) {
        const uint32_t *shape = t->o->quick ? small[i > 0] : shapes[i % RF_COUNT(shapes)];
        const rf_gpu_trial_case c = {.kind = RF_GPU_TRIAL_HEADS,
                                     .type = types[i / RF_COUNT(types)],
                                     .v_type = types[i % RF_COUNT(types)],
                                     .pattern = patterns[i % RF_COUNT(patterns)],
                                     .head_dim = shape[0],
                                     .value_dim = shape[1],
                                     .n_heads = shape[2],
                                     .n_kv_heads = shape[3]};
        RF_TRY(run_case(t, &c, t->o->seed + 1000 + i, e));
    }
    const rf_gpu_trial_case alone = {.kind = RF_GPU_TRIAL_HEADS, /* no heads that share keys */
                                     .type = RF_DT_F16,
                                     .v_type = RF_DT_F16,
                                     .pattern = patterns[0],
                                     .head_dim = 32,
                                     .value_dim = 16,
                                     .n_heads = 2,
                                     .n_kv_heads = 2};
    RF_TRY(run_case(t, &alone, t->o->seed + 1000 + n, e));
    for (uint32_t dim = 64; dim <= 128; dim *= 2) { /* widths that have a kernel of their own */
        const rf_gpu_trial_case q8 = {.kind = RF_GPU_TRIAL_HEADS,
                                      .type = RF_DT_Q8_0,
                                      .v_type = RF_DT_Q8_0,
                                      .pattern = patterns[dim / 128],
                                      .head_dim = dim,
                                      .value_dim = dim,
                                      .n_heads = 5,
                                      .n_kv_heads = 1};
        RF_TRY(run_case(t, &q8, t->o->seed + 1000 + n + dim, e));
    }
    return RF_OK;
}

/* Matrices of any number of rows, and of that with a kernel of its own. */
static rf_status run_states(tester *t, rf_error *e) {
    static const uint32_t shapes[][4] = {/* head_dim, value_dim, n_heads, n_kv_heads */
                                         {RF_GPU_RECUR_KEPT, 70, 4, 2},
                                         {40, 9, 3, 1}};
    for (size_t i = 0; i < RF_COUNT(shapes); i++) {
        const rf_gpu_trial_case c = {.kind = RF_GPU_TRIAL_STATES,
                                     .type = RF_DT_F32,
                                     .head_dim = shapes[i][0],
                                     .value_dim = shapes[i][1],
                                     .n_heads = shapes[i][2],
                                     .n_kv_heads = shapes[i][3]};
        RF_TRY(run_case(t, &c, t->o->seed + 2000 + i, e));
    }
    return RF_OK;
}

static rf_status run_kinds(tester *t, rf_error *e) {
    const rf_gpu_trial_case rows = {.kind = RF_GPU_TRIAL_ROWS, .type = RF_DT_F32};
    uint32_t kinds = t->o->kinds ? t->o->kinds : ~0u;
    if (kinds >> RF_GPU_TRIAL_ROWS & 1) RF_TRY(run_case(t, &rows, t->o->seed, e));
    if (kinds >> RF_GPU_TRIAL_PRODUCTS & 1) RF_TRY(run_formats(t, RF_GPU_TRIAL_PRODUCTS, e));
    if (kinds >> RF_GPU_TRIAL_EXPERTS & 1) RF_TRY(run_formats(t, RF_GPU_TRIAL_EXPERTS, e));
    if (kinds >> RF_GPU_TRIAL_STATES & 1) RF_TRY(run_states(t, e));
    return kinds >> RF_GPU_TRIAL_HEADS & 1 ? run_attention(t, e) : RF_OK;
}

/* Products of 16-bit floats on matrix units, and attention over caches of them and of Q8_0, of either width. */
static rf_status run_near_round(tester *t, uint32_t kinds, rf_error *e) {
    static const rf_dtype types[] = {RF_DT_F16, RF_DT_BF16, RF_DT_Q8_0};
    for (size_t i = 0; i < 5 * RF_COUNT(types); i++) {
        const rf_gpu_trial_kind kind[] = {RF_GPU_TRIAL_PRODUCTS, RF_GPU_TRIAL_PRODUCTS,
                                          RF_GPU_TRIAL_EXPERTS, RF_GPU_TRIAL_HEADS,
                                          RF_GPU_TRIAL_HEADS};
        bool attends = i % 5 >= 3;
        if (types[i / 5] == RF_DT_Q8_0 && !attends) continue;
        rf_gpu_trial_case c = {.kind = kind[i % 5],
                               .type = types[i / 5],
                               .is_near = true,
                               .is_long = i % 5 == 1 && !t->o->quick,
                               .is_small = t->o->quick && !attends};
        if (attends) {
            c.v_type = c.type;
            c.pattern = (rf_attn_pattern){i % 5 == 3 ? RF_ATTN_CAUSAL : RF_ATTN_LOCAL, 40, 0};
            c.head_dim = c.value_dim = i % 5 == 3 ? 128 : 64;
            c.n_heads = i % 5 == 3 ? 6 : 5; /* columns in groups of 256, and of 32 */
            c.n_kv_heads = 1;
        }
        if (kinds >> c.kind & 1) RF_TRY(run_case(t, &c, t->o->seed + 3000 + i, e));
    }
    return RF_OK;
}

/* Where the device has kernels for them. */
static rf_status run_near(tester *t, rf_error *e) {
    rf_gpu_queue *q = &t->gpu->queue;
    if (!q->function[RF_GPU_half_rows]) return RF_OK;
    memset(q->left_out, 0, sizeof q->left_out);
    const uint32_t kinds = t->o->kinds ? t->o->kinds : ~0u;
    t->is_near = q->fast_floats = true;
    t->is_again = false;
    if (t->o->quick) return run_near_round(t, kinds, e);
    RF_TRY(run_near_round(t, kinds & 1 << RF_GPU_TRIAL_HEADS, e)); /* segments side by side */
    t->gpu->queue.info.n_units = 1;
    for (int again = 0; again < 2; again++) {
        t->is_again = again;
        RF_TRY(run_near_round(t, kinds, e));
    }
    return RF_OK;
}

/* What was not met is looked for again, as on a device of one multiprocessor. */
static rf_status run_all(tester *t, rf_error *e) {
    const uint32_t n_units = t->gpu->queue.info.n_units;
    RF_TRY(run_kinds(t, e));
    t->is_again = true;
    if (!t->o->quick) RF_TRY(run_kinds(t, e));
    t->gpu->queue.info.n_units = n_units;
    return run_near(t, e);
}

/* The whole --------------------------------------------------------------------------------------*/

/* Kernels that the device's code lacks are not told of. */
static void conclude(tester *t) {
    bool failed[RF_GPU_KERNEL_COUNT];
    rf_selftest *out = t->out;
    rf_error e = {.status = RF_OK};
    out->n_kernels = 0;
    for (size_t k = 0; k < RF_GPU_KERNEL_COUNT; k++) {
        failed[k] = out->kernels[k].n_failed > 0;
        if (!t->gpu->queue.function[k]) continue;
        out->n_failed += failed[k];
        out->n_untested += out->kernels[k].n_cases == 0;
        out->kernels[out->n_kernels++] = out->kernels[k];
    }
    if (rf_gpu_verdict_path(&t->gpu->queue, out->path, sizeof out->path) &&
        rf_gpu_verdict_write(&t->gpu->queue, failed, &e) != RF_OK)
        out->path[0] = 0;
}

rf_status rf_selftest_run(rf_selftest **out, const rf_selftest_opts *o, rf_error *e) {
    *out = NULL;
    rf_selftest *r = rf_alloc(1, sizeof *r);
    if (!r) return rf_fail_nomem(e, sizeof *r);
    tester t = {.out = r, .o = o};
    const rf_backend_opts bo = {.n_threads = 0};
    uint64_t begin = rf_time_us();
    r->seed = o->seed;
    r->n_kernels = RF_GPU_KERNEL_COUNT;
    r->kernels = rf_alloc(r->n_kernels, sizeof *r->kernels);
    rf_status s = r->kernels ? RF_OK : rf_fail_nomem(e, r->n_kernels * sizeof *r->kernels);
    for (int k = 0; s == RF_OK && k < RF_GPU_KERNEL_COUNT; k++)
        r->kernels[k].name = rf_gpu_kernel_name((rf_gpu_kernel)k);
    if (s == RF_OK) s = rf_gpu_probe((size_t)o->device, &r->gpu, e);
    if (s == RF_OK) s = open_gpu(&t, e);
    if (s == RF_OK) s = rf_cpu_ops.open(&t.cpu, &bo, e);
    if (s == RF_OK) s = run_all(&t, e);
    if (s == RF_OK) conclude(&t);
    r->seconds = (double)(rf_time_us() - begin) * 1e-6;
    rf_gpu_ops.close(t.gpu);
    if (t.cpu) rf_cpu_ops.close(t.cpu);
    rf_free(t.values);
    if (s != RF_OK) rf_selftest_free(r);
    if (s == RF_OK) *out = r;
    return s;
}

void rf_selftest_free(rf_selftest *t) {
    if (!t) return;
    rf_free(t->kernels);
    rf_free(t);
}
