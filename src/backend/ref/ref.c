/* ref.c - the reference backend: the meaning of every op as plain loops, the truth other
 * backends are compared with.
 *
 * Weights of any format are decoded to f32 row by row; sums, exponentials and rotations are made
 * in double; each op's result is rounded to f32 once.  Slow and simple on purpose: one thread,
 * nothing fused, nothing cached, and visibility written down as a condition on two positions. */
#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/slots.h"
#include "base/fmath.h"

struct rf_backend {
    uint32_t n_execs; /* still alive; the backend outlives them */
};

/* What a layer keeps of each token; nothing where it has no KV_PUT. */
typedef struct layer_kv {
    size_t k_cols, v_cols; /* v_cols 0: values are the first columns of each head's key */
    float *k, *v;          /* [n_kv_blocks * RF_KV_BLOCK][k_cols or v_cols] */
} layer_kv;

struct rf_exec {
    rf_backend *backend;
    const rf_plan *plan;
    rf_limits limits;
    float *act;        /* the plan's activations, [floats_per_token * max_tokens] */
    layer_kv *kv;      /* [n_layers] */
    float *row, *bias; /* one decoded row each, [widest weight] */
    double *w, *in;    /* that row, and a matrix product's input, [max_tokens][widest weight] */
    double *score;     /* [n_kv_blocks * RF_KV_BLOCK] */
    rf_slots states;
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
    for (uint32_t il = 0; x->kv && il < x->plan->model->n_layers; il++) {
        rf_free(x->kv[il].k);
        rf_free(x->kv[il].v);
    }
    rf_free(x->kv);
    rf_free(x->row);
    rf_free(x->bias);
    rf_free(x->w);
    rf_free(x->in);
    rf_free(x->score);
    rf_free(x->states.at);
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

static bool allocate_kv(rf_exec *x) {
    size_t n_slots = (size_t)x->limits.n_kv_blocks * RF_KV_BLOCK;
    if (!(x->kv = take(x, x->plan->model->n_layers, 1, sizeof *x->kv))) return false;
    for (uint32_t i = 0; i < x->plan->n_steps; i++) {
        const rf_step *s = &x->plan->steps[i];
        if (s->op != RF_OP_KV_PUT) continue;
        layer_kv *kv = &x->kv[s->layer];
        kv->k_cols = (size_t)s->n_kv_heads * s->head_dim;
        kv->v_cols = s->b ? (size_t)s->n_kv_heads * s->value_dim : 0;
        if (!(kv->k = take(x, kv->k_cols, n_slots, sizeof *kv->k))) return false;
        if (s->b && !(kv->v = take(x, kv->v_cols, n_slots, sizeof *kv->v))) return false;
    }
    return true;
}

static bool allocate(rf_exec *x) {
    const rf_plan *p = x->plan;
    size_t n_slots = (size_t)x->limits.n_kv_blocks * RF_KV_BLOCK, widest = 1;
    for (rf_val v = 1; v < p->n_vals; v++)
        if (p->vals[v].weight && p->vals[v].weight->cols > widest) widest = p->vals[v].weight->cols;
    return (x->act = take(x, p->floats_per_token, x->limits.max_tokens, sizeof(float))) &&
           (x->row = take(x, widest, 1, sizeof(float))) &&
           (x->bias = take(x, widest, 1, sizeof(float))) &&
           (x->w = take(x, widest, 1, sizeof(double))) &&
           (x->in = take(x, widest, x->limits.max_tokens, sizeof(double))) &&
           (x->score = take(x, n_slots, 1, sizeof(double))) &&
           (x->states.at = take(x, p->state_floats, x->limits.n_states, sizeof(float))) &&
           allocate_kv(x);
}

static rf_status ref_compile(rf_exec **out, rf_backend *b, const rf_plan *p, const rf_limits *l,
                             rf_error *e) {
    *out = NULL;
    RF_TRY(rf_kv_types_check(l, e));
    if (l->max_tokens == 0 || l->max_seqs == 0 || l->n_kv_blocks == 0)
        return rf_fail(e, RF_EARG,
                       "limits of %u rows, %u sequences and %u KV blocks, expected at least 1 each",
                       l->max_tokens, l->max_seqs, l->n_kv_blocks);
    RF_TRY(rf_states_check("ref", p, l, e));
    rf_exec *x = rf_alloc(1, sizeof *x);
    if (!x) return rf_fail_nomem(e, sizeof *x);
    x->backend = b;
    x->plan = p;
    x->limits = *l;
    x->states = (rf_slots){.n = l->n_states, .n_floats = p->state_floats};
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

/* Row r of a weight (of all its planes) as f32. */
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
    size_t cols = x->plan->vals[s->dst].cols;
    for (uint32_t t = 0; t < x->n_rows; t++) {
        uint32_t row = 0;
        if (s->source == RF_EMBED_ROWS) {
            memcpy(row_of(x, s->dst, t), x->batch->rows + t * cols, cols * sizeof(float));
            continue;
        }
        if (s->source == RF_EMBED_TOKEN) row = (uint32_t)x->batch->token[t];
        if (s->source == RF_EMBED_POSITION) row = x->batch->pos[t];
        decode_row(weight_of(x, s->w), row, row_of(x, s->dst, t));
    }
}

/* A vector's n values, or n times otherwise where there is none. */
static void decode_vector(const rf_tensor *w, float *out, size_t n, float otherwise) {
    for (size_t i = 0; i < n; i++)
        out[i] = otherwise;
    if (w) decode_row(w, 0, out);
}

/* RMS and layer norm; the former subtracts no mean and adds no bias. */
static void run_norm(rf_exec *x, const rf_step *s) {
    size_t n = s->head_dim;
    decode_vector(weight_of(x, s->w), x->row, n, 1);
    decode_vector(weight_of(x, s->bias), x->bias, n, 0);
    for (uint32_t t = 0; t < rows_of(x, s->dst); t++)
        for (uint32_t h = 0; h < s->n_heads; h++) {
            const float *a = row_of(x, s->a, t) + h * n;
            float *dst = row_of(x, s->dst, t) + h * n;
            double mean = 0, square = 0;
            for (size_t i = 0; i < n && s->op == RF_OP_LAYER_NORM; i++)
                mean += (double)a[i] / (double)n;
            for (size_t i = 0; i < n; i++)
                square += ((double)a[i] - mean) * ((double)a[i] - mean);
            double r = 1 / sqrt(square / (double)n + (double)s->eps);
            for (size_t i = 0; i < n; i++)
                dst[i] =
                    (float)(((double)a[i] - mean) * r * (double)x->row[i] + (double)x->bias[i]);
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

/* dst[r] = w[plane][r] a + bias[plane][r] */
static void multiply_plane(rf_exec *x, const rf_tensor *w, const rf_tensor *bias, uint32_t plane,
                           const float *a, float *dst) {
    if (bias) decode_row(bias, plane, x->bias);
    for (uint32_t r = 0; r < w->rows; r++) {
        decode_row(w, plane * w->rows + r, x->row);
        dst[r] = (float)(dot(x->row, a, w->cols) + (bias ? (double)x->bias[r] : 0));
    }
}

static void run_head_matmul(rf_exec *x, const rf_step *s) {
    const rf_tensor *w = weight_of(x, s->w);
    for (uint32_t t = 0; t < rows_of(x, s->dst); t++)
        for (uint32_t h = 0; h < s->n_heads; h++)
            multiply_plane(x, w, NULL, h, row_of(x, s->a, t) + (size_t)h * w->cols,
                           row_of(x, s->dst, t) + (size_t)h * w->rows);
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

/* Where a cache keeps position pos of sequence s: an index of a row. */
static size_t slot_of(const rf_exec *x, uint32_t s, uint32_t pos) {
    const uint32_t *table = x->batch->table + (size_t)s * x->batch->table_stride;
    return (size_t)table[pos / RF_KV_BLOCK] * RF_KV_BLOCK + pos % RF_KV_BLOCK;
}

/* n values of a group of at most 32, as eight-bit multiples of one f16. */
static void round_group(float *dst, const float *src, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double size = fabs((double)src[i]);
        most = size > most || isnan(size) ? size : most;
    }
    double d = (double)rf_f16_to_f32(rf_f32_to_f16((float)(most / 127)));
    for (size_t i = 0; i < n; i++)
        dst[i] = most > 0 ? (float)(d * rint((double)src[i] * 127 / most)) : (float)most;
}

/* The same as multiples -8 .. 7 of one f16, of which the largest value is about -8. */
static void round_group_q4_0(float *dst, const float *src, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (fabs((double)src[i]) > fabs(most) || (isnan(src[i]) && !isnan(most)))
            most = (double)src[i];
    double d = (double)rf_f16_to_f32(rf_f32_to_f16((float)(most / -8)));
    for (size_t i = 0; i < n; i++) {
        double q = most != 0 ? floor((double)src[i] * -8 / most + 8.5) - 8 : 0;
        dst[i] = isnan(most) ? (float)most : (float)(d * (q < 7 ? q : 7));
    }
}

/* One head as a cache of that type gives it back. */
static void round_head(rf_dtype type, float *dst, const float *src, size_t n) {
    for (size_t i = 0; i < n && type == RF_DT_Q4_0; i += 32)
        round_group_q4_0(dst + i, src + i, n - i < 32 ? n - i : 32);
    for (size_t i = 0; i < n && type == RF_DT_Q8_0; i += 32)
        round_group(dst + i, src + i, n - i < 32 ? n - i : 32);
    for (size_t i = 0; i < n && type == RF_DT_F16; i++)
        dst[i] = rf_f16_to_f32(rf_f32_to_f16(src[i]));
    for (size_t i = 0; i < n && type == RF_DT_BF16; i++)
        dst[i] = rf_bf16_to_f32(rf_f32_to_bf16(src[i]));
    if (type == RF_DT_F32) memcpy(dst, src, n * sizeof *dst);
}

static void store(rf_dtype type, float *dst, const float *src, size_t n_heads, size_t head_dim) {
    for (size_t i = 0; i < n_heads * head_dim; i += head_dim)
        round_head(type, dst + i, src + i, head_dim);
}

static void run_kv_put(rf_exec *x, const rf_step *step) {
    const rf_batch *b = x->batch;
    const layer_kv *kv = &x->kv[step->layer];
    for (uint32_t s = 0; s < b->n_seqs; s++)
        for (uint32_t t = b->seq_start[s]; t < b->seq_start[s + 1]; t++) {
            size_t slot = slot_of(x, s, b->pos[t]);
            store(x->limits.k_type, kv->k + slot * kv->k_cols, row_of(x, step->a, t),
                  step->n_kv_heads, step->head_dim);
            if (step->b)
                store(x->limits.v_type, kv->v + slot * kv->v_cols, row_of(x, step->b, t),
                      step->n_kv_heads, step->value_dim);
        }
}

/* Key and value of KV head number head at position j of sequence s. */
static const float *key_at(const rf_exec *x, const rf_step *step, uint32_t s, uint32_t j,
                           uint32_t head) {
    const layer_kv *kv = &x->kv[step->layer];
    return kv->k + slot_of(x, s, j) * kv->k_cols + (size_t)head * step->head_dim;
}

static const float *value_at(const rf_exec *x, const rf_step *step, uint32_t s, uint32_t j,
                             uint32_t head) {
    const layer_kv *kv = &x->kv[step->layer];
    if (!kv->v) return key_at(x, step, s, j, head);
    return kv->v + slot_of(x, s, j) * kv->v_cols + (size_t)head * step->value_dim;
}

/* n_prefix: of the row's sequence. */
static bool is_visible(const rf_attn_pattern *a, uint32_t n_prefix, int64_t p, int64_t j) {
    switch (a->kind) {
    case RF_ATTN_CAUSAL:
        return j <= p;
    case RF_ATTN_BIDIRECTIONAL:
        return true;
    case RF_ATTN_LOCAL:
        return p - a->window < j && j <= p;
    case RF_ATTN_LOCAL_BOTH:
        return p - j <= a->window / 2 && j - p <= a->window / 2;
    case RF_ATTN_GLOBAL_LOCAL:
        return (j < a->n_global || p - a->window < j) && j <= p;
    case RF_ATTN_PREFIX:
        return j <= p || j < n_prefix;
    case RF_ATTN_CUSTOM:
        return true; /* unless its mask is -inf */
    }
    return false;
}

static const double hidden = -HUGE_VAL; /* the score of a key that a row does not see */

static double soft_cap(double x, float cap) {
    return cap > 0 ? (double)cap * rf_tanh(x / (double)cap) : x;
}

/* Scores of all keys of sequence s for one query head at row t; returns the highest. */
static double score_keys(rf_exec *x, const rf_step *step, uint32_t s, uint32_t t, const float *q,
                         uint32_t kv_head) {
    const rf_batch *b = x->batch;
    double highest = hidden;
    for (uint32_t j = 0; j < b->kv_len[s]; j++) {
        x->score[j] = hidden;
        if (!is_visible(&step->pattern, b->n_prefix ? b->n_prefix[s] : 0, b->pos[t], j)) continue;
        double score = dot(q, key_at(x, step, s, j, kv_head), step->head_dim);
        x->score[j] = soft_cap(score * (double)step->scale, step->softcap);
        if (step->pattern.kind == RF_ATTN_CUSTOM)
            x->score[j] += (double)b->mask[(size_t)t * b->mask_stride + j];
        if (x->score[j] > highest) highest = x->score[j];
    }
    return highest;
}

static void attend_row(rf_exec *x, const rf_step *step, uint32_t s, uint32_t t) {
    uint32_t n = step->value_dim, group = step->n_heads / step->n_kv_heads;
    uint32_t kv_len = x->batch->kv_len[s];
    const rf_tensor *sinks = weight_of(x, step->w);
    if (sinks) decode_row(sinks, 0, x->row);
    for (uint32_t h = 0; h < step->n_heads; h++) {
        const float *q = row_of(x, step->a, t) + (size_t)h * step->head_dim;
        float *dst = row_of(x, step->dst, t) + (size_t)h * n;
        double acc[RF_MAX_HEAD_DIM] = {0}, sum = 0;
        double highest = score_keys(x, step, s, t, q, h / group);
        if (sinks) {
            double sink = (double)x->row[h];
            highest = sink > highest ? sink : highest;
            sum = rf_exp(sink - highest);
        }
        for (uint32_t j = 0; j < kv_len; j++) {
            if (x->score[j] == hidden) continue;
            double p = rf_exp(x->score[j] - highest);
            const float *v = value_at(x, step, s, j, h / group);
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

/* States ------------------------------------------------------------------------------------*/

/* A slot, as a step finds its part of it for the first row of sequence s. */
static float *state_of(rf_exec *x, const rf_step *step, uint32_t s) {
    const rf_batch *b = x->batch;
    float *state = rf_slot(&x->states, b->state[s]) + step->state_at;
    if (b->pos[b->seq_start[s]] == 0)
        memset(state, 0, rf_plan_state_of(x->plan, step) * sizeof *state);
    return state;
}

/* The state: the last rows of a before this one, [taps - 1][cols], oldest first. */
static void convolve_row(rf_exec *x, const rf_step *step, uint32_t t, float *state) {
    const rf_tensor *w = weight_of(x, step->w), *bias = weight_of(x, step->bias);
    size_t n = w->rows, n_kept = w->cols - 1;
    const float *a = row_of(x, step->a, t);
    for (uint32_t c = 0; c < n; c++) {
        double sum = 0;
        decode_row(w, c, x->row);
        for (size_t k = 0; k < n_kept; k++)
            sum += (double)x->row[k] * (double)state[k * n + c];
        sum += (double)x->row[n_kept] * (double)a[c] + (bias ? (double)x->bias[c] : 0);
        row_of(x, step->dst, t)[c] = (float)sum;
    }
    if (n_kept == 0) return;
    memmove(state, state + n, (n_kept - 1) * n * sizeof *state);
    memcpy(state + (n_kept - 1) * n, a, n * sizeof *state);
}

static double sigmoid(double x) { return 1 / (1 + rf_exp(-x)); }

static double softplus(double x) { return x > 20 ? x : rf_log(1 + rf_exp(x)); }

/* What a vector is to be multiplied by to have length 1. */
static double to_unit(const float *x, size_t n, float eps) {
    return 1 / sqrt(dot(x, x, n) + (double)eps);
}

/* One head of one row; S: [head_dim][value_dim], decayed, then moved towards giving v for k. */
static void delta_head(const rf_step *step, float *S, const float *q, const float *k,
                       const float *v, double decay, double beta, float *dst) {
    size_t n_k = step->head_dim, n_v = step->value_dim;
    double to_q = to_unit(q, n_k, step->eps) / sqrt((double)n_k), to_k = to_unit(k, n_k, step->eps);
    for (size_t c = 0; c < n_v; c++) {
        double has = 0, out = 0;
        for (size_t i = 0; i < n_k; i++)
            has += decay * (double)S[i * n_v + c] * (double)k[i] * to_k;
        double change = beta * ((double)v[c] - has);
        for (size_t i = 0; i < n_k; i++) {
            double s = decay * (double)S[i * n_v + c] + (double)k[i] * to_k * change;
            S[i * n_v + c] = (float)s;
            out += s * (double)q[i] * to_q;
        }
        dst[c] = (float)out;
    }
}

static void run_delta(rf_exec *x, const rf_step *step) {
    const rf_batch *b = x->batch;
    size_t n_k = step->head_dim, n_v = step->value_dim, n = step->n_heads;
    size_t n_keys = step->n_kv_heads * n_k, per_key = n / step->n_kv_heads;
    decode_row(weight_of(x, step->w), 0, x->row);
    decode_row(weight_of(x, step->bias), 0, x->bias);
    for (uint32_t s = 0; s < b->n_seqs; s++) {
        float *state = state_of(x, step, s);
        for (uint32_t t = b->seq_start[s]; t < b->seq_start[s + 1]; t++)
            for (size_t h = 0; h < n; h++) {
                const float *a = row_of(x, step->a, t), *gates = row_of(x, step->b, t);
                size_t kh = step->heads_in_turn ? h % step->n_kv_heads : h / per_key;
                double rate = softplus((double)gates[n + h] + (double)x->bias[h]);
                delta_head(step, state + h * n_k * n_v, a + kh * n_k, a + n_keys + kh * n_k,
                           a + 2 * n_keys + h * n_v, rf_exp((double)x->row[h] * rate),
                           sigmoid((double)gates[h]), row_of(x, step->dst, t) + h * n_v);
            }
    }
}

/* One head of one row; S: [head_dim][value_dim]. */
static void scan_head(const rf_step *step, float *S, const float *x, const float *b, const float *c,
                      double decay, double dt, float *dst) {
    size_t n_v = step->value_dim;
    for (size_t v = 0; v < n_v; v++) {
        double out = 0;
        for (size_t i = 0; i < step->head_dim; i++) {
            double s = decay * (double)S[i * n_v + v] + (double)b[i] * dt * (double)x[v];
            S[i * n_v + v] = (float)s;
            out += s * (double)c[i];
        }
        dst[v] = (float)out;
    }
}

static void run_scan(rf_exec *x, const rf_step *step) {
    const rf_batch *b = x->batch;
    size_t n_k = step->head_dim, n_v = step->value_dim, n = step->n_heads;
    size_t n_keys = step->n_kv_heads * n_k, per_group = n / step->n_kv_heads;
    decode_row(weight_of(x, step->w), 0, x->row);
    decode_row(weight_of(x, step->bias), 0, x->bias);
    for (uint32_t s = 0; s < b->n_seqs; s++) {
        float *state = state_of(x, step, s);
        for (uint32_t t = b->seq_start[s]; t < b->seq_start[s + 1]; t++)
            for (size_t h = 0; h < n; h++) {
                const float *a = row_of(x, step->a, t), *keys = a + n * n_v + h / per_group * n_k;
                double dt = softplus((double)row_of(x, step->b, t)[h] + (double)x->bias[h]);
                scan_head(step, state + h * n_k * n_v, a + h * n_v, keys, keys + n_keys,
                          rf_exp((double)x->row[h] * dt), dt, row_of(x, step->dst, t) + h * n_v);
            }
    }
}

static void run_conv(rf_exec *x, const rf_step *step) {
    const rf_batch *b = x->batch;
    if (step->bias) decode_row(weight_of(x, step->bias), 0, x->bias);
    for (uint32_t s = 0; s < b->n_seqs; s++) {
        float *state = state_of(x, step, s);
        for (uint32_t t = b->seq_start[s]; t < b->seq_start[s + 1]; t++)
            convolve_row(x, step, t, state);
    }
}

static double activate(rf_act act, double x) {
    const double root_half = 0.70710678118654752440, root_2_pi = 0.79788456080286535588;
    switch (act) {
    case RF_ACT_SILU:
        return x * sigmoid(x);
    case RF_ACT_GELU:
        return x * (1 + rf_erf(x * root_half)) / 2;
    case RF_ACT_GELU_TANH:
        return x * (1 + rf_tanh(root_2_pi * (x + 0.044715 * x * x * x))) / 2;
    case RF_ACT_RELU:
        return x > 0 ? x : 0;
    case RF_ACT_RELU2:
        return x > 0 ? x * x : 0;
    case RF_ACT_SIGMOID:
        return sigmoid(x);
    case RF_ACT_SWIGLU_OAI:
        break; /* has two operands */
    }
    return (double)NAN;
}

static double glu(rf_act act, double gate, double up) {
    if (act != RF_ACT_SWIGLU_OAI) return activate(act, gate) * up;
    double g = gate < 7 ? gate : 7, u = up < 7 ? up : 7;
    u = u > -7 ? u : -7;
    return g * sigmoid(1.702 * g) * (u + 1);
}

/* What becomes of one element of a, and one of b, of an op that works on each by itself. */
static double element(const rf_step *s, double a, double b) {
    if (s->op == RF_OP_ACT) return activate(s->act, a);
    if (s->op == RF_OP_GLU) return glu(s->act, a, b);
    if (s->op == RF_OP_SCALE) return a * (double)s->scale;
    if (s->op == RF_OP_SOFTCAP) return soft_cap(a, s->softcap);
    return s->op == RF_OP_ADD ? a + b : a * b;
}

static void run_elements(rf_exec *x, const rf_step *s) {
    uint32_t cols = x->plan->vals[s->dst].cols;
    uint32_t repeat = s->b ? cols / x->plan->vals[s->b].cols : 1; /* columns of a per one of b */
    for (uint32_t t = 0; t < rows_of(x, s->dst); t++)
        for (uint32_t i = 0; i < cols; i++) {
            double b = s->b ? (double)row_of(x, s->b, t)[i / repeat] : 0;
            row_of(x, s->dst, t)[i] = (float)element(s, (double)row_of(x, s->a, t)[i], b);
        }
}

static void run_slice(rf_exec *x, const rf_step *s) {
    uint32_t n = x->plan->vals[s->dst].cols / s->n_heads;
    for (uint32_t t = 0; t < rows_of(x, s->dst); t++)
        for (uint32_t h = 0; h < s->n_heads; h++)
            memcpy(row_of(x, s->dst, t) + (size_t)h * n,
                   row_of(x, s->a, t) + (size_t)h * s->head_dim + s->first, n * sizeof(float));
}

static void run_concat(rf_exec *x, const rf_step *s) {
    uint32_t n_a = s->head_dim, n_b = x->plan->vals[s->b].cols / s->n_kv_heads;
    for (uint32_t t = 0; t < rows_of(x, s->dst); t++)
        for (uint32_t h = 0; h < s->n_heads; h++) {
            float *dst = row_of(x, s->dst, t) + (size_t)h * (n_a + n_b);
            size_t hb = s->n_kv_heads == 1 ? 0 : h;
            memcpy(dst, row_of(x, s->a, t) + (size_t)h * n_a, n_a * sizeof *dst);
            memcpy(dst + n_a, row_of(x, s->b, t) + hb * n_b, n_b * sizeof *dst);
        }
}

static void run_pick(rf_exec *x, const rf_step *s) {
    size_t cols = x->plan->vals[s->dst].cols;
    for (uint32_t o = 0; o < x->n_outputs; o++)
        memcpy(row_of(x, s->dst, o), row_of(x, s->a, x->batch->out_row[o]), cols * sizeof(float));
}

/* Experts -------------------------------------------------------------------------------------*/

/* exp(x[i]) / sum of exp, in place */
static void softmax(double *x, size_t n) {
    double highest = x[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        highest = x[i] > highest ? x[i] : highest;
    for (size_t i = 0; i < n; i++)
        sum += x[i] = rf_exp(x[i] - highest);
    for (size_t i = 0; i < n; i++)
        x[i] /= sum;
}

/* The index of the highest x[i] not yet taken, the lowest such index; n when all are taken. */
static uint32_t best_of(const double *x, const bool *taken, uint32_t n) {
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i] && (best == n || x[i] > x[best])) best = i;
    return best;
}

/* How good a group's experts are for being chosen: its best, or its two best together. */
static double group_score(const double *x, uint32_t n, bool two) {
    bool taken[RF_MAX_EXPERTS] = {false};
    uint32_t first = best_of(x, taken, n);
    taken[first] = true;
    return two && n > 1 ? x[first] + x[best_of(x, taken, n)] : x[first];
}

/* Marks the experts of all groups but the best n_groups_used as taken. */
static void close_groups(const rf_router *r, const double *choice, bool *taken) {
    double score[RF_MAX_EXPERTS];
    bool open[RF_MAX_EXPERTS] = {false};
    uint32_t n = r->n_experts / r->n_groups;
    for (uint32_t g = 0; g < r->n_groups; g++)
        score[g] = group_score(choice + (size_t)g * n, n, r->select_bias != NULL);
    for (uint32_t i = 0; i < r->n_groups_used; i++)
        open[best_of(score, open, r->n_groups)] = true;
    for (uint32_t i = 0; i < r->n_experts; i++)
        taken[i] = !open[i / n];
}

static void route_row(const rf_router *r, const float *score, float *dst) {
    double p[RF_MAX_EXPERTS], choice[RF_MAX_EXPERTS], weight[RF_MAX_EXPERTS_USED], sum = 0;
    bool taken[RF_MAX_EXPERTS] = {false};
    for (uint32_t i = 0; i < r->n_experts; i++)
        p[i] = r->kind == RF_ROUTER_SIGMOID ? sigmoid((double)score[i]) : (double)score[i];
    if (r->kind == RF_ROUTER_SOFTMAX) softmax(p, r->n_experts);
    for (uint32_t i = 0; i < r->n_experts; i++)
        choice[i] = p[i] + (r->select_bias ? (double)r->select_bias[i] : 0);
    if (r->n_groups > 1) close_groups(r, choice, taken);
    for (uint32_t i = 0; i < r->n_used; i++) {
        uint32_t best = best_of(choice, taken, r->n_experts);
        taken[best] = true;
        weight[i] = p[best];
        dst[r->n_used + i] = (float)best;
    }
    if (r->kind == RF_ROUTER_SOFTMAX_TOPK) softmax(weight, r->n_used);
    for (uint32_t i = 0; i < r->n_used; i++)
        sum += weight[i];
    if (!r->normalise) sum = 1;
    for (uint32_t i = 0; i < r->n_used; i++)
        dst[i] = (float)(weight[i] / (sum > 0x1p-14 ? sum : 0x1p-14) * (double)r->scale);
}

static void run_route(rf_exec *x, const rf_step *s) {
    for (uint32_t t = 0; t < rows_of(x, s->dst); t++)
        route_row(s->router, row_of(x, s->a, t), row_of(x, s->dst, t));
}

static void run_experts(rf_exec *x, const rf_step *s) {
    const rf_tensor *w = weight_of(x, s->w), *bias = weight_of(x, s->bias);
    uint32_t n_used = s->router->n_used;
    bool one_input = x->plan->vals[s->a].cols == w->cols;
    for (uint32_t t = 0; t < rows_of(x, s->dst); t++)
        for (uint32_t i = 0; i < n_used; i++) {
            uint32_t expert = (uint32_t)row_of(x, s->b, t)[n_used + i];
            const float *a = row_of(x, s->a, t) + (one_input ? 0 : (size_t)i * w->cols);
            multiply_plane(x, w, bias, expert, a, row_of(x, s->dst, t) + (size_t)i * w->rows);
        }
}

static void run_mix(rf_exec *x, const rf_step *s) {
    uint32_t cols = x->plan->vals[s->dst].cols;
    for (uint32_t t = 0; t < rows_of(x, s->dst); t++)
        for (uint32_t c = 0; c < cols; c++) {
            double sum = 0;
            for (uint32_t i = 0; i < s->router->n_used; i++)
                sum += (double)row_of(x, s->b, t)[i] *
                       (double)row_of(x, s->a, t)[(size_t)i * cols + c];
            row_of(x, s->dst, t)[c] = (float)sum;
        }
}

static void run_step(rf_exec *x, const rf_step *s) {
    static void (*const runs[RF_OP_COUNT])(rf_exec *, const rf_step *) = {
        [RF_OP_EMBED] = run_embed,
        [RF_OP_RMS_NORM] = run_norm,
        [RF_OP_LAYER_NORM] = run_norm,
        [RF_OP_MATMUL] = run_matmul,
        [RF_OP_HEAD_MATMUL] = run_head_matmul,
        [RF_OP_ROPE] = run_rope,
        [RF_OP_KV_PUT] = run_kv_put,
        [RF_OP_ATTEND] = run_attend,
        [RF_OP_CONV] = run_conv,
        [RF_OP_DELTA] = run_delta,
        [RF_OP_SCAN] = run_scan,
        [RF_OP_ACT] = run_elements,
        [RF_OP_GLU] = run_elements,
        [RF_OP_SCALE] = run_elements,
        [RF_OP_SOFTCAP] = run_elements,
        [RF_OP_ADD] = run_elements,
        [RF_OP_MUL] = run_elements,
        [RF_OP_SLICE] = run_slice,
        [RF_OP_CONCAT] = run_concat,
        [RF_OP_ROUTE] = run_route,
        [RF_OP_EXPERTS] = run_experts,
        [RF_OP_MIX] = run_mix,
        [RF_OP_PICK] = run_pick,
    };
    runs[s->op](x, s);
}

static rf_status ref_run(rf_exec *x, const rf_batch *batch, rf_error *e) {
    RF_TRY(rf_batch_check(batch, x->plan, &x->limits, 0, e));
    x->batch = batch;
    x->n_rows = batch->n_tokens;
    x->n_outputs = batch->n_outputs;
    for (uint32_t i = 0; i < x->plan->n_steps; i++)
        run_step(x, &x->plan->steps[i]);
    x->batch = NULL;
    return RF_OK;
}

static rf_status ref_wait(rf_exec *x, const float **result) {
    *result = row_of(x, x->plan->result, 0);
    return RF_OK;
}

static rf_status ref_kv_copy(rf_exec *x, uint32_t from_block, uint32_t to_block) {
    if (from_block >= x->limits.n_kv_blocks || to_block >= x->limits.n_kv_blocks) return RF_EARG;
    if (from_block == to_block) return RF_OK;
    for (uint32_t il = 0; il < x->plan->model->n_layers; il++) {
        const layer_kv *kv = &x->kv[il];
        size_t k = RF_KV_BLOCK * kv->k_cols, v = RF_KV_BLOCK * kv->v_cols;
        if (kv->k) memcpy(kv->k + to_block * k, kv->k + from_block * k, k * sizeof *kv->k);
        if (kv->v) memcpy(kv->v + to_block * v, kv->v + from_block * v, v * sizeof *kv->v);
    }
    return RF_OK;
}

static size_t ref_kv_block_bytes(const rf_exec *x) {
    size_t n_floats = 0;
    for (uint32_t il = 0; il < x->plan->model->n_layers; il++)
        n_floats += RF_KV_BLOCK * (x->kv[il].k_cols + x->kv[il].v_cols);
    return n_floats * sizeof(float);
}

static rf_status ref_kv_read(rf_exec *x, uint32_t block, void *out) {
    uint8_t *to = out;
    if (block >= x->limits.n_kv_blocks) return RF_EARG;
    for (uint32_t il = 0; il < x->plan->model->n_layers; il++) {
        const layer_kv *kv = &x->kv[il];
        size_t k = RF_KV_BLOCK * kv->k_cols, v = RF_KV_BLOCK * kv->v_cols;
        if (kv->k) memcpy(to, kv->k + block * k, k * sizeof *kv->k);
        to += k * sizeof *kv->k;
        if (kv->v) memcpy(to, kv->v + block * v, v * sizeof *kv->v);
        to += v * sizeof *kv->v;
    }
    return RF_OK;
}

static rf_status ref_kv_write(rf_exec *x, uint32_t block, const void *src) {
    const uint8_t *from = src;
    if (block >= x->limits.n_kv_blocks) return RF_EARG;
    for (uint32_t il = 0; il < x->plan->model->n_layers; il++) {
        const layer_kv *kv = &x->kv[il];
        size_t k = RF_KV_BLOCK * kv->k_cols, v = RF_KV_BLOCK * kv->v_cols;
        if (kv->k) memcpy(kv->k + block * k, from, k * sizeof *kv->k);
        from += k * sizeof *kv->k;
        if (kv->v) memcpy(kv->v + block * v, from, v * sizeof *kv->v);
        from += v * sizeof *kv->v;
    }
    return RF_OK;
}

static rf_status ref_state_copy(rf_exec *x, uint32_t from_slot, uint32_t to_slot) {
    return rf_slot_copy(&x->states, from_slot, to_slot);
}

static rf_status ref_state_read(rf_exec *x, uint32_t slot, float *out) {
    return rf_slot_read(&x->states, slot, out);
}

static rf_status ref_state_write(rf_exec *x, uint32_t slot, const float *src) {
    return rf_slot_write(&x->states, slot, src);
}

static rf_status ref_peek(rf_exec *x, rf_val v, float *out, size_t n) {
    const rf_plan *p = x->plan;
    if (!p->opts.keep_values || v == 0 || v >= p->n_vals || p->vals[v].weight) return RF_EARG;
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
    .kv_layout = "rows of f32",
    .kv_block_bytes = ref_kv_block_bytes,
    .kv_read = ref_kv_read,
    .kv_write = ref_kv_write,
    .state_copy = ref_state_copy,
    .state_read = ref_state_read,
    .state_write = ref_state_write,
    .peek = ref_peek,
};
