/* The web page as it is served: its headers, the sums in its policy, and that it needs nobody else. */
#include <nettle/base64.h>
#include <nettle/sha2.h>

#include "server/harness.h"

static rf_test_reply get_page(const under_test *t) {
    rf_test_reply r = rf_test_ask(t->url, "GET", "/", "", NULL);
    assert_int_equal(r.status, 200);
    return r;
}

/* How often the text occurs; case does not matter. */
static size_t count(const char *page, const char *text) {
    size_t n = 0;
    for (const char *p = page; (p = strcasestr(p, text)) != NULL; p++)
        n++;
    return n;
}

static void test_headers(void **state) {
    (void)state;
    under_test t = open_usual(1);
    rf_test_reply r = get_page(&t);
    char value[500];
    assert_string_equal(rf_test_header(&r, "Content-Type", value, sizeof value),
                        "text/html; charset=utf-8");
    assert_string_equal(rf_test_header(&r, "X-Content-Type-Options", value, sizeof value),
                        "nosniff");
    assert_string_equal(rf_test_header(&r, "Referrer-Policy", value, sizeof value), "same-origin");
    assert_non_null(rf_test_header(&r, "Content-Security-Policy", value, sizeof value));
    assert_int_equal(strncmp(value, "default-src 'none'; ", 20), 0);
    assert_null(strstr(value, "unsafe"));
    assert_null(strchr(value, '*'));
    static const char last[] = "require-trusted-types-for 'script'"; /* nothing was cut off */
    assert_string_equal(value + strlen(value) - strlen(last), last);
    rf_test_reply_free(&r);
    close_server(&t);
}

/* The policy's sum of the element is that of its text, and the page has it once. */
static void check_sum(const rf_test_reply *r, const char *tag, const char *directive) {
    char policy[500], open[20], close[20];
    uint8_t want[SHA256_DIGEST_SIZE], got[BASE64_DECODE_LENGTH(44)];
    snprintf(open, sizeof open, "<%s", tag);
    snprintf(close, sizeof close, "</%s", tag);
    assert_int_equal(count(r->body.p, open), 1);
    assert_int_equal(count(r->body.p, close), 1);
    const char *from = strchr(strcasestr(r->body.p, open), '>') + 1;
    struct sha256_ctx h;
    sha256_init(&h);
    sha256_update(&h, (size_t)(strcasestr(r->body.p, close) - from), (const uint8_t *)from);
    sha256_digest(&h, sizeof want, want);

    assert_non_null(rf_test_header(r, "Content-Security-Policy", policy, sizeof policy));
    const char *sum = strstr(policy, directive);
    assert_non_null(sum);
    sum += strlen(directive);
    assert_int_equal(strcspn(sum, "'"), 44);
    struct base64_decode_ctx d;
    size_t n = 0;
    base64_decode_init(&d);
    assert_true(base64_decode_update(&d, &n, got, 44, sum) && base64_decode_final(&d));
    assert_int_equal(n, sizeof want);
    assert_memory_equal(got, want, sizeof want);
}

static void test_sums(void **state) {
    (void)state;
    under_test t = open_usual(1);
    rf_test_reply r = get_page(&t);
    check_sum(&r, "script", "script-src 'sha256-");
    check_sum(&r, "style", "style-src 'sha256-");
    rf_test_reply_free(&r);
    close_server(&t);
}

/* No address outside the server, nothing that the policy forbids, nothing that makes markup of text. */
static void test_content(void **state) {
    (void)state;
    static const char *const banned[] = {
        "http:",     "https:",       "src=",           "url(",      "@import", "style=",
        " onclick=", "javascript:",  "innerHTML",      "outerHTML", "eval(",   "insertAdjacent",
        "srcdoc",    "new Function", "document.write", "\"//",      "'//",     "`//"};
    under_test t = open_usual(1);
    rf_test_reply r = get_page(&t);
    for (size_t i = 0; i < RF_COUNT(banned); i++)
        if (count(r.body.p, banned[i])) fail_msg("the page contains '%s'", banned[i]);
    assert_int_equal(count(r.body.p, "href="), 1);
    assert_int_equal(count(r.body.p, "href=\"data:,\""), 1);
    size_t n;
    uint8_t *file;
    rf_error e = {0};
    assert_int_equal(rf_file_read(RF_SOURCE_DIR "/src/server/page.html", 1 << 20, &file, &n, &e),
                     RF_OK);
    assert_int_equal(n, r.body.len);
    assert_memory_equal(file, r.body.p, n);
    rf_free(file);
    rf_test_reply_free(&r);
    close_server(&t);
}

/* Where keys are needed the page is still there, to ask for one; HEAD works as everywhere. */
static void test_with_keys(void **state) {
    (void)state;
    const char *path = rf_test_tmp("keys");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%064d user nobody\n", 1); /* the sum of no key that anybody knows */
    fclose(f);
    rf_server_opts o = usual_opts();
    o.keys_file = path;
    under_test t = open_server(1, &o);
    rf_test_reply r = get_page(&t);
    rf_test_reply_free(&r);
    r = rf_test_ask(t.url, "GET", "/models", "", NULL);
    assert_int_equal(r.status, 401);
    rf_test_reply_free(&r);
    r = rf_test_ask(t.url, "POST", "/", "", "{}");
    assert_int_equal(r.status, 405);
    rf_test_reply_free(&r);
    close_server(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_content),
        cmocka_unit_test(test_with_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
