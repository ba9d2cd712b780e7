/* load_http.h - what the load generator's transfers have in common.  Private to load_*.c. */
#pragma once
#include <curl/curl.h>

#include "base/base.h"

enum {
    RF_LOAD_MAX_IN_FLIGHT = 4096
}; /* with --rate; what arrives beyond waits, and its time counts */

/* A transfer with these headers: HTTP/1.1, straight to the server (no proxy), no redirects. */
CURL *rf_load_easy(struct curl_slist *headers, uint32_t timeout_s);
/* JSON, the key (NULL: none), and no wait for 100 Continue.  Free with curl_slist_free_all. */
RF_CHECKED rf_status rf_load_headers(const char *key, struct curl_slist **out, rf_error *e);
