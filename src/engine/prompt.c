/* prompt.c - choosing the template or format, and the BOS in front. */
#include "engine/prompt.h"

#include <string.h>

#include "base/log.h"

static rf_status token_text(const rf_tokenizer *t, int32_t id, rf_buf *out) {
    return id == RF_TOKEN_NONE ? RF_OK : rf_token_bytes(t, id, true, out);
}

rf_status rf_prompter_open(rf_prompter *p, const rf_gguf *file, const rf_tokenizer *t,
                           rf_error *e) {
    rf_error own = {0};
    p->file = file;
    p->tokenizer = t;
    if (token_text(t, rf_tokenizer_bos(t), &p->bos) != RF_OK ||
        token_text(t, rf_tokenizer_eos(t), &p->eos) != RF_OK)
        return rf_fail_nomem(e, p->bos.len);
    rf_status s = rf_chat_template_open(&p->own, file, &own);
    if (s == RF_EFORMAT) {
        rf_log_write(RF_LOG_WARN, "%s; using a built-in chat format instead", own.text);
        return RF_OK;
    }
    if (s != RF_OK) *e = own;
    return s;
}

void rf_prompter_close(rf_prompter *p) {
    rf_jinja_free(p->own);
    rf_buf_free(&p->bos);
    rf_buf_free(&p->eos);
    *p = (rf_prompter){0};
}

static rf_status built_in(const rf_prompter *p, const char *name, const rf_chat_format **out,
                          rf_error *e) {
    if (name) {
        *out = rf_chat_format_by_name(rf_str_of(name));
        return *out ? RF_OK : rf_fail(e, RF_EARG, "there is no chat format '%.40s'", name);
    }
    RF_TRY(rf_chat_format_detect(out, p->file, e));
    if (*out) return RF_OK;
    return rf_fail(e, RF_EUNSUPPORTED,
                   "the model's chat template is %s; choose a chat format by name",
                   rf_gguf_find(p->file, "tokenizer.chat_template")
                       ? "broken, and not one of the built-in formats"
                       : "missing");
}

static rf_status render(const rf_prompter *p, const char *format, const rf_chat_message *m,
                        size_t n, rf_chat_text *text, rf_error *e) {
    if (!format && p->own) {
        const rf_chat_request r = {
            .add_generation_prompt = true,
            .bos_token = rf_buf_str(&p->bos),
            .eos_token = rf_buf_str(&p->eos),
        };
        return rf_chat_render_messages(p->own, m, n, &r, text, e);
    }
    const rf_chat_format *f = NULL;
    RF_TRY(built_in(p, format, &f, e));
    return rf_chat_render(f, m, n, true, text, e);
}

/* Templates usually write the first BOS themselves, the built-in formats never do. */
static bool needs_bos(const rf_prompter *p, const rf_chat_text *text) {
    if (!rf_tokenizer_adds_bos(p->tokenizer) || p->bos.len == 0) return false;
    return text->text.len < p->bos.len || memcmp(text->text.p, p->bos.p, p->bos.len) != 0;
}

static rf_status tokens_of(const rf_prompter *p, const rf_chat_text *text, rf_ids *ids,
                           rf_error *e) {
    if (needs_bos(p, text)) rf_ids_push(ids, rf_tokenizer_bos(p->tokenizer));
    rf_status s = rf_chat_tokenize(p->tokenizer, text, false, ids, e);
    return s == RF_OK && ids->failed ? rf_fail_nomem(e, ids->len * sizeof *ids->p) : s;
}

rf_status rf_prompter_tokens(const rf_prompter *p, const char *format, const rf_chat_message *m,
                             size_t n, rf_ids *ids, rf_error *e) {
    rf_chat_text text = {0};
    rf_status s = render(p, format, m, n, &text, e);
    if (s == RF_OK) s = tokens_of(p, &text, ids, e);
    rf_chat_text_free(&text);
    return s;
}

/* What a built-in format understands of a request: roles and texts. */
static rf_status render_plain(const rf_prompter *p, const char *format, const rf_chat_request *r,
                              rf_chat_text *text, rf_error *e) {
    const rf_chat_format *f = NULL;
    RF_TRY(built_in(p, format, &f, e));
    if (r->tools || r->documents)
        return rf_fail(e, RF_EUNSUPPORTED,
                       "tools and documents need the model's own chat template");
    if (rf_json_kind(r->messages) != RF_JSON_ARRAY)
        return rf_fail(e, RF_EARG, "messages: expected an array of objects");
    size_t n = rf_json_len(r->messages);
    rf_chat_message *m = rf_alloc(n, sizeof *m);
    if (!m) return rf_fail_nomem(e, n * sizeof *m);
    for (size_t i = 0; i < n; i++) {
        const rf_json *message = rf_json_at(r->messages, i);
        m[i] = (rf_chat_message){rf_json_str(rf_json_get(message, "role")),
                                 rf_json_str(rf_json_get(message, "content"))};
    }
    rf_status s = rf_chat_render(f, m, n, r->add_generation_prompt, text, e);
    rf_free(m);
    return s;
}

rf_status rf_prompter_request_tokens(const rf_prompter *p, const char *format,
                                     const rf_chat_request *r, rf_ids *ids, rf_error *e) {
    rf_chat_text text = {0};
    rf_chat_request with = *r;
    with.bos_token = rf_buf_str(&p->bos);
    with.eos_token = rf_buf_str(&p->eos);
    rf_status s = !format && p->own ? rf_chat_render_template(p->own, &with, &text, e)
                                    : render_plain(p, format, r, &text, e);
    if (s == RF_OK) s = tokens_of(p, &text, ids, e);
    rf_chat_text_free(&text);
    return s;
}
