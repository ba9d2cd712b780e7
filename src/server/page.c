/* page.c - GET /: the web page, which lies in the program as page.html was written.
 *
 * The page holds one style and one script.  Their SHA-256 sums go into its Content-Security-Policy:
 * the browser runs these two and nothing else, talks to nobody but this server, and refuses to make
 * markup of text.  The page itself is open to everybody; what it asks for is not. */
#include <nettle/base64.h>
#include <nettle/sha2.h>
#include <string.h>

#include "server/routes.h"

/* Made of page.html by cmake/embed.cmake. */
extern const uint8_t rf_page_html[]; /* [rf_page_html_len] */
extern const size_t rf_page_html_len;

enum { SUM_CHARS = BASE64_ENCODE_RAW_LENGTH(SHA256_DIGEST_SIZE) };

/* What stands between <tag> and </tag>, which the page has once each. */
static rf_str find_element(const char *open, const char *close) {
    const char *page = (const char *)rf_page_html;
    const char *from = memmem(page, rf_page_html_len, open, strlen(open));
    RF_ASSERT(from);
    from += strlen(open);
    const char *to = memmem(from, rf_page_html_len - (size_t)(from - page), close, strlen(close));
    RF_ASSERT(to);
    return (rf_str){from, (size_t)(to - from)};
}

static void put_sum(rf_str text, char out[SUM_CHARS + 1]) {
    struct sha256_ctx h;
    uint8_t sum[SHA256_DIGEST_SIZE];
    sha256_init(&h);
    sha256_update(&h, text.len, (const uint8_t *)text.p);
    sha256_digest(&h, sizeof sum, sum);
    base64_encode_raw(out, sizeof sum, sum);
    out[SUM_CHARS] = 0;
}

void rf_route_page(rf_server *s, const rf_http_request *r, rf_str arg, rf_outbox *o) {
    (void)s, (void)r, (void)arg;
    char script[SUM_CHARS + 1], style[SUM_CHARS + 1];
    put_sum(find_element("<script>", "</script>"), script);
    put_sum(find_element("<style>", "</style>"), style);
    rf_outbox_add_header(o, "Content-Security-Policy",
                         "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; "
                         "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                         "frame-ancestors 'none'; require-trusted-types-for 'script'",
                         script, style);
    rf_outbox_add_header(o, "Referrer-Policy", "same-origin");
    rf_buf page = {0};
    rf_buf_put(&page, rf_page_html, rf_page_html_len);
    rf_api_answer(o, 200, "text/html; charset=utf-8", &page);
}
