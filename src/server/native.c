/* native.c - answers of /generate and /generate/stream.
 *
 * A stream is one event per token with its text, and a last one with "done": true and the counts. */
#include "server/sse.h"
#include "server/writers.h"

static const char *reason(const rf_choice *c) {
    return c->finish == RF_FINISH_LENGTH ? "length" : "stop";
}

static void put_prob(const rf_job *j, rf_token_prob t, rf_buf *out) {
    rf_buf bytes = {0};
    rf_write_token_bytes(j, t.token, &bytes);
    rf_buf_printf(out, "{\"token\":%d,\"logprob\":%.9g,\"text\":", t.token,
                  rf_write_logprob(t.logprob));
    rf_buf_json_str(out, rf_buf_str(&bytes));
    if (bytes.failed) out->failed = true;
    rf_buf_free(&bytes);
}

static void put_logprob(const rf_job *j, const rf_event *ev, rf_buf *out) {
    put_prob(j, ev->chosen, out);
    rf_buf_puts(out, ",\"top\":[");
    for (size_t i = 0; i < ev->n_top; i++) {
        if (i) rf_buf_putc(out, ',');
        put_prob(j, ev->top[i], out);
        rf_buf_putc(out, '}');
    }
    rf_buf_puts(out, "]}");
}

enum { TOKENS, LOGPROBS }; /* lists of a choice */

static void note(rf_job *j, rf_choice *c, const rf_event *ev) {
    if (ev->token < 0) return;
    rf_buf_printf(&c->logprobs[TOKENS], "%s%d", c->logprobs[TOKENS].len ? "," : "", ev->token);
    if (j->params.n_logprobs < 0) return;
    if (c->logprobs[LOGPROBS].len) rf_buf_putc(&c->logprobs[LOGPROBS], ',');
    put_logprob(j, ev, &c->logprobs[LOGPROBS]);
}

static void start(const rf_job *j, rf_buf *out) {
    rf_sse_open(out);
    rf_buf_printf(out, "{\"id\":\"%s\"", j->id);
    if (j->params.echo && !j->params.prompts[0].ids) {
        rf_buf_puts(out, ",\"text\":");
        rf_buf_json_str(out, j->params.prompts[0].text);
    }
    rf_buf_puts(out, ",\"done\":false}");
    rf_sse_close(out);
}

static void delta(rf_job *j, rf_choice *c, const rf_event *ev, rf_buf *out) {
    (void)c;
    if (ev->token < 0 && ev->text_len == 0) return;
    rf_sse_open(out);
    rf_buf_printf(out, "{\"id\":\"%s\",\"text\":", j->id);
    rf_buf_json_str(out, (rf_str){ev->text, ev->text_len});
    if (ev->token >= 0) rf_buf_printf(out, ",\"token\":%d", ev->token);
    if (ev->token >= 0 && j->params.n_logprobs >= 0) {
        rf_buf_puts(out, ",\"logprobs\":");
        put_logprob(j, ev, out);
    }
    rf_buf_puts(out, ",\"done\":false}");
    rf_sse_close(out);
}

static void put_counts(const rf_job *j, rf_buf *out) {
    rf_job_usage u = rf_job_get_usage(j);
    rf_buf_printf(out,
                  ",\"finish_reason\":\"%s\",\"seed\":%llu,\"prompt_tokens\":%u,"
                  "\"cached_tokens\":%u,\"generated_tokens\":%u,\"timings\":",
                  reason(&j->choices[0]), (unsigned long long)j->params.sampling.seed, u.prompt,
                  u.cached, u.generated);
    rf_write_timings(j, out);
}

static void end(const rf_job *j, rf_buf *out) {
    rf_sse_open(out);
    rf_buf_printf(out, "{\"id\":\"%s\",\"done\":true", j->id);
    put_counts(j, out);
    rf_buf_putc(out, '}');
    rf_sse_close(out);
}

static void whole(const rf_job *j, rf_buf *out) {
    const rf_choice *c = &j->choices[0];
    rf_buf text = {0};
    if (j->params.echo && !j->params.prompts[0].ids)
        rf_buf_put(&text, j->params.prompts[0].text.p, j->params.prompts[0].text.len);
    rf_buf_put(&text, c->text.len ? c->text.p : "", c->text.len);
    rf_buf_printf(out, "{\"id\":\"%s\",\"model\":", j->id);
    rf_buf_json_str(out, rf_str_of(j->model));
    rf_buf_puts(out, ",\"text\":");
    rf_buf_json_str(out, rf_buf_str(&text));
    rf_buf_printf(out, ",\"tokens\":[%s]", c->logprobs[TOKENS].len ? c->logprobs[TOKENS].p : "");
    if (j->params.n_logprobs >= 0)
        rf_buf_printf(out, ",\"logprobs\":[%s]",
                      c->logprobs[LOGPROBS].len ? c->logprobs[LOGPROBS].p : "");
    put_counts(j, out);
    rf_buf_putc(out, '}');
    if (text.failed) out->failed = true;
    rf_buf_free(&text);
}

static void error(const rf_job *j, const rf_api_error *e, rf_buf *out) {
    (void)j;
    rf_sse_open(out);
    rf_api_put_error(out, e);
    rf_sse_close(out);
}

const rf_writer rf_writer_native = {
    .id_prefix = "gen-",
    .keeps_text = true,
    .start = start,
    .delta = delta,
    .note = note,
    .end = end,
    .whole = whole,
    .error = error,
};
