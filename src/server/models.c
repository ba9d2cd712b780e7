/* models.c - a table of models, the requests that wait for them, and the thread that loads them.
 *
 * The lock guards states, holds and waiting requests; a slot is opened, closed and used without it.
 * Only the loader's thread closes a slot: one that was marked as UNLOADING, which nobody can hold from
 * then on, once those that did have let go, if they gave it no more work. */
#include "server/models.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/os.h"
#include "gguf/gguf.h"

enum { RETRY_US = 10000000 }; /* a model that could not be opened is not tried again for so long */

typedef struct waiter { /* a request, copied */
    struct waiter *next;
    rf_http_request r;
    rf_buf text; /* its path and body */
    rf_outbox *out;
} waiter;

typedef struct model {
    const char *id, *path;
    bool at_start;
    rf_metrics metrics;
    /* guarded by the lock */
    rf_model_state state;
    rf_slot *slot; /* while LOADED and UNLOADING */
    uint32_t n_holds;
    uint64_t bytes;     /* what it took when it was loaded last; 0: never was */
    uint64_t asked_us;  /* when its load or its end was asked for */
    uint64_t used_us;   /* when it was used last */
    uint64_t failed_us; /* when it could not be opened; 0: it could */
    waiter *first, **last;
    rf_engine_stats closed; /* totals of engines that were closed */
} model;

typedef struct alias {
    const char *name;
    size_t model;
} alias;

struct rf_models {
    rf_models_opts o;
    rf_arena *arena; /* of texts */
    model *all;      /* [n] */
    alias *names;    /* [o.n_names], the models' ids too */
    size_t n;
    bool started; /* the loader; before that no model takes another's place */
    pthread_t loader;
    pthread_mutex_t lock;    /* guards what follows, and the models */
    pthread_cond_t work;     /* the loader has something to do */
    pthread_cond_t released; /* a model that is UNLOADING is held no more */
    size_t n_waiting, waiting_bytes;
    bool refusing, stopping;
};

const char *rf_model_state_name(rf_model_state s) {
    static const char *const names[] = {"unloaded", "loading", "loaded", "unloading"};
    return names[s];
}

/* ---- names ---- */

static void list_names(const rf_models *m, char *out, size_t cap) {
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < m->n && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s'%s'", i ? ", " : "", m->all[i].id);
    if (n >= cap) memcpy(out + cap - 4, "...", 4);
}

static model *find(rf_models *m, rf_str name, rf_api_error *e) {
    char known[200];
    if (name.len == 0 && (m->n == 1 || m->all[0].at_start)) return &m->all[0];
    for (size_t i = 0; name.len && i < m->o.n_names; i++)
        if (rf_str_is(name, m->names[i].name)) return &m->all[m->names[i].model];
    list_names(m, known, sizeof known);
    if (name.len == 0)
        rf_api_fail(e, 400, "missing_required_parameter", "model",
                    "this server has several models; name one as model: %s", known);
    else
        rf_api_fail(e, 404, "model_not_found", "model",
                    "there is no model '%.*s' here; this server has %s",
                    (int)(name.len > 80 ? 80 : name.len), name.p, known);
    return NULL;
}

long rf_models_find(rf_models *m, rf_str name, rf_api_error *e) {
    const model *t = find(m, name, e);
    return t ? t - m->all : -1;
}

size_t rf_models_count(const rf_models *m) { return m->n; }

const char *rf_models_alias(const rf_models *m, size_t i, size_t k) {
    for (size_t j = 0; j < m->o.n_names; j++)
        if (m->names[j].model == i && m->names[j].name != m->all[i].id && k-- == 0)
            return m->names[j].name;
    return NULL;
}

/* ---- requests that wait ---- */

static void free_waiter(waiter *w) {
    rf_outbox_drop(w->out);
    rf_buf_free(&w->text);
    rf_free(w);
}

/* The lock is held. */
static bool add_waiter(rf_models *m, model *t, const rf_http_request *r, rf_outbox *o,
                       rf_api_error *e) {
    if (m->n_waiting >= m->o.max_waiting ||
        m->waiting_bytes + r->body.len > m->o.max_waiting_bytes) {
        e->retry_after = 1;
        return rf_api_fail(e, 429, "queue_full", NULL,
                           "%zu requests wait for a model to be loaded; try again later",
                           m->n_waiting);
    }
    waiter *w = rf_alloc(1, sizeof *w);
    if (!w) return rf_api_fail_status(e, RF_ENOMEM, "out of memory");
    rf_buf_put(&w->text, r->path.p, r->path.len);
    rf_buf_put(&w->text, r->body.p, r->body.len);
    if (w->text.failed) {
        free_waiter(w);
        return rf_api_fail_status(e, RF_ENOMEM, "out of memory");
    }
    w->r = *r;
    w->r.connection = NULL; /* may be gone when the request goes on, like its other texts */
    w->r.method = "";
    w->r.query = (rf_str){"", 0};
    w->r.path = (rf_str){w->text.p, r->path.len};
    w->r.body = (rf_str){w->text.p + r->path.len, r->body.len};
    w->out = rf_outbox_keep(o);
    *t->last = w;
    t->last = &w->next;
    m->n_waiting++;
    m->waiting_bytes += r->body.len;
    return true;
}

/* All that wait for a model go on, or are told what went wrong (NULL: nothing). */
static void wake_waiters(rf_models *m, model *t, const rf_api_error *wrong) {
    pthread_mutex_lock(&m->lock);
    waiter *w = t->first;
    t->first = NULL;
    t->last = &t->first;
    for (const waiter *i = w; i; i = i->next) {
        m->n_waiting--;
        m->waiting_bytes -= i->r.body.len;
    }
    pthread_mutex_unlock(&m->lock);
    for (waiter *next; w; w = next) {
        next = w->next;
        if (wrong) {
            rf_api_error e = *wrong;
            e.style = rf_api_style_of(w->r.path);
            rf_api_answer_error(w->out, &e);
        } else {
            m->o.resume(m->o.user, &w->r, w->out);
        }
        free_waiter(w);
    }
}

/* ---- holding ---- */

/* The lock is held. */
static bool is_idle(const model *t) {
    return t->state == RF_MODEL_LOADED && rf_slot_n_open(t->slot) == 0;
}

/* The lock is held. */
static bool wait_for(rf_models *m, model *t, const rf_http_request *r, rf_outbox *o,
                     rf_api_error *e) {
    uint64_t now = rf_time_us();
    if (m->refusing) return rf_api_fail(e, 503, "shutting_down", NULL, "the server is stopping");
    if (t->failed_us && now - t->failed_us < RETRY_US) {
        e->retry_after = RETRY_US / 1000000;
        return rf_api_fail(e, 503, "model_load_failed", "model",
                           "model '%s' could not be loaded; the server's log says why", t->id);
    }
    if (!add_waiter(m, t, r, o, e)) return false;
    if (t->state == RF_MODEL_UNLOADED) {
        t->state = RF_MODEL_LOADING;
        t->asked_us = now;
        pthread_cond_signal(&m->work);
    }
    return true;
}

bool rf_models_hold(rf_models *m, rf_str name, const rf_http_request *r, rf_outbox *o,
                    rf_slot **out, rf_api_error *e) {
    *out = NULL;
    model *t = find(m, name, e);
    if (!t) return false;
    pthread_mutex_lock(&m->lock);
    bool ok = true;
    if (t->state == RF_MODEL_LOADED) {
        t->n_holds++;
        t->used_us = rf_time_us();
        *out = t->slot;
    } else {
        ok = wait_for(m, t, r, o, e);
    }
    pthread_mutex_unlock(&m->lock);
    return ok;
}

void rf_models_release(rf_models *m, rf_slot *s) {
    if (!s) return;
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->n; i++)
        if (m->all[i].slot == s && --m->all[i].n_holds == 0) pthread_cond_signal(&m->released);
    pthread_mutex_unlock(&m->lock);
}

bool rf_models_unload(rf_models *m, rf_str name, const rf_http_request *r, rf_outbox *o,
                      const char **id, bool *done, rf_api_error *e) {
    model *t = find(m, name, e);
    if (!t) return false;
    *id = t->id;
    pthread_mutex_lock(&m->lock);
    *done = t->state == RF_MODEL_UNLOADED;
    bool ok = true;
    if (m->refusing)
        ok = rf_api_fail(e, 503, "shutting_down", NULL, "the server is stopping");
    else if (t->state == RF_MODEL_LOADING || (t->state == RF_MODEL_LOADED && !is_idle(t)))
        ok = rf_api_fail(e, 409, "model_busy", "model", "model '%s' is in use", t->id);
    else if (!*done)
        ok = add_waiter(m, t, r, o, e);
    if (ok && t->state == RF_MODEL_LOADED) {
        t->state = RF_MODEL_UNLOADING;
        t->asked_us = rf_time_us();
        pthread_cond_signal(&m->work);
    }
    pthread_mutex_unlock(&m->lock);
    return ok;
}

static void add_totals(rf_engine_stats *sum, const rf_engine_stats *s) {
    sum->kv_hits += s->kv_hits;
    sum->kv_misses += s->kv_misses;
    sum->kv_evictions += s->kv_evictions;
    sum->n_preemptions += s->n_preemptions;
    sum->n_swapped_out += s->n_swapped_out;
    sum->n_swapped_in += s->n_swapped_in;
}

void rf_models_view(rf_models *m, size_t i, rf_model_view *out) {
    model *t = &m->all[i];
    pthread_mutex_lock(&m->lock);
    *out = (rf_model_view){.id = t->id, .state = t->state, .metrics = &t->metrics};
    const rf_engine_stats closed = t->closed;
    if (t->state == RF_MODEL_LOADED) {
        t->n_holds++;
        out->slot = t->slot;
        out->bytes = t->bytes;
    }
    pthread_mutex_unlock(&m->lock);
    if (out->slot) rf_engine_get_stats(out->slot->engine, &out->stats);
    add_totals(&out->stats, &closed);
}

/* ---- the loader's thread ---- */

/* Waits until nobody holds it.  False: it was given work, and stays. */
static bool is_free_to_go(rf_models *m, model *t) {
    pthread_mutex_lock(&m->lock);
    while (t->n_holds)
        pthread_cond_wait(&m->released, &m->lock);
    bool idle = rf_slot_n_open(t->slot) == 0;
    if (!idle) t->state = RF_MODEL_LOADED;
    pthread_mutex_unlock(&m->lock);
    if (!idle) wake_waiters(m, t, NULL);
    return idle;
}

static void unload(rf_models *m, model *t) { /* marked as UNLOADING */
    rf_engine_stats stats;
    if (!is_free_to_go(m, t)) return;
    rf_engine_get_stats(t->slot->engine, &stats);
    rf_slot_close(t->slot);
    rf_log_write(RF_LOG_INFO, "model=%s unloaded bytes=%llu", t->id, (unsigned long long)t->bytes);
    pthread_mutex_lock(&m->lock);
    add_totals(&t->closed, &stats);
    t->slot = NULL;
    t->state = RF_MODEL_UNLOADED;
    pthread_mutex_unlock(&m->lock);
    wake_waiters(m, t, NULL);
}

/* Whose place could be taken by t: one that is to go anyway, or the one that is idle for longest.
 * *used: bytes of all others.  The lock is held. */
static model *find_victim(rf_models *m, const model *t, uint64_t *used) {
    model *victim = NULL;
    *used = 0;
    for (model *i = m->all; i < m->all + m->n; i++) {
        if (i == t || !i->slot) continue;
        *used += i->bytes;
        if (i->state == RF_MODEL_UNLOADING) return i;
        if (m->started && is_idle(i) && (!victim || i->used_us < victim->used_us)) victim = i;
    }
    return victim;
}

static rf_status make_room(rf_models *m, const model *t, uint64_t need, rf_error *e) {
    uint64_t budget = m->o.budget, used;
    if (budget && need > budget)
        return rf_fail(e, RF_ENOMEM,
                       "model '%s' takes %llu MB, more than the %llu MB of --models-budget-mb",
                       t->id, (unsigned long long)(need >> 20), (unsigned long long)(budget >> 20));
    for (;;) {
        pthread_mutex_lock(&m->lock);
        model *victim = find_victim(m, t, &used);
        bool fits = !budget || need <= budget - (used < budget ? used : budget);
        if (!fits && victim) victim->state = RF_MODEL_UNLOADING;
        pthread_mutex_unlock(&m->lock);
        if (fits) return RF_OK;
        if (!victim)
            return rf_fail(
                e, RF_EFULL,
                "there is no room for model '%s' beside those that are in use; try again "
                "later, or raise --models-budget-mb",
                t->id);
        unload(m, victim);
    }
}

/* What it will take at least: its file's bytes, or what it took before. */
static rf_status measure(const model *t, uint64_t *need, rf_error *e) {
    rf_gguf *g;
    *need = t->bytes;
    if (*need) return RF_OK;
    RF_TRY(rf_gguf_open(&g, t->path, e));
    *need = rf_gguf_file_bytes(g);
    rf_gguf_close(g);
    return RF_OK;
}

static rf_status load(rf_models *m, model *t, rf_error *e) { /* marked as LOADING */
    uint64_t need, start = rf_time_us();
    rf_slot *slot;
    RF_TRY(measure(t, &need, e));
    RF_TRY(make_room(m, t, need, e));
    rf_slot_opts o = m->o.slot;
    o.name = t->id;
    o.engine.model_path = t->path;
    o.metrics = &t->metrics;
    RF_TRY(rf_slot_open(&slot, &o, e));
    need = rf_slot_bytes(slot);
    rf_status s = make_room(m, t, need, e);
    if (s != RF_OK) rf_slot_close(slot);
    pthread_mutex_lock(&m->lock);
    t->bytes = need;
    if (s == RF_OK) {
        t->slot = slot;
        t->state = RF_MODEL_LOADED;
        t->used_us = rf_time_us();
        if (m->refusing) rf_slot_refuse_new(slot);
    }
    pthread_mutex_unlock(&m->lock);
    if (s == RF_OK) rf_metrics_add(&t->metrics, RF_M_MODEL_LOADS, 1);
    if (s == RF_OK)
        rf_log_write(RF_LOG_INFO, "model=%s loaded bytes=%llu ms=%.1f", t->id,
                     (unsigned long long)need, (double)(rf_time_us() - start) / 1e3);
    return s;
}

/* When a place will be free, from how long the answers of the models take that have some open. */
static int retry_after(rf_models *m) {
    int least = 0;
    for (size_t i = 0; i < m->n; i++) {
        rf_model_view v;
        rf_models_view(m, i, &v);
        int seconds = v.slot ? rf_jobs_retry_after(v.slot->jobs) : 0;
        if (seconds && (!least || seconds < least)) least = seconds;
        rf_models_release(m, v.slot);
    }
    return least ? least : 1;
}

static void load_for_waiters(rf_models *m, model *t) {
    rf_error e = {0};
    rf_api_error wrong = {0};
    pthread_mutex_lock(&m->lock);
    bool refusing = m->refusing;
    pthread_mutex_unlock(&m->lock);
    rf_status s = refusing ? RF_ECANCELLED : load(m, t, &e);
    if (s == RF_OK) {
        wake_waiters(m, t, NULL);
        return;
    }
    bool no_room = s == RF_EFULL || s == RF_ENOMEM;
    if (!refusing) rf_log_write(no_room ? RF_LOG_WARN : RF_LOG_ERROR, "%s", e.text);
    if (refusing)
        rf_api_fail(&wrong, 503, "shutting_down", NULL, "the server is stopping");
    else if (no_room)
        rf_api_fail(&wrong, 503, s == RF_EFULL ? "no_room" : "out_of_memory", "model", "%s",
                    e.text);
    else
        rf_api_fail(&wrong, 503, "model_load_failed", "model",
                    "model '%s' cannot be loaded; the server's log says why", t->id);
    if (s == RF_EFULL) wrong.retry_after = retry_after(m);
    pthread_mutex_lock(&m->lock);
    t->state = RF_MODEL_UNLOADED;
    t->failed_us = no_room || refusing ? 0 : rf_time_us();
    pthread_mutex_unlock(&m->lock);
    wake_waiters(m, t, &wrong);
}

/* What was asked for first; else a model that was idle for too long.  The lock is held. */
static model *next_task(rf_models *m) {
    model *next = NULL;
    for (model *t = m->all; t < m->all + m->n; t++)
        if ((t->state == RF_MODEL_LOADING || t->state == RF_MODEL_UNLOADING) &&
            (!next || t->asked_us < next->asked_us))
            next = t;
    uint64_t now = rf_time_us();
    for (model *t = m->all; !next && m->o.ttl_us && !m->refusing && t < m->all + m->n; t++)
        if (is_idle(t) && now - t->used_us >= m->o.ttl_us) {
            t->state = RF_MODEL_UNLOADING;
            next = t;
        }
    return next;
}

static void *run(void *user) {
    rf_models *m = user;
    pthread_mutex_lock(&m->lock);
    for (;;) {
        model *t = next_task(m);
        if (!t && m->stopping) break;
        if (!t) {
            pthread_cond_wait(&m->work, &m->lock);
            continue;
        }
        bool wanted = t->state == RF_MODEL_LOADING;
        pthread_mutex_unlock(&m->lock);
        if (wanted)
            load_for_waiters(m, t);
        else
            unload(m, t);
        pthread_mutex_lock(&m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

void rf_models_tick(rf_models *m) {
    for (size_t i = 0; i < m->n; i++) {
        rf_model_view v;
        rf_models_view(m, i, &v);
        if (v.slot) rf_jobs_tick(v.slot->jobs);
        bool used = v.slot && rf_slot_n_open(v.slot);
        rf_models_release(m, v.slot);
        pthread_mutex_lock(&m->lock);
        if (used) m->all[i].used_us = rf_time_us();
        pthread_cond_signal(&m->work);
        pthread_mutex_unlock(&m->lock);
    }
}

/* ---- life ---- */

static rf_status add_name(rf_models *m, size_t k, rf_error *e) {
    const rf_model_name *given = &m->o.names[k];
    const char *name = rf_arena_str(m->arena, rf_str_of(given->name)).p;
    if (!name) return rf_fail_nomem(e, strlen(given->name));
    for (size_t i = 0; i < k; i++)
        if (strcmp(m->names[i].name, name) == 0)
            return rf_fail(e, RF_EARG,
                           "two models are called '%.80s'; name one of them with --alias", name);
    size_t i = 0;
    while (i < m->n && strcmp(m->all[i].path, given->path) != 0)
        i++;
    m->names[k] = (alias){name, i};
    if (i == m->n) {
        model *t = &m->all[m->n++];
        t->id = name;
        t->path = rf_arena_str(m->arena, rf_str_of(given->path)).p;
        t->metrics.parent = m->o.metrics;
        t->last = &t->first;
        if (!t->path) return rf_fail_nomem(e, strlen(given->path));
    }
    m->all[i].at_start = m->all[i].at_start || given->at_start;
    return RF_OK;
}

static rf_status open_models(rf_models *m, rf_error *e) {
    if (m->o.n_names == 0) return rf_fail(e, RF_EARG, "there is no model to serve");
    RF_TRY(rf_arena_create(&m->arena) == RF_OK ? RF_OK : rf_fail_nomem(e, 0));
    m->all = rf_alloc(m->o.n_names, sizeof *m->all);
    m->names = rf_alloc(m->o.n_names, sizeof *m->names);
    if (!m->all || !m->names) return rf_fail_nomem(e, m->o.n_names * sizeof *m->all);
    for (size_t k = 0; k < m->o.n_names; k++)
        RF_TRY(add_name(m, k, e));
    for (size_t i = 0; i < m->n; i++)
        if (m->all[i].at_start) RF_TRY(load(m, &m->all[i], e));
    pthread_mutex_lock(&m->lock);
    m->started = !rf_alloc_should_fail() && pthread_create(&m->loader, NULL, run, m) == 0;
    pthread_mutex_unlock(&m->lock);
    return m->started ? RF_OK : rf_fail(e, RF_ENOMEM, "cannot start the thread that loads models");
}

rf_status rf_models_create(rf_models **out, const rf_models_opts *opts, rf_error *e) {
    rf_models *m = *out = rf_alloc(1, sizeof *m);
    if (!m) return rf_fail_nomem(e, sizeof *m);
    m->o = *opts;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->work, NULL);
    pthread_cond_init(&m->released, NULL);
    rf_status s = open_models(m, e);
    if (s == RF_OK) return RF_OK;
    rf_models_free(m);
    *out = NULL;
    return s;
}

uint32_t rf_models_n_open(rf_models *m) {
    uint32_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        rf_model_view v;
        rf_models_view(m, i, &v);
        if (v.slot) n += rf_slot_n_open(v.slot);
        rf_models_release(m, v.slot);
    }
    return n;
}

void rf_models_refuse_new(rf_models *m) {
    pthread_mutex_lock(&m->lock);
    m->refusing = true;
    pthread_cond_signal(&m->work);
    pthread_mutex_unlock(&m->lock);
    for (size_t i = 0; i < m->n; i++) {
        rf_model_view v;
        rf_models_view(m, i, &v);
        if (v.slot) rf_slot_refuse_new(v.slot);
        rf_models_release(m, v.slot);
    }
}

void rf_models_stop(rf_models *m) {
    if (m->started) {
        rf_models_refuse_new(m);
        pthread_mutex_lock(&m->lock);
        m->stopping = true;
        pthread_cond_signal(&m->work);
        pthread_mutex_unlock(&m->lock);
        pthread_join(m->loader, NULL);
        m->started = false;
    }
    for (size_t i = 0; i < m->n; i++)
        if (m->all[i].slot) rf_slot_stop(m->all[i].slot);
}

void rf_models_free(rf_models *m) {
    if (!m) return;
    rf_models_stop(m);
    for (size_t i = 0; i < m->n; i++)
        rf_slot_close(m->all[i].slot);
    rf_free(m->all);
    rf_free(m->names);
    rf_arena_free(m->arena);
    pthread_cond_destroy(&m->released);
    pthread_cond_destroy(&m->work);
    pthread_mutex_destroy(&m->lock);
    rf_free(m);
}
