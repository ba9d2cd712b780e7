/* load_idle.c - connections that do nothing while others work: each is opened by a request that leaves
 * it open, and tried by another one when the measurement is over.
 *
 * They live in the connection pool of a multi handle of their own; only IN_FLIGHT transfers exist. */
#include "cli/load.h"
#include "cli/load_http.h"

enum { IN_FLIGHT = 64, POLL_MS = 200, MAX_AGE_S = 86400, MAX_WAIT_S = 30 };

struct rf_load_idle {
    CURLM *multi;
    CURL *easy[IN_FLIGHT];
    struct curl_slist *headers;
    char url[600];
    size_t n;
};

static size_t on_body(char *p, size_t size, size_t n, void *unused) {
    (void)p, (void)unused;
    return size * n;
}

static rf_status open_easy(rf_load_idle *c, CURL **out, uint32_t timeout_s, rf_error *e) {
    CURL *curl = *out = rf_load_easy(c->headers, timeout_s < MAX_WAIT_S ? timeout_s : MAX_WAIT_S);
    if (!curl) return rf_fail_nomem(e, sizeof curl);
    curl_easy_setopt(curl, CURLOPT_URL, c->url);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_MAXAGE_CONN, (long)MAX_AGE_S);
    return RF_OK;
}

/* Whether the answer came, where `again` says so over a connection that was open before. */
static bool went_well(CURL *curl, CURLcode code, bool again) {
    long status = 0, n_opened = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &n_opened);
    return code == CURLE_OK && status == 200 && n_opened == (again ? 0 : 1);
}

/* One request per connection.  The first time each opens its own; again, each closes it when done, so
 * that the next one cannot take the same. */
static rf_status use_each(rf_load_idle *c, bool again, size_t *n_good, rf_error *e) {
    size_t n_started = 0, n_ended = 0, n_free = 0;
    CURL *unused[IN_FLIGHT];
    for (; n_free < IN_FLIGHT; n_free++) {
        unused[n_free] = c->easy[n_free];
        curl_easy_setopt(c->easy[n_free], CURLOPT_FRESH_CONNECT, again ? 0L : 1L);
        curl_easy_setopt(c->easy[n_free], CURLOPT_FORBID_REUSE, again ? 1L : 0L);
    }
    *n_good = 0;
    while (n_ended < c->n && !rf_cli_interrupted()) {
        int n_running, n_left;
        for (; n_free > 0 && n_started < c->n; n_started++)
            if (curl_multi_add_handle(c->multi, unused[--n_free]) != CURLM_OK)
                return rf_fail_nomem(e, sizeof *c);
        if (curl_multi_perform(c->multi, &n_running) != CURLM_OK)
            return rf_fail_nomem(e, sizeof *c);
        for (CURLMsg *m; (m = curl_multi_info_read(c->multi, &n_left));) {
            if (m->msg != CURLMSG_DONE) continue;
            CURL *curl = m->easy_handle;
            *n_good += went_well(curl, m->data.result, again);
            curl_multi_remove_handle(c->multi, curl);
            unused[n_free++] = curl;
            n_ended++;
        }
        if (n_running > 0) curl_multi_poll(c->multi, NULL, 0, POLL_MS, NULL);
    }
    return RF_OK;
}

rf_status rf_load_idle_open(rf_load_idle **out, const rf_load_opts *o, size_t *n_opened,
                            rf_error *e) {
    *out = NULL;
    rf_load_idle *c = rf_alloc(1, sizeof *c);
    if (!c) return rf_fail_nomem(e, sizeof *c);
    *out = c;
    c->n = o->n_idle;
    c->multi = curl_multi_init();
    if (!c->multi) return rf_fail_nomem(e, sizeof c->multi);
    curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)(c->n + IN_FLIGHT));
    snprintf(c->url, sizeof c->url, "%s/v1/models", o->url);
    RF_TRY(rf_load_headers(o->key, &c->headers, e));
    for (size_t k = 0; k < IN_FLIGHT; k++)
        RF_TRY(open_easy(c, &c->easy[k], o->timeout_s, e));
    return use_each(c, false, n_opened, e);
}

rf_status rf_load_idle_try(rf_load_idle *c, size_t *n_kept, rf_error *e) {
    return use_each(c, true, n_kept, e);
}

void rf_load_idle_close(rf_load_idle *c) {
    if (!c) return;
    for (size_t k = 0; k < IN_FLIGHT; k++) {
        if (c->multi && c->easy[k]) curl_multi_remove_handle(c->multi, c->easy[k]);
        curl_easy_cleanup(c->easy[k]);
    }
    if (c->multi) curl_multi_cleanup(c->multi);
    curl_slist_free_all(c->headers);
    rf_free(c);
}
