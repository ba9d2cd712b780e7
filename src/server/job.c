/* job.c - from prompts to submitted requests, from events to text, and what is known of jobs.
 *
 * Locks, in this order: a job's, the registry's, an outbox's or the engine's.  References: one of
 * the registry (open jobs and the latest finished ones), one of the outbox, one while answers are
 * open. */
#include "server/job.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/os.h"
#include "server/sse.h"

enum { KEPT_FINISHED = 256, MAX_RETRY_SECONDS = 600, FIRST_GUESS_US = 2000000 };

typedef struct rf_job_private {
    atomic_uint n_refs;
    pthread_mutex_t lock; /* guards the job */
    rf_outbox *out;       /* NULL once the job is over */
    rf_buf scratch;
    uint32_t n_open; /* choices */
    bool cancelled;
    rf_job_state state;
    rf_trace_context trace;
    char error[200];
    rf_job *next; /* in the registry */
} own;

struct rf_jobs {
    rf_jobs_opts o;
    uint32_t max_running;
    pthread_mutex_t lock; /* guards what follows */
    rf_job *open;
    rf_job *finished[KEPT_FINISHED]; /* a ring */
    size_t n_finished;               /* ever */
    uint32_t n_choices;              /* open ones */
    double service_us;               /* how long an answer is worked on, on average */
    bool refusing;
};

const char *rf_job_state_name(rf_job_state s) {
    static const char *const names[] = {"waiting", "running", "finished", "failed", "cancelled"};
    return names[s];
}

/* ---- life ---- */

static void release_work(rf_job *j) { /* what only a running job needs */
    for (size_t i = 0; j->prompts && i < j->params.n_prompts; i++)
        rf_ids_free(&j->prompts[i]);
    rf_free(j->prompts);
    j->prompts = NULL;
    rf_params_free(&j->params);
    for (uint32_t i = 0; i < j->n_choices; i++)
        for (size_t k = 0; k < RF_COUNT(j->choices[i].logprobs); k++)
            rf_buf_free(&j->choices[i].logprobs[k]);
    for (uint32_t i = 0; i < j->n_choices; i++) {
        rf_reply_free(j->choices[i].reply);
        rf_blocks_free(j->choices[i].blocks);
        j->choices[i].reply = NULL;
        j->choices[i].blocks = NULL;
    }
    rf_buf_free(&j->own->scratch);
}

static void drop(rf_job *j) {
    if (atomic_fetch_sub(&j->own->n_refs, 1) != 1) return;
    release_work(j);
    for (uint32_t i = 0; i < j->n_choices; i++)
        rf_buf_free(&j->choices[i].text);
    pthread_mutex_destroy(&j->own->lock);
    rf_free(j->choices);
    rf_free(j->own);
    rf_free(j);
}

static rf_job *keep(rf_job *j) {
    atomic_fetch_add(&j->own->n_refs, 1);
    return j;
}

static rf_job *create(rf_jobs *all, const rf_writer *writer, const rf_origin *from,
                      rf_params *params, rf_ids *ids) {
    uint32_t n = (uint32_t)(params->n_prompts * (size_t)params->n);
    rf_job *j = rf_alloc(1, sizeof *j);
    own *w = rf_alloc(1, sizeof *w);
    rf_choice *choices = rf_alloc(n, sizeof *choices);
    if (!j || !w || !choices) {
        rf_free(j);
        rf_free(w);
        rf_free(choices);
        for (size_t i = 0; i < params->n_prompts; i++)
            rf_ids_free(&ids[i]);
        rf_free(ids);
        rf_params_free(params);
        return NULL;
    }
    *j = (rf_job){.jobs = all,
                  .writer = writer,
                  .caller = from->caller,
                  .model = all->o.model,
                  .engine = all->o.engine,
                  .format = all->o.format,
                  .created = (int64_t)time(NULL),
                  .start_us = rf_time_us(),
                  .params = *params,
                  .prompts = ids,
                  .choices = choices,
                  .n_choices = n,
                  .own = w};
    *params = (rf_params){0};
    snprintf(j->id, sizeof j->id, "%s%s", writer->id_prefix, from->request_id);
    w->trace = from->trace;
    atomic_store(&w->n_refs, 1);
    pthread_mutex_init(&w->lock, NULL);
    w->n_open = n;
    for (uint32_t i = 0; i < n; i++)
        choices[i] = (rf_choice){.job = j, .index = i, .stop = -1};
    return j;
}

/* ---- the registry ---- */

/* How long until a place is free, from how long answers take; the lock is held. */
static int retry_after(const rf_jobs *all) {
    double ahead = (double)all->n_choices / all->max_running;
    double seconds = ahead * all->service_us / 1e6;
    return seconds < 1 ? 1 : seconds > MAX_RETRY_SECONDS ? MAX_RETRY_SECONDS : (int)(seconds + 1);
}

static bool enter(rf_jobs *all, rf_job *j, rf_api_error *e) {
    pthread_mutex_lock(&all->lock);
    uint32_t room = all->max_running + all->o.max_waiting;
    bool full = all->n_choices + j->n_choices > room;
    if (all->refusing)
        rf_api_fail(e, 503, "shutting_down", NULL, "the server is stopping");
    else if (full && j->n_choices > room)
        rf_api_fail(e, 400, "invalid_value", "n", "%u answers at once; this server takes %u",
                    j->n_choices, room);
    else if (full)
        rf_api_fail(e, 429, "queue_full", NULL,
                    "%u answers are open and the queue is full; try again later", all->n_choices);
    if (all->refusing || (full && e->status == 429)) e->retry_after = retry_after(all);
    if (!e->status) {
        all->n_choices += j->n_choices;
        j->own->next = all->open;
        all->open = keep(j);
    }
    pthread_mutex_unlock(&all->lock);
    return !e->status;
}

/* The registry's reference goes to the ring of finished jobs, or away when the job never began. */
static void leave(rf_jobs *all, rf_job *j, bool began) {
    pthread_mutex_lock(&all->lock);
    rf_job **at = &all->open;
    while (*at != j)
        at = &(*at)->own->next;
    *at = j->own->next;
    rf_job *old = j;
    if (began) {
        size_t slot = all->n_finished++ % KEPT_FINISHED;
        old = all->finished[slot];
        all->finished[slot] = j;
    }
    pthread_mutex_unlock(&all->lock);
    if (old) drop(old);
}

static void count_service(rf_jobs *all, uint32_t n_choices, uint64_t us) {
    pthread_mutex_lock(&all->lock);
    all->n_choices -= n_choices;
    if (us) all->service_us += ((double)us - all->service_us) / 8;
    pthread_mutex_unlock(&all->lock);
}

/* ---- events, on the engine's thread, with the job locked ---- */

static void on_event(void *user, const rf_event *ev);

static rf_request_opts request_of(const rf_job *j, rf_choice *c) {
    const rf_params *p = &j->params;
    const rf_key *key = j->caller;
    const rf_ids *prompt = &j->prompts[c->index / (uint32_t)p->n];
    rf_request_opts o = {.tokens = prompt->p,
                         .n_tokens = prompt->len,
                         .sampling = p->sampling,
                         .max_tokens = p->max_tokens,
                         .min_tokens = p->min_tokens,
                         .stop = p->stop,
                         .n_stop = p->n_stop,
                         .n_logprobs = p->n_logprobs,
                         .ignore_eos = p->ignore_eos,
                         .with_special = p->with_special,
                         .grammar = p->grammar,
                         .timeout_ms = (uint32_t)p->timeout_ms,
                         .flow = (uint64_t)(uintptr_t)j->caller,
                         .weight = key ? key->weight : 1,
                         .priority = p->priority,
                         .on_event = on_event,
                         .user = c,
                         .prefix_salt = key ? key->prefix_salt : 0,
                         .no_speculation = !p->speculate};
    o.sampling.seed += c->index % (uint32_t)p->n;
    return o;
}

static bool submit(rf_job *j, rf_choice *c, rf_api_error *e) {
    const rf_request_opts o = request_of(j, c);
    rf_text why;
    int s = rf_engine_submit(j->engine, &o, &c->request, &why);
    return s == ROCMFORGE_OK ? true : rf_api_fail_status(e, (rf_status)s, why.text);
}

/* The registry would not take the job.  One that the engine would not take either is told that: to
 * come again later would not help it. */
static void turn_away(rf_jobs *all, rf_job *j, const rf_api_error *full, rf_api_error *e) {
    rf_api_error wrong = {.style = e->style};
    for (uint32_t i = 0; i < j->n_choices && !wrong.status; i += (uint32_t)j->params.n) {
        const rf_request_opts o = request_of(j, &j->choices[i]);
        rf_text why;
        int s = rf_engine_check(j->engine, &o, &why);
        if (s != ROCMFORGE_OK && s != ROCMFORGE_ENOMEM)
            rf_api_fail_status(&wrong, (rf_status)s, why.text);
    }
    if (!wrong.status) rf_metrics_add(all->o.metrics, RF_M_REJECTED, 1);
    *e = wrong.status ? wrong : *full;
}

/* The answers to the same prompt that wait for their first one. */
static rf_choice *siblings(rf_choice *c, uint32_t *n) {
    uint32_t each = (uint32_t)c->job->params.n;
    *n = c->index % each == 0 ? each - 1 : 0;
    return c + 1;
}

static void send(rf_job *j) {
    own *w = j->own;
    if (!w->scratch.failed) rf_outbox_put(w->out, w->scratch.p, w->scratch.len);
    rf_buf_clear(&w->scratch);
}

static void take_first_token(rf_job *j, rf_choice *c, const rf_event *ev, uint64_t now) {
    rf_metrics *m = j->jobs->o.metrics;
    uint64_t ttft = now - j->start_us;
    c->first_us = now;
    c->queue_us = ttft > ev->prompt_us ? ttft - ev->prompt_us : 0;
    j->own->state = RF_JOB_RUNNING;
    rf_metrics_observe(m, RF_M_TTFT_S, ttft);
    rf_metrics_observe(m, RF_M_QUEUE_S, c->queue_us);
    rf_metrics_observe(m, RF_M_PREFILL_S, ev->prompt_us);
    rf_metrics_add(m, RF_M_PROMPT_TOKENS, ev->n_prompt);
    rf_metrics_add(m, RF_M_CACHED_TOKENS, ev->n_cached);
}

static void take_counts(rf_choice *c, const rf_event *ev) {
    rf_metrics *m = c->job->jobs->o.metrics;
    rf_metrics_add(m, RF_M_DRAFTED, ev->n_drafted - c->n_drafted);
    rf_metrics_add(m, RF_M_DRAFT_ACCEPTED, ev->n_accepted - c->n_accepted);
    c->n_drafted = ev->n_drafted;
    c->n_accepted = ev->n_accepted;
    c->n_prompt = ev->n_prompt;
    c->n_cached = ev->n_cached;
    c->n_generated = ev->n_generated;
    c->prompt_us = ev->prompt_us;
    c->decode_us = ev->decode_us;
    c->stop = ev->stop;
}

static void take_token(rf_job *j, rf_choice *c, const rf_event *ev) {
    uint64_t now = rf_time_us();
    rf_metrics_tokens(j->jobs->o.metrics, 1, now);
    if (!c->first_us)
        take_first_token(j, c, ev, now);
    else
        rf_metrics_observe(j->jobs->o.metrics, RF_M_ITL_S, now - c->last_us);
    c->last_us = now;
}

static void write_event(rf_job *j, rf_choice *c, const rf_event *ev) {
    const rf_writer *w = j->writer;
    bool stream = j->params.stream;
    if (!stream || w->keeps_text) rf_buf_put(&c->text, ev->text, ev->text_len);
    if (!stream) {
        w->note(j, c, ev);
        return;
    }
    w->delta(j, c, ev, &j->own->scratch);
    if (w->finish && (ev->finish == RF_FINISH_STOP || ev->finish == RF_FINISH_LENGTH))
        w->finish(j, c, &j->own->scratch);
    if (j->own->scratch.len) send(j);
}

static bool any_buffer_failed(const rf_job *j) {
    bool failed = j->own->scratch.failed;
    for (uint32_t i = 0; i < j->n_choices; i++) {
        failed = failed || j->choices[i].text.failed;
        for (size_t k = 0; k < RF_COUNT(j->choices[i].logprobs); k++)
            failed = failed || j->choices[i].logprobs[k].failed;
    }
    return failed;
}

/* What the job became, before anybody is told. */
static void settle(rf_job *j) {
    own *w = j->own;
    if (!w->error[0] && !w->cancelled && any_buffer_failed(j))
        snprintf(w->error, sizeof w->error, "out of memory");
    w->state = w->error[0] ? RF_JOB_FAILED : w->cancelled ? RF_JOB_CANCELLED : RF_JOB_FINISHED;
    rf_metrics_add(j->jobs->o.metrics,
                   w->state == RF_JOB_FINISHED ? RF_M_COMPLETED
                   : w->state == RF_JOB_FAILED ? RF_M_FAILED
                                               : RF_M_CANCELLED,
                   1);
    rf_metrics_observe(j->jobs->o.metrics, RF_M_TOTAL_S, rf_time_us() - j->start_us);
}

static void write_end(rf_job *j) {
    own *w = j->own;
    rf_api_error e = {.style = j->writer->style};
    if (w->state == RF_JOB_FAILED) rf_api_fail(&e, 500, "engine_error", NULL, "%s", w->error);
    if (w->state == RF_JOB_CANCELLED)
        rf_api_fail(&e, 499, "cancelled", NULL, "the request was cancelled");
    w->scratch.failed = false;
    rf_buf_clear(&w->scratch);
    if (e.status && !j->params.stream) {
        rf_api_answer_error(w->out, &e);
        return;
    }
    if (e.status)
        j->writer->error(j, &e, &w->scratch);
    else if (j->params.stream)
        j->writer->end(j, &w->scratch);
    else
        j->writer->whole(j, &w->scratch);
    if (w->scratch.failed) rf_outbox_start(w->out, 500, "application/json");
    send(j);
    rf_outbox_end(w->out);
}

static void log_end(const rf_job *j) {
    uint32_t generated = 0;
    for (uint32_t i = 0; i < j->n_choices; i++)
        generated += j->choices[i].n_generated;
    const rf_choice *c = &j->choices[0];
    rf_log_write(RF_LOG_INFO,
                 "job=%s state=%s answers=%u prompt_tokens=%u cached_tokens=%u tokens=%u "
                 "queue_ms=%.1f prefill_ms=%.1f decode_ms=%.1f total_ms=%.1f",
                 j->id, rf_job_state_name(j->own->state), j->n_choices, c->n_prompt, c->n_cached,
                 generated, (double)c->queue_us / 1e3, (double)c->prompt_us / 1e3,
                 (double)c->decode_us / 1e3, (double)(rf_time_us() - j->start_us) / 1e3);
}

static void trace_end(const rf_job *j) {
    const rf_choice *c = &j->choices[0];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    rf_trace t = {.state = rf_job_state_name(j->own->state),
                  .from = j->own->trace,
                  .total_us = rf_time_us() - j->start_us,
                  .n_answers = j->n_choices};
    t.start_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000 - t.total_us;
    for (uint32_t i = 0; i < j->n_choices; i++) {
        t.n_prompt += i % (uint32_t)j->params.n ? 0 : j->choices[i].n_prompt;
        t.n_cached += i % (uint32_t)j->params.n ? 0 : j->choices[i].n_cached;
        t.n_generated += j->choices[i].n_generated;
    }
    if (c->first_us) {
        t.queue_us = c->queue_us;
        t.prefill_us = c->first_us - j->start_us - c->queue_us;
        t.decode_us = t.total_us - t.queue_us - t.prefill_us;
    }
    snprintf(t.id, sizeof t.id, "%s", j->id);
    snprintf(t.model, sizeof t.model, "%s", j->model);
    rf_traces_add(j->jobs->o.traces, &t);
}

/* The last choice is over: the answer goes out, the job becomes a record. */
static void end(rf_job *j) {
    settle(j);
    if (j->jobs->o.traces) trace_end(j);
    write_end(j);
    log_end(j);
    release_work(j);
}

static void close_choice(rf_job *j, rf_choice *c, rf_finish finish, const char *error) {
    if (c->finish != RF_FINISH_NONE) return;
    c->finish = finish;
    j->own->n_open--;
    if (finish == RF_FINISH_CANCELLED) j->own->cancelled = true;
    if (finish == RF_FINISH_ERROR && !j->own->error[0])
        snprintf(j->own->error, sizeof j->own->error, "%.*s", (int)sizeof j->own->error - 1,
                 error ? error : "the engine failed");
    if (c->first_us) rf_metrics_observe(j->jobs->o.metrics, RF_M_DECODE_S, c->decode_us);
    count_service(j->jobs, 1, c->prompt_us + c->decode_us);
}

/* Starts the other answers to the prompt, or ends them with the one they wait for. */
static void follow(rf_job *j, rf_choice *c, const rf_event *ev) {
    uint32_t n;
    rf_choice *s = siblings(c, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (s[i].request || s[i].finish != RF_FINISH_NONE) continue;
        rf_api_error e = {0};
        if (ev->token < 0 || j->own->cancelled)
            close_choice(j, &s[i], ev->finish == RF_FINISH_NONE ? RF_FINISH_CANCELLED : ev->finish,
                         ev->error);
        else if (!submit(j, &s[i], &e))
            close_choice(j, &s[i], RF_FINISH_ERROR, e.message);
    }
}

static void on_event(void *user, const rf_event *ev) {
    rf_choice *c = user;
    rf_job *j = c->job;
    own *w = j->own;
    rf_outbox *out = NULL;
    pthread_mutex_lock(&w->lock);
    take_counts(c, ev);
    if (ev->token >= 0) take_token(j, c, ev);
    if (ev->finish != RF_FINISH_NONE) close_choice(j, c, ev->finish, ev->error);
    write_event(j, c, ev);
    follow(j, c, ev);
    bool over = w->n_open == 0 && w->out;
    if (over) {
        end(j);
        out = w->out;
        w->out = NULL;
    }
    pthread_mutex_unlock(&w->lock);
    if (!over) return;
    leave(j->jobs, j, true);
    rf_outbox_drop(out);
    drop(j);
}

/* ---- cancelling ---- */

static void cancel(rf_job *j) {
    pthread_mutex_lock(&j->own->lock);
    if (j->own->n_open) j->own->cancelled = true;
    for (uint32_t i = 0; i < j->n_choices; i++)
        if (j->choices[i].request && j->choices[i].finish == RF_FINISH_NONE)
            rf_engine_cancel(j->engine, j->choices[i].request);
    pthread_mutex_unlock(&j->own->lock);
}

static void client_left(void *user) { cancel(user); }
static void release_job(void *user) { drop(user); }

/* ---- start ---- */

/* The first answer of each prompt; the job is locked.  False: the first of all was refused. */
static bool submit_first_ones(rf_job *j, rf_api_error *e) {
    uint32_t each = (uint32_t)j->params.n;
    for (uint32_t i = 0; i < j->n_choices; i += each) {
        rf_api_error why = {.style = e->style};
        if (submit(j, &j->choices[i], &why)) continue;
        if (i == 0) {
            *e = why;
            return false;
        }
        for (uint32_t k = i; k < j->n_choices; k++)
            close_choice(j, &j->choices[k], RF_FINISH_ERROR, why.message);
        return true;
    }
    return true;
}

bool rf_jobs_start(rf_jobs *all, const rf_writer *writer, const rf_origin *from, rf_params *params,
                   rf_ids *ids, rf_outbox *out, rf_api_error *e) {
    rf_job *j = create(all, writer, from, params, ids);
    if (!j) return rf_api_fail(e, 503, "out_of_memory", NULL, "out of memory");
    rf_api_error full = {.style = e->style};
    if (!enter(all, j, &full)) {
        turn_away(all, j, &full, e);
        drop(j);
        return false;
    }
    own *w = j->own;
    keep(j); /* for the outbox: the job may be over before it is told */
    pthread_mutex_lock(&w->lock);
    w->out = rf_outbox_keep(out);
    bool ok = submit_first_ones(j, e);
    if (ok && j->params.stream) {
        rf_outbox_start(out, 200, "text/event-stream");
        rf_outbox_stream(out);
        writer->start(j, &w->scratch);
        if (w->scratch.len) send(j);
    }
    if (ok) rf_metrics_add(all->o.metrics, RF_M_STARTED, 1);
    if (!ok) w->out = NULL;
    bool cancelled = w->cancelled; /* all were, between enter and here */
    pthread_mutex_unlock(&w->lock);
    if (ok && cancelled) cancel(j);
    if (ok) {
        rf_outbox_watch(out, client_left, release_job, j);
        return true;
    }
    count_service(all, j->n_choices, 0);
    leave(all, j, false);
    rf_engine_wake(all->o.engine); /* whoever waits for the last job looks again */
    rf_outbox_drop(out);
    drop(j); /* the outbox's */
    drop(j);
    return false;
}

/* ---- all jobs ---- */

rf_status rf_jobs_create(rf_jobs **out, const rf_jobs_opts *opts, rf_error *e) {
    rf_jobs *all = *out = rf_alloc(1, sizeof *all);
    if (!all) return rf_fail_nomem(e, sizeof *all);
    rf_engine_stats stats;
    rf_engine_get_stats(opts->engine, &stats);
    all->o = *opts;
    all->max_running = stats.max_running;
    all->service_us = FIRST_GUESS_US;
    pthread_mutex_init(&all->lock, NULL);
    return RF_OK;
}

void rf_jobs_free(rf_jobs *all) {
    if (!all) return;
    RF_ASSERT(!all->open);
    for (size_t i = 0; i < KEPT_FINISHED; i++)
        if (all->finished[i]) drop(all->finished[i]);
    pthread_mutex_destroy(&all->lock);
    rf_free(all);
}

void rf_jobs_refuse_new(rf_jobs *all) {
    pthread_mutex_lock(&all->lock);
    all->refusing = true;
    pthread_mutex_unlock(&all->lock);
}

uint32_t rf_jobs_n_open(rf_jobs *all) {
    pthread_mutex_lock(&all->lock);
    uint32_t n = all->n_choices;
    pthread_mutex_unlock(&all->lock);
    return n;
}

/* One more reference to each open job: [*n], freed by the caller; NULL without memory. */
static rf_job **open_jobs(rf_jobs *all, size_t *n) {
    pthread_mutex_lock(&all->lock);
    size_t count = 0;
    for (rf_job *j = all->open; j; j = j->own->next)
        count++;
    rf_job **list = rf_alloc(count, sizeof *list);
    *n = 0;
    for (rf_job *j = list ? all->open : NULL; j; j = j->own->next)
        list[(*n)++] = keep(j);
    pthread_mutex_unlock(&all->lock);
    return list;
}

void rf_jobs_cancel_all(rf_jobs *all) {
    size_t n;
    rf_job **list = open_jobs(all, &n);
    for (size_t i = 0; i < n; i++) {
        cancel(list[i]);
        drop(list[i]);
    }
    rf_free(list);
}

void rf_jobs_tick(rf_jobs *all) {
    size_t n;
    rf_job **list = open_jobs(all, &n);
    for (size_t i = 0; i < n; i++) {
        own *w = list[i]->own;
        const char *own_ping = list[i]->writer->ping;
        rf_str ping = own_ping ? rf_str_of(own_ping) : RF_SSE_PING;
        pthread_mutex_lock(&w->lock);
        if (w->out) rf_outbox_ping(w->out, all->o.ping_seconds * (uint64_t)1000000, ping);
        pthread_mutex_unlock(&w->lock);
        drop(list[i]);
    }
    rf_free(list);
}

/* ---- by id ---- */

static rf_job *find(rf_jobs *all, rf_str id, const void *caller, bool any) {
    rf_job *found = NULL;
    pthread_mutex_lock(&all->lock);
    for (rf_job *j = all->open; j && !found; j = j->own->next)
        if (rf_str_is(id, j->id)) found = j;
    for (size_t i = 0; i < KEPT_FINISHED && !found; i++)
        if (all->finished[i] && rf_str_is(id, all->finished[i]->id)) found = all->finished[i];
    if (found && !any && found->caller != caller) found = NULL;
    if (found) keep(found);
    pthread_mutex_unlock(&all->lock);
    return found;
}

static rf_job_state state_of(const rf_job *j) { /* locked */
    rf_job_state s = j->own->state;
    for (uint32_t i = 0; s == RF_JOB_WAITING && i < j->n_choices; i++)
        if (j->choices[i].request && rf_engine_is_running(j->engine, j->choices[i].request))
            s = RF_JOB_RUNNING;
    return s;
}

static const char *finish_name(rf_finish f) {
    static const char *const names[] = {"", "stop", "length", "cancelled", "error"};
    return names[f];
}

static void put_counts(const rf_job *j, rf_buf *out) {
    uint32_t prompt = 0, cached = 0, generated = 0;
    for (uint32_t i = 0; i < j->n_choices; i++) {
        prompt += j->choices[i].n_prompt;
        cached += j->choices[i].n_cached;
        generated += j->choices[i].n_generated;
    }
    rf_buf_printf(out, "{\"id\":\"%s\",\"model\":", j->id);
    rf_buf_json_str(out, rf_str_of(j->model));
    rf_buf_printf(out,
                  ",\"state\":\"%s\",\"created\":%lld,\"answers\":%u,"
                  "\"prompt_tokens\":%u,\"cached_tokens\":%u,\"generated_tokens\":%u",
                  rf_job_state_name(state_of(j)), (long long)j->created, j->n_choices, prompt,
                  cached, generated);
}

bool rf_jobs_describe(rf_jobs *all, rf_str id, const void *caller, bool any, rf_buf *out) {
    rf_job *j = find(all, id, caller, any);
    if (!j) return false;
    pthread_mutex_lock(&j->own->lock);
    put_counts(j, out);
    const rf_choice *c = &j->choices[0];
    if (c->finish != RF_FINISH_NONE)
        rf_buf_printf(out, ",\"finish_reason\":\"%s\"", finish_name(c->finish));
    rf_buf_puts(out, ",\"text\":");
    rf_buf_json_str(out, rf_buf_str(&c->text));
    if (j->own->error[0]) {
        rf_buf_puts(out, ",\"error\":");
        rf_buf_json_str(out, rf_str_of(j->own->error));
    }
    rf_buf_putc(out, '}');
    pthread_mutex_unlock(&j->own->lock);
    drop(j);
    return true;
}

bool rf_jobs_cancel(rf_jobs *all, rf_str id, const void *caller, bool any) {
    rf_job *j = find(all, id, caller, any);
    if (!j) return false;
    cancel(j);
    drop(j);
    return true;
}

void rf_jobs_list(rf_jobs *all, rf_buf *out) {
    size_t n;
    rf_job **list = open_jobs(all, &n);
    for (size_t i = 0; i < n; i++) {
        if (out->len && out->p[out->len - 1] != '[') rf_buf_putc(out, ',');
        pthread_mutex_lock(&list[i]->own->lock);
        put_counts(list[i], out);
        pthread_mutex_unlock(&list[i]->own->lock);
        rf_buf_putc(out, '}');
        drop(list[i]);
    }
    rf_free(list);
}

int rf_jobs_retry_after(rf_jobs *all) {
    pthread_mutex_lock(&all->lock);
    int seconds = all->n_choices ? retry_after(all) : 0;
    pthread_mutex_unlock(&all->lock);
    return seconds;
}
