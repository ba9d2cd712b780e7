/* tokens.c - the routes between text and tokens. */
#include "server/routes.h"
#include "server/texts.h"

static bool get_flag(const rf_json *body, const char *name, bool dflt, bool *out, rf_api_error *e) {
    const rf_json *v = rf_json_get(body, name);
    *out = rf_json_kind(v) == RF_JSON_NULL ? dflt : rf_json_bool(v);
    if (rf_json_kind(v) == RF_JSON_NULL || rf_json_kind(v) == RF_JSON_BOOL) return true;
    return rf_api_fail(e, 400, "invalid_type", name, "%s must be true or false", name);
}

static bool tokenize_body(const rf_slot *s, const rf_json *body, rf_buf *out, rf_api_error *e) {
    bool add_special, parse_special;
    const rf_json *text = rf_json_get(body, "content");
    if (rf_json_kind(text) == RF_JSON_NULL) text = rf_json_get(body, "prompt");
    if (rf_json_kind(text) != RF_JSON_STRING)
        return rf_api_fail(e, 400, "invalid_type", "content", "content must be a string");
    if (!get_flag(body, "add_special", true, &add_special, e)) return false;
    if (!get_flag(body, "parse_special", true, &parse_special, e)) return false;
    rf_ids ids = {0};
    bool ok = rf_text_ids(s, rf_json_str(text), add_special, parse_special, &ids, e);
    rf_buf_puts(out, "{\"tokens\":[");
    for (size_t i = 0; ok && i < ids.len; i++)
        rf_buf_printf(out, "%s%d", i ? "," : "", ids.p[i]);
    rf_buf_printf(out, "],\"count\":%zu,\"max_model_len\":%u}", ids.len, s->info.n_ctx);
    rf_ids_free(&ids);
    return ok;
}

static bool detokenize_body(const rf_slot *s, const rf_json *body, rf_buf *out, rf_api_error *e) {
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
    if (ok) ok = rf_ids_text(s, ids.p, ids.len, special, &text, e);
    rf_buf_puts(out, "{\"content\":");
    rf_buf_json_str(out, rf_buf_str(&text));
    rf_buf_putc(out, '}');
    if (text.failed) out->failed = true;
    rf_buf_free(&text);
    rf_ids_free(&ids);
    return ok;
}

/* What a route makes of its body with a model. */
typedef bool (*body_fn)(const rf_slot *s, const rf_json *body, rf_buf *out, rf_api_error *e);

static void with_body(rf_server *s, const rf_http_request *r, rf_outbox *o, body_fn work) {
    rf_json *body;
    rf_api_error e = {0};
    rf_slot *slot = NULL;
    rf_buf out = {0};
    rf_str name = {0};
    if (rf_params_read_object(&body, r->body, &e) && rf_get_model(body, &name, &e) &&
        rf_models_hold(s->models, name, r, o, &slot, &e) && slot && work(slot, body, &out, &e))
        rf_answer_json(o, 200, &out);
    rf_buf_free(&out);
    if (e.status) rf_api_answer_error(o, &e);
    rf_models_release(s->models, slot);
    rf_json_free(body);
}

void rf_route_tokenize(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    with_body(s, r, o, tokenize_body);
}

void rf_route_detokenize(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    with_body(s, r, o, detokenize_body);
}

void rf_route_template(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)arg;
    rf_api_error e = {0};
    rf_params p;
    rf_ids ids = {0};
    rf_slot *slot = NULL;
    rf_buf text = {0}, out = {0};
    if (rf_params_parse(&p, RF_FOR_CHAT, r->body, &e) &&
        rf_models_hold(s->models, p.model, r, o, &slot, &e) && slot &&
        rf_chat_ids(slot, &p, &ids, &e) && rf_ids_text(slot, ids.p, ids.len, true, &text, &e)) {
        rf_buf_puts(&out, "{\"prompt\":");
        rf_buf_json_str(&out, rf_buf_str(&text));
        rf_buf_printf(&out, ",\"n_tokens\":%zu}", ids.len);
        if (text.failed) out.failed = true;
        rf_answer_json(o, 200, &out);
    }
    if (e.status) rf_api_answer_error(o, &e);
    rf_models_release(s->models, slot);
    rf_buf_free(&text);
    rf_ids_free(&ids);
    rf_params_free(&p);
}
