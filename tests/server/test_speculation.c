/* test_speculation.c - speculation through the server: answers are the same with it and without, and
 * their timings and the metrics tell what was guessed. */
#include "server/harness.h"

#define ASK                                                                            \
    "\"prompt\":\"red, green, blue, red, green, blue, red, green\",\"max_tokens\":40," \
    "\"temperature\":0,\"ignore_eos\":true,\"guided_regex\":\"(, (red|green|blue)){30}\""

static double metric(const under_test *t, const char *name) {
    char line[100];
    snprintf(line, sizeof line, "\nrocmforge_%s ", name);
    rf_test_reply a = rf_test_ask(t->url, "GET", "/metrics", "", NULL);
    const char *p = strstr(a.body.p, line);
    if (!p) fail_msg("no metric %s", name);
    double value = strtod(p + strlen(line), NULL);
    rf_test_reply_free(&a);
    return value;
}

static double number(const rf_json *j, const char *path) {
    const rf_json *value = at(j, path);
    if (rf_json_kind(value) != RF_JSON_INT) fail_msg("%s is no whole number", path);
    return (double)rf_json_int(value);
}

/* req: C-16 */
static void test_same_answers(void **state) {
    (void)state;
    rf_server_opts o = usual_opts();
    o.engine.speculate = "ngram";
    under_test t = open_server(2, &o);
    rf_json *plain = post(&t, "/generate", "{" ASK ",\"speculate\":false}", 200);
    assert_true(number(plain, "timings.draft_n") == 0);
    assert_true(number(plain, "timings.draft_n_accepted") == 0);
    assert_true(metric(&t, "draft_tokens_total") == 0);
    rf_json *guessed = post(&t, "/generate", "{" ASK "}", 200);
    rf_str text = rf_json_str(at(plain, "text"));
    char want[1000];
    snprintf(want, sizeof want, "%.*s", (int)text.len, text.p);
    assert_text(guessed, "text", want);
    assert_true(text.len > 30);
    double n = number(guessed, "timings.draft_n"), ok = number(guessed, "timings.draft_n_accepted");
    assert_true(ok > 0 && n >= ok);
    assert_true(metric(&t, "draft_tokens_total") == n);
    assert_true(metric(&t, "draft_tokens_accepted_total") == ok);
    rf_json_free(plain);
    rf_json_free(guessed);
    rf_json_free(post(&t, "/generate", "{" ASK ",\"speculate\":1}", 400));
    close_server(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
