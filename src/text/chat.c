/* chat.c - the table of chat formats and what makes text of it.
 *
 * A format is data: what stands before and after each role's text, where a system message goes, and
 * by which marks its template is known.  The first BOS is not written: it is the tokenizer's. */
#include "text/chat.h"

#include <string.h>

typedef struct frame {
    const char *before, *after;
} frame;

typedef enum system_place {
    SYSTEM_OWN,     /* a message like the others */
    SYSTEM_IN_USER, /* inside the user message that follows */
} system_place;

struct rf_chat_format {
    const char *name;
    frame system, user, assistant;
    const char *reply;      /* opens the answer to be generated */
    const char *later_user; /* before every user message but the first */
    system_place place;
    bool always_system;    /* an empty one where the conversation has none */
    bool trims;            /* contents lose the white space around them */
    const char *marks[4];  /* all are in the format's templates; none: never detected */
    const char *absent[8]; /* none of them is */
};

#define DS_USER "<\xEF\xBD\x9CUser\xEF\xBD\x9C>"
#define DS_ASSISTANT \
    "<\xEF\xBD\x9C"  \
    "Assistant\xEF\xBD\x9C>"
#define DS_END      \
    "<\xEF\xBD\x9C" \
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"

static const rf_chat_format formats[] = {
    {.name = "chatml",
     .system = {"<|im_start|>system\n", "<|im_end|>\n"},
     .user = {"<|im_start|>user\n", "<|im_end|>\n"},
     .assistant = {"<|im_start|>assistant\n", "<|im_end|>\n"},
     .reply = "<|im_start|>assistant\n",
     .marks = {"<|im_start|>", "<|im_end|>"},
     .absent = {"<|im_middle|>", "<|im_sep|>"}},
    {.name = "llama2",
     .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     .user = {"[INST] ", " [/INST]"},
     .assistant = {" ", " </s>"},
     .later_user = "<s>",
     .place = SYSTEM_IN_USER,
     .trims = true,
     .marks = {"[INST]", "<<SYS>>"}},
    {.name = "llama3",
     .system = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
     .user = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
     .assistant = {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
     .reply = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .trims = true,
     .marks = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .absent = {">>>", "Cutting Knowledge Date"}},
    {.name = "llama3.1", /* the dates are those that its template falls back on */
     .system = {"<|start_header_id|>system<|end_header_id|>\n\n"
                "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
                "<|eot_id|>"},
     .user = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
     .assistant = {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
     .reply = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .always_system = true,
     .trims = true,
     .marks = {"<|start_header_id|>", "Cutting Knowledge Date: December 2023", "26 Jul 2024"}},
    {.name = "mistral-v7",
     .system = {"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"},
     .user = {"[INST]", "[/INST]"},
     .assistant = {"", "</s>"},
     .marks = {"[INST]", "[SYSTEM_PROMPT]"}},
    {.name = "mistral",
     .system = {"", "\n\n"},
     .user = {"[INST] ", " [/INST]"},
     .assistant = {" ", "</s>"},
     .place = SYSTEM_IN_USER,
     .marks = {"[INST]", "[/INST]"},
     .absent = {"<<SYS>>", "[SYSTEM_PROMPT]"}},
    {.name = "phi3",
     .system = {"<|system|>\n", "<|end|>\n"},
     .user = {"<|user|>\n", "<|end|>\n"},
     .assistant = {"<|assistant|>\n", "<|end|>\n"},
     .reply = "<|assistant|>\n",
     .marks = {"<|user|>", "<|assistant|>", "<|end|>"},
     .absent = {"[gMASK]"}},
    {.name = "zephyr",
     .system = {"<|system|>\n", "</s>\n"},
     .user = {"<|user|>\n", "</s>\n"},
     .assistant = {"<|assistant|>\n", "</s>\n"},
     .reply = "<|assistant|>\n",
     .marks = {"<|user|>", "<|assistant|>", "eos_token"},
     .absent = {"<|end|>", "[gMASK]"}},
    {.name = "gemma",
     .system = {"", "\n\n"},
     .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
     .assistant = {"<start_of_turn>model\n", "<end_of_turn>\n"},
     .reply = "<start_of_turn>model\n",
     .place = SYSTEM_IN_USER,
     .trims = true,
     .marks = {"<start_of_turn>", "<end_of_turn>"}},
    {.name = "deepseek",
     .system = {"", ""},
     .user = {DS_USER, ""},
     .assistant = {DS_ASSISTANT, DS_END},
     .reply = DS_ASSISTANT,
     .marks = {DS_USER, DS_ASSISTANT},
     .absent = {"think>"}},
    {.name = "deepseek-r1", /* its answers open with their reasoning */
     .system = {"", ""},
     .user = {DS_USER, ""},
     .assistant = {DS_ASSISTANT, DS_END},
     .reply = DS_ASSISTANT "<think>\n",
     .marks = {DS_USER, DS_ASSISTANT "<think>\\n'}}"}},
    {.name = "plain",
     .system = {"", "\n\n"},
     .user = {"User: ", "\n"},
     .assistant = {"Assistant: ", "\n"},
     .reply = "Assistant:"},
};

const char *rf_chat_format_name(const rf_chat_format *f) { return f->name; }

const rf_chat_format *rf_chat_format_by_name(rf_str name) {
    for (size_t i = 0; i < RF_COUNT(formats); i++) {
        if (rf_str_is(name, formats[i].name)) return &formats[i];
    }
    return NULL;
}

size_t rf_chat_format_count(void) { return RF_COUNT(formats); }

const rf_chat_format *rf_chat_format_at(size_t i) {
    return i < RF_COUNT(formats) ? &formats[i] : NULL;
}

static bool holds(rf_str text, const char *mark) {
    return memmem(text.p, text.len, mark, strlen(mark)) != NULL;
}

static bool matches(const rf_chat_format *f, rf_str text) {
    for (const char *const *mark = f->marks; *mark; mark++) {
        if (!holds(text, *mark)) return false;
    }
    for (const char *const *mark = f->absent; *mark; mark++) {
        if (holds(text, *mark)) return false;
    }
    return f->marks[0] != NULL;
}

rf_status rf_chat_format_detect(const rf_chat_format **out, const rf_gguf *g, rf_error *e) {
    *out = NULL;
    rf_str text = {0};
    bool found;
    RF_TRY(rf_gguf_get_str(g, "tokenizer.chat_template", &text, &found, e));
    for (size_t i = 0; found && i < RF_COUNT(formats) && !*out; i++) {
        if (matches(&formats[i], text)) *out = &formats[i];
    }
    return RF_OK;
}

/* Appends s, lengthening the last piece where it is of the same sort. */
static rf_status put(rf_chat_text *out, rf_str s, bool is_markup) {
    if (s.len == 0) return RF_OK;
    rf_chat_piece *last = out->n_pieces ? &out->pieces[out->n_pieces - 1] : NULL;
    if (!last || last->is_markup != is_markup) {
        if (out->n_pieces == out->cap_pieces) {
            size_t cap = out->cap_pieces ? out->cap_pieces * 2 : 16;
            rf_chat_piece *grown = rf_realloc(out->pieces, out->cap_pieces, cap, sizeof *grown);
            if (!grown) return RF_ENOMEM;
            out->pieces = grown;
            out->cap_pieces = cap;
        }
        last = &out->pieces[out->n_pieces++];
        *last = (rf_chat_piece){.start = out->text.len, .is_markup = is_markup};
    }
    rf_buf_put(&out->text, s.p, s.len);
    last->len += s.len;
    return out->text.failed ? RF_ENOMEM : RF_OK;
}

static rf_status put_markup(rf_chat_text *out, const char *s) {
    return s ? put(out, rf_str_of(s), true) : RF_OK;
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static rf_status put_content(const rf_chat_format *f, rf_str s, rf_chat_text *out) {
    while (f->trims && s.len && is_space(s.p[0])) {
        s.p++;
        s.len--;
    }
    while (f->trims && s.len && is_space(s.p[s.len - 1])) {
        s.len--;
    }
    return put(out, s, false);
}

static rf_status put_framed(const rf_chat_format *f, frame around, rf_str content,
                            rf_chat_text *out) {
    RF_TRY(put_markup(out, around.before));
    RF_TRY(put_content(f, content, out));
    return put_markup(out, around.after);
}

static rf_status put_user(const rf_chat_format *f, const rf_str *system, rf_str content,
                          bool is_first, rf_chat_text *out) {
    if (!is_first) RF_TRY(put_markup(out, f->later_user));
    RF_TRY(put_markup(out, f->user.before));
    if (system) RF_TRY(put_framed(f, f->system, *system, out));
    RF_TRY(put_content(f, content, out));
    return put_markup(out, f->user.after);
}

static rf_status render(const rf_chat_format *f, const rf_chat_message *m, size_t n,
                        bool add_assistant, rf_chat_text *out, rf_error *e) {
    const rf_str *system = NULL; /* waits for the user message that it goes into */
    bool is_first = true;
    if (f->always_system && (n == 0 || !rf_str_is(m[0].role, "system"))) {
        RF_TRY(put_framed(f, f->system, (rf_str){"", 0}, out));
    }
    for (size_t i = 0; i < n; i++) {
        if (rf_str_is(m[i].role, "system")) {
            if (f->place == SYSTEM_OWN) {
                RF_TRY(put_framed(f, f->system, m[i].content, out));
            } else if (system) {
                return rf_fail(e, RF_EARG, "message %zu: a second system message in a row", i);
            } else {
                system = &m[i].content;
            }
        } else if (rf_str_is(m[i].role, "user")) {
            RF_TRY(put_user(f, system, m[i].content, is_first, out));
            system = NULL;
            is_first = false;
        } else if (rf_str_is(m[i].role, "assistant")) {
            RF_TRY(put_framed(f, f->assistant, m[i].content, out));
        } else {
            return rf_fail(e, RF_EARG,
                           "message %zu: role \"%.*s\": expected system, user or assistant", i,
                           RF_STR_ARG(m[i].role));
        }
    }
    if (system) {
        return rf_fail(e, RF_EARG,
                       "chat format %s puts a system message into the next user message, and none "
                       "follows",
                       f->name);
    }
    return add_assistant ? put_markup(out, f->reply) : RF_OK;
}

rf_status rf_chat_render(const rf_chat_format *f, const rf_chat_message *m, size_t n,
                         bool add_assistant, rf_chat_text *out, rf_error *e) {
    rf_status s = render(f, m, n, add_assistant, out, e);
    return s == RF_ENOMEM ? rf_fail_nomem(e, out->text.len) : s;
}

void rf_chat_text_free(rf_chat_text *t) {
    rf_buf_free(&t->text);
    rf_free(t->pieces);
    *t = (rf_chat_text){0};
}
