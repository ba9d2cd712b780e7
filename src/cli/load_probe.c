/* load_probe.c - what is asked of a server before the measurement: its model, the size of its
 * vocabulary, whether it takes token ids. */
#include <string.h>

#include "base/json.h"
#include "cli/load.h"
#include "cli/load_http.h"

enum { MAX_ANSWER = 4 << 20 };

CURL *rf_load_easy(struct curl_slist *headers, uint32_t timeout_s) {
    CURL *curl = curl_easy_init();
    if (!curl) return NULL;
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "rocmforge/" RF_VERSION);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)timeout_s);
    return curl;
}

static bool add_header(struct curl_slist **list, const char *line) {
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer) *list = longer;
    return longer != NULL;
}

rf_status rf_load_headers(const char *key, struct curl_slist **out, rf_error *e) {
    rf_buf line = {0};
    bool ok = add_header(out, "Content-Type: application/json") && add_header(out, "Expect:");
    if (key) {
        rf_buf_printf(&line, "Authorization: Bearer %s", key);
        ok = ok && !line.failed && add_header(out, line.p);
    }
    rf_buf_free(&line);
    return ok ? RF_OK : rf_fail_nomem(e, sizeof(struct curl_slist));
}

static size_t on_body(char *p, size_t size, size_t n, void *user) {
    rf_buf *answer = user;
    if (size * n > MAX_ANSWER - answer->len) return 0;
    rf_buf_put(answer, p, size * n);
    return answer->failed ? 0 : size * n;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t d, curl_off_t u) {
    (void)user, (void)a, (void)b, (void)d, (void)u;
    return rf_cli_interrupted();
}

/* GET, or POST where body is given.  *code: status of the answer. */
static rf_status ask(const rf_load_opts *o, const char *path, const rf_buf *body, rf_buf *answer,
                     long *code, rf_error *e) {
    char url[600], why[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    rf_status s = rf_load_headers(o->key, &headers, e);
    CURL *curl = s == RF_OK ? rf_load_easy(headers, o->timeout_s) : NULL;
    snprintf(url, sizeof url, "%s%s", o->url, path);
    rf_buf_clear(answer);
    if (curl) {
        curl_easy_setopt(curl, CURLOPT_URL, url);
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
        curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        if (body) curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->p);
        CURLcode result = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, code);
        if (result == CURLE_ABORTED_BY_CALLBACK)
            s = rf_fail(e, RF_ECANCELLED, "interrupted");
        else if (result != CURLE_OK)
            s = rf_fail(e, RF_EIO, "%s: %s", url, why[0] ? why : curl_easy_strerror(result));
    } else if (s == RF_OK) {
        s = rf_fail_nomem(e, sizeof(CURL *));
    }
    curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
    return s;
}

static void take_vocab(const rf_json *n, rf_load_target *t) {
    int64_t size = rf_json_int(n);
    if (size >= 8 && size <= INT32_MAX) t->n_vocab = (uint32_t)size;
}

static const rf_json *get(const rf_json *j, const char *key) {
    return j && rf_json_kind(j) == RF_JSON_OBJECT ? rf_json_get(j, key) : NULL;
}

/* Name and, where the server says it there, vocabulary of the first model. */
static rf_status probe_models(const rf_load_opts *o, const char *model, rf_load_target *t,
                              rf_buf *answer, rf_error *e) {
    long code = 0;
    rf_json *j = NULL;
    rf_error ignored = {0};
    RF_TRY(ask(o, "/v1/models", NULL, answer, &code, e));
    if (code == 401 || code == 403)
        return rf_fail(e, RF_EIO,
                       "%s: the server answered %ld; give its key by --api-key-env or --key-file",
                       o->url, code);
    rf_status s = code == 200 ? rf_json_parse(&j, rf_buf_str(answer), &ignored) : RF_EFORMAT;
    const rf_json *data = s == RF_OK ? get(j, "data") : NULL, *first = NULL, *id, *size;
    if (data && rf_json_len(data) > 0) first = rf_json_at(data, 0);
    id = get(first, "id");
    rf_str name = model ? rf_str_of(model) : id ? rf_json_str(id) : RF_STR("");
    if ((size = get(get(first, "meta"), "n_vocab"))) take_vocab(size, t);
    if (name.len > 0 && name.len < sizeof t->model) memcpy(t->model, name.p, name.len);
    rf_json_free(j);
    if (t->model[0]) return RF_OK;
    return rf_fail(e, RF_EFORMAT,
                   "%s/v1/models: expected a list of models, got status %ld and %zu other bytes; "
                   "is it an OpenAI-compatible server?  --model names a model without the list",
                   o->url, code, answer->len);
}

/* The vocabulary as `rocmforge serve` says it. */
static rf_status probe_props(const rf_load_opts *o, rf_load_target *t, rf_buf *answer,
                             rf_error *e) {
    long code = 0;
    rf_json *j = NULL;
    rf_error ignored = {0};
    RF_TRY(ask(o, "/props", NULL, answer, &code, e));
    if (code != 200 || rf_json_parse(&j, rf_buf_str(answer), &ignored) != RF_OK) return RF_OK;
    const rf_json *n = get(get(j, "model"), "n_vocab");
    if (n) take_vocab(n, t);
    rf_json_free(j);
    return RF_OK;
}

static rf_status probe_tokens(const rf_load_opts *o, rf_load_target *t, rf_buf *answer,
                              rf_error *e) {
    long code = 0;
    rf_buf body = {0};
    rf_buf_puts(&body, "{\"model\":");
    rf_buf_json_str(&body, rf_str_of(t->model));
    rf_buf_printf(&body, ",\"prompt\":[%u],\"max_tokens\":1}", t->n_vocab / 2);
    rf_status s =
        body.failed ? rf_fail_nomem(e, 200) : ask(o, "/v1/completions", &body, answer, &code, e);
    t->takes_tokens = code == 200;
    rf_buf_free(&body);
    return s;
}

rf_status rf_load_probe(const rf_load_opts *o, const char *model, rf_load_target *t, rf_error *e) {
    rf_buf answer = {0};
    *t = (rf_load_target){0};
    rf_status s = probe_models(o, model, t, &answer, e);
    if (s == RF_OK && t->n_vocab == 0) s = probe_props(o, t, &answer, e);
    if (s == RF_OK && t->n_vocab > 0) s = probe_tokens(o, t, &answer, e);
    rf_buf_free(&answer);
    return s;
}
