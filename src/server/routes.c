/* routes.c - the table of routes, who may use them, and what each does. */
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "server/server.h"
#include "server/writers.h"

/* ---- helpers ---- */

static void answer_json(rf_outbox *o, int status, rf_buf *body) {
    rf_api_answer(o, status, "application/json", body);
}

static rf_buf text_of(const char *json) {
    rf_buf b = {0};
    rf_buf_puts(&b, json);
    return b;
}

typedef int (*ids_fn)(const void *user, int32_t *out, size_t cap, size_t *n, rf_text *why);

/* Calls fn with room enough. */
static bool get_ids(ids_fn fn, const void *user, size_t guess, rf_ids *ids, rf_api_error *e) {
    rf_text why;
    size_t n = guess, cap = 0;
    int status = ROCMFORGE_OK;
    while (status == ROCMFORGE_OK && n > cap) {
        rf_ids_free(ids);
        ids->p = rf_alloc(n, sizeof *ids->p);
        if (!ids->p) return rf_api_fail_status(e, RF_ENOMEM, "out of memory");
        ids->cap = cap = n;
        status = fn(user, ids->p, cap, &n, &why);
    }
    if (status != ROCMFORGE_OK) return rf_api_fail_status(e, (rf_status)status, why.text);
    ids->len = n;
    return true;
}

typedef struct text_request {
    const rf_engine *engine;
    rf_str text;
    bool add_special, parse_special;
} text_request;

static int ids_of_text(const void *user, int32_t *out, size_t cap, size_t *n, rf_text *why) {
    const text_request *t = user;
    return rf_engine_tokenize(t->engine, t->text.p, t->text.len, t->add_special, t->parse_special,
                              out, cap, n, why);
}

typedef struct chat_request {
    const rf_engine *engine;
    rf_conversation conversation;
} chat_request;

static int ids_of_chat(const void *user, int32_t *out, size_t cap, size_t *n, rf_text *why) {
    const chat_request *c = user;
    return rf_engine_conversation_tokens(c->engine, &c->conversation, out, cap, n, why);
}

static bool chat_ids(rf_server *s, const rf_params *p, rf_ids *ids, rf_api_error *e) {
    const chat_request c = {.engine = s->engine,
                            .conversation = {.format = s->o.chat_format,
                                             .messages = p->messages.p,
                                             .messages_len = p->messages.len,
                                             .tools = p->tools.p,
                                             .tools_len = p->tools.len,
                                             .vars = p->vars.p,
                                             .vars_len = p->vars.len,
                                             .is_open = !p->add_generation_prompt}};
    return get_ids(ids_of_chat, &c, p->messages.len + p->tools.len + 256, ids, e);
}

static bool prompt_ids(rf_server *s, const rf_prompt *p, rf_ids *ids, rf_api_error *e) {
    if (!p->ids) {
        const text_request t = {s->engine, p->text, true, true};
        return get_ids(ids_of_text, &t, p->text.len + 16, ids, e);
    }
    for (size_t i = 0; i < p->n_ids; i++)
        rf_ids_push(ids, p->ids[i]);
    return ids->failed ? rf_api_fail_status(e, RF_ENOMEM, "out of memory") : true;
}

static bool text_of_ids(rf_server *s, const int32_t *ids, size_t n, bool special, rf_buf *out,
                        rf_api_error *e) {
    rf_text why;
    size_t len = 0;
    int status = rf_engine_detokenize(s->engine, ids, n, special, NULL, 0, &len, &why);
    char *text = status == ROCMFORGE_OK ? rf_alloc(len, 1) : NULL;
    if (status == ROCMFORGE_OK && !text) return rf_api_fail_status(e, RF_ENOMEM, "out of memory");
    if (text) status = rf_engine_detokenize(s->engine, ids, n, special, text, len, &len, &why);
    if (text) rf_buf_put(out, text, len);
    rf_free(text);
    return status == ROCMFORGE_OK ? true : rf_api_fail_status(e, (rf_status)status, why.text);
}

static bool check_model(const rf_server *s, rf_str model, rf_api_error *e) {
    if (model.len == 0 || rf_str_is(model, s->o.model)) return true;
    return rf_api_fail(e, 404, "model_not_found", "model",
                       "there is no model '%.*s' here; this server has '%s'",
                       (int)(model.len > 80 ? 80 : model.len), model.p, s->o.model);
}

/* ---- generation ---- */

static bool prepare(rf_server *s, unsigned kind, rf_params *p, rf_ids *ids, rf_api_error *e) {
    if (!check_model(s, p->model, e) || !rf_params_compile(p, s->engine, e)) return false;
    if (kind == RF_FOR_CHAT) return chat_ids(s, p, &ids[0], e);
    for (size_t i = 0; i < p->n_prompts; i++)
        if (!prompt_ids(s, &p->prompts[i], &ids[i], e)) return false;
    return true;
}

static void generate_with(rf_server *s, const rf_http_request *r, unsigned kind,
                          const rf_writer *writer, bool force_stream, rf_outbox *o) {
    rf_api_error e = {0};
    rf_params p;
    rf_ids *ids = NULL;
    bool ok = rf_params_parse(&p, kind, r->body, &e);
    if (ok) ids = rf_alloc(p.n_prompts, sizeof *ids);
    if (ok && !ids) ok = rf_api_fail_status(&e, RF_ENOMEM, "out of memory");
    p.stream = p.stream || force_stream;
    if (ok && prepare(s, kind, &p, ids, &e)) {
        rf_jobs_start(s->jobs, writer, r->id, r->caller, &p, ids, o, &e);
    } else {
        for (size_t i = 0; ids && i < p.n_prompts; i++)
            rf_ids_free(&ids[i]);
        rf_free(ids);
        rf_params_free(&p);
    }
    if (e.status) rf_api_answer_error(o, &e);
}

static void chat(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    generate_with(s, r, RF_FOR_CHAT, &rf_writer_chat, false, o);
}

static void completion(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    generate_with(s, r, RF_FOR_COMPLETION, &rf_writer_completion, false, o);
}

static void generate(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    generate_with(s, r, RF_FOR_NATIVE, &rf_writer_native, false, o);
}

static void generate_stream(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    generate_with(s, r, RF_FOR_NATIVE, &rf_writer_native, true, o);
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

static void status(rf_server *s, const rf_http_request *r, rf_str id, rf_outbox *o) {
    rf_buf out = {0};
    if (rf_jobs_describe(s->jobs, id, r->caller, sees_all(s, r), &out))
        answer_json(o, 200, &out);
    else
        no_such_request(id, o);
}

static void cancel(rf_server *s, const rf_http_request *r, rf_str id, rf_outbox *o) {
    rf_buf out = text_of("{\"status\":\"ok\"}");
    if (rf_jobs_cancel(s->jobs, id, r->caller, sees_all(s, r))) {
        answer_json(o, 200, &out);
        return;
    }
    rf_buf_free(&out);
    no_such_request(id, o);
}

/* ---- text and tokens ---- */

static bool get_flag(const rf_json *body, const char *name, bool dflt, bool *out, rf_api_error *e) {
    const rf_json *v = rf_json_get(body, name);
    *out = rf_json_kind(v) == RF_JSON_NULL ? dflt : rf_json_bool(v);
    if (rf_json_kind(v) == RF_JSON_NULL || rf_json_kind(v) == RF_JSON_BOOL) return true;
    return rf_api_fail(e, 400, "invalid_type", name, "%s must be true or false", name);
}

static bool tokenize_body(rf_server *s, const rf_json *body, rf_buf *out, rf_api_error *e) {
    text_request t = {.engine = s->engine};
    const rf_json *text = rf_json_get(body, "content");
    if (rf_json_kind(text) == RF_JSON_NULL) text = rf_json_get(body, "prompt");
    if (rf_json_kind(text) != RF_JSON_STRING)
        return rf_api_fail(e, 400, "invalid_type", "content", "content must be a string");
    if (!get_flag(body, "add_special", true, &t.add_special, e)) return false;
    if (!get_flag(body, "parse_special", true, &t.parse_special, e)) return false;
    t.text = rf_json_str(text);
    rf_ids ids = {0};
    bool ok = get_ids(ids_of_text, &t, t.text.len + 16, &ids, e);
    rf_buf_puts(out, "{\"tokens\":[");
    for (size_t i = 0; ok && i < ids.len; i++)
        rf_buf_printf(out, "%s%d", i ? "," : "", ids.p[i]);
    rf_buf_printf(out, "],\"count\":%zu,\"max_model_len\":%u}", ids.len, s->info.n_ctx);
    rf_ids_free(&ids);
    return ok;
}

static bool detokenize_body(rf_server *s, const rf_json *body, rf_buf *out, rf_api_error *e) {
    const rf_json *tokens = rf_json_get(body, "tokens");
    if (rf_json_kind(tokens) != RF_JSON_ARRAY)
        return rf_api_fail(e, 400, "invalid_type", "tokens", "tokens must be an array of ids");
    bool special;
    if (!get_flag(body, "return_special", false, &special, e)) return false;
    rf_ids ids = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < rf_json_len(tokens); i++) {
        const rf_json *id = rf_json_at(tokens, i);
        int64_t value = rf_json_int(id);
        if (rf_json_kind(id) != RF_JSON_INT || value < 0 || value >= s->info.n_vocab)
            ok = rf_api_fail(e, 400, "invalid_value", "tokens", "token %zu is not an id below %u",
                             i, s->info.n_vocab);
        else
            rf_ids_push(&ids, (int32_t)value);
    }
    if (ok && ids.failed) ok = rf_api_fail_status(e, RF_ENOMEM, "out of memory");
    rf_buf text = {0};
    if (ok) ok = text_of_ids(s, ids.p, ids.len, special, &text, e);
    rf_buf_puts(out, "{\"content\":");
    rf_buf_json_str(out, rf_buf_str(&text));
    rf_buf_putc(out, '}');
    if (text.failed) out->failed = true;
    rf_buf_free(&text);
    rf_ids_free(&ids);
    return ok;
}

static void with_body(rf_server *s, const rf_http_request *r, rf_outbox *o,
                      bool (*work)(rf_server *, const rf_json *, rf_buf *, rf_api_error *)) {
    rf_json *body;
    rf_api_error e = {0};
    rf_buf out = {0};
    if (rf_params_read_object(&body, r->body, &e) && work(s, body, &out, &e)) {
        answer_json(o, 200, &out);
    } else {
        rf_buf_free(&out);
        rf_api_answer_error(o, &e);
    }
    rf_json_free(body);
}

static void tokenize(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    with_body(s, r, o, tokenize_body);
}

static void detokenize(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    with_body(s, r, o, detokenize_body);
}

static void template(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    rf_api_error e = {0};
    rf_params p;
    rf_ids ids = {0};
    rf_buf text = {0}, out = {0};
    if (rf_params_parse(&p, RF_FOR_CHAT, r->body, &e) && chat_ids(s, &p, &ids, &e) &&
        text_of_ids(s, ids.p, ids.len, true, &text, &e)) {
        rf_buf_puts(&out, "{\"prompt\":");
        rf_buf_json_str(&out, rf_buf_str(&text));
        rf_buf_printf(&out, ",\"n_tokens\":%zu}", ids.len);
        if (text.failed) out.failed = true;
        answer_json(o, 200, &out);
    } else {
        rf_api_answer_error(o, &e);
    }
    rf_buf_free(&text);
    rf_ids_free(&ids);
    rf_params_free(&p);
}

/* ---- facts ---- */

static void health(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)s, (void)r, (void)arg;
    rf_buf out = text_of("{\"status\":\"ok\"}");
    answer_json(o, 200, &out);
}

static void ready(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    bool draining = atomic_load(&s->draining);
    rf_buf out = text_of(draining ? "{\"status\":\"stopping\"}" : "{\"status\":\"ok\"}");
    answer_json(o, draining ? 503 : 200, &out);
}

static void version(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)s, (void)r, (void)arg;
    rf_buf out = {0};
    rf_buf_printf(&out, "{\"name\":\"rocmforge\",\"version\":\"%s\"}", rf_version());
    answer_json(o, 200, &out);
}

static void openapi(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_buf out = {0};
    rf_openapi_print(s, &out);
    answer_json(o, 200, &out);
}

static void put_model(const rf_server *s, rf_buf *out) {
    rf_buf_puts(out, "{\"id\":");
    rf_buf_json_str(out, rf_str_of(s->o.model));
    rf_buf_printf(out,
                  ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"rocmforge\","
                  "\"max_model_len\":%u}",
                  (long long)s->created, s->info.n_ctx);
}

static void models(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_buf out = text_of("{\"object\":\"list\",\"data\":[");
    put_model(s, &out);
    rf_buf_puts(&out, "]}");
    answer_json(o, 200, &out);
}

static void model(rf_server *s, const rf_http_request *r, rf_str id, rf_outbox *o) {
    (void)r;
    rf_api_error e = {0};
    rf_buf out = {0};
    put_model(s, &out);
    if (check_model(s, id, &e)) {
        answer_json(o, 200, &out);
        return;
    }
    rf_buf_free(&out);
    rf_api_answer_error(o, &e);
}

static void put_facts(const rf_server *s, rf_buf *out) {
    const rf_engine_info *i = &s->info;
    rf_buf_puts(out, "{\"id\":");
    rf_buf_json_str(out, rf_str_of(s->o.model));
    rf_buf_puts(out, ",\"name\":");
    rf_buf_json_str(out, rf_str_of(i->model_name));
    rf_buf_puts(out, ",\"architecture\":");
    rf_buf_json_str(out, rf_str_of(i->architecture));
    rf_buf_puts(out, ",\"backend\":");
    rf_buf_json_str(out, rf_str_of(i->backend));
    rf_buf_printf(out,
                  ",\"n_params\":%llu,\"weight_bytes\":%llu,\"n_vocab\":%u,\"n_layers\":%u,"
                  "\"n_embd\":%u,\"n_ctx\":%u,\"n_ctx_train\":%u}",
                  (unsigned long long)i->n_params, (unsigned long long)i->weight_bytes, i->n_vocab,
                  i->n_layers, i->n_embd, i->n_ctx, i->n_ctx_train);
}

static void native_models(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_buf out = text_of("{\"models\":[");
    put_facts(s, &out);
    rf_buf_puts(&out, "]}");
    answer_json(o, 200, &out);
}

static void props(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_engine_stats stats;
    rf_engine_get_stats(s->engine, &stats);
    rf_buf out = text_of("{\"model\":");
    put_facts(s, &out);
    rf_buf_printf(&out,
                  ",\"version\":\"%s\",\"total_slots\":%u,\"max_queue\":%u,\"max_body_bytes\":%zu,"
                  "\"chat_template\":",
                  rf_version(), stats.max_running, s->o.max_waiting, s->o.max_body);
    if (s->info.chat_template)
        rf_buf_json_str(&out, rf_str_of(s->info.chat_template));
    else
        rf_buf_puts(&out, "null");
    rf_buf_putc(&out, '}');
    answer_json(o, 200, &out);
}

static void slots(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_engine_stats stats;
    rf_engine_get_stats(s->engine, &stats);
    rf_buf out = {0};
    rf_buf_printf(&out,
                  "{\"total_slots\":%u,\"running\":%u,\"waiting\":%u,\"kv_blocks\":%u,"
                  "\"kv_blocks_free\":%u,\"requests\":",
                  stats.max_running, stats.n_running, stats.n_waiting, stats.kv_blocks,
                  stats.kv_free);
    rf_jobs_list(s->jobs, &out);
    rf_buf_putc(&out, '}');
    answer_json(o, 200, &out);
}

static void metrics(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_engine_stats stats;
    rf_engine_get_stats(s->engine, &stats);
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
        [RF_M_CONNECTIONS] = rf_http_n_connections(s->http),
        [RF_M_UPTIME] = (double)(now - s->start_us) / 1e6,
    };
    rf_buf out = {0};
    rf_metrics_print(&s->metrics, read, &out);
    rf_api_answer(o, 200, "text/plain; version=0.0.4", &out);
}

/* ---- the table ---- */

const rf_route rf_routes[] = {
#define X(method, path, scope, handler, body, answer, summary) \
    {method, path, RF_SCOPE_##scope, handler, body, answer, summary},
#include "server/routes.def"
#undef X
};
const size_t rf_route_count = RF_COUNT(rf_routes);

/* Whether the path is the route's; *arg becomes what stands for {id}. */
static bool matches(const rf_route *t, rf_str path, rf_str *arg) {
    const char *brace = strchr(t->path, '{');
    *arg = (rf_str){"", 0};
    if (!brace) return rf_str_is(path, t->path);
    size_t n = (size_t)(brace - t->path);
    if (path.len <= n || memcmp(path.p, t->path, n) != 0) return false;
    *arg = (rf_str){path.p + n, path.len - n};
    return !memchr(arg->p, '/', arg->len) || rf_str_starts(rf_str_of(t->path), "/v1/models/");
}

static const rf_route *find_route(const rf_http_request *r, rf_api_error *e, rf_outbox *o) {
    const char *method = strcmp(r->method, "HEAD") == 0 ? "GET" : r->method;
    const rf_route *other = NULL;
    rf_str arg;
    for (size_t i = 0; i < rf_route_count; i++) {
        if (!matches(&rf_routes[i], r->path, &arg)) continue;
        if (strcmp(rf_routes[i].method, method) == 0) return &rf_routes[i];
        other = &rf_routes[i];
    }
    if (!other) {
        rf_api_fail(e, 404, "unknown_url", NULL, "there is no route %.20s %.*s", r->method,
                    (int)(r->path.len > 100 ? 100 : r->path.len), r->path.p);
    } else {
        rf_outbox_add_header(o, "Allow", "%s", other->method);
        rf_api_fail(e, 405, "method_not_allowed", NULL, "%s takes %s, not %.20s", other->path,
                    other->method, r->method);
    }
    return NULL;
}

static bool authorize(rf_server *s, rf_http_request *r, rf_scope scope, rf_api_error *e,
                      rf_outbox *o) {
    if (!s->keys || scope == RF_SCOPE_NONE) return true;
    const char *bearer = rf_http_header(r, "Authorization");
    const char *secret = rf_http_header(r, "X-Api-Key");
    if (bearer && strncmp(bearer, "Bearer ", 7) == 0) secret = bearer + 7;
    const rf_key *key = secret ? rf_keys_find(s->keys, rf_str_of(secret)) : NULL;
    r->caller = key;
    if (!key) {
        rf_outbox_add_header(o, "WWW-Authenticate", "Bearer");
        return rf_api_fail(e, 401, "invalid_api_key", NULL, "%s",
                           secret ? "the API key is not known"
                                  : "an API key is needed: Authorization: Bearer KEY");
    }
    if (rf_key_may(key, scope)) return true;
    return rf_api_fail(e, 403, "insufficient_scope", NULL, "this API key may not do that");
}

bool rf_routes_admit(rf_server *s, rf_http_request *r, rf_outbox *o) {
    rf_api_error e = {0};
    const rf_route *t = find_route(r, &e, o);
    r->route = t;
    if (t && authorize(s, r, t->scope, &e, o)) return true;
    rf_api_answer_error(o, &e);
    return false;
}

void rf_routes_serve(rf_server *s, rf_http_request *r, rf_outbox *o) {
    const rf_route *t = r->route;
    rf_str arg;
    bool found = matches(t, r->path, &arg);
    RF_ASSERT(found);
    t->handle(s, r, arg, o);
}
