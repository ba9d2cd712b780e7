/* texts.c - tokenizing with a buffer that grows until the ids fit. */
#include "server/texts.h"

typedef int (*ids_fn)(const void *user, int32_t *out, size_t cap, size_t *n, rf_text *why);

/* Calls fn with room enough. */
static bool get_ids(ids_fn fn, const void *user, size_t guess, rf_ids *ids, rf_api_error *e) {
    rf_text why;
    size_t n = guess, cap = 0;
    int status = ROCMFORGE_OK;
    while (status == ROCMFORGE_OK && n > cap) {
        rf_ids_free(ids);
        ids->p = rf_alloc(n, sizeof *ids->p);
        if (!ids->p) return rf_api_fail_status(e, RF_ENOMEM, "out of memory");
        ids->cap = cap = n;
        status = fn(user, ids->p, cap, &n, &why);
    }
    if (status != ROCMFORGE_OK) return rf_api_fail_status(e, (rf_status)status, why.text);
    ids->len = n;
    return true;
}

typedef struct text_request {
    const rf_engine *engine;
    rf_str text;
    bool add_special, parse_special;
} text_request;

static int ids_of_text(const void *user, int32_t *out, size_t cap, size_t *n, rf_text *why) {
    const text_request *t = user;
    return rf_engine_tokenize(t->engine, t->text.p, t->text.len, t->add_special, t->parse_special,
                              out, cap, n, why);
}

typedef struct chat_request {
    const rf_engine *engine;
    rf_conversation conversation;
} chat_request;

static int ids_of_chat(const void *user, int32_t *out, size_t cap, size_t *n, rf_text *why) {
    const chat_request *c = user;
    return rf_engine_conversation_tokens(c->engine, &c->conversation, out, cap, n, why);
}

static bool ids_of_messages(const rf_slot *s, const rf_params *p, rf_str messages, rf_ids *ids,
                            rf_api_error *e) {
    const chat_request c = {.engine = s->engine,
                            .conversation = {.format = s->o.chat_format,
                                             .messages = messages.p,
                                             .messages_len = messages.len,
                                             .tools = p->tools.p,
                                             .tools_len = p->tools.len,
                                             .vars = p->vars.p,
                                             .vars_len = p->vars.len,
                                             .is_open = !p->add_generation_prompt}};
    return get_ids(ids_of_chat, &c, messages.len + p->tools.len + 256, ids, e);
}

/* Some templates tell calls by content that is null, others cannot read null: these get empty text. */
bool rf_chat_ids(const rf_slot *s, const rf_params *p, rf_ids *ids, rf_api_error *e) {
    rf_api_error first = {.style = e->style}, second = {0};
    rf_buf text = {0};
    bool ok = ids_of_messages(s, p, p->messages, ids, &first);
    if (!ok && first.status == 400 &&
        rf_params_put_messages(&text, rf_json_get(p->json, "messages"), "\"\"", &second) &&
        !text.failed)
        ok = ids_of_messages(s, p, rf_buf_str(&text), ids, &second);
    if (!ok) *e = first;
    rf_buf_free(&text);
    return ok;
}

bool rf_text_ids(const rf_slot *s, rf_str text, bool add_special, bool parse_special, rf_ids *ids,
                 rf_api_error *e) {
    const text_request t = {s->engine, text, add_special, parse_special};
    return get_ids(ids_of_text, &t, text.len + 16, ids, e);
}

bool rf_prompt_ids(const rf_slot *s, const rf_prompt *p, bool parse_special, rf_ids *ids,
                   rf_api_error *e) {
    if (!p->ids) return rf_text_ids(s, p->text, true, parse_special, ids, e);
    for (size_t i = 0; i < p->n_ids; i++)
        rf_ids_push(ids, p->ids[i]);
    return ids->failed ? rf_api_fail_status(e, RF_ENOMEM, "out of memory") : true;
}

bool rf_ids_text(const rf_slot *s, const int32_t *ids, size_t n, bool special, rf_buf *out,
                 rf_api_error *e) {
    rf_text why;
    size_t len = 0;
    int status = rf_engine_detokenize(s->engine, ids, n, special, NULL, 0, &len, &why);
    char *text = status == ROCMFORGE_OK ? rf_alloc(len, 1) : NULL;
    if (status == ROCMFORGE_OK && !text) return rf_api_fail_status(e, RF_ENOMEM, "out of memory");
    if (text) status = rf_engine_detokenize(s->engine, ids, n, special, text, len, &len, &why);
    if (text) rf_buf_put(out, text, len);
    rf_free(text);
    return status == ROCMFORGE_OK ? true : rf_api_fail_status(e, (rf_status)status, why.text);
}
