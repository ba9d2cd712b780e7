/* drafter.c - rounds of batches: first what each request knows and the model does not, then one guess
 * per request and round.
 *
 * A request's draft.n_fed counts the tokens that went through the model, guesses included; settling cuts
 * it back to those that came true.  Rows of others stay in the KV cache until they are overwritten, and
 * only tokens that came true are ever made findable for others. */
#include "engine/drafter.h"

#include <string.h>

#include "base/log.h"
#include "engine/request.h"

struct rf_drafter {
    rf_drafter_target target;
    rf_model *model;
    rf_plan *plan;
    rf_exec *exec;
    rf_kv *kv;
    rf_limits limits;
    uint32_t n_ctx, table_stride;
    bool has_failed;     /* the device: no more guesses */
    int32_t *token;      /* [max_tokens] */
    uint32_t *pos;       /* [max_tokens] */
    uint32_t *seq_start; /* [max_seqs + 1] */
    uint32_t *kv_len;    /* [max_seqs] */
    uint32_t *table;     /* [max_seqs][table_stride] */
    uint32_t *out_row;   /* [max_seqs] */
    rf_request **output; /* [max_seqs] whose logits row i is */
    rf_request **live;   /* [max_seqs] who want another guess */
};

/* ---- open and close ---- */

static rf_status same_token(const rf_tokenizer *a, const rf_tokenizer *b, int32_t id, rf_buf *x,
                            rf_buf *y, rf_error *e) {
    rf_buf_clear(x);
    rf_buf_clear(y);
    RF_TRY(rf_token_bytes(a, id, true, x));
    RF_TRY(rf_token_bytes(b, id, true, y));
    if (x->failed || y->failed) return rf_fail_nomem(e, x->len + y->len);
    if (x->len == y->len && (x->len == 0 || memcmp(x->p, y->p, x->len) == 0)) return RF_OK;
    return rf_fail(e, RF_EARG,
                   "draft model: token %d is '%.40s', but '%.40s' in the model's vocabulary; the "
                   "two must be the same",
                   id, rf_buf_str(x).p, rf_buf_str(y).p);
}

static rf_status check_vocabulary(const rf_drafter_target *t, const rf_gguf *file, rf_error *e) {
    rf_tokenizer *own;
    RF_TRY(rf_tokenizer_from_gguf(&own, file, e));
    uint32_t n = rf_tokenizer_n_vocab(own), expected = rf_tokenizer_n_vocab(t->tokenizer);
    rf_buf x = {0}, y = {0};
    rf_status s = RF_OK;
    if (n != expected)
        s = rf_fail(
            e, RF_EARG,
            "draft model: its vocabulary has %u tokens, the model's %u; the two must be the "
            "same",
            n, expected);
    for (uint32_t id = 0; s == RF_OK && id < n; id++)
        s = same_token(own, t->tokenizer, (int32_t)id, &x, &y, e);
    rf_buf_free(&x);
    rf_buf_free(&y);
    rf_tokenizer_free(own);
    return s;
}

static rf_status bind(rf_drafter *d, const char *path, rf_error *e) {
    rf_gguf *file;
    RF_TRY(rf_gguf_open(&file, path, e));
    rf_status s = check_vocabulary(&d->target, file, e);
    if (s == RF_OK) s = rf_model_bind(&d->model, file, e);
    if (s != RF_OK) {
        rf_gguf_close(file);
        return s;
    }
    if (d->model->arch->encoder)
        return rf_fail(e, RF_EARG, "draft model: %s models are encoders and cannot continue a text",
                       d->model->arch->name);
    if (d->model->prefix)
        return rf_fail(
            e, RF_EUNSUPPORTED,
            "draft model: %s models attend a prompt both ways, which guesses cannot follow",
            d->model->arch->name);
    if (d->model->recurrent)
        return rf_fail(e, RF_EUNSUPPORTED,
                       "draft model: layers of a %s model keep a state, which cannot take a wrong "
                       "guess back",
                       d->model->arch->name);
    if (d->model->n_vocab != d->target.model->n_vocab)
        return rf_fail(e, RF_EARG, "draft model: it has logits of %u tokens, the model of %u",
                       d->model->n_vocab, d->target.model->n_vocab);
    return RF_OK;
}

/* Its context ends where its learned positions do; longer requests go on without it. */
static void choose_limits(rf_drafter *d) {
    const rf_tensor *positions = d->model->pos_embd;
    d->n_ctx = d->target.n_ctx;
    if (positions && positions->rows < d->n_ctx) d->n_ctx = (uint32_t)positions->rows;
    d->table_stride = (d->n_ctx + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
    d->limits = *d->target.limits;
    d->limits.max_outputs = d->limits.max_seqs;
}

static rf_status alloc_arrays(rf_drafter *d, rf_error *e) {
    size_t n_seqs = d->limits.max_seqs, n_rows = d->limits.max_tokens, table;
    if (!rf_mul_ok(n_seqs, d->table_stride, &table)) return rf_fail_nomem(e, SIZE_MAX);
    d->token = rf_alloc(n_rows, sizeof *d->token);
    d->pos = rf_alloc(n_rows, sizeof *d->pos);
    d->seq_start = rf_alloc(n_seqs + 1, sizeof *d->seq_start);
    d->kv_len = rf_alloc(n_seqs, sizeof *d->kv_len);
    d->table = rf_alloc(table, sizeof *d->table);
    d->out_row = rf_alloc(n_seqs, sizeof *d->out_row);
    d->output = rf_alloc(n_seqs, sizeof *d->output);
    d->live = rf_alloc(n_seqs, sizeof *d->live);
    if (!d->token || !d->pos || !d->seq_start || !d->kv_len || !d->table || !d->out_row ||
        !d->output || !d->live)
        return rf_fail_nomem(e, table * sizeof *d->table);
    return RF_OK;
}

static rf_status make_ready(rf_drafter *d, rf_error *e) {
    choose_limits(d);
    const rf_plan_opts po = {.n_ctx = d->n_ctx};
    RF_TRY(rf_plan_build(&d->plan, d->model, &po, e));
    RF_TRY(d->target.ops->compile(&d->exec, d->target.backend, d->plan, &d->limits, e));
    if (rf_kv_create(&d->kv, d->limits.n_kv_blocks, RF_KV_BLOCK) != RF_OK)
        return rf_fail_nomem(e, d->limits.n_kv_blocks);
    return alloc_arrays(d, e);
}

rf_status rf_drafter_open(rf_drafter **out, const char *path, const rf_drafter_target *target,
                          rf_error *e) {
    *out = NULL;
    rf_drafter *d = rf_alloc(1, sizeof *d);
    if (!d) return rf_fail_nomem(e, sizeof *d);
    d->target = *target;
    rf_status s = bind(d, path, e);
    if (s == RF_OK) s = make_ready(d, e);
    if (s == RF_OK)
        *out = d;
    else
        rf_drafter_free(d);
    return s;
}

void rf_drafter_free(rf_drafter *d) {
    if (!d) return;
    if (d->exec) d->target.ops->exec_free(d->exec);
    rf_plan_free(d->plan);
    rf_kv_free(d->kv);
    rf_model_close(d->model);
    void *const memory[] = {d->token, d->pos,     d->seq_start, d->kv_len,
                            d->table, d->out_row, d->output,    d->live};
    for (size_t i = 0; i < RF_COUNT(memory); i++)
        rf_free(memory[i]);
    rf_free(d);
}

size_t rf_drafter_bytes(const rf_drafter *d) { return d->target.ops->exec_bytes(d->exec); }

double rf_drafter_cost(const rf_drafter *d) {
    return (double)d->model->weight_bytes / (double)d->target.model->weight_bytes;
}

/* ---- what it knows of a request ---- */

bool rf_drafter_can_follow(const rf_drafter *d, const rf_request *r) {
    return !d->has_failed && r->tokens.len <= d->n_ctx;
}

void rf_drafter_settle(rf_drafter *d, rf_request *r) {
    rf_draft *x = &r->draft;
    if (x->n_fed == 0) return;
    uint32_t n_true = x->from;
    while (n_true < r->tokens.len && n_true < x->n_fed &&
           x->tokens[n_true - x->from] == r->tokens.p[n_true])
        n_true++;
    if (x->n_fed > n_true) x->n_fed = n_true;
    if (rf_kv_commit(d->kv, &x->kv, r->tokens.p, x->n_fed) != RF_OK) rf_drafter_forget(d, r);
}

void rf_drafter_forget(rf_drafter *d, rf_request *r) {
    rf_kv_release(d->kv, &r->draft.kv);
    r->draft.n_fed = 0;
}

void rf_drafter_reset(rf_drafter *d) {
    rf_kv_seq all = {0}; /* whoever takes the whole pool leaves nothing of it findable */
    d->has_failed = rf_kv_reserve(d->kv, &all, d->limits.n_kv_blocks * RF_KV_BLOCK) != RF_OK;
    rf_kv_release(d->kv, &all);
}

/* Blocks for all that it may be fed, or false: others hold them. */
static bool make_room(rf_drafter *d, rf_request *r) {
    rf_draft *x = &r->draft;
    uint32_t n_tokens = (uint32_t)r->tokens.len, most = d->n_ctx - n_tokens + 1;
    if (x->n_rows > most) x->n_rows = most;
    x->kv.salt = r->kv.salt;
    if (x->kv.n_blocks == 0 &&
        rf_kv_match(d->kv, &x->kv, r->tokens.p, n_tokens, &x->n_fed) != RF_OK)
        return false;
    return rf_kv_reserve(d->kv, &x->kv, n_tokens + x->n_rows - 1) == RF_OK;
}

/* ---- rounds ---- */

/* Appends what the request knows or guesses and the model was not fed yet, as far as there are rows. */
static void feed(rf_drafter *d, rf_batch *b, rf_request *r) {
    rf_draft *x = &r->draft;
    uint32_t n_tokens = (uint32_t)r->tokens.len, first = b->n_tokens;
    while (x->n_fed < n_tokens + x->n && b->n_tokens < d->limits.max_tokens) {
        d->token[b->n_tokens] =
            x->n_fed < n_tokens ? r->tokens.p[x->n_fed] : x->tokens[x->n_fed - n_tokens];
        d->pos[b->n_tokens++] = x->n_fed++;
    }
    if (b->n_tokens == first) return;
    uint32_t n_blocks = (x->n_fed + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
    memcpy(d->table + (size_t)b->n_seqs * d->table_stride, x->kv.blocks,
           n_blocks * sizeof *d->table);
    d->kv_len[b->n_seqs++] = x->n_fed;
    d->seq_start[b->n_seqs] = b->n_tokens;
    if (x->n_fed < n_tokens + x->n) return;
    d->out_row[b->n_outputs] = b->n_tokens - 1;
    d->output[b->n_outputs++] = r;
}

/* False: nothing can be guessed, and at the end of a text nothing needs to be. */
static bool guess(rf_drafter *d, rf_request *r, const float *logits) {
    const rf_ids *ends = d->target.end_tokens;
    int32_t token;
    if (rf_request_ahead_pick(r, logits, ends->p, ends->len, &token) != RF_OK ||
        rf_request_ahead_take(r, token, ends->p, ends->len) != RF_OK)
        return false;
    r->draft.tokens[r->draft.n++] = token;
    return true;
}

/* One batch for the live ones [*n]; those that want another guess stay among them. */
static rf_status run_round(rf_drafter *d, uint32_t *n, rf_error *e) {
    rf_batch b = {.token = d->token,
                  .pos = d->pos,
                  .seq_start = d->seq_start,
                  .kv_len = d->kv_len,
                  .table = d->table,
                  .out_row = d->out_row,
                  .table_stride = d->table_stride};
    const float *logits;
    for (uint32_t i = 0; i < *n; i++)
        feed(d, &b, d->live[i]);
    *n = 0;
    if (b.n_tokens == 0) return RF_OK;
    RF_TRY(d->target.ops->run(d->exec, &b, e));
    RF_TRY(d->target.ops->wait(d->exec, &logits));
    for (uint32_t o = 0; o < b.n_outputs; o++) {
        rf_request *r = d->output[o];
        if (guess(d, r, logits + (size_t)o * d->model->n_vocab) && r->draft.n < r->draft.n_rows)
            d->live[(*n)++] = r;
    }
    return RF_OK;
}

void rf_drafter_run(rf_drafter *d, rf_request *const *r, uint32_t n) {
    uint32_t n_live = 0;
    for (uint32_t i = 0; i < n; i++)
        if (make_room(d, r[i]) && rf_request_look_ahead(r[i]) == RF_OK) d->live[n_live++] = r[i];
    rf_error e = {0};
    rf_status s = RF_OK;
    while (s == RF_OK && n_live)
        s = run_round(d, &n_live, &e);
    for (uint32_t i = 0; i < n; i++)
        rf_request_look_back(r[i]);
    if (s == RF_OK) return;
    d->has_failed = true;
    rf_log_write(RF_LOG_WARN, "the draft model failed, answers go on without it: %s",
                 e.text[0] ? e.text : rf_status_name(s));
}
