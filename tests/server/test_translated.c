/* The APIs that are translated, /v1/messages and /v1/responses: what their requests become, their
 * answers whole and as streams, made certain by a choice of one, their refusals.
 *
 * req: B-28 a stream adds up to the whole answer. */
#include "server/harness.h"
#include "server/translate.h"

/* ---- requests ---- */

static void assert_translated(rf_translate_fn fn, const char *body, const char *want) {
    rf_json *j = parse(rf_str_of(body));
    rf_api_error e = {0};
    rf_buf out = {0};
    if (!fn(j, &out, &e)) fail_msg("%s: %s", body, e.message);
    assert_string_equal(out.p, want);
    rf_json_free(j);
    rf_buf_free(&out);
}

static void test_messages_requests(void **state) {
    (void)state;
    static const struct {
        const char *body, *chat;
    } cases[] = {
        {"{\"model\":\"m\",\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
         "\"system\":[{\"type\":\"text\",\"text\":\"b\"},{\"type\":\"text\",\"text\":\"c\"}],"
         "\"stop_sequences\":[\"x\"],\"temperature\":0.5,\"n\":3,\"seed\":1}",
         "{\"messages\":[{\"role\":\"system\",\"content\":\"b\\nc\"},{\"role\":\"user\","
         "\"content\":\"a\"}],\"stop\":[\"x\"],\"model\":\"m\",\"max_tokens\":5,"
         "\"temperature\":0.5,\"seed\":1}"},
        {"{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
         "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"t\"},"
         "{\"type\":\"text\",\"text\":\"b\"},{\"type\":\"tool_use\",\"id\":\"1\",\"name\":\"f\","
         "\"input\":{\"x\":1.0}},{\"type\":\"tool_use\",\"id\":\"2\",\"name\":\"g\",\"input\":{}}]}"
         ","
         "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"1\","
         "\"content\":[{\"type\":\"text\",\"text\":\"r\"}]},{\"type\":\"tool_result\","
         "\"tool_use_id\":\"2\"},{\"type\":\"text\",\"text\":\"c\"},"
         "{\"type\":\"text\",\"text\":\"d\"}]}]}",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
         "\"b\",\"reasoning_content\":\"t\",\"tool_calls\":[{\"type\":\"function\",\"id\":\"1\","
         "\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1.0}}},{\"type\":\"function\","
         "\"id\":\"2\",\"function\":{\"name\":\"g\",\"arguments\":{}}}]},{\"role\":\"tool\","
         "\"content\":\"r\",\"tool_call_id\":\"1\"},{\"role\":\"tool\",\"content\":\"\","
         "\"tool_call_id\":\"2\"},{\"role\":\"user\",\"content\":\"c\\nd\"}],\"max_tokens\":5}"},
        {"{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{"
         "\"name\":\"f\",\"description\":\"d\",\"input_schema\":{\"type\":\"object\"}}],"
         "\"tool_choice\":{\"type\":\"tool\",\"name\":\"f\",\"disable_parallel_tool_use\":true}}",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{\"type\":\"function\","
         "\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":\"object\"}}}"
         "],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
         "\"parallel_tool_calls\":false,\"max_tokens\":5}"},
        {"{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"thinking\":{"
         "\"type\":\"disabled\"},\"chat_template_kwargs\":{\"enable_thinking\":true,\"x\":1},"
         "\"output_config\":{\"effort\":\"low\",\"format\":{\"type\":\"json_schema\",\"schema\":{}}"
         "},\"tool_choice\":{\"type\":\"any\"}}",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tool_choice\":\"required\","
         "\"chat_template_kwargs\":{\"enable_thinking\":false,\"x\":1},\"reasoning_effort\":"
         "\"low\",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{}}},"
         "\"max_tokens\":5}"},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++)
        assert_translated(rf_messages_to_chat, cases[i].body, cases[i].chat);
}

static void test_responses_requests(void **state) {
    (void)state;
    static const struct {
        const char *body, *chat;
    } cases[] = {
        {"{\"input\":\"a\",\"instructions\":\"b\",\"max_output_tokens\":5,\"n\":2,\"top_p\":0.5}",
         "{\"messages\":[{\"role\":\"system\",\"content\":\"b\"},{\"role\":\"user\",\"content\":"
         "\"a\"}],\"max_tokens\":5,\"instructions\":\"b\",\"top_p\":0.5}"},
        {"{\"instructions\":\"s\",\"input\":[{\"role\":\"developer\",\"content\":\"t\"},"
         "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
         "\"text\":\"a\"}]},{\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":"
         "\"reasoning_text\",\"text\":\"h\"}]},{\"role\":\"assistant\",\"content\":[{\"type\":"
         "\"output_text\",\"text\":\"b\"}]},{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":"
         "\"f\",\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"1\","
         "\"output\":\"r\"},{\"role\":\"system\",\"content\":\"u\"},{\"role\":\"assistant\","
         "\"content\":\"c\"}]}",
         "{\"messages\":[{\"role\":\"system\",\"content\":\"s\\nt\"},{\"role\":\"user\","
         "\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\",\"reasoning_content\":\"h\","
         "\"tool_calls\":[{\"type\":\"function\",\"id\":\"1\",\"function\":{\"name\":\"f\","
         "\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"content\":\"r\",\"tool_call_id\":\"1\"},"
         "{\"role\":\"system\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"c\"}],"
         "\"instructions\":\"s\"}"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":null,"
         "\"strict\":true}],\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"},\"reasoning\":{"
         "\"effort\":\"none\"},\"text\":{\"format\":{\"type\":\"json_schema\",\"schema\":{}}}}",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{\"type\":\"function\","
         "\"function\":{\"name\":\"f\",\"strict\":true}}],\"chat_template_kwargs\":{"
         "\"enable_thinking\":false},\"reasoning_effort\":\"none\",\"response_format\":{"
         "\"json_schema\":{\"type\":\"json_schema\",\"schema\":{}},\"type\":\"json_schema\"},"
         "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}},\"reasoning\":{"
         "\"effort\":\"none\"},\"text\":{\"format\":{\"type\":\"json_schema\",\"schema\":{}}}}"},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++)
        assert_translated(rf_responses_to_chat, cases[i].body, cases[i].chat);
}

static void assert_no_memory(rf_translate_fn fn, const char *body) {
    rf_json *j = parse(rf_str_of(body));
    long n = 0;
    bool failed = true;
    while (failed) {
        rf_api_error e = {0};
        rf_buf out = {0};
        rf_alloc_fail_nth(++n);
        failed = !fn(j, &out, &e) || out.failed;
        rf_alloc_fail_nth(0);
        rf_buf_free(&out);
    }
    assert_true(n > 3);
    rf_json_free(j);
}

static void test_no_memory(void **state) {
    (void)state;
    assert_no_memory(rf_messages_to_chat,
                     "{\"max_tokens\":5,\"system\":\"s\",\"messages\":[{\"role\":\"user\","
                     "\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"tool_result\","
                     "\"tool_use_id\":\"1\",\"content\":\"r\"}]}]}");
    assert_no_memory(rf_responses_to_chat,
                     "{\"instructions\":\"s\",\"input\":[{\"role\":\"user\",\"content\":\"a\"},"
                     "{\"role\":\"assistant\",\"content\":\"b\"},{\"type\":\"function_call\","
                     "\"call_id\":\"1\",\"name\":\"f\",\"arguments\":\"{}\"}]}");
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *path, *body, *text;
    } cases[] = {
        {"messages", "{\"max_tokens\":1}", "at least one message"},
        {"messages", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
         "max_tokens is missing"},
        {"messages", "{\"max_tokens\":1,\"messages\":[5]}", "messages[0].role"},
        {"messages", "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":5}]}",
         "messages[0].content must be"},
        {"messages",
         "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
         "messages[0].content[0].type must be text or tool_result"},
        {"messages",
         "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
         "\"tool_result\",\"tool_use_id\":\"1\",\"content\":[{\"type\":\"image\"}]}]}]}",
         "messages[0].content[0].content must be"},
        {"messages", "{\"max_tokens\":1,\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}]}",
         "does not continue"},
        {"messages",
         "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{"
         "\"type\":\"web_search\",\"name\":\"f\"}]}",
         "no tools of its own"},
        {"messages",
         "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tool_choice\":"
         "\"auto\"}",
         "tool_choice.type"},
        {"messages",
         "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
         "\"stop_sequences\":\"x\"}",
         "stop_sequences must be"},
        {"messages",
         "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"system\":5}",
         "system must be"},
        {"messages", "[]", "must be a JSON object"},
        {"responses", "{}", "input must be"},
        {"responses", "{\"input\":[5]}", "input[0].role"},
        {"responses", "{\"input\":[{\"type\":\"item_reference\",\"id\":\"x\"}]}", "input[0].type"},
        {"responses", "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
         "input[0].content must be"},
        {"responses", "{\"input\":\"a\",\"store\":true}", "keeps no answers"},
        {"responses", "{\"input\":\"a\",\"previous_response_id\":\"r\"}", "keeps no answers"},
        {"responses", "{\"input\":\"a\",\"truncation\":\"auto\"}", "does not shorten"},
        {"responses", "{\"input\":\"a\",\"include\":[\"web_search_call.results\"]}",
         "this server has no web_search_call.results"},
        {"responses", "{\"input\":\"a\",\"max_output_tokens\":\"5\"}", "a whole number"},
        {"responses", "{\"input\":\"a\",\"temperature\":-1}", "temperature is -1"},
    };
    under_test t = open_usual(1);
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        char path[40];
        snprintf(path, sizeof path, "/v1/%s", cases[i].path);
        rf_json *j = post(&t, path, cases[i].body, 400);
        rf_str message = rf_json_str(at(j, "error.message"));
        if (!strstr(message.p, cases[i].text)) fail_msg("not '%s': %s", cases[i].text, message.p);
        bool is_messages = cases[i].path[0] == 'm';
        assert_text(j, "error.type", "invalid_request_error");
        assert_text(j, "type", is_messages ? "error" : "");
        rf_json_free(j);
    }
    rf_buf body = {0}; /* what the engine refuses */
    rf_buf_puts(&body, "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < 20000; i++)
        rf_buf_puts(&body, "a ");
    rf_buf_puts(&body, "\"}]}");
    rf_json *j = post(&t, "/v1/messages", body.p, 400);
    assert_text(j, "type", "error");
    rf_json_free(j);
    rf_buf_free(&body);
    j = post(&t, "/v1/messages/nothing", "{}", 404);
    assert_text(j, "error.type", "not_found_error");
    assert_text(j, "type", "error");
    rf_json_free(j);
    close_server(&t);
}

/* ---- answers ---- */

#define TEXT                                                                            \
    "<think>\\nhm\\n</think>\\n\\nI look.\\n<tool_call>\\n{\\\"name\\\": \\\"f\\\", "   \
    "\\\"arguments\\\": {\\\"x\\\": 1}}\\n</tool_call>\\n<tool_call>\\n{\\\"name\\\": " \
    "\\\"f\\\", \\\"arguments\\\": {\\\"x\\\": 2}}\\n</tool_call>"
#define EXACTLY "\"temperature\":0,\"guided_choice\":[\"" TEXT "\"]"
static const char messages_ask[] =
    "{\"max_tokens\":400,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{"
    "\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}]," EXACTLY ",\"stream\":%s}";
static const char responses_ask[] =
    "{\"max_output_tokens\":400,\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"f\","
    "\"parameters\":{\"type\":\"object\"}}]," EXACTLY ",\"stream\":%s}";

static under_test open_hermes(void) {
    rf_server_opts o = usual_opts();
    o.tool_format = "hermes";
    return open_server(2, &o);
}

static const char *body_of(const char *ask, bool stream) {
    static char body[2000];
    int n = strcmp(ask, messages_ask) == 0
                ? snprintf(body, sizeof body, messages_ask, stream ? "true" : "false")
                : snprintf(body, sizeof body, responses_ask, stream ? "true" : "false");
    assert_in_range(n, 1, sizeof body - 1);
    return body;
}

/* The next "event: NAME", "data: JSON" of a stream as JSON, whose type is the name; NULL: the end. */
static rf_json *next_named(rf_str body, size_t *from) {
    if (*from >= body.len) return NULL;
    const char *p = body.p + *from, *data = strstr(p, "\ndata: "), *end = strstr(p, "\n\n");
    assert_true(data && end && data < end);
    assert_memory_equal(p, "event: ", 7);
    rf_json *j = parse((rf_str){data + 7, (size_t)(end - data) - 7});
    rf_str type = rf_json_str(rf_json_get(j, "type"));
    assert_true(rf_str_eq(type, (rf_str){p + 7, (size_t)(data - p) - 7}));
    *from += (size_t)(end - p) + 2;
    return j;
}

static bool is(const rf_json *event, const char *type) {
    return rf_str_is(rf_json_str(rf_json_get(event, "type")), type);
}

/* Blocks of a stream, put together again: what kind, and the joined deltas. */
typedef struct gathered {
    char kinds[8][24];
    rf_buf texts[8];
    size_t n, n_closed;
} gathered;

static void free_gathered(gathered *g) {
    for (size_t i = 0; i < g->n; i++)
        rf_buf_free(&g->texts[i]);
}

static void add_to(gathered *g, int64_t i, rf_str text) {
    assert_int_equal(i, g->n - 1); /* one after the other */
    assert_int_equal(g->n_closed, g->n - 1);
    rf_buf_put(&g->texts[i], text.p, text.len);
}

static void open_in(gathered *g, int64_t i, rf_str kind) {
    assert_int_equal(i, g->n);
    assert_int_equal(g->n_closed, g->n);
    assert_true(g->n < 8 && kind.len < 24);
    snprintf(g->kinds[g->n++], 24, "%.*s", (int)kind.len, kind.p);
}

static void take_messages_event(gathered *g, const rf_json *j) {
    static const char *const members[] = {"delta.text", "delta.thinking", "delta.partial_json"};
    int64_t i = rf_json_int(rf_json_get(j, "index"));
    if (is(j, "content_block_start")) open_in(g, i, rf_json_str(at(j, "content_block.type")));
    for (size_t k = 0; is(j, "content_block_delta") && k < RF_COUNT(members); k++)
        if (at(j, members[k])) add_to(g, i, rf_json_str(at(j, members[k])));
    if (is(j, "content_block_stop")) assert_int_equal(i, g->n_closed++);
}

/* req: B-28 */
static void test_messages(void **state) {
    (void)state;
    under_test t = open_hermes();
    rf_json *whole = post(&t, "/v1/messages", body_of(messages_ask, false), 200);
    assert_text(whole, "stop_reason", "tool_use");
    assert_int_equal(rf_json_len(at(whole, "content")), 4);
    assert_text(whole, "content.0.thinking", "hm");
    assert_text(whole, "content.1.text", "I look.");
    assert_int_equal(rf_json_int(at(whole, "content.3.input.x")), 2);
    assert_false(
        rf_str_eq(rf_json_str(at(whole, "content.2.id")), rf_json_str(at(whole, "content.3.id"))));
    rf_test_reply r = rf_test_ask(t.url, "POST", "/v1/messages", "", body_of(messages_ask, true));
    assert_int_equal(r.status, 200);
    char id[40];
    assert_int_equal(strlen(rf_test_header(&r, "Request-Id", id, sizeof id)), 24);
    gathered g = {0};
    size_t from = 0, n = 0;
    bool over = false;
    for (rf_json *j; (j = next_named(rf_buf_str(&r.body), &from)) != NULL; n++) {
        assert_false(over);
        if (n == 0) assert_true(is(j, "message_start"));
        if (n == 1) assert_true(is(j, "ping"));
        take_messages_event(&g, j);
        if (is(j, "message_delta")) {
            assert_text(j, "delta.stop_reason", "tool_use");
            assert_int_equal(rf_json_int(at(j, "usage.output_tokens")),
                             rf_json_int(at(whole, "usage.output_tokens")));
        }
        over = is(j, "message_stop");
        rf_json_free(j);
    }
    assert_true(over);
    assert_int_equal(g.n, 4);
    assert_int_equal(g.n_closed, 4);
    assert_string_equal(g.kinds[0], "thinking");
    assert_string_equal(g.kinds[3], "tool_use");
    assert_string_equal(g.texts[0].p, "hm");
    assert_string_equal(g.texts[1].p, "I look.");
    assert_string_equal(g.texts[3].p, "{\"x\": 2}");
    free_gathered(&g);
    rf_test_reply_free(&r);
    rf_json_free(whole);
    close_server(&t);
}

static void take_responses_event(gathered *g, const rf_json *j) {
    rf_str type = rf_json_str(rf_json_get(j, "type"));
    int64_t i = rf_json_int(rf_json_get(j, "output_index"));
    if (is(j, "response.output_item.added")) open_in(g, i, rf_json_str(at(j, "item.type")));
    if (type.len > 6 && strcmp(type.p + type.len - 6, ".delta") == 0)
        add_to(g, i, rf_json_str(rf_json_get(j, "delta")));
    if (is(j, "response.output_item.done")) assert_int_equal(i, g->n_closed++);
    const rf_json *text = rf_json_get(j, "text");
    if (!text) text = rf_json_get(j, "arguments");
    if (text) assert_true(rf_str_is(rf_json_str(text), g->texts[i].p)); /* the end of its text */
}

/* req: B-28 */
static void test_responses(void **state) {
    (void)state;
    under_test t = open_hermes();
    rf_json *whole = post(&t, "/v1/responses", body_of(responses_ask, false), 200);
    assert_text(whole, "status", "completed");
    assert_int_equal(rf_json_len(at(whole, "output")), 4);
    assert_text(whole, "output.0.content.0.text", "hm");
    assert_text(whole, "output.1.content.0.text", "I look.");
    assert_text(whole, "output.2.arguments", "{\"x\": 1}");
    assert_text(whole, "tools.0.name", "f");
    assert_in_range(rf_json_int(at(whole, "usage.output_tokens_details.reasoning_tokens")), 1, 20);
    rf_test_reply r = rf_test_ask(t.url, "POST", "/v1/responses", "", body_of(responses_ask, true));
    assert_int_equal(r.status, 200);
    gathered g = {0};
    size_t from = 0;
    int64_t n = 0;
    rf_json *last = NULL;
    for (rf_json *j; (j = next_named(rf_buf_str(&r.body), &from)) != NULL; n++) {
        assert_int_equal(rf_json_int(rf_json_get(j, "sequence_number")), n);
        take_responses_event(&g, j);
        rf_json_free(last);
        last = j;
    }
    assert_true(is(last, "response.completed"));
    assert_int_equal(rf_json_len(at(last, "response.output")), 4);
    assert_text(last, "response.output.3.arguments", "{\"x\": 2}");
    assert_int_equal(rf_json_int(at(last, "response.usage.total_tokens")),
                     rf_json_int(at(whole, "usage.total_tokens")));
    assert_int_equal(g.n, 4);
    assert_int_equal(g.n_closed, 4);
    assert_string_equal(g.kinds[0], "reasoning");
    assert_string_equal(g.kinds[3], "function_call");
    assert_string_equal(g.texts[2].p, "{\"x\": 1}");
    free_gathered(&g);
    rf_json_free(last);
    rf_test_reply_free(&r);
    rf_json_free(whole);
    close_server(&t);
}

/* Why an answer ended; which stop sequence it was, the longer one where two stand at one place; and a
 * count that says what the answer's usage says. */
static void test_ends(void **state) {
    (void)state;
    under_test t = open_usual(1);
    static const char ask[] = "{\"max_tokens\":40,\"temperature\":0,\"guided_choice\":[\"one two "
                              "three\"],\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]%s}";
    static const struct {
        const char *more, *reason, *sequence, *text;
    } cases[] = {
        {"", "end_turn", "", "one two three"},
        {",\"stop_sequences\":[\"four\"]", "end_turn", "", "one two three"},
        {",\"stop_sequences\":[\"x\",\" th\",\" three\",\" t\",\"e\"]", "stop_sequence", "e", "on"},
        {",\"stop_sequences\":[\"n\",\"ne\"]", "stop_sequence", "ne", "o"},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        char body[500];
        snprintf(body, sizeof body, ask, cases[i].more);
        rf_json *j = post(&t, "/v1/messages", body, 200);
        rf_json *count = post(&t, "/v1/messages/count_tokens", body, 200);
        assert_text(j, "content.0.text", cases[i].text);
        assert_text(j, "stop_reason", cases[i].reason);
        assert_text(j, "stop_sequence", cases[i].sequence);
        assert_int_equal(rf_json_int(at(count, "input_tokens")),
                         rf_json_int(at(j, "usage.input_tokens")) +
                             rf_json_int(at(j, "usage.cache_read_input_tokens")));
        rf_json_free(count);
        rf_json_free(j);
    }
    rf_engine_info info; /* the last token of the context */
    rf_engine_get_info(t.engine, &info);
    rf_buf body = {0};
    rf_buf_printf(&body,
                  "{\"max_tokens\":%u,\"ignore_eos\":true,\"messages\":[{\"role\":\"user\","
                  "\"content\":\"a\"}]}",
                  info.n_ctx);
    rf_json *j = post(&t, "/v1/messages", body.p, 200);
    assert_text(j, "stop_reason", "model_context_window_exceeded");
    rf_json_free(j);
    rf_buf_free(&body);
    close_server(&t);
}

/* Cancelled streams end with the error of their API; the blocks of the cache come back. */
static void test_cancelled(void **state) {
    (void)state;
    static const struct {
        const char *path, *body, *prefix, *first, *said;
    } cases[] = {
        {"/v1/messages",
         "{\"max_tokens\":3000,\"ignore_eos\":true,\"stream\":true,\"messages\":[{\"role\":"
         "\"user\",\"content\":\"a\"}]}",
         "msg_", "text_delta", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"},
        {"/v1/responses",
         "{\"max_output_tokens\":3000,\"ignore_eos\":true,\"stream\":true,\"input\":\"a\"}",
         "resp_", "output_text.delta", "event: response.failed\n"},
    };
    under_test t = open_usual(1);
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        rf_buf seen = {0};
        char path[60];
        int fd = rf_test_connect(t.url);
        rf_test_request(fd, "POST", cases[i].path, "", cases[i].body);
        assert_true(rf_test_read_until(fd, &seen, cases[i].first));
        const char *id = strstr(seen.p, cases[i].prefix);
        snprintf(path, sizeof path, "/cancel/%.*s", (int)strcspn(id, "\""), id);
        rf_json_free(post(&t, path, "", 200));
        assert_true(rf_test_read_until(fd, &seen, cases[i].said));
        rf_buf_free(&seen);
        close(fd);
        wait_until_idle(&t);
    }
    close_server(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_requests),
        cmocka_unit_test(test_responses_requests),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_responses),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
