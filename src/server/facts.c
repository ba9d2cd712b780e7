/* facts.c - the routes that tell: about the server, its models, and requests by their id. */
#include <string.h>

#include "base/os.h"
#include "server/routes.h"
#include "server/stages.h"

static rf_buf text_of(const char *json) {
    rf_buf b = {0};
    rf_buf_puts(&b, json);
    return b;
}

/* ---- jobs by id ---- */

static bool sees_all(const rf_server *s, const rf_http_request *r) {
    const rf_key *key = r->caller;
    return !s->keys || (key->scopes & RF_SCOPE_ADMIN);
}

static void no_such_request(rf_str id, rf_outbox *o) {
    rf_api_error e = {0};
    rf_api_fail(&e, 404, "request_not_found", "id", "there is no request '%.*s'",
                (int)(id.len > 60 ? 60 : id.len), id.p);
    rf_api_answer_error(o, &e);
}

void rf_route_status(rf_server *s, const rf_http_request *r, rf_str id, rf_outbox *o) {
    rf_buf out = {0};
    bool found = false;
    for (size_t i = 0; !found && i < rf_models_count(s->models); i++) {
        rf_model_view v;
        rf_models_view(s->models, i, &v);
        found = v.slot && rf_jobs_describe(v.slot->jobs, id, r->caller, sees_all(s, r), &out);
        rf_models_release(s->models, v.slot);
    }
    if (found)
        rf_answer_json(o, 200, &out);
    else
        no_such_request(id, o);
}

void rf_route_cancel(rf_server *s, const rf_http_request *r, rf_str id, rf_outbox *o) {
    bool found = false;
    for (size_t i = 0; !found && i < rf_models_count(s->models); i++) {
        rf_model_view v;
        rf_models_view(s->models, i, &v);
        found = v.slot && rf_jobs_cancel(v.slot->jobs, id, r->caller, sees_all(s, r));
        rf_models_release(s->models, v.slot);
    }
    if (found) {
        rf_buf out = text_of("{\"status\":\"ok\"}");
        rf_answer_json(o, 200, &out);
    } else {
        no_such_request(id, o);
    }
}

/* ---- the server ---- */

void rf_route_health(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)s, (void)r, (void)arg;
    rf_buf out = text_of("{\"status\":\"ok\"}");
    rf_answer_json(o, 200, &out);
}

void rf_route_ready(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    bool draining = atomic_load(&s->draining);
    rf_buf out = text_of(draining ? "{\"status\":\"stopping\"}" : "{\"status\":\"ok\"}");
    rf_answer_json(o, draining ? 503 : 200, &out);
}

void rf_route_version(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)s, (void)r, (void)arg;
    rf_buf out = {0};
    rf_buf_printf(&out, "{\"name\":\"rocmforge\",\"version\":\"%s\"}", rf_version());
    rf_answer_json(o, 200, &out);
}

void rf_route_openapi(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_buf out = {0};
    rf_openapi_print(s, &out);
    rf_answer_json(o, 200, &out);
}

/* ---- models ---- */

static void put_state(rf_model_state state, rf_buf *out) {
    rf_buf_printf(out, ",\"status\":{\"value\":\"%s\"}", rf_model_state_name(state));
}

/* As OpenAI's API lists it. */
static void put_model(rf_server *s, size_t i, rf_buf *out) {
    rf_model_view v;
    rf_models_view(s->models, i, &v);
    rf_buf_puts(out, "{\"id\":");
    rf_buf_json_str(out, rf_str_of(v.id));
    rf_buf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"rocmforge\"",
                  (long long)s->created);
    if (v.slot) rf_buf_printf(out, ",\"max_model_len\":%u", v.slot->info.n_ctx);
    const char *alias;
    for (size_t k = 0; (alias = rf_models_alias(s->models, i, k)) != NULL; k++) {
        rf_buf_puts(out, k ? "," : ",\"aliases\":[");
        rf_buf_json_str(out, rf_str_of(alias));
    }
    if (rf_models_alias(s->models, i, 0)) rf_buf_putc(out, ']');
    put_state(v.state, out);
    rf_buf_putc(out, '}');
    rf_models_release(s->models, v.slot);
}

void rf_route_models(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_buf out = text_of("{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < rf_models_count(s->models); i++) {
        if (i) rf_buf_putc(&out, ',');
        put_model(s, i, &out);
    }
    rf_buf_puts(&out, "]}");
    rf_answer_json(o, 200, &out);
}

void rf_route_model(rf_server *s, const rf_http_request *r, rf_str id, rf_outbox *o) {
    (void)r;
    rf_api_error e = {0};
    rf_buf out = {0};
    long i = rf_models_find(s->models, id, &e);
    if (i < 0) {
        rf_api_answer_error(o, &e);
        return;
    }
    put_model(s, (size_t)i, &out);
    rf_answer_json(o, 200, &out);
}

static void put_facts(const rf_model_view *v, rf_buf *out) {
    rf_buf_puts(out, "{\"id\":");
    rf_buf_json_str(out, rf_str_of(v->id));
    put_state(v->state, out);
    if (v->slot) {
        const rf_engine_info *i = &v->slot->info;
        rf_buf_puts(out, ",\"name\":");
        rf_buf_json_str(out, rf_str_of(i->model_name));
        rf_buf_puts(out, ",\"architecture\":");
        rf_buf_json_str(out, rf_str_of(i->architecture));
        rf_buf_puts(out, ",\"backend\":");
        rf_buf_json_str(out, rf_str_of(i->backend));
        rf_stage stages[RF_MOST_STAGES];
        size_t n = rf_engine_stages(v->slot->engine, stages, RF_COUNT(stages));
        rf_buf_puts(out, ",\"stages\":");
        rf_stages_json(stages, n, out);
        rf_buf_printf(out,
                      ",\"bytes\":%llu,\"n_params\":%llu,\"weight_bytes\":%llu,\"n_vocab\":%u,"
                      "\"n_layers\":%u,\"n_embd\":%u,\"n_ctx\":%u,\"n_ctx_train\":%u",
                      (unsigned long long)v->bytes, (unsigned long long)i->n_params,
                      (unsigned long long)i->weight_bytes, i->n_vocab, i->n_layers, i->n_embd,
                      i->n_ctx, i->n_ctx_train);
    }
    rf_buf_putc(out, '}');
}

void rf_route_native_models(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_buf out = text_of("{\"models\":[");
    for (size_t i = 0; i < rf_models_count(s->models); i++) {
        rf_model_view v;
        rf_models_view(s->models, i, &v);
        if (i) rf_buf_putc(&out, ',');
        put_facts(&v, &out);
        rf_models_release(s->models, v.slot);
    }
    rf_buf_puts(&out, "]}");
    rf_answer_json(o, 200, &out);
}

static int hex_digit(char c) {
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The value of model=... in a query, decoded; empty without one. */
static void get_query_model(rf_str query, rf_buf *out) {
    const rf_str key = RF_STR("model=");
    size_t at = 0;
    while (at < query.len && !rf_str_starts((rf_str){query.p + at, query.len - at}, key.p)) {
        const char *next = memchr(query.p + at, '&', query.len - at);
        at = next ? (size_t)(next - query.p) + 1 : query.len;
    }
    for (at += key.len; at < query.len && query.p[at] != '&'; at++) {
        bool coded = query.p[at] == '%' && at + 2 < query.len && hex_digit(query.p[at + 1]) >= 0 &&
                     hex_digit(query.p[at + 2]) >= 0;
        int byte = query.p[at];
        if (coded) byte = hex_digit(query.p[at + 1]) << 4 | hex_digit(query.p[at + 2]);
        rf_buf_putc(out, (char)byte);
        at += coded ? 2 : 0;
    }
}

static void put_props(const rf_server *s, const rf_model_view *v, rf_buf *out) {
    rf_buf_puts(out, "{\"model\":");
    put_facts(v, out);
    rf_buf_printf(out,
                  ",\"version\":\"%s\",\"total_slots\":%u,\"max_queue\":%u,\"max_body_bytes\":%zu,"
                  "\"chat_template\":",
                  rf_version(), v->stats.max_running, s->o.max_waiting, s->o.max_body);
    if (v->slot && v->slot->info.chat_template)
        rf_buf_json_str(out, rf_str_of(v->slot->info.chat_template));
    else
        rf_buf_puts(out, "null");
    rf_buf_putc(out, '}');
}

void rf_route_props(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    rf_api_error e = {0};
    rf_buf name = {0}, out = {0};
    get_query_model(r->query, &name);
    long i = rf_models_find(s->models, rf_buf_str(&name), &e);
    rf_buf_free(&name);
    if (i < 0) {
        rf_api_answer_error(o, &e);
        return;
    }
    rf_model_view v;
    rf_models_view(s->models, (size_t)i, &v);
    put_props(s, &v, &out);
    rf_models_release(s->models, v.slot);
    rf_answer_json(o, 200, &out);
}

static void answer_state(rf_outbox *o, const char *id, rf_model_state state) {
    rf_buf out = text_of("{\"success\":true,\"model\":");
    rf_buf_json_str(&out, rf_str_of(id));
    put_state(state, &out);
    rf_buf_putc(&out, '}');
    rf_answer_json(o, 200, &out);
}

/* The name in the body of a request that needs one. */
static bool read_name(const rf_http_request *r, rf_json **body, rf_str *name, rf_api_error *e) {
    if (!rf_params_read_object(body, r->body, e) || !rf_get_model(*body, name, e)) return false;
    if (name->len) return true;
    return rf_api_fail(e, 400, "missing_required_parameter", "model", "model is missing");
}

void rf_route_load(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    rf_json *body;
    rf_api_error e = {0};
    rf_str name = {0};
    rf_slot *slot = NULL;
    if (read_name(r, &body, &name, &e) && rf_models_hold(s->models, name, r, o, &slot, &e) && slot)
        answer_state(o, slot->o.name, RF_MODEL_LOADED);
    if (e.status) rf_api_answer_error(o, &e);
    rf_models_release(s->models, slot);
    rf_json_free(body);
}

void rf_route_unload(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    rf_json *body;
    rf_api_error e = {0};
    rf_str name = {0};
    const char *id = NULL;
    bool done = false;
    if (read_name(r, &body, &name, &e) && rf_models_unload(s->models, name, r, o, &id, &done, &e) &&
        done)
        answer_state(o, id, RF_MODEL_UNLOADED);
    if (e.status) rf_api_answer_error(o, &e);
    rf_json_free(body);
}

/* ---- what goes on ---- */

/* Sums over the models that are loaded. */
static rf_engine_stats all_stats(rf_server *s, uint32_t *n_loaded) {
    rf_engine_stats sum = {0};
    *n_loaded = 0;
    for (size_t i = 0; i < rf_models_count(s->models); i++) {
        rf_model_view v;
        rf_models_view(s->models, i, &v);
        *n_loaded += v.slot != NULL;
        sum.n_waiting += v.stats.n_waiting;
        sum.n_running += v.stats.n_running;
        sum.max_running += v.stats.max_running;
        sum.kv_blocks += v.stats.kv_blocks;
        sum.kv_free += v.stats.kv_free;
        sum.kv_cached += v.stats.kv_cached;
        sum.kv_hits += v.stats.kv_hits;
        sum.kv_misses += v.stats.kv_misses;
        sum.kv_evictions += v.stats.kv_evictions;
        sum.n_preemptions += v.stats.n_preemptions;
        sum.n_swapped_out += v.stats.n_swapped_out;
        sum.n_swapped_in += v.stats.n_swapped_in;
        sum.swap_used += v.stats.swap_used;
        rf_models_release(s->models, v.slot);
    }
    return sum;
}

void rf_route_slots(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    uint32_t n_loaded;
    const rf_engine_stats stats = all_stats(s, &n_loaded);
    rf_buf out = {0};
    rf_buf_printf(&out,
                  "{\"total_slots\":%u,\"running\":%u,\"waiting\":%u,\"kv_blocks\":%u,"
                  "\"kv_blocks_free\":%u,\"requests\":[",
                  stats.max_running, stats.n_running, stats.n_waiting, stats.kv_blocks,
                  stats.kv_free);
    for (size_t i = 0; i < rf_models_count(s->models); i++) {
        rf_model_view v;
        rf_models_view(s->models, i, &v);
        if (v.slot) rf_jobs_list(v.slot->jobs, &out);
        rf_models_release(s->models, v.slot);
    }
    rf_buf_puts(&out, "]}");
    rf_answer_json(o, 200, &out);
}

void rf_route_traces(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_buf out = text_of("{\"traces\":");
    rf_traces_print(s->traces, &out);
    rf_buf_putc(&out, '}');
    rf_answer_json(o, 200, &out);
}

/* Metrics of each model, beside those of all together. */
static const struct {
    const char *name, *type, *help;
    rf_metric metric; /* RF_M_COUNT: its bytes */
} per_model[] = {
    {"model_bytes", "gauge", "Memory of a loaded model with its KV cache", RF_M_COUNT},
    {"model_queue_length", "gauge", "Answers waiting for their start, by model", RF_M_QUEUE_LENGTH},
    {"model_active_requests", "gauge", "Answers being generated, by model", RF_M_ACTIVE},
    {"model_tokens_generated_total", "counter", "Tokens generated, by model", RF_M_TOKENS},
};

static double read_model(const rf_model_view *v, rf_metric id) {
    if (id == RF_M_QUEUE_LENGTH) return v->stats.n_waiting;
    if (id == RF_M_ACTIVE) return v->stats.n_running;
    return id == RF_M_COUNT ? (double)v->bytes : (double)rf_metrics_get(v->metrics, id);
}

static void put_model_metrics(rf_server *s, rf_buf *out) {
    for (size_t k = 0; k < RF_COUNT(per_model); k++) {
        rf_buf_printf(out, "# HELP rocmforge_%s %s\n# TYPE rocmforge_%s %s\n", per_model[k].name,
                      per_model[k].help, per_model[k].name, per_model[k].type);
        for (size_t i = 0; i < rf_models_count(s->models); i++) {
            rf_model_view v;
            rf_models_view(s->models, i, &v);
            rf_buf_printf(out, "rocmforge_%s{model=", per_model[k].name);
            rf_buf_json_str(out, rf_str_of(v.id));
            rf_buf_printf(out, "} %.15g\n", read_model(&v, per_model[k].metric));
            rf_models_release(s->models, v.slot);
        }
    }
}

/* What each device has of each model. */
static void put_stage_metrics(rf_server *s, rf_buf *out) {
    static const char *const heads[] = {
        "# HELP rocmforge_model_layers Layers of a loaded model, by device\n"
        "# TYPE rocmforge_model_layers gauge\n",
        "# HELP rocmforge_model_device_bytes Memory of a loaded model, by device\n"
        "# TYPE rocmforge_model_device_bytes gauge\n"};
    static const char *const names[] = {"layers", "device_bytes"};
    for (size_t k = 0; k < RF_COUNT(names); k++) {
        rf_buf_puts(out, heads[k]);
        for (size_t i = 0; i < rf_models_count(s->models); i++) {
            rf_model_view v;
            rf_stage stages[RF_MOST_STAGES];
            rf_models_view(s->models, i, &v);
            size_t n = v.slot ? rf_engine_stages(v.slot->engine, stages, RF_COUNT(stages)) : 0;
            for (size_t j = 0; j < n; j++) {
                char device[RF_STAGE_NAME];
                rf_stage_name(&stages[j], device);
                rf_buf_printf(out, "rocmforge_model_%s{model=", names[k]);
                rf_buf_json_str(out, rf_str_of(v.id));
                rf_buf_printf(out, ",device=\"%s\"} %llu\n", device,
                              k ? (unsigned long long)stages[j].total
                                : (unsigned long long)stages[j].n_layers);
            }
            rf_models_release(s->models, v.slot);
        }
    }
}

void rf_route_metrics(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    uint32_t n_loaded;
    const rf_engine_stats stats = all_stats(s, &n_loaded);
    uint64_t now = rf_time_us();
    const double read[RF_M_COUNT] = {
        [RF_M_QUEUE_LENGTH] = stats.n_waiting,
        [RF_M_ACTIVE] = stats.n_running,
        [RF_M_TOKENS_PER_S] = rf_metrics_tokens_per_second(&s->metrics, now),
        [RF_M_KV_BLOCKS] = stats.kv_blocks,
        [RF_M_KV_FREE] = stats.kv_free,
        [RF_M_KV_CACHED] = stats.kv_cached,
        [RF_M_KV_HITS] = (double)stats.kv_hits,
        [RF_M_KV_MISSES] = (double)stats.kv_misses,
        [RF_M_KV_EVICTIONS] = (double)stats.kv_evictions,
        [RF_M_PREEMPTIONS] = (double)stats.n_preemptions,
        [RF_M_SWAPPED_OUT] = (double)stats.n_swapped_out,
        [RF_M_SWAPPED_IN] = (double)stats.n_swapped_in,
        [RF_M_SWAP_USED] = (double)stats.swap_used,
        [RF_M_MODELS] = (double)rf_models_count(s->models),
        [RF_M_MODELS_LOADED] = n_loaded,
        [RF_M_CONNECTIONS] = rf_http_n_connections(s->http),
        [RF_M_UPTIME] = (double)(now - s->start_us) / 1e6,
    };
    rf_buf out = {0};
    rf_metrics_print(&s->metrics, read, &out);
    put_model_metrics(s, &out);
    put_stage_metrics(s, &out);
    rf_api_answer(o, 200, "text/plain; version=0.0.4", &out);
}
