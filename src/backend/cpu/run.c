/* run.c - one thread's share of a forward pass, and the steps that work row by row.
 *
 * Work inside a task is handed out by an atomic counter, in pieces that never share an output; the
 * order of pieces changes nothing, since every output is computed whole by one thread in canonical
 * arithmetic.  Between tasks stands a barrier. */
#include <string.h>

#include "backend/cpu/exec.h"
#include "base/fmath.h"

/* Cos and sin of every rope at every row's position. */
static void make_angles(rf_exec *x, rf_cpu_counter *counter) {
    uint32_t i, n = x->n_ropes * x->n_tokens;
    while (rf_cpu_next_piece(counter, n, &i)) {
        const rf_rope *rope = x->ropes[i / x->n_tokens];
        uint32_t row = i % x->n_tokens;
        size_t at = ((size_t)(i / x->n_tokens) * x->limits.max_tokens + row) * x->angle_cols;
        float *out = x->angles + at;
        for (uint32_t d = 0; d < rope->n_dims / 2; d++) {
            double s, c;
            rf_sincos(x->batch->pos[row] * rope->inv_freq[d], &s, &c);
            out[2 * d] = (float)c;
            out[2 * d + 1] = (float)s;
            if (rope->magnitude != 1.0f) {
                out[2 * d] *= rope->magnitude;
                out[2 * d + 1] *= rope->magnitude;
            }
        }
    }
}

/* Row by row -------------------------------------------------------------------------------------*/

static void embed_row(const rf_cpu_runner *r, const rf_step *s, uint32_t row, float *dst) {
    const rf_tensor *w = r->x->plan->vals[s->w].weight;
    uint32_t from = 0, cols = r->x->plan->vals[s->dst].cols;
    if (s->source == RF_EMBED_ROWS) {
        memcpy(dst, r->b->rows + (size_t)row * cols, cols * sizeof *dst);
        return;
    }
    if (s->source == RF_EMBED_TOKEN) from = (uint32_t)r->b->token[row];
    if (s->source == RF_EMBED_POSITION) from = r->b->pos[row];
    rf_dtype_get(w->type)->decode((const uint8_t *)w->data + from * w->row_bytes, dst, cols);
}

static void slice_row(const rf_step *s, const float *a, float *dst, uint32_t cols) {
    uint32_t n = cols / s->n_heads;
    for (uint32_t h = 0; h < s->n_heads; h++)
        memcpy(dst + (size_t)h * n, a + (size_t)h * s->head_dim + s->first, n * sizeof *dst);
}

static void concat_row(const rf_step *s, const float *a, const float *b, float *dst,
                       uint32_t cols) {
    uint32_t n = cols / s->n_heads, n_a = s->head_dim, n_b = n - n_a;
    for (uint32_t h = 0; h < s->n_heads; h++) {
        const float *from_b = b + (s->n_kv_heads == 1 ? 0 : (size_t)h * n_b);
        memcpy(dst + (size_t)h * n, a + (size_t)h * n_a, n_a * sizeof *dst);
        memcpy(dst + (size_t)h * n + n_a, from_b, n_b * sizeof *dst);
    }
}

/* From 0, the best expert first. */
static void mix_row(const rf_cpu_runner *r, const rf_step *s, const float *a, const float *route,
                    float *dst, uint32_t cols) {
    memset(dst, 0, cols * sizeof *dst);
    for (uint32_t i = 0; i < s->router->n_used; i++)
        r->k->add_scaled(dst, a + (size_t)i * cols, route[i], cols);
}

static void norm_row(const rf_cpu_runner *r, const rf_cpu_norm *norm, const float *a, float *dst,
                     uint32_t cols) {
    for (uint32_t i = 0; i < cols; i += norm->head_dim)
        rf_cpu_norm_row(r->k, norm, dst + i, a + i, norm->head_dim);
}

static void part_row(const rf_cpu_runner *r, const rf_cpu_part *part, uint32_t row) {
    const rf_step *s = part->step;
    const rf_value *vals = r->x->plan->vals;
    uint32_t cols = vals[s->dst].cols;
    float *dst = rf_cpu_row_of(r->x, s->dst, row);
    uint32_t a_row = s->op == RF_OP_PICK ? r->b->out_row[row] : row;
    const float *a = s->a ? rf_cpu_row_of(r->x, s->a, a_row) : NULL;
    const float *b = s->b ? rf_cpu_row_of(r->x, s->b, row) : NULL;
    if (s->op == RF_OP_EMBED) {
        embed_row(r, s, row, dst);
    } else if (s->op == RF_OP_RMS_NORM || s->op == RF_OP_LAYER_NORM) {
        norm_row(r, &part->norm, a, dst, cols);
    } else if (s->op == RF_OP_ROPE) {
        memcpy(dst, a, cols * sizeof *dst);
        r->k->rope(dst, s->n_heads, s->head_dim, s->rope,
                   rf_cpu_angles_of(r->x, part->rope_index, row));
    } else if (s->op == RF_OP_SLICE) {
        slice_row(s, a, dst, cols);
    } else if (s->op == RF_OP_CONCAT) {
        concat_row(s, a, b, dst, cols);
    } else if (s->op == RF_OP_ROUTE) {
        rf_cpu_route(s->router, a, dst);
    } else if (s->op == RF_OP_MIX) {
        mix_row(r, s, a, b, dst, cols);
    } else if (s->op == RF_OP_PICK) {
        memcpy(dst, a, cols * sizeof *dst);
    } else {
        rf_cpu_apply(r->k, s, dst, a, b, b ? cols / vals[s->b].cols : 1, 0, cols);
    }
}

static void run_rows(const rf_cpu_runner *r) {
    const rf_cpu_task *t = r->t;
    uint32_t row;
    while (rf_cpu_next_piece(&r->counter[0], rf_cpu_rows_of(r->x, t), &row)) {
        for (uint32_t i = 0; i < t->n_parts; i++)
            part_row(r, &r->x->parts[t->first_part + i], row);
    }
}

void rf_cpu_run_thread(void *exec, int ith, int n_threads) {
    rf_exec *x = exec;
    rf_cpu_runner r = {.x = x, .b = x->batch, .k = x->kernels, .own = &x->thread[ith], .ith = ith};
    r.spread = rf_pool_spread(x->backend->pool);
    r.node = rf_spread_find(r.spread, ith);
    make_angles(x, &x->counter[2 * (size_t)x->n_tasks]);
    /* The first task embeds and reads no angles: its barrier is theirs too. */
    for (uint32_t i = 0, turn = 0; i < x->n_tasks; i++) {
        r.t = &x->tasks[i];
        r.counter = &x->counter[2 * (size_t)i];
        if (rf_cpu_rows_of(x, r.t) == 0) continue;
        r.taken = &x->taken[turn * (size_t)n_threads];
        turn = 1 - turn; /* nobody is in the task before this one any more */
        __atomic_store_n(&x->taken[turn * (size_t)n_threads + (size_t)ith].next, 0,
                         __ATOMIC_RELAXED);
        if (r.t->kind == RF_CPU_ROWS)
            run_rows(&r);
        else if (r.t->kind == RF_CPU_ATTEND)
            rf_cpu_run_attend(&r);
        else if (r.t->kind == RF_CPU_STATE)
            rf_cpu_run_state(&r);
        else
            rf_cpu_run_products(&r);
        if (i + 1 < x->n_tasks) rf_pool_barrier(x->backend->pool);
    }
}
