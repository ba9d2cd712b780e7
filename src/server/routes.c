/* routes.c - the table of routes, who may use them, and what each does. */
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "server/server.h"
#include "server/translate.h"
#include "server/writers.h"

/* ---- helpers ---- */

static void answer_json(rf_outbox *o, int status, rf_buf *body) {
    rf_api_answer(o, status, "application/json", body);
}

static rf_buf text_of(const char *json) {
    rf_buf b = {0};
    rf_buf_puts(&b, json);
    return b;
}

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

static bool ids_of_messages(rf_server *s, const rf_params *p, rf_str messages, rf_ids *ids,
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
static bool chat_ids(rf_server *s, const rf_params *p, rf_ids *ids, rf_api_error *e) {
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

static bool prompt_ids(rf_server *s, const rf_prompt *p, bool parse_special, rf_ids *ids,
                       rf_api_error *e) {
    if (!p->ids) {
        const text_request t = {s->engine, p->text, true, parse_special};
        return get_ids(ids_of_text, &t, p->text.len + 16, ids, e);
    }
    for (size_t i = 0; i < p->n_ids; i++)
        rf_ids_push(ids, p->ids[i]);
    return ids->failed ? rf_api_fail_status(e, RF_ENOMEM, "out of memory") : true;
}

static bool text_of_ids(rf_server *s, const int32_t *ids, size_t n, bool special, rf_buf *out,
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

static bool check_model(const rf_server *s, rf_str model, rf_api_error *e) {
    if (model.len == 0 || rf_str_is(model, s->o.model)) return true;
    return rf_api_fail(e, 404, "model_not_found", "model",
                       "there is no model '%.*s' here; this server has '%s'",
                       (int)(model.len > 80 ? 80 : model.len), model.p, s->o.model);
}

/* ---- generation ---- */

/* How the answer will be read: with control tokens where its marks are some, unless the caller wants
 * to see them himself. */
static bool prepare_reply(rf_server *s, rf_params *p, const rf_ids *ids, rf_api_error *e) {
    size_t n = ids->len < 16 ? ids->len : 16;
    rf_buf text = {0};
    p->reads_reply = !p->with_special;
    if (!p->reads_reply || n == 0) return true;
    p->with_special = !p->must_call && rf_reply_needs_special(&s->format, p->tools.len > 0);
    bool ok = text_of_ids(s, ids->p + ids->len - n, n, true, &text, e);
    size_t len = text.len < sizeof p->prompt_end ? text.len : sizeof p->prompt_end - 1;
    if (ok && len) memcpy(p->prompt_end, text.p + text.len - len, len);
    rf_buf_free(&text);
    return ok;
}

static bool prepare(rf_server *s, unsigned kind, rf_params *p, rf_ids *ids, rf_api_error *e) {
    if (!check_model(s, p->model, e)) return false;
    if (s->info.is_encoder)
        return rf_api_fail(e, 400, "unsupported_model", "model",
                           "%s is an encoder, which cannot continue a text; POST %s", s->o.model,
                           s->info.pooling == RF_POOLING_RANK ? "/v1/rerank" : "/v1/embeddings");
    if (!rf_params_compile(p, s->engine, e)) return false;
    if (kind == RF_FOR_CHAT) return chat_ids(s, p, &ids[0], e) && prepare_reply(s, p, &ids[0], e);
    for (size_t i = 0; i < p->n_prompts; i++)
        if (!prompt_ids(s, &p->prompts[i], true, &ids[i], e)) return false;
    return true;
}

static void free_request(rf_params *p, rf_ids *ids) {
    for (size_t i = 0; ids && i < p->n_prompts; i++)
        rf_ids_free(&ids[i]);
    rf_free(ids);
    rf_params_free(p);
}

static void generate_with(rf_server *s, const rf_http_request *r, unsigned kind,
                          const rf_writer *writer, bool force_stream, rf_outbox *o) {
    rf_api_error e = {.style = writer->style};
    rf_params p;
    rf_ids *ids = NULL;
    bool ok = rf_params_parse(&p, kind, r->body, &e);
    if (ok) ids = rf_alloc(p.n_prompts, sizeof *ids);
    if (ok && !ids) ok = rf_api_fail_status(&e, RF_ENOMEM, "out of memory");
    p.stream = p.stream || force_stream;
    if (ok && prepare(s, kind, &p, ids, &e)) {
        rf_jobs_start(s->jobs, writer, r->id, r->caller, &p, ids, o, &e);
    } else {
        free_request(&p, ids);
    }
    if (e.status) rf_api_answer_error(o, &e);
}

static void chat(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    generate_with(s, r, RF_FOR_CHAT, &rf_writer_chat, false, o);
}

static void completion(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    generate_with(s, r, RF_FOR_COMPLETION, &rf_writer_completion, false, o);
}

static void generate(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    generate_with(s, r, RF_FOR_NATIVE, &rf_writer_native, false, o);
}

static void generate_stream(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    generate_with(s, r, RF_FOR_NATIVE, &rf_writer_native, true, o);
}

/* ---- conversations in other APIs' words ---- */

rf_api_style rf_routes_style(rf_str path) {
    return rf_str_starts(path, "/v1/messages") ? RF_API_ANTHROPIC : RF_API_OPENAI;
}

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
    rf_api_error e = {.style = rf_routes_style(r->path)};
    rf_buf chat_body = {0};
    if (translate(r, fn, &chat_body, &e)) {
        rf_http_request as_chat = *r;
        as_chat.body = rf_buf_str(&chat_body);
        generate_with(s, &as_chat, RF_FOR_CHAT, writer, false, o);
    } else {
        rf_api_answer_error(o, &e);
    }
    rf_buf_free(&chat_body);
}

static void messages(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    translated(s, r, rf_messages_to_chat, &rf_writer_messages, o);
}

static void responses(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    translated(s, r, rf_responses_to_chat, &rf_writer_responses, o);
}

static void count_tokens(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    rf_api_error e = {.style = rf_routes_style(r->path)};
    rf_params p = {0};
    rf_ids ids = {0};
    rf_buf chat_body = {0}, out = {0};
    if (translate(r, rf_count_to_chat, &chat_body, &e) &&
        rf_params_parse(&p, RF_FOR_CHAT, rf_buf_str(&chat_body), &e) &&
        check_model(s, p.model, &e) && chat_ids(s, &p, &ids, &e)) {
        rf_buf_printf(&out, "{\"input_tokens\":%zu}", ids.len);
        answer_json(o, 200, &out);
    } else {
        rf_api_answer_error(o, &e);
    }
    rf_ids_free(&ids);
    rf_params_free(&p);
    rf_buf_free(&chat_body);
}

/* ---- vectors and scores ---- */

enum { MAX_FLOATS = 1 << 22 }; /* of one answer */

static bool check_embedding(const rf_server *s, const rf_params *p, rf_api_error *e) {
    size_t size = rf_engine_embed_size(s->engine, RF_POOLING_DEFAULT);
    if (!check_model(s, p->model, e)) return false;
    if (s->info.pooling == RF_POOLING_RANK)
        return rf_api_fail(e, 400, "unsupported_model", "model",
                           "%s is a reranker and gives scores, not vectors; POST /v1/rerank",
                           s->o.model);
    if (p->dimensions && (size_t)p->dimensions != size)
        return rf_api_fail(e, 400, "unsupported_value", "dimensions",
                           "dimensions is %d; this model's vectors have %zu, and are not cut",
                           p->dimensions, size);
    if (p->n_prompts <= MAX_FLOATS / size) return true;
    return rf_api_fail(e, 400, "invalid_value", "input",
                       "%zu texts with vectors of %zu floats are over the limit of %d floats",
                       p->n_prompts, size, MAX_FLOATS);
}

/* The engine would refuse these too, but later.  field: whose text i is. */
static bool check_length(const rf_server *s, const char *field, size_t i, const rf_ids *ids,
                         rf_api_error *e) {
    if (ids->len == 0)
        return rf_api_fail(e, 400, "invalid_value", field, "text %zu has no tokens", i);
    if (ids->len > s->info.n_ctx)
        return rf_api_fail(e, 400, "context_length_exceeded", field,
                           "text %zu has %zu tokens; the model takes %u", i, ids->len,
                           s->info.n_ctx);
    for (size_t k = 0; k < ids->len; k++)
        if (ids->p[k] < 0 || (uint32_t)ids->p[k] >= s->info.n_vocab)
            return rf_api_fail(e, 400, "invalid_value", field,
                               "token %zu of text %zu is %d, not below the vocabulary's %u", k, i,
                               ids->p[k], s->info.n_vocab);
    return true;
}

static bool embedding_ids(rf_server *s, const rf_params *p, rf_ids *ids, rf_api_error *e) {
    if (!check_embedding(s, p, e)) return false;
    for (size_t i = 0; i < p->n_prompts; i++)
        if (!prompt_ids(s, &p->prompts[i], false, &ids[i], e) ||
            !check_length(s, "input", i, &ids[i], e))
            return false;
    return true;
}

/* Whether a pair has its separator twice: what RoBERTa's kin, whose texts begin with <s>, learned. */
static bool doubles_separator(const rf_server *s, int32_t first) {
    char name[8];
    size_t n = 0;
    rf_engine_token_bytes(s->engine, first, name, sizeof name, &n, NULL);
    return n <= sizeof name && rf_str_is((rf_str){name, n}, "<s>");
}

/* Query and document as one text: [CLS] query [SEP] document [SEP]. */
static bool pair_ids(rf_server *s, const rf_ids *query, const rf_ids *frame, const rf_prompt *doc,
                     rf_ids *out, rf_api_error *e) {
    rf_ids second = {0};
    if (!prompt_ids(s, doc, false, &second, e)) return false;
    size_t skip = frame->len == 2 && !doubles_separator(s, frame->p[0]);
    for (size_t i = 0; i < query->len; i++)
        rf_ids_push(out, query->p[i]);
    if (frame->len == 2 && !skip) second.p[0] = frame->p[1]; /* the begin becomes a separator */
    for (size_t i = skip; i < second.len; i++)
        rf_ids_push(out, second.p[i]);
    bool ok = !out->failed;
    rf_ids_free(&second);
    return ok ? true : rf_api_fail_status(e, RF_ENOMEM, "out of memory");
}

static bool rerank_ids(rf_server *s, const rf_params *p, rf_ids *ids, rf_api_error *e) {
    if (!check_model(s, p->model, e)) return false;
    if (s->info.pooling != RF_POOLING_RANK || !s->info.is_encoder)
        return rf_api_fail(e, 400, "unsupported_model", "model",
                           "%s is not a reranker: it has no head that scores a pair of texts",
                           s->o.model);
    const rf_prompt text = {.text = p->query}, none = {.text = RF_STR("")};
    rf_ids query = {0}, frame = {0}; /* frame: what stands around every text */
    bool ok = prompt_ids(s, &text, false, &query, e) && prompt_ids(s, &none, false, &frame, e);
    for (size_t i = 0; ok && i < p->n_prompts; i++)
        ok = pair_ids(s, &query, &frame, &p->prompts[i], &ids[i], e) &&
             check_length(s, "documents", i, &ids[i], e);
    rf_ids_free(&query);
    rf_ids_free(&frame);
    return ok;
}

static void embed_with(rf_server *s, const rf_http_request *r, unsigned kind,
                       const rf_embed_writer *writer, rf_outbox *o) {
    rf_api_error e = {0};
    rf_params p;
    rf_ids *ids = NULL;
    bool ok = rf_params_parse(&p, kind, r->body, &e);
    if (ok) ids = rf_alloc(p.n_prompts, sizeof *ids);
    if (ok && !ids) ok = rf_api_fail_status(&e, RF_ENOMEM, "out of memory");
    if (ok) ok = (kind == RF_FOR_RERANK ? rerank_ids : embedding_ids)(s, &p, ids, &e);
    if (ok)
        rf_embeds_start(s->embeds, writer, r->id, &p, ids, o, &e);
    else
        free_request(&p, ids);
    if (e.status) rf_api_answer_error(o, &e);
}

static void embeddings(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    embed_with(s, r, RF_FOR_EMBEDDING, &rf_embed_vectors, o);
}

static void rerank(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    embed_with(s, r, RF_FOR_RERANK, &rf_embed_scores, o);
}

/* ---- jobs by id ---- */

static bool sees_all(const rf_server *s, const rf_http_request *r) {
    const rf_key *key = r->caller;
    return !s->keys || (key->scopes & RF_SCOPE_ADMIN);
}

static void no_such_request(rf_str id, rf_outbox *o) {
    rf_api_error e = {0};
    rf_api_fail(&e, 404, "request_not_found", "id", "there is no request '%.*s'",
                (int)(id.len > 60 ? 60 : id.len), id.p);
    rf_api_answer_error(o, &e);
}

static void status(rf_server *s, const rf_http_request *r, rf_str id, rf_outbox *o) {
    rf_buf out = {0};
    if (rf_jobs_describe(s->jobs, id, r->caller, sees_all(s, r), &out))
        answer_json(o, 200, &out);
    else
        no_such_request(id, o);
}

static void cancel(rf_server *s, const rf_http_request *r, rf_str id, rf_outbox *o) {
    rf_buf out = text_of("{\"status\":\"ok\"}");
    if (rf_jobs_cancel(s->jobs, id, r->caller, sees_all(s, r))) {
        answer_json(o, 200, &out);
        return;
    }
    rf_buf_free(&out);
    no_such_request(id, o);
}

/* ---- text and tokens ---- */

static bool get_flag(const rf_json *body, const char *name, bool dflt, bool *out, rf_api_error *e) {
    const rf_json *v = rf_json_get(body, name);
    *out = rf_json_kind(v) == RF_JSON_NULL ? dflt : rf_json_bool(v);
    if (rf_json_kind(v) == RF_JSON_NULL || rf_json_kind(v) == RF_JSON_BOOL) return true;
    return rf_api_fail(e, 400, "invalid_type", name, "%s must be true or false", name);
}

static bool tokenize_body(rf_server *s, const rf_json *body, rf_buf *out, rf_api_error *e) {
    text_request t = {.engine = s->engine};
    const rf_json *text = rf_json_get(body, "content");
    if (rf_json_kind(text) == RF_JSON_NULL) text = rf_json_get(body, "prompt");
    if (rf_json_kind(text) != RF_JSON_STRING)
        return rf_api_fail(e, 400, "invalid_type", "content", "content must be a string");
    if (!get_flag(body, "add_special", true, &t.add_special, e)) return false;
    if (!get_flag(body, "parse_special", true, &t.parse_special, e)) return false;
    t.text = rf_json_str(text);
    rf_ids ids = {0};
    bool ok = get_ids(ids_of_text, &t, t.text.len + 16, &ids, e);
    rf_buf_puts(out, "{\"tokens\":[");
    for (size_t i = 0; ok && i < ids.len; i++)
        rf_buf_printf(out, "%s%d", i ? "," : "", ids.p[i]);
    rf_buf_printf(out, "],\"count\":%zu,\"max_model_len\":%u}", ids.len, s->info.n_ctx);
    rf_ids_free(&ids);
    return ok;
}

static bool detokenize_body(rf_server *s, const rf_json *body, rf_buf *out, rf_api_error *e) {
    const rf_json *tokens = rf_json_get(body, "tokens");
    if (rf_json_kind(tokens) != RF_JSON_ARRAY)
        return rf_api_fail(e, 400, "invalid_type", "tokens", "tokens must be an array of ids");
    bool special;
    if (!get_flag(body, "return_special", false, &special, e)) return false;
    rf_ids ids = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < rf_json_len(tokens); i++) {
        const rf_json *id = rf_json_at(tokens, i);
        int64_t value = rf_json_int(id);
        if (rf_json_kind(id) != RF_JSON_INT || value < 0 || value >= s->info.n_vocab)
            ok = rf_api_fail(e, 400, "invalid_value", "tokens", "token %zu is not an id below %u",
                             i, s->info.n_vocab);
        else
            rf_ids_push(&ids, (int32_t)value);
    }
    if (ok && ids.failed) ok = rf_api_fail_status(e, RF_ENOMEM, "out of memory");
    rf_buf text = {0};
    if (ok) ok = text_of_ids(s, ids.p, ids.len, special, &text, e);
    rf_buf_puts(out, "{\"content\":");
    rf_buf_json_str(out, rf_buf_str(&text));
    rf_buf_putc(out, '}');
    if (text.failed) out->failed = true;
    rf_buf_free(&text);
    rf_ids_free(&ids);
    return ok;
}

static void with_body(rf_server *s, const rf_http_request *r, rf_outbox *o,
                      bool (*work)(rf_server *, const rf_json *, rf_buf *, rf_api_error *)) {
    rf_json *body;
    rf_api_error e = {0};
    rf_buf out = {0};
    if (rf_params_read_object(&body, r->body, &e) && work(s, body, &out, &e)) {
        answer_json(o, 200, &out);
    } else {
        rf_buf_free(&out);
        rf_api_answer_error(o, &e);
    }
    rf_json_free(body);
}

static void tokenize(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    with_body(s, r, o, tokenize_body);
}

static void detokenize(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    with_body(s, r, o, detokenize_body);
}

static void template(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    rf_api_error e = {0};
    rf_params p;
    rf_ids ids = {0};
    rf_buf text = {0}, out = {0};
    if (rf_params_parse(&p, RF_FOR_CHAT, r->body, &e) && chat_ids(s, &p, &ids, &e) &&
        text_of_ids(s, ids.p, ids.len, true, &text, &e)) {
        rf_buf_puts(&out, "{\"prompt\":");
        rf_buf_json_str(&out, rf_buf_str(&text));
        rf_buf_printf(&out, ",\"n_tokens\":%zu}", ids.len);
        if (text.failed) out.failed = true;
        answer_json(o, 200, &out);
    } else {
        rf_api_answer_error(o, &e);
    }
    rf_buf_free(&text);
    rf_ids_free(&ids);
    rf_params_free(&p);
}

/* ---- facts ---- */

static void health(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)s, (void)r, (void)arg;
    rf_buf out = text_of("{\"status\":\"ok\"}");
    answer_json(o, 200, &out);
}

static void ready(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    bool draining = atomic_load(&s->draining);
    rf_buf out = text_of(draining ? "{\"status\":\"stopping\"}" : "{\"status\":\"ok\"}");
    answer_json(o, draining ? 503 : 200, &out);
}

static void version(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)s, (void)r, (void)arg;
    rf_buf out = {0};
    rf_buf_printf(&out, "{\"name\":\"rocmforge\",\"version\":\"%s\"}", rf_version());
    answer_json(o, 200, &out);
}

static void openapi(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_buf out = {0};
    rf_openapi_print(s, &out);
    answer_json(o, 200, &out);
}

static void put_model(const rf_server *s, rf_buf *out) {
    rf_buf_puts(out, "{\"id\":");
    rf_buf_json_str(out, rf_str_of(s->o.model));
    rf_buf_printf(out,
                  ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"rocmforge\","
                  "\"max_model_len\":%u}",
                  (long long)s->created, s->info.n_ctx);
}

static void models(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_buf out = text_of("{\"object\":\"list\",\"data\":[");
    put_model(s, &out);
    rf_buf_puts(&out, "]}");
    answer_json(o, 200, &out);
}

static void model(rf_server *s, const rf_http_request *r, rf_str id, rf_outbox *o) {
    (void)r;
    rf_api_error e = {0};
    rf_buf out = {0};
    put_model(s, &out);
    if (check_model(s, id, &e)) {
        answer_json(o, 200, &out);
        return;
    }
    rf_buf_free(&out);
    rf_api_answer_error(o, &e);
}

static void put_facts(const rf_server *s, rf_buf *out) {
    const rf_engine_info *i = &s->info;
    rf_buf_puts(out, "{\"id\":");
    rf_buf_json_str(out, rf_str_of(s->o.model));
    rf_buf_puts(out, ",\"name\":");
    rf_buf_json_str(out, rf_str_of(i->model_name));
    rf_buf_puts(out, ",\"architecture\":");
    rf_buf_json_str(out, rf_str_of(i->architecture));
    rf_buf_puts(out, ",\"backend\":");
    rf_buf_json_str(out, rf_str_of(i->backend));
    rf_buf_printf(out,
                  ",\"n_params\":%llu,\"weight_bytes\":%llu,\"n_vocab\":%u,\"n_layers\":%u,"
                  "\"n_embd\":%u,\"n_ctx\":%u,\"n_ctx_train\":%u}",
                  (unsigned long long)i->n_params, (unsigned long long)i->weight_bytes, i->n_vocab,
                  i->n_layers, i->n_embd, i->n_ctx, i->n_ctx_train);
}

static void native_models(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_buf out = text_of("{\"models\":[");
    put_facts(s, &out);
    rf_buf_puts(&out, "]}");
    answer_json(o, 200, &out);
}

static void props(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_engine_stats stats;
    rf_engine_get_stats(s->engine, &stats);
    rf_buf out = text_of("{\"model\":");
    put_facts(s, &out);
    rf_buf_printf(&out,
                  ",\"version\":\"%s\",\"total_slots\":%u,\"max_queue\":%u,\"max_body_bytes\":%zu,"
                  "\"chat_template\":",
                  rf_version(), stats.max_running, s->o.max_waiting, s->o.max_body);
    if (s->info.chat_template)
        rf_buf_json_str(&out, rf_str_of(s->info.chat_template));
    else
        rf_buf_puts(&out, "null");
    rf_buf_putc(&out, '}');
    answer_json(o, 200, &out);
}

static void slots(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_engine_stats stats;
    rf_engine_get_stats(s->engine, &stats);
    rf_buf out = {0};
    rf_buf_printf(&out,
                  "{\"total_slots\":%u,\"running\":%u,\"waiting\":%u,\"kv_blocks\":%u,"
                  "\"kv_blocks_free\":%u,\"requests\":",
                  stats.max_running, stats.n_running, stats.n_waiting, stats.kv_blocks,
                  stats.kv_free);
    rf_jobs_list(s->jobs, &out);
    rf_buf_putc(&out, '}');
    answer_json(o, 200, &out);
}

static void metrics(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)r, (void)arg;
    rf_engine_stats stats;
    rf_engine_get_stats(s->engine, &stats);
    uint64_t now = rf_time_us();
    const double read[RF_M_COUNT] = {
        [RF_M_QUEUE_LENGTH] = stats.n_waiting,
        [RF_M_ACTIVE] = stats.n_running,
        [RF_M_TOKENS_PER_S] = rf_metrics_tokens_per_second(&s->metrics, now),
        [RF_M_KV_BLOCKS] = stats.kv_blocks,
        [RF_M_KV_FREE] = stats.kv_free,
        [RF_M_KV_CACHED] = stats.kv_cached,
        [RF_M_KV_HITS] = (double)stats.kv_hits,
        [RF_M_KV_MISSES] = (double)stats.kv_misses,
        [RF_M_KV_EVICTIONS] = (double)stats.kv_evictions,
        [RF_M_PREEMPTIONS] = (double)stats.n_preemptions,
        [RF_M_CONNECTIONS] = rf_http_n_connections(s->http),
        [RF_M_UPTIME] = (double)(now - s->start_us) / 1e6,
    };
    rf_buf out = {0};
    rf_metrics_print(&s->metrics, read, &out);
    rf_api_answer(o, 200, "text/plain; version=0.0.4", &out);
}

/* ---- the table ---- */

const rf_route rf_routes[] = {
#define X(method, path, scope, handler, body, answer, summary) \
    {method, path, RF_SCOPE_##scope, handler, body, answer, summary},
#include "server/routes.def"
#undef X
};
const size_t rf_route_count = RF_COUNT(rf_routes);

/* Whether the path is the route's; *arg becomes what stands for {id}. */
static bool matches(const rf_route *t, rf_str path, rf_str *arg) {
    const char *brace = strchr(t->path, '{');
    *arg = (rf_str){"", 0};
    if (!brace) return rf_str_is(path, t->path);
    size_t n = (size_t)(brace - t->path);
    if (path.len <= n || memcmp(path.p, t->path, n) != 0) return false;
    *arg = (rf_str){path.p + n, path.len - n};
    return !memchr(arg->p, '/', arg->len) || rf_str_starts(rf_str_of(t->path), "/v1/models/");
}

static const rf_route *find_route(const rf_http_request *r, rf_api_error *e, rf_outbox *o) {
    const char *method = strcmp(r->method, "HEAD") == 0 ? "GET" : r->method;
    const rf_route *other = NULL;
    rf_str arg;
    for (size_t i = 0; i < rf_route_count; i++) {
        if (!matches(&rf_routes[i], r->path, &arg)) continue;
        if (strcmp(rf_routes[i].method, method) == 0) return &rf_routes[i];
        other = &rf_routes[i];
    }
    if (!other) {
        rf_api_fail(e, 404, "unknown_url", NULL, "there is no route %.20s %.*s", r->method,
                    (int)(r->path.len > 100 ? 100 : r->path.len), r->path.p);
    } else {
        rf_outbox_add_header(o, "Allow", "%s", other->method);
        rf_api_fail(e, 405, "method_not_allowed", NULL, "%s takes %s, not %.20s", other->path,
                    other->method, r->method);
    }
    return NULL;
}

static bool authorize(rf_server *s, rf_http_request *r, rf_scope scope, rf_api_error *e,
                      rf_outbox *o) {
    if (!s->keys || scope == RF_SCOPE_NONE) return true;
    const char *bearer = rf_http_header(r, "Authorization");
    const char *secret = rf_http_header(r, "X-Api-Key");
    if (bearer && strncmp(bearer, "Bearer ", 7) == 0) secret = bearer + 7;
    const rf_key *key = secret ? rf_keys_find(s->keys, rf_str_of(secret)) : NULL;
    r->caller = key;
    if (!key) {
        rf_outbox_add_header(o, "WWW-Authenticate", "Bearer");
        return rf_api_fail(e, 401, "invalid_api_key", NULL, "%s",
                           secret ? "the API key is not known"
                                  : "an API key is needed: Authorization: Bearer KEY");
    }
    if (rf_key_may(key, scope)) return true;
    return rf_api_fail(e, 403, "insufficient_scope", NULL, "this API key may not do that");
}

bool rf_routes_admit(rf_server *s, rf_http_request *r, rf_outbox *o) {
    rf_api_error e = {.style = rf_routes_style(r->path)};
    if (e.style == RF_API_ANTHROPIC) rf_outbox_add_header(o, "Request-Id", "%s", r->id);
    const rf_route *t = find_route(r, &e, o);
    r->route = t;
    if (t && authorize(s, r, t->scope, &e, o)) return true;
    rf_api_answer_error(o, &e);
    return false;
}

void rf_routes_serve(rf_server *s, rf_http_request *r, rf_outbox *o) {
    const rf_route *t = r->route;
    rf_str arg;
    bool found = matches(t, r->path, &arg);
    RF_ASSERT(found);
    t->handle(s, r, arg, o);
}
