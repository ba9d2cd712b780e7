/* run.c - one forward pass: the batch's block up, the tasks, the result down.
 *
 * A batch of few rows is recorded as a graph when its shape comes for the second time, and replayed
 * from then on: addresses and launches depend on nothing but the shape, in which lengths are rounded
 * up so that it changes seldom. */
#include <assert.h>
#include <string.h>

#include "backend/gpu/exec.h"
#include "backend/gpu/launch.h"
#include "base/log.h"

static const uint32_t FIRST_TO_COME = RF_BEST_NONE - 1; /* no column has that number */

/* The batch's block ------------------------------------------------------------------------------*/

/* Lengths grow in steps of an eighth of themselves, at least 256. */
static uint32_t round_length(uint32_t n, uint32_t most) {
    uint32_t step = 256;
    while (step < n / 8)
        step *= 2;
    uint64_t up = ((uint64_t)n + step - 1) / step * step;
    return up < most ? (uint32_t)up : most;
}

static bool tells_best(const rf_exec *x) {
    const bool *left_out = x->backend->queue.left_out;
    return x->n_groups && !left_out[RF_GPU_best_groups] && !left_out[RF_GPU_best_rows] &&
           !left_out[RF_GPU_drawn_groups] && !left_out[RF_GPU_drawn_rows];
}

bool rf_gpu_may_follow(const rf_exec *x) { return tells_best(x) && x->n_embeds == 0; }

/* What the kernels tell of all rows of the result: as much as is wanted of one, but the row itself. */
static rf_by_best by_best_of(const rf_exec *x, const rf_batch *b) {
    rf_by_best by = RF_BY_ROW;
    if (!tells_best(x)) return by;
    for (uint32_t i = 0; b->by_best && i < b->n_outputs && by != RF_BY_BEST; i++)
        if (b->by_best[i] != RF_BY_ROW) by = b->by_best[i];
    return by;
}

static bool has_noise(const rf_batch *b) {
    for (uint32_t i = 0; b->noise && i < b->n_outputs; i++)
        if (b->noise[i].scale > 0) return true;
    return false;
}

/* The batch's first sequences that have few rows each: answers come before prompts. */
static uint32_t few_seqs_of(const rf_batch *b) {
    uint32_t n = 0;
    while (n < b->n_seqs && b->seq_start[n + 1] - b->seq_start[n] < RF_GPU_MANY_ROWS)
        n++;
    return n;
}

static rf_gpu_shape shape_of(const rf_exec *x, const rf_batch *b) {
    uint32_t longest = 0, n_few = few_seqs_of(b);
    for (uint32_t s = 0; s < b->n_seqs; s++)
        longest = b->kv_len[s] > longest ? b->kv_len[s] : longest;
    uint32_t keys = round_length(longest, x->n_positions);
    return (rf_gpu_shape){.n_tokens = b->n_tokens,
                          .n_seqs = b->n_seqs,
                          .n_outputs = b->n_outputs,
                          .table_stride = (keys + RF_KV_BLOCK - 1) / RF_KV_BLOCK,
                          .mask_stride = x->has_mask ? keys : 0,
                          .max_kv_len = keys,
                          .by_best = by_best_of(x, b),
                          .draws = has_noise(b),
                          .rows_alone = rf_batch_rows_alone(b, x->written, x->n_runs),
                          .few_rows = b->seq_start[n_few],
                          .few_seqs = n_few,
                          .flight = x->latest};
}

static void fill_tables(const rf_exec *x, const rf_batch *b) {
    const rf_gpu_input *in = &x->input;
    uint8_t *staging = x->flight[x->latest].staging;
    uint32_t *row_seq = (uint32_t *)(void *)(staging + in->row_seq_at);
    uint32_t *table = (uint32_t *)(void *)(staging + in->table_at);
    rf_noise *noise = (rf_noise *)(void *)(staging + in->noise_at);
    float *mask = (float *)(void *)(staging + in->mask_at);
    memcpy(staging + in->token_at, b->token, b->n_tokens * sizeof *b->token);
    memcpy(staging + in->pos_at, b->pos, b->n_tokens * sizeof *b->pos);
    memcpy(staging + in->kv_len_at, b->kv_len, b->n_seqs * sizeof *b->kv_len);
    if (b->n_prefix)
        memcpy(staging + in->prefix_at, b->n_prefix, b->n_seqs * sizeof *b->n_prefix);
    else
        memset(staging + in->prefix_at, 0, b->n_seqs * sizeof *b->n_prefix);
    if (x->state_bytes) {
        memcpy(staging + in->seq_start_at, b->seq_start, (b->n_seqs + 1) * sizeof *b->seq_start);
        memcpy(staging + in->state_at, b->state, b->n_seqs * sizeof *b->state);
    }
    if (b->n_outputs)
        memcpy(staging + in->out_row_at, b->out_row, b->n_outputs * sizeof *b->out_row);
    for (uint32_t i = 0; x->n_groups && i < b->n_outputs; i++)
        noise[i] = b->noise ? b->noise[i] : (rf_noise){.scale = 0};
    for (uint32_t s = 0; s < b->n_seqs; s++) {
        uint32_t n = (b->kv_len[s] + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
        uint32_t *to = table + (size_t)s * x->shape.table_stride;
        memcpy(to, b->table + (size_t)s * b->table_stride, n * sizeof *to);
        memset(to + n, 0, (x->shape.table_stride - n) * sizeof *to);
        for (uint32_t row = b->seq_start[s]; row < b->seq_start[s + 1]; row++) {
            row_seq[row] = s;
            if (x->has_mask)
                memcpy(mask + (size_t)row * x->shape.mask_stride,
                       b->mask + (size_t)row * b->mask_stride, b->kv_len[s] * sizeof *mask);
        }
    }
}

typedef struct embedding {
    const rf_exec *x;
    const rf_batch *b;
} embedding;

static void embed_rows(void *user, int ith, int n_threads) {
    const embedding *m = user;
    const rf_exec *x = m->x;
    for (uint32_t i = 0; i < x->n_embeds; i++) {
        const rf_gpu_embed *embed = &x->embeds[i];
        const rf_step *s = embed->step;
        const rf_tensor *w = embed->table;
        size_t cols = x->plan->vals[s->dst].cols;
        size_t row_bytes = cols * sizeof(float);
        uint8_t *all =
            x->flight[x->latest].staging + x->input.embed_at + embed->at * x->shape.n_tokens;
        for (uint32_t t = (uint32_t)ith; t < m->b->n_tokens; t += (uint32_t)n_threads) {
            uint8_t *dst = all + t * row_bytes;
            if (s->source == RF_EMBED_ROWS) {
                memcpy(dst, m->b->rows + t * cols, row_bytes);
                continue;
            }
            uint32_t from = s->source == RF_EMBED_TOKEN      ? (uint32_t)m->b->token[t]
                            : s->source == RF_EMBED_POSITION ? m->b->pos[t]
                                                             : 0;
            rf_dtype_get(w->type)->decode((const uint8_t *)w->data + from * w->row_bytes,
                                          (float *)(void *)dst, cols);
        }
    }
}

/* Fills the staging block; many rows are decoded by all threads, which sleep while the device works:
 * waking them takes as long as a hundred rows. */
static void fill_input(rf_exec *x, const rf_batch *b) {
    enum { ROWS_ALONE = 64 };
    embedding m = {x, b};
    fill_tables(x, b);
    if (b->n_tokens <= ROWS_ALONE)
        embed_rows(&m, 0, 1);
    else
        rf_pool_run(x->backend->pool, embed_rows, &m);
}

/* Tasks ------------------------------------------------------------------------------------------*/

static rf_gpu_batch batch_on_device(const rf_exec *x) {
    const uint8_t *at = x->memory + x->input_at;
    return (rf_gpu_batch){
        .pos = (const uint32_t *)(const void *)(at + x->input.pos_at),
        .row_seq = (const uint32_t *)(const void *)(at + x->input.row_seq_at),
        .kv_len = (const uint32_t *)(const void *)(at + x->input.kv_len_at),
        .prefix = (const uint32_t *)(const void *)(at + x->input.prefix_at),
        .table = (const uint32_t *)(const void *)(at + x->input.table_at),
        .seq_start = (const uint32_t *)(const void *)(at + x->input.seq_start_at),
        .state = (const uint32_t *)(const void *)(at + x->input.state_at),
        .mask = x->has_mask ? (const float *)(const void *)(at + x->input.mask_at) : NULL,
        .table_stride = x->shape.table_stride,
        .mask_stride = x->shape.mask_stride,
    };
}

void rf_gpu_fill_slots(const rf_exec *x, const rf_gpu_task *t, rf_gpu_args *a) {
    uint32_t n_vals = x->plan->n_vals;
    for (uint32_t i = 0; i < t->n_slots; i++) {
        const rf_gpu_slot *s = &t->slot[i];
        uint8_t *to = (uint8_t *)a + s->at;
        if (s->item >= n_vals && s->item < 3 * n_vals) {
            rf_gpu_quant q = rf_gpu_quant_at(x, s->item);
            memcpy(to, &q, sizeof q);
        } else {
            const void *p = rf_gpu_address(x, s->item) + s->column * sizeof(float);
            memcpy(to, &p, sizeof p);
        }
    }
}

/* a: with its slots filled. */
static void fill_attend(const rf_exec *x, rf_gpu_attend_args *a, uint32_t n_rows) {
    a->n_rows = n_rows;
    a->batch = batch_on_device(x);
    if (a->pattern != RF_ATTN_CUSTOM) a->batch.mask = NULL;
    a->max_kv_len = x->shape.max_kv_len;
    a->n_seqs = x->shape.n_seqs;
    a->few_rows = x->shape.few_rows;
    a->few_seqs = x->shape.few_seqs;
    a->rows_alone = x->shape.rows_alone;
    a->parts_bytes = x->room_bytes;
    a->heads.n_rows = n_rows;
    a->heads.batch = batch_on_device(x);
}

static void run_embed(const rf_exec *x, rf_gpu_queue *q, rf_gpu_embed_args *a, uint32_t n_rows) {
    const uint8_t *input = x->memory + x->input_at;
    if (a->source == RF_EMBED_TOKEN)
        a->at = (const int32_t *)(const void *)(input + x->input.token_at);
    if (a->source == RF_EMBED_POSITION)
        a->at = (const int32_t *)(const void *)(input + x->input.pos_at);
    a->chosen = (const uint32_t *)(const void *)(x->memory + x->chosen_at);
    a->n_rows = n_rows;
    rf_gpu_op_embed(q, a);
}

static void run_copy(const rf_exec *x, rf_gpu_queue *q, const rf_gpu_task *t, rf_gpu_copy_args *a,
                     uint32_t n_rows) {
    if (t->picks && rf_gpu_picks_all(x)) return; /* they are read where they are */
    a->n_rows = n_rows;
    if (t->picks)
        a->rows = (const uint32_t *)(const void *)(x->memory + x->input_at + x->input.out_row_at);
    rf_gpu_op_copy(q, a);
}

static void fill_matmul(const rf_exec *x, const rf_gpu_task *t, uint32_t n_rows, rf_gpu_args *a) {
    *a = t->args;
    rf_gpu_fill_slots(x, t, a);
    a->matmul.n_rows = a->matmul.norm.n_items = a->choose.route.n_rows = n_rows;
    a->matmul.ahead_bytes = a->matmul.ahead ? x->room_bytes : 0;
    a->matmul.kept = t->keeps ? x->kept + t->kept_at : NULL;
}

/* Has attention in front left its rows in integers? */
static bool has_ints(const rf_exec *x, const rf_gpu_queue *q, const rf_gpu_task *t,
                     uint32_t n_rows) {
    if (!t->attention) return false;
    const rf_gpu_task *before = &x->tasks[t->attention - 1];
    rf_gpu_args a = before->args;
    rf_gpu_fill_slots(x, before, &a);
    fill_attend(x, &a.attend, n_rows);
    return rf_gpu_attend_makes_ints(q, &a.attend);
}

static void run_matmul(const rf_exec *x, rf_gpu_queue *q, const rf_gpu_task *t, uint32_t n_rows) {
    rf_gpu_args a;
    fill_matmul(x, t, n_rows, &a);
    if (t->takes_along && !rf_gpu_takes_along(q, &a.choose)) {
        a.matmul.norm.n = 0;
        a.choose.route.n_experts = 0;
    }
    if (has_ints(x, q, t, n_rows)) a.matmul.x = NULL;
    if (a.choose.route.n_experts)
        rf_gpu_op_choose(q, &a.choose);
    else
        rf_gpu_op_matmul(q, &a.matmul);
}

/* Does a product behind it do its work, too? */
static bool is_done_behind(const rf_exec *x, const rf_gpu_queue *q, const rf_gpu_task *t,
                           uint32_t n_rows) {
    rf_gpu_args a;
    if (!t->behind) return false;
    fill_matmul(x, &x->tasks[t->behind - 1], n_rows, &a);
    return rf_gpu_takes_along(q, &a.choose);
}

static void run_task(const rf_exec *x, rf_gpu_queue *q, const rf_gpu_task *t) {
    uint32_t n_rows = t->per_output ? x->shape.n_outputs : x->shape.n_tokens;
    rf_gpu_args a = t->args;
    if (n_rows == 0 || is_done_behind(x, q, t, n_rows)) return;
    rf_gpu_fill_slots(x, t, &a);
    switch (t->kind) {
    case RF_GPU_TASK_NORM:
        a.norm.n_items = n_rows * t->items_per_row;
        rf_gpu_op_norm(q, &a.norm);
        return;
    case RF_GPU_TASK_QUANT:
        a.quant.n_rows = n_rows;
        rf_gpu_op_quant(q, &a.quant);
        return;
    case RF_GPU_TASK_MATMUL:
        run_matmul(x, q, t, n_rows);
        return;
    case RF_GPU_TASK_HEADS:
        a.heads.n_rows = n_rows;
        a.heads.batch = batch_on_device(x);
        rf_gpu_op_heads(q, &a.heads);
        return;
    case RF_GPU_TASK_ATTEND:
        fill_attend(x, &a.attend, n_rows);
        rf_gpu_op_attend(q, &a.attend);
        return;
    case RF_GPU_TASK_CONV:
        a.conv.n_rows = n_rows;
        a.conv.n_seqs = x->shape.n_seqs;
        a.conv.batch = batch_on_device(x);
        rf_gpu_op_conv(q, &a.conv);
        return;
    case RF_GPU_TASK_RECUR:
        a.recur.n_rows = n_rows;
        a.recur.n_seqs = x->shape.n_seqs;
        a.recur.batch = batch_on_device(x);
        rf_gpu_op_recur(q, &a.recur);
        return;
    case RF_GPU_TASK_EACH:
        a.each.n_rows = n_rows;
        rf_gpu_op_each(q, &a.each);
        return;
    case RF_GPU_TASK_EMBED:
        run_embed(x, q, &a.embed, n_rows);
        return;
    case RF_GPU_TASK_COPY:
        run_copy(x, q, t, &a.copy, n_rows);
        return;
    case RF_GPU_TASK_ROUTE:
        a.route.n_rows = n_rows;
        rf_gpu_op_route(q, &a.route);
        return;
    case RF_GPU_TASK_LISTS:
        a.lists.n_rows = n_rows;
        rf_gpu_op_lists(q, &a.lists);
        return;
    case RF_GPU_TASK_MIX:
        a.mix.n_rows = n_rows;
        rf_gpu_op_mix(q, &a.mix);
        return;
    }
}

static void run_best(const rf_exec *x, rf_gpu_queue *q) {
    const uint8_t *at = x->memory + x->input_at + x->input.noise_at;
    rf_gpu_best_args a = {
        .dst = (rf_best *)(void *)(x->memory + x->best_at),
        .first = x->flight[x->latest].first,
        .chosen = (uint32_t *)(void *)(x->memory + x->chosen_at),
        .most = (float *)(void *)(x->memory + x->most_at),
        .x = (const float *)(const void *)rf_gpu_address(x, x->plan->result),
        .n_rows = x->shape.n_outputs,
        .cols = x->plan->n_result,
        .n_groups = x->n_groups,
        .first_only = x->shape.by_best == RF_BY_FIRST,
    };
    if (x->shape.draws) a.noise = (const rf_noise *)(const void *)at;
    rf_gpu_op_best(q, &a);
}

/* The batch's block to the device.  A small one a kernel fetches: to wait for a copy takes longer. */
static void bring_input(const rf_exec *x) {
    enum { MOST_BY_KERNEL = 1 << 20 };
    rf_gpu_queue *q = &x->backend->queue;
    uint8_t *to = x->memory + x->input_at;
    const uint8_t *staging = x->flight[x->latest].staging;
    const rf_gpu_copy_args a = {.dst = (float *)(void *)to,
                                .src = (const float *)(const void *)staging,
                                .n_rows = 1,
                                .n_heads = 1,
                                .n = (uint32_t)(x->input.bytes / sizeof(float))};
    if (x->input.bytes > MOST_BY_KERNEL)
        rf_gpu_upload(q, to, staging, x->input.bytes);
    else
        rf_gpu_op_copy(q, &a);
    rf_gpu_part(q);
}

static void run_tasks(const rf_exec *x) {
    rf_gpu_queue *q = &x->backend->queue;
    rf_gpu_part(q); /* the run before may still read its batch */
    bring_input(x);
    for (uint32_t i = 0; i < x->n_tasks; i++) {
        if (x->by_task) memset(q->launched, 0, sizeof q->launched);
        run_task(x, q, &x->tasks[i]);
        if (x->by_task) memcpy(x->by_task[i].launched, q->launched, sizeof q->launched);
    }
    if (x->shape.by_best != RF_BY_ROW) run_best(x, q);
}

/* Graphs -----------------------------------------------------------------------------------------*/

/* The recording of the current shape, or the least recently used one made free for it. */
static rf_gpu_recording *recording_of(rf_exec *x) {
    rf_gpu_recording *oldest = x->recording;
    for (uint32_t i = 0; i < RF_GPU_MAX_GRAPHS; i++) {
        rf_gpu_recording *r = &x->recording[i];
        if (r->last_run && memcmp(&r->shape, &x->shape, sizeof r->shape) == 0) return r;
        if (r->last_run < oldest->last_run) oldest = r;
    }
    rf_gpu_graph_free(&x->backend->queue, oldest->graph);
    *oldest = (rf_gpu_recording){.shape = x->shape};
    return oldest;
}

static void record(rf_exec *x, rf_gpu_recording *r) {
    rf_gpu_queue *q = &x->backend->queue;
    if (rf_gpu_status(q, NULL) != RF_OK) return;
    rf_gpu_record_begin(q);
    run_tasks(x);
    r->graph = rf_gpu_record_end(q);
    if (r->graph) return;
    rf_log_write(RF_LOG_WARN, "%s; going on without graphs, which is slower", q->error.text);
    q->error = (rf_error){.status = RF_OK};
    x->graphs_off = true;
}

static void run_or_replay(rf_exec *x) {
    uint32_t most = x->shape.rows_alone ? RF_GPU_GRAPH_ALONE : RF_GPU_GRAPH_ROWS;
    if (x->graphs_off || x->shape.n_tokens > most) {
        run_tasks(x);
        return;
    }
    rf_gpu_recording *r = recording_of(x);
    if (!r->graph && r->last_run) record(x, r);
    r->last_run = x->n_runs;
    if (r->graph)
        rf_gpu_replay(&x->backend->queue, r->graph);
    else
        run_tasks(x);
}

void rf_gpu_fetch_rows(rf_exec *x, rf_gpu_flight *f, uint32_t first, uint32_t n) {
    size_t at = (size_t)first * x->plan->n_result, count = (size_t)n * x->plan->n_result;
    const uint8_t *from = rf_gpu_address(x, x->plan->result) + at * sizeof(float);
    rf_gpu_download(&x->backend->queue, x->result + at, from, count * sizeof(float));
    for (uint32_t i = first; i < first + n; i++)
        f->told[i] = RF_BY_ROW;
}

/* What is to come of each row. */
static void expect_result(const rf_exec *x, rf_gpu_flight *f, const rf_batch *b) {
    bool is_told = x->shape.by_best != RF_BY_ROW;
    f->n_outputs = b->n_outputs;
    for (uint32_t i = 0; i < f->n_outputs; i++) {
        f->told[i] = is_told ? b->by_best[i] : RF_BY_ROW;
        if (is_told) f->first[i] = FIRST_TO_COME;
    }
}

/* Neighbours of one kind together; the first of each row comes by itself. */
static void download_result(rf_exec *x, rf_gpu_flight *f) {
    rf_gpu_queue *q = &x->backend->queue;
    uint32_t n;
    for (uint32_t i = 0; i < f->n_outputs; i += n) {
        rf_by_best told = f->told[i];
        for (n = 1; i + n < f->n_outputs && f->told[i + n] == told;)
            n++;
        if (told == RF_BY_ROW) rf_gpu_fetch_rows(x, f, i, n);
        if (told == RF_BY_BEST)
            rf_gpu_download(q, x->best + i, x->memory + x->best_at + i * sizeof *x->best,
                            n * sizeof *x->best);
    }
}

static bool has_come(const rf_gpu_flight *f) {
    for (uint32_t i = 0; i < f->n_outputs; i++)
        if (__atomic_load_n(&f->first[i], __ATOMIC_ACQUIRE) == FIRST_TO_COME) return false;
    return true;
}

/* Where no more is wanted than the first of each row, these words are all that is waited for: a stream's
 * end is told 10 us later, and after the end of what is queued behind.  False: there is more, or the device
 * has failed. */
static bool see_first(rf_exec *x, const rf_gpu_flight *f) {
    enum { LOOKS = 1000 };
    rf_gpu_queue *q = &x->backend->queue;
    bool all = f->n_outputs > 0, is_done = false;
    for (uint32_t i = 0; i < f->n_outputs; i++)
        all = all && f->told[i] == RF_BY_FIRST;
    while (all && !is_done) {
        is_done = rf_gpu_is_done(q);
        for (int i = 0; i < LOOKS; i++) {
            if (has_come(f)) return rf_gpu_status(q, NULL) == RF_OK;
            rf_cpu_pause();
        }
    }
    return false;
}

void rf_gpu_await_result(rf_exec *x, const rf_gpu_flight *f) {
    if (!see_first(x, f)) rf_gpu_wait(&x->backend->queue);
}

void rf_gpu_forward(rf_exec *x, const rf_batch *b) {
    rf_gpu_flight *f = &x->flight[x->latest];
    x->n_runs++;
    x->shape = shape_of(x, b);
    x->input = rf_gpu_input_of(x, &x->shape);
    fill_input(x, b);
    expect_result(x, f, b);
    run_or_replay(x);
    download_result(x, f);
}
