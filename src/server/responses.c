/* responses.c - OpenAI's /v1/responses: its requests as requests for chat, its answers, whole and as
 * streams.
 *
 * Nothing is kept on the server: a request holds its whole conversation.  A stream is:
 * response.created, response.in_progress; for each item of the output output_item.added, its parts
 * and deltas, output_item.done; at last response.completed, .incomplete or .failed with the whole
 * answer.  Events are numbered. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/sse.h"
#include "server/translate.h"
#include "server/writers.h"

/* ---- requests ---- */

typedef struct conversation { /* as it is read, item by item */
    rf_buf *out;              /* messages of chat */
    rf_buf system;            /* what comes before the first other message */
    rf_turn turn;             /* of the assistant, not over yet */
    bool is_begun;
    size_t item;
    rf_api_error *e;
} conversation;

static bool fail(const conversation *c, const char *field, const char *expected) {
    char param[80];
    snprintf(param, sizeof param, "input[%zu]%s", c->item, field);
    return rf_api_fail(c->e, 400, "invalid_value", param, "%s must be %s", param, expected);
}

static bool is_type(const rf_json *item, const char *type) {
    return rf_str_is(rf_json_str(rf_json_get(item, "type")), type);
}

static void end_turn(conversation *c) {
    if (!rf_turn_is_empty(&c->turn)) rf_turn_put(&c->turn, c->out);
    rf_turn_free(&c->turn);
}

/* Before a message that is not of the system goes out, or at the end. */
static void begin(conversation *c) {
    if (!c->is_begun && c->system.len) rf_put_message(c->out, "system", rf_buf_str(&c->system));
    c->is_begun = true;
}

/* A string, or an array of parts with text. */
static bool join_text(const rf_json *v, rf_buf *text) {
    static const char *const types[] = {"input_text", "output_text", "reasoning_text",
                                        "summary_text", "text"};
    rf_json_type kind = rf_json_kind(v);
    if (kind == RF_JSON_STRING) rf_add_line(text, rf_json_str(v));
    for (size_t i = 0; kind == RF_JSON_ARRAY && i < rf_json_len(v); i++) {
        const rf_json *part = rf_json_at(v, i), *words = rf_json_get(part, "text");
        bool known = false;
        for (size_t k = 0; k < RF_COUNT(types); k++)
            known = known || is_type(part, types[k]);
        if (!known || rf_json_kind(words) != RF_JSON_STRING) return false;
        rf_add_line(text, rf_json_str(words));
    }
    return kind == RF_JSON_STRING || kind == RF_JSON_ARRAY;
}

static bool add_message(conversation *c, const rf_json *item) {
    rf_str role = rf_json_str(rf_json_get(item, "role"));
    bool of_system = rf_str_is(role, "system") || rf_str_is(role, "developer");
    bool of_assistant = rf_str_is(role, "assistant");
    rf_buf text = {0};
    if (!of_system && !of_assistant && !rf_str_is(role, "user"))
        return fail(c, ".role", "user, assistant, system or developer");
    bool ok = join_text(rf_json_get(item, "content"), &text);
    if (of_system && !c->is_begun) {
        rf_add_line(&c->system, rf_buf_str(&text));
    } else if (of_assistant) {
        begin(c);
        if (c->turn.calls.len) end_turn(c);
        rf_add_line(&c->turn.text, rf_buf_str(&text));
    } else {
        begin(c);
        end_turn(c);
        rf_put_message(c->out, of_system ? "system" : "user", rf_buf_str(&text));
    }
    if (text.failed) c->out->failed = true;
    rf_buf_free(&text);
    return ok ? true : fail(c, ".content", "a string or an array of parts with text");
}

static bool add_call(conversation *c, const rf_json *item) {
    rf_str name = rf_json_str(rf_json_get(item, "name"));
    const rf_json *arguments = rf_json_get(item, "arguments");
    if (name.len == 0) return fail(c, ".name", "the name of a function");
    if (rf_json_kind(arguments) != RF_JSON_STRING) return fail(c, ".arguments", "a string of JSON");
    begin(c);
    rf_turn_add_call(&c->turn, rf_json_str(rf_json_get(item, "call_id")), name, arguments);
    return true;
}

static bool add_output(conversation *c, const rf_json *item) {
    rf_buf text = {0};
    begin(c);
    end_turn(c);
    bool ok = join_text(rf_json_get(item, "output"), &text);
    rf_put_tool_message(c->out, rf_json_str(rf_json_get(item, "call_id")), rf_buf_str(&text));
    if (text.failed) c->out->failed = true;
    rf_buf_free(&text);
    return ok ? true : fail(c, ".output", "a string or an array of parts with text");
}

/* Reasoning as this server gives it: in the open; of others at least the summary. */
static bool add_reasoning(conversation *c, const rf_json *item) {
    const rf_json *content = rf_json_get(item, "content");
    if (rf_json_kind(content) == RF_JSON_NULL) content = rf_json_get(item, "summary");
    begin(c);
    if (c->turn.text.len || c->turn.calls.len) end_turn(c);
    bool ok = rf_json_kind(content) == RF_JSON_NULL || join_text(content, &c->turn.reasoning);
    return ok ? true : fail(c, ".content", "an array of parts with text");
}

static bool add_item(conversation *c, const rf_json *item) {
    bool has_type = rf_json_kind(rf_json_get(item, "type")) != RF_JSON_NULL;
    if (!has_type || is_type(item, "message")) return add_message(c, item);
    if (is_type(item, "function_call")) return add_call(c, item);
    if (is_type(item, "function_call_output")) return add_output(c, item);
    if (is_type(item, "reasoning")) return add_reasoning(c, item);
    return fail(c, ".type",
                "message, function_call, function_call_output or reasoning: this server reads no "
                "others and keeps nothing that could be referred to");
}

static bool put_input(const rf_json *body, rf_buf *out, rf_api_error *e) {
    const rf_json *input = rf_json_get(body, "input"), *first = rf_json_get(body, "instructions");
    conversation c = {.out = out, .e = e};
    bool ok = true;
    if (rf_json_kind(first) != RF_JSON_NULL && rf_json_kind(first) != RF_JSON_STRING)
        return rf_api_fail(e, 400, "invalid_type", "instructions", "instructions must be a string");
    if (rf_json_kind(input) != RF_JSON_STRING && rf_json_len(input) == 0)
        return rf_api_fail(e, 400, "missing_required_parameter", "input",
                           "input must be a string or an array of items");
    rf_buf_puts(out, "{\"messages\":[");
    rf_add_line(&c.system, rf_json_str(first));
    if (rf_json_kind(input) == RF_JSON_STRING) {
        begin(&c);
        rf_put_message(out, "user", rf_json_str(input));
    }
    for (; ok && c.item < rf_json_len(input); c.item++)
        ok = add_item(&c, rf_json_at(input, c.item));
    begin(&c);
    end_turn(&c);
    rf_buf_putc(out, ']');
    if (c.system.failed) out->failed = true;
    rf_buf_free(&c.system);
    return ok;
}

static bool put_tools(const rf_json *tools, rf_buf *out, rf_api_error *e) {
    if (rf_json_kind(tools) == RF_JSON_NULL) return true;
    if (rf_json_kind(tools) != RF_JSON_ARRAY)
        return rf_api_fail(e, 400, "invalid_type", "tools", "tools must be an array");
    rf_buf_puts(out, ",\"tools\":[");
    for (size_t i = 0; i < rf_json_len(tools); i++) {
        if (!is_type(rf_json_at(tools, i), "function"))
            return rf_api_fail(e, 400, "unsupported_value", "tools",
                               "tools[%zu].type must be function: this server has no tools of its "
                               "own",
                               i);
        rf_put_tool(out, rf_json_at(tools, i), "parameters");
    }
    rf_buf_putc(out, ']');
    return true;
}

static void put_tool_choice(const rf_json *choice, rf_buf *out) {
    if (rf_json_kind(choice) == RF_JSON_NULL) return;
    rf_buf_puts(out, ",\"tool_choice\":");
    if (!is_type(choice, "function")) {
        rf_put_json(out, choice);
        return;
    }
    rf_buf_puts(out, "{\"type\":\"function\",\"function\":{\"name\":");
    rf_put_json(out, rf_json_get(choice, "name"));
    rf_buf_puts(out, "}}");
}

static bool put_config(const rf_json *body, rf_buf *out, rf_api_error *e) {
    const rf_json *effort = rf_json_get(rf_json_get(body, "reasoning"), "effort");
    const rf_json *format = rf_json_get(rf_json_get(body, "text"), "format");
    bool thinks = !rf_str_is(rf_json_str(effort), "none");
    rf_put_template_vars(out, body, rf_json_kind(effort) == RF_JSON_NULL ? NULL : &thinks);
    if (rf_json_kind(effort) != RF_JSON_NULL) {
        rf_buf_puts(out, ",\"reasoning_effort\":");
        rf_put_json(out, effort);
    }
    if (rf_json_kind(format) == RF_JSON_NULL) return true;
    if (rf_json_kind(format) != RF_JSON_OBJECT)
        return rf_api_fail(e, 400, "invalid_type", "text.format", "text.format must be an object");
    rf_buf_puts(out, ",\"response_format\":{\"json_schema\":");
    rf_put_json(out, format); /* has the schema where chat looks for it */
    rf_buf_puts(out, ",\"type\":");
    rf_put_json(out, rf_json_get(format, "type"));
    rf_buf_putc(out, '}');
    return true;
}

/* What needs a server that keeps answers, or does more than answer. */
static bool check_refused(const rf_json *body, rf_api_error *e) {
    static const char *const objects[] = {"previous_response_id", "conversation", "prompt"};
    static const char *const flags[] = {"store", "background"};
    rf_str truncation = rf_json_str(rf_json_get(body, "truncation"));
    for (size_t i = 0; i < RF_COUNT(objects); i++)
        if (rf_json_kind(rf_json_get(body, objects[i])) != RF_JSON_NULL)
            return rf_api_fail(e, 400, "unsupported_parameter", objects[i],
                               "%s is not supported: this server keeps no answers; send the whole "
                               "conversation as input",
                               objects[i]);
    for (size_t i = 0; i < RF_COUNT(flags); i++)
        if (rf_json_bool(rf_json_get(body, flags[i])))
            return rf_api_fail(e, 400, "unsupported_parameter", flags[i],
                               "%s must be false: this server keeps no answers", flags[i]);
    if (truncation.len && !rf_str_is(truncation, "disabled"))
        return rf_api_fail(e, 400, "unsupported_value", "truncation",
                           "truncation must be disabled: this server does not shorten a "
                           "conversation");
    if (rf_json_int(rf_json_get(body, "top_logprobs")))
        return rf_api_fail(e, 400, "unsupported_parameter", "top_logprobs",
                           "top_logprobs is not supported here; /v1/chat/completions has it");
    return true;
}

/* The answer is not encrypted: whoever asks for reasoning that way gets it in the open. */
static bool check_include(const rf_json *include, rf_api_error *e) {
    for (size_t i = 0; i < rf_json_len(include); i++) {
        rf_str name = rf_json_str(rf_json_at(include, i));
        if (rf_str_is(name, "reasoning.encrypted_content")) continue;
        return rf_api_fail(e, 400, "unsupported_value", "include",
                           "include: this server has no %.*s", RF_STR_ARG(name));
    }
    return true;
}

bool rf_responses_to_chat(const rf_json *body, rf_buf *out, rf_api_error *e) {
    static const char *const translated[] = {"input", "max_output_tokens", "max_tokens", NULL};
    const rf_json *most = rf_json_get(body, "max_output_tokens");
    if (rf_json_kind(most) != RF_JSON_NULL && rf_json_kind(most) != RF_JSON_INT)
        return rf_api_fail(e, 400, "invalid_type", "max_output_tokens",
                           "max_output_tokens must be a whole number");
    if (!check_refused(body, e) || !check_include(rf_json_get(body, "include"), e) ||
        !put_input(body, out, e) || !put_tools(rf_json_get(body, "tools"), out, e) ||
        !put_config(body, out, e))
        return false;
    put_tool_choice(rf_json_get(body, "tool_choice"), out);
    if (rf_json_kind(most) == RF_JSON_INT) {
        rf_buf_puts(out, ",\"max_tokens\":");
        rf_put_json(out, most);
    }
    rf_put_passing(out, body, translated); /* also what the answer repeats */
    rf_buf_putc(out, '}');
    return true;
}

/* ---- items ---- */

/* The id of an item: what it is, and its own number. */
static void put_item_id(const rf_block *b, rf_buf *out) {
    static const char *const prefixes[] = {
        [RF_BLOCK_TEXT] = "msg_", [RF_BLOCK_REASONING] = "rs_", [RF_BLOCK_CALL] = "fc_"};
    rf_buf_printf(out, "\"%s%016llx\"", prefixes[b->kind], (unsigned long long)b->id);
}

static void put_part(const rf_block *b, rf_str text, rf_buf *out) {
    rf_buf_printf(out, "{\"type\":\"%s\",\"text\":",
                  b->kind == RF_BLOCK_TEXT ? "output_text" : "reasoning_text");
    rf_buf_json_str(out, text);
    rf_buf_puts(out, b->kind == RF_BLOCK_TEXT ? ",\"annotations\":[],\"logprobs\":[]}" : "}");
}

static void put_call(const rf_block *b, rf_str arguments, rf_buf *out) {
    rf_buf_puts(out, ",\"type\":\"function_call\",\"call_id\":");
    if (b->call_id.len)
        rf_buf_json_str(out, rf_buf_str(&b->call_id));
    else
        rf_buf_printf(out, "\"call_%016llx\"", (unsigned long long)b->id);
    rf_buf_puts(out, ",\"name\":");
    rf_buf_json_str(out, rf_buf_str(&b->name));
    rf_buf_puts(out, ",\"arguments\":");
    rf_buf_json_str(out, arguments);
}

/* An item of the output; with_text: not as streams begin it. */
static void put_item(const rf_block *b, const char *status, bool with_text, rf_buf *out) {
    rf_str text = with_text ? rf_buf_str(&b->text) : RF_STR("");
    rf_buf_puts(out, "{\"id\":");
    put_item_id(b, out);
    rf_buf_printf(out, ",\"status\":\"%s\"", status);
    if (b->kind == RF_BLOCK_CALL) {
        put_call(b, text, out);
    } else {
        rf_buf_puts(out, b->kind == RF_BLOCK_TEXT
                             ? ",\"type\":\"message\",\"role\":\"assistant\",\"content\":["
                             : ",\"type\":\"reasoning\",\"summary\":[],\"content\":[");
        if (with_text) put_part(b, text, out);
        rf_buf_putc(out, ']');
    }
    rf_buf_putc(out, '}');
}

static const char *item_status(const rf_choice *c, const rf_block *b) {
    return b->is_cut && c->finish == RF_FINISH_LENGTH ? "incomplete" : "completed";
}

/* ---- the answer ---- */

static void put_field(const rf_job *j, const char *name, const char *dflt, rf_buf *out) {
    const rf_json *v = rf_json_get(j->params.json, name);
    rf_buf_printf(out, ",\"%s\":", name);
    if (rf_json_kind(v) == RF_JSON_NULL)
        rf_buf_puts(out, dflt);
    else
        rf_put_json(out, v);
}

/* The tools as this API writes them. */
static void put_own_tools(const rf_job *j, rf_buf *out) {
    static const char *const none[] = {NULL};
    const rf_json *tools = rf_json_get(j->params.json, "tools");
    const rf_json *choice = rf_json_get(j->params.json, "tool_choice");
    const rf_json *chosen = rf_json_get(choice, "function");
    rf_buf_puts(out, ",\"tools\":[");
    for (size_t i = 0; i < rf_json_len(tools); i++) {
        rf_buf_puts(out, i ? ",{\"type\":\"function\"" : "{\"type\":\"function\"");
        rf_put_others(out, rf_json_get(rf_json_at(tools, i), "function"), none);
        rf_buf_putc(out, '}');
    }
    rf_buf_puts(out, "],\"tool_choice\":");
    if (chosen) {
        rf_buf_puts(out, "{\"type\":\"function\"");
        rf_put_others(out, chosen, none);
        rf_buf_putc(out, '}');
    } else if (choice) {
        rf_put_json(out, choice);
    } else {
        rf_buf_puts(out, "\"auto\"");
    }
}

static void put_settings(const rf_job *j, rf_buf *out) {
    const rf_params *p = &j->params;
    put_field(j, "instructions", "null", out);
    put_field(j, "metadata", "{}", out);
    put_field(j, "text", "{\"format\":{\"type\":\"text\"}}", out);
    put_field(j, "reasoning", "{\"effort\":null,\"summary\":null}", out);
    put_own_tools(j, out);
    rf_buf_printf(out, ",\"parallel_tool_calls\":%s", p->parallel_calls ? "true" : "false");
    rf_buf_printf(out, ",\"temperature\":%.7g,\"top_p\":%.7g", (double)p->sampling.temperature,
                  (double)p->sampling.top_p);
    if (p->max_tokens > 0)
        rf_buf_printf(out, ",\"max_output_tokens\":%d", p->max_tokens);
    else
        rf_buf_puts(out, ",\"max_output_tokens\":null");
    rf_buf_puts(out, ",\"background\":false,\"store\":false,\"previous_response_id\":null,"
                     "\"truncation\":\"disabled\"");
}

static void put_usage(const rf_job *j, rf_buf *out) {
    rf_job_usage u = rf_job_get_usage(j);
    rf_buf_printf(out,
                  ",\"usage\":{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u,"
                  "\"cache_write_tokens\":0},\"output_tokens\":%u,\"output_tokens_details\":{"
                  "\"reasoning_tokens\":%u},\"total_tokens\":%u}",
                  u.prompt, u.cached, u.generated, rf_blocks_n_reasoning(j->choices[0].blocks),
                  u.prompt + u.generated);
}

/* error: or NULL.  Before the end the answer has no output and no counts. */
static void put_response(const rf_job *j, const char *status, const rf_api_error *e, rf_buf *out) {
    const rf_choice *c = &j->choices[0];
    bool is_over = strcmp(status, "in_progress") != 0;
    rf_buf_printf(out,
                  "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\"",
                  j->id, (long long)j->created, status);
    if (is_over) rf_buf_printf(out, ",\"completed_at\":%lld", (long long)time(NULL));
    rf_buf_puts(out, ",\"error\":");
    if (e) {
        rf_buf_puts(out, "{\"code\":\"server_error\",\"message\":");
        rf_buf_json_str(out, rf_str_of(e->message));
        rf_buf_putc(out, '}');
    } else {
        rf_buf_puts(out, "null");
    }
    rf_buf_printf(out, ",\"incomplete_details\":%s,\"model\":",
                  strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}"
                                                    : "null");
    rf_buf_json_str(out, rf_str_of(j->model));
    rf_buf_puts(out, ",\"output\":[");
    for (size_t i = 0; is_over && i < rf_blocks_count(c->blocks); i++) {
        const rf_block *b = rf_blocks_at(c->blocks, i);
        if (i) rf_buf_putc(out, ',');
        put_item(b, item_status(c, b), true, out);
    }
    rf_buf_putc(out, ']');
    put_settings(j, out);
    if (is_over)
        put_usage(j, out);
    else
        rf_buf_puts(out, ",\"usage\":null");
    rf_buf_putc(out, '}');
}

static const char *final_status(const rf_job *j) {
    return j->choices[0].finish == RF_FINISH_LENGTH ? "incomplete" : "completed";
}

/* ---- streams ---- */

static void open_event(rf_choice *c, const char *type, rf_buf *out) {
    rf_sse_open_event(out, type);
    rf_buf_printf(out, "{\"type\":\"%s\",\"sequence_number\":%u", type, c->n_sent++);
}

static void close_event(rf_buf *out) {
    rf_buf_putc(out, '}');
    rf_sse_close(out);
}

static void put_response_event(const rf_job *j, const char *type, const char *status,
                               const rf_api_error *e, rf_buf *out) {
    open_event(&j->choices[0], type, out);
    rf_buf_puts(out, ",\"response\":");
    put_response(j, status, e, out);
    close_event(out);
}

static void start(const rf_job *j, rf_buf *out) {
    put_response_event(j, "response.created", "in_progress", NULL, out);
    put_response_event(j, "response.in_progress", "in_progress", NULL, out);
}

typedef struct item_writer {
    rf_choice *choice;
    rf_buf *out;
} item_writer;

/* An event about an item or, part: about its only part. */
static void open_item_event(item_writer *w, const char *type, size_t i, const rf_block *b) {
    open_event(w->choice, type, w->out);
    rf_buf_printf(w->out, ",\"output_index\":%zu,\"item_id\":", i);
    put_item_id(b, w->out);
    if (b->kind != RF_BLOCK_CALL) rf_buf_puts(w->out, ",\"content_index\":0");
}

static void put_whole_item(item_writer *w, const char *type, size_t i, const rf_block *b,
                           const char *status, bool with_text) {
    open_event(w->choice, type, w->out);
    rf_buf_printf(w->out, ",\"output_index\":%zu,\"item\":", i);
    put_item(b, status, with_text, w->out);
    close_event(w->out);
}

static void put_part_event(item_writer *w, const char *type, size_t i, const rf_block *b,
                           rf_str text) {
    open_item_event(w, type, i, b);
    rf_buf_puts(w->out, ",\"part\":");
    put_part(b, text, w->out);
    close_event(w->out);
}

static void open_item(void *user, size_t i, const rf_block *b) {
    item_writer *w = user;
    put_whole_item(w, "response.output_item.added", i, b, "in_progress", false);
    if (b->kind != RF_BLOCK_CALL)
        put_part_event(w, "response.content_part.added", i, b, RF_STR(""));
}

/* The names of the events of a block's text: its deltas, its end, and the member with the whole. */
static const struct {
    const char *delta, *done, *member;
} text_events[] = {
    [RF_BLOCK_TEXT] = {"response.output_text.delta", "response.output_text.done", "text"},
    [RF_BLOCK_REASONING] = {"response.reasoning_text.delta", "response.reasoning_text.done",
                            "text"},
    [RF_BLOCK_CALL] = {"response.function_call_arguments.delta",
                       "response.function_call_arguments.done", "arguments"},
};

static void put_text_event(item_writer *w, bool is_done, size_t i, const rf_block *b, rf_str text) {
    open_item_event(w, is_done ? text_events[b->kind].done : text_events[b->kind].delta, i, b);
    rf_buf_printf(w->out, ",\"%s\":", is_done ? text_events[b->kind].member : "delta");
    rf_buf_json_str(w->out, text);
    if (b->kind == RF_BLOCK_TEXT) rf_buf_puts(w->out, ",\"logprobs\":[]");
    close_event(w->out);
}

static void grow_item(void *user, size_t i, const rf_block *b, rf_str more) {
    put_text_event(user, false, i, b, more);
}

static void close_item(void *user, size_t i, const rf_block *b) {
    item_writer *w = user;
    put_text_event(w, true, i, b, rf_buf_str(&b->text));
    if (b->kind != RF_BLOCK_CALL)
        put_part_event(w, "response.content_part.done", i, b, rf_buf_str(&b->text));
    put_whole_item(w, "response.output_item.done", i, b, item_status(w->choice, b), true);
}

static void delta(rf_job *j, rf_choice *c, const rf_event *ev, rf_buf *out) {
    item_writer w = {c, out};
    const rf_block_sink sink = {open_item, grow_item, close_item, &w};
    rf_write_blocks(j, c, ev, &sink);
}

static void note(rf_job *j, rf_choice *c, const rf_event *ev) { rf_write_blocks(j, c, ev, NULL); }

static void end(const rf_job *j, rf_buf *out) {
    bool is_cut = j->choices[0].finish == RF_FINISH_LENGTH;
    put_response_event(j, is_cut ? "response.incomplete" : "response.completed", final_status(j),
                       NULL, out);
}

static void whole(const rf_job *j, rf_buf *out) { put_response(j, final_status(j), NULL, out); }

static void error(const rf_job *j, const rf_api_error *e, rf_buf *out) {
    put_response_event(j, "response.failed", "failed", e, out);
}

const rf_writer rf_writer_responses = {
    .id_prefix = "resp_",
    .start = start,
    .delta = delta,
    .note = note,
    .end = end,
    .whole = whole,
    .error = error,
};
