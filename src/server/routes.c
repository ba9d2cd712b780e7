/* routes.c - the table of routes, who may use them, and what their handlers share. */
#include "server/routes.h"

#include <string.h>

void rf_answer_json(rf_outbox *o, int status, rf_buf *body) {
    rf_api_answer(o, status, "application/json", body);
}

void rf_free_request(rf_params *p, rf_ids *ids) {
    for (size_t i = 0; ids && i < p->n_prompts; i++)
        rf_ids_free(&ids[i]);
    rf_free(ids);
    rf_params_free(p);
}

bool rf_get_model(const rf_json *body, rf_str *out, rf_api_error *e) {
    const rf_json *name = rf_json_get(body, "model");
    *out = rf_json_str(name);
    if (rf_json_kind(name) == RF_JSON_STRING || rf_json_kind(name) == RF_JSON_NULL) return true;
    return rf_api_fail(e, 400, "invalid_type", "model", "model must be a string");
}

const rf_route rf_routes[] = {
#define X(method, path, scope, handler, body, answer, summary) \
    {method, path, RF_SCOPE_##scope, rf_route_##handler, body, answer, summary},
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
    rf_api_error e = {.style = rf_api_style_of(r->path)};
    if (e.style == RF_API_ANTHROPIC) rf_outbox_add_header(o, "Request-Id", "%s", r->id);
    const rf_route *t = find_route(r, &e, o);
    r->route = t;
    rf_trace_read(rf_http_header(r, "traceparent"), &r->trace);
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
