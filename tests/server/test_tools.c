/* test_tools.c - tool calls and reasoning over HTTP: the demo model is made to write them by a
 * choice of one, so what a client gets is known to the letter, whole and as a stream; and by
 * tool_choice, so that every call must be valid for its schema.
 *
 * req: B-28 a stream adds up to the whole answer. */
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "server/harness.h"

#define TOOLS                                                                              \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":" \
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}}}}}]"
#define CALL                                                                           \
    "<tool_call>\\n{\\\"name\\\": \\\"weather\\\", \\\"arguments\\\": {\\\"city\\\": " \
    "\\\"Bern\\\"}}\\n</tool_call>"

static under_test open_with(const char *tool_format) {
    rf_server_opts o = usual_opts();
    o.tool_format = tool_format;
    return open_server(2, &o);
}

/* A request whose answer is text (JSON-escaped), with more members. */
static const char *body_for(const char *text, const char *more) {
    static char body[2000];
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"temperature\":0,"
             "\"max_tokens\":400,\"guided_choice\":[\"%s\"]%s%s}",
             text, more[0] ? "," : "", more);
    return body;
}

static rf_json *ask(const under_test *t, const char *text, const char *more) {
    return post(t, "/v1/chat/completions", body_for(text, more), 200);
}

static void test_whole(void **state) {
    (void)state;
    under_test t = open_with("hermes");
    rf_json *j = ask(&t, "<think>\\nhm </think>\\n\\nI look.\\n" CALL "\\n" CALL, TOOLS);
    assert_text(j, "choices.0.finish_reason", "tool_calls");
    assert_text(j, "choices.0.message.content", "I look.");
    assert_text(j, "choices.0.message.reasoning_content", "hm");
    assert_int_equal(rf_json_len(at(j, "choices.0.message.tool_calls")), 2);
    assert_text(j, "choices.0.message.tool_calls.1.type", "function");
    assert_text(j, "choices.0.message.tool_calls.1.function.name", "weather");
    assert_text(j, "choices.0.message.tool_calls.1.function.arguments", "{\"city\": \"Bern\"}");
    rf_str a = rf_json_str(at(j, "choices.0.message.tool_calls.0.id"));
    rf_str b = rf_json_str(at(j, "choices.0.message.tool_calls.1.id"));
    assert_true(rf_str_starts(a, "call_") && a.len > 10 && !rf_str_eq(a, b));
    rf_json_free(j);
    j = ask(&t, CALL, TOOLS); /* a call alone has no content */
    assert_non_null(at(j, "choices.0.message.content"));
    assert_int_equal(rf_json_kind(at(j, "choices.0.message.content")), RF_JSON_NULL);
    assert_null(at(j, "choices.0.message.reasoning_content"));
    rf_json_free(j);
    close_server(&t);
}

/* What is no call, or not asked for, is content. */
static void test_content(void **state) {
    (void)state;
    static const char call[] =
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>";
    under_test t = open_with("hermes");
    rf_json *j = ask(&t, CALL, "");
    assert_text(j, "choices.0.message.content", call);
    assert_text(j, "choices.0.finish_reason", "stop");
    assert_null(at(j, "choices.0.message.tool_calls"));
    rf_json_free(j);
    j = ask(&t, CALL, TOOLS ",\"tool_choice\":\"none\"");
    assert_text(j, "choices.0.message.content", call);
    rf_json_free(j);
    j = ask(&t, CALL, TOOLS ",\"return_special\":true");
    assert_null(at(j, "choices.0.message.tool_calls"));
    rf_json_free(j);
    j = ask(&t, "<tool_call>{\\\"name\\\": </tool_call>", TOOLS);
    assert_text(j, "choices.0.message.content", "<tool_call>{\"name\": </tool_call>");
    assert_text(j, "choices.0.finish_reason", "stop");
    rf_json_free(j);
    close_server(&t);
    t = open_with(NULL); /* the demo model's template knows no tools */
    j = ask(&t, CALL, TOOLS);
    assert_text(j, "choices.0.message.content", call);
    rf_json_free(j);
    close_server(&t);
}

typedef struct gathered {
    rf_buf content, reasoning, arguments, names, finish;
    size_t n_ids, n_logprobs;
} gathered;

static void put(rf_buf *out, const rf_json *j, const char *path) {
    rf_str s = rf_json_str(at(j, path));
    rf_buf_put(out, s.p, s.len);
}

static gathered gather(rf_str body) {
    gathered g = {0};
    rf_str event;
    for (size_t from = 0; next_event(body, &from, &event) && !rf_str_is(event, "[DONE]");) {
        rf_json *j = parse(event);
        put(&g.content, j, "choices.0.delta.content");
        put(&g.reasoning, j, "choices.0.delta.reasoning_content");
        put(&g.names, j, "choices.0.delta.tool_calls.0.function.name");
        put(&g.arguments, j, "choices.0.delta.tool_calls.0.function.arguments");
        put(&g.finish, j, "choices.0.finish_reason");
        g.n_ids += rf_json_str(at(j, "choices.0.delta.tool_calls.0.id")).len > 0;
        g.n_logprobs += rf_json_len(at(j, "choices.0.logprobs.content"));
        rf_json_free(j);
    }
    return g;
}

static void gathered_free(gathered *g) {
    rf_buf_free(&g->content);
    rf_buf_free(&g->reasoning);
    rf_buf_free(&g->arguments);
    rf_buf_free(&g->names);
    rf_buf_free(&g->finish);
}

static void test_stream(void **state) {
    (void)state;
    under_test t = open_with("hermes");
    rf_test_reply r = rf_test_ask(t.url, "POST", "/v1/chat/completions", "",
                                  body_for("<think>a b</think>I look <t>.\\n" CALL, TOOLS
                                           ",\"stream\":true,\"logprobs\":true,\"stream_options\":"
                                           "{\"include_usage\":true}"));
    assert_int_equal(r.status, 200);
    gathered g = gather(rf_buf_str(&r.body));
    assert_string_equal(g.content.p, "I look <t>.");
    assert_string_equal(g.reasoning.p, "a b");
    assert_string_equal(g.names.p, "weather");
    assert_string_equal(g.arguments.p, "{\"city\": \"Bern\"}");
    assert_string_equal(g.finish.p, "tool_calls");
    assert_int_equal(g.n_ids, 1);
    rf_json *whole = ask(&t, "<think>a b</think>I look <t>.\\n" CALL, TOOLS ",\"logprobs\":true");
    assert_int_equal(g.n_logprobs, rf_json_len(at(whole, "choices.0.logprobs.content")));
    rf_json_free(whole);
    gathered_free(&g);
    rf_test_reply_free(&r);
    close_server(&t);
}

/* ---- calls that must be ---- */

#define PLACES "\"$defs\":{\"place\":{\"enum\":[\"Bern\",\"Oslo\"]}}"
#define FUNCTION(name, parameters) \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"" parameters "}}"
#define TRAVEL                                                                                   \
    FUNCTION("trip/v1", ",\"parameters\":{\"type\":\"object\",\"properties\":{\"to\":{\"$ref\":" \
                        "\"#/$defs/place\"},\"$ref\":{\"type\":\"integer\",\"minimum\":1,"       \
                        "\"maximum\":9}},\"required\":[\"to\",\"$ref\"],"                        \
                        "\"additionalProperties\":false," PLACES "}")
#define TWO         "\"tools\":[" TRAVEL "," FUNCTION("now", "") "]"
#define REQUIRED    ",\"tool_choice\":\"required\""
#define NAMED(name) ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

static rf_json *ask_for_call(const under_test *t, const char *more, int status) {
    char body[2000];
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"temperature\":0,"
             "\"max_tokens\":200,%s}",
             more);
    return post(t, "/v1/chat/completions", body, status);
}

/* A call of one of the two functions, with arguments that its schema allows. */
static void check_call(const rf_json *call) {
    rf_str name = rf_json_str(at(call, "function.name"));
    rf_json *args = parse(rf_json_str(at(call, "function.arguments")));
    if (rf_str_is(name, "now")) {
        assert_int_equal(rf_json_len(args), 0);
    } else {
        assert_true(rf_str_is(name, "trip/v1"));
        rf_str to = rf_json_str(rf_json_get(args, "to"));
        assert_true(rf_str_is(to, "Bern") || rf_str_is(to, "Oslo"));
        int64_t days = rf_json_int(rf_json_get(args, "$ref"));
        assert_true(rf_json_len(args) == 2 && days >= 1 && days <= 9);
    }
    rf_json_free(args);
}

static void test_must_call(void **state) {
    (void)state;
    static const char *const choices[] = {
        TWO REQUIRED, TWO REQUIRED ",\"parallel_tool_calls\":false", TWO NAMED("trip/v1"),
        TWO NAMED("now"), TWO NAMED("trip/v1") ",\"n\":3,\"top_p\":0.9"};
    under_test t = open_with(NULL);
    for (size_t i = 0; i < RF_COUNT(choices); i++) {
        rf_json *j = ask_for_call(&t, choices[i], 200);
        for (size_t k = 0; k < rf_json_len(at(j, "choices")); k++) {
            const rf_json *c = rf_json_at(at(j, "choices"), k);
            const rf_json *calls = at(c, "message.tool_calls");
            assert_text(c, "finish_reason", "tool_calls");
            assert_int_equal(rf_json_kind(at(c, "message.content")), RF_JSON_NULL);
            assert_true(rf_json_len(calls) >= 1 && (i == 0 || rf_json_len(calls) == 1));
            for (size_t m = 0; m < rf_json_len(calls); m++)
                check_call(rf_json_at(calls, m));
            if (i >= 2)
                assert_text(c, "message.tool_calls.0.function.name", i == 3 ? "now" : "trip/v1");
        }
        assert_int_equal(rf_json_len(at(j, "choices")), i == 4 ? 3 : 1);
        rf_json_free(j);
    }
    close_server(&t);
}

static void test_forced_stream(void **state) {
    (void)state;
    static const char asked[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                                "\"temperature\":0," TWO NAMED("trip/v1") ",\"stream\":true}";
    under_test t = open_with(NULL);
    rf_json *j = ask_for_call(&t, TWO NAMED("trip/v1"), 200);
    rf_test_reply r = rf_test_ask(t.url, "POST", "/v1/chat/completions", "", asked);
    assert_int_equal(r.status, 200);
    gathered g = gather(rf_buf_str(&r.body));
    assert_text(j, "choices.0.message.tool_calls.0.function.name", g.names.p);
    assert_text(j, "choices.0.message.tool_calls.0.function.arguments", g.arguments.p);
    assert_string_equal(g.finish.p, "tool_calls");
    assert_int_equal(g.content.len, 0);
    gathered_free(&g);
    rf_test_reply_free(&r);
    rf_json_free(j);
    close_server(&t);
}

/* An answer that is cut off is no call, and no failure. */
static void test_cut_call(void **state) {
    (void)state;
    under_test t = open_with(NULL);
    rf_json *j = ask_for_call(&t, TWO NAMED("trip/v1") ",\"max_completion_tokens\":4", 200);
    assert_text(j, "choices.0.finish_reason", "length");
    assert_null(at(j, "choices.0.message.tool_calls"));
    assert_true(rf_str_starts(rf_json_str(at(j, "choices.0.message.content")), "{"));
    rf_json_free(j);
    close_server(&t);
}

static void test_refused_choices(void **state) {
    (void)state;
    static const struct {
        const char *more, *param, *says;
    } cases[] = {
        {TWO ",\"tool_choice\":\"always\"", "tool_choice", "\"required\""},
        {TWO ",\"tool_choice\":{\"type\":\"function\"}", "tool_choice", "\"required\""},
        {TWO NAMED("other"), "tool_choice", "'other'"},
        {"\"tools\":[]" REQUIRED, "tool_choice", "no tools"},
        {TWO REQUIRED ",\"guided_regex\":\"a\"", "guided_regex", "tool_choice"},
        {"\"tools\":{}", "tools", "array"},
        {"\"tools\":[{\"type\":\"web_search\"}]", "tools[0].type", "function"},
        {"\"tools\":[{\"type\":\"function\"}]", "tools[0].function", "object"},
        {"\"tools\":[" FUNCTION("a b", "") "]", "tools[0].function.name", "white space"},
        {"\"tools\":[" FUNCTION("f", ",\"parameters\":[]") "]", "tools[0].function.parameters",
         "schema"},
        {"\"tools\":[" FUNCTION("f", "") "," FUNCTION("f", "") "]", "tools[1].function.name",
         "another"},
        {"\"tools\":[" FUNCTION(
             "f", ",\"parameters\":{\"properties\":{\"a\":{\"not\":{}}}}") "]" REQUIRED,
         "tool_choice", "#/$defs/f/properties/a/not"},
        {"\"tools\":[" FUNCTION("f", ",\"parameters\":{\"type\":\"string\"}") "]" REQUIRED,
         "tool_choice", ""},
    };
    under_test t = open_with(NULL);
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_json *j = ask_for_call(&t, cases[i].more, 400);
        rf_str text = rf_json_str(at(j, "error.message"));
        assert_text(j, "error.param", cases[i].param);
        if (!strstr(text.p, cases[i].says))
            fail_msg("'%s' is not in: %.*s", cases[i].says, RF_STR_ARG(text));
        rf_json_free(j);
    }
    assert_int_equal(rf_metrics_get(&t.server->metrics, RF_M_STARTED), 0);
    close_server(&t);
}

/* ---- one call at most ---- */

static void test_single_call(void **state) {
    (void)state;
    under_test t = open_with("hermes");
    rf_json *j = ask(&t, CALL CALL "b", TOOLS ",\"parallel_tool_calls\":false");
    assert_int_equal(rf_json_len(at(j, "choices.0.message.tool_calls")), 1);
    assert_text(j, "choices.0.message.content", "b");
    rf_json_free(j);
    close_server(&t);
}

/* ---- through the model's own template ---- */

static const char template[] =
    "{% if tools %}{{ tools | tojson }}|{% endif %}{% for m in messages %}{{ m.role }}:"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }} "
    "{{ c.function.arguments.city }} {{ c.id }}</tool_call>{% endfor %}"
    "{% if m.role == 'tool' %} for {{ m.tool_call_id }}{% endif %}|{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% if thinks %}<think>\n{% endif %}{% endif %}";

/* The demo model with that template. */
static const char *write_templated(void) {
    const char *path = rf_test_tmp("templated.gguf");
    rf_gguf *g;
    rf_gguf_writer *w;
    rf_error e = {0};
    assert_int_equal(rf_gguf_open(&g, RF_SOURCE_DIR "/models/demo.gguf", &e), RF_OK);
    assert_int_equal(rf_gguf_writer_open(&w, path, 32, &e), RF_OK);
    for (size_t i = 0; i < rf_gguf_n_kv(g); i++) {
        const rf_gguf_kv *kv = rf_gguf_kv_at(g, i);
        if (!rf_str_is(kv->key, "tokenizer.chat_template"))
            assert_int_equal(rf_gguf_put_kv(w, kv, &e), RF_OK);
    }
    rf_str text = RF_STR(template);
    assert_int_equal(rf_gguf_put_str(w, "tokenizer.chat_template", text, &e), RF_OK);
    for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
        const rf_gguf_tensor *x = rf_gguf_tensor_at(g, i);
        assert_int_equal(rf_gguf_declare(w, x->name, x->type, x->n_dims, x->ne, &e), RF_OK);
    }
    for (size_t i = 0; i < rf_gguf_n_tensors(g); i++) {
        const rf_gguf_tensor *x = rf_gguf_tensor_at(g, i);
        assert_int_equal(rf_gguf_writer_data(w, x->data, x->n_bytes, &e), RF_OK);
    }
    assert_int_equal(rf_gguf_writer_finish(w, &e), RF_OK);
    rf_gguf_close(g);
    return path;
}

/* Tools, calls, their results and reasoning reach the template. */
static void test_history(const under_test *t) {
    rf_json *j = post(
        t, "/apply-template",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
        "null,\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\","
        "\"function\":{\"name\":\"weather\",\"arguments\":\"{\\\"city\\\": \\\"Bern\\\"}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"rain\"}]}],\"tools\":[" FUNCTION("f", "") "]}",
        200);
    rf_str got = rf_json_str(at(j, "prompt"));
    static const char want[] = "[{\"type\": \"function\", \"function\": {\"name\": "
                               "\"f\"}}]|user:a|assistant:<think>hm</think>"
                               "<tool_call>weather Bern c1</tool_call>|tool:rain for c1|assistant:";
    if (!got.len || !strstr(got.p, want)) fail_msg("got %.*s", RF_STR_ARG(got));
    rf_json_free(j);
}

/* The demo model's template adds content to text, which null cannot be. */
static void test_null_content(void **state) {
    (void)state;
    under_test t = open_with(NULL);
    rf_json *j =
        post(&t, "/apply-template",
             "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":"
             "\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}]}",
             200);
    assert_true(rf_json_str(at(j, "prompt")).len > 0);
    rf_json_free(j);
    close_server(&t);
}

static void test_template(void **state) {
    (void)state;
    rf_server_opts o = usual_opts();
    under_test t = open_model(write_templated(), 2, &o);
    test_history(&t);
    rf_json *j = ask(&t, "<think>hm</think>" CALL, TOOLS);
    assert_text(j, "choices.0.message.reasoning_content", "hm");
    assert_text(j, "choices.0.message.tool_calls.0.function.name", "weather");
    rf_json_free(j);
    /* the prompt opened the reasoning */
    j = ask(&t, "hm\\n</think>\\n" CALL, TOOLS ",\"chat_template_kwargs\":{\"thinks\":true}");
    assert_text(j, "choices.0.message.reasoning_content", "hm");
    assert_text(j, "choices.0.message.tool_calls.0.function.name", "weather");
    rf_json_free(j);
    /* which a call that must be does not read */
    j = ask_for_call(&t, TWO NAMED("now") ",\"chat_template_kwargs\":{\"thinks\":true}", 200);
    assert_text(j, "choices.0.message.tool_calls.0.function.name", "now");
    assert_null(at(j, "choices.0.message.reasoning_content"));
    rf_json_free(j);
    close_server(&t);
}

static void test_unknown_format(void **state) {
    (void)state;
    under_test t = open_with(NULL);
    rf_server_opts o = usual_opts();
    o.tool_format = "nonsense";
    rf_server *s;
    rf_error e = {0};
    assert_int_equal(rf_server_open(&s, &o, &e), RF_EARG);
    assert_null(s);
    assert_non_null(strstr(e.text, "nonsense"));
    close_server(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),           cmocka_unit_test(test_content),
        cmocka_unit_test(test_stream),          cmocka_unit_test(test_must_call),
        cmocka_unit_test(test_cut_call),        cmocka_unit_test(test_forced_stream),
        cmocka_unit_test(test_refused_choices), cmocka_unit_test(test_single_call),
        cmocka_unit_test(test_template),        cmocka_unit_test(test_null_content),
        cmocka_unit_test(test_unknown_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
