/* openapi.c - the table of routes and the fields of requests as an OpenAPI 3.1 document. */
#include <ctype.h>
#include <string.h>

#include "server/server.h"

/* Shapes that are not made of the table of fields. */
static const struct schema {
    const char *name, *json;
} schemas[] = {
    /* clang-format off */
    {"Any", "{\"type\":\"object\"}"},
    {"Status", "{\"type\":\"object\",\"properties\":{\"status\":{\"type\":\"string\"}},\"required\":[\"status\"]}"},
    {"Version", "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"version\":{\"type\":\"string\"}},\"required\":[\"name\",\"version\"]}"},
    {"Model", "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"object\":{\"type\":\"string\"},\"created\":{\"type\":\"integer\"},\"owned_by\":{\"type\":\"string\"},\"max_model_len\":{\"type\":\"integer\"},\"aliases\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"status\":{\"type\":\"object\",\"properties\":{\"value\":{\"enum\":[\"unloaded\",\"loading\",\"loaded\",\"unloading\"]}},\"required\":[\"value\"]}},\"required\":[\"id\",\"object\",\"created\",\"owned_by\"]}"},
    {"ModelList", "{\"type\":\"object\",\"properties\":{\"object\":{\"type\":\"string\"},\"data\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/Model\"}}},\"required\":[\"object\",\"data\"]}"},
    {"Usage", "{\"type\":\"object\",\"properties\":{\"prompt_tokens\":{\"type\":\"integer\"},\"completion_tokens\":{\"type\":\"integer\"},\"total_tokens\":{\"type\":\"integer\"},\"prompt_tokens_details\":{\"type\":\"object\",\"properties\":{\"cached_tokens\":{\"type\":\"integer\"}}}},\"required\":[\"prompt_tokens\",\"completion_tokens\",\"total_tokens\"]}"},
    {"Timings", "{\"type\":\"object\",\"properties\":{\"queue_ms\":{\"type\":\"number\"},\"prompt_ms\":{\"type\":\"number\"},\"decode_ms\":{\"type\":\"number\"},\"prompt_tokens_per_second\":{\"type\":\"number\"},\"tokens_per_second\":{\"type\":\"number\"},\"draft_n\":{\"type\":\"integer\"},\"draft_n_accepted\":{\"type\":\"integer\"}}}"},
    {"ChatCompletion", "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"object\":{\"type\":\"string\"},\"created\":{\"type\":\"integer\"},\"model\":{\"type\":\"string\"},\"choices\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"index\":{\"type\":\"integer\"},\"message\":{\"type\":\"object\",\"properties\":{\"role\":{\"type\":\"string\"},\"content\":{\"type\":[\"string\",\"null\"]}}},\"finish_reason\":{\"type\":\"string\"},\"logprobs\":{\"type\":[\"object\",\"null\"]}},\"required\":[\"index\",\"message\",\"finish_reason\"]}},\"usage\":{\"$ref\":\"#/components/schemas/Usage\"},\"timings\":{\"$ref\":\"#/components/schemas/Timings\"}},\"required\":[\"id\",\"object\",\"created\",\"model\",\"choices\",\"usage\"]}"},
    {"Completion", "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"object\":{\"type\":\"string\"},\"created\":{\"type\":\"integer\"},\"model\":{\"type\":\"string\"},\"choices\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"index\":{\"type\":\"integer\"},\"text\":{\"type\":\"string\"},\"finish_reason\":{\"type\":\"string\"},\"logprobs\":{\"type\":[\"object\",\"null\"]}},\"required\":[\"index\",\"text\",\"finish_reason\"]}},\"usage\":{\"$ref\":\"#/components/schemas/Usage\"},\"timings\":{\"$ref\":\"#/components/schemas/Timings\"}},\"required\":[\"id\",\"object\",\"created\",\"model\",\"choices\",\"usage\"]}"},
    {"Generation", "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"model\":{\"type\":\"string\"},\"text\":{\"type\":\"string\"},\"tokens\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},\"finish_reason\":{\"type\":\"string\"},\"seed\":{\"type\":\"integer\"},\"prompt_tokens\":{\"type\":\"integer\"},\"cached_tokens\":{\"type\":\"integer\"},\"generated_tokens\":{\"type\":\"integer\"},\"timings\":{\"$ref\":\"#/components/schemas/Timings\"}},\"required\":[\"id\"]}"},
    {"Job", "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"state\":{\"enum\":[\"waiting\",\"running\",\"finished\",\"failed\",\"cancelled\"]},\"created\":{\"type\":\"integer\"},\"answers\":{\"type\":\"integer\"},\"prompt_tokens\":{\"type\":\"integer\"},\"cached_tokens\":{\"type\":\"integer\"},\"generated_tokens\":{\"type\":\"integer\"},\"finish_reason\":{\"type\":\"string\"},\"text\":{\"type\":\"string\"},\"error\":{\"type\":\"string\"}},\"required\":[\"id\",\"state\"]}"},
    {"MessagesRequest", "{\"type\":\"object\",\"properties\":{\"model\":{\"type\":\"string\"},\"max_tokens\":{\"type\":\"integer\",\"description\":\"required, but not to count\"},\"messages\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"role\":{\"enum\":[\"user\",\"assistant\"]},\"content\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"object\"}}]}},\"required\":[\"role\",\"content\"]}},\"system\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"object\"}}]},\"stop_sequences\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"stream\":{\"type\":\"boolean\"},\"tools\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"description\":{\"type\":\"string\"},\"input_schema\":{\"type\":\"object\"}},\"required\":[\"name\",\"input_schema\"]}},\"tool_choice\":{\"type\":\"object\",\"properties\":{\"type\":{\"enum\":[\"auto\",\"any\",\"tool\",\"none\"]},\"name\":{\"type\":\"string\"},\"disable_parallel_tool_use\":{\"type\":\"boolean\"}},\"required\":[\"type\"]},\"thinking\":{\"type\":\"object\",\"properties\":{\"type\":{\"type\":\"string\"}},\"required\":[\"type\"]},\"output_config\":{\"type\":\"object\",\"properties\":{\"effort\":{\"type\":\"string\"},\"format\":{\"type\":\"object\"}}},\"temperature\":{\"type\":\"number\"},\"top_p\":{\"type\":\"number\"},\"top_k\":{\"type\":\"integer\"}},\"required\":[\"messages\"],\"description\":\"samplers and fields for structured output as in ChatRequest\"}"},
    {"Message", "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"type\":{\"const\":\"message\"},\"role\":{\"const\":\"assistant\"},\"model\":{\"type\":\"string\"},\"content\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"type\":{\"enum\":[\"text\",\"thinking\",\"tool_use\"]}},\"required\":[\"type\"]}},\"stop_reason\":{\"type\":\"string\"},\"stop_sequence\":{\"type\":[\"string\",\"null\"]},\"usage\":{\"type\":\"object\",\"properties\":{\"input_tokens\":{\"type\":\"integer\"},\"cache_creation_input_tokens\":{\"type\":\"integer\"},\"cache_read_input_tokens\":{\"type\":\"integer\"},\"output_tokens\":{\"type\":\"integer\"}},\"required\":[\"input_tokens\",\"output_tokens\"]}},\"required\":[\"id\",\"type\",\"role\",\"model\",\"content\",\"stop_reason\",\"usage\"]}"},
    {"InputTokens", "{\"type\":\"object\",\"properties\":{\"input_tokens\":{\"type\":\"integer\"}},\"required\":[\"input_tokens\"]}"},
    {"MessagesError", "{\"type\":\"object\",\"properties\":{\"type\":{\"const\":\"error\"},\"error\":{\"type\":\"object\",\"properties\":{\"type\":{\"type\":\"string\"},\"message\":{\"type\":\"string\"}},\"required\":[\"type\",\"message\"]}},\"required\":[\"type\",\"error\"]}"},
    {"ResponsesRequest", "{\"type\":\"object\",\"properties\":{\"model\":{\"type\":\"string\"},\"input\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"object\"}}]},\"instructions\":{\"type\":\"string\"},\"max_output_tokens\":{\"type\":\"integer\"},\"stream\":{\"type\":\"boolean\"},\"tools\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"type\":{\"const\":\"function\"},\"name\":{\"type\":\"string\"},\"description\":{\"type\":\"string\"},\"parameters\":{\"type\":\"object\"}},\"required\":[\"type\",\"name\"]}},\"tool_choice\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"object\"}]},\"parallel_tool_calls\":{\"type\":\"boolean\"},\"reasoning\":{\"type\":\"object\",\"properties\":{\"effort\":{\"type\":\"string\"}}},\"text\":{\"type\":\"object\",\"properties\":{\"format\":{\"type\":\"object\"}}},\"temperature\":{\"type\":\"number\"},\"top_p\":{\"type\":\"number\"},\"metadata\":{\"type\":\"object\"},\"store\":{\"const\":false}},\"required\":[\"input\"],\"description\":\"samplers and fields for structured output as in ChatRequest\"}"},
    {"Response", "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"object\":{\"const\":\"response\"},\"created_at\":{\"type\":\"integer\"},\"status\":{\"enum\":[\"in_progress\",\"completed\",\"incomplete\",\"failed\"]},\"model\":{\"type\":\"string\"},\"output\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"type\":{\"enum\":[\"message\",\"reasoning\",\"function_call\"]},\"id\":{\"type\":\"string\"}},\"required\":[\"type\",\"id\"]}},\"error\":{\"type\":[\"object\",\"null\"]},\"incomplete_details\":{\"type\":[\"object\",\"null\"]},\"usage\":{\"type\":\"object\",\"properties\":{\"input_tokens\":{\"type\":\"integer\"},\"output_tokens\":{\"type\":\"integer\"},\"total_tokens\":{\"type\":\"integer\"}},\"required\":[\"input_tokens\",\"output_tokens\",\"total_tokens\"]}},\"required\":[\"id\",\"object\",\"created_at\",\"status\",\"model\",\"output\"]}"},
    {"EmbeddingList", "{\"type\":\"object\",\"properties\":{\"object\":{\"type\":\"string\"},\"model\":{\"type\":\"string\"},\"data\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"object\":{\"type\":\"string\"},\"index\":{\"type\":\"integer\"},\"embedding\":{\"oneOf\":[{\"type\":\"array\",\"items\":{\"type\":\"number\"}},{\"type\":\"string\"}]}},\"required\":[\"object\",\"index\",\"embedding\"]}},\"usage\":{\"type\":\"object\",\"properties\":{\"prompt_tokens\":{\"type\":\"integer\"},\"total_tokens\":{\"type\":\"integer\"}}}},\"required\":[\"object\",\"data\",\"model\",\"usage\"]}"},
    {"Ranking", "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"model\":{\"type\":\"string\"},\"results\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"index\":{\"type\":\"integer\"},\"relevance_score\":{\"type\":\"number\"},\"document\":{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}}}},\"required\":[\"index\",\"relevance_score\"]}},\"usage\":{\"type\":\"object\",\"properties\":{\"prompt_tokens\":{\"type\":\"integer\"},\"total_tokens\":{\"type\":\"integer\"}}}},\"required\":[\"results\"]}"},
    {"TokenizeRequest", "{\"type\":\"object\",\"properties\":{\"content\":{\"type\":\"string\"},\"add_special\":{\"type\":\"boolean\"},\"parse_special\":{\"type\":\"boolean\"}},\"required\":[\"content\"]}"},
    {"Tokens", "{\"type\":\"object\",\"properties\":{\"tokens\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},\"count\":{\"type\":\"integer\"},\"max_model_len\":{\"type\":\"integer\"}},\"required\":[\"tokens\",\"count\"]}"},
    {"DetokenizeRequest", "{\"type\":\"object\",\"properties\":{\"tokens\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},\"return_special\":{\"type\":\"boolean\"}},\"required\":[\"tokens\"]}"},
    {"Text", "{\"type\":\"object\",\"properties\":{\"content\":{\"type\":\"string\"}},\"required\":[\"content\"]}"},
    {"Prompt", "{\"type\":\"object\",\"properties\":{\"prompt\":{\"type\":\"string\"},\"n_tokens\":{\"type\":\"integer\"}},\"required\":[\"prompt\",\"n_tokens\"]}"},
    {"ModelName", "{\"type\":\"object\",\"properties\":{\"model\":{\"type\":\"string\"}},\"required\":[\"model\"]}"},
    {"ModelState", "{\"type\":\"object\",\"properties\":{\"success\":{\"type\":\"boolean\"},\"model\":{\"type\":\"string\"},\"status\":{\"type\":\"object\",\"properties\":{\"value\":{\"type\":\"string\"}}}},\"required\":[\"success\",\"model\",\"status\"]}"},
    {"Error", "{\"type\":\"object\",\"properties\":{\"error\":{\"type\":\"object\",\"properties\":{\"message\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"},\"param\":{\"type\":[\"string\",\"null\"]},\"code\":{\"type\":[\"string\",\"null\"]}},\"required\":[\"message\",\"type\",\"param\",\"code\"]}},\"required\":[\"error\"]}"},
    /* clang-format on */
};

static void put_operation_id(rf_buf *out, const rf_route *t) {
    for (const char *p = t->method; *p; p++)
        rf_buf_putc(out, (char)tolower((unsigned char)*p));
    for (const char *p = t->path; *p; p++)
        if (*p != '{' && *p != '}') rf_buf_putc(out, isalnum((unsigned char)*p) ? *p : '_');
}

static void put_ref(rf_buf *out, const char *name) {
    rf_buf_printf(out, "{\"$ref\":\"#/components/schemas/%s\"}", name);
}

static void put_operation(rf_buf *out, const rf_route *t) {
    static const char *const scopes[] = {"", "user", "metrics", "", "admin"};
    rf_buf_printf(out, "\"%c%s\":{\"operationId\":\"", tolower((unsigned char)t->method[0]),
                  strcmp(t->method, "GET") == 0 ? "et" : "ost");
    put_operation_id(out, t);
    rf_buf_printf(out, "\",\"summary\":\"%s\"", t->summary);
    if (t->scope != RF_SCOPE_NONE)
        rf_buf_printf(out, ",\"security\":[{\"key\":[]}],\"x-scope\":\"%s\"", scopes[t->scope]);
    if (strchr(t->path, '{'))
        rf_buf_puts(out, ",\"parameters\":[{\"name\":\"id\",\"in\":\"path\",\"required\":true,"
                         "\"schema\":{\"type\":\"string\"}}]");
    if (t->body[0]) {
        rf_buf_puts(out, ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{"
                         "\"schema\":");
        put_ref(out, t->body);
        rf_buf_puts(out, "}}}");
    }
    rf_buf_printf(out,
                  ",\"responses\":{\"200\":{\"description\":\"the answer\",\"content\":{\"%s\":{",
                  t->answer[0] ? "application/json" : "text/plain");
    rf_buf_puts(out, "\"schema\":");
    if (t->answer[0])
        put_ref(out, t->answer);
    else
        rf_buf_puts(out, "{\"type\":\"string\"}");
    rf_buf_puts(out, "}}},\"default\":{\"description\":\"an error\",\"content\":{"
                     "\"application/json\":{\"schema\":");
    put_ref(out,
            rf_api_style_of(rf_str_of(t->path)) == RF_API_ANTHROPIC ? "MessagesError" : "Error");
    rf_buf_puts(out, "}}}}}");
}

static void put_schemas(rf_buf *out) {
    static const struct {
        const char *name;
        unsigned kind;
    } requests[] = {{"GenerateRequest", RF_FOR_NATIVE},
                    {"CompletionRequest", RF_FOR_COMPLETION},
                    {"ChatRequest", RF_FOR_CHAT},
                    {"EmbeddingRequest", RF_FOR_EMBEDDING},
                    {"RerankRequest", RF_FOR_RERANK}};
    for (size_t i = 0; i < RF_COUNT(schemas); i++)
        rf_buf_printf(out, "%s\"%s\":%s", i ? "," : "", schemas[i].name, schemas[i].json);
    for (size_t i = 0; i < RF_COUNT(requests); i++) {
        rf_buf_printf(out, ",\"%s\":", requests[i].name);
        rf_params_put_schema(out, requests[i].kind);
    }
}

void rf_openapi_print(const rf_server *s, rf_buf *out) {
    rf_buf_printf(out,
                  "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"ROCmForge\",\"version\":\"%s\"},"
                  "\"paths\":{",
                  rf_version());
    for (size_t i = 0; i < rf_route_count; i++) { /* a path has one method */
        rf_buf_printf(out, "%s\"%s\":{", i ? "," : "", rf_routes[i].path);
        put_operation(out, &rf_routes[i]);
        rf_buf_putc(out, '}');
    }
    rf_buf_puts(out, "},\"components\":{");
    if (s->keys)
        rf_buf_puts(out,
                    "\"securitySchemes\":{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\"}},");
    rf_buf_puts(out, "\"schemas\":{");
    put_schemas(out);
    rf_buf_puts(out, "}}}");
}
