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

rf_status rf_prompter_tokens(const rf_prompter *p, const char *format, const rf_chat_message *m,
                             size_t n, rf_ids *ids, rf_error *e) {
    rf_chat_text text = {0};
    rf_status s = render(p, format, m, n, &text, e);
    if (s == RF_OK && needs_bos(p, &text)) rf_ids_push(ids, rf_tokenizer_bos(p->tokenizer));
    if (s == RF_OK) s = rf_chat_tokenize(p->tokenizer, &text, false, ids, e);
    if (s == RF_OK && ids->failed) s = rf_fail_nomem(e, ids->len * sizeof *ids->p);
    rf_chat_text_free(&text);
    return s;
}
