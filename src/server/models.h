/* models.h - the models that the server knows: which are loaded, who is using them, what must go.
 *
 * A model is loaded when it is asked for; requests for it wait.  A thread of its own loads and unloads,
 * one model at a time: before it opens one it closes those that were idle for longest until the
 * budget holds both, and it closes those that were idle for too long.  A model that is held or has
 * answers open is never closed. */
#pragma once
#include "server/http.h"
#include "server/slot.h"

typedef struct rf_models rf_models;
typedef struct rf_model_name {
    const char *name; /* copied */
    const char *path; /* copied; two names of one path are one model, the first is its id */
    bool at_start;    /* loaded before the server is ready */
} rf_model_name;
typedef struct rf_models_opts {
    const rf_model_name *names; /* [n_names], at least one */
    size_t n_names;
    rf_slot_opts slot;   /* of every model; name, file and metrics are set for each */
    rf_metrics *metrics; /* the server's: sums over its models */
    uint64_t budget;     /* bytes of all models that are loaded; 0: no limit */
    uint64_t ttl_us;     /* a model that is idle for so long is closed; 0: never */
    size_t max_waiting, max_waiting_bytes; /* requests that wait for a model, and their bodies */
    /* Handles a request again whose model was loaded or closed. */
    void (*resume)(void *user, rf_http_request *r, rf_outbox *o);
    void *user;
} rf_models_opts;
RF_CHECKED rf_status rf_models_create(rf_models **out, const rf_models_opts *opts, rf_error *e);

/* The model of this name (or alias; empty: the only one, or the first that was loaded at the start),
 * held until it is released.  Where it must be loaded first *out is NULL, and the request will be
 * handled again with a copy of r.  False: e says why. */
bool rf_models_hold(rf_models *m, rf_str name, const rf_http_request *r, rf_outbox *o,
                    rf_slot **out, rf_api_error *e);
void rf_models_release(rf_models *m, rf_slot *s); /* NULL is fine */
/* Closes a model that nobody uses: *done, or the request will be handled again when it is.  id: what
 * the model is called. */
bool rf_models_unload(rf_models *m, rf_str name, const rf_http_request *r, rf_outbox *o,
                      const char **id, bool *done, rf_api_error *e);

typedef enum rf_model_state {
    RF_MODEL_UNLOADED,
    RF_MODEL_LOADING,
    RF_MODEL_LOADED,
    RF_MODEL_UNLOADING,
} rf_model_state;
const char *rf_model_state_name(rf_model_state s);
typedef struct rf_model_view {
    const char *id;
    rf_model_state state;
    rf_slot *slot;  /* NULL unless it is loaded; held */
    uint64_t bytes; /* of the loaded model; 0 if it is not */
    const rf_metrics *metrics;
    rf_engine_stats stats; /* totals also of engines that were closed */
} rf_model_view;
size_t rf_models_count(const rf_models *m);
/* Release view.slot afterwards. */
void rf_models_view(rf_models *m, size_t i, rf_model_view *out);
/* The index of a model, or -1 with the reason in e. */
long rf_models_find(rf_models *m, rf_str name, rf_api_error *e);
/* The kth further name of model i, or NULL. */
const char *rf_models_alias(const rf_models *m, size_t i, size_t k);

void rf_models_tick(rf_models *m); /* once a second */
uint32_t rf_models_n_open(rf_models *m);
void rf_models_refuse_new(rf_models *m); /* the server is stopping */
void rf_models_stop(rf_models *m);       /* cancels what runs; no model is loaded any more */
void rf_models_free(rf_models *m);       /* stops; NULL is fine */
