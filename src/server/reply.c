/* reply.c - events of the parser as deltas of a stream, or gathered into one message. */
#include "server/reply.h"

#include "base/log.h"
#include "base/os.h"

/* ---- the model's way of writing ---- */

/* True where the text of the marks is not there without the names of control tokens. */
static rf_status are_special(const rf_engine *engine, const rf_tool_format *calls,
                             const rf_reasoning_format *reasoning, bool *out) {
    rf_buf marks = {0};
    rf_text why;
    size_t n = 0, shown = 0, full = 0;
    rf_tool_put_marks(calls, reasoning, &marks);
    int32_t *ids = marks.len ? rf_alloc(marks.len, sizeof *ids) : NULL;
    bool ok = ids && !marks.failed &&
              rf_engine_tokenize(engine, marks.p, marks.len, false, true, ids, marks.len, &n,
                                 &why) == ROCMFORGE_OK;
    if (ok && n <= marks.len)
        ok = rf_engine_detokenize(engine, ids, n, false, NULL, 0, &shown, &why) == ROCMFORGE_OK &&
             rf_engine_detokenize(engine, ids, n, true, NULL, 0, &full, &why) == ROCMFORGE_OK;
    *out = ok && shown < full;
    rf_status s = marks.failed || (marks.len && !ids) ? RF_ENOMEM : RF_OK;
    rf_free(ids);
    rf_buf_free(&marks);
    return s;
}

static rf_status find_end_texts(rf_reply_format *f, const rf_engine *engine, uint32_t n_vocab) {
    size_t lens[16];
    for (uint32_t id = 0; id < n_vocab && f->n_hidden < RF_COUNT(lens); id++) {
        char text[64];
        size_t n = 0;
        if (!rf_engine_is_end(engine, (int32_t)id)) continue;
        int s = rf_engine_token_bytes(engine, (int32_t)id, text, sizeof text, &n, NULL);
        if (s != ROCMFORGE_OK || n == 0 || n > sizeof text) continue;
        rf_buf_put(&f->texts, text, n);
        lens[f->n_hidden++] = n;
    }
    f->hidden = rf_alloc(f->n_hidden, sizeof *f->hidden);
    if (!f->hidden || f->texts.failed) return RF_ENOMEM;
    const char *at = f->texts.p;
    for (size_t i = 0; i < f->n_hidden; at += lens[i++])
        f->hidden[i] = (rf_str){at, lens[i]};
    return RF_OK;
}

rf_status rf_reply_format_open(rf_reply_format *f, const rf_engine *engine, const char *name,
                               rf_error *e) {
    rf_engine_info info;
    rf_engine_get_info(engine, &info);
    rf_str t = rf_str_of(info.chat_template ? info.chat_template : "");
    f->calls = name ? rf_tool_format_by_name(rf_str_of(name)) : rf_tool_format_detect(t);
    if (name && !f->calls) return rf_fail(e, RF_EARG, "there is no tool format '%.40s'", name);
    f->reasoning = rf_reasoning_format_detect(t);
    rf_status s = are_special(engine, f->calls, NULL, &f->calls_are_special);
    if (s == RF_OK) s = are_special(engine, NULL, f->reasoning, &f->reasoning_is_special);
    if (s == RF_OK) s = find_end_texts(f, engine, info.n_vocab);
    if (s == RF_OK)
        rf_log_write(RF_LOG_INFO, "tool calls are read as %s, reasoning as %s",
                     rf_tool_format_name(f->calls), rf_reasoning_format_name(f->reasoning));
    return s == RF_OK ? s : rf_fail(e, s, "out of memory for the formats of answers");
}

void rf_reply_format_close(rf_reply_format *f) {
    rf_free(f->hidden);
    rf_buf_free(&f->texts);
    *f = (rf_reply_format){0};
}

bool rf_reply_needs_special(const rf_reply_format *f, bool has_tools) {
    bool calls = has_tools || rf_tool_format_has_headings(f->calls);
    return f->reasoning_is_special || (calls && f->calls_are_special);
}

/* ---- one answer ---- */

struct rf_reply {
    rf_tool_parser *parser;
    rf_buf content, reasoning, calls; /* of a whole answer; calls: the members of the array */
    rf_buf one;                       /* a delta */
    rf_reply_delta delta;             /* NULL: keep */
    void *user;
    const char *id;
    bool single_call;
};

static void put_id(rf_buf *out, rf_str id) {
    if (id.len)
        rf_buf_json_str(out, id);
    else
        rf_buf_printf(out, "\"call_%016llx\"", (unsigned long long)rf_random_u64());
}

static void stream(rf_reply *r, const rf_tool_event *ev) {
    rf_buf *out = &r->one;
    rf_buf_clear(out);
    if (ev->kind == RF_TOOL_BEGIN) {
        rf_buf_printf(out, "{\"tool_calls\":[{\"index\":%u,\"id\":", ev->index);
        put_id(out, ev->id);
        rf_buf_puts(out, ",\"type\":\"function\",\"function\":{\"name\":");
        rf_buf_json_str(out, ev->text);
        rf_buf_puts(out, ",\"arguments\":\"\"}}]}");
    } else if (ev->kind == RF_TOOL_ARGUMENTS) {
        rf_buf_printf(out,
                      "{\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", ev->index);
        rf_buf_json_str(out, ev->text);
        rf_buf_puts(out, "}}]}");
    } else {
        bool is_content = ev->kind == RF_TOOL_CONTENT;
        rf_buf_puts(out, is_content ? "{\"content\":" : "{\"reasoning_content\":");
        rf_buf_json_str(out, ev->text);
        rf_buf_putc(out, '}');
    }
    if (!out->failed) r->delta(r->user, rf_buf_str(out));
}

static void gather(rf_reply *r, const rf_tool_event *ev) {
    if (ev->kind == RF_TOOL_BEGIN) {
        rf_buf_puts(&r->calls, ev->index ? ",{\"id\":" : "{\"id\":");
        put_id(&r->calls, ev->id);
        rf_buf_puts(&r->calls, ",\"type\":\"function\",\"function\":{\"name\":");
        rf_buf_json_str(&r->calls, ev->text);
    } else if (ev->kind == RF_TOOL_ARGUMENTS) {
        rf_buf_puts(&r->calls, ",\"arguments\":");
        rf_buf_json_str(&r->calls, ev->text);
        rf_buf_puts(&r->calls, "}}");
    } else {
        rf_buf_put(ev->kind == RF_TOOL_CONTENT ? &r->content : &r->reasoning, ev->text.p,
                   ev->text.len);
    }
}

static void on_event(void *user, const rf_tool_event *ev) {
    rf_reply *r = user;
    bool of_call = ev->kind == RF_TOOL_BEGIN || ev->kind == RF_TOOL_ARGUMENTS;
    if (ev->kind == RF_TOOL_END || (of_call && r->single_call && ev->index > 0)) return;
    if (ev->kind == RF_TOOL_WARNING)
        rf_log_write(RF_LOG_WARN, "job=%s %.*s", r->id, RF_STR_ARG(ev->text));
    else if (r->delta)
        stream(r, ev);
    else
        gather(r, ev);
}

rf_tool_parser_opts rf_reply_parser_opts(const rf_reply_format *f, const rf_reply_opts *o,
                                         rf_tool_sink sink, void *user) {
    const rf_tool_format *json = rf_tool_format_by_name(RF_STR("json"));
    return (rf_tool_parser_opts){.format = o->must_call ? json : f->calls,
                                 .no_calls = rf_json_len(o->tools) == 0,
                                 .reasoning = o->must_call ? NULL : f->reasoning,
                                 .tools = o->tools,
                                 .prompt_end = o->prompt_end,
                                 .hidden = f->hidden,
                                 .n_hidden = f->n_hidden,
                                 .sink = sink,
                                 .user = user};
}

rf_status rf_reply_create(rf_reply **out, const rf_reply_format *f, const rf_reply_opts *o) {
    rf_reply *r = *out = rf_alloc(1, sizeof *r);
    if (!r) return RF_ENOMEM;
    const rf_tool_parser_opts po = rf_reply_parser_opts(f, o, on_event, r);
    r->id = o->id;
    r->single_call = o->single_call;
    rf_status s = rf_tool_parser_create(&r->parser, &po, NULL);
    if (s == RF_OK) return s;
    rf_free(r);
    *out = NULL;
    return s;
}

rf_status rf_reply_feed(rf_reply *r, rf_str text, bool is_last, rf_reply_delta delta, void *user) {
    r->delta = delta;
    r->user = user;
    RF_TRY(rf_tool_parser_feed(r->parser, text));
    if (is_last) RF_TRY(rf_tool_parser_finish(r->parser));
    bool failed = r->one.failed || r->content.failed || r->reasoning.failed || r->calls.failed;
    return failed ? RF_ENOMEM : RF_OK;
}

bool rf_reply_has_calls(const rf_reply *r) { return rf_tool_parser_n_calls(r->parser) > 0; }

void rf_reply_put(const rf_reply *r, rf_buf *out) {
    rf_buf_puts(out, "\"content\":");
    if (r->content.len == 0 && r->calls.len)
        rf_buf_puts(out, "null");
    else
        rf_buf_json_str(out, rf_buf_str(&r->content));
    if (r->reasoning.len) {
        rf_buf_puts(out, ",\"reasoning_content\":");
        rf_buf_json_str(out, rf_buf_str(&r->reasoning));
    }
    if (r->calls.len) {
        rf_buf_puts(out, ",\"tool_calls\":[");
        rf_buf_put(out, r->calls.p, r->calls.len);
        rf_buf_putc(out, ']');
    }
}

void rf_reply_free(rf_reply *r) {
    if (!r) return;
    rf_tool_parser_free(r->parser);
    rf_buf_free(&r->content);
    rf_buf_free(&r->reasoning);
    rf_buf_free(&r->calls);
    rf_buf_free(&r->one);
    rf_free(r);
}
