/* messages.c - Anthropic's /v1/messages: its requests as requests for chat, its answers, whole and as
 * streams, its errors.
 *
 * A stream is: message_start; for each block content_block_start, deltas, content_block_stop;
 * message_delta with the reason of the end and the counts; message_stop. */
#include <stdio.h>
#include <string.h>

#include "server/sse.h"
#include "server/translate.h"
#include "server/writers.h"

#define PING "event: ping\ndata: {\"type\":\"ping\"}\n\n"

/* ---- requests ---- */

typedef struct place { /* in the request, for messages of errors */
    size_t message, block;
    rf_api_error *e;
} place;

static bool fail(const place *at, const char *field, const char *expected) {
    char param[80];
    snprintf(param, sizeof param, "messages[%zu].content[%zu]%s", at->message, at->block, field);
    return rf_api_fail(at->e, 400, "invalid_value", param, "%s must be %s", param, expected);
}

static bool is_type(const rf_json *block, const char *type) {
    return rf_str_is(rf_json_str(rf_json_get(block, "type")), type);
}

/* A string, or an array of blocks of text; anything but these is false. */
static bool join_text(const rf_json *v, rf_buf *text) {
    rf_json_type type = rf_json_kind(v);
    if (type == RF_JSON_STRING) rf_add_line(text, rf_json_str(v));
    for (size_t i = 0; type == RF_JSON_ARRAY && i < rf_json_len(v); i++) {
        const rf_json *words = rf_json_get(rf_json_at(v, i), "text");
        if (!is_type(rf_json_at(v, i), "text") || rf_json_kind(words) != RF_JSON_STRING)
            return false;
        rf_add_line(text, rf_json_str(words));
    }
    return type == RF_JSON_STRING || type == RF_JSON_ARRAY;
}

/* Text goes on with the text before it; the result of a call is a message of its own. */
static bool put_user_block(const rf_json *block, const place *at, rf_buf *text, rf_buf *out) {
    if (is_type(block, "text")) {
        if (rf_json_kind(rf_json_get(block, "text")) != RF_JSON_STRING)
            return fail(at, ".text", "a string");
        rf_add_line(text, rf_json_str(rf_json_get(block, "text")));
        return true;
    }
    if (!is_type(block, "tool_result"))
        return fail(at, ".type", "text or tool_result: this server reads no others from a user");
    const rf_json *content = rf_json_get(block, "content");
    rf_str id = rf_json_str(rf_json_get(block, "tool_use_id"));
    rf_buf result = {0};
    if (id.len == 0) return fail(at, ".tool_use_id", "the id of a tool_use");
    if (text->len) rf_put_message(out, "user", rf_buf_str(text));
    rf_buf_clear(text);
    bool ok = rf_json_kind(content) == RF_JSON_NULL || join_text(content, &result);
    rf_put_tool_message(out, id, rf_buf_str(&result));
    if (result.failed) out->failed = true;
    rf_buf_free(&result);
    return ok ? true : fail(at, ".content", "a string or an array of blocks of text");
}

static bool put_user(const rf_json *content, place *at, rf_buf *out) {
    rf_buf text = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < rf_json_len(content); i++) {
        at->block = i;
        ok = put_user_block(rf_json_at(content, i), at, &text, out);
    }
    if (text.len) rf_put_message(out, "user", rf_buf_str(&text));
    if (text.failed) out->failed = true;
    rf_buf_free(&text);
    return ok;
}

static bool add_to_turn(const rf_json *block, const place *at, rf_turn *turn) {
    if (is_type(block, "text") || is_type(block, "thinking")) {
        const char *field = is_type(block, "text") ? "text" : "thinking";
        const rf_json *words = rf_json_get(block, field);
        if (rf_json_kind(words) != RF_JSON_STRING) return fail(at, "", "a block with a string");
        rf_add_line(is_type(block, "text") ? &turn->text : &turn->reasoning, rf_json_str(words));
        return true;
    }
    if (!is_type(block, "tool_use"))
        return fail(at, ".type", "text, thinking or tool_use: this server reads no others");
    rf_str name = rf_json_str(rf_json_get(block, "name"));
    const rf_json *input = rf_json_get(block, "input");
    if (name.len == 0) return fail(at, ".name", "the name of a tool");
    if (rf_json_kind(input) != RF_JSON_OBJECT) return fail(at, ".input", "an object");
    rf_turn_add_call(turn, rf_json_str(rf_json_get(block, "id")), name, input);
    return true;
}

static bool put_assistant(const rf_json *content, place *at, rf_buf *out) {
    rf_turn turn = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < rf_json_len(content); i++) {
        at->block = i;
        ok = add_to_turn(rf_json_at(content, i), at, &turn);
    }
    rf_turn_put(&turn, out);
    rf_turn_free(&turn);
    return ok;
}

static bool put_turn(const rf_json *m, place *at, bool is_last, rf_buf *out) {
    const rf_json *content = rf_json_get(m, "content");
    rf_str role = rf_json_str(rf_json_get(m, "role"));
    bool is_user = rf_str_is(role, "user");
    char param[80];
    snprintf(param, sizeof param, "messages[%zu]", at->message);
    if (!is_user && !rf_str_is(role, "assistant"))
        return rf_api_fail(at->e, 400, "invalid_value", param,
                           "%s.role must be user or assistant; instructions go into system", param);
    if (is_last && !is_user)
        return rf_api_fail(at->e, 400, "unsupported_value", param,
                           "the last of messages is the assistant's; it must be the user's: this "
                           "server begins answers and does not continue them");
    if (rf_json_kind(content) == RF_JSON_STRING) {
        rf_put_message(out, is_user ? "user" : "assistant", rf_json_str(content));
        return true;
    }
    if (rf_json_kind(content) != RF_JSON_ARRAY)
        return rf_api_fail(at->e, 400, "invalid_type", param,
                           "%s.content must be a string or an array of blocks", param);
    return is_user ? put_user(content, at, out) : put_assistant(content, at, out);
}

static bool put_messages(const rf_json *body, rf_buf *out, rf_api_error *e) {
    const rf_json *messages = rf_json_get(body, "messages"), *system = rf_json_get(body, "system");
    size_t n = rf_json_len(messages);
    if (rf_json_kind(messages) != RF_JSON_ARRAY || n == 0)
        return rf_api_fail(e, 400, "invalid_type", "messages",
                           "messages must be an array of at least one message");
    rf_buf text = {0};
    bool ok = rf_json_kind(system) == RF_JSON_NULL || join_text(system, &text);
    if (!ok)
        rf_api_fail(e, 400, "invalid_type", "system",
                    "system must be a string or an array of blocks of text");
    rf_buf_puts(out, "{\"messages\":[");
    if (text.len) rf_put_message(out, "system", rf_buf_str(&text));
    for (size_t i = 0; ok && i < n; i++) {
        place at = {i, 0, e};
        ok = put_turn(rf_json_at(messages, i), &at, i + 1 == n, out);
    }
    rf_buf_putc(out, ']');
    if (text.failed) out->failed = true;
    rf_buf_free(&text);
    return ok;
}

static bool put_tools(const rf_json *tools, rf_buf *out, rf_api_error *e) {
    if (rf_json_kind(tools) == RF_JSON_NULL) return true;
    if (rf_json_kind(tools) != RF_JSON_ARRAY)
        return rf_api_fail(e, 400, "invalid_type", "tools", "tools must be an array");
    rf_buf_puts(out, ",\"tools\":[");
    for (size_t i = 0; i < rf_json_len(tools); i++) {
        const rf_json *tool = rf_json_at(tools, i), *type = rf_json_get(tool, "type");
        if (rf_json_kind(tool) != RF_JSON_OBJECT ||
            (rf_json_kind(type) != RF_JSON_NULL && !is_type(tool, "custom")))
            return rf_api_fail(e, 400, "unsupported_value", "tools",
                               "tools[%zu] must have a name and an input_schema, and no type but "
                               "custom: this server has no tools of its own",
                               i);
        rf_put_tool(out, tool, "input_schema");
    }
    rf_buf_putc(out, ']');
    return true;
}

static bool put_tool_choice(const rf_json *choice, rf_buf *out, rf_api_error *e) {
    if (rf_json_kind(choice) == RF_JSON_NULL) return true;
    rf_buf_puts(out, ",\"tool_choice\":");
    if (is_type(choice, "tool")) {
        rf_buf_puts(out, "{\"type\":\"function\",\"function\":{\"name\":");
        rf_put_json(out, rf_json_get(choice, "name"));
        rf_buf_puts(out, "}}");
    } else if (is_type(choice, "auto") || is_type(choice, "none")) {
        rf_buf_puts(out, is_type(choice, "auto") ? "\"auto\"" : "\"none\"");
    } else if (is_type(choice, "any")) {
        rf_buf_puts(out, "\"required\"");
    } else {
        return rf_api_fail(e, 400, "invalid_value", "tool_choice",
                           "tool_choice.type must be auto, any, tool or none");
    }
    if (rf_json_bool(rf_json_get(choice, "disable_parallel_tool_use")))
        rf_buf_puts(out, ",\"parallel_tool_calls\":false");
    return true;
}

/* How much the model shall think, and the form of its answer. */
static bool put_config(const rf_json *body, rf_buf *out, rf_api_error *e) {
    const rf_json *thinking = rf_json_get(body, "thinking");
    const rf_json *config = rf_json_get(body, "output_config");
    const rf_json *effort = rf_json_get(config, "effort"), *format = rf_json_get(config, "format");
    bool is_said = rf_json_kind(thinking) != RF_JSON_NULL;
    bool thinks = !is_type(thinking, "disabled");
    if (is_said && rf_json_str(rf_json_get(thinking, "type")).len == 0)
        return rf_api_fail(e, 400, "invalid_type", "thinking",
                           "thinking must be an object with a type");
    rf_put_template_vars(out, body, is_said ? &thinks : NULL);
    if (rf_json_kind(effort) != RF_JSON_NULL) {
        rf_buf_puts(out, ",\"reasoning_effort\":");
        rf_put_json(out, effort);
    }
    if (rf_json_kind(format) == RF_JSON_NULL) return true;
    if (!is_type(format, "json_schema"))
        return rf_api_fail(e, 400, "invalid_value", "output_config.format",
                           "output_config.format must have the type json_schema and a schema");
    rf_buf_puts(out, ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":");
    rf_put_json(out, rf_json_get(format, "schema"));
    rf_buf_puts(out, "}}");
    return true;
}

static bool put_stops(const rf_json *stops, rf_buf *out, rf_api_error *e) {
    bool ok = rf_json_kind(stops) == RF_JSON_ARRAY;
    if (rf_json_kind(stops) == RF_JSON_NULL) return true;
    for (size_t i = 0; i < rf_json_len(stops); i++)
        ok = ok && rf_json_str(rf_json_at(stops, i)).len > 0;
    if (!ok)
        return rf_api_fail(e, 400, "invalid_type", "stop_sequences",
                           "stop_sequences must be an array of strings that are not empty");
    rf_buf_puts(out, ",\"stop\":");
    rf_put_json(out, stops);
    return true;
}

bool rf_count_to_chat(const rf_json *body, rf_buf *out, rf_api_error *e) {
    static const char *const translated[] = {
        "system", "thinking", "output_config", "stop_sequences", "parallel_tool_calls", NULL};
    if (!put_messages(body, out, e) || !put_tools(rf_json_get(body, "tools"), out, e) ||
        !put_tool_choice(rf_json_get(body, "tool_choice"), out, e) || !put_config(body, out, e) ||
        !put_stops(rf_json_get(body, "stop_sequences"), out, e))
        return false;
    rf_put_passing(out, body, translated);
    rf_buf_putc(out, '}');
    return true;
}

bool rf_messages_to_chat(const rf_json *body, rf_buf *out, rf_api_error *e) {
    if (rf_json_kind(rf_json_get(body, "max_tokens")) == RF_JSON_NULL)
        return rf_api_fail(e, 400, "missing_required_parameter", "max_tokens",
                           "max_tokens is missing: how many tokens the answer may have");
    return rf_count_to_chat(body, out, e);
}

/* ---- answers ---- */

static void open_event(rf_buf *out, const char *type) {
    rf_sse_open_event(out, type);
    rf_buf_printf(out, "{\"type\":\"%s\"", type);
}

static void close_event(rf_buf *out) {
    rf_buf_putc(out, '}');
    rf_sse_close(out);
}

static bool fills_context(const rf_job *j, const rf_choice *c) {
    rf_engine_info info;
    rf_engine_get_info(j->engine, &info);
    return c->n_generated != (uint32_t)j->params.max_tokens &&
           c->n_prompt + c->n_generated >= info.n_ctx;
}

static const char *stop_reason(const rf_job *j, const rf_choice *c) {
    if (c->stop >= 0) return "stop_sequence";
    if (c->finish == RF_FINISH_LENGTH)
        return fills_context(j, c) ? "model_context_window_exceeded" : "max_tokens";
    return rf_blocks_have_call(c->blocks) ? "tool_use" : "end_turn";
}

static void put_end(const rf_job *j, const rf_choice *c, rf_buf *out) {
    rf_buf_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(j, c));
    if (c->stop >= 0)
        rf_buf_json_str(out, rf_str_of(j->params.stop[c->stop]));
    else
        rf_buf_puts(out, "null");
}

/* Cached tokens are not among the input's in this API. */
static void put_usage(const rf_job *j, rf_buf *out) {
    rf_job_usage u = rf_job_get_usage(j);
    rf_buf_printf(out,
                  "\"usage\":{\"input_tokens\":%u,\"cache_creation_input_tokens\":0,"
                  "\"cache_read_input_tokens\":%u,\"output_tokens\":%u}",
                  u.prompt - u.cached, u.cached, u.generated);
}

static void put_head(const rf_job *j, rf_buf *out) {
    rf_buf_printf(out,
                  "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", j->id);
    rf_buf_json_str(out, rf_str_of(j->model));
}

static void put_call_id(const rf_block *b, rf_buf *out) {
    if (b->call_id.len)
        rf_buf_json_str(out, rf_buf_str(&b->call_id));
    else
        rf_buf_printf(out, "\"toolu_%016llx\"", (unsigned long long)b->id);
}

/* A block, with its text or, as streams begin it, without. */
static void put_block(const rf_block *b, bool with_text, rf_buf *out) {
    rf_str text = with_text ? rf_buf_str(&b->text) : RF_STR("");
    switch (b->kind) {
    case RF_BLOCK_TEXT:
        rf_buf_puts(out, "{\"type\":\"text\",\"text\":");
        rf_buf_json_str(out, text);
        break;
    case RF_BLOCK_REASONING:
        rf_buf_puts(out, "{\"type\":\"thinking\",\"signature\":\"\",\"thinking\":");
        rf_buf_json_str(out, text);
        break;
    case RF_BLOCK_CALL:
        rf_buf_puts(out, "{\"type\":\"tool_use\",\"id\":");
        put_call_id(b, out);
        rf_buf_puts(out, ",\"name\":");
        rf_buf_json_str(out, rf_buf_str(&b->name));
        rf_buf_printf(out, ",\"input\":%s", text.len ? text.p : "{}");
        break;
    }
    rf_buf_putc(out, '}');
}

static void open_block(void *user, size_t i, const rf_block *b) {
    rf_buf *out = user;
    open_event(out, "content_block_start");
    rf_buf_printf(out, ",\"index\":%zu,\"content_block\":", i);
    put_block(b, false, out);
    close_event(out);
}

static void grow_block(void *user, size_t i, const rf_block *b, rf_str more) {
    static const char *const deltas[] = {
        [RF_BLOCK_TEXT] = "\"text_delta\",\"text\"",
        [RF_BLOCK_REASONING] = "\"thinking_delta\",\"thinking\"",
        [RF_BLOCK_CALL] = "\"input_json_delta\",\"partial_json\"",
    };
    rf_buf *out = user;
    open_event(out, "content_block_delta");
    rf_buf_printf(out, ",\"index\":%zu,\"delta\":{\"type\":%s:", i, deltas[b->kind]);
    rf_buf_json_str(out, more);
    rf_buf_putc(out, '}');
    close_event(out);
}

static void close_block(void *user, size_t i, const rf_block *b) {
    (void)b;
    open_event(user, "content_block_stop");
    rf_buf_printf(user, ",\"index\":%zu", i);
    close_event(user);
}

static void start(const rf_job *j, rf_buf *out) {
    open_event(out, "message_start");
    rf_buf_puts(out, ",\"message\":");
    put_head(j, out);
    rf_buf_printf(out,
                  ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{"
                  "\"input_tokens\":%zu,\"cache_creation_input_tokens\":0,"
                  "\"cache_read_input_tokens\":0,\"output_tokens\":0}}",
                  j->prompts[0].len);
    close_event(out);
    rf_buf_puts(out, PING);
}

static void delta(rf_job *j, rf_choice *c, const rf_event *ev, rf_buf *out) {
    const rf_block_sink sink = {open_block, grow_block, close_block, out};
    rf_write_blocks(j, c, ev, &sink);
}

static void note(rf_job *j, rf_choice *c, const rf_event *ev) { rf_write_blocks(j, c, ev, NULL); }

static void end(const rf_job *j, rf_buf *out) {
    open_event(out, "message_delta");
    rf_buf_puts(out, ",\"delta\":{");
    put_end(j, &j->choices[0], out);
    rf_buf_puts(out, "},");
    put_usage(j, out);
    close_event(out);
    open_event(out, "message_stop");
    close_event(out);
}

static void whole(const rf_job *j, rf_buf *out) {
    const rf_choice *c = &j->choices[0];
    put_head(j, out);
    rf_buf_puts(out, ",\"content\":[");
    for (size_t i = 0; i < rf_blocks_count(c->blocks); i++) {
        if (i) rf_buf_putc(out, ',');
        put_block(rf_blocks_at(c->blocks, i), true, out);
    }
    rf_buf_puts(out, "],");
    put_end(j, c, out);
    rf_buf_putc(out, ',');
    put_usage(j, out);
    rf_buf_putc(out, '}');
}

static void error(const rf_job *j, const rf_api_error *e, rf_buf *out) {
    (void)j;
    rf_sse_open_event(out, "error");
    rf_api_put_error(out, e);
    rf_sse_close(out);
}

const rf_writer rf_writer_messages = {
    .id_prefix = "msg_",
    .style = RF_API_ANTHROPIC,
    .ping = PING,
    .start = start,
    .delta = delta,
    .note = note,
    .end = end,
    .whole = whole,
    .error = error,
};
