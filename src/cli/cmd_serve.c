/* cmd_serve.c - models behind HTTP until a signal says stop. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "cli/session.h"
#include "server/server.h"

enum { KV_BLOCK_TOKENS = 32, MAX_MODELS = 1024, MAX_PATH = 4096 };

/* The models to serve, with their texts. */
typedef struct model_list {
    rf_model_name *items; /* [n] of MAX_MODELS */
    size_t n;
} model_list;

static rf_status add(model_list *l, rf_str name, const char *path, bool at_start, rf_error *e) {
    if (l->n == MAX_MODELS)
        return rf_fail(e, RF_EARG, "more than %d models and aliases", MAX_MODELS);
    char *text = strndup(name.p, name.len), *file = strdup(path);
    l->items[l->n++] = (rf_model_name){text, file, at_start};
    return text && file ? RF_OK : rf_fail_nomem(e, strlen(path));
}

static void free_models(model_list *l) {
    for (size_t i = 0; i < l->n; i++) {
        free((void *)(uintptr_t)l->items[i].name);
        free((void *)(uintptr_t)l->items[i].path);
    }
    rf_free(l->items);
}

/* ---- names and files ---- */

/* "models/demo.gguf" -> "demo", "big-00001-of-00003.gguf" -> "big" */
static rf_str name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    rf_str name = rf_str_of(slash ? slash + 1 : path);
    static const char suffix[] = ".gguf", part[] = "-00001-of-";
    if (name.len > 5 && memcmp(name.p + name.len - 5, suffix, 5) == 0) name.len -= 5;
    if (name.len > 15 && memcmp(name.p + name.len - 15, part, 10) == 0) name.len -= 15;
    return name;
}

/* Files that hold a model or its first part. */
static int is_model(const struct dirent *entry) {
    size_t n = strlen(entry->d_name);
    const char *of = strstr(entry->d_name, "-of-");
    if (n <= 5 || entry->d_name[0] == '.' || strcmp(entry->d_name + n - 5, ".gguf") != 0) return 0;
    return !of || of - entry->d_name < 6 || strncmp(of - 6, "-00001", 6) == 0;
}

static rf_status add_dir(model_list *l, const char *dir, rf_error *e) {
    struct dirent **entries;
    int n = scandir(dir, &entries, is_model, alphasort);
    rf_status s = RF_OK;
    if (n < 0) return rf_fail(e, RF_EIO, "%s: cannot be read; expected a directory of models", dir);
    for (int i = 0; i < n; i++) {
        char path[MAX_PATH];
        int len = snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
        if (s == RF_OK && len > 0 && (size_t)len < sizeof path)
            s = add(l, name_of(path), path, false, e);
        free(entries[i]);
    }
    free(entries);
    return s;
}

static bool is_dir(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* -m FILE, -m DIR; without them --models-dir; without models there the demo model. */
static rf_status add_models(rf_cli *c, model_list *l, rf_error *e) {
    const char *const *files;
    size_t n = rf_cli_list(c, RF_F_MODEL_FILES, &files);
    char path[MAX_PATH];
    for (size_t i = 0; i < n; i++) {
        rf_cli_find_model(c, files[i], path, sizeof path);
        RF_TRY(is_dir(path) ? add_dir(l, path, e) : add(l, name_of(path), path, true, e));
    }
    const char *dir = rf_cli_str(c, RF_F_MODELS_DIR);
    if (n == 0 && dir && is_dir(dir)) RF_TRY(add_dir(l, dir, e));
    if (n == 0 && dir && l->n == 0)
        rf_log_write(RF_LOG_WARN, "%s: no model there; the demo model is served", dir);
    if (l->n) return RF_OK;
    const char *demo;
    RF_TRY(rf_cli_model_path(c, &demo, e));
    return add(l, name_of(demo), demo, true, e);
}

/* --alias NAME of the first model, --alias NAME=FILE of any. */
static rf_status add_aliases(rf_cli *c, model_list *l, rf_error *e) {
    const char *const *given;
    size_t n = rf_cli_list(c, RF_F_ALIAS, &given);
    char path[MAX_PATH];
    bool named = false;
    for (size_t i = 0; i < n; i++) {
        const char *equals = strchr(given[i], '=');
        if (!given[i][0] || equals == given[i])
            return rf_fail(e, RF_EARG, "--alias '%.80s': the name is empty", given[i]);
        if (equals) {
            rf_cli_find_model(c, equals + 1, path, sizeof path);
            RF_TRY(add(l, (rf_str){given[i], (size_t)(equals - given[i])}, path, false, e));
            continue;
        }
        if (named)
            return rf_fail(e, RF_EARG,
                           "--alias '%.80s': the first model has a name already; write "
                           "NAME=FILE for another",
                           given[i]);
        named = true;
        char *text = strdup(given[i]);
        if (!text) return rf_fail_nomem(e, strlen(given[i]));
        free((void *)(uintptr_t)l->items[0].name);
        l->items[0].name = text;
    }
    return RF_OK;
}

static rf_status list_models(rf_cli *c, model_list *l, rf_error *e) {
    l->items = rf_alloc(MAX_MODELS, sizeof *l->items);
    if (!l->items) return rf_fail_nomem(e, MAX_MODELS * sizeof *l->items);
    RF_TRY(add_models(c, l, e));
    return add_aliases(c, l, e);
}

/* ---- settings ---- */

static rf_status engine_opts(rf_cli *c, rf_engine_opts *out, rf_error *e) {
    uint32_t kv_tokens = (uint32_t)rf_cli_int(c, RF_F_KV_TOKENS);
    *out = (rf_engine_opts){
        .kv_type = rf_cli_str(c, RF_F_KV_TYPE),
        .n_threads = (int)rf_cli_int(c, RF_F_THREADS),
        .n_ctx = (uint32_t)rf_cli_int(c, RF_F_CTX),
        .batch_tokens = (uint32_t)rf_cli_int(c, RF_F_BATCH),
        .max_seqs = (uint32_t)rf_cli_int(c, RF_F_PARALLEL),
        .n_kv_blocks = kv_tokens / KV_BLOCK_TOKENS + (kv_tokens % KV_BLOCK_TOKENS != 0),
        .itl_target_ms = (uint32_t)rf_cli_int(c, RF_F_ITL_TARGET),
        .swap_bytes = (uint64_t)rf_cli_int(c, RF_F_SWAP_MB) << 20,
    };
    rf_session_speculation(c, out);
    return rf_session_where(c, out, e);
}

static rf_server_opts server_opts(rf_cli *c, const model_list *l, const rf_engine_opts *engine) {
    rf_server_opts o = {
        .address = rf_cli_str(c, RF_F_ADDR),
        .models = l->items,
        .n_models = l->n,
        .engine = *engine,
        .models_budget = (uint64_t)rf_cli_int(c, RF_F_MODELS_BUDGET) << 20,
        .model_ttl_seconds = (uint32_t)rf_cli_int(c, RF_F_MODEL_TTL),
        .chat_format = rf_cli_str(c, RF_F_FORMAT),
        .tool_format = rf_cli_str(c, RF_F_TOOL_FORMAT),
        .otlp_endpoint = rf_cli_str(c, RF_F_OTLP),
        .otlp_headers = rf_cli_str(c, RF_F_OTLP_HEADERS),
        .keys_file = rf_cli_str(c, RF_F_KEYS),
        .prefix_per_key = rf_cli_bool(c, RF_F_PREFIX_PER_KEY),
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
    /* Models that are loaded later may need it. */
    if ((l->n > 1 || o.models_budget) && rf_cli_int(c, RF_F_SPARE_MEMORY) < 0)
        o.engine.spare_percent = 0;
    o.n_cors = rf_cli_list(c, RF_F_CORS, &o.cors);
    o.n_hosts = rf_cli_list(c, RF_F_HOSTS, &o.hosts);
    return o;
}

/* ---- what is served, and where ---- */

static void announce_gpu(rf_cli *c, const rf_server *s) {
    rf_model_view v;
    rf_models_view(s->models, 0, &v);
    if (v.slot) rf_session_announce(c, v.slot->engine);
    rf_models_release(s->models, v.slot);
}

static void announce(rf_cli *c, const rf_server *s) {
    rf_buf out = {0};
    rf_model_view v;
    size_t n = rf_models_count(s->models);
    rf_models_view(s->models, 0, &v);
    if (rf_cli_bool(c, RF_F_JSON)) {
        rf_buf_puts(&out, "{\"listening\":");
        rf_buf_json_str(&out, rf_str_of(rf_server_url(s)));
        rf_buf_puts(&out, ",\"model\":");
        rf_buf_json_str(&out, rf_str_of(v.id));
        rf_buf_printf(&out, ",\"models\":%zu}\n", n);
    } else if (n == 1) {
        rf_buf_printf(&out, "%s is served at %s\n", v.id, rf_server_url(s));
    } else {
        rf_buf_printf(&out, "%zu models (first %s) is served at %s\n", n, v.id, rf_server_url(s));
    }
    rf_models_release(s->models, v.slot);
    rf_cli_write(c, &out);
    rf_buf_free(&out);
}

int rf_cmd_serve(rf_cli *c) {
    rf_error e = {0};
    rf_server *server = NULL;
    model_list models = {0};
    rf_engine_opts engine;
    rf_server_block_signals();
    rf_status s = list_models(c, &models, &e);
    if (s == RF_OK) s = engine_opts(c, &engine, &e);
    if (s == RF_OK) {
        const rf_server_opts o = server_opts(c, &models, &engine);
        s = rf_server_open(&server, &o, &e);
    }
    if (s == RF_OK) {
        announce_gpu(c, server);
        announce(c, server);
        rf_server_run(server);
    }
    rf_server_close(server);
    free_models(&models);
    return s == RF_OK ? RF_EXIT_OK : rf_cli_fail(c, &e);
}
