/* embed.c - the queue of tasks and what the engine's thread does with them.
 *
 * A task is in the queue or in the hands of the engine's thread; whoever takes it out of the count
 * answers it.  References: one of the queue, one of the outbox. */
#include "server/embed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/log.h"
#include "base/os.h"

/* Of one turn, between two steps. */
enum { TURN_TEXTS = 32, TURN_TOKENS = 512 };
enum { MAX_RETRY_SECONDS = 600, FIRST_GUESS_US = 100000 };

typedef struct rf_embed_private {
    rf_embeds *all;
    atomic_uint n_refs;
    atomic_bool left; /* its client is gone */
    rf_outbox *out;
    rf_buf body;
    uint64_t start_us, work_us;
    rf_embed_task *next; /* in the queue */
} own;

struct rf_embeds {
    rf_embeds_opts o;
    pthread_mutex_t lock; /* guards what follows */
    rf_embed_task *first, **last;
    uint32_t n_open;
    double task_us; /* how long a task is worked on, on average */
    bool refusing, cancelling;
};

/* ---- life ---- */

static void free_texts(rf_ids *texts, size_t n) {
    for (size_t i = 0; texts && i < n; i++)
        rf_ids_free(&texts[i]);
    rf_free(texts);
}

static void drop(rf_embed_task *t) {
    if (atomic_fetch_sub(&t->own->n_refs, 1) != 1) return;
    free_texts(t->texts, t->params.n_prompts);
    rf_params_free(&t->params);
    rf_buf_free(&t->own->body);
    rf_free(t->scores);
    rf_free(t->own);
    rf_free(t);
}

static rf_embed_task *create(rf_embeds *all, const rf_embed_writer *writer, const char *request_id,
                             rf_params *params, rf_ids *texts, rf_outbox *out) {
    rf_embed_task *t = rf_alloc(1, sizeof *t);
    own *w = rf_alloc(1, sizeof *w);
    float *scores = rf_alloc(params->n_prompts, sizeof *scores);
    if (!t || !w || !scores) {
        rf_free(t);
        rf_free(w);
        rf_free(scores);
        free_texts(texts, params->n_prompts);
        rf_params_free(params);
        return NULL;
    }
    *t = (rf_embed_task){.writer = writer,
                         .model = all->o.model,
                         .params = *params,
                         .texts = texts,
                         .n_floats = rf_engine_embed_size(all->o.engine, RF_POOLING_DEFAULT),
                         .scores = scores,
                         .own = w};
    *params = (rf_params){0};
    snprintf(t->id, sizeof t->id, "embd-%s", request_id);
    for (size_t i = 0; i < t->params.n_prompts; i++)
        t->n_tokens += texts[i].len;
    w->all = all;
    w->out = rf_outbox_keep(out);
    w->start_us = rf_time_us();
    atomic_store(&w->n_refs, 2);
    return t;
}

/* ---- the queue ---- */

static void append(rf_embeds *all, rf_embed_task *t) { /* locked */
    t->own->next = NULL;
    *all->last = t;
    all->last = &t->own->next;
}

static rf_embed_task *take_first(rf_embeds *all, bool *cancelling) {
    pthread_mutex_lock(&all->lock);
    rf_embed_task *t = all->first;
    if (t) all->first = t->own->next;
    if (!all->first) all->last = &all->first;
    *cancelling = all->cancelling;
    pthread_mutex_unlock(&all->lock);
    return t;
}

static bool enter(rf_embeds *all, rf_embed_task *t, rf_api_error *e) {
    pthread_mutex_lock(&all->lock);
    if (all->refusing)
        rf_api_fail(e, 503, "shutting_down", NULL, "the server is stopping");
    else if (all->n_open > all->o.max_waiting)
        rf_api_fail(e, 429, "queue_full", NULL,
                    "%u requests for embeddings are open and the queue is full; try again later",
                    all->n_open);
    if (e->status) {
        double seconds = all->n_open * all->task_us / 1e6;
        e->retry_after = seconds > MAX_RETRY_SECONDS ? MAX_RETRY_SECONDS : (int)seconds + 1;
    } else {
        all->n_open++;
        append(all, t);
    }
    pthread_mutex_unlock(&all->lock);
    if (e->status) rf_metrics_add(all->o.metrics, RF_M_REJECTED, 1);
    return !e->status;
}

static void client_left(void *user) {
    rf_embed_task *t = user;
    atomic_store(&t->own->left, true);
}

static void release_task(void *user) { drop(user); }

bool rf_embeds_start(rf_embeds *all, const rf_embed_writer *writer, const char *request_id,
                     rf_params *params, rf_ids *texts, rf_outbox *out, rf_api_error *e) {
    rf_embed_task *t = create(all, writer, request_id, params, texts, out);
    if (!t) return rf_api_fail(e, 503, "out_of_memory", NULL, "out of memory");
    if (!enter(all, t, e)) {
        rf_outbox_drop(t->own->out);
        drop(t); /* the outbox's */
        drop(t);
        return false;
    }
    rf_outbox_watch(out, client_left, release_task, t);
    rf_engine_wake(all->o.engine);
    return true;
}

/* ---- on the engine's thread ---- */

/* How many of the next texts make one turn. */
static size_t turn_of(const rf_embed_task *t) {
    size_t n = 0, tokens = 0, left = t->params.n_prompts - t->n_done;
    while (n < left && n < TURN_TEXTS &&
           (n == 0 || tokens + t->texts[t->n_done + n].len <= TURN_TOKENS))
        tokens += t->texts[t->n_done + n++].len;
    return n;
}

static bool work(rf_embeds *all, rf_embed_task *t, rf_api_error *e) {
    rf_embed_input inputs[TURN_TEXTS];
    size_t n = turn_of(t);
    float *vectors = rf_alloc(n * t->n_floats, sizeof *vectors);
    if (!vectors) return rf_api_fail_status(e, RF_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        inputs[i] = (rf_embed_input){t->texts[t->n_done + i].p, t->texts[t->n_done + i].len};
    if (t->n_done == 0) t->writer->start(t, &t->own->body);
    rf_text why;
    int s = rf_engine_embed_batch(all->o.engine, inputs, n, NULL, vectors, n * t->n_floats, &why);
    for (size_t i = 0; s == ROCMFORGE_OK && i < n; i++, t->n_done++)
        t->writer->vector(t, t->n_done, vectors + i * t->n_floats, &t->own->body);
    rf_free(vectors);
    return s == ROCMFORGE_OK ? true : rf_api_fail_status(e, (rf_status)s, why.text);
}

/* The task is over: its answer goes out. */
static void answer(rf_embeds *all, rf_embed_task *t, rf_api_error *e) {
    own *w = t->own;
    if (!e->status) t->writer->end(t, &w->body);
    if (w->body.failed) rf_api_fail_status(e, RF_ENOMEM, "out of memory");
    rf_metrics_add(all->o.metrics, e->status ? RF_M_EMBED_FAILED : RF_M_EMBEDDED_TEXTS,
                   e->status ? 1 : t->params.n_prompts);
    if (!e->status) rf_metrics_add(all->o.metrics, RF_M_EMBEDDED_TOKENS, t->n_tokens);
    rf_log_write(RF_LOG_INFO, "job=%s state=%s texts=%zu tokens=%zu work_ms=%.1f total_ms=%.1f",
                 t->id, e->status ? "failed" : "finished", t->params.n_prompts, t->n_tokens,
                 (double)w->work_us / 1e3, (double)(rf_time_us() - w->start_us) / 1e3);
    pthread_mutex_lock(&all->lock);
    all->task_us += ((double)w->work_us - all->task_us) / 8;
    all->n_open--;
    pthread_mutex_unlock(&all->lock);
    if (e->status)
        rf_api_answer_error(w->out, e);
    else
        rf_api_answer(w->out, 200, "application/json", &w->body);
    rf_outbox_drop(w->out);
    drop(t);
}

bool rf_embeds_step(rf_embeds *all) {
    bool cancelling;
    rf_embed_task *t = take_first(all, &cancelling);
    if (!t) return false;
    rf_api_error e = {0};
    uint64_t start = rf_time_us();
    bool goes_on = false;
    if (cancelling || atomic_load(&t->own->left))
        rf_api_fail(&e, 499, "cancelled", NULL, "the request was cancelled");
    else
        goes_on = work(all, t, &e) && t->n_done < t->params.n_prompts && !t->own->body.failed;
    t->own->work_us += rf_time_us() - start;
    if (!goes_on) {
        answer(all, t, &e);
        return true;
    }
    pthread_mutex_lock(&all->lock);
    append(all, t);
    pthread_mutex_unlock(&all->lock);
    return true;
}

/* ---- all tasks ---- */

rf_status rf_embeds_create(rf_embeds **out, const rf_embeds_opts *opts, rf_error *e) {
    rf_embeds *all = *out = rf_alloc(1, sizeof *all);
    if (!all) return rf_fail_nomem(e, sizeof *all);
    all->o = *opts;
    all->last = &all->first;
    all->task_us = FIRST_GUESS_US;
    pthread_mutex_init(&all->lock, NULL);
    return RF_OK;
}

void rf_embeds_free(rf_embeds *all) {
    if (!all) return;
    RF_ASSERT(all->n_open == 0);
    pthread_mutex_destroy(&all->lock);
    rf_free(all);
}

void rf_embeds_refuse_new(rf_embeds *all) {
    pthread_mutex_lock(&all->lock);
    all->refusing = true;
    pthread_mutex_unlock(&all->lock);
}

void rf_embeds_cancel_all(rf_embeds *all) {
    pthread_mutex_lock(&all->lock);
    all->cancelling = true;
    pthread_mutex_unlock(&all->lock);
}

uint32_t rf_embeds_n_open(rf_embeds *all) {
    pthread_mutex_lock(&all->lock);
    uint32_t n = all->n_open;
    pthread_mutex_unlock(&all->lock);
    return n;
}
