/* Bodies of requests as structs: defaults, every kind of value, messages as templates read them. */
#include <stdio.h>
#include <string.h>

#include "lib/testlib.h"
#include "server/params.h"

static rf_params parsed(unsigned kind, const char *body) {
    rf_params p;
    rf_api_error e = {0};
    if (!rf_params_parse(&p, kind, rf_str_of(body), &e)) fail_msg("%s: %s", body, e.message);
    return p;
}

static void assert_refused(unsigned kind, const char *body, const char *param, const char *text) {
    rf_params p;
    rf_api_error e = {0};
    assert_false(rf_params_parse(&p, kind, rf_str_of(body), &e));
    assert_int_equal(e.status, 400);
    assert_string_equal(e.param, param);
    if (!strstr(e.message, text)) fail_msg("'%s' is not in: %s", text, e.message);
    rf_params_free(&p);
}

static void test_defaults(void **state) {
    (void)state;
    rf_params p = parsed(RF_FOR_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
    assert_true(p.sampling.temperature == 1 && p.sampling.top_p == 1);
    assert_true(p.sampling.top_k == 0 && p.sampling.min_p == 0);
    assert_int_equal(p.max_tokens, -1);
    assert_int_equal(p.n, 1);
    assert_int_equal(p.n_logprobs, -1);
    assert_true(p.add_generation_prompt && !p.stream && !p.has_seed);
    rf_params_free(&p);
    p = parsed(RF_FOR_COMPLETION, "{\"prompt\":\"a\"}");
    assert_int_equal(p.max_tokens, 16);
    rf_params_free(&p);
    p = parsed(RF_FOR_NATIVE, "{\"prompt\":\"a\"}");
    assert_true(p.sampling.temperature == rf_sampling_default().temperature);
    rf_params_free(&p);
}

static void test_every_field(void **state) {
    (void)state;
    rf_params p = parsed(
        RF_FOR_COMPLETION,
        "{\"model\":\"m\",\"prompt\":[[1,2],\"x\",[3]],\"max_tokens\":7,\"min_tokens\":2,\"n\":2,"
        "\"best_of\":2,\"stream\":true,\"stream_options\":{\"include_usage\":true},\"temperature\":"
        "0.5,"
        "\"top_p\":0.25,\"top_k\":-1,\"min_p\":0.125,\"typical_p\":0.5,\"top_n_sigma\":2,"
        "\"xtc_probability\":0.5,\"xtc_threshold\":0.25,\"repetition_penalty\":1.5,"
        "\"presence_penalty\":-1,\"frequency_penalty\":1,\"repeat_last_n\":-1,\"dry_multiplier\":2,"
        "\"dry_base\":3,\"dry_allowed_length\":4,\"dry_penalty_last_n\":5,\"mirostat\":true,"
        "\"mirostat_tau\":6,\"mirostat_eta\":0.5,\"seed\":-1,\"logit_bias\":{\"5\":-100,\"6\":1.5},"
        "\"stop\":[\"a\",\"b\"],\"logprobs\":3,\"ignore_eos\":true,\"return_special\":true,"
        "\"speculate\":false}");
    const rf_sampling *s = &p.sampling;
    assert_true(rf_str_is(p.model, "m"));
    assert_int_equal(p.n_prompts, 3);
    assert_int_equal(p.prompts[0].n_ids, 2);
    assert_int_equal(p.prompts[0].ids[1], 2);
    assert_true(!p.prompts[1].ids && rf_str_is(p.prompts[1].text, "x"));
    assert_int_equal(p.max_tokens, 7);
    assert_int_equal(p.min_tokens, 2);
    assert_true(p.n == 2 && p.stream && p.include_usage && p.ignore_eos && p.with_special);
    assert_false(p.speculate);
    assert_true(s->temperature == 0.5F && s->top_p == 0.25F && s->top_k == 0);
    assert_true(s->min_p == 0.125F && s->typical_p == 0.5F && s->top_n_sigma == 2);
    assert_true(s->xtc_probability == 0.5F && s->xtc_threshold == 0.25F);
    assert_true(s->repeat_penalty == 1.5F && s->presence_penalty == -1);
    assert_true(s->frequency_penalty == 1 && s->penalty_last_n == -1);
    assert_true(s->dry_multiplier == 2 && s->dry_base == 3 && s->dry_allowed_length == 4);
    assert_true(s->dry_last_n == 5 && s->mirostat && s->mirostat_tau == 6);
    assert_true(s->mirostat_eta == 0.5F && p.has_seed && s->seed == UINT64_MAX);
    assert_int_equal(s->n_logit_bias, 2);
    assert_true(s->logit_bias[0].token == 5 && s->logit_bias[0].bias == -100);
    assert_int_equal(p.n_stop, 2);
    assert_string_equal(p.stop[1], "b");
    assert_int_equal(p.n_logprobs, 3);
    rf_params_free(&p);
}

#define TOOL "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"

static void test_messages(void **state) {
    (void)state;
    rf_params p = parsed(
        RF_FOR_CHAT,
        "{\"messages\":[{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{"
        "\"type\":"
        "\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{"
        "\"id\":\"1\","
        "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1.0}\"}}]},{"
        "\"role\":"
        "\"tool\",\"tool_call_id\":\"1\",\"content\":\"c\"}],\"tools\":[" TOOL "],"
        "\"reasoning_effort\":\"low\",\"chat_template_kwargs\":{\"enable_thinking\":false}}");
    assert_string_equal(p.messages.p,
                        "[{\"role\":\"system\",\"content\":\"ab\"},{\"role\":\"assistant\","
                        "\"content\":null,\"tool_calls\":"
                        "[{\"type\":\"function\",\"id\":\"1\",\"function\":{\"name\":\"f\","
                        "\"arguments\":{\"x\":1.0}}}]},"
                        "{\"role\":\"tool\",\"content\":\"c\",\"tool_call_id\":\"1\"}]");
    assert_string_equal(p.tools.p, "[" TOOL "]");
    assert_string_equal(p.vars.p, "{\"enable_thinking\":false,\"reasoning_effort\":\"low\"}");
    rf_params_free(&p);
    p = parsed(RF_FOR_CHAT,
               "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[" TOOL "],"
               "\"tool_choice\":\"none\"}");
    assert_null(p.tools.p);
    rf_params_free(&p);
}

/* What cannot be done is refused by name, never dropped. */
static void test_refused(void **state) {
    (void)state;
    static const char *const fields[] = {"suffix", "use_beam_search"};
    for (size_t i = 0; i < RF_COUNT(fields); i++) {
        char body[200];
        snprintf(body, sizeof body, "{\"prompt\":\"a\",\"%s\":%s}", fields[i],
                 i == 1 ? "true" : "\"x\"");
        assert_refused(RF_FOR_COMPLETION, body, fields[i], "not supported");
    }
    assert_refused(RF_FOR_CHAT,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"top_logprobs\":2}",
                   "top_logprobs", "needs logprobs");
    assert_refused(RF_FOR_CHAT, "{\"messages\":[{\"content\":\"a\"}]}", "messages[0].role",
                   "string");
    assert_refused(RF_FOR_COMPLETION, "{\"prompt\":[]}", "prompt", "1 to 128");
    assert_refused(RF_FOR_COMPLETION, "{\"prompt\":\"a\",\"stop\":\"a\\u0000b\"}", "stop", "zero");
    assert_refused(RF_FOR_COMPLETION, "{\"prompt\":\"a\",\"seed\":1.5}", "seed", "whole");
    assert_refused(RF_FOR_COMPLETION, "{\"prompt\":\"a\",\"max_tokens\":1e300}", "max_tokens",
                   "whole");
    assert_refused(RF_FOR_COMPLETION, "{\"prompt\":\"a\",\"prompt\":\"b\"}", "", "duplicate");
    assert_refused(RF_FOR_COMPLETION, "{\"prompt\":\"a\",\"echo\":true,\"logprobs\":1}", "echo",
                   "not supported");
}

/* Each way to restrict the answer, and that two of them are one too many. */
static void test_grammars(void **state) {
    (void)state;
    static const struct {
        const char *field;
        rf_grammar_kind kind;
        const char *text;
    } cases[] = {
        {"\"response_format\":{\"type\":\"json_object\"}", RF_GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"object\"}"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"type\":"
         "\"null\"}}}",
         RF_GRAMMAR_JSON_SCHEMA, "{\"type\":\"null\"}"},
        {"\"guided_json\":{\"a\":1.5}", RF_GRAMMAR_JSON_SCHEMA, "{\"a\":1.5}"},
        {"\"guided_regex\":\"a+\"", RF_GRAMMAR_REGEX, "a+"},
        {"\"guided_choice\":[\"a\",\"b\"]", RF_GRAMMAR_CHOICE, "[\"a\",\"b\"]"},
        {"\"grammar\":\"root ::= x\"", RF_GRAMMAR_GBNF, "root ::= x"},
        {"\"structured_outputs\":{\"regex\":\"b\"}", RF_GRAMMAR_REGEX, "b"},
    };
    for (size_t i = 0; i < RF_COUNT(cases); i++) {
        char body[300];
        snprintf(body, sizeof body, "{\"prompt\":\"a\",%s}", cases[i].field);
        rf_params p = parsed(RF_FOR_COMPLETION, body);
        assert_non_null(p.grammar_field);
        assert_int_equal(p.grammar_kind, cases[i].kind);
        assert_true(rf_str_is(p.grammar_text, cases[i].text));
        rf_params_free(&p);
    }
    assert_refused(RF_FOR_COMPLETION, "{\"prompt\":\"a\",\"guided_regex\":\"a\",\"grammar\":\"b\"}",
                   "guided_regex", "both");
    assert_refused(RF_FOR_COMPLETION, "{\"prompt\":\"a\",\"response_format\":{\"type\":\"xml\"}}",
                   "response_format", "json_schema");
    assert_refused(RF_FOR_COMPLETION, "{\"prompt\":\"a\",\"structured_outputs\":{}}",
                   "structured_outputs", "regex");
}

/* Every allocation may fail: refused with 503, nothing leaked. */
static void test_no_memory(void **state) {
    (void)state;
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stop\":["
                               "\"a\"],\"logit_bias\":{\"1\":2},"
                               "\"tools\":[" TOOL "],\"tool_choice\":\"required\","
                               "\"reasoning_effort\":\"low\"}";
    bool failed = true;
    long n = 0;
    while (failed) {
        rf_params p;
        rf_api_error e = {0};
        rf_alloc_fail_nth(++n);
        failed = !rf_params_parse(&p, RF_FOR_CHAT, RF_STR(body), &e);
        rf_alloc_fail_nth(0);
        if (failed) assert_int_equal(e.status, 503);
        rf_params_free(&p);
    }
    assert_true(n > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_every_field),
        cmocka_unit_test(test_messages), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_grammars), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
