/* fuzz_tool_parser.c - any bytes as a model's answer: the first byte chooses the format, the second
 * the lengths of the pieces.  Whole, cut and byte by byte give the same events; arguments are JSON
 * objects; without calls, reasoning and control tokens the content is the answer. */
#include <string.h>

#include "text/tool_parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools_json[] =
    "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},"
    "\"n\":{\"type\":[\"string\",\"null\"]}}}}]";

typedef struct record { /* calls and text apart: pieces may differ, what they add up to may not */
    rf_buf calls, content, reasoning;
} record;

static void on_event(void *user, const rf_tool_event *ev) {
    record *r = user;
    if (ev->kind == RF_TOOL_CONTENT || ev->kind == RF_TOOL_REASONING) {
        rf_buf_put(ev->kind == RF_TOOL_CONTENT ? &r->content : &r->reasoning, ev->text.p,
                   ev->text.len);
        return;
    }
    if (ev->kind == RF_TOOL_ARGUMENTS) {
        rf_json *j;
        RF_ASSERT(rf_json_parse(&j, ev->text, NULL) == RF_OK);
        RF_ASSERT(rf_json_kind(j) == RF_JSON_OBJECT);
        rf_json_free(j);
    }
    rf_buf_printf(&r->calls, "%d %u %zu:", (int)ev->kind, ev->index, r->content.len);
    rf_buf_put(&r->calls, ev->text.p, ev->text.len);
}

static record run(const rf_tool_parser_opts *base, rf_str text, size_t piece) {
    record r = {0};
    rf_tool_parser_opts o = *base;
    o.user = &r;
    rf_tool_parser *p;
    RF_ASSERT(rf_tool_parser_create(&p, &o, NULL) == RF_OK);
    for (size_t at = 0; at < text.len; at += piece) {
        size_t n = text.len - at < piece ? text.len - at : piece;
        RF_ASSERT(rf_tool_parser_feed(p, (rf_str){text.p + at, n}) == RF_OK);
    }
    RF_ASSERT(rf_tool_parser_finish(p) == RF_OK);
    rf_tool_parser_free(p);
    return r;
}

static bool same(const rf_buf *a, const rf_buf *b) {
    return rf_str_eq(rf_buf_str(a), rf_buf_str(b));
}

static void record_free(record *r) {
    rf_buf_free(&r->calls);
    rf_buf_free(&r->content);
    rf_buf_free(&r->reasoning);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    rf_json *tools;
    RF_ASSERT(rf_json_parse(&tools, RF_STR(tools_json), NULL) == RF_OK);
    size_t row = data[0] % (2 * rf_tool_format_count());
    bool reasons = row % 2;
    rf_tool_parser_opts o = {.format = rf_tool_format_at(row / 2),
                             .reasoning = reasons ? rf_reasoning_format_detect(RF_STR("")) : NULL,
                             .tools = tools,
                             .prompt_end = data[1] & 128 ? RF_STR("<think>\n") : RF_STR(""),
                             .sink = on_event};
    rf_str text = {(const char *)data + 2, size - 2};
    record whole = run(&o, text, text.len + 1);
    size_t pieces[] = {1, 1 + data[1] % 64};
    for (size_t i = 0; i < RF_COUNT(pieces); i++) {
        record parts = run(&o, text, pieces[i]);
        RF_ASSERT(same(&whole.calls, &parts.calls) && same(&whole.content, &parts.content));
        RF_ASSERT(same(&whole.reasoning, &parts.reasoning));
        record_free(&parts);
    }
    size_t n = whole.content.len + whole.reasoning.len;
    RF_ASSERT(n <= text.len);
    bool plain = whole.calls.len == 0 && !reasons && !memmem(text.p, text.len, "|>", 2);
    RF_ASSERT(!plain || rf_str_eq(rf_buf_str(&whole.content), text));
    record_free(&whole);
    rf_json_free(tools);
    return 0;
}
