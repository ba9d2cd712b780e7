/* cmd_serve.c - a model behind HTTP until a signal says stop. */
#include <string.h>

#include "cli/session.h"
#include "server/server.h"

enum { KV_BLOCK_TOKENS = 32 };

/* "models/demo.gguf" -> "demo" */
static rf_status model_name(rf_cli *c, const char *path, rf_buf *out, rf_error *e) {
    const char *alias = rf_cli_str(c, RF_F_ALIAS);
    const char *slash = strrchr(path, '/');
    const char *name = alias ? alias : slash ? slash + 1 : path;
    size_t n = strlen(name);
    if (!alias && n > 5 && strcmp(name + n - 5, ".gguf") == 0) n -= 5;
    rf_buf_put(out, name, n);
    return out->failed ? rf_fail_nomem(e, n) : RF_OK;
}

static rf_status open_engine(rf_cli *c, const char *path, rf_engine **out, rf_error *e) {
    rf_text why;
    uint32_t kv_tokens = (uint32_t)rf_cli_int(c, RF_F_KV_TOKENS);
    const rf_engine_opts o = {
        .model_path = path,
        .backend = rf_session_backend(c),
        .device = (uint32_t)rf_cli_int(c, RF_F_DEVICE),
        .kv_type = rf_cli_str(c, RF_F_KV_TYPE),
        .n_threads = (int)rf_cli_int(c, RF_F_THREADS),
        .n_ctx = (uint32_t)rf_cli_int(c, RF_F_CTX),
        .batch_tokens = (uint32_t)rf_cli_int(c, RF_F_BATCH),
        .max_seqs = (uint32_t)rf_cli_int(c, RF_F_PARALLEL),
        .n_kv_blocks = kv_tokens / KV_BLOCK_TOKENS + (kv_tokens % KV_BLOCK_TOKENS != 0),
    };
    RF_TRY(rf_session_error(rf_engine_open(out, &o, &why), &why, e));
    rf_session_announce(c, *out);
    return RF_OK;
}

static rf_server_opts server_opts(rf_cli *c, const char *model) {
    rf_server_opts o = {
        .address = rf_cli_str(c, RF_F_ADDR),
        .model = model,
        .chat_format = rf_cli_str(c, RF_F_FORMAT),
        .tool_format = rf_cli_str(c, RF_F_TOOL_FORMAT),
        .keys_file = rf_cli_str(c, RF_F_KEYS),
        .tls_cert_file = rf_cli_str(c, RF_F_TLS_CERT),
        .tls_key_file = rf_cli_str(c, RF_F_TLS_KEY),
        .max_waiting = (uint32_t)rf_cli_int(c, RF_F_QUEUE),
        .max_connections = (uint32_t)rf_cli_int(c, RF_F_CONNECTIONS),
        .http_threads = 2,
        .max_body = (size_t)rf_cli_int(c, RF_F_MAX_BODY),
        .idle_seconds = (uint32_t)rf_cli_int(c, RF_F_IDLE_S),
        .request_seconds = (uint32_t)rf_cli_int(c, RF_F_REQUEST_S),
        .drain_seconds = (uint32_t)rf_cli_int(c, RF_F_DRAIN_S),
        .ping_seconds = (uint32_t)rf_cli_int(c, RF_F_PING_S),
    };
    o.n_cors = rf_cli_list(c, RF_F_CORS, &o.cors);
    return o;
}

static void announce(rf_cli *c, const rf_server *s, const char *model) {
    rf_buf out = {0};
    if (rf_cli_bool(c, RF_F_JSON)) {
        rf_buf_puts(&out, "{\"listening\":");
        rf_buf_json_str(&out, rf_str_of(rf_server_url(s)));
        rf_buf_puts(&out, ",\"model\":");
        rf_buf_json_str(&out, rf_str_of(model));
        rf_buf_puts(&out, "}\n");
    } else {
        rf_buf_printf(&out, "%s is served at %s\n", model, rf_server_url(s));
    }
    rf_cli_write(c, &out);
    rf_buf_free(&out);
}

int rf_cmd_serve(rf_cli *c) {
    rf_error e = {0};
    rf_engine *en = NULL;
    rf_server *server = NULL;
    rf_buf name = {0};
    const char *path;
    rf_server_block_signals();
    rf_status s = rf_cli_model_path(c, &path, &e);
    if (s == RF_OK) s = model_name(c, path, &name, &e);
    if (s == RF_OK) s = open_engine(c, path, &en, &e);
    if (s == RF_OK) {
        const rf_server_opts o = server_opts(c, name.p);
        s = rf_server_open(&server, en, &o, &e);
    }
    if (s == RF_OK) {
        announce(c, server, name.p);
        rf_server_run(server);
    }
    rf_server_close(server);
    rf_engine_close(en);
    rf_buf_free(&name);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}
