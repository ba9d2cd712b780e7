/* translate.c - what the translations of other APIs' requests have in common. */
#include "server/translate.h"

#include <string.h>

#include "server/params.h"

/* ---- messages ---- */

static void separate(rf_buf *out) {
    if (out->len && out->p[out->len - 1] != '[') rf_buf_putc(out, ',');
}

static void open_message(rf_buf *out, const char *role) {
    separate(out);
    rf_buf_printf(out, "{\"role\":\"%s\",\"content\":", role);
}

void rf_put_message(rf_buf *out, const char *role, rf_str text) {
    open_message(out, role);
    rf_buf_json_str(out, text);
    rf_buf_putc(out, '}');
}

void rf_put_tool_message(rf_buf *out, rf_str call_id, rf_str text) {
    open_message(out, "tool");
    rf_buf_json_str(out, text);
    rf_buf_puts(out, ",\"tool_call_id\":");
    rf_buf_json_str(out, call_id);
    rf_buf_putc(out, '}');
}

void rf_add_line(rf_buf *text, rf_str more) {
    if (text->len && more.len) rf_buf_putc(text, '\n');
    rf_buf_put(text, more.p, more.len);
}

/* ---- turns of the assistant ---- */

void rf_turn_add_call(rf_turn *t, rf_str id, rf_str name, const rf_json *arguments) {
    rf_buf *out = &t->calls;
    rf_buf_puts(out,
                out->len ? ",{\"type\":\"function\",\"id\":" : "{\"type\":\"function\",\"id\":");
    rf_buf_json_str(out, id);
    rf_buf_puts(out, ",\"function\":{\"name\":");
    rf_buf_json_str(out, name);
    rf_buf_puts(out, ",\"arguments\":");
    rf_put_json(out, arguments);
    rf_buf_puts(out, "}}");
}

bool rf_turn_is_empty(const rf_turn *t) {
    return t->text.len == 0 && t->reasoning.len == 0 && t->calls.len == 0;
}

void rf_turn_put(const rf_turn *t, rf_buf *out) {
    open_message(out, "assistant");
    if (t->text.len == 0 && t->calls.len)
        rf_buf_puts(out, "null");
    else
        rf_buf_json_str(out, rf_buf_str(&t->text));
    if (t->reasoning.len) {
        rf_buf_puts(out, ",\"reasoning_content\":");
        rf_buf_json_str(out, rf_buf_str(&t->reasoning));
    }
    if (t->calls.len) {
        rf_buf_puts(out, ",\"tool_calls\":[");
        rf_buf_put(out, t->calls.p, t->calls.len);
        rf_buf_putc(out, ']');
    }
    rf_buf_putc(out, '}');
    if (t->text.failed || t->reasoning.failed || t->calls.failed) out->failed = true;
}

void rf_turn_free(rf_turn *t) {
    rf_buf_free(&t->text);
    rf_buf_free(&t->reasoning);
    rf_buf_free(&t->calls);
}

/* ---- other members ---- */

void rf_put_tool(rf_buf *out, const rf_json *tool, const char *parameters) {
    const char *const from[] = {"name", "description", parameters, "strict"};
    static const char *const to[] = {"name", "description", "parameters", "strict"};
    separate(out);
    rf_buf_puts(out, "{\"type\":\"function\",\"function\":{");
    bool first = true;
    for (size_t i = 0; i < RF_COUNT(from); i++) {
        const rf_json *v = rf_json_get(tool, from[i]);
        if (rf_json_kind(v) == RF_JSON_NULL) continue;
        rf_buf_printf(out, "%s\"%s\":", first ? "" : ",", to[i]);
        rf_put_json(out, v);
        first = false;
    }
    rf_buf_puts(out, "}}");
}

static bool is_among(const char *key, const char *const *names) {
    while (*names && strcmp(key, *names) != 0)
        names++;
    return *names != NULL;
}

static void put_member(rf_buf *out, const char *key, const rf_json *value) {
    rf_buf_putc(out, ',');
    rf_buf_json_str(out, rf_str_of(key));
    rf_buf_putc(out, ':');
    rf_put_json(out, value);
}

void rf_put_others(rf_buf *out, const rf_json *object, const char *const *names) {
    for (void *it = rf_json_iter(object); it; it = rf_json_iter_next(object, it)) {
        const char *key = rf_json_iter_key(it);
        if (!is_among(key, names)) put_member(out, key, rf_json_iter_value(it));
    }
}

void rf_put_passing(rf_buf *out, const rf_json *body, const char *const *translated) {
    static const char *const of_chat[] = {/* each API has its own, or none */
                                          "messages",
                                          "tools",
                                          "tool_choice",
                                          "stop",
                                          "response_format",
                                          "reasoning_effort",
                                          "chat_template_kwargs",
                                          "max_completion_tokens",
                                          "n",
                                          "logprobs",
                                          "top_logprobs",
                                          "stream_options",
                                          "return_special",
                                          "add_generation_prompt",
                                          "functions",
                                          "function_call",
                                          "audio",
                                          "web_search_options",
                                          "chat_template",
                                          NULL};
    for (void *it = rf_json_iter(body); it; it = rf_json_iter_next(body, it)) {
        const char *key = rf_json_iter_key(it);
        if (!is_among(key, of_chat) && !is_among(key, translated))
            put_member(out, key, rf_json_iter_value(it));
    }
}

void rf_put_template_vars(rf_buf *out, const rf_json *body, const bool *thinking) {
    static const char *const own[] = {"enable_thinking", NULL};
    const rf_json *vars = rf_json_get(body, "chat_template_kwargs");
    bool is_usual = rf_json_kind(vars) == RF_JSON_OBJECT || rf_json_kind(vars) == RF_JSON_NULL;
    if (thinking && is_usual) {
        rf_buf_printf(out, ",\"chat_template_kwargs\":{\"enable_thinking\":%s",
                      *thinking ? "true" : "false");
        rf_put_others(out, vars, own);
        rf_buf_putc(out, '}');
    } else if (rf_json_kind(vars) != RF_JSON_NULL) {
        rf_buf_puts(out, ",\"chat_template_kwargs\":");
        rf_put_json(out, vars);
    }
}
