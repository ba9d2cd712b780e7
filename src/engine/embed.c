/* embed.c - groups of texts through the backend, rows gathered per text, pooled and scaled.
 *
 * A group is as many texts as fit the KV blocks (and, where every token sees both ways, one batch); its
 * rows go through in batches, texts in order.  Sums are made in double, rows in order of position,
 * so how texts were cut into batches leaves no trace. */
#include "engine/embed.h"

#include <math.h>
#include <string.h>

#include "base/fmath.h"

enum { MAX_TEXTS = 64, MAX_STATES = 8 }; /* of a group; of one whose texts keep states */

struct rf_embedder {
    const rf_backend_ops *ops;
    const rf_model *model;
    rf_plan *plan;
    rf_exec *exec;
    rf_limits limits;
    uint32_t n_ctx, table_stride;
    bool both_ways;           /* some layer sees later tokens: a text must be in one batch */
    int32_t *token;           /* [max_tokens] */
    uint32_t *pos, *out_row;  /* [max_tokens] */
    uint32_t *owner;          /* [max_tokens] text of the group whose row an output is */
    uint32_t *seq_start;      /* [MAX_TEXTS + 1] */
    uint32_t *kv_len, *table; /* [MAX_TEXTS], [MAX_TEXTS][table_stride] */
    uint32_t *n_done;         /* [MAX_TEXTS] tokens of a text that went through */
    uint32_t *state;          /* [MAX_TEXTS] slot of state of each, its own number */
    double *sum;              /* [MAX_TEXTS][n_embd] */
    double *hidden;           /* [n_embd] inside a head */
    double *scores;           /* [n_labels] */
    float *row;               /* [n_embd or n_labels] one decoded row of a head's weights */
};

/* ---- open and close ---- */

static bool sees_both_ways(const rf_model *m) {
    for (uint32_t il = 0; il < m->n_layers; il++) {
        rf_attn_kind kind = m->layers[il].pattern.kind;
        if (kind == RF_ATTN_BIDIRECTIONAL || kind == RF_ATTN_LOCAL_BOTH) return true;
    }
    return false;
}

static void choose_limits(rf_embedder *x, const rf_limits *l, uint32_t n_ctx) {
    x->n_ctx = n_ctx;
    x->table_stride = (n_ctx + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
    x->limits = (rf_limits){.max_tokens = l->max_tokens, .k_type = l->k_type, .v_type = l->v_type};
    if (x->both_ways && n_ctx > x->limits.max_tokens) x->limits.max_tokens = n_ctx;
    uint32_t most = n_ctx > x->limits.max_tokens ? n_ctx : x->limits.max_tokens;
    x->limits.max_seqs = x->model->recurrent ? MAX_STATES : MAX_TEXTS;
    x->limits.n_states = x->model->recurrent ? MAX_STATES : 0;
    x->limits.max_outputs = x->limits.max_tokens;
    x->limits.n_kv_blocks = (most + RF_KV_BLOCK - 1) / RF_KV_BLOCK + MAX_TEXTS;
}

static rf_status alloc_arrays(rf_embedder *x, rf_error *e) {
    size_t rows = x->limits.max_tokens, n_embd = x->model->n_embd, table, sums;
    size_t n_labels = rf_embed_size(x->model, RF_POOL_RANK);
    if (!rf_mul_ok(MAX_TEXTS, x->table_stride, &table) || !rf_mul_ok(MAX_TEXTS, n_embd, &sums))
        return rf_fail_nomem(e, SIZE_MAX);
    x->token = rf_alloc(rows, sizeof *x->token);
    x->pos = rf_alloc(rows, sizeof *x->pos);
    x->out_row = rf_alloc(rows, sizeof *x->out_row);
    x->owner = rf_alloc(rows, sizeof *x->owner);
    x->seq_start = rf_alloc(MAX_TEXTS + 1, sizeof *x->seq_start);
    x->kv_len = rf_alloc(MAX_TEXTS, sizeof *x->kv_len);
    x->table = rf_alloc(table, sizeof *x->table);
    x->n_done = rf_alloc(MAX_TEXTS, sizeof *x->n_done);
    x->state = rf_alloc(MAX_TEXTS, sizeof *x->state);
    x->sum = rf_alloc(sums, sizeof *x->sum);
    x->hidden = rf_alloc(n_embd, sizeof *x->hidden);
    x->scores = rf_alloc(n_labels, sizeof *x->scores);
    x->row = rf_alloc(n_embd > n_labels ? n_embd : n_labels, sizeof *x->row);
    if (!x->token || !x->pos || !x->out_row || !x->owner || !x->seq_start || !x->kv_len ||
        !x->table || !x->n_done || !x->state || !x->sum || !x->hidden || !x->scores || !x->row)
        return rf_fail_nomem(e, sums * sizeof *x->sum);
    for (uint32_t i = 0; i < MAX_TEXTS; i++)
        x->state[i] = i;
    return RF_OK;
}

rf_status rf_embedder_open(rf_embedder **out, const rf_backend_ops *ops, rf_backend *backend,
                           const rf_model *m, const rf_limits *limits, uint32_t n_ctx,
                           rf_error *e) {
    *out = NULL;
    rf_embedder *x = rf_alloc(1, sizeof *x);
    if (!x) return rf_fail_nomem(e, sizeof *x);
    x->ops = ops;
    x->model = m;
    x->both_ways = sees_both_ways(m);
    const rf_plan_opts po = {.embeddings = true, .n_ctx = n_ctx};
    choose_limits(x, limits, n_ctx);
    rf_status s = rf_plan_build(&x->plan, m, &po, e);
    if (s == RF_OK) s = ops->compile(&x->exec, backend, x->plan, &x->limits, e);
    if (s == RF_OK) s = alloc_arrays(x, e);
    if (s == RF_OK)
        *out = x;
    else
        rf_embedder_free(x);
    return s;
}

void rf_embedder_free(rf_embedder *x) {
    if (!x) return;
    if (x->exec) x->ops->exec_free(x->exec);
    rf_plan_free(x->plan);
    void *const memory[] = {x->token,  x->pos,   x->out_row, x->owner, x->seq_start,
                            x->kv_len, x->table, x->n_done,  x->sum,   x->hidden,
                            x->scores, x->row,   x->state};
    for (size_t i = 0; i < RF_COUNT(memory); i++)
        rf_free(memory[i]);
    rf_free(x);
}

size_t rf_embedder_bytes(const rf_embedder *x) { return x->ops->exec_bytes(x->exec); }

rf_pooling rf_embed_default(const rf_model *m) {
    if (m->pooling != RF_POOL_NONE) return m->pooling;
    return sees_both_ways(m) ? RF_POOL_MEAN : RF_POOL_LAST;
}

uint32_t rf_embed_size(const rf_model *m, rf_pooling pooling) {
    if (pooling == RF_POOL_RANK) return m->head.out ? m->head.out->rows : 0;
    return pooling == RF_POOL_NONE ? 0 : m->n_embd;
}

/* ---- rows into batches ---- */

typedef struct job {
    const rf_embed_input *texts; /* [n] of the group */
    uint32_t n;
    rf_pooling over; /* which rows are gathered: RF_POOL_MEAN, RF_POOL_CLS or RF_POOL_LAST */
} job;

static rf_status check_text(const rf_embedder *x, const rf_embed_input *t, size_t i, rf_error *e) {
    if (t->n_tokens == 0)
        return rf_fail(e, RF_EARG, "text %zu has no tokens; a vector needs at least one", i);
    if (t->n_tokens > x->n_ctx)
        return rf_fail(e, RF_EFULL,
                       "text %zu has %zu tokens, but the context holds %u; shorten it or raise the "
                       "context length",
                       i, t->n_tokens, x->n_ctx);
    for (size_t k = 0; k < t->n_tokens; k++)
        if (t->tokens[k] < 0 || (uint32_t)t->tokens[k] >= x->model->n_vocab)
            return rf_fail(e, RF_EARG, "token %zu of text %zu is %d, not below the vocabulary's %u",
                           k, i, t->tokens[k], x->model->n_vocab);
    return RF_OK;
}

/* How many of the texts form the next group; gives each its KV blocks. */
static uint32_t take_group(rf_embedder *x, const rf_embed_input *texts, size_t n) {
    uint32_t n_taken = 0, n_blocks = 0, rows = 0;
    for (; n_taken < n && n_taken < x->limits.max_seqs; n_taken++) {
        uint32_t tokens = (uint32_t)texts[n_taken].n_tokens;
        uint32_t blocks = (tokens + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
        if (blocks > x->limits.n_kv_blocks - n_blocks) break;
        if (x->both_ways && tokens > x->limits.max_tokens - rows) break;
        for (uint32_t i = 0; i < blocks; i++)
            x->table[(size_t)n_taken * x->table_stride + i] = n_blocks++;
        x->n_done[n_taken] = 0;
        rows += x->both_ways ? tokens : 0;
    }
    RF_ASSERT(n_taken > 0); /* any one text fits */
    return n_taken;
}

static bool is_wanted(rf_pooling over, uint32_t pos, uint32_t n) {
    return over == RF_POOL_MEAN || pos == (over == RF_POOL_CLS ? 0 : n - 1);
}

/* The next rows of text i, as many as fit. */
static void add_rows(rf_embedder *x, rf_batch *b, const job *j, uint32_t i) {
    uint32_t n = (uint32_t)j->texts[i].n_tokens, room = x->limits.max_tokens - b->n_tokens;
    uint32_t end = n - x->n_done[i] < room ? n : x->n_done[i] + room;
    for (uint32_t p = x->n_done[i]; p < end; p++) {
        x->token[b->n_tokens] = j->texts[i].tokens[p];
        x->pos[b->n_tokens] = p;
        if (is_wanted(j->over, p, n)) {
            x->out_row[b->n_outputs] = b->n_tokens;
            x->owner[b->n_outputs++] = i;
        }
        b->n_tokens++;
    }
    x->n_done[i] = end;
    x->kv_len[b->n_seqs++] = end;
    x->seq_start[b->n_seqs] = b->n_tokens;
}

/* Sends texts from *first on through the backend until a batch is full; *first: the next one. */
static rf_status run_batch(rf_embedder *x, const job *j, uint32_t *first, rf_error *e) {
    rf_batch b = {.token = x->token,
                  .pos = x->pos,
                  .seq_start = x->seq_start,
                  .kv_len = x->kv_len,
                  .table = x->table + (size_t)*first * x->table_stride,
                  .out_row = x->out_row,
                  .state = x->state + *first,
                  .table_stride = x->table_stride};
    for (; *first < j->n && b.n_tokens < x->limits.max_tokens; ++*first) {
        add_rows(x, &b, j, *first);
        if (x->n_done[*first] < j->texts[*first].n_tokens) break;
    }
    const float *result;
    RF_TRY(x->ops->run(x->exec, &b, e));
    rf_status s = x->ops->wait(x->exec, &result);
    if (s != RF_OK) return rf_fail(e, s, "the backend failed: %s", rf_status_name(s));
    size_t n_embd = x->model->n_embd;
    for (uint32_t o = 0; o < b.n_outputs; o++) {
        double *sum = x->sum + x->owner[o] * n_embd;
        for (size_t k = 0; k < n_embd; k++)
            sum[k] += (double)result[o * n_embd + k];
    }
    return RF_OK;
}

/* ---- from sums to vectors ---- */

/* dst = w src + bias; dst: [w->rows], src: [w->cols] */
static void project(rf_embedder *x, const rf_tensor *w, const rf_tensor *bias, const double *src,
                    double *dst) {
    for (uint32_t r = 0; r < w->rows; r++) {
        const uint8_t *row = (const uint8_t *)w->data + (size_t)r * w->row_bytes;
        rf_dtype_get(w->type)->decode(row, x->row, w->cols);
        dst[r] = 0;
        for (uint32_t k = 0; k < w->cols; k++)
            dst[r] += (double)x->row[k] * src[k];
    }
    if (!bias) return;
    rf_dtype_get(bias->type)->decode(bias->data, x->row, bias->cols);
    for (uint32_t r = 0; r < w->rows; r++)
        dst[r] += (double)x->row[r];
}

static void layer_norm(rf_embedder *x, const rf_tensor *w, double *v) {
    uint32_t n = w->cols;
    double mean = 0, var = 0;
    for (uint32_t k = 0; k < n; k++)
        mean += v[k] / n;
    for (uint32_t k = 0; k < n; k++)
        var += (v[k] - mean) * (v[k] - mean) / n;
    rf_dtype_get(w->type)->decode(w->data, x->row, n);
    for (uint32_t k = 0; k < n; k++)
        v[k] = (v[k] - mean) / sqrt(var + (double)x->model->norm_eps) * (double)x->row[k];
}

static void softmax(double *v, uint32_t n) {
    double most = v[0], sum = 0;
    for (uint32_t k = 1; k < n; k++)
        if (v[k] > most) most = v[k];
    for (uint32_t k = 0; k < n; k++) {
        v[k] = rf_exp(v[k] - most);
        sum += v[k];
    }
    for (uint32_t k = 0; k < n; k++)
        v[k] /= sum;
}

/* The head's scores of the pooled hidden state v, left in x->scores. */
static void score(rf_embedder *x, const double *v) {
    const rf_head *h = &x->model->head;
    if (h->dense) {
        double *d = x->hidden;
        project(x, h->dense, h->dense_b, v, d);
        for (uint32_t k = 0; k < x->model->n_embd; k++)
            d[k] = h->gelu ? d[k] * (1 + rf_erf(d[k] / sqrt(2.0))) / 2 : rf_tanh(d[k]);
        if (h->norm) layer_norm(x, h->norm, d);
        v = d;
    }
    project(x, h->out, h->out_b, v, x->scores);
    if (h->softmax) softmax(x->scores, h->out->rows);
}

/* What a vector is divided by to have length 1; the zero vector stays what it is. */
static double length_of(const double *v, uint32_t n) {
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += v[k] * v[k];
    return sum > 0 ? sqrt(sum) : 1;
}

/* The sum over the wanted rows of a text of n tokens becomes its vector; out: [n_out]. */
static rf_status finish(rf_embedder *x, double *sum, size_t n, rf_pooling pooling, rf_pooling over,
                        bool normalise, float *out) {
    uint32_t n_embd = x->model->n_embd, n_out = rf_embed_size(x->model, pooling);
    for (uint32_t k = 0; k < n_embd && over == RF_POOL_MEAN; k++)
        sum[k] /= (double)n;
    const double *v = sum;
    if (pooling == RF_POOL_RANK) {
        score(x, sum);
        v = x->scores;
    }
    double scale = normalise && pooling != RF_POOL_RANK ? length_of(v, n_out) : 1;
    for (uint32_t k = 0; k < n_out; k++) {
        out[k] = (float)(v[k] / scale);
        if (!isfinite(out[k])) return RF_EFORMAT;
    }
    return RF_OK;
}

/* ---- all of it ---- */

static rf_status run_group(rf_embedder *x, const job *j, rf_error *e) {
    memset(x->sum, 0, (size_t)j->n * x->model->n_embd * sizeof *x->sum);
    for (uint32_t first = 0; first < j->n;)
        RF_TRY(run_batch(x, j, &first, e));
    return RF_OK;
}

rf_status rf_embedder_run(rf_embedder *x, const rf_embed_input *texts, size_t n, rf_pooling pooling,
                          bool normalise, float *out, rf_error *e) {
    size_t n_out = rf_embed_size(x->model, pooling), n_embd = x->model->n_embd;
    RF_ASSERT(n_out > 0);
    for (size_t i = 0; i < n; i++)
        RF_TRY(check_text(x, &texts[i], i, e));
    rf_pooling over = pooling == RF_POOL_RANK ? x->model->head.over : pooling;
    for (size_t at = 0; at < n;) {
        job j = {.texts = texts + at, .over = over};
        j.n = take_group(x, texts + at, n - at);
        RF_TRY(run_group(x, &j, e));
        for (uint32_t i = 0; i < j.n; i++, at++)
            if (finish(x, x->sum + i * n_embd, texts[at].n_tokens, pooling, over, normalise,
                       out + at * n_out) != RF_OK)
                return rf_fail(e, RF_EFORMAT,
                               "the vector of text %zu is not finite; the model's weights are "
                               "damaged",
                               at);
    }
    return RF_OK;
}
