/* slot.c - a model opened with all that serves it, and the loop of its thread. */
#include "server/slot.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"

typedef struct rf_slot_private {
    pthread_t stepper;
    bool stepping;
    atomic_bool stop;
} own;

static void *step_engine(void *user) {
    rf_slot *s = user;
    while (!atomic_load(&s->own->stop) || rf_slot_n_open(s)) {
        rf_engine_wait(s->engine);
        int worked;
        bool embedded;
        do {
            worked = rf_engine_step(s->engine);
            if (worked < 0)
                rf_log_write(RF_LOG_ERROR, "a step of the engine failed: %s",
                             rf_status_name((rf_status)-worked));
            embedded = rf_embeds_step(s->embeds);
        } while (worked != 0 || embedded);
    }
    return NULL;
}

static rf_status open_engine(rf_slot *s, rf_error *e) {
    rf_text why;
    int status = rf_engine_open(&s->engine, &s->o.engine, &why);
    if (status != ROCMFORGE_OK) return rf_fail(e, (rf_status)status, "%s", why.text);
    rf_engine_get_info(s->engine, &s->info);
    return RF_OK;
}

static rf_status open_parts(rf_slot *s, rf_error *e) {
    RF_TRY(open_engine(s, e));
    RF_TRY(rf_reply_format_open(&s->format, s->engine, s->o.tool_format, e));
    const rf_jobs_opts jobs = {.engine = s->engine,
                               .metrics = s->o.metrics,
                               .traces = s->o.traces,
                               .model = s->o.name,
                               .format = &s->format,
                               .max_waiting = s->o.max_waiting,
                               .ping_seconds = s->o.ping_seconds};
    RF_TRY(rf_jobs_create(&s->jobs, &jobs, e));
    const rf_embeds_opts embeds = {.engine = s->engine,
                                   .metrics = s->o.metrics,
                                   .model = s->o.name,
                                   .max_waiting = s->o.max_waiting};
    RF_TRY(rf_embeds_create(&s->embeds, &embeds, e));
    if (rf_alloc_should_fail() || pthread_create(&s->own->stepper, NULL, step_engine, s) != 0)
        return rf_fail(e, RF_ENOMEM, "cannot start the engine's thread");
    s->own->stepping = true;
    return RF_OK;
}

rf_status rf_slot_open(rf_slot **out, const rf_slot_opts *opts, rf_error *e) {
    rf_slot *s = *out = rf_alloc(1, sizeof *s);
    if (s) s->own = rf_alloc(1, sizeof *s->own);
    if (!s || !s->own) {
        rf_free(s);
        *out = NULL;
        return rf_fail_nomem(e, sizeof *s);
    }
    s->o = *opts;
    rf_status status = open_parts(s, e);
    if (status == RF_OK) return RF_OK;
    rf_slot_close(s);
    *out = NULL;
    return status;
}

uint64_t rf_slot_bytes(const rf_slot *s) { return s->info.weight_bytes + s->info.exec_bytes; }

uint32_t rf_slot_n_open(rf_slot *s) {
    return rf_jobs_n_open(s->jobs) + rf_embeds_n_open(s->embeds);
}

void rf_slot_refuse_new(rf_slot *s) {
    rf_jobs_refuse_new(s->jobs);
    rf_embeds_refuse_new(s->embeds);
}

void rf_slot_stop(rf_slot *s) {
    if (!s->own->stepping) return;
    rf_slot_refuse_new(s);
    rf_jobs_cancel_all(s->jobs);
    rf_embeds_cancel_all(s->embeds);
    atomic_store(&s->own->stop, true);
    rf_engine_wake(s->engine);
    pthread_join(s->own->stepper, NULL);
    s->own->stepping = false;
}

void rf_slot_close(rf_slot *s) {
    if (!s) return;
    rf_slot_stop(s);
    rf_jobs_free(s->jobs);
    rf_embeds_free(s->embeds);
    rf_reply_format_close(&s->format);
    rf_engine_close(s->engine);
    rf_free(s->own);
    rf_free(s);
}
