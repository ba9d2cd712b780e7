/* The server over the demo model, through sockets: routes, answers, streams, refusals, counts. */
#include <inttypes.h>

#include "server/harness.h"

static const char story[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story about a "
    "fox.\"}],\"max_tokens\":24,\"seed\":5";

/* ---- routes ---- */

/* req: B-49 C-16: it listens, and every route of the table answers. */
static void test_routes(void **state) {
    (void)state;
    under_test t = open_usual(2);
    static const char *const bodies[] = {
        "ChatRequest",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":2}",
        "CompletionRequest",
        "{\"prompt\":\"Once\",\"max_tokens\":2}",
        "GenerateRequest",
        "{\"prompt\":\"Once\",\"max_tokens\":2}",
        "TokenizeRequest",
        "{\"content\":\"Once upon\"}",
        "DetokenizeRequest",
        "{\"tokens\":[5,6]}",
        "EmbeddingRequest",
        "{\"input\":\"Once upon\"}",
        "RerankRequest",
        "{\"query\":\"Once\",\"documents\":[\"upon\"]}",
        "ModelName",
        "{\"model\":\"demo\"}",
        "ResponsesRequest",
        "{\"input\":\"Hi\",\"max_output_tokens\":2}",
        "MessagesRequest",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":2}"};
    rf_json *first = post(&t, "/generate", bodies[5], 200);
    for (size_t i = 0; i < rf_route_count; i++) {
        const rf_route *r = &rf_routes[i];
        char path[200];
        const char *brace = strchr(r->path, '{'), *body = NULL;
        rf_str id = rf_json_str(at(first, "id"));
        if (strncmp(r->path, "/v1/models/", 11) == 0) id = RF_STR("demo");
        snprintf(path, sizeof path, "%.*s%.*s", brace ? (int)(brace - r->path) : 100, r->path,
                 brace ? (int)id.len : 0, id.p);
        for (size_t k = 0; k < RF_COUNT(bodies); k += 2)
            if (strcmp(bodies[k], r->body) == 0) body = bodies[k + 1];
        assert_true(!r->body[0] || body);
        rf_test_reply a = rf_test_ask(t.url, r->method, path, "",
                                      body                  ? body
                                      : r->method[0] == 'P' ? ""
                                                            : NULL);
        int want = strcmp(r->path, "/v1/rerank") == 0 ? 400 : 200; /* demo is no reranker */
        if (a.status != want) fail_msg("%s %s: %d %s", r->method, path, a.status, a.body.p);
        assert_true(a.body.len > 0);
        char id_header[64];
        assert_non_null(rf_test_header(&a, "X-Request-Id", id_header, sizeof id_header));
        rf_test_reply_free(&a);
    }
    rf_json_free(first);
    close_server(&t);
}

/* The document lists exactly the table of routes, and its references lead somewhere. */
static void test_openapi(void **state) {
    (void)state;
    under_test t = open_usual(1);
    rf_test_reply a = rf_test_ask(t.url, "GET", "/openapi.json", "", NULL);
    rf_json *j = parse(rf_buf_str(&a.body));
    assert_int_equal(rf_json_len(rf_json_get(j, "paths")), rf_route_count);
    const rf_json *schemas = at(j, "components.schemas");
    for (size_t i = 0; i < rf_route_count; i++) {
        const rf_json *item = rf_json_get(rf_json_get(j, "paths"), rf_routes[i].path);
        const rf_json *op = rf_json_get(item, rf_routes[i].method[0] == 'G' ? "get" : "post");
        assert_text(op, "summary", rf_routes[i].summary);
        assert_int_equal(rf_json_kind(rf_json_get(op, "requestBody")) == RF_JSON_OBJECT,
                         rf_routes[i].body[0] != 0);
    }
    size_t n_refs = 0;
    for (const char *p = a.body.p; (p = strstr(p, "#/components/schemas/")) != NULL; n_refs++) {
        char name[64];
        p += 21;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, "\""), p);
        assert_int_equal(rf_json_kind(rf_json_get(schemas, name)), RF_JSON_OBJECT);
    }
    assert_true(n_refs > 2 * rf_route_count);
    rf_json_free(j);
    rf_test_reply_free(&a);
    close_server(&t);
}

static void test_no_such_route(void **state) {
    (void)state;
    under_test t = open_usual(1);
    char allow[20];
    rf_test_reply a = rf_test_ask(t.url, "GET", "/nothing", "", NULL);
    assert_int_equal(a.status, 404);
    rf_test_reply_free(&a);
    a = rf_test_ask(t.url, "GET", "/v1/chat/completions", "", NULL);
    assert_int_equal(a.status, 405);
    assert_string_equal(rf_test_header(&a, "Allow", allow, sizeof allow), "POST");
    rf_test_reply_free(&a);
    a = rf_test_ask(t.url, "GET", "/status/gen-unknown", "", NULL);
    assert_int_equal(a.status, 404);
    rf_test_reply_free(&a);
    close_server(&t);
}

/* ---- answers ---- */

/* The pieces of a stream put together, each checked: one id, role first, one end, [DONE] last. */
static void check_chat_stream(rf_str body, rf_buf *text, uint32_t *n_logprobs, int64_t usage[3]) {
    size_t from = 0, n = 0, n_ends = 0;
    rf_str event, id = {0};
    rf_json *first = NULL;
    bool done = false;
    while (next_event(body, &from, &event)) {
        assert_false(done);
        done = rf_str_is(event, "[DONE]");
        if (done) continue;
        rf_json *j = parse(event);
        assert_text(j, "object", "chat.completion.chunk");
        if (n++ == 0) {
            first = j;
            id = rf_json_str(at(j, "id"));
            assert_text(j, "choices.0.delta.role", "assistant");
            continue;
        }
        assert_true(rf_str_eq(rf_json_str(at(j, "id")), id));
        if (rf_json_len(rf_json_get(j, "choices")) == 0) {
            usage[0] = rf_json_int(at(j, "usage.prompt_tokens"));
            usage[1] = rf_json_int(at(j, "usage.completion_tokens"));
            usage[2] = rf_json_int(at(j, "usage.prompt_tokens_details.cached_tokens"));
        } else {
            rf_str delta = rf_json_str(at(j, "choices.0.delta.content"));
            rf_buf_put(text, delta.p, delta.len);
            *n_logprobs += (uint32_t)rf_json_len(at(j, "choices.0.logprobs.content"));
            n_ends += rf_json_kind(at(j, "choices.0.finish_reason")) == RF_JSON_STRING;
        }
        rf_json_free(j);
    }
    assert_true(done);
    assert_int_equal(n_ends, 1);
    rf_json_free(first);
}

/* req: B-52 B-53: a stream is the whole answer, byte for byte, with nothing added, and no character
 * is cut: at this temperature tokens that are parts of characters are common. */
static void test_stream_equals_whole(void **state) {
    (void)state;
    under_test t = open_usual(2);
    static const char *const temperatures[] = {"0", "1", "3"};
    for (size_t i = 0; i < RF_COUNT(temperatures); i++) {
        char body[400];
        snprintf(body, sizeof body, "%s,\"temperature\":%s,\"logprobs\":true,\"top_logprobs\":2}",
                 story, temperatures[i]);
        rf_json *whole = post(&t, "/v1/chat/completions", body, 200);
        snprintf(body, sizeof body,
                 "%s,\"temperature\":%s,\"logprobs\":true,\"stream\":true,\"stream_options\":{"
                 "\"include_usage\":true}}",
                 story, temperatures[i]);
        rf_test_reply a = rf_test_ask(t.url, "POST", "/v1/chat/completions", "", body);
        char type[40];
        assert_string_equal(rf_test_header(&a, "Content-Type", type, sizeof type),
                            "text/event-stream");
        rf_buf text = {0};
        uint32_t n_logprobs = 0;
        int64_t usage[3] = {0};
        check_chat_stream(rf_buf_str(&a.body), &text, &n_logprobs, usage);
        rf_str want = rf_json_str(at(whole, "choices.0.message.content"));
        assert_true(want.len > 20);
        assert_int_equal(text.len, want.len);
        assert_memory_equal(text.p, want.p, want.len);
        assert_int_equal(n_logprobs, rf_json_len(at(whole, "choices.0.logprobs.content")));
        assert_int_equal(usage[0], rf_json_int(at(whole, "usage.prompt_tokens")));
        assert_int_equal(usage[1], rf_json_int(at(whole, "usage.completion_tokens")));
        assert_int_equal(usage[1], 24);
        rf_buf_free(&text);
        rf_test_reply_free(&a);
        rf_json_free(whole);
    }
    close_server(&t);
}

/* Several answers and prompts, in order; the shared prefix is computed once. */
static void test_choices(void **state) {
    (void)state;
    under_test t = open_usual(4);
    rf_buf body = {0};
    rf_buf_puts(&body, "{\"prompt\":[\"");
    for (int i = 0; i < 20; i++)
        rf_buf_puts(&body, "The fox ran to the river. ");
    rf_buf_puts(&body,
                "\",\"Once upon\"],\"n\":3,\"max_tokens\":6,\"temperature\":0,\"echo\":true}");
    rf_json *j = post(&t, "/v1/completions", body.p, 200);
    assert_int_equal(rf_json_len(rf_json_get(j, "choices")), 6);
    rf_str one[6];
    for (size_t i = 0; i < 6; i++) {
        const rf_json *c = rf_json_at(rf_json_get(j, "choices"), i);
        assert_int_equal(rf_json_int(at(c, "index")), i);
        one[i] = rf_json_str(at(c, "text"));
        assert_true(rf_str_starts(one[i], i < 3 ? "The fox ran" : "Once upon"));
        assert_true(rf_str_eq(one[i], one[i < 3 ? 0 : 3])); /* greedy: all the same */
    }
    assert_int_equal(rf_json_int(at(j, "usage.completion_tokens")), 36);
    /* Two of three answers found the long prompt in the cache. */
    rf_engine_stats s;
    rf_engine_get_stats(t.engine, &s);
    assert_true(s.kv_hits >= 2 * (20 * 5 / 32));
    rf_json_free(j);
    rf_buf_free(&body);

    j = post(&t, "/v1/completions",
             "{\"prompt\":\"Once upon\",\"n\":2,\"max_tokens\":8,\"seed\":1,\"temperature\":2}",
             200);
    assert_false(
        rf_str_eq(rf_json_str(at(j, "choices.0.text")), rf_json_str(at(j, "choices.1.text"))));
    rf_json_free(j);
    close_server(&t);
}

static void test_stop_and_logprobs(void **state) {
    (void)state;
    under_test t = open_usual(2);
    rf_json *j =
        post(&t, "/v1/completions",
             "{\"prompt\":\"Once upon\",\"max_tokens\":30,\"temperature\":0,\"stop\":[\" was\"],"
             "\"logprobs\":3}",
             200);
    assert_text(j, "choices.0.text", " a time, there");
    assert_text(j, "choices.0.finish_reason", "stop");
    assert_int_equal(rf_json_int(at(j, "choices.0.logprobs.text_offset.1")), 2);
    assert_text(j, "choices.0.logprobs.tokens.1", " time");
    assert_int_equal(rf_json_len(at(j, "choices.0.logprobs.top_logprobs.0")), 3);
    rf_json_free(j);
    /* A bias of -100 forbids, of 100 forces. */
    j = post(&t, "/generate",
             "{\"prompt\":\"Once\",\"max_tokens\":3,\"temperature\":0,\"logit_bias\":{"
             "\"300\":100}}",
             200);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rf_json_int(rf_json_at(rf_json_get(j, "tokens"), i)), 300);
    rf_json_free(j);
    close_server(&t);
}

/* Answers that must match: each kind does, and a grammar that is wrong is refused by its field. */
static void test_structured(void **state) {
    (void)state;
    under_test t = open_usual(2);
    rf_json *j =
        post(&t, "/v1/completions",
             "{\"prompt\":\"Once upon\",\"max_tokens\":20,\"seed\":1,\"guided_choice\":[\"yes\","
             "\"no\"],\"n\":2}",
             200);
    for (int i = 0; i < 2; i++) {
        rf_str text =
            rf_json_str(rf_json_get(rf_json_at(rf_json_get(j, "choices"), (size_t)i), "text"));
        assert_true(rf_str_is(text, "yes") || rf_str_is(text, "no"));
    }
    assert_text(j, "choices.0.finish_reason", "stop");
    rf_json_free(j);
    j = post(&t, "/v1/chat/completions",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":100,"
             "\"temperature\":0,"
             "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"type\":"
             "\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"}},\"required\":[\"a\"],"
             "\"additionalProperties\":false}}}}",
             200);
    rf_json *answer = parse(rf_json_str(at(j, "choices.0.message.content")));
    assert_int_equal(rf_json_kind(rf_json_get(answer, "a")), RF_JSON_BOOL);
    rf_json_free(answer);
    rf_json_free(j);
    j = post(&t, "/generate", "{\"prompt\":\"a\",\"guided_regex\":\"(\"}", 400);
    assert_text(j, "error.param", "guided_regex");
    assert_text(j, "error.code", "invalid_grammar");
    rf_json_free(j);
    close_server(&t);
}

/* req: C-11 B-50: what is told of a request by its id is what its owner got. */
static void test_status(void **state) {
    (void)state;
    under_test t = open_usual(2);
    rf_json *j =
        post(&t, "/generate", "{\"prompt\":\"Once upon\",\"max_tokens\":20,\"seed\":3}", 200);
    char path[80];
    snprintf(path, sizeof path, "/status/%s", rf_json_str(at(j, "id")).p);
    rf_test_reply a = rf_test_ask(t.url, "GET", path, "", NULL);
    rf_json *s = parse(rf_buf_str(&a.body));
    assert_text(s, "state", "finished");
    assert_text(s, "finish_reason", "length");
    assert_true(rf_str_eq(rf_json_str(at(s, "text")), rf_json_str(at(j, "text"))));
    assert_int_equal(rf_json_int(at(s, "generated_tokens")), 20);
    rf_json_free(s);
    rf_json_free(j);
    rf_test_reply_free(&a);
    close_server(&t);
}

/* req: C-11: cancelling by id ends a stream with an error event and frees everything. */
static void test_cancel(void **state) {
    (void)state;
    under_test t = open_usual(1);
    int fd = rf_test_connect(t.url);
    rf_buf seen = {0};
    rf_test_request(fd, "POST", "/generate/stream", "",
                    "{\"prompt\":\"Once upon\",\"max_tokens\":900,\"ignore_eos\":true}");
    assert_true(rf_test_read_until(fd, &seen, "\"token\""));
    char path[80];
    snprintf(path, sizeof path, "/cancel/%.28s", strstr(seen.p, "gen-"));
    rf_json_free(post(&t, path, "", 200));
    assert_true(rf_test_read_until(fd, &seen, "\"code\":\"cancelled\""));
    wait_until_idle(&t);
    assert_int_equal(rf_metrics_get(&t.server->metrics, RF_M_CANCELLED), 1);
    rf_buf_free(&seen);
    close(fd);
    close_server(&t);
}

/* ---- refusals ---- */

static void test_refused(void **state) {
    (void)state;
    under_test t = open_usual(1);
    static const struct {
        const char *path, *body;
        int status;
        const char *code, *param;
    } cases[] = {
        {"/generate", "", 400, "invalid_json", ""},
        {"/generate", "[]", 400, "invalid_json", ""},
        {"/generate", "{\"prompt\":", 400, "invalid_json", ""},
        {"/generate", "{}", 400, "missing_required_parameter", "prompt"},
        {"/generate", "{\"prompt\":5}", 400, "invalid_type", "prompt"},
        {"/generate", "{\"prompt\":[1,-2]}", 400, "invalid_type", "prompt"},
        {"/generate", "{\"prompt\":\"a\",\"temperature\":\"hot\"}", 400, "invalid_type",
         "temperature"},
        {"/generate", "{\"prompt\":\"a\",\"top_p\":2}", 400, "invalid_value", "top_p"},
        {"/generate", "{\"prompt\":\"a\",\"max_tokens\":0}", 400, "invalid_value", "max_tokens"},
        {"/generate", "{\"prompt\":\"a\",\"stop\":[1]}", 400, "invalid_type", "stop"},
        {"/generate", "{\"prompt\":\"a\",\"logit_bias\":{\"x\":1}}", 400, "invalid_type",
         "logit_bias"},
        {"/generate", "{\"prompt\":[99999]}", 400, NULL, ""},
        {"/v1/completions", "{\"prompt\":\"a\",\"n\":129}", 400, "invalid_value", "n"},
        {"/v1/completions", "{\"prompt\":\"a\",\"model\":\"other\"}", 404, "model_not_found",
         "model"},
        {"/v1/completions", "{\"prompt\":\"a\",\"best_of\":2}", 400, "unsupported_value",
         "best_of"},
        {"/v1/completions", "{\"prompt\":\"a\",\"suffix\":\"b\"}", 400, "unsupported_parameter",
         "suffix"},
        {"/v1/chat/completions", "{}", 400, "missing_required_parameter", "messages"},
        {"/v1/chat/completions", "{\"messages\":[5]}", 400, "invalid_type", "messages[0]"},
        {"/v1/chat/completions",
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", 400,
         "invalid_type", "messages[0].content"},
        {"/v1/chat/completions",
         "{\"messages\":[{\"role\":\"user\"}],\"response_format\":{\"type\":\"x\"}}", 400,
         "invalid_value", "response_format"},
        {"/v1/chat/completions",
         "{\"messages\":[{\"role\":\"user\"}],\"tool_choice\":\"required\"}", 400, "invalid_value",
         "tool_choice"},
        {"/tokenize", "{\"content\":1}", 400, "invalid_type", "content"},
        {"/detokenize", "{\"tokens\":[4096]}", 400, "invalid_value", "tokens"},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_json *j = post(&t, cases[i].path, cases[i].body, cases[i].status);
        const rf_json *e = rf_json_get(j, "error");
        assert_true(rf_json_str(at(e, "message")).len > 0 && rf_json_str(at(e, "type")).len > 0);
        assert_text(e, "param", cases[i].param);
        assert_text(e, "code", cases[i].code ? cases[i].code : "");
        rf_json_free(j);
    }
    rf_buf deep = {0};
    rf_buf_puts(&deep, "{\"x\":");
    for (int i = 0; i < 70; i++)
        rf_buf_putc(&deep, '[');
    rf_json_free(post(&t, "/generate", deep.p, 400));
    rf_buf_clear(&deep);
    rf_buf_puts(&deep, "{\"prompt\":\"");
    for (int i = 0; i < 3000; i++)
        rf_buf_puts(&deep, "fox ");
    rf_buf_puts(&deep, "\"}");
    rf_json *j = post(&t, "/generate", deep.p, 400);
    assert_text(j, "error.code", "context_length_exceeded");
    rf_json_free(j);
    rf_buf_free(&deep);
    assert_int_equal(rf_metrics_get(&t.server->metrics, RF_M_STARTED), 0);
    close_server(&t);
}

/* Unknown fields are ignored, null is absent. */
static void test_ignored(void **state) {
    (void)state;
    under_test t = open_usual(1);
    rf_json_free(
        post(&t, "/v1/completions",
             "{\"prompt\":\"a\",\"max_tokens\":1,\"user\":\"me\",\"store\":true,\"n\":null,"
             "\"stop\":null,\"response_format\":null,\"whatever\":{\"a\":[1]}}",
             200));
    close_server(&t);
}

/* req: C-11: a queue with an end, and a word on when to come again. */
static void test_queue_is_bounded(void **state) {
    (void)state;
    rf_server_opts o = usual_opts();
    o.max_waiting = 2;
    under_test t = open_server(1, &o);
    int fds[3];
    char retry[20];
    for (int i = 0; i < 3; i++) {
        fds[i] = rf_test_connect(t.url);
        rf_test_request(fds[i], "POST", "/generate", "",
                        "{\"prompt\":\"Once\",\"max_tokens\":900,\"ignore_eos\":true}");
        wait_for_running(&t, 1, (uint32_t)i);
    }
    rf_test_reply a = rf_test_ask(t.url, "POST", "/generate", "", "{\"prompt\":\"a\"}");
    assert_int_equal(a.status, 429);
    assert_non_null(rf_test_header(&a, "Retry-After", retry, sizeof retry));
    assert_true(atoi(retry) >= 1);
    assert_int_equal(rf_metrics_get(&t.server->metrics, RF_M_REJECTED), 1);
    rf_test_reply_free(&a);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    wait_until_idle(&t);
    close_server(&t);
}

/* ---- keys ---- */

static void write_keys(const char *path) {
    /* of alice-key, bob-key, scraper-key and root-key */
    static const char sums[4][65] = {
        "72ee9d4355ccb9d3a4c9dbf37382e38e75c1b1a225b5bd1f729ee91bbda30c20",
        "9b94dc1a51a38769f135edf04033ad7f2f487b6c25929be7a861cfc1ab10cf98",
        "fc599a17c4a7d8068ba48a04319b40b9d8b6e9c193a5cc26034930d7c24f4519",
        "53ee2a345a1cbf8f01c840e98e2c72e8826b89578da737d03dd600c68bb67f83",
    };
    static const char *const scopes[] = {"user alice", "user bob", "metrics scraper", "admin root"};
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "# keys of the test\n\n");
    for (int i = 0; i < 4; i++)
        fprintf(f, "%s %s\n", sums[i], scopes[i]);
    fclose(f);
}

static int status_with(const under_test *t, const char *key, const char *method, const char *path) {
    char header[100] = "";
    if (key) snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", key);
    const char *body = method[0] == 'P' ? "{\"prompt\":\"a\",\"max_tokens\":1}" : NULL;
    rf_test_reply a = rf_test_ask(t->url, method, path, header, body);
    int status = a.status;
    rf_test_reply_free(&a);
    return status;
}

static void test_keys(void **state) {
    (void)state;
    const char *path = rf_test_tmp("keys");
    write_keys(path);
    rf_server_opts o = usual_opts();
    o.keys_file = path;
    under_test t = open_server(1, &o);
    assert_int_equal(status_with(&t, NULL, "GET", "/health"), 200);
    for (size_t i = 0; i < rf_route_count; i++)
        if (rf_routes[i].scope != RF_SCOPE_NONE) {
            assert_int_equal(status_with(&t, NULL, rf_routes[i].method, rf_routes[i].path), 401);
            assert_int_equal(status_with(&t, "wrong", rf_routes[i].method, rf_routes[i].path), 401);
        }
    assert_int_equal(status_with(&t, "alice-key", "POST", "/generate"), 200);
    assert_int_equal(status_with(&t, "alice-key", "GET", "/metrics"), 403);
    assert_int_equal(status_with(&t, "alice-key", "GET", "/slots"), 403);
    assert_int_equal(status_with(&t, "scraper-key", "GET", "/metrics"), 200);
    assert_int_equal(status_with(&t, "scraper-key", "POST", "/generate"), 403);
    assert_int_equal(status_with(&t, "root-key", "GET", "/slots"), 200);
    assert_int_equal(status_with(&t, "root-key", "GET", "/metrics"), 200);
    /* What alice asked is nobody's business but hers and the administrator's. */
    rf_test_reply a = rf_test_ask(t.url, "POST", "/generate", "X-Api-Key: alice-key\r\n",
                                  "{\"prompt\":\"a\",\"max_tokens\":1}");
    rf_json *j = parse(rf_buf_str(&a.body));
    char status[80];
    snprintf(status, sizeof status, "/status/%s", rf_json_str(at(j, "id")).p);
    assert_int_equal(status_with(&t, "alice-key", "GET", status), 200);
    assert_int_equal(status_with(&t, "bob-key", "GET", status), 404);
    assert_int_equal(status_with(&t, "root-key", "GET", status), 200);
    rf_json_free(j);
    rf_test_reply_free(&a);
    close_server(&t);
}

/* Tokens of a prompt that were found computed, when the key asks. */
static int64_t cached_for(const under_test *t, const char *key) {
    char header[100];
    snprintf(header, sizeof header, "X-Api-Key: %s\r\n", key);
    rf_test_reply a = rf_test_ask(
        t->url, "POST", "/generate", header,
        "{\"prompt\":\"Once upon a time there was a little fox who lived in the wood and every day "
        "the fox went to the river to look at the water and to drink of it\",\"max_tokens\":1}");
    assert_int_equal(a.status, 200);
    rf_json *j = parse(rf_buf_str(&a.body));
    int64_t n = rf_json_int(at(j, "cached_tokens"));
    rf_json_free(j);
    rf_test_reply_free(&a);
    return n;
}

/* Whose computed prompts a key finds: everybody's, or with prefix_per_key its own. */
static void test_prefix_per_key(void **state) {
    (void)state;
    const char *path = rf_test_tmp("keys");
    write_keys(path);
    for (int per_key = 0; per_key < 2; per_key++) {
        rf_server_opts o = usual_opts();
        o.keys_file = path;
        o.prefix_per_key = per_key;
        under_test t = open_server(1, &o);
        assert_int_equal(cached_for(&t, "alice-key"), 0);
        assert_int_equal(cached_for(&t, "alice-key"), 32);
        assert_int_equal(cached_for(&t, "bob-key"), per_key ? 0 : 32);
        assert_int_equal(cached_for(&t, "bob-key"), 32);
        close_server(&t);
    }
}

/* ---- metrics ---- */

static double metric(const char *text, const char *name) {
    char line[100];
    snprintf(line, sizeof line, "\nrocmforge_%s ", name);
    const char *p = strstr(text, line);
    if (!p) fail_msg("no metric %s", name);
    return strtod(p + strlen(line), NULL);
}

/* Waits, at most five minutes, until so many answers are counted: a client may have one before it is. */
static void wait_until_answered(const under_test *t, uint64_t n) {
    for (int i = 0; i < 300000; i++) {
        if (rf_metrics_get(&t->server->metrics, RF_M_HTTP_REQUESTS) >= n) return;
        usleep(1000);
    }
    fail_msg("fewer than %" PRIu64 " answers are counted", n);
}

/* What is scraped is what was done: requests, tokens, one observation of each kind per request. */
static void test_metrics(void **state) {
    (void)state;
    under_test t = open_usual(2);
    for (int i = 0; i < 3; i++)
        rf_json_free(
            post(&t, "/generate",
                 "{\"prompt\":\"Once upon a time there was a little fox who lived in the wood and "
                 "every day the fox went to the river to look at the water and to drink of it\","
                 "\"max_tokens\":7,\"ignore_eos\":true}",
                 200));
    rf_json_free(post(&t, "/generate", "{}", 400));
    wait_until_idle(&t);
    wait_until_answered(&t, 4);
    rf_test_reply a = rf_test_ask(t.url, "GET", "/metrics", "", NULL);
    const char *m = a.body.p;
    assert_true(metric(m, "requests_started_total") == 3);
    assert_true(metric(m, "requests_completed_total") == 3);
    assert_true(metric(m, "requests_failed_total") == 0);
    assert_true(metric(m, "requests_cancelled_total") == 0);
    assert_true(metric(m, "tokens_generated_total") == 21);
    assert_true(metric(m, "http_requests_refused_total") == 1);
    assert_true(metric(m, "prompt_tokens_cached_total") == 64);
    assert_true(metric(m, "kv_prefix_hits_total") == 2);
    assert_true(metric(m, "queue_length") == 0 && metric(m, "active_requests") == 0);
    assert_true(metric(m, "kv_blocks") == 512 && metric(m, "kv_blocks_free") == 512);
    static const char *const each[] = {"queue_duration_seconds", "prefill_duration_seconds",
                                       "decode_duration_seconds", "total_duration_seconds",
                                       "ttft_seconds"};
    for (size_t i = 0; i < RF_COUNT(each); i++) {
        char name[80];
        snprintf(name, sizeof name, "%s_count", each[i]);
        assert_true(metric(m, name) == 3);
        snprintf(name, sizeof name, "%s_bucket{le=\"+Inf\"}", each[i]);
        assert_true(metric(m, name) == 3);
        snprintf(name, sizeof name, "%s_sum", each[i]);
        assert_true(metric(m, name) >= 0);
    }
    assert_true(metric(m, "inter_token_seconds_count") == 18);
    assert_true(metric(m, "total_duration_seconds_sum") >=
                metric(m, "prefill_duration_seconds_sum"));
    rf_test_reply_free(&a);
    close_server(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes),         cmocka_unit_test(test_openapi),
        cmocka_unit_test(test_no_such_route),  cmocka_unit_test(test_stream_equals_whole),
        cmocka_unit_test(test_choices),        cmocka_unit_test(test_stop_and_logprobs),
        cmocka_unit_test(test_structured),     cmocka_unit_test(test_status),
        cmocka_unit_test(test_cancel),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_ignored),        cmocka_unit_test(test_queue_is_bounded),
        cmocka_unit_test(test_keys),           cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_prefix_per_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
