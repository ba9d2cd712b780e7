/* ref.c - the reference backend: the meaning of every op as plain loops, the truth other
 * backends are compared with.
 *
 * Weights of any format are decoded to f32 row by row; sums, exponentials and rotations are made
 * in double; each op's result is rounded to f32 once.  Slow and simple on purpose: one thread,
 * nothing fused, nothing cached, and visibility written down as a condition on two positions. */
#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "base/fmath.h"

struct rf_backend {
    uint32_t n_execs; /* still alive; the backend outlives them */
};

struct rf_exec {
    rf_backend *backend;
    const rf_plan *plan;
    rf_limits limits;
    float *act;        /* the plan's activations, [floats_per_token * max_tokens] */
    float *k, *v;      /* [n_layers][n_kv_blocks * RF_KV_BLOCK][kv_cols] */
    size_t kv_cols;    /* n_kv_heads * head_dim */
    float *row, *bias; /* one decoded row each, [widest weight] */
    double *w, *in;    /* that row, and a matrix product's input, [max_tokens][widest weight] */
    double *score;     /* [n_kv_blocks * RF_KV_BLOCK] */
    size_t bytes;
    const rf_batch *batch;      /* during a run */
    uint32_t n_rows, n_outputs; /* of the last run */
};

static rf_status ref_open(rf_backend **out, const rf_backend_opts *o, rf_error *e) {
    (void)o; /* one thread, no device */
    *out = rf_alloc(1, sizeof **out);
    return *out ? RF_OK : rf_fail_nomem(e, sizeof **out);
}

static void ref_close(rf_backend *b) {
    if (b) RF_ASSERT(b->n_execs == 0);
    rf_free(b);
}

static void ref_describe(const rf_backend *b, char *out, size_t cap) {
    (void)b;
    if (cap == 0) return;
    static const char text[] = "ref, plain loops in double, 1 thread";
    size_t n = sizeof text - 1 < cap - 1 ? sizeof text - 1 : cap - 1;
    memcpy(out, text, n);
    out[n] = '\0';
}

static void ref_exec_free(rf_exec *x) {
    if (!x) return;
    x->backend->n_execs--;
    rf_free(x->act);
    rf_free(x->k);
    rf_free(x->v);
    rf_free(x->row);
    rf_free(x->bias);
    rf_free(x->w);
    rf_free(x->in);
    rf_free(x->score);
    rf_free(x);
}

/* n * m elements; NULL on overflow as on lack of memory. */
static void *take(rf_exec *x, size_t n, size_t m, size_t size) {
    size_t count = 0;
    if (!rf_mul_ok(n, m, &count)) return NULL;
    void *p = rf_alloc(count, size);
    if (p) x->bytes += count * size;
    return p;
}

static bool allocate(rf_exec *x) {
    const rf_plan *p = x->plan;
    size_t n_slots = (size_t)x->limits.n_kv_blocks * RF_KV_BLOCK, widest = 1;
    for (rf_val v = 1; v < p->n_vals; v++)
        if (p->vals[v].weight && p->vals[v].weight->cols > widest) widest = p->vals[v].weight->cols;
    size_t kv_width = (size_t)p->model->n_layers * x->kv_cols;
    return (x->act = take(x, p->floats_per_token, x->limits.max_tokens, sizeof(float))) &&
           (x->k = take(x, kv_width, n_slots, sizeof(float))) &&
           (x->v = take(x, kv_width, n_slots, sizeof(float))) &&
           (x->row = take(x, widest, 1, sizeof(float))) &&
           (x->bias = take(x, widest, 1, sizeof(float))) &&
           (x->w = take(x, widest, 1, sizeof(double))) &&
           (x->in = take(x, widest, x->limits.max_tokens, sizeof(double))) &&
           (x->score = take(x, n_slots, 1, sizeof(double)));
}

static rf_status ref_compile(rf_exec **out, rf_backend *b, const rf_plan *p, const rf_limits *l,
                             rf_error *e) {
    *out = NULL;
    if (l->kv_type != RF_DT_F32 && l->kv_type != RF_DT_F16)
        return rf_fail(e, RF_EUNSUPPORTED, "KV cache of type %s, expected F32 or F16",
                       rf_dtype_get(l->kv_type)->name);
    if (l->max_tokens == 0 || l->max_seqs == 0 || l->n_kv_blocks == 0)
        return rf_fail(e, RF_EARG,
                       "limits of %u rows, %u sequences and %u KV blocks, expected at least 1 each",
                       l->max_tokens, l->max_seqs, l->n_kv_blocks);
    rf_exec *x = rf_alloc(1, sizeof *x);
    if (!x) return rf_fail_nomem(e, sizeof *x);
    x->backend = b;
    x->plan = p;
    x->limits = *l;
    x->kv_cols = (size_t)p->model->n_kv_heads * p->model->head_dim;
    x->bytes = sizeof *x;
    b->n_execs++;
    if (!allocate(x)) {
        size_t bytes = x->bytes;
        ref_exec_free(x);
        return rf_fail_nomem(e, bytes);
    }
    *out = x;
    return RF_OK;
}

static size_t ref_exec_bytes(const rf_exec *x) { return x->bytes; }

/* Row r of the activation v. */
static float *row_of(const rf_exec *x, rf_val v, uint32_t r) {
    const rf_value *val = &x->plan->vals[v];
    return x->act + val->offset * x->limits.max_tokens + (size_t)r * val->cols;
}

static uint32_t rows_of(const rf_exec *x, rf_val v) {
    return x->plan->vals[v].per_output ? x->n_outputs : x->n_rows;
}

/* Row r of a weight as f32. */
static void decode_row(const rf_tensor *w, uint32_t r, float *out) {
    const uint8_t *src = (const uint8_t *)w->data + (size_t)r * w->row_bytes;
    rf_dtype_get(w->type)->decode(src, out, w->cols);
}

static const rf_tensor *weight_of(const rf_exec *x, rf_val v) {
    return v ? x->plan->vals[v].weight : NULL;
}

static double dot(const float *a, const float *b, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += (double)a[i] * (double)b[i];
    return s;
}

/* The same of wide numbers, in four chains so that a test of a whole model takes seconds. */
static double dot_wide(const double *a, const double *b, size_t n) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    for (; i < n; i++)
        s0 += a[i] * b[i];
    return (s0 + s1) + (s2 + s3);
}

static void run_embed(rf_exec *x, const rf_step *s) {
    for (uint32_t t = 0; t < x->n_rows; t++)
        decode_row(weight_of(x, s->w), (uint32_t)x->batch->token[t], row_of(x, s->dst, t));
}

static void run_rms_norm(rf_exec *x, const rf_step *s) {
    size_t n = s->head_dim;
    decode_row(weight_of(x, s->w), 0, x->row);
    for (uint32_t t = 0; t < rows_of(x, s->dst); t++)
        for (uint32_t h = 0; h < s->n_heads; h++) {
            const float *a = row_of(x, s->a, t) + h * n;
            float *dst = row_of(x, s->dst, t) + h * n;
            double r = 1 / sqrt(dot(a, a, n) / (double)n + (double)s->eps);
            for (size_t i = 0; i < n; i++)
                dst[i] = (float)((double)a[i] * r * (double)x->row[i]);
        }
}

static void run_matmul(rf_exec *x, const rf_step *s) {
    const rf_tensor *w = weight_of(x, s->w), *bias = weight_of(x, s->bias);
    size_t n = w->cols;
    uint32_t n_rows = rows_of(x, s->dst);
    for (uint32_t t = 0; t < n_rows; t++)
        for (size_t i = 0; i < n; i++)
            x->in[t * n + i] = (double)row_of(x, s->a, t)[i];
    if (bias) decode_row(bias, 0, x->bias);
    for (uint32_t r = 0; r < w->rows; r++) {
        decode_row(w, r, x->row);
        for (size_t i = 0; i < n; i++)
            x->w[i] = (double)x->row[i];
        double b = bias ? (double)x->bias[r] : 0;
        for (uint32_t t = 0; t < n_rows; t++)
            row_of(x, s->dst, t)[r] = (float)(dot_wide(x->w, x->in + t * n, n) + b);
    }
}

static void run_rope(rf_exec *x, const rf_step *s) {
    const rf_rope *rope = s->rope;
    uint32_t n = rope->n_dims, half = n / 2;
    bool norm = rope->kind == RF_ROPE_NORM;
    for (uint32_t t = 0; t < x->n_rows; t++) {
        const float *a = row_of(x, s->a, t);
        float *dst = row_of(x, s->dst, t);
        memcpy(dst, a, (size_t)s->n_heads * s->head_dim * sizeof *dst);
        for (uint32_t i = 0; i < half; i++) {
            double sin_a, cos_a;
            rf_sincos((double)x->batch->pos[t] * rope->inv_freq[i], &sin_a, &cos_a);
            sin_a *= (double)rope->magnitude;
            cos_a *= (double)rope->magnitude;
            uint32_t i0 = norm ? 2 * i : i, i1 = norm ? 2 * i + 1 : i + half;
            for (uint32_t h = 0; h < s->n_heads; h++) {
                size_t at = (size_t)h * s->head_dim;
                double x0 = (double)a[at + i0], x1 = (double)a[at + i1];
                dst[at + i0] = (float)(x0 * cos_a - x1 * sin_a);
                dst[at + i1] = (float)(x0 * sin_a + x1 * cos_a);
            }
        }
    }
}

/* Where a layer's cache keeps position pos of sequence s: an index of a row of kv_cols. */
static size_t slot_of(const rf_exec *x, uint32_t layer, uint32_t s, uint32_t pos) {
    const uint32_t *table = x->batch->table + (size_t)s * x->batch->table_stride;
    size_t slot = (size_t)table[pos / RF_KV_BLOCK] * RF_KV_BLOCK + pos % RF_KV_BLOCK;
    return (size_t)layer * x->limits.n_kv_blocks * RF_KV_BLOCK + slot;
}

static void store(const rf_exec *x, float *dst, const float *src) {
    bool half = x->limits.kv_type == RF_DT_F16;
    for (size_t i = 0; i < x->kv_cols; i++)
        dst[i] = half ? rf_f16_to_f32(rf_f32_to_f16(src[i])) : src[i];
}

static void run_kv_put(rf_exec *x, const rf_step *step) {
    const rf_batch *b = x->batch;
    for (uint32_t s = 0; s < b->n_seqs; s++)
        for (uint32_t t = b->seq_start[s]; t < b->seq_start[s + 1]; t++) {
            size_t slot = slot_of(x, step->layer, s, b->pos[t]);
            store(x, x->k + slot * x->kv_cols, row_of(x, step->a, t));
            store(x, x->v + slot * x->kv_cols, row_of(x, step->b, t));
        }
}

static bool is_visible(const rf_attn_pattern *a, int64_t p, int64_t j) {
    switch (a->kind) {
    case RF_ATTN_CAUSAL:
        return j <= p;
    case RF_ATTN_BIDIRECTIONAL:
        return true;
    case RF_ATTN_LOCAL:
        return p - a->window < j && j <= p;
    case RF_ATTN_GLOBAL_LOCAL:
        return (j < a->n_global || p - a->window < j) && j <= p;
    case RF_ATTN_CUSTOM:
        return true; /* unless its mask is -inf */
    }
    return false;
}

static const double hidden = -HUGE_VAL; /* the score of a key that a row does not see */

/* Scores of all keys of sequence s for one query head at row t; returns the highest. */
static double score_keys(rf_exec *x, const rf_step *step, uint32_t s, uint32_t t, const float *q,
                         size_t head_offset) {
    const rf_batch *b = x->batch;
    double highest = hidden;
    for (uint32_t j = 0; j < b->kv_len[s]; j++) {
        x->score[j] = hidden;
        if (!is_visible(&step->pattern, b->pos[t], j)) continue;
        const float *k = x->k + slot_of(x, step->layer, s, j) * x->kv_cols + head_offset;
        x->score[j] = dot(q, k, step->head_dim) * (double)step->scale;
        if (step->pattern.kind == RF_ATTN_CUSTOM)
            x->score[j] += (double)b->mask[(size_t)t * b->mask_stride + j];
        if (x->score[j] > highest) highest = x->score[j];
    }
    return highest;
}

static void attend_row(rf_exec *x, const rf_step *step, uint32_t s, uint32_t t) {
    uint32_t n = step->head_dim, group = step->n_heads / step->n_kv_heads;
    uint32_t kv_len = x->batch->kv_len[s];
    for (uint32_t h = 0; h < step->n_heads; h++) {
        const float *q = row_of(x, step->a, t) + (size_t)h * n;
        float *dst = row_of(x, step->dst, t) + (size_t)h * n;
        size_t head_offset = (size_t)(h / group) * n;
        double acc[RF_MAX_HEAD_DIM] = {0}, sum = 0;
        double highest = score_keys(x, step, s, t, q, head_offset);
        for (uint32_t j = 0; j < kv_len; j++) {
            if (x->score[j] == hidden) continue;
            double p = rf_exp(x->score[j] - highest);
            const float *v = x->v + slot_of(x, step->layer, s, j) * x->kv_cols + head_offset;
            sum += p;
            for (uint32_t i = 0; i < n; i++)
                acc[i] += p * (double)v[i];
        }
        for (uint32_t i = 0; i < n; i++)
            dst[i] = sum > 0 ? (float)(acc[i] / sum) : 0;
    }
}

static void run_attend(rf_exec *x, const rf_step *step) {
    const rf_batch *b = x->batch;
    for (uint32_t s = 0; s < b->n_seqs; s++)
        for (uint32_t t = b->seq_start[s]; t < b->seq_start[s + 1]; t++)
            attend_row(x, step, s, t);
}

static void run_silu_mul(rf_exec *x, const rf_step *s) {
    uint32_t cols = x->plan->vals[s->dst].cols;
    for (uint32_t t = 0; t < rows_of(x, s->dst); t++)
        for (uint32_t i = 0; i < cols; i++) {
            double g = (double)row_of(x, s->a, t)[i], u = (double)row_of(x, s->b, t)[i];
            row_of(x, s->dst, t)[i] = (float)(g / (1 + rf_exp(-g)) * u);
        }
}

static void run_add(rf_exec *x, const rf_step *s) {
    uint32_t cols = x->plan->vals[s->dst].cols;
    for (uint32_t t = 0; t < rows_of(x, s->dst); t++)
        for (uint32_t i = 0; i < cols; i++)
            row_of(x, s->dst, t)[i] = row_of(x, s->a, t)[i] + row_of(x, s->b, t)[i];
}

static void run_pick(rf_exec *x, const rf_step *s) {
    size_t cols = x->plan->vals[s->dst].cols;
    for (uint32_t o = 0; o < x->n_outputs; o++)
        memcpy(row_of(x, s->dst, o), row_of(x, s->a, x->batch->out_row[o]), cols * sizeof(float));
}

static void run_step(rf_exec *x, const rf_step *s) {
    switch (s->op) {
    case RF_OP_EMBED:
        run_embed(x, s);
        break;
    case RF_OP_RMS_NORM:
        run_rms_norm(x, s);
        break;
    case RF_OP_MATMUL:
        run_matmul(x, s);
        break;
    case RF_OP_ROPE:
        run_rope(x, s);
        break;
    case RF_OP_KV_PUT:
        run_kv_put(x, s);
        break;
    case RF_OP_ATTEND:
        run_attend(x, s);
        break;
    case RF_OP_SILU_MUL:
        run_silu_mul(x, s);
        break;
    case RF_OP_ADD:
        run_add(x, s);
        break;
    case RF_OP_PICK:
        run_pick(x, s);
        break;
    case RF_OP_COUNT:
        break;
    }
}

static rf_status ref_run(rf_exec *x, const rf_batch *batch, rf_error *e) {
    RF_TRY(rf_batch_check(batch, x->plan, &x->limits, e));
    x->batch = batch;
    x->n_rows = batch->n_tokens;
    x->n_outputs = batch->n_outputs;
    for (uint32_t i = 0; i < x->plan->n_steps; i++)
        run_step(x, &x->plan->steps[i]);
    x->batch = NULL;
    return RF_OK;
}

static rf_status ref_wait(rf_exec *x, const float **logits) {
    *logits = row_of(x, x->plan->logits, 0);
    return RF_OK;
}

static rf_status ref_kv_copy(rf_exec *x, uint32_t from_block, uint32_t to_block) {
    if (from_block >= x->limits.n_kv_blocks || to_block >= x->limits.n_kv_blocks) return RF_EARG;
    if (from_block == to_block) return RF_OK;
    size_t block = RF_KV_BLOCK * x->kv_cols, layer = block * x->limits.n_kv_blocks;
    for (uint32_t il = 0; il < x->plan->model->n_layers; il++) {
        size_t from = il * layer + from_block * block, to = il * layer + to_block * block;
        memcpy(x->k + to, x->k + from, block * sizeof *x->k);
        memcpy(x->v + to, x->v + from, block * sizeof *x->v);
    }
    return RF_OK;
}

static rf_status ref_peek(rf_exec *x, rf_val v, float *out, size_t n) {
    const rf_plan *p = x->plan;
    if (!p->keep_values || v == 0 || v >= p->n_vals || p->vals[v].weight) return RF_EARG;
    if (n != (size_t)rows_of(x, v) * p->vals[v].cols) return RF_EARG;
    if (n > 0) memcpy(out, row_of(x, v, 0), n * sizeof *out);
    return RF_OK;
}

const rf_backend_ops rf_ref_ops = {
    .name = "ref",
    .open = ref_open,
    .close = ref_close,
    .describe = ref_describe,
    .compile = ref_compile,
    .exec_free = ref_exec_free,
    .exec_bytes = ref_exec_bytes,
    .run = ref_run,
    .wait = ref_wait,
    .kv_copy = ref_kv_copy,
    .peek = ref_peek,
};
