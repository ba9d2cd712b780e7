/* cmd_chat.c - a conversation at the terminal: line editing, /commands, answers as they come. */
#include <editline/readline.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/session.h"

enum { MAX_LINE = 1 << 20 };

typedef struct chat {
    rf_cli *c;
    rf_engine *en;
    rf_request_opts o; /* a template for every answer */
    char *system;      /* owned, NULL: none */
    char **texts;      /* [n] owned; user and assistant in turn */
    size_t n, cap;
    bool interactive, json, done, interrupted;
    rf_buf answer, out;
    rf_finish finish;
    rf_error error;
} chat;

/* ---- history of the conversation ---- */

static char *copy(const char *p, size_t n) {
    char *s = rf_alloc(n + 1, 1);
    if (s && n) memcpy(s, p, n);
    return s;
}

static rf_status push(chat *h, const char *p, size_t n, rf_error *e) {
    if (h->n == h->cap) {
        size_t cap = h->cap ? h->cap * 2 : 16;
        char **texts = rf_realloc(h->texts, h->cap, cap, sizeof *texts);
        if (!texts) return rf_fail_nomem(e, cap * sizeof *texts);
        h->texts = texts;
        h->cap = cap;
    }
    h->texts[h->n] = copy(p, n);
    if (!h->texts[h->n]) return rf_fail_nomem(e, n);
    h->n++;
    return RF_OK;
}

static void pop(chat *h) { rf_free(h->texts[--h->n]); }

/* Drops the oldest question and its answer. */
static void forget_oldest(chat *h) {
    rf_free(h->texts[0]);
    rf_free(h->texts[1]);
    h->n -= 2;
    memmove(h->texts, h->texts + 2, h->n * sizeof *h->texts);
}

static rf_status tokens_of(chat *h, rf_ids *ids, rf_error *e) {
    size_t n = 0, n_ids = 0;
    rf_message *m = rf_alloc(h->n + 1, sizeof *m);
    if (!m) return rf_fail_nomem(e, h->n);
    if (h->system) m[n++] = (rf_message){"system", h->system};
    for (size_t i = 0; i < h->n; i++)
        m[n++] = (rf_message){i % 2 ? "assistant" : "user", h->texts[i]};
    const char *format = rf_cli_str(h->c, RF_F_FORMAT);
    rf_text why;
    rf_status s = rf_session_error(
        rf_engine_chat_tokens(h->en, format, m, n, NULL, 0, &n_ids, &why), &why, e);
    int32_t *out = s == RF_OK ? rf_alloc(n_ids, sizeof *out) : NULL;
    if (s == RF_OK && !out) s = rf_fail_nomem(e, n_ids);
    if (s == RF_OK)
        s = rf_session_error(rf_engine_chat_tokens(h->en, format, m, n, out, n_ids, &n_ids, &why),
                             &why, e);
    for (size_t i = 0; s == RF_OK && i < n_ids; i++)
        rf_ids_push(ids, out[i]);
    rf_free(out);
    rf_free(m);
    return s == RF_OK && ids->failed ? rf_fail_nomem(e, n_ids) : s;
}

/* ---- answering ---- */

static void on_event(void *user, const rf_event *event) {
    chat *h = user;
    rf_buf_put(&h->answer, event->text, event->text_len);
    if (!h->json) {
        rf_buf_put(&h->out, event->text, event->text_len);
        if (!rf_cli_write(h->c, &h->out)) rf_engine_cancel(h->en, event->request);
    }
    h->finish = event->finish;
    if (event->finish == RF_FINISH_ERROR)
        rf_fail(&h->error, RF_EDEVICE, "%s", event->error ? event->error : "failed");
}

static void end_answer(chat *h) {
    if (h->json) {
        rf_buf_puts(&h->out, "{\"role\":\"assistant\",\"content\":");
        rf_buf_json_str(&h->out, rf_buf_str(&h->answer));
        rf_buf_puts(&h->out, "}\n");
    } else {
        bool ended = h->answer.len && h->answer.p[h->answer.len - 1] == '\n';
        if (!ended) rf_buf_putc(&h->out, '\n');
        if (h->interactive && h->finish == RF_FINISH_CANCELLED) rf_buf_puts(&h->out, "[stopped]\n");
        if (h->interactive && h->finish == RF_FINISH_LENGTH)
            rf_buf_puts(&h->out, "[cut off: -n sets how long an answer may be, -c the context]\n");
    }
    if (!rf_cli_write(h->c, &h->out)) h->done = true;
}

/* Queues the conversation.  Where it no longer fits the context, the oldest messages go, as many as
 * leave a quarter of the context for the answer. */
static rf_status submit(chat *h, uint64_t *id, rf_error *e) {
    rf_engine_info info;
    rf_engine_get_info(h->en, &info);
    rf_ids ids = {0};
    rf_text why;
    size_t n_forgotten = 0;
    rf_status s = tokens_of(h, &ids, e);
    while (s == RF_OK && h->n > 2 && ids.len > info.n_ctx - info.n_ctx / 4) {
        forget_oldest(h);
        n_forgotten += 2;
        ids.len = 0;
        s = tokens_of(h, &ids, e);
    }
    if (n_forgotten && h->interactive)
        fprintf(stderr, "[the context is full: forgot the %zu oldest messages]\n", n_forgotten);
    rf_request_opts o = h->o;
    o.tokens = ids.p;
    o.n_tokens = ids.len;
    o.on_event = on_event;
    o.user = h;
    if (s == RF_OK) s = rf_session_error(rf_engine_submit(h->en, &o, id, &why), &why, e);
    rf_ids_free(&ids);
    return s;
}

/* Answers the conversation, whose last message is the user's.  On failure that message is dropped,
 * so that the conversation can go on. */
static rf_status answer(chat *h, rf_error *e) {
    uint64_t id;
    rf_buf_clear(&h->answer);
    h->error = (rf_error){0};
    rf_cli_clear_interrupt();
    rf_status s = submit(h, &id, e);
    if (s == RF_OK) {
        while (rf_engine_step(h->en) > 0)
            if (rf_cli_interrupted()) rf_engine_cancel(h->en, id);
        h->interrupted = rf_cli_interrupted();
        rf_cli_clear_interrupt();
        end_answer(h);
        if (h->error.status != RF_OK) *e = h->error, s = e->status;
    }
    if (s == RF_OK) s = push(h, h->answer.p ? h->answer.p : "", h->answer.len, e);
    if (s != RF_OK) pop(h);
    h->o.sampling.seed++; /* another draw for the next answer */
    return s;
}

/* ---- /commands ---- */

static rf_status retry(chat *h, rf_error *e) {
    if (h->n < 2) return rf_fail(e, RF_EARG, "nothing to answer again yet");
    pop(h);
    return answer(h, e);
}

static void clear(chat *h) {
    while (h->n)
        pop(h);
}

static rf_status command(chat *h, const char *line, rf_error *e) {
    if (strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0) {
        h->done = true;
    } else if (strcmp(line, "/clear") == 0) {
        clear(h);
    } else if (strcmp(line, "/retry") == 0) {
        return retry(h, e);
    } else if (strncmp(line, "/system", 7) == 0 && (line[7] == ' ' || !line[7])) {
        const char *text = line + 7 + strspn(line + 7, " ");
        char *system = text[0] ? copy(text, strlen(text)) : NULL;
        if (text[0] && !system) return rf_fail_nomem(e, strlen(text));
        rf_free(h->system);
        h->system = system;
        clear(h);
    } else if (strcmp(line, "/help") == 0) {
        rf_buf_puts(&h->out,
                    "/clear        forget the conversation\n"
                    "/system TEXT  set the system prompt (none without TEXT) and start again\n"
                    "/retry        answer the last message again\n"
                    "/exit         end\n"
                    "Ctrl-C stops an answer.\n");
        rf_cli_write(h->c, &h->out);
    } else {
        return rf_fail(e, RF_EARG, "unknown command '%.40s'; /help lists them", line);
    }
    return RF_OK;
}

/* ---- reading lines ---- */

/* The next line without its newline, to be freed with free(); NULL at the end of input. */
static char *next_line(chat *h) {
    if (h->interactive) {
        char *line = readline("> ");
        if (!line && rf_cli_interrupted()) { /* Ctrl-C at the prompt: a fresh one */
            rf_cli_clear_interrupt();
            fputc('\n', stderr);
            return strdup("");
        }
        if (line && line[0]) add_history(line);
        return line;
    }
    char *line = NULL;
    size_t cap = 0;
    ssize_t n = getline(&line, &cap, stdin);
    if (n < 0) {
        h->interrupted = rf_cli_interrupted();
        free(line);
        return NULL;
    }
    if (n > 0 && line[n - 1] == '\n') line[n - 1] = 0;
    return line;
}

static rf_status take_line(chat *h, const char *line, rf_error *e) {
    size_t n = strlen(line);
    if (n > MAX_LINE)
        return rf_fail(e, RF_EARG, "the line has %zu bytes; at most %d are read", n, MAX_LINE);
    if (line[0] == '/') return command(h, line, e);
    if (n == 0) return RF_OK;
    RF_TRY(push(h, line, n, e));
    return answer(h, e);
}

static int talk(chat *h) {
    char *line;
    while (!h->done && (line = next_line(h)) != NULL) {
        rf_error e = {0};
        rf_status s = take_line(h, line, &e);
        free(line);
        int code = s == RF_OK ? RF_EXIT_OK : rf_cli_fail(h->c, &e);
        if (h->interactive) continue; /* at the terminal neither errors nor Ctrl-C end the talk */
        if (code != RF_EXIT_OK || h->interrupted) return code ? code : RF_EXIT_INTERRUPTED;
    }
    return !h->interactive && h->interrupted ? RF_EXIT_INTERRUPTED : RF_EXIT_OK;
}

static void greet(const chat *h) {
    rf_engine_info info;
    rf_engine_get_info(h->en, &info);
    fprintf(stderr, "%s on %s.  /help lists commands, Ctrl-D ends.\n",
            info.model_name[0] ? info.model_name : info.architecture, info.backend);
}

static rf_status open_chat(chat *h, rf_logit_bias **bias, rf_error *e) {
    const char *system = rf_cli_str(h->c, RF_F_SYSTEM);
    if (system && !(h->system = copy(system, strlen(system))))
        return rf_fail_nomem(e, strlen(system));
    RF_TRY(rf_session_request(h->c, &h->o, bias, e));
    RF_TRY(rf_session_open(h->c, 0, &h->en, e));
    size_t n;
    rf_text why;
    const rf_message probe = {"user",
                              "?"}; /* a wrong or missing chat format shows before the first line */
    return rf_session_error(
        rf_engine_chat_tokens(h->en, rf_cli_str(h->c, RF_F_FORMAT), &probe, 1, NULL, 0, &n, &why),
        &why, e);
}

int rf_cmd_chat(rf_cli *c) {
    chat h = {.c = c,
              .json = rf_cli_bool(c, RF_F_JSON),
              .interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    rf_logit_bias *bias = NULL;
    rf_error e = {0};
    int code;
    if (open_chat(&h, &bias, &e) != RF_OK) {
        code = rf_cli_fail(c, &e);
    } else {
        rf_cli_catch_interrupts();
        if (h.interactive) greet(&h);
        code = talk(&h);
    }
    clear(&h);
    rf_free(h.texts);
    rf_free(h.system);
    rf_free(bias);
    rf_buf_free(&h.answer);
    rf_buf_free(&h.out);
    rf_engine_close(h.en);
    return code;
}
