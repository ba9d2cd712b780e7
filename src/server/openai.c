/* openai.c - answers of /v1/chat/completions and /v1/completions, whole and as streams.
 *
 * A stream is: for chat a chunk with the role for each answer; chunks with text; a chunk with the
 * reason of the end; with stream_options.include_usage a last one with no choices; [DONE]. */
#include <math.h>

#include "server/sse.h"
#include "server/writers.h"

static bool is_chat(const rf_job *j) { return j->writer == &rf_writer_chat; }

/* ---- pieces ---- */

rf_job_usage rf_job_get_usage(const rf_job *j) {
    rf_job_usage u = {0};
    for (uint32_t i = 0; i < j->n_choices; i++) {
        if (i % (uint32_t)j->params.n == 0) {
            u.prompt += j->choices[i].n_prompt;
            u.cached += j->choices[i].n_cached;
        }
        u.generated += j->choices[i].n_generated;
    }
    return u;
}

static double rate(uint32_t n, uint64_t us) { return us ? (double)n * 1e6 / (double)us : 0; }

void rf_write_timings(const rf_job *j, rf_buf *out) {
    uint64_t queue_us = 0, prompt_us = 0, decode_us = 0;
    uint32_t n_drafted = 0, n_accepted = 0;
    for (uint32_t i = 0; i < j->n_choices; i++) {
        const rf_choice *c = &j->choices[i];
        if (i == 0) queue_us = c->queue_us;
        if (c->prompt_us > prompt_us) prompt_us = c->prompt_us;
        if (c->decode_us > decode_us) decode_us = c->decode_us;
        n_drafted += c->n_drafted;
        n_accepted += c->n_accepted;
    }
    rf_job_usage u = rf_job_get_usage(j);
    uint32_t later = u.generated > j->n_choices ? u.generated - j->n_choices : 0;
    rf_buf_printf(out,
                  "{\"queue_ms\":%.3f,\"prompt_ms\":%.3f,\"decode_ms\":%.3f,"
                  "\"prompt_tokens_per_second\":%.2f,\"tokens_per_second\":%.2f,"
                  "\"draft_n\":%u,\"draft_n_accepted\":%u}",
                  (double)queue_us / 1e3, (double)prompt_us / 1e3, (double)decode_us / 1e3,
                  rate(u.prompt - u.cached, prompt_us), rate(later, decode_us), n_drafted,
                  n_accepted);
}

void rf_write_token_bytes(const rf_job *j, int32_t token, rf_buf *out) {
    char text[512];
    size_t n = 0;
    rf_engine_token_bytes(j->engine, token, text, sizeof text, &n, NULL);
    rf_buf_put(out, text, n < sizeof text ? n : sizeof text);
}

double rf_write_logprob(float logprob) { return isfinite(logprob) ? (double)logprob : -9999.0; }

static void put_usage(const rf_job *j, rf_buf *out) {
    rf_job_usage u = rf_job_get_usage(j);
    rf_buf_printf(out,
                  "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%u}}",
                  u.prompt, u.generated, u.prompt + u.generated, u.cached);
}

/* What every object begins with. */
static void put_head(const rf_job *j, bool chunk, rf_buf *out) {
    const char *object = !is_chat(j) ? "text_completion"
                         : chunk     ? "chat.completion.chunk"
                                     : "chat.completion";
    rf_buf_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", j->id,
                  object, (long long)j->created);
    rf_buf_json_str(out, rf_str_of(j->model));
    rf_buf_printf(out, ",\"system_fingerprint\":\"rocmforge-%s\",", rf_version());
}

static const char *reason(const rf_choice *c) {
    if (c->finish == RF_FINISH_LENGTH) return "length";
    return c->reply && rf_reply_has_calls(c->reply) ? "tool_calls" : "stop";
}

/* ---- what chat answers are made of ---- */

/* Feeds the reply of a choice; false where the text is the answer.  Without memory the job fails by
 * the mark on its text. */
static bool feed_reply(rf_job *j, rf_choice *c, const rf_event *ev, rf_reply_delta delta,
                       void *user) {
    if (!is_chat(j) || !j->params.reads_reply) return false;
    const rf_reply_opts o = rf_reply_opts_of(j);
    rf_status s = RF_OK;
    if (!c->reply) s = rf_reply_create(&c->reply, j->format, &o);
    if (s == RF_OK)
        s = rf_reply_feed(c->reply, (rf_str){ev->text, ev->text_len}, ev->finish != RF_FINISH_NONE,
                          delta, user);
    if (s != RF_OK) c->text.failed = true;
    return true;
}

/* ---- log-probabilities ---- */

/* Tokens that end the text are not part of it. */
static bool has_logprob(const rf_job *j, const rf_event *ev) {
    return ev->token >= 0 && j->params.n_logprobs >= 0 &&
           (j->params.ignore_eos || !rf_engine_is_end(j->engine, ev->token));
}

static void put_chat_token(const rf_job *j, rf_token_prob t, rf_buf *out) {
    rf_buf bytes = {0};
    rf_write_token_bytes(j, t.token, &bytes);
    rf_buf_puts(out, "{\"token\":");
    rf_buf_json_str(out, rf_buf_str(&bytes));
    rf_buf_printf(out, ",\"logprob\":%.9g,\"bytes\":[", rf_write_logprob(t.logprob));
    for (size_t i = 0; i < bytes.len; i++)
        rf_buf_printf(out, "%s%u", i ? "," : "", (unsigned)(unsigned char)bytes.p[i]);
    rf_buf_putc(out, ']');
    if (bytes.failed) out->failed = true;
    rf_buf_free(&bytes);
}

static void put_chat_logprob(const rf_job *j, const rf_event *ev, rf_buf *out) {
    put_chat_token(j, ev->chosen, out);
    rf_buf_puts(out, ",\"top_logprobs\":[");
    for (size_t i = 0; i < ev->n_top; i++) {
        if (i) rf_buf_putc(out, ',');
        put_chat_token(j, ev->top[i], out);
        rf_buf_putc(out, '}');
    }
    rf_buf_puts(out, "]}");
}

enum { TOKENS, LOGPROBS, TOPS, OFFSETS }; /* the lists of a completion's logprobs */

/* Appends one entry to each of the four lists. */
static void add_completion_logprob(const rf_job *j, rf_choice *c, const rf_event *ev,
                                   rf_buf lists[4]) {
    rf_buf bytes = {0};
    for (int i = 0; i < 4; i++)
        if (lists[i].len) rf_buf_putc(&lists[i], ',');
    rf_write_token_bytes(j, ev->token, &bytes);
    rf_buf_json_str(&lists[TOKENS], rf_buf_str(&bytes));
    rf_buf_printf(&lists[LOGPROBS], "%.9g", rf_write_logprob(ev->chosen.logprob));
    rf_buf_printf(&lists[OFFSETS], "%zu", c->n_chars);
    for (size_t i = 0; i < bytes.len; i++) /* all but continuations begin a character */
        c->n_chars += ((unsigned char)bytes.p[i] & 0xC0) != 0x80;
    rf_buf_putc(&lists[TOPS], '{');
    for (size_t i = 0; i < ev->n_top; i++) {
        rf_buf_clear(&bytes);
        rf_write_token_bytes(j, ev->top[i].token, &bytes);
        if (i) rf_buf_putc(&lists[TOPS], ',');
        rf_buf_json_str(&lists[TOPS], rf_buf_str(&bytes));
        rf_buf_printf(&lists[TOPS], ":%.9g", rf_write_logprob(ev->top[i].logprob));
    }
    rf_buf_putc(&lists[TOPS], '}');
    if (bytes.failed) lists[TOKENS].failed = true;
    rf_buf_free(&bytes);
}

static void put_completion_logprobs(const rf_buf lists[4], rf_buf *out) {
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    for (int i = 0; i < 4; i++) {
        rf_buf_printf(out, "%s\"%s\":[", i ? "," : "{", names[i]);
        rf_buf_put(out, lists[i].len ? lists[i].p : "", lists[i].len);
        rf_buf_putc(out, ']');
        if (lists[i].failed) out->failed = true;
    }
    rf_buf_putc(out, '}');
}

static void note(rf_job *j, rf_choice *c, const rf_event *ev) {
    feed_reply(j, c, ev, NULL, NULL);
    if (!has_logprob(j, ev)) return;
    if (!is_chat(j)) {
        add_completion_logprob(j, c, ev, c->logprobs);
        return;
    }
    if (c->logprobs[0].len) rf_buf_putc(&c->logprobs[0], ',');
    put_chat_logprob(j, ev, &c->logprobs[0]);
}

static void put_event_logprobs(rf_job *j, rf_choice *c, const rf_event *ev, rf_buf *out) {
    rf_buf_puts(out, ",\"logprobs\":");
    if (!has_logprob(j, ev)) {
        rf_buf_puts(out, "null");
    } else if (is_chat(j)) {
        rf_buf_puts(out, "{\"content\":[");
        put_chat_logprob(j, ev, out);
        rf_buf_puts(out, "]}");
    } else {
        rf_buf lists[4] = {{0}};
        add_completion_logprob(j, c, ev, lists);
        put_completion_logprobs(lists, out);
        for (int i = 0; i < 4; i++)
            rf_buf_free(&lists[i]);
    }
}

static void put_all_logprobs(const rf_job *j, const rf_choice *c, rf_buf *out) {
    rf_buf_puts(out, ",\"logprobs\":");
    if (j->params.n_logprobs < 0) {
        rf_buf_puts(out, "null");
    } else if (is_chat(j)) {
        rf_buf_puts(out, "{\"content\":[");
        rf_buf_put(out, c->logprobs[0].len ? c->logprobs[0].p : "", c->logprobs[0].len);
        rf_buf_puts(out, "]}");
    } else {
        put_completion_logprobs(c->logprobs, out);
    }
}

/* ---- streams ---- */

static void open_chunk(const rf_job *j, const rf_choice *c, rf_buf *out) {
    rf_sse_open(out);
    put_head(j, true, out);
    rf_buf_printf(out, "\"choices\":[{\"index\":%u,", c->index);
}

static void close_chunk(const rf_job *j, const char *finish, bool with_timings, rf_buf *out) {
    if (finish)
        rf_buf_printf(out, ",\"finish_reason\":\"%s\"}]", finish);
    else
        rf_buf_puts(out, ",\"finish_reason\":null}]");
    if (j->params.include_usage) rf_buf_puts(out, ",\"usage\":null");
    if (with_timings) {
        rf_buf_puts(out, ",\"timings\":");
        rf_write_timings(j, out);
    }
    rf_buf_putc(out, '}');
    rf_sse_close(out);
}

static void start_chat(const rf_job *j, rf_buf *out) {
    for (uint32_t i = 0; i < j->n_choices; i++) {
        open_chunk(j, &j->choices[i], out);
        rf_buf_puts(out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null");
        close_chunk(j, NULL, false, out);
    }
}

/* The text of a choice's prompt: what echo repeats. */
static void put_prompt(const rf_job *j, const rf_choice *c, rf_buf *out) {
    const rf_prompt *p = &j->params.prompts[c->index / (uint32_t)j->params.n];
    if (!p->ids) {
        rf_buf_put(out, p->text.p, p->text.len);
        return;
    }
    size_t n = 0;
    rf_engine_detokenize(j->engine, p->ids, p->n_ids, false, NULL, 0, &n, NULL);
    char *text = rf_alloc(n, 1);
    if (text) {
        rf_engine_detokenize(j->engine, p->ids, p->n_ids, false, text, n, &n, NULL);
        rf_buf_put(out, text, n);
    } else {
        out->failed = true;
    }
    rf_free(text);
}

static void start_completion(const rf_job *j, rf_buf *out) {
    for (uint32_t i = 0; j->params.echo && i < j->n_choices; i++) {
        rf_buf prompt = {0};
        put_prompt(j, &j->choices[i], &prompt);
        open_chunk(j, &j->choices[i], out);
        rf_buf_puts(out, "\"text\":");
        rf_buf_json_str(out, rf_buf_str(&prompt));
        rf_buf_puts(out, ",\"logprobs\":null");
        close_chunk(j, NULL, false, out);
        if (prompt.failed) out->failed = true;
        rf_buf_free(&prompt);
    }
}

typedef struct chunk_writer {
    rf_job *job;
    rf_choice *choice;
    const rf_event *event;
    rf_buf *out;
    uint32_t n_chunks;
} chunk_writer;

/* One chunk; the token's log-probability goes with the first. */
static void put_chunk(void *user, rf_str delta) {
    chunk_writer *w = user;
    open_chunk(w->job, w->choice, w->out);
    rf_buf_puts(w->out, "\"delta\":");
    rf_buf_put(w->out, delta.p, delta.len);
    if (w->n_chunks++ == 0)
        put_event_logprobs(w->job, w->choice, w->event, w->out);
    else
        rf_buf_puts(w->out, ",\"logprobs\":null");
    close_chunk(w->job, NULL, false, w->out);
}

static void delta(rf_job *j, rf_choice *c, const rf_event *ev, rf_buf *out) {
    chunk_writer w = {j, c, ev, out, 0};
    if (feed_reply(j, c, ev, put_chunk, &w)) {
        if (w.n_chunks == 0 && has_logprob(j, ev)) put_chunk(&w, RF_STR("{\"content\":\"\"}"));
        return;
    }
    if (ev->text_len == 0 && !has_logprob(j, ev)) return;
    open_chunk(j, c, out);
    rf_buf_puts(out, is_chat(j) ? "\"delta\":{\"content\":" : "\"text\":");
    rf_buf_json_str(out, (rf_str){ev->text, ev->text_len});
    if (is_chat(j)) rf_buf_putc(out, '}');
    put_event_logprobs(j, c, ev, out);
    close_chunk(j, NULL, false, out);
}

static void finish(const rf_job *j, const rf_choice *c, rf_buf *out) {
    open_chunk(j, c, out);
    rf_buf_puts(out, is_chat(j) ? "\"delta\":{}" : "\"text\":\"\"");
    rf_buf_puts(out, ",\"logprobs\":null");
    close_chunk(j, reason(c), true, out);
}

static void end(const rf_job *j, rf_buf *out) {
    if (j->params.include_usage) {
        rf_sse_open(out);
        put_head(j, true, out);
        rf_buf_puts(out, "\"choices\":[],");
        put_usage(j, out);
        rf_buf_putc(out, '}');
        rf_sse_close(out);
    }
    rf_sse_open(out);
    rf_buf_puts(out, "[DONE]");
    rf_sse_close(out);
}

static void error(const rf_job *j, const rf_api_error *e, rf_buf *out) {
    (void)j;
    rf_sse_open(out);
    rf_api_put_error(out, e);
    rf_sse_close(out);
}

/* ---- whole answers ---- */

static void put_choice_text(const rf_job *j, const rf_choice *c, rf_buf *out) {
    if (is_chat(j)) {
        rf_buf_puts(out, "\"message\":{\"role\":\"assistant\",");
        if (c->reply) {
            rf_reply_put(c->reply, out);
        } else {
            rf_buf_puts(out, "\"content\":");
            rf_buf_json_str(out, rf_buf_str(&c->text));
        }
        rf_buf_puts(out, ",\"refusal\":null}");
        return;
    }
    rf_buf text = {0};
    if (j->params.echo) put_prompt(j, c, &text);
    rf_buf_put(&text, c->text.len ? c->text.p : "", c->text.len);
    rf_buf_puts(out, "\"text\":");
    rf_buf_json_str(out, rf_buf_str(&text));
    if (text.failed) out->failed = true;
    rf_buf_free(&text);
}

static void whole(const rf_job *j, rf_buf *out) {
    put_head(j, false, out);
    rf_buf_puts(out, "\"choices\":[");
    for (uint32_t i = 0; i < j->n_choices; i++) {
        const rf_choice *c = &j->choices[i];
        rf_buf_printf(out, "%s{\"index\":%u,", i ? "," : "", i);
        put_choice_text(j, c, out);
        put_all_logprobs(j, c, out);
        rf_buf_printf(out, ",\"finish_reason\":\"%s\"}", reason(c));
    }
    rf_buf_puts(out, "],");
    put_usage(j, out);
    rf_buf_puts(out, ",\"timings\":");
    rf_write_timings(j, out);
    rf_buf_putc(out, '}');
}

const rf_writer rf_writer_chat = {
    .id_prefix = "chatcmpl-",
    .start = start_chat,
    .delta = delta,
    .note = note,
    .finish = finish,
    .end = end,
    .whole = whole,
    .error = error,
};
const rf_writer rf_writer_completion = {
    .id_prefix = "cmpl-",
    .start = start_completion,
    .delta = delta,
    .note = note,
    .finish = finish,
    .end = end,
    .whole = whole,
    .error = error,
};
