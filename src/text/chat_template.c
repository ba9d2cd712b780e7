/* chat_template.c - a request as the variables of a template, and its result as pieces. */
#include "text/chat_template.h"

#include <string.h>

#define MAX_KWARGS 64
static const char *const own_vars[] = {
    "messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"};

rf_status rf_chat_template_open(rf_jinja **out, const rf_gguf *g, rf_error *e) {
    *out = NULL;
    rf_str text = {0};
    bool found;
    RF_TRY(rf_gguf_get_str(g, "tokenizer.chat_template", &text, &found, e));
    return found ? rf_jinja_parse(out, text, e) : RF_OK;
}

static rf_status add_piece(rf_chat_text *out, size_t start, size_t len, bool is_markup) {
    rf_chat_piece *last = out->n_pieces ? &out->pieces[out->n_pieces - 1] : NULL;
    if (last && last->is_markup == is_markup) {
        last->len += len;
        return RF_OK;
    }
    if (out->n_pieces == out->cap_pieces) {
        size_t cap = out->cap_pieces ? out->cap_pieces * 2 : 16;
        rf_chat_piece *grown = rf_realloc(out->pieces, out->cap_pieces, cap, sizeof *grown);
        if (!grown) return RF_ENOMEM;
        out->pieces = grown;
        out->cap_pieces = cap;
    }
    out->pieces[out->n_pieces++] = (rf_chat_piece){start, len, is_markup};
    return RF_OK;
}

static rf_status add_pieces(rf_chat_text *out, const rf_jinja_text *from) {
    size_t base = out->text.len, n = from->text.len;
    const char *marks = from->from_input.p;
    rf_buf_put(&out->text, from->text.p, n);
    if (out->text.failed) return RF_ENOMEM;
    for (size_t at = 0, end; at < n; at = end) {
        for (end = at + 1; end < n && marks[end] == marks[at];) {
            end++;
        }
        RF_TRY(add_piece(out, base + at, end - at, !marks[at]));
    }
    return RF_OK;
}

static bool is_own(const char *name) {
    for (size_t i = 0; i < RF_COUNT(own_vars); i++) {
        if (strcmp(name, own_vars[i]) == 0) return true;
    }
    return false;
}

static rf_status render(const rf_jinja *t, const rf_chat_request *r, rf_chat_text *out,
                        rf_error *e) {
    rf_jinja_var vars[MAX_KWARGS + RF_COUNT(own_vars)] = {
        {.name = "messages", .value = r->messages},
        {.name = "tools", .value = r->tools},
        {.name = "documents", .value = r->documents},
        {.name = "add_generation_prompt", .truth = &r->add_generation_prompt},
        {.name = "bos_token", .text = &r->bos_token, .is_markup = true},
        {.name = "eos_token", .text = &r->eos_token, .is_markup = true},
    };
    rf_jinja_input in = {.vars = vars, .n_vars = RF_COUNT(own_vars), .now = r->now};
    for (void *it = r->kwargs ? rf_json_iter(r->kwargs) : NULL; it;
         it = rf_json_iter_next(r->kwargs, it)) {
        if (is_own(rf_json_iter_key(it))) continue;
        if (in.n_vars == RF_COUNT(vars)) {
            return rf_fail(e, RF_EARG, "chat template: more than the %d variables allowed",
                           MAX_KWARGS);
        }
        vars[in.n_vars++] =
            (rf_jinja_var){.name = rf_json_iter_key(it), .value = rf_json_iter_value(it)};
    }
    rf_jinja_text text = {0};
    rf_status s = rf_jinja_render(t, &in, &text, e);
    if (s == RF_OK) {
        s = add_pieces(out, &text);
        if (s != RF_OK) s = rf_fail_nomem(e, text.text.len);
    }
    rf_jinja_text_free(&text);
    return s;
}

rf_status rf_chat_render_template(const rf_jinja *t, const rf_chat_request *r, rf_chat_text *out,
                                  rf_error *e) {
    if (!r->messages || rf_json_kind(r->messages) != RF_JSON_ARRAY) {
        return rf_fail(e, RF_EARG, "chat template: messages: expected an array of objects");
    }
    if (r->kwargs && rf_json_kind(r->kwargs) != RF_JSON_OBJECT) {
        return rf_fail(e, RF_EARG, "chat template: variables: expected an object");
    }
    return render(t, r, out, e);
}

rf_status rf_chat_render_messages(const rf_jinja *t, const rf_chat_message *m, size_t n,
                                  const rf_chat_request *r, rf_chat_text *out, rf_error *e) {
    rf_buf text = {0};
    rf_buf_putc(&text, '[');
    for (size_t i = 0; i < n; i++) {
        rf_buf_puts(&text, i ? ", {\"role\": " : "{\"role\": ");
        rf_buf_json_str(&text, m[i].role);
        rf_buf_puts(&text, ", \"content\": ");
        rf_buf_json_str(&text, m[i].content);
        rf_buf_putc(&text, '}');
    }
    rf_buf_putc(&text, ']');
    rf_json *messages = NULL;
    rf_status s =
        text.failed ? rf_fail_nomem(e, text.len) : rf_json_parse(&messages, rf_buf_str(&text), e);
    rf_buf_free(&text);
    if (s != RF_OK) return s;
    rf_chat_request with = *r;
    with.messages = messages;
    s = rf_chat_render_template(t, &with, out, e);
    rf_json_free(messages);
    return s;
}
