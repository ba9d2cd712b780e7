/* generate.c - the routes that generate: requests of every API as jobs of their model. */
#include <string.h>

#include "server/routes.h"
#include "server/texts.h"
#include "server/translate.h"
#include "server/writers.h"

/* How the answer will be read: with control tokens where its marks are some, unless the caller wants
 * to see them himself. */
static bool prepare_reply(const rf_slot *s, rf_params *p, const rf_ids *ids, rf_api_error *e) {
    size_t n = ids->len < 16 ? ids->len : 16;
    rf_buf text = {0};
    p->reads_reply = !p->with_special;
    if (!p->reads_reply || n == 0) return true;
    p->with_special = !p->must_call && rf_reply_needs_special(&s->format, p->tools.len > 0);
    bool ok = rf_ids_text(s, ids->p + ids->len - n, n, true, &text, e);
    size_t len = text.len < sizeof p->prompt_end ? text.len : sizeof p->prompt_end - 1;
    if (ok && len) memcpy(p->prompt_end, text.p + text.len - len, len);
    rf_buf_free(&text);
    return ok;
}

static bool prepare(const rf_slot *s, unsigned kind, rf_params *p, rf_ids *ids, rf_api_error *e) {
    if (s->info.is_encoder)
        return rf_api_fail(e, 400, "unsupported_model", "model",
                           "%s is an encoder, which cannot continue a text; POST %s", s->o.name,
                           s->info.pooling == RF_POOLING_RANK ? "/v1/rerank" : "/v1/embeddings");
    if (!rf_params_compile(p, s->engine, e)) return false;
    if (kind == RF_FOR_CHAT)
        return rf_chat_ids(s, p, &ids[0], e) && prepare_reply(s, p, &ids[0], e);
    for (size_t i = 0; i < p->n_prompts; i++)
        if (!rf_prompt_ids(s, &p->prompts[i], true, &ids[i], e)) return false;
    return true;
}

/* r: the request as it came; body: what of it asks for answers. */
static void generate_with(rf_server *s, const rf_http_request *r, rf_str body, unsigned kind,
                          const rf_writer *writer, bool force_stream, rf_outbox *o) {
    rf_api_error e = {.style = writer->style};
    rf_params p;
    rf_ids *ids = NULL;
    rf_slot *slot = NULL;
    bool ok =
        rf_params_parse(&p, kind, body, &e) && rf_models_hold(s->models, p.model, r, o, &slot, &e);
    if (ok && slot) ids = rf_alloc(p.n_prompts, sizeof *ids);
    if (ok && slot && !ids) ok = rf_api_fail_status(&e, RF_ENOMEM, "out of memory");
    p.stream = p.stream || force_stream;
    if (ok && slot && prepare(slot, kind, &p, ids, &e))
        rf_jobs_start(slot->jobs, writer, &(rf_origin){r->id, r->caller, r->trace}, &p, ids, o, &e);
    else
        rf_free_request(&p, ids);
    rf_models_release(s->models, slot);
    if (e.status) rf_api_answer_error(o, &e);
}

void rf_route_chat(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    generate_with(s, r, r->body, RF_FOR_CHAT, &rf_writer_chat, false, o);
}

void rf_route_completion(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    generate_with(s, r, r->body, RF_FOR_COMPLETION, &rf_writer_completion, false, o);
}

void rf_route_generate(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    generate_with(s, r, r->body, RF_FOR_NATIVE, &rf_writer_native, false, o);
}

void rf_route_generate_stream(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    generate_with(s, r, r->body, RF_FOR_NATIVE, &rf_writer_native, true, o);
}

/* ---- conversations in other APIs' words ---- */

/* The request with its body as one for chat; chat->body is freed by the caller. */
static bool translate(const rf_http_request *r, rf_translate_fn fn, rf_buf *chat, rf_api_error *e) {
    rf_json *body;
    bool ok = rf_params_read_object(&body, r->body, e) && fn(body, chat, e);
    rf_json_free(body);
    if (ok && chat->failed) return rf_api_fail_status(e, RF_ENOMEM, "out of memory");
    return ok;
}

static void translated(rf_server *s, const rf_http_request *r, rf_translate_fn fn,
                       const rf_writer *writer, rf_outbox *o) {
    rf_api_error e = {.style = rf_api_style_of(r->path)};
    rf_buf chat_body = {0};
    if (translate(r, fn, &chat_body, &e)) {
        generate_with(s, r, rf_buf_str(&chat_body), RF_FOR_CHAT, writer, false, o);
    } else {
        rf_api_answer_error(o, &e);
    }
    rf_buf_free(&chat_body);
}

void rf_route_messages(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    translated(s, r, rf_messages_to_chat, &rf_writer_messages, o);
}

void rf_route_responses(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    translated(s, r, rf_responses_to_chat, &rf_writer_responses, o);
}

void rf_route_count_tokens(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    rf_api_error e = {.style = rf_api_style_of(r->path)};
    rf_params p = {0};
    rf_ids ids = {0};
    rf_slot *slot = NULL;
    rf_buf chat_body = {0}, out = {0};
    if (translate(r, rf_count_to_chat, &chat_body, &e) &&
        rf_params_parse(&p, RF_FOR_CHAT, rf_buf_str(&chat_body), &e) &&
        rf_models_hold(s->models, p.model, r, o, &slot, &e) && slot &&
        rf_chat_ids(slot, &p, &ids, &e)) {
        rf_buf_printf(&out, "{\"input_tokens\":%zu}", ids.len);
        rf_answer_json(o, 200, &out);
    }
    if (e.status) rf_api_answer_error(o, &e);
    rf_models_release(s->models, slot);
    rf_ids_free(&ids);
    rf_params_free(&p);
    rf_buf_free(&chat_body);
}
