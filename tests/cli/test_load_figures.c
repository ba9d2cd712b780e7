/* test_load_figures.c - what the load generator asks for and how it counts: lengths, arrivals and
 * leaving follow from the seed with the means asked for; percentiles are nearest-rank; an image holds
 * the samples it is given.  req: C-16 */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "cli/load_plot.c"   /* NOLINT: they belong to the program, not to the library */
#include "cli/load_report.c" /* NOLINT */
#include "cli/load_work.c"   /* NOLINT */
#include "lib/testlib.h"

enum { MANY = 20000 };

static void test_percentiles(void **state) {
    (void)state;
    rf_load_samples s = {0};
    assert_true(rf_load_percentile(&s, 50) == 0 && rf_load_mean(&s) == 0);
    for (int i = 0; i < 20; i++)
        assert_true(rf_load_sample(&s, (i * 7) % 20 + 1)); /* 1 to 20 in another order */
    rf_load_sort(&s);
    for (int i = 0; i < 20; i++)
        assert_true(s.p[i] == i + 1);
    assert_true(rf_load_mean(&s) == 10.5);
    static const double expected[][2] = {{0, 1},   {5, 1},   {5.1, 2}, {50, 10},
                                         {90, 18}, {95, 19}, {99, 20}, {100, 20}};
    for (size_t i = 0; i < RF_COUNT(expected); i++)
        assert_true(rf_load_percentile(&s, expected[i][0]) == expected[i][1]);
    rf_free(s.p);
}

static void test_no_memory(void **state) {
    (void)state;
    rf_load_samples s = {0};
    rf_alloc_fail_nth(1);
    assert_false(rf_load_sample(&s, 1));
    rf_alloc_fail_nth(0);
    assert_true(s.n == 0 && s.p == NULL);
}

static void test_lengths(void **state) {
    (void)state;
    const rf_load_work w = {.n_prompt = 100, .n_gen = 40, .spread = 0.25, .seed = 5, .cancel = 0.3};
    rf_load_work same = w, other = w;
    same.spread = 0;
    other.seed = 6;
    double sum = 0, n_leave = 0, sum_after = 0;
    size_t n_other = 0;
    for (uint64_t i = 0; i < MANY; i++) {
        uint32_t n = rf_load_answer_tokens(&w, i), after;
        assert_true(n >= 30 && n <= 50);
        assert_int_equal(rf_load_answer_tokens(&same, i), 40);
        n_other += rf_load_answer_tokens(&other, i) != n;
        sum += n;
        if (!rf_load_leaves(&w, i, &after)) continue;
        assert_true(after < n); /* before the end */
        n_leave++;
        sum_after += (double)after / n;
    }
    assert_true(fabs(sum / MANY - 40) < 0.3);
    assert_true(fabs(n_leave / MANY - 0.3) < 0.02);
    assert_true(fabs(sum_after / n_leave - 0.5) < 0.05);
    assert_true(n_other > MANY / 2);
}

static void test_arrivals(void **state) {
    (void)state;
    static double at[MANY];
    const rf_load_work w = {.seed = 1};
    rf_load_arrivals(&w, 50, MANY, at);
    double sum = 0, squares = 0;
    assert_true(at[0] == 0);
    for (size_t i = 1; i < MANY; i++) {
        double pause = at[i] - at[i - 1];
        assert_true(pause >= 0);
        sum += pause;
        squares += pause * pause;
    }
    double mean = sum / (MANY - 1);
    assert_true(fabs(mean * 50 - 1) < 0.03);
    /* of an exponential distribution the standard deviation is the mean */
    assert_true(fabs(sqrt(squares / (MANY - 1) - mean * mean) / mean - 1) < 0.05);
}

/* The ids of a prompt, as JSON has them. */
static rf_json *prompt_of(const rf_load_work *w, uint64_t i) {
    rf_buf body = {0};
    rf_json *j;
    rf_error e = {0};
    rf_load_body(w, "m", i, &body);
    assert_int_equal(rf_json_parse(&j, rf_buf_str(&body), &e), RF_OK);
    rf_buf_free(&body);
    return j;
}

static void test_prompts(void **state) {
    (void)state;
    const rf_load_work w = {.shared_prefix = true,
                            .n_prefix = 20,
                            .n_prompt = 5,
                            .n_gen = 3,
                            .as_tokens = true,
                            .n_vocab = 800};
    rf_json *a = prompt_of(&w, 1), *b = prompt_of(&w, 2);
    const rf_json *ids = rf_json_get(a, "prompt"), *others = rf_json_get(b, "prompt");
    assert_int_equal(rf_json_len(ids), 25);
    size_t n_equal = 0;
    for (size_t k = 0; k < 25; k++) {
        int64_t id = rf_json_int(rf_json_at(ids, k));
        assert_true(id >= 100 && id < 700);
        if (k < 20) assert_true(id == rf_json_int(rf_json_at(others, k)));
        if (k >= 20) n_equal += id == rf_json_int(rf_json_at(others, k));
    }
    assert_true(n_equal < 5);
    assert_int_equal(rf_json_int(rf_json_get(a, "max_tokens")), 3);
    rf_json_free(a);
    rf_json_free(b);
    rf_load_work text = w;
    text.as_tokens = false;
    a = prompt_of(&text, 1);
    rf_str words_of_it = rf_json_str(rf_json_get(a, "prompt"));
    size_t n_blanks = 0;
    for (size_t k = 0; k < words_of_it.len; k++)
        n_blanks += words_of_it.p[k] == ' ';
    assert_int_equal(n_blanks, 24);
    rf_json_free(a);
}

static size_t occurrences(const char *text, const char *what) {
    size_t n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static void test_plot(void **state) {
    (void)state;
    rf_load_result r[2] = {{.url = "http://a", .model = "<m&\">"}, {.url = "http://b"}};
    for (int i = 1; i <= 1000; i++)
        assert_true(rf_load_sample(&r[0].ttft, i) && rf_load_sample(&r[0].itl, 5));
    rf_buf svg = {0};
    rf_load_plot(r, 2, &svg); /* the second has no sample */
    assert_non_null(strstr(svg.p, "&#60;m&#38;&#34;&#62;"));
    assert_int_equal(occurrences(svg.p, "<path class=\"line\""), 2 + 2); /* and the legend */
    assert_null(strstr(svg.p, "nan"));
    assert_null(strstr(svg.p, "inf"));
    /* half of the samples lie left of 500 ms of 1039.5, at half the height */
    assert_non_null(strstr(svg.p, "H252.4V180.0"));
    rf_buf_free(&svg);
    rf_load_result_free(&r[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_lengths),     cmocka_unit_test(test_arrivals),
        cmocka_unit_test(test_prompts),     cmocka_unit_test(test_plot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
