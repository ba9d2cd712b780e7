/* api.c - errors as the bodies that OpenAI's and Anthropic's clients read. */
#include "server/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

rf_api_style rf_api_style_of(rf_str path) {
    return rf_str_starts(path, "/v1/messages") ? RF_API_ANTHROPIC : RF_API_OPENAI;
}

static const char *type_of(int status) {
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    case 503:
        return "service_unavailable_error";
    default:
        return status < 500 ? "invalid_request_error" : "server_error";
    }
}

bool rf_api_fail(rf_api_error *e, int status, const char *code, const char *param, const char *fmt,
                 ...) {
    if (e->status) return false;
    e->status = status;
    e->type = type_of(status);
    e->code = code;
    snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, args);
    va_end(args);
    return false;
}

bool rf_api_fail_status(rf_api_error *e, rf_status s, const char *text) {
    switch (s) {
    case RF_EFULL:
        return rf_api_fail(e, 400, "context_length_exceeded", NULL, "%s", text);
    case RF_EARG:
    case RF_EFORMAT:
    case RF_EUNSUPPORTED:
        return rf_api_fail(e, 400, NULL, NULL, "%s", text);
    case RF_ENOMEM:
        return rf_api_fail(e, 503, "out_of_memory", NULL, "%s", text);
    case RF_OK:
    case RF_EIO:
    case RF_EDEVICE:
    case RF_ECANCELLED:
        break;
    }
    return rf_api_fail(e, 500, NULL, NULL, "%s", text);
}

static void put_or_null(rf_buf *out, const char *text) {
    if (text && text[0])
        rf_buf_json_str(out, rf_str_of(text));
    else
        rf_buf_puts(out, "null");
}

static const char *anthropic_type_of(int status) {
    return status == 413   ? "request_too_large"
           : status == 503 ? "overloaded_error"
           : status >= 500 ? "api_error"
                           : type_of(status);
}

static void put_anthropic_error(rf_buf *out, const rf_api_error *e) {
    rf_buf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
                  anthropic_type_of(e->status));
    rf_buf_json_str(out, rf_str_of(e->message));
    rf_buf_puts(out, "}}");
}

void rf_api_put_error(rf_buf *out, const rf_api_error *e) {
    if (e->style == RF_API_ANTHROPIC) {
        put_anthropic_error(out, e);
        return;
    }
    rf_buf_puts(out, "{\"error\":{\"message\":");
    rf_buf_json_str(out, rf_str_of(e->message));
    rf_buf_printf(out, ",\"type\":\"%s\",\"param\":", e->type);
    put_or_null(out, e->param);
    rf_buf_puts(out, ",\"code\":");
    put_or_null(out, e->code);
    rf_buf_puts(out, "}}");
}

void rf_api_answer(rf_outbox *o, int status, const char *content_type, rf_buf *body) {
    rf_outbox_start(o, body->failed ? 500 : status, content_type);
    rf_outbox_put(o, body->len ? body->p : "", body->len);
    rf_outbox_end(o);
    rf_buf_free(body);
}

void rf_api_answer_error(rf_outbox *o, const rf_api_error *e) {
    rf_buf body = {0};
    rf_api_put_error(&body, e);
    if (e->retry_after) rf_outbox_add_header(o, "Retry-After", "%d", e->retry_after);
    rf_api_answer(o, e->status, "application/json", &body);
}
