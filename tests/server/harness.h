/* harness.h - a server over the demo model inside the test program, and how to ask it. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/os.h"
#include "lib/http.h"
#include "lib/testlib.h"
#include "server/server.h"

typedef struct under_test {
    rf_server *server;
    rf_slot *slot;     /* of the first model, if that is loaded */
    rf_engine *engine; /* its engine */
    const char *url;
} under_test;

static inline rf_server_opts usual_opts(void) {
    static const rf_model_name demo = {"demo", RF_SOURCE_DIR "/models/demo.gguf", true};
    return (rf_server_opts){.address = "127.0.0.1:0",
                            .models = &demo,
                            .n_models = 1,
                            .engine = {.n_threads = 1, .batch_tokens = 64, .n_kv_blocks = 512},
                            .max_waiting = 256,
                            .max_connections = 4096,
                            .http_threads = 2,
                            .max_body = 1 << 20,
                            .idle_seconds = 300,
                            .request_seconds = 300,
                            .drain_seconds = 60,
                            .ping_seconds = 60};
}

/* path NULL: the models of the options. */
static inline under_test open_model(const char *path, uint32_t parallel, const rf_server_opts *o) {
    under_test t = {0};
    rf_error e = {0};
    rf_server_opts own = *o;
    const rf_model_name named = {path ? o->models[0].name : "", path, true};
    own.engine.max_seqs = parallel;
    if (path) {
        own.models = &named;
        own.n_models = 1;
    }
    if (rf_server_open(&t.server, &own, &e) != RF_OK) fail_msg("%s", e.text);
    rf_model_view v;
    rf_models_view(t.server->models, 0, &v);
    rf_models_release(t.server->models, v.slot);
    t.slot = v.slot;
    t.engine = v.slot ? v.slot->engine : NULL;
    t.url = rf_server_url(t.server);
    return t;
}

static inline under_test open_server(uint32_t parallel, const rf_server_opts *o) {
    return open_model(NULL, parallel, o);
}

static inline under_test open_usual(uint32_t parallel) {
    const rf_server_opts o = usual_opts();
    return open_server(parallel, &o);
}

static inline void close_server(under_test *t) { rf_server_close(t->server); }

static inline rf_json *parse(rf_str text) {
    rf_json *j;
    rf_error e = {0};
    if (rf_json_parse(&j, text, &e) != RF_OK)
        fail_msg("%s in: %.*s", e.text, (int)(text.len > 400 ? 400 : text.len), text.p);
    return j;
}

/* Walks "choices.0.text". */
static inline const rf_json *at(const rf_json *j, const char *path) {
    char word[64];
    while (*path && j) {
        size_t n = strcspn(path, ".");
        snprintf(word, sizeof word, "%.*s", (int)n, path);
        j = rf_json_kind(j) == RF_JSON_ARRAY ? rf_json_at(j, (size_t)atoi(word))
                                             : rf_json_get(j, word);
        path += n + (path[n] == '.');
    }
    return j;
}

/* POST, expecting a status; the body as JSON. */
static inline rf_json *post(const under_test *t, const char *path, const char *body, int status) {
    rf_test_reply r = rf_test_ask(t->url, "POST", path, "", body);
    if (r.status != status) fail_msg("%s %s: %d: %.400s", path, body, r.status, r.body.p);
    rf_json *j = parse(rf_buf_str(&r.body));
    rf_test_reply_free(&r);
    return j;
}

static inline void assert_text(const rf_json *j, const char *path, const char *want) {
    rf_str got = rf_json_str(at(j, path));
    if (!rf_str_is(got, want)) fail_msg("%s is '%.*s', not '%s'", path, (int)got.len, got.p, want);
}

/* Every job that was started is counted as over. */
static inline bool all_counted(const under_test *t) {
    const rf_metrics *m = &t->server->metrics;
    return rf_metrics_get(m, RF_M_STARTED) == rf_metrics_get(m, RF_M_COMPLETED) +
                                                  rf_metrics_get(m, RF_M_FAILED) +
                                                  rf_metrics_get(m, RF_M_CANCELLED);
}

/* Waits, at most five minutes, until the engine has nothing to do and all its blocks are free. */
static inline void wait_until_idle(const under_test *t) {
    rf_engine_stats s;
    for (int i = 0; i < 300000; i++) {
        rf_engine_get_stats(t->engine, &s);
        if (s.n_running + s.n_waiting == 0 && s.kv_free == s.kv_blocks &&
            rf_jobs_n_open(t->slot->jobs) == 0 && all_counted(t))
            return;
        usleep(1000);
    }
    fail_msg("%u running, %u waiting, %u of %u blocks free", s.n_running, s.n_waiting, s.kv_free,
             s.kv_blocks);
}

static inline void wait_for_running(const under_test *t, uint32_t running, uint32_t waiting) {
    rf_engine_stats s;
    for (int i = 0; i < 300000; i++) {
        rf_engine_get_stats(t->engine, &s);
        if (s.n_running >= running && s.n_waiting >= waiting) return;
        usleep(1000);
    }
    fail_msg("%u running, %u waiting", s.n_running, s.n_waiting);
}

/* The next "data: ..." of a stream's body from *at on; false at its end. */
static inline bool next_event(rf_str body, size_t *from, rf_str *out) {
    while (*from < body.len) {
        const char *p = body.p + *from, *end = strstr(p, "\n\n");
        assert_non_null(end);
        *from += (size_t)(end - p) + 2;
        if (p[0] == ':') continue; /* a comment */
        assert_memory_equal(p, "data: ", 6);
        *out = (rf_str){p + 6, (size_t)(end - p) - 6};
        return true;
    }
    return false;
}
