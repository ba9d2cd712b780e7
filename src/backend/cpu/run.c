/* run.c - one thread's share of a forward pass.
 *
 * Work inside a task is handed out by an atomic counter, in pieces that never share an output; the
 * order of pieces changes nothing, since every output is computed whole by one thread in canonical
 * arithmetic.  Between tasks stands a barrier. */
#include <string.h>

#include "backend/cpu/exec.h"
#include "base/fmath.h"

/* What one thread knows while it runs. */
typedef struct runner {
    rf_exec *x;
    const rf_batch *b;
    const rf_cpu_kernels *k;
    rf_cpu_thread *own;
    const rf_cpu_task *t;
    rf_cpu_counter *counter; /* [2] of this task */
} runner;

static bool next_piece(rf_cpu_counter *c, uint32_t n, uint32_t *i) {
    if (__atomic_load_n(&c->next, __ATOMIC_RELAXED) >= n) return false;
    *i = __atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED);
    return *i < n;
}

static uint32_t rows_of(const rf_exec *x, const rf_cpu_task *t) {
    return t->per_output ? x->n_outputs : x->n_tokens;
}

static float *row_of(const rf_exec *x, rf_val v, uint32_t row) {
    return x->val[v] + (size_t)row * x->plan->vals[v].cols;
}

static const float *angles_of(const rf_exec *x, uint32_t rope, uint32_t row) {
    return x->angles + ((size_t)rope * x->limits.max_tokens + row) * x->angle_cols;
}

/* Cos and sin of every rope at every row's position. */
static void make_angles(rf_exec *x, rf_cpu_counter *counter) {
    uint32_t i, n = x->n_ropes * x->n_tokens;
    while (next_piece(counter, n, &i)) {
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

/* Matrix products ------------------------------------------------------------------------------*/

static const float *input_row(const runner *r, uint32_t row) {
    return row_of(r->x, r->t->a, r->t->picked ? r->b->out_row[row] : row);
}

/* Row number row of the task's input, normed and quantised as its weights want it. */
static void prepare_row(const runner *r, const rf_cpu_acts *a, uint32_t row) {
    const rf_cpu_task *t = r->t;
    const float *x = input_row(r, row);
    size_t n = t->cols;
    bool store = t->views & 1u << RF_INT_NONE;
    if (t->norm.w) {
        float *y = store ? a->x + row * n : r->own->row;
        r->k->rms_norm(y, x, t->norm.w, n, t->norm.eps);
        x = y;
    } else if (store && t->picked) {
        memcpy(a->x + row * n, x, n * sizeof *x);
    }
    if (t->views & 1u << RF_INT_32) {
        r->k->quant_32(x, n, a->q[0] + row * n, a->d[0] + row * (n / 32),
                       a->sum[0] + row * (n / 32));
    }
    if (t->views & 1u << RF_INT_256) {
        r->k->quant_256(x, n, a->q[1] + row * n, a->d[1] + row * (n / 256),
                        a->sum[1] + row * (n / 16));
    }
}

/* True when the products cannot read the value's memory as it is. */
static bool needs_preparation(const rf_cpu_task *t) {
    return t->norm.w || t->picked || t->views != 1u << RF_INT_NONE;
}

/* Fills act[view] for the views of the task; for few rows every thread does so for itself, which
 * costs less than waiting for each other. */
static void prepare(const runner *r, uint32_t n_rows, rf_act act[3]) {
    const rf_cpu_task *t = r->t;
    const rf_cpu_acts *a = n_rows <= RF_CPU_SOLO_ROWS ? &r->own->acts : &r->x->acts;
    if (needs_preparation(t)) {
        if (n_rows <= RF_CPU_SOLO_ROWS) {
            for (uint32_t row = 0; row < n_rows; row++)
                prepare_row(r, a, row);
        } else {
            uint32_t row;
            while (next_piece(&r->counter[0], n_rows, &row))
                prepare_row(r, a, row);
            rf_pool_barrier(r->x->backend->pool);
        }
    }
    bool stored = t->norm.w || t->picked;
    for (int view = 0; view < 3; view++) {
        act[view] = (rf_act){.view = (rf_int_view)view, .n_rows = n_rows, .n_cols = t->cols};
        if (view == RF_INT_NONE) {
            act[view].x = stored ? a->x : row_of(r->x, t->a, 0);
        } else {
            act[view].q = a->q[view - RF_INT_32];
            act[view].d = a->d[view - RF_INT_32];
            act[view].sum = a->sum[view - RF_INT_32];
        }
    }
}

static void multiply(const runner *r, const rf_cpu_product *m, const rf_act act[3], uint32_t begin,
                     uint32_t end) {
    rf_mm mm = {
        .w = m->w,
        .bias = m->bias,
        .act = &act[rf_dtype_get(m->w->type)->view],
        .dst = r->x->val[m->dst],
        .dst_stride = m->w->rows,
    };
    r->k->matmul(&mm, begin, end, r->own->mm);
}

/* Rows [begin, end) of product number i, and what is fused behind it. */
static void product_piece(const runner *r, uint32_t i, const rf_act act[3], uint32_t n_rows,
                          uint32_t begin, uint32_t end) {
    const rf_cpu_task *t = r->t;
    const rf_cpu_product *m = &t->product[i];
    multiply(r, m, act, begin, end);
    if (t->silu) multiply(r, &t->product[1], act, begin, end);
    if (!t->silu && !t->add) return;
    for (uint32_t row = 0; row < n_rows; row++) {
        float *dst = row_of(r->x, m->dst, row) + begin;
        if (t->silu) {
            r->k->silu_mul(dst, dst, row_of(r->x, t->product[1].dst, row) + begin, end - begin);
        } else {
            r->k->add(dst, row_of(r->x, t->add, row) + begin, dst, end - begin);
        }
    }
}

/* Weight rows in a piece: a multiple of 16, small enough that the last piece does not keep the other
 * threads waiting. */
static uint32_t piece_rows(const rf_cpu_task *t, uint32_t n_work, int n_threads) {
    uint64_t rows = 0;
    for (uint32_t i = 0; i < n_work; i++)
        rows += t->product[i].w->rows;
    uint64_t piece = n_threads == 1 ? 256 : rows / ((uint64_t)n_threads * 8);
    piece = (piece + 15) / 16 * 16;
    return piece < 16 ? 16 : piece > 256 ? 256 : (uint32_t)piece;
}

static void run_products(const runner *r) {
    const rf_cpu_task *t = r->t;
    uint32_t n_rows = rows_of(r->x, t), n_work = t->silu ? 1 : t->n_products, n_pieces = 0;
    uint32_t piece = piece_rows(t, n_work, r->x->n_threads);
    rf_act act[3];
    prepare(r, n_rows, act);
    for (uint32_t i = 0; i < n_work; i++)
        n_pieces += (t->product[i].w->rows + piece - 1) / piece;
    uint32_t at;
    while (next_piece(&r->counter[1], n_pieces, &at)) {
        uint32_t i = 0;
        for (;; i++) {
            uint32_t own = (t->product[i].w->rows + piece - 1) / piece;
            if (at < own) break;
            at -= own;
        }
        uint32_t begin = at * piece, rows = t->product[i].w->rows;
        product_piece(r, i, act, n_rows, begin, rows - begin < piece ? rows : begin + piece);
    }
}

/* Attention --------------------------------------------------------------------------------------*/

static void prepare_heads(const runner *r, const rf_cpu_heads *h, float *x, uint32_t n_heads,
                          uint32_t head_dim, uint32_t row) {
    if (h->norm.w) {
        for (uint32_t i = 0; i < n_heads; i++) {
            float *head = x + (size_t)i * head_dim;
            r->k->rms_norm(head, head, h->norm.w, head_dim, h->norm.eps);
        }
    }
    if (h->rope) {
        r->k->rope(x, n_heads, head_dim, h->rope, angles_of(r->x, h->rope_index, row));
    }
}

static size_t kv_row_bytes(const rf_exec *x, const rf_cpu_attend *a) {
    return a->head_dim * (x->limits.kv_type == RF_DT_F16 ? sizeof(uint16_t) : sizeof(float));
}

static void store_head(const runner *r, uint8_t *dst, const float *src, uint32_t n) {
    if (r->x->limits.kv_type == RF_DT_F16) {
        r->k->f32_to_f16((uint16_t *)(void *)dst, src, n);
    } else {
        memcpy(dst, src, n * sizeof *src);
    }
}

/* Key and value head of one row into the cache. */
static void put_head(const runner *r, uint32_t row, uint32_t head) {
    const rf_exec *x = r->x;
    const rf_cpu_attend *a = &r->t->at;
    uint32_t pos = r->b->pos[row];
    const uint32_t *table = r->b->table + (size_t)x->row_seq[row] * r->b->table_stride;
    size_t row_bytes = kv_row_bytes(x, a);
    size_t at = x->kv_layer[a->layer] + table[pos / RF_KV_BLOCK] * x->kv_block[a->layer] +
                ((size_t)head * RF_KV_BLOCK + pos % RF_KV_BLOCK) * row_bytes;
    float *k = row_of(x, a->k.val, row) + (size_t)head * a->head_dim;
    prepare_heads(r, &a->k, k, 1, a->head_dim, row);
    store_head(r, x->k + at, k, a->head_dim);
    store_head(r, x->v + at, row_of(x, a->v, row) + (size_t)head * a->head_dim, a->head_dim);
}

/* Query heads [first, first + n) of one row, which all read KV head number head. */
static void attend_heads(const runner *r, uint32_t row, uint32_t head, uint32_t first, uint32_t n) {
    const rf_exec *x = r->x;
    const rf_cpu_attend *a = &r->t->at;
    uint32_t seq = x->row_seq[row];
    size_t row_bytes = kv_row_bytes(x, a);
    size_t at = x->kv_layer[a->layer] + (size_t)head * RF_KV_BLOCK * row_bytes;
    bool custom = a->pattern.kind == RF_ATTN_CUSTOM;
    float *q = row_of(x, a->q.val, row) + (size_t)first * a->head_dim;
    prepare_heads(r, &a->q, q, n, a->head_dim, row);
    rf_attend args = {
        .q = q,
        .dst = row_of(x, r->t->dst, row) + (size_t)first * a->head_dim,
        .n_q = n,
        .head_dim = a->head_dim,
        .kv_type = x->limits.kv_type,
        .k = x->k + at,
        .v = x->v + at,
        .block_stride = x->kv_block[a->layer],
        .row_stride = row_bytes,
        .table = r->b->table + (size_t)seq * r->b->table_stride,
        .pattern = a->pattern,
        .pos = r->b->pos[row],
        .kv_len = r->b->kv_len[seq],
        .mask = custom ? r->b->mask + (size_t)row * r->b->mask_stride : NULL,
        .scale = a->scale,
    };
    r->k->attend(&args);
}

static void run_attend(const runner *r) {
    const rf_cpu_attend *a = &r->t->at;
    uint32_t n_rows = r->x->n_tokens, n_kv = a->n_kv_heads, per_kv = a->n_heads / n_kv, i;
    uint64_t n_items = (uint64_t)n_rows * n_kv;
    /* With fewer items than threads, the query heads of one KV head are split as well. */
    uint32_t part = per_kv;
    while (part > 1 && n_items * ((per_kv + part - 1) / part) < (uint64_t)r->x->n_threads) {
        part = (part + 1) / 2;
    }
    uint32_t n_parts = (per_kv + part - 1) / part;
    /* Rows that need no other row's keys of this run need no barrier between put and attend. */
    bool at_once = a->put && a->attend && r->x->rows_alone && n_parts == 1;
    if (a->put && !at_once) {
        while (next_piece(&r->counter[0], n_rows, &i)) {
            for (uint32_t head = 0; head < n_kv; head++)
                put_head(r, i, head);
        }
        if (a->attend) rf_pool_barrier(r->x->backend->pool);
    }
    if (!a->attend) return;
    while (next_piece(&r->counter[1], (uint32_t)n_items * n_parts, &i)) {
        uint32_t item = i / n_parts, p = i % n_parts;
        uint32_t row = n_rows - 1 - item / n_kv, head = item % n_kv; /* longest rows first */
        uint32_t n = per_kv - p * part < part ? per_kv - p * part : part;
        if (at_once) put_head(r, row, head);
        attend_heads(r, row, head, head * per_kv + p * part, n);
    }
}

/* The rest ---------------------------------------------------------------------------------------*/

static void embed_row(const runner *r, uint32_t row) {
    const rf_tensor *w = r->t->table;
    const uint8_t *src = (const uint8_t *)w->data + (size_t)r->b->token[row] * w->row_bytes;
    rf_dtype_get(w->type)->decode(src, row_of(r->x, r->t->dst, row), w->cols);
}

/* One row of a task that is not fused with anything. */
static void plain_row(const runner *r, uint32_t row) {
    const rf_cpu_task *t = r->t;
    size_t n = r->x->plan->vals[t->dst].cols;
    float *dst = row_of(r->x, t->dst, row);
    const float *a =
        t->a ? row_of(r->x, t->a, t->kind == RF_CPU_PICK ? r->b->out_row[row] : row) : NULL;
    switch (t->kind) {
    case RF_CPU_EMBED:
        embed_row(r, row);
        break;
    case RF_CPU_NORM:
        for (size_t i = 0; i < n; i += t->norm.head_dim) {
            r->k->rms_norm(dst + i, a + i, t->norm.w, t->norm.head_dim, t->norm.eps);
        }
        break;
    case RF_CPU_ROPE:
        memcpy(dst, a, n * sizeof *dst);
        r->k->rope(dst, (uint32_t)(n / t->head_dim), t->head_dim, t->rope.rope,
                   angles_of(r->x, t->rope.rope_index, row));
        break;
    case RF_CPU_SILU_MUL:
        r->k->silu_mul(dst, a, row_of(r->x, t->b, row), n);
        break;
    case RF_CPU_ADD:
        r->k->add(dst, a, row_of(r->x, t->b, row), n);
        break;
    case RF_CPU_PICK:
        memcpy(dst, a, n * sizeof *dst);
        break;
    case RF_CPU_PRODUCTS:
    case RF_CPU_ATTEND:
        RF_ASSERT(false); /* they bring pieces of their own */
        break;
    }
}

static void run_task(const runner *r) {
    uint32_t row;
    if (r->t->kind == RF_CPU_PRODUCTS) {
        run_products(r);
    } else if (r->t->kind == RF_CPU_ATTEND) {
        run_attend(r);
    } else {
        while (next_piece(&r->counter[0], rows_of(r->x, r->t), &row))
            plain_row(r, row);
    }
}

void rf_cpu_run_thread(void *exec, int ith, int n_threads) {
    (void)n_threads;
    rf_exec *x = exec;
    runner r = {.x = x, .b = x->batch, .k = x->kernels, .own = &x->thread[ith]};
    make_angles(x, &x->counter[2 * (size_t)x->n_tasks]);
    /* The first task is an embedding, which reads no angles: its barrier is theirs too. */
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        r.t = &x->tasks[i];
        r.counter = &x->counter[2 * (size_t)i];
        if (rows_of(x, r.t) == 0) continue;
        run_task(&r);
        if (i + 1 < x->n_tasks) rf_pool_barrier(x->backend->pool);
    }
}
