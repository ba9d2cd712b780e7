/* cmd_generate.c - continue a text, streaming it to standard output as it comes. */
#include <math.h>
#include <unistd.h>

#include "cli/session.h"

typedef struct output {
    rf_cli *c;
    rf_engine *en;
    bool json, ends_line;
    rf_buf text, tokens, logprobs; /* for --json */
    rf_ids *ids;                   /* prompt, then answer */
    rf_event last;                 /* counters and timings; its pointers are stale */
    rf_error error;
} output;

static void add_logprobs(output *out, const rf_event *event) {
    if (event->n_top == 0 && event->chosen.token != event->token) return;
    rf_buf_printf(&out->logprobs, "%s{\"token\":%d,\"logprob\":%.9g,\"top\":[",
                  out->logprobs.len ? "," : "", event->token, (double)event->chosen.logprob);
    for (size_t i = 0; i < event->n_top; i++)
        rf_buf_printf(&out->logprobs, "%s{\"token\":%d,\"logprob\":%.9g}", i ? "," : "",
                      event->top[i].token,
                      isfinite(event->top[i].logprob) ? (double)event->top[i].logprob : -1e30);
    rf_buf_puts(&out->logprobs, "]}");
}

static void on_event(void *user, const rf_event *event) {
    output *out = user;
    out->last = *event;
    if (event->text_len) out->ends_line = event->text[event->text_len - 1] == '\n';
    rf_buf_put(&out->text, event->text, event->text_len);
    if (event->token >= 0) rf_ids_push(out->ids, event->token);
    if (event->token >= 0 && out->json) {
        rf_buf_printf(&out->tokens, "%s%d", out->tokens.len ? "," : "", event->token);
        if (rf_cli_int(out->c, RF_F_LOGPROBS) >= 0) add_logprobs(out, event);
    }
    if (!out->json && !rf_cli_write(out->c, &out->text)) rf_engine_cancel(out->en, event->request);
    if (event->finish == RF_FINISH_ERROR)
        rf_fail(&out->error, RF_EDEVICE, "%s", event->error ? event->error : "failed");
}

static const char *finish_name(rf_finish f) {
    switch (f) {
    case RF_FINISH_STOP:
        return "stop";
    case RF_FINISH_LENGTH:
        return "length";
    case RF_FINISH_CANCELLED:
        return "cancelled";
    case RF_FINISH_NONE:
    case RF_FINISH_ERROR:
        break;
    }
    return "error";
}

static double per_second(uint64_t n, uint64_t us) { return us ? (double)n * 1e6 / (double)us : 0; }

static void write_json(output *out, uint64_t seed) {
    const rf_event *last = &out->last;
    rf_buf json = {0};
    rf_buf_puts(&json, "{\"text\":");
    rf_buf_json_str(&json, rf_buf_str(&out->text));
    rf_buf_printf(&json, ",\"tokens\":[%s],\"finish\":\"%s\",\"seed\":%llu",
                  out->tokens.len ? out->tokens.p : "", finish_name(last->finish),
                  (unsigned long long)seed);
    if (rf_cli_int(out->c, RF_F_LOGPROBS) >= 0)
        rf_buf_printf(&json, ",\"logprobs\":[%s]", out->logprobs.len ? out->logprobs.p : "");
    rf_buf_printf(&json,
                  ",\"usage\":{\"prompt_tokens\":%u,\"cached_tokens\":%u,\"generated_tokens\":%u},"
                  "\"timings\":{\"prompt_ms\":%.3f,"
                  "\"decode_ms\":%.3f,\"prompt_tokens_per_second\":%.2f,\"tokens_per_second\":%.2f,"
                  "\"draft_n\":%u,\"draft_n_accepted\":%u}}\n",
                  last->n_prompt, last->n_cached, last->n_generated, (double)last->prompt_us / 1e3,
                  (double)last->decode_us / 1e3, per_second(last->n_prompt, last->prompt_us),
                  per_second(last->n_generated ? last->n_generated - 1 : 0, last->decode_us),
                  last->n_drafted, last->n_accepted);
    json.failed = json.failed || out->text.failed || out->tokens.failed || out->logprobs.failed;
    rf_cli_write(out->c, &json);
    rf_buf_free(&json);
}

static rf_status read_prompt(rf_cli *c, rf_buf *prompt, rf_error *e) {
    const char *text = rf_cli_arg(c, 0) ? rf_cli_arg(c, 0) : rf_cli_str(c, RF_F_PROMPT);
    const char *file = rf_cli_str(c, RF_F_FILE);
    int n_given = (rf_cli_arg(c, 0) != NULL) + rf_cli_given(c, RF_F_PROMPT) +
                  rf_cli_given(c, RF_F_FILE) + rf_cli_given(c, RF_F_TOKENS);
    if (n_given > 1)
        return rf_fail(e, RF_EARG,
                       "the prompt is given %d times; give it once: as argument, with -p, -f or "
                       "--tokens",
                       n_given);
    if (rf_cli_given(c, RF_F_TOKENS)) return RF_OK;
    if (!text && !file && isatty(STDIN_FILENO))
        return rf_fail(e, RF_EARG,
                       "no prompt: give it as argument, with -p TEXT or -f FILE, or pipe it in");
    return rf_session_read(file, text ? text : "-", prompt, e);
}

static rf_status prompt_tokens(rf_cli *c, const rf_engine *en, rf_buf *prompt, rf_ids *ids,
                               rf_error *e) {
    if (rf_cli_given(c, RF_F_TOKENS))
        return rf_session_parse_ids(rf_cli_str(c, RF_F_TOKENS), ids, e);
    RF_TRY(rf_session_tokenize(en, rf_buf_str(prompt), true, rf_cli_bool(c, RF_F_PARSE_SPECIAL),
                               ids, e));
    if (ids->len == 0)
        return rf_fail(
            e, RF_EARG,
            "the prompt is empty and the model has no token to begin with; give some text");
    return RF_OK;
}

static rf_status load_state(output *out, const char *path, rf_error *e) {
    rf_text why;
    size_t n;
    int s = rf_engine_state_restore(out->en, path, 0, NULL, 0, &n, NULL, &why);
    return rf_session_error(s, &why, e);
}

static rf_status save_state(output *out, const char *path, rf_error *e) {
    rf_text why;
    if (out->ids->failed) return rf_fail_nomem(e, out->ids->len * sizeof *out->ids->p);
    int s = rf_engine_state_save(out->en, path, out->ids->p, out->ids->len, 0, NULL, &why);
    return rf_session_error(s, &why, e);
}

static rf_status run(output *out, const rf_request_opts *o, rf_error *e) {
    rf_text why;
    uint64_t id;
    RF_TRY(rf_session_error(rf_engine_submit(out->en, o, &id, &why), &why, e));
    rf_cli_catch_interrupts();
    while (rf_engine_step(out->en) > 0)
        if (rf_cli_interrupted()) rf_engine_cancel(out->en, id);
    if (out->error.status != RF_OK) *e = out->error;
    return out->error.status;
}

int rf_cmd_generate(rf_cli *c) {
    rf_ids ids = {0};
    output out = {.c = c, .json = rf_cli_bool(c, RF_F_JSON), .ids = &ids};
    rf_buf prompt = {0};
    rf_request_opts o;
    rf_logit_bias *bias = NULL;
    rf_error e = {0};
    int code = RF_EXIT_OK;
    rf_status s = rf_session_request(c, &o, &bias, &e);
    if (s == RF_OK && rf_cli_int(c, RF_F_LOGPROBS) >= 0 && !out.json)
        s = rf_fail(&e, RF_EARG, "--logprobs prints nothing without --json; add it");
    if (s == RF_OK) s = read_prompt(c, &prompt, &e);
    if (s == RF_OK) s = rf_session_open(c, 0, &out.en, &e);
    if (s == RF_OK) s = prompt_tokens(c, out.en, &prompt, &ids, &e);
    if (s == RF_OK) s = rf_session_grammar(c, out.en, &o.grammar, &e);
    if (s == RF_OK && rf_cli_given(c, RF_F_LOAD_STATE))
        s = load_state(&out, rf_cli_str(c, RF_F_LOAD_STATE), &e);
    if (s == RF_OK) {
        o.tokens = ids.p;
        o.n_tokens = ids.len;
        o.n_logprobs = (int32_t)rf_cli_int(c, RF_F_LOGPROBS);
        o.on_event = on_event;
        o.user = &out;
        if (rf_cli_bool(c, RF_F_ECHO) && prompt.len) {
            rf_buf_put(&out.text, prompt.p, prompt.len);
            if (!out.json) rf_cli_write(c, &out.text);
        }
        s = run(&out, &o, &e);
    }
    if (s == RF_OK && rf_cli_given(c, RF_F_SAVE_STATE))
        s = save_state(&out, rf_cli_str(c, RF_F_SAVE_STATE), &e);
    if (s == RF_OK && out.json) write_json(&out, o.sampling.seed);
    if (!out.json && out.last.n_generated && !out.ends_line && isatty(STDOUT_FILENO)) {
        rf_buf_puts(&out.text, "\n");
        rf_cli_write(c, &out.text);
    }
    if (s != RF_OK)
        code = rf_cli_fail(c, &e);
    else if (rf_cli_interrupted())
        code = RF_EXIT_INTERRUPTED;
    if (out.en) rf_grammar_close(o.grammar);
    rf_engine_close(out.en);
    rf_free(bias);
    rf_ids_free(&ids);
    rf_buf_free(&prompt);
    rf_buf_free(&out.text);
    rf_buf_free(&out.tokens);
    rf_buf_free(&out.logprobs);
    return code;
}
